"""Compiled contact steps on random problems, each result judged anew in float64.

Usage: python benchmarks/contact_step_problems.py [--mechanisms 25] [--states 400] [--json FILE.json].
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from delassus_studies.contact_step_problems import measure, tables
from delassus_studies.tables import publish


def main(
    mechanisms: Annotated[int, typer.Option(help="Random mechanisms.")] = 25,
    states: Annotated[int, typer.Option(help="States of each.")] = 400,
    json: Annotated[Path | None, typer.Option(help="Write the raw figures to this file.")] = None,
) -> None:
    publish(Console(), [measure(mechanisms, states)], tables, json)


typer.run(main)
