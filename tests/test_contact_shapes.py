"""Shapes in compiled contact steps: where they touch, and the motion of the simulator."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import delassus as ds
from delassus.contact import (
    Box,
    Capsule,
    Collider,
    CollisionDetector,
    ContactStep,
    Cylinder,
    Ellipsoid,
    HalfSpace,
    HeightField,
    Mesh,
    Sphere,
    audit,
    ground_below,
)
from tools import beside_simulator

pytestmark = pytest.mark.usefixtures("one_lane")

DT = 1e-3
TIGHT = {"tolerance": 1e-11, "sweeps": 3000}


def crystal(n, seed=0, flat=False):
    """Hull of random points on an ellipsoid; of a prism over ``n`` points of a circle if it is to be flat."""
    rng = np.random.default_rng(seed)
    if flat:
        angle = 2 * np.pi * (np.arange(n) + rng.uniform(-0.2, 0.2, n)) / n
        ring = np.stack([0.1 * np.cos(angle), 0.12 * np.sin(angle)], axis=1)
        return Mesh([[*x, z] for z in (-0.06, 0.07) for x in ring])
    x = rng.normal(size=(n, 3))
    return Mesh(x / np.linalg.norm(x, axis=1, keepdims=True) * [0.1, 0.12, 0.08])


def sole(radius=0.01):
    """Hull of a box with rounded edges."""
    corners = np.array(list(np.ndindex(2, 2, 2))) * [0.2, 0.12, 0.06] - [0.1, 0.06, 0.03]
    ball = np.array([x / np.linalg.norm(x) for x in np.array(list(np.ndindex(5, 5, 5))) - 2.0 if np.abs(x).max() > 1])
    return Mesh((corners[:, None] + radius * ball).reshape(-1, 3))


SHAPES = {
    "wheel": Cylinder(0.1, 0.05),
    "can": Cylinder(0.06, 0.2),
    "egg": Ellipsoid(0.1, 0.07, 0.12),
    "wedge": Mesh([[0, 0, 0], [0.2, 0, 0], [0, 0.15, 0], [0.2, 0.15, 0], [0, 0, 0.1], [0, 0.15, 0.1]]),
    "prism": crystal(6, flat=True),
    "crystal": crystal(30),
    "sole": sole(),
}

FLAT = ("prism", "sole")
"""Shapes that come to slide on four and more points of one face: impulses with friction then have several solutions."""


def on_ramp(shape, friction=0.4, angle=0.1):
    """A body of a shape, off the origin of its link and turned there; and a plane that is not level.

    Its moments of inertia are equal: the simulator turns free bodies by the implicit midpoint rule, kernels do not.
    """
    c, s = np.cos(angle), np.sin(angle)
    turned = ds.mechanisms.free_body(1.0, 0.004 * np.eye(3), name="body")
    half = np.array([[0.8, 0, 0.6], [0, 1, 0], [-0.6, 0, 0.8]])
    return ds.Scene(turned, [
        Collider("body", shape, (0.02, -0.01, 0.01), half, friction=friction),
        Collider("world", HalfSpace(), (0, 0, -0.2), [[c, 0, s], [0, 1, 0], [-s, 0, c]], friction=friction),
    ])  # fmt: skip


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::delassus.errors.DelassusWarning")  # sweeps of redundant rows that go on for long
@pytest.mark.parametrize("name", SHAPES)
def test_shapes_fall_and_roll_as_in_the_simulator(name):
    """From random states, through impacts; each lies or rolls in the end.

    Without friction motion is unique.
    """
    scene, rng = on_ramp(SHAPES[name], friction=0.0 if name in FLAT else 0.4), np.random.default_rng(1)
    for _ in range(2):
        q = scene.set_down(scene.tree.random(rng))
        q[2] += 0.01
        _, sim = beside_simulator(
            scene, q, 0.5 * rng.normal(size=6), np.zeros(6), 100 if name == "wheel" else 250, DT, **TIGHT
        )
        assert len(sim.contacts)


def offset_of(place, v):
    """By what the displacement of a corner that touches differs from its velocity (m/s); the body's centre stays."""
    arm = Rotation.from_rotvec(DT * v[3:]).apply(place)
    u, change = v[:3] + np.cross(v[3:], place), DT * v[2] + arm[2] - place[2]
    halfway = 0.5 * (place + arm) - [0, 0, 0.25 * change]
    out = v[:3] + np.cross(v[3:], halfway) - u
    out[:2] *= min(np.linalg.norm(u[:2]) / np.linalg.norm(out[:2]), 1.0)
    out[2] = max(change / DT - u[2], min(u[2], 0.0))
    return out


def test_faces_that_slide_have_several_solutions():
    """A box comes down on four corners as it slides and spins.

    How they share the impact is not determined, and friction follows the shares: it turns the box in one way or
    another, each right by the law of contact.
    """
    half, mu = np.array([0.1, 0.06, 0.03]), 0.4
    tree = ds.mechanisms.free_body(1.0, 0.004 * np.eye(3))
    kernel = ds.compile(tree, ds.Contact("body", Box(*(2 * half)), friction=mu), "contact_step", **TIGHT)
    q, v = np.array([0, 0, half[2], 0, 0, 0, 1.0]), np.array([0.3, 0.2, -0.5, 0.4, -0.3, 3.0])
    places = half * [(-1, -1, -1), (-1, 1, -1), (1, -1, -1), (1, 1, -1)]
    J = np.vstack([np.hstack([np.eye(3), np.cross(np.eye(3), x).T]) for x in places])
    M = ds.mass_matrix(tree, q)
    turning = np.r_[np.cross(v[3:], v[:3]), np.zeros(3)]  # of axes
    force, found = M @ turning - ds.inverse_dynamics(tree, q, v, np.zeros(6)), []
    for diagonal in ([0, 6], [2, 4]):
        start = np.zeros((8, 3))
        start[diagonal, 2] = 0.1
        turned, moves, p, _ = kernel(q, v, start.ravel(), np.zeros(6), DT)
        p = p.reshape(8, 3)[::2]
        v_after = v + np.linalg.solve(M, DT * force + J.T @ p.ravel())
        R = ds.forward_kinematics(tree, turned, "body")[:3, :3]
        np.testing.assert_allclose((v_after.reshape(2, 3) @ R).ravel(), moves, atol=1e-12)
        offsets = [offset_of(place, v) for place in places]
        step = ContactStep(M, J, v, v_after, p, np.full(4, mu), np.zeros(4), DT, force, velocity_offset=offsets)
        assert audit(step, tolerance=1e-12).verdict.name == "RIGHT"
        found.append(v_after)
    assert np.abs(found[0] - found[1]).max() > 1e-2


def test_a_can_stands_lies_and_turns_over_its_rim():
    """It stands on four points and lies on two; where it stands, points stay on it, whatever way it leans."""
    tree = ds.mechanisms.free_body(1.0, SHAPES["can"].inertia(1.0))
    kernel = ds.compile(tree, ds.Contact("body", SHAPES["can"], friction=0.5), "contact_step", **TIGHT)
    lying = [0, 0, 0.06 - 2e-5, np.sqrt(0.5), 0, 0, np.sqrt(0.5)]
    for q, n in (([0, 0, 0.1 - 2e-5, 1e-6, 2e-6, 0, 1.0], 4), (lying, 2)):
        _, v, p, _ = kernel(q, np.zeros(6), np.zeros(24), np.zeros(6), DT)
        assert np.count_nonzero(p[2::3] > 1e-6) == n and np.abs(v).max() < 1e-6
        assert p[2::3].sum() == pytest.approx(9.81 * DT, rel=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::delassus.errors.DelassusWarning")  # as above
def test_shapes_on_ground_that_comes_with_each_call():
    """A slope of a height field is the half space of the same slope."""
    tree, ramp = ds.mechanisms.free_body(1.0, np.diag([0.004, 0.005, 0.003])), np.array([[0.0, 0.0], [0.3, 0.3]])
    field = Collider("world", HeightField(ramp - 0.15, (1.0, 1.0)))
    turn = np.hypot(1.0, 0.3)
    plane = ds.Frame("world", rotation=np.array([[1 / turn, 0, -0.3 / turn], [0, 1, 0], [0.3 / turn, 0, 1 / turn]]))
    rng = np.random.default_rng(3)
    q, v = tree.random(rng, batch=50), 0.3 * rng.normal(size=(50, 6))
    q[:, :2] = 0.1 * rng.normal(size=(50, 2))
    q[:, 2] = 0.3 * q[:, 0] + rng.uniform(0.03, 0.1, 50)
    for name in ("wheel", "egg", "wedge"):
        shape = SHAPES[name]
        fixed, given = (ds.Contact("body", shape, ground, friction=0.0) for ground in (plane, "input"))
        rest = v, np.zeros((50, 3 * fixed.n_points)), np.zeros(6), DT
        wanted = ds.compile(tree, fixed, "contact_step", **TIGHT)(q, *rest)
        found = ds.compile(tree, given, "contact_step", **TIGHT)(q, *rest, **ground_below(tree, given, q, field))
        assert np.count_nonzero(wanted[2]) > 2
        for x, y in zip(found[:2], wanted[:2], strict=True):
            np.testing.assert_allclose(x, y, atol=1e-8, err_msg=name)


def test_scenes_of_other_shapes_are_refused():
    body = ds.mechanisms.free_body(1.0, np.eye(3), name="body")
    surface = Mesh(
        [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], convex=False
    )
    with pytest.raises(ds.DelassusError, match="a convex shape"):
        ds.Contact("body", surface)
    with pytest.raises(ds.DelassusError, match="got Mesh 'body' and HalfSpace 'world'"):
        ds.Scene(body, [Collider("body", surface), Collider("world", HalfSpace())]).constraints()


def tangents_are_differences(kernel, q, rng, step=1e-6):
    """Where central differences do not depend on their step, tangents are these; how many contacts there are."""
    n, tree = len(q), kernel.request.tree
    given = [q, rng.normal(size=(n, 6)), np.zeros((n, kernel.arguments[2].size)), rng.normal(size=(n, 6)),
             np.full(n, 1e-2)]  # fmt: skip
    along, by_v = rng.normal(size=(2, n, 6))
    ends = [[tree.integrate(q, s * along), given[1] + s * by_v] for s in (step, -step, step / 4, -step / 4)]
    moved = [kernel(*end, *given[2:])[1] for end in ends]
    first, second = (moved[0] - moved[1]) / (2 * step), (moved[2] - moved[3]) / (step / 2)
    turned = (ends[0][0] - ends[1][0]) / (2 * step)
    found = kernel.derivative("jvp")(*given, turned, by_v, *(np.zeros_like(x) for x in given[2:]))[1]
    size = 1 + np.abs(first).max(axis=1)
    smooth = np.abs(first - second).max(axis=1) / size < 1e-5
    assert smooth.mean() > 0.7
    assert (np.abs(found - first).max(axis=1) / size)[smooth].max() < 1e-4
    return np.count_nonzero(kernel(*given)[2])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wheel", "egg", "crystal"])
def test_derivatives_of_shapes_that_roll(name):
    """Tangents are central differences, where these do not depend on their step; points move on the shape."""
    shape, rng, n = SHAPES[name], np.random.default_rng(5), 60
    tree = ds.mechanisms.free_body(1.0, np.diag([0.004, 0.005, 0.003]))
    kernel = ds.compile(tree, ds.Contact("body", shape, friction=0.5), "contact_step", **TIGHT)
    scene = ds.Scene(tree, [Collider("body", shape), Collider("world", HalfSpace())])
    q = np.array([scene.set_down(x) for x in tree.random(rng, batch=n)])
    q[:, 2] += rng.uniform(-1e-3, 1e-3, n)
    assert tangents_are_differences(kernel, q, rng) > len(q)


PAIRS = {
    "ball on box": (Sphere(0.05), Box(0.4, 0.3, 0.1)),
    "box on ball": (Box(0.2, 0.3, 0.1), Sphere(0.2)),
    "ball on cylinder": (Sphere(0.05), Cylinder(0.15, 0.3)),
    "capsule on box": (Capsule(0.05, 0.2), Box(0.5, 0.4, 0.1)),
    "capsule over an edge": (Capsule(0.05, 0.6), Box(0.5, 0.4, 0.1)),
    "box on box": (Box(0.2, 0.3, 0.1), Box(0.4, 0.3, 0.1)),
    "egg on egg": (SHAPES["egg"], Ellipsoid(0.2, 0.25, 0.15)),
    "hull on hull": (SHAPES["wedge"], Mesh(3 * crystal(12, seed=2).vertices)),
}
"""`test_shape_pairs` has the contacts of all pairs."""

SEVERAL = ("box on box", "capsule over an edge")
"""Pairs that come to slide on a face or along a line, at which impulses with friction have several solutions."""

NEARLY = {"capsule over an edge": 1e-6, "egg on egg": 1e-5}
"""Pairs that differ by more than 1e-8: where a capsule leans, points of the simulator are those of its side seen along
the normal, kernels' those of balls in it, by the square of the angle; of two curved shapes, the nearest points are
known to the root of the round-off of their distance."""


def above(scene, q, gap):
    """A configuration in which the body, moved along z, is that far (m) from what is below."""
    q, detector, names = np.array(q), CollisionDetector(scene), scene.tree.link_names
    for _ in range(200):
        depth = detector.contacts(ds.forward_kinematics(scene.tree, q, names)[:, :3], 5.0).depths.max()
        q[2] += 0.5 * (depth + gap)
    return q


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::delassus.errors.DelassusWarning")  # as above
@pytest.mark.parametrize("pair", PAIRS)
def test_pairs_of_shapes_go_as_in_the_simulator(pair):
    """Dropped on a shape of a link that gives way: rows of the second link follow from point and normal."""
    (upper, lower), near = PAIRS[pair], NEARLY.get(pair, 1e-8)
    body, turn = ds.mechanisms.free_body(1.0, 0.004 * np.eye(3), name="body"), np.eye(3)[[1, 2, 0]].T
    world = ds.mechanisms.free_body(3.0, 0.02 * np.eye(3), name="body")
    colliders = [
        Collider(
            "a/body", upper, (0.01, 0, 0), turn if isinstance(upper, Capsule) else None,
            friction=0.3 * (pair not in SEVERAL),
        ),
        Collider("b/body", lower, (0, 0, 0.02), turn if isinstance(lower, Cylinder) else None, friction=0.6),
    ]  # fmt: skip
    scene = ds.Scene({"a": body, "b": world}, colliders)
    for offset in (0.02, 0.06):
        q = above(scene, [offset, 0.01, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1], 1e-3)
        v = np.array([0.3, 0.2, -0.2, 0, 0, 0.5, 0, 0, 0.1, 0, 0, 0])
        _, sim = beside_simulator(scene, q, v, np.zeros(v.size), 120, DT, near, **TIGHT)
        assert len(sim.contacts)


def test_pairs_without_formulas_have_no_derivatives():
    kernel = ds.compile(
        ds.mechanisms.free_body(1.0, np.eye(3)),
        ds.Contact("body", Box(1, 1, 1), ("world", Box(2, 2, 2))),
        "contact_step",
    )
    with pytest.raises(ds.DelassusError, match="constraints whose points follow from formulas"):
        kernel.derivative("jvp")


@pytest.mark.slow
@pytest.mark.parametrize("pair", ["ball on box", "ball on cylinder", "capsule on box"])
def test_derivatives_of_pairs(pair):
    """Tangents are central differences: over faces, edges and corners, from all sides."""
    above, below = PAIRS[pair]
    tree, rng, n = ds.mechanisms.free_body(1.0, np.diag([0.004, 0.005, 0.003])), np.random.default_rng(9), 80
    contact = ds.Contact("body", above, (ds.Frame("world", (0, 0, 0.02)), below), friction=0.5)
    kernel = ds.compile(tree, contact, "contact_step", limits=False, **TIGHT)
    scene = ds.Scene(tree, [Collider("body", above), Collider("world", below, (0, 0, 0.02))])
    q = tree.random(rng, batch=n)
    q[:, :2] = rng.uniform(-0.25, 0.25, (n, 2))
    q[:, 2] = 0.3
    for x in q:
        if np.hypot(x[0], x[1]) < 0.14:
            x[:] = scene.set_down(x)
    q[:, 2] += rng.uniform(-1e-3, 1e-3, n)
    assert tangents_are_differences(kernel, q, rng) > len(q) / 4


def test_colliders_that_take_part_are_named():
    pair = ds.mechanisms.pendulum(2)
    surface = Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], [[0, 1, 2], [1, 3, 2]], convex=False)
    scene = ds.Scene(pair, [
        Collider("rod1", Ellipsoid(0.1, 0.1, 0.2), (0, 0, -0.4)),
        Collider("rod2", Box(0.1, 0.1, 0.2), (0, 0, -0.4), name="brick"),
        Collider("world", HalfSpace(), (0, 0, -3), name="floor"),
        Collider("world", surface, (1, 0, 0), name="post"),
    ], parents_collide=True, ignore=[("brick", "post")])  # fmt: skip
    for options in ({}, {"between_links": False}, {"touching": ["rod1"], "between_links": False}):
        with pytest.raises(ds.DelassusError, match="Ellipsoid 'rod1' and Mesh 'post'"):
            scene.constraints(**options)
    for options, wanted in (
        ({"touching": ["floor"]}, [1, 8]),
        ({"touching": ["brick"], "between_links": False}, [8]),
        ({"touching": ["brick"]}, [1, 8]),
        ({"touching": ["post", "rod2"], "between_links": False}, None),
    ):
        if wanted:
            assert [c.n_points for c in scene.constraints(**options)] == wanted
        else:
            with pytest.raises(ds.DelassusError, match="Ellipsoid 'rod1' and Mesh 'post'"):
                scene.contact_step(**options)
    for wrong in ({"touching": ["rod3"]}, {"touching": "rod1"}, {"between_links": 2}):
        with pytest.raises(ds.DelassusError):
            scene.constraints(**wrong)


def test_more_points_than_compile_are_refused():
    body = ds.mechanisms.free_body(1.0, np.eye(3), name="body")
    scene = ds.Scene({f"b{k}": body for k in range(6)}, [Collider(f"b{k}/body", Box(1, 1, 1)) for k in range(6)])
    with pytest.raises(ds.DelassusError, match=r"at most 128 points, got 135 of 15 pairs"):
        scene.contact_step()


# -- paths -----------------------------------------------------------------------------------------------------------

THIN = 1e-3
"""Thickness of a tile (m)."""

HEAVY = 1e9
"""Mass of a tile that nothing moves, but in which a seam may be of any height and width (kg)."""

TRAVELLERS = {
    "box": (Box(0.1, 0.1, 0.1), 0.05, None),
    "ball": (Sphere(0.05), 0.05, None),
    "capsule": (Capsule(0.05, 0.1), 0.05, np.eye(3)[[1, 2, 0]].T),
    "hull": (Mesh(0.1 * np.array(list(np.ndindex(2, 2, 2))) - 0.05), 0.05, None),
}
"""Shape, height of its centre over a floor, and how it lies there: a capsule along x."""


ALIKE = 1e-7, 1e-6
"""Velocity (m/s), and part of the speed, by which kernels and scenes may differ: a hundred times the tolerance of their
solvers, and round-off over the slop; 4e-9 and 6e-8 were seen."""


def over_tiles(name):
    """Scene of a body without friction over a tile of the world, x < 0, and another that is where the state says.

    And its kernel.
    """
    shape, _, own = TRAVELLERS[name]
    body = ds.mechanisms.free_body(1.0, 0.004 * np.eye(3), name="body")
    tile, floor = ds.mechanisms.free_body(HEAVY, HEAVY * np.eye(3), name="tile"), Box(1, 1, THIN)
    scene = ds.Scene({"a": body, "b": tile}, [
        Collider("a/body", shape, (0, 0, 0), own, friction=0, name="body"),
        Collider("world", floor, (-0.5, 0, -0.5 * THIN), friction=0, name="floor"),
        Collider("b/tile", floor, friction=0, name="tile"),
    ], ignore=[("floor", "tile")])  # fmt: skip
    contacts = scene.constraints(touching=["body"])
    return scene, ds.compile(scene.tree, contacts, "contact_step", tolerance=1e-9, sweeps=1000)


def steps_over_tiles(kernel, q, v, dt, steps, weight=1.0):
    """Configurations (steps, n, 14) and last velocities; the tile floats."""
    p, tau = np.zeros((len(q), kernel.arguments[2].size)), np.zeros((len(q), 12))
    tau[:, 8], path = HEAVY * 9.81, []
    for _ in range(steps):
        turned = ds.forward_kinematics(kernel.request.tree, q, "a/body")[:, 2, :3]
        tau[:, :3] = (1.0 - weight) * 9.81 * turned
        q, v, p, _ = kernel(q, v, p, tau, dt)
        path.append(q)
    return np.array(path), v


def placed_at(x, z, slit, lower, turn=(0, 0, 0, 1)):
    """Configurations of body and tile."""
    n = len(x)
    body = np.concatenate([np.stack([x, np.zeros(n), z], axis=1), np.tile(turn, (n, 1))], axis=1)
    tile = np.stack([0.5 + slit, np.zeros(n), -0.5 * THIN - lower], axis=1)
    return np.concatenate([body, tile, np.tile([0, 0, 0, 1.0], (n, 1))], axis=1)


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::delassus.errors.DelassusWarning")  # sweeps of redundant rows that go on for long
@pytest.mark.parametrize("name", TRAVELLERS)
def test_gaps_of_steps_are_no_walls(name):
    """What slides or lands on the seam of two tiles moves as on one; a step up and a thin wall stop it."""
    (_, height, own), rng, (_, kernel), n = TRAVELLERS[name], np.random.default_rng(3), over_tiles(name), 40
    reach = 0.0 if name == "ball" else 0.1 if own is not None else 0.05
    for dt in (1e-4, 1e-3, 1e-2):
        # slides: no wider seam than the body spans, within the slop of heights
        speed = 10 ** rng.uniform(-2, 1, n)
        flat = name not in ("ball", "capsule")  # what is round falls into a slit, and off a lower tile's neighbour
        slit = rng.choice([0.0, 1e-3], n) * flat
        lower = rng.choice([0.0, 1e-6, -1e-6, -1e-5], n) * flat
        ahead = rng.uniform(0.1, 2.5, n) * np.maximum(speed * dt, 1e-6)
        over = rng.choice([0.0, -1e-5, -5e-5], n)
        v = np.zeros((n, 12))
        v[:, 0] = speed
        x = -reach - ahead
        path, end = steps_over_tiles(kernel, placed_at(x, height + over, slit, lower), v, dt, 8)
        _, kept = steps_over_tiles(kernel, placed_at(x - 0.4, height + over, slit, lower), v, dt, 8)
        assert (path[-1, :, 0] > x).all()
        level = lower <= 0.0  # what tips over an edge of a micrometre gains what it falls by
        np.testing.assert_allclose(end[level, :6], kept[level, :6], atol=1e-7)
        assert (end[:, 0] > speed * (1.0 - 1e-6) - 1e-7).all()
        assert (end[:, 0] < np.sqrt(speed**2 + 4.0 * 9.81 * 1e-6) + 1e-7).all()
        # landings: where one tile ends, and with what slope, is nothing to it
        speed, fall = rng.uniform(1, 10, n), rng.uniform(0.5, 5, n)
        v[:, 0], v[:, 2] = speed, -fall
        x, z = -reach - rng.uniform(0, 1.5, n) * speed * dt, height + rng.uniform(0, 0.9, n) * fall * dt
        path, end = steps_over_tiles(kernel, placed_at(x, z, 0 * x, 0 * x), v, dt, 4)
        np.testing.assert_allclose(end[:, 0], speed, rtol=1e-6)
        assert path[-1, :, 2].min() > height - 1e-4 - 1e-9
        # past the end of a floor, a millimetre above it
        v[:, 2] = 0.0
        x, z = -1.0 - reach - 0.05 - rng.uniform(0, 1, n) * speed * dt, np.full(n, height + 1e-3)
        path, end = steps_over_tiles(kernel, placed_at(x, z, 0 * x, 5 + 0 * x), v, dt, 4, weight=0.0)
        np.testing.assert_allclose(end[:, :6], v[:, :6], atol=1e-9)
    # a step up is hit
    v, up = np.zeros((n, 12)), 10 ** rng.uniform(-4, -2, n)
    v[:, 0] = rng.uniform(1, 10, n)
    if flat:
        x = -reach - rng.uniform(0.1, 1, n) * v[:, 0] * 1e-3
        _, end = steps_over_tiles(kernel, placed_at(x, np.full(n, height), 0 * x, -up), v, 1e-3, 2)
        assert (end[:, 0] < 0.5 * v[:, 0]).all()
    # a wall of a millimetre: the tile stands on its edge
    for dt in (1e-4, 1e-3, 5e-3):
        v[:, 0] = rng.choice([1.0, 20.0, 200.0], n)
        x = -0.2 - rng.uniform(0, 1, n) * v[:, 0] * dt
        q = placed_at(x, np.full(n, 0.25), 0 * x - 0.5 + 0.5 * THIN, 0 * x - 0.5 * THIN)
        q[:, 3:7] = ds.mechanisms.free_body(1.0, np.eye(3)).random(rng, batch=n)[:, 3:]
        q[:, 7:] = np.array([0.5 * THIN, 0, 0, 0, np.sin(np.pi / 4), 0, np.cos(np.pi / 4)])
        turned = ds.forward_kinematics(kernel.request.tree, q, "a/body")[:, :3, :3]
        v[:, :3] = v[:, :1] * turned[:, 0, :]
        path, _ = steps_over_tiles(kernel, q, v, dt, 8, weight=0.0)
        assert path[..., 0].max() < 0.0


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::delassus.errors.DelassusWarning")  # as above
@pytest.mark.parametrize("name", TRAVELLERS)
def test_kernels_and_scenes_pass_seams_alike(name):
    """The same velocities over seams within the slop; of what has corners also in the step that hits a real one.

    A scene makes a step again in which impulses turn what they hit further than its velocity: slow steps have none.
    """
    height, rng, (scene, kernel), n = TRAVELLERS[name][1], np.random.default_rng(7), over_tiles(name), 6
    reach, flat = 0.1 if name == "capsule" else 0.05, name in ("box", "hull")
    for dt in (1e-4, 1e-3, 1e-2):
        speed = np.minimum(10 ** rng.uniform(-2, 1, n), 5e-3 / dt)
        up = rng.choice([0.0, 1e-6, 1e-5, *([-1e-6, -1e-5, 1e-4, 1e-3] if flat else [])], n)
        ahead = rng.uniform(0.1, 3, n) * np.maximum(speed * dt, 1e-6)
        x = -reach * (flat or name == "capsule") - ahead
        q, v = placed_at(x, height + rng.choice([0.0, -1e-5], n), 0 * x, -up), np.zeros((n, 12))
        v[:, 0] = speed
        tau, p, moved = np.zeros((n, 12)), np.zeros((n, kernel.arguments[2].size)), []
        tau[:, 8], starts = HEAVY * 9.81, (q, v)
        for _ in range(6):
            q, v, p, _ = kernel(q, v, p, tau, dt)
            moved.append(v)
        for k in range(n):
            at, before = (x[k] for x in starts)
            sim = ds.Simulator(scene, dt=dt, q0=at, v0=before, tolerance=1e-9, max_overlap=1.0)
            for step in moved:
                sim.step(tau[k])
                case = f"{name}, {speed[k]:.3g} m/s, dt {dt:g}, {up[k]:g} m higher"
                off = np.abs(step[k, :6] - sim.v[:6]).max()
                assert off < ALIKE[0] + ALIKE[1] * speed[k], case
                if np.abs(sim.v - before)[:6].max() > 1e-3 * speed[k]:
                    break


@pytest.mark.slow
def test_a_ball_hits_an_edge_where_it_is_when_it_does():
    """It keeps the part of its speed that is across the normal of the hit, however far away the step begins."""
    rng, (_, kernel), n, dt = np.random.default_rng(8), over_tiles("ball"), 40, 1e-2
    up, v = 10 ** rng.uniform(-4, -3, n), np.zeros((n, 12))
    v[:, 0] = rng.uniform(0.5, 3.0, n)
    hit = -np.sqrt(0.1 * up - up**2)
    x = hit - rng.uniform(0.1, 0.9, n) * v[:, 0] * dt
    _, end = steps_over_tiles(kernel, placed_at(x, np.full(n, 0.05), 0 * x, -up), v, dt, 2, weight=0.0)
    off = np.abs(np.linalg.norm(end[:, :3], axis=1) / (v[:, 0] * (1.0 - up / 0.05)) - 1.0)
    # two do not hit any more on the path that their own hit bends, and some are hit a little early: 1.2 % is the worst
    assert np.sort(off)[: n - 2].max() < 0.02


@pytest.mark.slow
def test_derivatives_of_steps_over_seams():
    """Derivatives are central differences where a ball comes to the seam of two boxes, the second 10 µm higher."""
    tree, rng, n, dt = ds.mechanisms.free_body(1.0, np.diag([0.004, 0.005, 0.003])), np.random.default_rng(1), 40, 1e-2
    contacts = [
        ds.Contact("body", Sphere(0.05), (ds.Frame("world", (x, 0, -0.1 - lower)), Box(1, 1, 0.2)), friction=0.3)
        for x, lower in ((-0.5, 0.0), (0.5, -1e-5))
    ]
    kernel, derived = (
        ds.compile(tree, contacts, what, limits=False, **TIGHT) for what in ("contact_step", "contact_step_derivatives")
    )
    q = tree.random(rng, batch=n)
    q[:, 0], q[:, 1], q[:, 2] = rng.uniform(-0.04, 0.02, n), 0.0, 0.05 + rng.uniform(-5e-5, 2e-3, n)
    v, turned = rng.normal(size=(n, 6)), ds.forward_kinematics(tree, q, "body")[:, :3, :3]
    v[:, :3] = np.einsum("nji,jn->ni", turned, rng.uniform([[0.5], [-0.3], [-0.3]], [[3.0], [0.3], [0.0]], (3, n)))
    given = np.zeros((n, kernel.arguments[2].size)), np.zeros((n, 6)), np.full(n, dt)
    found, start = derived(q, v, *given), kernel(q, v, *given)
    assert (start[2][:, 5] > 0).sum() > n / 4, "the second box acts"
    for column, (by_q, by_v) in enumerate(zip(np.eye(12)[:, :6], np.eye(12)[:, 6:], strict=True)):
        ends = [kernel(tree.integrate(q, s * np.tile(by_q, (n, 1))), v + s * by_v, *given) for s in (1e-6, -1e-6)]
        above, below = (np.concatenate([tree.difference(start[0], x[0]), x[1]], axis=1) for x in ends)
        expected = (above - below) / 2e-6
        size = 1 + np.abs(expected).max(axis=1)
        off = np.abs(found.A[:, :, column] - expected).max(axis=1) / size
        assert np.sort(off)[: n - 2].max() < 1e-6, column  # two may be at a switch
