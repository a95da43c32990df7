"""Trace an algorithm on CasADi symbols and count its operations, in all and by phase."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from delassus.algorithms.evaluate import find_method
from delassus.algorithms.problem import Problem
from delassus.compiler.graph import Graph, OperationCount, graph_of
from delassus.compiler.passes import clean
from delassus.constraints import Constraint, check_constraints
from delassus.model.tree import Tree
from delassus.spatial.casadi_ops import CasadiOps
from delassus.spatial.ops import Matrix


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A traced algorithm.

    Attributes
    ----------
    inputs : list of SX
        ``q``, then the rows of each constraint whose rows come at call time, row-major.
    result : SX
        What the algorithm returns.
    phases : list of (str, SX)
        What each phase computes, in order, as column vectors.
    """

    inputs: list[Any]
    result: Any
    phases: list[tuple[str, Any]]

    def graph(self) -> Graph:
        """Graph of one triangle of the result; one group of outputs a phase, and the result last."""
        return graph_of(self.inputs, [*(values for _, values in self.phases), _lower_triangle(self.result)])

    def kernel_graph(self, symmetric: bool) -> Graph:
        """Graph of the result alone: one triangle row by row if it is symmetric, else all of it, row-major."""
        values = _lower_triangle(self.result) if symmetric else ca.vec(ca.densify(self.result).T)
        return graph_of(self.inputs, [values])


@dataclass(frozen=True, slots=True)
class OperationReport:
    """Operations of one method on one robot.

    Attributes
    ----------
    raw : OperationCount
        Of the graph as traced.
    clean : OperationCount
        After common-subexpression elimination.
    phases : tuple of (str, OperationCount)
        The clean count, split: each phase has what it adds to those before it.
    """

    raw: OperationCount
    clean: OperationCount
    phases: tuple[tuple[str, OperationCount], ...]


def trace(
    tree: Tree,
    constraints: Iterable[Constraint] | Constraint,
    algorithm: Callable[[Problem], Matrix],
    machine: type[CasadiOps] = CasadiOps,
) -> Trace:
    """Run an algorithm on the symbols of a machine."""
    checked = check_constraints(tree, constraints)
    ops = machine()
    q = ca.SX.sym("q", tree.nq)
    rows = [ca.SX.sym(f"K{i}", 6 * c.size) for i, c in enumerate(checked) if c.rows is None]  # row-major
    given = [ca.reshape(K, 6, K.numel() // 6).T for K in rows]
    result = algorithm(Problem(ops, tree, checked, q, given))
    phases = [(name, ca.vertcat(*(ca.vec(v) for v in values))) for name, values in ops.phases]
    return Trace([q, *rows], result, phases)


def count(
    tree: Tree,
    constraints: Iterable[Constraint] | Constraint,
    algorithm: Callable[[Problem], Matrix],
    machine: type[CasadiOps] = CasadiOps,
) -> OperationReport:
    """Trace an algorithm and count its operations."""
    traced = trace(tree, constraints, algorithm, machine)
    raw = traced.graph()
    tidy = clean(raw)
    needed = tidy.reachable(tidy.outputs[-1].tolist())
    left = needed.copy()
    phases = []
    for (name, _), outputs in zip(traced.phases, tidy.outputs, strict=False):
        added = tidy.reachable(outputs.tolist(), among=left)
        left &= ~added
        phases.append((name, tidy.count(added)))
    if left.any() and tidy.count(left).total:
        phases.append(("rest", tidy.count(left)))
    return OperationReport(raw.count(raw.reachable(raw.outputs[-1].tolist())), tidy.count(needed), tuple(phases))


def count_operations(
    tree: Tree, constraints: Iterable[Constraint] | Constraint, *, method: str = "pv-osimr"
) -> OperationReport:
    """Count the operations that a method needs for the Delassus matrix of one state (one triangle of it).

    Parameters
    ----------
    tree : Tree
    constraints : Constraint or iterable of Constraint
    method : str
        One of ``OSIM_METHODS``.

    Returns
    -------
    OperationReport
        By kind, as traced and after common-subexpression elimination, and by phase.

    Raises
    ------
    ConstraintError, UnknownNameError
        A constraint or the method makes no sense.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(7)
    >>> report = ds.count_operations(arm, ds.Weld("link7"), method="pv-osim")
    >>> report.clean.total < report.raw.total + 1
    True
    """
    return count(tree, constraints, find_method(method))


def _lower_triangle(a: Any) -> Any:
    rows, columns = a.shape
    if rows != columns:
        return ca.vec(ca.densify(a))
    i, j = np.tril_indices(rows)
    return ca.densify(a)[(i + j * rows).tolist()] if rows else ca.SX(0, 1)
