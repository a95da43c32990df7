"""Claims of the papers: what is said, what is measured here, whether it holds; and the table that says so."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TypeVar

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from delassus.cli.tables import Console, environment, show, table, write_csv, write_json
from delassus.errors import MissingDependencyError, unknown_name
from delassus_studies.cases import Unavailable
from delassus_studies.claims.principles import PICTURES, draw_principle
from delassus_studies.figures import Panels, paired_figure, stamp

HOLDS, IN_PART, NO, NOT_MEASURED, POINT = "holds", "in part", "no", "not measured", "a point"
AS_PUBLISHED, HERE = "as published", "here"
WIDTH = 100
"""Columns that text is wrapped at, at most."""

PAPERS = {
    "[r1]": "Sathya, Decré, Swevers, PV-OSIMr: a lowest order complexity algorithm for computing the Delassus matrix, "
    "preprint 2022",
    "[r2]": "Sathya, Decré, Swevers, PV-OSIMr: a lowest order complexity algorithm for computing the Delassus matrix, "
    "IEEE Robotics and Automation Letters 2024",
    "[LQR]": "Sathya, Bruyninckx, Decré, Pipeleers, Efficient constrained dynamics algorithms based on an equivalent "
    "LQR formulation using Gauss' principle of least constraint, IEEE Transactions on Robotics 2024",
    "[EFPA]": "Wensing, Featherstone, Orin, A reduced-order recursive algorithm for the computation of the "
    "operational-space inertia matrix, IEEE ICRA 2012",
    "[OS]": "Jain, Minimal coordinates formulation of contact dynamics, 2014",
    "[LCABA]": "Sathya, Carpentier, Constrained articulated body algorithms for closed-loop mechanisms, IEEE ICRA 2026",
    "[clusters]": "Chignoli, Adrian, Kim, Wensing, A propagation perspective on recursive forward dynamics for systems "
    "with kinematic loops, arXiv 2311.13732, 2023",
    "[IFToMM]": "González, Dopico, Lugrís, Cuadrado, A benchmarking system for MBS simulation software: problem "
    "standardization and performance measurement, Multibody System Dynamics 2006, and the library that came of it",
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
    panels: Panels = field(default_factory=dict)  # what to draw
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


def chosen(topics: Mapping[str, Sequence[Claim]], name: str) -> list[Claim]:
    """All claims, those of a topic, of a paper or of one source, without brackets, which shells take for patterns."""

    def plain(source: str) -> str:
        return source.translate({ord("["): None, ord("]"): None}).casefold()

    named: dict[str, list[Claim]] = {}
    for topic, claims in topics.items():
        for each in claims:
            for key in ("all", topic, each.source.split("]")[0] + "]", each.source):
                named.setdefault(key, []).append(each)
    found = [claims for key, claims in named.items() if plain(key) == plain(name)]
    if not found:
        raise unknown_name("claim", name, named)
    return found[0]


def reproduce(
    console: Console,
    claims: Sequence[Claim],
    robots: Path | None = None,
    plot: Path | None = None,
    file: Path | None = None,
    quick: bool = False,
    csv: Path | None = None,
    as_published: bool = False,
) -> list[Finding]:
    """Measure claims, and print each as soon as it is measured.

    Draws figures into ``plot``, of claims measured both ways; writes findings to a JSON file, and to a CSV file with
    the tables.
    """
    setup, here = Setup(robots, quick), environment()
    options = f"{' --robots FOLDER' * bool(robots)} --plot FOLDER{' --quick' * quick}"

    def drawn(path: Path, by: Callable[..., object], source: str) -> None:
        measured = import_module(by.__module__).__file__ or ""
        console.print(f"  figure: {stamp(path, f'delassus reproduce {source!r}{options}', here, measured)}")

    takes = "one point of each, not judged; seconds each" if quick else "some take seconds, others up to five minutes"
    console.print(f"Claims: {len(claims)}; {takes}.")
    for name, paper in PAPERS.items():
        if any(each.source.startswith(name) for each in claims):
            console.print(Text(f"{name} {paper}", "dim"), width=min(console.width, WIDTH))
            if plot and name in PICTURES:
                drawn(draw_principle(name, plot), draw_principle, name)
    measured: list[tuple[Claim, str, Finding]] = []
    narrow = min(console.width, WIDTH)
    for each in claims:
        ways = (AS_PUBLISHED, HERE) if plot and each.published else (AS_PUBLISHED,) if as_published else (HERE,)
        panels: dict[str, Panels] = {}
        for way in ways:
            start = time.perf_counter()
            finding = each.check(setup, way == AS_PUBLISHED)
            measured.append((each, way, finding))
            if finding.panels:
                panels[way] = finding.panels
            how = f", {way}" if way == AS_PUBLISHED and each.published else ""
            head = Text(f"{each.source}{how}  ").append(finding.verdict, _STYLE[finding.verdict])
            console.print()
            console.print(head.append(f"  ({time.perf_counter() - start:.1f} s)", "dim"))
            for line in (Text(each.text), Text(finding.measured, "bold"), Text(finding.reason, "italic")):
                if line:
                    console.print(Padding(line, (0, 0, 0, 2), expand=False), width=narrow)
        if plot and panels:
            path = plot / f"{each.figure}.png"
            drawn(paired_figure(path, panels, each.x, each.y, each.log, each.level), each.measure, each.source)
        if plot and each.draw and not quick:
            drawn(each.draw(plot), each.draw, each.source)
    findings = [finding for *_, finding in measured]
    verdicts = Counter(finding.verdict for finding in findings)
    console.print()
    console.print(f"{', '.join(f'{verdict}: {number}' for verdict, number in verdicts.items())}")
    listings = list[Table]()
    for listing in (each for finding in findings for each in finding.listings):
        if listings and listing.title and listing.title == listings[-1].title:
            listings[-1].add_row(*(cell for column in listing.columns for cell in column.cells))
        else:
            listings.append(listing)
    for listing in listings:
        show(console, listing)
    if file is not None:
        said = ("measured", "verdict", "reason", "panels")
        found = [{"source": claim.source, "claim": claim.text, "way": way, **{name: getattr(f, name) for name in said}}
                 for claim, way, f in measured]  # fmt: skip
        write_json(file, {**here, "findings": found})
        console.print(f"raw figures: {file}")
    if csv is not None:
        rows = [(c.source, c.text, way, f.measured, f.verdict, f.reason) for c, way, f in measured]
        write_csv(csv, [table("", ("source", "claim", "way", "measured", "verdict", "reason"), rows), *listings])
        console.print(f"tables: {csv}")
    return findings
