"""Where contacts may close: gap, contact frame and contact point of each candidate.

Spheres against planes: the gap is the height of the centre less the radius. Corners of boxes are spheres of radius
zero, capsules two spheres. Spheres and capsules against each other: the closest points of two segments (Ericson,
Real-Time Collision Detection, 5.1.9). The contact point is half-way between the surfaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from delassus.algorithms.contact.laws import TINY
from delassus.constraints import Contact, Frame
from delassus.model.rotations import Array
from delassus.model.tree import WORLD, Tree
from delassus.spatial.motion import column, cross_matrix, from_entries
from delassus.spatial.ops import Matrix, Ops, Scalar

Vector = list["Scalar"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A contact that may close.

    ``gap`` is its signed distance (m). ``rows`` (3 × 6), by link, are those on its twist: the velocity of the contact
    point along two tangents and the normal, which points to the first link.
    """

    gap: Scalar
    rows: dict[int, Matrix]


def candidates(
    ops: Ops, tree: Tree, c: Contact, rotations: Sequence[Matrix], origins: Sequence[Matrix], ground: Any
) -> list[Candidate]:
    """Candidates of a contact, one for each of its points, from the poses of all links in the world.

    ``ground`` (n_points × 4) is what comes with the call, of a contact that asks for it.
    """
    at = c.frame.on(tree)
    centres = [at.position + at.rotation @ p for p, _ in c.spheres]
    if c.second is not None:
        return [_between_links(ops, tree, c, rotations, origins)]
    R, origin = rotations[at.link], origins[at.link]
    out = []
    for k, (centre, (_, radius)) in enumerate(zip(centres, c.spheres, strict=True)):
        own = ops.constant(centre[:, None])
        place = column(ops, origin + R @ own)
        frame: Matrix
        if c.ground == "input":
            height, *normal = ops.entries(ground)[k]
            frame = frame_of(ops, normal)
            gap = normal[2] * (place[2] - height) - radius
        elif isinstance(c.ground, Frame):
            frame = ops.constant(_clean(c.ground.rotation))
            axis, base = c.ground.rotation[:, 2].tolist(), c.ground.position.tolist()
            normal = [*axis]
            gap = sum((n * x for n, x in zip(axis, place, strict=True)), -float(np.dot(axis, base)) - radius)
        else:
            frame, normal, gap = ops.eye(3), [0.0, 0.0, 1.0], place[2] - radius
        down = column(ops, ops.transpose(R) @ ops.take(frame, None, (2,)))
        reach = 0.5 * gap + radius
        point = [float(x) - reach * n for x, n in zip(centre, down, strict=True)]
        out.append(Candidate(gap, {at.link: _rows(ops, frame, R, point)}))
    return out


def _clean(R: Array) -> Array:
    return np.where(np.abs(R) < 1e-15, 0.0, R)


def _rows(ops: Ops, frame: Matrix, R: Matrix, point: Sequence[Scalar]) -> Matrix:
    """Rows on a link's twist: the velocity of a point of it, in body axes, along the axes of a frame of the world."""
    axes = ops.transpose(frame) @ R
    return ops.hstack([axes, -(axes @ cross_matrix(ops, from_entries(ops, point)))])


def frame_of(ops: Ops, n: Sequence[Scalar]) -> Matrix:
    """Two tangents and the normal ``n`` (3 × 3), without branches (Duff et al. 2017)."""
    x, y, z = n
    sign = ops.copysign(1.0, z)
    a = -1.0 / (sign + z)
    b = x * y * a
    first = [1.0 + sign * x * x * a, sign * b, -(sign * x)]
    second = [b, sign + y * y * a, -y]
    return ops.matrix([list(row) for row in zip(first, second, n, strict=True)])


def _between_links(
    ops: Ops, tree: Tree, c: Contact, rotations: Sequence[Matrix], origins: Sequence[Matrix]
) -> Candidate:
    assert c.second is not None and c.second_shape is not None
    segments = []
    for frame, shape in ((c.frame, c.shape), (c.second, c.second_shape)):
        at = frame.on(tree)
        half = 0.5 * getattr(shape, "length", 0.0)
        if at.link == WORLD:
            R, origin = ops.eye(3), ops.zeros(3, 1)
        else:
            R, origin = rotations[at.link], origins[at.link]
        centre = column(ops, origin + R @ ops.constant(at.position[:, None]))
        axis = column(ops, R @ ops.constant(half * _clean(at.rotation)[:, 2:]))
        segments.append((at.link, R, origin, centre, axis, half))
    (_, _, _, p, d, h), (_, _, _, q, e, g) = segments
    s, t = _closest(ops, p, d, h, q, e, g)
    x = [a + s * b for a, b in zip(p, d, strict=True)] if h else p
    y = [a + t * b for a, b in zip(q, e, strict=True)] if g else q
    apart = [a - b for a, b in zip(x, y, strict=True)]
    distance = ops.sqrt(_dot(apart, apart) + TINY)
    over = 1.0 / distance
    normal = [over * a for a in apart]
    axes = frame_of(ops, normal)
    assert c.second_shape is not None and not hasattr(c.shape, "x")
    first_radius, second_radius = c.shape.radius, c.second_shape.radius
    gap = distance - (first_radius + second_radius)
    reach = 0.5 * (distance + (second_radius - first_radius))
    contact = [b + reach * n for b, n in zip(y, normal, strict=True)]
    rows = {}
    for sign, (link, R, origin, *_) in zip((1.0, -1.0), segments, strict=True):
        if link != WORLD:
            point = column(ops, ops.transpose(R) @ (from_entries(ops, contact) - origin))
            K = _rows(ops, axes, R, point)
            rows[link] = K if sign > 0 else -K
    return Candidate(gap, rows)


def _dot(a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalar:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _closest(ops: Ops, p: Vector, d: Vector, h: float, q: Vector, e: Vector, g: float) -> tuple[Scalar, Scalar]:
    """Parameters from −1 to 1 of the closest points of the segments ``p + s d`` and ``q + t e``, half as long as h, g.

    One of length zero has parameter zero.
    """

    def bounded(x: Scalar) -> Scalar:
        return ops.maximum(ops.minimum(x, 1.0), -1.0)

    r = [a - b for a, b in zip(p, q, strict=True)]
    if not h and not g:
        return 0.0, 0.0
    if not g:
        return bounded(-(_dot(d, r) * (1.0 / (h * h)))), 0.0
    if not h:
        return 0.0, bounded(_dot(e, r) * (1.0 / (g * g)))
    b, c, f = _dot(d, e), _dot(d, r), _dot(e, r)
    hh, gg = h * h, g * g
    s = bounded((b * f - c * gg) / ((hh * gg - b * b) + 1e-12 * hh * gg))
    t = bounded((b * s + f) * (1.0 / gg))
    return bounded((b * t - c) * (1.0 / hh)), t
