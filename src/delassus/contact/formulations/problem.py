"""`ContactProblem`: a formulated problem that can be taken away, or solved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from delassus.contact.contacts import ContactSet
from delassus.contact.formulations.formulation import Formulation
from delassus.contact.formulations.pyramids import friction_rows, impulse_directions, slack_columns
from delassus.contact.problems import LCP, MLCP, ConeProblem
from delassus.contact.solvers.mixed import eliminated
from delassus.contact.state import State
from delassus.errors import ConfigurationError
from delassus.model.check import finite_array
from delassus.model.rotations import Array

if TYPE_CHECKING:
    from delassus.contact.formulations.solution import ContactSolution

NOISE = 1e-15
"""Eigenvalues of a difference, over its size and what it is a difference of, that round-off could have left.

Where ``k`` unknowns were eliminated, ``NOISE k²`` of them could: a chain of 30 hinges, k = 150, leaves up to 1e-12.
"""

EMPTY = 1e-12
"""Largest entry of a row that is empty, over the largest one of the matrix."""


@dataclass(frozen=True, eq=False)
class ContactProblem:
    """The mixed linear complementarity problem of a scene at one state; made by `delassus.contact.formulate`.

    Unknowns are in the order of [OS]: velocities, ``p_b``, then ``β̲ = (F_n, β_1 … β_nf)`` of each contact, then ``σ``
    of each contact.

    Attributes
    ----------
    model : Formulation
        The blocks that everything else is made of.
    state : State
    contacts : ContactSet
    dt : float
        Time step (s); 0 in an impact.
    n_directions : int
        ``n_f``: sides of the pyramids that stand for friction cones.
    v : (nv,) array
        Velocity of joints at the start: that of the state, unless `restarted`.
    applied : (n_u, 3) array
        Impulses at contacts that act beside the unknown ones (N s). Friction may reach ``μ`` times their normal parts
        beyond that of the unknown ones.
    """

    model: Formulation
    state: State
    contacts: ContactSet
    dt: float
    n_directions: int
    v: Array
    applied: Array

    @property
    def formulation(self) -> str:
        """Its name."""
        return self.model.name

    @property
    def n_free(self) -> int:
        """Number of unknowns of any sign, the first ones, and of equality rows."""
        return self.model.n_free

    @property
    def sizes(self) -> dict[str, int]:
        """Number of unknowns by kind: velocity, bilateral (``p_b``), cone (``β̲``), slack (``σ``)."""
        n = len(self.contacts)
        cone = n * (self.n_directions + 1)
        return {
            "velocity": self.model.n_velocities,
            "bilateral": self.model.n_bilateral,
            "cone": cone,
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
        """``𝔐`` as a `scipy.sparse.csc_array`; that of ``nmc`` is built in O(n), without the dense one."""
        from delassus.contact.formulations.sparse import sparse_matrix

        return sparse_matrix(self)

    @cached_property
    def terms(self) -> tuple[Array, Array]:
        """``a`` (n_free,) and ``b`` (3 n_u,): what the free rows, and velocities at contacts, are without impulses."""
        return self.model.vector(self.v, self.dt, self.applied.ravel())

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
    def eliminated(self) -> tuple[Array, Array, int, bool]:
        """``P`` and ``x_0`` with ``x = −(P F + x_0)``, the rank of ``A``, and whether the free rows can be met."""
        f, (a, _) = self.model, self.terms
        A, s = balanced(f.A)
        solution, rank, agree = eliminated(A, s[:, None] * np.column_stack([f.B, a]))
        solution = s[:, None] * solution
        return solution[:, :-1], solution[:, -1], rank, agree and f.consistent

    def cone(self) -> ConeProblem:
        """The problem of exact Coulomb cones, free unknowns eliminated: ``W − C A⁺ B`` and ``b − C A⁺ a``."""
        f, (_, b) = self.model, self.terms
        if self.n_free:
            P, x_0, _, _ = self.eliminated
            size = f.W.diagonal() + np.einsum("ij,ji->i", np.abs(f.C), np.abs(P))
            return ConeProblem(*without_noise(f.W - f.C @ P, b - f.C @ x_0, size, self.n_free), self.contacts.friction)
        if f.mobility is not None:
            return ConeProblem(*without_noise(f.W, b, f.mobility), self.contacts.friction)
        return ConeProblem(f.W, b, self.contacts.friction)

    def restarted(self, v: ArrayLike, applied: ArrayLike | None = None) -> ContactProblem:
        """The same problem from joint velocities ``v`` (nv,), with impulses (n_u, 3) applied at contacts.

        The matrix is shared, and smooth forces stay those of the state.

        Raises
        ------
        ConfigurationError
            Wrong shapes, or entries that are not finite.
        """
        velocity = finite_array(v, self.v.shape, "v", "Pass what a solution holds.")
        n = len(self.contacts)
        impulses = (
            np.zeros((n, 3))
            if applied is None
            else finite_array(applied, (n, 3), "applied", "Pass what a solution holds.")
        )
        again = replace(self, v=velocity, applied=impulses)
        for name in ("matrix", "D"):
            if name in self.__dict__:
                again.__dict__[name] = self.__dict__[name]
        return again

    def solve(self, solver: str = "lemke", *, tolerance: float = 1e-8, **options: Any) -> ContactSolution:
        """Solve; see `delassus.contact.formulations.solve.solve`."""
        from delassus.contact.formulations.solve import solve

        return solve(self, solver, tolerance=tolerance, **options)


def balanced(A: Array) -> tuple[Array, Array]:
    """``diag(s) A diag(s)`` with rows and columns of like sizes, and ``s`` (Ruiz 2001).

    The free block holds masses from grams to tonnes beside lengths and ones; what is singular shows only after that.
    Rows that only round-off keeps from being zero, as those of a loop within a rigid part, become zero.
    """
    size, s = np.abs(A), np.ones(len(A))
    empty = size.max(axis=1, initial=0.0) <= EMPTY * size.max(initial=0.0)
    for _ in range(3):
        step = 1.0 / np.sqrt(np.where(empty, 1.0, size.max(axis=1, initial=0.0)))
        s *= step
        size *= step[:, None] * step
    scaled = s[:, None] * A * s
    if empty.any():
        scaled[empty] = 0.0
        scaled[:, empty] = 0.0
    return scaled, s


def without_noise(W: Array, u: Array, size: Array, n_eliminated: int = 0) -> tuple[Array, Array]:
    """``W`` without the eigenvalues that round-off left, and ``u`` without what is outside of its range.

    ``W`` is a difference of matrices whose diagonals are ``size``, after ``n_eliminated`` unknowns. A contact that
    cannot move along its normal must not seem to give way by 1e-15 of what its body would without hinges, least of all
    to the wrong side; ``u``, a velocity at contacts, cannot but be in the range. Directions that cannot move at all,
    as those across a planar mechanism, get rows of zeros: solvers scale by diagonals, and would blow up the rest.
    """
    root = np.sqrt(size)
    root[root == 0.0] = 1.0
    scaled = W / root[:, None] / root
    values, vectors = np.linalg.eigh(0.5 * (scaled + scaled.T))
    least = NOISE * max(len(W), n_eliminated**2)
    real = values > least
    moves = scaled.diagonal() > least
    basis = (moves * root)[:, None] * vectors[:, real]
    return (basis * values[real]) @ basis.T, basis @ (vectors[:, real].T @ (u / root))
