"""Numeric kinematics of the model itself (batched NumPy): used to check, edit and convert trees.

Algorithms do not use this file; they run on `delassus.spatial`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from delassus.errors import ConfigurationError, shown
from delassus.model.check import common_batch, finite_array, is_masked, real_array
from delassus.model.inertia import move_inertia
from delassus.model.keyframe import Keyframe
from delassus.model.topology import WORLD, Placement, Topology, characteristic_length
from delassus.spatial.joint_kinds import FREE, JointKind
from delassus.spatial.joints import Joint
from delassus.spatial.numpy_ops import NUMPY, stacked, unstacked
from delassus.spatial.rotations import Array, exact_quarter_turns

HEAVY = 1e10
"""Inertia of bodies that the user moves over the largest of others, where it is not infinite: loops and contacts change
their velocity by as much less."""


def configuration_of(tree: Topology, values: Mapping[str, ArrayLike]) -> Array:
    """Configurations (..., nq) of values of joints by name, the neutral ones of others; see `Tree.configuration`."""
    if not isinstance(values, Mapping):
        raise ConfigurationError("values", "a mapping of joint names", shown(values), "Pass {'knee': 0.8}.")
    batch: tuple[int, ...] = ()
    parts: dict[str, Array] = {}
    for name, value in values.items():
        at = tree.q_index(name)
        size = at.stop - at.start
        owner, number = f"coordinates of joint {name!r}", real_array(value)
        if size == 1 and number is not None:
            value = number[..., None]
        advice = "Pass a number." if size == 1 else f"Pass {size} numbers; the last axis holds those of one state."
        parts[name] = finite_array(value, (..., size), owner, advice)
        batch = common_batch(owner, parts[name].shape[:-1], "those before", batch)
    q = np.broadcast_to(tree.neutral(), (*batch, tree.nq)).copy()
    for name, part in parts.items():
        q[..., tree.q_index(name)] = part
    return q


def spring_forces(tree: Topology, q: Array) -> Array:
    """Forces (..., nv) of the springs of joints at configurations (..., nq) that are checked."""
    out = np.zeros((*q.shape[:-1], tree.nv))
    for joint, sq, sv in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True):
        if joint.stiffness.any():
            x = joint.kind.spring_deflection(NUMPY, unstacked(q[..., sq]), joint.rest_position.tolist())
            out[..., sv] -= joint.stiffness * stacked(x, q.shape[:-1])
    return out


def check_states(tree: Topology, x: ArrayLike, argument: str, size_name: Literal["nq", "nv"]) -> Array:
    """Check configurations (..., nq) or velocities (..., nv) of a tree and return them as float64.

    Raises
    ------
    ConfigurationError
        Wrong shape or type, NaN or infinite entries.
    """
    size = tree.nq if size_name == "nq" else tree.nv
    array = real_array(x)
    if array is None:
        wanted, advice = "an array of real numbers", "Pass a NumPy array or a list of numbers."
        came = shown(x) if is_masked(x) or not hasattr(x, "dtype") else f"dtype {x.dtype}"
        raise ConfigurationError(argument, wanted, came, advice)
    if array.ndim == 0 or array.shape[-1] != size:
        base = FREE.nq if size_name == "nq" else FREE.nv
        more = array.shape[-1] - size if array.ndim else 0
        advice = "The last axis holds one state; batches are leading axes."
        if more == base and not tree.is_floating:
            advice = f"Its root is fixed: load it with root='floating' for {base} numbers more."
        elif more == -base and tree.is_floating:
            advice = f"Its root floats: load it with root='fixed' for {base} numbers less."
        raise ConfigurationError(
            argument,
            f"shape (..., {size}), {size_name} of {tree.name!r}",
            f"shape {array.shape}",
            advice,
        )
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ConfigurationError(
            argument, "finite numbers", f"{array[where]} at index {where}", "Remove NaN and infinite entries."
        )
    return array


def joint_displacement(joint: Joint, q: Array) -> tuple[Array, Array]:
    """Pose of the child frame in the joint frame at ``q`` (..., nq): rotation (..., 3, 3), position (..., 3)."""
    position, rotation = joint.kind.displacement(NUMPY, joint.motion_axes, unstacked(q))
    if joint.pitch:
        position = [joint.pitch * q[..., 0] if k == joint.axis else 0.0 for k in range(3)]
    rows, batch = np.eye(3) if rotation is None else rotation.rows(), q.shape[:-1]
    R = stacked([x for row in rows for x in row], batch).reshape(*batch, 3, 3)
    return R, stacked(position or (0.0, 0.0, 0.0), batch)


def generic_configurations(tree: Topology, rng: np.random.Generator | int, batch: tuple[int, ...] = ()) -> Array:
    """Random configurations (*batch, nq) whatever the limits of joints are: what holds at one holds at almost all.

    Files that give no limits often say that both are zero, and at zero axes and links are in line. Displacements are
    within `characteristic_length` the robot, so that units do not matter.
    """
    rng, free, length = np.random.default_rng(rng), np.array([np.inf]), characteristic_length(tree)
    parts = [joint.kind.random(rng, batch, -free, free) * joint.kind.in_units(length) for joint in tree.joints]
    return np.concatenate([np.zeros((*batch, 0)), *parts], axis=-1)


def relative_poses(tree: Topology, q: Array) -> tuple[Array, Array]:
    """Pose of each body frame in its parent's at ``q`` (..., nq): rotations (..., n, 3, 3), positions (..., n, 3)."""
    alike: dict[tuple[JointKind, int, float], list[int]] = {}
    for i, joint in enumerate(tree.joints):
        alike.setdefault((joint.kind, joint.axis, joint.pitch), []).append(i)
    R, p = np.zeros((*q.shape[:-1], tree.n_links, 3, 3)), np.zeros((*q.shape[:-1], tree.n_links, 3))
    for links in alike.values():
        coordinates = np.stack([q[..., tree.q_slices[i]] for i in links], axis=-2)
        R[..., links, :, :], p[..., links, :] = joint_displacement(tree.joints[links[0]], coordinates)
    rotations = np.array([joint.rotation for joint in tree.joints]).reshape(-1, 3, 3)
    positions = np.array([joint.position for joint in tree.joints]).reshape(-1, 3)
    return rotations @ R, positions + (rotations @ p[..., None])[..., 0]


def world_poses(tree: Topology, q: Array) -> list[tuple[Array, Array]]:
    """Pose of each body frame in the world at ``q`` (..., nq): rotation (..., 3, 3), position (..., 3)."""
    R, p = relative_poses(tree, q)
    poses: list[tuple[Array, Array]] = []
    for i, parent in enumerate(tree.parents):
        Ri, pi = R[..., i, :, :], p[..., i, :]
        if parent != WORLD:
            R0, p0 = poses[parent]
            Ri, pi = R0 @ Ri, p0 + (R0 @ pi[..., None])[..., 0]
        poses.append((Ri, pi))
    return poses


def moved_keyframe(tree: Topology, keyframe: Keyframe, other: Topology, q: Array) -> Keyframe:
    """A keyframe of a tree as one of another tree of links of it, which is in the same pose at ``q`` (nq,)."""
    v = np.zeros(other.nv)
    if keyframe.v.any():
        twists: dict[str | None, Array] = dict(zip(tree.link_names, _world_twists(tree, keyframe), strict=True))
        twists[None] = np.zeros(6)
        for i, (R, p) in enumerate(world_poses(other, q)):
            parent = other.parents[i]
            linear, angular = np.split(
                twists[other.link_names[i]] - twists[None if parent == WORLD else other.link_names[parent]], 2
            )
            own = np.concatenate([R.T @ (linear + np.cross(angular, p)), R.T @ angular])
            v[other.v_slices[i]] = own[list(other.joints[i].motion_axes)]
    return replace(keyframe, q=q, v=v)


def _world_twists(tree: Topology, keyframe: Keyframe) -> list[Array]:
    """Twist (6,) of each link about the origin of the world and along its axes, ``[linear; angular]``."""
    twists: list[Array] = []
    for i, (R, p) in enumerate(world_poses(tree, keyframe.q)):
        own = tree.joints[i].subspace @ keyframe.v[tree.v_slices[i]]
        linear, angular = R @ own[:3], R @ own[3:]
        before = np.zeros(6) if tree.parents[i] == WORLD else twists[tree.parents[i]]
        twists.append(before + np.concatenate([linear + np.cross(p, angular), angular]))
    return twists


def frame_pose(tree: Topology, frame: str, q: Array) -> tuple[Array, Array]:
    """Pose of a named frame in the world at ``q`` (..., nq): rotation (..., 3, 3), position (..., 3) in m."""
    at = tree.placement(frame)
    if at.link == WORLD:
        batch = q.shape[:-1]
        return np.broadcast_to(at.rotation, (*batch, 3, 3)), np.broadcast_to(at.position, (*batch, 3))
    R, p = world_poses(tree, q)[at.link]
    return R @ at.rotation, p + (R @ at.position[..., None])[..., 0]


def move_body_frames(tree: Topology, rotations: Array, positions: Array) -> tuple[Array, dict[str, Placement]]:
    """Inertias (n, 6, 6) and frames, where each body frame has a new pose (n, 3, 3), (n, 3) in the old one."""
    least = 1e-14 * max((float(np.max(np.abs(joint.position))) for joint in tree.joints), default=0.0)
    moved = np.any(rotations != np.eye(3), axis=(1, 2)) | np.any(positions != 0, axis=1)
    back, origin = np.swapaxes(rotations, 1, 2), -(positions[:, None] @ rotations)[:, 0]
    inertias = np.where(moved[:, None, None], move_inertia(tree.inertias, back, origin), tree.inertias)
    frames = {}
    for name, frame in tree.frames.items():
        if frame.link != WORLD and moved[frame.link]:
            R, p = rotations[frame.link], positions[frame.link]
            position = R.T @ (frame.position - p)
            position[np.abs(position) < least] = 0.0
            frame = Placement(frame.link, exact_quarter_turns(R.T @ frame.rotation), position)
        frames[name] = frame
    return inertias, frames


def usual_inertias(tree: Topology) -> Array:
    """Largest inertia (nv,) that what each degree of freedom carries could have, kg m² and kg, with its armature.

    That is where all joints that follow are stretched and slides are at zero: what inertias are small against.
    """
    mass, second = tree.inertias[:, 0, 0].copy(), 0.5 * np.trace(tree.inertias[:, 3:, 3:], axis1=1, axis2=2)
    first, out = np.sqrt(np.maximum(mass * second, 0.0)), np.zeros(tree.nv)
    for i in range(tree.n_links - 1, -1, -1):
        joint, parent = tree.joints[i], tree.parents[i]
        turning = second[i] + joint.pitch**2 * mass[i]
        of_axes = [turning if axis >= 3 else mass[i] for axis in joint.motion_axes]
        out[tree.v_slices[i]] = np.array(of_axes) + joint.armature
        if parent != WORLD:
            far = float(np.linalg.norm(joint.position))
            mass[parent] += mass[i]
            second[parent] += second[i] + 2.0 * far * first[i] + far * far * mass[i]
            first[parent] += first[i] + far * mass[i]
    return out


def heavy_links(tree: Topology) -> list[int]:
    """Links without mass on free joints as heavy as those of bodies that the user moves (`HEAVY`)."""
    least = HEAVY * (float(tree.inertias.max(initial=0.0)) or 1.0)
    return [
        i
        for i, joint in enumerate(tree.joints)
        if joint.kind is FREE and not tree.inertias[i].any() and joint.armature.min() >= least
    ]
