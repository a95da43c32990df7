"""A scene: robots and free bodies, what they can touch, loops, gravity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from delassus.constraints import Constraint, check_constraints
from delassus.contact.shapes import Collider
from delassus.errors import ConfigurationError, ModelError, shown, unknown_name
from delassus.model.check import check_vector
from delassus.model.combine import combine_trees
from delassus.model.rotations import Array
from delassus.model.tree import WORLD, Tree


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Scene:
    """Robots, fixed geometry, loops and gravity; immutable.

    Parameters
    ----------
    robots : Tree or mapping of str to Tree
        Mechanisms and free bodies. With a mapping, links of the robot ``"arm"`` are called ``"arm/…"``; those of a
        single tree keep their names.
    colliders : iterable of Collider
        Shapes on links and on the world.
    loops : iterable of Constraint
        Bilateral constraints: between two links, or to the world. One to the world without a second frame holds its
        velocity only; with ``Frame("world", …)`` as second one it also holds its place.
    gravity : (3,) array_like
        In m/s².
    ignore : iterable of pairs of str
        Names of links, or of colliders, that do not collide with each other, beside those of one link and of a link
        and its parent.
    parents_collide : bool
        Whether links collide with their parents too.

    Attributes
    ----------
    tree : Tree
        All robots as one tree; states ``q`` (nq,) and ``v`` (nv,) are in its order.
    links : (n_colliders,) array of int
        Link of each collider; −1 for the world.

    Raises
    ------
    ModelError
        Not trees, or no robots at all.
    UnknownNameError
        A collider or loop on a link that there is not.
    ConfigurationError, ConstraintError
        Gravity that is not three finite numbers, a loop or collider of another type, or a pair that does not name two
        links or colliders.

    Examples
    --------
    >>> import delassus as ds
    >>> from delassus.contact.shapes import HalfSpace, Sphere
    >>> arm = ds.mechanisms.pendulum(2)
    >>> scene = Scene(arm, [Collider("rod2", Sphere(0.1), (0, 0, -0.5)), Collider("world", HalfSpace(), (0, 0, -1))])
    >>> scene.tree.nv, scene.links.tolist()
    (2, [1, -1])
    """

    robots: Mapping[str, Tree]
    tree: Tree
    colliders: tuple[Collider, ...]
    links: Array
    loops: tuple[Constraint, ...]
    gravity: Array
    ignore: frozenset[frozenset[str]]
    parents_collide: bool
    _first: Mapping[str, tuple[int, int]] = field(repr=False)

    def __init__(
        self,
        robots: Tree | Mapping[str, Tree],
        colliders: Iterable[Collider] = (),
        *,
        loops: Iterable[Constraint] | Constraint = (),
        gravity: ArrayLike = (0.0, 0.0, -9.81),
        ignore: Iterable[Sequence[str]] = (),
        parents_collide: bool = False,
    ) -> None:
        named = {"": robots} if isinstance(robots, Tree) else robots
        if not isinstance(named, Mapping) or not named or not all(isinstance(t, Tree) for t in named.values()):
            raise ModelError("robots", "a delassus.Tree, or a mapping of names to trees", shown(robots), "Load them.")
        if not all(isinstance(name, str) for name in named):
            raise ModelError("robots", "names that are text", shown(list(named)), "Pass such as {'arm': tree}.")
        tree = named[""] if list(named) == [""] else combine_trees(named)
        if isinstance(colliders, Collider) or not isinstance(colliders, Iterable):
            raise ConfigurationError("colliders", "a list of Collider objects", shown(colliders), "Put it in a list.")
        shapes = tuple(colliders)
        for c in shapes:
            if not isinstance(c, Collider):
                raise ConfigurationError("colliders", "Collider objects", shown(c), "Make them from shapes.")
        links = np.array([WORLD if c.link == "world" else tree.placement(c.link).link for c in shapes], dtype=np.int64)
        g = check_vector(gravity, "gravity", "in m/s²")
        first, nq, nv = {}, 0, 0
        for name, t in named.items():
            first[name] = (nq, nv)
            nq, nv = nq + t.nq, nv + t.nv
        for array in (links, g):
            array.setflags(write=False)
        for attribute, value in (
            ("robots", MappingProxyType(dict(named))),
            ("tree", tree),
            ("colliders", shapes),
            ("links", links),
            ("loops", check_constraints(tree, loops)),
            ("gravity", g),
            ("ignore", _ignored(ignore, {c.name for c in shapes} | set(tree.frames))),
            ("parents_collide", bool(parents_collide)),
            ("_first", MappingProxyType(first)),
        ):
            object.__setattr__(self, attribute, value)

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild from what it was made of."""
        return _again, (
            dict(self.robots),
            self.colliders,
            self.loops,
            np.array(self.gravity),
            tuple(tuple(pair) for pair in self.ignore),
            self.parents_collide,
        )

    def neutral(self) -> Array:
        """Configuration (nq,) in which every robot is neutral."""
        return self.tree.neutral()

    def configuration(self, **robots: ArrayLike) -> Array:
        """Configuration (nq,) from those of robots, by their names; the others are neutral."""
        q = self.tree.neutral()
        for name, own in robots.items():
            tree, (start, _) = self._robot(name)
            q[start : start + tree.nq] = tree.check_configuration(own, f"configuration of {name!r}")
        return q

    def velocity(self, **robots: ArrayLike) -> Array:
        """Velocity (nv,) from those of robots, by their names; the others rest."""
        v = np.zeros(self.tree.nv)
        for name, own in robots.items():
            tree, (_, start) = self._robot(name)
            v[start : start + tree.nv] = tree.check_velocity(own, f"velocity of {name!r}")
        return v

    def q_slice(self, robot: str) -> slice:
        """Where the configuration of a robot is in ``q``."""
        tree, (start, _) = self._robot(robot)
        return slice(start, start + tree.nq)

    def v_slice(self, robot: str) -> slice:
        """Where the velocity of a robot is in ``v``."""
        tree, (_, start) = self._robot(robot)
        return slice(start, start + tree.nv)

    def _robot(self, name: str) -> tuple[Tree, tuple[int, int]]:
        if name not in self.robots:
            if list(self.robots) == [""]:
                raise ConfigurationError(
                    "robot", "a scene whose robots have names", shown(name), "Make it of a mapping, {'arm': tree}."
                )
            raise unknown_name("robot", name, self.robots)
        return self.robots[name], self._first[name]


def _again(
    robots: Mapping[str, Tree],
    colliders: Sequence[Collider],
    loops: Sequence[Constraint],
    gravity: Array,
    ignore: Sequence[Sequence[str]],
    parents_collide: bool,
) -> Scene:
    named: Tree | Mapping[str, Tree] = robots[""] if list(robots) == [""] else robots
    return Scene(named, colliders, loops=loops, gravity=gravity, ignore=ignore, parents_collide=parents_collide)


def _ignored(ignore: Iterable[Sequence[str]], known: set[str]) -> frozenset[frozenset[str]]:
    pairs = []
    if isinstance(ignore, str) or not isinstance(ignore, Iterable):
        raise ConfigurationError("ignore", "a list of pairs of names", shown(ignore), "Such as [('hand', 'box')].")
    for pair in ignore:
        names = () if isinstance(pair, str) or not isinstance(pair, Iterable) else tuple(pair)
        if len(names) not in (1, 2):
            raise ConfigurationError("ignore", "pairs of names", shown(pair), "Pass such as ('hand', 'box').")
        for name in names:
            if name not in known:
                raise unknown_name("name of what is not to collide", name, known)
        pairs.append(frozenset(names))
    return frozenset(pairs)
