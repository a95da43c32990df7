"""Trace an algorithm and count its operations, in all and by phase."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from delassus.algorithms.problem import Problem
from delassus.compiler.passes import dead_code
from delassus.constraints import Constraint
from delassus.model.tree import Tree
from delassus.quantities.case import symbolic_case
from delassus.quantities.osim import DELASSUS
from delassus.quantities.request import Request, request
from delassus.spatial.graph import Graph, OperationCount
from delassus.spatial.ops import Matrix
from delassus.spatial.trace_ops import TraceOps


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """Something that an algorithm returns.

    Attributes
    ----------
    name : str
        C identifier.
    matrix : Table
        Its numbers, so that row by row they are those of an array of the ``shape``.
    shape : tuple of int
    meaning : str
        Units and layout, for people.
    symmetric : bool
        Whether one triangle is computed and mirrored.
    hidden : bool
        Whether kernels keep it to themselves.
    """

    name: str
    matrix: Any
    shape: tuple[int, ...]
    meaning: str = ""
    symmetric: bool = False
    hidden: bool = False

    def computed(self) -> list[int]:
        """Nodes that have to be computed: one triangle if it is symmetric, else all, row by row."""
        nodes: list[int] = self.matrix.nodes(lower=self.symmetric)
        return nodes

    def entries(self) -> list[int]:
        """For each element, row by row, its position in `computed`."""
        rows, columns = self.matrix.shape
        if not self.symmetric:
            return list(range(rows * columns))
        return [max(i, j) * (max(i, j) + 1) // 2 + min(i, j) for i in range(rows) for j in range(columns)]


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A traced algorithm.

    Attributes
    ----------
    ops : TraceOps
        Machine that it ran on; its inputs are the arguments, each row-major.
    outputs : tuple of Output
        What the algorithm returns.
    """

    ops: TraceOps
    outputs: tuple[Output, ...]

    def graph(self) -> Graph:
        """Graph of the outputs: one group of outputs a phase, and all that the algorithm returns last."""
        result = [node for output in self.outputs for node in output.computed()]
        return self.ops.graph([*(nodes for _, nodes in self.ops.phases), result])

    def kernel_graph(self) -> Graph:
        """Graph of the outputs alone, one group each."""
        return self.ops.graph([output.computed() for output in self.outputs])


@dataclass(frozen=True, slots=True)
class OperationReport:
    """Operations of one method on one robot.

    Attributes
    ----------
    clean : OperationCount
        Common subexpressions once, without what no result needs.
    phases : tuple of (str, OperationCount)
        The clean count, split: each phase has what it adds to those before it.
    """

    clean: OperationCount
    phases: tuple[tuple[str, OperationCount], ...]


def trace(
    tree: Tree,
    constraints: Iterable[Constraint] | Constraint,
    algorithm: Callable[[Problem], Matrix],
    machine: type[TraceOps] = TraceOps,
    payloads: Sequence[str] = (),
) -> Trace:
    """Run an algorithm that makes one matrix on the symbols of a machine; of a square one, one triangle counts."""
    ops = machine()
    case = symbolic_case(request(tree, constraints, DELASSUS, payloads=payloads), ops)
    matrix = algorithm(case.problem())
    rows, columns = ops.shape(matrix)
    return Trace(ops, (Output("result", matrix, (rows, columns), symmetric=rows == columns),))


def trace_request(asked: Request) -> Trace:
    """Run a quantity on symbols; its smallest pivot, if its method has pivots to judge by, is a hidden output."""
    ops = TraceOps()
    case = symbolic_case(asked, ops)
    outputs = [
        Output(declared.name, matrix, asked.shape_of(declared), declared.meaning, declared.symmetric)
        for declared, matrix in zip(asked.quantity.outputs, asked.quantity.run(case), strict=True)
    ]
    if case.pivots:
        smallest = ops.matrix([[reduce(ops.minimum, case.pivots)]])
        outputs.append(
            Output("pivot", smallest, (), "smallest relative pivot: near zero, rows are dependent", hidden=True)
        )
    return Trace(ops, tuple(outputs))


def count(
    tree: Tree,
    constraints: Iterable[Constraint] | Constraint,
    algorithm: Callable[[Problem], Matrix],
    machine: type[TraceOps] = TraceOps,
    payloads: Sequence[str] = (),
) -> OperationReport:
    """Trace an algorithm and count its operations."""
    return report_of(trace(tree, constraints, algorithm, machine, payloads))


def report_of(traced: Trace) -> OperationReport:
    """Count the operations of what has been traced."""
    tidy = dead_code(traced.graph())
    needed = tidy.reachable(tidy.outputs[-1].tolist())
    left = needed.copy()
    phases = []
    for (name, _), outputs in zip(traced.ops.phases, tidy.outputs, strict=False):
        added = tidy.reachable(outputs.tolist(), among=left)
        left &= ~added
        phases.append((name, tidy.count(added)))
    if left.any() and tidy.count(left).total:
        phases.append(("rest", tidy.count(left)))
    return OperationReport(tidy.count(needed), tuple(phases))


def count_operations(
    tree: Tree,
    constraints: Iterable[Constraint] | Constraint,
    *,
    method: str = "pv-osimr",
    payloads: Iterable[str] = (),
) -> OperationReport:
    """Count the operations that a method needs for the Delassus matrix of one state (one triangle of it).

    Parameters
    ----------
    tree : Tree
    constraints : Constraint or iterable of Constraint
    method : str
        One of ``OSIM_METHODS``.
    payloads : iterable of str
        Links whose inertia gets an addition with each call; see `compile`.

    Returns
    -------
    OperationReport
        By kind, and by phase.

    Raises
    ------
    ConstraintError, UnknownNameError
        A constraint that the tree does not have, or a method that does not exist.

    Examples
    --------
    >>> import delassus as ds
    >>> robot, feet = ds.mechanisms.humanoid(), [ds.Weld("left_foot"), ds.Weld("right_foot")]
    >>> report = ds.count_operations(robot, feet, method="pv-osim")
    >>> report.clean.total < ds.count_operations(robot, feet, method="dense").clean.total
    True
    """
    return report_of(trace_request(request(tree, constraints, DELASSUS, method=method, payloads=payloads)))
