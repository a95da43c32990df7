"""The meaning of a graph: a NumPy interpreter that every target is compared with, operation by operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.spatial.graph import Graph, Op, arity

SEMANTICS: dict[int, Callable[..., Any]] = {
    Op.ADD: np.add,
    Op.SUBTRACT: np.subtract,
    Op.MULTIPLY: np.multiply,
    Op.DIVIDE: np.divide,
    Op.NEGATE: np.negative,
    Op.SQRT: np.sqrt,
    Op.SIN: np.sin,
    Op.COS: np.cos,
    Op.ATAN2: np.arctan2,
    Op.FABS: np.abs,
    Op.COPYSIGN: np.copysign,
    Op.MIN: np.fmin,
    Op.MAX: np.fmax,
    Op.LESS: lambda a, b: (a < b).astype(a.dtype),
    Op.LESS_EQUAL: lambda a, b: (a <= b).astype(a.dtype),
    Op.EQUAL: lambda a, b: (a == b).astype(a.dtype),
    Op.NOT_EQUAL: lambda a, b: (a != b).astype(a.dtype),
    Op.NOT: lambda a: (a == 0).astype(a.dtype),
    Op.AND: lambda a, b: ((a != 0) & (b != 0)).astype(a.dtype),
    Op.OR: lambda a, b: ((a != 0) | (b != 0)).astype(a.dtype),
    Op.SELECT: lambda condition, a, b: np.where(condition != 0, a, b),
}
"""What each operation means, on arrays of float64 or float32. A minimum or maximum ignores a NaN; a comparison with
a NaN is 0.0 (`NOT_EQUAL`: 1.0), and a NaN counts as true. Which of two zeros is the minimum or maximum, and what sign
and payload a NaN has, is left open."""


def interpret(graph: Graph, x: NDArray[Any]) -> list[NDArray[Any]]:
    """Run a graph on floating-point inputs (..., n_inputs); returns one array (..., k) for each group of outputs."""
    assert np.issubdtype(x.dtype, np.floating), x.dtype
    op, operands = graph.op.tolist(), (graph.a.tolist(), graph.b.tolist(), graph.c.tolist())
    dtype = x.dtype
    values: list[Any] = []
    with np.errstate(all="ignore"):
        for k, kind in enumerate(op):
            if kind == Op.INPUT:
                values.append(x[..., operands[0][k]])
            elif kind == Op.CONSTANT:
                values.append(np.full(x.shape[:-1], graph.value[k], dtype=dtype))
            else:
                values.append(SEMANTICS[kind](*(values[operands[i][k]] for i in range(arity(kind)))))
    shape = x.shape[:-1]
    return [
        np.stack([values[k] for k in group], axis=-1) if len(group) else np.zeros((*shape, 0), dtype=dtype)
        for group in graph.outputs
    ]
