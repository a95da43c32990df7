"""States at which the constraint rows are dependent: rank, status, and the least-squares solution (batched NumPy).

Where ``G`` is singular, straight-line solutions are not numbers. There, ``f`` is the least-norm minimiser of
``‖J q̈ − γ‖``: the solution that the pseudo-inverse of ``G`` gives, and proximal iterations converge to. Accelerations
are then those nearest to the free ones in the metric of ``M``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.dynamics.iterate import Iterated
from delassus.algorithms.dynamics.kkt import SaddlePoint
from delassus.algorithms.dynamics.solution import Solution, least_pivot
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.operator import REGULAR_CONDITION, UNMOVED, mobility_bound
from delassus.model.rotations import Array

CONFLICT = 1e-8
"""Rows contradict one another if this part of the acceleration that they have to add stays missing: round-off (1e-16)
over the smallest eigenvalue that counts (`REGULAR_CONDITION`), with room."""


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
class Settled:
    """Solutions of a batch, all states dealt with.

    Attributes
    ----------
    qdd : (..., nv) array
    forces : (..., m) array
    status : (...) array of DynamicsStatus
    rank : (...) array of int
        Number of independent rows; soft ones always are.
    """

    qdd: Array
    forces: Array
    status: NDArray[np.object_]
    rank: NDArray[np.int_]


def settle(
    motion: DynamicsProblem, solution: Solution, batch: tuple[int, ...], iterated: Iterated | None = None
) -> Settled:
    """Check the rank of the rows at each state, and solve again where it is deficient.

    Problems whose constraints are all soft are regular, and iterations have gone to the least-squares solution.
    """
    problem = motion.problem
    m, nv = problem.n_rows, motion.tree.nv
    qdd = np.array(np.broadcast_to(solution.qdd[..., 0], (*batch, nv)))
    forces = np.array(np.broadcast_to(solution.forces[..., 0], (*batch, m)))
    status: NDArray[np.object_] = np.full(batch, DynamicsStatus.SOLVED, dtype=object)
    rank = np.full(batch, m)
    if m and iterated is not None:
        G = np.broadcast_to(np.asarray(solution.delassus), (*batch, m, m))
        rank = _rank(G, np.broadcast_to(_least(motion), (*batch, m)))
        status[rank < m] = DynamicsStatus.REDUNDANT
        status[(rank < m) & (iterated.residual > CONFLICT * iterated.size)] = DynamicsStatus.CONFLICTING
        status[~iterated.converged] = DynamicsStatus.UNFINISHED
    elif m and not all(motion.softness):
        saddle = None if solution.delassus is not None else SaddlePoint(motion)
        G = np.broadcast_to(np.asarray(solution.delassus if saddle is None else saddle.G), (*batch, m, m))
        rank = _rank(G, np.broadcast_to(_least(motion), (*batch, m)))
        if saddle is not None and solution.pivot is not None:
            unfit = ~(np.broadcast_to(solution.pivot, batch) > least_pivot("float64"))
            if unfit.any():
                other = saddle.solve()
                qdd[unfit] = np.broadcast_to(other.qdd[..., 0], qdd.shape)[unfit]
                forces[unfit] = np.broadcast_to(other.forces[..., 0], forces.shape)[unfit]
        deficient = rank < m
        if deficient.any():
            again = _least_squares(saddle or SaddlePoint(motion), rank, batch)
            qdd[deficient], forces[deficient] = again.qdd[deficient], again.forces[deficient]
            status[deficient] = again.status[deficient]
    failed = ~(np.isfinite(qdd).all(axis=-1) & np.isfinite(forces).all(axis=-1))
    status[failed] = DynamicsStatus.FAILED
    return Settled(qdd, forces, status, rank)


def _least(motion: DynamicsProblem) -> Array:
    """What the mobility (..., m) of a row has to exceed."""
    return UNMOVED * mobility_bound(motion.problem, Articulated(motion.problem))


def _rank(G: Array, least: Array) -> NDArray[np.int_]:
    """Number of independent rows of each matrix (..., m, m), at unit diagonal; rows that nothing moves do not count."""
    diagonal = np.diagonal(G, axis1=-2, axis2=-1)
    moved = diagonal > least
    scale = np.where(moved, 1.0 / np.sqrt(np.where(moved, diagonal, 1.0)), 0.0)
    scaled = scale[..., :, None] * G * scale[..., None, :]
    scaled = np.where(np.isfinite(scaled), scaled, 0.0)  # overflow: `settle` says so
    values = np.linalg.eigvalsh(scaled)
    return np.asarray(np.count_nonzero(values > REGULAR_CONDITION * values[..., -1:], axis=-1))


def _least_squares(saddle: SaddlePoint, rank: NDArray[np.int_], batch: tuple[int, ...]) -> Settled:
    """Solve with the pseudo-inverse of ``G`` of the rank given."""
    m = saddle.G.shape[-1]
    G = np.broadcast_to(saddle.G, (*batch, m, m))
    values, vectors = np.linalg.eigh(np.where(np.isfinite(G), G, 0.0))
    kept = np.arange(m) >= m - rank[..., None]
    inverse = np.where(kept, 1.0 / np.where(kept, values, 1.0), 0.0)
    missing = np.broadcast_to(saddle.missing, (*batch, m, 1))
    along = np.swapaxes(vectors, -1, -2) @ missing
    f = vectors @ (inverse[..., None] * along)
    qdd = saddle.free + saddle.respond(np.swapaxes(saddle.J, -1, -2) @ f)
    left = np.linalg.norm(np.where(kept, 0.0, along[..., 0]), axis=-1)
    size = np.linalg.norm(saddle.gamma[..., 0], axis=-1) + np.linalg.norm((saddle.J @ saddle.free)[..., 0], axis=-1)
    conflicting = np.broadcast_to(left > CONFLICT * size, batch)
    status: NDArray[np.object_] = np.full(batch, DynamicsStatus.REDUNDANT, dtype=object)
    status[conflicting] = DynamicsStatus.CONFLICTING
    return Settled(np.broadcast_to(qdd[..., 0], (*batch, qdd.shape[-2])), f[..., 0], status, rank)
