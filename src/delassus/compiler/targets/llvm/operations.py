"""LLVM assembly of each operation of a graph, on scalars or on vectors of lanes."""

from __future__ import annotations

from dataclasses import dataclass, field

from delassus.compiler.targets.llvm.text import LlvmText
from delassus.compiler.targets.llvm.trig import sincos
from delassus.spatial.trace.graph import Node
from delassus.spatial.trace.operations import OPERATIONS, Op, arity


@dataclass(slots=True)
class Operations:
    """Emits operations of a graph; ``values`` has the operand that stands for each node that is at hand."""

    text: LlvmText
    nodes: list[Node]
    numbers: list[float]
    has_fma: bool
    values: dict[int, str] = field(default_factory=dict)
    _pairs: dict[int, tuple[str, str]] = field(default_factory=dict)

    def operand(self, k: int) -> str:
        """Operand for a node: a constant, or what ``values`` has."""
        if k not in self.values:
            assert self.nodes[k][0] == Op.CONSTANT, f"node {k} is not at hand"
            self.values[k] = self.text.constant(self.numbers[k])
        return self.values[k]

    def emit(self, k: int) -> str:
        """Emit node ``k`` from its operands; returns the operand that stands for it."""
        op, *nodes = self.nodes[k]
        operands = [self.operand(x) for x in nodes[: arity(op)]]
        if op in (Op.SIN, Op.COS):
            if nodes[0] not in self._pairs:
                self._pairs[nodes[0]] = sincos(self.text, operands[0], self.has_fma)
            self.values[k] = self._pairs[nodes[0]][op == Op.COS]
        else:
            emit = OPERATIONS[op].llvm
            assert emit is not None
            self.values[k] = emit(self.text, *operands)
        return self.values[k]
