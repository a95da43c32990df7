"""Joint types: how many coordinates each has, which unit vectors span its motion, how its configuration moves.

A joint's frame is placed so that its motion subspace ``S`` consists of columns of the 6×6 identity (motion
vectors are ``[linear; angular]``). Everything that depends on the type of a joint is in this file and in
`delassus.spatial.transform`; algorithms see only ``motion_axes``.

Configuration layout (Pinocchio's):

=============  ==  ==  =====================================  ============================
kind           nq  nv  configuration                          velocity (in the child frame)
=============  ==  ==  =====================================  ============================
revolute        1   1  angle                                  angular, about the axis
cos-sin         2   1  cos, sin of the angle                  angular, about the axis
prismatic       1   1  length                                 linear, along the axis
planar          4   3  x, y, cos θ, sin θ (normal z)          linear x, y, angular z
ball            4   3  quaternion x y z w                     angular x, y, z
translation     3   3  x, y, z                                linear x, y, z
free            7   6  position, quaternion x y z w           linear x y z, angular x y z
=============  ==  ==  =====================================  ============================
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from delassus.model.rotations import (
    Array,
    displacement_exp,
    displacement_log,
    quaternion_conjugate,
    quaternion_exp,
    quaternion_log,
    quaternion_product,
    rotate,
)


class JointKind(Enum):
    """Type of a joint."""

    REVOLUTE = "revolute"
    COS_SIN = "cos-sin"
    PRISMATIC = "prismatic"
    PLANAR = "planar"
    BALL = "ball"
    TRANSLATION = "translation"
    FREE = "free"

    @property
    def nq(self) -> int:
        """Number of configuration coordinates."""
        return _NQ[self]

    @property
    def nv(self) -> int:
        """Number of degrees of freedom."""
        return _NV[self]


_NQ = dict(zip(JointKind, (1, 2, 1, 4, 4, 3, 7), strict=True))
_NV = dict(zip(JointKind, (1, 1, 1, 3, 3, 3, 6), strict=True))
_AXES = ((3,), (3,), (0,), (0, 1, 5), (3, 4, 5), (0, 1, 2), (0, 1, 2, 3, 4, 5))
_MOTION_AXES: dict[JointKind, tuple[int, ...]] = dict(zip(JointKind, _AXES, strict=True))
"""Of revolute, cos-sin and prismatic joints: about or along x."""

QUATERNION_START = {JointKind.BALL: 0, JointKind.FREE: 3}
UNIT_CIRCLE_START = {JointKind.COS_SIN: 0, JointKind.PLANAR: 2}
NO_LIMIT = 1e6
"""Limits (rad or m) at least this large are written where no limit is meant."""


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """A joint between a link and its parent.

    Attributes
    ----------
    name : str
    kind : JointKind
    axis : int
        0, 1 or 2: the coordinate axis of the joint frame that a revolute, cos-sin or prismatic joint moves about or
        along; 2 for the other kinds, where it has no meaning.
    rotation : (3, 3) array
        Orientation of the joint frame in the parent link's body frame.
    position : (3,) array
        Origin of the joint frame in the parent link's body frame, in m.
    armature : (nv,) array
        Rotor inertia felt at each degree of freedom (kg·m² or kg).
    lower, upper : (nv,) array
        Limits of the coordinates of revolute and prismatic joints (rad or m); infinite where there are none.
    damping : (nv,) array
        Viscous damping coefficient of each degree of freedom (N·m·s/rad or N·s/m).
    motion_axes : tuple of int
        Components of the child's twist ``[linear; angular]`` that the joint leaves free, one a degree of freedom.
    """

    name: str
    kind: JointKind
    axis: int
    rotation: Array
    position: Array
    armature: Array
    lower: Array
    upper: Array
    damping: Array
    motion_axes: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        for attribute in ("rotation", "position", "armature", "lower", "upper", "damping"):
            value = np.array(getattr(self, attribute), dtype=float)
            value.setflags(write=False)
            object.__setattr__(self, attribute, value)
        axes = _MOTION_AXES[self.kind]
        object.__setattr__(self, "motion_axes", tuple(k + self.axis for k in axes) if len(axes) == 1 else axes)

    @property
    def nq(self) -> int:
        """Number of configuration coordinates."""
        return self.kind.nq

    @property
    def nv(self) -> int:
        """Number of degrees of freedom."""
        return self.kind.nv


def neutral(joint: Joint) -> Array:
    """Configuration (nq,) at which the joint frame and the child frame coincide."""
    q = np.zeros(joint.nq)
    if joint.kind in QUATERNION_START:
        q[QUATERNION_START[joint.kind] + 3] = 1.0
    if joint.kind in UNIT_CIRCLE_START:
        q[UNIT_CIRCLE_START[joint.kind]] = 1.0
    return q


def random(joint: Joint, rng: np.random.Generator, batch: tuple[int, ...]) -> Array:
    """Configurations (*batch, nq): within the limits, else angles in ±π, lengths in ±1 m, rotations uniform.

    Where one side has no limit, the other one is the nearer end of that range. Limits beyond `NO_LIMIT` are none.
    """
    kind = joint.kind
    if kind in (JointKind.REVOLUTE, JointKind.PRISMATIC):
        reach = np.pi if kind is JointKind.REVOLUTE else 1.0
        low, high = float(joint.lower[0]), float(joint.upper[0])
        bounded_below, bounded_above = abs(low) < NO_LIMIT, abs(high) < NO_LIMIT
        low = low if bounded_below else min(-reach, high - reach) if bounded_above else -reach
        high = high if bounded_above else max(reach, low + reach)
        return rng.uniform(min(low, high), max(low, high), (*batch, 1))
    q = rng.uniform(-1.0, 1.0, (*batch, joint.nq))
    if kind in QUATERNION_START:
        start = QUATERNION_START[kind]
        quaternion = rng.normal(size=(*batch, 4))
        q[..., start : start + 4] = quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True)
    if kind in UNIT_CIRCLE_START:
        start = UNIT_CIRCLE_START[kind]
        angle = rng.uniform(-np.pi, np.pi, batch)
        q[..., start], q[..., start + 1] = np.cos(angle), np.sin(angle)
    return q


def _turn(cs: Array, angle: Array) -> Array:
    """Add an angle (...,) to a unit-circle coordinate (..., 2)."""
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([c * cs[..., 0] - s * cs[..., 1], s * cs[..., 0] + c * cs[..., 1]], axis=-1)


def _angle_between(a: Array, b: Array) -> Array:
    """Angle from one unit-circle coordinate to another, in (−π, π]."""
    return np.asarray(np.arctan2(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0], np.sum(a * b, axis=-1)))


def _planar_twist(v: Array) -> Array:
    zero = np.zeros(v.shape[:-1])
    return np.stack([v[..., 0], v[..., 1], zero, zero, zero, v[..., 2]], axis=-1)


def _planar_quaternion(cs: Array) -> Array:
    half = 0.5 * np.arctan2(cs[..., 1], cs[..., 0])
    zero = np.zeros(half.shape)
    return np.stack([zero, zero, np.sin(half), np.cos(half)], axis=-1)


def integrate(kind: JointKind, q: Array, v: Array) -> Array:
    """Configuration reached from ``q`` (..., nq) by the velocity ``v`` (..., nv) held for one unit of time."""
    if kind is JointKind.COS_SIN:
        return _turn(q, v[..., 0])
    if kind is JointKind.BALL:
        return quaternion_product(q, quaternion_exp(v))
    if kind is JointKind.FREE:
        dq, dp = displacement_exp(v)
        return np.concatenate([q[..., :3] + rotate(q[..., 3:], dp), quaternion_product(q[..., 3:], dq)], axis=-1)
    if kind is JointKind.PLANAR:
        _, dp = displacement_exp(_planar_twist(v))
        return np.concatenate([q[..., :2] + _turn_vector(q[..., 2:], dp[..., :2]), _turn(q[..., 2:], v[..., 2])], -1)
    return q + v


def _turn_vector(cs: Array, p: Array) -> Array:
    c, s = cs[..., 0], cs[..., 1]
    return np.stack([c * p[..., 0] - s * p[..., 1], s * p[..., 0] + c * p[..., 1]], axis=-1)


def difference(kind: JointKind, q0: Array, q1: Array) -> Array:
    """Velocity (..., nv) that takes ``q0`` to ``q1`` in one unit of time, the short way round."""
    if kind is JointKind.COS_SIN:
        return _angle_between(q0, q1)[..., None]
    if kind is JointKind.BALL:
        return quaternion_log(quaternion_product(quaternion_conjugate(q0), q1))
    if kind is JointKind.FREE:
        inverse = quaternion_conjugate(q0[..., 3:])
        dp = rotate(inverse, q1[..., :3] - q0[..., :3])
        return displacement_log(quaternion_product(inverse, q1[..., 3:]), dp)
    if kind is JointKind.PLANAR:
        inverse = q0[..., 2:] * np.array([1.0, -1.0])
        dp = _turn_vector(inverse, q1[..., :2] - q0[..., :2])
        angle = _angle_between(q0[..., 2:], q1[..., 2:])
        quaternion = _planar_quaternion(np.stack([np.cos(angle), np.sin(angle)], axis=-1))
        twist = displacement_log(quaternion, np.concatenate([dp, np.zeros((*angle.shape, 1))], axis=-1))
        return np.stack([twist[..., 0], twist[..., 1], angle], axis=-1)
    return q1 - q0
