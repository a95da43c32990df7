"""What the command line prints: text that comes from files and users, and `Text`, which is ours and may have styles."""

from __future__ import annotations

import os
from typing import Any

from rich.console import Console as RichConsole
from rich.text import Text

from delassus.errors import visible

PIPED = 1000
"""Width of what no terminal shows and ``COLUMNS`` says nothing of: no line of a table is broken there."""


class Console(RichConsole):
    """Prints strings as they are, wherever they stand: no markup in them, and no character that moves the cursor."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if not (self.is_terminal or "COLUMNS" in os.environ or "width" in options):
            self.width = PIPED

    def render_str(self, text: str, **options: Any) -> Text:
        """Text of a string."""
        return super().render_str(visible(text), **{**options, "markup": False, "emoji": False})
