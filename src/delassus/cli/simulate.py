"""``delassus simulate``: a ready-made scene or a robot, run, watched, recorded, drawn."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from delassus.cli.parse import parse_value
from delassus.cli.robots import base_of
from delassus.cli.tables import Console, plain, show, table, write_csv, write_json
from delassus.contact.scene import Scene
from delassus.errors import ConfigurationError, UnknownNameError, require, shown, unknown_name
from delassus.formats.load import find_description
from delassus.formats.names import robot_names
from delassus.pictures.exports import EXPORTS, check_export, export
from delassus.pictures.players import Live, Replay
from delassus.pictures.plots import summary_figure, swing_figure, walk_figure
from delassus.pictures.video import check_video, write_video
from delassus.pictures.viewer import Viewer
from delassus.scenes import SCENES, ReadyScene
from delassus.scenes.mppi import MPPI
from delassus.simulate.checkpoint import load_checkpoint, save_checkpoint
from delassus.simulate.recording import Recorder, Recording
from delassus.simulate.simulator import Simulator
from delassus.simulate.storage import check_target

COUNTED = [name for name, make in SCENES.items() if "n" in signature(make).parameters]
"""Scenes with a number of links or bodies."""

FIGURES = (".png", ".pdf", ".svg")

DT = 1e-3
"""Time step (s) of scenes of a robot."""

DURATION = 2.0
"""Duration (s) of scenes of a robot."""

SAMPLES = 2000
"""About so many samples have the recordings that figures and videos are drawn from."""

HOLDING = {"control": "pd"}
"""Options of simulators whose joints are held where they start."""

BAR = 50
"""Steps between two updates of the progress bar; one costs as much as a few steps."""


def make_scene(name: str, of_scene: dict[str, Any], of_robot: dict[str, Any]) -> ReadyScene:
    """Ready-made scene of that name, or scene of a robot or file; raises `UnknownNameError` with the nearest match.

    ``of_scene`` are its links and terrain, ``of_robot`` floor, root, keyframe, controls by name, and hold.
    """
    if name not in SCENES:
        if of_scene:
            given = ", ".join(f"--{option}" for option in of_scene)
            raise ConfigurationError(given, f"a scene of {', '.join(SCENES)}", name, "Leave it out.")
        return _of_robot(name, **of_robot)
    if of_robot:
        given = ", ".join(f"--{option}" for option in of_robot)
        raise ConfigurationError(given, "a file or robot", f"the scene {name}", "Leave it out.")
    if "links" in of_scene and name not in COUNTED:
        raise ConfigurationError("--links", f"a scene of {', '.join(COUNTED)}", name, "Leave --links out.")
    if "terrain" in of_scene and name != "mppi":
        raise ConfigurationError("--terrain", "the scene mppi", name, "Leave --terrain out.")
    return SCENES[name](*of_scene.values())


def _of_robot(name: str, control: Sequence[str] = (), hold: bool | None = None, **options: Any) -> ReadyScene:
    """Scene of a robot's file or name, held where it starts, or under constant controls of actuators or joints.

    It is held by default where its file has no actuators and no controls are given, at the first of its keyframes.
    """
    try:
        find_description(name)
    except UnknownNameError:
        raise unknown_name("scene, file or robot", name, [*SCENES, *robot_names()]) from None
    if hold and control:
        raise ConfigurationError("--control", "none with --hold", ", ".join(control), "Leave one of the two out.")
    scene = Scene.from_robot(name, **options)
    if hold is None:
        hold = not scene.tree.actuators and not control
    keys = [*scene.tree.keyframes]
    if hold and keys and "qpos0" not in keys and "keyframe" not in options:
        options["keyframe"] = keys[0]
        scene = Scene.from_robot(name, **options)
    tree, values = scene.tree, dict(parse_value(text) for text in control)
    start, on = scene.start, " on a floor" if options.get("floor") else ""
    if hold:
        at = f"keyframe {options['keyframe']}" if "keyframe" in options else "its start"
        told = f"{name}, {base_of(tree)}{on}, servos of joints hold it at {at}"
        return ReadyScene(tree.name, scene, start, np.zeros(tree.nv), DT, None, DURATION, told, options=HOLDING)
    slots = {a.name: k for k, a in enumerate(tree.actuators)}
    if not slots:
        slots = {j.name: v.start for j, v in zip(tree.joints, tree.v_slices, strict=True) if j.nv == 1}
    given = np.array(scene.start_controls) if tree.actuators else np.zeros(tree.nv)
    for actuator, value in values.items():
        if actuator not in slots:
            raise unknown_name("actuator" if tree.actuators else "joint", actuator, slots)
        given[slots[actuator]] = value
    at_start = ""
    if tree.actuators:
        key = options.get("keyframe", "")
        values_of = f"controls of keyframe {key}" if scene.start_controls.any() else "controls of zero"
        at_start = f"{tree.nu} actuators with {values_of}"
    driven = ", ".join([*([at_start] if at_start else []), *control]) or "no joint torques"
    told = f"{name}, {base_of(tree)}{on}, {driven}"
    how = {"control": "actuators"} if tree.actuators else {}
    return ReadyScene(tree.name, scene, start, np.zeros(tree.nv), DT, lambda _: given, DURATION, told, options=how)


def run(
    console: Console,
    scene: str,
    of_scene: dict[str, Any],
    of_robot: dict[str, Any],
    duration: float | None,
    options: dict[str, Any],
    files: dict[str, Path],
    port: int | None,
) -> None:
    """Run a scene and say how it went, or show it in the browser at ``port``.

    ``of_scene`` and ``of_robot`` are those of `make_scene`,
    ``options`` are those of the simulator; ``files`` those to write (plot, video, record, checkpoint, json,
    csv), and the checkpoint to go on from (resume).
    """
    _check(options, files, duration, port)
    ready = make_scene(scene, of_scene, of_robot)
    resume, tree = files.get("resume"), ready.scene.tree
    sim = load_checkpoint(ready.scene, resume) if resume else ready.simulator(**options)
    console.print(
        Text(f"{ready.name}:", "bold"),
        f"{ready.description}. {tree.n_links} links, {tree.nv} degrees of freedom, "
        f"{len(sim.scene.colliders)} colliders; {sim.formulation} by {sim.solver}, steps of {sim.dt * 1e3:g} ms.",
    )
    if port is not None:
        show_page(console, Live(sim, ready.controller), port)
        return
    steps = round((max(ready.duration - sim.time, 0.0) if duration is None else duration) / sim.dt)
    recorder = Recorder(every=1 if "record" in files else max(1, steps // SAMPLES))
    recorded = bool({"record", "plot", "video"} & files.keys())
    told = _run(console, ready, sim, steps, recorder if recorded else None)
    show(console, told)
    if "json" in files:
        names, values = (map(plain, column.cells) for column in told.columns)
        write_json(files["json"], dict(zip(names, values, strict=True)))
    if "csv" in files:
        write_csv(files["csv"], [told])
    if recorded:
        recording = recorder.finish(sim)
        if "record" in files:
            save = partial(export, recording) if files["record"].suffix in EXPORTS else recording.save
            console.print(f"recording: {save(files['record'])}, {len(recording):,} samples", highlight=False)
        if "plot" in files:
            console.print(f"figure: {_draw(ready, recording, files['plot'])}", highlight=False)
        if "video" in files:
            with console.status("filming"):
                path = write_video(recording, files["video"])
            console.print(f"video: {path}", highlight=False)
    if "checkpoint" in files:
        console.print(f"checkpoint: {save_checkpoint(sim, files['checkpoint'])}", highlight=False)


def view(console: Console, source: str, of_robot: dict[str, Any], recording: Path | None, port: int) -> None:
    """Show a scene at its start, for play to go on from, or what was recorded of it, in the browser at ``port``."""
    require("viser", "view", "the viewer")
    ready = make_scene(source, {}, of_robot)
    if recording is not None:
        player: Live | Replay = Replay(Recording.load(recording, ready.scene))
    else:
        player = Live(ready.simulator(), ready.controller)
    show_page(console, player, port, playing=recording is not None)


def show_page(console: Console, player: Live | Replay, port: int, playing: bool = True) -> None:
    """Show a player's page until Ctrl-C."""
    viewer = Viewer(player, "127.0.0.1", port, playing)
    try:
        console.print("Open", Text(viewer.url, "bold"), "in a browser; Ctrl-C here ends it.", highlight=False)
        viewer.wait()
    finally:
        viewer.stop()


def _draw(ready: ReadyScene, recording: Recording, path: Path) -> Path:
    """Draw the figure of a scene."""
    if isinstance(ready.controller, MPPI):
        return walk_figure(recording, ready.controller.replans, path)
    return (swing_figure if ready.name == "pendulum" else summary_figure)(recording, path)


def _run(console: Console, ready: ReadyScene, sim: Simulator, steps: int, recorder: Recorder | None) -> Table:
    """Take steps under a progress bar, and make the table that says how they went."""
    began, start, contacts, blocks = time.perf_counter(), sim.energy(), 0, []
    if recorder is not None:
        recorder.start(sim)
    columns = BarColumn(), MofNCompleteColumn(), TextColumn("steps"), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=steps)
        for first in range(0, steps, BAR):
            many, block = min(BAR, steps - first), time.perf_counter()
            for _ in range(many):
                sim.step_by(ready.controller)
                if recorder is not None:
                    recorder.add(sim)
                contacts = max(contacts, len(sim.impulses))
            blocks.append((time.perf_counter() - block) / many)
            progress.advance(task, many)
    each = statistics.median(blocks) if blocks else 0.0  # the first steps of all may wait for a compiler
    end = sim.energy()
    rows = {
        "steps": f"{steps:,}",
        "simulated time": f"{steps * sim.dt:.4g} s, up to {sim.time:.4g} s",
        "time that it took, compilation included": f"{time.perf_counter() - began:.2f} s",
        "time per step, median": f"{each * 1e6:.1f} µs",
        "real-time factor": f"{sim.dt / each:.2f}" if steps else "–",
        "contacts at once, at most": f"{contacts}",
    }
    for status, number in sorted(sim.statuses.items(), key=lambda item: item[0].name):
        rows[f"contact problems: {status.name.lower().replace('_', ' ')}"] = f"{number:,}"
    rows["kinetic energy, start → end"] = f"{start[0]:.4g} → {end[0]:.4g} J"
    rows["potential energy, start → end"] = f"{start[1]:.4g} → {end[1]:.4g} J"
    rows["energy, start → end"] = f"{sum(start):.6g} → {sum(end):.6g} J"
    if isinstance(ready.controller, MPPI) and ready.controller.replans:
        replans = ready.controller.replans
        rows["way of the base"] = f"{sim.q[0] - ready.q0[0]:.2f} m"
        rows["replans"] = f"{len(replans):,}"
        rows["time per replan, median"] = f"{statistics.median(r.duration for r in replans) * 1e3:.1f} ms"
        rows["residual of planned steps, worst"] = f"{max(r.residual for r in replans):.1e} m/s"
    if ready.check is not None and sim.time >= ready.duration - 0.5 * sim.dt:
        holds, measured = ready.check(sim)
        rows["what it is to show"] = f"{measured}: {'holds' if holds else 'does not hold'}"
    return table("", ("what", "value"), rows.items())


def _check(options: dict[str, Any], files: dict[str, Path], duration: float | None, port: int | None) -> None:
    """Refuse what cannot be done before any work begins."""
    for name, what in (("record", "recording"), ("checkpoint", "checkpoint")):
        if name in files:
            exported = name == "record" and files[name].suffix in EXPORTS
            (check_export(files[name]) if exported else check_target(files[name], what))
    if "plot" in files:
        if files["plot"].suffix not in FIGURES:
            came = str(files["plot"])
            raise ConfigurationError("--plot", f"a name that ends in {' or '.join(FIGURES)}", came, "Use .png.")
        require("matplotlib", "plot", "figures")
    if "video" in files:
        check_video(files["video"])
    if "resume" in files and options:
        raise ConfigurationError(
            "--resume",
            "no options of the simulator: a checkpoint has its own",
            ", ".join(f"--{name}" for name in options),
            "Leave them out.",
        )
    if duration is not None and not 0 <= duration < math.inf:
        raise ConfigurationError("--duration", "a time in s, not negative", shown(duration), "Such as 2.5.")
    for name in ("plot", "video", "record", "checkpoint"):
        if name in files:
            files[name].parent.mkdir(parents=True, exist_ok=True)
    if port is None:
        return
    require("viser", "view", "the viewer")
    given = [*(name for name in files if name != "resume"), *(["duration"] if duration is not None else [])]
    if given:
        raise ConfigurationError(
            "--view",
            "no files to write and no duration: the simulation that is shown runs until you stop it",
            ", ".join(f"--{name}" for name in given),
            "Run once with files, and once more with --view; runs are the same.",
        )
