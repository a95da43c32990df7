"""Reference scales of the numbers that `pv` and `pv_early` divide by: pivots are relative to them.

Entries of constraint rows have the scale that they are given with: linear ones ``|K_lin|``, angular ones ``|K_ang|``
and ``|K_lin|`` times a lever, the root mean square distance between joints. What a degree of freedom adds to ``L``,
``K S D⁻¹ Sᵀ Kᵀ``, has the square of that over ``D``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import reduce

import numpy as np

from delassus.algorithms.problem import Problem
from delassus.spatial.ops import Scalar

Label = tuple[int, int]
"""A multiplier: the constraint and the row that it belongs to."""


class Pivots:
    """The smallest pivot relative to its reference scale; near zero, rows do not hold the joint that structure says."""

    def __init__(self, problem: Problem) -> None:
        self.ops = problem.ops
        self._smallest: dict[Hashable, tuple[Scalar, Scalar]] = {}
        self._mobility: dict[int, Scalar] = {}
        squares, beyond = _squares(problem), [set[int]() for _ in problem.tree.joints]
        for end in problem.unswitched_ends:
            for i in problem.tree.support(end.link):
                beyond[i].add(end.constraint)
        self._squares = [[sum((squares[c][k] for c in sorted(own)), 0.0) for k in range(2)] for own in beyond]

    def judge(self, pivot: Scalar, condition: Hashable = None, off: Scalar = 0.0) -> None:
        """Take note of a pivot; it does not count where its condition does not hold, and ``off`` is 1."""
        smallest, _ = self._smallest.get(condition, (1.0, off))
        self._smallest[condition] = self.ops.minimum(smallest, pivot), off

    @property
    def smallest(self) -> Scalar:
        """The smallest pivot per state; 1 where there are no rows."""
        return reduce(self.ops.minimum, [pivot + off for pivot, off in self._smallest.values()] or [1.0])

    def square(self, i: int, s: int) -> Scalar:
        """Square of the reference scale of row entries along the axis ``s`` of link i."""
        return self._squares[i][s >= 3]

    def add_mobility(self, labels: Iterable[Label], i: int, s: int, d: Scalar) -> None:
        """A degree of freedom along the axis ``s`` of link i, ``1 / D = d``, adds to ``L`` of some forces."""
        for c in dict.fromkeys(c for c, _ in labels):
            self._mobility[c] = self._mobility.get(c, 0.0) + self.square(i, s) * d

    def mobility(self, label: Label) -> Scalar:
        """Reference scale of the diagonal of ``L``; 1 where that is a compliance only."""
        return self._mobility.get(label[0], 1.0)


def _squares(problem: Problem) -> list[tuple[Scalar, Scalar]]:
    """Squares of the reference scales of linear and angular entries, by constraint."""
    ops = problem.ops
    apart = [float(joint.position @ joint.position) for joint in problem.tree.joints]
    lever = float(np.mean([x for x in apart if x] or [1.0]))
    out: list[tuple[Scalar, Scalar]] = []
    for index, c in enumerate(problem.constraints):
        if c.rows is not None:
            linear: Scalar
            angular: Scalar
            linear, angular = (float(np.max(np.sum(part**2, axis=1))) for part in (c.rows[:, :3], c.rows[:, 3:]))
        else:
            ends = [end for end in problem.unswitched_ends if end.constraint == index]
            linear = angular = sum((x * x for end in ends for row in ops.entries(end.K) for x in row), 0.0)
        out.append((linear, angular + lever * linear))
    return out
