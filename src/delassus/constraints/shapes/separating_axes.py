"""When two convex shapes that move come together, and along which of some axes; without branches.

Shapes overlap where they do so along all axes. An axis along which they are apart at both ends of a straight path says
that they do not meet on it; of others they are entered one after the other, and the last one is that of the hit. Axes
are normals of faces and straight sides, which turn with their shapes, the normal of a contact, and what of that is
across the motion. Where an axis is not among them, as that of two edges, a hit is only said too early.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from delassus.constraints.shapes.convex_distance import TINY, Placed, Vector
from delassus.constraints.shapes.convex_patch import face_normals
from delassus.model.shapes import Box, Capsule, Cylinder, Mesh
from delassus.spatial.motion import chosen, dot, minus, plus_scaled
from delassus.spatial.ops import Ops, Scalar

MOST_FACES = 16
"""Of a hull whose faces are axes; a pebble has more, and each costs the supports of both shapes four times."""

TOGETHER = 1e-12
"""Parts of a step by which entries may differ and are at one time: round-off, as what is lost goes with the root."""

NEVER = 2.0
"""Time, as a part of the step, of an axis that is not entered in it."""

PASSING = 1.5
"""The same of the axis across the motion, along which nothing comes closer: it tells what passes by from a hit."""


class Axis(NamedTuple):
    """A unit vector (3,) to the first shape at the start of a path and at its end: normals of faces turn with these."""

    start: Vector
    end: Vector

    def at(self, ops: Ops, part: Scalar) -> Vector:
        """The axis after a part of the path."""
        if self.start is self.end:
            return self.start
        n = plus_scaled(self.start, minus(self.end, self.start), part)
        over = 1.0 / ops.sqrt(dot(n, n))
        return [over * x for x in n]


class Entry(NamedTuple):
    """When shapes come together, as a part of the step: above 1 where they do not, −1 where they are together already.

    ``axis`` is that of the hit, with the separations (m) along it at both ends.
    """

    time: Scalar
    axis: Axis
    before: Scalar
    after: Scalar

    def rather(self, ops: Ops, other: Entry, better: Scalar) -> Entry:
        """The other one where that is ``better``."""
        axis = Axis(*(chosen(ops, better, x, y) for x, y in zip(other.axis, self.axis, strict=True)))
        numbers = zip((other.time, other.before, other.after), (self.time, self.before, self.after), strict=True)
        time, before, after = (ops.select(better, x, y) for x, y in numbers)
        return Entry(time, axis, before, after)


Pair = tuple[Placed, Placed]


def separation(a: Placed, b: Placed, n: Vector) -> Scalar:
    """Gap (m) of two shapes along a unit vector from B to A; negative where they overlap along it."""
    back = [-x for x in n]
    p, q = a.at(a.support(a.to_own(back))), b.at(b.support(b.to_own(n)))
    return dot(n, minus(p, q)) - (a.radius + b.radius)


def axes_between(start: Pair, end: Pair, normal: Vector) -> list[Axis]:
    """Unit vectors from B to A along which two shapes may be apart.

    The first is the ``normal`` of a contact, the second what of it is across the motion of A beside B.
    """
    a, b = start
    ops = a.ops
    motion = minus(minus(end[0].origin, a.origin), minus(end[1].origin, b.origin))
    square = dot(motion, motion)
    across = plus_scaled(normal, motion, -dot(normal, motion) * (1.0 / ops.maximum(square, TINY)))
    length = dot(across, across)
    there = ops.less(1e-6, length)  # else it is lost in round-off
    over = 1.0 / ops.sqrt(ops.select(there, length, 1.0))
    across = chosen(ops, there, [over * x for x in across], normal)
    out = [Axis(normal, normal), Axis(across, across)]
    between = minus(a.at(a.middle.tolist()), b.at(b.middle.tolist()))
    for shape, later, sign in ((a, end[0], -1.0), (b, end[1], 1.0)):
        for axis, is_one_sided in _face_axes(shape):
            n = shape.to_world(axis)
            side = sign if is_one_sided else ops.copysign(1.0, dot(n, between))
            out.append(Axis(*([side * x for x in m] for m in (n, later.to_world(axis)))))
        if isinstance(shape.shape, Capsule | Cylinder):  # a straight side
            out.append(Axis(normal, later.to_world(shape.to_own(normal))))
    return out


def _face_axes(a: Placed) -> list[tuple[list[float], bool]]:
    """Normals of faces in the frame of the shape, of two opposite ones one; whether it has no opposite one."""
    basis = [[1.0 if j == k else 0.0 for j in range(3)] for k in range(3)]
    match a.shape:
        case Box():
            return [(axis, False) for axis in basis]
        case Cylinder():
            return [(basis[2], False)]
        case Mesh():
            normals = face_normals(a.shape)
            return [(n, True) for n in normals] if len(normals) <= MOST_FACES else []
    return []


def entry(start: Pair, end: Pair, axes: Sequence[Axis], least: Scalar, round_off: float) -> Entry:
    """When two shapes that go from one place to another overlap by ``least`` (m), and along which axis.

    Where they do not, the axis is that of which least is lost; the first, unless another is better by more than
    ``round_off`` (m). The second is taken if there is no other.
    """
    best = Entry(-1.0, axes[0], 0.0, 0.0)
    for k, axis in enumerate(axes):
        best = later_entry(start, end, axis, best, least, round_off, NEVER if k != 1 else PASSING)
    return best


def later_entry(
    start: Pair, end: Pair, axis: Axis, best: Entry, least: Scalar, round_off: float, never: float = NEVER
) -> Entry:
    """The better of an entry and that along one more axis, whose time is ``never`` where it is not entered."""
    ops = start[0].ops
    before, after = separation(*start, axis.start), separation(*end, axis.end)
    apart = ops.less(-least, before)
    stays = apart * ops.less(-least, after)
    part = (before + least) * (1.0 / ops.maximum(before - after, TINY))
    time = ops.select(apart, ops.select(stays, never, ops.minimum(part, 1.0)), -1.0)
    left, lost = (x - ops.minimum(y, 0.0) for x, y in ((best.after, best.before), (after, before)))
    both = ops.less(PASSING, best.time) * ops.less(PASSING, time)
    better = ops.maximum(ops.less(best.time + TOGETHER, time), both * ops.less(left + round_off, lost))
    return best.rather(ops, Entry(time, axis, before, after), better)
