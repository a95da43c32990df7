"""Claims of [LQR] about the speed of solvers (Table II), judged by ratios: the paper's times are of another machine.

One state at a time, beside Pinocchio and MuJoCo. Ours is machine code without lanes of states and without estimates of
errors, in a loop over states, as the paper times its generated C code. Peers are called from Python, state by state.
As published, ours is C code of CasADi's graph (`casadi_dynamics`) through gcc, of random rows ([LQR] IX-A).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

import delassus as ds
from delassus.cli.tables import table
from delassus.quantities.declarations.dynamics import DYNAMICS
from delassus.quantities.request import request
from delassus.spatial.rotations import Array
from delassus_studies.as_published import CasadiDynamics, casadi_dynamics
from delassus_studies.bench.dynamics import ANY_ERROR
from delassus_studies.cases import (
    Case,
    Unavailable,
    dynamics_options,
    general_rows,
    points,
    random_states,
    robot_of_lqr,
    welds,
)
from delassus_studies.claims import Claim, Finding, Setup, verdict
from delassus_studies.counters import operations as count
from delassus_studies.peers import present
from delassus_studies.peers.compiled import through_gcc
from delassus_studies.peers.mujoco import forward_peers
from delassus_studies.peers.pinocchio import dynamics_peers
from delassus_studies.timing import Calls, interleaved, pinned, relative_error

SOLVERS = {"PV": "pv", "PV-e": "pv-early", "LTL": "ltl", "PV-s": "pv-soft", "LTL-s": "ltl-soft"}
"""Methods by the paper's names."""

PEERS = {
    "constraintDynamics": (("pin constraintDynamics",), "PV", "Pin"),
    "lcaba": (("pin lcaba",), "PV-e", ""),
    "mj_forward": (("mj_forward, PGS", "mj_forward, Newton"), "PV-s", "Mu"),
}
"""By the name of a column: calls, of which the fastest counts, our solver beside it, and the paper's column if any."""

LEAST, MOST = "Talos (0D)", "Talos (2F+2H)"
"""The rows of fewest and of most constraints on the largest robot."""

METHOD_ALONE = replace(DYNAMICS, name="dynamics, errors left out", is_solution=False)
"""Forward dynamics whose kernels do not estimate errors by what solutions miss, which may cost more than the method."""

WEIGHT = 1e12
"""``1 / R`` of soft constraints as published: a number, as in the authors' examples of Go1 and iiwa."""

GCC = ("-O3",)
"""Options of gcc as published, beside what shared libraries need; the paper names none, CasADi's authors compile so."""

STATES, PEER_STATES = 64, 8
"""Few enough that a call enters the code at once; and of peers."""

ROUNDS, REPEATS = 81, 2
"""Many short samples: where another process has the core for a while, it meets few of them, and the median none."""

COLUMNS = ("PV", "PV-e", "LTL", "Pin", "PV-s", "LTL-s", "Mu")
TABLE: dict[str, dict[str, tuple[float, ...]]] = {
    "iiwa": {
        "0D": (0.55, 0.55, 0.63, 2.15, 0.55, 0.63, 3.11),
        "H₃": (0.75, 0.61, 0.83, 2.73, 0.61, 0.80, 4.45),
        "H": (1.01, 1.09, 1.08, 3.53, 0.63, 0.89, 4.88),
    },
    "Go1": {
        "0D": (1.65, 1.67, 1.74, 4.68, 1.64, 1.74, 7.10),
        "F₃": (1.88, 1.81, 1.96, 5.61, 1.70, 1.84, 11.2),
        "2F₃": (2.10, 1.98, 2.20, 6.40, 1.76, 1.98, 12.0),
        "3F₃": (2.32, 2.14, 2.48, 7.33, 1.82, 2.16, 12.8),
        "4F₃": (2.53, 2.33, 2.85, 8.20, 1.90, 2.33, 13.5),
    },
    "Atlas": {
        "0D": (3.44, 3.47, 4.64, 12.3, 3.47, 4.64, 15.9),
        "F": (4.59, 3.94, 5.88, 15.4, 3.61, 5.58, 31.5),
        "2F": (6.09, 4.40, 7.52, 18.5, 3.73, 6.61, 34.2),
        "2F+H": (7.37, 5.03, 8.69, 22.3, 3.76, 6.93, 36.5),
        "2F+2H": (8.27, 5.52, 11.8, 26.5, 3.82, 7.77, 38.8),
    },
    "Talos": {
        "0D": (4.92, 4.97, 8.14, 17.1, 4.96, 8.28, 23.6),
        "F": (5.63, 5.48, 9.25, 21.1, 4.96, 8.65, 51.3),
        "2F": (6.72, 6.45, 10.9, 25.2, 4.99, 9.21, 54.3),
        "2F+H": (8.40, 7.06, 13.4, 30.0, 5.08, 10.6, 57.0),
        "2F+2H": (10.13, 7.40, 15.0, 34.7, 5.11, 11.0, 59.0),
    },
}
"""The paper's times (µs). In the last row, what follows the point in 15 and 59 is not legible in our copy."""


@dataclass(frozen=True, slots=True)
class PaperRow:
    """A row of the table: robot and constraints as the paper writes them, and its times (µs) by `COLUMNS`."""

    robot: str
    constraints: str
    times: tuple[float, ...]

    @property
    def name(self) -> str:
        """As the paper writes it."""
        return f"{self.robot} ({self.constraints})"

    def paper(self, column: str) -> float:
        """The paper's time in a column."""
        return self.times[COLUMNS.index(column)]

    def case(self, robots: Path | None, published: bool = False) -> Case:
        """Robot with points (₃) or welds on as many of its links as the name says; raises `Unavailable`.

        As published, their rows are random.
        """
        tree, links, size = robot_of_lqr(robots, self.robot, self.constraints)
        if published:
            return Case(self.name, tree, general_rows(links, size))
        return Case(self.name, tree, (points if size == 3 else welds)(*links))


ROWS = tuple(PaperRow(robot, name, times) for robot, rows in TABLE.items() for name, times in rows.items())


OPERATIONS = "operations"
"""What a quick run takes in place of times."""


class Timing(NamedTuple):
    """Figures of one row: median µs per state by solver and peer, operations by solver.

    ``difference`` is the largest one of accelerations of hard solvers, relative to the largest one of a state.
    """

    times: Mapping[str, float]
    operations: Mapping[str, int]
    difference: float


class Measured(NamedTuple):
    """Figures of the rows that can be built here, and why others are missing."""

    figures: Mapping[PaperRow, Timing]
    missing: tuple[str, ...] = ()
    what: str = "times: one state at a time; peers called from Python"

    def ratio(self, row: PaperRow, solver: str, other: str) -> float:
        """Time of one solver by that of another one."""
        times = self.figures[row].times
        return times[solver] / times[other]

    def operations(self, row: PaperRow, solver: str, other: str) -> float:
        """Operations of one solver by those of another one."""
        counts = self.figures[row].operations
        return counts[solver] / counts[other]

    def most(self) -> PaperRow:
        """The row `MOST`; raises `Unavailable`."""
        found = next((row for row in self.figures if row.name == MOST), None)
        if found is None:
            raise Unavailable("; ".join(self.missing))
        return found

    @property
    def left_out(self) -> str:
        """What is missing, as sentences."""
        return "".join(f" {reason}." for reason in self.missing)


def measure(case: Case, rounds: int = ROUNDS) -> Timing:
    """Time and count one row; without rounds, its operations stand for its times."""
    states = random_states(case, STATES)
    given = states.q, states.v, states.tau
    calls: Calls = {}
    qdd: dict[str, Any] = {}
    operations: dict[str, int] = {}
    if not rounds:
        for name, method in SOLVERS.items():
            operations[name] = count(case, method)
            options = dynamics_options(case, method)
            found = ds.forward_dynamics(case.tree, *given, case.constraints, error_bound=ANY_ERROR, **options)
            qdd[name] = found.qdd
        return Timing(operations, operations, _difference(qdd))
    with pinned():
        for name, method in SOLVERS.items():
            asked = request(case.tree, case.constraints, METHOD_ALONE, **dynamics_options(case, method))
            kernel = ds.Kernel(asked, "float64", 1, error_bound=ANY_ERROR)
            operations[name] = kernel.operations.total
            out = kernel(*given, return_status=True)[: len(kernel.results)]
            qdd[name] = out[0]
            calls[name] = (partial(kernel, *given, out=out), STATES)
        few = states.first(PEER_STATES)
        peers, _ = present({**dynamics_peers(case, few), **forward_peers(case, few)})
        calls |= {name: (call, PEER_STATES) for name, call in peers.items()}
        median: dict[str, float] = {n: t["median"] for n, t in interleaved(calls, rounds, REPEATS).items()}
    for column, (names, _, _) in PEERS.items():
        times = [median.pop(name) for name in names if name in median]
        if times:
            median[column] = min(times)
    return Timing(median, operations, _difference(qdd))


def _difference(qdd: Mapping[str, Array]) -> float:
    return max(float(relative_error(qdd[name], qdd["PV"]).max()) for name in ("PV-e", "LTL"))


def measure_published(case: Case, rounds: int = ROUNDS) -> Timing:
    """The same of C code of CasADi's graph."""
    graphs = {name: casadi_dynamics(case.tree, case.constraints, SOLVERS[name], WEIGHT) for name in SOLVERS}
    operations = {name: graph.operations for name, graph in graphs.items()}
    times, qdd = c_times(case, graphs, rounds) if rounds else (dict[str, float](operations), _answers(case, graphs))
    return Timing(times, operations, _difference(qdd))


def c_times(
    case: Case, graphs: Mapping[str, CasadiDynamics], rounds: int = ROUNDS
) -> tuple[dict[str, float], dict[str, Array]]:
    """Median µs per state of graphs as C code, in turns, and what they answer; time of the thread alone."""
    given = _published_states(case)
    calls: Calls = {name: (through_gcc(graph.function, given, GCC), STATES) for name, graph in graphs.items()}
    qdd = {name: np.array(call()) for name, (call, _) in calls.items()}
    with pinned():
        found = interleaved(calls, rounds, REPEATS, time.thread_time)
    return {name: statistics["median"] for name, statistics in found.items()}, qdd


def _published_states(case: Case) -> tuple[Array, Array, Array, Array]:
    """Configurations, velocities, joint forces, and what rows ask for."""
    states, rng = random_states(case, STATES), np.random.default_rng(0)
    return states.q, states.v, states.tau, rng.normal(size=(STATES, sum(c.size for c in case.constraints)))


def _answers(case: Case, graphs: Mapping[str, CasadiDynamics]) -> dict[str, Array]:
    return {name: graph.at(*_published_states(case))[0] for name, graph in graphs.items()}


def _measure_row(row: PaperRow, setup: Setup, published: bool) -> Timing:
    of = measure_published if published else measure
    return of(row.case(setup.robots, published), 0 if setup.quick else ROUNDS)


@cache
def measured(setup: Setup, published: bool = False) -> Measured:
    """All rows whose robots are here; or, quick, those of fewest and of most constraints on the largest robot."""
    rows = [row for row in ROWS if not setup.quick or row.name in (LEAST, MOST)]
    figures, absent = present({row: partial(_measure_row, row, setup, published) for row in rows})
    missing = tuple(dict.fromkeys(f"{row.robot} left out: {reason}" for row, reason in absent.items()))
    if not figures:
        raise Unavailable("; ".join(missing))
    if setup.quick:
        return Measured(figures, missing, OPERATIONS)
    return Measured(figures, missing, *(("times of C code of CasADi's graph",) if published else ()))


# -- what the ratios say ---------------------------------------------------------------------------------------------

NOISE = 0.03
"""Ratios this near to one are equal: medians of two runs differ by that."""

INDEPENDENT = 0.2
"""How much more "hardly" depending on constraints allows; the paper's own numbers: 3 % (Talos) to 16 % (Go1)."""


def ratios(found: Measured) -> Table:
    """Our ratios beside the paper's, in brackets."""
    pairs = (("PV", "LTL"), ("PV-e", "LTL"), ("PV-e", "PV"), ("PV-s", "LTL"), ("LTL-s", "LTL"), ("PV-s", "LTL-s"))
    peers = tuple(name for name in PEERS if any(name in figures.times for figures in found.figures.values()))
    lines = []
    for row in found.figures:
        cells = [f"{found.ratio(row, a, b):.2f} ({row.paper(a) / row.paper(b):.2f})" for a, b in pairs]
        for peer in peers:
            _, ours, column = PEERS[peer]
            told = f" ({row.paper(column) / row.paper(ours):.1f})" if column else ""
            cells.append(f"{found.ratio(row, peer, ours):.1f}{told}" if peer in found.figures[row].times else "–")
        lines.append((row.name, *cells))
    heads = [f"{peer} / {PEERS[peer][1]}" for peer in peers]
    return table(
        f"[LQR] Table II as ratios, here (in the paper), of {found.what}",
        ("", *(f"{a} / {b}" for a, b in pairs), *heads),
        lines,
    )


def _not_below(found: Measured, rows: Iterable[PaperRow], solver: str, other: str) -> list[str]:
    """Rows on which a solver takes longer than another one, and what its operations say."""
    more = {row: found.ratio(row, solver, other) - 1 for row in rows}
    return [
        f"{row.name} {x:+.0%} than {other} (operations {found.operations(row, solver, other) - 1:+.0%})"
        for row, x in more.items()
        if x > NOISE
    ]


def _why(slower: Sequence[str], found: Measured) -> str:
    """What to say of slower rows: those, and how much programs of the same length differ."""
    if not slower:
        return ""
    spread = {}
    for row, figures in found.figures.items():
        equal = [figures.times[name] for name in SOLVERS if figures.operations[name] == figures.operations["PV"]]
        spread[row.name] = max(equal) / min(equal) - 1
    worst = max(spread, key=spread.__getitem__)
    also = f"; programs of as many operations differ by up to {spread[worst]:.0%} ({worst})" if spread[worst] else ""
    return f"slower: {', '.join(slower)}{also}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the paper says of a solver: as fast as others or faster, on rows with constraints.

    ``unconstrained``: on those without, too. ``robots``: of these. ``most``: what "about" a share of another's time
    may be, at `MOST`. ``independent``: its time hardly depends on constraints.
    """

    text: str
    solver: str
    others: tuple[str, ...]
    most: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    robots: tuple[str, ...] = tuple(TABLE)
    unconstrained: bool = False
    independent: bool = False


HARD, *_ = COMPARISONS = (
    Comparison("PV as fast as LTL or faster on every robot and constraint set", "PV", ("LTL",), unconstrained=True),
    Comparison("PV-e is the best hard solver on large robots; Talos, feet and hands: about half of LTL, two thirds of "
               "PV", "PV-e", ("PV", "LTL"), {"LTL": (0.0, 0.55), "PV": (0.0, 0.75)}, ("Atlas", "Talos")),
    Comparison("PV-s hardly depends on the number of constraints, beats all others; Talos, feet and hands: about a "
               "third of LTL, half of LTL-s", "PV-s", tuple(name for name in SOLVERS if name != "PV-s"),
               {"LTL": (0.0, 0.4), "LTL-s": (0.0, 0.55)}, independent=True),
    Comparison("LTL-s under LTL wherever there are constraints; Talos, feet and hands: about 0.73 of it", "LTL-s",
               ("LTL",), {"LTL": (0.63, 0.83)}),
)  # fmt: skip


def judge(found: Measured, said: Comparison) -> Finding:
    """What the figures say of one solver beside others."""
    solver, figures = said.solver, found.figures
    rows = [row for row in figures if row.robot in said.robots and (said.unconstrained or row.constraints != "0D")]
    slowest = {row: max(found.ratio(row, solver, other) for other in said.others) for row in rows}
    slower = [x for other in said.others for x in _not_below(found, rows, solver, other)]
    within = sum(ratio <= 1 + NOISE for ratio in slowest.values())
    text = "operations in place of times: " if found.what == OPERATIONS else ""
    text += (
        f"{solver} as fast as {', '.join(said.others)} or faster (within {NOISE:.0%}) on {within} of {len(rows)} rows, "
        f"at {min(slowest.values()):.2f} to {max(slowest.values()):.2f} of the fastest of them"
    )
    fewest = [max(found.operations(row, solver, other) for other in said.others) for row in rows]
    text += f"; as operations {min(fewest):.2f} to {max(fewest):.2f}"
    parts = [not slower]
    if said.most:
        shares = {other: found.ratio(found.most(), solver, other) for other in said.most}
        counts = {other: found.operations(found.most(), solver, other) for other in said.most}
        said_shares = (f"{share:.2f} of {other} (operations {counts[other]:.2f})" for other, share in shares.items())
        text += f". {MOST}: {', '.join(said_shares)}"
        parts += [low < shares[other] < high for other, (low, high) in said.most.items()]
    else:
        parts.append(within > 0)
    if said.independent:
        own = {robot: [f.times[solver] for row, f in figures.items() if row.robot == robot] for robot in said.robots}
        growth = {robot: times[-1] / times[0] - 1 for robot, times in own.items() if times}
        text += f". All constraints against none: {', '.join(f'{r} {x:+.0%}' for r, x in growth.items())}"
        parts.append(max(growth.values()) < INDEPENDENT)
    return Finding(f"{text}.{found.left_out}", verdict(parts), _why(slower, found))


def _judge_first(found: Measured) -> Finding:
    """The first claim, with all that was measured."""
    finding, difference = judge(found, HARD), max(figures.difference for figures in found.figures.values())
    operations = ((row.name, *map(f.operations.__getitem__, SOLVERS)) for row, f in found.figures.items())
    return replace(
        finding,
        measured=f"{finding.measured} Accelerations of hard solvers differ by {difference:.0e} at most.",
        listings=(ratios(found), table("the same as operations", ("", *(f"{name}:," for name in SOLVERS)), operations)),
    )


def _claim(said: Comparison) -> Claim:
    judged = _judge_first if said is HARD else partial(judge, said=said)
    return Claim(
        "[LQR] Table II",
        said.text,
        lambda setup: judged(measured(setup)),
        published=lambda setup: judged(measured(setup, published=True)),
    )


CLAIMS = tuple(map(_claim, COMPARISONS))
