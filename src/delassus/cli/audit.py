"""``delassus audit``: the steps that MuJoCo takes of a scene, against the law of contact."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.progress import track
from rich.table import Table

from delassus.cli.tables import Console, Record, check_folder, environment, publish, table
from delassus.contact.audits.audit import Verdict, audit
from delassus.errors import ModelError, require
from delassus.pictures.plots import violations_figure


def run(
    console: Console, scene: Path, seconds: float, limits: dict[str, float],
    file: Path | None, plot: Path | None, csv: Path | None,
) -> None:  # fmt: skip
    """Print an audit, write it to files and draw it into a folder."""
    check_folder(plot)
    publish(console, audited(console, scene, seconds, **limits), tables, file, plot, draw, csv)


def audited(console: Console, scene: Path, seconds: float, **limits: float) -> Iterator[Record]:
    """Simulate an MJCF file by MuJoCo, and audit every step: lists over time, of each check and cause of softness."""
    require("mujoco", "mjcf", "simulation by MuJoCo")
    import mujoco

    try:
        model = mujoco.MjModel.from_xml_path(str(scene))
    except ValueError as error:
        raise ModelError(f"scene {str(scene)!r}", "a file that MuJoCo reads", str(error), "Correct it.") from error
    data, steps = mujoco.MjData(model), max(round(seconds / model.opt.timestep), 1)
    record: Record = environment() | {"time": [], "verdicts": [], "checks": {}, "causes": {}}
    for _ in track(range(steps), "", console=console, transient=True):
        found = audit(model, data, **limits)
        record["time"].append(float(data.time))
        record["verdicts"].append(Verdict(found.verdict).name)
        for name, check in found.checks.items():
            size, relative, verdict, at = check.worst
            record["checks"].setdefault(name, []).append((f"{size:.2e} {check.unit}", relative, verdict.name, at))
        for name, part in found.softness.parts.items() if found.softness else ():
            record["causes"].setdefault(name, []).append(float(part.max(initial=0.0)))
        mujoco.mj_step(model, data)
    yield record


def tables(record: Record) -> Iterator[Table | str]:
    """The worst of each check, why contacts are soft, and what verdicts mean."""
    names, rows = [verdict.name for verdict in Verdict], []
    for name, found in record["checks"].items():
        k = max(range(len(found)), key=lambda k: (names.index(found[k][2]), found[k][1]))
        failing = sum(verdict != Verdict.RIGHT.name for _, _, verdict, _ in found)
        rows.append((name, *found[k][:3], failing, found[k][3], record["time"][k]))
    heads = "check", "worst", "of tolerated:.1e", "verdict", "steps that fail:,", "at", "time:.3f s"
    yield table("", heads, rows, text=("verdict", "at"))
    rows = [(name, max(sizes), sorted(sizes)[len(sizes) // 2]) for name, sizes in record["causes"].items()]
    yield table("Distance of soft contacts from the law", ("cause", "largest:.2e m/s", "median:.2e m/s"), rows)
    for verdict in Verdict:
        yield f"{record['verdicts'].count(verdict.name):,} steps {verdict.name}: {verdict.text}"


def draw(record: Record, folder: Path) -> Path:
    """All of it over time."""
    relative = {name: [x[1] for x in found] for name, found in record["checks"].items()}
    panels = {("violations, as multiples of what is tolerated", ""): relative,
              ("distance of soft contacts from the law, by cause", "m/s"): record["causes"]}  # fmt: skip
    return violations_figure(record["time"], panels, folder / "audit.png")
