"""Contacts that turn within a step: what makes rolling, spinning and sliding in circles second order in time.

Impulses act along the rows ``J`` that contacts have at the start of a step, while the step moves bodies along chords of
their paths. What counts are gap and slip over the chord. They are found once, for the path with the velocity ``ṽ`` of
the start, and differ from what the rows say of it by

    κ_n = (φ(q ⊕ h ṽ) − φ(q)) / h − J_n ṽ,   κ_t = s_t / h − J_t ṽ,

``s_t`` the slip along tangents halfway, of those points of the two bodies that touch halfway. These are added to the
offsets ``d`` of contacts that touch at both ends; where nothing turns they are zero.

What turns has ``J ṽ = κ`` from the step before, and the offset ``κ`` turns it to ``J v⁺ = −κ``: no energy is gained. A
larger offset would bring energy, and is cut to that.

Contacts of a face that holds another one have the offsets of one rigid motion. Each at its own place halfway, they
would differ by their slip over the step times half of the angle about the normal: sticking contacts that contradict one
another have no solution but large impulses. So the place halfway is that of their middle, and the others are beside it
as at the start; what slides keeps its places, as its friction turns with the slip.

Source: Ryckaert, Ciccotti and Berendsen 1977 (constraints on the displacement, forces along the rows of the start).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from delassus.compiler.jit.compile import compiled, inlined
from delassus.compiler.jit.loop_ops import emitted
from delassus.constraints.shapes import turning
from delassus.constraints.shapes.turning import CHANGE, HELD, MERGED, OF_FACE, SAME_SIDE, STRAIGHT
from delassus.contact.collision.colliders import BOX, HALF_SPACE, HULL, KIND, LINK, RADIUS, Solid
from delassus.contact.collision.narrow_phase import most_gap, touch
from delassus.contact.collision.paths import CALM, StepPaths, link_velocity, turning_parts
from delassus.contact.collision.vectors import (
    Vector,
    along,
    column,
    cross,
    dot,
    in_frame,
    in_world,
    norm,
    point_at,
    row_of,
    scaled,
)
from delassus.contact.sparse.motion import rotation_of
from delassus.contact.sparse.records import CONTACTS, NOT_STRUCK, Data, SceneModel
from delassus.contact.sparse.rows import is_at_rest
from delassus.spatial.rotations import Array

TURNS = 1.0
"""Mark of the first contact of a pair that turns."""

NEGLIGIBLE = 0.1
"""Of what closed contacts may be apart, the part that turning may change a gap by and is left alone."""

NONE = -1
"""Instead of the contact at the end of the path: there is none for certain. Of faces there is −2 less its number."""

turned_halfway: Callable[[Vector, Vector, Vector], Vector] = emitted(turning.turned_halfway)
midway: Callable[[Vector, Vector, float, float], Vector] = emitted(turning.midway)
turn_between: Callable[..., Vector] = emitted(turning.turn_between)


@inlined
def angular(link: int, paths: StepPaths) -> Vector:
    """Angular velocity of a link; −1 is the world."""
    twists = paths.twists
    if link < 0:
        return 0.0, 0.0, 0.0
    return twists[link, 3], twists[link, 4], twists[link, 5]


@inlined
def is_flat(kind: float) -> bool:
    """Whether a shape has flat faces alone."""
    return kind == BOX or kind == HULL or kind == HALF_SPACE


@compiled
def size_of(k: int, paths: StepPaths) -> float:
    """Radius (m) of the smaller one of a pair."""
    shapes, pairs = paths.colliders.shapes, paths.space.pairs
    return float(min(shapes[pairs[k, 0], RADIUS], shapes[pairs[k, 1], RADIUS]))


@compiled
def pair_turns(k: int, x: Vector, paths: StepPaths) -> bool:
    """Whether a pair that touches at ``x`` turns by so much that it counts."""
    shapes, pairs, way, turn = paths.colliders.shapes, paths.space.pairs, 0.0, 0.0
    i, j = int(shapes[pairs[k, 0], LINK]), int(shapes[pairs[k, 1], LINK])
    for link in (i, j):
        if link >= 0:
            angle = paths.dt * norm(angular(link, paths))
            turn += angle
            way += angle * norm(along(x, -1.0, column(paths.poses[link], 3)))
    if turn <= STRAIGHT and is_flat(shapes[pairs[k, 0], KIND]) and is_flat(shapes[pairs[k, 1], KIND]):
        return False
    way += paths.dt * norm(along(link_velocity(i, x, paths), -1.0, link_velocity(j, x, paths)))
    return way * way > NEGLIGIBLE * paths.closed * size_of(k, paths)


@compiled
def mark_turning(begin: int, end: int, model: SceneModel, data: Data, paths: StepPaths) -> None:
    """Clear ``turning`` of contacts of some near pairs, and mark the first one of pairs that turn."""
    contacts, ends, found = data.contacts, data.space.ends, data.contacts.found
    for k in range(begin, end):
        first = ends[k]
        for e in range(first, ends[k + 1]):
            contacts.later[e] = NONE
            for c in range(3):
                contacts.turning[e, c] = 0.0
        if first == ends[k + 1] or data.space.paths[k, 0] != CALM:
            continue
        if is_at_rest(model.links, data.sleep.island, contacts, first):
            continue
        for e in range(first, ends[k + 1]):
            if -found.depths[e] <= 2.0 * paths.slop and pair_turns(k, row_of(found.points, e), paths):
                contacts.turning[first, 0] = TURNS
                break


@compiled
def any_turning(pairs: int, data: Data) -> bool:
    """Whether any near pair is marked."""
    for k in range(pairs):
        if data.space.ends[k] < data.space.ends[k + 1] and data.contacts.turning[data.space.ends[k], 0] == TURNS:
            return True
    return False


@compiled
def place_ahead(model: SceneModel, data: Data, dt: float) -> None:
    """Poses of links ``ahead``, at the end of a step with the velocities of its start.

    Of bodies on their own, which turn by their momentum, ``next`` has them.
    """
    links, state, ahead, poses = model.links, data.state, data.links.ahead, data.links.poses
    for link in range(links.parents.size):
        T, own, parent = poses[link], ahead[link], links.parents[link]
        at, q = data.bodies.alone[links.block[link]], state.next.q
        if at >= 0:
            rotation_of(q[at + 3], q[at + 4], q[at + 5], q[at + 6], own)
            for r in range(3):
                own[r, 3] = q[at + r]
            continue
        slide, turn = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
        for d in range(links.first_dof[link], links.first_dof[link + 1]):
            a, way = links.axes[d], dt * state.v[links.place[d]]
            if a < 3:
                slide = along(slide, way, column(T, a))
            else:
                turn = along(turn, way, column(T, a - 3))
                slide = along(slide, links.pitches[d] * way, column(T, a - 3))
        place = along(column(T, 3), 1.0, slide)
        once, twice = turning_parts(turn, 1.0)
        for c in range(4):
            x = place
            if c < 3:
                x = column(T, c)
                e = cross(turn, x)
                x = along(along(x, once, e), twice, cross(turn, e))
            if parent >= 0:
                if c < 3:
                    x = in_world(ahead[parent], in_frame(poses[parent], x))
                else:
                    x = carried(x, poses[parent], ahead[parent])
            own[0, c], own[1, c], own[2, c] = x


@compiled
def carried(x: Vector, before: Array, after: Array) -> Vector:
    """Where a point at ``x`` goes with a body that moves from one pose to another."""
    return point_at(after, in_frame(before, along(x, -1.0, column(before, 3))))


@compiled
def with_link(x: Vector, link: int, to_end: bool, data: Data) -> Vector:
    """Where a point goes with a link to the end of the step, or from there to its start."""
    if link < 0:
        return x
    before, after = data.links.poses[link], data.links.ahead[link]
    return carried(x, before, after) if to_end else carried(x, after, before)


@compiled
def belt_of(c: int, link: int, paths: StepPaths, data: Data) -> tuple[Vector, Vector]:
    """Velocity of the surface of a collider in the world, at the start and halfway."""
    belt = in_world(paths.space.world[c], row_of(paths.colliders.material, c))
    if link < 0:
        return belt, belt
    later = in_world(data.links.ahead[link], in_frame(data.links.poses[link], belt))
    return belt, scaled(0.5, along(belt, 1.0, later))


@compiled
def turn_contacts(begin: int, end: int, data: Data, paths: StepPaths) -> None:
    """``turning`` of contacts of those of some near pairs that are marked: ``κ`` along tangents and normal (m/s)."""
    contacts, space, shapes, local = data.contacts, data.space, paths.colliders.shapes, paths.colliders.local
    for k in range(begin, end):
        first = space.ends[k]
        if first == space.ends[k + 1] or contacts.turning[first, 0] != TURNS:
            continue
        contacts.turning[first, 0] = 0.0
        for side in range(2):
            c = space.pairs[k, side]
            link, pose = int(shapes[c, LINK]), space.work.poses[side]
            for axis in range(4):
                x = column(space.world[c], axis)
                if link >= 0:
                    x = in_world(data.links.ahead[link], column(local[c], axis))
                    if axis == 3:
                        x = along(x, 1.0, column(data.links.ahead[link], 3))
                pose[0, axis], pose[1, axis], pose[2, axis] = x
        most = most_gap(space.pairs[k, 0], space.pairs[k, 1], paths.reach, paths.gap, paths.colliders)
        a = Solid(shapes[space.pairs[k, 0]], space.work.poses[0])
        b = Solid(shapes[space.pairs[k, 1]], space.work.poses[1])
        count = touch(a, b, most, paths.colliders, space.work, space.work.later, 0)
        centre, found = PairCentre(0.0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)), 0
        for e in range(first, space.ends[k + 1]):
            turn_contact(k, e, count, centre, data, paths)
            found += 1 if contacts.later[e] != NONE else 0
        of_links = min(contacts.found.links[first, 0], contacts.found.links[first, 1]) >= 0
        held = of_links and found >= OF_FACE and is_held(first, space.ends[k + 1], data, paths)
        if held:
            centre = centre_of(first, space.ends[k + 1], data)
            for e in range(first, space.ends[k + 1]):
                turn_contact(k, e, count, centre, data, paths)
        cut_offsets(first, space.ends[k + 1], held, data, paths)


class PairCentre(NamedTuple):
    """Of contacts of a pair that hold: 1, else 0; and where their middle is at the start and halfway."""

    holds: float
    start: Vector
    halfway: Vector


@compiled
def centre_of(first: int, end: int, data: Data) -> PairCentre:
    """That of contacts that turn."""
    found, x, n = data.contacts.found, (0.0, 0.0, 0.0), 0
    for e in range(first, end):
        if data.contacts.later[e] != NONE:
            x, n = along(x, 1.0, row_of(found.points, e)), n + 1
    x = scaled(1.0 / n, x)
    later = along(with_link(x, found.links[first, 0], True, data), 1.0, with_link(x, found.links[first, 1], True, data))
    return PairCentre(1.0, x, along(scaled(0.5, x), 0.25, later))


@compiled
def slip_of(e: int, data: Data, paths: StepPaths) -> Vector:
    """Relative velocity at a contact at the start, along its tangents, with those of surfaces, and its normal."""
    found = data.contacts.found
    i, j, x = found.links[e, 0], found.links[e, 1], row_of(found.points, e)
    slip = along(link_velocity(i, x, paths), -1.0, link_velocity(j, x, paths))
    parts = dot(column(found.frames[e], 2), slip)  # belts move along surfaces
    slip = along(slip, 1.0, belt_of(found.colliders[e, 0], i, paths, data)[0])
    slip = along(slip, -1.0, belt_of(found.colliders[e, 1], j, paths, data)[0])
    return dot(column(found.frames[e], 0), slip), dot(column(found.frames[e], 1), slip), parts


@compiled
def is_held(first: int, end: int, data: Data, paths: StepPaths) -> bool:
    """Whether contacts of a pair slip by no more than what turns within a step."""
    out, slips, turns = data.contacts.turning, 0.0, 0.0
    for e in range(first, end):
        if data.contacts.later[e] != NONE:
            now = slip_of(e, data, paths)
            for c in range(2):
                slips += (out[e, c] + now[c]) ** 2
                turns += out[e, c] ** 2
    return slips <= HELD * HELD * turns


@compiled
def cut_offsets(first: int, end: int, held: bool, data: Data, paths: StepPaths) -> None:
    """Cut ``turning`` of a pair where it would bring energy: where it is held, by one factor along tangents."""
    out, all_sizes, all_most = data.contacts.turning, 0.0, 0.0
    for e in range(first, end if held else first):
        if data.contacts.later[e] != NONE:
            now = slip_of(e, data, paths)
            for c in range(2):
                all_sizes, all_most = all_sizes + out[e, c] ** 2, all_most + now[c] ** 2
    for e in range(first, end):
        if data.contacts.later[e] != NONE:
            now = slip_of(e, data, paths)
            size, most = all_sizes, all_most
            if not held:
                size, most = out[e, 0] ** 2 + out[e, 1] ** 2, now[0] ** 2 + now[1] ** 2
            for c in range(2 if size > most else 0):
                out[e, c] *= math.sqrt(most / size)
            out[e, 2] = max(out[e, 2], min(now[2], 0.0))


@compiled
def turn_contact(k: int, e: int, count: int, centre: PairCentre, data: Data, paths: StepPaths) -> None:
    """``turning`` of one contact of a pair that has ``count`` contacts at the end of its path, without cuts."""
    found, later, out, dt = data.contacts.found, data.space.work.later, data.contacts.turning, paths.dt
    i, j, gap, r = found.links[e, 0], found.links[e, 1], -found.depths[e], -1
    if not slides_over_edge(k, count, 2.0 * paths.slop, data, paths):
        r = same_later(k, e, count, 2.0 * paths.slop, data)
    is_same = r >= 0
    if not is_same:
        r = face_later(k, e, count, 2.0 * paths.slop, data)
    if r < 0:
        return
    n, n_end = column(found.frames[e], 2), (later[r, 4], later[r, 5], later[r, 6])
    if dot(n, n_end) < SAME_SIDE:
        return
    data.contacts.later[e] = r if is_same else -2 - r
    gap_end, side = -later[r, 7], side_that_moves(i, j)
    x = midway(row_of(found.points, e), n, gap, side)
    y = midway((later[r, 1], later[r, 2], later[r, 3]), n_end, gap_end, side)
    if not is_same:
        to_a, to_b = with_link(x, i, True, data), with_link(x, j, True, data)
        y, gap_end = scaled(0.5, along(to_a, 1.0, to_b)), gap + dot(n_end, along(to_a, -1.0, to_b))
    middle, half = scaled(0.5, along(x, 1.0, y)), along(n, 1.0, n_end)
    half = scaled(1.0 / norm(half), half)  # the normal halfway
    if centre.holds > 0.0:
        middle = along(centre.halfway, 1.0, turned_halfway(along(x, -1.0, centre.start), n, half))
    of_a = belt_of(found.colliders[e, 0], i, paths, data)
    of_b = belt_of(found.colliders[e, 1], j, paths, data)
    world, poses = data.space.world, data.space.work.poses
    of_first = velocity_between(world[found.colliders[e, 0]], poses[0], middle, dt)
    halfway = along(of_first, -1.0, velocity_between(world[found.colliders[e, 1]], poses[1], middle, dt))
    halfway, now = along(halfway, 1.0, along(of_a[1], -1.0, of_b[1])), slip_of(e, data, paths)
    for c in range(2):
        out[e, c] = dot(turned_halfway(column(found.frames[e], c), n, half), halfway) - now[c]
    out[e, 2] = (gap_end - gap) / dt - now[2]


@inlined
def side_that_moves(i: int, j: int) -> float:
    """Of links that touch: 1 where the second, −1 where the first one is the world; else 0."""
    return 1.0 if j < 0 else -1.0 if i < 0 else 0.0


@compiled
def add_turning(data: Data) -> None:
    """Add to row groups of contacts what these turn by; of islands that an impact has struck, no contact turns."""
    rows, contacts, islands, last = data.rows, data.contacts, data.islands, data.progress.bounces.last
    for k in range(islands.island[data.bodies.at.size]):
        struck = False
        for e in range(islands.node_ends[k], islands.node_ends[k + 1]):
            struck = struck or last[islands.nodes[e]] != NOT_STRUCK
        for m in range(islands.member_ends[k], islands.member_ends[k + 1]):
            i, e = islands.members[m], islands.contact[islands.members[m]]
            if i >= data.progress.step[CONTACTS]:
                continue
            if struck:
                contacts.later[e] = NONE
            for c in range(3):  # a patch without Coulomb's friction has no rows along tangents
                contacts.turning[e, c] = 0.0 if struck else contacts.turning[e, c]
                rows.law.turning[i, c] = contacts.turning[e, c] if c == 2 or contacts.found.friction[e] > 0.0 else 0.0
                rows.law.d[i, c] += rows.law.turning[i, c]


@compiled
def slides_over_edge(k: int, count: int, closed: float, data: Data, paths: StepPaths) -> bool:
    """Whether fewer contacts of a pair touch at the end of its path: none is the same then for certain.

    A plane has no edge.
    """
    shapes, pair, ends, left = paths.colliders.shapes, data.space.pairs[k], data.space.ends, 0
    if shapes[pair[0], KIND] == HALF_SPACE or shapes[pair[1], KIND] == HALF_SPACE:
        return False
    for e in range(ends[k], ends[k + 1]):
        left += 1 if -data.contacts.found.depths[e] <= closed else 0
    for r in range(count):
        left -= 1 if -data.space.work.later[r, 7] <= closed else 0
    return left > 0


@compiled
def same_later(k: int, e: int, count: int, closed: float, data: Data) -> int:
    """Which of ``count`` contacts at the end of the path of a pair is contact ``e`` then; −1: none is for certain.

    Its gap is at most ``closed`` (m) and differs by at most `CHANGE` times as much at the end, where no other is deeper
    by more than ``closed``. Of such contacts it is nearest to where both bodies carry it, by less than half of the way
    to any other; of those in one place it is the one with its gap.
    """
    found, later, ends = data.contacts.found, data.space.work.later, data.space.ends
    i, j, x = found.links[e, 0], found.links[e, 1], row_of(found.points, e)
    middle = scaled(0.5, along(with_link(x, i, True, data), 1.0, with_link(x, j, True, data)))
    nearest, least, other, deepest = -1, math.inf, math.inf, -math.inf
    for r in range(count):
        deepest = max(deepest, later[r, 7])
    for r in range(count if -found.depths[e] <= closed else 0):
        if deepest - later[r, 7] <= closed and abs(found.depths[e] - later[r, 7]) <= CHANGE * closed:
            d = along((later[r, 1], later[r, 2], later[r, 3]), -1.0, middle)
            square, change = dot(d, d), abs(found.depths[e] - later[r, 7])
            if square > MERGED * least:
                other = min(other, square)
            elif MERGED * square < least:
                nearest, least, other = r, square, least
            elif change < abs(found.depths[e] - later[nearest, 7]):
                nearest, least = r, square
    for c in range(ends[k], ends[k + 1]):
        if c != e and -found.depths[c] <= closed:
            d = along(row_of(found.points, c), -1.0, x)
            if dot(d, d) > (MERGED - 1.0) ** 2 * least:
                other = min(other, dot(d, d))
    return nearest if 4.0 * least < other else -1


@compiled
def face_later(k: int, e: int, count: int, closed: float, data: Data) -> int:
    """The deepest contact at the end of the path of a pair that lies on a face then and at the start; else −1.

    Corners of what touches there may be others then: what turns about the normal of a face has any.
    """
    found, later, ends, touching, deepest = data.contacts.found, data.space.work.later, data.space.ends, 0, 0
    for c in range(ends[k], ends[k + 1]):
        touching += 1 if -found.depths[c] <= closed else 0
    for r in range(1, count):
        deepest = r if later[r, 7] > later[deepest, 7] else deepest
    return deepest if min(touching, count) >= OF_FACE and -found.depths[e] <= closed else -1


@compiled
def velocity_between(T: Array, E: Array, x: Vector, dt: float) -> Vector:
    """Velocity of the point of a body that is at ``x`` halfway between two poses, whose origin goes straight.

    That is the origin of the shape that touches: what is round rolls about it, wherever a link has its own.
    """
    way = along(column(E, 3), -1.0, column(T, 3))
    turn = turn_between((column(T, 0), column(T, 1), column(T, 2)), (column(E, 0), column(E, 1), column(E, 2)))
    arm = along(along(x, -0.5, column(T, 3)), -0.5, column(E, 3))
    return scaled(1.0 / dt, along(way, 1.0, cross(turn, arm)))
