"""One time step in operational space, every part by compiled code: impact, contact, drift.

1. *Impact* ([OS] section 7), where a contact with restitution closes faster than gravity would close it in two steps:
   a compression phase that stops all approach, and a decompression phase that returns ``ε`` of each normal impulse.
2. *Contact* ([OS] section 6): smooth forces and contact impulses over the step, ``u⁺ = J v⁺``, without restitution.
3. *Drift*: what bodies overlap beyond a tolerance, and loops gape, is taken back by a displacement of its own, without
   friction and without any change of velocity, so that it brings no kinetic energy.

Deviation from [OS]: contacts and loops hold for the velocities at the end of the step in the geometry at its start, so
that no ``J̇ v`` appears and loop velocities do not drift (Stewart and Trinkle 1996; Anitescu and Potra 1997).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from delassus.contact.contacts import ContactSet
from delassus.contact.impulses import ImpulseSolver
from delassus.contact.results import SolverStatus
from delassus.contact.snapshot import ContactDynamics, Ends, Snapshot
from delassus.model.rotations import Array

NOTHING = np.zeros((0, 3))

YIELD, LEAST = 1e-2, 1e-12
"""Compliance of contacts where overlaps are taken back, over their mean mobility; and the least of these (1/kg)."""

FARTHEST = 10.0
"""How far contact points may move while overlaps are taken back, over the largest displacement wanted."""

MOST_SHIFT = 0.02
"""How far joints may move for that in one step (rad, m), since rows hold for small displacements only."""

SOUND = (SolverStatus.CONVERGED, SolverStatus.ROUND_OFF)
"""Statuses that leave nothing to warn of."""


@dataclass(frozen=True, slots=True)
class StepOptions:
    """What one step needs to know beside the state.

    Attributes
    ----------
    dt : float
        Time step (s).
    resting : float
        Approach velocity (m/s) up to which a contact rests and does not bounce.
    penetration : float
        Overlap (m) that is left alone, so that resting contacts stay contacts.
    correction : float
        Part of the overlap beyond that, and of loop errors, that each step takes back.
    """

    dt: float
    resting: float
    penetration: float
    correction: float


@dataclass(frozen=True, slots=True, eq=False)
class StepResult:
    """What a step did.

    Attributes
    ----------
    v : (nv,) array
        Velocity at the end of the step.
    drift : (nv,) array or None
        Displacement that takes back overlaps and loop errors; None if there are none.
    impulses : (n, 3) array
        Of all phases at each contact: tangent, tangent, normal, on its first link (N s).
    sustained : (n, 3) array
        Those of the contact phase alone.
    statuses : tuple of SolverStatus
        Of every problem that was solved.
    bounced : bool
        Whether there was an impact.
    """

    v: Array
    drift: Array | None
    impulses: Array
    sustained: Array
    statuses: tuple[SolverStatus, ...]
    bounced: bool


def step(
    dynamics: ContactDynamics,
    snapshot: Snapshot,
    contacts: ContactSet,
    q: Array,
    v: Array,
    tau: Array,
    solver: ImpulseSolver,
    options: StepOptions,
    start: Array | None = None,
) -> StepResult:
    """Advance velocities by one step; ``start`` (3 n,): contact impulses for the solver to start from."""
    n, k, dt = len(contacts), dynamics.n_loops, options.dt
    if not n and not k:
        return StepResult(v + dt * snapshot.qdd, None, NOTHING, NOTHING, (), False)
    free = v + dt * snapshot.qdd
    ends, G, u, u_free = snapshot.assemble(contacts, v, free)
    statuses: list[SolverStatus] = []
    total = np.zeros(ends.n_rows)
    bounced = bool(n) and bool(np.any((u[k + 2 :: 3] < -options.resting) & (contacts.restitution > 0.0)))

    if bounced:
        p = impact(G, u, k, contacts, solver, statuses)
        v = v + snapshot.response(ends, p)
        total += p
        snapshot = dynamics.at(q, v, tau)  # forces that depend on velocities are others now
        free = v + dt * snapshot.qdd
        u_free = snapshot.velocities(ends, free)

    found = solver(G, u_free, k, contacts.friction, start)
    statuses.append(found.status)
    total += found.p
    v = free + snapshot.response(ends, found.p)
    return StepResult(
        v,
        drift(snapshot, ends, G, contacts, solver, options, statuses),
        total[k:].reshape(-1, 3),
        found.p[k:].reshape(-1, 3),
        tuple(statuses),
        bounced,
    )


def impact(
    G: Array, u: Array, n_loops: int, contacts: ContactSet, solver: ImpulseSolver, statuses: list[SolverStatus]
) -> Array:
    """Impulses of compression and decompression together, from the velocities ``u`` before ([OS] eqs. 54–58).

    Deviation: friction during decompression may reach ``μ`` times the whole normal impulse, the returned one included;
    in [OS] eq. 57 the returned impulse has none, and a fast spinning ball would bounce off with too little of it.
    """
    compression = solver(G, u, n_loops, contacts.friction)
    statuses.append(compression.status)
    returned = np.zeros(u.size)
    returned[n_loops + 2 :: 3] = contacts.restitution * compression.p[n_loops + 2 :: 3]  # [OS] eq. 56
    p = compression.p + returned
    decompression = solver.decompression(G, u + G @ p, n_loops, contacts.friction, returned[n_loops + 2 :: 3])
    statuses.append(decompression.status)
    return np.asarray(p + decompression.p)


def drift(
    snapshot: Snapshot,
    ends: Ends,
    G: Array,
    contacts: ContactSet,
    solver: ImpulseSolver,
    options: StepOptions,
    statuses: list[SolverStatus],
) -> Array | None:
    """Displacement of joints that reduces overlaps and loop errors; None where there is nothing to do.

    Contacts yield a little: one that can hardly move along its normal, such as of two neighbouring links that the joint
    between them cannot part, would otherwise throw the robot about. No contact point moves by more than `FARTHEST`
    times the largest displacement wanted, and no joint by more than `MOST_SHIFT`. Where the problem cannot be solved
    there is no displacement, and the status is added to ``statuses``.
    """
    k = ends.n_loops
    overlap = contacts.depths - options.penetration
    if not k and not np.any(overlap > 0.0):
        return None
    rows = np.concatenate([np.arange(k), np.arange(k + 2, ends.n_rows, 3)])
    wanted = np.concatenate([snapshot.loop_errors, -np.maximum(overlap, 0.0)])
    W = G[np.ix_(rows, rows)]
    normals = np.arange(k, rows.size)
    W[normals, normals] += YIELD * np.maximum(G.diagonal()[k:].reshape(-1, 3).mean(axis=1), LEAST)
    wanted *= options.correction
    found = solver.frictionless(W, wanted, k)
    if found.status not in SOUND:
        statuses.append(found.status)
        return None
    p = np.zeros(ends.n_rows)
    p[rows] = found.p
    moved, most = float(np.abs(G @ p).max()), FARTHEST * float(np.abs(wanted).max())
    shift = snapshot.response(ends, p if moved <= most else p * (most / moved))
    turned = float(np.abs(shift).max())
    return shift if turned <= MOST_SHIFT else shift * (MOST_SHIFT / turned)
