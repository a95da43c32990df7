"""Look inside one cold compilation: the seconds of its stages, its object code; also for another processor.

Seconds are of the processor: compilation runs on one thread, and what else the machine does is not to count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from delassus.runtime.compile import compile
from delassus.runtime.cpu_target import host
from delassus.runtime.kernel import Kernel
from delassus_studies.cases import Case
from delassus_studies.timing import nothing_kept

STAGES = {
    "plan": "delassus.algorithms.osim.plan.plan",
    "trace": "delassus.compiler.pipeline.trace",
    "passes": "delassus.compiler.pipeline.optimise",
    "schedule": "delassus.compiler.pipeline.schedule",
    "assembly": "delassus.runtime.compile.llvm_module",
    "LLVM": "delassus.runtime.compile.object_code",
}
"""Functions that a compilation goes through, by the names under which they are called."""


@dataclass(frozen=True, slots=True)
class Compilation:
    """A compiled kernel and how it came about.

    Attributes
    ----------
    kernel : Kernel
    seconds : float
        All of it; on an idle core, what a user waits for.
    stages : dict of str to float
        Seconds in each of `STAGES`, without those in others that it called; the rest is under "other".
    code : bytes
        Object code, an ELF file on Linux.
    """

    kernel: Kernel
    seconds: float
    stages: dict[str, float]
    code: bytes


def compile_cold(case: Case, method: str = "auto", dtype: str = "float64", lanes: int | None = None) -> Compilation:
    """Compile with nothing kept and watch the stages."""
    spent = dict.fromkeys(STAGES, 0.0)
    last: dict[str, Any] = {}
    inside: list[float] = []  # seconds that the stages called by each running one have taken

    def watched(stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **named: Any) -> Any:
            inside.append(0.0)
            start = time.process_time()
            last[stage] = function(*arguments, **named)
            taken = time.process_time() - start
            spent[stage] += taken - inside.pop()
            if inside:
                inside[-1] += taken
            return last[stage]

        return run

    with nothing_kept(), ExitStack() as stack:
        for stage, name in STAGES.items():
            watching = patch(name)
            original, _ = watching.get_original()
            stack.enter_context(patch(name, watched(stage, original)))
        start = time.process_time()
        kernel = compile(case.tree, case.constraints, method=method, dtype=dtype, lanes=lanes)  # type: ignore[arg-type]
        seconds = time.process_time() - start
    stages = {stage: taken for stage, taken in spent.items() if taken}
    return Compilation(kernel, seconds, {**stages, "other": seconds - sum(stages.values())}, last["LLVM"])


@contextmanager
def as_on(cpu: str, features: str, vector_bits: int, vector_registers: int) -> Iterator[None]:
    """Compile for another processor of this architecture; the code runs here if this one has its features."""
    other = replace(
        host(), cpu=cpu, features=features, vector_bits=vector_bits, vector_registers=vector_registers, has_fma=True
    )
    with ExitStack() as stack:
        for module in ("machine", "compile", "request"):
            stack.enter_context(patch(f"delassus.runtime.{module}.host", lambda: other))
        yield
