"""Inverse dynamics with constraints: forces of motors and of constraints that cause a motion.

Motors drive some degrees of freedom, ``a``, and nothing the others, ``u``: a floating base, passive joints of loops.
With ``b = M q̈ + c``,

    J_uᵀ f = b_u,    τ_a = b_a − J_aᵀ f.

The first has as many equations as there are degrees of freedom without motors. Where it leaves ``f`` open, the sum
``½ τᵀ W τ + ½ fᵀ V f`` is least, with positive diagonal ``W`` and ``V``; where it cannot hold, ``‖b_u − J_uᵀ f‖`` is
least before. Weights of one thus give the pseudo-inverse of ``[Sᵀ Jᵀ]``. With ``H = V + J_a W J_aᵀ``, ``Z = H⁻¹ J_u``,

    f = H⁻¹ J_a W b_a + Z λ,    K λ = P b_u − J_uᵀ H⁻¹ J_a W b_a,    K = J_uᵀ Z,

``P`` being the projection on the range of ``K``. Rows of ``J_uᵀ`` are made orthogonal in the metric ``H⁻¹`` one after
the other: ``X K Xᵀ`` is diagonal, without the squares of a factorisation of ``K``. Of rows that depend on those before
them nothing is left; rows of ``X`` there span what no force gives. One step of refinement follows. Cost
O(m² nv + m³ + u² m + u³); ``H`` falls into blocks where legs meet at the base.

Sources: Righetti, Buchli, Mistry, Kalakrishnan, Schaal, "Optimal distribution of contact forces with inverse-dynamics
control", IJRR 2013; Mistry, Buchli, Schaal, "Inverse dynamics control of floating base systems using orthogonal
decomposition", ICRA 2010. Deviations: forces of constraints are eliminated instead of projected away, which needs no
decomposition of ``J``; rows may depend on one another, or ask for what cannot be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from delassus.algorithms.clusters.transmission import units
from delassus.algorithms.dynamics.constraint_acceleration import constraint_residual
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.loops.cone_program import least_forces
from delassus.algorithms.loops.independent import row_squares
from delassus.algorithms.rnea import inverse_dynamics
from delassus.spatial.motion import column, diagonal, scaled, scaled_matrix
from delassus.spatial.ops import Factor, Matrix, Ops, Scalar

INDEPENDENT = 1e-10
"""Rows count as independent of others where the square of what these do not span is above this part of it."""

ROUNDING = 64.0
"""What is left of a row is round-off below this many times the relative round-off of what it was made of."""


class ConstrainedForces(NamedTuple):
    """``τ`` (nv × 1), zero without motors, ``f`` (m × 1), ``M q̈ + c − τ − Jᵀ f`` (nv × 1), and the rank of ``J_u``.

    ``is_solved`` is 1, or 0 where forces within cones have not been found; ``system`` is None without constraints.
    """

    tau: Matrix
    forces: Matrix
    missing: Matrix
    rank: Scalar
    is_solved: Scalar
    system: ForceSystem | None


class ForceSystem(NamedTuple):
    """``W J_aᵀ`` (m × a, transposed), what solves ``H``, and of joints without motors ``J_u``, ``Z``, ``X``, ``N``.

    ``over`` is the diagonal of ``(X K Xᵀ)⁻¹``, ``square`` what solves ``N Nᵀ``; None where all joints have motors.
    """

    weighted: Matrix
    factor: Factor
    rows: Matrix
    Z: Matrix
    X: Matrix | None = None
    over: Matrix | None = None
    N: Matrix | None = None
    square: Factor | None = None

    def solved(self, ops: Ops, a: Matrix) -> Matrix:
        """``λ`` (u × k) with ``K λ = a``."""
        if self.X is None or self.over is None:
            return a
        return ops.transpose(self.X) @ (self.over @ (self.X @ a))

    def given(self, ops: Ops, b: Matrix) -> Matrix:
        """``P b`` (u × k): what forces give of it."""
        if self.N is None or self.square is None:
            return b
        return b - ops.transpose(self.N) @ self.square.solve(self.N @ b)


def constrained_inverse_dynamics(
    motion: DynamicsProblem,
    qdd: Sequence[Matrix],
    motors: Sequence[int],
    weights: Sequence[Scalar] | None,
    friction: Mapping[int, Scalar],
) -> ConstrainedForces:
    """Forces that cause accelerations (n_i × 1, by joint), least by the weights of all joint and constraint forces.

    Without weights all are one.

    ``motors`` are the degrees of freedom that they drive, in order; ``friction`` holds the coefficients of points whose
    forces are within cones, by the first of their three rows: see `cone_program`.
    """
    ops, nv = motion.ops, motion.tree.nv
    passive = [k for k in range(nv) if k not in set(motors)]
    b, J = inverse_dynamics(motion, qdd), jacobian(motion.problem)
    b_u, J_u = ops.take(b, passive, None), ops.take(J, None, passive)
    f, rank, is_solved, system = _constraint_forces(motion, J, b, (motors, passive), weights, friction)
    left = b - ops.transpose(J) @ f
    tau = ops.put(ops.take(left, motors, None), (nv, 1), motors, (0,))
    missing = ops.put(b_u - ops.transpose(J_u) @ f, (nv, 1), passive, (0,))
    ops.mark("joint forces of motors", [tau])
    return ConstrainedForces(tau, f, missing, rank, is_solved, system)


def accelerations_missed(motion: DynamicsProblem, qdd: Sequence[Matrix]) -> Matrix:
    """``J q̈ + J̇ v`` (m × 1) of accelerations (n_i × 1, by joint): what rows miss under them, of none if they hold."""
    weightless = DynamicsProblem(motion.problem, motion.velocity, None, gravity=motion.ops.zeros(3, 1))
    return constraint_residual(weightless, list(qdd))


def _constraint_forces(
    motion: DynamicsProblem,
    J: Matrix,
    b: Matrix,
    parts: tuple[Sequence[int], Sequence[int]],
    weights: Sequence[Scalar] | None,
    friction: Mapping[int, Scalar],
) -> tuple[Matrix, Scalar, Scalar, ForceSystem | None]:
    """``f`` (m × 1), the rank of ``J_u``, whether ``f`` has been found, and what it follows from."""
    ops, (motors, passive), (m, nv) = motion.ops, parts, motion.ops.shape(J)
    total: Scalar = 0.0
    is_solved: Scalar = 1.0
    if not m:
        return ops.zeros(0, 1), total, is_solved, None
    J_a, J_u, b_u = ops.take(J, None, motors), ops.take(J, None, passive), ops.take(b, passive, None)

    def metric(weights: Sequence[Scalar]) -> tuple[Matrix, Matrix]:
        weighted = J_a @ diagonal(ops, [weights[k] for k in motors])
        return weighted, ops.sym_add(diagonal(ops, weights[nv:]), ops.sym_product(weighted, ops.transpose(J_a)))

    ones: list[Scalar] = [1.0] * (nv + m)
    weighted, H = metric(ones if weights is None else weights)
    g, back = weighted @ ops.take(b, motors, None), ops.transpose(J_u)
    factor = ops.factor(H, is_judged=False)
    Zf = factor.solve(ops.hstack([J_u, g]))
    Z, f = ops.take(Zf, None, range(len(passive))), ops.take(Zf, None, (len(passive),))
    if not passive:
        f, is_solved = least_forces(ops, H, g, back, b_u, friction) if friction else (f, is_solved)
        return f, total, is_solved, ForceSystem(weighted, factor, J_u, Z)
    # which equations are independent is not for weights to say
    by_ones = Z if weights is None else ops.factor(metric(ones)[1], is_judged=False).solve(J_u)
    X, over, kept = orthogonalised(ops, back, ops.transpose(by_ones), _is_held(motion, back, passive))
    ops.mark("equations without motors", [X])

    # what no force gives: N (Nᵀ N)⁻¹ Nᵀ b_u, N the rows of X that are left out
    N = diagonal(ops, [1.0 - x for x in kept]) @ X
    square = ops.sym_add(ops.sym_product(N, ops.transpose(N)), diagonal(ops, kept))
    square_factor = ops.factor(square, is_judged=False)
    if weights is not None:
        X, over, _ = orthogonalised(ops, back, ops.transpose(Z), kept, independent=0.0)
    system = ForceSystem(weighted, factor, J_u, Z, X, diagonal(ops, over), N, square_factor)
    asked = system.given(ops, b_u)

    for x in kept:
        total = total + x
    if friction:
        f, is_solved = least_forces(ops, H, g, back, asked, friction)
        return f, total, is_solved, system
    for _ in range(2):
        f = f + Z @ (ops.transpose(X) @ scaled(ops, over, X @ (asked - back @ f)))
    ops.mark("constraint forces", [f])
    return f, total, is_solved, system


def _is_held(motion: DynamicsProblem, rows: Matrix, passive: Sequence[int]) -> list[Scalar]:
    """1 of joints without motors (u) at which constraints have forces, 0 where their ``rows`` (u × m) are round-off."""
    ops, problem = motion.ops, motion.problem
    least: Scalar = (ROUNDING * ops.epsilon) ** 2 * sum(row_squares(problem))
    compared = units(problem)
    squares = [sum(x * x for x in row) for row in ops.entries(rows)]
    return [ops.less(least, compared[k] ** 2 * x) for k, x in zip(passive, squares, strict=True)]


def orthogonalised(
    ops: Ops,
    A: Matrix,
    B: Matrix,
    considered: Sequence[Scalar] | None = None,
    independent: float = INDEPENDENT,
) -> tuple[Matrix, list[Scalar], list[Scalar]]:
    """``X`` (u × u) that makes ``X A Bᵀ Xᵀ`` diagonal, by Gram and Schmidt's method, twice.

    ``A`` and ``B`` (u × m) are rows and their products with a positive definite matrix. The diagonal's reciprocals,
    zero at rows that depend on others, of which ``X A`` is zero; 1 at those that do not. Rows that are ``considered``
    are flagged 1; others, of 0, count as dependent, and those of whose square is left at most the part ``independent``.
    """
    (u, _), rounding = ops.shape(A), (ROUNDING * ops.epsilon) ** 2
    X, over, kept, sizes = list[Matrix](), list[Scalar](), list[Scalar](), list[Scalar]()
    rows, products = list[Matrix](), list[Matrix]()
    for i in range(u):
        a, b, x = ops.take(A, (i,), None), ops.take(B, (i,), None), ops.constant([[float(i == k) for k in range(u)]])
        ((size,),) = ops.entries(a @ ops.transpose(b))
        least = independent * size
        for again in range(2 if i else 0):
            factors = scaled(ops, over, ops.vstack(products) @ ops.transpose(a))
            across = ops.transpose(factors)
            a, b, x = a - across @ ops.vstack(rows), b - across @ ops.vstack(products), x - across @ ops.vstack(X)
            if not again:
                for factor, of in zip(column(ops, factors), sizes, strict=True):
                    size = size + of * (factor * factor)
        ((left,),) = ops.entries(a @ ops.transpose(b))
        is_kept = ops.less(ops.maximum(least, rounding * size), left)
        is_kept = is_kept * considered[i] if considered else is_kept
        kept.append(is_kept)
        over.append(is_kept / ops.select(is_kept, left, 1.0))
        sizes.append(size)
        for several, one in ((rows, a), (products, b), (X, x)):
            several.append(one)

    # what is left of rows that depend on those before them lies along rows after them
    for i in range(u - 1):
        factors = scaled(ops, over[i + 1 :], ops.vstack(products[i + 1 :]) @ ops.transpose(rows[i]))
        across = scaled_matrix(ops, 1.0 - kept[i], ops.transpose(factors))
        X[i] = X[i] - across @ ops.vstack(X[i + 1 :])
    return ops.vstack(X), over, kept
