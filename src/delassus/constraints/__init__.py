"""Constraints: stacks of rows on the motion of a robot.

================  ====  =======================================================================================
constraint        rows  meaning
================  ====  =======================================================================================
`Weld`            6     two frames, or a frame and the world, do not move relative to each other
`Point`           3     two origins, or an origin and a place in the world, move together
`Hinge`           5     two frames only rotate relative to each other, about one axis
`Prismatic`       5     two frames only slide relative to each other, along one axis
`Cylindrical`     4     two frames slide along one axis and rotate about it
`Universal`       4     two origins move together, and an axis of one frame stays across an axis of the other
`Planar`          3     two frames slide in a plane and rotate about its normal
`Orientation`     3     two frames, or a frame and the world, do not rotate relative to each other; 2 but for an axis
`Distance`        1     the distance between two origins stays as it is
`SpringDamper`    1     none is held: a force along the line between two origins
`Tendon`          1     a length along frames and joints stays as it is, follows another one, or pulls as a spring
`Bushing`         any   none is held: forces along and torques about three axes, between two frames
`Rows`            any   any rows on the twist of a link, or of two; they may come with each call
`JointRows`       any   linear combinations of the velocities of joints: couplings, mimic joints, fixed tendons
`CenterOfMass`    3     the centre of mass of all links does not move
`Contact`         any   three rows a point that may touch the ground or another link; of contact steps, which have
                        rows of their own for torsional and rolling friction
================  ====  =======================================================================================

`Frame` says where on a link, `Sensor` what is measured there.
"""

from __future__ import annotations

from delassus.constraints.between_frames import FrameConstraint
from delassus.constraints.constraint import (
    PLACEMENT,
    POSITION,
    Argument,
    At,
    Candidate,
    Constraint,
    Goal,
    check_constraints,
    exact,
    row_slices,
)
from delassus.constraints.contact import Contact, Spins
from delassus.constraints.distance import Distance
from delassus.constraints.frame import Frame
from delassus.constraints.joint_rows import BoundedJoint, JointRows, bounded_joints
from delassus.constraints.pairs import Cylindrical, Hinge, Orientation, Planar, Point, Prismatic, Universal, Weld
from delassus.constraints.rows import ROW_LAYOUT, CenterOfMass, Rows
from delassus.constraints.sensors import Sensor
from delassus.constraints.spring import Bushing, SpringDamper
from delassus.constraints.tendon import Tendon

__all__ = [
    "PLACEMENT",
    "POSITION",
    "ROW_LAYOUT",
    "Argument",
    "At",
    "BoundedJoint",
    "Bushing",
    "Candidate",
    "CenterOfMass",
    "Constraint",
    "Contact",
    "Cylindrical",
    "Distance",
    "Frame",
    "FrameConstraint",
    "Goal",
    "Hinge",
    "JointRows",
    "Orientation",
    "Planar",
    "Point",
    "Prismatic",
    "Rows",
    "Sensor",
    "Spins",
    "SpringDamper",
    "Tendon",
    "Universal",
    "Weld",
    "bounded_joints",
    "check_constraints",
    "exact",
    "row_slices",
]
