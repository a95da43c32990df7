"""`ContactSolution`: velocities and impulses of a contact problem, and residuals that check them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from delassus.contact.formulations.problem import ContactProblem
from delassus.contact.results import Solution, SolverStatus
from delassus.model.rotations import Array


@dataclass(frozen=True, slots=True, eq=False)
class ContactSolution:
    """Solution of a `ContactProblem`.

    Attributes
    ----------
    problem : ContactProblem
    velocity : (nv,) array
        ``v⁺``: velocities of joints at the end of the step.
    impulses : (n_u, 3) array
        At contacts, on the first body: tangent, tangent, normal (N s); applied ones included.
    bilateral : array
        ``p_b`` (N s, N m s): those of hinges first where the formulation has them, those of the scene's loops last.
    free : (n_free,) array
        All free unknowns of the problem.
    status : SolverStatus
    iterations : int
    tolerance : float
        What the solver's residual was held to.
    result : Solution
        What the solver returned.
    """

    problem: ContactProblem
    velocity: Array
    impulses: Array
    bilateral: Array
    free: Array
    status: SolverStatus
    iterations: int
    tolerance: float
    result: Solution[Any]

    @property
    def loops(self) -> Array:
        """Impulses (n_b,) of the scene's loops, in the order of their rows."""
        return self.bilateral[self.bilateral.size - self.problem.model.setting.n_loops :]

    @property
    def contact_velocities(self) -> Array:
        """``u⁺`` (n_u, 3): velocities of the first bodies relative to the second ones at the end (m/s)."""
        s = self.problem.model.setting
        u = s.snapshot.velocities(s.ends, self.velocity)[s.n_loops :]
        return (u - s.contact_velocities).reshape(-1, 3)

    def complementarity(self) -> float:
        """Largest product of an unknown and its row (J): zero where one of both vanishes. Of the solver's problem."""
        return float(self.result.complementarity())

    def penetration_velocity(self) -> float:
        """How fast bodies still approach (m/s)."""
        return float(np.maximum(-self.contact_velocities[:, 2], 0.0).max(initial=0.0))

    def cone_violation(self) -> float:
        """By how much impulses are outside of the exact friction cones (N s); pyramids are inside of them."""
        r = self.impulses
        beyond = np.linalg.norm(r[:, :2], axis=1) - self.problem.contacts.friction * r[:, 2]
        return float(np.maximum(beyond, -r[:, 2]).max(initial=0.0))

    def dissipation(self) -> Array:
        """``−F_tᵀ u_t⁺`` (n_u,): what friction takes at each contact by velocities at the end (J)."""
        return np.asarray(-(self.impulses[:, :2] * self.contact_velocities[:, :2]).sum(axis=1))

    def momentum_residual(self) -> float:
        """``‖M (v⁺ − v) − dt (τ − c) − Jᵀ p‖`` in joint coordinates (N s, N m s); turning axes as in `Setting`."""
        p, s = self.problem, self.problem.model.setting
        impulses = np.concatenate([self.loops, self.impulses.ravel()])
        change = s.mass_matrix @ (self.velocity - p.v) - s.jacobian.T @ impulses
        return float(np.linalg.norm(change - p.dt * s.smooth_forces if p.dt else change))

    def bilateral_residual(self) -> float:
        """Largest velocity along a row of loops, or of hinges where the formulation has them (m/s, rad/s)."""
        p, f = self.problem, self.problem.model
        s = f.setting
        gap = s.snapshot.velocities(s.ends, self.velocity)[: s.n_loops] - s.loop_velocities
        a, _ = p.terms
        rows = f.A @ self.free + f.B @ (self.impulses - p.applied).ravel() + a
        return float(max(np.abs(gap).max(initial=0.0), np.abs(rows[f.n_velocities :]).max(initial=0.0)))
