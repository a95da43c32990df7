"""From a `Tree` back to raw links and joints, in the frames of its description: the inverse of `build_tree`.

What the tree has merged stays so: a link that is fixed to another one is a frame of that link, without inertia.
"""

from __future__ import annotations

import numpy as np

from delassus.model.description import FIXED, RawJoint, RawLink, unique_name
from delassus.model.inertia import about_centre, move_inertia
from delassus.model.topology import WORLD, Placement, Topology
from delassus.spatial.joint_kinds import FREE
from delassus.spatial.joints import PER_DOF, Joint
from delassus.spatial.rotations import Array, rotation_between

SAME = 1e-13
"""Entries of rotations, and of positions in m, closer than this are the same."""


Carriers = dict[int, tuple[str, Placement]]
"""Name of each link, `WORLD` included, and where the frame of that name is in its body frame."""


def describe(tree: Topology, offsets: bool) -> tuple[list[RawLink], list[RawJoint], Carriers]:
    """Links, the root first; joints: those that move in the order of the tree, then those of frames; and carriers.

    Joints connect the frames of the links. Where the frame of a link cannot be the one that its joint moves, it is a
    frame of a link ``<link>:<joint>``; ``offsets`` says whether `RawJoint.child_position` may part the two.
    """
    taken, used = set(tree.frames), set(tree.joint_names)
    on_world = [name for name, at in tree.frames.items() if at.link == WORLD and _is_identity(at)]
    root = on_world[0] if on_world else unique_name("world", taken)
    origin = Placement(WORLD, np.eye(3), np.zeros(3))
    written: Carriers = {WORLD: (root, origin)}
    links = [_link(root, tree.world_inertia, origin)]
    joints: list[RawJoint] = []
    for i, (joint, parent) in enumerate(zip(tree.joints, tree.parents, strict=True)):
        name, at = tree.link_names[i], tree.frames[tree.link_names[i]]
        if not _is_moved(joint, at, offsets):
            name, at = unique_name(f"{name}:{joint.name}", taken), Placement(i, np.eye(3), np.zeros(3))
        written[i] = name, at
        links.append(_link(name, tree.inertias[i], at))
        carrier, base = written[parent]
        position, child, R = joint.position, at.rotation.T @ at.position, base.rotation.T
        if not offsets:  # which the motion leaves as they are
            position, child = position + joint.rotation @ at.position, np.zeros(3)
        place = R @ (position - base.position), R @ joint.rotation @ at.rotation
        others = {attribute: getattr(joint, attribute) for attribute in (*PER_DOF, "armature_is_straight", "pitch")}
        axis = _axis(joint, at)
        joints.append(RawJoint(joint.name, joint.kind, carrier, name, *place, axis, child_position=child, **others))
    fixed_by = {name: joint for joint, name in tree.joint_frames.items() if joint not in used}
    for name, at in tree.frames.items():
        carrier, base = written[at.link]
        if name == carrier or (name == "world" and name in on_world):
            continue
        links.append(RawLink(name))
        R = base.rotation.T
        fixed = unique_name(fixed_by.get(name, f"{name}:fixed"), used)
        joints.append(RawJoint(fixed, FIXED, carrier, name, R @ (at.position - base.position), R @ at.rotation))
    return links, joints, written


def _is_identity(at: Placement) -> bool:
    return not at.position.any() and bool(np.all(at.rotation == np.eye(3)))


def _axis(joint: Joint, at: Placement) -> Array:
    """Axis of a joint in a frame of its link; the z axis where it has none."""
    return np.array(at.rotation[joint.axis] if joint.kind.has_axis else (0.0, 0.0, 1.0))


def _is_moved(joint: Joint, at: Placement, offsets: bool) -> bool:
    """Whether a frame of a link may be the one that its joint moves, with the same coordinates."""
    if joint.nv > 1:
        alignment = rotation_between(np.array([0.0, 0.0, 1.0]), _axis(joint, at))
        if np.max(np.abs(at.rotation - alignment.T)) > SAME:
            return False
    if offsets and joint.kind is not FREE:
        return True
    turned = [np.cross(np.eye(3)[k - 3], at.position) for k in joint.motion_axes if k >= 3]
    return all(np.max(np.abs(moved)) <= SAME for moved in turned)


def _link(name: str, H: Array, at: Placement) -> RawLink:
    """Link of the inertia (6, 6) about the origin of its body frame."""
    own = move_inertia(H, at.rotation.T, -at.rotation.T @ at.position)
    if own[0, 0] == 0:
        return RawLink(name, inertia=own[3:, 3:])
    return RawLink(name, *about_centre(own))
