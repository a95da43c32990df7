"""``delassus demo``: every method on a real robot, each number beside an independent check."""

from __future__ import annotations

from functools import partial

import numpy as np
from delassus_studies.peers import pinocchio_delassus
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from delassus.algorithms.evaluate import delassus
from delassus.algorithms.osim import OSIM_METHODS
from delassus.compiler.trace import count_operations
from delassus.model.rotations import Array
from delassus.model.tree import Tree
from delassus_studies.cases import Case, demo_case
from delassus_studies.timing import time_per_state

STATES = 256
AGREEMENT = 1e-9
"""Largest error relative to the largest entry of G that counts as agreement."""

COSTS = {
    "dense": "n³ + m²n",
    "ltl-osim": "nd² + md² + m²d",
    "kjr": "n + m²d",
    "efpa": "n + md + m²",
    "pv-osim": "n + m²d",
    "pv-osimr": "n + m²",
    "auto": "least of all",
}


def textbook_delassus(tree: Tree, case: Case, q: Array) -> Array:
    """``J M⁻¹ Jᵀ`` by the dense method, with NumPy's general solver."""
    from delassus.algorithms.evaluate import jacobian, mass_matrix

    J, M = jacobian(tree, case.constraints, q), mass_matrix(tree, q)
    return np.asarray(J @ np.linalg.solve(M, np.swapaxes(J, -1, -2)))


def run(console: Console) -> bool:
    """Print the demo; returns whether everything agreed."""
    case = demo_case()
    tree, constraints = case.tree, case.constraints
    m = sum(c.size for c in constraints)
    console.print(
        f"\n[bold]{case.name}[/]: n = {tree.n_links} links, {tree.nv} degrees of freedom, depth d = {tree.depth}, "
        f"m = {m} constraint rows.\nDelassus matrix G = J M⁻¹ Jᵀ ({m} × {m}) at {STATES} random configurations.\n"
    )
    q = tree.random(0, STATES)
    oracle = textbook_delassus(tree, case, q)
    scale = np.abs(oracle).max(axis=(-1, -2), keepdims=True)

    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("counting operations", total=len(OSIM_METHODS) + 1)
        reports = {}
        for method in OSIM_METHODS:
            reports[method] = count_operations(tree, constraints, method=method)
            progress.advance(task)
        calls = {name: partial(delassus, tree, constraints, q, method=name) for name in OSIM_METHODS}
        errors = {name: float(np.max(np.abs(call() - oracle) / scale)) for name, call in calls.items()}
        seconds = time_per_state(calls, STATES)
        progress.advance(task)

    table = Table(
        caption=f"operations: one triangle of G. time: NumPy, one batch of {STATES}. error: against J M⁻¹ Jᵀ."
    )
    for column, justify in (("method", "left"), ("cost O(·)", "left"), ("operations", "right"),
                            ("time per state", "right"), ("error", "right")):  # fmt: skip
        table.add_column(column, justify="right" if justify == "right" else "left")
    best = min(reports, key=lambda name: reports[name].clean.total)
    for name in OSIM_METHODS:
        style = "bold green" if name == best else ""
        table.add_row(
            name, COSTS[name], f"{reports[name].clean.total:,}", f"{seconds[name] * 1e6:.1f} µs", f"{errors[name]:.1e}",
            style=style,
        )  # fmt: skip
    console.print(table)

    agreed = max(errors.values()) < AGREEMENT
    peer = pinocchio_delassus(case, q[:8])
    if peer is not None:
        error = float(np.max(np.abs(peer - oracle[:8]) / scale[:8]))
        agreed = agreed and error < AGREEMENT
        console.print(f"Pinocchio, a library of its own, gives the same G: error {error:.1e}.")
    console.print(
        "[green]All methods agree.[/]" if agreed else "[bold red]The methods disagree: please report this.[/]"
    )
    console.print(
        "\nTry next:\n"
        "  delassus reproduce osim             what the papers claim of these methods, measured here\n"
        "  delassus compute go1 --root floating --point FL_foot --point FR_foot\n"
        '  python -c "import delassus as ds; help(ds.delassus)"\n',
        highlight=False,
    )
    return agreed
