"""`Tree` → text of a layer of OpenUSD (``.usda``), in the pose of ``qpos0``.

Attributes of UsdPhysics are in single precision, in the units of its schemas; those that round have a twin in double
precision beside them. A body is a child of the robot's prim, frames are children of bodies, joints are in a scope.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import inf, radians
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from delassus.constraints import Constraint, Frame
from delassus.formats.features import JOINTS, USD, check_joint, omitted, starts
from delassus.formats.sdf.frames import STILL, Pose, inverse, times
from delassus.formats.sdf.write import balanced_links
from delassus.formats.text import common, numbers, tidy
from delassus.formats.urdf.write import Mimic, mimics_of
from delassus.formats.usd.joints import STRAIGHT, TURNING
from delassus.frozen import body_of
from delassus.model.actuators import Actuator
from delassus.model.describe import Carriers, describe
from delassus.model.description import FIXED, RawJoint, RawLink, Unsupported, depth_first, judge_omitted, unique_name
from delassus.model.kinematics import relative_poses
from delassus.model.topology import WORLD, Placement, Topology
from delassus.spatial.joint_kinds import BALL, FREE, PLANAR, PRISMATIC, REVOLUTE
from delassus.spatial.rotations import Array, matrix_to_quaternion, rotation_between

DOUBLES = {"float": "double", "point3f": "double3", "float3": "double3", "vector3f": "double3", "quatf": "quatd"}
"""Types in double precision of those in single precision."""

Lines = list[str]


class Servo(NamedTuple):
    """Gains of a drive, whether its control is a velocity, its velocity else, and its largest force."""

    stiffness: float
    damping: float
    velocity: float
    most: float


class _Writer(NamedTuple):
    """What all parts of a file need: the tree, identifiers by names, the path of the robot, and what carries frames."""

    tree: Topology
    prims: Mapping[str, str]
    root: str
    carriers: Carriers

    def rel(self, level: int, name: str, link: str) -> Lines:
        """Line of a relationship to a body; none to the world."""
        path = self.prims.get(link)
        return [] if path is None else [f"{'    ' * level}rel {name} = <{self.root}/{path}>"]


@body_of("Tree.to_usd")
def write_usd(tree: Topology, unsupported: Unsupported) -> str:
    """Text of a layer of OpenUSD; see `Tree.to_usd`."""
    for joint in tree.joints:
        check_joint(USD, joint)
    links, joints, carriers = describe(tree, offsets=True)
    bodies = [link for link in links if link.name in {name for name, _ in carriers.values()} and link.name != "world"]
    bare = {raw.child: raw for raw in joints if raw.kind is FREE and _is_bare(raw, links[0].name)}
    order = _order(links[0].name, joints, [link.name for link in bodies], bare)
    loops = [x for x in tree.constraints if _type_of(x)]
    mimics, others = mimics_of(x for x in tree.constraints if x not in loops)
    servos, unservoed = _servos(tree)
    light = balanced_links(tree, links)
    left_out = omitted(
        USD, tree, constraints=others, reordered=[a for a, b in zip(order, tree.joint_names, strict=True) if a != b],
        moved=[raw.child for raw in joints if raw.kind is FIXED and raw.child in tree.link_names],
        balanced=[name for name in tree.gravity_compensation if name not in light],
        unservoed=unservoed, weightless=[link.name for link in bodies if not link.mass and link.name != links[0].name],
    )  # fmt: skip
    judge_omitted(tree.name, USD, left_out, unsupported)
    root = _identifiers([tree.name or "robot"], set())[tree.name or "robot"]
    prims = _identifiers([link.name for link in bodies], {"scene", "joints"})
    file = _Writer(tree, prims, f"/{root}", carriers)
    lines = [
        "#usda 1.0", "(", f'    defaultPrim = "{root}"', "    kilogramsPerUnit = 1", "    metersPerUnit = 1",
        '    upAxis = "Z"', ")", "", *_open(0, "Xform", tree.name or "robot", root, ["PhysicsArticulationRootAPI"]),
        *_scene(tree.gravity),
    ]  # fmt: skip
    frames: dict[str, list[RawJoint]] = {}
    for raw in joints:
        if raw.kind is FIXED:
            frames.setdefault(raw.parent, []).append(raw)
    poses = _poses(tree, carriers)
    if links[0].name == "world":
        lines += _frames(1, frames.get("world", ()))
    for link in bodies:
        lines += _body(file, link, poses[link.name], bare.get(link.name), link.name in light)
        lines += [*_frames(2, frames.get(link.name, ())), "    }"]
    names = [raw.name for raw in joints if raw.kind is not FIXED and raw.child not in bare]
    own = _identifiers([*names, *(f"loop{k}" for k in range(len(loops))), "on_world"], set())
    lines += ['    def Scope "joints"', "    {"]
    if links[0].name != "world":
        lines += [*_open(2, "PhysicsFixedJoint", "on_world", own["on_world"], []),
                  *file.rel(3, "physics:body1", links[0].name), "        }"]  # fmt: skip
    for raw in joints:
        if raw.name in names:
            lines += _joint(file, raw, own, servos.get(raw.name), mimics.get(raw.name))
    for k, constraint in enumerate(loops):
        lines += _loop(file, constraint, own[f"loop{k}"])
    return "\n".join([*lines, "    }", "}", ""])


def _is_bare(raw: RawJoint, ground: str) -> bool:
    """Whether a free joint tells the pose of its link in the world."""
    return (
        raw.parent == ground
        and not (raw.position.any() or raw.child_position.any())
        and bool(np.all(raw.rotation == np.eye(3)))
    )


def _order(ground: str, joints: Sequence[RawJoint], bodies: Sequence[str], bare: Mapping[str, RawJoint]) -> list[str]:
    """Joints in the order in which they are read: of links that no joint of the file carries before others."""
    outgoing: dict[str, list[RawJoint]] = {ground: [bare[name] for name in bodies if name in bare]}
    for raw in joints:
        if raw.child not in bare:
            outgoing.setdefault(raw.parent, []).append(raw)
    return [x.name for x in depth_first(RawJoint("", FIXED, "", ground), outgoing) if x.kind is not FIXED]


def _poses(tree: Topology, carriers: Carriers) -> dict[str, Pose]:
    """Poses in the world, at ``qpos0``, of the links that carry frames."""
    R, p = relative_poses(tree, np.concatenate([np.zeros(0), *starts(tree).values()]))
    bodies: dict[int, Pose] = {WORLD: STILL}
    for i, parent in enumerate(tree.parents):
        bodies[i] = times(bodies[parent], (R[i], p[i]))
    return {name: times(bodies[i], (at.rotation, at.position)) for i, (name, at) in carriers.items()}


def _identifiers(names: Iterable[str], taken: set[str]) -> dict[str, str]:
    """Names of prims for names of any text."""
    found = dict[str, str]()
    for name in names:
        word = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
        found[name] = unique_name(f"_{word}" if word[0].isdigit() else word, taken)
    return found


# -- bodies --------------------------------------------------------------------------------------------------------


def _scene(gravity: Array) -> Lines:
    size = float(np.linalg.norm(gravity))
    along = gravity / size if size else np.array([0.0, 0.0, -1.0])
    return [
        '    def PhysicsScene "scene"', "    {", *_attribute(2, "vector3f", "physics:gravityDirection", tidy(along)),
        *_attribute(2, "float", "physics:gravityMagnitude", size), "    }",
    ]  # fmt: skip


def _body(file: _Writer, link: RawLink, pose: Pose, free: RawJoint | None, is_light: bool) -> Lines:
    """Lines of a body, which stays open."""
    moments, axes = np.linalg.eigh(0.5 * (link.inertia + link.inertia.T))
    if np.count_nonzero(link.inertia - np.diag(np.diagonal(link.inertia))) == 0:
        moments, axes = np.diagonal(link.inertia), np.eye(3)
    axes = axes * np.sign(np.linalg.det(axes))
    schemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI", *(["PhysxRigidBodyAPI"] if is_light else [])]
    return [
        *_open(1, "Xform", link.name, file.prims[link.name], schemas),
        *([f"        custom string delassus:joint = {_quoted(free.name)}"] if free is not None else []),
        *(["        bool physxRigidBody:disableGravity = 1"] if is_light else []),
        *_attribute(2, "float", "physics:mass", link.mass, always=True),
        *_attribute(2, "point3f", "physics:centerOfMass", tidy(link.com)),
        *_attribute(2, "float3", "physics:diagonalInertia", moments, always=True),
        *_attribute(2, "quatf", "physics:principalAxes", tidy(matrix_to_quaternion(axes))),
        *_placed(2, pose),
    ]  # fmt: skip


def _placed(level: int, pose: Pose) -> Lines:
    """Lines of the pose of a prim in the one around it."""
    start = "    " * level
    return [
        f"{start}quatd xformOp:orient = {_tuple(np.roll(tidy(matrix_to_quaternion(pose[0])), 1))}",
        f"{start}double3 xformOp:translate = {_tuple(tidy(pose[1]))}",
        f'{start}uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:orient"]',
    ]


def _frames(level: int, frames: Sequence[RawJoint]) -> Lines:
    """Lines of the frames that a link carries."""
    lines, own = Lines(), _identifiers([raw.child for raw in frames], set())
    start = "    " * level
    for raw in frames:
        lines += [*_open(level, "Xform", raw.child, own[raw.child], []), f"{start}    custom bool delassus:frame = 1"]
        lines += [*_placed(level + 1, (raw.rotation, raw.position)), f"{start}}}"]
    return lines


# -- joints --------------------------------------------------------------------------------------------------------


def _servos(tree: Topology) -> tuple[dict[str, tuple[Actuator, Servo, float]], list[str]]:
    """Actuators that are drives, by joint, with their controls at the start; names of the others."""
    key = tree.keyframes.get("qpos0")
    controls = np.zeros(tree.nu) if key is None or key.ctrl.shape != (tree.nu,) else key.ctrl
    found, others = dict[str, tuple[Actuator, Servo, float]](), list[str]()
    by_name = {joint.name: joint for joint in tree.joints}
    for actuator, control in zip(tree.actuators, controls.tolist(), strict=True):
        servo, joints = _servo(actuator), [by_name[name] for name in actuator.transmission]
        if servo is None or joints[0].kind not in (REVOLUTE, PRISMATIC) or joints[0].name in found:
            others.append(actuator.name)
        else:
            found[joints[0].name] = actuator, servo, control
    lost = [name for name in found if np.isfinite(by_name[name].effort_limit).all()]
    return found, [*others, *lost]


def _servo(actuator: Actuator) -> Servo | None:
    """What drives a joint as an actuator does; None where a drive cannot."""
    (k, *rest), (push, back, slow) = actuator.gain, actuator.bias
    low, high = actuator.force_range
    has_range = actuator.control_range != (-inf, inf) or low != -high
    if [*actuator.transmission.values()] != [1.0] or any(rest) or has_range or k <= 0.0 or slow > 0.0:
        return None
    if back == -k and (slow or not push):
        return Servo(k, -slow, -push / slow if slow else 0.0, high)
    return Servo(0.0, k, 0.0, high) if slow == -k and not (push or back) else None


def _joint(
    file: _Writer, raw: RawJoint, own: Mapping[str, str], servo: tuple[Actuator, Servo, float] | None,
    mimic: Mimic | None,
) -> Lines:  # fmt: skip
    """Lines of a joint that moves."""
    kind, unit = raw.kind or FREE, 1.0 if raw.kind is PRISMATIC else radians(1.0)
    turn, token = _frame_of(raw)
    type_name, *words = JOINTS[USD][kind].split()
    word = "linear" if kind is PRISMATIC else "angular"
    effort = float(np.ravel(raw.effort_limit)[0]) if not words and kind is not BALL else inf
    schemas = [f"PhysicsLimitAPI:{x}" for x in (*STRAIGHT, *TURNING) if words and x not in words]
    schemas += [f"PhysicsDriveAPI:{word}"] if servo or np.isfinite(effort) else []
    schemas += ["NewtonMimicAPI"] if mimic else []
    lines = [*_open(2, type_name, raw.name, own[raw.name], schemas),
             *file.rel(3, "physics:body0", raw.parent), *file.rel(3, "physics:body1", raw.child)]  # fmt: skip
    lines += _ends((raw.rotation @ turn, raw.position), (turn, -raw.child_position))
    for x in schemas:
        if x.startswith("PhysicsLimitAPI"):
            start = f"limit:{x.split(':')[1]}:physics:"
            lines += [*_attribute(3, "float", f"{start}low", 1.0), *_attribute(3, "float", f"{start}high", -1.0)]
    if kind in (REVOLUTE, PRISMATIC):
        lines += [f'            uniform token physics:axis = "{token}"', *_numbers(raw, unit)]
    if servo or np.isfinite(effort):
        lines += _drive(raw.name, word, unit, servo, effort)
    if mimic:
        leader = str(mimic["joint"])
        other = 1.0 if file.tree.joints[file.tree.joint_names.index(leader)].kind is PRISMATIC else radians(1.0)
        lines += [
            f"            rel newton:mimicJoint = <{file.root}/joints/{own[leader]}>",
            *_attribute(3, "float", "newton:mimicCoef0", float(mimic["offset"]) / unit),
            *_attribute(3, "float", "newton:mimicCoef1", float(mimic["multiplier"]) * other / unit),
        ]
    return [*lines, "        }"]


def _frame_of(raw: RawJoint) -> tuple[Array, str]:
    """Rotation, in the child, of the frame of a joint; and which of its axes is that of the joint."""
    is_planar = raw.kind is PLANAR
    if not is_planar and raw.kind not in (REVOLUTE, PRISMATIC):
        return np.eye(3), "Z"
    axis = raw.axis / np.linalg.norm(raw.axis)
    k = 2 if is_planar else int(np.argmax(np.abs(axis)))
    return rotation_between(np.eye(3)[k], axis), "XYZ"[k]


def _numbers(raw: RawJoint, unit: float) -> Lines:
    """Lines of limits and resistance of a joint of one degree of freedom."""
    lines = Lines()
    speed, low, high = (float(np.ravel(x)[0]) for x in (raw.velocity_limit, raw.lower, raw.upper))
    for name, value in (
        ("physics:lowerLimit", low), ("physics:upperLimit", high), ("physxJoint:maxJointVelocity", speed)
    ):  # fmt: skip
        if np.isfinite(value):
            lines += _attribute(3, "float", name, value / unit)
    resistance = {
        "armature": raw.armature, "damping": raw.damping, "frictionloss": raw.friction, "stiffness": raw.stiffness,
        "springref": np.asarray(raw.rest_position) / unit,
    }  # fmt: skip
    given = {name: common(x) for name, x in resistance.items()}
    return lines + [f"            uniform double mjc:{x} = {numbers(tidy(y))}" for x, y in given.items() if y]


def _drive(name: str, word: str, unit: float, servo: tuple[Actuator, Servo, float] | None, effort: float) -> Lines:
    """Lines of a drive: of a servo, else of an effort limit alone."""
    start, lines = f"drive:{word}:physics:", Lines()
    values = {"maxForce": effort, "stiffness": 0.0, "damping": 0.0}
    if servo is not None:
        actuator, own, control = servo
        target = ("targetPosition", "targetVelocity")[own.stiffness == 0.0]
        values = {"stiffness": own.stiffness * unit, "damping": own.damping * unit, "maxForce": own.most}
        values |= {"targetVelocity": own.velocity / unit} if own.velocity else {}
        values |= {target: control / unit}
        if actuator.name != name:
            lines += [f"            custom string delassus:drive:{word}:name = {_quoted(actuator.name)}"]
    for key, value in values.items():
        if np.isfinite(value):
            lines += _attribute(3, "float", start + key, value)
    return lines


def _ends(first: Pose, second: Pose) -> Lines:
    """Lines of the frames of a joint on its two bodies."""
    lines = Lines()
    for k, (R, p) in enumerate((first, second)):
        lines += _attribute(3, "point3f", f"physics:localPos{k}", tidy(p))
        lines += _attribute(3, "quatf", f"physics:localRot{k}", tidy(matrix_to_quaternion(R)))
    return lines


# -- loops ---------------------------------------------------------------------------------------------------------


def _type_of(constraint: Constraint) -> str:
    """Type of the joint that closes a loop as a constraint does; "" where none does."""
    kind = constraint.joint[0]
    return f"Physics{kind.capitalize()}Joint" if kind and kind != "universal" else ""


def _loop(file: _Writer, constraint: Any, name: str) -> Lines:
    """Lines of a joint that closes a loop."""
    kind, axes = constraint.joint
    turn = rotation_between(np.eye(3)[0], axes[0]) if axes else np.eye(3)
    lines = [*_open(2, _type_of(constraint), name, name, []),
             "            uniform bool physics:excludeFromArticulation = 1"]  # fmt: skip
    ends = []
    for k, role in enumerate(("first", "second")):
        link, (R, p) = _in_carrier(file, getattr(constraint, role) or Frame("world"))
        lines += file.rel(3, f"physics:body{k}", link)
        ends.append((R @ turn, p))
    lines += _ends(ends[0], ends[1])
    if kind == "distance":
        for word in ("min", "max"):
            lines += _attribute(3, "float", f"physics:{word}Distance", constraint.length)
    elif axes:
        lines.append('            uniform token physics:axis = "X"')
    return [*lines, "        }"]


def _in_carrier(file: _Writer, frame: Frame) -> tuple[str, Pose]:
    """The link that carries a frame, and the frame's pose there."""
    at: Placement = file.tree.frames[frame.link]
    link, base = file.carriers[at.link]
    placed = times((at.rotation, at.position), (frame.rotation, frame.position))
    if at.link == WORLD:
        return "world", placed
    return link, times(inverse((base.rotation, base.position)), placed)


# -- text ----------------------------------------------------------------------------------------------------------


def _open(level: int, kind: str, name: str, prim: str, schemas: Sequence[str]) -> Lines:
    """Lines that begin a prim, with its name where that is another one."""
    start = "    " * level
    head = f'{start}def {kind} "{prim}"'
    listed = ", ".join(f'"{x}"' for x in schemas)
    return [
        *([f"{head} (", f"{start}    prepend apiSchemas = [{listed}]", f"{start})"] if schemas else [head]),
        f"{start}{{",
        *([f"{start}    custom string delassus:name = {_quoted(name)}"] if name != prim else []),
    ]


def _attribute(level: int, kind: str, name: str, values: ArrayLike, always: bool = False) -> Lines:
    """Lines of an attribute in single precision, and of its twin in double precision where it rounds, or ``always``."""
    exact = np.ravel(np.asarray(values, dtype=float)) + 0.0
    single = exact.astype(np.float32)
    order = [3, 0, 1, 2] if kind == "quatf" else [*range(len(exact))]
    texts = [str(x).removesuffix(".0") for x in single[order]], [numbers(x) for x in exact[order]]
    start, is_one = "    " * level, len(exact) == 1
    one, two = (x[0] if is_one else f"({', '.join(x)})" for x in texts)
    is_uniform = "uniform " if name.startswith("physics:axis") else ""
    twin = [f"{start}custom {DOUBLES[kind]} delassus:{name} = {two}"]
    return [f"{start}{is_uniform}{kind} {name} = {one}", *(twin if always or np.any(single != exact) else [])]


def _tuple(values: ArrayLike) -> str:
    return f"({numbers(values).replace(' ', ', ')})"


def _quoted(text: str) -> str:
    """Text in quotes, ASCII whatever it holds."""
    escaped = "".join(
        f"\\{x}" if x in '"\\' else x if " " <= x <= "~" else "".join(f"\\x{b:02x}" for b in x.encode(errors="replace"))
        for x in text
    )
    return f'"{escaped}"'
