"""Several trees as one: mounted on a frame, or side by side on the world; and parts of a tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from delassus.errors import ModelError
from delassus.model.inertia import move_inertia
from delassus.model.keyframe import Keyframe
from delassus.model.topology import WORLD, Placement, Topology
from delassus.spatial.joints import Joint
from delassus.spatial.rotations import exact_quarter_turns

T = TypeVar("T", bound=Topology)

SEPARATOR = "/"
"""Between the name of a robot and those of its links, joints and frames."""

ON_THE_WORLD = Placement(WORLD, np.eye(3), np.zeros(3))


def combine_trees(trees: Mapping[str, T]) -> T:
    """One tree whose joints are those of ``trees``, one after the other, all of them on the world.

    Links, joints and frames of the tree ``"arm"`` are called ``"arm/…"``; an empty name adds nothing. Coordinates keep
    their meaning and follow one another in the order of ``trees``. Gravity is that of the first.
    """
    return mount("scene", [(key + SEPARATOR if key else "", tree, ON_THE_WORLD) for key, tree in trees.items()])


def part_of(tree: T, links: Sequence[int], named: bool = True) -> T:
    """Tree of some of the links, all on the world but for those whose parents are among them; without constraints.

    Where it is not ``named``, frames are left out, and links and joints are called by their numbers, so that parts that
    differ in nothing else are equal.
    """
    number = {WORLD: WORLD} | {link: k for k, link in enumerate(links)}
    names = [tree.link_names[i] if named else f"link{k}" for k, i in enumerate(links)]
    frames = {name: replace(at, link=number[at.link]) for name, at in tree.frames.items() if at.link in number}
    loads = {name: x for name, x in tree.gravity_compensation.items() if name in frames}
    if not named:
        frames = {name: at for name, at in frames.items() if name in loads}
    joint_frames = {joint: name for joint, name in tree.joint_frames.items() if named and name in frames}
    carrying = {tree.joint_names[i] for i in links if named}
    aliases = {old: new for old, new in tree.aliases.items() if new in carrying}
    return replace(
        tree, link_names=tuple(names), parents=tuple(number[tree.parents[i]] for i in links),
        joints=tuple(
            tree.joints[i] if named else replace(tree.joints[i], name=f"joint{k}") for k, i in enumerate(links)
        ),
        inertias=tree.inertias[list(links)], frames=frames, gravity_compensation=loads, world_inertia=np.zeros((6, 6)),
        keyframes={}, actuators=(), constraints=(), sensors=(), omitted={}, joint_frames=joint_frames,
        aliases=aliases,
    )  # fmt: skip


def mount(name: str, parts: Sequence[tuple[str, T, Placement]]) -> T:
    """One tree of the links of several: each with a prefix for its names, and where its world is in the new tree.

    Raises
    ------
    ModelError
        Two frames or two joints of the same name; a constraint to the world of a tree that is mounted without a prefix.
    """
    joints: list[Joint] = []
    parents: list[int] = []
    frames: dict[str, Placement] = {}
    inertias = np.concatenate([tree.inertias for _, tree, _ in parts])
    world_inertia = np.zeros((6, 6))
    for prefix, tree, at in parts:
        offset = len(joints)
        for joint, parent in zip(tree.joints, tree.parents, strict=True):
            named = replace(joint, name=prefix + joint.name)
            if parent == WORLD:
                rotation = exact_quarter_turns(at.rotation @ joint.rotation)
                named = replace(named, rotation=rotation, position=at.position + at.rotation @ joint.position)
            joints.append(named)
            parents.append(at.link if parent == WORLD else parent + offset)
        mounted = _frames(prefix, tree, at, offset)
        if twice := frames.keys() & mounted:
            raise _twice("frame", next(name for name in mounted if name in twice))
        frames |= mounted
        moved = move_inertia(tree.world_inertia, at.rotation, at.position)
        if at.link == WORLD:
            world_inertia = world_inertia + moved
        else:
            inertias[at.link] += moved
    frames.setdefault("world", ON_THE_WORLD)
    name_of_two = next((n for n, count in Counter(joint.name for joint in joints).items() if count > 1), None)
    if name_of_two is not None:
        raise _twice("joint", name_of_two)
    actuators = tuple(a.prefixed(prefix) for prefix, tree, _ in parts for a in tree.actuators)
    constraints = _constraints(parts)
    at_joints = [(prefix + joint, prefix + at) for prefix, tree, _ in parts for joint, at in tree.joint_frames.items()]
    used = {frame.link for constraint in constraints for frame in constraint.frames} - frames.keys()
    several = {joint for joint, count in Counter(joint for joint, _ in at_joints).items() if count > 1}
    if used & several:
        raise _twice("frame", min(used & several))
    compensated = {prefix + link: x for prefix, tree, _ in parts for link, x in tree.gravity_compensation.items()}
    omitted: dict[str, tuple[str, ...]] = {}
    for prefix, tree, _ in parts:
        for what, left in tree.omitted.items():
            omitted[what] = (*omitted.get(what, ()), *(prefix + name for name in left))
    keys = {prefix + key for prefix, tree, _ in parts for key in tree.keyframes}
    names = tuple(prefix + link for prefix, tree, _ in parts for link in tree.link_names)
    return replace(
        parts[0][1], name=name, link_names=names, joints=tuple(joints), parents=tuple(parents), inertias=inertias,
        frames=frames, world_inertia=world_inertia, gravity_compensation=compensated,
        keyframes={key: _keyframe(parts, key) for key in sorted(keys)},
        actuators=actuators, constraints=constraints, omitted=omitted,
        sensors=tuple(s.prefixed(prefix) for prefix, tree, _ in parts for s in tree.sensors),
        joint_frames={joint: at for joint, at in at_joints if joint not in frames and joint not in several},
        aliases={prefix + old: prefix + new for prefix, tree, _ in parts for old, new in tree.aliases.items()},
    )  # fmt: skip


def _frames(prefix: str, tree: Topology, at: Placement, offset: int) -> dict[str, Placement]:
    """Frames of a tree whose world is ``at`` a place, and whose links are numbered from ``offset`` on."""
    frames = {}
    for name, placed in tree.frames.items():
        if placed.link != WORLD:
            frames[prefix + name] = replace(placed, link=placed.link + offset)
        elif prefix or name != "world":
            R, p = at.rotation @ placed.rotation, at.position + at.rotation @ placed.position
            by = prefix + placed.moved_by if placed.moved_by and at.link == WORLD else ""
            frames[prefix + name] = Placement(at.link, R, p, by)
    return frames


def _constraints(parts: Sequence[tuple[str, T, Placement]]) -> tuple[Any, ...]:
    """Constraints of all trees."""
    for prefix, tree, at in parts:
        for constraint in tree.constraints:
            if not prefix and at is not ON_THE_WORLD and "world" in [frame.link for frame in constraint.frames]:
                raise ModelError(
                    repr(constraint), "a prefix, so that the world of its tree has a name in the other one", "none",
                    "Give a prefix.",
                )  # fmt: skip
    return tuple(c.prefixed(prefix) for prefix, tree, _ in parts for c in tree.constraints)


def _keyframe(parts: Sequence[tuple[str, T, Placement]], name: str) -> Keyframe:
    """Keyframe of the whole: parts that have none of that name are neutral, at rest and without control."""
    found = []
    for prefix, tree, _ in parts:
        own = tree.keyframes.get(name.removeprefix(prefix)) if name.startswith(prefix) else None
        found.append(Keyframe(tree.neutral()).fitted(tree.nv, tree.nu) if own is None else own)
    return Keyframe(*(np.concatenate([getattr(x, key) for x in found]) for key in ("q", "v", "ctrl", "act")))


def _twice(kind: str, name: str) -> ModelError:
    return ModelError(f"{kind} {name!r}", "a name that the tree does not have yet", "one that it has", "Give a prefix.")
