"""Clusters of links that loops tie: methods over them beside the dense saddle point, and what they cost."""

from __future__ import annotations

from dataclasses import replace

import mpmath
import numpy as np
import pytest

import delassus as ds
from delassus_studies.counters import operations
from delassus_studies.loop_mechanisms import four_bars
from internals import joint_kinds
from random_trees import some_axis, some_mechanism, some_rotation, with_rotors
from tools import estimating, random_rotation, requested, run_program

SAME = 1e-10
"""Of a solution in 30 digits, relative to its largest entry."""

REGULAR = 1e-3
"""Margin (`ds.ReducedDynamics`) from which on loops count as regular."""

KINDS = (*[joint_kinds.REVOLUTE] * 4, joint_kinds.PRISMATIC, joint_kinds.BALL, joint_kinds.PLANAR, joint_kinds.COS_SIN)


def place(tree, q, link, rotation, position):
    """Frame of a link, or of the world, that has this pose in the world."""
    if link == "world":
        return ds.Frame("world", position, rotation)
    pose = ds.forward_kinematics(tree, q, link)
    return ds.Frame(link, pose[:3, :3].T @ (position - pose[:3, 3]), pose[:3, :3].T @ rotation)


def some_loop(m, q):
    """A constraint of any kind that may close a loop, and holds at ``q``."""
    rng, tree = m.rng, m.tree
    kind, (a, b) = rng.integers(6), rng.choice(["world", *m.moving], 2, replace=False)
    if kind == 0:
        singles = [k for k, joint in enumerate(tree.joints) if joint.nv == joint.nq == 1]
        if len(singles) < 2:
            return None
        row = {tree.joint_names[i]: float(rng.normal()) for i in rng.choice(singles, 2, replace=False)}
        return ds.JointRows(row, rest=sum(c * q[tree.q_index(name).start] for name, c in row.items()))
    R, p = random_rotation(rng), rng.uniform(-0.4, 0.4, 3)
    first, second = place(tree, q, a, R, p), place(tree, q, b, R, p)
    if kind == 1:
        there = rng.uniform(-0.4, 0.4, 3)
        return ds.Distance(first, place(tree, q, b, R, there), length=float(np.linalg.norm(p - there)))
    axes = str(rng.choice(["local", "world"]))
    if kind == 2:
        return ds.Hinge(first, second, some_axis(rng), axes=axes)
    return ds.Point(first, second, axes=axes)


def with_flat_loops(m, n):
    """The tree with four-bars on random links, in planes of their own: of three rows each one is redundant."""
    tree, loops, rng = m.tree, [], m.rng
    angles = {}
    for k in range(n):
        on, R = str(rng.choice(m.moving)), some_rotation(rng)
        lengths = rng.uniform(0.3, 0.4), rng.uniform(0.4, 0.5), rng.uniform(0.3, 0.4)
        crank, coupler, rocker = (ds.mechanisms.pendulum(1, length=x) for x in lengths)
        tree = tree.attach(on, crank, (0, 0, 0), R, prefix=f"crank{k}_")
        tree = tree.attach(f"crank{k}_rod1", coupler, (0, 0, -lengths[0]), prefix=f"coupler{k}_")
        tree = tree.attach(on, rocker, R @ (0.4, 0, 0), R, prefix=f"rocker{k}_")
        ends = ds.Frame(f"coupler{k}_rod1", (0, 0, -lengths[1])), ds.Frame(f"rocker{k}_rod1", (0, 0, -lengths[2]))
        loops.append(ds.Point(*ends))
        angles |= {f"crank{k}_rod1_joint": 0.3, f"coupler{k}_rod1_joint": -1.6, f"rocker{k}_rod1_joint": -0.2}
    return tree, loops, angles


def some_case(seed, flat=0):
    """A robot, loops and a state at which they are closed and stay so; None if they are near a singularity."""
    m = some_mechanism(seed, int(np.random.default_rng(seed).integers(4, 8)), ("fixed", "floating")[seed % 2], KINDS)
    rng = m.rng
    m.tree = with_rotors(m.tree, rng, slice(0, None, 3))
    tree, loops, angles = with_flat_loops(m, flat) if flat else (m.tree, [], {})
    q = tree.random(rng)
    for name, angle in angles.items():
        q[tree.q_index(name)] = angle
    if loops:
        q = ds.close_loops(tree, loops, q, hold=[*m.tree.joint_names, *(n for n in angles if "crank" in n)]).q
    of_tree = replace(m, tree=tree)
    for _ in range(int(rng.integers(0 if flat else 1, 4))):
        loop = some_loop(of_tree, q)
        try:
            loops, before = [*loops, *([] if loop is None else [loop])], loops
            found = ds.reduced_dynamics(tree, loops, q)
        except ds.DelassusError:
            loops = before
            continue
        J = ds.jacobian(tree, loops, q)
        rank = np.linalg.matrix_rank(J, rtol=1e-9)
        if found.margin < REGULAR or rank != tree.nv - len(found.independent) or rank == tree.nv:
            loops = before
    if not loops or ds.reduced_dynamics(tree, loops, q).margin < REGULAR:
        return None
    J = ds.jacobian(tree, loops, q)
    v, tau = rng.normal(size=(2, tree.nv))
    v = v - np.linalg.pinv(J, rcond=1e-9) @ (J @ v)
    return tree, loops, q, v, tau


def exact(tree, loops, q, v, tau):
    """Accelerations, and forces of least norm, of the saddle point, in 30 digits, by independent rows."""
    loops = [c.as_loop for c in loops]
    M, J = ds.mass_matrix(tree, q), ds.jacobian(tree, loops, q)
    force, gamma = tau - ds.bias_force(tree, q, v), -ds.jacobian_drift(tree, loops, q, v)
    rows = independent_rows(J)
    n, r = tree.nv, len(rows)
    K = np.zeros((n + r, n + r))
    K[:n, :n], K[n:, :n], K[:n, n:] = M, J[rows], J[rows].T
    with mpmath.workdps(30):
        x = mpmath.lu_solve(mpmath.matrix(K.tolist()), mpmath.matrix([*force, *gamma[rows]]))
        f = mpmath.matrix(len(J), 1)
        for k, row in enumerate(rows):
            f[row] = -x[n + k]
        B = mpmath.matrix(J[:, independent_rows(J.T)].tolist())
        f = B * mpmath.lu_solve(B.T * B, B.T * f) if r else f
        return np.array([float(y) for y in x[:n]]), np.array([float(y) for y in f])


def independent_rows(J):
    """Rows that do not depend on those before them."""
    rows = []
    for k in range(len(J)):
        if np.linalg.matrix_rank(J[[*rows, k]], rtol=1e-9) > len(rows):
            rows.append(k)
    return rows


def close_to(found, expected):
    return np.max(np.abs(found - expected), initial=0.0) <= SAME * np.max(np.abs(expected), initial=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("flat", [0, 1, 2])
def test_random_loops(flat):
    """Slides and turned axes, gears, nested and overlapping loops, links that are no leaves, redundant rows."""
    checked = 0
    for seed in range(12):
        case = some_case(seed, flat)
        if case is None:
            continue
        tree, loops, q, v, tau = case
        qdd, f = exact(tree, loops, q, v, tau)
        asked = requested(tree, loops, "dynamics", method="cluster-aba")
        at_once, forces, _ = run_program(estimating(asked, "cluster-aba"), np.concatenate([q, v, tau])[None])
        assert close_to(at_once[0], qdd) and close_to(forces[0], f), (seed, loops)
        found = ds.forward_dynamics(tree, q, v, tau, loops, method="cluster-aba")
        redundant = sum(c.size for c in loops) > len(independent_rows(ds.jacobian(tree, loops, q)))
        assert found.status.item().name == ("REDUNDANT" if redundant else "SOLVED"), (seed, loops)
        assert close_to(found.qdd, qdd) and close_to(np.concatenate(found.forces), f), (seed, loops)
        checked += 1
    assert checked > 6


def test_costs_are_linear_in_the_number_of_loops():
    """Each four-bar of a tower adds about as many operations as the one before."""
    cases = [four_bars(n) for n in (2, 4, 8)]
    for count in (
        lambda case: ds.compile(case.tree, case.constraints, "reduced_dynamics", outputs="G").operations.total,
        lambda case: operations(case, "cluster-aba"),
    ):
        few, some, many = map(count, cases)
        assert many - some < 2.2 * (some - few)
