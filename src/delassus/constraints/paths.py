"""Contacts of a step between shapes, sought on the paths that links are expected to take: gaps are no walls.

A contact at the start of a step is a wall all over the step. Where two shapes would run into one of theirs, at the
velocity with which the step begins, they are looked at once more (`delassus.constraints.shapes.separating_axes`):

- They come together in the step: contacts are those along the axis of that hit, where the shapes are at that time.
- They do not: contacts are those along the axis that parts them most, at the end of the path.

They are moved back to the start of the step, with gaps that make them the same at the end. Paths are bent by
what each link hits first: what lands beside the edge of two tiles does not run into the side of the second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from delassus.constraints.constraint import At, Candidate, Configuration, Constraint, RobotMotion
from delassus.constraints.contact import Contact
from delassus.constraints.shapes.convex_distance import TINY, Placed
from delassus.constraints.shapes.convex_patch import contacts
from delassus.constraints.shapes.nearest_points import has_formula, touches
from delassus.constraints.shapes.separating_axes import (
    NEVER,
    PASSING,
    TOGETHER,
    Axis,
    Entry,
    axes_between,
    entry,
    later_entry,
)  # fmt: skip
from delassus.spatial.motion import (
    ANGULAR,
    LINEAR,
    chosen,
    column,
    cross_entries,
    cross_matrix,
    dot,
    from_entries,
    minus,
    plus,
    plus_scaled,
    scaled_matrix,
)
from delassus.spatial.ops import SQUARE_FLOOR, Matrix, Ops, Scalar, ScalarOps

SLOP = 0.1
"""Part of the overlap that is left alone by which bodies may overlap and are in nobody's way; twice this is a hit."""

EARLY = 0.3
"""Part of a step by which what is round may seem to hit along a normal of the start before it does."""

ROUNDING = 64.0
"""Error of separations over the size of shapes and the round-off of numbers."""

SAME_NORMAL = 1.0 - 1e-9
"""The same of a normal that iterations find."""

SAME_FACE = 1.0 - 1e-12
"""Cosine of the angle of two normals above which they are those of one face."""

ROUNDS = 3
"""Rounds of Newton's method for the time of a hit, of pairs whose normals follow from formulas."""

Vector = list["Scalar"]


class Twist(NamedTuple):
    """Velocity (m/s) of the origin of a link and its angular velocity (rad/s), in the axes of the world."""

    linear: Vector
    angular: Vector


Twists = Mapping[int, Twist]


class FirstHit(NamedTuple):
    """What a link hits first: when, as a part of the step, and the change of its velocity (3,) that this makes."""

    time: Scalar
    change: Vector


class StepPath(NamedTuple):
    """What contacts of a step depend on beside the configuration: velocities, time, what may overlap, round-off.

    ``motion`` is that at the start of the step, of ``h`` seconds; ``penetration`` (m) is left alone.
    """

    motion: RobotMotion
    h: Scalar
    penetration: float
    epsilon: float

    def candidates(self, robot: Configuration, V: Sequence[Matrix] | None = None) -> Mapping[int, Sequence[Candidate]]:
        """`Configuration.candidates`, those of two shapes on their way; ``V`` (6 × 1) are twists in body frames."""
        pairs = pairs_of(robot.constraints)
        if not pairs:
            return robot.candidates
        return LinkPaths(robot, pairs, self.twists(robot, V), self).candidates()

    def twists(self, robot: Configuration, V: Sequence[Matrix] | None = None) -> Twists:
        """Twists at the start of the step of all links that have contacts; ``V`` (6 × 1) are those in body frames."""
        ops, out = robot.ops, dict[int, Twist]()
        for link in sorted({link for points in robot.candidates.values() for link in points[0].arms}):
            R, own = robot.link_rotations[link], (self.motion.V if V is None else V)[link]
            parts = (ops.take(own, part, None) for part in (LINEAR, ANGULAR))
            out[link] = Twist(*(column(ops, R @ x) for x in parts))
        return out

    @property
    def closed(self) -> float:
        """Gap (m) up to which contacts touch: twice the slop."""
        return 2.0 * SLOP * self.penetration


def pairs_of(constraints: Sequence[Constraint]) -> dict[int, Contact]:
    """Contacts of two shapes, by their number."""
    return {k: c for k, c in enumerate(constraints) if isinstance(c, Contact) and c.second is not None}


class LinkPaths:
    """Paths of links in a step, and contacts of pairs of shapes on them."""

    def __init__(self, robot: Configuration, pairs: Mapping[int, Contact], twists: Twists, path: StepPath) -> None:
        self.robot, self.ops, self.twists, self.h, self.epsilon = robot, robot.ops, twists, path.h, path.epsilon
        self.pairs, self.found = pairs, robot.candidates
        self.placed = {k: c.placed(At(robot, k)) for k, c in self.pairs.items()}
        self.overlaps, self.slop = self._overlaps(), SLOP * path.penetration
        self.least = {k: self._no_obstacle(k) for k in self.pairs}

    def candidates(self) -> dict[int, Sequence[Candidate]]:
        """Contacts of all constraints that have some."""
        normals = {k: self._worst(k) for k in self.pairs}
        entries = {k: self._entry(k, *normals[k], self.twists) for k in self.pairs}
        first, bent = self._first_hits(entries), self.twists
        if first:
            bent = self._bent(self.twists, first)
            entries = {k: self._entry(k, *normals[k], bent) for k in self.pairs}
        return {
            k: self._on_path(k, *normals[k], entries[k], bent) if k in self.pairs else found
            for k, found in self.found.items()
        }

    # -- the start of the step -----------------------------------------------------------------------------------------

    def _overlaps(self) -> dict[int, Scalar]:
        """Deepest overlap (m) of each link."""
        out = dict[int, Scalar]()
        for x in (x for points in self.found.values() for x in points):
            for link in x.arms:
                out[link] = self.ops.maximum(out.get(link, 0.0), -x.gap)
        return out

    def _no_obstacle(self, k: int) -> Scalar:
        """Overlap (m) of a pair that is no obstacle."""
        deepest: Scalar = 0.0
        for link in self.found[k][0].arms:
            deepest = self.ops.maximum(deepest, self.overlaps[link])
        return deepest + (2.0 * self.slop + self._round_off(k))

    def _round_off(self, k: int) -> float:
        return ROUNDING * self.epsilon * (self.placed[k][0].size + self.placed[k][1].size)

    def _worst(self, k: int) -> tuple[Vector, Scalar]:
        """Normal of the contact that would be passed furthest, and 1 where it would be."""
        ops, best, normal = self.ops, None, list[Scalar]()
        acts: Scalar = 0.0
        closed = self._round_off(k)
        for x in self.found[k]:
            into, n = -self.h * self._speed(x, self.twists), [row[2] for row in ops.entries(x.axes)]
            passed = into - x.gap
            acts = ops.maximum(acts, ops.less(closed, into) * ops.less(closed, passed))
            if best is None:
                best, normal = passed, n
                continue
            further = ops.less(best, passed)
            best, normal = ops.maximum(best, passed), chosen(ops, further, n, normal)
        return normal, acts

    def _speed(self, x: Candidate, twists: Twists) -> Scalar:
        """Velocity (m/s) by which a contact opens."""
        n, speed = [row[2] for row in self.ops.entries(x.axes)], list[Scalar]([0.0] * 3)
        for sign, (link, arm) in zip((1.0, -1.0), x.arms.items(), strict=False):
            if link in twists:
                at = plus(twists[link].linear, cross_entries(twists[link].angular, column(self.ops, arm)))
                speed = plus_scaled(speed, at, sign)
        return dot(n, speed)

    # -- paths ---------------------------------------------------------------------------------------------------------

    def _entry(self, k: int, normal: Vector, acts: Scalar, twists: Twists) -> Entry:
        """When and along which axis the shapes of a pair come together on the paths that twists make."""
        start, end, limits = self.placed[k], self._moved(k, twists, 1.0), (self.least[k], self._round_off(k))
        found = entry(start, end, axes_between(start, end, normal), *limits)
        if not _is_formula(start):
            return found
        ops, straight = self.ops, found
        for _ in range(ROUNDS):  # Newton's method: the axis of the time of the hit
            hits = acts * ops.less(found.time, PASSING)
            n = self._deepest(*self._moved(k, twists, ops.minimum(found.time, 1.0)))
            found = found.rather(ops, later_entry(start, end, Axis(n, n), found, *limits), hits)
        hits = acts * ops.less(found.time, PASSING)
        later = hits * ops.less(straight.time + EARLY, found.time)
        n = self._deepest(*self._moved(k, twists, ops.minimum(found.time, 1.0)))
        found = found.rather(ops, found._replace(axis=Axis(n, n)), later)
        return found.rather(ops, straight, hits - later)

    def _deepest(self, a: Placed, b: Placed) -> Vector:
        """Normal of the contact of two shapes that is deepest."""
        first, *others = touches(a, b)
        gap, normal = first.gap, list(first.normal)
        for x in others:
            own = x.gap if x.apart is None else x.gap + x.apart
            deeper = self.ops.less(own, gap)
            gap, normal = self.ops.minimum(own, gap), chosen(self.ops, deeper, x.normal, normal)
        return normal

    def _moved(self, k: int, twists: Twists, part: Scalar) -> tuple[Placed, Placed]:
        """Shapes of a pair after a part of the step."""
        robot, t = self.robot, part * self.h
        rotations, origins = dict[int, Matrix](), dict[int, Matrix]()
        for link in self.found[k][0].arms:
            rotations[link] = turned(self.ops, twists[link].angular, t, robot.link_rotations[link])
            origins[link] = robot.origins[link] + from_entries(self.ops, [t * x for x in twists[link].linear])
        there: Any = SimpleNamespace(ops=self.ops, tree=robot.tree, link_rotations=rotations, origins=origins)
        return self.pairs[k].placed(At(there, k))

    def _first_hits(self, entries: Mapping[int, Entry]) -> dict[int, FirstHit]:
        """What each link hits first that could hit something else; none where there is no such link."""
        others = {link: [k for k, points in self.found.items() if link in points[0].arms] for link in self.twists}
        shared = {link for link, on in others.items() if len(on) > 1 and {*on} & {*self.pairs}}
        if not shared:
            return {}
        ops, first = self.ops, {link: FirstHit(NEVER, [0.0] * 3) for link in shared}

        def hit(link: int, sign: float, share: float, time: Scalar, push: Scalar, n: Vector) -> None:
            earlier, before = ops.less(time, first[link].time), first[link]
            change = [(sign * share) * (push * x) for x in n]
            first[link] = FirstHit(ops.minimum(time, before.time), chosen(ops, earlier, change, before.change))

        for k, points in self.found.items():
            links = list(points[0].arms)
            share = 1.0 / len(links)
            if not shared & {*links}:
                continue
            if k in self.pairs:
                x = entries[k]
                hits = ops.less(-0.5, x.time) * ops.less(x.time, 1.0 + TOGETHER)
                push = (ops.minimum(x.before, 0.0) - x.after) * (1.0 / self.h)
                meetings = [(ops.select(hits, x.time, NEVER), push, x.axis.at(ops, ops.minimum(x.time, 1.0)))]
            else:
                meetings = [self._meeting(x) for x in points]
            for time, push, n in meetings:
                for sign, link in zip((1.0, -1.0), links, strict=False):
                    if link in shared:
                        hit(link, sign, share, time, push, n)
        return first

    def _bent(self, twists: Twists, first: Mapping[int, FirstHit]) -> Twists:
        """Twists that keep each link out of what it hits first."""
        return {
            link: twist if link not in first else Twist(plus(twist.linear, first[link].change), twist.angular)
            for link, twist in twists.items()
        }

    def _meeting(self, x: Candidate) -> tuple[Scalar, Scalar, Vector]:
        """When a point hits a plane, the change of velocity that keeps it above it, and its normal."""
        ops, gap, into = self.ops, self.ops.maximum(x.gap, 0.0), -self.h * self._speed(x, self.twists)
        hits = ops.less(gap, into)
        time = ops.select(hits, gap * (1.0 / ops.maximum(into, TINY)), NEVER)
        return time, (into - gap) * (1.0 / self.h), [row[2] for row in ops.entries(x.axes)]

    # -- contacts ------------------------------------------------------------------------------------------------------

    def _on_path(self, k: int, normal: Vector, acts: Scalar, x: Entry, twists: Twists) -> list[Candidate]:
        """Contacts of a pair: those at the start where they are in nobody's way, or of the face that is hit."""
        ops, h, now = self.ops, self.h, self.found[k]
        part = ops.minimum(x.time, 1.0)
        start, then = self.placed[k], self._moved(k, twists, part)
        same = SAME_FACE if _is_formula(start) else SAME_NORMAL
        instead = acts * ops.less(0.0, x.time) * ops.less(dot(x.axis.start, normal), same)
        n = x.axis.at(ops, part)
        back = self._way_back(k, start, then, n)
        found = [(gap, n, minus(point, back), there) for gap, n, point, there in contacts(*then, n)]
        far, out = 2.0 * (start[0].size + start[1].size), list[Candidate]()
        moved = self.pairs[k].between_links(At(self.robot, k), start, found)
        for old, new, (gap, _, _, there) in zip(now, moved, found, strict=True):
            before = gap - part * h * self._speed(new, twists)
            gap = ops.maximum(before, ops.minimum(gap, 0.0))  # what parts is no overlap
            gap = ops.select(instead, gap + (1.0 - there) * far, old.gap)
            arms = {link: _either(ops, instead, arm, old.arms[link]) for link, arm in new.arms.items()}
            belt = chosen(ops, instead, new.belt, old.belt)
            out.append(Candidate(gap, _either(ops, instead, new.axes, old.axes), arms, belt, instead))
        return out

    def _way_back(self, k: int, start: tuple[Placed, Placed], then: tuple[Placed, Placed], n: Vector) -> Vector:
        """How far contact points go that are where they are on what moves more.

        Of two links they go half-way between these along normals.
        """
        shifts = [minus(y.origin, x.origin) for x, y in zip(start, then, strict=True)]
        out: Vector = [0.0] * 3
        weights: Scalar = SQUARE_FLOOR
        for shift in shifts:
            square = dot(shift, shift)
            out, weights = plus_scaled(out, shift, square), weights + square
        out = [x * (1.0 / weights) for x in out]
        if len(self.found[k][0].arms) == 1:
            return out
        return plus_scaled(out, n, dot(n, [0.5 * y - x for x, y in zip(out, plus(*shifts), strict=True)]))


def turned(ops: Ops, angular: Vector, t: Scalar, R: Matrix) -> Matrix:
    """A rotation (3 × 3) after a time, by a constant angular velocity in axes of the world: ``exp(t ω ×) R``."""
    once, twice = turning_parts(ops, angular, t)
    W = cross_matrix(ops, from_entries(ops, angular))
    return R + scaled_matrix(ops, once, W @ R) + scaled_matrix(ops, twice, W @ (W @ R))


def turning_parts(ops: ScalarOps, angular: Sequence[Scalar], t: Scalar) -> tuple[Scalar, Scalar]:
    """Factors of ``ω × x`` and of ``ω × (ω × x)`` by which a vector ``x`` changes that turns for a time."""
    half = 0.5 * t * ops.sqrt(dot(angular, angular) + SQUARE_FLOOR)
    half = ops.maximum(half, 1e-12)  # the sine over the angle is exact there
    part = ops.sin(half) * (1.0 / half)
    return t * (part * ops.cos(half)), 0.5 * t * t * part * part


def _either(ops: Ops, condition: Scalar, a: Matrix, b: Matrix) -> Matrix:
    return ops.matrix([chosen(ops, condition, x, y) for x, y in zip(ops.entries(a), ops.entries(b), strict=True)])


def _is_formula(pair: tuple[Placed, Placed]) -> bool:
    """Whether contacts of two shapes follow from formulas, without iterations."""
    return any(has_formula(x.shape, y.shape) for x, y in (pair, pair[::-1]))
