"""``delassus bench peak``: the fraction of the core's measured peak that kernels reach, and what bounds the rest."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
from rich.table import Table

from delassus.runtime.cpu_target import Code, host
from delassus_studies.cache_counts import count_with_callgrind, count_with_perf
from delassus_studies.cases import Case, benchmark_cases
from delassus_studies.compile_profile import Compilation, compile_cold
from delassus_studies.machine_code import available, census
from delassus_studies.peak_loops import clock, instructions_per_second, straight_line
from delassus_studies.tables import table
from delassus_studies.timing import Calls, Record, environment, in_turn, interleaved, pinned

DTYPES = ("float64", "float32")
RATES = ("multiply", "add", "multiply-add", "add from memory", "store")
LENGTHS = (2_000, 5_000, 10_000, 20_000)
"""Instructions of straight-line code: within the first-level instruction cache, and beyond it."""
NEAR, BATCH = 64, 4096
"""States of a batch that stays in the cache, and of the benchmark's."""
ROUNDS = 15
FUNCTIONS = "block.*"


def _rates() -> Record:
    """Measured clock, rates of independent vector instructions by type and kind, and those of straight-line code."""
    rates = {dtype: {kind: instructions_per_second(dtype, kind) for kind in RATES} for dtype in DTYPES}
    straight = []
    for other in ("add", "add from memory") if available() else ():
        for length in LENGTHS:
            rate, size = straight_line("float64", length, other)
            straight.append({"other": other, "bytes": length * size, "rate": rate, "bytes_each": size})
    return {"clock": clock(), "rates": rates, "straight_line": straight}


def _times(case: Case, made: Compilation, dtype: str) -> dict[str, float]:
    """Least seconds per state of the machine code alone, in cache and out of it."""
    code = Code(made.code)
    batch = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * 3)(code.address("batch"))
    q = case.tree.random(0, BATCH).astype(dtype)
    G, rcond = (np.empty((BATCH, *result.shape), dtype=dtype) for result in made.program.results)
    arrays = q.ctypes.data, G.ctypes.data, rcond.ctypes.data
    calls: Calls = {str(n): (partial(batch, n, *arrays), n) for n in (NEAR, BATCH)}
    return {name: 1e-6 * times["lowest"] for name, times in interleaved(calls, ROUNDS, 4).items()}


def _kernel(case: Case, dtype: str) -> Record:
    """One kernel: time, operations, and the kinds of its instructions."""
    made = compile_cold(case, dtype=dtype)
    count = made.program.graph.count()
    record: Record = {"dtype": dtype, "lanes": made.lanes, "operations": count.total, "flops": count.mul + count.add}
    record["seconds"] = _times(case, made, dtype)
    if available() and platform.machine() == "x86_64":
        found = census(made.code, FUNCTIONS)
        sizes = {"instructions": found.total, "bytes": found.size, "frame": found.frame}
        record["code"] = {**sizes, "kinds": dict(found.kinds.most_common()), "operands": dict(found.from_memory)}
    return record


def measure(quick: bool = False) -> Record:
    """The machine's rates, every kernel in both types, and counters of the processor."""
    record: Record = {**environment(), "kernels": {}, "counted": {}}
    with pinned():
        record["machine"] = _rates()
        for case in in_turn(benchmark_cases(quick)):
            for dtype in DTYPES:
                record["kernels"][f"{case.name}, {dtype}"] = _kernel(case, dtype)
            for count in (count_with_perf, count_with_callgrind):
                events, said = count(case)
                record["counted"][f"{case.name}, {said}"] = events
    return record


# -- tables --------------------------------------------------------------------------------------------------------


def tables(record: Record) -> Iterator[Table | str]:
    """The machine's rates, the kernels beside them, what their code consists of, cache misses."""
    rates, kernels = record["machine"], record["kernels"]
    yield f"one core, clock {rates['clock'] / 1e9:.2f} GHz (chain of integer operations)"
    yield table("peak of one core: independent full-vector instructions", ("", *DTYPES), _peak_rows(rates))
    if rates["straight_line"]:
        title = "straight-line code: half multiply-adds, half the other"
        heads = ["other half", "code", "bytes each", "instructions a cycle", "code bytes a cycle"]
        yield table(title, heads, _straight_rows(rates))
    title = f"kernels: flops (mul, add) over time; in cache ({NEAR} states) and batches of {BATCH}"
    heads = ["", "flops", f"ns, {NEAR}", f"ns, {BATCH}", "GF/s", "of multiply peak", "of fused peak"]
    yield table(title, heads, [(name, *_speed(k, rates["rates"][k["dtype"]])) for name, k in kernels.items()])
    missing = [name for name, events in record["counted"].items() if not events]
    if all("code" in kernel for kernel in kernels.values()):
        heads = ["", "instructions", "code", "cycles", "a cycle", "bytes a cycle", "at least: arithmetic", "loads"]
        heads += ["stores", "stack (LLVM's spills): loads, stores"]
        title = "code of a block (a vector of states): what bounds it"
        yield table(title, heads, [(name, *_bounds(k, rates)) for name, k in kernels.items()])
        codes = {name: k["code"] for name, k in kernels.items()}
        title = "instructions of a block by kind; operands that arithmetic reads in place"
        yield table(title, ("", *codes), _kind_rows(codes))
    else:
        missing.append("no tables of the code: they need objdump and x86-64")
    counted = {name: events for name, events in record["counted"].items() if events}
    events = list(dict.fromkeys(event for found in counted.values() for event in found))
    rows = ((name, *(f"{f[e]:,.1f}" if e in f else "–" for e in events)) for name, f in counted.items())
    yield table("counted, per state", ("", *events), rows)
    yield from missing


def _peak_rows(rates: Record) -> Iterator[tuple[str, ...]]:
    for kind in RATES:
        cells = []
        for dtype in DTYPES:
            rate = rates["rates"][dtype][kind]
            numbers = rate * host().lanes(dtype) * (2 if kind == "multiply-add" else 1)
            cells.append(f"{numbers / 1e9:6.1f} G/s, {rate / rates['clock']:.2f} a cycle")
        yield kind, *cells


def _straight_rows(rates: Record) -> Iterator[tuple[str, ...]]:
    for row in rates["straight_line"]:
        cycle, each = row["rate"] / rates["clock"], row["bytes_each"]
        yield row["other"], f"{row['bytes'] / 1024:.0f} KB", f"{each:.1f}", f"{cycle:.2f}", f"{cycle * each:.1f}"


def _speed(k: Record, rates: Mapping[str, float]) -> tuple[str, ...]:
    near, far = k["seconds"][str(NEAR)], k["seconds"][str(BATCH)]
    speed = k["flops"] / near
    peaks = (rates["multiply"] * k["lanes"], 2 * rates["multiply-add"] * k["lanes"])
    times = f"{k['flops']:,}", f"{near * 1e9:.0f}", f"{far * 1e9:.0f}", f"{speed / 1e9:.1f}"
    return *times, *(f"{speed / peak:.0%}" for peak in peaks)


def _bounds(k: Record, rates: Record) -> tuple[str, ...]:
    """Measured cycles, those that each resource alone would need at its measured rate, and spills."""
    kinds, operands, total, size = (k["code"][name] for name in ("kinds", "operands", "instructions", "bytes"))
    cycles = k["seconds"][str(NEAR)] * k["lanes"] * rates["clock"]
    loads = sum(n for kind, n in kinds.items() if kind.startswith("load")) + sum(operands.values())
    stores = sum(n for kind, n in kinds.items() if kind.startswith("store"))
    needs = {"multiply": kinds["arithmetic"], "add from memory": loads, "store": stores}
    least = [n / rates["rates"][k["dtype"]][rate] * rates["clock"] for rate, n in needs.items()]
    reloads, spills = kinds.get("load, stack", 0) + operands.get("stack", 0), kinds.get("store, stack", 0)
    return (
        f"{total:,}",
        f"{size / 1024:.0f} KB",
        f"{cycles:,.0f}",
        f"{total / cycles:.2f}",
        f"{size / cycles:.1f}",
        *(f"{x:,.0f} ({x / cycles:.0%})" for x in least),
        f"{reloads:,}, {spills:,} ({(reloads + spills) / total:.0%})",
    )


def _kind_rows(codes: Record) -> Iterator[tuple[str, ...]]:
    for group, prefix in (("kinds", ""), ("operands", "operand, ")):
        for kind in sorted({kind for code in codes.values() for kind in code[group]}):
            yield prefix + kind, *(f"{code[group].get(kind, 0):,}" for code in codes.values())
