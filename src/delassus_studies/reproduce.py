"""``delassus reproduce``: measure claims one by one, and say of each whether it holds here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from delassus_studies.claims import HOLDS, IN_PART, NO, NOT_MEASURED, Claim, Finding, measured_or_not
from delassus_studies.figures import line_figures

_STYLE = {HOLDS: "green", IN_PART: "yellow", NO: "red", NOT_MEASURED: "dim"}


def run(console: Console, claims: Sequence[Claim], robots: Path | None, plot: Path | None) -> list[Finding]:
    """Measure and print each claim; draw its figure where asked."""
    table = Table(show_lines=True)
    table.add_column("source", no_wrap=True)
    table.add_column("claim", ratio=3)
    table.add_column("measured here", ratio=5)
    table.add_column("verdict", no_wrap=True)
    findings = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("measuring", total=len(claims))
        for claim in claims:
            progress.update(task, description=escape(claim.source))
            finding = measured_or_not(claim, robots)
            findings.append(finding)
            measured = finding.measured
            if finding.reason:
                measured += ("\n" if measured else "") + f"[italic]{escape(finding.reason)}[/]"
            style = _STYLE[finding.verdict]
            table.add_row(
                escape(claim.source),
                escape(claim.text),
                measured,
                f"[{style}]{finding.verdict}[/]",
            )
            if plot is not None and finding.panels:
                path = plot / f"{claim.figure}.png"
                line_figures(path, finding.panels, claim.x, claim.y, log=claim.log, level=claim.level)
            progress.advance(task)
    console.print(table)
    for listing in (listing for finding in findings for listing in finding.listings):
        full = Table(title=escape(listing.title), title_justify="left")
        for number, column in enumerate(listing.columns):
            full.add_column(column, justify="right" if number else "left", no_wrap=not number)
        for row in listing.rows:
            full.add_row(*row)
        console.print(full)
    if plot is not None:
        console.print(f"figures: {plot}")
    return findings
