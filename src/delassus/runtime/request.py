"""What is asked of the compiler, and the key under which the answer is cached."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from delassus.algorithms.osim.plan import plan
from delassus.compiler.options import Setting
from delassus.compiler.pipeline import describe, make_program
from delassus.compiler.program import Program
from delassus.compiler.tasks import AUTO, choose, find_task, method_that_runs
from delassus.constraints import Constraint
from delassus.model.tree import Tree
from delassus.runtime.cache import cache_key
from delassus.runtime.cpu_target import host, versions


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What to compile: everything that the machine code depends on.

    Attributes
    ----------
    tree : Tree
    constraints : tuple of Constraint
    what, method : str
    dtype : {"float64", "float32"}
    lanes : int
        States that one vector register is to hold; 1 leaves out the lane code.
    payloads : tuple of str
        Links whose inertia gets an addition with each call.
    setting : Setting
        Options.
    """

    tree: Tree
    constraints: tuple[Constraint, ...]
    what: str
    method: str
    dtype: str
    lanes: int
    payloads: tuple[str, ...] = ()
    setting: Setting = field(default_factory=Setting)

    @property
    def taken(self) -> str:
        """Name of the algorithm that runs."""
        return method_that_runs(self.what, self.method, self.setting.soft(self.constraints))

    def program(self) -> Program:
        """Trace, optimise and schedule."""
        return make_program(self.tree, self.constraints, self.what, self.method, self.payloads, self.setting)

    def plan(self) -> Any:
        """What ``auto`` chooses, and why; None for a named method and where there is no choice."""
        if self.method != AUTO or not find_task(self.what).methods:
            return None
        if self.taken == AUTO:
            return plan(self.tree, self.constraints, self.payloads)
        return choose(self.setting.soft(self.constraints))

    def key(self) -> str:
        """Key of the machine code."""
        this = host()
        return cache_key(
            tree=self.tree.fingerprint,
            constraints="\n".join(map(describe, self.constraints)),
            payloads=repr(self.payloads),
            what=self.what,
            method=self.taken,
            setting=self.setting.describe(),
            dtype=self.dtype,
            lanes=self.lanes,
            processor=f"{this.triple} {this.cpu} {this.features}",
            versions=f"delassus {version('delassus')} {_sources()}, casadi {version('casadi')}, {versions()}",
        )


@cache
def _sources() -> str:
    """Sizes and times of this package's files, as a hash: code that was edited in place makes other programs."""
    package = Path(__file__).parent.parent
    state = sorted((str(p.relative_to(package)), p.stat().st_size, p.stat().st_mtime_ns) for p in package.rglob("*.py"))
    return sha256(repr(state).encode()).hexdigest()[:16]
