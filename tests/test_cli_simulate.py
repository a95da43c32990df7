"""``delassus simulate``, as a user runs it."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from delassus.errors import DelassusError
from delassus.pictures import Viewer
from internals import Recording, cli, pendulum


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setattr(cli, "console", Console(width=200, highlight=False, color_system=None, record=True))


def run(*arguments):
    """Output of the command in this process."""
    outcome = CliRunner().invoke(cli.app, ["simulate", *map(str, arguments)])
    if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
        raise outcome.exception
    assert outcome.exit_code == 0, outcome.output
    return cli.console.export_text()


@pytest.mark.slow
def test_a_pendulum_is_run_recorded_and_drawn(tmp_path):
    written = ("--record", tmp_path / "r.npz", "--plot", tmp_path / "f.png", "--video", tmp_path / "f.gif",
               "--json", tmp_path / "t.json", "--csv", tmp_path / "t.csv")  # fmt: skip
    out = run("pendulum", "--links", 3, "--duration", 0.05, *written)
    assert json.loads((tmp_path / "t.json").read_text())["steps"] == "500"
    assert "\nsteps,500\n" in (tmp_path / "t.csv").read_text().replace("\r", "")
    assert "3 links, 3 degrees of freedom" in out and "blocks by newton" in out
    for row in ("steps", "time per step", "real-time factor", "contacts at once", "energy, start → end"):
        assert row in out
    assert "500" in out
    recording = Recording.load(tmp_path / "r.npz", scene=pendulum(3).scene)
    assert len(recording) == 501
    assert np.isclose(recording.time[-1], 0.05)
    assert (tmp_path / "f.png").stat().st_size > 10_000 and (tmp_path / "f.gif").stat().st_size > 10_000


def test_a_robot_of_a_file_is_simulated(tmp_path):
    """A hanging rod under a constant force of its joint; names that are wrong are answered with near ones."""
    (tmp_path / "rod.urdf").write_text(
        '<robot name="rod"><link name="base"/><link name="rod"><inertial><origin xyz="0 0 -1"/><mass value="1"/>'
        '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        '<joint name="hinge" type="continuous"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/>'
        "</joint></robot>"
    )
    (tmp_path / "rod.srdf").write_text(
        '<robot name="rod"><group_state name="bent" group="all"><joint name="hinge" value="1.2"/></group_state></robot>'
    )
    out = run(tmp_path / "rod.urdf", "--root", "fixed", "--control", "hinge=3", "--seconds", 0.1)
    row = next(line for line in out.splitlines() if line.startswith("kinetic energy"))
    assert float(row.split()[-2]) == pytest.approx(0.5 * (3.0 * 0.1) ** 2 / 2.0, rel=0.02)  # inertia of 2 kg m^2
    for further, moves in ((), False), (("--no-hold", "--keyframe", "bent"), True):
        out = run(tmp_path / "rod.urdf", "--root", "fixed", "--seconds", 0.1, *further)
        row = next(line for line in out.splitlines() if line.startswith("kinetic energy"))
        assert ("servos of joints hold it at keyframe bent" in out) != moves
        assert (float(row.split()[-2]) > 0.01) == moves == ("no joint torques" in out)
    wrong = ("--control", "hing=1"), "'hinge'"
    for further, message in wrong, (("--control", "hinge"), "NAME=NUMBER"), (("--hold", "--control", "a=1"), "--hold"):
        with pytest.raises(DelassusError, match=message):
            run(tmp_path / "rod.urdf", "--root", "fixed", *further)
    with pytest.raises(DelassusError, match="a file or robot"):
        run("boxes", "--floor")


@pytest.mark.peer
def test_controls_of_a_keyframe_hold_a_robot_where_it_starts(tmp_path):
    """Servos at the angles of the keyframe; of the same arm without it, and with a control in its place."""
    pytest.importorskip("mujoco")
    (tmp_path / "arm.xml").write_text(
        '<mujoco model="arm"><option gravity="0 0 0"/><worldbody><body><joint name="j" axis="0 1 0"/><geom size=".1" '
        'pos="1 0 0"/></body></worldbody><actuator><position name="servo" joint="j" kp="9"/></actuator>'
        '<keyframe><key name="home" qpos=".5" ctrl=".5"/></keyframe></mujoco>'
    )
    for further, told, moves in (
        (("--keyframe", "home"), "1 actuators with controls of keyframe home", False),
        (("--keyframe", "home", "--control", "servo=0.1"), "keyframe home, servo=0.1", True),
        ((), "1 actuators with controls of zero", False),
    ):
        out = run(tmp_path / "arm.xml", "--seconds", 0.1, *further)
        energy = next(line for line in out.splitlines() if line.startswith("kinetic energy"))
        assert told in out and (float(energy.split()[-2]) > 0.01) == moves


def test_view_shows_a_scene_at_its_start_or_a_recording(tmp_path, monkeypatch):
    shown, none = [], lambda _: None
    page = {"__init__": lambda _, *given: shown.append(given), "wait": none, "stop": none, "url": "http://here"}
    for name, what in page.items():
        monkeypatch.setattr(Viewer, name, what, raising=False)
    run("pendulum", "--links", 12, "--duration", 0.01, "--record", tmp_path / "r.npz")
    for further in (), ("--recording", tmp_path / "r.npz"):
        assert CliRunner().invoke(cli.app, ["view", "pendulum", *map(str, further)]).exit_code == 0
    run("pendulum", "--view", "--port", "8081")
    ways = [(type(player).__name__, port, playing) for player, _, port, playing in shown]
    assert ways == [("Live", 8080, False), ("Replay", 8080, True), ("Live", 8081, True)]
    assert shown[1][0].span == (0.0, 0.01)


def test_names_are_completed(tmp_path, monkeypatch):
    (tmp_path / "pan").mkdir()
    for name in ("pan/arm.urdf", "pan/arm.stl", "pend.xml"):
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)
    for words, found in (
        ("simulate pen", ["pendulum", "pend.xml"]),
        ("simulate ./p", ["./pan/", "./pend.xml"]),
        ("info pan/", ["pan/arm.urdf"]),
        ("info box", []),
    ):
        asked = {"_DELASSUS_COMPLETE": "complete_bash", "COMP_WORDS": f"delassus {words}", "COMP_CWORD": "2"}
        outcome = CliRunner().invoke(cli.app, env=asked, prog_name="delassus")
        assert outcome.output.split() == found


@pytest.mark.slow
def test_a_run_in_two_parts_is_the_whole_run(tmp_path):
    whole, first, second = (tmp_path / f"{name}.npz" for name in ("whole", "first", "second"))
    common = ("pendulum", "--links", 3)
    run(*common, "--duration", 0.4, "--dt", 0.001, "--record", whole, "--seed", 3)
    run(*common, "--duration", 0.2, "--dt", 0.001, "--checkpoint", first, "--seed", 3)
    run(*common, "--duration", 0.2, "--resume", first, "--record", second)
    a, b = Recording.load(whole), Recording.load(second)
    assert np.array_equal(a.q[200:], b.q) and np.array_equal(a.time[200:], b.time)
    assert b.origin.dt == 0.001 and b.origin.seed == 3


@pytest.mark.slow
def test_options_reach_the_simulator(tmp_path):
    out = run("boxes", "--links", 1, "--duration", 0.12, "--formulation", "mc", "--solver", "nsgs", "--dt", 0.002,
              "--record", tmp_path / "r.h5")  # fmt: skip
    assert "mc by nsgs, steps of 2 ms" in out and "contact problems: converged" in out
    origin = Recording.load(tmp_path / "r.h5").origin
    assert (origin.formulation, origin.solver, origin.dt) == ("mc", "nsgs", 0.002)


@pytest.mark.slow
@pytest.mark.parametrize("scene", ["dual-arm", "quadruped"])
def test_the_other_scenes_run(scene):
    assert "contact problems: converged" in run(scene, "--duration", 0.01)


def test_no_time_at_all():
    assert "real-time factor" in run("pendulum", "--links", 3, "--duration", 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pendulun"], "Did you mean 'pendulum'?"),
        (["box"], "Did you mean 'boxes'"),
        (["dual-arm", "--links", "4"], "Leave --links out"),
        (["boxes", "--terrain", "flat"], "Leave --terrain out"),
        (["mppi", "--links", "4", "--terrain", "flat"], "Leave --links out"),
        (["mppi", "--terrain", "step"], "Did you mean 'steps'?"),
        (["pendulum", "--duration", "-1"], "not negative"),
        (["pendulum", "--duration", "nan"], "not negative"),
        (["pendulum", "--dt", "0"], "dt"),
        (["pendulum", "--formulation", "oss"], "Did you mean 'os'?"),
        (["pendulum", "--solver", "lemkey"], "Did you mean 'lemke'?"),
        (["pendulum", "--record", "run.csv"], "ends in .npz or .h5"),
        (["pendulum", "--checkpoint", "run"], "ends in .npz or .h5"),
        (["pendulum", "--plot", "figure.foo"], "ends in .png"),
        (["pendulum", "--video", "film.avi"], "ends in .mp4 or .webp or .gif"),
        (["pendulum", "--view", "--record", "run.npz"], "--record"),
        (["pendulum", "--view", "--plot", "f.png", "--checkpoint", "c.npz"], "--plot, --checkpoint"),
        (["pendulum", "--view", "--duration", "1"], "--duration"),
        (["pendulum", "--resume", "nowhere.npz"], "Check the path"),
        (["pendulum", "--resume", "c.npz", "--dt", "0.1", "--seed", "1"], "--dt, --seed"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(DelassusError) as caught:
        run(*arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize("option", ["--plot", "--video", "--record", "--checkpoint"])
def test_folders_that_cannot_be_made_are_refused_before_any_work(option, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        run("mppi", option, tmp_path / "file" / {"--plot": "run.png", "--video": "run.gif"}.get(option, "run.npz"))


@pytest.mark.slow
def test_warmup(monkeypatch, caplog):
    """Every part is named with its time; afterwards nothing is left to compile for it. No extra is needed."""
    monkeypatch.setattr("delassus.errors.PATIENCE", 0.0)
    monkeypatch.setenv("DELASSUS_COMPILE", "never")
    caplog.set_level("INFO", "delassus")
    for package in ("scipy", "coal", "clarabel", "trimesh"):
        monkeypatch.setitem(sys.modules, package, None)
    for _ in range(2):
        caplog.clear()
        outcome = CliRunner().invoke(cli.app, ["warmup"])
        assert outcome.exit_code == 0
        for part in ("collision", "steps of Simulator", "solver lemke", "solver pgs", "solver nsgs", "solver admm"):
            assert f"{part}: " in outcome.output
    assert "compiling" not in outcome.stderr + caplog.text
