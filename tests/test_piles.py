"""Scenes of many bodies by the default of `Simulator`: at rest, balances, beside dense formulations, and alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import delassus as ds
from delassus.contact import Box, Collider, HalfSpace, Sphere
from delassus.contact.sparse import blocks
from delassus_studies.bench.contact.problems import turned_momentum
from internals import SOLVED, load_checkpoint, quaternion_to_matrix, save_checkpoint
from test_joint_contacts import joints_of, some_scene
from tools import projected

pytestmark = [pytest.mark.usefixtures("one_lane"), pytest.mark.filterwarnings("ignore::delassus.DelassusWarning")]

G, EDGE, MASS = 9.81, 0.2, 1.0
CUBE = Box(EDGE, EDGE, EDGE)
UPRIGHT = (0.0, 0.0, 0.0, 1.0)

FACTORISATIONS = 8.0
"""Of a step of heavy boxes on light ones, at most; 1.7 on average of 800 steps."""


def cube(mass: float = MASS) -> ds.Tree:
    return ds.mechanisms.free_body(mass, CUBE.inertia(mass))


def boxes(n: int, *, friction: float = 0.6, restitution: float = 0.0) -> ds.Scene:
    """Cubes on a floor."""
    law = {"friction": friction, "restitution": restitution}
    colliders = [Collider(f"box{k}/body", CUBE, **law) for k in range(n)]
    return ds.Scene({f"box{k}": cube() for k in range(n)}, [*colliders, Collider("world", HalfSpace(), **law)])


def dropped(n: int, layers: int, seed: int) -> np.ndarray:
    """Random attitudes above a grid."""
    rng = np.random.default_rng(seed)
    side, k = int(np.ceil(np.sqrt(n / layers))), np.arange(n)
    grid = np.stack([k % side, k // side % side, k // side**2], axis=1)
    turns = rng.normal(size=(n, 4))
    turns /= np.linalg.norm(turns, axis=1, keepdims=True)
    return np.concatenate([0.4 * grid + [0, 0, 0.2] + rng.uniform(-0.02, 0.02, (n, 3)), turns], axis=1).ravel()


def assert_solved(sim: ds.Simulator) -> None:
    assert set(sim.statuses) <= set(SOLVED), sim.statuses


# -- at rest ---------------------------------------------------------------------------------------------------------


def test_a_stack_stays() -> None:
    n = 10
    q0 = np.concatenate([[0, 0, EDGE * (k + 0.5), *UPRIGHT] for k in range(n)])
    sim = ds.Simulator(boxes(n), q0=q0, dt=5e-3, tolerance=1e-9)
    sim.run(4.0)
    assert np.abs(sim.q - q0).max() < 4e-6 and len(sim.contacts) == 4 * n
    assert_solved(sim)


@pytest.mark.parametrize("turned", [False, True])
def test_a_heap_rests_under_its_weight(turned: bool) -> None:
    """Whichever of two bodies is the first of their contacts."""
    n, dt, scene = 30, 2e-3, boxes(30)
    if turned:
        scene = ds.Scene(scene.robots, scene.colliders[::-1])
    sim = ds.Simulator(scene, q0=dropped(n, 3, seed=4), dt=dt)
    sim.run(4.0)
    rest = sim.q.reshape(n, 7)[:, :3].copy()
    deepest = 0.0
    for _ in range(20):
        sim.run(10 * dt)
        contacts, carried = sim.contacts, 0.0
        for pair, frame, p in zip(contacts.links, contacts.frames, sim.impulses, strict=True):
            carried += (frame @ p)[2] if pair[1] < 0 else 0.0
        assert carried / dt == pytest.approx(n * MASS * G, rel=1e-3)
        deepest = max(deepest, sim.contacts.depths.max())
    assert deepest < 1e-4 + 2e-5  # `penetration` is left alone
    assert np.abs(sim.q.reshape(n, 7)[:, :3] - rest).max() < 1e-4
    assert rest[:, 2].min() > EDGE / 2 - 2e-4
    # of 12 heaps on average 0.75 %, from 0.3 to 1.4 %
    assert sum(k for status, k in sim.statuses.items() if status not in SOLVED) <= 0.002 * sim.steps


@pytest.mark.parametrize(
    ("side", "layers", "share", "travel", "duration"),
    [
        (3, 1, 0.4, 0.4, 2.0),
        (5, 1, 0.4, 0.16, 0.2),
        (5, 2, 0.4, 0.5, 2.0),
        (10, 1, 0.1, 0.067, 0.2),
        pytest.param(20, 1, 0.1, 0.067, 0.2, marks=pytest.mark.slow),
    ],
)
def test_slabs_on_balls_move_as_balls_that_roll(
    side: int, layers: int, share: float, travel: float, duration: float
) -> None:
    """Redundant loads stay where they are: a ball that carries nothing would be left behind.

    Masses of slabs are so much a ball; the top one is pushed, its bodies named first or last.
    """
    rng, n, ball, mass = np.random.default_rng(side), side * side, Sphere(0.1), share * side**2
    slab, grid = Box(0.45 * side + 1.0, 0.45 * side + 1.0, 0.2), 0.45 * (np.arange(side) - 0.5 * (side - 1))
    M, sizes = np.zeros((layers, layers)), np.eye(layers)
    bodies, places, moves = dict[str, ds.Tree](), dict[str, list[float]](), dict[str, np.ndarray]()
    for k in range(layers):
        own, below = sizes[k], sizes[k - 1] if k else 0.0 * sizes[k]
        centre, rim = 0.5 * (own + below), 0.5 * (own - below)  # of a ball, its velocity and ``r ω``, by those of slabs
        M += mass * np.outer(own, own) + n * (np.outer(centre, centre) + 0.4 * np.outer(rim, rim))
        for i in range(n):
            bodies[f"ball{k}_{i}"], moves[f"ball{k}_{i}"] = ds.mechanisms.free_body(1.0, ball.inertia(1.0)), centre
            places[f"ball{k}_{i}"] = [grid[i % side], grid[i // side], 0.4 * k + 0.1, *UPRIGHT]
        bodies[f"slab{k}"], moves[f"slab{k}"] = ds.mechanisms.free_body(mass, slab.inertia(mass)), own
        places[f"slab{k}"] = [0.0, 0.0, 0.4 * k + 0.3, *UPRIGHT]
    names = list(bodies)[:: rng.choice([-1, 1])]
    colliders = [Collider(f"{x}/body", slab if x.startswith("slab") else ball, friction=5.0) for x in names]
    scene = ds.Scene({x: bodies[x] for x in names}, [*colliders, Collider("world", HalfSpace(), friction=5.0)])
    angle = rng.uniform(0.0, 2.0 * np.pi)
    along, speeds = np.array([np.cos(angle), np.sin(angle)]), np.linalg.solve(M, sizes[-1])
    speeds *= 2.0 * travel / duration / speeds[-1]
    push = np.zeros((len(names), 6))
    push[names.index(f"slab{layers - 1}"), :2] = (M @ speeds)[-1] / duration * along
    sim = ds.Simulator(scene, q0=np.concatenate([places[x] for x in names]))
    sim.run(duration, lambda sim: push.ravel())
    for x, q, v in zip(names, sim.q.reshape(-1, 7), sim.v.reshape(-1, 6), strict=True):
        found = quaternion_to_matrix(q[3:])[:2] @ v[:3]
        assert np.abs(found - moves[x] @ speeds * along).max() < 1e-4 * speeds[-1], x  # worst 5e-6
    assert_solved(sim)


def test_heavy_boxes_on_light_ones_are_solved() -> None:
    """Which takes Newton's method: any masses and friction, none too, whichever of two bodies is their contacts' first.

    A step has few factorisations.
    """
    work, steps = 0.0, 0
    for seed in range(16):
        rng, n = np.random.default_rng(seed), 2 + seed % 3
        masses = 10.0 ** rng.uniform(0.0, (4.0, 4.5, 5.0)[seed % 3], n)
        friction = rng.choice([0.0, 0.3, 0.6, 1.0], n + 1) if seed % 2 else np.full(n + 1, 0.6 * (seed % 4 == 0))
        shapes = [(f"box{k}/body", CUBE) for k in range(n)] + [("world", HalfSpace())]
        colliders = [Collider(*shapes[k], friction=friction[k]) for k in rng.permutation(n + 1)]
        places = [[0.013 * k, 0.007 * k, EDGE * (k + 0.5), *UPRIGHT] for k in range(n)]
        scene = ds.Scene({f"box{k}": cube(m) for k, m in enumerate(masses)}, colliders)
        sim = ds.Simulator(scene, q0=np.concatenate(places), dt=2e-3, tolerance=1e-8)
        for _ in range(10):
            sim.step()
            work, steps = work + sim._steps.report[2], steps + 1
        assert_solved(sim)
        carried = sum(p[2] for pair, p in zip(sim.contacts.links, sim.impulses, strict=True) if pair[1] < 0)
        assert carried / sim.dt == pytest.approx(masses.sum() * G, rel=1e-6), seed
    assert 0.5 * steps < work < FACTORISATIONS * steps


def test_islands_at_rest_sleep_until_something_touches_them() -> None:
    """Two stacks and a ball that comes to rest, then one thrown at a stack; forces, velocities and states wake, too."""
    law, ball = {"friction": 0.6}, Sphere(0.1)
    bodies = {f"box{k}": cube() for k in range(4)} | {"ball": ds.mechanisms.free_body(1.0, ball.inertia(1.0))}
    colliders = [Collider(f"box{k}/body", CUBE, **law) for k in range(4)]
    scene = ds.Scene(bodies, [*colliders, Collider("ball/body", ball, **law), Collider("world", HalfSpace(), **law)])
    places = [[0, 0, 0.1], [0, 0, 0.3], [2, 0, 0.1], [2, 0, 0.3], [0, 5, 0.1]]
    q0 = np.concatenate([[*x, *UPRIGHT] for x in places])
    sim = ds.Simulator(scene, q0=q0, dt=2e-3, sleep=0.1)
    sim.run(0.05)
    assert not sim.asleep.any()
    sim.run(0.2)
    assert sim.asleep.all() and not sim.v.any()
    still, counted = sim.q.copy(), sum(sim.statuses.values())
    sim.run(0.2)
    assert np.array_equal(sim.q, still) and sum(sim.statuses.values()) == counted
    carried = sum(p[2] for pair, p in zip(sim.contacts.links, sim.impulses, strict=True) if pair[1] < 0)
    assert carried / sim.dt == pytest.approx(5 * MASS * G, rel=1e-4)

    push = np.zeros(30)
    push[0] = 0.1  # less than friction holds
    sim.step(push)
    assert sim.asleep.tolist() == [False, False, True, True, True]
    sim.run(0.3)
    assert sim.asleep.all()
    state = sim.get_state()
    sim.v = np.concatenate([sim.v[:24], [0, -8.0, 1.0, 0, 0, 0]])  # the ball
    seen = []
    for _ in range(600):
        sim.step()
        seen.append(sim.asleep.tolist())
        assert not seen[-1][0] or sim.q[29] > 0.2  # the ball touches the stack at 0.2 m
    assert seen[0] == [True, True, True, True, False]
    hit = next(k for k, asleep in enumerate(seen) if not asleep[0])
    assert not any(seen[hit][:2]) and all(asleep[2] and asleep[3] for asleep in seen)
    assert np.abs(sim.q[:3] - still[:3]).max() > 0.01
    sim.set_state(state)
    sim.step()
    assert sim.asleep.all()
    sim.set_state({**state, "q": np.concatenate([state["q"][:28], [0.0, 5.0, 0.2, *UPRIGHT]])})
    sim.step()
    assert sim.asleep.tolist() == [True] * 4 + [False]


def test_a_run_goes_on_from_a_state_with_bodies_that_sleep(tmp_path: Path) -> None:
    """One box sleeps, one is about to, and a ball comes to wake the first: states and contacts stay the same bits."""
    ball = Sphere(0.1)
    bodies = {"a": cube(), "b": cube(), "ball": ds.mechanisms.free_body(1.0, ball.inertia(1.0))}
    colliders = [Collider("a/body", CUBE), Collider("b/body", CUBE), Collider("ball/body", ball)]

    def scene() -> ds.Scene:
        return ds.Scene(bodies, [*colliders, Collider("world", HalfSpace())])

    q0 = np.concatenate([[0, 0, 0.1, *UPRIGHT], [2, 0, 0.108, *UPRIGHT], [-1.5, 0, 0.1, *UPRIGHT]])
    v0 = np.zeros(18)
    v0[[12, 16]] = 5.0, 50.0  # it rolls
    sims = [ds.Simulator(scene(), q0=q0, v0=v0, dt=1e-3, sleep=0.1) for _ in range(2)]
    seen = set()
    for k in range(12):
        for sim in sims:
            sim.run(0.03)
        seen.add(tuple(sims[0].asleep.tolist()))
        if k % 2:
            sims[1] = load_checkpoint(scene(), save_checkpoint(sims[1], tmp_path / "half.npz"))
        else:
            sims[1].set_state(sims[1].get_state())
        for a, b in zip(*(sim.get_state().values() for sim in sims), strict=True):
            np.testing.assert_array_equal(a, b)
    assert {(True, False, False), (True, True, False), (False, True, False)} <= seen


# -- balances --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_impacts_take_energy_and_keep_momentum(seed: int) -> None:
    """A cloud of bodies without gravity that is thrown together, of any restitution and friction."""
    rng = np.random.default_rng(seed)
    shapes = [CUBE, Sphere(0.12), Box(0.3, 0.1, 0.2)]
    robots, colliders = {}, []
    for k in range(12):
        shape, mass = shapes[k % 3], float(np.exp(rng.normal()))
        robots[f"b{k}"] = ds.mechanisms.free_body(mass, shape.inertia(mass))
        colliders.append(
            Collider(f"b{k}/body", shape, friction=rng.uniform(0, 1.5), restitution=rng.choice([0.0, 0.5, 1.0]))
        )
    scene = ds.Scene(robots, colliders, gravity=[0, 0, 0])
    q0 = dropped(12, 3, seed).reshape(12, 7)
    v0 = rng.normal(size=(12, 6)) * [1, 1, 1, 3, 3, 3]
    turned = np.array([quaternion_to_matrix(q) for q in q0[:, 3:]])
    v0[:, :3] += np.einsum("nji,nj->ni", turned, 4.0 * (q0[:, :3].mean(axis=0) - q0[:, :3]))
    sim = ds.Simulator(scene, q0=q0.ravel(), v0=v0.ravel(), dt=1e-3)
    momentum = ds.compile(scene.tree, (), "momentum")
    start, touched = np.asarray(momentum(sim.q, sim.v))[:3], 0
    for _ in range(300):
        before = sim.energy()[0]
        sim.step()
        # free tumbling conserves momentum, its energy wavers by O(dt²)
        assert sim.energy()[0] <= before * (1 + 1e-5)
        touched += np.abs(sim.impulses).max(initial=0.0) > 0
    np.testing.assert_allclose(np.asarray(momentum(sim.q, sim.v))[:3], start, atol=1e-10)
    assert touched > 10
    assert_solved(sim)


def test_a_body_that_tumbles_about_a_centre_elsewhere_keeps_its_angular_momentum() -> None:
    mass, centre = 2.0, np.array([0.1, -0.2, 0.05])
    about = np.array([[0.02, 0.003, 0.0], [0.003, 0.05, -0.004], [0.0, -0.004, 0.04]])
    c = np.array([[0, -centre[2], centre[1]], [centre[2], 0, -centre[0]], [-centre[1], centre[0], 0]])
    H = np.block([[mass * np.eye(3), -mass * c], [mass * c, about - mass * c @ c]])
    body = replace(ds.mechanisms.free_body(mass, about), inertias=H[None])
    scene = ds.Scene(body, [], gravity=[0, 0, 0])
    sim = ds.Simulator(scene, q0=[0.3, 0, 1, 0.5, 0.5, -0.5, 0.5], v0=[1, -2, 0.5, 3, -4, 5], dt=1e-3)

    def angular() -> np.ndarray:
        R = quaternion_to_matrix(sim.q[3:])
        h = H @ sim.v
        return np.concatenate([R @ h[:3], R @ h[3:] + np.cross(sim.q[:3], R @ h[:3])])

    start = angular()
    sim.run(3.0)
    np.testing.assert_allclose(angular(), start, rtol=1e-11, atol=1e-11)


# -- beside dense formulations, and alone ----------------------------------------------------------------------------


def robot_between_planes(seed: int) -> tuple[ds.Scene, np.random.Generator]:
    """A random robot with limits and friction of joints, some floating and some with loops, and balls on it."""
    plain, rng = some_scene(seed)
    tree = plain.tree
    links = [tree.link_names[k % tree.n_links] for k in range(3)]
    places = rng.normal(size=(3, 3))
    balls = [Collider(link, Sphere(0.1), places[k], friction=0.4, name=f"ball{k}") for k, link in enumerate(links)]
    planes = [Collider("world", HalfSpace(), (0, 0, z), np.diag([1, -z, -z]), friction=0.4) for z in (-1, 1)]
    ignore = [(a.name, b.name) for a in balls for b in balls]
    return ds.Scene(tree, [*balls, *planes], loops=plain.loops, ignore=ignore), rng


def closed(sim: ds.Simulator, q: np.ndarray) -> np.ndarray:
    """A configuration near ``q`` at which loops are closed, or ``q``."""
    start, still = q, np.zeros(sim.v.size)
    for _ in range(30):
        snapshot = sim.dynamics.at(q, still, still)
        if np.abs(snapshot.loop_errors).max(initial=0.0) < 1e-12:
            return q
        dq = -np.linalg.lstsq(snapshot.rows(sim.contacts.some([])).jacobian, snapshot.loop_errors, rcond=1e-8)[0]
        q = sim.scene.tree.integrate(q, dq * min(1.0, 0.5 / np.abs(dq).max()))
    return start


def broken_laws(sim: ds.Simulator, q: np.ndarray, v: np.ndarray) -> float:
    """Worst violation (m/s) of the laws by the step that a simulator has made from a state, by dense matrices.

    Momentum, loops, cones and complementarity of contacts, limits and friction of joints.
    """
    tree, dt, contacts = sim.scene.tree, sim.dt, sim.contacts
    snapshot = sim.dynamics.at(q, v, np.zeros(tree.nv))
    J, loops = snapshot.rows(contacts).jacobian, sim.dynamics.n_loops
    inverse = np.linalg.inv(ds.mass_matrix(tree, q))
    root = np.linalg.cholesky(inverse)
    if loops:  # motions that they leave
        basis = np.linalg.svd(J[:loops] @ root)
        kept = np.count_nonzero(basis[1] > 1e-5 * basis[1].max(initial=0.0))
        inverse = root @ basis[2][kept:].T @ basis[2][kept:] @ root.T
    J, p, momentum, curved, moved = J[loops:], sim.joint_impulses, snapshot.momentum(dt), 0.0, 0.0
    bias = (snapshot.mass_matrix @ v - momentum) / dt
    momentum = momentum + turned_momentum(tree, q, v, dt, bias)
    if loops:  # impulses come to the smooth motion as sub-steps have it
        blocks, state = sim._steps.blocks, sim._steps.state
        reached, moved = np.empty((2, tree.nv))
        reached[blocks.dofs], moved[blocks.dofs] = state.loops.reached, state.loops.moved
        momentum, moved = snapshot.mass_matrix @ reached, moved - 0.5 * dt * (v + reached)
        curved = reached - inverse @ momentum
    after = inverse @ (momentum + J.T @ sim.impulses.ravel() + p.sum(axis=0))
    carried = ds.compile(tree, (), "position_update")(q, after + curved, 0.0, dt * after + moved)[1]
    broken = [np.abs(np.asarray(carried) - sim.v).max()]
    W, u = J @ inverse @ J.T, (J @ after).reshape(-1, 3)
    u[:, 2] += np.maximum(-contacts.depths, 0.0) / dt
    for k, (own, r, mu) in enumerate(zip(u, sim.impulses, contacts.friction, strict=True)):
        w = np.trace(W[3 * k : 3 * k + 3, 3 * k : 3 * k + 3]) / 3 or 1.0
        y = w * r - own - [0, 0, mu * np.hypot(*own[:2])]
        broken.append(np.linalg.norm(w * r - projected(*y, mu, 0.0)))
    w = np.maximum(np.diag(inverse), 1e-12)
    limits, rubs = joints_of(tree, q, dt).limits, np.flatnonzero(tree.per_dof("friction"))
    dofs, signs, most = limits.dofs, limits.signs, w[rubs] * dt * tree.per_dof("friction")[rubs]
    pushes = w[dofs] * np.maximum(signs * p[0, dofs], 0.0)
    broken += [*np.abs(pushes - np.maximum(pushes - np.maximum(limits.distances, 0.0) / dt - signs * after[dofs], 0.0))]
    holds = w[rubs] * p[1, rubs]
    broken += [*np.abs(holds - np.clip(holds - after[rubs], -most, most))]
    return float(np.max(broken))


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 3, 7, 9, 15, 16, 33, 42])
def test_robots_obey_the_laws_of_contacts_joints_and_loops(seed: int) -> None:
    """Where blocks and the dense formulation differ, the problem has two solutions: both obey the laws."""
    scene, rng = robot_between_planes(seed)
    options = {"dt": 1e-2, "max_overlap": 100.0, "correction": 0.0, "penetration": 0.0, "tolerance": 1e-9}
    start = scene.tree.neutral()
    sims = [ds.Simulator(scene, q0=start, **options), ds.Simulator(scene, q0=start, solver="nsgs", **options)]
    solved, alike, n = 0, 0, 40 if seed == 7 else 20
    for trial in range(n):
        q, v = scene.tree.random(rng), rng.normal(size=scene.tree.nv)
        q = closed(sims[0], q) if trial % 2 else q
        for sim in sims:
            sim.set_state({**sim.get_state(), "q": q, "v": v})
            sim.step()
            if sim.status in (*SOLVED, ds.contact.SolverStatus.LOOPS_OPEN):  # every other start has open loops, too
                assert broken_laws(sim, q, v) < 1e-8
                solved += 1
        alike += np.abs(sims[0].v - sims[1].v).max() < 1e-6
    assert solved == 2 * n and alike >= n - 1


def test_robots_of_a_kind_are_compiled_once_and_move_as_they_do_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: Counter[str] = Counter()
    inner = blocks.compile_kernel

    def count(tree: ds.Tree, constraints: object, what: str, **options: object) -> object:
        compiled[what] += 1
        return inner(tree, constraints, what, **options)

    monkeypatch.setattr(blocks, "compile_kernel", count)
    robot, n = ds.mechanisms.chain(3, root="floating"), 50
    rng = np.random.default_rng(2)
    q0, v0 = robot.random(rng, batch=n), rng.normal(size=(n, robot.nv))
    q0[:, :3] = np.stack([5.0 * (np.arange(n) % 7), 5.0 * (np.arange(n) // 7), np.full(n, 1.5)], axis=1)

    def simulated(which: list[int]) -> np.ndarray:
        law = {"friction": 0.5, "restitution": 0.4}
        links, floor = robot.link_names, Collider("world", HalfSpace(), **law)
        balls = [Collider(f"r{k}/{link}", Sphere(0.1), name=f"{k}/{link}", **law) for k in which for link in links]
        ignore = [(f"{k}/{a}", f"{k}/{b}") for k in which for a in links for b in links if a < b]
        scene = ds.Scene({f"r{k}": robot for k in which}, [*balls, floor], ignore=ignore)
        sim = ds.Simulator(scene, q0=q0[which].ravel(), v0=v0[which].ravel(), dt=2e-3, max_overlap=1.0)
        sim.run(0.8)
        assert len(which) < n or len(sim.contacts) > 20
        return sim.q.reshape(len(which), -1)

    together = simulated(list(range(n)))
    assert set(compiled.values()) == {1}
    for k in (0, 17, 49):
        np.testing.assert_allclose(together[k], simulated([k])[0], atol=1e-12)


def test_a_heap_in_one_run_in_steps_and_after_a_state() -> None:
    """Bit for bit."""
    scene, q0 = boxes(20), dropped(20, 3, seed=1)
    whole = ds.Simulator(scene, q0=q0, dt=2e-3)
    whole.run(0.6)
    single = ds.Simulator(scene, q0=q0, dt=2e-3)
    for _ in range(200):
        single.step()
    again = ds.Simulator(scene, q0=q0, dt=2e-3)
    again.set_state(single.get_state())
    again.run(0.2)
    single.run(0.2)
    assert np.array_equal(whole.q, single.q) and np.array_equal(whole.v, single.v)
    assert np.array_equal(whole.q, again.q) and np.array_equal(whole.v, again.v)
    assert np.array_equal(whole.impulses, again.impulses) and whole.statuses == again.statuses


def test_bodies_far_away_change_nothing() -> None:
    pair, others = dropped(2, 2, seed=5), dropped(20, 3, seed=6).reshape(20, 7)
    pair[9] += 0.1
    others[:, 0] += 50.0
    alone = ds.Simulator(boxes(2, restitution=0.3), q0=pair, dt=2e-3)
    beside = ds.Simulator(boxes(22, restitution=0.3), q0=np.concatenate([pair, others.ravel()]), dt=2e-3)
    for _ in range(10):
        alone.run(0.1)
        beside.run(0.1)
        np.testing.assert_allclose(beside.q[:14], alone.q, rtol=0, atol=1e-12)
    assert len(alone.contacts) >= 4


@pytest.mark.parametrize("passive", ["model", "none"])
def test_free_bodies_move_by_all_that_their_joints_have(passive: str) -> None:
    """Damping, springs, gravity compensation, armature and another place of the joint: each of a body of its own."""
    rng, dt = np.random.default_rng(0), 1e-7  # damping is that of the end of the step
    plain = ds.mechanisms.free_body(2.0, np.diag([0.1, 0.2, 0.25]))
    R = quaternion_to_matrix(np.array([0.5, -0.5, 0.5, 0.5]))
    of_joint = [
        {}, {"damping": rng.uniform(1, 9, 6)}, {"stiffness": np.repeat([30.0, 7.0], 3)}, {"armature": np.full(6, 0.4)},
        {"position": np.array([1.0, 2.0, 3.0])}, {"rotation": R},
    ]  # fmt: skip
    bodies = [replace(plain, joints=(replace(plain.joints[0], **own),)) for own in of_joint]
    bodies.append(replace(plain, gravity_compensation={"body": np.array([1.5, 0.1, 0.2, 0.3])}))
    scene = ds.Scene({f"b{k}": body for k, body in enumerate(bodies)})
    sim = ds.Simulator(scene, dt=dt, passive=passive, q0=scene.tree.random(rng), v0=rng.normal(size=scene.tree.nv))
    q, v = sim.q, sim.v
    sim.step()
    for k, body in enumerate(bodies):
        at, own = scene.q_slice(f"b{k}"), scene.v_slice(f"b{k}")
        qdd = ds.forward_dynamics(body, q[at], v[own], np.zeros(6), passive=passive).qdd
        np.testing.assert_allclose((sim.v - v)[own] / dt, qdd, atol=1e-3, err_msg=str(k))


def test_who_sleeps_and_who_wakes_whom() -> None:
    """Three boxes on one another, a box alone, an arm and a ball that spins without friction, neither of which sleeps.

    An island sleeps where all of it has been at rest for the time, and wakes with what touches it, island by island in
    one step. Forces on the arm at every step keep nothing awake that is elsewhere.
    """
    arm, tip = ds.mechanisms.pendulum(1), Sphere(0.1)
    colliders = [Collider(f"box{k}/body", CUBE, friction=0.6) for k in range(4)]
    colliders += [Collider("arm/rod1", tip, (0, 0, -0.5)), Collider("world", HalfSpace(), (0, 0, -0.6), friction=0.6)]
    ball = {"ball": ds.mechanisms.free_body(1.0, tip.inertia(1.0))}
    scene = ds.Scene({"arm": arm} | {f"box{k}": cube() for k in range(4)} | ball,
                     [*colliders, Collider("ball/body", tip, friction=0.0)])  # fmt: skip
    places = [[3, 0, EDGE * (k + 0.5) - 0.6, *UPRIGHT] for k in range(3)]
    q0 = np.concatenate([[0.0], *places, [6, 0, -0.5, *UPRIGHT], [9, 0, -0.5, *UPRIGHT]])
    spin = np.where(np.arange(scene.tree.nv) == scene.tree.nv - 1, 1.0, 0.0)
    sim = ds.Simulator(scene, q0=q0, v0=spin, dt=2e-3, sleep=0.05)
    sim.run(0.2)
    assert sim.asleep.tolist() == [False, True, True, True, True, False] and len(sim.contacts) == 18
    state, still = sim.get_state(), np.zeros(scene.tree.nv)

    push = np.where(np.arange(still.size) == 13, 0.1, 0.0)  # the last box of the three
    for islands in ([0, 1, 2, 3, 4, 0], [0, 1, 2, 0, 4, 0], [0, 1, 1, 3, 4, 0], [5, 1, 2, 3, 4, 0]):
        sim.set_state(state | {"islands": np.array(islands)})
        sim.step(push)
        assert sim.asleep.tolist() == [False, False, False, False, True, False], islands

    def asleep_after(steps: int, islands: list[int], rested: list[float], v: np.ndarray = state["v"]) -> list[bool]:
        sim.set_state(state | {"islands": np.array(islands), "rested": np.array(rested), "v": v})
        for k in range(steps):
            sim.step(np.where(np.arange(still.size) == 0, 1e-6 * k, 0.0))
        return list(sim.asleep[1:5])

    for steps, ends in ((24, False), (25, True)):
        assert asleep_after(steps, [0, 1, 1, 1, 0, 0], [0.0] * 6) == [True, True, True, ends]
        assert asleep_after(steps, [0, 0, 0, 0, 4, 0], [0.0, 0.0, 0.0, 0.049, 0.0, 0.0]) == [ends, ends, ends, True]
        assert asleep_after(steps, [0, 0, 0, 0, 4, 0], [0.0, 0.049, 0.049, 0.0, 0.0, 0.0]) == [ends, ends, ends, True]
    sliding = np.where(np.arange(still.size) == 19, 0.5, state["v"])  # stops after 0.085 s
    assert asleep_after(60, [0, 1, 1, 1, 0, 0], [0.0] * 6, sliding) == [True, True, True, False]
    assert asleep_after(100, [0, 1, 1, 1, 0, 0], [0.0] * 6, sliding) == [True, True, True, True]
