"""`Tree` → text of an SDF file, of one model. Links are in the pose of ``qpos0`` where a free joint carries them."""

from __future__ import annotations

import re
from dataclasses import replace
from math import pi

import numpy as np

from delassus.constraints import Constraint, Frame, Hinge, Point, Prismatic, Weld
from delassus.errors import ModelError
from delassus.formats.features import JOINTS, SDF, check_joint, omitted, starts
from delassus.formats.text import common, element, numbers, tidy
from delassus.formats.urdf.write import Mimic, mimics_of
from delassus.frozen import body_of
from delassus.model.describe import SAME, describe
from delassus.model.description import FIXED, RawJoint, RawLink, Unsupported, judge_omitted, unique_name
from delassus.model.topology import WORLD, Topology
from delassus.spatial.joint_kinds import BALL, FREE, SCREW
from delassus.spatial.rotations import Array, quaternion_to_matrix, rpy_from_rotation

UNLIMITED = 1e16
"""Written where there is no limit."""

RESERVED = re.compile(r"__.*__|.*::.*|world")
"""Names that no link, joint or frame of SDF has."""

HEAD = {"version": "1.11", "xmlns:drake": "drake.mit.edu"}

PAIRS = {Weld: "fixed", Point: "ball", Hinge: "revolute", Prismatic: "prismatic"}
"""Types of joints that close loops."""


@body_of("Tree.to_sdf")
def write_sdf(tree: Topology, unsupported: Unsupported) -> str:
    """Text of an SDF file; see `Tree.to_sdf`."""
    for joint, parent in zip(tree.joints, tree.parents, strict=True):
        check_joint(SDF, joint)
        if joint.kind is FREE and parent != WORLD:
            raise ModelError(f"joint {joint.name!r}", "a free joint on the world", "one on a link", "SDF has no other.")
    links, joints, _ = describe(tree, offsets=True)
    outgoing: dict[str, list[RawJoint]] = {}
    for raw in joints:
        outgoing.setdefault(raw.parent, []).append(raw)
    order = [x.name for x in depth_first(RawJoint("", FIXED, "", links[0].name), outgoing) if x.kind is not FIXED]
    named, renamed = _named(links, joints)
    pairs, mimics, others = _constraints(tree, named)
    left_out = omitted(
        SDF, tree, constraints=others, reordered=[a for a, b in zip(order, tree.joint_names, strict=True) if a != b],
        renamed=renamed, moved=[raw.child for raw in joints if raw.kind is FIXED and raw.child in tree.link_names],
        balanced=[name for name in tree.gravity_compensation if name not in _weightless(tree, links)],
    )  # fmt: skip
    judge_omitted(tree.name, SDF, left_out, unsupported)
    lines = [element(0, "sdf", HEAD, is_open=True), element(1, "model", {"name": tree.name or "robot"}, is_open=True)]
    at_start, carriers, weightless = starts(tree), {raw.child: raw for raw in joints}, _weightless(tree, links)
    for link in links if links[0].name != "world" else links[1:]:
        raw = carriers.get(link.name)
        if raw is None or raw.kind is not FIXED:
            lines += _link(link, raw, at_start, link.name in weightless)
        else:
            name = {"name": link.name, **({} if raw.parent == "world" else {"attached_to": raw.parent})}
            lines += [element(2, "frame", name, is_open=True), _pose(3, raw.parent, raw.position, raw.rotation), END_FRAME]
    if links[0].name != "world":
        lines += _joint("fixed", f"{links[0].name}_to_world", "world", links[0].name)
    for raw in joints:
        if raw.kind not in (FIXED, FREE):
            lines += _moving(raw, named[raw.name], mimics.get(raw.name))
    return "\n".join([*lines, *pairs, "  </model>", "</sdf>", ""])


END_FRAME = "    </frame>"


def _named(links: Sequence[RawLink], joints: Sequence[RawJoint]) -> tuple[dict[str, str], list[str]]:
    """Names of joints in the file, which are no names of links, and those that are others there.

    Raises
    ------
    ModelError
        A name that SDF has for something else.
    """
    taken, found, renamed = {link.name for link in links}, dict[str, str](), list[str]()
    for k, name in enumerate([*taken, *(raw.name for raw in joints if raw.kind is not FIXED)]):
        if RESERVED.fullmatch(name) and not (name == "world" and k < len(taken)):
            raise ModelError(f"name {name!r}", "one without '::' that is not in underscores", "it", "Rename it.")
    for raw in joints:
        if raw.kind is FREE:
            found[raw.name] = "root_joint" if raw.name == "root_joint" else f"{raw.child}:root_joint"
        elif raw.kind is not FIXED:
            found[raw.name] = unique_name(raw.name if raw.name not in taken else f"{raw.name}_joint", taken)
        if raw.kind is not FIXED and found[raw.name] != raw.name:
            renamed.append(raw.name)
    return found, renamed


def _weightless(tree: Topology, links: Sequence[RawLink]) -> set[str]:
    """Links whose whole weight is balanced."""
    loads = {link.name: np.array([link.mass, *link.com]) for link in links}
    balanced = tree.gravity_compensation.items()
    return {name for name, x in balanced if name in loads and np.max(np.abs(x - loads[name])) <= SAME * x[0]}


def _constraints(
    tree: Topology, named: Mapping[str, str]
) -> tuple[list[str], dict[str, Attributes], list[str]]:
    """Lines of joints that close loops, joints that follow others, and constraints that are neither."""
    mimics, others = mimics_of(tree)
    lines, q, known = list[str](), tree.neutral(), {repr(c) for c in tree.constraints} - set(others)
    return lines, {a: {**m, "joint": named[str(m["joint"])]} for a, m in mimics.items()}, others


def _pose(level: int, base: str, position: Array, rotation: Array) -> str:
    numbers_of = numbers([*tidy(position), *tidy(rpy_from_rotation(rotation))])
    relative = "" if base in ("", "world") else f' relative_to="{base}"'
    return f"{'  ' * level}<pose{relative}>{numbers_of}</pose>"


def _tag(level: int, tag: str, text: str) -> str:
    return f"{'  ' * level}<{tag}>{text}</{tag}>"
