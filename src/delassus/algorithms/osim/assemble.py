"""From blocks of constraints or end-effectors to the whole symmetric matrix."""

from __future__ import annotations

from delassus.algorithms.problem import Problem
from delassus.spatial.ops import Matrix


def symmetric_from_blocks(problem: Problem, blocks: dict[tuple[int, int], Matrix]) -> Matrix:
    """Matrix (m × m) from blocks (c, d) of constraints with c ≥ d; those that are missing are zero."""
    ops, constraints = problem.ops, problem.constraints
    rows = []
    for c, first in enumerate(constraints):
        row = []
        for d, second in enumerate(constraints):
            if (c, d) in blocks:
                row.append(blocks[c, d])
            elif (d, c) in blocks:
                row.append(ops.transpose(blocks[d, c]))
            else:
                row.append(ops.zeros(first.size, second.size))
        rows.append(ops.hstack(row))
    return ops.vstack(rows) if rows else ops.zeros(0, 0)


class EndBlocks:
    """Collects blocks of pairs of end-effectors into blocks of constraints: ``G = B G_ends Bᵀ`` ([OS] eq. 50).

    The sign and the relative pose of a constraint's second end are in its rows already, so that ``B`` only adds.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._blocks: dict[tuple[int, int], Matrix] = {}

    def add(self, e: int, f: int, block: Matrix) -> None:
        """Add the block of ends e and f (each pair once; the transposed pair is implied)."""
        ops = self._problem.ops
        c, d = self._problem.ends[e].constraint, self._problem.ends[f].constraint
        if c < d:
            c, d, block = d, c, ops.transpose(block)
        if e != f and c == d:  # the two ends of one constraint: the pair and its transpose
            block = block + ops.transpose(block)
        if (c, d) not in self._blocks:
            self._blocks[c, d] = block
        elif c == d:
            self._blocks[c, d] = ops.sym_add(self._blocks[c, d], block)
        else:
            self._blocks[c, d] = self._blocks[c, d] + block

    def matrix(self) -> Matrix:
        """The Delassus matrix (m × m)."""
        return symmetric_from_blocks(self._problem, self._blocks)
