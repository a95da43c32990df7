"""x."""

SHORTCUTS = {}
