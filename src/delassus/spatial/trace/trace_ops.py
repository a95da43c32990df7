"""`Ops` that record a graph: running an algorithm on it makes the nodes that the compiler optimises and counts.

A scalar is a node, a matrix a table of node numbers. Equal nodes are one, known numbers are folded, zeros take no
operation and signs move out of products as nodes are made. Node 0 is zero: it alone is a *structural* zero.

Each node also has a value at one generic state, where inputs are fixed numbers: what is true there of the rank of a
matrix is true at almost all states.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from delassus.spatial.ops import Body, Ops, ScalarOps
from delassus.spatial.rigid import RigidInertia
from delassus.spatial.trace.graph import Builder, Calls, Graph, Loop, Node
from delassus.spatial.trace.nodes import Expression, Table
from delassus.spatial.trace.operations import ABOUT, Op, has_few_digits, value_of
from delassus.spatial.trace.rank import rank_of
from delassus.spatial.transform import Displacement, StagedTransform

INPUT, CONSTANT = int(Op.INPUT), int(Op.CONSTANT)
ADD, SUBTRACT, MULTIPLY, DIVIDE = int(Op.ADD), int(Op.SUBTRACT), int(Op.MULTIPLY), int(Op.DIVIDE)
NEGATE, SQRT, SIN, COS = int(Op.NEGATE), int(Op.SQRT), int(Op.SIN), int(Op.COS)
COPYSIGN, MIN, MAX, LESS, SELECT = int(Op.COPYSIGN), int(Op.MIN), int(Op.MAX), int(Op.LESS), int(Op.SELECT)

ROUND_OFF = 100 * 2.0**-52
"""Largest relative error of an operation, much more than it has."""

SAMPLES = 3
"""How often operations err at random."""

GIVEN = 4.0
"""Round-off of numbers of many digits of files, over that of one operation."""

CANCELLED = 1e5
"""Round-off from which on estimates count it, over that of one operation."""

LOST = 3.0
"""How many times its round-off a difference is to be, if it is not zero."""


class TraceOps(Ops):
    """The backend that records.

    Attributes
    ----------
    phases : list of (str, list of int)
        What `mark` was told, in order: the nodes that each phase computes.
    at : list of float
        Value of each node at the generic state; of a constant, its number.
    pivots : dict of int to (int, bool, int)
        Nodes that eliminations divide by: what each is judged by, whether by its square, and the system that it is of.
    exact : set of int
        Those that are zero where rows depend on one another, and else one; zero itself if they always do.
    loops : list of Loop or Calls
        What is repeated, in order.
    roundings : dict of float to float
        Relative round-off of known numbers that are made of others, in units of that of one operation.

    solutions : dict of int to Solution
        Nodes that solve an equation, from which their derivatives follow; see `delassus.compiler.passes.differentiate`.
    totals : list of (list of int, int)
        Nodes that are computed together, and one that is their total.
    """

    def __init__(self) -> None:
        self.totals: list[tuple[list[int], int]] = []
        self.phases: list[tuple[str, list[int]]] = []
        self.at: list[float] = [0.0]
        self.pivots: dict[int, tuple[int, bool, int]] = {}
        self.exact: set[int] = set()
        self.loops: list[Loop | Calls] = []
        self.solutions: dict[int, Any] = {}
        self.roundings: dict[float, float] = {}
        self._sizes, self._given = dict[int, int](), dict[float, float]()  # of nodes; roundings of what is made of none
        self.is_repeated = False  # whether what is traced is a pass of several, or calls
        self._system = 0
        self._erring: list[list[float]] = [[] for _ in range(SAMPLES)]
        self._build = Builder()
        self._nodes, self._table, self._constants = self._build.nodes, self._build.table, self._build.value
        self._random, self._errors = random.Random(0), np.random.default_rng(1)
        self._n_inputs = 0
        self._build.constant(0.0)
        self._one = self.number(1.0)

    # -- nodes -----------------------------------------------------------------------------------------------------

    def vector(self, size: int, at: Sequence[float] | None = None) -> list[Expression]:
        """State vector of the next inputs; ``at``: their values at the generic state, random if None."""
        values = [self._random.uniform(0.3, 1.0) for _ in range(size)] if at is None else at
        out = []
        for x in values:
            out.append(Expression(self, self._build.node(INPUT, self._n_inputs)))
            self.at.append(float(x))
            self._n_inputs += 1
        return out

    def unknown(self, rows: int, columns: int) -> Table:
        """Matrix of the next inputs."""
        return Table(self, [[x.node for x in self.vector(columns)] for _ in range(rows)], columns)

    def number(self, x: Any) -> int:
        """Node of a scalar or of a known number."""
        if type(x) is Expression:
            return x.node
        value = float(x)
        if not value:
            return 0
        node = self._build.constant(value)
        if node == len(self.at):
            self.at.append(value)
        return node

    def graph(self, outputs: Iterable[Iterable[int]]) -> Graph:
        """The graph so far, with these groups of outputs."""
        calls = tuple(found for found in self.loops if isinstance(found, Calls))
        return replace(self._build.graph(outputs), calls=calls)

    def forget(self) -> None:
        """Give back the memory of all nodes: who holds one of them may be in a circle, which waits for Python."""
        for made in (self._nodes, self._table, self._constants, self.at, *self._erring):
            made.clear()  # type: ignore[attr-defined]

    def since(self, start: int) -> list[Node]:
        """Nodes from that one on."""
        return self._nodes[start:]

    def nodes(self, a: Any, lower: bool = False) -> list[int]:
        """Nodes of a matrix row by row; ``lower``: of the lower triangle."""
        out: list[int] = a.nodes(lower)
        return out

    def count(self, nodes: Iterable[int]) -> int:
        """Number of operations that these nodes need."""
        graph = self._build.graph([])
        return graph.count(graph.reachable(nodes)).total

    def operation(self, op: int, a: int, b: int = -1, c: int = -1) -> int:
        """Node of an operation, or the number that it gives on known numbers."""
        at, nodes = self.at, self._nodes
        if nodes[a][0] == CONSTANT and (b < 0 or nodes[b][0] == CONSTANT) and (c < 0 or nodes[c][0] == CONSTANT):
            return self._folded(op, a, b, c)
        node = self._build.node(op, a, b, c)
        if node == len(at):
            at.append(value_of(op, at, a, b, c, ABOUT))
        return node

    def _folded(self, op: int, a: int, b: int, c: int) -> int:
        """Node of the number that an operation gives on known numbers; zero for a difference that is round-off."""
        at, operands = self.at, (a,) if b < 0 else (a, b) if c < 0 else (a, b, c)
        value, size, r = value_of(op, at, a, b, c), len(at), -1.0
        if op == ADD or op == SUBTRACT:
            error = math.hypot(abs(at[a]) * self._rounding(at[a]), abs(at[b]) * self._rounding(at[b]))
            if abs(value) <= LOST * ScalarOps.epsilon * error < math.inf:
                return 0
            r = error / abs(value) if value else 0.0
        node = self.number(value)
        if len(at) > size:  # equal numbers of a file are exact
            r = math.hypot(*[self._rounding(at[k]) for k in operands]) if r < 0.0 else r
            self.roundings[value] = math.hypot(r, not has_few_digits(value))
        return node

    def rounding(self, number: float) -> float:
        """Relative round-off of a known number, in units of that of one operation of the program."""
        if (found := self._rounding(number)) > CANCELLED:
            return max(1.0, found * ScalarOps.epsilon / self.epsilon)  # numbers are folded in double precision
        return 0.0 if has_few_digits(number) else 1.0

    def _rounding(self, number: float) -> float:
        if (found := self.roundings.get(number)) is None and (found := self._given.get(number)) is None:
            found = self._given[number] = 0.0 if has_few_digits(number) else GIVEN
        return found

    def add(self, a: int, b: int) -> int:
        """``a + b``."""
        if not a:
            return b
        if not b:
            return a
        (p, pa, pb, _), (q, qa, qb, _) = self._nodes[a], self._nodes[b]
        if q == NEGATE:
            return self.subtract(a, qa)
        if p == NEGATE:
            return self.subtract(b, pa)
        if p == SUBTRACT and pb == b:
            return pa
        if q == SUBTRACT and qb == a:
            return qa
        if a == b and p == MULTIPLY and CONSTANT in (self._nodes[pa][0], self._nodes[pb][0]):
            return self.multiply(self.number(2.0), a)
        if p == CONSTANT == q:
            return self._folded(ADD, a, b, -1)
        return self._made((ADD, b, a, -1) if b < a else (ADD, a, b, -1), self.at[a] + self.at[b])

    def _made(self, node: Node, value: float) -> int:
        """The node, made with its value at the generic state if there is none."""
        number = len(self.at)
        made = self._table.setdefault(node, number)
        if made == number:
            self._nodes.append(node)
            self._constants.append(0.0)
            self.at.append(value)
        return made

    def subtract(self, a: int, b: int) -> int:
        """``a − b``."""
        if not b:
            return a
        if not a:
            return self.negate(b)
        if a == b:
            return 0
        (p, pa, pb, _), (q, qa, qb, _) = self._nodes[a], self._nodes[b]
        if q == NEGATE:
            return self.add(a, qa)
        if p == NEGATE:
            return self.negate(self.add(pa, b))
        if p == ADD and b in (pa, pb):
            return pb if b == pa else pa
        if q == ADD and a in (qa, qb):
            return self.negate(qb if a == qa else qa)
        if p == CONSTANT == q:
            return self._folded(SUBTRACT, a, b, -1)
        return self._made((SUBTRACT, a, b, -1), self.at[a] - self.at[b])

    def multiply(self, a: int, b: int) -> int:
        """``a · b``; a sign moves out, and a product with ``1 / y`` is a quotient."""
        if not a or not b:
            return 0
        (p, left, right, _), (q, over, under, _) = self._nodes[a], self._nodes[b]
        if p == CONSTANT:
            return self._scaled(a, b)
        if q == CONSTANT:
            return self._scaled(b, a)
        if p == NEGATE:
            return self.negate(self.multiply(left, b))
        if p == DIVIDE:
            if right == b:
                return left
            if left == self._one:
                return self.divide(b, right)
        if q == NEGATE:
            return self.negate(self.multiply(over, a))
        if q == DIVIDE:
            if under == a:
                return over
            if over == self._one:
                return self.divide(a, under)
        return self._made((MULTIPLY, b, a, -1) if b < a else (MULTIPLY, a, b, -1), self.at[a] * self.at[b])

    def _scaled(self, number: int, x: int) -> int:
        """A known number times ``x``."""
        factor, (op, left, right, _) = self.at[number], self._nodes[x]
        if factor == 1.0:
            return x
        if factor == -1.0:
            return self.negate(x)
        if op == NEGATE:
            return self.negate(self._scaled(number, left))
        if op == ADD and left == right:
            return self.multiply(self.operation(MULTIPLY, self.number(2.0), number), left)
        if op == DIVIDE and left == self._one:
            return self.operation(DIVIDE, number, right)
        if op == MULTIPLY:
            for y, z in ((left, right), (right, left)):
                if self._nodes[y][0] == CONSTANT:
                    return self.multiply(self._folded(MULTIPLY, number, y, -1), z)
        if op == CONSTANT:
            return self._folded(MULTIPLY, number, x, -1)
        return self._made((MULTIPLY, x, number, -1) if x < number else (MULTIPLY, number, x, -1), factor * self.at[x])

    def divide(self, a: int, b: int) -> int:
        """``a / b``."""
        if not a or b == self._one:
            return a
        if a == b:
            return self._one
        (p, pa, pb, _), (q, qa, qb, _) = self._nodes[a], self._nodes[b]
        if p == NEGATE:
            return self.negate(self.divide(pa, b))
        if p == MULTIPLY and b in (pa, pb):
            return pb if b == pa else pa
        if q == MULTIPLY and a in (qa, qb):
            return self.divide(self._one, qb if a == qa else qa)
        if q == DIVIDE and qa == self._one:
            return self.multiply(a, qb)
        return self.operation(DIVIDE, a, b)

    def negate(self, a: int) -> int:
        """``−a``."""
        op, inner, *_ = self._nodes[a]
        if op == NEGATE:
            return inner
        return self._folded(NEGATE, a, -1, -1) if op == CONSTANT else self._made((NEGATE, a, -1, -1), -self.at[a])

    def dot(self, row: list[int], column: list[tuple[int, int]]) -> int:
        """Sum of products of a row and the entries of a column that are not zero."""
        total, add, multiply = 0, self.add, self.multiply
        for i, y in column:
            x = row[i]
            if x:
                product = multiply(x, y)
                total = add(total, product) if total else product
        return total

    def total(self, nodes: Sequence[int]) -> int:
        """Sum of all, by pairs: of sums that do not wait for one another."""
        while len(nodes) > 1:
            pairs = zip(nodes[::2], nodes[1::2], strict=False)
            nodes = [*(self.add(a, b) for a, b in pairs), *nodes[len(nodes) // 2 * 2 :]]
        return nodes[0] if nodes else 0

    def _function(self, op: int, *operands: Any) -> Any:
        return Expression(self, self.operation(op, *(self.number(x) for x in operands)))

    # -- the vocabulary of algorithms --------------------------------------------------------------------------------

    def constant(self, value: Any) -> Any:
        array = np.asarray(value, dtype=float)
        return Table(self, [[self.number(x) for x in row] for row in array.tolist()], array.shape[1])

    def zeros(self, rows: int, columns: int) -> Any:
        return Table(self, [[0] * columns for _ in range(rows)], columns)

    def flag(self, vector: Any, index: int) -> Any:
        flag = vector[index]
        self.at[flag.node] = 1.0
        return flag

    def entries(self, a: Any) -> list[list[Any]]:
        return [[Expression(self, x) for x in row] for row in a.rows]

    def matrix(self, rows: Sequence[Sequence[Any]]) -> Any:
        return Table(self, [[self.number(x) for x in row] for row in rows], len(rows[0]))

    def take(self, a: Any, rows: Sequence[int] | None = None, columns: Sequence[int] | None = None) -> Any:
        chosen = a.rows if rows is None else [a.rows[i] for i in rows]
        if columns is None:
            return Table(self, list(chosen), a.columns)
        return Table(self, [[row[j] for j in columns] for row in chosen], len(columns))

    def put(self, a: Any, shape: tuple[int, int], rows: Sequence[int], columns: Sequence[int]) -> Any:
        out = [[0] * shape[1] for _ in range(shape[0])]
        for i, row in zip(rows, a.rows, strict=True):
            for j, x in zip(columns, row, strict=True):
                out[i][j] = x
        return Table(self, out, shape[1])

    def shape(self, a: Any) -> tuple[int, int]:
        shape: tuple[int, int] = a.shape
        return shape

    def nonzero(self, a: Any) -> Any:
        return np.array(a.nodes(), dtype=int).reshape(a.shape) != 0

    def rank(self, a: Any, least: float = 0.0) -> int:
        return int(rank_of(self._values(a), np.maximum(self.errors_of(a), least)))

    def copied(self, x: int) -> int:
        """Another node of the same number."""
        node = self._build.node(MAX, x, x)
        if node == len(self.at):
            self.at.append(self.at[x])
        return node

    def opaque(self, a: Any) -> Any:
        rows = [[x if self._nodes[x][0] == CONSTANT else self.copied(x) for x in row] for row in a.rows]
        return Table(self, rows, a.columns)

    def absolute(self, a: Any) -> Any:
        return Table(self, [[self._size_of(x) if x else 0 for x in row] for row in a.rows], a.columns)

    def _size_of(self, x: int) -> int:
        if (found := self._sizes.get(x)) is None:
            found = self._sizes[x] = self.operation(MAX, x, self.negate(x))
        return found

    def masked(self, a: Any, like: Any) -> Any:
        pairs = zip(a.rows, like.rows, strict=True)
        return Table(self, [[x if y else 0 for x, y in zip(r, s, strict=True)] for r, s in pairs], a.columns)

    def known(self, a: Any) -> Any:
        all_known = all(self._nodes[x][0] == CONSTANT for x in a.nodes())
        return self._values(a) if all_known else None

    def _values(self, a: Table) -> Any:
        return np.array([self.at[x] for x in a.nodes()]).reshape(a.shape)

    def errors_of(self, a: Any) -> Any:
        """Estimates of the round-off in the values of entries: how far they are when every operation errs at random."""
        start = len(self._erring[0])
        for at in self._erring:
            factors = ROUND_OFF * self._errors.uniform(-1.0, 1.0, len(self.at) - start)
            given = zip(self._nodes[start:], self.at[start:], factors.tolist(), strict=True)
            for (op, x, y, z), value, factor in given:
                some = value_of(op, at, x, y, z, ABOUT) if op >= ADD else value
                at.append(some + some * factor * (max(1.0, self.rounding(value)) if op == CONSTANT else 1.0))
        found = np.array([[at[x] for x in a.nodes()] for at in self._erring]).reshape(SAMPLES, *a.shape)
        return np.linalg.norm(found - self._values(a), axis=0)

    def transpose(self, a: Any) -> Any:
        rows = [list(column) for column in zip(*a.rows, strict=True)] if a.rows else [[] for _ in range(a.columns)]
        return Table(self, rows, len(a.rows))

    def vstack(self, parts: Sequence[Any]) -> Any:
        return Table(self, [row for part in parts for row in part.rows], parts[0].columns)

    def cos(self, x: Any) -> Any:
        return self._function(COS, x)

    def sin(self, x: Any) -> Any:
        return self._function(SIN, x)

    def sqrt(self, x: Any) -> Any:
        return self._function(SQRT, x)

    def copysign(self, x: Any, y: Any) -> Any:
        return self._function(COPYSIGN, x, y)

    def minimum(self, x: Any, y: Any) -> Any:
        return self._function(MIN, x, y)

    def maximum(self, x: Any, y: Any) -> Any:
        return self._function(MAX, x, y)

    def less(self, x: Any, y: Any) -> Any:
        return self._function(LESS, x, y)

    def select(self, condition: Any, x: Any, y: Any) -> Any:
        return self._function(SELECT, condition, x, y)

    def repeat(self, times: int, start: Sequence[Any], body: Body, unless: Any = 0.0) -> list[Any]:
        assert not self.is_repeated, "a loop in a loop, or in what is called for rows, is not cut into stages"
        nodes = [self.number(x) for x in (*start, unless)]  # the last one: whether the state has stopped
        carried: list[Any] = self.vector(len(nodes), [self.at[x] for x in nodes])
        *before, stopped = carried
        pivots, self.pivots, begin = self.pivots, dict[int, tuple[int, bool, int]](), len(self.loops)
        self.is_repeated = times > 1
        after, stop = body(before)
        self.pivots, self.is_repeated = pivots, False  # errors of passes are those of the body's own
        inside = len(self.loops) - begin if times == 1 else 0
        if inside:
            self.loops.insert(begin, Loop(0, [], [], [], []))
        following = [self.select(stopped, x, y) for x, y in zip(before, after, strict=True)]
        following.append(self.maximum(stopped, stop))
        final = self.vector(len(nodes), [self.at[x.node] for x in following])
        inputs, made, outputs = ([x.node for x in values] for values in (carried, following, final))
        self.loops.append(Loop(times, nodes, inputs, made, outputs, inside))
        return final[:-1]

    def _symmetric(self, lower: list[list[int]]) -> Table:
        """Symmetric matrix from the rows of its lower triangle."""
        n = len(lower)
        return Table(self, [row + [lower[j][i] for j in range(i + 1, n)] for i, row in enumerate(lower)], n)

    def sym_add(self, a: Any, b: Any) -> Any:
        return self._symmetric([[*map(self.add, x[: i + 1], b.rows[i])] for i, x in enumerate(a.rows)])

    def sym_subtract(self, a: Any, b: Any) -> Any:
        return self._symmetric([[*map(self.subtract, x[: i + 1], b.rows[i])] for i, x in enumerate(a.rows)])

    def sym_product(self, a: Any, b: Any) -> Any:
        columns, dot = b.sparse_columns(), self.dot
        return self._symmetric([[dot(row, column) for column in columns[: i + 1]] for i, row in enumerate(a.rows)])

    def transform(self, displacement: Displacement) -> StagedTransform:
        return StagedTransform(self, displacement)

    def rigid_inertia(self, H: Any) -> RigidInertia:
        return RigidInertia.of_matrix(self, H)

    def mark(self, phase: str, values: Sequence[Any]) -> None:
        self.phases.append((phase, [x for a in values for x in a.nodes()]))

    def pivot(
        self, x: Any, squared: bool = False, size: Any = None, apart: bool = False, is_exact: bool = False
    ) -> None:
        node = self.number(x)
        if is_exact or not node:
            self.exact.add(node)
        judged_by = node if size is None else self.number(size)
        self.pivots.setdefault(node, (judged_by, squared, -node if apart else self._system))

    def new_system(self) -> None:
        self._system += 1
