"""`ContactProblem`: a formulated problem that can be taken away, or solved; and `ContactSolution`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from delassus.contact.contacts import ContactSet
from delassus.contact.formulations.elimination import Reduced, reduced
from delassus.contact.formulations.formulation import Formulation
from delassus.contact.formulations.operational_space import OperationalSpace
from delassus.contact.scene_parts import no_lengths
from delassus.contact.snapshot import Snapshot
from delassus.errors import ConfigurationError, require
from delassus.frozen import Frozen, cached_property
from delassus.model.check import flat_array
from delassus.solvers.linear import ROUNDING, de_saxce, mobilities, natural_map, velocities
from delassus.solvers.newton import patch_steps
from delassus.solvers.problems import LCP, MLCP, ConeProblem
from delassus.solvers.pyramids import contact_blocks, impulse_directions, linear_problem, regular_directions
from delassus.solvers.registry import PATCHES, SOLVERS, TOLERANCE, ImpulseSolver
from delassus.solvers.results import SOLVED, SolverStatus
from delassus.spatial.rotations import Array

CORRECTIONS = 3
"""Most solutions again, with velocities corrected by what they miss in the matrices of ``os``; then, in these."""

GOAL = 1e-2
"""What they may miss, over the tolerance."""


@dataclass(frozen=True, eq=False)
class ContactProblem(Frozen):
    """The mixed linear complementarity problem of a scene at one state; made by `delassus.contact.formulate`.

    Unknowns are in the order of [OS]: velocities, ``p_b``, then ``β̲ = (F_n, β_1 … β_nf)`` of each contact, then ``σ``
    of each contact; joints that are contacts (`delassus.contact.joint_contacts`) come after the others.

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
    applied : (3 n_u,) array
        Impulses at contacts that act beside the unknown ones (N s).
    recovered : (n_u,) array
        The part of their normals, given back by restitution, under which there is friction too (N s).

    Examples
    --------
    >>> import delassus as ds
    >>> from delassus.contact import ContactSet, Scene, State, formulate, frames_of
    >>> wall = ContactSet([[1, -1]], [[0, 0, -1]], frames_of([[1, 0, 0]]))
    >>> problem = formulate(Scene(ds.mechanisms.pendulum(2)), State([0, 0], [0, 1]), "os", dt=1e-3, contacts=wall)
    >>> problem.sizes
    {'velocity': 0, 'bilateral': 0, 'cone': 5, 'slack': 1}
    >>> problem.matrix.shape, problem.cone().W.shape
    ((6, 6), (3, 3))
    """

    model: Formulation
    motion: Snapshot
    dt: float
    n_directions: int
    applied: Array
    recovered: Array

    @property
    def contacts(self) -> ContactSet:
        """Contacts of the problem."""
        return self.model.rows.contacts

    @property
    def n_free(self) -> int:
        """Number of unknowns of any sign, the first ones, and of equality rows."""
        return self.model.n_free

    @property
    def sizes(self) -> dict[str, int]:
        """Number of unknowns by kind: velocity, bilateral (``p_b``), cone (``β̲``), slack (``σ``)."""
        self._check_points("pyramids of friction")
        n, f = self.model.rows.friction.size, self.model
        return {
            "velocity": f.n_velocities,
            "bilateral": f.n_bilateral,
            "cone": n * (self.n_directions + 1),
            "slack": n,
        }

    def _check_points(self, what: str) -> None:
        """Refuse torsional and rolling friction, which has rows of its own."""
        patches = np.flatnonzero(self.model.rows.partner >= 0)
        if patches.size:
            raise no_lengths(what, f"some of contact {patches[0]}")

    @property
    def size(self) -> int:
        """Number of unknowns: the formula of [OS] table 1."""
        return sum(self.sizes.values())

    @property
    def blocks(self) -> dict[str, slice]:
        """Slice of the unknowns of each kind."""
        sizes = self.sizes
        ends = np.cumsum([*sizes.values()]).tolist()
        return {name: slice(end - sizes[name], end) for name, end in zip(sizes, ends, strict=True)}

    @cached_property
    def D(self) -> Array:
        """``D̲`` (3 n_u, n_u (n_f + 1)): contact impulses are ``D̲ β̲``."""
        return impulse_directions(self.sizes["slack"], regular_directions(self.n_directions))

    @property
    def bounds(self) -> Array:
        """Constant bounds (n_u,) of friction of joints (N s, N m s); 0 of contacts."""
        return self.model.rows.joints.dt * self.model.rows.forces

    @property
    def friction_offset(self) -> Array:
        """Friction (n_u,) that contacts bear beyond ``μ F_n`` (N s)."""
        return self.model.rows.friction * self.recovered + self.bounds

    @cached_property
    def terms(self) -> tuple[Array, Array]:
        """``a`` (n_free,) and ``b`` (3 n_u,): what the free rows, and velocities at contacts, are without impulses."""
        return self.model.vector(self.motion, self.dt, self.applied)

    @cached_property
    def _pyramids(self) -> tuple[Array, Array]:
        """``[D̲ᵀ W D̲, Ê; Ē, 0]`` and ``(D̲ᵀ b, friction_offset)``: rows and unknowns of contacts."""
        self._check_points("pyramids of friction")
        mu, directions = self.model.rows.friction, regular_directions(self.n_directions)
        return linear_problem(np.ascontiguousarray(self.model.W), self.terms[1], mu, directions, self.friction_offset)

    @cached_property
    def matrix(self) -> Array:
        """``𝔐``, dense (size, size)."""
        f, k, beta = self.model, self.n_free, self.blocks["cone"]
        M = np.zeros((self.size, self.size))
        M[:k, :k], M[:k, beta], M[beta, :k], M[k:, k:] = f.A, f.B @ self.D, self.D.T @ f.C, self._pyramids[0]
        return M

    @cached_property
    def vector(self) -> Array:
        """``q`` (size,)."""
        return np.concatenate([self.terms[0], self._pyramids[1]])

    @cached_property
    def sparse(self) -> Any:
        """``𝔐`` as a `scipy.sparse.csc_array`; that of ``nmc`` is built in O(n), without the dense one.

        Raises
        ------
        MissingDependencyError
            scipy is not installed.
        """
        require("scipy", "contact", "sparse matrices")
        from scipy.sparse import block_array, coo_array, csc_array

        if self.model.triplets is None:
            return csc_array(self.matrix)
        row, column, value = self.model.triplets
        A = coo_array((value, (row, column)), shape=(self.n_free, self.n_free))
        C = csc_array(np.vstack([self.D.T @ self.model.C, np.zeros((self.sizes["slack"], self.n_free))]))
        return block_array([[A, -C.T], [C, csc_array(self._pyramids[0])]], format="csc")

    def lcp(self) -> LCP:
        """The problem without free unknowns; raises `ConfigurationError` where it has some (see `mlcp`, `cone`)."""
        if self.n_free:
            raise ConfigurationError(
                f"the formulation {self.model.name!r}",
                "a problem without free unknowns",
                f"{self.n_free} of them",
                "Use mlcp(), or the formulation 'rmc', or 'os' for scenes without loops.",
            )
        return LCP(self.matrix, self.vector, contact_blocks(self.sizes["slack"], self.n_directions))

    def mlcp(self) -> MLCP:
        """The mixed problem."""
        return MLCP(self.matrix, self.vector, self.n_free)

    @cached_property
    def reduced(self) -> Reduced:
        """The problem of contacts alone, free unknowns eliminated."""
        return reduced(self.model, *self.terms)

    @cached_property
    def judged(self) -> Reduced:
        """The same by the matrices of ``os``, by whose velocities the law is looked at, whatever the formulation."""
        if self.model.name == OperationalSpace.name:
            return self.reduced
        model = OperationalSpace(self.model.rows)
        return reduced(model, *model.vector(self.motion, self.dt, self.applied))

    def cone(self) -> ConeProblem:
        """The problem of exact Coulomb cones, free unknowns eliminated: ``W − C A⁺ B`` and ``b − C A⁺ a``."""
        self._check_points("a ConeProblem")
        return ConeProblem(self.reduced.W, self.reduced.b, self.model.rows.friction, self.friction_offset)

    def solve(
        self, solver: str | ImpulseSolver = "nsgs", *, tolerance: float = TOLERANCE, start: Array | None = None
    ) -> ContactSolution:
        """Solve the problem: free unknowns are eliminated, contacts solved for, velocities recovered.

        Parameters
        ----------
        solver : {"nsgs", "admm", "interior", "lemke", "pgs", "convex"} or ImpulseSolver
            On exact cones; "lemke" and "pgs" on pyramids of ``n_directions`` sides. Where another one fails, "nsgs" is
            asked. "convex" solves a relaxation, in which what slides also lifts off. "nsgs" alone has torsional and
            rolling friction.
        tolerance : float
            Residual that the solver is held to (m/s), 1e-6 by default; an `ImpulseSolver` has its own.
        start : (3 n_u,) array, optional
            Impulses to start from, those of a step before.

        Raises
        ------
        UnknownNameError
            No such solver.
        ConfigurationError
            A tolerance that is not positive; another solver than "nsgs" for torsional and rolling friction.
        MissingDependencyError
            A package of the extra ``contact`` is not installed.
        """
        if not isinstance(solver, ImpulseSolver):
            solver = ImpulseSolver(solver, self.n_directions, tolerance)
        if solver.name != PATCHES:
            self._check_points(f"solver {solver.name!r}")
        if start is not None:
            start = flat_array(start, self.applied.size, "start", "Impulses of a step before.")
        W, b, _, _, consistent = self.reduced
        mu, converged, tolerance = self.model.rows.friction, SolverStatus.CONVERGED, solver.tolerance
        checked = self.n_free > 0 or self.model.mobility is not None or self.model.rows.joints.dofs.size > 0
        partner = self.model.rows.partner

        def accept(p: Array) -> bool:
            solution = ContactSolution(self, p, converged, 0)
            return max(solution.residual(), solution._law_residual(solver.name)) <= tolerance

        found = solver(W, b, mu, self.friction_offset, start, accept if checked else None, partner)
        iterations, judge = found.iterations, self.judged if checked else self.reduced
        for left in reversed(range(CORRECTIONS + 1 if judge is not self.reduced else 0)):
            missed = velocities(judge.W, found.p, judge.b) - velocities(W, found.p, b)
            if found.status is not converged or np.abs(missed).max(initial=0.0) <= GOAL * tolerance:
                break
            W, b = (W, b + missed) if left else (judge.W, judge.b)
            # a start within the tolerance would be left
            found = solver(W, b, mu, self.friction_offset, None, accept, partner)
            iterations += found.iterations
        status = found.status
        if not consistent:
            status = SolverStatus.CONFLICTING
        elif checked and (status is converged or (status in SOLVED and judge is not self.reduced)):
            status = status if accept(found.p) else SolverStatus.NUMERICAL_TROUBLE
        if status is SolverStatus.NUMERICAL_TROUBLE and solver.name in ("admm", "interior"):
            again = self.solve(ImpulseSolver(PATCHES, self.n_directions, tolerance), start=found.p)
            if again.status is converged:
                return replace(again, iterations=iterations + again.iterations)
        return ContactSolution(self, found.p, status, iterations)


@dataclass(frozen=True, eq=False)
class ContactSolution(Frozen):
    """Solution of a `ContactProblem`.

    Attributes
    ----------
    problem : ContactProblem
    found : (3 n_u,) array
        The unknown impulses at contacts (N s).
    status : SolverStatus
    iterations : int
        Of the solver.

    Examples
    --------
    A ball of 2 kg that meets the floor at 1 m/s: its momentum, and its weight of 10 ms, go into the floor.

    >>> import delassus as ds
    >>> from delassus.contact import ContactSet, Scene, State, formulate, frames_of
    >>> floor = ContactSet([[0, -1]], [[0, 0, 0]], frames_of([[0, 0, 1]]))
    >>> falling = State([0, 0, 0, 0, 0, 0, 1], [0, 0, -1, 0, 0, 0])
    >>> scene = Scene(ds.mechanisms.free_body(2.0, [0.1, 0.1, 0.1]))
    >>> solution = formulate(scene, falling, "os", dt=0.01, contacts=floor).solve()
    >>> solution.impulses.round(6).tolist(), solution.residual() < 1e-9
    ([[0.0, 0.0, 2.1962]], True)
    """

    problem: ContactProblem
    found: Array
    status: SolverStatus
    iterations: int

    @cached_property
    def impulses(self) -> Array:
        """(n_u, 3), at contacts on the first body: tangent, tangent, normal (N s); applied ones included."""
        return self._impulses[: len(self.problem.contacts)]

    @property
    def angular_impulses(self) -> Array:
        """(n_u, 3), of torsional and rolling friction about the same axes (N m s)."""
        rows, out = self.problem.model.rows, np.zeros((len(self.problem.contacts), 3))
        patches = np.flatnonzero(rows.partner >= 0)
        out[patches] = rows.scales[patches, 3:] * self.spins if patches.size else 0.0
        return out

    @property
    def spins(self) -> Array:
        """Impulses (s, 3) of spins, in the rows of `delassus.contact.sparse.spins` (N s)."""
        return self._impulses[self.problem.model.rows.spins]

    @property
    def joint_impulses(self) -> Array:
        """Impulses (2, nv) of limits, and of friction, on joints (N s, N m s)."""
        joints, n = self.problem.model.rows.joints, self.problem.model.rows.spins.stop
        return joints.impulses(self._impulses[n:], self.problem.motion.v.size)

    @cached_property
    def _impulses(self) -> Array:
        """Impulses of contacts and of joints (·, 3)."""
        return (self.found + self.problem.applied).reshape(-1, 3)

    @cached_property
    def free(self) -> Array:
        """All free unknowns of the problem (n_free,)."""
        reduced = self.problem.reduced
        return -(reduced.P @ self.found + reduced.x_0)

    @cached_property
    def velocity(self) -> Array:
        """``v⁺`` (nv,): velocities of joints at the end of the step, those that ``impulses`` and ``loops`` make.

        Of all formulations alike. Those among their own unknowns have the round-off of their matrices.
        """
        problem, start = self.problem, self.problem.motion
        response = problem.model.rows.response(np.concatenate([self.loops, self._impulses.ravel()]))
        return np.asarray(start.v + problem.dt * start.qdd + response)

    @property
    def bilateral(self) -> Array:
        """``p_b`` (N s, N m s): of hinges first where the formulation has them, of the scene's loops last."""
        problem = self.problem
        return problem.model.recover(self.free, self._impulses.ravel(), problem.motion, problem.dt)[1]

    @cached_property
    def loops(self) -> Array:
        """Impulses (n_b,) of the scene's loops, in the order of their rows, by the matrices of ``os``."""
        if not self.problem.model.rows.n_loops:
            return np.zeros(0)
        judge = self.problem.judged
        return np.asarray(-(judge.P @ self.found + judge.x_0))

    @property
    def contact_velocities(self) -> Array:
        """``u⁺`` (n_u, 3): velocities of the first bodies relative to the second ones at the end (m/s)."""
        return self._velocities[: len(self.problem.contacts)]

    @property
    def _velocities(self) -> Array:
        """Those at contacts and of joints (·, 3)."""
        rows = self.problem.model.rows
        return (rows.jacobian[rows.n_loops :] @ self.velocity - rows.contact_velocities).reshape(-1, 3)

    def complementarity(self) -> float:
        """``max |F_n u_n⁺|`` (J): impulses that the problem asks for, and velocities, along normals."""
        return float(np.abs((self.found.reshape(-1, 3) * self._velocities)[self._normals, 2]).max(initial=0.0))

    def penetration_velocity(self) -> float:
        """Largest velocity at which bodies approach, or joints their limits (m/s, rad/s)."""
        return float(np.maximum(-self._velocities[self._normals, 2], 0.0).max(initial=0.0))

    @property
    def _normals(self) -> Any:
        """Groups of rows whose third one is a normal, or a limit: all but spins (·,)."""
        at = np.arange(self.problem.model.rows.friction.size)
        return np.delete(at, self.problem.model.rows.spins)

    def cone_violation(self) -> float:
        """Largest distance of impulses from the exact friction cones (N s); pyramids are inside of them."""
        r, rows = self.impulses, self.problem.model.rows
        squares = (r[:, :2] ** 2).sum(axis=1)
        squares[rows.partner[: len(r)] >= 0] += (self.spins**2).sum(axis=1)
        beyond = np.sqrt(squares) - rows.friction[: len(r)] * r[:, 2]
        return float(np.maximum(beyond, -r[:, 2]).max(initial=0.0))

    def dissipation(self) -> Array:
        """``−F_tᵀ u_t⁺`` (n_u,): what friction takes at each contact by velocities at the end (J)."""
        spins, patches = self.problem.model.rows.spins, self.problem.model.rows.partner[: len(self.impulses)] >= 0
        out = (self.impulses[:, :2] * self.contact_velocities[:, :2]).sum(axis=1)
        out[patches] += (self._impulses * self._velocities)[spins].sum(axis=1)
        return np.asarray(-out)

    def momentum_residual(self) -> float:
        """``‖M (v⁺ − v) − dt (τ − c + M δ) − Jᵀ p‖`` in joint coordinates (N s, N m s)."""
        problem, start = self.problem, self.problem.motion
        impulses = np.concatenate([self.loops, self._impulses.ravel()])
        known = start.momentum(problem.dt) + problem.model.rows.jacobian.T @ impulses
        return float(np.linalg.norm(start.mass_matrix @ self.velocity - known))

    def bilateral_residual(self) -> float:
        """Largest velocity along a row of loops, or of hinges where the formulation has them (m/s, rad/s).

        Along hinges, that beyond what rounding to float64 makes of the impulses.
        """
        f, a = self.problem.model, self.problem.terms[0]
        gap = f.rows.jacobian[: f.rows.n_loops] @ self.velocity - f.rows.loop_velocities
        rows = np.abs(f.A @ self.free + f.B @ self.found + a)
        rows -= ROUNDING * (np.abs(f.A) @ np.abs(self.free) + np.abs(f.B) @ np.abs(self.found) + np.abs(a))
        return float(max(np.abs(gap).max(initial=0.0), rows[f.n_velocities :].max(initial=0.0)))

    def joint_residual(self) -> float:
        """Largest violation of the laws of joint limits and friction (m/s, rad/s).

        ``max |ω p − clip(ω p − u, ω p_min, ω p_max)|`` with ``0 ≤ p`` at limits and ``|p| ≤ f dt`` of friction, where
        ``ω`` is the mobility of the joint and ``u`` its velocity, at limits beyond the one allowed.
        """
        problem = self.problem
        joints, n = problem.model.rows.joints, problem.model.rows.spins.stop
        at = 3 * n + joints.rows
        omega, bound = problem.reduced.W.diagonal()[at], problem.bounds[n:]
        most = np.where(np.arange(bound.size) < joints.n_limits, np.inf, omega * bound)
        x, u = omega * self.found[at], self._velocities.ravel()[at]
        return float(np.abs(x - np.clip(x - u, -omega * bound, most)).max(initial=0.0))

    def residual(self) -> float:
        """Largest of the velocities that should vanish: of loops, hinges, approach, and of joints."""
        return max(self.bilateral_residual(), self.penetration_velocity(), self.joint_residual())

    def _law_residual(self, solver: str) -> float:
        """Largest violation of a solver's laws at loops and contacts (m/s), by velocities that impulses make.

        Those of a formulation follow from its own matrices, whose round-off huge impulses multiply. On pyramids, only
        normals are looked at.
        """
        rows, mu, u = self.problem.model.rows, self.problem.model.rows.friction, self._velocities
        gap = rows.jacobian[: rows.n_loops] @ self.velocity - rows.loop_velocities
        p, omega = self.found.reshape(-1, 3), mobilities(self.problem.judged.W)[0]
        v = u if solver == "convex" else de_saxce(u, mu)
        steps = natural_map(p, v, mu, self.problem.friction_offset, omega)
        patch_steps(steps, p, u, (mu, self.problem.friction_offset), self.problem.judged.W.diagonal(), rows.partner)
        if SOLVERS[solver].kind == "linear":
            steps = np.minimum(omega * p[:, 2], u[:, 2])
        return float(max(np.abs(gap).max(initial=0.0), np.abs(steps).max(initial=0.0)))
