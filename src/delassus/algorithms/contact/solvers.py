"""Solvers of contact steps by name, and projected Gauss–Seidel, sweep after sweep; O(m²) a sweep.

In a sweep one law comes after the other, each with the newest velocities. A contact point is solved with its three rows
at once (`delassus.algorithms.contact.point`). With pyramids, the normal impulse comes first, then friction by a step
against the sliding velocity and back into the pyramid, whose size is that of the new normal impulse. What stays where
it is solves the law.

A sweep starts from where the last two point (`accelerated`), by changes as velocities of the own points and joints.

Source: Jean 1999, Moreau 1999 (NSGS); Anderson 1965, Walker and Ni 2011.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from delassus.algorithms.contact.admm import admm
from delassus.algorithms.contact.law import clamped
from delassus.algorithms.contact.point import PatchBlock, farthest_slip, solve_patch, solve_point, solve_point_beside
from delassus.algorithms.contact.problem import (
    STOP_RATIO,
    PointLaw,
    Solver,
    StepProblem,
    accelerated,
    magnitude,
    maximum_of,
)
from delassus.spatial.motion import minus
from delassus.spatial.ops import Ops, Scalar


def sweeps(problem: StepProblem, start: Sequence[Scalar], times: int, tolerance: float) -> list[Scalar]:
    """Impulses after so many sweeps, or fewer where they change no more."""
    ops, n = problem.ops, len(start)
    square = (STOP_RATIO * tolerance) ** 2

    def sweep_once(values: Sequence[Scalar], slips: Sequence[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
        p, following = list(values), list(slips)
        for i, x in enumerate(problem.points):
            own = slice(x.row, x.row + 3)
            if problem.pyramid:
                for row, impulse in zip(x.rows, pyramid(problem, x, p), strict=True):
                    p[row] = impulse
                continue
            u = [problem.velocity(row, p) for row in x.rows]
            block, before = problem.blocks[i], p[own]
            if isinstance(block, PatchBlock):
                following[i] = patch(problem, x, block, p, u, slips[i])
                continue
            if x.floor is None:
                p[own], following[i] = solve_point(ops, block, x.friction, before, u, slips[i])
            else:
                before[2] = before[2] - x.floor
                offset = x.friction * x.floor
                (a, b, n), following[i] = solve_point_beside(ops, block, x.friction, offset, before, u, slips[i])
                p[own] = a, b, n + x.floor
        for y in problem.joints:
            p[y.row] = problem.joint_impulse(y, p[y.row], problem.velocity(y.row, p))
        return p, following

    def iteration(values: list[Scalar]) -> tuple[list[Scalar], Scalar]:
        p, g_before, F_before, (before, *slips) = values[:n], values[n : 2 * n], values[2 * n : 3 * n], values[3 * n :]
        g, following_slips = sweep_once(p, slips)
        F = problem.own_velocities(minus(g, p))
        moved, following = accelerated(ops, (g, F), (g_before, F_before, before))
        left = moved
        for i, (new, old) in enumerate(zip(following_slips, slips, strict=True)):  # by velocities −α r_t
            change = new - old
            left = left + change * change * (g[3 * i] * g[3 * i] + g[3 * i + 1] * g[3 * i + 1])
            x = problem.points[i]
            for row in x.spins:
                left = left + change * change * (x.friction * g[row]) * (x.friction * g[row])
        for x in problem.points:
            following[x.row + 2] = ops.maximum(following[x.row + 2], 0.0 if x.floor is None else x.floor)
        return [*following, *g, *F, moved, *following_slips], ops.less(left, square)

    slips = [] if problem.pyramid else [farthest_slip(x) for x in problem.blocks]
    found = ops.repeat(times, [*start, *start, *([0.0] * (n + 1)), *slips], iteration)
    return found[n : 2 * n]


ROUNDING = 8.0
"""Relative round-off of an image, over that of a number."""


def fixed_point(
    ops: Ops, image: Callable[[Sequence[Scalar], int], Scalar], units: Sequence[Scalar], times: int, accuracy: Scalar,
    unless: Scalar,
) -> tuple[list[Scalar], Scalar]:  # fmt: skip
    """Values (n) that their images are, from zeros on, and by how much a last sweep has moved one, beyond round-off.

    Values are compared times their ``units``; sweeps end below an ``accuracy``.
    """
    n = len(units)
    if not n:
        return [], 0.0

    def sweep(values: list[Scalar]) -> tuple[list[Scalar], Scalar]:
        g, F, (before,) = list(values[:n]), list[Scalar](), values[3 * n : 3 * n + 1]
        for i, unit in enumerate(units):
            g[i] = image(g, i)
            F.append(unit * (g[i] - values[i]))
        moved, following = accelerated(ops, (g, F), (values[n : 2 * n], values[2 * n : 3 * n], before))
        last = maximum_of(ops, [magnitude(ops, x) for x in F])
        size = maximum_of(ops, [magnitude(ops, x) * unit for x, unit in zip(g, units, strict=True)])
        last = ops.select(ops.less(last, ROUNDING * ops.epsilon * size), 0.0, last)
        return [*following, *g, *F, moved, last], ops.less(last, accuracy)

    *found, last = ops.repeat(times, [0.0] * (3 * n + 2), sweep, unless)
    return found[n : 2 * n], last


def patch(
    problem: StepProblem, x: PointLaw, block: PatchBlock, p: list[Scalar], u: Sequence[Scalar], slip: Scalar
) -> Scalar:
    """Put the impulse of a patch that solves its law in the place of the one in ``p``; its ``α``."""
    before, speeds = x.of_law([p[row] for row in x.rows]), x.in_law(u)
    if x.floor is None:
        found, following = solve_patch(problem.ops, block, x.friction, before, speeds, slip)
    else:
        before[2] = before[2] - x.floor
        offset = x.friction * x.floor
        found, following = solve_patch(problem.ops, block, x.friction, before, speeds, slip, offset)
        found[2] = found[2] + x.floor
    for row, impulse in zip(x.rows, x.in_law(found), strict=True):
        p[row] = impulse
    return following


def pyramid(problem: StepProblem, x: PointLaw, p: Sequence[Scalar]) -> list[Scalar]:
    """Impulses of a point with pyramids: row by row, the normal first."""
    ops, k, w = problem.ops, x.row, problem.own_mobility
    n = ops.maximum(p[k + 2] - problem.velocity(k + 2, p) / w[k + 2], 0.0 if x.floor is None else x.floor)
    with_normal, limit = [*p[: k + 2], n, *p[k + 3 :]], x.friction * n
    friction = [row for row in x.rows if row != k + 2]
    steps = [problem.velocity(row, with_normal) / w[row] for row in friction]
    limits = [limit, limit]
    if x.spins:
        limits = [unit * limit for unit in (*x.units[:2], *x.units[3:])]
    each = zip(friction, steps, limits, strict=True)
    a, b, *turned = (clamped(ops, p[row] - step, -most, most) for row, step, most in each)
    return [a, b, n, *turned]


class Unsolved(Exception):
    """A step has come to a problem whose impulses are not given."""

    def __init__(self, problem: StepProblem, tolerance: float) -> None:
        super().__init__("a problem whose impulses are not given")
        self.problem, self.tolerance = problem, tolerance


class Exact:
    """The solver of states that sweeps do not solve: impulses of one problem after the other are given."""

    def __init__(self, given: Sequence[Sequence[Scalar]]) -> None:
        self._given = iter(given)

    def __call__(self, problem: StepProblem, start: Sequence[Scalar], times: int, tolerance: float) -> list[Scalar]:
        """Those of the next problem."""
        found = next(self._given, None)
        if found is None:
            raise Unsolved(problem, tolerance)
        return list(found)


SOLVERS: Mapping[str, Solver] = MappingProxyType({"nsgs": sweeps, "pgs": sweeps, "admm": admm})
"""Sweeps over cones, sweeps over pyramids, alternating directions over cones."""
