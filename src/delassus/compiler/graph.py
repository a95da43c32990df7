"""Expression graphs: straight-line programs of scalar operations, and how many operations they hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray


class Op(IntEnum):
    """Kind of a node."""

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


COMMUTATIVE = frozenset({Op.ADD, Op.MULTIPLY})
UNARY = frozenset({Op.NEGATE, Op.SQRT, Op.SIN, Op.COS})
BINARY = frozenset({Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.DIVIDE})


@dataclass(frozen=True, slots=True)
class OperationCount:
    """Numbers of arithmetic operations by kind.

    Attributes
    ----------
    mul, add, neg, div, sqrt, trig : int
        Multiplications; additions and subtractions; negations; divisions; square roots; sines and cosines.
    """

    mul: int = 0
    add: int = 0
    neg: int = 0
    div: int = 0
    sqrt: int = 0
    trig: int = 0

    @property
    def total(self) -> int:
        """All of them, one each."""
        return self.mul + self.add + self.neg + self.div + self.sqrt + self.trig

    def __add__(self, other: OperationCount) -> OperationCount:
        mine, theirs = self.as_tuple(), other.as_tuple()
        return OperationCount(*(a + b for a, b in zip(mine, theirs, strict=True)))

    def as_tuple(self) -> tuple[int, ...]:
        """The fields in order."""
        return self.mul, self.add, self.neg, self.div, self.sqrt, self.trig

    def __repr__(self) -> str:
        kinds = ("mul", "add", "neg", "div", "sqrt", "trig")
        shown = ", ".join(f"{k}={v}" for k, v in zip(kinds, self.as_tuple(), strict=True))
        return f"OperationCount({shown}, total={self.total})"


_COUNTED_AS = {
    Op.MULTIPLY: "mul",
    Op.ADD: "add",
    Op.SUBTRACT: "add",
    Op.NEGATE: "neg",
    Op.DIVIDE: "div",
    Op.SQRT: "sqrt",
    Op.SIN: "trig",
    Op.COS: "trig",
}


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A straight-line program; node k uses only nodes before it.

    Attributes
    ----------
    op : (n,) array of int
        Kind of each node.
    a, b : (n,) arrays of int
        Operands (−1 where there are none); of an input, the index of the input in ``a``.
    value : (n,) array of float
        Number of a constant.
    outputs : tuple of (k,) arrays of int
        Nodes that the program computes, in groups.
    """

    op: NDArray[np.int64]
    a: NDArray[np.int64]
    b: NDArray[np.int64]
    value: NDArray[np.float64]
    outputs: tuple[NDArray[np.int64], ...]

    def __len__(self) -> int:
        return len(self.op)

    def reachable(self, roots: Iterable[int], among: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
        """Mask of the nodes that ``roots`` depend on, themselves included, leaving out those not in ``among``."""
        seen = np.zeros(len(self), dtype=bool)
        allowed = np.ones(len(self), dtype=bool) if among is None else among
        pending = [int(r) for r in roots if allowed[r]]
        op, a, b = self.op.tolist(), self.a.tolist(), self.b.tolist()
        while pending:
            k = pending.pop()
            if seen[k]:
                continue
            seen[k] = True
            if op[k] >= Op.ADD:
                for operand in (a[k], b[k]):
                    if operand >= 0 and allowed[operand] and not seen[operand]:
                        pending.append(operand)
        return seen

    def count(self, mask: NDArray[np.bool_] | None = None) -> OperationCount:
        """Count operations, of all nodes or of those in ``mask``."""
        kinds = self.op if mask is None else self.op[mask]
        numbers = np.bincount(kinds, minlength=len(Op))
        fields = dict.fromkeys(("mul", "add", "neg", "div", "sqrt", "trig"), 0)
        for op, name in _COUNTED_AS.items():
            fields[name] += int(numbers[op])
        return OperationCount(**fields)


_FROM_CASADI = {
    ca.OP_ADD: Op.ADD,
    ca.OP_SUB: Op.SUBTRACT,
    ca.OP_MUL: Op.MULTIPLY,
    ca.OP_DIV: Op.DIVIDE,
    ca.OP_NEG: Op.NEGATE,
    ca.OP_SQRT: Op.SQRT,
    ca.OP_SIN: Op.SIN,
    ca.OP_COS: Op.COS,
}


def graph_of(inputs: Sequence[Any], outputs: Sequence[Any]) -> Graph:
    """Graph of CasADi ``SX`` column vectors ``outputs``, one group each, as functions of the symbols ``inputs``."""
    function = ca.Function("graph", list(inputs), [ca.densify(o) for o in outputs])
    offset = np.concatenate([[0], np.cumsum([i.numel() for i in inputs])])
    op: list[int] = []
    a: list[int] = []
    b: list[int] = []
    value: list[float] = []

    def node(kind: Op, x: int = -1, y: int = -1, number: float = 0.0) -> int:
        op.append(kind)
        a.append(x)
        b.append(y)
        value.append(number)
        return len(op) - 1

    register: dict[int, int] = {}
    groups = [np.zeros(o.numel(), dtype=np.int64) for o in outputs]
    for k in range(function.n_instructions()):
        code = function.instruction_id(k)
        source, target = function.instruction_input(k), function.instruction_output(k)
        if code == ca.OP_INPUT:
            register[target[0]] = node(Op.INPUT, int(offset[source[0]]) + source[1])
        elif code == ca.OP_CONST:
            register[target[0]] = node(Op.CONSTANT, number=function.instruction_constant(k))
        elif code == ca.OP_OUTPUT:
            groups[target[0]][target[1]] = register[source[0]]
        elif code == ca.OP_SQ:
            register[target[0]] = node(Op.MULTIPLY, register[source[0]], register[source[0]])
        elif code == ca.OP_TWICE:
            register[target[0]] = node(Op.ADD, register[source[0]], register[source[0]])
        elif code == ca.OP_INV:
            one = node(Op.CONSTANT, number=1.0)
            register[target[0]] = node(Op.DIVIDE, one, register[source[0]])
        else:
            kind = _FROM_CASADI[code]
            operands = [register[s] for s in source]
            register[target[0]] = node(kind, *operands)
    return Graph(np.array(op), np.array(a), np.array(b), np.array(value), tuple(groups))
