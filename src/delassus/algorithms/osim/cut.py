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

from collections.abc import Collection

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.blocks import ConstraintBlocks
from delassus.algorithms.osim.pv import Stack, merge, rows_of, stacks_of_ends, to_parent
from delassus.algorithms.problem import Problem
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix


def cut_osim(problem: Problem, cut: Collection[int]) -> Matrix:
    """Delassus matrix (m × m), with the cut set ``cut`` (indices of links)."""
    ops, tree = problem.ops, problem.tree
    body, arriving = Articulated(problem), stacks_of_ends(problem)
    aside: dict[int, Stack] = {}

    # leaves → root: K and L of the constraints; at cut links an identity takes over, but for rows on their joint
    for i in tree.leaves_to_root():
        if arriving[i]:
            stack = merge(problem, arriving[i])
            if i in cut:
                on_joint = [s for s in arriving[i] if s.C is not None]
                aside[i] = merge(problem, [s for s in arriving[i] if s.C is None])
                stack = merge(problem, [Stack((_virtual(i),), ops.eye(6), ops.zeros(6, 6)), *on_joint])
            arriving[tree.parents[i]].append(to_parent(problem, body, i, stack))

    # at the world: blocks of constraints and virtual rows
    G = ConstraintBlocks(problem)
    _add_stack(G, problem, merge(problem, arriving[WORLD]))
    ops.mark("blocks at the world", list(G.blocks.values()))

    # root → leaves: G[c, c] = L_c + K_c Ω K_cᵀ, G[c, ·] = K_c L[c, ·]
    for i in sorted(aside):
        c, stack = _virtual(i), aside[i]
        of_c = {key: G.blocks.pop(key) for key in list(G.blocks) if c in key}
        Omega = ops.sym_product(stack.K @ of_c.pop((c, c)), ops.transpose(stack.K))
        _add_stack(G, problem, Stack(stack.constraints, stack.K, ops.sym_add(stack.L, Omega)))
        for (a, b), block in of_c.items():
            KL = stack.K @ (block if a == c else ops.transpose(block))
            for constraint, rows in rows_of(problem, stack.constraints).items():
                G.add(constraint, b if a == c else a, ops.take(KL, rows, None))
    return G.delassus()


def _virtual(link: int) -> int:
    """Label of the virtual rows of a cut link; those of constraints are their indices."""
    return -1 - link


def _add_stack(G: ConstraintBlocks, problem: Problem, stack: Stack) -> None:
    rows = list(rows_of(problem, stack.constraints).items())
    for k, (a, at) in enumerate(rows):
        G.add_own(a, problem.ops.take(stack.L, at, at))
        for b, others in rows[:k]:
            G.add(a, b, problem.ops.take(stack.L, at, others))
