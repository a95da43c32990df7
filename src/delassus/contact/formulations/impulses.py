"""Impulses of a step's rows by a formulation of [OS] and a solver by name, dense.

A step asks for them problem by problem: compression and decompression of impacts ([OS] section 7), then the step ([OS]
sections 3 to 6, 8). Each is the problem of an instant, at the velocities that smooth forces bring.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from delassus.contact.contacts import ContactSet
from delassus.contact.formulations import FORMULATIONS
from delassus.contact.formulations.problem import ContactProblem, ContactSolution
from delassus.contact.joint_contacts import STEPS_AHEAD, JointContacts
from delassus.contact.snapshot import ContactDynamics
from delassus.contact.solvers.registry import ImpulseSolver
from delassus.spatial.rotations import Array


class RowProblem(NamedTuple):
    """Rows of a step that impulses are wanted for, in the order of the scene.

    Attributes
    ----------
    q, v : (nq,) and (nv,) arrays
        Configuration, and velocities without impulses.
    contacts : ContactSet
    gaps : (n,) array
        Velocities (m/s) at which contacts may close.
    recovered : (n,) array
        Normal impulses (N s) that are given back already, under which there is friction, too.
    joints : JointContacts
        Limits and friction.
    impulses, joint_impulses : (n, 3) and (2, nv) arrays
        Where solvers start: at contacts; of limits and of friction.
    added : (nv, nv) array or None
        Masses that springs add to joints.
    spins : (s, 3) array
        Where solvers start at spins of patches, see `delassus.contact.sparse.spins`.
    """

    q: Array
    v: Array
    contacts: ContactSet
    gaps: Array
    recovered: Array
    joints: JointContacts
    impulses: Array
    joint_impulses: Array
    added: Array | None = None
    spins: Array = np.zeros((0, 3))


IN_JOINTS = {"nmc": "mc", "nmc-os": "os"}
"""What stands for formulations whose links are bodies of their own where masses are added to joints."""


class FormulatedImpulses:
    """Solutions of row problems of a scene.

    Limits take part where the velocities without impulses come near them, and those that impulses drive a joint beyond.
    """

    def __init__(self, dynamics: ContactDynamics, formulation: str, solver: ImpulseSolver) -> None:
        self.dynamics, self.solver, self._formulation = dynamics, solver, FORMULATIONS[formulation]
        self._in_joints = FORMULATIONS[IN_JOINTS.get(formulation, formulation)]
        self._formulation.check_loops(dynamics)

    def __call__(self, problem: RowProblem) -> ContactSolution | None:
        """Solve; None where there is nothing to solve for."""
        p, limits, n = problem, problem.joints.limits, len(problem.contacts)
        dofs, steps, near = limits.dofs, limits.dt * limits.signs, limits.dt * self.solver.tolerance
        active = limits.distances + np.minimum(STEPS_AHEAD * steps * p.v[dofs], 0.0) <= near
        if not (n or active.any() or p.joints.dofs.size > dofs.size or self._formulation.has_hinges):
            return None
        snapshot, left = self.dynamics.at(p.q, p.v, np.zeros(p.v.size), p.added), np.zeros((n, 3))
        formulation = self._formulation if p.added is None else self._in_joints
        left[:, 2] = -p.gaps
        while True:
            joints = p.joints.with_limits(active)
            m = joints.dofs.size
            model = formulation(snapshot.rows(p.contacts, contact_velocities=left.ravel(), joints=joints))
            start = np.concatenate([p.impulses.ravel(), p.spins.ravel(), joints.start(p.joint_impulses)])
            recovered = np.concatenate([p.recovered, np.zeros(len(p.spins) + m)])
            posed = ContactProblem(model, snapshot, 0.0, self.solver.n_directions, np.zeros(start.size), recovered)
            found = posed.solve(self.solver, start=start)
            passed = (limits.distances + steps * found.velocity[dofs] < -near) & ~active
            if not passed.any():
                return found
            active |= passed
