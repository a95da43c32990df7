"""``delassus bench compile``: seconds of a cold compilation against the length of the program, stage by stage."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from delassus_studies.bench_scaling import chain_of
from delassus_studies.compile_profile import STAGES, compile_cold
from delassus_studies.figures import line_figures
from delassus_studies.timing import fitted_slope, pinned, setting

METHODS = ("pv-osim", "auto")
LINKS = (25, 50, 100, 200, 400, 1000)
SHOWN = (*STAGES, "other")


def measure(sizes: Sequence[int], methods: Sequence[str], console: Console) -> list[dict[str, Any]]:
    """One point for each size and method: operations, seconds in all as a user waits for them, and seconds by stage."""
    points: list[dict[str, Any]] = []
    for size in sizes:
        case = chain_of(size)
        for method in methods:
            with console.status(f"{case.name}, {method}"):
                made = compile_cold(case, method)
            operations = made.kernel.operations.total
            point = {"links": size, "method": method, "operations": operations}
            points.append({**point, "seconds": made.seconds, "stages": made.stages})
    return points


def _table(points: Sequence[dict[str, Any]]) -> Table:
    table = Table(title="cold compilation of a chain with one weld, both codes, float64", title_justify="left")
    for column in ("links", "method", "operations", "seconds", "µs per operation", *SHOWN):
        table.add_column(column, justify="left" if column == "method" else "right")
    for p in points:
        stages = (f"{p['stages'][s]:.2f} s" if s in p["stages"] else "–" for s in SHOWN)
        each = p["seconds"] / p["operations"] * 1e6
        table.add_row(
            str(p["links"]), p["method"], f"{p['operations']:,}", f"{p['seconds']:.2f}", f"{each:.0f}", *stages
        )
    return table


def _slopes(points: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Exponent of the seconds, in all and by stage, against the operations: the upper half of the range."""
    x = [float(p["operations"]) for p in points]
    slopes = {"seconds": fitted_slope(x, [p["seconds"] for p in points])}
    for stage in SHOWN:
        if all(stage in p["stages"] for p in points):
            slopes[stage] = fitted_slope(x, [p["stages"][stage] for p in points])
    return slopes


def _draw(folder: Path, record: dict[str, Any]) -> Path:
    panels: dict[str, Any] = {"cold compilation": {}}
    for method, slopes in record["slopes"].items():
        points = [p for p in record["points"] if p["method"] == method]
        x = [p["operations"] for p in points]
        label = f"{method}, slope {slopes['seconds']:.2f}"
        panels["cold compilation"][label] = (x, [p["seconds"] for p in points])
        panels[f"stages of {method}"] = {
            s: (x, [p["stages"][s] for p in points]) for s in SHOWN if s in points[0]["stages"]
        }
    return line_figures(folder / "compile_time.png", panels, ["operations"] * len(panels), "seconds", log=True)


def run(
    console: Console,
    plot: Path | None = None,
    file: Path | None = None,
    largest: int | None = None,
    methods: Sequence[str] = METHODS,
) -> dict[str, Any]:
    """Print the table, draw the figure and write the raw figures; ``largest`` leaves out longer chains."""
    record: dict[str, Any] = setting()
    sizes = [size for size in LINKS if largest is None or size <= largest]
    with pinned():
        record["points"] = measure(sizes, methods, console)
    console.print(f"{record['processor']}, seconds of one core", highlight=False)
    console.print(_table(record["points"]))
    record["slopes"] = {m: _slopes([p for p in record["points"] if p["method"] == m]) for m in methods}
    for method, slopes in record["slopes"].items():
        said = ", ".join(f"{name} {value:.2f}" for name, value in slopes.items())
        console.print(f"{method}: exponents against operations: {said}", highlight=False)
    if plot is not None:
        console.print(f"figure: {_draw(plot, record)}")
    if file is not None:
        file.write_text(json.dumps(record, indent=1))
        console.print(f"raw figures: {file}")
    return record
