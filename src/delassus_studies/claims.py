"""Claims and findings: what a paper says, what was measured, whether it holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Series = Mapping[str, tuple[Sequence[float], Sequence[float]]]

HOLDS, IN_PART, NO, NOT_MEASURED = "holds", "in part", "no", "not measured"


@dataclass(frozen=True, slots=True)
class Listing:
    """A table of what was measured, printed below the claims."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a measurement says of a claim.

    Attributes
    ----------
    measured : str
        The numbers.
    verdict : str
        `HOLDS`, `IN_PART`, `NO` or `NOT_MEASURED`.
    reason : str
        Why, where it does not hold.
    panels : mapping of str to Series
        What to draw, by panel.
    listings : tuple of Listing
        What to print in full.
    """

    measured: str
    verdict: str
    reason: str = ""
    panels: Mapping[str, Series] = field(default_factory=dict)
    listings: tuple[Listing, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a paper and how to measure it.

    Attributes
    ----------
    source : str
        Paper and figure or section.
    text : str
        The claim.
    measure : callable
        Takes the folder of robot files (or None) and returns a `Finding`.
    figure : str
        Name of its figure; empty for none.
    log : bool
        Whether the figure has logarithmic axes.
    x, y : str
        What its axes show.
    level : float or None
        Where to draw a line across it.
    """

    source: str
    text: str
    measure: Callable[[Path | None], Finding]
    figure: str = ""
    log: bool = False
    x: str = ""
    y: str = "operations"
    level: float | None = None


class NotHere(Exception):
    """Something that a claim needs is missing, such as the file of a robot; the text says what."""


def measured_or_not(claim: Claim, robots: Path | None) -> Finding:
    """Measure a claim, or say what is missing."""
    try:
        return claim.measure(robots)
    except NotHere as missing:
        return Finding("", NOT_MEASURED, str(missing))


def verdict(parts: Sequence[bool]) -> str:
    """`HOLDS` if all parts hold, `IN_PART` if some do, else `NO`."""
    return HOLDS if all(parts) else IN_PART if any(parts) else NO
