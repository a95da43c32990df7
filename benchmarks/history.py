"""Operation counts, and times as ratios to Pinocchio's of the same run, by commit: ``history.json`` and its figure.

Each commit's sources are unpacked into a temporary folder and measured by a process of its own, on one core. Only names
of the public contract are used, so that older commits can be measured too: figures that one does not have are null, and
``absent`` says why. Answers that differ from Pinocchio's are not timed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

RECORDS = Path(__file__).parent / "history.json"
FIGURE = Path(__file__).parent / "figures" / "history.png"

ROBOTS = {
    "Go1": ("go1", "Point", ("FL_foot", "FR_foot", "RL_foot", "RR_foot")),
    "Talos": ("talos_reduced", "Weld", ("leg_left_6_link", "leg_right_6_link")),
    "G1": (
        "g1_29dof_rev_1_0",
        "Weld",
        ("left_ankle_roll_link", "right_ankle_roll_link", "left_wrist_yaw_link", "right_wrist_yaw_link"),
    ),
}
"""File of example-robot-data, kind of the constraints to the world, and their links."""

KERNEL_PANELS = {
    "operations": "operations",
    "batch": f"Pinocchio's time / ours,\n{(BATCH := 4096):,} states",
    "one state": "Pinocchio's time / ours,\none state",
    "compilation": "states after which\ncompiling has paid",
}
"""What panels of the figure show, by its name in the records."""
PANELS = (*KERNEL_PANELS, "loading")

PEER_STATES, SINGLE_CALLS, ROUNDS = 256, 500, 40
TOLERANCE = 1e-6
"""Difference from Pinocchio, relative to the largest entry, of the median state: a few are next to singular ones."""

Calls = dict[str, tuple[Callable[[], object], int]]
"""What is timed, by name: a call, and the number of states that it computes."""


# -- one commit, in a process of its own ---------------------------------------------------------------------------


def measure() -> dict[str, Any]:
    """Figures by panel and series, and reasons why some are absent."""
    figures: dict[str, dict[str, float | None]] = {panel: {} for panel in PANELS}
    absent: dict[str, list[str]] = {}
    warnings.simplefilter("ignore")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for robot in ROBOTS:
        for quantity in ("", "delassus", "dynamics"):
            series = f"{robot} {quantity}".strip()
            try:
                found = kernel_figures(robot, quantity) if quantity else loading(robot)
            except Exception as error:  # whatever an older commit raises
                found = {}
                absent.setdefault(f"{type(error).__name__}: {error}".splitlines()[0][:160], []).append(series)
            for panel in KERNEL_PANELS if quantity else ("loading",):
                figures[panel][series] = found[panel] if found else None
    return {"figures": figures, "absent": absent}


def loading(robot: str) -> dict[str, float]:
    """How much faster the robot's file is read than by Pinocchio."""
    ours, theirs = loaders(robot)
    times = microseconds({"ours": (ours, 1), "theirs": (theirs, 1)})
    return {"loading": ratio(times["theirs"], times["ours"])}


def kernel_figures(robot: str, quantity: str) -> dict[str, float]:
    """Figures of one kernel by panel; raises where its results differ from Pinocchio's."""
    (tree, model), (_, kind, links) = (load() for load in loaders(robot)), ROBOTS[robot]
    import delassus as ds

    rng = np.random.default_rng(0)
    states = [np.asarray(tree.random(0, BATCH))]
    if quantity == "dynamics":
        states += [rng.normal(size=(BATCH, tree.nv)), 10 * rng.normal(size=(BATCH, tree.nv))]
    constraints = [getattr(ds, kind)(link) for link in links]
    start = time.process_time()
    kernel = compiled(ds, tree, constraints, quantity)
    out = kernel(*states, threads=1)  # the first call compiles
    seconds = time.process_time() - start

    peer = pinocchio_call(model, kind, links, [[np.array(x[k]) for x in states] for k in range(PEER_STATES)])
    one = [x[0].copy() for x in states]
    out_of_one = kernel(*one, threads=1)
    wanted = np.array(peer())
    error = np.abs((out[0] if isinstance(out, tuple) else out)[:PEER_STATES] - wanted).reshape(PEER_STATES, -1)
    relative = np.median(error.max(axis=1) / np.abs(wanted).reshape(PEER_STATES, -1).max(axis=1))
    if not relative < TOLERANCE:
        raise ValueError(f"differs from Pinocchio by {relative:.0e}")

    def single() -> None:
        for _ in range(SINGLE_CALLS):
            kernel(*one, out=out_of_one)

    batch = partial(kernel, *states, out=out, threads=1)
    times = microseconds({"batch": (batch, BATCH), "one": (single, SINGLE_CALLS), "peer": (peer, PEER_STATES)})
    return {
        "operations": kernel.operations.total,
        "batch": ratio(times["peer"], times["batch"]),
        "one state": ratio(times["peer"], times["one"]),
        "compilation": ratio(1e6 * seconds, times["peer"] - times["batch"]),
    }


def loaders(robot: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Calls that load the robot, floating: here and in Pinocchio. Both have the same order of joints."""
    import pinocchio as pin

    import delassus as ds

    folder = Path(sysconfig.get_path("purelib"), "cmeel.prefix/share/example-robot-data")
    (path,) = folder.rglob(f"{ROBOTS[robot][0]}.urdf")
    return (
        lambda: ds.load(str(path), root="floating"),
        lambda: pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer()),
    )


def compiled(ds: Any, tree: Any, constraints: list[Any], quantity: str) -> Any:
    """Kernel of a quantity; dynamics without damping or friction, as Pinocchio has it."""
    if quantity == "delassus":
        return ds.compile(tree, constraints, quantity)
    try:
        return ds.compile(tree, constraints, quantity, method="pv-early", passive="none")
    except (TypeError, ds.DelassusError):  # commits before passive forces
        return ds.compile(tree, constraints, quantity, method="pv-early", damping=None)


def pinocchio_call(model: Any, kind: str, links: tuple[str, ...], states: list[Any]) -> Callable[[], list[Any]]:
    """Call that returns Delassus matrices (m, m) at states [q], or accelerations (nv,) at states [q, v, tau]."""
    import pinocchio as pin

    contacts, contact_data = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    rows = pin.ContactType.CONTACT_6D if kind == "Weld" else pin.ContactType.CONTACT_3D
    for link in links:
        frame = model.frames[model.getFrameId(link)]
        contacts.append(
            pin.RigidConstraintModel(rows, model, frame.parentJoint, frame.placement, pin.ReferenceFrame.LOCAL)
        )
        contact_data.append(contacts[-1].createData())
    data = model.createData()
    if len(states[0]) == 1:
        return lambda: [pin.computeDelassusMatrix(model, data, q, contacts, contact_data) for (q,) in states]
    pin.initConstraintDynamics(model, data, contacts, contact_data)
    exact = pin.ProximalSettings(1e-12, 0.0, 1)
    return lambda: [np.array(pin.constraintDynamics(model, data, *s, contacts, contact_data, exact)) for s in states]


def microseconds(calls: Calls) -> dict[str, float]:
    """Least time of the processor per state of each call, in turns; in none of it another program runs."""
    least = dict.fromkeys(calls, math.inf)
    for _ in range(ROUNDS):
        for name, (call, states) in calls.items():
            call()
            start = time.process_time()
            call()
            least[name] = min(least[name], 1e6 * (time.process_time() - start) / states)
    return least


def ratio(a: float, b: float) -> float:
    """Ratio to three digits."""
    return float(f"{a / b:.3g}")


# -- all commits ---------------------------------------------------------------------------------------------------


def git(*arguments: str) -> str:
    """What git prints."""
    return subprocess.check_output(["git", *arguments], cwd=RECORDS.parent, text=True).strip()


def record_of(commit: str) -> dict[str, Any]:
    """Figures of a commit, with where they were measured."""
    from delassus.cli.tables import environment

    record = {
        "commit": git("rev-parse", "--short=9", commit),
        "number": int(git("rev-list", "--count", commit)),
        "date": git("show", "-s", "--format=%cs", commit),
        "processor": environment()["processor"],
        "versions": {name: version(name) for name in ("numpy", "llvmlite", "pin")},
    }
    with tempfile.TemporaryDirectory() as folder:
        sources = subprocess.Popen(["git", "archive", commit, "src"], cwd=git("rev-parse", "--show-toplevel"),
                                   stdout=subprocess.PIPE)  # fmt: skip
        subprocess.run(["tar", "-x", "-C", folder], stdin=sources.stdout, check=True)
        variables = {**os.environ, "PYTHONPATH": f"{folder}/src", "DELASSUS_CACHE": "off"}
        command = [sys.executable, str(Path(__file__).resolve()), "--measure"]
        done = subprocess.run(command, cwd=folder, env=variables, stdout=subprocess.PIPE, check=True)
    return {**record, **json.loads(done.stdout.splitlines()[-1])}


def draw(records: list[dict[str, Any]]) -> None:
    """A panel for each kind of figure and quantity, a line for each robot and processor, over the number of commits."""
    from delassus.pictures.plots import COLOURS, LARGE, SMALL, STYLES, page_figure, save_figure
    from delassus_studies.figures import stamp, tidy

    columns = {"delassus": "Delassus matrix", "dynamics": "dynamics"}
    processors = list(dict.fromkeys(record["processor"] for record in records))
    figure = page_figure(1.9 * len(KERNEL_PANELS))
    grid = figure.subplots(len(KERNEL_PANELS), len(columns), sharex=True, sharey="row")
    for axes, (panel, label) in zip(grid, KERNEL_PANELS.items(), strict=True):
        axes[0].set_ylabel(label)
        for ax, (quantity, name) in zip(axes, columns.items(), strict=True):
            for processor, style in zip(processors, STYLES, strict=False):
                own = [record for record in records if record["processor"] == processor]
                for robot, colour in zip(ROBOTS, COLOURS, strict=False):
                    ys = [record["figures"][panel][f"{robot} {quantity}"] or math.nan for record in own]
                    named = f"{robot}, {processor.split(', ')[1]}"
                    ax.plot([record["number"] for record in own], ys, style, color=colour, marker=".", label=named)
            ax.yaxis.set_major_formatter("{x:,g}")
            ax.set_title(name if panel == "operations" else "", fontsize=LARGE)
            tidy(ax)
        axes[0].set_ylim(bottom=0)
    for ax in grid[-1]:
        ax.set_xlabel("commits", fontsize=SMALL)
    grid[0, 0].legend(fontsize=SMALL)
    by = {"date": records[-1]["date"], "processor": "; ".join(processors)}
    stamp(save_figure(figure, FIGURE), "python benchmarks/history.py COMMIT", by, __file__)


def main() -> None:
    """Measure the commits that are given, one after the other, and draw all records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="*", metavar="COMMIT", help="what git takes for one; none: only draw")
    records = {r["commit"]: r for r in json.loads(RECORDS.read_text())} if RECORDS.exists() else {}
    for commit in parser.parse_args().commits:
        new = record_of(commit)
        records[new["commit"]] = new
        ordered = sorted(records.values(), key=lambda record: record["number"])
        RECORDS.write_text(json.dumps(ordered, indent=1) + "\n")
        print(new["number"], new["commit"], new["absent"])
    draw(json.loads(RECORDS.read_text()))


if __name__ == "__main__":
    if sys.argv[1:] == ["--measure"]:
        print(json.dumps(measure()))
    else:
        main()
