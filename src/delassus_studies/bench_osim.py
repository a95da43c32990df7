"""``delassus bench osim``: operations and NumPy time of every method on the benchmark robots."""

from __future__ import annotations

import platform
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from delassus.algorithms.evaluate import delassus
from delassus.algorithms.osim import OSIM_METHODS
from delassus.compiler.trace import OperationReport, count_operations
from delassus_studies.cases import benchmark_cases
from delassus_studies.figures import bar_figure
from delassus_studies.peers import pinocchio_call
from delassus_studies.timing import time_per_state


def run(console: Console, plot: Path | None, states: int) -> None:
    """Print the tables and draw the figure."""
    console.print(
        f"NumPy, batches of {states}; {platform.machine()}, Python {platform.python_version()}", highlight=False
    )
    totals: dict[str, dict[str, int]] = {}
    for case in benchmark_cases():
        q = case.tree.random(0, states)
        reports = {m: count_operations(case.tree, case.constraints, method=m) for m in OSIM_METHODS}
        calls = {m: partial(delassus, case.tree, case.constraints, q, method=m) for m in OSIM_METHODS}
        peer = pinocchio_call(case, q)
        seconds = time_per_state({**calls, **({"pinocchio": peer} if peer else {})}, states, repeats=5)
        table = Table(title=case.name, title_justify="left")
        for column in ("method", "operations", "mul", "add", "div", "sqrt", "trig", "µs per state"):
            table.add_column(column, justify="left" if column == "method" else "right")
        for method in OSIM_METHODS:
            c = reports[method].clean
            numbers = (c.total, c.mul, c.add + c.neg, c.div, c.sqrt, c.trig)
            table.add_row(method, *(f"{x:,}" for x in numbers), f"{seconds[method] * 1e6:.1f}")
        if peer:
            table.add_row("pinocchio", *("",) * 6, f"{seconds['pinocchio'] * 1e6:.1f}", style="dim")
        console.print(table)
        console.print(_phases(reports))
        totals[case.name] = {m: reports[m].clean.total for m in OSIM_METHODS if m != "dense"}
    if plot is not None:
        path = bar_figure(plot / "osim_operations.png", totals, "operations")
        console.print(f"figure: {path}")


def _phases(reports: dict[str, OperationReport]) -> Table:
    table = Table("method", "phases of the count", show_header=False, box=None, padding=(0, 1))
    for method, report in reports.items():
        table.add_row(
            f"[dim]{method}[/]", "[dim]" + ", ".join(f"{n} {c.total:,}" for n, c in report.phases if c.total) + "[/]"
        )
    return table
