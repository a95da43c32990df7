"""From raw links and joints to a `Tree`: merge fixed joints, order, place body frames, check every number.

Every loader ends here. A description is a list of `RawLink` and `RawJoint` in the description's own frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from delassus.errors import ModelError
from delassus.model.check import check_choice
from delassus.model.description import DIRECTED, FIXED, Check, RawJoint, RawLink, Root, check_descriptions, find_root
from delassus.model.inertia import motion_transform, move_inertia, spatial_inertia
from delassus.model.joints import Joint, JointKind
from delassus.model.kinematics import relative_poses
from delassus.model.rotations import Array, exact_quarter_turns, rotation_between
from delassus.model.tree import WORLD, Placement, Tree


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
    check_choice("root", root, ("fixed", "floating"), ModelError)
    root_link = find_root(name, links, joints)
    check_descriptions(links, joints, check_inertia)
    if root == "floating":
        root_joint_name = unique_name(root_joint_name, {joint.name for joint in joints})
        carrier = RawJoint(root_joint_name, JointKind.FREE, "", root_link)
    else:
        carrier = RawJoint(f"world_to_{root_link}", FIXED, "", root_link)
    outgoing: dict[str, list[RawJoint]] = {}
    for raw in joints:
        outgoing.setdefault(raw.parent, []).append(raw)
    if sort_children:
        for siblings in outgoing.values():
            siblings.sort(key=lambda j: j.name)
    ordered = [carrier, *joints] if keep_order else list(_depth_first(carrier, outgoing))

    moving: list[tuple[RawJoint, JointKind, int, Array, Array]] = []  # with axis, rotation and position
    parents: list[int] = []
    poses: dict[str, tuple[int, Array, Array]] = {}  # of each link of the description, in a link of the tree
    for raw, rotation in zip(ordered, _exact([raw.rotation for raw in ordered]), strict=True):
        parent, R, p = (WORLD, np.eye(3), np.zeros(3)) if raw is carrier else poses[raw.parent]
        R, p = R @ rotation, p + R @ raw.position
        if raw.kind is FIXED:
            poses[raw.child] = parent, R, p + R @ raw.child_position
        else:
            axis, alignment = _axis_and_alignment(raw.kind, *raw.axis)
            poses[raw.child] = len(moving), alignment.T, alignment.T @ raw.child_position
            moving.append((raw, raw.kind, axis, R @ alignment, p))
            parents.append(parent)
    rotations, positions = _exact([R for _, R, _ in poses.values()]), _read_only([p for *_, p in poses.values()])
    frames = {
        name: Placement(i, R, p) for (name, (i, *_)), R, p in zip(poses.items(), rotations, positions, strict=True)
    }

    placed = [frames[link.name] for link in links]
    own = spatial_inertia(
        np.array([x.mass for x in links]), np.array([x.com for x in links]), np.array([x.inertia for x in links])
    )
    moved = move_inertia(own, np.array([x.rotation for x in placed]), np.array([x.position for x in placed]))
    inertias = np.zeros((len(moving) + 1, 6, 6))  # the last one is the world's
    number = {link.name: k for k, link in enumerate(links)}
    np.add.at(inertias, [frames[raw.child].link for raw in ordered], moved[[number[raw.child] for raw in ordered]])

    frames.setdefault("world", Placement(WORLD, np.eye(3), np.zeros(3)))
    link_names = tuple(raw.child for raw, *_ in moving)
    tree = Tree(name, link_names, _joints(moving), tuple(parents), inertias[:-1], frames, inertias[-1])
    _refuse_massless(tree)
    return tree


def _joints(moving: Sequence[tuple[RawJoint, JointKind, int, Array, Array]]) -> tuple[Joint, ...]:
    """Joints of the tree; their arrays are parts of a few large ones."""
    rotations, positions = _exact([R for *_, R, _ in moving]), _read_only([p for *_, p in moving])
    numbers = _read_only(
        [
            [x for raw, kind, *_ in moving for x in _per_dof(getattr(raw, attribute), kind.nv)]
            for attribute in ("armature", "lower", "upper", "damping")
        ]
    )
    ends = accumulate((kind.nv for _, kind, *_ in moving), initial=0)
    return tuple(
        Joint(raw.name, kind, axis, R, p, *numbers[:, start:stop])
        for (raw, kind, axis, *_), R, p, (start, stop) in zip(moving, rotations, positions, pairwise(ends), strict=True)
    )


def _per_dof(value: float | Array, nv: int) -> Sequence[float] | Array:
    return value if isinstance(value, np.ndarray) else [value] * nv


def _exact(rotations: Sequence[Array]) -> Array:
    return _read_only(exact_quarter_turns(np.array(rotations).reshape(-1, 3, 3)))


def _read_only(value: Any) -> Array:
    array = np.array(value, dtype=float)
    array.setflags(write=False)
    return array


def unique_name(wanted: str, taken: set[str]) -> str:
    """``wanted``, followed by underscores while that name is taken; adds it to ``taken``."""
    while wanted in taken:
        wanted += "_"
    taken.add(wanted)
    return wanted


def _depth_first(first: RawJoint, outgoing: Mapping[str, Sequence[RawJoint]]) -> Iterator[RawJoint]:
    """Visit joints depth first; without recursion, because chains may be long."""
    pending = [first]
    while pending:
        joint = pending.pop()
        yield joint
        pending.extend(reversed(outgoing.get(joint.child, ())))


@lru_cache(maxsize=256)
def _axis_and_alignment(kind: JointKind, x: float, y: float, z: float) -> tuple[int, Array]:
    """Coordinate axis for the axis of a joint, and the rotation of the joint's frame that makes it that one."""
    if kind not in DIRECTED:
        return 2, np.eye(3)
    direction = np.array([x, y, z]) / np.linalg.norm([x, y, z])
    axis = 2 if kind is JointKind.PLANAR else int(np.argmax(np.abs(direction)))
    return axis, exact_quarter_turns(rotation_between(np.eye(3)[axis], direction))


def _refuse_massless(tree: Tree) -> None:
    """Raise if a joint moves nothing that has inertia: the mass matrix would be singular.

    Where a link has no inertia of its own, runs the articulated-body sweep at one fixed generic configuration: each
    ``D`` must be positive, compared with the rigid inertia of all that the joint carries.
    """
    if np.all(np.linalg.eigvalsh(tree.inertias)[:, 0] > 1e-12 * tree.inertias.max(axis=(1, 2), initial=0.0)):
        return  # each link is a body of its own
    X = motion_transform(*relative_poses(tree, tree.random(20240229)))
    inertias = np.stack([tree.inertias, tree.inertias], axis=1)  # articulated and rigid inertia of each subtree
    for i in tree.leaves_to_root():
        joint, parent = tree.joints[i], tree.parents[i]
        axes = list(joint.motion_axes)
        U = inertias[i, 0][:, axes]
        D = U[axes] + joint.armature * np.eye(joint.nv)
        size = max(*np.abs(inertias[i, 1, axes, axes]), *joint.armature, 1e-30)
        least = D[0, 0] if joint.nv == 1 else np.linalg.eigvalsh(D)[0]
        if least <= 1e-12 * size:
            came, means = ("a negative one", "indefinite") if least < -1e-12 * size else ("none", "singular")
            raise ModelError(
                f"joint {joint.name!r}", "a subtree with inertia about every degree of freedom",
                f"{came} behind link {tree.link_names[i]!r} (the mass matrix is {means})",
                "Give the links mass and inertia, add armature, or make the joint fixed.",
            )  # fmt: skip
        if parent != WORLD:
            inertias[i, 0] -= U @ (U.T / least if joint.nv == 1 else np.linalg.solve(D, U.T))
            inertias[parent] += X[i].T @ inertias[i] @ X[i]
