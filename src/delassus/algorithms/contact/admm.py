"""Alternating directions (ADMM): all rows at once, by one inverse; O(m³) once and O(m²) a pass.

Minimise ``½ xᵀ W x + (b + s)ᵀ x + φ(y)`` over ``x = y``, with ``φ`` what the laws say of impulses alone (cones; limits
pay for the velocity that they allow; dry friction is within bounds) and multipliers ``z``, which become velocities:

    x = (W + ρ)⁻¹ (ρ y + z − b − s),   y = prox_{φ/ρ}(x − z / ρ),   z = z − ρ (x − y).

De Saxcé's shift ``s = (0, 0, μ |z_t|)`` makes Coulomb's law of it. Impulses are scaled by the root of the mobility of
their point or joint. Rows that are redundant, as of a flat foot, do no harm.

Source: Carpentier, Le Lidec and Montaut 2024, algorithm 1. *Deviations*: scaling; the penalty ``ρ`` is fixed.
"""

from __future__ import annotations

from collections.abc import Sequence

from delassus.algorithms.contact.laws import STOP_RATIO, StepProblem, clamped
from delassus.algorithms.contact.point import SQUARE_FLOOR
from delassus.spatial.motion import column, from_entries
from delassus.spatial.ops import Scalar

PENALTY = 1.0
"""``ρ``, relative to mobilities."""


def admm(problem: StepProblem, start: Sequence[Scalar], times: int, tolerance: float) -> list[Scalar]:
    """Impulses after so many passes, or fewer where they change no more."""
    ops, n = problem.ops, problem.size
    scale = _scales(problem)
    over = [1.0 / s for s in scale]
    W = [[si * problem.G[i][j] * sj for j, sj in zip(problem.rows, scale, strict=True)]
         for i, si in zip(problem.rows, scale, strict=True)]  # fmt: skip
    H = ops.matrix([[x + PENALTY if i == j else x for j, x in enumerate(row)] for i, row in enumerate(W)])
    ops.new_system()
    inverse = ops.factor(H).inverse()
    b = [s * problem.b[row] for row, s in zip(problem.rows, scale, strict=True)]
    square = (STOP_RATIO * tolerance) ** 2

    def shifted(z: Sequence[Scalar]) -> list[Scalar]:
        """``z − s``."""
        out = list(z)
        for k, x in enumerate(problem.points):
            out[3 * k + 2] = z[3 * k + 2] - x.friction * _length(problem, z[3 * k], z[3 * k + 1])
        return out

    def iteration(values: list[Scalar]) -> tuple[list[Scalar], Scalar]:
        y, z = values[:n], values[n:]
        right = [PENALTY * a + c - d for a, c, d in zip(y, shifted(z), b, strict=True)]
        x = column(ops, inverse @ from_entries(ops, right))
        new = _nearest(problem, [a - c * (1.0 / PENALTY) for a, c in zip(x, z, strict=True)], scale)
        moved: Scalar = 0.0
        following = []
        for a, old, y_new, z_old, o in zip(x, y, new, z, over, strict=True):
            primal, change = PENALTY * (a - y_new), PENALTY * (y_new - old)
            following.append(z_old - primal)
            moved = moved + (primal * primal + change * change) * (o * o)
        return [*new, *following], ops.less(moved, square)

    y = [p * o for p, o in zip(start, over, strict=True)]
    u = column(ops, ops.matrix(W) @ from_entries(ops, y))
    z = [a + c for a, c in zip(u, b, strict=True)]
    for k, law in enumerate(problem.points):  # velocities with the shift
        z[3 * k + 2] = ops.maximum(z[3 * k + 2], 0.0) + law.friction * _length(problem, z[3 * k], z[3 * k + 1])
    found = ops.repeat(times, [*y, *z], iteration)
    return [s * a for s, a in zip(scale, found[:n], strict=True)]


def _length(problem: StepProblem, a: Scalar, b: Scalar) -> Scalar:
    return problem.ops.sqrt(a * a + b * b + SQUARE_FLOOR)


def _scales(problem: StepProblem) -> list[Scalar]:
    """Scale of each unknown: one over the root of the mean mobility of its point, or of the mobility of its joint."""
    ops, G, out = problem.ops, problem.G, list[Scalar]()
    for x in problem.points:
        mean = (G[x.row][x.row] + G[x.row + 1][x.row + 1] + G[x.row + 2][x.row + 2]) * (1.0 / 3.0) + SQUARE_FLOOR
        out += [1.0 / ops.sqrt(mean)] * 3
    return out + [1.0 / ops.sqrt(G[row][row] + SQUARE_FLOOR) for row in problem.rows[len(out) :]]


def _nearest(problem: StepProblem, v: Sequence[Scalar], scale: Sequence[Scalar]) -> list[Scalar]:
    """``prox_{φ/ρ}``: projections on cones, limits that pay for velocity, friction within its bounds."""
    ops, out = problem.ops, list(v)
    for k, x in enumerate(problem.points):
        a, b, n = v[3 * k : 3 * k + 3]
        t = _length(problem, a, b)
        onto = ops.maximum((n + x.friction * t) * (1.0 / (1.0 + x.friction * x.friction)), 0.0)
        part = x.friction * onto / t
        outside = ops.less(x.friction * n, t)
        found = [ops.select(outside, new, old) for new, old in ((part * a, a), (part * b, b), (onto, n))]
        if x.floor is not None:
            floor = x.floor * (1.0 / scale[3 * k])
            share = ops.minimum(x.friction * floor / t, 1.0)
            below = ops.less(found[2], floor)
            pairs = zip((share * a, share * b, floor), found, strict=True)
            found = [ops.select(below, least, old) for least, old in pairs]
        out[3 * k : 3 * k + 3] = found
    for y in problem.joints:
        if y.row in problem.limits:
            k = problem.limits[y.row]
            least, most = y.bounds or (None, None)
            rate = scale[k] * (1.0 / PENALTY)
            total: Scalar = 0.0
            if least is not None:
                total = ops.maximum(v[k] + rate * least, 0.0)
            if most is not None:
                total = total + ops.minimum(v[k] + rate * most, 0.0)
            out[k] = total
        if y.row in problem.dry:
            k = problem.dry[y.row]
            assert y.friction is not None
            limit = y.friction * (1.0 / scale[k])
            out[k] = clamped(ops, v[k], -limit, limit)
    return out
