"""At which states a row acts, where constraints can be switched off.

A *condition* is a set of sets of constraints: it holds where all constraints of one of the sets are on. Rows of one
constraint act where that is on. Of two rows that are turned into one that meets a degree of freedom and one that does
not, the first acts where either did, and the second one where both did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from delassus.algorithms.problem import Problem
from delassus.spatial.ops import Matrix, Ops, Scalar

Condition = frozenset[frozenset[int]]

ALWAYS: Condition = frozenset({frozenset()})


class Switches:
    """Conditions and their values, 1 or 0; plain numbers where nothing can be switched."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._values: dict[Condition, Scalar] = {ALWAYS: 1.0}

    def of(self, constraint: int) -> Condition:
        """When a constraint is on."""
        flag = self._problem.flag(constraint)
        if flag is None:
            return ALWAYS
        condition = frozenset({frozenset({constraint})})
        self._values[condition] = flag
        return condition

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

    def reciprocals(
        self, ops: Ops, condition: Condition, a: Scalar, b: Scalar, alone: bool
    ) -> tuple[Matrix, Matrix | None]:
        """``1 / a`` (1 × 1) where it holds, and ``1 / b`` where it does not, else zero; None if that is never.

        ``alone``: ``1 / a`` is not there anyway, so that one division does for both, and ``a`` may be zero where the
        condition does not hold.
        """
        if condition == ALWAYS:
            return ops.matrix([[1.0 / a]]), None
        on, off = self.on(condition), self.off(condition)
        if alone and ops.known(ops.matrix([[a]])) is None:
            either = 1.0 / (on * a + off * b)
            return ops.matrix([[on * either]]), ops.matrix([[off * either]])
        return ops.matrix([[on * (1.0 / a)]]), ops.matrix([[off * (1.0 / b)]])

    def zero_where_off(self, ops: Ops, conditions: Sequence[Condition], R: Matrix) -> Matrix:
        """Rows, each multiplied by the value of its condition."""
        n = len(conditions)
        if all(act == ALWAYS for act in conditions):
            return R
        on = [[self.on(act) if i == j else 0.0 for j in range(n)] for i, act in enumerate(conditions)]
        return ops.matrix(on) @ R

    def slack(self, ops: Ops, conditions: Sequence[Condition]) -> Matrix:
        """Diagonal matrix with a one for each condition that does not hold."""
        n = len(conditions)
        return ops.matrix([[self.off(act) if i == j else 0.0 for j in range(n)] for i, act in enumerate(conditions)])


def _least(sets: Iterable[frozenset[int]]) -> Condition:
    """Without sets that hold another one."""
    every = frozenset(sets)
    return frozenset(x for x in every if not any(y < x for y in every))
