"""``delassus bench peak``: the fraction of the core's measured peak that kernels reach, and what bounds the rest."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from rich.table import Table

from delassus.cli.tables import Record, environment, table
from delassus.compiler.machine.cpu import ObjectCode, host
from delassus_studies.cases import Case, benchmark_cases
from delassus_studies.counters import (
    Compilation,
    available,
    census,
    clock,
    compile_cold,
    instructions_per_second,
)
from delassus_studies.timing import Calls, each, interleaved, pinned

DTYPES = ("float64", "float32")
RATES = ("multiply", "add", "multiply-add", "add from memory", "store")
NEAR, BATCH = 64, 4096
"""States of a batch that stays in the cache, and of the benchmark's."""
ROUNDS = 15
FUNCTIONS = "block.*"


def _rates() -> Record:
    """Measured clock, and rates of independent vector instructions by type and kind."""
    rates = {dtype: {kind: instructions_per_second(dtype, kind) for kind in RATES} for dtype in DTYPES}
    return {"clock": clock(), "rates": rates}


def _times(case: Case, made: Compilation, dtype: str) -> dict[str, float]:
    """Least seconds per state of the machine code alone, in cache and out of it."""
    code = ObjectCode(made.code)
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
    if available():
        found = census(made.code, FUNCTIONS)
        sizes = {"instructions": found.total, "bytes": found.size}
        record["code"] = {**sizes, "kinds": dict(found.kinds.most_common()), "operands": dict(found.from_memory)}
    return record


def measure(quick: bool = False) -> Iterator[Record]:
    """The machine's rates; kernels of each case in both types. The record after each."""
    with pinned():
        yield from each({**environment(), "machine": _rates()}, "cases", benchmark_cases(quick), _measure_case)


def _measure_case(case: Case) -> Record:
    return {dtype: _kernel(case, dtype) for dtype in DTYPES}


# -- tables --------------------------------------------------------------------------------------------------------


def tables(record: Record) -> Iterator[Table | str]:
    """The machine's rates, and beside them of each case the kernels, and what their code consists of."""
    rates = record["machine"]
    yield f"one core, clock {rates['clock'] / 1e9:.2f} GHz (chain of integer operations)"
    yield table("peak of one core: independent full-vector instructions", ("", *DTYPES), _peak_rows(rates))
    if not available():
        yield "no tables of the code: they need objdump and x86-64"
    for name, kernels in record["cases"].items():
        facts = [_speed(k, rates["rates"][k["dtype"]]) | _bounds(k, rates) for k in kernels.values()]
        yield table(name, ("", *DTYPES), ((what, *(own[what] for own in facts)) for what in facts[0]))
        if rows := list(_kind_rows([k["code"] for k in kernels.values() if "code" in k])):
            title = "instructions of a block by kind; operands that arithmetic reads in place"
            yield table(title, ("", *(f"{dtype}:," for dtype in DTYPES)), rows)


def _peak_rows(rates: Record) -> Iterator[tuple[str, ...]]:
    for kind in RATES:
        cells = []
        for dtype in DTYPES:
            rate = rates["rates"][dtype][kind]
            numbers = rate * host().lanes(dtype) * (2 if kind == "multiply-add" else 1)
            cells.append(f"{numbers / 1e9:6.1f} G/s, {rate / rates['clock']:.2f} a cycle")
        yield kind, *cells


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
    if "code" not in k:
        return {}
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


def _kind_rows(codes: Sequence[Record]) -> Iterator[tuple[object, ...]]:
    for group, prefix in (("kinds", ""), ("operands", "operand, ")):
        for kind in sorted({kind for code in codes for kind in code[group]}):
            yield prefix + kind, *(code[group].get(kind, 0) for code in codes)
