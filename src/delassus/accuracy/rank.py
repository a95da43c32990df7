"""How many rows are independent of one another at each state (batched NumPy, float64)."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from delassus.algorithms.osim.least_squares import UNMOVED
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


def at_unit_diagonal(G: Array, least: Array) -> tuple[Array, NDArray[np.int_]]:
    """``G`` (..., m, m) at unit diagonal, and its rank (...); rows whose diagonal is not above ``least`` are zero."""
    diagonal = diagonal_of(G)
    moved = diagonal > least
    scale = np.where(moved, 1.0 / np.sqrt(np.where(moved, diagonal, 1.0)), 0.0)
    scaled = scale[..., :, None] * G * scale[..., None, :]
    scaled = np.where(np.isfinite(scaled), scaled, 0.0)  # overflow: `resolve` says so
    values = np.linalg.eigvalsh(scaled)
    return scaled, np.asarray(np.count_nonzero(values > REGULAR_CONDITION * values[..., -1:], axis=-1))


def common_rank(G: Array, least: Array) -> NDArray[np.int_]:
    """Ranks (k) of ``G`` (k, m, m) at k states, rows relative to what they are at the state that moves them most.

    Rows that are nowhere above ``least`` (m) are zero.
    """
    largest = np.max(diagonal_of(G), axis=0, initial=0.0)
    scale = np.where(largest > least, 1.0 / np.sqrt(np.where(largest > least, largest, 1.0)), 0.0)
    scaled = scale[:, None] * G * scale
    values = np.linalg.eigvalsh(np.where(np.isfinite(scaled), scaled, 0.0))
    return np.asarray(np.count_nonzero(values > REGULAR_CONDITION * np.max(values, initial=0.0), axis=-1))


def independence(G: Array, typical: Array, batch: tuple[int, ...]) -> tuple[NDArray[np.int_], NDArray[np.bool_]]:
    """Number of independent rows at each state (*batch), and flags of those that depend on others (*batch, m).

    ``typical`` (..., m) is the `mobility_bound`.
    """
    m = G.shape[-1]
    scaled, rank = at_unit_diagonal(np.broadcast_to(G, (*batch, m, m)), UNMOVED * typical)
    redundant, deficient = np.zeros((*batch, m), dtype=bool), rank < m
    if deficient.any():
        redundant[deficient] = _last_of_dependencies(scaled[deficient], rank[deficient])
    return rank, redundant


def _last_of_dependencies(G: Array, rank: NDArray[np.int_]) -> NDArray[np.bool_]:
    """Rows (k, m) that depend on those before them; ``G`` (k, m, m) is at unit diagonal, or zero.

    Such a row is the last one that has weight in some vector of the null space. From the last row to the first, vectors
    in which a row has weight are projected away once the row is taken, so that as many rows are as the space has
    dimensions.
    """
    m = G.shape[-1]
    _, vectors = np.linalg.eigh(G)
    null = np.where(np.arange(m) < m - rank[:, None, None], vectors, 0.0)
    missing, out = m - rank, np.zeros(G.shape[:-1], dtype=bool)
    for i in reversed(range(m)):
        weights = null[:, i]
        size = np.linalg.norm(weights, axis=-1)
        taken = (missing > 0) & ((size > NEGLIGIBLE) | (missing > i))
        along = weights / np.where(taken & (size > 0), size, 1.0)[:, None]
        away = (null @ along[:, :, None]) @ along[:, None, :]
        null = null - np.where(taken[:, None, None], away, 0.0)
        out[:, i], missing = taken, missing - taken
    return out


def least_squares(G: Array, typical: Array, x: Array) -> tuple[Array, NDArray[np.int_]]:
    """Least-squares solution of least norm (k, m) of ``G y = x``, and the rank (k) of ``G`` (k, m, m)."""
    rows = DependentRows(G, typical)
    y = rows.without_null(rows.inverse @ rows.without_null(x[..., None]))
    return np.asarray(y[..., 0]), at_unit_diagonal(G, UNMOVED * typical)[1]


class DependentRows:
    """Solves ``G f = b`` where rows depend on one another, at unit diagonal: units and sizes of rows do not matter.

    ``hard`` is ``G`` with an identity in place of soft rows: what depends on what is decided among the others.

    Attributes
    ----------
    inverse : (..., m, m) array
        ``S (S G S)⁺ S``, ``S`` what takes ``G`` to unit diagonal: ``f = inverse @ b`` has ``G f = b`` where any ``f``
        has. Of ``(S G S)⁺``, ``S G S`` plus the projection on its null space is inverted.
    null : (..., m, m) array
        Orthonormal basis of the forces that move nothing, and zero columns. What no force can give lies along it.
    scale : (..., m) array
        ``S``; by ``typical``, the `mobility_bound`, of rows that nothing moves.
    """

    def __init__(self, G: Array, typical: Array, hard: Array | None = None) -> None:
        least = UNMOVED * typical
        hard_scaled, rank = at_unit_diagonal(G if hard is None else hard, least)
        diagonal = diagonal_of(G)
        moved = diagonal > least
        self.scale = 1.0 / np.sqrt(np.where(moved, diagonal, np.where(typical > 0, typical, 1.0)))
        kept = (np.arange(G.shape[-1]) >= G.shape[-1] - rank[..., None])[..., None, :]
        null = np.where(kept, 0.0, np.linalg.eigh(hard_scaled)[1])
        idle = null @ np.swapaxes(null, -1, -2)
        regular = at_unit_diagonal(G, least)[0] + idle
        self.inverse: Array = self.scale[..., :, None] * (np.linalg.inv(regular) - idle) * self.scale[..., None, :]
        self.null: Array = np.where(kept, 0.0, np.linalg.qr(self.scale[..., None] * null)[0])

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
