"""Vocabularies of `Ops` that count as the papers do, under the algorithm texts of `delassus.algorithms`.

`CasadiOps`: how [LQR], [r1] and [r2] count. They name their code, https://github.com/AjSat/spatial_V2, which builds
CasADi's SX graph of the algorithms in local frames. Where the texts part from that code:

- `rows_to_parent` is ``K − (K S)(D⁻¹ Uᵀ)``; theirs divides ``K S`` by ``D`` once more, see `repeated_divisions`.
- EFPA multiplies other matrices first, see `efpa`; that of 2022, in [r1], ``P H`` of the articulated sweep, too, see
  `efpa_excess`.
- On a fixed base `pv_osim` and `efpa` make less at the first link, see `beside_joint`.
- `pv_osimr` starts an identity at a link with several points; theirs has one stack of rows on it. Products ``K Ω`` at
  the base, which the text scales by a diagonal, are 6×6 products here.
- `ltl_osim` propagates columns; theirs lets CasADi differentiate velocities.

`CasadiDynamicsOps`: how [LQR] builds the solvers that Table II and Fig. 4 time. Where texts part from that code:

- `pv_early` eliminates a row with its joint, which takes fewer operations than [LQR] section VIII does, and writes rows
  that hold a link as constants: the links here are `LateRows`, eqs. 57 to 68 in the paper's order.
- `pv` and `pv_early` eliminate a floating base coordinate by coordinate; theirs factorises its 6×6 inertia.
- `ltl` solves ``L⁻ᵀ (τ − c)`` once for ``q̈`` and for the forces; theirs finds ``q̈`` without constraints first, and
  multiplies it by ``J``: a solution and a product more.
- Rows of constraints ask for what they are given, and bias forces are products with inertias, in `PublishedMotion`
  alone; the library takes gravity to each link with rows, and bias forces about centres of mass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.blocks import ConstraintBlocks
from delassus.algorithms.dynamics import METHODS, SOFT
from delassus.algorithms.dynamics.constraint_acceleration import constraint_residual
from delassus.algorithms.dynamics.popov_vereshchagin.early_rows import EarlyElimination
from delassus.algorithms.dynamics.popov_vereshchagin.link_elimination import back_substitution, transform_and_drift
from delassus.algorithms.dynamics.popov_vereshchagin.parts import RowKinds, early_parts, link_parts, take_parts
from delassus.algorithms.dynamics.popov_vereshchagin.steps import Combined, Label
from delassus.algorithms.dynamics.solution import DynamicsSolution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.jacobian import jacobian_columns
from delassus.algorithms.osim import METHODS as OSIM_METHODS
from delassus.algorithms.problem import Problem
from delassus.constraints import Constraint, Goal
from delassus.errors import require
from delassus.frozen import cached_property
from delassus.model.tree import WORLD, Tree
from delassus.spatial.motion import ANGULAR, LINEAR, cross
from delassus.spatial.ops import Matrix, Ops
from delassus.spatial.rotations import Array
from delassus.spatial.trace.rank import rank_of
from delassus.spatial.trace.trace_ops import TraceOps
from delassus.spatial.transform import Displacement
from delassus_studies.count_ops import DenseRigidInertia, DenseTransform

ROUND_OFF = 1e-13
"""Of entries of a matrix whose rank is asked for, relative to the largest one."""


class CasadiOps(Ops):
    """CasADi's scalar expressions (SX): zeros, units and signs are simplified, nothing is shared that is made twice.

    Transforms are one 6×6 matrix. Of a symmetric result the lower triangle is made: the moments' rows by the forces'
    columns, as in the upper triangle of the papers' code, whose vectors are [angular; linear].
    """

    def __init__(self) -> None:
        require("casadi", "casadi", "to count as the papers do")
        import casadi

        self.ca: Any = casadi

    def constant(self, value: Any) -> Any:
        return self.ca.sparsify(self.ca.SX(self.ca.DM(np.asarray(value, dtype=float))))

    def zeros(self, rows: int, columns: int) -> Any:
        return self.ca.SX(rows, columns)

    def entries(self, a: Any) -> list[list[Any]]:
        return [[a[i, j] for j in range(a.shape[1])] for i in range(a.shape[0])]

    def matrix(self, rows: Sequence[Sequence[Any]]) -> Any:
        return self.ca.sparsify(self.ca.vertcat(*(self.ca.horzcat(*row) for row in rows)))

    def take(self, a: Any, rows: Sequence[int] | None = None, columns: Sequence[int] | None = None) -> Any:
        return a[slice(None) if rows is None else list(rows), slice(None) if columns is None else list(columns)]

    def put(self, a: Any, shape: tuple[int, int], rows: Sequence[int], columns: Sequence[int]) -> Any:
        out = self.ca.SX(*shape)
        if len(rows) and len(columns):
            out[list(rows), list(columns)] = a
        return out

    def shape(self, a: Any) -> tuple[int, int]:
        return a.shape[0], a.shape[1]

    def nonzero(self, a: Any) -> Any:
        return np.array([[not x.is_zero() for x in row] for row in self.entries(a)]).reshape(a.shape)

    def transpose(self, a: Any) -> Any:
        return a.T

    def vstack(self, parts: Sequence[Any]) -> Any:
        return self.ca.vertcat(*parts)

    def cos(self, x: Any) -> Any:
        return self.ca.cos(x)

    def sin(self, x: Any) -> Any:
        return self.ca.sin(x)

    def sqrt(self, x: Any) -> Any:
        return self.ca.sqrt(x)

    def copysign(self, x: Any, y: Any) -> Any:
        return self.ca.copysign(x, y)

    def _not_asked(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("the methods of the papers do not ask for this")

    rank = known = minimum = maximum = less = select = repeat = _not_asked

    def symmetric(self, a: Any) -> Any:
        """The matrix with its lower triangle copied to the upper."""
        return self.ca.tril2symm(self.ca.tril(a))

    def sym_add(self, a: Any, b: Any) -> Any:
        return self.symmetric(a + b)

    def sym_subtract(self, a: Any, b: Any) -> Any:
        return self.symmetric(a - b)

    def sym_product(self, a: Any, b: Any) -> Any:
        return self.symmetric(a @ b)

    def transform(self, displacement: Displacement) -> ComposedTransform:
        return ComposedTransform(self, displacement)

    def factor(self, D: Any, is_judged: bool = True) -> Any:
        return DenseFactor(self, D)

    def rigid_inertia(self, H: Any) -> DenseRigidInertia:
        return DenseRigidInertia(self, H)

    def count(self, *outputs: Any) -> int:
        """Instructions of CasADi's function of these outputs, without its inputs and outputs, as the papers count them.

        Each known number is an instruction too.
        """
        inputs = self.ca.symvar(self.ca.veccat(*outputs))
        function = self.ca.Function("counted", inputs, list(outputs))
        return int(function.n_instructions() - function.nnz_in() - function.nnz_out())


class ComposedTransform:
    """``X = X_J X_tree``, the joint's motion times the constant one, as one 6×6 matrix."""

    def __init__(self, ops: CasadiOps, d: Displacement) -> None:
        self._ops = ops
        R, p = ops.constant(d.rotation), ops.constant(d.position[:, None])
        own_R = ops.eye(3) if d.joint_rotation is None else ops.matrix(d.joint_rotation.rows())
        own_p = ops.zeros(3, 1) if d.joint_position is None else ops.matrix([[x] for x in d.joint_position])
        self._X = self._motion(own_R, own_p) @ self._motion(R, p)
        self._R, self._p = R @ own_R, p + R @ own_p

    def _motion(self, R: Any, p: Any) -> Any:
        ca, E = self._ops.ca, R.T
        return self._ops.vstack([ca.horzcat(E, -(E @ ca.sparsify(ca.skew(p)))), ca.horzcat(ca.SX(3, 3), E)])

    def rows_to_parent(self, K: Any) -> Any:
        return K @ self._X

    def motions_to_child(self, V: Any) -> Any:
        return self._X @ V

    def forces_to_parent(self, F: Any) -> Any:
        return self._X.T @ F

    def inertia_to_parent(self, H: Any) -> Any:
        return self._ops.sym_product(self._X.T @ H, self._X)

    def inverse_inertia_to_child(self, W: Any) -> Any:
        return self._ops.sym_product(self._X @ W, self._X.T)

    def rotate_to_parent(self, V: Any) -> Any:
        return self._R @ V

    def position(self) -> Any:
        return self._p


class DenseFactor:
    """Divisions by a diagonal; else CasADi's inverse for quadratic forms, and Cholesky's factor for systems."""

    def __init__(self, ops: CasadiOps, D: Any) -> None:
        self._ops, self._D, self._is_diagonal = ops, D, D.sparsity().is_diag()

    @cached_property
    def _inverse(self) -> Any:
        ca = self._ops.ca
        return ca.diag(1 / ca.diag(self._D)) if self._is_diagonal else self._ops.symmetric(ca.inv(self._D))

    @cached_property
    def _cholesky(self) -> Any:
        ops, A, n = self._ops, self._D, self._D.shape[0]
        L = ops.zeros(n, n)
        for j in range(n):
            L[j, j] = ops.sqrt(A[0, 0])
            if j + 1 < n:
                L[j + 1 :, j] = A[1:, 0] / L[j, j]
                A = A[1:, 1:] - L[j + 1 :, j] @ L[j + 1 :, j].T
        return L

    def half_solve(self, B: Any) -> Any:
        return B

    def scale(self, Z: Any) -> Any:
        return self._inverse @ Z

    def solve(self, B: Any) -> Any:
        solve = self._ops.ca.solve
        return self._inverse @ B if self._is_diagonal else solve(self._cholesky.T, solve(self._cholesky, B))

    def inverse(self) -> Any:
        return self._inverse

    def quadratic(self, B: Any) -> Any:
        return self._ops.sym_product(B @ self._inverse, B.T)

    def parts(self) -> list[Any]:
        return [self._cholesky]


class CholeskyFactor(DenseFactor):
    """Cholesky's factor for quadratic forms, too."""

    def scale(self, Z: Any) -> Any:
        return self.solve(Z)


class CasadiDynamicsOps(CasadiOps):
    """The vocabulary of [LQR] for dynamics: no inverses but those of numbers, and ranks at a generic state.

    ``arguments`` are state vectors in the order in which they are made.
    """

    def __init__(self) -> None:
        super().__init__()
        self.arguments: list[Any] = []
        self._state: list[Array] = []

    def vector(self, name: str, at: Array) -> Any:
        """State vector of the next argument; ``at``: its values at the generic state."""
        self.arguments.append(self.ca.SX.sym(name, len(at)))
        self._state.append(at)
        return self.arguments[-1]

    def rank(self, a: Any, least: float = 0.0) -> int:
        values = self.ca.Function("values", self.arguments, [self.ca.densify(a)])(*self._state)
        found = np.array(values).reshape(a.shape)
        return rank_of(found, np.full(a.shape, max(ROUND_OFF * float(np.abs(found).max(initial=0.0)), least)))

    def known(self, a: Any) -> None:
        """Numbers are treated as what comes with each call."""

    def factor(self, D: Any, is_judged: bool = True) -> Any:
        return CholeskyFactor(self, D)


class CompositeTraceOps(TraceOps):
    """Tracing with transforms and inertias multiplied out to one 6×6 matrix."""

    def transform(self, displacement: Displacement) -> DenseTransform:  # type: ignore[override]
        return DenseTransform(self, displacement)

    def rigid_inertia(self, H: Any) -> DenseRigidInertia:  # type: ignore[override]
        return DenseRigidInertia(self, H)


class LateRows(EarlyElimination):
    """A link of [LQR] section VIII as printed: the joint moves as the forces say, then rows are reflected."""

    def constrain_dof(self, s: int, armature: float, tau: Matrix, labels: Sequence[Label]) -> None:
        ops, scalar = self.ops, self.ops.entries
        KS, D = self.entries_of(labels, (s,)), ops.take(self.V, (s,), (s,))
        self.eliminate_dof(s, armature, tau)  # eqs. 41, 42
        others = self.met_entries()
        K, first = self.entries_of(labels, others), labels[0]
        square = scalar(ops.transpose(KS) @ KS)[0][0]
        if len(labels) > 1:  # eqs. 65, 67, 68
            x = [row[0] for row in scalar(KS)]
            norm = ops.copysign(ops.sqrt(square), x[0])
            w = ops.matrix([[x[0] + norm], *([y] for y in x[1:])])
            twice = ops.matrix([[2.0 / scalar(ops.transpose(w) @ w)[0][0]]])
            K = K - (w @ twice) @ (ops.transpose(w) @ K)
            self.steps.append(Combined(tuple(labels), ops.eye(len(labels)) - (w @ twice) @ ops.transpose(w)))
        ((d,),), n, own = scalar(D), self.size, self.indices(labels)
        Sigma = ops.put(ops.matrix([[(square / (d + armature))]]), (n, n), own[:1], own[:1])  # eq. 66
        edge = ops.put(K, (n, n), own, others)
        rest = [k for k in range(n) if k not in own]
        V = ops.put(ops.take(self.V, rest, rest), (n, n), rest, rest)
        self.V = ops.sym_subtract(ops.sym_add(V, edge + ops.transpose(edge)), Sigma)
        self.eliminate_forces([first])  # eqs. 62, 63


def pv_early(motion: DynamicsProblem) -> DynamicsSolution:
    """PV-early with each link as in `LateRows`; hard rows, each on one link, that joints of one degree can take."""
    problem, kinds, links = motion.problem, RowKinds(), dict[int, EarlyElimination]()
    parts = [*link_parts(motion), *early_parts(motion, set(), kinds, {})]
    for i in motion.tree.leaves_to_root():
        link = links[i] = LateRows(problem, i, take_parts(problem, i, parts), kinds)
        link.eliminate_joint(motion.tree.joints[i], motion.tau[i])
        parts.append(link.to_parent(*transform_and_drift(motion, i)))
    links[WORLD] = EarlyElimination(problem, WORLD, take_parts(problem, WORLD, parts), kinds)
    links[WORLD].drop_unmet_rows()
    qdd, multipliers = back_substitution(motion, links)
    return DynamicsSolution(qdd, -multipliers)


DYNAMICS = {**METHODS, "pv-early": pv_early}
"""Methods for forward dynamics as published."""


class PublishedMotion(DynamicsProblem):
    """A problem in motion as [LQR] algorithm 1 takes it: rows ask for accelerations less gravity."""

    def gravity_in(self, link: int) -> Matrix:
        return self.ops.zeros(3, 1)

    def _bias_force(self, i: int, V: Matrix) -> Matrix:
        """``V ×* (H V)``: the momentum first."""
        ops = self.ops
        h = self.problem.inertias[i] @ V
        (v, w), (force, moment) = ((ops.take(x, LINEAR, None), ops.take(x, ANGULAR, None)) for x in (V, h))
        return ops.vstack([cross(ops, w, force), cross(ops, v, force) + cross(ops, w, moment)])


@dataclass(frozen=True, slots=True)
class CasadiDynamics:
    """Forward dynamics as CasADi's function, and its instructions.

    ``function`` goes from q, v, τ, what the rows ask for (m) and, of soft methods, the weight to q̈; ``checked`` also to
    what the rows miss, ``K a − k`` (m).
    """

    function: Any
    checked: Any
    operations: int

    def at(self, *states: Array) -> tuple[Array, Array]:
        """q̈ (n, nv), and what the rows miss (n, m), at states (n, …) of the arguments."""
        qdd, missed = self.checked(*(x.T for x in states))
        return np.array(qdd).T, np.array(missed).T


def casadi_dynamics(
    tree: Tree, constraints: Sequence[Constraint], method: str, weight: float | None = None
) -> CasadiDynamics:
    """Forward dynamics of [LQR] by one of `DYNAMICS`; constraint forces are computed as far as q̈ needs them.

    ``weight``: ``1 / R`` of soft methods, the same for all rows; an argument if None.
    """
    ops, rng, m = CasadiDynamicsOps(), np.random.default_rng(0), sum(c.size for c in constraints)
    q = ops.vector("q", tree.random(0))
    v, tau, k = (ops.vector(name, rng.normal(size=n)) for name, n in (("v", tree.nv), ("tau", tree.nv), ("k", m)))
    R = None
    if method in SOFT:
        R = 1 / (ops.vector("weight", np.ones(1)) if weight is None else ops.ca.SX(weight))
    starts = np.cumsum([0, *(c.size for c in constraints)])
    goals = [
        Goal(target=k[at : at + c.size], compliance=None if R is None else ops.ca.repmat(R, c.size, 1))
        for c, at in zip(constraints, starts, strict=False)
    ]
    problem = Problem(ops, tree, constraints, q)
    motion = PublishedMotion(problem, v, tau, gravity=ops.constant(tree.gravity[:, None]), goals=goals)
    qdd = DYNAMICS[method](motion).qdd
    results = [ops.ca.densify(x) for x in (qdd, constraint_residual(motion, motion.per_joint(qdd)))]
    function, checked = (ops.ca.Function("dynamics", ops.arguments, results[:n]) for n in (1, 2))
    return CasadiDynamics(function, checked, ops.count(qdd))


def efpa(problem: Problem) -> Matrix:
    """EFPA with the products of the papers' code: ``A_i Λ`` with ``A_i`` multiplied out, for each end.

    Of a pair, ``K`` is taken of the end with the higher link number.
    """
    ops, tree, ends = problem.ops, problem.tree, problem.end_effectors
    body, G = Articulated(problem), ConstraintBlocks(problem)
    K: dict[tuple[int, int], Matrix] = {}
    Lambda: dict[tuple[int, int], Matrix] = {}
    for e, end in enumerate(ends):
        K[end.link, e] = end.K
        for i in reversed(tree.support(end.link)[1:]):
            K[tree.parents[i], e] = body.rows_to_parent(i, K[i, e])
        for i in tree.support(end.link):
            p = tree.parents[i]
            Lambda[i, e] = body.joint_inverse_inertia(i) @ ops.transpose(K[i, e])
            if p != WORLD:
                Lambda[i, e] = body.motions_to_child(i, ops.eye(6)) @ Lambda[p, e] + Lambda[i, e]
        G.add_own(end.constraint, end.K @ Lambda[end.link, e])
        for f in range(e):
            meeting = tree.closest_common_ancestor(end.link, ends[f].link)
            if meeting != WORLD:
                far, near = (e, f) if end.link >= ends[f].link else (f, e)
                G.add(ends[far].constraint, ends[near].constraint, K[meeting, far] @ Lambda[meeting, near])
    return G.delassus()


OSIM = {**OSIM_METHODS, "efpa": efpa}
"""Methods for the Delassus matrix as published."""

ROWS_CARRIED = {"pv-osim": np.inf, "pv-osim-fast": np.inf, "pv-osimr": 6}
"""Most rows that a method propagates through a joint."""


def casadi_count(
    tree: Tree, constraints: Sequence[Constraint], method: str, algorithm: Callable[[Problem], Matrix] | None = None
) -> int:
    """Operations of a method for the Delassus matrix, as [LQR], [r1] and [r2] count them.

    ``algorithm``: in place of that of `OSIM`, with steps that follow.
    """
    ops = CasadiOps()
    problem = Problem(ops, tree, constraints, ops.ca.SX.sym("q", tree.nq))
    return ops.count((algorithm or OSIM[method])(problem)) + repeated_divisions(problem, ROWS_CARRIED.get(method, 0))


def repeated_divisions(problem: Problem, most: float) -> int:
    """Divisions of ``K S`` by ``D`` that the papers' code makes for ``Kᴬ`` and for ``Lᴬ``, the texts once."""
    tree, rows = problem.tree, Counter[int]()
    for end in problem.end_effectors:
        for i in tree.support(end.link):
            if tree.parents[i] != WORLD:
                rows[i] += problem.constraints[end.constraint].size
    return sum(int(min(n, most)) for n in rows.values())


def beside_joint(tree: Tree, constraints: Sequence[Constraint]) -> int:
    """Operations of ``Hᴬ`` and ``Kᴬ`` of links on the world, but for their columns along the joint.

    [LQR] Fig. 2 counts them, as its bars of ``Iᴬ`` and ``Kᴬ``; on a fixed base the Delassus matrix does not need them.
    """
    ops = CasadiOps()
    problem = Problem(ops, tree, constraints, ops.ca.SX.sym("q", tree.nq))
    body = Articulated(problem)
    roots = [i for i in tree.root_to_leaves() if tree.parents[i] == WORLD]
    whole, needed = [body.H[i] for i in roots], [tree.joints[i].within(ops, body.H[i]) for i in roots]
    for end in problem.end_effectors:
        K, (root, *joints) = end.K, tree.support(end.link)
        for i in reversed(joints):
            K = body.rows_to_parent(i, K)
        whole.append(K)
        needed.append(tree.joints[root].columns(ops, K))
    return ops.count(*whole, *needed) - ops.count(*needed)


def jacobian_count(tree: Tree, constraints: Sequence[Constraint]) -> int:
    """Operations of the Jacobian's columns alone."""
    ops = CasadiOps()
    columns = jacobian_columns(Problem(ops, tree, constraints, ops.ca.SX.sym("q", tree.nq)))
    return ops.count(*(block for own in columns for block in own.values()))


def efpa_excess(tree: Tree) -> int:
    """Operations by which ``Hᴬ_p += ((Xᵀ P) H) X``, ``P = 1 − U D⁻¹ Sᵀ``, exceeds the articulated sweep of the texts.

    The papers' code of 2022 multiplies the propagator out ([r1] Algorithm 2, lines 4, 5) in EFPA alone; by [LQR] IX-B
    this sweep needs the same operations in all methods.
    """
    ops = CasadiOps()
    problem = Problem(ops, tree, (), ops.ca.SX.sym("q", tree.nq))
    H = list(problem.inertias)
    for i in tree.leaves_to_root():
        p, joint = tree.parents[i], tree.joints[i]
        if p != WORLD:
            X: Any = problem.X[i].motions_to_child(ops.eye(6))
            U: Any = joint.columns(ops, H[i])
            P = ops.eye(6) - (U / joint.across(ops, U)) @ ops.constant(joint.subspace).T
            H[p] = ops.sym_add(H[p], X.T @ P @ H[i] @ X)
    ends = [i for i in tree.root_to_leaves() if tree.parents[i] == WORLD]
    of_texts = Articulated(problem).H
    return ops.count(*(H[i] for i in ends)) - ops.count(*(of_texts[i] for i in ends))
