"""What moves along something, above or beside it is not touched by it: bodies over seams, past edges, at walls."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

import delassus as ds
from delassus.contact import Box, Capsule, Collider, Cylinder, Ellipsoid, HalfSpace, HeightField, Mesh, Sphere

pytestmark = [pytest.mark.usefixtures("one_lane"), pytest.mark.filterwarnings("ignore::delassus.DelassusWarning")]

G = 9.81
FLAT = 2e-6
"""Velocity (m/s) that a body may gain or lose over seams: twice the tolerance of the solver."""


def block(x: float, y: float, z: float, *, convex: bool) -> Mesh:
    """A box as a mesh."""
    corners = np.array(list(product((-x / 2, x / 2), (-y / 2, y / 2), (-z / 2, z / 2))))
    if convex:
        return Mesh(corners)
    faces = ConvexHull(corners)
    a, b, c = (corners[faces.simplices[:, k]] for k in range(3))
    outside = (np.cross(b - a, c - a) * faces.equations[:, :3]).sum(axis=1) > 0
    return Mesh(corners, np.where(outside[:, None], faces.simplices, faces.simplices[:, ::-1]), convex=False)


LYING = (0.5, 0.5, 0.5, 0.5)
LOOSE = 1e-5
"""The same of several bodies that lean on each other: ten times the tolerance."""

BODIES = {  # shape, height of its frame over the floor, how far it reaches ahead, attitude
    "box": (Box(0.1, 0.1, 0.1), 0.05, 0.071, None),
    "plank": (Box(0.3, 0.06, 0.02), 0.01, 0.153, None),
    "hull": (block(0.08, 0.1, 0.06, convex=True), 0.03, 0.065, None),
    "cylinder": (Cylinder(0.05, 0.1), 0.05, 0.05, None),
    "ball": (Sphere(0.05), 0.05, 0.0, None),
    "capsule": (Capsule(0.03, 0.1), 0.03, 0.0, LYING),
    "egg": (Ellipsoid(0.06, 0.05, 0.04), 0.04, 0.0, None),
}
FLATS = ("box", "plank", "hull", "cylinder")
TILES = ("box", "hull", "surface", "field")


def tile(kind: str, begin: float, end: float, height: float = 0.0, friction: float = 0.0) -> Collider:
    """A piece of floor over a range of x, its top at a height."""
    x, place = end - begin, ((begin + end) / 2, 0.0, height - 0.1)
    if kind == "field":
        return Collider("world", HeightField(np.zeros((5, 4)), (x, 1.0)), (place[0], 0, height), friction=friction)
    shape = Box(x, 1.0, 0.2) if kind == "box" else block(x, 1.0, 0.2, convex=kind == "hull")
    return Collider("world", shape, place, friction=friction)


def path(shape: object, floor: list[Collider], q: list[float], v: np.ndarray, dt: float, n: int) -> np.ndarray:
    """Positions and velocities (n, 13) of a body of 1 kg; ``v`` is along the axes of the world."""
    body = ds.mechanisms.free_body(1.0, np.diag([1.6e-3, 1.8e-3, 2e-3]))
    friction = floor[0].friction
    scene = ds.Scene(body, [Collider("body", shape, friction=friction), *floor])
    turned = Rotation.from_quat(q[3:]).inv().apply(v)
    sim, out = ds.Simulator(scene, q0=q, v0=[*turned, 0.0, 0.0, 0.0], dt=dt), []
    for _ in range(n):
        sim.step()
        out.append([*sim.q, *sim.v])
    return np.array(out)


def start(name: str, v: float, dt: float, local: np.random.Generator) -> list[float]:
    """A body before the seam at x = 0, which it reaches within three steps."""
    _, z, ahead, attitude = BODIES[name]
    yaw = 0.5 * local.uniform(0, 6)
    turned = (0.0, 0.0, np.sin(yaw), np.cos(yaw)) if attitude is None else attitude
    return [-ahead - local.uniform(0.5, 3) * v * dt, local.uniform(-0.2, 0.2), z, *turned]


# what is a seam, and how much higher than its neighbour the second tile is
SEAMS = {"flush": 0.0, "higher": 1e-6, "lower": -1e-6, "lower still": -1e-5, "far below": -1e-3, "slit": 0.0}


@pytest.mark.parametrize("seam", SEAMS)
@pytest.mark.parametrize("name", BODIES)
def test_a_seam_is_not_felt(name: str, seam: str) -> None:
    """A body that slides without friction keeps its speed, but for what it falls, and does not rise."""
    local = np.random.default_rng([len(name), *map(ord, seam)])
    shape, z, ahead, _ = BODIES[name]
    step, slit = SEAMS[seam], 1e-3 if seam == "slit" and name in FLATS else 0.0
    falls = max(-step, 0.0) if seam != "flush" else 0.0
    for kinds in zip(local.permutation(TILES), local.permutation(TILES), strict=True):
        v, dt = 10 ** local.uniform(-2, 1), 10 ** local.uniform(-4, -2)
        n = int(min(max((ahead + 0.02) / (v * dt), 8), 60))
        floor = [tile(kinds[0], -0.8, -slit / 2), tile(kinds[1], slit / 2, 0.8, step)]
        q = start(name, v, dt, local)
        q[0] = max(q[0], -0.5)
        found = path(shape, floor, q, np.array([v, 0.0, 0.0]), dt, n)
        speed = np.linalg.norm(found[:, 7:10], axis=1)
        case = f"{name} over {kinds}, {seam}, {v:.3g} m/s, dt {dt:.2g}"
        most = np.sqrt(v * v + 2 * G * falls)
        assert speed.min() > v - FLAT - 1e-6 * v, case
        assert speed.max() < most + FLAT + 1e-6 * v, case
        assert found[:, 2].max() < z + max(step, 0.0) + 1e-7, case


SIDEWAYS = (np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))
ROLLING = {  # shape, attitude
    "ball": (Sphere(0.05), (0.0, 0.0, 0.0, 1.0)),
    "egg": (Ellipsoid(0.06, 0.07, 0.05), (0.0, 0.0, 0.0, 1.0)),
    "capsule": (Capsule(0.05, 0.1), SIDEWAYS),
    "wheel": (Cylinder(0.05, 0.1), SIDEWAYS),
}


@pytest.mark.parametrize("name", ROLLING)
def test_what_rolls_slowly_over_a_seam_keeps_its_speed(name: str) -> None:
    """An edge that is higher by no more than the slop is none, of whatever it is, and lifts nothing."""
    shape, attitude = ROLLING[name]
    for kinds in (("box", "box"), ("hull", "surface"), ("field", "hull"), ("surface", "field")):
        for step, over in ((1e-6, 0.0), (1e-5, 0.0), (0.0, -1e-5), (0.0, -1.9e-5)):
            floor = [tile(kinds[0], -0.8, 0.0), tile(kinds[1], 0.0, 0.8, step)]
            for v, dt in ((0.01, 5e-3), (0.03, 1e-3)):
                q = [-0.002, 0.01, 0.05 + over, *attitude]
                found = path(shape, floor, q, np.array([v, 0.0, 0.0]), dt, int(0.003 / (v * dt)))
                case = f"{name} over {kinds}, {step} higher, {over} deep, {v} m/s"
                np.testing.assert_allclose(np.linalg.norm(found[:, 7:10], axis=1), v, rtol=0, atol=FLAT, err_msg=case)
                assert found[:, 2].max() < 0.05 + over + 1e-7, case


@pytest.mark.parametrize("name", BODIES)
def test_tiles_are_one_floor(name: str) -> None:
    """Over tiles of random kinds, with friction or without, a body moves as over one piece."""
    local = np.random.default_rng(5)
    shape = BODIES[name][0]
    # where it turns, the load of a capsule is shared by its points anyhow
    for friction in (0.0,) if name == "capsule" else (0.0, 0.4):
        v, dt, yaw = 10 ** local.uniform(-0.5, 0.5), 10 ** local.uniform(-3.3, -2.3), local.uniform(0, 6)
        direction = np.array([np.cos(yaw), np.sin(yaw), 0.0]) * v
        q = start(name, 0.0, dt, local)
        q[:2] = local.uniform(-0.05, 0.05, 2)
        edges = np.cumsum(local.uniform(0.06, 0.2, 30)) - 2.0
        floor = [tile("box" if k % 2 else "hull", *edges[k : k + 2], friction=friction) for k in range(29)]
        whole = [tile("box", edges[0], edges[-1], friction=friction)]
        n = int(min(0.25, 0.4 / v) / dt)
        one, other = (path(shape, x, q, direction, dt, n) for x in (floor, whole))
        np.testing.assert_allclose(one[:, :3], other[:, :3], rtol=0, atol=1e-6)
        np.testing.assert_allclose(one[:, 7:], other[:, 7:], rtol=0, atol=1e-4 if name == "cylinder" else 4e-5)


@pytest.mark.parametrize("name", ["box", "hull", "cylinder", "ball"])
def test_what_lands_beside_a_seam_slides_on(name: str) -> None:
    """The floor is hit first, the side of the next tile, which would be hit later, never."""
    local, (shape, z, *_) = np.random.default_rng(6), BODIES[name]
    for _ in range(12):
        v, fall, part = local.uniform(1, 10), local.uniform(1, 5), local.uniform(0.1, 1.5)
        dt = 10 ** local.uniform(-3.3, -2.3)
        floor = [tile("box", -0.8, 0.0), tile("box", 0.0, 0.8)]
        q = [-{"box": 0.05, "hull": 0.04, "cylinder": 0.05, "ball": 0.0}[name] - part * v * dt, 0.0,
             z + local.uniform(0.2, 0.9) * part * fall * dt, 0.0, 0.0, 0.0, 1.0]  # fmt: skip
        found = path(shape, floor, q, np.array([v, 0.0, -fall]), dt, 6)
        assert abs(found[-1, 7] - v) < FLAT + 1e-6 * v, (name, v, fall, dt, part)
        assert abs(found[-1, 2] - z) < 1e-6


def test_what_passes_an_edge_is_not_deflected() -> None:
    """A ball a millimetre above a box, at any speed and time step, and a box beside it."""
    obstacle = [Collider("world", Box(0.1, 1, 0.2), (0, 0, -0.1))]
    for v, dt in product((1.0, 10.0, 50.0), (1e-3, 5e-3)):
        found = path(Sphere(0.05), obstacle, [-0.12, 0, 0.06 + 0.5 * G * (0.24 / v + dt) ** 2, 0, 0, 0, 1],
                     np.array([v, 0, 0]), dt, int(0.2 / v / dt) + 1)  # fmt: skip
        assert abs(found[-1, 7] - v) < 1e-9 * v
        assert np.abs(found[-1, 10:]).max() < 1e-9


@pytest.mark.parametrize("name", BODIES)
def test_a_thin_wall_holds(name: str) -> None:
    """Nothing that turns by less than 0.3 rad a step passes a wall of a millimetre, at up to 200 m/s."""
    local, shape = np.random.default_rng(7), BODIES[name][0]
    for kind, v in product(("box", "hull"), (2.0, 20.0, 200.0)):
        dt, turned = 10 ** local.uniform(-4, -2.3) / max(v / 20, 1), local.normal(size=4)
        turned /= np.linalg.norm(turned)
        wall = Box(1e-3, 4, 4) if kind == "box" else block(1e-3, 4, 4, convex=True)
        away = local.uniform(0.2, 0.4)
        found = path(shape, [Collider("world", wall, (5e-4, 0, 0), friction=0.0)], [-away, 0.013, 0.021, *turned],
                     np.array([v, 0.0, 0.0]), dt, int(0.5 / v / dt) + 6)  # fmt: skip
        assert found[:, 0].max() < 0.0, (name, kind, v, dt)


def test_a_step_is_hit() -> None:
    """A tenth of a millimetre is a step: a box loses speed at it, and gains no energy."""
    for step, v, dt in product((1e-4, 1e-3, 1e-2), (0.1, 3.0, 10.0), (1e-4, 1e-3, 5e-3)):
        floor = [tile("box", -0.8, 0.0), tile("box", 0.0, 0.8, step)]
        found = path(Box(0.1, 0.1, 0.1), floor, [-0.05 - 1.5 * v * dt, 0, 0.05, 0, 0, 0, 1], np.array([v, 0, 0]), dt, 6)
        energy = 0.5 * (found[:, 7:] ** 2 @ [1, 1, 1, 1.6e-3, 1.8e-3, 2e-3]) + G * (found[:, 2] - 0.05)
        assert found[-1, 7] < 0.6 * v, (step, v, dt)
        assert energy.max() < 0.5 * v * v + 1e-6, (step, v, dt)


def test_loose_tiles_stay() -> None:
    """Tiles that lie on the floor are not pushed by what slides from one onto the next."""
    trees = {name: ds.mechanisms.free_body(m, np.eye(3)) for name, m in (("a", 20.0), ("b", 20.0), ("c", 1.0))}
    plate, cube = Box(1, 1, 0.2), Box(0.1, 0.1, 0.1)
    colliders = [Collider("a/body", plate, friction=0), Collider("b/body", plate, friction=0),
                 Collider("c/body", cube, friction=0), Collider("world", HalfSpace(), friction=0)]  # fmt: skip
    for v, dt in product((0.1, 3.0), (1e-3, 5e-3)):
        q = [-0.5, 0, 0.1, 0, 0, 0, 1, 0.5, 0, 0.1, 0, 0, 0, 1, -0.06 - v * dt, 0, 0.25, 0, 0, 0, 1]
        sim = ds.Simulator(ds.Scene(trees, colliders), q0=q, v0=[*np.zeros(12), v, *np.zeros(5)], dt=dt)
        sim.run(0.1 / v)
        assert abs(sim.v[12] - v) < LOOSE
        assert np.abs(sim.v[:12]).max() < LOOSE


def test_capsules_over_a_seam_are_solved_by_machine_code():
    """Ends over edges touch either of two tiles; what round-off chooses is no error of the matrix of a step."""
    rod = Capsule(0.05, 0.2)
    body, tiles = ds.mechanisms.free_body(1.0, rod.inertia(1.0)), [(-0.5, 0.0, -0.1), (0.5, 0.0, -0.1)]
    kernel = ds.Scene(
        body, [Collider("body", rod), *(Collider("world", Box(1, 1, 0.2), x) for x in tiles)]
    ).contact_step()
    x, half = np.linspace(-0.3, 0.3, 25), np.sqrt(0.5)
    q = np.column_stack([x, 0.0 * x, 0.05 - 1e-5 + 0.0 * x, np.tile([0.0, half, 0.0, half], (25, 1))])
    given = [q, np.zeros((25, 6)), np.zeros((25, kernel.arguments[2].size)), np.zeros((25, 6)), np.full(25, 1e-3)]
    results = tuple(np.empty((25, *r.shape)) for r in kernel.results)
    assert not kernel.ill_conditioned(kernel.compute(given, results, (25,), None), (25,)).any()
    assert results[1] == pytest.approx(0.0, abs=1e-6)
