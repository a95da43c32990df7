"""Trees without some of their joints, beside the whole tree that stands still there."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
from random_trees import KINDS, some_mechanism, some_robot
from tools import error, random_frame

pytestmark = pytest.mark.usefixtures("one_lane")

LEFT_OUT = "constraints, actuators and sensors of locked joints"

ROUNDED = 1e-11
"""Sums of inertias in another order, relative; 1e-14 seen."""


def coordinates(tree, names, q):
    """Coordinates of joints by name, as `Tree.lock` takes them."""
    parts = {name: q[tree.q_index(name)] for name in names}
    return {name: x if len(x) > 1 else float(x[0]) for name, x in parts.items()}


def kept(tree, names):
    """Places in ``q`` and in ``v`` of joints that are not locked."""
    left = [i for i, name in enumerate(tree.joint_names) if name not in names]
    return (np.concatenate([np.r_[x[i]] for i in left] or [np.zeros(0, int)]) for x in (tree.q_slices, tree.v_slices))


@pytest.mark.parametrize("seed", range(12))
def test_a_locked_tree_is_the_whole_one_that_stands_still_there(seed):
    """All kinds of joints, roots and leaves among them: poses of all frames, masses, bias, motion, constraints."""
    m = some_mechanism(seed, 8, ("fixed", "floating")[seed % 2], KINDS)
    tree, rng = m.tree, m.rng
    names = [str(x) for x in rng.choice(tree.joint_names, int(rng.integers(1, tree.n_links)), replace=False)]
    q, v = tree.random(rng), rng.normal(size=tree.nv)
    other, (of_q, of_v) = tree.lock(coordinates(tree, names, q)), kept(tree, names)
    v[np.setdiff1d(np.arange(tree.nv), of_v)] = 0.0
    assert set(other.joint_names) == set(tree.joint_names) - set(names) and other.nq == len(of_q)
    assert {*tree.frames} == {*other.frames} and not other.omitted
    for name in other.joint_names:
        assert np.array_equal(
            np.arange(other.nq)[other.q_index(name)], [[*of_q].index(k) for k in np.r_[tree.q_index(name)]]
        )
    for name in tree.frames:
        assert error(ds.forward_kinematics(other, q[of_q], name), ds.forward_kinematics(tree, q, name)) < ROUNDED
    M, own = ds.mass_matrix(tree, q), ds.mass_matrix(other, q[of_q])
    assert error(own, M[np.ix_(of_v, of_v)]) < ROUNDED
    assert error(ds.bias_force(other, q[of_q], v[of_v]), ds.bias_force(tree, q, v)[of_v]) < ROUNDED
    names_of_two = [n for n in tree.frames if n != "world" and other.placement(n).link >= 0]
    if names_of_two:
        held = ds.Weld(random_frame(rng, str(rng.choice(names_of_two))))
        assert error(ds.jacobian(other, held, q[of_q]), ds.jacobian(tree, held, q)[:, of_v]) < ROUNDED
        found = ds.jacobian_drift(other, held, q[of_q], v[of_v])
        assert error(found, ds.jacobian_drift(tree, held, q, v)) < ROUNDED
    assert pickle.loads(pickle.dumps(other)) == other
    again = tree
    for name in names:
        again = again.lock(coordinates(tree, [name], q))
    assert error(ds.mass_matrix(again, q[of_q]), own) < ROUNDED


@pytest.mark.parametrize("seed", range(20))
def test_what_a_robot_has_goes_on_without_locked_joints(seed):
    """Forces of actuators, springs and compensation, rows of constraints, errors and keyframes; the rest is named."""
    m = some_robot(np.random.default_rng(seed), 6)
    rng = m.rng
    tree = replace(m.tree, constraints=(), sensors=())
    q, v = tree.random(rng), rng.normal(size=tree.nv)
    singles = [j.name for j in tree.joints if j.nv == 1]
    if len(singles) > 2:
        rows = [dict(zip(singles[:3], rng.normal(size=3), strict=True)), {singles[0]: 1.0, singles[2]: -2.0}]
        x = tree.difference(tree.neutral(), q)
        at = [sum(c * x[tree.v_index(n)][0] for n, c in row.items()) + 0.1 for row in rows]
        tree = replace(tree, constraints=(ds.JointRows(rows, rest=at),))
    names = [str(x) for x in rng.choice(tree.joint_names, (tree.n_links + 1) // 2, replace=False)]
    try:
        other = tree.lock(coordinates(tree, names, q))
    except ds.DelassusError as e:
        assert "values at which it holds" in str(e) and {*singles[:3:2]} <= {*names}
        return
    of_q, of_v = kept(tree, names)
    v[np.setdiff1d(np.arange(tree.nv), of_v)] = 0.0
    if not other.nv:
        return
    acting = [k for k, a in enumerate(tree.actuators) if not {*a.transmission} <= {*names}]
    assert [a.name for a in other.actuators] == [tree.actuators[k].name for k in acting]
    gone = {a.name for k, a in enumerate(tree.actuators) if k not in acting}
    assert gone <= {*other.omitted.get(LEFT_OUT, ())}
    u, a = rng.normal(size=tree.nu), np.zeros(tree.nv)
    forces = []
    for robot, *state in ((tree, q, v, u), (other, q[of_q], v[of_v], u[acting])):
        if acting:
            qdd = ds.compile(robot, (), "dynamics", control="actuators", outputs="qdd")(*state)
            forces.append(ds.inverse_dynamics(robot, *state[:2], qdd, constraints=()))
    assert not acting or error(forces[1], forces[0][of_v]) < 1e-8  # through the inverse of the mass matrix and back
    own = ds.inverse_dynamics(other, q[of_q], v[of_v], a[of_v], constraints=())
    assert error(own, ds.inverse_dynamics(tree, q, v, a, constraints=())[of_v]) < ROUNDED
    for c, kept_one in zip(tree.constraints, other.constraints, strict=False):
        J, whole = ds.jacobian(other, kept_one, q[of_q]), ds.jacobian(tree, c, q)[:, of_v]
        left = whole[np.abs(whole).max(axis=1) > 0]
        assert np.array_equal(J, left)
        errors = [ds.compile(t, x, "constraint_errors", outputs="errors")(y, z)
                  for t, x, y, z in ((tree, c, q, v), (other, kept_one, q[of_q], v[of_v]))]  # fmt: skip
        assert error(errors[1], errors[0][np.abs(whole).max(axis=1) > 0]) < ROUNDED


ARM = """<mujoco><compiler angle="radian"/><worldbody><body name="a"><joint name="a" axis="0 1 0"/><geom size=".1"
mass="1"/>
<body name="b" pos="0 0 1"><joint name="b" axis="0 1 0"/><geom size=".1" mass="1"/><site name="tip" pos=".1 0 0"/>
<body name="c" pos="0 0 1"><joint name="c" axis="1 0 0"/><geom size=".1" mass="1"/></body></body></body></worldbody>
<tendon><fixed name="both"><joint joint="a" coef="1"/><joint joint="c" coef="2"/></fixed></tendon>
<actuator><position name="hold" tendon="both" kp="30"/><motor name="turn" joint="b"/></actuator>
<equality><connect body1="c" body2="a" anchor="0 0 0"/><joint joint1="a" joint2="c" polycoef=".1 2 0 0 0"/></equality>
<sensor><jointpos name="of a" joint="a"/><jointpos name="of b" joint="b"/><framepos name="at" objtype="site"
objname="tip"/><actuatorpos name="length" actuator="hold"/><actuatorfrc name="force" actuator="hold"/>
<force name="load" site="tip"/></sensor>
<keyframe><key name="up" qpos=".1 .2 .3" qvel="1 2 3" ctrl="4 5"/></keyframe></mujoco>"""


@pytest.mark.peer
def test_what_goes_with_a_joint_is_named():
    """Of a file with everything: what stays measures and pulls as before, what does not is in ``omitted``."""
    pytest.importorskip("mujoco")
    tree = ds.load(ARM)
    held = ds.SpringDamper("c", ds.Frame("world", (1, 0, 0)), 10.0)
    tree = replace(tree, constraints=(*tree.constraints, held))
    other = tree.lock({"a": 0.4})
    (rows, spring), what = [c for c in other.constraints if c.size == 1], LEFT_OUT
    assert rows.couplings() == [({"c": -2.0}, 0.1 - 0.4)] and len(other.constraints) == 3
    assert spring.length == pytest.approx(np.hypot(1, 2)) == held.at_rest(tree, tree.neutral()).length
    assert other.omitted[what] == ("of a", "length")
    assert [s.name for s in other.sensors] == ["of b", "at", "force", "load"]
    assert [a.bias for a in other.actuators] == [(-30.0 * 0.4, -30.0, 0.0), (0.0, 0.0, 0.0)]
    up = other.keyframes["up"]
    assert (up.q.tolist(), up.v.tolist(), up.ctrl.tolist()) == ([0.2, 0.3], [2.0, 3.0], [4.0, 5.0])
    none = other.lock({"b": 0.0})
    assert none.omitted[what] == ("of a", "length", "turn", "of b", "load")
    whole = tree.lock({"b": 0.1, "c": 0.15, "a": 0.4})  # a = 0.1 + 2 c
    assert whole.nv == 0 and len(whole.omitted[what]) == 3 + 2 + 5
    held = ds.Point("a"), ds.Point("b")
    fixed = replace(tree, constraints=held).lock({"a": 0.4})
    assert fixed.constraints == held[1:] and fixed.report[what][0] == repr(held[0])
    with pytest.raises(
        ds.DelassusError, match=r"row on joints 'a', 'c': expected values at which it holds, got 0\.3 off"
    ):
        tree.lock({"b": 0.1, "c": 0.0, "a": 0.4})


def test_errors_of_locking_name_the_joint():
    tree = ds.mechanisms.humanoid()
    for values, text in (
        ({"left_leg7": 0.0}, r"joint name: .*Did you mean 'left_leg"),
        ({"root_joint": 0.0}, "coordinates of joint 'root_joint'"),
        ({"root_joint": [0, 0, 0, 0, 0, 0, 2.0]}, "quaternion of joint 'root_joint'"),
        ({tree.joint_names[3]: [0.0, 0.1]}, "values: expected numbers of one state, got a batch"),
        (["root_joint"], "values: expected a mapping of joint names"),
    ):
        with pytest.raises(ds.DelassusError, match=text):
            tree.lock(values)
    assert tree.lock({}) == tree
