"""The Delassus operator: ``G`` factorised once, applied and solved with many times, never formed unless asked for."""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.osim.product import delassus_product
from delassus.algorithms.osim.pv import merge, rows_of
from delassus.algorithms.osim.pv_fast import Branches, FastFactor, branches
from delassus.algorithms.problem import Problem
from delassus.errors import ConfigurationError, shown
from delassus.model.check import common_batch, real_array
from delassus.model.rotations import Array
from delassus.spatial.numpy_ops import numbers

REGULAR_CONDITION = 1e-10
"""A block counts as singular if its reciprocal condition, after scaling to unit diagonal, is below this."""

UNMOVED = 1e-20
"""A row counts as one that nothing moves if its mobility, relative to `mobility_bound`, is below this: the row's
round-off (1e-16) enters squared."""


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
        least = UNMOVED * mobility_bound(problem, self._body)
        for stack in self._parts.stacks:
            rows = [r for c in stack.constraints for r in range(m)[problem.rows[c]]]
            regular &= is_regular(numbers(stack.L), least[..., rows])
        self._regular = regular
        with np.errstate(divide="ignore", invalid="ignore"):  # at singular states, whose numbers `solve` leaves out
            self._fast = FastFactor(problem, self._parts) if regular.any() else None
        self._inverse: Array | None = None
        if not regular.all():
            G = self.dense()
            singular = ~regular & ~is_regular(G, least)
            self.factorisation[~regular] = Factorisation.DENSE
            self.factorisation[singular] = Factorisation.SINGULAR
            self._inverse = np.zeros(self.shape)
            self._inverse[~regular & ~singular] = _inverse(G[~regular & ~singular])
            self._inverse[singular] = _pseudo_inverse(G[singular], np.broadcast_to(least, (*batch, m))[singular])

    def __repr__(self) -> str:
        return f"DelassusOperator(shape={self.shape})"

    def _check(self, x: ArrayLike) -> Array:
        m, array = self.shape[-1], real_array(x)
        if array is None or not np.all(np.isfinite(array)):
            raise ConfigurationError("x", "finite real numbers", shown(x), "Pass a NumPy array or a list of numbers.")
        if array.ndim == 0 or array.shape[-1] != m:
            raise ConfigurationError(
                "x", f"shape (..., {m}), one number for each constraint row", f"shape {array.shape}", "Stack the rows."
            )
        common_batch("x", array.shape[:-1], "q", self._batch)
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
            Not finite numbers, the last axis is not m, or the leading axes do not fit those of ``q``.
        """
        column = self._check(x)[..., None]
        result = numbers(delassus_product(self._problem, self._body, numbers(column)))[..., 0]
        shape = np.broadcast_shapes(result.shape, column.shape[:-1], self.shape[:-1])
        return np.array(np.broadcast_to(result, shape))

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
            Not finite numbers, the last axis is not m, or the leading axes do not fit those of ``q``.
        """
        array = self._check(x)
        shape = np.broadcast_shapes(array.shape, (*self._batch, array.shape[-1]))
        y = np.zeros(shape)
        if self._fast is not None:
            rows = self._problem.rows
            parts = [[array[..., rows[c]] for c in s.constraints] for s in self._parts.stacks]
            columns = [np.concatenate(p, axis=-1)[..., None] for p in parts]
            with np.errstate(invalid="ignore"):
                solved = self._fast.solve(self._problem.ops, [numbers(x) for x in columns])
            for stack, part in zip(self._parts.stacks, solved, strict=True):
                for c, at in rows_of(self._problem, stack.constraints).items():
                    y[..., rows[c]] = numbers(part)[..., at, 0]
        if self._inverse is not None:
            slow = (self._inverse @ array[..., None])[..., 0]
            y = np.where(self._regular[..., None], y, slow)
        return y

    def dense(self) -> Array:
        """``G`` (..., m, m), formed."""
        ops = self._problem.ops
        whole = merge(self._problem, self._parts.stacks, range(len(self._problem.constraints)))
        G = whole.L
        if self._parts.H is not None:
            G = G + ops.factor(self._parts.H).quadratic(whole.K)
        return np.array(np.broadcast_to(0.5 * numbers(G + ops.transpose(G)), self.shape))


def mobility_bound(problem: Problem, body: Articulated) -> Array:
    """Size (..., m) that the diagonal of ``G`` has where no row is badly placed.

    The squared length of the row times the largest ``S D⁻¹ Sᵀ`` of the joints that support its link.
    """
    tree = problem.tree
    own = [np.max(_diagonal(numbers(body.joint_inverse_inertia(i))), axis=-1) for i in range(tree.n_links)]
    bounds = [np.zeros(c.size) for c in problem.constraints]
    for end in problem.ends:
        offered = np.max(np.stack(np.broadcast_arrays(*(own[i] for i in tree.support(end.link)))), axis=0)
        bounds[end.constraint] = bounds[end.constraint] + offered[..., None] * np.sum(numbers(end.K) ** 2, axis=-1)
    batch = np.broadcast_shapes(*(bound.shape[:-1] for bound in bounds))
    whole = [np.broadcast_to(bound, (*batch, bound.shape[-1])) for bound in bounds]
    return np.concatenate(whole, axis=-1) if whole else np.zeros(0)


def is_regular(G: Array, least: Array) -> NDArray[np.bool_]:
    """Whether each matrix (..., m, m) has an inverse; ``least`` (..., m) is what its diagonal must exceed."""
    if G.shape[-1] == 0:
        return np.ones(G.shape[:-2], dtype=bool)
    diagonal = _diagonal(G)
    moved = diagonal > least
    values = np.linalg.eigvalsh(_scaled(G, 1.0 / np.sqrt(np.where(moved, diagonal, 1.0))))
    return np.asarray(np.all(moved, axis=-1) & (values[..., 0] > REGULAR_CONDITION * values[..., -1]))


def _diagonal(G: Array) -> Array:
    return np.asarray(np.diagonal(G, axis1=-2, axis2=-1))


def _scaled(G: Array, scale: Array) -> Array:
    return np.asarray(scale[..., :, None] * G * scale[..., None, :])


def _inverse(G: Array) -> Array:
    scale = 1.0 / np.sqrt(_diagonal(G))
    return _scaled(np.asarray(np.linalg.inv(_scaled(G, scale)), dtype=float), scale)


def _pseudo_inverse(G: Array, least: Array) -> Array:
    moved = np.where(_diagonal(G) > least, 1.0, 0.0)
    return np.asarray(np.linalg.pinv(_scaled(G, moved), rcond=REGULAR_CONDITION, hermitian=True), dtype=float)
