"""What the command line prints: text that comes from files and users, and `Text`, which is ours and may have styles."""

from __future__ import annotations

from typing import Any

from rich.console import Console as RichConsole
from rich.text import Text

from delassus.errors import visible


class Console(RichConsole):
    """Prints strings as they are, wherever they stand: no markup in them, and no character that moves the cursor."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Text of a string."""
        return super().render_str(visible(text), **{**options, "markup": False, "emoji": False})
