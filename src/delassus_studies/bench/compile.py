"""How cold compilations grow with the length of the program, stage by stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from delassus.cli.tables import Record, environment, table
from delassus_studies.cases import chain_of
from delassus_studies.counters import STAGES, compile_cold
from delassus_studies.figures import line_figure
from delassus_studies.timing import fitted_slope, pinned

METHODS = ("pv-osim", "auto")
LINKS = (25, 50, 100, 200, 400, 1000)


def measure(largest: int | None = None) -> Iterator[Record]:
    """Operations and seconds by stage of chains; the record after each. Exponents are of the seconds.

    ``largest`` leaves out longer chains.
    """
    points: list[Record] = []
    record: Record = {**environment(), "points": points, "slopes": {}}
    yield record
    with pinned():
        for size in (size for size in LINKS if largest is None or size <= largest):
            for method in METHODS:
                made = compile_cold(chain_of(size), method)
                point = {"links": size, "method": method, "operations": made.program.graph.count().total}
                points.append({**point, "seconds": made.seconds, "stages": made.stages})
                yield record
    record["slopes"] = {method: _exponents([p for p in points if p["method"] == method]) for method in METHODS}
    yield record


def _exponents(points: Sequence[Record]) -> dict[str, float]:
    x = [float(p["operations"]) for p in points]
    seconds: dict[str, Any] = {"seconds": [p["seconds"] for p in points]}
    seconds |= {stage: [p["stages"][stage] for p in points] for stage in points[0]["stages"]}
    return {name: fitted_slope(x, values) for name, values in seconds.items()}


def tables(record: Record) -> Iterator[Table | str]:
    """One line a compilation; exponents below."""
    rows = [
        (f"{p['links']} {p['method']}", p["operations"], p["seconds"], *map(p["stages"].get, STAGES))
        for p in record["points"]
    ]
    title = "cold compilation of a chain with one weld, for batches, float64, one core: s"
    heads = ("links, method", "operations:,", "in all:.2f", *(f"{stage}:.2f" for stage in STAGES))
    yield table(title, heads, rows, grows=(13,))
    for method, slopes in record["slopes"].items():
        yield f"{method}: exponents against operations: {', '.join(f'{n} {x:.2f}' for n, x in slopes.items())}"


def draw(record: Record, folder: Path) -> Path:
    """Seconds in all, and by stage of each method, against operations."""
    panels: dict[str, Any] = {"cold compilation": {}}
    for method, slopes in record["slopes"].items():
        points = [p for p in record["points"] if p["method"] == method]
        x = [p["operations"] for p in points]
        panels["cold compilation"][f"{method}, slope {slopes['seconds']:.2f}"] = (x, [p["seconds"] for p in points])
        panels[f"stages of {method}"] = {s: (x, [p["stages"][s] for p in points]) for s in points[0]["stages"]}
    return line_figure(folder / "compile_time.png", panels, "operations", "seconds", log=True)
