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
        self._known: dict[tuple[int, int, int, int, str], int] = {}

    def node(self, op: int, a: int = -1, b: int = -1, c: int = -1, value: float = 0.0) -> int:
        """Node of that kind and operands, made if there is none yet."""
        if op in COMMUTATIVE and b < a:
            a, b = b, a
        key = (int(op), a, b, c, value.hex() if op == Op.CONSTANT else "")
        known = self._known.get(key)
        if known is not None:
            return known
        self.op.append(int(op))
        self.a.append(a)
        self.b.append(b)
        self.c.append(c)
        self.value.append(value)
        self._known[key] = len(self.op) - 1
        return len(self.op) - 1

    def constant(self, value: float) -> int:
        """Constant node."""
        return self.node(Op.CONSTANT, value=float(value))

    def graph(self, outputs: Iterable[Iterable[int]]) -> Graph:
        """The graph so far, with these groups of outputs."""
        arrays = [np.array(x, dtype=np.int64) for x in (self.op, self.a, self.b, self.c)]
        groups = tuple(np.array(list(group), dtype=np.int64) for group in outputs)
        return Graph(arrays[0], arrays[1], arrays[2], arrays[3], np.array(self.value, dtype=float), groups)


_FROM_CASADI = {
    ca.OP_ADD: Op.ADD,
    ca.OP_SUB: Op.SUBTRACT,
    ca.OP_MUL: Op.MULTIPLY,
    ca.OP_DIV: Op.DIVIDE,
    ca.OP_NEG: Op.NEGATE,
    ca.OP_SQRT: Op.SQRT,
    ca.OP_SIN: Op.SIN,
    ca.OP_COS: Op.COS,
    ca.OP_ATAN2: Op.ATAN2,
    ca.OP_FABS: Op.FABS,
    ca.OP_COPYSIGN: Op.COPYSIGN,
    ca.OP_FMIN: Op.MIN,
    ca.OP_FMAX: Op.MAX,
    ca.OP_LT: Op.LESS,
    ca.OP_LE: Op.LESS_EQUAL,
    ca.OP_EQ: Op.EQUAL,
    ca.OP_NE: Op.NOT_EQUAL,
    ca.OP_NOT: Op.NOT,
    ca.OP_AND: Op.AND,
    ca.OP_OR: Op.OR,
}


class _Raw(Builder):
    """A builder that makes every node anew: the graph as it was traced."""

    def node(self, op: int, a: int = -1, b: int = -1, c: int = -1, value: float = 0.0) -> int:
        self.op.append(int(op))
        self.a.append(a)
        self.b.append(b)
        self.c.append(c)
        self.value.append(value)
        return len(self.op) - 1


def graph_of(inputs: Sequence[Any], outputs: Sequence[Any]) -> Graph:
    """Graph of CasADi ``SX`` vectors ``outputs``, one group each, as functions of the symbols ``inputs``.

    Inputs are numbered in the order of the symbols, each in column-major order. Raises `NotImplementedError` for an
    operation of CasADi that graphs do not have.
    """
    function = ca.Function("graph", list(inputs), [ca.densify(o) for o in outputs])
    offset = np.concatenate([[0], np.cumsum([i.numel() for i in inputs])])
    raw = _Raw()
    register: dict[Any, int] = {}
    groups = [np.zeros(o.numel(), dtype=np.int64) for o in outputs]
    for k in range(function.n_instructions()):
        code = function.instruction_id(k)
        if code == ca.OP_OUTPUT:
            target, source = function.instruction_output(k), function.instruction_input(k)
            groups[target[0]][target[1]] = register[source[0]]
            continue
        slot = function.instruction_output(k)[0]
        if code == ca.OP_INPUT:
            group, entry = function.instruction_input(k)
            register[slot] = raw.node(Op.INPUT, int(offset[group]) + entry)
        elif code == ca.OP_CONST:
            register[slot] = raw.constant(function.instruction_constant(k))
        else:
            operands = [register[s] for s in function.instruction_input(k)]
            register[slot] = _translate(raw, code, operands)
    return raw.graph(groups)


def _translate(raw: Builder, code: int, operands: list[int]) -> int:
    if code == ca.OP_SQ:
        return raw.node(Op.MULTIPLY, operands[0], operands[0])
    if code == ca.OP_TWICE:
        return raw.node(Op.ADD, operands[0], operands[0])
    if code == ca.OP_INV:
        return raw.node(Op.DIVIDE, raw.constant(1.0), operands[0])
    if code == ca.OP_IF_ELSE_ZERO:
        return raw.node(Op.SELECT, operands[0], operands[1], raw.constant(0.0))
    if code not in _FROM_CASADI:
        raise NotImplementedError(f"CasADi operation {code} has no node kind")
    op = _FROM_CASADI[code]
    return raw.node(op, *operands[: arity(op)])
