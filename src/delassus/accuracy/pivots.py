"""Error estimates of traced programs, from the pivots that their eliminations divide by (`Ops.pivot`).

A pivot is a difference of terms that do not shrink with it, so that its relative error is round-off over its size.
Where a pivot ``p`` is smaller than usual, ``p̄``, all that depends on it has errors that are ``p̄ / p`` as large, and so
on along chains of pivots, to the root: of pivots that depend on one another, and of those whose quotients meet in
products that further pivots are made of.

``rcond = min over chains Π min(1, p / p̄) / (5 g)``,   relative error ≈ ε / rcond,

``g`` being by how much errors grow beside that: measured at usual states, with noise on every operation and constant
(Monte Carlo arithmetic; Parker 1997), and multiplied with what the chains are there. Three operations a pivot. How good
the estimate is: ``delassus bench errors``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.passes.scans import reachable
from delassus.compiler.passes.simplify import without_calls
from delassus.compiler.passes.values import meetings, values
from delassus.spatial.trace.graph import Graph
from delassus.spatial.trace.nodes import Expression
from delassus.spatial.trace.operations import Op
from delassus.spatial.trace.trace_ops import CANCELLED, TraceOps

SMALL_FRACTION = 0.1
"""Fraction of the usual states at which a pivot is smaller than its reference."""

MEDIAN_FRACTION = 0.2
"""The reference of a pivot is at least this fraction of its median: some pivots come near zero at many states."""

SWITCHED_FRACTION = 0.5
"""The same fractions where constraints can be off: what is usual depends on which are on."""

GROWTH_FRACTION = 0.9
"""Fraction of the usual states at which errors grow by less than ``g``."""

REGULAR_FRACTION = 0.1
"""Fraction of the usual states that has to be regular; of constraints that can be off, some go together at few."""

SAFETY = 5.0
"""Factor by which estimates are larger than what is measured."""

NOISE = 1e-12
"""Relative size of the noise: far above round-off, and so small that errors are proportional to it."""

KNOWN = 0.1
"""Relative error, with that noise, above which a number is round-off."""

CHOSEN = 1e-5
"""The same of matrices of contacts, where noise of any size chooses which of two features touch that are alike.
Errors that grow by less are within the error bound of float64 (1e-6) by a factor of 90."""

ZERO_FRACTION = 1e-10
"""A result counts as zero below this fraction of what its terms would make without cancelling one another; never
above this number, for quotients of round-off are large."""

COARSE = 1e6
"""Round-off of known numbers, in units of that of one operation, above which a program that divides by nothing has
an estimate: they may be quotients of differences that are known, too."""


Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ByPivots:
    """Error estimates of a program by its pivots.

    Attributes
    ----------
    rcond : Expression
        Reciprocal condition, of the program's inputs.
    independence : Expression
        The same without what errors grow by: the least product of relative pivots, which is round-off where rows
        depend on one another.
    at_usual, noise : arrays (n)
        ``rcond`` at the usual states, and the relative errors that noise of relative size one would make there.
    """

    rcond: Expression
    independence: Expression
    at_usual: Array
    noise: Array


def by_pivots(
    ops: TraceOps,
    outputs: Sequence[Sequence[int]],
    usual: Callable[[], Sequence[Array]],
    scaled: Sequence[slice] = (),
    is_solved: bool = True,
    is_switched: bool = False,
    known: float = KNOWN,
) -> ByPivots | None:
    """``rcond`` of a program, zero if nothing is known at any state; None if it has no pivots and no coarse numbers.

    ``outputs`` are the nodes of each result, ``usual`` gives states (n, inputs) by kind. Pivots are compared with what
    they are at these, at the kind at which they are smallest; with rows of any size, the inputs ``scaled``, by the
    size that the rows have. Kinds at which a guard (`TraceOps.exact`) is always zero, as that of closed loops is where
    these are open, do not count: such states are solved by another method. Where ``is_solved``, all pivots count, as
    all rows of the system have to be independent; else those that the results need. ``is_switched``: whether
    constraints can be off. What grows by more than ``known`` over the noise is round-off.
    """
    if not ops.pivots and max(ops.roundings.values(), default=0.0) <= CANCELLED:
        return None
    pivots = [(node, *found) for node, found in sorted(ops.pivots.items())]
    traced = ops.graph([*outputs, [*ops.pivots, *(size for _, size, *_ in pivots)]])
    graph, place = without_calls(traced)
    needed = reachable(graph, graph.outputs[:-1])
    pivots = [pivot for pivot in pivots if is_solved or needed[place[pivot[0]]]]
    numbers = graph.value[needed & (graph.op == Op.CONSTANT)].tolist()
    if not pivots and not any(ops.rounding(x) > COARSE for x in numbers):
        return None
    at = [(place[node], place[size], squared, system) for node, size, squared, system in pivots]
    states = usual()
    x, kind = np.concatenate(states), np.repeat(range(len(states)), [len(some) for some in states])
    x = _with_loops(ops, traced, x)
    of_pivots = [size for _, size, *_ in at] if is_solved else ()
    found, error, regular = _measured(graph, x, of_pivots, ops.rounding, known)
    guards = [found[place[node]] for node, *_ in pivots if node in ops.exact and traced.op[node] != Op.CONSTANT]
    meant = _with_guards_on(guards, kind)
    x, kind, error, regular = x[meant], kind[meant], error[meant], regular[meant]
    sizes = [_size(found, size, squared)[meant] for _, size, squared, _ in at]
    kinds = [regular & (kind == k) for k in range(len(states)) if np.any(regular & (kind == k))]
    references = [min((_usual(size[some], is_switched) for some in kinds), default=0.0) for size in sizes]
    if not all(references) or np.count_nonzero(regular) <= REGULAR_FRACTION * len(x):
        return ByPivots(Expression(ops, 0), Expression(ops, 0), np.zeros(len(x)), error / NOISE)
    powers = [_powers(sizes, at, graph, x, rows) for rows in scaled]
    inverses = [1.0 / _square(ops, traced, rows) for rows in scaled]
    before = _before(graph, at)
    relative: list[Expression | None] = []
    for k, (_, node, squared, _) in enumerate(pivots):
        size = Expression(ops, node)
        own = (size * size if squared else size) * (1.0 / references[k])
        for power, inverse in zip(powers, inverses, strict=True):
            for _ in range(power[k]):
                own = own * inverse
        relative.append(None if traced.op[node] == Op.CONSTANT else own)

    # at usual states errors are what they are there, beside what the chains say of them
    there = [None if own is None else sizes[k] / references[k] for k, own in enumerate(relative)]
    with np.errstate(invalid="ignore"):  # pivots of constraints that are off
        chains = _least_product(there, before, np.fmin, np.ones(len(x)))
    explained = (error * chains)[regular]
    growth = max(float(np.sort(explained)[int(GROWTH_FRACTION * len(explained))]) / NOISE, 1.0)
    product: Expression = _least_product(relative, before, ops.minimum, Expression(ops, ops.number(1.0)))
    lost = 1.0 / (SAFETY * growth)
    if not pivots and growth <= COARSE:
        return None
    return ByPivots(product * lost, product, chains * lost, error / NOISE)


def _with_guards_on(guards: Sequence[Array], kind: NDArray[np.intp]) -> NDArray[np.bool_]:
    """States of kinds at which each guard is on somewhere; all states if there are none."""
    on = [k for k in np.unique(kind).tolist() if all(np.any(guard[kind == k] > 0.0) for guard in guards)]
    return np.isin(kind, on) | (not on)


def _with_loops(ops: TraceOps, graph: Graph, x: Array) -> Array:
    """Inputs (n, inputs) with those that loops set, which have the values of the generic state."""
    n = x.shape[1]
    nodes = np.flatnonzero((graph.op == Op.INPUT) & (graph.a >= n))
    beyond = np.zeros(int(graph.a[nodes].max(initial=n - 1)) + 1 - n)
    beyond[graph.a[nodes] - n] = [ops.at[k] for k in nodes.tolist()]
    return np.concatenate([x, np.tile(beyond, (len(x), 1))], axis=1)


def _least_product(
    relative: Sequence[Any], before: Sequence[Sequence[int]], minimum: Callable[[Any, Any], Any], one: Any
) -> Any:
    """``min over chains Π min(1, p / p̄)`` of pivots by their references; None is one that is constant."""
    chain: list[Any] = []
    last = set(range(len(relative)))
    for k, own in enumerate(relative):
        last -= set(before[k])
        above = [found for j in before[k] if (found := chain[j]) is not None]
        least = reduce(minimum, above) if above else None
        if own is not None:
            least = minimum(one, own) if least is None else minimum(least, least * own)
        chain.append(least)
    return reduce(minimum, [found for k in sorted(last) if (found := chain[k]) is not None], one)


def _measured(
    graph: Graph, x: Array, pivots: Sequence[int], rounding: Callable[[float], float], known: float
) -> tuple[Mapping[int, Array], Array, NDArray[np.bool_]]:
    """Values of the last outputs, the relative error of results at each state, and at which of them something is known.

    Nothing is known where a pivot is round-off: results may need none of the forces of rows that are dependent there.
    """
    n = len(x)
    random = np.random.default_rng(0)
    noise = np.array([np.append(np.ones(n), 1.0 + NOISE * random.uniform(-1.0, 1.0, n)) for _ in range(61)])
    *both, of_pivots = values(graph, np.concatenate([x, x]), noise, rounding)
    error, whole = np.zeros(n), None
    for group, found in enumerate(both):
        if len(found):
            size = np.max(np.abs(found[:, :n]), axis=0)
            with np.errstate(invalid="ignore"):  # numbers that overflow
                apart = np.max(np.abs(found[:, n:] - found[:, :n]), axis=0)
                own = np.where(apart > 0.0, apart / np.where(size > 0.0, size, 1.0), apart)
            if not np.all(own < KNOWN):
                whole = values(graph, np.abs(x), of_sizes=True) if whole is None else whole
                own[size < ZERO_FRACTION * np.minimum(np.max(whole[group], axis=0), 1.0)] = 0.0
            error = np.maximum(error, own)
    regular = error < known
    at_pivots = dict(zip(graph.outputs[-1].tolist(), of_pivots, strict=True))
    for k in pivots:
        if graph.op[k] != Op.CONSTANT:
            at = at_pivots[k]
            with np.errstate(invalid="ignore"):  # pivots of constraints that are off
                regular &= ~(np.abs(at[n:] - at[:n]) > KNOWN * np.abs(at[:n]))
    return {k: at[:n] for k, at in at_pivots.items()}, error, regular


def _size(found: Mapping[int, Array], node: int, squared: bool) -> Array:
    return np.asarray(np.abs(found[node]) ** (2 if squared else 1))


def _usual(size: Array, is_switched: bool) -> float:
    """Reference of a pivot, from the states at which it is on; zero if there are none."""
    counted = size[np.isfinite(size) & (size > 0.0)]
    if not len(counted):
        return 0.0
    usual = float(np.quantile(counted, SMALL_FRACTION))
    return SWITCHED_FRACTION * usual if is_switched else max(usual, MEDIAN_FRACTION * float(np.median(counted)))


def _before(graph: Graph, pivots: Sequence[tuple[int, int, bool, int]]) -> list[list[int]]:
    """Predecessors of each pivot: the last ones of its system whose errors it inherits."""
    systems: dict[int, int] = {}
    for k, (*_, system) in enumerate(pivots):
        systems[system] = systems.get(system, 0) | 1 << k
    meet = meetings(graph, [node for node, *_ in pivots])
    meet = [
        found & systems[system] & (1 << k) - 1 for k, (found, (*_, system)) in enumerate(zip(meet, pivots, strict=True))
    ]
    out: list[list[int]] = []
    for left in meet:
        nearest = []
        while left:
            j = left.bit_length() - 1
            nearest.append(j)
            left &= ~(meet[j] | 1 << j)
        out.append(nearest)
    return out


def _powers(
    sizes: Sequence[Array],
    pivots: Sequence[tuple[int, int, bool, int]],
    graph: Graph,
    x: Array,
    rows: slice,
) -> list[int]:
    """The power of the square of the size of rows that each pivot grows with."""
    twice = x.copy()
    twice[:, rows] *= 2.0
    found = dict(zip(graph.outputs[-1].tolist(), values(graph, twice)[-1], strict=True))
    out = []
    for size, (_, node, squared, _) in zip(sizes, pivots, strict=True):
        with np.errstate(all="ignore"):
            ratio = np.nanmedian(_size(found, node, squared) / size)
        out.append(max(0, round(math.log2(ratio) / 2.0)) if 0.0 < ratio < math.inf else 0)
    return out


def _square(ops: TraceOps, graph: Graph, rows: slice) -> Expression:
    """Mean square of the rows, of six entries, that some inputs are."""
    own = np.flatnonzero((graph.op == Op.INPUT) & (rows.start <= graph.a) & (graph.a < rows.stop))
    entries = [Expression(ops, k) for k in own.tolist()]
    return reduce(lambda total, x: total + x, [x * x for x in entries]) * (6.0 / len(entries))
