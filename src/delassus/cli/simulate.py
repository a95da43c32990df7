"""``delassus simulate``: a ready-made scene, run, watched, recorded, drawn."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from delassus.contact.results import SolverStatus
from delassus.errors import ConfigurationError, missing_dependency, shown, unknown_name
from delassus.simulate.checkpoint import load_checkpoint, save_checkpoint
from delassus.simulate.plots import summary_figure, swing_figure
from delassus.simulate.recorder import Recorder
from delassus.simulate.recording import Recording
from delassus.simulate.scenes import ReadyScene, boxes, dual_arm, pendulum, quadruped
from delassus.simulate.simulator import Simulator
from delassus.simulate.storage import check_target

SCENES: MappingProxyType[str, Callable[..., ReadyScene]] = MappingProxyType(
    {"pendulum": pendulum, "dual-arm": dual_arm, "boxes": boxes, "quadruped": quadruped}
)
COUNTED = ("pendulum", "boxes")
"""Scenes with a number of links."""

FIGURES = (".png", ".pdf", ".svg")

SAMPLES = 2000
"""About so many samples have the recordings that figures are drawn from."""

BAR = 50
"""Steps between two updates of the progress bar; one costs as much as a few steps."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for.

    Attributes
    ----------
    scene : str
    links : int or None
        Of the pendulum, or boxes.
    duration, dt : float or None
        In s; the scene's own by default.
    options : dict
        Further options of the simulator.
    view : bool
    port : int
    plot, record, checkpoint, resume : Path or None
        Files to write, and to go on from.
    """

    scene: str
    links: int | None
    duration: float | None
    dt: float | None
    options: dict[str, Any]
    view: bool
    port: int
    plot: Path | None
    record: Path | None
    checkpoint: Path | None
    resume: Path | None


def make_scene(name: str, links: int | None) -> ReadyScene:
    """Ready-made scene of that name; raises `UnknownNameError` with the nearest match."""
    if name not in SCENES:
        raise unknown_name("scene", name, SCENES)
    if links is None:
        return SCENES[name]()
    if name not in COUNTED:
        raise ConfigurationError("--links", f"a scene of {' or '.join(COUNTED)}", name, "Leave --links out.")
    return SCENES[name](links)


def run(console: Console, request: Request) -> None:
    """Run a scene and say how it went."""
    for path, what in ((request.record, "recording"), (request.checkpoint, "checkpoint")):
        if path is not None:
            check_target(path, what)  # before the work, not after it
    if request.plot is not None and request.plot.suffix not in FIGURES:
        raise ConfigurationError(
            "--plot", f"a name that ends in {' or '.join(FIGURES)}", str(request.plot), "Use .png."
        )
    if request.plot is not None and find_spec("matplotlib") is None:
        raise missing_dependency("matplotlib", "plot", "figures")
    if request.view:
        unseen = [name for name in ("plot", "record", "checkpoint", "duration") if getattr(request, name) is not None]
        if unseen:
            raise ConfigurationError(
                "--view",
                "no files to write and no duration: what it shows runs until you stop it",
                ", ".join(f"--{name}" for name in unseen),
                "Run once with files, and once more with --view; runs are the same.",
            )
    ready = make_scene(request.scene, request.links)
    sim = _simulator(ready, request)
    tree = sim.scene.tree
    console.print(
        f"[bold]{ready.name}[/]: {ready.description}. {tree.n_links} links, {tree.nv} degrees of freedom, "
        f"{len(sim.scene.colliders)} colliders; {sim.formulation} by {sim.solver}, steps of {sim.dt * 1e3:g} ms."
    )
    if request.view:
        _show(console, sim, ready, request.port)
        return
    duration = max(ready.duration - sim.time, 0.0) if request.duration is None else _duration(request.duration)
    steps = round(duration / sim.dt)
    recorder = None
    if request.record is not None or request.plot is not None:
        recorder = Recorder(every=1 if request.record is not None else max(1, steps // SAMPLES))
    start, contacts, blocks = sim.energy(), 0, []
    began = time.perf_counter()
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("steps"),
        TimeRemainingColumn(), console=console, transient=True,
    ) as progress:  # fmt: skip
        task = progress.add_task("simulating", total=steps)
        if recorder is not None:
            recorder.start(sim)
        for first in range(0, steps, BAR):
            many = min(BAR, steps - first)
            block = time.perf_counter()
            contacts = max(contacts, _steps(sim, ready, recorder, many))
            blocks.append((time.perf_counter() - block) / many)
            progress.advance(task, many)
    each = statistics.median(blocks) if blocks else 0.0  # the first steps of all may wait for a compiler
    _report(console, sim, start, steps, each, time.perf_counter() - began, contacts)
    if recorder is not None:
        _keep(console, recorder.finish(sim), request)
    if request.checkpoint is not None:
        console.print(f"checkpoint: {save_checkpoint(sim, request.checkpoint)}", highlight=False)


def _simulator(ready: ReadyScene, request: Request) -> Simulator:
    if request.resume is None:
        dt = {} if request.dt is None else {"dt": request.dt}
        return ready.simulator(**dt, **request.options)
    if request.dt is not None or request.options:
        given = ["dt"] if request.dt is not None else []
        raise ConfigurationError(
            "--resume",
            "no options of the simulator: a checkpoint has its own",
            ", ".join(f"--{name}" for name in (*given, *request.options)),
            "Leave them out.",
        )
    return load_checkpoint(ready.scene, request.resume)


def _duration(seconds: float) -> float:
    if not 0 <= seconds < math.inf:
        raise ConfigurationError("--duration", "a time in s, not negative", shown(seconds), "Such as 2.5.")
    return seconds


def _steps(sim: Simulator, ready: ReadyScene, recorder: Recorder | None, many: int) -> int:
    """Take steps; returns the largest number of contacts."""
    contacts, controller = 0, ready.controller
    for _ in range(many):
        sim.step(None if controller is None else controller(sim))
        if recorder is not None:
            recorder.add(sim)
        contacts = max(contacts, len(sim.impulses))
    return contacts


def _report(
    console: Console,
    sim: Simulator,
    start: tuple[float, float],
    steps: int,
    each: float,
    seconds: float,
    contacts: int,
) -> None:
    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right")
    end = sim.energy()
    rows = [
        ("steps", f"{steps:,}"),
        ("simulated time", f"{steps * sim.dt:.4g} s, up to {sim.time:.4g} s"),
        ("time that it took, compilation included", f"{seconds:.2f} s"),
        ("time per step, median", f"{each * 1e6:.1f} µs"),
        ("real-time factor", f"{sim.dt / each:.2f}" if steps else "–"),
        ("contacts at once, at most", f"{contacts}"),
        *(
            (f"contact problems: {_name(s)}", f"{n:,}")
            for s, n in sorted(sim.statuses.items(), key=lambda x: x[0].name)
        ),
        ("kinetic energy, start → end", f"{start[0]:.4g} → {end[0]:.4g} J"),
        ("potential energy, start → end", f"{start[1]:.4g} → {end[1]:.4g} J"),
        ("energy, start → end", f"{sum(start):.6g} → {sum(end):.6g} J"),
    ]
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _name(status: SolverStatus) -> str:
    return status.name.lower().replace("_", " ")


def _keep(console: Console, recording: Recording, request: Request) -> None:
    if request.record is not None:
        console.print(f"recording: {recording.save(request.record)}, {len(recording):,} samples", highlight=False)
    if request.plot is not None:
        draw = swing_figure if request.scene == "pendulum" else summary_figure
        console.print(f"figure: {draw(recording, request.plot)}", highlight=False)


def _show(console: Console, sim: Simulator, ready: ReadyScene, port: int) -> None:
    from delassus.simulate.players import Live
    from delassus.simulate.viewer import Viewer

    viewer = Viewer(Live(sim, ready.controller, ready.duration), "127.0.0.1", port)
    console.print(f"Open [bold]{viewer.url}[/] in a browser; Ctrl-C here ends it.", highlight=False)
    viewer.wait()
