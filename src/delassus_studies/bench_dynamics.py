"""``delassus bench dynamics``: compiled constrained dynamics beside Pinocchio and MuJoCo, in one run, on one core."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from delassus.algorithms.dynamics import SOFT
from delassus.algorithms.dynamics.evaluate import forward_dynamics
from delassus.runtime.compile import compile
from delassus.runtime.kernel import Kernel
from delassus_studies.cases import Case, benchmark_cases
from delassus_studies.peers_dynamics import States, pinocchio_calls, random_states
from delassus_studies.peers_mujoco import mujoco_calls
from delassus_studies.timing import interleaved, microseconds, pinned, setting

BATCH = 4096
PEER_STATES = 128
CHECKED = 64
ROUNDS = 15
REPEATS = 2
COMPLIANCE = 1e-6
METHODS = ("ltl", "pv", "pv-early", "ltl-soft", "pv-soft")
DERIVATIVES = "derivatives"
AGAINST: Mapping[str, tuple[str, ...]] = {
    "pv": ("pin lcaba", "pin constraintDynamics"),
    "ltl": ("pin lcaba", "pin constraintDynamics"),
    "pv-early": ("pin lcaba", "pin constraintDynamics"),
    "pv-soft": ("mj_forward, PGS", "mj_forward, Newton"),
    "ltl-soft": ("mj_forward, PGS", "mj_forward, Newton"),
    DERIVATIVES: ("pin derivatives",),
}
"""Peers that do what a method does."""


def _kernel(case: Case, method: str) -> Kernel:
    if method == DERIVATIVES:
        return compile(case.tree, case.constraints, "dynamics_derivatives")
    compliance = COMPLIANCE if method in SOFT else None
    return compile(case.tree, case.constraints, "dynamics", method=method, compliance=compliance)


def _error(case: Case, method: str, states: States, qdd: Any) -> float:
    """Largest difference of accelerations from the dense solution, relative to the largest of a state."""
    few = states.first(CHECKED)
    dense, compliance = ("ltl-soft", COMPLIANCE) if method in SOFT else ("kkt", None)
    wanted = forward_dynamics(
        case.tree, few.q, few.v, few.tau, case.constraints, method=dense, compliance=compliance
    ).qdd
    return float(np.max(np.abs(qdd[:CHECKED] - wanted).max(axis=-1) / np.abs(wanted).max(axis=-1)))


def measure(case: Case) -> dict[str, Any]:
    """All figures of one case."""
    states = random_states(case, BATCH)
    calls: dict[str, tuple[Callable[[], object], int]] = {}
    facts: dict[str, Any] = {}
    with pinned():
        for method in (*METHODS, DERIVATIVES):
            kernel = _kernel(case, method)
            out = kernel(states.q, states.v, states.tau, threads=1)
            calls[method] = (partial(kernel, states.q, states.v, states.tau, out=out, threads=1), BATCH)
            qdd = dict(zip((r.name for r in kernel.results), out, strict=False))["qdd"]
            facts[method] = {
                "operations": kernel.operations.total,
                "error": _error(case, "kkt" if method == DERIVATIVES else method, states, qdd),
            }
        few = states.first(PEER_STATES)
        peers = pinocchio_calls(case, few) | mujoco_calls(case, few)
        calls |= {name: (call, PEER_STATES) for name, call in peers.items()}
        samples = interleaved(calls, ROUNDS, REPEATS)
    return {"methods": facts, "microseconds": {name: microseconds(s) for name, s in samples.items()}}


def _table(cases: Mapping[str, Any]) -> Table:
    table = Table(
        title="time per state, float64, batches of 4096; ratio of the peer's time to ours", title_justify="left"
    )
    columns = ("", "method", "operations", "time", "error", "peer", "its time", "ratio")
    for column in columns:
        table.add_column(column, justify="left" if column in ("", "method", "peer") else "right")
    for case, figures in cases.items():
        times = figures["microseconds"]
        for method, facts in figures["methods"].items():
            ours = times[method]["median"]
            low, high = times[method]["quartiles"]
            row = (
                case,
                method,
                f"{facts['operations']:,}",
                f"{ours:.3f} ± {(high - low) / 2:.3f} µs",
                f"{facts['error']:.0e}",
            )
            for peer in AGAINST[method]:
                if peer in times:
                    theirs = times[peer]["median"]
                    table.add_row(*row, peer, f"{theirs:.1f} µs", f"{theirs / ours:.1f}×")
                    row = ("", "", "", "", "")
            case = ""
        table.add_section()
    return table


def run(console: Console, file: Path | None, cases: list[Case] | None = None) -> dict[str, Any]:
    """Print the table and write the raw figures."""
    record: dict[str, Any] = {**setting(), "cases": {}}
    for case in benchmark_cases() if cases is None else cases:
        record["cases"][case.name] = measure(case)
    console.print(f"{record['processor']}; {record['versions']}; one core; median ± half the quartiles' distance")
    console.print(_table(record["cases"]))
    if file is not None:
        file.write_text(json.dumps(record, indent=1))
        console.print(f"raw figures: {file}")
    return record
