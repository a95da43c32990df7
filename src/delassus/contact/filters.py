"""Which colliders of a scene may touch at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from delassus.model.edit.combine import SEPARATOR
from delassus.model.shapes import Collider
from delassus.model.tree import WORLD, Tree
from delassus.spatial.joint_kinds import FREE
from delassus.spatial.rotations import Array


@runtime_checkable
class Solids(Protocol):
    """The part of a `delassus.Scene` that collision filters depend on."""

    @property
    def robots(self) -> Mapping[str, Tree]:
        """Robots by name."""

    @property
    def tree(self) -> Tree:
        """Tree of all robots."""

    @property
    def colliders(self) -> tuple[Collider, ...]:
        """Colliders in the order of their numbers."""

    @property
    def links(self) -> Array:
        """Link of each collider; `WORLD` for the world."""

    @property
    def ignore(self) -> frozenset[frozenset[str]]:
        """Pairs of names that never collide."""

    @property
    def parents_collide(self) -> bool:
        """Whether links collide with those that carry them."""


def may_collide(scene: Solids) -> NDArray[np.bool_]:
    """Symmetric matrix (n, n) of the pairs of colliders that may touch.

    Never two on one link, nor two on the world. Unless ``scene.parents_collide``, never a link and its parent: links
    without mass are parts of a joint, and what carries them is the parent. Colliders on ``"world"`` are nobody's
    parent, as in MuJoCo; those on a link that is fixed to the world, such as the base of an arm, are parents of the
    links of the same robot whose joints, other than free joints, are on the world. Never those in ``scene.ignore``, by
    names of colliders, or of the links and frames that they were put on.
    """
    links, names = scene.links, [c.link for c in scene.colliders]
    allowed = np.asarray(links[:, None] != links[None, :])
    if not scene.parents_collide:
        carriers = _carriers(scene)
        robots = np.array(
            [max((r for r in scene.robots if c.startswith(r + SEPARATOR)), key=len, default="") for c in names]
        )
        bases = np.array([name != "world" for name in names], dtype=bool) & (links == WORLD)
        for i in np.flatnonzero(links != WORLD):
            carrier, root = carriers[links[i]], scene.tree.support(int(links[i]))[0]
            if carrier != WORLD:
                apart = links == carrier
            elif scene.tree.joints[root].kind is not FREE:
                apart = bases & (robots == robots[i])
            else:
                continue
            allowed[i, apart] = allowed[apart, i] = False
    named: dict[str, list[int]] = {}
    for number, collider in enumerate(scene.colliders):
        for name in {collider.name, collider.link}:
            named.setdefault(name, []).append(number)
    for pair in scene.ignore:
        first, second = (named.get(name, []) for name in (tuple(pair) * 2)[:2])
        allowed[np.ix_(first, second)] = allowed[np.ix_(second, first)] = False
    return allowed


def _carriers(scene: Solids) -> list[int]:
    """Nearest link with mass below each link, or the world."""
    carriers: list[int] = []
    for parent in scene.tree.parents:
        while parent != WORLD and not scene.tree.inertias[parent].any():
            parent = scene.tree.parents[parent]
        carriers.append(parent)
    return carriers
