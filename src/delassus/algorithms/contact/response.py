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

Joints that friction or a limit holds are left out of ``M`` (`SparseFactor`), and move as their limit does. With
``R = J M⁻¹``, ``E = (C J M⁻¹ Jᵀ B + D)⁻¹ C`` and ``N = (Bᵀ R)ᵀ E``,

    dv⁺ = −Φ ∂ρ − N ∂σ,   Φ = ∂v⁺/∂(M v*) = M⁻¹ − N R.

Where rows depend on one another at all states, ``dv⁺`` is unique and impulses are the smallest: for ``A⁻¹`` stands
``A_δ (1 + δ A_δ − 2 δ² A_δ²)``, ``A_δ = (A + δ)⁻¹``, which is ``1 / a`` up to ``3 (δ / a)²`` and zero at ``a = 0``.

Source: Le Lidec, Montaut, de Mont-Marin, Schramm and Carpentier 2024; the modes are derived anew, from the laws of
`StepProblem`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from delassus.algorithms.contact.law import clamped
from delassus.algorithms.contact.problem import JointLaw, PointLaw, StepProblem, magnitude
from delassus.algorithms.contact.solution import SolvedProblem
from delassus.algorithms.contact.step import ContactStep
from delassus.algorithms.osim.ltl import rows_over_factor
from delassus.algorithms.problem import Problem
from delassus.algorithms.sparse_factor import SparseFactor
from delassus.constraints.contact import bounded_joints_of
from delassus.spatial.motion import diagonal, from_entries, scaled_matrix
from delassus.spatial.ops import Matrix, Ops, Scalar

DEPENDENT = 1e-8
"""``δ``, over mobilities: rows that move less beside the others depend on them."""

ROUNDING = 1e-13
"""The same where rows are independent but at single states, for which there is a solution."""

FARTHEST = 1e30
"""Distance (m/s) of modes that do not change."""


class Mode(NamedTuple):
    """What a contact point does: ``C`` and ``B`` (3 × 3), ``D`` (3), mobility, and ``distance`` (m/s) of other modes.

    ``at_floor`` is 1 where the normal impulse is the least one, else 0; ``with_friction`` the change of the tangential
    impulse (2) with the friction coefficient.
    """

    C: Matrix
    B: Matrix
    D: list[Scalar]
    mobility: Scalar
    at_floor: Scalar
    with_friction: list[Scalar]
    distance: Scalar


def point_mode(problem: StepProblem, x: PointLaw, p: Sequence[Scalar], u: Sequence[Scalar], moves: Scalar) -> Mode:
    """Mode of a contact point at its impulse and velocity (3); ``moves`` is 0 where loops hold it."""
    ops, w = problem.ops, problem.mobility[x.row]
    pressed = p[2] - u[2] * (1.0 / w)
    floor: Scalar = 0.0 if x.floor is None else x.floor
    closed = ops.less(floor, pressed) * moves
    at_floor: Scalar = 0.0 if x.floor is None else moves - closed
    limit, touches = x.friction * p[2], closed + at_floor
    tried = [a - b * (1.0 / w) for a, b in zip(p[:2], u[:2], strict=True)]
    if problem.pyramid:
        slides = [ops.less(limit, magnitude(ops, a)) * touches for a in tried]
        signs = [ops.copysign(1.0, a) * sliding for a, sliding in zip(tried, slides, strict=True)]
        along, with_friction = [x.friction * sign for sign in signs], [sign * p[2] for sign in signs]
        axes, kept = ops.eye(3), [touches - slides[0], touches - slides[1], closed]
    else:
        size = ops.length(*tried)
        slides = [ops.less(limit, size) * touches]
        sticks, over = touches - slides[0], 1.0 / size
        e0, e1 = (ops.select(slides[0], a * over, first) for a, first in zip(tried, (1.0, 0.0), strict=True))
        kappa = limit * over
        axes = ops.matrix([[e0, e1, 0.0], [-e1, e0, 0.0], [0.0, 0.0, 1.0]])
        with_friction = [slides[0] * p[2] * e0, slides[0] * p[2] * e1]
        along, kept = [slides[0] * x.friction, 0.0], [sticks, sticks + slides[0] * kappa, closed]
    coupled = ops.matrix([[1.0, 0.0, along[0]], [0.0, 1.0, along[1]], [0.0, 0.0, 1.0]])
    apart = ops.select(closed, problem.G[x.row + 2][x.row + 2] * p[2], magnitude(ops, u[2]))
    if problem.pyramid:
        turn: Scalar = FARTHEST
        for sliding, a, b in zip(slides, p, u, strict=False):
            turn = ops.minimum(turn, ops.select(sliding, magnitude(ops, b), w * (limit - magnitude(ops, a))))
    else:
        turn = ops.select(slides[0], ops.length(*u[:2]), w * (limit - ops.length(*p[:2])))
    distance = ops.select(moves, ops.select(touches, ops.minimum(apart, turn), apart), FARTHEST)
    rows = diagonal(ops, kept) @ axes
    return Mode(
        rows, ops.transpose(axes) @ coupled, [w * (1.0 - k) for k in kept], w, at_floor, with_friction, distance
    )


class Hold(NamedTuple):
    """What holds a joint: 1 if anything does; change of its velocity with its position and with the time step.

    ``slip`` is the impulse of dry friction that slides, and ``distance`` that to the nearest other mode.
    """

    held: Scalar
    with_position: Scalar
    with_time: Scalar
    slip: Scalar
    distance: Scalar


def joint_hold(problem: StepProblem, x: JointLaw, p: Scalar, u: Scalar, over_h: Scalar) -> Hold:
    """Hold of a joint at its impulse and velocity."""
    ops, over = problem.ops, 1.0 / problem.own_mobility[x.row]
    friction: Scalar = 0.0 if x.friction is None else x.friction
    free = p - u * over
    sticks: Scalar = 0.0 if x.friction is None else ops.less(magnitude(ops, free), friction)
    slowed = clamped(ops, free, -friction, friction) - free
    held, none = sticks, cast(Scalar, 0.0)
    with_position, with_time = none, none
    distance: Scalar = FARTHEST
    if x.friction is not None:
        distance = ops.select(sticks, (friction - magnitude(ops, p)) * (1.0 / over), magnitude(ops, u))
    for bound, sign in zip(x.bounds, (1.0, -1.0), strict=True):
        if bound is None:
            continue
        stopped = ops.less(sign * slowed, sign * bound * over)
        gap = ops.less(sign * bound, 0.0)
        with_position = ops.select(stopped, -(gap * over_h), with_position)
        with_time = ops.select(stopped, -(bound * over_h), with_time)
        held = ops.maximum(held, stopped)
        reserve = sign * (bound * over - slowed) * (1.0 / over)
        distance = ops.select(stopped, reserve, ops.minimum(distance, -reserve))
    slip: Scalar = 0.0 if x.friction is None else (1.0 - held) * ops.copysign(friction, free)
    return Hold(held, with_position, with_time, slip, distance)


class Response:
    """How velocities answer changes of momentum and of rows, contacts and joints in the modes of a solved problem.

    ``rows`` are those of points; ``Phi`` (nv × nv) and ``N`` (nv × m).
    """

    def __init__(self, step: ContactStep, solved: SolvedProblem) -> None:
        ops, problem, nv = step.ops, solved.problem, step.tree.nv
        self._ops, self._step, self._solved = ops, step, solved
        impulses = solved.outcome.p
        velocities = [problem.velocity(row, impulses) for row in range(len(impulses))]
        self.modes = []
        for x in problem.points:
            p, u = (of[x.row : x.row + 3] for of in (impulses, velocities))
            self.modes.append(point_mode(problem, x, p, u, step.moves.get(x.row + 2, 1.0)))
        dofs = [c.dof for c in bounded_joints_of(step.problem.constraints)]
        laws = zip(dofs, problem.joints, strict=True)
        self.holds = {
            dof: joint_hold(problem, y, impulses[y.row], velocities[y.row], step.over_h) for dof, y in laws
        }  # fmt: skip
        self.rows = step.others[: 3 * len(self.modes)]
        held = {dof: x.held for dof, x in self.holds.items()}
        L = SparseFactor(step.problem, held=held) if held else step.space.L
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
        (to_velocities, over), wanted = self._to_x, [mode.at_floor * mode.mobility for mode in self.modes]
        return to_velocities @ (ops.take(over, None, normals) @ (diagonal(ops, wanted) @ floors))


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
        return inverted(ops, A + diagonal(ops, [ROUNDING * x for x in sizes]))
    shift = [DEPENDENT * x for x in sizes]
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
