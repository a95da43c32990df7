"""Projected Gauss–Seidel: one law after the other, each with the newest velocities, sweep after sweep; O(m²) a sweep.

Of a contact point, the normal impulse comes first, then friction by a step against the sliding velocity and back into
the cone (or the pyramid), whose radius is that of the new normal impulse: what stays where it is solves the law.

A sweep starts from where the last two point (Anderson's acceleration of depth one): with ``F`` the change by a sweep,
as velocities, from ``g − θ (g − g₋)``, ``θ = Fᵀ (F − F₋) / |F − F₋|²``, or from ``g`` where ``F`` has grown. Of
Talos on two flat feet, whose rows are redundant, 40 sweeps then leave one step in a hundred above 1e-4 m/s in place of
one in twelve (`benchmarks/LOG.md`).

Source: Jean 1999, Moreau 1999 (NSGS); the step in place of an exact solution of each point is projected gradient
descent, Acary, Brémond and Huber 2018; Anderson 1965, Walker and Ni 2011.
"""

from __future__ import annotations

from collections.abc import Sequence

from delassus.algorithms.contact.laws import SQUARE_FLOOR, STOP_RATIO, StepProblem
from delassus.spatial.ops import Scalar


def sweeps(problem: StepProblem, start: Sequence[Scalar], times: int, tolerance: float) -> list[Scalar]:
    """Impulses after so many sweeps, or fewer where they change no more."""
    ops, n = problem.ops, problem.size
    square = (STOP_RATIO * tolerance) ** 2

    def sweep_once(values: Sequence[Scalar]) -> list[Scalar]:
        p = list(values)
        totals = problem.totals(p)

        def put(unknown: int, new: Scalar) -> None:
            row = problem.rows[unknown]
            shared = row in problem.limits and row in problem.dry
            totals[row] = totals[row] + (new - p[unknown]) if shared else new
            p[unknown] = new

        for i, x in enumerate(problem.points):
            k = 3 * i
            put(k + 2, problem.normal(x.row + 2, p[k + 2], problem.velocity(x.row + 2, totals)))
            u = [problem.velocity(x.row + a, totals) for a in range(2)]
            for a, new in enumerate(problem.point_friction(x, p[k : k + 2], u, p[k + 2])):
                put(k + a, new)
        for y in problem.joints:
            u_joint = problem.velocity(y.row, totals)
            if y.row in problem.dry:
                k = problem.dry[y.row]
                old, new = p[k], problem.dry_friction(y, p[k], u_joint)
                put(k, new)
                u_joint = u_joint + problem.G[y.row][y.row] * (new - old)
            if y.row in problem.limits:
                k = problem.limits[y.row]
                put(k, problem.limit_impulse(y, p[k], u_joint))
        return p

    normals = {3 * i + 2 for i in range(len(problem.points))}

    def iteration(values: list[Scalar]) -> tuple[list[Scalar], Scalar]:
        p, g_before, F_before, before = values[:n], values[n : 2 * n], values[2 * n : -1], values[-1]
        g = sweep_once(p)
        F = [problem.G[row][row] * (new - old) for row, old, new in zip(problem.rows, p, g, strict=True)]
        moved: Scalar = 0.0
        slope: Scalar = 0.0
        turned: Scalar = SQUARE_FLOOR
        for f, f_before in zip(F, F_before, strict=True):
            change = f - f_before
            moved, slope, turned = moved + f * f, slope + f * change, turned + change * change
        theta = ops.select(ops.less(moved, before), slope / turned, 0.0)
        following = [new - theta * (new - old) for new, old in zip(g, g_before, strict=True)]
        following = [ops.maximum(x, 0.0) if k in normals else x for k, x in enumerate(following)]
        return [*following, *g, *F, moved], ops.less(moved, square)

    found = ops.repeat(times, [*start, *start, *([0.0] * (n + 1))], iteration)
    return found[n : 2 * n]
