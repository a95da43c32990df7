"""Collision geometry of stages, what they look like, and pairs that never meet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

from delassus.formats.urdf.colliders import Found, Meshes
from delassus.formats.usd.joints import joints_of
from delassus.formats.usd.prims import WORLD, Prims, each, flag, has_api, targets
from delassus.formats.usd.shapes import TYPES, colour_of, physics_of, shape_of
from delassus.model.description import unique_name

SELF_COLLISIONS = ("physxArticulation:enabledSelfCollisions", "newton:selfCollisionEnabled")
"""Attributes of articulations that say whether their bodies meet one another."""


def colliders_of_usd(stage: Any, kind: str, convex: bool) -> list[Found]:
    """Shapes of a stage that collide, or with ``kind`` "visual" are seen; see `load_colliders`."""
    prims, meshes = Prims(stage), Meshes()
    found = list[Found]()
    for prim, name in _named(prims, kind):
        body = prims.body_of(prim)
        shape, pose = shape_of(prims, prim, body, convex, meshes)
        if kind == "visual":
            colour = colour_of(prim)
            own: dict[str, Any] = {} if colour is None else {"rgba": colour}
        else:
            own = {x: y for x, y in physics_of(prim).items() if x != "density"}
        found.append((WORLD if body is None else body.name, name, shape, pose, own))
    return found


def _named(prims: Prims, kind: str) -> list[tuple[Any, str]]:
    """Prims of a kind, and names: that of the body if it has one such prim, else with the prim's own behind."""
    colliding = {str(x.GetPath()) for own in prims.colliders.values() for x in own}
    shapes = [
        prim
        for prim in prims.all
        if (_is_seen(prim) if kind == "visual" else str(prim.GetPath()) in colliding)
        and (kind == "visual" or flag(prim, "physics:collisionEnabled", True))
    ]
    links = [prims.on(prim) for prim in shapes]
    count, taken = Counter(links), set[str]()
    return [
        (prim, unique_name(_short(prim, link, count[link]), taken)) for prim, link in zip(shapes, links, strict=True)
    ]


def _short(prim: Any, link: str, count: int) -> str:
    own = str(prim.GetName())
    return own if link == WORLD else link if count == 1 else f"{link}:{own}"


def _is_seen(prim: Any) -> bool:
    from pxr import UsdGeom

    if str(prim.GetTypeName()) not in TYPES:
        return False
    own = UsdGeom.Imageable(prim)
    return own.ComputeVisibility() != "invisible" and own.ComputePurpose() in ("default", "render")


def ignored_of_usd(stage: Any) -> list[tuple[str, str]]:
    """Pairs of colliders that never meet.

    Those of bodies that a joint connects, unless it says otherwise; of filtered pairs and groups of collisions; and
    those of one articulation whose bodies do not meet.
    """
    prims = Prims(stage)
    named = _named(prims, "collision")
    below: dict[str, list[str]] = {}
    for prim, name in named:
        at = prim
        while at and not at.IsPseudoRoot():
            below.setdefault(str(at.GetPath()), []).append(name)
            at = at.GetParent()
    on: dict[str, list[str]] = {}
    for prim, name in named:
        on.setdefault(prims.on(prim), []).append(name)
    pairs = dict[tuple[str, str], None]()
    joints = joints_of(prims)
    both = [joint.ends for joint in joints if not flag(joint.prim, "physics:collisionEnabled", False)]
    sets = [(on.get(a, []), on.get(b, [])) for a, b in both if WORLD not in (a, b)]
    for prim in prims.all:
        if has_api(prim, "PhysicsFilteredPairsAPI"):
            own = below.get(str(prim.GetPath()), [])
            sets += [(own, below.get(path, [])) for path in targets(prim, "physics:filteredPairs")]
        if has_api(prim, "PhysicsArticulationRootAPI") and not all(flag(prim, x, True) for x in SELF_COLLISIONS):
            bodies = _articulation(prims, prim, [joint.ends for joint in joints])
            sets += [(on.get(a, []), on.get(b, [])) for a, b in product(bodies, bodies) if a < b]
    for first, second in (*sets, *_groups(prims, below)):
        pairs |= {(min(a, b), max(a, b)): None for a, b in product(first, second) if a != b}
    return [*pairs]


def _articulation(prims: Prims, root: Any, ends: list[tuple[str, str]]) -> list[str]:
    """Bodies of an articulation: those below its root, and those that joints connect with them."""
    inside = root.GetPath()
    found = dict.fromkeys(body.name for body in prims.bodies.values() if body.prim.GetPath().HasPrefix(inside))
    while new := {x for pair in ends if WORLD not in pair and any(y in found for y in pair) for x in pair} - {*found}:
        found |= dict.fromkeys(sorted(new))
    return [*found]


def _groups(prims: Prims, below: dict[str, list[str]]) -> Iterator[tuple[list[str], list[str]]]:
    """Colliders of two groups of collisions that do not meet."""
    from pxr import UsdPhysics

    groups = [*each(prims, "PhysicsCollisionGroup")]
    if not groups:
        return
    table = UsdPhysics.CollisionGroup.ComputeCollisionGroupTable(prims.stage)
    members = []
    for group in groups:
        query = UsdPhysics.CollisionGroup(group).GetCollidersCollectionAPI().ComputeMembershipQuery()
        inside = [x for x in prims.all if str(x.GetPath()) in below and query.IsPathIncluded(x.GetPath())]
        members.append([*dict.fromkeys(name for x in inside for name in below[str(x.GetPath())])])
    for k, a in enumerate(groups):
        for j, b in enumerate(groups[k:], start=k):
            if not table.IsCollisionEnabled(a.GetPath(), b.GetPath()):
                yield members[k], members[j]
