"""Impacts whose outcome is known on paper, where some of the bodies rest on others; energy never grows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import delassus as ds
from delassus.contact import Box, Capsule, Collider, HalfSpace, Sphere
from internals import SOLVED

pytest.importorskip("coal")

G, DT = 9.81, 1e-3
IDENTITY = (0.0, 0.0, 0.0, 1.0)
SOLVERS = ("newton", "lemke", "nsgs")
ACCURACY = 1e-5
"""Of velocities (m/s): ten times the tolerance of contact problems, of which an impact solves two."""


def scene_of(shapes: list[Any], masses: Any, restitution: float, friction: float, *, gravity: float = G) -> ds.Scene:
    """Free bodies ``b0``, ``b1``, … and a floor, all of one material."""
    material = {"friction": friction, "restitution": restitution}
    bodies = {
        f"b{k}": ds.mechanisms.free_body(m, s.inertia(m)) for k, (s, m) in enumerate(zip(shapes, masses, strict=True))
    }
    colliders = [Collider(f"b{k}/body", shape, **material) for k, shape in enumerate(shapes)]
    return ds.Scene(bodies, [*colliders, Collider("world", HalfSpace(), **material)], gravity=(0, 0, -gravity))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(4))
def test_a_ball_bounces_off_a_box_that_rests(seed: int, solver: str) -> None:
    """With the same ε everywhere, the floor returns to the box what the ball takes from it: the box stays."""
    rng = np.random.default_rng(seed)
    masses, e, drop = 10 ** rng.uniform(-1.5, 1.5, 2), rng.uniform(0.2, 1.0), rng.uniform(0.01, 0.05)
    box, ball = Box(0.2, 0.3, 0.1), Sphere(0.05)
    place = [*rng.uniform(-0.05, 0.05, 2), 0.15 + drop]
    scene = scene_of([box, ball], masses, e, rng.uniform(0.0, 1.0))
    sim = ds.Simulator(scene, solver=solver, dt=DT, q0=[0, 0, 0.05, *IDENTITY, *place, *IDENTITY])
    while sim.v[8] <= 0.0 and sim.time < 0.2:
        sim.step()
    expected, early = np.zeros(12), 0.5 * DT  # velocities are half a step behind
    fallen = np.sqrt(early**2 + 2.0 * drop / G)  # s, from rest half a step before the start
    expected[8] = e * G * fallen - G * (sim.time - fallen)
    assert sim.v == pytest.approx(expected, abs=ACCURACY)
    assert set(sim.statuses) <= set(SOLVED)


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(4))
def test_a_box_strikes_a_row_of_boxes(seed: int, solver: str) -> None:
    """All move as one after compression; what they took, by ε, parts the first from the others."""
    rng = np.random.default_rng(seed)
    n, e, speed = int(rng.integers(2, 7)), rng.uniform(0.0, 1.0), rng.uniform(0.5, 2.0)
    masses, side = 10 ** rng.uniform(-1.0, 1.0, n), 0.1
    q0 = np.array([[k * side, 0, side / 2, *IDENTITY] for k in range(n)])
    q0[0, 0] -= 0.01
    v0 = np.zeros((n, 6))
    v0[0, 0] = speed
    scene = scene_of([Box(side, side, side)] * n, masses, e, 0.0)
    sim = ds.Simulator(scene, solver=solver, dt=DT, q0=q0.ravel(), v0=v0.ravel())
    while sim.v[6] <= ACCURACY and sim.time < 0.1:
        sim.step()
    together = speed * masses[0] / masses.sum()
    expected = np.zeros((n, 6))
    expected[:, 0] = (1.0 + e) * together
    expected[0, 0] = together - e * (speed - together)
    lengths = [1.0, 1.0, 1.0, side, side, side]
    assert sim.v.reshape(n, 6) * lengths == pytest.approx(expected * lengths, abs=ACCURACY)
    assert set(sim.statuses) <= set(SOLVED)


APART = 1e-5
"""Gap (m) between balls of a cradle that are to be struck one after the other."""


@pytest.mark.parametrize(("n", "strikers"), [(2, 1), (3, 1), (5, 1), (5, 2), (5, 3), (20, 1)])
def test_a_cradle_is_struck_as_one_or_ball_by_ball(n: int, strikers: int) -> None:
    """Balls that touch are one body, twice the common velocity in the second phase; 10 µm apart, as many leave."""
    for gap in (0.0, APART):
        scene = scene_of([Sphere(0.05)] * n, np.ones(n), 1.0, 0.0, gravity=0.0)
        places = np.arange(n) * (0.1 + gap) - 0.02 * (np.arange(n) < strikers)
        v0 = np.zeros((n, 6))
        v0[:strikers, 0] = 1.0
        sim = ds.Simulator(
            scene, dt=DT, q0=np.ravel([[x, 0, 1, *IDENTITY] for x in places]), v0=v0.ravel(), tolerance=1e-8
        )
        sim.run(0.1)
        common, first = strikers / n, v0[:, 0]
        expected = first[::-1] if gap else 2.0 * common - first
        assert sim.v.reshape(n, 6)[:, 0] == pytest.approx(expected, abs=ACCURACY)
        assert sim.energy().kinetic == pytest.approx(0.5 * strikers, abs=ACCURACY)
        assert set(sim.statuses) <= set(SOLVED)


@pytest.mark.turns(4)
@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("towering", "gap"), [(True, 0.0), (True, 0.01), (False, 0.0), (False, 1e-4)])
def test_boxes_that_bounce_perfectly_go_on(towering: bool, gap: float, solver: str) -> None:
    """Nothing is lost or gained: not by bounces of single boxes, of rows that fall together, or of towers."""
    n, side, drop = 6, 0.1, 0.02
    time = 0.5 if towering else 1.0  # each bounce parts boxes of a tower twenty times as far, from round-off on
    along = [2 if towering else 0]
    q0 = np.array([[0, 0, side / 2 + drop, *IDENTITY]] * n)
    q0[:, along] += (np.arange(n) * (side + gap))[:, None]
    scene = scene_of([Box(side, side, side)] * n, [1.0] * n, 1.0, 0.0)
    sim = ds.Simulator(scene, solver=solver, dt=DT, q0=q0.ravel())
    before = sum(sim.energy())
    for _ in range(round(time / DT)):
        sim.step()
        assert sum(sim.energy()) == pytest.approx(before, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
def test_no_impact_gains_energy(solver: str) -> None:
    """Clusters of balls that fly at one another, with any masses, ε and μ, without gravity."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        n, radius = int(rng.integers(2, 7)), 0.05
        scene = scene_of([Sphere(radius)] * n, 10 ** rng.uniform(-1.0, 1.0, n), rng.uniform(0, 1), rng.uniform(0, 1.5),
                         gravity=0.0)  # fmt: skip
        places = np.array([[x, y, 0.0] for x in range(3) for y in range(2)])[:n] * 2.0 * radius
        q0 = np.column_stack([places + np.array([0, 0, radius]), np.tile(IDENTITY, (n, 1))])
        sim = ds.Simulator(scene, solver=solver, dt=DT, q0=q0.ravel(), v0=rng.normal(size=6 * n))
        energy = sim.energy()[0]
        for _ in range(5):
            sim.step()
            assert sim.energy()[0] <= energy * (1.0 + 1e-9)
            energy = sim.energy()[0]


@pytest.mark.turns(4)
@pytest.mark.slow
@pytest.mark.parametrize(("solver", "max_iterations"), [("newton", 1), ("newton", 3), ("nsgs", 2), ("pgs", 3)])
def test_impulses_that_are_not_solved_for_are_safe(solver: str, max_iterations: int) -> None:
    """Heaps of balls on a floor, thrown at random, with masses from grams to tonnes: few sweeps do not solve them."""
    rng = np.random.default_rng(6)
    n, radius, unsolved = 12, 0.05, 0
    for _ in range(8):
        friction = rng.uniform(0, 2)
        scene = scene_of(
            [Sphere(radius)] * n, 10 ** rng.uniform(-3, 3, n), rng.choice([0.0, 0.9]), friction, gravity=0.0
        )
        places = np.array([[x, y, z] for z in range(3) for x in range(2) for y in range(2)]) * 2.0 * radius
        q0 = np.column_stack([places + np.array([0, 0, radius]), np.tile(IDENTITY, (n, 1))]).ravel()
        sim = ds.Simulator(scene, solver=solver, dt=DT, q0=q0, max_iterations=max_iterations)
        for _ in range(16):
            sim.q, sim.v = q0, rng.normal(size=6 * n) * 10 ** rng.uniform(-2, 2)
            before = sim.energy()[0]
            sim.step()
            unsolved += sim.status not in SOLVED
            p = sim.impulses
            assert sim.energy()[0] <= before * (1.0 + 1e-9)
            beyond = np.maximum(np.linalg.norm(p[:, :2], axis=1) - friction * p[:, 2], -p[:, 2])
            assert beyond.max() <= 1e-12 * np.abs(p).max()
    assert unsolved > 60


HEIGHTS = (0.23, 0.31, 0.47, 0.61, 0.83, 1.02)


@pytest.mark.parametrize(("restitution", "dt"), [(1.0, 4e-3), (0.8, 4e-3), (0.8, 1e-3)])
def test_balls_bounce_when_they_touch(restitution: float, dt: float) -> None:
    """The closed form, whatever the time step and wherever in it a ball lands: its parabolas are exact."""
    n, time = len(HEIGHTS), 1.6
    scene = scene_of([Sphere(0.1)] * n, np.ones(n), restitution, 0.0)
    q0 = [[k, 0, 0.1 + height, *IDENTITY] for k, height in enumerate(HEIGHTS)]
    v0 = np.tile([0, 0, 0.5 * G * dt, 0, 0, 0], n)  # half a step behind
    sim = ds.Simulator(scene, dt=dt, q0=np.ravel(q0), v0=v0, tolerance=1e-12)
    sim.run(time)
    for height, found in zip(HEIGHTS, sim.q[2::7] - 0.1, strict=True):
        speed = restitution * np.sqrt(2.0 * G * height)
        left = time - np.sqrt(2.0 * height / G)
        while left > 2.0 * speed / G:
            left -= 2.0 * speed / G
            speed *= restitution
        assert found == pytest.approx(speed * left - 0.5 * G * left**2, abs=1e-10)


@pytest.mark.parametrize("solver", ["nsgs", "pgs"])
def test_what_decompresses_and_sticks_is_solved(solver: str) -> None:
    """A rod that jams against a floor stays: friction holds it though ε presses, which takes and adds no energy.

    The energy of decompression is round-off: it must not decide what part of the impulses is left.
    """
    rng, n, tip = np.random.default_rng(0), 300, ds.Frame("rod1", (0.0, 0.0, -1.0))
    rod, ball = ds.mechanisms.pendulum(1, length=1.0), Sphere(0.05)
    contact = ds.Contact(tip, ball, "input", friction=1.0, restitution=0.5)
    kernel = ds.compile(rod, [contact], "contact_step", solver=solver)
    q, v = rng.uniform(0.2, 0.7, (n, 1)), -rng.uniform(0.5, 2.0, (n, 1))
    ground = np.zeros((n, 1, 4))
    ground[:, 0, 0], ground[:, 0, 3] = ds.forward_kinematics(rod, q, [tip])[:, 0, 2, 3] - ball.radius, 1.0
    found = kernel(q=q, v=v, impulses=np.zeros((n, 3)), tau=np.zeros((n, 1)), dt=DT, ground0=ground)
    assert found.residuals.max() < 1e-6  # the tolerance of kernels
    assert found.v_next == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("seed", range(2))
def test_a_box_that_tumbles_and_bounces_keeps_its_energy(seed: int) -> None:
    """On its corners and edges, with e = 1 and no friction: neither time nor turn of an impact makes any."""
    rng, box, dt = np.random.default_rng(seed), Box(0.2, 0.3, 0.1), 2e-3
    turn = rng.normal(size=4)
    q0 = [0, 0, 0.5, *(turn / np.linalg.norm(turn))]
    scene = scene_of([box], [1.0], 1.0, 0.0)
    sim = ds.Simulator(scene, dt=dt, q0=q0, v0=[0, 0, 0, *(3.0 * rng.normal(size=3))], tolerance=1e-11)
    before, hits = sum(sim.energy()), 0
    for _ in range(500):
        sim.step()
        hits += bool((sim.impulses[:, 2] > 0.0).any())
        assert sum(sim.energy()) == pytest.approx(before, rel=1e-6)  # spins in flight lose 1.4e-7 of it
    assert hits >= 3


@pytest.mark.parametrize("dt", [4e-3, 1e-3])
def test_balls_that_slide_into_a_bounce_leave_it_rolling(dt: float) -> None:
    """Spin in closed form, whatever the time step: friction acts at the surface, not between it and the floor."""
    r, places = 0.1, np.linspace(0.0, 3.0 * dt, 7)
    scene = scene_of([Sphere(r)] * len(places), np.ones(len(places)), 0.7, 0.5, gravity=0.0)
    q0 = [[k, 0, r + 0.05 + place, *IDENTITY] for k, place in enumerate(places)]
    v0 = np.tile([2.0, 0, -3.0, 0, 0, 0], len(places))
    sim = ds.Simulator(scene, dt=dt, q0=np.ravel(q0), v0=v0, tolerance=1e-12)
    sim.run(0.04)
    assert sim.v[4::6] == pytest.approx(2.0 / r * 5.0 / 7.0, rel=1e-9)


def test_momentum_of_a_robot_that_a_ball_hits() -> None:
    """Of both about the pivot of the robot, without gravity: what a step with the hit changes falls by four."""
    ball, material = Sphere(0.1), {"friction": 0.3, "restitution": 0.8}
    robots = {"arm": ds.mechanisms.pendulum(2), "ball": ds.mechanisms.free_body(0.5, ball.inertia(0.5))}
    colliders = [
        Collider("arm/rod2", Capsule(0.05, 0.4), (0, 0, -0.25), **material),
        Collider("ball/body", ball, **material),
    ]
    scene, errors = ds.Scene(robots, colliders, gravity=(0, 0, 0)), []
    for dt in (2e-3, 1e-3):
        worst = 0.0
        for seed in range(5):
            rng = np.random.default_rng(seed)
            place = [0.8 + 0.2 * rng.random(), 0, -0.8 + 0.2 * rng.random(), *IDENTITY]
            q0 = scene.configuration(arm=0.3 * rng.normal(size=2), ball=place)
            v0 = np.array([*(0.5 * rng.normal(size=2)), -3.0, 0, 0.5 * rng.normal(), 0, 0, 0])
            sim = ds.Simulator(scene, dt=dt, q0=q0, v0=v0, tolerance=1e-9)
            while not (sim.impulses > 0.0).any() and sim.time < 1.0:
                before, start = sim.q, sim.v
                sim.step()
            worst = max(worst, abs(about_pivot(scene, sim.q, sim.v, dt) - about_pivot(scene, before, start, dt)))
            assert (sim.impulses > 0.0).any()
        errors.append(worst)
    assert errors[1] < errors[0] / 3.0


def about_pivot(scene: ds.Scene, q: Any, v: Any, dt: float) -> float:
    """Angular momentum about the pivot of an arm (N m s), along its axis, at the time of the velocity."""
    q, v = ds.compile(scene.tree, [], "position_update")(q, v, -0.5 * dt, np.zeros(v.shape))
    p, (x, _, z) = ds.mass_matrix(scene.tree, q) @ v, q[2:5]
    linear = ds.forward_kinematics(scene.tree, q, "ball/body")[:3, :3] @ p[2:5]
    return float(p[0] + p[6] + z * linear[0] - x * linear[2])
