"""The problem of a contact step, ``u = G p + b``, with a law for each contact point and each joint; and residuals.

``b`` are velocities without impulses, and for normals also ``d``, what is left of the gap, ``φ / h``.

==============  =====================================================================================================
contact point   rows tangent, tangent, normal: ``0 ≤ p_n ⟂ u_n ≥ 0``, and ``|p_t| ≤ μ p_n`` against the sliding
                velocity
limits          ``p ≥ 0`` only where ``u`` is at its least value, ``p ≤ 0`` only where it is at its largest one
dry friction    ``|p| ≤ f h`` against the velocity, ``u = 0`` inside of that
==============  =====================================================================================================

Impulses of limits and of dry friction are on one row, that of the joint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, cast

from delassus.algorithms.contact.point import SQUARE_FLOOR, PointBlock
from delassus.spatial.ops import Ops, Scalar

STOP_RATIO = 0.1
"""Solvers end where a pass changes velocities by less than this part of the tolerance."""

SATURATED = 1.0 - 1e-9
"""Part of the largest friction of a joint from which on it slides, where its impulse is told from that of limits."""

PROXIMAL = 1e-9
"""What is added to mobilities by which impulses are found, relative to those of the point if loops were open."""


class Outcome(NamedTuple):
    """Impulses, velocities of all rows after them, the kinetic energy (J) that they add, and residuals."""

    p: list[Scalar]
    velocities: list[Scalar]
    energy: Scalar
    residuals: tuple[Scalar, Scalar, Scalar]


Bounds: TypeAlias = "tuple[Scalar | None, Scalar | None]"
"""Least and largest velocity; None is without."""


@dataclass(frozen=True, slots=True)
class PointLaw:
    """A contact point: its first row, its friction coefficient, and the rate ``d`` at which its gap may close.

    ``belt`` is what the motion of surfaces adds to the velocities along the tangents; ``floor`` is the least normal
    impulse, zero if None.
    """

    row: int
    friction: Scalar
    rate: Scalar
    belt: Sequence[Scalar] = ()
    floor: Scalar | None = None


@dataclass(frozen=True, slots=True)
class JointLaw:
    """A joint: its row, velocities ``least`` and ``most`` that its limits allow, and largest impulse of dry friction.

    None is without limits, or without friction.
    """

    row: int
    bounds: Bounds | None
    friction: Scalar | None


class StepProblem:
    """``u = G p + b`` and its laws.

    Attributes
    ----------
    G : list of list of Scalar
        Delassus matrix (m × m).
    free, b : list of Scalar
        Velocities of the rows without impulses (m), relative to surfaces; and with the rates of gaps.
    size_of : sequence of Scalar
        Mobility of each row if loops were open (m): how small that of ``G`` may be.
    points, joints : list of PointLaw and of JointLaw
    size : int
        Number of unknowns: three a point, one for the limits and one for the friction of a joint, in this order.
    pyramid : bool
        Whether friction is that of a pyramid of four sides, in place of the cone.
    """

    def __init__(
        self,
        ops: Ops,
        G: Sequence[Sequence[Scalar]],
        free: Sequence[Scalar],
        size_of: Sequence[Scalar],
        points: Sequence[PointLaw],
        joints: Sequence[JointLaw],
        pyramid: bool,
    ) -> None:
        self.ops, self.G, self.points, self.joints = ops, G, list(points), list(joints)
        self.free = list(free)
        for x in self.points:
            for k, velocity in enumerate(x.belt):
                self.free[x.row + k] = self.free[x.row + k] + velocity
        self.b = list(self.free)
        for x in self.points:
            self.b[x.row + 2] = self.free[x.row + 2] + x.rate
        self.pyramid = pyramid
        unknowns = [(x.row + k) for x in self.points for k in range(3)]
        self.limits = {x.row: len(unknowns) + k for k, x in enumerate(x for x in self.joints if x.bounds)}
        unknowns += self.limits
        with_friction = [x for x in self.joints if x.friction is not None]
        self.dry = {x.row: len(unknowns) + k for k, x in enumerate(with_friction)}
        self.rows = [*unknowns, *self.dry]
        self.size = len(self.rows)
        # a little more: some rows cannot move, and what stays where it is solves a law whatever the step
        least = {x.row: PROXIMAL * size_of[x.row] + SQUARE_FLOOR for x in self.joints}
        for x in self.points:
            most = maximum_of(ops, [size_of[x.row + k] for k in range(3)])
            least |= {x.row + k: PROXIMAL * most + SQUARE_FLOOR for k in range(3)}
        self.over = {row: 1.0 / (G[row][row] + least[row]) for row in dict.fromkeys(self.rows)}
        self.mobility = {x.row: self._largest_eigenvalue(x.row) + least[x.row] for x in self.points}
        own = [[G[x.row + k][x.row : x.row + 3] for k in range(3)] for x in self.points]
        self.blocks = [
            PointBlock(ops, W, x.friction, least[x.row], self.size == 3) for x, W in zip(self.points, own, strict=True)
        ]

    def _largest_eigenvalue(self, k: int) -> Scalar:
        """Largest eigenvalue of the 2 × 2 block of ``G`` at the two tangents of a point."""
        a, b, d = self.G[k][k], self.G[k][k + 1], self.G[k + 1][k + 1]
        half = 0.5 * (a - d)
        return 0.5 * (a + d) + self.ops.sqrt(half * half + b * b + SQUARE_FLOOR)

    def totals(self, p: Sequence[Scalar]) -> dict[int, Scalar]:
        """Impulse along each row."""
        return by_row(self.rows, p)

    def velocity(self, row: int, impulses: dict[int, Scalar]) -> Scalar:
        """``u`` of a row."""
        return sum((self.G[row][other] * x for other, x in impulses.items()), self.b[row])

    def safe(self, p: Sequence[Scalar], budget: Scalar = 0.0) -> Outcome:
        """Impulses that add no kinetic energy beyond a budget (J): ``α p`` with the largest such ``α ≤ 1``.

        ``½ α² pᵀ G p + α pᵀ free ≤ budget``; of a solution, ``α = 1``. What is in a cone stays there.
        """
        ops, totals = self.ops, self.totals(p)
        moved = [sum((row[k] * x for k, x in totals.items()), cast(Scalar, 0.0)) for row in self.G]
        square: Scalar = SQUARE_FLOOR
        work: Scalar = 0.0
        for row, x in totals.items():
            square, work = square + x * moved[row], work + x * self.free[row]
        root = ops.sqrt(ops.maximum(work * work + 2.0 * square * budget, 0.0))
        part = ops.maximum(ops.minimum((root - work) / square, 1.0), 0.0)
        p, moved = [part * x for x in p], [part * x for x in moved]
        energy = part * (work + 0.5 * part * square)
        u = [x + y for x, y in zip(moved, self.b, strict=True)]
        return Outcome(p, [x + y for x, y in zip(moved, self.free, strict=True)], energy, self.residuals(p, u))

    def own_velocities(self, p: Sequence[Scalar]) -> list[Scalar]:
        """What impulses do to the velocities of their own points and joints: none, where a point cannot move."""
        out = []
        for i, block in enumerate(self.blocks):
            own = p[3 * i : 3 * i + 3]
            out += [x * own[0] + y * own[1] + z * own[2] for x, y, z in block.W]
        return out + [self.G[k][k] * x for k, x in zip(self.rows[len(out) :], p[len(out) :], strict=True)]

    def point_friction(self, x: PointLaw, p: Sequence[Scalar], u: Sequence[Scalar], normal: Scalar) -> list[Scalar]:
        """Friction after a step against the sliding velocity, back in the cone, or in the pyramid."""
        ops, limit = self.ops, x.friction * normal
        if self.pyramid:
            tried = [a - v * self.over[x.row + k] for k, (a, v) in enumerate(zip(p, u, strict=True))]
            return [clamped(ops, a, -limit, limit) for a in tried]
        over = 1.0 / self.mobility[x.row]
        a, b = (y - v * over for y, v in zip(p, u, strict=True))
        part = ops.minimum(limit / ops.sqrt(a * a + b * b + SQUARE_FLOOR), 1.0)
        return [part * a, part * b]

    def normal(self, x: PointLaw, p: Scalar, u: Scalar) -> Scalar:
        """Normal impulse by which the contact, alone, would not approach."""
        return self.ops.maximum(p - u * self.over[x.row + 2], 0.0 if x.floor is None else x.floor)

    def raised(self, x: PointLaw, p: Sequence[Scalar], u: Sequence[Scalar], found: Sequence[Scalar]) -> list[Scalar]:
        """What has been found for a point, or the least normal impulse with friction that goes with it."""
        if x.floor is None:
            return list(found)
        rise, k = x.floor - p[2], x.row
        tangents = [v + self.G[k + i][k + 2] * rise for i, v in enumerate(u[:2])]
        least = [*self.point_friction(x, p[:2], tangents, x.floor), x.floor]
        below = self.ops.less(found[2], x.floor)
        return [self.ops.select(below, a, b) for a, b in zip(least, found, strict=True)]

    def limit_impulse(self, x: JointLaw, p: Scalar, u: Scalar) -> Scalar:
        """Impulse of limits by which the joint, alone, would keep within them."""
        assert x.bounds is not None
        return within(self.ops, x.bounds, p, u, self.over[x.row])

    def dry_friction(self, x: JointLaw, p: Scalar, u: Scalar) -> Scalar:
        """Impulse of dry friction by which the joint, alone, would stop, or as much as there is."""
        assert x.friction is not None
        return clamped(self.ops, p - u * self.over[x.row], -x.friction, x.friction)

    def image(self, totals: Sequence[Scalar]) -> list[Scalar]:
        """Impulses along rows that each law alone makes of these, and of velocities that they leave; see `implicit`."""
        along = dict(zip(self.totals(self.rows), totals, strict=True))
        out = dict(along)
        for x in self.points:
            own = [along[x.row + k] for k in range(3)]
            *tangents, n = (self.velocity(x.row + k, along) for k in range(3))
            moved = [*self.point_friction(x, own[:2], tangents, own[2]), self.normal(x, own[2], n)]
            out |= {x.row + k: new for k, new in enumerate(moved)}
        for y in self.joints:
            if y.row in along:
                out[y.row] = self.joint_impulse(y, along[y.row], self.velocity(y.row, along))
        return list(out.values())

    def joint_impulse(self, x: JointLaw, p: Scalar, u: Scalar) -> Scalar:
        """Impulse of friction and limits together by which the joint, alone, would obey both.

        At the velocity ``s`` that they leave of ``u − p / over``: what friction slows, within the limits.
        """
        ops, over, friction = self.ops, self.over[x.row], 0.0 if x.friction is None else x.friction
        free = p - u * over  # impulse that stops it, less than that of before
        slowed = clamped(ops, free, -friction, friction) - free
        for bound, nearer in zip(x.bounds or (None, None), (ops.maximum, ops.minimum), strict=True):
            if bound is not None:
                slowed = nearer(slowed, bound * over)
        return free + slowed

    def implicit(self, p: Sequence[Scalar]) -> list[Scalar]:
        """Impulses of a solution, as what follows from the laws where the step is differentiated."""
        totals = self.totals(p)
        found = dict(zip(totals, self.ops.implicit(list(totals.values()), self.image), strict=True))
        out = [found[row] for row in self.rows]
        for y in self.joints:
            if y.row in self.limits and y.row in self.dry:
                assert y.friction is not None
                dry = p[self.dry[y.row]]
                sticks = self.ops.less(magnitude(self.ops, dry), SATURATED * y.friction)
                least = found[y.row] - p[self.limits[y.row]]
                dry = self.ops.select(sticks, least, self.ops.copysign(y.friction, dry))
                out[self.dry[y.row]], out[self.limits[y.row]] = dry, found[y.row] - dry
        return out

    def residuals(self, p: Sequence[Scalar], velocities: Sequence[Scalar]) -> tuple[Scalar, Scalar, Scalar]:
        """Violation in m/s (rad/s): of complementarity, of friction, and velocity of penetration.

        Of each law, how far an impulse would move in it, times the mobility of its row: zero in a solution alone.
        """
        ops = self.ops
        complementarity: list[Scalar] = [0.0]
        friction_errors: list[Scalar] = [0.0]
        penetration: list[Scalar] = [0.0]
        for i, x in enumerate(self.points):
            row = x.row + 2
            *tangents, n = velocities[x.row : x.row + 3]
            a, b, c = p[3 * i : 3 * i + 3]
            complementarity.append(magnitude(ops, c - self.normal(x, c, n)) * self.G[row][row])
            moved = self.point_friction(x, (a, b), tangents, c)
            errors = [y - z for y, z in zip((a, b), moved, strict=True)]
            friction_errors.append(
                ops.sqrt(errors[0] * errors[0] + errors[1] * errors[1] + SQUARE_FLOOR) * self.mobility[x.row]
            )
            penetration.append(-n)
        for y in self.joints:
            u, at = velocities[y.row], self.G[y.row][y.row]
            if y.row in self.limits:
                own = p[self.limits[y.row]]
                complementarity.append(magnitude(ops, own - self.limit_impulse(y, own, u)) * at)
            if y.row in self.dry:
                own = p[self.dry[y.row]]
                friction_errors.append(magnitude(ops, own - self.dry_friction(y, own, u)) * at)
        return maximum_of(ops, complementarity), maximum_of(ops, friction_errors), maximum_of(ops, penetration)


def by_row(rows: Sequence[int], p: Sequence[Scalar]) -> dict[int, Scalar]:
    """Sums of numbers, by their rows."""
    out: dict[int, Scalar] = {}
    for row, x in zip(rows, p, strict=True):
        out[row] = out[row] + x if row in out else x
    return out


def within(ops: Ops, bounds: Bounds, p: Scalar, u: Scalar, over: Scalar) -> Scalar:
    """Impulse in place of ``p`` by which the velocity, ``u`` now, is not beyond bounds; ``over`` is 1 over mobility."""
    least, most = bounds
    out: Scalar = 0.0
    if least is not None:
        out = ops.maximum(p - (u - least) * over, 0.0)
    if most is not None:
        out = out + ops.minimum(p - (u - most) * over, 0.0)
    return out


def clamped(ops: Ops, x: Scalar, least: Scalar, most: Scalar) -> Scalar:
    """``x``, or the bound that it is beyond."""
    return ops.maximum(ops.minimum(x, most), least)


def magnitude(ops: Ops, x: Scalar) -> Scalar:
    """``|x|``."""
    return ops.maximum(x, -x)


def maximum_of(ops: Ops, values: Sequence[Scalar]) -> Scalar:
    """The largest of some numbers."""
    out, *rest = values
    for x in rest:
        out = ops.maximum(out, x)
    return out


Solver = Callable[[StepProblem, Sequence[Scalar], int, float], list["Scalar"]]
"""From a problem, impulses to start from, the number of passes and a tolerance (m/s) to impulses."""
