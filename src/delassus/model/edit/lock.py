"""A tree without some of its joints, which stay where they are: links that they carried are parts of others then."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from delassus.errors import ConfigurationError
from delassus.model.actuators import Actuator
from delassus.model.edit.combine import ON_THE_WORLD
from delassus.model.inertia import move_inertia
from delassus.model.kinematics import relative_poses
from delassus.model.topology import WORLD, Placement, Topology
from delassus.spatial.joints import Joint
from delassus.spatial.numpy_ops import NUMPY
from delassus.spatial.rotations import Array, exact_quarter_turns

T = TypeVar("T", bound=Topology)

LEFT_OUT = "constraints, actuators and sensors of locked joints"


def lock(tree: T, locked: Collection[int], q: Array) -> T:
    """The tree without the joints that carry some links, where they are at the configuration ``q`` (nq,).

    What is left of its constraints, actuators, sensors and keyframes stays; `LEFT_OUT` in ``omitted`` names the rest.
    """
    if q.ndim > 1:
        raise ConfigurationError("values", "numbers of one state", f"a batch {q.shape[:-1]}", "Lock at one place.")
    rotations, positions = relative_poses(tree, q)
    places: list[Placement] = []  # of each link: the one that it is part of now, and its pose there
    joints, parents, kept = list[Joint](), list[int](), list[int]()
    inertias, world_inertia = list[Array](), np.array(tree.world_inertia)
    for i, joint in enumerate(tree.joints):
        on = ON_THE_WORLD if tree.parents[i] == WORLD else places[tree.parents[i]]
        if i not in locked:
            places.append(Placement(len(kept), np.eye(3), np.zeros(3)))
            at = _placed(on, joint.rotation, joint.position)
            joints.append(replace(joint, rotation=at.rotation, position=at.position))
            parents.append(on.link)
            inertias.append(np.array(tree.inertias[i]))
            kept.append(i)
            continue
        at = _placed(on, rotations[i], positions[i])
        places.append(at)
        moved = move_inertia(tree.inertias[i], at.rotation, at.position)
        if at.link == WORLD:
            world_inertia += moved
        else:
            inertias[at.link] += moved

    frames = {}
    for name, own in tree.frames.items():
        at = _placed(ON_THE_WORLD if own.link == WORLD else places[own.link], own.rotation, own.position)
        frames[name] = replace(own, link=at.link, rotation=at.rotation, position=at.position)
    values = {tree.joint_names[i]: _positions(tree.joints[i], q[tree.q_slices[i]]) for i in locked}
    out = replace(
        tree, link_names=tuple(tree.link_names[i] for i in kept), joints=tuple(joints), parents=tuple(parents),
        inertias=np.array(inertias).reshape(-1, 6, 6), frames=frames, world_inertia=world_inertia, keyframes={},
        aliases={old: new for old, new in tree.aliases.items() if new not in values}, constraints=(), actuators=(),
        sensors=(),
    )  # fmt: skip
    constraints = [constraint.without(tree, out, values) for constraint in tree.constraints]
    actuators = [_without(actuator, values) for actuator in tree.actuators]
    acting = [k for k, actuator in enumerate(actuators) if actuator is not None]
    sensors = _sensors(tree, locked, actuators)
    gone = [repr(c) for c, left in zip(tree.constraints, constraints, strict=True) if left is None]
    gone += sorted({a.name for k, a in enumerate(tree.actuators) if k not in acting})
    gone += [s.name for s in tree.sensors if s not in sensors]
    of_q, of_v = ([k for i in kept for k in range(x[i].start, x[i].stop)] for x in (tree.q_slices, tree.v_slices))
    keyframes = {n: replace(x, q=x.q[of_q], v=x.v[of_v], ctrl=x.ctrl[acting]) for n, x in tree.keyframes.items()}
    left_out = (*tree.omitted.get(LEFT_OUT, ()), *gone)
    return replace(
        out, constraints=tuple(c for c in constraints if c is not None), sensors=tuple(sensors), keyframes=keyframes,
        actuators=tuple(a for a in actuators if a is not None),
        omitted={**tree.omitted, **({LEFT_OUT: left_out} if left_out else {})},
    )  # fmt: skip


def _placed(on: Placement, rotation: Array, position: Array) -> Placement:
    """A place on what is itself placed on a link."""
    return Placement(on.link, exact_quarter_turns(on.rotation @ rotation), on.position + on.rotation @ position)


def _positions(joint: Joint, q: Array) -> Array:
    """Positions (nv,) of a joint at its coordinates: rad and m from its neutral ones."""
    return np.array(joint.kind.difference(NUMPY, joint.kind.neutral, q.tolist()), dtype=float)


def _without(actuator: Actuator, values: Mapping[str, Array]) -> Actuator | None:
    """The actuator without joints that are locked, whose part of its length is a number now; None if none is left."""
    left = {joint: ratio for joint, ratio in actuator.transmission.items() if joint not in values}
    length = sum(x * float(values[joint][0]) for joint, x in actuator.transmission.items() if joint in values)
    gain, bias = ((c0 + c1 * length, c1, c2) for c0, c1, c2 in (actuator.gain, actuator.bias))
    return replace(actuator, transmission=left, gain=gain, bias=bias) if left else None


def _sensors(tree: Topology, locked: Collection[int], actuators: Collection[Actuator | None]) -> list[Any]:
    """Sensors but those of joints, links and actuators that there are no more, and of lengths that begin elsewhere."""
    lost = {names[i] for i in locked for names in (tree.joint_names, tree.link_names)}
    lost |= {old.name for old, new in zip(tree.actuators, actuators, strict=True) if new is None}
    shifted = {a.name for a in tree.actuators if lost.intersection(a.transmission)}

    def stays(sensor: Any) -> bool:
        of = sensor.KINDS[sensor.kind][0]
        if of == "moving frame":  # what they measure goes through the joint of its link
            return all(tree.placement(name).link not in locked for name in sensor.names)
        names = lost | shifted if sensor.kind == "actuatorpos" else lost
        return of not in ("joint", "actuator", "link") or not names.intersection(sensor.names)

    return [sensor for sensor in tree.sensors if stays(sensor)]
