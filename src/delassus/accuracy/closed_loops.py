"""How many rows of loops are independent where the loops are closed, which configurations taken at random do not show.

Closed configurations are found from random ones by `delassus.algorithms.loops.closing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from delassus.accuracy.rank import REGULAR_CONDITION, UNMOVED, common_rank, mobility_bound
from delassus.algorithms.articulated import Articulated
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.loops.closing import close_loops, closed_within
from delassus.algorithms.osim.dense import dense
from delassus.algorithms.problem import Problem
from delassus.constraints import Constraint
from delassus.model.tree import Tree
from delassus.spatial.numpy_ops import NumpyOps, numbers, unstacked
from delassus.spatial.rotations import Array


class Tuning(NamedTuple):
    """Numbers of `closed_configurations`."""

    starts: int = 32
    """Configurations to start from."""
    wanted: int = 12
    """Closed configurations that are enough."""
    steps: int = 40
    """Most steps from each start."""
    near: float = 0.3
    """Half of the starts are so near to neutral (rad and m, standard deviation)."""


TUNING = Tuning()


@dataclass(frozen=True, slots=True)
class _Loops:
    """A robot and its loops, compared by what they are."""

    key: tuple[str, ...]
    tree: Tree = field(compare=False)
    constraints: tuple[Constraint, ...] = field(compare=False)


def rank_when_closed(tree: Tree, constraints: Sequence[Constraint]) -> tuple[int, int] | None:
    """Rank of the rows of loops where these are closed, and their number; None: no loops, or none could be closed.

    Loops are constraints between two links whose frames do not come with each call. Of several closed
    configurations the largest rank counts. Near singular ones, which are known to the root of round-off only, rows are
    small beside what they are elsewhere, and do not count.
    """
    found = _found(tree, constraints)
    return None if found is None else found[:2]


def closed_states(tree: Tree, constraints: Sequence[Constraint]) -> tuple[Array, Array] | None:
    """Some configurations (k, nq) at which loops are closed, and what takes velocities to such as keep them closed.

    The latter are projections (k, nv, nv).
    """
    found = _found(tree, constraints)
    return None if found is None else found[2:]


def _found(tree: Tree, constraints: Sequence[Constraint]) -> tuple[int, int, Array, Array] | None:
    loops = tuple(c for c in constraints if c.is_loop and len(c.carriers(tree)) == 2)
    return _rank(_Loops((tree.fingerprint, *(c.fingerprint for c in loops)), tree, loops)) if loops else None


@lru_cache(maxsize=256)
def _rank(asked: _Loops) -> tuple[int, int, Array, Array] | None:
    tree, loops = asked.tree, asked.constraints
    with np.errstate(all="ignore"):
        q = closed_configurations(tree, loops, TUNING.starts, TUNING.wanted)
        if not len(q):
            return None
        problem = Problem(NumpyOps(), tree, loops, q)
        G = np.broadcast_to(numbers(dense(problem)), (len(q), problem.n_rows, problem.n_rows))
        least = np.max(UNMOVED * mobility_bound(problem, Articulated(problem)), axis=0)
        rank = np.max(common_rank(G, np.broadcast_to(least, (problem.n_rows,))))
    return int(rank), problem.n_rows, q, kept_closed(tree, loops, q)


def kept_closed(tree: Tree, loops: Sequence[Constraint], q: Array) -> Array:
    """Projections (k, nv, nv) of velocities to those that keep loops closed, at configurations (k, nq)."""
    J = numbers(jacobian(Problem(NumpyOps(), tree, loops, q)))
    return np.asarray(np.eye(tree.nv) - np.linalg.pinv(J, rcond=REGULAR_CONDITION**0.5) @ J)


def closed_configurations(tree: Tree, loops: Sequence[Constraint], starts: int, wanted: int, seed: int = 0) -> Array:
    """Configurations (k, nq) at which the loops are closed, from ``starts`` random ones; k is at most ``wanted``."""
    random, ops = np.random.default_rng(seed), NumpyOps()
    near = tree.integrate(tree.neutral(), random.normal(0.0, TUNING.near, (starts // 2, tree.nv)))
    q = np.concatenate([near, tree.random(random, batch=starts - starts // 2)])

    def at_rest(q: Any) -> DynamicsProblem:
        return DynamicsProblem(Problem(ops, tree, loops, q), None, None, gravity=ops.zeros(3, 1))

    found, gap = close_loops(lambda q: at_rest(ops.state_vector(q)), unstacked(q), steps=TUNING.steps)
    closed = np.broadcast_to(numbers(gap) <= closed_within(at_rest(q)), len(q))
    return np.asarray(ops.state_vector(found)[closed][:wanted])
