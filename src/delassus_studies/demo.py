"""``delassus demo``: every method on a real robot, each number beside an independent check."""

from __future__ import annotations

from functools import partial

import numpy as np
from rich.text import Text

from delassus.compiler.trace import count_operations
from delassus.model.rotations import Array
from delassus.quantities.osim import OSIM_METHODS, delassus, jacobian, mass_matrix
from delassus.runtime.compile import compile as compile_kernel
from delassus_studies.cases import demo_case
from delassus_studies.peers_pinocchio import pinocchio_delassus
from delassus_studies.tables import table
from delassus_studies.terminal import Console
from delassus_studies.timing import best, interleaved, relative_error

STATES, ROUNDS = 256, 7
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

NEXT = """
Try next:
  python -c "import delassus as ds; help(ds.delassus)"
  delassus simulate quadruped      a quadruped trots; --view shows it in the browser
  delassus reproduce osim --quick  what the papers claim of these methods
  delassus info go1                needs names of robots: pip install 'delassus[robots]'
"""


def run(console: Console) -> bool:
    """Print the demo; returns whether everything agreed."""
    case = demo_case()
    tree, constraints = case.tree, case.constraints
    m = sum(c.size for c in constraints)
    console.print()
    console.print(
        Text(f"{case.name}:", "bold"),
        f"n = {tree.n_links} links, {tree.nv} degrees of freedom, depth d = {tree.depth}, m = {m} constraint rows.",
    )
    console.print(f"Delassus matrix G = J M⁻¹ Jᵀ ({m} × {m}) at {STATES} random configurations.")
    console.print()
    q = tree.random(0, STATES)
    J, M = jacobian(tree, constraints, q), mass_matrix(tree, q)
    oracle = J @ np.linalg.solve(M, np.swapaxes(J, -1, -2))  # by NumPy's general solver

    def error(G: Array) -> float:
        return float(relative_error(G, oracle[: len(G)]).max())

    with console.status("counting and timing"):
        counts = {name: count_operations(tree, constraints, method=name).clean.total for name in OSIM_METHODS}
        calls = {name: partial(delassus, tree, constraints, q, method=name) for name in OSIM_METHODS}
        errors = {name: error(call()) for name, call in calls.items()}
        times = interleaved({name: (call, STATES) for name, call in calls.items()}, ROUNDS)
    fewest = min(counts, key=counts.__getitem__)
    columns = ("method", "cost O(·)", "operations", "time per state", "error")
    rows = [
        (name, COSTS[name], f"{counts[name]:,}", f"{times[name]['median']:.1f} µs", f"{errors[name]:.1e}")
        for name in OSIM_METHODS
    ]
    title = f"operations: one triangle of G; time: NumPy, one batch of {STATES}; error: against J M⁻¹ Jᵀ"
    shown = table(title, columns, rows, text=("cost O(·)",))
    shown.rows[OSIM_METHODS.index(fewest)].style = "bold green"
    console.print(shown)

    if (peer := pinocchio_delassus(case, q[:8])) is not None:
        errors["pinocchio"] = error(peer)
        console.print(f"Pinocchio, a library of its own, gives the same G: error {errors['pinocchio']:.1e}.")
    with console.status("compiling"):
        seconds, kernel = best(lambda: compile_kernel(tree, constraints, "delassus"))
    errors["compiled"], one = error(kernel(q)), q[0]
    G = np.empty((STATES, m, m))
    fast = interleaved(
        {"batch": (lambda: kernel(q, out=G), STATES), "one": (lambda: kernel(one, out=G[0]), 1)}, ROUNDS, 20
    )
    console.print(
        Text("Compiled", "bold"),
        f"(ds.compile, {seconds:.1f} s): {fast['batch']['median']:.2f} µs per state in the batch, "
        f"{fast['one']['median']:.1f} µs for one alone, with out=; "
        f"error {errors['compiled']:.1e}.",
    )
    agreed = max(errors.values()) < AGREEMENT
    console.print(
        Text("All methods agree.", "green") if agreed else Text("The methods disagree: please report this.", "bold red")
    )
    console.print(Text(NEXT))
    return agreed
