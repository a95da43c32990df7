"""The one answer to dependent rows, of direct calls, kernels, rollouts and contact (batched NumPy, float64).

At each state the independent rows are counted, by the eigenvalues of ``G`` at unit diagonal above `REGULAR_CONDITION`;
rows that nothing moves do not count. Where some depend on others, ``f`` is the least-norm minimiser of ``‖J q̈ − γ‖``:
the solution that the pseudo-inverse of ``G`` gives, and proximal iterations converge to. Accelerations are then those
nearest to the free ones in the metric of ``M``. A `DynamicsStatus` says how each state was solved.

- Direct functions do this at every state.
- Kernels, and rollouts at each step, do it at states that their pivots mark (`delassus.quantities.pivots`). Where a
  method eliminates rows early, or runs in float32, small pivots may mean only that: ``"ltl"`` in float64, compiled when
  first needed and announced, solves these states, and its pivots mark those whose rows are dependent. They warn once,
  or return statuses if these are asked for.
- Derivatives do not exist where rows are dependent: they are NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.dynamics.kkt import SaddlePoint
from delassus.algorithms.dynamics.solution import Solution, least_pivot
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.problem import Problem
from delassus.model.rotations import Array
from delassus.quantities.iterate import Iterated
from delassus.quantities.operator import REGULAR_CONDITION, UNMOVED, mobility_bound
from delassus.spatial.numpy_ops import numbers

CONFLICT = 1e-8
"""Rows contradict one another if this part of the acceleration that they have to add stays missing: round-off (1e-16)
over the smallest eigenvalue that counts (`REGULAR_CONDITION`), with room."""

NEGLIGIBLE = 1e-5
"""A row does not take part in a dependency, the rows being of unit length, if its weight is below this: round-off
(1e-16) over the smallest eigenvalue that counts (`REGULAR_CONDITION`), with room."""


class DynamicsStatus(Enum):
    """How a state was solved; the text says what that means for the user."""

    SOLVED = "every constraint holds; accelerations and forces are unique"
    REDUNDANT = "rows are redundant here: every constraint holds, and the forces are those of least norm"
    CONFLICTING = (
        "rows contradict one another here: accelerations and forces are the least-squares ones; "
        "drop rows, or ask for accelerations that go together"
    )
    UNFINISHED = (
        "proximal iterations stopped before they converged; allow more of them (max_iterations), "
        "or scale rows so that they are of one size"
    )
    FAILED = "numbers overflowed here: nothing is known; make positions, velocities and forces smaller"

    @property
    def text(self) -> str:
        """What this status means for the user."""
        return str(self.value)


@dataclass(frozen=True, slots=True, eq=False)
class Resolved:
    """Solutions of a batch, dependent rows dealt with; all arrays are read-only.

    Attributes
    ----------
    qdd : (..., nv) array
    forces : (..., m) array
    status : (...) array of DynamicsStatus
    rank : (...) array of int
        Number of independent rows; soft ones always are, and those of constraints that are off do not count.
    redundant : (..., m) array of bool
        Rows that depend on those before them; none where the status is `FAILED`.
    iterated : Iterated or None
        What proximal iterations report.
    """

    qdd: Array
    forces: Array
    status: NDArray[np.object_]
    rank: NDArray[np.int_]
    redundant: NDArray[np.bool_]
    iterated: Iterated | None = None

    def __post_init__(self) -> None:
        reported = () if self.iterated is None else (self.iterated.iterations, self.iterated.residual)
        for array in (self.qdd, self.forces, self.status, self.rank, self.redundant, *reported):
            array.setflags(write=False)


def resolve(
    motion: DynamicsProblem, solution: Solution, batch: tuple[int, ...], iterated: Iterated | None = None
) -> Resolved:
    """Check the rank of the rows at each state, and solve again where it is deficient.

    Problems whose constraints are all soft are regular, and iterations have gone to the least-squares solution.
    """
    problem = motion.problem
    m, nv = problem.n_rows, motion.tree.nv
    qdd = np.array(np.broadcast_to(numbers(solution.qdd)[..., 0], (*batch, nv)))
    forces = np.array(np.broadcast_to(numbers(solution.forces)[..., 0], (*batch, m)))
    status: NDArray[np.object_] = np.full(batch, DynamicsStatus.SOLVED, dtype=object)
    rank, redundant = np.full(batch, m), np.zeros((*batch, m), dtype=bool)
    if m and iterated is not None:
        rank, redundant = _independence(problem, numbers(problem.relaxed(numbers(solution.delassus))), batch)
        status[rank < m] = DynamicsStatus.REDUNDANT
        status[(rank < m) & (iterated.residual > CONFLICT * iterated.size)] = DynamicsStatus.CONFLICTING
        status[~iterated.converged] = DynamicsStatus.UNFINISHED
    elif m and not all(motion.softness):
        saddle = None if solution.delassus is not None else SaddlePoint(motion)
        G = numbers(problem.relaxed(numbers(solution.delassus) if saddle is None else saddle.G))
        rank, redundant = _independence(problem, G, batch)
        if saddle is not None and solution.pivot is not None:
            unfit = ~(np.broadcast_to(numbers(solution.pivot), batch) > least_pivot("float64"))
            if unfit.any():
                other = saddle.solve()
                qdd[unfit] = np.broadcast_to(numbers(other.qdd)[..., 0], qdd.shape)[unfit]
                forces[unfit] = np.broadcast_to(numbers(other.forces)[..., 0], forces.shape)[unfit]
        deficient = rank < m
        if deficient.any():
            f, a, held = _least_squares(saddle or SaddlePoint(motion), G, rank, batch)
            qdd[deficient], forces[deficient] = a[deficient], f[deficient]
            status[deficient] = DynamicsStatus.CONFLICTING
            status[deficient & held] = DynamicsStatus.REDUNDANT
    for c, rows in zip(range(len(problem.constraints)), problem.rows, strict=True):
        if (flag := problem.flag(c)) is not None:
            rank = rank - np.where(numbers(flag), 0, rows.stop - rows.start)
            forces[..., rows] = np.where(np.asarray(flag)[..., None], forces[..., rows], 0.0)
    failed = ~(np.isfinite(qdd).all(axis=-1) & np.isfinite(forces).all(axis=-1))
    status[failed], redundant[failed] = DynamicsStatus.FAILED, False
    return Resolved(qdd, forces, status, rank, redundant, iterated)


def worst(statuses: list[NDArray[np.object_]]) -> NDArray[np.object_]:
    """The last status in the order of `DynamicsStatus` that each state has had."""
    out = statuses[0].copy()
    for status in DynamicsStatus:
        for one in statuses[1:]:
            out[(one == status) & (out != one)] = status
    return out


def _independence(problem: Problem, G: Array, batch: tuple[int, ...]) -> tuple[NDArray[np.int_], NDArray[np.bool_]]:
    """How many rows are independent at each state (*batch), and which depend on others (*batch, m)."""
    m = problem.n_rows
    diagonal = np.diagonal(G, axis1=-2, axis2=-1)
    moved = diagonal > UNMOVED * mobility_bound(problem, Articulated(problem))
    scale = np.where(moved, 1.0 / np.sqrt(np.where(moved, diagonal, 1.0)), 0.0)
    scaled = scale[..., :, None] * G * scale[..., None, :]
    scaled = np.broadcast_to(np.where(np.isfinite(scaled), scaled, 0.0), (*batch, m, m))  # overflow: `resolve` says so
    values = np.linalg.eigvalsh(scaled)
    rank = np.asarray(np.count_nonzero(values > REGULAR_CONDITION * values[..., -1:], axis=-1))
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


def _least_squares(
    saddle: SaddlePoint, G: Array, rank: NDArray[np.int_], batch: tuple[int, ...]
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Forces and accelerations by the pseudo-inverse of ``G`` of the rank given, and whether all rows hold."""
    m = G.shape[-1]
    G = np.broadcast_to(G, (*batch, m, m))
    values, vectors = np.linalg.eigh(np.where(np.isfinite(G), G, 0.0))
    kept = np.arange(m) >= m - rank[..., None]
    inverse = np.where(kept, 1.0 / np.where(kept, values, 1.0), 0.0)
    J, free = numbers(saddle.J), numbers(saddle.free)
    missing = np.broadcast_to(numbers(saddle.missing), (*batch, m, 1))
    along = np.swapaxes(vectors, -1, -2) @ missing
    f = vectors @ (inverse[..., None] * along)
    qdd = free + numbers(saddle.respond(numbers(np.swapaxes(J, -1, -2) @ f)))
    left = np.linalg.norm(np.where(kept, 0.0, along[..., 0]), axis=-1)
    size = np.linalg.norm(numbers(saddle.gamma)[..., 0], axis=-1) + np.linalg.norm((J @ free)[..., 0], axis=-1)
    held = np.broadcast_to(left <= CONFLICT * size, batch)
    return f[..., 0], np.broadcast_to(qdd[..., 0], (*batch, qdd.shape[-2])), held
