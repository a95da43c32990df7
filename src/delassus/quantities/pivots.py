"""How straight-line programs see dependent rows: the smallest relative pivot of what a method divides by.

A kernel compares it with `pivot_limit`, and hands states below it to `delassus.quantities.redundancy`.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.dynamics import EARLY, ITERATIVE, SOFT
from delassus.algorithms.dynamics.solution import Solution, least_pivot
from delassus.algorithms.inputs import inputs_of
from delassus.algorithms.problem import Problem
from delassus.quantities.redundancy import REGULAR_CONDITION, UNMOVED, mobility_bound
from delassus.spatial.numpy_ops import NumpyOps
from delassus.spatial.ops import Scalar

SINGLE_DIGITS = 7 / 16
"""Digits of float32 by those of float64."""


def pivot_limit(method: str, dtype: str) -> float:
    """Least relative pivot of a state that a method solves by itself in this number type.

    Where ``G`` may be regular all the same, that is `least_pivot`; pivots of ``G``, by its diagonal, say where rows
    count as dependent.
    """
    if method in EARLY:
        return least_pivot(dtype)
    if method in ITERATIVE and dtype == "float64":
        return 0.0
    return REGULAR_CONDITION if dtype == "float64" else float(REGULAR_CONDITION**SINGLE_DIGITS)


def smallest_pivot(method: str, problem: Problem, solution: Solution) -> Scalar | None:
    """Pivot that says whether a method solved its state: its own, or the smallest one of ``G`` by its diagonal."""
    if solution.pivot is not None or solution.delassus is None or not problem.n_rows or method in SOFT | ITERATIVE:
        return solution.pivot
    ops = problem.ops
    G = problem.relaxed(solution.delassus)  # factorised by the method already: the same nodes of the graph
    diagonal = [row[i] for i, row in enumerate(ops.entries(G))]
    smallest = reduce(ops.minimum, [d / g for d, g in zip(ops.factor(G).pivots(), diagonal, strict=True)])
    moved = _mobility_pivots(problem, diagonal)
    if not moved:
        return smallest
    return ops.minimum(smallest, pivot_limit(method, "float64") * ops.sqrt(reduce(ops.minimum, moved)))


def _mobility_pivots(problem: Problem, diagonal: list[Scalar]) -> list[Scalar]:
    """Numbers that are below one where nothing moves a row; ``diagonal``: of ``G``, a one for rows that are off.

    Such a row has round-off on the diagonal of ``G``, by which a pivot looks regular.
    """
    out: list[Scalar] = []
    for d, typical in zip(diagonal, _typical_mobilities(problem), strict=True):
        if isinstance(typical, float) and typical == 0.0:  # both frames are on the world
            out.append(0.0)
        elif typical is not None:
            out.append(d * (1.0 / (UNMOVED * typical)))
    return out


def _typical_mobilities(problem: Problem) -> list[Scalar | None]:
    """`mobility_bound` of each row at the neutral configuration: numbers, times the square of rows that come in calls.

    None where that is not known: of links that have no inertia but what comes with a call.
    """
    given = []
    for i in inputs_of(problem.constraints):  # rows that come with calls as if of unit length
        unit = np.eye(1, 6) if i.keyword == "rows" else np.eye(7)[6] if i.shape == (7,) else 0.0
        given.append(np.zeros(i.shape) + unit)
    neutral = Problem(NumpyOps(), problem.tree, problem.constraints, problem.tree.neutral(), given)
    with np.errstate(all="ignore"):  # links without inertia
        bounds = mobility_bound(neutral, Articulated(neutral))
    out: list[Scalar | None] = [float(x) if np.isfinite(x) else None for x in bounds]
    for index, (c, rows) in enumerate(zip(problem.constraints, problem.rows, strict=True)):
        if c.rows is None:
            for k, row in enumerate(problem.ops.entries(problem.selection(index)), rows.start):
                typical = out[k]
                out[k] = None if typical is None else typical * sum(x * x for x in row)
    return out
