"""`Ops` on arrays (..., rows, columns), for formulas of joints, shapes and contact laws that simulators evaluate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from delassus.spatial.ops import Ops
from delassus.spatial.rigid import RigidInertia
from delassus.spatial.transform import Displacement, StagedTransform


class NumpyOps(Ops):
    """Numbers of a type, batched over leading axes; they tell no structure, as algorithms need it, nor repeat."""

    def __init__(self, dtype: Any = float) -> None:
        self.dtype = np.dtype(dtype)

    def constant(self, value: Any) -> Any:
        return np.asarray(value).astype(self.dtype)

    def entries(self, a: Any) -> list[list[Any]]:
        return [[a[..., i, j] for j in range(a.shape[-1])] for i in range(a.shape[-2])]

    def matrix(self, rows: Sequence[Sequence[Any]]) -> Any:
        batches = {getattr(x, "shape", ()) for row in rows for x in row} - {()}
        if not batches:
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
        return np.copysign(x, y)

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

    def transform(self, displacement: Displacement) -> StagedTransform:
        return StagedTransform(self, displacement)

    def rigid_inertia(self, H: Any) -> RigidInertia:
        return RigidInertia.of_matrix(self, H)


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
