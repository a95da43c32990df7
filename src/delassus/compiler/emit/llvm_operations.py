"""LLVM assembly of each operation of a graph, on scalars or on vectors of lanes."""

from __future__ import annotations

from dataclasses import dataclass, field

from delassus.compiler.emit.llvm_text import LlvmText
from delassus.compiler.emit.trig import atan2, sincos
from delassus.spatial.graph import Graph, Op, arity

_BINARY = {Op.ADD: "fadd", Op.SUBTRACT: "fsub", Op.MULTIPLY: "fmul", Op.DIVIDE: "fdiv"}
_COMPARE = {Op.LESS: "olt", Op.LESS_EQUAL: "ole", Op.EQUAL: "oeq", Op.NOT_EQUAL: "une"}
_INTRINSIC = {Op.SQRT: "sqrt", Op.FABS: "fabs", Op.COPYSIGN: "copysign", Op.MIN: "minnum", Op.MAX: "maxnum"}


@dataclass(slots=True)
class Operations:
    """Emits operations; ``values`` has the operand that stands for each node that is at hand."""

    text: LlvmText
    graph: Graph
    has_fma: bool
    values: dict[int, str] = field(default_factory=dict)
    _pairs: dict[int, tuple[str, str]] = field(default_factory=dict)

    def operand(self, k: int) -> str:
        """Operand for a node: a constant, or what ``values`` has."""
        known = self.values.get(k)
        if known is None:
            assert self.graph.op[k] == Op.CONSTANT, f"node {k} is not at hand"
            known = self.values[k] = self.text.constant(float(self.graph.value[k]))
        return known

    def emit(self, k: int) -> str:
        """Emit node ``k`` from its operands; returns the operand that stands for it."""
        kind = int(self.graph.op[k])
        nodes = [int(x[k]) for x in (self.graph.a, self.graph.b, self.graph.c)[: arity(kind)]]
        if kind in (Op.SIN, Op.COS):
            if nodes[0] not in self._pairs:
                self._pairs[nodes[0]] = sincos(self.text, self.operand(nodes[0]), self.has_fma)
            self.values[k] = self._pairs[nodes[0]][0 if kind == Op.SIN else 1]
        else:
            self.values[k] = self._simple(kind, [self.operand(x) for x in nodes])
        return self.values[k]

    def _simple(self, kind: int, x: list[str]) -> str:
        text = self.text
        if kind in _BINARY:
            return text.binary(_BINARY[Op(kind)], x[0], x[1])
        if kind == Op.NEGATE:
            return text.negate(x[0])
        if kind == Op.ATAN2:
            return atan2(text, x[0], x[1])
        if kind in _INTRINSIC:
            return text.intrinsic(_INTRINSIC[Op(kind)], *x)
        zero, one = text.constant(0.0), text.constant(1.0)
        if kind in _COMPARE:
            return text.select(text.compare(_COMPARE[Op(kind)], x[0], x[1]), one, zero)
        if kind == Op.NOT:
            return text.select(text.compare("oeq", x[0], zero), one, zero)
        if kind in (Op.AND, Op.OR):
            first, second = (text.compare("une", y, zero) for y in x)
            name = "and" if kind == Op.AND else "or"
            return text.select(text.instruction(f"{name} {text.mask} {first}, {second}"), one, zero)
        assert kind == Op.SELECT
        return text.select(text.compare("une", x[0], zero), x[1], x[2])
