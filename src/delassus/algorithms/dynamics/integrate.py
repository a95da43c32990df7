"""Time steps on the configuration manifold: joint forces are held over the step ``h``.

``semi-implicit``  ``v⁺ = v + h q̈(q, v)``, ``q⁺ = q ⊕ h v⁺``: order 1, one evaluation.
``rk4``            Runge-Kutta-Munthe-Kaas: the classical rule of order 4 for ``v`` and for the tangent ``u`` at the
                   start of the step, ``q = q₀ ⊕ u``. Velocities of free, ball and planar joints are in the moving
                   frame, so that ``u̇ = v + ½ [u, v] + 1/12 [u, [u, v]]``, the terms after which are of order h⁴.

`position_update` moves free and planar joints at constant velocity in the world, where a screw would curve. What
contact dynamics computes over a step, ``v⁺``, is in the axes of the frame at the start of the step: there, a free body
keeps its momentum exactly. Its derivative is that of ``v`` and ``ω × v`` (`manifold.turning`).

Sources: Hairer, Lubich, Wanner, Geometric Numerical Integration, IV.8; Munthe-Kaas 1998.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from delassus.model.tree import Tree
from delassus.spatial import manifold
from delassus.spatial.motion import column, from_entries, motion_cross
from delassus.spatial.ops import Matrix, Ops, Scalar

State = list[Scalar]
Accelerate = Callable[[Sequence[Scalar], Sequence[Scalar]], Matrix]
"""From ``q`` and ``v`` to ``q̈`` (nv × 1)."""


def semi_implicit(ops: Ops, tree: Tree, q: State, v: State, h: Scalar, accelerate: Accelerate) -> tuple[State, State]:
    """Semi-implicit Euler."""
    v = _along(v, h, column(ops, accelerate(q, v)))
    return _moved(ops, tree, q, [h * x for x in v]), v


def rk4(ops: Ops, tree: Tree, q: State, v: State, h: Scalar, accelerate: Accelerate) -> tuple[State, State]:
    """Runge-Kutta-Munthe-Kaas of order 4."""
    at_q, at_v = q, v
    u: State = [0.0] * tree.nv
    slopes: list[tuple[State, State]] = []
    for part in (0.5, 0.5, 1.0, None):
        qdd = column(ops, accelerate(at_q, at_v))
        slopes.append((at_v if not slopes else _tangent_rate(ops, tree, u, at_v), qdd))
        if part is not None:
            u, at_v = [part * h * x for x in slopes[-1][0]], _along(v, part * h, qdd)
            at_q = _moved(ops, tree, q, u)
    whole_u, whole_v = (
        [a + 2.0 * (b + c) + d for a, b, c, d in zip(*(slope[k] for slope in slopes), strict=True)] for k in (0, 1)
    )
    sixth = h * (1.0 / 6.0)
    return _moved(ops, tree, q, [sixth * x for x in whole_u]), _along(v, sixth, whole_v)


INTEGRATE: Mapping[str, Callable[[Ops, Tree, State, State, Scalar, Accelerate], tuple[State, State]]] = (
    MappingProxyType({"semi-implicit": semi_implicit, "rk4": rk4})
)
"""Every integrator by its name."""


def _along(x: State, h: Scalar, rate: State) -> State:
    return [a + h * b for a, b in zip(x, rate, strict=True)]


def _moved(ops: Ops, tree: Tree, q: State, u: State) -> State:
    """``q ⊕ u``."""
    out: State = []
    for joint, sq, sv in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True):
        out.extend(manifold.integrate(ops, joint, q[sq], u[sv]))
    return out


def _tangent_rate(ops: Ops, tree: Tree, u: State, v: State) -> State:
    """``v + ½ [u, v] + 1/12 [u, [u, v]]``, joint by joint."""
    out: State = []
    for joint, sv in zip(tree.joints, tree.v_slices, strict=True):
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


def position_update(ops: Ops, tree: Tree, q: State, v: State, h: Scalar, shift: State) -> tuple[State, State]:
    """Configuration displaced by ``h v + shift``, and the velocity ``v`` in the axes that it has then."""
    q_next: State = []
    v_next: State = []
    for joint, sq, sv in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True):
        step = [h * x + y for x, y in zip(v[sv], shift[sv], strict=True)]
        place, velocity = manifold.position_update(ops, joint, q[sq], v[sv], step)
        q_next.extend(place)
        v_next.extend(velocity)
    return q_next, v_next
