"""``delassus bench osim``: operations, by kind and by phase, and NumPy time of every method on the benchmark robots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

from rich.table import Table

import delassus as ds
from delassus.cli.tables import Record, environment, table
from delassus_studies.cases import Case, benchmark_cases
from delassus_studies.figures import bar_figure
from delassus_studies.peers import if_present
from delassus_studies.peers.pinocchio import delassus_call
from delassus_studies.timing import Calls, each, interleaved

ROUNDS = 5


def measure(states: int, quick: bool = False) -> Iterator[Record]:
    """Operation counts and times of a batch on every robot; the record after each."""
    record = {**environment(), "states": states}
    return each(record, "cases", benchmark_cases(quick), lambda case: _measure_case(case, states))


def _measure_case(case: Case, states: int) -> Record:
    q = case.tree.random(0, states)
    calls: Calls = {
        m: (partial(ds.delassus, case.tree, case.constraints, q, method=m), states) for m in ds.OSIM_METHODS
    }
    if peer := if_present(partial(delassus_call, case, q)):
        calls["pinocchio"] = peer, states
    methods = {}
    for method in ds.OSIM_METHODS:
        report = ds.count_operations(case.tree, case.constraints, method=method)
        phases = {name: count.total for name, count in report.phases if count.total}
        methods[method] = {**asdict(report.clean), "clean": report.clean.total, "phases": phases}
    return {"methods": methods, "microseconds": interleaved(calls, ROUNDS)}


def tables(record: Record) -> Iterator[Table | str]:
    """Operations and time of each method, robot by robot, and the phases of the count."""
    yield f"NumPy, batches of {record['states']}"
    for name, figures in record["cases"].items():
        rows = []
        for method, times in figures["microseconds"].items():
            c = figures["methods"].get(method)
            kinds = c and (c["clean"], c["mul"], c["add"] + c["neg"], c["div"], c["sqrt"], c["trig"])
            rows.append((method, *(kinds or [""] * 6), times["median"]))
        heads = ("method", *(f"{kind}:," for kind in ("operations", "mul", "add", "div", "sqrt", "trig")))
        yield table(name, (*heads, "µs per state:.1f"), rows)
        for method, count in figures["methods"].items():
            yield f"{method:8s} {', '.join(f'{phase} {number:,}' for phase, number in count['phases'].items())}"


def draw(record: Record, folder: Path) -> Path:
    """Operations of each method, robot by robot."""
    totals = {
        name: {method: count["clean"] for method, count in figures["methods"].items() if method != "dense"}
        for name, figures in record["cases"].items()
    }
    return bar_figure(folder / "osim_operations.png", totals, "operations, without those of dense")
