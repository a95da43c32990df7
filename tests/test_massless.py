"""``load(…, massless=…)``: joints that move nothing with inertia, whose mass matrix is singular.

Oracles: the rank of dense mass matrices; the robot whose links have a mass there; the file in which joints are fixed.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import delassus as ds
from delassus.errors import ModelError
from generated_cases import QUANTITIES
from tools import error, interpreted, requested, tree_of_urdf
from tools import urdf_joint as joint

SMALL_ARMATURE = 1e-4
"""As documented."""

RANK = 1e-9
"""Eigenvalues of mass matrices with unit diagonal below this are zero: links are of like sizes, round-off is 1e-15."""

ROUNDED = 1e-12
"""Numbers that differ by the order of operations alone, along chains of ten links."""

BODY = (
    '<inertial><origin xyz="{} {} {}" rpy="1 2 3"/><mass value="1"/>'
    '<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.02"/></inertial>'
)
POINT = (
    '<inertial><origin xyz="{} {} {}"/><mass value="1"/>'
    '<inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"/></inertial>'
)
"""All of its mass in one point."""


def some_robot(seed, n=7):
    """Links (name, inertial), and joints (name, parent, child, kind, inside), of a robot with links without mass.

    Joints are often in line with others, and points often on axes.
    """
    rng = np.random.default_rng(seed)
    links, joints = [("base", "")], []
    for k in range(n):
        text = rng.choice([BODY, POINT, ""], p=[0.4, 0.2, 0.4])
        at = rng.uniform(-0.3, 0.3, 3) * (rng.random(3) < 0.6)
        links.append((f"l{k}", str(text).format(*at)))
        kind = rng.choice(["revolute", "prismatic", "continuous", "fixed"], p=[0.5, 0.2, 0.2, 0.1])
        xyz, rpy = rng.uniform(-0.3, 0.3, (2, 3)) * (rng.random((2, 3)) < 0.3)
        axis = rng.choice(["1 0 0", "0 1 0", "0 0 1", "1 2 3"])
        inside = f'<origin xyz="{xyz[0]} {xyz[1]} {xyz[2]}" rpy="{rpy[0]} {rpy[1]} {rpy[2]}"/><axis xyz="{axis}"/>'
        parent = "base" if k == 0 else f"l{max(0, k - int(rng.choice([1, 1, 2, 3])))}"
        joints.append((f"j{k}", parent, f"l{k}", str(kind), inside))
    return links, joints


def text_of(links, joints):
    parts = [f'<link name="{name}">{inertial}</link>' for name, inertial in links]
    return f'<robot name="r">{"".join([*parts, *(joint(*x) for x in joints)])}</robot>'


def named(tree):
    """Joints that move nothing with inertia, of a report."""
    return next((names for what, names in tree.report.items() if "move nothing with inertia" in what), ())


@pytest.mark.turns(3)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("root", ["fixed", "floating"])
def test_what_is_found_is_the_rank(seed, root):
    """As many degrees of freedom as the mass matrix lacks of its rank; locked or with armature, it lacks none."""
    text = text_of(*some_robot(seed))
    tree = tree_of_urdf(text, root)
    idle, q = named(tree), tree.random(1, batch=3)
    if not tree.nv:
        return
    lost = [int(np.sum(np.linalg.eigvalsh(_scaled(M)) < RANK)) for M in ds.mass_matrix(tree, q)]
    assert bool(idle) == bool(max(lost)) and lost[1:] == lost[:-1]
    ways = [tree_of_urdf(text, root, massless="armature")]
    try:
        ways.append(tree_of_urdf(text, root, massless="lock"))
    except ModelError as refused:  # a free joint on what has inertia along some directions alone
        assert refused.argument == "joint 'root_joint'" and 0 < lost[0] and "massless='armature'" in refused.advice
    else:
        assert lost[0] == tree.nv - ways[-1].nv and len(idle) == tree.n_links - ways[-1].n_links
    for way in ways:
        assert named(way) == idle
        if way.nv:
            assert np.linalg.eigvalsh(_scaled(ds.mass_matrix(way, way.random(2))))[0] > RANK
            assert ds.forward_dynamics(way, *way_states(way)).status.item().name == "SOLVED"
    if idle:
        with pytest.raises(ModelError, match=f"^joints? {re.escape(', '.join(map(repr, idle)))}: expected a subtree"):
            tree_of_urdf(text, root, massless="error")


def way_states(tree):
    return tree.random(3), np.zeros(tree.nv), np.zeros(tree.nv)


def _scaled(M):
    size = np.sqrt(np.diag(M))
    size[size == 0.0] = 1.0
    return M / size / size[:, None]


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_kinematics_and_inverse_dynamics(seed):
    """All that needs no inverse of the mass matrix, beside the robot with a small armature."""
    text = text_of(*some_robot(seed))
    tree, other = tree_of_urdf(text, "fixed"), tree_of_urdf(text, "fixed", massless="armature")
    rng, rotors = np.random.default_rng(0), other.per_dof("armature")
    q, (v, a) = tree.random(rng), rng.normal(size=(2, tree.nv))
    frame, rows = ds.Frame("l6", (0.1, 0.2, 0.3)), ds.Weld("l6")
    for name in ("l6", "j6"):
        assert error(ds.jacobian(tree, ds.Weld(name), q), ds.jacobian(other, ds.Weld(name), q)) == 0.0
    assert error(ds.frame_jacobian(tree, q, [frame]), ds.frame_jacobian(other, q, [frame])) == 0.0
    assert error(ds.mass_matrix(tree, q) + np.diag(rotors), ds.mass_matrix(other, q)) < ROUNDED
    assert error(ds.inverse_dynamics(tree, q, v, a) + rotors * a, ds.inverse_dynamics(other, q, v, a)) < ROUNDED
    assert error(ds.bias_force(tree, q, v), ds.bias_force(other, q, v)) == 0.0
    held = ds.inverse_dynamics(tree, q, v, a, rows, motors=tree.joint_names)
    assert error(held.tau + ds.jacobian(tree, rows, q).T @ held.forces[0], ds.inverse_dynamics(tree, q, v, a)) < ROUNDED
    again = tree_of_urdf(tree.to_urdf(), "fixed")
    assert error(ds.mass_matrix(again, q), ds.mass_matrix(tree, q)) < ROUNDED


def head(size=1.0):
    """An arm of 2 kg with a camera without mass on two joints; lengths are of that size."""
    body = re.sub(r'(?<==")0.0[12]', lambda x: str(float(x.group()) * size**2), BODY)
    links = [("base", ""), ("a", body.format(0.1 * size, 0, 0)), ("b", body.format(0, 0.1 * size, 0))]
    links += [("eye", ""), ("lens", "")]
    at = f"{0.1 * size} {0.2 * size} {0.3 * size}"
    turned = f'<origin xyz="{at}" rpy="0.3 0.1 0.2"/><axis xyz="0 {{}} 1"/>'
    joints = [
        ("j", "base", "a", "revolute", turned.format(0)), ("k", "a", "b", "revolute", turned.format(1)),
        ("pan", "b", "eye", "revolute", turned.format(2)), ("zoom", "eye", "lens", "prismatic", turned.format(3)),
    ]  # fmt: skip
    return links, joints


HEAD = tree_of_urdf(text_of(*head()), "fixed")
NAMED = r"joints '(arm/)?pan', '(arm/)?zoom': expected .* none behind links '(arm/)?eye', '(arm/)?lens' .*singular"
WAYS = NAMED + r".*massless='lock' or massless='armature' of delassus.load"


@pytest.mark.turns(3)
@pytest.mark.slow
@pytest.mark.parametrize("name", QUANTITIES)
def test_every_quantity_is_refused_or_right(name):
    """What inverts the mass matrix is refused by name, when it is compiled; all others give finite numbers."""
    gyro = [ds.Sensor("turn", "gyro", "lens")]
    more = {"sensors": gyro} if name in ("sensors", "motion_sensors") else {"kp": 1.0} if name == "control" else {}
    rows = () if name.startswith("contact") else ds.Point("lens")
    if QUANTITIES[name].inverts_mass:
        with pytest.raises(ModelError, match=WAYS):
            ds.compile(HEAD, rows, name, **more)
        return
    asked = requested(HEAD, rows, name, **more)
    rng = np.random.default_rng(0)
    values = {a.name: rng.uniform(0.1, 1.0, (1, *a.shape)) for a in asked.arguments}
    for x in interpreted(asked, values).values():
        assert np.isfinite(x).all()


def test_sensors_of_links_that_carry_no_mass():
    """Their centre of mass is their origin: at once and in programs."""
    tree, rng = tree_of_urdf(text_of(*head()), "fixed", massless="armature"), np.random.default_rng(1)
    q, v, tau = tree.random(rng, 3), rng.normal(size=(3, tree.nv)), rng.normal(size=(3, tree.nv))
    kinds = ("subtreecom", "subtreelinvel", "subtreeangmom", "framepos", "framelinvel")
    sensors = [ds.Sensor(kind, kind, "eye") for kind in kinds]
    found = ds.sensors(tree, q, v, tau, sensors=sensors)
    asked = requested(tree, (), "sensors", sensors=sensors)
    traced = np.split(interpreted(asked, {"q": q, "v": v, "tau": tau})["sensors"], len(kinds), axis=1)
    for com, velocity, momentum, place, motion in (found.values(), traced):
        assert np.array_equal(com, place) and not momentum.any()
        assert error(velocity, motion) < ROUNDED


def test_every_way_to_invert_it_is_refused():
    """Direct calls, kernels, scenes and simulators; links that carry a payload at each call have inertia."""
    z, rows, scene = np.zeros(4), ds.Point("lens"), ds.Scene(HEAD)
    felt = [ds.Sensor("shake", "accelerometer", "lens")]
    calls = [
        lambda: ds.forward_dynamics(HEAD, z, z, z),
        lambda: ds.forward_dynamics(HEAD, z, z, z, ds.Weld("eye")),
        lambda: ds.dynamics_derivatives(HEAD, z, z, z),
        lambda: ds.step_derivatives(HEAD, z, z, z, 0.01),
        lambda: ds.delassus(HEAD, rows, z),
        lambda: ds.delassus_operator(HEAD, rows, z),
        lambda: ds.osim(HEAD, rows, z),
        lambda: ds.reduced_dynamics(HEAD, (), z, z),
        lambda: ds.sensors(HEAD, z, z, z, sensors=felt),
        lambda: ds.compile(HEAD, (), "sensors", sensors=felt),
        lambda: ds.compile(HEAD, (), "step"),
        lambda: ds.Simulator(scene, dt=0.01),
        lambda: ds.Simulator(scene, dt=0.01, formulation="os"),
        lambda: scene.contact_step(),
        lambda: ds.Simulator(ds.Scene({"arm": HEAD, "body": ds.mechanisms.chain(1)}), dt=0.01),
    ]
    for call in calls:
        with pytest.raises(ModelError, match=WAYS):
            call()
    assert {"turn"} == set(ds.sensors(HEAD, z, z, z, sensors=[ds.Sensor("turn", "gyro", "lens")]))
    assert HEAD.independent.shape == (4, 4)
    heavy = [1.0, 0.1, 0.1, 0.1, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0]
    body = ds.delassus(HEAD, rows, z, payloads={"lens": heavy})
    assert np.isfinite(body).all() and ds.compile(HEAD, rows, "delassus", payloads=["lens"]) is not None
    with pytest.raises(ModelError, match=r"^joint 'zoom': .* behind link 'lens'"):
        ds.delassus(HEAD, rows, z, payloads={"eye": heavy})


@pytest.mark.turns(2)
@pytest.mark.parametrize("seed", range(8))
def test_locked_joints_are_fixed_ones(seed):
    """Beside the file in which they are: links, frames, dynamics."""
    links, joints = some_robot(seed)
    text = text_of(links, joints)
    names = named(tree_of_urdf(text, "fixed"))
    fixed = [(name, a, b, "fixed" if name in names else kind, x) for name, a, b, kind, x in joints]
    tree, expected = tree_of_urdf(text, "fixed", massless="lock"), tree_of_urdf(text_of(links, fixed), "fixed")
    assert (tree.joint_names, tree.link_names, tree.parents) == (
        expected.joint_names, expected.link_names, expected.parents
    )  # fmt: skip
    assert named(tree) == names and tree.joint_frames == expected.joint_frames
    q = expected.random(0)
    for name, at in expected.frames.items():
        own = tree.frames[name]
        assert own.link == at.link and error(own.position, at.position) < ROUNDED
        assert error(own.rotation, at.rotation) < ROUNDED
    if tree.nv:
        assert error(ds.mass_matrix(tree, q), ds.mass_matrix(expected, q)) < ROUNDED
        assert error(ds.bias_force(tree, q, q), ds.bias_force(expected, q, q)) < ROUNDED
    assert error(tree.world_inertia, expected.world_inertia) < ROUNDED


def test_the_armature_that_is_added():
    """A part of the robot's mass where a joint slides, and of that times the square of its length where it turns."""
    tree, large = (tree_of_urdf(text_of(*head(size)), "fixed", massless="armature") for size in (1.0, 10.0))
    turning, sliding = tree.per_dof("armature")[2:]
    assert sliding == pytest.approx(2.0 * SMALL_ARMATURE) and 0.1 < turning / sliding < 0.2  # lengths are 0.1 to 0.4 m
    assert large.per_dof("armature") == pytest.approx([0.0, 0.0, 100.0 * turning, sliding])
    assert named(tree) == ("pan", "zoom")
    assert ds.forward_dynamics(tree, *np.zeros((3, 4))).status.item().name == "SOLVED"
    none = text_of([("a", ""), ("b", "")], [("j", "a", "b", "revolute", "")])
    bare = tree_of_urdf(none, "floating", massless="armature")
    assert bare.per_dof("armature") == pytest.approx(SMALL_ARMATURE * np.ones(7))  # of 1 kg and 1 m


def test_loops_between_links_that_are_one_then(tmp_path):
    """They are left out with the motors of locked joints, and listed; with armature, all stay."""
    (tmp_path / "robot.urdf").write_text(text_of(*head()))
    (tmp_path / "robot.yaml").write_text("closed_loop: [[lens, b], [b, base]]\ntype: [6d, 3d]\nname_mot: [j, zoom]\n")
    tree, whole = (ds.load_parallel(tmp_path, massless=how) for how in ("lock", "armature"))
    left_out, closing = whole.constraints
    assert [c.fingerprint for c in tree.constraints] == [closing.fingerprint] and tree.nv == 2
    assert [*tree.omitted.values()] == [("pan", "zoom"), (repr(left_out), "zoom")]
    assert [[a.name for a in x.actuators] for x in (tree, whole)] == [["j"], ["j", "zoom"]]
    with pytest.raises(ModelError, match=NAMED):
        ds.load_parallel(tmp_path, massless="error")
    assert named(ds.load_parallel(tmp_path)) == ("pan", "zoom")
