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

from delassus.errors import ModelError
from delassus.frozen import Frozen
from delassus.spatial.rotations import (
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
    """Type of a joint.

    Attributes
    ----------
    motion_axes : tuple of int
        Components of the child's twist ``[linear; angular]`` that the joint leaves free; those of revolute, cos-sin and
        prismatic joints are about or along x.
    neutral : tuple of float
        Configuration at which the joint frame and the child frame coincide.
    unit : slice or None
        Entries of the configuration that together have unit length: a quaternion, or the cosine and sine of an angle.
    nq, nv : int
        Numbers of configuration coordinates and degrees of freedom.
    """

    motion_axes: tuple[int, ...]
    neutral: tuple[float, ...]
    unit: slice | None
    nq: int
    nv: int

    REVOLUTE = "revolute", (3,), (0.0,), None
    COS_SIN = "cos-sin", (3,), (1.0, 0.0), slice(0, 2)
    PRISMATIC = "prismatic", (0,), (0.0,), None
    PLANAR = "planar", (0, 1, 5), (0.0, 0.0, 1.0, 0.0), slice(2, 4)
    BALL = "ball", (3, 4, 5), (0.0, 0.0, 0.0, 1.0), slice(0, 4)
    TRANSLATION = "translation", (0, 1, 2), (0.0, 0.0, 0.0), None
    FREE = "free", (0, 1, 2, 3, 4, 5), (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0), slice(3, 7)

    def __new__(
        cls, label: str, motion_axes: tuple[int, ...], neutral: tuple[float, ...], unit: slice | None
    ) -> JointKind:
        """Member whose value is the label."""
        kind = object.__new__(cls)
        kind._value_ = label
        kind.motion_axes, kind.neutral, kind.unit = motion_axes, neutral, unit
        kind.nq, kind.nv = len(neutral), len(motion_axes)
        return kind

    @property
    def has_quaternion(self) -> bool:
        """Whether the entries of unit length are a quaternion."""
        return self in (JointKind.BALL, JointKind.FREE)


SPRUNG = frozenset(JointKind) - {JointKind.COS_SIN, JointKind.PLANAR}
"""Joints that springs act on."""

PER_DOF = (
    "armature", "lower", "upper", "damping", "friction", "stiffness", "rest_position", "effort_limit", "velocity_limit",
)  # fmt: skip
"""Attributes of a `Joint` with one number for each degree of freedom, in their order there."""

LIMITS = ("lower", "upper", "effort_limit", "velocity_limit")
"""Those of them that are infinite where there is no limit."""

NO_LIMIT = 1e6
"""Limits (rad or m) at least this large are written where no limit is meant."""


@dataclass(frozen=True, slots=True, eq=False)
class Joint(Frozen):
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
        Limits of the coordinates of revolute and prismatic joints (rad or m); infinite where there are none. They act
        in `Simulator`.
    damping : (nv,) array
        Viscous damping coefficient of each degree of freedom (N·m·s/rad or N·s/m).
    friction : (nv,) array
        Coulomb friction of each degree of freedom (N·m or N). It acts in `Simulator`.
    stiffness, rest_position : (nv,) arrays
        Spring of each degree of freedom (N·m/rad or N/m), and the coordinate at which it has no force (rad or m): of
        ball joints the rotation vector, of free joints position and rotation vector. Cos-sin and planar joints have no
        springs, and of turns, as of positions of a free joint, all three are one.
    effort_limit, velocity_limit : (nv,) arrays
        Largest force of the motor (N·m or N) and speed (rad/s or m/s); infinite where there are none.
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
    friction: Array
    stiffness: Array
    rest_position: Array
    effort_limit: Array
    velocity_limit: Array
    motion_axes: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        axes = self.kind.motion_axes
        self._set_attributes(motion_axes=tuple(k + self.axis for k in axes) if len(axes) == 1 else axes)
        self._make_read_only("rotation", "position", *PER_DOF)
        if np.any(self.stiffness) and self.kind not in SPRUNG:
            raise ModelError(
                f"joint {self.name!r}", "no spring, or another joint than a planar or cos-sin one",
                f"a spring on a {self.kind.value} joint", "Add its force to tau.",
            )  # fmt: skip
        if self.kind.has_quaternion and np.any(np.ptp(self.stiffness.reshape(-1, 3), axis=1)):
            raise ModelError(
                f"joint {self.name!r}", "one stiffness in all directions", str(self.stiffness), "Add its force to tau."
            )

    @property
    def nq(self) -> int:
        """Number of configuration coordinates."""
        return self.kind.nq

    @property
    def nv(self) -> int:
        """Number of degrees of freedom."""
        return self.kind.nv


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
    if kind.has_quaternion:
        quaternion = rng.normal(size=(*batch, 4))
        q[..., kind.unit] = quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True)
    elif kind.unit is not None:
        q[..., kind.unit] = _on_the_unit_circle(rng.uniform(-np.pi, np.pi, batch))
    return q


def _on_the_unit_circle(angle: Array) -> Array:
    """Cosine and sine (..., 2)."""
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def _rotate_planar(cs: Array, p: Array) -> Array:
    """Rotate vectors (..., 2) by angles of given cosine and sine (..., 2)."""
    c, s = cs[..., 0], cs[..., 1]
    return np.stack([c * p[..., 0] - s * p[..., 1], s * p[..., 0] + c * p[..., 1]], axis=-1)


def _angle_between(a: Array, b: Array) -> Array:
    """Angle from one unit-circle coordinate to another, in (−π, π]."""
    return np.asarray(np.arctan2(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0], np.sum(a * b, axis=-1)))


def integrate(kind: JointKind, q: Array, v: Array) -> Array:
    """Configuration reached from ``q`` (..., nq) by the velocity ``v`` (..., nv) held for one unit of time."""
    if kind is JointKind.COS_SIN:
        return _rotate_planar(_on_the_unit_circle(v[..., 0]), q)
    if kind is JointKind.BALL:
        return quaternion_product(q, quaternion_exp(v))
    if kind is JointKind.FREE:
        dq, dp = displacement_exp(v)
        return np.concatenate([q[..., :3] + rotate(q[..., 3:], dp), quaternion_product(q[..., 3:], dq)], axis=-1)
    if kind is JointKind.PLANAR:
        twist = np.zeros((*v.shape[:-1], 6))
        twist[..., kind.motion_axes] = v
        _, dp = displacement_exp(twist)
        position = q[..., :2] + _rotate_planar(q[..., 2:], dp[..., :2])
        return np.concatenate([position, _rotate_planar(_on_the_unit_circle(v[..., 2]), q[..., 2:])], axis=-1)
    return q + v


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
        dp = _rotate_planar(q0[..., 2:] * np.array([1.0, -1.0]), q1[..., :2] - q0[..., :2])
        angle = _angle_between(q0[..., 2:], q1[..., 2:])
        zero = np.zeros(angle.shape)
        quaternion = np.stack([zero, zero, np.sin(0.5 * angle), np.cos(0.5 * angle)], axis=-1)
        twist = displacement_log(quaternion, np.concatenate([dp, zero[..., None]], axis=-1))
        return np.stack([twist[..., 0], twist[..., 1], angle], axis=-1)
    return q1 - q0


def stretch(joint: Joint, q: Array) -> Array:
    """By how much (..., nv) the spring of a joint is stretched: ``q − r``.

    Of turns the rotation vector from the rest position, the short way round; of a free joint the way from there along
    the axes of its body.
    """
    rest = joint.rest_position
    if not joint.kind.has_quaternion:
        return q - rest
    quaternion = q[..., -4:]
    turn = difference(JointKind.BALL, quaternion_exp(rest[-3:]), quaternion)
    if joint.kind is JointKind.BALL:
        return turn
    return np.concatenate([rotate(quaternion_conjugate(quaternion), q[..., :3] - rest[:3]), turn], axis=-1)
