"""One time step by any formulation of [OS], through the problem that it builds; `step` is the fast one.

Phases and results are those of `step`; drift is taken back in the same way, since it is no part of a formulation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from delassus.contact.contacts import ContactSet
from delassus.contact.formulate import formulate, formulate_impact
from delassus.contact.impact import collide
from delassus.contact.impulses import ImpulseSolver
from delassus.contact.results import SolverStatus
from delassus.contact.snapshot import ContactDynamics, Snapshot
from delassus.contact.state import State
from delassus.model.rotations import Array
from delassus.simulate.step import StepOptions, StepResult, drift


def step_by_formulation(
    formulation: str,
    dynamics: ContactDynamics,
    snapshot: Snapshot,
    contacts: ContactSet,
    q: Array,
    v: Array,
    tau: Array,
    solver: ImpulseSolver,
    options: StepOptions,
) -> StepResult:
    """Advance velocities by one step."""
    scene, n, k = dynamics.scene, len(contacts), dynamics.n_loops
    total = np.zeros((n, 3))
    statuses: list[SolverStatus] = []
    ends, G, u, _ = snapshot.assemble(contacts, v, v)
    bounced = bool(np.any((u[k + 2 :: 3] < -options.resting) & (contacts.restitution > 0.0)))
    how: dict[str, Any] = {"contacts": contacts, "n_directions": solver.n_directions, "dynamics": dynamics}

    if bounced:
        instant = formulate_impact(scene, State(q, v, tau), formulation, snapshot=snapshot, **how)
        impact = collide(instant, solver.name, tolerance=solver.tolerance)
        statuses.append(impact.compression.status)
        if impact.decompression is not None:
            statuses.append(impact.decompression.status)
        v, total = impact.velocity, total + impact.impulses
        snapshot = dynamics.at(q, v, tau)

    problem = formulate(scene, State(q, v, tau), formulation, dt=options.dt, snapshot=snapshot, **how)
    found = problem.solve(solver.name, tolerance=solver.tolerance)
    statuses.append(found.status)
    shift = drift(snapshot, ends, G, contacts, solver, options, statuses)
    return StepResult(found.velocity, shift, total + found.impulses, found.impulses, tuple(statuses), bounced)
