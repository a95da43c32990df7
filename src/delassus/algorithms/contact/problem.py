"""The problem of a contact step, ``u = G p + b``: the law of each contact point and each joint, and residuals.

``b`` are velocities without impulses, and for normals also ``d``, what is left of the gap, ``φ / h``. The laws are
those of `delassus.algorithms.contact.law`; there is an impulse along each row, and a joint has one row. A contact point
may have a least normal impulse, as in decompression, with friction up to ``μ`` times the whole; with torsional or
rolling friction it is a *patch*, and has rows of spins behind those of joints. Pyramids of four sides may be in place
of cones, ``|p_x|, |p_y| ≤ μ p_n``, and of patches the same for each spin. Of a step that begins with an impact,
`impact_times` says when.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias, cast

from delassus.algorithms.contact.law import (
    clamped,
    joint,
    passive_part,
    patch_image,
    point_image,
    size_of,
)
from delassus.algorithms.contact.point import PatchBlock, PointBlock, patch_block, point_block
from delassus.spatial.motion import plus
from delassus.spatial.ops import SQUARE_FLOOR, Ops, Scalar

STOP_RATIO = 0.5
"""Solvers end where a pass changes velocities by less than this part of the tolerance."""

MOST_GAIN = 0.1
"""Of the energy that impulses bring to what rests, the part up to which a gain by turning is an error of the step."""

PROXIMAL = 1e-9
"""What is added to mobilities by which impulses are found, relative to those of the point if loops were open."""

ROUNDING = 32.0
"""Least of that over the round-off of numbers: of what cannot move, loops leave a mobility of round-off."""


class Outcome(NamedTuple):
    """Impulses, velocities of all rows after them, the kinetic energy (J) that they add, and residuals."""

    p: list[Scalar]
    velocities: list[Scalar]
    energy: Scalar
    residuals: tuple[Scalar, Scalar, Scalar]


class Gain(NamedTuple):
    """``G p``, and the parts of the kinetic energy (J) that impulses add: ``pᵀ free`` and ``½ pᵀ G p``."""

    moved: list[Scalar]
    work: Scalar
    square: Scalar

    @property
    def numbers(self) -> list[Scalar]:
        """All of them."""
        return [*self.moved, self.work, self.square]


Bounds: TypeAlias = "tuple[Scalar | None, Scalar | None]"
"""Least and largest velocity; None is without."""


@dataclass(frozen=True, slots=True)
class PointLaw:
    """A contact point: its first row, its friction coefficient, and the rate ``d`` at which its gap may close.

    ``belt`` is what the motion of surfaces adds to the velocities along the tangents; ``floor`` is the least normal
    impulse, zero if None. ``turning`` (3) is what velocities of the displacement differ by from those of rows, as the
    contact turns (`delassus.constraints.shapes.turning`); empty if there is none.

    A patch, with torsional or rolling friction, has rows of ``spins`` too, lengths times angular velocities; times
    ``over``, one over the friction coefficient, they are velocities of its law. ``slides`` is 1 where its tangents have
    friction, and else 0: such a patch has no rows of them, and the coefficient 1.
    """

    row: int
    friction: Scalar
    rate: Scalar
    belt: Sequence[Scalar] = ()
    floor: Scalar | None = None
    turning: Sequence[Scalar] = ()
    spins: Sequence[int] = ()
    over: Scalar = 1.0
    slides: Scalar = 1.0

    @property
    def rows(self) -> list[int]:
        """Tangent, tangent, normal, and spins."""
        return [*range(self.row, self.row + 3), *self.spins]

    @property
    def units(self) -> list[Scalar]:
        """By what velocities of its rows are those of its law, and impulses of its law those of its rows."""
        return [self.slides, self.slides, 1.0, *[self.over] * len(self.spins)] if self.spins else [1.0] * 3

    def in_law(self, u: Sequence[Scalar]) -> list[Scalar]:
        """Velocities of its law from those of its rows; and impulses of its rows from those of its law."""
        return [unit * x for unit, x in zip(self.units, u, strict=True)] if self.spins else list(u)

    def of_law(self, p: Sequence[Scalar]) -> list[Scalar]:
        """Impulses of its law from those of its rows."""
        return [*p[:3], *(self.friction * x for x in p[3:])]

    def sizes(self, mobilities: Sequence[Scalar]) -> list[Scalar]:
        """Mobilities of its law from those of all rows."""
        a, b, normal = mobilities[self.row : self.row + 3]
        turning = [self.over * self.over * mobilities[k] for k in self.spins]
        return [self.slides * a, self.slides * b, normal, *turning] if self.spins else [a, b, normal]

    def of_block(self, W: Sequence[Sequence[Scalar]]) -> list[list[Scalar]]:
        """Mobility of its law from a matrix of all rows."""
        own = [self.in_law([W[i][k] for k in self.rows]) for i in self.rows]
        return [list(row) for row in zip(*(self.in_law(column) for column in zip(*own, strict=True)), strict=True)]


@dataclass(frozen=True, slots=True)
class JointLaw:
    """A joint: its row, velocities ``least`` and ``most`` that its limits allow, and largest impulse of dry friction.

    None is without.
    """

    row: int
    bounds: Bounds
    friction: Scalar | None

    @property
    def has_limits(self) -> bool:
        """Whether there is a limit."""
        return any(bound is not None for bound in self.bounds)


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
        Of all rows, points first.
    pyramid : bool
        Whether friction is that of a pyramid of four sides, with spins of two more each, in place of the cone.
    bodies : list of list of int
        Numbers of the bodies that each point, and then each joint, is on; all on one if empty.
    turns : list of Scalar
        Of each point: 1 where it turns, 0 where it does not.
    mobility : list of Scalar
        Of each row (m): of a point the mean of its three.
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
        bodies: Sequence[Sequence[int]] = (),
    ) -> None:
        self.bodies = bodies or [[0]] * (len(points) + len(joints))
        self.ops, self.points, self.joints = ops, list(points), list(joints)
        self.G: list[Sequence[Scalar]] = list(G)
        self.free = list(free)
        for x in self.points:
            for k, velocity in enumerate(x.belt):
                self.free[x.row + k] = self.free[x.row + k] + velocity
            if x.spins:
                self._stop_tangents(x)
        self.turns = cast(list[Scalar], [1.0] * len(self.points))
        self.b, self.pyramid = self._with_rates(self.turns), pyramid
        # a little more: some rows cannot move, and what stays where it is solves a law whatever the step
        proximal = max(PROXIMAL, ROUNDING * ops.epsilon)
        least = [proximal * size + SQUARE_FLOOR for size in size_of]
        for x in self.points:
            for k in x.rows:
                least[k] = proximal * maximum_of(ops, x.sizes(size_of)) + SQUARE_FLOOR
        # solutions do not depend on mobilities that scale laws
        self.own_mobility = [ops.derived(self.G[k][k] + size, 0.0) for k, size in enumerate(least)]
        self.mobility, self.blocks = list(self.own_mobility), list[PointBlock | PatchBlock]()
        for x in self.points:
            W, is_only = x.of_block(self.G), len(self.G) == len(x.rows)
            if x.spins:
                total = sum((W[k][k] for k in range(len(W))), len(W) * least[x.row])
                w = ops.derived(total, 0.0) * (1.0 / 3.0)
                for row, unit in zip(x.rows, x.of_law([1.0] * len(W)), strict=True):
                    self.mobility[row] = w * unit * unit
                self.blocks.append(patch_block(ops, W, x.friction, least[x.row], is_only))
            else:
                own = slice(x.row, x.row + 3)
                self.mobility[own] = [sum(self.own_mobility[own], cast(Scalar, 0.0)) * (1.0 / 3.0)] * 3
                self.blocks.append(point_block(ops, W, x.friction, least[x.row], is_only))

    def _stop_tangents(self, x: PointLaw) -> None:
        """No rows of tangents for a patch without Coulomb's friction."""
        for k in (x.row, x.row + 1):
            self.free[k] = x.slides * self.free[k]
            for i, row in enumerate(self.G):
                own = [x.slides * g if i == k or at == k else g for at, g in enumerate(row)]
                self.G[i] = own

    def _with_rates(self, turns: Sequence[Scalar]) -> list[Scalar]:
        """``b`` with what turns."""
        b = list(self.free)
        for x, part in zip(self.points, turns, strict=True):
            b[x.row + 2] = b[x.row + 2] + x.rate
            for k, offset in enumerate(x.turning):
                b[x.row + k] = b[x.row + k] + part * offset
        return b

    def turning(self, turns: Sequence[Scalar]) -> StepProblem:
        """The same problem, whose contacts turn where ``turns`` is 1 and do not where it is 0."""
        out, both = copy(self), zip(self.points, turns, strict=True)
        out.b, out.turns = self._with_rates(turns), list(turns)
        out.points = [replace(x, turning=[part * offset for offset in x.turning]) for x, part in both]
        return out

    def without_gain(
        self, p: Sequence[Scalar], again: Callable[[StepProblem], list[Scalar]], most: float | None
    ) -> tuple[StepProblem, list[Scalar], Gain]:
        """The problem, its impulses and what they gain; where that is energy, those if contacts do not turn.

        So it is on an island where turning would do more work than all impulses, and, if ``most`` is given, wherever
        the residual (m/s) is larger: there is no solution where nothing can follow what turns.
        """
        ops, energies, n, n_points = self.ops, self.energies(p), len(p), len(self.points)
        alone, unsolved = self._islands(p), cast(Scalar, 0.0)
        if most is not None:
            unsolved = ops.less(most, maximum_of(ops, self.residuals(p, plus(energies.moved, self.b))))
        work, square, turned = (alone(x) for x in self._parts(p, energies.moved))
        gains = list[Scalar]()
        for w, s, y in zip(work, square, turned, strict=True):
            own = ops.maximum(
                ops.less(MOST_GAIN * s, w + s), ops.less(2.0 * (magnitude(ops, w) + magnitude(ops, s)), y)
            )
            gains.append(ops.maximum(own, unsolved))
        straight = self.turning([1.0 - gains[on[0]] for on in self.bodies[:n_points]])

        def solved(_: list[Scalar]) -> tuple[list[Scalar], Scalar]:
            p = again(straight)
            return [*p, *self.energies(p).numbers], 1.0

        found = ops.repeat(1, [*p, *energies.numbers], solved, 1.0 - maximum_of(ops, gains))
        return straight, found[:n], Gain(found[n:-2], *found[-2:])

    def _islands(self, p: Sequence[Scalar]) -> Callable[[Sequence[Scalar]], list[Scalar]]:
        """From numbers of points and joints to their sums over islands, that of each body: those that impulses tie."""
        ops, n = self.ops, 1 + max((b for on in self.bodies for b in on), default=0)
        tied, label = dict[tuple[int, int], Scalar](), [cast(Scalar, float(b)) for b in range(n)]
        near = {b: {b} for b in range(n)}
        for x, on in zip(self.points, self.bodies, strict=False):
            if len(on) == 2:
                a, b = on
                tied[a, b] = ops.maximum(tied.get((a, b), 0.0), ops.less(0.0, p[x.row + 2]))
                if near[a] is not near[b]:
                    near[a] |= near[b]
                    near.update(dict.fromkeys(near[b], near[a]))
        for _ in range(n - 1 if tied else 0):
            for (a, b), acts in tied.items():
                least = ops.minimum(label[a], label[b])
                label[a], label[b] = ops.select(acts, least, label[a]), ops.select(acts, least, label[b])
        apart = {(a, b): ops.less(0.5, magnitude(ops, label[a] - label[b])) for b in range(n) for a in near[b] - {b}}

        def sums(numbers: Sequence[Scalar]) -> list[Scalar]:
            own = [cast(Scalar, 0.0)] * n
            for on, x in zip(self.bodies, numbers, strict=True):
                own[on[0]] = own[on[0]] + x
            return [sum((ops.select(apart[a, b], 0.0, own[a]) for a in near[b] - {b}), own[b]) for b in range(n)]

        return sums

    def _parts(self, p: Sequence[Scalar], moved: Sequence[Scalar]) -> list[list[Scalar]]:
        """Work, square and ``−pᵀ κ`` of `energies`, of each point and joint."""
        groups = [*((x.rows, x.row, x.turning) for x in self.points), *(([y.row], y.row, ()) for y in self.joints)]
        out: list[list[Scalar]] = [[], [], []]
        for rows, first, turning in groups:
            out[0].append(sum((p[k] * self.free[k] for k in rows), cast(Scalar, 0.0)))
            out[1].append(sum((0.5 * (p[k] * moved[k]) for k in rows), cast(Scalar, 0.0)))
            out[2].append(sum((-y * p[first + k] for k, y in enumerate(turning)), cast(Scalar, 0.0)))
        return out

    def velocity(self, row: int, p: Sequence[Scalar]) -> Scalar:
        """``u`` of a row."""
        return sum((g * x for g, x in zip(self.G[row], p, strict=True)), self.b[row])

    def energies(self, p: Sequence[Scalar]) -> Gain:
        """What impulses do to velocities, and to the kinetic energy."""
        moved = [sum((g * x for g, x in zip(row, p, strict=True)), cast(Scalar, 0.0)) for row in self.G]
        square: Scalar = 0.0
        work: Scalar = 0.0
        for x, change, free in zip(p, moved, self.free, strict=True):
            square, work = square + 0.5 * (x * change), work + x * free
        return Gain(moved, work, square)

    def _by_turning(self, p: Sequence[Scalar]) -> Scalar:
        """``−pᵀ κ``: the energy (J) that turning may bring."""
        return sum((-y * p[x.row + k] for x in self.points for k, y in enumerate(x.turning)), cast(Scalar, 0.0))

    def safe(self, p: Sequence[Scalar], budget: Scalar = 0.0, energies: Gain | None = None) -> Outcome:
        """Impulses that add no kinetic energy beyond a budget (J): ``½ α² pᵀ G p + α pᵀ free ≤ budget``.

        Where contacts turn they may add ``−pᵀ κ``, and `MOST_GAIN` of ``½ pᵀ G p``; ``energies`` are those of ``p``.
        """
        ops = self.ops
        moved, work, square = self.energies(p) if energies is None else energies
        if any(x.turning for x in self.points):
            budget = budget + ops.maximum(ops.minimum(self._by_turning(p), MOST_GAIN * square), 0.0)
        part = passive_part(ops, work, square, budget)
        p, moved = [part * x for x in p], [part * x for x in moved]
        energy = part * (work + part * square)
        u = plus(moved, self.b)
        return Outcome(p, plus(moved, self.free), energy, self.residuals(p, u))

    def own_velocities(self, p: Sequence[Scalar]) -> list[Scalar]:
        """What impulses do to the velocities of their own points and joints: none, where a point cannot move."""
        out = [self.G[k][k] * x for k, x in enumerate(p)]
        for x, block in zip(self.points, self.blocks, strict=True):
            own, W = x.of_law([p[k] for k in x.rows]), x.of_block(self.G)
            W[2][2] = block.normal
            for k, row in zip(x.rows, W, strict=True):
                out[k] = sum((g * y for g, y in zip(row, own, strict=True)), cast(Scalar, 0.0))
        return out

    def point_image(self, x: PointLaw, p: Sequence[Scalar], u: Sequence[Scalar]) -> list[Scalar]:
        """Impulses of a law that it makes of its own ones and of its velocities, as velocities."""
        ops, w = self.ops, self.mobility[x.row]
        if x.spins and not self.pyramid:
            floor: Scalar = 0.0 if x.floor is None else x.floor
            above = [*p[:2], p[2] - floor, *p[3:]]
            out = patch_image(ops, x.friction, x.friction * floor, w, above, u)
            out[2] = out[2] + w * floor
            return out
        if self.pyramid:
            n = ops.maximum(w * p[2] - u[2], 0.0 if x.floor is None else w * x.floor)
            limit = w * x.friction * p[2]
            held = [clamped(ops, w * y - v, -limit, limit) for y, v in zip(p, u, strict=True)]
            return [*held[:2], n, *held[3:]]
        if x.floor is None:
            return list(point_image(ops, x.friction, 0.0, w, p, u))
        above = [p[0], p[1], p[2] - x.floor]
        a, b, n = point_image(ops, x.friction, x.friction * x.floor, w, above, u)
        return [a, b, n + w * x.floor]

    def in_law_of(self, x: PointLaw, p: Sequence[Scalar], u: Sequence[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
        """Impulses and velocities of the law of a point from those of all rows."""
        return x.of_law([p[k] for k in x.rows]), x.in_law([u[k] for k in x.rows])

    def joint_impulse(self, x: JointLaw, p: Scalar, u: Scalar) -> Scalar:
        """Impulse of friction and limits by which the joint, alone, would obey both."""
        w = self.own_mobility[x.row]
        friction = None if x.friction is None else w * x.friction
        return joint(self.ops, friction, *x.bounds, w * p - u)[0] * (1.0 / w)

    def image(self, p: Sequence[Scalar], u: Sequence[Scalar]) -> list[Scalar]:
        """Impulses that each law makes of these and of velocities: of a solution, the same."""
        out = list(p)
        for x in self.points:
            over, (own, speeds) = 1.0 / self.mobility[x.row], self.in_law_of(x, p, u)
            for k, v in zip(x.rows, x.in_law(self.point_image(x, own, speeds)), strict=True):
                out[k] = over * v
        for y in self.joints:
            out[y.row] = self.joint_impulse(y, p[y.row], u[y.row])
        return out

    def implicit(self, p: Sequence[Scalar], image: LawImage) -> list[Scalar]:
        """Impulses of a solution, as what follows from an image of laws where the step is differentiated."""
        return self.ops.implicit(p, lambda q: image(self, q, [self.velocity(k, q) for k in range(len(q))]), self.G)

    def residuals(self, p: Sequence[Scalar], u: Sequence[Scalar]) -> tuple[Scalar, Scalar, Scalar]:
        """Violation in m/s (rad/s): of complementarity, of friction, and velocity of penetration.

        Of each law, how far an impulse moves in it, as a velocity: zero in a solution alone.
        """
        ops = self.ops
        complementarity: list[Scalar] = [0.0]
        friction: list[Scalar] = [0.0]
        penetration: list[Scalar] = [0.0]
        for x in self.points:
            w, (own, speeds) = self.mobility[x.row], self.in_law_of(x, p, u)
            a, b, n, *turned = (w * y - z for y, z in zip(own, self.point_image(x, own, speeds), strict=True))
            complementarity.append(magnitude(ops, n))
            friction.append(size_of(ops, [a, b, *turned]) if x.spins else ops.length(a, b))
            penetration.append(-u[x.row + 2])
        for y in self.joints:
            missed = p[y.row] - self.joint_impulse(y, p[y.row], u[y.row])
            of_law = complementarity if y.has_limits else friction
            of_law.append(magnitude(ops, missed) * self.own_mobility[y.row])
        return maximum_of(ops, complementarity), maximum_of(ops, friction), maximum_of(ops, penetration)


def magnitude(ops: Ops, x: Scalar) -> Scalar:
    """``|x|``."""
    return ops.maximum(x, -x)


def maximum_of(ops: Ops, values: Sequence[Scalar]) -> Scalar:
    """The largest of some numbers."""
    out, *rest = values
    for x in rest:
        out = ops.maximum(out, x)
    return out


def largest_of(ops: Ops, values: Sequence[Scalar], weights: Sequence[float]) -> Scalar:
    """The largest size of some numbers times their weights, above zero."""
    return maximum_of(
        ops, [SQUARE_FLOOR, *(weight * magnitude(ops, x) for weight, x in zip(weights, values, strict=True))]
    )


def accelerated(
    ops: Ops,
    swept: tuple[Sequence[Scalar], Sequence[Scalar]],
    before: tuple[Sequence[Scalar], Sequence[Scalar], Scalar],
) -> tuple[Scalar, list[Scalar]]:
    """``|F|²`` of a sweep, and where the next one starts: Anderson's acceleration of depth one.

    ``swept`` are values ``g`` after a sweep and changes ``F`` by it, in one unit; ``before`` the same of the sweep
    before, with its ``|F|²``. From ``g − θ (g − g₋)``, ``θ = Fᵀ (F − F₋) / |F − F₋|²``, or from ``g`` where ``F`` has
    grown.
    """
    (g, F), (g_before, F_before, least) = swept, before
    moved: Scalar = 0.0
    slope: Scalar = 0.0
    turned: Scalar = SQUARE_FLOOR
    for f, f_before in zip(F, F_before, strict=True):
        change = f - f_before
        moved, slope, turned = moved + f * f, slope + f * change, turned + change * change
    theta = ops.select(ops.less(moved, least), slope / turned, 0.0)
    return moved, [new - theta * (new - old) for new, old in zip(g, g_before, strict=True)]


def along_rows(impulses: Sequence[Scalar], joints: Sequence[JointLaw], lengths: Sequence[float] = ()) -> list[Scalar]:
    """Impulses along rows from those of contacts, of limits, of dry friction and of spins of ``lengths`` (m)."""
    n = len(impulses) - sum(x.has_limits + (x.friction is not None) for x in joints) - len(lengths)
    out, given = list(impulses[:n]) + cast("list[Scalar]", [0.0] * len(joints)), iter(impulses[n:])
    for x in (x for x in joints if x.has_limits):
        out[x.row] = next(given)
    for x in (x for x in joints if x.friction is not None):
        out[x.row] = out[x.row] + next(given)
    return [*out, *(x * (1.0 / length) for x, length in zip(given, lengths, strict=True))]


def apart(
    ops: Ops, p: Sequence[Scalar], joints: Sequence[JointLaw], of_limits: bool = False, lengths: Sequence[float] = ()
) -> list[Scalar]:
    """What `along_rows` is of, from impulses along rows; those of joints may be all ``of_limits``."""
    p, spins = p[: len(p) - len(lengths)], p[len(p) - len(lengths) :]
    limits, dry = list[Scalar](), list[Scalar]()
    for x in joints:
        friction: Scalar = 0.0
        if x.friction is not None:
            friction = 0.0 if of_limits else clamped(ops, p[x.row], -x.friction, x.friction)
            dry.append(friction)
        if x.has_limits:
            limits.append(p[x.row] - friction)
    turned = [length * x for length, x in zip(lengths, spins, strict=True)]
    return [*p[: len(p) - len(joints)], *limits, *dry, *turned]


Solver = Callable[[StepProblem, Sequence[Scalar], int, float], list["Scalar"]]
"""From a problem, impulses to start from, the number of passes and a tolerance (m/s) to impulses."""

LawImage: TypeAlias = "Callable[[StepProblem, Sequence[Scalar], Sequence[Scalar]], list[Scalar]]"
"""From a problem, impulses and velocities to what stands for `StepProblem.image` where derivatives are others."""
