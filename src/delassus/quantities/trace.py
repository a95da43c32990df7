"""Trace an algorithm and count its operations, in all and by phase."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from delassus.accuracy.pivots import ByPivots
from delassus.algorithms.dynamics.integrate import position_rates, tangent_rates
from delassus.algorithms.inputs import CONFIGURATIONS
from delassus.algorithms.problem import Problem
from delassus.compiler.passes.differentiate import DifferentiableTraceOps, cotangents, jacobian, tangents
from delassus.compiler.program.program import Result
from delassus.constraints import Argument, Constraint
from delassus.frozen import Frozen
from delassus.model.tree import Tree
from delassus.quantities.bound_request import elimination_order, symbolic_request
from delassus.quantities.declarations.osim import DELASSUS
from delassus.quantities.estimate import rcond_by_errors, rcond_by_pivots
from delassus.quantities.keywords import OsimMethod
from delassus.quantities.quantity import Output
from delassus.quantities.request import CONFIGURATION, Request, check_first, moving_arguments, request
from delassus.spatial.ops import Matrix, Scalar
from delassus.spatial.trace.batched_calls import CallingTraceOps
from delassus.spatial.trace.graph import Graph, OperationCount
from delassus.spatial.trace.nodes import Expression, Table
from delassus.spatial.trace.operations import Op
from delassus.spatial.trace.trace_ops import TraceOps

RCOND = Output(
    "rcond",
    (),
    "reciprocal condition: results have a relative error of about the type's epsilon over it; −1: not solved",
)


class Trace:
    """A traced algorithm.

    Attributes
    ----------
    ops : TraceOps
        What it ran on; the inputs are the arguments, each row-major.
    results : list of Result
    computed : list of list of int
        Nodes that each result needs, row by row; of a symmetric one, those of a triangle.
    by_pivots : ByPivots or None
        What pivots say of its accuracy, if they have been asked.
    """

    def __init__(self, ops: TraceOps) -> None:
        self.ops = ops
        self.results: list[Result] = []
        self.computed: list[list[int]] = []
        self.by_pivots: ByPivots | None = None

    def add(self, output: Output, shape: tuple[int, ...], matrix: Any, hidden: bool = False) -> None:
        """Add a result whose numbers are those of a matrix, row by row."""
        start = sum(map(len, self.computed))
        rows, columns = self.ops.shape(matrix)
        every = [(i, j) for i in range(rows) for j in range(columns)]
        if output.symmetric:
            entries = [max(i, j) * (max(i, j) + 1) // 2 + min(i, j) for i, j in every]
        else:
            entries = list(range(len(every)))
        self.computed.append(self.ops.nodes(matrix, lower=output.symmetric))
        self.results.append(Result(output.name, shape, tuple(start + k for k in entries), output.meaning, hidden))

    def graph(self) -> Graph:
        """Graph of the results: one group of outputs a phase, and all results last."""
        result = [node for nodes in self.computed for node in nodes]
        return self.ops.graph([*(nodes for _, nodes in self.ops.phases), result])


@dataclass(frozen=True, slots=True)
class OperationReport(Frozen):
    """Operations of one method on one robot.

    Attributes
    ----------
    clean : OperationCount
        Common subexpressions once, without what no result needs.
    phases : tuple of (str, OperationCount)
        The clean count, split: each phase has what it adds to those before it.

    Examples
    --------
    >>> import delassus as ds
    >>> report = ds.count_operations(ds.mechanisms.chain(7), ds.Point("link7"), method="pv-osim")
    >>> report.clean.total == sum(count.total for _, count in report.phases)
    True
    """

    clean: OperationCount
    phases: tuple[tuple[str, OperationCount], ...]


def trace(
    tree: Tree,
    constraints: Iterable[Constraint] | Constraint,
    algorithm: Callable[[Problem], Matrix],
    backend: type[TraceOps] = TraceOps,
) -> Trace:
    """Run an algorithm that makes one matrix on symbols; of a square one, one triangle counts."""
    traced = Trace(backend())
    matrix = algorithm(symbolic_request(request(tree, constraints, DELASSUS), traced.ops).problem())
    rows, columns = traced.ops.shape(matrix)
    traced.add(Output("result", (rows, columns), "", symmetric=rows == columns), (rows, columns), matrix)
    return traced


def trace_request(asked: Request, with_rcond: bool = True, calls: bool = False, dtype: str = "float64") -> Trace:
    """Run a quantity on symbols; its reciprocal condition, if its method divides by something, is the last result.

    ``calls``: whether what runs for several rows of operands is traced once (`Ops.map`); ``dtype``: type of the
    numbers that it is for.
    """
    is_differentiated = asked.derivative and not asked.has_formulas
    kind = DifferentiableTraceOps if is_differentiated else CallingTraceOps if calls else TraceOps
    traced = Trace(kind())
    traced.ops.epsilon = float(np.finfo(dtype).eps)
    bound = symbolic_request(asked, traced.ops)
    bound.order = elimination_order(replace(asked, error_dtype="", derivative=()))
    outputs = asked.outputs if asked.has_formulas else asked.quantity.outputs
    for output, matrix in zip(outputs, bound.results().values(), strict=True):
        traced.add(output, asked.shape_of(output), matrix)
    if traced.ops.solutions:  # derivatives that follow from equations have none
        check_first(asked.derivative[1:])
    for k in range(len(asked.derivative) if is_differentiated else 0):
        before, after = (replace(asked, derivative=asked.derivative[:end]) for end in (k, k + 1))
        if "jacobian" in after.derivative[-1].split()[0]:
            _jacobian(traced, before, after, bound.jacobian() if k == 0 else {})
        else:
            _differentiate(traced, before, after)
    rcond = None
    if with_rcond and bound.errors:
        rcond = rcond_by_errors(asked, traced.ops, bound.errors, traced.computed)
    elif with_rcond:
        traced.by_pivots = rcond_by_pivots(asked, traced.ops, traced.computed)
        rcond = None if traced.by_pivots is None else traced.by_pivots.rcond
    if bound.is_within is not None and with_rcond:
        rcond = traced.ops.select(bound.is_within, 1.0 if rcond is None else rcond, -1.0)
    if rcond is not None:
        rcond = traced.ops.select(_is_finite(traced), rcond, -1.0)
        traced.add(RCOND, (), traced.ops.matrix([[rcond]]), hidden=True)
    return traced


def _jacobian(traced: Trace, before: Request, after: Request, formulas: Mapping[str, Matrix]) -> None:
    """Replace the results of a request by their Jacobian, of which formulas may give some by name."""
    ops, nodes = traced.ops, [node for group in traced.computed for node in group]
    moving, produced = moving_arguments(after.derivative[-1], before.arguments), before.outputs
    others = [a for a in moving if f"d{produced[0].name}_d{a.name}" not in formulas]
    rows = jacobian(ops, _inputs(ops, before, others), nodes)
    in_tangents = after.derivative[-1].startswith("tangent")
    places = [a for a in others if in_tangents and a.name in CONFIGURATIONS]
    rates = {a.name: position_rates(ops, after.tree, _expressions(ops, _inputs(ops, before, [a]))) for a in places}
    results, traced.results, traced.computed = traced.results, [], []
    outputs = iter(after.outputs)
    for result, of in zip(results, produced, strict=True):
        first, to_tangent = 0, None
        if others and in_tangents and of.shape == CONFIGURATION:
            to_tangent = tangent_rates(ops, after.tree, _expressions(ops, [nodes[k] for k in result.entries]))
        for a in moving:
            output, place = next(outputs), sum(map(len, traced.computed))
            if output.name in formulas:
                change = formulas[output.name]
            else:
                table = Table(ops, [rows[k][first : first + a.size] for k in result.entries], a.size)
                first, change = first + a.size, cast(Matrix, table)
                change = change @ rates[a.name] if a.name in rates else change
                change = change if to_tangent is None else to_tangent @ change
            made = ops.nodes(change)
            entries = tuple(range(place, place + len(made)))
            traced.computed.append(made)
            traced.results.append(Result(output.name, after.shape_of(output), entries, output.meaning))


def _expressions(ops: TraceOps, nodes: Iterable[int]) -> list[Scalar]:
    return [Expression(ops, node) for node in nodes]


def _inputs(ops: TraceOps, asked: Request, arguments: Sequence[Argument]) -> list[int]:
    """Nodes of the inputs that some arguments of a request are."""
    inputs: list[int] = np.flatnonzero(ops.graph([]).op == Op.INPUT).tolist()
    ends, names = itertools.accumulate(a.size for a in asked.arguments), {a.name for a in arguments}
    parts = [(a, inputs[end - a.size : end]) for a, end in zip(asked.arguments, ends, strict=True)]
    return [node for a, part in parts if a.name in names for node in part]


def _is_finite(traced: Trace) -> Expression:
    """Whether the results are, by their sum."""
    ops, nodes = traced.ops, {node for of_result in traced.computed for node in of_result}
    for of_total, total in ops.totals:
        if nodes.issuperset(of_total):
            nodes.difference_update(of_total)
            nodes.add(total)
    whole = Expression(ops, ops.total(sorted(nodes)))
    is_finite: Expression = ops.less(ops.copysign(whole, 1.0), sys.float_info.max)
    return is_finite


def _differentiate(traced: Trace, before: Request, after: Request) -> None:
    """Replace the results of a request by those of its next derivative."""
    ops, nodes = traced.ops, [node for group in traced.computed for node in group]
    moving = moving_arguments(after.derivative[-1], before.arguments)
    inputs = _inputs(ops, before, moving)
    n_before = sum(a.size for a in before.arguments)
    given = _inputs(ops, after, after.arguments)[n_before:]  # by their place: names of tangents of tangents repeat
    entries = [result.entries for result in traced.results]
    traced.results, traced.computed = [], []
    if after.derivative[-1].startswith("jvp"):
        traced.computed.append(tangents(ops, inputs, nodes, given, in_passes=True))
    else:
        every = [nodes[k] for of_result in entries for k in of_result]
        traced.computed.append(cotangents(ops, inputs, every, given, in_passes=True))
        ends = np.cumsum([0, *(a.size for a in moving)]).tolist()
        entries = [tuple(range(*pair)) for pair in itertools.pairwise(ends)]
    for output, places in zip(after.outputs, entries, strict=True):
        traced.results.append(Result(output.name, after.shape_of(output), places, output.meaning))


def count(
    tree: Tree,
    constraints: Iterable[Constraint] | Constraint,
    algorithm: Callable[[Problem], Matrix],
    backend: type[TraceOps] = TraceOps,
) -> OperationReport:
    """Trace an algorithm and count its operations."""
    return report_of(trace(tree, constraints, algorithm, backend))


def report_of(traced: Trace) -> OperationReport:
    """Count the operations of what has been traced."""
    graph = traced.graph()
    needed = graph.reachable(graph.outputs[-1].tolist())
    left = needed.copy()
    phases = []
    for (name, _), outputs in zip(traced.ops.phases, graph.outputs, strict=False):
        added = graph.reachable(outputs.tolist(), among=left)
        left &= ~added
        phases.append((name, graph.count(added)))
    if graph.count(left).total:
        phases.append(("rest", graph.count(left)))
    return OperationReport(graph.count(needed), tuple(phases))


def count_operations(
    tree: Tree,
    constraints: Iterable[Constraint] | Constraint,
    *,
    method: OsimMethod = "pv-osimr",
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
    asked = request(tree, constraints, DELASSUS, method=method, payloads=payloads)
    return report_of(trace_request(asked, with_rcond=False))
