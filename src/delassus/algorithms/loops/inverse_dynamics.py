"""Inverse dynamics with constraints: forces of motors and of constraints that cause a motion.

Motors drive some degrees of freedom, ``a``, and nothing the others, ``u``: a floating base, passive joints of loops.
With ``b = M q̈ + c``,

    J_uᵀ f = b_u,    τ_a = b_a − J_aᵀ f.

The first has as many equations as there are degrees of freedom without motors. Where it leaves ``f`` open, the sum
``½ τᵀ W τ + ½ fᵀ V f`` is least, with positive diagonal ``W`` and ``V``; where it cannot hold, ``‖b_u − J_uᵀ f‖`` is
least before. Weights of one thus give the pseudo-inverse of ``[Sᵀ Jᵀ]``. With ``H = V + J_a W J_aᵀ``, ``Z = H⁻¹ J_u``,

    f = H⁻¹ J_a W b_a + Z λ,    K λ = P b_u − J_uᵀ H⁻¹ J_a W b_a,    K = J_uᵀ Z,

``P`` being the projection on the range of ``K``. Rows of ``K`` that depend on those before them are left out
(`echelon`), and what no force gives of ``b_u`` lies along the null space. ``K`` has the square of the condition of
``J_u``: one step of refinement follows. Cost O(m² nv + m³ + u³); ``H`` falls into blocks where legs meet at the base.

Sources: Righetti, Buchli, Mistry, Kalakrishnan, Schaal, "Optimal distribution of contact forces with inverse-dynamics
control", IJRR 2013; Mistry, Buchli, Schaal, "Inverse dynamics control of floating base systems using orthogonal
decomposition", ICRA 2010. Deviations: forces of constraints are eliminated instead of projected away, which needs no
decomposition of ``J``; rows may depend on one another, or ask for what cannot be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from delassus.algorithms.dynamics.constraint_acceleration import constraint_residual
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.rnea import inverse_dynamics
from delassus.spatial.factor import semidefinite_solution
from delassus.spatial.motion import diagonal
from delassus.spatial.ops import Matrix, Scalar


class ConstrainedForces(NamedTuple):
    """``τ`` (nv × 1), zero without motors, ``f`` (m × 1), ``M q̈ + c − τ − Jᵀ f`` (nv × 1), and the rank of ``J_u``."""

    tau: Matrix
    forces: Matrix
    missing: Matrix
    rank: Scalar


def constrained_inverse_dynamics(
    motion: DynamicsProblem, qdd: Sequence[Matrix], motors: Sequence[int], weights: Sequence[Scalar]
) -> ConstrainedForces:
    """Forces that cause accelerations (n_i × 1, by joint), least by the weights of all joint and constraint forces.

    ``motors`` are the degrees of freedom that they drive, in order.
    """
    ops, nv = motion.ops, motion.tree.nv
    passive = [k for k in range(nv) if k not in set(motors)]
    b, J = inverse_dynamics(motion, qdd), jacobian(motion.problem)
    b_u, J_u = ops.take(b, passive, None), ops.take(J, None, passive)
    f, rank = _constraint_forces(motion, J, b, (motors, passive), weights)
    left = b - ops.transpose(J) @ f
    tau = ops.put(ops.take(left, motors, None), (nv, 1), motors, (0,))
    missing = ops.put(b_u - ops.transpose(J_u) @ f, (nv, 1), passive, (0,))
    ops.mark("joint forces of motors", [tau])
    return ConstrainedForces(tau, f, missing, rank)


def accelerations_missed(motion: DynamicsProblem, qdd: Sequence[Matrix]) -> Matrix:
    """``J q̈ + J̇ v`` (m × 1) of accelerations (n_i × 1, by joint): what rows miss under them, of none if they hold."""
    weightless = DynamicsProblem(motion.problem, motion.velocity, None, gravity=motion.ops.zeros(3, 1))
    return constraint_residual(weightless, list(qdd))


def _constraint_forces(
    motion: DynamicsProblem,
    J: Matrix,
    b: Matrix,
    parts: tuple[Sequence[int], Sequence[int]],
    weights: Sequence[Scalar],
) -> tuple[Matrix, Scalar]:
    """``f`` (m × 1) and the rank of ``J_u``."""
    ops, (motors, passive), (m, nv) = motion.ops, parts, motion.ops.shape(J)
    u = len(passive)
    if not m:
        return ops.zeros(0, 1), 0.0
    J_a, J_u, b_u = ops.take(J, None, motors), ops.take(J, None, passive), ops.take(b, passive, None)
    weighted = J_a @ diagonal(ops, [weights[k] for k in motors])
    H = ops.sym_add(diagonal(ops, weights[nv:]), ops.sym_product(weighted, ops.transpose(J_a)))
    beside = ops.hstack([J_u, weighted @ ops.take(b, motors, None)])
    solved = semidefinite_solution(ops, H, beside).X
    Z, f = ops.take(solved, None, range(u)), ops.take(solved, None, (u,))
    if not u:
        return f, 0.0
    back = ops.transpose(J_u)
    K = ops.sym_product(back, Z)
    inverse, null, kept = semidefinite_solution(ops, K, ops.eye(u))
    total = sum(kept[1:], kept[0])
    ops.mark("equations without motors", [inverse])

    # what no force gives: N (Nᵀ N)⁻¹ Nᵀ b_u
    along = ops.transpose(null)
    square = ops.sym_add(ops.sym_product(along, null), diagonal(ops, kept))
    asked = b_u - null @ semidefinite_solution(ops, square, along @ b_u).X

    for _ in range(2):
        f = f + Z @ (inverse @ (asked - back @ f))
    ops.mark("constraint forces", [f])
    return f, total
