"""``delassus bench speed``: compiled kernels beside their peers, in the same run, at the same states, on one core."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from delassus.model.rotations import Array
from delassus.runtime.compile import compile
from delassus.runtime.kernel import Kernel
from delassus_studies.cases import Case, benchmark_cases
from delassus_studies.peers import pinocchio_call
from delassus_studies.peers_compiled import Peer, casadi_c, frax
from delassus_studies.timing import cores, interleaved, microseconds, nothing_kept, pinned, seconds, setting

BATCH = 4096
PEER_STATES = {"pinocchio": 256, "casadi": 1024, "frax": 1024}
"""The first so many of the same states; enough for the figures per state to settle."""
SINGLE_CALLS = 2000
ROUNDS = 15
REPEATS = 4
ACCURACY_STATES = 10_000


def _many_single(kernel: Kernel, q: Array, out: Array) -> None:
    for _ in range(SINGLE_CALLS):
        kernel(q, out=out)


def float32_error(case: Case, states: int = ACCURACY_STATES) -> dict[str, float]:
    """Error of the float32 kernel's ``G`` relative to its largest entry, at random states that float32 can hold."""
    q = case.tree.random(1, states).astype(np.float32)
    wanted = compile(case.tree, case.constraints)(q.astype(np.float64), threads=1)
    error = np.abs(compile(case.tree, case.constraints, dtype="float32")(q, threads=1) - wanted).max(axis=(-1, -2))
    relative = error / np.abs(wanted).max(axis=(-1, -2))
    return {"largest": float(relative.max()), "percentile_99_9": float(np.percentile(relative, 99.9))}


def _cold_seconds(case: Case, dtype: str) -> float:
    """Seconds of a compilation without anything kept."""
    with nothing_kept():
        return seconds(partial(compile, case.tree, case.constraints, dtype=dtype))  # type: ignore[arg-type]


def _peers(case: Case, q: Array, kernel: Kernel) -> list[tuple[Peer, int]]:
    few = {name: q[:states] for name, states in PEER_STATES.items()}
    peers = []
    for name, lists in (("pinocchio", False), ("pinocchio, lists", True)):
        call = pinocchio_call(case, few["pinocchio"], lists)
        peers.append(Peer(name, call, call, reason="pinocchio is not installed (pip install pin)"))
    peers.append(casadi_c(kernel, few["casadi"]))
    peers += [frax(case, few["frax"], dtype) for dtype in ("float64", "float32")]
    return [(peer, PEER_STATES[peer.name.split()[0].lower().strip(",")]) for peer in peers]


def _disagreement(peer: Peer, ours: Array) -> float:
    """Largest difference from our ``G``, relative to its largest entry."""
    assert peer.answer is not None
    theirs = np.asarray(peer.answer(), dtype=np.float64)
    ours = ours[: len(theirs)]
    return float(np.max(np.abs(theirs - ours).max(axis=(-1, -2)) / np.abs(ours).max(axis=(-1, -2))))


def _two_threads(kernel: Kernel, states: Array, out: Array) -> dict[str, list[float]]:
    """One thread and two, both free to be where the system puts them; nothing if there is only one core."""
    if cores() < 2:
        return {}
    calls = {f"{n} thread(s)": (partial(kernel, states, out=out, threads=n), BATCH) for n in (1, 2)}
    return interleaved(calls, ROUNDS, REPEATS)


def measure(case: Case) -> dict[str, Any]:
    """All figures of one case."""
    q = case.tree.random(0, BATCH)
    kernel = compile(case.tree, case.constraints)
    G = kernel(q, threads=1)
    threads = _two_threads(kernel, q, G.copy())
    calls: dict[str, tuple[Callable[[], object], int]] = {}
    with pinned():
        for dtype in ("float64", "float32"):
            this = kernel if dtype == "float64" else compile(case.tree, case.constraints, dtype="float32")
            states = q.astype(dtype)
            calls[f"batch {dtype}"] = (partial(this, states, out=this(states, threads=1), threads=1), BATCH)
        calls["one state"] = (partial(_many_single, kernel, q[0].copy(), G[0].copy()), SINGLE_CALLS)
        peers = _peers(case, q, kernel)
        calls |= {peer.name: (peer.call, states) for peer, states in peers if peer.call}
        samples = interleaved(calls, ROUNDS, REPEATS)
        compiled = {dtype: _cold_seconds(case, dtype) for dtype in ("float64", "float32")}
    return {
        "operations": kernel.operations.total,
        "plan": str(kernel.plan),
        "compile_seconds": compiled,
        "float32_error": float32_error(case),
        "disagreement": {peer.name: _disagreement(peer, G) for peer, _ in peers if peer.call},
        "absent": {peer.name: peer.reason for peer, _ in peers if not peer.call},
        "microseconds": {name: microseconds(s) for name, s in (samples | threads).items()},
    }


# -- tables --------------------------------------------------------------------------------------------------------


def _table(title: str, columns: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("", *columns):
        table.add_column(column, justify="right" if column else "left")
    return table


def _shown(times: Mapping[str, Any], name: str, over: str = "pinocchio") -> str:
    """Median, its quartiles' distance, and the ratio of another call's median to it."""
    if name not in times:
        return "–"
    median, (low, high) = times[name]["median"], times[name]["quartiles"]
    ratio = f" ({times[over]['median'] / median:.1f}×)" if over in times and over != name else ""
    return f"{median:.3f} ± {(high - low) / 2:.3f} µs{ratio}"


def _ours(cases: Mapping[str, Any]) -> Table:
    columns = ("operations", "compile", "batch float64", "batch float32", "one state", "2 threads", "float32 error")
    table = _table("delassus, time per state (ratio to Pinocchio's computeDelassusMatrix)", columns)
    for name, figures in cases.items():
        times = figures["microseconds"]
        both = "1 thread(s)" in times
        gain = times["1 thread(s)"]["median"] / times["2 thread(s)"]["median"] if both else None
        table.add_row(
            name,
            f"{figures['operations']:,}",
            f"{figures['compile_seconds']['float64']:.2f} s",
            *(_shown(times, call) for call in ("batch float64", "batch float32", "one state")),
            f"{gain:.2f}×" if gain else "one core",
            "{largest:.1e} (99.9 %: {percentile_99_9:.1e})".format(**figures["float32_error"]),
        )
    return table


def _theirs(cases: Mapping[str, Any]) -> Table:
    names = dict.fromkeys(name for f in cases.values() for name in (*f["disagreement"], *f["absent"]))
    table = _table("peers, time per state (ratio to our batch of the same type; largest difference of G)", tuple(names))
    for case, figures in cases.items():
        row = []
        for name in names:
            times = figures["microseconds"]
            if name not in times:
                row.append("–")
                continue
            ours = times["batch float32" if "float32" in name else "batch float64"]["median"]
            ratio, error = times[name]["median"] / ours, figures["disagreement"][name]
            row.append(f"{_shown(times, name, name)} ({ratio:.0f}×; {error:.0e})")
        table.add_row(case, *row)
    return table


def run(console: Console, file: Path | None, cases: list[Case] | None = None) -> dict[str, Any]:
    """Print the tables and write the raw figures."""
    record: dict[str, Any] = {**setting(), "cases": {}}
    for case in benchmark_cases() if cases is None else cases:
        record["cases"][case.name] = measure(case)
    console.print(f"{record['processor']}; {record['versions']}; one core; median ± half the quartiles' distance")
    console.print(_ours(record["cases"]))
    console.print(_theirs(record["cases"]))
    for case_name, figures in record["cases"].items():
        for peer, reason in figures["absent"].items():
            console.print(f"{case_name}: no {peer}: {reason}", style="dim", highlight=False)
    if file is not None:
        file.write_text(json.dumps(record, indent=1))
        console.print(f"raw figures: {file}")
    return record
