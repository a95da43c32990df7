"""Claims of the papers: one point of each is measured here and as published, printed, drawn and written."""

from __future__ import annotations

import csv
import io
from importlib import import_module
from pathlib import Path

import pytest

from delassus.errors import UnknownNameError
from delassus_studies.claims import HOLDS, NOT_MEASURED, POINT, Claim, Console, Finding, Setup, chosen, reproduce, table
from delassus_studies.registry import TOPICS

pytestmark = pytest.mark.usefixtures("machine_code")

CLAIMS = {
    topic: [claim for name in modules for claim in import_module(f"delassus_studies.claims.{name}").CLAIMS]
    for topic, modules in TOPICS.items()
}
EVERY = [pytest.param(claim, id=claim.source) for claims in CLAIMS.values() for claim in claims]
ONE = Claim("[a] 1", "one is one", lambda _: Finding("1.0 here", HOLDS, "because", {"p": {"m": ([1, 2], [3.0, 4.0])}}))


def console() -> Console:
    return Console(record=True, width=90, file=io.StringIO())


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("claim", EVERY)
def test_a_point_of_every_claim(claim: Claim) -> None:
    """Counted as its paper does, too, if that is another way; what needs robot files, or a package, says so."""
    for found in (claim.check(Setup(quick=True), way) for way in {False, bool(claim.published)}):
        assert found.verdict in (POINT, NOT_MEASURED)
        assert found.measured if found.verdict == POINT else found.reason
        assert all(len(xs) == len(ys) > 0 for series in found.panels.values() for xs, ys in series.values())


def test_claims_are_chosen_by_topic_paper_and_source() -> None:
    everything = [claim for claims in CLAIMS.values() for claim in claims]
    assert chosen(CLAIMS, "all") == everything
    assert chosen(CLAIMS, "contact") == CLAIMS["contact"] == chosen(CLAIMS, "OS")
    assert {claim.source for claim in chosen(CLAIMS, "[LQR]")} >= {"[LQR] Fig. 2f", "[LQR] Fig. 3"}
    (alone,) = chosen(CLAIMS, "lqr fig. 4a")
    assert alone.source == "[LQR] Fig. 4a"
    with pytest.raises(UnknownNameError, match=r"\[r2\] Fig. 4a"):
        chosen(CLAIMS, "Fig. 4")


def test_claims_are_printed_and_written(tmp_path: Path) -> None:
    listed = Claim("[a] 1", "one is one", lambda _: Finding("1.0 here", HOLDS, "because", listings=(
        table("all", ("n",), [("1",)]),)))  # fmt: skip
    shown = console()
    reproduce(shown, [listed], csv=tmp_path / "c.csv")
    text = shown.export_text()
    assert text.index("[a] 1  holds") < text.index("one is one") < text.index("1.0 here") < text.index("because")
    rows = list(csv.reader((tmp_path / "c.csv").read_text().splitlines()))
    assert rows[1] == ["[a] 1", "one is one", "here", "1.0 here", "holds", "because"]
    assert rows[2:] == [[], ["all"], ["n"], ["1"]]


def test_a_point_is_not_judged() -> None:
    shown = console()
    (found,) = reproduce(shown, [ONE], quick=True)
    assert (found.verdict, found.reason) == (POINT, "")
    assert "holds" not in shown.export_text()


def test_what_is_drawn_is_said(tmp_path: Path) -> None:
    """Both ways in one file; nothing is said where nothing is drawn."""
    pytest.importorskip("matplotlib")
    here = {"p": {"m": (("a", "b"), [3.0, 4.0])}}
    more = {**here, "times": {"m": ((1, 2), [1.0, 2.0])}}
    bars = Claim("[a] 2", "bars", lambda _: Finding("2", HOLDS, panels=here), "two",
                 published=lambda _: Finding("3", HOLDS, panels=more))  # fmt: skip
    nothing = Claim("[a] 3", "nothing", lambda _: Finding("4", HOLDS))
    shown = console()
    found = reproduce(shown, [bars, nothing], plot=tmp_path)
    assert [each.measured for each in found] == ["3", "2", "4"]
    text = shown.export_text().replace("\n", "")
    assert text.count("figure") == 1 and str(tmp_path / "two.png") in text
    assert [path.name for path in tmp_path.iterdir()] == ["two.png"]
    assert (tmp_path / "two.png").read_bytes().startswith(b"\x89PNG")
