"""Proximal iterations as far as each state of a batch needs them (batched NumPy); see `proximal`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from delassus.algorithms.dynamics.kkt import SaddlePoint
from delassus.algorithms.dynamics.proximal import ITERATIONS, ProximalPoint, missed, proximal, shift
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.spatial.numpy_ops import numbers
from delassus.spatial.rotations import Array

TOLERANCE = 1e-9
"""Iterations have converged where as many again change what the rows miss by less, relative to what they ask for."""


ROUNDING = 64.0
"""Round-off of accelerations without constraints, over that of those which joint forces cause alone: in balance
nothing else is left of them."""

SMALLEST = 1e-300
"""What keeps a quotient from being 0 / 0 where nothing moves and nothing is asked for."""


@dataclass(frozen=True, slots=True, eq=False)
class Iterated:
    """Report of iterations by state (...); ``residual`` is the norm of the rows' residuals (m/s², rad/s²)."""

    iterations: NDArray[np.int_]
    residual: Array
    converged: NDArray[np.bool_]


def iterate(
    motion: DynamicsProblem, batch: tuple[int, ...], tolerance: float, most: int
) -> tuple[Solution, Iterated | None]:
    """Solve a batch by as few iterations as converge, `ITERATIONS` at most.

    Without constraints there is nothing to iterate on. Where rows are dependent, `delassus.accuracy.status` has
    the solution.
    """
    m = motion.problem.n_rows
    if not m:
        return proximal(motion), None
    point, saddle = ProximalPoint(motion), SaddlePoint(motion)
    G, asked, gamma = (numbers(x) for x in (saddle.G, saddle.row_deficit, saddle.gamma))
    scale = 1.0 / np.maximum(np.diagonal(G, axis1=-2, axis2=-1), np.finfo(float).tiny)[..., None]

    by_joints = numbers(saddle.J @ saddle.solve_mass_matrix(motion.ops.vstack(motion.tau)))
    rounding = ROUNDING * np.finfo(float).eps / tolerance * by_joints

    def part(x: Array) -> Array:
        """Accelerations of the rows by those asked for and had without constraints, all at unit diagonal."""
        size = np.sum(scale * (gamma * gamma + (gamma - asked) ** 2 + rounding * rounding), axis=(-2, -1))
        return np.asarray(np.sqrt(np.sum(scale * x * x, axis=(-2, -1)) / (size + SMALLEST)))

    b = [np.broadcast_to(numbers(x), (*batch, m, 1)) for x in missed(point, motion)]
    added, converged = np.zeros((*batch, m, 1)), np.zeros(batch, dtype=bool)
    iterations = np.full(batch, min(most, ITERATIONS))
    for k in range(1, min(most, ITERATIONS) + 1):
        chosen = ~converged
        added = np.where(chosen[..., None, None], numbers(shift(b, k)), added)
        if k > 1:
            converged |= part(b[k - 1] - b[2 * k - 2]) <= tolerance
        iterations[chosen] = k
    solution = point.without_idle(point.solve(numbers(added)))
    remains = asked - G @ numbers(solution.forces)
    report = Iterated(np.asarray(iterations), np.array(np.linalg.norm(remains[..., 0], axis=-1)), converged)
    return solution, report
