"""Derivatives of constrained forward dynamics, by differentiating the system that its solution fulfils.

The residuals ``r = ID(q, v, q̈) − Jᵀ f − τ`` and ``g = J q̈ − γ`` are differentiated with q̈ and f held (`rates`,
`row_rates`); then, with ``B = M⁻¹ Jᵀ G⁻¹`` and ``A = M⁻¹ − B J M⁻¹``,

``∂q̈ = A ∂τ − A ∂r − B ∂g``,   ``∂f = Bᵀ (∂r − ∂τ) − G⁻¹ ∂g``.

Positions change along the tangent of `Tree.integrate`. Cost O(n d + m d) for the residuals, and one product of ``A``
with matrices as sparse as ``M`` (n² d) each. Source: Carpentier, Mansard, RSS 2018; Budhiraja et al., "Differential
dynamic programming for multi-phase rigid contact dynamics", Humanoids 2018.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from delassus.algorithms.dynamics.joint_space import JointSpace
from delassus.algorithms.dynamics.rates import Body, Rates, force_matrix
from delassus.algorithms.dynamics.row_rates import RowRates
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.osim.ltl import SparseFactor
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
        ops = self._ops
        rows = [
            ops.hstack([self._blocks.get((r, c), ops.zeros(h, w)) for c, w in enumerate(self._widths)])
            for r, h in enumerate(self._heights)
            if h
        ]
        return ops.vstack(rows) if rows else ops.zeros(0, sum(self._widths))


def derivatives(motion: DynamicsProblem) -> Derivatives:
    """Solution of a problem whose constraints are hard, with its derivatives."""
    ops, problem = motion.ops, motion.problem
    system = JointSpace(motion)
    m, nv = problem.n_rows, motion.tree.nv
    G = system.G
    factor = ops.factor(G) if m else None
    forces = ops.zeros(0, 1) if factor is None else factor.solve(system.missing)
    qdd = system.accelerations(forces)
    rates = Rates(motion, [ops.take(qdd, range(s.start, s.stop), None) for s in motion.tree.v_slices])
    rows = [RowRates(rates, c, ops.take(forces, range(r.start, r.stop), None)) for c, r in enumerate(problem.rows)]
    r_q, r_v = _residuals(rates, rows)
    if motion.damping is not None:
        r_v = r_v + ops.matrix([[d if i == j else 0.0 for j in range(nv)] for i, d in enumerate(motion.damping)])
    inverse = _inverse(motion, system.L)
    A = ops.sym_product(inverse, ops.transpose(inverse))
    if factor is None:
        none = ops.zeros(0, nv)
        return Derivatives(qdd, forces, G, -(A @ r_q), -(A @ r_v), A, none, none, none)
    Y = inverse @ ops.transpose(_dense(motion, system))
    Bt = factor.solve(ops.transpose(Y))
    A = ops.sym_subtract(A, ops.sym_product(Y, Bt))
    B = ops.transpose(Bt)
    out = []
    for r, positions in ((r_q, True), (r_v, False)):
        g = _row_changes(motion, rows, positions)
        out.append((-(A @ r) - B @ g, Bt @ r - factor.solve(g)))
    ops.mark("derivatives", [A, *out[0], *out[1]])
    return Derivatives(qdd, forces, G, out[0][0], out[1][0], A, out[0][1], out[1][1], -Bt)


def _inverse(motion: DynamicsProblem, L: SparseFactor) -> Matrix:
    """``L⁻¹`` (nv × nv), as sparse as ``L``."""
    ops, nv = motion.ops, motion.tree.nv
    rows: list[list[object]] = []
    for k, above in enumerate(L.ancestors):
        entries, reciprocal = ops.entries(L.rows[k])[0] if above else [], ops.entries(L.reciprocal[k])[0][0]
        row: list[object] = [0.0] * nv
        row[k] = reciprocal
        for c in above:
            total = None
            for position, i in enumerate(above):
                if i >= c:
                    term = entries[position] * rows[i][c]
                    total = term if total is None else total + term
            row[c] = -(reciprocal * total)
        rows.append(row)
    return ops.matrix(rows) if rows else ops.zeros(0, 0)


def _dense(motion: DynamicsProblem, system: JointSpace) -> Matrix:
    """``Y = J L⁻¹`` (m × nv)."""
    ops, nv = motion.ops, motion.tree.nv
    parts = []
    for c, columns in zip(motion.problem.constraints, system.Y, strict=True):
        parts.append(ops.hstack([columns.get(k, ops.zeros(c.size, 1)) for k in range(nv)]))
    return ops.vstack(parts)


def _residuals(rates: Rates, rows: list[RowRates]) -> tuple[Matrix, Matrix]:
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
    for row in rows:
        for j in row.joints():
            for link, change in row.columns(j, True).wrenches.items():
                for k in tree.support(link):
                    r_q.add(k, j, -(ops.transpose(rates.S[k]) @ change))
    return r_q.matrix(), r_v.matrix()


def _row_changes(motion: DynamicsProblem, rows: list[RowRates], positions: bool) -> Matrix:
    """``∂g/∂q`` or ``∂g/∂v`` (m × nv)."""
    out = _Blocks(motion, [c.size for c in motion.problem.constraints])
    for index, row in enumerate(rows):
        for j in row.joints():
            out.add(index, j, row.columns(j, positions).rows)
    return out.matrix()
