"""Proximal iterations as far as each state of a batch needs them, on arrays that programs return; see `proximal`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from delassus.algorithms.dynamics.proximal import ITERATIONS
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


def iterations_of(
    G: Array, asked: Array, gamma: Array, by_joints: Array, b: Array, tolerance: float, most: int
) -> Iterated:
    """How many iterations each state (k) needs, `ITERATIONS` and ``most`` at most; the residual is that of none.

    ``asked`` (k, m) are the accelerations of rows that constraints add, of ``gamma``, ``by_joints`` those that joint
    forces cause, and ``b`` (k, 2 n − 1, m) what rows miss after each of the iterations.
    """
    scale = 1.0 / np.maximum(np.diagonal(G, axis1=-2, axis2=-1), np.finfo(float).tiny)
    rounding = ROUNDING * np.finfo(float).eps / tolerance * by_joints
    size = np.sum(scale * (gamma * gamma + (gamma - asked) ** 2 + rounding * rounding), axis=-1)

    most, n = min(most, ITERATIONS), len(b)
    converged, iterations = np.zeros(n, dtype=bool), np.full(n, most)
    for k in range(1, most + 1):
        iterations[~converged] = k
        if k > 1:  # accelerations of the rows by those asked for and had without constraints, all at unit diagonal
            x = b[:, k - 1] - b[:, 2 * k - 2]
            converged |= np.sqrt(np.sum(scale * x * x, axis=-1) / (size + SMALLEST)) <= tolerance
    return Iterated(iterations, np.zeros(n), converged)
