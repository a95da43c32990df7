"""Base of the immutable public classes: read-only arrays, public names only in `dir` and `help`, cached properties.

And tuples whose fields have names.
"""

from __future__ import annotations

import functools
import hashlib
import io
import pickle
from collections import namedtuple
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from types import FunctionType
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])

BODIES: dict[str, Callable[..., Any]] = {}
"""Functions that methods of classes in rooms below call; see `body_of`."""


def body_of(method: str) -> Callable[[Function], Function]:
    """Mark a function as the body of a public method, whose class stands in a room below and cannot import it."""

    def marked(function: Function) -> Function:
        BODIES[method] = function
        return function

    return marked


Parts = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and the arguments with which it makes an object again."""

OURS = {"delassus", "numpy", "builtins"}
"""Packages whose classes and functions every process finds by their names."""


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
        _lock(*map(self.__getattribute__, self.__dataclass_fields__))  # type: ignore[attr-defined]

    def __reduce__(self) -> tuple[Any, ...]:
        """The same fields; arrays of copies and of what is unpickled are read-only, too."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return _restored, (type(self), named)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.startswith("_")]

    def _set_attributes(self, **attributes: Any) -> None:
        """Set attributes while the object is made; arrays become read-only and are not copied."""
        _lock(*attributes.values())
        for name, value in attributes.items():
            object.__setattr__(self, name, value)

    def _make_read_only(self, *names: str) -> None:
        """Make attributes read-only arrays of float64: copies, but of arrays that are so already."""
        for name in names:
            object.__setattr__(self, name, read_only(getattr(self, name)))


class ByContent(Frozen):
    """Base of those that are equal, and hash alike, where what they hold is: apart, copied, and in another process.

    Pickles are of what they hold alone, too, whatever objects it is that hold it: `joblib.hash` of equals agrees.
    """

    __slots__ = ("_digest",)

    def _parts(self) -> Parts:
        """How to make it again."""
        return _of_fields, (type(self), *(getattr(self, field.name) for field in fields(self)))  # type: ignore[arg-type]

    def __reduce__(self) -> tuple[Any, ...]:
        """As bytes; in its parts where others pickle some of them in ways of their own."""
        made, is_ours = packed(self._parts())
        return (unpacked, (made,)) if is_ours else self._parts()

    def __eq__(self, other: object) -> bool:
        if self is other or type(self) is not type(other):
            return self is other
        return digest_of(self) == digest_of(other)

    def __hash__(self) -> int:
        return hash(digest_of(self))


class _Pickler(pickle.Pickler):
    """Pickles what objects hold, and not which of them are the same one; notes whether other packages define some.

    With ``hashes``, of those that are equal by their content that is their digests.
    """

    def __init__(self, file: io.BytesIO, hashes: bool) -> None:
        super().__init__(file, protocol=4)
        self.fast, self.is_ours, self._hashes = True, True, hashes

    def reducer_override(self, obj: Any) -> Any:
        kind = obj if isinstance(obj, type | FunctionType) else type(obj)
        if kind is np.ndarray and obj.dtype.kind in "fiub":
            return _array, (obj.dtype.str, obj.shape, obj.tobytes())
        self.is_ours = self.is_ours and kind.__module__.partition(".")[0] in OURS
        if not isinstance(obj, ByContent):
            return NotImplemented
        if self._hashes:
            return digest_of, (digest_of(obj),)
        is_plain = vars(ByContent)["__reduce__"] is kind.__reduce__
        return obj._parts() if is_plain else NotImplemented


def packed(parts: Parts, hashes: bool = False) -> tuple[bytes, bool]:
    """Bytes of a function and arguments, equal where these are; and whether all that is in them is known everywhere."""
    file = io.BytesIO()
    pickler = _Pickler(file, hashes)
    pickler.dump(parts)
    return file.getvalue(), pickler.is_ours


def unpacked(made: bytes) -> Any:
    """The object of `packed` parts."""
    function, arguments = pickle.loads(made)
    return function(*arguments)


class _SafeUnpickler(pickle.Unpickler):
    """Makes records of this library, and calls no functions but those that make them."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == "delassus" and "." not in name:
            found = super().find_class(module, name)
            is_declared = isinstance(found, FunctionType) and module.startswith("delassus.quantities.")
            is_kind = module == "delassus.spatial.joint_kinds" and not isinstance(found, type | FunctionType)
            if (isinstance(found, type) and is_dataclass(found)) or is_declared or is_kind or name in MAKERS:
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no part of what was packed")


MAKERS = ("_restored", "_of_fields", "_array", "_quantity", "restored", "restored_for_gpus")
"""Functions that make objects again."""


def safe_parts(made: bytes) -> Parts:
    """`packed` parts, from a file that somebody else may have made."""
    function, arguments = _SafeUnpickler(io.BytesIO(made)).load()
    return function, arguments


def digest_of(x: Any) -> bytes:
    """Hash of what an object holds, by its ``_parts``, computed once; of what does not pickle, of its identity."""
    try:
        found: bytes = x._digest
    except AttributeError:
        try:
            content, _ = packed(x._parts(), hashes=True)
        except (pickle.PicklingError, AttributeError, TypeError):  # of a class within a function, say
            content = repr((type(x), id(x))).encode()
        found = hashlib.sha256(content).digest()
        object.__setattr__(x, "_digest", found)
    return found


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


def _of_fields(kind: type[Frozen], *values: Any) -> Frozen:
    return _restored(kind, dict(zip((field.name for field in fields(kind)), values, strict=True)))  # type: ignore[arg-type]


def _array(dtype: str, shape: tuple[int, ...], numbers: bytes) -> NDArray[Any]:
    return np.frombuffer(numbers, dtype).reshape(shape).copy()


def _lock(*values: Any) -> None:
    for value in values:
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
    if type(value) is np.ndarray and value.dtype == float and value.flags.c_contiguous and _is_locked(value):
        return value
    array = np.array(value, dtype=float, order="C")
    array.setflags(write=False)
    return array
