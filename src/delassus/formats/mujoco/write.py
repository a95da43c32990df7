"""`Tree` → text of an MJCF file. Bodies are in the pose of ``qpos0``; frames are sites.

MuJoCo has no moving bodies without mass: links without mass become further joints of the body that they carry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from delassus.constraints.frame import Frame
from delassus.errors import ModelError
from delassus.formats.features import JOINTS, MJCF, check_joint, is_range, omitted, starts
from delassus.formats.mujoco.equalities import Pose, compose, equalities, fixed_tendon
from delassus.formats.mujoco.sensors import sensor_element
from delassus.formats.text import Attributes, common, element, tidy
from delassus.frozen import body_of
from delassus.model.actuators import Actuator
from delassus.model.describe import SAME, Carriers, describe
from delassus.model.description import DEEPEST_XML, FIXED, RawJoint, RawLink, Unsupported, judge_omitted, unique_name
from delassus.model.inertia import nearest_inertia
from delassus.model.topology import WORLD, Placement, Topology
from delassus.spatial.joint_kinds import BALL, FREE, PRISMATIC, REVOLUTE
from delassus.spatial.rotations import Array, matrix_to_quaternion, quaternion_to_matrix, rotation_about

LEAST = 1e-15
"""MuJoCo compiles no moving body of less mass or principal moment of inertia than this."""

ROUND_OFF = 1e-12
"""By which principal moments of inertia may miss what a rigid body can have, relative to the largest."""

MOST_DOFS = 6
"""Of the joints of one body of MuJoCo."""


@dataclass(frozen=True, slots=True)
class _Body:
    """A link that moves, with its joint and those of links without mass before it, at ``qpos0``.

    ``poses`` of its frame: in the frame of the body that carries it, then in those of the links without mass, and last
    in its own.
    """

    level: int
    link: RawLink
    joints: list[RawJoint]
    poses: list[Pose]


@body_of("Tree.to_mjcf")
def write_mjcf(tree: Topology, unsupported: Unsupported) -> str:
    """Text of an MJCF file; see `Tree.to_mjcf`."""
    _refuse(tree)
    links, joints, carriers = describe(tree, offsets=True)
    at_start = starts(tree)
    bodies = _bodies(links, joints, at_start)
    inertials = {link.name: _inertial(link) for link in (links[0], *(body.link for body in bodies))}
    weights, other_weights = _compensated(tree, links, carriers)
    closed = equalities(tree, carriers, inertials, at_start)
    placed = {raw.child for raw in joints if raw.kind is FIXED and raw.parent in inertials}
    own: dict[str, Frame | None] = {links[0].name: None}  # the ground has frames with names only
    sensors = {sensor.name: sensor_element(tree, sensor, inertials, placed, own) for sensor in tree.sensors}
    order = [raw.name for body in bodies for raw in body.joints]
    left_out = omitted(
        MJCF, tree, constraints=closed.others, balanced=other_weights,
        unplaced=[name for name, line in sensors.items() if line is None],
        reordered=[a for a, b in zip(order, tree.joint_names, strict=True) if a != b],
        moved=[raw.child for raw in joints if raw.kind is FIXED and raw.child in tree.link_names],
        lost=[name for body in bodies for name in _lost(body, joints)],
        adjusted=[name for name, (_, is_same) in inertials.items() if not is_same],
    )  # fmt: skip
    judge_omitted(tree.name, MJCF, left_out, unsupported)

    sites: dict[str, list[RawJoint]] = {}
    for raw in joints:
        if raw.kind is FIXED:
            sites.setdefault(raw.parent, []).append(raw)
    on_world = sites.get(links[0].name, [])
    led = {name: at.moved_by for name, at in tree.frames.items() if at.moved_by}
    lines = [
        element(0, "mujoco", {"model": tree.name}, is_open=True),
        element(1, "compiler", {"angle": "radian", "autolimits": "true"}),
        element(1, "option", {"gravity": tree.gravity}),
        element(1, "worldbody", {}, is_open=True),
        *_ground(links[0], [raw for raw in on_world if raw.child not in led], set(tree.frames), weights),
        *(element(2, "site", {"name": n, "pos": tidy(p)}) for n, p in closed.sites.get("world", ())),
    ]
    for name in dict.fromkeys(led.values()):
        own_sites = [_in_body(raw, tree.frames[name]) for raw in on_world if led.get(raw.child) == name != raw.child]
        at_body = _place((tree.frames[name].rotation, tree.frames[name].position))
        lines.append(element(2, "body", {"name": name, "mocap": "true", **at_body}, is_open=True))
        lines += [*(_site(3, raw) for raw in own_sites), "    </body>"]
    level = 2
    for body in bodies:
        lines += [f"{'  ' * k}</body>" for k in range(level - 1, body.level - 1, -1)]
        level = body.level + 1
        attributes = {"name": body.link.name, **_place(body.poses[0]), **weights.get(body.link.name, {})}
        lines.append(element(body.level, "body", attributes, is_open=True))
        lines += [_joint(level, raw, pose, at_start) for raw, pose in zip(body.joints, body.poses[1:], strict=True)]
        lines.append(element(level, "inertial", inertials[body.link.name][0]))
        lines += [_site(level, raw) for raw in sites.get(body.link.name, ())]
        lines += [element(level, "site", {"name": n, "pos": tidy(p)}) for n, p in closed.sites.get(body.link.name, ())]
        if at := own.get(body.link.name):
            lines.append(element(level, "site", {"name": at.link, **_place((at.rotation, at.position))}))
    lines += [f"{'  ' * k}</body>" for k in range(level - 1, 1, -1)]
    lines.append("  </worldbody>")
    lines += _section("equality", closed.lines)
    several = [actuator for actuator in tree.actuators if len(actuator.transmission) > 1]
    tendons = [line for actuator in several for line in fixed_tendon(actuator.name, actuator.transmission)]
    lines += _section("tendon", tendons + closed.tendons)
    lines += _section("actuator", [_actuator(actuator) for actuator in tree.actuators])
    lines += _section("sensor", [line for line in sensors.values() if line is not None])
    lines += _section("keyframe", _keys(tree, order))
    return "\n".join([*lines, "</mujoco>", ""])


def _refuse(tree: Topology) -> None:
    """Raise for what no MJCF file has the motion or the name of."""
    for joint, parent in zip(tree.joints, tree.parents, strict=True):
        check_joint(MJCF, joint)
        if joint.kind is FREE and (parent != WORLD or joint.position.any() or np.any(joint.rotation != np.eye(3))):
            raise ModelError(
                f"joint {joint.name!r}", "a free joint whose frame is that of the world", "another one",
                "MuJoCo has no such joint: its free joints tell poses in the world.",
            )  # fmt: skip
    at = tree.frames["world"]
    if at.link != WORLD or at.position.any() or np.any(at.rotation != np.eye(3)):
        raise ModelError(
            "frame 'world'", "the frame of the world", "another one", "MuJoCo has one of its own: rename it."
        )


# -- bodies --------------------------------------------------------------------------------------------------------


def _bodies(links: Sequence[RawLink], joints: Sequence[RawJoint], at_start: Mapping[str, Array]) -> list[_Body]:
    """Links that move, depth first, without those that have no mass."""
    by_name = {link.name: link for link in links}
    outgoing: dict[str, list[RawJoint]] = {}
    for raw in joints:
        if raw.kind is not FIXED:
            outgoing.setdefault(raw.parent, []).append(raw)
    bodies: list[_Body] = []
    pending = [([raw], 2) for raw in reversed(outgoing.get(links[0].name, []))]
    while pending:
        chain, level = pending.pop()
        if level >= DEEPEST_XML:
            raise ModelError("robot", f"bodies nested less than {DEEPEST_XML} deep", "deeper ones", "Write URDF.")
        link = by_name[chain[-1].child]
        after = outgoing.get(link.name, [])
        if link.mass == 0 and not link.inertia.any() and len(after) == 1:
            pending.append(([*chain, after[0]], level))
            continue
        if min(link.mass, np.linalg.eigvalsh(link.inertia)[0]) < LEAST:
            raise ModelError(
                f"link {link.name!r}", "a body with mass and moments of inertia", "none, or of a point or a rod",
                "MuJoCo has no such body, unless it is without mass and carries one other: give it inertia.",
            )  # fmt: skip
        kinds = [raw.kind for raw in chain if raw.kind is not FIXED]
        after_ball = kinds[kinds.index(BALL) + 1 :] if BALL in kinds else []
        shared_free = FREE in kinds and len(kinds) > 1
        if shared_free or {BALL, REVOLUTE} & {*after_ball} or sum(kind.nv for kind in kinds) > MOST_DOFS:
            raise ModelError(
                f"link {link.name!r}", f"at most {MOST_DOFS} degrees of freedom a body with mass, a free joint alone, "
                "and no turn after a ball joint", "others, on links without mass", "Give those links inertia.",
            )  # fmt: skip
        poses = [(np.eye(3), np.zeros(3))]
        for raw in reversed(chain):
            poses.insert(0, compose(_pose(raw, at_start[raw.name]), poses[0]))
        bodies.append(_Body(level, link, chain, poses))
        pending.extend(([raw], level + 1) for raw in reversed(after))
    return bodies


def _pose(raw: RawJoint, q: Array) -> Pose:
    """Frame of the child in that of the parent, where the joint has the coordinates ``q`` (of a ball joint: none)."""
    R, offset = raw.rotation, raw.child_position
    if raw.kind is REVOLUTE:
        R = R @ rotation_about(raw.axis, q[0])
    elif raw.kind is PRISMATIC:
        offset = offset + q[0] * raw.axis
    elif raw.kind is FREE:
        R, offset = quaternion_to_matrix(q[3:]), q[:3]
    return R, raw.position + R @ offset if raw.kind is not FREE else offset


def _inertial(link: RawLink) -> tuple[Attributes, bool]:
    """Attributes of an ``<inertial>``, and whether that is the inertia of the link: MuJoCo takes possible ones only."""
    inertia, is_same = tidy(link.inertia), True
    excess = _excess(inertia)
    if excess > ROUND_OFF * np.max(np.abs(inertia)):
        inertia, is_same = nearest_inertia(inertia), False
    moments, axes = np.diag(inertia).copy(), np.eye(3)
    if np.any(inertia != np.diag(moments)):
        moments, axes = np.linalg.eigh(inertia)
        axes = axes * np.linalg.det(axes)
    largest = int(np.argmax(moments))
    moments[largest] = min(moments[largest], np.sum(np.delete(moments, largest)))
    place = _place((axes, link.com))
    return {"pos": tidy(link.com), **place, "mass": tidy(link.mass), "diaginertia": tidy(moments)}, is_same


def _compensated(
    tree: Topology, links: Sequence[RawLink], carriers: Carriers
) -> tuple[dict[str, Attributes], list[str]]:
    """``gravcomp`` of links by name; and the links that have it of a mass whose centre is not theirs."""
    by_name, found, others = {link.name: link for link in links}, dict[str, Attributes](), list[str]()
    for i, (mass, moment) in tree.compensated.items():
        name, at = carriers[i]
        link = by_name[name]
        if np.max(np.abs(moment - mass * (at.position + at.rotation @ link.com))) <= SAME * link.mass:
            found[name] = {"gravcomp": tidy(mass / link.mass)}
        else:
            others.append(name)
    return found, others


def _excess(inertia: Array) -> float:
    """By how much principal moments break the triangle inequality, or are negative."""
    a, b, c = np.linalg.eigvalsh(inertia)
    return float(max(c - a - b, -a))


def _ground(root: RawLink, fixed: Sequence[RawJoint], names: set[str], weights: Mapping[str, Attributes]) -> list[str]:
    """Frames that are fixed to the world; the first is a body where they have inertia: MuJoCo's world has none."""
    frames = [RawJoint("", FIXED, "", root.name), *fixed] if root.name != "world" else list(fixed)
    if root.mass == 0 and not root.inertia.any():
        return [_site(2, raw) for raw in frames]
    at, *others = frames or [RawJoint("", FIXED, "", unique_name("base", names))]
    R = at.rotation.T
    moved = RawLink(at.child, root.mass, R @ (root.com - at.position), R @ root.inertia @ R.T)
    attributes = {"name": at.child, **_place((at.rotation, at.position)), **weights.get(root.name, {})}
    start = element(2, "body", attributes, is_open=True)
    return [start, element(3, "inertial", _inertial(moved)[0]), "    </body>", *(_site(2, raw) for raw in others)]


def _in_body(raw: RawJoint, at: Placement) -> RawJoint:
    """A frame of the world as one of a body there."""
    R = at.rotation.T
    return replace(raw, rotation=R @ raw.rotation, position=R @ (raw.position - at.position))


def _place(pose: Pose) -> Attributes:
    """Attributes of a pose that is not the identity."""
    quaternion = np.roll(matrix_to_quaternion(pose[0]), 1)
    attributes: dict[str, Array] = {"pos": tidy(pose[1])} if np.any(pose[1]) else {}
    return attributes if quaternion[0] == 1.0 else {**attributes, "quat": tidy(quaternion)}


def _site(level: int, raw: RawJoint) -> str:
    return element(level, "site", {"name": raw.child, **_place((raw.rotation, raw.position))})


def _joint(level: int, raw: RawJoint, pose: Pose, at_start: Mapping[str, Array]) -> str:
    """Joint that moves a link, in whose frame the body has that pose."""
    attributes: dict[str, str | Array] = {"name": raw.name, "type": JOINTS[MJCF][raw.kind or FREE]}
    R, p = pose[0].T, pose[1]
    if raw.kind is not FREE:
        attributes["pos"] = tidy(R @ (-raw.child_position - p))
    if (raw.kind or FREE).nq == 1:
        attributes["axis"] = tidy(R @ raw.axis)
        attributes["ref"] = at_start[raw.name]
        ends = np.array([raw.lower, raw.upper]).ravel()
        if is_range(*ends):
            attributes["range"] = ends
        effort = float(np.max(raw.effort_limit))
        if is_range(-effort, effort):
            attributes["actuatorfrcrange"] = np.array([-effort, effort])
        attributes["springref"] = np.array(raw.rest_position)
    for key, values in (
        ("armature", raw.armature), ("damping", raw.damping), ("frictionloss", raw.friction),
        ("stiffness", raw.stiffness),
    ):  # fmt: skip
        attributes[key] = np.array(common(values))
    shown = {key: value for key, value in attributes.items() if isinstance(value, str) or np.any(value)}
    return element(level, "joint", shown)


# -- actuators and configurations ----------------------------------------------------------------------------------


def _section(tag: str, lines: list[str]) -> list[str]:
    return [element(1, tag, {}, is_open=True), *lines, f"  </{tag}>"] if lines else []


def _actuator(actuator: Actuator) -> str:
    attributes: dict[str, str | Array | float] = {"name": actuator.name}
    if len(actuator.transmission) == 1:
        ((attributes["joint"], attributes["gear"]),) = actuator.transmission.items()
    else:
        attributes["tendon"] = actuator.name
    for key, values, others in (("gain", actuator.gain, "fixed"), ("bias", actuator.bias, "none")):
        attributes[f"{key}type"] = "affine" if any(values[key == "gain" :]) else others
        attributes[f"{key}prm"] = np.array(values)
    for key, ends in (("ctrlrange", actuator.control_range), ("forcerange", actuator.force_range)):
        if is_range(*ends):
            attributes[key] = np.array(ends)
    return element(2, "general", attributes)


def _keys(tree: Topology, order: Sequence[str]) -> list[str]:
    """Keyframes, with joints in this order, quaternions w first, and velocities of free joints along world axes."""
    lines = []
    for name, keyframe in tree.keyframes.items():
        qpos, qvel = keyframe.q.copy(), keyframe.v.copy()
        for joint, sq, sv in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True):
            if joint.kind.unit is not None:
                unit = slice(sq.start + joint.kind.unit.start, sq.stop)
                if joint.kind is FREE:
                    linear = slice(sv.start, sv.start + 3)
                    qvel[linear] = quaternion_to_matrix(qpos[unit]) @ qvel[linear]
                qpos[unit] = np.roll(qpos[unit], 1)
        index = tree.q_index, tree.v_index
        qpos, qvel = (
            np.concatenate([np.zeros(0), *(x[at(joint)] for joint in order)])
            for x, at in zip((qpos, qvel), index, strict=True)
        )
        moving = {key: x for key, x in (("qvel", qvel), ("ctrl", keyframe.ctrl)) if x.any()}
        if keyframe.mocap.size:
            poses = keyframe.mocap.reshape(-1, 7)
            moving |= {"mpos": poses[:, :3].ravel(), "mquat": np.roll(poses[:, 3:], 1, axis=1).ravel()}
        if name != "qpos0":
            lines.append(element(2, "key", {"name": name, "qpos": qpos, **moving}))
    return lines


def _lost(body: _Body, joints: Sequence[RawJoint]) -> list[str]:
    """Frames on links without mass that `load` does not place there again."""
    out = []
    for raw, (R, p) in list(zip(body.joints, body.poses[1:], strict=True))[:-1]:
        is_placed = np.max(np.abs(R - np.eye(3))) <= SAME and np.max(np.abs(p)) <= SAME
        if raw.child != f"{body.link.name}:{raw.name}" or not is_placed:
            out.append(raw.child)
        out += [frame.child for frame in joints if frame.kind is FIXED and frame.parent == raw.child]
    return out
