"""Derivatives of constrained forward dynamics, by differentiating the system that its solution fulfils.

The residuals ``r = ID(q, v, q̈) − Jᵀ f − τ`` and ``g = J q̈ − γ`` are differentiated with q̈ and f held (`rates`,
`row_rates`); then, with ``M = Lᵀ L`` and ``Y = J L⁻¹`` (`joint_space`), ``W = L⁻ᵀ ∂r``,

``∂f = G⁻¹ (Y W − ∂g)``,   ``∂q̈ = L⁻¹ (Yᵀ ∂f − W)``,

and with joint forces ``∂f/∂τ = −G⁻¹ J M⁻¹``, ``∂q̈/∂τ = M⁻¹ − M⁻¹ Jᵀ G⁻¹ J M⁻¹``, one triangle of it. Positions change
along the tangent of `Tree.integrate`. Cost O(n d + m d) for the residuals; ``W`` is as sparse as ``M``, so that the
rest, O(n² d + n m d + n m²), is mostly ``L⁻¹`` applied to full matrices. Source: Carpentier, Mansard, RSS 2018;
Budhiraja et al., "Differential dynamic programming for multi-phase rigid contact dynamics", Humanoids 2018.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from delassus.algorithms.dynamics.joint_space import JointSpace
from delassus.algorithms.dynamics.rates import Body, Rates, force_matrix
from delassus.algorithms.dynamics.row_rates import Columns, RowRates
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.model.tree import WORLD
from delassus.spatial.motion import ANGULAR
from delassus.spatial.ops import Matrix

DERIVATIVES: Mapping[str, str] = MappingProxyType(
    {
        "dqdd_dq": "change of joint accelerations with positions, along the tangent of the configuration",
        "dqdd_dv": "change of joint accelerations with velocities",
        "dqdd_dtau": "change of joint accelerations with joint forces",
        "df_dq": "change of constraint forces with positions, along the tangent of the configuration",
        "df_dv": "change of constraint forces with velocities",
        "df_dtau": "change of constraint forces with joint forces",
    }
)
"""Names of the derivatives, and what they are."""


@dataclass(frozen=True, slots=True, eq=False)
class Derivatives:
    """Solution and its derivatives.

    Attributes
    ----------
    qdd, forces : (nv, 1), (m, 1) matrices
    delassus : (m, m) matrix
        Its rank says whether they are unique.
    dqdd_dq, dqdd_dv, dqdd_dtau : (nv, nv) matrices
    df_dq, df_dv, df_dtau : (m, nv) matrices
    """

    qdd: Matrix
    forces: Matrix
    delassus: Matrix
    dqdd_dq: Matrix
    dqdd_dv: Matrix
    dqdd_dtau: Matrix
    df_dq: Matrix
    df_dv: Matrix
    df_dtau: Matrix


class _Blocks:
    """Matrix (rows × nv) that is put together from blocks of joints, structural zeros elsewhere."""

    def __init__(self, motion: DynamicsProblem, heights: list[int]) -> None:
        self._ops, self._heights = motion.ops, heights
        self._widths = [joint.nv for joint in motion.tree.joints]
        self._blocks: dict[tuple[int, int], Matrix] = {}

    def add(self, row: int, column: int, block: Matrix) -> None:
        """Add to one block."""
        known = self._blocks.get((row, column))
        self._blocks[row, column] = block if known is None else known + block

    def matrix(self) -> Matrix:
        """All of it."""
        ops, heights, widths = self._ops, self._heights, self._widths
        if not heights or not widths:
            return ops.zeros(sum(heights), sum(widths))
        return ops.vstack([
            ops.hstack([self._blocks.get((r, c), ops.zeros(h, w)) for c, w in enumerate(widths)])
            for r, h in enumerate(heights)
        ])  # fmt: skip


def derivatives(motion: DynamicsProblem) -> Derivatives:
    """Solution of a problem whose constraints are hard, with its derivatives."""
    ops, nv = motion.ops, motion.tree.nv
    system = JointSpace(motion)
    factor = ops.factor(system.G) if motion.problem.n_rows else None

    def solved(x: Matrix) -> Matrix:
        return x if factor is None else factor.solve(x)

    forces = solved(system.missing)
    qdd = system.accelerations(forces)
    rates = Rates(motion, [ops.take(qdd, range(s.start, s.stop), None) for s in motion.tree.v_slices])
    parts = [ops.take(forces, range(s.start, s.stop), None) for s in motion.problem.rows]
    rows = [RowRates(rates, index, part) for index, part in enumerate(parts)]

    # L⁻ᵀ, J M⁻¹ and the derivatives with joint forces
    root = system.over_transpose(ops.eye(nv))
    response = system.along_rows(root)
    df_dtau = -solved(response)
    dqdd_dtau = ops.sym_add(
        ops.sym_product(ops.transpose(root), root), ops.sym_product(ops.transpose(response), df_dtau)
    )

    # those with positions and velocities
    by_position = [{j: row.columns(j, True) for j in row.joints()} for row in rows]
    by_velocity = [{j: row.columns(j, False) for j in row.joints()} for row in rows]
    r_q, r_v = _residuals(rates, rows, by_position)
    out = []
    for r, changes in ((r_q, by_position), (r_v, by_velocity)):
        W = system.over_transpose(r)
        df = solved(system.along_rows(W) - _row_changes(motion, changes))
        out.append((system.back(-W, df), df))
    ops.mark("derivatives", [dqdd_dtau, df_dtau, *out[0], *out[1]])
    return Derivatives(qdd, forces, system.G, out[0][0], out[1][0], dqdd_dtau, out[0][1], out[1][1], df_dtau)


def _residuals(
    rates: Rates, rows: Sequence[RowRates], by_position: Sequence[Mapping[int, Columns]]
) -> tuple[Matrix, Matrix]:
    """``∂r/∂q`` and ``∂r/∂v`` (nv × nv)."""
    motion = rates.motion
    ops, tree = motion.ops, motion.tree
    heights = [joint.nv for joint in tree.joints]
    r_q, r_v = _Blocks(motion, heights), _Blocks(motion, heights)
    beyond: list[Body] = list(rates.bodies)
    F = [rates.force(i) for i in range(tree.n_links)]
    for row in rows:
        for link, W in row.wrenches.items():
            F[link] = F[link] - W

    # leaves → root: all that lies beyond each joint
    for i in tree.leaves_to_root():
        p = tree.parents[i]
        if p != WORLD:
            beyond[p] = beyond[p].plus(ops, beyond[i])
            F[p] = F[p] + F[i]

    # changes of each joint's force with the joints above it, and of theirs with it
    for j in range(tree.n_links):
        S, psi, xi, phi, body = rates.S[j], rates.psi[j], rates.xi[j], rates.phi[j], beyond[j]
        alone = body.times(ops, xi) + body.rate_times(ops, psi)
        with_q = alone + force_matrix(ops, F[j]) @ S
        with_v = body.rate_times(ops, S) + body.times(ops, phi)
        St = ops.transpose(S)
        r_q.add(j, j, St @ alone)
        r_v.add(j, j, St @ with_v)
        g, b = ops.transpose(body.times(ops, S)), ops.transpose(body.rate_transposed_times(ops, S))
        for k in tree.support(j)[:-1]:
            above = ops.transpose(rates.S[k])
            r_q.add(k, j, above @ with_q)
            r_v.add(k, j, above @ with_v)
            r_q.add(j, k, g @ rates.xi[k] + b @ ops.take(rates.psi[k], ANGULAR, None))
            r_v.add(j, k, g @ rates.phi[k] + b @ ops.take(rates.S[k], ANGULAR, None))

    # wrenches that do not move with their links
    for changes in by_position:
        for j, columns in changes.items():
            for link, change in columns.wrenches.items():
                for k in tree.support(link):
                    r_q.add(k, j, -(ops.transpose(rates.S[k]) @ change))
    for j, slots in enumerate(tree.v_slices):
        if motion.damping is not None:
            d = motion.damping[slots]
            r_v.add(j, j, ops.matrix([[x if a == b else 0.0 for b in range(len(d))] for a, x in enumerate(d)]))
    return r_q.matrix(), r_v.matrix()


def _row_changes(motion: DynamicsProblem, changes: Sequence[Mapping[int, Columns]]) -> Matrix:
    """``∂g`` (m × nv)."""
    out = _Blocks(motion, [c.size for c in motion.problem.constraints])
    for index, of_joints in enumerate(changes):
        for j, columns in of_joints.items():
            out.add(index, j, columns.rows)
    return out.matrix()
