"""All pairs of shapes, at random, touching, degenerate and aligned, beside a search over all directions.

What loops of scenes and texts of kernels find is held to the extents of the two shapes alone: how far one must move
along a direction until a plane across it parts the two. The least of that over all directions is the depth, and of
shapes apart minus their distance.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations_with_replacement, cycle, pairwise

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import delassus as ds
from delassus.contact import Box, Capsule, Collider, CollisionDetector, Cylinder, Ellipsoid, Mesh, Sphere
from internals import TraceOps, constraints, interpret_trace
from tools import evaluated, extent, interpreted, random_rotation, requested

SAME = 1e-8
"""Of depths, over the size of both shapes: four times the worst of 40,000 poses (2e-9, parallel capsules)."""

ASKEW = 1e-5
"""Angle of a normal, over which depths along it differ: edges and axes count as parallel up to 1e-6."""

SHALLOW = 0.02
"""Overlap, over the size of the smaller shape, up to which the way out is the shortest there is."""

NEARBY = 2.0
"""Of deeper ones, how much longer than the shortest a way out of kernels may be: 1.7 is the worst of 5,000 poses."""

DEEP = 0.5
"""Distance, over the size of both shapes, by which points along these may be outside: passes end before they are
exact."""

EXPANDED = 1.001
"""The same in scenes, where a polytope of at most 128 corners says which one is the shortest."""

Placed, touches = constraints.contact.Placed, constraints.contact.touches
rng = np.random.default_rng(0)


def hull(vertices):
    """Convex hull with the triangles of its surface, counterclockwise seen from outside."""
    from scipy.spatial import ConvexHull

    vertices, found = np.asarray(vertices, dtype=float), ConvexHull(vertices)
    turned = np.einsum(
        "ij,ij->i", np.cross(*(vertices[found.simplices[:, k]] - vertices[found.simplices[:, 0]] for k in (1, 2))),
        found.equations[:, :3],
    )  # fmt: skip
    return Mesh(vertices, np.where(turned[:, None] > 0, found.simplices, found.simplices[:, ::-1]))


BRICK = np.array([[x, y, z] for x in (-0.3, 0.3) for y in (-0.2, 0.2) for z in (-0.25, 0.25)])
SHAPES = {
    "sphere": Sphere(0.3),
    "capsule": Capsule(0.2, 0.6),
    "box": Box(0.5, 0.7, 0.3),
    "cylinder": Cylinder(0.25, 0.6),
    "ellipsoid": Ellipsoid(0.3, 0.15, 0.25),
    "spheroid": Ellipsoid(0.2, 0.2, 0.35),
    "hull": hull(rng.normal(size=(10, 3)) * 0.3),
    "brick": hull(BRICK @ random_rotation(rng)),
}
PAIRS = list(combinations_with_replacement(SHAPES, 2))
BODY = ds.mechanisms.free_body(1.0, np.eye(3), name="body")
TWO = {"a": BODY, "b": BODY}
AT = BODY.placement("body")


def sized(shape, factor):
    """The same shape in another size."""
    if isinstance(shape, Mesh):
        return Mesh(factor * shape.vertices, shape.triangles)
    return type(shape)(*(factor * getattr(shape, name) for name in shape.__dataclass_fields__))


def radius_of(shape):
    """Radius of a ball about the origin that holds the shape."""
    match shape:
        case Sphere():
            return shape.radius
        case Capsule():
            return shape.radius + shape.length / 2
        case Cylinder():
            return np.hypot(shape.radius, shape.length / 2)
        case Box():
            return np.linalg.norm([shape.x, shape.y, shape.z]) / 2
        case Ellipsoid():
            return max(shape.x, shape.y, shape.z)
    return np.linalg.norm(shape.vertices, axis=1).max()


def overlap(a, A, b, B, n):
    """How far A must move along unit vectors ``n`` (..., 3) until a plane across them parts it from B."""
    return n @ (B[1] - A[1]) + extent(b, n @ B[0]) + extent(a, -n @ A[0])


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def sphere_points(n):
    """Unit vectors (n, 3), evenly spread."""
    k = np.arange(n) + 0.5
    z, angle = 1 - 2 * k / n, np.pi * (1 + np.sqrt(5)) * k
    return np.stack([np.sqrt(1 - z * z) * np.cos(angle), np.sqrt(1 - z * z) * np.sin(angle), z], axis=1)


EVERYWHERE = sphere_points(400)


def faces_of(shape):
    """Unit normals (n, 3) of faces, or axes both ways."""
    if not isinstance(shape, Mesh):
        return np.vstack([np.eye(3), -np.eye(3)])
    x = shape.vertices[shape.triangles]
    return unit(np.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0]))


def edges_of(shape):
    """Unit vectors (n, 3) along edges and sides."""
    if isinstance(shape, Mesh):
        x = shape.vertices[shape.triangles]
        return unit((np.roll(x, -1, axis=1) - x).reshape(-1, 3))
    return np.eye(3)[{Box: [0, 1, 2], Capsule: [2], Cylinder: [2]}.get(type(shape), [])]


def directions(a, A, b, B):
    """Unit vectors, among them those at which polyhedra leave each other soonest."""
    crossing = np.cross((edges_of(a) @ A[0].T)[:, None], (edges_of(b) @ B[0].T)[None]).reshape(-1, 3)
    crossing = unit(crossing[np.linalg.norm(crossing, axis=1) > 1e-6])
    return np.vstack([EVERYWHERE, faces_of(a) @ A[0].T, faces_of(b) @ B[0].T, crossing, -crossing])


def least_overlap(a, A, b, B, also, local):
    """The least of all directions, searched from those above and from others that are known."""
    n = np.vstack([directions(a, A, b, B), also])
    values = overlap(a, A, b, B, n)
    order = np.argsort(values)[:3]
    n, values = n[order], values[order]
    for step in 0.1 * 0.6 ** np.arange(36):
        others = unit(n[:, None] + step * local.normal(size=(1, 16, 3)))
        found = overlap(a, A, b, B, others)
        best = found.argmin(axis=1)
        new = found[np.arange(len(n)), best]
        better = new < values
        n[better], values[better] = others[np.arange(len(n)), best][better], new[better]
    return values.min()


def upright(local):
    """Some rotation by right angles."""
    return Rotation.from_euler("xyz", 90.0 * local.integers(4, size=3), degrees=True).as_matrix().round()


def turn_to(u, v):
    """The least rotation of a unit vector into another."""
    if u @ v < -1 + 1e-12:
        w = unit(np.cross(u, np.eye(3)[np.argmin(np.abs(u))]))
        return 2 * np.outer(w, w) - np.eye(3)
    x, y, z = np.cross(u, v)
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + K + K @ K / (1 + u @ v)


GAPS = (-1e-1, -1e-2, -1e-4, -1e-6, -1e-9, 0.0, 1e-9, 1e-6, 1e-4, 1e-2, 1e-1)


def some_poses(a, b, n, local):
    """Poses of two shapes: anywhere, side by side, concentric, coaxial, nearly so, and feature over feature."""
    both, small = radius_of(a) + radius_of(b), min(radius_of(a), radius_of(b))
    out = []
    for k in range(n):
        A, B, away = [random_rotation(local), local.normal(size=3) * 0.3 * both], [random_rotation(local), 0.0], None
        B[1] = np.zeros(3)
        some = local.choice([0.0, 1.0], 3)
        if k % 7 == 1:
            A[1] = A[1] * some
        if k % 7 in (2, 3):  # along one another's axes, or nearly
            A, B[0] = [upright(local), local.integers(-2, 3, 3) * 0.25 * small * some], upright(local)
        if k % 7 == 3:
            A[0] = A[0] @ Rotation.from_rotvec(local.choice(np.eye(3)) * 10.0 ** -local.integers(1, 14)).as_matrix()
        if k % 7 == 4:  # concentric or coaxial
            along = B[0] @ np.eye(3)[local.integers(3)]
            A = [B[0] @ upright(local), along * local.choice([0.0, local.uniform(-0.6, 0.6)]) * both]
        if k % 7 == 5:  # concentric to within so much
            A[1] = local.normal(size=3) * small * 10.0 ** -local.integers(1, 18)
        if k % 7 == 6:  # face, edge or vertex over a face, or over the seam of two triangles
            of_a, of_b = local.choice(faces_of(a)), local.choice(faces_of(b))
            away = B[0] @ of_b
            if local.random() < 0.7:
                A[0] = turn_to(A[0] @ of_a, -away) @ A[0]
            across = (np.eye(3) - np.outer(away, away)) @ local.normal(size=3)
            A[1] = 0.5 * both * away + local.choice([0.0, 0.3]) * small * across
            if isinstance(b, Mesh):
                corners = b.vertices[local.choice(b.triangles[faces_of(b) @ of_b > 1 - 1e-9])]
                part = local.choice([0.0, 0.5, local.random()])
                A[1] = B[0] @ (corners[0] + part * (corners[1] - corners[0])) + both * away
        if k % 7 == 6 or (k % 7 < 5 and local.random() < 0.5):
            if away is None:
                n_all = directions(a, A, b, B)
                away = n_all[np.argmin(overlap(a, A, b, B, n_all))]
            A[1] = A[1] + away * (overlap(a, A, b, B, away) + local.choice(GAPS) * small)
        out.append((tuple(A), tuple(B)))
    return out


def in_kernels(a, b, poses):
    """Gaps (n, k), normals and points (n, k, 3) of contacts at n poses, as the text of kernels has them on arrays."""
    ops, n = TraceOps(), len(poses)
    turns = [np.array([pose[k][0] for pose in poses]) for k in (0, 1)]
    places = [np.array([pose[k][1] for pose in poses]) for k in (0, 1)]
    placed = []
    for shape in (a, b):
        placed.append(Placed(ops, shape, ops.unknown(3, 3), np.eye(3), ops.vector(3)))
    found = touches(*placed)
    assert len(found) == ds.Contact("body", a, ("world", b)).n_points
    rows = [[t.gap + (0.0 if t.apart is None else t.apart), *t.normal, *t.point] for t in found]
    given = [x for R, p in zip(turns, places, strict=True) for x in (R.reshape(n, 9), p)]
    (flat,) = interpret_trace(ops, [ops.nodes(ops.matrix(rows))], np.concatenate(given, axis=1))
    every = flat.reshape(n, len(found), 7)
    return every[..., 0], every[..., 1:4], every[..., 4:]


@cache
def detector(a, b):
    return CollisionDetector(ds.Scene(TWO, [Collider("a/body", a), Collider("b/body", b)]))


def in_scenes(a, b, poses, reach):
    """The same of each pose as loops find it: depths (k,), normals, points."""
    out, find = [], detector(a, b)
    for pose in poses:
        at = [np.hstack([R @ AT.rotation.T, (p - R @ AT.rotation.T @ AT.position)[:, None]]) for R, p in pose]
        found = find.contacts(at, reach)
        out.append((-found.depths, found.normals, found.points))
    return out


def faults_of(shapes, pose, found, least, reach, longest):
    """What is wrong of contacts at a pose, where the least overlap is known; ``longest`` is that of deep ones."""
    (a, b), (A, B), (gaps, normals, points) = shapes, pose, found
    both, small = radius_of(a) + radius_of(b), min(radius_of(a), radius_of(b))
    if not len(gaps):
        return ["no contact"] if least > -reach + SAME * both else []
    if not (np.isfinite(gaps).all() and np.isfinite(normals).all() and np.isfinite(points).all()):
        return ["not finite"]
    out, deepest = [], gaps.argmin()
    depth, n = -gaps[deepest], normals[deepest]
    if np.abs(np.linalg.norm(normals, axis=1) - 1).max() > 1e-12:
        out.append("no unit normal")
    if abs(overlap(a, A, b, B, n) - depth) > ASKEW * both:
        out.append("not the overlap along its normal")
    if depth < least - SAME * both:
        out.append("less than the least overlap")
    if depth > (least + SAME * both if least < SHALLOW * small else longest * least):
        out.append("more than the least overlap")
    # half a depth either way along the normal is a point of each body
    near = (gaps <= reach)[:, None]
    askew = both * (DEEP if least > SHALLOW * small and longest == NEARBY else ASKEW)
    for (shape, (R, p)), side in (((a, A), -0.5), ((b, B), 0.5)):
        d = np.vstack([EVERYWHERE, normals, -normals])
        x = points + side * np.where(near, -gaps[:, None], 0.0) * normals
        missing = 2 * np.sqrt(both * max(depth - least, 0.0))  # of a normal that is not quite the best
        if (near * ((x - p) @ d.T - extent(shape, d @ R)) > askew + missing).any():
            out.append("a point outside of a body")
    return out


def check(name, sizes, n, local):
    """Contacts of a pair of shapes in both orders, in kernels and scenes; of each fault how often and where first."""
    a, b = (sized(SHAPES[x], size) for x, size in zip(name, sizes, strict=True))
    poses = some_poses(a, b, n, local)
    back = [pose[::-1] for pose in poses]
    reach = 0.2 * (radius_of(a) + radius_of(b))
    kernels = [list(zip(*in_kernels(*x), strict=True)) for x in ((a, b, poses), (b, a, back))]
    scenes = [in_scenes(a, b, poses, reach), in_scenes(b, a, back, reach)]
    faults = {}
    for k, (pose, turned) in enumerate(zip(poses, back, strict=True)):
        every = [kernels[0][k], kernels[1][k], scenes[0][k], scenes[1][k]]
        signs = (1, -1, 1, -1)
        also = [s * f[1][f[0].argmin()] for s, f in zip(signs, every, strict=True) if len(f[0])]
        also = [x for x in also if abs(np.linalg.norm(x) - 1) < 1e-9]
        least = least_overlap(a, pose[0], b, pose[1], np.reshape(also, (-1, 3)), local)
        for where, found, sign in zip(
            ("kernel", "kernel, swapped", "scene", "scene, swapped"), every, signs, strict=True
        ):
            longest = NEARBY if "kernel" in where else EXPANDED
            shapes, at = ((a, b), pose) if sign > 0 else ((b, a), turned)
            for fault in faults_of(shapes, at, found, least, reach, longest):
                faults.setdefault((*name, where, fault), []).append(k)
        if least < -1e-3 * (radius_of(a) + radius_of(b)) and len(also) == 4 and np.ptp(also, axis=0).max() > ASKEW:
            faults.setdefault((*name, "normals apart differ"), []).append(k)
    return faults


SEED = 20261129
"""Of the poses."""


@pytest.mark.turns(6)
@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
@pytest.mark.parametrize("kind", ["alike", "apart"])
def test_all_pairs_of_shapes(kind, part):
    """In both orders: of one size, and of sizes that are far apart, from 1e-5 m to 1e3 m."""
    faults, local = {}, np.random.default_rng(SEED + part)
    for name in PAIRS[part::6]:
        sizes = (1.0, 1.0) if kind == "alike" else local.permutation([1.0, 10.0 ** local.integers(-5, 4)])
        faults |= check(name, sizes, 21 if kind == "alike" else 10, local)
    assert not faults, (SEED, faults)


@pytest.mark.slow
def test_small_curved_shapes_on_wide_faces():
    """Kernels beside scenes: an angle of 1e-8 is nothing on a small shape, but it lifts the corners of a large one."""
    a, b = SHAPES["spheroid"], sized(SHAPES["brick"], 100.0)
    both, poses = radius_of(a) + radius_of(b), some_poses(a, b, 700, np.random.default_rng(0))[6::7]
    gaps, _, _ = in_kernels(a, b, poses)
    for gap, (depths, *_) in zip(gaps.min(axis=1), in_scenes(a, b, poses, 0.2 * both), strict=True):
        least = depths.min()
        assert least < -SHALLOW * radius_of(a) or abs(gap - least) < SAME * both


def test_hulls_that_are_boxes_have_the_contacts_of_boxes():
    """Flat on a table and over its edge, in kernels and scenes: faces are whole whatever the order of their corners."""
    local, table, box = np.random.default_rng(4), Box(1.0, 1.2, 0.3), Box(0.6, 0.4, 0.5)
    for _ in range(6):
        brick, poses = hull(BRICK[local.permutation(8)]), []
        for _ in range(8):
            R = Rotation.from_rotvec([0, 0, local.uniform(0, 7)]).as_matrix()
            poses.append(((R, np.array([*local.uniform(-0.6, 0.6, 2), 0.4 - 1e-3])), (np.eye(3), np.zeros(3))))
        of_box, of_brick = (in_kernels(x, table, poses) for x in (box, brick))
        for k, found in enumerate(in_scenes(brick, table, poses, 0.0)):
            wanted, made = (points[k][gaps[k] < 0.0] for gaps, _, points in (of_box, of_brick))
            for points in (made, found[2]):
                apart = np.linalg.norm(wanted[:, None] - points, axis=2)
                assert len(points) and max(*apart.min(axis=0), *apart.min(axis=1)) < SAME, k


@pytest.mark.slow
def test_units_of_length_do_not_matter():
    """Shapes and poses in another unit have the same contacts in it, in kernels to the last digit.

    Of each shape with its like and with the next.
    """
    local, names = np.random.default_rng(SEED), list(SHAPES)
    pairs = [*zip(names, names, strict=True), *pairwise(names)]
    for name, power in zip(pairs, cycle((-17, 10)), strict=False):
        a, b, factor = *(SHAPES[x] for x in name), 2.0**power
        poses, reach = some_poses(a, b, 3, local), 0.2 * (radius_of(a) + radius_of(b))
        scaled = [tuple((R, factor * p) for R, p in pose) for pose in poses]
        c, d = sized(a, factor), sized(b, factor)
        gaps, normals, points = in_kernels(a, b, poses)
        others = in_kernels(c, d, scaled)
        assert (others[0] == factor * gaps).all() and (others[1] == normals).all(), name
        assert (others[2] == factor * points).all(), name
        for one, other in zip(in_scenes(a, b, poses, reach), in_scenes(c, d, scaled, factor * reach), strict=True):
            assert one[0].shape == other[0].shape, name
            assert np.abs(other[0] / factor - one[0]).max(initial=0.0) < SAME, name


TRACED = [
    ("sphere", "sphere"), ("sphere", "capsule"), ("sphere", "box"), ("sphere", "cylinder"), ("sphere", "brick"),
    ("capsule", "capsule"), ("capsule", "box"),
]  # fmt: skip
"""Pairs with a formula: others have a loop, which is a part of programs."""


def test_traces_say_what_the_text_says():
    """What is compiled is a trace: simplified, it has the same contacts where shapes coincide."""
    local = np.random.default_rng(SEED)
    for name in TRACED:
        a, b = (SHAPES[x] for x in name)
        poses, ops = some_poses(a, b, 14, local), TraceOps()
        placed = [Placed(ops, shape, ops.unknown(3, 3), np.eye(3), ops.vector(3)) for shape in (a, b)]
        rows = [[t.gap if t.apart is None else t.gap + t.apart, *t.normal, *t.point] for t in touches(*placed)]
        given = [np.array([pose[k][i] for pose in poses]) for k in (0, 1) for i in (0, 1)]
        (found,) = evaluated(ops, [ops.matrix(rows)], *given, batch=(len(poses),))
        gaps, normals, points = in_kernels(a, b, poses)
        near = (gaps < 1.0)[..., None]
        wanted = np.concatenate([gaps[..., None], normals, points], axis=-1)
        least = gaps.min(axis=1)
        assert np.abs(found[..., 0].min(axis=1) - least).max() < SAME, name
        unique = (least > -SHALLOW * min(radius_of(a), radius_of(b)))[:, None, None] * near
        assert np.abs(unique * (found - wanted)).max() < ASKEW, name
        assert np.abs(np.linalg.norm(found[..., 1:4], axis=-1) - 1).max() < 1e-12, name


def body_of(mass, moment):
    return ds.mechanisms.free_body(mass, moment * np.eye(3), name="body")


def two(a, b):
    """Two free bodies without gravity."""
    body = body_of(1.0, 0.01)
    return ds.Scene({"a": body, "b": body}, [Collider("a/body", a), Collider("b/body", b)], gravity=(0, 0, 0))


def speck(shape):
    """A ball of half a millimetre beside something of the world."""
    return ds.Scene(body_of(1e-6, 1e-13), [Collider("body", Sphere(5e-4)), Collider("world", shape)])


REST = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
CROSSED = [0.0, 0.0, 0.0, np.sin(0.4), 0.0, 0.0, np.cos(0.4)]
ROD = Capsule(0.1, 0.5)
COINCIDE = {
    "balls": (two(Sphere(0.1), Sphere(0.1)), REST + REST),
    "a ball in a rod": (two(Sphere(0.1), ROD), REST + REST),
    "rods that cross": (two(ROD, ROD), REST + CROSSED),
    "rods on one axis": (two(ROD, ROD), REST + REST),
    "a rod in a spheroid": (two(ROD, Ellipsoid(0.1, 0.1, 0.2)), REST + REST),
    "a speck in a box": (speck(Box(0.1, 0.1, 0.1)), [0.0, 0.0, 0.049, *REST[3:]]),
    "a speck in a pin": (speck(Cylinder(5e-4, 0.1)), [0.0, 0.0, 0.0499, *REST[3:]]),
}


def one_step(scene, q, v, dt=1e-3):
    """Configuration and velocity after a step of a kernel, without compiling it."""
    asked = requested(scene.tree, scene.constraints(), "contact_step")
    values = {a.name: np.zeros(a.shape) for a in asked.arguments} | {"q": np.array(q), "v": np.array(v), "dt": dt}
    found = interpreted(asked, values)
    return found["q_next"], found["v_next"]


@pytest.mark.slow
@pytest.mark.parametrize("name", COINCIDE)
def test_what_coincides_parts(name):
    """By the position correction, in kernels and in the simulator, until no more overlap is left than may be."""
    scene, q = COINCIDE[name]
    v = np.zeros(scene.tree.nv)
    sim = ds.Simulator(scene, dt=1e-3, q0=q, v0=v, max_overlap=1.0)
    sim.step()
    after, _ = one_step(scene, q, v)
    ways = [x[:3] - (x[7:10] if len(q) > 7 else q[:3]) for x in (after, sim.q)]
    lengths = np.linalg.norm(ways, axis=1)
    assert lengths.min() > 1e-5 and np.ptp(lengths) < 1e-9
    for _ in range(150):
        sim.step()
    assert sim.contacts.depths.max(initial=0.0) < 1.1e-4


def turned(R, shape, below, at):
    """A body of a shape beside one of the world at the origin, both turned by ``R``, without gravity; its state."""
    wall = Collider("world", below, (0.0, 0.0, 0.0), R)
    scene = ds.Scene(body_of(1.0, 0.01), [Collider("body", shape), wall], gravity=(0, 0, 0))
    return scene, np.concatenate([R @ at, Rotation.from_matrix(R).as_quat()])


def test_rods_that_meet_flatly_do_not_turn():
    """At 1 m/s, a rod touches a longer one at both of its ends, wherever along it."""
    v = np.array([-1.0, 0.0, 0.0, 0.0, 0.0, 0.0])  # in axes of the body
    for seed in range(5):
        R = random_rotation(np.random.default_rng(seed))
        made = [turned(R, ROD, Capsule(0.1, 1.0), np.array([0.2, 0.0, at])) for at in (0.0, 0.037, -0.11)]
        scene, states = made[0][0], np.array([q for _, q in made])
        found = [*one_step(scene, states, v)[1]]
        for q in states:
            sim = ds.Simulator(scene, dt=1e-3, q0=q, v0=v)
            sim.step()
            found.append(sim.v)
        assert np.abs(found).max() < 1e-9


def test_balls_over_seams_of_hulls_stop():
    """Over the diagonals along which the faces of a brick are cut, and over their ends."""
    for seed in range(8):
        R = random_rotation(np.random.default_rng(seed))
        scene, q = turned(np.eye(3), Sphere(0.1), hull(BRICK @ R.T), np.zeros(3))
        places = np.array([[0.0, 0.0], [0.15, 0.1], [-0.15, 0.1], [-0.3, 0.2]])
        q = np.hstack([np.c_[places, np.full(4, 0.35)] @ R.T, np.tile(q[3:], (4, 1))])
        assert np.abs(one_step(scene, q, np.array([*(-R[:, 2]), 0.0, 0.0, 0.0]))[1]).max() < 1e-9


@pytest.mark.slow
def test_vertices_of_hulls_are_one_contact_each():
    """On the vertex that is lowest along all directions: one contact carries, also where a solver shares impulses."""
    rng, body = np.random.default_rng(0), body_of(1.0, 0.01)
    corners = rng.normal(size=(20, 3))
    shape = hull(0.2 * corners / np.linalg.norm(corners, axis=1, keepdims=True))
    asked = requested(body, ds.Contact("body", shape, friction=0.0), "contact_step", solver="admm", tolerance=1e-10)
    q = np.array([body.random(seed) for seed in range(4)])
    R = ds.forward_kinematics(body, q, "body")[:, :3, :3]
    q[:, 2] = 1e-5 - (shape.vertices @ R.swapaxes(1, 2))[..., 2].min(axis=1)
    v = np.hstack([-R[:, 2], np.zeros((4, 3))])
    values = {a.name: np.zeros(a.shape) for a in asked.arguments} | {"q": q, "v": v, "dt": 1e-3}
    found = interpreted(asked, values)["impulses_next"]
    assert (np.count_nonzero(found.reshape(4, -1), axis=1) == 1).all()
