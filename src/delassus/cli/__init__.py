"""Command line: ``delassus demo``, ``info``, ``compute``, ``simulate``, ``audit``, ``bench``, ``reproduce``."""

from __future__ import annotations

import sys
import warnings
from typing import Any


def main() -> None:
    """Run the command line; an error of the library or of the file system ends it with its message and status 2."""
    from rich.text import Text

    from delassus.cli.app import app
    from delassus.cli.tables import Console
    from delassus.errors import DelassusError

    console = Console(stderr=True, highlight=False)

    shown: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in shown:  # files are read once for links, once for shapes
            console.print(Text("warning ", "yellow"), str(message))
            shown.add(str(message))

    warnings.showwarning = show
    try:
        app()
    except (DelassusError, OSError) as error:
        console.print(Text("error ", "bold red"), str(error))
        sys.exit(2)
