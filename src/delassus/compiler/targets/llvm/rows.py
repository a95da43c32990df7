"""LLVM assembly that turns the rows of as many states as there are lanes into vectors by lanes, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from delassus.compiler.targets.llvm.text import LlvmText, llvm_table

SLICE = 5
"""Numbers that say what a slice is."""


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
    """Store vectors by lanes, which are in these slots of the workspace, as rows; returns the table that it reads.

    Neighbours whose slots are below zero, in runs, are left out.
    """
    lanes, size = text.lanes, len(slots)
    runs = [[k for k, _ in run] for own, run in groupby(enumerate(slots), lambda x: x[1] >= 0) if own]
    firsts = [run[0] + first for run in runs for first in tiles_of(len(run), lanes)]
    bytes_each = text.bits // 8
    entries = [x for first in firsts for x in (first, *(k * lanes for k in slots[first : first + lanes]))]
    with text.loop(name, len(firsts)) as k:
        row = text.entry(f"{name}.table", k, lanes + 1)
        target = text.behind(base, row, 0)
        vectors = [text.load(text.behind("%w", row, 1 + k)) for k in range(lanes)]
        for s, vector in enumerate(transposed(text, vectors)):
            text.lines.append(f"store {text.vector} {vector}, ptr {text.row(target, s * size)}, align {bytes_each}")
    return llvm_table(f"{name}.table", [x * bytes_each for x in entries])


class Sent(NamedTuple):
    """Slice of a result that is sent.

    The slot of the workspace with the address of the result's row of the first state, the slice's first number, how
    many numbers a row of the result has, and slots of the slice's numbers.
    """

    pointer: int
    first: int
    size: int
    slots: list[int]


def send_rows(text: LlvmText, each: LlvmText, name: str, rows: Sequence[Sequence[Sent]]) -> list[str]:
    """Code that stores vectors by lanes as rows, of one slice ``%slice``, and of all slices of row ``%k`` of calls.

    Returns its tables. Slices whose numbers are in the same slots share a table of tiles.
    """
    lanes, bytes_each = text.lanes, text.bits // 8
    begins, tiles, slices, ends = dict[tuple[int, ...], tuple[int, int]](), list[int](), list[int](), [0]
    for row in rows:
        for part in row:
            if (key := tuple(part.slots)) not in begins:
                firsts = tiles_of(len(key), lanes)
                begins[key] = len(tiles) // (lanes + 1), len(firsts)
                for first in firsts:
                    tiles += [first * bytes_each, *(k * lanes * bytes_each for k in key[first : first + lanes])]
            slices += [part.pointer * lanes * bytes_each, part.first * bytes_each, part.size * bytes_each, *begins[key]]
        ends.append(len(slices) // SLICE)
    tables = [
        llvm_table(f"{name}of_tiles", tiles),
        llvm_table(f"{name}of_slices", slices),
        llvm_table(f"{name}of_rows", ends),
    ]

    def number(to: LlvmText, place: str, column: int) -> str:
        at = to.instruction(f"getelementptr i32, ptr {place}, i64 {column}")
        return to.instruction(f"zext i32 {to.instruction(f'load i32, ptr {at}')} to i64")

    base = text.instruction(f"load ptr, ptr {text.behind('%w0', '%slice', 0)}")
    base, step, begin, count = text.behind(base, "%slice", 1), *(number(text, "%slice", k) for k in (2, 3, 4))
    steps = [text.instruction(f"mul i64 {step}, {s}") for s in range(lanes)]
    with text.loop("tile", count) as k:
        row_ = text.entry(f"{name}of_tiles", text.instruction(f"add i64 {begin}, {k}"), lanes + 1)
        target = text.behind(base, row_, 0)
        vectors = [text.load(text.behind("%w0", row_, 1 + j)) for j in range(lanes)]
        for distance, vector in zip(steps, transposed(text, vectors), strict=True):
            place = text.instruction(f"getelementptr i8, ptr {target}, i64 {distance}")
            text.lines.append(f"store {text.vector} {vector}, ptr {place}, align {bytes_each}")
    row_ = each.entry(f"{name}of_rows", "%k", 1)
    begin, end = number(each, row_, 0), number(each, row_, 1)
    count = each.instruction(f"sub i64 {end}, {begin}")
    each.lines.append(f"br i1 {each.instruction(f'icmp eq i64 {count}, 0')}, label %over, label %some")
    each.lines.append("some:")
    with each.loop("each", count) as k:
        of_slice = each.entry(f"{name}of_slices", each.instruction(f"add i64 {begin}, {k}"), SLICE)
        each.lines.append(f"call void @{name}tiles(ptr %w0, ptr {of_slice})")
    each.lines += ["br label %over", "over:"]
    return tables


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
