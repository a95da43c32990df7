"""Every URDF file of example-robot-data, with a fixed and with a floating root, against Pinocchio.

Two oracles: Pinocchio's own constraint Jacobian and Cholesky route (for the constraints that it has, where the rows are
independent), and ``J M⁻¹ Jᵀ`` by a dense solve with its joint Jacobians and its mass matrix (always).
"""

from __future__ import annotations

import warnings
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import delassus as ds
from delassus.errors import ConstraintError, ModelError
from pinocchio_models import FILES, pin
from pinocchio_models import read as load_peer
from tools import (
    AGREEMENT,
    PEER_DELASSUS,
    PEER_MASS_MATRIX,
    error,
    in_turns,
    leaf_frames,
    random_frame,
    random_rotation,
)

pytestmark = pytest.mark.peer

if not FILES:
    pytest.skip("example-robot-data is not installed", allow_module_level=True)

NO_ROBOT = "ur_description/urdf/ur3.urdf"  # an empty <robot> element
SINGULAR = {  # joints that move nothing with inertia: fingers and grippers without mass
    "romeo_description/urdf/romeo.urdf": "RThumb3",
    "romeo_description/urdf/romeo_laas_small.urdf": "r_gripper_joint",
}
ROBOTS = [name for name in FILES if name not in SINGULAR and name != NO_ROBOT]
ROOTS = ("fixed", "floating")
BATCH = 2
REGULAR = 1e-9
"""Rows count as independent if the smallest eigenvalue of G, scaled to unit diagonal, is above this."""

every_robot = pytest.mark.parametrize("name, root", [(name, root) for name in ROBOTS for root in ROOTS])


@cache
def load_tree(name, root, continuous="cos-sin"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ds.DelassusWarning)  # real files: unphysical inertias, mimic joints
        return ds.load(FILES[name], root=root, continuous=continuous)


def generator(name, root, what):
    return np.random.default_rng(zlib.crc32(f"{name} {root} {what}".encode()))


# -- the oracles ---------------------------------------------------------------------------------------------------


class Peer:
    """Pinocchio's model at one configuration."""

    def __init__(self, model, q):
        self.model, self.data, self.q = model, model.createData(), q
        pin.crba(model, self.data, q)
        pin.computeJointJacobians(model, self.data, q)
        upper = np.triu(self.data.M)
        self.M = upper + np.triu(upper, 1).T

    def anchor(self, frame):
        """Joint that carries a frame of ours, and the frame's placement on it."""
        at = self.model.frames[self.model.getFrameId(frame.link, pin.FrameType.BODY)]
        return at.parentJoint, at.placement * pin.SE3(frame.rotation, frame.position)

    def frame(self, frame):
        """Jacobian (6 × nv, in its own axes) and pose of a frame of ours; the world's where there is none."""
        if frame is None:
            return np.zeros((6, self.model.nv)), pin.SE3.Identity()
        joint, placement = self.anchor(frame)
        if joint == 0:
            return np.zeros((6, self.model.nv)), placement
        J = pin.getJointJacobian(self.model, self.data, joint, pin.ReferenceFrame.LOCAL)
        return placement.toActionMatrixInverse() @ J, self.data.oMi[joint] * placement

    def jacobian(self, c):
        """Rows of a constraint, from the Jacobians of its two frames."""
        (J_a, pose_a), (J_b, pose_b) = self.frame(c.first), self.frame(c.second)
        relative = pose_a.inverse() * pose_b
        if c.rigid:
            J = J_a - relative.toActionMatrix() @ J_b
        else:
            J = J_a.copy()
            J[:3] -= relative.rotation @ J_b[:3]
        if c.axes == "world":
            J[:3] = pose_a.rotation @ J[:3]
        if c.angular_axes == "world":
            J[3:] = pose_a.rotation @ J[3:]
        return c.rows @ J

    def own_route(self, constraints):
        """Constraint Jacobian and Delassus matrix by Pinocchio's contact models (welds and points only)."""
        models, datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
        for c in constraints:
            kind = pin.ContactType.CONTACT_6D if c.size == 6 else pin.ContactType.CONTACT_3D
            axes = pin.LOCAL if c.axes == "local" else pin.LOCAL_WORLD_ALIGNED
            ends = self.anchor(c.first) + (() if c.second is None else self.anchor(c.second))
            models.append(pin.RigidConstraintModel(kind, self.model, *ends, axes))
            datas.append(models[-1].createData())
        for model, data in zip(models, datas, strict=True):
            model.calc(self.model, self.data, data)  # without it the answers are wrong, silently
        J = pin.getConstraintsJacobian(self.model, self.data, models, datas)
        cholesky = pin.ConstraintCholeskyDecomposition(self.model, self.data, models, datas)
        cholesky.compute(self.model, self.data, models, datas, 0.0)
        return J, cholesky.getInverseOperationalSpaceInertiaMatrix(True)


def is_regular(G):
    diagonal = np.diagonal(G)
    if G.size == 0 or np.any(diagonal <= 0):
        return False
    return np.linalg.eigvalsh(G / np.sqrt(np.outer(diagonal, diagonal)))[0] > REGULAR


# -- constraint sets -----------------------------------------------------------------------------------------------


def root_link(name):
    return load_peer(name, "fixed").frames[1].name


def two_ends(tree, name, rng):
    """Frames on two leaves, or on the only leaf and the root link."""
    links = leaf_frames(tree)
    first, second = (links[0], links[1]) if len(links) > 1 else (links[0], root_link(name))
    return random_frame(rng, first), random_frame(rng, second)


def welds(tree, name, rng):
    return [ds.Weld(link) for link in leaf_frames(tree)]


def turned_welds(tree, name, rng):
    return [ds.Weld(random_frame(rng, link)) for link in leaf_frames(tree)]


def points(tree, name, rng):
    return [ds.Point(random_frame(rng, link)) for link in leaf_frames(tree)]


def redundant_points(tree, name, rng):
    return [ds.Point(random_frame(rng, link)) for link in leaf_frames(tree, 2) for _ in range(4)]


def world_axes(tree, name, rng):
    kinds = (ds.Weld, ds.Point)
    return [kinds[k % 2](random_frame(rng, link), axes="world") for k, link in enumerate(leaf_frames(tree))]


def welded_loop(tree, name, rng):
    return [ds.Weld(*two_ends(tree, name, rng))]


def point_loop(tree, name, rng):
    return [ds.Point(*two_ends(tree, name, rng))]


def hinge_loop(tree, name, rng):
    return [ds.Hinge(*two_ends(tree, name, rng), axis=rng.normal(size=3))]


def world_axes_loops(tree, name, rng):
    a, b = two_ends(tree, name, rng)
    return [ds.Point(a, b, axes="world"), ds.Weld(b, a, axes="world")]


def world_axes_hinge(tree, name, rng):
    a, b = two_ends(tree, name, rng)
    return [ds.Hinge(b, a, axis=rng.normal(size=3), axes="world"), ds.Rows(a, rng.normal(size=(2, 6)), axes="world")]


def base_and_leaves(tree, name, rng):
    base = root_link(name)
    return [ds.Weld(base), *(ds.Point(random_frame(rng, link)) for link in leaf_frames(tree, 2)),
            ds.Rows(ds.Frame(base, rng.normal(size=3)), rng.normal(size=(2, 6)))]  # fmt: skip


SETS = (
    welds, turned_welds, points, redundant_points, world_axes, welded_loop, point_loop, hinge_loop, world_axes_loops,
    world_axes_hinge, base_and_leaves,
)  # fmt: skip


# -- tests ---------------------------------------------------------------------------------------------------------


def test_a_file_without_a_robot():
    for root in ROOTS:
        with pytest.raises(ModelError, match="ur3"):
            load_tree(NO_ROBOT, root)
    with pytest.raises(ValueError):
        load_peer(NO_ROBOT, "fixed")


@pytest.mark.parametrize("name", SINGULAR)
def test_robots_with_links_without_mass(name):
    """They load: kinematics, mass matrix and inverse dynamics are Pinocchio's, and forward dynamics is refused."""
    tree, model = load_tree(name, "floating"), load_peer(name, "floating")
    assert list(tree.joint_names) == list(model.names)[1:] and SINGULAR[name] in sum(tree.omitted.values(), ())
    q, (v, a) = tree.random(0), np.random.default_rng(0).normal(size=(2, tree.nv))
    assert error(ds.mass_matrix(tree, q), Peer(model, q).M) < PEER_MASS_MATRIX
    tau = pin.rnea(model, model.createData(), q, v, a)
    assert error(ds.inverse_dynamics(tree, q, v, a, passive="none"), tau) < PEER_MASS_MATRIX
    with pytest.raises(ModelError, match="massless='lock' or massless='armature'"):
        ds.forward_dynamics(tree, q, v, a)


@every_robot
def test_layout(name, root):
    tree, peer = load_tree(name, root), load_peer(name, root)
    assert (tree.nq, tree.nv, tree.n_links) == (peer.nq, peer.nv, peer.njoints - 1)
    assert list(tree.joint_names) == list(peer.names)[1:]
    assert [tree.q_slices[i].start for i in range(tree.n_links)] == list(peer.idx_qs)[1:]
    assert [tree.v_slices[i].start for i in range(tree.n_links)] == list(peer.idx_vs)[1:]
    assert [p + 1 for p in tree.parents] == list(peer.parents)[1:]
    assert np.array_equal(tree.neutral(), pin.neutral(peer))
    bodies = {frame.name: frame for frame in peer.frames if frame.type == pin.FrameType.BODY}
    assert set(bodies) <= set(tree.frames)
    assert all(tree.placement(link).link == body.parentJoint - 1 for link, body in bodies.items())


@pytest.mark.turns(2)
@every_robot
def test_mass_matrix(name, root):
    tree, peer = load_tree(name, root), load_peer(name, root)
    q = tree.random(generator(name, root, "M"), batch=BATCH)
    M = ds.mass_matrix(tree, q)
    assert M.shape == (BATCH, tree.nv, tree.nv)
    for state in range(BATCH):
        assert error(M[state], Peer(peer, q[state]).M) < PEER_MASS_MATRIX


ON_FIXED_ROOTS = (turned_welds, world_axes, hinge_loop, base_and_leaves)
"""What the free joint does not change is tested on floating robots: points, other loops."""


def methods_of(name, root, make):
    """Some of the methods, and for some robots that which is planned."""
    at = list(FILES).index(name) + SETS.index(make) + ROOTS.index(root)
    planned = make is turned_welds and root == "floating" and at % 3 == 0
    return [*in_turns(at), *(["auto"] if planned else [])]


@pytest.mark.turns(4)
@pytest.mark.parametrize("name, root, make", [
    (name, root, make) for name in ROBOTS for root in ROOTS for make in SETS
    if (root == "floating" or make in ON_FIXED_ROOTS) and (ROBOTS.index(name) + SETS.index(make)) % 4 == 0
], ids=lambda x: getattr(x, "__name__", None))  # fmt: skip
def test_jacobian_and_delassus_matrix(name, root, make):
    """Each set of constraints on every third robot."""
    tree = load_tree(name, root)
    rng = generator(name, root, make.__name__)
    if not tree.nv:  # nothing moves: see test_robots_without_joints
        return
    constraints = make(tree, name, rng)
    if tree.n_links == 1 and any(c.second is not None for c in constraints):
        with pytest.raises(ConstraintError, match="one rigid body"):
            ds.jacobian(tree, constraints, tree.neutral())
        return
    q = tree.random(rng, batch=BATCH)
    J = ds.jacobian(tree, constraints, q)
    G = {method: ds.delassus(tree, constraints, q, method=method) for method in methods_of(name, root, make)}
    for state in range(BATCH):
        peer = Peer(load_peer(name, root), q[state])
        expected_J = np.vstack([peer.jacobian(c) for c in constraints])
        expected = expected_J @ np.linalg.solve(peer.M, expected_J.T)
        assert error(J[state], expected_J) < PEER_DELASSUS
        for method, value in G.items():
            assert error(value[state], expected) < PEER_DELASSUS, method
        if all(isinstance(c, (ds.Weld, ds.Point)) for c in constraints):
            own_J, own_G = peer.own_route(constraints)
            assert error(J[state], own_J) < PEER_DELASSUS
            if is_regular(expected):  # on redundant rows it returns NaN
                assert error(own_G, expected) < PEER_DELASSUS


def test_robots_without_joints():
    still = [name for name in ROBOTS if load_tree(name, "fixed").nv == 0]
    assert {Path(name).stem for name in still} == {"quadrotor_base", "iris_simple"}
    for name in still:
        tree = load_tree(name, "fixed")
        q = np.zeros((3, 0))
        constraints = [ds.Weld(root_link(name)), ds.Point(root_link(name), axes="world")]
        assert ds.mass_matrix(tree, q).shape == (3, 0, 0)
        assert ds.jacobian(tree, constraints, q).shape == (3, 9, 0)
        for method in ds.OSIM_METHODS:
            assert np.array_equal(ds.delassus(tree, constraints, q, method=method), np.zeros((3, 9, 9)))


def test_rotations_of_files():
    """Rotations to round-off; all methods compute with their inverses as with their transposes."""
    for name in ROBOTS:
        for joint in load_tree(name, "fixed").joints:
            assert np.abs(joint.rotation @ joint.rotation.T - np.eye(3)).max() < 2e-15, (name, joint.name)


@pytest.mark.parametrize("root", ROOTS)
def test_continuous_joints_as_angles(root):
    turning = [name for name in ROBOTS if load_tree(name, root).nq != load_tree(name, root, "angle").nq]
    assert len(turning) >= 6
    for name in turning:
        pairs, angles = load_tree(name, root), load_tree(name, root, "angle")
        assert pairs.nv == angles.nv
        rng = generator(name, root, "angle")
        q = angles.random(rng)
        parts = []
        for ours, theirs, part in zip(pairs.joints, angles.joints, angles.q_slices, strict=True):
            x = q[part]
            parts.append(x if ours.nq == theirs.nq else np.concatenate([np.cos(x), np.sin(x)]))
        constraints = turned_welds(pairs, name, rng)
        expected = ds.delassus(pairs, constraints, np.concatenate(parts))
        assert error(ds.delassus(angles, constraints, q), expected) < AGREEMENT


def test_random_rotations_are_rotations():
    rng = np.random.default_rng(0)
    for _ in range(100):
        R = random_rotation(rng)
        assert error(R @ R.T, np.eye(3)) < AGREEMENT
        assert np.linalg.det(R) > 0
