"""Contacts that turn within a step, in kernels: offsets ``κ`` of those that touch, as scenes have them.

``κ`` (m/s) is what gap and slip over the displacement of the step differ by from what the rows of the start say of the
velocity ``ṽ`` of the start, along two tangents and the normal; see `delassus.contact.sparse.turning`, whose law this
is. Contacts at the poses ahead are those of the same number, where a shape is on a plane or touches at one point, and
else those nearest to where both bodies carry them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from delassus.constraints.constraint import At, Configuration
from delassus.constraints.contact import Contact, contacts_of
from delassus.constraints.frame import Frame
from delassus.constraints.paths import StepPath, Twist, Twists
from delassus.model.shapes import Box, Cylinder, Mesh
from delassus.model.topology import characteristic_length
from delassus.spatial.motion import chosen, column, cross_entries, dot, from_entries, minus, plus, plus_scaled
from delassus.spatial.ops import SQUARE_FLOOR, Matrix, Ops, Scalar, ScalarOps

RESTING = 1e-5
"""Velocity (m/s, rad/s) up to which what touches rests, and does not turn: ``κ`` goes with its square."""

STRAIGHT = 1e-9
"""Angle (rad) that flat shapes may turn in a step beside one another, and do not turn."""

CHANGE = 10.0
"""Over the gap up to which contacts are closed, what turning may change a gap by in a step."""

OF_FACE = 3
"""Contacts of what lies on a face."""

MERGED = 1.05
"""Square of a way over that of another up to which their ends are in one place: the two rims of a thin disk."""

HELD = 4.0
"""Over what turns within a step, the slip up to which a face is held: that of the start doubles it."""

SAME_SIDE = 0.9
"""Cosine of the angle up to which the normal of a contact may turn in a step."""

ALIKE = 1e-7
"""Velocity (m/s) up to which offsets are of no matter to derivatives: these are not cut, and not near that."""

ROUNDING = 64.0
"""Round-off of a way over that of numbers (m), which may be more over a step."""

NEVER = 1e30
"""Velocity (m/s) of what is cut nowhere near."""

FAR = 1e30
"""Square of a length (m²) that is longer than any."""

Vector = list["Scalar"]


class Chord(NamedTuple):
    """Path of a link over a step, in axes of the world.

    Its rotation (3 × 3) and origin (3) at both ends, its twist at the start, the ``way`` (3) of the origin and its
    ``middle``, and ``turn`` (3), the rotation vector (rad).
    """

    R: Matrix
    origin: Vector
    R_end: Matrix
    origin_end: Vector
    twist: Twist
    way: Vector
    middle: Vector
    turn: Vector

    def of_shape(self, at: At, frame: Frame) -> Chord:
        """The same path with the ``way`` of the origin of a shape: what is round rolls about it."""
        arm = frame.on(at.tree).position[:, None]
        centre = plus(self.origin, column(at.ops, self.R @ at.ops.constant(arm)))
        end = self.to_end(at.ops, centre)
        return self._replace(way=minus(end, centre), middle=[0.5 * (x + y) for x, y in zip(centre, end, strict=True)])

    def to_end(self, ops: Ops, x: Vector) -> Vector:
        """Where a point at ``x`` goes with the link."""
        own = ops.transpose(self.R) @ from_entries(ops, minus(x, self.origin))
        return plus(self.origin_end, column(ops, self.R_end @ own))

    def velocity(self, x: Vector) -> Vector:
        """Velocity (m/s) at the start of the point at ``x``."""
        return plus(self.twist.linear, cross_entries(self.twist.angular, minus(x, self.origin)))

    def way_of(self, x: Vector) -> Vector:
        """How far the point goes that is at ``x`` halfway (m)."""
        return plus(self.way, cross_entries(self.turn, minus(x, self.middle)))


def chord_of(ops: Ops, R: Matrix, origin: Matrix, R_end: Matrix, origin_end: Matrix, twist: Twist) -> Chord:
    """Path of a link from its poses at both ends (origins 3 × 1) and its twist at the start."""
    turn = turn_between(ops, ops.entries(ops.transpose(R)), ops.entries(ops.transpose(R_end)))
    start, end = column(ops, origin), column(ops, origin_end)
    middle = [0.5 * (x + y) for x, y in zip(start, end, strict=True)]
    return Chord(R, start, R_end, end, twist, minus(end, start), middle, turn)


def turn_between(ops: ScalarOps, start: Sequence[Sequence[Scalar]], end: Sequence[Sequence[Scalar]]) -> Vector:
    """Rotation vector (rad) from one rotation to another that is near, of their columns (3 × 3)."""
    turn: Vector = [0.0] * 3
    for a, b in zip(start, end, strict=True):
        turn = plus_scaled(turn, cross_entries(a, b), 0.5)
    square = dot(turn, turn)  # of the sine; what follows begins the series of the angle over it
    over = 1.0 + square * (1.0 / 6.0 + square * (3.0 / 40.0 + square * (5.0 / 112.0)))
    return [over * x for x in turn]


class Spot(NamedTuple):
    """A contact: its gap (m), tangents and normal (3 each), and its point (3) in the world."""

    gap: Scalar
    tangents: Sequence[Vector]
    normal: Vector
    point: Vector

    def rather(self, ops: Ops, other: Spot, better: Scalar) -> Spot:
        """Gap, normal and point of the other one where that is ``better``; tangents stay."""
        gap = ops.select(better, other.gap, self.gap)
        return Spot(gap, self.tangents, *(chosen(ops, better, x, y) for x, y in zip(other[2:], self[2:], strict=True)))


class FaceCentre(NamedTuple):
    """Of contacts of a face that ``holds`` (1, else 0): where their middle is at the start and halfway (3 each)."""

    holds: Scalar
    start: Vector
    halfway: Vector

    @classmethod
    def of(cls, ops: Ops, holds: Scalar, start: Vector, a: Chord, b: Chord) -> FaceCentre:
        """That of links on two paths."""
        ends = zip(start, a.to_end(ops, start), b.to_end(ops, start), strict=True)
        return cls(holds, start, [0.5 * x + 0.25 * (y + z) for x, y, z in ends])


class Offset(NamedTuple):
    """``κ`` (3, m/s) of a contact, and by how much velocities (m/s) are apart at which it is cut, or is not."""

    kappa: Vector
    distance: Scalar


class ContactMotion(NamedTuple):
    """Of a contact over a step, in m/s: by what slips differ from those of ``now`` (2 each), and by what the gap opens.

    ``u`` is by what it opens now, and ``cosine`` that of the angle by which its normal turns.
    """

    turned: Vector
    now: Vector
    opened: Scalar
    u: Scalar
    cosine: Scalar

    def slip(self) -> Vector:
        """Slips over the step."""
        return [x + y for x, y in zip(self.turned, self.now, strict=True)]


def motion_of(
    ops: Ops, h: Scalar, start: Spot, end: Spot, is_same: Scalar | None, chords: tuple[Chord, Chord | None],
    belts: tuple[Vector, Vector] | None, centre: FaceCentre | None = None,
) -> ContactMotion:  # fmt: skip
    """That of one contact over a step of ``h`` seconds.

    ``end`` is the contact at the poses ahead that ``is_same`` (1, or None for certain); where it is not (0), it has the
    normal of the face that both lie on, and both bodies carry the point. Its normal is ``start.normal`` itself where
    that cannot turn. ``chords`` are the paths of both links, None of the world; ``belts`` are velocities of the first's
    surface over the second's in the world, at the start and halfway. Where a ``centre`` holds, the point halfway goes
    with it, and turns as the normal does: slips of a face are those of a rigid motion then.
    """
    a, b = chords
    n, x, y, opened = start.normal, start.point, end.point, end.gap - start.gap
    velocity = a.velocity(x) if b is None else minus(a.velocity(x), b.velocity(x))
    if b is None:  # open contacts are on the link: what is between the surfaces follows their gap smoothly
        x, y = (midway(ops, p.point, p.normal, p.gap, 1.0) for p in (start, end))
    if is_same is not None:
        to_a, to_b = a.to_end(ops, x), x if b is None else b.to_end(ops, x)
        opened = ops.select(is_same, opened, dot(end.normal, minus(to_a, to_b)))
        y = chosen(ops, is_same, y, [0.5 * (p + q) for p, q in zip(to_a, to_b, strict=True)])
    middle = [0.5 * (p + q) for p, q in zip(x, y, strict=True)]
    turn = _halfway(ops, start, end)
    if centre is not None:
        middle = chosen(ops, centre.holds, plus(centre.halfway, turn(minus(x, centre.start))), middle)
    way = a.way_of(middle) if b is None else minus(a.way_of(middle), b.way_of(middle))
    slip, halfway = velocity, [(1.0 / h) * c for c in way]
    if belts is not None:  # these move along surfaces
        slip, halfway = plus(slip, belts[0]), plus(halfway, belts[1])
    now = [dot(t, slip) for t in start.tangents]
    turned = [dot(turn(t), halfway) - own for t, own in zip(start.tangents, now, strict=True)]
    cosine = 1.0 if end.normal is n else dot(n, end.normal)
    return ContactMotion(turned, now, (1.0 / h) * opened, dot(n, velocity), cosine)


def cut(ops: Ops, motion: ContactMotion, alike: Scalar, squares: tuple[Scalar, Scalar]) -> Offset:
    """``κ``, which along tangents is cut as ``squares`` of what turns and slips say (m²/s²)."""
    size, most = (ops.sqrt(x + SQUARE_FLOOR) for x in squares)
    opens, least = motion.opened - motion.u, ops.minimum(motion.u, 0.0)
    larger = ops.less(most + alike, size)
    part = ops.select(larger, most / ops.select(larger, size, 1.0), 1.0)
    opening = ops.select(ops.less(opens, least - alike), least, opens)
    turns = 1.0 - ops.less(motion.cosine, SAME_SIDE)
    slides = ops.select(ops.less(alike, size), _size(ops, size - most), NEVER)
    presses = ops.select(ops.less(opens, 0.0), ops.minimum(_size(ops, opens - least), _size(ops, motion.u)), opens)
    presses = ops.select(ops.less(alike, _size(ops, opens)), presses, NEVER)
    return Offset([turns * x for x in (*(part * x for x in motion.turned), opening)], ops.minimum(slides, presses))


def _halfway(ops: Ops, start: Spot, end: Spot) -> Callable[[Vector], Vector]:
    """What turns a vector as the normal of the start turns to where it is halfway."""
    n = start.normal
    if end.normal is n:
        return lambda x: list(x)
    half = plus(n, end.normal)
    over = 1.0 / ops.sqrt(dot(half, half) + SQUARE_FLOOR)
    half = [over * c for c in half]
    return lambda x: turned_halfway(ops, x, n, half)


def midway(ops: ScalarOps, x: Sequence[Scalar], n: Sequence[Scalar], gap: Scalar, side: Scalar) -> Vector:
    """The place between the surfaces of a contact at ``x``, which is on the body that moves where it is open.

    ``side``: 1 where the second, −1 where the first one is the world; else 0.
    """
    return plus_scaled(x, n, -0.5 * side * ops.maximum(gap, 0.0))


def turned_halfway(ops: ScalarOps, x: Sequence[Scalar], n: Sequence[Scalar], half: Sequence[Scalar]) -> Vector:
    """A vector (3,), turned as the unit normal ``n`` to that ``half`` of the way."""
    both, part = plus(n, half), 1.0 / (1.0 + dot(n, half))
    return plus_scaled(plus_scaled(x, both, -part * dot(x, both)), half, 2.0 * dot(x, n))


class TurningPair:
    """Contacts of one constraint at the start of a step and at the poses ahead, and which of these are the same."""

    def __init__(
        self, start: At, ahead: At, h: Scalar, closed: float, alike: Scalar, chords: tuple[Chord, Chord | None]
    ) -> None:  # fmt: skip
        self.ops, self.h, self.closed, self._at, self._ahead, self.alike = start.ops, h, closed, start, ahead, alike
        self.contact, self.touching = _contact(start), _touching(start, closed)
        (a, b), second = chords, self.contact.second
        of_second = None if b is None or second is None else b.of_shape(start, second)
        self.chords = a.of_shape(start, self.contact.frame), of_second
        self.starts, self.ends = _places(start), _places(ahead)
        if self.contact.second is None:
            self.ends = [self._on_plane(*both) for both in zip(self.starts, self.ends, strict=True)]
        self.rotates = _rotates(start, [a.twist for a in chords if a is not None], h)
        self._least = self.ends[0].gap
        for end in self.ends[1:]:
            self._least = self.ops.minimum(self._least, end.gap)

    def offsets(self) -> list[Offset]:
        """That of each contact, ``κ`` zero where it does not turn, or is apart."""
        ops, belts, out = self.ops, self._belts(), list[Offset]()
        deepest = self._deepest() if self.contact.second is not None and len(self.ends) > 1 else None
        motions, contacts = list[ContactMotion](), list[tuple[Spot, Spot, Scalar | None]]()
        acting = list[Scalar]()
        for e, start in enumerate(self.starts):
            if deepest is None:
                end, same, is_same = self._by_number(e)
            else:
                end, same = self._nearest(e, deepest)
                is_same = same
            acting.append(self.touching[e] * self.rotates * ops.maximum(same, self._lies_on_face()))
            contacts.append((start, end, is_same))
            motions.append(motion_of(ops, self.h, *contacts[-1], self.chords, belts))
        squares = [(dot(x.turned, x.turned), dot(x.now, x.now)) for x in motions]
        if self.chords[1] is not None and len(motions) >= OF_FACE:
            centre = self._centre(motions, acting)
            motions = [motion_of(ops, self.h, *x, self.chords, belts, centre) for x in contacts]
            squares = [(dot(x.turned, x.turned), dot(x.now, x.now)) for x in motions]
            size, most = [self._sum(acting, x) for x in zip(*squares, strict=True)]
            squares = [(ops.select(centre.holds, size, x), ops.select(centre.holds, most, y)) for x, y in squares]
        for acts, motion, own in zip(acting, motions, squares, strict=True):
            kappa, distance = cut(ops, motion, self.alike, own)
            out.append(Offset([ops.select(acts, x, 0.0) for x in kappa], ops.select(acts, distance, NEVER)))
        return out

    def _sum(self, acting: Sequence[Scalar], x: Sequence[Scalar]) -> Scalar:
        """The sum of what is of contacts that act."""
        return sum((self.ops.select(acts, y, 0.0) for acts, y in zip(acting, x, strict=True)), cast(Scalar, 0.0))

    def _centre(self, motions: Sequence[ContactMotion], acting: Sequence[Scalar]) -> FaceCentre:
        """Middle of contacts that act: it holds where a face slips by no more than what turns within a step."""
        ops, (a, b) = self.ops, self.chords
        assert b is not None
        slips = self._sum(acting, [dot(x.slip(), x.slip()) for x in motions])
        turned = self._sum(acting, [dot(x.turned, x.turned) for x in motions])
        n = self._sum(acting, [1.0] * len(acting))
        holds = ops.less(slips, HELD * HELD * turned) * ops.less(OF_FACE - 0.5, n)
        over = 1.0 / ops.maximum(n, 1.0)
        start = [over * self._sum(acting, [x.point[c] for x in self.starts]) for c in range(3)]
        return FaceCentre.of(ops, holds, start, a, b)

    def _by_number(self, e: int) -> tuple[Spot, Scalar, Scalar | None]:
        """The contact at the end, and 1 where it is the same one, twice; the second is None where it follows a body."""
        ops, start, end, shape = self.ops, self.starts[e], self.ends[e], self.contact.shape
        same = self._is_as_deep(start, end)
        if self.contact.second is not None:
            return end, same, None
        if isinstance(shape, Cylinder):  # the lowest point of a rim goes round
            away = minus(end.point, self._carried(start))
            same = same * ops.less(dot(away, away), 0.5 * shape.radius * shape.radius)
            return end, same, same
        return end, same, None

    def _on_plane(self, start: Spot, end: Spot) -> Spot:
        """A contact at the end with the plane of the start: where planes come with calls, they are those below it."""
        ops, n, gap = self.ops, start.normal, start.gap

        def above(gap: Scalar) -> Scalar:
            """Height of the surface of the link over the contact point."""
            return 0.5 * ops.minimum(gap, 0.0)

        if isinstance(self.contact.shape, Mesh):  # of many corners another one may have the number
            corner = plus_scaled(start.point, n, above(gap))
            later = self.chords[0].to_end(ops, corner)
            gap = gap + dot(n, minus(later, corner))
            return Spot(gap, end.tangents, n, plus_scaled(later, n, -above(gap)))
        if self.contact.ground != "input":
            return end._replace(normal=n)
        opened = dot(n, minus(end.point, start.point)) + above(end.gap) - above(gap)
        return Spot(gap + opened, end.tangents, n, plus_scaled(end.point, n, above(end.gap) - above(gap + opened)))

    def _deepest(self) -> Spot:
        """The deepest contact at the end."""
        deepest, *others = self.ends
        for end in others:
            deepest = deepest.rather(self.ops, end, self.ops.less(end.gap, deepest.gap))
        return deepest

    def _nearest(self, e: int, deepest: Spot) -> tuple[Spot, Scalar]:
        """The same of a pair that touches at several points, which have no numbers.

        It is nearest to where both bodies carry it, by less than half of the way to any other; of those in one place it
        is the one with its gap. Where fewer touch at the end, as of what slides over an edge, none is for certain.
        """
        ops, start, middle = self.ops, self.starts[e], self._carried(self.starts[e])
        least: Scalar = FAR
        other: Scalar = FAR
        change: Scalar = FAR
        best = self.ends[0]
        for end in self.ends:
            away, own, fits = minus(end.point, middle), _size(ops, end.gap - start.gap), self._is_as_deep(start, end)
            square = dot(away, away)
            farther, nearer = ops.less(MERGED * least, square), ops.less(MERGED * square, least)
            closer = (1.0 - farther) * (1.0 - nearer) * ops.less(own, change)
            passed = ops.select(farther, ops.minimum(other, square), ops.select(nearer, least, other))
            taken, other = fits * ops.maximum(nearer, closer), ops.select(fits, passed, other)
            least, change = ops.select(taken, square, least), ops.select(taken, own, change)
            best = best.rather(ops, end, taken)
        for c, beside in enumerate(self.starts):
            if c != e:
                away = minus(beside.point, start.point)
                square = dot(away, away)
                apart = self.touching[c] * ops.less((MERGED - 1.0) ** 2 * least, square)
                other = ops.select(apart, ops.minimum(other, square), other)
        left = sum(self.touching, cast(Scalar, 0.0))
        for end in self.ends:
            left = left - (1.0 - ops.less(self.closed, end.gap))
        same = ops.less(4.0 * least, other) * ops.less(left, 0.5)
        return deepest.rather(ops, best, same), same

    def _is_as_deep(self, start: Spot, end: Spot) -> Scalar:
        """1 where a gap changes little, and none at the end is deeper."""
        little = 1.0 - self.ops.less(CHANGE * self.closed, _size(self.ops, end.gap - start.gap))
        if len(self.ends) == 1:
            return little
        return little * (1.0 - self.ops.less(self.closed, end.gap - self._least))

    def _lies_on_face(self) -> Scalar:
        """1 where as many contacts touch as on a face."""
        if len(self.starts) < OF_FACE:
            return 0.0
        return self.ops.less(OF_FACE - 0.5, sum(self.touching, cast(Scalar, 0.0)))

    def _carried(self, start: Spot) -> Vector:
        """The middle of where both bodies carry a contact."""
        x, (a, b) = start.point, self.chords
        to_b = x if b is None else b.to_end(self.ops, x)
        return [0.5 * (p + q) for p, q in zip(a.to_end(self.ops, x), to_b, strict=True)]

    def _belts(self) -> tuple[Vector, Vector] | None:
        """Velocity of the first's surface over the second's, at the start and halfway."""
        now, later = (self.contact.surface_motion(at) for at in (self._at, self._ahead))
        if now is None or later is None:
            return None
        return now, [0.5 * (x + y) for x, y in zip(now, later, strict=True)]


class Turning:
    """Offsets of all contacts of a step.

    ``robot`` is at the start, with its contacts (`Configuration.candidates`, those on paths), and ``ahead`` the same
    robot, on the same operations, where it would be with the velocity of the start after ``h`` (s). ``twists`` are
    those of the start, of all links that have contacts. Contacts touch up to a gap ``closed`` (m). All may be numbers
    with rates (`DualOps`): of ``robot`` and ``ahead`` only ``ops``, ``tree``, ``constraints``, ``inputs``,
    ``link_rotations``, ``origins`` and ``candidates`` are asked for. What exceeds a cut by no more than a velocity that
    is ``alike`` (m/s) zero is not cut.
    """

    def __init__(
        self, robot: Configuration, ahead: Configuration, twists: Twists, h: Scalar, closed: float, alike: Scalar = 0.0
    ) -> None:  # fmt: skip
        self.ops, self.pairs, chords = robot.ops, list[TurningPair](), dict[int, Chord]()
        for link, twist in twists.items():
            end = ahead.link_rotations[link], ahead.origins[link]
            chords[link] = chord_of(self.ops, robot.link_rotations[link], robot.origins[link], *end, twist)
        for k, found in robot.candidates.items():
            first, *others = found[0].arms
            links = chords[first], chords[others[0]] if others else None
            self.pairs.append(TurningPair(At(robot, k), At(ahead, k), h, closed, alike, links))

    def offsets(self) -> list[Vector]:
        """``κ`` (3) of each contact point, in the order of constraints."""
        return [x.kappa for pair in self.pairs for x in pair.offsets()]

    def distances(self) -> list[Scalar]:
        """`Offset.distance` of each of them."""
        return [x.distance for pair in self.pairs for x in pair.offsets()]


def turning(robot: Configuration, ahead: Callable[[], Configuration], path: StepPath) -> list[Vector]:
    """`Turning.offsets` of a step, for which nothing is done where no contact turns."""
    ops, n = robot.ops, sum(3 * len(x) for x in robot.candidates.values())
    if not n:
        return []
    twists = path.twists(robot)

    def found(_: list[Scalar]) -> tuple[list[Scalar], Scalar]:
        return [x for own in Turning(robot, ahead(), twists, path.h, path.closed).offsets() for x in own], 1.0

    nothing = 1.0 - turns(robot, twists, path)
    offsets = ops.repeat(1, [0.0] * n, found, nothing)
    return [offsets[k : k + 3] for k in range(0, n, 3)]


def turns(robot: Configuration, twists: Twists, path: StepPath) -> Scalar:
    """1 where some contact of `Turning` touches and moves by enough to turn: offsets are more than round-off."""
    ops, h, closed = robot.ops, path.h, path.closed
    out: Scalar = 0.0
    least = ops.maximum(RESTING, math.sqrt(ROUNDING * path.epsilon) * characteristic_length(robot.tree) / h)
    moving = {link: _moves(ops, twist, least) for link, twist in twists.items()}
    for k, found in robot.candidates.items():
        at, moves, touches = At(robot, k), cast(Scalar, 0.0), cast(Scalar, 0.0)
        for link in found[0].arms:
            moves = ops.maximum(moves, moving[link])
        for x in _touching(at, closed):
            touches = ops.maximum(touches, x)
        out = ops.maximum(out, moves * touches * _rotates(at, [twists[link] for link in found[0].arms], h))
    return out


def _moves(ops: Ops, twist: Twist, least: Scalar) -> Scalar:
    """1 where a link is not at rest."""
    squares = (dot(x, x) for x in twist)
    return ops.less(least * least, ops.maximum(*squares))


def _rotates(at: At, twists: Sequence[Twist], h: Scalar) -> Scalar:
    """1 where a pair may turn: flat shapes do where they rotate."""
    ops, contact = at.ops, _contact(at)
    shapes = (contact.shape, contact.second_shape) if contact.second is not None else (contact.shape,)
    if not all(isinstance(x, Box | Mesh) for x in shapes):
        return 1.0
    angle: Scalar = 0.0
    for twist in twists:
        angle = angle + h * ops.sqrt(dot(twist.angular, twist.angular) + SQUARE_FLOOR)
    return ops.less(STRAIGHT, angle)


def _contact(at: At) -> Contact:
    (found,) = contacts_of([at.robot.constraints[at.index]])  # others have no candidates
    return found


def _touching(at: At, closed: float) -> list[Scalar]:
    """1 for each contact that touches, and was not sought on a path."""
    return [(1.0 - at.ops.less(closed, x.gap)) * (1.0 - x.on_path) for x in at.robot.candidates[at.index]]


def _places(at: At) -> list[Spot]:
    out = list[Spot]()
    for x in at.robot.candidates[at.index]:
        t, s, n = at.ops.entries(at.ops.transpose(x.axes))
        link, arm = next(iter(x.arms.items()))
        out.append(Spot(x.gap, (t, s), n, column(at.ops, at.robot.origins[link] + arm)))
    return out


def _size(ops: Ops, x: Scalar) -> Scalar:
    return ops.maximum(x, -x)
