"""Parts of scenes: robots by their names with colliders, what is added and taken away, and where a robot stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from delassus.constraints import Constraint, check_constraints
from delassus.constraints.spring import AnySpring, springs_among
from delassus.contact.collision.detector import CollisionDetector
from delassus.contact.contacts import ContactSet
from delassus.contact.filters import FrictionRule, Solids, link_of, materials_of_pairs, root_of
from delassus.errors import ConfigurationError, ConstraintError, shown, unknown_name
from delassus.formats.colliders import load_colliders, load_ignored, load_surfaces
from delassus.formats.load import load, read_description, srdf_beside
from delassus.formats.text import MAX_BYTES
from delassus.model.check import check_list, check_number, check_text, finite_array, shape_of
from delassus.model.description import Root, unique_name
from delassus.model.edit.combine import ON_THE_WORLD, SEPARATOR, mount
from delassus.model.edit.massless import Massless
from delassus.model.keyframe import Keyframe
from delassus.model.kinematics import HEAVY, world_poses
from delassus.model.mechanisms import free_body
from delassus.model.shapes import Collider, Mesh, Shape, Solid
from delassus.model.topology import Placement
from delassus.model.tree import WORLD, Tree
from delassus.spatial.joint_kinds import FREE
from delassus.spatial.rotations import Array, matrix_to_quaternion, quaternion_to_matrix
from delassus.version import deprecated

SceneLike = TypeVar("SceneLike", bound=Any)
"""`delassus.contact.scene.Scene`, which is built on this."""

SAMPLES = 100
"""Random configurations in which pairs are looked at."""

ALWAYS = 0.95
"""A pair that touches in more than this part of them is ignored."""

NEAR = 10.0
"""First gap up to which a floor is looked for below a robot, over the size of its colliders."""

FAR = 1000.0
"""Last such gap, over that size."""

MOST_MOVES = 100
"""Most moves of a robot that is set down."""

TOUCHING = 1e-8
"""Gap at which it stands, over the size of its colliders."""

Described = tuple[Tree, tuple[Collider, ...], tuple[tuple[str, str], ...], dict[tuple[str, str], dict[str, float]]]
"""Tree of a robot, its colliders, pairs that never collide, and materials of pairs."""


def described(
    scene_of: Callable[..., Solids], robot: str | Path | Any, friction: float, root: Root | None,
    massless: Massless = "keep", rule: FrictionRule = "geometric-mean", floor: float | None = None,
) -> Described:  # fmt: skip
    """Tree of a robot, its colliders, and the pairs that never collide: those that files name, or that always touch.

    And what materials of pairs are by MJCF files where ``rule`` does not make it of two colliders, also with a
    collider ``"floor"`` of that friction, if it is given.

    Pairs of an SRDF file may be those of neighbours alone. A configuration that it names is meant to be free of
    collisions: what touches in all of them does so by how its shapes are made. Without pairs of a file, the neutral
    configuration is taken for one.
    """
    found = read_description(robot, MAX_BYTES) if isinstance(robot, str | Path) else None
    if found is None or found.is_mjcf:
        tree, ignored = load(robot, massless=massless), load_ignored(robot)
        colliders = load_colliders(robot, with_moved_bodies(tree)[0])
        return tree, colliders, ignored, materials_of_pairs(rule, load_surfaces(robot), colliders, ignored, floor)
    base = None if not found.is_urdf else (found.base or "floating") if root is None else root
    tree = load(robot, root=base, massless=massless)
    colliders, srdf = load_colliders(robot, tree, friction=friction), srdf_beside(found.path)
    if not found.is_urdf:
        named, free = load_ignored(robot), list[Array]()
    else:
        named = load_ignored(srdf, tree=tree) if srdf is not None else ()
        free = [*tree.reference_configurations.values()] if named else [tree.neutral()]
    ignored = (*named, *touching_always(scene_of(tree, colliders, ignore=named), free))
    return tree, colliders, ignored, {}


def with_moved_bodies(tree: Tree) -> tuple[Tree, tuple[str, ...]]:
    """The tree with the ``mocap`` bodies of its MJCF file on free joints, behind the others, and their names."""
    names = tuple(dict.fromkeys(at.moved_by for at in tree.frames.values() if at.moved_by))
    if not names:
        return tree, names
    frames, keys, joints, n = dict(tree.frames), dict(tree.keyframes) or {}, list(tree.joints), tree.n_links
    poses = list[Array]()
    for k, body in enumerate(names, n):
        R, p = tree.frames[body].rotation, tree.frames[body].position
        poses.append(np.concatenate([p, matrix_to_quaternion(R)]))
        own = free_body(1.0, np.ones(3)).joints[0]
        joints.append(replace(own, name=unique_name(f"{body}:free", {joint.name for joint in joints})))
        for name, at in tree.frames.items():
            if at.moved_by == body:
                frames[name] = Placement(k, R.T @ at.rotation, R.T @ (at.position - p))
    still = np.zeros(6 * len(names))
    keys = {
        name: replace(
            x, q=np.concatenate([x.q, *([x.mocap] if x.mocap.size else poses)]), v=np.concatenate([x.v, still])
        )
        for name, x in {"qpos0": first_keyframe(tree), **keys}.items()
    }
    free = replace(
        tree, link_names=(*tree.link_names, *names), parents=(*tree.parents, *[WORLD] * len(names)),
        joints=tuple(joints), inertias=np.concatenate([tree.inertias, [np.eye(6)] * len(names)]), frames=frames,
        keyframes=keys,
    )  # fmt: skip
    return free, names


def touching_always(scene: Solids, free: Sequence[Array]) -> tuple[tuple[str, str], ...]:
    """Pairs of colliders that touch in all configurations that are meant to be ``free``, or nearly always in others."""
    detector, n = CollisionDetector(scene), len(scene.colliders)

    def touches(configurations: Iterable[Array]) -> Array:
        """In how many configurations each pair (n, n) does."""
        counts = np.zeros((n, n))
        for q in configurations:
            contacts = _contacts(detector, q)
            for a, b in {tuple(sorted(pair)) for pair in np.asarray(contacts.colliders).tolist()}:
                counts[a, b] += 1
        return counts

    always = touches(scene.tree.random(0, SAMPLES)) > ALWAYS * SAMPLES
    if free:
        always |= touches(free) == len(free)
    names = [c.name for c in scene.colliders]
    return tuple((names[a], names[b]) for a, b in np.argwhere(always).tolist())


def first_keyframe(tree: Tree) -> Keyframe:
    """Where a robot starts: ``qpos0`` of MJCF, else neutral and at rest, or nearest to that within limits of joints."""
    q, tied = tree.neutral(), [set(c.joints) for c in tree.constraints]
    for joint, at in zip(tree.joints, tree.q_slices, strict=True):
        if joint.nq == joint.nv == 1 and all(names and joint.name not in names for names in tied):
            q[at] = np.clip(q[at], joint.lower, joint.upper)
    return tree.keyframes.get("qpos0", Keyframe(q).fitted(tree.nv, tree.nu))


def keyframe_of(tree: Tree, keyframe: str | None, old: str | None) -> Keyframe:
    """The keyframe that is named, also by an ``old`` option; the first one by default."""
    if old is not None:
        deprecated("configuration= of Scene.from_robot", "keyframe=", "1.1", level=4)
    name = old if keyframe is None else keyframe
    return first_keyframe(tree) if name is None else tree.keyframes[check_text("keyframe", name, "Or None.")]


def is_free_body(tree: Tree, moved: int = 0) -> bool:
    """Whether all of a tree, but for bodies that the user moves, is on one free joint."""
    return bool(tree.joints) and tree.joints[0].kind is FREE and tree.parents.count(WORLD) == 1 + moved


def add(
    scene: SceneLike,
    name: str,
    what: Any,
    at: ArrayLike | None,
    heaviness: tuple[float | None, float | None, bool],
    root: Root | None,
    material: Mapping[str, float],
) -> SceneLike:
    """The scene with a body, a robot, a fixed shape or a collider more; see `Scene.add`."""
    if not isinstance(name, str) or not name:
        raise ConfigurationError("name", "a name", shown(name), "Pass such as 'crate'.")
    if name in {*scene.robots, *(c.name for c in scene.colliders), *scene.tree.frames}:
        raise ConfigurationError("name", "one that the scene does not have yet", shown(name), "Choose another one.")
    pose, is_shape = ON_THE_WORLD if at is None else pose_of(at), isinstance(what, Shape)
    mass = _mass(name, what, *heaviness)
    bounce = check_number("restitution", material["restitution"], "0 does not bounce.", above=False, most=1.0)
    lengths = {x: check_number(x, material[x], "A length in m.", above=False) for x in ("torsional", "rolling")}
    for own, x in {"restitution": bounce, **lengths}.items():
        if not is_shape and x:
            raise ConfigurationError(own, "a shape that has it", shown(what), "Set it on its colliders.")
    if isinstance(what, Collider):
        if at is not None:
            raise ConfigurationError("at", "none with a collider", shown(at), "A collider says itself where it is.")
        return replace(scene, colliders=[*scene.colliders, replace(what, name=name)])
    is_moved = heaviness[2]
    if is_shape and mass is None and not is_moved:
        fixed = Collider("world", what, pose.position, pose.rotation, name=name, **material)
        return replace(scene, colliders=[*scene.colliders, fixed])
    how = pose, None if is_moved else mass, root, material, scene.friction_rule
    tree, colliders, ignored, pairs = _parts(type(scene), name, what, *how)
    start = np.array(first_keyframe(tree).q)
    if is_free_body(tree) and at is not None:
        start[:3], start[3:7] = pose.position, matrix_to_quaternion(pose.rotation)
    elif at is not None and not is_free_body(tree):
        tree = mount(tree.name, [("", tree, pose)])
    led = [name] if is_moved else []
    if not isinstance(what, Shape | Tree):
        tree, bodies = with_moved_bodies(tree)
        start = np.concatenate([start, first_keyframe(tree).q[len(start) :]])
        led = [name + SEPARATOR + body for body in bodies]
    return replace(
        scene,
        robots={**scene.robots, name: tree},
        colliders=[*scene.colliders, *colliders],
        loops=[*scene.loops, *(c.prefixed(name + SEPARATOR) for c in tree.constraints)],
        ignore=[*scene.ignore, *ignored],
        pair_materials={**scene.pair_materials, **pairs},
        descriptions=scene.descriptions if isinstance(what, Shape | Tree) else {**scene.descriptions, name: what},
        start=np.concatenate([scene.start, start]),
        start_velocity=np.concatenate([scene.start_velocity, np.zeros(tree.nv)]),
        start_controls=np.concatenate([scene.start_controls, np.zeros(tree.nu)]),
        moved=[*scene.moved, *led],
    )


def _mass(name: str, what: Any, mass: float | None, density: float | None, moved: bool) -> float | None:
    """Mass (kg) of a shape, given as that or by its density; None where neither is given."""
    given = "mass" if density is None else "density"
    if moved and not isinstance(what, Shape):
        raise ConfigurationError("moved", "a shape", shown(what), "Put its other colliders on its link.")
    if moved and (mass is not None or density is not None):
        raise ConfigurationError(given, "none of a body that you move", shown(mass or density), "Leave it out.")
    if mass is not None and density is not None:
        raise ConfigurationError("density", "none beside mass", shown(density), "Leave one of the two out.")
    if (mass is not None or density is not None) and not isinstance(what, Solid | Mesh):
        wanted = f"a shape that has an inertia, where {given} is given"
        raise ConfigurationError(f"what {name!r} is", wanted, shown(what), "Pass a tree, such as free_body makes.")
    if density is None:
        return mass
    return check_number("density", density, "In kg/m³; that of water is 1000.") * float(what.volume)


def _parts(
    scene_of: Callable[[Tree, Sequence[Collider]], Solids],
    name: str,
    what: Any,
    at: Placement,
    mass: float | None,
    root: Root | None,
    material: Mapping[str, float],
    rule: FrictionRule,
) -> tuple[Tree, list[Collider], list[list[str]], dict[tuple[str, str], dict[str, float]]]:
    """Tree of what is added; by names in the scene, its colliders, pairs of them that are ignored, and materials."""
    if isinstance(what, Tree):
        return what, [], [], {}
    prefix = name + SEPARATOR
    if isinstance(what, Shape):
        body = Collider(prefix + "body", what, name=name, **material)
        if mass is None:  # the user moves it: no mass acts, and with equal moments it turns at a constant rate
            return free_body(1.0, np.ones(3)), [body], [], {}
        centre = what.center_of_mass if isinstance(what, Mesh) else (0.0, 0.0, 0.0)
        assert isinstance(what, Solid | Mesh)
        return free_body(mass, what.inertia(mass), center_of_mass=centre), [body], [], {}
    tree, colliders, ignored, own = described(scene_of, what, material["friction"], root, rule=rule)
    moved = ON_THE_WORLD if is_free_body(tree) else at
    renamed = [_renamed(c, prefix, moved) for c in colliders]
    pairs = {(prefix + a, prefix + b): x for (a, b), x in own.items()}
    return tree, renamed, [[prefix + x for x in pair] for pair in ignored], pairs


def without(scene: SceneLike, names: Iterable[str]) -> SceneLike:
    """The scene without robots, colliders of links, or colliders of these names; see `Scene.without`."""
    names = check_list("names", names, "names of robots, links or colliders", "Each by itself.")
    dropped = colliders_of(scene, names)
    robots = [name for name in names if name in scene.robots and name]
    colliders = [c for k, c in enumerate(scene.colliders) if k not in dropped]
    prefixes = tuple(name + SEPARATOR for name in robots)
    kept = {name: tree for name, tree in scene.robots.items() if name not in robots}
    met, pulling = (
        [(c, {*(frame.link for frame in c.frames), *c.joints}) for c in of] for of in (scene.loops, scene.springs)
    )
    known = {c.name for c in colliders} | {frame for frame in scene.tree.frames if not frame.startswith(prefixes)}
    return replace(
        scene,
        robots=kept,
        colliders=colliders,
        loops=[c for c, of in met if not any(name.startswith(prefixes) for name in of)],
        springs=[c for c, of in pulling if not any(name.startswith(prefixes) for name in of)],
        ignore=[pair for pair in scene.ignore if pair <= known],
        pair_materials={pair: x for pair, x in scene.pair_materials.items() if pair <= {c.name for c in colliders}},
        descriptions={name: x for name, x in scene.descriptions.items() if name in kept},
        moved=[name for name in scene.moved if name in kept or _robot_of(scene, name) in kept],
        **(_starts(scene, kept) if robots and kept else {}),
    )


def with_material(scene: SceneLike, names: Iterable[str], material: Mapping[str, float | None]) -> SceneLike:
    """The scene with other materials of colliders; see `Scene.with_material`."""
    changed: dict[str, Any] = {name: x for name, x in material.items() if x is not None}
    if not changed:
        raise ConfigurationError("material", "friction, restitution or both", "neither", "Pass friction=0.5.")
    chosen = colliders_of(scene, names) if names else range(len(scene.colliders))
    colliders = (replace(c, **changed) if k in chosen else c for k, c in enumerate(scene.colliders))
    touched, pairs = {scene.colliders[k].name for k in chosen}, dict[frozenset[str], Mapping[str, float]]()
    for pair, x in scene.pair_materials.items():
        kept = {name: y for name, y in x.items() if not (name in changed and pair & touched)}
        pairs |= {pair: kept} if kept else {}
    return replace(scene, colliders=tuple(colliders), pair_materials=pairs)


def loops_and_springs(
    tree: Tree, loops: Any, springs: Any, start: Array
) -> tuple[tuple[Constraint, ...], tuple[AnySpring, ...]]:
    """Constraints that hold, and springs of both, whose lengths are at the start if they have none."""
    given = check_constraints(tree, loops), check_constraints(tree, springs)
    for c in given[1]:
        if c.holds:
            raise ConstraintError("springs", "SpringDamper or Bushing objects", repr(c), "Pass others as loops.")
    pulling = [c.at_rest(tree, start) for own in given for c in springs_among(own).values()]
    return tuple(c for c in given[0] if c.holds), tuple(pulling)


def moved_bodies(
    moved: Any, robots: Mapping[str, Tree], tree: Tree, loops: Iterable[Constraint]
) -> tuple[frozenset[str], Tree]:
    """Names of robots and links that the user moves, checked, and the tree where these are heavy.

    Each is one free body, and no loop is on such bodies alone.
    """
    names, led = check_list("moved", moved, "names of bodies", "Such as ['door']."), {WORLD}
    for name in names:
        if not isinstance(name, str) or name not in {*robots, *tree.link_names}:
            raise unknown_name("body that is moved", name, {*robots, *tree.link_names})
        is_robot = name in robots and (name not in tree.frames or not name)
        link = tree.link_names.index(root_of(name, robots, tree) if is_robot else name)
        if (is_robot and robots[name].n_links > 1) or not _is_bare(tree, link):
            raise ConfigurationError("moved", "bodies on a free joint each", shown(name), "Add shapes, moved=True.")
        led.add(link)
    for loop in loops if names else ():
        if {*loop.carriers(tree)} <= led:
            wanted, advice = (
                "a loop on something that you do not move, too",
                "Leave it out: `Simulator.move` places them.",
            )
            raise ConfigurationError(f"loop {loop!r}", wanted, "bodies that you move, or these and the world", advice)
    return frozenset(names), _with_heavy(tree, sorted(led - {WORLD})) if names else tree


def _is_bare(tree: Tree, link: int) -> bool:
    """Whether a link is a free body whose coordinates are its pose, and on which nothing of its joint acts."""
    joint = tree.joints[link]
    is_placed = joint.position.any() or np.any(joint.rotation != np.eye(3))
    acts = joint.damping.any() or joint.stiffness.any() or joint.friction.any()
    return tree.is_free_body(link) and not (is_placed or acts)


def check_points_alone(scene: Any, what: str) -> None:
    """Refuse a scene with friction of patches, which only steps of `Simulator` have."""
    for c in scene.colliders:
        if c.torsional or c.rolling:
            raise no_lengths(what, f"torsional={c.torsional:g} and rolling={c.rolling:g} of collider {c.name!r}")
    for pair, x in scene.pair_materials.items():
        if x.get("torsional") or x.get("rolling"):
            raise no_lengths(what, f"{dict(x)} of the pair {sorted(pair)}")


def no_lengths(what: str, came: str) -> ConfigurationError:
    """What says that torsional and rolling friction are not represented."""
    advice = "Simulator's default has it, and solver='nsgs'; scene.with_material(torsional=0, rolling=0) has none."
    return ConfigurationError(what, "no torsional and rolling friction", came, advice)


def _with_heavy(tree: Tree, links: Sequence[int]) -> Tree:
    """The tree with joints of some free bodies so heavy that all else cannot accelerate them.

    The bodies themselves have no mass, so that gravity does not act on them.
    """
    inertias, joints = np.array(tree.inertias), list(tree.joints)
    inertias[links] = 0.0
    others = [inertias.max(initial=0.0), *(float(j.armature.max(initial=0.0)) for j in joints)]
    for i in links:
        joints[i] = replace(joints[i], armature=np.full(6, HEAVY * (max(others) or 1.0)), armature_is_straight=True)
    names = {name for name, at in tree.frames.items() if at.link in links}
    kept = {name: x for name, x in tree.gravity_compensation.items() if name not in names}
    return replace(tree, inertias=inertias, joints=tuple(joints), gravity_compensation=kept)


def _robot_of(scene: Any, link: str) -> str:
    """Name of the robot that a link of a scene is of."""
    ends = np.cumsum([tree.n_links for tree in scene.robots.values()])
    at = scene.tree.placement(link_of(scene, link)).link
    return str([*scene.robots][int(np.searchsorted(ends, at, side="right"))])


def _starts(scene: Any, kept: Iterable[str]) -> dict[str, Array]:
    """What a scene with these of its robots starts from."""
    sizes = [tree.nu for tree in scene.robots.values()]
    ends = np.cumsum([0, *sizes]).tolist()
    of_controls = {name: slice(*ends[k : k + 2]) for k, name in enumerate(scene.robots)}
    slices = {"start": scene.q_slice, "start_velocity": scene.v_slice, "start_controls": of_controls.__getitem__}
    return {x: np.concatenate([getattr(scene, x)[of(name)] for name in kept]) for x, of in slices.items()}


def described_robots(given: Any, robots: Mapping[str, Tree]) -> dict[str, Any]:
    """What robots were loaded from, by their names, checked."""
    named = dict(given) if isinstance(given, Mapping) else {} if given is None else {next(iter(robots)): given}
    if len(robots) > 1 and given is not None and not isinstance(given, Mapping):
        raise ConfigurationError("descriptions", "a mapping of names of robots", shown(given), "Such as {'arm': path}.")
    for name in named:
        if name not in robots:
            raise unknown_name("robot", name, robots)
    return named


def numbers_of(name: str, given: ArrayLike | None, size: int, each: str) -> Array:
    """Numbers (size,); zeros are none, and fit a scene of other robots."""
    numbers = np.zeros(size) if given is None else finite_array(given, (-1,), name, f"One number for each {each}.")
    if numbers.shape == (size,):
        return numbers
    if numbers.any():
        advice = f"Pass {name}=None, the default, with other robots."
        raise ConfigurationError(name, f"one number for each {each}, ({size},)", f"shape {numbers.shape}", advice)
    return np.zeros(size)


def colliders_of(scene: Any, names: Iterable[str]) -> set[int]:
    """Numbers of the colliders of robots, links or colliders of these names."""
    out, links = set[int](), [c.link for c in scene.colliders]
    known = {*scene.robots, *scene.tree.frames, *(c.name for c in scene.colliders)} - {""}
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise unknown_name("robot, link or collider", name, known)
        in_robot = name + SEPARATOR if name in scene.robots else None
        out.update(
            k for k, (c, link) in enumerate(zip(scene.colliders, links, strict=True))
            if name in (c.name, link) or (in_robot is not None and link.startswith(in_robot))
        )  # fmt: skip
    return out


def pose_of(at: ArrayLike, name: str = "at") -> Placement:
    """Where on the world something is: from a position, or a position and a unit quaternion."""
    size = 7 if shape_of(at) == (7,) else 3
    x = finite_array(at, (size,), name, "A position in m, or a position and a unit quaternion x y z w.")
    if size == 3:
        return Placement(WORLD, np.eye(3), x)
    length = float(np.linalg.norm(x[3:]))
    if not 0.999 < length < 1.001:
        raise ConfigurationError(name, "a quaternion of unit length", f"one of length {length:g}", "Divide it by that.")
    return Placement(WORLD, quaternion_to_matrix(x[3:] / length), x[:3])


def _renamed(c: Collider, prefix: str, at: Placement) -> Collider:
    """The collider of a robot whose names get a prefix and whose world is there."""
    if c.link != "world":
        return replace(c, link=prefix + c.link, name=prefix + c.name)
    R, p = at.rotation, at.position
    return replace(c, position=p + R @ c.position, rotation=R @ c.rotation, name=prefix + c.name)


def set_down(scene: Solids, q: ArrayLike) -> Array:
    """Configuration (nq,) whose robot touches the world's colliders from above; see `Scene.set_down`."""
    tree = scene.tree
    if len(scene.robots) != 1 or not is_free_body(tree, len(scene.moved)):
        raise ConfigurationError(
            "scene", "one robot on a free joint", f"{len(scene.robots)} robot(s)", "Give it its place in q."
        )
    out = tree.check_configuration(finite_array(q, (tree.nq,), "q", "One configuration."))
    detector = CollisionDetector(scene)
    reach = NEAR * detector.size
    for _ in range(MOST_MOVES):  # on slopes, nothing is nearer than the gap, and moving by it takes a part of the way
        contacts = _contacts(detector, out, reach)
        below = contacts.depths[np.asarray(contacts.links)[:, 1] == WORLD]
        if not below.size and reach >= FAR * detector.size:
            raise ConfigurationError("scene", "colliders of the world below the robot", "none", "Pass floor=True.")
        if not below.size:
            reach *= 10.0
            continue
        out[2] += below.max()
        if abs(below.max()) <= TOUCHING * detector.size:
            break
    return out


def _contacts(detector: CollisionDetector, q: Array, reach: float = 0.0) -> ContactSet:
    poses = [np.column_stack([R, p]) for R, p in world_poses(detector.scene.tree, q)]
    return detector.contacts(np.array(poses).reshape(-1, 3, 4), reach)


def ignored_pairs(ignore: Iterable[Sequence[str]], known: set[str]) -> frozenset[frozenset[str]]:
    """Pairs of names of links or colliders, checked."""
    pairs = []
    for pair in check_list("ignore", ignore, "a list of pairs of names", "Such as [('hand', 'box')]."):
        names = check_list("ignore", pair, "pairs of names", "Pass such as ('hand', 'box').")
        if len(names) not in (1, 2):
            raise ConfigurationError("ignore", "pairs of names", shown(pair), "Pass such as ('hand', 'box').")
        for name in names:
            if not isinstance(name, str) or name not in known:
                raise unknown_name("name of what is not to collide", name, known)
        pairs.append(frozenset(names))
    return frozenset(pairs)
