"""PV-OSIM-fast: ``G`` factorised without being formed.

With ``L_b`` block diagonal over the branches at the base, ``G = L_b + K_b (Hᴬ_b)⁻¹ K_bᵀ`` and by the inversion lemma
``G⁻¹ x = Λ_b x − Λ_b K_b (Hᴬ_b + K_bᵀ Λ_b K_b)⁻¹ K_bᵀ Λ_b x`` with ``Λ_b = L_b⁻¹``.

Cost O(n + m² d) for the sweep and O(m³ / r²) for r branches of equal size to factorise. Source: [LQR] VII-B, eq. 54.
Assumes that every branch block is invertible; `delassus.accuracy.operator` falls back to the factorisation of ``G``
where one is not.

Deviations: also for fixed bases, where there is no base term and ``G`` is block diagonal over the branches on the
world.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.osim.least_squares import UNMOVED, mobility_bound
from delassus.algorithms.osim.pv import Stack, merge, rows_of, stacks_at
from delassus.algorithms.problem import Problem
from delassus.model.tree import WORLD, Tree
from delassus.spatial.motion import column, from_entries
from delassus.spatial.ops import Matrix, Ops, Scalar


@dataclass(frozen=True, slots=True)
class Branches:
    """``G = L_b + K_b (Hᴬ_b)⁻¹ K_bᵀ``: a stack for each branch, and ``Hᴬ_b``, None where the base is fixed."""

    stacks: tuple[Stack, ...]
    H: Matrix | None


def branches(problem: Problem) -> Branches:
    """Sweep leaves → root down to the base."""
    tree = problem.tree
    body = Articulated(problem)
    base = 0 if has_base(tree) else WORLD
    arriving = [_on_link(problem, base, merge(problem, group)) for group in connected(stacks_at(problem, body, base))]
    problem.ops.mark("branch blocks", [part for s in arriving for part in (s.K, s.L)])
    return Branches(tuple(arriving), body.H[0] if base != WORLD else None)


def _on_link(problem: Problem, base: int, stack: Stack) -> Stack:
    """Rows on the joint of a link on the world are rows on its twist."""
    if stack.C is None:
        return stack
    ops, m = problem.ops, problem.ops.shape(stack.C)[0]
    on_twist = ops.put(stack.C, (m, 6), range(m), problem.tree.joints[base].motion_axes)
    return Stack(stack.constraints, stack.K + on_twist, stack.L)


def has_base(tree: Tree) -> bool:
    """Whether all links hang on one that moves freely."""
    return tree.is_floating and tree.parents.count(WORLD) == 1 and not tree.joints[0].armature.any()


def connected(stacks: Sequence[Stack]) -> list[list[Stack]]:
    """Group the stacks that share a constraint: the two ends of a loop through the base."""
    groups: list[list[Stack]] = []
    for stack in stacks:
        touching = [g for g in groups if any(set(s.constraints) & set(stack.constraints) for s in g)]
        groups = [g for g in groups if g not in touching] + [[s for g in touching for s in g] + [stack]]
    return groups


class FastFactor:
    """Factors of ``L_b``, ``Λ_b K_b``, and of the core ``Hᴬ_b + K_bᵀ Λ_b K_b``, which a fixed base does not have."""

    def __init__(self, problem: Problem, parts: Branches) -> None:
        ops = problem.ops
        self.blocks = [ops.factor(s.L) for s in parts.stacks]
        self.LambdaK: list[Matrix] = []
        self.core: Any = None
        if parts.H is not None:
            core = parts.H
            for stack, block in zip(parts.stacks, self.blocks, strict=True):
                LambdaK = block.solve(stack.K)
                core = ops.sym_add(core, ops.sym_product(ops.transpose(stack.K), LambdaK))
                self.LambdaK.append(LambdaK)
            self.core = ops.factor(core)
        ops.mark("factorisation", self.outputs())

    def outputs(self) -> list[Matrix]:
        """All numbers that `solve` needs."""
        factors = self.blocks if self.core is None else [*self.blocks, self.core]
        return [part for factor in factors for part in factor.parts()] + self.LambdaK

    def solve(self, ops: Ops, x: list[Matrix]) -> list[Matrix]:
        """``G⁻¹ x`` for ``x`` (m_i × k) by branch ([LQR] eq. 54, applied to a vector)."""
        y = [block.solve(part) for block, part in zip(self.blocks, x, strict=True)]
        if self.core is None or not y:
            return y
        force = ops.zeros(6, ops.shape(x[0])[1])
        for LambdaK, part in zip(self.LambdaK, x, strict=True):
            force = force + ops.transpose(LambdaK) @ part
        base = self.core.solve(force)
        return [part - LambdaK @ base for part, LambdaK in zip(y, self.LambdaK, strict=True)]


def branch_solution(problem: Problem, x: Matrix) -> tuple[Matrix, Scalar]:
    """``G⁻¹ x`` (m × 1), and 1 where all rows move on their branches (`mobility_bound`), else 0."""
    ops, parts, every = problem.ops, branches(problem), range(problem.n_rows)
    typical, given = mobility_bound(problem, Articulated(problem)), list[Matrix]()
    rows = cast("list[Scalar]", [0.0] * problem.n_rows)
    n_moved = len({c for s in parts.stacks for c in s.constraints})
    certain: Scalar = float(n_moved == len(problem.constraints))
    for stack in parts.stacks:
        own = [r for c in stack.constraints for r in every[problem.rows[c]]]
        given.append(ops.take(x, own, None))
        for k, r in enumerate(own):
            certain = certain * ops.less(UNMOVED * typical[r], ops.entries(stack.L)[k][k])
    for stack, part in zip(parts.stacks, FastFactor(problem, parts).solve(ops, given), strict=True):
        y = column(ops, part)
        for c, at in rows_of(problem, stack.constraints).items():
            rows[problem.rows[c]] = y[at.start : at.stop]
    return from_entries(ops, rows), certain
