"""Claims of the papers: what is said, what is measured here, whether it holds; and the table that says so."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.progress import track
from rich.table import Table
from rich.text import Text

from delassus.errors import MissingDependencyError
from delassus_studies.cases import NotHere
from delassus_studies.figures import Series, line_figure
from delassus_studies.tables import table
from delassus_studies.terminal import Console
from delassus_studies.timing import environment

HOLDS, IN_PART, NO, NOT_MEASURED = "holds", "in part", "no", "not measured"
_STYLE = {HOLDS: "green", IN_PART: "yellow", NO: "red", NOT_MEASURED: "dim"}


@dataclass(frozen=True, slots=True)
class Listing:
    """A table of what was measured, printed below the claims."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a measurement says of a claim: the numbers, the verdict, and why it does not hold."""

    measured: str
    verdict: str
    reason: str = ""
    panels: Mapping[str, Series] = field(default_factory=dict)  # what to draw
    listings: tuple[Listing, ...] = ()  # what to print in full


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a paper, and how to measure it from the folder of robot files (or None).

    ``measure`` raises `NotHere` where something is missing; ``quick``: it takes seconds, not minutes.
    """

    source: str
    text: str
    measure: Callable[[Path | None], Finding]
    figure: str = ""  # file name; none if empty
    log: bool = False
    x: str = ""
    y: str = "operations"
    level: float | None = None  # of a line across the figure
    draw: Callable[[Path], Path] | None = None  # draws a further figure into a folder
    quick: bool = False

    def check(self, robots: Path | None = None) -> Finding:
        """Measure the claim, or say what is missing."""
        try:
            return self.measure(robots)
        except (NotHere, MissingDependencyError) as missing:
            return Finding("", NOT_MEASURED, str(missing))


def verdict(parts: Sequence[bool]) -> str:
    """`HOLDS` if all parts hold, `IN_PART` if some do, else `NO`."""
    return HOLDS if all(parts) else IN_PART if any(parts) else NO


def reproduce(
    console: Console,
    claims: Sequence[Claim],
    robots: Path | None = None,
    plot: Path | None = None,
    file: Path | None = None,
    quick: bool = False,
) -> list[Finding]:
    """Measure and print all claims or the quick ones; draw their figures into ``plot``, write findings to a file."""
    claims = [claim for claim in claims if claim.quick or not quick]
    shown = Table(show_lines=True)
    shown.add_column("source", no_wrap=True)
    shown.add_column("claim", ratio=3)
    shown.add_column("measured here", ratio=5)
    shown.add_column("verdict", no_wrap=True)
    findings = []
    for claim in track(claims, "measuring", console=console, transient=True):
        finding = claim.check(robots)
        findings.append(finding)
        lines = Text(finding.measured), Text(finding.reason, "italic")
        said = Text(finding.verdict, _STYLE[finding.verdict])
        shown.add_row(claim.source, claim.text, Text("\n").join(line for line in lines if line), said)
        if plot is None or finding.verdict == NOT_MEASURED:
            continue
        if finding.panels:
            line_figure(plot / f"{claim.figure}.png", finding.panels, claim.x, claim.y, claim.log, claim.level)
        if claim.draw is not None:
            claim.draw(plot)
    console.print(shown)
    for listing in (listing for finding in findings for listing in finding.listings):
        console.print(table(listing.title, listing.columns, listing.rows))
    if plot is not None:
        console.print(f"figures: {plot}")
    if file is not None:
        found = [{"claim": claim.text, **asdict(f)} for claim, f in zip(claims, findings, strict=True)]
        file.write_text(json.dumps({**environment(), "findings": found}, indent=1))
        console.print(f"raw figures: {file}")
    return findings
