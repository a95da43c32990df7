"""What the numbers that methods divide by are to be compared with."""

from __future__ import annotations

import numpy as np

from delassus.algorithms.problem import Problem
from delassus.spatial.ops import Scalar

Sizes = tuple[Scalar, Scalar]
"""Squares of the size of entries of rows: of linear and of angular columns."""


def row_sizes(problem: Problem) -> list[Sizes]:
    """For each constraint, the squares of what linear and angular entries of its rows are to be compared with.

    Linear entries keep the size that they are given with; those of forces become moments with levers as long as joints
    are apart.
    """
    ops, ends = problem.ops, problem.unswitched_ends
    apart = [float(joint.position @ joint.position) for joint in problem.tree.joints]
    lever = float(np.mean([x for x in apart if x] or [1.0]))
    out: list[Sizes] = []
    for index, c in enumerate(problem.constraints):
        if c.rows is not None:
            linear, angular = (float(np.max(np.sum(part**2, axis=1))) for part in (c.rows[:, :3], c.rows[:, 3:]))
        else:
            squares = [[x * x for row in ops.entries(end.K) for x in row] for end in ends]
            own = [s for s, end in zip(squares, ends, strict=True) if end.constraint == index]
            linear = angular = sum((x for s in own for x in s), 0.0)
        out.append((linear, angular + lever * linear))
    return out


def size_along(sizes: Sizes, axis: int) -> Scalar:
    """That of a column."""
    return sizes[0] if axis < 3 else sizes[1]


def sum_of_sizes(a: Sizes, b: Sizes) -> Sizes:
    """Those of the rows of two."""
    return a[0] + b[0], a[1] + b[1]
