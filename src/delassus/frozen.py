"""Base of the immutable public classes: read-only arrays, public names only in `dir` and `help`, cached properties.

And tuples whose fields have names.
"""

from __future__ import annotations

import functools
from collections import namedtuple
from dataclasses import fields
from enum import Enum
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


class cached_property(functools.cached_property[T]):
    """`functools.cached_property` without its lock in Python 3.11, which a forked child may inherit held."""

    @overload
    def __get__(self, instance: None, owner: Any = None) -> cached_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: Any = None) -> T: ...
    def __get__(self, instance: object | None, owner: Any = None) -> Any:
        """Compute it; attributes of the instance, as it is then, come before this is asked again."""
        if instance is None:
            return self
        value = instance.__dict__[str(self.attrname)] = self.func(instance)
        return value


class _PublicNames(type):
    """Leaves out of `dir(cls)`, and so of `help(cls)`, what `dataclass` adds for itself."""

    def __dir__(cls) -> list[str]:
        return [name for name in super().__dir__() if not name.startswith("_")]


class Frozen(metaclass=_PublicNames):
    """Base of a frozen dataclass, whose arrays are read-only."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Make arrays read-only, also those of tuples; they are not copied."""
        for field in fields(self):  # type: ignore[arg-type]
            _lock(getattr(self, field.name))

    def __reduce__(self) -> tuple[Any, ...]:
        """The same fields; arrays of copies and of what is unpickled are read-only, too."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return _restored, (type(self), named)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.startswith("_")]

    def _set_attributes(self, **attributes: Any) -> None:
        """Set attributes while the object is made; arrays become read-only and are not copied."""
        for name, value in attributes.items():
            _lock(value)
            object.__setattr__(self, name, value)

    def _make_read_only(self, *names: str) -> None:
        """Make attributes read-only arrays of float64: copies, but of arrays that are so already."""
        for name in names:
            object.__setattr__(self, name, read_only(getattr(self, name)))


class Explained(Enum):
    """Enumeration whose values are texts that say what its members mean for the user."""

    @property
    def text(self) -> str:
        """What this means for the user."""
        return str(self.value)


@functools.cache
def named_tuple(*names: str) -> Any:
    """Class of tuples whose fields have these names, one class for the same names; they pickle, and JAX takes them."""
    make: Any = namedtuple  # types are checked of classes that are named where they are made
    made = make("Results", names)
    made.__reduce__ = lambda self: (_named, (self._fields, *self))
    return made


def _named(names: tuple[str, ...], *values: Any) -> Any:
    return named_tuple(*names)(*values)


def _restored(kind: type[Frozen], attributes: dict[str, Any]) -> Frozen:
    made = object.__new__(kind)
    made._set_attributes(**attributes)
    return made


def _lock(value: Any) -> None:
    for array in value if type(value) is tuple else (value,):
        if isinstance(array, np.ndarray):
            array.setflags(write=False)


def _is_locked(array: Any) -> bool:
    """Whether nobody can write to the memory of an array."""
    while isinstance(array, np.ndarray) and not array.flags.writeable:
        array = array.base
    return array is None


def read_only(value: Any) -> NDArray[np.float64]:
    """Read-only array of float64: a copy, but of one that is so already, and that is no view of one that is not."""
    if type(value) is np.ndarray and value.dtype == float and _is_locked(value):
        return value
    array = np.array(value, dtype=float)
    array.setflags(write=False)
    return array
