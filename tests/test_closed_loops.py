"""Closed loops for real: mechanisms that run for ten seconds and keep their loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
from delassus.accuracy import closed_loops
from delassus.accuracy.closed_loops import Traced, rank_when_closed
from delassus.contact import Box, Collider, HalfSpace, Sphere
from internals import RawJoint, RawLink, build_tree, interpret_trace, joint_kinds
from random_trees import some_mechanism
from test_joint_contacts import some_scene
from tools import beside_simulator, requested

pytestmark = pytest.mark.usefixtures("one_lane")

X, Y, Z = np.eye(3)
SECONDS = 10.0
KEPT = 1e-6
"""Largest gap of a loop, in m: not of round-off, but what stabilisation leaves of the error of steps, 6e-7 at most."""


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
    inner = joint_kinds.BALL if lean else joint_kinds.REVOLUTE
    joints = [
        joint("crank", joint_kinds.REVOLUTE, "base", "crank", (0, 0, 0)),
        joint("coupler", inner, "crank", "coupler", (CRANK, 0, 0)),
        joint(
            "rocker",
            joint_kinds.REVOLUTE,
            "base",
            "rocker",
            (GROUND, 0, 0),
            np.array([0.0, np.sin(lean), np.cos(lean)]),
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
            joint(f"{k}a", joint_kinds.REVOLUTE, "base", cross, b, X),
            joint(f"{k}b", joint_kinds.REVOLUTE, cross, lower, (0, 0, 0), Y),
            joint(f"{k}c", joint_kinds.PRISMATIC, lower, upper, (0, 0, 0), Z),
        ]
        along = a + height - b
        length = np.linalg.norm(along)
        x, y, z = along / length
        start += [np.arctan2(-y, z), np.arcsin(x), length]
        loops.append(ds.Point(upper, ds.Frame("platform", a)))
    joints.append(joint("platform", joint_kinds.FREE, "base", "platform", (0, 0, 0)))
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


def on_gimbals(light, root="fixed"):
    """Crank, rod and rocker, the rod between two gimbals of three turning joints whose links weigh next to nothing.

    The second gimbal is welded to the rocker: so exporters of CAD programs write rods on ball joints.
    """
    links = [RawLink("base", 3.0, np.zeros(3), 0.1 * np.eye(3)), rod("crank", 0.2), rod("rod", 0.5), rod("rocker", 0.3)]
    links += [RawLink(f"{end}{k}", light, np.zeros(3), 1e-3 * light * np.eye(3)) for end in "ab" for k in range(2)]
    links.append(RawLink("b2", light, np.zeros(3), 1e-3 * light * np.eye(3)))
    turns, o = joint_kinds.REVOLUTE, (0, 0, 0)
    joints = [
        joint("crank", turns, "base", "crank", o, Y),
        *(joint(f"a{k}", turns, p, c, at, axis) for k, (p, c, at, axis) in enumerate(
            [("crank", "a0", (0.2, 0, 0), X), ("a0", "a1", o, Y), ("a1", "rod", o, Z)]
        )),
        *(joint(f"b{k}", turns, p, c, at, axis) for k, (p, c, at, axis) in enumerate(
            [("rod", "b0", (0.5, 0, 0), Z), ("b0", "b1", o, Y), ("b1", "b2", o, X)]
        )),
        joint("rocker", turns, "base", "rocker", (0.5, 0.1, 0), np.array([0.0, np.cos(0.4), np.sin(0.4)])),
    ]  # fmt: skip
    tree = build_tree("gimbals", links, joints, root=root)
    return tree, [ds.Weld("b2", ds.Frame("rocker", (0.3, 0, 0)))]


def thrown_gimbals(light, root, speed):
    """`on_gimbals`, a closed configuration, and a velocity that keeps it so, with the crank at that speed (rad/s)."""
    tree, loops = on_gimbals(light, root)
    q = closed_weld(tree, loops, tree.random(3))
    crank = tree.v_slices[tree.link_names.index("crank")].start
    return tree, loops, q, consistent(tree, loops, q, speed * np.eye(tree.nv)[crank])


def closed_weld(tree, loops, q):
    """A configuration near ``q`` at which welds are closed, by Newton's method on their errors."""
    kernel = ds.compile(tree, loops, "joint_space_motion")
    for _ in range(100):
        *_, J, errors, _, _ = kernel(q, np.zeros(tree.nv), np.zeros(tree.nv))
        dq = -np.linalg.lstsq(J, errors, rcond=1e-9)[0]
        q = tree.integrate(q, dq * min(1.0, 0.2 / np.abs(dq).max(initial=1e-300)))
    assert np.abs(errors).max() < 1e-12
    return q


def largest_error(tree, loops, q):
    """Of loops (m, rad), at any of the states."""
    still = np.zeros((*q.shape[:-1], tree.nv))
    return np.abs(ds.compile(tree, loops, "joint_space_motion")(q, still, still)[5]).max()


@pytest.mark.slow
@pytest.mark.parametrize(("light", "root"), [(1e-3, "fixed"), (1e-6, "fixed"), (1e-6, "floating")])
def test_rods_on_gimbals_without_mass_keep_their_loops_and_their_energy(light, root):
    """Thrown at 20 rad/s, under gravity alone."""
    tree, loops, q, v = thrown_gimbals(light, root, 20.0)
    sim = ds.Simulator(ds.Scene(tree, loops=loops), q0=q, v0=v, dt=1e-3)
    qs, vs = [sim.q], [sim.v]
    for _ in range(1000):
        sim.step()
        qs.append(sim.q)
        vs.append(sim.v)
    qs, vs = np.array(qs), np.array(vs)
    kinetic = ds.kinetic_energy(tree, qs, vs)
    energy = kinetic + ds.potential_energy(tree, qs)
    assert largest_error(tree, loops, qs) < 1e-4
    assert np.ptp(energy) < 0.02 * kinetic.max()
    assert not sim.statuses


@pytest.mark.slow
@pytest.mark.parametrize(
    ("light", "root", "speed"), [(1e-3, "fixed", 5.0), (1e-6, "fixed", 20.0), (1e-6, "floating", 20.0)]
)
def test_rods_on_gimbals_strike_the_ground_as_in_the_simulator(light, root, speed):
    """Loops of links of next to no mass: sub-steps, what loops leave of impulses, and errors that are taken back."""
    tree, loops, q, v = thrown_gimbals(light, root, speed)
    rod = ds.Frame("rod", (0.25, 0.0, 0.0))
    if ds.frame_velocity(tree, q, v, rod, reference="local-world-aligned")[2] > 0.0:
        v = -v
    height = ds.forward_kinematics(tree, q, rod)[2, 3] - 0.05 - 0.01
    ground = Collider("world", HalfSpace(), (0.0, 0.0, height), friction=1.0)
    scene = ds.Scene(tree, [Collider("rod", Sphere(0.05), rod.position, friction=0.09), ground], loops=loops)
    p, sim = beside_simulator(scene, q, v, np.zeros(tree.nv), 80, 1e-3, tolerance=1e-11, sweeps=2000)
    assert p[2] > 0.0 and len(sim.contacts)


@pytest.mark.slow
@pytest.mark.parametrize(("light", "root"), [(1e-3, "fixed"), (1e-6, "fixed"), (1e-6, "floating")])
def test_contact_steps_of_rods_on_gimbals_keep_their_loops_and_their_energy(light, root):
    """Thrown at 20 rad/s, in compiled steps, far above the ground."""
    tree, loops, q, v = thrown_gimbals(light, root, 20.0)
    ground = ds.Contact(ds.Frame("rod", (0.25, 0.0, 0.0)), Sphere(0.05), ds.Frame("world", (0.0, 0.0, -1e4)))
    qs, vs, *_ = ds.rollout(ds.compile(tree, [*loops, ground], "contact_step"), q, v, np.zeros((1000, tree.nv)), 1e-3)
    kinetic = ds.kinetic_energy(tree, qs, vs)
    assert largest_error(tree, loops, qs) < 1e-6
    assert np.ptp(kinetic + ds.potential_energy(tree, qs)) < 1e-4 * kinetic.max()


@pytest.fixture(scope="module")
def ball():
    """A spatial four-bar with a ball joint that touches ground: robot, constraints, its step, and states.

    States are all arguments: six near the ground, two in flight, and one under joint forces that ask for sub-steps.
    Ground stops all of what moves in one direction: without friction where it overlaps, as it would neither stick nor
    slide, and else where the ball comes to it in the step, and still slides.
    """
    tree, loops = four_bar(lean=0.3)
    q = closed(tree, loops, tree.integrate(tree.neutral(), np.array([1.0, 0.1, 0.2, -0.5, 2.0])))
    v = consistent(tree, loops, q, np.array([4.0, 0.0, 0.0, 0.0, 0.0]))
    tip, rng, n = ds.Frame("coupler", (0.3, 0.0, 0.0)), np.random.default_rng(0), 9
    constraints = [*loops, ds.Contact(tip, Sphere(0.05), "input")]
    step = ds.compile(tree, constraints, "contact_step", friction="input", tolerance=1e-12, sweeps=1000)
    overlaps, normal = np.array([1e-3, -5e-5, -5e-5, 1e-3, 1e-3, -5e-5, -1.0, -1.0, -1.0]), np.array([-0.48, 0.36, 0.8])
    heights = ds.forward_kinematics(tree, q, tip)[2, 3] + (overlaps - 0.05) / normal[2]
    ground = np.hstack([heights[:, None], np.tile(normal, (n, 1))])[:, None]
    speeds = v * rng.uniform(-1.0, 1.0, (n, 1)) + 1e-2 * rng.normal(size=(n, tree.nv))  # opens loops a little
    tau = np.where(np.arange(n) < 8, 1e-2, 20.0)[:, None] * rng.normal(size=(n, tree.nv))
    friction = np.where(overlaps > 0.0, 0.0, 0.3)[:, None]
    given = [np.tile(q, (n, 1)), speeds, np.zeros((n, 3)), tau, np.full(n, 1e-3), ground, friction]
    touch = step(*given)[2][:, 2] > 0.0
    assert 0 < touch.sum() < n
    return tree, constraints, step, given


SMALL, AGREES = 2e-8, 1e-6
"""Step of differences, over which no mode may change, and their errors over the largest; 3e-8 is seen."""


@pytest.mark.slow
def test_derivatives_of_contact_steps_with_loops(ball):
    """Differences of the step, over one sub-step and over several; and transposed."""
    (_, _, step, given), rng = ball, np.random.default_rng(1)
    along = [rng.normal(size=x.shape) for x in given[:2]] + [0.0 * x for x in given[2:]]
    along[0][-1] = 0.0  # differences of what bends much: errors grow with the square of the step
    *found, status = step.derivative("jvp")(*given, *along, return_status=True)
    ends = [step(*(x + side * SMALL * y for x, y in zip(given, along, strict=True))) for side in (1.0, -1.0)]
    wanted = [(after - before) / (2.0 * SMALL) for after, before in zip(*ends, strict=True)]
    for x, y in zip(found[:3], wanted[:3], strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=AGREES * np.abs(y).max(initial=1.0))
    assert (status == ds.DynamicsStatus.SOLVED).all()
    bars = [rng.normal(size=x.shape) for x in found]
    back = step.derivative("vjp")(*given, *bars)
    one, other = (sum((a * b).reshape(len(status), -1).sum(axis=1) for a, b in zip(*pair, strict=True))
                  for pair in ((bars, found), (back, along)))  # fmt: skip
    np.testing.assert_allclose(other, one, rtol=0, atol=1e-11 * np.abs(one).max())


@pytest.mark.slow
def test_all_derivatives_at_once_with_loops(ball):
    """In flight, on the ground, over one sub-step and several, with loops that gape: differences, in tangents."""
    (tree, constraints, step, given), rng = ball, np.random.default_rng(2)
    given, closed_at = [x.copy() for x in given], given[0]
    given[0][2:5] = tree.integrate(given[0][2:5], 0.1 * rng.normal(size=(3, tree.nv)))
    before, now = (ds.forward_kinematics(tree, x, constraints[1].frame)[:, 2, 3] for x in (closed_at, given[0]))
    given[5][:, 0, 0] += now - before
    how = {"friction": "input", "tolerance": 1e-12, "sweeps": 1000}
    *found, status = ds.compile(tree, constraints, "contact_step_derivatives", **how)(*given, return_status=True)
    (after, _, impulses, _, A, B, *_), n, nv, h = found, len(status), tree.nv, SMALL
    assert (status == ds.DynamicsStatus.SOLVED).all()
    acts = impulses[:, 2] > 0.0
    assert acts[2] and acts[3] and found[-1][given[6][:, 0] > 0.0].min() > 1e4 * h
    direction, ends = rng.normal(size=(n, 3 * nv)), []
    direction[-1, :nv] = 0.0
    for s in (h, -h):
        dq, dv, du = np.split(s * direction, 3, axis=1)
        end = step(tree.integrate(given[0], dq), given[1] + dv, given[2], given[3] + du, *given[4:])
        ends.append(np.concatenate([tree.difference(after, end[0]), end[1]], axis=1))
    wanted, whole = (ends[0] - ends[1]) / (2 * h), np.concatenate([A, B], axis=2)
    np.testing.assert_allclose(
        np.einsum("nij,nj->ni", whole, direction), wanted, rtol=0, atol=AGREES * np.abs(whole).max()
    )


@pytest.mark.slow
def test_smoothed_derivatives_with_loops():
    """Where a frictionless contact is about to act, the mean of those with it and without it: one law for all modes."""
    tree, loops = four_bar()
    q = closed(tree, loops, np.array([1.0, -0.5, 2.0]))
    v = consistent(tree, loops, q, np.array([-4.0, 0.0, 0.0]))
    tip, normal, dt = ds.Frame("coupler", (0.3, 0.0, 0.0)), np.array([0.0, 0.8, 0.6]), 1e-3
    contact = ds.Contact(tip, Sphere(0.05), "input", friction=0.0)
    step = ds.compile(tree, [*loops, contact], "contact_step", tolerance=1e-12, sweeps=1000, smoothing="input")
    height, tangents = ds.forward_kinematics(tree, q, tip)[2, 3], step.derivative("jvp")

    def at(gap, smoothing):
        return q, v, np.zeros(3), np.zeros(3), dt, [[height - (0.05 + gap) / normal[2], *normal]], smoothing

    near = [-1e-3, 1e-2]  # gaps, in the first of which the contact acts
    for _ in range(50):
        middle = 0.5 * sum(near)
        near[int(step(*at(middle, 0.0))[2][2] == 0.0)] = middle
    for dv in np.eye(3):
        along = np.zeros(3), dv, np.zeros(3), np.zeros(3), 0.0, np.zeros((1, 4)), 0.0
        places = (near[0] - 1e-11, 0.0), (near[1] + 1e-11, 0.0), (near[1], 0.5)
        acts, free, smoothed = (tangents(*at(*place), *along)[1] for place in places)
        assert np.abs(acts - free).max() > 0.1 * np.abs(free).max()
        np.testing.assert_allclose(smoothed, 0.5 * (acts + free), atol=1e-7)
    with pytest.raises(ds.DelassusError, match="expected the first, of steps with contacts"):
        step.derivative("jvp", "jvp")


@pytest.fixture(scope="module")
def gimbals():
    """Rod on gimbals without mass: robot, loops, step, closed configuration, velocity with the crank at 1 rad/s."""
    tree, loops = on_gimbals(1e-6)
    q = closed_weld(tree, loops, tree.random(3))
    v = consistent(tree, loops, q, np.eye(tree.nv)[tree.v_slices[tree.link_names.index("crank")].start])
    return tree, loops, ds.compile(tree, loops, "step", integrator="rk4"), q, v


@pytest.mark.slow
def test_steps_that_are_too_long_for_loops_have_a_status(gimbals):
    """A rod on gimbals thrown at great speeds: steps that cannot follow say so before loops gape by a millimetre."""
    tree, loops, _, q, v = gimbals
    for formulation in ("blocks", "os"):
        sim = ds.Simulator(ds.Scene(tree, loops=loops), q0=q, v0=500.0 * v, dt=0.3, formulation=formulation)
        flagged = False
        for _ in range(3):
            sim.step()
            flagged |= sim.status in (ds.contact.SolverStatus.COARSE_STEP, ds.contact.SolverStatus.LOOPS_OPEN)
            assert flagged or largest_error(tree, loops, sim.q) < 1e-3
        assert flagged


@pytest.mark.parametrize(("gained", "says"), [(0.0, "CONVERGED"), (0.018, "CONVERGED"), (0.022, "COARSE_STEP")])
def test_steps_that_gain_energy_have_a_status(gimbals, gained, says):
    """2 % of the kinetic energy are too much; here it is measured with another gravity, which makes a gain of it."""
    tree, loops, _, q, v = gimbals
    sim = ds.Simulator(ds.Scene(tree, loops=loops), q0=q, v0=20.0 * v, dt=1e-3)
    sim.step()
    start, before = sim.energy(), sim.get_state()
    sim.step()
    work = start[1] - sim.energy()[1]
    other = replace(tree, gravity=(1.0 - gained * start[0] / work) * tree.gravity)
    sim.set_state(before)
    energies = ds.compile(other, (), "energies")
    sim._steps.model.loop_motion.calls[0, [6, 9]] = energies.code.place(1)  # before and after a step
    sim.step(0.1 * np.eye(tree.nv)[tree.v_slices[tree.link_names.index("crank")].start])
    assert sim.status.name == says


@pytest.mark.slow
def test_rollouts_of_rods_on_gimbals_keep_their_loops_and_their_energy(gimbals):
    """Thrown at speeds that steps of 1 ms follow, and that they do not follow; under a policy, too."""
    tree, loops, step, q, v = gimbals
    q, v, n = np.stack([q, q]), np.multiply.outer([20.0, 300.0], v), 60
    qs, vs, status = ds.rollout(step, q, v, np.zeros((n, tree.nv)), 1e-3, return_status=True)
    assert {s.name for s in status.ravel()} == {"SOLVED"}
    assert largest_error(tree, loops, qs) < 1e-4
    kinetic = ds.kinetic_energy(tree, qs, vs)
    assert np.all(np.ptp(kinetic + ds.potential_energy(tree, qs), axis=0) < 0.02 * kinetic.max(axis=0))
    found = ds.rollout(step, q, v, lambda t, q, v: np.zeros(tree.nv), 1e-3, steps=n, decimation=20)
    for x, y in zip(found, (qs, vs), strict=True):
        np.testing.assert_array_equal(x[:, 0], y[:, 0])
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-3 * np.abs(y).max())  # other steps are made of sub-steps
    coarse, fine = (
        ds.rollout(step, q[0], 1000.0 * v[0] / 20.0, np.zeros((10 * k, tree.nv)), 1e-3 / k)[0][::k] for k in (1, 32)
    )  # of halves of halves, down to where they follow
    assert np.abs(tree.difference(coarse, fine)).max() < 1e-5  # 9e-8 was seen, 2e-3 where steps are halved once


@pytest.mark.slow
def test_rollouts_say_where_loops_open_before_they_gape(gimbals):
    """At velocities that open them, and so at once beside one that keeps them; not where they are open at the start."""
    tree, loops, step, q, v = gimbals
    q, v = np.stack([q, q, tree.random(0)]), np.stack([v, np.ones(tree.nv), v])
    how = {"controls": np.zeros((20, tree.nv)), "dt": 1e-3}
    qs, _, status = ds.rollout(step, q, v, **how, return_status=True, time_axis=0)
    opened = [largest_error(tree, loops, x[1]) > 1e-4 for x in qs[1:]]
    assert largest_error(tree, loops, qs[-1, 1]) > 1e-3
    np.testing.assert_array_equal(status[:, 1] == ds.DynamicsStatus.LOOPS_OPEN, opened)
    assert {s.name for s in status[:, [0, 2]].ravel()} == {"SOLVED"}
    with pytest.warns(ds.DelassusWarning, match=f"{sum(opened)} of 60 state.*LOOPS_OPEN: loops gape"):
        ds.rollout(step, q, v, **how, time_axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_rates_of_rows_are_derivatives_of_their_velocities(seed):
    """Along a motion whose velocities keep their axes in the world, under gravity, to the world and between links."""
    tree = some_scene([0, 9, 15, 42][seed])[0].tree
    rng = np.random.default_rng(seed)
    names = [tree.link_names[0], tree.link_names[-1]]
    loops = [ds.Weld(names[0]), ds.Point(names[1], axes="world"), ds.Hinge(names[0], axis=Y, axes="world")]
    loops += [ds.Point(*names), ds.Weld(*names)] if len(set(names)) == 2 else []
    kernel, update = ds.compile(tree, loops, "joint_space_motion"), ds.compile(tree, (), "position_update")
    q, v, none, h = tree.random(rng), rng.normal(size=tree.nv), np.zeros(tree.nv), 1e-4

    def velocities(time):
        q_next, v_next = update(q, v, time, none)
        return kernel(q_next, v_next, none)[4] @ v_next

    eighth = (velocities(-2 * h) - 8 * velocities(-h) + 8 * velocities(h) - velocities(2 * h)) / (12 * h)
    rates = kernel(q, v, none)[6]
    # round-off of velocities over the step, and h⁴ of the motion
    np.testing.assert_allclose(rates, eighth, atol=1e-8 * (1 + np.abs(rates).max()))


@pytest.mark.parametrize("joint_kind", [joint_kinds.FREE, joint_kinds.BALL, joint_kinds.PLANAR])
def test_displacements_leave_velocities_in_the_world_as_they_are(joint_kind):
    """Linear and angular, of a joint that is displaced against its velocity; lone free bodies keep momentum instead."""
    tree = build_tree(
        "two",
        [RawLink("base", 1.0), rod("body", 0.3), rod("tip", 0.2)],
        [joint("j", joint_kind, "base", "body", (0, 0, 0)), joint("k", joint_kinds.REVOLUTE, "body", "tip", (0, 0, 0))],
    )
    rng = np.random.default_rng(1)
    q, v, shift = tree.random(rng), rng.normal(size=tree.nv), rng.normal(size=tree.nv)
    q_next, v_next = ds.compile(tree, (), "position_update")(q, v, 0.1, shift)
    before, after = (
        ds.frame_velocity(tree, x, y, "body", reference="local-world-aligned") for x, y in ((q, v), (q_next, v_next))
    )
    np.testing.assert_allclose(after, before, atol=1e-13)


@pytest.mark.parametrize("formulation", ["blocks", "os"])
def test_taking_an_overlap_back_leaves_the_angular_velocity_in_the_world_as_it_is(formulation):
    """A long box overlaps the floor at one end by 5 cm and lifts off: it spins as one that meets no floor."""
    shape, tilt = Box(0.6, 0.1, 0.1), 0.3
    body = ds.mechanisms.free_body(1.0, shape.inertia(1.0))
    lowest = 0.3 * np.sin(tilt) + 0.05 * np.cos(tilt)
    q0 = np.array([0, 0, lowest - 0.05, 0.0, np.sin(tilt / 2), 0.0, np.cos(tilt / 2)])
    sims = []
    for z in (0.0, -10.0):
        scene = ds.Scene(body, [Collider("body", shape), Collider("world", HalfSpace(), (0, 0, z))], gravity=(0, 0, 0))
        v0 = [0.0, 0.0, 5.0, 2.0, 0.5, 3.0]
        sims.append(ds.Simulator(scene, q0=q0, v0=v0, formulation=formulation, max_overlap=0.1))
        sims[-1].step()
    spins = [ds.frame_velocity(body, sim.q, sim.v, "body", reference="world")[3:] for sim in sims]
    np.testing.assert_allclose(*spins, atol=1e-13)
    assert np.abs(sims[0].q - sims[1].q)[3:].max() > 1e-3  # it is turned out of the floor


def overconstrained():
    """The planar four-bar whose coupler is on a ball joint and held to the rocker by a hinge.

    Of its five rows four are independent once it is closed; in the open, with the coupler out of the plane, all are.
    """
    tree, (point,) = four_bar(lean=1e-300)
    return tree, [ds.Hinge(point.first, point.second, axis=Z)]


def closed_states(n):
    """Closed configurations of the overconstrained four-bar, velocities that keep it closed, joint forces."""
    planar, loop = four_bar()
    (tree, hinge), rng = overconstrained(), np.random.default_rng(0)
    angles = [closed(planar, loop, np.array([crank, 0.5, 1.5])) for crank in rng.uniform(0.2, 1.2, n)]
    q = np.stack([tree.configuration({"crank": a[0], "rocker": a[2]}) for a in angles])
    at = tree.q_index("coupler")
    q[:, at] = np.stack([[0.0, 0.0, np.sin(a[1] / 2), np.cos(a[1] / 2)] for a in angles])
    J = ds.jacobian(tree, hinge, q)
    v, tau = rng.normal(size=(n, tree.nv)), rng.normal(size=(n, tree.nv))
    return q, v - (np.linalg.pinv(J, rcond=1e-9) @ (J @ v[..., None]))[..., 0], tau


def test_rank_of_rows_where_loops_are_closed():
    tree, hinge = overconstrained()
    assert np.linalg.matrix_rank(ds.jacobian(tree, hinge, tree.random(0))) == 5
    assert rank_when_closed(tree, hinge) == (4, 5)
    assert rank_when_closed(*four_bar()) == (2, 3)
    assert rank_when_closed(*four_bar(lean=0.3)) == (3, 3)
    assert rank_when_closed(tree, [ds.Weld("rocker")]) is None  # no loop
    apart = ds.Point(ds.Frame("crank", (2.0, 0, 0)), ds.Frame("rocker", (0, 0, 5.0)))
    assert rank_when_closed(tree, [apart]) is None  # no configuration closes it
    tree, rods = parallelogram()
    assert rank_when_closed(tree, rods) == (1, 2)
    assert rank_when_closed(tree, [ds.Distance(*rods[0].frames)]) == (1, 1)  # of any length


@pytest.mark.parametrize("seed", range(6))
def test_traces_run_as_they_are_defined(seed, monkeypatch):
    """Steps that close a loop of a random mechanism, and its rows there, as the interpreter of traces makes them."""
    found = []

    class Both(Traced):
        def __init__(self, ops, outputs, n):
            super().__init__(ops, outputs, n)
            self.defined = lambda x: interpret_trace(ops, outputs, x)

        def __call__(self, x):
            made = super().__call__(x)
            found.append((made, self.defined(x)))
            return made

    monkeypatch.setattr(closed_loops, "Traced", Both)
    tree = some_mechanism(seed, 5, ("fixed", "floating")[seed % 2]).tree
    ends = (ds.Frame(name, (0.1, 0.2, 0.3)) for name in (tree.link_names[-1], tree.link_names[0]))
    rank_when_closed(tree, [ds.Distance(*ends, length=0.5) if seed % 3 else ds.Point(*ends)])
    assert found
    for made, defined in found:
        for x, y in zip(made, defined, strict=True):
            apart = np.abs(x - y).max(axis=1) > 1e-7 * (1.0 + np.abs(y).max(axis=1))
            assert apart.mean() < 0.1  # from afar, steps amplify what is rounded


def test_rows_are_dependent_where_loops_are_closed_or_everywhere():
    """And not where loops, or nothing, make them so."""
    arm = ds.mechanisms.chain(3)
    twice = [ds.Rows("link3", np.eye(6)[:1])] * 2
    for (tree, rows), expected in (
        (overconstrained(), True), (four_bar(lean=0.3), False), ((arm, twice), True), ((arm, twice[:1]), False)
    ):  # fmt: skip
        assert requested(tree, rows, "dynamics_derivatives").has_dependent_rows is expected


def right(tree, loop, states, qdd, forces):
    """Whether they are the accelerations and the forces of least norm: iterations tell forces apart to ε / 1e-10."""
    dense = ds.forward_dynamics(tree, *states, loop, method="kkt")
    assert {s.name for s in dense.status} == {"REDUNDANT"}
    known = dense.forces[0]
    assert np.abs(qdd - dense.qdd).max() < 1e-11 * np.abs(dense.qdd).max()
    assert np.abs(forces - known).max() < 4 * np.finfo(float).eps / 1e-10 * np.abs(known).max()


@pytest.mark.filterwarnings("ignore::delassus.DelassusWarning")
def test_auto_solves_loops_that_are_dependent_once_closed():
    """Kernels say why they take `proximal`; direct calls solve any dependent rows."""
    tree, hinge = overconstrained()
    kernel, states = ds.compile(tree, hinge, "dynamics"), closed_states(6)
    assert kernel.method == "proximal" and "of 5 rows of loops 4 are independent" in str(kernel.plan)
    right(tree, hinge, states, *kernel(*states))
    direct = ds.forward_dynamics(tree, *states, hinge)
    right(tree, hinge, states, direct.qdd, direct.forces[0])
    tilted, point = four_bar(lean=0.3)
    assert ds.compile(tilted, point, "dynamics").method == "ltl"  # of so few links
    assert ds.compile(tree, hinge, "dynamics", compliance=1e-4).method == "pv-early"
    assert ds.compile(tree, hinge, "dynamics", method="ltl").plan is None


def parallelogram():
    """Two cranks side by side, and two rods of the length of the ground: one would do."""
    links = [RawLink("base", 1.0), rod("left", CRANK), rod("right", CRANK)]
    places = {"left": (0, 0, 0), "right": (GROUND, 0, 0)}
    joints = [joint(name, joint_kinds.REVOLUTE, "base", name, at) for name, at in places.items()]
    rods = [
        ds.Distance(*(ds.Frame(name, (part * CRANK, 0, 0)) for name in places), length=GROUND) for part in (1.0, 0.5)
    ]
    return build_tree("parallelogram", links, joints), rods


def test_distances_that_are_dependent_once_closed():
    tree, rods = parallelogram()
    kernel = ds.compile(tree, rods, "dynamics")
    assert kernel.method == "proximal" and "of 2 rows of loops 1 are independent" in str(kernel.plan)
    q, v, tau = np.array([0.4, 0.4]), np.array([0.3, 0.3]), np.array([0.1, -0.2])
    dense = ds.forward_dynamics(tree, q, v, tau, rods)
    assert dense.status[()].name == "REDUNDANT"
    qdd, _ = kernel(q, v, tau)
    assert np.abs(qdd - dense.qdd).max() < 1e-11 * np.abs(dense.qdd).max()  # 6e-16 here
    assert abs(qdd[0] - qdd[1]) < 1e-11 * np.abs(qdd).max()


def test_planar_loops_stay_in_compiled_code(recwarn):
    tree, loop = four_bar()
    q = np.stack([closed(tree, loop, np.array([crank, 0.5, 1.5])) for crank in np.linspace(0.2, 1.2, 6)])
    v, tau = np.random.default_rng(0).normal(size=(2, 6, 3))
    right(tree, loop, (q, v, tau), *ds.compile(tree, loop, "dynamics")(q, v, tau))
    assert not recwarn.list, "states have left compiled code"


@pytest.mark.parametrize("formulation", ["blocks", "os"])
@pytest.mark.parametrize("friction", [0.0, 0.1])
def test_a_step_takes_back_the_same_part_of_an_error_whatever_acts(formulation, friction):
    """Two links that a row couples fall; friction of their joints slips, or there is none."""
    tree = ds.mechanisms.pendulum(2)
    joints = tuple(replace(joint, friction=np.full(1, friction)) for joint in tree.joints)
    loop = ds.JointRows({tree.joint_names[0]: 1.0, tree.joint_names[1]: -1.0}, rest=1e-4)
    scene = ds.Scene(replace(tree, joints=joints), loops=[loop])
    sim = ds.Simulator(scene, q0=[0.4, 0.4], formulation=formulation, correction=0.3)
    for k in range(1, 4):
        sim.step()
        assert sim.joint_impulses.any() == (friction > 0.0)
        assert sim.q[0] - sim.q[1] - 1e-4 == pytest.approx(-1e-4 * 0.7**k, rel=1e-6)
