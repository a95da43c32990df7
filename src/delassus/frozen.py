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
        return [name for name in super().__dir__() if not name.startswith("_")]

    def _set_attributes(self, **attributes: Any) -> None:
        """Set attributes while the object is made."""
        for name, value in attributes.items():
            object.__setattr__(self, name, value)

    def _make_read_only(self, *names: str) -> None:
        """Make attributes read-only arrays of float64: copies, but of arrays that are so already."""
        for name in names:
            value = getattr(self, name)
            if type(value) is not np.ndarray or value.flags.writeable or value.dtype != float:
                value = np.array(value, dtype=float)
                value.setflags(write=False)
                object.__setattr__(self, name, value)
