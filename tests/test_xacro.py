"""URDF files with macros, which the package xacro expands."""

from __future__ import annotations

import numpy as np
import pytest

import delassus as ds
from delassus.errors import ConfigurationError, ModelError

pytest.importorskip("xacro")

ARM = """<robot name="arm" xmlns:xacro="http://wiki.ros.org/xacro"><xacro:arg name="n" default="2"/>
<xacro:include filename="$(find parts)/rod.xacro"/><link name="l0"/><xacro:property name="half" value="${pi / 2}"/>
<xacro:rods k="$(arg n)"/></robot>"""

ROD = """<robot xmlns:xacro="http://wiki.ros.org/xacro"><xacro:macro name="rods" params="k"><xacro:if value="${k > 0}">
<xacro:rods k="${k - 1}"/><link name="l${k}"><inertial><origin xyz="0 0 0.5"/><mass value="${2 * k}"/>
<inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="j${k}" type="revolute"><parent link="l${k - 1}"/><child link="l${k}"/>
<origin xyz="0 0 1" rpy="0 0 ${half}"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1" effort="1" velocity="1"/></joint></xacro:if></xacro:macro></robot>"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/rod.xacro").write_text(ROD)
    path = tmp_path / "parts/arm.urdf.xacro"
    path.write_text(ARM)
    return path


def test_macros_are_expanded(file, monkeypatch):
    """By files and texts, with arguments of every type; packages are above the file or where ROS has them."""
    tree = ds.load(file)
    assert tree.name == "arm" and tree.joint_names == ("j1", "j2") and tree.mass == 6.0
    assert ds.load(file, xacro={"n": 3}).nv == 3 and ds.load(file, xacro={"n": "1"}).nv == 1
    at = ds.forward_kinematics(tree, np.zeros(2), "l2")
    assert np.abs(at[:3, :3] - np.diag([-1.0, -1.0, 1.0])).max() < 1e-15
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(file.parent.parent))
    assert ds.load(ARM, xacro={}).fingerprint == tree.fingerprint
    assert ds.Scene.from_robot(file).tree.nv == 8


@pytest.mark.parametrize(
    ("text", "given", "said"),
    [
        (ARM.replace("parts", "nowhere"), {}, "a package that is there"),
        (ARM.replace("pi / 2", "no / 2"), {}, "name 'no' is not defined"),
        (ARM.replace("pi / 2", "open('secret')"), {}, "name 'open' is not defined"),
        (ARM.replace("pi / 2", "().__class__"), {}, "invalid name"),
        (ARM.replace("rods k", "nothing k"), {}, "unknown macro name"),
        (ROD.replace("${k > 0}", "true").replace("</robot>", '<xacro:rods k="1"/></robot>'), {}, "RecursionError"),
        ("<!DOCTYPE x><robot/>", {}, "DOCTYPE"),
    ],
)
def test_what_cannot_be_expanded_is_said(file, text, given, said):
    file.write_text(text)
    with pytest.raises(ModelError) as caught:
        ds.load(file, xacro=given)
    assert said in str(caught.value)


def test_arguments_that_are_wrong_or_missing(file):
    for given in ("text", {1: "x"}, {"n": [1]}):
        with pytest.raises(ConfigurationError, match="xacro: expected a mapping"):
            ds.load(file, xacro=given)
    with pytest.raises(ModelError, match="Pass xacro="):
        ds.load(ARM)
