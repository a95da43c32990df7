"""A program as a CasADi function: for optimisation problems that want derivatives of it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from delassus.compiler.program.program import Program, Result
from delassus.constraints import Argument
from delassus.errors import require
from delassus.spatial.trace.interpret import evaluate
from delassus.spatial.trace.operations import NUMBERS, OPERATIONS, Op

_OPTIONS = {"allow_duplicate_io_names": True}
"""Some quantities return what they take, such as joint forces within limits."""


def casadi_function(program: Program, jacobian: Program | None = None) -> Any:
    """Rebuild a program in CasADi's ``SX``, node by node.

    CasADi simplifies while it builds: signed zeros, and NaN in ``x − x`` and the like, are not kept.

    Parameters
    ----------
    program : Program
    jacobian : Program, optional
        Its Jacobian, as ``derivative("jacobian")`` makes it.

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
    require("casadi", "casadi", "a CasADi function")
    import casadi as ca

    options: dict[str, Any] = dict(_OPTIONS)
    if jacobian is not None:
        options |= {"custom_jacobian": _jacobian_function(program, jacobian), "jac_penalty": 0}
    arguments, flat = _symbols(ca, program)
    results = []
    for result in program.results:
        column = ca.vertcat(*(flat[result.entries[k]] for k in column_major(result)))
        results.append(ca.densify(ca.reshape(column, *matrix_shape(result))))
    names = [a.name for a in program.arguments], [r.name for r in program.results]
    return ca.Function(program.name, arguments, results, *names, options)


def _jacobian_function(program: Program, jacobian: Program) -> Any:
    """Function that CasADi takes for the Jacobian of a program."""
    import casadi as ca

    arguments, flat = _symbols(ca, jacobian)
    blocks = jacobian_blocks(program, jacobian)
    results = [
        ca.SX(ca.Sparsity(*b.shape, list(b.starts), list(b.rows)), ca.vertcat(*(flat[k] for k in b.entries)))
        for b in blocks
    ]
    outs = [ca.SX(*matrix_shape(r)) for r in program.results]  # a sparsity without entries: they are not needed
    ins = [*(a.name for a in program.arguments), *(f"out_{r.name}" for r in program.results)]
    return ca.Function(f"jac_{program.name}", [*arguments, *outs], results, ins, [b.name for b in blocks], _OPTIONS)


def _symbols(ca: Any, program: Program) -> tuple[list[Any], list[Any]]:
    """Symbols of the arguments of a program, and all outputs of its graph of them."""
    operations = {op: getattr(ca, o.casadi) if o.casadi else NUMBERS[op] for op, o in OPERATIONS.items()}
    arguments = [ca.SX.sym(a.name, *matrix_shape(a)) for a in program.arguments]
    inputs: list[Any] = [x for argument in arguments for x in argument.T.elements()]  # CasADi counts along columns
    inputs += [ca.SX(0)] * program.n_values
    for stage in program.before:
        for operands, targets in stage.runs(len(inputs)):  # values of loops that have stopped stay as they are
            values = evaluate(stage.graph, [inputs[k] for k in operands], ca.SX, operations)
            made = [values[k] for k in stage.graph.flat_outputs()]
            for target, value in zip(targets, made, strict=True):
                inputs[target] = value
    values = evaluate(program.graph, inputs, ca.SX, operations)
    return arguments, [values[k] for k in program.graph.flat_outputs()]


# -- layout: CasADi counts along columns, and leaves out zeros -------------------------------------------------------


def matrix_shape(array: Argument | Result) -> tuple[int, int]:
    """Rows and columns that an array has in CasADi."""
    if not array.shape:
        return 1, 1
    n_rows = array.shape[0]
    return n_rows, 1 if len(array.shape) == 1 else array.size // n_rows if n_rows else 0


def column_major(array: Argument | Result) -> list[int]:
    """Row-major positions of the numbers of an array, in CasADi's order."""
    order: list[int] = np.arange(array.size).reshape(matrix_shape(array)).T.ravel().tolist()
    return order


@dataclass(frozen=True, slots=True)
class DerivativeBlock:
    """Derivatives of a result with an argument, those that are not zero at all states, column by column.

    Attributes
    ----------
    name : str
        As CasADi has it.
    shape : (int, int)
        Numbers of the result and of the argument, each in CasADi's order.
    starts, rows : tuple of int
        Where each column begins among the entries, and the row of each.
    entries : tuple of int
        Outputs of the Jacobian's graph.
    """

    name: str
    shape: tuple[int, int]
    starts: tuple[int, ...]
    rows: tuple[int, ...]
    entries: tuple[int, ...]


def jacobian_blocks(program: Program, jacobian: Program) -> list[DerivativeBlock]:
    """Blocks of the Jacobian of a program, by result and then by argument."""
    graph, blocks = jacobian.graph, []
    flat = np.array(graph.flat_outputs(), dtype=np.int64)
    is_zero = (graph.op[flat] == Op.CONSTANT) & (graph.value[flat] == 0.0)
    for made, (result, argument) in zip(jacobian.results, product(program.results, program.arguments), strict=True):
        table = np.reshape(np.array(made.entries, dtype=np.int64), (result.size, argument.size))
        table = table[column_major(result)][:, column_major(argument)]
        columns, rows = np.nonzero(~is_zero[table].T)
        starts = np.searchsorted(columns, np.arange(argument.size + 1)).tolist()
        entries = table[rows, columns].tolist()
        name = f"jac_{result.name}_{argument.name}"
        blocks.append(DerivativeBlock(name, table.shape, tuple(starts), tuple(rows.tolist()), tuple(entries)))
    return blocks
