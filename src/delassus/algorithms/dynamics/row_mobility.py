"""What the mobility of rows is to be compared with in straight-line programs, to see where nothing moves one.

A row that nothing moves has round-off on the diagonal of ``G``; a pivot by that diagonal looks regular.
"""

from __future__ import annotations

import numpy as np

from delassus.algorithms.evaluate import neutral_mobility
from delassus.algorithms.operator import UNMOVED
from delassus.algorithms.problem import Problem
from delassus.spatial.ops import Scalar


def typical_mobilities(problem: Problem) -> list[Scalar | None]:
    """`mobility_bound` of each row at the neutral configuration: numbers, times the square of rows that come in calls.

    None where that is not known: of links that have no inertia but what comes with a call.
    """
    ops, constraints = problem.ops, problem.constraints
    bounds = neutral_mobility(problem.tree, constraints)
    out: list[Scalar | None] = [float(x) if np.isfinite(x) else None for x in bounds]
    for index, (c, rows) in enumerate(zip(constraints, problem.rows, strict=True)):
        if c.rows is None:
            for k, row in enumerate(ops.entries(problem.selection(index)), rows.start):
                out[k] = None if out[k] is None else out[k] * sum(x * x for x in row)
    return out


def mobility_pivots(problem: Problem, diagonal: list[Scalar]) -> list[Scalar]:
    """Numbers that are below one where nothing moves a row; ``diagonal``: of ``G``, a one for rows that are off."""
    out = []
    for d, typical in zip(diagonal, typical_mobilities(problem), strict=True):
        if isinstance(typical, float) and typical == 0.0:  # both frames are on the world
            out.append(0.0)
        elif typical is not None:
            out.append(d * (1.0 / (UNMOVED * typical)))
    return out
