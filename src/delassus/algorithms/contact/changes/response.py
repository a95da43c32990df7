"""How velocities answer changes at the solution of a step: implicit function theorem, one factorisation for all.

With velocities ``v⁺`` and impulses ``p`` held, the momentum ``ρ = M (v⁺ − v*) − Jᵀ p`` and the rows ``σ = J v⁺ + d``
change with what varies; the first is an inverse dynamics whose forces are known. Then

    M dv⁺ − Jᵀ dp = −∂ρ,   C (J dv⁺ + ∂σ) + D x = 0,   dp = B x,

where ``C``, ``B`` and ``D`` say what each contact does (`delassus.algorithms.contact.modes`).

Joints that friction or a limit holds are left out of ``M`` (`SparseFactor`), and move as their limit does. Of impulses
``f`` along the motion ``V`` of points, or of links, which velocities make by ``Z``,

    f = −(Q V + H ∂σ),   V = −R ∂ρ,   R = Z M⁻¹,
    dv⁺ = −Φ ∂ρ − N ∂σ,   Φ = ∂v⁺/∂(M v*) = M⁻¹ − Rᵀ Q R,   N = Rᵀ H.

Loops leave of motions ``L v`` what keeps them closed (`ClosedLoops`): ``M⁻¹`` above is that under loops, and what their
rows change by, ``∂σ_l``, makes the velocity ``−L⁻¹ Y_lᵀ G_ll⁺ ∂σ_l``, which contacts and joints answer.

Where rows are independent these are impulses of points, ``Q = H = B (C G B + D)⁻¹ C``. Where rows depend on others at
all states, impulses of points of one link (or pair of links) are one wrench, on its twist: see `WrenchLaws`.

Source: Le Lidec, Montaut, de Mont-Marin, Schramm and Carpentier 2024; the modes are derived anew, from the laws of
`StepProblem`, and wrenches are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from delassus.algorithms.blocks import assembled, at_joints, together
from delassus.algorithms.contact.modes import Mode
from delassus.algorithms.contact.problem import magnitude, maximum_of
from delassus.algorithms.contact.solution import SolvedProblem
from delassus.algorithms.contact.step import KernelStep
from delassus.algorithms.jacobian import columns_of_rows, jacobian
from delassus.algorithms.osim.ltl import dense_rows
from delassus.algorithms.problem import Problem
from delassus.algorithms.sparse_factor import SparseFactor
from delassus.constraints import Candidate
from delassus.constraints.contact import spins_of
from delassus.model.tree import WORLD
from delassus.spatial.motion import (
    ANGULAR,
    LINEAR,
    cross_matrix,
    diagonal,
    dot,
    from_entries,
    minus,
    plus,
    scaled_matrix,
)
from delassus.spatial.ops import SQUARE_FLOOR, Matrix, Ops, Scalar

ROUNDING = 512.0
"""Pivots over their size and the round-off below which a row is taken to depend on those before it."""

NEARLY = 0.9
"""Part of the largest pivot from which on another is as good: round-off does not choose among equal ones.

Pivots of several points on one link start out equal, and where rows outnumber what can move, impulses and the rows that
are followed depend on the choice. That part is far below one by the round-off of all pivots that are kept, in float32
too, and costs no accuracy.
"""


class ModeResponse:
    """How velocities answer changes of momentum and of rows, contacts and joints in the modes of a solved problem.

    ``rows`` are those of points; ``Phi`` (nv × nv) and ``N`` (nv × m). ``is_unique`` is 0 where these are one of many.
    """

    def __init__(
        self,
        step: KernelStep,
        solved: SolvedProblem,
        smoothing: Scalar | None = None,
        of_points: Sequence[Scalar | None] | None = None,
        late: Sequence[Scalar] | None = None,
    ) -> None:
        ops, nv = step.ops, step.tree.nv
        self._ops, self._step, self._solved = ops, step, solved
        self.modes, self.holds = step.modes(solved.problem, solved.outcome.p, smoothing, of_points, late)
        laws = solved.problem.points
        self.rows = [step.others[k] for x in laws for k in x.rows]
        self._units = diagonal(ops, [y for x in laws for y in x.units]) if step.patches else None
        self._normals = [own.start + 2 for own in places(self.modes)]
        held = {dof: x.held for dof, x in self.holds.items()}
        added = at_joints(ops, step.tree, {k: x.added for k, x in self.holds.items() if x.added is not None})
        self._L = L = SparseFactor(step.problem, together(ops, step.added, added), held) if held else step.space.L
        root = ops.vstack(L.solve_transpose(ops.eye(nv))) if nv else ops.zeros(0, 0)
        self._loops = step.closed_loops(L)
        if self._loops is not None:
            root = self._loops.kept(root)
        inverse = ops.product(ops.transpose(root), root, symmetric=True)
        self.Phi, self.N, self.is_unique = inverse, ops.zeros(nv, len(self.rows)), cast(Scalar, 1.0)
        self.any_normals: list[AnyNormals] = []
        if not self.rows:
            return
        G = ops.take(step.space.G, self.rows, self.rows)
        if ops.rank(G) < len(self.rows):
            is_exact = smoothing is None
            given = spaces(step.problem, [[step.others[k] for k in x.rows] for x in laws], [x.units for x in laws])
            law: PointLaws | WrenchLaws = WrenchLaws(ops, given, self.modes, inverse, is_exact)
        else:
            if held or self._loops is not None:
                Y = ops.take(dense_rows(step.problem, L), self.rows, None)
                if self._loops is not None:
                    Y = ops.transpose(self._loops.kept(ops.transpose(Y)))
                G, R = ops.product(Y, ops.transpose(Y), symmetric=True), ops.product(Y, root)
            else:
                R = ops.take(step.space.along_rows(root), self.rows, None)
            if self._units is not None:
                G, R = self._units @ G @ self._units, self._units @ R
            beside = [y for x in laws for y in x.sizes(step.size_of)] if step.loops else None
            law = PointLaws(ops, self.modes, G, R, beside)
        self._law, self.N, self.is_unique, self.any_normals = law, law.N, law.is_unique, law.any_normals
        if self._units is not None:
            self.N = self.N @ self._units
        self.Phi = inverse - ops.product(law.along, law.R)

    def with_positions(self) -> Matrix:
        """Changes of velocities of joints that limits hold, with their positions (nv × nv)."""
        rates = [self.holds[k].with_position if k in self.holds else 0.0 for k in range(self._step.tree.nv)]
        return diagonal(self._ops, rates)

    def with_time(self) -> Matrix:
        """The same with the time step (nv × 1)."""
        n = self._step.tree.nv
        return from_entries(self._ops, [self.holds[k].with_time if k in self.holds else 0.0 for k in range(n)])

    def of_loops(self, sigma: Matrix) -> Matrix:
        """Velocities (nv × k) by what rows of loops change by (l × k)."""
        if self._loops is None:
            return self._ops.zeros(self._step.tree.nv, self._ops.shape(sigma)[1])
        return -self._L.solved(self._loops.moving(sigma))

    def velocities(self, rho: Matrix, sigma: Matrix) -> Matrix:
        """``dv⁺`` (nv × k) of joints that are not held."""
        ops = self._ops
        if not self.rows:
            return -ops.product(self.Phi, rho)
        return -ops.product(ops.hstack([self.Phi, self.N]), ops.vstack([rho, sigma]))

    def normal_impulses(self, rho: Matrix, sigma: Matrix) -> Matrix:
        """Changes (n × k) of normal impulses of points, the smallest ones, of modes that are not smoothed."""
        sigma = sigma if self._units is None else self._units @ sigma
        return self._law.normal_impulses(-(self._law.R @ rho), sigma)

    def momentum_of_floors(self, floors: Matrix, J: Matrix) -> Matrix:
        """``∂ρ`` (nv × k) of changes of the least normal impulses (n × k), which points that press no harder follow."""
        ops = self._ops
        parts = [mode.with_floor * softness(ops, mode, (2,))[2][0] for mode in self.modes]
        B = ops.take(ops.block_diagonal([mode.B for mode in self.modes]), None, self._normals)
        B = B if self._units is None else self._units @ B
        return -(ops.transpose(ops.take(J, self.rows, None)) @ (B @ (diagonal(ops, parts) @ floors)))

    def is_unique_with(self, bounces: Sequence[Scalar], compression: ModeResponse | None, J: Matrix) -> Scalar:
        """1 where velocities are unique, also after a decompression that gives back parts (n) of impulses."""
        ops, is_unique = self._ops, self.is_unique
        for normals, any_way, whole in [] if compression is None else compression.any_normals:
            floors = self.Phi @ self.momentum_of_floors(diagonal(ops, bounces), J)
            free, most = _trace(ops, floors @ normals, any_way), _trace(ops, floors, whole)
            is_unique = is_unique * (1.0 - ops.less(ROUNDING * ops.epsilon * most, free))
        return is_unique


class AnyNormals(NamedTuple):
    """Changes of normal impulses that change no velocity of what they act on: a map (n × k) of any numbers.

    Covariances of these (k × k), and (n × n) of the terms that they are sums of.
    """

    normals: Matrix
    any_way: Matrix
    whole: Matrix


class Space(NamedTuple):
    """Motion (d × nv) that the rows of some points (r × d each) are of, and the numbers of these points."""

    motion: Matrix
    points: list[int]
    rows: list[Matrix]


def spaces(problem: Problem, rows: Sequence[Sequence[int]], units: Sequence[Sequence[Scalar]]) -> list[Space]:
    """Twists of links, or of one relative to another, that several points are on; a single point has its own rows.

    Of each point ``rows`` and units of its law (r each).
    """
    ops, out, groups, number = problem.ops, list[Space](), dict[tuple[int, ...], list[tuple[int, Candidate]]](), 0
    lengths = {c.of: c.contact.lengths for c in spins_of(problem.constraints)}
    axes_of = list[list[tuple[int, float]]]()  # of the spins of each point, with their lengths
    for index, candidates in problem.candidates.items():
        for x in candidates:
            groups.setdefault(tuple(x.arms), []).append((number, x))
            axes_of.append(lengths.get(index, []))
            number += 1
    for links, points in groups.items():
        numbers = [k for k, _ in points]
        if len(points) == 1:
            (k,) = numbers
            own = ops.eye(3) if len(rows[k]) == 3 else diagonal(ops, units[k])
            out.append(Space(ops.take(jacobian(problem), rows[k], None), numbers, [own]))
            continue
        across = []
        for k, x in points:
            axes = ops.transpose(x.axes)
            own = ops.hstack([axes, -(axes @ cross_matrix(ops, x.arms[links[0]]))])
            if axes_of[k]:
                turns = [scaled_matrix(ops, length, ops.take(axes, (axis,), None)) for axis, length in axes_of[k]]
                spins = ops.hstack([ops.zeros(len(turns), 3), ops.vstack(turns)])
                own = diagonal(ops, units[k]) @ ops.vstack([own, spins])
            across.append(own)
        out.append(Space(_twist(problem, points[0][1]), numbers, across))
    return out


def _twist(problem: Problem, point: Candidate) -> Matrix:
    """Twist (6 × nv) of the first link of a point less that of the second, at the first one's origin, world axes."""
    ops, tree, links = problem.ops, problem.tree, list(point.arms)
    top = tree.closest_common_ancestor(*links) if len(links) > 1 else WORLD
    total = ops.zeros(6, tree.nv)
    for link in links:
        columns = columns_of_rows(problem, link, top, ops.eye(6))
        J = assembled(ops, [6], [joint.nv for joint in tree.joints], {(0, i): x for i, x in columns.items()})
        R = problem.link_rotations[link]
        v, w = (R @ ops.take(J, part, None) for part in (LINEAR, ANGULAR))
        if link == links[0]:
            total = ops.vstack([v, w])
        else:
            apart = point.arms[link] - point.arms[links[0]]
            total = total - ops.vstack([v - cross_matrix(ops, apart) @ w, w])
    return total


class PointLaws:
    """Impulses along independent rows, ``Q = H = B (C G B + D)⁻¹ C``.

    Loops may make these depend on others; ``beside_loops`` are their mobilities without, which round-off is of.
    Attributes: ``R`` (m × nv), ``N = Rᵀ H`` and ``along = Rᵀ Q``; ``is_unique`` is 1.
    """

    def __init__(
        self, ops: Ops, modes: Sequence[Mode], G: Matrix, R: Matrix, beside_loops: Sequence[Scalar] | None
    ) -> None:
        C = ops.block_diagonal([mode.C for mode in modes])
        B = ops.block_diagonal([mode.B for mode in modes])
        A = ops.product(C @ G, B) + diagonal(ops, [x for mode in modes for x in mode.D])
        sizes = [mode.mobility for mode in modes for _ in mode.D]
        if beside_loops is None:
            over = inverted(ops, A, sizes)
        else:
            over = inverted_with_exchanges(ops, A, plus(sizes, beside_loops))
        Q = ops.product(B @ over, C)
        self.R, self._normals = R, ops.take(Q, [own.start + 2 for own in places(modes)], None)
        self.N = self.along = ops.product(ops.transpose(R), Q)
        self.is_unique: Scalar = 1.0
        self.any_normals: list[AnyNormals] = []

    def normal_impulses(self, V: Matrix, sigma: Matrix) -> Matrix:
        """Changes (n × k) with the motion of points and of rows."""
        return -(self._normals @ (V + sigma))


def _any_normals(
    ops: Ops, normals: Matrix, over: Matrix, held: Matrix, UGE: Matrix, at_normals: Matrix, of_normals: Matrix,
    firm: Sequence[Scalar],
) -> list[AnyNormals]:  # fmt: skip
    """Normal impulses that may be any beside those that `WrenchLaws` finds; arguments are what it has of that name."""
    d, n = ops.shape(normals)
    left = [1.0 - ops.less(0.0, dot(row, row)) for row in ops.entries(over)]  # rows that hold nothing more
    along, back = (ops.eye(d) - ops.product(over, held)) @ diagonal(ops, left), ops.transpose(normals)
    squares = [ops.matrix([[x * x for x in row] for row in ops.entries(a)]) for a in (back, along)]
    sizes = [sum(row, cast(Scalar, 0.0)) for row in ops.entries(squares[0] @ squares[1])]
    stiff = diagonal(ops, firm)
    answer = ops.eye(n) - back @ (over @ (UGE @ at_normals))
    return [
        AnyNormals(answer, ops.sym_subtract(stiff, of_normals), stiff),
        AnyNormals(back @ along, ops.eye(d), diagonal(ops, sizes)),
    ]


class WrenchLaws:
    """Impulses of points that share spaces, in which their rows are ``X``: ``c = C X``, ``b = Xᵀ B``.

    Points are soft in some directions and hard in others (``D = 0``). Soft ones are springs of the space,

        f = −(W (V + G f) + T ∂σ),   W = Σ b D⁻¹ c,   T = Σ b D⁻¹ C,   G = Z M⁻¹ Zᵀ.

    Impulses of hard ones are the smallest where ``x = S⁻¹ c z``, with mobilities ``S``: of these the space has no more
    than it has dimensions. With ``Σ cᵀ S⁻¹ c = Uᵀ Δ U``, rows of ``U`` whose pivots ``Δ`` are round-off left out,

        U (V + G f) + Γ ∂σ = 0,   Γ = Δ⁻¹ U⁻ᵀ Σ cᵀ S⁻¹ C,   f = β y,   β = (Σ b S⁻¹ c) U⁻¹ Δ⁻¹.

    Mobilities ``U G Uᵀ`` of rows of ``U`` are of the size ``Δ⁻¹``; rows of which they are round-off cannot move.

    Both together: ``f = −K (W V + T ∂σ) − L (U V + Γ ∂σ)`` with ``E = (1 + W G)⁻¹``, ``L = E β (U G E β)⁻¹`` and
    ``K = E − L U G E``. Attributes: ``R`` (d × nv), ``N = Rᵀ H`` and ``along = Rᵀ Q``.

    Friction of normal impulses is ``f = Σ s S⁻¹ x``, the part of ``b`` that is not in ``c``. Where ``s`` is no linear
    function of ``c``, impulses that move no normal move the space along the rest: ``Σ s S⁻¹ sᵀ − β_s Δ β_sᵀ``, with
    ``β_s = β − Uᵀ``. Velocities ``Rᵀ K f`` are not unique then, and ``is_unique`` is 0.

    Normal impulses are any where ``cᵀ x = 0``, with the covariance ``S⁻¹ − Γᵀ Δ Γ``, and along what ``U G E β`` makes
    zero: see `any_normals`.
    """

    def __init__(
        self, ops: Ops, given: Sequence[Space], modes: Sequence[Mode], inverse: Matrix, is_exact: bool
    ) -> None:
        n, Z = len(modes), ops.vstack([space.motion for space in given])
        self.R = ops.product(Z, inverse)
        G = ops.product(self.R, ops.transpose(Z), symmetric=True)
        d, first = ops.shape(Z)[0], 0
        W, U, beta, sizes = list[Matrix](), list[Matrix](), list[Matrix](), list[Scalar]()
        at, m = places(modes), sum(len(mode.D) for mode in modes)
        T, Gamma, normals = ops.zeros(d, m), ops.zeros(d, m), ops.zeros(d, n)
        slides, any_way = list[Matrix](), list[Matrix]()
        at_normals, of_normals, firm_normals = ops.zeros(d, n), ops.zeros(n, n), [cast(Scalar, 0.0)] * n
        for space in given:
            size = ops.shape(space.motion)[0]
            rows = range(first, first + size)
            first += size
            springs, hard, sliding, pushed, beside = *[ops.zeros(size, size)] * 4, list[Matrix]()
            for X, k in zip(space.rows, space.points, strict=True):
                mode, back = modes[k], ops.transpose(X)
                soft = softness(ops, mode, (1, *range(3, len(mode.D))) if is_exact else range(len(mode.D)))
                spring = mode.B @ (diagonal(ops, [x for x, _ in soft]) @ mode.C)
                firm = diagonal(ops, [x * (1.0 / mode.mobility) for _, x in soft])
                stiff, along = firm @ mode.C, back @ (mode.B - ops.transpose(mode.axes))
                firm_normals[k] = soft[2][1] * (1.0 / mode.mobility)
                at_normals = at_normals + ops.put(ops.take(along, None, (2,)), (d, n), rows, (k,))
                springs = springs + back @ (spring @ X)
                T = T + ops.put(back @ spring, (d, m), rows, at[k])
                hard = ops.sym_add(hard, ops.sym_product(back, (ops.transpose(mode.C) @ stiff) @ X))
                sliding = sliding + along @ (stiff @ X)
                pushed = ops.sym_add(pushed, ops.sym_product(along, firm @ ops.transpose(along)))
                beside.append(back @ ops.transpose(stiff))
            reduced, over_pivots = echelon(ops, hard, ops.hstack([ops.transpose(hard + sliding), *beside]))
            sizes += over_pivots
            W.append(springs)
            U.append(ops.take(reduced, None, range(size)))
            beta.append(ops.transpose(ops.take(reduced, None, range(size, 2 * size))))
            with_normals = beta[-1] - ops.transpose(U[-1])
            pivots = [ops.less(0.0, x) / ops.maximum(x, SQUARE_FLOOR) for x in over_pivots]
            told = ops.sym_product(with_normals, diagonal(ops, pivots) @ ops.transpose(with_normals))
            slides.append(pushed)
            any_way.append(ops.sym_subtract(pushed, told))
            begin = 2 * size
            for k in space.points:
                own = ops.take(reduced, None, range(begin, begin + len(at[k])))
                begin += len(at[k])
                Gamma = Gamma + ops.put(own @ modes[k].C, (d, m), rows, at[k])
                normals = normals + ops.put(ops.take(own, None, (2,)), (d, n), rows, (k,))
            told = ops.take(normals, rows, None)
            of_normals = ops.sym_add(of_normals, ops.sym_product(ops.transpose(told), diagonal(ops, pivots) @ told))
        self._W, self._U, self._T, self._Gamma = ops.block_diagonal(W), ops.block_diagonal(U), T, Gamma
        E = inverted(ops, ops.eye(d) + self._W @ G)
        UG, E_beta = self._U @ G, E @ ops.block_diagonal(beta)
        UGE, none = UG @ E, [1.0 - ops.less(0.0, size) for size in sizes]
        held = UG @ E_beta + diagonal(ops, none)
        over = inverted_with_exchanges(ops, held, plus(sizes, none))
        L = E_beta @ over
        K, back = E - L @ UGE, ops.transpose(self.R)
        self._ops, self._normals = ops, ops.transpose(normals) @ ops.hstack([over @ UGE, -over])
        both = back @ K, back @ L
        free, whole = (_trace(ops, x, ops.block_diagonal(y)) for x, y in ((both[0], any_way), (back, slides)))
        self.is_unique = 1.0 - ops.less(ROUNDING * ops.epsilon * whole, free)
        self.along = both[0] @ self._W + both[1] @ self._U
        self.N = ops.product(ops.hstack(both), ops.vstack([T, Gamma]))
        self.any_normals = _any_normals(ops, normals, over, held, UGE, at_normals, of_normals, firm_normals)

    def normal_impulses(self, V: Matrix, sigma: Matrix) -> Matrix:
        """Changes (n × k) with the motion of points and of rows."""
        ops, both = self._ops, self._ops.vstack([V, sigma])
        laws = ops.vstack([ops.hstack([self._W, self._T]), ops.hstack([self._U, self._Gamma])])
        return ops.product(ops.product(self._normals, laws), both)


def _trace(ops: Ops, x: Matrix, A: Matrix) -> Scalar:
    """Trace of ``x A xᵀ``."""
    pairs = zip(ops.entries(x @ A), ops.entries(x), strict=True)
    return sum((dot(y, z) for y, z in pairs), cast(Scalar, 0.0))


def places(modes: Sequence[Mode]) -> list[range]:
    """Rows of each point among those of all."""
    out, first = list[range](), 0
    for mode in modes:
        out.append(range(first, first + len(mode.D)))
        first += len(mode.D)
    return out


def softness(ops: Ops, mode: Mode, rows: Sequence[int]) -> list[tuple[Scalar, Scalar]]:
    """``1 / D`` of the rows of a point, and 1 where they are hard: ``D`` is zero, or round-off of the mobility's root.

    Only ``rows`` may be soft and act; the first is zero for others, and where rows are hard.
    """
    least, out = ops.epsilon**0.5 * mode.mobility, list[tuple[Scalar, Scalar]]()
    for k, x in enumerate(mode.D):
        is_soft = ops.less(least, x)
        out.append((is_soft / ops.select(is_soft, x, 1.0) if k in rows else 0.0, 1.0 - is_soft))
    return out


def echelon(ops: Ops, W: Matrix, beside: Matrix) -> tuple[Matrix, list[Scalar]]:
    """Rows (d × (d + k)) of ``[W, beside]`` by elimination, ``W = Uᵀ Δ U`` positive semidefinite; and ``Δ⁻¹`` (d).

    ``[U, Δ⁻¹ U⁻ᵀ beside]``, the largest pivot first. Rows whose pivots are round-off are zero, in ``Δ⁻¹`` too.
    """
    d, least = ops.shape(W)[0], ops.epsilon ** (2.0 / 3.0)
    a, rows, over_pivots = ops.entries(ops.hstack([W, beside])), list[list[Scalar]](), list[Scalar]()
    sizes, left = [a[k][k] for k in range(d)], [cast(Scalar, 1.0)] * d
    for _ in range(d):
        own = _largest(ops, [a[k][k] for k in range(d)], sizes, left)
        row, size = [dot(own, column) for column in zip(*a, strict=True)], dot(own, sizes)
        pivot = dot(own, row[:d])
        kept = ops.less(least * size, pivot)
        over = kept / ops.select(kept, pivot, 1.0)
        row = [x * over for x in row]
        left = minus(left, own)
        for i in range(d):
            factor = dot(own, a[i][:d])
            sizes[i] = sizes[i] + size * (row[i] * row[i])
            a[i] = [x - factor * y for x, y in zip(a[i], row, strict=True)]
        rows.append(row)
        over_pivots.append(over)
    return ops.matrix(rows), over_pivots


def inverted(ops: Ops, A: Matrix, sizes: Sequence[Scalar] | None = None) -> Matrix:
    """Inverse (n × n) by elimination without exchanges.

    With ``sizes`` of pivots, rows and columns whose pivots are round-off are left out: they are zero in it.
    """
    a, n = ops.entries(A), ops.shape(A)[0]
    for k in range(n):
        over = 1.0 / a[k][k] if sizes is None else _over_pivot(ops, a[k][k], sizes[k])
        a[k] = [x * over for x in a[k]]
        a[k][k] = over
        for i in range(n):
            if i != k:
                factor = a[i][k]
                a[i] = [-(factor * y) if j == k else x - factor * y
                        for j, (x, y) in enumerate(zip(a[i], a[k], strict=True))]  # fmt: skip
    return ops.matrix(a)


def inverted_with_exchanges(ops: Ops, A: Matrix, sizes: Sequence[Scalar]) -> Matrix:
    """The same by the largest pivots over their sizes first, of matrices whose rank is less at some states.

    A step replaces ``a_ij``, p its pivot, by ``(a_ij or 0 of row or column p) + (e_i − c_i) (e_j + r_j) / a_pp``, with
    row ``r`` and column ``c`` of the pivot without it, ``e`` 1 at p.
    """
    a, n = ops.entries(A), ops.shape(A)[0]
    left: list[Scalar] = [1.0] * n
    for _ in range(n):
        own = _largest(ops, [magnitude(ops, a[i][i]) for i in range(n)], sizes, left)
        left, others = (minus(z, own) for z in (left, [1.0] * n))
        over = _over_pivot(ops, dot(own, [a[i][i] for i in range(n)]), dot(own, sizes))
        row = [e + x * dot(own, values) for e, x, values in zip(own, others, zip(*a, strict=True), strict=True)]
        column = [over * (e - x * dot(own, values)) for e, x, values in zip(own, others, a, strict=True)]
        a = [[x * (y * z) + c * r for x, y, r in zip(values, others, row, strict=True)]
             for values, z, c in zip(a, others, column, strict=True)]  # fmt: skip
    return ops.matrix(a)


def _over_pivot(ops: Ops, pivot: Scalar, size: Scalar) -> Scalar:
    """One over a pivot of that size; zero of round-off."""
    kept = ops.less(ROUNDING * ops.epsilon * size, magnitude(ops, pivot))
    return kept / ops.select(kept, pivot, 1.0)


def _largest(ops: Ops, pivots: Sequence[Scalar], sizes: Sequence[Scalar], left: Sequence[Scalar]) -> list[Scalar]:
    """1 for the first that is `NEARLY` the largest pivot over its size among those that are ``left``, else 0."""
    ratios = [
        ops.select(there, x / ops.maximum(size, SQUARE_FLOOR), -1.0)
        for x, size, there in zip(pivots, sizes, left, strict=True)
    ]
    least, out, none = NEARLY * maximum_of(ops, ratios), list[Scalar](), cast(Scalar, 1.0)
    for x in ratios:
        out.append(none * (1.0 - ops.less(x, least)))
        none = none - out[-1]
    return out
