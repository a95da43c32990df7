"""Derivatives of steps of a simulator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from delassus.contact.changes.matrix import BlockMatrix
from delassus.contact.changes.step import IslandChanges
from delassus.contact.results import SolverStatus
from delassus.contact.snapshot import Indices
from delassus.frozen import Frozen
from delassus.simulate.controls import Rates
from delassus.spatial.rotations import Array

EXACT = ("newton", "nsgs", "admm", "interior")
"""Solvers of friction cones."""


@dataclass(frozen=True, slots=True, eq=False)
class StepDerivatives(Frozen):
    """Derivatives of one step of a `Simulator`: ``[δq⁺; δv⁺] = A [δq; δv] + B δu``.

    Changes of configurations are in the tangent that `Tree.integrate` moves on, as those of
    `delassus.step_derivatives`. Bodies that no contact ties have no entries with one another.

    Attributes
    ----------
    A : BlockMatrix
        (2 nv, 2 nv): of the state after the step with that before.
    B : BlockMatrix
        (2 nv, nu): with joint forces, controls or target configurations, as `Simulator.step` takes them.
    distance : float
        Change of a velocity (m/s, rad/s) at which a contact or joint sticks, slides or opens that does otherwise now;
        derivatives are others there.
    status : SolverStatus
        How the step was solved; `NOT_DIFFERENTIABLE` where derivatives of a part of it are not known.
    """

    A: BlockMatrix
    B: BlockMatrix
    distance: float
    status: SolverStatus


def step_derivatives(
    found: tuple[list[IslandChanges], float, bool], status: SolverStatus, dofs: Indices, rates: Rates | None
) -> StepDerivatives:
    """Derivatives of a step with ``status`` from those of islands, whose degrees of freedom are ``dofs`` of the scene.

    ``rates`` are changes of joint forces with positions, velocities and controls; None where they are controls.
    """
    islands, distance, known = found
    nv, places = len(dofs), [dofs[island.dofs] for island in islands]
    made = [_with_controls(x, at, rates) for x, at in zip(islands, places, strict=True)]
    rows = tuple(np.concatenate([at, nv + at]) for at in places)
    A = BlockMatrix((2 * nv, 2 * nv), rows, rows, tuple(block for block, _, _ in made))
    n_controls = nv if rates is None else rates[2].shape[1]
    B = BlockMatrix((2 * nv, n_controls), rows, tuple(at for _, at, _ in made), tuple(block for *_, block in made))
    return StepDerivatives(A, B, distance, status if known else SolverStatus.NOT_DIFFERENTIABLE)


def _with_controls(island: IslandChanges, at: Any, rates: Rates | None) -> tuple[Array, Any, Array]:
    """Blocks of ``A`` and ``B`` of an island, and the controls that act on it."""
    with_state = np.hstack([island.with_q, island.with_v])
    if rates is None:
        return with_state, at, island.with_tau
    with_q, with_v, with_u = (x[at] for x in rates)
    acting = np.flatnonzero(with_u.any(axis=0))
    with_state = with_state + island.with_tau @ np.hstack([with_q[:, at], with_v[:, at]])
    return with_state, acting, island.with_tau @ with_u[:, acting]
