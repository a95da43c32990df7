"""Time steps of free and planar joints at constant velocity in the world, where a screw would curve.

The velocity of these joints is in their moving frame. What contact dynamics computes over a step, ``v⁺``, is in the
axes of the frame at the start of the step: there, a free body keeps its momentum exactly. Its derivative is that of
``v`` and ``ω × v`` (`manifold.turning`). The update moves along ``v⁺`` and expresses it in the axes at the end.

Other joints move as `integrate` has them.
"""

from __future__ import annotations

from delassus.model.tree import Tree
from delassus.spatial import manifold
from delassus.spatial.ops import Ops, Scalar

State = list[Scalar]


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
