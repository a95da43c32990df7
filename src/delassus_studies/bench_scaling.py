"""``delassus bench scaling``: operations and time of compiled kernels against the number of links and of rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from delassus.model.mechanisms import chain, stem
from delassus.runtime.compile import compile
from delassus_studies.cases import Case, welds
from delassus_studies.figures import line_figures
from delassus_studies.timing import fitted_slope, interleaved, microseconds, pinned, seconds, setting

METHODS = ("pv-osim", "pv-osimr", "auto")
LINKS = (10, 20, 40, 70, 100, 200, 400)
TIPS = (1, 2, 3, 4, 6, 8, 12)
STEM = 12, 12, 2
"""Links of the stem, chains at each of its ends, links of each chain."""
RESULTS = 4 * 2**20
"""Bytes of results of a batch: few enough to stay in the cache, so that the time is that of the arithmetic."""
MOST_STATES = 1024
ROUNDS = 15


def chain_of(n: int) -> Case:
    """Chain of ``n`` links whose last is welded."""
    return Case(f"chain of {n}", chain(n), welds(f"link{n}"))


def stem_with(tips: int) -> Case:
    """The same stem for all ``tips``, of which so many are welded, all at the stem's far end."""
    length, branches, branch_length = STEM
    ends = [f"far{b + 1}_{branch_length}" for b in range(tips)]
    return Case(f"stem, {tips} tips", stem(length, branches, branch_length), welds(*ends))


def measure(make: Callable[[int], Case], sizes: Sequence[int], console: Console) -> dict[str, Any]:
    """Rows, operations, seconds of compilation and time per state for every size and method."""
    points = []
    for size in track(sizes, make(sizes[-1]).tree.name, console=console, transient=True):
        case = make(size)
        m = sum(c.size for c in case.constraints)
        states = min(MOST_STATES, RESULTS // (8 * m * m))
        q = case.tree.random(0, states)
        point: dict[str, Any] = {"n": case.tree.n_links, "m": m, "states": states, "methods": {}}
        calls: dict[str, tuple[Callable[[], object], int]] = {}
        for method in METHODS:
            kernels: list[Any] = []
            taken = seconds(lambda m=method, c=case, k=kernels: k.append(compile(c.tree, c.constraints, method=m)))  # type: ignore[misc]
            (kernel,) = kernels
            calls[method] = partial(kernel, q, out=kernel(q, threads=1), threads=1), states
            point["methods"][method] = {"operations": kernel.operations.total, "ready_seconds": taken}
        for method, samples in interleaved(calls, ROUNDS, 2).items():
            point["methods"][method]["microseconds"] = microseconds(samples)
        points.append(point)
    return {"points": points, "sizes": list(sizes)}


FAMILIES: dict[str, tuple[str, Callable[[int], Case], Sequence[int]]] = {
    "against n": ("n", chain_of, LINKS),
    "against m": ("m", stem_with, TIPS),
}


def _values(points: Sequence[dict[str, Any]], method: str, what: str) -> list[float]:
    found = [point["methods"][method][what] for point in points]
    return [x["median"] if isinstance(x, dict) else float(x) for x in found]


def _slopes(family: dict[str, Any], axis: str) -> dict[str, dict[str, float]]:
    """Fitted exponents over the upper half of the range, of operations and of time."""
    points = family["points"]
    x = [float(point[axis]) for point in points]
    return {
        method: {what: fitted_slope(x, _values(points, method, what)) for what in ("operations", "microseconds")}
        for method in METHODS
    }


def _table(title: str, axis: str, family: dict[str, Any]) -> Table:
    points = family["points"]
    fixed = "m" if axis == "n" else "n"
    table = Table(title=f"{title}: operations, µs per state ({fixed} = {points[0][fixed]})", title_justify="left")
    for column in (axis, *METHODS):
        table.add_column(column, justify="right")
    for point in points:
        cells = (point["methods"][method] for method in METHODS)
        table.add_row(str(point[axis]), *(f"{c['operations']:,}  {c['microseconds']['median']:8.3f}" for c in cells))
    slopes = [family["slopes"][method] for method in METHODS]
    table.add_row("slope", *(f"{s['operations']:.2f}  {s['microseconds']:8.2f}" for s in slopes), style="bold")
    return table


def _draw(folder: Path, record: dict[str, Any]) -> Path:
    panels = {}
    for title, (axis, _, _) in FAMILIES.items():
        family = record["families"][title]
        x = [point[axis] for point in family["points"]]
        for what, unit in (("operations", "operations"), ("microseconds", "µs per state")):
            panels[f"{unit} {title}"] = {
                f"{method}, slope {family['slopes'][method][what]:.2f}": (x, _values(family["points"], method, what))
                for method in METHODS
            }
    labels = [axis for axis, _, _ in FAMILIES.values() for _ in range(2)]
    return line_figures(folder / "scaling.png", panels, labels, "", log=True)


def run(
    console: Console, plot: Path | None = None, file: Path | None = None, largest: int | None = None
) -> dict[str, Any]:
    """Print the tables, draw the figure, write the raw figures; ``largest`` leaves out longer chains and more rows."""
    record: dict[str, Any] = {**setting(), "families": {}}
    with pinned():
        for title, (axis, make, sizes) in FAMILIES.items():
            unit = 6 if axis == "m" else 1
            kept = [size for size in sizes if largest is None or size * unit <= largest]
            record["families"][title] = family = measure(make, kept, console)
            family["slopes"] = _slopes(family, axis)
    console.print(f"{record['processor']}; batches of up to {MOST_STATES}, float64, one core", highlight=False)
    for title, (axis, _, _) in FAMILIES.items():
        console.print(_table(title, axis, record["families"][title]))
    if plot is not None:
        console.print(f"figure: {_draw(plot, record)}")
    if file is not None:
        file.write_text(json.dumps(record, indent=1))
        console.print(f"raw figures: {file}")
    return record
