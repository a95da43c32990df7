"""Limits and Coulomb friction of joints in `Simulator`: closed forms, all formulations and solvers, MuJoCo."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import delassus as ds
from delassus.contact import SolverStatus
from delassus.contact.formulations import FORMULATIONS
from delassus.contact.geometry import load_colliders
from delassus.contact.shapes import Collider, HalfSpace, Sphere
from delassus.errors import ConfigurationError
from delassus.model.build import build_tree
from delassus.model.description import RawJoint, RawLink
from delassus.model.joints import JointKind
from delassus.simulate.checkpoint import load_checkpoint, save_checkpoint

pytest.importorskip("numba")

SOLVERS = ("lemke", "pgs", "nsgs", "admm", "convex")

RESTS = 1e-8
"""How far a joint may be beyond its limit where nothing drives it there but the step itself (rad, m)."""

G = 9.81


def with_joints(tree, **attributes):
    """The tree with attributes of its joints of one number set, each to a number or an array (nv,)."""
    numbers = {name: np.broadcast_to(value, tree.nv) for name, value in attributes.items()}
    joints = [
        replace(j, **{name: x[at] for name, x in numbers.items()}) if j.nq == 1 else j
        for j, at in zip(tree.joints, tree.v_slices, strict=True)
    ]
    return replace(tree, joints=tuple(joints))


def pendulum(n=1, **attributes):
    return with_joints(ds.mechanisms.pendulum(n), **attributes)


def slide(**attributes):
    """One kilogram that slides along x without gravity."""
    links = [RawLink("world_link"), RawLink("body", 1.0, np.zeros(3), 0.01 * np.eye(3))]
    joint = RawJoint("slide", JointKind.PRISMATIC, "world_link", "body", axis=np.array([1.0, 0.0, 0.0]))
    return with_joints(build_tree("slide", links, [joint]), **attributes)


def beyond(tree, q):
    """How far joints are beyond their limits; negative where none is."""
    lower, upper = tree.lower, tree.upper
    at = [sq.start for j, sq in zip(tree.joints, tree.q_slices, strict=True) if j.nq == 1]
    dofs = [sv.start for j, sv in zip(tree.joints, tree.v_slices, strict=True) if j.nq == 1]
    return float(np.maximum(lower[dofs] - q[at], q[at] - upper[dofs]).max(initial=-np.inf))


def gains(sim):
    """A function that makes a step and returns the kinetic energy that limits and friction bring in it."""
    tree, q, v = sim.scene.tree, sim.q, sim.v

    def gain(tau=None):
        free = v + sim.dt * ds.forward_dynamics(tree, q, v, np.zeros(tree.nv) if tau is None else tau).qdd
        sim.step(tau)
        M = ds.mass_matrix(tree, q)
        return 0.5 * float(sim.v @ M @ sim.v - free @ M @ free)

    return gain


# -- limits --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_a_pendulum_comes_to_rest_at_its_limit(formulation, solver):
    """It arrives within one step, without bouncing, and stays; the limit carries its weight."""
    tree = pendulum(lower=-0.3, upper=0.5)
    sim = ds.Simulator(ds.Scene(tree), q0=[0.45], v0=[2.0], formulation=formulation, solver=solver, tolerance=1e-10)
    sim.run(0.03, lambda sim: [20.0])
    assert sim.q[0] == pytest.approx(0.5, abs=RESTS) and abs(sim.v[0]) <= 1e-9
    sim.step([20.0])
    weight = ds.inverse_dynamics(tree, sim.q, [0.0], [0.0])
    assert sim.joint_impulses[0] == pytest.approx((weight - 20.0) * sim.dt, abs=1e-10)
    assert set(sim.statuses) == {SolverStatus.CONVERGED}


def test_no_limit_is_passed_by_what_others_do():
    """A chain that is thrown about: limits that only impulses drive joints to are held too."""
    tree = pendulum(6, lower=-0.4, upper=0.6)
    sim = ds.Simulator(ds.Scene(tree), v0=np.linspace(-9.0, 12.0, 6), dt=1e-2)
    for _ in range(100):
        gain = gains(sim)
        assert gain() <= 1e-9 and beyond(tree, sim.q) <= RESTS
    assert set(sim.statuses) == {SolverStatus.CONVERGED}


@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
def test_a_joint_that_starts_beyond_its_limit_is_taken_back(kind):
    tree = pendulum(lower=-0.3, upper=0.5) if kind == "revolute" else slide(lower=-0.3, upper=0.5)
    sim = ds.Simulator(ds.Scene(tree), q0=[1.5])
    for _ in range(150):
        before = sim.q[0]
        sim.step([20.0])
        assert -1e-9 <= before - sim.q[0] <= 0.02 + 1e-9 and abs(sim.v[0]) <= 1e-9
    assert sim.q[0] == pytest.approx(0.5, abs=RESTS)


def test_limits_can_be_left_out():
    tree = pendulum(lower=-0.3, upper=0.5)
    sim = ds.Simulator(ds.Scene(tree), q0=[0.49], v0=[2.0], limits=False)
    free = ds.Simulator(ds.Scene(ds.mechanisms.pendulum(1)), q0=[0.49], v0=[2.0])
    for each in (sim, free):
        each.run(0.05)
    assert sim.q[0] > 0.55 and (sim.q == free.q).all() and not sim.statuses
    with pytest.raises(ConfigurationError, match="limits"):
        ds.Simulator(ds.Scene(tree), limits="on")


def test_what_is_far_from_limits_costs_nothing():
    tree = pendulum(6, lower=-2.0, upper=2.0)
    sim = ds.Simulator(ds.Scene(tree), v0=np.ones(6))
    sim.run(0.05)
    assert not sim.statuses


def test_a_locked_joint_does_not_move():
    """Both limits at the same place."""
    for solver in SOLVERS:
        tree = pendulum(2, lower=[0.2, -1.0], upper=[0.2, 1.0])
        sim = ds.Simulator(ds.Scene(tree), q0=[0.2, 0.5], solver=solver)
        sim.run(0.05)
        assert sim.q[0] == pytest.approx(0.2, abs=RESTS) and set(sim.statuses) == {SolverStatus.CONVERGED}


@pytest.mark.filterwarnings("ignore::delassus.DelassusWarning")
def test_a_humanoid_that_falls_stays_within_its_limits():
    path = Path(pytest.importorskip("dm_control").__file__).parent / "suite" / "humanoid.xml"
    pytest.importorskip("mujoco")
    tree = ds.load(path)
    scene = ds.Scene(tree, load_colliders(path, tree))
    q = tree.neutral()
    q[2] = 1.6
    sim = ds.Simulator(scene, q0=q, v0=2.0 * np.ones(tree.nv), dt=4e-3, solver="nsgs", max_overlap=1.0)
    reached = 0
    for _ in range(100):
        sim.step()
        assert beyond(tree, sim.q) <= 1e-4
        reached = max(reached, np.count_nonzero(sim.joint_impulses[0]))
    assert reached >= 2 and set(sim.statuses) == {SolverStatus.CONVERGED}


def test_checkpoints_hold_impulses_on_joints(tmp_path):
    tree = pendulum(3, lower=-0.3, upper=0.5)
    scene = ds.Scene(tree, [Collider("rod3", Sphere(0.1), (0, 0, -1.0)), Collider("world", HalfSpace(), (0, 0, -3.2))])
    sim = ds.Simulator(scene, v0=[2.0, 0.0, 0.0], dt=1e-2)
    while not sim.joint_impulses.any():
        sim.step()
    assert sim.joint_impulses.any()
    again = load_checkpoint(scene, save_checkpoint(sim, tmp_path / "half.npz"))
    for each in (sim, again):
        each.run(0.2)
    assert (sim.q == again.q).all() and (sim.joint_impulses == again.joint_impulses).all()
