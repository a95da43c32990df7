"""Pinocchio models: every URDF file of example-robot-data, and trees of random joints of every type.

The oracle is Pinocchio itself at the same configuration: kinematics of all frames, mass matrix, integration, and its
Cholesky route to the Delassus matrix, each constraint brought up to date first (without that its answers are wrong).
Where the joints of a model are not numbered depth first, its ``crba`` and all that uses it leave out entries, with no
error; there the mass matrix comes from its inverse dynamics, which is right.
"""

from __future__ import annotations

import pickle
import re
import sys
import sysconfig
import warnings
import zlib
from functools import cache
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest

import delassus as ds
from delassus.errors import MissingDependencyError, ModelError, UnknownNameError
from internals import joint_kinds, tree_from_pinocchio
from tools import AGREEMENT, error, in_turns, random_rotation, unit_diagonal

pin = pytest.importorskip("pinocchio")

from pinocchio_models import (  # noqa: E402  (they need Pinocchio)
    ALL,
    FILES,
    composite,
    is_depth_first,
    random_inertia,
    random_model,
    random_placement,
    read,
    rigid_contacts,
)

pytestmark = pytest.mark.peer

MASS_MATRIX = 1e-10
"""Mass matrix, each entry relative to the diagonal of its row and column: files write quarter turns to eleven digits;
they are read as exact here and as written there."""

DELASSUS = 1e-9
"""Jacobian and Delassus matrix: the same, and the condition of the mass matrix."""

KINEMATICS = 1e-10
"""Poses, in m and without unit: the same."""

STATE = 1e-12
"""Integration and its inverse: round-off, which the logarithm of a rotation near a half turn magnifies."""

REGULAR = 1e-8
"""Rows count as independent if the smallest eigenvalue of G, scaled to unit diagonal, is above this."""

SINGULAR = {  # joints that move nothing with inertia: fingers and grippers without mass
    "romeo_description/urdf/romeo.urdf": "RThumb3",
    "romeo_description/urdf/romeo_laas_small.urdf": "r_gripper_joint",
}
NO_ROBOT = "ur_description/urdf/ur3.urdf"  # an empty <robot> element, which Pinocchio does not read
ROBOTS = [name for name in FILES if name not in {*SINGULAR, NO_ROBOT}]


def convert(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ds.DelassusWarning)  # unphysical inertias of real files
        return tree_from_pinocchio(model)


@cache
def loaded(name, root, continuous="cos-sin"):
    """The tree that `delassus.load` reads of a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ds.DelassusWarning)
        return ds.load(FILES[name], root=root, continuous=continuous)


# -- the oracle ----------------------------------------------------------------------------------------------------


def mass_matrix(model, q, convention=None):
    """By composite inertias; right if the joints are numbered depth first."""
    data = model.createData()
    M = pin.crba(model, data, q, *([] if convention is None else [convention]))
    return np.triu(M) + np.triu(M, 1).T


def mass_matrix_by_columns(model, q):
    """By inverse dynamics, one column at a time; right in any order."""
    still, data = pin.Model(model), model.createData()
    still.gravity = pin.Motion.Zero()
    zero = np.zeros(model.nv)
    return np.stack([pin.rnea(still, data, q, zero, unit) for unit in np.eye(model.nv)], axis=-1)


def peer_delassus(model, q, constraints):
    """Constraint Jacobian and Delassus matrix."""
    models, datas = rigid_contacts(model, constraints)
    data = model.createData()
    pin.crba(model, data, q)
    pin.computeJointJacobians(model, data, q)
    for c, d in zip(models, datas, strict=True):
        c.calc(model, data, d)  # without it the answers are wrong, silently
    cholesky = pin.ConstraintCholeskyDecomposition(model, data, models, datas)
    cholesky.compute(model, data, models, datas, 0.0)
    J = pin.getConstraintsJacobian(model, data, models, datas).reshape(-1, model.nv)
    return J, cholesky.getInverseOperationalSpaceInertiaMatrix(True)


def check_layout(tree, model):
    """Same ``q`` and ``v``, joint by joint."""
    assert (tree.nq, tree.nv) == (model.nq, model.nv)
    q_starts = {joint.name: sq.start for joint, sq in zip(tree.joints, tree.q_slices, strict=True)}
    v_starts = {joint.name: sv.start for joint, sv in zip(tree.joints, tree.v_slices, strict=True)}
    for i in range(1, model.njoints):
        name = model.names[i] if model.names[i] in q_starts else f"{model.names[i]}:1"
        assert (q_starts[name], v_starts[name]) == (model.idx_qs[i], model.idx_vs[i])
    assert np.array_equal(tree.neutral(), pin.neutral(model))


def check_frames(tree, model, data, indices, q):
    """Poses of frames by Pinocchio's numbers, at once."""
    found = ds.forward_kinematics(tree, q, [model.frames[k].name for k in indices])
    for T, k in zip(found, indices, strict=True):
        off = np.abs(T - data.oMf[k].homogeneous)
        assert np.max(off[:3, :3]) < KINEMATICS, model.frames[k].name
        assert np.max(off[:3, 3]) < KINEMATICS * max(1.0, np.max(np.abs(q), initial=0.0)), model.frames[k].name


def check_states(tree, model, rng):
    """Kinematics of all bodies, mass matrix, integration."""
    q, q1 = tree.random(rng, batch=2)
    v = rng.normal(size=tree.nv)
    data = model.createData()
    pin.framesForwardKinematics(model, data, q)
    bodies = {"universe", *(f.name for f in model.frames if f.type == pin.FrameType.BODY)}
    frames = [k for k, f in enumerate(model.frames) if f.type == pin.FrameType.BODY or f.name not in bodies]
    check_frames(tree, model, data, frames, q)
    if not tree.nv:
        return
    M = ds.mass_matrix(tree, q)
    assert error(unit_diagonal(M), unit_diagonal(mass_matrix_by_columns(model, q))) < MASS_MATRIX
    if is_depth_first(model):
        for convention in (pin.Convention.LOCAL, pin.Convention.WORLD):
            assert error(unit_diagonal(M), unit_diagonal(mass_matrix(model, q, convention))) < MASS_MATRIX
    turn = tree.difference(tree.integrate(q, v), pin.integrate(model, q, v))  # quaternions may have either sign
    assert np.max(np.abs(turn)) < STATE
    assert error(tree.difference(q, q1), pin.difference(model, q, q1)) < STATE


def check_delassus(tree, model, constraints, rng):
    """Jacobian, and Delassus matrix by some methods; says whether Pinocchio's own route applied."""
    q = tree.random(rng)
    expected_J, own = peer_delassus(model, q, constraints)
    expected = expected_J @ np.linalg.solve(mass_matrix_by_columns(model, q), expected_J.T)
    G = {method: ds.delassus(tree, constraints, q, method=method) for method in in_turns(tree.nv)}
    assert error(ds.jacobian(tree, constraints, q), expected_J) < DELASSUS
    for method, value in G.items():
        assert error(value, expected) < DELASSUS, method
    diagonal = np.diagonal(expected)
    scale = np.sqrt(np.outer(diagonal, diagonal))
    regular = np.all(diagonal > 0) and np.linalg.eigvalsh(expected / scale)[0] > REGULAR
    if not regular or not is_depth_first(model):  # on redundant rows Pinocchio returns NaN
        return False
    for method, value in G.items():
        assert error(value, own) < DELASSUS, method
    return True


def some_constraints(tree, names, rng):
    """Constraints on the last links of the tree, with turned frames in both kinds of axes, and a loop."""

    def frame(name):
        return ds.Frame(name, rng.uniform(-0.3, 0.3, 3), random_rotation(rng))

    last = [n for n in names if not tree.children[tree.placement(n).link]]
    out = [ds.Weld(frame(last[0]))]
    if len(last) > 1:
        out.append(ds.Point(frame(last[1]), axes="world"))
    if len(last) > 2:
        out.append(ds.Weld(frame(last[2]), axes="world"))
    if len(last) > 3:
        out.append(ds.Point(frame(last[3]), frame(last[0])))
    return out


def check_frames_of_joints(tree, model, rng):
    """Pinocchio's frames of joints, fixed ones too: here the names of joints where no link has that name."""
    q, data = tree.random(rng), model.createData()
    pin.framesForwardKinematics(model, data, q)
    links = {"universe", *(frame.name for frame in model.frames if frame.type == pin.FrameType.BODY)}
    kinds = pin.FrameType.JOINT, pin.FrameType.FIXED_JOINT
    frames = [k for k, frame in enumerate(model.frames) if frame.type in kinds and frame.name not in links]
    check_frames(tree, model, data, frames, q)


FRAMES = """<robot name="r"><link name="base"/>{}<joint name="a" type="continuous"><parent link="base"/>
<child link="l1"/><origin xyz=".1 .2 .3" rpy=".1 .2 .3"/><axis xyz="1 2 3"/></joint><joint name="weld" type="fixed">
<parent link="l1"/><child link="l2"/><origin xyz=".1 0 .3" rpy="1 .2 .3"/></joint><joint name="l1" type="prismatic">
<parent link="l2"/><child link="l3"/><origin xyz=".3 0 .1" rpy="1 2 3"/><axis xyz="0 1 3"/><limit effort="1"
velocity="1" upper="2"/></joint><joint name="ground" type="fixed"><parent link="base"/><child link="tool"/>
<origin xyz="3 1 2"/></joint></robot>"""
MASS = """<link name="{}"><inertial><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>"""


@pytest.mark.parametrize("root", ["fixed", "floating"])
def test_frames_of_joints(tmp_path, root):
    path, rng = tmp_path / "r.urdf", np.random.default_rng(0)
    path.write_text(FRAMES.format("".join(map(MASS.format, ("l1", "l2", "l3", "tool")))))
    tree = ds.load(path, root=root, continuous="cos-sin")
    model = pin.buildModelFromUrdf(str(path), *([pin.JointModelFreeFlyer()] if root == "floating" else []))
    check_frames_of_joints(tree, model, rng)
    link = {"a": "l1", "weld": "l2", "ground": "tool", "l1": "l1"}  # a link of the name of a joint wins
    q = tree.random(rng)
    for joint, name in link.items():
        assert np.array_equal(ds.forward_kinematics(tree, q, joint), ds.forward_kinematics(tree, q, name))
    with pytest.raises(UnknownNameError, match="Did you mean 'weld'"):
        tree.placement("wled")
    assert np.array_equal(ds.delassus(tree, ds.Weld("weld"), q), ds.delassus(tree, ds.Weld("l2"), q))
    # of trees made of it: frames of joints go with their links
    held = ds.mechanisms.chain(2).attach("link2", ds.load(path), prefix="h_")
    assert (
        held.placement("h_weld") is held.placement("h_l2")
        and pickle.loads(pickle.dumps(held)).placement("h_a").link == 2
    )
    if root == "floating":
        other = tree.reroot("l3")
        assert other.placement("weld") is other.placement("l2") and other.placement("a") is other.placement("l1")
    else:
        path.write_text(tree.to_urdf())
        assert ds.load(path).joint_frames == tree.joint_frames
    twice = ds.load(path).attach("tool", ds.load(path), prefix="b_")
    assert twice.placement("b_weld").link != twice.placement("weld").link


CORPORA = next((p for q in Path(__file__).resolve().parents if (p := q / "shared" / "corpora").is_dir()), None)
"""Robots that others have made, of a folder beside the checkout."""


@pytest.mark.skipif(CORPORA is None, reason="outside data")
def test_closures_that_name_joints():
    """All that close loops in the robots' files: names of links in four, of joints in two."""
    folders = sorted(path.parent for path in CORPORA.glob("parallel_robots/*/robot.urdf"))
    of_joints = 0
    for folder in folders:
        tree, model = (
            ds.load(folder / "robot.urdf", unsupported="ignore"),
            pin.buildModelFromUrdf(str(folder / "robot.urdf")),
        )
        check_frames_of_joints(tree, model, np.random.default_rng(0))
        pairs = re.findall(r"\['(\w+)', '(\w+)'\]", (folder / "robot.yaml").read_text())
        of_joints += pairs[0][0] in tree.joint_frames
        q = tree.random(0)
        for first, second in pairs:
            peer = peer_delassus(model, q, [ds.Weld(first, second)])[0]
            assert error(ds.jacobian(tree, ds.Weld(first, second), q), peer) < DELASSUS
    assert (len(folders), of_joints) == (6, 2)


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.turns(4)
@pytest.mark.parametrize(
    ("name", "root"), [*zip(ROBOTS, cycle(("fixed", "floating", "floating", "fixed")), strict=False)]
)
def test_robot(name, root):
    """Of Pinocchio's model of the file, and of the file itself."""
    model = read(name, root)
    tree, own = convert(model), loaded(name, root)
    rng = np.random.default_rng(zlib.crc32(f"{name} {root}".encode()))
    for robot in (tree, own):
        check_layout(robot, model)
        check_states(robot, model, rng)
    assert (own.link_names, own.joint_names, own.parents) == (tree.link_names, tree.joint_names, tree.parents)
    assert set(own.frames) <= set(tree.frames)
    for joint in own.joints:  # all methods compute with inverses of rotations as with their transposes
        assert np.abs(joint.rotation @ joint.rotation.T - np.eye(3)).max() < 2e-15, joint.name
    if tree.nv:
        check_delassus(own, model, some_constraints(own, own.link_names, rng), rng)


@pytest.mark.parametrize("name", ROBOTS[::4])
def test_reduced_models(name):
    """Half of the joints of a floating robot, locked: order of coordinates, inverse dynamics, poses of links."""
    rng = np.random.default_rng(0)
    model = read(name, "floating")
    tree = convert(model)
    q, left = tree.random(rng), [i for i in range(tree.n_links) if rng.random() < 0.5]
    names = [joint for i, joint in enumerate(tree.joint_names) if i not in left]
    reduced = pin.buildReducedModel(model, [model.getJointId(joint) for joint in names], q)
    parts = {joint: q[tree.q_index(joint)] for joint in names}
    other = tree.lock({joint: x if len(x) > 1 else x[0] for joint, x in parts.items()})
    assert list(other.joint_names) == [*reduced.names][1:] and (other.nq, other.nv) == (reduced.nq, reduced.nv)
    own, (v, a) = reduced.createData(), rng.normal(size=(2, other.nv))
    q = np.concatenate([np.zeros(0), *(q[tree.q_slices[i]] for i in left)])
    found = ds.inverse_dynamics(other, q, v, a, passive="none", constraints=())
    assert error(found, pin.rnea(reduced, own, q, v, a)) < MASS_MATRIX
    pin.framesForwardKinematics(reduced, own, q)
    for frame, pose in zip(reduced.frames, own.oMf, strict=True):
        if frame.type == pin.FrameType.BODY and frame.name in other.frames:
            assert error(ds.forward_kinematics(other, q, frame.name), pose.homogeneous) < MASS_MATRIX


@pytest.mark.skipif(not FILES, reason="example-robot-data is not installed")
@pytest.mark.parametrize("root", ["fixed", "floating"])
def test_a_file_without_a_robot(root):
    with pytest.raises(ModelError, match="ur3"):
        loaded(NO_ROBOT, root)
    with pytest.raises(ValueError):
        read(NO_ROBOT, root)


@pytest.mark.parametrize("name", sorted(SINGULAR.keys() & FILES))
def test_robots_with_links_without_mass(name):
    """They load: kinematics, mass matrix and inverse dynamics are Pinocchio's, and forward dynamics is refused."""
    model, rng = read(name, "floating"), np.random.default_rng(0)
    for tree in (convert(model), loaded(name, "floating")):
        check_layout(tree, model)
        q, (v, a) = tree.random(rng), rng.normal(size=(2, tree.nv))
        assert error(ds.mass_matrix(tree, q), mass_matrix(model, q)) < MASS_MATRIX
        tau = pin.rnea(model, model.createData(), q, v, a)
        assert error(ds.inverse_dynamics(tree, q, v, a, passive="none"), tau) < MASS_MATRIX
        with pytest.raises(ModelError, match="massless='lock' or massless='armature'"):
            ds.forward_dynamics(tree, q, v, a)
    assert SINGULAR[name] in sum(tree.omitted.values(), ())


@pytest.mark.parametrize("name", ["quadrotor_base", "iris_simple"])
def test_robots_without_joints(name):
    file = next((file for file in ROBOTS if Path(file).stem == name), None)
    if file is None:
        pytest.skip("example-robot-data is not installed")
    tree, base = loaded(file, "fixed"), read(file, "fixed").frames[1].name
    q, constraints = np.zeros((3, 0)), [ds.Weld(base), ds.Point(base, axes="world")]
    assert tree.nv == 0 and ds.mass_matrix(tree, q).shape == (3, 0, 0)
    assert ds.jacobian(tree, constraints, q).shape == (3, 9, 0)
    for method in ds.OSIM_METHODS:
        assert np.array_equal(ds.delassus(tree, constraints, q, method=method), np.zeros((3, 9, 9)))


TURNING = [name for name in ROBOTS if 'type="continuous"' in FILES[name].read_text()]


@pytest.mark.turns(4)
@pytest.mark.parametrize(("name", "root"), zip(TURNING, cycle(("fixed", "floating")), strict=False))
def test_continuous_joints_as_angles(name, root):
    pairs, angles = loaded(name, root), loaded(name, root, "angle")
    assert pairs.nv == angles.nv and pairs.nq > angles.nq
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    q, parts = angles.random(rng), []
    for ours, theirs, part in zip(pairs.joints, angles.joints, angles.q_slices, strict=True):
        parts.append(q[part] if ours.nq == theirs.nq else np.concatenate([np.cos(q[part]), np.sin(q[part])]))
    constraints = some_constraints(pairs, pairs.link_names, rng)
    expected = ds.delassus(pairs, constraints, np.concatenate(parts))
    assert error(ds.delassus(angles, constraints, q), expected) < AGREEMENT


# -- every joint type ----------------------------------------------------------------------------------------------


RNG = np.random.default_rng(0)
"""Where the numbers do not matter."""


def check(model, rng):
    tree = tree_from_pinocchio(model)
    check_layout(tree, model)
    check_states(tree, model, rng)
    assert np.array_equal(np.concatenate([j.armature for j in tree.joints]), model.armature)
    assert np.array_equal(np.concatenate([j.damping for j in tree.joints]), model.damping)
    tools = [f"tool{i}" for i in range(1, model.njoints)]
    return check_delassus(tree, model, some_constraints(tree, tools, rng), rng)


@pytest.mark.turns(3)
@pytest.mark.parametrize("kind", ALL)
def test_joint_type(kind):
    rng = np.random.default_rng(zlib.crc32(kind.encode()))
    check(random_model(rng, [kind]), rng)

    # two free branches, so that no row is redundant and Pinocchio's own route applies
    model = random_model(rng, ["FreeFlyer", kind, "RX", kind, "FreeFlyer", "PY"], parents_of=[0, 1, 2, 0, 4, 5])
    tree = tree_from_pinocchio(model)
    check_layout(tree, model)
    check_states(tree, model, rng)
    a, b = (ds.Frame(tool, rng.uniform(-0.3, 0.3, 3), random_rotation(rng)) for tool in ("tool3", "tool6"))
    for constraints in (
        [ds.Weld(a), ds.Point(b, a)],
        [ds.Point(b, axes="world"), ds.Weld(a, b, axes="world")],
        [ds.Weld(a, axes="world"), ds.Weld(a, b)],
        [ds.Point(a), ds.Point(a, b, axes="world")],
    ):
        assert check_delassus(tree, model, constraints, rng)


@pytest.mark.turns(2)
@pytest.mark.parametrize("depth_first", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_random_trees(seed, depth_first):
    rng = np.random.default_rng(seed)
    kinds = ["FreeFlyer", *rng.choice(list(ALL), 12)]
    rng.shuffle(kinds)
    check(random_model(rng, [str(kind) for kind in kinds], depth_first), rng)


@pytest.mark.turns(2)
@pytest.mark.parametrize("seed", range(6))
def test_composites(seed):
    rng = np.random.default_rng(seed)
    few = [str(kind) for kind in rng.choice(list(ALL), 4)]
    check(random_model(rng, [[few[0]], [few[1], few[2]], few[3], ["RX", ["Planar", "RUBY"], "Spherical"]]), rng)
    check(random_model(rng, [["FreeFlyer", "RZ"], ["PX", "RevoluteUnboundedUnaligned", "Translation"], "RY"]), rng)


def test_what_pinocchio_gets_wrong():
    """If this fails, Pinocchio has learnt it, and the note at the top of this file can go."""
    rng = np.random.default_rng(0)
    model = pin.Model()
    for i, parent in enumerate((0, 0, 1), start=1):
        model.addJoint(parent, pin.JointModelRX(), random_placement(rng), f"joint{i}")
        model.appendBodyToJoint(i, random_inertia(rng), random_placement(rng))
    q = rng.uniform(-1, 1, 3)
    assert error(mass_matrix(model, q), mass_matrix_by_columns(model, q)) > 0.01
    assert error(ds.mass_matrix(tree_from_pinocchio(model), q), mass_matrix_by_columns(model, q)) < MASS_MATRIX


def test_names_and_order():
    model = pin.Model()
    model.name = "forks"
    a = model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "a")
    b = model.addJoint(0, pin.JointModelRY(), pin.SE3.Identity(), "b")
    c = model.addJoint(a, pin.JointModelComposite(pin.JointModelRZ()), pin.SE3.Identity(), "c")
    d = model.addJoint(b, composite(np.random.default_rng(0), ["RZ", "PX"]), pin.SE3.Identity(), "d")
    for i in (a, b, c, d):
        model.appendBodyToJoint(i, random_inertia(RNG), pin.SE3.Identity())
    model.addBodyFrame("second_tool", a, pin.SE3.Random(), 0)
    model.addBodyFrame("arm", a, pin.SE3.Identity(), 0)
    model.addBodyFrame("second", a, pin.SE3.Identity(), 0)
    model.addBodyFrame("b", d, pin.SE3.Random(), 0)  # a body of the name of another joint
    model.addJointFrame(a)
    model.addJointFrame(d)
    for kind, at in ((pin.FrameType.SENSOR, d), (pin.FrameType.OP_FRAME, a)):
        model.addFrame(pin.Frame("arm", a, 0, pin.SE3.Random(), kind))  # no longer a free name
        model.addFrame(pin.Frame("imu", at, 0, pin.SE3.Random(), kind))  # the first one counts
    tree = tree_from_pinocchio(model)
    assert tree.name == "forks"
    assert tree.joint_names == ("a", "b", "c", "d:1", "d:2")  # not depth first
    assert tree.parents == (-1, -1, 0, 1, 3)
    assert tree.link_names == ("arm", "b_", "c", "d:1", "d")
    assert set(tree.frames) == {*tree.link_names, "universe", "world", "second_tool", "second", "b", "a", "imu"}
    assert (tree.placement("b").link, tree.placement("imu").link) == (4, 4)
    model.names[2] = "a"
    with pytest.raises(ModelError, match="'a' twice"):
        tree_from_pinocchio(model)


def test_world_and_bodies_on_it():
    rng = np.random.default_rng(0)
    model = pin.Model()
    model.inertias[0] = random_inertia(rng)
    model.addBodyFrame("pedestal", 0, random_placement(rng), 0)
    model.addBodyFrame("base", 0, pin.SE3.Identity(), 0)
    model.addJoint(0, pin.JointModelRX(), random_placement(rng), "j")
    model.appendBodyToJoint(1, random_inertia(rng), pin.SE3.Identity())
    tree = tree_from_pinocchio(model)
    assert set(tree.frames) == {"universe", "world", "base", "pedestal", "j"}
    assert error(tree.world_inertia, model.inertias[0].matrix()) < STATE
    assert tree_from_pinocchio(pin.Model()).nv == 0


def test_limits():
    model = pin.Model()
    for kind, low, high in ((pin.JointModelRX(), -0.5, 0.7), (pin.JointModelPZ(), 0.1, 0.2)):
        zero, limit = np.zeros(1), np.array([1.0])
        i = model.addJoint(
            model.njoints - 1, kind, pin.SE3.Identity(), f"j{low}", limit, limit, np.array([low]), np.array([high])
        )
        model.appendBodyToJoint(i, random_inertia(RNG), pin.SE3.Identity())
        assert np.array_equal(zero, model.damping[-1:])
    model.addJoint(2, pin.JointModelRY(), pin.SE3.Identity(), "free")
    model.appendBodyToJoint(3, random_inertia(RNG), pin.SE3.Identity())
    tree = tree_from_pinocchio(model)
    assert [(j.lower[0], j.upper[0]) for j in tree.joints] == [(-0.5, 0.7), (0.1, 0.2), (-np.inf, np.inf)]
    q = tree.random(0, batch=100)
    assert np.all((q[:, 1] > 0.1) & (q[:, 1] < 0.2)) and np.all(np.abs(q[:, 2]) < np.pi)


def test_kinds():
    rng = np.random.default_rng(0)
    tree = tree_from_pinocchio(random_model(rng, list(ALL)))
    expected = [joint_kinds.REVOLUTE] * 3 + [joint_kinds.COS_SIN] * 3 + [joint_kinds.PRISMATIC] * 3
    expected += [joint_kinds.REVOLUTE, joint_kinds.COS_SIN, joint_kinds.PRISMATIC, joint_kinds.FREE, joint_kinds.BALL]
    expected += [joint_kinds.PLANAR, joint_kinds.TRANSLATION] + [joint_kinds.SCREW] * 4
    assert [j.kind for j in tree.joints] == expected + [joint_kinds.REVOLUTE] * 5  # Euler angles and a universal joint
    assert tree.joint_names[-5:] == ("joint21:1", "joint21:2", "joint21:3", "joint22:1", "joint22:2")


# -- what is refused -----------------------------------------------------------------------------------------------

OTHERS = {
    "Ellipsoid": lambda: pin.JointModelEllipsoid(1.0, 2.0, 3.0),
}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("inside", [False, True])
def test_other_joints_are_refused_by_name(kind, inside):
    if not hasattr(pin, f"JointModel{kind}"):
        pytest.skip("this Pinocchio has no such joint")
    joint = OTHERS[kind]()
    if inside:
        outer = pin.JointModelComposite(pin.JointModelRX())
        outer.addJoint(joint)
        joint = outer
    model = pin.Model()
    model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "first")
    model.addJoint(1, joint, pin.SE3.Identity(), "culprit")
    for i in (1, 2):
        model.appendBodyToJoint(i, random_inertia(RNG), pin.SE3.Identity())
    with pytest.raises(ModelError, match=rf"joint 'culprit': expected a joint among RX.*, got {kind}\. Replace it"):
        ds.load(model)


MIMIC = """<robot name='r'><link name='base'/>{links}
<joint name='lead' type='{kind}'><limit lower='-1' upper='1' effort='1' velocity='1'/><parent link='base'/>
<child link='a'/><axis xyz='.6 0 .8'/></joint>
<joint name='follow' type='{kind}'><limit lower='-1' upper='1' effort='1' velocity='1'/><parent link='a'/>
<child link='b'/><origin xyz='0 .1 1' rpy='1 2 3'/><axis xyz='0 .8 .6'/><mimic joint='lead' multiplier='{ratio}'
offset='.3'/></joint>
<joint name='slide' type='prismatic'><limit lower='-1' upper='1' effort='1' velocity='1'/><parent link='base'/>
<child link='c'/><axis xyz='0 1 0'/>{slides}</joint>
<joint name='last' type='revolute'><limit lower='-1' upper='1' effort='1' velocity='1'/><parent link='b'/>
<child link='d'/><axis xyz='1 0 0'/></joint></robot>"""


def mimicking(kind="revolute", ratio=-2.0):
    inertial = "<inertial><origin xyz='.1 .2 .3'/><mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' "
    links = "".join(f"<link name='{name}'>{inertial}iyz='0'/></inertial></link>" for name in "abcd")
    slides = "<mimic joint='lead' multiplier='.5' offset='-.2'/>" if kind == "revolute" else ""
    return pin.buildModelFromXML(MIMIC.format(links=links, kind=kind, ratio=ratio, slides=slides), True)


def test_mimic_joints():
    """They are joints of their own that follow another one: mass matrix and forces are those of the reduced model."""
    model, rng = mimicking(), np.random.default_rng(0)
    y, dy, ddy = rng.normal(size=(3, model.nv))
    model.referenceConfigurations["home"] = y
    tree = tree_from_pinocchio(model)
    assert tree.nv == 4 and model.nv == 2 and [c.size for c in tree.constraints] == [1, 1]
    N, (lead, last) = np.zeros((4, 2)), (tree.v_index(name).start for name in ("lead", "last"))
    N[lead, 0] = N[last, 1] = 1.0
    N[tree.v_index("follow"), 0], N[tree.v_index("slide"), 0] = -2.0, 0.5
    q = N @ y
    q[tree.q_index("follow")] += 0.3
    q[tree.q_index("slide")] -= 0.2
    assert error(tree.reference_configurations["home"], q) < 1e-12
    data = model.createData()
    pin.crba(model, data, y)
    M = np.triu(data.M) + np.triu(data.M, 1).T
    assert error(N.T @ ds.mass_matrix(tree, q) @ N, M) < 1e-12
    tau = ds.inverse_dynamics(tree, q, N @ dy, N @ ddy)
    assert error(N.T @ tau, pin.rnea(model, data, y, dy, ddy)) < 1e-12
    assert error(ds.forward_dynamics(tree, q, N @ dy, tau).qdd, N @ ddy) < 1e-9


@pytest.mark.parametrize(("given", "does"), [({"ratio": 0.0}, "moves"), ({"kind": "continuous"}, "follows")])
def test_mimic_joints_that_are_refused(given, does):
    with pytest.raises(ModelError, match=rf"joint '(follow|slide)': expected a mimic joint that {does}"):
        tree_from_pinocchio(mimicking(**given))


def test_what_is_no_model_is_refused():
    with pytest.raises(ModelError, match=r"expected a pinocchio\.Model, got an object of type builtins\.str"):
        tree_from_pinocchio("talos")
    with pytest.raises(ModelError, match=r"expected a pinocchio\.Model"):
        ds.load(pin.RobotWrapper(pin.Model()))


def test_axes_and_numbers_that_are_refused():
    def one(joint):
        model = pin.Model()
        model.addJoint(0, joint, pin.SE3.Identity(), "j")
        model.appendBodyToJoint(1, random_inertia(RNG), pin.SE3.Identity())
        return model

    for kind in (pin.JointModelRevoluteUnaligned, pin.JointModelPrismaticUnaligned):
        for axis in ((0.0, 0.0, 2.0), (0.0, 0.0, 0.0), (np.nan, 0.0, 1.0)):
            with pytest.raises(ModelError, match="axis of joint 'j': expected a vector of unit length"):
                tree_from_pinocchio(one(kind(np.array(axis))))
    with pytest.raises(ModelError, match="joint 'j': expected a composite of one joint or more"):
        tree_from_pinocchio(one(pin.JointModelComposite()))
    model = one(pin.JointModelRX())
    model.jointPlacements[1] = pin.SE3(np.eye(3), np.array([np.nan, 0, 0]))
    with pytest.raises(ModelError, match="j"):
        tree_from_pinocchio(model)
    model = one(pin.JointModelRX())
    model.armature = np.array([np.nan])
    with pytest.raises(ModelError, match=r"armature, .* of joint 'j'"):
        tree_from_pinocchio(model)
    model = one(pin.JointModelRX())
    model.inertias[1] = pin.Inertia.Zero()
    with pytest.raises(ModelError, match=r"joint 'j'.*singular"):
        ds.load(model, massless="error")
    assert ds.load(model).nv == 1 and ds.load(model, massless="lock").nv == 0
    assert ds.load(model, massless="armature").per_dof("armature") == 1e-4  # of 1 kg and 1 m
    for given in ("locked", None, True):
        with pytest.raises(ModelError, match="massless: expected 'keep', 'lock', 'armature' or 'error', got"):
            ds.load(model, massless=given)


def test_unphysical_inertia():
    model = pin.Model()
    model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "j")
    model.appendBodyToJoint(1, pin.Inertia(1.0, np.zeros(3), np.diag([1.0, 0.1, 0.1])), pin.SE3.Identity())
    with pytest.warns(ds.DelassusWarning, match=r"j \(breaks the triangle inequality\)"):
        tree_from_pinocchio(model)
    with pytest.raises(ModelError, match="inertia of link 'j'"):
        tree_from_pinocchio(model, check_inertia="refuse")


def test_without_pinocchio(monkeypatch):
    model = pin.Model()
    monkeypatch.setitem(sys.modules, "pinocchio", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'delassus\[pinocchio\]'"):
        tree_from_pinocchio(model)


# -- configurations of SRDF files ----------------------------------------------------------------------------------

SRDF = {
    "talos_data/robots/talos_reduced.urdf": "talos_data/srdf/talos.srdf",
    "go1_description/urdf/go1.urdf": "go1_description/srdf/go1.srdf",
    "panda_description/urdf/panda.urdf": "panda_description/srdf/panda.srdf",
    "kinova_description/robots/kinova.urdf": "kinova_description/srdf/kinova.srdf",  # continuous joints
    "xarm_description/urdf/xarm7.urdf": "xarm_description/srdf/xarm7.srdf",
}


@pytest.mark.parametrize("name", SRDF)
@pytest.mark.parametrize("root", ["fixed", "floating"])
@pytest.mark.filterwarnings("ignore::delassus.DelassusWarning")
def test_reference_configurations_of_srdf_files(name, root):
    """Those that Pinocchio reads, joint by joint."""
    folder = Path(sysconfig.get_path("purelib")) / "cmeel.prefix" / "share" / "example-robot-data" / "robots"
    if not folder.is_dir():
        pytest.skip("example-robot-data is not installed")
    model = pin.buildModelFromUrdf(str(folder / name), *([pin.JointModelFreeFlyer()] if root == "floating" else []))
    pin.loadReferenceConfigurations(model, str(folder / SRDF[name]), False)
    tree = ds.load(folder / name, root=root, continuous="cos-sin", srdf=folder / SRDF[name])
    expected = {entry.key(): entry.data() for entry in model.referenceConfigurations}
    assert set(tree.reference_configurations) == set(expected) and expected
    for key, q in expected.items():
        assert np.abs(tree.difference(tree.reference_configurations[key], q / 1.0)).max() < 1e-6, key
