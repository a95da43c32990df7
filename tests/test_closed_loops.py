"""Closed loops for real: mechanisms that run for ten seconds and keep their loops."""

from __future__ import annotations

import numpy as np
import pytest

import delassus as ds
from internals import JointKind, RawJoint, RawLink, build_tree

X, Y, Z = np.eye(3)
SECONDS = 10.0
KEPT = 1e-6
"""Largest gap of a loop, in m."""


def rod(name, length, axis=X, mass=1.0):
    """Thin rod from its frame's origin along an axis."""
    across = np.eye(3) - np.outer(axis, axis)
    return RawLink(name, mass, 0.5 * length * axis, mass * length**2 / 12 * across + 1e-4 * np.eye(3))


def joint(name, kind, parent, child, position, axis=Z):
    return RawJoint(name, kind, parent, child, np.array(position, dtype=float), axis=axis)


def gaps(tree, constraints, q):
    """Distances between the two points of each loop."""
    frames = [f for c in constraints for f in (c.first, c.second)]
    p = ds.forward_kinematics(tree, q, frames)[..., :3, 3]
    return np.linalg.norm(p[..., 0::2, :] - p[..., 1::2, :], axis=-1)


CRANK, COUPLER, ROCKER, GROUND = 0.2, 0.6, 0.5, 0.6


def four_bar(lean=0.0):
    """Crank, coupler and rocker; the rocker's axis leans out of the plane. Returns the tree and its loop."""
    links = [RawLink("base", 1.0), rod("crank", CRANK), rod("coupler", COUPLER), rod("rocker", ROCKER)]
    inner = JointKind.BALL if lean else JointKind.REVOLUTE
    joints = [
        joint("crank", JointKind.REVOLUTE, "base", "crank", (0, 0, 0)),
        joint("coupler", inner, "crank", "coupler", (CRANK, 0, 0)),
        joint(
            "rocker", JointKind.REVOLUTE, "base", "rocker", (GROUND, 0, 0), np.array([0.0, np.sin(lean), np.cos(lean)])
        ),
    ]
    tree = build_tree("four_bar", links, joints)
    return tree, [ds.Point(ds.Frame("coupler", (COUPLER, 0, 0)), ds.Frame("rocker", (ROCKER, 0, 0)))]


def closed(tree, constraints, guess):
    """Configuration near a guess that closes the loops, by Newton's method on the joints."""
    q = guess
    for _ in range(50):
        first, second = ds.forward_kinematics(tree, q, [constraints[0].first, constraints[0].second])
        gap = first[:3, :3].T @ (first[:3, 3] - second[:3, 3])
        q = tree.integrate(q, -np.linalg.pinv(ds.jacobian(tree, constraints, q), rcond=1e-9) @ gap)
    assert gaps(tree, constraints, q).max() < 1e-12
    return q


def consistent(tree, constraints, q, v):
    """The velocity nearest to ``v`` that keeps the loops closed."""
    J = ds.jacobian(tree, constraints, q)
    return v - np.linalg.pinv(J, rcond=1e-9) @ (J @ v)


def run(tree, constraints, q, v, method, dt=1e-3):
    step = ds.compile(tree, constraints, "step", integrator="rk4", method=method, baumgarte=40.0)
    n = round(SECONDS / dt)
    return ds.rollout(step, q, v, np.zeros((n, tree.nv)), dt)


def test_a_planar_four_bar_with_a_redundant_row():
    """Nothing moves across the plane: a point has one row too many there."""
    tree, loop = four_bar()
    q = closed(tree, loop, np.array([1.0, -0.5, 2.0]))
    v = consistent(tree, loop, q, np.array([6.0, 0.0, 0.0]))
    qs, vs = run(tree, loop, q, v, "proximal")
    assert gaps(tree, loop, qs).max() < KEPT
    energy = ds.kinetic_energy(tree, qs, vs) + ds.potential_energy(tree, qs)
    assert np.ptp(energy) < 1e-3 * abs(ds.kinetic_energy(tree, q, v))
    assert np.ptp(qs[:, 0]) > 10  # the crank turns


def test_a_spatial_four_bar():
    tree, loop = four_bar(lean=0.3)
    q = closed(tree, loop, tree.integrate(tree.neutral(), np.array([1.0, 0.1, 0.2, -0.5, 2.0])))
    v = consistent(tree, loop, q, np.array([4.0, 0.0, 0.0, 0.0, 0.0]))
    qs, vs = run(tree, loop, q, v, "pv-early")
    assert gaps(tree, loop, qs).max() < KEPT
    energy = ds.kinetic_energy(tree, qs, vs) + ds.potential_energy(tree, qs)
    assert np.ptp(energy) < 1e-3 * np.ptp(ds.kinetic_energy(tree, qs, vs))
    assert np.ptp(vs[:, 0]) > 1


def stewart():
    """Platform on six legs, each on a universal joint with a slide; returns the tree, its loops and its start."""
    angles = np.repeat(np.arange(3), 2) * 2 * np.pi / 3
    below = np.stack([np.array([np.cos(a), np.sin(a), 0]) for a in angles + np.tile([-0.2, 0.2], 3)])
    above = 0.6 * np.stack([np.array([np.cos(a), np.sin(a), 0]) for a in angles + np.tile([-0.8, 0.8], 3)])
    links, joints = [RawLink("base", 1.0), RawLink("platform", 20.0, np.zeros(3), np.diag([2.0, 2.0, 4.0]))], []
    loops, start = [], []
    height = 1.2 * Z
    for k, (b, a) in enumerate(zip(below, above, strict=True)):
        cross, lower, upper = f"cross{k}", f"lower{k}", f"upper{k}"
        links += [RawLink(cross, 0.1, np.zeros(3), 1e-3 * np.eye(3)), rod(lower, 0.6, Z, 2.0), rod(upper, -0.6, Z, 1.0)]
        joints += [
            joint(f"{k}a", JointKind.REVOLUTE, "base", cross, b, X),
            joint(f"{k}b", JointKind.REVOLUTE, cross, lower, (0, 0, 0), Y),
            joint(f"{k}c", JointKind.PRISMATIC, lower, upper, (0, 0, 0), Z),
        ]
        along = a + height - b
        length = np.linalg.norm(along)
        x, y, z = along / length
        start += [np.arctan2(-y, z), np.arcsin(x), length]
        loops.append(ds.Point(upper, ds.Frame("platform", a)))
    joints.append(joint("platform", JointKind.FREE, "base", "platform", (0, 0, 0)))
    tree = build_tree("stewart", links, joints)
    return tree, loops, np.array([*start, *height, 0, 0, 0, 1])


@pytest.mark.slow
def test_a_stewart_platform_under_control():
    """Legs follow sines; the platform goes where they take it, and stays on them."""
    tree, loops, q = stewart()
    assert gaps(tree, loops, q).max() < 1e-12
    dt, legs, lengths = 1e-3, np.arange(2, 18, 3), q[2:18:3].copy()
    step = ds.compile(tree, loops, "step", integrator="semi-implicit", method="pv-early", baumgarte=100.0)
    v, tau = np.zeros(tree.nv), np.zeros(tree.nv)
    worst = moved = 0.0
    for n in range(round(SECONDS / dt)):
        wanted = lengths + 0.1 * np.sin(2 * n * dt + np.arange(6)) - 0.1 * np.sin(np.arange(6))
        tau[legs] = 60.0 + 4000.0 * (wanted - q[legs]) - 300.0 * v[legs]
        q, v = step(q, v, tau, dt)
        if n % 50 == 0:
            worst = max(worst, gaps(tree, loops, q).max())
            moved = max(moved, np.abs(q[18:20]).max())
    assert worst < KEPT
    assert moved > 0.02
