"""Time steps on the configuration manifold: joint forces are held over the step ``h``.

``semi-implicit``  ``v⁺ = v + h q̈(q, v)``, ``q⁺ = q ⊕ h v⁺``: order 1, one evaluation.
``rk4``            Runge-Kutta-Munthe-Kaas: the classical rule of order 4 for ``v`` and for the tangent ``u`` at the
                   start of the step, ``q = q₀ ⊕ u``. Velocities of free, ball and planar joints are in the moving
                   frame, so that ``u̇ = v + ½ [u, v] + 1/12 [u, [u, v]]``, the terms after which are of order h⁴.

`position_update` moves free and planar joints at constant velocity in the world, where a screw would curve. What
contact dynamics computes over a step, ``v⁺``, is in the axes of the frame at the start of the step: there, a free body
keeps its momentum exactly. Its derivative is that of ``v`` and ``ω × v`` (`velocity_product` of joints).

Sources: Hairer, Lubich, Wanner, Geometric Numerical Integration, IV.8; Munthe-Kaas 1998.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from delassus.model.tree import Tree
from delassus.spatial.motion import column, from_entries, motion_cross
from delassus.spatial.ops import Ops, Scalar

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
        return [a + h * b for a, b in zip(start, rate, strict=True)]

    def weighted(self, a: Any, b: Any, c: Any, d: Any) -> Any:
        """``a + 2 b + 2 c + d``."""
        return [w + 2.0 * (x + y) + z for w, x, y, z in zip(a, b, c, d, strict=True)]

    def moved(self, q: Any, u: Any) -> Any:
        """``q ⊕ u``."""
        out: State = []
        for joint, sq, sv in zip(self.tree.joints, self.tree.q_slices, self.tree.v_slices, strict=True):
            out.extend(joint.kind.integrate(self.ops, q[sq], u[sv]))
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


def position_update(ops: Ops, tree: Tree, q: State, v: State, h: Scalar, shift: State) -> tuple[State, State]:
    """Configuration displaced by ``h v + shift``, and the velocity ``v`` in the axes that it has then."""
    q_next: State = []
    v_next: State = []
    for joint, sq, sv in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True):
        step = [h * x + y for x, y in zip(v[sv], shift[sv], strict=True)]
        place, velocity = joint.kind.position_update(ops, q[sq], v[sv], step)
        q_next.extend(place)
        v_next.extend(velocity)
    return q_next, v_next
