"""Newton's method on the natural map: what makes cone solvers end at round-off.

Impulses obey Coulomb's law where ``φ(r) = ω r − P_K(ω r − u − s) = 0``, with ``u = W r + b``, De Saxcé's shift ``s =
(0, 0, μ |u_t|)`` and the mobilities ``ω`` of contacts. With the derivative ``P`` of the projection, and ``S`` of ``u +
s`` by ``u``, a step is

    ``(ω (1 − P + δ) + P S W) Δr = −φ``.

Solutions too large for float64 are found by iterative refinement: the same steps, with impulses and ``φ`` in
double-double. Each gains the digits that the factorisation keeps.

Source: Alart and Curnier 1991. *Deviations*: ``δ``; double-double.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from delassus.algorithms.contact.law import cone
from delassus.solvers.linear import Indices, cone_residual, mobilities, natural_map, rounding, velocities
from delassus.solvers.results import Impulses, SolverStatus
from delassus.spatial.numpy_ops import NUMPY
from delassus.spatial.rotations import Array
from delassus.spatial.trace.fused import two_sum

PROXIMAL = 1e-13
"""``δ``: weight, relative to mobilities, of leaving redundant impulses where they are."""

GOAL = 1e-3
"""Residual over the tolerance at which steps end."""

STEPS_WITHOUT_DECREASE = 3
"""How many steps in a row, in double-double, need not make the residual smaller."""

ROUND_OFF_FRACTION = 1e-3
"""Fraction of the tolerance that round-off may make up before residuals are computed in double-double."""

ROUND_OFF_MULTIPLE = 64.0
"""Residuals up to this multiple of round-off may come from it: Newton's method makes more of it than sums do."""


def newton(
    W: Array, b: Array, mu: Array, friction_offset: Array, r: Array, tolerance: float, low: Array | None = None,
    shifted: bool = True,
) -> tuple[Array, Array | None, float]:  # fmt: skip
    """Impulses ``r`` (3n,) in the cones, what they lack beyond float64 if ``low`` (3n,) is given, and the residual.

    What is within the tolerance is left as it is. Without the shift the law is that of the convex relaxation.
    """
    n, omega = mu.size, mobilities(W)[0]
    here, each, whole, still = np.arange(n), np.arange(3 * n), np.ones(n), np.zeros((n, 3))
    r, low = r.reshape(n, 3), None if low is None else low.reshape(n, 3)
    best, least, goal, patience = (r, low), np.inf, tolerance, 0 if low is None else STEPS_WITHOUT_DECREASE
    while True:
        onto = natural_map(r, still, mu, friction_offset, whole, low)  # to the nearest point of the cones
        r, low = (r - onto, None) if low is None else two_sum(r, low - onto)
        if low is None:
            u = (W @ r.ravel() + b).reshape(n, 3)
        else:
            u = velocities(W, r.ravel(), b, low.ravel()).reshape(n, 3)
        speed = np.hypot(u[:, 0], u[:, 1])
        v = u + shifted * (mu * speed)[:, None] * [0.0, 0.0, 1.0]
        missed = natural_map(r, v, mu, friction_offset, omega, low)
        residual = float(np.linalg.norm(missed, axis=1).max(initial=0.0))
        patience -= not residual < least
        if residual < least:
            best, least = (r, low), residual
        if least <= goal or patience < 0 or not residual < np.inf:
            break
        goal = GOAL * tolerance
        P, S = slopes(omega[:, None] * r - v, mu, omega * friction_offset), np.tile(np.eye(3), (n, 1, 1))
        S[:, 2, :2] += shifted * (mu / np.where(speed > 0.0, speed, 1.0))[:, None] * u[:, :2]
        J = np.matmul(P @ S, W.reshape(n, 3, -1)).reshape(3 * n, -1)
        J.reshape(n, 3, n, 3)[here, :, here] += omega[:, None, None] * (np.eye(3) - P)
        J[each, each] += PROXIMAL * np.repeat(omega, 3)
        try:
            step = np.linalg.solve(J, missed.ravel()).reshape(n, 3)
        except np.linalg.LinAlgError:
            break
        r, low = (r - step, None) if low is None else two_sum(r, low - step)
    return best[0].ravel(), None if best[1] is None else best[1].ravel(), least


def patch_steps(steps: Array, p: Array, u: Array, laws: tuple[Array, Array], diagonal: Array, partner: Indices) -> None:
    """Of patches and their spins, groups ``partner`` (n,), ``ω r − P_K(ω r − u − s)`` in the place of ``steps`` (n, 3).

    ``laws`` are friction coefficients and what friction may exceed these by, ``diagonal`` (3 n,) is that of ``W``.
    """
    i = np.flatnonzero(partner >= 0)
    j = partner[i]
    mu, friction_offset = (x[i] for x in laws)
    own = diagonal.reshape(-1, 3).sum(axis=1) / 3.0
    omega = (own[i] + own[j])[:, None]
    friction, slip = (np.hstack([x[i, :2], x[j]]) for x in (p, u))
    y = omega * friction - slip
    size, normal = np.linalg.norm(y, axis=1), omega[:, 0] * p[i, 2] - u[i, 2] - mu * np.linalg.norm(slip, axis=1)
    onto: Any = cone(NUMPY, mu, omega[:, 0] * friction_offset, size, np.zeros(len(i)), normal)
    left = omega * friction - (onto[0] / np.where(size > 0.0, size, 1.0))[:, None] * y
    steps[i, :2], steps[i, 2], steps[j] = left[:, :2], omega[:, 0] * p[i, 2] - onto[2], left[:, 2:]


def slopes(y: Any, mu: Any, friction_offset: Any) -> Array:
    """Derivatives (n, 3, 3) of the projection on the cones at ``y`` (n, 3)."""
    *_, xx, xy, yy, xz, yz, zz = cone(NUMPY, mu, friction_offset, *y.T)
    return np.asarray(NUMPY.matrix([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))


def concluded(
    W: Array, b: Array, mu: Array, friction_offset: Array, r: Array, residual: float, tolerance: float, iterations: int
) -> tuple[Impulses, float]:
    """Impulses with their status, by a float64 residual, and the residual that this is based on.

    Where round-off may hide the truth, the residual is computed in double-double; impulses that miss the tolerance by
    no more than round-off explains are refined.
    """
    noise = rounding(W, r, b)
    if residual > max(tolerance, ROUND_OFF_MULTIPLE * noise):
        status = SolverStatus.ITERATION_LIMIT if residual < np.inf else SolverStatus.NUMERICAL_TROUBLE
        return Impulses(r, status, iterations), residual
    if residual <= tolerance and noise <= ROUND_OFF_FRACTION * tolerance:
        return Impulses(r, SolverStatus.CONVERGED, iterations), residual
    omega = mobilities(W)[0]
    residual, _ = cone_residual(W, b, mu, friction_offset, omega, r)
    if residual <= tolerance:
        return Impulses(r, SolverStatus.CONVERGED, iterations), residual
    if residual <= ROUND_OFF_MULTIPLE * noise:
        found, low, left = newton(W, b, mu, friction_offset, r, tolerance, np.zeros(r.size))
        if left <= tolerance:
            alone, _ = cone_residual(W, b, mu, friction_offset, omega, found)
            if alone <= tolerance:
                return Impulses(found, SolverStatus.CONVERGED, iterations), alone
            return Impulses(found, SolverStatus.ROUND_OFF, iterations, low), left
    return Impulses(r, SolverStatus.ITERATION_LIMIT, iterations), residual
