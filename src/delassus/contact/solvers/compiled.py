"""Functions that are loops, compiled by numba at their first call, so that importing them needs no numba.

Functions marked with `compiled` may call one another; they take and return numbers and arrays. Machine code is kept in
the library's cache (`delassus.runtime.cache`), not in numba's: that one unpickles, and so executes, whatever is in its
files, and looks at the file of the function called only, not at those of the functions that it calls. What is not in
the cache is announced on stderr before it is compiled.

What numba spends its time on, and the rules that follow:

- Every function is optimised, turned into machine code and wrapped for Python on its own, and all over again within
  each of its callers. Here only functions that Python calls are; those that they call are parts, which are typed and
  then only linked. Rule: few functions are called from Python; helpers are not.
- A literal number, ``m = f(0)``, is a type of its own, for which ``f`` and all that it calls are compiled once more.
  Here literals widen to their types.
- Most of the rest is Python of numba's own and grows with the operations in the source, about a second for 100 lines,
  whatever becomes of them. Rule: say a thing once; loops over components rather than their copies.
- Each NumPy function takes 0.1 to 0.3 s, once a process and type; sums of arrays and slices more. Rule: ``np.empty``
  and loops.
- References to arrays are counted, by atomic operations: at each call and each row ``x[i]``, some 20 ns each, which is
  more than small functions take, and a third of what is compiled. Only functions that make or return arrays count,
  which `Compiled` tells from the names that they use.
- Arrays that may not be written to, strided ones and other integers are types of their own. Rule: pass C-contiguous
  arrays that may be written to, and not columns or blocks of them.

Of floating-point rules, sums may be reordered and multiply-adds fused; NaN and infinities stay what they are.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any, TypeVar, cast

from delassus.errors import announce, missing_dependency
from delassus.runtime import cache
from delassus.runtime.cpu_target import versions

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS = {"fastmath": {"reassoc", "contract", "nsz"}, "error_model": "numpy", "nogil": True}
ALLOCATING = {"arange", "copy", "empty", "empty_like", "full", "linalg", "ones", "zeros", "zeros_like", "flatnonzero"}
"""Names of what makes arrays."""

SECONDS_A_BYTE = 5e-4
"""Estimate of how long compilation takes, for a byte of the bytecode of a function and of those that it calls."""

_one_at_a_time = threading.RLock()


class Compiled:
    """A function that becomes machine code when it is first called."""

    def __init__(self, function: FunctionType, forceinline: bool = False) -> None:
        self.function, self._forceinline = function, forceinline
        self._dispatcher: Any = None
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:
        """Call the machine code, after compiling it if this is the first time."""
        dispatcher = self._dispatcher
        return (self.dispatcher() if dispatcher is None else dispatcher)(*args)

    def dispatcher(self) -> Callable[..., Any]:
        """Numba's dispatcher for calls from Python; raises `MissingDependencyError` where there is no numba."""
        with _one_at_a_time:
            if self._dispatcher is None:
                self._dispatcher = self._for_numba()
                self._dispatcher._cache = _Cache(self)
            return cast(Callable[..., Any], self._dispatcher)

    @functools.cached_property
    def part(self) -> Any:
        """Numba's dispatcher for calls from other compiled functions."""
        options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": self._forceinline}
        return self._for_numba(pipeline_class=_parts(), **options)

    @property
    def _counts_references(self) -> bool:
        """Whether it makes arrays or returns them; others need no counts of references, which cost more than loops."""
        names, returned = set(self.function.__code__.co_names), self.function.__annotations__.get("return", "")
        return bool(names & ALLOCATING) or any(name in str(returned) for name in ("Array", "Indices", "Any"))

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

    def _for_numba(self, **options: Any) -> Any:
        """The function for numba, with the parts that it calls in place of their names."""
        try:
            import numba
        except ImportError as error:
            raise missing_dependency("numba", "contact", "contact solvers") from error
        function = self.function
        scope = {**function.__globals__, **{name: f.part for name, f in self.called().items()}}
        twin = FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
        twin.__qualname__, twin.__module__ = function.__qualname__, function.__module__
        dispatcher = numba.njit(**OPTIONS, _nrt=self._counts_references, **options)(twin)
        typed = dispatcher.get_call_template
        dispatcher.get_call_template = lambda args, kws: typed(tuple(map(numba.types.unliteral, args)), kws)
        return dispatcher


def compiled(function: F) -> F:
    """Mark a function as one for numba."""
    return cast(F, Compiled(cast(FunctionType, function)))


def inlined(function: F) -> F:
    """Mark a function as one for numba that becomes a part of those that call it.

    For what is called for each contact and takes tuples of arrays: passing those costs more than what it does.
    """
    return cast(F, Compiled(cast(FunctionType, function), forceinline=True))


@functools.cache
def _parts() -> type:
    """Numba's compiler for functions that are only linked into others: not optimised, no machine code."""
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler

    def finalize(library: Any) -> None:
        library._finalize_dynamic_globals()
        library._finalized = True

    def address(library: Any, name: str) -> int:
        library._ensure_finalized()
        return 0

    in_no_memory = SimpleNamespace(set_env=lambda name, environment: None)
    methods = {
        "_optimize_final_module": lambda library: None,
        "_finalize_final_module": finalize,
        "get_pointer_to_function": address,
        "codegen": in_no_memory,
    }
    part = type("Part", (JITCodeLibrary,), methods)

    def start(compiler: Any, typing: Any, target: Any, library: None, *rest: Any) -> None:
        Compiler.__init__(compiler, typing, target, part(target.codegen(), "part"), *rest)

    return type("PartCompiler", (Compiler,), {"__init__": start})


class _Cache:
    """Machine code of a function by the types of its arguments; for numba's dispatcher, in place of its own cache."""

    cache_path = None

    def __init__(self, compiled: Compiled) -> None:
        import numba

        self._compiled, function = compiled, compiled.function
        self._name = f"{function.__module__}.{function.__qualname__}"
        self._parts = {"function": self._name, "text": _texts(), "versions": f"numba {numba.__version__}, {versions()}"}

    def load_overload(self, types: object, target: Any) -> Any:
        """What numba made of the function for these types; None if it is not in the cache, and numba will make it."""
        from numba.core.compiler import CompileResult

        target.refresh()
        stored = cache.load(self._key(types, target.codegen()))
        try:
            if stored is not None:
                return CompileResult._rebuild(target, *pickle.loads(stored))
        except Exception:  # stored by us, and yet another environment's: compiled again, and stored in its place
            pass
        functions = self._compiled.with_called()
        seconds = SECONDS_A_BYTE * sum(len(f.function.__code__.co_code) for f in functions)
        name, n = self._name.removeprefix("delassus."), len(functions) - 1
        calling = f" and {n} functions that it calls" if n else ""
        announce(f"compiling {name}{calling}: about {max(seconds, 1.0):.0f} s, once")
        return None

    def save_overload(self, types: object, made: Any) -> None:
        """Keep what numba has made, unless it holds addresses of this process."""
        from numba.core.serialize import dumps

        if not made.library.has_dynamic_globals:
            cache.store(self._key(types, made.codegen), dumps(made._reduce()))

    def _key(self, types: object, codegen: Any) -> str:
        return cache.cache_key(types=str(types), processor=repr(codegen.magic_tuple()), **self._parts)


@functools.cache
def _texts() -> str:
    """Digest of all files that hold functions for numba."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
