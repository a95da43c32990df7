"""One table, and one way to print and keep what was measured."""

from __future__ import annotations

import csv as csv_module
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from rich import box
from rich.table import Table
from rich.text import Text

from delassus.errors import ConfigurationError
from delassus_studies.terminal import Console
from delassus_studies.timing import Record


def table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], text: Sequence[str] = (), last_bold: bool = False
) -> Table:
    """Table whose first column and those named in ``text`` hold words, the others numbers."""
    style: dict[str, Any] = {"box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0), "pad_edge": False, "show_edge": False}
    made = Table(title=title or None, title_justify="left", **style)
    for number, column in enumerate(columns):
        side: Literal["left", "right"] = "left" if not number or column in text else "right"
        made.add_column(column, justify=side, overflow="fold")  # names go on in the next line, and lose nothing
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
    csv: Path | None = None,
) -> None:
    """Print the machine and the tables of a record, write it to a JSON or CSV file, draw its figure into a folder."""
    console.print(f"{record['processor']}; {record['versions']}", highlight=False)
    parts = list(tables(record))
    for part in parts:
        console.print(part, style="dim" if isinstance(part, str) else None, highlight=False)
    if plot is not None and draw is not None:
        console.print(f"figure: {draw(record, plot)}", highlight=False)
    if file is not None:
        file.write_text(json.dumps(record, indent=1))
        console.print(f"raw figures: {file}", highlight=False)
    if csv is not None:
        write_csv(csv, [part for part in parts if isinstance(part, Table)])
        console.print(f"tables: {csv}", highlight=False)


def write_csv(path: Path, tables: Sequence[Table]) -> None:
    """Write tables as comma-separated values: of each its title, columns and rows; empty lines between them."""
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv_module.writer(file)
        for number, one in enumerate(tables):
            out.writerows([[]] if number else [])
            out.writerows([[plain(one.title)]] if one.title else [])
            out.writerow(plain(column.header) for column in one.columns)
            cells = (column.cells for column in one.columns)
            out.writerows([plain(cell) for cell in row] for row in zip(*cells, strict=True))


def plain(cell: object) -> str:
    """Text of a cell without styles."""
    return cell.plain if isinstance(cell, Text) else str(cell)


def check_target(path: Path | None) -> Path | None:
    """A file that a command will write at its end; raises where it cannot be made, before anything is measured."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        came = "a folder" if path.is_dir() else "one in a folder that there is not"
        raise ConfigurationError(f"file {str(path)!r}", "a file that can be written", came, "Check the path.")
    return path
