"""``delassus bench peak``: the fraction of the core's measured peak that kernels reach, and what bounds the rest."""

from __future__ import annotations

import ctypes
import json
import platform
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from delassus.runtime.cpu_target import Code, host
from delassus_studies.cache_counts import count_with_callgrind, count_with_perf
from delassus_studies.cases import Case, benchmark_cases
from delassus_studies.compile_profile import Compilation, compile_cold
from delassus_studies.machine_code import available, census
from delassus_studies.peak_loops import clock, instructions_per_second, straight_line
from delassus_studies.timing import interleaved, pinned, setting

DTYPES = ("float64", "float32")
RATES = ("multiply", "add", "multiply-add", "add from memory", "store")
LENGTHS = (2_000, 5_000, 10_000, 20_000)
"""Instructions of straight-line code: within the first-level instruction cache, and beyond it."""
NEAR, BATCH = 64, 4096
"""States of a batch that stays in the cache, and of the benchmark's."""
ROUNDS = 15
FUNCTIONS = "block.*"


def machine_rates() -> dict[str, Any]:
    """Measured clock, rates of independent vector instructions by type and kind, and those of straight-line code."""
    rates = {dtype: {kind: instructions_per_second(dtype, kind) for kind in RATES} for dtype in DTYPES}
    straight = []
    if available():
        for other in ("add", "add from memory"):
            for length in LENGTHS:
                rate, size = straight_line("float64", length, other)
                straight.append({"other": other, "bytes": length * size, "rate": rate, "bytes_each": size})
    return {"clock": clock(), "rates": rates, "straight_line": straight}


def _times(case: Case, made: Compilation, dtype: str) -> dict[str, float]:
    """Seconds per state of the machine code alone, in cache and out of it: fastest tenth."""
    code = Code(made.code)
    batch = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(code.address("batch"))
    q = case.tree.random(0, BATCH).astype(dtype)
    out = made.kernel(q, threads=1)
    calls = {str(n): (partial(batch, n, q.ctypes.data, out.ctypes.data), n) for n in (NEAR, BATCH)}
    samples = interleaved(calls, ROUNDS, 4)
    return {name: float(np.percentile(values, 10)) for name, values in samples.items()}


def measure(case: Case, dtype: str) -> dict[str, Any]:
    """One kernel: time, operations, what its code consists of."""
    made = compile_cold(case, dtype=dtype)
    count = made.kernel.operations
    record: dict[str, Any] = {
        "lanes": made.kernel.lanes,
        "operations": count.total,
        "flops": count.mul + count.add,
        "seconds": _times(case, made, dtype),
    }
    if available() and platform.machine() == "x86_64":
        found = census(made.code, FUNCTIONS)
        record["code"] = {
            "instructions": found.total,
            "bytes": found.size,
            "frame": found.frame,
            "kinds": dict(found.kinds.most_common()),
            "operands": dict(found.from_memory),
        }
    return record


# -- tables --------------------------------------------------------------------------------------------------------


def _machine_tables(console: Console, machine: Mapping[str, Any]) -> None:
    clock_rate = machine["clock"]
    console.print(f"clock {clock_rate / 1e9:.2f} GHz (chain of integer operations)", highlight=False)
    table = Table(title="peak of one core: independent full-vector instructions", title_justify="left")
    for column in ("", *DTYPES):
        table.add_column(column, justify="right" if column else "left")
    for kind in RATES:
        cells = []
        for dtype in DTYPES:
            rate = machine["rates"][dtype][kind]
            numbers = rate * host().lanes(dtype) * (2 if kind == "multiply-add" else 1)
            cells.append(f"{numbers / 1e9:6.1f} G/s, {rate / clock_rate:.2f} a cycle")
        table.add_row(kind, *cells)
    console.print(table)
    if machine["straight_line"]:
        table = Table(title="straight-line code: half multiply-adds, half the other", title_justify="left")
        for column in ("other half", "code", "bytes each", "instructions a cycle", "code bytes a cycle"):
            table.add_column(column, justify="left" if column == "other half" else "right")
        for row in machine["straight_line"]:
            cycle = row["rate"] / clock_rate
            size, each = f"{row['bytes'] / 1024:.0f} KB", row["bytes_each"]
            table.add_row(row["other"], size, f"{each:.1f}", f"{cycle:.2f}", f"{cycle * each:.1f}")
        console.print(table)


def least_cycles(code: Mapping[str, Any], rates: Mapping[str, float], clock_rate: float) -> dict[str, float]:
    """Cycles a block that each resource alone would need at its measured rate."""
    kinds, operands = code["kinds"], code["operands"]
    loads = sum(n for kind, n in kinds.items() if kind.startswith("load")) + sum(operands.values())
    stores = sum(n for kind, n in kinds.items() if kind.startswith("store"))
    needs = {"arithmetic": (kinds["arithmetic"], "multiply"), "loads": (loads, "add from memory")}
    needs["stores"] = (stores, "store")
    return {name: n / rates[rate] * clock_rate for name, (n, rate) in needs.items()}


def _kernel_table(machine: Mapping[str, Any], kernels: Mapping[str, Any]) -> Table:
    table = Table(
        title=f"kernels: flops (mul, add) over time; in cache ({NEAR} states) and batches of {BATCH}",
        title_justify="left",
    )
    for column in ("", "flops", f"ns, {NEAR}", f"ns, {BATCH}", "GF/s", "of multiply peak", "of fused peak"):
        table.add_column(column, justify="right" if column else "left")
    for name, k in kernels.items():
        rates = machine["rates"][k["dtype"]]
        near, far = k["seconds"][str(NEAR)], k["seconds"][str(BATCH)]
        speed = k["flops"] / near
        table.add_row(
            name,
            f"{k['flops']:,}",
            f"{near * 1e9:.0f}",
            f"{far * 1e9:.0f}",
            f"{speed / 1e9:.1f}",
            f"{speed / (rates['multiply'] * k['lanes']):.0%}",
            f"{speed / (2 * rates['multiply-add'] * k['lanes']):.0%}",
        )
    return table


def _code_table(machine: Mapping[str, Any], kernels: Mapping[str, Any]) -> Table:
    table = Table(title="code of a block (a vector of states): what bounds it", title_justify="left")
    columns = ("instructions", "code", "cycles", "a cycle", "bytes a cycle", "at least: arithmetic", "loads", "stores")
    for column in ("", *columns, "stack (LLVM's spills): loads, stores"):
        table.add_column(column, justify="right" if column else "left")
    for name, k in kernels.items():
        code, kinds = k["code"], k["code"]["kinds"]
        cycles = k["seconds"][str(NEAR)] * k["lanes"] * machine["clock"]
        least = least_cycles(code, machine["rates"][k["dtype"]], machine["clock"])
        reloads = kinds.get("load, stack", 0) + code["operands"].get("stack", 0)
        spills = kinds.get("store, stack", 0)
        table.add_row(
            name,
            f"{code['instructions']:,}",
            f"{code['bytes'] / 1024:.0f} KB",
            f"{cycles:,.0f}",
            f"{code['instructions'] / cycles:.2f}",
            f"{code['bytes'] / cycles:.1f}",
            *(f"{least[what]:,.0f} ({least[what] / cycles:.0%})" for what in least),
            f"{reloads:,}, {spills:,} ({(reloads + spills) / code['instructions']:.0%})",
        )
    return table


def _kinds_table(kernels: Mapping[str, Any]) -> Table:
    found = {name: k["code"] for name, k in kernels.items()}
    table = Table(
        title="instructions of a block by kind; operands that arithmetic reads in place", title_justify="left"
    )
    for column in ("", *found):
        table.add_column(column, justify="right" if column else "left")
    for group, prefix in (("kinds", ""), ("operands", "operand, ")):
        for kind in sorted({kind for code in found.values() for kind in code[group]}):
            table.add_row(prefix + kind, *(f"{code[group].get(kind, 0):,}" for code in found.values()))
    return table


def _cache_table(counts: Mapping[str, Mapping[str, float]]) -> Table:
    events = list(dict.fromkeys(event for found in counts.values() for event in found))
    table = Table(title="counted, per state", title_justify="left")
    for column in ("", *events):
        table.add_column(column, justify="right" if column else "left")
    for name, found in counts.items():
        table.add_row(name, *(f"{found[event]:,.1f}" if event in found else "–" for event in events))
    return table


def run(console: Console, file: Path | None = None, cases: list[Case] | None = None) -> dict[str, Any]:
    """Print the tables and write the raw figures."""
    record: dict[str, Any] = {**setting(), "kernels": {}, "counted": {}}
    cases = benchmark_cases() if cases is None else cases
    with pinned():
        record["machine"] = machine_rates()
        for case in cases:
            for dtype in DTYPES:
                record["kernels"][f"{case.name}, {dtype}"] = {"dtype": dtype, **measure(case, dtype)}
        for case in cases:
            for count in (count_with_perf, count_with_callgrind):
                events, said = count(case)
                record["counted"][f"{case.name}, {said}"] = events
    console.print(f"{record['processor']}, one core", highlight=False)
    _machine_tables(console, record["machine"])
    console.print(_kernel_table(record["machine"], record["kernels"]))
    missing = [name for name, events in record["counted"].items() if not events]
    if all("code" in kernel for kernel in record["kernels"].values()):
        console.print(_code_table(record["machine"], record["kernels"]))
        console.print(_kinds_table(record["kernels"]))
    else:
        missing.append("no tables of the code: they need objdump and x86-64")
    console.print(_cache_table({name: events for name, events in record["counted"].items() if events}))
    for line in missing:
        console.print(line, style="dim", highlight=False)
    if file is not None:
        file.write_text(json.dumps(record, indent=1))
        console.print(f"raw figures: {file}")
    return record
