"""What programs cost, counted: operations, stages of compilation, instructions; the peak of this core.

Operations of a kernel are straight-line code: what is in its functions ``block*`` runs once a block of states, so that
counting what is there, by objdump, counts what runs. Stages are seconds of the processor: compilation runs on one
thread, and other work on the machine does not count.
"""

from __future__ import annotations

import ctypes
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from delassus.algorithms.dynamics import METHODS
from delassus.algorithms.dynamics.state import EliminationOrder
from delassus.compiler.machine.cpu import Host, ObjectCode, host, object_code
from delassus.compiler.passes.simplify import PASSES
from delassus.compiler.program.program import Program
from delassus.compiler.targets.llvm.module import llvm_module
from delassus.quantities.bound_request import elimination_order, symbolic_request
from delassus.quantities.declarations.dynamics import DYNAMICS
from delassus.quantities.declarations.osim import DELASSUS
from delassus.quantities.pipeline import make_program
from delassus.quantities.planner.plan import plan
from delassus.quantities.request import Request, request
from delassus.quantities.trace import report_of, trace_request
from delassus.spatial.trace.graph import OperationCount
from delassus.spatial.trace.trace_ops import TraceOps
from delassus_studies.cases import Case, dynamics_options
from delassus_studies.timing import best, uncached

# -- one cold compilation, stage by stage --------------------------------------------------------------------------

T = TypeVar("T")
STAGES = ("plan", "trace", "passes", "schedule", "assembly", "LLVM")


@dataclass(frozen=True, slots=True)
class Compilation:
    """A compiled Delassus kernel for batches: program, states in a vector register, seconds by stage, object code."""

    program: Program
    lanes: int
    stages: dict[str, float]
    code: bytes

    @property
    def seconds(self) -> float:
        """Of all stages; on an idle core, about what a user waits for."""
        return sum(self.stages.values())


def compile_cold(case: Case, method: str = "auto", dtype: str = "float64", target: Host | None = None) -> Compilation:
    """Run the stages of a kernel's compilation one after the other, nothing cached; for this processor or another."""
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


# -- operations of forward dynamics --------------------------------------------------------------------------------


def dynamics_request(case: Case, method: str) -> Request:
    """Forward dynamics of a case by a method."""
    return request(case.tree, case.constraints, DYNAMICS, **dynamics_options(case, method))


def operations(case: Case, method: str, order: EliminationOrder | None = None) -> int:
    """Operations of forward dynamics by a method; ``order`` of links, None for that of fewest operations."""
    ops, asked = TraceOps(), dynamics_request(case, method)
    traced = symbolic_request(asked, ops)
    traced.order = order or elimination_order(asked)
    found = METHODS[method](traced.motion())
    return ops.count([*ops.nodes(found.qdd), *ops.nodes(found.forces)])


def phases(case: Case, method: str) -> dict[str, OperationCount]:
    """Operations that each phase of forward dynamics adds to those before it, of what the results need.

    The last is the rest. Phases are those of `delassus.spatial.ops.Ops.mark`.
    """
    out: dict[str, OperationCount] = {}
    for name, number in report_of(trace_request(dynamics_request(case, method))).phases:
        if number.total:  # a method may run through phases again
            before = asdict(out.get(name, OperationCount()))
            out[name] = OperationCount(**{kind: n + before[kind] for kind, n in asdict(number).items()})
    return out


# -- instructions of object code -----------------------------------------------------------------------------------

_FUNCTION = re.compile(r"^([0-9a-f]+) <(.+)>:$")
_LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*?)\s*(?:#.*)?$")
_MEMORY = re.compile(r"(-?0x[0-9a-f]+)?\((%\w+)?[^)]*\)")
_ARITHMETIC = re.compile(r"^v?(?:fn?m(?:add|sub)\w*|(?:add|sub|mul|div|sqrt|max|min)[ps][sd])$")
_MOVE = re.compile(r"^v?(mov|broadcast|pbroadcast)")
_SHUFFLE = re.compile(r"^v?(p?unpck|shuf|p?perm|insert|extract|blend|p?align)")


def available() -> bool:
    """Whether machine code can be read here: objdump is installed, and this is x86-64."""
    return shutil.which("objdump") is not None and platform.machine() == "x86_64"


@dataclass(frozen=True, slots=True)
class Census:
    """Instructions of some functions by kind, bytes of code.

    ``from_memory`` counts operands that instructions other than moves read from memory, by where they are.
    """

    kinds: Counter[str]
    from_memory: Counter[str]
    size: int

    @property
    def total(self) -> int:
        """All instructions."""
        return sum(self.kinds.values())


def census(code: bytes, functions: str) -> Census:
    """Count the instructions of the functions of an x86 object file whose whole names match a pattern."""
    kinds, from_memory = Counter[str](), Counter[str]()
    size = 0
    for lines in _disassembled(code, functions):
        constants: set[str] = set()  # registers that hold the address of a constant
        size += lines[-1][0] - lines[0][0]
        for _, name, operands in lines[:-1]:
            where = _place(operands, constants) if not name.startswith("lea") else None
            kind = _kind(name, operands, where)
            kinds[kind] += 1
            if where and kind == "arithmetic":
                from_memory[where] += 1
            follow = constants.add if name.startswith("movabs") else constants.discard
            follow(operands.rsplit(",", 1)[-1])
    return Census(kinds, from_memory, size)


def _disassembled(code: bytes, pattern: str) -> Iterator[list[tuple[int, str, str]]]:
    """Address, name and operands of the instructions of each function that matches; the end's address last."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.o"
        file.write_bytes(code)
        text = subprocess.check_output(["objdump", "-d", "--no-show-raw-insn", str(file)], text=True, timeout=300.0)
    lines: list[tuple[int, str, str]] = []
    wanted = False
    for line in text.splitlines():
        if header := _FUNCTION.match(line):
            if wanted and lines:
                yield [*lines, (int(header[1], 16), "", "")]
            lines, wanted = [], re.fullmatch(pattern, header[2]) is not None
        elif wanted and (found := _LINE.match(line)):
            lines.append((int(found[1], 16), found[2], found[3]))
    if wanted and lines:
        yield [*lines, (lines[-1][0], "", "")]


def _place(operands: str, constants: set[str]) -> str | None:
    """What a memory operand is: "constant", "stack" or "data"; None if there is none."""
    if (found := _MEMORY.search(operands)) is None:
        return None
    base = found[2] or ""
    if base == "%rip" or base in constants:
        return "constant"
    return "stack" if base in ("%rsp", "%rbp") else "data"


def _kind(name: str, operands: str, where: str | None) -> str:
    if _ARITHMETIC.match(name):
        return "arithmetic"
    if name.startswith("movabs"):
        return "address of a constant"
    vector = re.search(r"%[xyz]mm", operands) is not None
    if vector and _MOVE.match(name):
        if where is None:
            return "copy"
        return f"store, {where}" if operands.rstrip().endswith(")") or "){" in operands else f"load, {where}"
    return "shuffle" if vector and _SHUFFLE.match(name) else "other"


# -- what this core can do at most: independent vector instructions, and its clock --------------------------------

CHAINS, UNROLLED = 12, 4
"""Independent chains: more than latency times instructions a cycle, fewer than registers; rounds of them in a loop."""
TRIES, ROUNDS = 15, 100_000
LOOP = """define void @run(i64 %n, ptr %x) noinline "prefer-vector-width"="512" nounwind {{
entry:
{before}
br label %again
again:
%i = phi i64 [ 0, %entry ], [ %next, %again ]
{lines}
%next = add i64 %i, 1
%done = icmp eq i64 %next, %n
br i1 %done, label %end, label %again
end:
{after}
ret void
}}
"""


def clock() -> float:
    """Cycles a second, from a chain of integer operations of one cycle each."""
    lines = ["%c0 = phi i64 [ 0, %entry ], [ %c64, %again ]"]
    lines += [f"%c{k + 1} = {('add', 'xor')[k % 2]} i64 %c{k}, %a" for k in range(64)]
    text = LOOP.format(before="%a = load i64, ptr %x", lines="\n".join(lines), after="store i64 %c64, ptr %x")
    return 64 / _seconds(object_code(text), "float64")


def instructions_per_second(dtype: str, kind: str) -> float:
    """Rate of independent vector instructions: "multiply", "add", "multiply-add", "add from memory" or "store"."""
    return CHAINS * UNROLLED / _seconds(object_code(loop(dtype, kind)), dtype)


def loop(dtype: str, kind: str) -> str:
    """``run(n, x)``: n rounds of ``CHAINS * UNROLLED`` instructions of one kind, in LLVM's language.

    ``x`` are vectors: the chains' first values and last ones, two operands, and one for each instruction.
    """
    lanes = host().lanes(dtype)
    vector = f"<{lanes} x {'double' if dtype == 'float64' else 'float'}>"
    fma = f"{vector} @llvm.fma.v{lanes}f{dtype[-2:]}"
    instruction = {
        "multiply": f"%v{{n}} = fmul {vector} {{value}}, %a",
        "add": f"%v{{n}} = fadd {vector} {{value}}, %b",
        "multiply-add": f"%v{{n}} = call {fma}({vector} {{value}}, {vector} %a, {vector} %b)",
        "add from memory": f"%v{{n}} = fadd {vector} {{value}}, %m{{n}}",
        "store": f"store {vector} %a, ptr %pm{{n}}\n%v{{n}} = freeze {vector} {{value}}",
    }[kind]

    def loaded(name: str, k: int) -> str:
        return f"%p{name} = getelementptr {vector}, ptr %x, i64 {k}\n%{name} = load {vector}, ptr %p{name}"

    size, before, after = CHAINS * UNROLLED, [loaded("a", CHAINS), loaded("b", CHAINS + 1)], []
    lines, body = [], []
    for k in range(CHAINS):
        before.append(loaded(f"s{k}", k))
        lines.append(f"%v{k} = phi {vector} [ %s{k}, %entry ], [ %v{size + k}, %again ]")
        after.append(f"store {vector} %v{size + k}, ptr %ps{k}")
    for n in range(CHAINS, CHAINS + size):
        body += [loaded(f"m{n}", 2 + n), instruction.format(n=n, value=f"%v{n - CHAINS}")]
    text = LOOP.format(before="\n".join(before), lines="\n".join(lines + body), after="\n".join(after))
    return f"declare {fma}({', '.join([vector] * 3)})\n{text}"


def _seconds(object_file: bytes, dtype: str) -> float:
    """Least seconds of one round: the fastest of several tries is what the core can do."""
    code, lanes = ObjectCode(object_file), host().lanes(dtype)
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(code.address("run"))
    memory = np.zeros((CHAINS * (UNROLLED + 1) + 10) * lanes, dtype=dtype)
    numbers = memory[-memory.ctypes.data % 64 // memory.itemsize :]
    numbers[CHAINS * lanes :][:lanes] = 1.0  # a; b and the chains' first values stay zero
    return best(lambda: run(ROUNDS, numbers.ctypes.data), TRIES)[0] / ROUNDS
