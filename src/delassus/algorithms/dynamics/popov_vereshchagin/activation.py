"""Constraint activation: `pv_early` with constraints that each state can switch on and off (not in the source).

The structure stays as it is where all are on. A degree of freedom is eliminated with the row that meets it where that
acts, and as one that moves as the forces say elsewhere: all is a sum of two parts of which one is zero, and divisors
that belong to the other part are one. Rows are not multiplied by flags; forces that wait (`wait`) are.

A *condition* is a set of sets of constraints: it holds where all constraints of one of the sets are on. Rows of one
constraint act where that is on. Of rows of several conditions that meet a degree of freedom, a Givens rotation turns
two at a time so that one does not meet it any more: that one acts where both did, the other one where either did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from delassus.algorithms.dynamics.popov_vereshchagin.link_elimination import FIRST, ONE, Label, Part, State
from delassus.algorithms.dynamics.popov_vereshchagin.pv_early import EarlyElimination, pv_early
from delassus.algorithms.dynamics.popov_vereshchagin.soft_rows import soft_pv_early
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.problem import Problem
from delassus.spatial.ops import Matrix, Scalar

Condition = frozenset[frozenset[int]]


class Conditions:
    """Conditions ``of`` rows, and their values, 1 or 0."""

    def __init__(self, problem: Problem) -> None:
        self._values: dict[Condition, Scalar] = {}
        self.of: dict[Label, Condition] = {}
        for c, constraint in enumerate(problem.constraints):
            condition = frozenset({frozenset({c})})
            flag = problem.flag(c)
            assert flag is not None, "conditions are of problems whose constraints can be switched"
            self._values[condition] = flag
            self.of |= {(c, row): condition for row in range(constraint.size)}

    def on(self, condition: Condition) -> Scalar:
        """1 where the condition holds, else 0."""
        return self._values[condition]

    def off(self, condition: Condition) -> Scalar:
        """0 where the condition holds, else 1."""
        return 1.0 - self._values[condition]

    def both(self, a: Condition, b: Condition) -> Condition:
        """When two conditions hold."""
        out = _least(x | y for x in a for y in b)
        if out not in self._values:
            self._values[out] = self._values[a] * self._values[b]
        return out

    def either(self, a: Condition, b: Condition) -> Condition:
        """When one of two conditions holds."""
        out = _least(a | b)
        if out not in self._values:
            self._values[out] = 1.0 - self.off(a) * self.off(b)
        return out


class ActivatedElimination(EarlyElimination):
    """A link whose rows do not all act at each state."""

    def __init__(self, problem: Problem, link: int, parts: Sequence[Part], conditions: Conditions) -> None:
        super().__init__(problem, link, parts)
        self.conditions = conditions

    def off(self, label: Label) -> Scalar | None:
        """1 where a row does not act, else 0."""
        return self.conditions.off(self.conditions.of[label])

    def joints_say(self, axes: Sequence[int]) -> bool:
        """Rows on joints say what joints do where they act only."""
        return False

    def act_together(self) -> bool:
        """Whether all rows act under the same condition."""
        return len({self.conditions.of[label] for label in self.rows}) == 1

    def waiting(self, meets: NDArray[np.bool_], rank: int) -> list[Label]:
        """Rows of several conditions wait too: where ``L`` of all is regular, it is of any of them."""
        labels = [self.rows[k] for k in np.flatnonzero(meets.any(axis=1))]
        mixed = len({self.conditions.of[label] for label in labels}) > 1
        return labels if mixed else super().waiting(meets, rank)

    def wait(self, labels: Sequence[Label]) -> None:
        """Add rows to the form, multiplied by their flags."""
        on = [[self.conditions.on(self.conditions.of[x]) if x in labels else 1.0] for x in self.rows]
        if labels:
            entries = self.ops.entries(self.R)
            self.R = self.ops.matrix([[flag * x for x in row] for (flag,), row in zip(on, entries, strict=True)])
        super().wait(labels)

    def substitute(self, s: int, b: Matrix, D: Matrix, W: Matrix, e: Matrix) -> None:
        """``a_s = W z`` where the row acts, and ``bᵀ z / D`` elsewhere."""
        ops, n = self.ops, FIRST + len(self.labels)
        met = sorted({*np.flatnonzero(ops.nonzero(W)[0]).tolist(), *ONE})
        rest = [k for k in range(n) if k not in met]

        # along what the row meets, W; along the rest, what a degree of freedom without rows leaves
        along = ops.take(W, None, met) + e @ ops.transpose(ops.take(b, met, None))
        super().substitute(s, b, D, ops.put(along, (1, n), (0,), met), e)
        self.V = ops.sym_subtract(self.V, ops.put(self.square(ops.take(b, rest, None), e), (n, n), rest, rest))

    def single_out(self, s: int, at: Sequence[int]) -> tuple[int, Scalar]:
        """Make all rows but one zero along the axis ``s``; returns that one, and its entry there."""
        ops, conditions = self.ops, self.conditions
        groups: dict[Condition, list[int]] = {}
        for k in at:
            groups.setdefault(conditions.of[self.rows[k]], []).append(k)
        met = [(group[0], self.reflect(s, group, conditions.off(act))) for act, group in groups.items()]
        row, size = met.pop()
        for other, other_size in reversed(met):
            act, other_act = conditions.of[self.rows[row]], conditions.of[self.rows[other]]
            a, b = conditions.on(act) * size, conditions.on(other_act) * other_size
            either = conditions.either(act, other_act)
            square = a * a + b * b + conditions.off(either)
            ops.pivot(square)
            size = ops.sqrt(square)
            self.rotate(s, row, other, a * (1.0 / size), b * (1.0 / size))
            conditions.of[self.rows[other]] = conditions.both(act, other_act)
            conditions.of[self.rows[row]] = either
        return row, size

    def rotate(self, s: int, row: int, other: int, cos: Scalar, sin: Scalar) -> None:
        """Givens rotation of two rows."""
        ops, columns = self.ops, [k for k in range(FIRST + len(self.labels)) if k != s]
        rotation = ops.matrix([[cos, sin], [-sin, cos]])
        self.set_rows((row, other), rotation @ ops.take(self.R, (row, other), columns), columns)
        labels = self.rows[row], self.rows[other]

        def back(state: State) -> None:
            f = ops.transpose(rotation) @ ops.vstack([state.forces[label] for label in labels])
            state.forces |= {label: ops.take(f, (k,), None) for k, label in enumerate(labels)}

        self.steps.append(back)

    def reciprocals(self, label: Label, size: Scalar, D: Matrix, alone: bool) -> tuple[Matrix, Matrix]:
        """``1 / K_s`` where the row acts and ``1 / D`` where it does not, else zero.

        Of one row ``alone``, the entry may be zero where it does not act, and one division does for both.
        """
        ops, act, d = self.ops, self.conditions.of[label], self.ops.entries(D)[0][0]
        on, off = self.conditions.on(act), self.conditions.off(act)
        if alone and ops.known(ops.matrix([[size]])) is None:
            divisor = on * size + off * d
            ops.pivot(divisor, squared=True)
            either = 1.0 / divisor
            return ops.matrix([[on * either]]), ops.matrix([[off * either]])
        ops.pivot(d)
        return ops.matrix([[on * (1.0 / size)]]), ops.matrix([[off * (1.0 / d)]])

    def square(self, b: Matrix, e: Matrix) -> Matrix:
        """``b e bᵀ``; of a leaf, ``b`` is constant, and so is ``b bᵀ``."""
        ops = self.ops
        if ops.known(b) is None:
            return ops.sym_product(b @ e, ops.transpose(b))
        (by,) = ops.entries(e)[0]
        return ops.matrix([[x * by for x in row] for row in ops.entries(ops.sym_product(b, ops.transpose(b)))])


def _least(sets: Iterable[frozenset[int]]) -> Condition:
    """Without sets that hold another one."""
    every = frozenset(sets)
    return frozenset(x for x in every if not any(y < x for y in every))


def activated_pv_early(motion: DynamicsProblem) -> Solution:
    """`pv_early`; where constraints are soft, or can be switched off, by what knows that."""
    if any(motion.softness):
        return soft_pv_early(motion)
    if not motion.problem.constraints or motion.problem.flag(0) is None:
        return pv_early(motion)
    conditions = Conditions(motion.problem)

    def new_link(problem: Problem, link: int, parts: Sequence[Part]) -> ActivatedElimination:
        return ActivatedElimination(problem, link, parts, conditions)

    return pv_early(motion, new_link)
