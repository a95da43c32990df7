"""Clusters of links that loops tie: methods over them beside the dense saddle point, and what they cost."""

from __future__ import annotations

from dataclasses import replace

import mpmath
import numpy as np
import pytest

import delassus as ds
from delassus_studies.counters import operations
from delassus_studies.loop_mechanisms import four_bars
from delassus_studies.mechanisms import bennett
from random_trees import IN_LOOPS, some_axis, some_mechanism, some_rotation, with_rotors
from tools import estimating, random_rotation, requested, run_program

SAME = 1e-10
"""Of a solution in 30 digits, relative to its largest entry."""

EPSILON = np.finfo(float).eps

REGULAR = 1e-3
"""Smallest singular value of columns of dependent coordinates, over the largest, where loops count as regular."""


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


def is_regular(tree, loops, q):
    """Whether independent coordinates determine all others; by NumPy, of all rows at once."""
    bound = np.flatnonzero(~replace(tree, constraints=tuple(loops)).independent.any(axis=0))
    J = ds.jacobian(tree, loops, q)
    rank, sizes = np.linalg.matrix_rank(J, rtol=1e-9), np.linalg.svd(J[:, bound], compute_uv=False)
    return 0 < rank == len(bound) < tree.nv and sizes[rank - 1] > REGULAR * sizes[0]


def some_case(seed, flat=0):
    """A robot, loops and a state at which they are closed and stay so; None if they are near a singularity."""
    m = some_mechanism(seed, int(np.random.default_rng(seed).integers(4, 8)), ("fixed", "floating")[seed % 2], IN_LOOPS)
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
            wanted = [*loops, *([] if loop is None else [loop])]
            loops = wanted if wanted and is_regular(tree, wanted, q) else loops
        except ds.DelassusError:  # they never hold, or hold two links that are one
            continue
    if not loops or not is_regular(tree, loops, q):
        return None
    J = ds.jacobian(tree, loops, q)
    v, tau = rng.normal(size=(2, tree.nv))
    v = v - np.linalg.pinv(J, rcond=1e-9) @ (J @ v)
    return tree, loops, q, v, tau


def exact(tree, loops, q, v, tau):
    """Accelerations, and forces of least norm, of the saddle point, in 30 digits, by independent rows."""
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
        if np.linalg.matrix_rank(J[[*rows, k]], tol=1e-9) > len(rows):
            rows.append(k)
    return rows


def close_to(found, expected):
    return np.max(np.abs(found - expected), initial=0.0) <= SAME * np.max(np.abs(expected), initial=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("flat", [0, 1, 2])
def test_random_loops(flat):
    """Slides and turned axes, gears, nested and overlapping loops, links that are no leaves, redundant rows.

    Loops that gape, or velocities that open them, are flagged where rows of closed loops would be others.
    """
    checked = guarded = 0
    for seed in range(9 - 2 * flat):
        case = some_case(seed, flat)
        if case is None:
            continue
        tree, loops, q, v, tau = case
        qdd, f = exact(tree, loops, q, v, tau)
        aside = 1e-3 * np.random.default_rng(seed).normal(size=tree.nv)
        states = np.stack([q, tree.integrate(q, aside), q]), np.stack([v, 0.0 * v, v + aside]), np.stack([tau] * 3)
        asked = requested(tree, loops, "dynamics", method="cluster-aba")
        by, forces, rcond = run_program(estimating(asked, "cluster-aba"), np.concatenate(states, axis=1))
        assert close_to(by[0], qdd) and close_to(forces[0], f), (seed, loops)
        is_wide = any(c.top(tree) != c.as_loop.top(tree) for c in loops)
        assert ((rcond.ravel() * 1e-6 > EPSILON) == [True, not is_wide, not is_wide]).all(), (seed, loops)
        both = [ds.forward_dynamics(tree, *states, loops, method=m) for m in ("cluster-aba", "kkt")]
        assert np.array_equal(both[0].status, both[1].status) and close_to(both[0].qdd, both[1].qdd), (seed, loops)
        guarded += is_wide
        found = ds.forward_dynamics(tree, q, v, tau, loops, method="cluster-aba")
        redundant = sum(c.size for c in loops) > len(independent_rows(ds.jacobian(tree, loops, q)))
        assert found.status.item().name == ("REDUNDANT" if redundant else "SOLVED"), (seed, loops)
        assert close_to(found.qdd, qdd) and close_to(np.concatenate(found.forces), f), (seed, loops)
        checked += 1
    assert checked > 5 - 2 * flat and guarded > 1


def test_rows_that_lose_rank_where_loops_are_closed():
    """Bennett's mechanism moves where it is closed; where it gapes, or rows contradict one another, it is flagged."""
    made = bennett()
    tree, loops, rng = made.tree, made.constraints, np.random.default_rng(0)
    q = ds.close_loops(tree, loops, tree.random(rng)).q
    q = np.stack([q, tree.integrate(q, rng.normal(size=3) * 1e-3), q])
    J, v, tau, targets = ds.jacobian(tree, loops, q[0]), *rng.normal(size=(2, 3)), np.zeros((3, 5))
    v, targets[2] = v - np.linalg.pinv(J, rcond=1e-8) @ (J @ v), rng.normal(size=5)
    asked = requested(tree, loops, "dynamics", method="cluster-aba", targets=True)
    given = np.concatenate([q, [v] * 3, [tau] * 3, targets], axis=1)
    qdd, _, rcond = run_program(estimating(asked, "cluster-aba"), given)
    assert (rcond.ravel() * 1e-6 > EPSILON).tolist() == [True, False, False]
    wanted = [ds.forward_dynamics(tree, q, v, tau, loops, method=m, targets=[targets]) for m in ("kkt", "cluster-aba")]
    assert close_to(qdd[0], wanted[0].qdd[0]) and close_to(wanted[1].qdd, wanted[0].qdd)
    assert [x.name for x in wanted[1].status] == ["REDUNDANT", "CONFLICTING", "CONFLICTING"]


@pytest.mark.slow
@pytest.mark.parametrize("flat", [0, 1])
def test_delassus_matrices_of_closed_mechanisms(flat):
    """By EFPA over clusters beside the reduced mass matrix, in batch and compiled; and without loops."""
    checked = 0
    for seed in range(8):
        case = some_case(seed, flat)
        if case is None:
            continue
        tree, loops, q, *_ = case
        rng = np.random.default_rng(seed)
        ends = [ds.Point(ds.Frame(name, rng.normal(size=3))) for name in rng.choice(tree.link_names, 3)]
        ends.append(ds.Weld(tree.link_names[0], tree.link_names[-1]))
        found = ds.reduced_dynamics(tree, loops, q)
        moved = ds.jacobian(tree, ends, q) @ found.transmission
        G = ds.delassus(tree, ends, q, loops=loops)
        assert close_to(G, moved @ found.delassus @ moved.T), (seed, loops)
        assert np.array_equal(G, G.T)
        several = np.stack([q, q])
        kernel = ds.compile(tree, ends, "delassus", loops=loops)
        by = {x: ds.compile(tree, ends, "delassus", loops=loops, method=x) for x in ("cluster-efpa", "dense")}
        assert kernel.operations.total == min(x.operations.total for x in by.values())
        assert kernel.plan.method in by and kernel.plan.reason == "loops close, and it takes the fewest operations"
        alone = [ds.delassus(tree, ends, several, method=x, loops=loops) for x in by]
        for same in (*alone, kernel(several)):
            assert close_to(same, np.stack([G, G]))
        assert close_to(ds.delassus(tree, ends, q, method="cluster-efpa"), ds.delassus(tree, ends, q))
        plain = [ds.compile(tree, ends, "delassus", method=name) for name in ("efpa", "cluster-efpa")]
        assert plain[0].operations.total == plain[1].operations.total
        checked += 1
    assert checked > 4
    with pytest.raises(ds.DelassusError, match="method: expected one of 3 names"):
        ds.delassus(tree, ends, q, method="efpa", loops=loops)
    with pytest.raises(ds.errors.ConstraintError, match="loops: expected rows that no call gives"):
        ds.delassus(tree, ends, q, loops=ds.Rows(tree.link_names[0], 2))
    refused = ds.Point(tree.link_names[0])
    with pytest.raises(ds.errors.ConstraintError, match="active: expected constraints that always act"):
        ds.compile(tree, refused, "dynamics", method="cluster-aba", active=True)
    with pytest.raises(ds.errors.ConstraintError, match="takes hard constraints only"):
        ds.compile(tree, refused, "dynamics", method="cluster-aba", compliance=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("flat", [0, 1])
def test_forces_of_motors(flat):
    """At independent coordinates: as orthogonal equations have them, and forward dynamics gives the motion back."""
    checked = 0
    for seed in range(12):
        case = some_case(seed, flat)
        if case is None:
            continue
        tree, loops, q, v, _ = case
        found = ds.reduced_dynamics(tree, loops, q, v)
        chosen = {k for k, at in enumerate(tree.v_slices) if {*range(tree.nv)[at]} & {*found.independent}}
        if sum(tree.joints[k].nv for k in chosen) > len(found.independent):  # a part of a joint
            continue
        motors = [tree.joint_names[k] for k in chosen]
        qdd = found.drift + found.transmission @ np.random.default_rng(seed).normal(size=len(found.independent))
        both = [ds.inverse_dynamics(tree, q, v, qdd, loops, motors=motors, method=m) for m in ("auto", "cluster-rnea")]
        assert both[0].status == both[1].status and both[0].rank == both[1].rank
        assert close_to(both[1].tau, both[0].tau), (seed, loops)
        assert close_to(*(np.concatenate(x.forces) for x in both)), (seed, loops)
        back = ds.forward_dynamics(tree, q, v, both[1].tau, loops, method="cluster-aba")
        assert close_to(back.qdd, qdd), (seed, loops)
        checked += 1
    assert checked > 3
    with pytest.raises(ds.errors.ConstraintError, match="motors: expected joints that determine all others"):
        ds.inverse_dynamics(tree, q, v, v, loops, motors=tree.joint_names, method="cluster-rnea")
    with pytest.raises(ds.errors.ConfigurationError, match="weights: expected none with the method"):
        weights = np.ones(tree.nv + sum(c.size for c in loops))
        ds.inverse_dynamics(tree, q, v, v, loops, motors="actuated", method="cluster-rnea", weights=weights)


@pytest.mark.parametrize("turned", [False, True])
def test_geared_motors(turned):
    """A rotor on a link turns the next one: Drake's armature ``N² I``, and gyroscopic moments of its spin."""
    rng, ratio, inertia = np.random.default_rng(0), 50.0, 1e-4
    rng, ratio, inertia = np.random.default_rng(0), 50.0, 1e-4
    R = random_rotation(rng) if turned else np.eye(3)
    axis, at, rod = R[:, 1], np.array([0.0, 0.0, -0.4]), ds.mechanisms.pendulum(1, length=0.4)
    arm = rod.attach("rod1", rod, at, random_rotation(rng), prefix="turn_")
    arm = arm.attach("turn_rod1", rod, at, R, prefix="last_")
    geared = arm.attach("turn_rod1", rod, at, R, prefix="rotor_")
    of_rotor, of_link = np.diag([0.1] * 3 + [0.5 * inertia, inertia, 0.5 * inertia]), np.eye(6)
    of_link[:3, :3], of_link[3:, 3:] = R.T, R.T
    of_link[:3, 3:] = -R.T @ np.array([[0, -at[2], at[1]], [at[2], 0, -at[0]], [-at[1], at[0], 0]])
    H = arm.inertias.copy()
    H[arm.link_names.index("turn_rod1")] += of_link.T @ of_rotor @ of_link
    joints = [replace(j, armature=[ratio**2 * inertia]) if j.name == "last_rod1_joint" else j for j in arm.joints]
    plain = replace(arm, inertias=H, joints=tuple(joints))
    H = geared.inertias.copy()
    H[geared.link_names.index("rotor_rod1")] = of_rotor
    geared = replace(geared, inertias=H)
    q, v, tau = rng.normal(size=(3, 3))
    whole = [geared.configuration(dict(zip(plain.joint_names, x, strict=True))) for x in (q, v, tau)]
    own = [geared.v_index(name).start for name in plain.joint_names]
    for x, y in zip(whole[:2], (q, v), strict=True):
        x[geared.v_index("rotor_rod1_joint")] = ratio * y[2]
    gear = ds.JointRows({"rotor_rod1_joint": 1.0, "last_rod1_joint": -ratio})
    found = ds.forward_dynamics(geared, *whole, gear, method="cluster-aba")

    # spin h = I N q̇ n of the rotor on a: moments J_ωᵀ (ḣ + ω × h) at joints below, N I n · ω̇ at the gear
    J = ds.frame_jacobian(plain, q, "turn_rod1")[3:]
    omega, alpha = J @ v, ds.frame_acceleration(plain, q, v, np.zeros(3), "turn_rod1")[3:]
    M, c = ds.mass_matrix(plain, q), ds.bias_force(plain, q, v)
    across = inertia * ratio * np.outer(J.T @ axis, np.eye(3)[2])
    c = c + inertia * ratio * (J.T @ np.cross(omega, axis) * v[2] + np.eye(3)[2] * (axis @ alpha))
    assert close_to(found.qdd[own], np.linalg.solve(M + across + across.T, tau - c))
    assert close_to(found.qdd[geared.v_index("rotor_rod1_joint")], ratio * found.qdd[own[2]])
    assert found.status == ds.DynamicsStatus.SOLVED


def flat_tower(n):
    """Four-bars in a plane, each on the coupler of the one below; their pins, and the joints of their cranks."""
    tree, pins, on = ds.mechanisms.pendulum(1, length=0.3), [], "rod1"
    motors = ["rod1_joint"]
    for k in range(n):
        crank, coupler, rocker = (ds.mechanisms.pendulum(1, length=x) for x in (0.3, 0.45, 0.4))
        tree = tree.attach(on, crank, (0, 0, -0.1), prefix=f"crank{k}_")
        tree = tree.attach(f"crank{k}_rod1", coupler, (0, 0, -0.3), prefix=f"coupler{k}_")
        tree = tree.attach(on, rocker, (0.4, 0, -0.1), prefix=f"rocker{k}_")
        on = f"coupler{k}_rod1"
        pins.append(ds.Point(ds.Frame(on, (0, 0, -0.45)), ds.Frame(f"rocker{k}_rod1", (0, 0, -0.4))))
        motors.append(f"crank{k}_rod1_joint")
    return tree, pins, motors


def hinged(n):
    """The same with hinges in place of pins, whose rows are those of closed loops at all states."""
    tree, pins, motors = flat_tower(n)
    return tree, [ds.Hinge(pin.first, pin.second, (0, 1, 0)) for pin in pins], motors


def test_motors_of_loops_take_the_method_of_fewest_operations():
    """At closed, open and singular states: there the crank, at which no motor is, is in line with the coupler."""
    tree, loops, _ = hinged(1)
    motors = ["rod1_joint", "rocker0_rod1_joint"]
    q = [tree.configuration({"crank0_rod1_joint": 0.3, "coupler0_rod1_joint": x, "rocker0_rod1_joint": -0.2})
         for x in (-1.6, 0.0)]  # fmt: skip
    q = ds.close_loops(tree, loops, q, hold=["rod1_joint", "coupler0_rod1_joint"]).q
    q = np.stack([*q, q[0] + 0.1])
    v, qdd = np.random.default_rng(0).normal(size=(2, *q.shape))
    kernel = ds.compile(tree, loops, "inverse_dynamics", motors=motors)
    assert kernel.plan.method == "cluster-rnea" and kernel.operations.total == motor_forces((tree, loops, motors))
    found = kernel(q, v, qdd, return_error=True)
    wanted = ds.inverse_dynamics(tree, q, v, qdd, loops, motors=motors)
    assert all(
        close_to(x, y) for x, y in zip(found, [wanted.tau, np.concatenate(wanted.forces, axis=-1)], strict=False)
    )
    made = bennett()
    for *case, driving in (  # rows that gape; that lose rank where loops close; more motors than are needed
        flat_tower(1), (made.tree, made.constraints, made.tree.joint_names[:1]), (tree, loops, tree.joint_names),
    ):  # fmt: skip
        assert ds.compile(*case, "inverse_dynamics", motors=driving).plan.method == "orthogonal"


def test_loops_in_a_plane_are_solved_by_clusters():
    """By default, at closed and open states; not where rows would be others, can be off or end at one frame."""
    tree, loops, _ = hinged(2)
    rng = np.random.default_rng(0)
    q = ds.random_configurations(tree, loops, rng=0, batch=2)
    q = np.concatenate([q, tree.integrate(q, 0.1 * rng.normal(size=q.shape))])
    J, v, tau = ds.jacobian(tree, loops, q), *rng.normal(size=(2, *q.shape))
    v = v - (np.linalg.pinv(J, rcond=1e-8) @ (J @ v[..., None]))[..., 0]
    kernel, wanted = ds.compile(tree, loops, "dynamics"), ds.forward_dynamics(tree, q, v, tau, loops, method="kkt")
    assert kernel.method == kernel.plan.method == "cluster-aba" and "over clusters" in kernel.plan.reason
    qdd, forces, status = kernel(q, v, tau, return_status=True)
    assert close_to(qdd, wanted.qdd) and close_to(forces, np.concatenate(wanted.forces, axis=-1))
    assert [x.name for x in status] == ["REDUNDANT"] * 4
    made, held = bennett(), [*loops, ds.Point(tree.link_names[0])]
    for *case, given in (
        (*flat_tower(2)[:2], {}), (made.tree, made.constraints, {}), (tree, held, {}), (tree, loops, {"active": True}),
    ):  # fmt: skip
        assert ds.compile(*case, "dynamics", **given).method != "cluster-aba"
    assert ds.compile(tree, loops, "step").method == "proximal"  # which runs through singular configurations


def motor_forces(case, method="cluster-rnea"):
    """Operations of the forces of motors at cranks."""
    tree, pins, motors = case
    return ds.compile(tree, pins, "inverse_dynamics", motors=motors, method=method).operations.total


def transmission(case):
    """Operations of the transmission."""
    return ds.compile(case.tree, case.constraints, "reduced_dynamics", outputs="G").operations.total


@pytest.mark.parametrize("of", ["transmission", "cluster-aba", "cluster-rnea"])
def test_costs_are_linear_in_the_number_of_loops(of):
    """Each four-bar of a tower adds about as many operations as the one before."""
    counts = {
        "transmission": transmission,
        "cluster-aba": lambda case: operations(case, of),
        "cluster-rnea": motor_forces,
    }
    few, some, many = (counts[of]((flat_tower if of == "cluster-rnea" else four_bars)(n)) for n in (2, 4, 8))
    assert many - some < 2.2 * (some - few)
