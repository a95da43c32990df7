"""The Delassus operator: ``G`` factorised once, applied and solved with many times, never formed unless asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.accuracy.rank import DependentRows, at_unit_diagonal, diagonal_of, mobility_bound
from delassus.algorithms.articulated import Articulated
from delassus.algorithms.osim.least_squares import UNMOVED
from delassus.algorithms.osim.product import delassus_product
from delassus.algorithms.osim.pv import merge, rows_of
from delassus.algorithms.osim.pv_fast import Branches, FastFactor, branches
from delassus.algorithms.problem import Problem
from delassus.errors import ConfigurationError, shown
from delassus.frozen import Explained, cached_property
from delassus.model.check import common_batch, real_array
from delassus.spatial.numpy_ops import numbers
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
        self,
        problem: Problem,
        batch: tuple[int, ...],
        damping: ArrayLike | None,
        run: Callable[..., Mapping[str, Array]],
        is_compiled: bool,
    ) -> None:
        """``run``: outputs of a quantity by its name and arguments, in machine code where it ``is_compiled``."""
        self._problem, self._batch, self._run, self._is_compiled = problem, batch, run, is_compiled
        m = problem.n_rows
        self.shape = (*batch, m, m)
        self._damping = None if damping is None else self._check_damping(damping)
        if is_compiled:
            return
        self._body = Articulated(problem)
        self._parts: Branches = branches(problem)
        if damping is None:
            self._factorise()

    def _factorise(self) -> None:
        problem, batch, m = self._problem, self._batch, self.shape[-1]
        how = np.full(batch, Factorisation.BRANCHES, dtype=object)
        typical = mobility_bound(problem, self._body)
        least = UNMOVED * typical
        covered = {c for s in self._parts.stacks for c in s.constraints}
        self._regular = np.full(batch, len(covered) == len(problem.constraints))  # others are moved by nothing
        for stack in self._parts.stacks:
            rows = [r for c in stack.constraints for r in range(m)[problem.rows[c]]]
            self._regular &= at_unit_diagonal(numbers(stack.L), least[..., rows])[1] == len(rows)
        with np.errstate(divide="ignore", invalid="ignore"):  # at singular states, whose numbers `solve` leaves out
            self._fast = FastFactor(problem, self._parts) if self._regular.any() else None
        self._inverse: Array | None = None
        if not self._regular.all():
            G = self.dense()
            scaled, rank = at_unit_diagonal(G, least)
            singular = rank < m
            how[~self._regular] = Factorisation.DENSE
            how[~self._regular & singular] = Factorisation.SINGULAR
            dependent = DependentRows(G, typical)
            half = np.swapaxes(dependent.without_null(dependent.inverse), -1, -2)
            self._inverse = dependent.without_null(half)
            scale = 1.0 / np.sqrt(diagonal_of(G[~singular]))
            self._inverse[~singular] = scale[..., :, None] * np.linalg.inv(scaled[~singular]) * scale[..., None, :]
        self.factorisation = how

    @cached_property
    def factorisation(self) -> NDArray[np.object_]:
        """How `solve` works at each state (...)."""
        if self._damping is not None:
            return np.full(self._batch, Factorisation.DAMPED, dtype=object)
        rank = self._run("delassus_solution", x=np.zeros(self.shape[-1]))["rank"]
        how: NDArray[np.object_] = np.full(self._batch, Factorisation.DENSE, dtype=object)
        how[rank < self.shape[-1]] = Factorisation.SINGULAR
        return how

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
        if self._is_compiled:
            result = self._run("delassus_product", x=column[..., 0])["y"]
        else:
            result = numbers(delassus_product(self._problem, self._body, numbers(column)))[..., 0]
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
            y = self._run("damped_solution", x=array, d=self._damping)["y"]
            missing = np.max(np.abs(self.apply(y) - array), axis=-1, initial=0.0)
            is_missed = ~(missing <= MISSED * np.max(np.abs(array), axis=-1, initial=0.0))
            if np.any(is_missed):
                G, right = self.dense(), array[..., None]
                G, right = (np.broadcast_to(a, (*y.shape, a.shape[-1]))[is_missed] for a in (G, right))
                y[is_missed] = np.linalg.solve(G, right)[..., 0]
            return y
        if self._is_compiled:
            return self._run("delassus_solution", x=array)["y"]
        y = np.zeros(np.broadcast_shapes(array.shape, (*self._batch, array.shape[-1])))
        if self._fast is not None:
            rows = self._problem.rows
            stacks = self._parts.stacks
            parts = [np.concatenate([array[..., rows[c]] for c in s.constraints], axis=-1) for s in stacks]
            with np.errstate(invalid="ignore"):
                solved = self._fast.solve(self._problem.ops, [numbers(part[..., None]) for part in parts])
            for stack, part in zip(stacks, solved, strict=True):
                for c, at in rows_of(self._problem, stack.constraints).items():
                    y[..., rows[c]] = numbers(part)[..., at, 0]
        if self._inverse is not None:
            slow = (self._inverse @ array[..., None])[..., 0]
            y = np.where(self._regular[..., None], y, slow)
        return y

    def dense(self) -> Array:
        """``G`` (..., m, m), formed; of a damped operator ``G + D``."""
        G = self._run("delassus")["G"] if self._is_compiled else self._merged()
        if self._damping is not None:
            G = G + self._damping[..., None] * np.eye(self.shape[-1])
        return np.array(np.broadcast_to(G, self.shape))

    def _merged(self) -> Array:
        ops = self._problem.ops
        whole = merge(self._problem, self._parts.stacks, range(len(self._problem.constraints)))
        G = whole.L
        if self._parts.H is not None:
            G = G + ops.factor(self._parts.H).quadratic(whole.K)
        return np.asarray(numbers(0.5 * (numbers(G) + numbers(ops.transpose(G)))))
