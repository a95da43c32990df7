"""What solves says how: by a status in its result, or by warnings, one of each kind and through Python's filters."""

from __future__ import annotations

import enum
import inspect
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, get_type_hints

import numpy as np
import pytest

import delassus as ds
from generated_cases import QUANTITIES

STATES = {
    "SOLVED": ([0.3, 0.5], [1.0, 1.0]),
    "REDUNDANT": ([0.3, 0.0], [0.0, 0.0]),
    "CONFLICTING": ([0.3, 0.0], [1.0, 0.0]),
    "FAILED": ([0.3, 0.5], [1e200, 0.0]),
}
"""Positions and velocities of a pendulum of two rods whose tip is held: stretched, it cannot be moved along itself."""

TAU, TIP = np.ones(2), ds.Frame("rod2", (0, 0, -0.5))


def held_pendulum() -> tuple[ds.Tree, ds.Rows]:
    x, _, z = np.eye(6)[:3]
    return ds.mechanisms.pendulum(2), ds.Rows(TIP, [x, z], axes="world")


def said(call: Callable[[], Any], action: Any = "always") -> list[str]:
    """Warnings of a call, from their numbers on."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        call()
    return [str(x.message).partition(" operations): ")[2] for x in caught if x.category is ds.DelassusWarning]


# -- kernels -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kernels() -> dict[str, ds.Kernel]:
    tree, tip = held_pendulum()
    return {what: ds.compile(tree, tip, what) for what in ("dynamics", "step")}


def directly(kernels: dict[str, ds.Kernel], q: Any, v: Any) -> Any:
    return kernels["dynamics"](q, v, TAU)


def into_arrays(kernels: dict[str, ds.Kernel], q: Any, v: Any) -> Any:
    return kernels["dynamics"](q, v, TAU, out=(np.empty(2), np.empty(2)))


def rolled(kernels: dict[str, ds.Kernel], q: Any, v: Any) -> Any:
    return ds.rollout(kernels["step"], q, v, TAU[None], 1e-3)


def under_a_policy(kernels: dict[str, ds.Kernel], q: Any, v: Any) -> Any:
    return ds.rollout(kernels["step"], q, v, lambda t, q, v: TAU, 1e-3, steps=1)


def tangents_of_rollouts(kernels: dict[str, ds.Kernel], q: Any, v: Any) -> Any:
    path = [np.tile(x, (2, 1)) for x in (q, v)]
    return ds.rollout(kernels["step"].derivative("jvp"), *path, TAU[None], 1e-3)


def with_jax(kernels: dict[str, ds.Kernel], q: Any, v: Any) -> Any:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        return jax.block_until_ready(jax.jit(kernels["dynamics"])(q, v, TAU))


def rolled_with_jax(kernels: dict[str, ds.Kernel], q: Any, v: Any) -> Any:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        return jax.block_until_ready(ds.rollout(kernels["step"], jax.numpy.asarray(q), v, TAU[None], 1e-3))


def with_torch(kernels: dict[str, ds.Kernel], q: Any, v: Any) -> Any:
    torch = pytest.importorskip("torch")
    return kernels["dynamics"](*map(torch.as_tensor, (q, v, TAU)))


def rolled_with_torch(kernels: dict[str, ds.Kernel], q: Any, v: Any) -> Any:
    torch = pytest.importorskip("torch")
    return ds.rollout(kernels["step"], *map(torch.as_tensor, (q, v, TAU[None])), 1e-3)


def with_dask(kernels: dict[str, ds.Kernel], q: Any, v: Any) -> Any:
    arrays = pytest.importorskip("dask.array")
    return arrays.compute(*kernels["dynamics"](arrays.from_array(np.asarray(q)), v, TAU), scheduler="threads")


PATHS = [
    directly, into_arrays, rolled, under_a_policy, tangents_of_rollouts, with_jax, rolled_with_jax, with_torch,
    rolled_with_torch, with_dask,
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__)
def test_each_kind_warns_by_itself(kernels, path):
    """The first call meets rows that are redundant, which is harmless; what fails later is said, all the same."""
    states = {name: [np.array(x) for x in state] for name, state in STATES.items()}
    wanted = ["solved again" if path is not tangents_of_rollouts else "INACCURATE", "FAILED"]

    def each() -> None:
        for name in ("REDUNDANT", "REDUNDANT", "FAILED", "FAILED", "SOLVED"):
            path(kernels, *states[name])

    def kinds(messages: list[str]) -> list[str]:
        return [next((kind for kind in wanted if kind in message), message) for message in messages]

    assert kinds(said(each)) == [kind for kind in wanted for _ in range(2)]
    by_default = kinds(said(each, "default"))
    if "with_" in path.__name__:  # other libraries change filters, and Python forgets what it said
        by_default = list(dict.fromkeys(by_default))
    assert by_default == wanted
    assert said(each, "ignore") == []
    for name in ("REDUNDANT", "FAILED", "REDUNDANT"):
        with pytest.raises(Exception, match="|".join(wanted)):  # an error of the library's own has the text
            said(lambda name=name: path(kernels, *states[name]), "error")
    path(kernels, *states["SOLVED"])


@pytest.mark.slow
def test_a_state_is_in_one_warning(kernels):
    q, v = (np.array([state[k] for state in STATES.values()]) for k in (0, 1))
    messages = said(lambda: kernels["dynamics"](q, v, TAU))
    assert [message.partition(": ")[0].partition(" have")[0] for message in messages] == [
        "1 of 4 state(s) are FAILED", "1 of 4 state(s) are CONFLICTING", "1 of 4 state(s)"
    ]  # fmt: skip
    assert said(lambda: kernels["dynamics"](q, v, TAU, return_status=True)) == []
    assert said(lambda: kernels["dynamics"].solve(q, v, TAU)) == []
    assert [x.name for x in kernels["dynamics"].solve(q, v, TAU).status] == list(STATES)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::delassus.DelassusWarning")
def test_asking_for_a_status_changes_no_number_of_what_is_solved():
    """Among states that are not: a method that knows no rank has all of them looked at again, and keeps its numbers."""
    tree, tip = held_pendulum()
    kernel = ds.compile(tree, tip, "dynamics", method="proximal", dtype="float32")
    rng, tau = np.random.default_rng(0), TAU.astype("float32")
    q, v = rng.uniform(0.3, 0.9, (9, 2)).astype("float32"), rng.normal(size=(9, 2)).astype("float32")
    q[2, 1], v[4, 0], v[7] = 1e-4, 1e30, 0.0  # almost stretched, too fast for the numbers, stretched
    q[7] = STATES["REDUNDANT"][0]
    expected, (*found, status) = kernel(q, v, tau), kernel(q, v, tau, return_status=True)
    assert [x.name for x in status] == [{4: "FAILED", 7: "REDUNDANT"}.get(k, "SOLVED") for k in range(9)]
    own = np.delete(np.arange(9), [2, 4, 7])
    assert all(np.array_equal(x[own], y[own]) for x, y in zip(found, expected, strict=True))
    exact = ds.forward_dynamics(tree, *(x[2].astype(float) for x in (q, v)), TAU, tip)
    for x, wanted in zip(found, (exact.qdd, np.concatenate(exact.forces)), strict=True):
        assert np.abs(x[2] - wanted).max() < 1e-5 * np.abs(wanted).max()  # in float32 alone 2e-4


# -- public functions ----------------------------------------------------------------------------------------------

FINE = {"SOLVED", "REDUNDANT", "UNIQUE", "LEAST", "NONE", "CLOSED", "CONVERGED"}
"""Names of statuses that are no trouble."""

SENSOR = ds.Sensor("load", "accelerometer", "rod2")
HINGE = ds.JointRows({"rod1_joint": 1.0})


def caused(tree: ds.Tree, tip: ds.Rows, q: Any, v: Any) -> Any:
    """Accelerations of the held pendulum, which break its rows where these contradict one another."""
    return ds.forward_dynamics(tree, q, v, TAU, tip).qdd if np.all(v < 9.0) else TAU


SOLVES: dict[str, tuple[str, Callable[..., Any]]] = {
    "forward_dynamics": (
        "CONFLICTING FAILED", lambda tree, tip, q, v: ds.forward_dynamics(tree, q, v, TAU, tip).status
    ),
    "dynamics_derivatives": (
        "CONFLICTING FAILED", lambda tree, tip, q, v: ds.dynamics_derivatives(tree, q, v, TAU, tip).status
    ),
    "dynamics_hessian": (
        "CONFLICTING FAILED", lambda tree, tip, q, v: ds.dynamics_hessian(tree, q, v, TAU, tip).status
    ),
    "step_hessian": (
        "CONFLICTING FAILED", lambda tree, tip, q, v: ds.step_hessian(tree, q, v, TAU, 1e-3, tip)
    ),
    "impulse": ("CONFLICTING", lambda tree, tip, q, v: ds.impulse(tree, q, v, tip, targets=[q - 0.3]).status),
    "inverse_dynamics": (
        "CONFLICTING FAILED",
        lambda tree, tip, q, v: ds.inverse_dynamics(tree, q, v, caused(tree, tip, q, v), tip).status,
    ),
    "reduced_dynamics": ("FAILED", lambda tree, tip, q, v: ds.reduced_dynamics(tree, HINGE, q, v).singularity),
    "close_loops": (
        "CONFLICTING",
        lambda tree, tip, q, v: ds.close_loops(tree, ds.Distance("world", TIP, length=9.0 - 17.0 * q[1]), q).status,
    ),
    "step_derivatives": (
        "CONFLICTING FAILED", lambda tree, tip, q, v: ds.step_derivatives(tree, q, v, TAU, 1e-3, tip)
    ),
    "sensors": ("CONFLICTING FAILED", lambda tree, tip, q, v: ds.sensors(tree, q, v, TAU, tip, sensors=[SENSOR])),
    "control": ("CONFLICTING FAILED", lambda tree, tip, q, v: ds.control(tree, HINGE, q, v, contacts=tip)),
}  # fmt: skip
"""Calls of direct functions that solve, and states at which they do not; their statuses, where they have any."""

BY_NAME = {
    "osim": "raises SingularError", "consistent_inverse": "raises SingularError", "delassus": "warns of errors",
    "delassus_operator": "factorisation, rank", "random_configurations": "raises ConstraintError", "ilqr": "cost",
    "identify": "converged, unsolved", "exciting_motion": "condition", "rollout": "statuses, or warns as kernels",
    "compile": "kernels", "base_parameters": "grouping", "load": "", "load_parallel": "", "count_operations": "",
}  # fmt: skip
"""Other public functions, and how those that solve say that they have not; tests of their own see to it."""

OWN_OUTPUT = {"close_loops": "closed", "inverse_dynamics": "force_residual", "smooth_motion": "flags"}
"""Outputs that say whether a state is solved, of quantities that divide and whose kernels do not look at pivots."""


BY_ANGLES_AND_TIMES = "free_step_changes", "product_changes"
"""Quantities that divide by nothing else."""


@pytest.mark.parametrize("name", SOLVES)
def test_direct_functions_that_solve_say_how(name):
    """By a status in the result that is another where the state is not solved, or else by a warning."""
    bad, function = SOLVES[name]
    statuses = list[set[str]]()

    def call(state: str) -> None:
        found = function(*held_pendulum(), *map(np.array, STATES[state]))
        is_status = isinstance(found, np.ndarray | enum.Enum)
        statuses.append({x.name for x in np.ravel(np.array(found, dtype=object))} if is_status else set())

    for state in ("SOLVED", *bad.split()):
        messages = said(partial(call, state))
        assert (not messages and statuses[-1] <= FINE) == (state == "SOLVED"), (state, statuses[-1], messages)


@pytest.mark.slow
def test_every_public_function_is_one_that_says_how_or_solves_nothing():
    """The programs of those that solve nothing have no division."""
    names = {name for name in ds.__all__ if inspect.isfunction(getattr(ds, name))}
    assert names >= {*SOLVES, *BY_NAME}
    tree, tip = held_pendulum()
    for name in sorted(names - {*SOLVES, *BY_NAME}):
        kernel = ds.compile(tree, tip if name in ("jacobian", "jacobian_drift") else (), name)
        assert kernel.operations.div == 0, name


@pytest.mark.slow
def test_every_quantity_that_divides_says_how():
    """By what its kernel knows of pivots, on which calls warn, or by an output of its own."""
    tree, tip = held_pendulum()
    for what in QUANTITIES:
        touching = ds.Contact("rod2", ds.contact.Sphere(0.1), friction=0.5) if what.startswith("contact_step") else tip
        how = {"sensors": {"sensors": SENSOR}, "motion_sensors": {"sensors": SENSOR}}.get(what, {})
        how |= {"motors": "actuated"} if what == "inverse_dynamics" else {}
        try:
            kernel = ds.compile(tree, touching, what, **how)
        except ds.DelassusError:  # it takes no constraints
            kernel = ds.compile(tree, (), what, **how)
        names = tuple(r.name for r in kernel.results)
        assert getattr(kernel.empty_results(2), "_fields", names) == names and len(set(names)) == len(names)
        divides = kernel.operations.div > 0 and what not in BY_ANGLES_AND_TIMES
        assert kernel.has_rcond or not divides or OWN_OUTPUT[what] in names, what


def test_every_method_of_simulators_that_solves_says_how():
    """By `status`, that of the last step, and `statuses`, of which runs warn; derivatives have those of their own."""
    methods = {name for name, x in inspect.getmembers(ds.Simulator, inspect.isfunction) if not name.startswith("_")}
    steps, derivatives = {"step", "step_by", "run"}, {"step_derivatives", "gradient"}
    exact = {"sensors", "energy", "get_state", "set_state", "move", "twist", "set_twist", "half_kick"}
    assert methods == steps | derivatives | exact
    assert "status : SolverStatus" in str(ds.Simulator.__doc__) and isinstance(ds.Simulator.statuses, property)
    for name in derivatives:
        found = get_type_hints(getattr(ds.Simulator, name))["return"]
        assert {"status", "statuses"} & set(get_type_hints(found)), name
