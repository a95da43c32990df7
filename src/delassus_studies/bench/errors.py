"""``delassus bench errors``: true errors of kernels beside their estimates, near and far from singular states.

Estimates are by what solutions miss, and of one method by pivots, too.

What is true comes from ``pv``, ``ltl`` and ``pv-early`` in extended precision (in double precision, of single
precision), of soft constraints from the last two. The nearest of them counts: what each makes of a robot's own numbers
when it is traced is rounded to double precision, which on straight limbs moves ``pv`` and ``ltl`` by 1e-5.

Of mechanisms with loops, and of parallel robots where their files are, loops are closed at half of the states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from rich.table import Table

import delassus as ds
from delassus.accuracy.policy import ERROR_BOUND
from delassus.cli.tables import Record, environment, table
from delassus.compiler.program.program import Program, interpret_program
from delassus.constraints import Constraint
from delassus.formats.names import example_robot_files
from delassus.quantities import find_quantity
from delassus.quantities.pipeline import make_program
from delassus.quantities.request import Request, request
from delassus.spatial.rotations import Array
from delassus_studies.cases import Case, quiet_load
from delassus_studies.figures import scatter_figure
from delassus_studies.loop_mechanisms import closed_states, few_loops, parallel_robots
from delassus_studies.timing import in_turn

METHODS, ORACLES = ("pv-early", "pv", "ltl"), ("pv", "ltl", "pv-early")
SOFT, SOFT_ORACLES = "pv-early, soft", ("ltl", "pv-early")
"""With a compliance on all constraints, of `COMPLIANCES` at random (powers of ten)."""
COMPLIANCES = -13.0, 1.0
PIVOTS = "pv-early, by pivots"
"""Estimates of kernels that have not been found to need better ones."""
EXACT: Mapping[str, type] = {"float64": np.longdouble, "float32": np.float64}
STATES, AT_ONCE = 200, 250
DRAWN = 1000
"""Points of a method and a type in the figure: those above the line, and others at random."""
ROBOTS = (
    "a1", "allegro_left_hand", "anymal", "baxter", "centauro", "g1", "go1", "hyq", "icub", "kinova", "laikago", "panda",
    "quadruped", "solo12", "talos_reduced", "tiago", "ur10", "xarm7",
)  # fmt: skip
"""Of `example-robot-data`, on floating and on fixed bases."""

BELOW, ABOVE = 10.0, 100.0
"""Estimates are not to be so many times too small at any state, nor too large in the median."""


def measure(quick: bool = False) -> Iterator[Record]:
    """True errors by estimates of q̈ and f, at states whose estimate is within the bound, by method and type.

    The record before and after.
    """
    yield environment()
    rng, states = np.random.default_rng(0), 50 if quick else STATES
    found: dict[str, list[Array]] = {f"{m}, {t}": [] for m in ("aba", *METHODS, SOFT, PIVOTS) for t in EXACT}
    counts: dict[str, list[int]] = {name: [0, 0] for name in found}
    above: list[list[str | float]] = []
    robots = list(_robots(quick))
    for tree, constraints, closed in _cases(robots, [] if quick else [*few_loops(), *parallel_robots()], rng):
        for method in (*METHODS, SOFT, PIVOTS) if constraints else ("aba",):
            x = usual_and_near_singular(tree, rng, states)
            x[: len(closed)] = closed
            compliance = float(10.0 ** rng.uniform(*COMPLIANCES)) if method == SOFT else None
            for dtype in EXACT:
                program, oracles = _programs(tree, constraints, method, compliance, dtype)
                error, estimate = true_and_estimated(program, oracles, x, dtype)
                within = estimate <= ERROR_BOUND[dtype]
                pairs = np.stack([estimate[within], np.nan_to_num(error[within], nan=np.inf)])
                name = f"{method}, {dtype}"
                found[name].append(pairs)
                counts[name][0] += len(x)
                counts[name][1] += int(np.count_nonzero(~within))
                too_small = pairs[:, pairs[1] > BELOW * pairs[0]]
                above += [[tree.name, str(constraints), name, *pair] for pair in too_small.T.tolist()]
    series = {name: np.concatenate(pairs, axis=1) for name, pairs in found.items()}
    yield {
        **environment(),
        "robots": [tree.name for tree in robots],
        "states": counts,
        "ratios": {name: _quantiles(estimate, error) for name, (estimate, error) in series.items()},
        "above": above,
        "drawn": {name: _drawn(pairs, rng).tolist() for name, pairs in series.items()},
    }


def _programs(
    tree: ds.Tree, constraints: Sequence[Constraint], method: str, compliance: float | None, dtype: str
) -> tuple[Program, list[Program]]:
    """What is judged, and what it is judged by."""
    name = method.partition(",")[0]
    asked = request(tree, constraints, find_quantity("dynamics"), method=name, compliance=compliance)
    oracles = [_oracle(replace(asked, method=oracle)) for oracle in (SOFT_ORACLES if compliance else ORACLES)]
    return make_program(asked if method == PIVOTS else replace(asked, error_dtype=dtype)), oracles


@lru_cache(maxsize=8)
def _oracle(asked: Request) -> Program:
    """The same for all methods and both types."""
    return make_program(asked)


def _quantiles(estimate: Array, error: Array) -> list[float]:
    """Median, 99.9 % and largest of error by estimate."""
    return [float(np.quantile(error / estimate, share)) for share in (0.5, 0.999, 1.0)]


def _drawn(pairs: Array, rng: np.random.Generator) -> Array:
    few = rng.permutation(pairs.shape[1])[:DRAWN]
    return np.concatenate([pairs[:, few], pairs[:, pairs[1] > BELOW * pairs[0]]], axis=1)


def _robots(quick: bool) -> Iterator[ds.Tree]:
    yield ds.mechanisms.chain(7)
    if quick:
        return
    yield ds.mechanisms.humanoid()
    yield ds.mechanisms.chain(30)
    yield ds.mechanisms.star(4, 5)
    for name in ROBOTS:
        if name in example_robot_files():
            yield quiet_load(name, "floating" if len(name) % 2 else "fixed")


def _cases(
    robots: Sequence[ds.Tree], loops: Sequence[Case], rng: np.random.Generator
) -> Iterator[tuple[ds.Tree, Sequence[Constraint], Array]]:
    """Robots and constraints, with states at which their loops are closed, for half of all."""
    for tree in in_turn(robots):
        yield from ((tree, constraints, np.zeros((0, tree.nq + 2 * tree.nv))) for constraints in _sets(tree, rng))
    for case in in_turn(loops):
        if (states := closed_states(case, STATES // 2)) is not None:
            yield case.tree, case.constraints, np.concatenate([states.q, states.v, states.tau], axis=1)


def _sets(tree: ds.Tree, rng: np.random.Generator) -> Iterator[list[Constraint]]:
    tips = [tree.link_names[i] for i in range(tree.n_links) if not tree.children[i]]
    ends = [ds.Frame(tip, rng.uniform(-0.2, 0.2, 3)) for tip in (tips[0], tips[-1])]
    deep = [len(tree.support(tree.link_names.index(tip))) + 5 * tree.is_floating for tip in (tips[0], tips[-1])]
    yield []
    if deep[0] >= 4:
        yield [ds.Point(ends[0])]
    if deep[1] >= 7:
        yield [ds.Weld(ends[1])]
    if len(tips) > 1 and min(deep) >= 7:
        yield [ds.Weld(ends[0]), ds.Point(ends[1])]
        yield [ds.Point(*ends)]


def usual_and_near_singular(tree: ds.Tree, rng: np.random.Generator, n: int, moves: bool = True) -> Array:
    """Random states (n, …): q, and v and tau if it moves.

    Some joints of some are as near to neutral as 1e-8: straight limbs, aligned axes.
    """
    neutral = np.broadcast_to(tree.neutral(), (n, tree.nq))
    moved = tree.difference(neutral, tree.random(rng, batch=n))
    near = rng.random((n, tree.nv)) < rng.choice([0.0, 0.5, 1.0], (n, 1))
    moved *= np.where(near, 10.0 ** -rng.uniform(0.0, 8.0, (n, tree.nv)), 1.0)
    v, tau = rng.normal(size=(n, tree.nv)), rng.normal(0.0, 10.0, (n, tree.nv))
    return np.concatenate([tree.integrate(neutral, moved), *([v, tau] if moves else [])], axis=1)


def true_and_estimated(program: Program, oracles: Sequence[Program], x: Array, dtype: str) -> tuple[Array, Array]:
    """Largest relative error of the results at each state, and what the program estimates.

    ``oracles`` have the same results; they are run in a wider type, and the nearest of them counts.
    """
    (rcond,) = program.results[-1].entries
    errors, estimates = [], []
    for start in range(0, len(x), AT_ONCE):
        own = x[start : start + AT_ONCE].astype(dtype)
        got = np.concatenate(interpret_program(program, own), axis=1)
        exact = [np.concatenate(interpret_program(run, own.astype(EXACT[dtype])), axis=1) for run in oracles]
        errors.append(np.fmin.reduce([_error(got, y, program) for y in exact]))
        estimates.append(np.finfo(dtype).eps / np.maximum(got[:, rcond].astype(float), 1e-300))
    return np.concatenate(errors), np.concatenate(estimates)


def _error(got: Array, exact: Array, program: Program) -> Array:
    """Largest relative error of the results at each state."""
    error = np.zeros(len(got))
    for result in program.results[:-1]:
        if result.entries:
            at = list(result.entries)
            size, off = (np.abs(y[:, at]).max(axis=1) for y in (exact, got - exact))
            with np.errstate(invalid="ignore", divide="ignore"):
                error = np.maximum(error, np.where(off == 0.0, 0.0, off / size).astype(float))
    return error


def tables(record: Record) -> Iterator[Table]:
    """Ratios of true to estimated errors, and how many states are above the bound."""
    if "ratios" not in record:
        return
    heads = ("", "states:,", "above the bound:.1%", "median:.2g", "99.9 %:.2g", "largest:.2g", f"> {BELOW:g}")
    rows = []
    for name, ratios in record["ratios"].items():
        n, above = record["states"][name]
        too_small = sum(method == name for _, _, method, *_ in record["above"])
        rows.append((name, n, above / max(n, 1), *ratios, too_small))
    yield table(f"true error by estimate, {len(record['robots'])} robots and mechanisms", heads, rows)
    if record["above"]:
        columns = ("robot", "constraints", "", "estimate:.1e", "true:.1e")
        yield table(f"more than {BELOW:g}", columns, record["above"])


def draw(record: Record, folder: Path) -> Path:
    """True errors against estimates, a panel for each type, a colour for each kind of estimate."""
    panels: dict[str, dict[str, tuple[list[float], list[float]]]] = {dtype: {} for dtype in EXACT}
    for name, (estimates, errors) in record["drawn"].items():
        method, _, dtype = name.rpartition(", ")
        kind = {SOFT: "what is missed, soft rows", PIVOTS: "pivots"}.get(method, "what is missed")
        xs, ys = panels[dtype].setdefault(kind, ([], []))
        xs += estimates
        ys += errors
    return scatter_figure(folder / "errors.png", panels, "estimated relative error", "true relative error", BELOW)
