"""The simulator and what it is made of, handled wrongly: errors that name the culprit; recordings that add up."""

from __future__ import annotations

import dataclasses
import gc
import pickle
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import delassus as ds
from delassus.contact import (
    LCP,
    Box,
    Collider,
    ConeProblem,
    ContactDynamics,
    ContactProblem,
    ContactSet,
    HalfSpace,
    Mesh,
    SolverStatus,
    Sphere,
    State,
    admm,
    convex,
    formulate,
    frames_of,
    lemke,
    nsgs,
    pgs,
    solve_mixed,
)
from delassus.errors import ConfigurationError, DelassusError, DelassusWarning, ModelError
from internals import ImpulseSolver, RawJoint, RawLink, Recorder, build_tree, joint_kinds

pytest.importorskip("coal")

IDENTITY = (0.0, 0.0, 0.0, 1.0)
BALL = ds.mechanisms.free_body(1.0, Sphere(0.1).inertia(1.0))
ON_BALL = Collider("body", Sphere(0.1))
FLOOR = Collider("world", HalfSpace(), name="floor")
UP = frames_of([[0, 0, 1]])


@pytest.mark.parametrize("seed, dt", [(0, 1e-3), (1, 1e-2), (2, 1e-4)])
def test_servos_without_gains_hold_any_robot_where_it_starts(seed: int, dt: float) -> None:
    """Slides, turned axes, links of 1 g beside those of 10 kg, motors that just carry them; and after a push."""
    rng = np.random.default_rng(seed)
    links, joints = [RawLink("world")], []
    for k in range(5):
        mass, size = 10.0 ** rng.uniform(-3, 1), rng.uniform(0.02, 0.3)
        links.append(RawLink(f"l{k}", mass, rng.uniform(-size, size, 3), mass * size**2 * np.eye(3)))
        kind = joint_kinds.PRISMATIC if k == 2 else joint_kinds.REVOLUTE
        joints.append(RawJoint(f"j{k}", kind, links[max(k - 1, 0) if k == 3 else k].name, f"l{k}",
                               rng.uniform(-0.3, 0.3, 3), axis=rng.normal(size=3)))  # fmt: skip
    tree = build_tree("arm", links, joints)
    start = rng.uniform(-1.0, 1.0, tree.nq)
    load = np.abs(ds.bias_force(tree, start, np.zeros(tree.nv)))
    strong = [replace(j, effort_limit=np.array([2.0 * x + 1e-3])) for j, x in zip(tree.joints, load, strict=True)]
    sim = ds.Simulator(ds.Scene(replace(tree, joints=tuple(strong)), start=start), control="pd", dt=dt)
    sim.run(0.2)
    assert np.abs(sim.q - start).max() < 1e-6 and np.abs(sim.v).max() < 1e-6
    sim.v = 0.02 * rng.normal(size=tree.nv) * np.minimum(1.0, load / sim.kd)
    for _ in range(round(1.0 / dt)):
        sim.step()
        assert (np.abs(sim.tau) <= 2.0 * load + 1e-3).all()
    assert np.abs(sim.q - start).max() < 1e-3 and np.abs(sim.v).max() < 1e-3


@pytest.fixture(scope="module")
def scene() -> ds.Scene:
    return ds.Scene(BALL, [ON_BALL, FLOOR])


def simulator(scene: ds.Scene, **options: Any) -> ds.Simulator:
    return ds.Simulator(scene, **{"q0": [0, 0, 0.1, *IDENTITY], **options})


@pytest.mark.parametrize(
    ("named", "options"),
    [
        ("overlap", {"q0": [0, 0, 0.05, *IDENTITY]}),
        ("q0", {"q0": [0, 0, np.nan, *IDENTITY]}),
        ("one state", {"q0": [[0, 0, 0.1, *IDENTITY]] * 2}),
        ("quaternion", {"q0": [0, 0, 0.1, 0, 0, 0, 2]}),
        ("v0", {"v0": [np.inf, 0, 0, 0, 0, 0]}),
        ("v0", {"v0": [0] * 5}),
        ("dt", {"dt": 0}),
        ("dt", {"dt": -1e-3}),
        ("dt", {"dt": np.nan}),
        ("n_directions", {"n_directions": 0}),
        ("n_directions", {"n_directions": 3}),
        ("n_directions", {"n_directions": 4.0}),
        ("formulation", {"formulation": "oss"}),
        ("formulation", {"formulation": ["os"]}),
        ("solver", {"solver": "lemk"}),
        ("solver", {"solver": ["lemke"]}),
        ("seed", {"seed": -1}),
        ("seed", {"seed": 1.5}),
        ("seed", {"seed": "a"}),
        ("tolerance", {"tolerance": 0}),
        ("correction", {"correction": 2}),
    ],
)
def test_options_and_starts_that_make_no_sense(scene: ds.Scene, named: str, options: dict[str, Any]) -> None:
    with pytest.raises(DelassusError, match=named):
        simulator(scene, **options)


def test_whole_numbers_may_be_those_of_numpy(scene: ds.Scene) -> None:
    assert simulator(scene, n_directions=np.int64(8), seed=np.int64(3)).options["seed"] == 3


@pytest.mark.parametrize(("steps_of_gravity", "bounces"), [(1.9, False), (2.1, True)])
def test_a_contact_rests_up_to_what_gravity_brings_in_two_steps(steps_of_gravity: float, bounces: bool) -> None:
    hard = [Collider("body", Sphere(0.1), restitution=1.0), Collider("world", HalfSpace(), restitution=1.0)]
    sim = ds.Simulator(ds.Scene(BALL, hard), q0=[0, 0, 0.1, *IDENTITY], v0=[0, 0, -steps_of_gravity * 9.81e-3, 0, 0, 0])
    sim.step()
    assert bool(sim.v[2] > 1e-3) is bounces


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "tau", ["abc", [0] * 5, np.zeros((1, 6)), np.zeros((3, 6)), [np.nan] * 6, [np.inf, -np.inf, 0, 0, 0, 0],
            np.zeros(6) + 1j, [None] * 6, {}],
)  # fmt: skip
def test_forces_that_make_no_sense(scene: ds.Scene, tau: Any) -> None:
    sim = simulator(scene)
    with pytest.raises(ConfigurationError, match="tau"):
        sim.step(tau)
    with pytest.raises(ConfigurationError, match="tau"):
        sim.run(0.01, lambda _: tau)
    assert sim.steps == 0


def test_forces_of_other_types_and_layouts_are_the_same_forces(scene: ds.Scene) -> None:
    wanted, *others = ([3, 0, 20, 0, 0, 0], np.array([3, 0, 20, 0, 0, 0]), np.repeat([3.0, 0, 20, 0, 0, 0], 2)[::2])
    sims = [simulator(scene) for _ in range(3)]
    for sim, tau in zip(sims, (wanted, *others), strict=True):
        sim.step(tau)
        assert np.array_equal(sim.v, sims[0].v)
        assert sim.v[0] > 0


def test_a_controller_is_a_function(scene: ds.Scene) -> None:
    with pytest.raises(ConfigurationError, match="controller"):
        simulator(scene).run(0.01, np.zeros(6))  # type: ignore[arg-type]


def test_a_state_is_all_of_it(scene: ds.Scene) -> None:
    sim = simulator(scene)
    state = sim.get_state()
    for bad in ({"q": state["q"]}, {**state, "q": np.zeros(3)}, {**state, "v": np.zeros((2, 6))}):
        with pytest.raises(ConfigurationError):
            sim.set_state(bad)
    sim.set_state(state)


def test_all_pairs_that_overlap_at_the_start_are_named() -> None:
    scene = ds.Scene(
        {"a": BALL, "b": BALL},
        [Collider("a/body", Sphere(0.1), name="first"), Collider("b/body", Sphere(0.1), name="second"), FLOOR],
    )
    q0 = scene.configuration(a=[0, 0, 0.05, *IDENTITY], b=[1, 0, 0.06, *IDENTITY])
    with pytest.raises(ConfigurationError, match=r"'first' and 'floor'.*'second' and 'floor'"):
        ds.Simulator(scene, q0=q0)


def test_loops_that_are_open_at_the_start() -> None:
    weld = ds.Weld(ds.Frame("a/body"), ds.Frame("b/body"))
    scene = ds.Scene({"a": BALL, "b": BALL}, loops=[weld], gravity=(0, 0, 0))
    q0 = scene.configuration(b=[0.05, 0, 0, *IDENTITY])
    with pytest.raises(ConfigurationError, match=r"open by 0\.05"):
        ds.Simulator(scene, q0=q0)
    sim = ds.Simulator(scene, q0=q0, max_overlap=1.0)
    sim.run(0.1)
    assert np.abs(sim.dynamics.at(sim.q, sim.v, np.zeros(12)).loop_errors).max() < 1e-6
    assert sum(sim.energy()) == pytest.approx(0.0, abs=1e-20)  # pulled together without velocity


@pytest.mark.parametrize(
    "make",
    [
        lambda: ds.Scene(BALL, ON_BALL),
        lambda: ds.Scene(BALL, 3),
        lambda: ds.Scene(BALL, ["a"]),
        lambda: ds.Scene(BALL, [Collider("bdy", Sphere(0.1))]),
        lambda: ds.Scene({1: BALL}),
        lambda: ds.Scene([BALL]),
        lambda: ds.Scene(BALL, gravity=-9.81),
        lambda: ds.Scene(BALL, ignore=3),
        lambda: ds.Scene(BALL, ignore=("body", "world")),
        lambda: ds.Scene(BALL, loops=[ds.Weld(ds.Frame("body"), ds.Frame("body", (1, 0, 0)))]),
        lambda: ds.Scene(BALL).configuration(arm=[0]),
        lambda: ds.mechanisms.free_body(0.0, np.zeros(3)),
        lambda: Collider("body", Sphere(0.1), friction=-1),
        lambda: Collider("body", Sphere(0.1), restitution=1.1),
        lambda: Collider("body", Sphere(0.1), restitution=np.nan),
        lambda: Sphere(0.0),
        lambda: Box(1, -1, 1),
        lambda: Mesh(np.eye(4, 3), "abc"),
        lambda: Mesh(np.eye(4, 3), [[0.5, 1, 2]]),
        lambda: Mesh(np.eye(4, 3), np.zeros((0, 3), int)),
        lambda: Mesh(np.eye(4, 3), [[0, 1, 9]]),
        lambda: ContactSet([[np.nan, -1]], [[0, 0, 0]], UP),
        lambda: ContactSet([[0.7, -1]], [[0, 0, 0]], UP),
        lambda: ContactSet([0, -1, 1], [[0, 0, 0]], UP),
        lambda: ContactSet("ab", [[0, 0, 0]], UP),
        lambda: ContactSet([[0, -1]], [[0, 0, 0]], UP, colliders=[[1, 2, 3]]),
        lambda: ContactSet([[0, -1]], [[0, 0, 0]], UP, colliders="a"),
        lambda: frames_of([[0, 0, 0]]),
        lambda: frames_of([[0, 0, 2]]),
        lambda: frames_of([0, 1]),
        lambda: lemke(ConeProblem(np.eye(3), np.zeros(3), 0.5)),  # type: ignore[arg-type]
        lambda: pgs(ConeProblem(np.eye(3), np.zeros(3), 0.5)),  # type: ignore[arg-type]
        lambda: nsgs(LCP([[1]], [1])),  # type: ignore[arg-type]
        lambda: admm(LCP([[1]], [1])),  # type: ignore[arg-type]
        lambda: convex(LCP([[1]], [1])),  # type: ignore[arg-type]
        lambda: solve_mixed(LCP([[1]], [1])),  # type: ignore[arg-type]
    ],
)
def test_parts_of_scenes_that_make_no_sense(make: Callable[[], Any]) -> None:
    with pytest.raises(DelassusError):
        make()


def test_a_point_mass_that_floats_is_refused() -> None:
    with pytest.raises(ModelError, match="inertia"):
        ds.Simulator(ds.Scene(ds.mechanisms.free_body(1.0, np.zeros(3))))


def test_configurations_without_inertia_along_a_joint() -> None:
    """An arm without mass but at its tip, which comes to its shoulder where the elbow is folded, on a slide."""
    axis = np.array([0.0, 1.0, 0.0])
    links = [RawLink("rail"), RawLink("slide", 1.0), RawLink("upper"), RawLink("lower", 1.0, np.array([1.0, 0, 0]))]
    joints = [
        RawJoint("along", joint_kinds.PRISMATIC, "rail", "slide", axis=axis),
        RawJoint("shoulder", joint_kinds.REVOLUTE, "slide", "upper", axis=axis),
        RawJoint("elbow", joint_kinds.REVOLUTE, "upper", "lower", position=np.array([1.0, 0, 0]), axis=axis),
    ]
    arm = ds.Scene(build_tree("arm", links, joints))
    with pytest.raises(ModelError, match=r"link 'upper'.*inertia along its joint"):
        ds.Simulator(arm, q0=[0, 0.1, np.pi])
    sim = ds.Simulator(arm, q0=[0, 0.1, 1.0], v0=[0, 0, -1.0])
    state = sim.get_state()
    sim.step()
    assert sim.status is SolverStatus.CONVERGED
    sim.set_state({**state, "q": [0, 0.1, np.pi - 1e-7]})
    sim.step()
    assert sim.status is SolverStatus.SINGULAR_MASS and sim.statuses[sim.status] == 1
    sim.set_state({**state, "q": [0, 0.1, np.pi]})
    with pytest.raises(ConfigurationError, match=r"link 'upper'.*inertia along its joint"):
        sim.run(0.1)
    assert np.isfinite(sim.q).all()


@pytest.mark.parametrize("n", [2, 4])
def test_simulations_that_leave_what_can_be_computed_name_a_link(n: int) -> None:
    """Forces that grow with velocities: mass matrices become NaN at once, or after some steps."""
    for size in (1e3, 1e100, 1e150):
        sim = ds.Simulator(ds.Scene(ds.mechanisms.pendulum(n)), v0=np.full(n, size), dt=1e-2)
        with pytest.raises(ConfigurationError, match=r"velocity of link 'rod\d'.*finite numbers"):
            for _ in range(1000):
                sim.step(1e3 * sim.v)
    ds.Simulator(ds.Scene(ds.mechanisms.pendulum(n)), q0=np.full(n, 1e200))  # starts, as with one joint


def test_formulate_as_it_is_usually_called(scene: ds.Scene) -> None:
    state = State([0, 0, 0.1, *IDENTITY], np.zeros(6))
    problem = formulate(scene, state, "os")
    assert problem.dt == 1e-3
    assert problem.matrix.shape == (problem.size, problem.size)
    assert problem.solve().impulses[0, 2] == pytest.approx(9.81e-3)
    with pytest.raises(DelassusError, match="formulation"):
        formulate(scene, state, ["os"])  # type: ignore[arg-type]
    with pytest.raises(DelassusError, match="solver"):
        problem.solve(["lemke"])


def test_compiled_code_does_not_read_past_the_ends_of_arrays() -> None:
    snapshot = ContactDynamics(ds.Scene(ds.mechanisms.pendulum(3))).at(np.zeros(3), np.zeros(3), np.zeros(3))
    with pytest.raises(ConfigurationError, match="links of contacts"):
        snapshot.rows(ContactSet([[3, -1]], [[0, 0, 0]], UP))
    with pytest.raises(ValueError, match="mismatch"):
        snapshot.rows(ContactSet([[2, -1]], [[0, 0, 0]], UP)).response(np.zeros(1))


def test_what_is_recorded_adds_up() -> None:
    """The impulses of all steps are the change of momentum; energies and counts are those of the simulator."""
    shape, mass = Box(0.3, 0.2, 0.1), 2.0
    scene = ds.Scene(
        ds.mechanisms.free_body(mass, shape.inertia(mass)), [Collider("body", shape, restitution=0.5), FLOOR]
    )
    turn = np.array([0.2, -0.1, 0.3, 0.9])
    sim = ds.Simulator(scene, q0=[0, 0, 0.4, *turn / np.linalg.norm(turn)], v0=[0.3, 0, 0, 1, 0, 0], dt=1e-3)
    before = np.asarray(ds.momentum(scene.tree, sim.q, sim.v))[:3]
    problems = 0
    recorder = Recorder(every=3)
    recorder.start(sim)
    for _ in range(600):
        sim.step()
        recorder.add(sim)
        problems += len(sim.impulses) > 0
    recording = recorder.finish(sim)
    after = np.asarray(ds.momentum(scene.tree, sim.q, sim.v))[:3]
    weight = np.array([0, 0, -mass * 9.81 * sim.time])
    assert problems > 50
    np.testing.assert_allclose(recording.contact_impulses.sum(axis=0), after - before - weight, atol=1e-9)
    assert recording.energy[-1] == pytest.approx(sum(sim.energy()), abs=1e-12)
    assert len(set(recording.contact_times.tolist())) == problems
    assert recording.time[-1] == pytest.approx(0.6)
    assert np.array_equal(recording.q[-1], sim.q)


def test_energies_are_those_of_the_whole_tree() -> None:
    """Of free bodies whose centres of mass are beside their origins, and of arms with springs, all turned."""
    rng = np.random.default_rng(0)
    names = ["a", "b", "upper", "lower"]
    bodies = [RawLink(name, 1.0 + k, rng.normal(size=3), 9.0 * np.eye(3)) for k, name in enumerate(names)]
    joints = [RawJoint(f"free_{x}", joint_kinds.FREE, "ground", x) for x in names[:2]]
    for parent, child in (("ground", "upper"), ("upper", "lower")):
        joints.append(RawJoint(child, joint_kinds.REVOLUTE, parent, child, rng.normal(size=3), stiffness=3.0))
    tree = build_tree("two bodies and an arm", [RawLink("ground"), *bodies], joints)
    q, v = tree.random(rng), rng.normal(size=tree.nv)
    sim = ds.Simulator(ds.Scene(tree, [FLOOR]), q0=q, v0=v, dt=1e-11)
    wanted = ds.kinetic_energy(tree, q, v), ds.potential_energy(tree, q)
    assert sim.energy() == pytest.approx(wanted, rel=1e-9)  # places are half a step before


def test_energy_of_a_pendulum_is_of_second_order() -> None:
    """That at the time of the velocities: with velocities and places half a step apart it wavers by ``g v dt / 2``."""
    scene, swings = ds.Scene(ds.mechanisms.pendulum(1)), list[float]()
    for dt in (4e-3, 2e-3):
        sim = ds.Simulator(scene, q0=[1.0], v0=[0.0], dt=dt)
        energies = list[float]()
        for _ in range(round(1.0 / dt)):
            sim.step()
            energies.append(sum(sim.energy()))
        swings.append(float(np.ptp(energies)))
    assert 3.0 < swings[0] / swings[1] < 5.0


@pytest.mark.slow
@pytest.mark.parametrize(("solver", "other"), [("interior", "nsgs"), ("lemke", "nsgs"), ("admm", "nsgs")])
def test_what_one_solver_cannot_solve_is_given_to_another(
    solver: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A box slides on four corners; solvers fail because the test says so. A failure of both is reported."""
    shape = Box(0.3, 0.2, 0.1)
    scene = ds.Scene(ds.mechanisms.free_body(2.0, shape.inertia(2.0)), [Collider("body", shape), FLOOR])
    solve, asked, failing = ImpulseSolver._solved, [], {solver}
    troubles = [SolverStatus.ITERATION_LIMIT]

    def perhaps(self: ImpulseSolver, name: str, *problem: Any) -> Any:
        asked.append(name)
        found = solve(self, name, *problem)
        status = troubles[len(asked) // 8 % len(troubles)]
        return found._replace(p=0 * found.p, status=status) if name in failing else found

    monkeypatch.setattr(ImpulseSolver, "_solved", perhaps)
    sim = ds.Simulator(scene, solver=solver, q0=[0, 0, 0.05, *IDENTITY], v0=[1, 0.3, 0, 0, 0, 0.5])
    sim.step()
    assert asked == [solver, other]
    assert sim.status is SolverStatus.CONVERGED
    assert sim.impulses[:, 2].sum() == pytest.approx(2.0 * 9.81e-3)
    failing.add(other)
    with pytest.warns(DelassusWarning, match="1 contact problems in 1 steps.*max_iterations.* dt.*solver="):
        sim.run(1e-3)
    assert sim.status is SolverStatus.ITERATION_LIMIT
    troubles.append(SolverStatus.NUMERICAL_TROUBLE)
    with pytest.warns(DelassusWarning, match=" contact problems in 12 steps") as caught:  # each status by itself
        sim.run(12e-3)
    counts = {
        status: [int(str(x.message).split()[0]) for x in caught if status.text in str(x.message)] for status in troubles
    }
    assert len(caught) == 2 and sum(map(sum, counts.values())) == 12 and all(map(len, counts.values()))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_a_solver_raises_ends_a_run_that_can_go_on(
    scene: ds.Scene, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error("here")

    sim = simulator(scene, solver="nsgs")
    sim.run(0.01)
    before, twin = sim.q, pickle.loads(pickle.dumps(sim))
    with monkeypatch.context() as patch, pytest.raises(error, match="here"):
        patch.setattr(ContactProblem, "solve", fail)
        sim.run(0.01)
    assert np.array_equal(sim.q, before)
    sim.run(0.01)
    twin.run(0.01)
    assert np.array_equal(sim.q, twin.q)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="a timer that interrupts")
def test_interrupts_reach_steps_wherever_they_come(scene: ds.Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    sim, lost = simulator(scene, solver="nsgs"), list[Any]()
    sim.run(0.1)  # code is compiled; no garbage is left whose end would lose an interrupt, as Python's ends do
    gc.collect()
    gc.disable()
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for k in range(30):
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 1e-3 + 1e-4 * k)
                sim.run(10.0)
    finally:
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    sim.run(0.01)
    assert not lost and sim.status is SolverStatus.CONVERGED


def test_a_scene_is_what_its_fields_make(scene: ds.Scene) -> None:
    arms = {"left": ds.mechanisms.pendulum(2), "right": ds.mechanisms.pendulum(1)}
    several = ds.Scene(arms, [], loops=[ds.Point("left/rod2", "right/rod1")], ignore=[("left/rod1", "right/rod1")])
    polyhedral = ConeProblem(np.eye(3), np.zeros(3), 0.5).polyhedral()
    for one in (scene, several, polyhedral):
        again = dataclasses.replace(one)
        for field in dataclasses.fields(one):
            old, new = getattr(one, field.name), getattr(again, field.name)
            if field.name == "tree":
                assert new.fingerprint == old.fingerprint
            else:
                np.testing.assert_equal(new, old)
    lighter = dataclasses.replace(several, gravity=(0, 0, -1.62))
    assert lighter.tree.gravity.tolist() == [0, 0, -1.62] and lighter.loops == several.loops


@pytest.mark.filterwarnings("ignore")
def test_speeds_that_cannot_be_computed_are_named(scene: ds.Scene) -> None:
    """A ball of 1e200 m/s; and a box that spins and strikes the floor so fast that float64 does not hold impulses."""
    down = {"q0": [0, 0, 0.1, *IDENTITY], "v0": [3e199, 0, -1e200, 0, 0, 3e199]}
    with pytest.raises(ds.DelassusError, match=r"reach of link '[\w/]+': .* check velocities, forces"):
        ds.Simulator(scene, **down).step()
    shape = Box(0.3, 0.2, 0.1)
    box = ds.Scene(ds.mechanisms.free_body(2.0, shape.inertia(2.0)), [Collider("body", shape), FLOOR])
    for formulation in ("blocks", "os"):
        with pytest.raises(ds.DelassusError, match="of link 'body': expected finite numbers"):
            ds.Simulator(box, formulation=formulation, **{**down, "q0": [0, 0, 0.05, *IDENTITY]}).run(3e-3)
    sim = ds.Simulator(box, q0=[0, 0, 0.05, *IDENTITY])
    sim.step()
    sim.q[0] = np.nan  # in place, which nothing checks; near pairs are known from the step before
    with pytest.raises(ds.DelassusError, match="pose of link 'body': expected finite numbers"):
        sim.step()


def test_controls_of_another_kind_are_named():
    """As many numbers as actuators, or as a configuration has, are neither guessed at nor refused without a word."""
    body = ds.mechanisms.free_body(1.0, (0.1, 0.1, 0.1))
    with pytest.raises(ds.DelassusError, match="control='pd'"):
        ds.Simulator(ds.Scene(body)).step(np.zeros(7))


DIFFERENCE, TRUNCATED = 1e-6, 1e-4
"""Time over which motion is a velocity (s), and what of velocities of order 10 is curvature or round-off by then."""


@pytest.mark.parametrize("reference", ["local-world-aligned", "local", "world"])
def test_twists_are_set_along_the_axes_of_the_world(reference):
    """Of bodies, robots and links, wherever they are, however turned: places after a moment are those of the twist."""
    rng, chain = np.random.default_rng(0), ds.mechanisms.chain(3, root="floating")
    scene = ds.Scene({"snake": chain, "post": ds.mechanisms.pendulum(1)})
    scene = scene.add("ball", Sphere(0.1), mass=1.0)
    tree = scene.tree
    frame = ds.Frame("snake/link2", (0.1, 0.2, 0.3), Rotation.random(rng=rng).as_matrix())
    sim = ds.Simulator(scene, q0=tree.random(1), v0=rng.normal(size=tree.nv))
    links = {"snake": "snake/" + chain.link_names[0], "ball": "ball/body", "snake/link2": "snake/link2", frame: frame}
    for name, link in links.items():
        before, wanted = sim.v, rng.normal(size=6)
        sim.set_twist(name, wanted, reference=reference)
        assert np.allclose(sim.twist(name, reference=reference), wanted, atol=1e-12)
        others = np.ones(tree.nv, dtype=bool)
        others[scene.v_slice("ball" if name == "ball" else "snake")][:6] = False
        assert np.array_equal(sim.v[others], before[others])
        start, end = (
            ds.forward_kinematics(tree, tree.integrate(sim.q, t * sim.v), link) for t in (-DIFFERENCE, DIFFERENCE)
        )
        turn = Rotation.from_matrix(end[:3, :3] @ start[:3, :3].T).as_rotvec() / (2 * DIFFERENCE)
        slide, at = (end[:3, 3] - start[:3, 3]) / (2 * DIFFERENCE), ds.forward_kinematics(tree, sim.q, link)
        R, p = at[:3, :3], at[:3, 3]
        at_origin = slide + np.cross(p, turn)
        parts = {"local-world-aligned": (slide, turn), "local": (R.T @ slide, R.T @ turn), "world": (at_origin, turn)}
        assert np.allclose(np.concatenate(parts[reference]), wanted, atol=TRUNCATED)
    with pytest.raises(
        ds.DelassusError, match="name: expected what a free joint carries, and no body that you move, got 'post'"
    ):
        sim.set_twist("post", np.zeros(6))
    with pytest.raises(ds.DelassusError, match="twist: expected"):
        sim.set_twist("ball", np.zeros(3))
    with pytest.raises(ds.DelassusError, match="Did you mean 'ball"):
        sim.twist("bal")


LED = 1e-9
"""Differences (m) after 0.3 s at a tolerance of 1e-10 m/s, and thirty times that for hits; 1e-13 is seen."""


def led(scene: ds.Scene, name: str, path: Callable[[float], Any], duration: float, **options: Any) -> ds.Simulator:
    """Simulator after a body went along a path."""
    sim = ds.Simulator(scene, **{"tolerance": 1e-10, **options})
    for k in range(round(duration / sim.dt)):
        sim.move(name, path((k + 1) * sim.dt))
        sim.step()
        assert np.allclose(sim.q[scene.q_slice(name)][:3], path((k + 1) * sim.dt)[:3], rtol=0, atol=0)
    return sim


def on_a_slab(friction: float = 0.5, **slab: Any) -> ds.Scene:
    """A crate of 2 kg on a slab."""
    box = Box(0.2, 0.2, 0.2)
    scene = ds.Scene({"crate": ds.mechanisms.free_body(2.0, box.inertia(2.0))}, [Collider("crate/body", box)])
    return scene.add("slab", Box(6, 6, 0.1), at=(0, 0, -0.15), **slab).with_material(friction=friction)


def test_a_lift_carries_its_load_with_the_force_of_its_acceleration() -> None:
    """Upwards at 2 m/s²: m (g + a) on the crate, which has the velocity of the lift; both energies are the crate's."""
    sim = led(on_a_slab(moved=True), "slab", lambda t: (0, 0, -0.15 + t * t), 0.3)
    speed = (0.3**2 - 0.299**2) / 1e-3  # the mean over the last step
    assert np.allclose(sim.twist("slab"), [0, 0, speed, 0, 0, 0]) and np.allclose(sim.twist("crate"), sim.twist("slab"))
    assert sim.impulses[:, 2].sum() == pytest.approx(2.0 * (9.81 + 2.0) * 1e-3)
    (load,) = sim.sensors(ds.Sensor("load", "touch", "slab/body"))["load"]
    assert load == pytest.approx(2.0 * (9.81 + 2.0))
    assert sim.energy().kinetic == pytest.approx(0.5 * 2.0 * speed**2)
    assert sim.energy().potential == pytest.approx(2.0 * 9.81 * (0.09 - 0.5e-3 * speed))  # half a step before
    where = sim.q.copy()
    sim.run(0.003)  # nobody moves it: it stands still, and the crate flies on
    assert np.array_equal(sim.q[7:], where[7:]) and not sim.twist("slab").any() and sim.twist("crate")[2] > 0.5


@pytest.mark.parametrize(("acceleration", "carried"), [(3.0, 3.0), (8.0, 0.5 * 9.81)])
def test_friction_of_a_carriage_takes_its_load_along(acceleration: float, carried: float) -> None:
    """Up to μ g: the load has the acceleration of the carriage, or that of friction."""
    sim = led(on_a_slab(moved=True), "slab", lambda t: (0.5 * acceleration * t * t, 0, -0.15), 0.2)
    assert sim.twist("crate")[0] == pytest.approx(carried * 0.2, rel=0.01)
    assert abs(sim.impulses[:, 0].sum()) + abs(sim.impulses[:, 1].sum()) == pytest.approx(2 * carried * 1e-3, rel=1e-6)


@pytest.mark.parametrize("restitution", [0.0, 0.5, 1.0])
def test_a_wall_that_moves_hits_as_one_of_infinite_mass(restitution: float) -> None:
    """v⁺ = V + e (V − v): of a ball that comes, rests or flees; in the frame of the wall no energy is gained."""
    scene = ds.Scene({"ball": BALL}, [Collider("ball/body", Sphere(0.1))], gravity=(0, 0, 0))
    scene = scene.add("wall", Box(0.2, 1, 1), moved=True).with_material(friction=0.0, restitution=restitution)
    for v in (-3.0, 0.0, 1.0):
        start = [0.25, 0, 0, *IDENTITY, 0, 0, 0, *IDENTITY]
        sim = led(scene, "wall", lambda t: (2.0 * t, 0, 0), 0.12, q0=start, v0=[v, *np.zeros(11)])
        assert sim.v[0] == pytest.approx(2.0 + restitution * (2.0 - v), abs=1e-6)
        assert sim.statuses.keys() <= {SolverStatus.CONVERGED}


def test_a_turntable_takes_its_load_round() -> None:
    """A crate near its axis turns with it; the velocity of the table at its place is that of its turn."""
    turn = Rotation.from_rotvec

    def path(t: float) -> Any:
        return [0, 0, -0.15, *turn([0, 0, t]).as_quat()]

    sim = led(on_a_slab(moved=True), "slab", path, 0.5, q0=[0.3, 0, 0, *IDENTITY, 0, 0, -0.15, *IDENTITY],
              v0=[0, 0.3, 0, 0, 0, 1.0, *np.zeros(6)])  # fmt: skip
    assert np.allclose(sim.twist("slab"), [0, 0, 0, 0, 0, 1.0], atol=1e-9)
    assert np.allclose(sim.q[:2], 0.3 * np.array([np.cos(0.5), np.sin(0.5)]), atol=1e-3)  # first order in dt
    assert sim.twist("crate")[5] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("velocity", [(0, 0, 0), (2.0, -1.0, 0.5)])
def test_what_is_led_at_a_constant_velocity_is_as_what_stands_still(velocity: Any) -> None:
    """A heap that falls onto the world, and one that falls onto a slab, both seen from a train (Galileo)."""
    rng, V = np.random.default_rng(4), np.array(velocity, dtype=float)
    scene = ds.Scene(mechanisms_of(6), [Collider(f"b{k}/body", s, restitution=0.3) for k, s in enumerate(SOLIDS)])
    start = np.array([[0.4 * (k % 2), 0, 0.3 + 0.35 * k, *Rotation.random(rng=rng).as_quat()] for k in range(6)])
    still = ds.Simulator(scene.add("slab", Box(6, 6, 1), at=(0, 0, -0.5)), q0=start.ravel(), tolerance=1e-10)
    moved = scene.add("slab", Box(6, 6, 1), at=(0, 0, -0.5), moved=True)
    seen = ds.Simulator(moved, q0=[*start.ravel(), 0, 0, -0.5, *IDENTITY], tolerance=1e-10)
    for k in range(6):
        seen.set_twist(f"b{k}", [*V, 0, 0, 0])
    hits = 0
    for _ in range(300):
        still.step()
        hits += still.impulses.any()
        seen.move("slab", [0, 0, -0.5] + V * (seen.time + seen.dt))
        seen.step()
    assert hits > 50
    a, b = still.q.reshape(-1, 7), seen.q.reshape(-1, 7)[:6]
    assert np.allclose(a[:, :3] + V * seen.time, b[:, :3], atol=LED) and np.allclose(a[:, 3:], b[:, 3:], atol=LED)


def test_what_sleeps_on_a_led_body_wakes_when_it_moves() -> None:
    """And sleeps again when it stands still."""
    sim = ds.Simulator(on_a_slab(moved=True), sleep=0.05)
    sim.run(0.1)
    assert sim.asleep.all()
    for k in range(20):
        sim.move("slab", (0, 0, -0.15 + 1e-3 * (k + 1)))
        sim.step()
    assert not sim.asleep.any() and sim.twist("crate")[2] == pytest.approx(1.0)
    sim.run(0.5)
    assert sim.asleep.all()


WINDING = Rotation.from_rotvec([0.3, -0.1, 0.2])
"""Turn of a path over a second."""


def winding(t: float) -> Any:
    """Path of a slab that speeds up along all axes and turns."""
    return [1.5 * t * t, 0.2 * t, -0.15 + t * t, *Rotation.from_rotvec(t * WINDING.as_rotvec()).as_quat()]


def test_all_formulations_have_led_bodies() -> None:
    """The velocity of what is led enters their rows: the same motion, without gravity on what is led."""
    scene = on_a_slab(moved=True)
    for passive in ("model", "none"):
        wanted = led(scene, "slab", winding, 0.02, passive=passive)
        for formulation in ("os", "nmc-os", "rmc", "mc", "nmc"):
            found = led(scene, "slab", winding, 0.02, formulation=formulation, solver="nsgs", passive=passive)
            assert np.allclose(found.q, wanted.q, atol=LED) and np.allclose(found.v, wanted.v, atol=1e3 * LED)
            assert found.impulses.sum(axis=0) == pytest.approx(wanted.impulses.sum(axis=0), abs=1e3 * LED)
            assert found.statuses.keys() == {SolverStatus.CONVERGED}
    for formulation, dt, fall in (("os", 1e-3, 0.0), ("os", 0.0, 1.0), ("mc", 1e-3, 0.0), ("nmc", 0.01, 1.0)):
        rising = np.array([0, 0, 0.5, 0, 0, 0])
        moving = ds.contact.State(wanted.q, [*(1.0 - fall) * rising, *rising])
        posed = ds.contact.formulate(scene, moving, formulation, dt=dt, contacts=found.contacts)
        solution = posed.solve("nsgs", tolerance=1e-9)
        assert np.allclose(solution.velocity[6:], rising, atol=LED)
        audit = ds.contact.audit(solution)
        assert audit.verdict is ds.contact.Verdict.RIGHT, str(audit)
        pushed = dataclasses.replace(audit.step, impulses=1.01 * audit.step.impulses)
        assert ds.contact.audit(pushed).verdict is ds.contact.Verdict.WRONG


def test_kernels_have_led_bodies() -> None:
    """A ball that bounces off a slab: its pose and its velocity are in the state that the kernel takes."""
    scene = ds.Scene({"ball": BALL}, [Collider("ball/body", Sphere(0.1))])
    scene = scene.add("slab", Box(6, 6, 0.1), at=(0, 0, -0.15), moved=True).with_material(friction=0.3, restitution=0.5)
    sim, step = ds.Simulator(scene, tolerance=1e-12), scene.contact_step()
    v, pose, impulses = np.zeros(12), np.array(winding(0.0)), np.zeros(3)
    for k in range(100):
        sim.move("slab", winding((k + 1) * sim.dt))
        q, after = sim.q.copy(), np.array(winding((k + 1) * sim.dt))
        turned = Rotation.from_quat(pose[3:])
        turn = (turned.inv() * Rotation.from_quat(after[3:])).as_rotvec()
        v[:6], v[6:], pose = sim.v[:6], np.concatenate([turned.inv().apply(after[:3] - pose[:3]), turn]) / sim.dt, after
        q, v, impulses, _ = step(q, v, impulses, np.zeros(12), sim.dt)
        sim.step()
        assert np.allclose(q, sim.q, atol=LED) and np.allclose(v, sim.v, atol=1e2 * LED)
    assert sim.twist("ball")[2] > 0.1 and np.abs(sim.twist("ball")[3:]).max() > 0.1  # it has bounced, and it turns


def hung(scene: ds.Scene) -> ds.Scene:
    """A bob on a string that a slab carries."""
    return scene.add("bob", Sphere(0.05), mass=1.0, at=(0, 0, -1.15)).attach(
        ds.Point(ds.Frame("bob/body", (0, 0, 1.0)), "slab/body")
    )


def test_what_is_welded_to_a_led_body_goes_with_it_under_load() -> None:
    """From a jump of its velocity on, and where a crate lies on it: impulses act on what loops tie."""
    scene = on_a_slab(moved=True).add("load", Box(0.1, 0.1, 0.1), at=(0.3, 0, 0.2), mass=1.0)
    scene = scene.attach(ds.Weld("slab/body", ds.Frame("load/body", (-0.3, 0, -0.35))))
    sim = ds.Simulator(scene)
    for k in range(40):
        sim.move("slab", winding((k + 1) * sim.dt + 1e-3))
        sim.step()
        assert sim.impulses.any() and not {SolverStatus.COARSE_STEP, SolverStatus.LOOPS_OPEN} & sim.statuses.keys()
    gap = ds.forward_kinematics(scene.tree, sim.q, "slab/body") @ [0.3, 0, 0.35, 1]
    assert np.allclose(gap[:3], ds.forward_kinematics(scene.tree, sim.q, "load/body")[:3, 3], atol=LED)


@pytest.mark.parametrize(("passive", "formulation"), [("model", None), ("none", "os")])
def test_a_load_on_a_crane_hangs_aslant_in_its_acceleration(passive: Any, formulation: str | None) -> None:
    """At the angle ``atan(a / g)`` it stays, and both are seen from outside as they are: bodies that are led tie."""
    a, angle = 2.0, np.arctan2(2.0, 9.81)
    scene = hung(ds.Scene({"other": BALL}).add("slab", Box(0.2, 0.2, 0.1), at=(0, 0, -0.15), moved=True))
    turn = Rotation.from_rotvec([0, angle, 0])
    start = scene.configuration(
        other=[5, 0, 0, *IDENTITY], slab=[0, 0, -0.15, *IDENTITY],
        bob=[*([0, 0, -0.15] - turn.apply([0, 0, 1.0])), *turn.as_quat()],
    )  # fmt: skip
    solver = None if formulation is None else "nsgs"
    options = {"q0": start, "passive": passive, "formulation": formulation, "solver": solver}
    sim = led(scene, "slab", lambda t: (0.5 * a * t * (t + 1e-3), 0, -0.15), 1.0, **options)
    kick = 4 * a * sim.dt  # the velocity begins with a jump by a dt, after which the load sways
    hangs = Rotation.from_quat(sim.q[scene.q_slice("bob")][3:]).as_rotvec()
    assert np.allclose(sim.twist("bob"), [a * 1.0, 0, 0, 0, 0, 0], atol=kick)
    assert np.allclose(hangs, [0, angle, 0], atol=kick / np.sqrt(9.81))
    assert sim.energy().kinetic == pytest.approx(0.5 * a * a + 0.5 * 9.81**2, abs=(a + 9.81) * kick)
    assert not {SolverStatus.COARSE_STEP, SolverStatus.LOOPS_OPEN} & sim.statuses.keys()


SOLIDS = [Box(0.2, 0.3, 0.2), Sphere(0.12), Box(0.3, 0.3, 0.1), Sphere(0.15), Box(0.25, 0.2, 0.25), Sphere(0.1)]


def mechanisms_of(n: int) -> dict[str, ds.Tree]:
    return {f"b{k}": ds.mechanisms.free_body(1.0, s.inertia(1.0)) for k, s in enumerate(SOLIDS[:n])}


def test_a_run_with_led_bodies_goes_on_from_its_state(tmp_path: Path) -> None:
    """To the last bit, with the pose that a body was to have; in whole runs a body arrives in the first step."""
    scene = on_a_slab(moved=True)
    one, other = ds.Simulator(scene), ds.Simulator(scene)
    one.move("slab", (0.002, 0, -0.149, 0, 0, np.sin(0.01), np.cos(0.01)))
    other.set_state(one.get_state())
    saved = ds.simulate.load_checkpoint(scene, ds.simulate.save_checkpoint(one, tmp_path / "before.npz"))
    one.run(0.02)
    for _ in range(20):
        other.step()
        saved.step()
    assert np.array_equal(one.q, other.q) and np.array_equal(one.v, other.v)
    assert np.array_equal(one.q, saved.q) and np.array_equal(one.v, saved.v)
    assert one.q[7] == 0.002 and pickle.loads(pickle.dumps(scene)).moved == {"slab"}
    assert scene.without("slab").moved == frozenset()


def test_a_led_body_stands_where_its_configuration_is_set() -> None:
    """Back at the start, nothing throws it to where it was to be; what is set beside it leaves its way alone."""
    sim = ds.Simulator(on_a_slab(moved=True))
    start = sim.q.copy()
    for k in range(3):
        sim.move("slab", (0.1 * (k + 1), 0, -0.15))
        sim.step()
    sim.q, sim.v = start, np.zeros(len(sim.v))
    sim.step()
    assert np.array_equal(sim.q[7:14], start[7:14]) and not sim.twist("slab").any()
    sim.move("slab", (0.001, 0, -0.15))
    sim.q = [0.5, *sim.q[1:]]
    sim.step()
    assert sim.q[7] == 0.001 and sim.twist("slab")[0] == pytest.approx(0.001 / sim.dt)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda s: ds.Simulator(s).move("crate", (0, 0, 0)), "body that is moved"),
        (lambda s: ds.Simulator(s).move("slab", (0, 0)), "pose"),
        (lambda s: ds.Simulator(s).set_twist("slab", np.zeros(6)), "no body that you move.*Lead it there by `move`"),
        (lambda s: ds.Simulator(s).move("slab", np.zeros(7)), "pose: expected a quaternion of unit length"),
        (lambda s: s.add("b", ds.mechanisms.chain(2), moved=True), "moved: expected a shape"),
        (lambda s: s.add("b", Box(1, 1, 1), mass=1.0, moved=True), "mass: expected none"),
        (lambda s: s.attach(ds.Weld("slab/body", ds.Frame("world"))), "a loop on something that you do not move"),
        (lambda s: ds.Simulator(hung(s), formulation="nmc"), "'os' or 'rmc' with loops on bodies that you move"),
        (lambda s: ds.Simulator(hung(s)).step_derivatives(parameters=["mass"]), "no 'mass' with loops on bodies that"),
        (lambda s: dataclasses.replace(s, moved=["crate", "crate/bodies"]), "body that is moved"),
        (lambda s: dataclasses.replace(s, moved=["ball"]), "body that is moved"),
    ],
)
def test_what_led_bodies_are_not_for(call: Callable[[ds.Scene], Any], match: str) -> None:
    with pytest.raises(DelassusError, match=match):
        call(on_a_slab(moved=True))


def test_states_are_set_by_arrays_and_lists():
    """As NumPy users do; what is none is refused where it is set, and so is what steps cannot follow any more."""
    scene = ds.Scene({"ball": ds.mechanisms.free_body(1.0, np.eye(3)), "rod": ds.mechanisms.pendulum(2)})
    sim, rng = ds.Simulator(scene), np.random.default_rng(0)
    values = {"q": scene.tree.random(rng), "v": rng.normal(size=scene.tree.nv), "tau": rng.normal(size=scene.tree.nv)}
    for name, value in values.items():
        for given in (value, value.tolist(), tuple(value.tolist()), list(value)):
            setattr(sim, name, given)
            assert np.array_equal(getattr(sim, name), value) and getattr(sim, name) is not given
        for wrong in (value[:-1], value.tolist()[1:], [value.tolist()] * 2, "fast", None, 1.0, np.nan * value):
            with pytest.raises(ConfigurationError, match=f"{name}: "):
                setattr(sim, name, wrong)
        assert np.array_equal(getattr(sim, name), value)
    other = ds.Simulator(scene)
    other.q, other.v = values["q"], values["v"]
    for x in (sim, other):
        x.step()
    assert np.array_equal(sim.q, other.q) and np.array_equal(sim.v, other.v)
    for name, value in {"dt": 2e-3, "tolerance": 1e-9, "control": "pd", "kp": [1.0] * 8, "kd": [1.0] * 8}.items():
        with pytest.raises(ConfigurationError, match=f"Make another simulator with {name}="):
            setattr(sim, name, value)
