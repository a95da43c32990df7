"""How compiled kernels grow with links and rows: operations and time of PV-OSIM, PV-OSIMr and auto."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from rich.table import Table

import delassus as ds
from delassus.cli.tables import Record, environment, table
from delassus.quantities.keywords import OsimMethod
from delassus_studies.cases import Case, chain_of, welds
from delassus_studies.figures import Series, line_figure
from delassus_studies.timing import Calls, fitted_slope, interleaved, pinned

METHODS: tuple[OsimMethod, ...] = ("pv-osim", "pv-osimr", "auto")
LINKS = (10, 20, 40, 70, 100, 200, 400)
TIPS = (1, 2, 3, 4, 6, 8, 12)
STEM = 12, 12, 2
"""Links of the stem, chains at each of its ends, links of each chain."""
RESULTS = 4 * 2**20
"""Bytes of results of a batch: few enough to stay in the cache, so that the time is that of the arithmetic."""
MOST_STATES, ROUNDS = 1024, 15


def stem_with(tips: int) -> Case:
    """The same stem for all ``tips``, of which so many are welded, all at the stem's far end."""
    length, branches, branch_length = STEM
    ends = [f"far{b + 1}_{branch_length}" for b in range(tips)]
    return Case(f"stem, {tips} tips", ds.mechanisms.stem(length, branches, branch_length), welds(*ends))


FAMILIES: dict[str, tuple[Callable[[int], Case], Sequence[int], int]] = {
    "n": (chain_of, LINKS, 1),
    "m": (stem_with, TIPS, 6),
}
"""By what grows: the mechanism, its sizes, and links or rows for each of them."""


def _point(case: Case) -> Record:
    """Rows, operations and time per state of every method."""
    m = sum(c.size for c in case.constraints)
    states = min(MOST_STATES, RESULTS // (8 * m * m))
    q = case.tree.random(0, states)
    calls: Calls = {}
    methods: Record = {}
    for method in METHODS:
        kernel = ds.compile(case.tree, case.constraints, method=method)
        calls[method] = partial(kernel, q, out=kernel(q, threads=1), threads=1), states
        methods[method] = {"operations": kernel.operations.total}
    for name, times in interleaved(calls, ROUNDS, 2).items():
        methods[name]["microseconds"] = times
    return {"n": case.tree.n_links, "m": m, "states": states, "methods": methods}


def _values(points: Sequence[Record], method: str, what: str) -> list[float]:
    found = [point["methods"][method][what] for point in points]
    return [x["median"] if isinstance(x, dict) else float(x) for x in found]


def measure(largest: int | None = None) -> Iterator[Record]:
    """Both families; the record after each size. Slopes are of the upper half of the range.

    ``largest`` leaves out longer chains and more rows.
    """
    record: Record = {**environment(), "families": {}}
    yield record
    with pinned():
        for axis, (make, sizes, each) in FAMILIES.items():
            points: list[Record] = []
            family: Record = record["families"].setdefault(axis, {"points": points})
            for size in (size for size in sizes if largest is None or size * each <= largest):
                points.append(_point(make(size)))
                yield record
            x = [float(point[axis]) for point in points]
            family["slopes"] = {
                m: {what: fitted_slope(x, _values(points, m, what)) for what in ("operations", "microseconds")}
                for m in METHODS
            }
            yield record


def tables(record: Record) -> Iterator[Table | str]:
    """One table a family, slopes in its last line."""
    yield f"batches of up to {MOST_STATES}, float64, one core"
    for axis, family in record["families"].items():
        rows = []
        for point in family["points"]:
            cells = (point["methods"][method] for method in METHODS)
            shown = (f"{c['operations']:>9,}  {c['microseconds']['median']:8.3f}" for c in cells)
            rows.append((str(point[axis]), *shown))
        if done := "slopes" in family:
            slopes = (family["slopes"][method] for method in METHODS)
            rows.append(("slope", *(f"{s['operations']:.2f}  {s['microseconds']:8.2f}" for s in slopes)))
        fixed = "m" if axis == "n" else "n"
        title = f"against {axis}: operations, µs per state ({fixed} = {family['points'][0][fixed]})"
        yield table(title, (axis, *METHODS), rows, last_bold=done, grows=() if done else (5,))


def draw(record: Record, folder: Path) -> Path:
    """Operations and time against links and rows."""
    panels: dict[str, Series] = {}
    for axis, family in record["families"].items():
        points, slopes = family["points"], family["slopes"]
        x = [point[axis] for point in points]
        for what, unit in (("operations", "operations"), ("microseconds", "µs per state")):
            panels[f"{unit} against {axis}"] = {
                f"{m}, slope {slopes[m][what]:.2f}": (x, _values(points, m, what)) for m in METHODS
            }
    return line_figure(folder / "scaling.png", panels, "links n, rows m", "", log=True)
