"""Derivatives of compiled contact steps: all at once, tangents and cotangents, beside MuJoCo's differences.

At states of a gait, float64, one core, times of a batch and of one state alone, lowest of the rounds. One state is
called time after time: its code (1.5 MB of A and B) stays in the caches.
``mjd_transitionFD`` makes the derivatives of MuJoCo's step with its state by differences, a column each: its time is
compared with that of the step, A and B, and over their number with a tangent, which is of one direction, too. Rollouts,
and cotangents back through them, are of NumPy arrays, times a step.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from rich.table import Table

import delassus as ds
from delassus.cli.tables import Record, environment, table
from delassus_studies.bench.contact import adjoint_checks, derivative_checks
from delassus_studies.bench.contact.steps import DT, StepCase, TimedRollout, starts, step_cases
from delassus_studies.peers import if_present
from delassus_studies.peers.mujoco import transition_differences
from delassus_studies.timing import Calls, each, interleaved, pinned, uncached

STATES, BLOCK, STEPS, ROUNDS, IN_A_ROW = 512, 64, 20, 9, 50
WITH_STATES = ("q_next", "v_next", "impulses_next", "residuals", "A", "B")
"""Results of the step and its derivatives with the state and with controls."""


def _repeated(call: partial[Any]) -> None:
    for _ in range(IN_A_ROW):
        call()


def _measure_case(case: StepCase, quick: bool) -> Record:
    n, rounds = (16, 1) if quick else (STATES, ROUNDS)
    start = starts(case, "gait", n, STEPS)
    kernel = case.kernel(dtype="float64")
    roll = TimedRollout(kernel, case, start)
    roll()
    of_each = zip(roll.arrays, kernel.arguments[:-1], strict=False)  # gains are the same at all steps
    given = [np.ascontiguousarray(x[-1] if x.ndim > 1 + len(a.shape) else x) for x, a in of_each]
    rng, found = np.random.default_rng(0), {"step": kernel}
    makes = {mode: partial(kernel.derivative, mode) for mode in ("jvp", "vjp")}
    makes["A, B"] = partial(case.kernel, dtype="float64", what="contact_step_derivatives", outputs=WITH_STATES)
    seconds = {}
    for name, make_kernel in makes.items():
        begin = time.process_time()
        with uncached():
            found[name] = made = make_kernel()
            made(*given, DT, *(np.zeros(a.shape) for a in made.arguments[len(given) + 1 :]), threads=1)
        seconds[name] = time.process_time() - begin
    calls: Calls = {}
    for name, made in found.items():
        further = [rng.normal(size=(n, *a.shape)) for a in made.arguments[len(given) + 1 :]]
        whole = [*given, np.full(n, DT), *further]
        alone = [x[0].copy() for x in whole]
        single = made.empty_results(())
        for size, rest in ((n, ""), (min(n, BLOCK), ", block")):
            first = [x[:size].copy() for x in whole]
            calls[name + rest] = partial(made, *first, out=made.empty_results(size), threads=1), size
        calls[f"{name}, one state"] = partial(_repeated, partial(made, *alone, out=single, threads=1)), IN_A_ROW
    for some, rest in ((slice(None), ""), (slice(1), ", one state")):
        q, v, p, targets = (np.ascontiguousarray(x[:, some]) for x in roll.arrays[:4])
        size = q.shape[1]
        how: dict[str, Any] = {"dt": DT, "kp": case.gains[0], "kd": case.gains[1], "time_axis": 0, "threads": 1}
        rolled = {"rollout": partial(ds.rollout, kernel, q[0], v[0], targets, impulses=p[0], **how)}
        bars: dict[str, Any] = {f"{name}_next_bar": rng.normal(size=x[1:].shape) for name, x in (("q", q), ("v", v))}
        rolled["rollout, vjp"] = partial(ds.rollout, found["vjp"], q, v, targets, impulses=p, **bars, **how)
        calls |= {name + rest: (call, size * STEPS) for name, call in rolled.items()}
    times = interleaved(calls, rounds, clock=time.thread_time)
    make = partial(transition_differences, case.tree, case.contacts, given[0][:20], given[1][:20], DT,
                   case.options["limits"], rounds)  # fmt: skip
    operations = {name: made.operations.total for name, made in found.items()}
    return {"times": times, "operations": operations, "compiled": seconds, "mujoco": if_present(make)}


def measure(quick: bool = False, check: bool = False) -> Iterator[Record]:
    """All figures of every case, or errors of rollouts and of every robot in their place; the record after each."""
    if check:
        record = dict(environment())
        for checks in (adjoint_checks, derivative_checks):
            yield from checks.measure(record, quick)
        return
    cases = step_cases(quick)[: 1 if quick else None]
    with pinned():
        yield from each(dict(environment()), "cases", cases, lambda case: _measure_case(case, quick))


def tables(record: Record) -> Iterator[Table | str]:
    """Times, and ratios to the step and to MuJoCo's differences; or errors."""
    if "cases" not in record:
        for key, checks in (("motions", adjoint_checks), ("robots", derivative_checks)):
            if record.get(key):
                yield from checks.tables(record)
        return
    yield "processor time of one core, float64, lowest; one tangent or cotangent a state, or A and B with all columns"
    for name, case in record["cases"].items():
        times, peer = case["times"], case["mujoco"]
        rows = []
        for kernel in ("step", "jvp", "vjp", "A, B", "rollout", "rollout, vjp"):
            batch, one = (times[f"{kernel}{rest}"]["lowest"] for rest in ("", ", one state"))
            block = None if "rollout" in kernel else times[f"{kernel}, block"]["lowest"]
            ratio = peer and peer["lowest" if kernel == "A, B" else "per_column"] / batch
            ratio = None if "rollout" in kernel else ratio
            rows.append(
                (kernel, batch, batch / times["step"]["lowest"], block, one, case["compiled"].get(kernel), ratio)
            )
        columns = ("kernel", "µs a state:.2f", "over the step:.2f", f"of {BLOCK} µs:.2f", "one state µs:.1f",
                   "compiled for batches s:.1f", "mjd_transitionFD, per column but of A, over it:.1f")  # fmt: skip
        yield table(name, columns, rows)
        if peer:
            yield f"mjd_transitionFD: {peer['lowest']:,.0f} µs a state, {peer['columns']} columns"
