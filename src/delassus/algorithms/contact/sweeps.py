"""Projected Gauss–Seidel: one law after the other, each with the newest velocities, sweep after sweep; O(m²) a sweep.

A contact point is solved with its three rows at once (`delassus.algorithms.contact.point`). With pyramids, the normal
impulse comes first, then friction by a step against the sliding velocity and back into the pyramid, whose size is that
of the new normal impulse. What stays where it is solves the law.

A sweep starts from where the last two point (Anderson's acceleration of depth one): with ``F`` the change by a sweep,
as velocities of the own points and joints, from ``g − θ (g − g₋)``, ``θ = Fᵀ (F − F₋) / |F − F₋|²``, or from ``g``
where ``F`` has grown.

Source: Jean 1999, Moreau 1999 (NSGS); Anderson 1965, Walker and Ni 2011.
"""

from __future__ import annotations

from collections.abc import Sequence

from delassus.algorithms.contact.laws import STOP_RATIO, StepProblem
from delassus.algorithms.contact.point import SQUARE_FLOOR
from delassus.spatial.ops import Scalar


def sweeps(problem: StepProblem, start: Sequence[Scalar], times: int, tolerance: float) -> list[Scalar]:
    """Impulses after so many sweeps, or fewer where they change no more."""
    ops, n = problem.ops, problem.size
    square = (STOP_RATIO * tolerance) ** 2

    def sweep_once(values: Sequence[Scalar], slips: Sequence[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
        p, following = list(values), list(slips)
        totals = problem.totals(p)

        def put(unknown: int, new: Scalar) -> None:
            row = problem.rows[unknown]
            shared = row in problem.limits and row in problem.dry
            totals[row] = totals[row] + (new - p[unknown]) if shared else new
            p[unknown] = new

        for i, x in enumerate(problem.points):
            own = range(3 * i, 3 * i + 3)
            if problem.pyramid:
                put(own[2], problem.normal(x, p[own[2]], problem.velocity(x.row + 2, totals)))
                u = [problem.velocity(x.row + a, totals) for a in range(2)]
                found = problem.point_friction(x, p[own[0] : own[2]], u, p[own[2]])
            else:
                u = [problem.velocity(x.row + a, totals) for a in range(3)]
                before = [p[k] for k in own]
                found, following[i] = problem.blocks[i].solve(before, u, slips[i])
                found = problem.raised(x, before, u, found)
            for k, new in zip(own, found, strict=False):
                put(k, new)
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
        return p, following

    floors = {3 * i + 2: 0.0 if x.floor is None else x.floor for i, x in enumerate(problem.points)}

    def iteration(values: list[Scalar]) -> tuple[list[Scalar], Scalar]:
        p, g_before, F_before, (before, *slips) = values[:n], values[n : 2 * n], values[2 * n : 3 * n], values[3 * n :]
        g, following_slips = sweep_once(p, slips)
        F = problem.own_velocities([new - old for old, new in zip(p, g, strict=True)])
        moved: Scalar = 0.0
        slope: Scalar = 0.0
        turned: Scalar = SQUARE_FLOOR
        for f, f_before in zip(F, F_before, strict=True):
            change = f - f_before
            moved, slope, turned = moved + f * f, slope + f * change, turned + change * change
        left = moved
        for i, (new, old) in enumerate(zip(following_slips, slips, strict=True)):  # by velocities −α r_t
            change = new - old
            left = left + change * change * (g[3 * i] * g[3 * i] + g[3 * i + 1] * g[3 * i + 1])
        theta = ops.select(ops.less(moved, before), slope / turned, 0.0)
        following = [new - theta * (new - old) for new, old in zip(g, g_before, strict=True)]
        following = [ops.maximum(x, floors[k]) if k in floors else x for k, x in enumerate(following)]
        return [*following, *g, *F, moved, *following_slips], ops.less(left, square)

    slips = [] if problem.pyramid else [x.far for x in problem.blocks]
    found = ops.repeat(times, [*start, *start, *([0.0] * (n + 1)), *slips], iteration)
    return found[n : 2 * n]
