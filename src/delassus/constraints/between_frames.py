"""Constraints on the relative motion of two frames, or of a frame and the world.

A row of a constraint with first frame *a* and second frame *b* measures a component of ``v_a − X_a_b v_b``, in the axes
of frame *a* (``axes="local"``) or of the world (``axes="world"``), at the origin of frame *a*; the order is
``[linear; angular]``. Welds and hinges carry the twist of *b* over rigidly to the origin of *a*; points subtract the
velocities of the two points themselves. So it matters where on its link the second frame is for points only.

A frame's placement on its link, and the rows of `Rows`, are fixed or come with each call.

What the rows ask of the accelerations, *a* being the body frame that they are applied in:

=================  =================================================================================================
rigid; local axes  the components of ``e`` in the axes of *a* do not change: ``N (a_a − X_ab a_b + v_a × X_ab v_b)`` is
                   zero; to the world, the *spatial* acceleration vanishes
rigid; world axes  the components of ``e`` in the axes of the world do not change: ``ω_a × e`` more
points             the *classical* accelerations of the two origins are equal, in either axes
=================  =================================================================================================

Position errors, whose rate is ``e`` to first order: ``p_a − p_b``, and the axis of the rotation from *b* to *a* times
``2 sin ½ θ`` of its angle ``θ``; where frames may turn about an axis ``n``, those of the rotation that takes ``R_b n``
to ``R_a n``. They grow up to a half turn, and are zero only where the constraint holds. ``½ Σ_j R_b e_j × R_a e_j`` is
``sin θ`` times the axis, and ``cos ½ θ`` what that is divided by, without branches. Pinocchio's is the same for points,
and ``log6`` of the relative pose for 6D contacts: equal to second order.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from delassus.constraints.constraint import At, Constraint, exact
from delassus.constraints.frame import ENDS, End, Frame, as_frame
from delassus.errors import ConstraintError
from delassus.model.check import check_choice
from delassus.model.inertia import motion_transform
from delassus.model.tree import WORLD, Placement, Tree
from delassus.spatial.motion import ANGULAR, LINEAR, cross, cross_matrix, linear_at, motion_cross, scaled
from delassus.spatial.ops import Matrix, Ops, Scalar
from delassus.spatial.rotations import ROUND_OFF, Array
from delassus.spatial.transform import Pose, compose

Axes = Literal["local", "world", "local-world-aligned"]
"""The last two are one: axes of the world at the origin of the first frame."""


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class FrameConstraint(Constraint):
    """Rows on the motion of a frame relative to another one, or to the world; made by `Weld`, `Point` and others.

    Attributes
    ----------
    first : Frame
        Frame that the rows act on, at its origin.
    second : Frame or None
        Frame that the motion is relative to; None is the world.
    rows : (m, 6) array or None
        Selection of the relative twist ``[linear; angular]``; None if it comes with each call.
    axes, angular_axes : {"local", "world"}
        Axes of the linear and of the angular parts of the rows: those of the first frame, or the world's.
        ``"local-world-aligned"``, Pinocchio's name, is kept as ``"world"``.
    rigid : bool
        Whether the second frame's twist is carried over to the origin of the first (False: `Point`).
    """

    first: Frame
    second: Frame | None
    rows: Array | None = field(init=False)
    axes: Axes
    angular_axes: Axes = field(init=False)
    rigid: bool = field(init=False)

    def _set_rows(
        self,
        first: str | Frame,
        second: str | Frame | None,
        rows: Array | int,
        axes: Axes,
        *,
        angular_axes: Axes | None = None,
        rigid: bool = True,
    ) -> None:
        check_choice("axes", axes, get_args(Axes), ConstraintError)
        axes = "world" if axes == "local-world-aligned" else axes
        self._set_attributes(
            first=as_frame(first, "first frame"),
            second=None if second is None else as_frame(second, "second frame"),
            rows=None if isinstance(rows, int) else rows,
            size=rows if isinstance(rows, int) else len(rows),
            axes=axes,
            angular_axes=angular_axes or axes,
            rigid=rigid,
        )
        if not isinstance(rows, int):
            self._make_read_only("rows")

    def __repr__(self) -> str:
        ends = [frame.text for frame in self.frames]
        axes = [] if self.axes == "local" else [f"axes={self.axes!r}"]
        return f"{type(self).__name__}({', '.join([*ends, *axes, f'{self.size} rows'])})"

    @property
    def fingerprint(self) -> str:
        """Unambiguous text of the constraint."""
        return repr(self._defining())

    def _defining(self) -> list[object]:
        """Values that distinguish constraints of this kind."""
        frames = [None if frame is None else frame.fingerprint for frame in (self.first, self.second)]
        rows = None if self.rows is None else self.rows.tolist()
        return [type(self).__name__, *frames, rows, self.size, self.axes, self.angular_axes, self.rigid]

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Frames that it is on: the first, and the second if there is one."""
        return (self.first,) if self.second is None else (self.first, self.second)

    @property
    def pose_size(self) -> int:
        """Numbers that say where in the world its first frame should be: 7, of a point 3; 0 if it has no place."""
        return 0 if self.second is not None else 7 if self.rigid else 3

    @property
    def constant_rows(self) -> Array | None:
        """Rows (m, 6) on the relative twist of its frames, in their axes; None if they come with each call."""
        return self.rows

    def prefixed(self, prefix: str) -> FrameConstraint:
        """The constraint with a prefix on all names."""
        other = copy(self)
        second = None if self.second is None else self.second.prefixed(prefix)
        other._set_attributes(first=self.first.prefixed(prefix), second=second)
        return other

    @property
    def as_loop(self) -> FrameConstraint:
        """Of points, the same at the place of the first one alone: what carries both ends has no part in the rows."""
        if self.rigid or self.second is None:
            return self
        other = copy(self)
        other._set_attributes(rigid=True)
        return other

    @property
    def at_place(self) -> FrameConstraint | None:
        """The same to a placement in the world that comes with each call; None of what has no place there."""
        if not self.pose_size or self.first.given:
            return None
        other = copy(self)
        other._set_attributes(second=Frame("world", given="placement"))
        return other

    def links(self, tree: Tree) -> tuple[int, int]:
        """Links of its two frames; either may be `WORLD`."""
        return self.first.carrier(tree), WORLD if self.second is None else self.second.carrier(tree)

    def check(self, tree: Tree) -> None:
        """Refuse a robot that it does not fit: raises `UnknownNameError` or `ConstraintError`."""
        first, second = self.first.carrier(tree), None if self.second is None else self.second.carrier(tree)
        if first == second and first != WORLD:
            raise ConstraintError(
                repr(self), "two links that can move apart", "two that are one rigid body", "Drop this constraint."
            )

    def is_internal(self, tree: Tree) -> bool:
        """Whether both frames are on links, and no axes the world's."""
        on_world = WORLD in [frame.carrier(tree) for frame in self.frames]
        return not (on_world or self.axes == "world" or self.angular_axes == "world")

    def header_lines(self) -> Iterator[str]:
        """Rows that are not the first ones of the identity, as those of `Weld` and `Point` are; other angular axes."""
        rows = self.constant_rows
        if rows is not None and not np.array_equal(rows, np.eye(6)[: len(rows)]):
            yield f"rows {' | '.join(map(exact, rows))}"
        if self.angular_axes != self.axes:
            yield f"angular rows in {self.angular_axes} axes"

    # -- rows ------------------------------------------------------------------------------------------------------

    def selection(self, at: At) -> Matrix:
        """Rows (m × 6) as they are given: in their axes, on the relative twist at the first frame."""
        return at.ops.constant(self.rows)

    def row_sizes(self, at: At, length: float) -> list[Scalar]:
        """Square of the size of each row, ``|linear|² + |angular|² / length²``."""
        rows, units = at.ops.entries(self.selection(at)), [1.0] * 3 + [length**-2] * 3
        return [sum(x * x * unit for x, unit in zip(row, units, strict=True)) for row in rows]

    def top(self, tree: Tree) -> int:
        """Closest common ancestor of the links of a rigid constraint: what moves it moves both ends alike."""
        return tree.closest_common_ancestor(*self.links(tree)) if self.second is not None and self.rigid else WORLD

    def rows_on_links(self, at: At) -> dict[int, Matrix]:
        """Rows on the link of the first frame, and on that of the second one with its sign and the relative pose."""
        ops, N, (a, b) = at.ops, self.selection(at), self.links(at.tree)
        R_first, p_first = at.pose(self.first)
        if self.axes == "world":
            R_world = at.robot.pose_between(a, WORLD)[0]
            linear, angular = _linear(ops, N) @ R_world, ops.take(N, None, ANGULAR)
            angular = angular @ (R_world if self.angular_axes == "world" else ops.transpose(R_first))
            K_first = ops.hstack([linear, angular - linear @ cross_matrix(ops, p_first)])
        elif (fixed := at.fixed(self.first)) is not None:
            K_first = N @ ops.constant(_motion_into(fixed))
        else:
            K_first = rows_in(ops, N, R_first, p_first)
        ends = {a: K_first} if a != WORLD else {}
        if b != WORLD:
            assert self.second is not None
            R, p = at.robot.pose_between(a, b)  # frame of a's link in b's
            if self.rigid:
                K_second = rows_in(ops, K_first, R, p)
            else:  # velocity of b's own point, in a's axes
                linear = _linear(ops, K_first) @ ops.transpose(R)
                K_second = ops.hstack([linear, linear @ -cross_matrix(ops, at.pose(self.second, "second")[1])])
            ends[b] = -K_second
        return ends

    # -- motion ----------------------------------------------------------------------------------------------------

    def carrier(self, at: At) -> tuple[int, Matrix]:
        """Link that rows are applied in, the first frame's or, if that is on the world, the second one's; and ``K``.

        In its body frame ``K`` (m × 6) is the rows' own matrix, whatever axes they are given in.
        """
        a, b = self.links(at.tree)
        if a != WORLD:
            return a, at.rows_on_links[a]
        return b, -at.rows_on_links[b] if b != WORLD else at.ops.zeros(self.size, 6)

    def drift(self, at: At) -> Matrix:
        """Part of the rows' acceleration that velocities alone cause."""
        if not self.rigid:
            return self._drift_of_points(at)
        ops, (a, b) = at.ops, self.links(at.tree)
        if a == WORLD:
            return ops.zeros(self.size, 1)
        K, V = at.rows_on_links[a], at.motion.V[a]
        W = ops.zeros(6, 1) if b == WORLD else self._carried(at, a, b)
        drift = K @ motion_cross(ops, V, W)
        if self.axes == "world":  # ω × e
            w, p, e = ops.take(V, ANGULAR, None), at.pose(self.first)[1], V - W
            drift = drift + _linear(ops, K) @ cross(ops, w, linear_at(ops, e, p))
            if self.angular_axes == "world":
                turned = cross(ops, w, ops.take(e, ANGULAR, None))
                drift = drift + K @ ops.vstack([cross(ops, p, turned), turned])
        return drift

    def velocity_drift(self, at: At) -> Matrix:
        """Part of the rate of `velocity` that velocities alone cause: axes of points rotate with the first frame."""
        ops, (a, b) = at.ops, self.links(at.tree)
        if self.rigid or self.axes == "world" or a == WORLD:
            return self.drift(at)
        V = at.motion.V[a]
        e = linear_at(ops, V, at.pose(self.first)[1])
        if b != WORLD:
            assert self.second is not None
            W, p = at.motion.V[b], at.pose(self.second, "second")[1]
            e = e - ops.transpose(at.robot.pose_between(a, b)[0]) @ linear_at(ops, W, p)
        return self.drift(at) - _linear(ops, at.rows_on_links[a]) @ cross(ops, ops.take(V, ANGULAR, None), e)

    def _drift_of_points(self, at: At) -> Matrix:
        """``ω × ṗ`` of both origins."""
        ops, drift = at.ops, at.ops.zeros(self.size, 1)
        for link, frame, end in zip(self.links(at.tree), self.frames, ENDS, strict=False):
            if link != WORLD:
                V, p = at.motion.V[link], at.pose(frame, end)[1]
                turned = cross(ops, ops.take(V, ANGULAR, None), linear_at(ops, V, p))
                drift = drift + _linear(ops, at.rows_on_links[link]) @ turned
        return drift

    def gravity(self, at: At) -> Matrix:
        """Part of the rows' acceleration by gravity; zero between two links."""
        return at.ops.zeros(self.size, 1) if len(at.rows_on_links) == 2 else Constraint.gravity(self, at)

    def place(self, at: At) -> Pose | None:
        """Pose of the first frame in the world; of a point without rotation; None of what has no place."""
        if not self.pose_size:
            return None
        R, p = compose(at.robot.pose_between(self.first.carrier(at.tree), WORLD), at.pose(self.first))
        return (R if self.rigid else at.ops.eye(3)), p

    @property
    def free_axis(self) -> Array | None:
        """Axis (3,) that the frames may turn about, of length one and in both; None if there is no such axis."""
        return None

    def position(self, at: At) -> Matrix:
        """Position error along the rows; zero where nothing says what it is relative to."""
        ops, goal, (carrier, K) = at.ops, at.goal.pose, self.carrier(at)
        if carrier == WORLD or (self.second is None and goal is None):
            return ops.zeros(self.size, 1)
        R1, p1 = self._seen_from(at, carrier, self.first, "first")
        if self.second is not None:
            R2, p2 = self._seen_from(at, carrier, self.second, "second")
        else:
            assert goal is not None
            R2, p2 = compose(at.robot.pose_between(WORLD, carrier), goal)
        if not self.rigid or (self.rows is not None and not self.rows[:, ANGULAR].any()):
            return _linear(ops, K) @ (p1 - p2)
        sine, over = self._turn(ops, R1, R2)
        angle, apart = scaled(ops, [over] * 3, sine), p1 - p2
        if self._may_part:  # e carries the second twist over by as much
            apart = apart + cross(ops, angle, apart)
        return K @ ops.vstack([apart + cross(ops, p1, angle), angle])

    @property
    def _may_part(self) -> bool:
        """Whether some linear motion of the origins is held, and not all, so that they may be far apart."""
        return self.rows is not None and 0 < np.linalg.matrix_rank(self.rows[:, LINEAR]) < 3

    def _turn(self, ops: Ops, R1: Matrix, R2: Matrix) -> tuple[Matrix, Scalar]:
        """Axis (3 × 1) of the rotation from the second frame to the first, times its sine; one over cos ½ θ.

        At a half turn, where both are round-off, any direction will do: cosines of half of angles are square roots.
        """
        weight, directions = _directions(self.free_axis)
        sine, cosine = ops.zeros(3, 1), ops.constant([[1.0 - weight * len(directions)]])
        for direction in directions:
            a, b = (R @ ops.constant(direction[:, None]) for R in (R1, R2))
            sine = sine + cross(ops, b, a)
            cosine = cosine + scaled(ops, [weight], ops.transpose(b) @ a)
        ((c,),) = ops.entries(cosine)
        square = 0.5 * (1.0 + c)
        aside = ops.select(ops.less(square, ops.epsilon), ops.epsilon**0.5, 0.0)
        over = 1.0 / ops.sqrt(ops.maximum(square, ops.epsilon))
        return scaled(ops, [weight] * 3, sine) + ops.matrix([[aside]] * 3), over

    def _seen_from(self, at: At, carrier: int, frame: Frame, end: End) -> Pose:
        """Pose of a frame in the body frame of the carrier."""
        pose, link = at.pose(frame, end), frame.carrier(at.tree)
        return pose if link == carrier else compose(at.robot.pose_between(link, carrier), pose)

    def _carried(self, at: At, a: int, b: int) -> Matrix:
        """Twist of link b, in the body frame of a."""
        ops, V = at.ops, at.motion.V[b]
        R, p = at.robot.pose_between(a, b)
        back = ops.transpose(R)
        return ops.vstack([back @ linear_at(ops, V, p), back @ ops.take(V, ANGULAR, None)])


def _linear(ops: Ops, K: Matrix) -> Matrix:
    """Columns that linear motion meets."""
    return ops.take(K, None, LINEAR)


def _motion_into(frame: Placement) -> Array:
    """6×6 motion transform from a body frame to a frame placed on it."""
    X, sizes = motion_transform(frame.rotation, frame.position), np.ones((6, 6))
    sizes[:3, 3:] = np.linalg.norm(frame.position)
    return np.where(np.abs(X) < ROUND_OFF * sizes, 0.0, X)


def rows_in(ops: Ops, K: Matrix, R: Matrix, p: Matrix) -> Matrix:
    """Rows ``K`` on one body frame, as rows on another in which the first has the pose (R, p)."""
    linear, angular = (ops.take(K, None, part) @ ops.transpose(R) for part in (LINEAR, ANGULAR))
    return ops.hstack([linear, angular - linear @ cross_matrix(ops, p)])


def _directions(free_axis: Array | None) -> tuple[float, Array]:
    """Weight and directions (k, 3) of both frames whose cross products make the angular error."""
    return (0.5, np.eye(3)) if free_axis is None else (1.0, free_axis[None])
