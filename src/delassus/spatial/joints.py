"""Joints: their places on links, their kinds, and numbers of their degrees of freedom."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from delassus.errors import ModelError
from delassus.frozen import ByContent
from delassus.spatial.joint_kinds import SCREW, JointKind
from delassus.spatial.motion import LINEAR, scaled_matrix
from delassus.spatial.ops import Matrix, Ops
from delassus.spatial.rotations import Array

PER_DOF = (
    "armature", "lower", "upper", "damping", "friction", "stiffness", "rest_position", "effort_limit", "velocity_limit",
)  # fmt: skip
"""Attributes of a `Joint` with one number for each degree of freedom, in their order there."""

LIMITS = ("lower", "upper", "effort_limit", "velocity_limit")
"""Those of them that are infinite where there is no limit."""


@dataclass(frozen=True, slots=True, eq=False)
class Joint(ByContent):
    """A joint between a link and its parent.

    Attributes
    ----------
    name : str
    kind : JointKind
    axis : int
        0, 1 or 2: the coordinate axis of the joint frame that a revolute, cos-sin, screw or prismatic joint moves about
        or along; 2 for the other kinds, where it has no meaning.
    rotation : (3, 3) array
        Orientation of the joint frame in the parent link's body frame.
    position : (3,) array
        Origin of the joint frame in the parent link's body frame, in m.
    armature : (nv,) array
        Rotor inertia ``a`` felt at each degree of freedom (kg·m² or kg): rotors take the force ``a q̈``.
    lower, upper : (nv,) array
        Limits of the coordinates of joints that have one a degree of freedom (rad or m); infinite where there are none.
        They act in `Simulator`.
    damping : (nv,) array
        Viscous damping coefficient of each degree of freedom (N·m·s/rad or N·s/m).
    friction : (nv,) array
        Coulomb friction of each degree of freedom (N·m or N). It acts in `Simulator`.
    stiffness, rest_position : (nv,) arrays
        Spring of each degree of freedom (N·m/rad or N/m), and the coordinate at which it has no force (rad or m): of
        ball joints the rotation vector, of free joints position and rotation vector. Cos-sin and planar joints have no
        springs, and of rotations, as of positions of a free joint, all three are one.
    effort_limit, velocity_limit : (nv,) arrays
        Largest force of the motor (N·m or N) and speed (rad/s or m/s); infinite where there are none.
    armature_is_straight : bool
        Whether rotors of linear directions are along axes of the parent, as those of MuJoCo's free joints. These do not
        turn with the velocity ``v`` of a free or planar joint, so that rotors take ``a (v̇ + ω × v)``. By default they
        turn with it, as Pinocchio's. Straight armature is one number for all linear directions.
    pitch : float
        Way along the axis of a screw by its angle, in m/rad: positive of a right-hand thread. Zero of other kinds.
    motion_axes : tuple of int
        Components of the child's twist ``[linear; angular]`` that the joint leaves free, one a degree of freedom. A
        screw has its pitch times the same along its axis.
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
    armature_is_straight: bool = field(default=False, kw_only=True)
    pitch: float = field(default=0.0, kw_only=True)
    motion_axes: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        axes = self.kind.motion_axes
        self._set_attributes(motion_axes=tuple(k + self.axis for k in axes) if len(axes) == 1 else axes)
        self._make_read_only("rotation", "position", *PER_DOF)
        if self.pitch and self.kind is not SCREW:
            raise ModelError(
                f"joint {self.name!r}", f"a pitch of a screw, or none of a {self.kind.name} joint", f"{self.pitch:g}",
                "Make it a screw.",
            )  # fmt: skip
        linear = self.armature[[k in LINEAR for k in self.motion_axes]]
        if self.armature_is_straight and linear.size and np.ptp(linear) > 0:
            raise ModelError(
                f"joint {self.name!r}", f"one armature for the linear directions of a {self.kind.name} joint",
                str(linear), "They are directions of the world, not of the body: make them equal.",
            )  # fmt: skip
        if np.any(self.stiffness) and not self.kind.has_springs:
            raise ModelError(
                f"joint {self.name!r}", "no spring, or another joint than a planar or cos-sin one",
                f"a spring on a {self.kind.name} joint", "Add its force to tau.",
            )  # fmt: skip
        if self.kind.has_quaternion and np.any(np.ptp(self.stiffness.reshape(-1, 3), axis=1)):
            raise ModelError(
                f"joint {self.name!r}", "one stiffness in all directions", str(self.stiffness), "Add its force to tau."
            )

    @property
    def straight_armature(self) -> Array:
        """Armature (nv,) of linear directions along axes that do not turn; zero elsewhere."""
        is_linear = [k in LINEAR for k in self.motion_axes]
        return self.armature * is_linear * self.armature_is_straight

    # -- motion subspace S (6 × nv), in the frame of the child ---------------------------------------------------------

    @property
    def subspace(self) -> Array:
        """``S`` (6, nv)."""
        S = np.eye(6)[:, self.motion_axes]
        return S + self.pitch * np.eye(6)[:, [self.axis]] if self.pitch else S

    @property
    def subspace_is_axes(self) -> bool:
        """Whether columns of ``S`` are coordinate axes."""
        return not self.pitch

    def along(self, ops: Ops, x: Matrix) -> Matrix:
        """``S x`` (6 × k)."""
        columns = range(ops.shape(x)[1])
        Sx = ops.put(x, (6, len(columns)), self.motion_axes, columns)
        if not self.pitch:
            return Sx
        return Sx + ops.put(scaled_matrix(ops, self.pitch, x), (6, len(columns)), (self.axis,), columns)

    def across(self, ops: Ops, F: Matrix) -> Matrix:
        """``Sᵀ F`` (nv × k)."""
        own = ops.take(F, self.motion_axes, None)
        return own + scaled_matrix(ops, self.pitch, ops.take(F, (self.axis,), None)) if self.pitch else own

    def columns(self, ops: Ops, A: Matrix) -> Matrix:
        """``A S`` (m × nv)."""
        own = ops.take(A, None, self.motion_axes)
        return own + scaled_matrix(ops, self.pitch, ops.take(A, None, (self.axis,))) if self.pitch else own

    def within(self, ops: Ops, H: Matrix) -> Matrix:
        """``Sᵀ H S`` (nv × nv) of a symmetric matrix."""
        return self.across(ops, self.columns(ops, H)) if self.pitch else ops.take(H, self.motion_axes, self.motion_axes)

    def spread(self, ops: Ops, W: Matrix) -> Matrix:
        """``S W Sᵀ`` (6 × 6) of a symmetric matrix."""
        if not self.pitch:
            return ops.put(W, (6, 6), self.motion_axes, self.motion_axes)
        S = ops.constant(self.subspace)
        return ops.sym_product(S @ W, ops.transpose(S))

    @property
    def nq(self) -> int:
        """Number of configuration coordinates."""
        return self.kind.nq

    @property
    def nv(self) -> int:
        """Number of degrees of freedom."""
        return self.kind.nv
