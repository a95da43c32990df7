"""Machine code of a request: from the cache, or made and stored there."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple
from functools import cache
from hashlib import sha256

from delassus.compiler.machine import cache as disk
from delassus.compiler.machine.cpu import host, object_code, versions
from delassus.compiler.program.pipeline import make_program
from delassus.compiler.targets.llvm.module import llvm_module
from delassus.quantities.request import Request
from delassus.spatial.trace.graph import OperationCount
from delassus.version import __version__


def machine_code(asked: Request, dtype: str, lanes: int, reason: str = "") -> tuple[bytes, OperationCount, bool, str]:
    """Object code of a request, from the cache, or made and stored there; ``reason`` is said where that takes long.

    Also the operations of one state's program, whether it makes the reciprocal condition of each state, and in which
    type it estimates errors by what solutions miss, if it does.
    """
    what = f"{asked.title} of {asked.tree.name}{reason}"
    stored = disk.fetch(key_of(asked, dtype, lanes), lambda: _make(asked, dtype, lanes), what)
    facts, _, objects = stored.partition(b"\n")
    *operations, has_rcond, error_dtype = json.loads(facts)
    return objects, OperationCount(*operations), has_rcond, error_dtype


def key_of(asked: Request, dtype: str, lanes: int) -> str:
    """Key of the machine code: all that it depends on."""
    this = host()
    return disk.cache_key(
        **asked.describe(),
        dtype=dtype,
        lanes=lanes,
        processor=f"{this.triple} {this.cpu} {this.features}",
        versions=f"delassus {__version__} {sources()}, {versions()}",
    )


def _make(asked: Request, dtype: str, lanes: int) -> bytes:
    scalar, cpu = "double" if dtype == "float64" else "float", host()
    with _garbage_left():
        program = make_program(asked, dtype=dtype)
        assembly = llvm_module(program, scalar, lanes, cpu.vector_registers, cpu.has_fma)
    objects = object_code(assembly)
    facts = json.dumps([*astuple(program.count()), any(r.hidden for r in program.results), program.error_dtype])
    return facts.encode() + b"\n" + objects


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
