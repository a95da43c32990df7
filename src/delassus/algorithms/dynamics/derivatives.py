"""Derivatives of constrained forward dynamics, by differentiating the system that its solution fulfils.

The residuals ``r = ID(q, v, q̈) − Jᵀ f − τ`` and ``g = J q̈ − γ`` are differentiated with q̈ and f held (`rates`,
`constraint_derivatives`); then, with ``M = Lᵀ L`` and ``Y = J L⁻¹`` (`joint_space`), ``W = L⁻ᵀ ∂r``,

``∂f = G⁻¹ (Y W − ∂g)``,   ``∂q̈ = L⁻¹ (Yᵀ ∂f − W)``,

and with joint forces ``∂f/∂τ = −G⁻¹ J M⁻¹``, ``A = ∂q̈/∂τ = M⁻¹ − M⁻¹ Jᵀ G⁻¹ J M⁻¹``, one triangle of it. Positions
change along the tangent of `Tree.integrate`. What changes on one limb is first carried to the trunk t (`_Division`),
``W_l = L_ll⁻ᵀ ∂r_l``, ``ρ = ∂r_t − L_ltᵀ W_l``; with ``σ = Y_l W_l − ∂g``, rows of one constraint only,

``∂f = G⁻¹ σ − ∂f/∂τ_t ρ``,   ``∂q̈ = −A_t ρ − (∂f/∂τ)ᵀ σ − L⁻¹ W_l``.

Limbs without constraints follow the others, by ``T`` of `SparseFactor.following`. Cost O(n d + m d) for the residuals,
O(n² + n m) for each degree of freedom of the trunk and for each of a limb's end. Source: Carpentier, Mansard, RSS 2018;
Budhiraja et al., "Differential dynamic programming for multi-phase rigid contact dynamics", Humanoids 2018.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from delassus.algorithms.dynamics.constraint_derivatives import Columns, ConstraintRates
from delassus.algorithms.dynamics.joint_space import JointSpace
from delassus.algorithms.dynamics.rates import Body, Rates, force_matrix
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


class _Division:
    """Degrees of freedom by what they bear, in ascending order.

    Attributes
    ----------
    leaders, followers : lists of int
        Those that bear constraints, or are the floating root's; all others.
    trunk, limbs : lists of int
        Those that bear several constraints, or are the floating root's; all others.
    """

    def __init__(self, motion: DynamicsProblem, system: JointSpace) -> None:
        self._ops, tree = motion.ops, motion.tree
        self._nv = tree.nv
        floating = range(tree.joints[0].nv) if tree.is_floating else ()
        bears = [2 if k in floating else sum(k in columns for columns in system.Y) for k in range(tree.nv)]
        self.leaders, self.followers = _split([n > 0 for n in bears])
        self.trunk, self.limbs = _split([n > 1 for n in bears])

    def rows(self, a: Matrix, which: list[int]) -> Matrix:
        """A matrix with zeros in all but some rows."""
        ops = self._ops
        width = ops.shape(a)[1]
        return ops.put(ops.take(a, which, None), (self._nv, width), which, range(width))

    def columns(self, a: Matrix, which: list[int]) -> Matrix:
        """A matrix whose columns are some of nv, with zeros in the others."""
        height = self._ops.shape(a)[0]
        return self._ops.put(a, (height, self._nv), range(height), which)

    def block(self, a: Matrix, which: list[int]) -> Matrix:
        """A matrix (nv × nv) with zeros in all but some rows and columns."""
        return self._ops.put(self._ops.take(a, which, which), (self._nv, self._nv), which, which)


def _split(first: list[bool]) -> tuple[list[int], list[int]]:
    """Indices of those that are true, and of those that are not."""
    return [k for k, x in enumerate(first) if x], [k for k, x in enumerate(first) if not x]


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
    rows = [ConstraintRates(rates, index, part) for index, part in enumerate(parts)]

    # joint forces; accelerations of followers are T times those of the leaders, and what their own forces make
    parts_of = _Division(motion, system)
    leaders, followers, trunk, limbs = parts_of.leaders, parts_of.followers, parts_of.trunk, parts_of.limbs
    root = system.over_transpose(ops.eye(nv))
    T = system.L.following(leaders)
    to_leaders, own = ops.take(root, None, leaders), parts_of.block(root, followers)
    response = system.along_rows(to_leaders)
    df_leaders = -solved(response)
    A_leaders = ops.sym_add(
        ops.sym_product(ops.transpose(to_leaders), to_leaders), ops.sym_product(ops.transpose(response), df_leaders)
    )
    df_dtau = df_leaders @ ops.transpose(T)
    dqdd_dtau = ops.sym_add(ops.sym_product(T @ A_leaders, ops.transpose(T)), ops.sym_product(ops.transpose(own), own))
    inverse = None if factor is None else factor.inverse()

    def of_trunk(r: Matrix, g: Matrix) -> tuple[Matrix, Matrix]:
        """Changes of q̈ and f where all limbs feel what changes."""
        W = system.over_transpose(r)
        df = solved(system.along_rows(W) - g)
        return with_followers(system.back(-W, df), W), df

    def of_limbs(r: Matrix, g: Matrix) -> tuple[Matrix, Matrix]:
        """The same where one limb feels it, and the others by way of the trunk only."""
        left = system.over_transpose(r, trunk)
        on_trunk, W = ops.take(left, trunk, None), parts_of.rows(left, limbs)
        s = system.along_rows(W) - g
        x = -(ops.take(dqdd_dtau, None, trunk) @ on_trunk) - ops.transpose(root) @ W
        df = -(ops.take(df_dtau, None, trunk) @ on_trunk)
        if inverse is not None:
            x, df = x - ops.transpose(df_dtau) @ s, df + inverse @ s
        return with_followers(x, W), df

    def with_followers(x: Matrix, W: Matrix) -> Matrix:
        return T @ ops.take(x, leaders, None) - ops.transpose(own) @ W

    # those with positions and velocities
    by_position = [{j: row.columns(j, True) for j in row.joints()} for row in rows]
    by_velocity = [{j: row.columns(j, False) for j in row.joints()} for row in rows]
    r_q, r_v = _residuals(rates, rows, by_position)
    out = []
    for r, changes, drift in ((r_q, by_position, rates.drift_q), (r_v, by_velocity, rates.drift_v)):
        g = _row_changes(motion, changes)
        dqdd, df = ops.zeros(nv, nv), ops.zeros(motion.problem.n_rows, nv)
        for columns, solve in ((trunk, of_trunk), (limbs, of_limbs)):
            if columns:
                x, f = solve(ops.take(r, None, columns), ops.take(g, None, columns))
                dqdd = dqdd + parts_of.columns(x, columns)
                df = df + parts_of.columns(f, columns)
        if rates.root != WORLD:
            dqdd = dqdd - ops.put(drift, (nv, nv), range(6), range(6))
        out.append((dqdd, df))
    ops.mark("derivatives", [dqdd_dtau, df_dtau, *out[0], *out[1]])
    return Derivatives(qdd, forces, system.G, out[0][0], out[1][0], dqdd_dtau, out[0][1], out[1][1], df_dtau)


def _residuals(
    rates: Rates, rows: Sequence[ConstraintRates], by_position: Sequence[Mapping[int, Columns]]
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
