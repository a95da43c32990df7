"""How velocities answer changes at the solution of a step: implicit function theorem, one factorisation for all.

With velocities ``v⁺`` and impulses ``p`` held, the momentum ``ρ = M (v⁺ − v*) − Jᵀ p`` and the rows ``σ = J v⁺ + d``
change with what varies; the first is an inverse dynamics whose forces are known. Then

    M dv⁺ − Jᵀ dp = −∂ρ,   C (J dv⁺ + ∂σ) + D x = 0,   dp = B x,

where ``C``, ``B`` and ``D`` say what each contact does. Along the direction ``e`` of friction, ``b`` across it and the
normal ``n``:

==========  ====================================================================================================
sticks      no row changes its velocity: ``C = B = 1``, ``D = 0``
slides      ``n`` does not; friction goes with the normal impulse, ``dp_e = μ dp_n``, and turns with the velocity:
            ``(1 − κ) w dp_b = −κ du_b``, ``κ = μ p_n / |p_t − u_t / w|``, with the mobility ``w``
open        ``dp = 0``
==========  ====================================================================================================

Derivatives that are smoothed are means over changes of the velocity that each contact and joint would have alone, by up
to so many m/s to either side (`part_beyond`). What acts for a part ``θ`` of them has the rows of all modes by their
parts, as ``θ du_n + (1 − θ) w dp_n = 0``; impulses, velocities and directions are those of the solution.

Joints that friction or a limit holds are left out of ``M`` (`SparseFactor`), and move as their limit does. With
``R = J M⁻¹``, ``E = (C J M⁻¹ Jᵀ B + D)⁻¹ C`` and ``N = (Bᵀ R)ᵀ E``,

    dv⁺ = −Φ ∂ρ − N ∂σ,   Φ = ∂v⁺/∂(M v*) = M⁻¹ − N R.

Where rows depend on one another at all states, ``dv⁺`` is unique and impulses are the smallest: for ``A⁻¹`` stands
``A_δ (1 + δ A_δ − 2 δ² A_δ²)``, ``A_δ = (A + δ)⁻¹``, which is ``1 / a`` up to ``3 (δ / a)²`` and zero at ``a = 0``.

Source: Le Lidec, Montaut, de Mont-Marin, Schramm and Carpentier 2024; the modes are derived anew, from the laws of
`StepProblem`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from delassus.algorithms.contact.law import TINY, clamped, mean_beyond, part_beyond
from delassus.algorithms.contact.problem import JointLaw, PointLaw, StepProblem, magnitude
from delassus.algorithms.contact.solution import SolvedProblem
from delassus.algorithms.contact.step import ContactStep
from delassus.algorithms.osim.ltl import rows_over_factor
from delassus.algorithms.problem import Problem
from delassus.algorithms.sparse_factor import SparseFactor
from delassus.constraints.contact import bounded_joints_of
from delassus.model.tree import Tree
from delassus.spatial.motion import diagonal, from_entries, scaled_matrix
from delassus.spatial.ops import Matrix, Ops, Scalar

ROUNDING = 512.0
"""``δ``, over mobilities and round-off, where rows are independent but at single states, for which there is a solution.

Where rows depend on others at all states, it is the root of the round-off.
"""

NO_DIRECTION = 1e-12
"""Speed (m/s) below which friction has no direction."""

LEAST_SIZE = 1e-6
"""Speed over smoothing below which a mean is its rate times that speed, which round-off hides."""

FARTHEST = 1e30
"""Distance (m/s) of modes that do not change."""


class Mode(NamedTuple):
    """What a contact point does: ``C`` and ``B`` (3 × 3), ``D`` (3), mobility, and ``distance`` (m/s) of other modes.

    ``with_floor`` (1/kg) is what the row of the normal has of its least impulse; ``with_friction`` the change of the
    tangential impulse (2) with the friction coefficient.
    """

    C: Matrix
    B: Matrix
    D: list[Scalar]
    mobility: Scalar
    with_floor: Scalar
    with_friction: list[Scalar]
    distance: Scalar


def point_mode(
    problem: StepProblem, x: PointLaw, p: Sequence[Scalar], u: Sequence[Scalar], moves: Scalar,
    smoothing: Scalar | None,
) -> Mode:  # fmt: skip
    """Mode of a contact point at its impulse and velocity (3); ``moves`` is 0 where loops hold it."""
    ops, w_n = problem.ops, problem.own_mobility[x.row + 2]
    w = 0.5 * (problem.own_mobility[x.row] + problem.own_mobility[x.row + 1])
    pressed = w_n * (p[2] if x.floor is None else p[2] - x.floor) - u[2]
    closed, is_closed = (part_beyond(ops, pressed, s) * moves for s in (smoothing, None))
    limit = w * (x.friction * p[2])
    mean_limit = limit
    if smoothing is not None:
        normal = mean_beyond(ops, pressed, smoothing) * (1.0 / w_n)
        mean_limit = w * (x.friction * moves * (normal if x.floor is None else normal + x.floor))
    tried = [w * a - b for a, b in zip(p[:2], u[:2], strict=True)]
    sizes = [magnitude(ops, a) for a in tried] if problem.pyramid else [ops.length(*tried)]
    over = [1.0 / size for size in sizes]
    parts = [friction_parts(ops, size, y, mean_limit, smoothing) for size, y in zip(sizes, over, strict=True)]
    sticks, turns, shares = zip(*parts, strict=True)
    if problem.pyramid:
        signs = [ops.copysign(share, a) for a, share in zip(tried, shares, strict=True)]
        along, with_friction = [x.friction * sign for sign in signs], [sign * p[2] for sign in signs]
        axes, kept = ops.eye(3), [*sticks, closed]
        speeds, used = [magnitude(ops, b) for b in u[:2]], [w * magnitude(ops, a) for a in p[:2]]
    else:
        has_direction = ops.less(NO_DIRECTION, sizes[0])
        e0, e1 = (ops.select(has_direction, a * over[0], first) for a, first in zip(tried, (1.0, 0.0), strict=True))
        axes = ops.matrix([[e0, e1, 0.0], [-e1, e0, 0.0], [0.0, 0.0, 1.0]])
        with_friction = [shares[0] * p[2] * e0, shares[0] * p[2] * e1]
        along, kept = [shares[0] * x.friction, 0.0], [sticks[0], turns[0], closed]
        speeds, used = [ops.length(*u[:2])], [w * ops.length(*p[:2])]
    coupled = ops.matrix([[1.0, 0.0, along[0]], [0.0, 1.0, along[1]], [0.0, 0.0, 1.0]])
    D = [(1.0 - k) * size for k, size in zip(kept, (w, w, w_n), strict=True)]
    with_floor: Scalar = 0.0 if x.floor is None else (moves - closed) * w_n
    apart = ops.select(is_closed, problem.G[x.row + 2][x.row + 2] * p[2], magnitude(ops, u[2]))
    turn: Scalar = FARTHEST
    for size, speed, friction in zip(sizes, speeds, used, strict=True):
        turn = ops.minimum(turn, ops.select(ops.less(limit, size), speed, limit - friction))
    is_touching = is_closed if x.floor is None else moves
    distance = ops.select(moves, ops.select(is_touching, ops.minimum(apart, turn), apart), FARTHEST)
    C, B = diagonal(ops, kept) @ axes, ops.transpose(axes) @ coupled
    return Mode(C, B, D, problem.mobility[x.row], with_floor, with_friction, distance)


def friction_parts(
    ops: Ops, size: Scalar, over: Scalar, limit: Scalar, smoothing: Scalar | None
) -> tuple[Scalar, Scalar, Scalar]:
    """Parts of a change that friction takes up, along it and across it, and of its limit's that slides if none sticks.

    Friction of that ``size`` (m/s; ``over`` is one over it) without a limit is ``f = min(size, limit)``; these are
    ``∂f/∂size``, ``f / size`` and ``∂f/∂limit / (1 − ∂f/∂size)``. Its mean is odd: no direction is before others at 0.
    """
    slides = part_beyond(ops, size - limit, smoothing)
    if smoothing is None:
        sticks = 1.0 - slides
        return sticks, sticks + slides * (limit * over), slides
    back = part_beyond(ops, -(size + limit), smoothing)
    sticks = 1.0 - slides - back
    mean = size - mean_beyond(ops, size - limit, smoothing) + mean_beyond(ops, -(size + limit), smoothing)
    turns = ops.select(ops.less(LEAST_SIZE * smoothing, size), mean * over, sticks)
    return sticks, turns, (slides - back) / ops.maximum(slides + back, TINY)


class Hold(NamedTuple):
    """What holds a joint: a flag; what it adds to the inertia; change of its velocity with its position and with time.

    The second is not zero where smoothed derivatives hold it in part. ``slip`` is the impulse of dry friction that
    slides, and ``distance`` that to the nearest other mode.
    """

    held: Scalar
    added: Scalar | None
    with_position: Scalar
    with_time: Scalar
    slip: Scalar
    distance: Scalar


def joint_hold(
    problem: StepProblem, x: JointLaw, p: Scalar, u: Scalar, distances: Sequence[Scalar | None], over_h: Scalar,
    smoothing: Scalar | None,
) -> Hold:  # fmt: skip
    """Hold of a joint at its impulse, velocity and distances from its limits."""
    ops, w = problem.ops, problem.own_mobility[x.row]
    friction: Scalar = 0.0 if x.friction is None else w * x.friction
    free = w * p - u
    slowed = clamped(ops, free, -friction, friction) - free
    none = cast(Scalar, 0.0)
    held, share, with_position, with_time = none, none, none, none
    distance: Scalar = FARTHEST
    if x.friction is not None:
        size = magnitude(ops, free)
        held, _, share = friction_parts(ops, size, 1.0, friction, smoothing)
        distance = ops.select(ops.less(size, friction), friction - w * magnitude(ops, p), magnitude(ops, u))
    for bound, gap, sign in zip(x.bounds, distances, (1.0, -1.0), strict=True):
        if bound is None or gap is None:
            continue
        reserve = sign * (bound - slowed)
        stopped = part_beyond(ops, reserve, smoothing)
        open_before = part_beyond(ops, gap * over_h, smoothing)
        with_position = with_position - stopped * (open_before * over_h)
        with_time = with_time - stopped * (bound * over_h)
        held = ops.minimum(held + stopped, 1.0)
        is_stopped = ops.less(0.0, reserve)
        distance = ops.select(is_stopped, reserve, ops.minimum(distance, -reserve))
    flag, added = held, None
    if smoothing is not None:
        flag = 1.0 - ops.less(held, 1.0)
        added = ops.select(flag, 0.0, held / (w * ops.maximum(1.0 - held, TINY)))
        over = 1.0 / ops.maximum(held, TINY)
        with_position, with_time = with_position * over, with_time * over
    dry: Scalar = 0.0 if x.friction is None else (1.0 - flag) * ops.copysign(share * x.friction, free)
    return Hold(flag, added, with_position, with_time, dry, distance)


def modes_of(
    step: ContactStep,
    solved: SolvedProblem,
    smoothing: Scalar | None = None,
    of_points: Sequence[Scalar | None] | None = None,
) -> tuple[list[Mode], dict[int, Hold]]:
    """Modes of contact points, and holds of joints, by degree of freedom, at a solution."""
    problem, impulses, modes = solved.problem, solved.outcome.p, list[Mode]()
    velocities = [problem.velocity(row, impulses) for row in range(len(impulses))]
    for x, own in zip(problem.points, of_points or [smoothing] * len(problem.points), strict=True):
        p, u = (of[x.row : x.row + 3] for of in (impulses, velocities))
        modes.append(point_mode(problem, x, p, u, step.moves.get(x.row + 2, 1.0), own))
    holds = {
        c.dof: joint_hold(problem, y, impulses[y.row], velocities[y.row], step.distances(c), step.over_h, smoothing)
        for c, y in zip(bounded_joints_of(step.problem.constraints), problem.joints, strict=True)
    }
    return modes, holds


def nearest_mode(ops: Ops, modes: Sequence[Mode], holds: Mapping[int, Hold]) -> Matrix:
    """Distance (m/s, rad/s) of the nearest other mode (1 × 1)."""
    distance: Scalar = FARTHEST
    for x in [mode.distance for mode in modes] + [hold.distance for hold in holds.values()]:
        distance = ops.minimum(distance, x)
    return ops.matrix([[distance]])


class Response:
    """How velocities answer changes of momentum and of rows, contacts and joints in the modes of a solved problem.

    ``rows`` are those of points; ``Phi`` (nv × nv) and ``N`` (nv × m).
    """

    def __init__(
        self,
        step: ContactStep,
        solved: SolvedProblem,
        smoothing: Scalar | None = None,
        of_points: Sequence[Scalar | None] | None = None,
    ) -> None:
        ops, nv = step.ops, step.tree.nv
        self._ops, self._step, self._solved = ops, step, solved
        self.modes, self.holds = modes_of(step, solved, smoothing, of_points)
        self.rows = step.others[: 3 * len(self.modes)]
        held = {dof: x.held for dof, x in self.holds.items()}
        added = at_joints(ops, step.tree, {k: x.added for k, x in self.holds.items() if x.added is not None})
        L = SparseFactor(step.problem, added, held) if held else step.space.L
        root = ops.vstack(L.solve_transpose(ops.eye(nv))) if nv else ops.zeros(0, 0)
        inverse = ops.product(ops.transpose(root), root, symmetric=True)
        self.Phi, self.N = inverse, ops.zeros(nv, len(self.rows))
        if not self.rows:
            return
        if held:
            Y = ops.take(dense_rows(step.problem, L), self.rows, None)
            G = ops.product(Y, ops.transpose(Y), symmetric=True)
            R = ops.product(Y, root)
        else:
            R = ops.take(step.space.along_rows(root), self.rows, None)
            G = ops.take(step.space.G, self.rows, self.rows)
        C = ops.block_diagonal([mode.C for mode in self.modes])
        B = ops.block_diagonal([mode.B for mode in self.modes])
        scales = [mode.mobility for mode in self.modes for _ in range(3)]
        A = ops.product(C @ G, B) + diagonal(ops, [x for mode in self.modes for x in mode.D])
        over = smallest(ops, A, scales, ops.rank(G) < len(self.rows))
        self._R, self._B, self._E = R, B, ops.product(over, C)
        self._to_x = ops.transpose(ops.transpose(B) @ R), over
        self.N = ops.product(self._to_x[0], self._E)
        self.Phi = inverse - ops.product(self.N, R)

    def with_positions(self) -> Matrix:
        """Changes of velocities of joints that limits hold, with their positions (nv × nv)."""
        rates = [self.holds[k].with_position if k in self.holds else 0.0 for k in range(self._step.tree.nv)]
        return diagonal(self._ops, rates)

    def with_time(self) -> Matrix:
        """The same with the time step (nv × 1)."""
        n = self._step.tree.nv
        return from_entries(self._ops, [self.holds[k].with_time if k in self.holds else 0.0 for k in range(n)])

    def velocities(self, rho: Matrix, sigma: Matrix) -> Matrix:
        """``dv⁺`` (nv × k) of joints that are not held."""
        ops = self._ops
        if not self.rows:
            return -ops.product(self.Phi, rho)
        return -ops.product(ops.hstack([self.Phi, self.N]), ops.vstack([rho, sigma]))

    def normal_impulses(self, rho: Matrix, sigma: Matrix) -> Matrix:
        """Changes (n × k) of normal impulses of points."""
        ops, normals = self._ops, range(2, 3 * len(self.modes), 3)
        return ops.take(self._B, normals, None) @ -(self._E @ (sigma - self._R @ rho))

    def of_floors(self, floors: Matrix) -> Matrix:
        """``dv⁺`` (nv × k) of changes of the least normal impulses (n × k)."""
        ops, normals = self._ops, range(2, 3 * len(self.modes), 3)
        (to_velocities, over), wanted = self._to_x, [mode.with_floor for mode in self.modes]
        return to_velocities @ (ops.take(over, None, normals) @ (diagonal(ops, wanted) @ floors))


def at_joints(ops: Ops, tree: Tree, values: Mapping[int, Scalar]) -> dict[tuple[int, int], Matrix]:
    """Diagonal blocks of the mass matrix that hold values at degrees of freedom, of links that have some."""
    return {
        (i, i): diagonal(ops, [values.get(k, 0.0) for k in range(sv.start, sv.stop)])
        for i, sv in enumerate(tree.v_slices)
        if any(k in values for k in range(sv.start, sv.stop))
    }


def dense_rows(problem: Problem, L: SparseFactor) -> Matrix:
    """``Y = J L⁻¹`` (m × nv)."""
    ops, nv = problem.ops, problem.tree.nv
    return ops.vstack([
        ops.hstack([own.get(k, ops.zeros(c.size, 1)) for k in range(nv)])
        for own, c in zip(rows_over_factor(problem, L), problem.constraints, strict=True)
    ])  # fmt: skip


def smallest(ops: Ops, A: Matrix, sizes: Sequence[Scalar], redundant: bool) -> Matrix:
    """Inverse of a matrix, and of ``redundant`` rows the smallest solution; ``sizes`` are what its rows are of."""
    if not redundant:
        return inverted(ops, A + diagonal(ops, [ROUNDING * ops.epsilon * x for x in sizes]))
    shift = [ops.epsilon**0.5 * x for x in sizes]
    R = inverted(ops, A + diagonal(ops, shift))
    W = diagonal(ops, shift) @ R
    return R + ops.product(R, W - scaled_matrix(ops, 2.0, ops.product(W, W)))


def inverted(ops: Ops, A: Matrix) -> Matrix:
    """Inverse (n × n) by elimination without exchanges."""
    a, n = ops.entries(A), ops.shape(A)[0]
    for k in range(n):
        over = 1.0 / a[k][k]
        a[k] = [x * over for x in a[k]]
        a[k][k] = over
        for i in range(n):
            if i != k:
                factor = a[i][k]
                a[i] = [-(factor * y) if j == k else x - factor * y
                        for j, (x, y) in enumerate(zip(a[i], a[k], strict=True))]  # fmt: skip
    return ops.matrix(a)
