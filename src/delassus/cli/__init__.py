"""Command line: ``delassus demo``, ``info``, ``compute``, ``simulate``, ``bench``, ``reproduce``."""

from __future__ import annotations

import sys
import warnings
from typing import Any


def main() -> None:
    """Run the command line; an error of the library ends it with its message and status 2."""
    from rich.console import Console
    from rich.markup import escape

    from delassus.cli.app import app
    from delassus.errors import DelassusError

    console = Console(stderr=True, highlight=False)

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        console.print(f"[yellow]warning[/]  {escape(str(message))}")

    warnings.showwarning = show
    try:
        app()
    except DelassusError as error:
        console.print(f"[bold red]error[/]  {escape(str(error))}")
        sys.exit(2)
