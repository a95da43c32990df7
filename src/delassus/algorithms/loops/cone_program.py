"""Least weighted squares of forces within friction cones, by interior points; O(m² u + m³) an iteration, ten to twenty.

Minimise ``½ fᵀ H f − gᵀ f + ½ (b − A f)ᵀ D⁻¹ (b − A f)`` over forces ``f`` of points in cones ``|f_t| ≤ μ f_n``, other
rows free. Small ``D`` stand for ``A f = b``, and where that cannot hold, for the least that it misses. With
``x = (μ f_n, f_t) = E f``, multipliers ``y`` in the cone ``y_n ≥ |y_t|`` and ``λ = D⁻¹ (b − A f)``,

    H f − g − Aᵀ λ − Eᵀ y = 0,    A f + D λ = b,    x ∘ y = 0.

Each iteration is a step of Newton's method on ``x ∘ y = σ m``, with ``m`` the mean of these products, ``σ`` Mehrotra's
with a safeguard, and cones scaled as Nesterov and Todd do. Derivatives are those of one more step, and a last one is
for ``A f = b``.

Source: Nesterov and Todd 1998, Mehrotra 1992, as in `delassus.solvers.interior`. *Deviation*: ``D``.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from delassus.algorithms.contact.problem import magnitude, maximum_of
from delassus.frozen import cached_property
from delassus.spatial.motion import chosen, column, diagonal, dot, from_entries, minus, plus, plus_scaled, scaled_matrix
from delassus.spatial.ops import SQUARE_FLOOR, Factor, Matrix, Ops, Scalar

Vector = list[Scalar]
"""Three numbers of a point, the normal one first."""


ITERATIONS = 40
"""Most iterations."""

INWARDS = 0.1
"""Least ``σ`` after a step that has not made the point better."""

STAY = 0.99
"""Fraction of the way to the boundary that a step goes at most."""

SOFTNESS = 0.5
"""``D``, over the mean of the diagonal of ``A H⁻¹ Aᵀ``: this power of the relative round-off, as those below."""

TOLERANCE = 0.75
"""Iterations end where products and what equations miss are below this, forces and ``H`` being of size one."""

OUTSIDE = 0.45
"""How far forces may be outside of cones for ``A f = b`` to hold to round-off."""

ACCEPTED = 0.3
"""What is above this is not solved."""

WITHIN_CONES = "least squares within friction cones"
"""Phase of programs that ends where iterations begin: what these are made of, which errors are judged by."""

INSIDE = 4.0
"""How far inside of its cone a point stays at least, over its size and the relative round-off."""

FAR = 1e30
"""Step that is longer than all."""


class ConeProgram(NamedTuple):
    """``H`` (m × m), ``g`` (m × 1), ``A`` (u × m), ``b`` (u × 1), of size one; ``D`` (u); ``μ`` by first row."""

    H: Matrix
    g: Matrix
    A: Matrix
    b: Matrix
    D: Sequence[Scalar]
    friction: Mapping[int, Scalar]


def least_forces(
    ops: Ops, H: Matrix, g: Matrix, A: Matrix, b: Matrix, friction: Mapping[int, Scalar]
) -> tuple[Matrix, Scalar]:
    """Forces (m × 1), and 1; NaN and 0 where iterations do not end.

    ``friction`` of points, by the first of their three rows, of which the last is along the normal.
    """
    ops.mark(WITHIN_CONES, [H, g, A, b])
    (u, m), rows = ops.shape(A), ops.entries(H)
    h = reduce(lambda total, k: total + rows[k][k], range(1, m), rows[0][0]) * (1.0 / m)
    over = 1.0 / h
    size = maximum_of(ops, [magnitude(ops, x) for x in [*column(ops, b), *(over * x for x in column(ops, g))]])
    size = ops.select(ops.less(0.0, size), size, 1.0)  # no forces of none
    of_forces = 1.0 / size
    D = [ops.epsilon**SOFTNESS * _size(ops, H, A, h)] * u
    program = ConeProgram(
        scaled_matrix(ops, over, H), scaled_matrix(ops, over * of_forces, g), A, scaled_matrix(ops, of_forces, b), D,
        friction,
    )  # fmt: skip
    start: list[Scalar] = [0.0] * m
    for k in friction:
        start[k + 2] = 1.0
    y = [z for mu in friction.values() for z in (1.0 / mu, 0.0, 0.0)]
    state, n = [*start, *[0.0] * u, *y], m + u + 3 * len(friction)

    def iteration(values: list[Scalar]) -> tuple[list[Scalar], Scalar]:
        current, best, (least,) = values[:n], values[n : 2 * n], values[2 * n :]
        point = _Point(ops, program, current)
        missed = point.missed
        better = ops.less(missed, least)
        best = chosen(ops, better, current, best)
        least = ops.select(better, missed, least)
        ends = ops.maximum(ops.less(least, ops.epsilon**TOLERANCE), 1.0 - ops.less(missed, FAR))
        return [*point.next(better), *best, least], ends

    *found, missed = (ops.derived(x, 0.0) for x in ops.repeat(ITERATIONS, [*state, *state, FAR], iteration)[n:])
    f = _Point(ops, program, found).polished()
    is_solved = ops.less(missed, ops.epsilon**ACCEPTED)
    size = size * ops.sqrt(2.0 * is_solved - 1.0)  # NaN where it is not solved
    return from_entries(ops, [size * x for x in f]), is_solved


def _size(ops: Ops, H: Matrix, A: Matrix, h: Scalar) -> Scalar:
    """Mean of the diagonal of ``h A H⁻¹ Aᵀ``, and a little where forces do not reach what has no motor."""
    total: Scalar = ops.epsilon**SOFTNESS
    if u := ops.shape(A)[0]:
        rows = ops.entries(A @ ops.factor(H, is_judged=False).solve(ops.transpose(A)))
        for k in range(u):
            total = total + (h * (1.0 / u)) * rows[k][k]
    return total


class _Point:
    """A point inside of all cones, and the system of Newton's method there."""

    def __init__(self, ops: Ops, program: ConeProgram, values: Sequence[Scalar]) -> None:
        self._ops, self._program = ops, program
        u, m = ops.shape(program.A)
        self._f, self._lambda, rest = list(values[:m]), list(values[m : m + u]), list(values[m + u :])
        self._y = {k: rest[3 * i : 3 * i + 3] for i, k in enumerate(program.friction)}
        self._x = self._along(self._f)
        self._S = {k: _scaling(ops, x, self._y[k]) for k, x in self._x.items()}
        self._law = {k: _squared(Si) for k, (_, Si) in self._S.items()}
        self._products = reduce(
            operator.add, [a * b for k, x in self._x.items() for a, b in zip(x, self._y[k], strict=True)]
        )
        f, back = from_entries(ops, self._f), ops.transpose(program.A)
        multipliers = from_entries(ops, self._lambda) if u else ops.zeros(0, 1)
        self._force_left = program.b - program.A @ f - diagonal(ops, program.D) @ multipliers
        self._gradient_left = program.g - program.H @ f + back @ multipliers + self._across(self._y)

    @property
    def missed(self) -> Scalar:
        """Largest part that equations miss, and sum of the products, forces being of size one.

        Where no forces hold, multipliers are large, and so is what they are missed by.
        """
        ops = self._ops
        left = [self._products, *(magnitude(ops, x) for x in column(ops, self._gradient_left))]
        size = maximum_of(ops, [1.0, *(magnitude(ops, x) for x in self._lambda)])
        forces = [magnitude(ops, x) for x in column(ops, self._force_left)]
        total = reduce(operator.add, [*left, *forces])  # a largest number may leave out what is none
        return ops.select(ops.less(total, FAR), maximum_of(ops, [maximum_of(ops, left) / size, *forces]), FAR)

    def next(self, is_better: Scalar) -> list[Scalar]:
        """The point after a step of Newton's method, as long as it stays inside.

        Where this one is no better than those before it, the step goes inwards, without terms of second order: with
        them a few programs return to the same points for ever.
        """
        ops, n = self._ops, len(self._x)
        mean = self._products * (1.0 / n)
        points = {k: _times(S, self._y[k]) for k, (S, _) in self._S.items()}
        squares = {k: _product(p, p) for k, p in points.items()}

        def step(target: Scalar, less: Mapping[int, Vector]) -> tuple[Steps, Scalar]:
            second = {}
            for k, p in points.items():
                aim, pairs = [target, 0.0, 0.0], zip(squares[k], less[k], strict=True)
                wanted = [z - (a + b) for z, (a, b) in zip(aim, pairs, strict=True)]
                second[k] = _times(self._S[k][1], _quotient(ops, p, wanted))
            found = self._solve(self._gradient_left, self._force_left, second)
            longest = [_longest(ops, x, d) for of, to in ((self._x, found.x), (self._y, found.y))
                       for x, d in ((of[k], to[k]) for k in of)]  # fmt: skip
            return found, ops.minimum(1.0, STAY * reduce(ops.minimum, longest))

        none: dict[int, Vector] = {k: [0.0, 0.0, 0.0] for k in points}
        ahead, a = step(0.0, none)
        left: Scalar = 0.0
        for k, x in self._x.items():
            for xi, dx, yi, dy in zip(x, ahead.x[k], self._y[k], ahead.y[k], strict=True):
                left = left + (xi + a * dx) * (yi + a * dy)
        ratio = ops.minimum(ops.maximum(left / self._products, 0.0), 1.0)
        second = {k: _product(_times(Si, ahead.x[k]), _times(S, ahead.y[k])) for k, (S, Si) in self._S.items()}
        second = {k: [is_better * z for z in p] for k, p in second.items()}
        sigma = ratio * ratio * ratio
        sigma = ops.select(is_better, sigma, ops.maximum(sigma, INWARDS))
        found, a = step(sigma * mean, second)
        return self._moved(found, a)

    def polished(self) -> list[Scalar]:
        """Forces after a step that leaves products as they are, which changes as the program's numbers do.

        And after one more for ``A f = b`` itself, where cones hold after that.
        """
        ops, at, second, law = self._ops, self._program, {}, {}
        for k, x in self._x.items():
            fixed = [ops.derived(a, 0.0) for a in x]
            law[k] = _stiffness(ops, fixed, self._y[k])
            second[k] = [-z for z in _times(law[k], minus(x, fixed))]
        self._law = law
        step = self._solve(self._gradient_left, self._force_left, second)
        size = reduce(operator.add, [x * x for x in step.f])  # no number where round-off has made factors singular
        f = [ops.select(ops.less(size, FAR), a + b, a) for a, b in zip(self._f, step.f, strict=True)]
        none: dict[int, Vector] = {k: [0.0, 0.0, 0.0] for k in self._x}
        left = at.b - at.A @ from_entries(ops, f)
        more = self._solve(ops.zeros(ops.shape(at.H)[0], 1), left, none)
        ends = plus(f, more.f)
        outside = maximum_of(ops, [ops.length(x[1], x[2]) - x[0] for x in self._along(ends).values()])
        holds = ops.less(outside, ops.epsilon**OUTSIDE)
        return chosen(ops, holds, ends, f)

    def _moved(self, step: Steps, a: Scalar) -> list[Scalar]:
        """The point after a part ``a`` of a step; what round-off takes out of its cone is put back."""
        ops, y = self._ops, list[Scalar]()
        f, lam = (plus_scaled(of, to, a)
                  for of, to in ((self._f, step.f), (self._lambda, step.multipliers)))  # fmt: skip
        out = 1.0 + INSIDE * ops.epsilon
        for k, mu in self._program.friction.items():
            f[k + 2] = ops.maximum(f[k + 2], out * ops.length(f[k], f[k + 1]) / mu)
            n, *t = plus_scaled(self._y[k], step.y[k], a)
            y += [ops.maximum(n, out * ops.length(*t)), *t]
        return [*f, *lam, *y]

    @cached_property
    def _factors(self) -> tuple[Factor, Matrix, Factor | None]:
        """Of ``N = H + E S⁻² E``, or of another law than ``S⁻²``, ``N⁻¹ Aᵀ``, and of ``A N⁻¹ Aᵀ + D``."""
        ops, at = self._ops, self._program
        m, (u, _) = ops.shape(at.H)[0], ops.shape(at.A)
        added = ops.zeros(m, m)
        for k, mu in at.friction.items():
            W = self._law[k]
            scale, order = (mu, 1.0, 1.0), (1, 2, 0)
            block = [[scale[i] * W[i][j] * scale[j] for j in order] for i in order]
            part = range(k, k + 3)
            added = ops.sym_add(added, ops.put(ops.matrix(block), (m, m), part, part))
        factor = ops.factor(ops.sym_add(at.H, added), is_judged=False)
        if not u:
            return factor, ops.zeros(m, 0), None
        Z = factor.solve(ops.transpose(at.A))
        K = ops.sym_add(ops.sym_product(at.A, Z), diagonal(ops, at.D))
        return factor, Z, ops.factor(K, is_judged=False)

    def _solve(self, gradient: Matrix, force: Matrix, second: Mapping[int, Vector]) -> Steps:
        ops, (factor, Z, of_forces) = self._ops, self._factors
        right = gradient + self._across(second)
        df, multipliers = factor.solve(right), list[Scalar]()
        if of_forces is not None:
            change = of_forces.solve(force - self._program.A @ df)
            df, multipliers = df + Z @ change, column(ops, change)
        f = column(ops, df)
        x, y = self._along(f), {}
        for k, d in x.items():
            y[k] = minus(second[k], _times(self._law[k], d))
        return Steps(f, multipliers, x, y)

    def _along(self, f: Sequence[Scalar]) -> dict[int, Vector]:
        """``E f``."""
        return {k: [mu * f[k + 2], f[k], f[k + 1]] for k, mu in self._program.friction.items()}

    def _across(self, y: Mapping[int, Vector]) -> Matrix:
        """``Eᵀ y`` (m × 1)."""
        out: list[Scalar] = [0.0] * self._ops.shape(self._program.H)[0]
        for k, mu in self._program.friction.items():
            out[k : k + 3] = [y[k][1], y[k][2], mu * y[k][0]]
        return from_entries(self._ops, out)


class Steps(NamedTuple):
    """Changes of forces (m), of multipliers (u), and of ``x`` and ``y`` by point."""

    f: list[Scalar]
    multipliers: list[Scalar]
    x: dict[int, Vector]
    y: dict[int, Vector]


Block = list[Vector]
"""Symmetric matrix (3 × 3)."""


def _scaling(ops: Ops, x: Vector, y: Vector) -> tuple[Block, Block]:
    """``S`` with ``S⁻¹ x = S y``, and ``S⁻¹``: of Nesterov and Todd."""
    own, other = (ops.sqrt(_determinant(ops, z)) for z in (x, y))
    a, b = ([z * (1.0 / size) for z in of] for of, size in ((x, own), (y, other)))
    over = 1.0 / ops.sqrt(2.0 * (1.0 + dot(a, b)))
    w = [over * (a[0] + b[0]), over * (a[1] - b[1]), over * (a[2] - b[2])]
    root = ops.sqrt(own / other)
    return _root(w, 1.0, root), _root(w, -1.0, 1.0 / root)


def _stiffness(ops: Ops, x: Vector, y: Vector) -> Block:
    """``−∂y/∂x`` at a solution, at most the reciprocal of ``D``: along the ray through ``x``, its normal, and across.

    The limit of ``S⁻²``, which round-off has for itself there.
    """
    soft, t = ops.epsilon**SOFTNESS, ops.length(x[1], x[2])
    e, half = [x[1] * (1.0 / t), x[2] * (1.0 / t)], 0.5**0.5
    along = e[0] * y[1] + e[1] * y[2]
    axes = [half, -half * e[0], -half * e[1]], [half, half * e[0], half * e[1]], [0.0, -e[1], e[0]]
    pairs = (y[0] - along, x[0] - t), (y[0] + along, x[0] + t), (y[0], x[0])
    # numbers of size one (`least_forces`): the floor is below the square of round-off, and takes 0 / 0 to 0
    sizes = [ops.maximum(a, 0.0) / (ops.maximum(b, soft * ops.maximum(a, 0.0)) + SQUARE_FLOOR) for a, b in pairs]
    return [
        [reduce(operator.add, [s * n[i] * n[j] for s, n in zip(sizes, axes, strict=True)]) for j in range(3)]
        for i in range(3)
    ]


def _root(w: Vector, sign: float, size: Scalar) -> Block:
    p, q, c = sign * w[1], sign * w[2], 1.0 / (1.0 + w[0])
    rows = [[w[0], p, q], [p, 1.0 + c * p * p, c * p * q], [q, c * p * q, 1.0 + c * q * q]]
    return [[size * z for z in row] for row in rows]


def _squared(S: Block) -> Block:
    return [[dot(S[i], S[j]) for j in range(3)] for i in range(3)]


def _times(S: Block, x: Vector) -> Vector:
    return [dot(row, x) for row in S]


def _product(x: Vector, y: Vector) -> Vector:
    """``x ∘ y``."""
    return [dot(x, y), x[0] * y[1] + y[0] * x[1], x[0] * y[2] + y[0] * x[2]]


def _quotient(ops: Ops, x: Vector, d: Vector) -> Vector:
    """``y`` with ``x ∘ y = d``."""
    n = (x[0] * d[0] - x[1] * d[1] - x[2] * d[2]) / _determinant(ops, x)
    over = 1.0 / x[0]
    return [n, (d[1] - n * x[1]) * over, (d[2] - n * x[2]) * over]


def _determinant(ops: Ops, x: Vector) -> Scalar:
    """``x_n² − |x_t|²``, positive inside of the cone."""
    t = ops.length(x[1], x[2])
    return (x[0] - t) * (x[0] + t)


def _longest(ops: Ops, x: Vector, d: Vector) -> Scalar:
    """Largest step along ``d`` that stays in the cone, at most `FAR`."""
    a, c = _determinant(ops, d), _determinant(ops, x)
    b = x[0] * d[0] - x[1] * d[1] - x[2] * d[2]
    under = b * b - a * c
    root = ops.sqrt(ops.maximum(under, 0.0)) - b
    meets = ops.less(0.0, root) * (1.0 - ops.less(under, 0.0))
    to_cone = ops.select(meets, c / ops.select(meets, root, 1.0), FAR)
    falls = ops.less(d[0], 0.0)
    return ops.minimum(to_cone, ops.select(falls, x[0] / ops.select(falls, -d[0], 1.0), FAR))
