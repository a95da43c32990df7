"""``delassus bench dynamics``: compiled constrained dynamics beside Pinocchio and MuJoCo, in one run, on one core.

With ``--phases``: operations of every method by phase.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
from rich.table import Table

import delassus as ds
from delassus.algorithms.dynamics import METHODS, UNCONSTRAINED
from delassus.cli.tables import Record, environment, spread, table
from delassus.spatial.rotations import Array
from delassus_studies.cases import Case, States, benchmark_cases, dynamics_options, random_states
from delassus_studies.counters import phases
from delassus_studies.peers import Call, present
from delassus_studies.peers.mujoco import forward_peers
from delassus_studies.peers.pinocchio import dynamics_peers, exact_dynamics_call, inverse_dynamics_call
from delassus_studies.timing import Calls, each, interleaved, pinned, relative_error

BATCH, PEER_STATES, CHECKED = 4096, 128, 64
ROUNDS, REPEATS = 15, 2
DERIVATIVES = {"derivatives": BATCH, "derivatives, 64 states": 64, "derivatives, one state": 1}
"""Rows of derivatives, and the states of a call."""
INVERSE = "inverse"
"""Row of inverse dynamics with constraints, accelerations for joint forces; weights of forces are far above others."""
_HARD, _SOFT = ("pin lcaba", "pin constraintDynamics"), ("mj_forward, PGS", "mj_forward, Newton")
AGAINST: Mapping[str, tuple[str, ...]] = {
    "ltl": _HARD,
    "pv": _HARD,
    "pv-early": _HARD,
    "ltl-soft": _SOFT,
    "pv-soft": _SOFT,
    "pv-early, soft": _SOFT,
    **dict.fromkeys(DERIVATIVES, ("pin derivatives",)),
    INVERSE: ("pin rnea, lstsq", "pin rnea"),
}
"""Methods that are timed, and the peers that do the same."""

MOTOR_WEIGHT = 1e-8
"""Weight of joint forces beside that of constraint forces, so that these are the least."""

ANY_ERROR = 1e300
"""Error bound with which no state is solved again by another method."""


def dynamics_kernel(case: Case, method: str, **options: Any) -> ds.Kernel:
    """Forward dynamics by a method."""
    given = {**dynamics_options(case, method), **options}
    kernel: ds.Kernel = ds.compile(case.tree, case.constraints, "dynamics", **given)
    return kernel


def inverse_kernel(case: Case) -> ds.Kernel:
    """Inverse dynamics of motors at all joints but a floating base, with the least constraint forces."""
    m = sum(c.size for c in case.constraints)
    weights = np.repeat([MOTOR_WEIGHT, 1.0], [case.tree.nv, m])
    given: dict[str, Any] = {"motors": "actuated", "weights": weights, "passive": "none"}
    kernel: ds.Kernel = ds.compile(case.tree, case.constraints, "inverse_dynamics", **given)
    return kernel


def inverse_error(case: Case, states: States, tau: Array, forces: Array) -> float:
    """Largest difference from dense least squares of the equations of the base, over the largest force."""
    few = states.first(len(tau))
    needed = ds.inverse_dynamics(case.tree, few.q, few.v, few.tau, passive="none")
    back = np.swapaxes(ds.jacobian(case.tree, case.constraints, few.q), -1, -2)
    base = ~case.tree.actuated.any(axis=0)
    f = np.linalg.pinv(back[:, base]) @ needed[:, base, None]
    every = np.concatenate([np.where(base, 0.0, needed - (back @ f)[..., 0]), f[..., 0]], axis=-1)
    return float(relative_error(np.concatenate([tau, forces], axis=-1), every).max())


def errors(case: Case, states: States, qdd: Array, method: str = "") -> Array:
    """Largest difference of each state's accelerations (k, nv) from the dense solution, relative to the largest."""
    options, few = dynamics_options(case, method), states.first(len(qdd))
    options["method"] = "kkt" if options["compliance"] is None else "proximal"
    return relative_error(qdd, ds.forward_dynamics(case.tree, few.q, few.v, few.tau, case.constraints, **options).qdd)


def _in_calls(kernel: ds.Kernel, states: States, out: Any, size: int) -> tuple[Callable[[], None], int]:
    """The states, few where they are asked for one by one, in calls of ``size`` that all write to the same arrays."""
    n = BATCH if size > 1 else PEER_STATES
    parts = [k if size == 1 else slice(k, k + size) for k in range(0, n, size)]
    arguments = [(states.q[part], states.v[part], states.tau[part]) for part in parts]
    results = tuple(x[parts[0]] for x in out)

    def call() -> None:
        for given in arguments:
            kernel(*given, out=results, threads=1)

    return call, n


def _measure_case(case: Case, rounds: int) -> Record:
    states = random_states(case, BATCH)
    calls: Calls = {}
    facts: Record = {}
    with pinned():
        for method in AGAINST:
            if method == INVERSE:
                kernel = inverse_kernel(case)
            elif method in DERIVATIVES:
                kernel = ds.compile(case.tree, case.constraints, "dynamics_derivatives", passive="none")
            else:
                kernel = dynamics_kernel(case, method)
            out = kernel(states.q, states.v, states.tau, threads=1)
            calls[method] = _in_calls(kernel, states, out, DERIVATIVES.get(method, BATCH))
            if method == INVERSE:
                error = inverse_error(case, states, *(x[:CHECKED] for x in out[:2]))
            else:
                qdd = dict(zip((r.name for r in kernel.results), out, strict=False))["qdd"]
                error = float(errors(case, states, qdd[:CHECKED], method).max())
            facts[method] = {"operations": kernel.operations.total, "error": error}
        few = states.first(PEER_STATES)
        derivatives: Callable[[], Call] = partial(exact_dynamics_call, case, few, with_derivatives=True)
        others: dict[str, Callable[[], Call]] = {"pin derivatives": derivatives}
        for name in AGAINST[INVERSE]:
            others[name] = partial(inverse_dynamics_call, case, few, name == "pin rnea")
        peers, _ = present({**dynamics_peers(case, few), **forward_peers(case, few), **others})
        calls |= {name: (call, PEER_STATES) for name, call in peers.items()}
        return {"methods": facts, "microseconds": interleaved(calls, rounds, REPEATS)}


def measure(quick: bool = False, phases: bool = False) -> Iterator[Record]:
    """All figures of every case, or its operations by phase; the record after each."""
    if phases:
        return each(environment(), "phases", benchmark_cases(quick), _all_phases)
    rounds = 1 if quick else ROUNDS
    return each(environment(), "cases", benchmark_cases(quick), lambda case: _measure_case(case, rounds))


def tables(record: Record) -> Iterator[Table | str]:
    """Of each case the time per state of each method and of the peers that do the same; or operations by phase."""
    if "phases" in record:
        yield from _phase_tables(record)
        return
    yield f"one core, float64, batches of {BATCH}; µs a state: median ± half the quartiles' distance"
    for case, figures in record["cases"].items():
        times, rows = figures["microseconds"], []
        for method, facts in figures["methods"].items():
            row: tuple[object, ...] = (method, facts["operations"], spread(times[method]), facts["error"])
            for peer in [peer for peer in AGAINST[method] if peer in times]:
                theirs = times[peer]["median"]
                rows.append((*row, peer.removeprefix("pin "), theirs, theirs / times[method]["median"]))
                row = "", "", "", ""
            if row[0]:
                rows.append((*row, None, "", ""))
        columns = ("method", "operations:,", "µs a state", "error:.0e", "peer", "its µs:.1f", "ratio:.1f")
        yield table(case, columns, rows, text=("peer",))


# -- operations by phase -------------------------------------------------------------------------------------------


def _all_phases(case: Case) -> Record:
    """Operations of every method that takes constraints by phase."""
    return {
        method: {name: {**asdict(count), "total": count.total} for name, count in phases(case, method).items()}
        for method in METHODS
        if method not in UNCONSTRAINED
    }


def _phase_tables(record: Record) -> Iterator[Table]:
    """One line a phase, one column a method; then the same by kind of operation."""
    for case, found in record["phases"].items():
        rows = [
            (name, *(own[name]["total"] if name in own else "" for own in found.values()))
            for name in dict.fromkeys(name for own in found.values() for name in own)
        ]
        for kind in ("mul", "add", "neg", "div", "sqrt", "trig", "other", "total"):
            rows.append((kind, *(sum(c[kind] for c in own.values()) for own in found.values())))
        columns = ("phase", *(f"{method}:," for method in found))
        yield table(f"{case}: operations by phase", columns, rows, last_bold=True)
