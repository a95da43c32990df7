"""Expression graphs: straight-line programs of scalar operations, and how many operations they hold."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass, field
from functools import wraps
from itertools import chain
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from delassus.frozen import Frozen
from delassus.spatial.trace.operations import COMMUTATIVE, LEAVES, OPERATIONS, Op, arity

P = ParamSpec("P")
T = TypeVar("T")

Node = tuple[int, int, int, int]
"""Kind and operands, −1 where there are none; of an input, its number."""


@dataclass(frozen=True, slots=True)
class OperationCount(Frozen):
    """Numbers of arithmetic operations by kind.

    Attributes
    ----------
    mul, add, neg, div, sqrt, trig, other, fma : int
        Multiplications; additions and subtractions; negations; divisions; square roots; sines and cosines;
        comparisons, selections and the like; fused multiplications and additions, which compiled programs have.

    Examples
    --------
    >>> import delassus as ds
    >>> count = ds.compile(ds.mechanisms.pendulum(2), (), "inverse_dynamics").operations
    >>> count.trig, count.total > count.mul + count.add
    (4, True)
    """

    mul: int = 0
    add: int = 0
    neg: int = 0
    div: int = 0
    sqrt: int = 0
    trig: int = 0
    other: int = 0
    fma: int = 0

    @property
    def total(self) -> int:
        """Number of operations, one each."""
        return self.mul + self.add + self.neg + self.div + self.sqrt + self.trig + self.other + self.fma

    def __repr__(self) -> str:
        shown = ", ".join(f"{kind}={n}" for kind, n in zip(self.__slots__, astuple(self), strict=True))
        return f"OperationCount({shown}, total={self.total})"


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A straight-line program; node k uses only nodes before it.

    Attributes
    ----------
    op : (n,) array of int
        Kind of each node.
    a, b, c : (n,) arrays of int
        Operands (−1 where there are none); of an input, the index of the input in ``a``.
    value : (n,) array of float
        Number of a constant.
    outputs : tuple of (k,) arrays of int
        Nodes that the program computes, in groups.
    calls : tuple of Calls
        Parts that run for several lists of values; of a trace, before it is cut into stages.
    """

    op: NDArray[np.int64]
    a: NDArray[np.int64]
    b: NDArray[np.int64]
    c: NDArray[np.int64]
    value: NDArray[np.float64]
    outputs: tuple[NDArray[np.int64], ...]
    calls: tuple[Calls, ...] = ()
    _nodes: list[Node] = field(default_factory=list, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.op)

    def nodes(self) -> list[Node]:
        """All nodes, in a list that is kept."""
        if not self._nodes:
            columns = (column.tolist() for column in (self.op, self.a, self.b, self.c))
            self._nodes.extend(zip(*columns, strict=True))
        return self._nodes

    def flat_outputs(self) -> list[int]:
        """Outputs of all groups, one after the other."""
        return [k for group in self.outputs for k in group.tolist()]

    def reachable(self, roots: Iterable[int], among: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
        """Mask of the nodes that ``roots`` depend on, themselves included, leaving out those not in ``among``."""
        left_out = bytearray(len(self)) if among is None else bytearray((~among).tobytes())
        seen, nodes = bytearray(len(self)), self.nodes()
        of_calls = {k: below for calls in self.calls for k, below in calls.below()}
        for root in roots:
            seen[root] = 1
        for k in range(len(nodes) - 1, -1, -1):  # operands stand before what uses them
            if seen[k] and not left_out[k]:
                op, a, b, c = nodes[k]
                if op not in LEAVES:
                    seen[a] = 1
                    if b >= 0:
                        seen[b] = 1
                        if c >= 0:
                            seen[c] = 1
                for x in of_calls.get(k, ()):
                    seen[x] = 1
        return np.asarray(np.frombuffer(seen, dtype=bool) & ~np.frombuffer(left_out, dtype=bool))

    def count(self, mask: NDArray[np.bool_] | None = None) -> OperationCount:
        """Count operations, of all nodes or of those in ``mask``."""
        numbers = np.bincount(self.op if mask is None else self.op[mask], minlength=len(Op))
        fields: dict[str, int] = {}
        for op, operation in OPERATIONS.items():
            fields[operation.counted] = fields.get(operation.counted, 0) + int(numbers[op])
        return OperationCount(**fields)


@dataclass(frozen=True, slots=True)
class Loop:
    """Part of a traced program that is repeated.

    ``start``, and then from pass to pass ``following``, are the nodes whose values the inputs ``carried`` have in it;
    what follows reads them as the inputs ``final``. The last of each is not zero where the values do not change any
    more, so that the loop may end early where all states have stopped. Of a single pass so many calls and loops
    ``inside`` come before it in the list of all, and before these an empty loop, where it begins.
    """

    times: int
    start: list[int]
    carried: list[int]
    following: list[int]
    final: list[int]
    inside: int = 0


@dataclass(frozen=True, slots=True)
class Calls:
    """Part of a traced program that runs for several lists of values, as a function is called.

    In it the inputs ``given`` have the values of the nodes that a row of ``operands`` names; it computes the nodes
    ``results``. What follows reads them as the inputs of the same row of ``final``. Of ``tiles`` of a product, each row
    is read as columns side by side; else the same place of all rows is.
    """

    given: list[int]
    operands: list[list[int]]
    results: list[int]
    final: list[list[int]]
    tiles: bool = False

    def pruned(self, graph: Graph, needed: NDArray[np.bool_]) -> Calls:
        """Without rows and results that no ``needed`` node of a graph reads, and what only those are made of."""
        read = needed[np.array(self.final, dtype=np.int64)]
        rows, results = (np.flatnonzero(read.any(axis=axis)).tolist() for axis in (1, 0))
        first, left = min(self.given), [self.results[c] for c in results]
        end, used = max(left, default=first) + 1, set(left)
        nodes = [*zip(*(column[first:end].tolist() for column in (graph.op, graph.a, graph.b, graph.c)), strict=True)]
        while left:
            op, *operands = nodes[left.pop() - first]
            more = [x for x in operands[: arity(op)] if x >= first and x not in used]  # those before it know no row
            used.update(more)
            left += more
        given = [c for c, node in enumerate(self.given) if node in used]
        return Calls(
            [self.given[c] for c in given],
            [[self.operands[k][c] for c in given] for k in rows],
            [self.results[c] for c in results],
            [[self.final[k][c] for c in results] for k in rows],
            self.tiles,
        )

    def below(self) -> Iterator[tuple[int, list[int]]]:
        """Each final node, and what it depends on."""
        for operands, final in zip(self.operands, self.final, strict=True):
            for node, result in zip(final, self.results, strict=True):
                yield node, [result, *operands]


_CONSTANT = (int(Op.CONSTANT), -1, -1, -1)


class Builder:
    """Makes a graph node by node; equal nodes are made once (operands of commutative operations in either order)."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.value: list[float] = []
        self._columns = np.zeros((4, 0), np.int64)  # of the nodes that have been in a graph
        self.table: dict[Node | float | str, int] = {}

    def node(self, op: int, a: int = -1, b: int = -1, c: int = -1) -> int:
        """Input or operation of that kind and operands, made if there is none yet."""
        node = (op, b, a, c) if b < a and op in COMMUTATIVE else (op, a, b, c)
        number = len(self.nodes)
        made = self.table.setdefault(node, number)
        if made == number:
            self.nodes.append(node)
            self.value.append(0.0)
        return made

    def constant(self, value: float) -> int:
        """Constant node; zeros of both signs are two."""
        number = len(self.nodes)
        made = self.table.setdefault(value or value.hex(), number)
        if made == number:
            self.nodes.append(_CONSTANT)
            self.value.append(value)
        return made

    def graph(self, outputs: Iterable[Iterable[int]]) -> Graph:
        """The graph so far, with these groups of outputs."""
        first = self._columns.shape[1]
        more = self.nodes[first:]
        numbers = np.fromiter(chain.from_iterable(more), dtype=np.int64, count=4 * len(more))
        self._columns = np.concatenate([self._columns, numbers.reshape(-1, 4).T], axis=1)
        op, a, b, c = self._columns
        groups = tuple(np.array(list(group), dtype=np.int64) for group in outputs)
        return Graph(op, a, b, c, np.array(self.value, dtype=float), groups)


STACK = 1 << 15
"""Values that a call of what `undisturbed` wraps asks for, and all calls in it then share.

CPython maps a piece of 16 KiB for a call that crosses the end of the last one, and unmaps it after: of functions that
are called millions of times, right there, that takes as long as they do.
"""


def undisturbed(function: Callable[P, T]) -> Callable[P, T]:
    """The function, without collection of garbage and with room for its calls: graphs are millions of objects."""

    @wraps(function)
    def wrapper(*arguments: P.args, **keywords: P.kwargs) -> T:
        if not gc.isenabled():  # by whoever calls, or on another thread that compiles
            return function(*arguments, **keywords)
        gc.disable()
        try:
            return function(*arguments, **keywords)
        finally:
            gc.enable()

    own: Any = wrapper
    own.__code__ = own.__code__.replace(co_stacksize=STACK)
    return wrapper
