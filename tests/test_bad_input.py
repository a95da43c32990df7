"""Whatever is handed over, the answer is right or a `DelassusError` says what was wrong and what to do."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import os
import pickle
import re
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import delassus as ds
from delassus.errors import (
    ConfigurationError,
    ConstraintError,
    MissingDependencyError,
    ModelError,
    UnknownNameError,
    missing_dependency,
)
from internals import (
    RawJoint,
    RawLink,
    about_centre,
    build_tree,
    inertia_defects,
    joint_kinds,
    nearest_inertia,
    robot_names,
)
from tools import Hostile, urdf_joint


def check_four_parts(error):
    """The four parts of STYLE: what was wrong, what was expected, what came, what to do; all in one readable line."""
    for part in (error.argument, error.expected, error.got, error.advice):
        assert isinstance(part, str) and part.strip()
        assert part in str(error)
    assert "\n" not in str(error)
    assert len(str(error)) < 1500
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and str(copy) == str(error)


@contextmanager
def refused(match, kind=ModelError):
    """Expect an error of exactly this class, whose text matches, with all of its parts."""
    with pytest.raises(ds.DelassusError, match=match) as caught:
        yield caught
    assert type(caught.value) is kind
    check_four_parts(caught.value)


# -- files ---------------------------------------------------------------------------------------------------------

INERTIAL = '<inertial><mass value="2"/><inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial>'


def link(name, inertial=INERTIAL):
    return f'<link name="{name}">{inertial}</link>'


def joint(name, parent, child, kind="revolute", inside='<axis xyz="0 0 1"/>'):
    return urdf_joint(name, parent, child, kind, inside)


def robot(*parts, name="r"):
    return f'<robot name="{name}">{"".join(parts)}</robot>'


TWO_LINKS = robot(link("a"), link("b"), joint("j", "a", "b"))
DOCTYPE = '<!DOCTYPE robot [<!ENTITY e "a">]>'
EXTERNAL = '<!DOCTYPE robot [<!ENTITY e SYSTEM "file:///etc/hostname">]>'
EXTERNAL_SUBSET = '<!DOCTYPE robot SYSTEM "http://localhost:9/robot.dtd">'


def billion_laughs():
    names = ["lol", *(f"lol{k}" for k in range(1, 12))]
    entities = '<!ENTITY lol "lol">' + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in itertools.pairwise(names))
    return f'<!DOCTYPE robot [{entities}]><robot name="&{names[-1]};">&{names[-1]};</robot>'


def quadratic_blowup():
    return f'<!DOCTYPE robot [<!ENTITY a "{"a" * 100_000}">]><robot name="r">{"&a;" * 10_000}</robot>'


@pytest.fixture
def load_text(tmp_path):
    """Load a description from a file of that text."""

    def load(text, suffix=".urdf", **options):
        path = tmp_path / f"robot{suffix}"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return ds.load(path, **options)

    return load


def test_the_good_file_loads(load_text):
    assert load_text(TWO_LINKS).nv == 1


@pytest.mark.parametrize(
    ("text", "match"),
    [
        pytest.param("", "expected well-formed XML", id="empty"),
        pytest.param("   \n", "expected well-formed XML", id="blank"),
        pytest.param(bytes(range(256)) * 64, "expected well-formed XML", id="binary"),
        pytest.param(b"\x00" * 4096, "expected well-formed XML", id="zeros"),
        pytest.param(b"\x7fELF\x02\x01\x01" + b"\0" * 64, "expected well-formed XML", id="program"),
        pytest.param("name: robot\nlinks: []\n", "expected well-formed XML", id="yaml"),
        pytest.param(TWO_LINKS[:-9], "expected well-formed XML", id="cut off"),
        pytest.param(TWO_LINKS + TWO_LINKS, "expected well-formed XML", id="two roots elements"),
        pytest.param('<robot name="&e;"/>', "expected well-formed XML", id="undeclared entity"),
        pytest.param('<?xml version="1.0" encoding="klingon"?><robot/>', "expected well-formed XML", id="encoding"),
        pytest.param('<?xml version="1.0" encoding="utf-7"?><robot/>', "expected well-formed XML", id="utf-7"),
        pytest.param("<robot name='\ud800'/>".encode("utf-8", "surrogatepass"), "well-formed XML", id="surrogate"),
        pytest.param(DOCTYPE + TWO_LINKS, "got a <!DOCTYPE", id="entity"),
        pytest.param((DOCTYPE + TWO_LINKS).encode("utf-16"), "got a <!DOCTYPE", id="entity utf-16"),
        pytest.param((DOCTYPE + TWO_LINKS).encode("utf-16-be"), "got a <!DOCTYPE", id="entity utf-16 big-endian"),
        pytest.param(EXTERNAL + '<robot name="&e;"/>', "got a <!DOCTYPE", id="external entity"),
        pytest.param(EXTERNAL_SUBSET + TWO_LINKS, "got a <!DOCTYPE", id="external subset"),
        pytest.param("<!DOCTYPE robot>" + TWO_LINKS, "got a <!DOCTYPE", id="bare doctype"),
        pytest.param(billion_laughs(), "got a <!DOCTYPE", id="billion laughs"),
        pytest.param(billion_laughs().encode("utf-16"), "got a <!DOCTYPE", id="billion laughs utf-16"),
        pytest.param(quadratic_blowup(), "got a <!DOCTYPE", id="quadratic blowup"),
        pytest.param("<launch/>", r"a <robot> \(URDF\), <sdf> .SDF. or <mujoco> .MJCF., got a <launch>", id="launch"),
        pytest.param(f"<{'x' * 10_000}/>", "got a <xxx", id="long element name"),
        pytest.param("<a>" * 100_000 + "</a>" * 100_000, "nested at most 1000 deep", id="deep"),
        pytest.param(robot("<a>" * 100_000 + "</a>" * 100_000), "nested at most 1000 deep", id="deep in a robot"),
        pytest.param("<robot>" * 100_000, "nested at most 1000 deep", id="deep and never closed"),
    ],
)
def test_files_that_are_no_description(load_text, text, match):
    with refused(match):
        load_text(text)


DECLARATION = '<?xml version="1.0"?>'
"""At the start of most files."""

MENDED = {
    "white space before the declaration": f"\n\t {DECLARATION}{TWO_LINKS}",
    "text before an XML declaration": f"{DECLARATION}<!-- a -->{DECLARATION}{TWO_LINKS}",
    "-- in a comment": TWO_LINKS.replace("<joint", "<!-- a -- b <c> --><!-- d ---><joint"),
    "text in Latin-1": f"{DECLARATION}<!-- 20 \xb0C, \x93so\x94 -->{TWO_LINKS}".encode("latin-1"),
    "closing tag </robot> too many": f"{DECLARATION}{TWO_LINKS}</robot>",
    "closing tag </worldbody> too many, closing tag </robot> too many": f"{TWO_LINKS}</worldbody>\n</robot>\n",
    "closing tag </link> too many": TWO_LINKS.replace("<joint", "</link><joint"),
    "& or < as such": TWO_LINKS.replace("<joint", "<gazebo x='a < b & c &lt; \"d\"'>e & f &amp;</gazebo><joint", 1),
    "attributes without space between them": TWO_LINKS.replace('" type', '"type'),
}
"""Files that are no well-formed XML, by what the warning says is mended."""


@pytest.mark.parametrize("mends", MENDED)
def test_xml_as_other_readers_take_it(load_text, mends):
    """The robot is the one of the well-formed file, whatever is mended, and the warning names it."""
    with pytest.warns(ds.DelassusWarning, match=f"robot.urdf.* is no well-formed XML, .*: {re.escape(mends)}$"):
        tree = load_text(MENDED[mends])
    assert tree.fingerprint == load_text(TWO_LINKS).fingerprint


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (f" {DECLARATION}{DOCTYPE}{TWO_LINKS}", "got a <!DOCTYPE"),
        (f"<!-- -- -->{billion_laughs()}", "got a <!DOCTYPE"),
        (f" {DECLARATION}{TWO_LINKS[:-9]}", "well-formed XML, got XML or text declaration not at start"),
        (f" {DECLARATION}{TWO_LINKS}{TWO_LINKS}", "expected well-formed XML"),
        (f" {DECLARATION}{TWO_LINKS}text", "expected well-formed XML"),
        (TWO_LINKS.replace("</link>", "", 1), "expected well-formed XML, got mismatched tag"),
        (TWO_LINKS.replace("</robot>", "</robot></robot><link name='c'/>"), "expected well-formed XML"),
        (TWO_LINKS.replace('"b"', '"\x93b"').encode("latin-1"), "expected well-formed XML"),
        (f" {DECLARATION}" + "<a>" * 2000 + "</b>" * 100_000, "expected well-formed XML"),
        (f" {DECLARATION}" + "<a " + "b='' " * 100_000 + "=", "expected well-formed XML"),
        (" <!--" * 100_000, "expected well-formed XML"),
    ],
)
def test_xml_that_is_not_mended(load_text, text, match):
    """Document types, and faults whose meaning is not clear; the error is that of the file as it is."""
    with refused(match):
        load_text(text)


@pytest.mark.parametrize(
    ("suffix", "match"),
    [
        (".mjb", "MuJoCo's binary format .*from_binary_path"),
        (".stl", "a mesh"),
        (".osim", "OpenSim"),
        (".yaml", "YAML .*load_parallel"),
    ],
)
def test_other_formats_are_named(load_text, tmp_path, suffix, match):
    with refused(f"robot{suffix}.*: expected a URDF, SDF, MJCF or OpenUSD file, got {match}"):
        load_text(b"\0binary", suffix)
    with refused("expected a file that exists"):
        ds.load(f"nowhere/robot{suffix}")


@pytest.mark.parametrize(("root", "form"), [("COLLADA", "a mesh"), ("launch", "a ROS launch file")])
def test_other_formats_of_xml_are_named(load_text, root, form):
    with refused(f"got a <{root}>: {form}"):
        load_text(f"<{root}/>")


@pytest.mark.parametrize("suffix", [".xml", ".txt"])
def test_files_of_any_name_that_are_no_description(load_text, suffix):
    with refused("expected well-formed XML"):
        load_text("", suffix)
    with refused("got a <!DOCTYPE"):
        load_text(DOCTYPE + TWO_LINKS, suffix)


def test_expansion_does_not_take_memory(tmp_path):
    """In a process that may not use more than 200 MB beyond what it needs to start."""
    bombs = [billion_laughs(), quadratic_blowup(), "<a>" * 2_000_000, robot("<visual>" * 990 + "</visual>" * 990)]
    for k, bomb in enumerate(bombs):
        (tmp_path / f"bomb{k}.urdf").write_text(bomb)
    script = """if True:
        import resource, sys
        import delassus as ds
        pages = int(open("/proc/self/statm").read().split()[0])
        limit = pages * resource.getpagesize() + 200_000_000
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        for path in sys.argv[1:]:
            try:
                ds.load(path)
            except ds.DelassusError as error:
                print("refused", error.expected)
    """
    if not Path("/proc/self/statm").exists():
        pytest.skip("the size of a process is read from /proc")
    paths = [str(tmp_path / f"bomb{k}.urdf") for k in range(len(bombs))]
    run = subprocess.run([sys.executable, "-c", script, *paths], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("refused") == 4, run.stdout  # the last one declares no links


def test_paths(tmp_path, monkeypatch):
    (tmp_path / "folder.urdf").mkdir()
    (tmp_path / "dangling.urdf").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop.urdf").symlink_to(tmp_path / "loop.urdf")
    for path, match in {
        tmp_path / "absent.urdf": "absent.urdf'?: expected a file that exists, got none",
        str(tmp_path / "absent.xml"): "absent.xml'?: expected a file that exists, got none",
        Path("talos"): "expected a file that exists, got none",
        tmp_path: "expected a file that exists, got a directory",
        str(tmp_path / "folder.urdf"): "expected a file that exists, got a directory",
        **dict.fromkeys(("x" * 5000 + ".urdf", "a\0b.urdf", "\udcff.urdf"), "expected a file that exists"),
        **dict.fromkeys((tmp_path / "dangling.urdf", tmp_path / "loop.urdf"), "expected a file that exists"),
    }.items():
        with refused(match):
            ds.load(path)
    secret = tmp_path / "secret.urdf"
    secret.write_text(TWO_LINKS)

    def denied(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", denied)
    with refused("a file that can be read, got .*Permission denied"):
        ds.load(secret)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.urdf")
    with refused("expected a file that exists"):
        ds.load(tmp_path / "pipe.urdf")


def test_large_files(tmp_path, load_text):
    with (tmp_path / "sparse.urdf").open("wb") as file:
        file.truncate(10**11)
    with refused(r"sparse.urdf'?: expected at most 1e\+08 bytes, got 1e\+11. Load it with a larger max_bytes"):
        ds.load(tmp_path / "sparse.urdf")
    with refused("expected at most 100 bytes"):
        load_text(TWO_LINKS, max_bytes=100)
    assert load_text(TWO_LINKS, max_bytes=float("inf")).nv == 1
    for bad in (0, -1, None, "1e9", np.nan):
        with refused("max_bytes: expected a positive number"):
            load_text(TWO_LINKS, max_bytes=bad)


@pytest.mark.parametrize("name", ["x" * 10_000, "a\x9b31m", "a\u202eb", "[/]", "[link=http://evil]", "a\u2028b\u200b"])
def test_names_in_messages(load_text, name):
    """Messages show names of any length and of any characters, so that a terminal does nothing but print them."""
    with refused("expected a child link that exists") as caught:
        load_text(robot(link("a"), joint("j", "a", name)))
    with pytest.warns(ds.DelassusWarning, match="not positive semidefinite|…") as warned, suppress(ModelError):
        load_text(robot(link("a"), link(name, inertial(ixx="-0.1", iyy="1")), joint("j", "a", name)))
    for text in (str(caught.value), str(warned[0].message)):
        assert text.isprintable() and len(text) < 1500


@pytest.mark.parametrize("thing", [None, 3, 2.5, b"robot.urdf", [], {}, object(), np.zeros(3), TWO_LINKS.encode()])
def test_things_that_are_no_robot(thing):
    with refused("robot: expected a path, the text of a description, a name, or a model of Pinocchio or MuJoCo"):
        ds.load(thing)


def test_names_of_robots():
    pytest.importorskip("robot_descriptions")
    with refused("robot name or file: .*Did you mean 'talos", UnknownNameError):
        ds.load("tallos")
    with refused("robot name or file: .*Did you mean 'panda'", UnknownNameError):
        ds.load("Pandaa")
    for nonsense in ("", "  ", "a\0b", "x" * 5000, "../" * 2000, "robot; rm -rf /", "os", "__init__"):
        with refused("robot name or file", UnknownNameError):
            ds.load(nonsense)


def test_missing_packages_name_the_pip_command(monkeypatch):
    check_four_parts(missing_dependency("mujoco", "mjcf", "reading MJCF"))
    monkeypatch.setattr(robot_names, "example_robot_files", dict)
    monkeypatch.setattr(robot_names, "find_spec", lambda _: None)
    with refused("robot 'talos': .*pip install 'delassus\\[robots\\]'", MissingDependencyError):
        ds.load("talos")


def test_a_robot_that_cannot_be_fetched(monkeypatch):
    monkeypatch.setattr(robot_names, "_descriptions", lambda: {"no_such_robot_description": SimpleNamespace(tags=())})
    with refused("robot 'no_such_robot_description': expected files that robot_descriptions can fetch"):
        ds.load("no_such_robot")


def test_suffix_and_content_may_disagree(load_text):
    assert load_text(TWO_LINKS, ".xml").nv == 1
    assert load_text(TWO_LINKS, ".mjcf").nv == 1
    assert load_text(TWO_LINKS, ".description").nv == 1
    assert load_text(TWO_LINKS, "").nv == 1
    assert load_text(TWO_LINKS.encode("utf-16")).nv == 1
    assert load_text(b'<?xml version="1.0" encoding="latin-1"?>' + TWO_LINKS.encode("latin-1")).nv == 1
    assert load_text("\ufeff" + TWO_LINKS).nv == 1


@pytest.mark.peer
def test_mjcf_in_a_file_named_urdf(load_text):
    pytest.importorskip("mujoco")
    text = '<mujoco><worldbody><body name="b"><joint/><geom size="0.1"/></body></worldbody></mujoco>'
    assert load_text(text, ".urdf").nv == 1
    assert load_text(text, ".txt").nv == 1


# -- URDF ----------------------------------------------------------------------------------------------------------


NO_TREES = {
    "no links": ("<robot/>", "expected at least one link, got none"),
    "empty robot": (robot(), "robot 'r': expected at least one link, got none"),
    "joints only": (robot(joint("j", "a", "b")), "expected at least one link"),
    "nameless link": (robot("<link/>"), "robot 'r': expected a name on every <link>"),
    "empty link name": (robot('<link name=""/>'), "expected a name on every <link>"),
    "nameless joint": (robot(link("a"), "<joint type='fixed'/>"), "'r': expected a name on every <joint>"),
    "links": (robot(link("a"), link("a")), "robot 'r': expected link names that are unique, got 'a' twice"),
    "joints": (robot(link("a"), link("b"), link("c"), joint("j", "a", "b"), joint("j", "a", "c")),
        "robot 'r': expected joint names that are unique, got 'j' twice"),
    "missing child": (robot(link("a"), link("b"), joint("j", "a", "nowhere")),
        "joint 'j': expected a child link that exists, got 'nowhere'"),
    "missing parent": (robot(link("a"), link("b"), joint("j", "nowhere", "b")),
        "joint 'j': expected a parent link that exists, got 'nowhere'"),
    "roots": (robot(link("a"), link("b")), "'r': expected one root link, got 2 \\('a', 'b'\\)"),
    "fifty roots": (robot(*(link(f"l{k}") for k in range(50))), "expected one root link, got 50 \\('l0'"),
    "two parents": (robot(link("a"), link("b"), link("c"), joint("j", "a", "b"), joint("k", "a", "c"), joint("m", "b",
        "c")), "link 'c': expected one parent joint, got two, 'k' and 'm'"),
    "cycle": (robot(link("a"), link("b"), joint("j", "a", "b"), joint("k", "b", "a")),
        "joint '[jk]': expected links that form a tree, got a cycle through link '[ab]'"),
    "cycle beside the root": (robot(link("r"), link("a"), link("b"), joint("j", "a", "b"), joint("k", "b", "a")),
        "joint '[jk]': expected links that form a tree, got a cycle through link '[ab]'"),
    "self-loop": (robot(link("a"), joint("j", "a", "a")), "joint 'j': .*a cycle through link 'a'"),
    "self-loop on a leaf": (robot(link("a"), link("b"), joint("j", "a", "b"), joint("k", "b", "b")),
        "link 'b': expected one parent joint"),
    "unknown type": (robot(link("a"), link("b"), joint("j", "a", "b", "spherical")),
        "joint 'j': expected a type among revolute, .*got 'spherical'"),
    "no type": (robot(link("a"), link("b"), '<joint name="j"><parent link="a"/><child link="b"/></joint>'),
        "joint 'j': expected a type among .*got None"),
    "no parent": (robot(link("a"), link("b"), '<joint name="j" type="fixed"><child link="b"/></joint>'),
        "joint 'j': expected a <parent link='…'/>, got none"),
    "no child": (robot(link("a"), link("b"), '<joint name="j" type="fixed"><parent link="a"/><child/></joint>'),
        "joint 'j': expected a <child link='…'/>, got none"),
    "zero axis": (robot(link("a"), link("b"), joint("j", "a", "b", inside='<axis xyz="0 0 0"/>')),
        "axis of joint 'j': expected a vector that is not zero"),
    "xacro": (robot('<xacro:include filename="arm.xacro"/>', link("a")),
        "robot 'r': expected a URDF file without macros, got <xacro:include>"),
}  # fmt: skip
"""Descriptions, by what is wrong, and what is said."""


@pytest.mark.parametrize("fault", NO_TREES)
def test_descriptions_that_are_no_tree(load_text, fault):
    text, match = NO_TREES[fault]
    with refused(match):
        load_text(text)


def inertial(mass="2", ixx="0.1", iyy="0.1", izz="0.1", ixy="0", com="0 0 0"):
    return (
        f'<inertial><origin xyz="{com}"/><mass value="{mass}"/>'
        f'<inertia ixx="{ixx}" ixy="{ixy}" ixz="0" iyy="{iyy}" iyz="0" izz="{izz}"/></inertial>'
    )


def with_inertial(text):
    return robot(link("a"), link("b", text), joint("j", "a", "b"))


def with_joint(inside, kind="revolute"):
    return robot(link("a"), link("b"), joint("j", "a", "b", kind, inside))


@pytest.mark.parametrize(
    "bad",
    ["nan", "inf", "-inf", "1e999", "", "two", "1 2", "0x10", "0x1p3", "1,5", "$mass", "١ ٢", "٣", "１", "1_0", "1f",
     "+-1", "1e", ".", "1d0", "1;", "−1", "1&#160;"],
)  # fmt: skip
def test_numbers_that_are_none(load_text, bad):
    expected = "expected 1 finite number"
    for text, match in (
        (with_inertial(inertial(mass=bad)), f"link 'b', value of <mass>: {expected}"),
        (with_inertial(inertial(ixx=bad)), f"link 'b', ixx of <inertia>: {expected}"),
        (with_inertial(inertial(com=bad)), "link 'b', xyz of <origin>: expected 3 finite number"),
        (with_joint(f'<origin xyz="{bad}"/>'), "joint 'j', xyz of <origin>: expected 3 finite number"),
        (with_joint(f'<origin rpy="{bad}"/>'), "joint 'j', rpy of <origin>: expected 3 finite number"),
        (with_joint(f'<axis xyz="{bad}"/>'), "joint 'j', xyz of <axis>: expected 3 finite number"),
        (with_joint(f'<dynamics damping="{bad}"/>'), f"joint 'j', damping of <dynamics>: {expected}"),
        (with_joint(f'<mimic joint="k" multiplier="{bad}"/>'), f"joint 'j', multiplier of <mimic>: {expected}"),
    ):
        with refused(match):
            load_text(text)
    if bad in ("inf", "-inf", "1e999"):  # no limit
        assert load_text(with_joint(f'<axis xyz="1 0 0"/><limit lower="-inf" upper="{bad}" effort="{bad}"/>')).nv == 1
    else:
        with refused(f"joint 'j', lower of <limit>: {expected}"):
            load_text(with_joint(f'<limit lower="{bad}" upper="1"/>'))


@pytest.mark.parametrize(
    "left", ['<xacro:arm prefix="l"/>', "<xacro:if value='1'><link name='c'/></xacro:if>", "${mass}"]
)
def test_macros_that_are_left_name_the_option(load_text, left):
    """Elements, and expressions in links and joints; those that only Gazebo reads do not matter."""
    mass = left if left.startswith("$") else "1"
    with refused(rf"robot 'r': expected a URDF file without macros, got .*{re.escape(left[:6])}.*Pass xacro="):
        load_text(robot(link("a"), link("b", inertial(mass=mass)), joint("j", "a", "b"), left))
    assert load_text(robot(link("a"), '<gazebo><plugin file="${lib}"/></gazebo>')).nv == 0


@pytest.mark.parametrize(("text", "number"), [("+1", 1), ("1.", 1), (".5", 0.5), ("1E+2", 100), (" 3&#9;", 3)])
def test_numbers_as_xml_and_c_write_them(load_text, text, number):
    assert load_text(with_inertial(inertial(mass=text))).inertias[0][0, 0] == number


def test_numbers_of_a_million_digits_take_no_time(load_text):
    for digits in ("1" * 10**6 + "x", "0." + "1" * 10**6, "1 " * 10**6 + "x"):
        with refused("xyz of <origin>: expected 3 finite number"):
            load_text(with_joint(f'<origin xyz="{digits}"/>'))


def test_numbers_too_large(load_text):
    with refused("inertial of link 'b': expected finite numbers below 1e\\+30"):
        load_text(with_inertial(inertial(mass="1e300", ixx="1e300", iyy="1e300", izz="1e300")))
    with refused("inertial of link 'b': expected finite numbers below 1e\\+30"):
        load_text(with_inertial(inertial(com="0 0 -1e200")))
    with refused("origin of joint 'j': expected finite numbers below 1e\\+30"):
        load_text(with_joint('<origin xyz="1e300 0 0"/>'))
    tree = load_text(with_joint('<axis xyz="1 0 0"/><limit lower="-1.7e308" upper="1.7e308"/>', "prismatic"))
    assert np.all(np.abs(tree.random(0, batch=50)) <= 1.0)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("<inertial/>", "link 'b': expected mass in its <inertial>, got none"),
        (INERTIAL.replace('value="2"', ""), "link 'b': expected value in its <mass>, got none"),
        (INERTIAL.replace('izz="0.1"', ""), "link 'b': expected izz in its <inertia>, got none"),
    ],
)
def test_incomplete_inertials(load_text, text, match):
    with refused(match):
        load_text(with_inertial(text))


def test_negative_mass(load_text):
    with refused("mass of link 'b': expected a mass of at least 0 kg, got -2"):
        load_text(with_inertial(inertial(mass="-2")))


@pytest.mark.parametrize(
    ("text", "defect"),
    [
        pytest.param(inertial(ixx="0.5"), "breaks the triangle inequality", id="triangle"),
        pytest.param(inertial(ixx="0.01", iyy="0.01", izz="0.1"), "breaks the triangle inequality", id="triangle 2"),
        pytest.param(inertial(iyy="-0.1"), "not positive semidefinite", id="negative"),
        pytest.param(inertial(ixy="0.2"), "not positive semidefinite", id="products"),
    ],
)
def test_inertias_that_no_body_has(load_text, text, defect):
    with pytest.warns(ds.DelassusWarning, match=f"^file '.*urdf': .* inertia of b \\({defect}\\).*'repair'") as caught:
        tree = load_text(with_inertial(text))
    assert tree.nv == 1 and len(caught) == 1
    assert caught[0].filename == __file__  # at the line that asked, not inside the library
    with refused(f"inertia of link 'b': expected one that a rigid body can have, got b \\({defect}\\).*'repair'"):
        load_text(with_inertial(text), check_inertia="refuse")
    repaired = load_text(with_inertial(text), check_inertia="repair").inertias[0]
    assert repaired[0, 0] == tree.inertias[0][0, 0] and np.array_equal(repaired[:3, 3:], tree.inertias[0][:3, 3:])
    moments = np.linalg.eigvalsh(about_centre(repaired)[2])
    assert 0 < moments[0] and moments[2] < moments[0] + moments[1]


def test_an_inertia_that_no_body_has_is_told_once_a_file(load_text):
    """By Python's default filter, from whatever line; that of another file, and another fault, as well."""
    fault, other = (with_inertial(inertial(ixx=x)) for x in ("0.5", "0.6"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        load_text(fault)
        load_text(fault)
        for _ in range(2):
            load_text(other.replace('"b"', '"wrong"'))
    assert len(caught) == 2 and all("triangle" in str(x.message) for x in caught)
    with pytest.warns(ds.DelassusWarning, match="triangle"):
        load_text(fault)


@pytest.mark.parametrize("seed", range(20))
def test_the_nearest_inertia_that_a_body_can_have(seed):
    """No second moments of mass near it, nor any others drawn at random, give one that is nearer."""
    rng = np.random.default_rng(seed)
    given = rng.normal(size=3) * 10.0 ** rng.uniform(-4, 2)
    Q, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    found = nearest_inertia(Q @ np.diag(given) @ Q.T)
    moments = np.diagonal(Q.T @ found @ Q)
    assert np.allclose(Q @ np.diag(moments) @ Q.T, found, atol=1e-12 * np.abs(given).max())
    assert not inertia_defects(found[None])[0]
    s = np.abs(rng.normal(size=(2000, 3))) * np.abs(given).max() * 10.0 ** rng.uniform(-3, 0, (2000, 1))
    near = np.maximum(0.5 * moments.sum() - moments + rng.normal(size=(2000, 3)) * 0.01 * np.abs(given).max(), 0)
    for others in (s, near):
        distance = np.linalg.norm(others.sum(axis=1, keepdims=True) - others - given, axis=1)
        assert np.linalg.norm(moments - given) < distance.min() + 1e-8 * np.abs(given).max()


def test_a_possible_inertia_is_not_repaired(load_text):
    plain, repaired = (load_text(with_inertial(inertial()), check_inertia=x) for x in ("refuse", "repair"))
    assert np.array_equal(plain.inertias, repaired.inertias)


def test_one_warning_for_all_links(load_text):
    links = (link(f"l{k}", inertial(ixx="0.5")) for k in range(3))
    text = robot(*links, joint("j", "l0", "l1"), joint("k", "l0", "l2"))
    with pytest.warns(ds.DelassusWarning, match=r"inertia of l0 .*l1 .*l2") as caught:
        load_text(text)
    assert len(caught) == 1
    with refused("inertia of link 'l0': .*got l0 .*l1 .*l2"):
        load_text(text, check_inertia="refuse")


def test_inertias_at_the_edge_are_fine(load_text):
    for text in (
        inertial(mass="0", ixx="0", iyy="0", izz="1"),  # breaks the triangle inequality only below
        inertial(ixx="0.1", iyy="0.2", izz="0.3"),  # a flat plate
        inertial(ixx="0", iyy="0.2", izz="0.2"),  # a thin rod
        inertial(ixx="0", iyy="0", izz="0", com="1 0 0"),  # a point
    ):
        if 'mass value="0"' in text:
            with pytest.warns(ds.DelassusWarning, match="triangle"):
                load_text(with_inertial(text))
        else:
            load_text(with_inertial(text), check_inertia="refuse")


@pytest.mark.parametrize("root", ["fixed", "floating"])
def test_massless_subtrees(load_text, root):
    """As Romeo's eyes: nothing behind the joint has inertia, and the mass matrix is singular."""
    eyes = robot(
        link("head"), '<link name="eye"/>', '<link name="lens"/>',
        joint("neck_eye", "head", "eye"), joint("eye_lens", "eye", "lens", "fixed"),
    )  # fmt: skip
    with refused("joint 'neck_eye': expected a subtree with inertia .*none behind link 'eye' .*singular"):
        load_text(eyes, root=root, massless="error")


def test_inertia_missing_about_the_axis_only(load_text):
    point_on_axis = inertial(ixx="0", iyy="0", izz="0", com="0 0 0.5")
    with refused("joint 'j': expected a subtree with inertia about every degree of freedom, got none"):
        load_text(with_inertial(point_on_axis), massless="error")
    beside = inertial(ixx="0", iyy="0", izz="0", com="0.5 0 0")
    assert load_text(with_inertial(beside), massless="error").nv == 1


def test_a_floating_robot_without_mass(load_text):
    with refused("joint 'root_joint': expected a subtree with inertia"):
        load_text(robot('<link name="a"/>'), root="floating", massless="error")


def test_an_indefinite_mass_matrix(load_text):
    bad = inertial(mass="0.001", izz="-0.1")
    with pytest.warns(ds.DelassusWarning, match="not positive semidefinite"):
        with refused("joint 'j': .*a negative one behind link 'b' \\(the mass matrix is indefinite\\)"):
            load_text(with_inertial(bad))


def test_mimic_joints(load_text):
    text = with_joint('<axis xyz="1 0 0"/><mimic joint="nothing" multiplier="2"/>')
    match = r"1 mimic joints that follow no joint of one degree of freedom \(j\)"
    with pytest.warns(ds.DelassusWarning, match=match) as caught:
        assert load_text(text).constraints == ()
    assert len(caught) == 1 and caught[0].filename == __file__
    with refused("robot 'r': expected nothing that a tree does not hold, got 1 mimic joints"):
        load_text(text, unsupported="refuse")


def test_contacts_that_leave_out_constraints_of_the_file():
    """They are told of; a scene in place of its tree is refused."""
    coupled = dataclasses.replace(
        ds.mechanisms.chain(2), constraints=(ds.JointRows({"link1_joint": 1.0, "link2_joint": 1.0}),)
    )
    foot = ds.Contact("link2", ds.contact.Sphere(0.1))
    colliders = [
        ds.contact.Collider("link2", ds.contact.Sphere(0.1)), ds.contact.Collider("world", ds.contact.HalfSpace())
    ]  # fmt: skip
    with pytest.warns(ds.DelassusWarning, match=r"contacts alone leave out .*JointRows") as caught:
        ds.compile(coupled, foot, "contact_step")
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings(action="error"):
        ds.compile(coupled, [*coupled.constraints, foot], "contact_step")
        ds.compile(coupled, (), "contact_step")
        ds.Scene(coupled, colliders, loops=()).contact_step()  # deliberately without
    scene = ds.Scene(coupled, colliders)
    with refused("got Scene. .* scene.tree and scene.constraints"):
        ds.compile(scene, foot, "contact_step")


@pytest.mark.parametrize(
    ("states", "match"),
    [
        ("<group_state/>", "a name on every <group_state>"),
        ('<group_state name="s"><joint name="j"/></group_state>', r"value of joint 'j': expected 1 finite number"),
        ('<group_state name="s"><joint name="j" value="1 2"/></group_state>', "got '1 2'"),
        ('<group_state name="s"><joint name="j" value="nan"/></group_state>', "got 'nan'"),
        ('<group_state name="s"><joint name="root_joint" value="0 0 0 0 0 0 0"/></group_state>', "unit length"),
        ("<group_state", "well-formed XML"),
    ],
)
def test_group_states_that_are_refused(load_text, tmp_path, states, match):
    (tmp_path / "states.srdf").write_text(f"<robot name='r'>{states}</robot>")
    with refused(match):
        load_text(with_joint(""), root="floating", srdf=tmp_path / "states.srdf")


def test_group_states(load_text, tmp_path):
    """States of one name are one configuration; unknown joints are listed, written quaternions made of unit length."""
    states = """<group_state name="s" group="a"><joint name="j" value="0.5"/><joint name="k" value="1"/></group_state>
        <group_state name="s" group="b"><joint name="root_joint" value="1 2 3 0 0 0.7071 0.7071"/></group_state>"""
    (tmp_path / "states.srdf").write_text(f"<robot name='r'>{states}</robot>")
    with pytest.warns(ds.DelassusWarning, match=r"joints of group states that the tree does not have \(k\)"):
        tree = load_text(with_joint(""), root="floating", srdf=str(tmp_path / "states.srdf"))
    q = tree.reference_configurations["s"]
    assert np.allclose(q, [1, 2, 3, 0, 0, 0.5**0.5, 0.5**0.5, 0.5], rtol=0, atol=1e-12)
    model = tmp_path / "model.xml"
    model.write_text("<mujoco/>")
    with refused("srdf: expected None but for a URDF file"):
        ds.load(model, srdf=tmp_path / "states.srdf")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"root": "free"}, "root: expected 'fixed' or 'floating', got 'free'"),
        ({"root": False}, "root: expected 'fixed' or 'floating', got False"),
        ({"continuous": "sin-cos"}, "continuous: expected 'angle' or 'cos-sin', got 'sin-cos'"),
        ({"check_inertia": "error"}, "check_inertia: expected 'warn', 'refuse' or 'repair', got 'error'"),
        ({"check_inertia": False}, "check_inertia: expected 'warn', 'refuse' or 'repair', got False"),
    ],
)
def test_options_of_load(load_text, options, match):
    with refused(match):
        load_text(TWO_LINKS, **options)


@pytest.mark.slow
def test_a_chain_of_five_thousand_links(load_text):
    n = 5000
    origin = '<origin xyz="0.1 0 0" rpy="1 0 0"/><axis xyz="0 0 1"/>'
    text = robot(
        *(link(f"l{k}") for k in range(n + 1)),
        *(joint(f"j{k:04}", f"l{k}", f"l{k + 1}", inside=origin) for k in range(n)),
    )
    start = time.process_time()
    tree = load_text(text)
    assert time.process_time() - start < 5  # half a second on a processor of its own; steps that are quadratic take 20
    assert (tree.n_links, tree.nv, tree.depth) == (n, n, n)
    assert tree.support(n - 1) == tuple(range(n))
    assert tree.closest_common_ancestor(n - 1, n // 2) == n // 2
    assert tree.branching_links([n - 1, n // 2]) == (n // 2,)
    assert pickle.loads(pickle.dumps(tree)).fingerprint == tree.fingerprint


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::delassus.DelassusWarning")  # estimates grow with each link
def test_chains_longer_than_the_recursion_limit():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(400)
    try:
        tree = ds.mechanisms.chain(420)
        tip, q = ds.Point(tree.link_names[-1]), tree.random(0)
        G = ds.delassus(tree, tip, q)
        assert np.allclose(ds.delassus_operator(tree, tip, q).dense(), G)
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.slow
def test_descriptions_garbled_at_random(tmp_path):
    """In a process of its own, which a crash or a hang would end; `fuzz_files.py` says how to run it for longer."""
    script = [sys.executable, str(Path(__file__).with_name("fuzz_files.py")), "--count", "650", "--folder", tmp_path]
    done = subprocess.run(script, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    for kind in ("urdf loaded", "urdf refused", "xml loaded", "xml refused"):
        assert int(re.search(f"{kind}: (\\d+)", done.stdout)[1]) > 20, done.stdout


def test_elements_nested_within_the_limit_are_dropped_unread(load_text):
    nested = "<visual>" * 900 + "</visual>" * 900
    text = robot(f'<link name="a">{nested}{INERTIAL}</link>', link("b"), joint("j", "a", "b"), nested)
    assert load_text(text).nv == 1


# -- descriptions built by hand ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_raw_numbers(bad):
    def build(link_b, **joint_numbers):
        links = [RawLink("a", 1.0, np.zeros(3), np.eye(3)), link_b]
        return build_tree("r", links, [RawJoint("j", joint_kinds.REVOLUTE, "a", "b", **joint_numbers)])

    good, zero = RawLink("b", 1.0, np.zeros(3), np.eye(3)), np.zeros(3)
    assert build(good).nv == 1
    for link_b in (
        RawLink("b", bad, zero, np.eye(3)), RawLink("b", 1.0, np.array([0, bad, 0]), np.eye(3)),
        RawLink("b", 1.0, zero, np.full((3, 3), bad)),
    ):  # fmt: skip
        with refused("inertial of link 'b': expected finite numbers"):
            build(link_b)
    with refused("origin of joint 'j': expected finite numbers"):
        build(good, position=np.array([bad, 0, 0]))
    with refused("axis of joint 'j': expected finite numbers"):
        build(good, axis=np.array([0, 0, bad]))


# -- mechanisms ----------------------------------------------------------------------------------------------------

NO_COUNT = [0, -1, 2.0, "3", None, True, np.nan, [3], np.array([3]), 1e9]


@pytest.mark.parametrize("n", NO_COUNT)
def test_counts(n):
    with refused("n: expected a whole number of at least 1"):
        ds.mechanisms.chain(n)


def test_every_mechanism_checks_its_counts():
    m = ds.mechanisms
    for make, sizes, name in (
        (m.pendulum, (0,), "n"), (m.ladder, (0,), "n"), (m.comb, (0,), "n"), (m.star, (0, 3), "branches"),
        (m.star, (3, 0), "length"), (m.stem, (0, 2), "length"), (m.stem, (4, 0), "branches"),
        (m.stem, (4, 2, 0), "branch_length"),
    ):  # fmt: skip
        with refused(f"{name}: expected a whole number of at least 1"):
            make(*sizes)
    for limbs in ("arms", "legs", "arm_dofs", "leg_dofs"):  # none is fine
        with refused(f"{limbs}: expected a whole number of at least 0"):
            ds.mechanisms.asimo(**{limbs: -1})


def test_other_options_of_mechanisms():
    with refused("hand_dofs: expected 2 or 12, got 5"):
        ds.mechanisms.asimo(hand_dofs=5)
    with refused("link or frame name: .*'foot1'.*", UnknownNameError):
        ds.mechanisms.asimo(legs=0, fixed_foot=True)
    with refused("root: expected 'fixed' or 'floating', got 'free'"):
        ds.mechanisms.chain(3, root="free")
    for bad in (0, -1.0, np.nan, np.inf, "1", None, [1.0], 1e300):
        with refused("length: expected a positive number"):
            ds.mechanisms.pendulum(2, length=bad)
        with refused("mass: expected a positive number"):
            ds.mechanisms.pendulum(2, mass=bad)


# -- configurations and velocities ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def arm():
    return ds.mechanisms.chain(4)


@pytest.fixture(scope="module")
def humanoid():
    return ds.mechanisms.humanoid()


NOT_NUMBERS = {
    "None": None, "text": "0 0 0 0", "texts": ["0", "0", "0", "0"], "complex array": np.zeros(4, dtype=complex),
    "complex list": [1j, 0, 0, 0], "object": object(), "objects": [object()] * 4, "dict": {}, "set": {1, 2, 3, 4},
    "iterator": iter([1, 2, 3, 4]), "bytes": b"abcd", "bool": np.zeros(4, dtype=bool), "ragged": [[0, 0], [0]],
    "dates": np.zeros(4, dtype="M8[s]"), "durations": np.zeros(4, dtype="m8[s]"),
    "huge integer": [0.0, 10**400, 0, 0], "hostile": Hostile(),
}  # fmt: skip
WRONG_SHAPES = {
    "0-d": 0.0, "empty list": [], "short": np.zeros(3), "long": np.zeros(5), "column": np.zeros((4, 1)),
    "transposed": np.zeros((4, 3)), "empty batch of the wrong size": np.zeros((0, 3)),
}  # fmt: skip
NOT_FINITE = [[0, np.nan, 0, 0], [0, 0, np.inf, 0], [-np.inf, 0, 0, 0], [[0, 0, 0, 0], [0, 0, 0, np.nan]]]


class TestTheSharedCheck:
    """Everything that is no state, once; that a function asks the check is tested below."""

    @pytest.mark.parametrize("q", NOT_NUMBERS.values(), ids=NOT_NUMBERS)
    def test_not_numbers(self, arm, q):
        with refused("q: expected an array of real numbers", ConfigurationError):
            arm.check_configuration(q)

    @pytest.mark.parametrize("q", WRONG_SHAPES.values(), ids=WRONG_SHAPES)
    def test_wrong_shapes(self, arm, q):
        with refused("q: expected shape \\(..., 4\\), nq of 'chain4', got shape \\(", ConfigurationError):
            arm.check_configuration(q)

    @pytest.mark.parametrize("q", NOT_FINITE)
    def test_not_finite(self, arm, q):
        with refused("q: expected finite numbers, got -?(nan|inf) at index \\(", ConfigurationError):
            arm.check_configuration(q)

    @pytest.mark.parametrize(
        "q",
        [
            [1, 2, 3, 4], (0.1, 0.2, 0.3, 0.4), np.arange(4), np.zeros((2, 3, 4)), np.zeros(4, np.float32),
            np.arange(40.0).reshape(10, 4)[::2], np.asfortranarray(np.arange(20.0).reshape(5, 4)), np.zeros((0, 4)),
        ],
        ids=["list", "tuple", "integers", "batch", "float32", "strides", "Fortran", "empty batch"],
    )  # fmt: skip
    def test_what_is_fine(self, arm, q):
        checked = arm.check_configuration(q)
        assert checked.dtype == np.float64 and np.array_equal(checked, q)


STATES = ("q", "v", "tau", "qdd")
TAKERS = [
    (name, argument)
    for name in ds.__all__
    if inspect.isfunction(getattr(ds, name)) and "tree" in inspect.signature(getattr(ds, name)).parameters
    for argument in inspect.signature(getattr(ds, name)).parameters
    if argument in STATES
]
"""Every public function of a tree and a state, with each argument that is checked."""


@pytest.mark.parametrize(("name", "argument"), TAKERS)
def test_every_function_checks_its_states(arm, name, argument):
    function = getattr(ds, name)
    row = ds.Rows(arm.link_names[-1], [[0.0, 0, 0, 0, 0, 1]])
    if name in ("inverse_dynamics_derivatives", "inverse_dynamics_hessian"):  # which take springs alone
        row = ds.SpringDamper(arm.link_names[-1], "world", stiffness=1.0)
    held = {"constraints": row, "tasks": row, "dt": 1e-3, "sensors": ds.Sensor("tip", "gyro", arm.link_names[-1])}
    good = {"tree": arm, **held} | {x: np.full(4, 0.1) for x in STATES}
    good = {x: value for x, value in good.items() if x in inspect.signature(function).parameters}
    function(**good)
    for bad, expected in ((["0"] * 4, ".*numbers"), (np.zeros((4, 3)), ".*shape"), ([0, np.nan, 0, 0], ".*finite")):
        with refused(f"^{argument}: expected{expected}", ConfigurationError):
            function(**good | {argument: bad})


def test_the_argument_is_not_changed(humanoid):
    q = humanoid.random(0)
    q[3:7] *= 1 + 1e-7
    before = q.copy()
    humanoid.check_configuration(q)
    ds.mass_matrix(humanoid, q)
    assert np.array_equal(q, before)
    q.setflags(write=False)
    ds.mass_matrix(humanoid, q)


def test_changes_of_configuration(arm):
    for bad, expected in (
        (["0"] * 4, "an array of real numbers"),
        (np.zeros((4, 3)), "shape \\(..., 4\\), nv of 'chain4'"),
        (NOT_FINITE[0], "finite numbers"),
    ):
        with refused(f"v: expected {expected}", ConfigurationError):
            arm.integrate(arm.neutral(), bad)
    with refused("q: expected shape", ConfigurationError):
        arm.integrate(np.zeros(3), np.zeros(4))


def test_batches_that_do_not_fit(arm, humanoid):
    with refused("v: expected leading axes that broadcast with those of q, \\(3,\\), got \\(2,\\)", ConfigurationError):
        arm.integrate(arm.random(0, 3), np.zeros((2, 4)))
    with refused("q1: expected leading axes that broadcast with those of q0", ConfigurationError):
        humanoid.difference(humanoid.random(0, (4, 2)), humanoid.random(0, (4, 3)))
    assert arm.integrate(arm.random(0, 3), np.zeros((2, 1, 4))).shape == (2, 3, 4)
    with refused("q0: expected shape", ConfigurationError):
        arm.difference(np.zeros(3), arm.neutral())
    with refused("q1: expected finite numbers", ConfigurationError):
        arm.difference(arm.neutral(), np.full(4, np.nan))


def test_quaternions(humanoid):
    q = humanoid.random(0, batch=3)
    expected = ds.mass_matrix(humanoid, q)
    for factor in (1 + 9e-7, 1 - 9e-7):  # normalised
        near = q.copy()
        near[1, 3:7] *= factor
        assert np.allclose(ds.mass_matrix(humanoid, near), expected, rtol=1e-12, atol=1e-12)
        assert np.allclose(np.linalg.norm(humanoid.check_configuration(near)[:, 3:7], axis=-1), 1.0, rtol=1e-15)
    assert np.allclose(ds.mass_matrix(humanoid, q.astype(np.float32)), expected, rtol=1e-5, atol=1e-5)
    for bad in ([0, 0, 0, 0], [0, 0, 0, 1 + 2e-6], [0, 0, 0, 1 - 2e-6], [1, 1, 1, 1], [0, 0, 0, 1e300]):
        far = q.copy()
        far[2, 3:7] = bad
        with refused(
            "q, the quaternion of joint 'root_joint': expected unit length within 1e-06, got a length that is off",
            ConfigurationError,
        ):
            ds.mass_matrix(humanoid, far)


def test_pairs_of_cosine_and_sine(load_text):
    tree = load_text(with_joint('<axis xyz="0 0 1"/>', "continuous"), continuous="cos-sin")
    with refused("q, the cos-sin pair of joint 'j': expected unit length", ConfigurationError):
        ds.mass_matrix(tree, [1.0, 1.0])
    planar = load_text(with_joint("", "planar"))
    with refused("q, the cos-sin pair of joint 'j': expected unit length", ConfigurationError):
        ds.mass_matrix(planar, [0.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("batch", [-1, (2, -1), 2.5, "3", None, [1.5], {}, np.zeros(2)])
def test_batches_of_random_configurations(arm, batch):
    with refused("batch: expected a number of states or a shape", ConfigurationError):
        arm.random(0, batch=batch)


UNPRINTABLE = ["\0", "a\0b", "a\nb", "\x1b[31m", "\x7f", "\x9b", "\u2028", "\u202e", "\ud800", 3, None, ["a"]]
"""Names that would end a line, steer a terminal or not encode; and things that are no names."""


@pytest.mark.parametrize("name", UNPRINTABLE)
def test_names_that_do_not_print(arm, name):
    """However a tree is made: by rule, from a description, from another tree, from several."""
    match = "name of a .*: expected text of printable characters"
    with refused(match):
        ds.mechanisms.free_body(1, [1, 1, 1], name=name)
    if not isinstance(name, str):
        return
    with refused(match):
        build_tree(name, [RawLink("a")], [])
    body = RawLink(name, 1.0, np.zeros(3), np.eye(3))
    for kind in (joint_kinds.REVOLUTE, None):  # of a moving link, and of a frame
        with refused(match):
            build_tree("r", [RawLink("a"), body], [RawJoint("j", kind, "a", name)])
        with refused(match):
            build_tree("r", [body, RawLink("a", 1.0, np.zeros(3), np.eye(3))], [RawJoint("j", kind, name, "a")])
    with refused(match):
        build_tree("r", [RawLink("a"), RawLink("b", 1.0)], [RawJoint(name, joint_kinds.PRISMATIC, "a", "b")])
    with refused(match):
        arm.attach(arm.link_names[-1], ds.mechanisms.chain(1), prefix=name)
    with refused(match):
        ds.Scene({name: arm})


def test_names_of_any_script():
    for name in ("ロボット", "Ωmega", "left hand", "a/b:c.d-e_1", "'quoted' <b>[x]"):
        tree = ds.mechanisms.free_body(1, [1, 1, 1], name=name)
        assert tree.link_names == (name,) and pickle.loads(pickle.dumps(tree)).link_names == (name,)


def test_a_link_may_be_called_world():
    body = RawLink("world", 1.0, np.zeros(3), np.eye(3))
    tree = build_tree("r", [RawLink("a"), body], [RawJoint("j", joint_kinds.REVOLUTE, "a", "world")])
    assert tree.link_names == ("world",) and tree.placement("world").link == 0 and tree.placement("a").link == -1


@pytest.mark.parametrize("rng", ["seed", -1, 2.5, object(), np.eye(2).view(np.matrix), np.eye(1), [3], Hostile(), True])
def test_generators_of_random_configurations(arm, rng):
    with refused("rng: expected a generator or a seed", ConfigurationError):
        arm.random(rng)


# -- frames and constraints ----------------------------------------------------------------------------------------


def test_frames_copy_what_they_are_given(arm):
    position, rotation = np.array([1.0, 2.0, 3.0]), np.eye(3)
    frame = ds.Frame("link4", position, rotation)
    position[0] = 7.0  # still writeable
    rotation[0, 0] = 7.0
    assert frame.position[0] == 1.0 and frame.rotation[0, 0] == 1.0
    K = np.eye(6)
    rows = ds.Rows("link4", K)
    K[0, 0] = 7.0
    assert rows.rows[0, 0] == 1.0
    axis = np.array([0.0, 0.0, 2.0])
    ds.Hinge("link4", axis=axis)
    axis[0] = 1.0
    for array in (frame.position, frame.rotation, rows.rows):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0


def test_links_that_do_not_exist(arm, humanoid):
    for constraint in (ds.Weld("link_4"), ds.Point(ds.Frame("link_4")), ds.Hinge("link2", "link_4")):
        with refused("link or frame name: .*got 'link_4'. Did you mean 'link4'\\?", UnknownNameError):
            ds.delassus(arm, constraint, arm.neutral())
    with refused("Did you mean 'left_foot'\\?", UnknownNameError):
        ds.jacobian(humanoid, ds.Rows("LeftFoot", np.eye(6)), humanoid.neutral())
    for name in (3, None, ["link4"], {}, object()):
        with refused("link or frame name: expected one of", UnknownNameError):
            ds.delassus(arm, ds.Weld(ds.Frame(name)), arm.neutral())
        with refused("link or frame name: expected one of", UnknownNameError):
            arm.placement(name)
    with refused("link or frame name", UnknownNameError):
        arm.placement("x" * 100_000)


def test_links_that_are_one_body(arm, humanoid):
    with refused("Weld\\('link4', 'link4', 6 rows\\): expected two links that can move apart", ConstraintError):
        ds.delassus(arm, ds.Weld("link4", "link4"), arm.neutral())
    for kind in (ds.Weld, ds.Point, ds.Hinge):  # the foot is fixed to the last link of the leg
        with refused("expected two links that can move apart, got two that are one rigid body", ConstraintError):
            ds.delassus(humanoid, kind("left_foot", ds.Frame("left_leg6", (0, 0, 1))), humanoid.neutral())


def test_iterables_of_constraints(arm):
    q = arm.random(0)
    expected = ds.delassus(arm, [ds.Weld("link4"), ds.Point("link2")], q)
    for constraints in (
        (ds.Weld("link4"), ds.Point("link2")),
        (c for c in (ds.Weld("link4"), ds.Point("link2"))),
        {ds.Weld("link4"): 1, ds.Point("link2"): 2},
        np.array([ds.Weld("link4"), ds.Point("link2")]),
    ):
        assert np.array_equal(ds.delassus(arm, constraints, q), expected)
    assert ds.delassus(arm, ds.Weld("link4"), q).shape == (6, 6)


LATE = (ds.Rows("link4", 2), ds.Weld("link3"), ds.Rows("link2", 1))
"""The first and the last one come with the call."""

GIVEN = [np.eye(6)[:2], np.eye(6)[:1]]
NOT_THREE = [None, 1.0, "123", ["1", "2", "3"], [1, 2], [[1, 2, 3]], [0, 0, np.nan], [1j, 0, 0], [True] * 3, Hostile()]
NO_ROTATIONS = [
    2 * np.eye(3), np.diag([1.0, 1.0, -1.0]), np.eye(3) + 1e-5, np.eye(4), np.eye(3)[None], [0, 0, 0, 1],
    np.full((3, 3), np.nan), np.diag([1e200, 1, 1]), np.eye(3, dtype=complex), np.eye(3, dtype=bool), "one", Hostile(),
]  # fmt: skip
NO_ROWS = [
    np.zeros(6), np.zeros((0, 6)), np.zeros((6, 3)), np.zeros((2, 3, 6)), np.zeros((3, 6), dtype=complex),
    np.zeros((3, 6), dtype=bool), np.full((3, 6), np.nan), True, 3.0, None, "3", [["1"] * 6], [[1] * 6, [1] * 5],
    Hostile(), 0, -1, np.int64(0), -(10**30),
]  # fmt: skip
NO_CONSTRAINTS = [
    3, "link4", ["link4"], [ds.Weld("link4"), None], [[ds.Weld("link4")]], {"link4": 1}, np.eye(6), Hostile(),
    ds.Frame("link4"), ds.Weld, [ds.Weld],
]  # fmt: skip
KINDS_OF_ENDS = (ds.Weld, ds.Point, ds.Hinge)
WITH_AXES = (*KINDS_OF_ENDS, lambda link, axes: ds.Rows(link, np.eye(6), axes=axes))
OF_TREES = (ds.delassus, ds.osim, ds.jacobian, ds.consistent_inverse, ds.delassus_operator)
OF_METHODS = (ds.delassus, ds.osim, ds.consistent_inverse)


def held(arm, **how):
    """A call with rows that come with it."""
    return ds.delassus(arm, LATE, arm.neutral(), **how)


WRONG = {
    "position of a frame on 'link4': expected finite numbers of shape \\(3,\\)": [
        (lambda arm, x: ds.Frame("link4", x), NOT_THREE, ModelError),
    ],
    "rotation: expected a 3×3 rotation matrix": [
        (lambda arm, x: ds.Frame("link4", rotation=x), NO_ROTATIONS, ModelError),
        (lambda arm, x: arm.attach("link2", arm, rotation=x, prefix="x"), NO_ROTATIONS, ModelError),
    ],
    "first frame: expected a link name or a Frame": [
        (lambda arm, x, kind=kind: kind(x), [3, None, ["link4"], b"link4", object()], ConstraintError)
        for kind in KINDS_OF_ENDS
    ],
    "second frame: expected a link name or a Frame": [
        (lambda arm, x, kind=kind: kind("link4", x), [3, ["link4"], b"link4", object()], ConstraintError)
        for kind in KINDS_OF_ENDS
    ],
    "axes: expected 'local', 'world' or 'local-world-aligned'": [
        (lambda arm, x, kind=kind: kind("link4", axes=x), ["World", "", None, 3, ["local"], b"world"], ConstraintError)
        for kind in WITH_AXES
    ],
    "axis of a hinge: expected a vector that is not zero": [
        (lambda arm, x: ds.Hinge("link4", axis=x), [(0, 0, 0), (1e-12, 0, 0)], ConstraintError),
    ],
    "axis of a hinge: expected finite numbers of shape \\(3,\\)": [
        (lambda arm, x: ds.Hinge("link4", axis=x), [None, "z", 2, (0, 0), (0, 0, np.nan), (1j, 0, 0)], ModelError),
    ],
    "K of Rows: expected (finite numbers of shape \\(n, 6\\)|at least one row), got": [
        (lambda arm, x: ds.Rows("link4", x), NO_ROWS, ConstraintError),
    ],
    "constraints: expected Weld, Point, JointRows or other constraints, got": [
        (lambda arm, x: ds.delassus(arm, x, arm.neutral()), NO_CONSTRAINTS, ConstraintError),
    ],
    "tree: expected a delassus.Tree": [
        (lambda _, x, call=call: call(x, [], [0.0]), [None, "talos", 3, object(), ds.Tree], ModelError)
        for call in OF_TREES
    ],
    "method: expected one of \\d+ names \\(.*dense.*ltl-osim": [
        (
            lambda arm, x, call=call: call(arm, ds.Point("link4"), arm.neutral(), method=x),
            [3, [], {}, "", "pv", "x" * 100_000, b"dense", object(), *[None] * (call is not ds.delassus)],
            UnknownNameError,
        )
        for call in OF_METHODS
    ],
    "rows: expected one array for each of 2 Rows\\(link, m\\) constraint\\(s\\)": [
        (lambda arm, x: held(arm, rows=x), [None, [], GIVEN[:1], [*GIVEN, GIVEN[0]], ()], ConstraintError),
    ],
    "rows of Rows\\('link4', 2 rows\\): expected finite numbers of shape \\(..., 2, 6\\)": [
        (
            lambda arm, x: held(arm, rows=[x, GIVEN[1]]),
            [None, "text", np.eye(6), np.eye(6)[0], np.full((2, 6), np.nan), np.eye(6)[:2] * 1j, 2],
            ConstraintError,
        ),
    ],
    "rows: expected a list of arrays": [
        (lambda arm, x: held(arm, rows=x), [np.ones((2, 1, 6)), 5, object(), "KK"], ConstraintError),
    ],
    "x: expected (shape \\(..., 6\\)|.*numbers)": [
        (
            lambda arm, x, call=call: getattr(ds.delassus_operator(arm, ds.Weld("link4"), arm.random(0, 3)), call)(x),
            [1.0, np.ones(5), np.ones((6, 1)), [], None, ["1"] * 6, np.ones(6) * 1j, object(), np.full(6, np.nan)],
            ConfigurationError,
        )
        for call in ("solve", "apply")
    ],
}
"""What is said, the calls that say it and the values that they do not take."""


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("message", WRONG)
def test_values_that_make_no_sense(arm, message):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for call, values, kind in WRONG[message]:
            for value in values:
                with refused(message, kind):
                    call(arm, value)


@pytest.mark.parametrize(
    ("typed", "meant"), [("pv_osimr", "pv-osimr"), ("PV-OSIM", "pv-osim"), ("dens", "dense"), ("EFPA", "efpa")]
)
def test_the_nearest_method_is_offered(arm, typed, meant):
    with refused(f"Did you mean '{meant}'\\?", UnknownNameError):
        ds.delassus(arm, ds.Point("link4"), arm.neutral(), method=typed)


def test_batches_that_do_not_fit_those_of_states(arm):
    operator = ds.delassus_operator(arm, ds.Weld("link4"), arm.random(0, 3))
    fit = "expected leading axes that broadcast with those of q, \\(3,\\)"
    for call in (operator.solve, operator.apply):
        with refused(f"x: {fit}, got \\(2,\\)", ConfigurationError):
            call(np.ones((2, 6)))
    with refused(f"rows of Rows.*: {fit}", ConfigurationError):
        ds.delassus(arm, ds.Rows("link4", 1), arm.random(0, 3), rows=[np.ones((2, 1, 6))])


# -- redundant rows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [ds.osim, ds.consistent_inverse])
def test_redundant_rows(humanoid, function):
    corners = [ds.Point(ds.Frame("left_foot", (x, y, 0))) for x in (-0.1, 0.1) for y in (-0.05, 0.05)]
    with refused("constraints: expected 12 independent rows, got 6\\. Drop redundant rows", ds.SingularError):
        function(humanoid, corners, humanoid.random(0))
    with refused("expected 12 independent rows, got 6 at state \\[0, 0\\]", ds.SingularError):
        function(humanoid, corners, humanoid.random(0, (2, 3)))


def test_rows_that_are_redundant_at_one_state(arm):
    q = arm.random(0, batch=3)
    ds.osim(arm, ds.Rows("link4", np.eye(6)[:2]), q)
    twice = np.stack([np.eye(6)[[0, 1]], np.eye(6)[[1, 1]], np.eye(6)[[2, 3]]])
    with refused("expected 2 independent rows, got 1 at state \\[1\\]", ds.SingularError):
        ds.osim(arm, ds.Rows("link4", 2), q, rows=[twice])


def test_more_rows_than_degrees_of_freedom(arm):
    with refused("expected 6 independent rows, got 4", ds.SingularError):
        ds.osim(arm, ds.Weld("link4"), arm.random(0))


def test_rows_that_nothing_moves(arm):
    for constraint in (ds.Weld("base"), ds.Weld("world"), ds.Weld("base", "world")):
        assert not ds.delassus(arm, constraint, arm.random(0)).any()
        with refused("expected 6 independent rows, got 0", ds.SingularError):
            ds.osim(arm, constraint, arm.random(0))


# -- edits of trees ------------------------------------------------------------------------------------------------


def test_attach(arm, humanoid):
    other = ds.mechanisms.chain(2)
    with refused("tree 'humanoid': expected a tree whose root is fixed, got a floating one"):
        arm.attach("link4", humanoid)
    with refused("frame '(base|link1)': expected a name that the tree does not have yet"):
        arm.attach("link4", other)
    with refused("joint 'link1_joint': expected a name that the tree does not have yet"):
        one = build_tree("one", [RawLink("p"), RawLink("q", 1.0, np.zeros(3), np.eye(3))],
                         [RawJoint("link1_joint", joint_kinds.REVOLUTE, "p", "q")])  # fmt: skip
        arm.attach("link4", one)
    with refused("Did you mean 'link4'\\?", UnknownNameError):
        arm.attach("link44", other, prefix="x")
    twice = arm.attach("link4", other, prefix="a_").attach("link4", other, prefix="b_")
    with refused("frame 'a_(base|link1|world)'"):
        twice.attach("link1", other, prefix="a_")
    for thing in (None, "gripper.urdf", 3, ds.Tree):
        with refused("other: expected a delassus.Tree"):
            arm.attach("link4", thing)
    for prefix in (None, 3, b"x"):
        with refused("prefix: expected text"):
            arm.attach("link4", other, prefix=prefix)
    for position in (None, (0, 0), (0, 0, np.nan), "xyz"):
        with refused("position: expected finite numbers of shape \\(3,\\)"):
            arm.attach("link4", other, position, prefix="x")


def test_reroot(arm, humanoid):
    for call in (lambda: arm.reroot("link4"), lambda: arm.reroot_configuration("link4", arm.neutral())):
        with refused("tree 'chain4': expected one free joint that carries everything"):
            call()
    with refused("expected one free joint that carries everything"):
        humanoid.reroot("world")
    with refused("Did you mean 'head'\\?", UnknownNameError):
        humanoid.reroot("heads")
    with refused("q: expected shape", ConfigurationError):
        humanoid.reroot_configuration("head", np.zeros(3))
    scene = humanoid.attach("world", ds.mechanisms.chain(2), prefix="x_")
    with refused("expected one free joint that carries everything"):
        scene.reroot("head")


def test_reroot_across_a_joint_that_cannot_be_turned(load_text):
    for kind in ("planar", "floating"):
        tree = load_text(with_joint("", kind), root="floating")
        with refused(f"joint 'j': expected a revolute, prismatic, ball or translation joint .*, got a "
                     f"{'planar' if kind == 'planar' else 'free'} joint"):  # fmt: skip
            tree.reroot("b")
        assert tree.reroot("a").nv == tree.nv


@pytest.mark.parametrize("what", ["armature", "damping"])
def test_reroot_across_a_ball_that_resists_unevenly(what):
    """A rotor about one axis turns with one of the two links; about every axis alike, it does not tell them apart."""
    links = [RawLink(n, 1.0, np.zeros(3), np.eye(3)) for n in ("a", "b")]
    for numbers, fine in (([0.1, 0.1, 0.1], True), ([0.1, 0.1, 0.2], False)):
        ball = RawJoint("j", joint_kinds.BALL, "a", "b", **{what: np.array(numbers)})
        tree = build_tree("r", links, [ball], root="floating")
        if fine:
            assert tree.reroot("b").nv == 9
        else:
            with refused("joint 'j': .*got a ball joint whose armature, damping or friction varies"):
                tree.reroot("b")


@pytest.mark.parametrize("what", ["armature", "damping"])
def test_reroot_of_a_free_joint_that_resists(humanoid, what):
    from dataclasses import replace

    first = replace(humanoid.joints[0], **{what: np.ones(6)})
    tree = ds.Tree(
        "resisting", humanoid.link_names, (first, *humanoid.joints[1:]), humanoid.parents, humanoid.inertias,
        humanoid.frames,
    )  # fmt: skip
    with refused("joint 'root_joint': expected a free joint without armature, damping, friction and spring"):
        tree.reroot("head")


def test_errors_are_of_python_s_kinds_too():
    assert issubclass(ModelError, ValueError)
    assert issubclass(ConfigurationError, ValueError)
    assert issubclass(UnknownNameError, LookupError)
    assert issubclass(MissingDependencyError, ImportError)
    assert issubclass(ds.SingularError, ArithmeticError)
    assert issubclass(ds.DelassusWarning, UserWarning)


# -- everything public ---------------------------------------------------------------------------------------------

ONE_IN = 60
"""Of the values that `hostile.py` knows for an argument: which ones follow the sources of the commit."""


@pytest.mark.slow
def test_whatever_is_handed_over(tmp_path):
    """All that is public, in a process of its own, which a crash or a hang would end; `hostile.py` runs all values."""
    script = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("hostile.py")), "--part", str(ONE_IN)]
    done = subprocess.run(script, capture_output=True, text=True, timeout=240, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert int(re.search(r"(\d+) calls, 0 faults", done.stdout)[1]) > 1000


def test_functions_without_constraints_refuse_them_by_name():
    """And a method where there is none to choose; not by what Python says of a function inside."""
    arm, q, v, a = ds.mechanisms.chain(3), np.zeros(3), np.ones(3), np.ones(3)
    for what in (ds.Point("link3"), (), None):
        with pytest.raises(ds.DelassusError, match=r"^constraints: expected none with 'bias_force'"):
            ds.bias_force(arm, q, v, constraints=what)
    for call in (ds.dynamics_derivatives, ds.inverse_dynamics):
        with pytest.raises(ds.DelassusError, match=r"^method: expected none with"):
            call(arm, q, v, a, method="aba")
    with pytest.raises(ds.DelassusError, match=r"keyword: .* got 'states'"):
        ds.inverse_dynamics(arm, q, v, a, states={})


# -- masked arrays -------------------------------------------------------------------------------------------------


def masked(x):
    """The numbers with the first one masked."""
    array = np.ma.array(x, dtype=float)
    array[(0,) * array.ndim] = np.ma.masked
    return array


CHAIN, ANGLES, STILL, STEPS = ds.mechanisms.chain(3), np.array([0.1, -0.2, 0.3]), np.zeros(3), np.zeros((5, 3))
ON_TIP, LATER = ds.Point("link3"), ds.Frame("link3", given="position")
ALL_GIVEN = {
    "gravity": STILL, "damping": STILL, "wrenches": {"link3": np.zeros(6)}, "payloads": {"link2": np.zeros(10)},
    "targets": [STILL], "compliance": np.ones(3), "poses": [STILL], "active": np.ones(1), "placements": [STILL],
}  # fmt: skip
"""Options of forward dynamics of a point, with `LATER` for placements."""


def with_masked(value):
    """The value with its numbers masked, wherever they are."""
    if isinstance(value, dict):
        return {name: masked(x) for name, x in value.items()}
    return [masked(x) for x in value] if isinstance(value, list) else masked(value)


def masked_calls():
    """Calls that take masked numbers, by name: kernels, rollouts, direct functions, simulators, what robots have."""
    q, solid = masked(ANGLES), ds.contact.Sphere(0.1)
    forward, step, energy = (
        ds.compile(CHAIN, *what) for what in ((ON_TIP, "dynamics"), ((), "step"), ((), "energies"))
    )
    for k in range(4):
        state = [masked(x) if j == k else x for j, x in enumerate((ANGLES, STILL, STILL, 1e-3))]
        yield f"argument {k}", partial(step, *state)
        yield f"rollout, {k}", partial(ds.rollout, step, *state[:2], masked(STEPS) if k == 2 else STEPS, state[3])
    yield "batch", partial(energy, masked(np.tile(ANGLES, (50, 1))), STILL)
    yield "by name", partial(forward, ANGLES, STILL, tau=q)
    yield "in a list", partial(forward, [ANGLES, q], STILL, STILL)
    yield "one of a list", partial(forward, [0.1, np.ma.masked, 0.2], STILL, STILL)
    yield "on a thread", partial(energy, q, STILL, threads=1)
    yield "solve", partial(forward.solve, q, STILL, STILL)
    yield "out", partial(energy, ANGLES, STILL, out=(masked(0.0), np.empty(())))
    yield "policy", partial(ds.rollout, step, ANGLES, STILL, lambda t, q, v: masked(v), 1e-3, steps=2)
    yield (
        "cotangents",
        partial(ds.rollout, step.derivative("vjp"), STEPS, STEPS, STEPS[:4], 1e-3, q_next_bar=masked(STEPS[:4])),
    )
    law = {
        "feedback": np.zeros((5, 3, 6)),
        "nominal": (np.zeros((6, 3)),) * 2,
        "bounds": (-STEPS[0], STEPS[0]),
        "defects": np.zeros((6, 6)),
    }
    for name, x in law.items():
        new = tuple(map(masked, x)) if isinstance(x, tuple) else masked(x)
        yield name, partial(ds.rollout, step, ANGLES, STILL, STEPS, 1e-3, **{**law, name: new})
    for name, x in ALL_GIVEN.items():
        tip = ds.Point(LATER) if name == "placements" else ON_TIP
        more = {"method": "proximal", "baumgarte": 2.0} if name in ("active", "poses") else {}
        yield name, partial(ds.forward_dynamics, CHAIN, ANGLES, STILL, STILL, tip, **more, **{name: with_masked(x)})
    yield "direct", partial(ds.mass_matrix, CHAIN, q)
    yield "integrate", partial(CHAIN.integrate, ANGLES, q)
    yield "configuration", partial(CHAIN.configuration, {"link1_joint": masked(0.1)})
    yield "option", partial(ds.compile, CHAIN, (), "dynamics", gravity=q)
    for name, x in (("q0", ANGLES), ("v0", STILL), ("dt", 1e-3), ("kp", STILL)):
        yield f"simulator, {name}", partial(ds.Simulator, ds.Scene(CHAIN), **{name: masked(x)}, control="pd")
    yield "step", partial(ds.Simulator(ds.Scene(CHAIN)).step, q)
    yield "controller", partial(ds.Simulator(ds.Scene(CHAIN)).run, 0.01, lambda sim: masked(sim.v))
    yield "scene", partial(ds.Scene, CHAIN, gravity=q)
    for make in (
        lambda: ds.Frame("link3", q), lambda: ds.Rows("link3", masked(np.ones((1, 6)))),
        lambda: ds.mechanisms.free_body(masked(1.0), np.eye(3)),
        lambda: ds.JointRows({"link1_joint": masked([1.0])}), lambda: ds.Distance("link1", "link3", length=masked(1.0)),
        lambda: ds.Contact("link3", solid, friction=masked(0.5)), lambda: ds.contact.Sphere(masked(0.1)),
    ):  # fmt: skip
        yield inspect.getsource(make), make


def test_masks_are_refused_and_not_dropped():
    """Wherever numbers are masked; arrays without masked ones are as any other."""
    for name, call in masked_calls():
        with pytest.raises(ds.DelassusError, match="mask") as caught:
            call()
        assert type(caught.value) is not ds.DelassusError, name
        check_four_parts(caught.value)
    plain, energy = np.ma.array(ANGLES), ds.compile(CHAIN, (), "energies")
    assert energy(plain, STILL)[1] == energy(ANGLES, STILL)[1]
    assert np.isclose(ds.potential_energy(CHAIN, plain), energy(ANGLES, STILL)[1])


@pytest.mark.parametrize("name", ["q0", "v0", "controls", "active"])
def test_masks_beside_arrays_of_jax_are_refused(name):
    jnp = pytest.importorskip("jax.numpy")
    step = ds.compile(CHAIN, ON_TIP, "step", active=True, dtype="float32")
    given = {"q0": STILL, "v0": STILL, "controls": STEPS, "active": np.ones(1)}
    given = {key: masked(x).astype("float32") if key == name else jnp.asarray(x, "float32") for key, x in given.items()}
    with refused("none of which is masked", ConfigurationError):
        ds.rollout(step, dt=1e-3, **given)
    given["q"], given["v"], given["tau"] = given.pop("q0"), given.pop("v0"), given.pop("controls")
    with refused("none of which is masked", ConfigurationError):
        step(**given, dt=1e-3)
