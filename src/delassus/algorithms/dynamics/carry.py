"""Time steps of free and planar joints at constant velocity in the world, where a screw would curve.

The velocity of these joints is in their moving frame. What contact dynamics computes over a step, ``v⁺``, is in the
axes of the frame at the start of the step: there, a free body keeps its momentum exactly. `turning` is what the
derivative of ``v`` misses for that, ``ω × v``; `carry` moves along ``v⁺`` and expresses it in the axes at the end, those
of a displacement without velocity included.

Other joints move as `integrate` has them.
"""

from __future__ import annotations

from collections.abc import Sequence

from delassus.model.joints import Joint, JointKind
from delassus.model.tree import Tree
from delassus.spatial import manifold
from delassus.spatial.motion import cross_entries
from delassus.spatial.ops import Ops, Scalar
from delassus.spatial.transform import quaternion_rows

State = list[Scalar]


def turning(joint: Joint, v: Sequence[Scalar]) -> State | None:
    """``ω × v`` of a free or planar joint (nv); None for the others."""
    if joint.kind is JointKind.FREE:
        return [*cross_entries(v[3:], v[:3]), 0.0, 0.0, 0.0]
    if joint.kind is JointKind.PLANAR:
        return [-v[2] * v[1], v[2] * v[0], 0.0]
    return None


def carry(ops: Ops, tree: Tree, q: State, v: State, h: Scalar, shift: State) -> tuple[State, State]:
    """Configuration displaced by ``h v + shift``, and the velocity ``v`` in the axes that it has then."""
    q_next: State = []
    v_next: State = []
    for joint, sq, sv in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True):
        place, speed = q[sq], v[sv]
        step = [h * x + y for x, y in zip(speed, shift[sv], strict=True)]
        if joint.kind is JointKind.FREE:
            still = manifold.integrate(ops, joint, place, [0.0, 0.0, 0.0, *step[3:]])
            moved = _rotated(quaternion_rows(place[3], place[4], place[5], place[6]), step[:3])
            own = manifold.integrate(ops, joint, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, *step[3:]])
            turn = quaternion_rows(own[3], own[4], own[5], own[6])
            back = [list(column) for column in zip(*turn, strict=True)]
            q_next.extend([x + y for x, y in zip(place[:3], moved, strict=True)] + still[3:])
            v_next.extend(_rotated(back, speed[:3]) + list(speed[3:]))
        elif joint.kind is JointKind.PLANAR:
            still = manifold.integrate(ops, joint, place, [0.0, 0.0, step[2]])
            c, s = place[2], place[3]
            q_next.extend([place[0] + c * step[0] - s * step[1], place[1] + s * step[0] + c * step[1], *still[2:]])
            c, s = ops.cos(step[2]), ops.sin(step[2])
            v_next.extend([c * speed[0] + s * speed[1], c * speed[1] - s * speed[0], speed[2]])
        else:
            q_next.extend(manifold.integrate(ops, joint, place, step))
            v_next.extend(speed)
    return q_next, v_next


def _rotated(R: Sequence[Sequence[Scalar]], x: Sequence[Scalar]) -> State:
    return [row[0] * x[0] + row[1] * x[1] + row[2] * x[2] for row in R]
