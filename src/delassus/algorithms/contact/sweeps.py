"""Projected Gauss–Seidel: one law after the other, each with the newest velocities, sweep after sweep; O(m²) a sweep.

Of a contact point, the normal impulse comes first, then friction by a step against the sliding velocity and back into
the cone (or the pyramid), whose radius is that of the new normal impulse: what stays where it is solves the law.

Source: Jean 1999, Moreau 1999 (NSGS); the step in place of an exact solution of each point is projected gradient
descent, Acary, Brémond and Huber 2018.
"""

from __future__ import annotations

from collections.abc import Sequence

from delassus.algorithms.contact.laws import StepProblem
from delassus.spatial.ops import Scalar

ENOUGH = 0.1
"""Sweeps end where one changes velocities by less than this part of the tolerance."""


def sweeps(problem: StepProblem, start: Sequence[Scalar], times: int, tolerance: float) -> list[Scalar]:
    """Impulses after so many sweeps, or fewer where they change no more."""
    ops = problem.ops
    square = (ENOUGH * tolerance) ** 2

    def sweep(values: list[Scalar]) -> tuple[list[Scalar], Scalar]:
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
            for a, new in enumerate(problem.tangential(x, p[k : k + 2], u, p[k + 2])):
                put(k + a, new)
        for y in problem.joints:
            u_joint = problem.velocity(y.row, totals)
            if y.row in problem.dry:
                k = problem.dry[y.row]
                old, new = p[k], problem.rubbed(y, p[k], u_joint)
                put(k, new)
                u_joint = u_joint + problem.G[y.row][y.row] * (new - old)
            if y.row in problem.limits:
                k = problem.limits[y.row]
                put(k, problem.limited(y, p[k], u_joint))
        moved: Scalar = 0.0
        for row, old, new in zip(problem.rows, values, p, strict=True):
            change = (new - old) * problem.G[row][row]
            moved = moved + change * change
        return p, ops.less(moved, square)

    return ops.repeat(times, start, sweep)
