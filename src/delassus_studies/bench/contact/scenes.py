"""``delassus bench contact``, ``piles``, ``terrain``: scenes by `Simulator`, beside MuJoCo's ``mj_step``."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from rich.table import Table

import delassus as ds
from delassus.contact.results import SOLVED
from delassus.model.mechanisms import free_body
from delassus.scenes import ReadyScene, pendulum, quadruped
from delassus.spatial.rotations import Array
from delassus_studies.peers import if_present
from delassus_studies.peers.mujoco import MujocoScene
from delassus_studies.tables import table
from delassus_studies.timing import Record, each, environment, pinned

REST, PARTS = 1.0, 20
"""Seconds after a scene's own duration, and in how many parts these are looked at."""

DT, FALL, SWING = 1e-3, 3.0, 12.0
"""Time step of heaps (s), seconds until they are at rest, and seconds of a pendulum's swing."""

MOST_DENSE = 180
"""Degrees of freedom up to which MuJoCo is timed with dense Jacobians, too, whose time grows with their cube."""

QUICK = 0.06, 0.04
"""Duration of a scene, and after it, of a quick run (s)."""

BUMPS = 0.06
"""Heights of rough ground (m)."""

EDGE, MASS, FRICTION, SPACING, JITTER = 0.2, 1.0, 0.6, 0.4, 0.02
"""Of boxes: edges (m), mass (kg), friction, distances in the grid they fall from and deviations from it (m)."""

ISLANDS = 4.0
"""Distance of heaps that do not touch (m)."""

WINDOWS, CHUNKS, CHUNK = 15, 20, 5e-3
"""Of steps on one thread and on two: windows of which each has a median, chunks in each, and how long these are (s)."""

STIFFNESS, DAMPING = 200.0, 5.0
"""Springs and dampers that hold the legs of the standing quadruped (N m/rad, N m s/rad)."""


def heap(n: int, layers: int = 2, seed: int = 0) -> ReadyScene:
    """Boxes of random attitudes that fall from a grid of so many layers onto a floor."""
    rng = np.random.default_rng(seed)
    side, k = int(np.ceil(np.sqrt(n / layers))), np.arange(n)
    grid = np.stack([k % side - (side - 1) / 2, k // side % side - (side - 1) / 2, k // side**2], axis=1)
    positions = SPACING * grid + [0.0, 0.0, 0.25] + rng.uniform(-JITTER, JITTER, (n, 3))
    quaternions = rng.normal(size=(n, 4))
    quaternions /= np.linalg.norm(quaternions, axis=1, keepdims=True)
    return _boxes(np.concatenate([positions, quaternions], axis=1))


def stack(n: int) -> ReadyScene:
    """Boxes on one another, just touching."""
    poses = np.tile([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], (n, 1))
    poses[:, 2] = EDGE * (np.arange(n) + 0.5)
    return _boxes(poses)


def heaps(k: int, n: int) -> ReadyScene:
    """So many heaps of n boxes, far from each other."""
    side, poses = int(np.ceil(np.sqrt(k))), [heap(n, seed=i).q0.reshape(n, 7).copy() for i in range(k)]
    for i, own in enumerate(poses):
        own[:, :2] += ISLANDS * np.array([i % side, i // side])
    return _boxes(np.concatenate(poses))


def _boxes(poses: Array) -> ReadyScene:
    """Boxes at poses (n, 7) over a floor."""
    n, shape = len(poses), ds.contact.Box(EDGE, EDGE, EDGE)
    body = free_body(MASS, shape.inertia(MASS))
    colliders = [ds.contact.Collider(f"box{k}/body", shape, friction=FRICTION) for k in range(n)]
    floor = ds.contact.Collider("world", ds.contact.HalfSpace(), friction=FRICTION)
    scene = ds.Scene({f"box{k}": body for k in range(n)}, [*colliders, floor])
    return ReadyScene("boxes", scene, poses.ravel(), np.zeros(6 * n), DT, None, FALL, "")


def rough_ground() -> ds.contact.Collider:
    """60 × 60 points, 0.1 m from each other, up to 6 cm higher or lower than their neighbours."""
    heights = np.random.default_rng(0).uniform(-0.5 * BUMPS, 0.5 * BUMPS, (60, 60))
    return ds.contact.Collider("world", ds.contact.HeightField(heights, (6.0, 6.0)), friction=FRICTION, name="ground")


def on_ground(shape: ds.contact.Box | ds.contact.Cylinder, n: int) -> ReadyScene:
    """So many bodies of a shape that fall onto rough ground side by side."""
    rng, side = np.random.default_rng(0), int(np.ceil(np.sqrt(n)))
    poses = rng.normal(size=(n, 7))
    poses[:, 3:] /= np.linalg.norm(poses[:, 3:], axis=1, keepdims=True)
    poses[:, 0], poses[:, 1], poses[:, 2] = np.arange(n) % side - side / 2, np.arange(n) // side - side / 2, 0.5
    body = free_body(MASS, shape.inertia(MASS))
    bodies = [ds.contact.Collider(f"body{k}/body", shape, friction=FRICTION) for k in range(n)]
    scene = ds.Scene({f"body{k}": body for k in range(n)}, [*bodies, rough_ground()])
    return ReadyScene("terrain", scene, poses.ravel(), np.zeros(6 * n), DT, None, FALL, "")


def standing_on_ground() -> ReadyScene:
    """The standing quadruped, set down on rough ground."""
    ready = standing()
    scene = replace(ready.scene, colliders=(*ready.scene.colliders[:-1], rough_ground()))
    return replace(ready, scene=scene, q0=scene.set_down(ready.q0))


def standing() -> ReadyScene:
    """Go1, or the generic quadruped where that is not installed, on four feet, its legs held by springs."""
    ready = quadruped()
    tree = ready.scene.tree
    legs = [
        replace(joint, stiffness=np.full(1, STIFFNESS), rest_position=np.array([q]), damping=np.full(1, DAMPING))
        for joint, q in zip(tree.joints[1:], ready.q0[7:], strict=True)
    ]
    held = ds.Scene(replace(tree, joints=(tree.joints[0], *legs)), ready.scene.colliders)
    return replace(ready, scene=held, controller=None, duration=FALL)


SCENES: Mapping[str, Mapping[str, Callable[[], ReadyScene]]] = {
    "pendulums": {f"pendulum of {n}": partial(pendulum, n) for n in (3, 12, 30)},
    "piles": {
        "loose heap of 10": partial(heap, 10),
        "standing quadruped": standing,
        **{f"stack of {n}": partial(stack, n) for n in (5, 10, 20)},
        **{f"loose heap of {n}": partial(heap, n) for n in (30, 100, 300)},
        **{f"pile of {n}, {layers} layers": partial(heap, n, layers) for n, layers in ((30, 4), (100, 5), (300, 7))},
    },
    "terrain": {
        "box": partial(on_ground, ds.contact.Box(0.5, 0.3, 0.2), 1),
        "25 boxes": partial(on_ground, ds.contact.Box(0.5, 0.3, 0.2), 25),
        "25 cylinders": partial(on_ground, ds.contact.Cylinder(0.2, 0.2), 25),
        "standing quadruped": standing_on_ground,
    },
}
"""Makers by command and name. Pendulums swing down, along the floor, to the wall, and back and forth on the floor."""


class Ours:
    """A scene by `Simulator`."""

    def __init__(self, ready: ReadyScene) -> None:
        self.sim = ready.simulator()

    def run(self, duration: float) -> None:
        """So many seconds, in one call."""
        self.sim.run(duration)

    @property
    def positions(self) -> Array:
        """Positions of bodies and angles of joints: the configuration without quaternions."""
        tree = self.sim.scene.tree
        parts = [self.sim.q[at][: 3 if joint.kind.has_quaternion else None]
                 for joint, at in zip(tree.joints, tree.q_slices, strict=True)]  # fmt: skip
        return np.concatenate(parts)

    @property
    def depth(self) -> float:
        """Largest overlap (m)."""
        return float(self.sim.contacts.depths.max(initial=0.0))

    @property
    def contacts(self) -> int:
        """How many."""
        return int((self.sim.contacts.depths > -self.sim.dt * 1e-3).sum())


def _timed(scene: Ours | MujocoScene, dt: float, duration: float, rest: float) -> Record:
    """Processor time a step of a scene's duration and then, and what is left of motion and overlap."""
    start = time.thread_time()
    scene.run(duration)
    middle = time.thread_time()
    positions, depth, drift = scene.positions, 0.0, 0.0
    spent = 0.0
    for _ in range(PARTS):
        begin = time.thread_time()
        scene.run(rest / PARTS)
        spent += time.thread_time() - begin
        depth = max(depth, scene.depth)
        drift = max(drift, float(np.abs(scene.positions - positions).max()))
    return {
        "step": 1e6 * (middle - start) / round(duration / dt),
        "step at rest": 1e6 * spent / round(rest / dt),
        "contacts": scene.contacts,
        "depth": depth,
        "drift": drift,
    }


def _measure_scene(ready: ReadyScene, quick: bool) -> Record:
    begin = time.perf_counter()
    Ours(ready).run(ready.dt)
    first, ours = time.perf_counter() - begin, Ours(ready)
    periods = ready.dt, *(QUICK if quick else (SWING if ready.name == "pendulum" else ready.duration, REST))
    figures = _timed(ours, *periods)
    failed = sum(k for status, k in ours.sim.statuses.items() if status not in SOLVED)
    peer = partial(MujocoScene, ready.scene, ready.q0, ready.v0, ready.dt)
    peers = {"mujoco": if_present(peer), "mujoco, dense": None}
    if ready.scene.tree.nv <= MOST_DENSE:
        peers["mujoco, dense"] = if_present(partial(peer, dense=True))
    return {
        **figures,
        "first step": first,
        "not solved": failed / ours.sim.steps,
        **{name: None if scene is None else _timed(scene, *periods) for name, scene in peers.items()},
    }


FIRST = (
    "import time; from delassus_studies.bench.contact.scenes import heap, Ours; ready = heap(100); "
    "start = time.perf_counter(); Ours(ready).run(ready.dt); print(time.perf_counter() - start)"
)


def first_steps() -> Record:
    """Seconds from nothing to the first step of 100 boxes in new processes: nothing compiled before, and all of it."""
    with tempfile.TemporaryDirectory() as folder:
        given = {**os.environ, "DELASSUS_CACHE": folder}
        command = [sys.executable, "-c", FIRST]
        out = [subprocess.run(command, env=given, check=True, capture_output=True, text=True) for _ in range(2)]
    cold, warm = (float(x.stdout) for x in out)
    return {"cold": cold, "warm": warm}


def on_threads() -> Record:
    """Time a step (µs) of 50 heaps of 20 boxes from their fall to rest, on one thread and on two, in turns."""
    ready = heaps(50, 20)
    sims = [ds.Simulator(ready.scene, q0=ready.q0, v0=ready.v0, dt=ready.dt, threads=n) for n in (1, 2)]
    spent = np.zeros((len(sims), WINDOWS, CHUNKS))
    for window in range(WINDOWS):
        for chunk in range(CHUNKS):
            for k, sim in enumerate(sims):
                start = time.perf_counter()
                sim.run(CHUNK)
                spent[k, window, chunk] = time.perf_counter() - start
    one, two = 1e6 * np.median(spent, axis=2).mean(axis=1) / round(CHUNK / ready.dt)
    same = bool((sims[0].q == sims[1].q).all())
    return {"one": float(one), "two": float(two), "ratio": float(one / two), "same": same}


def measure(which: str, quick: bool = False) -> Iterator[Record]:
    """Every scene, ours and MuJoCo's in turns, on one core; the record after each."""
    record: Record = {**environment(), "first step of 100 boxes": None, "threads": None}
    with pinned(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ds.DelassusWarning)
        makers = SCENES[which]
        names = list(makers)[: 1 if quick else None]
        yield from each(record, "scenes", names, lambda name: _measure_scene(makers[name](), quick))
        if which == "piles" and not quick:
            record["first step of 100 boxes"] = first_steps()
            yield record
    if which == "piles" and not quick:
        record["threads"] = on_threads()
        yield record


def tables(record: Record) -> Iterator[Table | str]:
    """Times a step, and what is left of motion and overlap at rest, beside MuJoCo's."""
    rows, left = [], []
    for name, x in record["scenes"].items():
        peer: Record = x["mujoco"] or dict.fromkeys(x)
        ratio = peer["step"] and x["step"] / peer["step"]
        dense: Record = x["mujoco, dense"] or dict.fromkeys(x)
        rest = x["step at rest"], peer["step at rest"]
        rows.append((name, x["step"], peer["step"], dense["step"], ratio, *rest, x["first step"]))
        lengths = (y[key] and 1e3 * y[key] for key in ("depth", "drift") for y in (x, peer))
        left.append((name, x["contacts"], peer["contacts"], *lengths, 100 * x["not solved"]))
    yield "one core, processor time; default tolerance; mj_step with its defaults, and with dense Jacobians"
    columns = (
        "scene",
        "ours:,.1f",
        "MuJoCo:,.1f",
        "dense:,.1f",
        "ratio:.2f",
        "rest, ours:,.1f",
        "MuJoCo:,.1f",
        "first step:.3f",
    )
    yield table("µs a step, and a step of what follows, at rest if anything rests; first step: s", columns, rows,
                grows=(max(map(len, SCENES["piles"])),))  # fmt: skip
    lasting = ("contacts:,", "MuJoCo:,", "overlap:.3f", "MuJoCo:.3f", "drift:.1e", "MuJoCo:.1e", "unsolved:.2f %")
    yield table("what follows: contacts, overlap and drift (mm)", ("scene", *lasting), left)
    if first := record["first step of 100 boxes"]:
        yield f"first step of 100 boxes in a new process: {first['cold']:.1f} s, in the next {first['warm']:.2f} s"
    if both := record["threads"]:
        yield (
            f"1,000 boxes in 50 islands: {both['one']:,.0f} µs a step on one thread, {both['two']:,.0f} on two "
            f"({both['ratio']:.2f} ×), {'the same' if both['same'] else 'not the same'} to the last bit"
        )
