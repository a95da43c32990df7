"""`Tree` → text of an SDF file of one model, in the pose of ``qpos0`` where free joints carry links."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from math import pi
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from delassus.errors import ModelError
from delassus.formats.features import JOINTS, SDF, check_joint, omitted, starts
from delassus.formats.sdf.frames import STILL, Pose, inverse, times
from delassus.formats.sdf.joints import AXES
from delassus.formats.text import common, element, numbers, tidy
from delassus.formats.urdf.write import Mimic, mimics_of
from delassus.frozen import body_of
from delassus.model.describe import SAME, Carriers, describe
from delassus.model.description import FIXED, RawJoint, RawLink, Unsupported, depth_first, judge_omitted, unique_name
from delassus.model.kinematics import world_poses
from delassus.model.topology import WORLD, Placement, Topology
from delassus.spatial.joint_kinds import BALL, FREE, PLANAR, SCREW
from delassus.spatial.rotations import Array, quaternion_to_matrix, rotation_between, rpy_from_rotation

UNLIMITED = 1e16
"""Written where there is no limit."""

RESERVED = re.compile(r"__.*__|.*::.*")
"""Names that no link, joint or frame of SDF has."""

HEAD = {"version": "1.11", "xmlns:drake": "drake.mit.edu"}


@body_of("Tree.to_sdf")
def write_sdf(tree: Topology, unsupported: Unsupported) -> str:
    """Text of an SDF file; see `Tree.to_sdf`."""
    for joint, parent in zip(tree.joints, tree.parents, strict=True):
        check_joint(SDF, joint)
        if joint.kind is FREE and parent != WORLD:
            raise ModelError(f"joint {joint.name!r}", "a free joint on the world", "one on a link", "SDF has no other.")
    links, joints, carriers = describe(tree, offsets=True)
    outgoing: dict[str, list[RawJoint]] = {}
    for raw in joints:
        outgoing.setdefault(raw.parent, []).append(raw)
    order = [x.name for x in depth_first(RawJoint("", FIXED, "", links[0].name), outgoing) if x.kind is not FIXED]
    named, renamed = _named(links, joints)
    is_carried = {links[0].name if links[0].name != "world" else "", *(x.child for x in joints if x.kind is not FREE)}
    taken = {*tree.frames, *named.values(), *(link.name for link in links)}
    closed, rest = _closed(tree, carriers, is_carried, taken)
    mimics, others = mimics_of(rest)
    weightless = balanced_links(tree, links)
    left_out = omitted(
        SDF, tree, constraints=others, reordered=[a for a, b in zip(order, tree.joint_names, strict=True) if a != b],
        renamed=renamed, moved=[raw.child for raw in joints if raw.kind is FIXED and raw.child in tree.link_names],
        balanced=[name for name in tree.gravity_compensation if name not in weightless],
    )  # fmt: skip
    judge_omitted(tree.name, SDF, left_out, unsupported)
    lines = [element(0, "sdf", HEAD, is_open=True), element(1, "model", {"name": tree.name or "robot"}, is_open=True)]
    at_start, carried = starts(tree), {raw.child: raw for raw in joints}
    for link in links if links[0].name != "world" else links[1:]:
        at = carried.get(link.name, RawJoint("", FREE, "", link.name))
        is_frame = at.kind is FIXED and at.parent != "world"  # one of the world is a link, or it would move with one
        lines += _frame(at) if is_frame else _link(link, at, at_start, link.name in weightless)
    on_world = [raw.child for raw in joints if raw.kind is FIXED and raw.parent == "world"]
    for name in on_world if links[0].name == "world" else [links[0].name]:
        held = {"name": unique_name("on_world", taken), "type": "fixed"}
        lines += [element(2, "joint", held, is_open=True), _tag(3, "parent", "world"), _tag(3, "child", name)]
        lines.append("    </joint>")
    for raw in joints:
        if raw.kind not in (FIXED, FREE):
            mimic = mimics.get(raw.name)
            lines += _joint(raw, named, {**mimic, "joint": named[str(mimic["joint"])]} if mimic else None, taken)
    return "\n".join([*lines, *closed, "  </model>", "</sdf>", ""])


def _named(links: Sequence[RawLink], joints: Sequence[RawJoint]) -> tuple[dict[str, str], list[str]]:
    """Names of joints in the file, which are no names of links, and joints that have others there.

    Raises
    ------
    ModelError
        A name that means something else in SDF.
    """
    taken, found = {link.name for link in links}, dict[str, str]()
    moving = [raw for raw in joints if raw.kind is not FIXED]
    for name in (*taken, *(raw.name for raw in moving)):
        if RESERVED.fullmatch(name):
            wanted = "one without '::', which does not begin and end with '__'"
            raise ModelError(f"name {name!r}", wanted, "it", "Rename it, or write another format.")
    for raw in moving:
        if raw.kind is FREE:
            found[raw.name] = raw.name if raw.name == "root_joint" else f"{raw.child}:root_joint"
        else:
            found[raw.name] = unique_name(f"{raw.name}_joint" if raw.name in taken else raw.name, taken)
    return found, [name for name, new in found.items() if name != new]


def balanced_links(tree: Topology, links: Sequence[RawLink]) -> set[str]:
    """Links whose whole weight is balanced."""
    loads = {link.name: np.array([link.mass, *link.com]) for link in links}
    balanced = tree.gravity_compensation.items()
    return {name for name, x in balanced if name in loads and np.max(np.abs(x - loads[name])) <= SAME * abs(x[0])}


def _frame(raw: RawJoint) -> list[str]:
    """Lines of a frame that a link carries."""
    on = {} if raw.parent == "world" else {"attached_to": raw.parent}
    pose = _pose(3, raw.parent, raw.position, raw.rotation)
    return [element(2, "frame", {"name": raw.child, **on}, is_open=True), pose, "    </frame>"]


def _link(link: RawLink, raw: RawJoint, at_start: Mapping[str, Array], is_weightless: bool) -> list[str]:
    """Lines of a link, in the pose that it has on the one that carries it where its joint is at zero."""
    position, rotation = raw.position + raw.rotation @ raw.child_position, raw.rotation
    if raw.kind is FREE and raw.name in at_start:
        q = at_start[raw.name]
        position, rotation = position + rotation @ q[:3], rotation @ quaternion_to_matrix(q[3:])
    (xx, xy, xz), (_, yy, yz), (*_, zz) = tidy(link.inertia)
    moments = {"ixx": xx, "ixy": xy, "ixz": xz, "iyy": yy, "iyz": yz, "izz": zz}
    return [
        element(2, "link", {"name": link.name}, is_open=True),
        _pose(3, raw.parent, position, rotation),
        *([_tag(3, "gravity", "false")] if is_weightless else []),
        element(3, "inertial", {}, is_open=True),
        _pose(4, "", link.com, np.eye(3)),
        _tag(4, "mass", numbers(tidy(link.mass))),
        element(4, "inertia", {}, is_open=True),
        *(_tag(5, tag, numbers(x)) for tag, x in moments.items()),
        "        </inertia>",
        "      </inertial>",
        "    </link>",
    ]


def _joint(raw: RawJoint, named: Mapping[str, str], mimic: Mimic | None, taken: set[str]) -> list[str]:
    """Lines of a joint that moves; adds names of frames that it needs to those that are ``taken``."""
    if raw.kind is PLANAR:
        return _planar(raw, named[raw.name], taken)
    kind = JOINTS[SDF][raw.kind or FREE]
    lines = _head(named[raw.name], kind, raw.parent, raw.child, (np.eye(3), -raw.child_position))
    if raw.kind is SCREW:
        lines.append(_tag(3, "screw_thread_pitch", numbers(2.0 * pi * raw.pitch)))
    if raw.kind is not BALL:
        limits = {"lower": raw.lower, "upper": raw.upper, "effort": raw.effort_limit, "velocity": raw.velocity_limit}
        dynamics = {
            "damping": raw.damping, "friction": raw.friction, "spring_reference": raw.rest_position,
            "spring_stiffness": raw.stiffness,
        }  # fmt: skip
        lines += [
            element(3, "axis", {}, is_open=True),
            _tag(4, "xyz", numbers(tidy(raw.axis))),
            element(4, "limit", {}, is_open=True),
            *(_tag(5, tag, numbers(np.ravel(x)[0])) for tag, x in limits.items() if np.isfinite(x).all()),
            "        </limit>",
            element(4, "dynamics", {}, is_open=True),
            *(_tag(5, tag, numbers(common(x))) for tag, x in dynamics.items() if common(x)),
            "        </dynamics>",
            *(_mimic(mimic) if mimic else []),
            "      </axis>",
        ]
    elif common(raw.damping):
        lines += [
            element(3, "axis", {}, is_open=True),
            element(4, "dynamics", {}, is_open=True),
            _tag(5, "damping", numbers(common(raw.damping))),
            "        </dynamics>",
            "      </axis>",
        ]
    if raw.kind is not BALL and common(raw.armature):
        lines.append(_tag(3, "drake:rotor_inertia", numbers(common(raw.armature))))
    return [*lines, "    </joint>"]


def _head(name: str, kind: str, parent: str, child: str, pose: Pose) -> list[str]:
    """First lines of a joint, whose frame has that pose in its child."""
    rotation, position = pose
    return [
        element(2, "joint", {"name": name, "type": kind}, is_open=True),
        _pose(3, "", position, rotation),
        _tag(3, "parent", parent),
        _tag(3, "child", child),
    ]


def _planar(raw: RawJoint, name: str, taken: set[str]) -> list[str]:
    """Lines of a planar joint of Drake, and of the frames that it is between."""
    ends = [unique_name(f"{name}_{role}", taken) for role in ("parent", "child")]
    alignment = rotation_between(np.eye(3)[2], raw.axis)
    lines = [
        *_frame(RawJoint("", FIXED, raw.parent, ends[0], raw.position, raw.rotation @ alignment)),
        *_frame(RawJoint("", FIXED, raw.child, ends[1], -raw.child_position, alignment)),
        element(2, "drake:joint", {"name": name, "type": "planar"}, is_open=True),
    ]
    lines += [_tag(3, f"drake:{role}", end) for role, end in zip(("parent", "child"), ends, strict=True)]
    damping = numbers(np.broadcast_to(raw.damping, 3))
    return [*lines, _tag(3, "drake:damping", damping), "    </drake:joint>"]


def _mimic(mimic: Mimic) -> list[str]:
    parts = [_tag(5, tag, numbers(float(mimic[tag]))) for tag in ("multiplier", "offset")]
    line = element(4, "mimic", {"joint": str(mimic["joint"]), "axis": "axis"}, is_open=True)
    return [line, *parts, _tag(5, "reference", "0"), "        </mimic>"]


def _pose(level: int, base: str, position: Array, rotation: Array) -> str:
    """Line of a pose, in that of another frame where ``base`` names one."""
    given = {} if base in ("", "world") else {"relative_to": base}
    line = element(level, "pose", given, is_open=True)
    return f"{line}{numbers([*tidy(position), *tidy(rpy_from_rotation(rotation))])}</pose>"


def _tag(level: int, tag: str, text: str) -> str:
    return f"{element(level, tag, {}, is_open=True)}{escape(text)}</{tag}>"


# -- constraints ---------------------------------------------------------------------------------------------------


def _closed(tree: Any, carriers: Carriers, is_carried: Collection[str], taken: set[str]) -> tuple[list[str], list[Any]]:
    """Lines for springs, and for loops that are closed in the pose of the file; and the constraints without.

    A joint of SDF closes a loop where something else carries its child already, which ``is_carried`` names.
    """
    q, at_start = tree.neutral(), starts(tree)
    for joint, part in zip(tree.joints, tree.q_slices, strict=True):
        if joint.kind is FREE:
            q[part] = at_start[joint.name]
    poses = [*world_poses(tree, q), STILL]  # the last one is the world's
    lines, others = list[str](), list[Any]()
    for number, constraint in enumerate(tree.constraints):
        ends = [frame.on(tree) for frame in constraint.frames if frame.given is None]
        is_given = len(ends) < len(constraint.frames)
        in_world = [times(poses[at.link], _pose_of(at)) for at in ends]
        if len(ends) == 1 and not is_given:  # it is held where it starts
            ends.append(Placement(WORLD, *in_world[0]))
            in_world.append(in_world[0])
        names = [carriers[at.link][0] for at in ends]
        own = [times(inverse(_pose_of(carriers[at.link][1])), _pose_of(at)) for at in ends]
        spring = None if is_given else _along_line(constraint.as_tendon(tree))
        child = next((k for k in (1, 0) if k < len(names) and names[k] in is_carried), None)
        kind, axes = ("", []) if is_given or len(ends) < 2 else _loop(constraint, in_world)
        if spring is not None:
            lines += _spring(names, own, spring)
        elif not kind or child is None:
            others.append(constraint)
        else:
            if child == 0:
                axes = [in_world[0][0].T @ in_world[1][0] @ axis for axis in axes[::-1]]
            lines += _head(unique_name(f"loop{number}", taken), kind, names[1 - child], names[child], own[child])
            for tag, axis in zip(AXES, axes, strict=False):
                lines += [element(3, tag, {}, is_open=True), _tag(4, "xyz", numbers(tidy(axis))), f"      </{tag}>"]
            lines.append("    </joint>")
    return lines, others


def _pose_of(at: Placement) -> Pose:
    return at.rotation, at.position


def _loop(constraint: Any, in_world: Sequence[Pose]) -> tuple[str, list[Array]]:
    """Type of the joint that a constraint is, "" if none, and its axes in the second frame; poses are of its frames."""
    (R, p), (S, o) = in_world
    turn, gap = S.T @ R, R.T @ (o - p)
    least = SAME * max(1.0, float(np.abs(p).max()))
    meets, is_along = np.abs(gap).max() <= least, np.abs(turn - np.eye(3)).max() <= SAME
    match constraint.joint:
        case "fixed", () if meets and is_along:
            return "fixed", []
        case "spherical", () if meets:
            return "ball", []
        case "revolute", (axis,) if meets and np.abs(turn @ axis - axis).max() <= SAME:
            return "revolute", [axis]
        case "prismatic", (axis,) if is_along and np.abs(np.cross(axis, gap)).max() <= least:
            return "prismatic", [axis]
        case "universal", (axis, second) if meets:
            return "universal", [turn @ axis, second]
    return "", []


def _along_line(tendon: Any) -> tuple[float, float, float] | None:
    """Stiffness, damping and length of a tendon that is a spring between two frames; None of another."""
    if tendon is None or tendon.holds or tendon.ratios or tendon.follows is not None or len(tendon.path) != 2:
        return None
    is_spring = isinstance(tendon.length, float)
    return (tendon.stiffness or 0.0, tendon.damping or 0.0, tendon.length) if is_spring else None


def _spring(names: Sequence[str], own: Sequence[Pose], spring: tuple[float, float, float]) -> list[str]:
    """Lines of a spring along a line."""
    tag = "drake:linear_spring_damper"
    values = [f"{tag}_{x}" for x in ("stiffness", "damping", "free_length")]
    lines = [element(2, tag, {}, is_open=True)]
    for end, point, name, (_, p) in zip("AB", ("AP", "BQ"), names, own, strict=True):
        lines += [_tag(3, f"{tag}_body_{end}", name), _tag(3, f"{tag}_p_{point}", numbers(tidy(p)))]
    return [*lines, *(_tag(3, x, numbers(y)) for x, y in zip(values, spring, strict=True)), f"    </{tag}>"]
