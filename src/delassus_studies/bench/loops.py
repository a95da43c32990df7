"""``delassus bench loops``: `pv-early` on mechanisms with loops, beside Pinocchio's ``lcaba``.

Operations as the planner orders links, where forces wait until both ends of their loop have met, and of dense `ltl`;
times of batches on one core, and the errors of both: largest difference of accelerations from those of `kkt`, relative
to the largest of a state, median over states.

Then parallel robots, where their files are: default dynamics at random closed states beside ``constraintDynamics`` and
``lcaba``, in time of this thread, for other work moves that of clocks, and the largest difference of all three;
loops closed from random configurations and reduced dynamics, with gaps and ``J G`` by Pinocchio's rows; in `Simulator`
from rest under gravity alone, 2 s in steps of 1 ms: gap, error of the energy over the largest kinetic energy, and
statuses.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from warnings import catch_warnings

import numpy as np
from rich.table import Table

import delassus as ds
from delassus.accuracy.policy import ERROR_BOUND
from delassus.algorithms.dynamics.state import EliminationOrder
from delassus.cli.tables import Record, environment, table
from delassus.compiler.machine.background import waiting
from delassus.runtime.compile import compile_at_once
from delassus.runtime.fallback import solve_states
from delassus.spatial.rotations import Array
from delassus_studies.bench import loop_methods
from delassus_studies.bench.dynamics import ANY_ERROR, dynamics_kernel, errors
from delassus_studies.cases import Case, States, random_states
from delassus_studies.counters import operations
from delassus_studies.loop_mechanisms import (
    closed_states,
    few_loops,
    four_bars,
    many_loops,
    parallel_humanoid,
    parallel_robots,
)
from delassus_studies.peers import if_present
from delassus_studies.peers.pinocchio import exact_dynamics_call, lcaba_call, loop_errors
from delassus_studies.timing import Calls, each, fitted_slope, interleaved, pinned

STATES, MANY, PEER_STATES, CHECKED = 1024, 4096, 64, 16
ROUNDS, REPEATS = 9, 2
STEPS = 2000
SIZES, GRIDS = (10, 20, 40, 100), (3, 4, 5, 6)
TIMED = 60_000
"""Kernels of more operations are not compiled."""

MOST_DENSE, MOST_CHECKED, MOST_WAITING = 60, 120, 8000
"""Degrees of freedom up to which `ltl` is counted, errors are measured; and times rows, up to which forces wait."""

MOST_PEER = 4e7
"""Links times squared degrees of freedom up to which `lcaba` is called: memory of its data grows as these, to 3 GB."""

OWN = ("default", "many", "alone")
"""Calls of ours at closed states."""

COUNTED = ("pv-early", "waiting", "ltl")


def _counts(case: Case) -> Record:
    """Operations, by name; those that would take minutes are left out."""
    tree, rows = case.tree, sum(c.size for c in case.constraints)
    out = {"pv-early": operations(case, "pv-early")}
    if rows * tree.nv <= MOST_WAITING:
        out["waiting"] = operations(case, "pv-early", EliminationOrder(tuple(tree.leaves_to_root())))
    if tree.nv <= MOST_DENSE:
        out["ltl"] = operations(case, "ltl")
    return out


def _error(case: Case, states: States, qdd: Array) -> float:
    return float(np.median(errors(case, states, qdd[:CHECKED])))


def _measure_case(case: Case, rounds: int) -> Record:
    out: Record = {"nv": case.tree.nv, "rows": sum(c.size for c in case.constraints), "operations": _counts(case)}
    calls: Calls = {}
    out["errors"] = wrong = {}
    states = random_states(case, STATES)
    with pinned():
        if out["operations"]["pv-early"] <= TIMED:
            kernel = dynamics_kernel(case, "pv-early", error_bound=ANY_ERROR)
            call = partial(kernel, states.q, states.v, states.tau, threads=1)
            qdd, forces, estimate = call(return_error=True)
            out["below bound"] = float(np.mean(estimate < ERROR_BOUND["float64"]))
            calls["pv-early"] = partial(call, out=(qdd, forces)), STATES
            wrong["pv-early"] = _error(case, states, qdd)
        few = case.tree.n_links * case.tree.nv**2 <= MOST_PEER
        if few and (peer := if_present(partial(lcaba_call, case, states.first(PEER_STATES)))):
            calls["lcaba"] = peer, PEER_STATES
            if case.tree.nv <= MOST_CHECKED:
                wrong["lcaba"] = _error(case, states, np.array(peer()))
        out["microseconds"] = interleaved(calls, rounds, REPEATS)
    return out


def _measure_passive(case: Case) -> Record | None:
    """Largest gap (m, rad), error of the energy, statuses, and median time of a step; None where loops do not close."""
    try:
        closed = ds.random_configurations(case.tree, case.constraints, 0)
    except ds.errors.ConstraintError:
        return None
    sim = ds.Simulator(ds.Scene(case.tree, loops=case.constraints), q0=closed, passive="none", limits=False)
    states, times = [(sim.q, sim.v)], []
    for _ in range(STEPS):
        start = time.perf_counter()
        sim.step()
        times.append(time.perf_counter() - start)
        states.append((sim.q, sim.v))
    qs, vs = (np.array(x) for x in zip(*states, strict=True))
    kinetic, potential = ds.compile(case.tree, (), "energies", passive="none")(qs, vs)
    gaps = compile_at_once(case.tree, case.constraints, "joint_space_motion")(qs, vs, np.zeros_like(vs))[5]
    return {
        "gap": float(np.abs(gaps).max()),
        "energy": float(np.abs(kinetic + potential - (kinetic + potential)[0]).max() / kinetic.max()),
        "statuses": ", ".join(f"{status.name} {n}" for status, n in sim.statuses.items()),
        "microseconds": 1e6 * float(np.median(times)),
    }


def _measure_closed(case: Case, rounds: int) -> Record | None:
    """Default dynamics at closed states beside ``constraintDynamics``: times, states solved again, error.

    Of `STATES` and of `MANY` states, those that are solved again included, and "alone" of `STATES` without: numbers of
    all are then those that machine code makes first.
    """
    if (states := closed_states(case, MANY)) is None:
        return None
    kernel = ds.compile(case.tree, case.constraints, "dynamics", passive="none")
    alone = dynamics_kernel(case, kernel.method, error_bound=ANY_ERROR)
    some = states.first(STATES)
    with catch_warnings(action="ignore"), pinned(), waiting():
        calls: Calls = {}
        for name, run, at in (("default", kernel, some), ("many", kernel, states), ("alone", alone, some)):
            given = at.q, at.v, at.tau
            out = run(*given, threads=1)
            calls[name] = partial(run, *given, out=tuple(out), threads=1), len(at.q)
        wrong = {"error": _error(case, states, out[0])}
        for name, make in (("pin", exact_dynamics_call), ("lcaba", lcaba_call)):
            if peer := if_present(partial(make, case, states.first(PEER_STATES))):
                calls[name], wrong[f"{name} error"] = (peer, PEER_STATES), _error(case, states, np.array(peer()))
        starts = case.tree.random(0, STATES)
        close, reduce = (ds.compile(case.tree, case.constraints, what) for what in ("close_loops", "reduced_dynamics"))
        calls["close"] = partial(close, starts, threads=1), STATES
        calls["reduced"] = partial(reduce, some.q, some.v, threads=1), STATES
        found = interleaved(calls, rounds, REPEATS, time.thread_time)
        left = ds.close_loops(case.tree, case.constraints, starts)
        reduced = ds.reduced_dynamics(case.tree, case.constraints, left.q[:PEER_STATES])
        flagged = [_flagged(kernel, x) for x in (some, states)]
        runs = [solve_states(kernel, [x.q, x.v, x.tau], [*kernel.empty_results(len(x.q))], (len(x.q),), 1)
                for x in (some, states)]  # fmt: skip
    return {
        "method": kernel.method,
        "judged": bool(kernel.error_dtype),
        "operations": kernel.operations.total,
        "again": ", ".join(map(str, flagged)),
        "inaccurate": int(np.count_nonzero(runs[-1].status == ds.DynamicsStatus.INACCURATE)),
        **wrong,
        "microseconds": found,
        "open": int(np.count_nonzero(left.status == ds.LoopStatus.OPEN)),
        "independent": len(reduced.independent),
        "by Pinocchio": if_present(partial(loop_errors, case, left.q[:PEER_STATES], reduced.transmission)),
    }


def _flagged(kernel: ds.Kernel, states: States) -> int:
    """How many states the machine code does not solve by itself."""
    n, given = (len(states.q),), [states.q, states.v, states.tau]
    return int(np.count_nonzero(kernel.ill_conditioned(kernel.compute(given, [*kernel.empty_results(n)], n, 1), n)))


def measure(quick: bool = False) -> Iterator[Record]:
    """All figures of every mechanism; the record after each."""
    record, robots = environment(), [] if quick else [*parallel_robots(), parallel_humanoid(differential=False)]
    cases = [four_bars(1)] if quick else [*few_loops(), *many_loops(SIZES, GRIDS)]
    yield from each(record, "closed", robots, lambda case: _measure_closed(case, ROUNDS))
    yield from each(record, "passive", robots, _measure_passive)
    yield from loop_methods.measure(record, quick)
    yield from each(record, "cases", cases, lambda case: _measure_case(case, 1 if quick else ROUNDS))


def _beside(found: Record, ours: str, theirs: str) -> tuple[float | None, ...]:
    """Lowest time of ours and of Pinocchio's, where they are there, and their ratio."""
    own, peer = (found["microseconds"].get(which, {}).get("lowest") for which in (ours, theirs))
    return own, peer, peer / own if peer and own else None


def tables(record: Record) -> Iterator[Table | str]:
    """Closed states, passive robots, operations and times, a line a mechanism; how operations grow with loops."""
    if not record.get("cases"):
        return  # tables are shown when they are whole
    closed = [
        (name, x["method"] + (", judged" if x["judged"] else ""),
         *(x[which] for which in ("operations", "again", "inaccurate", "error")),
         *(t for own in OWN for t in (*_beside(x, own, "pin")[::2], _beside(x, own, "lcaba")[2])),
         *(x["microseconds"].get(peer, {}).get("lowest") for peer in ("pin", "lcaba")),
         *(x.get(f"{peer} error") for peer in ("pin", "lcaba")))
        for name, x in record["closed"].items()
        if x is not None
    ]  # fmt: skip
    if closed:
        of_closed = ("robot", "method", "operations:,", "again", "inaccurate", "error:.0e")
        title = f"default dynamics of {STATES} and {MANY} closed states, and of {STATES} none of which is solved again"
        title += ", beside constraintDynamics and lcaba"
        own = [
            f"{n}{which}"
            for n in (STATES, MANY, f"{STATES} alone")
            for which in (", µs:.2f", ", × cD:.0f", ", × lcaba:.0f")
        ]
        peers = (*own, "cD, µs:.1f", "lcaba, µs:.1f", "cD, error:.0e", "lcaba, error:.0e")
        yield table(title, (*of_closed, *peers), closed)
    coordinates = [
        (
            name,
            x["independent"],
            x["open"],
            *(x["microseconds"][which]["lowest"] for which in ("close", "reduced")),
            *(x["by Pinocchio"] or (None, None)),
        )
        for name, x in record["closed"].items()
        if x is not None
    ]
    if coordinates:
        of_coordinates = (
            "robot",
            "independent",
            "open",
            "µs to close:.2f",
            "µs reduced:.2f",
            "its gap:.0e",
            "its J G:.0e",
        )
        yield table(f"closing loops from {STATES} random configurations, and dynamics of independent coordinates",
                    of_coordinates, coordinates)  # fmt: skip
    yield from loop_methods.tables(record)
    passive = [(name, *x.values()) for name, x in record["passive"].items() if x is not None]
    if passive:
        of_passive = ("robot", "gap:.0e", "energy:.0e", "statuses", "µs a step:.0f")
        yield table("from rest, 2 s in steps of 1 ms", of_passive, passive)
    peer = "lcaba: one iteration, μ = 1e-6, where its data fit in 3 GB"
    yield f"one core, float64, batches of {STATES}; {peer}; errors: median"
    rows, times, grown = [], [], dict[str, list[tuple[int, int]]]()
    for name, found in record["cases"].items():
        counts = found["operations"]
        rows.append((name, found["nv"], found["rows"], *map(counts.get, COUNTED)))
        own_and_peer = map(found["errors"].get, ("pv-early", "lcaba"))
        times.append((name, *_beside(found, "pv-early", "lcaba"), *own_and_peer, found.get("below bound")))
        if any(digit.isdigit() for digit in name):
            size = int(next(word for word in name.replace(",", "").split() if word.isdigit()))
            grown.setdefault(name.replace(str(size), "n"), []).append((size, counts["pv-early"]))
    heads = ("mechanism", "nv", "rows", *(f"{which}:," for which in COUNTED))
    yield table("operations", heads, rows, grows=(23, 3, 4, 10, 10))
    columns = ("mechanism", "µs a state:.2f", "its µs:.2f", "ratio:.1f", "error:.0e", "its error:.0e")
    yield table("pv-early beside Pinocchio's lcaba", (*columns, "below bound:.1%"), times, grows=(23,))
    for name, points in grown.items():
        if len(points) > 1:
            yield f"{name}: operations grow with the power {fitted_slope(*zip(*points, strict=True)):.2f} of n"
