"""Machine code of a GPU, instruction by instruction: how often each runs, and how many cycles a warp takes alone.

Each instruction says for how many cycles its warp waits before the next, and for which of six counters, which loads
set, and other instructions of unknown length. A walk through the code that heeds both gives the cycles of a warp that
has the machine to itself. Branches that lead around slow paths of divisions are taken, others are not; loops run as
often as they do at most.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from delassus_studies.gpu.assembled import program_at

LATENCY = {"global": 600, "local": 35, "shared": 25, "constant": 40, "special": 25, "fp64": 16}
"""Cycles until what instructions of a class load or make can be used; local memory is held in the first-level cache."""

OTHER = 15
"""The same of other classes that set a counter."""

READ = 12
"""Cycles until registers that a store reads can be written."""

CLASSES = (
    ("global", r"LDG|STG|LD\b|ST\b|RED|ATOM"),
    ("local", r"LDL|STL"),
    ("shared", r"LDS|STS"),
    ("constant", r"U?LDC"),
    ("fp64", r"D(?:ADD|MUL|FMA|SETP|MNMX)"),
    ("special", r"MUFU"),
    ("fp32", r"FADD|FMUL|FFMA|FSWZADD|HFMA2"),
    ("control", r"BRA|BRX|CALL|RET|EXIT|BSSY|BSYNC|WARPSYNC|NOP|BAR|BREAK|YIELD|DEPBAR|CALL|JMP|ERRBAR|BMOV"),
    ("uniform", r"U[A-Z0-9]+|R2UR|S2UR"),
    ("convert", r"F2F|F2I|I2F|FRND|I2I"),
)
"""Classes of instructions by their names; all that are in none are "integer": comparisons and selections as well."""

Place = tuple[int, str, bool]

_LINE = re.compile(r"/\*([0-9a-f]+)\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][A-Z0-9_]*)([^;]*);\s*/\* 0x([0-9a-f]{16}) \*/")
_CONTROL = re.compile(r"^\s*/\* 0x([0-9a-f]{16}) \*/")
_LABEL = re.compile(r"^([.$A-Za-z_][\w$.]*):")
_LOCAL = re.compile(r"\[([\w.+]*?R\w+)(\+-?0x[0-9a-f]+)?\]")
_TARGET = re.compile(r"`\(([^)]+)\)")
_CLASS = [(name, re.compile(rf"(?:{pattern})$")) for name, pattern in CLASSES]


@dataclass(slots=True)
class Instruction:
    """An instruction: name, operands, class, whether it has a condition, and its bits of control."""

    name: str
    rest: str
    kind: str
    is_conditional: bool
    control: int


@dataclass(slots=True)
class Function:
    """Instructions of a function, and where in it labels stand."""

    instructions: list[Instruction]
    labels: dict[str, int]


@dataclass(frozen=True, slots=True)
class Work:
    """What a warp does for its states.

    Attributes
    ----------
    instructions : dict
        How many of each class run.
    bytes : dict
        That a thread loads and stores, by "global", "local" and "shared" with "load" or "store": ``local load``.
    cycles : float
        That a warp takes if it is alone.
    places : list of (int, str, bool)
        Local memory that it goes through, in order: bytes, which, whether it stores.
    """

    instructions: Mapping[str, float]
    bytes: Mapping[str, float]
    cycles: float
    places: Sequence[Place]


def functions_of(code: bytes) -> dict[str, Function]:
    """Functions of machine code, by name; raises `Unavailable` without `nvdisasm`."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(code)
        command = [program_at("nvdisasm"), "-c", "-hex", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    functions, name = dict[str, Function](), ""
    for line in text.splitlines():
        if found := _LABEL.match(line):
            label = found[1]
            if not label.startswith("."):
                name = label
                functions[name] = Function([], {})
            elif name:
                functions[name].labels[label] = len(functions[name].instructions)
        elif name and (found := _LINE.search(line)):
            kind = next((kind for kind, pattern in _CLASS if pattern.match(found[3])), "integer")
            functions[name].instructions.append(Instruction(found[3], found[4], kind, found[2] is not None, 0))
        elif name and functions[name].instructions and (found := _CONTROL.match(line)):
            functions[name].instructions[-1].control = int(found[1], 16) >> 41
    return functions


def work(functions: Mapping[str, Function], passes: Mapping[str, int]) -> Work:
    """What a warp does from ``kernel`` on; ``passes`` are those of the loop of each function, 1 of those not named."""
    known = dict[str, Work]()

    def of(name: str) -> Work:
        if name not in known:
            known[name] = _walk(functions[name], passes.get(name.split("$")[-1], 1), of)
        return known[name]

    return of("kernel")


def _walk(function: Function, passes: int, of: Callable[[str], Work]) -> Work:
    """What a function does, with those that it calls."""
    code, weight = function.instructions, _weights(function, passes)
    count, moved, cycles = dict[str, float](), dict[str, float](), 0.0
    now, ready = 0, [0] * 6
    for k, instruction in enumerate(code):
        if not weight[k]:
            continue
        begin, control = now, instruction.control
        wait = control >> 11 & 0x3F
        now = max([now, *(ready[b] for b in range(6) if wait >> b & 1)])
        write, read = control >> 5 & 7, control >> 8 & 7
        if write < 6:
            ready[write] = max(ready[write], now + LATENCY.get(instruction.kind, OTHER))
        if read < 6:
            ready[read] = max(ready[read], now + READ)
        now += max(1, control & 0xF)
        cycles += weight[k] * (now - begin)
        count[instruction.kind] = count.get(instruction.kind, 0) + weight[k]
        if instruction.kind in ("global", "local", "shared"):
            way = "load" if instruction.name.startswith("LD") else "store"
            which = f"{instruction.kind} {way}"
            moved[which] = moved.get(which, 0) + weight[k] * _width(instruction)
        target = _TARGET.search(instruction.rest)
        if instruction.name == "CALL" and target is not None:
            called = of(target[1])
            cycles += weight[k] * called.cycles
            for sums, more in ((count, called.instructions), (moved, called.bytes)):
                for key, x in more.items():
                    sums[key] = sums.get(key, 0) + weight[k] * x
    return Work(count, moved, cycles, _places(function, weight, passes, of))


def _places(function: Function, weight: Sequence[int], passes: int, of: Callable[[str], Work]) -> list[Place]:
    """Local memory that a function goes through.

    It is behind the start of the workspace, in whatever register; in functions that read tables, where places are read
    from them, behind the register that most accesses name.
    """
    code = function.instructions
    found: list[list[Place]] = []
    bases = [_LOCAL.search(x.rest) if x.kind == "local" and w else None for x, w in zip(code, weight, strict=True)]
    (usual, _), *_ = Counter(base[1] for base in bases if base).most_common(1) or [("", 0)]
    has_table = any(x.name == "LDG" for x in code)
    for k, (instruction, base) in enumerate(zip(code, bases, strict=True)):
        found.append([])
        if base is not None:
            where = base[2] or "+0x0" if not has_table or base[1] in ("R1", usual) else f"{id(function)} {k}"
            found[-1].append((_width(instruction), where, instruction.name == "STL"))
        elif weight[k] and instruction.name == "CALL" and (target := _TARGET.search(instruction.rest)):
            found[-1].extend(of(target[1]).places)
    repeated = [k for k, w in enumerate(weight) if w > 1]
    if not repeated:
        return [place for places in found for place in places]
    first, last = repeated[0], repeated[-1] + 1
    before, inside, after = (
        [x for xs in some for x in xs] for some in (found[:first], found[first:last], found[last:])
    )
    return [*before, *inside * passes, *after]


def beyond_cache(places: Sequence[Place], room: float) -> float:
    """Bytes of local memory of a thread that go to the second level, of a first level that has so many for each.

    What was used last stays; what was stored is written back when it goes, or is forgotten at the end.
    """
    held, size, beyond = OrderedDict[str, tuple[int, bool]](), 0, 0
    for width, where, is_store in places:
        old = held.pop(where, None)
        if old is None:
            size += width
            beyond += 0 if is_store else width
        held[where] = width, is_store or (old is not None and old[1])
        while size > room:
            _, (gone, is_dirty) = held.popitem(last=False)
            size -= gone
            beyond += gone * is_dirty
    return beyond


def _width(instruction: Instruction) -> int:
    """Bytes that a thread loads or stores."""
    found = re.search(r"\.(64|128)\b", instruction.rest.split()[0])
    return int(found[1]) // 8 if found else 4


def _weights(function: Function, passes: int) -> list[int]:
    """How often each instruction runs."""
    code = function.instructions
    weight = [1] * len(code)
    for k, instruction in enumerate(code):
        target = _TARGET.search(instruction.rest) if instruction.name == "BRA" else None
        goal = function.labels.get(target[1]) if target else None
        if goal is None:
            continue
        if goal < k:
            for j in range(goal, k + 1):
                weight[j] *= passes
        elif instruction.is_conditional and any("slowpath" in code[j].rest for j in range(k + 1, goal)):
            weight[k + 1 : goal] = [0] * (goal - k - 1)
        elif goal == k:  # the trap behind the last function
            weight[k] = 0
    return weight
