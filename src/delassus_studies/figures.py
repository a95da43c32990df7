"""Figures as PNG files; they need the extra ``[plot]``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count, zip_longest
from pathlib import Path
from typing import Any

from delassus.errors import ModelError, require

Series = Mapping[str, tuple[Sequence[float] | Sequence[str], Sequence[float]]]
"""Lines or points by name, x and y; or, where x is names of cases, bars beside one another."""

Panels = Mapping[str, Series]
"""What is drawn, by title."""

COLOURS = {"pv-osim": "C0", "pv-osimr": "C3", "efpa": "C2", "ltl-osim": "0.55", "kjr": "C1", "paper": "k"}
"""Of what many figures show; others take what is next."""

LINES = ("-", "--", "-.", ":")
"""One style after the other, so that equal lines stay visible."""
ACROSS = 3
"""Panels side by side, at most."""
CROWDED = 4
"""Names of cases below an axis, at most, that are level."""
MANY_DECADES = 1e5
"""From this ratio on, logarithmic axes have ticks at powers of ten only."""


def check_folder(folder: Path) -> Path:
    """Make the folder that figures go to; raises where they cannot be drawn, before anything is measured."""
    _pyplot()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(f"folder {str(folder)!r}", "a folder for figures", str(error), "Check the path.") from error
    return folder


def _pyplot() -> Any:
    require("matplotlib", "plot", "figures")
    import matplotlib
    import matplotlib.pyplot as plt

    matplotlib.use("Agg")

    return plt


def _panels(number: int, width: float) -> tuple[Any, Any]:
    rows, columns = -(-number // ACROSS), min(number, ACROSS)
    figure, axes = _pyplot().subplots(rows, columns, figsize=(width * columns, 3.3 * rows), squeeze=False)
    for k, ax in enumerate(axes.flat):
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_visible(k < number)
    return figure, axes.flat[:number]


def side_by_side(number: int) -> tuple[Any, Any]:
    """A figure of the width of a page, and its axes."""
    figure, (axes,) = _pyplot().subplots(1, number, figsize=(9.0, 2.6), squeeze=False)
    return figure, axes


def save(figure: Any, path: Path) -> Path:
    """Write a figure, and let it go."""
    figure.tight_layout()
    figure.savefig(path, dpi=130, bbox_inches="tight")
    _pyplot().close(figure)
    return path


def bar_figure(path: Path, totals: Mapping[str, Mapping[str, float]], label: str) -> Path:
    """One panel for each robot, one bar for each method."""
    figure, axes = _panels(len(totals), 3.2)
    for ax, (name, values) in zip(axes, totals.items(), strict=True):
        bars = ax.bar(range(len(values)), list(values.values()), color=[f"C{k}" for k in range(len(values))])
        ax.bar_label(bars, labels=[f"{v:,.0f}" for v in values.values()], fontsize=7)
        ax.set_xticks(range(len(values)), list(values), rotation=35, ha="right", fontsize=8)
        ax.set_title(name, fontsize=10)
        ax.set_ylabel(label)
    return save(figure, path)


def _logarithmic(ax: Any) -> None:
    """Logarithmic axes whose ticks are plain numbers that do not overlap."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set_xscale("log")
    ax.set_yscale("log")
    for axis in (ax.xaxis, ax.yaxis):
        low, high = axis.get_view_interval()
        axis.set_major_locator(LogLocator(10, subs=(1, 2, 5) if high < MANY_DECADES * low else (1,), numticks=8))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
        axis.set_minor_formatter(NullFormatter())
    ax.tick_params(labelsize=8)


def bars(found: Mapping[str, Mapping[str, float]]) -> Series:
    """Numbers by case and method as bars, those of the methods beside one another for each case."""
    methods = next(iter(found.values()))
    return {method: (tuple(found), [numbers[method] for numbers in found.values()]) for method in methods}


def _colours(names: Iterable[str]) -> dict[str, str]:
    """A colour for each name."""
    named = dict.fromkeys(names)
    others = (colour for colour in map("C{}".format, count()) if colour not in map(COLOURS.get, named))
    return {name: COLOURS.get(name) or next(others) for name in named}


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
            ax.plot(xs, ys, LINES[k % len(LINES)], color=colour, marker="o", markersize=3, label=name)
    if log:
        _logarithmic(ax)
    elif ax.get_ylim()[1] > 1000:
        ax.yaxis.set_major_formatter("{x:,.0f}")
    if level is not None:
        ax.axhline(level, color="0.6", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.grid(alpha=0.3)


def line_figure(path: Path, panels: Panels, x: str, y: str, log: bool = False, level: float | None = None) -> Path:
    """One panel for each title, one line for each series; ``level`` draws a line across all panels.

    A panel has a legend if its series are not those of the one before it.
    """
    figure, axes = _panels(len(panels), 3.6)
    explained: list[str] = []
    for ax, (title, series) in zip(axes, panels.items(), strict=True):
        _plot(ax, series, log, level, _colours(series))
        ax.set_title(title, fontsize=10)
        ax.set_xlabel(x)
        if list(series) != explained:
            ax.legend(fontsize=7)
        explained = list(series)
    for ax in axes[::ACROSS]:
        ax.set_ylabel(y)
    return save(figure, path)


def paired_figure(
    path: Path,
    ways: Mapping[str, Panels],
    x: str,
    y: str,
    log: bool = False,
    level: float | None = None,
    caption: str = "",
) -> Path:
    """Panels of ways to measure side by side, a column each, on the same axes; a caption below.

    Panels of one way alone are side by side, with axes of their own.
    """
    cells = [[(way, *panel) for panel in panels.items()] for way, panels in ways.items()]
    colours = _colours(name for row in cells for *_, series in row for name in series)
    rows = list(zip_longest(*cells)) if len(cells) > 1 else cells  # a way may have more to show
    shared = "row" if len(cells) > 1 else False
    height = 2.9 if len(rows) == 1 else 2.1
    figure, grid = _pyplot().subplots(
        len(rows), len(rows[0]), figsize=(9.0, height * len(rows) + 0.4), squeeze=False, sharex=shared, sharey=shared
    )
    for axes, row in zip(grid, rows, strict=True):
        for ax, cell in zip(axes, row, strict=True):
            if cell is None:
                ax.set_visible(False)
                continue
            way, title, series = cell
            _plot(ax, series, log, level, colours)
            ax.spines[["top", "right"]].set_visible(False)
            ax.set_title(f"{way}: {title}" if shared else title, fontsize=10)
            ax.tick_params(labelsize=8, labelleft=True)
        if None not in row:
            axes[0].set_ylabel(y)
    for ax in grid[0]:
        ax.legend(fontsize=8)
    for column in grid.T:
        next(ax for ax in column[::-1] if ax.get_visible()).set_xlabel(x)
    figure.text(0.01, -0.01, caption, fontsize=7, color="0.35", va="top")
    return save(figure, path)


def scatter_figure(path: Path, series: Series, x: str, y: str, factor: float) -> Path:
    """Points of each series on logarithmic axes, with the lines y = x and y = ``factor`` x."""
    figure, (ax,) = _panels(1, 9.0)
    colours = _pyplot().get_cmap("tab20")
    for k, (name, (xs, ys)) in enumerate(series.items()):
        ax.plot(xs, ys, ".", color=colours(k % 20), markersize=1.5, alpha=0.5, label=name, rasterized=True)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ends = ax.get_xlim()
    ax.plot(ends, ends, "k-", linewidth=0.8)
    ax.plot(ends, [factor * end for end in ends], "k--", linewidth=0.8)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.grid(alpha=0.3)
    ax.legend(fontsize=7, markerscale=6, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    return save(figure, path)
