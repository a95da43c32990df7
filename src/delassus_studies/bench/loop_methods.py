"""Methods beside one another on robots with loops: operations, and errors beside extended precision.

What is exact is the saddle point of mass matrix and rows, both computed in extended precision, by Cholesky's factor of
the one and a pivoted factorisation of the other, which leaves out rows that depend on others: accelerations of the
least-squares solution, whatever the rank. Programs of methods are run as they are, in double precision: nothing is
solved again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.table import Table

import delassus as ds
from delassus.accuracy.policy import ERROR_BOUND
from delassus.cli.tables import Record, table
from delassus.compiler.program.program import Program, interpret_program
from delassus.quantities import find_quantity
from delassus.quantities.evaluate import stage
from delassus.quantities.pipeline import make_program
from delassus.quantities.request import Request, request
from delassus.spatial.rotations import Array
from delassus_studies.cases import Case, States, random_states
from delassus_studies.counters import operations
from delassus_studies.loop_mechanisms import closed_states, four_bars, parallel_humanoid, parallel_robots
from delassus_studies.timing import each

HARD, CLUSTERS, SOFT = ("pv-early", "pv", "ltl", "kkt", "proximal"), ("cluster-aba",), "pv-soft"
"""Methods of hard constraints; those of `CLUSTERS` are in minimal coordinates, where there are any. Of soft ones, of
which only operations are counted."""

TOWERS = (2, 10, 40, 100)
"""Numbers of four-bars."""

STATES = 8

DEPENDENT = 1e-9
"""Rows, of unit length in the metric of the mass matrix, depend on others where less of them is left; and so do those
that are shorter than this part of what they usually are."""

MOST_DENSE, MOST_KKT, MOST_WAITING, MOST_CHECKED = 64, 30, 8000, 64
"""Degrees of freedom up to which dense methods are run, times rows up to which forces wait; and of errors."""


def methods() -> tuple[str, ...]:
    """Methods of hard constraints that there are."""
    return (*HARD, *(name for name in CLUSTERS if name in ds.DYNAMICS_METHODS))


# -- what is exact -------------------------------------------------------------------------------------------------


def exact_accelerations(case: Case, states: States, **options: Any) -> tuple[Array, Array]:
    """Least-squares accelerations (k, nv) in extended precision, and ranks (k,); no state may be massless."""
    asked = stage(_request(case, "ltl", options), 0, "system")
    M, J, force, gamma, *_, typical, _ = _run(make_program(asked), states, np.longdouble)
    found = [_saddle_point(*system) for system in zip(M, J, force, gamma, np.sqrt(typical), strict=True)]
    return np.array([qdd for qdd, _ in found]), np.array([rank for _, rank in found])


def _saddle_point(M: Array, J: Array, force: Array, gamma: Array, usual: Array) -> tuple[Array, int]:
    """``q̈`` of ``M q̈ = force + Jᵀ f``, ``J q̈ = γ`` by rows that do not depend on others, and how many they are.

    ``usual`` (m,) is how long rows are at usual states.
    """
    L = cholesky(M)
    Y, z = half_solve(L, J.T), half_solve(L, force[:, None])[:, 0]
    length = np.sqrt(np.sum(Y * Y, axis=0))
    length = np.where(length <= DEPENDENT * usual, np.maximum(usual, length), length)
    length[length == 0.0] = 1.0
    Q, wanted, left = list[Array](), list[Any](), Y / length
    gamma = gamma / length
    for _ in range(min(J.shape)):
        sizes = np.sum(left * left, axis=0)
        k = int(np.argmax(sizes))
        if sizes[k] <= DEPENDENT**2:
            break
        q = left[:, k].copy()
        for other in Q:  # twice is enough
            q = q - other * (other @ q)
        q = q / np.sqrt(q @ q)
        row = Y[:, k] / length[k]
        known = sum(((row @ other) * x for other, x in zip(Q, wanted, strict=True)), np.longdouble(0.0))
        wanted.append((gamma[k] - known) / (row @ q))
        Q.append(q)
        left = left - np.outer(q, q @ left)
    for q, x in zip(Q, wanted, strict=True):
        z = z + q * (x - q @ z)
    return back_solve(L, z), len(Q)


def cholesky(M: Array) -> Array:
    """Lower factor of a matrix of any type of numbers."""
    L = np.zeros_like(M)
    for k in range(len(M)):
        column = M[k:, k] - L[k:, :k] @ L[k, :k]
        L[k:, k] = column / np.sqrt(column[0])
    return L


def half_solve(L: Array, B: Array) -> Array:
    """``L⁻¹ B``."""
    X = B.copy()
    for k in range(len(L)):
        X[k] = (X[k] - L[k, :k] @ X[:k]) / L[k, k]
    return X


def back_solve(L: Array, x: Array) -> Array:
    """``L⁻ᵀ x``."""
    out = x.copy()
    for k in reversed(range(len(L))):
        out[k] = (out[k] - L[k + 1 :, k] @ out[k + 1 :]) / L[k, k]
    return out


# -- methods -------------------------------------------------------------------------------------------------------


def _request(case: Case, method: str, options: Any) -> Request:
    return request(case.tree, case.constraints, find_quantity("dynamics"), method=method, passive="none", **options)


def _run(program: Program, states: States, dtype: Any) -> list[Array]:
    """Results of a program at states, in a type of numbers."""
    given = np.concatenate([states.q, states.v, states.tau], axis=1).astype(dtype)
    values = np.concatenate(interpret_program(program, given), axis=1)
    return [values[:, list(r.entries)].reshape(len(given), *r.shape) for r in program.results]


def accelerations(case: Case, states: States, method: str, dtype: type = np.float64, **options: Any) -> Array:
    """Those of a method (k, nv); NaN at states that its program does not take for solved."""
    epsilon, name = np.finfo(dtype).eps, np.dtype(dtype).name
    with np.errstate(all="ignore"):
        found = _run(make_program(_request(case, method, options)), states, dtype)
        is_solved = found[-1] * ERROR_BOUND[name] >= epsilon
    return np.where(is_solved[:, None], found[0], np.nan)


def _counted(case: Case, method: str) -> int | None:
    """Operations; None where they would take minutes to count."""
    m, nv = sum(c.size for c in case.constraints), case.tree.nv
    few = {"ltl": nv <= MOST_DENSE, "kkt": nv <= MOST_KKT, "pv": m * nv <= MOST_WAITING}.get(method, True)
    return operations(case, method) if few else None


def measure_methods(case: Case, n: int = STATES) -> Record:
    """Operations of each method, its largest relative error over closed states, and which share of them it solves."""
    states = closed_states(case, n) if case.tree.nv <= MOST_CHECKED else None
    is_closed = states is not None
    states = random_states(case, n) if states is None else states
    out: Record = {"nv": case.tree.nv, "rows": sum(c.size for c in case.constraints), "closed": is_closed}
    exact, ranks = exact_accelerations(case, states) if case.tree.nv <= MOST_CHECKED else (None, np.zeros(1, int))
    out["rank"] = int(np.max(ranks))
    for method in methods():
        found: Record = {"operations": _counted(case, method)}
        if exact is not None and found["operations"]:
            qdd = accelerations(case, states, method)
            error = np.abs(qdd - exact).max(axis=1) / np.abs(exact).max(axis=1)
            solved = np.isfinite(error)
            found["solved"] = float(np.mean(solved))
            found["error"] = float(np.max(error, where=solved, initial=0.0)) if solved.any() else None
        out[method] = found
    out[SOFT] = {"operations": _counted(case, SOFT)}
    return out


def measure(record: Record, quick: bool = False) -> Iterator[Record]:
    """All of it into the record, which is yielded after each robot."""
    robots = [] if quick else [*parallel_robots(), parallel_humanoid()]
    yield from each(record, "methods", [*robots, *map(four_bars, TOWERS[: 1 if quick else None])], measure_methods)


def tables(record: Record) -> Iterator[Table]:
    """Operations, and errors."""
    found = record.get("methods", {})
    names = [name for name in (*HARD, *CLUSTERS) if any(name in x for x in found.values())]
    counted = [*names, SOFT]
    rows, errors = [], []
    for robot, x in found.items():
        rank = x["rank"] or "–"
        rows.append((robot, x["nv"], x["rows"], rank, *(x.get(name, {}).get("operations") for name in counted)))
        if x["rank"]:
            errors.append((robot, *(_said(x.get(name)) for name in names)))
    yield table("operations of methods", ("robot", "nv", "rows", "rank", *(f"{name}:," for name in counted)), rows)
    yield table("largest relative error of accelerations at closed states", ("robot", *names), errors)


def _said(found: Record | None) -> str:
    if found is None or found.get("solved") is None:
        return ""
    if found["error"] is None:
        return "dependent"
    part = "" if found["solved"] == 1.0 else f" ({found['solved']:.0%})"
    return f"{found['error']:.0e}{part}"
