"""Loop-shaped functions compiled by numba at their first call, so that importing them needs no numba.

Functions marked with `compiled` may call one another; they take and return numbers and arrays. Machine code is kept in
the library's cache directory, in a folder named after the text of all these files, the processor's name and numba's
version: numba itself looks at the file of the function called, and not at those of the functions that it calls.

Of floating-point rules, sums may be reordered and multiply-adds fused; NaN and infinities stay what they are. Functions
marked with `literal` keep every operation as written: those of extended precision live on what others round away.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

from delassus.errors import missing_dependency
from delassus.runtime import cache

F = TypeVar("F", bound=Callable[..., Any])

LIBERTIES = frozenset({"reassoc", "contract", "nsz"})
"""What may be done to floating-point operations, in LLVM's words."""

_one_at_a_time = threading.RLock()


class Compiled:
    """A function that becomes machine code when it is first called."""

    def __init__(self, function: FunctionType, liberties: frozenset[str]) -> None:
        self.function, self.liberties = function, liberties
        self._machine: Callable[..., Any] | None = None
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:
        """Call the machine code, after compiling it if this is the first time."""
        machine = self._machine
        return (self.machine() if machine is None else machine)(*args)

    def machine(self) -> Callable[..., Any]:
        """Numba's dispatcher; raises `MissingDependencyError` where there is no numba."""
        with _one_at_a_time:
            if self._machine is None:
                scope = dict(self.function.__globals__)
                for name in self.function.__code__.co_names:
                    called = scope.get(name)
                    if isinstance(called, Compiled):
                        scope[name] = called.machine()
                self._machine = _dispatcher(_in_scope(self.function, scope), self.liberties)
            return self._machine


def compiled(function: F) -> F:
    """Mark a function as one for numba."""
    return cast(F, Compiled(cast(FunctionType, function), LIBERTIES))


def literal(function: F) -> F:
    """Mark a function as one for numba whose floating-point operations are all done as they stand."""
    return cast(F, Compiled(cast(FunctionType, function), frozenset()))


def _in_scope(function: FunctionType, scope: dict[str, Any]) -> FunctionType:
    """The same function, its global names looked up elsewhere."""
    twin = FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
    twin.__qualname__, twin.__module__ = function.__qualname__, function.__module__
    return twin


def _dispatcher(function: FunctionType, liberties: frozenset[str]) -> Callable[..., Any]:
    try:
        import numba
    except ImportError as error:
        raise missing_dependency("numba", "contact", "contact solvers") from error
    folder = cache.directory()
    options: dict[str, Any] = {"fastmath": set(liberties), "error_model": "numpy", "nogil": True}
    if folder is None:
        return cast(Callable[..., Any], numba.njit(**options)(function))
    before = numba.config.CACHE_DIR  # numba reads it here and nowhere later
    numba.config.CACHE_DIR = str(folder / f"numba-{_texts()}")
    try:
        return cast(Callable[..., Any], numba.njit(cache=True, **options)(function))
    finally:
        numba.config.CACHE_DIR = before


@functools.cache
def _texts() -> str:
    """Digest of all files that hold functions for numba."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
