"""``delassus bench gpu --check``: every quantity on the device beside the same program on the processor.

Both run one program, which the two compilers round and fuse differently. The bound of a relative error is that of its
round-off, twice over: what the program estimates of itself (ε / ``rcond``), a rounding for each operation, and where it
iterates its tolerance. States come in sizes around those of a warp, the largest with a state that is not a number: its
results are, and no other's. Unsolved states, those below the least ``rcond``, are to be NaN on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from rich.table import Table

import delassus as ds
from delassus.cli.tables import Record, table
from delassus.constraints import Constraint
from delassus.errors import DelassusError
from delassus.quantities import QUANTITIES
from delassus.quantities.estimate import usual_states
from delassus.quantities.quantity import STATES
from delassus.runtime.compile import compile_at_once
from delassus.spatial.rotations import Array
from delassus_studies.bench.gpu.on_device import OnDevice
from delassus_studies.loop_mechanisms import four_bars
from delassus_studies.timing import in_turn

DTYPES = ("float64", "float32")

SIZES = (1, 31, 32, 33, 1000)
"""Numbers of states: one, those around a warp, and some blocks."""

LOST = 5
"""State of a batch whose numbers are NaN."""

STEPS = 5
"""Of rollouts, which are to repeat calls bit by bit."""

NOTHING = 1e-9
"""Where the largest entry is below this, it is what round-off left of numbers of order one: errors are absolute.

So they are of residuals, which are errors themselves.
"""

UNSURE = 4.0
"""Factor between reciprocal conditions of device and processor, at most: states as near to the least may be either."""

MARGIN = 2.0
"""Both sides of a difference have an error."""

MODES = ("jacobian", "jvp", "vjp")
DERIVED = ("delassus", "kinematics", "inverse_dynamics", "dynamics", "step", "contact_step")
"""Quantities whose derivatives, which are programs of their own, are checked too."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A kernel to compile, twice."""

    what: str
    robot: str
    tree: ds.Tree
    constraints: tuple[Constraint, ...]
    dtype: str
    modes: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What it is, on which robot."""
        return f"{' of '.join((*self.modes[::-1], self.what))}, {self.robot}, {self.dtype}"

    def kernel(self, **target: Any) -> Any:
        """For the processor, or another ``target``."""
        options: dict[str, Any] = {"dtype": self.dtype, **self.options, **target}
        made: Any = compile_at_once(self.tree, self.constraints, self.what, wait=True, **options)
        return made.derivative(*self.modes) if self.modes else made


# -- cases -----------------------------------------------------------------------------------------------------------


def cases(quick: bool = False) -> list[Asked]:
    """Every quantity in both types on an arm, a floating robot or one in contact, and a loop; and derivatives.

    ``quick``: two quantities on the arm, and a step with contacts.
    """
    arm, star, loop = ds.mechanisms.chain(7), ds.mechanisms.star(3, 2), four_bars(1)
    ends = star.link_names[2::2]
    held = (ds.Weld(ends[0]), ds.Point(ends[1]))
    feet = tuple(ds.Contact(ds.Frame(end, (0.1, 0.0, 0.0)), ds.contact.Sphere(0.05), friction=0.7) for end in ends)
    robots: dict[str, tuple[ds.Tree, tuple[Constraint, ...]]] = {
        "arm": (arm, (ds.Point("link7"),)),
        "star": (star, held),
        "loop": (loop.tree, loop.constraints),
    }
    if quick:
        robots = {"arm": (ds.mechanisms.chain(2), (ds.Point("link2"),))}
        star, feet = ds.mechanisms.star(1, 1), ()
        feet = (ds.Contact(star.link_names[1], ds.contact.Sphere(0.1)),)
    asked = []
    for dtype in DTYPES:
        for what in ("delassus", "step") if quick else QUANTITIES:
            if what.startswith("contact_step"):
                asked.append(Asked(what, "star on a plane", star, feet, dtype))
                continue
            for robot, (tree, constraints) in robots.items():
                options = {}
                if "sensors" in QUANTITIES[what].options:
                    options["sensors"] = [ds.Sensor("imu", "accelerometer", tree.link_names[-1])]
                asked.append(Asked(what, robot, tree, constraints, dtype, (), options))
        if quick:
            asked.append(Asked("contact_step", "star on a plane", star, feet, dtype))
            continue
        for what in DERIVED:
            in_contact = what == "contact_step"
            robot, constraints = ("star on a plane", feet) if in_contact else ("star", held)
            asked += [Asked(what, robot, star, constraints, dtype, (mode,)) for mode in MODES[in_contact:]]
        twice = (ds.Weld("link7"), ds.Point("link7"))  # no state is solved: all are NaN on the device
        asked.append(Asked("dynamics", "arm, held twice", arm, twice, dtype, (), {"method": "pv"}))
    return asked


def states_of(kernel: ds.Kernel, n: int) -> list[Array]:
    """Values (n, …) of a kernel's arguments, no two states alike, in its type."""
    rng, request, at = np.random.default_rng(n), kernel.request, 0
    usual, values = np.concatenate(usual_states(request)), []
    for a in kernel.arguments:
        own = usual[:, at : at + a.size].reshape(-1, *a.shape)
        at += a.size
        x = own[np.arange(n) % len(own)]
        if a.name in ("q", "q_end"):
            x = request.tree.integrate(x, 0.01 * rng.normal(size=(n, request.tree.nv)))
        elif a.name in STATES:
            x = x * rng.uniform(0.9, 1.1, x.shape)
        values.append(np.ascontiguousarray(x, dtype=kernel.dtype))
    return values


# -- comparisons -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """Of one kernel and size: the largest error over its bound, of which result and state, and what is wrong.

    ``beyond``: share of states whose error is above the bound.
    """

    ratio: float
    error: float
    where: str
    faults: tuple[str, ...] = ()
    beyond: float = 0.0


def raw(kernel: ds.Kernel, values: list[Array]) -> tuple[list[Array], Array]:
    """Results of the processor's machine code as they are, and reciprocal conditions (n,)."""
    batch = (len(values[0]),)
    results = [np.empty((*batch, *r.shape), kernel.dtype) for r in kernel.results]
    rcond = kernel.compute(values, results, batch, 1)
    return results, rcond[0] if rcond else np.ones(batch, kernel.dtype)


def bound_of(kernel: ds.Kernel, rcond: Array) -> float:
    """Of relative errors: by the worst of the states that are solved."""
    eps = float(np.finfo(kernel.dtype).eps)
    solved = rcond[rcond >= kernel.least_rcond] if kernel.has_rcond else np.ones(1)
    estimate = eps / float(solved.min(initial=1.0)) if kernel.has_rcond else 0.0
    last = kernel.request.options.tolerance if kernel.iterates else 0.0
    return MARGIN * (estimate + eps * max(kernel.operations.total, 1) + last)


def compare(kernel: ds.Kernel, values: list[Array], found: list[Array]) -> Found:
    """Results that a device ``found`` beside those of the processor's ``kernel``."""
    wanted, rcond = raw(kernel, values)
    bound, faults = bound_of(kernel, rcond), []
    least = -np.inf if kernel.iterates or not kernel.has_rcond else kernel.least_rcond
    solved, unsolved = rcond >= UNSURE * least, ~(rcond >= least / UNSURE)
    if least == -np.inf:
        solved, unsolved = np.ones(len(rcond), dtype=bool), np.zeros(len(rcond), dtype=bool)
    worst, beyond = Found(0.0, 0.0, ""), np.zeros(len(rcond), dtype=bool)
    for result, x, y in zip(kernel.results, found, wanted, strict=True):
        if x.shape != y.shape or x.dtype != y.dtype:
            faults.append(f"{result.name}: {x.shape} {x.dtype}, expected {y.shape} {y.dtype}")
            continue
        if not y.size:
            continue
        given, expected = x.reshape(len(x), -1), y.reshape(len(y), -1)
        wrong = np.flatnonzero(~np.isnan(given).all(axis=1) & unsolved)
        if wrong.size:
            faults.append(f"{result.name}: {len(wrong)} unsolved state(s) are not NaN, the first is {wrong[0]}")
        differs = (np.isnan(given) != np.isnan(expected)) & solved[:, None]
        if differs.any():
            state, entry = np.argwhere(differs)[0]
            count = int(differs.any(axis=1).sum())
            faults.append(f"{result.name}: NaN in {count} state(s) that differ, the first is {state}, entry {entry}")
        both = np.isfinite(given) & np.isfinite(expected) & solved[:, None]
        scale = float(np.abs(expected[both]).max(initial=0.0))
        gap = np.where(both, np.abs(np.where(both, given, 0) - np.where(both, expected, 0)), 0.0)
        gap /= 1.0 if scale < NOTHING or result.name.startswith("residual") else scale
        error, beyond = float(gap.max()), beyond | (gap > bound).any(axis=1) | differs.any(axis=1)
        if error / bound > worst.ratio:
            state, entry = np.unravel_index(int(gap.argmax()), gap.shape)
            worst = Found(error / bound, error, f"{result.name}, state {state}, entry {entry}")
    if worst.ratio > 1.0:
        faults.append(f"error {worst.error:.1e} above {bound:.1e}: {worst.where}")
    return Found(worst.ratio, worst.error, worst.where, tuple(faults), float(beyond.mean()))


def check_kernel(asked: Asked, devices: Sequence[Any]) -> Iterator[tuple[str, Found]]:
    """Each size on the first device, the largest with a NaN in a state; a rollout; a call; the other devices."""
    here, there = asked.kernel(), asked.kernel(target="cuda")
    for n in SIZES:
        values = states_of(here, n)
        if n == SIZES[-1]:
            for x in values:
                x[LOST] = np.nan
        yield f"{n} states", compare(here, values, launched(there, values, devices[0]))
    values = states_of(here, SIZES[-2])
    if here.request.is_rolled and not asked.modes:
        yield f"rollout of {STEPS} steps", _rolled(there, values, devices[0])
    yield "a call with arrays of NumPy", compare(here, values, as_list(there(*values)))
    for device in devices[1:]:
        yield repr(device), compare(here, values, launched(there, values, device))


def as_list(found: Any) -> list[Array]:
    """Results of a call."""
    return list(found) if isinstance(found, tuple) else [found]


def launched(kernel: Any, values: list[Array], device: Any) -> list[Array]:
    """Results of one launch."""
    on = OnDevice(kernel, values, device)
    on.launch()
    return on.results()


def _rolled(kernel: Any, values: list[Array], device: Any) -> Found:
    """Steps in one launch beside as many launches, whose numbers are to be the same."""
    on, n_states = OnDevice(kernel, values, device, STEPS), kernel.request.quantity.states
    on.launch()
    rolled, found = on.results(), values[:n_states]
    for _ in range(STEPS):
        found = launched(kernel, [*found[:n_states], *values[n_states:]], device)
    faults = [
        f"{result.name} of step {STEPS} differs from that of as many launches"
        for result, x, y in zip(kernel.results, rolled, found, strict=True)
        if not np.array_equal(x, y, equal_nan=True)
    ]
    return Found(0.0, 0.0, "", tuple(faults))


# -- command ---------------------------------------------------------------------------------------------------------


def measure(record: Record, quick: bool, devices: Sequence[Any]) -> Iterator[Record]:
    """Rows of all kernels, each its worst size; the record after each."""
    rows = record["checks"] = []
    yield record
    for asked in in_turn(cases(quick)):
        rows.append(_row(asked, partial(check_kernel, asked, devices)))
        yield record


def _row(asked: Asked, check: Callable[[], Iterator[tuple[str, Found]]]) -> Record:
    worst, faults, sizes = Found(0.0, 0.0, ""), list[str](), 0
    try:
        for what, found in check():
            sizes += 1
            faults += [f"{what}: {fault}" for fault in found.faults]
            if found.ratio >= worst.ratio:
                worst = found
    except (DelassusError, ArithmeticError, ValueError, RuntimeError) as error:  # and the next kernel is checked
        faults.append(f"{type(error).__name__}: {error}")
    return {"kernel": asked.name, "error": worst.error, "ratio": worst.ratio, "calls": sizes, "faults": faults}


def holds(record: Record) -> bool:
    """Whether all comparisons do."""
    return bool(record["checks"]) and not any(row["faults"] for row in record["checks"])


def tables(record: Record) -> Iterator[Table | str]:
    """A row a kernel; then what is wrong, in full."""
    yield "; ".join(f"{name} {value}" for name, value in record["device"].items() if name != "nvidia-smi")
    rows = []
    for row in record["checks"]:
        said = f"{len(row['faults'])} fault(s)" if row["faults"] else "holds"
        rows.append((row["kernel"], row["calls"], row["error"], row["ratio"], said))
    heads = ("kernel", "calls:,", "largest error:.1e", "of its bound:.3f", "device = processor")
    width = max((len(row["kernel"]) for row in record["checks"]), default=40)
    yield table("", heads, rows, text=("device = processor",), grows=(max(width, 60), 5, 13, 12, 18))
    for row in record["checks"]:
        for fault in row["faults"]:
            yield f"{row['kernel']}: {fault}"
    wrong = sum(bool(row["faults"]) for row in record["checks"])
    sizes = ", ".join(map(str, SIZES))
    yield f"{len(record['checks'])} kernels, {wrong} with faults; {sizes} states, of the last state {LOST} is NaN"
