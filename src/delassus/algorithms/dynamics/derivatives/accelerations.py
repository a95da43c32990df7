"""Derivatives of constrained forward dynamics, by differentiating the system that its solution fulfils.

The residuals ``r = ID(q, v, q̈) − Jᵀ f − τ`` and ``g = J q̈ − γ`` are differentiated with q̈ and f held (`rates`,
`constraint_derivatives`); then, with ``M = Lᵀ L`` and ``Y = J L⁻¹`` (`ltl`), ``W = L⁻ᵀ ∂r``,

``∂f = G⁻¹ (Y W − ∂g)``,   ``∂q̈ = L⁻¹ (Yᵀ ∂f − W)``,

and with joint forces ``∂f/∂τ = −G⁻¹ J M⁻¹``, ``A = ∂q̈/∂τ = M⁻¹ − M⁻¹ Jᵀ G⁻¹ J M⁻¹``, one triangle of it. Positions
change along the tangent of `Tree.integrate`. What changes on one limb is first carried to the trunk t (`_division`),
``W_l = L_ll⁻ᵀ ∂r_l``, ``ρ = ∂r_t − L_ltᵀ W_l``; with ``σ = Y_l W_l − ∂g``, rows of one constraint only,

``∂f = G⁻¹ σ − ∂f/∂τ_t ρ``,   ``∂q̈ = −A_t ρ − (∂f/∂τ)ᵀ σ − L⁻¹ W_l``.

Columns of the trunk are solved by ``L⁻¹`` itself. Positions and velocities are columns side by side, each solved alone
up to ``ρ`` and ``σ`` (`Ops.by_column`); what follows are products of dense blocks (`Ops.product`).

Of soft constraints ``J q̈ + R f = γ``, and ``G + R`` is in the place of ``G``. Rows of constraints that are off are
zero, and an identity stands for their part of ``G`` (`Problem.relaxed`); what dependent rows change: `Dependence`.
Limbs without constraints follow the others, by ``T`` of `SparseFactor.followers`. Cost O(n d + m d) for the residuals,
O(n² + n m) for each degree of freedom of the trunk and for each of a limb's end. Source: Carpentier, Mansard, RSS 2018;
Budhiraja et al., "Differential dynamic programming for multi-phase rigid contact dynamics", Humanoids 2018.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from delassus.algorithms.blocks import assembled
from delassus.algorithms.dynamics.derivatives.rates import CompositeBody, Rates
from delassus.algorithms.dynamics.derivatives.rows import RowChanges, row_changes, spring_changes
from delassus.algorithms.dynamics.ltl import JointSpace
from delassus.algorithms.dynamics.solution import DynamicsSolution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.loops.inverse_dynamics import orthogonalised
from delassus.model.tree import WORLD
from delassus.spatial.motion import ANGULAR, LINEAR, diagonal, force_matrix, motion_matrix, scaled_matrix
from delassus.spatial.ops import Matrix, Ops, Scalar

DERIVATIVES: Mapping[str, str] = MappingProxyType(
    {
        "dqdd_dq": "change of joint accelerations with positions, along the tangent of the configuration",
        "dqdd_dv": "change of joint accelerations with velocities",
        "dqdd_dtau": "change of joint accelerations with joint forces",
        "df_dq": "change of constraint forces with positions, along the tangent of the configuration",
        "df_dv": "change of constraint forces with velocities",
        "df_dtau": "change of constraint forces with joint forces",
    }
)
"""Names of the derivatives, and what they are."""


class Direction(NamedTuple):
    """A robot at rest, and its solution by the derivatives along one direction; see `_directions`.

    ``changed``: the motion that changes, where positions or velocities do; that with velocities is without forces.
    """

    problem: DynamicsProblem
    solution: DynamicsSolution
    changed: DynamicsProblem | None
    with_velocity: bool


@dataclass(frozen=True, slots=True, eq=False)
class Dependence:
    """What is to be known of hard rows that depend on one another, beside the inverse of `Resolve`.

    Their forces ``f`` are the least ones, ``Nᵀ f = 0``, and ``J q̈`` is next to ``γ``, ``Jᵀ ρ = 0`` with ``ρ = γ − J
    q̈``, where the columns of ``N`` are an orthonormal basis of ``Jᵀ n = 0``. Where the rank stays as it is, both are
    differentiated with these: with ``J y = f``,

    ``Nᵀ ∂f = Nᵀ ∂(J y)``,   ``J ∂q̈ = N̄ N̄ᵀ (−∂g) + x``,   ``Jᵀ x = ∂(Jᵀ ρ)``,   ``N̄ N̄ᵀ = 1 − N Nᵀ``.

    Attributes
    ----------
    hard : (m, m) matrix
        ``G⁺`` of hard rows, zero for others.
    idle : (m, m) matrix
        ``N Nᵀ``; zero for soft rows.
    missed : (m, 1) matrix or None
        ``ρ``; None if rows contradict one another at no state.
    """

    hard: Matrix
    idle: Matrix
    missed: Matrix | None


Resolve = Callable[[DynamicsProblem, DynamicsSolution, Matrix], tuple[DynamicsSolution, Matrix, Dependence | None]]
"""Checks a solution, and the inverse of ``G + R``. Where hard rows depend on one another, that of the result gives
forces of least norm, and takes no part of what no force gives."""


class AccelerationResponse:
    """How accelerations and forces answer changes of joint forces, and of what rows ask for.

    Attributes
    ----------
    inverse : (m, m) matrix
        Of ``G + R``.
    A : (nv, nv) matrix
        ``∂q̈/∂τ``.
    df_dtau : (m, nv) matrix
        ``∂f/∂τ``; transposed, it takes rows of ``∂g`` to ``∂q̈``.
    """

    def __init__(self, motion: DynamicsProblem, system: JointSpace, inverse: Matrix) -> None:
        ops, nv = motion.ops, motion.tree.nv
        self._ops, self._nv, self._system, self.inverse = ops, nv, system, inverse

        # of leaders; followers are T times those, and what their own forces make
        self._leaders, followers, self._trunk, self._limbs = _division(motion, system)
        root = system.solve_transpose(ops.eye(nv))  # L⁻ᵀ
        self._T = T = system.L.followers(self._leaders)
        self._own = ops.put(ops.take(root, followers, followers), (nv, nv), followers, followers)
        self._to_leaders = ops.take(root, None, self._leaders)
        self._along_rows = system.along_rows(self._to_leaders)
        self._df_leaders = ops.product(-inverse, self._along_rows)
        A_leaders = ops.sym_add(
            ops.product(ops.transpose(self._to_leaders), self._to_leaders, symmetric=True),
            ops.product(ops.transpose(self._along_rows), self._df_leaders, symmetric=True),
        )
        self.df_dtau = ops.product(self._df_leaders, ops.transpose(T))
        self.A = ops.sym_add(
            ops.product(ops.product(T, A_leaders), ops.transpose(T), symmetric=True),
            ops.sym_product(ops.transpose(self._own), self._own),
        )

    def __call__(self, r: Matrix, g: Matrix) -> tuple[Matrix, Matrix]:
        """``∂q̈`` and ``∂f`` of ``∂r`` (nv × k nv) and ``∂g`` (m × k nv), by columns of one degree of freedom each."""
        ops, nv, (m, width) = self._ops, self._nv, self._ops.shape(g)
        dqdd, df = ops.zeros(nv, width), ops.zeros(m, width)
        for some, solve in ((self._trunk, self._of_trunk), (self._limbs, self._of_limbs)):
            which = [start + k for start in range(0, width, nv or 1) for k in some]
            if which:
                led, y, beyond = solve(ops.take(r, None, which), ops.take(g, None, which))
                dqdd = dqdd + ops.put(ops.product(self._T, led) - beyond, (nv, width), range(nv), which)
                df = df + ops.put(y, (m, width), range(m), which)
        return dqdd, df

    def _of_trunk(self, r: Matrix, g: Matrix) -> tuple[Matrix, Matrix, Matrix]:
        """Changes of q̈ of leaders, of f, and of q̈ beyond that, where all limbs feel what changes."""
        ops, system = self._ops, self._system

        def asked(r: Matrix, g: Matrix) -> list[Matrix]:
            W = system.solve_transpose(r)
            return [-W, system.along_rows(W) - g, ops.transpose(self._own) @ W]

        minus_W, sigma, beyond = ops.by_column(asked, r, g)
        df = ops.product(self.inverse, sigma)
        by = ops.hstack([ops.transpose(self._to_leaders), ops.transpose(self._along_rows)])
        return ops.product(by, ops.vstack([minus_W, df])), df, beyond

    def _of_limbs(self, r: Matrix, g: Matrix) -> tuple[Matrix, Matrix, Matrix]:
        """Changes where one limb feels what changes, and the others through the trunk only."""
        ops, system, nv, trunk, limbs = self._ops, self._system, self._nv, self._trunk, self._limbs

        def asked(r: Matrix, g: Matrix) -> list[Matrix]:
            left = system.solve_transpose(r, trunk)
            k = range(ops.shape(r)[1])
            W = ops.put(ops.take(left, limbs, None), (nv, len(k)), limbs, k)
            minus = ops.vstack([-ops.take(left, trunk, None), g - system.along_rows(W)])
            return [minus, ops.transpose(self._to_leaders) @ W, ops.transpose(self._own) @ W]

        minus, alone, beyond = ops.by_column(asked, r, g)
        x = ops.product(ops.hstack([ops.take(self.A, self._leaders, trunk), ops.transpose(self._df_leaders)]), minus)
        y = ops.product(ops.hstack([ops.take(self.df_dtau, None, trunk), -self.inverse]), minus)
        return x - alone, y, beyond


@dataclass(frozen=True, slots=True, eq=False)
class Derivatives:
    """Solution of a problem, by name its `DERIVATIVES`, what these can be judged by, its robot's response and rates."""

    solution: DynamicsSolution
    changes: dict[str, Matrix]
    directions: list[Direction]
    response: AccelerationResponse
    rates: Rates


def derivatives(
    motion: DynamicsProblem,
    resolve: Resolve,
    response: AccelerationResponse | None = None,
    further: tuple[Matrix, Matrix] | None = None,
    is_dependent: bool = False,
) -> Derivatives:
    """Differentiate a problem.

    ``response``: of another problem of the same robot at the same configuration under the same constraints, if there is
    one. ``further``: changes (m × nv) with positions and with velocities of ``−γ`` of a robot at rest.
    ``is_dependent``: whether hard rows depend on one another at almost all states.
    """
    ops, problem, nv, m = motion.ops, motion.problem, motion.tree.nv, motion.problem.n_rows
    system = JointSpace(motion)
    G, forces, inverse, known = motion.softened(system.G), system.gamma, ops.zeros(0, 0), None
    if m and is_dependent:
        inverse, known = _of_dependent_rows(motion, system)
        forces = inverse @ system.row_deficit
        forces = forces + inverse @ (system.row_deficit - G @ forces)
    elif m:
        factor = ops.factor(problem.relaxed(G))
        forces, inverse = factor.solve(system.row_deficit), factor.inverse()
    found = DynamicsSolution(system.accelerations(forces), forces, G)
    solution, inverse, dependence = resolve(motion, found, inverse)
    dependence = known if dependence is None else dependence
    qdd, forces = solution.qdd, solution.forces
    rates = Rates(motion, by_joint(motion, qdd))
    f = [ops.take(forces, range(s.start, s.stop), None) for s in problem.rows]
    response = AccelerationResponse(motion, system, inverse) if response is None else response

    # positions and velocities, side by side; a robot at rest has no changes of ∂r with velocities
    of_rows, still = [row_changes(motion, rates, k, part) for k, part in enumerate(f)], motion.velocity is None
    r_q, r_v, _ = residual_changes(rates, of_rows)
    g_q, g_v = (
        ops.vstack([ops.zeros(0, nv), *(problem.switched(k, x) for k, x in enumerate(of_each))])
        for of_each in ([c.with_q for c in of_rows], [c.with_v for c in of_rows])
    )
    if further is not None:
        g_q, g_v = g_q + further[0], g_v + further[1]
    if dependence is not None:
        g_q = g_q - _of_missed(motion, system, dependence)
    r, g = ops.hstack([r_q, r_v]), ops.hstack([g_q, g_v])
    if still:
        (dqdd, df), by_rows = response(r_q, g_q), ops.transpose(response.df_dtau)
        dqdd, df = ops.hstack([dqdd, ops.product(by_rows, g_v)]), ops.hstack([df, ops.product(-response.inverse, g_v)])
    else:
        dqdd, df = response(r, g)
    A, df_dtau = response.A, response.df_dtau
    directions = _directions(motion, [(-r, -g, dqdd, df), (ops.eye(nv), ops.zeros(m, nv), A, df_dtau)])
    if rates.root != WORLD:
        drift = ops.hstack([rates.drift_q, rates.drift_v])
        dqdd = dqdd - ops.put(drift, (nv, 2 * nv), range(6), [*range(6), *range(nv, nv + 6)])
    if dependence is not None:
        df = df + ops.hstack([_of_idle(motion, system, dependence, forces), ops.zeros(m, nv)])
    changes = {"dqdd_dtau": A, "df_dtau": df_dtau}
    for name, part in (("dq", range(nv)), ("dv", range(nv, 2 * nv))):
        changes |= {f"dqdd_{name}": ops.take(dqdd, None, part), f"df_{name}": ops.take(df, None, part)}
    ops.mark("derivatives", list(changes.values()))
    return Derivatives(solution, changes, directions, response, rates)


def impact_derivatives(
    impact: DynamicsProblem, struck: Sequence[Scalar], resolve: Resolve, is_dependent: bool = False
) -> Derivatives:
    """Of an impact ``M Δv = Jᵀ p``, ``J Δv = −s J v``, ``s`` of each constraint; changes are those of ``Δv`` and ``p``.

    It is a robot at rest, whose rows ask for what changes with ``J v``.
    """
    ops, rows = impact.ops, impact.problem.rows
    if not rows:
        return derivatives(impact, resolve)
    J, v = JointSpace(impact).J, impact.stacked(impact.per_joint(impact.before))
    straight = [ops.take(J, range(of.start, of.stop), None) for of in rows]
    parts = (
        [scaled_matrix(ops, s, x) for s, x in zip(struck, of_rows, strict=True)]
        for of_rows in (velocity_changes(impact, v), straight)
    )
    with_q, with_v = map(ops.vstack, parts)
    return derivatives(impact, resolve, further=(with_q, with_v), is_dependent=is_dependent)


def _of_dependent_rows(motion: DynamicsProblem, system: JointSpace) -> tuple[Matrix, Dependence]:
    """Inverse of ``G + R`` for forces of least norm, and what else is to be known, by Gram and Schmidt's method on `Y`.

    With ``X (G + R) Xᵀ = D`` diagonal, ``Xᵀ D⁺ X`` solves what can be; rows of ``X`` where ``D`` is zero span ``N``.
    """
    ops, m, nv = motion.ops, motion.problem.n_rows, motion.tree.nv
    Y, hard = system.along_rows(ops.eye(nv)), list[int]()
    for rows, is_soft in zip(motion.problem.rows, motion.softness, strict=True):
        hard += [] if is_soft else [*range(m)[rows]]

    def solved(A: Matrix, B: Matrix) -> tuple[Matrix, Matrix]:
        n = ops.shape(A)[0]
        X, over, kept = orthogonalised(ops, A, B)
        for x, is_kept in zip(over, kept, strict=True):
            ops.pivot(ops.select(is_kept, 1.0 / ops.select(is_kept, x, 1.0), 1.0))
        N = diagonal(ops, [1.0 - x for x in kept]) @ X
        square = ops.sym_add(ops.sym_product(N, ops.transpose(N)), diagonal(ops, kept))
        idle = ops.sym_product(ops.transpose(N), ops.factor(square, is_judged=False).solve(N))
        range_of = ops.eye(n) - idle
        Z = X @ range_of
        return ops.sym_product(ops.transpose(Z), diagonal(ops, over) @ Z), idle

    soft = [k for k in range(m) if k not in hard]
    R = ops.block_diagonal([motion.compliance(c) for c in range(len(motion.goals))])
    inverse, idle = solved(*(ops.hstack([Y, ops.take(x, None, soft)]) for x in (ops.eye(m), R)))
    of_hard = inverse
    if soft:
        Y_hard = ops.take(Y, hard, None)
        of_hard = ops.put(solved(Y_hard, Y_hard)[0], (m, m), hard, hard)
    return inverse, Dependence(of_hard, idle, idle @ system.row_deficit)


def velocity_changes(motion: DynamicsProblem, v: Matrix) -> list[Matrix]:
    """``∂(J v)`` (m_c × nv) of each constraint with positions: that of ``J q̈`` at ``q̈ = v`` of the robot at rest."""
    ops, problem = motion.ops, motion.problem
    rest = motion.at_rest(ops.zeros(motion.tree.nv, 1), ops.zeros(problem.n_rows, 1))
    rates = Rates(rest, by_joint(rest, v))
    return [problem.switched(k, row_changes(rest, rates, k).with_q) for k in range(len(problem.constraints))]


def _of_idle(motion: DynamicsProblem, system: JointSpace, dependence: Dependence, forces: Matrix) -> Matrix:
    """``N Nᵀ ∂f`` (m × nv) with positions."""
    y = system.back_substitution(motion.ops.zeros(motion.tree.nv, 1), dependence.hard @ forces)
    return dependence.idle @ motion.ops.vstack(velocity_changes(motion, y))


def _of_missed(motion: DynamicsProblem, system: JointSpace, dependence: Dependence) -> Matrix:
    """``x`` (m × nv) with positions."""
    ops, nv, m, missed = motion.ops, motion.tree.nv, motion.problem.n_rows, dependence.missed
    if missed is None:
        return ops.zeros(m, nv)
    still = ops.zeros(nv, 1)
    rest = motion.at_rest(still, ops.zeros(m, 1))
    rates = Rates(rest, by_joint(rest, still))
    parts = (ops.take(missed, range(s.start, s.stop), None) for s in motion.problem.rows)
    acting = [row_changes(rest, rates, k, part) for k, part in enumerate(parts)]
    change = residual_changes(rates, acting)[0]  # −∂(Jᵀ ρ)
    return -(dependence.hard @ system.along_rows(system.solve_transpose(change)))


def by_joint(motion: DynamicsProblem, v: Matrix) -> list[Matrix]:
    """A vector (nv × 1), one column a joint."""
    return [motion.ops.take(v, range(s.start, s.stop), None) for s in motion.tree.v_slices]


def _directions(motion: DynamicsProblem, systems: Iterable[tuple[Matrix, Matrix, Matrix, Matrix]]) -> list[Direction]:
    """Directions in which positions, velocities and joint forces change, with signs at random.

    ``M ∂q̈ − Jᵀ ∂f = b`` and ``J ∂q̈ = k``: the derivatives ``∂q̈`` and ``∂f`` along them are the accelerations and
    forces of the robot at rest under ``b``, whose rows ask for ``k``. ``systems`` hold b, k, ``∂q̈``, ``∂f`` by column.
    """
    ops, nv, signs, out = motion.ops, motion.tree.nv, random.Random(0), list[Direction]()
    moving = DynamicsProblem(motion.problem, motion.velocity, None, gravity=ops.zeros(3, 1), goals=motion.goals)
    changes = iter([(motion, False), (None if motion.velocity is None else moving, True), (None, False)])
    for parts in systems:
        for start in range(0, ops.shape(parts[0])[1], nv or 1):
            z = ops.constant([[signs.choice((-1.0, 1.0))] for _ in range(nv)])
            b, k, dqdd, df = (ops.take(a, None, range(start, start + nv)) @ z for a in parts)
            out.append(Direction(motion.at_rest(b, k), DynamicsSolution(dqdd, df), *next(changes)))
    return out


def _division(motion: DynamicsProblem, system: JointSpace) -> tuple[list[int], list[int], list[int], list[int]]:
    """Degrees of freedom, ascending: leaders bear constraints, followers none; the trunk several, limbs others.

    Those of a floating root are leaders and in the trunk.
    """
    tree = motion.tree
    floating = range(tree.joints[0].nv) if tree.is_floating else ()
    bears = [2 if k in floating else sum(k in columns for columns in system.Y) for k in range(tree.nv)]
    leaders, followers = [k for k, n in enumerate(bears) if n], [k for k, n in enumerate(bears) if not n]
    trunk, limbs = [k for k, n in enumerate(bears) if n > 1], [k for k, n in enumerate(bears) if n <= 1]
    return leaders, followers, trunk, limbs


def force_changes(
    rates: Rates, M: Matrix, acting: Sequence[RowChanges] = ()
) -> tuple[Matrix, Matrix]:  # fmt: skip
    """Changes (nv × nv) of joint forces with positions and velocities, less those of the constraints ``acting``."""
    ops, nv = rates.motion.ops, rates.motion.tree.nv
    with_q, with_v, _ = residual_changes(rates, acting)
    if rates.root != WORLD:
        root = ops.take(M, None, range(6))
        with_q = with_q + ops.put(root @ rates.drift_q, (nv, nv), range(nv), range(6))
        with_v = with_v + ops.put(root @ rates.drift_v, (nv, nv), range(nv), range(6))
    return with_q, with_v


def residual_changes(rates: Rates, of_constraints: Sequence[RowChanges]) -> tuple[Matrix, Matrix, list[Matrix]]:
    """``∂r/∂q`` and ``∂r/∂v`` (nv × nv), and ``sᵀ I`` (n_i × 6) of each joint with all that lies beyond it."""
    motion, ops, tree = rates.motion, rates.motion.ops, rates.motion.tree
    sizes = [joint.nv for joint in tree.joints]
    beyond, crossed = [*rates.bodies], [] if rates.crossed is None else [*rates.crossed[1]]
    F = rates.forces(beyond)
    of_constraints = [*of_constraints, *spring_changes(rates)]
    for c in of_constraints:
        for link, W in c.wrenches.items():
            F[link] = F[link] - W

    # of weights C that are compensated the force is C g, where g does not move: g × s_k
    lifted = [rates.compensated(i) for i in tree.root_to_leaves()] if motion.compensated else []
    gravity_rotation = motion_matrix(ops, ops.put(rates.gravity, (6, 1), LINEAR, (0,)))
    rotated_gravity = [gravity_rotation @ S for S in rates.S] if lifted else []

    # leaves → root: inertia and force of all that lies beyond each joint
    for i in tree.leaves_to_root():
        p = tree.parents[i]
        if p != WORLD:
            beyond[p], F[p] = beyond[p].plus(ops, beyond[i]), F[p] + F[i]
            if crossed:
                crossed[p] = crossed[p].plus(ops, crossed[i])
            if lifted:
                lifted[p] = lifted[p].plus(ops, lifted[i])

    # s_kᵀ ∂f_j/∂q_j, s_jᵀ ∂f_j/∂q_k and the same with velocities, for joints k above j  (formulas of `rates`)
    joints = list(zip(rates.S, rates.psi, rates.xi, rates.phi, strict=True))
    across: list[tuple[Matrix, ...]] = [()] * len(joints)
    if rates.crossed is not None:
        across = [(psi, B.momentum, B.rate) for psi, B in zip(rates.crossed[0], crossed, strict=True)]
    rows = [(*x, f, *b.parts(), *other) for x, f, b, other in zip(joints, F, beyond, across, strict=True)]
    found = [[*x] for x in ops.map(partial(_of_joint, ops), rows)]
    q: dict[tuple[int, int], Matrix] = {}
    v: dict[tuple[int, int], Matrix] = {}
    for j, (_, _, own_q, own_v, *_) in enumerate(found):
        q[j, j], v[j, j] = own_q, own_v
        if lifted:
            change = lifted[j].times(ops, rotated_gravity[j])
            q[j, j], found[j][0] = own_q + ops.transpose(rates.S[j]) @ change, found[j][0] + change
    pairs = [(k, j) for j in tree.root_to_leaves() for k in tree.support(j)[:-1]]
    rows = [(*found[j][:2], *found[j][4:6], *joints[k], *across[k][:1], *found[j][6:]) for k, j in pairs]
    for (k, j), blocks in zip(pairs, ops.map(partial(_of_pair, ops), rows), strict=True):
        q[k, j], v[k, j], q[j, k], v[j, k] = blocks
        if lifted:
            q[j, k] = q[j, k] + ops.transpose(lifted[j].times(ops, rates.S[j])) @ rotated_gravity[k]
    r_q, r_v = assembled(ops, sizes, sizes, q), assembled(ops, sizes, sizes, v)

    # leaves → root: wrenches that do not move with their links; springs and damping
    r_q = r_q - _along_joints(rates, [c.wrench_changes for c in of_constraints])
    r_v = r_v - _along_joints(rates, [c.wrench_rates for c in of_constraints])
    springs = motion.spring_changes()
    if springs:
        r_q = r_q + assembled(ops, sizes, sizes, {(i, i): change for i, change in springs.items()})
    r_v = r_v if motion.damping is None else r_v + diagonal(ops, motion.damping)

    # rotors: a (ω × v) along axes that do not turn, and −a C of a root whose acceleration changes beyond −C
    of_rotors = {
        (i, i): diagonal(ops, a) @ motion.velocity_product_changes(i) for i, a in motion.straight_armature.items()
    }
    if of_rotors:
        r_v = r_v + assembled(ops, sizes, sizes, of_rotors)
    if rates.root != WORLD and (armature := tree.joints[rates.root].armature).any():
        own = diagonal(ops, armature.tolist())
        r_q, r_v = (r - assembled(ops, sizes, sizes, {(rates.root, rates.root): own @ C})
                    for r, C in ((r_q, rates.drift_q), (r_v, rates.drift_v)))  # fmt: skip
    return r_q, r_v, [x[4] for x in found]


def _along_joints(rates: Rates, each: Iterable[Mapping[int, Matrix]]) -> Matrix:
    """``sᵀ`` times the sum of wrenches (6 × nv, by link) that lie beyond each joint (nv × nv)."""
    ops, tree, wrenches = rates.motion.ops, rates.motion.tree, dict[int, Matrix]()
    for changes in each:
        for link, change in changes.items():
            wrenches[link] = wrenches[link] + change if link in wrenches else change
    out = [ops.zeros(0, tree.nv)]
    for i in tree.leaves_to_root():
        own, p = wrenches.get(i), tree.parents[i]
        out.append(ops.zeros(tree.joints[i].nv, tree.nv) if own is None else ops.transpose(rates.S[i]) @ own)
        if own is not None and p != WORLD:
            wrenches[p] = wrenches[p] + own if p in wrenches else own
    return ops.vstack(out[::-1])


def _of_joint(ops: Ops, S: Matrix, psi: Matrix, xi: Matrix, phi: Matrix, F: Matrix, *body: Matrix) -> list[Matrix]:
    """What lies beyond a joint: changes of its force and of the joint's own, and ``sᵀ I`` and ``sᵀ B``."""
    I, other, St = CompositeBody(*body[:5]), body[5:], ops.transpose(S)
    own, with_v = I.times(ops, xi) + I.rate_times(ops, psi), I.rate_times(ops, S) + I.times(ops, phi)
    SI, SB = ops.transpose(I.times(ops, S)), [ops.transpose(I.rate_transposed_times(ops, S))]
    if other:
        B = CompositeBody(*body[:3], *other[1:])
        own, SB = own + B.rate_times(ops, other[0]), [*SB, ops.transpose(B.rate_transposed_times(ops, S))]
    return [own + force_matrix(ops, F) @ S, with_v, St @ own, St @ with_v, SI, *SB]


def _of_pair(ops: Ops, with_q: Matrix, with_v: Matrix, SI: Matrix, SB: Matrix, *above: Matrix) -> list[Matrix]:
    """Changes of the force of a joint above by one beyond it, and of that one's by the joint above."""
    (S, psi, xi, phi), other = above[:4], above[4:]
    turns, St = [ops.take(x, ANGULAR, None) for x in (psi, S)], ops.transpose(S)
    own = SI @ xi + SB @ turns[0]
    if other:
        own = own + other[1] @ ops.take(other[0], ANGULAR, None)
    return [St @ with_q, St @ with_v, own, SI @ phi + SB @ turns[1]]
