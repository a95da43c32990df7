"""Contact solvers beside Siconos on random problems of low rank, and on random problems of several bodies.

Usage: python benchmarks/contact_solvers.py [--random 10000] [--json FILE.json]. Siconos (Debian: python3-siconos) runs
under the Python that the environment variable SICONOS_PYTHON names, or under the system's.
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from delassus_studies.bench_contact_solvers import measure, tables
from delassus_studies.tables import publish


def main(
    random: Annotated[int, typer.Option(help="Random problems of several bodies.")] = 10_000,
    json: Annotated[Path | None, typer.Option(help="Write the raw figures to this file.")] = None,
) -> None:
    publish(Console(), [measure(random)], tables, json)


typer.run(main)
