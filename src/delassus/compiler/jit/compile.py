"""Functions that are loops, compiled at their first call.

Functions marked with `compiled` may call one another; they take and return numbers, arrays and tuples of them, and are
written in a small part of Python: assignments, ``if``, ``for`` over ranges, tuples and arrays, ``while``, arithmetic,
functions of `math`, ``np.empty`` and its like. A function is made for the types of the arguments that it is called
with, and all that it calls with it. Integers have 64 bits; an index is not compared with the length of its axis, and
must not be below zero. With ``DELASSUS_CHECK_LOOPS=1`` it is, and the line of an index outside is named.

Machine code is kept in the library's cache (`delassus.compiler.machine.cache`). Calls let other threads of Python run.

Numbers are rounded as the function says, but for products in sums, which are rounded with them: see `Text.products`.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import struct
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

from delassus.compiler.jit.module import Module
from delassus.compiler.jit.types import (
    BOOL,
    DTYPES,
    FLOAT,
    INT,
    ArrayOf,
    Number,
    TupleOf,
    Type,
    operands_of,
    type_of,
)
from delassus.compiler.machine import cache
from delassus.compiler.machine.background import Job, maker, mode, one_at_a_time
from delassus.compiler.machine.cpu import ObjectCode, host, optimised_code, quick_code, versions
from delassus.spatial.trace.graph import undisturbed

__all__ = ["Compiled", "address_of", "c_function", "compiled", "compiled_for", "inlined"]

F = TypeVar("F", bound=Callable[..., Any])

CHECKED = os.environ.get("DELASSUS_CHECK_LOOPS", "0") == "1"
"""Whether indices are compared with lengths."""

SECONDS_A_FUNCTION = 0.06
"""Time that LLVM takes for one of many functions, measured on a processor with nothing else to do."""

WORTH_WAITING = 1.0
"""Seconds of LLVM that calls wait for. What takes longer runs as `quick_code` makes it, until the rest is done."""

_entry_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_release_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Compiled:
    """A function that becomes machine code when it is first called."""

    def __init__(
        self, function: FunctionType, is_inlined: bool = False, what: str = "", is_quick: bool = False
    ) -> None:
        """``is_quick``: whether the code that `quick_code` makes is all that there ever is."""
        self.function, self.is_inlined, self.is_quick = function, is_inlined, is_quick
        self.what = what or f"{function.__module__.removeprefix('delassus.')}.{function.__qualname__}"
        self._made: dict[tuple[Type, ...], _FunctionCode] = {}
        functools.update_wrapper(self, function)

    def __reduce__(self) -> str:
        """By its name in its module."""
        return self.function.__qualname__

    def __call__(self, *arguments: Any) -> Any:
        """Call the machine code, after compiling it if this is the first time."""
        return self.bound(*arguments)()

    def bound(self, *arguments: Any) -> Bound:
        """The call with these arguments, to be made any number of times."""
        n, defaults = self.function.__code__.co_argcount, self.function.__defaults__ or ()
        arguments += defaults[len(defaults) - max(n - len(arguments), 0) :] if len(arguments) < n else ()
        if len(arguments) != n:
            raise TypeError(f"{self.function.__qualname__} takes {n} arguments, not {len(arguments)}")
        try:
            types = tuple(map(type_of, arguments))
        except TypeError as error:
            raise TypeError(f"{self.function.__qualname__}: {error}") from None
        return Bound(self.machine(types), arguments)

    def machine(self, types: tuple[Type, ...]) -> _FunctionCode:
        """Machine code for arguments of these types, made when it is first asked for."""
        machine = self._made.get(types)
        if machine is None or (machine.is_quick and mode(wait=False) == "wait"):
            with one_at_a_time():
                machine = self._made.get(types) or _FunctionCode(self, types)
                self._made[types] = machine
                machine.look_again()
        return machine

    def called(self) -> dict[str, Compiled]:
        """Compiled functions that this one calls, by the names it has for them."""
        scope = self.function.__globals__
        return {name: f for name in self.function.__code__.co_names if isinstance(f := scope.get(name), Compiled)}

    def with_called(self, among: dict[Compiled, None] | None = None) -> dict[Compiled, None]:
        """All functions that this one leads to, itself included."""
        found = {} if among is None else among
        if self not in found:
            found[self] = None
            for function in self.called().values():
                function.with_called(found)
        return found


def compiled(function: F) -> F:
    """Mark a function as one to compile."""
    return cast(F, Compiled(cast(FunctionType, function)))


def compiled_for(what: str, is_quick: bool = False) -> Callable[[F], F]:
    """Mark a function as one to compile; messages say that it is made for what users ask for."""

    def mark(function: F) -> F:
        return cast(F, Compiled(cast(FunctionType, function), what=what, is_quick=is_quick))

    return mark


def inlined(function: F) -> F:
    """Mark a function as one that becomes a part of those that call it: for what is small and called often."""
    return cast(F, Compiled(cast(FunctionType, function), is_inlined=True))


def address_of(function: Callable[..., Any]) -> int:
    """Address of the machine code of a compiled function of integers, as C calls it; pointers are integers."""
    loop = cast(Compiled, function)
    return loop.machine((INT,) * loop.function.__code__.co_argcount).code.address("direct")


@functools.cache
def c_function(function: Callable[..., Any]) -> Any:
    """A compiled function of integers as `ctypes` calls it, in a tenth of the time of a call with arrays."""
    types = [ctypes.c_int64] * (cast(Compiled, function).function.__code__.co_argcount + 1)
    return ctypes.CFUNCTYPE(*types)(address_of(function))


class _FunctionCode:
    """Machine code of a function for arguments of certain types.

    Attributes
    ----------
    place : c_int64
        Where the address of the machine code is that calls now run.
    is_quick : bool
        Whether that is what `quick_code` makes.
    """

    def __init__(self, loop: Compiled, types: tuple[Type, ...]) -> None:
        name = f"{loop.function.__module__}.{loop.function.__qualname__}"
        this = host()
        parts: dict[str, str | int] = {
            "function": name, "text": _text_of(loop), "types": repr(types), "checked": CHECKED, "versions": versions(),
            "processor": f"{this.triple} {this.cpu} {this.features}",
        }  # fmt: skip
        key, n = cache.cache_key(**parts), len(loop.with_called()) - 1
        what, seconds = loop.what, SECONDS_A_FUNCTION * n
        how = mode(wait=False) if seconds > WORTH_WAITING else "wait"
        self.types, self.name, self.place = types, loop.function.__qualname__, ctypes.c_int64()
        self._codes, self.is_quick = list[ObjectCode](), False
        about = f", about {seconds:.0f} s" if seconds >= 1.0 else ""
        self._make = partial(made, loop, types, key, what + about)
        found = None if how == "wait" or loop.is_quick else cache.load(key)
        if (how == "wait" and not loop.is_quick) or found is not None:
            self._take(found or self._make())
            return
        self._take(made(loop, types, cache.cache_key(**parts, quick=True), what, is_quick=True))
        self.is_quick = not loop.is_quick
        if how == "background" and self.is_quick:
            maker().ask(Job(self._make, self._take))

    def look_again(self) -> None:
        """Wait for all machine code where the environment now says so."""
        if self.is_quick and mode(wait=False) == "wait":
            self._take(self._make())

    def _take(self, content: bytes) -> None:
        """Run this from now on; calls under way run what they began with, which is kept."""
        facts, _, payload = content.partition(b"\n")
        self._codes.append(ObjectCode(payload))
        self.result = _type_from(json.loads(facts))
        self.n_results = len(operands_of(self.result))
        self.out = ctypes.c_int64 * (self.n_results + 1)
        items = self.result.items if isinstance(self.result, TupleOf) else ()
        self.whole_numbers = bool(items) and all(item is INT for item in items)
        self.release = _release_type(self.code.address("release_all"))
        self.outside = ctypes.c_int64.from_address(self.code.address_of_data("outside"))
        self.place.value = self.code.address("entry")
        self.entry, self.is_quick = _entry_type(self.place.value), False

    @property
    def code(self) -> ObjectCode:
        """The latest."""
        return self._codes[-1]


def made(loop: Compiled, types: tuple[Type, ...], key: str, what: str, is_quick: bool = False) -> bytes:
    """Entry of a loop in the cache, made if there is none: the type of the result, and machine code."""

    def make() -> bytes:
        assembly, result = undisturbed(Module(CHECKED).assembly)(loop, list(types))
        code = (quick_code if is_quick else optimised_code)(assembly)
        return json.dumps(_described(result)).encode() + b"\n" + code

    return cache.fetch(key, make, what)


class Bound:
    """A call of machine code with arguments whose arrays are kept; numbers may be changed by their places."""

    def __init__(self, machine: _FunctionCode, arguments: tuple[Any, ...]) -> None:
        self._machine, self._arguments = machine, arguments
        self._at: list[int] = []
        formats: list[str] = []
        words: list[Any] = []
        for argument, kind in zip(arguments, machine.types, strict=True):
            self._at.append(len(words))
            _flatten(argument, kind, formats, words)
        self._formats = formats
        self._in = ctypes.create_string_buffer(struct.pack("".join(formats), *words), max(8 * len(words), 8))
        self._from = ctypes.addressof(self._in)

    def set(self, k: int, number: float) -> None:
        """Change the number that is argument ``k``."""
        at = self._at[k]
        struct.pack_into(self._formats[at], self._in, 8 * at, number)

    @property
    def addresses(self) -> tuple[int, int]:
        """Where the address of the machine code is, and of its arguments, 8 bytes for each number and axis.

        The machine code is called with these and with those of results.
        """
        return ctypes.addressof(self._machine.place), self._from

    def __call__(self) -> Any:
        """Run; other threads may run the same call, if its arrays allow it."""
        machine = self._machine
        out = machine.out()
        machine.entry(self._from, ctypes.addressof(out))
        if CHECKED and machine.outside.value:
            line, machine.outside.value = machine.outside.value, 0
            raise IndexError(f"{machine.name}: outside of an array at line {line} of it or of a function that it calls")
        if not machine.n_results:
            return None
        if machine.whole_numbers and not out[0]:
            return tuple(out[1:])
        try:
            return _unpacked(machine.result, out, [1])
        finally:
            if out[0]:
                machine.release(out[0])


def _flatten(x: Any, kind: Type, formats: list[str], words: list[Any]) -> None:
    """Append operands of a value, 8 bytes each, and how they are packed."""
    if isinstance(kind, TupleOf):
        for item, of_item in zip(x, kind.items, strict=True):
            _flatten(item, of_item, formats, words)
        return
    operands = [x.__array_interface__["data"][0], *x.shape] if isinstance(kind, ArrayOf) else [x]
    words += operands
    formats += ["d" if kind is FLOAT else "q"] * len(operands)


def _described(kind: Type) -> Any:
    """A type as JSON has it."""
    if isinstance(kind, Number):
        return kind.name
    return [kind.item.name, kind.ndim] if isinstance(kind, ArrayOf) else {"items": [_described(k) for k in kind.items]}


def _type_from(described: Any) -> Type:
    """The inverse of `_described`."""
    if isinstance(described, str):
        return next(number for number in DTYPES if number.name == described)
    if isinstance(described, list):
        return ArrayOf(cast(Number, _type_from(described[0])), described[1])
    return TupleOf(tuple(map(_type_from, described["items"])))


def _unpacked(kind: Type, out: Any, at: list[int]) -> Any:
    """A value from its operands; arrays are copied."""
    if isinstance(kind, TupleOf):
        return tuple(_unpacked(item, out, at) for item in kind.items)
    word = out[at[0]]
    at[0] += 1
    if isinstance(kind, Number):
        if kind is FLOAT:
            return struct.unpack("d", struct.pack("q", word))[0]
        return bool(word) if kind is BOOL else word
    shape = tuple(out[at[0] : at[0] + kind.ndim])
    at[0] += kind.ndim
    array = np.empty(shape, DTYPES[kind.item])
    if array.size:
        ctypes.memmove(array.ctypes.data, word, array.nbytes)
    return array


def _text_of(loop: Compiled) -> str:
    """Key of a loop: source of all functions that it calls, and the version of the library with its constants."""
    codes = (f.function.__code__ for f in loop.with_called())
    return repr([(code.co_qualname, code.co_code, code.co_consts, code.co_names) for code in codes]) + cache.sources()
