"""What the documents say runs: README, examples, docstrings, CI."""

from __future__ import annotations

import doctest
import importlib
import os
import re
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import typer.main
from typer.testing import CliRunner

import delassus
from delassus_studies.bench import compile as bench_compile
from delassus_studies.bench import errors, scaling
from delassus_studies.bench.contact import derivatives, problems
from delassus_studies.bench.contact.steps import StepCase
from generated import with_jax
from internals import cli

pytestmark = pytest.mark.usefixtures("machine_code")

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
METHODS_PAGE = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
COMMANDS_PAGE = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_readme_python_blocks_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README + METHODS_PAGE, re.S)
    scopes: list[dict[str, Any]] = [{} for _ in blocks]
    for block, scope in zip(blocks, scopes, strict=True):
        exec(compile(block, "README.md or docs/methods.md", "exec"), scope)
    matrices, dynamics, contact = scopes
    G, robot = matrices["G"], matrices["robot"]
    assert G.shape == (4096, 12, 12)
    by_numpy = delassus.delassus(robot, matrices["feet"], robot.random(0, batch=4096))
    assert np.abs(by_numpy - G).max() < 1e-12 * np.abs(G).max()
    assert dynamics["qs"].shape[:2] == (51, 100)
    assert np.allclose(dynamics["qdd"], dynamics["solution"].qdd)
    assert contact["sim"].impulses[:, 2].sum() / 1e-3 == pytest.approx(2.0 * 9.81)
    assert contact["solution"].status.name == "CONVERGED"


@pytest.mark.slow
def test_snippets_on_contact_steps_run(capsys: pytest.CaptureFixture[str]) -> None:
    """The blocks of that page are one program."""
    scope: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "contact_steps.md").read_text("utf-8"), re.S):
        exec(compile(block, "contact_steps.md", "exec"), scope)
    assert scope["residuals"].max() < 1e-4 and scope["worst"].max() < 1e-3
    assert np.mean(scope["status"] == delassus.DynamicsStatus.SOLVED) > 0.99
    assert np.abs(scope["v_log"]).max() > 0.1 and np.all(scope["q_log"][:, 2] > 0.04)
    assert "payload0" in capsys.readouterr().out


@pytest.mark.slow
def test_snippets_on_optimal_control_run(capsys: pytest.CaptureFixture[str]) -> None:
    """The blocks of that page are one program; the last one needs fewer iterations with second derivatives."""
    pytest.importorskip("casadi")
    scope: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "optimal_control.md").read_text("utf-8"), re.S)
    for block in blocks:
        exec(compile(block, "optimal_control.md", "exec"), scope)
    assert len(blocks) == 3 and scope["symbolic"].jacobian().n_instructions() > 0
    first, second = re.findall(r"(\d+) iterations to ([\d.]+)", capsys.readouterr().out)
    assert int(second[0]) <= int(first[0]) and abs(float(second[1]) - float(first[1])) < 1e-4


PAGE_OF_ARRAYS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "arrays.md").read_text("utf-8"), re.S)


@pytest.mark.slow
@pytest.mark.parametrize("block", PAGE_OF_ARRAYS, ids=("jax", "torch", "numpy", "second"))
def test_snippets_on_arrays_run(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    for package in ("jax", "torch"):
        if f"import {package}" in block:
            pytest.importorskip(package)
    try:
        exec(compile(block, "arrays.md", "exec"), {})
    finally:
        if "jax" in sys.modules:
            sys.modules["jax"].config.update("jax_enable_x64", False)
    assert "100" in capsys.readouterr().out


def test_readme_names_every_method() -> None:
    for method in (*delassus.OSIM_METHODS, *delassus.DYNAMICS_METHODS):
        assert f"`{method}`" in METHODS_PAGE


def test_readme_names_files_that_exist() -> None:
    for path in re.findall(r"`((?:docs|src|tests|benchmarks)/[^`]*)`", README + METHODS_PAGE):
        assert (ROOT / path).exists(), path
    for path in re.findall(r"\]\(([^):#]+)", README):
        assert (ROOT / path).exists(), path
    for name in re.findall(r"`(\w+\.py)`", METHODS_PAGE):
        assert list((ROOT / "src" / "delassus" / "algorithms").rglob(name)), name


# -- shell lines ---------------------------------------------------------------------------------------------------

BLOCKS = re.findall(r"```sh\n(.*?)```", README + COMMANDS_PAGE, re.S)
LINES = [line.split("  #")[0].strip() for block in BLOCKS for line in block.splitlines()]
FIRST, *INSTALL = [line for line in LINES if "pip install" in line]
NAMED = (*LINES, *re.findall(r"`(delassus [^`]+)`", README + METHODS_PAGE))
COMMANDS = [line for line in dict.fromkeys(NAMED) if line.startswith("delassus ")]
SHORTER = {"bench scaling": [], "bench compile": [], "bench": ["--quick"], "audit": ["--seconds", "0.2"],
           "reproduce '": ["--quick", "--as-published"], "reproduce": ["--quick"],
           "simulate": ["--duration", "0.05"]}  # fmt: skip
"""Documented options that make a command of the README short; a simulation that is shown has no duration."""


def test_ci_runs_exactly_the_readme_test_command() -> None:
    commands = [line for line in INSTALL if "-m pytest" in line]
    assert len(commands) == 1
    assert commands[0] in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_the_other_install_command_differs_in_extras_and_in_what_it_runs() -> None:
    """What CI runs is the second; of the first, the extras exist, and the command at its end is tested below."""
    assert FIRST == "pip install delassus"
    install, test = INSTALL
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (extras,) = re.findall(r"'\.\[(.*?)\]'", install)
    assert set(extras.split(",")) <= set(declared)
    expected = test.replace("-e '.[test]'", f"'.[{extras}]'").replace(".venv-test", ".venv")
    assert install == expected.replace("python -m pytest -n 2", "delassus demo")
    assert "delassus demo" in COMMANDS
    beside = re.findall(r"# .*?\[([a-z,]+)\]", COMMANDS_PAGE)
    assert beside and {extra for names in beside for extra in names.split(",")} <= set(declared)


@pytest.mark.slow
@pytest.mark.parametrize("line", COMMANDS)
def test_readme_commands_parse_as_they_stand(line: str) -> None:
    command: Any = typer.main.get_command(cli.app)
    name, words = "delassus", shlex.split(line)[1:]
    while hasattr(command, "resolve_command"):
        name, command, words = command.resolve_command(command.context_class(command), words)
    with command.make_context(name, list(words)) as context:
        assert not context.args


def shorter(line: str) -> list[str]:
    """Options that make a command short."""
    return next((options for name, options in SHORTER.items() if line.startswith(f"delassus {name}")), [])


def started(line: str, folder: Path, *options: str) -> subprocess.Popen[str]:
    """A command of the README in a process of its own, in an empty folder."""
    command = [sys.executable, "-m", "delassus", *shlex.split(line)[1:], *options]
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


FAMILIES = {"n": (scaling.chain_of, (5, 10), 1), "m": (scaling.stem_with, (1, 2), 6)}
SMALLER: dict[str, tuple[Any, dict[str, object]]] = {
    "delassus bench scaling": (
        scaling,
        {"STEM": (4, 3, 1), "FAMILIES": FAMILIES, "ROUNDS": 3, "MOST_STATES": 64},
    ),
    "delassus bench compile": (bench_compile, {"LINKS": (5, 10)}),
    "delassus bench contact-derivatives": (derivatives, {"step_cases": lambda quick: [one_leg()]}),
    "delassus bench contact-problems": (problems, {"KERNELS": ("pgs, float64", "nsgs, float32")}),
    "delassus bench errors --plot figures": (errors, {"METHODS": ("pv-early",), "ORACLES": ("pv", "ltl")}),
}
"""Mechanisms, and fewer methods, of benchmarks that compile long programs."""

ELSEWHERE = (
    "delassus demo",  # test_cli.py
    "delassus bench gpu --check",  # on a fake device in test_bench_gpu.py
    "delassus reproduce --quick",  # all claims, both ways, in test_claims.py, the option with one claim
    "delassus reproduce IFToMM",
    "delassus reproduce osim",
    "delassus reproduce osim --as-published",
    "delassus reproduce --plot figures",  # figures in test_claims.py
    "delassus simulate mppi --terrain steps --plot walk.png",  # the terrain with --video, the figure on flat ground
)
"""Commands whose parts run in other tests."""


def one_leg() -> StepCase:
    """What stands for Go1: a hub with a leg."""
    tree = delassus.mechanisms.star(1, 1)
    foot = delassus.Contact(tree.link_names[1], delassus.contact.Sphere(0.1))
    gains = np.zeros(tree.nv), np.r_[np.zeros(6), np.ones(tree.nv - 6)]
    return StepCase("Go1", tree, (foot,), tree.neutral(), gains, {"limits": False, "passive": "none"})


@pytest.mark.slow
@pytest.mark.parametrize("line", SMALLER)
def test_readme_commands_run_on_smaller_mechanisms(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert line in COMMANDS
    module, smaller = SMALLER[line]
    for name, value in smaller.items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli.app, [*shlex.split(line)[1:], *shorter(line)])
    assert done.exit_code == 0 and len(done.output.splitlines()) > 1, done.output
    assert len([*tmp_path.rglob("*.png")]) == line.count("--plot")


SCENE = """<mujoco><worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 0.1"><freejoint/>
<geom type="box" size="0.1 0.1 0.1"/></body></worldbody></mujoco>"""
CONTACT = "3 1 0 3 3 3 3 1.0 0.0 0.0 0.0 1.0 0.0 0.0 0.0 1.0 -1.0 0.3 0.2 0.5"


def with_files(folder: Path) -> None:
    """What commands that take files of the user's are run on."""
    (folder / "scene.xml").write_text(SCENE)
    (folder / "FOLDER").mkdir()
    (folder / "FOLDER" / "problem.dat").write_text(CONTACT)
    states = np.zeros((24, 13))
    states[:, 2], states[:, 3] = np.linspace(3.0, 2.5, 24), 1.0
    with (folder / "FILE").open("wb") as file:
        np.savez(file, states=states, lengths=[12, 12])


RUN = [line for line in COMMANDS if not re.search(r"\bview\b", line) and line not in (*SMALLER, *ELSEWHERE)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::delassus.DelassusWarning")  # which commands print
@pytest.mark.parametrize("line", RUN)
def test_readme_commands_run(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    with with_jax():  # some ask it for numbers of 64 bits
        done = CliRunner().invoke(cli.app, [*shlex.split(line)[1:], *shorter(line)])
    out = done.output
    assert done.exit_code == 0, f"{out}{done.exception!r}"
    assert len(out.splitlines()) > 1
    for word, suffix in (
        ("figures", ".png"),
        ("c", ".c"),
        ("ptx", ".ptx"),
        ("boxes.npz", ""),
        ("pendulum.png", ""),
        ("walk.png", ""),
    ):
        if word in shlex.split(line):
            made = tmp_path / word
            assert made.is_file() or any(path.suffix == suffix for path in made.iterdir()), out


@pytest.mark.slow
def test_readme_command_that_shows_a_scene_serves_its_page(tmp_path: Path) -> None:
    (line,) = (line for line in COMMANDS if "--view" in line)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = started(line, tmp_path, "--port", str(port))
    try:
        assert process.stdout is not None
        said = ""
        while "Open http" not in said:
            said = process.stdout.readline()
            assert said, "it ended"
        with urllib.request.urlopen(f"http://localhost:{port}", timeout=60) as page:
            assert page.status == 200
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=60)
        finally:
            process.kill()


HIDDEN = """
import sys
sys.modules.update(dict.fromkeys({hidden}))  # as if they were not installed
if "robot_descriptions" in {hidden}:
    from delassus import load
    load.__globals__["robot_file"].__globals__["example_robot_files"] = dict
import runpy
runpy.run_module("delassus", run_name="__main__", alter_sys=True)
"""


@pytest.mark.turns(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "packages", "extra"),
    [
        ("bench osim --plot figures", {"matplotlib"}, "plot"),
        ("reproduce osim --plot figures", {"matplotlib"}, "plot"),
        ("simulate boxes --plot f.png", {"matplotlib"}, "plot"),
        ("simulate boxes --record f.h5", {"h5py"}, "record"),
        ("simulate boxes --record f.mcap", {"mcap"}, "mcap"),
        ("simulate boxes --video f.mp4", {"imageio_ffmpeg"}, "video"),
        ("simulate boxes --view", {"viser"}, "view"),
        ("info go1", {"robot_descriptions"}, "robots"),
        ("bench contact-steps --quick", {"robot_descriptions"}, "robots"),
        ("info robot.xml", {"mujoco"}, "mjcf"),
    ],
)
def test_a_missing_extra_is_named_before_any_work(
    arguments: str, packages: set[str], extra: str, tmp_path: Path
) -> None:
    (tmp_path / "robot.xml").write_text("<mujoco/>")
    script = HIDDEN.format(hidden=packages)
    command = [sys.executable, "-c", script, *arguments.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"pip install 'delassus[{extra}]'" in " ".join(done.stderr.split()) and not done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["robot.xml"]


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda p: p.stem)
def test_scripts_of_benchmarks_start(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    monkeypatch.syspath_prepend(str(path.parent))
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(path), run_name="__main__")
    assert not end.value.code and "usage:" in capsys.readouterr().out.lower()


# -- examples ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_example_runs(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    short = {
        "train": ["--minutes", "0.02"],
        "plan_contacts": ["--by", "mppi", "--seconds", "0.1"],
        "trot_predictive": ["--seconds", "1.6"],  # of which the last tenth is under the push
    }
    monkeypatch.setattr(sys, "argv", [str(path), *short.get(path.stem, [])])
    monkeypatch.syspath_prepend(str(path.parent))
    monkeypatch.setenv("CFLAGS", "-O0")
    with mock.patch.dict(os.environ):
        runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


SOURCES = ROOT / "src"
WITH_EXAMPLES = sorted(path for path in SOURCES.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda p: p.stem)
def test_examples_in_docstrings_run(path: Path) -> None:
    name = ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")
    outcome = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert outcome.attempted > 0 and outcome.failed == 0
