"""Closed loops as robots: configurations that close them, robots that files close, and independent coordinates."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import delassus as ds
from internals import RawJoint, RawLink, build_tree, joint_kinds
from random_trees import SINGLE, some_constraints, some_mechanism
from tools import urdf_joint

CLOSED = 1e-11
"""Norm of gaps (m, rad) from which on loops count as closed."""


@pytest.fixture(scope="module")
def linkage():
    """A four-bar in a plane, and its pin: three rows, of which two are independent."""
    left, right = ds.mechanisms.pendulum(1, length=0.5), ds.mechanisms.pendulum(1, length=0.4)
    tree = left.attach("rod1", ds.mechanisms.pendulum(1, length=0.3), (0, 0, -0.5), prefix="coupler_")
    tree = tree.attach("world", right, (0.3, 0, 0), prefix="right_")
    pin = ds.Point(ds.Frame("coupler_rod1", (0, 0, -0.3)), ds.Frame("right_rod1", (0, 0, -0.4)), axes="world")
    return tree, pin


def test_loops_are_closed_from_anywhere(linkage):
    tree, pin = linkage
    q = tree.random(0, batch=(10, 20))
    found = ds.close_loops(tree, pin, q)
    assert isinstance(found, ds.ClosedLoops) and found.q.shape == q.shape and found.q.dtype == float
    ends = ds.forward_kinematics(tree, found.q, [pin.first, pin.second])[..., :3, 3]
    gap = np.linalg.norm(ends[..., 0, :] - ends[..., 1, :], axis=-1)
    assert np.all(found.status == ds.LoopStatus.CLOSED) and gap.max() < CLOSED
    assert np.allclose(gap, found.residual, rtol=0, atol=1e-15) and np.all(found.rank == 2)
    one = ds.close_loops(tree, pin, q[3, 4])
    assert np.array_equal(one.q, found.q[3, 4]) and one.status.shape == ()


def test_the_nearest_configuration_but_for_the_square_of_the_distance(linkage):
    tree, pin = linkage
    q = ds.random_configurations(tree, pin, 1, 50)
    J = ds.jacobian(tree, pin, q)
    away = np.linalg.pinv(J, rcond=1e-6) @ np.random.default_rng(0).normal(size=(50, 3, 1))
    away = away[..., 0] / np.linalg.norm(away, axis=1)
    errors = []
    for distance in (1e-3, 1e-4):
        moved = ds.close_loops(tree, pin, tree.integrate(q, distance * away)).q
        errors.append(np.linalg.norm(tree.difference(q, moved), axis=-1) / distance)
    near = np.median(errors, axis=1)
    assert near[0] < 0.05 and near[1] < 0.2 * near[0]


def test_held_joints_stay(linkage):
    tree, pin = linkage
    q = ds.random_configurations(tree, pin, 2, 30)
    start = tree.integrate(q, 0.1 * np.random.default_rng(3).normal(size=q.shape))
    found = ds.close_loops(tree, pin, start, hold=[tree.joint_names[0]])
    assert np.array_equal(found.q[:, 0], start[:, 0])
    closed = found.status == ds.LoopStatus.CLOSED
    assert np.mean(closed) > 0.8 and np.array_equal(closed, found.residual < CLOSED)
    for bad, error in ((["nothing"], ds.errors.UnknownNameError), ("joint", ds.errors.ConfigurationError)):
        with pytest.raises(error, match="joint"):
            ds.close_loops(tree, pin, q, hold=bad)


def test_what_is_open_says_so(linkage):
    tree, pin = linkage
    q = tree.random(4, batch=5)
    found = ds.close_loops(tree, pin, q, hold=tree.joint_names)
    ends = ds.forward_kinematics(tree, q, [pin.first, pin.second])[..., :3, 3]
    assert np.all(found.status == ds.LoopStatus.OPEN) and "nearer" in found.status[0].text
    assert np.array_equal(found.q, q)
    assert np.allclose(found.residual, np.linalg.norm(ends[:, 0] - ends[:, 1], axis=-1), rtol=1e-12)


def test_hinges_and_places_in_the_world():
    """A hinge closes whatever its angle, and frames that are held to the world stay where they are."""
    tree, axis = ds.mechanisms.star(2, 4), np.array([0.0, 0.6, 0.8])
    foot, other = ds.Frame("branch1_4", (0.1, 0, 0)), ds.Frame("branch2_4", (0.3, 0.1, 0.2))
    hinge = ds.Hinge("branch1_4", other, axis)
    found = ds.close_loops(tree, [ds.Weld(foot), hinge], q := tree.random(5, batch=200))
    closed = found.status == ds.LoopStatus.CLOSED
    assert np.mean(closed) > 0.9
    before, after = (ds.forward_kinematics(tree, x, [foot, hinge.first, other])[closed] for x in (q, found.q))
    assert np.abs(before[:, 0] - after[:, 0]).max() < CLOSED
    assert np.abs(after[:, 1, :3, 3] - after[:, 2, :3, 3]).max() < CLOSED
    assert np.abs(after[:, 1, :3, :3] @ axis - after[:, 2, :3, :3] @ axis).max() < CLOSED
    turned = np.einsum("nij,nij->n", after[:, 1, :3, :3], after[:, 2, :3, :3])
    assert np.ptp(turned) > 3.0  # of 4: the traces of rotations by all angles
    errors = ds.compile(tree, hinge, "constraint_errors", outputs="errors")
    shift = 1e-5 * np.random.default_rng(6).normal(size=(200, tree.nv))
    ahead, behind = (errors(tree.integrate(found.q, x), shift) for x in (shift, -shift))
    rates = np.einsum("nij,nj->ni", ds.jacobian(tree, hinge, found.q), shift)
    assert np.abs(0.5 * (ahead - behind) - rates)[closed].max() < 1e-8


def test_distances_are_closed(linkage):
    tree, pin = linkage
    rod = ds.Distance(pin.first, pin.second, length=0.1)
    found = ds.close_loops(tree, rod, tree.random(7, batch=50))
    ends = ds.forward_kinematics(tree, found.q, [rod.first, rod.second])[..., :3, 3]
    assert np.all(found.status == ds.LoopStatus.CLOSED)
    assert np.abs(np.linalg.norm(ends[:, 0] - ends[:, 1], axis=-1) - 0.1).max() < CLOSED


@pytest.mark.parametrize("seed", [8, 35, 77, 144])
def test_ranks_are_those_by_singular_values(seed):
    """Of random rows, some of which come close to depending on those before them."""
    m = some_mechanism(seed, 3 + seed % 6, ("fixed", "floating")[seed % 2])
    (constraints, rows), q = some_constraints(m), m.tree.random(m.rng, 20)
    found = ds.close_loops(m.tree, constraints, q, hold=m.tree.joint_names, rows=rows)
    J = ds.jacobian(m.tree, constraints, q, rows=rows)
    assert found.rank.tolist() == np.linalg.matrix_rank(J, rtol=1e-9).tolist()


def test_half_a_turn_is_not_closed(linkage):
    """Two links in a plane whose rods start exactly half a turn apart: sines of angles are zero there."""
    tree, _ = linkage
    found = ds.close_loops(tree, ds.Orientation("coupler_rod1", "right_rod1"), [0.5, np.pi - 0.2, 0.3])
    R = ds.forward_kinematics(tree, found.q, ["coupler_rod1", "right_rod1"])[:, :3, :3]
    assert found.status == ds.LoopStatus.CLOSED and np.abs(R[0] - R[1]).max() < CLOSED


# -- files -----------------------------------------------------------------------------------------------------------

BAR = '<link name="{0}"><inertial><mass value="1"/><inertia ixx="0.01" iyy="0.01" izz="0.01"/></inertial></link>'
AT = '<origin xyz="{0} 0 0"/><axis xyz="0 0 1"/>'
FREE = '<limit effort="2" velocity="3"/>'


@pytest.fixture
def folder(tmp_path):
    """Two cranks on a base, a rod on each, and closures that say what else there is."""
    bars = "".join(BAR.format(name) for name in ("base", "a", "b", "c", "d", "end_c", "end_d"))
    joints = [
        urdf_joint("mot_a", "base", "a", inside=AT.format(0) + FREE),
        urdf_joint(
            "mot_b", "base", "b", inside=AT.format(1) + '<limit lower="-1" upper="1.5" effort="1" velocity="1"/>'
        ),
        urdf_joint("rod_c", "a", "c", inside=AT.format(1) + FREE),
        urdf_joint("rod_d", "b", "d", inside=AT.format(1) + FREE),
        urdf_joint("tip_c", "c", "end_c", "fixed", AT.format(1)),
        urdf_joint("tip_d", "d", "end_d", "fixed", AT.format(1)),
    ]
    (tmp_path / "robot.urdf").write_text(f"<robot name='r'>{bars}{''.join(joints)}</robot>")

    def write(text):
        (tmp_path / "robot.yaml").write_text(text)
        return tmp_path

    return write


def test_robots_of_folders(folder):
    tree = ds.load_parallel(folder("closed_loop: [['tip_c', \"end_d\"]]\ntype: ['3d']\nname_mot: [mot_a,\n  mot_b]\n"))
    (loop,) = tree.constraints
    assert isinstance(loop, ds.Point) and [a.name for a in tree.actuators] == ["mot_a", "mot_b"]
    assert tree.lower[tree.v_index("rod_c")] == -np.inf and tree.upper[tree.v_index("mot_b")] == 1.5
    q = ds.random_configurations(tree, rng=0, batch=20)
    assert np.all((q >= tree.lower) & (q <= tree.upper))
    ends = ds.forward_kinematics(tree, q, ["end_c", "end_d"])[..., :3, 3]
    assert np.abs(ends[:, 0] - ends[:, 1]).max() < CLOSED
    assert ds.load_parallel(folder("closed_loop: []\ntype: []\n"), root="floating").is_floating


def test_joints_that_are_something_else(folder):
    text = "closed_loop: [[end_c, end_d]]  # a weld\ntype: [6D]\njoint_name: [rod_c, rod_d, mot_b]\njoint_type: "
    tree = ds.load_parallel(folder(text + "[SPHERICAL, CARDAN, FIXED]"))
    assert [(j.name, j.kind.name) for j in tree.joints] == [
        ("mot_a", "revolute"), ("rod_c", "ball"), ("rod_d_X", "revolute"), ("rod_d_Y", "revolute")
    ]  # fmt: skip
    assert isinstance(tree.constraints[0], ds.Weld)
    first, second = (ds.forward_kinematics(tree, tree.configuration({f"rod_d_{x}": 0.5}), "d") for x in "XY")
    assert np.allclose(first[:3, 0], [1, 0, 0]) and np.allclose(second[:3, 1], [0, 1, 0])
    assert np.allclose([first[:3, 3], second[:3, 3]], [2, 0, 0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("closed_loop: [[end_c, end_x]]\ntype: [6d]", "Did you mean 'end_c'|Did you mean 'end_d'"),
        ("closed_loop: [[end_c, end_d]]\ntype: [5d]", "type: expected 6d or 3d, got '5d'"),
        ("closed_loop: [[end_c, end_d]]", "expected as many items of closed_loop as of type"),
        ("closed_loop: [[end_c]]\ntype: [6d]", "expected pairs of frames"),
        ("name_mot: [mot_aa]", "Did you mean 'mot_a'"),
        ("name_mot: mot_a", "'name_mot': expected a list"),
        ("name_mot: [mot_a]]", "YAML that can be read"),
        ("name_mot: " + "[" * 100_000, "YAML that can be read"),
        ("&a [*a, *a]: x", "YAML that can be read"),
        ("- mot_a", "expected keys and their lists"),
        ("joint_name: [[rod_c]]\njoint_type: [FIXED]", "expected names of joints"),
        ("# " + "x" * 2**20, "at most 1.04858e\\+06 bytes"),
        ("joint_name: [rod_c]\njoint_type: [SCREW]", "expected a type among SPHERICAL, CARDAN, FIXED, got 'SCREW'"),
        ("joint_name: [rod_cc]\njoint_type: [FIXED]", "Did you mean 'rod_c'"),
    ],
)
def test_files_that_do_not_fit(folder, text, message):
    with pytest.raises(ds.DelassusError, match=message):
        ds.load_parallel(folder(text))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_closures_as_yaml_has_them(folder, encoding):
    """Lists in blocks, byte order marks, anchors, other keys; names that look like numbers or truths are text."""
    block = "---\nother: {a: 1.5}\nname_mot: &motors\n  - mot_a\n  - mot_b\nclosed_loop:\n  - - end_c\n    - end_d\n"
    path = folder("")
    (path / "robot.yaml").write_text(block + "type: [3d] # a point\nagain: *motors\n", encoding=encoding)
    tree = ds.load_parallel(path)
    assert [a.name for a in tree.actuators] == ["mot_a", "mot_b"] and isinstance(tree.constraints[0], ds.Point)
    text = (path / "robot.urdf").read_text().replace('"mot_a"', '"off"').replace('"mot_b"', '"12"')
    (path / "robot.urdf").write_text(text)
    (path / "robot.yaml").write_text("name_mot: [off, 12]", encoding=encoding)
    assert [a.name for a in ds.load_parallel(path).actuators] == ["off", "12"]


def test_folders_that_hold_no_robot(tmp_path):
    for wrong in (tmp_path, tmp_path / "none", 3):
        with pytest.raises(ds.errors.DelassusError, match="folder"):
            ds.load_parallel(wrong)


# -- independent coordinates -----------------------------------------------------------------------------------------

FIVE_BAR = "closed_loop: [[end_c, end_d]]\ntype: [3d]\nname_mot: [mot_b, mot_a]"


@pytest.mark.parametrize("seed", range(4))
def test_sizes_of_rows_do_not_decide_which_coordinates_are_independent(seed):
    """Random rows on joints: each of them times any factor says the same, singularities too."""
    m = some_mechanism(seed, 7, "fixed", SINGLE)
    rows, found = m.rng.normal(size=(3, m.tree.nv)) * (m.rng.random((3, m.tree.nv)) < 0.6), []
    q, v = m.tree.random(m.rng, 10), m.rng.normal(size=m.tree.nv)
    for sizes in (np.ones(3), *(m.rng.permutation([1e-6, np.pi, 1e6]) for _ in range(3))):
        given = [ds.JointRows(dict(zip(m.tree.joint_names, x, strict=True))) for x in sizes[:, None] * rows if x.any()]
        found.append(ds.reduced_dynamics(m.tree, given, q, v))
    first, *others = found
    assert np.all(first.singularity == ds.Singularity.NONE) and np.all(first.margin > 1e-3)
    for other in others:
        assert other.independent == first.independent and np.all(other.singularity == first.singularity)
        for name in ("margin", "transmission", "mass_matrix", "bias"):
            x = getattr(first, name)
            assert np.allclose(x, getattr(other, name), rtol=1e-9, atol=1e-9 * np.abs(x).max())


def test_independent_coordinates_are_motors_first(folder, linkage):
    tree = ds.load_parallel(folder(FIVE_BAR))
    motors = [tree.v_index(name).start for name in ("mot_b", "mot_a")]
    assert np.array_equal(tree.independent, np.eye(4)[motors])
    assert np.array_equal(tree.actuated, np.eye(4)[sorted(motors)])
    floating = ds.load_parallel(folder(FIVE_BAR), root="floating")
    assert np.array_equal(floating.independent, np.eye(10)[[6 + motors[0], 6 + motors[1], *range(6)]])
    more = ds.load_parallel(folder(FIVE_BAR.replace("[mot_b, mot_a]", "[mot_b, rod_c, mot_a]")))
    assert len(more.independent) == 2  # two of three motors hold it
    assert ds.mechanisms.chain(3).independent.shape == (3, 3)
    tree, pin = linkage
    for bad in ([], ["rod1_joint", "coupler_rod1_joint"]):
        with pytest.raises(ds.errors.ConstraintError, match=r"independent: expected joints of 1 degree\(s\)"):
            ds.reduced_dynamics(tree, pin, tree.neutral(), independent=bad)
    apart = ds.Point(pin.first, ds.Frame("world", (5.0, 0, 0)))
    with pytest.raises(ds.errors.ConstraintError, match="hold at one of many configurations"):
        ds.reduced_dynamics(tree, apart, tree.neutral())


def test_a_robot_without_joints(folder):
    tree = ds.load_parallel(
        folder("joint_name: [mot_a, mot_b, rod_c, rod_d]\njoint_type: [FIXED, FIXED, FIXED, FIXED]")
    )
    found = ds.reduced_dynamics(tree, ds.Weld("end_c"), [])
    assert found.transmission.shape == (0, 0) and found.singularity == ds.Singularity.NONE and found.margin == 1.0


def test_the_transmission_is_what_moving_does(linkage):
    """By differences of configurations that are closed again; its rate by differences of itself."""
    tree, pin = linkage
    crank, h = ["rod1_joint"], 1e-5
    q = ds.random_configurations(tree, pin, 8, 40)
    found = ds.reduced_dynamics(tree, pin, q, independent=crank)
    assert found.independent == (0,) and np.all(found.singularity == ds.Singularity.NONE)
    far = found.margin > 0.1
    ahead, behind = (ds.close_loops(tree, pin, q + np.array([x, 0.0, 0.0]), hold=crank).q for x in (h, -h))
    G = found.transmission
    assert np.abs(tree.difference(behind, ahead) / (2 * h) - G[..., 0])[far].max() < 1e-6
    v = 0.7 * G[..., 0]
    drift = ds.reduced_dynamics(tree, pin, q, v, independent=crank).drift
    with_q = [ds.reduced_dynamics(tree, pin, x, independent=crank).transmission for x in (behind, ahead)]
    rate = 0.7 * (with_q[1] - with_q[0]) / (2 * h)
    assert np.abs(0.7 * rate[..., 0] - drift)[far].max() < 1e-5 * np.abs(drift[far]).max()


def test_derivatives_of_closed_configurations_are_the_transmission(linkage):
    tree, pin = linkage
    q = ds.random_configurations(tree, pin, 8, 40)
    G = ds.reduced_dynamics(tree, pin, q, independent=["rod1_joint"]).transmission[..., 0]
    shift = np.random.default_rng(10).normal(size=q.shape)
    tangents = ds.compile(tree, pin, "close_loops", hold=["rod1_joint"]).derivative("jvp")
    found, *others = tangents(q, shift)
    assert np.allclose(found, G * shift[:, :1], rtol=1e-7, atol=1e-9) and not np.any(others)


def test_reduced_dynamics_are_those_of_all_coordinates(folder):
    """Of a five-bar in space on a free base, one of whose three rows says nothing: beside the saddle point."""
    tree, rng = ds.load_parallel(folder(FIVE_BAR), root="floating"), np.random.default_rng(9)
    q = ds.random_configurations(tree, rng=rng, batch=20)
    G = ds.reduced_dynamics(tree, None, q).transmission
    v = np.einsum("nij,nj->ni", G, rng.normal(size=(20, 8)))
    tau, gravity = rng.normal(size=(20, tree.nv)), (0.3, -2.0, 5.0)
    found = ds.reduced_dynamics(tree, None, q, v, gravity=gravity)
    assert np.abs(ds.jacobian(tree, None, q) @ G).max() < 1e-12 * np.abs(G).max()
    wanted = ds.forward_dynamics(tree, q, v, tau, gravity=gravity)
    assert {s.name for s in wanted.status} == {"REDUNDANT"}
    a = np.einsum("nij,nj->ni", found.delassus, np.einsum("nij,ni->nj", G, tau) - found.bias)
    qdd = np.einsum("nij,nj->ni", G, a) + found.drift
    largest = np.abs(wanted.qdd).max(axis=-1)
    condition = np.linalg.cond(found.mass_matrix) / found.margin
    assert np.all(np.abs(qdd - wanted.qdd).max(axis=-1) < 1e2 * np.finfo(float).eps * condition * largest)
    motors = np.zeros((20, tree.nv, 8))
    motors[:, found.independent, range(8)] = 1.0
    pushed = ds.forward_dynamics(tree, q[:, None], np.zeros(tree.nv), np.swapaxes(motors, 1, 2), gravity=(0, 0, 0))
    assert np.allclose(pushed.qdd[..., found.independent], found.delassus, rtol=1e-8, atol=1e-8 * largest.max())


def test_singularities_are_named(folder):
    tree, third = ds.load_parallel(folder(FIVE_BAR)), np.pi / 3
    at = {
        ds.Singularity.ACTUATION: {"mot_a": 2 * third, "rod_c": -2 * third, "mot_b": third, "rod_d": 2 * third},
        ds.Singularity.OUTPUT: {"mot_a": third, "rod_c": 0.0, "mot_b": third, "rod_d": third},
    }
    q = np.stack([*(tree.configuration(values) for values in at.values()), ds.random_configurations(tree, rng=1)])
    ends = ds.forward_kinematics(tree, q, ["end_c", "end_d"])[..., :3, 3]
    assert np.abs(ends[:, 0] - ends[:, 1]).max() < CLOSED
    found = ds.reduced_dynamics(tree, None, q, output=ds.Point("end_c"))
    assert found.singularity.tolist() == [*at, ds.Singularity.NONE] and found.margin[0] < 1e-7 < found.margin[1]
    assert ds.reduced_dynamics(tree, None, q[1]).singularity == ds.Singularity.NONE  # no output is asked for
    assert isinstance(found, ds.ReducedDynamics) and "stretched" in found.singularity[1].text
    with pytest.raises(ds.errors.ConstraintError, match="output: expected rows that no call gives"):
        ds.reduced_dynamics(tree, None, q, output=ds.Rows("end_c", 2))


def test_a_leg_on_screws():
    """That of docs/loops.md, beside saddle-point systems in NumPy: accelerations, transmission, mass matrix."""
    page = (Path(__file__).parent.parent / "docs" / "loops.md").read_text("utf-8")
    scope = {"np": np, "ds": ds}
    exec(next(block for block in re.findall(r"```python\n(.*?)```", page, re.S) if "nut_knee" in block), scope)
    tree, rods, nuts, standing = scope["kangaroo"], scope["rods"], scope["nuts"], scope["pose"].q[0]
    assert [x.name for x in scope["found"].singularity] == ["NONE", "OUTPUT", "ACTUATION"]
    rng, h, nv = np.random.default_rng(11), 1e-5, tree.nv
    q = ds.close_loops(
        tree,
        rods,
        standing + 0.2 * rng.normal(size=(20, nv)) * [1.0 if "nut" not in x else 0.1 for x in tree.joint_names],
    ).q
    J, M = ds.jacobian(tree, rods, q), ds.mass_matrix(tree, q)
    S = np.eye(nv)[[tree.v_index(name).start for name in nuts]]
    G = np.linalg.inv(np.concatenate([J, np.broadcast_to(S, J.shape)], axis=1))[..., 6:]
    v, tau = (G @ rng.normal(size=(20, 6, 1)))[..., 0], rng.normal(size=(20, nv))
    found = ds.reduced_dynamics(tree, rods, q, v, independent=nuts)
    assert np.abs(found.transmission - G).max() < 1e-11 * np.abs(G).max()
    assert np.abs(found.mass_matrix - np.swapaxes(G, 1, 2) @ M @ G).max() < 1e-11 * np.abs(found.mass_matrix).max()
    rate = (ds.jacobian(tree, rods, tree.integrate(q, h * v)) - ds.jacobian(tree, rods, tree.integrate(q, -h * v))) / (
        2 * h
    )
    saddle = np.block([[M, np.swapaxes(J, 1, 2)], [J, np.zeros((20, 6, 6))]])
    forces = np.concatenate([tau - ds.bias_force(tree, q, v), -(rate @ v[..., None])[..., 0]], axis=1)
    wanted = np.linalg.solve(saddle, forces[..., None])[:, :nv]
    moved = np.swapaxes(G, 1, 2) @ tau[..., None] - found.bias[..., None]
    qdd = G @ (found.delassus @ moved) + found.drift[..., None]
    assert np.abs(qdd - wanted).max() < 1e-7 * np.abs(wanted).max()  # differences of J


@pytest.mark.parametrize("axis", [None, (1, 2, 3)])
def test_loops_whose_rows_are_the_same_at_all_configurations(axis):
    """Those of a ball joint that is held: there is a projection for each configuration that closes them."""
    links = [RawLink(name, 1.0, np.array([0.1, 0.0, 0.0]), 0.1 * np.eye(3)) for name in "ab"]
    tree = build_tree("ball", links, [RawJoint("j", joint_kinds.BALL, "a", "b")], root="floating")
    held = ds.Orientation("b", "a", axis=axis)
    q, v = tree.random(0, 3), np.random.default_rng(0).normal(size=(3, tree.nv))
    found = ds.compile(tree, held, "joint_space_motion", outputs="J")(q, v, 0 * v)
    assert np.allclose(found, ds.jacobian(tree, held, q))
