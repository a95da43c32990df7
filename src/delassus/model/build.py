"""From raw links and joints to a `Tree`: merge fixed joints, order, place body frames, check every number.

Every loader ends here. A description is a list of `RawLink` and `RawJoint` in the description's own frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from delassus.errors import ModelError, shown
from delassus.model.description import (
    FIXED,
    Check,
    RawJoint,
    RawLink,
    Root,
    check_masses,
    check_numbers,
    find_root,
    refuse_massless,
)
from delassus.model.inertia import move_inertia, spatial_inertia
from delassus.model.joints import Joint, JointKind
from delassus.model.rotations import Array, exact_quarter_turns, rotation_between
from delassus.model.tree import WORLD, Placement, Tree

_GROUND = "\0"
"""Parent of the root link while a tree is built; a robot may have a link of its own that is named "world"."""


def build_tree(
    name: str,
    links: Sequence[RawLink],
    joints: Sequence[RawJoint],
    *,
    root: Root = "fixed",
    sort_children: bool = False,
    keep_order: bool = False,
    check_inertia: Check = "warn",
    root_joint_name: str = "root_joint",
) -> Tree:
    """Build a tree from a description.

    Parameters
    ----------
    name : str
        Name of the robot.
    links, joints : sequences
        The description. The one link without a parent is the root.
    root : {"fixed", "floating"}
        Whether the root link is fixed to the world or carried by a free joint.
    sort_children : bool
        Visit the children of a link in the order of their joints' names, as URDF readers do; else in the order given.
    keep_order : bool
        Number the joints in the order given, in which parents come before children; else depth first.
    check_inertia : {"warn", "refuse"}
        What to do about rotational inertias that no rigid body can have.
    root_joint_name : str
        Name of the free joint of a floating tree; underscores follow where the description has such a joint.

    Raises
    ------
    ModelError
        Names the link or joint that is wrong.
    """
    if root not in ("fixed", "floating"):
        raise ModelError("root", "'fixed' or 'floating'", shown(root), "Choose one of the two.")
    root_link = find_root(name, links, joints)
    check_masses(links, check_inertia)
    if root == "floating":
        root_joint_name = unique_name(root_joint_name, {joint.name for joint in joints})
        joints = [RawJoint(root_joint_name, JointKind.FREE, _GROUND, root_link), *joints]
    else:
        joints = [RawJoint(f"world_to_{root_link}", FIXED, _GROUND, root_link), *joints]

    raw_links = {link.name: link for link in links}

    link_names: list[str] = []
    tree_joints: list[Joint] = []
    parents: list[int] = []
    inertias: list[Array] = []
    frames = {_GROUND: Placement(WORLD, np.eye(3), np.zeros(3))}
    world_inertia = np.zeros((6, 6))
    for raw in joints if keep_order else _depth_first(joints, sort_children):
        at = frames[raw.parent]
        check_numbers(np.append(raw.position, raw.rotation), f"origin of joint {raw.name!r}")
        rotation = exact_quarter_turns(at.rotation @ raw.rotation)
        position = at.position + at.rotation @ raw.position
        if raw.kind is None:
            placement = Placement(at.link, rotation, position + rotation @ raw.child_position)
        else:
            placed, turn = _place_joint(raw, raw.kind, rotation, position)
            link_names.append(raw.child)
            tree_joints.append(placed)
            parents.append(at.link)
            inertias.append(np.zeros((6, 6)))
            placement = Placement(len(tree_joints) - 1, turn.T, turn.T @ raw.child_position)
        frames[raw.child] = placement
        link = raw_links[raw.child]
        own = move_inertia(spatial_inertia(link.mass, link.com, link.inertia), placement.rotation, placement.position)
        if placement.link == WORLD:
            world_inertia = world_inertia + own
        else:
            inertias[placement.link] = inertias[placement.link] + own

    ground = frames.pop(_GROUND)
    frames.setdefault("world", ground)
    tree = Tree(
        name,
        tuple(link_names),
        tuple(tree_joints),
        tuple(parents),
        np.array(inertias).reshape(-1, 6, 6),
        frames,
        world_inertia,
    )
    refuse_massless(tree)
    return tree


def unique_name(wanted: str, taken: set[str]) -> str:
    """``wanted``, followed by underscores while that name is taken; adds it to ``taken``."""
    while wanted in taken:
        wanted += "_"
    taken.add(wanted)
    return wanted


def _depth_first(joints: Sequence[RawJoint], sort_children: bool) -> Iterator[RawJoint]:
    """Visit the joints depth first, from the first one; without recursion, because chains may be long."""
    outgoing: dict[str, list[RawJoint]] = {}
    for joint in joints:
        outgoing.setdefault(joint.parent, []).append(joint)
    if sort_children:
        for siblings in outgoing.values():
            siblings.sort(key=lambda j: j.name)
    pending = [joints[0]]
    while pending:
        joint = pending.pop()
        yield joint
        pending.extend(reversed(outgoing.get(joint.child, [])))


def _place_joint(raw: RawJoint, kind: JointKind, rotation: Array, position: Array) -> tuple[Joint, Array]:
    """Turn the joint frame so that the axis is a coordinate axis; returns the joint and that turn."""
    axis, turn = 2, np.eye(3)
    if kind in (JointKind.REVOLUTE, JointKind.COS_SIN, JointKind.PRISMATIC, JointKind.PLANAR):
        direction = np.asarray(raw.axis, dtype=float)
        check_numbers(direction, f"axis of joint {raw.name!r}")
        length = float(np.linalg.norm(direction))
        if length < 1e-9:
            raise ModelError(
                f"axis of joint {raw.name!r}", "a vector that is not zero", str(raw.axis), "Give the joint an axis."
            )
        direction = direction / length
        axis = 2 if kind is JointKind.PLANAR else int(np.argmax(np.abs(direction)))
        turn = exact_quarter_turns(rotation_between(np.eye(3)[axis], direction))
    check_numbers(np.atleast_1d(raw.armature), f"armature of joint {raw.name!r}")
    nv = kind.nv
    joint = Joint(
        name=raw.name,
        kind=kind,
        axis=axis,
        rotation=exact_quarter_turns(rotation @ turn),
        position=position,
        armature=np.full(nv, raw.armature),
        lower=np.full(nv, raw.lower),
        upper=np.full(nv, raw.upper),
        damping=np.full(nv, raw.damping),
    )
    return joint, turn
