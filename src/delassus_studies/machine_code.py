"""What object code consists of, by objdump: instructions of the functions that run once a block of states.

The operations of a kernel are straight-line code: what is in the functions ``block*`` runs once for each block, so that
counting what is there counts what runs.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FUNCTION = re.compile(r"^([0-9a-f]+) <(.+)>:$")
_LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*?)\s*(?:#.*)?$")
_MEMORY = re.compile(r"(-?0x[0-9a-f]+)?\((%\w+)?[^)]*\)")
_ARITHMETIC = re.compile(
    r"^v?(?:(?P<fma>fn?m(?:add|sub)\w*)|add|sub|mul|div|sqrt|max|min)[ps][sd]$|^vfn?m(add|sub)\w*$"
)
_MOVE = re.compile(r"^v?(mov|broadcast|pbroadcast)")
_SHUFFLE = re.compile(r"^v?(p?unpck|shuf|p?perm|insert|extract|blend|p?align)")


def available() -> bool:
    """Whether objdump is installed."""
    return shutil.which("objdump") is not None


@dataclass(frozen=True, slots=True)
class Census:
    """Instructions of some functions by kind, bytes of code, bytes of the largest stack frame.

    ``from_memory`` counts operands that instructions other than moves read from memory, by where they are.
    """

    kinds: Counter[str]
    from_memory: Counter[str]
    size: int
    frame: int

    @property
    def total(self) -> int:
        """All instructions."""
        return sum(self.kinds.values())


def census(code: bytes, functions: str) -> Census:
    """Count the instructions of the functions of an x86 object file whose whole names match a pattern."""
    kinds: Counter[str] = Counter()
    from_memory: Counter[str] = Counter()
    size = frame = 0
    for lines in _functions(code, functions):
        constants: set[str] = set()  # registers that hold the address of a constant
        size += lines[-1][0] - lines[0][0]
        for _, name, operands in lines[:-1]:
            where = _place(operands, constants) if not name.startswith("lea") else None
            kind = _kind(name, operands, where)
            kinds[kind] += 1
            if where and kind == "arithmetic":
                from_memory[where] += 1
            _follow(name, operands, constants)
            if found := re.match(r"\$0x([0-9a-f]+),%rsp$", operands):
                frame = max(frame, int(found[1], 16) if name.startswith("sub") else 0)
    return Census(kinds, from_memory, size, frame)


def _functions(code: bytes, pattern: str) -> Iterator[list[tuple[int, str, str]]]:
    """Address, name and operands of the instructions of each function that matches; the end's address last."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.o"
        file.write_bytes(code)
        command = ["objdump", "-d", "--no-show-raw-insn", str(file)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
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
    found = _MEMORY.search(operands)
    if found is None:
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


def _follow(name: str, operands: str, constants: set[str]) -> None:
    """Which registers hold the address of a constant after an instruction."""
    target = operands.rsplit(",", 1)[-1]
    if name.startswith("movabs"):
        constants.add(target)
    elif target in constants:
        constants.discard(target)


def text_size(code: bytes) -> int:
    """Bytes of all functions of an object file."""
    return census(code, ".*").size
