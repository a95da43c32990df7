"""Velocity products over a step: those of the mean of the velocities before and after it.

Velocities belong to displacements and lie half a step behind configurations, so that forces of the configuration alone
make steps of order 2. The force ``c(v)`` of velocity products is ``Γ(v, v)``, bilinear and symmetric; with ``Γ(v, v⁺)``
it is of order 2 as well:

    M (v⁺ − v) = h (τ − Γ(v, v⁺)) = h (τ − c(v)) + w,    w = −h Γ(v, v⁺ − v),

which is symmetric in time, and nothing where ``v = 0`` (Kahan 1993). It is solved by iterations from ``w = 0``, so that
no matrix but ``M`` is factored: with ``B = h M⁻¹ Γ(v, ·)`` and the gain ``y₁ = h M⁻¹ (τ − c(v))`` they are ``y₂ = y₁ −
B y₁`` and ``y₁ − B y₂``. Two of them lose energy where links turn by up to 2 rad in a step, a part ``(h ω)⁴ / 4`` of
it; one gains it, as all do that have less than half of ``B² y₁``. Impulses do not count in ``w``.

Derivatives are those of ``r(g, y) = M g + h (Γ(v, v + y) − τ)``, which is zero for ``r(y₁, 0)`` and ``r(y₂, y₁)``: of
``M (v⁺ − v) + h (c − τ) − w`` they are ``∂r(v⁺ − v, y₂) − Z (∂r(y₂, y₁) − Z ∂r(y₁, 0))``, ``Z = h Γ(v, ·) M⁻¹``.

Bodies that conserve momentum have no products; links that loops tie have a motion of their own, and no ``w``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from delassus.algorithms.dynamics.derivatives.accelerations import force_changes
from delassus.algorithms.dynamics.derivatives.rates import CrossedRates, Rates
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.rnea import bias_change
from delassus.algorithms.sparse_factor import SparseFactor
from delassus.constraints import ConstraintRates
from delassus.model.tree import Tree
from delassus.spatial.motion import ANGULAR, column, diagonal, minus, plus, scaled_matrix
from delassus.spatial.ops import Matrix, Scalar


class Turned(NamedTuple):
    """``w`` (nv × 1), and what velocities gain (nv): ``y₁`` and ``y₂``, zero of what has no ``w``."""

    momentum: Matrix
    first: list[Scalar]
    second: list[Scalar]


def turned(motion: DynamicsProblem, h: Scalar, L: SparseFactor, y: Matrix) -> Turned | None:
    """``w`` from ``y = L (v + h M⁻¹ (τ − c))`` (nv × 1); None where nothing has velocity products."""
    ops, turns = motion.ops, turning_dofs(motion)
    if not turns:
        return None

    def change(gained: Sequence[Scalar]) -> Matrix:
        return scaled_matrix(ops, -0.5 * h, bias_change(motion, gained))

    gained = minus(column(ops, L.solved(y)), velocity_of(motion))
    first: list[Scalar] = [x if k in turns else 0.0 for k, x in enumerate(gained)]
    further = column(ops, L.solved(motion.stacked(L.solve_transpose(change(first)))))
    second: list[Scalar] = [x + further[k] if k in turns else 0.0 for k, x in enumerate(first)]
    return Turned(change(second), first, second)


def turning_dofs(motion: DynamicsProblem) -> frozenset[int]:
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


class _Found(NamedTuple):
    """Changes (nv × nv) of joint forces with positions and velocities, at accelerations (nv)."""

    qdd: Sequence[Scalar]
    rates: Rates
    changes: tuple[Matrix, Matrix]


class Products:
    """Velocity products ``Γ(v, v + y)`` of a motion, ``c(v)`` where no ``y`` (nv) is given.

    What is ``like`` are those of the same motion without ``y``, whose first changes count here, too.

    Attributes
    ----------
    y : list or None
        As given.
    axes : list
        ``ω × v`` (nv), by the same rule.
    with_axes : (nv, nv) matrix
        Its change with velocities.
    """

    def __init__(
        self, motion: DynamicsProblem, y: Sequence[Scalar] | None = None, like: Products | None = None
    ) -> None:  # fmt: skip
        ops, joints, self._motion, self._like = motion.ops, motion.tree.root_to_leaves(), motion, like
        self.y, self._half = y, None
        self._found: _Found | None = None
        self.axes = [x for i in joints for x in column(ops, motion.velocity_product(i))]
        changes = [motion.velocity_product_changes(i) for i in joints]
        if y is not None:
            half = motion.by_joint([0.5 * x for x in y])
            own = [change @ half[i] for i, change in zip(joints, changes, strict=True)]
            self.axes = plus(self.axes, [x for a in own for x in column(ops, a)])
            self._half = motion.without_forces(ops.state_vector([0.5 * x for x in y]))
            changes = [x + self._half.velocity_product_changes(i) for i, x in zip(joints, changes, strict=True)]
        self.with_axes = ops.block_diagonal(changes)

    def force_changes(
        self, qdd: Sequence[Scalar], M: Matrix, acting: Sequence[ConstraintRates] = ()
    ) -> tuple[Matrix, Matrix]:  # fmt: skip
        """Changes (nv × nv) of joint forces at accelerations (nv) with positions and velocities.

        Those of the constraints ``acting`` are taken off.
        """
        motion = self._motion
        if self._half is None or self._like is None:
            return self._at(qdd, M, acting).changes
        plain = self._like._found or self._like._at(qdd, M)
        further = [0.0 if a is b else a - b for a, b in zip(qdd, plain.qdd, strict=True)]
        crossed = force_changes(CrossedRates(plain.rates, self._half, motion.by_joint(further)), M, acting)
        return plain.changes[0] + crossed[0], plain.changes[1] + crossed[1]

    def _at(self, qdd: Sequence[Scalar], M: Matrix, acting: Sequence[ConstraintRates] = ()) -> _Found:
        rates = Rates(self._motion, self._motion.by_joint(qdd))
        found = _Found(qdd, rates, force_changes(rates, M, acting))
        self._found = self._found or found
        return found

    def matrix(self, h: Scalar, M: Matrix, with_v: Matrix) -> Matrix:
        """``h Γ(v + y/2, ·)`` (nv × nv) of what has ``w``, from changes of joint forces with velocities."""
        motion, ops, nv = self._motion, self._motion.ops, self._motion.tree.nv
        change = with_v - M @ self.with_axes
        if motion.damping is not None:
            change = change - diagonal(ops, motion.damping)
        dofs = sorted(turning_dofs(motion))
        return ops.put(scaled_matrix(ops, 0.5 * h, ops.take(change, dofs, dofs)), (nv, nv), dofs, dofs)


def over_masses(motion: DynamicsProblem, L: SparseFactor, A: Matrix) -> Matrix:
    """``A M⁻¹`` (k × nv)."""
    ops = motion.ops
    (out,) = ops.by_column(lambda B: [L.solved(motion.stacked(L.solve_transpose(B)))], ops.transpose(A))
    return ops.transpose(out)


def velocity_of(motion: DynamicsProblem) -> list[Scalar]:
    """``v`` (nv)."""
    return [x for v in motion.v for x in column(motion.ops, v)]
