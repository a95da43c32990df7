"""PV-OSIM and PV-OSIMr as one algorithm: a single sweep that starts again at each link of a cut set.

Leaves → root as in PV-OSIM; at a link of the cut set ``C`` the constraints that have arrived, ``(K_c, L_c)``, are laid
aside and six virtual rows ``K = 1, L = 0`` go on in their place. At the world the virtual rows of c have the block
``L[c, c] = Ω_{0→c}`` and blocks with all other rows. Cut links are then expanded, root → leaves: ``K_c`` takes the
virtual rows back to the constraints, ``G[c, c] = L_c + K_c Ω_{0→c} K_cᵀ`` and ``G[c, ·] = K_c L[c, ·]``.

``C = ∅`` is PV-OSIM; ``C`` all branching links is PV-OSIMr up to the order of its products. Cost between O(n + m²) and
O(n + m² d). Source: [LQR] Algorithm 2; [r2] Algorithm 3; that a cut may be made at any subset is neither's.

Deviations: expanding one cut link after the other multiplies each ``K_c`` once, where [r2] eq. 19 carries every
end-effector over every branching link.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.osim.assemble import symmetric_from_blocks
from delassus.algorithms.osim.pv import Stack, merge, own_stacks
from delassus.algorithms.problem import Problem
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix


def virtual(link: int) -> int:
    """Label of the virtual rows of a cut link; those of constraints are their indices."""
    return -1 - link


def cut_osim(problem: Problem, cut: Collection[int]) -> Matrix:
    """Delassus matrix (m × m), with the cut set ``cut`` (indices of links)."""
    ops, tree = problem.ops, problem.tree
    body = Articulated(problem)
    aside: dict[int, Stack] = {}
    arriving: dict[int, list[Stack]] = {i: own_stacks(problem, i) for i in range(tree.n_links)}
    arriving[WORLD] = []

    # leaves → root: K and L of the constraints; at cut links an identity takes over
    for i in tree.leaves_to_root():
        if not arriving[i]:
            continue
        stack = merge(problem, arriving[i])
        if i in cut:
            aside[i] = stack
            stack = Stack((virtual(i),), ops.eye(6), ops.zeros(6, 6))
        p = tree.parents[i]
        L = ops.sym_add(stack.L, body.joint_quadratic(i, stack.K))
        K = body.rows_to_parent(i, stack.K) if p != WORLD else stack.K
        arriving[p].append(Stack(stack.constraints, K, L))

    # at the world: blocks of constraints and virtual rows
    blocks = _Blocks(problem)
    if arriving[WORLD]:
        whole = merge(problem, arriving[WORLD])
        blocks.add_stack(whole.constraints, whole.L)
    ops.mark("blocks at the world", blocks.values())

    # root → leaves: cut links expanded
    for c in sorted(aside):
        blocks.expand(virtual(c), aside[c])
    G = symmetric_from_blocks(problem, blocks.constraints_only())
    ops.mark("Delassus matrix", [G])
    return G


def _ranges(problem: Problem, labels: Sequence[int]) -> dict[int, range]:
    """Rows of a stack that belong to each label."""
    out, start = {}, 0
    for label in labels:
        size = problem.constraints[label].size if label >= 0 else 6
        out[label] = range(start, start + size)
        start += size
    return out


class _Blocks:
    """Symmetric matrix by blocks of labels (constraints and virtual rows), one triangle."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self._ops = problem, problem.ops
        self._blocks: dict[tuple[int, int], Matrix] = {}

    def values(self) -> list[Matrix]:
        """All blocks."""
        return list(self._blocks.values())

    def constraints_only(self) -> dict[tuple[int, int], Matrix]:
        """Blocks (c, d), c ≥ d, of constraints."""
        return {key: block for key, block in self._blocks.items() if min(key) >= 0}

    def add_stack(self, labels: Sequence[int], L: Matrix) -> None:
        """Add a symmetric matrix whose rows are those of ``labels``."""
        rows = _ranges(self._problem, labels)
        for position, a in enumerate(labels):
            for b in labels[: position + 1]:
                self._add(a, b, self._ops.take(L, rows[a], rows[b]))

    def _add(self, a: int, b: int, block: Matrix) -> None:
        ops = self._ops
        if a < b:
            a, b, block = b, a, ops.transpose(block)
        if (a, b) in self._blocks:
            old = self._blocks[a, b]
            block = ops.sym_add(old, block) if a == b else old + block
        self._blocks[a, b] = block

    def expand(self, label: int, stack: Stack) -> None:
        """Replace virtual rows by those of the stack that they stood for."""
        ops = self._ops
        touching = {key: block for key, block in self._blocks.items() if label in key}
        for key in touching:
            del self._blocks[key]
        rows = _ranges(self._problem, stack.constraints)

        # with themselves: L_c + K_c Ω K_cᵀ
        Omega = touching.pop((label, label))
        own = ops.sym_product(stack.K @ Omega, ops.transpose(stack.K))
        self.add_stack(stack.constraints, ops.sym_add(stack.L, own))

        # with all others: K_c L[c, ·]
        for (a, b), block in touching.items():
            other = b if a == label else a
            product = stack.K @ (block if a == label else ops.transpose(block))
            for c, r in rows.items():
                part = ops.take(product, r, None)
                self._add(c, other, part if c != other else part + ops.transpose(part))
