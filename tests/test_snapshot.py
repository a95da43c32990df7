"""A scene at one state against dense matrices: compliance, velocities and responses of loops and contacts."""

from __future__ import annotations

import numpy as np
import pytest

import delassus as ds
from delassus.contact import ContactDynamics, ContactSet, Scene, frames_of
from internals import joint_kinds, quaternion_to_matrix, skew
from random_trees import some_mechanism

ROUND_OFF = 1e-10
"""Relative: recursions against a factorised mass matrix whose condition is up to 1e5."""


def random_contacts(rng, snapshot, n):
    """Contacts at random places, between two links or a link and the world."""
    n_links = len(snapshot.poses)
    links = rng.integers(-1, n_links, size=(n, 2))
    links[links[:, 0] == links[:, 1], 0] = 0
    links[links[:, 0] == links[:, 1], 1] = -1
    normals = rng.normal(size=(n, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    frames = frames_of(normals)
    turns = rng.uniform(0, 2 * np.pi, n)
    for frame, angle in zip(frames, turns, strict=True):
        c, s = np.cos(angle), np.sin(angle)
        frame[:, :2] = frame[:, :2] @ [[c, -s], [s, c]]
    return ContactSet(links, rng.normal(size=(n, 3)), frames, friction=rng.uniform(0, 1, n))


def contact_jacobian(scene, snapshot, contacts, q):
    """Dense rows of contacts, from the Jacobians of whole links."""
    tree = scene.tree
    rows = [np.zeros((0, tree.nv))]
    for pair, point, frame in zip(contacts.links, contacts.points, contacts.frames, strict=True):
        J = np.zeros((3, tree.nv))
        for link, sign in zip(pair, (1, -1), strict=True):
            if link >= 0:
                at = tree.placement(tree.link_names[link])
                body = ds.Frame(tree.link_names[link], -at.rotation.T @ at.position, at.rotation.T)
                R, origin = snapshot.poses[link][:, :3], snapshot.poses[link][:, 3]
                K = frame.T @ R @ np.hstack([np.eye(3), -skew(R.T @ (point - origin))])
                J += sign * ds.jacobian(tree, ds.Rows(body, K), q)
        rows.append(J)
    return np.vstack(rows)


def scenes():
    """Scenes with and without loops, of one robot and of several."""
    humanoid, chain = ds.mechanisms.humanoid(), ds.mechanisms.chain(5)
    closed = ds.Weld("left_hand", "right_hand")
    two = {"a": ds.mechanisms.star(2, 3), "b": chain, "c": ds.mechanisms.free_body(2.0, [0.1, 0.2, 0.25])}
    bound = [ds.Point("a/branch1_3", "b/link3"), ds.Hinge("b/link5", ds.Frame("world", (1, 0, 0)))]
    out = {
        "humanoid": Scene(humanoid, loops=closed),
        "pendulum": Scene(ds.mechanisms.pendulum(12)),
        "three robots": Scene(two, loops=bound, gravity=(1.0, 2.0, -3.0)),
    }
    for seed in range(4):
        out[f"random {seed}"] = Scene(some_mechanism(seed, 4 + 3 * seed, ("fixed", "floating")[seed % 2]).tree)
    return out


SCENES = scenes()


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SCENES))
def test_matrices_of_a_snapshot_equal_dense_ones(name):
    scene = SCENES[name]
    tree, rng = scene.tree, np.random.default_rng(5)
    dynamics = ContactDynamics(scene, passive="none")
    for n in (0, 1, 6):
        q, v, tau = tree.random(rng), rng.normal(size=tree.nv), rng.normal(size=tree.nv)
        snapshot = dynamics.at(q, v, tau)
        contacts = random_contacts(rng, snapshot, n)
        rows = snapshot.rows(contacts)
        loops = ds.jacobian(tree, scene.loops, q) if scene.loops else np.zeros((0, tree.nv))
        J = np.vstack([loops, contact_jacobian(scene, snapshot, contacts, q)])
        M = ds.mass_matrix(tree, q)
        assert rows.n_rows == len(J)
        close(rows.jacobian, J)
        close(rows.delassus, J @ np.linalg.solve(M, J.T))
        p = rng.normal(size=len(J))
        close(rows.response(p), np.linalg.solve(M, J.T @ p))
        qdd = np.array(ds.forward_dynamics(tree, q, v, tau, [], gravity=scene.gravity).qdd)
        for joint, at in zip(tree.joints, tree.v_slices, strict=True):  # in axes that do not turn with the joint
            spread = np.zeros(6)
            spread[list(joint.motion_axes)] = v[at]
            linear, angular = spread[:3], spread[3:]
            if joint.kind in (joint_kinds.FREE, joint_kinds.PLANAR):
                qdd[at] += np.concatenate([np.cross(angular, linear), np.zeros(3)])[list(joint.motion_axes)]
        close(snapshot.qdd, qdd)


def close(result, wanted):
    np.testing.assert_allclose(result, wanted, rtol=0, atol=ROUND_OFF * max(np.abs(wanted).max(initial=0.0), 1.0))


@pytest.mark.slow
def test_loop_errors_are_position_errors():
    tree = ds.mechanisms.star(2, 3)
    place = np.array([0.3, -0.2, 0.9])
    scene = Scene(tree, loops=[ds.Point("branch1_3", ds.Frame("world", place)), ds.Point("branch2_3")])
    q = tree.random(3)
    snapshot = ContactDynamics(scene).at(q, np.zeros(tree.nv), np.zeros(tree.nv))
    pose = ds.forward_kinematics(tree, q, "branch1_3")
    apart = pose[:3, :3].T @ (pose[:3, 3] - place)
    np.testing.assert_allclose(snapshot.loop_errors, [*apart, 0, 0, 0], atol=1e-12)


def test_states_of_several_robots_stay_their_own():
    scene = SCENES["three robots"]
    star = scene.robots["a"]
    q = scene.configuration(a=star.random(1), b=np.arange(5.0))
    np.testing.assert_array_equal(q[scene.q_slice("b")], np.arange(5.0))
    pose = ds.forward_kinematics(scene.tree, q, "a/branch1_3")
    np.testing.assert_allclose(pose, ds.forward_kinematics(star, q[scene.q_slice("a")], "branch1_3"), atol=1e-14)
    v = scene.velocity(c=[1, 2, 3, 4, 5, 6])
    assert v[scene.v_slice("c")].tolist() == [1, 2, 3, 4, 5, 6]
    assert not v[scene.v_slice("a")].any()


def test_scenes_refuse_what_makes_no_sense():
    tree = ds.mechanisms.pendulum(2)
    with pytest.raises(ds.DelassusError, match="robots"):
        Scene({})
    with pytest.raises(ds.DelassusError, match="not to collide"):
        Scene(tree, ignore=[("rod1", "rod9")])
    with pytest.raises(ds.DelassusError, match="gravity"):
        Scene(tree, gravity=(0, 0, np.nan))
    with pytest.raises(ds.DelassusError, match="half space"):
        ds.contact.Collider("rod1", ds.contact.HalfSpace())
    with pytest.raises(ds.DelassusError, match="robot"):
        SCENES["three robots"].q_slice("d")
    with pytest.raises(ds.DelassusError, match="rotations"):
        ContactSet([[0, -1]], [[0, 0, 0]], [np.diag([1, 1, -1.0])])
    with pytest.raises(ds.DelassusError, match="two links"):
        ContactSet([[1, 1]], [[0, 0, 0]], [np.eye(3)])


@pytest.mark.parametrize("seed", range(4))
def test_carrying_keeps_velocities_in_the_world(seed):
    tree, h = some_mechanism(seed, 6, "floating").tree, 0.3
    rng = np.random.default_rng(seed)
    q, v, shift = tree.random(rng), rng.normal(size=tree.nv), rng.normal(size=tree.nv)
    q_next, v_next = ds.compile(tree, (), "position_update")(q, v, h, shift)
    step = h * v + shift
    wanted_q, wanted_v = tree.integrate(q, step), v.copy()
    for joint, sq, sv in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True):
        if joint.kind is joint_kinds.FREE:
            before, after = (quaternion_to_matrix(x[sq][3:]) for x in (q, wanted_q))
            wanted_q[sq][:3] = q[sq][:3] + before @ step[sv][:3]
            wanted_v[sv] = np.concatenate([after.T @ before @ x for x in (v[sv][:3], v[sv][3:])])
        elif joint.kind is joint_kinds.BALL:
            before, after = (quaternion_to_matrix(x[sq]) for x in (q, wanted_q))
            wanted_v[sv] = after.T @ before @ v[sv]
        elif joint.kind is joint_kinds.PLANAR:
            before, after = (np.array([[x[sq][2], -x[sq][3]], [x[sq][3], x[sq][2]]]) for x in (q, wanted_q))
            wanted_q[sq][:2] = q[sq][:2] + before @ step[sv][:2]
            wanted_v[sv][:2] = after.T @ before @ v[sv][:2]
    close(q_next, wanted_q)
    close(v_next, wanted_v)
