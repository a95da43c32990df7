"""Derivatives of steps of scenes, by differences of the steps themselves."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import delassus as ds
from delassus.contact import (
    Box,
    Capsule,
    Collider,
    CollisionDetector,
    Cylinder,
    Ellipsoid,
    HalfSpace,
    Mesh,
    Scene,
    SolverStatus,
    Sphere,
)
from delassus.errors import ConfigurationError
from random_trees import INNER, REVERSIBLE, some_mechanism, some_rotors
from test_closed_loops import closed, consistent, four_bar

DT = 2e-3

NEAR = 1e-7
"""Step of differences, over which no mode may change."""

AGREES = 2e-6
"""Errors of differences of a step, over its largest derivative: residuals of 1e-12 m/s over `NEAR`, and its powers;
the worst that was seen is 2e-7."""


CURVED = 100.0
"""Errors of Euler's theorem over the step (1/s), which moves the bodies that touch: 4 here."""


@pytest.fixture(scope="module")
def scene():
    """An arm, limited and rubbing, over a box on a belt, with a capsule across, and two balls that bounce.

    Rotors at the arm, of the box along axes of the world, of the capsule along axes of its own.
    """
    arm, box = ds.mechanisms.pendulum(3), ds.mechanisms.free_body(2.0, Box(0.4, 0.3, 0.2).inertia(2.0))
    rod = ds.mechanisms.free_body(0.5, np.diag([0.01, 0.01, 0.002]))
    limits = {"lower": np.full(1, -0.5), "upper": np.full(1, 0.9), "friction": np.full(1, 0.02)}
    joints = [replace(j, **limits, armature=np.full(1, 0.05)) for j in arm.joints]
    of_box = replace(box.joints[0], armature=np.repeat([0.7, 0.02], 3), armature_is_straight=True)
    of_rod = replace(rod.joints[0], armature=np.repeat([0.3, 0.01], 3))
    bodies = {
        "arm": replace(arm, joints=tuple(joints)),
        "box": replace(box, joints=(of_box,)),
        "rod": replace(rod, joints=(of_rod,)),
        "ball": ds.mechanisms.free_body(1.0, Sphere(0.1).inertia(1.0)),
        "other": ds.mechanisms.free_body(0.3, Sphere(0.08).inertia(0.3)),
    }
    colliders = [
        Collider("arm/rod3", Sphere(0.05), (0.0, 0.0, -0.5), friction=0.4),
        Collider("box/body", Box(0.4, 0.3, 0.2), friction=0.5),
        Collider("rod/body", Capsule(0.05, 0.2), friction=0.3),
        Collider("ball/body", Sphere(0.1), restitution=0.6),
        Collider("other/body", Sphere(0.08), restitution=0.9, friction=0.2),
        Collider("world", HalfSpace(), (0.0, 0.0, -2.0), restitution=0.5, surface_velocity=(0.3, 0.1, 0.0)),
    ]
    return Scene(bodies, colliders)


def start(scene, rng, struck):
    """A random state in which bodies touch: overlaps up to a fraction of a millimetre, and gaps that close."""
    turn = 0.03 * rng.normal(size=3)
    tip = np.array([0.2, 0.25, -0.3]) + 0.1 * rng.normal(size=3)
    tip[2] = -0.5005 if rng.random() < 0.5 else tip[2]
    angles = np.cumsum(tip)
    x, z = 0.5 * (-np.sin(angles)).sum(), -0.5 * np.cos(angles).sum()
    height = 0.05 + 0.1 - rng.uniform(0.0, 4e-4)

    def pose(place, turn):
        half = np.concatenate([0.5 * np.asarray(turn), [1.0]])
        return [*place, *(half / np.linalg.norm(half))]

    floor = -2.0 + rng.uniform(-3e-4, 3e-4, 4)
    q = scene.configuration(
        arm=tip,
        box=pose((x, 0.0, z - height), turn),
        rod=pose((x + 0.1, 0.1, z - height + 0.1 + 0.0497), (np.pi / 2 + 0.1, 0.05, 0.02)),
        ball=pose((2.0, 1.0, floor[1] + 0.1), rng.normal(size=3)),
        other=pose((2.0 + 0.1, 1.0, floor[1] + 0.1 + 0.15), rng.normal(size=3)),
    )
    v = 0.3 * rng.normal(size=scene.tree.nv)
    if struck:
        v[-10] = v[-4] = -2.0
    return q, v


def with_lengths(scene, rng):
    """The scene with torsional and rolling friction of some colliders, and some without Coulomb's."""
    colliders = list(scene.colliders)
    for k, c in enumerate(colliders):
        mu, lengths = rng.choice([0.0, 1.0, 1.0]), rng.uniform(0.5, 1.0, 2) * rng.choice([0.0, 1.0, 3.0], 2)
        colliders[k] = replace(c, friction=mu * c.friction, torsional=0.03 * lengths[0], rolling=0.01 * lengths[1])
    rule = rng.choice(["max", "geometric-mean", "harmonic-mean"])
    return Scene(dict(scene.robots), colliders, loops=scene.loops, friction_rule=str(rule))


def modes_of_patches(sim):
    """What contacts of the last step with torsional or rolling friction do."""
    c, out = sim.contacts, []
    for k in np.flatnonzero((c.torsional > 0.0) | (c.rolling > 0.0)):
        lengths, mu, n = np.array([c.rolling[k], c.rolling[k], c.torsional[k]]), c.friction[k], sim.impulses[k, 2]
        held = [
            *(sim.impulses[k, :2] / mu if mu else ()),
            *(sim.angular_impulses[k][lengths > 0.0] / lengths[lengths > 0.0]),
        ]
        out.append("open" if n == 0.0 else "sticks" if np.linalg.norm(held) < 0.999 * n else "slides")
    return out


def differences(sim, state, controls, directions, near=NEAR):
    """Changes of the step from a state along columns of ``[q; v; controls]``, by central differences of order 4."""
    tree, nv = sim.scene.tree, sim.scene.tree.nv
    sim.set_state(state)
    sim.step(controls)
    q_next = sim.q

    def after(d):
        sim.set_state({**state, "q": tree.integrate(state["q"], d[:nv]), "v": state["v"] + d[nv : 2 * nv]})
        sim.step(controls + d[2 * nv :])
        return np.concatenate([tree.difference(q_next, sim.q), sim.v])

    def along(d):
        return (8.0 * (after(d) - after(-d)) - (after(2.0 * d) - after(-2.0 * d))) / 12.0

    return np.stack([along(near * d) / near for d in directions.T], axis=1)


@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("struck", [False, True])
def test_derivatives_of_a_step_are_those_of_differences(scene, struck, lengths):
    rng, nv, seen, plain, modes = np.random.default_rng(5), scene.tree.nv, 0, scene, Counter()
    for _ in range(10 if lengths else 6):
        q, v = start(plain, rng, struck)
        scene = with_lengths(plain, rng) if lengths else plain
        sim = ds.Simulator(scene, q0=q, v0=v, dt=DT, tolerance=1e-13, max_overlap=1.0)
        state, controls = sim.get_state(), rng.normal(size=nv)
        sim.step(controls)
        found = sim.step_derivatives()
        assert found.status is SolverStatus.CONVERGED
        if found.distance < 1e-3:
            continue
        seen += 1
        modes.update(modes_of_patches(sim))
        directions = rng.normal(size=(3 * nv, 4))
        wanted = differences(sim, state, controls, directions)
        made = found.A @ directions[: 2 * nv] + found.B @ directions[2 * nv :]
        assert np.abs(made - wanted).max() < AGREES * np.abs(wanted).max()
    assert seen >= 3 and (not lengths or min(modes[x] for x in ("open", "sticks", "slides")) >= 4)


@pytest.fixture(scope="module")
def linkage():
    """A planar four-bar whose crank has limits and rubs, a ball on its coupler, and states of both."""
    tree, loops = four_bar()
    joints = [replace(j, lower=np.full(1, -2.0), upper=np.full(1, 1.0), friction=np.full(1, 0.02)) for j in tree.joints]
    bodies = {"bar": replace(tree, joints=(joints[0], *tree.joints[1:])),
              "ball": ds.mechanisms.free_body(0.5, Sphere(0.05).inertia(0.5))}  # fmt: skip
    shapes = Collider("bar/coupler", Sphere(0.05), (0.3, 0.0, 0.0), friction=0.4), Collider("ball/body", Sphere(0.05))
    scene = Scene(bodies, [replace(x, restitution=0.6) for x in shapes], loops=[x.prefixed("bar/") for x in loops])

    def start(rng, gape, fast):
        angles = closed(tree, loops, [rng.uniform(0.6, 0.999), -0.5, 2.0]) + gape * rng.normal(size=3)
        q = scene.configuration(bar=angles, ball=[0.0, 0.0, 0.0, 0.1, 0.2, 0.3, np.sqrt(0.86)])
        towards = np.array([*rng.normal(size=2), 0.3])
        place = ds.forward_kinematics(scene.tree, q, ds.Frame("bar/coupler", (0.3, 0.0, 0.0)))[:3, 3]
        at = scene.tree.q_index("ball/root_joint")
        q[at.start : at.start + 3] = place + (0.1 + rng.uniform(-3e-4, 3e-4)) * towards / np.linalg.norm(towards)
        v = 0.3 * rng.normal(size=9)
        v[scene.tree.v_index("bar/crank").start :][:3] = consistent(tree, loops, angles, np.r_[v[0], 0.0, 0.0])
        v[scene.tree.v_index("ball/root_joint")][:3] -= fast * towards
        return q, v

    return scene, start


def test_derivatives_of_steps_with_loops_are_those_of_differences(linkage):
    """A redundant row, impacts, limits and friction of a joint, and loops that gape, whose errors are taken back.

    Half of them with torsional and rolling friction, too.
    """
    (plain, start), nv, seen = linkage, linkage[0].tree.nv, [0, 0]
    patches, rngs = plain.with_material(torsional=0.02, rolling=0.01), [np.random.default_rng(1) for _ in range(2)]
    for k in range(16):
        scene, rng = ((plain, rngs[0]), (patches, rngs[1]))[k // 8]
        q, v = start(rng, 0.02 * (k % 4 == 3), float(k % 2))
        sim = ds.Simulator(scene, q0=q, v0=v, dt=DT, tolerance=1e-13, max_overlap=1.0)
        state, controls, directions = sim.get_state(), rng.normal(size=nv), rng.normal(size=(3 * nv, 4))
        sim.step(controls)
        found = sim.step_derivatives()
        assert found.status is SolverStatus.CONVERGED
        if found.distance > 1e-3:
            wanted = differences(sim, state, controls, directions)
            seen[k // 8] += k < 8 or np.abs(sim.angular_impulses).max(initial=0.0) > 0.0
            made = found.A @ directions[: 2 * nv] + found.B @ directions[2 * nv :]
            assert np.abs(made - wanted).max() < AGREES * np.abs(wanted).max(), k
    assert min(seen) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "loops", "patches"])
def test_gradients_of_trajectories_are_those_of_differences(request, kind):
    """With controls, start and parameters, through impacts: a random function of all states of some steps."""
    loops, rng = kind == "loops", np.random.default_rng(11)
    n = 4 if loops else 8
    scene, begin = request.getfixturevalue("linkage") if loops else (request.getfixturevalue("scene"), None)
    scene = with_lengths(scene, rng) if kind == "patches" else scene
    names = ["friction", "restitution", *(["torsional", "rolling"] if kind == "patches" else [])]
    nv, nq, nc, nl = scene.tree.nv, scene.tree.nq, len(scene.colliders), scene.tree.n_links
    by_q, by_v = rng.normal(size=(n + 1, nq)), rng.normal(size=(n + 1, nv))
    q, v = begin(rng, 0.0, 1.0) if loops else start(scene, rng, True)
    controls, sizes = rng.normal(size=(n, nv)), [nv, nv, n * nv, *(nc for _ in names), nl]

    def loss(q, v):
        return (by_q * q).sum() + 0.5 * (by_v * v * v).sum(), by_q, by_v * v

    def after(x):
        """The function where all that varies is changed by ``x``."""
        of_q, of_v, of_u, *material, mass = np.split(x, np.cumsum(sizes[:-1]))
        ends = np.cumsum([tree.n_links for tree in scene.robots.values()])
        scaled = {
            name: replace(tree, inertias=tree.inertias * (1.0 + dm / tree.inertias[:, 0, 0])[:, None, None])
            for (name, tree), dm in zip(scene.robots.items(), np.split(mass, ends[:-1]), strict=True)
        }
        colliders = [
            replace(c, **{x: getattr(c, x) and getattr(c, x) + d for x, d in zip(names, own, strict=True)})
            for c, *own in zip(scene.colliders, *material, strict=True)
        ]
        sim = ds.Simulator(
            Scene(scaled, colliders, loops=scene.loops, friction_rule=scene.friction_rule),
            q0=scene.tree.integrate(q, of_q),
            v0=v + of_v,
            dt=DT,
            tolerance=1e-13,
            max_overlap=1.0,
        )
        states = [(sim.q, sim.v)]
        for u in controls + of_u.reshape(n, nv):
            sim.step(u)
            states.append((sim.q, sim.v))
        return loss(*map(np.array, zip(*states, strict=True)))[0]

    sim = ds.Simulator(scene, q0=q, v0=v, dt=DT, tolerance=1e-13, max_overlap=1.0)
    found = sim.gradient(loss, controls, parameters=(*names, "mass"))
    assert (sim.q == q).all() and sim.steps == 0
    assert {*found.statuses} == {SolverStatus.CONVERGED} and found.distance > 1e-4
    with_all = [found.q0, found.v0, found.controls.ravel(), *(found.parameters[k] for k in names)]
    with_all.append(found.parameters["mass"])
    gradient = np.concatenate(with_all)
    assert all(np.abs(part).max() > 0.0 for part in with_all)
    for part, size in enumerate(sizes):
        d = np.zeros(len(gradient))
        at = sum(sizes[:part])
        d[at : at + size] = NEAR * rng.normal(size=size)
        wanted = (8.0 * (after(d) - after(-d)) - (after(2.0 * d) - after(-2.0 * d))) / 12.0
        assert abs(gradient @ d - wanted) < 1e-5 * NEAR * np.abs(gradient).max()


def test_gradients_of_two_hundred_steps_with_bounces():
    """Of balls that bounce, far from where they start."""
    rng, n, steps = np.random.default_rng(0), 5, 200
    bodies = {f"ball{k}": ds.mechanisms.free_body(m, np.diag(0.005 * (1.0 + rng.random(3)))) for k, m in
              enumerate(0.5 + rng.random(n))}  # fmt: skip
    colliders = [Collider(f"{k}/body", Sphere(0.1), friction=0.3, restitution=0.8) for k in bodies]
    scene = Scene(bodies, [*colliders, Collider("world", HalfSpace(), friction=0.5, restitution=0.8)])
    q, nv = scene.tree.neutral().reshape(n, 7), scene.tree.nv
    q[:, :3] = 0.25 * np.array(list(np.ndindex(2, 2, 2)))[:n] + 0.015 * rng.normal(size=(n, 3)) + [0.0, 0.0, 0.15]
    sim = ds.Simulator(scene, q0=q.ravel(), v0=rng.normal(size=nv), dt=DT, tolerance=1e-13)
    state, controls = sim.get_state(), 0.3 * rng.normal(size=(steps, nv))
    by_q, by_v = rng.normal(size=(steps + 1, scene.tree.nq)), rng.normal(size=(steps + 1, nv))

    def loss(q, v):
        return (by_q * q).sum() + (by_v * v).sum(), by_q, by_v

    found, bounces = sim.gradient(loss, controls), 0
    of_controls, of_v = rng.normal(size=(steps, nv)), rng.normal(size=nv)

    def after(x):
        nonlocal bounces
        sim.set_state({**state, "v": state["v"] + x * of_v})
        states = [(sim.q, sim.v)]
        for u in controls + x * of_controls:
            sim.step(u)
            bounces += int((sim.impulses[:, 2] > 0.0).sum())
            states.append((sim.q, sim.v))
        return loss(*map(np.array, zip(*states, strict=True)))[0]

    wanted = (after(1e-8) - after(-1e-8)) / 2e-8
    assert {*found.statuses} == {SolverStatus.CONVERGED} and bounces >= 10
    assert abs((found.controls * of_controls).sum() + found.v0 @ of_v - wanted) < 1e-5 * abs(wanted)


def test_smoothed_bounces_have_their_time():
    """Height and velocity of a ball after a bounce, by the height it falls from: the closed form, up to the step."""
    ball = ds.mechanisms.free_body(1.0, Sphere(0.1).inertia(1.0))
    colliders = [Collider("body", Sphere(0.1), restitution=0.6), Collider("world", HalfSpace(), restitution=0.6)]
    sim = ds.Simulator(Scene(ball, colliders), q0=[0.0, 0.0, 0.2, 0.0, 0.0, 0.0, 1.0], dt=DT)
    fall, left = np.sqrt(0.2 / 9.81), 0.25 - np.sqrt(0.2 / 9.81)
    wanted = -0.6 + 1.6 * left / fall, 1.6 / fall
    for smoothing in (0.05, 0.5):
        for k in range(2):

            def last(q, v, k=k):
                by_q, by_v = np.zeros_like(q), np.zeros_like(v)
                (by_q, by_v)[k][-1, 2] = 1.0
                return (q, v)[k][-1, 2], by_q, by_v

            found = sim.gradient(last, np.zeros((125, 6)), smoothing=smoothing)
            assert abs(found.q0[2] - wanted[k]) < 4.0 * DT / fall * wanted[1] * (left, 1.0)[k]  # a few steps' part


@pytest.mark.parametrize("seed", [2238, 2579])
def test_bounces_that_give_back_less_than_asked_for(seed):
    """With all of it energy would grow. Twice as fast is twice as fast after it, whatever part is taken (Euler)."""
    rng, r = np.random.default_rng(seed), 1e-3
    n = int(rng.integers(2, 5))
    places, normals = rng.uniform(-0.5, 0.5, (n, 3)), 0.7 * rng.standard_normal((n, 3)) + [0.0, 0.0, 1.0]
    places[:, 2] = -0.5
    normals *= r / np.linalg.norm(normals, axis=1)[:, None]
    restitution, friction = rng.integers(0, 2, n) if seed % 3 else rng.random(n), rng.uniform(0.0, 1.5, n)
    colliders = [
        Collider(link, Sphere(r), place + side * normal, friction=mu, restitution=float(e))
        for place, normal, e, mu in zip(places, normals, restitution, friction, strict=True)
        for link, side in (("body", 1.0), ("world", -1.0))
    ]
    body = ds.mechanisms.free_body(1.0, (0.02, 0.1, 0.4)[seed % 3] * np.eye(3))
    v, dt = 3.0 * rng.standard_normal(6) - [0.0, 0.0, 2.0, 0.0, 0.0, 0.0], 1e-7
    start = {"q0": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], "v0": v}
    sim = ds.Simulator(Scene(body, colliders, gravity=(0, 0, 0)), **start, dt=dt, tolerance=1e-12)
    sim.step()
    found = sim.step_derivatives()
    assert found.status is SolverStatus.RESTITUTION_REDUCED
    after = np.asarray(found.A) @ [*np.zeros(6), *v]
    assert np.abs(after[6:] - sim.v).max() < CURVED * dt * np.abs(sim.v).max()


def test_bounces_under_loops_are_those_of_kernels():
    """Of a four-bar whose coupler bounces, with changes that open its loop, too; smoothed ones and exact ones."""
    (tree, loops), nv = four_bar(), 3
    tip, normal = ds.Frame("coupler", (0.3, 0.0, 0.0)), np.array([0.48, 0.64, 0.6])
    q = closed(tree, loops, np.array([1.0, -0.5, 2.0]))
    v = consistent(tree, loops, q, np.array([4.0, 0.0, 0.0])) + 1e-3 * np.random.default_rng(0).normal(size=nv)
    across = np.cross([1.0, 0.0, 0.0], normal) / np.linalg.norm([0.64, 0.6])
    place, turn = ds.forward_kinematics(tree, q, tip)[:3, 3], np.array([np.cross(across, normal), across, normal]).T
    ground, how = ds.Frame("world", place - 0.05003 * normal, turn), {"friction": 0.0, "restitution": 0.6}
    kernel = ds.compile(
        tree, [*loops, ds.Contact(tip, Sphere(0.05), ground, **how)], "contact_step_derivatives",
        smoothing="input", outputs=("v_next", "A", "B"), tolerance=1e-12,
    )  # fmt: skip
    colliders = [Collider("coupler", Sphere(0.05), tip.position, **how),
                 Collider("world", HalfSpace(), ground.position, turn, **how)]  # fmt: skip
    sim = ds.Simulator(Scene(tree, colliders, loops=loops), q0=q, v0=v, dt=1e-3, tolerance=1e-12)
    sim.step()
    changes = list[np.ndarray]()
    for smoothing in (0.0, 0.1):
        v_next, A, B = kernel(q, v, np.zeros(3), np.zeros(nv), 1e-3, smoothing)
        found = sim.step_derivatives(smoothing=smoothing or None)
        changes.append(np.asarray(found.A))
        np.testing.assert_allclose(sim.v, v_next, rtol=0, atol=1e-11)
        np.testing.assert_allclose(found.A, A, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found.B, B, rtol=0, atol=1e-11)
    assert np.abs(changes[1] - changes[0]).max() > 0.1  # smoothed ones have the time of the impact


def test_derivatives_with_target_configurations(scene):
    rng, nv, n = np.random.default_rng(2), scene.tree.nv, 4
    q, v = start(scene, rng, False)
    gains = {"kp": np.r_[30.0 + rng.random(3), np.zeros(nv - 3)], "kd": np.r_[rng.random(3), np.zeros(nv - 3)]}
    sim = ds.Simulator(scene, q0=q, v0=v, dt=DT, tolerance=1e-13, max_overlap=1.0, control="pd", **gains)
    state, target = sim.get_state(), q + np.r_[0.1 * rng.normal(size=3), np.zeros(len(q) - 3)]
    sim.step(target)
    found = sim.step_derivatives()
    directions = rng.normal(size=(2 * nv + len(q), n))
    directions[2 * nv + 3 :] = 0.0  # targets of what no motor moves
    wanted = differences(sim, state, target, directions)
    made = found.A @ directions[: 2 * nv] + found.B @ directions[2 * nv :]
    assert found.distance > 1e-3 and np.abs(np.asarray(found.B)[:, :3]).max() > 0.0
    assert np.abs(made - wanted).max() < AGREES * np.abs(wanted).max()
    assert np.abs(found.A.tocsr() @ directions[: 2 * nv] - found.A @ directions[: 2 * nv]).max() < 1e-9


RULES = {"geometric-mean": lambda a, b: np.sqrt(a * b), "max": max, "harmonic-mean": lambda a, b: 2 * a * b / (a + b)}


@pytest.mark.parametrize("rule", RULES)
def test_friction_of_two_colliders(rule):
    """The same in `Simulator` and constraints of kernels, and derivatives by either coefficient."""
    ball, (a, b) = ds.mechanisms.free_body(1.0, Sphere(0.1).inertia(1.0)), np.random.default_rng(0).uniform(0.1, 0.9, 2)

    def slid(a, b):
        colliders = [Collider("body", Sphere(0.1), friction=a), Collider("world", HalfSpace(), friction=b)]
        sim = ds.Simulator(
            Scene(ball, colliders, friction_rule=rule), q0=[0, 0, 0.1, 0, 0, 0, 1], v0=[2, 1, 0, 0, 0, 0], dt=DT
        )
        sim.step()
        return sim

    assert slid(0.0, 0.0).scene.constraints()[0].friction == 0.0
    sim = slid(a, b)
    assert sim.contacts.friction == pytest.approx(RULES[rule](a, b), rel=1e-15)
    assert sim.scene.constraints()[0].friction == sim.contacts.friction[0]
    found = np.asarray(sim.step_derivatives(parameters=["friction"]).with_parameters["friction"])[6:]
    steps = [(slid(a + d, b + e).v - slid(a - d, b - e).v) / 2e-6 for d, e in ((1e-6, 0), (0, 1e-6))]
    assert np.abs(found - np.transpose(steps)).max() < 1e-6 * np.abs(found).max()


def test_what_sleeps_stays_where_it_is_put():
    ball = ds.mechanisms.free_body(1.0, Sphere(0.1).inertia(1.0))
    sim = ds.Simulator(
        Scene(ball, [Collider("body", Sphere(0.1)), Collider("world", HalfSpace())]),
        q0=[0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0], dt=DT, sleep=0.02,
    )  # fmt: skip
    with pytest.raises(ConfigurationError, match="a step to differentiate"):
        sim.step_derivatives()
    sim.run(0.1)
    found = sim.step_derivatives()
    assert sim.asleep.all() and np.abs(np.asarray(found.B)).max() == 0.0
    assert np.abs(np.asarray(found.A) - np.diag([1.0] * 6 + [0.0] * 6)).max() == 0.0


def test_contacts_that_iterations_find():
    """Pairs of curved shapes, one of them moved along the normal until they overlap.

    Of boxes an edge or a corner, and each face: the axes of the last three boxes point up, the way they move.
    """
    rng = np.random.default_rng(3)
    shapes = {"tin": Cylinder(0.1, 0.2), "egg": Ellipsoid(0.1, 0.15, 0.12), "rod": Capsule(0.05, 0.3),
              "die": Box(0.2, 0.2, 0.2)}  # fmt: skip
    pairs = [("tin", "egg"), ("egg", "rod"), ("rod", "tin"), ("die", "tin"), ("egg", "die"), ("tin", "tin")]
    pairs += [("die", "egg")] * 3
    bodies = [shape for pair in pairs for shape in pair]
    inertia = np.diag([0.01, 0.012, 0.008])
    scene = Scene(
        {f"body{k}": ds.mechanisms.free_body(1.0, inertia) for k in range(len(bodies))},
        [Collider(f"body{k}/body", shapes[name], friction=0.3) for k, name in enumerate(bodies)],
    )
    q, v = scene.tree.neutral().reshape(-1, 7), 0.2 * rng.normal(size=(len(bodies), 6))
    q[:, 3:] = rng.normal(size=(len(bodies), 4))
    q[:, 3:] /= np.linalg.norm(q[:, 3:], axis=1)[:, None]
    q[-6::2, 3:] = np.sqrt(0.5) * np.array([[0, -1, 0, 1], [1, 0, 0, 1], [0, 0, 0, np.sqrt(2.0)]])
    q[:, 0], q[1::2, 2] = 2.0 * (np.arange(len(bodies)) // 2), 0.45
    v[1::2, :3] = rng.normal(size=(len(pairs), 3))
    v[-6::2, :3] = np.eye(3)
    R = Rotation.from_quat(q[:, 3:]).as_matrix()
    near = CollisionDetector(scene).contacts(np.concatenate([R, q[:, :3, None]], axis=2), 1.0)
    for links, depth, frame in zip(near.links, near.depths, near.frames, strict=True):
        q[links[1], :3] += (3e-4 - depth) * frame[:, 2]
    sim = ds.Simulator(scene, q0=q.ravel(), v0=v.ravel(), dt=DT, tolerance=1e-13, max_overlap=1.0)
    state, controls = sim.get_state(), rng.normal(size=v.size)
    sim.step(controls)
    found, directions = sim.step_derivatives(), rng.normal(size=(2 * v.size, 3))
    assert len(sim.contacts) == len(pairs) and sim.impulses.any(axis=1).sum() >= 3
    assert found.status is SolverStatus.CONVERGED and found.distance > 1e-3
    wanted = differences(sim, state, controls, np.vstack([directions, np.zeros((v.size, 3))]))
    assert np.abs(found.A @ directions - wanted).max() < AGREES * np.abs(wanted).max()


@pytest.mark.parametrize("name", ["box", "hull", "ball"])
def test_derivatives_of_steps_over_a_seam(name):
    """Contacts that are sought where the step ends change with its velocities, too.

    A ball is within 2e-7 m of both tiles, now and then: differences are not to pass the zero of gaps.
    """
    corners = np.array([(x, y, z) for x in (-0.05, 0.05) for y in (-0.05, 0.05) for z in (-0.05, 0.05)])
    shape = {"box": Box(0.1, 0.1, 0.1), "hull": Mesh(corners), "ball": Sphere(0.05)}[name]
    body, rng, seen = ds.mechanisms.free_body(1.0, np.diag([1.6e-3, 1.8e-3, 2e-3])), np.random.default_rng(4), 0
    rounds = [(0.4, 0.0)] * (9 if name == "ball" else 0) + [(0.0, 0.0), (0.4, 0.0), (0.4, 0.02), (0.4, 0.02)]
    for friction, length in rounds:
        given = {"friction": friction, "torsional": length, "rolling": length}
        tiles = [Collider("world", Box(1, 1, 0.2), (x, 0, -0.1), **given) for x in (-0.5, 0.5)]
        scene, v = Scene(body, [Collider("body", shape, friction=friction), *tiles]), rng.uniform(0.5, 3.0)
        ahead, height = (0.0, 0.05 - 5e-6) if name == "ball" else (0.05, 0.05 + 4e-5)
        tilt = 4e-4 * rng.normal(size=2)
        q0 = [-ahead - rng.uniform(0.1, 0.9) * v * DT, 0.01, height, *tilt, 0.0, np.sqrt(1.0 - tilt @ tilt)]
        sim = ds.Simulator(scene, q0=q0, v0=[v, 0, -1e-3, *0.3 * rng.normal(size=3)], dt=DT, tolerance=1e-13)
        state = sim.get_state()
        sim.step()
        found, directions = sim.step_derivatives(), rng.normal(size=(12, 3))
        on_second = sim.impulses.any(axis=1) & (sim.contacts.colliders == 2).any(axis=1)
        if found.status is not SolverStatus.CONVERGED or found.distance < 1e-5:
            continue
        seen += on_second.any()
        gaps = np.abs(sim.contacts.depths)
        near = NEAR if gaps[gaps > 0.0].min() > 5.0 * NEAR else 0.1 * NEAR
        wanted = differences(sim, state, np.zeros(6), np.vstack([directions, np.zeros((6, 3))]), near)
        assert np.abs(found.A @ directions - wanted).max() < AGREES * np.abs(wanted).max()
    assert seen >= 1


def test_derivatives_of_steps_over_a_seam_of_large_tiles():
    """Contacts on paths change as numbers do: differences by parts of the size of both would be too large there."""
    body = ds.mechanisms.free_body(1.0, np.diag([1.6e-3, 1.8e-3, 2e-3]))
    tiles = [Collider("world", Box(1, 100, 0.2), (x, 0, -0.1), friction=0.4) for x in (-0.5, 0.5)]
    scene, v = Scene(body, [Collider("body", Box(0.1, 0.1, 0.1), friction=0.4), *tiles]), [1, 0, -1e-3, 0.1, 0.2, 0.3]
    q = [-0.0505, 0.01, 0.05 + 4e-5, 1e-4, 2e-4, 0.0, 1.0]
    sim = ds.Simulator(scene, q0=q, v0=v, dt=DT, tolerance=1e-13)
    state = sim.get_state()
    sim.step()
    found, directions = sim.step_derivatives(), np.eye(18)[:, :12]
    assert found.status is SolverStatus.CONVERGED and found.distance > 1e-4 and sim.impulses.any()
    wanted = differences(sim, state, np.zeros(6), directions)
    assert np.abs(found.A - wanted).max() < AGREES * np.abs(wanted).max()


@pytest.mark.parametrize(("restitution", "length"), [(0.0, 0.0), (0.5, 0.0), (0.0, 0.02)])
def test_derivatives_of_boxes_that_land(restitution, length):
    """On four corners that share loads in any way derivatives are those of differences, or have the status of none.

    The former where all corners slide alike, or three bear; the latter where a box slides and turns on all of them.
    """
    rng, box, seen = np.random.default_rng(0), Box(0.1, 0.12, 0.08), {False: 0, True: 0}
    material = {"friction": 0.5, "restitution": restitution, "torsional": length, "rolling": 0.1 * length}
    colliders = [Collider("body", box, **material), Collider("world", HalfSpace(), **material)]
    scene = Scene(ds.mechanisms.free_body(1.0, box.inertia(1.0)), colliders)
    for k in range(24):
        turn = Rotation.from_rotvec([*rng.choice([0.0, 1e-3]) * rng.normal(size=2), rng.uniform(0.0, 6.0)])
        low = 0.5 * np.abs(turn.as_matrix()[2]) @ [0.1, 0.12, 0.08]
        v = np.array([-1.0, -0.5, -0.5, *rng.normal(size=3)]) * [1, 1, 1, *(k % 3 > 0, k % 3 > 0, k % 2)]
        height = low + rng.uniform(-1e-4, 1e-4)
        sim = ds.Simulator(scene, q0=[0, 0, height, *turn.as_quat()], v0=v, dt=DT, tolerance=1e-13)
        state = sim.get_state()
        sim.step()
        found, turns = sim.step_derivatives(), abs(sim.v[5]) > 1e-6
        known = found.status is SolverStatus.CONVERGED
        assert known or (found.status is SolverStatus.NOT_DIFFERENTIABLE and found.distance == 0.0)
        assert known or (turns and (sim.impulses[:, 2] > 0.0).sum() == 4)
        if known and found.distance > 1e-3:
            wanted = differences(sim, state, np.zeros(6), np.eye(18))[:, :12]
            assert np.abs(np.asarray(found.A) - wanted).max() < AGREES * np.abs(wanted).max()
        seen[known] += known is False or found.distance > 1e-3
    assert min(seen.values()) >= 3


def test_derivatives_of_faces_that_are_almost_parallel():
    """A box on a round table: of which of both faces the normal is."""
    rng, box, seen = np.random.default_rng(6), Box(0.3, 0.25, 0.1), 0
    body, table = ds.mechanisms.free_body(0.5, np.diag([1e-3, 1.2e-3, 2e-3])), Cylinder(0.5, 0.2)
    scene = Scene(body, [Collider("body", box, friction=0.0), Collider("world", table, (0, 0, -0.1), friction=0.0)])
    for _ in range(12):
        tilt, v = 4e-6 * rng.normal(size=2), [0.1, 0.2, -0.01, *(0.02 * rng.normal(size=2)), 0.0]
        q = [0.0, 0.0, 0.04999, *(0.5 * tilt), 0.1, np.sqrt(0.99)]
        sim = ds.Simulator(scene, q0=q, v0=v, dt=DT, tolerance=1e-13)
        state, directions = sim.get_state(), rng.normal(size=(18, 3))
        sim.step()
        found = sim.step_derivatives()
        if found.status is SolverStatus.CONVERGED:
            wanted, seen = differences(sim, state, np.zeros(6), directions), seen + 1
            made = found.A @ directions[:12] + found.B @ directions[12:]
            assert np.abs(made - wanted).max() < AGREES * np.abs(wanted).max()
    assert seen >= 6


TABLE = """<mujoco><worldbody><body name="table"><joint name="hinge" type="hinge" axis="0 0 1"/>
<inertial pos="0 0 0" mass="3" diaginertia="0.1 0.1 0.2"/></body></worldbody></mujoco>"""


PRISM = np.array([(x, y, z) for x, y in ((-0.1, -0.1), (0.2, -0.05), (-0.05, 0.15)) for z in (-0.05, 0.05)])
"""Corners of a body that lies on three of them: how four share friction is not unique."""


def on_a_robot(rng, root):
    """A round foot of a robot that moves in the world by a joint of some kind, and the floor below it."""
    robot = some_rotors(rng, root, None)
    lengths = {"torsional": 0.05, "rolling": 0.02} if root.name == "free" else {}
    foot = Collider("b", Sphere(0.1), rng.normal(size=3), friction=0.5, **lengths)
    q, v, at = robot.random(rng), rng.normal(size=robot.nv), ds.Frame("b", foot.position)
    height, later = (ds.forward_kinematics(robot, x, at)[2, 3] for x in (q, robot.integrate(q, DT * v)))
    floor = Collider("world", HalfSpace(), (0.0, 0.0, height - 0.1 + 1e-5), friction=0.5)
    return Scene(robot, [foot, floor]), q, v if later < height else -v


def what_turns(name, rng):
    """A scene in which contacts turn, and where it starts."""
    ball = Sphere(0.1)
    plane, body = Collider("world", HalfSpace(), friction=0.4), Collider("body", Mesh(PRISM), friction=0.4)
    free, half = ds.mechanisms.free_body(0.5, np.diag([1e-3, 1.2e-3, 2e-3])), np.sqrt(0.5)
    if name == "slides on a ball":
        colliders = replace(body, shape=ball, friction=0.1), Collider("world", Sphere(0.3), friction=0.1)
        colliders = colliders[0], replace(colliders[1], surface_velocity=(0.1, 0.2, 0.05))
        return Scene(free, colliders), [0, 0, 0.39999, 0, 0, 0, 1], [0.5, 0.1, 0, 1.0, 0.4, 2.0]
    if name == "spins on a ball":  # without Coulomb's friction, tangents turn nothing
        colliders = (
            replace(body, shape=ball, friction=0.0, torsional=0.03, rolling=0.01),
            Collider("world", Sphere(0.3)),
        )
        scene = Scene(free, [colliders[0], replace(colliders[1], friction=0.0)])
        return scene, [0, 0, 0.39999, 0, 0, 0, 1], [0.5, 0.1, 0, 0.2, 1.0, 2.0]
    if name in ("rolls on its rim", ROLLS):
        turn = half, 0, 0, half
        colliders = replace(body, shape=Cylinder(0.1, 0.02)), plane
        return Scene(free, colliders), [0, 0, 0.09999, *turn], [-0.5, 0.0, 0, 0.3, 2.0, 5.0]
    if name == "spins on a belt":
        colliders = body, replace(plane, surface_velocity=(0.2, 0.3, 0.1))
        return Scene(free, colliders), [0, 0, 0.04999, 0, 0, 0, 1], [0.4, 0.2, 0, 0, 0, 5.0]
    if name == "on a turning table":
        top = Collider("table/table", Cylinder(0.5, 0.02), (0, 0, -0.01), friction=0.4, surface_velocity=(0, 0.1, 0.2))
        scene = Scene({"table": ds.load(TABLE), "ball": free}, [top, Collider("ball/body", ball, friction=0.4)])
        v = np.zeros(7)
        v[scene.tree.v_index("table/hinge")], v[scene.tree.v_index("ball/root_joint")] = 2.0, [0.3, 0.1, 0, 1, 2, 3.0]
        return scene, scene.configuration(table=[0.3], ball=[0.2, 0.1, 0.09999, 0, 0, 0.3, np.sqrt(0.91)]), v
    if name == RIDES:
        top = Collider("table/table", Cylinder(0.5, 0.02), (0, 0, -0.01), friction=0.4)
        scene = Scene({"table": ds.load(TABLE), "box": free}, [top, replace(body, link="box/body")])
        v = np.zeros(7)
        v[scene.tree.v_index("table/hinge")], v[scene.tree.v_index("box/root_joint")] = 10.0, [0, 0.3, 0, 0, 0, 10.0]
        return scene, scene.configuration(table=[0.0], box=[0.03, 0.0, 0.04999, 0, 0, 0, 1]), v
    if name == "on one another":
        under, over = replace(body, link="box/body"), Collider("ball/body", ball, friction=0.5)
        scene = Scene({"box": free, "ball": free}, [under, over, plane])
        q = scene.configuration(box=[0, 0, 0.04999, 0, 0, 0, 1], ball=[0, 0, 0.19998, *(0, 0.6, 0, 0.8)])
        return scene, q, [0.3, 0.1, 0, 0, 0, 1.0, 0.2, 0.5, 0, 2.0, 1.0, 3.0]
    return on_a_robot(rng, next(kind for kind in INNER if kind.name == name))


ROLLS = "rolls without slip"
"""What turns slips by less than it turns within a step there: offsets are cut."""

RIDES = "rides on a turning table"
"""A face is held there: offsets of its contacts are those of a rigid motion."""

TURNING = ("slides on a ball", "rolls on its rim", "spins on a belt", "on a turning table", "on one another",
           "planar", "free", "spins on a ball", ROLLS, RIDES, "screw")  # fmt: skip

AS_KERNELS = ("rolls on its rim", "spins on a belt", "free", "spins on a ball", "screw")
"""Of these, some that compiled steps are held to: rims, belts, robots, and two with torsional and rolling friction."""

ON_FACES = ("spins on a belt", "on one another", RIDES)
"""Of these, those whose corners hardly turn along their normals: their offsets are cut near where they are."""

ALIKE = 1e-9
"""Difference (m/s) of kernels and scenes, solved to 1e-12 and 1e-13; 1e-10 seen."""

ALIKE_RATES = 1e-7
"""Difference of their derivatives over the largest of these, which are up to 4e3; 2e-9 seen."""


@pytest.mark.slow
@pytest.mark.parametrize("name", TURNING)
def test_derivatives_of_what_turns(name):
    """After some steps, from a state that differs a little: there, what turns gains no energy, and no gap is zero.

    Derivatives of compiled steps are the same.
    """
    rng, seen, alike, kernel = np.random.default_rng(TURNING.index(name)), 0, 0, None
    scene, q, v = what_turns(name, rng)
    sim, nv = ds.Simulator(scene, q0=q, v0=v, dt=DT, tolerance=1e-13, max_overlap=1.0), scene.tree.nv
    near, slip = 4e-8 if name in ON_FACES else 4e-7, {ROLLS: 3e-4, RIDES: 2.5e-3}.get(name, 0.02)
    apart = near if name == RIDES else 100 * near  # what is held opens by little more than it turns within a step
    if name in AS_KERNELS:
        how = {"tolerance": 1e-12, "sweeps": 5000}
        kernel = ds.compile(scene.tree, scene.constraints(), "contact_step_derivatives", **how)
        none = np.zeros(kernel.arguments[2].shape)
    for _ in range(6 if name == RIDES else 8):  # later it opens by less than what is of no matter
        for _ in range(3):
            sim.step()
        sim.q, sim.v = scene.tree.integrate(sim.q, 1e-5 * rng.normal(size=nv)), sim.v + slip * rng.normal(size=nv)
        state, controls, directions = sim.get_state(), rng.normal(size=nv), rng.normal(size=(3 * nv, 3))
        sim.step(controls)
        found, gaps = sim.step_derivatives(), sim.contacts.depths
        assert found.status is not SolverStatus.NOT_DIFFERENTIABLE
        if kernel is not None and found.status is SolverStatus.CONVERGED:
            _, after, _, _, A, B, *_, distance = kernel(state["q"], state["v"], none, controls, DT)
            if np.abs(after - sim.v).max() < ALIKE:  # else one of both finds that turning gains energy
                alike += 1
                for x, y in ((A, found.A), (B, found.B)):
                    assert np.abs(x - y).max() < ALIKE_RATES * np.abs(x).max()
                assert distance == pytest.approx(found.distance, rel=1e-3) or found.distance == np.inf
        is_far = found.distance > apart and np.abs(gaps).min(initial=np.inf) > 5 * near
        if found.status is SolverStatus.CONVERGED and is_far and sim.impulses.any():
            wanted, seen = differences(sim, state, controls, directions, near), seen + 1
            made = found.A @ directions[: 2 * nv] + found.B @ directions[2 * nv :]
            assert np.abs(made - wanted).max() < AGREES * np.abs(wanted).max()
        sim.set_state(state)
    assert seen >= 2 and (kernel is None or alike >= 5)


def test_derivatives_of_what_turns_by_parameters():
    """By friction of colliders and masses of links: what contacts turn by depends on neither."""
    scene, q, v = what_turns("on one another", np.random.default_rng(0))

    def after(d):
        """Velocities after a step with other parameters, and the simulator."""
        changed = [replace(c, friction=c.friction + x) for c, x in zip(scene.colliders, d, strict=False)]
        trees = [replace(t, inertias=(1.0 + x / t.inertias[0, 0, 0]) * t.inertias) for t, x in
                 zip(scene.robots.values(), d[3:], strict=True)]  # fmt: skip
        changed = Scene(dict(zip(scene.robots, trees, strict=True)), changed)
        sim = ds.Simulator(changed, q0=q, v0=v, dt=DT, tolerance=1e-13)
        sim.step()
        return sim.v, sim

    sim = after(np.zeros(5))[1]
    found = sim.step_derivatives(parameters=["friction", "mass"])
    assert found.status is SolverStatus.CONVERGED and found.distance > 1e-3
    made = np.hstack([np.asarray(found.with_parameters[name])[12:] for name in ("friction", "mass")])
    wanted = np.stack([(after(1e-6 * e)[0] - after(-1e-6 * e)[0]) / 2e-6 for e in np.eye(5)], axis=1)
    assert np.abs(made - wanted).max() < AGREES * np.abs(wanted).max()


def test_what_has_no_derivatives_is_refused_by_name(scene):
    sim = ds.Simulator(scene, q0=start(scene, np.random.default_rng(0), False)[0], dt=DT, max_overlap=1.0)
    with pytest.raises(ConfigurationError, match="'mass'"):
        sim.step_derivatives(parameters=["colour"])
    for loss in (None, lambda q, v: 0.0):
        with pytest.raises(ConfigurationError, match="loss: expected three: a number and two arrays"):
            sim.gradient(loss, np.zeros((1, scene.tree.nv)))


def test_derivatives_of_steps_with_led_bodies_are_those_of_differences():
    """With the state before the step, at held poses, and with the pose that a body is led to; a ball bounces off it."""
    ball, still = ds.mechanisms.free_body(1.0, Sphere(0.1).inertia(1.0)), [0.0, 0.0, 0.0, 1.0]
    scene = Scene({"ball": ball}, [Collider("ball/body", Sphere(0.1), restitution=0.5, torsional=0.02)])
    scene = scene.add("slab", Box(6, 6, 0.1), at=(0, 0, -0.15), moved=True, restitution=0.6)
    tree = scene.tree
    before, after = (
        np.array([t * t, 0.2 * t, t, *Rotation.from_rotvec(t * np.array([0.3, -0.1, 0.2])).as_quat()])
        for t in (0.4, 0.401)
    )
    above = before[:3] + Rotation.from_quat(before[3:]).apply([0.2, 0.1, 0.15 + 1e-3])
    q0 = np.concatenate([above, still, before])

    def stepped(change):
        """After a step; ``change`` is of positions, velocities, and of the pose."""
        q, v = tree.integrate(q0, change[:12]), np.concatenate([[0.3, 0.1, -4.0, 0.2, 0, 0], np.zeros(6)])
        sim = ds.Simulator(scene, q0=q, v0=v + change[12:24], tolerance=1e-13, max_overlap=1.0)
        sim.move("slab", tree.integrate([*q0[:7], *after], [*np.zeros(6), *change[24:]])[7:])
        sim.step()
        return sim

    none, unit = np.zeros(30), NEAR * np.eye(30)
    sim = stepped(none)
    found = sim.step_derivatives(parameters=["friction", "restitution", "mass"])
    ends = [[(tree.difference(sim.q, x.q), x.v) for x in map(stepped, (e, -e))] for e in unit]
    wanted = np.array([np.concatenate([a - b for a, b in zip(*two, strict=True)]) for two in ends]).T / (2 * NEAR)
    assert sim.impulses[:, 2].sum() > 1.0 and found.status is SolverStatus.CONVERGED
    made = np.hstack([np.asarray(found.A), np.asarray(found.with_moves)])
    assert np.allclose(made, wanted, atol=AGREES * np.abs(wanted).max())
    assert np.allclose(made[6:12], np.hstack([np.zeros((6, 24)), np.eye(6)]))
    assert all(np.isfinite(np.asarray(x)).all() for x in found.with_parameters.values())

    def height(q, v):
        by_q, by_v = np.zeros_like(q), np.zeros_like(v)
        by_q[-1, 2] = by_v[-1, 3] = 1.0
        return q[-1, 2] + v[-1, 3], by_q, by_v

    at = sim.get_state()
    gradient = sim.gradient(height, np.zeros((3, 12)))

    def end(change):
        sim.set_state({**at, "q": tree.integrate(at["q"], change)})
        sim.run(3e-3)
        return float(height(sim.q[None], sim.v[None])[0])

    by_q = [(end(e) - end(-e)) / (2 * NEAR) for e in unit[:12, :12]]
    assert np.allclose(gradient.q0, by_q, atol=AGREES * np.abs(by_q).max())


def test_derivatives_of_steps_with_loops_on_led_bodies():
    """A lift pulls an arm by its tip, against a servo's damping; across the plane of the arm the loop gapes.

    It goes on, or stops at once: what it weighs says nothing about sub-steps of the arm.
    """
    tree, tip = ds.mechanisms.pendulum(3), ds.Frame("rod3", (0, 0, -0.5))
    scene = Scene(tree).add("lift", Box(0.1, 0.1, 0.1), at=(0.3, 0, -1.2), moved=True)
    q0 = scene.neutral()
    place, way = ds.forward_kinematics(tree, [0.3, 0.4, 0.2], tip)[:3, 3], np.array([1e-3, 0, 1e-4])
    q0[:6] = [0.3, 0.4, 0.2, *place]
    scene = scene.attach(ds.Point(tip, "lift/body"))
    sim = ds.Simulator(scene, q0=q0, dt=1e-3, tolerance=1e-12, control="pd", kd=[20.0, *np.zeros(8)])
    for k in range(1, 4):
        sim.move("lift", place + k * way)
        sim.step(q0)
    state = sim.get_state()

    def stepped(change, goes):
        """After a step; ``change`` is of positions, velocities, and of the place of the lift."""
        sim.set_state({**state, "q": scene.tree.integrate(state["q"], change[:9]), "v": state["v"] + change[9:18]})
        sim.move("lift", place + (3 + goes) * way + change[18:])
        sim.step(q0)
        return sim.q, sim.v

    unit, near = np.eye(21), 1e-6
    for goes in (0, 1):
        ends = [(stepped(near * e, goes), stepped(-near * e, goes)) for e in unit]
        wanted = np.array([np.r_[scene.tree.difference(y[0], x[0]), x[1] - y[1]] / (2.0 * near) for x, y in ends]).T
        stepped(np.zeros(21), goes)
        found = sim.step_derivatives()
        assert found.status is SolverStatus.CONVERGED
        made = np.hstack([np.asarray(found.A), np.asarray(found.with_moves)[:, :3]])
        assert np.abs(made - wanted).max() < AGREES * np.abs(wanted).max()
    sim, none = ds.Simulator(scene, q0=state["q"], v0=state["v"], dt=1e-3, tolerance=1e-12), np.zeros(9)
    state, (by_q, by_v) = sim.get_state(), np.random.default_rng(0).normal(size=(2, 4, 10))

    def loss(q, v):
        return (by_q * q).sum() + (by_v[:, :9] * v).sum(), by_q, by_v[:, :9]

    def total(q):
        sim.set_state({**state, "q": q})
        states = [(sim.q, sim.v)]
        for _ in range(3):
            sim.step(none)
            states.append((sim.q, sim.v))
        return float(loss(*map(np.array, zip(*states, strict=True)))[0])

    gradient = sim.gradient(loss, np.zeros((3, 9)))
    ends = [[total(scene.tree.integrate(state["q"], s * near * e)) for s in (1.0, -1.0)] for e in np.eye(9)]
    wanted = np.array([(a - b) / (2.0 * near) for a, b in ends])
    assert np.abs(gradient.q0 - wanted).max() < AGREES * np.abs(wanted).max()


def test_derivatives_of_planar_arms_that_stick():
    """One tangent of their contact moves nothing, and rows of a contact are turned along its friction."""
    tree, tip, seen, rng = ds.mechanisms.pendulum(3), (0, 0, -0.5), 0, np.random.default_rng(0)
    for _ in range(30):
        q, v, tau = rng.normal(size=3), 0.5 * rng.normal(size=3), 2.0 * rng.normal(size=3)
        height = ds.forward_kinematics(tree, q, ds.Frame("rod3", tip))[2, 3] - 0.05 + 1e-5
        ground = Collider("world", HalfSpace(), (0, 0, height), friction=0.4)
        scene = ds.Scene(tree, [Collider("rod3", Sphere(0.05), tip, friction=0.4), ground])
        sim = ds.Simulator(scene, q0=q, v0=v, tolerance=1e-12, max_overlap=1.0)
        state, directions = sim.get_state(), np.eye(9)
        sim.step(tau)
        found = sim.step_derivatives()
        if found.status is not SolverStatus.CONVERGED or found.distance < 0.01 or not sim.impulses.any():
            continue
        wanted, seen = differences(sim, state, tau, directions), seen + 1
        made = np.hstack([np.asarray(found.A), np.asarray(found.B)])
        assert (
            np.abs(made - wanted).max() < 8.0 * AGREES * np.abs(wanted).max()
        )  # 3.3e-6 is the worst; it was 0.2 and more
    assert seen > 9


def test_masses_of_fast_robots_count_in_velocity_products_of_two_velocities():
    rng, tree, step = np.random.default_rng(0), ds.mechanisms.chain(3), 1e-5
    q, v, tau = tree.random(rng), 5.0 * rng.normal(size=3), rng.normal(size=3)

    def after(added):
        heavier = [(1.0 + dm / H[0, 0]) * H for dm, H in zip(added, tree.inertias, strict=True)]
        sim = ds.Simulator(Scene(replace(tree, inertias=np.array(heavier))), q0=q, v0=v, dt=5e-3)
        sim.step(tau)
        return sim

    made = np.asarray(after(np.zeros(3)).step_derivatives(parameters=["mass"]).with_parameters["mass"])
    ends = [(after(x), after(-x)) for x in step * np.eye(3)]
    wanted = np.array([np.r_[a.q - b.q, a.v - b.v] / (2.0 * step) for a, b in ends]).T
    assert np.abs(made - wanted).max() < 1e-8 * np.abs(wanted).max()  # 2e-4 with products of one velocity


FAST = 1e-7
"""Errors of differences of steps of robots that turn by 0.03 rad in each, over the largest derivative; the worst that
was seen is 1e-10. Left-out changes of velocity products are 1e-4."""


@pytest.mark.parametrize("kind", ["chain", "floating", "rotors"])
def test_velocity_products_of_fast_robots_change_with_all(kind):
    """Derivatives of scenes and of kernels."""
    tree = {
        "chain": lambda: ds.mechanisms.chain(3),
        "floating": lambda: some_mechanism(3, 3, "floating", REVERSIBLE).tree,
        "rotors": lambda: some_rotors(np.random.default_rng(3), [*INNER][1], True),
    }[kind]()
    rng, nv, step, dt = np.random.default_rng(0), tree.nv, 1e-5, 5e-3
    q, v, tau = tree.random(rng), 5.0 * rng.normal(size=nv), rng.normal(size=nv)
    sim = ds.Simulator(Scene(tree), dt=dt)

    def after(change):
        sim.q, sim.v = tree.integrate(q, change[:nv]), v + change[nv : 2 * nv]
        sim.step(tau + change[2 * nv :])
        return sim.q, sim.v

    ends = [(after(x), after(-x)) for x in step * np.eye(3 * nv)]
    wanted = np.array([np.r_[tree.difference(b, a), x - y] / (2.0 * step) for (a, x), (b, y) in ends]).T
    after(np.zeros(3 * nv))
    of_scene, kernel = sim.step_derivatives(), ds.compile(tree, (), "contact_step_derivatives")
    of_kernel = kernel(q, v, np.zeros(0), tau, dt)
    for made in (of_scene, of_kernel):
        found = np.hstack([np.asarray(made.A), np.asarray(made.B)])
        assert np.abs(found - wanted).max() < FAST * np.abs(wanted).max()
