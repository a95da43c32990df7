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

STALLED = 0.999
"""What is missing stays for good if one iteration changes it by so much of what the one before did: exact iterations
shrink each part at its own rate, ``μ / (σ + μ)``, so that the part that is left has ``σ < 1e-3 μ``."""


@dataclass(frozen=True, slots=True, eq=False)
class Iterated:
    """What iterations report by state (...): ``residual`` is the norm of what the rows still miss (m/s², rad/s²).

    ``size`` is the norm of what they are asked for, and of what they do without constraint forces.
    """

    iterations: NDArray[np.int_]
    residual: Array
    converged: NDArray[np.bool_]
    size: Array


def iterate(
    motion: DynamicsProblem, batch: tuple[int, ...], tolerance: float, most: int
) -> tuple[Solution, Iterated | None]:
    """Solve a batch; without constraints there is nothing to iterate on."""
    m = motion.problem.n_rows
    if not m:
        return proximal(motion), None
    point = ProximalPoint(motion)
    space = point.space
    wanted = np.broadcast_to(numbers(space.missing), (*batch, m, 1))
    size = np.broadcast_to(_norm(numbers(space.gamma)) + _norm(numbers(space.gamma - space.missing)), batch)
    missing, f = wanted, np.zeros((*batch, m, 1))
    before = np.full(batch, np.inf)
    iterations, running = np.zeros(batch, dtype=int), np.ones(batch, dtype=bool)
    for _ in range(most):
        d = numbers(point.step(numbers(missing)))
        f = np.where(_each(running), f + d, f)
        left = numbers(point.left(d))
        change = _norm(missing - left)
        iterations += running
        resolved = (change <= tolerance * size) | (change >= STALLED * before)
        running = running & ~(resolved & (_norm(left) <= tolerance * size)) & np.isfinite(change)
        if not running.any():
            break

        # what no force can give is taken off, and iterations start again
        again = running & resolved
        wanted = np.where(_each(again), wanted - left, wanted)
        f = np.where(_each(again), 0.0, f)
        missing = np.where(_each(again), wanted, left)
        before = np.where(again, np.inf, change)
    f = f - _idle(point, f, tolerance, most)
    residual = np.broadcast_to(_norm(numbers(space.missing) - numbers(point.G) @ f), batch)
    report = Iterated(np.asarray(iterations), np.array(residual), ~running, size)
    return Solution(space.accelerations(numbers(f)), numbers(f), point.G), report


def _idle(point: ProximalPoint, f: Array, tolerance: float, most: int) -> Array:
    """Part of forces that moves nothing: what iterations on the forces themselves leave."""
    size, before = _norm(f), np.full(f.shape[:-2], np.inf)
    running = np.ones(f.shape[:-2], dtype=bool)
    for _ in range(most):
        left = np.where(_each(running), numbers(point.left(point.step(numbers(f)))), f)
        change = _norm(f - left)
        f, running = left, running & (change > tolerance * size) & (change < STALLED * before)
        before = change
        if not running.any():
            break
    return f


def _each(states: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Flags of states (...) for columns."""
    return states[..., None, None]


def _norm(a: Array) -> Array:
    return np.asarray(np.linalg.norm(a[..., 0], axis=-1))
