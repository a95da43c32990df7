"""The Delassus operator: ``G`` factorised once, applied and solved with many times, never formed unless asked for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.accuracy.rank import DependentRows
from delassus.errors import ConfigurationError, shown
from delassus.frozen import Explained
from delassus.model.check import common_batch, real_array
from delassus.spatial.rotations import Array

MISSED = 1e-9
"""Part of ``x`` that ``(G + D) y`` may miss before ``G + D`` itself is factorised."""


class Factorisation(Explained):
    """How a state's ``G⁻¹ x`` is computed; the text says what that means for the user."""

    BRANCHES = "factorised branch by branch at the base (PV-OSIM-fast)"
    DENSE = "G itself is factorised: a branch block is singular here (a stretched limb, say), or there are many states"
    DAMPED = "soft constraints, of the damping's compliance, are eliminated link by link (PV-early)"
    SINGULAR = "G is singular: rows are redundant here, and solve returns the least-squares solution of least norm"


class DelassusOperator:
    """Delassus matrix of a batch of states, factorised.

    Attributes
    ----------
    shape : tuple of int
        Shape (..., m, m) of the matrices that it stands for.
    factorisation : (...) array of Factorisation
        How `solve` works at each state.
    """

    def __init__(
        self, batch: tuple[int, ...], n_rows: int, damping: ArrayLike | None, run: Callable[..., list[Array]]
    ) -> None:
        """``run``: results of a quantity by its name and arguments, of what factorises last whether it is certain."""
        self._batch, self._run = batch, run
        self.shape = (*batch, n_rows, n_rows)
        self._damping = None if damping is None else self._check_damping(damping)
        if damping is None:
            self._factorise()
        else:
            self.factorisation: NDArray[np.object_] = np.full(batch, Factorisation.DAMPED, dtype=object)

    def _factorise(self) -> None:
        m = self.shape[-1]
        self.factorisation = np.full(self._batch, Factorisation.BRANCHES, dtype=object)
        _, is_certain = self._run("branch_solution", x=np.zeros(m))
        self._rest, self._inverse = np.asarray(is_certain == 0.0), np.zeros((0, m, m))
        if not self._rest.any():
            return
        G, typical = (x[self._rest] for x in self._run("judged_rows"))
        rows = DependentRows(G, typical)
        names = [Factorisation.SINGULAR if rank < m else Factorisation.DENSE for rank in rows.rank]
        self.factorisation[self._rest], self._inverse = names, rows.of_least_norm

    def __repr__(self) -> str:
        return f"DelassusOperator(shape={self.shape})"

    def _check(self, x: ArrayLike, name: str = "x") -> Array:
        m, array = self.shape[-1], real_array(x)
        if array is None or not np.all(np.isfinite(array)):
            raise ConfigurationError(name, "finite real numbers", shown(x), "Pass a NumPy array or a list of numbers.")
        if array.ndim == 0 or array.shape[-1] != m:
            raise ConfigurationError(
                name, f"shape (..., {m}), one number for each constraint row", f"shape {array.shape}", "Stack the rows."
            )
        common_batch(name, array.shape[:-1], "q", self._batch)
        return array

    def _check_damping(self, damping: ArrayLike) -> Array:
        array = real_array(damping)
        if array is not None and array.ndim == 0:
            array = np.full(self.shape[-1], array)
        array = self._check(damping if array is None else array, "damping")
        if not np.all(array > 0.0):
            raise ConfigurationError("damping", "numbers > 0", shown(damping), "Pass 1e-6, say, or leave it out.")
        return array

    def apply(self, x: ArrayLike) -> Array:
        """``G x`` (..., m) in O(n + m) operations: accelerations (m/s², rad/s²) along the rows of constraint forces.

        Of a damped operator ``(G + D) x``.

        Raises `ConfigurationError` unless ``x`` (..., m) are finite numbers (N, N·m) whose leading axes fit ``q``.
        """
        column = self._check(x)[..., None]
        (result,) = self._run("delassus_product", x=column[..., 0])
        if self._damping is not None:
            result = result + self._damping * column[..., 0]
        shape = np.broadcast_shapes(result.shape, column.shape[:-1], self.shape[:-1])
        return np.array(np.broadcast_to(result, shape))

    def solve(self, x: ArrayLike) -> Array:
        """``G⁻¹ x`` (..., m): constraint forces (N, N·m) that cause accelerations along the rows.

        Of a damped operator ``(G + D)⁻¹ x``.

        Raises `ConfigurationError` unless ``x`` (..., m) are finite numbers (m/s², rad/s²) and leading axes fit ``q``.
        `factorisation` says at which states rows are redundant.
        """
        array = self._check(x)
        if self._damping is not None:
            (y,) = self._run("damped_solution", x=array, d=self._damping)
            missing = np.max(np.abs(self.apply(y) - array), axis=-1, initial=0.0)
            is_missed = ~(missing <= MISSED * np.max(np.abs(array), axis=-1, initial=0.0))
            if np.any(is_missed):
                G, right = self.dense(), array[..., None]
                G, right = (np.broadcast_to(a, (*y.shape, a.shape[-1]))[is_missed] for a in (G, right))
                y[is_missed] = np.linalg.solve(G, right)[..., 0]
            return y
        y, _ = self._run("branch_solution", x=array)
        if self._rest.any():
            where = np.broadcast_to(self._rest, y.shape[:-1])
            inverse = np.zeros((*self._batch, *self._inverse.shape[-2:]))
            inverse[self._rest] = self._inverse
            y[where] = np.broadcast_to((inverse @ array[..., None])[..., 0], y.shape)[where]
        return y

    def dense(self) -> Array:
        """``G`` (..., m, m), formed; of a damped operator ``G + D``."""
        (G,) = self._run("delassus")
        if self._damping is not None:
            G = G + self._damping[..., None] * np.eye(self.shape[-1])
        return np.array(np.broadcast_to(G, self.shape))
