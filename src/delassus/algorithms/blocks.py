"""Matrices put together from blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from delassus.algorithms.problem import Problem
from delassus.model.tree import Tree
from delassus.spatial.motion import diagonal
from delassus.spatial.ops import Matrix, Ops, Scalar

Blocks = Mapping[tuple[int, int], Matrix]


def assembled(ops: Ops, heights: Sequence[int], widths: Sequence[int], blocks: Blocks) -> Matrix:
    """Matrix from its blocks (r, c) of ``heights[r]`` rows and ``widths[c]`` columns; those missing are zero."""
    if not heights or not widths:
        return ops.zeros(sum(heights), sum(widths))
    rows = [[blocks.get((r, c), None) for c in range(len(widths))] for r in range(len(heights))]
    return ops.vstack([
        ops.hstack([ops.zeros(h, w) if block is None else block for w, block in zip(widths, row, strict=True)])
        for h, row in zip(heights, rows, strict=True)
    ])  # fmt: skip


def symmetric(ops: Ops, sizes: Sequence[int], blocks: Blocks) -> Matrix:
    """Symmetric matrix from blocks of one triangle."""
    other = {(c, r): ops.transpose(block) for (r, c), block in blocks.items() if r != c}
    return assembled(ops, sizes, sizes, {**blocks, **other})


def at_joints(ops: Ops, tree: Tree, values: Mapping[int, Scalar]) -> dict[tuple[int, int], Matrix]:
    """Diagonal blocks of the mass matrix that hold values at degrees of freedom, of links that have some."""
    return {
        (i, i): diagonal(ops, [values.get(k, 0.0) for k in range(sv.start, sv.stop)])
        for i, sv in enumerate(tree.v_slices)
        if any(k in values for k in range(sv.start, sv.stop))
    }


def together(ops: Ops, one: Blocks, other: Blocks) -> dict[tuple[int, int], Matrix]:
    """Sums of blocks of the mass matrix, ``other`` ones on its diagonal."""
    return {**one, **{at: ops.sym_add(one[at], block) if at in one else block for at, block in other.items()}}


class ConstraintBlocks:
    """Blocks of a symmetric matrix (m × m) by constraints, one triangle, that sums of blocks add up to.

    ``G = B G_ends Bᵀ`` ([OS] eq. 50): sign and relative pose of a constraint's second end are in its rows already, so
    that the blocks of ends only add.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.blocks: dict[tuple[int, int], Matrix] = {}

    def add(self, a: int, b: int, block: Matrix) -> None:
        """Add rows of constraint a by columns of constraint b, and the transpose at (b, a)."""
        ops = self._problem.ops
        if a == b:
            self.add_own(a, block + ops.transpose(block))
            return
        if a < b:
            a, b, block = b, a, ops.transpose(block)
        self.blocks[a, b] = self.blocks[a, b] + block if (a, b) in self.blocks else block

    def add_own(self, a: int, block: Matrix) -> None:
        """Add a symmetric matrix to the block of constraint a with itself."""
        sym_add = self._problem.ops.sym_add
        self.blocks[a, a] = sym_add(self.blocks[a, a], block) if (a, a) in self.blocks else block

    def delassus(self) -> Matrix:
        """Delassus matrix (m × m), of all blocks."""
        ops, constraints = self._problem.ops, self._problem.constraints
        G = symmetric(ops, [c.size for c in constraints], self.blocks)
        ops.mark("Delassus matrix", [G])
        return G
