"""One time step by any formulation of [OS]: impact, contact, drift.

1. *Impact* ([OS] section 7), where a contact with restitution closes faster than gravity would close it in two steps:
   a compression phase that stops all approach, and a decompression phase that returns ``ε`` of each normal impulse.
2. *Contact* ([OS] sections 3 to 6, 8): smooth forces and contact impulses over the step, without restitution.
3. *Drift*: what bodies overlap beyond a tolerance, and loops gape, is taken back by a displacement of its own, without
   friction and without any change of velocity, so that it brings no kinetic energy.

`delassus.contact.formulations.formulation` says where this parts from [OS].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from delassus.contact.contacts import ContactSet
from delassus.contact.formulations import FORMULATIONS
from delassus.contact.formulations.problem import ContactProblem, collide
from delassus.contact.results import SOLVED, SolverStatus
from delassus.contact.snapshot import ConstraintRows, Snapshot
from delassus.contact.solvers.mixed import eliminated
from delassus.contact.solvers.registry import ImpulseSolver
from delassus.model.rotations import Array

NOTHING = np.zeros((0, 3))

YIELD, LEAST = 1e-2, 1e-12
"""Compliance of contacts where overlaps are taken back, over their mean mobility; and the least of these (1/kg)."""

FARTHEST = 10.0
"""How far contact points may move while overlaps are taken back, over the largest displacement wanted."""

MOST_SHIFT = 0.02
"""How far joints may move for that in one step (rad, m), since rows hold for small displacements only."""


@dataclass(frozen=True, slots=True)
class StepOptions:
    """Options of a time step; `Simulator` says what they are."""

    formulation: str
    dt: float
    resting: float
    penetration: float
    correction: float


class StepResult(NamedTuple):
    """Outcome of a time step.

    Attributes
    ----------
    v : (nv,) array
        Velocities at its end, free and planar joints in their axes of the start.
    drift : (nv,) array or None
        Displacement that takes back overlaps and loop errors; None if there are none.
    impulses, sustained : (n, 3) arrays
        Of all phases, and of the contact phase alone: tangent, tangent, normal, on the first link (N s).
    statuses : tuple of SolverStatus
        Of every problem that was solved.
    """

    v: Array
    drift: Array | None
    impulses: Array
    sustained: Array
    statuses: tuple[SolverStatus, ...]


def step(
    snapshot: Snapshot, contacts: ContactSet, solver: ImpulseSolver, options: StepOptions, start: Array | None = None
) -> StepResult:
    """Advance velocities by one step; ``start`` (3 n,): contact impulses for the solver to start from."""
    n, k, dt = len(contacts), snapshot.dynamics.n_loops, options.dt
    formulation = FORMULATIONS[options.formulation]
    if not n and not k and not formulation.has_hinges:
        return StepResult(snapshot.v + dt * snapshot.qdd, None, NOTHING, NOTHING, ())
    rows = snapshot.rows(contacts)
    model, approach = formulation(rows), rows.jacobian[k + 2 :: 3] @ snapshot.v
    none, total = (np.zeros(3 * n), np.zeros(n)), np.zeros((n, 3))
    statuses: list[SolverStatus] = []

    if np.any((approach < -options.resting) & (contacts.restitution > 0.0)):
        phases = collide(ContactProblem(model, snapshot, 0.0, solver.n_directions, *none), solver)
        statuses += [phase.status for phase in phases]
        total = phases[-1].impulses
        # forces that depend on velocities are others now
        snapshot = snapshot.dynamics.at(snapshot.q, phases[-1].velocity, snapshot.tau)

    found = ContactProblem(model, snapshot, dt, solver.n_directions, *none).solve(solver, start=start)
    statuses.append(found.status)
    shift = drift(rows, solver, options, statuses)
    return StepResult(found.velocity, shift, total + found.impulses, found.impulses, tuple(statuses))


def drift(
    rows: ConstraintRows, solver: ImpulseSolver, options: StepOptions, statuses: list[SolverStatus]
) -> Array | None:
    """Displacement of joints that reduces overlaps and loop errors; None where there is nothing to do.

    Contacts yield a little: one that can hardly move along its normal, such as of two neighbouring links that the joint
    between them cannot part, would otherwise throw the robot about. No contact point moves by more than `FARTHEST`
    times the largest displacement wanted, and no joint by more than `MOST_SHIFT`. Where the problem cannot be solved
    there is no displacement, and the status is added to ``statuses``.
    """
    k, overlap = rows.n_loops, rows.contacts.depths - options.penetration
    if not k and not np.any(overlap > 0.0):
        return None
    G = rows.delassus
    wanted = options.correction * np.concatenate([rows.snapshot.loop_errors, -np.maximum(overlap, 0.0)])
    kept = np.concatenate([np.arange(k), np.arange(k + 2, rows.n_rows, 3)])
    W = G[np.ix_(kept, kept)]
    normals = np.arange(k, kept.size)
    W[normals, normals] += YIELD * np.maximum(G.diagonal()[k:].reshape(-1, 3).mean(axis=1), LEAST)
    if k:  # impulses of loops follow from those of contacts
        loops, _, _ = eliminated(W[:k, :k], np.column_stack([W[:k, k:], wanted[:k]]))
        of_normals, b = W[k:, k:] - W[k:, :k] @ loops[:, :-1], wanted[k:] - W[k:, :k] @ loops[:, -1]
        found = solver.frictionless(0.5 * (of_normals + of_normals.T), b)
        impulses = np.concatenate([-(loops[:, :-1] @ found.p + loops[:, -1]), found.p])
    else:
        found = solver.frictionless(W, wanted)
        impulses = found.p
    if found.status not in SOLVED:
        statuses.append(found.status)
        return None
    p = np.zeros(rows.n_rows)
    p[kept] = impulses
    moved, most = float(np.abs(G @ p).max()), FARTHEST * float(np.abs(wanted).max())
    shift = rows.response(p if moved <= most else p * (most / moved))
    turned = float(np.abs(shift).max())
    return shift if turned <= MOST_SHIFT else shift * (MOST_SHIFT / turned)
