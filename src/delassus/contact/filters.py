"""Which colliders of a scene may touch at all, and the friction that two of them have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.jit.compile import compiled
from delassus.model.edit.combine import SEPARATOR
from delassus.model.shapes import Collider
from delassus.model.tree import WORLD, Tree
from delassus.spatial.joint_kinds import FREE
from delassus.spatial.rotations import Array

FrictionRule = Literal["geometric-mean", "max", "harmonic-mean"]
"""Of two colliders of coefficients a and b: √(a b); the larger one, as in MuJoCo; 2 a b / (a + b), as in Drake."""

GEOMETRIC, LARGER, HARMONIC = range(3)
"""Numbers of the rules, in their order, for compiled functions."""


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
    def moved(self) -> frozenset[str]:
        """Names of robots or links that the user moves."""

    @property
    def parents_collide(self) -> bool:
        """Whether links collide with those that carry them."""

    @property
    def friction_rule(self) -> FrictionRule:
        """How the coefficients of two colliders make that of their contacts."""


def rule_number(rule: FrictionRule) -> int:
    """Number of a rule for `friction_of`."""
    return get_args(FrictionRule).index(rule)


@compiled
def friction_of(rule: int, a: float, b: float) -> float:
    """Coefficient of the contacts of two colliders."""
    if rule == LARGER:
        return max(a, b)
    if rule == HARMONIC:
        return 2.0 * a * b / (a + b) if a + b > 0.0 else 0.0
    return math.sqrt(a * b)


@compiled
def radius_of(rule: int, a: float, b: float) -> float:
    """Torsional or rolling length (m) of the contacts of two colliders; where one has none, that of the other."""
    return friction_of(rule, a, b) if min(a, b) > 0.0 else max(a, b)


def friction_rates(rule: int, own: Array) -> Array:
    """Derivatives of the coefficients of contacts by those of their two colliders (m, 2).

    At the kink of the larger one half by each; √(a b), whose slope is infinite at zero, counts as constant there.
    """
    other = own[:, ::-1]
    if rule == LARGER:
        return 0.5 * (np.sign(own - other) + 1.0)
    whole = own if rule == GEOMETRIC else own + other
    ratio = np.divide(other, whole, out=np.zeros_like(own), where=whole > 0.0)
    return np.asarray(0.5 * np.sqrt(ratio) if rule == GEOMETRIC else 2.0 * ratio * ratio)


def radius_rates(rule: int, own: Array) -> Array:
    """Derivatives of `radius_of` by the lengths of two colliders (m, 2); a length of zero counts as constant."""
    both = (own > 0.0).all(axis=1, keepdims=True)
    return np.where(both, friction_rates(rule, own), 1.0 * (own > 0.0))


def link_of(scene: Solids, name: Any) -> str:
    """The name of a link or frame; of a robot, that of its root link."""
    if isinstance(name, str) and name in scene.robots and name not in scene.tree.frames:
        name = root_of(name, scene.robots, scene.tree)
    scene.tree.placement(name)
    return str(name)


def root_of(name: str, robots: Mapping[str, Tree], tree: Tree) -> str:
    """Name in the scene of the root link of a robot."""
    return name + SEPARATOR + robots[name].link_names[0] if name else tree.link_names[0]


def moved_links(scene: Solids) -> list[int]:
    """Links that the user moves, in the order of their names."""
    return [scene.tree.placement(link_of(scene, name)).link for name in sorted(scene.moved)]


def may_collide(scene: Solids) -> NDArray[np.bool_]:
    """Symmetric matrix (n, n) of the pairs of colliders that may touch.

    Never two on one link, nor two on the world or on bodies that the user moves. Unless ``scene.parents_collide``,
    never a link and its parent: links without mass are parts of a joint, and what carries them is the parent. Colliders
    on ``"world"`` are nobody's parent, as in MuJoCo; those on a link that is fixed to the world, such as the base of an
    arm, are parents of the links of the same robot whose joints, other than free joints, are on the world. Never those
    in ``scene.ignore``, by names of colliders, or of the links and frames that they were put on.
    """
    links, names = scene.links, [c.link for c in scene.colliders]
    led = np.isin(links, [WORLD, *moved_links(scene)])
    allowed: NDArray[np.bool_] = (links[:, None] != links[None, :]) & ~(led[:, None] & led[None, :])
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
