"""One cold compilation, stage by stage, also for another processor.

Seconds are of the processor: compilation runs on one thread, and other work on the machine does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from delassus.compiler.machine.cpu import Host, host, object_code
from delassus.compiler.passes.simplify import PASSES
from delassus.compiler.program.pipeline import make_program
from delassus.compiler.program.program import Program
from delassus.compiler.program.trace import trace_request
from delassus.compiler.targets.llvm.module import llvm_module
from delassus.planner.plan import plan
from delassus.quantities.osim import DELASSUS
from delassus.quantities.request import request
from delassus_studies.cases import Case
from delassus_studies.timing import uncached

T = TypeVar("T")
STAGES = ("plan", "trace", "passes", "schedule", "assembly", "LLVM")


@dataclass(frozen=True, slots=True)
class Compilation:
    """A compiled Delassus kernel: program, states in a vector register, seconds by stage, object code."""

    program: Program
    lanes: int
    stages: dict[str, float]
    code: bytes

    @property
    def seconds(self) -> float:
        """Of all stages; on an idle core, about what a user waits for."""
        return sum(self.stages.values())


def compile_cold(case: Case, method: str = "auto", dtype: str = "float64", target: Host | None = None) -> Compilation:
    """Run the stages of ``ds.compile`` one after the other, with nothing cached; for this processor or for another."""
    stages: dict[str, float] = {}
    cpu = target or host()

    def timed(stage: str, call: Callable[[], T]) -> T:
        start = time.process_time()
        result = call()
        stages[stage] = stages.get(stage, 0.0) + time.process_time() - start
        return result

    asked = request(case.tree, case.constraints, DELASSUS, method=method)
    with uncached():
        if method == "auto":
            timed("plan", lambda: plan(case.tree, case.constraints))  # which the trace finds in memory
        traced = timed("trace", lambda: trace_request(asked))
        graph = traced.ops.graph(traced.computed)
        for name, run in PASSES:
            graph = timed("schedule" if name == "schedule" else "passes", partial(run, graph))
        program = make_program(asked)
    lanes, scalar = cpu.lanes(dtype), "double" if dtype == "float64" else "float"
    text = timed("assembly", lambda: llvm_module(program, scalar, lanes, cpu.vector_registers, cpu.has_fma))
    code = timed("LLVM", lambda: object_code(text, cpu))
    return Compilation(program, lanes, stages, code)
