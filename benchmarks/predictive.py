"""Time of an iteration of iLQR beside that of Crocoddyl, on the problem of `examples/trot_predictive.py` in a push.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 taskset -c 0 python benchmarks/predictive.py --crocoddyl PYTHON

PYTHON is an interpreter that has Crocoddyl, whose own Pinocchio may be another one than this environment's. Without it
only this library's time is measured. Both start from the controls of the plan of 20 ms before; Crocoddyl has knots for
impulses beside those of contacts. That both are the same problem is checked by rollouts of the same controls, and by
costs. (Contacts crash in the wheel of Crocoddyl 3.2.1 with Pinocchio 4.1: `pip install crocoddyl==3.2.0 pin==3.9.0
cmeel-urdfdom==4.0.1 "cmeel-tinyxml2<11"`.)
"""

import argparse
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

ITERATIONS, REPEATS = 6, 60


def shown(name: str, seconds: list[float], costs: list[float]) -> None:
    """Say times of an iteration and costs after iterations."""
    ms = 1e3 * np.array(seconds)
    print(f"{name:24}{ms.min():7.2f}{np.median(ms):8.2f} ms   cost {' '.join(f'{x:.4g}' for x in costs)}", flush=True)


def ours(file: Path) -> None:
    """Measure this library, and write the problem to a file."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    import trot_predictive as example

    import delassus as ds

    example.CONES = (
        0.0  # forces beyond cones cost nothing on either side, though this one still takes their derivatives
    )
    tree = example.go1()
    trot = example.Trot(tree, 0.5, np.array([0.0, example.PUSH, 0.0]), 0.5, passive="none")
    sim = ds.Simulator(example.on_floor(tree), dt=example.KNOT / example.SUB_STEPS, q0=trot.q0, passive="none")
    sim.run(0.7, trot)
    modes = trot.modes

    def of_all_feet(knots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Modes whose impacts bring all feet on the ground to rest, as Crocoddyl's do."""
        on, lands = modes(knots)
        return on, on & lands.any(axis=-1, keepdims=True)

    trot.modes = of_all_feet
    q, v, knot, before, first = sim.q, sim.v, sim.steps // example.SUB_STEPS, trot.plan, trot.first
    seconds = []
    for _ in range(REPEATS):
        trot.plan, trot.first = before, first
        began = time.process_time()
        trot.replan(q, v, knot)
        seconds.append(time.process_time() - began)
    trot.plan, trot.first = before, first
    plans = list(islice(trot.plans(q, v, knot), ITERATIONS + 1))
    shown("delassus, start and one", seconds, [plan.cost for plan in plans])
    print("    of which after the start", end="")
    began, rest = time.process_time(), []
    for _ in range(REPEATS):
        trot.plan, trot.first = before, first
        iterations = trot.plans(q, v, knot)
        next(iterations)
        began = time.process_time()
        next(iterations)
        rest.append(1e3 * (time.process_time() - began))
    print(f"{min(rest):7.2f}{np.median(rest):8.2f} ms")
    knots = np.arange(knot, knot + example.HORIZON)
    (on, lands), (swing, phase) = trot.modes(knots), example.swings(knots)
    np.savez(
        file, urdf=tree.to_urdf(), start=np.r_[q, v], q=plans[0].q, v=plans[0].v, cost=plans[0].cost,
        u=plans[0].controls[:, 6:], on=on, lands=lands, swing=swing, dt=example.KNOT, rates=trot.velocity,
        goals=trot.goal(np.append(knots, knots[-1] + 1)), standing=trot.standing, last=example.LAST,
        heights=example.FOOT_RADIUS + example.LIFT * np.sin(np.pi * phase) ** 2,
        weights=np.r_[example.POSTURE, example.RATES], effort=example.EFFORT, foot=example.FEET,
        feet=[f"{leg}_foot" for leg in example.LEGS],
    )  # fmt: skip


def theirs(file: Path) -> None:
    """Measure Crocoddyl."""
    import crocoddyl
    import pinocchio

    given = dict(np.load(file))
    model = pinocchio.buildModelFromXML(str(given["urdf"]))
    state, dt = crocoddyl.StateMultibody(model), float(given["dt"])
    actuation = crocoddyl.ActuationModelFloatingBase(state)
    feet = [model.getFrameId(str(name)) for name in given["feet"]]
    world = pinocchio.LOCAL_WORLD_ALIGNED

    def squared(costs: object, name: str, residual: object, weights: np.ndarray) -> None:
        weighted = crocoddyl.ActivationModelWeightedQuad(weights**2)
        costs.addCost(name, crocoddyl.CostModelResidual(state, weighted, residual), 1.0)

    def of_state(costs: object, t: int, controls: int, scale: float) -> object:
        goal = np.r_[given["goals"][t], given["rates"]]
        squared(costs, "state", crocoddyl.ResidualModelState(state, goal, controls), scale * given["weights"])
        for k in np.flatnonzero(given["swing"][t]) if t < len(given["swing"]) else ():
            to, along_z = np.array([0.0, 0.0, given["heights"][t, k]]), np.array([0.0, 0.0, 1.0])
            height = crocoddyl.ResidualModelFrameTranslation(state, feet[k], to, controls)
            squared(costs, f"height{k}", height, scale * given["foot"] * along_z)
        return costs

    def impact(t: int) -> object:
        impulses, costs = crocoddyl.ImpulseModelMultiple(state), crocoddyl.CostModelSum(state, 0)
        for k in np.flatnonzero(given["on"][t]):
            impulses.addImpulse(f"foot{k}", crocoddyl.ImpulseModel3D(state, feet[k], world))
        return crocoddyl.ActionModelImpulseFwdDynamics(state, impulses, of_state(costs, t, 0, 1.0))

    def step(t: int, begins: bool) -> object:
        costs, contacts = crocoddyl.CostModelSum(state, 12), crocoddyl.ContactModelMultiple(state, 12)
        for k in np.flatnonzero(given["on"][t]):
            contacts.addContact(f"foot{k}", crocoddyl.ContactModel3D(state, feet[k], np.zeros(3), world, 12))
        if begins:  # costs of an integrated model are those times the time step
            of_state(costs, t, 12, dt**-0.5)
        torque = crocoddyl.ResidualModelControl(state, given["standing"])
        squared(costs, "torque", torque, dt**-0.5 * given["effort"] * np.ones(12))
        of = crocoddyl.DifferentialActionModelContactFwdDynamics(state, actuation, contacts, costs, 0.0, False)
        return crocoddyl.IntegratedActionModelEuler(of, dt)

    models, us, at = [], [], []
    for t, u in enumerate(given["u"]):
        at.append(len(models))
        strikes = given["lands"][t].any()
        if strikes:
            models.append(impact(t))
            us.append(np.zeros(0))
        models.append(step(t, not strikes))
        us.append(u)
    costs = of_state(crocoddyl.CostModelSum(state, 12), len(at), 12, float(given["last"]))
    end = crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, costs)
    problem = crocoddyl.ShootingProblem(given["start"], models, crocoddyl.IntegratedActionModelEuler(end, 0.0))
    xs = list(problem.rollout(us))
    off = np.abs(np.concatenate([given["q"], given["v"]], axis=-1) - np.array(xs)[[*at, -1]]).max()
    cost = problem.calc(xs, us)
    print(
        f"the same controls lead to states that differ by {off:.1e}, at a cost of {cost:.6g}, here {given['cost']:.6g}"
    )
    for name in ("SolverFDDP", "SolverDDP"):
        seconds, costs = [], []
        for _ in range(REPEATS):
            solver = getattr(crocoddyl, name)(problem)
            began = time.process_time()
            solver.solve(xs, us, 1, True, 1e-9)
            seconds.append(time.process_time() - began)
        for k in range(ITERATIONS + 1):
            solver = getattr(crocoddyl, name)(problem)
            solver.solve(xs, us, k, True, 1e-9)
            costs.append(solver.cost if k else cost)
        shown(f"Crocoddyl {crocoddyl.__version__}, {name[6:]}", seconds, costs)


def main() -> None:
    """Measure, here or in the other interpreter."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crocoddyl", help="an interpreter that has Crocoddyl", default=sys.executable)
    parser.add_argument("--problem", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.problem:
        theirs(options.problem)
        return
    with TemporaryDirectory() as folder:
        file = Path(folder) / "problem.npz"
        ours(file)
        if subprocess.run([options.crocoddyl, "-c", "import crocoddyl"], capture_output=True).returncode:
            print("Crocoddyl is not measured: that interpreter does not have it")
            return
        subprocess.run([options.crocoddyl, __file__, "--problem", str(file)], check=True)


if __name__ == "__main__":
    main()
