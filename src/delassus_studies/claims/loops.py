"""Claims about robots with closed loops: elimination over loops [LCABA], and clusters of links [clusters].

Operations are those of compiled programs, times of machine code in batches on one core. What a paper compares with,
dense methods that factorise the mass matrix and the rows of all loops together, is `ltl` (sparse) or `kkt`. [LCABA] has
links in maximal coordinates and proximal terms; here the same elimination is `pv-early` (exact rows) and `proximal`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import delassus as ds
from delassus.constraints import Constraint, JointRows
from delassus_studies.bench.dynamics import ANY_ERROR, dynamics_kernel
from delassus_studies.cases import Case, Unavailable, random_states
from delassus_studies.claims import Claim, Finding, Setup, unless, verdict
from delassus_studies.counters import operations
from delassus_studies.loop_mechanisms import cassie_legs, digit_legs_and_arms, four_bars, parallel_humanoid, rungs
from delassus_studies.timing import interleaved, pinned, slope

CLUSTERS = "cluster-aba"
TIMES, LINEAR, SMALL = 6.0, 1.1, 1.25
"""How many times faster [LCABA] says; a power of n up to which growth is linear; what is a small part more."""

STATES, ROUNDS, REPEATS, MOST_TIMED = 1024, 7, 2, 45_000
"""Of a time, and operations of kernels that are compiled for it."""

TOWERS = (2, 4, 8, 16)
GEARED = (2, 6, 12, 24, 48)
"""Numbers of four-bars, and of geared joints of an arm: up to 48, for from 12 to 24 the power is 1.12."""


def geared_arm(n: int, ratio: float = 50.0) -> Case:
    """An arm of ``n`` joints; the rotor of each is a link on the link before it, and turns ``ratio`` times as fast."""
    tree, loops = ds.mechanisms.chain(n), list[Constraint]()
    for k in range(1, n + 1):
        rotor = ds.mechanisms.pendulum(1, length=0.02, mass=0.2)
        tree = tree.attach(f"link{k - 1}" if k > 1 else "world", rotor, prefix=f"rotor{k}_")
        loops.append(JointRows({f"rotor{k}_rod1_joint": 1.0, f"{tree.joint_names[k - 1]}": -ratio}))
    return Case(f"geared arm of {n}", tree, tuple(loops))


def _times(cases: Sequence[Case], methods: Sequence[str]) -> dict[str, dict[str, float]]:
    """µs a state, by case and method, of those that are not too long."""
    out = dict[str, dict[str, float]]()
    for case in cases:
        states, calls = random_states(case, STATES), dict[str, tuple[Callable[[], object], int]]()
        for method in methods:
            if operations(case, method) <= MOST_TIMED:
                kernel = dynamics_kernel(case, method, error_bound=ANY_ERROR)
                calls[method] = partial(kernel, states.q, states.v, states.tau, threads=1), STATES
        with pinned():
            found = interleaved(calls, ROUNDS, REPEATS, time.thread_time)
        out[case.name] = {method: float(x["lowest"]) for method, x in found.items()}
    return out


def _speed(setup: Setup) -> Finding:
    """Robots with loops: the dense method over the elimination, in operations and, of those that are short, times."""
    every: tuple[Callable[[], Case], ...] = (
        parallel_humanoid,
        partial(cassie_legs, True),
        digit_legs_and_arms,
        partial(rungs, 10),
        partial(four_bars, 4),
        partial(four_bars, 10),
        partial(four_bars, 16),
    )
    cases = [make() for make in setup.few(every, 1)]
    counts = {case.name: {m: operations(case, m) for m in ("pv-early", "proximal", "ltl")} for case in cases}
    ratios = {name: x["ltl"] / x["pv-early"] for name, x in counts.items()}
    said = ", ".join(f"{name} {ratios[name]:.1f}" for name in ratios)
    measured = f"operations of ltl by those of pv-early: {said}"
    parts = [ratio > TIMES for ratio in ratios.values()]
    if not setup.quick:
        times = _times(cases, ("pv-early", "ltl"))
        both = {name: x["ltl"] / x["pv-early"] for name, x in times.items() if len(x) > 1}
        measured += "; times: " + ", ".join(f"{name} {ratio:.1f}" for name, ratio in both.items())
    names, reason = tuple(counts), "loops are few, or share few links: dense methods here leave out structural zeros"
    panels = {"operations": {m: (names, [x[m] for x in counts.values()]) for m in ("ltl", "proximal", "pv-early")}}
    return Finding(f"{measured}.", verdict(parts), "" if all(parts) else reason, panels)


def _growth(
    setup: Setup, sizes: Sequence[int], family: Callable[[int], Case], methods: Sequence[str], linear: Sequence[str]
) -> Finding:
    """Powers with which operations grow, at the last two sizes, and which are linear; ratios at the last."""
    if CLUSTERS in methods and CLUSTERS not in ds.DYNAMICS_METHODS:
        raise Unavailable(f"there is no method {CLUSTERS}")
    x = setup.few(sizes)
    counts = {method: [operations(family(n), method) for n in x] for method in methods}
    powers = {method: slope(x, y) for method, y in counts.items()}
    dense = counts["ltl"]
    said = ", ".join(
        f"{m} {powers[m]:.2f} ({counts[m][-1]:,}, {dense[-1] / counts[m][-1]:.1f} × fewer)" for m in linear
    )
    reasons = {f"{m} grows with n^{powers[m]:.2f}": powers[m] <= LINEAR for m in linear}
    reasons["ltl is not under all of them"] = dense[-1] > max(counts[m][-1] for m in linear)
    crossing = next((n for k, n in enumerate(x) if dense[k] > counts[linear[-1]][k]), None)
    measured = (
        f"powers of n from {x[-2]} to {x[-1]} (operations): {said}; ltl {powers['ltl']:.2f} ({dense[-1]:,}), above "
    )
    measured += f"{linear[-1]} from n = {crossing} on."
    return Finding(
        measured, verdict([*reasons.values()]), unless(reasons), {"operations": {m: (x, y) for m, y in counts.items()}}
    )


def _rotors(setup: Setup) -> Finding:
    """What rotors as links cost over rotors as armature, by clusters and by dense rows."""
    if CLUSTERS not in ds.DYNAMICS_METHODS:
        raise Unavailable(f"there is no method {CLUSTERS}")
    n = 2 if setup.quick else 7
    alone = operations(Case("arm", ds.mechanisms.chain(n), ()), "aba")
    found = {method: operations(geared_arm(n), method) for method in (CLUSTERS, "pv-early", "ltl", "kkt")}
    said = ", ".join(f"{method} {count:,} ({count / alone:.2f} ×)" for method, count in found.items())
    reasons = {
        f"more than {SMALL:.2f} × aba without rotors": found[CLUSTERS] <= SMALL * alone,
        "rotors are leaves, so that factors have no fill-in": found[CLUSTERS] < min(found["ltl"], found["kkt"]),
    }
    measured = f"{n} joints with rotors: {said}; of aba without rotors {alone:,}."
    return Finding(measured, verdict([*reasons.values()]), unless(reasons))


BY_CLUSTERS = (CLUSTERS, "pv-early", "ltl")

CLAIMS = (
    Claim("[LCABA] robots", "robots with many loops: elimination over loops is over 6 × as fast as dense methods",
          _speed, "lcaba_robots"),
    Claim("[LCABA] order", "local loops: cost grows with n, with exact and with proximal rows, of dense methods with "
          "more than its square", lambda setup: _growth(setup, TOWERS, four_bars, ("pv-early", "proximal", "ltl"),
                                                         ("pv-early", "proximal")),
          "lcaba_order", log=True, x="four-bars"),
    Claim("[clusters] order", "towers of four-bars: recursions over clusters are O(n), and cost less than projection "
          "of all loops together, the more the more loops", lambda setup: _growth(setup, TOWERS, four_bars, BY_CLUSTERS,
                                                                                  (CLUSTERS,)),
          "clusters_order", log=True, x="four-bars"),
    Claim("[clusters] gears", "motors with gears: rotors that are links of their own cost O(n) by clusters, less than "
          "dense methods", lambda setup: _growth(setup, GEARED, geared_arm, BY_CLUSTERS, (CLUSTERS,)),
          "clusters_gears", log=True, x="geared joints"),
    Claim("[clusters] rotors", "an arm of seven joints with rotors: a small part more than without them", _rotors),
)  # fmt: skip
