"""Trees: what loaders make of a description, configurations, topology, edits, mechanisms."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
from delassus import Tree, mechanisms
from delassus.errors import ConfigurationError, UnknownNameError
from internals import (
    WORLD,
    NumpyOps,
    RawJoint,
    RawLink,
    build_tree,
    exact_quarter_turns,
    example_robot_files,
    frame_pose,
    joint_kinds,
    kinematics,
    matrix_to_quaternion,
    move_inertia,
    quaternion_to_matrix,
    rotation_about,
    rotation_between,
    rotation_from_rpy,
    spatial_inertia,
)
from random_trees import some_actuator, some_contacts, some_robot, some_rows
from tools import ROUND_OFF, error, random_rotation
from tools import urdf_joint as joint

POSE = 1e-12
"""Positions (m) and rotations after some ten products of rotations."""

MANIFOLD = 1e-12
"""Round trips of exponential and logarithm: both lose a few units in the last place of numbers of order 10."""

ROUNDED = 1e-13
"""Differences of entries of mass matrices, of numbers up to a hundred times as large."""

CENTRAL_DIFFERENCES = 1e-7
"""Second-order differences with steps of 1e-5 or 1e-6: truncation below 1e-9, round-off some 1e-15 / 1e-6."""

CONDITIONING = 1e-8
"""The same G by two orders of elimination: round-off times the condition of the mass matrix."""


def inertial(mass=2.0, principal=(0.02, 0.03, 0.04), origin=""):
    ixx, iyy, izz = principal
    inertia = f'<inertia ixx="{ixx}" ixy="0" ixz="0" iyy="{iyy}" iyz="0" izz="{izz}"/>'
    return f'<inertial>{origin}<mass value="{mass}"/>{inertia}</inertial>'


def link(name, inside=None):
    return f'<link name="{name}">{inertial() if inside is None else inside}</link>'


@pytest.fixture
def load_text(tmp_path):
    def load(*parts, **options):
        path = tmp_path / "robot.urdf"
        path.write_text(f'<robot name="r">{"".join(parts)}</robot>')
        return ds.load(path, **options)

    return load


def one_joint(load_text, kind, inside="", **options):
    return load_text(link("a"), link("b"), joint("j", "a", "b", kind, inside), **options)


def pose_matrix(tree, frame, q):
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = frame_pose(tree, frame, tree.check_configuration(q))
    return T


def matrix(R, p):
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = R, p
    return T


X, Y, Z = np.eye(3)
NOWHERE = np.zeros(3)


# -- URDF ----------------------------------------------------------------------------------------------------------


class TestUrdf:
    def test_defaults(self, load_text):
        """No <origin> is the identity, no <axis> is x, no <inertial> is no mass, no <limit> is no limit."""
        tree = load_text('<link name="a"/>', link("b"), joint("j", "a", "b"))
        assert tree.name == "r" and tree.link_names == ("b",) and tree.joint_names == ("j",)
        assert np.allclose(pose_matrix(tree, "b", [0.0]), np.eye(4), atol=POSE)
        assert np.allclose(pose_matrix(tree, "b", [0.3]), matrix(rotation_about(X, 0.3), NOWHERE), atol=POSE)
        assert tree.joints[0].lower == -np.inf and tree.joints[0].upper == np.inf
        assert not tree.world_inertia.any()
        assert not tree.joints[0].damping.any() and not tree.joints[0].armature.any()

    def test_parts_of_an_origin(self, load_text):
        shifted = one_joint(load_text, "revolute", '<origin xyz="1 2 3"/>')
        assert np.allclose(pose_matrix(shifted, "b", [0.0]), matrix(np.eye(3), [1, 2, 3]), atol=POSE)
        turned = one_joint(load_text, "revolute", '<origin rpy="0.1 0.2 0.3"/>')
        R = rotation_about(Z, 0.3) @ rotation_about(Y, 0.2) @ rotation_about(X, 0.1)
        assert np.allclose(pose_matrix(turned, "b", [0.0]), matrix(R, NOWHERE), atol=POSE)
        assert np.allclose(rotation_from_rpy(np.array([0.1, 0.2, 0.3])), R, atol=POSE)
        bare = one_joint(load_text, "revolute", "<origin/><axis/>")
        assert np.allclose(pose_matrix(bare, "b", [0.3]), matrix(rotation_about(X, 0.3), NOWHERE), atol=POSE)

    def test_name_of_the_file_where_the_robot_has_none(self, tmp_path):
        (tmp_path / "walker.urdf").write_text(f"<robot>{link('a')}</robot>")
        assert ds.load(tmp_path / "walker.urdf").name == "walker"

    def test_inertial_in_a_frame_of_its_own(self, load_text):
        origin = '<origin xyz="0.1 0.2 0.3" rpy="0.4 0.5 0.6"/>'
        tree = load_text(link("a"), link("b", inertial(2.0, (0.02, 0.03, 0.04), origin)), joint("j", "a", "b"))
        R = rotation_from_rpy(np.array([0.4, 0.5, 0.6]))
        expected = spatial_inertia(2.0, np.array([0.1, 0.2, 0.3]), R @ np.diag([0.02, 0.03, 0.04]) @ R.T)
        assert error(tree.inertias[0], expected) < ROUND_OFF
        assert tree.mass == pytest.approx(2.0)
        assert error(tree.world_inertia, spatial_inertia(2.0, NOWHERE, np.diag([0.02, 0.03, 0.04]))) < ROUND_OFF

    def test_elements_that_do_not_matter(self, load_text):
        """Meshes are not looked for; materials without a name, transmissions and plugins are skipped."""
        visual = '<visual><geometry><mesh filename="package://nowhere/mesh.dae"/></geometry><material/></visual>'
        collision = '<collision><geometry><box size="not numbers"/></geometry></collision>'
        tree = load_text(
            "<material/>", "<gazebo><plugin:x xmlns:plugin='p'/></gazebo>", "<undeclared:prefix a:b='c'/>", "text",
            link("a", visual + collision + inertial() + "<undeclared:prefix/>"), link("b"), "<!-- a comment -->",
            joint("j", "a", "b", inside="<safety_controller/><calibration/><friction/>"),
            "<transmission><joint name='nowhere'/></transmission>", "<?processing instruction?>",
        )  # fmt: skip
        assert tree.nv == 1

    def test_namespaces(self, tmp_path):
        """A default namespace and foreign attributes change nothing."""
        inside = link("a") + '<link name="b" xmlns="urn:other" t:x="1">' + inertial() + "</link>"
        text = f'<robot name="r" xmlns="urn:robot" xmlns:xacro="urn:x">{inside}{joint("j", "a", "b")}</robot>'
        (tmp_path / "r.urdf").write_text(text)
        assert ds.load(tmp_path / "r.urdf").link_names == ("b",)

    def test_joint_kinds(self, load_text):
        expected = {
            "revolute": (joint_kinds.REVOLUTE, 1, 1), "continuous": (joint_kinds.REVOLUTE, 1, 1),
            "prismatic": (joint_kinds.PRISMATIC, 1, 1), "planar": (joint_kinds.PLANAR, 4, 3),
            "floating": (joint_kinds.FREE, 7, 6),
        }  # fmt: skip
        for text, (kind, nq, nv) in expected.items():
            tree = one_joint(load_text, text)
            assert (tree.joints[0].kind, tree.nq, tree.nv) == (kind, nq, nv)
        tree = one_joint(load_text, "continuous", continuous="cos-sin")
        assert (tree.joints[0].kind, tree.nq, tree.nv) == (joint_kinds.COS_SIN, 2, 1)
        assert one_joint(load_text, "revolute", continuous="cos-sin").nq == 1
        assert one_joint(load_text, "fixed").n_links == 0

    @pytest.mark.parametrize("axis", [X, Y, Z, -X, -Y, -Z, X + Y, -X - Y - Z, 3 * Y, X + 1e-3 * Z, Z - 1e-7 * Y])
    def test_axes(self, load_text, axis):
        """The child frame moves about the axis of the description, wherever the library puts its body frame."""
        inside = f'<origin xyz="1 2 3" rpy="0.1 0.2 0.3"/><axis xyz="{" ".join(map(str, axis))}"/>'
        R, unit = rotation_from_rpy(np.array([0.1, 0.2, 0.3])), axis / np.linalg.norm(axis)
        turning = one_joint(load_text, "revolute", inside)
        sliding = one_joint(load_text, "prismatic", inside)
        for q in (0.0, 0.7, -2.0):
            expected = matrix(R @ rotation_about(unit, q), [1, 2, 3])
            assert np.allclose(pose_matrix(turning, "b", [q]), expected, atol=POSE)
            expected = matrix(R, np.array([1, 2, 3]) + R @ unit * q)
            assert np.allclose(pose_matrix(sliding, "b", [q]), expected, atol=POSE)
        two = one_joint(load_text, "continuous", inside, continuous="cos-sin")
        expected = matrix(R @ rotation_about(unit, 0.7), [1, 2, 3])
        assert np.allclose(pose_matrix(two, "b", [np.cos(0.7), np.sin(0.7)]), expected, atol=POSE)

    @pytest.mark.parametrize("axis", [X, Y, Z, -Z, X + Y + Z])
    def test_planar_joints_move_across_their_axis(self, load_text, axis):
        tree = one_joint(load_text, "planar", f'<axis xyz="{" ".join(map(str, axis))}"/>')
        unit = axis / np.linalg.norm(axis)
        q = tree.random(0, batch=20)
        R, p = frame_pose(tree, "b", q)
        assert np.max(np.abs(p @ unit)) < POSE
        assert np.allclose(R @ unit, unit, atol=POSE)
        assert np.allclose(np.linalg.norm(p, axis=-1), np.linalg.norm(q[:, :2], axis=-1), atol=POSE)
        assert np.allclose(np.trace(R, axis1=1, axis2=2), 1 + 2 * q[:, 2], atol=POSE)

    def test_a_floating_joint(self, load_text):
        tree = one_joint(load_text, "floating", '<origin xyz="0 0 1"/>')
        quaternion = np.array([0.1, 0.2, 0.3, 0.4]) / np.linalg.norm([0.1, 0.2, 0.3, 0.4])
        expected = matrix(quaternion_to_matrix(quaternion), [1, 2, 4])
        assert np.allclose(pose_matrix(tree, "b", [1, 2, 3, *quaternion]), expected, atol=POSE)
        assert tree.is_floating  # on the world, although the description has a link there

    def test_fixed_joints_are_merged_and_every_link_stays_a_frame(self, load_text):
        """base -fixed- plate -j- arm -fixed- hand -fixed- tip, base -fixed- camera: one moving link, six frames."""
        tree = load_text(
            *(link(n) for n in ("base", "plate", "arm", "hand", "tip", "camera")),
            joint("m1", "base", "plate", "fixed", '<origin xyz="0 0 1" rpy="0.1 0 0"/>'),
            joint("j", "plate", "arm", "revolute", '<origin xyz="1 0 0" rpy="0 0.2 0"/><axis xyz="0 1 1"/>'),
            joint("m2", "arm", "hand", "fixed", '<origin xyz="0 2 0" rpy="0 0 0.3"/>'),
            joint("m3", "hand", "tip", "fixed", '<origin xyz="0 0 3" rpy="0.4 0.5 0.6"/>'),
            joint("m4", "base", "camera", "fixed", '<origin xyz="5 0 0"/>'),
        )
        assert tree.n_links == 1 and tree.link_names == ("arm",)
        assert set(tree.frames) == {"world", "base", "plate", "arm", "hand", "tip", "camera"}
        assert {n for n, f in tree.frames.items() if f.link == WORLD} == {"world", "base", "plate", "camera"}

        q = 0.7
        T = {"base": np.eye(4)}
        T["plate"] = T["base"] @ matrix(rotation_about(X, 0.1), [0, 0, 1])
        axis = np.array([0, 1, 1]) / np.sqrt(2)
        T["arm"] = T["plate"] @ matrix(rotation_about(Y, 0.2) @ rotation_about(axis, q), [1, 0, 0])
        T["hand"] = T["arm"] @ matrix(rotation_about(Z, 0.3), [0, 2, 0])
        T["tip"] = T["hand"] @ matrix(rotation_from_rpy(np.array([0.4, 0.5, 0.6])), [0, 0, 3])
        T["camera"] = T["base"] @ matrix(np.eye(3), [5, 0, 0])
        for name, expected in T.items():
            assert np.allclose(pose_matrix(tree, name, [q]), expected, atol=POSE), name

        one = spatial_inertia(2.0, NOWHERE, np.diag([0.02, 0.03, 0.04]))
        moving = sum(move_inertia(one, *_split(np.linalg.inv(T["arm"]) @ T[n])) for n in ("arm", "hand", "tip"))
        at = tree.frames["arm"]
        assert error(move_inertia(moving, at.rotation, at.position), tree.inertias[0]) < 10 * ROUND_OFF
        fixed = sum(move_inertia(one, *_split(T[n])) for n in ("base", "plate", "camera"))
        assert error(tree.world_inertia, fixed) < 10 * ROUND_OFF
        assert tree.mass == pytest.approx(6.0)
        for name in ("hand", "tip"):
            assert ds.jacobian(tree, ds.Weld(name), [q]).shape == (6, 1)

    def test_root_link_named_world(self, load_text):
        parts = link("world"), link("arm"), joint("j", "world", "arm", inside='<origin xyz="1 0 0"/>')
        fixed = load_text(*parts)
        assert fixed.frames["world"].link == WORLD and fixed.link_names == ("arm",)
        assert set(fixed.frames) == {"world", "arm"}
        floating = load_text(*parts, root="floating")
        assert floating.link_names == ("world", "arm") and floating.frames["world"].link == 0
        q = floating.random(0)
        assert np.allclose(pose_matrix(floating, "world", q)[:3, 3], q[:3])
        assert ds.delassus(floating, ds.Weld("arm"), q).any()

    def test_floating_root(self, load_text):
        parts = link("a"), link("b"), joint("j", "a", "b")
        tree = load_text(*parts, root="floating")
        assert tree.is_floating and tree.nv == 7 and tree.joint_names == ("root_joint", "j")
        q = tree.random(0)
        expected = matrix(quaternion_to_matrix(q[3:7]), q[:3])
        assert np.allclose(pose_matrix(tree, "a", q), expected, atol=POSE)
        assert not load_text(*parts).is_floating

    def test_a_joint_that_is_named_root_joint(self, load_text):
        parts = link("a"), link("b"), link("c"), joint("root_joint", "a", "b"), joint("root_joint_", "b", "c")
        tree = load_text(*parts, root="floating")
        assert tree.joint_names == ("root_joint__", "root_joint", "root_joint_")
        q = tree.random(0)
        other = tree.reroot("c")
        assert np.allclose(pose_matrix(other, "a", tree.reroot_configuration("c", q)), pose_matrix(tree, "a", q))

    def test_children_in_the_order_of_joint_names(self, load_text):
        tree = load_text(
            *(link(n) for n in "rabcd"), joint("j2", "r", "a"), joint("j10", "r", "b"), joint("J3", "r", "c"),
            joint("j1", "a", "d"),
        )  # fmt: skip
        assert tree.joint_names == ("J3", "j10", "j2", "j1")
        assert tree.parents == (WORLD, WORLD, WORLD, 2)

    def test_mimic_joints_are_constraints(self, load_text):
        mimic = '<mimic joint="j" multiplier="-1" offset="0.5"/>'
        parts = link("a"), link("b"), link("c"), joint("j", "a", "b"), joint("k", "a", "c", inside=mimic)
        tree = load_text(*parts)
        expected = ds.JointRows({"k": 1.0, "j": 1.0}, rest=0.5)
        assert tree.nv == 2 and [c.fingerprint for c in tree.constraints] == [expected.fingerprint]
        fixed = load_text(*parts[:4], joint("k", "a", "c", "fixed", mimic))  # a fixed joint mimics nothing
        assert fixed.constraints == () and not fixed.omitted

    def test_limits_and_damping(self, load_text):
        inside = '<limit lower="-0.5" upper="1.5" effort="1" velocity="1"/><dynamics damping="0.3" friction="1"/>'
        for kind in ("revolute", "prismatic"):
            tree = one_joint(load_text, kind, inside)
            assert (tree.joints[0].lower, tree.joints[0].upper, tree.joints[0].damping) == (-0.5, 1.5, 0.3)
        free = one_joint(load_text, "continuous", inside)
        assert (free.joints[0].lower, free.joints[0].upper) == (-np.inf, np.inf)

    @pytest.mark.parametrize("kind", ["revolute", "prismatic"])
    def test_limits_that_are_left_out(self, load_text, kind):
        """Both are zero by URDF: such joints move, gimbals of them are balls, and loading says so; one zero is one."""
        with pytest.warns(ds.DelassusWarning, match=r"1 limits without lower and upper, which hold .* \(j\)"):
            bare = one_joint(load_text, kind, "<limit effort='1'/>")
        assert (bare.joints[0].lower, bare.joints[0].upper) == (-np.inf, np.inf) and bare.joints[0].effort_limit == 1
        for given, limits in (("upper='2'", (0, 2)), ("lower='0' upper='0'", (0, 0))):
            tree = one_joint(load_text, kind, f"<limit effort='1' {given}/>")
            assert (tree.joints[0].lower, tree.joints[0].upper) == limits

    @pytest.mark.parametrize("kind", ["revolute", "prismatic", "continuous"])
    @pytest.mark.parametrize("limit", [0, -0.0, -3])
    def test_motors_without_force_or_speed(self, load_text, kind, limit):
        """Zero is how files say that they do not know: there is no limit, motors act, and loading says so."""
        inside = f'<limit lower="-9" upper="9" effort="{limit}" velocity="{limit}"/>'
        with pytest.warns(ds.DelassusWarning, match=r"1 motors whose effort or velocity limit is not above .* \(j\)"):
            tree = one_joint(load_text, kind, inside)
        assert tree.effort_limit == tree.velocity_limit == np.inf and ("j",) in tree.report.values()
        pd = dict(control="pd", kp=[2.0], kd=[0.0], gravity=(0, 0, 0))
        plain = one_joint(load_text, kind)
        pushed = (ds.forward_dynamics(x, [0.0], [0.0], [0.5], **pd).qdd[0] for x in (tree, plain))
        assert next(pushed) == next(pushed) > 0.0
        for other in ("fixed", "floating", "planar"):  # no single motor drives these
            assert not one_joint(load_text, other, inside).omitted

    @pytest.mark.parametrize(
        ("inside", "fault"),
        [
            ('<limit upper="-0.5"/>', "lower limit above the upper one"),
            ('<dynamics damping="-1"/>', "negative damping"),
            ('<dynamics friction="-1e-9" damping="-2"/>', "negative damping, negative friction"),
        ],
    )
    def test_numbers_that_no_joint_has(self, load_text, inside, fault):
        with pytest.warns(ds.DelassusWarning, match=rf"robot.urdf'?: no joint is like j \({fault}\)"):
            one_joint(load_text, "revolute", inside)

    @pytest.mark.parametrize("kind", ["revolute", "prismatic", "continuous"])
    def test_rotors_of_transmissions(self, load_text, kind):
        """As Drake has them: a rotor of inertia I behind a gear of ratio ρ adds ρ² I to the mass matrix."""

        def driven(*numbers, name="j", of="transmission_interface/SimpleTransmission"):
            tags = ["".join(f"<drake:{tag} value='{x}'/>" for tag, x in given.items()) for given in numbers]
            actuators = "".join(f"<actuator name='m'>{inside}</actuator>" for inside in tags)
            parts = f"<transmission name='t'><type>{of}</type><joint name='{name}'/>{actuators}</transmission>"
            return load_text(link("a"), link("b"), joint("j", "a", "b", kind), parts)

        bare, (inertia, ratio) = one_joint(load_text, kind), np.random.default_rng(3).uniform(0.1, 9, 2)
        plain = ds.mass_matrix(bare, [0.3])
        added = [
            (driven({"rotor_inertia": inertia, "gear_ratio": ratio}), ratio**2 * inertia),
            (driven({"rotor_inertia": inertia, "gear_ratio": -ratio}), ratio**2 * inertia),
            (driven({"rotor_inertia": inertia}), inertia),
            (driven({"gear_ratio": ratio}), 0.0),
            (driven({"rotor_inertia": inertia}, {"rotor_inertia": 1.0, "gear_ratio": 2.0}), inertia + 4.0),
        ]
        for tree, expected in added:
            assert not tree.omitted
            assert ds.mass_matrix(tree, [0.3]) - plain == pytest.approx(expected, rel=ROUNDED)
        for other in ({"of": "FourBar"}, {"name": "k"}):
            with pytest.warns(ds.DelassusWarning, match=r"1 rotors of other than simple transmissions, .* \(t\)"):
                assert not driven({"rotor_inertia": 1}, **other).per_dof("armature").any()
        with pytest.raises(ds.DelassusError, match="transmission 't', value of <drake:gear_ratio>: expected a finite"):
            driven({"rotor_inertia": 1, "gear_ratio": "many"})
        with pytest.raises(ds.DelassusError, match=r"transmission 't', <drake:rotor_inertia>: .* at least 0, got -1"):
            driven({"rotor_inertia": -1})

    def test_elements_of_other_programs_are_listed(self, load_text):
        """What changes the motion; links that only a joint of Drake's carries are fixed."""
        ends = '<parent link="b"/><child link="{}"/><origin xyz="1 2 3"/>'
        foreign = (
            f'<drake:joint name="ball" type="ball">{ends.format("c")}</drake:joint>',
            f'<drake:joint name="second" type="screw">{ends.format("a")}</drake:joint>',
            '<drake:joint name="bare" type="universal"/>',
            '<drake:linear_bushing_rpy><drake:bushing_frameA name="a"/></drake:linear_bushing_rpy>',
            '<loop_joint name="closure" type="continuous"><link1 link="a"/><link2 link="b"/></loop_joint>',
            '<mujoco><compiler balanceinertia="true"/><option gravity="0 0 0"/></mujoco>',
            '<gazebo reference="b"><material>Red</material></gazebo>',
        )
        with pytest.warns(ds.DelassusWarning, match="joints of Drake's .* held fixed"):
            parts = link("a"), link("b"), link("c"), joint("j", "a", "b")
            tree = load_text(*parts, *foreign)
        assert list(tree.omitted.values()) == [
            ("ball",),
            (
                "drake:joint second", "drake:joint bare", "drake:linear_bushing_rpy", "loop_joint closure",
                "mujoco: compiler", "mujoco: option",
            ),
        ]  # fmt: skip
        assert tree.report.items() >= tree.omitted.items() and tree.nv == 1
        at = tree.placement("c")
        assert (at.link, at.position.tolist()) == (0, [1, 2, 3]) and tree.placement("ball") is at

    @pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", None])
    def test_quaternions_of_later_versions(self, tmp_path, version):
        """As urdfdom reads them: of any length from version 1.1 on, ignored before."""
        quaternion = np.random.default_rng(4).normal(size=4)
        said = "" if version is None else f' version="{version}"'
        pose = f'<origin xyz="1 2 3" quat_xyzw="{" ".join(map(str, quaternion))}"/>'
        body = link("b", inertial(origin=pose))
        text = f'<robot name="r"{said}>{link("a")}{body}{joint("j", "a", "b", inside=pose)}</robot>'
        path = tmp_path / "robot.urdf"
        path.write_text(text)
        if version in ("1.1", "1.2"):
            tree, expected = ds.load(path), quaternion_to_matrix(quaternion / np.linalg.norm(quaternion))
        else:
            with pytest.warns(ds.DelassusWarning, match=r"2 quat_xyzw of links and joints .* \(b, j\)"):
                tree, expected = ds.load(path), np.eye(3)
        assert error(pose_matrix(tree, "b", [0.0]), matrix(expected, [1, 2, 3])) < POSE
        own = tree.inertial_parameters[0]
        turned = expected @ np.diag([0.02, 0.03, 0.04]) @ expected.T + 2.0 * (
            14 * np.eye(3) - np.outer(*2 * [[1, 2, 3]])
        )
        assert error(own[4:], turned[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]) < POSE

    @pytest.mark.parametrize(
        "version", ["", "1", "1.3", "2.0", "0.9", "1.1.0", "1.1 ", "-1.1", "1.x", "9" * 6000 + ".1"]
    )
    def test_versions_that_there_are_not(self, tmp_path, version):
        path = tmp_path / "robot.urdf"
        path.write_text(f'<robot name="r" version="{version}">{link("a")}</robot>')
        with pytest.raises(ds.DelassusError, match="version of URDF: expected one of 1"):
            ds.load(path)

    @pytest.mark.parametrize(
        ("origin", "match"),
        [
            ('rpy="0 0 0" quat_xyzw="0 0 0 1"', "joint 'j', <origin>: expected rpy or quat_xyzw, got both"),
            ('quat_xyzw="0 0 1"', "joint 'j', quat_xyzw of <origin>: expected 4 finite"),
            ('quat_xyzw="0 0 0 0"', "joint 'j', quat_xyzw of <origin>: expected a rotation"),
        ],
    )
    def test_quaternions_that_are_none(self, tmp_path, origin, match):
        path = tmp_path / "robot.urdf"
        parts = link("a"), link("b"), joint("j", "a", "b", inside=f"<origin {origin}/>")
        path.write_text(f'<robot name="r" version="1.1">{"".join(parts)}</robot>')
        with pytest.raises(ds.DelassusError, match=match):
            ds.load(path)

    def test_a_world_that_is_not_declared_is_the_root(self, load_text):
        """As in Drake: the same robot as with ``<link name="world"/>``."""
        parts = link("b"), link("c"), joint("j", "world", "b"), joint("k", "world", "c", "fixed")
        tree, declared = load_text(*parts), load_text('<link name="world"/>', *parts)
        assert tree.fingerprint == declared.fingerprint and tree.placement("world").link == WORLD
        assert load_text(*parts, root="floating").link_names == ("world", "b")
        with pytest.raises(ds.DelassusError, match="joint 'j': expected a parent link that exists, got 'World'"):
            load_text(link("b"), joint("j", "World", "b"))

    def test_masses_without_moments_are_points(self, load_text):
        """With a warning; what links that are fixed to the world lack does not matter."""
        alone = '<inertial><origin xyz="0 3 4"/><mass value="2"/></inertial>'
        with pytest.warns(ds.DelassusWarning, match=r"1 masses without moments of inertia, which are points \(b\)"):
            tree = load_text(link("a", alone), link("b", alone), joint("j", "a", "b"))
        assert ds.mass_matrix(tree, [0.0])[0, 0] == 2.0 * 25.0  # about the x axis
        for poor in (alone, "<inertial/>", '<inertial><mass value="1"/><inertia ixx="1"/></inertial>'):
            for kind, frozen in (("revolute", "a"), ("fixed", "ab")):
                bodies = (link(name, poor if name in frozen else None) for name in "abc")
                assert not load_text(*bodies, joint("j", "a", "b", kind), joint("k", "b", "c")).omitted
        with pytest.warns(ds.DelassusWarning, match=r"which are points \(a\)"):  # it moves now
            load_text(link("a", alone), link("b"), joint("j", "a", "b"), root="floating")

    def test_quarter_turns_are_exact(self, load_text):
        for written in ("1.57079632679", "1.5707963267948966", "-1.5707963268", "3.14159265359", "4.71238898038"):
            tree = one_joint(load_text, "revolute", f'<origin rpy="{written} 0 {written}"/><axis xyz="0 0 1"/>')
            R = tree.joints[0].rotation
            assert set(np.abs(np.ravel(R))) == {0.0, 1.0}
            assert np.linalg.det(R) == 1.0
        rough = one_joint(load_text, "revolute", '<origin rpy="1.5708 0 0"/>')  # not meant as π/2 to 1e-11: as written
        assert np.min(np.abs(rough.joints[0].rotation[1, 1])) == pytest.approx(3.67e-6, rel=1e-2)


def _split(T):
    return T[:3, :3], T[:3, 3]


def test_loading_from_strings_and_paths(tmp_path, monkeypatch):
    (tmp_path / "r.urdf").write_text(f"<robot>{link('a')}</robot>")
    monkeypatch.chdir(tmp_path)
    fingerprints = {ds.load(p).fingerprint for p in ("r.urdf", tmp_path / "r.urdf", str(tmp_path / "r.urdf"))}
    assert len(fingerprints) == 1


def test_a_folder_does_not_hide_a_robot_of_its_name(tmp_path, monkeypatch):
    pytest.importorskip("robot_descriptions")

    if "ur5" not in example_robot_files():
        pytest.skip("example-robot-data is not installed")
    (tmp_path / "ur5").mkdir()
    monkeypatch.chdir(tmp_path)
    assert ds.load("ur5").nv == 6


def test_what_walks_drives_or_flies_floats_by_its_name(caplog):
    """And arms stand on the world; in scenes, too. Files by their path are as `buildModelFromUrdf` has them."""
    files = example_robot_files()
    if "solo" not in files:
        pytest.skip("example-robot-data is not installed")
    with caplog.at_level("INFO", "delassus"):
        solo = ds.load("solo")
        assert solo.is_floating and "robot 'solo'" in caplog.text and "root='fixed' holds it" in caplog.text
        caplog.clear()
        fixed = ds.load("solo", root="fixed")
        assert not any(tree.is_floating for tree in (fixed, ds.load(files["solo"]), ds.load("ur5"))) and not caplog.text
    assert ds.Scene.from_robot("solo").tree.is_floating and not ds.Scene.from_robot("ur5").tree.is_floating
    with pytest.raises(ConfigurationError, match="Its root floats: load it with root='fixed' for 7 numbers less"):
        ds.mass_matrix(solo, fixed.neutral())


# -- rotations -----------------------------------------------------------------------------------------------------


def test_rotation_between():
    rng = np.random.default_rng(0)
    pairs = [(X, X), (X, -X), (Y, -Y), (Z, -Z), (X, Y), (Z, Z + 1e-9 * X)]
    for _ in range(20):
        a, b = (v / np.linalg.norm(v) for v in rng.normal(size=(2, 3)))
        pairs += [(a, b), (a, a), (a, -a), (a, 10.0 ** rng.uniform(-16, -8) * b - a)]
    for a, b in pairs:
        b = b / np.linalg.norm(b)
        R = rotation_between(a, b)
        assert np.allclose(R @ a, b, atol=1e-14) and np.allclose(R @ R.T, np.eye(3), atol=1e-14)
        assert np.linalg.det(R) == pytest.approx(1)


def test_quaternions_and_matrices():
    rng = np.random.default_rng(0)
    half_turns = [np.diag(d) for d in ([1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1])]
    R = np.array([random_rotation(rng) for _ in range(50)] + half_turns)
    q = matrix_to_quaternion(R)
    assert np.allclose(quaternion_to_matrix(q), R, atol=1e-14)
    assert np.all(q[..., 3] >= 0) and np.allclose(np.linalg.norm(q, axis=-1), 1, rtol=1e-15)


@pytest.mark.parametrize("off", [0.0, 1e-13, 4.9e-12, 3e-11, 1e-8, 3.67e-6, 2e-5])
def test_rotations_next_to_quarter_turns(off):
    """They are exact where a digit more would make them so, and rotations to round-off at any angle."""
    random = random_rotation(np.random.default_rng(0))
    for k in range(4):
        for axis in np.eye(3):
            R = rotation_about(axis, k * np.pi / 2 + off)
            found = exact_quarter_turns(R)
            assert np.array_equal(found, np.rint(found)) == (off < 1e-11)
            assert np.abs(found - R).max() < 1e-11
            assert not np.signbit(found[found == 0.0]).any()  # equal robots have equal bytes
            for rotation in (found, exact_quarter_turns(R @ random)):
                assert np.abs(rotation @ rotation.T - np.eye(3)).max() < 1e-15


@pytest.mark.parametrize("angle", [0.0, 1e-160, 1e-12, 1e-8, 1e-4, 9.99e-4, 1.001e-3, 0.1, 1.0, 3.0, np.pi - 1e-9])
def test_displacements(angle):
    """exp against the matrix exponential's series, summed; log is its inverse."""
    rng = np.random.default_rng(1)
    for _ in range(5):
        v, w = rng.normal(size=(2, 3))
        w *= angle / np.linalg.norm(w)
        free, ops = joint_kinds.FREE, NumpyOps()
        q = np.array(free.integrate(ops, free.neutral, [*v, *w]))
        A = np.zeros((4, 4))
        A[:3, :3], A[:3, 3] = np.cross(np.eye(3), w), v
        T, term = np.eye(4), np.eye(4)
        for k in range(1, 60):
            term = term @ A / k
            T = T + term
        assert np.allclose(matrix(quaternion_to_matrix(q[3:]), q[:3]), T, rtol=0, atol=5e-15)
        assert np.allclose(free.difference(ops, free.neutral, q), [*v, *w], rtol=0, atol=1e-13)


# -- configurations ------------------------------------------------------------------------------------------------


def tree_of(kind, axis=Z):
    body = np.diag([0.02, 0.03, 0.04])
    links = [RawLink("a", 1.0, NOWHERE, body), RawLink("b", 1.0, np.array([0.1, 0.2, 0.3]), body)]
    R = rotation_from_rpy(np.array([0.3, 0.2, 0.1]))
    return build_tree(
        "one", links, [RawJoint("j", kind, "a", "b", np.array([1.0, 2, 3]), R, axis, pitch=pitch_of(kind))]
    )


def pitch_of(kind):
    return 0.4 if kind is joint_kinds.SCREW else 0.0


@pytest.fixture(scope="module")
def every_joint():
    """A chain with one joint of each kind, on a floating base."""
    body = np.diag([0.02, 0.03, 0.04])
    links = [RawLink("base", 1.0, NOWHERE, body)]
    joints = []
    rng = np.random.default_rng(5)
    for k, kind in enumerate(joint_kinds.KINDS):
        links.append(RawLink(f"l{k}", 1.0 + k, rng.normal(size=3) * 0.1, body))
        at, R, axis = rng.normal(size=3), random_rotation(rng), rng.normal(size=3)
        joints.append(RawJoint(f"j{k}", kind, links[-2].name, f"l{k}", at, R, axis, pitch=pitch_of(kind)))
    return build_tree("every", links, joints, root="floating")


ROTATIONS = (0.0, 1e-200, 1e-13, 1e-9, 1e-5, 1e-3, 0.5, 2.0, 3.0, np.pi - 1e-6, np.pi - 1e-12)


@pytest.mark.parametrize("kind", joint_kinds.KINDS)
class TestConfigurations:
    @pytest.mark.parametrize("size", ROTATIONS)
    def test_difference_undoes_integrate(self, kind, size):
        tree = tree_of(kind)
        rng = np.random.default_rng(3)
        q = tree.random(rng, batch=20)
        v = rng.normal(size=(20, tree.nv))
        angular = [k for k, axis in enumerate(tree.joints[0].motion_axes) if axis >= 3]
        if angular:
            v[:, angular] *= size / np.linalg.norm(v[:, angular], axis=-1, keepdims=True)
        back = tree.difference(q, tree.integrate(q, v))
        assert back.shape == v.shape
        assert np.max(np.abs(back - v)) < MANIFOLD
        if size == 1e-200 and angular:  # tiny rotations keep their direction
            from_neutral = tree.difference(tree.neutral(), tree.integrate(tree.neutral(), v))
            if kind not in (joint_kinds.REVOLUTE, joint_kinds.SCREW):
                assert np.allclose(from_neutral[:, angular], v[:, angular], rtol=1e-12, atol=0)

    def test_integrate_undoes_difference(self, kind):
        tree = tree_of(kind)
        q0, q1 = tree.random(1, batch=200), tree.random(2, batch=200)
        reached = tree.integrate(q0, tree.difference(q0, q1))
        for frame in tree.frames:
            for a, b in zip(frame_pose(tree, frame, reached), frame_pose(tree, frame, q1), strict=True):
                assert np.max(np.abs(a - b)) < MANIFOLD
        tree.check_configuration(reached)

    def test_the_short_way_round(self, kind):
        tree = tree_of(kind)
        if kind in (joint_kinds.REVOLUTE, joint_kinds.SCREW, joint_kinds.PRISMATIC, joint_kinds.TRANSLATION):
            return
        angular = [k for k, axis in enumerate(tree.joints[0].motion_axes) if axis >= 3]
        v = tree.difference(tree.random(1, batch=500), tree.random(2, batch=500))
        assert np.max(np.linalg.norm(v[:, angular], axis=-1)) <= np.pi + 1e-12

    def test_velocities_are_those_of_the_child_frame(self, kind):
        """S v is the twist of the child, by central differences of its pose."""
        tree = tree_of(kind, axis=np.array([1.0, 2.0, -3.0]))
        q, v, h = tree.random(1), np.random.default_rng(2).normal(size=tree.nv), 1e-6
        J = ds.jacobian(tree, ds.Weld("b"), q)
        R, _ = frame_pose(tree, "b", q)
        (R1, p1), (R0, p0) = (frame_pose(tree, "b", tree.integrate(q, s * h * v)) for s in (1, -1))
        W = R.T @ (R1 - R0) / (2 * h)
        twist = np.concatenate([R.T @ (p1 - p0) / (2 * h), [W[2, 1], W[0, 2], W[1, 0]]])
        assert np.allclose(J @ v, twist, atol=CENTRAL_DIFFERENCES)

    def test_turns_are_about_the_axis(self, kind):
        for axis in np.eye(3) if kind.has_axis else ():
            tree = tree_of(kind, axis)
            (R0, _), (R, _) = (frame_pose(tree, "b", q) for q in (tree.neutral(), tree.random(1)))
            assert np.allclose(R @ axis, R0 @ axis, atol=POSE)

    def test_neutral(self, kind):
        tree = tree_of(kind)
        R = rotation_from_rpy(np.array([0.3, 0.2, 0.1]))
        assert np.allclose(pose_matrix(tree, "b", tree.neutral()), matrix(R, [1, 2, 3]), atol=POSE)
        assert tree.neutral().shape == (tree.nq,)

    def test_random(self, kind):
        tree = tree_of(kind)
        q = tree.random(0, batch=(50, 2))
        assert q.shape == (50, 2, tree.nq)
        assert np.array_equal(tree.check_configuration(q).round(12), q.round(12))
        assert np.array_equal(q, tree.random(np.random.default_rng(0), batch=(50, 2)))
        assert not np.array_equal(q, tree.random(1, batch=(50, 2)))
        assert tree.random().shape == (tree.nq,)
        assert tree.random(0, batch=0).shape == (0, tree.nq)


def test_configurations_of_a_whole_tree(every_joint):
    tree = every_joint
    assert tree.nq == 7 + sum(kind.nq for kind in joint_kinds.KINDS)
    assert tree.nv == 6 + sum(kind.nv for kind in joint_kinds.KINDS)
    rng = np.random.default_rng(0)
    q, v = tree.random(rng, batch=(3, 1)), rng.uniform(-1.0, 1.0, (4, tree.nv))
    moved = tree.integrate(q, v)
    assert moved.shape == (3, 4, tree.nq)
    assert np.max(np.abs(tree.difference(q, moved) - v)) < MANIFOLD
    again = np.stack([[tree.integrate(q[i, 0], v[j]) for j in range(4)] for i in range(3)])
    assert np.array_equal(moved, again)
    assert not tree.difference(q, q).any()
    assert np.array_equal(tree.neutral(), tree.check_configuration(tree.neutral()))


def test_where_the_numbers_of_joints_are(every_joint):
    tree = every_joint
    q, rng = tree.neutral(), np.random.default_rng(0)
    turned = tree.random(rng, batch=(4, 1))
    values = {name: turned[..., tree.q_index(name)] for name in tree.joint_names[::2]}
    values = {name: x[..., 0] if x.shape[-1] == 1 else x for name, x in values.items()}
    found = tree.configuration({**values, tree.joint_names[1]: q[tree.q_index(tree.joint_names[1])]})
    assert found.shape == (4, 1, tree.nq) and np.array_equal(tree.configuration({}), q)
    for k, (name, sq, sv) in enumerate(zip(tree.joint_names, tree.q_slices, tree.v_slices, strict=True)):
        assert tree.q_index(name) == sq and tree.v_index(name) == sv
        assert np.allclose(found[..., sq], q[sq] if k % 2 else turned[..., sq], rtol=0, atol=ROUND_OFF)
        free = tree.joints[k].kind is joint_kinds.FREE
        assert np.array_equal(tree.actuated[:, sv].sum(axis=0), np.full(sv.stop - sv.start, 0.0 if free else 1.0))
        assert np.array_equal(tree.lower[sv], tree.joints[k].lower)
        assert np.array_equal(tree.upper[sv], tree.joints[k].upper)
    S = tree.actuated
    assert np.array_equal(S @ S.T, np.eye(len(S))) and len(S) == tree.nv - 12
    batches = tree.configuration({"root_joint": np.ones((3, 1, 7)) * [0, 0, 1, 0, 0, 0, 1], "j0": [0.1, 0.2]})
    assert batches.shape == (3, 2, tree.nq)


def test_configurations_by_name_say_which_joint_is_wrong(every_joint):
    tree = every_joint
    with pytest.raises(UnknownNameError, match="joint name"):
        tree.configuration({"root": np.zeros(7)})
    for look_up in (tree.q_index, tree.v_index):
        with pytest.raises(UnknownNameError, match="joint name"):
            look_up(3)
    wrong = {"j4": [0.0, 0.0, 0.0], "j6": 1.0, "j0": "0.1", "j1": [0.5, 0.5], "j2": np.nan}
    for name, value in wrong.items():
        with pytest.raises(ConfigurationError, match=f"joint '{name}'"):
            tree.configuration({name: value})
    with pytest.raises(ConfigurationError, match="joint 'j2'"):
        tree.configuration({"j0": np.zeros(2), "j2": np.zeros(3)})
    with pytest.raises(ConfigurationError, match="values"):
        tree.configuration([0.1])


def test_a_tree_without_joints():
    tree = build_tree("rock", [RawLink("rock", 1.0, NOWHERE, np.eye(3))], [])
    assert (tree.n_links, tree.nq, tree.nv, tree.depth) == (0, 0, 0, 0)
    q = tree.neutral()
    assert q.shape == (0,) and tree.random(0, batch=3).shape == (3, 0)
    assert tree.integrate(q, q).shape == (0,) and tree.difference(np.zeros((2, 0)), q).shape == (2, 0)
    assert tree.dof_parents == () and not tree.is_floating
    assert ds.mass_matrix(tree, q).shape == (0, 0)
    assert ds.jacobian(tree, ds.Weld("rock"), q).shape == (6, 0)
    assert not ds.delassus(tree, ds.Weld("rock"), q).any()


class TestLimits:
    def random(self, load_text, kind, lower, upper):
        tree = one_joint(load_text, kind, f'<limit lower="{lower}" upper="{upper}"/>')
        return tree.random(0, batch=500)

    @pytest.mark.parametrize("kind", ["revolute", "prismatic"])
    @pytest.mark.parametrize("limits", [(-0.5, 1.5), (2.0, 2.5), (0.0, 0.0), (-7.0, -6.9), (-100.0, 100.0)])
    def test_within_limits(self, load_text, kind, limits):
        q = self.random(load_text, kind, *limits)
        assert np.all((limits[0] <= q) & (q <= limits[1]))
        assert np.ptp(q) >= 0.9 * (limits[1] - limits[0])

    @pytest.mark.parametrize("kind", ["revolute", "prismatic"])
    @pytest.mark.parametrize("limit", [-50.0, 0.0, 50.0])
    def test_one_sided(self, load_text, kind, limit):
        above, below = self.random(load_text, kind, limit, "inf"), self.random(load_text, kind, "-inf", limit)
        assert np.all(above >= limit) and np.ptp(above) > 0.9
        assert np.all(below <= limit) and np.ptp(below) > 0.9

    def test_no_limits(self, load_text):
        for limits in (("-inf", "inf"), ("-1e16", "1e16"), ("-1.7e308", "1.7e308")):
            assert 0.9 * np.pi < np.max(np.abs(self.random(load_text, "revolute", *limits))) <= np.pi
            assert 0.9 < np.max(np.abs(self.random(load_text, "prismatic", *limits))) <= 1

    def test_reversed_limits_are_read_as_their_interval(self, load_text):
        with pytest.warns(ds.DelassusWarning, match=r"no joint is like j \(lower limit above the upper one\)"):
            q = self.random(load_text, "revolute", 1.5, -0.5)
        assert np.all((q >= -0.5) & (q <= 1.5)) and np.ptp(q) > 1.8


# -- topology ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def family():
    r"""A tree drawn by hand::

    0 (free) ─┬─ 1 ─┬─ 2 ── 3
              │     └─ 4
              └─ 5 (ball) ── 6 (prismatic)
    """
    parents = {1: 0, 2: 1, 3: 2, 4: 1, 5: 0, 6: 5}
    kinds = {5: joint_kinds.BALL, 6: joint_kinds.PRISMATIC}
    links = [RawLink(f"l{k}", 1.0, np.array([0.1, 0.0, 0.0]), 0.01 * np.eye(3)) for k in range(7)]
    joints = [
        RawJoint(f"j{k}", kinds.get(k, joint_kinds.REVOLUTE), f"l{p}", f"l{k}", np.array([0.0, 0.0, 1.0]))
        for k, p in parents.items()
    ]
    return build_tree("family", links, joints, root="floating")


class TestTopology:
    def test_layout(self, family):
        assert family.link_names == tuple(f"l{k}" for k in range(7))
        assert family.parents == (WORLD, 0, 1, 2, 1, 0, 5)
        assert family.children == ((1, 5), (2, 4), (3,), (), (), (6,), ())
        assert (family.n_links, family.nq, family.nv) == (7, 7 + 4 + 4 + 1, 6 + 4 + 3 + 1)
        assert [(s.start, s.stop) for s in family.v_slices] == [
            (0, 6), (6, 7), (7, 8), (8, 9), (9, 10), (10, 13), (13, 14),
        ]  # fmt: skip
        assert [(s.start, s.stop) for s in family.q_slices] == [
            (0, 7), (7, 8), (8, 9), (9, 10), (10, 11), (11, 15), (15, 16),
        ]  # fmt: skip

    def test_depth(self, family):
        assert family.depth == 4
        assert ds.mechanisms.chain(5).depth == 5
        assert ds.mechanisms.star(3, 4).depth == 5

    def test_supports(self, family):
        expected = {WORLD: (), 0: (0,), 1: (0, 1), 2: (0, 1, 2), 3: (0, 1, 2, 3), 4: (0, 1, 4), 5: (0, 5), 6: (0, 5, 6)}
        assert {i: family.support(i) for i in expected} == expected
        assert family.supporting_links([3, 6]) == {0, 1, 2, 3, 5, 6}
        assert family.supporting_links([]) == family.supporting_links([WORLD]) == frozenset()

    def test_orders(self, family):
        seen = set()
        for i in family.root_to_leaves():
            assert family.parents[i] in seen or family.parents[i] == WORLD
            seen.add(i)
        assert list(family.leaves_to_root()) == list(family.root_to_leaves())[::-1]

    def test_closest_common_ancestors(self, family):
        expected = {(3, 4): 1, (3, 2): 2, (2, 3): 2, (4, 6): 0, (6, 5): 5, (3, 3): 3, (0, 6): 0, (WORLD, 3): WORLD}
        for (a, b), meeting in expected.items():
            assert family.closest_common_ancestor(a, b) == meeting
            assert family.closest_common_ancestor(b, a) == meeting
        assert family.closest_common_ancestor(WORLD, WORLD) == WORLD
        two = ds.mechanisms.ladder(3)
        assert two.closest_common_ancestor(two.placement("left3").link, two.placement("right3").link) == WORLD

    def test_branching_links(self, family):
        assert family.branching_links([]) == family.branching_links([3]) == ()
        assert family.branching_links([3, 4]) == (1,)
        assert family.branching_links([3, 6]) == (0,)
        assert family.branching_links([3, 4, 6]) == (0, 1)
        assert family.branching_links([3, 2]) == (2,)
        assert family.branching_links([3, 3]) == (3,)
        assert family.branching_links([3, 3, 3]) == (3,)
        assert family.branching_links([0, 4]) == (0,)
        assert family.branching_links([0, 1, 2, 3]) == (0, 1, 2)
        assert family.branching_links([WORLD, 3]) == family.branching_links([WORLD, WORLD]) == ()

    def test_degrees_of_freedom(self, family):
        assert family.dof_parents == (-1, 0, 1, 2, 3, 4, 5, 6, 7, 6, 5, 10, 11, 12)
        assert ds.mechanisms.chain(3).dof_parents == (-1, 0, 1)

    def test_against_the_definition_on_every_mechanism(self):
        """Branching and ancestors by their definitions, on sets."""
        rng = np.random.default_rng(0)
        for tree in (ds.mechanisms.asimo(), ds.mechanisms.stem(4, 3, 2), ds.mechanisms.ladder(5)):
            for _ in range(20):
                ends = [int(e) for e in rng.integers(-1, tree.n_links, rng.integers(0, 6))]
                supports = [set(tree.support(e)) for e in ends]
                meeting = set()
                for i in range(len(ends)):
                    for j in range(i):
                        common = supports[i] & supports[j]
                        assert tree.closest_common_ancestor(ends[i], ends[j]) == max(common, default=WORLD)
                        meeting |= {max(common)} if common else set()
                assert tree.branching_links(ends) == tuple(sorted(meeting))


# -- attach --------------------------------------------------------------------------------------------------------


class TestAttach:
    @pytest.mark.parametrize("at", ["link3", "base", "world"])
    def test_poses(self, at):
        rng = np.random.default_rng(0)
        arm, hand = ds.mechanisms.chain(3), ds.mechanisms.star(2, 2, root="fixed")
        R, p = random_rotation(rng), rng.normal(size=3)
        whole = arm.attach(at, hand, p, R, prefix="hand_")
        assert whole.n_links == 7 and whole.nv == arm.nv + hand.nv and whole.name == arm.name
        assert whole.link_names == (*arm.link_names, *(f"hand_{n}" for n in hand.link_names))
        assert whole.joint_names == (*arm.joint_names, *(f"hand_{n}" for n in hand.joint_names))
        assert set(whole.frames) == set(arm.frames) | {f"hand_{n}" for n in hand.frames}
        q, q_hand = arm.random(rng), hand.random(rng)
        both = np.concatenate([q, q_hand])
        for name in arm.frames:
            assert np.allclose(pose_matrix(whole, name, both), pose_matrix(arm, name, q), atol=POSE)
        mount = pose_matrix(arm, at, q) @ matrix(R, p)
        for name in hand.frames:
            expected = mount @ pose_matrix(hand, name, q_hand)
            assert np.allclose(pose_matrix(whole, f"hand_{name}", both), expected, atol=POSE)
        assert np.allclose(pose_matrix(whole, "hand_world", both), mount, atol=POSE)

    def test_mass_matrix_is_that_of_the_assembled_description(self):
        """The same robot, described in one piece: the hub of the star is a link that a fixed joint carries."""
        rng = np.random.default_rng(1)
        R, p = random_rotation(rng), rng.normal(size=3)
        arm, hand = ds.mechanisms.chain(3), ds.mechanisms.star(2, 2, root="fixed")
        whole = arm.attach("link3", hand, p, R)

        sketch = mechanisms._Sketch("both")
        sketch.body("base", 3.0, (0.2, 0.2, 0.2))
        sketch.chain("base", "link", 3)
        sketch.body("hub", 10.0, (0.4, 0.4, 0.2))
        sketch.joints.append(RawJoint("mount", None, "link3", "hub", p, R))
        for b in range(2):
            angle = np.pi * b
            start = (0.2 * np.cos(angle), 0.2 * np.sin(angle), 0.0)
            sketch.chain("hub", f"branch{b + 1}_", 2, start, angle)
        assembled = sketch.build("fixed")

        assert whole.link_names == assembled.link_names and whole.parents == assembled.parents
        q = whole.random(0, batch=5)
        assert error(ds.mass_matrix(whole, q), ds.mass_matrix(assembled, q)) < 10 * ROUND_OFF
        tips = [ds.Weld("branch1_2"), ds.Weld("branch2_2", "link1")]
        assert error(ds.delassus(whole, tips, q), ds.delassus(assembled, tips, q)) < CONDITIONING

    def test_inertia_of_links_that_are_fixed_to_the_attached_world(self):
        """A pendulum's massless ceiling adds nothing; a hub of 10 kg adds all of it, where it is mounted."""
        arm, hub = ds.mechanisms.chain(2), ds.mechanisms.star(1, 1, root="fixed")
        assert hub.world_inertia[0, 0] == 10.0
        R, p = rotation_about(X, 0.3), np.array([0.1, 0.2, 0.3])
        added = arm.attach("link2", hub, p, R).inertias[1] - arm.inertias[1]
        at = arm.placement("link2")
        expected = move_inertia(hub.world_inertia, at.rotation @ R, at.position + at.rotation @ p)
        assert error(added, expected) < 10 * ROUND_OFF
        on_ground = arm.attach("base", hub, p, R)
        assert np.array_equal(on_ground.inertias[:2], arm.inertias)
        expected = arm.world_inertia + move_inertia(hub.world_inertia, R, p)
        assert error(on_ground.world_inertia, expected) < 10 * ROUND_OFF
        swinging = arm.attach("link2", ds.mechanisms.pendulum(1))
        assert np.array_equal(swinging.inertias[:2], arm.inertias)

    def test_twice(self):
        body, leg = ds.mechanisms.humanoid(), ds.mechanisms.chain(2)
        robot = body.attach("torso2", leg, prefix="a_").attach("torso2", leg, prefix="b_").attach("a_link2", leg)
        assert robot.nv == body.nv + 6 and robot.is_floating
        q = robot.random(0)
        moved = pose_matrix(robot, "link2", q)
        q[-3] += 0.1  # b_link2 is another branch
        assert np.array_equal(pose_matrix(robot, "link2", q), moved)

    def test_a_robot_on_the_ground_beside_another(self):
        scene = ds.mechanisms.humanoid().attach("world", ds.mechanisms.chain(3), (2, 0, 0), prefix="arm_")
        q = scene.random(0)
        M = ds.mass_matrix(scene, q)
        assert not M[:38, 38:].any()
        G = ds.delassus(scene, [ds.Weld("head"), ds.Weld("arm_link3")], q)
        assert not G[:6, 6:].any() and G[6:, 6:].any()


# -- reroot --------------------------------------------------------------------------------------------------------


def kinetic_energy(tree, q, v):
    return 0.5 * v @ ds.mass_matrix(tree, q) @ v


def reversible_tree():
    """Every kind of joint that can be turned around, on the way to ``tip``, and others beside it."""
    rng = np.random.default_rng(8)
    body = np.diag([0.02, 0.03, 0.04])
    links, joints = [RawLink("base", 2.0, rng.normal(size=3) * 0.1, body)], []

    def add(name, parent, kind, axis=None):
        links.append(RawLink(name, 1.0 + 0.1 * len(links), rng.normal(size=3) * 0.1, body))
        direction = rng.normal(size=3) if axis is None else axis
        joints.append(RawJoint(f"{name}_j", kind, parent, name, rng.normal(size=3), random_rotation(rng), direction))

    add("turn", "base", joint_kinds.REVOLUTE)
    add("slide", "turn", joint_kinds.PRISMATIC, -Y)
    add("pair", "slide", joint_kinds.COS_SIN)
    add("ball", "pair", joint_kinds.BALL)
    add("shift", "ball", joint_kinds.TRANSLATION)
    add("plate", "shift", None)
    add("tip", "plate", joint_kinds.REVOLUTE, X)
    add("beyond", "tip", joint_kinds.BALL)
    add("side", "pair", joint_kinds.PLANAR)
    add("other", "base", joint_kinds.FREE)
    add("sensor", "ball", None)
    return build_tree("reversible", links, joints, root="floating")


REROOTED = {
    "reversible": (reversible_tree(), ["base", "turn", "slide", "pair", "ball", "shift", "plate", "tip", "beyond",
                                       "sensor"]),
    "humanoid": (ds.mechanisms.humanoid(), ["pelvis", "head", "left_foot", "right_finger", "torso1"]),
    "stem": (ds.mechanisms.stem(3, 2, 2), ["stem0", "stem3", "far2_2"]),
}  # fmt: skip
CASES = [pytest.param(tree, root, id=f"{name}-{root}") for name, (tree, roots) in REROOTED.items() for root in roots]


@pytest.mark.parametrize(("tree", "root"), CASES)
class TestReroot:
    def test_poses(self, tree, root):
        other = tree.reroot(root)
        assert (other.nq, other.nv, other.n_links) == (tree.nq, tree.nv, tree.n_links)
        assert set(other.frames) == set(tree.frames) and set(other.joint_names) == set(tree.joint_names)
        assert other.is_floating and other.placement(root).link == 0
        assert other.mass == pytest.approx(tree.mass)
        q = tree.random(3, batch=4)
        q_other = tree.reroot_configuration(root, q)
        other.check_configuration(q_other)
        for frame in tree.frames:
            for a, b in zip(frame_pose(tree, frame, q), frame_pose(other, frame, q_other), strict=True):
                assert np.max(np.abs(a - b)) < 10 * POSE, frame

    def test_the_free_joint_carries_the_frame_itself(self, tree, root):
        other = tree.reroot(root)
        q = other.random(0)
        assert np.allclose(pose_matrix(other, root, q), matrix(quaternion_to_matrix(q[3:7]), q[:3]), atol=POSE)

    def test_kinetic_energy_of_the_same_motion(self, tree, root):
        """The mass matrices are congruent: the velocity of the new coordinates is taken by finite differences."""
        rng = np.random.default_rng(5)
        other, h = tree.reroot(root), 1e-5
        q, v = tree.random(rng), rng.normal(size=tree.nv)
        ahead, behind = (tree.reroot_configuration(root, tree.integrate(q, s * h * v)) for s in (1, -1))
        v_other = other.difference(behind, ahead) / (2 * h)
        energy = kinetic_energy(tree, q, v)
        assert kinetic_energy(other, tree.reroot_configuration(root, q), v_other) == pytest.approx(
            energy, rel=CENTRAL_DIFFERENCES
        )
        home = dataclasses.replace(tree, keyframes={"home": q}).keyframes["home"]
        moving = dataclasses.replace(tree, keyframes={"home": dataclasses.replace(home, v=v)})
        moved = moving.reroot(root).keyframes["home"]
        assert error(moved.q, tree.reroot_configuration(root, q)) < POSE
        assert error(moved.v, v_other) < CENTRAL_DIFFERENCES

    def test_there_and_back(self, tree, root):
        home = tree.link_names[0]
        back = tree.reroot(root).reroot(home)
        q = tree.random(6)
        q_back = tree.reroot(root).reroot_configuration(home, tree.reroot_configuration(root, q))
        for frame in tree.frames:
            assert np.allclose(pose_matrix(back, frame, q_back), pose_matrix(tree, frame, q), atol=10 * POSE)


def test_reroot_keeps_what_belongs_to_joints():
    tree = REROOTED["reversible"][0]
    turn = tree.joints[tree.joint_names.index("turn_j")]
    changed = dataclasses.replace(turn, lower=[-0.3], upper=[0.7], armature=[0.01], damping=[0.2])
    joints = tuple(changed if j is turn else j for j in tree.joints)
    tree = Tree(tree.name, tree.link_names, joints, tree.parents, tree.inertias, tree.frames)
    other = tree.reroot("tip")
    same = other.joints[other.joint_names.index("turn_j")]
    assert (same.lower, same.upper, same.armature, same.damping) == (-0.3, 0.7, 0.01, 0.2)
    q = tree.random(0)
    G = ds.delassus(tree, ds.Weld("tip"), q)
    assert error(ds.delassus(other, ds.Weld("tip"), tree.reroot_configuration("tip", q)), G) < CONDITIONING


# -- pickling, fingerprints, immutability --------------------------------------------------------------------------


def test_pickling(every_joint):
    for tree in (every_joint, ds.mechanisms.asimo(), ds.mechanisms.chain(2)):
        for twin in (pickle.loads(pickle.dumps(tree)), copy.deepcopy(tree), copy.copy(tree)):
            assert twin.fingerprint == tree.fingerprint and repr(twin) == repr(tree)
            assert twin.parents == tree.parents and twin.children == tree.children
            assert set(twin.frames) == set(tree.frames)
            assert np.array_equal(twin.world_inertia, tree.world_inertia)
            q = tree.random(0)
            assert np.array_equal(ds.mass_matrix(twin, q), ds.mass_matrix(tree, q))


def test_fingerprints_tell_robots_apart(every_joint):
    def changed(**parts):
        whole = {f.name: getattr(every_joint, f.name) for f in dataclasses.fields(every_joint) if f.init} | parts
        return Tree(**whole).fingerprint

    first = every_joint.joints[1]
    later = every_joint.joints[2:]
    frames = dict(every_joint.frames)
    prints = {
        "same": changed(),
        "inertia": changed(inertias=every_joint.inertias * 1.0000001),
        "names": changed(link_names=("x", *every_joint.link_names[1:])),
        "frame": changed(frames={k: v for k, v in frames.items() if k != "l2"}),
        "frame moved": changed(frames=frames | {"l2": dataclasses.replace(frames["l2"], position=np.ones(3))}),
    }
    for attribute in ("position", "armature", "damping"):
        moved = dataclasses.replace(first, **{attribute: getattr(first, attribute) + 1e-9})
        prints[attribute] = changed(joints=(every_joint.joints[0], moved, *later))
    assert prints["same"] == every_joint.fingerprint == changed(name="another name")
    assert len(set(prints.values())) == len(prints)


def test_fingerprints_are_the_same_in_every_process():
    script = "import delassus as ds; print(ds.mechanisms.asimo().fingerprint)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == ds.mechanisms.asimo().fingerprint


def test_nothing_can_be_changed(every_joint):
    tree = every_joint
    for thing, attribute in (
        (tree, "name"), (tree, "nv"), (tree.joints[0], "name"), (tree.frames["l0"], "link"),
        (ds.Frame("l0"), "link"), (ds.Weld("l0"), "axes"), (ds.Rows("l0", 3), "size"),
    ):  # fmt: skip
        with pytest.raises(AttributeError):
            setattr(thing, attribute, "other")
        with pytest.raises(AttributeError):
            delattr(thing, attribute)
        with pytest.raises((AttributeError, TypeError)):
            thing.something_new = 1
    arrays = [tree.inertias, tree.world_inertia]
    for j in tree.joints:
        arrays += [j.rotation, j.position, j.armature, j.lower, j.upper, j.damping]
    for placement in tree.frames.values():
        arrays += [placement.rotation, placement.position]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0
    own = np.array(tree.inertias)  # through an array that it was made of
    view = own.view()
    view.setflags(write=False)
    made = dataclasses.replace(tree, inertias=view)
    own[:] = 0.0
    np.testing.assert_array_equal(made.inertias, tree.inertias)
    with pytest.raises(TypeError):
        tree.frames["l0"] = None
    for sequence in (tree.link_names, tree.joint_names, tree.joints, tree.parents, tree.children, tree.q_slices):
        assert isinstance(sequence, tuple)


@pytest.mark.parametrize("seed", range(8))
def test_robots_are_equal_where_what_they_hold_is(seed):
    """Built twice, copied, pickled: the same hash and the same pickle, so that hashes of pickles agree as well."""

    def made():
        mechanism = some_robot(np.random.default_rng(seed), 6)
        links = mechanism.moving
        rows = [*some_contacts(mechanism, 2), some_rows(mechanism), some_rows(mechanism)]
        sensor = ds.Sensor("touch", "touch", links[0], within=ds.contact.Sphere(0.1))
        return dataclasses.replace(mechanism.tree, constraints=tuple(rows), sensors=(sensor,))

    tree, other = made(), made()
    rows = [tuple(x.constraints) for x in (tree, other)]
    place = tree.frames["l0"]
    shared, apart = ({**tree.frames, "again": x} for x in (place, dataclasses.replace(place)))
    alike = [dataclasses.replace(tree, frames=frames) for frames in (shared, apart)]
    parts = (place, other.frames["l0"]), *zip(tree.joints, other.joints, strict=True)
    pairs = [(tree, other), rows, alike, *parts]
    for one, twin in [*pairs, *((x, pickle.loads(pickle.dumps(x))) for x in (tree, *rows[0])), (tree, copy.copy(tree))]:
        assert one == twin and hash(one) == hash(twin) and pickle.dumps(one) == pickle.dumps(twin)
    assert tree != rows[0][0]


def changes_of(tree):
    """The tree with another value of each of its fields, and of each field of one of its joints and placements."""
    given = {f.name: getattr(tree, f.name) for f in dataclasses.fields(tree) if f.init}
    at = dataclasses.fields(tree.joints[0])
    joint = {f.name: getattr(tree.joints[0], f.name) for f in at if f.init}
    others = {"name": "another", "kind": joint_kinds.PRISMATIC, "axis": joint["axis"] - 1}
    for name, value in joint.items():
        new = others.get(name, np.where(np.isfinite(value), value + 1e-9, 7.0) if name not in others else None)
        yield f"joint.{name}", {"joints": (dataclasses.replace(tree.joints[0], **{name: new}), *tree.joints[1:])}
    (at, place), *_ = tree.frames.items()
    for name, new in (
        ("link", place.link + 1),
        ("position", place.position + 1e-9),
        ("rotation", np.eye(3)[[1, 2, 0]]),
    ):
        yield f"frame.{name}", {"frames": {**tree.frames, at: dataclasses.replace(place, **{name: new})}}
    more = {
        "name": "another",
        "link_names": ("another", *given["link_names"][1:]),
        "joints": (dataclasses.replace(tree.joints[0], name="another"), *tree.joints[1:]),
        "parents": (*given["parents"][:-1], -1),
        "frames": {**given["frames"], "another": place},
        "gravity_compensation": {"l0": np.ones(4)},
        "keyframes": {"home": tree.neutral()},
        "actuators": (some_actuator(np.random.default_rng(0), "another", tree.joint_names),),
        "constraints": (ds.Weld("l1"),),
        "sensors": (ds.Sensor("another", "gyro", "l1"),),
        "omitted": {"meshes": ("another",)},
        "joint_frames": {"another": "l0"},
        "aliases": {"another": tree.joint_names[0]},
    }
    for name, value in given.items():
        yield name, {name: more[name] if name in more else value + 1e-9}


def test_robots_that_differ_in_any_field_are_not_equal():
    """Fields are those of the classes: one that is new has to be here, or numbers are added to it."""
    revolute = ds.mechanisms.chain(3)
    screw = dataclasses.replace(revolute.joints[0], kind=joint_kinds.SCREW)
    tree = dataclasses.replace(
        revolute, frames={f"l{k}": x for k, x in enumerate(revolute.frames.values())},
        joints=(screw, *revolute.joints[1:]),
    )  # fmt: skip
    for name, change in changes_of(tree):
        other = dataclasses.replace(tree, **change)
        assert other != tree and hash(other) != hash(tree) and pickle.dumps(other) != pickle.dumps(tree), name
        assert other == dataclasses.replace(tree, **change), name


def test_what_comes_back_can_be_changed(every_joint):
    tree, q = every_joint, every_joint.neutral()
    v = np.zeros(tree.nv)
    for array in (
        q.copy(), tree.random(0), tree.integrate(q, v), tree.difference(q, q), ds.mass_matrix(tree, q),
        ds.jacobian(tree, ds.Weld("l0"), q), ds.delassus(tree, ds.Weld("l0"), q),
    ):  # fmt: skip
        array[...] = 0.0


# -- mechanisms ----------------------------------------------------------------------------------------------------


class TestMechanisms:
    @pytest.mark.parametrize(
        ("tree", "links", "dofs"),
        [
            (ds.mechanisms.chain(1), 1, 1),
            (ds.mechanisms.chain(30), 30, 30),
            (ds.mechanisms.chain(30, root="floating"), 31, 36),
            (ds.mechanisms.pendulum(12), 12, 12),
            (ds.mechanisms.star(4, 5), 21, 26),
            (ds.mechanisms.star(4, 5, root="fixed"), 20, 20),
            (ds.mechanisms.stem(10, 2), 1 + 10 + 4 * 7, 6 + 10 + 28),
            (ds.mechanisms.stem(10, 3, 2, root="fixed"), 10 + 12, 22),
            (ds.mechanisms.ladder(6), 12, 12),
            (ds.mechanisms.ladder(6, root="floating"), 13, 18),
            (ds.mechanisms.comb(4), 12 + 4 * 7, 40),
            (ds.mechanisms.comb(2, root="floating"), 1 + 6 + 2 * 7, 26),
            (ds.mechanisms.dual_arm(), 4 + 2 * (7 + 4), 26),
            (ds.mechanisms.humanoid(), 33, 38),
            (ds.mechanisms.humanoid(root="fixed"), 32, 32),
            (ds.mechanisms.asimo(), 35, 40),
        ],
        ids=lambda x: repr(x) if isinstance(x, Tree) else None,
    )
    def test_counts(self, tree, links, dofs):
        assert (tree.n_links, tree.nv) == (links, dofs)
        M = ds.mass_matrix(tree, tree.random(0, batch=5))
        assert np.min(np.linalg.eigvalsh(M)) > 0

    def test_end_effectors_are_named(self):
        for tree, names in (
            (ds.mechanisms.chain(3), ["link1", "link3"]),
            (ds.mechanisms.pendulum(3), ["rod1", "rod3", "ceiling"]),
            (ds.mechanisms.star(2, 3), ["hub", "branch1_3", "branch2_3"]),
            (ds.mechanisms.stem(3, 2, 4), ["stem0", "stem3", "near1_4", "near2_4", "far1_4", "far2_4"]),
            (ds.mechanisms.ladder(3), ["left1", "right3", "base"]),
            (ds.mechanisms.comb(2), ["rail6", "rung1_7", "rung2_7", "base"]),
            (ds.mechanisms.dual_arm(), ["head4", "left_finger1_tip", "right_finger2_tip", "right_thumb_tip"]),
            (ds.mechanisms.humanoid(), ["left_foot", "right_foot", "left_hand", "right_hand", "head"]),
            (ds.mechanisms.asimo(), ["hand1", "hand2", "foot1", "foot2", "head3", "forefinger1", "thumb2"]),
        ):
            for name in ["world", *names]:
                tree.placement(name)

    def test_shapes(self):
        stem = ds.mechanisms.stem(10, 2)
        assert stem.depth == 1 + 10 + 7
        tips = [stem.placement(f"{end}{b}_7").link for end in ("near", "far") for b in (1, 2)]
        assert stem.branching_links(tips) == (stem.placement("stem0").link, stem.placement("stem10").link)
        star = ds.mechanisms.star(5, 3)
        assert star.branching_links([star.placement(f"branch{b}_3").link for b in range(1, 6)]) == (0,)
        assert len(star.children[0]) == 5
        ladder = ds.mechanisms.ladder(4)
        assert ladder.parents.count(WORLD) == 2 and ladder.depth == 4
        comb = ds.mechanisms.comb(3)
        assert [comb.link_names[comb.parents[comb.placement(f"rung{k}_1").link]] for k in (1, 2, 3)] == [
            "rail3", "rail6", "rail9",
        ]  # fmt: skip

    def test_the_pendulum_hangs_down_and_swings_in_a_plane(self):
        tree = ds.mechanisms.pendulum(3, length=0.4, mass=2.0)
        assert np.allclose(pose_matrix(tree, "rod3", tree.neutral())[:3, 3], [0, 0, -0.8])
        assert np.allclose(frame_pose(tree, "rod3", tree.random(0, batch=10))[1][:, 1], 0)
        assert tree.mass == pytest.approx(6.0)
        single = ds.mechanisms.pendulum(1, length=0.4, mass=2.0)
        assert ds.mass_matrix(single, [0.3])[0, 0] == pytest.approx(2.0 * 0.4**2 / 3, rel=1e-2)  # a rod about its end

    def test_asimo_as_published(self):
        """[EFPA] Fig. 4: torso, pelvis, head 3, arms 2×7, legs 2×6, forefingers and thumbs 2×2."""
        tree = ds.mechanisms.asimo()
        assert tree.n_links == 1 + 1 + 3 + 2 * 7 + 2 * 6 + 2 * 2 == 35
        assert tree.is_floating and tree.link_names[0] == "torso"
        ends = [tree.placement(n).link for n in ("foot1", "foot2", "forefinger1", "thumb1", "forefinger2", "thumb2")]
        names = [tree.link_names[i] for i in tree.branching_links(ends)]
        assert sorted(names) == ["arm1_7", "arm2_7", "pelvis", "torso"]

    @pytest.mark.parametrize(
        ("options", "links"),
        [
            ({"hand_dofs": 12}, 35 - 4 + 24),
            ({"arm_dofs": 6}, 33),
            ({"arm_dofs": 20}, 35 + 26),
            ({"leg_dofs": 3}, 29),
            ({"arms": 1}, 35 - 9),
            ({"arms": 4}, 35 + 18),
            ({"arms": 0}, 35 - 18),
            ({"legs": 4}, 35 + 12),
            ({"legs": 1}, 35 - 6),
            ({"fixed_foot": True}, 34),
            ({"arm_dofs": 0, "leg_dofs": 0}, 35 - 26),
        ],
        ids=str,
    )
    def test_asimo_altered(self, options, links):
        tree = ds.mechanisms.asimo(**options)
        assert tree.n_links == links
        arms, legs = options.get("arms", 2), options.get("legs", 2)
        for frame in [f"hand{k + 1}" for k in range(arms)] + [f"foot{k + 1}" for k in range(legs)]:
            tree.placement(frame)
        assert np.min(np.linalg.eigvalsh(ds.mass_matrix(tree, tree.random(0)))) > 0
        assert tree.is_floating is not options.get("fixed_foot", False)

    def test_standing_on_a_foot_is_welding_it(self):
        """The fixed-base tree's G is that of the floating one, its foot welded: the Schur complement."""
        standing, floating = ds.mechanisms.asimo(fixed_foot=True), ds.mechanisms.asimo()
        rooted = floating.reroot("foot1")
        q = standing.random(0)
        q_rooted = np.concatenate([[0, 0, 0, 0, 0, 0, 1], q])
        for frame in ("head3", "hand1", "hand2", "foot2"):
            assert np.allclose(pose_matrix(standing, frame, q), pose_matrix(rooted, frame, q_rooted), atol=10 * POSE)
        assert np.allclose(pose_matrix(standing, "foot1", q), np.eye(4), atol=POSE)
        ends = [ds.Weld("hand1"), ds.Point("head3")]
        G = ds.delassus(rooted, [ds.Weld("foot1"), *ends], q_rooted)
        expected = G[6:, 6:] - G[6:, :6] @ np.linalg.solve(G[:6, :6], G[:6, 6:])
        assert error(ds.delassus(standing, ends, q), expected) < CONDITIONING

    def test_each_public_function_makes_a_tree_and_says_what_it_is(self):
        for name, function in inspect.getmembers(mechanisms, inspect.isfunction):
            if function.__module__ == mechanisms.__name__ and not name.startswith("_"):
                assert inspect.getdoc(function)
                assert inspect.signature(function).return_annotation == "Tree"


# -- kinematics of the model against the algorithms ----------------------------------------------------------------


def test_transforms_of_the_model_are_those_of_the_algorithms(every_joint):
    """`idle_joints` and `reroot` use `model.kinematics`, the algorithms `spatial`: the same Jacobian by both."""
    q = every_joint.random(0)
    for name in every_joint.link_names:
        J = ds.jacobian(every_joint, ds.Weld(name, axes="world"), q)
        R, p = frame_pose(every_joint, name, q)
        poses = kinematics.world_poses(every_joint, q)
        for i in every_joint.support(every_joint.placement(name).link):
            Ri, pi = poses[i]
            for column, axis in zip(J.T[every_joint.v_slices[i]], every_joint.joints[i].motion_axes, strict=True):
                if axis < 3:
                    expected = np.concatenate([Ri[:, axis], NOWHERE])
                else:
                    e = Ri[:, axis - 3]
                    expected = np.concatenate([np.cross(e, p - pi) + every_joint.joints[i].pitch * e, e])
                assert np.allclose(column, expected, atol=10 * POSE)
        assert R.shape == (3, 3)


def test_armature_is_inertia_enough_for_a_joint():
    """A link without mass may hang on a rotor."""
    links, turn = [RawLink("a", 1.0, np.zeros(3), np.eye(3)), RawLink("b")], joint_kinds.REVOLUTE
    tree = build_tree("rotor", links, [RawJoint("j", turn, "a", "b", armature=0.1)])
    assert np.allclose(ds.mass_matrix(tree, tree.neutral()), 0.1)
    assert ds.forward_dynamics(tree, [0.0], [0.0], [1.0]).qdd == pytest.approx(10.0)
    silent = build_tree("rotor", links, [RawJoint("j", turn, "a", "b", armature=0.1, effort_limit=0.0)])
    assert silent.report == {"effort limits of zero, under which motors have no force": ("j",)} and not tree.report
    bare = build_tree("rotor", links, [RawJoint("j", turn, "a", "b")])
    with pytest.raises(ds.DelassusError, match="joint 'j': expected a subtree with inertia"):
        ds.forward_dynamics(bare, [0.0], [0.0], [1.0])


def test_names_and_sizes_that_are_nearly_right_get_advice():
    """A configuration that is not there, and states of a floating base for a robot whose root is fixed."""
    arm = ds.mechanisms.chain(3)
    with pytest.raises(ds.DelassusError, match="srdf="):
        arm.reference_configurations["home"]
    named = replace(arm, keyframes={"home": np.zeros(3)})
    with pytest.raises(ds.DelassusError, match="Did you mean 'home'"):
        named.reference_configurations["hom"]
    assert named.reference_configurations.get("hom") is None and "hom" not in named.reference_configurations
    for check, size in ((arm.check_configuration, 10), (arm.check_velocity, 9)):
        with pytest.raises(ds.DelassusError, match="root='floating'"):
            check(np.zeros(size))
        with pytest.raises(ds.DelassusError, match="leading axes"):
            check(np.zeros(size + 1))
