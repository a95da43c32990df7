"""``delassus bench speed``: compiled kernels beside their peers, in the same run, at the same states, on one core."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import numpy as np
from rich.table import Table

from delassus.model.rotations import Array
from delassus.runtime.compile import compile
from delassus.runtime.kernel import Kernel
from delassus_studies.cases import Case, benchmark_cases
from delassus_studies.peers_compiled import Peer, casadi_c, frax
from delassus_studies.peers_pinocchio import delassus_call
from delassus_studies.tables import spread, table
from delassus_studies.timing import (
    Calls,
    Record,
    best,
    cores,
    environment,
    in_turn,
    interleaved,
    pinned,
    relative_error,
    uncached,
)  # fmt: skip

BATCH = 4096
PEER_STATES = {"pinocchio": 256, "casadi": 1024, "frax": 1024}
"""The first so many of the same states; enough for the figures per state to settle."""
SINGLE_CALLS = 2000
ROUNDS, REPEATS = 15, 4
DTYPES: tuple[Literal["float64", "float32"], ...] = ("float64", "float32")
ACCURACY_STATES = 10_000


def float32_error(case: Case, states: int = ACCURACY_STATES) -> dict[str, float]:
    """Error of the float32 kernel's ``G`` relative to its largest entry, at random states that float32 can hold."""
    q = case.tree.random(1, states).astype(np.float32)
    wanted = compile(case.tree, case.constraints)(q.astype(np.float64), threads=1)
    relative = relative_error(compile(case.tree, case.constraints, dtype="float32")(q, threads=1), wanted)
    return {"largest": float(relative.max()), "percentile_99_9": float(np.percentile(relative, 99.9))}


def _peers(case: Case, q: Array, kernel: Kernel) -> list[tuple[Peer, int]]:
    few = {name: q[:states] for name, states in PEER_STATES.items()}
    peers = []
    for name, lists in (("pinocchio", False), ("pinocchio, lists", True)):
        call = delassus_call(case, few["pinocchio"], lists)
        peers.append(Peer(name, call, call, reason="pinocchio is not installed (pip install pin)"))
    peers.append(casadi_c(kernel, few["casadi"]))
    peers += [frax(case, few["frax"], dtype) for dtype in ("float64", "float32")]
    return [(peer, PEER_STATES[peer.name.split()[0].lower().strip(",")]) for peer in peers]


def _disagreement(peer: Peer, ours: Array) -> float:
    """Largest difference from our ``G``, relative to its largest entry."""
    assert peer.answer is not None
    theirs = np.asarray(peer.answer(), dtype=np.float64)
    return float(relative_error(theirs, ours[: len(theirs)]).max())


def _measure_case(case: Case, rounds: int) -> Record:
    q = case.tree.random(0, BATCH)
    kernels = {dtype: compile(case.tree, case.constraints, dtype=dtype) for dtype in DTYPES}
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
        peers = _peers(case, q, kernel)
        calls |= {peer.name: (peer.call, states) for peer, states in peers if peer.call}
        times = interleaved(calls, rounds, REPEATS)
        with uncached():
            compiled = {d: best(partial(compile, case.tree, case.constraints, dtype=d))[0] for d in DTYPES}
    return {
        "operations": kernel.operations.total,
        "plan": str(kernel.plan),
        "compile_seconds": compiled,
        "float32_error": float32_error(case),
        "disagreement": {peer.name: _disagreement(peer, G) for peer, _ in peers if peer.call},
        "absent": {peer.name: peer.reason for peer, _ in peers if not peer.call},
        "microseconds": times | threads,
    }


def measure(quick: bool = False) -> Record:
    """All figures of every case."""
    return {
        **environment(),
        "cases": {case.name: _measure_case(case, 1 if quick else ROUNDS) for case in in_turn(benchmark_cases(quick))},
    }


def _ours(figures: Record) -> list[str]:
    times = figures["microseconds"]
    peer = times.get("pinocchio")
    cells = [f"{figures['operations']:,}", f"{figures['compile_seconds']['float64']:.2f} s"]
    for call in ("batch float64", "batch float32", "one state"):
        ratio = f" ({peer['median'] / times[call]['median']:.1f}×)" if peer else ""
        cells.append(spread(times[call]) + ratio)
    threads = [times[f"{n} thread(s)"]["median"] for n in (1, 2) if f"{n} thread(s)" in times]
    cells.append(f"{threads[0] / threads[1]:.2f}×" if threads else "one core")
    return [*cells, "{largest:.1e} (99.9 %: {percentile_99_9:.1e})".format(**figures["float32_error"])]


def _theirs(name: str, figures: Record) -> str:
    times = figures["microseconds"]
    if name not in times:
        return "–"
    ours = times["batch float32" if "float32" in name else "batch float64"]["median"]
    return f"{spread(times[name])} ({times[name]['median'] / ours:.0f}×; {figures['disagreement'][name]:.0e})"


def tables(record: Record) -> Iterator[Table | str]:
    """Our figures, those of peers, and which peers are absent."""
    cases = record["cases"]
    columns = ("operations", "compile", "batch float64", "batch float32", "one state", "2 threads", "float32 error")
    yield "one core; median ± half the quartiles' distance"
    yield table(
        "delassus, time per state (ratio to Pinocchio's computeDelassusMatrix)",
        ("", *columns),
        [(name, *_ours(figures)) for name, figures in cases.items()],
    )
    peers = list(dict.fromkeys(name for f in cases.values() for name in (*f["disagreement"], *f["absent"])))
    yield table(
        "peers, time per state (ratio to our batch of the same type; largest difference of G)",
        ("", *peers),
        [(case, *(_theirs(name, figures) for name in peers)) for case, figures in cases.items()],
    )
    for case, figures in cases.items():
        yield from (f"{case}: no {peer}: {reason}" for peer, reason in figures["absent"].items())
