"""PV-OSIM: the Delassus matrix by a single sweep from the leaves.

Cost O(n + m² d). Source: [LQR] Algorithm 2; [r2] Algorithm 1.

Deviations: children's ``L`` are stacked block-diagonally as written, but where the two ends of one constraint meet,
their rows add (they share a multiplier): ``K = K_a + K_b`` (the sign is in ``K_b``) and ``L = L_a + L_b``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.problem import Problem
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix, Ops


@dataclass(frozen=True, slots=True)
class Stack:
    """Constraints supported by a link, as seen there.

    Attributes
    ----------
    constraints : tuple of int
        Their indices; a negative number stands for six virtual rows (see `delassus.algorithms.osim.cut`).
    K : (m_i, 6) matrix
        Their rows, propagated to the link.
    L : (m_i, m_i) matrix
        Their inverse inertia when the link is grounded.
    """

    constraints: tuple[int, ...]
    K: Matrix
    L: Matrix


def merge(problem: Problem, stacks: Sequence[Stack]) -> Stack:
    """Put the stacks that meet at a link on top of each other; ends of the same constraint add."""
    ops = problem.ops
    together = tuple(dict.fromkeys(c for s in stacks for c in s.constraints))
    K, L = ops.vstack([s.K for s in stacks]), ops.block_diagonal([s.L for s in stacks])
    listed = [c for s in stacks for c in s.constraints]
    if len(listed) > len(together):
        P = ops.constant(_sum_of_equals(problem, listed, together))
        K, L = P @ K, ops.sym_product(P @ L, ops.transpose(P))
    return Stack(together, K, L)


def _sum_of_equals(problem: Problem, listed: Sequence[int], together: Sequence[int]) -> object:
    """0/1 matrix that adds the rows of repeated constraints."""
    sizes = [_size(problem, c) for c in listed]
    starts = np.concatenate([[0], np.cumsum([_size(problem, c) for c in together])])
    P = np.zeros((starts[-1], sum(sizes)))
    column = 0
    for c, size in zip(listed, sizes, strict=True):
        row = starts[list(together).index(c)]
        P[row : row + size, column : column + size] = np.eye(size)
        column += size
    return P


def _size(problem: Problem, label: int) -> int:
    """Number of rows of a constraint, or of virtual rows."""
    return problem.constraints[label].size if label >= 0 else 6


def own_stacks(problem: Problem, link: int) -> list[Stack]:
    """Stacks of the end-effectors on a link itself."""
    ops: Ops = problem.ops
    sizes = [(e, ops.shape(e.K)[0]) for e in problem.ends_on(link)]
    return [Stack((e.constraint,), e.K, ops.zeros(m, m)) for e, m in sizes]


def stacks_at(problem: Problem, body: Articulated, stop: int) -> list[Stack]:
    """Sweep leaves → root down to the link ``stop`` (or the world) and return the stacks that arrive there."""
    ops, tree = problem.ops, problem.tree
    arriving: dict[int, list[Stack]] = {i: own_stacks(problem, i) for i in range(tree.n_links)}
    arriving[WORLD] = []
    for i in tree.leaves_to_root():
        if i == stop or not arriving[i]:
            continue
        stack = merge(problem, arriving[i])
        p = tree.parents[i]
        L = ops.sym_add(stack.L, body.joint_quadratic(i, stack.K))
        K = body.rows_to_parent(i, stack.K) if p != WORLD else stack.K
        arriving[p].append(Stack(stack.constraints, K, L))
    return arriving[stop]


def pv_osim(problem: Problem) -> Matrix:
    """Delassus matrix (m × m)."""
    ops = problem.ops
    body = Articulated(problem)
    G = in_order(problem, stacks_at(problem, body, WORLD))
    ops.mark("Delassus matrix", [G])
    return G


def in_order(problem: Problem, stacks: Sequence[Stack]) -> Matrix:
    """``L`` of stacks at the world, in the order of the constraints; those that nothing moves are zero."""
    ops = problem.ops
    present = {c for s in stacks for c in s.constraints}
    unmoved = [
        Stack((c,), ops.zeros(size.size, 6), ops.zeros(size.size, size.size))
        for c, size in enumerate(problem.constraints)
        if c not in present
    ]
    if not problem.constraints:
        return ops.zeros(0, 0)
    return ordered(problem, [*stacks, *unmoved]).L


def ordered(problem: Problem, stacks: Sequence[Stack]) -> Stack:
    """Stacks that hold every constraint, merged in the order of the constraints."""
    ops = problem.ops
    whole = merge(problem, stacks)
    start = dict(zip(whole.constraints, _starts(problem, whole.constraints), strict=True))
    order = [start[c] + k for c in range(len(problem.constraints)) for k in range(problem.constraints[c].size)]
    every = tuple(range(len(problem.constraints)))
    return Stack(every, ops.take(whole.K, order, None), ops.take(whole.L, order, order))


def _starts(problem: Problem, constraints: Sequence[int]) -> list[int]:
    return [int(s) for s in np.cumsum([0, *(problem.constraints[c].size for c in constraints)])[:-1]]
