"""Soft rows in `pv_early`: eliminated by the joints that they meet, as hard ones are (not in the source).

A row with the compliance ``ρ`` adds ``½ (K_s a_s + r z)² / ρ`` to what is minimised, ``r`` being the rest of it. To
eliminate ``a_s`` from that and from ``½ D a_s² − a_s bᵀ z`` is, with ``N = K_s² + ρ D`` and ``K̃ = r + (K_s / D) bᵀ``,

    ``a_s = (ρ bᵀ z − K_s r z) / N``,   ``f = −(D r z + K_s bᵀ z) / N``,   ``V ← V − b bᵀ / D + K̃ᵀ (D / N) K̃``.

Nothing is divided by ``ρ``: with ``ρ → 0`` it is the elimination of a hard row (`pv_soft` takes differences over ``ρ``,
which loses as many digits as ``ρ`` is smaller than ``G``). Soft rows are scaled to one compliance, which reflections
leave as it is. Where a hard row meets the axis too, that one eliminates it, and is taken off the soft ones. Those that
no joint eliminates have the force ``−R z / ρ``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from delassus.algorithms.dynamics.popov_vereshchagin import constant_rows, loop_rows
from delassus.algorithms.dynamics.popov_vereshchagin.constant_rows import Rewritten
from delassus.algorithms.dynamics.popov_vereshchagin.link_elimination import FIRST, Label, Part, State, labels_of
from delassus.algorithms.dynamics.popov_vereshchagin.pv_early import EarlyElimination, pv_early
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.problem import Problem
from delassus.spatial.motion import column, diagonal
from delassus.spatial.ops import Matrix, Scalar

AT_REST = 1e-36
"""Rows do not meet an axis where the sum of the squares of their entries along it is below this: no underflow yet."""


class SoftElimination(EarlyElimination):
    """A link of whose rows some are soft, with one compliance ``rho``; forces that wait have their own."""

    def __init__(
        self,
        problem: Problem,
        link: int,
        parts: Sequence[Part],
        rho: Scalar,
        soft: frozenset[Label],
        compliance: dict[Label, Scalar],
        least: Mapping[Label, Scalar],
    ) -> None:
        super().__init__(problem, link, parts)
        self.rho, self.soft, self.compliance, self.least = rho, soft, compliance, least

    def is_regular(self, labels: Sequence[Label]) -> bool:
        """Whether ``L`` without the compliance is: where it is not, forces would be differences over that."""
        ops, compliance = self.ops, diagonal(self.ops, [self.compliance.get(label, 0.0) for label in labels])
        L = self.L(labels) - compliance
        if not self.least:
            return ops.rank(L) == len(labels)
        scale = diagonal(ops, [1.0 / ops.sqrt(self.least[label]) for label in labels])
        return ops.rank(ops.sym_product(scale @ L, scale), 1.0) == len(labels)

    def constant_on_link(self) -> Rewritten | None:
        """The same of hard rows; other soft ones would have another compliance."""
        return super().constant_on_link() if self.soft.isdisjoint(self.rows) else None

    def constant_on_parent(self, motion: DynamicsProblem) -> Rewritten | None:
        """The same of hard rows, and soft ones that the joint only turns."""
        if self.soft.isdisjoint(self.rows):
            return super().constant_on_parent(motion)
        on_link = self.rows_on_link() if self.soft.issuperset(self.rows) else None
        return None if on_link is None else constant_rows.turned_on_parent(motion, self.link, on_link)

    def meeting(self, s: int, at: Sequence[int], is_met: bool) -> Sequence[int]:
        """All soft rows, for a small entry is as good as another; leaving it out would not be, beside round-off."""
        ops, soft = self.ops, [k for k in at if self.rows[k] in self.soft]
        hard = [k for k in at if k not in soft]
        if not hard or not soft:
            return soft or super().meeting(s, at, is_met)
        return [*hard, *soft] if ops.rank(ops.take(self.R, hard, (s,))) else soft

    def single_out(self, s: int, at: Sequence[int]) -> tuple[int, Scalar]:
        """Make all rows but one zero along the axis ``s``, a hard one if there is any."""
        ops, columns = self.ops, [k for k in range(FIRST + len(self.labels)) if k != s]
        hard, soft = ([k for k in at if (self.rows[k] in self.soft) == is_soft] for is_soft in (False, True))
        if not hard or not soft:
            return super().single_out(s, at)
        row, size = super().single_out(s, hard)
        if len(hard) == 1:
            ops.pivot(size, squared=True)
        factors = ops.take(self.R, soft, (s,)) @ ops.matrix([[1.0 / size]])
        own = ops.take(self.R, (row,), columns)
        self.set_rows(soft, ops.take(self.R, soft, columns) - factors @ own, columns)
        label, labels = self.rows[row], [self.rows[k] for k in soft]

        def back(state: State) -> None:
            taken = ops.transpose(factors) @ ops.vstack([state.forces[other] for other in labels])
            state.forces[label] = state.forces[label] - taken

        self.steps.append(back)
        return row, size

    def norm(self, at: Sequence[int], x: list[Scalar], off: Scalar) -> tuple[list[Scalar], Scalar, Scalar]:
        """The same; soft rows that do not meet the axis stay as they are."""
        if self.rows[at[0]] not in self.soft:
            return super().norm(at, x, off)
        square = sum(entry * entry for entry in x)
        idle = self.ops.less(square, AT_REST)
        norm = self.ops.copysign(self.ops.sqrt(square + idle), x[0] + idle)
        return [x[0] + idle, *x[1:]], norm, norm - idle

    def eliminate_with_row(self, s: int, armature: float, tau: Matrix, row: int, size: Scalar, alone: bool) -> None:
        """A degree of freedom along the axis ``s`` and a row, hard or soft."""
        ops, label = self.ops, self.rows[row]
        if label not in self.soft:
            super().eliminate_with_row(s, armature, tau, row, size, alone)
            return
        b, D = self.separate_dof(s, armature, tau)
        r, ((d,),) = ops.take(self.R, (row,), None), ops.entries(D)
        self.remove_rows([row])
        N = size * size + self.rho * d
        others = sum((x * x for x in ops.entries(r)[0][:6]), self.rho * d)
        ops.pivot(N, size=N * (1.0 / (N + others)))
        both = 1.0 / (d * N)
        over_D, over_N = N * both, d * both
        x, y, e = (ops.matrix([[factor * over_N]]) for factor in (size, d, self.rho))
        Kt = ops.transpose(r) + b @ ops.matrix([[size * over_D]])
        self.V = ops.sym_subtract(self.V, ops.sym_product(b @ ops.matrix([[over_D]]), ops.transpose(b)))
        self.V = ops.sym_add(self.V, ops.sym_product(Kt @ y, ops.transpose(Kt)))
        labels = self.labels

        def back(state: State) -> None:
            z = self.z(state, labels)
            missed, left = r @ z, ops.transpose(b) @ z
            state.forces[label] = -(y @ missed + x @ left)
            self.set_acceleration(state, s, e @ left - x @ missed)

        self.steps.append(back)

    def wait(self, labels: Sequence[Label]) -> None:
        """Add rows to the form, with ``L = ρ`` of soft ones."""
        super().wait(labels)
        n = FIRST + len(self.labels)
        at = range(n - len(labels), n)
        own = {label: self.rho if label in self.soft else 0.0 for label in labels}
        self.V = self.ops.sym_subtract(self.V, self.ops.put(diagonal(self.ops, [*own.values()]), (n, n), at, at))
        self.compliance |= own

    def leave_rows(self) -> None:
        """Rows that no joint eliminates; those that are soft have a force."""
        ops, labels = self.ops, self.labels
        rows = {label: ops.take(self.R, (k,), None) for k, label in enumerate(self.rows) if label in self.soft}
        self.remove_rows([self.rows.index(label) for label in rows])
        over = ops.matrix([[-1.0 / self.rho]])

        def back(state: State) -> None:
            z = self.z(state, labels)
            state.forces |= {label: over @ (row @ z) for label, row in rows.items()}

        self.steps.append(back)
        super().leave_rows()


def soft_pv_early(motion: DynamicsProblem, least: Sequence[Scalar] = ()) -> Solution:
    """`pv_early` with soft constraints, which may be off, and hard ones, which may not.

    Forces that wait do so until they move something by more than ``least`` (m) if that is given, by row.
    """
    late = {c for labels in loop_rows.waiting(motion) for c, _ in labels}
    R = {c: goal.compliance for c, goal in enumerate(motion.goals) if c not in late and goal.compliance is not None}
    rho, scales = _one_compliance(motion, R)
    soft = frozenset(label for c in R for label in labels_of(motion.problem, c))
    waiting = {(c, row): r for c in late for row, r in enumerate(_diagonal(motion, c))}
    rows = [label for c in range(len(motion.goals)) for label in labels_of(motion.problem, c)]
    enough = dict(zip(rows, least, strict=True)) if least else {}

    def new_link(problem: Problem, link: int, parts: Sequence[Part]) -> SoftElimination:
        return SoftElimination(problem, link, parts, rho, soft, waiting, enough)

    return pv_early(motion, new_link, scales)


def _diagonal(motion: DynamicsProblem, constraint: int) -> list[Scalar]:
    """``R`` of each row of a soft constraint; none of a hard one."""
    given = motion.goals[constraint].compliance
    return [] if given is None else column(motion.ops, given)


def _one_compliance(motion: DynamicsProblem, R: Mapping[int, Matrix]) -> tuple[Scalar, dict[int, list[Scalar]]]:
    """A compliance ``ρ``, and factors that make it that of all rows: ``√(ρ / R)`` where not all are alike.

    Rows of constraints that are off become zero.
    """
    ops = motion.ops
    if not R:
        return 1.0, {}
    known = ops.known(ops.vstack([*R.values()]))
    rho = column(ops, next(iter(R.values())))[0]
    scales = dict[int, list[Scalar]]()
    if known is None or np.ptp(known) != 0.0:
        scales = {c: [ops.sqrt(rho * (1.0 / r)) for r in column(ops, own)] for c, own in R.items()}
    for c in R:
        if (flag := motion.problem.flag(c)) is not None:
            scales[c] = [flag * x for x in scales.get(c, [1.0] * motion.problem.constraints[c].size)]
    return rho, scales
