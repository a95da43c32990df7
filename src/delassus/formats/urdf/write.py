"""`Tree` → text of a URDF file. Readers number joints depth first, those on one link in the order of their names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from delassus.formats.features import JOINTS, URDF, check_joint, omitted
from delassus.formats.text import common, element, tidy
from delassus.frozen import body_of
from delassus.model.describe import describe
from delassus.model.description import FIXED, RawJoint, RawLink, Unsupported, depth_first, judge_omitted, unique_name
from delassus.model.topology import Topology
from delassus.spatial.joint_kinds import COS_SIN
from delassus.spatial.rotations import Array, rpy_from_rotation

UNLIMITED = 1e308
"""Written where there is no limit: readers take no ``inf``."""


@body_of("Tree.to_urdf")
def write_urdf(tree: Topology, unsupported: Unsupported) -> str:
    """Text of a URDF file; see `Tree.to_urdf`."""
    for joint in tree.joints:
        check_joint(URDF, joint)
    links, joints, _ = describe(tree, offsets=False)
    links, joints = _by_name(links, joints)
    outgoing: dict[str, list[RawJoint]] = {}
    for raw in sorted(joints, key=lambda raw: raw.name):
        outgoing.setdefault(raw.parent, []).append(raw)
    root = RawJoint("", FIXED, "", links[0].name)
    order = [raw.name for raw in depth_first(root, outgoing) if raw.kind is not FIXED]
    mimics, others = mimics_of(tree.constraints)
    left_out = omitted(
        URDF, tree, constraints=others, reordered=[a for a, b in zip(order, tree.joint_names, strict=True) if a != b],
        moved=[raw.child for raw in joints if raw.kind is FIXED and raw.child in tree.link_names],
    )  # fmt: skip
    judge_omitted(tree.name, URDF, left_out, unsupported)
    all_angles = not any(j.kind is COS_SIN for j in tree.joints)
    lines = [element(0, "robot", {"name": tree.name}, is_open=True)]
    for link in links:
        lines += _link(link)
    places = {name: number for number, name in enumerate(mimics)}  # readers keep the order of joints that follow others
    for raw in sorted(joints, key=lambda raw: places.get(raw.name, -1)):
        lines += _joint(raw, all_angles, mimics.get(raw.name))
    return "\n".join([*lines, "</robot>", ""])


def _by_name(links: list[RawLink], joints: list[RawJoint]) -> tuple[list[RawLink], list[RawJoint]]:
    """The same, with joints of one link in the order of their names: frames of it carry those that come too late."""
    taken, used = {link.name for link in links}, {raw.name for raw in joints}
    out: list[RawJoint] = []
    fixed = {raw.child: raw for raw in joints if raw.kind is FIXED}
    for link in list(links):
        moving = [raw for raw in joints if raw.parent == link.name and raw.kind is not FIXED]
        breaks = [k for k in range(1, len(moving)) if moving[k].name < moving[k - 1].name]
        out += moving[: min(breaks, default=len(moving))]
        free = [raw for raw in fixed.values() if raw.parent == link.name]
        for number, (start, stop) in enumerate(pairwise([*breaks, len(moving)])):
            if free:
                at = min(free, key=lambda raw: float(np.linalg.norm(raw.position - moving[start].position)))
                free.remove(at)
            else:
                at = RawJoint("", FIXED, link.name, unique_name(f"{link.name}:{number}", taken))
                links.append(RawLink(at.child))
            name = unique_name(f"{moving[breaks[0] - 1].name}:{number:06d}", used)  # after those that the link carries
            fixed[at.child] = replace(at, name=name)
            R = at.rotation.T
            out += [
                replace(raw, parent=at.child, position=R @ (raw.position - at.position), rotation=R @ raw.rotation)
                for raw in moving[start:stop]
            ]
    return links, [*out, *fixed.values()]


Mimic = dict[str, str | float]


def mimics_of(constraints: Iterable[Any]) -> tuple[dict[str, Mimic], list[str]]:
    """Joints that follow others, one each, with whom and how; and the constraints that this does not say."""
    mimics: dict[str, Mimic] = {}
    others = []
    for constraint in constraints:
        rows = constraint.couplings() or []
        if not rows or any(len(row) != 2 for row, _ in rows):
            others.append(repr(constraint))
            continue
        for row, rest in rows:
            (a, x), (b, y) = row.items()
            if a in mimics:
                (a, x), (b, y) = (b, y), (a, x)
            if a in mimics:
                others.append(repr(constraint))
            else:
                mimics[a] = {"joint": b, "multiplier": -y / x, "offset": rest / x}
    return mimics, others


def _link(link: RawLink) -> list[str]:
    if link.mass == 0 and not link.inertia.any():
        return [element(1, "link", {"name": link.name})]
    (xx, xy, xz), (_, yy, yz), (*_, zz) = tidy(link.inertia)
    return [
        element(1, "link", {"name": link.name}, is_open=True),
        element(2, "inertial", {}, is_open=True),
        element(3, "origin", {"xyz": tidy(link.com), "rpy": np.zeros(3)}),
        element(3, "mass", {"value": tidy(link.mass)}),
        element(3, "inertia", {"ixx": xx, "ixy": xy, "ixz": xz, "iyy": yy, "iyz": yz, "izz": zz}),
        "    </inertial>",
        "  </link>",
    ]


def _joint(raw: RawJoint, all_angles: bool, mimic: Mimic | None) -> list[str]:
    """Lines of a joint; unlimited angles are of type continuous where no joint has its cosine and sine."""
    kind = "fixed" if raw.kind is FIXED else JOINTS[URDF][raw.kind]
    limits = {"effort": _limit(raw.effort_limit), "velocity": _limit(raw.velocity_limit)}
    if kind == "revolute" and all_angles and np.isinf(raw.lower).all() and np.isinf(raw.upper).all():
        kind = "continuous"
    if kind in ("revolute", "prismatic"):
        limits = {"lower": _limit(raw.lower), "upper": _limit(raw.upper), **limits}
    lines = [
        element(1, "joint", {"name": raw.name, "type": kind}, is_open=True),
        element(2, "parent", {"link": raw.parent}),
        element(2, "child", {"link": raw.child}),
        element(2, "origin", {"xyz": tidy(raw.position), "rpy": tidy(rpy_from_rotation(raw.rotation))}),
    ]
    if kind not in ("fixed", "floating"):
        lines.append(element(2, "axis", {"xyz": tidy(raw.axis)}))
    if kind in ("revolute", "prismatic") or (kind == "continuous" and min(limits.values()) < UNLIMITED):
        lines.append(element(2, "limit", limits))
    resistance = {"damping": common(raw.damping), "friction": common(raw.friction)}
    if any(resistance.values()):
        lines.append(element(2, "dynamics", resistance))
    if mimic:
        lines.append(element(2, "mimic", mimic))
    return [*lines, "  </joint>"]


def _limit(values: float | Array) -> float:
    """Limit of a joint; of its first degree of freedom where it has several."""
    return float(np.clip(np.ravel(values)[0], -UNLIMITED, UNLIMITED))
