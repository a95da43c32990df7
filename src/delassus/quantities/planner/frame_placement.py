"""Body frames placed for few operations: the same robot, but rotated about and moved along its joint axes.

The body frame of a link that a revolute, cos-sin or prismatic joint carries may be rotated about the joint's axis and
moved along it by constants, ``T_i = Rot_k(φ_i) Trans_k(d_i)``: these commute with the joint's motion, so that
configurations, velocities and every frame that a user sees stay what they were. The joint's placement becomes
``T_p⁻¹ P_i T_i``; inertias and named frames move along. With one child in a link the result is the form of Denavit and
Hartenberg (one constant rotation a joint, about the common perpendicular of two axes); with several, the child that has
the most rows to carry gets it and the others what their own ``φ`` and ``d`` still remove.

The choice is greedy from the root, then improved link by link from the leaves, on a local model of the operations of
one joint.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from delassus.model.kinematics import move_body_frames
from delassus.model.tree import WORLD, Tree
from delassus.spatial.joint_kinds import FREE, REVOLUTE
from delassus.spatial.rotations import exact_quarter_turns

Vector = Sequence[float]

ROTATION = 40.0
"""Operations of one constant rotation of an inertia about a coordinate axis."""

ROTATION_ROW = 12.0
"""The same of one constraint row."""

STEP = 24.0
"""Operations of one component of a constant translation of an inertia."""

STEP_ROW = 4.0
"""The same of one constraint row."""

ROW_ENTRY = 1.5
"""Operations that one more entry of a constraint's rows costs on the link that the constraint sits on."""

ZERO = 1e-11
"""Components of unit vectors, and of positions relative to the size of the robot, below this count as zero."""

LEAST_SLOPE = 0.05
"""An axis nearer than this to a coordinate plane is not followed to reach it: the frame would end far away."""

FARTHEST = 4.0
"""Body frames are moved by less than this, relative to the size of the robot."""

ROWS = 6
"""Rows that each constrained link is taken to carry."""


@dataclass(slots=True)
class _Link:
    """A link while its body frame is being placed: rotated by the angle (``c``, ``s``), with its origin at ``t``.

    The joint (``R``, ``p``) is in the parent's original body frame, constrained ``frames`` are in the link's own.
    """

    parent: int = WORLD
    children: Sequence[int] = ()
    axis: int = 2
    rotating: bool = False
    placed: bool = False
    R: Sequence[Vector] = ()
    p: Vector = ()
    rows: int = 0
    frames: list[tuple[list[Vector], Vector]] = field(default_factory=list)
    c: float = 1.0
    s: float = 0.0
    t: Vector = (0.0, 0.0, 0.0)

    def rotated(self, v: Vector) -> list[float]:
        """``Rot_k(−φ) v``: a vector of the original axes in the new ones; also ``vᵀ Rot_k(φ)``."""
        out = list(v)
        x, y = (self.axis + 1) % 3, (self.axis + 2) % 3
        out[x], out[y] = self.c * v[x] + self.s * v[y], self.c * v[y] - self.s * v[x]
        return out

    def moved(self, p: Vector) -> list[float]:
        """A point of the original body frame in the new one."""
        return [x - y for x, y in zip(self.rotated(p), self.t, strict=True)]


def frame_placement(tree: Tree, constrained: Iterable[str] = (), *, free_base: bool = False) -> Tree:
    """Tree of the same robot whose body frames need fewer operations; all names, ``q`` and ``v`` keep their meaning.

    Parameters
    ----------
    tree : Tree
    constrained : iterable of str, optional
        Frames that constraints act on: joints on their supports are favoured.
    free_base : bool
        Shift the body frame of a link on a free joint too. Its configuration then is the pose of the shifted frame:
        for results that do not depend on where the robot is.

    Raises
    ------
    UnknownNameError
        A constrained frame that the tree does not have.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(7)
    >>> placed = frame_placement(arm, ["link7"])
    >>> q = arm.random(0)
    >>> tip = ds.Weld("link7")
    >>> bool(abs(ds.delassus(placed, tip, q) - ds.delassus(arm, tip, q)).max() < 1e-10)
    True
    """
    search = _Descent(tree, constrained, free_base)
    for i in tree.root_to_leaves():
        search.improve(i, ahead=True)
    for i in tree.leaves_to_root():
        search.improve(i, ahead=False)
    return _on_new_frames(tree, search.links, search.size)


class _Descent:
    """Coordinate descent on a local model of operations."""

    def __init__(self, tree: Tree, constrained: Iterable[str], free_base: bool) -> None:
        self.links = [
            _Link(
                p, children, j.axis, j.kind.motion_axes == REVOLUTE.motion_axes, j.nv == 1,
                j.rotation.tolist(), j.position.tolist(),
            )
            for j, p, children in zip(tree.joints, tree.parents, tree.children, strict=True)
        ]  # fmt: skip
        self.links.append(_Link())  # the world, at the index −1
        for name in constrained:
            at = tree.placement(name)
            for i in tree.support(at.link):
                self.links[i].rows += ROWS
            self.links[at.link].frames.append((at.rotation.tolist(), at.position.tolist()))
        self.size = max((float(np.max(np.abs(j.position))) for j in tree.joints), default=1.0) or 1.0
        self._bases = {
            i
            for i, (j, p) in enumerate(zip(tree.joints, tree.parents, strict=True))
            if free_base and j.kind is FREE and p == WORLD and not (j.armature.any() or j.damping.any())
        }

    def improve(self, i: int, ahead: bool) -> None:
        """Choose ``φ`` and ``t`` of link i; ``ahead``: its children are still free to choose theirs."""
        link = self.links[i]
        if i in self._bases:  # one coordinate after the other, where a child's joint has it
            for r in range(3):
                origins = [self._origin(child, 0.0 if ahead else None)[r] for child in link.children]
                self._take_best(i, ahead, [(1.0, 0.0, [*link.t[:r], x, *link.t[r + 1 :]]) for x in origins])
        if link.placed:
            self._take_best(i, ahead, self._candidates(i))

    def _take_best(self, i: int, ahead: bool, candidates: Iterable[tuple[float, float, Vector]]) -> None:
        link = self.links[i]
        best = self._cost(i, ahead), link.c, link.s, link.t
        for link.c, link.s, link.t in candidates:
            cost = self._cost(i, ahead)
            if cost < best[0] - 1e-9:
                best = cost, link.c, link.s, link.t
        _, link.c, link.s, link.t = best

    def _candidates(self, i: int) -> Iterator[tuple[float, float, Vector]]:
        """For each angle the ``d`` that may be best with it: their costs meet in translations only."""
        link = self.links[i]
        start = link.t
        for c, s in self._angles(i):
            link.c, link.s, link.t = c, s, start
            for d in self._slides(i):
                yield c, s, [d if r == link.axis else 0.0 for r in range(3)]

    # -- costs -----------------------------------------------------------------------------------------------------

    def _cost(self, i: int, ahead: bool) -> float:
        """Operations of the constant displacements of link i and its children, and of the rows on it."""
        link = self.links[i]
        total = self._joint_cost(i) if link.parent != WORLD and link.placed else 0.0
        for child in link.children:
            total += self._joint_cost(child, ahead)
        for R, p in link.frames:
            entries = sum(_count(link.rotated(column)) for column in zip(*R, strict=True))
            total += ROW_ENTRY * ROWS * (entries - 3 + 2 * _count(link.moved(p), self.size))
        return total

    def _joint_cost(self, i: int, ahead: bool = False) -> float:
        """Operations of joint i's constant displacement; ``ahead``: at the best ``d`` that it may still choose."""
        link = self.links[i]
        a, p = self._seen(i)
        rotations = self._rotations(i, a)
        slides = [0.0, *self._zeros(a, p)] if ahead and link.placed else [link.t[link.axis]]
        steps = min(_count(_along(p, a, d), self.size) for d in slides)
        return rotations * (ROTATION + ROTATION_ROW * link.rows) + steps * (STEP + STEP_ROW * link.rows)

    def _rotations(self, i: int, a: Vector) -> int:
        """Constant rotations about coordinate axes that joint i takes; what is about its own axis is free."""
        if self.links[i].rotating:
            return _count(a) - 1
        zeros = 9 - sum(map(_count, self._columns(i)))
        return {6: 0, 4: 1, 0: 3}.get(zeros, 2)

    # -- where things are ------------------------------------------------------------------------------------------

    def _origin(self, i: int, d: float | None = None) -> list[float]:
        """Origin of link i in the parent's original body frame, at its present ``d`` or another one."""
        link = self.links[i]
        return _along(link.p, [row[link.axis] for row in link.R], link.t[link.axis] if d is None else d)

    def _seen(self, i: int) -> tuple[list[float], list[float]]:
        """Axis of joint i, and the origin of link i for ``d = 0``, in the present frame of the parent."""
        link, parent = self.links[i], self.links[self.links[i].parent]
        return parent.rotated([row[link.axis] for row in link.R]), parent.moved(link.p)

    def _columns(self, i: int) -> list[list[float]]:
        """Columns of the rotation of joint i between the present frames."""
        link, parent = self.links[i], self.links[self.links[i].parent]
        rows = [link.rotated(row) for row in link.R]
        return [parent.rotated(column) for column in zip(*rows, strict=True)]

    # -- candidates ------------------------------------------------------------------------------------------------

    def _zeros(self, a: Vector, p: Vector) -> Iterator[float]:
        """Ways along ``a`` that make a component of ``p`` zero."""
        for x, y in zip(p, a, strict=True):
            if abs(y) > LEAST_SLOPE and abs(x) < FARTHEST * self.size * abs(y):
                yield -x / y

    def _angles(self, i: int) -> Iterator[tuple[float, float]]:
        """Angles of link i, as (cos, sin), at which an entry of a rotation next to it vanishes."""
        link = self.links[i]
        vectors: list[Vector] = []
        for child in link.children:
            other = self.links[child]
            columns = zip(*(other.rotated(row) for row in other.R), strict=True)
            vectors += [[row[other.axis] for row in other.R]] if other.rotating else columns
        if not link.rotating and link.parent != WORLD:
            parent = self.links[link.parent]
            vectors += zip(*(parent.rotated(column) for column in zip(*link.R, strict=True)), strict=True)
        yield from ((link.c, link.s), (1.0, 0.0))
        for v in vectors:
            x, y = v[(link.axis + 1) % 3], v[(link.axis + 2) % 3]
            length = math.hypot(x, y)
            if min(abs(x), abs(y)) > ZERO * max(length, 1.0):
                c, s = x / length, y / length  # 90° more or less change nothing
                yield max(((c, s), (-c, -s), (s, -c), (-s, c)), key=lambda pair: pair[0])

    def _slides(self, i: int) -> list[float]:
        """Ways along the axis of link i at which a component of a translation next to it vanishes."""
        link, k = self.links[i], self.links[i].axis
        found = [0.0, link.t[k]]
        if link.parent != WORLD:
            found += self._zeros(*self._seen(i))
        found += (link.rotated(self._origin(child))[k] for child in link.children)
        return [d for d in found if abs(d) < FARTHEST * self.size]


def _along(p: Vector, a: Vector, d: float) -> list[float]:
    """``p + d a``."""
    return [x + d * y for x, y in zip(p, a, strict=True)]


def _count(v: Vector, size: float = 1.0) -> int:
    """Number of components that are not zero."""
    bound = ZERO * size
    return (abs(v[0]) > bound) + (abs(v[1]) > bound) + (abs(v[2]) > bound)


def _on_new_frames(tree: Tree, links: Sequence[_Link], size: float) -> Tree:
    """The tree with its body frames where the links say; the last link is the world."""
    R, p = np.tile(np.eye(3), (len(links), 1, 1)), np.array([link.t for link in links])
    for i, link in enumerate(links):
        x, y = (link.axis + 1) % 3, (link.axis + 2) % 3
        R[i, x, x] = R[i, y, y] = link.c
        R[i, y, x], R[i, x, y] = link.s, -link.s
    joints = []
    for i, (joint, parent) in enumerate(zip(tree.joints, tree.parents, strict=True)):
        moved = joint.rotation @ p[i] if links[i].placed else np.zeros(3)
        position = R[parent].T @ (joint.position + moved - p[parent])
        position[np.abs(position) < 1e-14 * size] = 0.0
        rotation = exact_quarter_turns(R[parent].T @ joint.rotation @ R[i])
        joints.append(replace(joint, rotation=rotation, position=position))
    inertias, frames = move_body_frames(tree, R[:-1], p[:-1])
    return replace(tree, joints=tuple(joints), inertias=inertias, frames=frames)
