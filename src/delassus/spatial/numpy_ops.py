"""`Ops` on NumPy arrays (..., rows, columns): the reference; runs at once, batched over leading axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from delassus.spatial.factor import CholeskyFactor, Factor
from delassus.spatial.ops import Body, Matrix, Ops, Scalar
from delassus.spatial.rigid import DenseRigidInertia
from delassus.spatial.transform import DenseTransform, Displacement

Answer = tuple[str, tuple[int, int], Any]
"""A question about structure (`Ops.nonzero`, `Ops.rank`, `Ops.known`), the shape of the matrix, and the answer."""


class NumpyOps(Ops):
    """The NumPy backend.

    Parameters
    ----------
    dtype : dtype-like
        Type of the numbers; ``object`` runs the same text on any number type (such as ``mpmath.mpf``), for which
        a subclass overrides `cos`, `sin` and `sqrt`.
    structure : callable, optional
        Gives the answers of a trace of the algorithm that is to run, in order, in parts that `new_questions` begins.
        Numbers answer no question about structure, so that the same steps are taken at all states, in all batches and
        as in the trace.

    Attributes
    ----------
    asked : (int, int)
        How many parts of the questions are over, and how many of this one have been answered. Set back, they are asked
        again: of the same system at rest, say.
    """

    def __init__(self, dtype: Any = float, structure: Callable[[], Sequence[Sequence[Answer]]] | None = None) -> None:
        self.dtype = np.dtype(dtype)
        self._structure = structure
        self._answers: Sequence[Sequence[Answer]] | None = None
        self.asked = 0, 0

    def constant(self, value: Any) -> Any:
        return np.asarray(value).astype(self.dtype)

    def entry(self, vector: Any, index: int) -> Any:
        return vector[..., index]

    def state_vector(self, entries: Sequence[Any]) -> Any:
        return np.stack(np.broadcast_arrays(*entries), axis=-1) if len(entries) else np.zeros(0)

    def entries(self, a: Any) -> list[list[Any]]:
        return [[a[..., i, j] for j in range(a.shape[-1])] for i in range(a.shape[-2])]

    def matrix(self, rows: Sequence[Sequence[Any]]) -> Any:
        batches = {getattr(x, "shape", ()) for row in rows for x in row} - {()}
        if not batches and self.dtype != object:
            return np.array(rows, dtype=self.dtype)
        batch = np.broadcast_shapes(*batches) if len(batches) > 1 else next(iter(batches), ())
        out = np.zeros((*batch, len(rows), len(rows[0])), dtype=self.dtype)
        for i, row in enumerate(rows):
            for j, x in enumerate(row):
                out[..., i, j] = x
        return out

    def take(self, a: Any, rows: Sequence[int] | None = None, columns: Sequence[int] | None = None) -> Any:
        if rows is not None:
            a = a.take(np.asarray(rows, dtype=int), axis=-2)
        return a if columns is None else a.take(np.asarray(columns, dtype=int), axis=-1)

    def put(self, a: Any, shape: tuple[int, int], rows: Sequence[int], columns: Sequence[int]) -> Any:
        out = np.zeros((*a.shape[:-2], *shape), dtype=self.dtype)
        out[..., np.asarray(rows, dtype=int)[:, None], np.asarray(columns, dtype=int)] = a
        return out

    def shape(self, a: Any) -> tuple[int, int]:
        return int(a.shape[-2]), int(a.shape[-1])

    def nonzero(self, a: Any) -> Any:
        return self._answer("nonzero", a)

    def rank(self, a: Any, least: float = 0.0) -> int:
        return int(self._answer("rank", a))

    def known(self, a: Any) -> Any:
        return self._answer("known", a)

    def new_questions(self) -> None:
        self.asked = self.asked[0] + 1, 0

    def _answer(self, question: str, a: Any) -> Any:
        if self._answers is None:
            assert self._structure is not None, "structure is asked for where no trace can tell it"
            self._answers = self._structure()
        part, k = self.asked
        answers = self._answers[part] if part < len(self._answers) else ()
        asked, shape, answer = answers[k] if k < len(answers) else ("nothing", (0, 0), None)
        here, self.asked = self.shape(a), (part, k + 1)
        assert (asked, shape) == (question, here), f"{question} of {here} is asked, in the trace {asked} of {shape}"
        return answer

    def transpose(self, a: Any) -> Any:
        return np.swapaxes(a, -1, -2)

    def vstack(self, parts: Sequence[Any]) -> Any:
        if len(parts) == 1:
            return parts[0]
        batches = {p.shape[:-2] for p in parts}
        if len(batches) > 1:
            batch = np.broadcast_shapes(*batches)
            parts = [np.broadcast_to(p, (*batch, *p.shape[-2:])) for p in parts]
        return np.concatenate(parts, axis=-2)

    def cos(self, x: Any) -> Any:
        return np.cos(x)

    def sin(self, x: Any) -> Any:
        return np.sin(x)

    def sqrt(self, x: Any) -> Any:
        return np.sqrt(x)

    def copysign(self, x: Any, y: Any) -> Any:
        if self.dtype != object:
            return np.copysign(x, y)
        return np.where(np.asarray(y) < 0, -abs(x), abs(x))  # not a number where x is not

    def minimum(self, x: Any, y: Any) -> Any:
        return np.minimum(x, y)

    def maximum(self, x: Any, y: Any) -> Any:
        return np.maximum(x, y)

    def absolute(self, a: Any) -> Any:
        return np.abs(a)

    def less(self, x: Any, y: Any) -> Any:
        return np.less(x, y) * 1.0

    def select(self, condition: Any, x: Any, y: Any) -> Any:
        return np.where(condition, x, y)

    def repeat(self, times: int, start: Sequence[Any], body: Body, unless: Any = 0.0) -> list[Any]:
        values, stopped = list(start), np.asarray(numbers(unless))
        for _ in range(times):
            if np.all(stopped):
                break
            following, stop = body(values)
            values = [self.select(stopped, old, new) for old, new in zip(values, following, strict=True)]
            stopped = np.maximum(stopped, numbers(stop))
        return values

    def transform(self, displacement: Displacement) -> DenseTransform:
        return DenseTransform(self, displacement)

    def factor(self, D: Any, is_judged: bool = True) -> Factor | CholeskyFactor:
        return CholeskyFactor(D) if D.shape[-1] > 1 and self.dtype != object else Factor(self, D, is_judged)

    def rigid_inertia(self, H: Any) -> DenseRigidInertia:
        return DenseRigidInertia(self, H)


NUMPY = NumpyOps()
"""For what asks nothing about structure."""


def unstacked(vector: Any) -> list[Any]:
    """Entries of vectors (..., n): n numbers or arrays (...)."""
    return [*vector.transpose(vector.ndim - 1, *range(vector.ndim - 1))]


def stacked(entries: Sequence[Any], batch: tuple[int, ...]) -> Any:
    """Vectors (*batch, n) of n scalars, each a number or an array of that batch."""
    out = np.empty((*batch, len(entries)))
    for k, x in enumerate(entries):
        out[..., k] = x
    return out


def numbers(a: Matrix | Scalar | None) -> Any:
    """Array (..., rows, columns) of a matrix, or (...) of a scalar, of this backend."""
    return a
