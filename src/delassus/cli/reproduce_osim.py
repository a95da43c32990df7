"""``delassus reproduce osim``: what the papers claim of the Delassus algorithms, measured again.

Robots are counted on traced graphs after common-subexpression elimination; families of mechanisms, some
of whose graphs are too large to build, by `CountOps` (a test holds PV-OSIM and PV-OSIMr within 3 % of the traced count,
EFPA within 6 % above it). Where a claim depends on how a joint transform is applied, it is measured twice:
*staged* (translation, constant rotation and joint turn one after the other, this library's way) and *composite*
(multiplied out to one 6×6 matrix first, the way of the papers' own code).
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from delassus.cli.claims import HOLDS, IN_PART, NO, NOT_MEASURED, Claim, Finding
from delassus.cli.claims_families import FAMILY_CLAIMS
from delassus.cli.claims_robots import ROBOT_CLAIMS, measured_or_not
from delassus.cli.figures import line_figures

OSIM_CLAIMS: tuple[Claim, ...] = (*FAMILY_CLAIMS, *ROBOT_CLAIMS)

_STYLE = {HOLDS: "green", IN_PART: "yellow", NO: "red", NOT_MEASURED: "dim"}


def run(console: Console, robots: Path | None, plot: Path | None) -> list[Finding]:
    """Measure and print each claim; draw its figure where asked."""
    table = Table(show_lines=True)
    table.add_column("source", no_wrap=True)
    table.add_column("claim", ratio=3)
    table.add_column("measured here", ratio=5)
    table.add_column("verdict", no_wrap=True)
    findings = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("measuring", total=len(OSIM_CLAIMS))
        for claim in OSIM_CLAIMS:
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
                label = "operations" if claim.log or "fig3" in claim.figure else "PV-OSIM / EFPA"
                level = None if label == "operations" else 1.0
                x = "links n" if claim.log else "stem length"
                line_figures(plot / f"{claim.figure}.png", finding.panels, x, label, log=claim.log, level=level)
            progress.advance(task)
    console.print(table)
    if plot is not None:
        console.print(f"figures: {plot}")
    return findings
