"""Which colliders of a scene may touch at all, and the friction that two of them have."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.jit.compile import compiled
from delassus.errors import ConfigurationError, shown, unknown_name
from delassus.formats.mujoco.colliders import GeomSurface
from delassus.model.check import check_list, check_number
from delassus.model.edit.combine import SEPARATOR
from delassus.model.shapes import Collider, HalfSpace
from delassus.model.tree import WORLD, Tree
from delassus.spatial.joint_kinds import FREE
from delassus.spatial.rotations import Array

FrictionRule = Literal["geometric-mean", "max", "harmonic-mean"]
"""Of two colliders of coefficients a and b: √(a b); the larger one, as in MuJoCo; 2 a b / (a + b), as in Drake."""

PAIR_MATERIAL = ("friction", "torsional", "rolling")
"""What a pair of colliders may have of its own."""

Materials = dict[tuple[str, str], dict[str, float]]
"""Of pairs of colliders, by their names."""

FLOOR = "floor"
"""Name of the floor that a scene of one robot may have."""

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

    @property
    def pair_materials(self) -> Mapping[frozenset[str], Mapping[str, float]]:
        """What contacts of two colliders have in place of that, by their names."""


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


@compiled
def given_or(given: float, by_rule: float) -> float:
    """A number that a pair has of its own, if it is not negative."""
    return given if given >= 0.0 else by_rule


def pair_numbers(scene: Solids) -> Array:
    """Friction, torsional and rolling length of pairs (n, n, 3), −1 where those of colliders count; or (0, 0, 3)."""
    if not scene.pair_materials:
        return np.zeros((0, 0, 3))
    out, numbers = np.full((len(scene.colliders),) * 2 + (3,), -1.0), dict[str, list[int]]()
    for k, c in enumerate(scene.colliders):
        numbers.setdefault(c.name, []).append(k)
    for pair, material in scene.pair_materials.items():
        first, *others = (numbers[name] for name in pair)
        second = others[0] if others else first
        for place, name in enumerate(PAIR_MATERIAL):
            if name in material:
                out[np.ix_(first, second, [place])] = out[np.ix_(second, first, [place])] = material[name]
    return out


def has_lengths(scene: Solids) -> bool:
    """Whether contacts of a scene may have torsional or rolling friction."""
    own = any(c.torsional or c.rolling for c in scene.colliders)
    return own or any(x.get("torsional") or x.get("rolling") for x in scene.pair_materials.values())


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


def materials_of_pairs(
    rule: FrictionRule, surfaces: tuple[dict[str, GeomSurface], Materials], colliders: Sequence[Collider],
    ignored: Iterable[tuple[str, str]], floor: float | None,
) -> Materials:  # fmt: skip
    """What pairs of geoms have by their ``condim``, ``priority`` and ``<pair>``, where it is not what the rule makes.

    With a ``floor`` of that friction also those with it.
    """
    geoms, paired = surfaces
    own, number, apart = {c.name: c for c in colliders}, rule_number(rule), {frozenset(pair) for pair in ignored}
    out = {pair: x for pair, x in paired.items() if set(pair) <= set(own)}
    known = [name for name in own if name in geoms]
    pairs = [(a, b) for k, a in enumerate(known) for b in known[k + 1 :]]
    given = {frozenset(pair) for pair in out}
    if floor is not None:
        geoms = {**geoms, FLOOR: GeomSurface(floor, 0.0, 0.0, 3, 0)}
        own[FLOOR] = Collider("world", HalfSpace(), friction=floor, name=FLOOR)
        pairs += [(a, FLOOR) for a in known if own[a].link != "world"]
    for a, b in pairs:
        if frozenset((a, b)) in apart | given or own[a].link == own[b].link:
            continue
        x, y = geoms[a], geoms[b]
        if x.priority != y.priority:
            wanted = (x if x.priority > y.priority else y).alone
        elif x.condim == y.condim > 1:  # colliders have what it has
            continue
        else:
            wanted = GeomSurface(*by_rule(number, x, y), max(x.condim, y.condim), x.priority).alone
        usual = by_rule(number, own[a], own[b])
        different = {name: u for name, u, v in zip(PAIR_MATERIAL, wanted, usual, strict=True) if u != v}
        if different:
            out[a, b] = different
    return out


def by_rule(rule: int, a: Collider | GeomSurface, b: Collider | GeomSurface) -> tuple[float, float, float]:
    """Friction, torsional and rolling length that a rule makes of two colliders."""
    lengths = radius_of(rule, a.torsional, b.torsional), radius_of(rule, a.rolling, b.rolling)
    return float(friction_of(rule, a.friction, b.friction)), float(lengths[0]), float(lengths[1])


def check_pair_materials(given: Any, known: set[str]) -> Mapping[frozenset[str], Mapping[str, float]]:
    """Materials of pairs of colliders by their names, checked."""
    if not isinstance(given, Mapping):
        wanted = "a mapping of pairs of names to materials"
        raise ConfigurationError("pair_materials", wanted, shown(given), "Such as {('a', 'b'): {'friction': 0.3}}.")
    out = dict[frozenset[str], Mapping[str, float]]()
    for pair, material in given.items():
        names = check_list("pair_materials", pair, "pairs of names", "Pass such as ('hand', 'box').")
        if len(names) not in (1, 2) or not isinstance(material, Mapping) or not {*material} <= {*PAIR_MATERIAL}:
            wanted, came = f"pairs of names with any of {PAIR_MATERIAL}", f"{shown(pair)}: {shown(material)}"
            raise ConfigurationError("pair_materials", wanted, came, "Name two colliders.")
        for name in names:
            if not isinstance(name, str) or name not in known:
                raise unknown_name("collider of a pair that has a material", name, known)
        out[frozenset(names)] = MappingProxyType(
            {key: check_number(f"{key} of a pair", x, "0 is none.", above=False) for key, x in material.items()}
        )
    return MappingProxyType(out)


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
