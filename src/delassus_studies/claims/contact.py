"""Claims of [OS] about contact problems: their sizes, the cost of assembly, and one step by OS and by NMC/OS.

A simulation of the pendulum of section 8 gives the states of steps. At some of them, with contact and without, a step
is assembled and solved from the same contacts by both formulations, through the same code, with Lemke's method in three
ways:

- *eliminated*: hinges are eliminated by a factorisation that skips zeros, as `Simulator` does;
- *mixed*: the same through the mixed problem of `formulate`, by `solve_mixed`;
- *pivoted*: the blocks of the first, but all unknowns pivoted in one tableau, hinge impulses as differences of two that
  are not negative: no use is made of what is known about hinges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

import delassus as ds
from delassus.cli.tables import table
from delassus.contact.formulations import FORMULATIONS
from delassus.model.mechanisms import pendulum as chain_of_balls
from delassus.scenes.pendulum import pendulum
from delassus.solvers.lemke import lemke_kernel
from delassus.solvers.pyramids import impulse_directions, impulses_of, linear_problem, regular_directions
from delassus.solvers.registry import LIMIT, ImpulseSolver
from delassus.solvers.results import SOLVED, STATUSES, SolverStatus
from delassus.spatial.rotations import Array
from delassus_studies.claims import Claim, Finding, Setup, verdict
from delassus_studies.claims.contact_assembly import grown, growth
from delassus_studies.timing import Calls, best, interleaved, pinned, slope

# -- sizes and assembly (Table 1) --------------------------------------------------------------------------------------

PAPER_NAMES = {"nmc": "NMC", "nmc-os": "NMC/OS", "mc": "MC", "rmc": "RMC", "os": "OS"}
DUAL_ARM = {"nmc": 310, "mc": 50, "rmc": 24, "os": 24}
PENDULUMS = {3: (24, 39, 57), 6: (24, 54, 90), 12: (24, 84, 156), 15: (24, 99, 189), 24: (24, 144, 288),
             30: (24, 174, 354)}  # fmt: skip
"""Table 2: sizes of OS, NMC/OS and NMC by number of links, with four contacts and n_f = 4."""


def on_last_links(tree_links: int, n: int = 4) -> ds.contact.ContactSet:
    """Contacts of the last ``n`` links, or of fewer in turns, with the ground."""
    links = [[tree_links - 1 - k % tree_links, -1] for k in range(n)]
    places = np.random.default_rng(0).normal(size=(n, 3))
    return ds.contact.ContactSet(links, places, ds.contact.frames_of(np.tile([0.0, 0.0, 1.0], (n, 1))))


def sizes(scene: ds.Scene, names: Sequence[str], dynamics: ds.contact.ContactDynamics | None = None) -> dict[str, int]:
    """Sizes of the problems that are built for a scene with four contacts and n_f = 4."""
    tree = scene.tree
    state, contacts = ds.contact.State(tree.neutral(), np.zeros(tree.nv)), on_last_links(tree.n_links)
    made = {n: ds.contact.formulate(scene, state, n, dt=1e-3, contacts=contacts, dynamics=dynamics) for n in names}
    return {name: len(problem.vector) for name, problem in made.items()}


def _dual_arm(setup: Setup) -> Finding:
    found = sizes(ds.Scene(ds.mechanisms.dual_arm()), list(DUAL_ARM))
    said = ", ".join(f"{PAPER_NAMES[name]} {size} ({DUAL_ARM[name]})" for name, size in found.items())
    return Finding(f"here (in the paper): {said}.", verdict([found[name] == DUAL_ARM[name] for name in DUAL_ARM]))


def _pendulums(setup: Setup) -> Finding:
    names, parts, lines = ("os", "nmc-os", "nmc"), [], []
    for n, paper in setup.few(PENDULUMS.items()):
        found = tuple(sizes(ds.Scene(chain_of_balls(n)), names).values())
        parts.append(found == paper)
        lines.append((n, *found))
    listing = table("[OS] Table 2, sizes", ("links:", *(f"{PAPER_NAMES[name]}:" for name in names)), lines)
    return Finding(f"equal for {sum(parts)} of {len(parts)} numbers of links.", verdict(parts), listings=(listing,))


# -- growth of the cost of assembly --------------------------------------------------------------------------------

LENGTHS = (25, 50, 100)
ROUNDS = 300
GROWTH: Mapping[str, tuple[str, float, float]] = {
    "nmc": ("n", 0.0, 1.1),
    "mc": ("N²", 1.6, 2.4),
    "rmc": ("N³", 2.5, 3.4),
    "os": ("N + n_c²", 0.0, 1.1),
}
"""What the paper says, and what a measured exponent may be."""


def assembly_times(lengths: Sequence[int], rounds: int) -> dict[str, list[float]]:
    """Least seconds from a state to the blocks and vector of each formulation, by length of a pendulum.

    The kernel that every formulation takes poses from is included; the dense matrix of NMC is not, as it is sparse.
    """
    calls: Calls = {}
    for n in lengths:
        scene, rng = ds.Scene(chain_of_balls(n)), np.random.default_rng(0)
        dynamics, q, v = ds.contact.ContactDynamics(scene), scene.tree.random(rng), rng.normal(size=n)
        for name, formulation in FORMULATIONS.items():
            calls[f"{name} {n}"] = partial(_assemble, formulation, dynamics, q, v, on_last_links(n)), 1
    times = interleaved(calls, rounds)
    return {name: [1e-6 * times[f"{name} {n}"]["lowest"] for n in lengths] for name in FORMULATIONS}


def _assemble(
    formulation: Any, dynamics: ds.contact.ContactDynamics, q: Array, v: Array, contacts: ds.contact.ContactSet
) -> None:
    snapshot = dynamics.at(q, v, np.zeros_like(v))
    formulation(snapshot.rows(contacts)).vector(snapshot, 1e-3, np.zeros(3 * len(contacts)))


def exponent(times: Sequence[float]) -> float:
    """``p`` of ``t = c + k nᵖ`` through the last three times, whose lengths double."""
    first, second, third = times[-3:]
    return math.log2(max(third - second, 1e-9) / max(second - first, 1e-9))


def _growth(setup: Setup) -> Finding:
    lengths, rounds = ((6, 12, 24), 3) if setup.quick else (LENGTHS, ROUNDS)
    with pinned():
        times = assembly_times(lengths, rounds)
    found = {
        n: exponent(times[n]) if low and not setup.quick else slope(lengths, times[n])
        for n, (_, low, _) in GROWTH.items()
    }
    parts = [low <= found[name] <= high for name, (_, low, high) in GROWTH.items()]
    said = ", ".join(f"{PAPER_NAMES[name]} {p:.1f} (claim {GROWTH[name][0]})" for name, p in found.items())
    lines = ((PAPER_NAMES[name], *(1e6 * t for t in values)) for name, values in times.items())
    listing = table("assembly in µs by number of links, four contacts", ("", *(f"{n}:.0f" for n in lengths)), lines)
    outside = [PAPER_NAMES[name] for name, ok in zip(GROWTH, parts, strict=True) if not ok]
    return Finding(
        f"exponents at n = {lengths[-1]}"
        f"{'' if setup.quick else ' (for MC and RMC without the part of the time that does not grow)'}: {said}.",
        verdict(parts),
        f"{', '.join(outside)}: terms of lower order still weigh, and dense algebra is the faster the larger"
        if outside
        else "",
        {"time of assembly": {PAPER_NAMES[name]: grown(lengths, times[name]) for name in GROWTH}},
        (listing,),
    )


# -- one step, solved in three ways (Table 2) --------------------------------------------------------------------------

PAPER = {3: (13.33, 47.79), 6: (10.50, 68.71), 12: (19.06, 305.28), 15: (21.76, 558.10), 24: (38.20, 1899.86),
         30: (73.74, 4100.51)}  # fmt: skip
"""Seconds of OS and NMC/OS by number of links."""
PAPER_RATIOS = {n: slow / fast for n, (fast, slow) in PAPER.items()}
LARGE = (12, 30)
"""Numbers of links between which exponents are taken."""

PAIR = ("os", "nmc-os")

DIRECTIONS, TOLERANCE, LEMKE = regular_directions(4), 1e-8, ImpulseSolver("lemke")
REGULAR, SAME = 1e12, 1e-6
"""Condition up to which a basis counts, and relative difference from which velocities are two answers."""
SAMPLES, REPEATS, DURATION, BRIEF, TIME_STEP = 20, 4, 3.0, 0.2, 1e-3
"""Steps and how often each is timed; seconds of a simulation, of one point of it, and of a step."""

StepState = tuple[ds.contact.State, ds.contact.ContactSet]
Way = Callable[[ds.contact.ContactDynamics, StepState, str, float], tuple[Array, bool]]


def assembled(
    dynamics: ds.contact.ContactDynamics, at: StepState, formulation: str, dt: float
) -> ds.contact.ContactProblem:
    """Problem of a step, from the kernel on."""
    state, contacts = at
    snapshot = dynamics.at(state.q, state.v, state.tau)
    model = FORMULATIONS[formulation](snapshot.rows(contacts))
    n = len(contacts)
    return ds.contact.ContactProblem(model, snapshot, dt, len(DIRECTIONS), np.zeros(3 * n), np.zeros(n))


def eliminated(dynamics: ds.contact.ContactDynamics, at: StepState, formulation: str, dt: float) -> tuple[Array, bool]:
    """Velocities after a step as `Simulator` finds them, and whether it was solved."""
    found = assembled(dynamics, at, formulation, dt).solve(LEMKE)
    return found.velocity, found.status in SOLVED


def mixed(dynamics: ds.contact.ContactDynamics, at: StepState, formulation: str, dt: float) -> tuple[Array, bool]:
    """The same by the mixed problem that `formulate` makes."""
    state, contacts = at
    problem = ds.contact.formulate(dynamics.scene, state, formulation, dt=dt, contacts=contacts, dynamics=dynamics)
    found, k = ds.contact.solve_mixed(problem.mlcp()), problem.n_free
    velocity, _ = problem.model.recover(
        found.values[:k], problem.D @ found.values[k : k + problem.sizes["cone"]], problem.motion, dt
    )
    return velocity, found.status is SolverStatus.CONVERGED


def pivoted(dynamics: ds.contact.ContactDynamics, at: StepState, formulation: str, dt: float) -> tuple[Array, bool]:
    """The same blocks as `eliminated`, with all unknowns in one tableau."""
    problem = assembled(dynamics, at, formulation, dt)
    M, q, k = tableau(problem)
    z, outcome, _ = lemke_kernel(M, q, TOLERANCE, LIMIT)
    F = impulses_of(z[2 * k :], DIRECTIONS, len(at[1]))
    velocity, _ = problem.model.recover(z[:k] - z[k : 2 * k], F, problem.motion, dt)
    return velocity, STATUSES[outcome] in SOLVED


def tableau(problem: ds.contact.ContactProblem) -> tuple[Array, Array, int]:
    """Matrix and vector of the linear problem of all unknowns, and how many are free, each two of the first ones."""
    model, (a, b) = problem.model, problem.terms
    k, n = model.n_free, len(problem.contacts)
    M, q = linear_problem(np.ascontiguousarray(model.W), b, problem.contacts.friction, DIRECTIONS, np.zeros(n))
    if k:
        D, slack = impulse_directions(n, DIRECTIONS), np.zeros((k, n))
        M, q = split(model.A, np.hstack([model.B @ D, slack]), np.vstack([D.T @ model.C, slack.T]), M, a, q)
    return M, q, k


def split(A: Array, B: Array, C: Array, D: Array, a: Array, c: Array) -> tuple[Array, Array]:
    """Matrix and vector of the linear problem in which free unknowns are differences of two that are not negative."""
    return np.block([[A, -A, B], [-A, A, -B], [C, -C, D]]), np.concatenate([a, -a, c])


def all_solutions(M: Array, q: Array) -> list[Array]:
    """All ``z`` that solve a small linear complementarity problem, one of each basis that has one."""
    found = []
    for basis in product((False, True), repeat=len(q)):
        active, z = np.flatnonzero(basis), np.zeros(len(q))
        block = M[np.ix_(active, active)]
        if len(active) and np.linalg.cond(block) > REGULAR:
            continue
        z[active] = np.linalg.solve(block, -q[active])
        if np.abs(np.minimum(z, M @ z + q)).max() <= TOLERANCE:
            found.append(z)
    return found


def answers(dynamics: ds.contact.ContactDynamics, at: StepState, dt: float) -> list[Array]:
    """Velocities after a step: of all solutions where one contact makes them few enough to look for, by OS.

    A body that slides towards a contact, and whose normal yields less than friction on it pushes (``W_nn < μ |W_tn|``),
    may slide on, stick, or lift off: Painlevé's paradox. The paper's references show that solutions exist, not that
    there is one.
    """
    if len(at[1]) != 1:
        return [eliminated(dynamics, at, "os", dt)[0]]
    problem = assembled(dynamics, at, "os", dt)
    M, q, _ = tableau(problem)
    out: list[Array] = []
    for z in all_solutions(M, q):
        v, _ = problem.model.recover(np.zeros(0), impulses_of(z, DIRECTIONS, 1), problem.motion, dt)
        if all(apart(v, other) > SAME for other in out):
            out.append(v)
    return out


def apart(v: Array, other: Array) -> float:
    """Largest difference of velocities over the largest one, or 1."""
    return float(np.abs(v - other).max() / max(1.0, np.abs(other).max()))


WAYS: Mapping[str, Way] = {"eliminated": eliminated, "mixed": mixed, "pivoted": pivoted}


class Swing(NamedTuple):
    """Steps of one pendulum: how many have contact, mean seconds without and with it by way and formulation.

    Collision detection is left out. ``difference`` is the largest relative one of velocities from the nearest of
    `answers`; ``solved`` of ``tried`` problems were reported as solved; ``several`` states have more than one answer.
    """

    touching: int
    steps: int
    free: Mapping[tuple[str, str], float]
    contact: Mapping[tuple[str, str], float]
    difference: float
    solved: int
    tried: int
    several: int

    def whole(self, way: str, formulation: str) -> float:
        """Mean seconds over the swing."""
        share = self.touching / self.steps
        return (1.0 - share) * self.free[way, formulation] + share * self.contact[way, formulation]

    def ratio(self, way: str, touching: bool = False) -> float:
        """Time of NMC/OS over that of OS: over the swing, or at its contacts."""
        slow, fast = (self.contact[way, f] if touching else self.whole(way, f) for f in ("nmc-os", "os"))
        return slow / fast


def states_of_swing(
    n: int, dt: float, duration: float
) -> tuple[ds.contact.ContactDynamics, list[StepState], list[StepState]]:
    """States at which a pendulum of ``n`` balls touches nothing, and something."""
    sim = pendulum(n).simulator(dt=dt)
    free: list[StepState] = []
    touching: list[StepState] = []
    for _ in range(round(duration / dt)):
        state = ds.contact.State(sim.q, sim.v)
        sim.step()
        (touching if len(sim.contacts) else free).append((state, sim.contacts))
    return sim.dynamics, free, touching


@cache
def swing(n: int, samples: int = SAMPLES, duration: float = DURATION) -> Swing:
    """Simulate a pendulum of ``n`` balls, and time steps at some of its states."""
    dynamics, free, touching = states_of_swing(n, TIME_STEP, duration)
    means, difference, solved, tried, several = [], 0.0, 0, 0, 0
    for states in (free, touching):
        least: dict[tuple[str, str], list[float]] = {(way, f): [] for way in WAYS for f in PAIR}
        for i in np.unique(np.linspace(0, len(states) - 1, min(samples, len(states))).astype(int)):
            wanted = answers(dynamics, states[i], TIME_STEP)
            several += len(wanted) > 1
            for way, formulation in least:
                seconds, (v, good) = best(partial(WAYS[way], dynamics, states[i], formulation, TIME_STEP), REPEATS)
                least[way, formulation].append(seconds)
                solved, tried = solved + good, tried + 1
                if good:
                    difference = max(difference, min(apart(v, one) for one in wanted))
        means.append({key: float(np.mean(values)) if values else np.nan for key, values in least.items()})
    return Swing(len(touching), len(free) + len(touching), means[0], means[1], difference, solved, tried, several)


def _steps(setup: Setup) -> Finding:
    links = setup.few(PAPER)
    large = LARGE if LARGE[-1] in links else links
    with pinned():
        swings = {n: swing(n, 2, BRIEF) if setup.quick else swing(n) for n in links}
    ratios = {way: {n: s.ratio(way) for n, s in swings.items()} for way in WAYS}
    first, last = links[0], links[-1]
    own = list(ratios["eliminated"].values())
    parts = [min(own) > 1.0, bool(np.all(np.diff(own) > 0)), own[-1] > 0.5 * PAPER_RATIOS[last]]
    exponents = {way: slope(LARGE, [swings[n].whole(way, "nmc-os") for n in large]) for way in WAYS}
    paper = slope(large, [PAPER[n][1] for n in large])
    said = "; ".join(f"{way} {r[first]:.1f} … {r[last]:.1f}" for way, r in ratios.items())
    powers = ", ".join(f"{way} n^{p:.1f}" for way, p in exponents.items())
    difference, several = max(s.difference for s in swings.values()), sum(s.several for s in swings.values())
    solved, tried = sum(s.solved for s in swings.values()), sum(s.tried for s in swings.values())
    missed = ", the others reported: `solve_mixed` keeps what round-off leaves across a plane" if solved < tried else ""
    as_far = ratios["pivoted"][last] > 0.5 * PAPER_RATIOS[last]
    curves = {way: (links, [r[n] for n in links]) for way, r in {**ratios, "paper": PAPER_RATIOS}.items()}
    return Finding(
        f"NMC/OS over OS, n = {first} … {last}: {said}. NMC/OS grows from n = {large[0]} to {large[1]} as: {powers} "
        f"(paper n^{paper:.1f}). Velocities of all ways and both formulations differ by at most {difference:.0e} from "
        f"the nearest that obey the laws, of which there are several at {several} states; {solved} of {tried} problems "
        f"solved{missed}.",
        verdict(parts),
        "rows of hinges are sparse: eliminated first by a factorisation that skips zeros, they cost far less than n³. "
        + (
            "Pivoted with all other unknowns, NMC/OS falls behind about as far as in the paper, which gave whole mixed "
            "problems to PATH: numbers that agree with a solver that makes no use of hinges, and no proof of it"
            if as_far
            else "Even pivoted with all other unknowns, NMC/OS falls behind less than in the paper (PATH)"
        ),
        {"a step, mean over the swing": curves},
        (table_of_steps(swings, False), table_of_steps(swings, True)),
    )


def table_of_steps(swings: Mapping[int, Swing], touching: bool) -> Table:
    """Times and ratios, by number of links."""
    rows = []
    for n, s in swings.items():
        cells: list[object] = [n]
        for way in WAYS:
            fast, slow = (s.contact[way, f] if touching else s.whole(way, f) for f in PAIR)
            cells += [1e6 * fast, 1e6 * slow, s.ratio(way, touching)]
        rows.append((*cells, PAPER_RATIOS[n]))
    heads = [head for way in WAYS for head in (f"{way}, OS µs:.0f", "NMC/OS µs:.0f", "ratio:.1f")]
    where = "at states with contact" if touching else "mean over the swing"
    return table(f"[OS] Table 2, one step, {where}", ("links:", *heads, "in the paper:.1f"), rows)


# -- work of pivoting (Table 2 as published) ---------------------------------------------------------------------------


class Work(NamedTuple):
    """Pivots times squared number of unknowns, mean over steps of a pendulum with four contacts and n_f = 4.

    ``os`` is by OS. By NMC/OS, free unknowns are made basic ``first``, by one pivot each, after which the pivots are
    those of OS (mixed problems as PATH takes them); or they are ``split`` into differences of two, and pivoted as they
    come (linear problems, as with the pairs of conditions of [OS]'s reference 2, in section 5).
    """

    os: float
    first: float
    split: float

    def ratios(self) -> tuple[float, float]:
        """NMC/OS over OS."""
        return self.first / self.os, self.split / self.os


STEPS = 40


@cache
def work(n: int, samples: int = STEPS, duration: float = DURATION) -> Work:
    """Count pivots at states of the swing, with the four contacts of the table's caption in place of the swing's own.

    The swing has one contact at a time, and mostly none.
    """
    dynamics, free, touching = states_of_swing(n, TIME_STEP, duration)
    states, counted = free + touching, []
    for i in np.linspace(0, len(states) - 1, samples).astype(int):
        at = states[i][0], on_last_links(n)
        (small, few, _), (large, many, k) = (_pivots(assembled(dynamics, at, f, TIME_STEP)) for f in PAIR)
        counted.append((few * small**2, (k + few) * (k + small) ** 2, many * large**2))
    return Work(*(float(mean) for mean in np.mean(counted, axis=0)))


def _pivots(problem: ds.contact.ContactProblem) -> tuple[int, int, int]:
    """Unknowns of the tableau, pivots of Lemke's method, and free unknowns."""
    M, q, k = tableau(problem)
    return len(q), lemke_kernel(M, q, TOLERANCE, LIMIT)[2], k


def works_of(setup: Setup) -> dict[int, Work]:
    """Work by number of links."""
    return {n: work(n, 2, BRIEF) if setup.quick else work(n) for n in setup.few(PAPER)}


def _work(setup: Setup) -> Finding:
    works = works_of(setup)
    large = LARGE if LARGE[-1] in works else tuple(works)
    first, split_ = zip(*(w.ratios() for w in works.values()), strict=True)
    paper = slope(large, [PAPER[n][1] for n in large])
    powers = [slope(large, [getattr(works[n], name) for n in large]) for name in ("first", "split")]
    few, last = min(works), max(works)
    near = [0.5 < ratios[i] / PAPER_RATIOS[n] < 2.0 for ratios in (first, split_) for i, n in ((0, few), (-1, last))]
    rows = ((n, w.os, w.first, w.split, *w.ratios(), PAPER_RATIOS[n]) for n, w in works.items())
    heads = (
        "links:",
        "OS:.2e",
        "NMC/OS, free first:.2e",
        "split:.2e",
        "ratio:.1f",
        "split ratio:.1f",
        "in the paper:.1f",
    )
    grown = works[last].os / works[few].os
    paper_ratios = [PAPER_RATIOS[n] for n in works]
    curves = {"free unknowns first": first, "split in two": split_, "paper": paper_ratios}
    return Finding(
        f"pivots × unknowns², four contacts: NMC/OS grows from n = {large[0]} to {large[1]} as n^{powers[0]:.1f} with "
        f"free unknowns made basic first, n^{powers[1]:.1f} with these split in two (paper n^{paper:.1f}); NMC/OS over "
        f"OS, n = {few} … {last}: {first[0]:.1f} … {first[-1]:.0f}, and {split_[0]:.1f} … {split_[-1]:.0f}.",
        verdict([*(abs(p - paper) < 0.15 for p in powers), *(min(np.diff(r)) > 0 for r in (first, split_)), *near]),
        f"the problem of OS does not grow, its work from n = {few} to {last} {grown:.1f}-fold; the paper's time of OS "
        f"does, {PAPER[last][0] / PAPER[few][0]:.1f}-fold. What a step takes beside its problem is not given, and "
        "makes the ratio of times smaller than that of work",
        {"pivots × unknowns²": {name: (list(works), list(curve)) for name, curve in curves.items()}},
        (table("[OS] Table 2, pivots × unknowns² of a step, four contacts", heads, rows),),
    )


CLAIMS = (
    Claim("[OS] Table 1", "dual-arm robot, 4 contacts, n_f = 4: NMC 310, MC 50, RMC 24, OS 24 unknowns", _dual_arm),
    Claim("[OS] Table 2", "pendulum of n links, 4 contacts: OS 24, NMC/OS 24 + 5n, NMC 24 + 11n unknowns", _pendulums),
    Claim("[OS] Table 1", "assembly grows as n (NMC), N² (MC), N³ (RMC), N + n_c² (OS)", _growth, "os_table1_assembly",
          log=True, x="links n", y="times that of 25 links", published=growth),
    Claim("[OS] Table 2", "OS faster than NMC/OS by 3.6 to 55.6, more with every link; here one step, without "
          "Simulator, same states and solver, three ways to solve for hinges", _steps, "os_table2_steps", log=True,
          x="links n", y="NMC/OS over OS", published=_work),
)  # fmt: skip
