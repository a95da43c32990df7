"""Impacts of a step: which contact points hit and bounce, when, and by what they displace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from delassus.algorithms.contact.law import FARTHEST, bouncing_speed, impact, impact_margins, impact_time, turns_alike
from delassus.algorithms.contact.modes import nearest_mode
from delassus.algorithms.contact.problem import magnitude, maximum_of
from delassus.algorithms.problem import Problem
from delassus.constraints.joint_rows import bounded_joints_of
from delassus.spatial.motion import column, cross_matrix, from_entries, minus, scaled_matrix
from delassus.spatial.ops import Matrix, Scalar

NEVER = 1e15
"""Time (s) of what is not struck, and velocity (m/s) at which nothing closes: float32 holds its square."""


class ImpactTimes(NamedTuple):
    """Impact of a step.

    Of each point (n): 1 where it ``hits`` and takes part, where it ``bounces``, and where it is ``fast`` enough to do
    so if it were closed; when it is closed (s) and its velocity along the normal then, ``at``; and
    ``margins`` (m/s) at which it does not hit, or does, and at which it does not bounce.
    Of each degree of freedom (nv): 1 where the impact has ``struck`` it and where it ``falls``, its ``times`` (s) and
    of which points (n) they are, ``of_points``; the velocity ``gained`` over the step, and ``kick``; 1 where its body
    is ``placed`` where it is at the time of the impact, empty where none can be.
    """

    hits: list[Scalar]
    bounces: list[Scalar]
    fast: list[Scalar]
    at: list[tuple[Scalar, Scalar]]
    margins: list[tuple[Scalar, Scalar]]
    struck: list[Scalar]
    falls: list[Scalar]
    times: list[Scalar]
    of_points: list[list[Scalar]]
    gained: list[Scalar]
    kick: list[Scalar]
    placed: list[Scalar]


def impact_times(
    step: Any, rates: Sequence[Scalar], free: Sequence[Scalar], restitution: Sequence[Scalar | None],
    tolerance: Scalar,
) -> ImpactTimes:  # fmt: skip
    """The impact of a step that without contacts ends at velocities ``free`` (nv). Cost O(n b) for b bodies.

    An impact of the time ``t`` starts from ``w₀ = v + k``, ``k = (h / 2 + t) a``: velocities are half a step behind.
    It ends at ``w``; the step goes on from ``w − k``, and displaces by ``−t (w − w₀)`` besides: what moves by the
    velocity after the impact from the start of the step on is where the two parts of its path end. ``a`` is the
    acceleration without contacts, in which springs are implicit; zero of links that rest on something, or are tied by
    loops. The time is that at which the first point that bounces is closed, for all that points tie that hit; of what
    loops tie it is the start of the step. Of free bodies on the world whose energy depends on how they are turned,
    centres of mass alone are displaced; all others are placed where they are then (`KernelStep.placed`).
    """
    ops, tree, n = step.ops, step.tree, len(step.points)
    bodies, tied = step.bodies, {link for links, _ in step.tied for link in links}
    dofs = [[k for i in links for k in range(tree.v_slices[i].start, tree.v_slices[i].stop)] for links in bodies]
    held = [bool(tied & {*links}) for links in bodies]
    falls = [cast(Scalar, 0.0 if x else 1.0) for x in held]
    sprung = (step.springs is not None and step.springs.of_links(own) is not None for own in dofs)
    early = [x or y for x, y in zip(held, sprung, strict=True)]
    falling = [links[0] in alone(step) for links in bodies]
    gained, e = minus(free, step.v), [cast(Scalar, 0.0 if x is None else x) for x in restitution]
    fall = bouncing_speed(ops, column(ops, step.motion.gravity), step.h)
    J, own, approach, more = ops.entries(step.space.J), list[list[int]](), list[Scalar](), list[dict[int, Scalar]]()
    for k in range(n):
        row = J[step.others[3 * k + 2]]
        own.append(step.on[k])
        approach.append(sum((row[c] * step.v[c] for b in own[k] for c in dofs[b]), cast(Scalar, 0.0)))
        more.append({b: sum((row[c] * gained[c] for c in dofs[b]), cast(Scalar, 0.0)) for b in own[k]})

    def along_path(k: int) -> Scalar:
        return sum((falls[b] * x for b, x in more[k].items()), approach[k])

    fast = [impact(ops, 0.0, u, u, x, tolerance, fall)[1] for u, x in zip(approach, e, strict=True)]
    for _ in bodies:  # what rests on something that rests
        for k, (candidate, *_) in enumerate(step.points):
            into = ops.less(along_path(k), -tolerance) * (1.0 - ops.less(step.h * tolerance, candidate.gap))
            holds = into * (1.0 - fast[k])
            for b in own[k]:
                falls[b] = falls[b] * (1.0 - holds)
        _rest_on_limits(step, falls, gained, dofs, tolerance)
    reached, hits, bounces, at = [along_path(k) for k in range(n)], list[Scalar](), list[Scalar](), list[Scalar]()
    of_points = list(zip(rates, approach, reached, e, strict=True))
    margins = [impact_margins(ops, *x, tolerance, fall) for x in of_points]
    for rate, before, u, x in of_points:
        both = impact(ops, rate, before, u, x, tolerance, fall)
        hits.append(both[0])
        bounces.append(both[1])
        t = 0.0 if any(early[b] for b in own[len(at)]) else impact_time(ops, rate, before, u, step.h)
        if step.smoothing is not None:  # in the mean over starts no impact stays at the start
            speed = ops.select(bounces[-1] * step.has_mean, 0.5 * (before + u), NEVER)
            opened = ops.derived(0.0, -step.points[len(at)][0].gap / ops.derived(speed, 0.0))
            t = ops.select(ops.less(0.0, t), t, opened)
        at.append(t)
    closing = [u + (0.5 + t * step.over_h) * (x - u) for u, x, t in zip(approach, reached, at, strict=True)]
    times, of = _earliest(step, own, (hits, bounces, at), early)
    struck = [ops.less(t, NEVER) for t in times]
    placing = [[b for b in x if not early[b]] if len(x) == 2 or not falling[x[0]] else [] for x in own]
    placed = [cast(Scalar, 0.0)] * len(bodies)
    for hit, b in ((hits[k], b) for k in range(n) for b in placing[k]):
        placed[b] = ops.maximum(placed[b], hit * struck[b] * ops.less(0.0, times[b]))
    body_of_dof = [b for k in range(tree.nv) for b, of_body in enumerate(dofs) if k in of_body]
    late, of_dofs = [ops.select(x, t, 0.0) for x, t in zip(struck, times, strict=True)], enumerate(body_of_dof)
    kick = [ops.select(struck[b] * falls[b], (0.5 + late[b] * step.over_h) * gained[k], 0.0) for k, b in of_dofs]
    return ImpactTimes(
        [x * struck[own[k][0]] for k, x in enumerate(hits)], bounces, fast, [*zip(at, closing, strict=True)], margins,
        [struck[b] for b in body_of_dof], [falls[b] for b in body_of_dof], [late[b] for b in body_of_dof],
        [of[b] for b in body_of_dof], gained, kick, [placed[b] for b in body_of_dof if any(placing)],
    )  # fmt: skip


def _rest_on_limits(
    step: Any, falls: list[Scalar], gained: Sequence[Scalar], dofs: Sequence[Sequence[int]], tolerance: Scalar
) -> None:
    """Have bodies that a limit of a joint holds fall no more."""
    ops = step.ops
    for c in bounded_joints_of(step.problem.constraints):
        (b,) = (b for b, of_body in enumerate(dofs) if c.dof in of_body)
        u = step.v[c.dof] + falls[b] * gained[c.dof]
        for distance, side in zip(step.distances(c), (1.0, -1.0), strict=True):
            if distance is not None:
                beyond = 1.0 - ops.less(0.0, distance)
                falls[b] = falls[b] * (1.0 - beyond * ops.less(side * u, -tolerance))


def _earliest(
    step: Any, own: Sequence[Sequence[int]], points: tuple[Sequence[Scalar], Sequence[Scalar], Sequence[Scalar]],
    early: Sequence[bool],
) -> tuple[list[Scalar], list[list[Scalar]]]:  # fmt: skip
    """When the impact of each body is (s), and of which points (n) that is the time.

    ``points`` are those that hit, those that bounce, and when they are closed; ``own`` their bodies. Impacts of bodies
    that are ``early`` are at the start of the step.
    """
    ops, n, (hits, bounces, at) = step.ops, len(own), points
    times, of = [cast(Scalar, NEVER)] * len(early), [[cast(Scalar, 0.0)] * n for _ in early]
    for k in range(n):
        for b in own[k]:
            first = bounces[k] * ops.less(at[k], times[b])
            times[b] = ops.select(first, at[k], times[b])
            of[b] = [ops.select(first, float(j == k), x) for j, x in enumerate(of[b])]
    pairs = [k for k in range(n) if len(own[k]) == 2]
    for _ in range(2 if any(early) and pairs else 1):
        for _ in early[1:]:
            for k in pairs:
                for a, b in (own[k], own[k][::-1]):
                    earlier = hits[k] * ops.less(times[a], times[b])
                    times[b] = ops.select(earlier, times[a], times[b])
                    of[b] = [ops.select(earlier, x, y) for x, y in zip(of[a], of[b], strict=True)]
        times = [ops.select(ops.less(t, NEVER), 0.0, t) if x else t for x, t in zip(early, times, strict=True)]
    return times, of


def is_struck(step: Any, tolerance: Scalar) -> Scalar:
    """1 where a contact would bounce if it had restitution, else 0."""
    free = column(step.ops, step.space.L.solved(step.free(step.motion, with_mean=False)[0]))
    rates = [step.ops.maximum(candidate.gap, 0.0) * step.over_h for candidate, *_ in step.points]
    return maximum_of(step.ops, [0.0, *impact_times(step, rates, free, [1.0] * len(rates), tolerance).bounces])


def nearest_of_impact(step: Any, impact: Any, nearest: Scalar) -> Scalar:
    """Distance (m/s) of the nearest other mode, with those of an impact and of which contacts take part in it."""
    ops, when, x = step.ops, impact.when, nearest
    for solved in impact.phases:
        ((y,),) = ops.entries(nearest_mode(ops, *step.modes(solved.problem, solved.outcome.p)))
        x = ops.select(impact.struck, ops.minimum(x, y), x)
    for k, (candidate, *_) in enumerate(step.points):  # another point may be the first that bounces
        dofs = [step.tree.v_slices[link].start for link in sorted(candidate.arms)]
        struck, (of_hit, of_bounce) = maximum_of(ops, [when.struck[dof] for dof in dofs]), when.margins[k]
        x = ops.minimum(x, ops.minimum(of_bounce, ops.select(struck, of_hit, FARTHEST)))
        dof, *_ = dofs
        t, is_other = when.times[dof], when.bounces[k] * (1.0 - when.of_points[dof][k])
        later = step.over_h * magnitude(ops, (when.at[k][0] - t) * when.at[k][1])
        x = ops.select(is_other * ops.less(0.0, t), ops.minimum(x, later), x)
    return x


def alone(step: Any) -> frozenset[int]:
    """Free bodies that nothing ties to others."""
    falling: frozenset[int] = step.problem.free_bodies & {links[0] for links in step.bodies if len(links) == 1}
    return falling


def of_displaced(step: Any, problem: Problem) -> Matrix:
    """Velocities, of those of all links (nv × nv), by which impacts displace; ``problem`` may have rates.

    Those of centres of mass of free bodies, in their axes, and all of bodies with one inertia about all axes; 0 else.
    """
    ops, parts, falling = problem.ops, [problem.ops.zeros(0, 0)], alone(step)
    for i, own in enumerate(problem.tree.joints):
        if i not in falling:
            parts.append(ops.zeros(own.nv, own.nv))
            continue
        H = ops.entries(problem.inertias[i])
        c, (x, y, z) = [x / H[0][0] for x in (H[1][5], H[2][3], H[0][4])], (H[k][3:] for k in (3, 4, 5))
        alike = ops.derived(turns_alike(ops, H[0][0], c, [x[0], y[1], z[2], x[1], x[2], y[2]]), 0.0)
        across = scaled_matrix(ops, alike - 1.0, cross_matrix(ops, from_entries(ops, c)))
        turning = ops.hstack([ops.zeros(3, 3), scaled_matrix(ops, alike, ops.eye(3))])
        parts.append(ops.vstack([ops.hstack([ops.eye(3), across]), turning]))
    return ops.block_diagonal(parts)
