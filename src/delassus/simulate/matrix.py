"""Matrices of dense blocks that share no rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from delassus.contact.snapshot import Indices
from delassus.errors import require
from delassus.frozen import Frozen
from delassus.spatial.rotations import Array


@dataclass(frozen=True, slots=True, eq=False)
class BlockMatrix(Frozen):
    """Matrix whose blocks, one for each island of bodies, have rows of their own; all else is zero.

    ``A @ x`` and ``A.T`` cost what the blocks do; `numpy.asarray` makes the whole matrix of it.

    Attributes
    ----------
    shape : (int, int)
    rows, columns : tuples of arrays of int
        Those of each block.
    blocks : tuple of arrays
    """

    shape: tuple[int, int]
    rows: tuple[Indices, ...]
    columns: tuple[Indices, ...]
    blocks: tuple[Array, ...]

    @property
    def T(self) -> BlockMatrix:
        """The transpose."""
        return BlockMatrix(self.shape[::-1], self.columns, self.rows, tuple(b.T for b in self.blocks))

    def __matmul__(self, x: Any) -> Array:
        """Product with a vector or a matrix."""
        x = np.asarray(x)
        out = np.zeros((self.shape[0], *x.shape[1:]))
        for rows, columns, block in zip(self.rows, self.columns, self.blocks, strict=True):
            out[rows] += block @ x[columns]
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The whole matrix."""
        out = np.zeros(self.shape, dtype)
        for rows, columns, block in zip(self.rows, self.columns, self.blocks, strict=True):
            out[rows[:, None], columns] = block
        return out

    def tocsr(self) -> Any:
        """The matrix as a `scipy.sparse.csr_array`.

        Raises
        ------
        MissingDependencyError
            SciPy, of the extra ``contact``, is not installed.
        """
        require("scipy", "contact", "sparse matrices")
        from scipy.sparse import csr_array

        grids = [np.meshgrid(r, c, indexing="ij") for r, c in zip(self.rows, self.columns, strict=True)]
        if not grids:
            return csr_array(self.shape)
        at = tuple(np.concatenate([grid[k].ravel() for grid in grids]) for k in (0, 1))
        return csr_array((np.concatenate([b.ravel() for b in self.blocks]), at), shape=self.shape)
