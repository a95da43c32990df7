"""Body frames placed for few operations: the same robot, but turned about and slid along its joint axes.

The body frame of a link that a revolute, cos-sin or prismatic joint carries may be turned about the joint's axis and
slid along it by constants, ``T_i = Rot_k(φ_i) Trans_k(d_i)``: these commute with the joint's motion, so that
configurations, velocities and every frame that a user sees stay what they were. The joint's placement becomes
``T_p⁻¹ P_i T_i``; inertias and named frames move along. With one child in a link the result is the form of Denavit and
Hartenberg (one constant turn a joint, about the common perpendicular of two axes); with several, the child that has
the most rows to carry gets it and the others what their own ``φ`` and ``d`` still remove.

The choice is greedy from the root, then improved link by link on a local model of the operations of one joint.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from delassus.model.joints import Joint, JointKind
from delassus.model.kinematics import move_body_frames
from delassus.model.rotations import exact_quarter_turns
from delassus.model.tree import WORLD, Tree

Vector = list[float]

TURN, TURN_ROW = 40.0, 12.0
"""Operations of one constant turn about a coordinate axis: of an inertia, and of one constraint row."""

STEP, STEP_ROW = 24.0, 4.0
"""Operations of one component of a constant translation: of an inertia, and of one constraint row."""

ROW_ENTRY = 1.5
"""Operations that one more entry of a constraint's rows costs on the link that the constraint sits on."""

ZERO = 1e-11
"""Components of unit vectors, and of positions relative to the size of the robot, below this count as zero."""

LEAST_SLOPE = 0.05
"""An axis nearer than this to a coordinate plane is not slid along to reach it: the frame would end far away."""

ROWS = 6
"""Rows that each constrained link is taken to carry."""

PLACED = frozenset({JointKind.REVOLUTE, JointKind.COS_SIN, JointKind.PRISMATIC})
"""Joints that motions about and along their axis commute with."""


@dataclass(slots=True)
class _Node:
    """A link while its frame is being placed: original placement of its joint, and the present ``φ`` and ``d``."""

    parent: int
    axis: int
    rotates: bool
    movable: bool
    R: list[Vector]
    p: Vector
    children: list[int]
    rows: int
    frames: list[tuple[list[Vector], Vector]] = field(default_factory=list)
    c: float = 1.0
    s: float = 0.0
    d: float = 0.0
    base: Vector | None = None


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
    model = _Model(tree, constrained, free_base)
    for i in tree.root_to_leaves():
        model.improve(i, ahead=True)
    for order in (tree.leaves_to_root(), tree.root_to_leaves()):
        for i in order:
            model.improve(i, ahead=False)
    return _moved(tree, model.nodes, model.size)


class _Model:
    """Local cost model and coordinate descent on it."""

    def __init__(self, tree: Tree, constrained: Iterable[str], free_base: bool) -> None:
        self.nodes = [
            _Node(
                parent=p,
                axis=joint.axis,
                rotates=joint.kind in (JointKind.REVOLUTE, JointKind.COS_SIN),
                movable=joint.kind in PLACED,
                R=joint.rotation.tolist(),
                p=joint.position.tolist(),
                children=list(children),
                rows=0,
                base=[0.0, 0.0, 0.0] if free_base and _may_shift(joint, p) else None,
            )
            for joint, p, children in zip(tree.joints, tree.parents, tree.children, strict=True)
        ]
        for name in constrained:
            at = tree.placement(name)
            for i in tree.support(at.link):
                self.nodes[i].rows += ROWS
            if at.link != WORLD:
                self.nodes[at.link].frames.append((at.rotation.tolist(), at.position.tolist()))
        self.size = max((float(np.max(np.abs(j.position))) for j in tree.joints), default=1.0) or 1.0

    def improve(self, i: int, ahead: bool) -> None:
        """Choose ``φ`` and ``d`` of link i; ``ahead``: its children are still free to choose theirs."""
        node = self.nodes[i]
        if node.base is not None:
            self._shift(i, node.base, ahead)
        if not node.movable:
            return
        # for a given φ the best d, and the other way round: their costs meet in translations only
        best = (self._cost(i, ahead), node.c, node.s, node.d)
        start = best
        for c, s in self._turns(i):
            node.c, node.s, node.d = c, s, start[3]
            for d in self._slides(i):
                node.d = d
                cost = self._cost(i, ahead)
                if cost < best[0] - 1e-9:
                    best = (cost, c, s, d)
        _, node.c, node.s, node.d = best

    def _shift(self, i: int, base: Vector, ahead: bool) -> None:
        """Choose where the frame of a link on a free joint sits, one coordinate after the other."""
        for r in range(3):
            best = (self._cost(i, ahead), base[r])
            for child in self.nodes[i].children:
                other = self.nodes[child]
                base[r] = other.p[r] + (0.0 if ahead else other.d * other.R[r][other.axis])
                cost = self._cost(i, ahead)
                if cost < best[0] - 1e-9:
                    best = (cost, base[r])
            base[r] = best[1]

    def _cost(self, i: int, ahead: bool) -> float:
        node = self.nodes[i]
        total = self._joint(i) if node.parent != WORLD and node.movable else 0.0
        for child in node.children:
            total += self._joint_ahead(child) if ahead else self._joint(child)
        for R, p in node.frames:
            entries = 0
            moved = _into(node, p)
            steps = _count(moved, self.size)
            for column in range(3):
                entries += _count(_unturned(node, [R[0][column], R[1][column], R[2][column]]), 1.0)
            total += ROW_ENTRY * ROWS * (entries - 3 + 2 * steps)
        return total

    def _seen(self, i: int) -> tuple[Vector, Vector]:
        """Axis of joint i and origin of its unslid child frame, in the present frame of the parent."""
        node, k = self.nodes[i], self.nodes[i].axis
        a = [node.R[0][k], node.R[1][k], node.R[2][k]]
        if node.parent == WORLD:
            return a, node.p
        parent = self.nodes[node.parent]
        return _unturned(parent, a), _into(parent, node.p)

    def _joint(self, i: int) -> float:
        """Operations of joint i's constant displacement."""
        node = self.nodes[i]
        a, p = self._seen(i)
        return self._displacement(node, a, [x + node.d * y for x, y in zip(p, a, strict=True)])

    def _joint_ahead(self, i: int) -> float:
        """The same, at the best ``d`` that the joint may still choose."""
        node = self.nodes[i]
        a, p = self._seen(i)
        if not node.movable:
            return self._displacement(node, a, p)
        options = [0.0, *self._zeros(a, p)]
        return min(self._displacement(node, a, [x + d * y for x, y in zip(p, a, strict=True)]) for d in options)

    def _displacement(self, node: _Node, a: Vector, p: Vector) -> float:
        turns = self._turns_of(node, a)
        steps = _count(p, self.size)
        if turns and steps > 1:
            steps = min(steps, _count(_across(a, p), self.size))
        return turns * (TURN + TURN_ROW * node.rows) + steps * (STEP + STEP_ROW * node.rows)

    def _turns_of(self, node: _Node, a: Vector) -> int:
        """Constant turns about coordinate axes that the joint's rotation takes; what is about its own axis is free."""
        if node.rotates:
            return _count(a, 1.0) - 1
        rows = node.R
        if node.movable:
            rows = [_turned(node, row) for row in rows]
        if node.parent != WORLD:
            parent = self.nodes[node.parent]
            columns = [_unturned(parent, [row[j] for row in rows]) for j in range(3)]
        else:
            columns = [[row[j] for row in rows] for j in range(3)]
        zeros = 9 - sum(_count(column, 1.0) for column in columns)
        return 0 if zeros == 6 else 1 if zeros == 4 else 2 if zeros else 3

    def _zeros(self, a: Vector, p: Vector) -> Iterator[float]:
        """Slides along ``a`` that make a component of ``p`` zero, in the parent's axes or along ``a``."""
        reach = 4.0 * self.size
        for x, y in zip(p, a, strict=True):
            if abs(y) > LEAST_SLOPE and abs(x) < reach * abs(y):
                yield -x / y
        yield -sum(x * y for x, y in zip(p, a, strict=True))

    def _turns(self, i: int) -> list[tuple[float, float]]:
        """Turns of link i, as (cos, sin), at which an entry of a rotation or translation next to it vanishes."""
        node = self.nodes[i]
        x, y = (node.axis + 1) % 3, (node.axis + 2) % 3
        found = [(node.c, node.s), (1.0, 0.0)]
        vectors = []
        for child in node.children:
            other = self.nodes[child]
            k = other.axis
            if other.rotates:
                vectors.append([other.R[0][k], other.R[1][k], other.R[2][k]])
            else:
                rows = [_turned(other, row) if other.movable else row for row in other.R]
                vectors.extend([row[j] for row in rows] for j in range(3))
            vectors.append([u + other.d * row[k] for u, row in zip(other.p, other.R, strict=True)])
        if not node.rotates and node.parent != WORLD:
            columns = [_unturned(self.nodes[node.parent], [row[j] for row in node.R]) for j in range(3)]
            vectors.extend([column[r] for column in columns] for r in range(3))
        for R, _ in node.frames:
            vectors.append([row[0] for row in R])
        for v in vectors:
            length = math.hypot(v[x], v[y])
            if length > ZERO and min(abs(v[x]), abs(v[y])) > ZERO * length:
                c, s = v[x] / length, v[y] / length
                if abs(c) < abs(s):  # a quarter turn more or less changes nothing
                    c, s = (s, -c) if s > 0 else (-s, c)
                if c < 0:
                    c, s = -c, -s
                if all(abs(c - a) + abs(s - b) > 1e-9 for a, b in found):
                    found.append((c, s))
        return found

    def _slides(self, i: int) -> list[float]:
        """Slides of link i at which a component of a translation next to it vanishes."""
        node = self.nodes[i]
        found = [0.0, node.d]
        reach = 4.0 * self.size
        if node.parent != WORLD:
            a, p = self._seen(i)
            found.extend(self._zeros(a, p))
        for child in node.children:
            a, p = self._seen(child)
            other = self.nodes[child]
            p = [u + other.d * v for u, v in zip(p, a, strict=True)]
            found.append(node.d + p[node.axis])
            if abs(a[node.axis]) > LEAST_SLOPE:
                found.append(node.d + sum(u * v for u, v in zip(p, a, strict=True)) / a[node.axis])
            across = 1.0 - a[node.axis] ** 2
            if across > LEAST_SLOPE**2:  # foot of the common perpendicular
                along = sum(u * v for u, v in zip(p, a, strict=True))
                found.append(node.d + (p[node.axis] - along * a[node.axis]) / across)
        for _, p in node.frames:
            found.append(p[node.axis])
        out: list[float] = []
        for d in found:
            if abs(d) < reach and all(abs(d - e) > ZERO * self.size for e in out):
                out.append(d)
        return out


def _may_shift(joint: Joint, parent: int) -> bool:
    """Whether a link on this joint may have its body frame anywhere."""
    return joint.kind is JointKind.FREE and parent == WORLD and not joint.armature.any() and not joint.damping.any()


def _unturned(node: _Node, v: Vector) -> Vector:
    """``Rot_k(−φ) v``."""
    out = list(v)
    x, y = (node.axis + 1) % 3, (node.axis + 2) % 3
    out[x], out[y] = node.c * v[x] + node.s * v[y], node.c * v[y] - node.s * v[x]
    return out


def _turned(node: _Node, row: Vector) -> Vector:
    """``row Rot_k(φ)``."""
    out = list(row)
    x, y = (node.axis + 1) % 3, (node.axis + 2) % 3
    out[x], out[y] = node.c * row[x] + node.s * row[y], node.c * row[y] - node.s * row[x]
    return out


def _into(node: _Node, p: Vector) -> Vector:
    """A point of the original body frame in the present one."""
    if node.base is not None:
        return [x - b for x, b in zip(p, node.base, strict=True)]
    out = _unturned(node, p)
    out[node.axis] -= node.d
    return out


def _across(a: Vector, p: Vector) -> Vector:
    """Components of ``p`` in the child's axes, for a rotation of one turn: along ``a``, the turn's axis, the third."""
    zero = [k for k in range(3) if abs(a[k]) < ZERO]
    if len(zero) != 1:
        return p
    k = zero[0]
    x, y = (k + 1) % 3, (k + 2) % 3
    return [a[x] * p[x] + a[y] * p[y], a[x] * p[y] - a[y] * p[x], p[k]]


def _count(v: Vector, size: float) -> int:
    bound = ZERO * size
    return (abs(v[0]) > bound) + (abs(v[1]) > bound) + (abs(v[2]) > bound)


def _moved(tree: Tree, nodes: list[_Node], size: float) -> Tree:
    """The tree with its body frames where the nodes say."""
    R, p = np.tile(np.eye(3), (len(nodes), 1, 1)), np.zeros((len(nodes), 3))
    for i, node in enumerate(nodes):
        x, y = (node.axis + 1) % 3, (node.axis + 2) % 3
        R[i, x, x] = R[i, y, y] = node.c
        R[i, y, x], R[i, x, y] = node.s, -node.s
        p[i, node.axis] = node.d
        if node.base is not None:
            p[i] = node.base
    joints: list[Joint] = []
    for i, (joint, parent) in enumerate(zip(tree.joints, tree.parents, strict=True)):
        Rp, pp = (np.eye(3), np.zeros(3)) if parent == WORLD else (R[parent], p[parent])
        shift = np.zeros(3) if nodes[i].base is not None else joint.rotation @ p[i]
        position = Rp.T @ (joint.position + shift - pp)
        position[np.abs(position) < 1e-14 * size] = 0.0
        joints.append(replace(joint, rotation=exact_quarter_turns(Rp.T @ joint.rotation @ R[i]), position=position))
    inertias, frames = move_body_frames(tree, R, p)
    return replace(tree, joints=tuple(joints), inertias=inertias, frames=frames)
