"""A program as a CasADi function: for optimisation problems that want derivatives of it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from delassus.algorithms.inputs import Argument
from delassus.compiler.program import Program, Result
from delassus.errors import missing_dependency
from delassus.spatial.graph import Op, arity

_OPERATORS: dict[int, Callable[..., Any]] = {
    Op.ADD: operator.add,
    Op.SUBTRACT: operator.sub,
    Op.MULTIPLY: operator.mul,
    Op.DIVIDE: operator.truediv,
    Op.NEGATE: operator.neg,
}
_FUNCTIONS = {
    Op.MIN: "fmin",
    Op.MAX: "fmax",
    Op.LESS: "lt",
    Op.LESS_EQUAL: "le",
    Op.EQUAL: "eq",
    Op.NOT_EQUAL: "ne",
    Op.NOT: "logic_not",
    Op.AND: "logic_and",
    Op.OR: "logic_or",
    Op.SELECT: "if_else",
}
"""CasADi's functions whose names are not those of the operations."""


def casadi_function(program: Program) -> Any:
    """Rebuild a program in CasADi's ``SX``, node by node.

    CasADi simplifies while it builds and adds the two branches of a selection, so that signed zeros, and NaN in
    ``x − x`` and the like, are not kept as the interpreter keeps them.

    Parameters
    ----------
    program : Program

    Returns
    -------
    casadi.Function
        Inputs and outputs by the names of the program's arguments and results. A shape (n,) is a column; of more than
        two axes, all but the first are one, row-major.

    Raises
    ------
    MissingDependencyError
        CasADi is not installed.
    """
    try:
        import casadi as ca
    except ImportError as error:
        raise missing_dependency("casadi", "casadi", "a CasADi function") from error
    functions = {int(op): getattr(ca, _FUNCTIONS.get(op, op.name.lower())) for op in Op if op >= Op.SQRT}
    operations = _OPERATORS | functions
    arguments = [ca.SX.sym(a.name, *_matrix_shape(a)) for a in program.arguments]
    inputs = [x for argument in arguments for x in argument.T.elements()]  # CasADi counts along columns
    graph = program.graph
    values: list[Any] = []
    rows = (graph.op.tolist(), graph.a.tolist(), graph.b.tolist(), graph.c.tolist(), graph.value.tolist())
    for kind, a, b, c, value in zip(*rows, strict=True):
        if kind == Op.INPUT:
            values.append(inputs[a])
        elif kind == Op.CONSTANT:
            values.append(ca.SX(value))
        else:
            values.append(operations[kind](*(values[x] for x in (a, b, c)[: arity(kind)])))
    flat = [values[k] for group in graph.outputs for k in group.tolist()]
    results = []
    for result in program.results:
        n_rows, n_columns = _matrix_shape(result)
        column = ca.vertcat(*(flat[entry] for entry in result.entries)) if result.entries else ca.SX(0, 1)
        results.append(ca.densify(ca.reshape(column, n_columns, n_rows).T))
    names = [a.name for a in program.arguments], [r.name for r in program.results]
    return ca.Function(program.name, arguments, results, *names)


def _matrix_shape(array: Argument | Result) -> tuple[int, int]:
    if not array.shape:
        return 1, 1
    n_rows = array.shape[0]
    return n_rows, 1 if len(array.shape) == 1 else array.size // n_rows if n_rows else 0
