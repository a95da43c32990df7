"""Figures as PNG files; they need the extra ``[plot]``."""

from __future__ import annotations

import ast
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import cycle, zip_longest
from pathlib import Path
from typing import Any

from delassus.cli.tables import Record
from delassus.model.check import written
from delassus.pictures.plots import COLOURS, LARGE, SMALL, STYLES, page_figure, save_figure

Series = Mapping[str, tuple[Sequence[float] | Sequence[str], Sequence[float]]]
"""Lines or points by name, x and y; or, where x is names of cases, bars beside one another."""

Panels = Mapping[str, Series]
"""What is drawn, by title."""

BLUE, ORANGE, GREEN, GREY = COLOURS
USUAL = {
    "pv-osim": BLUE,
    "pv-osimr": ORANGE,
    "efpa": GREEN,
    "ltl-osim": GREY,
    "paper": GREY,
    "LTL": GREY,
    "LTL-s": GREY,
}
"""Colours of what many figures show; others take what is left."""

ACROSS = 2
"""Panels side by side, at most."""
CROWDED = 4
"""Names of cases below an axis, at most, that are level."""
MANY_DECADES = 1e3
"""From this ratio on, logarithmic axes have ticks at powers of ten only."""

ROOT = Path(__file__).parents[2]
"""Of the repository."""

# -- what a figure says of itself ------------------------------------------------------------------------------------


def digest(path: Path) -> str:
    """Of the code in a file that measures: not of imports, of texts that stand alone, and of `draw` and `tables`."""

    def words(node: ast.AST) -> Iterator[str]:
        shows = isinstance(node, ast.FunctionDef) and node.name in ("draw", "tables")
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if shows or text or isinstance(node, ast.Import | ast.ImportFrom):
            return
        yield type(node).__name__
        yield from (repr(value) for _, value in ast.iter_fields(node) if isinstance(value, str | float | int | bytes))
        for child in ast.iter_child_nodes(node):
            yield from words(child)

    return sha256(" ".join(words(ast.parse(path.read_text("utf-8")))).encode()).hexdigest()[:12]


def stamp(path: Path, command: str, record: Record, measured: str) -> Path:
    """Write into a PNG file what its page says below it, and the digest of the file that ``measured`` what it shows.

    The first is the ``command``, and day and processor of the ``record``.
    """
    code = Path(measured).resolve()
    home = code.relative_to(ROOT).as_posix() if code.is_relative_to(ROOT) else code.name
    about = {
        "Description": f"`{command}`; {record['date']}; {record['processor']}",
        "Source": f"{home} {digest(code)}",
    }
    chunks = b""
    for key, text in about.items():
        content = b"tEXt" + key.encode() + b"\0" + text.encode("latin-1")
        chunks += struct.pack(">I", len(content) - 4) + content + struct.pack(">I", zlib.crc32(content))
    drawn, head = path.read_bytes(), 33  # the signature, and the chunk that is to be first
    with written(path, "figure") as part:
        part.write_bytes(drawn[:head] + chunks + drawn[head:])
    return path


# -- figures ---------------------------------------------------------------------------------------------------------


def _panels(number: int) -> tuple[Any, Any]:
    rows, columns = -(-number // ACROSS), min(number, ACROSS)
    figure = page_figure(2.6 * rows)
    axes = figure.subplots(rows, columns, squeeze=False)
    for k, ax in enumerate(axes.flat):
        tidy(ax)
        ax.set_visible(k < number)
    return figure, axes.flat[:number]


def side_by_side(number: int, height: float = 2.2) -> tuple[Any, Any]:
    """A figure of the width of a page, and its axes."""
    figure = page_figure(height)
    (axes,) = figure.subplots(1, number, squeeze=False)
    return figure, axes


def tidy(ax: Any) -> None:
    """Letters of one size, a grid, no frame."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=SMALL)
    for text in (ax.xaxis.label, ax.yaxis.label):
        text.set_fontsize(SMALL)
    ax.set_axisbelow(True)
    ax.grid(alpha=0.3)


def bar_figure(path: Path, totals: Mapping[str, Mapping[str, float]], label: str) -> Path:
    """One panel for each robot, one bar for each method."""
    figure, axes = _panels(len(totals))
    for ax, (name, values) in zip(axes, totals.items(), strict=True):
        bars = ax.bar(range(len(values)), list(values.values()), color=BLUE)
        ax.bar_label(bars, labels=[f"{v:,.0f}" for v in values.values()], fontsize=SMALL)
        ax.set_xticks(range(len(values)), list(values), rotation=35, ha="right")
        ax.set_title(name, fontsize=LARGE)
        ax.set_ylabel(label)
    return save_figure(figure, path)


def _number(value: float) -> str:
    if 1e-3 <= value < 1e6:
        return f"{value:,.6g}"
    digit, power = f"{value:.0e}".split("e")
    return f"${'' if digit == '1' else f'{digit} x '}10^{{{int(power)}}}$".replace("x", r"\times")


def _logarithmic(ax: Any) -> None:
    """Logarithmic axes whose ticks are numbers that do not overlap."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set_xscale("log")
    ax.set_yscale("log")
    for axis in (ax.xaxis, ax.yaxis):
        low, high = axis.get_view_interval()
        steps = (1, 1.5, 2, 3, 5, 7) if high < 10 * low else (1, 2, 5) if high < MANY_DECADES * low else (1,)
        axis.set_major_locator(LogLocator(10, subs=steps, numticks=8))
        axis.set_major_formatter(FuncFormatter(lambda value, _: _number(value)))
        axis.set_minor_formatter(NullFormatter())


def bars(found: Mapping[str, Mapping[str, float]]) -> Series:
    """Numbers by case and method as bars, those of the methods beside one another for each case."""
    methods = next(iter(found.values()))
    return {method: (tuple(found), [numbers[method] for numbers in found.values()]) for method in methods}


def _colours(panels: Iterable[Iterable[str]]) -> dict[str, str]:
    """A colour for each name, in all panels the same; in one that has no more names than colours, all differ."""
    found: dict[str, str] = {}
    for names in map(list, panels):
        found |= {name: USUAL[name] for name in names if name in USUAL}
        taken = [found.get(name) for name in names]
        left = cycle([colour for colour in COLOURS if colour not in taken] or COLOURS)
        found |= {name: next(left) for name in names if name not in found}
    return found


def _plot(ax: Any, series: Series, log: bool, level: float | None, colours: Mapping[str, str]) -> None:
    """Lines, or bars, of one panel."""
    for k, (name, (xs, ys)) in enumerate(series.items()):
        colour = colours[name]
        if isinstance(xs[0], str):
            width = 0.8 / len(series)
            places = [place + (k + 0.5) * width - 0.4 for place in range(len(xs))]
            ax.bar(places, ys, 0.9 * width, color=colour, label=name)
            if len(xs) > CROWDED:
                ax.set_xticks(range(len(xs)), list(map(str, xs)), rotation=30, ha="right")
            else:
                ax.set_xticks(range(len(xs)), [str(case).replace(", ", ",\n") for case in xs])
        else:
            style = STYLES[(k + k // len(STYLES)) % len(STYLES)]  # equal lines stay visible
            ax.plot(xs, ys, style, color=colour, marker="o", markersize=3, label=name)
    if log:
        _logarithmic(ax)
    elif ax.get_ylim()[1] > 1000:
        ax.yaxis.set_major_formatter("{x:,.0f}")
    if level is not None:
        ax.axhline(level, color="0.6", linewidth=0.8)


def line_figure(path: Path, panels: Panels, x: str, y: str, log: bool = False, level: float | None = None) -> Path:
    """One panel for each title, one line for each series; ``level`` draws a line across all panels.

    A panel has a legend if its series are not those of the one before it.
    """
    figure, axes = _panels(len(panels))
    colours = _colours(panels.values())
    explained: list[str] = []
    for ax, (title, series) in zip(axes, panels.items(), strict=True):
        _plot(ax, series, log, level, colours)
        ax.set_title(title, fontsize=LARGE)
        ax.set_xlabel(x)
        if list(series) != explained:
            ax.legend(fontsize=SMALL)
        explained = list(series)
    for ax in axes[::ACROSS]:
        ax.set_ylabel(y)
    return save_figure(figure, path)


def paired_figure(
    path: Path,
    ways: Mapping[str, Panels],
    x: str,
    y: str,
    log: bool = False,
    level: float | None = None,
) -> Path:
    """Panels of ways to measure side by side, a column each, on the same axes.

    Panels of one way alone are side by side, with axes of their own.
    """
    cells = [[(way, *panel) for panel in panels.items()] for way, panels in ways.items()]
    colours = _colours(series for row in cells for *_, series in row)
    rows = list(zip_longest(*cells)) if len(cells) > 1 else cells  # a way may have more to show
    shared = "row" if len(cells) > 1 else False
    figure = page_figure(2.6 if len(rows) == 1 else 1.8 * len(rows))
    grid = figure.subplots(len(rows), len(rows[0]), squeeze=False, sharex=shared, sharey=shared)
    for axes, row in zip(grid, rows, strict=True):
        for ax, cell in zip(axes, row, strict=True):
            if cell is None:
                ax.set_visible(False)
                continue
            way, title, series = cell
            tidy(ax)
            _plot(ax, series, log, level, colours)
            ax.set_title(f"{way}: {title}" if shared else title, fontsize=LARGE)
            ax.tick_params(labelleft=True)
        if None not in row:
            axes[0].set_ylabel(y)
    for ax in grid[0]:
        ax.legend(fontsize=SMALL)
    for column in grid.T:
        next(ax for ax in column[::-1] if ax.get_visible()).set_xlabel(x)
    return save_figure(figure, path)


def scatter_figure(path: Path, panels: Panels, x: str, y: str, factor: float) -> Path:
    """Points of each series on logarithmic axes, with the lines y = x and y = ``factor`` x."""
    figure, axes = _panels(len(panels))
    colours = _colours(panels.values())
    for ax, (title, series) in zip(axes, panels.items(), strict=True):
        for name, (xs, ys) in series.items():
            ax.plot(xs, ys, ".", color=colours[name], markersize=1.5, label=name, rasterized=True)
        ax.set(xscale="log", yscale="log", xlabel=x)
        ax.set_title(title, fontsize=LARGE)
        ends = ax.get_xlim()
        ax.plot(ends, ends, "k-", linewidth=0.8)
        ax.plot(ends, [factor * end for end in ends], "k--", linewidth=0.8)
    axes[0].set_ylabel(y)
    axes[0].legend(fontsize=SMALL, markerscale=6)
    return save_figure(figure, path)
