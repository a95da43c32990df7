"""One table, and one way to print and keep what was measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rich.table import Table

from delassus_studies.terminal import Console
from delassus_studies.timing import Record


def table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], text: Sequence[str] = (), last_bold: bool = False
) -> Table:
    """Table whose first column and those named in ``text`` hold words, the others numbers."""
    made = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        made.add_column(column, justify="left" if not number or column in text else "right", no_wrap=not number)
    for row in rows:
        made.add_row(*row)
    if last_bold:
        made.rows[-1].style = "bold"
    return made


def spread(times: Record) -> str:
    """Median and half the distance of the quartiles."""
    low, high = times["quartiles"]
    return f"{times['median']:.3f} ± {(high - low) / 2:.3f} µs"


def publish(
    console: Console,
    record: Record,
    tables: Callable[[Record], Iterable[Table | str]],
    file: Path | None = None,
    plot: Path | None = None,
    draw: Callable[[Record, Path], Path] | None = None,
) -> None:
    """Print the machine and the tables of a record, write it to a JSON file, draw its figure into a folder."""
    console.print(f"{record['processor']}; {record['versions']}", highlight=False)
    for part in tables(record):
        console.print(part, style="dim" if isinstance(part, str) else None, highlight=False)
    if plot is not None and draw is not None:
        console.print(f"figure: {draw(record, plot)}", highlight=False)
    if file is not None:
        file.write_text(json.dumps(record, indent=1))
        console.print(f"raw figures: {file}", highlight=False)
