"""Gimbals → ball joints: hinges whose axes meet in a point, one after the other on links without mass.

Exporters of CAD programs write the ball joint at the end of a rod as three hinges. A ball joint moves the rod alike,
with no more coordinates than it has freedoms, and has no singular axis: where two axes of a gimbal line up, its mass
matrix is singular, and near there its velocities are large. Hinges at other angles than right ones do not reach all
orientations; the ball joint does.

Hinges stay where a ball joint is something else: with a range of less than a turn, damping, friction, armature or a
spring, with an actuator or a coupling, or where something refers to a link between them. Two hinges stay: they hold the
rod against turning about itself, which a ball joint does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from delassus.model.inertia import motion_transform, move_inertia
from delassus.model.kinematics import joint_displacement, move_body_frames, moved_keyframe
from delassus.model.topology import WORLD, Topology
from delassus.spatial.joint_kinds import BALL, NO_LIMIT, REVOLUTE
from delassus.spatial.joints import LIMITS, PER_DOF, Joint
from delassus.spatial.rotations import Array, exact_quarter_turns, matrix_to_quaternion

T = TypeVar("T", bound=Topology)

MEETING = 1e-9
"""Axes meet where they pass within this part of the longest distance from one joint to the next."""

PARALLEL = 1e-6
"""Sine of the angle below which two axes are parallel."""

NEGLIGIBLE = 1e-3
"""A link is without mass where its moments of inertia about the point are at most this part of the least one of what it
carries: moments of files are hardly known better. They are then of what is carried."""

FULL_TURN = 6.28
"""Ranges from here on (rad) are none: ±π, as files write it."""


@dataclass(frozen=True, slots=True, eq=False)
class Gimbal:
    """Links that hinges carry, from the first to the one that the ball joint carries, and where the axes meet in it."""

    links: tuple[int, ...]
    point: Array


def with_ball_joints(tree: T) -> T:
    """The tree with ball joints in the place of gimbals; see ``gimbals`` of `delassus.load`.

    A ball joint has the name of the last hinge, and the names of the others mean it too (`Topology.aliases`). The links
    between them, and frames on these, are no more.
    """
    gimbals = _gimbals(tree)
    reasons = {gimbal: _why_not(tree, gimbal) for gimbal in gimbals}
    omitted = {what: list(names) for what, names in tree.omitted.items()}
    for gimbal, reason in reasons.items():
        if reason:
            omitted.setdefault(f"gimbals that stay hinges: {reason}", []).append(_named(tree, gimbal.links))
    known = {link for gimbal in gimbals for link in gimbal.links}
    for gimbal in _gimbals(tree, beside=-1):
        if not known.intersection(gimbal.links):
            omitted.setdefault("gimbals that stay hinges: mass of links between them", []).append(
                _named(tree, gimbal.links)
            )
    for i, children in enumerate(tree.children):
        if i not in known and len(children) == 1 and _is_hinge(tree.joints[i]) and _is_hinge(tree.joints[children[0]]):
            if not tree.inertias[i].any():
                omitted.setdefault("pairs of hinges on a link without mass, which stay", []).append(
                    _named(tree, (i, *children))
                )
    replaced = [gimbal for gimbal, reason in reasons.items() if not reason]
    out = _replaced(tree, replaced) if replaced else tree
    return replace(out, omitted={what: tuple(names) for what, names in omitted.items()})


def _named(tree: Topology, links: tuple[int, ...]) -> str:
    return ", ".join(tree.joint_names[i] for i in links)


# -- where gimbals are ---------------------------------------------------------------------------------------------


def _is_hinge(joint: Joint) -> bool:
    return joint.kind.motion_axes == REVOLUTE.motion_axes and joint.subspace_is_axes


def _gimbals(tree: Topology, beside: int = 0) -> list[Gimbal]:
    """Longest runs of hinges that turn what they carry in every direction about one point.

    On links without mass ``beside`` the least or, −1, the largest moment of inertia of what is carried.
    """
    tolerance = MEETING * max((float(np.linalg.norm(joint.position)) for joint in tree.joints), default=0.0)
    carried = _composite_inertias(tree)
    out: list[Gimbal] = []
    taken: set[int] = set()
    for start in range(tree.n_links):
        links, point, turns = [start], None, 0
        while links[-1] not in taken and _is_hinge(tree.joints[links[-1]]) and len(tree.children[links[-1]]) == 1:
            here, child = links[-1], tree.children[links[-1]][0]
            met = _meeting_point(tree.joints[here], tree.joints[child], tolerance)
            if child in taken or met is None or not _is_negligible(tree, carried, here, met, beside):
                break
            coaxial = bool(np.isnan(met[0]))
            if not coaxial and point is not None and np.linalg.norm(met - point) > tolerance:
                break
            point = point if coaxial else met
            if point is not None:  # on the axis of the child, which leaves it where it is
                point = tree.joints[child].rotation.T @ (point - tree.joints[child].position)
            turns += not coaxial
            links.append(child)
        if turns >= 2 and point is not None:
            taken.update(links)
            out.append(Gimbal(tuple(links), point))
    return out


def _meeting_point(first: Joint, second: Joint, tolerance: float) -> Array | None:
    """Point in which the axes of a joint and of one on its link meet, in the body frame of that link.

    None where they do not; NaN where they are one line.
    """
    if not _is_hinge(second):
        return None
    axis, direction, position = np.eye(3)[first.axis], second.rotation[:, second.axis], second.position
    normal = np.cross(axis, direction)
    sine = float(np.linalg.norm(normal))
    if sine < PARALLEL:
        return np.full(3, np.nan) if np.linalg.norm(np.cross(axis, position)) <= tolerance else None
    if abs(position @ normal) > tolerance * sine:
        return None
    return np.asarray(axis * (np.cross(position, direction) @ normal) / sine**2)


def _composite_inertias(tree: Topology) -> Array:
    """Inertia (n, 6, 6) of each link and all that it carries, at the neutral configuration."""
    out = np.array(tree.inertias)
    for i in tree.leaves_to_root():
        if tree.parents[i] != WORLD:
            out[tree.parents[i]] += move_inertia(out[i], tree.joints[i].rotation, tree.joints[i].position)
    return out


def _is_negligible(tree: Topology, carried: Array, link: int, point: Array, beside: int) -> bool:
    """Whether a link has next to no inertia beside what its only child carries, both about a point of it."""
    if not tree.inertias[link].any():
        return True
    at = tree.joints[tree.children[link][0]].position if np.isnan(point[0]) else point
    own, others = (_moments_about(H, at) for H in (tree.inertias[link], carried[link] - tree.inertias[link]))
    return bool(own[-1] <= NEGLIGIBLE * others[beside])


def _moments_about(H: Array, point: Array) -> Array:
    """Principal moments of inertia (3,) about a point, ascending."""
    X = motion_transform(np.eye(3), -point)
    return np.asarray(np.linalg.eigvalsh((X.T @ H @ X)[3:, 3:]))


def _why_not(tree: Topology, gimbal: Gimbal) -> str:
    """Properties of a gimbal that a ball joint does not have; empty if there are none."""
    joints = [tree.joints[i] for i in gimbal.links]
    names = {joint.name for joint in joints}
    lost = {name for name, at in tree.frames.items() if at.link in gimbal.links[:-1]}
    lost |= {joint for joint, name in tree.joint_frames.items() if name in lost and joint not in tree.frames}
    if any(_is_limited(joint) for joint in joints):
        return "limits"
    if any(getattr(joint, x).any() for joint in joints for x in ("damping", "friction", "armature", "stiffness")):
        return "damping, friction, armature or springs"
    if any(names.intersection(actuator.transmission) for actuator in tree.actuators):
        return "actuators"
    if any(names.intersection(constraint.joints) for constraint in tree.constraints):
        return "couplings and mimic joints"
    if names.intersection(name for sensor in tree.sensors for name in sensor.names):
        return "sensors"
    used = {frame.link for constraint in tree.constraints for frame in constraint.frames} | {*tree.gravity_compensation}
    used |= {name for sensor in tree.sensors for name in sensor.names}
    return "something refers to links between them" if used & lost else ""


def _is_limited(joint: Joint) -> bool:
    """Whether a hinge turns less than about, or not at all."""
    lower, upper = float(joint.lower[0]), float(joint.upper[0])
    bounded = abs(lower) < NO_LIMIT, abs(upper) < NO_LIMIT
    return any(bounded) and (not all(bounded) or upper < lower + FULL_TURN)


# -- the tree without them -----------------------------------------------------------------------------------------


def _replaced(tree: T, gimbals: list[Gimbal]) -> T:
    """The tree with a ball joint in the place of each of the gimbals."""
    n = tree.n_links
    joints, parents, inertias = list(tree.joints), list(tree.parents), np.array(tree.inertias)
    moved = np.zeros((n, 3))  # origins of body frames: that of what a ball joint carries is in its centre
    dropped: set[int] = set()
    for gimbal in gimbals:
        first, last = gimbal.links[0], gimbal.links[-1]
        R, p = _neutral_pose(tree, gimbal.links)
        moved[last] = gimbal.point
        joints[last] = _ball_joint([tree.joints[i] for i in gimbal.links], R, p + R @ gimbal.point)
        parents[last] = tree.parents[first]
        dropped.update(gimbal.links[:-1])
        for k, i in enumerate(gimbal.links[:-1], start=1):  # what little inertia there is
            R, p = _neutral_pose(tree, gimbal.links[k:])
            inertias[last] += move_inertia(tree.inertias[i], R.T, -R.T @ p)
    still = np.tile(np.eye(3), (n, 1, 1))
    inertias, frames = move_body_frames(replace(tree, inertias=inertias), still, moved)
    for i, parent in enumerate(parents):
        if parent != WORLD and moved[parent].any():
            joints[i] = replace(joints[i], position=joints[i].position - moved[parent])
    kept = [i for i in range(n) if i not in dropped]
    number = {WORLD: WORLD} | {link: k for k, link in enumerate(kept)}
    frames = {name: replace(at, link=number[at.link]) for name, at in frames.items() if at.link in number}
    aliases = {tree.joint_names[i]: tree.joint_names[g.links[-1]] for g in gimbals for i in g.links[:-1]}
    other = replace(
        tree, link_names=tuple(tree.link_names[i] for i in kept), joints=tuple(joints[i] for i in kept),
        parents=tuple(number[parents[i]] for i in kept), inertias=inertias[kept], frames=frames,
        joint_frames={joint: name for joint, name in tree.joint_frames.items() if name in frames},
        aliases={**tree.aliases, **aliases}, keyframes={},
    )  # fmt: skip
    keyframes = {
        name: moved_keyframe(tree, x, other, _configuration(tree, gimbals, kept, x.q))
        for name, x in tree.keyframes.items()
    }
    return replace(other, keyframes=keyframes)


def _neutral_pose(tree: Topology, links: tuple[int, ...]) -> tuple[Array, Array]:
    """Pose of the last body frame, at zero angles, in the body frame that the first of the joints is on."""
    R, p = np.eye(3), np.zeros(3)
    for i in links:
        p, R = p + R @ tree.joints[i].position, R @ tree.joints[i].rotation
    return R, p


def _ball_joint(hinges: list[Joint], rotation: Array, position: Array) -> Joint:
    """Ball joint with the name of the last hinge, and the least of their limits of effort and speed."""
    numbers = {name: np.full(3, np.inf if name in LIMITS else 0.0) for name in PER_DOF}
    numbers["lower"] = np.full(3, -np.inf)
    for name in ("effort_limit", "velocity_limit"):
        numbers[name] = np.full(3, min(float(getattr(hinge, name)[0]) for hinge in hinges))
    return Joint(hinges[-1].name, BALL, 2, exact_quarter_turns(rotation), position, *numbers.values())


def _configuration(tree: Topology, gimbals: list[Gimbal], kept: list[int], q: Array) -> Array:
    """Configuration (..., nq) of the tree with ball joints in the pose of that with hinges at ``q``."""
    parts = {i: q[..., tree.q_slices[i]] for i in kept}
    for gimbal in gimbals:
        R, _ = _neutral_pose(tree, gimbal.links)
        turned = R.T
        for i in gimbal.links:
            turn, _ = joint_displacement(tree.joints[i], q[..., tree.q_slices[i]])
            turned = turned @ tree.joints[i].rotation @ turn
        parts[gimbal.links[-1]] = matrix_to_quaternion(turned)
    return np.concatenate([parts[i] for i in kept], axis=-1)
