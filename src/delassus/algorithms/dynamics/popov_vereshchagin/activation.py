"""Constraint activation: constraints in `pv_early` that each state can switch on and off (not in the source).

The structure stays as it is where all are on. A degree of freedom is eliminated with the row that meets it where that
acts, and as one that moves as the forces say elsewhere: all is a sum of two parts of which one is zero, and divisors
that belong to the other part are one. Rows are not multiplied by flags; forces that wait (`defer_rows`) are.

A *condition* is a set of sets of constraints: it holds where all constraints of one of the sets are on. Rows of one
constraint act where that is on. Of rows of several conditions that meet a degree of freedom, a Givens rotation turns
two at a time so that one does not meet it any more: that one acts where both did, the other one where either did.
"""

from __future__ import annotations

from collections.abc import Iterable

from delassus.algorithms.dynamics.popov_vereshchagin.steps import Label
from delassus.algorithms.problem import Problem
from delassus.spatial.ops import Scalar

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
        """Condition that holds where both hold."""
        out = _least(x | y for x in a for y in b)
        if out not in self._values:
            self._values[out] = self._values[a] * self._values[b]
        return out

    def either(self, a: Condition, b: Condition) -> Condition:
        """Condition that holds where at least one of two holds."""
        out = _least(a | b)
        if out not in self._values:
            self._values[out] = 1.0 - self.off(a) * self.off(b)
        return out


def _least(sets: Iterable[frozenset[int]]) -> Condition:
    """The sets that contain no other one."""
    every = frozenset(sets)
    return frozenset(x for x in every if not any(y < x for y in every))
