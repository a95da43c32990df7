"""Machine code of a request, made when it is first called: from the cache, or made and stored there."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple
from functools import cache
from hashlib import sha256

from delassus.compiler.machine import cache as disk
from delassus.compiler.machine.cpu import Code, host, object_code, versions
from delassus.compiler.program.pipeline import make_program
from delassus.compiler.program.program import Program
from delassus.compiler.targets.llvm.module import llvm_module
from delassus.quantities.request import Request
from delassus.spatial.trace.graph import OperationCount
from delassus.version import __version__

_one_at_a_time = threading.RLock()


def one_at_a_time() -> threading.RLock:
    """Lock of what threads of this process compile."""
    return _one_at_a_time


def _forget() -> None:
    """Replace the lock in a forked child, which has no thread that would release it."""
    global _one_at_a_time
    _one_at_a_time = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class MachineCode:
    """Machine code of a request: for states one by one, and for lanes, each made when it is first asked for.

    Both are kept in the cache, and so is what is known of the program before.

    Attributes
    ----------
    operations : OperationCount
        Of one state's program.
    has_rcond : bool
        Whether the program makes the reciprocal condition of each state.
    error_dtype : str
        In which type the program estimates errors by what solutions miss, if it does.
    lanes : int
        States that a vector register holds, and from which on they are taken by lanes.
    spans : array of two integers
        Addresses of the functions ``span`` for fewer states than there are lanes, and for at least as many; each is 0
        until it is made.
    """

    def __init__(self, asked: Request, dtype: str, lanes: int, reason: str = "") -> None:
        """``reason`` is said where it takes long."""
        self._asked, self._dtype, self.lanes = asked, dtype, lanes
        self._what = f"{asked.title} of {asked.tree.name}{reason}"
        self._program: Program | None = None
        self._codes: list[Code | None] = [None, None]
        self.spans = (ctypes.c_int64 * 2)()
        facts = disk.fetch(key_of(asked, dtype, 0), self._facts, f"the program of {self._what}")
        *operations, self.has_rcond, self.error_dtype = json.loads(facts)
        self.operations = OperationCount(*operations)

    def of(self, states: int) -> Code:
        """Code for so many states, one at least: functions ``batch`` and ``span``, for no others than are alike."""
        by_lanes = states >= self.lanes
        code = self._codes[by_lanes]
        if code is None:
            with one_at_a_time():
                code = self._codes[by_lanes] or self._fetched(by_lanes)
        return code

    def _fetched(self, by_lanes: bool) -> Code:
        lanes = self.lanes if by_lanes else 1
        what = f"{self._what}, for {'batches' if lanes > 1 else 'one state'}"
        key = key_of(self._asked, self._dtype, lanes)
        made = self._codes[by_lanes] = Code(disk.fetch(key, lambda: self._objects(lanes), what))
        self.spans[by_lanes] = made.address("span")
        if all(self._codes) or self.lanes == 1:
            self._program = None
        return made

    def _facts(self) -> bytes:
        program = self._made_program()
        facts = [*astuple(program.count()), any(r.hidden for r in program.results), program.error_dtype]
        return json.dumps(facts).encode()

    def _objects(self, lanes: int) -> bytes:
        scalar, cpu = "double" if self._dtype == "float64" else "float", host()
        program = self._program or self._made_program()
        with _garbage_left():
            assembly = llvm_module(program, scalar, lanes, cpu.vector_registers, cpu.has_fma)
        return object_code(assembly)

    def _made_program(self) -> Program:
        """The program, which is kept until both codes are made of it."""
        with _garbage_left():
            self._program = make_program(self._asked, dtype=self._dtype)
        return self._program


def key_of(asked: Request, dtype: str, lanes: int) -> str:
    """Key of machine code, of what is known of its program if there are no lanes: all that it depends on."""
    this = host()
    return disk.cache_key(
        **asked.describe(),
        dtype=dtype,
        lanes=lanes,
        processor=f"{this.triple} {this.cpu} {this.features}",
        versions=f"delassus {__version__} {sources()}, {versions()}",
    )


@contextmanager
def _garbage_left() -> Iterator[None]:
    """No collection of garbage meanwhile: graphs are millions of objects, none of which is garbage before the end."""
    if not gc.isenabled():  # by whoever calls, or on another thread that compiles
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@cache
def sources() -> str:
    """Names and contents of this package's files, as a hash: code that was edited in place makes other programs."""
    digest, package = sha256(), os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    for folder, _, names in sorted(os.walk(package)):  # in half of the time of Path.rglob
        for path in (os.path.join(folder, name) for name in sorted(names) if name.endswith(".py")):
            with open(path, "rb") as file:
                text = file.read()
            digest.update(f"{path[len(package) :]} {len(text)}\n".encode() + text)
    return digest.hexdigest()[:16]
