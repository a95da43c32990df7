"""``delassus bench contact-steps``: residual of compiled contact steps against their cost, MuJoCo beside them.

Each case is a robot under PD control on a plane, from many starts at once. *Warm* steps start from the impulses of the
step before, as `delassus.rollout` takes them, *cold* ones from zero, at states that the warm ones have visited. Times
are processor times of the machine code on one core; nothing is solved again. A residual is the largest of a step's
three. Of ``mj_step``, each step counts by the fastest of the rounds, without what other work on the machine adds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.table import Table

import delassus as ds
from delassus.algorithms.contact.solvers import SOLVERS
from delassus.cli.tables import Record, environment, table
from delassus.errors import missing_dependency
from delassus.spatial.rotations import Array
from delassus_studies.cases import GO1_FEET, TALOS_FEET, installed
from delassus_studies.figures import line_figure
from delassus_studies.peers import if_present, present
from delassus_studies.peers.mujoco import mujoco_steps
from delassus_studies.timing import Calls, each, interleaved, pinned

DT = 1e-3
SWEEPS = (5, 10, 20, 30, 40, 60)
DTYPES = ("float32", "float64")
WANTED = 1e-4
"""Residual (m/s) that 99 % of the steps are to stay below."""

STATES, STEPS, SETTLED = 256, 100, 400
"""States side by side, steps that are timed, and steps from rest before those of a gait."""
EVERY = 10
"""Steps between two that are taken cold."""
LEAST = 1e-12
"""Residual (m/s) that smaller ones are drawn at."""

ROUNDS = 9

AIMS = {
    ("Go1", "float32"): 2.5e6,
    ("Go1", "float64"): 1.2e6,
    ("Go1, limits and joint friction", "float32"): 1.2e6,
    ("Talos", "float32"): 3e5,
}
"""Steps a second on one core, with residuals below `WANTED` in 99 % of them."""
Motion = Literal["gait", "falls"]


@dataclass(frozen=True, slots=True)
class StepCase:
    """A robot on a plane: contacts, a stance, PD gains (nv) and options of its kernel.

    ``gait`` makes targets (T, n, nq) of T steps from phases (n,); without it the stance is held.
    """

    name: str
    tree: ds.Tree
    contacts: tuple[ds.Contact, ...]
    stance: Array
    gains: tuple[Array, Array]
    options: dict[str, Any]
    gait: Callable[[ds.Tree, Array, Array, int], Array] | None = None

    def kernel(self, what: str = "contact_step", **options: Any) -> ds.Kernel:
        """The compiled step, or the step with its derivatives."""
        return ds.compile(self.tree, self.contacts, what, control="pd", tolerance=WANTED,  # type: ignore[no-any-return]
                       **{**self.options, **options})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Starts:
    """Where rollouts start, and PD targets (T, n, nq) of their steps."""

    q: Array
    v: Array
    impulses: Array
    targets: Array


# -- cases -----------------------------------------------------------------------------------------------------------


def _on_the_ground(tree: ds.Tree, q: Array, contacts: Sequence[ds.Contact], height: float | Array) -> Array:
    """``q`` (..., nq) with its lowest contact point at a height (...)."""
    low = np.full(q.shape[:-1], np.inf)
    poses = ds.forward_kinematics(tree, q, [c.frame for c in contacts])
    for k, c in enumerate(contacts):
        ((_, radius),) = c.spheres
        low = np.minimum(low, poses[..., k, 2, 3] - radius)
    moved = q.copy()
    moved[..., 2] += height - low
    return moved


def _gains(tree: ds.Tree, q: Array, stiffness: float, damping: float) -> tuple[Array, Array]:
    """Gains of all joints but the root, smaller where a light link would make them unstable with explicit steps."""
    own = 1.0 / np.diag(np.linalg.inv(ds.mass_matrix(tree, q)))
    kp, kd = np.minimum(stiffness, 0.05 * own / DT**2), np.minimum(damping, 0.3 * own / DT)
    kp[:6] = kd[:6] = 0.0
    return kp, kd


def _trot(tree: ds.Tree, stance: Array, phases: Array, steps: int) -> Array:
    """Diagonal pairs of legs swing in turns, twice a second."""
    out = np.tile(stance, (steps, len(phases), 1))
    time_of = 2 * np.pi * 2.0 * DT * np.arange(steps)[:, None] + phases
    for leg, shift in (("FL", 0.0), ("RR", 0.0), ("FR", np.pi), ("RL", np.pi)):
        angle = (time_of + shift)[..., None]
        out[..., tree.q_index(f"{leg}_thigh_joint")] += 0.15 * np.cos(angle)
        out[..., tree.q_index(f"{leg}_calf_joint")] -= 0.4 * np.maximum(np.sin(angle), 0.0)
    return out


def _go1(joints: bool) -> StepCase:
    tree = installed("go1")
    contacts = tuple(ds.Contact(foot, ds.contact.Sphere(0.02), friction=0.7) for foot in GO1_FEET)
    stance = tree.neutral()
    for leg in ("FL", "FR", "RL", "RR"):
        stance[tree.q_index(f"{leg}_thigh_joint")], stance[tree.q_index(f"{leg}_calf_joint")] = 0.8, -1.5
    name = "Go1, limits and joint friction" if joints else "Go1"
    options = {"limits": joints, "passive": "model" if joints else "none"}
    stance = _on_the_ground(tree, stance, contacts, 0.0)
    return StepCase(name, tree, contacts, stance, _gains(tree, stance, 60.0, 2.0), options, _trot)


def _talos() -> StepCase:
    """On four small spheres at the corners of each sole, half-sitting."""
    tree = installed("talos_reduced")
    corners = [(x, y, -0.107) for x in (0.1, -0.1) for y in (0.06, -0.06)]
    contacts = tuple(
        ds.Contact(ds.Frame(foot, at), ds.contact.Sphere(1e-3), friction=0.7) for foot in TALOS_FEET for at in corners
    )
    stance = tree.neutral()
    for side in ("left", "right"):
        for number, angle in ((3, -0.4), (4, 0.8), (5, -0.4)):
            stance[tree.q_index(f"leg_{side}_{number}_joint")] = angle
    stance = _on_the_ground(tree, stance, contacts, 0.0)
    options = {"limits": False, "passive": "none"}
    return StepCase("Talos", tree, contacts, stance, _gains(tree, stance, 1500.0, 50.0), options)


def step_cases(quick: bool = False) -> list[StepCase]:
    """Go1, the same with limits and joint friction, and Talos, as far as they are installed."""
    makers: dict[str, Callable[[], StepCase]] = {"Go1": partial(_go1, False)}
    if not quick:
        makers |= {"Go1, limits and joint friction": partial(_go1, True), "Talos": _talos}
    if not (made := present(makers)[0]):
        raise missing_dependency("example-robot-data", "robots", "Go1 and Talos")
    return list(made.values())


# -- starts ----------------------------------------------------------------------------------------------------------


def starts(case: StepCase, motion: Motion, n: int, steps: int) -> Starts:
    """Starts of ``n`` rollouts: on the feet, in the middle of a gait, each at another phase; or falling, at random."""
    rng, tree = np.random.default_rng(0), case.tree
    q = np.tile(case.stance, (n, 1))
    kernel = case.kernel(sweeps=SWEEPS[-1])
    size = kernel.arguments[2].size
    if motion == "falls":
        q[:, 7:] += 0.1 * rng.normal(size=(n, tree.nq - 7))
        q[:, 3:6] += 0.05 * rng.normal(size=(n, 3))
        q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
        q = _on_the_ground(tree, q, case.contacts, rng.uniform(0.0, 0.02, n))
        v = 0.5 * rng.normal(size=(n, tree.nv))
        v[:, 2] -= 0.5
        return Starts(q, v, np.zeros((n, size)), np.tile(case.stance, (steps, n, 1)))
    q[:, 7:] += 0.01 * rng.normal(size=(n, tree.nq - 7))
    q = _on_the_ground(tree, q, case.contacts, -1e-5)
    phases = rng.uniform(0, 2 * np.pi, n)
    targets = np.tile(q, (SETTLED + steps, 1, 1))
    if case.gait is not None:
        targets = case.gait(tree, case.stance, phases, SETTLED + steps)
    q, v, p, *_ = ds.rollout(kernel, q, np.zeros((n, tree.nv)), targets[:SETTLED], DT, time_axis=0,
                          return_status=True, kp=case.gains[0], kd=case.gains[1])  # fmt: skip
    return Starts(q[-1], v[-1], p[-1], targets[SETTLED:])


# -- measurements ----------------------------------------------------------------------------------------------------


class TimedRollout:
    """Rollouts of a kernel whose arrays are ready: machine code alone, on this thread."""

    def __init__(self, kernel: ds.Kernel, case: StepCase, start: Starts) -> None:
        self.kernel = kernel
        self.steps, self.n = start.targets.shape[:2]
        self.residuals: Array = np.zeros((self.steps, self.n, 3), kernel.dtype)
        states, held = (start.q, start.v, start.impulses), (start.targets, *case.gains)
        self.arrays = [np.zeros((self.steps + 1, self.n, *a.shape), kernel.dtype) for a in kernel.arguments[:3]]
        for array, first in zip(self.arrays, states, strict=True):
            array[0] = first
        for argument, given in zip(kernel.arguments[3:6], held, strict=True):
            times = (self.steps,) if given.ndim > 1 else ()  # gains are the same at all steps
            wide = np.broadcast_to(given, (*times, self.n, *argument.shape))
            self.arrays.append(np.ascontiguousarray(wide, dtype=kernel.dtype))
        self.arrays.append(np.full(self.n, DT, kernel.dtype))

    def __call__(self) -> None:
        """Run all steps."""
        now, after = ([x[part] for x in self.arrays[:3]] for part in (slice(-1), slice(1, None)))
        self.kernel.roll([*now, *self.arrays[3:]], [*after, self.residuals], (self.n,), self.steps, 1)

    def cold(self, case: StepCase) -> TimedRollout:
        """Single steps without impulses from states that this has visited."""
        q, v = (x[:-1][::EVERY].reshape(-1, x.shape[-1]).astype(float) for x in self.arrays[:2])
        targets = self.arrays[3][::EVERY].reshape(1, len(q), -1).astype(float)
        size = self.kernel.arguments[2].size
        return TimedRollout(self.kernel, case, Starts(q, v, np.zeros((len(q), size)), targets))

    def statistics(self) -> Record:
        """Of the largest residual of each step."""
        worst = self.residuals.max(axis=-1).ravel()
        worst = np.where(np.isfinite(worst), worst, np.inf)
        median, high = (float(x) for x in np.quantile(worst, (0.5, 0.99)))
        return {"median": median, "p99": high, "largest": float(worst.max()), "share": float(np.mean(worst <= WANTED))}


def _measure_kernel(case: StepCase, made: dict[Motion, Starts], rounds: int, **options: Any) -> Record:
    """Times and residuals of one kernel, warm and cold, of both motions."""
    kernel = case.kernel(**options)
    rolls = {f"{motion}, warm": TimedRollout(kernel, case, start) for motion, start in made.items()}
    for motion in list(rolls):
        rolls[motion]()
        rolls[motion.replace("warm", "cold")] = rolls[motion].cold(case)
    calls: Calls = {name: (roll, roll.n * roll.steps) for name, roll in rolls.items()}
    times = interleaved(calls, rounds, clock=time.thread_time)
    figures = {name: {"time": times[name], "residual": roll.statistics()} for name, roll in rolls.items()}
    return {**options, "operations": kernel.operations.total, "figures": figures}


def _measure_case(case: StepCase, quick: bool) -> Record:
    n, steps, rounds = (16, 10, 1) if quick else (STATES, STEPS, ROUNDS)
    motions: tuple[Motion, ...] = ("gait", "falls")
    made = {motion: starts(case, motion, n, steps) for motion in motions}
    solvers = list(SOLVERS)[: 1 if quick else None]
    names = {motion: ("trot" if case.gait else "stand") if motion == "gait" else motion for motion in motions}
    curves = [
        _measure_kernel(case, made, rounds, dtype=dtype, solver=solver, sweeps=sweeps)
        for dtype in (DTYPES[1:] if quick else DTYPES)
        for solver in solvers
        for sweeps in (SWEEPS[-1:] if quick else SWEEPS)
    ]
    peers = {}
    for motion, start in made.items():
        few = start.q[:20], start.v[:20], start.targets[:, :20]
        acts = case.options["limits"]
        make = partial(mujoco_steps, case.tree, case.contacts, *few, case.gains, DT, acts, rounds)
        peers[motion] = if_present(make)
    return {"motions": names, "curves": curves, "mujoco": peers}


def measure(quick: bool = False) -> Iterator[Record]:
    """All figures of every case; the record after each."""
    record = {**environment(), "dt": DT, "wanted": WANTED}
    cases = step_cases(quick)  # which says what is not installed, before anything is printed
    with pinned():
        yield from each(record, "cases", cases, lambda case: _measure_case(case, quick))


# -- tables and figure -----------------------------------------------------------------------------------------------


def cheapest(case: Record, dtype: str) -> Record | None:
    """Of the kernels whose warm steps of both motions stay below `WANTED` in 99 % of them, that of the fastest gait."""

    def enough(curve: Record) -> bool:
        return all(curve["figures"][f"{motion}, warm"]["residual"]["share"] >= 0.99 for motion in case["motions"])

    fit = [curve for curve in case["curves"] if curve["dtype"] == dtype and enough(curve)]
    return min(fit, key=lambda curve: float(curve["figures"]["gait, warm"]["time"]["lowest"]), default=None)


def tables(record: Record) -> Iterator[Table | str]:
    """A curve for each case and solver; what is reached beside what is aimed at."""
    yield "one core, processor time of the machine code alone, lowest of the rounds; residual in m/s, warm and cold"
    for name, case in record["cases"].items():
        for motion, shown in case["motions"].items():
            rows = []
            for curve in case["curves"]:
                row = [f"{curve['solver']} {curve['sweeps']}, {curve['dtype']}"]
                for start in ("warm", "cold"):
                    figures = curve["figures"][f"{motion}, {start}"]
                    found = figures["residual"]
                    row += [figures["time"]["lowest"], found["median"], found["p99"], 100 * found["share"]]
                rows.append(row)
            columns = ("solver, sweeps", *("µs:.3f", "median:.0e", "99 %:.0e", "share:.1f") * 2)
            yield table(f"{name}, {shown}: µs a step, residual, % of steps ≤ 1e-4; warm, then cold", columns, rows)
        yield table(f"{name}: reached with residuals ≤ 1e-4 m/s in 99 % of the warm steps of both motions",
                    ("motion", "kernel", "sweeps", "µs:.3f", "steps/s:,.0f", "aim:,.0f", "mj_step µs:.1f", "ratio:.1f"),
                    _reached(name, case), text=("kernel",))  # fmt: skip


def _reached(name: str, case: Record) -> Iterator[tuple[object, ...]]:
    for dtype in dict.fromkeys(curve["dtype"] for curve in case["curves"]):
        best = cheapest(case, dtype)
        for motion, shown in case["motions"].items():
            aim, peer = AIMS.get((name, dtype)), case["mujoco"][motion]
            theirs = peer and peer["lowest"]
            if best is None:
                yield shown, dtype, "none", None, None, aim, theirs, None
                continue
            lowest = best["figures"][f"{motion}, warm"]["time"]["lowest"]
            kernel = f"{dtype} {best['solver']}"
            yield shown, kernel, best["sweeps"], lowest, 1e6 / lowest, aim, theirs, theirs and theirs / lowest


def draw(record: Record, folder: Path) -> Path:
    """Curves of the 99 % quantile against µs a step, warm, in float32; one panel for each case and motion."""
    panels: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    for name, case in record["cases"].items():
        for motion, shown in case["motions"].items():
            lines = panels.setdefault(f"{name.replace(' and joint friction', ', friction')}: {shown}", {})
            for curve in case["curves"]:
                if curve["dtype"] != case["curves"][0]["dtype"]:
                    continue
                found = curve["figures"][f"{motion}, warm"]
                xs, ys = lines.setdefault(curve["solver"], ([], []))
                xs.append(found["time"]["lowest"])
                ys.append(max(found["residual"]["p99"], LEAST))
    label = "residual (m/s): 99 % are below"
    return line_figure(folder / "contact_steps.png", panels, "µs a step", label, log=True, level=record["wanted"])
