"""Plans of robots that touch and let go, by iLQR with the derivatives of contact steps: nothing says when they touch.

A driven ball pushes a crate to a goal pose; Go1 stands up, trots, and jumps onto a box. A task is a scene, a start and
a cost. `Simulator` replays the plan, every contact found anew.

    python examples/plan_contacts.py --task stand --by mppi ilqr --film film.mp4 --plot costs.png
    python examples/plan_contacts.py --task jump --by mppi ilqr --in-turn --seconds 25 --iterations 100
"""

import argparse
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import delassus as ds
from delassus.cli.tables import environment
from delassus.contact import Box, Collider, HalfSpace, Sphere
from delassus.pictures.plots import save_figure
from delassus.pictures.video import write_video
from delassus.scenes.quadruped import go1
from delassus.simulate.recording import Recorder, Recording
from delassus_studies.figures import side_by_side, stamp, tidy

Array = np.ndarray

Curve = list[tuple[float, float]]
"""Processor time (s) and cost after each iteration."""

STEP = 0.005
"""Time step (s)."""


@dataclass
class Task:
    """What is to be done by PD control, whose targets (rad, m) are planned.

    The cost is the half sum of squares of ``along`` at each step and of ``last`` at the end; ``solved`` says of the
    states (T + 1, ...) whether the task is done.
    """

    scene: ds.Scene
    q0: Array
    targets: Array  # (T, nq), to start from
    kp: Array
    kd: Array
    along: Callable[[Array, Array, Array, Array], Array]
    last: Callable[[Array, Array], Array]
    solved: Callable[[Array, Array], bool]
    noise: float  # of targets that are tried by sampling (rad, m)
    smoothing: float | None = None  # of derivatives (m/s, rad/s)

    @property
    def driven(self) -> Array:
        """Coordinates with motors."""
        tree = self.scene.tree
        return np.array([at.start for at, joint in zip(tree.q_slices, tree.joints, strict=True) if joint.nv == 1])

    def compile(self, what: str, **options: object) -> ds.Kernel:
        """Kernel of the scene's step, or of its derivatives."""
        contacts = self.scene.constraints(between_links="crate" in self.scene.robots)
        return ds.compile(self.scene.tree, contacts, what, control="pd", limits=False, passive="none", **options)


# -- tasks ---------------------------------------------------------------------------------------------------------

SLIDER = """<robot name="pusher"><link name="base"/><link name="rail"/><link name="tip">
<inertial><mass value="0.5"/><inertia ixx="1e-3" iyy="1e-3" izz="1e-3" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="x" type="prismatic"><parent link="base"/><child link="rail"/><axis xyz="1 0 0"/>
<limit lower="-2" upper="2" effort="20" velocity="9"/></joint>
<joint name="y" type="prismatic"><parent link="rail"/><child link="tip"/><axis xyz="0 1 0"/>
<limit lower="-2" upper="2" effort="20" velocity="9"/></joint></robot>"""


def push() -> Task:
    """A driven ball pushes a crate of 1 kg to a place 0.3 m ahead and 0.1 m aside, turned by 45°."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "pusher.urdf"
        path.write_text(SLIDER)
        pusher = ds.load(path)
    goal, shape = np.array([0.3, 0.1, np.pi / 4]), Box(0.2, 0.2, 0.1)
    crate = ds.mechanisms.free_body(1.0, shape.inertia(1.0), name="crate")
    places = [
        (0.09, 0.0, -0.04),
        (-0.09, 0.09, -0.04),
        (-0.09, -0.09, -0.04),
    ]  # three feet: of four, one may carry nothing
    feet = [Collider("crate/crate", Sphere(0.01), at, friction=0.4, name=f"foot{k}") for k, at in enumerate(places)]
    box = Collider("crate/crate", shape, friction=0.4, name="box")
    ball = Collider("pusher/tip", Sphere(0.03), (0.0, 0.0, 0.04), friction=0.4, name="ball")
    floor = Collider("world", HalfSpace(), friction=0.4, name="floor")
    apart = [("floor", "ball"), ("floor", "box"), *(("ball", foot.name) for foot in feet)]
    scene = ds.Scene({"pusher": pusher, "crate": crate}, [ball, box, *feet, floor], ignore=apart)
    hand, box = scene.q_slice("pusher"), scene.q_slice("crate")
    q0 = scene.configuration(pusher=[-0.14, 0.0], crate=[0.0, 0.0, 0.05, 0.0, 0.0, 0.0, 1.0])
    ahead = np.tile(q0, (200, 1))
    ahead[:, 0] += np.linspace(0.0, 0.2, 200)

    def pose(q: Array) -> Array:
        x, y, _, _, _, k, r = np.moveaxis(q[..., box], -1, 0)
        return np.stack([x, y, 2.0 * np.arctan2(k, r)], axis=-1) - goal

    def along(t: Array, q: Array, v: Array, u: Array) -> Array:
        away = pose(q) * [0.3, 0.3, 0.06]
        return np.concatenate([away, 0.3 * (u - q)[..., hand], 0.01 * v[..., scene.v_slice("pusher")]], axis=-1)

    def last(q: Array, v: Array) -> Array:
        return np.concatenate([pose(q) * [10.0, 10.0, 2.0], v[..., scene.v_slice("crate")]], axis=-1)

    def solved(q: Array, v: Array) -> bool:
        return bool((np.abs(pose(q[-1])) < [0.01, 0.01, 0.05]).all())

    gains = np.r_[1.0, 1.0, np.zeros(6)]
    return Task(scene, q0, ahead, 200.0 * gains, 20.0 * gains, along, last, solved, 0.03)


LEGS, STANCE, HEIGHT, FOOT = ("FL", "FR", "RL", "RR"), np.tile([0.0, 0.8, -1.6], 4), 0.31, 0.02
"""Of Go1: angles of hips, thighs and calves (rad), height of the trunk above the ground (m), radius of the feet (m)."""

KP, KD = 40.0 * np.r_[np.zeros(6), np.ones(12)], 0.3 * np.r_[np.zeros(6), np.ones(12)]
"""Of its joints (N m/rad, N m s/rad)."""


def quadruped(angles: Array, *colliders: Collider) -> tuple[ds.Scene, Array]:
    """Go1 and other colliders on a floor, and its configuration when it is set down with joints at some angles."""
    feet = [Collider(f"{leg}_foot", Sphere(FOOT), friction=0.8) for leg in LEGS]
    scene = ds.Scene(go1(), [*feet, *colliders, Collider("world", HalfSpace(), friction=0.8)], descriptions="go1")
    q = scene.tree.neutral()
    q[7:] = angles
    return scene, scene.set_down(q)


def axes(q: Array) -> Array:
    """Axes of the trunk in the world, columns of (..., 3, 3)."""
    x, y, z, w = np.moveaxis(q[..., 3:7], -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def effort(tree: ds.Tree, q: Array, v: Array, u: Array) -> Array:
    """Torques and velocities over their limits, and how near or beyond theirs these and positions of joints are."""
    torque = (KP[6:] * (u - q)[..., 7:] - KD[6:] * v[..., 6:]) / tree.effort_limit[6:]
    fast = np.abs(v[..., 6:]) / tree.velocity_limit[6:]
    beyond = np.maximum(q[..., 7:] - tree.upper[6:], tree.lower[6:] - q[..., 7:])
    excess = np.concatenate([np.abs(torque) - 0.9, fast - 0.9, 10.0 * beyond], axis=-1)
    return np.concatenate([0.1 * torque, 0.05 * fast, 3.0 * np.maximum(0.0, excess)], axis=-1)


def standing(place: Array, q: Array, v: Array) -> Array:
    """How far Go1 is from standing at a place (3,), upright and at rest."""
    R = axes(q)
    turned = [R[..., 2] - [0.0, 0.0, 1.0], R[..., 1, :1]]
    return np.concatenate([q[..., :3] - place, *turned, q[..., 7:] - STANCE, 0.1 * v], axis=-1)


def stands(place: Array, q: Array, v: Array) -> bool:
    """Whether it stands there at the end, to 3 cm, 0.1 rad and 0.3 m/s."""
    away = np.abs(standing(place, q[-1], v[-1]))
    return bool(away[:3].max() < 0.03 and away[3:7].max() < 0.1 and np.abs(v[-1, :6]).max() < 0.3)


def stand() -> Task:
    """Go1 lies on its belly and stands up."""
    corners = [(x, y, -0.04) for x in (-0.15, 0.15) for y in (-0.05, 0.05)]
    folded = np.array([[0.55 if leg[1] == "L" else -0.55, 1.35, -2.65] for leg in LEGS]).ravel()
    scene, q0 = quadruped(folded, *(Collider("trunk", Sphere(0.015), at, friction=0.8) for at in corners))
    place, up = np.array([0.0, 0.0, HEIGHT]), np.tile(q0, (160, 1))
    up[:, 7:] += np.minimum(1.0, np.linspace(0.0, 1.25, 160))[:, None] * (STANCE - folded)

    def along(t: Array, q: Array, v: Array, u: Array) -> Array:
        return np.concatenate([0.3 * standing(place, q, v), effort(scene.tree, q, v, u)], axis=-1)

    def last(q: Array, v: Array) -> Array:
        return 10.0 * standing(place, q, v)

    return Task(scene, q0, up, KP, KD, along, last, lambda q, v: stands(place, q, v), 0.1)


def jump() -> Task:
    """Go1 jumps onto a box of 20 cm: the cost wants its trunk on a parabola from 0.3 s to 0.7 s, and nothing before."""
    place = np.array([0.65, 0.0, 0.2 + HEIGHT])
    scene, q0 = quadruped(STANCE, Collider("world", Box(0.8, 1.0, 0.2), (0.7, 0.0, 0.1), friction=0.8))
    start = np.tile(q0, (180, 1))
    start[:36, 7:], start[36:58, 7:] = np.tile([0.0, 1.1, -2.1], 4), np.tile([0.0, 1.1, -1.2], 4)  # down, and off

    def along(t: Array, q: Array, v: Array, u: Array) -> Array:
        part = np.clip((t - 0.3) / 0.4, 0.0, 1.0)[..., None]
        path = q0[:3] + part * (place - q0[:3]) + [0.0, 0.0, 0.8] * part * (1 - part)
        level = 0.3 * (axes(q)[..., 2] - [0.0, 0.0, 1.0])
        posture = [3.0 * (part > 0.0) * (q[..., :3] - path), 0.1 * (q[..., 7:] - STANCE), level]
        return np.concatenate([*posture, effort(scene.tree, q, v, u)], axis=-1)

    def last(q: Array, v: Array) -> Array:
        return 10.0 * standing(place, q, v)

    return Task(scene, q0, start, KP, KD, along, last, lambda q, v: stands(place, q, v), 0.1, smoothing=0.1)


def swings(heights: Array) -> int:
    """How often diagonal pairs of feet are up by 2 cm, each in turn, both feet at once and the others lower."""
    FL, FR, RL, RR = heights.T > 0.02
    first, second = FL & RR & ~FR & ~RL, FR & RL & ~FL & ~RR
    turns = second[first | second].astype(int)
    return int(turns.size > 0) + int(np.count_nonzero(np.diff(turns)))


SLIP, CLEAR = 1.0, 0.02
"""Weight of velocities of feet along the floor, and the height (m) at which it is e times less."""


def trot() -> Task:
    """Go1 goes ahead at 0.6 m/s, with legs that move alike across and feet that do not slip along near the floor.

    It starts from targets that lift legs across from each other in turn, 2.5 times a second, on the spot.
    """
    scene, q0 = quadruped(STANCE)
    feet = [f"{leg}_foot" for leg in LEGS]
    places = ds.compile(scene.tree, (), "kinematics", frames=feet)
    twists = ds.compile(scene.tree, (), "frame_velocity", frames=feet, reference="local-world-aligned")

    def heights(q: Array) -> Array:
        return places(np.asarray(q, float))[..., 2, 3] - FOOT

    def course(q: Array, v: Array) -> Array:
        R = axes(q)
        speed = (R @ v[..., :3, None])[..., 0] - [0.6, 0.0, 0.0]
        posture = [
            2.0 * q[..., 1:2],
            5.0 * (q[..., 2:3] - HEIGHT),
            R[..., 2] - [0.0, 0.0, 1.0],
            R[..., 1, :1],
            0.2 * (q[..., 7:] - STANCE),
        ]
        FL, FR, RL, RR = (q[..., 7 + 3 * k : 10 + 3 * k] * [1.0 - k % 2 * 2.0, 1.0, 1.0] for k in range(4))
        return np.concatenate([speed, *posture, 0.5 * (FL - RR), 0.5 * (FR - RL), 0.1 * v[..., 3:6]], axis=-1)

    def along(t: Array, q: Array, v: Array, u: Array) -> Array:
        low = SLIP * np.exp(-np.maximum(heights(q), 0.0) / CLEAR)
        slip = low[..., None] * twists(np.asarray(q, float), np.asarray(v, float))[..., :2]
        return np.concatenate([course(q, v), effort(scene.tree, q, v, u), slip.reshape(*q.shape[:-1], 8)], axis=-1)

    def solved(q: Array, v: Array) -> bool:
        return bool(q[-1, 0] > 0.5 and axes(q[-1])[2, 2] > 0.95) and swings(heights(q)) >= 4

    start, swing = np.tile(q0, (200, 1)), np.sin(5.0 * np.pi * STEP * np.arange(200))
    for k, sign in enumerate((1.0, -1.0, -1.0, 1.0)):
        start[:, 7 + 3 * k : 10 + 3 * k] += np.maximum(0.0, sign * swing)[:, None] * [0.0, 0.3, -0.6]
    return Task(scene, q0, start, KP, KD, along, course, solved, 0.1)


TASKS = {"push": push, "stand": stand, "trot": trot, "jump": jump}


# -- planners: targets (T, nq) and their cost after each iteration ----------------------------------------------------


def by_gradients(task: Task) -> Iterator[tuple[Array, float]]:
    """Of iLQR."""
    step = task.compile("contact_step")
    derivatives = task.compile("contact_step_derivatives", outputs=("A", "B"), smoothing=task.smoothing)
    plans = partial(
        ds.ilqr, step, derivatives, task.q0, np.zeros(task.scene.tree.nv), task.targets, STEP, task.along, task.last,
        varied=task.driven, kp=task.kp, kd=task.kd,
    )  # fmt: skip
    next(islice(plans(), 1, None))  # the first iteration compiles
    for plan in plans():
        yield plan.controls, plan.cost


SAMPLES, KNOT, TEMPERATURE = 512, 10, 0.1
"""Rollouts of an iteration, steps between two knots of the noise, and λ over the spread of costs."""


def by_sampling(task: Task) -> Iterator[tuple[Array, float]]:
    """Of path integral control: means of noisy plans, by their costs; less noise where none is better."""
    step, rng = task.compile("contact_step", dtype="float32", tolerance=1e-3), np.random.default_rng(0)
    plan, T, noise = task.targets, len(task.targets), task.noise
    knots = np.arange(0, T + KNOT, KNOT)
    hats = np.stack([np.interp(np.arange(T), knots, hat) for hat in np.eye(len(knots))], axis=-1)
    times, q0, v0 = STEP * np.arange(T)[:, None], task.q0.astype("f"), np.zeros(task.scene.tree.nv, "f")
    gains = {"kp": task.kp.astype("f"), "kd": task.kd.astype("f")}
    while True:
        draws = rng.normal(0.0, noise, (len(knots), SAMPLES, len(task.driven)))
        draws[:, 0] = 0.0  # the plan itself
        tried = np.repeat(plan[:, None].astype("f"), SAMPLES, axis=1)
        tried[..., task.driven] += np.einsum("tk,knj->tnj", hats, draws)
        q, v, *_ = ds.rollout(step, q0, v0, tried, STEP, time_axis=0, return_status=True, **gains)
        with np.errstate(all="ignore"):
            costs = (task.along(times, q[:-1], v[:-1], tried) ** 2).sum(axis=(0, -1))
            costs += (task.last(q[-1], v[-1]) ** 2).sum(axis=-1)
        costs = np.where(np.isfinite(costs), 0.5 * costs, 1e9)
        yield plan, float(costs[0])
        noise *= 1.0 if costs.min() < costs[0] else 0.7
        weights = np.exp((costs.min() - costs) / max(TEMPERATURE * (np.median(costs) - costs.min()), 1e-12))
        plan = np.einsum("n,tnj->tj", weights / weights.sum(), tried)


PLANNERS = {"ilqr": by_gradients, "mppi": by_sampling}


def replayed(task: Task, targets: Array) -> Recording:
    """What `Simulator` makes of a plan."""
    sim = ds.Simulator(
        task.scene, dt=STEP, q0=task.q0, control="pd", kp=task.kp, kd=task.kd, limits=False, passive="none"
    )
    last = len(targets) - 1
    return sim.run(len(targets) * STEP, lambda sim: targets[min(sim.steps, last)], record=Recorder())


def planned(name: str, task: Task, seconds: float, iterations: int) -> tuple[Array, Curve]:
    """Targets, and the processor time (s) and cost after each iteration."""
    plans, curve = PLANNERS[name](task), []
    targets, cost = next(plans)  # compiles
    began = time.process_time()
    curve.append((0.0, cost))
    for (better, cost), _ in zip(plans, range(iterations), strict=False):
        if cost < min(c for _, c in curve):
            targets = better
        curve.append((time.process_time() - began, cost))
        if curve[-1][0] > seconds:
            break
    return targets, curve


PICTURES, SIZE = 5, (280, 180)
"""Of a replay in a strip: their number, and width and height in pixels."""


def strip(recordings: list[Recording], path: Path) -> None:
    """Draw each replay as a row of pictures."""
    from PIL import Image

    whole = Image.new("RGB", (PICTURES * SIZE[0], len(recordings) * SIZE[1]))
    for row, recording in enumerate(recordings):
        with TemporaryDirectory() as folder, Image.open(write_video(recording, f"{folder}/a.webp", size=SIZE)) as film:
            for column, frame in enumerate(np.linspace(0, film.n_frames - 1, PICTURES).astype(int)):
                film.seek(frame)
                whole.paste(film.convert("RGB"), (column * SIZE[0], row * SIZE[1]))
    whole.quantize(128).save(path)


def plot(curves: dict[str, dict[str, Curve]], path: Path) -> None:
    """Draw costs against processor time, a panel for each task."""
    figure, panels = side_by_side(len(curves), 2.4)
    for axes, (title, planners) in zip(panels, curves.items(), strict=True):
        for name, curve in planners.items():
            seconds, costs = np.transpose(curve)
            axes.semilogy(seconds, np.minimum.accumulate(costs), label=name)
        axes.set(xlabel="processor time (s)", title=title)
        tidy(axes)
    panels[0].set_ylabel("cost (no unit)")
    panels[0].legend(fontsize=8)
    save_figure(figure, path)


def main() -> None:
    """Plan, replay, show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TASKS, nargs="+", default=["push"])
    parser.add_argument("--seconds", type=float, default=10.0, help="processor time of a planner, without compilation")
    parser.add_argument("--iterations", type=int, default=30, help="of iLQR, at most")
    parser.add_argument("--by", choices=PLANNERS, nargs="+", default=["ilqr"], help="planners; the last one is filmed")
    parser.add_argument("--in-turn", action="store_true", help="each planner starts from the plan of the one before")
    parser.add_argument("--film", type=Path, help="file for a film of the last replay: .mp4, .webp or .gif")
    parser.add_argument("--strip", type=Path, help="file for pictures of the replays, a row for each task")
    parser.add_argument("--plot", type=Path, help="file for a picture of costs against processor time")
    parser.add_argument("--save", help="beginning of the names of files for states, targets and costs")
    options = parser.parse_args()
    curves, recordings = {}, []
    for kind in options.task:
        task, curves[kind] = TASKS[kind](), {}
        for name in options.by:
            targets, curve = planned(name, task, options.seconds, options.iterations if name == "ilqr" else 10**6)
            curves[kind][name] = curve
            if options.in_turn:
                task.targets = targets
            recording = replayed(task, targets)
            solved = "solved" if task.solved(recording.q, recording.v) else "not solved"
            print(
                f"{kind} by {name}: cost {curve[0][1]:.4g} → {min(c for _, c in curve):.4g} after "
                f"{len(curve) - 1} iterations, {curve[-1][0]:.2f} s of processor time; replayed: {solved}, "
                f"{dict(recording.origin.statuses)}",
                flush=True,
            )
            if options.save:
                path = f"{options.save}.{kind}.{name}.npz"
                np.savez(path, curve=curve, q=recording.q, v=recording.v, targets=targets)
        recordings.append(recording)
    if options.film:
        write_video(recordings[-1], options.film, size=(640, 360))
    if options.strip:
        strip(recordings, options.strip)
    if options.plot:
        plot(curves, options.plot)
    for path in filter(None, (options.strip, options.plot)):
        stamp(path, shlex.join(["python", *sys.argv]), environment(), __file__)


if __name__ == "__main__":
    main()
