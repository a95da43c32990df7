"""``delassus demo``: every method on a real robot, each number beside an independent check."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from rich.table import Table
from rich.text import Text

import delassus as ds
from delassus.algorithms.osim import ALGORITHMS
from delassus.cli.tables import Console, Record, environment, publish, table
from delassus.quantities.planner.methods import AUTO
from delassus_studies.cases import Case, demo_case
from delassus_studies.peers import if_present
from delassus_studies.peers.pinocchio import delassus_call
from delassus_studies.timing import Calls, best, interleaved, relative_error

STATES, ROUNDS = 256, 7
AGREEMENT = 1e-9
"""Largest error relative to the largest entry of G that counts as agreement."""

NEXT = """
Try next:
  python -c "import delassus as ds; help(ds.delassus)"
  delassus simulate quadruped      a quadruped trots; --view: in the browser
  delassus reproduce osim --quick  what the papers claim of these methods
  delassus info go1                a robot by name: the extra robots finds it
"""


def run(console: Console, file: Path | None = None, csv: Path | None = None) -> bool:
    """Print the demo; returns whether everything agreed."""
    case = demo_case()
    m = sum(c.size for c in case.constraints)
    console.print(
        Text(f"{case.name}:", "bold"),
        f"n = {case.tree.n_links} links, {case.tree.nv} degrees of freedom, depth d = {case.tree.depth}, "
        f"m = {m} constraint rows.",
    )
    console.print(f"Delassus matrix G = J M⁻¹ Jᵀ ({m} × {m}) at {STATES} random configurations.")
    record: Record = {}
    publish(console, _measure(case, record), tables, file, csv=csv, takes="about ten seconds")
    agreed: bool = max(row["error"] for row in record["rows"].values()) < AGREEMENT
    console.print(
        Text("All methods agree.", "green") if agreed else Text("The methods disagree: please report this.", "bold red")
    )
    console.print(Text(NEXT))
    return agreed


def _measure(case: Case, record: Record) -> Iterator[Record]:
    """Fill the record: every method, Pinocchio, the kernel; gives it after each."""
    record |= {**environment(), "case": case.name, "states": STATES, "rows": {}, "compile seconds": None}
    yield record
    tree, constraints = case.tree, case.constraints
    q = tree.random(0, STATES)
    J, M = ds.jacobian(tree, constraints, q), ds.mass_matrix(tree, q)
    oracle = J @ np.linalg.solve(M, np.swapaxes(J, -1, -2))  # by NumPy's general solver
    for method in ds.OSIM_METHODS:
        call = partial(ds.delassus, tree, constraints, q, method=method)
        record["rows"][method] = {
            "operations": ds.count_operations(tree, constraints, method=method).clean.total,
            "error": float(relative_error(call(), oracle).max()),
            "microseconds": interleaved({method: (call, STATES)}, ROUNDS)[method]["median"],
        }
        yield record
    if peer := if_present(partial(delassus_call, case, q[:8])):
        record["rows"]["Pinocchio"] = {"error": float(relative_error(np.array(peer()), oracle[:8]).max())}
        yield record
    record["compile seconds"], kernel = best(partial(ds.compile, tree, constraints, "delassus"))
    one, G = q[0], kernel(q)
    error = float(relative_error(G, oracle).max())
    calls: Calls = {"compiled, batch": (partial(kernel, q, out=G), STATES)}
    calls["compiled, one"] = partial(kernel, one, out=G[0]), 1
    for name, times in interleaved(calls, ROUNDS, 20).items():
        found = {"operations": kernel.operations.total, "error": error, "microseconds": times["median"]}
        record["rows"][name] = found
    yield record


def tables(record: Record) -> Iterator[Table | str]:
    """Cost, operations, time and error of each method."""
    yield f"operations: of one triangle of G; time: NumPy, batch of {STATES}; error: of J M⁻¹ Jᵀ"
    costs = {name: algorithm.cost for name, algorithm in ALGORITHMS.items()} | {AUTO: "least of all"}
    rows = [
        (name, costs.get(name, ""), row.get("operations", ""), row.get("microseconds", ""), row["error"])
        for name, row in record["rows"].items()
    ]
    columns = ("method", "cost O(·)", "operations:,", "time per state:.1f µs", "error:.1e")
    taken = record["compile seconds"]
    yield table("", columns, rows, text=("cost O(·)",), grows=() if taken else (15, 15))
    if taken:
        yield f"compiled: by ds.compile, in {taken:.1f} s; called with out="
