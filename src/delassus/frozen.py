"""Base of the immutable public classes: read-only arrays, and public names only in `dir` and `help`."""

from __future__ import annotations

from typing import Any

import numpy as np


class _PublicNames(type):
    """Leaves out of `dir(cls)`, and so of `help(cls)`, what `dataclass` adds for itself."""

    def __dir__(cls) -> list[str]:
        return [name for name in super().__dir__() if not name.startswith("_")]


class Frozen(metaclass=_PublicNames):
    """Base of a frozen dataclass."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        return dir(type(self))

    def _set(self, **attributes: Any) -> None:
        """Set attributes while the object is made; arrays become read-only."""
        for name, value in attributes.items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, name, value)
