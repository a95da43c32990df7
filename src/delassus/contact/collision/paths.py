"""Contacts that are sought where a step ends: what is not hit is no wall.

Contacts at the start of a step are walls all over the step. Such a wall is in the way of a box that slides from one box
onto its flush neighbour, and of a ball that passes over an edge. A pair that runs into one of its walls is looked at
once more, on the path that its links are expected to take:

- It *hits* where both would overlap by more than what is no obstacle: twice a slop, and the overlap that either has at
  the start anyway. Its contacts are those at that time (Newton's method on the gap, which is convex in time where
  nothing turns).
- It does not hit: its contacts are those at the end of the path, along the normal that the motion violates least.

Contacts that are found so are moved back to the start of the step, with the gap that makes them the same at the end.
Of the hits of one link the later ones are looked at once more on the path as the first bends it: what lands beside the
edge of two tiles does not run into the side of the second.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from delassus.compiler.jit.compile import compiled
from delassus.compiler.jit.loop_ops import emitted
from delassus.constraints import paths as kernel_paths
from delassus.constraints.paths import EARLY, SAME_FACE
from delassus.contact.collision.colliders import (
    BOX,
    HALF_SPACE,
    HULL,
    KIND,
    LINK,
    MOST_CONTACTS,
    SURFACE,
    VERTICES,
    Colliders,
    CollisionMemory,
    Solid,
)  # fmt: skip
from delassus.contact.collision.narrow_phase import most_gap, on_what_moves, touch
from delassus.contact.collision.patches import patch_along
from delassus.contact.collision.support import core_gap, face_normal, is_round, number_of_faces
from delassus.contact.collision.surfaces import pass_edge
from delassus.contact.collision.vectors import (
    Vector,
    along,
    column,
    cross,
    dot,
    norm,
    row_of,
    scaled,
)  # fmt: skip
from delassus.spatial.rotations import Array

turning_parts: Callable[[Vector, float], tuple[float, float]] = emitted(kernel_paths.turning_parts)

CALM, LOOK, LATE, FOLLOWED, BENT = range(5)
"""What is to be done with a near pair: nothing; it is looked at on its path; once more on the bent one. And what has
been done: its contacts are those of its path, or of the bent one."""

MOST_STEPS = 16
"""Of Newton's method for the time of a hit."""

ARRIVED = 1e-3
"""Part of the slop by which gaps at a hit may differ."""

SAME_SLIDE = 0.9
"""Cosine of the angle up to which the normal of what is slid along is that of the start of the step."""

WHOLE = 1.0 - 1e-6
"""Added to a number before it is cut off: the next whole number above."""

GRAZING = 1e-5
"""Angle (rad) below which what runs into a contact grazes it."""

TOGETHER = 1e-6
"""Parts of a step that hits may differ by and are at one time."""


class StepPaths(NamedTuple):
    """What paths of a step follow from.

    Attributes
    ----------
    dt, closed, slop, gap : float
        Time step (s), and lengths (m): what rests may be so far apart; half of what is no obstacle; shapes touch up to
        this gap.
    reach, poses, twists : (n_links,), (n_links, 3, 4), (n_links, 6) arrays
        How far links may move (m), their poses, and their twists in the axes of the world; `bend_paths` changes these.
    overlaps, first : (n_links,) arrays
        Deepest overlap (m) of each link, and when it hits first; memory.
    colliders : Colliders
    space : Workspace
        Of the thread.
    """

    dt: float
    closed: float
    slop: float
    gap: float
    reach: Array
    poses: Array
    twists: Array
    overlaps: Array
    first: Array
    colliders: Colliders
    space: CollisionMemory


@compiled
def link_velocity(link: int, x: Vector, paths: StepPaths) -> Vector:
    """Velocity of the point of a link that is at ``x``; −1 is the world."""
    poses, twists = paths.poses, paths.twists
    if link < 0:
        return 0.0, 0.0, 0.0
    arm = along(x, -1.0, column(poses[link], 3))
    return along(row_of(twists, link), 1.0, cross((twists[link, 3], twists[link, 4], twists[link, 5]), arm))


@compiled
def moved(T: Array, link: int, t: float, paths: StepPaths, out: Array) -> None:
    """Pose of a collider on a link after a time ``t``, with the twist of now."""
    poses, twists = paths.poses, paths.twists
    w = 0.0, 0.0, 0.0
    origin = place = column(T, 3)
    if link >= 0:
        origin = column(poses[link], 3)
        w = twists[link, 3], twists[link, 4], twists[link, 5]
        place = along(origin, t, row_of(twists, link))
    once, twice = turning_parts(w, t)
    for c in range(4):
        d = column(T, c) if c < 3 else along(column(T, 3), -1.0, origin)
        e = cross(w, d)
        d = along(along(d, once, e), twice, cross(w, e))
        if c == 3:
            d = along(place, 1.0, d)
        out[0, c], out[1, c], out[2, c] = d


@compiled
def motion_at(k: int, r: int, rows: Array, t: float, paths: StepPaths) -> Vector:
    """Velocity (m/s) of A beside B where a contact of pair ``k`` is after a time."""
    twists, colliders, space, motion = paths.twists, paths.colliders, paths.space, (0.0, 0.0, 0.0)
    x = rows[r, 1], rows[r, 2], rows[r, 3]
    for side in range(2):
        link = int(colliders.shapes[space.pairs[k, side], LINK])
        if link >= 0:
            motion = along(motion, 1.0 - 2.0 * side, link_velocity(link, along(x, -t, row_of(twists, link)), paths))
    return motion


@compiled
def approach(k: int, r: int, rows: Array, t: float, paths: StepPaths) -> float:
    """Velocity (m/s) by which the bodies of pair ``k`` come together along the normal of a contact after a time."""
    return -dot((rows[r, 4], rows[r, 5], rows[r, 6]), motion_at(k, r, rows, t, paths))


@compiled
def find_walls(begin: int, end: int, paths: StepPaths) -> None:
    """Mark some near pairs: those that run into a contact, whose gap may be overlapped by ``closed`` (m)."""
    dt, closed, space, shapes = paths.dt, paths.closed, paths.space, paths.colliders.shapes
    found = space.found
    for k in range(begin, end):
        space.paths[k, 0], space.paths[k, 1] = CALM, np.inf
        if shapes[space.pairs[k, 0], KIND] == HALF_SPACE or shapes[space.pairs[k, 1], KIND] == HALF_SPACE:
            continue
        for r in range(MOST_CONTACTS * k, MOST_CONTACTS * k + space.ends[k + 1]):
            into, least = dt * approach(k, r, found, 0.0, paths), dt * norm(motion_at(k, r, found, 0.0, paths))
            if into > closed and into + found[r, 7] > closed and into > GRAZING * least:
                space.paths[k, 0] = LOOK


@compiled
def find_overlaps(pairs: int, paths: StepPaths) -> None:
    """Deepest overlap (m) of each link."""
    overlaps, shapes, space = paths.overlaps, paths.colliders.shapes, paths.space
    for link in range(overlaps.size):
        overlaps[link] = 0.0
    for k in range(2 * pairs):
        link, first = int(shapes[space.pairs[k // 2, k % 2], LINK]), MOST_CONTACTS * (k // 2)
        for r in range(first, first + (space.ends[k // 2 + 1] if link >= 0 else 0)):
            overlaps[link] = max(overlaps[link], space.found[r, 7])


@compiled
def follow_paths(begin: int, end: int, paths: StepPaths) -> None:
    """Contacts of those of some near pairs that are marked, in the place of those at the start."""
    gap, reach, colliders, space = paths.gap, paths.reach, paths.colliders, paths.space
    found = space.found
    for k in range(begin, end):
        what = space.paths[k, 0]
        if what != LOOK and what != LATE:
            continue
        space.paths[k, 0] = CALM
        i, j, first = space.pairs[k, 0], space.pairs[k, 1], MOST_CONTACTS * k
        most, least = most_gap(i, j, reach, gap, colliders), no_obstacle(k, paths)
        if what == LATE:
            a, b = Solid(colliders.shapes[i], space.world[i]), Solid(colliders.shapes[j], space.world[j])
            space.ends[k + 1] = touch(a, b, most, colliders, space.work, found, first)
        t, count, hit = find_hit(k, least, most, paths)
        space.paths[k, 1] = np.inf
        if hit < 0:
            t, count = 1.0, end_of_path(k, least, most, paths)
        else:
            source = found[first + hit] if t == 0.0 else space.work.later[hit]
            space.paths[k, 1] = t
            for c in range(3):
                space.paths[k, 2 + c] = source[4 + c]
        if t > 0.0 and not is_as_before(k, t, hit, count, paths):
            move_back(k, t, count, paths)
            space.ends[k + 1], space.paths[k, 0] = count, FOLLOWED if what == LOOK else BENT


@compiled
def no_obstacle(k: int, paths: StepPaths) -> float:
    """Overlap (m) of a pair that is no obstacle: twice the slop, and what either link overlaps, in whole slops.

    So that it does not change with positions.
    """
    slop, overlaps, colliders, space = paths.slop, paths.overlaps, paths.colliders, paths.space
    deepest = 0.0
    for side in range(2):
        link = int(colliders.shapes[space.pairs[k, side], LINK])
        if link >= 0:
            deepest = max(deepest, overlaps[link])
    return slop * (2.0 + int(deepest / slop + WHOLE)) if slop > 0.0 else deepest


@compiled
def place_pair(k: int, t: float, paths: StepPaths) -> None:
    """Poses of the colliders of a pair after a time."""
    colliders, space = paths.colliders, paths.space
    for side in range(2):
        c = space.pairs[k, side]
        moved(space.world[c], int(colliders.shapes[c, LINK]), t, paths, space.work.poses[side])


@compiled
def find_hit(k: int, least: float, most: float, paths: StepPaths) -> tuple[float, int, int]:
    """When a pair overlaps by ``least``, as a part of the step; its contacts then, in ``later``; which of them it is.

    The last is −1 where it does not, or where it cannot be said.
    """
    dt, slop, space = paths.dt, paths.slop, paths.space
    first, count = MOST_CONTACTS * k, space.ends[k + 1]
    later, t = space.work.later, 0.0
    for r in range(count):
        for c in range(1, 8):
            later[r, c] = space.found[first + r, c]
    for _ in range(MOST_STEPS):
        following, which = np.inf, -1
        for r in range(count):
            speed = dt * approach(k, r, later, t * dt, paths)
            left = least - later[r, 7]
            if speed > 0.0 and t + left / speed < following:
                following, which = t + left / speed, r
        if which < 0 or not following <= 1.0:
            return 1.0, 0, -1
        if least - later[which, 7] <= ARRIVED * slop:
            return t, count, which
        t = following
        count = touch_later(k, t * dt, most, paths)
    return 1.0, 0, -1


@compiled
def touch_later(k: int, t: float, most: float, paths: StepPaths) -> int:
    """Contacts of a pair after a time, in ``later``; how many."""
    place_pair(k, t, paths)
    shapes, space = paths.colliders.shapes, paths.space
    a = Solid(shapes[space.pairs[k, 0]], space.work.poses[0])
    b = Solid(shapes[space.pairs[k, 1]], space.work.poses[1])
    return touch(a, b, most, paths.colliders, space.work, space.work.later, 0)


@compiled
def violation(k: int, n: Vector, least: float, paths: StepPaths) -> tuple[float, float]:
    """By how much (m) the gap along ``n`` at the end of the path is below what it may be, negative; and that gap."""
    before, after = gaps_along(k, n, n, paths)
    return after - min(0.0, max(before, -least)), after


@compiled
def gaps_along(k: int, n: Vector, later: Vector, paths: StepPaths) -> tuple[float, float]:
    """Gaps (m) of two convex shapes along normals from B to A: at the start, and ``later`` at poses of `place_pair`."""
    shapes, vertices, space = paths.colliders.shapes, paths.colliders.hulls[VERTICES], paths.space
    i, j, poses = space.pairs[k, 0], space.pairs[k, 1], space.work.poses
    before = core_gap(Solid(shapes[i], space.world[i]), Solid(shapes[j], space.world[j]), vertices, n)
    return before, core_gap(Solid(shapes[i], poses[0]), Solid(shapes[j], poses[1]), vertices, later)


@compiled
def towards(k: int, side: int, f: int, pose: Array, paths: StepPaths) -> Vector:
    """Normal of a face of one of a pair at its pose, from B to A."""
    space, c = paths.space, paths.space.pairs[k, side]
    shape = paths.colliders.shapes[c]
    d = face_normal(shape, f, pose, paths.colliders.hulls)
    if shape[KIND] == HULL:
        return scaled(2.0 * side - 1.0, d)
    between = along(column(space.world[space.pairs[k, 0]], 3), -1.0, column(space.world[space.pairs[k, 1]], 3))
    return scaled(math.copysign(1.0, dot(d, between)), d)


@compiled
def end_of_path(k: int, least: float, most: float, paths: StepPaths) -> int:
    """Contacts of a pair at the end of its path, in ``later``, along the normal that is violated least; how many."""
    dt, colliders, space = paths.dt, paths.colliders, paths.space
    i, j, shapes, later = space.pairs[k, 0], space.pairs[k, 1], colliders.shapes, space.work.later
    count, deepest = touch_later(k, dt, most, paths), 0
    for r in range(1, count):
        if later[r, 7] > later[deepest, 7]:
            deepest = r
    if count == 0 or later[deepest, 7] <= 0.0:
        return count
    surfaces = shapes[i, KIND] == SURFACE or shapes[j, KIND] == SURFACE
    n, changed = (later[deepest, 4], later[deepest, 5], later[deepest, 6]), False
    has_round = is_round(shapes[i]) != is_round(shapes[j])
    best, depth = -np.inf if surfaces else violation(k, n, least, paths)[0], 0.0
    best += 0.0 if has_round else ARRIVED * least
    for side in range(0 if surfaces else 2):
        c = space.pairs[k, side]
        for f in range(number_of_faces(shapes[c])):
            d = towards(k, side, f, space.work.poses[side], paths)
            least_violated, after = violation(k, d, least, paths)
            if least_violated > best:
                best, n, depth, changed = least_violated, d, -after, True
    made = 0
    if changed:
        a, b = Solid(shapes[i], space.work.poses[0]), Solid(shapes[j], space.work.poses[1])
        made = patch_along(a, b, colliders.hulls, n, depth, most, space.work)
        on_what_moves(a, b, later, 0, made)
    side, hulls = 0 if is_round(shapes[i]) else 1, colliders.hulls
    solid = Solid(shapes[space.pairs[k, side]], space.work.poses[side])
    for r in range(count if made == 0 else 0):
        motion, turned = motion_at(k, r, later, dt, paths), False
        if has_round and not is_flat(k, (later[r, 4], later[r, 5], later[r, 6]), paths):
            turned = pass_edge(later[r], motion, solid, 1.0 - 2.0 * side, paths.slop, hulls[VERTICES])
        if turned or not changed:
            for e in range(1, 8):
                later[made, e] = later[r, e]
            made += 1
    return made


@compiled
def is_flat(k: int, n: Vector, paths: StepPaths) -> bool:
    """Whether a normal at the end of the path is that of a face of the pair, or of a contact at its start."""
    space, found, same = paths.space, paths.space.found, False
    for r in range(MOST_CONTACTS * k, MOST_CONTACTS * k + space.ends[k + 1]):
        same = same or dot(n, (found[r, 4], found[r, 5], found[r, 6])) >= SAME_FACE
    for side in range(2):
        c = space.pairs[k, side]
        for f in range(number_of_faces(paths.colliders.shapes[c])):
            same = same or dot(n, towards(k, side, f, space.work.poses[side], paths)) >= SAME_FACE
    return same


@compiled
def is_as_before(k: int, t: float, hit: int, count: int, paths: StepPaths) -> bool:
    """Whether the wall at the start of the step is what is hit, or what is slid along: it stays as it is."""
    dt, closed, colliders, space = paths.dt, paths.closed, paths.colliders, paths.space
    later, found, first, same = space.work.later, space.found, MOST_CONTACTS * k, SAME_FACE
    r = hit
    if hit < 0:
        r = 0
        for c in range(1, count):
            if later[c, 7] > later[r, 7]:
                r = c
        if count == 0:
            return False
        start = later[r, 7] - dt * approach(k, r, later, dt, paths)
        if later[r, 7] > max(start, 0.0) + closed:
            same = SAME_SLIDE
    n, deepest = (later[r, 4], later[r, 5], later[r, 6]), first
    worst = -np.inf
    for r in range(first, first + space.ends[k + 1]):
        into = found[r, 7] + dt * approach(k, r, found, 0.0, paths)
        if into > worst:
            worst, deepest = into, r
    if found[deepest, 7] < -paths.slop:
        same = SAME_FACE
    elif hit < 0 and is_round(colliders.shapes[space.pairs[k, 0]]) and is_round(colliders.shapes[space.pairs[k, 1]]):
        same = SAME_SLIDE  # normals of what has no corners turn
    n0 = found[deepest, 4], found[deepest, 5], found[deepest, 6]
    if dot(n, n0) >= same or is_one_face(k, n0, n, paths):
        return True
    i, j, shapes = space.pairs[k, 0], space.pairs[k, 1], colliders.shapes
    return bool(
        hit >= 0 and shapes[i, KIND] != SURFACE and shapes[j, KIND] != SURFACE and is_entered_last(k, t, n0, paths)
    )


@compiled
def is_one_face(k: int, n: Vector, later: Vector, paths: StepPaths) -> bool:
    """Whether two normals are those of one face of the pair, at the start and at the poses of `place_pair`."""
    space, same = paths.space, False
    for side in range(2):
        c = space.pairs[k, side]
        for f in range(number_of_faces(paths.colliders.shapes[c])):
            if dot(n, towards(k, side, f, space.world[c], paths)) >= SAME_FACE:
                same = same or dot(later, towards(k, side, f, space.work.poses[side], paths)) >= SAME_FACE
    return same


@compiled
def entry(k: int, n: Vector, later: Vector, least: float, paths: StepPaths) -> float:
    """Part of the path at which two convex shapes overlap by ``least`` along a normal that turns; −∞, ∞: outside."""
    before, after = gaps_along(k, n, later, paths)
    if before + least <= 0.0:
        return -np.inf
    return np.inf if after + least > 0.0 else float((before + least) / (before - after))


@compiled
def is_entered_last(k: int, hit: float, n: Vector, paths: StepPaths) -> bool:
    """Whether shapes that hit overlap along a normal of the start no earlier than along those of their faces.

    Nor earlier by `EARLY` than they ``hit``, as a part of the path, where not all normals are those of faces.
    """
    space, shapes, least = paths.space, paths.colliders.shapes, no_obstacle(k, paths)
    place_pair(k, paths.dt, paths)
    own, faces = entry(k, n, n, least, paths), 0
    for side in range(2):
        c = space.pairs[k, side]
        if shapes[c, KIND] != BOX and shapes[c, KIND] != HULL and own + EARLY < hit:
            return False
        for f in range(number_of_faces(shapes[c])):
            now = towards(k, side, f, space.world[c], paths)
            t = entry(k, now, towards(k, side, f, space.work.poses[side], paths), least, paths)
            if own + TOGETHER < t < np.inf and dot(now, n) < SAME_FACE:
                return False
            faces += 1
    return faces == 0 or own < np.inf


@compiled
def move_back(k: int, t: float, count: int, paths: StepPaths) -> None:
    """Contacts in ``later``, at a part ``t`` of the step, as those of the start: at the end of the path they are alike.

    The point is where it is on that link that moves more.
    """
    dt, space = paths.dt, paths.space
    later, found, first, pairs = space.work.later, space.found, MOST_CONTACTS * k, space.pairs
    place_pair(k, t * dt, paths)
    shift, weights = (0.0, 0.0, 0.0), 0.0
    for side in range(2):
        d = along(column(space.work.poses[side], 3), -1.0, column(space.world[pairs[k, side]], 3))
        shift, weights = along(shift, dot(d, d), d), weights + dot(d, d)
    if weights > 0.0:
        shift = scaled(1.0 / weights, shift)
    for r in range(count):
        for c in range(1, 8):
            found[first + r, c] = later[r, c]
        for c in range(3):
            found[first + r, 1 + c] -= shift[c]
        depth = later[r, 7] - t * dt * approach(k, first + r, found, 0.0, paths)
        found[first + r, 7] = min(depth, max(later[r, 7], 0.0))  # what parts is no overlap


@compiled
def bend_paths(pairs: int, paths: StepPaths) -> bool:
    """Bend the paths of links where they hit first, and mark pairs that hit later; whether there are any.

    ``first`` is memory for a time of each link. Of links that both move, either takes half of the velocity by which
    they come together.
    """
    twists, first, space, shapes, found = paths.twists, paths.first, paths.space, paths.colliders.shapes, False
    for link in range(first.size):
        first[link] = np.inf
    for k in range(pairs):
        for side in range(2):
            link = int(shapes[space.pairs[k, side], LINK])
            if link >= 0:
                first[link] = min(first[link], space.paths[k, 1])
    for k in range(pairs):
        for side in range(2):
            link = int(shapes[space.pairs[k, side], LINK])
            if link >= 0 and first[link] + TOGETHER < space.paths[k, 1] < np.inf:
                space.paths[k, 0], found = LATE, True
    if not found:
        return False
    for k in range(pairs):
        if not space.paths[k, 1] < np.inf or space.paths[k, 0] == LATE:
            continue
        i, j = int(shapes[space.pairs[k, 0], LINK]), int(shapes[space.pairs[k, 1], LINK])
        n = space.paths[k, 2], space.paths[k, 3], space.paths[k, 4]
        part = 0.0
        for r in range(MOST_CONTACTS * k, MOST_CONTACTS * k + space.ends[k + 1]):
            part = max(part, approach(k, r, space.found, 0.0, paths) + min(space.found[r, 7], 0.0) / paths.dt)
        if i >= 0 and j >= 0:
            part *= 0.5
        for c in range(3):
            if i >= 0:
                twists[i, c] += part * n[c]
            if j >= 0:
                twists[j, c] -= part * n[c]
    return True
