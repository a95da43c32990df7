"""From a robot, constraints and what is wanted of them to a `Program`: trace, optimise, schedule."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

from delassus.algorithms.crba import mass_matrix
from delassus.algorithms.evaluate import find_method
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.problem import Problem
from delassus.compiler.passes import optimise
from delassus.compiler.program import Argument, Program, Result
from delassus.compiler.schedule import schedule
from delassus.compiler.trace import trace
from delassus.constraints import Constraint
from delassus.errors import unknown_name
from delassus.model.tree import Tree
from delassus.spatial.ops import Matrix

Algorithm = Callable[[Problem], Matrix]


@dataclass(frozen=True, slots=True)
class Task:
    """Something that can be compiled.

    Attributes
    ----------
    algorithm : callable
        From the method's name to an algorithm.
    result : str
        Name of the result.
    symmetric : bool
        Whether one triangle is computed and mirrored.
    meaning : str
        What the result is, with units.
    """

    algorithm: Callable[[str], Algorithm]
    result: str
    symmetric: bool
    meaning: str


def _inverse(method: str) -> Algorithm:
    algorithm = find_method(method)

    def run(problem: Problem) -> Matrix:
        return problem.ops.factor(algorithm(problem)).inverse()

    return run


TASKS: Mapping[str, Task] = MappingProxyType(
    {
        "delassus": Task(
            find_method, "G", True, "Delassus matrix J M^-1 J', accelerations per unit of constraint force"
        ),
        "osim": Task(_inverse, "Lambda", True, "operational-space inertia matrix (J M^-1 J')^-1"),
        "mass_matrix": Task(lambda _: mass_matrix, "M", True, "joint-space mass matrix"),
        "jacobian": Task(lambda _: jacobian, "J", False, "constraint Jacobian, velocities along the rows"),
    }
)
"""What ``compile`` accepts, by name."""


def find_task(what: str) -> Task:
    """Task of that name, or `UnknownNameError` with the nearest match."""
    try:
        return TASKS[what]
    except (KeyError, TypeError):
        raise unknown_name("what to compile", what, TASKS) from None


def make_program(tree: Tree, constraints: Sequence[Constraint], what: str, method: str) -> Program:
    """Trace what is wanted, optimise and schedule its graph."""
    task = find_task(what)
    traced = trace(tree, constraints, task.algorithm(method))
    graph = schedule(optimise(traced.kernel_graph(task.symmetric)))
    rows, columns = traced.result.shape
    if task.symmetric:
        entries = [max(i, j) * (max(i, j) + 1) // 2 + min(i, j) for i in range(rows) for j in range(columns)]
    else:
        entries = list(range(rows * columns))
    name = re.sub(r"\W+", "_", f"{tree.name}_{what}").strip("_") or what
    count = graph.count()
    comment = (
        f"{task.meaning}.",
        f"Robot: {tree.name}, nq = {tree.nq}, nv = {tree.nv}, fingerprint {tree.fingerprint}.",
        f"Constraints: {', '.join(map(repr, constraints)) or 'none'}.",
        f"Method: {method}, {count.total} operations.",
        f"Made by delassus {version('delassus')} with CasADi {version('casadi')}.",
    )
    return Program(
        name=name if not name[0].isdigit() else f"robot_{name}",
        graph=graph,
        arguments=tuple(_arguments(tree, constraints)),
        results=(Result(task.result, (rows, columns), tuple(entries), task.meaning),),
        comment=comment,
    )


def _arguments(tree: Tree, constraints: Sequence[Constraint]) -> list[Argument]:
    layout = "configuration: angles in rad, lengths in m, quaternions x y z w"
    out = [Argument("q", (tree.nq,), layout)]
    for i, c in enumerate(constraints):
        if c.rows is None:
            out.append(Argument(f"K{i}", (c.size, 6), f"rows of constraint {i} on {c.first.link}, [linear; angular]"))
    return out


def describe(value: Any) -> str:
    """Unambiguous text of a constraint, for keys of caches."""
    parts = [type(value).__name__, value.axes, value.angular_axes, value.size, value.rigid]
    for frame in (value.first, value.second):
        parts.append(None if frame is None else (frame.link, frame.position.tolist(), frame.rotation.tolist()))
    parts.append(None if value.rows is None else value.rows.tolist())
    return repr(parts)
