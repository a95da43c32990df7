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
from delassus.spatial.numpy_ops import numbers
from delassus.spatial.ops import Matrix

REGULAR_CONDITION = 1e-10
"""Eigenvalues of ``G`` at unit diagonal below this part of the largest count as zero."""

UNMOVED = 1e-20
"""A row counts as one that nothing moves if its mobility, relative to `mobility_bound`, is below this: the row's
round-off (1e-16) enters squared."""

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

    ``rank`` (...) counts soft rows as independent, and not those of constraints that are off; ``redundant`` (..., m)
    are rows that depend on those before them, none where the status is `FAILED`.
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
    qdd, forces = _vectors(solution.qdd, (*batch, nv)), _vectors(solution.forces, (*batch, m))
    status: NDArray[np.object_] = np.full(batch, DynamicsStatus.SOLVED, dtype=object)
    rank, redundant = np.full(batch, m), np.zeros((*batch, m), dtype=bool)
    if m and iterated is not None:
        rank, redundant = independence(problem, problem.relaxed(numbers(solution.delassus)), batch)
        status[rank < m] = DynamicsStatus.REDUNDANT
        status[(rank < m) & (iterated.residual > CONFLICT * iterated.size)] = DynamicsStatus.CONFLICTING
        status[~iterated.converged] = DynamicsStatus.UNFINISHED
    elif m and not all(motion.softness):
        saddle = None if solution.delassus is not None else SaddlePoint(motion)
        G = numbers(problem.relaxed(numbers(solution.delassus) if saddle is None else saddle.G))
        rank, redundant = independence(problem, G, batch)
        if saddle is not None and solution.pivot is not None:
            unfit = ~(np.broadcast_to(numbers(solution.pivot), batch) > least_pivot("float64"))
            if unfit.any():
                other = saddle.solve()
                qdd[unfit] = _vectors(other.qdd, qdd.shape)[unfit]
                forces[unfit] = _vectors(other.forces, forces.shape)[unfit]
        deficient = rank < m
        if deficient.any():
            f, a, held = _least_squares(saddle or SaddlePoint(motion), G, rank, batch)
            qdd[deficient], forces[deficient] = a[deficient], f[deficient]
            status[deficient] = DynamicsStatus.CONFLICTING
            status[deficient & held] = DynamicsStatus.REDUNDANT
    for c, rows in enumerate(problem.rows):
        if (flag := problem.flag(c)) is not None:
            rank = rank - np.where(numbers(flag), 0, rows.stop - rows.start)
            forces[..., rows] = np.where(np.asarray(flag)[..., None], forces[..., rows], 0.0)
    failed = ~(np.isfinite(qdd).all(axis=-1) & np.isfinite(forces).all(axis=-1))
    status[failed], redundant[failed] = DynamicsStatus.FAILED, False
    return Resolved(qdd, forces, status, rank, redundant, iterated)


def _vectors(column: Matrix, shape: tuple[int, ...]) -> Array:
    return np.array(np.broadcast_to(numbers(column)[..., 0], shape))


def worst(statuses: list[NDArray[np.object_]]) -> NDArray[np.object_]:
    """The last status in the order of `DynamicsStatus` that each state has had."""
    out = statuses[0].copy()
    for status in DynamicsStatus:
        for one in statuses[1:]:
            out[(one == status) & (out != one)] = status
    return out


# -- rank ----------------------------------------------------------------------------------------------------------


def mobility_bound(problem: Problem, body: Articulated) -> Array:
    """Size (..., m) that the diagonal of ``G`` has where no row is badly placed.

    The squared length of the row times the largest ``S D⁻¹ Sᵀ`` of the joints that support its link.
    """
    tree = problem.tree
    own = [np.max(diagonal_of(numbers(body.joint_inverse_inertia(i))), axis=-1) for i in range(tree.n_links)]
    bounds = [np.zeros(c.size) for c in problem.constraints]
    for end in problem.ends:
        offered = np.max(np.stack(np.broadcast_arrays(*(own[i] for i in tree.support(end.link)))), axis=0)
        bounds[end.constraint] = bounds[end.constraint] + offered[..., None] * np.sum(numbers(end.K) ** 2, axis=-1)
    batch = np.broadcast_shapes(*(bound.shape[:-1] for bound in bounds))
    whole = [np.broadcast_to(bound, (*batch, bound.shape[-1])) for bound in bounds]
    return np.concatenate(whole, axis=-1) if whole else np.zeros(0)


def at_unit_diagonal(G: Array, least: Array) -> tuple[Array, NDArray[np.int_]]:
    """``G`` (..., m, m) at unit diagonal, and its rank (...); rows whose diagonal is not above ``least`` are zero."""
    diagonal = diagonal_of(G)
    moved = diagonal > least
    scale = np.where(moved, 1.0 / np.sqrt(np.where(moved, diagonal, 1.0)), 0.0)
    scaled = scale[..., :, None] * G * scale[..., None, :]
    scaled = np.where(np.isfinite(scaled), scaled, 0.0)  # overflow: `resolve` says so
    values = np.linalg.eigvalsh(scaled)
    return scaled, np.asarray(np.count_nonzero(values > REGULAR_CONDITION * values[..., -1:], axis=-1))


def independence(problem: Problem, G: Matrix, batch: tuple[int, ...]) -> tuple[NDArray[np.int_], NDArray[np.bool_]]:
    """How many rows are independent at each state (*batch), and which depend on others (*batch, m)."""
    m, least = problem.n_rows, UNMOVED * mobility_bound(problem, Articulated(problem))
    scaled, rank = at_unit_diagonal(np.broadcast_to(numbers(G), (*batch, m, m)), least)
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


def pseudo_inverse(G: Array, rank: NDArray[np.int_]) -> Array:
    """Pseudo-inverse of each matrix (..., m, m), of the rank (...) given."""
    m = G.shape[-1]
    values, vectors = np.linalg.eigh(np.where(np.isfinite(G), G, 0.0))
    kept = np.arange(m) >= m - rank[..., None]
    inverse = np.where(kept, 1.0 / np.where(kept, values, 1.0), 0.0)
    return np.asarray((vectors * inverse[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def _least_squares(
    saddle: SaddlePoint, G: Array, rank: NDArray[np.int_], batch: tuple[int, ...]
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Forces and accelerations by the pseudo-inverse of ``G`` of the rank given, and whether all rows hold."""
    m, nv = numbers(saddle.J).shape[-2:]
    G = np.broadcast_to(G, (*batch, m, m))
    J, free, missing = numbers(saddle.J), numbers(saddle.free), numbers(saddle.missing)
    f = pseudo_inverse(G, rank) @ missing
    qdd = free + numbers(saddle.respond(numbers(np.swapaxes(J, -1, -2) @ f)))
    left = np.linalg.norm((missing - G @ f)[..., 0], axis=-1)
    size = np.linalg.norm(numbers(saddle.gamma)[..., 0], axis=-1) + np.linalg.norm((J @ free)[..., 0], axis=-1)
    return f[..., 0], _vectors(qdd, (*batch, nv)), np.broadcast_to(left <= CONFLICT * size, batch)


def diagonal_of(G: Array) -> Array:
    """Diagonal (..., m)."""
    return np.asarray(np.diagonal(G, axis1=-2, axis2=-1))
