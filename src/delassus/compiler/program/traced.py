"""What has been traced, run at once: a program that nobody keeps on disk."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import accumulate, chain

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.evaluator import Evaluated, laid_out
from delassus.compiler.machine.background import one_at_a_time
from delassus.compiler.passes.simplify import optimise
from delassus.compiler.program.program import Program, Result
from delassus.compiler.program.stages import cut
from delassus.constraints import Argument
from delassus.spatial.trace.graph import undisturbed
from delassus.spatial.trace.trace_ops import TraceOps

_span_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Traced:
    """Function from inputs (k, n) to an array (k, m) for each group of nodes ``outputs``, by the evaluator."""

    @undisturbed
    def __init__(self, ops: TraceOps, outputs: Sequence[Sequence[int]], n: int) -> None:
        self._ends = [*accumulate(map(len, outputs))]
        self._sizes, nodes = (n, self._ends[-1]), [*chain.from_iterable(outputs)]
        before, graph = cut(ops.graph([nodes]), ops.loops, n, optimise)
        given, made = (Argument("x", (n,), ""),), (Result("y", (len(nodes),), tuple(range(len(nodes)))),)
        program = Program("traced", graph, given, made, before=before)
        with one_at_a_time():
            self._evaluated = Evaluated(laid_out(program), self._sizes, 1, "float64")

    def __call__(self, x: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Values at inputs (k, n)."""
        given, found = np.ascontiguousarray(x, dtype=float), np.empty((len(x), self._sizes[1]))
        assert given.shape == (len(x), self._sizes[0]), given.shape
        if len(x):
            places = (ctypes.c_int64 * 2)(given.ctypes.data, found.ctypes.data)
            _span_type(self._evaluated.address("span"))(places, 0, len(x))
        return np.split(found, self._ends[:-1], axis=1)
