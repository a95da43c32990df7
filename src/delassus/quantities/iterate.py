"""Proximal iterations until each state of a batch has converged (batched NumPy); see `proximal`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from delassus.algorithms.dynamics.proximal import ProximalPoint, proximal
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.model.rotations import Array
from delassus.spatial.numpy_ops import numbers

TOLERANCE = 1e-12
"""Iterations end where one changes the accelerations of the rows by less, relative to those that are asked for."""

MAX_ITERATIONS = 1000

WEIGHT = 1e-11
"""Weight of each hard row by its own diagonal entry: below all eigenvalues that count (`REGULAR_CONDITION`)."""

TRUE_RESIDUAL = 1e-6
"""States miss no more, or they have not converged: forces beyond ``1e10 / G``, of soft rows, leave no digits."""

STALLED = 0.999
"""What is missing stays for good if one iteration changes it by so much of what the one before did: exact iterations
shrink each part at its own rate, ``W / (σ + W)``, so that the part that is left has ``σ < 1e-3 W``."""


@dataclass(frozen=True, slots=True, eq=False)
class Iterated:
    """What iterations report by state (...): ``residual`` is the norm of what the rows still miss (m/s², rad/s²)."""

    iterations: NDArray[np.int_]
    residual: Array
    converged: NDArray[np.bool_]


def iterate(
    motion: DynamicsProblem, batch: tuple[int, ...], tolerance: float, most: int
) -> tuple[Solution, Iterated | None]:
    """Solve a batch; without constraints there is nothing to iterate on.

    Where rows are dependent, `delassus.quantities.redundancy` has the solution.
    """
    m = motion.problem.n_rows
    if not m:
        return proximal(motion), None
    point = ProximalPoint(motion, weight=1.0, own_weight=WEIGHT)
    asked = numbers(point.space.missing)
    missing, f = np.broadcast_to(asked, (*batch, m, 1)), np.zeros((*batch, m, 1))
    before, iterations = np.full(batch, np.inf), np.zeros(batch, dtype=int)
    running, converged = np.ones(batch, dtype=bool), np.zeros(batch, dtype=bool)
    for _ in range(most):
        d = numbers(point.step(numbers(missing)))
        f = np.where(running[..., None, None], f + d, f)
        left = numbers(point.left(d))
        change, most_left = (np.sqrt(numbers(point.part(x))) for x in (missing - left, left))
        iterations += running
        converged |= running & (np.minimum(change, most_left) <= tolerance)
        running = running & ~converged & (change < STALLED * before)
        if not running.any():
            break
        missing, before = left, change
    remains = asked - numbers(point.G) @ f
    converged &= np.sqrt(numbers(point.part(remains))) <= TRUE_RESIDUAL
    report = Iterated(np.asarray(iterations), np.array(np.linalg.norm(remains[..., 0], axis=-1)), converged)
    return Solution(point.space.accelerations(numbers(f)), numbers(f), point.G), report
