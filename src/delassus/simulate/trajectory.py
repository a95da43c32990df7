"""What `ilqr` improves: trajectories of a compiled time step, their costs, and models of these about a plan.

Costs are half sums of squares of residuals; changes are in tangents. Linear-quadratic models have second derivatives of
costs by Gauss and Newton. Those of second order are Newton's: with the costates ``p_t = ∂cost_t/∂x + Aᵀ p_{t+1}``, what
curves beside that is ``p_{t+1} · ∂²x_{t+1}``, along which a kernel makes second derivatives of all steps at once, and
``r · ∂²r`` of residuals, by second differences.

Source: Dunn, Bertsekas, "Efficient dynamic programming implementations of Newton's method for unconstrained optimal
control problems", JOTA 1989. Mayne's differential dynamic programming has ``V_x`` of the step after in place of ``p``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from delassus.accuracy.status import DynamicsStatus
from delassus.errors import ConfigurationError, shown
from delassus.frozen import Frozen
from delassus.model.check import check_whole, real_array
from delassus.model.topology import characteristic_length
from delassus.model.tree import Tree
from delassus.runtime.kernel import Kernel
from delassus.runtime.rollouts.rollout import rollout
from delassus.simulate.riccati import QuadraticModel
from delassus.spatial.rotations import Array

FIRST = 1.0
"""Regularisation at the start, relative to curvatures."""

DIFFERENCE = 1e-6
"""Of central differences of residuals: part of the size that each number has, `TrajectoryProblem.sizes`."""

SECOND_DIFFERENCE = 1e-4
"""Of their second differences."""

LINEAR = 1e-8
"""Second difference of residuals over such a step, relative to the largest first one, up to which it is round-off."""

NONE = np.empty(0)

Residuals = Callable[..., ArrayLike]
"""From times (s), states, controls and, if the step gives them, forces to residuals (..., m), or their derivatives."""


@dataclass(frozen=True, slots=True)
class Plan(Frozen):
    """A trajectory under controls, and its cost.

    ``Plan(q, v, controls)`` is one to start from whose states need not follow from controls.

    Attributes
    ----------
    q, v : (T + 1, nq) and (T + 1, nv) arrays
    controls : (T, nu) array
        Joint forces, or what stands in their place.
    gains : (T, n, 2 nv) array
        Feedback on the tangent of the state, of controls that vary: ``u + K [q ⊖ q_plan; v − v_plan]``; zero at first.
        They are those of Riccati's equation without regularisation.
    impulses : (T + 1, n) array
        Of contact steps; without columns of others.
    forces : (T, m) array
        Those of constraints at each step, if the step gives them; without columns if not.
    gaps : (T + 1, 2 nv) array
        Where the start is and steps lead to minus the states of the plan, in tangents: zero, but of plans that start
        from other states until a step of full length has been taken.
    cost : float
    regularisation : float
        Of the next iteration, relative to the curvature by each control.

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
    controls: Array
    gains: Array = field(default_factory=lambda: NONE)
    impulses: Array = field(default_factory=lambda: NONE)
    forces: Array = field(default_factory=lambda: NONE)
    gaps: Array = field(default_factory=lambda: NONE)
    cost: float = np.inf
    regularisation: float = FIRST

    def __post_init__(self) -> None:
        """Hold copies: arrays that are given stay writable."""
        for name in ("q", "v", "controls", "gains", "impulses", "forces", "gaps", "cost", "regularisation"):
            given, is_number = getattr(self, name), name in ("cost", "regularisation")
            array = real_array(given)
            if array is None or (array.ndim == 0) != is_number:
                wanted = "a number" if is_number else "numbers, one row for each step or state"
                raise ConfigurationError(f"{name} of a plan", wanted, shown(given), "Time is the first axis.")
            self._set_attributes(**{name: float(array) if is_number else array})

    def shifted(self, steps: int = 1) -> Plan:
        """The plan from a later step on; the last state and controls are held for as many steps, without feedback.

        Raises
        ------
        ConfigurationError
            More steps than the plan has.
        """
        check_whole("steps", steps, "Those that have been taken.", most=len(self.controls))

        def later(x: Array, of: Array | float = 1.0) -> Array:
            return np.concatenate([x[steps:], of * np.repeat(x[-1:], steps, axis=0)])

        held: dict[str, Any] = {
            name: later(getattr(self, name)) for name in ("q", "v", "impulses", "forces", "controls")
        }
        return replace(self, **held, gains=later(self.gains, 0.0))


def half_square(residuals: Array) -> Array:
    """Half the sum of squares of residuals (..., m)."""
    return np.asarray(0.5 * np.einsum("...m,...m->...", residuals, residuals))


def checked_residuals(name: str, function: Residuals, wanted: tuple[int, ...]) -> Callable[..., Array]:
    """The function of the user with what it returns checked: (..., *wanted), −1 being any number.

    Leading axes are those of its last argument; what it raises itself stays as it is.
    """
    if not callable(function):
        raise ConfigurationError(name, "a function", shown(function), "Pass such as lambda q, v: q - goal.")

    def call(*arguments: Array) -> Array:
        given, lead = function(*arguments), arguments[-1].shape[:-1]
        found, n = real_array(given), len(wanted)
        tail = None if found is None or found.ndim < n else found.shape[found.ndim - n :]
        if found is not None and tail is not None and all(a in (-1, b) for a, b in zip(wanted, tail, strict=True)):
            with suppress(ValueError):
                return np.broadcast_to(found, lead + tail)
        shape = ", ".join([*map(str, lead), *("m" if size < 0 else str(size) for size in wanted)])
        came = shown(given) if found is None else f"shape {found.shape}"
        raise ConfigurationError(f"what {name} returns", f"real numbers of shape ({shape})", came, "See ilqr.")

    return call


@dataclass(frozen=True, slots=True)
class TrajectoryProblem:
    """Kernels, start and cost, which controls vary, least and largest ones (2, nu), and other arguments.

    ``curvature`` makes second derivatives of steps along costates; None where models have none.
    """

    step: Kernel
    derivatives: Kernel
    start: tuple[Array, Array]
    dt: float
    along: Callable[..., Array]
    last: Callable[..., Array]
    jacobians: tuple[Callable[..., Array], Callable[..., Array]] | None
    varied: Array
    bounds: Array
    others: dict[str, Any]
    per_step: tuple[str, ...]
    curvature: Kernel | None = None

    @property
    def tree(self) -> Tree:
        """The robot."""
        return self.step.request.tree

    @property
    def has_forces(self) -> bool:
        """Whether residuals of steps are of forces, too."""
        return "forces" in (r.name for r in self.step.results)

    def rolled(self, plan: Plan, change: Array, lengths: Array, price: float = 0.0) -> tuple[Plan, float]:
        """The best of the plans with parts (n,) of a change (T, n) of controls, each under the plan's feedback.

        They leave as much of the gaps as is missing of a whole change, which costs so much of the ``price``: the cost
        of the best one with that comes second.
        """
        n, T = len(lengths), len(plan.controls)
        u = np.repeat(plan.controls[:, None], n, axis=1)
        u[..., self.varied] += lengths[:, None] * change[:, None]
        u, law = np.clip(u, *self.bounds), dict[str, Any]()
        if len(plan.q):
            K = np.zeros((T, u.shape[-1], 2 * self.tree.nv))
            K[:, self.varied] = plan.gains
            law = {"feedback": K, "nominal": (plan.q, plan.v), "bounds": tuple(self.bounds)}
            law |= {"defects": (lengths[:, None] - 1.0) * plan.gaps[:, None]} if plan.gaps.any() else {}
        how: dict[str, Any] = {"time_axis": 0, "return_status": True, "per_step": self.per_step, **law}
        q, v, *beside, status = rollout(self.step, self.start[0], self.start[1], u, self.dt, **how, **self.others)
        u = beside.pop() if law else u
        impulses = beside[0] if self.step.iterates else np.empty((T + 1, n, 0))
        forces = beside[0] if self.has_forces else np.empty((T, n, 0))
        sound = (status == DynamicsStatus.SOLVED).all(axis=0)
        sound &= np.isfinite(q).all(axis=(0, -1)) & np.isfinite(v).all(axis=(0, -1))
        costs, of = np.full(n, np.inf), np.flatnonzero(sound)
        if len(of):
            costs[of] = self.cost(q[:, of], v[:, of], u[:, of], forces[:, of])
            costs[np.isnan(costs)] = np.inf
        merits = costs + price * (1.0 - lengths)
        best = int(merits.argmin())
        best_q, best_v, best_u, *rest = (x[:, best] for x in (q, v, u, impulses, forces))
        left = np.zeros((T + 1, 2 * self.tree.nv)) if not len(plan.gaps) else (1.0 - lengths[best]) * plan.gaps
        made = Plan(best_q, best_v, best_u, plan.gains, rest[0], rest[1], left, float(costs[best]), plan.regularisation)
        return made, float(merits[best])

    def cost(self, q: Array, v: Array, u: Array, forces: Array) -> Array:
        """Costs (...) of trajectories, time first."""
        times = np.asarray(self.dt * np.arange(len(u))).reshape(-1, *[1] * (q.ndim - 2))
        steps = q[:-1], v[:-1], u, *([forces] if self.has_forces else [])
        return np.asarray(half_square(self.along(times, *steps)).sum(axis=0) + half_square(self.last(q[-1], v[-1])))

    def begun(self, plan: Plan) -> Plan:
        """The plan at its own states, with the gaps of all steps between them, and its cost."""
        u, nv = np.clip(plan.controls, *self.bounds), self.tree.nv
        impulses = plan.impulses if len(plan.impulses) else np.zeros((len(plan.q), 0))
        if self.step.iterates and not impulses.size:
            impulses = np.zeros((len(plan.q), self.step.arguments[2].size))
        found = self.called(self.step, replace(plan, controls=u), impulses[:-1])
        after = found["q_next"], found["v_next"]
        ends = [np.concatenate([a[None], b]) for a, b in zip(self.start, after, strict=True)]
        gaps = np.concatenate([self.step.difference(plan.q, ends[0]), ends[1] - plan.v], axis=-1)
        forces = found["forces"] if self.has_forces else np.empty((len(u), 0))
        if self.step.iterates:
            impulses = np.concatenate([impulses[:1], found["impulses_next"]])
        gains = plan.gains if len(plan.gains) else np.zeros((len(u), len(self.varied), 2 * nv))
        cost = float(self.cost(plan.q, plan.v, u, forces))
        cost = cost if np.isfinite(gaps).all() else np.inf
        return Plan(plan.q, plan.v, u, gains, impulses, forces, gaps, cost, plan.regularisation)

    def sizes(self, plan: Plan) -> list[Array]:
        """Size of each number of tangents of configurations, velocities, controls and forces of a plan, in its unit.

        At least what moves the robot by its own length, or a radian, in the time of the plan.
        """
        length, time = characteristic_length(self.tree), len(plan.controls) * self.dt
        axes = np.concatenate([np.zeros(0, dtype=int), *(joint.motion_axes for joint in self.tree.joints)])
        moved, speed = np.where(axes < 3, length, 1.0), length / time  # along axes, and about them
        energy = self.tree.inertias[:, 0, 0].sum() * speed * speed
        usual = moved / time, energy / moved if plan.controls.shape[1] == len(moved) else energy, energy / length
        largest = (np.nan_to_num(np.abs(x)).max(axis=0, initial=0.0) for x in (plan.v, plan.controls, plan.forces))
        return [moved, *(np.maximum(x, least) for x, least in zip(largest, usual, strict=True))]

    def differences(self, residuals: Callable[..., Array], sizes: list[Array], q: Array, *others: Array) -> Array:
        """Derivatives (..., m, n) of residuals by tangents of configurations and all others, by central differences."""
        widths = DIFFERENCE * np.concatenate(sizes[: 1 + len(others)])
        ahead, behind = self.at_both(residuals, np.diag(widths), q, *others)
        return np.asarray(np.moveaxis(ahead - behind, 0, -1) / (2.0 * widths))

    def at_both(self, function: Callable[..., Array], steps: Array, q: Array, *others: Array) -> tuple[Array, Array]:
        """Values (k, ...) of a function ahead and behind by steps (k, n) in tangents."""
        ends, lead = np.cumsum([self.tree.nv, *(x.shape[-1] for x in others)]), [1] * (q.ndim - 1)
        both = np.concatenate([steps, -steps]).reshape(2 * len(steps), *lead, ends[-1])
        u, *parts = np.split(both, ends[:-1], axis=-1)
        values = function(self.tree.integrate(q, u), *(x + part for x, part in zip(others, parts, strict=True)))
        return values[: len(steps)], values[len(steps) :]

    def called(self, kernel: Kernel, plan: Plan, impulses: Array, costate: Array | None = None) -> dict[str, Array]:
        """What a kernel makes of all steps, by name."""
        states = {"q": plan.q[:-1], "v": plan.v[:-1], "impulses": impulses, "costate": costate}
        values = {**states, self.step.request.control: plan.controls, "dt": self.dt, **self.others}
        found = kernel(*(values[a.name] for a in kernel.arguments))
        return dict(zip((r.name for r in kernel.results), found if len(kernel.results) > 1 else [found], strict=True))

    def derivatives_of_residuals(self, plan: Plan, sizes: list[Array]) -> tuple[Any, Any]:
        """Functions from states, controls and forces of steps, and from those of the end, to derivatives."""
        if self.jacobians is not None:
            return partial(self.jacobians[0], self._times(plan)), self.jacobians[1]
        along = partial(self.along, self._times(plan))
        return partial(self.differences, along, sizes), partial(self.differences, self.last, sizes)

    def _times(self, plan: Plan) -> Array:
        return np.asarray(self.dt * np.arange(len(plan.controls)))

    def _steps(self, plan: Plan) -> tuple[Array, ...]:
        return plan.q[:-1], plan.v[:-1], plan.controls, *([plan.forces] if self.has_forces else [])

    def model(self, plan: Plan) -> tuple[QuadraticModel, Callable[[], QuadraticModel]]:
        """The linear-quadratic model about a plan, by Gauss and Newton, and what makes Newton's of it."""
        # impulses of the solution itself: those of the step before would be a longer way to it
        changes = self.called(self.derivatives, plan, plan.impulses[1:])
        A, B, nx, steps, end = changes["A"], changes["B"], 2 * self.tree.nv, self._steps(plan), (plan.q[-1], plan.v[-1])
        r, r_end = self.along(self._times(plan), *steps), self.last(*end)
        sizes = self.sizes(plan)
        of_steps, of_end = self.derivatives_of_residuals(plan, sizes)
        J, J_end = of_steps(*steps), of_end(*end)
        J, by_forces = np.split(J, [nx + plan.controls.shape[-1]], axis=-1)
        with_forces = np.zeros((len(J), 0, J.shape[-1]))
        if self.has_forces:
            with_forces = np.concatenate([changes["C"], changes["D"]], axis=-1)
            J = J + by_forces @ with_forces
        room = (self.bounds[:, None] - plan.controls)[..., self.varied]
        model = QuadraticModel(
            A, B, plan.gaps[1:], J, r, J_end, r_end, self.varied, room, np.zeros((len(A), 0, 0)), np.zeros((0, 0))
        )

        def newton() -> QuadraticModel:
            assert self.curvature is not None
            H = self.called(self.curvature, plan, plan.impulses[:-1], self._costates(model, by_forces))["H"]
            own = self.second_differences(partial(self.along, self._times(plan)), sizes, r, *steps)
            H_end = self.second_differences(self.last, sizes, r_end, *end)
            if own is not None:  # by states and controls, of which forces are functions
                eye = np.broadcast_to(np.eye(J.shape[-1]), (len(J), *[J.shape[-1]] * 2))
                with_all = np.concatenate([eye, with_forces], axis=1)
                H = H + with_all.swapaxes(-1, -2) @ own @ with_all
            return model._replace(H=H, H_end=model.H_end if H_end is None else H_end)

        return model, newton

    def _costates(self, model: QuadraticModel, by_forces: Array) -> Array:
        """Derivatives (T, 2 nv + m) of the cost by the state after each step, and by its forces."""
        T, nx = model.gaps.shape
        rows = sum(c.size for c in self.step.request.constraints)
        out, p = np.zeros((T, nx + rows)), model.J_end.T @ model.r_end
        by_states = np.einsum("tmx,tm->tx", model.J[..., :nx], model.r)
        for t in reversed(range(T)):
            out[t, :nx] = p
            p = by_states[t] + p @ model.A[t]
        if self.has_forces:
            out[:, nx:] = np.einsum("tmf,tm->tf", by_forces, model.r)
        return out

    def second_differences(
        self, residuals: Callable[..., Array], sizes: list[Array], r: Array, q: Array, *others: Array
    ) -> Array | None:
        """``r · ∂²r`` (..., n, n) by tangents of configurations and all others; None if residuals are linear.

        They are if they are straight along one direction at random, and linear in numbers by which they do not curve
        together with it. ``∂²/∂x∂y`` is half of what curves along ``x + y`` and not along ``x`` or ``y``.
        """
        widths = SECOND_DIFFERENCE * np.concatenate(sizes[: 1 + len(others)])
        n, steps, along = len(widths), np.diag(widths), widths * np.random.default_rng(0).uniform(0.5, 1.0, len(widths))

        def curve(some: Array) -> tuple[Array, float]:
            """Second differences (k, ..., m) along steps, and up to which they are round-off."""
            ahead, behind = self.at_both(residuals, some, q, *others)
            return ahead + behind - 2.0 * r, LINEAR * float(np.abs(ahead - behind).max(initial=0.0))

        straight, least = curve(along[None])
        if np.abs(straight).max(initial=0.0) <= least:
            return None
        own, mixed = np.split(curve(np.concatenate([steps, along + steps]))[0], 2)
        curved = np.flatnonzero(np.abs(mixed - own - straight).max(axis=tuple(range(1, own.ndim))) > least)
        out, own = np.zeros((*r.shape[:-1], n, n)), np.einsum("k...m,...m->k...", own, r)
        first, second = (curved[k] for k in np.triu_indices(len(curved), 1))
        at_once = max(len(first) if q.ndim == 1 else len(curved), 1)
        for k in range(0, len(first), at_once):
            i, j = first[k : k + at_once], second[k : k + at_once]
            pairs = 0.5 * (np.einsum("k...m,...m->k...", curve(steps[i] + steps[j])[0], r) - own[i] - own[j])
            out[..., i, j] = out[..., j, i] = np.moveaxis(pairs, 0, -1) / (widths[i] * widths[j])
        out[..., curved, curved] = np.moveaxis(own[curved], 0, -1) / widths[curved] ** 2
        return out
