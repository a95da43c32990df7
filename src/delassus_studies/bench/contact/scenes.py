"""``delassus bench contact``, ``piles``, ``terrain``: scenes by `Simulator`, beside MuJoCo's ``mj_step``."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
from rich.table import Table

import delassus as ds
from delassus.cli.tables import Record, environment, table
from delassus.scenes import ReadyScene
from delassus.solvers.results import SOLVED
from delassus.spatial.rotations import Array
from delassus_studies.bench.contact.made import SCENES, SWING, heaps
from delassus_studies.peers import if_present
from delassus_studies.peers.mujoco import MujocoScene
from delassus_studies.timing import each, pinned

REST, PARTS = 1.0, 20
"""Seconds after a scene's own duration, and in how many parts these are looked at."""

MOST_DENSE = 180
"""Degrees of freedom up to which MuJoCo is timed with dense Jacobians, too, whose time grows with their cube."""

QUICK = 0.06, 0.04
"""Duration of a scene, and after it, of a quick run (s)."""

ROUNDS = 2
"""Runs of a scene in which single steps are timed; each step counts by its fastest."""

WINDOWS, CHUNKS, CHUNK = 15, 20, 5e-3
"""Of steps on one thread and on two: windows of which each has a median, chunks in each, and how long these are (s)."""


class Ours:
    """A scene by `Simulator`."""

    def __init__(self, ready: ReadyScene) -> None:
        self.sim = ready.simulator()

    def run(self, duration: float) -> None:
        """So many seconds, in one call."""
        self.sim.run(duration)

    def step(self) -> None:
        """One time step."""
        self.sim.step()

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


def _profiles(makers: Mapping[str, Callable[[], Ours | MujocoScene]], dt: float, duration: float) -> Record:
    """Mean, median and worst time (µs) of single steps, each a call, and each by its fastest of `ROUNDS` runs."""
    spent = np.full((len(makers), round(duration / dt)), np.inf)
    for _ in range(ROUNDS):
        for k, make in enumerate(makers.values()):
            scene = make()
            for n in range(spent.shape[1]):
                start = time.thread_time()
                scene.step()
                spent[k, n] = min(spent[k, n], 1e6 * (time.thread_time() - start))
    return {
        name: {"mean": float(x.mean()), "median": float(np.median(x)), "worst": float(x.max())}
        for name, x in zip(makers, spent, strict=True)
    }


def _measure_scene(ready: ReadyScene, quick: bool, singly: bool) -> Record:
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
    makers: dict[str, Callable[[], Ours | MujocoScene]] = {
        "ours": partial(Ours, ready),
        **({} if peers["mujoco"] is None else {"mujoco": peer}),
    }
    return {
        **figures,
        "single steps": _profiles(makers, *periods[:2]) if singly else None,
        "first step": first,
        "not solved": failed / ours.sim.steps,
        **{name: None if scene is None else _timed(scene, *periods) for name, scene in peers.items()},
    }


FIRST = (
    "import time; from delassus_studies.bench.contact.made import heap; "
    "from delassus_studies.bench.contact.scenes import Ours; ready = heap(100); "
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
        yield from each(record, "scenes", names, lambda name: _measure_scene(makers[name](), quick, which == "contact"))
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
                grows=(max(len(name) for group in SCENES.values() for name in group),))  # fmt: skip
    lasting = ("contacts:,", "MuJoCo:,", "overlap:.3f", "MuJoCo:.3f", "drift:.1e", "MuJoCo:.1e", "unsolved:.2f %")
    if any(x["single steps"] for x in record["scenes"].values()):
        single = []
        for name, x in record["scenes"].items():
            ours, peer = x["single steps"]["ours"], x["single steps"].get("mujoco")
            theirs = (None,) * 4 if peer is None else (peer["mean"], ours["mean"] / peer["mean"], *_worst(peer))
            single.append((name, ours["mean"], *theirs[:2], *_worst(ours), *theirs[2:]))
        columns = (
            "scene",
            "ours:,.1f",
            "MuJoCo:,.1f",
            "ratio:.2f",
            "worst:,.0f",
            "/ median:.1f",
            "MuJoCo:,.0f",
            "/ median:.1f",
        )
        yield table(f"a call a step, µs, each step by its fastest of {ROUNDS} runs; the worst step", columns, single)
    yield table("what follows: contacts, overlap and drift (mm)", ("scene", *lasting), left)
    if first := record["first step of 100 boxes"]:
        yield f"first step of 100 boxes in a new process: {first['cold']:.1f} s, in the next {first['warm']:.2f} s"
    if both := record["threads"]:
        yield (
            f"1,000 boxes in 50 islands: {both['one']:,.0f} µs a step on one thread, {both['two']:,.0f} on two "
            f"({both['ratio']:.2f} ×), {'the same' if both['same'] else 'not the same'} to the last bit"
        )


def _worst(steps: Record) -> tuple[float, float]:
    """The worst of single steps (µs), and over the median."""
    return steps["worst"], steps["worst"] / steps["median"]
