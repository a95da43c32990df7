"""Claims of the papers: what is said, what is measured here, whether it holds; and the table that says so."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from delassus.errors import MissingDependencyError, unknown_name
from delassus_studies.cases import Unavailable
from delassus_studies.figures import Series, line_figure
from delassus_studies.tables import Console, show, table, write_csv
from delassus_studies.timing import environment

HOLDS, IN_PART, NO, NOT_MEASURED, POINT = "holds", "in part", "no", "not measured", "a point"
WIDTH = 100
"""Columns that text is wrapped at, at most."""

PAPERS = {
    "[r1]": "Sathya, Decré, Swevers, PV-OSIMr: a lowest order complexity algorithm for computing the Delassus matrix, "
    "preprint 2022",
    "[r2]": "the same, IEEE Robotics and Automation Letters 2024",
    "[LQR]": "Sathya, Bruyninckx, Decré, Pipeleers, Efficient constrained dynamics algorithms based on an equivalent "
    "LQR formulation using Gauss' principle of least constraint, IEEE Transactions on Robotics 2024",
    "[EFPA]": "Wensing, Featherstone, Orin, A reduced-order recursive algorithm for the computation of the "
    "operational-space inertia matrix, IEEE ICRA 2012",
    "[OS]": "Jain, Minimal coordinates formulation of contact dynamics, 2014",
}
"""What sources of claims begin with: the papers."""

_STYLE = {HOLDS: "green", IN_PART: "yellow", NO: "red", NOT_MEASURED: "dim", POINT: "cyan"}

Size = TypeVar("Size")


@dataclass(frozen=True, slots=True)
class Setup:
    """What claims are measured with: the folder of robot files, if any; ``quick``: one point of each claim."""

    robots: Path | None = None
    quick: bool = False

    def few(self, sizes: Iterable[Size], number: int = 2) -> tuple[Size, ...]:
        """All sizes of a family; if ``quick`` the first two, which a slope needs, or so many."""
        return tuple(islice(sizes, number)) if self.quick else tuple(sizes)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a measurement says of a claim: the numbers, the verdict, and why it does not hold."""

    measured: str
    verdict: str
    reason: str = ""
    panels: Mapping[str, Series] = field(default_factory=dict)  # what to draw
    listings: tuple[Table, ...] = ()  # what to print in full, below all claims


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a paper, and how to measure it.

    ``measure`` raises `Unavailable` where something is missing; ``published`` measures with the paper's counting and
    its assembly, where that differs.
    """

    source: str
    text: str
    measure: Callable[[Setup], Finding]
    figure: str = ""  # file name; none if empty
    log: bool = False
    x: str = ""
    y: str = "operations"
    level: float | None = None  # of a line across the figure
    draw: Callable[[Path], Path] | None = None  # draws a further figure into a folder
    published: Callable[[Setup], Finding] | None = None

    def check(self, setup: Setup, as_published: bool = False) -> Finding:
        """Measure and judge the claim, or say what is missing; one point of it is not judged."""
        try:
            found = (self.published if as_published and self.published else self.measure)(setup)
            return replace(found, verdict=POINT, reason="") if setup.quick else found
        except (Unavailable, MissingDependencyError) as missing:
            return Finding("", NOT_MEASURED, str(missing))


def verdict(parts: Sequence[bool]) -> str:
    """`HOLDS` if all parts hold, `IN_PART` if some do, else `NO`."""
    return HOLDS if all(parts) else IN_PART if any(parts) else NO


def unless(reasons: Mapping[str, bool], between: str = "; ") -> str:
    """Reasons whose condition does not hold."""
    return between.join(reason for reason, holds in reasons.items() if not holds)


def reproduce(
    console: Console,
    claims: Sequence[Claim],
    robots: Path | None = None,
    plot: Path | None = None,
    file: Path | None = None,
    quick: bool = False,
    csv: Path | None = None,
    as_published: bool = False,
    claim: str = "",
) -> list[Finding]:
    """Measure all claims, or those whose source is ``claim``, and print each as soon as it is measured.

    Draws their figures into ``plot``, writes findings to a JSON file, and to a CSV file with the tables.
    """
    sources = list(dict.fromkeys(each.source for each in claims))
    if claim and claim not in sources:
        raise unknown_name("claim", claim, sources)
    claims, setup = [each for each in claims if claim in ("", each.source)], Setup(robots, quick)
    takes = "one point of each, not judged; seconds each" if quick else "some take seconds, others up to five minutes"
    console.print(f"Claims: {len(claims)}; {takes}.")
    for name, paper in PAPERS.items():
        if any(each.source.startswith(name) for each in claims):
            console.print(Text(f"{name} {paper}", "dim"), width=min(console.width, WIDTH))
    findings, narrow = [], min(console.width, WIDTH)
    for each in claims:
        start = time.perf_counter()
        finding = each.check(setup, as_published)
        findings.append(finding)
        console.print()
        how = ", as published" if as_published and each.published else ""
        head = Text(f"{each.source}{how}  ").append(finding.verdict, _STYLE[finding.verdict])
        console.print(head.append(f"  ({time.perf_counter() - start:.1f} s)", "dim"))
        for line in (Text(each.text), Text(finding.measured, "bold"), Text(finding.reason, "italic")):
            if line:
                console.print(Padding(line, (0, 0, 0, 2), expand=False), width=narrow)
        if plot is None or finding.verdict == NOT_MEASURED:
            continue
        if finding.panels:
            line_figure(plot / f"{each.figure}.png", finding.panels, each.x, each.y, each.log, each.level)
        if each.draw is not None and not quick:
            each.draw(plot)
    verdicts = Counter(finding.verdict for finding in findings)
    console.print()
    console.print(f"{', '.join(f'{verdict}: {number}' for verdict, number in verdicts.items())}")
    listings = [listing for finding in findings for listing in finding.listings]
    for listing in listings:
        show(console, listing)
    if plot is not None:
        console.print(f"figures: {plot}")
    if file is not None:
        said = ("measured", "verdict", "reason", "panels")
        found = [{"claim": each.text, **{name: getattr(f, name) for name in said}}
                 for each, f in zip(claims, findings, strict=True)]  # fmt: skip
        file.write_text(json.dumps({**environment(), "findings": found}, indent=1))
        console.print(f"raw figures: {file}")
    if csv is not None:
        rows = [(c.source, c.text, f.measured, f.verdict, f.reason) for c, f in zip(claims, findings, strict=True)]
        write_csv(csv, [table("", ("source", "claim", "measured", "verdict", "reason"), rows), *listings])
        console.print(f"tables: {csv}")
    return findings
