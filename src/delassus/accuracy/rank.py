"""How many rows are independent of one another at each state (batched NumPy, float64)."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from delassus.algorithms.osim.least_squares import UNMOVED
from delassus.frozen import cached_property
from delassus.spatial.rotations import Array

REGULAR_CONDITION = 1e-10
"""Eigenvalues of ``G`` at unit diagonal below this part of the largest count as zero."""

NEGLIGIBLE = 1e-5
"""A row does not take part in a dependency, the rows being of unit length, if its weight is below this: round-off
(1e-16) over the smallest eigenvalue that counts (`REGULAR_CONDITION`), with room."""


def by_mass(M: Array, J: Array, force: Array) -> tuple[Array, Array, Array]:
    """``M⁻¹ Jᵀ`` (..., nv, m), ``M⁻¹ force`` (..., nv) and ``J M⁻¹ Jᵀ`` (..., m, m), by Cholesky's factor of ``M``.

    They are NaN at states where ``M`` is not positive definite.
    """
    try:
        C = np.linalg.cholesky(M)
    except np.linalg.LinAlgError:
        C = np.full(M.shape, np.nan)
        for at in np.ndindex(M.shape[:-2]):
            with suppress(np.linalg.LinAlgError):
                C[at] = np.linalg.cholesky(M[at])
    both = np.concatenate([np.swapaxes(J, -1, -2), force[..., None]], axis=-1)
    half = np.linalg.solve(C, both)
    Y = half[..., :-1]
    solved = np.linalg.solve(np.swapaxes(C, -1, -2), half)
    return solved[..., :-1], solved[..., -1], np.swapaxes(Y, -1, -2) @ Y


def at_unit_diagonal(G: Array, least: Array) -> Array:
    """``G`` (..., m, m) at unit diagonal; rows whose diagonal is not above ``least`` are zero."""
    diagonal = diagonal_of(G)
    moved = diagonal > least
    scale = np.where(moved, 1.0 / np.sqrt(np.where(moved, diagonal, 1.0)), 0.0)
    scaled = scale[..., :, None] * G * scale[..., None, :]
    return np.where(np.isfinite(scaled), scaled, 0.0)  # overflow: `resolve` says so


def common_rank(G: Array, least: Array) -> NDArray[np.int_]:
    """Ranks (k) of ``G`` (k, m, m) at k states, rows relative to what they are at the state that moves them most.

    Rows that are nowhere above ``least`` (m) are zero.
    """
    largest = np.max(diagonal_of(G), axis=0, initial=0.0)
    scale = np.where(largest > least, 1.0 / np.sqrt(np.where(largest > least, largest, 1.0)), 0.0)
    scaled = scale[:, None] * G * scale
    values = np.linalg.eigvalsh(np.where(np.isfinite(scaled), scaled, 0.0))
    return np.asarray(np.count_nonzero(values > REGULAR_CONDITION * np.max(values, initial=0.0), axis=-1))


def least_squares(G: Array, typical: Array, x: Array) -> tuple[Array, NDArray[np.int_]]:
    """Least-squares solution of least norm (k, m) of ``G y = x``, and the rank (k) of ``G`` (k, m, m)."""
    rows = DependentRows(G, typical)
    y = rows.without_null(rows.inverse @ rows.without_null(x[..., None]))
    return np.asarray(y[..., 0]), rows.rank


class DependentRows:
    """Which rows depend on others, and ``G f = b`` where some do, at unit diagonal: units and sizes do not matter.

    ``typical`` (..., m) is the `mobility_bound`, and ``hard`` is ``G`` (..., m, m) with an identity in place of soft
    rows: what depends on what is decided among the others.

    Attributes
    ----------
    rank : (...) array of int
        Number of independent rows.
    """

    def __init__(self, G: Array, typical: Array, hard: Array | None = None) -> None:
        self._G, self._typical, self._least = G, typical, UNMOVED * typical
        values, vectors = np.linalg.eigh(at_unit_diagonal(G if hard is None else hard, self._least))
        self.rank = np.asarray(np.count_nonzero(values > REGULAR_CONDITION * values[..., -1:], axis=-1))
        self._kept = (np.arange(G.shape[-1]) >= G.shape[-1] - self.rank[..., None])[..., None, :]
        self._null = np.where(self._kept, 0.0, vectors)

    @cached_property
    def redundant(self) -> NDArray[np.bool_]:
        """Rows (..., m) that depend on those before them.

        Such a row is the last one that has weight in some vector of the null space. From the last row to the first,
        vectors in which a row has weight are projected away once the row is taken, so that as many rows are as the
        space has dimensions.
        """
        m = self._G.shape[-1]
        out, deficient = np.zeros((*self.rank.shape, m), dtype=bool), self.rank < m
        if not deficient.any():
            return out
        null, missing, flags = self._null[deficient], m - self.rank[deficient], out[deficient]
        for i in reversed(range(m)):
            weights = null[:, i]
            size = np.linalg.norm(weights, axis=-1)
            taken = (missing > 0) & ((size > NEGLIGIBLE) | (missing > i))
            along = weights / np.where(taken & (size > 0), size, 1.0)[:, None]
            away = (null @ along[:, :, None]) @ along[:, None, :]
            null = null - np.where(taken[:, None, None], away, 0.0)
            flags[:, i], missing = taken, missing - taken
        out[deficient] = flags
        return out

    @cached_property
    def scale(self) -> Array:
        """``S`` (..., m), what takes ``G`` to unit diagonal; by ``typical`` of rows that nothing moves."""
        diagonal, typical = diagonal_of(self._G), np.where(self._typical > 0, self._typical, 1.0)
        return np.asarray(1.0 / np.sqrt(np.where(diagonal > self._least, diagonal, typical)))

    @cached_property
    def inverse(self) -> Array:
        """``S (S G S)⁺ S`` (..., m, m): ``f = inverse @ b`` has ``G f = b`` where any ``f`` has.

        Of ``(S G S)⁺``, ``S G S`` plus the projection on its null space is inverted.
        """
        idle = self._null @ np.swapaxes(self._null, -1, -2)
        regular = at_unit_diagonal(self._G, self._least) + idle
        return np.asarray(self.scale[..., :, None] * (np.linalg.inv(regular) - idle) * self.scale[..., None, :])

    @cached_property
    def null(self) -> Array:
        """Orthonormal basis (..., m, m) of the forces that move nothing, and zero columns.

        What no force can give lies along it.
        """
        return np.where(self._kept, 0.0, np.linalg.qr(self.scale[..., None] * self._null)[0])

    @property
    def of_least_norm(self) -> Array:
        """What takes accelerations to the forces of least norm that give them (..., m, m): symmetric, `null` left out.

        Of hard rows it is the pseudo-inverse of ``G``.
        """
        return self.without_null(np.swapaxes(self.without_null(self.inverse), -1, -2))

    def without_null(self, x: Array) -> Array:
        """Columns (..., m, k) less their part along `null`: forces of least norm, accelerations that forces give."""
        return np.asarray(x - self.null @ (np.swapaxes(self.null, -1, -2) @ x))


def mass_condition(M: Array) -> Array:
    """Condition (...) of ``M`` (..., nv, nv) at unit diagonal, infinite where it is not positive definite."""
    if not M.shape[-1]:
        return np.ones(M.shape[:-2])
    with np.errstate(all="ignore"):
        scale = 1.0 / np.sqrt(diagonal_of(M))
        scaled = scale[..., :, None] * M * scale[..., None, :]
        values = np.linalg.eigvalsh(np.where(np.isfinite(scaled), scaled, 0.0))
        return np.asarray(values[..., -1] / np.maximum(values[..., 0], 0.0))


def diagonal_of(G: Array) -> Array:
    """Diagonal (..., m)."""
    return np.asarray(np.diagonal(G, axis1=-2, axis2=-1))
