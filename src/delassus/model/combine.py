"""Several robots as one tree: each keeps its joints, and its names with its own name before them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from delassus.model.joints import Joint
from delassus.model.tree import WORLD, Placement, Tree

SEPARATOR = "/"


def side_by_side(trees: Mapping[str, Tree], name: str = "scene") -> Tree:
    """One tree whose joints are those of ``trees``, one after the other, all of them on the world.

    Links, joints and frames of the tree ``"arm"`` are called ``"arm/…"``; an empty name adds nothing. Coordinates keep
    their meaning and follow one another in the order of ``trees``.
    """
    links: list[str] = []
    joints: list[Joint] = []
    parents: list[int] = []
    frames = {"world": Placement(WORLD, np.eye(3), np.zeros(3))}
    inertias, fixed = [np.zeros((0, 6, 6))], np.zeros((6, 6))
    for key, tree in trees.items():
        prefix, offset = key + SEPARATOR if key else "", len(joints)
        links.extend(prefix + link for link in tree.link_names)
        joints.extend(replace(joint, name=prefix + joint.name) for joint in tree.joints)
        parents.extend(p if p == WORLD else p + offset for p in tree.parents)
        for frame, at in tree.frames.items():
            moved = at if at.link == WORLD else replace(at, link=at.link + offset)
            frames.setdefault(prefix + frame, moved)
        inertias.append(tree.inertias)
        fixed = fixed + tree.world_inertia
    return Tree(name, tuple(links), tuple(joints), tuple(parents), np.concatenate(inertias), frames, fixed)
