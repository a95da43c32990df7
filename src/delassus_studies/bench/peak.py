"""``delassus bench peak``: the fraction of the core's measured peak that kernels reach, and what bounds the rest."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
from rich.table import Table

from delassus.compiler.machine.cpu import Code, host
from delassus_studies.cases import Case, benchmark_cases
from delassus_studies.counters import (
    Compilation,
    available,
    census,
    clock,
    compile_cold,
    count_with_callgrind,
    count_with_perf,
    instructions_per_second,
    straight_line,
)
from delassus_studies.tables import table
from delassus_studies.timing import Calls, Record, each, environment, interleaved, pinned

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


def measure(quick: bool = False) -> Iterator[Record]:
    """The machine's rates; kernels of each case in both types, and counters of the processor. The record after each."""
    with pinned():
        yield from each({**environment(), "machine": _rates()}, "cases", benchmark_cases(quick), _measure_case)


def _measure_case(case: Case) -> Record:
    counted = {said: events for events, said in (f(case) for f in (count_with_perf, count_with_callgrind))}
    return {"kernels": {dtype: _kernel(case, dtype) for dtype in DTYPES}, "counted": counted}


# -- tables --------------------------------------------------------------------------------------------------------


def tables(record: Record) -> Iterator[Table | str]:
    """The machine's rates, and beside them of each case the kernels, what their code consists of, cache misses."""
    rates = record["machine"]
    yield f"one core, clock {rates['clock'] / 1e9:.2f} GHz (chain of integer operations)"
    yield table("peak of one core: independent full-vector instructions", ("", *DTYPES), _peak_rows(rates))
    if rates["straight_line"]:
        title = "straight-line code: half multiply-adds, half the other"
        heads = ("other half", "code:.0f KB", "bytes each:.1f", "instructions a cycle:.2f", "code bytes a cycle:.1f")
        yield table(title, heads, _straight_rows(rates))
    else:
        yield "no tables of the code: they need objdump and x86-64"
    for name, case in record["cases"].items():
        kernels = case["kernels"]
        facts = {dtype: _speed(k, rates["rates"][dtype]) for dtype, k in kernels.items()}
        if all("code" in kernel for kernel in kernels.values()):
            facts = {dtype: {**facts[dtype], **_bounds(k, rates)} for dtype, k in kernels.items()}
        yield table(name, ("", *DTYPES), _side_by_side(facts))
        if all("code" in kernel for kernel in kernels.values()):
            title = "instructions of a block by kind; operands that arithmetic reads in place"
            yield table(
                title,
                ("", *(f"{dtype}:," for dtype in DTYPES)),
                _kind_rows({dtype: k["code"] for dtype, k in kernels.items()}),
            )
        for said, events in case["counted"].items():
            if events:
                yield table(f"counted per state: {said}", ("", "number:,.1f"), events.items())
            else:
                yield said


def _side_by_side(facts: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, ...]]:
    for name in facts[DTYPES[0]]:
        yield name, *(own[name] for own in facts.values())


def _peak_rows(rates: Record) -> Iterator[tuple[str, ...]]:
    for kind in RATES:
        cells = []
        for dtype in DTYPES:
            rate = rates["rates"][dtype][kind]
            numbers = rate * host().lanes(dtype) * (2 if kind == "multiply-add" else 1)
            cells.append(f"{numbers / 1e9:6.1f} G/s, {rate / rates['clock']:.2f} a cycle")
        yield kind, *cells


def _straight_rows(rates: Record) -> Iterator[tuple[object, ...]]:
    for row in rates["straight_line"]:
        cycle, each = row["rate"] / rates["clock"], row["bytes_each"]
        yield row["other"], row["bytes"] / 1024, each, cycle, cycle * each


def _speed(k: Record, rates: Mapping[str, float]) -> dict[str, str]:
    """Operations over time, in cache and out of it."""
    near, far = k["seconds"][str(NEAR)], k["seconds"][str(BATCH)]
    speed = k["flops"] / near
    return {
        "flops (mul, add)": f"{k['flops']:,}",
        f"ns a state, batch of {NEAR}": f"{near * 1e9:.0f}",
        f"ns a state, batch of {BATCH}": f"{far * 1e9:.0f}",
        "GF/s": f"{speed / 1e9:.1f}",
        "of the multiply peak": f"{speed / (rates['multiply'] * k['lanes']):.0%}",
        "of the fused peak": f"{speed / (2 * rates['multiply-add'] * k['lanes']):.0%}",
    }


def _bounds(k: Record, rates: Record) -> dict[str, str]:
    """Measured cycles, those that each resource alone would need at its measured rate, and spills."""
    kinds, operands, total, size = (k["code"][name] for name in ("kinds", "operands", "instructions", "bytes"))
    cycles = k["seconds"][str(NEAR)] * k["lanes"] * rates["clock"]
    loads = sum(n for kind, n in kinds.items() if kind.startswith("load")) + sum(operands.values())
    stores = sum(n for kind, n in kinds.items() if kind.startswith("store"))
    needs = {"multiply": kinds["arithmetic"], "add from memory": loads, "store": stores}
    least = [n / rates["rates"][k["dtype"]][rate] * rates["clock"] for rate, n in needs.items()]
    reloads, spills = kinds.get("load, stack", 0) + operands.get("stack", 0), kinds.get("store, stack", 0)
    found = {
        "instructions of a block (a vector of states)": f"{total:,}",
        "its code": f"{size / 1024:.0f} KB",
        "its cycles": f"{cycles:,.0f}",
        "instructions a cycle": f"{total / cycles:.2f}",
        "bytes of code a cycle": f"{size / cycles:.1f}",
    }
    what = ("arithmetic", "loads", "stores")
    found |= {f"cycles of {name} at least": f"{x:,.0f} ({x / cycles:.0%})" for name, x in zip(what, least, strict=True)}
    stack = f"{reloads:,}, {spills:,} ({(reloads + spills) / total:.0%})"
    return {**found, "loads, stores of the stack (spills)": stack}


def _kind_rows(codes: Record) -> Iterator[tuple[object, ...]]:
    for group, prefix in (("kinds", ""), ("operands", "operand, ")):
        for kind in sorted({kind for code in codes.values() for kind in code[group]}):
            yield prefix + kind, *(code[group].get(kind, 0) for code in codes.values())
