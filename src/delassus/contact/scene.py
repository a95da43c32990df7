"""A scene: robots and free bodies, what they can touch, loops, gravity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from delassus.constraints import Constraint
from delassus.constraints.spring import AnySpring
from delassus.contact.filters import FLOOR, FrictionRule, check_pair_materials
from delassus.contact.kernel_contacts import check_number_of_points, contacts_of_colliders, names_of
from delassus.contact.scene_parts import (
    add,
    described,
    described_robots,
    ignored_pairs,
    is_free_body,
    keyframe_of,
    loops_and_springs,
    moved_bodies,
    numbers_of,
    set_down,
    with_material,
    with_moved_bodies,
    without,
)
from delassus.errors import ConfigurationError, ModelError, shown, unknown_name, warn
from delassus.frozen import Frozen
from delassus.model.check import check_choice, check_flag, check_list, check_vector, finite_array
from delassus.model.description import Root
from delassus.model.edit.combine import combine_trees
from delassus.model.edit.massless import Massless
from delassus.model.shapes import Collider, HalfSpace, HeightField, Shape
from delassus.model.tree import WORLD, Tree
from delassus.runtime.compile import compile as compile_kernel
from delassus.runtime.kernel import Kernel
from delassus.spatial.rotations import Array

OTHERS = "Pass start=None, the default, with other robots."


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Scene(Frozen):
    """Robots, fixed geometry, loops and gravity; immutable.

    Parameters
    ----------
    robots : Tree or mapping of str to Tree
        Mechanisms and free bodies. With a mapping, links of the robot ``"arm"`` are called ``"arm/…"``; those of a
        single tree keep their names.
    colliders : iterable of Collider
        Shapes on links and on the world.
    loops : iterable of Constraint, optional
        Bilateral constraints; by default those of the robots' files, ``()`` is none. One to the world without a second
        frame holds its velocity only; with ``Frame("world", …)`` as second one it also holds its place.
    gravity : (3,) array_like, optional
        In m/s², in place of the robots' own.
    ignore : iterable of pairs of str
        Names of links or colliders that do not collide, beside those of one link and of a link and its parent.
    parents_collide : bool
        Whether links collide with their parents too.
    friction_rule : {"geometric-mean", "max", "harmonic-mean"}
        How a and b of two colliders make that of contacts: √(a b); the larger, as in MuJoCo; 2 a b / (a + b), as Drake.
    pair_materials : mapping of (str, str) to mapping of str to float, optional
        By names of two colliders, "friction", "torsional" and "rolling" of their contacts, in place of that.
    descriptions : path, text, name, mujoco.MjModel or mujoco.MjSpec, or mapping of str to these, optional
        What robots were loaded from, by names: pictures show the shapes of these files, not colliders.
    start : (nq,) array_like, optional
        Configuration that a `Simulator` starts from; neutral by default.
    start_velocity, start_controls : (nv,) and (nu,) array_like, optional
        Velocity that it starts with, and controls of actuators in steps that are given none; zero by default.
    moved : iterable of str, optional
        Names of robots or links that are one free body each, which `Simulator.move` moves and nothing else does.
    springs : iterable of SpringDamper and Bushing, optional
        Those without a length have that of the start. There may be some among ``loops``, too.

    Attributes
    ----------
    tree : Tree
        All robots as one tree, with the scene's gravity and loops; states ``q`` (nq,) and ``v`` (nv,) are in its order.
        Bodies that are moved have no mass, and joints with an armature that nothing accelerates.
    links : (n_colliders,) array of int
        Link of each collider; −1 for the world.

    Raises
    ------
    ModelError
        No trees, or robots whose gravity differs.
    UnknownNameError
        A collider or loop on a link that there is not.
    ConfigurationError, ConstraintError
        Gravity that is not finite, loops or colliders of another type, pairs that do not name two links or colliders.

    Examples
    --------
    >>> import delassus as ds
    >>> from delassus.model.shapes import HalfSpace, Sphere
    >>> arm = ds.mechanisms.pendulum(2)
    >>> scene = Scene(arm, [Collider("rod2", Sphere(0.1), (0, 0, -0.5)), Collider("world", HalfSpace(), (0, 0, -1))])
    >>> scene.tree.nv, scene.links.tolist()
    (2, [1, -1])
    """

    robots: Mapping[str, Tree]
    tree: Tree = field(init=False)  # what follows from the others is not for `dataclasses.replace`
    colliders: tuple[Collider, ...]
    links: Array = field(init=False)
    loops: tuple[Constraint, ...]
    gravity: Array
    ignore: frozenset[frozenset[str]]
    parents_collide: bool
    friction_rule: FrictionRule
    pair_materials: Mapping[frozenset[str], Mapping[str, float]]
    descriptions: Mapping[str, Any]
    start: Array
    start_velocity: Array
    start_controls: Array
    moved: frozenset[str]
    springs: tuple[AnySpring, ...]

    def __init__(
        self,
        robots: Tree | Mapping[str, Tree],
        colliders: Iterable[Collider] = (),
        *,
        loops: Iterable[Constraint] | Constraint | None = None,
        gravity: ArrayLike | None = None,
        ignore: Iterable[Sequence[str]] = (),
        parents_collide: bool = False,
        friction_rule: FrictionRule = "geometric-mean",
        pair_materials: Mapping[Any, Mapping[str, float]] = MappingProxyType({}),
        descriptions: str | Path | Any | Mapping[str, Any] | None = None,
        start: ArrayLike | None = None,
        start_velocity: ArrayLike | None = None,
        start_controls: ArrayLike | None = None,
        moved: Iterable[str] = (),
        springs: Iterable[AnySpring] = (),
    ) -> None:
        named = {"": robots} if isinstance(robots, Tree) else robots
        if not isinstance(named, Mapping) or not named or not all(isinstance(t, Tree) for t in named.values()):
            raise ModelError("robots", "a delassus.Tree, or a mapping of names to trees", shown(robots), "Load them.")
        if not all(isinstance(name, str) for name in named):
            raise ModelError("robots", "names that are text", shown(list(named)), "Pass such as {'arm': tree}.")
        tree = named[""] if list(named) == [""] else combine_trees(named)
        shapes = check_list("colliders", colliders, "a list of Collider objects", "Put it in a list.")
        for c in shapes:
            if not isinstance(c, Collider):
                raise ConfigurationError("colliders", "Collider objects", shown(c), "Make them from shapes.")
        links = np.array([WORLD if c.link == "world" else tree.placement(c.link).link for c in shapes], dtype=np.int64)
        if gravity is None:
            several = np.unique([t.gravity for t in named.values()], axis=0)
            if len(several) > 1:
                raise ModelError("gravity", "robots of one gravity", shown(several.tolist()), "Pass the scene's.")
            gravity = tree.gravity
        g = check_vector(gravity, "gravity", "in m/s²")
        given = tree.neutral() if start is None else finite_array(start, (tree.nq,), "start", OTHERS)
        check_choice("friction_rule", friction_rule, get_args(FrictionRule), ConfigurationError)
        held, pulling = loops_and_springs(tree, loops, springs, tree.check_configuration(given, "start"))
        names_of_moved, tree = moved_bodies(moved, named, tree, (*held, *pulling))
        is_same = np.array_equal(tree.gravity, g) and held == tree.constraints
        self._set_attributes(
            robots=MappingProxyType(dict(named)),
            tree=tree if is_same else replace(tree, gravity=g, constraints=held),
            colliders=shapes,
            links=links,
            loops=held,
            gravity=g,
            ignore=ignored_pairs(ignore, {c.name for c in shapes} | set(tree.frames)),
            parents_collide=check_flag("parents_collide", parents_collide),
            friction_rule=friction_rule,
            pair_materials=check_pair_materials(pair_materials, {c.name for c in shapes}),
            descriptions=MappingProxyType(described_robots(descriptions, named)),
            start=tree.check_configuration(given, "start"),
            start_velocity=numbers_of("start_velocity", start_velocity, tree.nv, "degree of freedom"),
            start_controls=numbers_of("start_controls", start_controls, tree.nu, "actuator"),
            moved=names_of_moved,
            springs=pulling,
        )

    def __repr__(self) -> str:
        sizes = f"nq={self.tree.nq}, nv={self.tree.nv}, colliders={len(self.colliders)}, loops={len(self.loops)}"
        return f"{type(self).__name__}({list(self.robots.values())}, {sizes})"

    @classmethod
    def from_robot(
        cls, robot: str | Path | Any, *, floor: bool | HalfSpace | HeightField = False, friction: float = 0.5,
        root: Root | None = None, massless: Massless = "keep", keyframe: str | None = None,
        friction_rule: FrictionRule = "geometric-mean", configuration: str | None = None,
    ) -> Scene:  # fmt: skip
        """Scene of one robot, with the colliders of its description.

        Links that never collide are those of the SRDF file beside a URDF file (of its name, or the only one there or in
        the folder ``srdf`` beside its own), whose ``<group_state>`` become ``tree.reference_configurations``, and those
        that touch in all of these configurations or in nearly all of 100 random ones. Where no file names pairs, the
        neutral configuration is in the place of these. MJCF files say themselves which they are; `Simulator.move` moves
        their ``mocap`` bodies, which are behind the others in ``q``.

        Parameters
        ----------
        robot : path, text, name, mujoco.MjModel or mujoco.MjSpec
            What `delassus.load` takes.
        floor : bool, HalfSpace or HeightField
            Whether there is a floor at z = 0, or terrain; a robot on a free joint stands on it at the start.
        friction : float
            Of the floor, and of the colliders of a URDF file.
        root : {"floating", "fixed"}, optional
            Whether the root of a URDF file is on a free joint, or on the world. By default robots by their name are as
            `delassus.load` has them, arms on the world, and files on a free joint.
        massless : {"keep", "lock", "armature", "error"}
            As of `delassus.load`. A `Simulator` needs another one than "keep" where joints move nothing with inertia.
        keyframe, configuration : str, optional
            The one of ``tree.keyframes`` that it starts in, with its velocity and controls; ``"qpos0"`` of MJCF, else
            neutral and at rest, or nearest to it within joint limits. ``configuration`` is deprecated.
        friction_rule : {"geometric-mean", "max", "harmonic-mean"}
            As of `Scene`; ``"max"`` is the one that MJCF files mean.

        Raises
        ------
        ModelError, UnknownNameError, MissingDependencyError
            As `delassus.load` and `delassus.contact.load_colliders`; no keyframe of that name.

        Warns
        -----
        DelassusWarning
            ``floor`` where the file has one already.

        Examples
        --------
        >>> scene = Scene.from_robot("go1", floor=True, keyframe="standing")  # doctest: +SKIP
        """
        laid = friction if floor is not False else None
        fixed, colliders, ignored, pairs = described(cls, robot, friction, root, massless, friction_rule, laid)
        tree, moved = with_moved_bodies(fixed)
        at = keyframe_of(tree, keyframe, configuration)
        given: dict[str, Any] = {"ignore": ignored, "descriptions": robot, "friction_rule": friction_rule}
        given |= {"pair_materials": pairs, "moved": moved}
        given |= {"start": at.q, "start_velocity": at.v, "start_controls": at.ctrl}
        terrain = floor if isinstance(floor, HalfSpace | HeightField) else HalfSpace()
        if floor is not terrain and not check_flag("floor", floor, "Or a HalfSpace or HeightField."):
            return cls(tree, colliders, **given)
        planes = [c.name for c in colliders if c.link == "world" and isinstance(c.shape, HalfSpace)]
        if planes:
            warn(f"floor of {tree.name}: its file has one already, {planes[0]!r}. Leave floor=True out.")
        ground = Collider("world", terrain, friction=friction, name=FLOOR)
        scene = cls(tree, [*colliders, ground], **given)
        return replace(scene, start=scene.set_down(at.q)) if is_free_body(fixed) else scene

    def add(
        self, name: str, what: Shape | Collider | Tree | str | Path | Any, *, at: ArrayLike | None = None,
        mass: float | None = None, density: float | None = None, moved: bool = False, root: Root | None = None,
        friction: float = 0.5, restitution: float = 0.0, torsional: float = 0.0, rolling: float = 0.0,
    ) -> Scene:  # fmt: skip
        """The scene with a body, a robot, or a fixed shape more.

        Parameters
        ----------
        name : str
            Of the body or robot, whose links are called ``"name/…"``, and of a collider.
        what : shape, Collider, Tree, path, text, name, mujoco.MjModel or mujoco.MjSpec
            A shape with ``mass`` or ``density`` is a homogeneous solid body on a free joint, its link ``"name/body"``;
            without, it is fixed to the world. Meshes are convex, or closed surfaces. A collider
            is on a link that there is. A tree has no colliders yet; what `delassus.load` takes comes with its own, as
            in `from_robot`.
        at : (3,) or (7,) array_like, optional
            Position in m, or position and unit quaternion x y z w: where a body or robot on a free joint starts, and
            where a shape or another robot is fixed. By default where its file has it, or the world's origin.
        mass, density : float, optional
            Of a shape: one of the two, in kg or kg/m³.
        moved : bool
            Whether a shape is a body that you move: `Simulator.move` gives its poses, and nothing else moves it, as if
            its mass were infinite. It does not touch the world or others that you move.
        root : {"floating", "fixed"}, optional
            Of a URDF file, as in `from_robot`.
        friction, restitution, torsional, rolling : float
            Of a shape, as of `Collider`; and friction of a URDF file's colliders.

        Raises
        ------
        ConfigurationError, ModelError, UnknownNameError
            A name that there is; ``mass`` or ``density`` of something else than a shape, or of one that encloses no
            volume, or both; ``at`` of a collider; and as those that make trees and colliders.

        Examples
        --------
        >>> import delassus as ds
        >>> from delassus.contact import Box, HalfSpace
        >>> scene = Scene(ds.mechanisms.pendulum(2)).add("floor", HalfSpace(), at=(0, 0, -3))
        >>> scene = scene.add("crate", Box(0.3, 0.3, 0.3), mass=2.0, at=(1, 0, -2.85))
        >>> scene.start[-7:].tolist(), [c.link for c in scene.colliders]
        ([1.0, 0.0, -2.85, 0.0, 0.0, 0.0, 1.0], ['world', 'crate/body'])
        """
        material = {"friction": friction, "restitution": restitution, "torsional": torsional, "rolling": rolling}
        return add(self, name, what, at, (mass, density, check_flag("moved", moved)), root, material)

    def without(self, *names: str) -> Scene:
        """The scene without robots, links' colliders or colliders of these names, and without loops on such robots.

        Raises `UnknownNameError` where nothing has a name.
        """
        return without(self, names)

    def with_material(
        self, *names: str, friction: float | None = None, restitution: float | None = None,
        torsional: float | None = None, rolling: float | None = None,
    ) -> Scene:  # fmt: skip
        """The scene with other coefficients of all colliders, or of those of robots, links or colliders of these names.

        Parameters
        ----------
        names : str
            All colliders by default.
        friction, restitution, torsional, rolling : float, optional
            Of each collider, as of `Collider`; as they are by default. Pairs lose what they have of these themselves.

        Raises
        ------
        ConfigurationError, UnknownNameError
            A number that is negative, or restitution above 1; none of them; nothing has a name.

        Examples
        --------
        >>> from delassus.scenes import boxes
        >>> bouncing = boxes(2).scene.with_material(restitution=0.8).with_material("floor", friction=0.1)
        >>> [(c.friction, c.restitution) for c in bouncing.colliders]
        [(0.6, 0.8), (0.6, 0.8), (0.1, 0.8)]
        """
        lengths = {"torsional": torsional, "rolling": rolling}
        return with_material(self, names, {"friction": friction, "restitution": restitution} | lengths)

    def with_friction(self, friction: float, *names: str) -> Scene:
        """The scene with another coefficient of friction: ``with_material(*names, friction=friction)``, and its errors.

        Examples
        --------
        >>> from delassus.scenes import boxes
        >>> slippery = boxes(2).scene.with_friction(0.1, "floor")
        >>> [c.friction for c in slippery.colliders]
        [0.6, 0.6, 0.1]
        """
        return self.with_material(*names, friction=friction)

    def attach(self, *loops: Constraint) -> Scene:
        """The scene with springs or bilateral constraints more, such as ``Weld("hand", "crate/body")``.

        They hold what they hold at the start: `Simulator` refuses those that are open there.

        Raises
        ------
        ConstraintError, UnknownNameError
            Not a constraint, or one on a link that there is not.
        """
        return replace(self, loops=(*self.loops, *loops))

    def set_down(self, q: ArrayLike) -> Array:
        """Configuration (nq,) in which the robot, on a free joint, is moved up or down until it stands on the world.

        Raises
        ------
        ConfigurationError
            Several robots or one without a free joint; no collider of the world within a thousand times
            the size of its own below it.
        """
        return set_down(self, q)

    def constraints(
        self, *, touching: Iterable[str] | None = None, between_links: bool = True
    ) -> tuple[Constraint, ...]:
        """Loops, springs and contacts of the scene as constraints of its tree: what kernels of ``"contact_step"`` take.

        There is a `Contact` for each pair of colliders that may touch, with the materials of both: of
        convex shapes with one another, with half spaces, and with height fields of the world, whose heights
        `ground_below` finds (``ground="input"``).

        Parameters
        ----------
        touching : iterable of str, optional
            Names of links or colliders: only pairs with one of them; by default all.
        between_links : bool
            Whether pairs of two links that move take part, or only those with the world.

        Raises
        ------
        ConfigurationError
            Names a pair of other shapes: approximate one of them, ``ignore`` the pair, or name what is to touch.
        UnknownNameError
            Nothing has a name of ``touching``.
        """
        named = None if touching is None else names_of("touching", touching, self)
        contacts = contacts_of_colliders(self, named, check_flag("between_links", between_links))
        return (*self.loops, *self.springs, *contacts)

    def contact_step(
        self, *, touching: Iterable[str] | None = None, between_links: bool = True, **options: Any
    ) -> Kernel:
        """Kernel of the scene's time step: `delassus.compile` of its tree and `constraints` for ``"contact_step"``.

        Time to compile grows with the square of the number of contact points and more, and more than 128 are refused:
        name colliders that are to touch, or leave out pairs of links. Options and errors are those of both.

        Examples
        --------
        >>> import delassus as ds
        >>> from delassus.model.shapes import Sphere
        >>> ball = ds.mechanisms.free_body(1.0, 0.01 * np.eye(3), name="ball")
        >>> colliders = Collider("ball", Sphere(0.1)), Collider("world", HalfSpace(), friction=0.8)
        >>> step = Scene(ball, colliders).contact_step()  # doctest: +SKIP
        >>> q, v, impulses, residuals = step(q, v, impulses, tau, 1e-3)  # doctest: +SKIP
        """
        made = self.constraints(touching=touching, between_links=between_links)
        check_number_of_points(made)
        kernel: Kernel = compile_kernel(self.tree, made, "contact_step", **options)
        return kernel

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild from what it was made of."""
        robots = self.robots[""] if list(self.robots) == [""] else dict(self.robots)
        options: dict[str, Any] = {
            "loops": self.loops,
            "gravity": np.array(self.gravity),
            "ignore": tuple(tuple(pair) for pair in self.ignore),
            "parents_collide": self.parents_collide,
            "friction_rule": self.friction_rule,
            "pair_materials": {tuple(pair): dict(x) for pair, x in self.pair_materials.items()},
            "descriptions": dict(self.descriptions),
            "moved": self.moved,
            "springs": self.springs,
            **{name: np.array(getattr(self, name)) for name in ("start", "start_velocity", "start_controls")},
        }
        return partial(Scene, robots, self.colliders, **options), ()

    def neutral(self) -> Array:
        """Configuration (nq,) in which every robot is neutral."""
        return self.tree.neutral()

    def configuration(self, **robots: ArrayLike) -> Array:
        """Configuration (nq,) from those of robots, by their names; the others are neutral."""
        q = self.tree.neutral()
        for name, own in robots.items():
            at = self.q_slice(name)  # refuses other names
            what, tree = f"configuration of {name!r}", self.robots[name]
            q[at] = tree.check_configuration(finite_array(own, (tree.nq,), what, "That of one state."), what)
        return q

    def velocity(self, **robots: ArrayLike) -> Array:
        """Velocity (nv,) from those of robots, by their names; the others rest."""
        v = np.zeros(self.tree.nv)
        for name, own in robots.items():
            at = self.v_slice(name)
            v[at] = finite_array(own, (self.robots[name].nv,), f"velocity of {name!r}", "That of one state.")
        return v

    def q_slice(self, robot: str) -> slice:
        """Slice of ``q`` that holds the configuration of a robot."""
        return self._slice(robot, lambda tree: tree.nq)

    def v_slice(self, robot: str) -> slice:
        """Slice of ``v`` that holds the velocity of a robot."""
        return self._slice(robot, lambda tree: tree.nv)

    def _slice(self, robot: str, size: Callable[[Tree], int]) -> slice:
        if not isinstance(robot, str) or robot not in self.robots:
            if list(self.robots) == [""]:
                raise ConfigurationError(
                    "robot", "a scene whose robots have names", shown(robot), "Make it of a mapping, {'arm': tree}."
                )
            raise unknown_name("robot", robot, self.robots)
        before = list(self.robots).index(robot)
        start = sum(map(size, list(self.robots.values())[:before]))
        return slice(start, start + size(self.robots[robot]))


def check_scene(scene: object) -> None:
    """Refuse what is no scene."""
    if not isinstance(scene, Scene):
        raise ConfigurationError("scene", "a delassus.Scene", shown(scene), "Make one from robots and colliders.")
