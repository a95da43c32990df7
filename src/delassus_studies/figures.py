"""Figures to PNG files; needs the extra ``[plot]``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from delassus.errors import ModelError, missing_dependency

Series = Mapping[str, tuple[Sequence[float], Sequence[float]]]


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise missing_dependency("matplotlib", "plot", "figures") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _save(figure: Any, path: Path) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130, bbox_inches="tight")
    except OSError as error:
        raise ModelError(
            f"figure {str(path)!r}", "a file that can be written", str(error), "Check the folder."
        ) from error
    _pyplot().close(figure)
    return path


def bar_figure(path: Path, totals: Mapping[str, Mapping[str, float]], label: str) -> Path:
    """One group of bars for each robot, one bar for each method."""
    plt = _pyplot()
    figure, axes = plt.subplots(1, len(totals), figsize=(3.2 * len(totals), 3.2), squeeze=False)
    for ax, (name, values) in zip(axes[0], totals.items(), strict=True):
        bars = ax.bar(range(len(values)), list(values.values()), color=[f"C{k}" for k in range(len(values))])
        ax.bar_label(bars, labels=[f"{v:,.0f}" for v in values.values()], fontsize=7)
        ax.set_xticks(range(len(values)), list(values), rotation=35, ha="right", fontsize=8)
        ax.set_title(name, fontsize=10)
        ax.set_ylabel(label)
        ax.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    return _save(figure, path)


LINES = ("-", "--", "-.", ":")
"""One style after the other: equal lines stay visible."""


MANY_DECADES = 1e5
"""From this ratio on, logarithmic axes have ticks at powers of ten only."""


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


def line_figures(
    path: Path,
    panels: Mapping[str, Series],
    x_label: str | Sequence[str],
    y_label: str,
    log: bool = False,
    level: float | None = None,
) -> Path:
    """One panel for each title, one line for each series; several labels are of one panel each, which has a legend."""
    plt = _pyplot()
    own = not isinstance(x_label, str)
    labels = x_label if own else [x_label] * len(panels)
    figure, axes = plt.subplots(1, len(panels), figsize=(3.6 * len(panels), 3.3), squeeze=False)
    for ax, (title, series), label in zip(axes[0], panels.items(), labels, strict=True):
        for k, (name, (x, y)) in enumerate(series.items()):
            ax.plot(x, y, LINES[k % len(LINES)], marker="o", markersize=3, label=name)
        if log:
            _logarithmic(ax)
        if level is not None:
            ax.axhline(level, color="0.6", linewidth=0.8)
        ax.set_title(title, fontsize=10)
        ax.set_xlabel(label)
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
        if own:
            ax.legend(fontsize=7)
    axes[0][0].set_ylabel(y_label)
    if not own:
        axes[0][-1].legend(fontsize=8)
    figure.tight_layout()
    return _save(figure, path)
