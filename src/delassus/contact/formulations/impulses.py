"""Impulses of a step's rows by a formulation of [OS] and a solver by name, dense.

A step asks for them problem by problem: compression and decompression of impacts ([OS] section 7), then the step ([OS]
sections 3 to 6, 8). Each is the problem of an instant, at the velocities that smooth forces bring.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from delassus.contact.collision.colliders import ContactArrays
from delassus.contact.contacts import ContactSet
from delassus.contact.formulations import FORMULATIONS
from delassus.contact.formulations.problem import ContactProblem, ContactSolution
from delassus.contact.joint_contacts import STEPS_AHEAD, JointContacts
from delassus.contact.snapshot import ContactDynamics
from delassus.contact.sparse.blocks import Blocks
from delassus.contact.sparse.impact import DONE
from delassus.contact.sparse.records import CONTACTS, ROWS, STATUS, STEP_FORWARD, Data
from delassus.contact.sparse.springs import masses_in_step
from delassus.solvers.islands.cone import OUT_OF_REACH, PATCH
from delassus.solvers.registry import ImpulseSolver
from delassus.solvers.results import STATUSES
from delassus.spatial.rotations import Array

IN_JOINTS = {"nmc": "mc", "nmc-os": "os"}
"""What stands for formulations whose links are bodies of their own where masses are added to joints."""


class FormulatedImpulses:
    """Impulses of steps of a scene, in place of those of islands.

    Limits take part where the velocities without impulses come near them, and those that impulses drive a joint beyond.
    """

    def __init__(self, dynamics: ContactDynamics, formulation: str, solver: ImpulseSolver) -> None:
        self.dynamics, self.solver, self._formulation = dynamics, solver, FORMULATIONS[formulation]
        self._in_joints = FORMULATIONS[IN_JOINTS.get(formulation, formulation)]
        self._formulation.check_loops(dynamics)

    def of_phase(self, phase: int, blocks: Blocks, data: Data, dt: float) -> None:
        """Write impulses, and velocities after them, of the problem that a step is at, and its status."""
        bodies, s, rows, joints, law = data.bodies, data.state, data.rows, data.joints, data.rows.law
        m, n = data.progress.step[CONTACTS], data.progress.step[ROWS]
        near = np.flatnonzero(law.d[:m, 2] < OUT_OF_REACH)
        mu, spins = law.mu[near], law.partner[near[rows.kind[near] == PATCH]]
        rubbing, dofs = np.flatnonzero(law.friction_offset[m:n]), blocks.dofs[joints.dofs]
        forces, acting = law.friction_offset[m:n], rows.r[m:n, 2]
        friction = np.clip(acting, -forces, forces)
        q, v, before = np.empty_like(s.q), np.empty_like(s.v), np.zeros((2, s.v.size))
        q[blocks.coordinates], v[blocks.dofs], before[:, dofs] = s.q, s.target, (acting - friction, friction)
        found = ContactArrays(*[x[data.islands.contact[near]] for x in cast(Sequence[Any], data.contacts.found)])
        found.surface_velocities[:] = 0.0
        on_joints = JointContacts(
            np.concatenate([dofs, dofs, dofs[rubbing]]), np.repeat([1, -1, 1], [n - m, n - m, rubbing.size]),
            dt * np.concatenate([-law.d[m:n, 0], law.d[m:n, 1]]),
            np.concatenate([np.zeros(2 * (n - m)), forces[rubbing] / dt]), dt,
        )  # fmt: skip
        recovered = np.divide(law.friction_offset[near], mu, out=np.zeros(near.size), where=mu > 0.0)
        added = masses_in_step(blocks.springs, bodies, blocks.dofs, dt) if phase == STEP_FORWARD else None
        contacts, start = ContactSet.trusted(*found), (rows.r[near], rows.r[spins], before)
        solved = self.solve(q, v, contacts, law.d[near], recovered, on_joints, start, added)
        rows.r[:n], rows.r[spins], s.after[:], data.progress.step[STATUS] = 0.0, 0.0, s.target, DONE
        if solved is not None:
            rows.r[spins], rows.r[near], s.after[:] = solved.spins, solved.impulses, solved.velocity[blocks.dofs]
            rows.r[m:n, 2] = solved.joint_impulses.sum(axis=0)[dofs]
            data.progress.step[STATUS] = STATUSES.index(solved.status)

    def solve(
        self, q: Array, v: Array, contacts: ContactSet, rates: Array, recovered: Array, joints: JointContacts,
        start: tuple[Array, Array, Array], added: Array | None = None,
    ) -> ContactSolution | None:  # fmt: skip
        """Impulses from velocities ``v`` (nv,) without them; None where there is nothing to solve for.

        ``rates`` (n, 3) are velocities at contacts without motion (m/s), those of their surfaces included. Normal
        impulses ``recovered`` (n,) are given back already, and there is friction under them, too (N s). Solvers
        ``start`` at impulses of contacts (n, 3), of spins of patches, and of limits and friction of joints (2, nv).
        Springs have ``added`` masses (nv, nv) to those of joints.
        """
        limits, on_patches = joints.limits, start[1]
        dofs, steps, near = limits.dofs, limits.dt * limits.signs, limits.dt * self.solver.tolerance
        active = limits.distances + np.minimum(STEPS_AHEAD * steps * v[dofs], 0.0) <= near
        if not (len(contacts) or active.any() or joints.dofs.size > dofs.size or self._formulation.has_hinges):
            return None
        snapshot = self.dynamics.at(q, v, np.zeros(v.size), added)
        formulation = self._formulation if added is None else self._in_joints
        while True:
            taken = joints.with_limits(active)
            model = formulation(snapshot.rows(contacts, contact_velocities=-rates.ravel(), joints=taken))
            first = np.concatenate([start[0].ravel(), on_patches.ravel(), taken.start(start[2])])
            given = np.concatenate([recovered, np.zeros(len(on_patches) + taken.dofs.size)])
            posed = ContactProblem(model, snapshot, 0.0, self.solver.n_directions, np.zeros(first.size), given)
            found = posed.solve(self.solver, start=first)
            passed = (limits.distances + steps * found.velocity[dofs] < -near) & ~active
            if not passed.any():
                return found
            active |= passed
