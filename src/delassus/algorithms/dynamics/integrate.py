"""Time steps on the configuration manifold: joint forces are held over the step ``h``.

``semi-implicit``  ``v⁺ = v + h q̈(q, v)``, ``q⁺ = q ⊕ h v⁺``: order 1, one evaluation.
``rk4``            Runge-Kutta-Munthe-Kaas: the classical rule of order 4 for ``v`` and for the tangent ``u`` at the
                   start of the step, ``q = q₀ ⊕ u``. Velocities of free, ball and planar joints are in the moving
                   frame, so that ``u̇ = v + ½ [u, v] + 1/12 [u, [u, v]]``, the terms after which are of order h⁴.

`position_update` moves free and planar joints at constant velocity in the world, where a screw would curve. What
contact dynamics computes over a step, ``v⁺``, is in the axes of the frame at the start of the step: there, a free body
keeps its momentum exactly. Its derivative is that of ``v`` and ``ω × v`` (`velocity_product` of joints).

Free bodies have the momentum ``H v⁺`` in these axes, and it stays: their centres of mass move straight, and their
angular momentum about these is the same in the axes of the world at the end. The rotation over the step is that of the
mean of the angular velocities at its two ends (implicit midpoint rule), of order 2.

Sources: Hairer, Lubich, Wanner, Geometric Numerical Integration, IV.8; Munthe-Kaas 1998.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from delassus.algorithms.problem import Problem
from delassus.model.tree import Tree
from delassus.spatial.dual_ops import Dual, DualOps
from delassus.spatial.elementary_displacements import Rotation
from delassus.spatial.joint_kinds import BALL, rotated
from delassus.spatial.motion import (
    ANGULAR,
    column,
    cross_entries,
    cross_matrix,
    diagonal,
    from_entries,
    motion_cross,
    plus,
    plus_scaled,
    scaled_matrix,
)
from delassus.spatial.ops import Matrix, Ops, Scalar

ROTATIONS = 3
"""Iterations of the mean angular velocity of free bodies."""

State = list[Scalar]


class Flow:
    """Operations of time steps on states and rates of a tree (scalars of ``q`` or ``v``)."""

    def __init__(self, ops: Ops, tree: Tree) -> None:
        self.ops, self.tree = ops, tree

    def times(self, h: Scalar, rate: Any) -> Any:
        """``h x``."""
        return [h * x for x in rate]

    def along(self, start: Any, h: Scalar, rate: Any) -> Any:
        """``x + h ẋ``."""
        return plus_scaled(start, rate, h)

    def weighted(self, a: Any, b: Any, c: Any, d: Any) -> Any:
        """``a + 2 b + 2 c + d``."""
        return [w + 2.0 * (x + y) + z for w, x, y, z in zip(a, b, c, d, strict=True)]

    def moved(self, q: Any, u: Any) -> Any:
        """``q ⊕ u``."""
        out: State = []
        for joint, sq, sv in zip(self.tree.joints, self.tree.q_slices, self.tree.v_slices, strict=True):
            out.extend(joint.kind.integrate(self.ops, q[sq], u[sv]))
        return out

    def difference(self, start: Any, end: Any) -> Any:
        """``u`` with ``start ⊕ u = end``."""
        out: State = []
        for joint, sq in zip(self.tree.joints, self.tree.q_slices, strict=True):
            out.extend(joint.kind.difference(self.ops, start[sq], end[sq]))
        return out

    def tangent_rate(self, u: Any, v: Any) -> Any:
        """``v + ½ [u, v] + 1/12 [u, [u, v]]``, joint by joint."""
        out: State = []
        ops = self.ops
        for joint, sv in zip(self.tree.joints, self.tree.v_slices, strict=True):
            if joint.nv == 1:
                out.extend(v[sv])
                continue
            axes = joint.motion_axes
            U, V = (ops.put(from_entries(ops, x[sv]), (6, 1), axes, (0,)) for x in (u, v))
            once = motion_cross(ops, U, V)
            twice = motion_cross(ops, U, once)
            first, second = (column(ops, ops.take(W, axes, None)) for W in (once, twice))
            out.extend(x + 0.5 * a + (1.0 / 12.0) * b for x, a, b in zip(v[sv], first, second, strict=True))
        return out


Accelerate = Callable[[Any, Any], Any]
"""From ``q`` and ``v`` to ``q̈``."""


def semi_implicit(flow: Flow, q: Any, v: Any, h: Scalar, accelerate: Accelerate) -> tuple[Any, Any]:
    """Semi-implicit Euler."""
    v = flow.along(v, h, accelerate(q, v))
    return flow.moved(q, flow.times(h, v)), v


def rk4(flow: Flow, q: Any, v: Any, h: Scalar, accelerate: Accelerate) -> tuple[Any, Any]:
    """Runge-Kutta-Munthe-Kaas of order 4."""
    at_q, at_v, u = q, v, None
    slopes: list[tuple[Any, Any]] = []
    for part in (0.5, 0.5, 1.0, None):
        qdd = accelerate(at_q, at_v)
        slopes.append((at_v if u is None else flow.tangent_rate(u, at_v), qdd))
        if part is not None:
            u, at_v = flow.times(part * h, slopes[-1][0]), flow.along(v, part * h, qdd)
            at_q = flow.moved(q, u)
    whole_u, whole_v = (flow.weighted(*(slope[k] for slope in slopes)) for k in (0, 1))
    sixth = h * (1.0 / 6.0)
    return flow.moved(q, flow.times(sixth, whole_u)), flow.along(v, sixth, whole_v)


INTEGRATE: Mapping[str, Callable[[Flow, Any, Any, Scalar, Accelerate], tuple[Any, Any]]] = MappingProxyType(
    {"semi-implicit": semi_implicit, "rk4": rk4}
)
"""Every integrator by its name."""


def position_update(
    ops: Ops, problem: Problem, q: State, v: State, h: Scalar, shift: State, times: Sequence[Scalar] | None = None
) -> tuple[State, State]:  # fmt: skip
    """Configuration displaced by ``h v + shift``, and the velocity ``v`` in the axes that it has then.

    Of free bodies ``v`` is the velocity that their momentum would have in the place of the start. With ``times`` each
    joint has its own in the place of ``h``.
    """
    q_next: State = []
    v_next: State = []
    tree = problem.tree
    for i, (joint, sq, sv) in enumerate(zip(tree.joints, tree.q_slices, tree.v_slices, strict=True)):
        h = h if times is None else times[i]
        end, step = v[sv], [h * x + y for x, y in zip(v[sv], shift[sv], strict=True)]
        if i in problem.free_bodies:
            end, step = conserved_momentum(ops, problem.inertias[i], v[sv], h, shift[sv])
        place, velocity = joint.kind.position_update(ops, q[sq], end, step)
        q_next.extend(place)
        v_next.extend(velocity)
    return q_next, v_next


def position_rates(ops: Ops, tree: Tree, q: Sequence[Scalar]) -> Matrix:
    """Rates (nq × nv) of the numbers of a configuration with velocities, whose columns are orthogonal."""
    dual, parts = DualOps(ops), [ops.zeros(0, 0)]
    for joint, sq in zip(tree.joints, tree.q_slices, strict=True):
        still: list[Any] = [Dual(0.0, {k: 1.0}) for k in range(joint.nv)]
        numbers: list[Any] = [Dual(x) for x in q[sq]]
        moved = joint.kind.moved(dual, numbers, still)
        parts.append(dual.rates(moved, range(joint.nv)))
    return ops.block_diagonal(parts)


def tangent_rates(ops: Ops, tree: Tree, q: Sequence[Scalar]) -> Matrix:
    """Velocities (nv × nq) with rates of the numbers of a configuration: the inverse of `position_rates` on its range.

    Squares of the lengths of columns there are those at a neutral configuration.
    """
    neutral = ops.entries(ops.transpose(position_rates(ops, tree, tree.neutral().tolist())))
    squares: list[Scalar] = [sum((x * x for x in rates), cast(Scalar, 0.0)) for rates in neutral]
    return diagonal(ops, [1.0 / x for x in squares]) @ ops.transpose(position_rates(ops, tree, q))


def conserved_momentum(ops: Ops, H: Matrix, v: State, h: Scalar, shift: State) -> tuple[State, State]:
    """Velocity (6) at the end of a step with the momentum ``H v``, and displacement (6), in the axes of the start.

    ``shift`` (6) is a displacement besides, which leaves the velocity in the world as it is.
    """
    entries = ops.entries(H)
    m, C = entries[0][0], ops.take(H, ANGULAR, ANGULAR)
    c = [x / m for x in (entries[1][5], entries[2][3], entries[0][4])]
    cross = cross_matrix(ops, from_entries(ops, c))
    inertia = ops.sym_add(C, scaled_matrix(ops, m, ops.sym_product(cross, cross)))
    x, y, z = ops.entries(inertia)
    adjugate = ops.matrix([cross_entries(y, z), cross_entries(z, x), cross_entries(x, y)])
    inverse = scaled_matrix(ops, 1.0 / (ops.entries(adjugate @ inertia)[0][0]), adjugate)
    w = v[3:]
    L = column(ops, inertia @ from_entries(ops, w))

    def at_end(rotation: Rotation) -> State:  # angular velocity, in the axes of the end
        return column(ops, inverse @ from_entries(ops, rotated(rotation.inverse(), L)))

    t = [h * x for x in w]
    for _ in range(ROTATIONS):
        t = [0.5 * h * (x + y) for x, y in zip(w, at_end(BALL.exponential(ops, t)), strict=True)]
    rotation = BALL.exponential(ops, t)
    w_end = rotated(rotation, at_end(rotation))
    t = plus(t, shift[3:])
    arm = rotated(BALL.exponential(ops, t), c)
    steps = zip(c, v[:3], cross_entries(w, c), shift[:3], cross_entries(shift[3:], c), arm, strict=True)
    moved = [x + h * (y + z) + (a + b) - new for x, y, z, a, b, new in steps]
    v_end = [x + y - z for x, y, z in zip(v[:3], cross_entries(w, c), cross_entries(w_end, arm), strict=True)]
    return v_end + w_end, moved + t


def position_update_changes(
    problem: Problem, v: State, h: Scalar, shift: State, parameters: Sequence[Hashable],
    times: Sequence[Scalar] | None = None,
) -> tuple[Matrix, Matrix, Matrix]:  # fmt: skip
    """Derivatives of `position_update`: of the place by ``q`` (nv × nv); of the place and of ``v`` by what follows.

    (nv × (2 nv + k), by ``v``, ``shift`` and parameters, which ``h`` and inertias of ``problem`` may vary with.) Places
    are in tangents of configurations; ``problem`` is on `DualOps`.
    """
    dual, tree = cast(DualOps, problem.ops), problem.tree
    ops, by_q, places, ends = dual.base, list[Matrix](), list[Matrix](), list[Matrix]()
    keys = [*((name, k) for name in ("v", "shift") for k in range(tree.nv)), *parameters]
    varied: Any = ([Dual(x, {(name, k): 1.0}) for k, x in enumerate(a)]
                              for name, a in (("v", v), ("shift", shift)))  # fmt: skip
    varied_v, varied_shift = varied
    for i, (joint, sv) in enumerate(zip(tree.joints, tree.v_slices, strict=True)):
        h = h if times is None else times[i]
        end = varied_v[sv]
        step = [h * x + y for x, y in zip(end, varied_shift[sv], strict=True)]
        if i in problem.free_bodies:
            end, step = conserved_momentum(dual, problem.inertias[i], end, h, varied_shift[sv])
        place_by_q, by_step, end_by_end, end_by_step = joint.kind.position_update_changes(
            ops, [x.x for x in end], [x.x for x in step]
        )
        of_end, of_step = (dual.rates(x, keys) for x in (end, step))
        by_q.append(place_by_q)
        places.append(by_step @ of_step)
        ends.append(end_by_end @ of_end + end_by_step @ of_step)
    none = ops.zeros(0, len(keys))
    return ops.block_diagonal(by_q), ops.vstack([none, *places]), ops.vstack([none, *ends])
