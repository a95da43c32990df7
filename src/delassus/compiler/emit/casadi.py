"""A program as a CasADi function: for optimisation problems that want derivatives of it."""

from __future__ import annotations

from typing import Any

from delassus.algorithms.inputs import Argument
from delassus.compiler.program import Program, Result
from delassus.errors import missing_dependency
from delassus.spatial.graph import Op
from delassus.spatial.interpret import evaluate

_FUNCTIONS = {
    Op.ADD: "plus",
    Op.SUBTRACT: "minus",
    Op.MULTIPLY: "times",
    Op.DIVIDE: "rdivide",
    Op.SQRT: "sqrt",
    Op.SIN: "sin",
    Op.COS: "cos",
    Op.COPYSIGN: "copysign",
    Op.MIN: "fmin",
    Op.MAX: "fmax",
    Op.LESS: "lt",
    Op.SELECT: "if_else",
}
"""CasADi's functions; it has none for a negation."""


def casadi_function(program: Program, jacobian: Program | None = None) -> Any:
    """Rebuild a program in CasADi's ``SX``, node by node.

    CasADi simplifies while it builds: signed zeros, and NaN in ``x − x`` and the like, are not kept.

    Parameters
    ----------
    program : Program
    jacobian : Program, optional
        Its results, the first result's changes with each argument, then the second's and so on, are the Jacobian.

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
    options = {} if jacobian is None else {"custom_jacobian": _jacobian_function(program, jacobian), "jac_penalty": 0}
    arguments, results = _symbols(ca, program)
    names = [a.name for a in program.arguments], [r.name for r in program.results]
    return ca.Function(program.name, arguments, results, *names, options)


def _jacobian_function(program: Program, jacobian: Program) -> Any:
    """Function that CasADi takes for the Jacobian of a program: of its arguments and results, blocks by their names."""
    import casadi as ca

    arguments, blocks = _symbols(ca, jacobian)
    outs = [ca.SX(r.size, 1) for r in program.results]  # a sparsity without entries: they are not needed
    ins = [*(a.name for a in program.arguments), *(f"out_{r.name}" for r in program.results)]
    names = [f"jac_{r.name}_{a.name}" for r in program.results for a in program.arguments]
    return ca.Function(f"jac_{program.name}", [*arguments, *outs], blocks, ins, names)


def _symbols(ca: Any, program: Program) -> tuple[list[Any], list[Any]]:
    """Symbols of the arguments of a program, and its results of them."""
    operations = {int(op): getattr(ca, name) for op, name in _FUNCTIONS.items()} | {int(Op.NEGATE): lambda x: -x}
    arguments = [ca.SX.sym(a.name, *_matrix_shape(a)) for a in program.arguments]
    inputs: list[Any] = [x for argument in arguments for x in argument.T.elements()]  # CasADi counts along columns
    inputs += [ca.SX(0)] * program.n_values
    for stage in program.before:
        for _ in range(max(1, stage.times)):  # values that have stopped stay as they are
            values = evaluate(stage.graph, inputs, ca.SX, operations)
            made = [values[k] for k in stage.graph.flat_outputs()]
            for target, value in zip(stage.targets, made, strict=True):
                inputs[target] = value
    values = evaluate(program.graph, inputs, ca.SX, operations)
    flat = [values[k] for k in program.graph.flat_outputs()]
    results = []
    for result in program.results:
        n_rows, n_columns = _matrix_shape(result)
        column = ca.vertcat(*(flat[entry] for entry in result.entries)) if result.entries else ca.SX(0, 1)
        results.append(ca.densify(ca.reshape(column, n_columns, n_rows).T))
    return arguments, results


def _matrix_shape(array: Argument | Result) -> tuple[int, int]:
    if not array.shape:
        return 1, 1
    n_rows = array.shape[0]
    return n_rows, 1 if len(array.shape) == 1 else array.size // n_rows if n_rows else 0
