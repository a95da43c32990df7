"""Simulated physics with answers known on paper; steps are small enough that what remains is their own error."""

from __future__ import annotations

import numpy as np
import pytest

import delassus as ds
from delassus.contact import Box, Collider, HalfSpace, Sphere
from internals import SOLVED, quaternion_to_matrix

pytest.importorskip("coal")

G = 9.81
SOLVERS = ("newton", "lemke", "nsgs")
IDENTITY = (0.0, 0.0, 0.0, 1.0)


def floor(*, friction: float = 0.5, restitution: float = 1.0, angle: float = 0.0) -> Collider:
    """Half space whose normal leans by ``angle`` (rad) towards −x. A contact's ε is the mean with that of the body."""
    c, s = np.cos(angle), np.sin(angle)
    return Collider(
        "world", HalfSpace(), rotation=[[c, 0, -s], [0, 1, 0], [s, 0, c]], friction=friction, restitution=restitution
    )


def ball(radius: float = 0.1, mass: float = 2.0) -> ds.Tree:
    return ds.mechanisms.free_body(mass, Sphere(radius).inertia(mass))


def block(shape: Box, mass: float = 2.0) -> ds.Tree:
    return ds.mechanisms.free_body(mass, shape.inertia(mass))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("speed", "friction", "solver"),
    [(1.0, 0.5, "newton"), (2.0, 0.3, "nsgs"), (1.0, 0.5, "lemke"), (0.7, 1.1, "newton")],
)
def test_a_sliding_block_stops_where_friction_says(speed: float, friction: float, solver: str) -> None:
    shape = Box(0.4, 0.4, 0.05)
    scene = ds.Scene(block(shape), [Collider("body", shape, friction=friction), floor(friction=friction)])
    dt = 5e-4
    sim = ds.Simulator(
        scene, solver=solver, q0=[0, 0, 0.025, *IDENTITY], v0=[speed, 0, 0, 0, 0, 0], dt=dt, tolerance=1e-8
    )
    stops = speed / (friction * G)
    sim.run(1.3 * stops + 0.05)
    # explicit in positions: half of speed dt off, which is exact, so that no margin is needed beyond these two
    assert sim.q[0] == pytest.approx(speed**2 / (2 * friction * G), abs=speed * dt)
    assert np.abs(sim.v).max() < 1e-7  # ten times what the solver is held to
    assert np.abs(sim.q[3:6]).max() < 1e-6  # upright, and not turned


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("sticks", [True, False])
def test_a_block_on_a_slope_sticks_below_the_angle_of_friction(sticks: bool, solver: str) -> None:
    friction = 0.4
    angle = np.arctan(friction) + (-0.01 if sticks else 0.01)
    shape = Box(0.4, 0.4, 0.05)
    scene = ds.Scene(block(shape), [Collider("body", shape, friction=friction), floor(friction=friction, angle=angle)])
    normal = np.array([-np.sin(angle), 0, np.cos(angle)])
    half = -angle / 2
    q0 = [*(0.025 * normal), 0, np.sin(half), 0, np.cos(half)]
    sim = ds.Simulator(scene, solver=solver, q0=q0, dt=1e-3, tolerance=1e-8)
    assert len(sim.contacts) == 4
    sim.run(0.5)
    expected = 0.0 if sticks else 0.5 * G * (np.sin(angle) - friction * np.cos(angle))
    assert np.linalg.norm(sim.v[:3]) == pytest.approx(expected, abs=1e-7)
    assert np.abs(sim.v[3:]).max() < 1e-7


@pytest.mark.parametrize("grip", [True, False])
def test_a_spinning_ball_bounces_off_sideways(grip: bool) -> None:
    radius, mass, restitution, spin, drop = 0.1, 2.0, 0.6, -30.0, 3.0
    slip = spin * radius  # velocity of the lowest point, along −x for a positive spin about y
    friction = 1.2 if grip else 0.1
    scene = ds.Scene(
        ball(radius, mass),
        [
            Collider("body", Sphere(radius), friction=friction, restitution=restitution),
            floor(friction=friction, restitution=restitution),
        ],
        gravity=(0, 0, 0),
    )
    v0 = [0, 0, -drop, 0, spin, 0]
    sim = ds.Simulator(scene, q0=[0, 0, radius + 1e-3, *IDENTITY], v0=v0, dt=1e-4, tolerance=1e-9)
    sim.run(0.01)
    normal_impulse = mass * drop * (1 + restitution)
    most = 2.0 / 7.0 * mass * abs(slip)  # what stops the lowest point of a solid ball
    tangential = min(most, friction * normal_impulse)
    assert (tangential == most) is grip
    R = quaternion_to_matrix(sim.q[3:])
    linear, angular = R @ sim.v[:3], R @ sim.v[3:]
    sunk = drop * 1e-4 / radius  # the lever is shorter by up to half of how deep the ball is when it is found to touch
    assert linear[2] == pytest.approx(restitution * drop, rel=1e-9)
    assert linear[0] == pytest.approx(np.sign(slip) * tangential / mass, rel=sunk)
    assert abs(angular[1]) == pytest.approx(abs(spin) - tangential * radius / (0.4 * mass * radius**2), rel=sunk)


def test_two_blows_at_once_stay_symmetric() -> None:
    radius = 0.05
    sphere = Sphere(radius)
    scene = ds.Scene(
        {name: ball(radius, 1.0) for name in ("left", "middle", "right")},
        [Collider(f"{name}/body", sphere, friction=0.3, restitution=0.8) for name in ("left", "middle", "right")],
        gravity=(0, 0, 0),
    )
    q0 = scene.configuration(left=[-0.2, 0, 0, *IDENTITY], right=[0.2, 0, 0, *IDENTITY])
    v0 = scene.velocity(left=[1, 0, 0, 0, 0, 0], right=[-1, 0, 0, 0, 0, 0])
    sim = ds.Simulator(scene, q0=q0, v0=v0, dt=1e-3)
    sim.run(0.2)
    speeds = sim.v.reshape(3, 6)[:, 0]
    assert speeds == pytest.approx([-0.8, 0.0, 0.8], abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
def test_painleve(solver: str) -> None:
    """A slender rod whose sliding tip friction presses into the ground: no force keeps it there while it slides.

    The step has a solution all the same, an impact without collision: whatever the step is, the tip stops at once.
    Dragged the other way, friction lifts the tip, and there is no paradox.
    """
    length, mass, mu, angle, speed = 1.0, 1.0, 2.5, 0.9, 3.0
    rod = ds.mechanisms.free_body(mass, [mass * length**2 / 12, mass * length**2 / 12, 1e-6 * mass])
    tip = Collider("body", Sphere(1e-3), (0, 0, -length / 2), friction=mu)
    scene = ds.Scene(rod, [tip, floor(friction=mu)])
    c, s = np.cos(angle), np.sin(angle)
    q0 = [0, 0, 0.5 * length * c + 1e-3, 0, np.sin(angle / 2), 0, np.cos(angle / 2)]
    x, z = -0.5 * length * s, -0.5 * length * c - 1e-3  # of the point of contact, from the centre of mass
    W = (np.eye(2) + 12 / length**2 * np.array([[z * z, -x * z], [-x * z, x * x]])) / mass  # its mobility
    assert W[1, 1] + mu * W[0, 1] < 0.0 < W[1, 1] - mu * W[0, 1]  # of normal forces as it slides to −x, to +x
    stops = np.linalg.solve(W, [speed, 0.0])
    for dt in (1e-4, 1e-6):
        sim = ds.Simulator(scene, solver=solver, q0=q0, v0=-rod_slides(angle), dt=dt)
        before = sum(sim.energy())
        sim.step()
        impulse = sim.contacts.frames[0] @ sim.impulses[0]
        # forces act for dt besides: an error of the first order, of about 5 dt
        np.testing.assert_allclose(impulse, [stops[0], 0.0, stops[1]], rtol=0, atol=10 * dt)
        assert sum(sim.energy()) - before == pytest.approx(-0.5 * speed * stops[0], abs=10 * dt)
        assert sim.status in SOLVED
    for direction in (-1, 1):
        sim = ds.Simulator(scene, solver=solver, q0=q0, v0=direction * rod_slides(angle), dt=1e-4)
        most = sum(sim.energy())
        for _ in range(200):
            sim.step()
        assert set(sim.statuses) <= set(SOLVED) and sum(sim.energy()) <= most
        assert sim.contacts.depths.max(initial=0.0) < 1e-2


def rod_slides(angle: float) -> np.ndarray:
    """Velocity of 3 m/s along x in the axes of a body turned about y."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([3.0 * c, 0, 3.0 * s, 0, 0, 0])


def test_the_same_seed_gives_the_same_run() -> None:
    def run() -> tuple[np.ndarray, np.ndarray]:
        scene = ds.Scene(ball(), [Collider("body", Sphere(0.1), restitution=0.6), floor()])
        sim = ds.Simulator(scene, q0=[0, 0, 0.15, *IDENTITY], dt=1e-3, seed=7)
        sim.run(0.3, lambda s: s.rng.normal(size=6))
        return sim.q, sim.v

    first, second = run(), run()
    assert np.array_equal(first[0], second[0])
    assert np.array_equal(first[1], second[1])


def heap(shape: Box, masses: list[float]) -> tuple[ds.Scene, np.ndarray]:
    """Equal boxes of these masses on one another, just touching, on the floor."""
    scene = ds.Scene(
        {f"box{k}": block(shape, mass) for k, mass in enumerate(masses)},
        [*(Collider(f"box{k}/body", shape) for k in range(len(masses))), floor(restitution=0.0)],
    )
    return scene, np.concatenate([[0, 0, (k + 0.5) * shape.z, *IDENTITY] for k in range(len(masses))])


@pytest.mark.slow
@pytest.mark.parametrize("solver", [*SOLVERS, "pgs", "admm"])
@pytest.mark.parametrize("rolls", [True, False])
def test_a_ball_rolls_or_slips_down_a_slope(solver: str, rolls: bool) -> None:
    """It rolls with 5/7 g sin θ where μ ≥ 2/7 tan θ, and else slips, turning by μ m g r cos θ."""
    radius, angle, time = 0.1, 0.3, 0.3
    friction = 0.8 if rolls else 0.05
    scene = ds.Scene(
        ball(radius), [Collider("body", Sphere(radius), friction=friction), floor(friction=friction, angle=angle)]
    )
    sim = ds.Simulator(scene, solver=solver, q0=[*radius * np.array([-np.sin(angle), 0, np.cos(angle)]), *IDENTITY])
    sim.run(time)
    slope, pull = G * np.sin(angle), friction * G * np.cos(angle)
    linear, angular = np.linalg.norm(sim.v[:3]), np.linalg.norm(sim.v[3:])
    assert linear == pytest.approx((5 / 7 * slope if rolls else slope - pull) * time, abs=1e-6)
    assert angular == pytest.approx((5 / 7 * slope if rolls else pull / 0.4) / radius * time, abs=1e-5)


def test_a_rod_that_slips_falls_upright() -> None:
    """Without friction its centre falls straight down, and kinetic energy is what it has fallen."""
    length, mass, angle, dt = 1.0, 2.0, 0.3, 2e-4
    rod = ds.mechanisms.free_body(mass, [mass * length**2 / 12, mass * length**2 / 12, 1e-4 * mass])
    ends = [Collider("body", Sphere(1e-3), (0, 0, z), friction=0.0, name=f"end{z}") for z in (-0.5, 0.5)]
    height, half = 0.5 * length * np.cos(angle) + 1e-3, angle / 2
    sim = ds.Simulator(
        ds.Scene(rod, [*ends, floor(friction=0.0, restitution=0.0)]),
        q0=[0, 0, height, 0, np.sin(half), 0, np.cos(half)], dt=dt,
    )  # fmt: skip
    sim.run(0.38)
    assert sim.q[:2] == pytest.approx([0, 0], abs=1e-9)
    lean = np.arccos((sim.q[2] - 1e-3) / (0.5 * length))
    assert 0.8 < lean < 1.4
    # ½ m ż² + ½ I θ̇² = m g (z₀ − z) with ż = −½ l sin θ θ̇
    inertia = mass * length**2 / 12 + mass * (0.5 * length * np.sin(lean)) ** 2
    turns = np.sqrt(2 * mass * G * (height - sim.q[2]) / inertia)
    assert abs(sim.v[4]) == pytest.approx(turns, rel=2e-3)


def test_dominoes_fall_one_after_the_other() -> None:
    """In step, once the wave is steady, and straight on."""
    shape, n, gap, dt = Box(0.02, 0.1, 0.2), 20, 0.08, 1e-3
    scene = ds.Scene(
        {f"d{k}": block(shape, 0.2) for k in range(n)}, [*(Collider(f"d{k}/body", shape) for k in range(n)), floor()]
    )
    q0 = np.concatenate([[k * gap, 0, 0.1, *IDENTITY] for k in range(n)])
    sim = ds.Simulator(scene, q0=q0, v0=scene.velocity(d0=[0.4, 0, 0, 0, 4.0, 0]), dt=dt)
    falls = np.full(n, np.inf)
    while np.isinf(falls).any() and sim.time < 3.0:
        sim.step()
        leans = 2 * np.arcsin(sim.q.reshape(n, 7)[:, 4])
        falls = np.where(np.isinf(falls) & (leans > 0.2), sim.time, falls)
    assert np.isfinite(falls).all() and (np.diff(falls) > 0).all()
    assert np.ptp(np.diff(falls)[-8:]) < 0.1 * np.diff(falls)[-1]
    assert np.abs(sim.q.reshape(n, 7)[:, 1]).max() < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("topples", [True, False])
def test_a_box_topples_beyond_the_angle_of_its_diagonal(solver: str, topples: bool) -> None:
    shape = Box(0.2, 0.3, 0.4)
    angle = np.arctan(shape.x / shape.z) + (0.01 if topples else -0.01)
    scene = ds.Scene(block(shape), [Collider("body", shape, friction=2.0), floor(friction=2.0, angle=angle)])
    normal, half = np.array([-np.sin(angle), 0, np.cos(angle)]), -angle / 2
    sim = ds.Simulator(scene, solver=solver, q0=[*(0.2 * normal), 0, np.sin(half), 0, np.cos(half)], dt=1e-3)
    sim.run(0.5)
    # the pendulum that starts at rest 0.01 rad past its top, once a half second has made cosh(ω t) of that
    assert np.abs(sim.v).max() > 0.05 if topples else np.abs(sim.v).max() < 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("solver", [*SOLVERS, "admm"])
@pytest.mark.parametrize("masses", [[1e4, 1.0], [1.0, 1e4]])
def test_a_heavy_and_a_light_box_rest_on_one_another(solver: str, masses: list[float]) -> None:
    scene, q0 = heap(Box(0.2, 0.2, 0.2), masses)
    # 1e-8 m/s of 1e4 kg are 0.1 N of a step, and the gap that they leave is closed in the next one
    sim = ds.Simulator(scene, solver=solver, q0=q0, dt=1e-3, tolerance=1e-9)
    sim.run(0.05)
    on_the_floor = sim.contacts.links[:, 1] < 0
    assert sim.impulses[on_the_floor, 2].sum() / sim.dt == pytest.approx(sum(masses) * G, rel=1e-6)
    assert np.abs(sim.v).max() < 1e-6
    assert set(sim.statuses) <= set(SOLVED)


def test_cones_slow_down_alike_in_all_directions_and_pyramids_do_not() -> None:
    shape, friction, speed = Box(0.4, 0.4, 0.05), 0.5, 1.0
    scene = ds.Scene(block(shape), [Collider("body", shape), floor()])

    def force(solver: str, sides: int, direction: float) -> float:
        v0 = speed * np.array([np.cos(direction), np.sin(direction), 0, 0, 0, 0])
        q0 = [0, 0, 0.025, *IDENTITY]
        sim = ds.Simulator(scene, solver=solver, n_directions=sides, q0=q0, v0=v0, dt=1e-3)
        sim.run(0.05)
        return float((speed - np.linalg.norm(sim.v[:2])) / (0.05 * friction * G))

    for direction in (0.0, 0.4, np.pi / 4):
        assert force("nsgs", 4, direction) == pytest.approx(1.0, abs=1e-6)
        assert force("admm", 4, direction) == pytest.approx(1.0, abs=1e-6)
    assert force("lemke", 4, np.pi / 4) == pytest.approx(np.sqrt(0.5), abs=1e-6)
    assert force("lemke", 8, np.pi / 8) == pytest.approx(np.cos(np.pi / 8), abs=1e-6)


def test_free_motion_is_that_of_a_rollout() -> None:
    """Without damping, which is explicit there and implicit here."""
    arm, dt = ds.mechanisms.pendulum(3), 1e-3
    q0, v0, n = [0.5, 0.2, -0.3], [0, 1, 0], 200
    sim = ds.Simulator(ds.Scene(arm), q0=q0, v0=v0, dt=dt)
    sim.run(n * dt)
    q, v = ds.rollout(ds.compile(arm, (), "contact_step"), q0, v0, np.zeros((n, 3)), dt)[:2]
    np.testing.assert_allclose(sim.q, q[-1], atol=1e-12)
    np.testing.assert_allclose(sim.v, v[-1], atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
def test_loops_hold_through_contacts(solver: str) -> None:
    """Three blocks, hinged and welded, two of these welds for the same thing, fall on the floor and come to rest."""
    shape, mass = Box(0.4, 0.1, 0.1), 1.0
    weld = ds.Weld(ds.Frame("b/body", (0.22, 0, 0)), ds.Frame("c/body", (-0.22, 0, 0)))
    hinge = ds.Hinge(ds.Frame("a/body", (0.22, 0, 0)), ds.Frame("b/body", (-0.22, 0, 0)), (0, 1, 0))
    scene = ds.Scene(
        {name: block(shape, mass) for name in "abc"},
        [*(Collider(f"{name}/body", shape, restitution=0.2) for name in "abc"), floor(restitution=0.5)],
        loops=[hinge, weld, weld],
    )
    q0 = scene.configuration(**{n: [x, 0, 0.2, *IDENTITY] for n, x in (("a", -0.44), ("b", 0.0), ("c", 0.44))})
    sim = ds.Simulator(scene, solver=solver, q0=q0, v0=scene.velocity(a=[0, 0, 0, 0, 0.5, 0]), dt=1e-3, tolerance=1e-8)
    worst = 0.0
    for _ in range(1200):
        sim.step()
        snapshot = sim.dynamics.at(sim.q, sim.v, np.zeros(18))
        worst = max(worst, float(np.abs(snapshot.loop_errors).max()))
    assert worst < 2e-4  # (3 m/s · 1 ms)² over 0.2 m, of which each step takes a fifth back
    assert float(np.abs(snapshot.loop_errors).max()) < 1e-9
    assert sim.impulses[:, 2].sum() / sim.dt == pytest.approx(3 * mass * G, rel=1e-6)


def test_overlaps_that_no_joint_can_part_do_not_throw_a_robot_about() -> None:
    """Two links of a chain overlap along the line that their joints cannot move them on; it falls freely."""
    arm = ds.mechanisms.pendulum(4)
    names = arm.link_names
    scene = ds.Scene(
        arm,
        [
            Collider(names[0], Sphere(0.3), (0, 0, -0.9), friction=0.0),
            Collider(names[2], Sphere(0.3), (0, 0, -0.1), friction=0.0),
            Collider(names[3], Sphere(0.3), (0, 0, -0.9), friction=0.0),
        ],
    )
    sim = ds.Simulator(scene, q0=[0.4, 0.001, 0.0, 0.2], dt=1e-3, max_overlap=1.0)
    start = sum(sim.energy())
    assert 0.39 < sim.contacts.depths.max() < 0.5
    for _ in range(300):
        before = sim.q
        sim.step()
        assert np.abs(sim.q - before - sim.dt * sim.v).max() <= 0.02 + 1e-12
        assert sum(sim.energy()) < start + 4 * G * 0.5  # what it takes to lift all rods by the overlap
