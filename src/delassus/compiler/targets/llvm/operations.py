"""LLVM assembly of each operation of a graph, on scalars or on vectors of lanes."""

from __future__ import annotations

from dataclasses import dataclass, field

from delassus.compiler.targets.llvm.text import LlvmText
from delassus.spatial.trace.graph import Node
from delassus.spatial.trace.operations import OPERATIONS, Op
from delassus.spatial.trace.sincos import sincos

EMIT = [OPERATIONS[op].llvm if op in OPERATIONS else None for op in Op]
"""What emits each kind of node, but leaves, and sines and cosines, which are emitted in pairs."""


@dataclass(slots=True)
class Operations:
    """Emits operations of a graph; ``values`` has the operand that stands for each node that is at hand."""

    text: LlvmText
    nodes: list[Node]
    numbers: list[float]
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
        values = self.values
        operands = [values[x] if x in values else self.operand(x) for x in nodes if x >= 0]
        emit = EMIT[op]
        if emit is None:
            if nodes[0] not in self._pairs:
                self._pairs[nodes[0]] = sincos(self.text, operands[0])
            made = self._pairs[nodes[0]][op == Op.COS]
        else:
            made = emit(self.text, *operands)
        values[k] = made
        return made
