"""Second derivatives of semi-implicit steps ``v⁺ = v + h q̈``, ``q⁺ = q ⊕ h v⁺``, in tangents on both sides.

With changes ``δ`` of the configuration before and ``u + δu`` of what it moves by, the tangent of ``q⁺`` is

    ``δ⁺ = Log(exp(−u) exp(δ) exp(u + δu)) = y + w + ½ [y, w] + …``,
    ``y = exp(−ad_u) δ``,   ``w = R δu + ½ ∂R δu δu + …``

with ``R = Σ (−ad_u)ⁿ / (n + 1)!``: by ``δ`` and ``δu`` half a bracket, by ``δu`` twice the rate of ``R``, its symmetric
part. All else is the chain rule, with second derivatives of accelerations (`second`). Columns are positions, velocities
and controls. Nothing here is from a source.
"""

from __future__ import annotations

from collections.abc import Sequence

from delassus.algorithms.dynamics.derivatives.curvature import symmetrised
from delassus.algorithms.dynamics.derivatives.second import Second, SecondDerivatives
from delassus.model.tree import Tree
from delassus.spatial.dual_ops import DualOps
from delassus.spatial.motion import ANGULAR, column, dot, force_matrix, scaled_matrix
from delassus.spatial.ops import Matrix, Ops, Scalar


class StepCurvature:
    """Second derivatives of a step along weights of its results.

    ``v_next`` are the velocities (nv) after it, ``by`` their derivatives (nv × 2 nv + n); ``h`` the time step.
    """

    def __init__(
        self, ops: Ops, tree: Tree, h: Scalar, v_next: Sequence[Scalar], by: Matrix, second: SecondDerivatives
    ) -> None:
        self._ops, self._tree, self._h, self._second = ops, tree, h, second
        self._u = [h * x for x in v_next]
        self._along_u = scaled_matrix(ops, h, by)
        joints = zip(tree.joints, tree.v_slices, strict=True)
        self._turns = [joint.kind.integrate_changes(ops, self._u[sv])[1] for joint, sv in joints]

    def along(self, of_q: Matrix, of_v: Matrix, of_forces: Matrix | None = None) -> Matrix:
        """Those (2 nv + n square) of ``w·q⁺ + w·v⁺``, and of constraint forces, with weights (nv × 1), (m × 1)."""
        ops, h = self._ops, self._h
        carried = ops.transpose(ops.block_diagonal(self._turns)) @ of_q
        weights = scaled_matrix(ops, h, of_v) + scaled_matrix(ops, h * h, carried)
        return self._whole(self._second.along(weights, of_forces)) + self._of_moves(of_q)

    def tensors(self) -> list[Matrix]:
        """Those of each number of ``[q⁺; v⁺]``."""
        ops, nv, h, joints = self._ops, self._tree.nv, self._h, zip(self._tree.joints, self._tree.v_slices, strict=True)
        turned = [k for joint, sv in joints if joint.nv > 1 for k in range(nv)[sv]]  # others move by h v⁺ itself
        turns = ops.take(ops.transpose(ops.block_diagonal(self._turns)), None, turned)
        weights = ops.hstack([scaled_matrix(ops, h, ops.eye(nv)), scaled_matrix(ops, h * h, turns)])
        found = self._second.along_each(weights, h)
        of_q = [self._whole(scaled) for _, scaled in found[:nv]]
        for k, (own, _) in zip(turned, found[nv:], strict=True):
            of_q[k] = self._whole(own) + self._of_moves(ops.put(ops.eye(1), (nv, 1), (k,), (0,)))
        return [*of_q, *(self._whole(own) for own, _ in found[:nv])]

    def _whole(self, x: Second) -> Matrix:
        ops = self._ops
        back = ops.transpose
        return ops.vstack([
            ops.hstack([x.qq, x.qv, x.qtau]),
            ops.hstack([back(x.qv), x.vv, x.vtau]),
            ops.hstack([back(x.qtau), back(x.vtau), x.tautau]),
        ])  # fmt: skip

    def _of_moves(self, weights: Matrix) -> Matrix:
        """Those of ``w·q⁺`` by how the configuration moves, beside those of its velocity."""
        ops, nv, width = self._ops, self._tree.nv, self._ops.shape(self._along_u)[1]
        total = ops.zeros(width, width)
        for i, sv in enumerate(self._tree.v_slices):
            rows = range(nv)[sv]
            if (found := _moved_curvature(ops, self._tree, i, self._u[sv], ops.take(weights, rows, None))) is None:
                continue
            by_both, by_u = found
            along = ops.take(self._along_u, rows, None)
            crossed = ops.put(by_both @ along, (width, width), rows, range(width))
            turned = ops.sym_product(ops.transpose(along), by_u @ along)
            total = total + turned + crossed + ops.transpose(crossed)
        return total


def _moved_curvature(
    ops: Ops, tree: Tree, i: int, u: Sequence[Scalar], weights: Matrix
) -> tuple[Matrix, Matrix] | None:
    """Second derivatives (nv × nv) of ``w · (q ⊕ u)`` of a joint by ``q`` and ``u``, and by ``u``; None of zeros."""
    joint, dual = tree.joints[i], DualOps(ops)
    n, axes = joint.nv, joint.motion_axes
    if n == 1 or not {*axes} & {*ANGULAR}:
        return None
    force = force_matrix(ops, ops.put(weights, (6, 1), axes, (0,)))
    with_q, with_u = (ops.put(x, (6, n), axes, range(n)) for x in joint.kind.integrate_changes(ops, u))
    by_both = scaled_matrix(ops, 0.5, ops.transpose(with_q) @ force @ with_u)
    turns = joint.kind.integrate_changes(dual, [dual.varied(x, k) for k, x in enumerate(u)])[1]
    carried = [dot(row, column(ops, weights)) for row in zip(*dual.entries(turns), strict=True)]
    return by_both, symmetrised(ops, dual.rates(carried, range(n)))
