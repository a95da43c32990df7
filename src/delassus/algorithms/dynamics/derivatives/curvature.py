"""Second derivatives of joint forces along multipliers: of ``ℓ = λᵀ ID(q, v, q̈)``, by positions and velocities.

With twists ``Λ_i = Σ λ_j s_j`` of links, ``ℓ = Σ Λ_iᵀ f_i``. In the frame of link i its inertia stays, and ``V``,
``a``, ``Λ`` change by ``ψ_j``, ``ψ_j × V + ξ_j`` and ``χ_j = Λ_p × s_j`` with ``q_j``, by ``s_j``, ``s_j × V + φ_j``
and 0 with ``v_j`` (symbols of `rates`). There these changes themselves change, with joint k above j or j itself, by

===================  =================  ===============================================  ==============
with                 of ``V``           of ``a``                                         of ``Λ``
===================  =================  ===============================================  ==============
``q_j`` by ``q_k``   ``u = ψ_k × s_j``  ``u × V + (ψ_k × V_p + ξ_k) × s_j + V_p × u``    ``χ_k × s_j``
``q_j`` by ``v_k``   ``u = s_k × s_j``  ``u × V + (s_k × V_p + φ_k) × s_j + V_p × u``    0
``v_j`` by ``q_k``   0                  ``ψ_k × s_j``                                    0
``v_j`` by ``v_k``   0                  ``s_k × s_j``                                    0
===================  =================  ===============================================  ==============

so that, with sums ``f, h = Σ I Λ, b = Σ Bᵀ Λ, C = Σ (Λ×)ᵀ I + I (Λ×)`` over all that lies beyond joint j,

    ``ℓ_jk = ξ_k · X_j + ψ_k · P_j + χ_k · Z_j``,   with velocities above ``φ_k · X_j + s_k · P_j``,

    ``X_j = I χ_j + s_j ×* h``,   ``P_j = Bᵀ χ_j + C ψ_j + ψ_j ×* h + s_j ×* b``,   ``Z_j = ∂f/∂q_j``;

of ``v_j``, 0, ``C s_j + s_j ×* h`` and ``∂f/∂v_j``. Positions change as ``q ⊕ δ``, and derivatives are those by ``δ``
at zero: within a joint of several degrees of freedom the mean of both orders. Cost O(n d) for each λ.
Source: Singh, Russell, Wensing, "Efficient analytical derivatives of rigid-body dynamics using spatial vector algebra",
RA-L 2022, and "On second-order derivatives of rigid-body dynamics", T-RO 2024; here along multipliers, derived anew.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from delassus.algorithms.blocks import assembled
from delassus.algorithms.dynamics.derivatives.rates import CompositeBody, Rates
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.model.tree import WORLD
from delassus.spatial.dual_ops import Dual, DualOps, TwiceDualOps
from delassus.spatial.motion import (
    ANGULAR,
    LINEAR,
    column,
    cross_matrix,
    dot,
    force_matrix,
    motion_matrix,
    scaled_matrix,
)
from delassus.spatial.ops import Matrix, Ops


@dataclass(frozen=True, slots=True, eq=False)
class Curvature:
    """Second derivatives (nv × nv) of a number by positions, positions (rows) and velocities, and velocities."""

    qq: Matrix
    qv: Matrix
    vv: Matrix

    def __add__(self, other: Curvature) -> Curvature:
        """Sum."""
        return Curvature(self.qq + other.qq, self.qv + other.qv, self.vv + other.vv)


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """How motions change in the frames of links that lie beyond each joint: one (6, n_j) matrix a joint.

    ``xi``, ``psi``, ``chi`` and ``S`` with its position, ``phi`` and ``S`` with its velocity.
    """

    xi: Sequence[Matrix]
    psi: Sequence[Matrix]
    chi: Sequence[Matrix]
    phi: Sequence[Matrix]
    S: Sequence[Matrix]


def changes_of(rates: Rates, rest: Rates) -> Changes:
    """Changes of the motion of ``rates``, and of twists that are accelerations of ``rest``."""
    phi = [*rates.phi]
    if rates.root != WORLD:  # it is the change of q̈ itself with velocities that others are multiplied with
        phi[rates.root] = phi[rates.root] + rates.drift_v
    return Changes(rates.xi, rates.psi, rest.xi, phi, rates.S)


def joint_force_curvature(rates: Rates, rest: Rates) -> Curvature:
    """Second derivatives of ``λᵀ ID``; ``rest`` are the rates of the robot at rest with the accelerations ``λ``."""
    motion, ops, tree = rates.motion, rates.motion.ops, rates.motion.tree
    of = changes_of(rates, rest)
    beyond, f = [*rates.bodies], rates.forces(rates.bodies)
    h = [body.times(ops, twist) for body, twist in zip(beyond, rest.a, strict=True)]
    b = [body.rate_transposed_times(ops, twist) for body, twist in zip(beyond, rest.a, strict=True)]
    D = [_turned(ops, *pair) for pair in zip(beyond, rest.a, strict=True)]
    for i in tree.leaves_to_root():
        if (p := tree.parents[i]) != WORLD:
            beyond[p], D[p] = beyond[p].plus(ops, beyond[i]), ops.sym_add(D[p], D[i])
            f[p], h[p], b[p] = f[p] + f[i], h[p] + h[i], b[p] + b[i]

    def of_joint(*parts: Matrix) -> list[Matrix]:
        (xi, psi, chi, phi, S, f, h, b, D), I = parts[:9], CompositeBody(*parts[9:])
        width = range(ops.shape(S)[1])
        along, turns = force_matrix(ops, h), ops.put(b, (6, 1), ANGULAR, (0,))
        of_chi = ops.put(I.rate_transposed_times(ops, chi), (6, len(width)), ANGULAR, width)
        X = I.times(ops, chi) + along @ S
        P = of_chi + _times(ops, h, D, psi) + along @ psi + force_matrix(ops, turns) @ S
        Z = force_matrix(ops, f) @ S + I.times(ops, xi) + I.rate_times(ops, psi)
        return [X, P, Z, _times(ops, h, D, S) + along @ S, I.rate_times(ops, S) + I.times(ops, phi)]

    joints = zip(of.xi, of.psi, of.chi, of.phi, of.S, f, h, b, D, beyond, strict=True)
    own = ops.map(of_joint, [(*x, *body.parts()) for *x, body in joints])
    out = paired(rates, of, [(*x, None) for x in own])
    if motion.compensated:
        out = out + _of_weights(rates, rest)
    return out


def paired(rates: Rates, of: Changes, own: Sequence[Sequence[Matrix | None]], held: Container[int] = ()) -> Curvature:
    """Second derivatives from ``X``, ``P``, ``Z``, ``P`` and ``Z`` of velocities, and what ``s_k`` is multiplied with.

    All of each joint, for those above it that are not ``held``; None is zero.
    """
    ops, tree = rates.motion.ops, rates.motion.tree
    qq, qv, vv = dict[tuple[int, int], Matrix](), dict[tuple[int, int], Matrix](), dict[tuple[int, int], Matrix]()
    for j in tree.root_to_leaves():
        X, P, Z, P_v, Z_v, G = own[j]
        for k in tree.support(j):
            if k in held or all(x is None for x in own[j]):
                continue
            S, xi, psi, chi, phi = (ops.transpose(x[k]) for x in (of.S, of.xi, of.psi, of.chi, of.phi))
            none = ops.zeros(ops.shape(S)[0], tree.joints[j].nv)
            q = _sum(none, (xi, X), (psi, P), (chi, Z), (S, G))
            v = _sum(none, (S, P_v))
            qv[k, j] = _sum(none, (psi, P_v), (chi, Z_v))
            if k == j:
                qq[j, j], vv[j, j] = symmetrised(ops, q), symmetrised(ops, v)
            else:
                qq[k, j], qq[j, k] = q, ops.transpose(q)
                vv[k, j], vv[j, k] = v, ops.transpose(v)
                qv[j, k] = ops.transpose(_sum(none, (phi, X), (S, P)))
    sizes = [joint.nv for joint in tree.joints]
    return Curvature(*(assembled(ops, sizes, sizes, x) for x in (qq, qv, vv)))


def symmetrised(ops: Ops, a: Matrix) -> Matrix:
    """Mean of a matrix and its transpose."""
    if ops.shape(a)[0] == 1:
        return a
    half = scaled_matrix(ops, 0.5, a)
    return ops.sym_add(half, ops.transpose(half))


def _sum(total: Matrix, *pairs: tuple[Matrix, Matrix | None]) -> Matrix:
    """Sum of products, of which some are none."""
    for a, b in pairs:
        total = total if b is None else total + a @ b
    return total


def _turned(ops: Ops, body: CompositeBody, twist: Matrix) -> Matrix:
    """Angular block (3 × 3) of ``(Λ×)ᵀ I + I (Λ×)``; linear ones are ``p×``, ``p`` the linear part of ``I Λ``."""
    v, w = (cross_matrix(ops, ops.take(twist, part, None)) for part in (LINEAR, ANGULAR))
    half = cross_matrix(ops, body.h) @ v + body.C @ w
    return ops.sym_add(half, ops.transpose(half))


def _times(ops: Ops, h: Matrix, D: Matrix, x: Matrix) -> Matrix:
    """``C x``."""
    p, v, w = cross_matrix(ops, ops.take(h, LINEAR, None)), ops.take(x, LINEAR, None), ops.take(x, ANGULAR, None)
    return ops.vstack([p @ w, D @ w - p @ v])


def _of_weights(rates: Rates, rest: Rates) -> Curvature:
    """Of weights that are compensated: forces ``C g`` of gravity, which turns against its links by ``g × s_j``."""
    ops, tree = rates.motion.ops, rates.motion.tree
    lifted = [rates.compensated(i) for i in tree.root_to_leaves()]
    h = [body.times(ops, twist) for body, twist in zip(lifted, rest.a, strict=True)]
    for i in tree.leaves_to_root():
        if (p := tree.parents[i]) != WORLD:
            lifted[p], h[p] = lifted[p].plus(ops, lifted[i]), h[p] + h[i]
    turning = motion_matrix(ops, ops.put(rates.gravity, (6, 1), LINEAR, (0,)))
    xi, own = [turning @ S for S in rates.S], list[Sequence[Matrix | None]]()
    for S, x, chi, body, along in zip(rates.S, xi, rest.xi, lifted, h, strict=True):
        own.append([body.times(ops, chi) + force_matrix(ops, along) @ S, None, body.times(ops, x), None, None, None])
    none = [ops.zeros(6, ops.shape(S)[1]) for S in rates.S]
    return paired(rates, Changes(xi, none, rest.xi, none, none), own)


def gravity_curvature(rates: Rates, weights: Matrix) -> Matrix:
    """Second derivatives (6 × 6) of ``wᵀ c``, ``c`` the drift of a floating root (`Rates`), by its position."""
    ops = rates.motion.ops
    return symmetrised(ops, ops.transpose(force_matrix(ops, weights)) @ rates.drift_q)


def passive_curvature(motion: DynamicsProblem, multipliers: Matrix) -> Curvature:
    """Second derivatives of ``λᵀ`` times the forces of springs about turning axes, and of rotors along them."""
    ops, tree = motion.ops, motion.tree
    qq, vv = dict[tuple[int, int], Matrix](), dict[tuple[int, int], Matrix]()
    by_joint = [column(ops, ops.take(multipliers, range(s.start, s.stop), None)) for s in tree.v_slices]
    for i in motion.spring_deflections:
        joint, sq = tree.joints[i], tree.q_slices[i]
        if joint.nv > 1:
            dual = DualOps(ops)
            still = [dual.varied(0.0, k) for k in range(joint.nv)]
            q = joint.kind.moved(dual, [Dual(motion.problem.q[k]) for k in range(sq.start, sq.stop)], still)
            changes = joint.kind.spring_deflection_changes(dual, q, joint.rest_position.tolist())
            weights = [x * k for x, k in zip(by_joint[i], joint.stiffness.tolist(), strict=True)]
            along = [dot(row, weights) for row in zip(*dual.entries(changes), strict=True)]
            qq[i, i] = symmetrised(ops, dual.rates(along, range(joint.nv)))
    for i, a in motion.straight_armature.items():
        twice = TwiceDualOps(ops)
        v = [twice.varied(x, k) for k, x in enumerate(column(ops, motion.bias_velocity(i)))]
        product = tree.joints[i].kind.velocity_product(v)
        weights = [x * y for x, y in zip(by_joint[i], a, strict=True)]
        vv[i, i] = twice.second_rates(dot(product, weights), range(len(v)))
    sizes = [joint.nv for joint in tree.joints]
    return Curvature(assembled(ops, sizes, sizes, qq), ops.zeros(tree.nv, tree.nv), assembled(ops, sizes, sizes, vv))
