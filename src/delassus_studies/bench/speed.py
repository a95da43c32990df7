"""``delassus bench speed``: compiled kernels beside their peers, in the same run, at the same states, on one core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

import numpy as np
from rich.table import Table

import delassus as ds
from delassus.cli.tables import Record, environment, spread, table
from delassus.runtime.threads import cores
from delassus.spatial.rotations import Array
from delassus_studies.cases import Case, benchmark_cases
from delassus_studies.peers import Call, present
from delassus_studies.peers.compiled import casadi_c, frax
from delassus_studies.peers.pinocchio import delassus_call
from delassus_studies.timing import Calls, best, each, interleaved, pinned, relative_error, uncached

BATCH = 4096
SINGLE_CALLS = 2000
ROUNDS, REPEATS = 15, 4
DTYPES: tuple[Literal["float64", "float32"], ...] = ("float64", "float32")
ACCURACY_STATES = 10_000


def float32_error(case: Case, states: int = ACCURACY_STATES) -> dict[str, float]:
    """Error of the float32 kernel's ``G`` relative to its largest entry, at random states that float32 can hold."""
    q = case.tree.random(1, states).astype(np.float32)
    wanted = ds.compile(case.tree, case.constraints)(q.astype(np.float64), threads=1)
    relative = relative_error(ds.compile(case.tree, case.constraints, dtype="float32")(q, threads=1), wanted)
    return {"largest": float(relative.max()), "percentile_99_9": float(np.percentile(relative, 99.9))}


def _peers(case: Case, q: Array, kernel: ds.Kernel) -> dict[str, Callable[[], Call]]:
    """Makers of calls at the first of the states: enough for the figures per state to settle."""
    few, more = q[:256], q[:1024]
    return {
        "pinocchio": partial(delassus_call, case, few),
        "pinocchio, lists": partial(delassus_call, case, few, lists=True),
        "CasADi C, gcc -O3": partial(casadi_c, kernel, more),
        **{f"frax {dtype}": partial(frax, case, more, dtype) for dtype in DTYPES},
    }


def _first_call(case: Case, q: Array, dtype: Literal["float64", "float32"]) -> None:
    """Make a kernel and call it with a batch, for which it is compiled."""
    ds.compile(case.tree, case.constraints, dtype=dtype)(q.astype(dtype), threads=1)


def _measure_case(case: Case, rounds: int) -> Record:
    q = case.tree.random(0, BATCH)
    kernels = {dtype: ds.compile(case.tree, case.constraints, dtype=dtype) for dtype in DTYPES}
    kernel = kernels["float64"]
    G = kernel(q, threads=1)
    threads: dict[str, Any] = {}
    if cores() > 1:  # both free to be where the system puts them
        calls: Calls = {f"{n} thread(s)": (partial(kernel, q, out=G.copy(), threads=n), BATCH) for n in (1, 2)}
        threads = interleaved(calls, rounds, REPEATS)
    one, result = q[0].copy(), G[0].copy()

    def single() -> None:
        for _ in range(SINGLE_CALLS):
            kernel(one, out=result)

    with pinned():
        calls = {"one state": (single, SINGLE_CALLS)}
        for dtype, this in kernels.items():
            states = q.astype(dtype)
            calls[f"batch {dtype}"] = partial(this, states, out=this(states, threads=1), threads=1), BATCH
        peers, absent = present(_peers(case, q, kernel))
        theirs = {name: np.asarray(call(), dtype=np.float64) for name, call in peers.items()}
        calls |= {name: (call, len(theirs[name])) for name, call in peers.items()}
        times = interleaved(calls, rounds, REPEATS)
        with uncached():
            compiled = {d: best(partial(_first_call, case, q, d))[0] for d in DTYPES}
    return {
        "operations": kernel.operations.total,
        "plan": str(kernel.plan),
        "compile_seconds": compiled,
        "float32_error": float32_error(case),
        "disagreement": {name: float(relative_error(x, G[: len(x)]).max()) for name, x in theirs.items()},
        "absent": absent,
        "microseconds": times | threads,
    }


def measure(quick: bool = False) -> Iterator[Record]:
    """All figures of every case; the record after each."""
    rounds = 1 if quick else ROUNDS
    return each(environment(), "cases", benchmark_cases(quick), lambda case: _measure_case(case, rounds))


def tables(record: Record) -> Iterator[Table | str]:
    """Of each case our kernels, then its peers."""
    yield "one core; µs a state: median ± half the quartiles' distance; × of Pinocchio: times as fast as that"
    for name, figures in record["cases"].items():
        times, error = figures["microseconds"], figures["float32_error"]
        pinocchio = times.get("pinocchio")
        rows = []
        for call in ("batch float64", "batch float32", "one state", *figures["disagreement"]):
            own, ours = (times[x]["median"] for x in (call, f"batch float{32 if 'float32' in call else 64}"))
            faster = pinocchio and pinocchio["median"] / own
            rows.append((call, spread(times[call]), faster, own / ours, figures["disagreement"].get(call, "")))
        yield table(name, ("", "µs a state", "× of Pinocchio:.1f", "time by our batch's:.1f", "differs:.0e"), rows)
        threads = [times[f"{n} thread(s)"]["median"] for n in (1, 2) if f"{n} thread(s)" in times]
        yield (
            f"{figures['operations']:,} operations, compiled in {figures['compile_seconds']['float64']:.2f} s; two "
            f"threads {f'{threads[0] / threads[1]:.2f} ×' if threads else 'not measured: one core'}; "
            f"error of float32 {error['largest']:.0e}, of 99.9 % of states {error['percentile_99_9']:.0e}"
        )
        yield from (f"no {peer}: {reason}" for peer, reason in figures["absent"].items())
