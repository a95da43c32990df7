"""The command line, in this process where it does not matter: to start takes longer than most commands."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import math
import os
import random
import re
import subprocess
import sys
import warnings
from functools import partial
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import numpy as np
import pytest

import delassus as ds
from delassus.cli import main
from delassus.cli.parse import read_configuration
from delassus.errors import ConfigurationError
from internals import cli
from tools import on_a_full_disk

pytestmark = pytest.mark.usefixtures("machine_code")


def run(*arguments: str, status: int = 0) -> str:
    """What a command prints, its errors at the end."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setenv("COLUMNS", "160")
        patch.setattr(cli.console, "width", 160)
        patch.setattr(sys, "argv", ["delassus", *arguments])
        with warnings.catch_warnings(), pytest.raises(SystemExit) as end:
            warnings.simplefilter("default")
            main()
    assert (end.value.code or 0) == status, out.getvalue() + err.getvalue()
    return out.getvalue() + err.getvalue()


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    links = "".join(
        f'<link name="l{k}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
        "</inertial></link>"
        for k in range(4)
    )
    joints = "".join(
        f'<joint name="j{k}" type="revolute"><parent link="l{k}"/><child link="l{k + 1}"/><origin xyz="0 0 0.3"/>'
        f'<axis xyz="{k % 2} {1 - k % 2} 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint>'
        for k in range(3)
    )
    path = tmp_path / "arm.urdf"
    path.write_text(f'<robot name="arm">{links}{joints}</robot>')
    return path


def test_links_without_mass(tmp_path: Path) -> None:
    """Commands that load robots say what is wrong, and do what they are told about it."""
    path, singular = tmp_path / "robot.urdf", "(the mass matrix is singular)"
    path.write_text(re.sub(r"<inertial>.*?</inertial>", "", ds.mechanisms.chain(2).to_urdf(), flags=re.DOTALL))
    file = str(path)
    assert "2 moving links" in run("info", file) and "0 moving links" in run("info", file, "--massless", "lock")
    assert singular in " ".join(run("compute", file, "--weld", "link2", status=2).split())
    assert "rank" in run("compute", file, "--weld", "link2", "--massless", "armature")


@pytest.mark.slow
def test_demo_agrees_and_says_what_to_try(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "from delassus.cli import main; main()",
        "demo",
        "--csv",
        str(tmp_path / "demo.csv"),
    ]
    environment = {**os.environ, "COLUMNS": "160", "NO_COLOR": "1"}
    out = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True, env=environment).stdout
    rows = [row for row in csv.reader((tmp_path / "demo.csv").read_text().splitlines()) if row]
    kept = [row[0] for row in rows[1:]]
    assert kept == [
        *ds.OSIM_METHODS,
        *(["Pinocchio"] if "Pinocchio" in kept else []),
        "compiled, batch",
        "compiled, one",
    ]
    assert all(float(row[-1]) < 1e-9 for row in rows[1:]) and all(name in out for name in kept)
    assert "All methods agree." in out and "Takes about" in out and "Try next:" in out


def test_rows_are_printed_as_they_are_measured(tmp_path: Path) -> None:
    """A row that is measured stands there before the next one is; what follows the table comes at its end."""
    from delassus_studies.registry import publish

    file = io.StringIO()
    record = {"processor": "p", "versions": {"here": "1", "gone": "not installed"}, "times": {}}

    def measured():
        yield record
        assert "p; here 1\nTakes a moment.\n" in file.getvalue() and "gone" not in file.getvalue()
        for k, name in enumerate(("first", "the second")):
            assert name not in file.getvalue()
            record["times"][name] = f"{k}"
            yield record
            assert file.getvalue().splitlines()[-1].split() == [*name.split(), f"{k}"]

    def tables(record):
        yield cli.table("all", ("name", "time"), record["times"].items(), grows=(10,))
        yield "note"

    files, shown = {"file": tmp_path / "r.json", "csv": tmp_path / "r.csv"}, cli.Console(file=file, width=40)
    publish(shown, measured(), tables, **files, takes="a moment")
    assert file.getvalue().count("name") == 1 and "note" in file.getvalue()
    assert json.loads((tmp_path / "r.json").read_text())["times"] == {"first": "0", "the second": "1"}
    assert list(csv.reader((tmp_path / "r.csv").read_text().splitlines()))[2:] == [["first", "0"], ["the second", "1"]]


def test_a_wide_table_is_printed_in_parts() -> None:
    from delassus_studies.claims import show

    names = ["a_name_of_many_letters", "another_name_of_many_letters", "a_third_name_of_many_letters"]
    shown = cli.Console(record=True, width=60, file=io.StringIO())
    show(shown, cli.table("", ("key", *names), [("row", *names)]))
    text = shown.export_text()
    assert all(text.count(name) == 2 for name in names) and text.count("row") == 2


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["80", None])
def test_info_cuts_no_name_and_is_written_to_files(columns: str | None, tmp_path: Path) -> None:
    """In a terminal of 80 columns, and piped."""
    (tmp_path / "humanoid.urdf").write_text(ds.mechanisms.humanoid().to_urdf())
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    environment |= {"NO_COLOR": "1"} | ({"COLUMNS": columns} if columns else {})
    files = "--json", "robot.json", "--csv", "robot.csv"
    command = [sys.executable, "-m", "delassus", "info", "humanoid.urdf", *files]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=True
    )
    tree = ds.load(tmp_path / "humanoid.urdf")
    for name in (*tree.joint_names, *tree.link_names):
        assert name in done.stdout.split(), done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 120 and "…" not in done.stdout
    told = json.loads((tmp_path / "robot.json").read_text())
    assert [link["joint"] for link in told["links"]] == list(tree.joint_names) and told["nv"] == tree.nv
    rows = list(csv.reader((tmp_path / "robot.csv").read_text().splitlines()))
    assert [row[1] for row in rows[: tree.n_links + 1]] == ["joint", *tree.joint_names]


@pytest.mark.peer
def test_info_of_an_mjcf_file(tmp_path: Path) -> None:
    """Limits, springs, actuators, sensors, keyframes and what is left out, in tables and JSON, no limit as null."""
    pytest.importorskip("mujoco")
    (tmp_path / "arm.xml").write_text(
        '<mujoco model="arm"><worldbody><body><joint name="j" limited="true" range="-90 90" stiffness="3" '
        'springref="-60"/><geom size=".1" '
        'pos="1 0 0"/></body></worldbody><actuator><motor name="m" joint="j" gear="3"/></actuator><sensor><jointpos '
        'name="angle" joint="j"/></sensor><keyframe><key name="home" qpos=".5" ctrl=".7"/></keyframe></mujoco>'
    )
    out = run("info", str(tmp_path / "arm.xml"), "--json", str(tmp_path / "arm.json"))
    for row in ("j -1.571 … 1.571 – –", "m 3 j 1 0 0 0 0 0 – –", "angle jointpos j 1", "home – yes –",
                "j 3 -1.047 – – –", "limits of joints, which act in Simulator and contact steps 1 j"):  # fmt: skip
        assert row in [" ".join(line.split()) for line in out.splitlines()], row
    told = json.loads((tmp_path / "arm.json").read_text())
    assert told["limits"]["j"]["effort_limit"] == [None] and told["limits"]["j"]["upper"] == [math.pi / 2]
    assert told["actuators"][0]["transmission"] == {"j": 3.0} and told["sensors"][0]["of"] == "j"
    assert told["springs"]["j"]["stiffness"] == [3.0] and told["report"].popitem()[1] == ["j"] and told["mass"] > 4.0
    assert told["keyframes"]["home"] == {"q": [0.5], "v": [0.0], "ctrl": [0.7], "act": []}


@pytest.mark.slow
def test_what_cannot_be_written_or_read_is_refused_before_any_work(tmp_path: Path) -> None:
    for arguments, words in (
        (("bench", "osim", "--csv", str(tmp_path / "no" / "t.csv")), "a file that can be written"),
        (("bench", "speed", "--json", str(tmp_path)), "got a folder"),
        (("reproduce", "osim", "--robots", str(tmp_path / "no")), "no folder"),
        (("reproduce", "dynamics", "--robots", str(tmp_path)), "a folder with atlas_v4.urdf"),
    ):
        assert words in " ".join(run(*arguments, status=2).split())


def test_robots_are_listed_by_words(tmp_path: Path) -> None:
    """With their licences, and whether their files are here; nothing is fetched, and every name is one that loads."""
    pytest.importorskip("robot_descriptions")
    written = tmp_path / "r.json", tmp_path / "r.csv"
    out = run("robots", "h1", "BSD", "--json", str(written[0]), "--csv", str(written[1]))
    listed = {robot["name"]: robot for robot in json.loads(written[0].read_text())}
    assert {"h1", "h1_mj"} <= listed.keys() and "go1" not in out and "h1_mj,–,MJCF,no,BSD-3" in written[1].read_text()
    first = listed["h1"]
    assert (first["root"], first["form"], first["licence"]) == ("floating", "URDF", "BSD-3-Clause")
    assert first["package"] == "robot_descriptions" and not first["is_here"] and "0 robots" in run("robots", "no such")
    if "example-robot-data" in run("robots", "--here"):
        out = " ".join(run("robots", "go1", "--here").split())
        assert "go1 floating URDF yes MPL-2.0" in out and "robot_descriptions" not in out
        assert "ur5_robot, ur5 fixed URDF yes BSD" in " ".join(run("robots", "ur5_robot").split())


def test_compute_equals_the_library(arm: Path, tmp_path: Path) -> None:
    q = np.array([[0.3, -0.2, 0.5], [0.1, 0.2, 0.3]])
    np.save(tmp_path / "q.npy", q)
    target = tmp_path / "G.npy"
    run("compute", str(arm), "--point", "l3@0.1,0,0.2", "--q", str(tmp_path / "q.npy"), "--out", str(target))
    tree = ds.load(arm)
    expected = ds.delassus(tree, ds.Point(ds.Frame("l3", (0.1, 0, 0.2))), q)
    assert np.allclose(np.load(target), expected, rtol=0, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("dynamics", "--point", "l3", "--method", "pv-early"), ["pv-early", "qdd", "forces"]),
        (("dynamics", "--weld", "l3", "--compliance", "1e-6", "--active"), ["pv-early", "active"]),
        (("inverse_dynamics", "--wrench", "l3@0.1,0,0", "--payload", "l2"), ["wrench0", "payload0"]),
        (("kinematics", "--frame", "l3@0.1,0,0", "--frame", "l2"), ["poses"]),
        (("mass_matrix", "--casadi", "1"), ["joint-space mass matrix", "_mass_matrix_casadi_sparsity_out"]),
        (("contact_step", "--root", "floating", "--contact", "l3@0,0,0.1:0.05"), ["impulses_next", "residuals"]),
        (("step", "--control", "pd"), ["q_next", "v_next", "kp"]),
        (("dynamics_derivatives", "--weld", "l3", "--output", "dqdd_dq", "--output", "qdd"), ["dqdd_dq", "qdd"]),
    ],
)
def test_export_of_dynamics(arm: Path, tmp_path: Path, arguments: tuple[str, ...], words: list[str]) -> None:
    run("export", str(arm), "--what", *arguments, "--out", str(tmp_path))
    (header,) = tmp_path.glob("*.h")
    for word in words:
        assert word in header.read_text()
    assert "--output" not in arguments or "dqdd_dv" not in header.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("info", "no_such_robot_file.urdf"), "a file that exists"),
        (("compute", "ARM", "--weld", "l33"), "Did you mean 'l3'?"),
        (("compute", "ARM", "--point", "l3@1,2"), "three numbers"),
        (("export", "ARM", "--what", "dynamics", "--method", "pv-earl"), "Did you mean 'pv-early'?"),
        (("export", "ARM", "--what", "dynamics", "--frame", "l3"), "Leave it out"),
        (("export", "ARM", "--what", "osim"), "at least one"),
        (("export", "ARM", "--what", "contact_step", "--contact", "l3"), "LINK:RADIUS"),
        (("export", "ARM", "--what", "dynamics", "--contact", "l3:0.1"), "contact_step"),
        (("export", "ARM", "--what", "dynamics", "--control", "torque"), "control"),
        (("export", "ARM", "--what", "mass_matrix", "--control", "pd"), "Leave it out"),
        (("export", "ARM", "--what", "step", "--output", "q_nex"), "Did you mean 'q_next'?"),
        (("compute", "ARM", "--weld", "l3", "--q", "missing.npy"), "an array of numbers"),
    ],
)
def test_bad_input_is_one_message_and_status_2(arm: Path, arguments: tuple[str, ...], message: str) -> None:
    out = " ".join(run(*(str(arm) if a == "ARM" else a for a in arguments), status=2).split())
    assert "error" in out
    assert message in out


def test_studies_are_loaded_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """By an entry point; a command of theirs says why it cannot be loaded, and others do without them."""
    script = "import sys\nfrom delassus.cli import main\ntry:\n    main()\nfinally:\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}    print('delassus_studies' in sys.modules)", "compute", "--help"],
        capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    assert done.stdout.endswith("False\n") and "Usage" in done.stdout
    missing = EntryPoint("studies", "no_such_module:app", "delassus.commands")
    for found, came in (((), "got none"), ((missing,), "No module named 'no_such_module'")):
        cli._studies.cache_clear()
        monkeypatch.setattr(cli, "entry_points", lambda group, found=found: EntryPoints(found))
        assert "Commands" in run("--help") and "Cannot be loaded" in run("bench", "--help")
        out = " ".join(run("bench", "osim", "--quick", status=2).split())
        assert "expected the package 'delassus_studies'" in out and came in out
    cli._studies.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("command", [["simulate"], ["bench", "osim"], ["reproduce", "osim"]])
def test_help_names_extras(command: list[str]) -> None:
    """The terminal's markup takes what is in square brackets for a style and shows nothing."""
    out = run(*command, "--help")
    assert "needs ." not in out
    assert "needs the extra" in out


def test_stem_claim_of_equal_counts_with_one_branch() -> None:
    from delassus_studies.claims.osim import stem_count

    assert stem_count(10, 1, 7, "pv-osimr") == stem_count(10, 1, 7, "pv-osim")
    assert stem_count(40, 4, 7, "pv-osimr") < stem_count(40, 4, 7, "pv-osim")


def test_damaged_files_of_configurations(tmp_path):
    """Flipped bits, headers that claim too much or hold no numbers: they load, or are refused by the one error."""

    def header(shape, dtype="<f8"):
        file = io.BytesIO()
        np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
        return file.getvalue()

    path, rng = tmp_path / "q.npy", random.Random(0)
    np.save(path, np.arange(12.0).reshape(3, 4))
    whole = path.read_bytes()
    assert np.array_equal(read_configuration(path), np.arange(12.0).reshape(3, 4))
    deep = np.lib.format.magic(1, 0) + (9000).to_bytes(2, "little") + b"(" * 9000
    bad = [b"", deep, header((10**13,)), header((10**30,)), header((-4,))]
    bad += [header((3,), dtype) + bytes(48) for dtype in ("|O", "<c16", "<M8[s]", "|S8", [("a", "<f8")])]
    for content in bad:
        path.write_bytes(content)
        with pytest.raises(ConfigurationError, match=r"q\.npy.*an array of numbers"):
            read_configuration(path)
    for _ in range(200):
        content = bytearray(whole)
        content[rng.randrange(128)] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        with contextlib.suppress(ConfigurationError):
            assert read_configuration(path).dtype == float


@pytest.mark.slow
def test_names_do_nothing_to_the_terminal(tmp_path: Path) -> None:
    """Neither markup, nor hyperlinks, nor characters that move the cursor or turn the reading direction."""
    names = ["[/]", "[link=http://evil]click[/link]", "[bold]b", ":smile:"]
    inertial = '<inertial><mass value="1"/><inertia ixx="5" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    links = "".join(f'<link name="{name}">{inertial}</link>' for name in names)
    joints = "".join(
        f'<joint name="{b}{a}" type="revolute"><parent link="{a}"/><child link="{b}"/><mimic joint="x"/></joint>'
        for a, b in itertools.pairwise(names)
    )
    path = tmp_path / "[bold]d\u202ee.urdf"
    path.write_text(f'<robot name="[/]{names[1]}">{links}{joints}</robot>')
    shown = run("info", str(path), "--frames")
    outputs = [shown, run("compute", str(path), "--point", names[1])]
    path.write_text(f'<robot name="r"><link name="[/]c\x9b31m\u202e">{inertial}</link></robot>')
    outputs += [run("info", str(path), status=2), run("info", "[/]\x9b31m\u202e.urdf", status=2)]
    assert all(c.isprintable() or c == "\n" for output in outputs for c in output), outputs
    assert all(name in shown for name in [f"[/]{names[1]}: 3 moving links", *names])
    assert "[/]c\\x9b31m\\u202e" in outputs[2] and "[/]\\x9b31m\\u202e.urdf" in outputs[3]


@pytest.mark.slow
def test_files_that_cannot_be_written(arm: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "error" in run("export", str(arm), "--weld", "l3", "--out", str(tmp_path / "file" / "folder"), status=2)
    assert "error" in run("compute", str(arm), "--weld", "l3", "--out", str(tmp_path / "no" / "G.npy"), status=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["t.json", "t.csv", "G.npy", "delassus.ptx"])
def test_files_that_do_not_fit_on_the_disk(name: str, tmp_path: Path) -> None:
    """What was there stays as it was, and nothing lies beside it."""
    robot, files = str(tmp_path / "robot.urdf"), tmp_path / "files"
    Path(robot).write_text(ds.mechanisms.chain(1 if name == "delassus.ptx" else 40).to_urdf())
    files.mkdir()
    welds = [f"link{k}" for k in (3, 6, 9, 12)]
    call = {
        "t.json": partial(cli.info, robot, file=files / name),
        "t.csv": partial(cli.info, robot, frames=True, csv=files / name),
        "G.npy": partial(cli.compute, robot, weld=welds, method="efpa", seed=0, out=files / name),
        "delassus.ptx": partial(cli.export, robot, point=["link1"], what="mass_matrix", casadi=0, ptx=True, out=files),
    }[name]
    call()
    (path,) = files.iterdir()
    before = path.read_bytes()
    assert len(before) > 1000
    said = on_a_full_disk(call)
    assert path.name in said and "expected a file that can be written" in said
    assert [*files.iterdir()] == [path] and path.read_bytes() == before


def test_pipes_and_links_stay_what_they_are(arm: Path, tmp_path: Path) -> None:
    pipe, real, link = (tmp_path / name for name in ("pipe", "real.json", "link.json"))
    os.mkfifo(pipe)
    link.symlink_to(real)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    run("info", str(arm), "--json", str(pipe))
    run("info", str(arm), "--json", str(link))
    assert os.read(reader, 2**16) == real.read_bytes() and json.loads(real.read_text())["name"] == "arm"
    assert pipe.is_fifo() and link.is_symlink()
    os.close(reader)


@pytest.mark.slow
def test_constraints_of_the_file(tmp_path: Path) -> None:
    """They are shown, and count where none are given."""
    inertial = '<inertial><mass value="1"/><inertia ixx="5" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    links = "".join(f'<link name="{name}">{inertial}</link>' for name in "abc")
    joints = "".join(
        f'<joint name="{b}" type="continuous"><parent link="{a}"/><child link="{b}"/>{mimic}</joint>'
        for a, b, mimic in (("a", "b", ""), ("b", "c", '<mimic joint="b"/>'))
    )
    path = tmp_path / "hand.urdf"
    path.write_text(f'<robot name="hand">{links}{joints}</robot>')
    assert "JointRows c, b 1" in " ".join(run("info", str(path)).split())
    assert "rows of JointRows('c', 'b', 1 rows)" in run("compute", str(path))
