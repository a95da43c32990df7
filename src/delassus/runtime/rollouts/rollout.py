"""`rollout`: many time steps of many states, in one call of compiled code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.accuracy.status import DynamicsStatus
from delassus.errors import ConfigurationError, shown
from delassus.model.check import MOST_STATES, OTHERS, check_flag, check_list, check_whole, is_whole, library_of
from delassus.quantities.quantity import CONTROLS
from delassus.runtime.any_kernel import AnyKernel
from delassus.runtime.arrays import Moving, Rollout, aligned_empty, arranged, checked
from delassus.runtime.cuda.kernel import CudaKernel
from delassus.runtime.kernel import Kernel
from delassus.runtime.libraries import MODULES, rollout_elsewhere
from delassus.runtime.rollouts.derivatives import derivative_rollout
from delassus.runtime.rollouts.loop import check_feedback, feedback_of, law_of
from delassus.runtime.rollouts.on_arrays import check_for_gpus, of_cupy, roll, rollout_of_cupy
from delassus.runtime.rollouts.on_device import STATE, is_largest, under_policy
from delassus.runtime.rollouts.sub_steps import Loops, all_solved, loops_of, rolling_kernel, step_by_step, surer_kernel

SHOWN_AS = {"q": "q0", "v": "v0", **{names[0]: "controls" for names in CONTROLS.values()}}
"""The kernel's arguments that have other names here."""

CUPY = {"CuPy"}
"""Of libraries, by what kernels for GPUs take at once."""

Policy = Callable[[float, NDArray[Any], NDArray[Any]], ArrayLike]
"""From time (s), configurations (..., nq) and velocities (..., nv) to controls."""


def rollout(
    kernel: AnyKernel,
    q0: ArrayLike,
    v0: ArrayLike,
    controls: ArrayLike | Policy,
    dt: ArrayLike,
    *,
    steps: int | None = None,
    decimation: int = 1,
    per_step: Iterable[str] = (),
    time_axis: Literal[0, 1] | None = None,
    feedback: ArrayLike | None = None,
    nominal: tuple[ArrayLike, ArrayLike] | None = None,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    defects: ArrayLike | None = None,
    threads: int | None = None,
    return_status: bool = False,
    **others: ArrayLike,
) -> Any:
    """Trajectories of a compiled time step, ``delassus.compile(tree, constraints, "step", …)`` or ``"contact_step"``.

    With JAX arrays, traced ones too, it is a `jax.lax.scan` over calls of the kernel, policies in it; with PyTorch's
    tensors, of controls as tensors, what follows here, whose derivatives are steps backwards in time; with Dask arrays,
    lazily, what follows here of each block of trajectories. The first two can be differentiated. All three are without
    ``threads`` and ``return_status``, and time is the first axis unless ``time_axis`` says otherwise.

    A kernel with ``target="cuda"`` makes all steps in one launch: arrays of CuPy stay on the device, and nobody waits,
    those of NumPy are copied over and back. So do its tangents; cotangents take a launch a step. A policy is asked
    between launches, and gets what is on the device. Steps that are not solved are NaN, and so is what comes after
    them; loops are not looked at; ``threads``, ``return_status`` and ``feedback`` are refused.

    The loop over time is machine code: one loop for each block of as many states as a vector register holds. A step at
    which rows of a trajectory are dependent is made again as a call of the kernel takes it, and machine code goes on
    after it; after several of them it is code that takes dependent rows. Where numbers have overflowed, or a joint
    would move by more than 1,000 rad (m) in a step that is not solved at once, all that follows is NaN, with the status
    FAILED. Loops are hard constraints between two frames, of kernels without ``active``. Errors of those that start
    closed are taken back after each step; steps by "semi-implicit" with Baumgarte's terms leave them to these. A step
    by "rk4" that opens loops by more than 1e-8 of a length is made of sub-steps, as many as keep loops and kinetic
    energy. Steps after which loops gape by more than 0.1 mm (0.1 mrad), of trajectories that start with closed ones,
    have the status LOOPS_OPEN; without ``return_status`` a warning counts them. Contact steps whose residual is above
    the kernel's tolerance are not solved again: a warning says how many there are, and their status is UNFINISHED.

    Of ``kernel.derivative("jvp")`` and ``("vjp")`` it is the derivative of a rollout, in machine code too, at the
    trajectories that the rollout has returned: tangents forwards, or cotangents backwards in time. Arguments are by the
    names of that kernel, zero where tangents or cotangents are not given. Tangents are those of the start,
    ``q_dot`` (..., nq), …, and of what is anew at each step, ``tau_dot`` (T, ..., nv), ….
    Cotangents are those of the states after each step, ``q_next_bar`` (T, ..., nq), …. Steps that are not solved are
    flagged, and all that comes after them.

    Parameters
    ----------
    kernel : Kernel
        Compiled "step" or "contact_step", or the tangents or cotangents of one.
    q0, v0 : (..., nq) and (..., nv) array_like
        Where the trajectories start; batches are leading axes and broadcast. Of derivatives the trajectories,
        (T + 1, ..., nq) and (T + 1, ..., nv), and ``impulses``, where they are given.
    controls : (T, ..., nv) array_like, or callable
        Joint forces ``tau`` (N, N·m) of each of T steps, time first (``mujoco.rollout`` has it second, which is
        ``time_axis=1`` here): (T, nv) is shared by all trajectories. Of a kernel with
        ``control="actuators"`` they are ``ctrl`` (T, ..., nu), with ``control="pd"`` ``q_target`` (T, ..., nq).
        A policy is called as ``policy(t, q, v)`` with the time since the start (s) and the state (..., nq), (..., nv),
        and returns the controls (..., nv) of the next ``decimation`` steps.
    dt : (...) array_like
        Time step in s.
    steps : int, optional
        Number of steps, of a policy.
    decimation : int
        Steps that each control is held for: T times as many steps in all.
    per_step : iterable of str
        Names of further arguments that have an axis of as many entries as there are steps, as the controls have.
    time_axis : {0, 1}, optional
        Which axis of ``controls`` and of what is in ``per_step`` is time, where they have a batch. It has to be given
        unless the batch of the other arguments says so: where that is the axes after the first one, or would not
        fit if the second one were time. So one start with many controls needs it.
    feedback : (T, ..., n, 2 nv) array_like, optional
        Gains ``K`` of all n controls at each of T steps, time first: ``controls + K [q ⊖ q_nominal; v − v_nominal]``
        are what a step takes, differences of configurations being those of `Tree.difference`. Gains that all
        trajectories of a batch have in common are (T, n, 2 nv).
    nominal : pair of (T + 1, ..., nq) and (T + 1, ..., nv) array_like, optional
        Trajectory that feedback is about, as a rollout returns it.
    bounds : pair of (n,) array_like, optional
        Least and largest controls of feedback.
    defects : (T + 1, ..., 2 nv) array_like, optional
        With feedback, what is added to the start and to the states after each step, in tangents: states are ``q ⊕ δq``
        and ``v + δv``, as forward passes of multiple shooting take them.
    threads : int, optional
        As in a call of the kernel.
    return_status : bool
        Whether to return how each step was solved, too.
    **others : array_like
        The kernel's further arguments by their names (payloads, gravity, ``active``, ``target0``, …): the same at all
        steps, (..., shape of one state), or if they are among ``per_step`` (T, ..., shape of one state). Impulses that
        contact steps start from are zero if not given.

    Returns
    -------
    A tuple whose fields have these names:

    q : (T + 1, ..., nq) array
        Configurations from the start to the end.
    v : (T + 1, ..., nv) array
        Velocities.
    impulses : (T + 1, ..., n) array
        Of contact steps.
    residuals : (..., 3) array
        Of contact steps: the largest of each trajectory.
    forces : (T, ..., m) array
        Of a "step" whose ``outputs`` are ``("q_next", "v_next", "forces")``: those of constraints at each step.
    sensors : (T, ..., n) array
        Of contact steps whose ``outputs`` end with ``"sensors"``: what these measure after each step.
    controls : (T, ..., n) array
        With ``feedback``: those that steps have taken.
    status : (T, ...) array of DynamicsStatus
        With ``return_status``.

    Of tangents those of the trajectories (T + 1, ...), and of residuals (T, ..., 3). Of cotangents those of all
    arguments of the step, in order: of the start, of what is anew at each step (T, ...), and of the rest, summed over
    steps.

    Raises
    ------
    ConfigurationError, UnknownNameError
        A kernel that is not a time step, or an array that it does not take.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(4)
    >>> step = ds.compile(arm, [], "step", integrator="rk4")
    >>> start = arm.random(0, batch=50)
    >>> q, v = ds.rollout(step, start, np.zeros(4), np.zeros((100, 4)), dt=1e-3)
    >>> q.shape, v.shape
    ((101, 50, 4), (101, 50, 4))

    A policy that damps joints, every ten steps:

    >>> q, v = ds.rollout(step, start, np.ones(4), lambda t, q, v: -v, dt=1e-3, steps=100, decimation=10)
    >>> q.shape
    (101, 50, 4)

    The tip is held for 60 steps, then let go:

    >>> arm, zero = ds.mechanisms.chain(3), np.zeros((100, 3))
    >>> step = ds.compile(arm, ds.Point(ds.Frame("link3", (0.1, 0.2, 0.0))), "step", active=True)
    >>> held = np.repeat([[1.0], [0.0]], [60, 40], axis=0)
    >>> q, v = ds.rollout(step, arm.random(0), np.zeros(3), zero, dt=1e-3, active=held, per_step=["active"])
    >>> bool(abs(v[60]).max() < 1e-9), bool(abs(v[100]).max() > 1e-3)
    (True, True)

    Feedback about a trajectory brings others to it:

    >>> step, start = ds.compile(arm, (), "step"), arm.random(0)
    >>> q, v = ds.rollout(step, start, np.zeros(3), zero, dt=1e-3)
    >>> K = np.tile(-np.hstack([100.0 * np.eye(3), 20.0 * np.eye(3)]), (100, 1, 1))
    >>> near, *_ = ds.rollout(step, start + 0.1, np.zeros(3), zero, dt=1e-3, feedback=K, nominal=(q, v))
    >>> bool(abs(near - q)[-1].max() < 0.07)
    True

    How the last angles depend on forces, and on speeds at the start:

    >>> step = ds.compile(arm, (), "step")
    >>> q, v = ds.rollout(step, arm.random(0), np.zeros(3), zero, dt=1e-3)
    >>> end = np.zeros((100, 3))
    >>> end[-1] = 1.0
    >>> q_bar, v_bar, tau_bar, _ = ds.rollout(step.derivative("vjp"), q, v, zero, dt=1e-3, q_next_bar=end)
    >>> tau_bar.shape, bool(abs(v_bar - 0.1).max() < 0.05)
    ((100, 3), True)
    """
    if not isinstance(kernel, AnyKernel) or not kernel.request.is_rolled:
        wanted, advice = "a compiled time step, with all outputs", "Make one with compile(tree, constraints, 'step')."
        raise ConfigurationError("kernel", wanted, shown(kernel), advice)
    check_flag("return_status", return_status)
    check_whole("decimation", decimation, "Steps that each control is held for.", least=1, most=MOST_STATES)
    if time_axis is not None and not (is_whole(time_axis) and time_axis <= 1):
        raise ConfigurationError("time_axis", "0 or 1", shown(time_axis), "Time is the first axis, or the second.")
    names = _per_step(kernel, per_step, others)
    check_feedback(kernel, controls, feedback, nominal, bounds, defects)
    steps = _steps(kernel, controls, steps, names)
    start = {"q": q0, "v": v0, **({"impulses": others.pop("impulses")} if "impulses" in others else {})}
    asked = Rollout(rollout, kernel, start, controls, {**others, "dt": dt}, time_axis, decimation, names, steps)
    refused: dict[str, Any] = {"threads": threads, "return_status": return_status or None, "feedback": feedback}
    if isinstance(kernel, CudaKernel):
        check_for_gpus(**refused)
    if libraries := _libraries(kernel, [*start.values(), controls, dt, *others.values()]):
        if kernel.request.derivative and libraries != CUPY:
            came, advice = f"some of {' and '.join(sorted(libraries))}", "Differentiate the rollout of the step itself."
            raise ConfigurationError("rollout", "arrays of NumPy with a derivative of a step", came, advice)
        refused["outputs"] = kernel.request.quantity.further or None
        return kernel.rolled(_elsewhere(libraries, asked, refused))
    if kernel.request.derivative:
        return _derivative(asked, threads, return_status)
    return _on_processor(asked, law_of(kernel, feedback, nominal, bounds, defects), threads, return_status)


def _per_step(kernel: AnyKernel, per_step: Iterable[str], others: dict[str, ArrayLike]) -> Sequence[str]:
    """Names of further arguments that have an entry for each step; impulses that are not given are zero."""
    names = check_list("per_step", per_step, "a list of names", "Pass per_step=['active'].")
    n_states = kernel.request.quantity.states
    if not kernel.request.derivative and n_states > STATE and "impulses" not in others:
        others["impulses"] = np.zeros(kernel.arguments[STATE].shape, dtype=kernel.dtype)
    for name in names:
        known = set(others) & {a.name for a in replace(kernel.request, derivative=()).arguments[n_states:]}
        if not isinstance(name, str) or name not in known:
            came = ", ".join(sorted(known)) or "none"
            raise ConfigurationError("per_step", f"further arguments that are given: {came}", shown(name), "Drop it.")
    return names


def _steps(kernel: AnyKernel, controls: Any, steps: int | None, names: Sequence[str]) -> int | None:
    """Number of steps of a policy, None of arrays of controls."""
    if callable(controls):
        if names or steps is None or kernel.request.derivative:
            wanted = "steps=… and nothing in per_step with a policy, and no derivative"
            raise ConfigurationError("controls", wanted, shown(steps if not names else names), "Or pass arrays.")
        return check_whole("steps", steps, "How many there are.", least=1, most=MOST_STATES)
    if steps is not None:
        raise ConfigurationError("steps", "none with arrays of controls", shown(steps), "Their first axis says it.")
    return None


def _libraries(kernel: AnyKernel, given: Sequence[Any]) -> set[str]:
    """Libraries that arrays are of, but for NumPy; CuPy's are known by kernels for GPUs alone."""
    libraries = {library_of(type(x)) for x in given} - {""}
    return CUPY if isinstance(kernel, CudaKernel) and libraries <= {OTHERS} and any(map(of_cupy, given)) else libraries


def _elsewhere(libraries: set[str], asked: Rollout, refused: dict[str, object]) -> Any:
    """Rollout of arrays of other libraries; ``refused``: options that they lack."""
    if libraries == CUPY:
        return rollout_of_cupy(asked)
    names = " and ".join(sorted(libraries))
    advice = "Pass NumPy arrays, or call the kernel in a loop"
    if libraries == {"JAX"}:
        advice += ", such as jax.lax.scan over a jitted step"
    if libraries == {"PyTorch"} and callable(asked.controls) and isinstance(asked.kernel, Kernel):
        refused = {**refused, "controls": asked.controls}
    if len(libraries) > 1 or not hasattr(MODULES[names], "rollout"):
        wanted = "arrays of NumPy, JAX, PyTorch or Dask alone, or of CuPy by a kernel for GPUs"
        raise ConfigurationError("rollout", wanted, f"some of {names}", f"{advice}.")
    for name, x in refused.items():
        if x is not None:
            wanted = "arrays" if name == "controls" else "no such argument"
            raise ConfigurationError(name, f"{wanted} with arrays of {names}", shown(x), f"{advice}.")
    return rollout_elsewhere(names, asked)


def _derivative(asked: Rollout, threads: int | None, return_status: bool) -> Any:
    """Tangents or cotangents of a rollout, and a status of each step."""
    kernel, given = asked.kernel, {**asked.fixed, **asked.start}
    if return_status and not kernel.iterates:
        raise ConfigurationError("return_status", f"False of {kernel!r}", "True", "Contact steps have a status.")
    moving = {kernel.request.control: Moving(asked.controls, asked.time_axis, asked.decimation)}
    moving |= {name: Moving(given.pop(name), asked.time_axis) for name in asked.per_step}
    found, flagged, counts = derivative_rollout(kernel, given, moving, SHOWN_AS, threads)
    if return_status:
        status = np.full(flagged.shape, DynamicsStatus.SOLVED, dtype=object)
        status[flagged] = DynamicsStatus.UNFINISHED
        return kernel.rolled([*found, status], "status")
    if isinstance(kernel, Kernel):
        kernel.warn_once(counts, flagged.size)
    return kernel.rolled(found)


def _on_processor(asked: Rollout, law: tuple[Any, ...] | None, threads: int | None, with_status: bool) -> Any:
    """Results by name of a rollout of NumPy's arrays; ``law`` is that of `_by_arrays`."""
    kernel, loops, met = asked.kernel, None, Counter[Any]()
    if isinstance(kernel, Kernel) and not kernel.iterates and loops_of(kernel.request):
        loops = Loops(kernel)

    def rolled(part: Rollout) -> list[NDArray[Any]]:
        return _by_arrays(part, law, loops, threads, with_status, met)

    *found, status = under_policy(np, _checked(asked), rolled) if callable(asked.controls) else rolled(asked)
    q = found[0]
    if loops is not None:
        opened = loops.open(q[1:])
        met[DynamicsStatus.LOOPS_OPEN] += int(np.count_nonzero(opened))
        if with_status:
            status[opened & (status != DynamicsStatus.FAILED)] = DynamicsStatus.LOOPS_OPEN
    if not with_status and isinstance(kernel, Kernel):
        kernel.warn_once(met, (len(q) - 1) * prod(q.shape[1:-1]))
    more = [*(["controls"] if law is not None else []), *(["status"] if with_status else [])]
    return kernel.rolled([*found, status][: len(kernel.results) + len(more)], *more)


def _checked(asked: Rollout) -> Rollout:
    """The same with start, time step and what the policy says checked."""
    kernel, policy = asked.kernel, asked.controls
    by_name = {a.name: a for a in kernel.arguments}

    def checked_policy(t: Any, q: NDArray[Any], v: NDArray[Any]) -> NDArray[Any]:
        return checked(policy(float(t), q, v), by_name[kernel.request.control], kernel.dtype, "controls of the policy")

    given = {"dt": asked.fixed["dt"], **asked.start}
    given = {name: checked(x, by_name[name], kernel.dtype, SHOWN_AS.get(name, name)) for name, x in given.items()}
    fixed = {**asked.fixed, "dt": given.pop("dt")}
    return asked._replace(start=given, controls=checked_policy, fixed=fixed)


def _by_arrays(
    asked: Rollout, law: tuple[Any, ...] | None, loops: Loops | None, threads: int | None, with_status: bool,
    met: Counter[Any],
) -> list[NDArray[Any]]:  # fmt: skip
    """Trajectories under given controls, what steps give beside them, and how each was solved, which ``met`` counts.

    ``law``: gains, nominal states, bounds (2, n) and defects of feedback; ``loops`` are kept closed.
    """
    kernel, axis, fixed = asked.kernel, asked.time_axis, {**asked.fixed, **asked.start}
    if kernel.iterates and not np.all(np.asarray(fixed["dt"]) > 0.0):
        raise ConfigurationError("dt", "above zero, in s", shown(fixed["dt"]), "Contacts do not act backwards in time.")
    moving = {kernel.request.control: Moving(asked.controls, axis, asked.decimation)}
    moving |= {name: Moving(fixed.pop(name), axis) for name in asked.per_step}
    n_states, arguments = kernel.request.states, kernel.arguments
    if law is not None:
        states = [replace(a, name=f"nominal {a.name}") for a in arguments[:STATE]]
        before = [checked(x, a, kernel.dtype, a.name)[:-1] for a, x in zip(states, law[1:], strict=False)]
        moving |= {a.name: Moving(x, 0) for a, x in zip(states, before, strict=True)}
        arguments = (*arguments, *states)
    arrays, batch, steps = arranged(arguments, fixed, moving, kernel.dtype, SHOWN_AS)
    feedback = None if law is None else feedback_of(kernel, arrays, law, batch, steps)
    del arrays[len(kernel.arguments) :]
    trajectories = [aligned_empty((steps + 1, *first.shape), kernel.dtype) for first in arrays[:n_states]]
    for trajectory, first in zip(trajectories, arrays, strict=False):
        trajectory[0] = first
    arrays[:n_states] = trajectories
    if feedback is not None:
        feedback.move(0, trajectories[0][0], trajectories[1][0])
    beside = [np.empty((steps, *batch, *r.shape), kernel.dtype) for r in kernel.results[n_states:]]
    now, after = [x[:-1] for x in trajectories], [x[1:] for x in trajectories]
    given, results = [*now, *arrays[n_states:]], [*after, *beside]
    closing = None if loops is None else loops.closing(trajectories[0][0], trajectories[1][0], given[loops.dt], steps)
    rolling = rolling_kernel(kernel, met, loops)
    surer = surer_kernel(rolling, is_met=False)
    ill_conditioned = roll(rolling, given, results, batch, steps, threads, (), feedback, closing=closing, surer=surer)
    if loops is not None and closing is not None:
        ill_conditioned |= loops.opened(closing)
    applied = [] if feedback is None else [arrays[feedback.control]]
    if not kernel.iterates:
        status = step_by_step(kernel, loops, with_status, arrays, beside, ill_conditioned, feedback, met=met)
        return [*trajectories, *beside, *applied, status]
    status = all_solved(ill_conditioned, with_status or bool(ill_conditioned.any()))
    if len(status):
        status[ill_conditioned] = DynamicsStatus.UNFINISHED
        for trajectory in trajectories[:STATE]:
            status[~np.isfinite(np.einsum("...i->...", trajectory[1:]))] = DynamicsStatus.FAILED
    of = map(is_largest, kernel.results[n_states:])
    beside = [x.max(axis=0, initial=0.0) if largest else x for largest, x in zip(of, beside, strict=True)]
    met.update(status[status != DynamicsStatus.SOLVED])
    return [*trajectories, *beside, *applied, status]
