"""LLVM assembly that turns the rows of as many states as there are lanes into vectors by lanes, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from delassus.compiler.targets.llvm.text import LlvmText, llvm_table


def load_rows(text: LlvmText, base: str, size: int, targets: Mapping[int, str]) -> None:
    """Store entries of rows of ``size`` numbers by lanes; ``targets``: their addresses by entry, in order."""
    lanes = text.lanes
    if size == 1:  # numbers of states are neighbours
        for target in targets.values():
            text.store(text.instruction(f"load {text.vector}, ptr {base}, align {text.bits // 8}"), target)
        return
    if size < lanes:
        for k, target in targets.items():
            vector = "poison"
            for s in range(lanes):
                number = text.instruction(f"load {text.scalar}, ptr {text.row(base, s * size + k)}")
                vector = text.instruction(f"insertelement {text.vector} {vector}, {text.scalar} {number}, i64 {s}")
            text.store(vector, target)
        return
    covered: set[int] = set()
    for first in tiles_of(size, lanes):
        mine = (set(range(first, first + lanes)) - covered) & targets.keys()
        if not mine:
            continue
        vectors = [
            text.instruction(f"load {text.vector}, ptr {text.row(base, s * size + first)}, align {text.bits // 8}")
            for s in range(lanes)
        ]
        for k, vector in enumerate(transposed(text, vectors)):
            if first + k in mine:
                text.store(vector, targets[first + k])
        covered |= mine


def store_rows(text: LlvmText, base: str, sources: Sequence[Callable[[], str]]) -> None:
    """Store vectors by lanes, each made by its source when its turn comes, as rows."""
    lanes, size = text.lanes, len(sources)
    if size == 1:
        text.lines.append(f"store {text.vector} {sources[0]()}, ptr {base}, align {text.bits // 8}")
        return
    if size < lanes:
        for k, source in enumerate(sources):
            vector = source()
            for s in range(lanes):
                number = text.instruction(f"extractelement {text.vector} {vector}, i64 {s}")
                text.lines.append(f"store {text.scalar} {number}, ptr {text.row(base, s * size + k)}")
        return
    for first in tiles_of(size, lanes):
        for s, vector in enumerate(transposed(text, [source() for source in sources[first : first + lanes]])):
            address = text.row(base, s * size + first)
            text.lines.append(f"store {text.vector} {vector}, ptr {address}, align {text.bits // 8}")


def loop_over_tiles(text: LlvmText, name: str, base: str, slots: Sequence[int]) -> str:
    """Store vectors by lanes, which are in these slots of the workspace, as rows; returns the table that it reads."""
    lanes, size = text.lanes, len(slots)
    firsts = tiles_of(size, lanes)
    bytes_each = text.bits // 8
    entries = [x for first in firsts for x in (first, *(k * lanes for k in slots[first : first + lanes]))]
    with text.loop(name, len(firsts)) as k:
        row = text.entry(f"{name}.table", k, lanes + 1)
        target = text.behind(base, row, 0)
        vectors = [text.load(text.behind("%w", row, 1 + k)) for k in range(lanes)]
        for s, vector in enumerate(transposed(text, vectors)):
            text.lines.append(f"store {text.vector} {vector}, ptr {text.row(target, s * size)}, align {bytes_each}")
    return llvm_table(f"{name}.table", [x * bytes_each for x in entries])


def tiles_of(size: int, lanes: int) -> list[int]:
    """Where squares of ``lanes`` begin that cover a row; the last may overlap the one before it."""
    return [*range(0, size - lanes + 1, lanes), *([size - lanes] if size % lanes else [])]


def transposed(text: LlvmText, rows: list[str]) -> list[str]:
    """Transpose a square of as many vectors as there are lanes: swap ever smaller blocks off its diagonal."""
    lanes = text.lanes
    distance = lanes // 2
    while distance:
        new = list(rows)
        low = [i if not i & distance else i - distance + lanes for i in range(lanes)]
        for i in range(lanes):
            if i & distance:
                continue
            first, second = rows[i], rows[i + distance]
            for position, shift in ((i, 0), (i + distance, distance)):
                mask = ", ".join(f"i32 {m + shift}" for m in low)
                new[position] = text.instruction(
                    f"shufflevector {text.vector} {first}, {text.vector} {second}, <{lanes} x i32> <{mask}>"
                )
        rows = new
        distance //= 2
    return rows
