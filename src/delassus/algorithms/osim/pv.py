"""PV-OSIM: the Delassus matrix by a single sweep from the leaves.

Cost O(n + m² d). Source: [LQR] Algorithm 2; [r2] Algorithm 1.

Deviations: children's ``L`` are stacked block-diagonally as written, but where the two ends of one constraint meet,
their rows add (they share a multiplier): ``K = K_a + K_b`` (the sign is in ``K_b``) and ``L = L_a + L_b``. Rows on a
joint start there, with ``K = 0``: ``C`` takes part in ``K S``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.problem import Problem
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix


@dataclass(frozen=True, slots=True)
class Stack:
    """Constraints as a link sees them.

    Attributes
    ----------
    constraints : sequence of int
        Their indices; a negative number stands for six virtual rows, see `cut`.
    K : (m_i, 6) matrix
        Their rows, propagated to the link.
    L : (m_i, m_i) matrix
        Their inverse inertia when the link is grounded.
    C : (m_i, n_i) matrix or None
        Their rows on the velocity of the link's joint.
    """

    constraints: Sequence[int]
    K: Matrix
    L: Matrix
    C: Matrix | None = None


def rows_of(problem: Problem, constraints: Sequence[int]) -> dict[int, range]:
    """Rows of each constraint in a stack."""
    out, start = dict[int, range](), 0
    for c in constraints:
        out[c] = range(start, start + (problem.constraints[c].size if c >= 0 else 6))
        start = out[c].stop
    return out


def merge(problem: Problem, stacks: Sequence[Stack], order: Sequence[int] | None = None) -> Stack:
    """One stack of all, in the order given, by default of their coming; constraints that no stack has are zero."""
    ops = problem.ops
    order = tuple(dict.fromkeys(c for s in stacks for c in s.constraints)) if order is None else order
    rows = rows_of(problem, order)
    m = sum(map(len, rows.values()))
    K, L, C = ops.zeros(m, 6), ops.zeros(m, m), None
    for s in stacks:
        at = [r for c in s.constraints for r in rows[c]]
        K, L = K + ops.put(s.K, (m, 6), at, range(6)), ops.sym_add(L, ops.put(s.L, (m, m), at, at))
        if s.C is not None:
            width = ops.shape(s.C)[1]
            own = ops.put(s.C, (m, width), at, range(width))
            C = own if C is None else C + own
    return Stack(order, K, L, C)


def stacks_of_ends(problem: Problem) -> dict[int, list[Stack]]:
    """Stacks that each link, or the world, starts with: those of its end-effectors, and of the rows on its joint."""
    out: dict[int, list[Stack]] = {i: [] for i in (WORLD, *problem.tree.root_to_leaves())}
    for end in problem.end_effectors:
        m = problem.constraints[end.constraint].size
        out[end.link].append(Stack((end.constraint,), end.K, problem.ops.zeros(m, m)))
    for on_joint in problem.joint_space_rows:
        m = problem.constraints[on_joint.constraint].size
        none = problem.ops.zeros(m, 6), problem.ops.zeros(m, m)
        out[on_joint.link].append(Stack((on_joint.constraint,), *none, on_joint.C))
    return out


def to_parent(problem: Problem, body: Articulated, i: int, stack: Stack) -> Stack:
    """``L + K S D⁻¹ Sᵀ Kᵀ`` and ``K A``: the stack of link i as its parent sees it ([LQR] Algorithm 2)."""
    L = problem.ops.sym_add(stack.L, body.joint_quadratic(i, stack.K, stack.C))
    K = stack.K if problem.tree.parents[i] == WORLD else body.rows_to_parent(i, stack.K, stack.C)
    return Stack(stack.constraints, K, L)


def stacks_at(problem: Problem, body: Articulated, stop: int) -> list[Stack]:
    """Stacks that arrive at the link ``stop``, or at the world."""
    arriving = stacks_of_ends(problem)

    # leaves → root: K and L of the constraints
    for i in problem.tree.leaves_to_root():
        if arriving[i] and i != stop:
            arriving[problem.tree.parents[i]].append(to_parent(problem, body, i, merge(problem, arriving[i])))
    return arriving[stop]


def pv_osim(problem: Problem) -> Matrix:
    """Delassus matrix (m × m)."""
    stacks = stacks_at(problem, Articulated(problem), WORLD)
    G = merge(problem, stacks, range(len(problem.constraints))).L
    problem.ops.mark("Delassus matrix", [G])
    return G
