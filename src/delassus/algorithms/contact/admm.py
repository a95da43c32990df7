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

from delassus.algorithms.contact.law import TINY, cone, joint, size_of
from delassus.algorithms.contact.problem import STOP_RATIO, PointLaw, StepProblem
from delassus.spatial.motion import column, from_entries, plus
from delassus.spatial.ops import Scalar

PENALTY = 1.0
"""``ρ``, relative to mobilities."""


def admm(problem: StepProblem, start: Sequence[Scalar], times: int, tolerance: float) -> list[Scalar]:
    """Impulses after so many passes, or fewer where they change no more."""
    ops, n = problem.ops, len(start)
    scale = [1.0 / ops.sqrt(w) for w in problem.mobility]
    over = [1.0 / s for s in scale]
    W = [[si * x * sj for x, sj in zip(row, scale, strict=True)] for row, si in zip(problem.G, scale, strict=True)]
    H = ops.matrix([[x + PENALTY if i == j else x for j, x in enumerate(row)] for i, row in enumerate(W)])
    ops.new_system()
    inverse = ops.factor(H).inverse()
    b = [s * x for x, s in zip(problem.b, scale, strict=True)]
    square = (STOP_RATIO * tolerance) ** 2

    def shifted(z: Sequence[Scalar]) -> list[Scalar]:
        """``z − s``."""
        out = list(z)
        for x in problem.points:
            out[x.row + 2] = z[x.row + 2] - x.friction * sliding(x, z)
        return out

    def sliding(x: PointLaw, z: Sequence[Scalar]) -> Scalar:
        """Length of the sliding velocity of a point, and with spins."""
        return size_of(ops, [z[k] for k in x.rows if k != x.row + 2]) if x.spins else ops.length(z[x.row], z[x.row + 1])

    def iteration(values: list[Scalar]) -> tuple[list[Scalar], Scalar]:
        y, z = values[:n], values[n:]
        right = [PENALTY * a + c - d for a, c, d in zip(y, shifted(z), b, strict=True)]
        x = column(ops, inverse @ from_entries(ops, right))
        new = _nearest(problem, [a - c * (1.0 / PENALTY) for a, c in zip(x, z, strict=True)], scale, over)
        moved: Scalar = 0.0
        following = []
        for a, old, y_new, z_old, o in zip(x, y, new, z, over, strict=True):
            primal, change = PENALTY * (a - y_new), PENALTY * (y_new - old)
            following.append(z_old - primal)
            moved = moved + (primal * primal + change * change) * (o * o)
        return [*new, *following], ops.less(moved, square)

    y = [p * o for p, o in zip(start, over, strict=True)]
    u = column(ops, ops.matrix(W) @ from_entries(ops, y))
    z = plus(u, b)
    for x in problem.points:  # velocities with the shift
        z[x.row + 2] = ops.maximum(z[x.row + 2], 0.0) + x.friction * sliding(x, z)
    found = ops.repeat(times, [*y, *z], iteration)
    return [s * a for s, a in zip(scale, found[:n], strict=True)]


def _nearest(
    problem: StepProblem, v: Sequence[Scalar], scale: Sequence[Scalar], over: Sequence[Scalar]
) -> list[Scalar]:
    """``prox_{φ/ρ}``: projections on cones, limits that pay for velocity, friction within its bounds."""
    ops, out = problem.ops, list(v)
    for x in problem.points:
        k = x.row
        floor = 0.0 if x.floor is None else over[k] * x.floor
        if x.spins:
            rows = [row for row in x.rows if row != k + 2]
            size = size_of(ops, [v[row] for row in rows])
            along, _, n, *_ = cone(ops, x.friction, x.friction * floor, size, 0.0, v[k + 2] - floor)
            for row in rows:
                out[row] = along / ops.maximum(size, TINY) * v[row]
            out[k + 2] = n + floor
            continue
        a, b, n = cone(ops, x.friction, x.friction * floor, v[k], v[k + 1], v[k + 2] - floor)[:3]
        out[k : k + 3] = [a, b, n + floor]
    for y in problem.joints:
        k, s = y.row, scale[y.row]
        least, most = (None if bound is None else s * bound for bound in y.bounds)
        friction = None if y.friction is None else PENALTY * over[k] * y.friction
        out[k] = joint(ops, friction, least, most, PENALTY * v[k])[0] * (1.0 / PENALTY)
    return out
