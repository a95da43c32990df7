"""Machine code of a request: from the cache, or made and stored there."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import astuple, dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from delassus.compiler.emit.llvm import llvm_module
from delassus.compiler.pipeline import make_program
from delassus.errors import announce
from delassus.quantities.request import Request
from delassus.runtime import cache as disk
from delassus.runtime.cpu_target import host, object_code, versions
from delassus.spatial.graph import OperationCount


@dataclass(frozen=True, slots=True)
class MachineCode:
    """Object code, and what of its program a kernel needs.

    Attributes
    ----------
    objects : bytes
        For `delassus.runtime.cpu_target.Code`.
    operations : OperationCount
    is_judged : bool
        Whether it makes the smallest pivot of each state.
    """

    objects: bytes
    operations: OperationCount
    is_judged: bool


def machine_code(asked: Request, dtype: str, lanes: int, reason: str = "") -> MachineCode:
    """Load the code of a request from the cache, or make and store it; with a ``reason``, never without a word."""
    key = key_of(asked, dtype, lanes)
    stored = disk.load(key)
    if stored is None:
        stored = _make(asked, dtype, lanes, reason)
        disk.store(key, stored)
    size = int.from_bytes(stored[:8], "little")
    facts = json.loads(stored[8 : 8 + size])
    return MachineCode(stored[8 + size :], OperationCount(*facts["operations"]), facts["is_judged"])


def key_of(asked: Request, dtype: str, lanes: int) -> str:
    """Key of the machine code: all that it depends on."""
    this = host()
    return disk.cache_key(
        **asked.describe(),
        dtype=dtype,
        lanes=lanes,
        processor=f"{this.triple} {this.cpu} {this.features}",
        versions=f"delassus {version('delassus')} {_sources()}, {versions()}",
    )


def _make(asked: Request, dtype: str, lanes: int, reason: str) -> bytes:
    start = time.perf_counter()
    program = make_program(asked)
    count = program.graph.count()
    slow = count.total > 5_000 and (bool(reason) or sys.stderr.isatty())
    if slow:
        what = f"{asked.quantity.name} of {asked.tree.name}"
        announce(f"compiling {what}, {count.total:,} operations{reason} …")
    scalar = "double" if dtype == "float64" else "float"
    objects = object_code(llvm_module(program, scalar, lanes, host().vector_registers, host().has_fma))
    if slow:
        announce(f"compiled in {time.perf_counter() - start:.1f} s")
    is_judged = any(r.hidden for r in program.results)
    facts = json.dumps({"operations": astuple(count), "is_judged": is_judged}).encode()
    return len(facts).to_bytes(8, "little") + facts + objects


@cache
def _sources() -> str:
    """Sizes and times of this package's files, as a hash: code that was edited in place makes other programs."""
    package = Path(__file__).parent.parent
    state = sorted((str(p.relative_to(package)), p.stat().st_size, p.stat().st_mtime_ns) for p in package.rglob("*.py"))
    return sha256(repr(state).encode()).hexdigest()[:16]
