"""Derivatives of velocity products of two velocities, as of steps (`delassus.algorithms.contact.mean_products`).

They are those of ``r(g, y) = M g + h (Γ(v, v + y) − τ)``, which is zero for ``r(y₁, 0)`` and ``r(y₂, y₁)``: of
``M (v⁺ − v) + h (c − τ) − w`` they are ``∂r(v⁺ − v, y₂) − Z (∂r(y₂, y₁) − Z ∂r(y₁, 0))``, ``Z = h Γ(v, ·) M⁻¹``.
"""

from __future__ import annotations

from collections.abc import Sequence

from delassus.algorithms.contact.mean_products import dofs_with_products
from delassus.algorithms.dynamics.derivatives.accelerations import force_changes
from delassus.algorithms.dynamics.derivatives.rates import CrossedRates, Rates
from delassus.algorithms.dynamics.derivatives.rows import RowChanges
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.sparse_factor import SparseFactor
from delassus.spatial.motion import column, diagonal, plus, scaled_matrix
from delassus.spatial.ops import Matrix, Scalar


class Products:
    """Velocity products ``Γ(v, v + y)`` of a motion, ``c(v)`` where no ``y`` (nv) is given.

    What is ``like`` are those of the same motion without ``y``, whose first changes count here, too: without those of
    constraints, which are none but where some are ``acted`` on.

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
        self, motion: DynamicsProblem, y: Sequence[Scalar] | None = None, like: Products | None = None,
        acted: bool = False,
    ) -> None:  # fmt: skip
        ops, joints, self._motion, self._like = motion.ops, motion.tree.root_to_leaves(), motion, like
        self.y, self._half, self._acted = y, None, acted
        self._found: tuple[Sequence[Scalar], Rates, tuple[Matrix, Matrix]] | None = None
        self.axes = [x for i in joints for x in column(ops, motion.velocity_product(i))]
        changes = [motion.velocity_product_changes(i) for i in joints]
        if y is not None:
            half = motion.by_joint([0.5 * x for x in y])
            own = [change @ half[i] for i, change in zip(joints, changes, strict=True)]
            self.axes = plus(self.axes, [x for a in own for x in column(ops, a)])
            self._half = motion.without_forces([0.5 * x for x in y])
            changes = [x + self._half.velocity_product_changes(i) for i, x in zip(joints, changes, strict=True)]
        self.with_axes = ops.block_diagonal(changes)

    def force_changes(
        self, qdd: Sequence[Scalar], M: Matrix, acting: Sequence[RowChanges] = ()
    ) -> tuple[Matrix, Matrix]:  # fmt: skip
        """Changes (nv × nv) of joint forces at accelerations (nv) with positions and velocities.

        Those of the constraints ``acting`` are taken off.
        """
        motion = self._motion
        if self._half is None or self._like is None:
            return self._at(qdd, M, acting)
        if self._like._found is None:
            self._like._at(qdd, M)
        assert self._like._found is not None
        at, rates, plain = self._like._found  # accelerations, and changes at these
        further = [0.0 if a is b else a - b for a, b in zip(qdd, at, strict=True)]
        crossed = force_changes(CrossedRates(rates, self._half, motion.by_joint(further)), M, acting)
        return plain[0] + crossed[0], plain[1] + crossed[1]

    def _at(
        self, qdd: Sequence[Scalar], M: Matrix, acting: Sequence[RowChanges] = ()
    ) -> tuple[Matrix, Matrix]:  # fmt: skip
        rates = Rates(self._motion, self._motion.by_joint(qdd))
        changes = force_changes(rates, M, acting)
        if self._found is None:
            self._found = qdd, rates, force_changes(rates, M) if self._acted and acting else changes
        return changes

    def matrix(self, h: Scalar, M: Matrix, with_v: Matrix) -> Matrix:
        """``h Γ(v + y/2, ·)`` (nv × nv) of what has ``w``, from changes of joint forces with velocities."""
        motion, ops, nv = self._motion, self._motion.ops, self._motion.tree.nv
        change = with_v - M @ self.with_axes
        if motion.damping is not None:
            change = change - diagonal(ops, motion.damping)
        dofs = sorted(dofs_with_products(motion))
        return ops.put(scaled_matrix(ops, 0.5 * h, ops.take(change, dofs, dofs)), (nv, nv), dofs, dofs)


def over_masses(motion: DynamicsProblem, L: SparseFactor, A: Matrix) -> Matrix:
    """``A M⁻¹`` (k × nv)."""
    ops = motion.ops
    (out,) = ops.by_column(lambda B: [L.solved(motion.stacked(L.solve_transpose(B)))], ops.transpose(A))
    return ops.transpose(out)
