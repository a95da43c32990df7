"""The version, and public names that older versions had."""

from __future__ import annotations

import sys
import warnings
from typing import Any

__version__ = "1.0.0"

__deprecated__: dict[str, tuple[str, str]] = {}
"""Old public name (as in ``contact.lemke``): the new name, and the version that deprecates the old one."""


def removal(since: str) -> str:
    """Version that a name goes with which ``since`` deprecates: two minor releases have both names."""
    major, minor = since.split(".")[:2]
    return f"{major}.{int(minor) + 2}"


def deprecated(old: str, new: str, since: str, level: int = 3) -> None:
    """Warn so many calls further up, by default where our caller was called, of an old name."""
    text = f"{old} is deprecated since {since} and goes with {removal(since)}: use {new}"
    warnings.warn(text, DeprecationWarning, stacklevel=level)


def renamed(name: str) -> Any:
    """What a deprecated name stands for, with a warning where a module's `__getattr__` was asked for it."""
    if name not in __deprecated__:
        home, _, missing = f"delassus.{name}".rpartition(".")
        raise AttributeError(f"module {home!r} has no attribute {missing!r}")
    new, since = __deprecated__[name]
    deprecated(f"delassus.{name}", f"delassus.{new}", since, level=4)
    value: Any = sys.modules["delassus"]
    for part in new.split("."):
        value = getattr(value, part)
    return value
