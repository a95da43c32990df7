"""What the command line prints: strings as they are, tables, and what is measured, while it is measured."""

from __future__ import annotations

import csv as csv_module
import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console as RichConsole
from rich.table import Table
from rich.text import Text

from delassus.compiler.machine.cpu import host
from delassus.errors import ConfigurationError, ModelError, require, visible
from delassus.model.check import written
from delassus.version import __version__

Record = dict[str, Any]
"""Figures as they go to a JSON file."""

PIPED = 1000
"""Width of what no terminal shows and ``COLUMNS`` says nothing of: no line of a table is broken there."""
WIDE, NARROW = 2, 1
"""Space between two columns, and where a table would not fit."""
NUMBER = 6
"""Width that columns of numbers have at least where rows are not known yet."""


class Console(RichConsole):
    """Prints strings as they are, wherever they stand: no markup in them, and no character that moves the cursor."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if not (self.is_terminal or "COLUMNS" in os.environ or "width" in options):
            self.width = PIPED

    def render_str(self, text: str, **options: Any) -> Text:
        """Text of a string."""
        return super().render_str(visible(text), **{**options, "markup": False, "emoji": False})


class Growing(Table):
    """Table that more rows are added to while more is measured."""


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    text: Sequence[str] = (),
    last_bold: bool = False,
    grows: Sequence[int] = (),
) -> Table:
    """Table whose first column and those named in ``text`` hold words, the others numbers.

    A column is its head, and after a colon format and unit of its numbers, as in ``"time:.1f µs"``; None is a dash.
    ``grows``: more rows will follow; width that the first columns will need.
    """
    made = (Growing if grows else Table)(title=title or None)
    heads, _, formats = zip(*(column.partition(":") for column in columns), strict=True)
    for number, head in enumerate(heads):
        side: Literal["left", "right"] = "left" if not number or head in text else "right"
        least = grows[number] if number < len(grows) else NUMBER if grows else None
        made.add_column(head, justify=side, min_width=least)
    for row in rows:
        made.add_row(*(_cell(value, form) for value, form in zip(row, formats, strict=True)))
    if last_bold:
        made.rows[-1].style = "bold"
    return made


def _cell(value: object, form: str) -> str:
    number, space, unit = form.partition(" ")
    return "–" if value is None else value if isinstance(value, str) else f"{format(value, number)}{space}{unit}"


def spread(times: Record) -> str:
    """Median and half the distance of the quartiles (µs)."""
    low, high = times["quartiles"]
    return f"{times['median']:.3f} ± {(high - low) / 2:.3f}"


def show(console: Console, made: Table, first: int = 0) -> None:
    """Print rows of a table from ``first`` on, and before row 0 the headers.

    A table wider than the console is printed with less space, or in several parts, each with the first column: nothing
    is cut, and only text that is wider than a part goes on in the next line.
    """
    cells = [[column.header, *column.cells] for column in made.columns]
    widths = [max(column.min_width or 0, *(cell_len(line) for x in own for line in plain(x).splitlines()))
              for column, own in zip(made.columns, cells, strict=True)]  # fmt: skip
    gap = WIDE if sum(widths) + WIDE * (len(widths) - 1) <= console.width else NARROW
    if made.title and not first:
        console.print()
        console.print(Text(plain(made.title), "bold"))
    for part in _parts(widths, console.width, gap):
        shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, show_header=not first,
                      padding=(0, gap - 1, 0, 0))  # fmt: skip
        for k in part:
            least = widths[k] if first or isinstance(made, Growing) else None
            shown.add_column(made.columns[k].header, justify=made.columns[k].justify, overflow="fold", min_width=least)
        for number, row in enumerate(made.rows[first:], 1 + first):
            shown.add_row(*(cells[k][number] for k in part), style=row.style)
        console.print(shown, highlight=False)


def _parts(widths: Sequence[int], width: int, gap: int) -> Iterator[list[int]]:
    """Columns of the parts of a table, each of which has the first."""
    part, used = [0], widths[0]
    for k in range(1, len(widths)):
        if used + gap + widths[k] > width and len(part) > 1:
            yield part
            part, used = [0], widths[0]
        part.append(k)
        used += gap + widths[k]
    yield part


def publish(
    console: Console,
    measured: Iterable[Record],
    tables: Callable[[Record], Iterable[Table | str]],
    file: Path | None = None,
    plot: Path | None = None,
    draw: Callable[[Record, Path], Path] | None = None,
    csv: Path | None = None,
    takes: str = "",
) -> Record:
    """Print the machine, and the tables of a record while it grows: ``measured`` gives it after each measurement.

    Writes the whole to a JSON or CSV file, and draws its figure into a folder; returns it. ``takes``: how long it will
    take.
    """
    printed, rows = 0, 0
    record: Record = {}
    for number, record in enumerate(measured):
        if not number:
            console.print(_environment(record), highlight=False)
            if takes:
                console.print(f"Takes {takes}.")
        printed, rows = _print_new(console, list(tables(record)), printed, rows)
    parts = list(tables(record))
    _print_new(console, parts, printed, rows, whole=True)
    if plot is not None and draw is not None:
        console.print(f"figure: {draw(record, plot)}", highlight=False)
    if file is not None:
        write_json(file, record)
        console.print(f"raw figures: {file}", highlight=False)
    if csv is not None:
        write_csv(csv, [part for part in parts if isinstance(part, Table)])
        console.print(f"tables: {csv}", highlight=False)
    return record


def environment() -> Record:
    """Day, processor and versions, for tables and records."""
    this = host()
    versions = {"delassus": __version__}
    for package in ("numpy", "casadi", "llvmlite", "pin", "mujoco", "jax", "frax"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "date": str(date.today()),
        "processor": f"{platform.machine()}, {this.cpu}, {this.vector_bits} bits",
        "versions": versions,
    }


def _environment(record: Record) -> str:
    """Processor and versions of a record."""
    here = ", ".join(f"{name} {one}" for name, one in record["versions"].items() if one != "not installed")
    return f"{record['processor']}; {here}"


def _print_new(
    console: Console, parts: Sequence[Table | str], printed: int, rows: int, whole: bool = False
) -> tuple[int, int]:
    """Print what is not printed yet, up to the first table that still grows; how many parts and rows of that are."""
    for part in parts[printed:]:
        if isinstance(part, str):
            console.print(part, style="dim", highlight=False)
        elif len(part.rows) > rows:
            show(console, part, rows)
        if isinstance(part, Growing) and not whole:
            return printed, len(part.rows)
        printed, rows = printed + 1, 0
    return printed, rows


def write_json(path: Path, told: Any) -> None:
    """Write as JSON what has numbers, text, lists and dictionaries; the file is whole, or stays as it was."""
    with written(path, "file") as part:
        part.write_text(json.dumps(told, indent=1), encoding="utf-8")


def write_csv(path: Path, tables: Sequence[Table]) -> None:
    """Write tables as comma-separated values: of each its title, columns and rows; empty lines between them.

    The file is whole, or stays as it was.
    """
    with written(path, "file") as part, part.open("w", encoding="utf-8", newline="") as file:
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


def check_folder(folder: Path | None) -> Path | None:
    """Make the folder that figures go to; raises where they cannot be drawn, before anything is measured."""
    if folder is None:
        return None
    require("matplotlib", "plot", "figures")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(f"folder {str(folder)!r}", "a folder for figures", str(error), "Check the path.") from error
    return folder


Json = Annotated[
    Path | None, typer.Option("--json", callback=check_target, help="Write the figures to this JSON file.")
]
Csv = Annotated[Path | None, typer.Option("--csv", callback=check_target, help="Write the tables to this CSV file.")]
