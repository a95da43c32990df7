"""``delassus bench derivatives``: derivatives along the tangent of configurations beside Pinocchio's, in one run.

Errors are those of the machine code against differences of fourth order of the program in extended precision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np
from rich.table import Table

import delassus as ds
from delassus.cli.tables import Record, environment, spread, table
from delassus.compiler.program.program import interpret_program
from delassus.model.tree import Tree
from delassus.quantities import find_quantity
from delassus.quantities.keywords import What
from delassus.quantities.pipeline import make_program
from delassus.quantities.request import Request, request
from delassus.spatial.rotations import Array
from delassus_studies.cases import Case, States, benchmark_cases, random_states
from delassus_studies.peers import if_present
from delassus_studies.peers.pinocchio import DERIVATIVES, derivatives_call
from delassus_studies.timing import Calls, each, interleaved, pinned, relative_error

BATCHES, PEER_STATES, CHECKED = (64, 4096), 64, 8
ROUNDS = 15
STEP = 1e-4
"""Step of differences, in rad, m or their rates; its fourth power is what they leave of a fifth derivative."""

QUANTITIES: tuple[What, ...] = tuple(DERIVATIVES)


def _options(case: Case, what: str) -> dict[str, Any]:
    """Of frames the last link, in its own axes."""
    if what.startswith("frame"):
        return {"frames": case.tree.link_names[-1]}
    return {"passive": "none"} if "passive" in find_quantity(what).options else {}


def _states(states: States, kernel: ds.Kernel) -> list[Array]:
    """Arguments of a kernel; joint forces of the states are accelerations."""
    return [{"q": states.q, "v": states.v, "qdd": 0.1 * states.tau}[a.name] for a in kernel.arguments]


_program = lru_cache(maxsize=4)(partial(make_program, with_rcond=False))


def _run(asked: Request, values: Mapping[str, Array]) -> Array:
    """First result (k, n) of a program in extended precision."""
    program = _program(asked)
    flat = np.concatenate([values[a.name] for a in asked.arguments], axis=-1).astype(np.longdouble)
    (result, *_) = program.results
    out = np.concatenate(interpret_program(program, flat), axis=-1)
    return np.asarray(out[:, list(result.entries)])


def differences(tree: Tree, asked: Request, values: Mapping[str, Array]) -> list[Array]:
    """Derivatives (k, n, nv) of the first result with each argument."""
    integrate, out = request(tree, (), find_quantity("integrate")), []
    for name in (a.name for a in asked.arguments):
        columns = []
        for axis in np.eye(tree.nv, dtype=np.longdouble):
            change: Any = 0.0
            for factor, weight in ((1, 8), (-1, -8), (2, -1), (-2, 1)):
                by = np.broadcast_to(factor * STEP * axis, (len(values["q"]), tree.nv))
                x = _run(integrate, {"q": values["q"], "shift": by}) if name == "q" else values[name] + by
                change = change + weight * _run(asked, {**values, name: x})
            columns.append(change / (12 * STEP))
        out.append(np.stack(columns, axis=-1))
    return out


def _measure_case(case: Case, rounds: int) -> Record:
    found: Record = {}
    with pinned():
        for what in QUANTITIES:
            kernel = ds.compile(case.tree, (), what, **_options(case, what)).derivative("tangent_jacobian")
            calls: Calls = {}
            for n in BATCHES:
                given = _states(random_states(case, n), kernel)
                calls[f"{n}"] = partial(kernel, *given, out=kernel.empty_results(n), threads=1), n
            few = random_states(case, PEER_STATES)
            if peer := if_present(partial(derivatives_call, case, few, what)):
                calls["pinocchio"] = peer, PEER_STATES
            facts = {"operations": kernel.operations.total, "error": _error(case, kernel, what)}
            found[what] = {**facts, "microseconds": interleaved(calls, rounds)}
    return found


def _error(case: Case, kernel: ds.Kernel, what: str) -> float:
    """Largest error of the derivatives of some states, each relative to the largest entry of its matrix."""
    given = _states(random_states(case, CHECKED), kernel)
    values = dict(zip((a.name for a in kernel.arguments), given, strict=True))
    found: Any = kernel(*given)
    asked = request(case.tree, (), find_quantity(what), **_options(case, what))
    parts = zip(found if isinstance(found, tuple) else (found,), differences(case.tree, asked, values), strict=True)
    return max(float(relative_error(x.reshape(y.shape), y.astype(float)).max()) for x, y in parts)


def measure(quick: bool = False) -> Iterator[Record]:
    """All figures of every robot; the record after each."""
    rounds = 1 if quick else ROUNDS
    return each(environment(), "cases", benchmark_cases(quick), lambda case: _measure_case(case, rounds))


def tables(record: Record) -> Iterator[Table | str]:
    """Time a state of each quantity's derivatives, and Pinocchio's over it in a batch of 64."""
    yield "one core, float64; µs a state: median ± half the quartiles' distance"
    for case, figures in record["cases"].items():
        rows = []
        for what, facts in figures.items():
            times = facts["microseconds"]
            theirs = times.get("pinocchio", {}).get("median")
            ratio = None if theirs is None else theirs / times["64"]["median"]
            both = (spread(times[f"{n}"]) for n in BATCHES)
            rows.append((what, facts["operations"], facts["error"], *both, theirs, ratio))
        heads = ("operations:,", "error:.0e", *(f"µs, {n:,} states" for n in BATCHES), "Pinocchio, µs:.1f", "ratio:.1f")
        yield table(case, ("derivatives of", *heads), rows)
