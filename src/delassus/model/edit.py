"""Trees from trees: mount one on another, let another link carry the free joint."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from delassus.errors import ModelError, shown
from delassus.model import joints as joint_rules
from delassus.model.check import check_rotation, check_vector
from delassus.model.inertia import move_inertia
from delassus.model.joints import Joint, JointKind
from delassus.model.kinematics import frame_pose
from delassus.model.rotations import Array, exact_quarter_turns, matrix_to_quaternion, quaternion_conjugate
from delassus.model.tree import WORLD, Placement, Tree


def attach(tree: Tree, link: str, other: Tree, position: ArrayLike, rotation: ArrayLike | None, prefix: str) -> Tree:
    """Mount ``other`` on a frame of ``tree``; see `Tree.attach`."""
    if not isinstance(other, Tree):
        raise ModelError("other", "a delassus.Tree", shown(other), "Load one with delassus.load.")
    if not isinstance(prefix, str):
        raise ModelError("prefix", "text", shown(prefix), "Pass such as 'left_'.")
    if other.is_floating:
        raise ModelError(
            f"tree {other.name!r}", "a tree whose root is fixed", "a floating one", "Load it with root='fixed'."
        )
    at = tree.placement(link)
    R = exact_quarter_turns(at.rotation @ check_rotation(rotation))
    p = at.position + at.rotation @ check_vector(position, "position")
    offset = tree.n_links

    frames = dict(tree.frames)
    for name, frame in other.frames.items():
        if name == "world" and frame.link == WORLD and not prefix:
            continue
        new = prefix + name
        if new in frames:
            raise ModelError(
                f"frame {new!r}", "a name that the tree does not have yet", "one that it has", "Give a prefix."
            )
        if frame.link == WORLD:
            frames[new] = Placement(at.link, R @ frame.rotation, p + R @ frame.position)
        else:
            frames[new] = replace(frame, link=frame.link + offset)
    twice = set(tree.joint_names) & {prefix + name for name in other.joint_names}
    if twice:
        raise ModelError(
            f"joint {min(twice)!r}", "a name that the tree does not have yet", "one that it has", "Give a prefix."
        )

    joints, parents = list(tree.joints), list(tree.parents)
    for joint, parent in zip(other.joints, other.parents, strict=True):
        named = replace(joint, name=prefix + joint.name)
        if parent == WORLD:
            named = replace(named, rotation=exact_quarter_turns(R @ joint.rotation), position=p + R @ joint.position)
        joints.append(named)
        parents.append(at.link if parent == WORLD else parent + offset)
    inertias = np.concatenate([tree.inertias, other.inertias])
    world_inertia = tree.world_inertia
    mounted = move_inertia(other.world_inertia, R, p)
    if at.link == WORLD:
        world_inertia = world_inertia + mounted
    else:
        inertias[at.link] += mounted
    names = (*tree.link_names, *(prefix + name for name in other.link_names))
    return Tree(tree.name, names, tuple(joints), tuple(parents), inertias, frames, world_inertia)


_FLIP = {axis: np.diag([1.0 if k == (axis + 1) % 3 else -1.0 for k in range(3)]) for axis in range(3)}
"""Half turn about an axis across the joint's: turns a joint around so that the same coordinate moves it backwards."""


def _resists_evenly(joint: Joint) -> bool:
    """Whether armature and damping are the same about every axis, so that they do not tell the two links apart."""
    return not (np.ptp(joint.armature) or np.ptp(joint.damping))


def _require_floating(tree: Tree, link: str) -> int:
    at = tree.placement(link)
    if not tree.is_floating or tree.parents.count(WORLD) != 1 or at.link == WORLD:
        raise ModelError(
            f"tree {tree.name!r}", "one free joint that carries everything", "something else",
            "Only a floating tree can be re-rooted: load it with root='floating'.",
        )  # fmt: skip
    if tree.joints[0].armature.any() or tree.joints[0].damping.any():
        raise ModelError(
            f"joint {tree.joints[0].name!r}", "a free joint without armature and damping", "one that has some",
            "They act on the link that the free joint carries, so another root would be another robot: set them to 0.",
        )  # fmt: skip
    return at.link


def reroot(tree: Tree, link: str) -> Tree:
    """Let the frame ``link`` ride on the free joint; see `Tree.reroot`.

    Joints between the old and the new root are turned around. The body frame of a link is where its own joint puts
    it, so each turned link gets a new body frame at the joint that now carries it.
    """
    new_root = _require_floating(tree, link)
    at = tree.placement(link)
    path = list(tree.support(new_root))
    turned_parent = {path[k]: path[k + 1] for k in range(len(path) - 1)}

    # pose of each new body frame in the old one, and each joint as it is in the new tree
    moved: dict[int, tuple[Array, Array]] = {new_root: (at.rotation, at.position)}
    joints: dict[int, Joint] = {
        new_root: replace(tree.joints[0], rotation=np.eye(3), position=np.zeros(3)),
    }
    for i in path[:-1]:
        joint = tree.joints[turned_parent[i]]
        if joint.kind in (JointKind.REVOLUTE, JointKind.COS_SIN, JointKind.PRISMATIC):
            turn = _FLIP[joint.axis]
        elif joint.kind is JointKind.TRANSLATION or (joint.kind is JointKind.BALL and _resists_evenly(joint)):
            turn = np.eye(3)
        else:
            raise ModelError(
                f"joint {joint.name!r}", "a revolute, prismatic, ball or translation joint between the two roots",
                f"a {joint.kind.value} joint" + ("" if _resists_evenly(joint) else " whose armature or damping varies"),
                "Choose a root link on the near side of that joint.",
            )  # fmt: skip
        moved[i] = (joint.rotation @ turn.T, joint.position)
        joints[i] = replace(joint, rotation=turn, position=np.zeros(3))
    for i in range(1, tree.n_links):
        joints.setdefault(i, tree.joints[i])

    order: list[int] = []
    neighbours: dict[int, list[int]] = {i: [] for i in range(tree.n_links)}
    for i, p in enumerate(tree.parents):
        if p != WORLD:
            neighbours[i].append(p)
            neighbours[p].append(i)
    new_parent = {new_root: WORLD}
    pending = [new_root]
    while pending:
        i = pending.pop()
        order.append(i)
        for j in sorted(neighbours[i], reverse=True):
            if j != new_parent[i]:
                new_parent[j] = i
                pending.append(j)

    position_of = {old: new for new, old in enumerate(order)}
    eye = (np.eye(3), np.zeros(3))
    new_joints = []
    inertias = []
    for i in order:
        p = new_parent[i]
        joint = joints[i]
        if p != WORLD:  # the joint's placement, from the parent's old body frame to its new one
            Rp, pp = moved.get(p, eye)
            joint_in_old = (joint.rotation, joint.position)
            if i in turned_parent:  # a turned joint sits at the origin of the old body frame of its new parent
                joint_in_old = (joint.rotation, np.zeros(3))
            rotation = exact_quarter_turns(Rp.T @ joint_in_old[0])
            joint = replace(joint, rotation=rotation, position=Rp.T @ (joint_in_old[1] - pp))
        new_joints.append(joint)
        Ri, pi = moved.get(i, eye)
        inertias.append(move_inertia(tree.inertias[i], Ri.T, -Ri.T @ pi) if i in moved else tree.inertias[i])
    frames = {}
    for name, frame in tree.frames.items():
        if frame.link == WORLD:
            frames[name] = frame
            continue
        Ri, pi = moved.get(frame.link, eye)
        frames[name] = Placement(position_of[frame.link], Ri.T @ frame.rotation, Ri.T @ (frame.position - pi))
    names = tuple(tree.link_names[i] for i in order)
    parents = tuple(position_of[new_parent[i]] if new_parent[i] != WORLD else WORLD for i in order)
    return Tree(tree.name, names, tuple(new_joints), parents, np.array(inertias), frames, tree.world_inertia)


def reroot_configuration(tree: Tree, link: str, q: ArrayLike) -> Array:
    """Configuration of the re-rooted tree in the same pose; see `Tree.reroot_configuration`."""
    new_root = _require_floating(tree, link)
    array = tree.check_configuration(q)
    other = reroot(tree, link)
    source = {joint.name: sq for joint, sq in zip(tree.joints, tree.q_slices, strict=True)}
    turned = {tree.joints[i].name for i in tree.support(new_root)[1:]}
    R, p = frame_pose(tree, link, array)
    parts = [np.concatenate([p, matrix_to_quaternion(R)], axis=-1)]
    for joint in other.joints[1:]:
        part = array[..., source[joint.name]]
        if joint.name in turned and joint.kind is JointKind.BALL:
            part = quaternion_conjugate(part)
        if joint.name in turned and joint.kind is JointKind.TRANSLATION:
            part = -part
        parts.append(part)
    return np.concatenate(parts, axis=-1)


def reroot_coordinates(tree: Tree, link: str, other: Tree) -> tuple[tuple[int, float], ...]:
    """Where the entries of the configuration of ``other``, the tree re-rooted at ``link``, are in that of ``tree``.

    One pair an entry: its index and ±1. The free joint of ``other`` has no counterpart: −1 and the neutral value.
    """
    source = {joint.name: sq for joint, sq in zip(tree.joints, tree.q_slices, strict=True)}
    turned = {tree.joints[i].name for i in tree.support(_require_floating(tree, link))[1:]}
    out: list[tuple[int, float]] = [(-1, float(x)) for x in joint_rules.neutral(other.joints[0])]
    for joint in other.joints[1:]:
        signs = [1.0] * joint.nq
        if joint.name in turned and joint.kind is JointKind.BALL:
            signs = [-1.0, -1.0, -1.0, 1.0]
        if joint.name in turned and joint.kind is JointKind.TRANSLATION:
            signs = [-1.0] * joint.nq
        out.extend((source[joint.name].start + k, sign) for k, sign in enumerate(signs))
    return tuple(out)
