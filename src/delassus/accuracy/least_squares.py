"""Least squares over numbers with bounds and inertias that bodies can have: Gauss–Newton steps, and log det.

    minimise  ½ |f(x)|² + λ Σ D(Y, 1),    D(Y, Z) = tr(Z⁻¹ Y) − log det(Z⁻¹ Y) − 4

The coordinates of a body are its pseudo-inertia relative to that of where the search starts, ``P₀ = L Lᵀ``, as
``Y = L⁻¹ P L⁻ᵀ``, which is linear in its ten parameters. The divergence ``D`` is three things at once. It keeps ``Y``
positive definite, so that bodies are possible. It is least at the start, so that what ``f`` does not depend on stays
there: of all minima it is the one of least change. And its second derivative, ``|L⁻¹ dP L⁻ᵀ|²``, is the metric that
says how far a body is from another, in whatever coordinates, frame and units. A step minimises, by Newton's method,

    ½ |f + J δ|² + λ Σ D(Y + δ, 1) + κ |f|² Σ D(Y + δ, Y) + ½ κ Σ |J_k|² δ_k²

with the third term for bodies and the last one for numbers, whose bounds are held by projection; ``κ`` is that of
Levenberg and Marquardt. Where ``f`` is linear, and ``κ`` small, that is the solution.

The search ends where the next step is predicted to decrease the sum of squares by less than `CLOSE` squared of ``σ²``:
then no combination of parameters moves by more than that part of its standard error. This holds where bodies are at the
edge of what is possible, too, where logarithms of their eigenvalues go on for ever. ``λ`` takes as much: a minimum with
it is at most ``4 λ`` a body above that without it, which is the barrier's parameter.

Residuals may have errors in common, those of one cluster. Where there are more clusters than parameters, and none of
these hangs on a single one, the covariance is, with what each cluster takes off its own residuals put back,

    Q (Σ s_g s_gᵀ) Q,   s_g = (1 − A_g Q)⁻¹ J_gᵀ f_g,   Q = (Σ A_g)⁻¹,   A_g = J_gᵀ J_g

of residuals that do not count linearly; a prior has the variance that it says.

Source: Lee, Wensing and Park 2020 (divergence, metric); Nesterov and Nemirovskii 1994 (barriers); Fan and Yuan 2005
(damping by ``|f|²``); Liang and Zeger 1986 (clusters); Bell and McCaffrey 2002 (their leverage).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from delassus.errors import ConfigurationError
from delassus.frozen import Frozen
from delassus.model.inertia import from_pseudo_inertia, pseudo_inertia
from delassus.spatial.rotations import Array

CLOSE = 0.1
"""Standard errors that the next step may move estimates by where the search has converged."""

SMALLEST_STEP = 1e-10
"""Change of numbers, relative to them, and of bodies, in their metric, at which the search ends."""

DAMPING = 1e-3
"""First damping, relative to the residuals."""

CHANGE = 10.0
"""Factor by which a good or poor step changes the damping."""

MOST_DAMPING = 1e12
"""Damping at which the search ends."""

GOOD = 0.75
"""Decrease over the predicted one, above which damping decreases."""

POOR = 0.25
"""Decrease over the predicted one, below which damping grows."""

LEAST = 1e-4
"""Decrease over the predicted one, below which a step is not taken."""

MOST, MOST_INNER = 100, 100
"""Evaluations, and Newton steps for one of them."""

INSIDE = 0.9
"""Part of the way to where a body is none that a Newton step takes at most."""

NEWTON = 1e-3
"""Part of what the search calls close at which Newton's method for a step ends."""

THIN = 1e-10
"""Eigenvalues of relative pseudo-inertias below which slopes do not press them, for the sake of round-off."""

RANK = 1e-7
"""Directions are unknown whose residuals are smaller than this part of what parameters make one by one."""

LEVERAGE = 0.99
"""Part of what is known in any direction that a single cluster says at most."""

EPS = float(np.finfo(float).eps)

ROWS, COLUMNS = np.triu_indices(4)

BASIS = np.zeros((10, 4, 4))
"""Orthonormal symmetric matrices."""
BASIS[range(10), ROWS, COLUMNS] = BASIS[range(10), COLUMNS, ROWS] = np.where(ROWS == COLUMNS, 1.0, np.sqrt(0.5))


@dataclass(frozen=True, slots=True)
class Domain(Frozen):
    """Coordinates (n,): of bodies by `BASIS`, in columns ``bodies`` (b, 10); others from ``low`` to ``high`` (n,)."""

    bodies: NDArray[np.intp]
    low: Array
    high: Array

    @property
    def numbers(self) -> NDArray[np.bool_]:
        """Which coordinates (n,) are those of no body."""
        out = np.ones(self.low.size, dtype=bool)
        out[self.bodies] = False
        return out

    def matrices(self, x: Array) -> Array:
        """Relative pseudo-inertias (b, 4, 4)."""
        return np.tensordot(x[self.bodies], BASIS, 1)


@dataclass(frozen=True, slots=True)
class Minimum(Frozen):
    """Where a search has ended: residuals and their Jacobian there, evaluations, whether no step would do better."""

    x: Array
    residuals: Array
    jacobian: Array
    evaluations: int
    converged: bool


def body_coordinates(parameters: Array) -> tuple[Array, Array]:
    """Coordinates (10,) of a body relative to itself, and ten parameters for each of them (10, 10).

    Raises `LinAlgError` where these are parameters of no body that has mass in no plane only.
    """
    L = np.linalg.cholesky(pseudo_inertia(parameters))
    return np.trace(BASIS, axis1=1, axis2=2), from_pseudo_inertia(L @ BASIS @ L.T)


def _log_det(Y: Array) -> float:
    """Sum of the logarithms of determinants; ``-inf`` where a matrix is not positive definite."""
    try:
        return 2.0 * float(np.log(np.diagonal(np.linalg.cholesky(Y), axis1=-2, axis2=-1)).sum())
    except np.linalg.LinAlgError:
        return -np.inf


def divergence(Y: Array) -> float:
    """``Σ tr Y − log det Y − 4`` of positive definite matrices (b, 4, 4), infinite of others."""
    return float(np.trace(Y, axis1=-2, axis2=-1).sum()) - 4.0 * len(Y) - _log_det(Y)


class _Step:
    """Model of the sum of squares about ``x``: residuals ``f`` with derivatives ``J``, weight ``λ`` of the start."""

    def __init__(self, domain: Domain, x: Array, J: Array, f: Array, weight: float) -> None:
        self.domain, self.x, self.weight, self.near = domain, x, weight, np.linalg.inv(domain.matrices(x))
        R = np.asarray(np.linalg.qr(np.column_stack([J, f]), mode="r"))
        self.R, self.q, self.square = R[:, :-1], R[:, -1], float(f @ f)
        size = np.linalg.norm(J, axis=0)
        self.sizes = np.where(size > 0.0, size, 1.0) * domain.numbers

    def cost(self, z: Array) -> float:
        """``½ |f + J δ|² + λ Σ D(Y + δ, 1)``."""
        left = self.R @ (z - self.x) + self.q
        return 0.5 * float(left @ left) + self.weight * divergence(self.domain.matrices(z))

    def minimum(self, damping: float, enough: float) -> tuple[Array, float]:
        """Where cost and damping are least (n,), to ``enough``, and how much less cost is there.

        Damping of bodies starts where Newton's method may take a whole step, and goes down to what is asked for.
        """
        domain, z, least, tries = self.domain, self.x, damping * self.square, 0
        scale, bodies = np.sqrt(damping) * self.sizes, least
        while True:
            g, H, W = self._newton(z, bodies, scale)
            d = np.zeros(z.size)
            free = np.flatnonzero(~((z <= domain.low) & (g > 0.0) | (z >= domain.high) & (g < 0.0)))
            size = np.sqrt(np.diagonal(H)[free])
            size[size == 0.0] = 1.0
            scaled = H[np.ix_(free, free)] / np.outer(size, size)
            d[free] = -np.linalg.lstsq(scaled, g[free] / size, rcond=EPS)[0] / size
            decrement, total, now = -float(g @ d), self.weight + bodies, self._damped(z, bodies, scale)
            tries += 1
            if z is self.x and len(W) and decrement > total and tries < MOST_INNER:
                bodies = CHANGE * total
                continue
            if (bodies <= least and decrement <= max(enough, EPS * abs(now))) or tries >= MOST_INNER:
                return z, self.cost(self.x) - self.cost(z)
            shares = np.linalg.eigvalsh(np.tensordot(np.einsum("bik,bk->bi", W, d[domain.bodies]), BASIS, 1))
            t = min(1.0, -INSIDE / min(shares.min(initial=0.0), -EPS))
            while True:
                other = np.clip(z + t * d, domain.low, domain.high)
                if self._damped(other, bodies, scale) <= now - LEAST * t * decrement:
                    break
                if t < EPS:
                    return z, self.cost(self.x) - self.cost(z)
                t *= 0.5
            z = other
            if decrement <= total:
                bodies = bodies / CHANGE if bodies > CHANGE * max(least, self.weight) else least

    def _damped(self, z: Array, bodies: float, scale: Array) -> float:
        """Cost and damping, ``bodies`` that of bodies, ``scale`` (n,) the root of that of numbers."""
        Y, moved = self.domain.matrices(z), scale * (z - self.x)
        apart = float(np.einsum("bij,bji->", self.near, Y)) - 4.0 * len(Y) - _log_det(Y)
        return self.cost(z) + bodies * apart + 0.5 * float(moved @ moved)

    def _newton(self, z: Array, bodies: float, scale: Array) -> tuple[Array, Array, Array]:
        """Gradient (n,) and second derivatives (n, n) of `_damped`, and the metrics of bodies there."""
        g, H = self.R.T @ (self.R @ (z - self.x) + self.q) + scale**2 * (z - self.x), self.R.T @ self.R
        H[np.diag_indices(len(H))] += scale**2
        L = np.asarray(np.linalg.cholesky(self.domain.matrices(z)), dtype=float)
        W, total = _metrics(L), self.weight + bodies
        slopes = np.swapaxes(L, 1, 2) @ (self.weight * np.eye(4) + bodies * self.near) @ L - total * np.eye(4)
        for at, w, slope in zip(self.domain.bodies, W, slopes, strict=True):
            g[at] += w.T @ np.tensordot(BASIS, slope, 2)
            H[np.ix_(at, at)] += total * w.T @ w
        return g, H, W


def _metrics(L: Array) -> Array:
    """Maps (b, 10, 10) of changes of ``Y = L Lᵀ`` (b, 4, 4) to ``L⁻¹ dY L⁻ᵀ``, both by `BASIS`."""
    half = np.linalg.inv(L)[:, None]
    return np.asarray(np.einsum("iuv,bkuv->bik", BASIS, half @ BASIS @ np.swapaxes(half, 2, 3)))


def _is_small(domain: Domain, x: Array, z: Array) -> bool:
    """Whether a step is too small to matter."""
    moved, numbers = z - x, domain.numbers
    W = _metrics(np.asarray(np.linalg.cholesky(domain.matrices(x)), dtype=float))
    of_bodies = np.einsum("bik,bk->bi", W, moved[domain.bodies])
    few = SMALLEST_STEP * (SMALLEST_STEP + np.linalg.norm(x[numbers]))
    return bool(np.linalg.norm(of_bodies) <= SMALLEST_STEP and np.linalg.norm(moved[numbers]) <= few)


def least_squares(
    residuals: Callable[[Array], Array],
    jacobian: Callable[[Array], Array],
    x: Array,
    domain: Domain,
    variance: Callable[[Array], float],
) -> Minimum:
    """Coordinates (n,) with the least sum of squares of ``residuals`` (m,), which have such a ``variance``.

    ``jacobian`` (m, n) is asked for at each step that is taken, of residuals that were computed last. Where something
    else is eliminated from them, they may become less than was predicted: the search goes on as long as they do.
    Raises `ConfigurationError` where their squares, or those of their derivatives, are not finite.
    """
    f, evaluations, damping, more = residuals(x), 1, DAMPING, np.inf  # what is eliminated is where it starts
    while True:
        J = jacobian(x)
        with np.errstate(over="ignore", invalid="ignore"):
            sizes = float(f @ f), float(np.sum(J * J))
        if not np.isfinite(sizes).all():
            came = "residuals and derivatives of square sums {:g} and {:g}".format(*sizes)
            advice = "Check measurements, their standard deviations, and what else the calls are given."
            raise ConfigurationError("what is fitted", "numbers whose squares are finite", came, advice)
        enough = 0.5 * CLOSE**2 * variance(f)
        round_off = EPS * float(np.sum(J * J, axis=0).max(initial=0.0)) + THIN * float(np.abs(f @ J).max(initial=0.0))
        weight = max(enough / (4 * max(1, len(domain.bodies))), round_off, float(np.finfo(float).tiny))
        step = _Step(domain, x, J, f, weight)
        cost, gained, predicted = step.cost(x), 0.0, 0.0
        while not gained > LEAST * predicted:  # nor where it is NaN
            z, predicted = step.minimum(damping, NEWTON * enough)
            small = more <= enough and (predicted <= enough or _is_small(domain, x, z))
            if small or evaluations >= MOST or damping > MOST_DAMPING:
                left = step.minimum(0.0, NEWTON * enough)[1]
                return Minimum(x, f, J, evaluations, small and left <= max(enough, 0.5 * SMALLEST_STEP**2))
            f_z, evaluations = residuals(z), evaluations + 1
            gained = cost - 0.5 * float(f_z @ f_z) - weight * divergence(domain.matrices(z))
            more = gained - predicted if more == np.inf else more
            if gained > GOOD * predicted:
                damping /= CHANGE
            elif gained < POOR * predicted:
                damping *= CHANGE
        x, f, more = z, f_z, gained - predicted


def clustered(own: Array, f: Array, square: NDArray[np.bool_], of: NDArray[np.intp], prior: Array) -> tuple[Array, int]:
    """Root (r, r) of the covariance of r coordinates by clusters, and how many these are; or 0 of them.

    Of units, which are ``of`` clusters (n,), ``own`` (n, m, r) are derivatives of residuals ``f`` (n, m), which count
    by their ``square`` (n, m); ``prior`` (k, r) those of what is known beforehand.
    """
    r = own.shape[-1]
    names, at = np.unique(of, return_inverse=True)
    if names.size <= r or not r:
        return np.zeros((r, r)), 0
    A, s = np.zeros((names.size, r, r)), np.zeros((names.size, r))
    np.add.at(A, at, np.einsum("nmi,nm,nmj->nij", own, square, own, optimize=True))
    np.add.at(s, at, np.einsum("nmi,nm->ni", own, f))
    known = prior.T @ prior
    values, vectors = np.linalg.eigh(A.sum(axis=0) + known)
    if values[0] <= RANK * values[-1]:
        return np.zeros((r, r)), 0
    half = vectors / np.sqrt(values)  # Q = half halfᵀ
    shares = half.T @ A @ half
    if np.linalg.eigvalsh(shares)[:, -1].max() > LEVERAGE:
        return np.zeros((r, r)), 0
    moved = np.linalg.solve(np.eye(r) - shares, (s @ half)[..., None])[..., 0]
    values, vectors = np.linalg.eigh(moved.T @ moved + half.T @ known @ half)
    return half @ (vectors * np.sqrt(np.maximum(values, 0.0))), int(names.size)
