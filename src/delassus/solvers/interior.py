"""Interior points on the exact Coulomb cone, and on its convex relaxation; O(n³) an iteration, some twenty of them.

With ``x = (μ r_n + friction_offset, r_t)`` and multipliers ``y`` in the cone ``y_n ≥ |y_t|``, impulses obey Coulomb's
law where

    ``W r + b = (μ (y_n − |y_t|) + z, y_t)``,    ``x ∘ y = 0``,    ``r_n z = 0``,    ``r_n, z ≥ 0``.

The shift ``μ |y_t|`` is De Saxcé's: without it the problem is the convex relaxation. Of a cone with a tip, ``r_n ≥ 0``
follows from ``x``, and there is no ``z``. Each iteration is a step of Newton's method on ``x ∘ y = σ m``, with ``m``
the mean of what is to become zero: ``σ`` is Mehrotra's, cones are scaled as Nesterov and Todd do, and the reduced
matrix is ``W`` plus a block for each contact. Interior points are off by the root of ``m``; `newton` ends at round-off.

Source: Nesterov and Todd 1998, Mehrotra 1992; Acary, Armand, Nguyen and Shpakovych 2023 for friction.
*Deviations*: the shift is differentiated, too; cones without tips.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from delassus.solvers.linear import mobilities
from delassus.solvers.newton import concluded, newton
from delassus.solvers.problems import ConeProblem, RelaxedProblem
from delassus.solvers.results import Impulses, Solution, SolverStatus, solved_cones
from delassus.spatial.rotations import Array

STAY = 0.99
"""Fraction of the way to the boundary that a step goes at most."""

CENTRES = (0.3, 0.9)
"""Parts of ``m`` that are aimed at instead where that makes steps twice as long."""

SHORTEST = 1e-10
"""Step at which iterations end."""

PATIENCE = 8
"""Iterations in a row after which a merit that has not become half as large ends them: where contacts jam."""

UNIT = np.array([1.0, 0.0, 0.0])
"""Unit of the product ``x ∘ y = (xᵀ y, x_n y_t + y_n x_t)``."""


def dot(a: Array, b: Array) -> Array:
    """Products of rows (n,)."""
    return np.asarray(np.einsum("ni,ni->n", a, b))


def times(A: Array, x: Array) -> Array:
    """Matrices (n, 3, 3) times vectors (n, 3)."""
    return np.asarray(np.einsum("nij,nj->ni", A, x))


def product(x: Array, y: Array) -> Array:
    """``x ∘ y`` (n, 3)."""
    return np.column_stack([dot(x, y), x[:, :1] * y[:, 1:] + y[:, :1] * x[:, 1:]])


def quotient(x: Array, d: Array) -> Array:
    """``y`` with ``x ∘ y = d``."""
    n = (x[:, 0] * d[:, 0] - dot(x[:, 1:], d[:, 1:])) / determinant(x)
    return np.column_stack([n, (d[:, 1:] - n[:, None] * x[:, 1:]) / x[:, :1]])


def determinant(x: Array) -> Array:
    """``x_n² − |x_t|²``, positive inside of the cone."""
    t = np.hypot(x[:, 1], x[:, 2])
    return (x[:, 0] - t) * (x[:, 0] + t)


def scaling(x: Array, y: Array) -> tuple[Array, Array]:
    """``S`` (n, 3, 3), symmetric, with ``S⁻¹ x = S y``, and ``S⁻¹``: of Nesterov and Todd."""
    own, other = np.sqrt(determinant(x)), np.sqrt(determinant(y))
    a, b = x / own[:, None], y / other[:, None]
    w = (a + b * [1.0, -1.0, -1.0]) / np.sqrt(2.0 * (1.0 + dot(a, b)))[:, None]
    out = []
    for sign, size in ((1.0, np.sqrt(own / other)), (-1.0, np.sqrt(other / own))):
        S = np.empty((len(x), 3, 3))
        S[:, 0, 0], S[:, 0, 1:], S[:, 1:, 0] = w[:, 0], sign * w[:, 1:], sign * w[:, 1:]
        S[:, 1:, 1:] = np.eye(2) + w[:, 1:, None] * w[:, None, 1:] / (1.0 + w[:, 0])[:, None, None]
        out.append(size[:, None, None] * S)
    return out[0], out[1]


def longest(x: Array, d: Array) -> float:
    """Largest step along ``d`` (n, 3) that stays in the cones, at most infinite."""
    a, b, c = d[:, 0] ** 2 - dot(d[:, 1:], d[:, 1:]), x[:, 0] * d[:, 0] - dot(x[:, 1:], d[:, 1:]), determinant(x)
    root = np.sqrt(np.maximum(b * b - a * c, 0.0)) - b
    meets = (b * b >= a * c) & (root > 0.0)
    return min(float(np.where(meets, c / np.where(meets, root, 1.0), np.inf).min()), longest_positive(x[:, 0], d[:, 0]))


def longest_positive(x: Array, d: Array) -> float:
    """Largest step along ``d`` (n,) that leaves ``x`` positive."""
    return float(np.where(d < 0.0, -x / np.where(d < 0.0, d, -1.0), np.inf).min(initial=np.inf))


class Step(NamedTuple):
    """Changes of ``r``, ``x``, ``y`` (n, 3) and ``z`` (n,)."""

    r: Array
    x: Array
    y: Array
    z: Array


class InteriorPoint:
    """A point inside of all cones, normals first, impulses and velocities in √J; `advance` makes it the next one."""

    def __init__(self, W: Array, b: Array, mu: Array, friction_offset: Array, shifted: bool) -> None:
        n = mu.size
        order = np.arange(3 * n).reshape(n, 3)[:, [2, 0, 1]].ravel()
        scale = np.repeat(1.0 / np.sqrt(mobilities(W.copy())[0]), 3).reshape(n, 3)
        alone = (mu == 0.0) & (friction_offset == 0.0)  # a normal without friction
        self._offset = np.where(alone, 1.0, friction_offset / scale[:, 0])
        scale[alone, 1:] = 0.0
        A = scale.ravel()[:, None] * W[np.ix_(order, order)] * scale.ravel()
        self._A = A + np.diag(A.diagonal() == 0.0)  # rows of zeros get no impulses
        self._b, self._mu, self._shifted, self._scale = scale.ravel() * b[order], mu, shifted, scale
        self._flat = (mu == 0.0) | (friction_offset > 0.0)
        self._count = n + int(self._flat.sum())
        size = np.abs(self._b).max(initial=0.0) or 1.0
        self._E = np.column_stack([mu, np.ones((n, 2))])  # dx = E dr
        self.r, self.z = size * np.tile(UNIT, (n, 1)), np.where(self._flat, size, 0.0)
        self.y = (size / np.where(mu > 0.0, mu, 1.0))[:, None] * UNIT

    @property
    def impulses(self) -> Array:
        """Impulses (n, 3), tangent, tangent, normal (N s)."""
        return np.asarray((self._scale * self.r)[:, [1, 2, 0]])

    @property
    def x(self) -> Array:
        """``(μ r_n + friction_offset, r_t)`` (n, 3)."""
        return np.asarray(self._E * self.r + self._offset[:, None] * UNIT)

    @property
    def merit(self) -> float:
        """What is to become zero: all products, and what the equations missed."""
        return float((self.x * self.y).sum() + self.r[:, 0] @ self.z + np.abs(self._missed).max(initial=0.0))

    def advance(self) -> bool:
        """Take a step of Newton's method, or say that there is none."""
        n, mu, x, y, z, normal = len(self.r), self._mu, self.x, self.y, self.z, self.r[:, 0]
        speed = np.hypot(y[:, 1], y[:, 2])
        self._missed = (self._A @ self.r.ravel() + self._b).reshape(n, 3) - y
        self._missed[:, 0] += y[:, 0] - mu * (y[:, 0] - self._shifted * speed) - z
        S, self._over = scaling(x, y)
        self._point, self._inverse = times(S, y), self._over @ self._over
        self._G = np.tile(np.eye(3), (n, 1, 1))
        self._G[:, 0, 0] = mu
        self._G[:, 0, 1:] = -self._shifted * (mu / np.maximum(speed, 1e-300))[:, None] * y[:, 1:]
        blocks = self._G @ self._inverse * self._E[:, None, :]
        blocks[:, 0, 0] += z / normal
        self._K = self._A.copy()
        self._K.reshape(n, 3, n, 3)[np.arange(n), :, np.arange(n)] += blocks
        m, square = (x.ravel() @ y.ravel() + normal @ z) / self._count, product(self._point, self._point)

        def centred(part: float) -> tuple[Array, Array]:
            return part * m * UNIT - square, np.where(self._flat, part * m, 0.0) - normal * z

        try:
            ahead, *others = self._steps(centred(0.0), *map(centred, CENTRES))
            a = self._longest(ahead)
            left = ((x + a * ahead.x) * (y + a * ahead.y)).sum() + (normal + a * ahead.r[:, 0]) @ (z + a * ahead.z)
            aim, second = centred(min(max(left / (self._count * m), 0.0), 1.0) ** 3), ahead.r[:, 0] * ahead.z
            [step] = self._steps((aim[0] - product(times(self._over, ahead.x), times(S, ahead.y)), aim[1] - second))
        except np.linalg.LinAlgError:
            return False
        a = self._longest(step)
        for other in others:
            if self._longest(other) > 2.0 * a:
                a, step = self._longest(other), other
        self.r, self.y, self.z = self.r + a * step.r, y + a * step.y, z + a * step.z
        return bool(a > SHORTEST)

    def _steps(self, *wanted: tuple[Array, Array]) -> list[Step]:
        """Steps that change ``x ∘ y`` (n, 3), scaled, and ``r_n z`` (n,) as wanted."""
        normal, right, seconds = self.r[:, 0], [], []
        for of_cones, of_normals in wanted:
            second = times(self._over, quotient(self._point, of_cones))
            side = times(self._G, second) - self._missed
            side[:, 0] += of_normals / normal
            right.append(side.ravel())
            seconds.append(second)
        steps = []
        found = np.linalg.solve(self._K, np.column_stack(right)).T
        for dr, second, (_, of_normals) in zip(found.reshape(len(wanted), -1, 3), seconds, wanted, strict=True):
            dx = self._E * dr
            dz = (of_normals - self.z * dr[:, 0]) / normal
            steps.append(Step(dr, dx, second - times(self._inverse, dx), dz))
        return steps

    def _longest(self, step: Step) -> float:
        """Part of a step that stays inside, at most 1."""
        flat = self._flat
        of_normals = longest_positive(self.r[flat, 0], step.r[flat, 0]), longest_positive(self.z[flat], step.z[flat])
        return min(1.0, STAY * min(longest(self.x, step.x), longest(self.y, step.y), *of_normals))


def solved(
    W: Array, b: Array, mu: Array, friction_offset: Array, start: Array, shifted: bool, tolerance: float, limit: int
) -> tuple[Array, float, int]:
    """The best impulses (3 n,) by Newton's method from ``start`` and from interior points; residual, and iterations."""
    best, least, iteration, merit, since = np.zeros(b.size), np.inf, 0, np.inf, 0
    with np.errstate(all="ignore"):  # what is not finite ends the iterations
        point, r = InteriorPoint(W, b, mu, friction_offset, shifted), start
        while True:
            r, _, residual = newton(W, b, mu, friction_offset, r, tolerance, shifted=shifted)
            if residual < least:
                best, least = r, residual
            if least <= tolerance or iteration == limit or since == PATIENCE or not residual < np.inf:
                break
            if not point.advance():
                break
            iteration, r = iteration + 1, point.impulses.ravel()
            merit, since = (point.merit, 0) if point.merit < 0.5 * merit else (merit, since + 1)
    return best, least, iteration


def interior_contacts(
    W: Array, b: Array, mu: Array, friction_offset: Array, start: Array, tolerance: float, limit: int
) -> Impulses:
    """Impulses by interior points; see `delassus.solvers.registry`."""
    r, residual, iterations = solved(W, b, mu, friction_offset, start, True, tolerance, limit)
    return concluded(W, b, mu, friction_offset, r, residual, tolerance, iterations)[0]


def convex_contacts(
    W: Array, b: Array, mu: Array, friction_offset: Array, start: Array, tolerance: float, limit: int
) -> Impulses:
    """Impulses of the convex relaxation; see `delassus.solvers.registry`."""
    r, residual, iterations = solved(W, b, mu, friction_offset, start, False, tolerance, limit)
    status = SolverStatus.CONVERGED if residual <= tolerance else SolverStatus.ITERATION_LIMIT
    return Impulses(r, status, iterations)


def interior(
    problem: ConeProblem, start: ArrayLike | None = None, *, tolerance: float = 1e-8, max_iterations: int = 60
) -> Solution[ConeProblem]:
    """Solve a contact problem with exact friction cones by interior points.

    Takes what `nsgs` takes, and raises what that raises. Newton's method is tried from ``start`` first; each
    iteration factorises a matrix of the size of ``W`` twice.

    Examples
    --------
    >>> block = ConeProblem([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [3, 4, -1], mu=0.5)
    >>> interior(block).values.round(6).tolist()
    [[-0.3, -0.4, 1.0]]
    """
    return solved_cones(interior_contacts, problem, start, tolerance, max_iterations)


def convex(problem: ConeProblem, *, tolerance: float = 1e-6, max_iterations: int = 60) -> Solution[RelaxedProblem]:
    """Solve the convex relaxation of a contact problem by interior points: a reference.

    Contacts that slip separate at ``μ |u_t|``; where nothing slips, or without friction, its solutions are the exact
    ones (the models of MuJoCo, Drake and Anitescu start here). The solution's problem is a `RelaxedProblem`, whose
    residual leaves De Saxcé's shift out. Takes the parameters of `interior` but for the start, and
    raises the same.

    Examples
    --------
    >>> ball = ConeProblem([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [0.1, 0, -1], mu=0.5)
    >>> convex(ball).values.round(6).tolist()
    [[-0.1, 0.0, 1.0]]
    """
    found = solved_cones(convex_contacts, problem, None, tolerance, max_iterations)
    relaxed = RelaxedProblem(problem.W, problem.b, problem.mu, problem.friction_offset)
    return Solution(relaxed, found.values, found.status, found.iterations)
