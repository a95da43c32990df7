"""In which order `pv_early` and `pv_soft` eliminate links where there are loops: the candidate of fewest operations.

Either forces of loops wait until both ends have met, leaves → root as links are numbered; or they are eliminated
earlier, where few 6 × 6 blocks between links take their place (`loop_rows`), in that order or in that of least degree:
always the leaf next whose acceleration is coupled to the fewest others, as LCABA of Pinocchio chooses
(``constraint-ordering.hxx``). Each is traced, no further than a little beyond the best before it.

Whether `ltl`, or `cluster_aba`, takes less than any of them is found alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

from delassus.accuracy.closed_loops import are_rows_of_loops, independent_coordinates
from delassus.algorithms.clusters.aba import cluster_aba
from delassus.algorithms.clusters.rnea import CLUSTER_RNEA, cluster_rnea
from delassus.algorithms.dynamics.ltl import ltl
from delassus.algorithms.dynamics.popov_vereshchagin.pv_early import pv_early
from delassus.algorithms.dynamics.proximal import proximal
from delassus.algorithms.dynamics.solution import DynamicsSolution
from delassus.algorithms.dynamics.state import NEVER, DynamicsProblem, EliminationOrder
from delassus.algorithms.inputs import inputs_of
from delassus.algorithms.loops.inverse_dynamics import constrained_inverse_dynamics
from delassus.algorithms.osim import OF_LOOPS, OVER_LOOPS
from delassus.algorithms.problem import Problem
from delassus.constraints import Constraint
from delassus.errors import ConstraintError
from delassus.model.kinematics import generic_configurations
from delassus.model.tree import WORLD, Tree
from delassus.spatial.trace.graph import undisturbed
from delassus.spatial.trace.trace_ops import TraceOps

FEW_FORCES = 2.0
"""Forces that a 6 × 6 block takes the place of, in the first candidate."""

MANY_FORCES = 6.0
"""The same in the second candidate."""

MARGIN = 0.03
"""By how much the count must be lower to couple more links, earlier: errors are larger then."""

LONGEST_TRACE = 1.3
"""A trace ends at this many times the nodes of the best before it: of all nodes, a share is never used."""


TIME_BY_FACTORS = 0.8
"""Time of an operation of `ltl` by that of one of `pv_early`: it keeps fewer numbers for later, and fuses more."""

MOST_BY_CLUSTERS = 0.9
"""Part of the operations of `pv_early` or `proximal` that `cluster_aba` must take less than; each takes less time."""

MOST_FACTORISED = 48
"""Degrees of freedom up to which `ltl`, and dense methods, may be quicker where loops are local."""


class _TooLong(Exception):
    """A trace has more nodes than it is worth."""


class _BoundedTrace(TraceOps):
    """A trace that ends at a number of nodes."""

    def __init__(self, most: float) -> None:
        super().__init__()
        self._most = most

    def operation(self, op: int, a: int, b: int = -1, c: int = -1) -> int:
        if len(self.at) > self._most:
            raise _TooLong
        return super().operation(op, a, b, c)


def loops(tree: Tree, constraints: Sequence[Constraint]) -> list[tuple[int, int]]:
    """Pairs of links that constraints hold to each other."""
    ends = [{f.carrier(tree) for f in c.frames} - {WORLD} for c in constraints]
    return [(min(links), max(links)) for links in ends if len(links) == 2]


def fewest_operations(
    tree: Tree, constraints: Sequence[Constraint], solve: Callable[[TraceOps, EliminationOrder], DynamicsSolution]
) -> EliminationOrder | None:
    """The best order for what ``solve`` traces; None: there are no loops, and nothing to choose."""
    return _best(tree, loops(tree, constraints), solve)[0]


def _best(
    tree: Tree,
    closed: Sequence[tuple[int, int]],
    solve: Callable[[TraceOps, EliminationOrder], DynamicsSolution],
) -> tuple[EliminationOrder | None, float, float]:
    """The best order, with the fewest operations and the fewest nodes of a trace."""
    best, least, most = None, math.inf, math.inf
    for order in _candidates(tree, closed) if closed else ():
        operations, nodes = _count(lambda ops, order=order: solve(ops, order), LONGEST_TRACE * most)  # type: ignore[misc]
        if operations <= (1.0 + MARGIN) * least:
            best = order
        least, most = min(least, operations), min(most, nodes)
    return best, least, most


def _count(solve: Callable[[TraceOps], DynamicsSolution], most: float) -> tuple[float, float]:
    """Operations of what is traced, and nodes; both infinite beyond so many nodes."""
    ops = _BoundedTrace(most)
    try:
        found = solve(ops)
    except _TooLong:
        return math.inf, math.inf
    if len(ops.at) > most:
        return math.inf, math.inf
    return ops.count([*ops.nodes(found.qdd), *ops.nodes(found.forces)]), len(ops.at)


# -- hard rows that always act -------------------------------------------------------------------------------------


def order_of_hard_rows(tree: Tree, constraints: tuple[Constraint, ...]) -> EliminationOrder | None:
    """The best order for `pv_early` with hard rows that always act; None: there are no loops."""
    return _of_hard_rows(tree, constraints)[0]


@lru_cache(maxsize=256)
@undisturbed
def is_quicker_by_factors(tree: Tree, constraints: tuple[Constraint, ...]) -> bool:
    """Whether `ltl` takes less time than `pv_early` in its best order, of a robot with loops with hard rows."""
    if not loops(tree, constraints) or tree.nv > MOST_FACTORISED:
        return False
    _, least, nodes = _of_hard_rows(tree, constraints)
    by_factors, _ = _count(lambda ops: ltl(_motion(ops, tree, constraints)), LONGEST_TRACE * nodes / TIME_BY_FACTORS)
    return TIME_BY_FACTORS * by_factors < least


@lru_cache(maxsize=256)
@undisturbed
def is_quicker_by_clusters(tree: Tree, constraints: tuple[Constraint, ...], other: str) -> bool:
    """Whether `cluster_aba` takes fewer operations and less time than another method, of hard rows, without a guard."""
    ends = all(len(c.frames) == 2 or c.coefficients(tree) for c in constraints)
    if not ends or inputs_of(constraints) or not are_rows_of_loops(tree, constraints):
        return False
    try:
        independent = independent_coordinates(tree, constraints)
    except ConstraintError:
        return False

    def count(method: Callable[[DynamicsProblem], DynamicsSolution], most: float = math.inf) -> tuple[float, float]:
        order = EliminationOrder(tuple(tree.leaves_to_root()), independent=independent)
        return _count(lambda ops: method(_motion(ops, tree, constraints, order)), most)

    own, nodes = count(cluster_aba)
    if other == "pv-early" and loops(tree, constraints):
        by_other = _of_hard_rows(tree, constraints)[1]
    else:
        by_other, _ = count({"ltl": ltl, "pv-early": pv_early, "proximal": proximal}[other], 3.0 * nodes)
    return own < (TIME_BY_FACTORS if other == "ltl" else MOST_BY_CLUSTERS) * by_other


@lru_cache(maxsize=256)
@undisturbed
def _of_hard_rows(tree: Tree, constraints: tuple[Constraint, ...]) -> tuple[EliminationOrder | None, float, float]:
    def solve(ops: TraceOps, order: EliminationOrder) -> DynamicsSolution:
        return pv_early(_motion(ops, tree, constraints, order))

    return _best(tree, loops(tree, constraints), solve)


@lru_cache(maxsize=256)
@undisturbed
def least_over_loops(tree: Tree, constraints: tuple[Constraint, ...], loops: tuple[Constraint, ...]) -> str:
    """Method of `OF_LOOPS` that takes the fewest operations; `OVER_LOOPS` beyond `MOST_FACTORISED`."""
    if tree.nv > MOST_FACTORISED:
        return OVER_LOOPS
    independent = independent_coordinates(tree, loops)

    def operations(method: str) -> int:
        ops = TraceOps()
        problem = _motion(ops, tree, constraints).problem.closed_by(loops, independent)
        return ops.count(ops.nodes(OF_LOOPS[method](problem)))

    return min(OF_LOOPS, key=operations)


@lru_cache(maxsize=256)
@undisturbed
def least_by_motors(tree: Tree, constraints: tuple[Constraint, ...], motors: tuple[int, ...]) -> str:
    """Method of fewest operations where motors at these degrees of freedom are independent and determine all others.

    That over clusters beyond `MOST_FACTORISED`.
    """
    if tree.nv > MOST_FACTORISED:
        return CLUSTER_RNEA
    counts = dict[str, int]()
    for name in (CLUSTER_RNEA, "orthogonal"):
        ops = TraceOps()
        motion = _motion(ops, tree, constraints)
        qdd = motion.per_joint(ops.vector(tree.nv))
        found: Sequence[Any] = (
            cluster_rnea(motion, qdd, motors) if name == CLUSTER_RNEA
            else constrained_inverse_dynamics(motion, qdd, motors, None, {})[:3]
        )  # fmt: skip
        counts[name] = ops.count([x for a in found for x in ops.nodes(a)])
    return min(counts, key=lambda name: counts[name])


def _motion(
    ops: TraceOps, tree: Tree, constraints: tuple[Constraint, ...], order: EliminationOrder | None = None
) -> DynamicsProblem:
    """The robot in motion; all that comes with each call is unknown."""
    given = [ops.unknown(*a.shape) if len(a.shape) == 2 else ops.vector(a.size) for a in inputs_of(constraints)]
    q = ops.vector(tree.nq, generic_configurations(tree, 0).tolist())
    v, tau, gravity = ops.vector(tree.nv), ops.vector(tree.nv), ops.constant([[0.0], [0.0], [-9.81]])
    return DynamicsProblem(Problem(ops, tree, constraints, q, given), v, tau, gravity=gravity, elimination=order)


def _candidates(tree: Tree, closed: Sequence[tuple[int, int]]) -> Iterator[EliminationOrder]:
    """Orders that may be best; of those that are about as good the last is taken."""
    numbered, least = tuple(tree.leaves_to_root()), least_degree(tree, closed)
    yield EliminationOrder(least, FEW_FORCES)
    yield EliminationOrder(least, MANY_FORCES)
    if least != numbered:
        yield EliminationOrder(numbered, MANY_FORCES)
    yield EliminationOrder(numbered, NEVER)


def least_degree(tree: Tree, closed: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Leaves first, always the one that is coupled to the fewest links, if each couples all that it is coupled to."""
    coupled: list[set[int]] = [set() for _ in tree.joints]
    for a, b in closed:
        _couple(coupled, (a, b))
    children, order = [len(links) for links in tree.children], list[int]()
    leaves = {i for i, n in enumerate(children) if not n}
    while leaves:
        i, parent = min(leaves, key=lambda leaf: (len(coupled[leaf]), -leaf)), WORLD
        leaves.remove(i)
        order.append(i)
        for j in coupled[i]:
            coupled[j].discard(i)
        parent = tree.parents[i]
        if parent != WORLD:
            coupled[i].add(parent)
            children[parent] -= 1
            leaves |= {parent} if not children[parent] else set()
        _couple(coupled, coupled[i])
    return tuple(order)


def _couple(coupled: list[set[int]], links: Any) -> None:
    for a, b in combinations(links, 2):
        coupled[a].add(b)
        coupled[b].add(a)
