"""``delassus warmup``: compile the loops of contact before they are needed, and say how long each part took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from delassus.compiler.machine.background import waiting
from delassus.contact import Box, Collider, CollisionDetector, HalfSpace, Scene, Sphere
from delassus.model.mechanisms import free_body
from delassus.simulate.simulator import Simulator
from delassus.solvers.registry import ImpulseSolver

NOT_REACHED = 1e-300
"""A tolerance that makes a solver try all that it has."""

FEW = 100
"""Most iterations of each way that a solver tries."""


def parts() -> Iterator[tuple[str, float]]:
    """Compile one part after the other; each with the time that it took (s), 0 where it was in the cache."""
    jobs: dict[str, Any] = {"collision": _detect, "steps of Simulator": _step}
    jobs |= {f"solver {name}": partial(_solve, name) for name in ("admm", "nsgs", "pgs", "lemke")}
    for name, job in jobs.items():
        start = time.perf_counter()
        with waiting():
            job()
        yield name, time.perf_counter() - start


def _detect() -> None:
    """A ball on the ground: all shapes are one function."""
    scene = Scene(free_body(1.0, np.eye(3)), [Collider("body", Sphere(0.5)), Collider("world", HalfSpace())])
    CollisionDetector(scene).contacts(np.eye(3, 4)[None])


def _step() -> None:
    """A box on the ground."""
    scene = Scene(free_body(1.0, np.eye(3)), [Collider("body", Box(1.0, 1.0, 1.0)), Collider("world", HalfSpace())])
    simulator = Simulator(scene, q0=[0, 0, 0.5, 0, 0, 0, 1])
    simulator.step()


def _solve(name: str) -> None:
    """Two contacts, one of which slips."""
    ImpulseSolver(name, tolerance=NOT_REACHED, max_iterations=FEW)(
        np.eye(6) + 0.1, np.array([3.1, 4.2, -1.3, 0.1, 0.2, -1.7]), np.full(2, 0.5), np.zeros(2)
    )
