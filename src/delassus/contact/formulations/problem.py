"""`ContactProblem`: a formulated problem that can be taken away, or solved; `ContactSolution`: its solution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from delassus.contact.contacts import ContactSet
from delassus.contact.formulations.elimination import Reduced, reduced
from delassus.contact.formulations.formulation import Formulation
from delassus.contact.formulations.nmc import NonMinimalCoordinates, Triplets
from delassus.contact.formulations.pyramids import friction_rows, impulse_directions, slack_columns
from delassus.contact.impulses import ImpulseSolver
from delassus.contact.problems import LCP, MLCP, ConeProblem
from delassus.contact.results import Impulses, SolverStatus
from delassus.contact.snapshot import Snapshot
from delassus.contact.solvers.convex import convex
from delassus.contact.solvers.registry import SOLVERS
from delassus.contact.state import State
from delassus.errors import ConfigurationError, missing_dependency, unknown_name
from delassus.model.check import finite_array
from delassus.model.rotations import Array


@dataclass(frozen=True, eq=False)
class ContactProblem:
    """The mixed linear complementarity problem of a scene at one state; made by `delassus.contact.formulate`.

    Unknowns are in the order of [OS]: velocities, ``p_b``, then ``β̲ = (F_n, β_1 … β_nf)`` of each contact, then ``σ``
    of each contact.

    Attributes
    ----------
    model : Formulation
        The blocks that everything else is made of.
    motion : Snapshot
        Velocities and forces at the start.
    dt : float
        Time step (s); 0 in an impact.
    n_directions : int
        ``n_f``: sides of the pyramids that stand for friction cones.
    applied : (n_u, 3) array
        Impulses at contacts that act beside the unknown ones (N s). Friction may reach ``μ`` times their normal parts
        beyond that of the unknown ones.
    """

    model: Formulation
    motion: Snapshot
    dt: float
    n_directions: int
    applied: Array

    @property
    def contacts(self) -> ContactSet:
        """Its contacts."""
        return self.model.rows.contacts

    @property
    def state(self) -> State:
        """State at the start."""
        return self.motion.state

    @property
    def formulation(self) -> str:
        """Name of the formulation."""
        return self.model.name

    @property
    def n_free(self) -> int:
        """Number of unknowns of any sign, the first ones, and of equality rows."""
        return self.model.n_free

    @property
    def sizes(self) -> dict[str, int]:
        """Number of unknowns by kind: velocity, bilateral (``p_b``), cone (``β̲``), slack (``σ``)."""
        n, f = len(self.contacts), self.model
        return {
            "velocity": f.n_velocities,
            "bilateral": f.n_bilateral,
            "cone": n * (self.n_directions + 1),
            "slack": n,
        }

    @property
    def size(self) -> int:
        """Number of unknowns: the formula of [OS] table 1."""
        return sum(self.sizes.values())

    @property
    def blocks(self) -> Mapping[str, slice]:
        """Where the unknowns of each kind are."""
        out, start = {}, 0
        for name, size in self.sizes.items():
            out[name] = slice(start, start + size)
            start += size
        return out

    @cached_property
    def D(self) -> Array:
        """``D̲`` (3 n_u, n_u (n_f + 1)): contact impulses are ``D̲ β̲``."""
        return impulse_directions(len(self.contacts), self.n_directions)

    @cached_property
    def matrix(self) -> Array:
        """``𝔐``, dense (size, size)."""
        f, D, at = self.model, self.D, self.blocks
        x, beta, sigma = slice(0, self.n_free), at["cone"], at["slack"]
        M = np.zeros((self.size, self.size))
        M[x, x], M[x, beta] = f.A, f.B @ D
        M[beta, x], M[beta, beta] = D.T @ f.C, D.T @ f.W @ D
        M[beta, sigma] = slack_columns(len(self.contacts), self.n_directions)
        M[sigma, beta] = friction_rows(self.contacts.friction, self.n_directions)
        return M

    @cached_property
    def sparse(self) -> Any:
        """``𝔐`` as a `scipy.sparse.csc_array`; that of ``nmc`` is built in O(n), without the dense one.

        Raises
        ------
        MissingDependencyError
            scipy is not installed.
        """
        try:
            from scipy.sparse import block_array, coo_array, csc_array
        except ImportError as error:
            raise missing_dependency("scipy", "contact", "sparse matrices") from error
        f, n, n_f = self.model, len(self.contacts), self.n_directions
        if not isinstance(f, NonMinimalCoordinates):
            return csc_array(self.matrix)

        def block(triplets: Triplets, rows: int) -> Any:
            row, column, value = triplets
            return coo_array((value, (row, column)), shape=(rows, f.n_free)).tocsc()

        DC = coo_array(self.D.T) @ block(f.sparse_C, 3 * n)
        return block_array(
            [
                [block(f.sparse_A, f.n_free), -DC.T, coo_array((f.n_free, n))],
                [DC, None, coo_array(slack_columns(n, n_f))],
                [None, coo_array(friction_rows(self.contacts.friction, n_f)), None],
            ],
            format="csc",
        )

    @cached_property
    def terms(self) -> tuple[Array, Array]:
        """``a`` (n_free,) and ``b`` (3 n_u,): what the free rows, and velocities at contacts, are without impulses."""
        return self.model.vector(self.motion, self.dt, self.applied.ravel())

    @cached_property
    def vector(self) -> Array:
        """``q`` (size,)."""
        a, b = self.terms
        return np.concatenate([a, self.D.T @ b, self.contacts.friction * self.applied[:, 2]])

    @property
    def contact_blocks(self) -> list[list[int]]:
        """Unknowns of each contact, counted from the first complementary one: what `pgs` solves for together."""
        n, each = len(self.contacts), self.n_directions + 1
        return [[*range(i * each, (i + 1) * each), n * each + i] for i in range(n)]

    def lcp(self) -> LCP:
        """The problem without free unknowns; raises `ConfigurationError` where it has some (see `mlcp`, `cone`)."""
        if self.n_free:
            raise ConfigurationError(
                f"the formulation {self.formulation!r}",
                "a problem without free unknowns",
                f"{self.n_free} of them",
                "Use mlcp(), or the formulation 'rmc', or 'os' for scenes without loops.",
            )
        return LCP(self.matrix, self.vector, self.contact_blocks)

    def mlcp(self) -> MLCP:
        """The mixed problem."""
        return MLCP(self.matrix, self.vector, self.n_free)

    @cached_property
    def reduced(self) -> Reduced:
        """The problem of contacts alone, free unknowns eliminated."""
        return reduced(self.model, *self.terms)

    def cone(self) -> ConeProblem:
        """The problem of exact Coulomb cones, free unknowns eliminated: ``W − C A⁺ B`` and ``b − C A⁺ a``."""
        return ConeProblem(self.reduced.W, self.reduced.b, self.contacts.friction)

    def restarted(self, v: ArrayLike, applied: ArrayLike | None = None) -> ContactProblem:
        """The same problem from joint velocities ``v`` (nv,), with impulses (n_u, 3) applied at contacts.

        Forces are those at the new velocities.

        Raises
        ------
        ConfigurationError
            Wrong shapes, or entries that are not finite.
        """
        start, n = self.motion, len(self.contacts)
        velocity = finite_array(v, start.v.shape, "v", "Pass what a solution holds.")
        given = np.zeros((n, 3)) if applied is None else applied
        impulses = finite_array(given, (n, 3), "applied", "Pass what a solution holds.")
        motion = start.dynamics.at(start.q, velocity, start.tau)
        return replace(self, motion=motion, applied=impulses)

    def solve(
        self, solver: str | ImpulseSolver = "lemke", *, tolerance: float = 1e-8, start: Array | None = None
    ) -> ContactSolution:
        """Solve the problem: free unknowns are eliminated, contacts solved for, velocities recovered.

        Parameters
        ----------
        solver : {"lemke", "pgs", "nsgs", "admm", "convex"}
            The first two on pyramids of ``n_directions`` sides, the others on exact cones; where one of the first four
            fails, another is asked. "convex" solves a relaxation, in which what slides also lifts off. Or a solver with
            its options. Where impulses are applied, Lemke's method is taken whatever the solver.
        tolerance : float
            Residual that the solver is held to (m/s).
        start : (3 n_u,) array, optional
            Impulses to start from, those of a step before.

        Raises
        ------
        UnknownNameError
            No such solver.
        ConfigurationError
            A tolerance that is not positive.
        MissingDependencyError
            A package of the extra ``contact`` is not installed.
        """
        W, b, _, _, consistent = self.reduced
        reduces = self.n_free > 0 or self.model.mobility is not None

        def accept(p: Array) -> bool:
            return self._recovered(Impulses(p, SolverStatus.CONVERGED, 0), tolerance).residual() <= tolerance

        mu, given = self.contacts.friction, self.applied[:, 2]
        if solver == "convex":
            whole = convex(self.cone(), tolerance=tolerance)
            found = Impulses(whole.values.ravel(), whole.status, whole.iterations)
        else:
            if not isinstance(solver, ImpulseSolver):
                if solver not in [*SOLVERS]:
                    raise unknown_name("solver", solver, SOLVERS)
                solver = ImpulseSolver(solver, self.n_directions, tolerance)
            tolerance = solver.tolerance
            found = solver(
                W,
                b,
                mu,
                start,
                mu * given if given.any() else None,
                accept if reduces else None,
            )
        solution = self._recovered(found, tolerance)
        if not consistent:
            return replace(solution, status=SolverStatus.CONFLICTING)
        if reduces and found.status is SolverStatus.CONVERGED and not solution.residual() <= tolerance:
            return replace(solution, status=SolverStatus.NUMERICAL_TROUBLE)
        return solution

    def _recovered(self, found: Impulses, tolerance: float) -> ContactSolution:
        """Free unknowns and velocities from the impulses of contacts."""
        x = -(self.reduced.P @ found.p + self.reduced.x_0)
        F = found.p + self.applied.ravel()
        v, p_b = self.model.recover(x, F, self.motion, self.dt)
        return ContactSolution(self, v, F.reshape(-1, 3), p_b, x, found.status, found.iterations, tolerance)


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
    """

    problem: ContactProblem
    velocity: Array
    impulses: Array
    bilateral: Array
    free: Array
    status: SolverStatus
    iterations: int
    tolerance: float

    @property
    def loops(self) -> Array:
        """Impulses (n_b,) of the scene's loops, in the order of their rows."""
        return self.bilateral[self.bilateral.size - self.problem.model.rows.n_loops :]

    @property
    def contact_velocities(self) -> Array:
        """``u⁺`` (n_u, 3): velocities of the first bodies relative to the second ones at the end (m/s)."""
        rows = self.problem.model.rows
        return (rows.jacobian[rows.n_loops :] @ self.velocity - rows.contact_velocities).reshape(-1, 3)

    def complementarity(self) -> float:
        """``max |F_n u_n⁺|`` (J): impulses that the problem asks for, and velocities, along normals."""
        own = self.impulses[:, 2] - self.problem.applied[:, 2]
        return float(np.abs(own * self.contact_velocities[:, 2]).max(initial=0.0))

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
        """``‖M (v⁺ − v) − dt (τ − c + M δ) − Jᵀ p‖`` in joint coordinates (N s, N m s)."""
        problem, start = self.problem, self.problem.motion
        impulses = np.concatenate([self.loops, self.impulses.ravel()])
        known = start.momentum(problem.dt) + problem.model.rows.jacobian.T @ impulses
        return float(np.linalg.norm(start.mass_matrix @ self.velocity - known))

    def bilateral_residual(self) -> float:
        """Largest velocity along a row of loops, or of hinges where the formulation has them (m/s, rad/s)."""
        problem, f = self.problem, self.problem.model
        gap = f.rows.jacobian[: f.rows.n_loops] @ self.velocity - f.rows.loop_velocities
        a, _ = problem.terms
        rows = f.A @ self.free + f.B @ (self.impulses - problem.applied).ravel() + a
        return float(max(np.abs(gap).max(initial=0.0), np.abs(rows[f.n_velocities :]).max(initial=0.0)))

    def residual(self) -> float:
        """Largest of the velocities that should vanish: of loops, hinges, and approach (m/s, rad/s)."""
        return max(self.bilateral_residual(), self.penetration_velocity())
