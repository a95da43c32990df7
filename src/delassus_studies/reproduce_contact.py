"""``delassus reproduce contact``: what [OS] claims of contact dynamics in minimal coordinates, measured again.

Sizes are those of problems that were built; times are of this machine, and judged by their ratios and exponents.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from delassus_studies import reproduce
from delassus_studies.claims import NOT_MEASURED, Claim, Finding
from delassus_studies.claims_contact import SIZE_CLAIMS
from delassus_studies.claims_contact_runs import RUN_CLAIMS
from delassus_studies.claims_contact_swing import SWING_CLAIMS, draw_swing
from delassus_studies.claims_contact_times import STEP_CLAIMS

CONTACT_CLAIMS: tuple[Claim, ...] = (*SIZE_CLAIMS, *RUN_CLAIMS, *STEP_CLAIMS, *SWING_CLAIMS)


def run(console: Console, plot: Path | None) -> list[Finding]:
    """Measure and print each claim; draw figures, and the swing, where asked."""
    findings = reproduce.run(console, CONTACT_CLAIMS, None, plot)
    if plot is not None and all(f.verdict != NOT_MEASURED for f in findings[-len(SWING_CLAIMS) :]):
        draw_swing(plot)
    return findings
