"""Velocity products over a step: those of the mean of the velocities before and after it.

Velocities belong to displacements and lie half a step behind configurations, so that forces of the configuration alone
make steps of order 2. The force ``c(v)`` of velocity products is ``Γ(v, v)``, bilinear and symmetric; with ``Γ(v, v⁺)``
it is of order 2 as well:

    M (v⁺ − v) = h (τ − Γ(v, v⁺)) = h (τ − c(v)) + w,    w = −h Γ(v, v⁺ − v),

which is symmetric in time, and nothing where ``v = 0`` (Kahan 1993). It is solved by iterations from ``w = 0``, so that
no matrix but ``M`` is factored: with ``B = h M⁻¹ Γ(v, ·)`` and the gain ``y₁ = h M⁻¹ (τ − c(v))`` they are ``y₂ = y₁ −
B y₁`` and ``y₁ − B y₂``. Two of them lose energy where links turn by up to 2 rad in a step, a part ``(h ω)⁴ / 4`` of
it; one gains it, as all do that have less than half of ``B² y₁``. Impulses do not count in ``w``.

Bodies that conserve momentum have no products; links that loops tie have a motion of their own, and no ``w``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.rnea import bias_change
from delassus.algorithms.sparse_factor import SparseFactor
from delassus.model.tree import Tree
from delassus.spatial.motion import ANGULAR, column, minus, scaled_matrix
from delassus.spatial.ops import Matrix, Scalar


class MeanProducts(NamedTuple):
    """``w`` (nv × 1), and what velocities gain (nv): ``y₁`` and ``y₂``, zero of what has no ``w``."""

    momentum: Matrix
    first: list[Scalar]
    second: list[Scalar]


def mean_products(motion: DynamicsProblem, h: Scalar, L: SparseFactor, y: Matrix) -> MeanProducts | None:
    """``w`` from ``y = L (v + h M⁻¹ (τ − c))`` (nv × 1); None where nothing has velocity products."""
    ops, turns = motion.ops, dofs_with_products(motion)
    if not turns:
        return None

    def change(gained: Sequence[Scalar]) -> Matrix:
        return scaled_matrix(ops, -0.5 * h, bias_change(motion, gained))

    gained = minus(column(ops, L.solved(y)), velocity_of(motion))
    first: list[Scalar] = [x if k in turns else 0.0 for k, x in enumerate(gained)]
    further = column(ops, L.solved(motion.stacked(L.solve_transpose(change(first)))))
    second: list[Scalar] = [x + further[k] if k in turns else 0.0 for k, x in enumerate(first)]
    return MeanProducts(change(second), first, second)


def dofs_with_products(motion: DynamicsProblem) -> frozenset[int]:
    """Degrees of freedom of all that has ``w``."""
    problem, tree = motion.problem, motion.tree
    without = {*problem.free_bodies, *(i for links, _ in problem.blocks_with_loops for i in links)}
    links = [i for own in tree.blocks([]) if has_products(tree, own) for i in own if i not in without]
    return frozenset(k for i in links for k in range(tree.v_slices[i].start, tree.v_slices[i].stop))


def has_products(tree: Tree, links: Sequence[int]) -> bool:
    """Whether there are velocity products of links that are joined: not of slides alone, nor about one fixed axis."""
    if len(links) == 1 and tree.joints[links[0]].nv < 2:
        return False
    return any(axis in ANGULAR for i in links for axis in tree.joints[i].motion_axes)


def velocity_of(motion: DynamicsProblem) -> list[Scalar]:
    """``v`` (nv)."""
    return [x for v in motion.v for x in column(motion.ops, v)]
