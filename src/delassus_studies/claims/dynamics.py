"""Claims of [LQR] about constrained forward dynamics: accuracy of soft constraints, operations of long mechanisms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np

import delassus as ds
from delassus.algorithms.dynamics import METHODS, SOFT
from delassus.algorithms.dynamics.constraint_acceleration import constraint_residual
from delassus.api.direct import bind
from delassus.constraints import Constraint
from delassus.quantities.bound_request import BoundRequest
from delassus.quantities.declarations.dynamics import DYNAMICS
from delassus.quantities.quantity import Output, Quantity
from delassus.spatial.ops import Matrix
from delassus.spatial.rotations import Array
from delassus_studies.as_published import casadi_dynamics
from delassus_studies.cases import TALOS_FEET, TALOS_HANDS, Case, general_rows, installed, welds
from delassus_studies.claims import Claim, Finding, Setup, unless, verdict
from delassus_studies.claims.dynamics_times import WEIGHT, c_times
from delassus_studies.counters import operations
from delassus_studies.figures import Series
from delassus_studies.timing import slope

HARD = ("pv", "pv-early", "ltl")
COUNTED = ("pv", "ltl", "ltl-soft", "pv-early", "pv-soft")
NAMES = {"pv": "PV", "pv-early": "PV-e", "pv-soft": "PV-s", "ltl": "LTL", "ltl-soft": "LTL-s", "kkt": "dense"}

# -- Fig. 3: accuracy of soft constraints --------------------------------------------------------------------------

WEIGHTS = tuple(10.0**k for k in range(2, 13))
DIVERGENCE = 1e8
"""Weight beyond which the paper sees soft accelerations leave the hard ones."""


class Accuracy(NamedTuple):
    """Norms at each of n states by method: residuals (n,) of hard ones; residuals, distances (weights, n) of soft ones.

    Distances are those of accelerations from PV's.
    """

    hard: Mapping[str, Array]
    residual: Mapping[str, Array]
    distance: Mapping[str, Array]


Solve = Callable[[str, float | None], tuple[Array, Array]]
"""Accelerations (n, nv) and what rows miss (n, m) by a method, at the weight of soft rows."""


def _solution(bound: BoundRequest) -> list[Matrix]:
    motion = bound.motion()
    qdd = METHODS[bound.request.method](motion).qdd
    joints = [bound.ops.take(qdd, range(sv.start, sv.stop), None) for sv in bound.tree.v_slices]
    return [qdd, constraint_residual(motion, joints)]


SOLUTION = Quantity(
    "solution",
    "Forward dynamics by a method alone, without estimates of errors",
    ("q", "v", "tau"),
    (
        Output("qdd", ("nv",), "joint accelerations in rad/s^2 and m/s^2"),
        Output("missed", ("m",), "what the rows miss in rad/s^2 and m/s^2"),
    ),
    _solution,
    DYNAMICS.methods,
    DYNAMICS.options,
)


def accuracy(
    tree: ds.Tree, constraints: Sequence[Constraint], states: int, weights: Sequence[float], published: bool = False
) -> Accuracy:
    """Measure at random configurations and velocities, without torques; as published, by CasADi's graph."""
    rng = np.random.default_rng(0)
    given = {
        "q": tree.random(rng, (states,)),
        "v": rng.normal(size=(states, tree.nv)),
        "tau": np.zeros((states, tree.nv)),
    }

    def by_text(method: str, weight: float | None = None) -> tuple[Array, Array]:
        compliance = None if weight is None else 1.0 / weight
        found = bind(tree, constraints, SOLUTION, given, method, compliance=compliance, passive="none").run()
        return found["qdd"], found["missed"]

    graph = cache(partial(casadi_dynamics, tree, constraints))
    wanted = np.zeros((states, sum(c.size for c in constraints)))

    def by_graph(method: str, weight: float | None = None) -> tuple[Array, Array]:
        return graph(method).at(*given.values(), wanted, *([] if weight is None else [np.full((states, 1), weight)]))

    solve: Solve = by_graph if published else by_text
    hard = {name: solve(name, None) for name in HARD}
    soft = {name: [solve(name, weight) for weight in weights] for name in sorted(SOFT)}
    return Accuracy(
        {name: _norm(missed) for name, (_, missed) in hard.items()},
        {name: np.array([_norm(missed) for _, missed in found]) for name, found in soft.items()},
        {name: np.array([_norm(qdd - hard["pv"][0]) for qdd, _ in found]) for name, found in soft.items()},
    )


def _norm(a: Array) -> Array:
    return np.asarray(np.linalg.norm(a, axis=-1))


def judge_accuracy(found: Accuracy, weights: Sequence[float]) -> Finding:
    """What the numbers say of the claim."""
    median = {
        what: {name: np.median(values, axis=-1) for name, values in part.items()}
        for what, part in (("residual", found.residual), ("distance", found.distance))
    }
    hard = {name: float(np.median(values)) for name, values in found.hard.items()}
    residual, (pv, ltl) = median["residual"], (median["distance"][name] for name in ("pv-soft", "ltl-soft"))
    turns = {name: weights[int(np.argmin(median["distance"][name]))] for name in median["distance"]}
    falls = all(np.all(np.diff(values) < 0) for values in residual.values())
    alike = bool(np.allclose(residual["pv-soft"], residual["ltl-soft"], rtol=0.1))
    higher = all(values[-1] > max(hard.values()) for values in residual.values())
    near = [DIVERGENCE / 10 <= weight <= DIVERGENCE * 10 for weight in turns.values()]
    best, stabler = hard["pv-early"] == min(hard.values()), bool(pv[-1] < ltl[-1])
    parts = {
        "residuals do not fall with every weight": falls,
        "residuals of PV-s and LTL-s differ": alike,
        "residuals reach those of hard solvers": higher,
        "accelerations turn away at another weight": all(near),
        "PV-e has not the smallest residual": best,
        "PV-s is not the stabler one": stabler,
    }
    at = max(k for k, weight in enumerate(weights) if weight <= DIVERGENCE)
    return Finding(
        "median residual of hard solvers: "
        + ", ".join(f"{NAMES[name]} {value:.0e}" for name, value in hard.items())
        + f"; of PV-s {residual['pv-soft'][0]:.0e} … {residual['pv-soft'][-1]:.0e}, of LTL-s "
        f"{residual['ltl-soft'][0]:.0e} … {residual['ltl-soft'][-1]:.0e} for weights {weights[0]:.0e} … "
        f"{weights[-1]:.0e}. Distance to PV is least at {turns['pv-soft']:.0e} (PV-s), {turns['ltl-soft']:.0e} "
        f"(LTL-s): medians at {weights[at]:.0e} {pv[at]:.0e}, {ltl[at]:.0e}, at {weights[-1]:.0e} {pv[-1]:.0e}, "
        f"{ltl[-1]:.0e}.",
        verdict(list(parts.values())),
        unless(parts),
        {
            "‖K a − k‖": {
                **{NAMES[name]: (weights, list(values)) for name, values in residual.items()},
                **{NAMES[name]: (weights, [value] * len(weights)) for name, value in hard.items()},
            },
            "‖q̈ − q̈ of PV‖": {NAMES[name]: (weights, list(values)) for name, values in median["distance"].items()},
        },
    )


def _talos(setup: Setup, published: bool = False) -> Finding:
    talos = installed("talos_full_v2")
    states, weights = (10, WEIGHTS[::5]) if setup.quick else (1000, WEIGHTS)
    return judge_accuracy(accuracy(talos, welds(*TALOS_FEET, *TALOS_HANDS), states, weights, published), weights)


# -- Fig. 4: operations of long mechanisms -------------------------------------------------------------------------

CHAINS = (6, 12, 25, 50, 100)
RUNGS = (1, 2, 4, 8)

MOST_COMPILED = 80_000
"""Instructions of C code that gcc compiles in about a minute."""

Family = Callable[[int], tuple[ds.Tree, tuple[str, ...]]]
"""Mechanism of a size, and the links that are welded to the world."""


def chains(n: int) -> tuple[ds.Tree, tuple[str, ...]]:
    """[LQR] Fig. 4a."""
    return ds.mechanisms.chain(n), (f"link{n}",)


def ladders(n: int) -> tuple[ds.Tree, tuple[str, ...]]:
    """[LQR] Fig. 4b."""
    return ds.mechanisms.comb(n), tuple(f"rung{k}_7" for k in range(1, n + 1))


def _slopes(x: Sequence[int], values: Mapping[str, Sequence[float]], linear: Sequence[str]) -> dict[str, float]:
    """Slopes at the last two sizes that each method has, the linear methods first."""
    order = (*linear, *(method for method in COUNTED if method not in linear))
    return {method: slope(x[: len(values[method])], values[method]) for method in order}


def _are_as_said(slopes: Mapping[str, float], linear: Sequence[str]) -> list[bool]:
    return [value < 1.15 if method in linear else value > 1.5 for method, value in slopes.items()]


def _scaling(x: Sequence[int], family: Family, linear: Sequence[str]) -> Finding:
    """Slopes of the operations of all methods at the last two sizes of a family, some of them linear."""
    cases = [Case(f"{n}", tree, welds(*links)) for n, (tree, links) in zip(x, map(family, x), strict=True)]
    counts = {method: [operations(case, method) for case in cases] for method in COUNTED}
    slopes = _slopes(x, counts, linear)
    parts = _are_as_said(slopes, linear)
    said = ", ".join(f"{NAMES[method]} {value:.2f} ({counts[method][-1]:,})" for method, value in slopes.items())
    return Finding(
        f"slopes from n = {x[-2]} to {x[-1]} (operations at {x[-1]}): {said}.",
        verdict(parts),
        "" if all(parts) else "terms of lower order still weigh at these sizes",
        {"operations": {NAMES[method]: (x, values) for method, values in counts.items()}},
    )


def _scaling_published(setup: Setup, x: Sequence[int], family: Family, linear: Sequence[str]) -> Finding:
    """The same of CasADi's instructions, and of times of its C code where that is not too long.

    Times say what is linear: methods that are not are too long to compile where they have left straight lines.
    """
    counts: dict[str, list[int]] = {method: [] for method in COUNTED}
    times: dict[str, list[float]] = {method: [] for method in COUNTED}
    for n, (tree, links) in zip(x, map(family, x), strict=True):
        case = Case(f"{n}", tree, general_rows(links, 6))
        graphs = {method: casadi_dynamics(tree, case.constraints, method, WEIGHT) for method in COUNTED}
        for method, graph in graphs.items():
            counts[method].append(graph.operations)
        if not setup.quick:
            short = {method: graph for method, graph in graphs.items() if graph.operations <= MOST_COMPILED}
            for method, time in c_times(case, short)[0].items():
                times[method].append(time)
    slopes = _slopes(x, counts, linear)
    parts = _are_as_said(slopes, linear)
    text = f"slopes of CasADi's instructions from n = {x[-2]} to {x[-1]}: " + ", ".join(
        f"{NAMES[method]} {value:.2f} ({counts[method][-1]:,})" for method, value in slopes.items()
    )
    panels: dict[str, Series] = {
        "CasADi's instructions": {NAMES[method]: (x, values) for method, values in counts.items()}
    }
    if setup.quick:
        return Finding(f"{text}.", verdict(parts), "", panels)
    timed = _slopes(x, times, linear)
    least = min(timed[method] for method in COUNTED if method not in linear)
    parts += [max(timed[method] for method in linear) < min(1.15, least)]
    said = (
        f"{NAMES[method]} {value:.2f} (to {x[len(times[method]) - 1]}, {times[method][-1]:.3g} µs)"
        for method, value in timed.items()
    )
    panels["µs, C code through gcc"] = {NAMES[method]: (x[: len(values)], values) for method, values in times.items()}
    return Finding(
        f"{text}; of times of C code with at most {MOST_COMPILED:,} instructions: {', '.join(said)}.",
        verdict(parts),
        "" if all(parts) else "code of other lengths lies in other caches",
        panels,
    )


FIG_4A, FIG_4C = ("pv", "pv-early", "pv-soft"), ("pv-early", "pv-soft")
"""Methods that the paper finds linear."""

CLAIMS = (
    Claim("[LQR] Fig. 3", "Talos, hands and feet welded, 1000 configurations, soft weights 10² … 10¹²: residuals of "
          "PV-s and LTL-s fall with the weight, equal, and stay above those of hard solvers, of which PV-e is best; "
          "beyond about 10⁸ their accelerations leave those of PV, LTL-s more than PV-s", _talos,
          "lqr_fig3_soft_weights", log=True, x="weight 1 / R", y="median norm (SI units)",
          published=partial(_talos, published=True)),
    Claim("[LQR] Fig. 4a", "chains of 6–100 joints with a welded tip: PV, PV-e and PV-s linear; LTL and LTL-s curve "
          "upwards", lambda setup: _scaling(setup.few(CHAINS), chains, FIG_4A),
          "lqr_fig4a_chains", log=True, x="joints",
          published=lambda setup: _scaling_published(setup, setup.few(CHAINS), chains, FIG_4A)),
    Claim("[LQR] Fig. 4c", "ladder whose rungs of seven links are welded to the world: PV curves upwards like LTL and "
          "LTL-s; PV-e and PV-s stay linear", lambda setup: _scaling(setup.few(RUNGS), ladders, FIG_4C),
          "lqr_fig4c_ladder", log=True, x="rungs",
          published=lambda setup: _scaling_published(setup, setup.few(RUNGS), ladders, FIG_4C)),
)  # fmt: skip
