"""Proximal-point iterations on the multipliers: also for rows that are redundant or contradict one another.

With ``S = (G + R + W)⁻¹``, ``R`` zero for hard rows and ``W`` for soft ones, the rows miss ``b_{j+1} = W S b_j`` of
``b_0 = γ − J M⁻¹ (τ − c)`` after one iteration more. Along an eigenvector of ``(G + R) x = λ W x`` that shrinks by
``1 / (1 + λ)``; what no force can give (``λ = 0``) stays, and ``b_k`` is that. What can be given, ``b_0 − b_k``, takes
the forces ``S Σ_{j<k} (W S)^j (b_0 − b_k) = S Σ_{j<k} (b_j − b_{j+k})``, so that accelerations go to the least-squares
ones. Iterations on ``f`` itself leave what round-off has put into it that moves nothing; without that, forces are
those of least norm.

Source: Rockafellar 1976; Carpentier, Budhiraja, Mansard, "Proximal and sparse resolution of constrained dynamic
equations", RSS 2021. Deviations: ``G`` is not formed, but for a single constraint to the world and a ``weight`` that is
given, far above round-off: there it takes half of the operations. A robot whose hard rows have the compliance ``W`` has
the forces ``S b`` (`pv_early`), so that an iteration costs O(n + m): it eliminates the same rows, with another
right-hand side. ``W`` may be tiny, for that loses no digits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import reduce

from delassus.algorithms.dynamics.ltl import ltl
from delassus.algorithms.dynamics.popov_vereshchagin import loop_rows
from delassus.algorithms.dynamics.popov_vereshchagin.pv_early import pv_early
from delassus.algorithms.dynamics.solution import DynamicsSolution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.problem import Problem
from delassus.constraints import Goal
from delassus.spatial.motion import column, from_entries, scaled
from delassus.spatial.ops import Matrix, Ops, Scalar

WEIGHT = 1e-13
"""``W`` of a hard row by its mobility if the robot were one body, which is below what ``G`` has on its diagonal:
rows that joints eliminate are told apart down to the square of round-off."""

LOOP_WEIGHT = 1e-10
"""The same of a row whose force waits, as loops do: those are told apart by ``G``, down to round-off (1e-16)."""

GAPING_WEIGHT = 3e-5
"""The same of rows that are dependent where loops are closed alone: where these gape by ``ε``, what such rows move is
``ε²``. They ask for accelerations that no closed loop has, of which a part of ``(3 ε² / W)²`` is left."""

SPREAD = 1e3
"""Rows that move so many times as far as another have a weight of their own; else one, for forces of least norm.
How far forces are from these with different weights is `DynamicsSolution.idle`."""

LEAST_GAIN = 1e3
"""What forces that wait have to move, by their weight, before they are eliminated."""

IDLE_ITERATIONS = 2
"""Iterations that tell forces that move nothing from others."""

NO_MOTION = 1e-8
"""Accelerations below this part of those that forces would give the robot as one body are round-off, as at rest."""

ITERATIONS = 3
"""``k``."""


class ProximalPoint:
    """Factorised matrix of the iteration, ``G + R + W``; ``weight`` is that of all hard rows, if it is given."""

    def __init__(self, motion: DynamicsProblem, weight: float | None = None) -> None:
        self._motion, self._ops = motion, motion.ops
        ops, problem = motion.ops, motion.problem
        soft = motion.with_goals([replace(goal, compliance=ops.zeros(1, 1)) for goal in motion.goals])
        late = {c for labels in loop_rows.waiting(soft) for c, _ in labels}
        mobility = mobilities(problem)
        early, last = (LOOP_WEIGHT if self._mixes_dependent_rows(late) else WEIGHT), LOOP_WEIGHT
        if weight is not None:
            early = last = weight
        self.weights, self._R = list[Scalar](), list[Matrix]()
        self._forms_G = weight is not None and not late and len(problem.constraints) == 1
        self._heaviest, self._least = last, [LEAST_GAIN * last * g for g in mobility]
        for c, (rows, goal) in enumerate(zip(problem.rows, motion.goals, strict=True)):
            part = last if c in late else early if goal.compliance is None else 0.0
            weights = [part * g for g in mobility[rows]]
            W = from_entries(ops, weights)
            self.weights += weights
            self._R.append(W if goal.compliance is None else goal.compliance + W)

    def _mixes_dependent_rows(self, late: Collection[int]) -> bool:
        """Whether hard rows are dependent at almost all states, of which some wait and others do not.

        They get one weight, that of those that wait, for forces of least norm; it takes digits of the others.
        """
        ops, problem = self._ops, self._motion.problem
        hard = [c for c, is_soft in enumerate(self._motion.softness) if not is_soft]
        if len({c in late for c in hard}) < 2:
            return False
        rows = [r for c in hard for r in range(problem.n_rows)[problem.rows[c]]]
        return ops.rank(ops.take(problem.once(jacobian), rows, None)) < len(rows)

    def solve(self, added: Matrix) -> DynamicsSolution:
        """Accelerations, and forces ``S (b_0 + added)``."""
        goals = [
            replace(goal, target=wanted if goal.target is None else goal.target + wanted, compliance=R)
            for goal, wanted, R in zip(self._motion.goals, self._by_constraint(added), self._R, strict=True)
        ]
        return self._by_method(self._motion.with_goals(goals))

    def step(self, b: Matrix) -> Matrix:
        """``S b``: forces on the robot at rest."""
        return self.at_rest(b).forces

    def at_rest(self, b: Matrix) -> DynamicsSolution:
        """Forces ``S b``, and accelerations that they cause."""
        goals = [
            Goal(wanted, pose=goal.pose, compliance=R)
            for goal, wanted, R in zip(self._motion.goals, self._by_constraint(b), self._R, strict=True)
        ]
        rest = DynamicsProblem(self._motion.problem, None, None, gravity=self._ops.zeros(3, 1), goals=goals)
        return self._by_method(rest)

    def _by_method(self, motion: DynamicsProblem) -> DynamicsSolution:
        return ltl(motion) if self._forms_G else pv_early(motion, self._least)

    def left(self, f: Matrix) -> Matrix:
        """``W f``: acceleration that the rows still miss."""
        return scaled(self._ops, self.weights, f)

    def without_idle(self, solution: DynamicsSolution) -> DynamicsSolution:
        """The iteration without forces that move nothing: those that iterations leave as they are."""
        idle = solution.forces
        for _ in range(IDLE_ITERATIONS):
            idle = self.step(self.left(idle))
        f = solution.forces - idle
        left, taken = (sum((y * y for y in column(self._ops, x)), 0.0) for x in (f, idle))
        none = 1.0 - self._ops.less(0.0, left + taken)
        kept = (left + none) * (1.0 / (left + taken + none))
        return DynamicsSolution(solution.qdd, f, kept=kept)

    def with_idle(self, solution: DynamicsSolution) -> DynamicsSolution:
        """The solution, and how far its forces are from those of least norm, and accelerations by these.

        Accelerations are in question where rows that are nearly dependent ask for some. Along ``N``, which moves
        nothing, ``(W S)^∞ f = W N (Nᵀ W N)⁻¹ Nᵀ f``: zero where ``Nᵀ f`` is, and the part of ``f`` in question where
        weights are alike: that is round-off of what has been taken off.
        """
        idle = solution.forces
        for _ in range(IDLE_ITERATIONS):
            idle = self.left(self.step(idle))
        last = DynamicsSolution(solution.qdd, solution.forces)
        for _ in range(IDLE_ITERATIONS):
            last = self.at_rest(self.left(last.forces))
        by_forces = _largest(self._ops, self.left(solution.forces)) * (NO_MOTION / self._heaviest)
        idle_qdd = _part(self._ops, last.qdd, solution.qdd, by_forces)
        return replace(solution, idle=_part(self._ops, idle, solution.forces), idle_qdd=idle_qdd)

    def _by_constraint(self, x: Matrix) -> list[Matrix]:
        ops, every = self._ops, range(self._motion.problem.n_rows)
        return [ops.take(x, every[rows], None) for rows in self._motion.problem.rows]


def _part(ops: Ops, some: Matrix, whole: Matrix, least: Scalar = 0.0) -> Scalar:
    """Largest entry of a vector by that of another one, or by ``least`` where that is more."""
    most, size = _largest(ops, some), ops.maximum(_largest(ops, whole), least)
    return most * (1.0 / (size + (1.0 - ops.less(0.0, size))))


def _largest(ops: Ops, x: Matrix) -> Scalar:
    return reduce(ops.maximum, column(ops, ops.absolute(x)))


def mobilities(problem: Problem) -> list[Scalar]:
    """Mobility of each row, were the robot one body of its mass and of the size of its links.

    That of the least mobile row, or a part of its own where that is far more.
    """
    ops, mass = problem.ops, problem.tree.mass or 1.0
    sizes = [x for c in range(len(problem.constraints)) for x in problem.row_sizes(c)]
    sizes = [x + (1.0 - ops.less(0.0, x)) for x in sizes]  # rows of zeros
    least = reduce(ops.minimum, sizes, sizes[0]) if sizes else 1.0
    return [ops.maximum(least, x * (1.0 / SPREAD)) * (1.0 / mass) for x in sizes]


def proximal(motion: DynamicsProblem, weight: float | None = None) -> DynamicsSolution:
    """Accelerations and forces after `ITERATIONS`; `delassus.accuracy.status` watches convergence.

    ``weight`` is that of all hard rows, if it is given.
    """
    point = ProximalPoint(motion, weight)
    if not motion.problem.n_rows:
        return pv_early(motion)
    return point.with_idle(point.without_idle(point.solve(shift(missed(point, motion), ITERATIONS))))


def missed(point: ProximalPoint, motion: DynamicsProblem) -> list[Matrix]:
    """``b_1 … b_{2k−1}``."""
    b = [point.left(point.solve(motion.ops.zeros(motion.problem.n_rows, 1)).forces)]
    for _ in range(2 * ITERATIONS - 2):
        b.append(point.left(point.step(b[-1])))
    motion.ops.mark("proximal iterations", b)
    return b


def shift(b: Sequence[Matrix], k: int) -> Matrix:
    """``Σ_{0<j<k} b_j − Σ_{k≤j<2k} b_j``, from ``b_1`` on: what is added to ``b_0``."""
    total = -b[k - 1]
    for j in range(k, 2 * k - 1):
        total = total - b[j]
    for j in range(1, k):
        total = total + b[j - 1]
    return total
