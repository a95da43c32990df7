"""``load(…, gimbals="ball")``: hinges that meet, between links without mass, as one ball joint.

The oracle is the tree with hinges, at states where its axes are independent, and trees that have the ball joint.
"""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import delassus as ds
from delassus.errors import UnknownNameError
from delassus.model.edit.gimbals import NEGLIGIBLE, _configuration, _gimbals, with_ball_joints
from internals import Actuator, RawJoint, RawLink, build_tree, joint_kinds, matrix_to_quaternion
from random_trees import some_axis, some_link, some_rotation
from tools import error, random_rotation

CORPORA = next(
    (p for q in Path(__file__).resolve().parents if (p := q / "shared" / "corpora" / "parallel_robots").is_dir()), None
)
"""Robots that others have made, of a folder beside the checkout."""

EPS = np.finfo(float).eps


def meeting(rng, name, parent, child, at, axes, apart=0.0, mass=0.0, **given):
    """Hinges about a point of the parent, their origins somewhere on the axes, and the links between them."""
    links, joints, point = [], [], np.array(at)
    for k, axis in enumerate(axes):
        R, along = random_rotation(rng), rng.uniform(-0.3, 0.3) * (rng.random() < 0.7)
        axis = np.array(axis) / np.linalg.norm(axis)
        position = (
            point + along * R @ axis + (apart if k == len(axes) - 1 else 0.0) * R @ np.cross(axis, [1.0, 2.0, 3.0])
        )
        link = child if k == len(axes) - 1 else f"{name}link{k}"
        if k < len(axes) - 1:
            links.append(RawLink(link, mass, -along * axis, 0.1 * mass * np.eye(3)))
        joints.append(RawJoint(f"{name}{k}", joint_kinds.REVOLUTE, parent, link, position, R, axis, **given))
        parent, point = link, -along * axis
    return links, joints, point


def with_gimbals(seed, root, n_axes=(3, 3)):
    """A random robot: a hinge, rods on two gimbals, and more on one of the rods."""
    rng = np.random.default_rng(seed)
    links = [some_link(rng, name) for name in ("base", "crank", "rod1", "rod2", "tool", "side")]
    joints = [RawJoint("motor", joint_kinds.REVOLUTE, "base", "crank", np.array([0.1, 0.2, 0]), axis=some_axis(rng))]
    for k, (parent, n) in enumerate(zip(("crank", "rod1"), n_axes, strict=True), start=1):
        axes = np.eye(3)[rng.permutation(3)] if k == 2 and n == 3 else rng.normal(size=(n, 3))
        more = meeting(rng, f"g{k}_", parent, f"rod{k}", rng.uniform(-0.3, 0.3, 3), axes)
        links, joints = links + more[0], joints + more[1]
    joints.append(
        RawJoint("slide", joint_kinds.PRISMATIC, "rod2", "tool", rng.uniform(-0.2, 0.2, 3), some_rotation(rng))
    )
    joints.append(RawJoint("turn", joint_kinds.BALL, "rod1", "side", rng.uniform(-0.2, 0.2, 3)))
    return build_tree("r", links, joints, root=root), rng


def check_same(tree, ball, rng, constraints, bound):
    """Poses, energies, and accelerations of all links at states of the hinges; forces of constraints."""
    gimbals, links = _gimbals(tree), list(ball.link_names)
    kept = [tree.link_names.index(name) for name in links]
    q, v = tree.integrate(tree.neutral(), rng.normal(size=(6, tree.nv))), rng.normal(size=(6, tree.nv))
    qb = _configuration(tree, gimbals, kept, q)
    poses, expected = (np.array(ds.forward_kinematics(t, x, links)) for t, x in ((ball, qb), (tree, q)))
    assert np.abs(poses - expected).max() < 1e3 * EPS * max(1.0, np.abs(expected).max())
    J, Jb = (np.moveaxis(np.array(ds.frame_jacobian(t, x, links)), 0, 1).reshape(6, -1, t.nv)
             for t, x in ((tree, q), (ball, qb)))  # fmt: skip
    T = np.linalg.pinv(Jb) @ J  # velocities of the ball tree from those of the hinges
    worst = np.linalg.cond(T).max() ** 2 * np.linalg.cond(ds.mass_matrix(ball, qb)).max()
    vb, tau_b = (T @ v[..., None])[..., 0], rng.normal(size=(6, ball.nv))
    tau = (T.mT @ tau_b[..., None])[..., 0]
    energy = ds.kinetic_energy(tree, q, v)
    assert np.all(np.abs(ds.kinetic_energy(ball, qb, vb) - energy) < 1e3 * EPS * worst * energy)
    for given in ((), constraints):
        found, wanted = (ds.forward_dynamics(*s, given) for s in ((ball, qb, vb, tau_b), (tree, q, v, tau)))
        a, b = (
            np.array(ds.frame_acceleration(*s, links)) for s in ((ball, qb, vb, found.qdd), (tree, q, v, wanted.qdd))
        )
        assert np.abs(a - b).max() < bound * EPS * worst * np.abs(b).max()
        for f, g in zip(found.forces, wanted.forces, strict=True):
            assert np.abs(f - g).max() < bound * EPS * worst * max(1.0, np.abs(g).max())


@pytest.mark.turns(2)
@pytest.mark.parametrize("root", ["fixed", "floating"])
@pytest.mark.parametrize("seed", range(4))
def test_random_robots(seed, root):
    tree, rng = with_gimbals(seed, root)
    qs = {name: tree.random(rng) for name in ("home", "away")}
    tree = replace(tree, keyframes=qs)
    moving = {name: replace(keyframe, v=rng.normal(size=tree.nv)) for name, keyframe in tree.keyframes.items()}
    tree = replace(tree, keyframes=moving)
    ball = with_ball_joints(tree)
    assert ball.nv == tree.nv and ball.n_links == tree.n_links - 4 and not ball.omitted
    assert [ball.joints[i].kind for i in (-4, -3)].count(joint_kinds.BALL) >= 1
    check_same(tree, ball, rng, [ds.Point(ds.Frame("tool", (0.1, 0.2, 0.3)))], 100)
    for name, q in qs.items():
        reached = ball.reference_configurations[name]
        assert error(ds.forward_kinematics(ball, reached, "tool"), ds.forward_kinematics(tree, q, "tool")) < 1e4 * EPS
        frames = sorted(ball.frames)
        a, b = (ds.frame_velocity(t, x.q, x.v, frames) for t, x in ((ball, ball.keyframes[name]), (tree, moving[name])))
        assert all(error(x, y) < 1e4 * EPS for x, y in zip(a, b, strict=True))
    assert ball.aliases == {f"g{g}_{k}": f"g{g}_2" for g in (1, 2) for k in (0, 1)}
    assert ball.v_index("g1_0") == ball.v_index("g1_2") and ball.q_index("g2_1").stop - ball.q_index("g2_2").start == 4
    assert "g1_link0" not in ball.frames and ball.placement("g1_2") is ball.placement("rod1")
    with pytest.raises(UnknownNameError, match="g1_link0"):
        ball.placement("g1_link0")
    twin = (
        pickle.loads(pickle.dumps(ds.mechanisms.chain(1).attach("link1", ball, prefix="h_")))
        if root == "fixed"
        else ball
    )
    assert twin.aliases == {("h_" if root == "fixed" else "") + a: ("h_" if root == "fixed" else "") + b
                            for a, b in ball.aliases.items()}  # fmt: skip
    assert "g1_0 → g1_2" in ball.report["hinges that are part of a ball joint now, of this name"]


@pytest.mark.parametrize("n", [3, 4, 5])
@pytest.mark.parametrize("ratio", [0.0, 0.5])
def test_more_hinges_and_little_masses(n, ratio):
    """More than three have a regular mass matrix by tiny masses alone, which are then of the rod."""
    if n > 3 and not ratio:
        return
    rng = np.random.default_rng(n)
    rod = some_link(rng, "rod")
    mass = ratio * NEGLIGIBLE * np.linalg.eigvalsh(rod.inertia)[0]
    links, joints, point = meeting(rng, "g", "base", "rod", (0.1, 0.2, 0.3), rng.normal(size=(n, 3)), mass=mass)
    tree = build_tree("r", [RawLink("base"), *links, rod], joints)
    ball = with_ball_joints(tree)
    assert (ball.nv, ball.aliases) == (3, {f"g{k}": f"g{n - 1}" for k in range(n - 1)})
    q, v, tau = ball.random(rng, batch=8), *rng.normal(size=(2, 8, 3))
    poses = ds.forward_kinematics(ball, q, "rod")
    centres = poses[:, :3, 3] + poses[:, :3, :3] @ point
    assert np.abs(centres - (0.1, 0.2, 0.3)).max() < 100 * EPS
    joint = RawJoint("g", joint_kinds.BALL, "base", "rod", np.array((0.1, 0.2, 0.3)), child_position=-point)
    plain = build_tree("r", [RawLink("base"), rod], [joint])  # whose coordinates are another rotation's
    turned = poses[:, :3, :3] @ plain.frames["rod"].rotation.T
    qb = np.array([matrix_to_quaternion(R) for R in turned])
    S = ball.frames["rod"].rotation @ plain.frames["rod"].rotation.T  # from axes of the one link to the other's
    a = ds.forward_dynamics(ball, q, v, tau).qdd
    b = ds.forward_dynamics(plain, qb, v @ S, tau @ S).qdd @ S.T
    lumped = 10 * (n - 1) * mass / np.linalg.eigvalsh(rod.inertia)[0]  # moments of all links, beside the least one
    assert np.abs(a - b).max() < (lumped + 1e3 * EPS * np.linalg.cond(ds.mass_matrix(ball, q)).max()) * np.abs(b).max()
    assert ball.inertias[0, 0, 0] == pytest.approx(rod.mass + (n - 1) * mass, rel=100 * EPS)


def test_at_the_singular_axis():
    """Where the first and third axis of the gimbal are one, the ball joint knows nothing of it."""
    rng = np.random.default_rng(1)
    links, joints, _ = meeting(rng, "g", "base", "rod", (0, 0, 0), np.eye(3))
    joints = [replace(joint, rotation=np.eye(3)) for joint in joints]
    joints = [replace(joint, position=np.zeros(3)) for joint in joints]
    tree = build_tree("r", [RawLink("base"), *links, some_link(rng, "rod")], joints)
    ball, q = with_ball_joints(tree), np.array([0.3, np.pi / 2, 0.2])
    assert np.linalg.cond(ds.mass_matrix(tree, q)) > 1 / np.sqrt(EPS)
    qb = _configuration(tree, _gimbals(tree), [2], q)
    assert error(ds.forward_kinematics(ball, qb, "rod"), ds.forward_kinematics(tree, q, "rod")) < 100 * EPS
    solution = ds.forward_dynamics(ball, qb, rng.normal(size=3), rng.normal(size=3))
    condition = np.linalg.cond(ds.mass_matrix(ball, qb))
    assert condition < 1e4 and np.abs(solution.dynamics_residual()).max() < 1e3 * EPS * condition


HELD = "gimbals that stay hinges: "


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"lower": -1.0, "upper": 1.0}, HELD + "limits"),
        ({"lower": -np.inf, "upper": 3.0}, HELD + "limits"),
        ({"lower": 0.0, "upper": 0.0}, HELD + "limits"),
        ({"lower": -3.1416, "upper": 3.1416, "effort_limit": 2.0}, ""),
        *(({name: 0.1}, HELD + "damping, friction, armature or springs")
          for name in ("damping", "friction", "armature", "stiffness")),
        ({"mass": 0.1}, ""),
        ({"mass": 3e-4}, HELD + "mass of links between them"),
        ({"mass": 1e-9}, "ball"),
        ({"apart": 1e-3}, "pairs of hinges on a link without mass, which stay"),
    ],
)  # fmt: skip
def test_gimbals_that_stay(given, reason):
    rng = np.random.default_rng(3)
    links, joints, _ = meeting(rng, "g", "base", "rod", (0.1, 0, 0), np.eye(3), **given)
    rod = RawLink("rod", 1.0, np.array([0.0, 0.0, 0.5]), np.diag([0.1, 0.1, 1e-4]))
    tree = build_tree("r", [RawLink("base"), *links, rod], joints)
    ball = with_ball_joints(tree)
    becomes = reason == "ball" or (not reason and "mass" not in given)
    assert len(ball.joints) == (1 if becomes else 3)
    assert set(ball.omitted) == ({reason} if reason not in ("", "ball") else set())
    if becomes and "effort_limit" in given:
        assert np.array_equal(ball.effort_limit, [2.0, 2.0, 2.0]) and np.isinf(ball.upper).all()


def test_screws_are_no_hinges():
    links, joints, _ = meeting(np.random.default_rng(3), "g", "base", "rod", (0.1, 0, 0), np.eye(3))
    rod = RawLink("rod", 1.0, np.array([0.0, 0.0, 0.5]), np.diag([0.1, 0.1, 0.1]))
    for pitch, n in ((0.1, 3), (0.0, 1)):
        screw = replace(joints[1], kind=joint_kinds.SCREW, pitch=pitch)
        tree = build_tree("r", [RawLink("base"), *links, rod], [joints[0], screw, joints[2]])
        assert len(with_ball_joints(tree).joints) == n


def test_what_refers_to_a_gimbal():
    tree, _ = with_gimbals(5, "fixed")
    before = "g1_0, g1_1, g1_2"
    for reason, held in (
        ("couplings and mimic joints", replace(tree, constraints=(ds.JointRows({"g1_1": 1.0, "motor": 2.0}),))),
        ("something refers to links between them", replace(tree, constraints=(ds.Weld("g1_link0"),))),
        ("something refers to links between them", replace(tree, constraints=(ds.Weld("g1_0"),))),
        ("something refers to links between them", replace(tree, gravity_compensation={"g1_link1": np.ones(4)})),
        ("actuators", replace(tree, actuators=(Actuator("m", {"g1_2": 1.0}),))),
    ):
        ball = with_ball_joints(held)
        assert ball.omitted == {HELD + reason: (before,)} and ball.n_links == tree.n_links - 2
    kept = with_ball_joints(replace(tree, constraints=(ds.Weld("rod1", "tool"), ds.JointRows({"motor": 1.0}))))
    assert kept.n_links == tree.n_links - 4 and len(kept.constraints) == 2


GIMBALS = """<robot name="r"><link name="base"/>{}</robot>"""


@pytest.mark.peer
def test_of_files(tmp_path):
    """URDF and MJCF; by default hinges stay, as Pinocchio has them."""
    mass = """<inertial><origin xyz=".1 .2 .3"/><mass value="1"/>
        <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz=".1" iyz="0"/></inertial>"""
    text, parent = "", "base"
    for k, axis in enumerate(("1 0 0", "0 1 0", "0 0 1")):
        text += f"""<link name="l{k}">{mass if k == 2 else ""}</link><joint name="j{k}" type="revolute"><parent
            link="{parent}"/><child link="l{k}"/><axis xyz="{axis}"/><limit effort="1" velocity="1"/></joint>"""
        parent = f"l{k}"
    path = tmp_path / "r.urdf"
    path.write_text(GIMBALS.format(text))
    assert ds.load(path, unsupported="ignore").joint_names == ("j0", "j1", "j2")
    ball = ds.load(path, gimbals="ball", unsupported="ignore")  # ranges are left out
    assert ball.joint_names == ("j2",) and ball.link_names == ("l2",) and ball.joints[0].kind is joint_kinds.BALL
    with pytest.raises(ds.DelassusError, match="gimbals: expected 'hinges' or 'ball'"):
        ds.load(path, gimbals="balls")
    mujoco = pytest.importorskip("mujoco")
    body = """<mujoco><worldbody><body pos="1 2 3" quat="1 .2 .3 .4">{}<geom type="box" size=".1 .2 .3" pos=".2 .1 .3"/>
        </body></worldbody></mujoco>"""
    hinges = "".join(
        f'<joint name="{x}" pos=".1 .2 .1" axis="{axis}"/>'
        for x, axis in zip("abc", ("1 0 0", "0 1 0", "0 0 1"), strict=True)
    )
    made, own = (
        ds.load(mujoco.MjModel.from_xml_string(body.format(joint)), gimbals="ball")
        for joint in (hinges, '<joint name="c" type="ball" pos=".1 .2 .1"/>')
    )
    rng = np.random.default_rng(0)
    q, v, tau = own.random(rng), *rng.normal(size=(2, 3))
    assert made.joint_names == own.joint_names and np.array_equal(made.neutral(), own.neutral())
    a, b = (ds.forward_dynamics(tree, q, v, tau).qdd for tree in (made, own))
    assert np.abs(a - b).max() < 1e3 * EPS * np.linalg.cond(ds.mass_matrix(own, q)) * np.abs(b).max()


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.skipif(CORPORA is None, reason="outside data")
@pytest.mark.parametrize("root", ["fixed", "floating"])
@pytest.mark.parametrize("name", ["digit_like", "disney_like", "talos_like", "5bar_linkage_iso6d"])
def test_parallel_robots(name, root):
    """Their closures name frames of links or of joints; all of them are there with ball joints too."""
    folder = CORPORA / name
    tree, ball = (
        ds.load(folder / "robot.urdf", root=root, gimbals=gimbals, unsupported="ignore")
        for gimbals in ("hinges", "ball")
    )
    pairs = re.findall(r"\['(\w+)', '(\w+)'\]", (folder / "robot.yaml").read_text())
    n = sum(name.endswith("_rev1") for name in tree.joint_names)
    assert n and len(ball.joints) == len(tree.joints) - 2 * n and len(ball.aliases) == 2 * n
    check_same(tree, ball, np.random.default_rng(0), [ds.Weld(*pair) for pair in pairs], 100)
