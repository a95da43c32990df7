"""The one answer to dependent rows, of direct calls, kernels, rollouts and contact (batched NumPy, float64).

At each state the independent rows are counted, by the eigenvalues of ``G`` at unit diagonal above
`delassus.accuracy.rank.REGULAR_CONDITION`;
rows that nothing moves do not count, soft rows always do. Where some depend on others, ``f`` is the least-norm
minimiser of ``‖J q̈ − γ‖``: the solution that the pseudo-inverse of ``G`` gives. Accelerations are then those nearest
to the free ones in the metric of ``M``. A `DynamicsStatus` says how each state was solved.

- Direct functions do this at every state, whatever the method.
- Kernels, and rollouts at each step, do it at states that machine code does not solve (`delassus.runtime.fallback`).
- What does not return statuses warns, of each status by itself (`warn_of`).
- A state that is regular and above the bound is solved by the dense saddle point, then in extended precision.
- Derivatives are those of this solution where the rank stays as it is; they are NaN where it failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delassus.accuracy.rank import DependentRows, by_mass, mass_condition
from delassus.algorithms.dynamics.proximal import ITERATIONS
from delassus.errors import warn
from delassus.frozen import Explained, cached_property
from delassus.spatial.rotations import Array

EPSILON = float(np.finfo(float).eps)

CONFLICT = 1e-9
"""Rows contradict one another if at some row this part of what it is made of, ``|γ| + |J| (|q̈| + |M⁻¹ (τ − c)|)``,
stays missing."""

LEAST_SIZE = 1e-4
"""A row is made of this part of what all rows together are made of, at unit diagonal: one may be at rest but for their
round-off."""

TOLERANCE = 1e-9
"""Iterations have converged where as many again change what the rows miss by less, relative to what they ask for."""

ROUNDING = 64.0
"""Round-off of accelerations without constraints, over that of those which joint forces cause alone: in balance
nothing else is left of them."""

SMALLEST = 1e-300
"""What keeps a quotient from being 0 / 0 where nothing moves and nothing is asked for."""


class DynamicsStatus(Explained):
    """How a state was solved; the text says what that means for the user.

    Examples
    --------
    >>> import delassus as ds
    >>> ds.DynamicsStatus.SOLVED.text
    'every constraint holds; accelerations and forces are unique'
    """

    SOLVED = "every constraint holds; accelerations and forces are unique"
    REDUNDANT = "rows are redundant here: every constraint holds, and the forces are those of least norm"
    CONFLICTING = (
        "rows contradict one another here: accelerations and forces are the least-squares ones; "
        "drop rows, or ask for accelerations that go together"
    )
    UNFINISHED = (
        "iterations stopped before they converged; allow more of them (max_iterations of 'proximal', sweeps of a "
        "contact step), or larger compliances of soft rows; or an argument of a contact step has no meaning: dt above "
        "zero, friction not below it, restitution from 0 to 1, normals of length one"
    )
    INACCURATE = (
        "the relative error may be larger than the bound: the mass matrix or the rows are nearly singular here; "
        "check small inertias, give joints armature, or drop rows that hardly move anything"
    )
    LOOPS_OPEN = (
        "loops gape by more than 1e-4 of the robot's length or of a radian after this step of a rollout: the motion is "
        "too fast for the time step, or velocities at the start open them; shorten it, or use baumgarte"
    )
    FAILED = (
        "numbers overflowed here, or the ends of a Distance coincide, so that it has no direction: nothing is known; "
        "make positions, velocities and forces smaller, or hold points that coincide by a Point"
    )


HARMLESS = (DynamicsStatus.SOLVED, DynamicsStatus.REDUNDANT)
"""States at which every constraint holds."""


def warn_of(whose: str, counts: Mapping[Any, int], total: int, advice: str, what: str = "state") -> None:
    """Warn of states that are not solved, a warning for each status, the worst one first; ``counts`` are by status."""
    for status in reversed(DynamicsStatus):
        if status not in HARMLESS and (n := counts.get(status, 0)):
            said = f"{whose}: {n} of {total} {what}(s) are {status.name}: {status.text}"
            warn(f"{said}. {advice}", kind=f"{whose}: {status.name}")


class Iterated(NamedTuple):
    """Report of proximal iterations by state (...); ``residual`` is the norm of the rows' (m/s², rad/s²)."""

    iterations: NDArray[np.int_]
    residual: Array
    converged: NDArray[np.bool_]


@dataclass(slots=True, eq=False)
class Resolved:
    """Solutions of a batch, dependent rows dealt with.

    ``rank`` (...) counts soft rows as independent, and not those of constraints that are off; ``redundant`` (..., m)
    are rows that depend on those before them, none where the status is `FAILED`. ``dependent`` (..., 1 + 3 m² + m) are
    whether rows depend on others and, where they do, what derivatives need, else zeros: what takes accelerations along
    rows to forces of least norm, ``hard``, ``idle`` and ``missed`` of `Dependence`, the last zero where all rows hold.
    None if they do so nowhere.
    """

    qdd: Array
    forces: Array
    status: NDArray[np.object_]
    rank: NDArray[np.int_]
    redundant: NDArray[np.bool_]
    error: Array
    iterated: Iterated | None = None
    dependent: Array | None = None


class System:
    """What constrained motion solves, at the states of a batch (*batch): ``M q̈ − Jᵀ f = force``, ``J q̈ + R f = γ``.

    Attributes
    ----------
    M, J : (..., nv, nv) and (..., m, nv) arrays
    caused : (..., nv, m) array
        ``M⁻¹ Jᵀ``.
    force, free, gamma, compliance : (..., nv), (..., nv), (..., m) and (..., m) arrays
        ``force``, ``M⁻¹ force``, ``γ`` and the diagonal of ``R``.
    G, relaxed : (..., m, m) arrays
        ``J M⁻¹ Jᵀ + R``; the same with ``slack`` (..., m) on the diagonal in place of rows that are off.
    typical : (..., m) array
        The `mobility_bound` of rows.
    sizes, softness : list of int and of bool
        Of each constraint.
    flags : list of (...) array or None
        1 where a constraint acts; None of one that always does.
    """

    def __init__(
        self, M: Array, J: Array, force: Array, gamma: Array, compliance: Array, slack: Array, typical: Array,
        *, sizes: list[int], softness: Sequence[bool], flags: list[Array | None],
    ) -> None:  # fmt: skip
        self.M, self.J, self.force, self.gamma, self.compliance = M, J, force, gamma, compliance
        self._slack, self.typical = slack, typical
        self.sizes, self.softness, self.flags = sizes, softness, flags

    @cached_property
    def _solved(self) -> tuple[Array, Array, Array]:
        return by_mass(self.M, self.J, self.force)

    @property
    def caused(self) -> Array:
        """``M⁻¹ Jᵀ``."""
        return self._solved[0]

    @property
    def free(self) -> Array:
        """``M⁻¹ force``."""
        return self._solved[1]

    @cached_property
    def G(self) -> Array:
        """``J M⁻¹ Jᵀ + R``."""
        return np.asarray(self._solved[2] + self.compliance[..., None] * np.eye(self.compliance.shape[-1]))

    @property
    def relaxed(self) -> Array:
        """``G`` with a diagonal in place of rows that are off."""
        return np.asarray(self.G + self._slack[..., None] * np.eye(self._slack.shape[-1]))

    @property
    def deficit(self) -> Array:
        """``γ − J M⁻¹ force`` (..., m): accelerations of the rows that constraints have to add."""
        return np.asarray(self.gamma - (self.J @ self.free[..., None])[..., 0])

    @property
    def among_hard_rows(self) -> Array:
        """``relaxed``, with an identity in place of the rows and columns of soft constraints."""
        soft = np.repeat(np.array(self.softness, dtype=bool), self.sizes)
        return np.where(soft[:, None] | soft, np.eye(len(soft)), self.relaxed)

    @cached_property
    def rows(self) -> DependentRows:
        """Which rows depend on others, and what solves those that do."""
        return DependentRows(self.relaxed, self.typical, self.among_hard_rows)

    @property
    def rank(self) -> NDArray[np.int_]:
        """Number of independent rows at each state; soft ones are independent of all others."""
        *batch, m = self.gamma.shape
        return self.rows.rank if m and not all(self.softness) else np.full(batch, m)


Solve = Callable[[NDArray[np.bool_]], tuple[Array, Array, Array]]
"""Accelerations, forces and their relative errors (k) at the states chosen."""


def resolve(
    system: System,
    qdd: Array,
    forces: Array,
    error: Array,
    others: Sequence[Solve],
    error_bound: float,
    iterated: Iterated | None = None,
) -> Resolved:
    """Check the rank of the rows at each state, and solve again where it is deficient or the error too large.

    Arrays are of all states (*batch), and written to. ``others`` are tried one after the other.
    """
    batch, m = error.shape, forces.shape[-1]
    status: NDArray[np.object_] = np.full(batch, DynamicsStatus.SOLVED, dtype=object)
    rank, redundant = system.rank, np.zeros((*batch, m), dtype=bool)
    regular, dependent = np.asarray(rank == m), None
    if m and not regular.all():
        deficient = ~regular
        f, a, held, left, dependent = _least_squares(system, deficient)
        qdd[deficient], forces[deficient] = a[deficient], f[deficient]
        error[deficient] = EPSILON * np.broadcast_to(mass_condition(system.M), batch)[deficient]
        if iterated is not None:
            iterated.residual[deficient] = np.linalg.norm(left, axis=-1)[deficient]
        status[deficient] = DynamicsStatus.CONFLICTING
        status[deficient & held] = DynamicsStatus.REDUNDANT
        redundant |= system.rows.redundant
    for solve in others:
        wrong = np.array(regular & ~(error <= error_bound))
        if not wrong.any():
            break
        a, f, found = solve(wrong)
        better = ~(found >= error[wrong])
        wrong[wrong] = better
        qdd[wrong], forces[wrong], error[wrong] = a[better], f[better], found[better]
        if iterated is not None:
            rest = system.deficit - (system.G @ forces[..., None])[..., 0]
            iterated.residual[wrong] = np.broadcast_to(np.linalg.norm(rest, axis=-1), batch)[wrong]
    error = np.array(np.maximum(error, EPSILON))
    status[~(error <= error_bound)] = DynamicsStatus.INACCURATE
    if iterated is not None:
        status[~iterated.converged & regular] = DynamicsStatus.UNFINISHED
    end = 0
    for size, flag in zip(system.sizes, system.flags, strict=True):
        start, end = end, end + size
        if flag is not None:
            rank = np.asarray(rank - np.where(flag, 0, size))
            forces[..., start:end] = np.where(np.asarray(flag)[..., None], forces[..., start:end], 0.0)
    failed = ~are_finite([qdd, forces], batch)
    status[failed], redundant[failed] = DynamicsStatus.FAILED, False
    return Resolved(qdd, forces, status, rank, redundant, error, iterated, dependent)


def contradict(system: System, batch: tuple[int, ...]) -> NDArray[np.bool_]:
    """States (*batch) at which no accelerations are what all rows ask for."""
    dependent = np.broadcast_to(system.rows.rank < system.gamma.shape[-1], batch)
    return dependent & ~_least_squares(system, dependent)[2] if dependent.any() else dependent


def are_finite(results: Sequence[NDArray[Any]], batch: tuple[int, ...]) -> NDArray[np.bool_]:
    """Whether all numbers of each state (*batch) are finite."""
    out = np.ones(batch, dtype=bool)
    for x in results:
        out &= np.isfinite(x).all(axis=tuple(range(len(batch), x.ndim)))
    return out


def worst(statuses: list[NDArray[np.object_]]) -> NDArray[np.object_]:
    """The last status in the order of `DynamicsStatus` that each state has had."""
    out = statuses[0].copy()
    for status in DynamicsStatus:
        for one in statuses[1:]:
            out[(one == status) & (out != one)] = status
    return out


def _least_squares(system: System, where: NDArray[np.bool_]) -> tuple[Array, Array, NDArray[np.bool_], Array, Array]:
    """Forces and accelerations where rows are dependent, whether all rows hold, what they miss, and its derivatives.

    Accelerations come from forces at unit diagonal, before those are made the ones of least norm: rows of very
    different size do not hold to all digits with the latter.
    """
    J, free, asked, gamma = system.J, *(x[..., None] for x in (system.free, system.deficit, system.gamma))
    rows = system.rows

    def moved(f: Array) -> tuple[Array, Array]:
        qdd = free + system.caused @ f
        return qdd, gamma - J @ qdd - system.compliance[..., None] * f

    f = rows.inverse @ asked
    f = f + rows.inverse @ moved(f)[1]
    qdd, left = moved(f)
    size = rows.scale[..., None] * (np.abs(gamma) + np.abs(J) @ (np.abs(free) + np.abs(qdd)))
    size = size + LEAST_SIZE * np.linalg.norm(size, axis=-2, keepdims=True)
    held = np.all(rows.scale[..., None] * np.abs(left) <= CONFLICT * size, axis=(-2, -1))

    # rows that contradict one another: what no force can give is taken off
    best = rows.inverse @ rows.without_null(asked)
    best = best + rows.inverse @ rows.without_null(moved(best)[1])
    f = np.where(held[..., None, None], f, best)
    qdd, left = (np.where(held[..., None, None], x, y) for x, y in zip((qdd, left), moved(best), strict=True))
    idle = f - rows.without_null(f)
    f = f - idle + rows.inverse @ (J @ (system.caused @ idle))
    hard = rows.of_least_norm
    if any(system.softness):
        is_hard = ~np.repeat(system.softness, system.sizes)
        least = DependentRows(system.among_hard_rows, system.typical).of_least_norm
        hard = np.where(is_hard[:, None] & is_hard, least, 0.0)
    idle = rows.null @ np.swapaxes(rows.null, -1, -2)
    missed, m = np.where(held[..., None, None], 0.0, idle @ left), gamma.shape[-2]
    squares = [x.reshape(*where.shape, m * m) for x in (rows.of_least_norm, hard, idle)]
    dependent = np.concatenate([np.ones((*where.shape, 1)), *squares, missed[..., 0]], axis=-1)
    dependent = np.where(where[..., None], dependent, 0.0)
    return f[..., 0], qdd[..., 0], held, left[..., 0], dependent


def iterations_of(
    G: Array, asked: Array, gamma: Array, by_joints: Array, b: Array, tolerance: float, most: int
) -> Iterated:
    """How many iterations each state (k) needs, `ITERATIONS` and ``most`` at most; the residual is that of none.

    ``asked`` (k, m) are the accelerations of rows that constraints add, of ``gamma``, ``by_joints`` those that joint
    forces cause, and ``b`` (k, 2 n − 1, m) what rows miss after each of the iterations.
    """
    scale = 1.0 / np.maximum(np.diagonal(G, axis1=-2, axis2=-1), np.finfo(float).tiny)
    rounding = ROUNDING * np.finfo(float).eps / tolerance * by_joints
    size = np.sum(scale * (gamma * gamma + (gamma - asked) ** 2 + rounding * rounding), axis=-1)

    most, n = min(most, ITERATIONS), len(b)
    converged, iterations = np.zeros(n, dtype=bool), np.full(n, most)
    for k in range(1, most + 1):
        iterations[~converged] = k
        if k > 1:  # accelerations of the rows by those asked for and had without constraints, all at unit diagonal
            x = b[:, k - 1] - b[:, 2 * k - 2]
            converged |= np.sqrt(np.sum(scale * x * x, axis=-1) / (size + SMALLEST)) <= tolerance
    return Iterated(iterations, np.zeros(n), converged)
