"""``<collision>`` and ``<visual>`` elements of SDF files → colliders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from delassus.errors import ModelError, unknown_name
from delassus.formats.sdf.frames import STILL, WORLD, Frames, Model, Pose, flag_of, pose_in_link, times
from delassus.formats.sdf.joints import JOINTS, read_joint
from delassus.formats.sdf.materials import colour_of, surface_of
from delassus.formats.sdf.models import models_of
from delassus.formats.sdf.shapes import coloured_parts, shape_of, sheet
from delassus.formats.urdf.colliders import Found, Meshes
from delassus.model.shapes import HalfSpace, Shape

MOST_PAIRS = 2_000_000
"""Pairs above which a file is refused: a few kB of shapes say millions."""


def colliders_of_sdf(
    root: Element, path: Path, kind: str, convex: bool, folders: tuple[Path, ...], max_bytes: float
) -> list[Found]:
    """Those of a parsed ``<sdf>`` from elements ``kind``; see `delassus.formats.colliders.load_colliders`."""
    models = models_of(root, path, max_bytes)
    frames, found, meshes = Frames(models), list[Found](), Meshes()
    for model in models[1:]:
        for link, key in model.children("link"):
            elements = link.findall(kind)
            for k, element in enumerate(elements):
                what = f"{kind} {k} of link {key!r} in file {str(model.path)!r}"
                if element.find("geometry/empty") is not None:
                    continue
                name = _name(key, element, k, len(elements))
                is_seen = kind == "visual"
                looks = (
                    colour_of(element, model.path, folders, what, max_bytes) if is_seen else surface_of(element, what)
                )
                parts = coloured_parts(element, model.path, folders, what, max_bytes) if is_seen and not looks else []
                shapes: list[tuple[Shape, Pose, dict[str, Any]]]
                shapes = [(mesh, STILL, {} if rgba is None else {"rgba": rgba}) for mesh, rgba in parts]
                if not parts:
                    shape, own = shape_of(element, model.path, folders, convex, what, meshes, max_bytes)
                    if isinstance(shape, HalfSpace) and is_seen and not model.is_static:
                        shape = sheet(element, what)
                    shapes = [(shape, own, looks)]
                at = pose_in_link(element, key, model, frames, what)
                for number, (shape, own, looks) in enumerate(shapes):
                    label, pose = f"{name}:{number}" if number else name, times(at, own)
                    on, pose = (WORLD, times(frames.pose(key), pose)) if model.is_static else (key, pose)
                    found.append((on, label, shape, pose, looks))
    return found


def ignored_of_sdf(root: Element, path: Path, max_bytes: float) -> list[tuple[str, str]]:
    """Pairs of colliders that never meet: those of one model, but of links that ``self_collide`` and share no joint.

    And those that ``drake:collision_filter_group`` says.
    """
    models = models_of(root, path, max_bytes)
    frames = Frames(models)
    joints = (read_joint(model, x, key, frames) for model in models for x, key in model.children(*JOINTS))
    apart = {frozenset((joint.parent, joint.child)) for joint in joints} | _filtered(models, frames)
    links: list[tuple[str, str, bool, bool, list[str]]] = []
    for model in models[1:]:
        outermost = model
        while outermost.around is not models[0]:
            outermost = outermost.around or outermost
        meets = flag_of(outermost.element, "self_collide", outermost.what)
        for x, key in model.children("link"):
            elements = x.findall("collision")
            names = [_name(key, element, k, len(elements)) for k, element in enumerate(elements)]
            own = flag_of(x, "self_collide", f"link {key!r}", meets)
            links.append((outermost.key, key, own, model.is_static, names))
    pairs = list[tuple[list[str], list[str]]]()
    for k, (model_a, a, a_meets, a_stands, first) in enumerate(links):
        for model_b, b, b_meets, b_stands, second in links[k + 1 :] if first else ():
            keeps_apart = frozenset((a, b)) in apart or (model_a == model_b and not (a_meets and b_meets))
            if keeps_apart and second and not (a_stands and b_stands):  # which never meet, whatever the file says
                pairs.append((first, second))
    if sum(len(first) * len(second) for first, second in pairs) > MOST_PAIRS:
        wanted = f"at most {MOST_PAIRS} pairs of collisions that do not meet"
        raise ModelError(f"file {str(path)!r}", wanted, "more", "Use fewer shapes, or <self_collide>.")
    return [(x, y) for first, second in pairs for x in first for y in second]


def _filtered(models: Sequence[Model], frames: Frames) -> set[frozenset[str]]:
    """Pairs of links that groups of Drake keep apart; a group has links and those of its member groups."""
    members, inner, ignored = (dict[str, set[str]]() for _ in range(3))
    for model in models:
        for group, key in model.children("drake:collision_filter_group"):
            what = f"collision filter group {key!r}"
            texts = {
                tag: [(x.text or "").strip() for x in group.findall(f"drake:{tag}")]
                for tag in ("member", "member_group", "ignored_collision_filter_group")
            }
            links, *others = texts.values()
            members[key] = {frames.link(frames.key(x, model, what)) for x in links}
            inner[key], ignored[key] = ({model.prefix + x for x in names} for names in others)
    for key in members:
        for name in inner[key] | ignored[key]:
            if name not in members:
                raise unknown_name(f"group of collision filter group {key!r}", name, members)
    found = {key: _within(key, inner) for key in members}
    every = {key: set[str]().union(*(members[x] for x in groups)) for key, groups in found.items()}
    return {frozenset((a, b)) for key in members for x in ignored[key] for a in every[key] for b in every[x] if a != b}


def _within(key: str, inner: Mapping[str, set[str]]) -> set[str]:
    """A group and all that are in it."""
    found, pending = {key}, [key]
    while pending:
        new = inner[pending.pop()] - found
        found |= new
        pending += new
    return found


def _name(link: str, element: Element, k: int, n: int) -> str:
    """Name of collider k of n on a link."""
    return link if n == 1 else f"{link}:{element.get('name') or k}"
