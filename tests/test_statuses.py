"""What solves says how: by a status in its result, or by warnings, one of each kind and through Python's filters."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import delassus as ds

STATES = {
    "SOLVED": ([0.3, 0.5], [1.0, 1.0]),
    "REDUNDANT": ([0.3, 0.0], [0.0, 0.0]),
    "CONFLICTING": ([0.3, 0.0], [1.0, 0.0]),
    "FAILED": ([0.3, 0.5], [1e200, 0.0]),
}
"""Positions and velocities of a pendulum of two rods whose tip is held: stretched, it cannot be moved along itself."""

TAU = np.ones(2)


def held_pendulum() -> tuple[ds.Tree, ds.Rows]:
    x, _, z = np.eye(6)[:3]
    return ds.mechanisms.pendulum(2), ds.Rows(ds.Frame("rod2", (0, 0, -0.5)), [x, z], axes="world")


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
    return jax.block_until_ready(jax.jit(kernels["dynamics"])(q, v, TAU))


def rolled_with_jax(kernels: dict[str, ds.Kernel], q: Any, v: Any) -> Any:
    jax = pytest.importorskip("jax")
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
    if path.__name__.partition("with_")[2] in ("jax", "dask"):  # these change filters, and Python forgets what it said
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
