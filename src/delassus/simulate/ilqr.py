"""`ilqr`: controls of a compiled time step that make the cost of a trajectory small.

The iterative linear-quadratic regulator: a sweep of Riccati's equation backwards over the derivatives of all steps,
then rollouts of several step lengths under the feedback found. Costs are half sums of squares of residuals, whose
second derivatives are those of Gauss and Newton; changes are in tangents, as derivatives of steps are.

Source: Li, Todorov 2004; Tassa, Erez, Todorov 2012, sections II.C to F. Deviations: all step lengths are tried at once
and the best one is taken; the regularisation is Marquardt's, relative to the curvature by each control.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from delassus.accuracy.status import DynamicsStatus
from delassus.errors import ConfigurationError, shown
from delassus.frozen import Frozen
from delassus.model.check import check_list, finite_array, is_whole
from delassus.runtime.kernel import Kernel
from delassus.spatial.rotations import Array

LENGTHS = 0.5 ** np.arange(8.0)
"""Parts of the change of controls that are tried."""

FIRST, EASIER, HARDER, LEAST, MOST = 1.0, 0.3, 4.0, 1e-8, 1e8
"""Regularisation at the start, its factors after iterations that lower the cost and those that do not, and its bounds,
relative to curvatures."""

DIFFERENCE = 1e-6
"""Of central differences of residuals (m, rad, and over s; units of controls)."""

Residuals = Callable[[Array, Array, Array, Array], ArrayLike]
"""From times (s), states and controls of steps to residuals (..., m)."""

LastResiduals = Callable[[Array, Array], ArrayLike]
"""From states to residuals (..., m)."""


@dataclass(frozen=True, slots=True)
class Plan(Frozen):
    """A trajectory under controls, and its cost.

    Attributes
    ----------
    q, v : (T + 1, nq) and (T + 1, nv) arrays
    impulses : (T + 1, n) array
        Of contact steps; without columns of others.
    controls : (T, nu) array
        Joint forces, or what stands in their place.
    gains : (T, n, 2 nv) array
        Feedback on the tangent of the state, of controls that vary: ``u + K [q ⊖ q_plan; v − v_plan]``; zero at first.
    cost : float

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.pendulum(1)
    >>> kernels = [ds.compile(arm, (), name) for name in ("step", "step_derivatives")]
    >>> still = lambda q, v: np.concatenate([q, v], axis=-1)
    >>> plan = next(ds.ilqr(*kernels, [0.5], [0.0], np.zeros((9, 1)), 0.02, lambda t, q, v, u: u, still))
    >>> plan.q.shape, plan.gains.shape
    ((10, 1), (9, 1, 2))
    """

    q: Array
    v: Array
    impulses: Array
    controls: Array
    gains: Array
    cost: float


def half_square(residuals: ArrayLike) -> Array:
    """Half the sum of squares of residuals (..., m)."""
    r = np.asarray(residuals, dtype=float)
    return np.asarray(0.5 * np.einsum("...m,...m->...", r, r))


class _Problem:
    """Kernels, cost and start of a plan."""

    def __init__(
        self,
        kernels: tuple[Kernel, Kernel],
        start: tuple[Array, Array],
        dt: float,
        cost: tuple[Residuals, LastResiduals],
        varied: Array,
        others: dict[str, Any],
    ) -> None:
        self.step, self.derivatives = kernels
        self.start, self.dt, self.varied, self.others = start, dt, varied, others
        self.along, self.last = cost
        self.tree, self.control = self.step.request.tree, self.step.request.control

    def rolled(self, plan: Plan, change: Array, lengths: Array) -> Plan:
        """The best of the plans with parts (n,) of a change (T, n) of controls, each under the plan's feedback."""
        n, T = len(lengths), len(plan.controls)
        u = np.repeat(plan.controls[:, None], n, axis=1)
        u[..., self.varied] += lengths[:, None] * change[:, None]
        states = [np.zeros((T + 1, n, *a.shape)) for a in self.step.arguments[: self.step.request.states]]
        states[0][0], states[1][0] = self.start
        q, v, *_ = states
        costs, sound = np.zeros(n), np.ones(n, dtype=bool)
        for k in range(T):
            if plan.gains[k].any():
                away = np.concatenate([self.tree.difference(plan.q[k], q[k]), v[k] - plan.v[k]], axis=-1)
                u[k][:, self.varied] += away @ plan.gains[k].T
            costs += half_square(self.along(np.array(k * self.dt), q[k], v[k], u[k]))
            found = self.step(*self.given(self.step, [x[k] for x in states], u[k]), return_status=True)
            sound &= (found[-1] == DynamicsStatus.SOLVED) & np.isfinite(found[0]).all(axis=-1)
            sound &= costs < plan.cost  # it only grows: what diverges is not followed
            if not sound.any():
                break
            for x, new in zip(states, found, strict=False):
                x[k + 1] = np.where(sound[:, None], new, x[k])
        costs = np.where(sound, costs + half_square(self.last(q[-1], v[-1])), np.inf)
        best = int(costs.argmin())
        impulses = states[2] if self.step.iterates else np.empty((T + 1, n, 0))
        return Plan(q[:, best], v[:, best], impulses[:, best], u[:, best], plan.gains, float(costs[best]))

    def given(self, of: Kernel, states: list[Array], u: Array) -> list[ArrayLike]:
        """Arguments of a kernel."""
        names = ("q", "v", "impulses")
        values = {**dict(zip(names, states, strict=False)), self.control: u, "dt": self.dt, **self.others}
        return [values[a.name] for a in of.arguments]

    def expanded(self, residuals: Callable[..., ArrayLike], q: Array, v: Array, u: Array) -> tuple[Array, Array]:
        """Gradient (..., n) and curvature (..., n, n) of the cost of residuals, by tangents and varied controls."""
        nv, n = self.tree.nv, 2 * self.tree.nv + len(self.varied)
        steps = DIFFERENCE * np.concatenate([np.eye(n), -np.eye(n)])
        steps = steps.reshape(2 * n, *[1] * (q.ndim - 1), n)
        moved = self.tree.integrate(q, steps[..., :nv])
        controls = np.repeat(u[None], 2 * n, axis=0)
        controls[..., self.varied] += steps[..., 2 * nv :]
        r = np.asarray(residuals(moved, v + steps[..., nv : 2 * nv], controls))
        J = np.moveaxis(r[:n] - r[n:], 0, -1) / (2.0 * DIFFERENCE)
        at = np.asarray(residuals(q, v, u))
        return np.einsum("...mi,...m->...i", J, at), np.einsum("...mi,...mj->...ij", J, J)

    def linearised(self, plan: Plan) -> Array:
        """Derivatives (T, 2 nv, 2 nv + n) of the states after steps by tangents and varied controls."""
        # impulses of the solution itself: those of the step before would be a longer way to it
        found = self.derivatives(
            *self.given(self.derivatives, [plan.q[:-1], plan.v[:-1], plan.impulses[1:]], plan.controls)
        )
        by_name = dict(zip((r.name for r in self.derivatives.results), found, strict=True))
        return np.concatenate([by_name["A"], by_name["B"][..., self.varied]], axis=-1)

    def backward(self, plan: Plan, regularisation: float) -> tuple[Array, Array]:
        """Change (T, n) of controls, and gains (T, n, 2 nv)."""
        nx, times = 2 * self.tree.nv, np.asarray(self.dt * np.arange(len(plan.controls)))
        F = self.linearised(plan)
        g, H = self.expanded(lambda q, v, u: self.along(times, q, v, u), plan.q[:-1], plan.v[:-1], plan.controls)
        end = self.expanded(lambda q, v, _: self.last(q, v), plan.q[-1], plan.v[-1], plan.controls[-1])
        V_x, V = end[0][:nx], end[1][:nx, :nx]
        change, gains = np.empty((len(F), len(self.varied))), np.empty((len(F), len(self.varied), nx))
        for t in reversed(range(len(F))):  # Riccati's equation
            Q_z, Q = g[t] + F[t].T @ V_x, H[t] + F[t].T @ V @ F[t]
            Q_u, Q_uu, Q_ux = Q_z[nx:], Q[nx:, nx:], Q[nx:, :nx]
            damped = Q_uu + regularisation * np.diag(np.diag(Q_uu))
            solved = np.linalg.solve(damped, np.column_stack([Q_u, Q_ux]))
            k, K = -solved[:, 0], -solved[:, 1:]
            V_x = Q_z[:nx] + K.T @ (Q_uu @ k + Q_u) + Q_ux.T @ k
            V = Q[:nx, :nx] + K.T @ Q_uu @ K + Q_ux.T @ K + K.T @ Q_ux
            V = 0.5 * (V + V.T)
            change[t], gains[t] = k, K
        return change, gains


def ilqr(
    step: Kernel,
    derivatives: Kernel,
    q0: ArrayLike,
    v0: ArrayLike,
    controls: ArrayLike,
    dt: float,
    along: Residuals,
    last: LastResiduals,
    *,
    varied: Sequence[int] | None = None,
    **others: ArrayLike,
) -> Iterator[Plan]:
    """Plans of ever lower cost, by the iterative linear-quadratic regulator: one before, and one after each iteration.

    The cost is ``½ Σ ‖along(t, q, v, u)‖² + ½ ‖last(q, v)‖²`` over steps. There is no end but where no change of
    controls lowers it any more: take as many plans as there is time for.

    Parameters
    ----------
    step, derivatives : Kernel
        Compiled "step" and "step_derivatives", or "contact_step" and "contact_step_derivatives", of the same robot with
        the same options; of the second, outputs "A" and "B" are enough, and ``smoothing`` may be an option of its own.
    q0, v0 : (nq,) and (nv,) array_like
        Where the trajectory starts.
    controls : (T, nu) array_like
        Those to start from, as `rollout` takes them: joint forces, ``ctrl`` or ``q_target``.
    dt : float
        Time step (s).
    along : callable
        ``along(t, q, v, u)`` are residuals (..., m) of steps at times (...) from states (..., nq), (..., nv) under
        controls (..., nu); leading axes are any, and times broadcast with them. They are differentiated numerically.
    last : callable
        ``last(q, v)`` are residuals of the state at the end.
    varied : sequence of int, optional
        Which controls vary; by default all. The cost has to curve with each of them.
    **others : array_like
        Further arguments of the kernels by their names, as in `rollout`.

    Yields
    ------
    Plan
        The best so far. All its steps are solved.

    Raises
    ------
    ConfigurationError
        Kernels that are not these, arrays of another shape, or a first trajectory that is not finite or has steps that
        the kernel does not solve.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.pendulum(1)
    >>> step, derivatives = (ds.compile(arm, (), name) for name in ("step", "step_derivatives"))
    >>> raised = lambda q, v: 10.0 * np.concatenate([q - 1.0, v], axis=-1)
    >>> plans = ds.ilqr(step, derivatives, [0], [0], np.zeros((50, 1)), 0.02, lambda t, q, v, u: 0.01 * u, raised)
    >>> costs = [plan.cost for _, plan in zip(range(20), plans)]
    >>> costs[0], costs[-1] < 0.1
    (50.0, True)
    """
    if (
        not all(isinstance(k, Kernel) for k in (step, derivatives))
        or not step.request.states
        or step.request.tree is not derivatives.request.tree
    ):
        wanted = "kernels of one robot, such as of 'step' and 'step_derivatives'"
        raise ConfigurationError(
            "step and derivatives", wanted, shown([step, derivatives]), "Compile both of one tree."
        )
    names, made = [a.name for a in step.arguments], [r.name for r in derivatives.results]
    if [a.name for a in derivatives.arguments][: len(names)] != names or not {"A", "B"} <= set(made):
        came = f"one from {', '.join(a.name for a in derivatives.arguments)} to {', '.join(made)}"
        wanted = f"a kernel from {', '.join(names)} to A and B"
        raise ConfigurationError("derivatives", wanted, came, "Compile both with the same options.")
    tree = step.request.tree
    (size,) = (a.size for a in step.arguments if a.name == step.request.control)
    u = finite_array(controls, (len(np.atleast_1d(np.asarray(controls))), size), "controls", "Time is the first axis.")
    start = tree.check_configuration(q0, "q0"), tree.check_velocity(v0, "v0")
    chosen = check_list("varied", range(size) if varied is None else varied, "numbers of controls", "Such as [6, 7].")
    if not all(is_whole(k) and 0 <= k < size for k in chosen) or not chosen:
        raise ConfigurationError(
            "varied", f"numbers of controls from 0 to {size - 1}", shown(chosen), "Such as [6, 7]."
        )
    problem = _Problem((step, derivatives), start, dt, (along, last), np.array(chosen), others)
    zero, empty = np.zeros((len(u), len(chosen))), np.empty(0)
    none = Plan(empty, empty, empty, u, np.zeros((*zero.shape, 2 * tree.nv)), np.inf)
    plan = problem.rolled(none, zero, np.ones(1))
    if not np.isfinite(plan.cost):
        came = "some that lead to one that is not, or to numbers that are not finite"
        raise ConfigurationError("controls", "some whose steps are all solved", came, "Start with less.")
    return _improved(problem, plan)


def _improved(problem: _Problem, plan: Plan) -> Iterator[Plan]:
    regularisation = FIRST
    yield plan
    while regularisation < MOST:
        change, gains = problem.backward(plan, regularisation)
        guided = Plan(plan.q, plan.v, plan.impulses, plan.controls, gains, plan.cost)
        new = problem.rolled(guided, change, LENGTHS)
        is_lower = new.cost < plan.cost
        regularisation = max(regularisation * (EASIER if is_lower else HARDER), LEAST)
        plan = new if is_lower else plan
        yield plan
