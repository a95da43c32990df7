"""Stages of OpenUSD → `Tree`: rigid bodies, articulations and joints of UsdPhysics.

Joints that ``excludeFromArticulation``, and those whose bodies others connect already, close loops and become
constraints. A body that no joint connects with the world is free. The others start where the stage has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf, radians
from typing import Any

import numpy as np

from delassus.constraints import Constraint
from delassus.errors import ModelError, shown
from delassus.formats.features import FROM_USD, omitted
from delassus.formats.sdf.frames import STILL, Pose
from delassus.formats.usd.joints import (
    UsdJoint,
    actuators_of,
    coordinates,
    followers_of,
    in_series,
    is_at,
    joints_of,
    loop_of,
    raw_joints,
)
from delassus.formats.usd.masses import body_link
from delassus.formats.usd.prims import (
    WORLD,
    Prims,
    each,
    flag,
    has_api,
    names_of,
    number,
    numbers,
    schemas,
    text,
)
from delassus.formats.usd.stage import refusing
from delassus.model.description import FIXED, Check, RawJoint, RawLink, Root, unique_name
from delassus.model.edit.build import build_tree
from delassus.model.keyframe import Keyframe
from delassus.model.topology import GRAVITY
from delassus.model.tree import Tree
from delassus.spatial.joint_kinds import BALL, FREE, PRISMATIC, REVOLUTE
from delassus.spatial.rotations import Array, matrix_to_quaternion

NEAR = 1e-3
"""By which poses of bodies may miss what joints allow (m, and entries of rotations)."""

AT_ZERO = 1e-6
"""Coordinates at the start that are smaller are zero: poses of joints are in single precision."""

OTHER_PHYSICS = ("PhysxTendon", "PhysxPhysics", "PhysxVehicle",
                 "PhysxDeformable", "PhysxParticle", "PhysxForce", "PhysxCloth",
                 "PhysxSurfaceVelocity", "MjcActuator", "MjcTendon", "MjcKeyframe", "NewtonActuator",
                 "MjcEquality")  # fmt: skip
"""Beginnings of schemas and types of prims that change the motion, and that a tree does not hold."""

SENSORS = ("Camera", "IsaacContactSensor", "IsaacImuSensor", "OmniLidar", "OmniSensor", "Lidar", "MjcSensor")


def tree_from_usd(stage: Any, fallback_name: str, given: Root | None, check_inertia: Check, source: str) -> Tree:
    """Build the tree of a stage; see `delassus.load`.

    ``given`` None: bodies that no joint connects with the world move freely; "fixed": they stay where they are.

    Raises
    ------
    ModelError
        Attributes that are not what they should be; names the prim.
    """
    with refusing(source):
        return _tree(Prims(stage), fallback_name, given, check_inertia, source)


def _tree(prims: Prims, fallback_name: str, given: Root | None, check_inertia: Check, source: str) -> Tree:
    """Build the tree of prims."""
    if not prims.bodies:
        raise ModelError(source, "prims with PhysicsRigidBodyAPI", "none", "Check that this describes a robot.")
    links, points = dict[str, RawLink](), list[str]()
    for body in prims.bodies.values():
        links[body.name], is_point = body_link(prims, body)
        points += [body.name] if is_point else []
    joints, between = in_series(joints_of(prims))
    carrying, loops = _forest(joints, prims, between)
    raw, extra = list[RawJoint](), {name: RawLink(name) for name in between}
    poses = {WORLD: STILL, **{body.name: body.pose for body in prims.bodies.values()}}
    poses |= {name: poses[ends[1]] for name, ends in between.items()}
    raw += _roots(prims, carrying, given, {joint.name for joint, _ in carrying.values()})
    for joint, is_reversed in carrying.values():
        raw += raw_joints(joint.reversed() if is_reversed else joint, is_reversed, prims, extra)
    used = {joint.name for joint in raw}
    for prim, name in _frames(prims):
        (R, p), _ = prims.within(prim, prims.body_of(prim))
        extra[name] = RawLink(name)
        raw.append(RawJoint(unique_name(f"{name}:fixed", used), FIXED, prims.on(prim), name, p, R))
    described = [RawLink(WORLD), *links.values(), *extra.values()]
    first = prims.stage.GetDefaultPrim()
    name = (text(first, "delassus:name") or str(first.GetName())) if first else fallback_name
    tree = build_tree(name, described, raw, check_inertia=check_inertia, source=source)
    tree = _with_moved(tree, prims)
    closed = [(joint, loop_of(joint, prims)) for joint in loops]
    single = {joint.name for joint in tree.joints if joint.nv == 1}
    couplings, unled = followers_of([joint for joint, _ in carrying.values()], prims)
    actuators, controls, undriven = actuators_of([joint for joint, _ in carrying.values()], prims)
    tree = replace(
        tree, constraints=(*(x for _, x in closed if x is not None), *_within(couplings, single)),
        actuators=tuple(actuators), gravity=_gravity(prims),
        gravity_compensation={
            body.name: np.array([links[body.name].mass, *links[body.name].com])
            for body in prims.bodies.values()
            if flag(body.prim, "physxRigidBody:disableGravity", False) and tree.frames[body.name].link >= 0
        },
    )  # fmt: skip
    q, apart = _start(tree, carrying, raw, poses)
    others = {"loops": [joint.name for joint, x in closed if x is None], "mimics": unled, "apart": apart,
              "points": points, **undriven, **_foreign(prims, joints)}  # fmt: skip
    key = Keyframe(q, _velocity(tree, prims, carrying, links, between), np.array(controls))
    is_plain = np.array_equal(q, tree.neutral()) and not key.v.any() and not key.ctrl.any()
    return replace(tree, omitted=omitted(FROM_USD, tree, **others), keyframes={} if is_plain else {"qpos0": key})


def _within(couplings: Sequence[Constraint], single: set[str]) -> Iterator[Constraint]:
    """Couplings of joints that the tree has."""
    for constraint in couplings:
        if all(set(row) <= single for row, _ in constraint.couplings() or []):
            yield constraint


# -- what carries what ---------------------------------------------------------------------------------------------


Carrying = dict[str, tuple[UsdJoint, bool]]
"""The joint that carries each body, by its name, and whether that is its first body."""


def _forest(joints: Sequence[UsdJoint], prims: Prims, between: Iterable[str]) -> tuple[Carrying, list[UsdJoint]]:
    """What carries each body that a joint does, and joints that close loops: those that come too late in the stage."""
    group = {name: name for name in (WORLD, *prims.by_name, *between)}

    def whole(name: str) -> str:
        """The representative of the bodies that joints connect with one."""
        while group[name] != name:
            group[name] = name = group[group[name]]
        return name

    for body in prims.bodies.values():
        group[body.name] = WORLD if body.is_moved else group[body.name]
    at, loops = dict[str, list[UsdJoint]](), list[UsdJoint]()
    for joint in joints:
        a, b = map(whole, joint.ends)
        if joint.is_loop or joint.freedoms is None or a == b:
            loops += [joint] if joint.is_loop or joint.freedoms is None or not _are_still(joint, prims) else []
            continue
        group[b] = a
        for end in joint.ends:
            at.setdefault(end, []).append(joint)
    children = {joint.ends[1] for own in at.values() for joint in own}
    roots = [body.name for body in prims.bodies.values() if has_api(body.prim, "PhysicsArticulationRootAPI")]
    still = [WORLD, *(body.name for body in prims.bodies.values() if body.is_moved)]
    first = [name for name in prims.by_name if name not in children]
    carrying, seen, reached = dict[str, tuple[UsdJoint, bool]](), set[str](), set[str]()
    for root in (*still, *roots, *first, *prims.by_name):
        if whole(root) in reached and root not in still:
            continue
        reached.add(whole(root))
        waiting = [root]
        while waiting:
            name = waiting.pop()
            seen.add(name)
            for joint in at.get(name, ()):
                other = joint.ends[0] if joint.ends[1] == name else joint.ends[1]
                if other not in seen and carrying.get(other) is None:
                    carrying[other] = joint, joint.ends[0] == other
                    waiting.append(other)
    return {name: carrying[name] for name in _in_order(joints, carrying)}, loops


def _in_order(joints: Sequence[UsdJoint], carrying: Carrying) -> list[str]:
    """Bodies in the order of the joints that carry them in the stage."""
    place = {str(joint.prim.GetPath()): k for k, joint in enumerate(joints)}
    return sorted(carrying, key=lambda name: place[str(carrying[name][0].prim.GetPath())])


def _are_still(joint: UsdJoint, prims: Prims) -> bool:
    """Whether both ends of a joint are the world, or moved by the user."""
    return all(end == WORLD or (end in prims.by_name and prims.by_name[end].is_moved) for end in joint.ends)


def _roots(prims: Prims, carrying: Carrying, given: Root | None, used: set[str]) -> Iterator[RawJoint]:
    """Joints between the world and bodies that no joint carries."""
    free = [body for body in prims.bodies.values() if body.name not in carrying and not body.is_moved]
    for body in prims.bodies.values():
        if body.name in carrying:
            continue
        R, p = body.pose
        if body.is_moved or given == "fixed":
            yield RawJoint(unique_name(f"{body.name}:fixed", used), FIXED, WORLD, body.name, p, R)
        else:
            named = text(body.prim, "delassus:joint")
            name = named or ("root_joint" if len(free) == 1 else f"{body.name}:root_joint")
            yield RawJoint(unique_name(name, used), FREE, WORLD, body.name)


def _frames(prims: Prims) -> list[tuple[Any, str]]:
    """Prims that are frames: those that `Tree.to_usd` wrote, and sites of MuJoCo's; their names."""
    found = [x for x in prims.all if flag(x, "delassus:frame", False) or has_api(x, "MjcSiteAPI")]
    names = names_of([*found, *(body.prim for body in prims.bodies.values())])
    return [(prim, names[str(prim.GetPath())]) for prim in found if str(prim.GetPath()) not in prims.bodies]


def _with_moved(tree: Tree, prims: Prims) -> Tree:
    """The tree whose frames say which body that the user moves they are part of."""
    moved = {body.name: body.name for body in prims.bodies.values() if body.is_moved}
    moved |= {name: prims.on(prim) for prim, name in _frames(prims) if prims.on(prim) in moved}
    if not moved:
        return tree
    return replace(tree, frames={x: replace(at, moved_by=moved.get(x, "")) for x, at in tree.frames.items()})


# -- the world, and the start ----------------------------------------------------------------------------------------


def _gravity(prims: Prims) -> Array:
    """Gravity (3,) of the first scene, m/s²; that of the earth where it says none."""
    for prim in each(prims, "PhysicsScene"):
        size = number(prim, "physics:gravityMagnitude", -inf, True)
        direction = numbers(prim, "physics:gravityDirection", 3)
        along = np.array(GRAVITY) if direction is None or not direction.any() else prims.up @ direction
        if not flag(prim, "newton:gravityEnabled", True):
            return np.zeros(3)
        if size == inf:
            raise ModelError("gravityMagnitude of the scene", "a finite number", shown(size), "Correct it.")
        strength = float(np.linalg.norm(GRAVITY)) if size < 0.0 else size * prims.length
        return np.asarray(along / np.linalg.norm(along) * strength) + 0.0
    return np.array(GRAVITY)


def _start(
    tree: Tree, carrying: Carrying, raw: Sequence[RawJoint], poses: Mapping[str, Pose]
) -> tuple[Array, list[str]]:
    """Configuration where the bodies are in the stage; and joints whose bodies are not where these allow."""
    q, neutral, by_name = tree.neutral(), tree.neutral(), {joint.name: joint for joint in raw}
    apart = list[str]()
    for joint in raw:
        if joint.kind is FREE and joint.parent == WORLD and joint.child not in carrying:
            R, p = poses[joint.child]
            q[tree.q_index(joint.name)] = [*p, *matrix_to_quaternion(R)]
    for own, _ in carrying.values():
        found = coordinates(own, by_name, poses)
        if not is_at(own, found, poses, NEAR):
            apart.append(own.name)
            continue
        for name, values in found.items():
            at = tree.q_index(name)
            q[at] = np.where(np.abs(values - neutral[at]) < AT_ZERO, neutral[at], values)
    return q, apart


def _velocity(
    tree: Tree, prims: Prims, carrying: Carrying, links: Mapping[str, RawLink], between: Mapping[str, tuple[str, str]]
) -> Array:
    """Velocity (nv,) at the start: of free bodies, and along joints, from those that bodies have in the stage.

    The linear one is that of a body's centre of mass, along the axes of the prim around it; the other in degrees.
    """
    v, twists = np.zeros(tree.nv), dict[str, tuple[Array, Array]]()
    for body in prims.bodies.values():
        linear, angular = (numbers(body.prim, f"physics:{x}", 3) for x in ("velocity", "angularVelocity"))
        around = prims.matrix(body.prim.GetParent())[0]
        turn = around / np.linalg.norm(around, axis=0)
        omega = turn @ (np.zeros(3) if angular is None else np.array([radians(x) for x in angular]))
        speed = around @ (np.zeros(3) if linear is None else linear) * prims.length
        R, _ = body.pose
        twists[body.name] = (speed - np.cross(omega, R @ links[body.name].com), omega)
    if not any(x.any() for pair in twists.values() for x in pair):
        return v
    twists[WORLD] = (np.zeros(3), np.zeros(3))
    poses = {WORLD: STILL, **{body.name: body.pose for body in prims.bodies.values()}}
    for joint, link in zip(tree.joints, tree.link_names, strict=True):
        if joint.kind is FREE and link in poses and link not in carrying:
            R = poses[link][0]
            v[tree.v_index(joint.name)] = np.concatenate([R.T @ x for x in twists[link]])
    for own, _ in carrying.values():
        freedoms, (a, b) = own.freedoms or (), own.ends
        base = poses[between[a][1] if a in between else a]
        a, b = (between[x][k] if x in between else x for k, x in enumerate(own.ends))
        at = base[1] + base[0] @ own.poses[0][1]
        turn = base[0] @ own.poses[0][0]
        relative = twists[b][1] - twists[a][1]
        apart = [twists[x][0] + np.cross(twists[x][1], at - poses[x][1]) for x in (b, a)]
        if len(freedoms) == 1 and freedoms[0].kind in (REVOLUTE, PRISMATIC):
            moving = relative if freedoms[0].kind is REVOLUTE else apart[0] - apart[1]
            v[tree.v_index(own.name)] = turn[:, freedoms[0].axis] @ moving
        elif len(freedoms) == 1 and freedoms[0].kind is BALL:
            v[tree.v_index(own.name)] = poses[b][0].T @ relative
    return v


def _foreign(prims: Prims, joints: Sequence[UsdJoint]) -> dict[str, list[str]]:
    """What of a stage a tree does not hold, by the names of `FEATURES`."""
    found: dict[str, list[str]] = {"foreign": [], "sensors": [], "breaking": [], "cones": []}
    for prim in prims.all:
        names = [str(prim.GetTypeName()), *schemas(prim)]
        if any(name.startswith(OTHER_PHYSICS) for name in names):
            found["foreign"].append(str(prim.GetName()))
        elif str(prim.GetTypeName()).startswith(SENSORS):
            found["sensors"].append(str(prim.GetName()))
    for joint in joints:
        if any(number(joint.prim, f"physics:break{x}", inf, True) < 1e30 for x in ("Force", "Torque")):
            found["breaking"].append(joint.name)
        cones = [number(joint.prim, f"physics:coneAngle{k}Limit", -1.0, True) for k in "01"]
        if any(0.0 <= x < 1e30 for x in cones) and str(joint.prim.GetTypeName()) == "PhysicsSphericalJoint":
            found["cones"].append(joint.name)
    return found
