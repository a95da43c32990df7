"""What each format holds of a robot: types of joints, and features that it does not hold.

Readers and writers take types of joints from `JOINTS`; from `FEATURES` follow what they leave out, the words of
warnings and of `tree.report` for it, and a table of ``docs/mjcf.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from delassus.errors import ModelError
from delassus.formats.text import numbers
from delassus.model.describe import SAME
from delassus.model.topology import GRAVITY, WORLD, Topology
from delassus.spatial.joint_kinds import BALL, COS_SIN, FREE, PLANAR, PRISMATIC, REVOLUTE, SCREW, TRANSLATION, JointKind
from delassus.spatial.joints import Joint
from delassus.spatial.numpy_ops import NUMPY
from delassus.spatial.rotations import Array

URDF, MJCF, SDF, USD, PINOCCHIO = "URDF", "MJCF", "SDF", "OpenUSD", "a pinocchio.Model"
FROM_URDF, FROM_MJCF, FROM_SDF, FROM_USD = (f"a tree from {form}" for form in (URDF, MJCF, SDF, USD))

JOINTS: dict[str, dict[JointKind, str]] = {
    URDF: {REVOLUTE: "revolute", COS_SIN: "continuous", PRISMATIC: "prismatic", PLANAR: "planar", FREE: "floating"},
    MJCF: {REVOLUTE: "hinge", PRISMATIC: "slide", BALL: "ball", FREE: "free"},
    SDF: {REVOLUTE: "revolute", PRISMATIC: "prismatic", SCREW: "screw", BALL: "ball", FREE: "", PLANAR: "planar"},
    USD: {
        REVOLUTE: "PhysicsRevoluteJoint", PRISMATIC: "PhysicsPrismaticJoint", BALL: "PhysicsSphericalJoint",
        PLANAR: "PhysicsJoint transX transY rotZ", TRANSLATION: "PhysicsJoint transX transY transZ",
        FREE: "PhysicsJoint transX transY transZ rotX rotY rotZ",
    },
    PINOCCHIO: {
        REVOLUTE: "RX RY RZ RevoluteUnaligned", COS_SIN: "RUBX RUBY RUBZ RevoluteUnboundedUnaligned",
        PRISMATIC: "PX PY PZ PrismaticUnaligned", PLANAR: "Planar", BALL: "Spherical", FREE: "FreeFlyer",
        TRANSLATION: "Translation", SCREW: "HX HY HZ HelicalUnaligned",
    },
}  # fmt: skip
"""Type of a joint in each format; in OpenUSD with what a ``PhysicsJoint`` leaves free; in Pinocchio those along x,
y, z and any axis, without ``JointModel``."""


def check_joint(form: str, joint: Joint) -> None:
    """Raise `ModelError` for a joint that a format does not have."""
    types = JOINTS[form]
    if joint.kind not in types:
        raise ModelError(
            f"joint {joint.name!r}", f"a joint among {', '.join(kind.name for kind in types)}",
            f"a {joint.kind.name} joint", f"{form} has no such joint: use another format, or several joints.",
        )  # fmt: skip


def starts(tree: Topology) -> dict[str, Array]:
    """Coordinates of each joint at ``qpos0``, where MJCF describes a robot."""
    q = tree.reference_configurations.get("qpos0", tree.neutral())
    return {name: q[part] for name, part in zip(tree.joint_names, tree.q_slices, strict=True)}


def is_range(lower: float, upper: float) -> bool:
    """Whether MuJoCo takes these as a range."""
    return bool(lower < upper and np.isfinite([lower, upper]).any())


def _joints(has: Callable[[Joint], Any]) -> Callable[[Topology], list[str]]:
    """Names of the joints of a tree that have something."""
    return lambda tree: [joint.name for joint in tree.joints if has(joint)]


def _joints_at_start(has: Callable[[Joint, Array], Any]) -> Callable[[Topology], list[str]]:
    """Names of those that have something where their coordinates at ``qpos0`` are these."""
    return lambda tree: [j.name for j, q in zip(tree.joints, starts(tree).values(), strict=True) if has(j, q)]


def _has(*limits: ArrayLike) -> bool:
    return any(np.isfinite(limit).any() for limit in limits)


def _pulls(joint: Joint, q: Array) -> bool:
    """Whether the spring of a ball or free joint pulls where it never does in MuJoCo."""
    rest = joint.rest_position.tolist()
    deflection = rest if joint.kind is BALL else joint.kind.spring_deflection(NUMPY, q.tolist(), rest)
    return bool(joint.nv > 1 and joint.stiffness.any() and np.max(np.abs(np.array(deflection))) > SAME)


FEATURES: tuple[tuple[set[str], str, Callable[[Any], Iterable[object]] | str], ...] = (
    # of trees, that writers leave out
    ({URDF, MJCF, SDF, USD}, "joints that get other places in q and v", "reordered"),
    ({PINOCCHIO}, "joints that are not numbered depth first, with which crba and constraintDynamics are wrong",
        lambda tree: [tree.joint_names[i] for i in tree.root_to_leaves()
                      if tree.parents[i] != WORLD and tree.parents[i] not in tree.support(i - 1)]),
    ({URDF, MJCF, SDF, USD}, "links whose frames are not at their joints, which become frames", "moved"),
    ({MJCF}, "frames of links without mass", "lost"),
    ({URDF}, "armature of joints", _joints(lambda j: j.armature.any())),
    ({MJCF}, "armature of free joints along axes of the body, which is along those of the world there",
        _joints(lambda j: j.kind is FREE and not j.armature_is_straight and j.armature[:3].any())),
    ({PINOCCHIO}, "armature of free joints along axes of the world, which is along those of the body there",
        _joints(lambda j: j.kind is FREE and j.straight_armature.any())),
    ({URDF, PINOCCHIO}, "springs of joints", _joints(lambda j: j.stiffness.any())),
    ({SDF}, "joints that get other names, which are not those of links, or are of free joints", "renamed"),
    ({SDF}, "armature, friction and springs of ball, planar and free joints, and damping that differs along their axes",
        _joints(lambda j: j.nv > 1 and (any(x.any() for x in (j.armature, j.friction, j.stiffness))
                or (np.ptp(j.damping[: 2 if j.kind is PLANAR else None]) if j.kind is not FREE else j.damping.any())))),
    ({USD}, "resistance, armature and limits of ball and free joints", _joints(
        lambda j: j.nv > 1 and any(x.any() for x in (j.armature, j.damping, j.friction, j.stiffness)))),
    ({MJCF}, "springs of ball joints that do not rest at zero, and of free ones that do not at qpos0",
        _joints_at_start(_pulls)),
    ({URDF, SDF, USD, PINOCCHIO}, "limits of joints that are not revolute or prismatic",
        _joints(lambda j: j.nq > 1 and _has(j.lower, j.upper))),
    ({MJCF}, "velocity limits of joints", _joints(lambda j: _has(j.velocity_limit))),
    ({MJCF}, "ranges of joints that are empty, or of ball and free joints",
        _joints(lambda j: _has(j.lower, j.upper) and (j.nv > 1 or not is_range(j.lower[0], j.upper[0])))),
    ({URDF}, "effort and velocity limits of planar and free joints",
        _joints(lambda j: j.kind in (PLANAR, FREE) and _has(j.effort_limit, j.velocity_limit))),
    ({MJCF}, "effort limits of zero, or of ball and free joints",
        _joints(lambda j: _has(j.effort_limit) and (j.nv > 1 or j.effort_limit[0] <= 0))),
    ({URDF, MJCF}, "armature, damping, friction or stiffness that differs between degrees of freedom",
        _joints(lambda j: any(map(np.ptp, (j.armature, j.damping, j.friction, j.stiffness))))),
    ({MJCF}, "turns of ball joints at qpos0", _joints_at_start(lambda j, q: j.kind is BALL and q[:3].any())),
    ({URDF, SDF}, "gravity", lambda tree: [] if np.array_equal(tree.gravity, GRAVITY) else [numbers(tree.gravity)]),
    ({URDF, SDF, USD, PINOCCHIO}, "bodies that users move, which are frames of the world",
        lambda tree: dict.fromkeys(at.moved_by for at in tree.frames.values() if at.moved_by)),
    ({URDF, PINOCCHIO}, "gravity compensation", lambda tree: tree.gravity_compensation),
    ({MJCF, SDF, USD}, "gravity compensation of a part of a link", "balanced"),
    ({URDF}, "keyframes", lambda tree: tree.keyframes),
    ({SDF, USD}, "keyframes", lambda tree: [name for name in tree.keyframes if name != "qpos0"]),
    ({USD}, "velocities of keyframes", lambda tree: [name for name, x in tree.keyframes.items() if x.v.any()]),
    ({PINOCCHIO}, "velocities and controls of keyframes",
        lambda tree: [name for name, x in tree.keyframes.items() if x.v.any() or x.ctrl.any()]),
    ({MJCF, USD, PINOCCHIO}, "activations of keyframes",
        lambda tree: [name for name, x in tree.keyframes.items() if x.act.any()]),
    ({URDF, MJCF, SDF, USD, PINOCCHIO}, "constraints", "constraints"),
    ({URDF, SDF, PINOCCHIO}, "actuators", lambda tree: [actuator.name for actuator in tree.actuators]),
    ({USD}, "actuators that are no servos of one joint, and effort limits of joints that servos drive", "unservoed"),
    ({USD}, "links without mass, to which other programs give one", "weightless"),
    ({URDF, SDF, USD, PINOCCHIO}, "sensors", lambda tree: [sensor.name for sensor in tree.sensors]),
    ({MJCF}, "sensors of touch or free joints, or on more than one frame without a name on a link", "unplaced"),
    ({MJCF}, "ranges of actuators that are empty", lambda tree: [
        a.name for a in tree.actuators for x in (a.control_range, a.force_range) if _has(x) and not is_range(*x)
    ]),
    ({MJCF}, "inertias that no rigid body can have, in place of which the nearest possible are written", "adjusted"),
    # of descriptions, that trees do not hold
    ({FROM_URDF}, "limits without lower and upper, which hold joints at zero by URDF and are taken for none", "free"),
    ({FROM_URDF}, "motors whose effort or velocity limit is not above zero, and is taken for none", "idle"),
    ({FROM_URDF}, "masses without moments of inertia, which are points", "points"),
    ({FROM_URDF}, "rotors of other than simple transmissions, or of joints that are not of one degree of freedom",
        "rotors"),
    ({FROM_URDF}, "joints of Drake's (drake:joint), which are held fixed", "welded"),
    ({FROM_URDF}, "elements of Drake, MuJoCo and other programs, and loop joints", "foreign"),
    ({FROM_URDF}, "quat_xyzw of links and joints in files that do not say version 1.1 or later", "unturned"),
    ({FROM_URDF}, "mimic joints that follow no joint of one degree of freedom", "mimics"),
    ({FROM_URDF}, "joints of group states that the tree does not have", "unknown"),
    ({FROM_SDF}, "joints that close loops and no pair has, gearboxes, and joints that follow others of several degrees",
        "loops"),
    ({FROM_SDF}, "bushings, which are those of Drake where displacements and angles are small", "bushings"),
    ({FROM_SDF}, "sensors", "sensors"),
    ({FROM_SDF}, "plugins, actors, grippers, wind, decay, added masses, kinematic links, elements of Drake", "foreign"),
    ({FROM_USD}, "joints that close loops and no pair has, and distances that may vary", "loops"),
    ({FROM_USD}, "joints that follow others of several degrees of freedom, or no joint", "mimics"),
    ({FROM_USD}, "joints whose bodies start where they do not allow, and that start at zero", "apart"),
    ({FROM_USD}, "masses without moments of inertia and colliders, which are spheres of 0.1 m", "points"),
    ({FROM_USD}, "drives of accelerations", "accelerations"),
    ({FROM_USD}, "drives along no degree of freedom of a joint, or along several", "drives"),
    ({FROM_USD}, "joints that break", "breaking"),
    ({FROM_USD}, "limits of ball joints", "cones"),
    ({FROM_USD}, "sensors", "sensors"),
    ({FROM_USD}, "actuators, tendons, fluids and other physics of PhysX's, MuJoCo's and Newton's schemas", "foreign"),
    ({FROM_MJCF}, "equality constraints of flexes and tendons around geoms, or within one rigid body",
        "equalities"),
    ({FROM_MJCF}, "equality constraints that are switched off", lambda m: m.where("equality", ~m.active_equalities())),
    ({FROM_MJCF}, "actuators that are switched off", lambda m: m.where("actuator", ~m.active_actuators())),
    ({FROM_MJCF}, "actuators that are muscles or plugins, have delays, or act on more than joints and fixed tendons",
        "actuators"),
    ({FROM_MJCF}, "activations that follow controls, in place of which they are the controls here", "following"),
    ({FROM_MJCF}, "armature of tendons, which couples joints through the mass matrix", "coupling"),
    ({FROM_MJCF}, "springs and dampers that are not linear",
        lambda m: m.having("joint", "jnt_stiffnesspoly", "jnt_springyield", "dof_dampingpoly")),
    ({FROM_MJCF}, "limits of ball joints", lambda m: m.where("joint", m.jnt_limited * (m.joint_types == "ball"))),
    ({FROM_MJCF}, "force ranges of joints that differ between directions",
        lambda m: m.where("joint", m.jnt_actfrclimited * m.jnt_actfrcrange.sum(axis=1))),
    ({FROM_MJCF}, "springs, dampers and friction of tendons", "tendons"),
    ({FROM_MJCF}, "limits of tendons around geoms", "free"),
    ({FROM_MJCF}, "gravity compensation within the force ranges of joints",
        lambda m: m.where("joint", m.jnt_actgravcomp * m.jnt_actfrclimited * m.ngravcomp)),
    ({FROM_MJCF}, "gravity compensation by actuators on some joints alone, of which no actuator acts", "unbalanced"),
    ({FROM_MJCF}, "mocap bodies that carry joints, which stay where the model puts them",
        lambda m: m.where("body", [x >= 0 and k not in m.moved_bodies() for k, x in enumerate(m.body_mocapid)])),
    ({FROM_MJCF}, "fluid forces", lambda m: [name for name in ("density", "viscosity") if getattr(m.opt, name)]),
    ({FROM_MJCF}, "flags of contacts", lambda m: m.contact_flags()),
    ({FROM_MJCF}, "surfaces of geoms that turn or adhere", lambda m: m.names_with_surfaces()),
    ({FROM_MJCF}, "flexible bodies", lambda m: m.names_of("flex")),
    ({FROM_MJCF}, "skins", lambda m: m.names_of("skin")),
    ({FROM_MJCF}, "sensors of other kinds, with delays, or on bodies that no joint carries", "sensors"),
    ({FROM_MJCF}, "plugins", lambda m: m.names_of("plugin")),
    ({FROM_MJCF}, "keyframes with activations, or controls of actuators that are not held", "uncontrolled"),
)  # fmt: skip
"""Formats that do not hold a feature; what it is; names of what has it, in a tree or a model of MuJoCo that is written
or read, or else what its writer or reader calls those that it finds on its way."""


def omitted(form: str, source: Any, **found: Iterable[object]) -> dict[str, tuple[str, ...]]:
    """What a format does not hold of a tree or model: names, by what they are names of."""
    rows = [(what, names) for formats, what, names in FEATURES if form in formats]
    listed = {what: found.get(names, ()) if isinstance(names, str) else names(source) for what, names in rows}
    texts = {what: tuple(map(str, names)) for what, names in listed.items()}
    return {what: names for what, names in texts.items() if names}
