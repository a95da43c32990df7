"""How motions of frames, momentum and joint forces change with positions, velocities and accelerations.

Closed forms by the changes of links and joints in one inertial frame (`rates`, whose symbols these are). With ``X`` the
motion transform from there to the reference of a frame on link i, and axes of what moves it,

===================================  ==============================================================
``∂V/∂q = X ψ + τ V``                 ``τ``: turn of what the numbers are measured along: none of "local",
``∂a/∂q = X (ψ × V_i + ξ) + τ a``     ``s ×`` of "world", the rotation of ``s`` of "local-world-aligned",
``∂V/∂v = ∂a/∂q̈ = X s``              where ``ω × ṗ`` is added to ``a`` before it turns
``∂a/∂v = X (s × V_i + φ)``
===================================  ==============================================================

Momentum ``h = Σ I_i V_i`` and its rate ``f = Σ (I_i a_i + V_i ×* I_i V_i)`` of all that lies beyond joint j, with its
inertia ``I`` and ``B``, about the origin of the common frame,

===================================  ==============================================================
``∂h/∂q_j = s_j ×* h_j + I ψ_j``      ``∂f/∂q_j = s_j ×* f_j + I ξ_j + B ψ_j``
``∂h/∂v_j = ∂f/∂q̈_j = I s_j``        ``∂f/∂v_j = B s_j + I φ_j``
===================================  ==============================================================

and about the centre of mass c ``∂(L − c × p) = ∂L − ∂c × p − c × ∂p``, ``∂c = I s`` (linear rows) by the mass. Cost
O(n) but for joint forces, O(n d). Energies have no formulas: their program takes half of the operations.
Source: Carpentier, Mansard, "Analytical derivatives of rigid body dynamics algorithms", RSS 2018; derived anew here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from delassus.algorithms.blocks import assembled, symmetric
from delassus.algorithms.dynamics.derivatives.accelerations import by_joint, residual_changes
from delassus.algorithms.dynamics.derivatives.curvature import joint_force_curvature, passive_curvature
from delassus.algorithms.dynamics.derivatives.rates import Rates
from delassus.algorithms.dynamics.derivatives.row_curvature import spring_curvature
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.kinematics import seen_from
from delassus.model.tree import WORLD, Placement
from delassus.spatial.motion import ANGULAR, LINEAR, cross_matrix, force_matrix, motion_matrix, scaled
from delassus.spatial.ops import Matrix
from delassus.spatial.transform import Pose


def inverse_dynamics_changes(motion: DynamicsProblem, qdd: list[Matrix]) -> list[Matrix]:
    """``∂τ/∂q``, ``∂τ/∂v`` and ``∂τ/∂q̈ = M`` (nv × nv each) of `inverse_dynamics`."""
    ops, tree, rates = motion.ops, motion.tree, Rates(motion, qdd, is_given=True)
    with_q, with_v, SI = residual_changes(rates, ())
    blocks = {(j, k): SI[j] @ rates.S[k] for j in tree.root_to_leaves() for k in tree.support(j)}
    for j, joint in enumerate(tree.joints):
        if joint.armature.any():
            blocks[j, j] = ops.sym_add(blocks[j, j], ops.constant(np.diag(joint.armature)))
    return [with_q, with_v, symmetric(ops, [joint.nv for joint in tree.joints], blocks)]


def inverse_dynamics_curvature(motion: DynamicsProblem, qdd: list[Matrix]) -> list[Matrix]:
    """Second derivatives (nv² × nv each) of `inverse_dynamics`, one joint force below the other.

    By positions, positions and velocities, velocities, and positions and accelerations.
    """
    ops, nv = motion.ops, motion.tree.nv
    rates, still = (
        Rates(motion, qdd, is_given=True),
        motion.at_rest(ops.zeros(nv, 1), ops.zeros(motion.problem.n_rows, 1)),
    )
    out = [[ops.zeros(0, nv)] for _ in range(4)]
    for k in range(nv):
        weights = ops.put(ops.eye(1), (nv, 1), (k,), (0,))
        rest = Rates(still, by_joint(still, weights), is_given=True)
        found = joint_force_curvature(rates, rest) + passive_curvature(motion, weights)
        found = sum(spring_curvature(rates, rest), found)
        with_q = ops.transpose(residual_changes(rest, ())[0])
        for rows, x in zip(out, (found.qq, found.qv, found.vv, with_q), strict=True):
            rows.append(x)
    return [ops.vstack(rows) for rows in out]


class FrameChanges:
    """Changes (6 × nv) of twists and accelerations of frames placed on links, in one of the `REFERENCES`."""

    def __init__(self, motion: DynamicsProblem, qdd: list[Matrix], reference: str) -> None:
        self._ops, self._rates, self._reference = motion.ops, Rates(motion, qdd, is_given=True), reference

    def _pose(self, at: Placement) -> Pose:
        """Pose of the reference of a frame in the common frame."""
        ops, place = self._ops, self._rates.in_common
        R, p = place(at.link, (ops.constant(at.rotation), ops.constant(at.position[:, None])))
        if self._reference == "local":
            return R, p
        R_world, p_world = place(WORLD, (ops.eye(3), ops.zeros(3, 1)))
        return R_world, p_world if self._reference == "world" else p

    def velocity(self, at: Placement) -> list[Matrix]:
        """Changes of the twist with positions and velocities."""
        return self._of(at)[:2]

    def acceleration(self, at: Placement) -> list[Matrix]:
        """Changes of the acceleration with positions, velocities and joint accelerations."""
        with_velocity, (with_q, with_v) = self._of(at)[1], self._of(at)[2:]
        return [with_q, with_v, with_velocity]

    def _of(self, at: Placement) -> list[Matrix]:
        ops, rates, nv = self._ops, self._rates, self._rates.motion.tree.nv
        if at.link == WORLD:
            return [ops.zeros(6, nv)] * 4
        S, psi, xi, phi = (rates.of_link(at.link, x) for x in (rates.S, rates.psi, rates.xi, rates.phi))
        pose, V, a = self._pose(at), rates.V[at.link], rates.a[at.link]
        turn = motion_matrix(ops, V)
        V, a, J, V_q, a_q, a_v = (seen_from(ops, pose, x) for x in (V, a, S, psi, xi - turn @ psi, phi - turn @ S))
        if self._reference == "local":
            return [V_q, J, a_q, a_v]
        turning = J
        if self._reference == "local-world-aligned":
            turning = ops.put(ops.take(J, ANGULAR, None), (6, nv), ANGULAR, range(nv))
            v, w = (cross_matrix(ops, ops.take(V, part, None)) for part in (LINEAR, ANGULAR))

            def product(change: Matrix) -> Matrix:  # ω × ṗ
                linear = w @ ops.take(change, LINEAR, None) - v @ ops.take(change, ANGULAR, None)
                return ops.put(linear, (6, ops.shape(change)[1]), LINEAR, range(ops.shape(change)[1]))

            a_q, a_v = a_q + product(V_q), a_v + product(J)
            a = a + ops.put(w @ ops.take(V, LINEAR, None), (6, 1), LINEAR, (0,))
        return [V_q - motion_matrix(ops, V) @ turning, J, a_q - motion_matrix(ops, a) @ turning, a_v]


class MomentumChanges:
    """Changes of the momentum of all links about the centre of mass, and of its rate.

    Momentum is ``[linear; angular]`` in world axes; its rate that of a problem without gravity and wrenches.
    """

    def __init__(self, motion: DynamicsProblem, qdd: list[Matrix]) -> None:
        self._ops, self._motion, self._rates = motion.ops, motion, Rates(motion, qdd, is_given=True)
        ops, rates, tree = self._ops, self._rates, motion.tree
        beyond, f = [*rates.bodies], rates.forces(rates.bodies)
        h = [body.times(ops, V) for body, V in zip(beyond, rates.V, strict=True)]

        # leaves → root: inertia, momentum and force of all that lies beyond each joint
        for i in tree.leaves_to_root():
            if (p := tree.parents[i]) != WORLD:
                beyond[p], h[p], f[p] = beyond[p].plus(ops, beyond[i]), h[p] + h[i], f[p] + f[i]
        self._beyond, self._h, self._f = beyond, h, f

    def momentum(self) -> list[Matrix]:
        """Changes (6 × nv) of the momentum with positions and velocities."""
        ops, rates = self._ops, self._rates
        with_q = [
            force_matrix(ops, h) @ S + body.times(ops, psi)
            for S, psi, h, body in zip(rates.S, rates.psi, self._h, self._beyond, strict=True)
        ]
        return [self._about_centre(self._h, with_q), self._about_centre(None, self._momenta)]

    def rate(self) -> list[Matrix]:
        """Changes (6 × nv) of its rate with positions, velocities and joint accelerations."""
        ops, rates = self._ops, self._rates
        joints = zip(rates.S, rates.psi, rates.xi, rates.phi, self._f, self._beyond, strict=True)
        with_q, with_v = list[Matrix](), list[Matrix]()
        for S, psi, xi, phi, f, body in joints:
            with_q.append(force_matrix(ops, f) @ S + body.times(ops, xi) + body.rate_times(ops, psi))
            with_v.append(body.rate_times(ops, S) + body.times(ops, phi))
        return [self._about_centre(self._f, with_q), *(self._about_centre(None, x) for x in (with_v, self._momenta))]

    @property
    def _momenta(self) -> list[Matrix]:
        """``I s`` of each joint."""
        return [body.times(self._ops, S) for body, S in zip(self._beyond, self._rates.S, strict=True)]

    def _by_joint(self, rows: int, columns: Sequence[Matrix]) -> Matrix:
        sizes = [joint.nv for joint in self._motion.tree.joints]
        return assembled(self._ops, [rows], sizes, {(0, j): x for j, x in enumerate(columns)})

    def _about_centre(self, parts: Sequence[Matrix] | None, columns: Sequence[Matrix]) -> Matrix:
        """Changes about the origin (6 × n_i a joint), of what is the sum of ``parts``, about the centre of mass.

        In world axes; None where the centre stays.
        """
        ops, tree, change = self._ops, self._motion.tree, self._by_joint(6, columns)
        whole, total = None, ops.zeros(6, 1)
        for i in tree.root_to_leaves():
            if tree.parents[i] == WORLD:
                whole = self._beyond[i] if whole is None else whole.plus(ops, self._beyond[i])
                total = total if parts is None else total + parts[i]
        if whole is None:
            return change
        over_mass = 1.0 / ops.entries(whole.m)[0][0]
        centre = scaled(ops, [over_mass] * 3, whole.h)
        linear, angular = ops.take(change, LINEAR, None), ops.take(change, ANGULAR, None)
        angular = angular - cross_matrix(ops, centre) @ linear
        if parts is not None:
            of_centre = ops.take(self._by_joint(6, self._momenta), LINEAR, None)
            arm = cross_matrix(ops, scaled(ops, [over_mass] * 3, ops.take(total, LINEAR, None)))
            angular = angular + arm @ of_centre
        R, _ = self._rates.in_common(WORLD, (ops.eye(3), ops.zeros(3, 1)))
        back = ops.transpose(R)
        return ops.vstack([back @ linear, back @ angular])
