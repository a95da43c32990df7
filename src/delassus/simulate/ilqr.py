"""`ilqr`: controls of a compiled time step that make the cost of a trajectory small.

The iterative linear-quadratic regulator: a sweep of Riccati's equation backwards over the derivatives of all steps,
then rollouts of several step lengths under the feedback found. Plans may start from states that no controls lead to:
gaps between steps are in the model, and rollouts of a part of a change keep the rest of them. Costs are half sums of
squares of residuals, whose second derivatives are those of Gauss and Newton; changes are in tangents.

Source: Li, Todorov 2004; Tassa, Erez, Todorov 2012, sections II.C to F; gaps: Mastalli et al., "Crocoddyl", ICRA 2020,
section IV (FDDP). Deviations: all step lengths are tried at once and the best one is taken; gaps have a price, twice
the sum of what each changes the cost by, its product with the multiplier; the regularisation is Marquardt's, relative
to the curvature by each control.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from delassus.accuracy.status import DynamicsStatus
from delassus.errors import ConfigurationError, shown
from delassus.frozen import Frozen
from delassus.model.check import check_list, check_number, check_whole, finite_array, is_whole, real_array
from delassus.model.topology import characteristic_length
from delassus.model.tree import Tree
from delassus.runtime.kernel import Kernel
from delassus.runtime.rollouts.loop import check_bounds
from delassus.runtime.rollouts.rollout import rollout
from delassus.simulate.riccati import QuadraticModel, riccati
from delassus.spatial.rotations import Array

LENGTHS = 0.5 ** np.arange(8.0)
"""Parts of the change of controls that are tried."""

FIRST = 1.0
"""Regularisation at the start, relative to curvatures."""
EASIER = 0.3
"""Its factor after an iteration that lowers the cost."""
HARDER = 4.0
"""Its factor after one that does not."""
LEAST = 1e-8
"""Its lower bound."""
MOST = 1e8
"""Its upper bound."""

ROUND_OFF = 4.0 * float(np.finfo(float).eps)
"""Of the cost, for each step: expected decreases below it are the rounding of its sum."""

DIFFERENCE = 1e-6
"""Of central differences of residuals: part of the size that each number has, `_Problem.sizes`."""

NONE = np.empty(0)

PRICE = 2.0
"""Of gaps, over what they change costs by: from 1 on, plans without gaps are the best ones nearby."""

WORST = 1e250
"""Price of gaps at which the plan with the least is the best one."""

OWN = {"smoothing", "solver", "sweeps", "tolerance", "sensors"}
"""Options that kernels of derivatives may have of their own: they do not change the motion that is differentiated."""

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


def _checked(name: str, function: Residuals, wanted: tuple[int, ...]) -> Callable[..., Array]:
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
class _Problem:
    """Kernels, start and cost, which controls vary, least and largest ones (2, nu), and other arguments."""

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
        ends = np.cumsum([self.tree.nv, *(x.shape[-1] for x in others)])
        n, widths = int(ends[-1]), DIFFERENCE * np.concatenate(sizes[: 1 + len(others)])
        steps = np.concatenate([np.diag(widths), -np.diag(widths)])
        u, *parts = np.split(steps.reshape(2 * n, *[1] * (q.ndim - 1), n), ends[:-1], axis=-1)
        moved = [self.tree.integrate(q, u), *(x + part for x, part in zip(others, parts, strict=True))]
        r = residuals(*moved)
        return np.asarray(np.moveaxis(r[:n] - r[n:], 0, -1) / (2.0 * widths))

    def residuals(self, plan: Plan, changes: dict[str, Array]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Derivatives by tangents and controls, and residuals, of steps and of the end; ``changes``: of steps."""
        times, nx = np.asarray(self.dt * np.arange(len(plan.controls))), 2 * self.tree.nv
        steps = plan.q[:-1], plan.v[:-1], plan.controls, *([plan.forces] if self.has_forces else [])
        end, along, last = (plan.q[-1], plan.v[-1]), partial(self.along, times), self.last
        if self.jacobians is None:
            sizes = self.sizes(plan)
            J, J_end = self.differences(along, sizes, *steps), self.differences(last, sizes, *end)
        else:
            J, J_end = self.jacobians[0](times, *steps), self.jacobians[1](*end)
        J, by_forces = np.split(J, [nx + plan.controls.shape[-1]], axis=-1)
        if self.has_forces:
            J = J + by_forces @ np.concatenate([changes["C"], changes["D"]], axis=-1)
        return (J, along(*steps)), (J_end, last(*end))

    def called(self, kernel: Kernel, plan: Plan, impulses: Array) -> dict[str, Array]:
        """What a kernel makes of all steps, by name."""
        states = {"q": plan.q[:-1], "v": plan.v[:-1], "impulses": impulses}
        values = {**states, self.step.request.control: plan.controls, "dt": self.dt, **self.others}
        found = kernel(*(values[a.name] for a in kernel.arguments))
        return dict(zip((r.name for r in kernel.results), found, strict=True))

    def model(self, plan: Plan) -> QuadraticModel:
        """The linear-quadratic model about a plan."""
        # impulses of the solution itself: those of the step before would be a longer way to it
        changes = self.called(self.derivatives, plan, plan.impulses[1:])
        A, B, (steps, end) = changes["A"], changes["B"], self.residuals(plan, changes)
        room = (self.bounds[:, None] - plan.controls)[..., self.varied]
        return QuadraticModel(A, B, plan.gaps[1:], *steps, *end, self.varied, room)


def ilqr(
    step: Kernel,
    derivatives: Kernel,
    q0: ArrayLike,
    v0: ArrayLike,
    controls: ArrayLike | Plan,
    dt: float,
    along: Residuals,
    last: Residuals,
    *,
    jacobians: tuple[Residuals, Residuals] | None = None,
    varied: Sequence[int] | None = None,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    per_step: Iterable[str] = (),
    **others: ArrayLike,
) -> Iterator[Plan]:
    """Plans of ever lower cost, by the iterative linear-quadratic regulator: one before, and one after each iteration.

    The cost is ``½ Σ ‖along(t, q, v, u)‖² + ½ ‖last(q, v)‖²`` over steps. Plans end where the decrease that the model
    expects is round-off, or no change of controls lowers the cost any more: take as many as there is time for. There is
    one after the first in any case, whose gains are those about the optimum if that is where plans start.

    Parameters
    ----------
    step, derivatives : Kernel
        Compiled "step" and "step_derivatives", or "contact_step" and "contact_step_derivatives", of the same robot with
        the same options; of the second, outputs "A" and "B" are enough, and ``smoothing`` may be an option of its own.
        Of a "step" with ``outputs=("q_next", "v_next", "forces")`` the cost is of constraint forces, too; the outputs
        of "step_derivatives" are then "A", "B", "C" and "D".
    q0, v0 : (nq,) and (nv,) array_like
        Where the trajectory starts.
    controls : (T, nu) array_like or Plan
        Those to start from, as `rollout` takes them: joint forces, ``ctrl`` or ``q_target``. Those of a plan are under
        its feedback, and keep as much of the gaps as they have to where that diverges: predictive control starts from
        what is left of the plan before, ``plan.shifted()``. ``ds.Plan(q, v, controls)`` is a guess, without feedback:
        the first plan has its states, whatever controls lead to.
    dt : float
        Time step (s).
    along : callable
        ``along(t, q, v, u)`` are residuals (..., m) of steps at times (...) from states (..., nq), (..., nv) under
        controls (..., nu), and with forces ``along(t, q, v, u, forces)``, along the rows of constraints (..., m) and
        zero of those that are off; leading axes are any, and times broadcast with them.
    last : callable
        ``last(q, v)`` are residuals of the state at the end.
    jacobians : pair of callables, optional
        Derivatives of these, from the same arguments: by tangents of the state, controls and forces side by side,
        (..., m, 2 nv + nu) without forces, and by those of the state at the end, (..., m, 2 nv); by default, by central
        differences.
    varied : sequence of int, optional
        Which controls vary; by default all. The cost has to curve with each of them.
    bounds : pair of (nu,) array_like, optional
        Least and largest controls.
    per_step, **others : array_like
        Further arguments of the kernels by their names, and which of them have an entry for each step, as in `rollout`:
        constraints that are ``active`` and ``impacts`` make modes.

    Yields
    ------
    Plan
        The best so far. All its steps are solved; of a plan to start from they are where its ``gaps`` are zero.

    Raises
    ------
    ConfigurationError
        Kernels that are not these, or whose constraints or options are not alike, arrays of another shape, or a first
        trajectory that is not finite or has steps that the kernel does not solve.

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
    needed = _check_kernels(step, derivatives)
    tree = step.request.tree
    (size,) = (a.size for a in step.arguments if a.name == step.request.control)
    before = controls if isinstance(controls, Plan) else None
    given: Any = controls if before is None else before.controls
    u = finite_array(given, (-1, size), "controls", "Time is the first axis.")
    start = finite_array(q0, (tree.nq,), "q0", "One state."), finite_array(v0, (tree.nv,), "v0", "One state.")
    start, dt = (tree.check_configuration(start[0], "q0"), start[1]), check_number("dt", dt, "The time step in s.")
    chosen = check_list("varied", range(size) if varied is None else varied, "numbers of controls", "Such as [6, 7].")
    if not all(is_whole(k) and 0 <= k < size for k in chosen) or not chosen:
        raise ConfigurationError(
            "varied", f"numbers of controls from 0 to {size - 1}", shown(chosen), "Such as [6, 7]."
        )
    limits, each = check_bounds(bounds, size), check_list("per_step", per_step, "a list of names", "Or none.")
    columns = 2 * tree.nv, 2 * tree.nv + size + (0 if len(needed) == 2 else _forces(step))
    both = None
    if jacobians is not None:
        both = check_list("jacobians", jacobians, "two functions", "Derivatives of along and of last.")
        if len(both) != 2:
            raise ConfigurationError("jacobians", "two functions", f"{len(both)}", "Derivatives of along and of last.")
        both = _checked("jacobians[0]", both[0], (-1, columns[1])), _checked("jacobians[1]", both[1], (-1, columns[0]))
    residuals = _checked("along", along, (-1,)), _checked("last", last, (-1,)), both
    problem = _Problem(step, derivatives, start, dt, *residuals, np.array(chosen), limits, others, each)
    plan = _first_plan(problem, u, before)
    if not np.isfinite(plan.cost):
        came = "some that lead to one that is not, or to numbers that are not finite"
        wanted = "some whose steps are all solved"
        raise ConfigurationError("controls", wanted, came, "Start with less, or with states: ds.Plan(q, v, controls).")
    return _improved(problem, plan)


def _check_kernels(step: Kernel, derivatives: Kernel) -> tuple[str, ...]:
    """Check that kernels are of the same robot and options; returns outputs of the second that are needed."""
    if (
        not all(isinstance(k, Kernel) for k in (step, derivatives))
        or not step.request.states
        or step.request.tree.fingerprint != derivatives.request.tree.fingerprint
    ):
        wanted = "kernels of one robot, such as of 'step' and 'step_derivatives'"
        raise ConfigurationError(
            "step and derivatives", wanted, shown([step, derivatives]), "Compile both of one tree."
        )
    names, made = [a.name for a in step.arguments], [r.name for r in derivatives.results]
    needed = ("A", "B", "C", "D") if "forces" in (r.name for r in step.results) else ("A", "B")
    if [a.name for a in derivatives.arguments][: len(names)] != names or not set(needed) <= set(made):
        came = f"one from {', '.join(a.name for a in derivatives.arguments)} to {', '.join(made)}"
        wanted = f"a kernel from {', '.join(names)} to {', '.join(needed[:-1])} and {needed[-1]}"
        raise ConfigurationError("derivatives", wanted, came, "Compile both with the same options.")
    if differing := _differing(step, derivatives):
        wanted, came = f"a kernel whose {differing[0]} are those of the step", "others"
        raise ConfigurationError("derivatives", wanted, came, "Compile both with the same constraints and options.")
    return needed


def _first_plan(problem: _Problem, u: Array, before: Plan | None) -> Plan:
    """Plan under controls ``u`` (T, nu), or under those of a plan with its feedback."""
    tree, n = problem.tree, len(problem.varied)
    zero = np.zeros((len(u), n))
    if before is None:
        return problem.rolled(Plan(NONE, NONE, u, np.zeros((*zero.shape, 2 * tree.nv))), zero, np.ones(1))[0]
    shapes = {"q": (len(u) + 1, tree.nq), "v": (len(u) + 1, tree.nv), "gains": (*zero.shape, 2 * tree.nv)}
    if problem.step.iterates:
        shapes["impulses"] = (len(u) + 1, problem.step.arguments[2].size)
    for name, shape in shapes.items():
        x = getattr(before, name)
        if x.shape != shape and not (name in ("gains", "impulses") and not x.size):
            came = f"{name} of shape {x.shape}"
            raise ConfigurationError("controls", f"a plan of {n} controls that vary", came, "Vary the same.")
    # where its feedback leads it, as long a way from its own states as is sound
    plan, merit = before, np.inf
    if len(before.gains):
        plan, merit = problem.rolled(replace(before, gaps=NONE), zero, LENGTHS[:1])
    if not merit < np.inf:
        plan = problem.begun(before)
        led, merit = problem.rolled(plan, zero, LENGTHS[1:], WORST) if len(before.gains) else (plan, np.inf)
        plan = led if merit < np.inf else plan
    return plan


def _forces(step: Kernel) -> int:
    return next((r.size for r in step.results if r.name == "forces"), 0)


def _differing(step: Kernel, derivatives: Kernel) -> list[str]:
    """Names of what moves the robot otherwise in one of the two kernels than in the other."""
    a, b = step.request, derivatives.request
    alike = [x.fingerprint for x in a.constraints] == [x.fingerprint for x in b.constraints]
    names = ([] if alike else ["constraints"]) + (["payloads"] if a.payloads != b.payloads else [])
    return names + [name for name in a.options.differing(b.options) if name not in OWN]


def _improved(problem: _Problem, plan: Plan) -> Iterator[Plan]:
    yield plan
    is_last = False
    while not is_last and plan.regularisation < MOST:
        model = problem.model(plan)
        law, V, slopes = riccati(model, plan.regularisation)
        best, of_best = law, V
        if plan.regularisation > LEAST:
            best, of_best, _ = riccati(model, 0.0)
        if not np.isfinite(best).all():  # the cost does not curve with some control
            best, of_best = law, V
        slack = ROUND_OFF * len(model.r) * plan.cost
        is_last = not plan.gaps.any() and bool(plan.cost - 0.5 * of_best[-1, -1] <= slack)
        law, slack = (best, slack) if is_last else (law, 0.0)
        price = PRICE * float(np.abs(slopes).sum() + abs(V[-1, :-1] @ plan.gaps[0]))
        new, merit = problem.rolled(replace(plan, gains=law[..., :-1]), law[..., -1], LENGTHS, price)
        is_better = merit < plan.cost + price + slack
        regularisation = max(plan.regularisation * (EASIER if is_better else HARDER), LEAST)
        plan = replace(new if is_better else plan, gains=best[..., :-1], regularisation=regularisation)
        yield plan
