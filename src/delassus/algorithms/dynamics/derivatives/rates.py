"""How velocities, accelerations and forces of links change with positions and velocities of joints.

All quantities are in one inertial frame that coincides, at this instant, with the root link of a floating robot (else
with the world), so that nothing is propagated: with the joint axes ``s_j`` there, ``p`` the parent of joint j, and i
any link beyond it,

===============================  ============================================================
∂V_i/∂q_j = s_j × V_i + ψ_j      ψ_j = V_p × s_j
∂a_i/∂q_j = s_j × a_i + ψ_j × V_i + ξ_j      ξ_j = a_p × s_j + V_p × ψ_j
∂V_i/∂v_j = s_j
∂a_i/∂v_j = s_j × V_i + φ_j      φ_j = (V_p + V_j) × s_j = 2 ψ_j + (s v)_j × s_j, the last zero of one axis
∂f_i/∂q_j = s_j ×* f_i + I_i ξ_j + B_i ψ_j      f_i = I_i a_i + V_i ×* I_i V_i − w_i
∂f_i/∂v_j = B_i s_j + I_i φ_j
===============================  ============================================================

for wrenches ``w_i`` fixed in their link. Positions change along the tangent of `Tree.integrate`: the body of joint j,
and all beyond it, move by the twist ``s_j``. ``B ψ = I (ψ × V) + ψ ×* I V + V ×* I ψ``; for a rigid body it is ``[[0,
−2 h×], [0, B_r]]`` with ``h`` the linear momentum. Source: Carpentier, Mansard, "Analytical derivatives of rigid body
dynamics algorithms", RSS 2018; the formulas here are derived anew, for joints of several degrees of freedom too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delassus.algorithms.blocks import assembled
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.frozen import cached_property
from delassus.model.tree import WORLD
from delassus.spatial.motion import (
    ANGULAR,
    LINEAR,
    column,
    cross_entries,
    cross_matrix,
    force_of_points,
    from_entries,
    motion_matrix,
    plus,
    scaled_matrix,
    turning_matrix,
)
from delassus.spatial.ops import Matrix, Ops
from delassus.spatial.transform import Pose, compose


@dataclass(frozen=True, slots=True, eq=False)
class CompositeBody:
    """Mass, first moment (3 × 1), second moments (3 × 3), and ``h`` (3 × 1) and ``B_r`` (3 × 3), of links together."""

    m: Matrix
    h: Matrix
    C: Matrix
    momentum: Matrix
    rate: Matrix

    def parts(self) -> tuple[Matrix, Matrix, Matrix, Matrix, Matrix]:
        """All quantities of the body, in the order of its fields."""
        return self.m, self.h, self.C, self.momentum, self.rate

    def plus(self, ops: Ops, other: CompositeBody) -> CompositeBody:
        """The two bodies rigidly together: their quantities add up."""
        m, h, C = self.m + other.m, self.h + other.h, ops.sym_add(self.C, other.C)
        return CompositeBody(m, h, C, self.momentum + other.momentum, self.rate + other.rate)

    def times(self, ops: Ops, s: Matrix) -> Matrix:
        """``I s`` of motions as columns."""
        v, w, h = ops.take(s, LINEAR, None), ops.take(s, ANGULAR, None), cross_matrix(ops, self.h)
        return ops.vstack([_scaled(ops, self.m, v) - h @ w, h @ v + self.C @ w])

    def linear_rows(self, ops: Ops) -> Matrix:
        """First three rows (3 × 6) of ``I``."""
        return ops.hstack([_scaled(ops, self.m, ops.eye(3)), -cross_matrix(ops, self.h)])

    def rate_times(self, ops: Ops, s: Matrix) -> Matrix:
        """``B s``."""
        w, p = ops.take(s, ANGULAR, None), cross_matrix(ops, self.momentum)
        return ops.vstack([-(p + p) @ w, self.rate @ w])

    def rate_transposed_times(self, ops: Ops, s: Matrix) -> Matrix:
        """Angular part (3 × k) of ``Bᵀ s``; the linear part is zero."""
        v, w, p = ops.take(s, LINEAR, None), ops.take(s, ANGULAR, None), cross_matrix(ops, self.momentum)
        return (p + p) @ v + ops.transpose(self.rate) @ w


class Rates:
    """Links and joints of a problem in motion with the accelerations ``qdd`` (n_i × 1 a joint), in the common frame.

    Attributes
    ----------
    root : int
        Link that the frame coincides with, or `WORLD`.
    poses : list of Pose
        Of each link.
    S, psi, xi, phi : lists of (6, n_i) matrices
        ``s``, ``ψ``, ``ξ``, ``φ`` of each joint; ``ξ`` of the accelerations less gravity.
    V, a : lists of (6, 1) matrices
        Twists and accelerations less gravity.
    drift_q, drift_v : (6, 6) matrices
        ``C`` in ``ξ = s C`` and ``φ = s C`` of a floating root that the frame coincides with: changes of its own
        acceleration. They are left out above, so that what is solved for is the change of q̈ beyond ``−C``; not where
        q̈ ``is_given``.
    crossed : (list, list) or None
        ``ψ`` and bodies of `CrossedRates` whose products act too.
    """

    def __init__(self, motion: DynamicsProblem, qdd: list[Matrix], is_given: bool = False) -> None:
        ops, tree = motion.ops, motion.tree
        self.motion = motion
        self.crossed: tuple[list[Matrix], list[CompositeBody]] | None = None
        self.root = 0 if tree.is_floating and tree.parents.count(WORLD) == 1 else WORLD
        self.gravity = motion.gravity if self.root == WORLD else motion.gravity_in(self.root)
        a0 = ops.put(-self.gravity, (6, 1), LINEAR, (0,))
        self.poses: list[Pose] = []
        self.S, self.psi, self.xi, self.phi = list[Matrix](), list[Matrix](), list[Matrix](), list[Matrix]()
        self.V, self.a, own = list[Matrix](), list[Matrix](), list[Matrix]()

        # root → leaves: s, V = V_p + s v, a = a_p + s q̈ + V_p × s v
        for i in tree.root_to_leaves():
            p = tree.parents[i]
            self.poses.append(self._pose(i))
            S = self._axes(i)
            V_p, a_p = (ops.zeros(6, 1), a0) if p == WORLD else (self.V[p], self.a[p])
            Sv = S @ motion.bias_velocity(i)
            own.append(Sv)
            self.S.append(S)
            self.V.append(V_p + Sv)
            self.a.append(a_p + S @ qdd[i] + motion_matrix(ops, V_p) @ Sv)

        def of_joint(S: Matrix, V_p: Matrix, a_p: Matrix, Sv: Matrix) -> list[Matrix]:
            V_px = motion_matrix(ops, V_p)
            psi = V_px @ S
            phi = psi + psi if ops.shape(S)[1] == 1 else psi + psi + motion_matrix(ops, Sv) @ S
            return [psi, motion_matrix(ops, a_p) @ S + V_px @ psi, phi]

        parents = [(ops.zeros(6, 1), a0) if p == WORLD else (self.V[p], self.a[p]) for p in tree.parents]
        rows = [(S, *parent, Sv) for S, parent, Sv in zip(self.S, parents, own, strict=True)]
        for psi, xi, phi in ops.map(of_joint, rows):
            self.psi.append(psi)
            self.xi.append(xi)
            self.phi.append(phi)
        self._leave_out_root(is_given)
        ops.mark("links", [*self.V, *self.a, *self.psi, *self.xi, *self.phi])

    def _leave_out_root(self, is_given: bool) -> None:
        ops = self.motion.ops
        self.drift_q = self.drift_v = ops.zeros(6, 6)
        if self.root != WORLD and not is_given:  # its axes are those of the common frame: s = 1
            self.drift_q, self.drift_v = self.xi[self.root], self.phi[self.root]
            self.xi[self.root] = self.phi[self.root] = ops.zeros(6, 6)

    def _pose(self, i: int) -> Pose:
        ops, X, p = self.motion.ops, self.motion.problem.X[i], self.motion.tree.parents[i]
        if i == self.root:
            return ops.eye(3), ops.zeros(3, 1)
        own = X.rotate_to_parent(ops.eye(3)), X.position()
        return own if p in (WORLD, self.root) else compose(self.poses[p], own)

    def _axes(self, i: int) -> Matrix:
        """``s`` of joint i: the axes of its body frame, carried to the common frame."""
        ops, (R, p) = self.motion.ops, self.poses[i]
        columns = [ops.zeros(6, 0)]
        joint = self.motion.tree.joints[i]
        for axis in joint.motion_axes:
            e = ops.take(R, None, (axis % 3,))
            turned = (e, ops.zeros(3, 1)) if axis < 3 else (cross_matrix(ops, p) @ e, e)
            if joint.pitch:
                turned = turned[0] + scaled_matrix(ops, joint.pitch, e), e
            columns.append(ops.vstack(turned))
        return ops.hstack(columns)

    def in_common(self, link: int, pose: Pose) -> Pose:
        """A pose in a link, or in the world, in the common frame."""
        if link == self.root:
            return pose
        return compose(self.motion.problem.pose_between(WORLD, self.root) if link == WORLD else self.poses[link], pose)

    def of_link(self, link: int, columns: Sequence[Matrix]) -> Matrix:
        """Columns of all joints (6 × nv), zero for those that do not move the link."""
        tree = self.motion.tree
        moving = {(0, j): columns[j] for j in tree.support(link)}
        return assembled(self.motion.ops, [6], [joint.nv for joint in tree.joints], moving)

    @cached_property
    def bodies(self) -> list[CompositeBody]:
        """Each link alone."""
        ops, H = self.motion.ops, self.motion.problem.inertias
        rows = [(*pose, inertia, V) for pose, inertia, V in zip(self.poses, H, self.V, strict=True)]
        return [CompositeBody(*parts) for parts in ops.map(self._body, rows)]

    def _body(self, R: Matrix, p: Matrix, H: Matrix, V: Matrix) -> Sequence[Matrix]:
        """Parts of the body of a link."""
        ops = self.motion.ops
        e = ops.entries(H)
        m, local = ops.matrix([[e[0][0]]]), ops.matrix([[e[1][5]], [e[2][3]], [e[0][4]]])
        turned = R @ local
        P, Q = cross_matrix(ops, p), cross_matrix(ops, turned)
        h, PQ = turned + p @ m, P @ Q
        C = ops.sym_product(R @ ops.take(H, ANGULAR, ANGULAR), ops.transpose(R))
        C = ops.sym_subtract(C, _scaled(ops, m, ops.sym_product(P, P)))
        C = ops.sym_subtract(C, PQ + ops.transpose(PQ))
        return m, h, C, *self._turning(m, h, C, V)

    def _turning(self, m: Matrix, h: Matrix, C: Matrix, V: Matrix) -> Sequence[Matrix]:
        """Linear momentum and ``B_r`` of a body with the twist ``V``."""
        ops = self.motion.ops
        v, w = ops.take(V, LINEAR, None), ops.take(V, ANGULAR, None)
        hx, vx, wx = cross_matrix(ops, h), cross_matrix(ops, v), cross_matrix(ops, w)
        wC, vh = wx @ C, vx @ hx
        rate = wC + ops.transpose(wC) - (vh + ops.transpose(vh)) - cross_matrix(ops, hx @ v + C @ w)
        return v @ m - hx @ w, rate

    def compensated(self, i: int) -> CompositeBody:
        """Mass of link i whose weight is compensated, as a body at rest without second moments."""
        ops, (R, p) = self.motion.ops, self.poses[i]
        mass, h = self.motion.compensated.get(i, (0.0, ops.zeros(3, 1)))
        m = ops.constant([[mass]])
        return CompositeBody(m, R @ h + p @ m, ops.zeros(3, 3), ops.zeros(3, 1), ops.zeros(3, 3))

    def forces(self, bodies: Sequence[CompositeBody]) -> list[Matrix]:
        """``I a + V ×* I V`` of each link, less its external wrench and the compensation of its weight."""
        ops = self.motion.ops

        def of_motion(V: Matrix, a: Matrix, *parts: Matrix) -> list[Matrix]:
            body = CompositeBody(*parts)
            return [body.times(ops, a) - ops.transpose(motion_matrix(ops, V)) @ body.times(ops, V)]

        rows = [(V, a, *body.parts()) for V, a, body in zip(self.V, self.a, bodies, strict=True)]
        F = [force for (force,) in ops.map(of_motion, rows)]
        for i in self.motion.compensated:
            F[i] = F[i] + self.compensated(i).times(ops, ops.put(self.gravity, (6, 1), LINEAR, (0,)))
        for i, wrench in self.motion.wrenches.items():
            R, p = self.poses[i]
            f = R @ ops.take(wrench, LINEAR, None)
            F[i] = F[i] - ops.vstack([f, R @ ops.take(wrench, ANGULAR, None) + cross_matrix(ops, p) @ f])
        return F


class CrossedRates(Rates):
    """Products of ``v``, that of other rates, with a velocity ``y`` that a motion without forces has: ``2 Γ(v, y)``.

    ``a = a_p + s q̈ + ψ_v y + ψ_y v``, ``ξ = a_p × s + V_p × ψ_y + Y_p × ψ_v``. ``φ`` and `bodies` are those of ``y``,
    so that ``∂r/∂v`` are changes with ``v``. ``ψ`` is that of ``v``; that of ``y`` is in `crossed`, for ``B`` of ``v``.
    """

    def __init__(self, of: Rates, motion: DynamicsProblem, qdd: list[Matrix]) -> None:
        ops, tree = motion.ops, motion.tree
        self.motion, self._of, self.root, self.gravity = motion, of, of.root, motion.gravity
        self.poses, self.S, self.psi = of.poses, of.S, of.psi
        self.V, self.a, own = list[Matrix](), list[Matrix](), list[Matrix]()
        none = ops.zeros(6, 1)
        for i in tree.root_to_leaves():
            own.append(self.S[i] @ motion.bias_velocity(i))
            self.V.append(own[i] if (p := tree.parents[i]) == WORLD else self.V[p] + own[i])

        def of_joint(S: Matrix, Y_p: Matrix, Sy: Matrix) -> list[Matrix]:
            psi = motion_matrix(ops, Y_p) @ S
            return [psi, psi + psi if ops.shape(S)[1] == 1 else psi + psi + motion_matrix(ops, Sy) @ S]

        parents = [none if p == WORLD else self.V[p] for p in tree.parents]
        found = ops.map(of_joint, [*zip(self.S, parents, own, strict=True)])
        psi, self.phi = [x for x, _ in found], [x for _, x in found]
        for i, p in enumerate(tree.parents):
            turning = self.psi[i] @ motion.bias_velocity(i) + psi[i] @ of.motion.bias_velocity(i)
            self.a.append((none if p == WORLD else self.a[p]) + self.S[i] @ qdd[i] + turning)

        def acceleration(
            S: Matrix, psi: Matrix, psi_y: Matrix, V_p: Matrix, Y_p: Matrix, a_p: Matrix
        ) -> list[Matrix]:  # fmt: skip
            return [motion_matrix(ops, a_p) @ S + motion_matrix(ops, V_p) @ psi_y + motion_matrix(ops, Y_p) @ psi]

        of_parents = ([none if p == WORLD else x[p] for p in tree.parents] for x in (of.V, self.V, self.a))
        rows = [*zip(self.S, self.psi, psi, *of_parents, strict=True)]
        self.xi = [xi for (xi,) in ops.map(acceleration, rows)]
        self.crossed = psi, of.bodies
        self._leave_out_root(is_given=False)

    @cached_property
    def bodies(self) -> list[CompositeBody]:
        """Each link alone, with ``h`` and ``B_r`` of ``y``."""
        rows = [(*body.parts()[:3], Y) for body, Y in zip(self._of.bodies, self.V, strict=True)]
        found = self.motion.ops.map(self._turning, rows)
        return [CompositeBody(*row[:3], *parts) for row, parts in zip(rows, found, strict=True)]

    def forces(self, bodies: Sequence[CompositeBody]) -> list[Matrix]:
        """``I a + V ×* I Y + Y ×* I V`` of each link."""
        ops = self.motion.ops

        def of_motion(V: Matrix, Y: Matrix, a: Matrix, m: Matrix, h: Matrix, C: Matrix) -> list[Matrix]:
            (v, w), (y, e), (b, alpha) = ((x[:3], x[3:]) for x in (column(ops, V), column(ops, Y), column(ops, a)))
            b = plus(b, plus(cross_entries(w, y), cross_entries(e, v)))
            A, ((mass,),) = turning_matrix(ops, alpha, w, e), ops.entries(m)
            return [force_of_points(ops, mass, column(ops, h), ops.entries(C), from_entries(ops, b), A)]

        rows = [(V, Y, a, *body.parts()[:3]) for V, Y, a, body in zip(self._of.V, self.V, self.a, bodies, strict=True)]
        return [force for (force,) in ops.map(of_motion, rows)]


def _scaled(ops: Ops, m: Matrix, A: Matrix) -> Matrix:
    """A matrix times a mass (1 × 1)."""
    ((mass,),) = ops.entries(m)
    return ops.matrix([[mass * x for x in row] for row in ops.entries(A)])
