"""What forward dynamics and impacts return to users: solutions, status, residuals that check them, derivatives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.accuracy.status import DynamicsStatus, Resolved, System
from delassus.algorithms.dynamics.derivatives.accelerations import DERIVATIVES
from delassus.algorithms.dynamics.derivatives.second import SECOND_DERIVATIVES
from delassus.constraints import row_slices
from delassus.frozen import Frozen
from delassus.spatial.rotations import Array


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ForwardDynamics(Frozen):
    """Solution of a batch of states.

    Attributes
    ----------
    qdd : (..., nv) array
        Joint accelerations; those of a free joint in its link's frame, as ``v`` is.
    forces : tuple of (..., m_c) arrays
        Force of each constraint on its first link, along its rows (N, N·m): ``M q̈ + c = τ + Jᵀ f``.
    status : (...) array of DynamicsStatus
        How each state was solved; the member's ``text`` is the advice.
    error_estimate : (...) array
        Relative error of ``qdd`` and of ``forces``, largest difference over largest entry, that round-off has caused,
        by what the solution misses of the equations of motion: seldom less than the true one, mostly ten times that.
    rank : (...) array of int
        Number of independent constraint rows at each state.
    redundant_rows : (..., m) array of bool
        Rows, in the order in which constraints stack, that depend on rows before them or that nothing moves; without
        them the others are independent.
    method : str
        Name of the method.
    iterations : (...) array of int or None
        Number of proximal iterations at each state; None for other methods.
    residual : (...) array or None
        Norm of what they left of ``compliance_residual()``, by their own account.

    Examples
    --------
    >>> import delassus as ds
    >>> robot = ds.mechanisms.humanoid()
    >>> feet = [ds.Weld("left_foot"), ds.Weld("right_foot")]
    >>> solution = ds.forward_dynamics(robot, robot.random(0, batch=3), [0.0] * 38, [0.0] * 38, feet)
    >>> solution.qdd.shape, [force.shape for force in solution.forces], solution.status[0].name
    ((3, 38), [(3, 6), (3, 6)], 'SOLVED')
    >>> bool(abs(solution.constraint_residual()).max() < 1e-9)
    True
    """

    qdd: Array
    forces: tuple[Array, ...]
    status: NDArray[np.object_]
    error_estimate: Array
    rank: NDArray[np.int_]
    redundant_rows: NDArray[np.bool_]
    method: str
    iterations: NDArray[np.int_] | None
    residual: Array | None
    _bound: Any

    def __repr__(self) -> str:
        statuses = [status.name for status in DynamicsStatus if np.any(self.status == status)]
        return f"{type(self).__name__}(method={self.method!r}, qdd={self.qdd.shape}, status={', '.join(statuses)})"

    def report(self) -> str:
        """Report in words: each status with its advice, and the rows that depend on those before them.

        Rows are counted from zero within their constraint, "at" so many states.
        """
        return _report(self)

    def constraint_residual(self) -> Array:
        """``Σ K a − k`` (..., m): acceleration along each row less what the constraint asks for (m/s², rad/s²).

        Soft constraints give way by ``R f``; see `compliance_residual`.
        """
        return self._missed(self._bound.system())

    def compliance_residual(self) -> Array:
        """``Σ K a − k + R f`` (..., m): what is left where soft constraints have given way as they should."""
        system: System = self._bound.system()
        return self._missed(system) + system.compliance * self._stacked

    def dynamics_residual(self) -> Array:
        """``M q̈ + c − τ − Jᵀ f`` (..., nv): force that is missing or left over at each joint (N, N·m)."""
        system: System = self._bound.system()
        residual = system.M @ self.qdd[..., None] - np.swapaxes(system.J, -1, -2) @ self._stacked[..., None]
        return np.asarray(residual[..., 0] - system.force)

    def _missed(self, system: System) -> Array:
        return np.asarray((system.J @ self.qdd[..., None])[..., 0] - system.gamma)

    @property
    def _stacked(self) -> Array:
        none = np.zeros((*self.qdd.shape[:-1], 0))
        return np.concatenate([none, *self.forces], axis=-1)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DynamicsDerivatives(ForwardDynamics):
    """Solution of a batch of states, as `ForwardDynamics` holds it, and how it changes.

    Entry (i, k) of a derivative is the change of entry i per unit of entry k, in SI units. Positions change along the
    tangent that `Tree.integrate` moves on. Where rows are dependent, as the status says, derivatives are those of
    the least-squares solution as long as the rank stays, forces being those of least norm.

    Attributes
    ----------
    dqdd_dq, dqdd_dv, dqdd_dtau : (..., nv, nv) arrays
        Changes of accelerations with positions, velocities and joint forces; the last is symmetric. With
        ``control="actuators"`` or ``"pd"`` it is with controls (..., nv, nu) or target configurations (..., nv, nq).
    df_dq, df_dv, df_dtau : (..., m, nv) arrays
        The same of the forces of all constraints, one after the other.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(4)
    >>> d = ds.dynamics_derivatives(arm, arm.random(0), [0.0] * 4, [0.0] * 4, ds.Point("link4"))
    >>> d.dqdd_dq.shape, d.df_dtau.shape
    ((4, 4), (3, 4))
    """

    dqdd_dq: Array
    dqdd_dv: Array
    dqdd_dtau: Array
    df_dq: Array
    df_dv: Array
    df_dtau: Array


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DynamicsHessian(DynamicsDerivatives):
    """Solution of a batch of states with its first derivatives, as `DynamicsDerivatives` holds it, and second ones.

    Entry (i, j, k) of ``d2qdd_dqdv`` is the second derivative of acceleration i by position j and velocity k. Positions
    change as ``tree.integrate(q, δ)``, and derivatives are by ``δ`` at zero.

    Attributes
    ----------
    d2qdd_dqdq, d2qdd_dqdv, d2qdd_dvdv, d2qdd_dqdtau : (..., nv, nv, nv) arrays
        Second derivatives of accelerations, in SI units; the first and the third are symmetric in their last two axes.
    d2f_dqdq, d2f_dqdv, d2f_dvdv, d2f_dqdtau : (..., m, nv, nv) arrays
        The same of the forces of all constraints, one after the other; NaN where rows are dependent.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(4)
    >>> d = ds.dynamics_hessian(arm, arm.random(0), [0.0] * 4, [0.0] * 4, ds.Point("link4"))
    >>> d.d2qdd_dqdq.shape, d.d2f_dqdtau.shape
    ((4, 4, 4), (3, 4, 4))
    """

    d2qdd_dqdq: Array
    d2qdd_dqdv: Array
    d2qdd_dvdv: Array
    d2qdd_dqdtau: Array
    d2f_dqdq: Array
    d2f_dqdv: Array
    d2f_dvdv: Array
    d2f_dqdtau: Array


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ImpulseDynamics(Frozen):
    """Impacts of a batch of states, as `impulse` returns them; all arrays are read-only.

    Attributes
    ----------
    v_next : (..., nv) array
        Velocities after the impact (m/s, rad/s).
    impulses : tuple of (..., m_c) arrays
        Impulse of each constraint on its first link, along its rows (N·s, N·m·s): ``M (v⁺ − v) = Jᵀ p``.
    status, error_estimate, rank, redundant_rows, method
        As of `ForwardDynamics`; errors are those of the change of velocities and of impulses.

    Examples
    --------
    >>> import delassus as ds
    >>> robot = ds.mechanisms.humanoid()
    >>> found = ds.impulse(robot, robot.random(0, batch=3), [1.0] * 38, [ds.Weld("left_foot"), ds.Weld("left_foot")])
    >>> found.v_next.shape, [p.shape for p in found.impulses], found.status[0].name, found.rank.tolist()
    ((3, 38), [(3, 6), (3, 6)], 'REDUNDANT', [6, 6, 6])
    """

    v_next: Array
    impulses: tuple[Array, ...]
    status: NDArray[np.object_]
    error_estimate: Array
    rank: NDArray[np.int_]
    redundant_rows: NDArray[np.bool_]
    method: str
    _bound: Any

    def __repr__(self) -> str:
        statuses = [status.name for status in DynamicsStatus if np.any(self.status == status)]
        return f"{type(self).__name__}(method={self.method!r}, v={self.v_next.shape}, status={', '.join(statuses)})"

    def report(self) -> str:
        """Report in words, as that of `ForwardDynamics`."""
        return _report(self)


def _report(found: ForwardDynamics | ImpulseDynamics) -> str:
    n, lines = found.status.size, []
    for status in DynamicsStatus:
        if count := int(np.count_nonzero(found.status == status)):
            lines.append(f"{status.name} at {count} of {n} state(s): {status.text}")
    constraints = found._bound.request.constraints
    at = np.count_nonzero(found.redundant_rows.reshape(n, found.redundant_rows.shape[-1]), axis=0)
    for c, (constraint, rows) in enumerate(zip(constraints, row_slices(constraints), strict=True)):
        dependent = [f"{r} (at {k})" if n > 1 else str(r) for r, k in enumerate(at[rows]) if k]
        if dependent:
            lines.append(f"constraint {c}, {constraint!r}: dependent on rows before them: {', '.join(dependent)}")
    return "\n".join(lines)


def impulses_found(bound: Any, found: dict[str, Array]) -> ImpulseDynamics:
    """The result of an impact; its arrays are read-only."""
    _, impulses, status, error, rank, redundant, method, *_ = _fields(bound)
    return ImpulseDynamics(found["v_next"], impulses, status, error, rank, redundant, method, bound)


def solved(bound: Any, _: Mapping[str, Array]) -> ForwardDynamics:
    """The result of a method; its arrays are read-only."""
    return ForwardDynamics(*_fields(bound))


def differentiated(bound: Any, found: dict[str, Array]) -> DynamicsDerivatives:
    """The result with derivatives; its arrays are read-only."""
    return DynamicsDerivatives(*_fields(bound, "ltl"), *(found[name] for name in DERIVATIVES))


def twice_differentiated(bound: Any, found: dict[str, Array]) -> DynamicsHessian:
    """The result with first and second derivatives; its arrays are read-only."""
    names = *DERIVATIVES, *SECOND_DERIVATIVES
    return DynamicsHessian(*_fields(bound, "ltl"), *(found[name] for name in names))


def _fields(bound: Any, method: str = "") -> tuple[Any, ...]:
    resolved: Resolved = bound.resolved
    forces, i = tuple([np.array(resolved.forces[..., rows]) for rows in bound.kept.rows]), resolved.iterated
    iterations, residual = (None, None) if i is None else (i.iterations, i.residual)
    found = resolved.status, resolved.error, resolved.rank, resolved.redundant
    return resolved.qdd, forces, *found, method or bound.request.method, iterations, residual, bound
