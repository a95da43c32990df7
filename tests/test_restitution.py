"""Impacts whose outcome is known on paper, where some of the bodies rest on others; energy never grows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import delassus as ds
from delassus.contact import Box, Collider, HalfSpace, Sphere
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
        before = sim.v.copy()
        sim.step()
    expected = np.zeros(12)
    expected[8] = -e * before[8] - G * DT  # gravity acts after the impact
    assert sim.v == pytest.approx(expected, abs=ACCURACY)
    assert set(sim.statuses) <= set(SOLVED)


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


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("towering", "gap"), [(True, 0.0), (True, 0.01), (False, 0.0), (False, 1e-4)])
def test_boxes_that_bounce_perfectly_go_on(towering: bool, gap: float, solver: str) -> None:
    """Each bounce of all at speed V costs ``m g V dt``, for gravity brings them into the floor; nothing else does."""
    n, side, drop = 6, 0.1, 0.02
    time = 0.5 if towering else 1.0  # each bounce parts boxes of a tower twenty times as far, from round-off on
    along = [2 if towering else 0]
    q0 = np.array([[0, 0, side / 2 + drop, *IDENTITY]] * n)
    q0[:, along] += (np.arange(n) * (side + gap))[:, None]
    scene = scene_of([Box(side, side, side)] * n, [1.0] * n, 1.0, 0.0)
    sim = ds.Simulator(scene, solver=solver, dt=DT, q0=q0.ravel())
    before = sum(sim.energy())
    sim.run(time)
    fall = drop + (n - 1) * gap * towering
    meetings = time / (2.0 * np.sqrt(2.0 * drop / G)) + 1.0
    assert before - 1.2 * meetings * n * G * np.sqrt(2.0 * G * fall) * DT <= sum(sim.energy()) <= before + 1e-6


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
