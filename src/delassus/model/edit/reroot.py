"""The same floating robot with another link on the free joint: for poses, and to save operations.

Joints between the old and the new root are reversed. The body frame of a link is where its own joint puts it, so
each of these links gets a new body frame, at the joint that now carries it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

import numpy as np

from delassus.errors import ModelError
from delassus.model.kinematics import frame_pose, move_body_frames, moved_keyframe
from delassus.model.topology import WORLD, Topology
from delassus.spatial.joint_kinds import FREE
from delassus.spatial.joints import Joint
from delassus.spatial.rotations import Array, exact_quarter_turns, matrix_to_quaternion

T = TypeVar("T", bound=Topology)

RESISTANCE = ("armature", "damping", "friction")
"""Attributes of joints that act in the axes of one of the two links."""


def reroot(tree: T, link: str) -> T:
    """Let the frame ``link`` ride on the free joint; see `Tree.reroot`."""
    new_root, at = _require_floating(tree, link), tree.placement(link)
    R, p = np.tile(np.eye(3), (tree.n_links, 1, 1)), np.zeros((tree.n_links, 3))  # new body frames in the old ones
    R[new_root], p[new_root] = at.rotation, at.position
    carrying = {i: tree.joints[i] for i in range(1, tree.n_links)}  # joint of each link in the new tree
    carrying[new_root] = replace(tree.joints[0], rotation=np.eye(3), position=np.zeros(3))
    for i, child in pairwise(tree.support(new_root)):
        half_turn = _half_turn(tree.joints[child])
        R[i], p[i] = tree.joints[child].rotation @ half_turn.T, tree.joints[child].position
        carrying[i] = replace(tree.joints[child], rotation=half_turn, position=np.zeros(3))
        if carrying[i].nv > 1:  # whose coordinates change their sign
            carrying[i] = replace(carrying[i], rest_position=-carrying[i].rest_position)

    parent_of = {new_root: WORLD}
    order, pending = [], [new_root]
    while pending:
        i = pending.pop()
        order.append(i)
        for j in sorted({*tree.children[i], tree.parents[i]} - {parent_of[i], WORLD}, reverse=True):
            parent_of[j] = i
            pending.append(j)
    number_of = {WORLD: WORLD, **{old: new for new, old in enumerate(order)}}

    joints = []
    for i in order:
        joint, k = carrying[i], parent_of[i]
        if k != WORLD:  # from the parent's old body frame to its new one
            rotation = exact_quarter_turns(R[k].T @ joint.rotation)
            joint = replace(joint, rotation=rotation, position=R[k].T @ (joint.position - p[k]))
        joints.append(joint)
    inertias, frames = move_body_frames(tree, R, p)
    # constraints name frames, and joints of one degree of freedom, whose coordinates stay as they are
    other = replace(
        tree,
        link_names=tuple(tree.link_names[i] for i in order),
        joints=tuple(joints),
        parents=tuple(number_of[parent_of[i]] for i in order),
        inertias=inertias[order],
        frames={name: replace(frame, link=number_of[frame.link]) for name, frame in frames.items()},
        keyframes={},
    )
    keyframes = {
        name: moved_keyframe(tree, x, other, _moved_configuration(tree, link, other, x.q))
        for name, x in tree.keyframes.items()
    }
    return replace(other, keyframes=keyframes)


def reroot_configuration(tree: Topology, link: str, q: Array) -> Array:
    """Configuration of the re-rooted tree in the same pose; see `Tree.reroot_configuration`."""
    return _moved_configuration(tree, link, reroot(tree, link), q)


def _moved_configuration(tree: Topology, link: str, other: Topology, q: Array) -> Array:
    index, sign = np.array(reroot_coordinates(tree, link, other))[7:].reshape(-1, 2).T
    R, p = frame_pose(tree, link, q)
    return np.concatenate([p, matrix_to_quaternion(R), q[..., index.astype(int)] * sign], axis=-1)


def reroot_coordinates(tree: Topology, link: str, other: Topology) -> tuple[tuple[int, float], ...]:
    """Indices in the configuration of ``tree`` of the entries of that of ``other``, the tree re-rooted at ``link``.

    One pair an entry: its index and ±1. The free joint of ``other`` has no counterpart: −1 and the neutral value.
    """
    source = {joint.name: sq for joint, sq in zip(tree.joints, tree.q_slices, strict=True)}
    reversed_joints = {tree.joints[i].name for i in tree.support(_require_floating(tree, link))[1:]}
    out: list[tuple[int, float]] = [(-1, x) for x in FREE.neutral]
    for joint in other.joints[1:]:
        reverse = joint.kind.inverse_signs if joint.name in reversed_joints else None
        signs = enumerate(reverse or [1.0] * joint.nq)
        out.extend((source[joint.name].start + k, sign) for k, sign in signs)
    return tuple(out)


def _require_floating(tree: Topology, link: str) -> int:
    """Index of the link that carries the frame ``link``; refuses trees that cannot be re-rooted there."""
    at = tree.placement(link)
    if not tree.is_floating or tree.parents.count(WORLD) != 1 or at.link == WORLD:
        raise ModelError(
            f"tree {tree.name!r}", "one free joint that carries everything", "something else",
            "Only a floating tree can be re-rooted: load it with root='floating'.",
        )  # fmt: skip
    if any(getattr(tree.joints[0], attribute).any() for attribute in (*RESISTANCE, "stiffness")):
        raise ModelError(
            f"joint {tree.joints[0].name!r}", "a free joint without armature, damping, friction and spring",
            "one that has some",
            "They act on the link that the free joint carries, so another root would be another robot: set them to 0.",
        )  # fmt: skip
    return at.link


def _half_turn(joint: Joint) -> Array:
    """Rotation by 180° about an axis across the joint's own, so that the same coordinate moves it backwards."""
    even = not any(np.ptp(getattr(joint, attribute)) for attribute in RESISTANCE)  # else they tell the two links apart
    if joint.nv == 1:
        return np.diag([1.0 if k == (joint.axis + 1) % 3 else -1.0 for k in range(3)])
    if joint.kind.inverse_signs and (even or not joint.kind.has_quaternion):
        return np.eye(3)
    raise ModelError(
        f"joint {joint.name!r}", "a revolute, prismatic, ball or translation joint between the two roots",
        f"a {joint.kind.name} joint" + ("" if even else " whose armature, damping or friction varies"),
        "Choose a root link on the near side of that joint.",
    )  # fmt: skip
