"""The Delassus operator: ``G`` factorised once, applied and solved with many times, never formed unless asked for."""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.osim.product import delassus_product
from delassus.algorithms.osim.pv import in_order
from delassus.algorithms.osim.pv_fast import Branches, FastFactor, branches
from delassus.algorithms.problem import Problem
from delassus.errors import ConfigurationError
from delassus.model.rotations import Array

REGULAR_CONDITION = 1e-10
"""A block counts as singular if its reciprocal condition, after scaling to unit diagonal, is below this."""


class Factorisation(Enum):
    """How a state's ``G⁻¹ x`` is computed; the text says what that means for the user."""

    BRANCHES = "factorised branch by branch at the base (PV-OSIM-fast)"
    DENSE = "a branch block is singular here (a constraint on the base, a stretched limb): G itself is factorised"
    SINGULAR = "G is singular: rows are redundant here, and solve returns the least-squares solution of least norm"

    @property
    def text(self) -> str:
        """What this factorisation means for the user."""
        return str(self.value)


class DelassusOperator:
    """Delassus matrix of a batch of states, factorised.

    Attributes
    ----------
    shape : tuple of int
        Shape (..., m, m) of the matrices that it stands for.
    factorisation : (...) array of Factorisation
        How `solve` works at each state.
    """

    def __init__(self, problem: Problem, batch: tuple[int, ...]) -> None:
        self._problem, self._batch = problem, batch
        m = problem.n_rows
        self.shape = (*batch, m, m)
        self._body = Articulated(problem)
        self._parts: Branches = branches(problem)
        self.factorisation: NDArray[np.object_] = np.full(batch, Factorisation.BRANCHES, dtype=object)

        regular = np.ones(batch, dtype=bool)
        covered = {c for s in self._parts.stacks for c in s.constraints}
        if len(covered) < len(problem.constraints):  # constraints that nothing moves
            regular[...] = False
        for stack in self._parts.stacks:
            regular &= _is_regular(stack.L)
        self._regular = regular
        self._fast = FastFactor(problem, self._parts) if regular.any() else None
        self._inverse: Array | None = None
        if not regular.all():
            G = np.broadcast_to(self.dense(), self.shape)
            self.factorisation[~regular] = Factorisation.DENSE
            self.factorisation[~regular & ~_is_regular(G)] = Factorisation.SINGULAR
            self._inverse = np.zeros(self.shape)
            self._inverse[~regular] = _pseudo_inverse(G[~regular])

    def __repr__(self) -> str:
        return f"DelassusOperator(shape={self.shape})"

    def _check(self, x: ArrayLike) -> Array:
        array = np.asarray(x, dtype=float)
        m = self.shape[-1]
        if array.ndim == 0 or array.shape[-1] != m:
            raise ConfigurationError(
                "x", f"shape (..., {m}), one number for each constraint row", f"shape {array.shape}", "Stack the rows."
            )
        return array

    def apply(self, x: ArrayLike) -> Array:
        """``G x`` in O(n + m) operations.

        Parameters
        ----------
        x : (..., m) array_like
            Constraint forces (N, N·m).

        Returns
        -------
        (..., m) array
            Accelerations that they cause along the constraint rows (m/s², rad/s²).

        Raises
        ------
        ConfigurationError
            The last axis is not m.
        """
        column = self._check(x)[..., None]
        result: Array = delassus_product(self._problem, self._body, column)[..., 0]
        return np.array(np.broadcast_to(result, np.broadcast_shapes(result.shape, column.shape[:-1])))

    def solve(self, x: ArrayLike) -> Array:
        """``G⁻¹ x``; see `factorisation` for states at which the rows are redundant.

        Parameters
        ----------
        x : (..., m) array_like
            Accelerations along the constraint rows (m/s², rad/s²).

        Returns
        -------
        (..., m) array
            Constraint forces that cause them (N, N·m).

        Raises
        ------
        ConfigurationError
            The last axis is not m.
        """
        array = self._check(x)
        shape = np.broadcast_shapes(array.shape, (*self._batch, array.shape[-1]))
        y = np.zeros(shape)
        if self._fast is not None:
            rows = self._problem.rows
            parts = [[array[..., rows[c]] for c in s.constraints] for s in self._parts.stacks]
            columns = [np.concatenate(p, axis=-1)[..., None] for p in parts]
            solved = self._fast.solve(self._problem.ops, columns)
            for stack, part in zip(self._parts.stacks, solved, strict=True):
                start = 0
                for c in stack.constraints:
                    size = self._problem.constraints[c].size
                    y[..., rows[c]] = part[..., start : start + size, 0]
                    start += size
        if self._inverse is not None:
            slow = (self._inverse @ array[..., None])[..., 0]
            y = np.where(self._regular[..., None], y, slow)
        return y

    def dense(self) -> Array:
        """``G`` (..., m, m), formed."""
        ops = self._problem.ops
        G = in_order(self._problem, self._parts.stacks)
        if self._parts.H is not None:
            covered = [c for s in self._parts.stacks for c in s.constraints]
            K = ops.zeros(self.shape[-1], 6)
            blocks = {c: ops.zeros(self._problem.constraints[c].size, 6) for c in range(len(self._problem.constraints))}
            for s in self._parts.stacks:
                start = 0
                for c in s.constraints:
                    size = self._problem.constraints[c].size
                    blocks[c] = ops.take(s.K, range(start, start + size), None)
                    start += size
            if covered:
                K = ops.vstack([blocks[c] for c in range(len(blocks))])
            G = G + ops.factor(self._parts.H).quadratic(K)
        return np.array(np.broadcast_to(0.5 * (G + ops.transpose(G)), self.shape))


def _is_regular(G: Array) -> NDArray[np.bool_]:
    diagonal = np.diagonal(G, axis1=-2, axis2=-1)
    if G.shape[-1] == 0:
        return np.ones(G.shape[:-2], dtype=bool)
    positive = np.all(diagonal > 0, axis=-1)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values = np.linalg.eigvalsh(G * scale[..., :, None] * scale[..., None, :])
    return np.asarray(positive & (values[..., 0] > REGULAR_CONDITION * values[..., -1]))


def _pseudo_inverse(G: Array) -> Array:
    return np.asarray(np.linalg.pinv(G, rcond=REGULAR_CONDITION, hermitian=True), dtype=float)
