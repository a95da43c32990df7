"""``delassus bench speed``: compiled kernels beside Pinocchio, in the same run, at the same states, on one thread."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from delassus.cli.cases import Case, benchmark_cases
from delassus.cli.peers import pinocchio_call
from delassus.runtime.compile import compile
from delassus.runtime.kernel import Kernel
from delassus.runtime.machine import host

BATCH = 4096
PEER_STATES = 256
SINGLE_CALLS = 2000
ROUNDS = 15
REPEATS = 4
"""Calls one after the other in a sample, on the same arrays, after one that is not timed: a loop, as users run it."""


def _versions() -> dict[str, str]:
    out = {}
    for package in ("delassus", "numpy", "casadi", "llvmlite", "pin"):
        try:
            out[package] = version(package)
        except PackageNotFoundError:
            out[package] = "not installed"
    return out


def _samples(calls: dict[str, tuple[Callable[[], object], int]]) -> dict[str, list[float]]:
    """Seconds per state of each call (call, states), taken in turns; the first round warms up."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for round_number in range(ROUNDS + 1):
        for name, (call, states) in calls.items():
            call()
            start = time.perf_counter()
            for _ in range(REPEATS):
                call()
            if round_number:
                samples[name].append((time.perf_counter() - start) / (REPEATS * states))
    return samples


def _many_single(kernel: Kernel, q: np.ndarray, out: np.ndarray) -> None:
    for _ in range(SINGLE_CALLS):
        kernel(q, out=out)


def _compile_seconds(case: Case, dtype: str) -> float:
    """Cold compilation, without the cache."""
    before = os.environ.get("DELASSUS_CACHE")
    os.environ["DELASSUS_CACHE"] = "off"
    from delassus.algorithms.osim import plan

    plan._plan.cache_clear()
    try:
        start = time.perf_counter()
        compile(case.tree, case.constraints, dtype="float64" if dtype == "float64" else "float32")
        return time.perf_counter() - start
    finally:
        os.environ.pop("DELASSUS_CACHE")
        if before is not None:
            os.environ["DELASSUS_CACHE"] = before


def measure(case: Case) -> dict[str, object]:
    """All figures of one case."""
    q = case.tree.random(0, BATCH)
    calls: dict[str, tuple[Callable[[], object], int]] = {}
    for dtype in ("float64", "float32"):
        kernel = compile(case.tree, case.constraints, dtype="float64" if dtype == "float64" else "float32")
        states = q.astype(dtype)
        out = kernel(states, threads=1)
        calls[f"batch {dtype}"] = (partial(kernel, states, out=out, threads=1), BATCH)
        if dtype == "float64":
            operations, plan = kernel.operations.total, str(kernel.plan)
            calls["one state"] = (partial(_many_single, kernel, states[0].copy(), out[0].copy()), SINGLE_CALLS)
            calls["batch float64, 2 threads"] = (partial(kernel, states, out=out, threads=2), BATCH)
    peer = pinocchio_call(case, q[:PEER_STATES])
    if peer is not None:
        calls["pinocchio"] = (peer, PEER_STATES)
    samples = _samples(calls)
    return {
        "operations": operations,
        "plan": plan,
        "compile_seconds": {d: _compile_seconds(case, d) for d in ("float64", "float32")},
        "microseconds": {
            name: {
                "median": float(np.median(s)) * 1e6,
                "lowest": min(s) * 1e6,
                "quartiles": [float(x) * 1e6 for x in np.percentile(s, (25, 75))],
            }
            for name, s in samples.items()
        },
    }


def run(console: Console, file: Path | None) -> dict[str, object]:
    """Print the table and write the raw figures."""
    this = host()
    record: dict[str, object] = {
        "processor": f"{platform.machine()}, {this.cpu}, {this.vector_bits} bits",
        "versions": _versions(),
        "cases": {},
    }
    table = Table(title="time per state, one thread, median; ratio to Pinocchio's computeDelassusMatrix")
    for column in (
        "",
        "operations",
        "compile",
        "pinocchio",
        "batch float64",
        "batch float32",
        "one state",
        "2 threads",
    ):
        table.add_column(column, justify="left" if not column else "right")
    for case in benchmark_cases():
        figures = measure(case)
        record["cases"][case.name] = figures  # type: ignore[index]
        times = {name: values["median"] for name, values in figures["microseconds"].items()}  # type: ignore[attr-defined]
        peer = times.get("pinocchio")

        def shown(name: str, times: dict[str, float] = times, peer: float | None = peer) -> str:
            ratio = f" ({peer / times[name]:.1f}×)" if peer else ""
            return f"{times[name]:.3f} µs{ratio}"

        seconds = figures["compile_seconds"]["float64"]  # type: ignore[index]
        table.add_row(
            case.name,
            f"{figures['operations']:,}",
            f"{seconds:.2f} s",
            f"{peer:.1f} µs" if peer else "–",
            shown("batch float64"),
            shown("batch float32"),
            shown("one state"),
            f"{times['batch float64'] / times['batch float64, 2 threads']:.2f}×",
        )
    console.print(f"{record['processor']}; {record['versions']}", highlight=False)
    console.print(table)
    if file is not None:
        file.write_text(json.dumps(record, indent=1))
        console.print(f"raw figures: {file}")
    return record
