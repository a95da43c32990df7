"""Kernels that ``delassus bench gpu`` is about, and states to call them with, which are random or those of a gait."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

import delassus as ds
from delassus.spatial.rotations import Array
from delassus_studies.bench.contact.steps import DT, Starts, StepCase, starts, step_cases
from delassus_studies.cases import Case, benchmark_cases, random_states
from delassus_studies.loop_mechanisms import digit_legs_and_arms

DTYPES = ("float32", "float64")
SWEEPS = 20
"""Of contact steps."""

GAIT = 4096
"""States of a gait, repeated with other velocities."""

AIMS = {
    "Go1, 4 points: Delassus matrix": 2e9,
    "Talos, 2 welds: Delassus matrix": 1e9,
    "G1, 4 welds: Delassus matrix": 2.5e8,
    "Go1, 4 points: dynamics, pv-early": 2e9,
    "Go1: contact step": 3e8,
}
"""States a second that are aimed at on an H200, float32."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A kernel by name: what makes it for a type and target, and values (n, …) of its arguments, in float64."""

    name: str
    make: Callable[..., Any]
    given: Callable[[Any, int], Sequence[Array]]
    is_step: bool = False

    def values(self, kernel: Any, n: int) -> list[Array]:
        """Values of all arguments for n states, in the kernel's type."""
        return [np.ascontiguousarray(x, dtype=kernel.dtype) for x in self.given(kernel, n)]


def timed_kernels(quick: bool = False) -> Iterator[Timed]:
    """All of them, as far as robots are installed; ``quick``: a Delassus matrix of a chain."""
    for case in [*benchmark_cases(quick), *([] if quick else [digit_legs_and_arms()])]:
        make = partial(ds.compile, case.tree, case.constraints)
        yield Timed(f"{case.name}: Delassus matrix", make, partial(_configurations, case))
        if case.name.startswith("Go1"):
            method: dict[str, Any] = {"method": "pv-early", "passive": "none"}
            yield Timed(f"{case.name}: dynamics, pv-early", partial(make, "dynamics", **method), partial(_states, case))
    for step in [] if quick else contact_steps():
        yield Timed("Go1: contact step", partial(step.kernel, sweeps=SWEEPS), partial(_gait, step), is_step=True)
        for mode in ("jvp", "vjp"):
            yield Timed(f"Go1: contact step, {mode}", partial(_derivative, step, mode), partial(_gait, step))


def contact_steps() -> list[StepCase]:
    """That of Go1, if it is installed."""
    try:
        return step_cases(quick=True)
    except ds.DelassusError:  # without the extra robots
        return []


def _derivative(step: StepCase, mode: str, **options: Any) -> Any:
    return step.kernel(sweeps=SWEEPS, **options).derivative(mode)


def _configurations(case: Case, kernel: Any, n: int) -> list[Array]:
    return [case.tree.random(0, n)]


def _states(case: Case, kernel: Any, n: int) -> list[Array]:
    found = random_states(case, n)
    return [found.q, found.v, found.tau]


@cache
def settled(name: str) -> Starts:
    """States in the middle of its gait."""
    (step,) = (step for step in contact_steps() if step.name == name)
    return starts(step, "gait", GAIT, 1)


def _gait(step: StepCase, kernel: Any, n: int) -> list[Array]:
    """States in the middle of a gait, with their impulses, targets and gains; tangents or cotangents are random."""
    start, rng, pick = settled(step.name), np.random.default_rng(1), np.arange(n) % GAIT
    v = start.v[pick] + 1e-3 * rng.normal(size=(n, start.v.shape[-1]))
    held = [np.broadcast_to(gain, (n, len(gain))) for gain in step.gains]
    known = [start.q[pick], v, start.impulses[pick], start.targets[0][pick], *held, np.full(n, DT)]
    return known + [rng.normal(size=(n, *a.shape)) for a in kernel.arguments[len(known) :]]
