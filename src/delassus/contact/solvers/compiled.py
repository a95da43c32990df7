"""Functions that are loops, compiled by numba at their first call, so that importing them needs no numba.

Functions marked with `compiled` may call one another; they take and return numbers and arrays. Machine code is kept in
the library's cache (`delassus.runtime.cache`), not in numba's: that one unpickles, and so executes, whatever is in its
files, and looks at the file of the function called only, not at those of the functions that it calls. The first
compilation of a process is announced on stderr.

Of floating-point rules, sums may be reordered and multiply-adds fused; NaN and infinities stay what they are.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

from delassus.errors import announce, missing_dependency
from delassus.runtime import cache
from delassus.runtime.cpu_target import versions

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS = {"fastmath": {"reassoc", "contract", "nsz"}, "error_model": "numpy", "nogil": True}
NOTICE = "compiling contact loops, about a minute, once"

_one_at_a_time = threading.RLock()


class Compiled:
    """A function that becomes machine code when it is first called."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self._dispatcher: Callable[..., Any] | None = None
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:
        """Call the machine code, after compiling it if this is the first time."""
        dispatcher = self._dispatcher
        return (self.dispatcher() if dispatcher is None else dispatcher)(*args)

    def dispatcher(self) -> Callable[..., Any]:
        """Numba's dispatcher; raises `MissingDependencyError` where there is no numba."""
        with _one_at_a_time:
            if self._dispatcher is None:
                scope = dict(self.function.__globals__)
                for name in self.function.__code__.co_names:
                    if isinstance(called := scope.get(name), Compiled):
                        scope[name] = called.dispatcher()
                self._dispatcher = _for_numba(self.function, scope)
            return self._dispatcher


def compiled(function: F) -> F:
    """Mark a function as one for numba."""
    return cast(F, Compiled(cast(FunctionType, function)))


def _for_numba(function: FunctionType, scope: dict[str, Any]) -> Callable[..., Any]:
    """The function with its global names looked up in ``scope``, its machine code kept in the library's cache."""
    try:
        import numba
    except ImportError as error:
        raise missing_dependency("numba", "contact", "contact solvers") from error
    _listen()
    twin = FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
    twin.__qualname__, twin.__module__ = function.__qualname__, function.__module__
    dispatcher = numba.njit(**OPTIONS)(twin)
    dispatcher._cache = _Cache(f"{function.__module__}.{function.__qualname__}", numba.__version__)
    return cast(Callable[..., Any], dispatcher)


class _Cache:
    """Machine code of a function by the types of its arguments; for numba's dispatcher, in place of its own cache."""

    cache_path = None

    def __init__(self, function: str, version: str) -> None:
        self._parts = {"function": function, "text": _texts(), "versions": f"numba {version}, {versions()}"}

    def load_overload(self, types: object, target: Any) -> Any:
        """What numba made of the function for these types; None if it is not in the cache."""
        from numba.core.compiler import CompileResult

        target.refresh()
        stored = cache.load(self._key(types, target.codegen()))
        try:
            return None if stored is None else CompileResult._rebuild(target, *pickle.loads(stored))
        except Exception:  # stored by us, and yet another environment's: compiled again, and stored in its place
            return None

    def save_overload(self, types: object, made: Any) -> None:
        """Keep what numba has made, unless it holds addresses of this process."""
        from numba.core.serialize import dumps

        if not made.library.has_dynamic_globals:
            cache.store(self._key(types, made.codegen), dumps(made._reduce()))

    def _key(self, types: object, codegen: Any) -> str:
        return cache.cache_key(types=str(types), processor=repr(codegen.magic_tuple()), **self._parts)


@functools.cache
def _listen() -> None:
    """Announce the first function of ours that numba compiles, and does not find in its cache."""
    from numba.core import event

    def on_start(listener: Any, happening: Any) -> None:
        if happening.data["dispatcher"].py_func.__globals__.get("compiled") is compiled:
            event.unregister("numba:compile", listener)
            announce(NOTICE)

    methods = {"on_start": on_start, "on_end": lambda listener, happening: None}
    event.register("numba:compile", type("Announcer", (event.Listener,), methods)())


@functools.cache
def _texts() -> str:
    """Digest of all files that hold functions for numba."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
