"""URDF files → `Tree`. Meshes, visuals, collisions are not read.

Of a doubled element the first counts, as in Pinocchio's reader.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import cos, inf, sin
from typing import Literal
from xml.etree.ElementTree import Element

import numpy as np

from delassus.constraints import JointRows
from delassus.errors import ModelError, shown
from delassus.formats.features import FROM_URDF, JOINTS, URDF, omitted
from delassus.formats.urdf.extensions import ONE_DOF, apply_version, armatures, foreign_elements
from delassus.model.check import check_choice, decimal_numbers
from delassus.model.description import FIXED, Check, RawJoint, RawLink, Root
from delassus.model.edit.build import build_tree
from delassus.model.keyframe import Keyframe
from delassus.model.topology import WORLD
from delassus.model.tree import Tree
from delassus.spatial.joint_kinds import BALL, COS_SIN, REVOLUTE
from delassus.spatial.rotations import Array, exact_quarter_turns, quaternion_to_matrix, rotation_from_rpy

Continuous = Literal["angle", "cos-sin"]

_KINDS = {**{word: kind for kind, word in JOINTS[URDF].items()}, "fixed": FIXED}

Matrix = list[list[float]]

ZERO = (0.0,)
"""What an attribute is that a file leaves out."""

NONE = (inf,)
"""A limit that a file leaves out."""

MOMENTS = "inertia in its <inertial>"
"""What a link lacks that is a point."""

SHORTEST_QUATERNION = 1e-15
"""Quaternions of poses that are shorter than this are refused."""

WRITTEN = 1e-2
"""Quaternions of SRDF files, which are written to a few digits, are of unit length to this."""


def tree_from_urdf(
    robot: Element,
    fallback_name: str,
    root: Root,
    continuous: Continuous,
    check_inertia: Check,
    source: str,
    balls: Collection[str] = (),
) -> Tree:
    """Build the tree of a parsed ``<robot>`` element; see `delassus.load`. Joints named in ``balls`` are balls."""
    check_choice("continuous", continuous, ("angle", "cos-sin"), ModelError)
    name = robot.get("name") or fallback_name
    refuse_macros(robot, name)
    for element in robot:
        if element.tag in ("link", "joint") and not element.get("name"):
            raise ModelError(f"robot {name!r}", f"a name on every <{element.tag}>", "one without", "Name it.")
    unturned = apply_version(robot, f"robot {name!r}")
    rotors, idle_rotors = armatures(robot)
    elements = robot.findall("joint")
    joints = [_joint(element, continuous, element.get("name") in balls, rotors) for element in elements]
    welded = _welded(robot, joints)
    joints += welded
    inertials = [_inertial(element) for element in robot.findall("link")]
    links = _links([inertial for inertial, _ in inertials])
    if any(joint.parent == "world" for joint in joints) and all(link.name != "world" for link in links):
        links.append(RawLink("world"))

    tree = build_tree(name, links, joints, root=root, sort_children=True, check_inertia=check_inertia, source=source)
    missing = {link.name: what for link, (_, what) in zip(links, inertials, strict=False) if what}
    moving = {link: what for link, what in missing.items() if tree.frames[link].link != WORLD}
    for link, what in moving.items():
        if what != MOMENTS:
            raise ModelError(f"link {link!r}", what, "none", "Add it, or leave out the whole <inertial>.")
    constraints, others = _mimic_joints(robot, tree)
    named = [(element, element.get("name", "")) for element in elements if element.get("name") not in balls]
    left_out = omitted(
        FROM_URDF, tree, mimics=others, free=[name for element, name in named if _lacks_limits(element)],
        idle=[name for element, name in named if _is_idle(element)], points=moving, rotors=idle_rotors,
        welded=[x.name for x in welded], foreign=foreign_elements(robot, {x.name for x in welded}), unturned=unturned,
    )  # fmt: skip
    return replace(tree, constraints=constraints, omitted=left_out)


def refuse_macros(robot: Element, name: str) -> None:
    """Refuse a robot with elements of xacro, or with expressions of it in links and joints, by how to expand it."""
    for element in robot.iter():
        used = element.tag if element.tag.startswith("xacro:") else None
        if used is None and element.tag in ("link", "joint"):
            used = next((x for part in element.iter() for x in part.attrib.values() if "${" in x), None)
        if used is not None:
            came = f"<{used}>" if used == element.tag else shown(used)
            raise ModelError(
                f"robot {name!r}", "a URDF file without macros", came, "Pass xacro={}, with its arguments."
            )


def _welded(robot: Element, joints: Sequence[RawJoint]) -> list[RawJoint]:
    """Fixed joints in the place of Drake's own, of those that carry a link which no other joint does."""
    parents, found = {joint.child: joint.parent for joint in joints}, []
    for number, element in enumerate(robot.findall("drake:joint")):
        ends = [end.get("link", "") for role in ("parent", "child") if (end := element.find(role)) is not None]
        if len(ends) == 2 and ends[1] not in parents and ends[1] not in _support(ends[0], parents):
            name = element.get("name") or f"drake:joint{number}"
            rotation, position = read_pose(element, f"joint {name!r}")
            found.append(RawJoint(name, FIXED, ends[0], ends[1], position, rotation))
            parents[ends[1]] = ends[0]
    return found


def _support(link: str, parents: Mapping[str, str]) -> list[str]:
    """A link and those that carry it."""
    found = [link]
    while found[-1] in parents and parents[found[-1]] not in found:
        found.append(parents[found[-1]])
    return found


def _mimic_joints(robot: Element, tree: Tree) -> tuple[tuple[JointRows, ...], tuple[str, ...]]:
    """Rows of mimic joints, and the names of those that are independent here."""
    one_dof = {joint.name for joint in tree.joints if joint.nv == 1}
    fixed = {element.get("name") for element in robot.findall("joint") if element.get("type") == "fixed"}
    held, others = [], []
    for element in robot.findall("joint"):
        name, mimic = element.get("name", ""), element.find("mimic")
        (multiplier,), (offset,) = read_numbers(element, "mimic", f"joint {name!r}", multiplier=(1.0,), offset=ZERO)
        if mimic is None or name in fixed:
            continue
        leader = mimic.get("joint", "")
        row = {name: 1.0}
        if leader not in fixed:  # the position of a fixed joint is zero
            row[leader] = row.get(leader, 0.0) - multiplier
        row = {joint: x for joint, x in row.items() if x}
        if row and row.keys() <= one_dof:
            held.append(JointRows(row, rest=offset))
        else:
            others.append(name)
    return tuple(held), tuple(others)


def with_group_states(tree: Tree, robot: Element, what: str, listed: bool = True) -> Tree:
    """The tree with the ``<group_state>`` of a parsed SRDF file as reference configurations.

    States of one name, of several groups, are one configuration. ``listed``: joints that the tree does not have are
    among what it leaves out.
    """
    configurations: dict[str, Array] = {}
    unknown: dict[str, None] = {}
    for state in robot.findall("group_state"):
        name = state.get("name")
        if not name:
            raise ModelError(what, "a name on every <group_state>", "one without", "Name it.")
        q = configurations.setdefault(name, tree.neutral())
        for element in state.findall("joint"):
            joint = element.get("name", "")
            if joint not in tree.joint_names:
                unknown[joint] = None
                continue
            value = f"{what}, group state {name!r}, value of joint {joint!r}"
            q[tree.q_index(joint)] = _coordinates(tree, joint, element.get("value", ""), value)
    left_out = {**tree.omitted, **(omitted(FROM_URDF, tree, unknown=unknown) if listed else {})}
    return replace(tree, keyframes={c: Keyframe(q) for c, q in configurations.items()}, omitted=left_out)


def _coordinates(tree: Tree, joint: str, text: str, what: str) -> Array:
    """Configuration of a joint from the text of an SRDF file: its numbers, or the angle of a cosine and sine."""
    kind = tree.joints[tree.joint_names.index(joint)].kind
    given = decimal_numbers(text)
    if given is not None and kind is COS_SIN and len(given) == 1:
        given = cos(given[0]), sin(given[0])
    numbers = np.array(given or ())
    length = 1.0 if kind.unit is None else float(np.linalg.norm(numbers[kind.unit]))
    if numbers.shape != (kind.nq,) or abs(length - 1.0) > WRITTEN:
        wanted = f"{kind.nq} finite number(s)" + ("" if kind.unit is None else ", with a part of unit length")
        raise ModelError(what, wanted, shown(text), "Correct the text.")
    if kind.unit is not None:
        numbers[kind.unit] /= length
    return numbers


def _links(inertials: Sequence[tuple[str, float, Array, Array, Matrix]]) -> list[RawLink]:
    """Links of their inertials, with moments of inertia in the axes of the link."""
    rotations = exact_quarter_turns(np.array([rotation for *_, rotation, _ in inertials]).reshape(-1, 3, 3))
    moments = np.array([moments for *_, moments in inertials]).reshape(-1, 3, 3)
    rotated = rotations @ moments @ np.swapaxes(rotations, 1, 2)
    return [RawLink(name, mass, com, own) for (name, mass, com, *_), own in zip(inertials, rotated, strict=True)]


def _inertial(element: Element) -> tuple[tuple[str, float, Array, Array, Matrix], str]:
    """Name, mass, centre of mass, and rotation and moments of inertia of the ``<inertial>`` of a link.

    With it, the first thing that is not there; "" if all is, or the whole element is not there. Without moments alone
    it is a point, without others nothing.
    """
    name = element.get("name", "")
    inertial = element.find("inertial")
    if inertial is None:
        return (name, 0.0, np.zeros(3), np.eye(3), 3 * [3 * [0.0]]), ""
    what, missing = f"link {name!r}", list[str]()
    for tag, required in (("mass", ("value",)), ("inertia", ("ixx", "iyy", "izz"))):
        part = inertial.find(tag)
        missing += [f"{tag} in its <inertial>"] if part is None else []
        missing += [] if part is None else [f"{x} in its <{tag}>" for x in required if part.get(x) is None]
    if missing not in ([], [MOMENTS]):
        return (name, 0.0, np.zeros(3), np.eye(3), 3 * [3 * [0.0]]), missing[0]
    ((mass,),) = read_numbers(inertial, "mass", what, value=ZERO)
    (xx,), (xy,), (xz,), (yy,), (yz,), (zz,) = read_numbers(
        inertial, "inertia", what, ixx=ZERO, ixy=ZERO, ixz=ZERO, iyy=ZERO, iyz=ZERO, izz=ZERO
    )
    rotation, com = read_pose(inertial, what)
    return (name, mass, com, rotation, [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]), next(iter(missing), "")


def _joint(element: Element, continuous: Continuous, is_ball: bool, rotors: Mapping[str, float]) -> RawJoint:
    name, kind = element.get("name", ""), element.get("type", "")
    what = f"joint {name!r}"
    if kind not in _KINDS:
        raise ModelError(what, f"a type among {', '.join(_KINDS)}", repr(element.get("type")), "Use one of these.")
    ends = []
    for role in ("parent", "child"):
        end = element.find(role)
        link = None if end is None else end.get("link")
        if not link:
            raise ModelError(what, f"a <{role} link='…'/>", "none", f"Say which link is its {role}.")
        ends.append(link)
    rotation, position = read_pose(element, what)
    (axis,) = read_numbers(element, "axis", what, xyz=(1.0, 0.0, 0.0))
    (lower,), (upper,), (effort,), (velocity,) = read_numbers(
        element, "limit", what, lower=ZERO, upper=ZERO, effort=NONE, velocity=NONE
    )
    (damping,), (friction,) = read_numbers(element, "dynamics", what, damping=ZERO, friction=ZERO)
    if kind not in ("revolute", "prismatic") or element.find("limit") is None or is_ball or _lacks_limits(element):
        lower, upper = -inf, inf
    is_driven = kind in ONE_DOF and not is_ball  # by one motor
    effort, velocity = (x if is_driven and x > 0.0 else inf for x in (effort, velocity))
    moves = REVOLUTE if kind == "continuous" and continuous == "angle" else _KINDS[kind]
    moves = BALL if is_ball else moves
    return RawJoint(
        name, moves, ends[0], ends[1], position, rotation, np.array(axis), lower=lower, upper=upper, damping=damping,
        friction=friction, effort_limit=effort, velocity_limit=velocity,
        armature=rotors.get(name, 0.0) if is_driven else 0.0,
    )  # fmt: skip


def _lacks_limits(joint: Element) -> bool:
    """Whether a joint has a ``<limit>`` that could hold it at zero by omission alone."""
    limit = joint.find("limit")
    given = limit is None or limit.get("lower") is not None or limit.get("upper") is not None
    return joint.get("type") in ("revolute", "prismatic") and not given


def _is_idle(joint: Element) -> bool:
    """Whether a joint has a motor without force, or that does not turn."""
    values = read_numbers(joint, "limit", f"joint {joint.get('name')!r}", effort=NONE, velocity=NONE)
    return joint.get("type") in ONE_DOF and any(-inf < value <= 0.0 for (value,) in values)


def read_pose(element: Element, what: str) -> tuple[Array, Array]:
    """Rotation (3, 3) and position (3,) of the ``<origin>`` of an element; the identity where there is none.

    See `delassus.formats.urdf.extensions.apply_version` for ``quat_xyzw``, which is of any length.
    """
    xyz, rpy = read_numbers(element, "origin", what, xyz=3 * ZERO, rpy=3 * ZERO)
    origin = element.find("origin")
    if origin is None or "quat_xyzw" not in origin.attrib:
        return rotation_from_rpy(rpy), np.array(xyz)
    if "rpy" in origin.attrib:
        raise ModelError(f"{what}, <origin>", "rpy or quat_xyzw", "both", "Leave out one of them.")
    _, quaternion = read_numbers(element, "origin", what, xyz=3 * ZERO, quat_xyzw=(0.0, 0.0, 0.0, 1.0))
    largest = max(map(abs, quaternion))
    if not largest > SHORTEST_QUATERNION:
        raise ModelError(f"{what}, quat_xyzw of <origin>", "a rotation", shown(quaternion), "No rotation is 0 0 0 1.")
    straight = np.array(quaternion) / largest
    return quaternion_to_matrix(straight / np.linalg.norm(straight)), np.array(xyz)


def read_numbers(parent: Element, tag: str, what: str, **defaults: tuple[float, ...]) -> list[tuple[float, ...]]:
    """Numbers of each attribute of an element: finite but in a ``<limit>``, and as many as the default has.

    The default stands for an attribute or element that is not there.
    """
    element = parent.find(tag)
    if element is None:
        return list(defaults.values())
    out = []
    for attribute, default in defaults.items():
        text = element.get(attribute)
        numbers = default if text is None else decimal_numbers(text, infinite=tag == "limit")
        if numbers is None or len(numbers) != len(default):
            raise ModelError(
                f"{what}, {attribute} of <{tag}>", f"{len(default)} finite number(s)", shown(text), "Correct the text."
            )
        out.append(numbers)
    return out
