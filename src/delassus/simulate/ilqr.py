"""`ilqr`: controls of a compiled time step that make the cost of a trajectory small.

The iterative linear-quadratic regulator: a sweep of Riccati's equation backwards over the derivatives of all steps,
then rollouts of several step lengths under the feedback found. Plans may start from states that no controls lead to:
gaps between steps are in the model, and rollouts of a part of a change keep the rest of them. Costs are half sums of
squares of residuals, whose second derivatives are those of Gauss and Newton; changes are in tangents.

Source: Li, Todorov 2004; Tassa, Erez, Todorov 2012, sections II.C to F; gaps: Mastalli et al., "Crocoddyl", ICRA 2020,
section IV (FDDP). Deviations: all step lengths are tried at once and the best one is taken; gaps have a price, twice
the sum of what each changes the cost by, its product with the multiplier; the regularisation is Marquardt's, relative
to the curvature by each control. Of second order, models are Newton's (`trajectory`), with Gauss and Newton's in their
place far from the optimum (`FAR`) and where no minimum follows from them, and the regularisation falls quadratically.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from delassus.errors import ConfigurationError, shown
from delassus.model.check import check_flag, check_list, check_number, finite_array, is_whole
from delassus.runtime.kernel import Kernel
from delassus.runtime.rollouts.loop import check_bounds
from delassus.simulate.riccati import riccati
from delassus.simulate.trajectory import NONE, Plan, Residuals, TrajectoryProblem, checked_residuals
from delassus.spatial.rotations import Array

LENGTHS = 0.5 ** np.arange(8.0)
"""Parts of the change of controls that are tried."""

EASIER = 0.3
"""Factor of the regularisation after an iteration that lowers the cost; of second order, at most itself."""
HARDER = 4.0
"""Its factor after one that does not."""
LEAST = 1e-8
"""Its lower bound."""
MOST = 1e8
"""Its upper bound."""

FAR = 0.1
"""Part of the cost by which Gauss and Newton's models expect it to fall, above which second derivatives are left out.

Costs mostly curve downwards with some control that far from the optimum. Of costs that go to zero, these models become
exact."""

ROUND_OFF = 4.0 * float(np.finfo(float).eps)
"""Of the cost, for each step: expected decreases below it are the rounding of its sum."""

PRICE = 2.0
"""Of gaps, over what they change costs by: from 1 on, plans without gaps are the best ones nearby."""

WORST = 1e250
"""Price of gaps at which the plan with the least is the best one."""

OWN = {"smoothing", "solver", "sweeps", "tolerance", "sensors"}
"""Options that kernels of derivatives may have of their own: they do not change the motion that is differentiated."""


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
    second_order: bool = False,
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
    second_order : bool, optional
        Whether models have second derivatives of steps and, by differences, of residuals: differential dynamic
        programming, which converges quadratically, at a higher price for each iteration. They are left out far from the
        optimum, and where costs would curve downwards with controls. Steps are semi-implicit and without impacts.
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
        both = (
            checked_residuals("jacobians[0]", both[0], (-1, columns[1])),
            checked_residuals("jacobians[1]", both[1], (-1, columns[0])),
        )
    residuals = checked_residuals("along", along, (-1,)), checked_residuals("last", last, (-1,)), both
    curvature = _curvature(step, derivatives) if check_flag("second_order", second_order) else None
    which = np.array(chosen)
    problem = TrajectoryProblem(step, derivatives, start, dt, *residuals, which, limits, others, each, curvature)
    plan = _first_plan(problem, u, before)
    if not np.isfinite(plan.cost):
        came = "some that lead to one that is not, or to numbers that are not finite"
        wanted = "some whose steps are all solved"
        raise ConfigurationError("controls", wanted, came, "Start with less, or with states: ds.Plan(q, v, controls).")
    return _improved(problem, plan)


def _curvature(step: Kernel, derivatives: Kernel) -> Kernel:
    """Kernel of second derivatives of a step along costates."""
    asked = derivatives.request
    quantity = asked.quantity.curvature
    if quantity is None or asked.options.impacts or asked.options.integrator != "semi-implicit":
        came = f"{asked.quantity.name!r} with integrator={asked.options.integrator!r}"
        wanted = "kernels of semi-implicit steps without impacts"
        raise ConfigurationError("second_order", wanted, came, "Leave second_order out.")
    asked = replace(asked, quantity=quantity)
    return Kernel(asked, step.dtype.name, step.lanes, ", for second derivatives", step.error_bound)


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


def _first_plan(problem: TrajectoryProblem, u: Array, before: Plan | None) -> Plan:
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


def _improved(problem: TrajectoryProblem, plan: Plan) -> Iterator[Plan]:
    yield plan
    is_last = False
    while not is_last and plan.regularisation < MOST:
        model, newton = problem.model(plan)
        law, V, slopes = riccati(model, plan.regularisation)
        if problem.curvature is not None and not plan.cost - 0.5 * V[-1, -1] > FAR * plan.cost:
            of_second = newton()
            found = riccati(of_second, plan.regularisation)
            if np.isfinite(found[0]).all():  # costs curve upwards with all controls
                model, (law, V, slopes) = of_second, found
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
        easier = EASIER if problem.curvature is None else min(EASIER, plan.regularisation)
        regularisation = max(plan.regularisation * (easier if is_better else HARDER), LEAST)
        plan = replace(new if is_better else plan, gains=best[..., :-1], regularisation=regularisation)
        yield plan
