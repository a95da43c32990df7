"""Command line: ``delassus demo``, ``info``, ``compute``, ``bench``, ``reproduce``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; an error of the library ends it with its message and status 2."""
    from delassus.cli.app import app
    from delassus.errors import DelassusError

    try:
        app()
    except DelassusError as error:
        from rich.console import Console

        Console(stderr=True).print(f"[bold red]error[/]  {type(error).__name__}: ", end="")
        print(error, file=sys.stderr)
        sys.exit(2)
