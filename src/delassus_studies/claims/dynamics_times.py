"""Claims of [LQR] about the speed of solvers (Table II), judged by ratios: the paper's times are of another machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from delassus_studies.claims import Claim, Finding, Listing, verdict
from delassus_studies.claims.solver_times import PEERS, SOLVERS, Measured, PaperRow, table

NOISE = 0.03
"""Ratios this near to one are equal: medians of two runs differ by that."""

HALF, TWO_THIRDS, THIRD = 0.55, 0.75, 0.4
"""What "about" these allows, upwards."""

INDEPENDENT = 0.2
"""How much more "hardly" depending on constraints allows; the paper's own numbers: 3 % (Talos) to 16 % (Go1)."""

LARGE = ("Atlas", "Talos")
MOST = "Talos (2F+2H)"


def ratios(found: Measured) -> Listing:
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
    return Listing(
        "[LQR] Table II as ratios of times: here (in the paper). One state at a time; peers called from Python",
        ("", *(f"{a} / {b}" for a, b in pairs), *heads),
        tuple(lines),
    )


def _not_below(found: Measured, rows: Iterable[PaperRow], solver: str, other: str) -> list[str]:
    """Rows on which a solver takes longer than another one, and what its operations say."""
    out = []
    for row in rows:
        ratio = found.ratio(row, solver, other)
        if ratio > 1 + NOISE:
            counts = found.figures[row].operations
            more = counts[solver] / counts[other] - 1
            out.append(f"{row.name} {ratio - 1:+.0%} than {other} (operations {more:+.0%})")
    return out


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


def judge_hard(found: Measured) -> Finding:
    """PV beside LTL, on every row."""
    every = {row.name: found.ratio(row, "PV", "LTL") for row in found.figures}
    worst, best = max(every, key=every.__getitem__), min(every, key=every.__getitem__)
    slower = _not_below(found, found.figures, "PV", "LTL")
    apart = max(figures.apart for figures in found.figures.values())
    operations = tuple((row.name, *(f"{f.operations[name]:,}" for name in SOLVERS)) for row, f in found.figures.items())
    return Finding(
        f"PV / LTL from {every[best]:.2f} at {best} to {every[worst]:.2f} at {worst}; faster or equal (within "
        f"{NOISE:.0%}) on {len(every) - len(slower)} of {len(every)} rows. Accelerations of hard solvers differ by "
        f"{apart:.0e} at most.{''.join(f' {reason}.' for reason in found.missing)}",
        verdict([not slower, len(slower) < len(every)]),
        _why(slower, found),
        listings=(ratios(found), Listing("the same as operations", ("", *SOLVERS), operations)),
    )


def judge_early(found: Measured) -> Finding:
    """PV-e beside PV and LTL, on the large robots."""
    most = found.row(MOST)
    rows = [row for row in found.figures if row.robot in LARGE and row.constraints != "0D"]
    others = ("PV", "LTL")
    best = [row for row in rows if max(found.ratio(row, "PV-e", other) for other in others) <= 1 + NOISE]
    slower = [said for other in others for said in _not_below(found, rows, "PV-e", other)]
    by_ltl, by_pv = found.ratio(most, "PV-e", "LTL"), found.ratio(most, "PV-e", "PV")
    return Finding(
        f"PV-e is the fastest hard solver (within {NOISE:.0%}) on {len(best)} of {len(rows)} rows of "
        f"{' and '.join(sorted({row.robot for row in rows}))} with constraints. {MOST}: {by_ltl:.2f} of LTL, "
        f"{by_pv:.2f} of PV.{''.join(f' {reason}.' for reason in found.missing)}",
        verdict([not slower, by_ltl < HALF, by_pv < TWO_THIRDS]),
        _why(slower, found),
    )


def judge_soft(found: Measured) -> Finding:
    """PV-s as constraints are added, and beside all others."""
    most = found.row(MOST)
    growth = {}
    for robot in dict.fromkeys(row.robot for row in found.figures):
        own = [figures.times["PV-s"] for row, figures in found.figures.items() if row.robot == robot]
        growth[robot] = own[-1] / own[0] - 1
    rows = [row for row in found.figures if row.constraints != "0D"]
    slower = [said for other in SOLVERS if other != "PV-s" for said in _not_below(found, rows, "PV-s", other)]
    by_ltl, by_soft = found.ratio(most, "PV-s", "LTL"), found.ratio(most, "PV-s", "LTL-s")
    return Finding(
        "PV-s, all constraints against none: "
        + ", ".join(f"{robot} {more:+.0%}" for robot, more in growth.items())
        + f". {MOST}: {by_ltl:.2f} of LTL, {by_soft:.2f} of LTL-s.{''.join(f' {reason}.' for reason in found.missing)}",
        verdict([max(growth.values()) < INDEPENDENT, by_ltl < THIRD, by_soft < HALF, not slower]),
        _why(slower, found),
    )


def judge_joint_space(found: Measured) -> Finding:
    """LTL-s beside LTL."""
    most = found.row(MOST)
    rows = [row for row in found.figures if row.constraints != "0D"]
    slower = _not_below(found, rows, "LTL-s", "LTL")
    ratio, paper = found.ratio(most, "LTL-s", "LTL"), most.paper("LTL-s") / most.paper("LTL")
    return Finding(
        f"LTL-s faster than LTL or equal (within {NOISE:.0%}) on {len(rows) - len(slower)} of {len(rows)} rows with "
        f"constraints; {MOST}: {ratio:.2f} of LTL.{''.join(f' {reason}.' for reason in found.missing)}",
        verdict([not slower, abs(ratio - paper) < 0.1]),
        _why(slower, found),
    )


def _claim(text: str, judge: Callable[[Measured], Finding]) -> Claim:
    return Claim("[LQR] Table II", text, lambda robots: judge(table(robots)))


CLAIMS = (
    _claim("PV as fast as LTL or faster on every robot and constraint set", judge_hard),
    _claim(
        "PV-e is the best hard solver on large robots; Talos, feet and hands: about half of LTL, two thirds of PV",
        judge_early,
    ),
    _claim(
        "PV-s hardly depends on the number of constraints, beats all others; Talos, feet and hands: about a third of "
        "LTL, half of LTL-s",
        judge_soft,
    ),
    _claim(
        "LTL-s under LTL wherever there are constraints; Talos, feet and hands: about 0.73 of it", judge_joint_space
    ),
)
