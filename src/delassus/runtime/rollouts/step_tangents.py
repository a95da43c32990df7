"""Derivatives of time steps by state and parameters, at all states of trajectories at once.

Those of contact steps are "contact_step_derivatives", by the cheapest kernel that is right at a state. Those of other
steps by inertial parameters ``π`` are ``A`` and ``−B Y``: what accelerations take, ``Y(q, v, q̈) dπ``, is missing from
the joint forces, under constraints too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.jit.compile import compiled
from delassus.model.inertia import from_pseudo_inertia, pseudo_inertia
from delassus.model.topology import WORLD, Placement
from delassus.quantities.declarations.contact import CONTACT_STEP_DERIVATIVES, derivatives_without_bounces
from delassus.quantities.declarations.regressors import REGRESSOR
from delassus.quantities.declarations.steps import STEP_DERIVATIVES
from delassus.quantities.request import Request, request
from delassus.runtime.any_kernel import kept_by_kernel
from delassus.runtime.arrays import gathered, result_arrays
from delassus.runtime.kernel import Kernel
from delassus.runtime.rollouts.on_device import STATE
from delassus.spatial.rotations import Array

IMPACT_TIMES = 1e-9
"""Smoothing (m/s) with which impacts have times within the step, and modes are those of the solution."""

IDLE = 64.0
"""Round-offs by which a state after a step may differ from that without contacts where these do nothing."""

Values = Mapping[str, Array]
"""Arguments of a kernel, or their changes by k coordinates (k, …), by name."""

Mask = NDArray[np.bool_]


def results_of(kernel: Kernel, arguments: Sequence[Any]) -> tuple[list[Array], Mask]:
    """Results of a kernel of derivatives, and of which states they are right."""
    arrays, batch = gathered(kernel.arguments, arguments, {}, kernel.dtype)
    found = result_arrays(None, kernel.results, batch, kernel.dtype)
    rcond = kernel.compute(arrays, found, batch, None)
    return [x.astype(float, copy=False) for x in found], ~kernel.ill_conditioned(rcond, batch)


class StepTangents(NamedTuple):
    """Changes of steps, one after the other: ``A`` (N, 2 nv, 2 nv) and by numbers of parameters (N, 2 nv, k).

    ``ends`` (T + 1) says where those of each step end, ``units`` (N,) which trajectories they are of. Where ``fits``
    (N,) they are derivatives of the step, where ``right`` (N,) it is solved.
    """

    ends: NDArray[np.intp]
    units: NDArray[np.intp]
    A: Array
    columns: Array
    fits: Mask
    right: Mask


class StepJacobians(NamedTuple):
    """Derivatives of steps, ``at`` arguments, states after them (T, n, …) and those of these that are needed.

    ``along`` are changes (k, …) of the numbers of parameters that these are by, those of one argument after the other.
    """

    at: Callable[[Mapping[str, Array], Sequence[Array], Mask], Iterator[StepTangents]]
    along: Callable[[Values], list[Array]]


@compiled
def carry(
    made: tuple[StepTangents, ...], first: int, every: int, S: Array, moved: Array, kept: Array, solved: Mask
) -> None:
    """``S ← A S + ∂`` of each unit (n, 2 nv, m), from step ``first`` on; ∂ are the first of the m columns.

    ``kept`` (L, n, 2 nv, m) are those after each ``every`` steps, ``moved`` (2 nv, m) is room; where a step is not
    right, its unit is not ``solved``.
    """
    size, m = S.shape[1], S.shape[2]
    for t in range(made[0].ends.shape[0] - 1):
        for some in made:
            k = some.columns.shape[2]
            for s in range(some.ends[t], some.ends[t + 1]):
                if some.fits[s]:
                    unit = some.units[s]
                    solved[unit] = solved[unit] and some.right[s]
                    for i in range(size):
                        for j in range(k):
                            moved[i, j] = some.columns[s, i, j]
                        for j in range(k, m):
                            moved[i, j] = 0.0
                    for h in range(size // 2):  # two rows by two, there are 2 nv
                        i = 2 * h
                        for g in range(size // 2):
                            x = 2 * g
                            a, b = some.A[s, i, x], some.A[s, i, x + 1]
                            c, d = some.A[s, i + 1, x], some.A[s, i + 1, x + 1]
                            if a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0:
                                for j in range(m):
                                    e, f = S[unit, x, j], S[unit, x + 1, j]
                                    moved[i, j] += a * e + b * f
                                    moved[i + 1, j] += c * e + d * f
                    for i in range(size):
                        for j in range(m):
                            S[unit, i, j] = moved[i, j]
        if (first + t + 1) % every == 0:
            at = (first + t + 1) // every
            for unit in range(S.shape[0]):
                for i in range(size):
                    for j in range(m):
                        kept[at, unit, i, j] = S[unit, i, j]


@kept_by_kernel
def derivatives_of_steps(kernel: Kernel, names: tuple[str, ...], times: bool) -> StepJacobians | None:
    """Derivatives of a step with state and arguments at many states; what is not called is not compiled.

    Those of contact steps are without contacts, without bounces, and as it is. With ``times`` impacts are in the mean
    over steps when points bounce, as for starts of trajectories they should be. There are none of contact steps of
    robots with loops, and of other steps those by payloads only, of joint forces that are held over a step.
    """
    request, options = kernel.request, kernel.request.options
    size_of = {a.name: a.size for a in kernel.arguments}
    sizes = {name: size_of[name] for name in names}
    if request.quantity.name == "contact_step" and all(c.n_impulses or not c.holds for c in request.constraints):
        ways = _contact_ways(kernel, names, times)
        return StepJacobians(
            partial(_at_states, ways, sizes), lambda x: [x[name].reshape(len(x[name]), -1) for name in names]
        )
    plain = (
        options.control == "tau"
        and options.integrator == "semi-implicit"
        and not (options.impacts or any(options.soft))
    )
    inertial = are_payloads(kernel, names)
    if request.quantity.name != "step" or not plain or not inertial:
        return None
    payloads = _payloads_on_links(kernel)
    links = [payloads[name][0] for name in names]
    return StepJacobians(
        partial(_by_regressor, kernel, links), lambda x: [x[name] @ payloads[name][1] for name in names]
    )


def _contact_ways(kernel: Kernel, names: tuple[str, ...], times: bool) -> list[tuple[Request, Callable[[], Kernel]]]:
    """Derivatives of a step of contact with state and arguments, cheapest first; what is not called is not compiled."""
    request, made = kernel.request, list[tuple[Request, Callable[[], Kernel]]]()
    ways = [(CONTACT_STEP_DERIVATIVES, request.without_contacts()), (CONTACT_STEP_DERIVATIVES, request)]
    if request.bounces:
        ways.insert(1, (derivatives_without_bounces(), request.without_bounces()))
    for derivatives, asked in ways:
        every = derivatives.with_parameters(asked.parameters)
        there = {a.name for a in asked.parameters}
        quantity = every.only(["q_next", "v_next", "A", *(f"dx_d{name}" for name in names if name in there)])
        options = replace(asked.options, smoothing=IMPACT_TIMES if times else None)
        asked = replace(asked, quantity=quantity, options=options)
        how = asked, kernel.dtype.name, kernel.lanes, ", for derivatives", kernel.error_bound
        made.append((asked, cache(partial(Kernel, *how))))
    return made


def _at_states(
    ways: Sequence[tuple[Request, Callable[[], Kernel]]], sizes: Mapping[str, int], given: Mapping[str, Array],
    after: Sequence[Array], needed: Mask,
) -> Iterator[StepTangents]:  # fmt: skip
    """Derivatives at the states (T, n) that are needed, before those ``after``, by the cheapest kernel that may.

    ``sizes`` are those of the parameters.

    Where the step without contacts ends as the step does, contacts do nothing, and its derivatives are those of the
    step; and likewise where none bounces.
    """
    left, impulses = needed.copy(), after[STATE]
    for asked, make in ways:
        shapes = {a.name: a.shape for a in asked.arguments}
        others = impulses.shape[-1] - shapes["impulses"][0]  # those of contacts come first
        at = np.nonzero(left & ~impulses[..., :others].any(axis=-1))
        if not at[0].size:
            continue
        kernel = make()
        here = {**given, "impulses": impulses[..., others:]}  # that solve it: sweeps end at once
        found, right = results_of(kernel, _taken(kernel, here, at, left))
        fits = right if asked is not ways[-1][0] else np.ones(right.shape, dtype=bool)
        if others:
            bound = IDLE * float(np.finfo(kernel.dtype).eps)
            for x, y in zip(found[:STATE], after[:STATE], strict=True):
                fits = fits & (np.abs(x - y[at]) <= bound * (1.0 + np.abs(x))).all(axis=-1)
        left[at] = ~fits
        A, by_name = found[STATE], {r.name: x for r, x in zip(kernel.results, found, strict=True)}
        columns = [
            by_name[f"dx_d{name}"].reshape(*A.shape[:2], size)
            if f"dx_d{name}" in by_name
            else np.zeros((*A.shape[:2], size))
            for name, size in sizes.items()
        ]
        ends = np.searchsorted(at[0], np.arange(len(needed) + 1))
        yield StepTangents(ends, at[1].copy(), A, np.concatenate(columns, axis=-1), fits, right)


@kept_by_kernel
def _step_kernel(kernel: Kernel) -> Kernel:
    """Derivatives of a step by state and joint forces."""
    asked = replace(kernel.request, quantity=STEP_DERIVATIVES.only(["A", "B"]))
    return Kernel(asked, kernel.dtype.name, kernel.lanes, ", for derivatives", kernel.error_bound)


@kept_by_kernel
def regressor_kernel(kernel: Kernel) -> Kernel:
    """Regressor of joint forces of the same robot."""
    asked = request(kernel.request.tree, (), REGRESSOR, outputs="tau", gravity=kernel.request.options.gravity)
    return Kernel(asked, kernel.dtype.name, kernel.lanes, ", for derivatives", kernel.error_bound)


def are_payloads(kernel: Kernel, names: Iterable[str]) -> bool:
    """Whether these are arguments that add to inertias."""
    return {a.name for a in kernel.arguments if a.keyword == "payloads"}.issuperset(names)


def _by_regressor(
    kernel: Kernel, links: Sequence[int], given: Mapping[str, Array], after: Sequence[Array], needed: Mask
) -> Iterator[StepTangents]:
    """Derivatives by inertial parameters of links at the states (T, n) that are needed, before those ``after``.

    ``A`` and ``−B Y``; links that are the world's have none.
    """
    at = np.nonzero(needed)
    dt = np.broadcast_to(given["dt"], needed.shape[1:])
    here = {**given, "qdd": (after[1] - given["v"]) / dt[:, None]}
    step, regressor = _step_kernel(kernel), regressor_kernel(kernel)
    (A, B), right = results_of(step, _taken(step, here, at, needed))
    (Y,), _ = results_of(regressor, _taken(regressor, here, at, needed))
    if list(links) != list(range(kernel.request.tree.n_links)):
        Y = np.concatenate(
            [np.zeros((*Y.shape[:-1], 10)) if i == WORLD else Y[..., 10 * i : 10 * i + 10] for i in links], axis=-1
        )
    ends = np.searchsorted(at[0], np.arange(len(needed) + 1))
    yield StepTangents(ends, at[1].copy(), A, -B @ Y, np.ones(right.shape, dtype=bool), right)


def forces_of_changes(kernel: Kernel, Y: Array, changes: Values) -> Array:
    """Joint forces (N, nv, k) of k changes of payloads, by regressors (N, nv, 10 n)."""
    out = np.zeros((*Y.shape[:-1], len(next(iter(changes.values())))))
    flat, rows, payloads = out.reshape(-1, out.shape[-1]), Y.reshape(-1, Y.shape[-1]), _payloads_on_links(kernel)
    for name, change in changes.items():
        link, there = payloads[name]
        if link != WORLD:
            some = span(change)
            flat[:, some] += rows[:, 10 * link : 10 * link + 10] @ (change[some] @ there).T
    return out


@kept_by_kernel
def _payloads_on_links(kernel: Kernel) -> dict[str, tuple[int, Array]]:
    """Link of each payload, and what units of its ten parameters are there (10 × 10), by names of arguments."""
    tree, out = kernel.request.tree, dict[str, tuple[int, Array]]()
    names = (a.name for a in kernel.arguments if a.keyword == "payloads")
    for name, frame in zip(names, kernel.request.payloads, strict=True):
        place, there = tree.placement(frame), np.zeros((10, 10))
        if place.link != WORLD:
            to_link = np.linalg.solve(_homogeneous(tree.placement(tree.link_names[place.link])), _homogeneous(place))
            there = from_pseudo_inertia(to_link @ pseudo_inertia(np.eye(10)) @ to_link.T)
        out[name] = place.link, there
    return out


def span(changes: Array) -> slice:
    """Coordinates by which changes (k, n) are not zero, from the first to the last."""
    some = np.flatnonzero(changes.any(axis=1))
    return slice(some[0], some[-1] + 1) if some.size else slice(0)


def _homogeneous(place: Placement) -> Array:
    """Displacement (4, 4) to a body from a frame on it."""
    return np.block([[place.rotation, place.position[:, None]], [np.zeros((1, 3)), np.ones((1, 1))]])


def _taken(kernel: Kernel, given: Mapping[str, Array], at: tuple[NDArray[np.intp], ...], needed: Mask) -> list[Array]:
    """Arguments of a kernel at some states."""
    out = []
    for a in kernel.arguments:
        x = np.asarray(given[a.name])
        out.append(np.broadcast_to(x, (*needed.shape, *a.shape))[at] if x.ndim > len(a.shape) else x)
    return out
