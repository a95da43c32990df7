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


def renamed(name: str) -> Any:
    """What a deprecated name stands for, with a warning where a module's `__getattr__` was asked for it."""
    if name not in __deprecated__:
        home, _, missing = f"delassus.{name}".rpartition(".")
        raise AttributeError(f"module {home!r} has no attribute {missing!r}")
    new, since = __deprecated__[name]
    warnings.warn(
        f"delassus.{name} is deprecated since {since} and goes with {removal(since)}: use delassus.{new}",
        DeprecationWarning,
        stacklevel=3,
    )
    value: Any = sys.modules["delassus"]
    for part in new.split("."):
        value = getattr(value, part)
    return value
