"""Impulses of compiled contact steps, state by state, by a solver that ends where sweeps do not.

The problem of a contact step becomes that of `ConeProblem`: each side of a limit is a contact without friction, dry
friction one without a normal (`delassus.contact.joint_contacts`), and a least normal impulse an offset of friction.
Rows of spins of patches are further groups of three.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from delassus.algorithms.contact.problem import StepProblem
from delassus.contact.solvers.registry import ImpulseSolver
from delassus.spatial.rotations import Array

PASSES = 2000
"""Most iterations for a state."""

STRICTER = 0.1
"""Part of the tolerance that they are held to."""


def exact_impulses(problem: StepProblem, tolerance: float) -> list[Any]:
    """Impulses (one array a row) of the states of a batch, by `nsgs`."""
    bounds: list[Any] = [x for y in problem.joints for x in (*y.bounds, y.friction) if x is not None]
    given = [x for y in problem.points for x in (y.friction, y.floor) if x is not None]
    entries = [x for row in problem.G for x in row]
    shape = np.broadcast_shapes(*(np.shape(x) for x in (*problem.b, *bounds, *given, *entries)))

    def states(x: Any) -> Array:
        return np.broadcast_to(np.asarray(x, float), shape).reshape(-1)

    floors = [0.0 if point.floor is None else point.floor for point in problem.points]
    raised = [(point.row + 2, floor) for point, floor in zip(problem.points, floors, strict=True)]
    free = [sum((row[k] * floor for k, floor in raised), x) for row, x in zip(problem.G, problem.b, strict=True)]
    rows, signs, right, mu, offsets = list[int](), list[Any](), list[Any](), list[Any](), list[Any]()
    patches = dict[int, int]()

    def add(own: Sequence[int], sides: Sequence[Any], bound: Any, friction: Any, offset: Any) -> None:
        rows.extend(own)
        signs.extend(sides)
        right.extend(side * (free[row] - bound) for row, side in zip(own, sides, strict=True))
        mu.append(friction)
        offsets.append(offset)

    for point, floor in zip(problem.points, floors, strict=True):
        add(range(point.row, point.row + 3), (1.0, 1.0, 1.0), 0.0, point.friction, point.friction * floor)
    for joint in problem.joints:
        for bound, side in zip(joint.bounds, (1.0, -1.0), strict=True):
            if bound is not None:
                add([joint.row] * 3, (0.0, 0.0, side), bound, 0.0, 0.0)
        if joint.friction is not None:
            add([joint.row] * 3, (1.0, 0.0, 0.0), 0.0, 0.0, joint.friction)
    for k, point in enumerate(problem.points):
        if point.spins:
            patches[k], own = len(mu), list(point.spins)
            missing = 3 - len(own)
            add([*own, *own[:1] * missing], [point.over] * len(own) + [0.0] * missing, 0.0, 0.0, 0.0)
    S = np.stack([states(x) for x in signs])
    G = np.stack([np.stack([states(problem.G[i][j]) for j in rows]) for i in rows]) * S[:, None] * S
    partner = np.full(len(mu), -1)
    for i, j in patches.items():
        partner[i] = j
    b, *of_each = (np.stack([states(x) for x in values]) for values in (right, mu, offsets))
    out, solver = np.zeros((len(problem.G), b.shape[1])), ImpulseSolver("nsgs", 4, STRICTER * tolerance, PASSES)
    for k in range(b.shape[1]):
        W = np.ascontiguousarray(0.5 * (G[:, :, k] + G[:, :, k].T))
        free_of, friction, offset = (np.ascontiguousarray(x[:, k]) for x in (b, *of_each))
        np.add.at(out[:, k], rows, S[:, k] * solver(W, free_of, friction, offset, partner=partner).p)
    for point, floor in zip(problem.points, floors, strict=True):
        out[point.row + 2] += states(floor)
    return [x.reshape(shape) for x in out]
