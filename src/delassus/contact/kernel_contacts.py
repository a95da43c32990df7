"""Scenes in kernels: colliders as constraints of contact steps, and height fields as their ground."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from delassus.api.kinematics import forward_kinematics
from delassus.constraints import Constraint, Frame, check_constraints
from delassus.constraints.contact import Contact, Ground, contacts_of, ground_name
from delassus.constraints.shapes.nearest_points import PAIRS, n_touches
from delassus.contact.collision.meshes import hull_of
from delassus.contact.filters import PAIR_MATERIAL, Solids, by_rule, may_collide, pair_numbers, rule_number
from delassus.errors import ConfigurationError, shown, unknown_name
from delassus.model.check import check_list
from delassus.model.shapes import Collider, HalfSpace, HeightField, Mesh, Shape
from delassus.model.topology import check_tree
from delassus.model.tree import WORLD, Tree
from delassus.spatial.rotations import Array

TOUCHING = f"convex shapes on half spaces and height fields; {PAIRS}; no belts on top"
"""What touches in contact steps of kernels."""

MOST_POINTS_OF_STEP = 128
"""Contact points of a scene's kernel: as many take minutes to compile, many more do not end."""

UPRIGHT = 1e-9
"""By how much the vertical of a height field may differ from the world's."""


def names_of(argument: str, given: Iterable[str], scene: Solids) -> frozenset[str]:
    """Names of colliders or of what they are on, checked."""
    known = {name for c in scene.colliders for name in (c.name, c.link)}
    names = check_list(argument, given, "a list of names of links or colliders", "Such as ['left_foot'].")
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise unknown_name("name of what is to touch", name, known)
    return frozenset(names)


def check_number_of_points(constraints: Iterable[Constraint]) -> None:
    """Refuse more contact points than compile in minutes: raises `ConfigurationError`."""
    contacts = contacts_of(constraints)
    points = sum(c.n_points for c in contacts)
    if points > MOST_POINTS_OF_STEP:
        raise ConfigurationError(
            "contacts of a contact step", f"at most {MOST_POINTS_OF_STEP} points", f"{points} of {len(contacts)} pairs",
            "Say what is to touch, touching=['left_foot'], or leave out pairs of links, between_links=False.",
        )  # fmt: skip


def contacts_of_colliders(scene: Solids, names: frozenset[str] | None, between_links: bool) -> tuple[Contact, ...]:
    """A `Contact` for each pair of colliders that may touch, of all or with one of some ``names``.

    Raises `ConfigurationError` where kernels have none.
    """
    allowed = may_collide(scene)
    if names is not None:
        named = np.array([c.name in names or c.link in names for c in scene.colliders], dtype=bool)
        allowed &= named[:, None] | named[None, :]
    if not between_links:
        allowed &= (scene.links[:, None] == WORLD) | (scene.links[None, :] == WORLD)
    pairs = np.argwhere(np.triu(allowed)).tolist()
    solids = {i: (scene.colliders[i], _outside(scene.colliders[i])) for i in np.unique(pairs).tolist()}
    rule, own = rule_number(scene.friction_rule), pair_numbers(scene)
    of_pair = own if len(own) else np.full((len(allowed), len(allowed), 3), -1.0)
    return tuple(_contact(rule, of_pair[i, j], *solids[i], *solids[j]) for i, j in pairs)


def _contact(rule: int, own: Array, a: Collider, shape: Shape, b: Collider, other: Shape) -> Contact:
    """Contact of two colliders of certain shapes, the second that of the world if one is; ``own`` of `pair_numbers`."""
    if a.link == "world":
        a, shape, b, other = b, other, a, shape
    ground: Ground | None = None
    if isinstance(other, HalfSpace):
        ground = _frame(b)
    elif isinstance(other, HeightField):
        ground = "input"
    elif not isinstance(shape, HalfSpace) and n_touches(shape, other):
        ground = _frame(b), other
    is_surface = isinstance(shape, Mesh) and not shape.convex
    if ground is None or isinstance(shape, HalfSpace) or is_surface or a.surface_velocity.any():
        came = f"{type(a.shape).__name__} {a.name!r} and {type(b.shape).__name__} {b.name!r}"
        raise ConfigurationError("scene of a contact step", TOUCHING, came, "Approximate one, or ignore the pair.")
    usual = by_rule(rule, a, b)
    material = {name: float(x if y < 0.0 else y) for name, x, y in zip(PAIR_MATERIAL, usual, own, strict=True)}
    return Contact(
        _frame(a), shape, ground,
        restitution=float(np.sqrt(a.restitution * b.restitution)), surface_velocity=b.surface_velocity, **material,
    )  # fmt: skip


def _outside(c: Collider) -> Shape:
    """Shape of a collider; of a hull, its corners and the triangles of its faces."""
    if not isinstance(c.shape, Mesh) or not c.shape.convex:
        return c.shape
    corners, faces, _ = hull_of(c.shape, c.name)
    return Mesh(corners, [(face[0], *face[k : k + 2]) for face in faces for k in range(1, len(face) - 1)])


def _frame(c: Collider) -> Frame:
    return Frame(c.link, c.position, c.rotation)


def ground_below(
    tree: Tree, contacts: Iterable[Constraint] | Constraint, q: ArrayLike, terrain: Collider
) -> dict[str, Array]:
    """Arguments ``ground{i}`` of a kernel of ``"contact_step"``: terrain below the points of its contacts.

    Parameters
    ----------
    tree : Tree
    contacts : Constraint or iterable of Constraint
        The constraints that the kernel was compiled with; of those that are `Contact` with ``ground="input"`` there is
        an entry.
    q : (..., nq) array_like
        Configurations; leading axes are batches.
    terrain : Collider
        A `HeightField` on the world; its vertical is the world's.

    Returns
    -------
    dict of str to (..., n_points, 4) array
        Height (m) and unit normal in the world of the triangle below each point.

    Raises
    ------
    ConfigurationError
        Another shape, on a link, or with another vertical; configurations of another shape.

    Examples
    --------
    >>> import numpy as np
    >>> import delassus as ds
    >>> ball = ds.mechanisms.free_body(1.0, np.eye(3), name="ball")
    >>> ramp = Collider("world", HeightField([[0.0, 0.0], [0.3, 0.3]], (0.4, 1.0)))
    >>> contact = ds.Contact("ball", ds.contact.Sphere(0.1), "input")
    >>> ground_below(ball, contact, [0.1, 0.2, 0.5, 0, 0, 0, 1], ramp)["ground0"].round(6).tolist()
    [[0.225, -0.6, 0.0, 0.8]]
    """
    check_tree(tree)
    given = terrain if isinstance(terrain, Collider) else None
    if given is None or not isinstance(given.shape, HeightField) or given.link != "world":
        raise ConfigurationError("terrain", "a HeightField on 'world'", shown(terrain), "Put it in a Collider.")
    R = given.rotation
    if np.abs(R[2] - [0.0, 0.0, 1.0]).max() > UPRIGHT:
        raise ConfigurationError("terrain", "a height field whose z is up", "another rotation", "Turn it about z.")
    out = {}
    checked = check_constraints(tree, contacts)
    own = {id(contact): contact for contact in contacts_of(checked) if contact.ground == "input"}
    for i, constraint in enumerate(checked):
        contact = own.get(id(constraint))
        if contact is None:
            continue
        poses = np.asarray(forward_kinematics(tree, q, contact.frame))
        centres = np.array([centre for centre, _ in contact.spheres])
        points = centres @ poses[..., :3, :3].mT + poses[..., None, :3, 3]
        ground = given.shape.below((points - given.position) @ R)
        ground[..., 0] += given.position[2]
        ground[..., 1:] = ground[..., 1:] @ R.T
        out[ground_name(i)] = ground
    return out
