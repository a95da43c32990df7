"""How offsets ``κ`` of contacts that turn change with positions, velocities of the start, and parameters.

`delassus.constraints.turning.Turning` is carried out with changes along twists by which links are displaced at the
start of a step and ahead, and along the velocities of links, all in body axes:

    ∂κ = K G ∂q + K̃ G̃ (A ∂q + B ∂v + C ∂p) + K_V (Ψ ∂q + G ∂v) + ∂κ/∂p ∂p.

``G`` and ``G̃`` are Jacobians of links at the start and ahead, ``Ψ`` how their velocities change with positions, and
``A``, ``B``, ``C`` changes of the positions ahead, with parameters ``p`` too. Offsets are cut where they would bring
energy, and none of what does not touch: derivatives are those of the side that a state is on.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise
from typing import Any, NamedTuple, cast

from delassus.algorithms.contact.point_changes import (
    PATH,
    VELOCITY,
    Varied,
    along_ways,
    displaced_robot,
    to_link_of,
    varying,
    with_velocity,
)
from delassus.algorithms.contact.solution import robot_ahead
from delassus.algorithms.contact.step import KernelStep
from delassus.algorithms.dynamics.derivatives.rates import Rates
from delassus.algorithms.dynamics.integrate import position_update_changes
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.problem import Problem
from delassus.constraints.turning import ALIKE, NEVER, ROUNDING, Turning, turns
from delassus.spatial.dual_ops import Dual
from delassus.spatial.ops import Matrix, Scalar

AHEAD = "ahead"
"""Name of the twists by which links are displaced at the end of their path, among what offsets vary with."""


class TurningChanges(NamedTuple):
    """Changes of ``κ`` (3 n × …) of all contact points with positions, velocities of the start, and parameters.

    ``distances`` (n) are velocities (m/s) by which points are apart from where offsets are cut, or are not.
    """

    with_q: Matrix
    with_v: Matrix
    given: Matrix
    distances: list[Scalar]


def turning_changes(step: KernelStep, varied: Varied) -> TurningChanges:
    """Those at the start of a step, which are not looked for where no contact turns."""
    ops, problem, path = step.ops, step.problem, step.path
    n, widths = len(step.points), [step.tree.nv, step.tree.nv, len(varied.parameters)]
    if not n:
        with_q, with_v, given = (ops.zeros(0, width) for width in widths)
        return TurningChanges(with_q, with_v, given, [])
    total, twists = sum(widths), path.twists(problem)

    def found(_: list[Scalar]) -> tuple[list[Scalar], Scalar]:
        ahead = robot_ahead(problem, step.q, step.v, step.h)
        distances = Turning(problem, ahead, twists, step.h, path.closed, _alike(step)).distances()
        return [*distances, *(x for row in ops.entries(_changes(step, ahead, varied)) for x in row)], 1.0

    nothing = 1.0 - turns(problem, twists, step.h, path.closed)
    made = ops.repeat(1, [NEVER] * n + [0.0] * (3 * n * total), found, nothing)
    whole = ops.matrix([made[k : k + total] for k in range(n, len(made), total)])
    ends = [0, widths[0], widths[0] + widths[1], total]
    with_q, with_v, given = (ops.take(whole, None, range(*part)) for part in pairwise(ends))
    return TurningChanges(with_q, with_v, given, made[:n])


def _changes(step: KernelStep, ahead: Problem, varied: Varied) -> Matrix:
    """All of them side by side (3 n × (2 nv + k))."""
    ops, problem, path, nv, k = step.ops, step.problem, step.path, step.tree.nv, len(varied.parameters)
    still = [ops.zeros(joint.nv, 1) for joint in step.tree.joints]
    start, end = Rates(step.motion, still), Rates(DynamicsProblem(ahead, None, None, gravity=ops.zeros(3, 1)), still)
    with_q, moved, _ = position_update_changes(varied.problem, list(step.v), varied.h, [0.0] * nv, varied.parameters)
    moving = ops.hstack([with_q, ops.take(moved, None, [*range(nv), *range(2 * nv, 2 * nv + k)])])
    robot, later = problem.once(displaced_robot), varying(ahead, lambda link: (AHEAD, link))
    twists, by_twists = dict[int, Any](), dict[Hashable, tuple[Matrix, Matrix]]()
    none = ops.zeros(6, nv), ops.zeros(6, k)
    for link in robot.origins:
        twists[link] = with_velocity(robot.ops, step.motion.V[link], link)
        to_link, S, turned = to_link_of(ops, start.poses[link]), start.axes_moving(link), start.of_link(link, start.psi)
        by_twists[link] = to_link, ops.hstack([S, *none])
        by_twists[VELOCITY, link] = to_link, ops.hstack([turned, S, none[1]])
        by_twists[AHEAD, link] = to_link_of(ops, end.poses[link]), end.axes_moving(link) @ moving
    h = cast(Scalar, Dual(step.h))
    found = Turning(robot, later, path.twists(robot, cast(Any, twists)), h, path.closed, _alike(step)).offsets()
    total = along_ways(ops, [x for own in found for x in own], by_twists)

    # by parameters, places of the path and velocities being held
    dual, held = varied.ops, ahead.held(varied.ops, {**varied.problem.inputs, "q": ahead.q})
    V = {link: dual.lifted(step.motion.V[link]) for link in robot.origins}
    twists_held = path.twists(varied.problem, cast(Any, V))
    found = Turning(varied.problem, held, twists_held, varied.h, path.closed, _alike(step)).offsets()
    own = varied.rates([x for each in found for x in each])
    at = [j for j, key in enumerate(varied.parameters) if cast(Any, key)[0] != PATH]  # that is by velocities
    rows = range(3 * len(step.points))
    return total + ops.put(ops.take(own, None, at), ops.shape(total), rows, [2 * nv + j for j in at])


def _alike(step: KernelStep) -> Scalar:
    """Velocity (m/s) up to which offsets are of no matter."""
    return step.ops.maximum(ALIKE, ROUNDING * step.ops.epsilon * step.over_h)
