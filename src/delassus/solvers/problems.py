"""Complementarity problems, as arrays: linear, mixed, and on the exact Coulomb cone.

The three components of a contact are **tangent, tangent, normal**, as Pinocchio's. Impulses ``r`` (N s) act on the
first body along these axes; velocities ``u`` (m/s) are relative to the second: a positive normal velocity separates.

Source: [OS] section 2 for the polyhedral model; De Saxcé and Feng 1998 for the exact cone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.errors import ConfigurationError, shown
from delassus.frozen import Frozen
from delassus.model.check import check_list, check_whole, finite_array, flat_array, real_array
from delassus.solvers.linear import cone_residual, de_saxce, mobilities, natural_map, velocities
from delassus.solvers.pyramids import contact_blocks, impulses_of, linear_problem, regular_directions
from delassus.spatial.rotations import Array

ASYMMETRY = 1e-8
"""Largest asymmetry of a Delassus matrix, relative to its largest entry; half of it goes to each side."""


@dataclass(frozen=True, slots=True, init=False, eq=False)
class LCP(Frozen):
    """Find ``z ≥ 0`` with ``w = M z + q ≥ 0`` and ``wᵀ z = 0``.

    Parameters
    ----------
    M : (n, n) array_like
    q : (n,) array_like
    blocks : sequence of int arrays, optional
        Which unknowns belong together, each in one block; `pgs` solves for a block at a time. By default each is alone.

    Raises
    ------
    ConfigurationError
        Not finite, wrong shapes, or blocks that do not hold each unknown once.

    Examples
    --------
    >>> problem = LCP([[2, 1], [1, 2]], [-5, -6])
    >>> problem.size, problem.residual([0, 3])
    (2, 2.0)
    """

    M: Array
    q: Array
    blocks: tuple[NDArray[np.int64], ...]

    def __init__(self, M: ArrayLike, q: ArrayLike, blocks: Any = None) -> None:
        vector = _finite(q, (-1,), "q of an LCP")
        n = vector.size
        what, wanted, advice = "blocks of an LCP", f"each of 0 … {n - 1} once", "List every unknown in one block."
        parts = [[i] for i in range(n)] if blocks is None else check_list(what, blocks, wanted, advice)
        groups = tuple(finite_array(part, (-1,), what, advice).astype(np.int64) for part in parts)
        if blocks is not None and not np.array_equal(np.sort(np.concatenate([*groups, [0][:0]])), np.arange(n)):
            raise ConfigurationError(what, wanted, shown(blocks), advice)
        self._set_attributes(M=_finite(M, (n, n), "M of an LCP"), q=vector, blocks=groups)

    @property
    def size(self) -> int:
        """Number of unknowns."""
        return self.q.size

    def rows(self, z: ArrayLike) -> Array:
        """``w = M z + q`` (n,)."""
        return np.asarray(self.M @ _unknowns(z, self.size) + self.q)

    def residual(self, z: ArrayLike, remainder: ArrayLike | None = None) -> float:
        """``max |min(z, w)|``, in the units of ``z`` and ``w``; there are no remainders."""
        return float(np.abs(np.minimum(_unknowns(z, self.size), self.rows(z))).max(initial=0.0))

    def complementarity(self, z: ArrayLike) -> float:
        """``max |z w|``."""
        return float(np.abs(_unknowns(z, self.size) * self.rows(z)).max(initial=0.0))


@dataclass(frozen=True, slots=True, init=False, eq=False)
class MLCP(Frozen):
    """Find ``x`` and ``z ≥ 0`` with ``M (x, z) + q = (0, w)``, ``w ≥ 0`` and ``wᵀ z = 0``.

    Parameters
    ----------
    M : (k + n, k + n) array_like
    q : (k + n,) array_like
    n_free : int
        ``k``: how many of the unknowns, the first ones, have any sign, and how many of the rows are equalities.

    Raises
    ------
    ConfigurationError
        Not finite, wrong shapes, or ``n_free`` out of range.

    Examples
    --------
    >>> problem = MLCP([[1, 2], [-2, 0]], [1, 3], n_free=1)
    >>> problem.size, problem.n_free
    (2, 1)
    """

    M: Array
    q: Array
    n_free: int

    def __init__(self, M: ArrayLike, q: ArrayLike, n_free: int) -> None:
        vector = _finite(q, (-1,), "q of an MLCP")
        matrix = _finite(M, (vector.size, vector.size), "M of an MLCP")
        k = check_whole("n_free", n_free, "Say how many rows are equalities.", most=vector.size)
        self._set_attributes(M=matrix, q=vector, n_free=k)

    @property
    def size(self) -> int:
        """Number of unknowns, free ones included."""
        return self.q.size

    def rows(self, values: ArrayLike) -> Array:
        """``M (x, z) + q`` (k + n,)."""
        return np.asarray(self.M @ _unknowns(values, self.size) + self.q)

    def equality_residual(self, values: ArrayLike) -> float:
        """``max |rows of the equalities|``."""
        return float(np.abs(self.rows(values)[: self.n_free]).max(initial=0.0))

    def residual(self, values: ArrayLike, remainder: ArrayLike | None = None) -> float:
        """Larger one of `equality_residual` and ``max |min(z, w)|``; there are no remainders."""
        z, w = _unknowns(values, self.size)[self.n_free :], self.rows(values)[self.n_free :]
        return max(self.equality_residual(values), float(np.abs(np.minimum(z, w)).max(initial=0.0)))

    def complementarity(self, values: ArrayLike) -> float:
        """``max |z w|``."""
        return float(np.abs(_unknowns(values, self.size) * self.rows(values))[self.n_free :].max(initial=0.0))


@dataclass(frozen=True, slots=True, init=False, eq=False)
class ConeProblem(Frozen):
    """Contact with Coulomb friction: find impulses ``r`` in the cones so that ``u = W r + b`` obeys Coulomb's law.

    At each contact ``K_μ ∋ r ⊥ u + (0, 0, μ |u_t|) ∈ K_μ*`` with ``K_μ = {|r_t| ≤ μ r_n}``: it lets go (``r = 0``,
    ``u_n ≥ 0``), sticks (``u = 0``) or slips (``u_n = 0``, ``r_t = −μ r_n u_t / |u_t|``). Where friction may exceed
    ``μ r_n`` by a constant, ``|r_t| ≤ μ r_n + friction_offset``: ``0 ≤ r_n ⊥ u_n ≥ 0``, and ``r_t`` opposes ``u_t``, as
    much as it may if that is not zero. So it is with normal impulses given beforehand, and with friction of joints,
    ``μ = 0``.

    Parameters
    ----------
    W : (3n, 3n) array_like
        Delassus matrix, symmetric and positive semidefinite, components in the order tangent, tangent, normal (1/kg).
    b : (3n,) array_like
        Velocities without contact impulses (m/s).
    mu : (n,) array_like or float
        Coefficients of friction.
    more : (n,) array_like or float
        By how much friction may exceed ``μ r_n`` (N s).

    Raises
    ------
    ConfigurationError
        Not finite, wrong shapes, not symmetric, a negative diagonal, or negative friction.

    Examples
    --------
    >>> problem = ConeProblem([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [0.1, 0, -1], mu=0.5)
    >>> problem.n_contacts
    1
    >>> problem.penetration_velocity([0, 0, 0])
    1.0
    >>> problem.residual([-0.1, 0, 1])
    0.0
    """

    W: Array
    b: Array
    mu: Array
    friction_offset: Array

    def __init__(self, W: ArrayLike, b: ArrayLike, mu: ArrayLike, friction_offset: ArrayLike = 0.0) -> None:
        vector = _finite(b, (-1,), "b of contacts")
        if vector.size % 3:
            raise ConfigurationError(
                "b of contacts", "three components a contact", f"{vector.size} numbers",
                "Order: tangent, tangent, normal.",
            )  # fmt: skip
        n = vector.size // 3
        matrix = _finite(W, (3 * n, 3 * n), "W of contacts")
        size = np.abs(matrix).max(initial=0.0)
        asymmetry = np.abs(matrix - matrix.T).max(initial=0.0)
        if asymmetry > ASYMMETRY * size or (n and matrix.diagonal().min() < 0):
            raise ConfigurationError(
                "W of contacts", "a symmetric positive semidefinite matrix",
                f"asymmetry {asymmetry:.1e}, least diagonal entry {matrix.diagonal().min():.1e}",
                "Pass J M⁻¹ Jᵀ, with rows and columns in the same order.",
            )  # fmt: skip
        friction, bound = _bounds(mu, "mu", n), _bounds(friction_offset, "friction_offset", n)
        matrix = np.ascontiguousarray(0.5 * (matrix + matrix.T))
        self._set_attributes(W=matrix, b=vector, mu=friction, friction_offset=bound)

    @property
    def size(self) -> int:
        """Number of unknowns, 3n."""
        return self.b.size

    @property
    def n_contacts(self) -> int:
        """Number of contacts."""
        return self.mu.size

    def velocities(self, r: ArrayLike, remainder: ArrayLike | None = None) -> Array:
        """``u = W (r + remainder) + b`` (n, 3) (m/s), ``remainder`` being that of `Solution`."""
        low = None if remainder is None else self._impulses(remainder).ravel()
        return velocities(self.W, self._impulses(r).ravel(), self.b, low).reshape(-1, 3)

    def residual(self, r: ArrayLike, remainder: ArrayLike | None = None) -> float:
        """``max_i |ω r − P_K(ω r − u − s)|`` (m/s), computed so that round-off of huge impulses does not show.

        ``s = (0, 0, μ |u_t|)``; ``ω`` is the mean mobility of the contact, a third of the trace of its block of ``W``
        (the mean of all where that vanishes).
        """
        low = None if remainder is None else self._impulses(remainder).ravel()
        omega, _ = mobilities(self.W.copy())
        return cone_residual(self.W, self.b, self.mu, self.friction_offset, omega, self._impulses(r).ravel(), low)[0]

    def complementarity(self, r: ArrayLike) -> float:
        """``max_i |rᵀ (u + s)|`` (J): zero where impulses and shifted velocities are complementary."""
        shifted = de_saxce(self.velocities(r), self.mu)
        return float(np.abs((self._impulses(r) * shifted).sum(axis=1)).max(initial=0.0))

    def cone_violation(self, r: ArrayLike) -> float:
        """``max_i max(0, |r_t| − μ r_n − friction_offset, −r_n)`` (N s)."""
        r = self._impulses(r)
        beyond = np.linalg.norm(r[:, :2], axis=1) - self.mu * r[:, 2] - self.friction_offset
        return float(np.maximum(beyond, -r[:, 2]).max(initial=0.0))

    def penetration_velocity(self, r: ArrayLike) -> float:
        """``max_i max(0, −u_n)`` (m/s): how fast bodies still approach."""
        return float(np.maximum(-self.velocities(r)[:, 2], 0.0).max(initial=0.0))

    def dissipation(self, r: ArrayLike) -> Array:
        """``−r_tᵀ u_t`` (n,): energy that friction takes at each contact (J); never negative at a solution."""
        return np.asarray(-(self._impulses(r)[:, :2] * self.velocities(r)[:, :2]).sum(axis=1))

    def polyhedral(self, n_directions: int = 4) -> PolyhedralLCP:
        """The linear problem of [OS] eq. 12, its friction cones approximated by pyramids of ``n_directions`` sides."""
        return PolyhedralLCP(self, n_directions)

    def _impulses(self, r: ArrayLike) -> Array:
        return flat_array(r, self.size, "impulses", "One row for each contact.").reshape(-1, 3)


class RelaxedProblem(ConeProblem):
    """The convex relaxation of a `ConeProblem`, ``K_μ ∋ r ⊥ u ∈ K_μ*``: without De Saxcé's shift ``s``.

    Parameters and errors are those of `ConeProblem`.

    Examples
    --------
    What slides also lifts off: the velocity along the normal is ``μ |u_t|`` (m/s).

    >>> problem = RelaxedProblem([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [1, 0, -1], mu=0.5)
    >>> r = [[-0.6, 0, 1.2]]
    >>> problem.residual(r) < 1e-12, problem.velocities(r).round(6).tolist()
    (True, [[0.4, 0.0, 0.2]])
    """

    __slots__ = ()

    def residual(self, r: ArrayLike, remainder: ArrayLike | None = None) -> float:
        """``max_i |ω r − P_K(ω r − u)|`` (m/s)."""
        omega, _ = mobilities(self.W.copy())
        steps = natural_map(self._impulses(r), self.velocities(r, remainder), self.mu, self.friction_offset, omega)
        return float(np.linalg.norm(steps, axis=1).max(initial=0.0))

    def complementarity(self, r: ArrayLike) -> float:
        """``max_i |rᵀ u|`` (J)."""
        return float(np.abs((self._impulses(r) * self.velocities(r)).sum(axis=1)).max(initial=0.0))


@dataclass(frozen=True, slots=True, init=False, eq=False)
class PolyhedralLCP(LCP):
    """``M = [D̲ᵀ W D̲, Ê; Ē, 0]``, ``q = (D̲ᵀ b, friction_offset)``: pyramids; of size ``n (n_f + 2)``.

    Unknowns are ``β̲ = (F_n, β_1 … β_nf)`` of each contact (N s), then ``σ`` of each contact (m/s). Direction ``j`` of
    a contact is at the angle ``2π j / n_f`` in its tangent plane. The blocks are those of one contact.

    Parameters
    ----------
    cone : ConeProblem
    n_directions : int
        ``n_f``: even, from 2 to 1000.

    Raises
    ------
    ConfigurationError
        Another ``n_directions``.

    Examples
    --------
    >>> from delassus.contact import lemke
    >>> problem = PolyhedralLCP(ConeProblem([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [1, 0, -1], mu=0.5))
    >>> problem.size, problem.impulses(lemke(problem).values).round(6).tolist()
    (6, [[-0.5, 0.0, 1.0]])
    """

    M: Array = field(init=False)  # what follows from the others is not for `dataclasses.replace`
    q: Array = field(init=False)
    blocks: tuple[NDArray[np.int64], ...] = field(init=False)
    cone: ConeProblem
    n_directions: int

    def __init__(self, cone: ConeProblem, n_directions: int = 4) -> None:
        if not isinstance(cone, ConeProblem):
            raise ConfigurationError("cone", "a ConeProblem", shown(cone), "Make one of W, b and mu.")
        n, n_f = cone.n_contacts, check_directions(n_directions)
        M, q = linear_problem(cone.W, cone.b, cone.mu, regular_directions(n_f), cone.friction_offset)
        LCP.__init__(self, M, q, tuple(contact_blocks(n, n_f)))
        self._set_attributes(cone=cone, n_directions=n_f)

    def impulses(self, z: ArrayLike) -> Array:
        """``r = D̲ β̲`` (n, 3) of a solution (N s)."""
        values = finite_array(z, (self.size,), "z", "Pass the values of a solution.")
        return impulses_of(values, regular_directions(self.n_directions), self.cone.n_contacts).reshape(-1, 3)


def check_directions(n_directions: int) -> int:
    """Number of sides of friction pyramids; raises `ConfigurationError` unless it is even, from 2 to 1000."""
    if check_whole("n_directions", n_directions, "An even number; four is usual.", least=2, most=1000) % 2:
        raise ConfigurationError("n_directions", "an even number from 2 on", shown(n_directions), "Four is usual.")
    return int(n_directions)


def _unknowns(values: ArrayLike, size: int) -> Array:
    """Values of unknowns (size,): numbers, which need not be finite; or `ConfigurationError`."""
    array = real_array(values)
    if array is None or array.shape != (size,):
        raise ConfigurationError(
            "values", f"numbers of shape ({size},)", shown(values), "Pass the values of a solution."
        )
    return array


def _finite(value: ArrayLike, shape: tuple[int, ...], argument: str) -> Array:
    """Copy of finite numbers of a shape, of which −1 stands for any number."""
    return np.ascontiguousarray(finite_array(value, shape, argument, "Check how it was assembled."))


def _bounds(value: ArrayLike, argument: str, n: int) -> Array:
    """Numbers ≥ 0, one for each contact."""
    array = real_array(value)
    if array is None or array.shape not in ((), (n,)) or not np.all((array >= 0) & np.isfinite(array)):
        raise ConfigurationError(argument, f"a number ≥ 0, or {n} of them", shown(value), "Give one for each contact.")
    return np.array(np.broadcast_to(array, (n,)))
