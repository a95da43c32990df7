"""Base of the immutable public classes: read-only arrays, and public names only in `dir` and `help`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


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
            object.__setattr__(self, name, read_only(getattr(self, name)))


def read_only(value: Any) -> NDArray[np.float64]:
    """Read-only array of float64: a copy, but of one that is so already."""
    if type(value) is np.ndarray and not value.flags.writeable and value.dtype == float:
        return value
    array = np.array(value, dtype=float)
    array.setflags(write=False)
    return array
