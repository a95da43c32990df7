"""Expression graphs: straight-line programs of scalar operations, and how many operations they hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class Op(IntEnum):
    """Kind of a node. Comparisons give 1.0 or 0.0; `SELECT` takes its second operand where its first is not zero."""

    INPUT = 0
    CONSTANT = 1
    ADD = 2
    SUBTRACT = 3
    MULTIPLY = 4
    DIVIDE = 5
    NEGATE = 6
    SQRT = 7
    SIN = 8
    COS = 9
    ATAN2 = 10
    FABS = 11
    COPYSIGN = 12
    MIN = 13
    MAX = 14
    LESS = 15
    LESS_EQUAL = 16
    EQUAL = 17
    NOT_EQUAL = 18
    NOT = 19
    AND = 20
    OR = 21
    SELECT = 22

    __hash__ = int.__hash__  # graphs look operations up by the million


COMMUTATIVE = frozenset({Op.ADD, Op.MULTIPLY, Op.EQUAL, Op.NOT_EQUAL, Op.AND, Op.OR})
UNARY = frozenset({Op.NEGATE, Op.SQRT, Op.SIN, Op.COS, Op.FABS, Op.NOT})
LEAVES = frozenset({Op.INPUT, Op.CONSTANT})


def arity(op: int) -> int:
    """Number of operands."""
    if op in LEAVES:
        return 0
    return 1 if op in UNARY else 3 if op == Op.SELECT else 2


@dataclass(frozen=True, slots=True)
class OperationCount:
    """Numbers of arithmetic operations by kind.

    Attributes
    ----------
    mul, add, neg, div, sqrt, trig, other : int
        Multiplications; additions and subtractions; negations; divisions; square roots; sines, cosines and arc
        tangents; comparisons, selections and the like.
    """

    mul: int = 0
    add: int = 0
    neg: int = 0
    div: int = 0
    sqrt: int = 0
    trig: int = 0
    other: int = 0

    @property
    def total(self) -> int:
        """All of them, one each."""
        return sum(self.as_tuple())

    def __add__(self, other: OperationCount) -> OperationCount:
        mine, theirs = self.as_tuple(), other.as_tuple()
        return OperationCount(*(a + b for a, b in zip(mine, theirs, strict=True)))

    def as_tuple(self) -> tuple[int, ...]:
        """The fields in order."""
        return self.mul, self.add, self.neg, self.div, self.sqrt, self.trig, self.other

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v}" for k, v in zip(_KINDS, self.as_tuple(), strict=True))
        return f"OperationCount({shown}, total={self.total})"


_KINDS = ("mul", "add", "neg", "div", "sqrt", "trig", "other")
_COUNTED_AS = {
    Op.MULTIPLY: "mul",
    Op.ADD: "add",
    Op.SUBTRACT: "add",
    Op.NEGATE: "neg",
    Op.DIVIDE: "div",
    Op.SQRT: "sqrt",
    Op.SIN: "trig",
    Op.COS: "trig",
    Op.ATAN2: "trig",
}


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A straight-line program; node k uses only nodes before it.

    Attributes
    ----------
    op : (n,) array of int
        Kind of each node.
    a, b, c : (n,) arrays of int
        Operands (−1 where there are none); of an input, the index of the input in ``a``.
    value : (n,) array of float
        Number of a constant.
    outputs : tuple of (k,) arrays of int
        Nodes that the program computes, in groups.
    """

    op: NDArray[np.int64]
    a: NDArray[np.int64]
    b: NDArray[np.int64]
    c: NDArray[np.int64]
    value: NDArray[np.float64]
    outputs: tuple[NDArray[np.int64], ...]

    def __len__(self) -> int:
        return len(self.op)

    def reachable(self, roots: Iterable[int], among: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
        """Mask of the nodes that ``roots`` depend on, themselves included, leaving out those not in ``among``."""
        seen = np.zeros(len(self), dtype=bool)
        allowed = np.ones(len(self), dtype=bool) if among is None else among
        pending = [int(r) for r in roots if allowed[r]]
        op, a, b, c = self.op.tolist(), self.a.tolist(), self.b.tolist(), self.c.tolist()
        while pending:
            k = pending.pop()
            if seen[k]:
                continue
            seen[k] = True
            if op[k] >= Op.ADD:
                for operand in (a[k], b[k], c[k]):
                    if operand >= 0 and allowed[operand] and not seen[operand]:
                        pending.append(operand)
        return seen

    def count(self, mask: NDArray[np.bool_] | None = None) -> OperationCount:
        """Count operations, of all nodes or of those in ``mask``."""
        kinds = self.op if mask is None else self.op[mask]
        numbers = np.bincount(kinds, minlength=len(Op))
        fields = dict.fromkeys(_KINDS, 0)
        for op in Op:
            if op not in LEAVES:
                fields[_COUNTED_AS.get(op, "other")] += int(numbers[op])
        return OperationCount(**fields)


class Builder:
    """Makes a graph node by node; equal nodes are made once (operands of commutative operations in either order)."""

    def __init__(self) -> None:
        self.op: list[int] = []
        self.a: list[int] = []
        self.b: list[int] = []
        self.c: list[int] = []
        self.value: list[float] = []
        self._made: dict[tuple[int, int, int, int], int] = {}
        self._constants: dict[str, int] = {}

    def node(self, op: int, a: int = -1, b: int = -1, c: int = -1) -> int:
        """Input or operation of that kind and operands, made if there is none yet."""
        if b < a and op in COMMUTATIVE:
            a, b = b, a
        key = (op, a, b, c)
        made = self._made.get(key)
        return self._append(key, 0.0) if made is None else made

    def constant(self, value: float) -> int:
        """Constant node."""
        key = float(value).hex()
        made = self._constants.get(key)
        if made is None:
            made = self._constants[key] = self._append((Op.CONSTANT, -1, -1, -1), float(value))
        return made

    def _append(self, key: tuple[int, int, int, int], value: float) -> int:
        op, a, b, c = key
        self.op.append(int(op))
        self.a.append(a)
        self.b.append(b)
        self.c.append(c)
        self.value.append(value)
        made = self._made[key] = len(self.op) - 1
        return made

    def graph(self, outputs: Iterable[Iterable[int]]) -> Graph:
        """The graph so far, with these groups of outputs."""
        op, a, b, c = (np.array(x, dtype=np.int64) for x in (self.op, self.a, self.b, self.c))
        groups = tuple(np.array(list(group), dtype=np.int64) for group in outputs)
        return Graph(op, a, b, c, np.array(self.value, dtype=float), groups)
