"""Contacts of shapes on planes and of faces, patches, near pairs; filters; errors."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.spatial import ConvexHull, HalfspaceIntersection

import delassus as ds
from delassus.contact import (
    Box,
    Capsule,
    Collider,
    CollisionDetector,
    ContactSet,
    Cylinder,
    Ellipsoid,
    HalfSpace,
    Mesh,
    Scene,
    Sphere,
    frames_of,
)
from internals import world_poses
from tools import extent, random_rotation, tree_of_urdf

ROUND_OFF = 1e-12
"""Closed formulas on lengths of order one."""

rng = np.random.default_rng(0)
CUBE = np.array([[x, y, z] for x in (-0.3, 0.3) for y in (-0.2, 0.2) for z in (-0.25, 0.25)])
SHAPES = {
    "sphere": Sphere(0.3),
    "capsule": Capsule(0.2, 0.6),
    "box": Box(0.5, 0.7, 0.3),
    "cylinder": Cylinder(0.25, 0.5),
    "hull": Mesh(rng.normal(size=(40, 3)) * 0.3),
    "cube": Mesh(CUBE),
    "ellipsoid": Ellipsoid(0.3, 0.15, 0.25),
}
FREE = ds.mechanisms.free_body(1.0, np.eye(3), name="body")
TWO = {"a": FREE, "b": FREE}
AT = FREE.placement("body")


def two_bodies(a, b, **options):
    return Scene(TWO, [Collider("a/body", a), Collider("b/body", b)], **options)


def pose(R, p):
    """Pose of the body frame from that of the collider, which sits at the body's named frame."""
    return np.hstack([R @ AT.rotation.T, (p - R @ AT.rotation.T @ AT.position)[:, None]])


def about(axis, angle):
    """Rotation about a coordinate axis."""
    c, s = np.cos(angle), np.sin(angle)
    return np.roll(np.array([[1, 0, 0], [0, c, -s], [0, s, c]]), (axis, axis), (0, 1))


def signed_distance(shape, x):
    """Distance of a point (in the frame of the shape) to its surface, negative inside; of a hull, to its planes."""
    match shape:
        case Sphere():
            return np.linalg.norm(x) - shape.radius
        case Capsule():
            t = np.clip(x[2], -shape.length / 2, shape.length / 2)
            return np.linalg.norm(x - [0, 0, t]) - shape.radius
        case Box():
            beyond = np.abs(x) - np.array([shape.x, shape.y, shape.z]) / 2
            return np.linalg.norm(np.maximum(beyond, 0)) + min(beyond.max(), 0)
        case Cylinder():
            beyond = np.array([np.hypot(x[0], x[1]) - shape.radius, abs(x[2]) - shape.length / 2])
            return np.linalg.norm(np.maximum(beyond, 0)) + min(beyond.max(), 0)
        case Ellipsoid():  # to first order
            half = np.array([shape.x, shape.y, shape.z])
            size = np.linalg.norm(x / half)
            return (size - 1) * size / np.linalg.norm(x / half**2)
    from scipy.spatial import ConvexHull

    planes = ConvexHull(shape.vertices).equations
    return (planes[:, :3] @ x + planes[:, 3]).max()


def check_surfaces(contacts, bodies, tolerance):
    """Half a depth either way along the normal of each contact lie the surfaces of its two bodies.

    Of an open one with the world the point is on the body that moves.
    Of shapes that lie askew in a face, points are inside: only the deepest is looked at.
    """
    askew = any(isinstance(shape, Capsule) for shape, _, _ in bodies)
    for k in [np.argmax(contacts.depths)] if askew else range(len(contacts)):
        x, shift = contacts.points[k], contacts.normals[k] * contacts.depths[k] / 2
        if contacts.depths[k] < 0 and contacts.links[k, 1] < 0:
            x = x + shift
        for side, (shape, R, p) in zip((-1, 1), bodies, strict=True):
            if shape is not None:
                assert abs(signed_distance(shape, R.T @ (x + side * shift - p))) < tolerance


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SHAPES))
def test_shapes_on_half_spaces(name):
    """The deepest point is the shape's furthest, all are on both surfaces, and the world is B in any order."""
    local, shape = np.random.default_rng(7), SHAPES[name]
    for _ in range(40):
        R_plane, p_plane = random_rotation(local), local.normal(size=3)
        R, n = random_rotation(local), R_plane[:, 2]
        height = local.uniform(-0.5, 0.2) * extent(shape, -R.T @ n)
        p = p_plane + n * (height + extent(shape, -R.T @ n)) + R_plane[:, :2] @ local.normal(size=2)
        on_body, on_world = Collider("body", shape), Collider("world", HalfSpace(), p_plane, R_plane)
        found = []
        for colliders in ([on_body, on_world], [on_world, on_body]):
            contacts = CollisionDetector(Scene(FREE, colliders), tolerance=0.01).contacts([pose(R, p)])
            found.append(contacts)
            assert (len(contacts) > 0) == (height <= 0.01)
            if not len(contacts):
                continue
            assert contacts.depths.max() == pytest.approx(-height, abs=ROUND_OFF)
            assert contacts.normals == pytest.approx(np.tile(n, (len(contacts), 1)), abs=ROUND_OFF)
            assert contacts.links.tolist() == [[0, -1]] * len(contacts)
            heights = (contacts.points - p_plane) @ n
            above = np.where(contacts.depths > 0, -contacts.depths / 2, -contacts.depths)  # of an open one, on the body
            assert heights == pytest.approx(above, abs=ROUND_OFF)
            check_surfaces(contacts, [(shape, R, p), (None, R, p)], 1e-9)
        assert found[0].points.tolist() == found[1].points.tolist()


def standing(shape, height, R=None, at=(0.3, -0.2)):
    R = np.eye(3) if R is None else R
    return [pose(R, np.array([*at, height]))], CollisionDetector(Scene(FREE, [Collider("body", shape), FLOOR]))


FLOOR = Collider("world", HalfSpace())
LYING = np.array([[0, 0, 1.0], [0, 1, 0], [-1, 0, 0]])


def test_numbers_of_points_on_a_floor():
    """What stands or lies has enough points not to tip over."""
    many = np.array([[x, y, z] for x in np.linspace(-1, 1, 9) for y in np.linspace(-1, 1, 9) for z in (-1, 1)])
    cone = np.array([[np.cos(t), np.sin(t), -1.0] for t in np.linspace(0, 6.2, 40)] + [[0, 0, 1.0]])
    for shape, height, R, n in (
        (Box(1, 1, 1), 0.499, None, 4),
        (Box(1, 1, 1), -0.501, None, 8),
        (Sphere(1), 0.999, None, 1),
        (Capsule(0.2, 1), 0.199, LYING, 2),
        (Capsule(0.2, 1), 0.699, None, 1),
        (Cylinder(0.2, 1), 0.499, None, 4),
        (Cylinder(0.2, 1), 0.199, LYING, 2),
        (Mesh(CUBE), 0.249, None, 4),
        (Mesh(many), 0.999, None, 4),
        (Mesh(cone), 0.999, None, 8),  # of 40 corners
    ):
        poses, detector = standing(shape, height, R)
        contacts = detector.contacts(poses)
        assert len(contacts) == n, shape
        if n >= 4:  # the place above is inside what they span
            middle = contacts.points[:, :2] - [0.3, -0.2]
            angles = np.sort(np.arctan2(middle[:, 1], middle[:, 0]))
            assert np.diff([*angles, angles[0] + 2 * np.pi]).max() < np.pi + 1e-9


def on_top(a, b, R, p, **options):
    return CollisionDetector(two_bodies(a, b), **options).contacts([pose(np.eye(3), np.zeros(3)), pose(R, np.array(p))])


def test_patches_of_flat_faces():
    """Faces that meet flatly touch in the corners of what they share; a line touches at its ends."""
    c, s = np.cos(np.pi / 4), np.sin(np.pi / 4)
    diamond = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    box = Box(1, 1, 1)
    for a, b, R, p, corners in (
        (box, box, np.eye(3), (0.5, 0.25, 0.999), [(x, y) for x in (0, 0.5) for y in (-0.25, 0.5)]),
        (box, Mesh(CUBE), np.eye(3), (0.1, 0, 0.749), [(x, y) for x in (-0.2, 0.4) for y in (-0.2, 0.2)]),
        (Mesh(CUBE), box, np.eye(3), (0.1, 0, 0.749), [(x, y) for x in (-0.3, 0.3) for y in (-0.2, 0.2)]),
        (box, Capsule(0.2, 2), LYING, (0, 0.1, 0.699), [(-0.5, 0.1), (0.5, 0.1)]),
        (box, Cylinder(0.2, 0.4), LYING, (0, 0.1, 0.699), [(-0.2, 0.1), (0.2, 0.1)]),
    ):
        contacts = on_top(a, b, R, p)
        places = np.array(sorted(map(tuple, contacts.points[:, :2].round(6))))
        assert places == pytest.approx(np.array(sorted(corners)), abs=1e-6)
        assert contacts.depths == pytest.approx(0.001, abs=1e-9)
        assert contacts.normals == pytest.approx(np.tile([0, 0, -1.0], (len(corners), 1)), abs=1e-9)
    octagon = on_top(box, box, diamond, (0, 0, 0.999))
    assert len(octagon) == 8
    assert np.linalg.norm(octagon.points[:, :2], axis=1) == pytest.approx(np.hypot(0.5, 0.5 * np.tan(np.pi / 8)))
    for cylinder in (on_top(box, Cylinder(0.2, 1), np.eye(3), (0, 0, 0.999)),
                     on_top(Cylinder(0.2, 1), Cylinder(0.2, 1), LYING @ LYING, (0, 0, 0.999))):  # fmt: skip
        assert len(cylinder) >= 4 and np.ptp(cylinder.points, axis=0)[:2].min() > 0.3
        assert cylinder.depths == pytest.approx(0.001, abs=1e-8)


def ridges(length, width):
    """Shapes with a ridge on top, as long as given, in the direction of x: shape, attitude, height of the ridge."""
    for axis in range(3):
        size = np.full(3, width)
        size[axis] = length
        turn = about(0, np.pi / 4) @ np.roll(np.eye(3), axis, axis=1)
        corners = np.array([*product((-0.5, 0.5), repeat=3)]) * size
        yield Box(*size), turn, width * np.sqrt(0.5)
        yield Mesh(corners), turn, width * np.sqrt(0.5)
    yield Cylinder(width, length), LYING, width
    yield Capsule(width, length), LYING, width


def test_ridges_that_lie_along_each_other_touch_at_the_ends_of_what_they_share():
    """Edges of boxes and hulls, sides of cylinders and capsules; and where they cross, in one point."""
    local = np.random.default_rng(24)
    for (a, R, top), (b, S, bottom) in product(ridges(1.0, 0.2), ridges(0.7, 0.3)):
        W, shift, aside = random_rotation(local), local.normal(size=3), local.uniform(-0.6, 0.6)
        ends = [max(-0.5, aside - 0.35), min(0.5, aside + 0.35)]
        detector = CollisionDetector(two_bodies(a, b))
        for gap, turn in product((1e-2, 1e-4), (0.0, 1.0)):
            place = shift + W @ [aside * (turn == 0.0), 0, top + bottom + gap]
            at = [pose(W @ R, shift), pose(W @ about(2, turn) @ about(0, np.pi) @ S, place)]
            contacts = detector.contacts(at, 0.02)
            places = (contacts.points - shift) @ W
            wanted = [(x, 0, top + gap / 2) for x in (ends if turn == 0.0 else [0.0])]
            assert places[places[:, 0].argsort()] == pytest.approx(np.array(wanted), abs=1e-7)
            assert contacts.depths == pytest.approx(-gap, abs=1e-9)
            assert contacts.normals == pytest.approx(np.tile(-W[:, 2], (len(wanted), 1)), abs=1e-7)


@pytest.mark.parametrize("tilt", [0.0, 1e-9, 1e-6, 1e-4])
def test_patches_do_not_come_and_go(tilt):
    """Bodies that rest on each other have the same points whether they overlap a little or are a little apart.

    Wherever in the world they are, also over an edge, and turned a little on it.
    """
    local = np.random.default_rng(3)
    shapes = (
        (Box(0.3, 0.2, 0.4), 4), (Mesh(CUBE), 4), (Cylinder(0.2, 0.6), 8), (Capsule(0.2, 0.6), 2),
    )  # fmt: skip
    for shape, points in shapes:
        for aside in (0.0, 0.97):
            W, shift, (x, y, angle) = random_rotation(local), local.normal(size=3), local.uniform(-0.1, 0.1, 3)
            lying = LYING if isinstance(shape, Capsule) else np.eye(3)
            R = about(2, angle) @ about(1, tilt) @ lying
            detector, places = CollisionDetector(two_bodies(Box(2, 2, 1), shape)), []
            for gap in (-1e-9, 0.0, 1e-9, 1e-6, 1e-4):
                place = W @ np.array([x + aside, y, 0.5 + extent(shape, -R[2]) + gap]) + shift
                contacts = detector.contacts([pose(W, shift), pose(W @ R, place)], 2e-3)
                places.append((contacts.points - shift) @ W)
                if not aside:
                    assert len(contacts) == points or tilt
                    assert contacts.depths.max() == pytest.approx(-gap, abs=1e-9)
                    assert contacts.normals == pytest.approx(np.tile(-W[:, 2], (len(contacts), 1)), abs=1e-9)
                assert len(contacts) >= min(points, 2)
            for other in places[1:]:
                assert len(other) == len(places[0])
                assert other[:, :2] == pytest.approx(places[0][:, :2], abs=1e-6)


def surface(scale):
    """A tetrahedron that is not filled."""
    corners = scale * np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    return Mesh(corners, [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], convex=False)


def test_contacts_turn_with_the_world():
    """Of all pairs of shapes, surfaces among them, in random poses in which they overlap a little."""
    local, met = np.random.default_rng(5), set()
    shapes = {**SHAPES, "surface": surface(0.6), "small surface": surface(0.3)}
    for (one, a), (other, b) in product(shapes.items(), repeat=2):
        detector = CollisionDetector(two_bodies(a, b))
        for _ in range(4):
            R, S, turn = (random_rotation(local) for _ in range(3))
            way = local.normal(size=3)
            way /= np.linalg.norm(way)
            near, far = 0.0, 2.0  # distances at which they touch, and do not
            for _ in range(12):
                middle = 0.5 * (near + far)
                some = detector.contacts([pose(R, np.zeros(3)), pose(S, middle * way)])
                near, far = (middle, far) if len(some) else (near, middle)
            found, turned = (
                detector.contacts([pose(T @ R, T @ np.zeros(3)), pose(T @ S, T @ (near * way))])
                for T in (np.eye(3), turn)
            )
            rows = [np.column_stack([x.points, x.normals, x.depths]) for x in (found, turned)]
            rows[0][:, :6] = (rows[0][:, :6].reshape(-1, 2, 3) @ turn.T).reshape(-1, 6)
            apart = np.abs(rows[0][:, None] - rows[1]).max(axis=2)  # one may be there twice
            assert np.max([*apart.min(axis=0, initial=1.0), *apart.min(axis=1, initial=1.0)]) < 1e-10, (one, other)
            met |= {(one, other)} if len(found) else set()
    assert len(met) == len(shapes) ** 2


def prism(n):
    """An upright one of n sides."""
    angles = 2 * np.pi * np.arange(n) / n
    rim = 0.3 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return Mesh(np.concatenate([np.column_stack([rim, np.full(n, z)]) for z in (-0.1, 0.1)]))


@pytest.mark.parametrize("ground", [HalfSpace(), Box(4.0, 4.0, 0.2)], ids=["plane", "box"])
@pytest.mark.parametrize("shape", [*map(prism, (4, 5, 8, 9, 13)), Mesh([*prism(8).vertices[:8], (0, 0, 0.1)])],
                         ids=["prism4", "prism5", "prism8", "prism9", "prism13", "pyramid8"])  # fmt: skip
def test_faces_of_many_corners_have_few_contacts(shape, ground):
    """Eight of either of two bodies at most on a plane, twelve on a box, the deepest among them, also where all are
    near; round-off does not choose others."""
    most, local = 12 if isinstance(ground, Box) else 8, np.random.default_rng(0)
    below = (0, 0, -0.1) if isinstance(ground, Box) else (0, 0, 0)
    scene = Scene(TWO, [*(Collider(f"{x}/body", shape) for x in "ab"), Collider("world", ground, below)])
    detector = CollisionDetector(scene)
    for _ in range(20):
        R = about(0, 1e-3 * local.normal()) @ about(2, local.uniform(0, 7))
        height = -0.01 - (shape.vertices @ R.T)[:, 2].min()
        poses = np.array([pose(R, np.array([x, 0, height])) for x in (-0.5, 0.5)])
        for reach in (0.0, 0.1, 1.0):
            contacts = detector.contacts(poses, reach)
            of_ground = contacts.links[:, 1] == -1
            for body in range(2):
                own = contacts.depths[of_ground & (contacts.links[:, 0] == body)]
                assert 3 <= len(own) <= most and own.max() == pytest.approx(0.01, abs=ROUND_OFF)
    flat = np.array([pose(about(2, 0.3), np.array([x, 0, 0.099])) for x in (-0.5, 0.5)])
    places = [np.sort(detector.contacts(flat + 1e-16 * local.normal(size=flat.shape)).points, axis=0) for _ in range(9)]
    assert all(x.shape == places[0].shape and np.abs(x - places[0]).max() < 1e-9 for x in places)


def test_contacts_span_the_support_polygon():
    """Of disks, boxes and prisms that stand on boxes of all sizes, over edges and corners: what both faces share."""
    local, seen, body = np.random.default_rng(0), 0, ds.mechanisms.free_body(1.0, np.eye(3))
    angles = np.pi / 4 * np.arange(8)
    disk = 0.1 * np.stack([np.cos(angles), np.sin(angles)], axis=1)  # the rim of a cylinder has eight points
    bases = [(Cylinder(0.1, 0.2), disk), (prism(8), 3.0 * disk)]
    bases += [(Box(0.2, 0.1, 0.2), np.array([(x, y) for x in (-0.1, 0.1) for y in (-0.05, 0.05)]))]
    for shape, base in bases:
        for _ in range(80):
            x, y = local.uniform(0.5, 2.0, 2) * np.abs(base).max()
            place, R = np.array([*(local.uniform(-1, 1, 2) * [x, y]), 0.1 - 1e-5]), about(2, local.uniform(0, 7))
            table = Collider("world", Box(2 * x, 2 * y, 0.2), (0, 0, -0.1))
            detector = CollisionDetector(Scene(body, [Collider("body", shape), table]))
            points = detector.contacts(pose(R, place)[None], 1e-3).points[:, :2]
            if len(points) < 3:
                continue
            faces = ConvexHull(base @ R[:2, :2].T + place[:2]).equations
            edges = [[1, 0, -x], [-1, 0, -x], [0, 1, -y], [0, -1, -y]]
            shared = HalfspaceIntersection(np.vstack([faces, edges]), points.mean(axis=0)).intersections
            assert ConvexHull(points).volume > 0.99 * ConvexHull(shared).volume
            seen += len(points) > 8
    assert seen > 5


def test_contacts_start_at_the_tolerance():
    for tolerance in (0.0, 1e-3):
        scene = Scene(FREE, [Collider("body", Sphere(0.5)), FLOOR])
        detector = CollisionDetector(scene, tolerance=tolerance)
        assert detector.tolerance == tolerance
        for gap, n in ((-1e-6, 1), (tolerance - 1e-9, 1), (tolerance + 1e-9, 0)):
            assert len(detector.contacts([pose(np.eye(3), np.array([0, 0, 0.5 + gap]))])) == n
    assert 0 < CollisionDetector(scene).tolerance < 1e-8


def test_degenerate_places_have_a_contact():
    """One centre, crossing or coinciding axes, a centre on a box's face: some unit normal, and the full depth."""
    for a, b, p, depth in (
        (Sphere(0.3), Sphere(0.2), (0, 0, 0), 0.5),
        (Sphere(0.3), Capsule(0.2, 1), (0, 0, 0.1), 0.5),
        (Capsule(0.3, 1), Capsule(0.2, 1), (0, 0, 0), 0.5),
        (Sphere(0.3), Box(1, 1, 1), (0, 0, 0), 0.8),
        (Sphere(0.3), Box(1, 1, 1), (0.5, 0, 0), 0.3),
        (Cylinder(0.15, 0.35), Sphere(0.17), (0.0057, 0.0065, 0.1518), 0.1932),  # out through the base
        (Cylinder(0.15, 0.35), Sphere(0.17), (0.1, 0, 0), 0.22),
        (Cylinder(0.15, 0.35), Sphere(0.17), (0, 0, 0), 0.32),
    ):
        contacts = on_top(a, b, np.eye(3), p)
        assert contacts.depths.max() == pytest.approx(depth)
        ContactSet(contacts.links, contacts.points, contacts.frames)
    crossed = on_top(Capsule(0.3, 1), Capsule(0.2, 1), LYING, (0, 0, 0))
    assert crossed.depths == pytest.approx([0.5]) and abs(crossed.normals[0, 1]) == pytest.approx(1.0)


def test_surfaces_are_not_filled():
    """A ball in the notch of a mesh touches its hull, and not its surface; on its arm it touches both."""
    outline = [(0, 0), (3, 0), (3, 2), (2, 2), (2, 1), (1, 1), (1, 2), (0, 2)]
    vertices = np.array([(x, y, z) for z in (0.0, 1.0) for x, y in outline])
    caps = [(0, 7, 5), (7, 6, 5), (0, 5, 4), (0, 4, 1), (1, 4, 3), (1, 3, 2)]
    triangles = [(a, c, b) if below else (a + 8, b + 8, c + 8) for below in (1, 0) for a, b, c in caps]
    triangles = [t[::-1] for t in triangles]
    for i in range(8):
        j = (i + 1) % 8
        triangles += [(i, j, j + 8), (i, j + 8, i + 8)]
    for convex in (True, False):
        mesh = Mesh(vertices, triangles, convex=convex)
        assert (len(on_top(mesh, Sphere(0.3), np.eye(3), (1.5, 1.5, 0.5))) > 0) == convex
        contacts = on_top(mesh, Sphere(0.3), np.eye(3), (0.5, 2.29, 0.5))
        assert contacts.depths.max() == pytest.approx(0.01, abs=1e-6)
        assert contacts.normals[0] == pytest.approx([0, -1, 0], abs=1e-6)
        floor = CollisionDetector(Scene(FREE, [Collider("body", mesh), FLOOR]))
        assert len(floor.contacts([pose(np.eye(3), np.array([0, 0, -0.01]))])) == 4  # those of the notch bear nothing
        detector = CollisionDetector(two_bodies(mesh, Box(0.2, 0.4, 0.2)))
        for gap in (1e-9, 1e-4, 0.02):  # the nearest point is there, and the whole of the face
            above = pose(np.eye(3), np.array([0.5, 2.2 + gap, 0.5]))
            contacts = detector.contacts([pose(np.eye(3), np.zeros(3)), above], 0.1)
            assert contacts.depths == pytest.approx(-gap, abs=1e-6) and len(contacts) > (3 if convex else 0)
            assert contacts.normals == pytest.approx(np.tile([0, -1.0, 0], (len(contacts), 1)), abs=1e-6)


@pytest.mark.parametrize("axis", range(3))
def test_meshes_beside_their_frames(axis):
    """They touch where their corners are, not where their frames are."""
    aside, up = 3.0 * np.eye(3)[axis], np.array([0, 0, 0.7])
    can, cube = Cylinder(0.4, 1.0), Mesh(CUBE + aside)
    for a, b, p in ((can, cube, up - aside), (cube, can, up + aside)):
        assert len(on_top(a, b, np.eye(3), p)) > 0
        assert len(on_top(a, b, np.eye(3), up)) == 0


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["nsgs", "pgs"])
def test_cubes_in_a_pile_stay_together(solver):
    """What a solver leaves of velocities, within its tolerance, parts bodies by less than a step looks ahead."""
    n, size = 4, 0.2
    cube = ds.mechanisms.free_body(1.0, size**2 / 6 * np.eye(3), name="body")
    colliders = [Collider(f"b{k}/body", Box(size, size, size)) for k in range(n)]
    scene = Scene({f"b{k}": cube for k in range(n)}, [*colliders, FLOOR])
    q = scene.neutral().reshape(n, 7)
    q[:, 2] = size * (np.arange(n) + 0.5)
    q[:, 5], q[:, 6] = np.sin(0.175 * np.arange(n)), np.cos(0.175 * np.arange(n))  # turned by 0.35 rad each
    simulator = ds.Simulator(scene, solver=solver, dt=0.01, q0=q.ravel(), tolerance=1e-8)
    for _ in range(10):
        simulator.step()
    assert np.abs(simulator.q - q.ravel()).max() < 1e-7


@pytest.mark.parametrize("ground", [Box(4, 4, 0.02), HalfSpace()], ids=["wall", "floor"])
def test_fast_bodies_do_not_pass(ground):
    """Twenty bodies that tumble at 200 m/s stop at 2 cm of wall."""
    local, shapes = np.random.default_rng(1), (Sphere(0.05), Capsule(0.03, 0.1), Box(0.1, 0.06, 0.08))
    body = ds.mechanisms.free_body(1.0, np.diag([0.002, 0.003, 0.0025]), name="body")
    wall = Collider("world", ground, (0, 0, -0.01 * isinstance(ground, Box)))
    for k in range(20):
        scene = Scene(body, [Collider("body", shapes[k % 3]), wall], gravity=(0, 0, 0))
        q, v = body.random(local), local.normal(size=6) * 20
        q[:2], q[2] = local.uniform(-0.3, 0.3, 2), local.uniform(0.1, 0.5)
        ((R, _),) = world_poses(body, q)
        v[:3] = R.T @ [200 * np.sin(k / 20), 0, -200 * np.cos(k / 20)]
        simulator = ds.Simulator(scene, q0=q, v0=v)
        for _ in range(8):
            simulator.step()
            assert simulator.q[2] > 0.0


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["newton", "nsgs"])
def test_bodies_do_not_pass_what_others_drive_them_into(solver):
    """A ball at rest before a wall, or along it, that another one hits within the step, beside one on the wall."""
    ball, wall = Sphere(0.05), Collider("world", Box(40, 40, 0.02), (0, 0, -0.01))
    for k, (speed, dt, gap, mass) in enumerate(product((5, 200), (1e-3, 1e-2), (1e-4, 1e-2), (0.1, 10.0))):
        bodies = {
            "a": ds.mechanisms.free_body(mass, ball.inertia(mass)),
            "b": ds.mechanisms.free_body(1.0, ball.inertia(1.0)),
            "beside": ds.mechanisms.free_body(1.0, ball.inertia(1.0)),
        }
        balls = [Collider(f"{name}/body", ball) for name in ("beside", "a", "b")]
        scene = Scene(bodies, [*balls, wall], gravity=(0, 0, 0))
        heights = {"a": 0.15 + gap + 0.5 * speed * dt, "b": 0.05 + gap, "beside": 0.05}
        q = scene.configuration(**{name: [name == "beside", 0, z, 0, 0, 0, 1] for name, z in heights.items()})
        aside = speed * (k.bit_count() % 2)
        v = scene.velocity(a=[aside, 0, -speed, 0, 0, 0], b=[aside, 0, 0, 0, 0, 0])
        simulator = ds.Simulator(scene, q0=q, v0=v, dt=dt, solver=solver)
        for _ in range(4):
            simulator.step()
            assert simulator.q[9] > 0.05 - 1.1e-4


# -- the list of near pairs ----------------------------------------------------------------------------------------


def ball_and_box(shape):
    """Centre and half edges of the box around a shape in its frame, and the radius of the ball about that centre."""
    if isinstance(shape, HalfSpace):
        return np.zeros(3), np.zeros(3), 0.0
    low, high = -extent(shape, -np.eye(3)), extent(shape, np.eye(3))
    centre, half = (low + high) / 2, (high - low) / 2
    match shape:
        case Box():
            return centre, half, np.linalg.norm(half)
        case Cylinder():
            return centre, half, np.hypot(half[0], half[2])
        case Mesh():
            return centre, half, np.linalg.norm(shape.vertices - centre, axis=1).max()
    return centre, half, half.max()


def near(scene, poses, slack):
    """Pairs of colliders whose boxes, in the world's axes, meet; or whose ball and half-space do."""
    centres, halves, radii = [], [], []
    for collider, link in zip(scene.colliders, scene.links, strict=True):
        R, p = collider.rotation, np.asarray(collider.position)
        if link >= 0:
            R, p = AT.rotation @ R, AT.rotation @ p + AT.position
            R, p = poses[link][:, :3] @ R, poses[link][:, :3] @ p + poses[link][:, 3]
        centre, half, radius = ball_and_box(collider.shape)
        centres.append(R @ centre + p)
        halves.append(half if isinstance(collider.shape, Sphere) else np.abs(R) @ half)
        radii.append(radius)
    centres, halves = np.array(centres), np.array(halves)
    found = (np.abs(centres[:, None] - centres) <= halves[:, None] + halves + slack).all(axis=2)
    for k, collider in enumerate(scene.colliders):
        if isinstance(collider.shape, HalfSpace):
            found[k] = found[:, k] = (centres - collider.position) @ collider.rotation[:, 2] <= np.array(radii) + slack
    return {(i, j) for i, j in np.argwhere(found) if i < j and scene.links[i] != scene.links[j]}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_near_pairs_miss_nothing_and_list_no_others(seed):
    """Along random motions of many bodies, small margins find what a list of all pairs finds, to the last bit.

    Without a margin, pairs are listed whose boxes meet, or whose ball meets a half-space.
    """
    local = np.random.default_rng(seed)
    shapes = [SHAPES[name] for name in ("sphere", "capsule", "box", "cylinder", "hull", "ellipsoid")] * 3
    robots = {f"r{i}": FREE for i in range(len(shapes))}
    colliders = [
        Collider(f"r{i}/body", shape, local.normal(size=3) * 0.3, random_rotation(local))
        for i, shape in enumerate(shapes)
    ]
    walls = [Collider("world", HalfSpace(), (0, 0, -1)), Collider("world", Box(9, 9, 0.2), (0, 0, 2))]
    scene = Scene(robots, colliders + walls)
    every = CollisionDetector(scene, margin=1e3)
    detectors = [CollisionDetector(scene, margin=m) for m in (1e-9, 0.02, 0.5)]
    q, v = scene.neutral().reshape(-1, 7), local.normal(size=(len(shapes), 6))
    q[:, :3] = local.uniform(-1, 1, (len(shapes), 3))
    q, v = q.ravel(), v.ravel()
    found, listed = 0, detectors[0].space
    for step in range(90):
        size = 0.4 if step % 40 == 39 else 0.01  # sometimes a jump
        q = scene.tree.integrate(q, size * v)
        poses = [np.hstack([R, p[:, None]]) for R, p in world_poses(scene.tree, q)]
        wanted = every.contacts(poses)
        found += len(wanted)
        assert np.all(np.diff(wanted.colliders @ [len(scene.colliders), 1]) >= 0)
        for detector in detectors:
            contacts = detector.contacts(poses)
            for name in ("colliders", "links", "points", "frames", "depths"):
                assert np.array_equal(getattr(contacts, name), getattr(wanted, name)), (name, step)
        pairs = {(min(pair), max(pair)) for pair in listed.pairs[: listed.counts[0]].tolist()}
        assert near(scene, poses, -1e-6) <= pairs <= near(scene, poses, 1e-6)
    assert found > 500


@pytest.mark.parametrize("spare", [None, -1, 0, 1])
def test_contacts_are_of_the_pairs_that_may_touch_in_their_order(spare):
    """Of bodies at one place: few, and as many pairs as there is room for at first, one fewer, one more."""
    local, n = np.random.default_rng(3), 5 if spare is None else 26
    chain = ds.mechanisms.chain(n)
    colliders = [Collider(f"link{i + 1}", Sphere(1.0)) for i in range(n)]
    fixed = {"ball": Sphere(1.0), "box": Box(1, 1, 1), "floor": HalfSpace()}
    colliders += [Collider("world", shape, name=name) for name, shape in fixed.items()]
    colliders = [colliders[k] for k in local.permutation(len(colliders))]
    every = local.permutation(CollisionDetector(Scene(chain, colliders, parents_collide=True)).pairs)
    dropped = 3 if spare is None else len(every) - (64 + 8 * len(colliders)) - spare
    assert dropped > 0
    ignored = [[colliders[k].name for k in pair] for pair in every[:dropped]]
    detector = CollisionDetector(Scene(chain, colliders, parents_collide=True, ignore=ignored))
    poses = np.concatenate([np.tile(np.eye(3), (n, 1, 1)), local.uniform(-0.1, 0.1, (n, 3, 1))], axis=2)
    contacts = detector.contacts(poses)
    assert np.array_equal(contacts.colliders, detector.pairs)  # one each
    assert (contacts.links[:, 0] >= 0).all() and len(detector.pairs) == len(every) - dropped


def test_gaps_of_links():
    """A gap for each link: those of a pair add up, in whatever order they were asked for; the world's is 0."""
    scene = Scene({n: FREE for n in "abc"}, [*(Collider(f"{n}/body", Sphere(0.5)) for n in "abc"), FLOOR])
    detector, poses = CollisionDetector(scene), [pose(np.eye(3), np.array([2.0 * k, 0, 0.9 + k])) for k in range(3)]
    gap = np.sqrt(5.0) - 1
    for reach, pairs in (
        ([0.3, 0, 0], []), ([0.41, 0, 0], [(0, 3)]), ([0, gap + 1e-6, 0], [(0, 1), (1, 2)]),
        ([0, gap / 2, gap / 2 + 1e-6], [(1, 2)]), ([0, 0, 0], []), ([9, 0, 0], [(0, 1), (0, 2), (0, 3)]),
    ):  # fmt: skip
        assert sorted(map(tuple, detector.contacts(poses, reach).colliders.tolist())) == pairs
        assert len(detector.contacts(poses, 0.41)) == len(detector.contacts(poses, np.array(0.41))) == 1
    assert len(detector.contacts(poses, 2)) > 2


def test_near_pairs_follow_what_only_turns():
    """A long capsule that turns about its middle reaches a ball that it was not near to."""
    body = ds.mechanisms.free_body(1.0, np.eye(3))
    scene = Scene(
        {"long": body, "ball": body}, [Collider("long/body", Capsule(0.1, 4.0)), Collider("ball/body", Sphere(0.2))]
    )
    detector = CollisionDetector(scene, margin=0.1)
    q = scene.configuration(ball=[1.5, 0, 0, 0, 0, 0, 1])
    turned = scene.configuration(long=[0, 0, 0, 0, np.sqrt(0.5), 0, np.sqrt(0.5)], ball=[1.5, 0, 0, 0, 0, 0, 1])
    for state, contacts in ((q, 0), (turned, 1), (q, 0)):
        poses = [np.hstack([R, p[:, None]]) for R, p in world_poses(scene.tree, state)]
        assert len(detector.contacts(poses)) == contacts


def test_contacts_do_not_depend_on_what_was_asked_before():
    detector = CollisionDetector(two_bodies(Box(1, 1, 1), Cylinder(0.3, 1)))
    local = np.random.default_rng(5)
    states = [[pose(random_rotation(local), local.normal(size=3) * 0.3) for _ in range(2)] for _ in range(10)]
    first = [detector.contacts(s) for s in states]
    for poses, before in zip(reversed(states), reversed(first), strict=True):
        again = CollisionDetector(detector.scene).contacts(poses)
        assert np.array_equal(detector.contacts(poses).frames, before.frames)
        assert np.array_equal(again.frames, before.frames) and np.array_equal(again.points, before.points)


def test_contact_sets_are_complete():
    """Valid by the checks of `ContactSet`, read-only, with the tangents of `frames_of` and geometric means."""
    scene = Scene(TWO, [
        Collider("a/body", Box(1, 1, 1), friction=0.9, restitution=0.25),
        Collider("b/body", Box(1, 1, 1), friction=0.4, restitution=1.0),
        Collider("world", HalfSpace(), friction=0.0),
    ])  # fmt: skip
    local = np.random.default_rng(2)
    for _ in range(20):
        R = random_rotation(local)
        contacts = CollisionDetector(scene).contacts([pose(R, np.zeros(3)), pose(R, R[:, 0] * 0.99)])
        names = ("links", "points", "frames", "depths", "friction", "restitution", "colliders")
        checked = ContactSet(*(getattr(contacts, name) for name in names))
        for name in names:
            assert np.array_equal(getattr(checked, name), getattr(contacts, name))
            assert getattr(checked, name).dtype == getattr(contacts, name).dtype
            assert not getattr(contacts, name).flags.writeable
        world = contacts.links[:, 1] == -1
        assert world.any() and not world.all()
        assert contacts.friction == pytest.approx(np.where(world, 0.0, 0.6))
        assert contacts.restitution == pytest.approx(np.where(world, 0.0, 0.5))
        assert contacts.frames == pytest.approx(frames_of(contacts.normals), abs=ROUND_OFF)
    alone = ContactSet(contacts.links, contacts.points, contacts.frames)  # no colliders that they are of
    assert (alone.colliders == -1).all() and alone.colliders.shape == contacts.links.shape
    assert not alone.depths.any() and not alone.restitution.any() and not alone.surface_velocities.any()
    assert (alone.friction == 0.5).all()


# -- filters -------------------------------------------------------------------------------------------------------


def named_pairs(scene):
    names = [c.name for c in scene.colliders]
    return {frozenset((names[i], names[j])) for i, j in CollisionDetector(scene).pairs}


def chain_colliders(n):
    return [Collider(f"link{i}", Sphere(0.1)) for i in range(1, n + 1)]


def test_parents_and_children_do_not_collide():
    chain = ds.mechanisms.chain(3)
    colliders = [*chain_colliders(3), Collider("link1", Box(1, 1, 1), name="box"), FLOOR]
    pairs = named_pairs(Scene(chain, colliders))
    expected = {("link1", "link3"), ("box", "link3"), *((n, "world") for n in ("link1", "link2", "link3", "box"))}
    assert pairs == {frozenset(p) for p in expected}
    both = named_pairs(Scene(chain, colliders, parents_collide=True))
    assert both - pairs == {frozenset(p) for p in (("link1", "link2"), ("box", "link2"), ("link2", "link3"))}


def test_links_without_mass_are_parts_of_a_joint():
    """Two links with a massless one between them are parent and child."""
    text = """<robot name="r">{}<joint name="j" type="revolute"><parent link="a"/><child link="m"/><axis xyz="1 0 0"/>
        <limit effort="1" velocity="1" lower="-1" upper="1"/></joint><joint name="k" type="revolute"><parent link="m"/>
        <child link="b"/><axis xyz="0 1 0"/><limit effort="1" velocity="1" lower="-1" upper="1"/></joint></robot>"""
    mass = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    for inertia, collide in (("", False), (mass, True)):
        links = f'<link name="a">{mass}</link><link name="m">{inertia}</link><link name="b">{mass}</link>'
        tree = tree_of(text.format(links))
        scene = Scene(tree, [Collider("a", Sphere(1)), Collider("b", Sphere(1))])
        assert (len(CollisionDetector(scene).pairs) == 1) == collide


def tree_of(text, root="floating"):
    return tree_of_urdf(text, root)


def test_a_fixed_base_is_a_parent_and_the_world_is_not():
    """The base of an arm does not touch its first link, but free bodies, other robots and its second link."""
    mass = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    joint = '<joint name="{0}{1}" type="continuous"><parent link="{0}"/><child link="{1}"/><axis xyz="0 0 1"/></joint>'
    links = "".join(f'<link name="{name}">{mass}</link>' for name in "xyz")
    arm = tree_of(f'<robot name="r">{links}{joint.format("x", "y")}{joint.format("y", "z")}</robot>', "fixed")
    colliders = [Collider(f"{r}/{link}", Sphere(1)) for r in ("one", "two") for link in "xyz"]
    scene = Scene({"one": arm, "two": arm, "free": FREE}, [*colliders, Collider("free/body", Sphere(1)), FLOOR])
    pairs = named_pairs(scene)
    assert frozenset(("one/x", "one/y")) not in pairs and frozenset(("one/x", "one/z")) in pairs
    assert frozenset(("one/x", "two/y")) in pairs and frozenset(("one/x", "two/x")) not in pairs
    assert frozenset(("one/x", "free/body")) in pairs and frozenset(("one/y", "world")) in pairs
    assert frozenset(("one/x", "world")) not in pairs
    assert frozenset(("one/x", "one/y")) in named_pairs(Scene({"one": arm}, colliders[:3], parents_collide=True))
    within = [Collider(f"{r}/{link}", Sphere(1)) for r in ("one", "one/more") for link in "xy"]
    pairs = named_pairs(Scene({"one": arm, "one/more": arm}, within))  # a name that begins as another one does
    assert frozenset(("one/x", "one/more/y")) in pairs and frozenset(("one/more/x", "one/y")) in pairs
    assert frozenset(("one/x", "one/y")) not in pairs and frozenset(("one/more/x", "one/more/y")) not in pairs


def test_what_is_free_meets_what_its_own_file_fixes_to_the_world():
    """As a table and a cup of one file."""
    mass = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    joint = '<joint name="j" type="floating"><parent link="table"/><child link="cup"/></joint>'
    links = "".join(f'<link name="{name}">{mass}</link>' for name in ("table", "cup"))
    tree = tree_of(f'<robot name="r">{links}{joint}</robot>', "fixed")
    assert len(named_pairs(Scene(tree, [Collider("table", Sphere(1)), Collider("cup", Sphere(1))]))) == 1


@pytest.mark.parametrize(("rule", "law"), [
    ("geometric-mean", lambda a, b: np.sqrt(a * b)), ("max", max),
    ("harmonic-mean", lambda a, b: 2 * a * b / (a + b) if a + b else 0.0),
])  # fmt: skip
def test_friction_of_two_colliders_follows_the_rule(rule, law):
    for a, b in ((0.0, 0.0), (0.0, 0.8), (0.3, 0.0), (0.2, 0.8), (1.5, 0.5)):
        scene = Scene(FREE, [Collider("body", Sphere(0.1), friction=a), Collider("world", HalfSpace(), friction=b)],
                      friction_rule=rule)  # fmt: skip
        assert CollisionDetector(scene).contacts([pose(np.eye(3), np.zeros(3))]).friction == pytest.approx([law(a, b)])


def test_ignored_pairs():
    chain = ds.mechanisms.chain(4)
    colliders = [*chain_colliders(4), Collider("link4", Sphere(0.1), name="tip"), FLOOR]
    all_pairs = named_pairs(Scene(chain, colliders))
    by_link = named_pairs(Scene(chain, colliders, ignore=[("link1", "link4"), ("world", "link2")]))
    assert all_pairs - by_link == {frozenset(p) for p in (("link1", "link4"), ("link1", "tip"), ("world", "link2"))}
    by_name = named_pairs(Scene(chain, colliders, ignore=[("tip", "link1")]))
    assert all_pairs - by_name == {frozenset(("tip", "link1"))}
    assert named_pairs(Scene(chain, colliders, ignore=[["tip"], ("link2", "link2")])) == all_pairs  # with themselves


# -- errors --------------------------------------------------------------------------------------------------------


def test_bad_input_is_refused():
    scene = two_bodies(Sphere(1), Sphere(1))
    detector = CollisionDetector(scene)
    good = np.array([pose(np.eye(3), np.zeros(3)), pose(np.eye(3), np.ones(3) * 9)])
    for bad in (np.nan, np.inf):
        poses = good.copy()
        poses[1, 2, 3] = bad
        with pytest.raises(ds.DelassusError, match="pose of link 'b/body': expected finite"):
            detector.contacts(poses)
    with pytest.raises(ds.DelassusError, match="reach of link 'b/body': expected finite"):
        detector.contacts(good, [0.0, np.nan])
    assert len(detector.contacts(good)) == 0  # and goes on
    with pytest.raises(ds.DelassusError, match=r"poses: expected shape \(2, 3, 4\)"):
        detector.contacts(good[:1])
    for options in ({"tolerance": -1e-9}, {"tolerance": np.nan}, {"margin": 0}, {"margin": np.inf}, {"margin": "1"}):
        with pytest.raises(ds.DelassusError, match=f"{next(iter(options))}: expected a"):
            CollisionDetector(scene, **options)
    with pytest.raises(ds.DelassusError, match="scene: expected a"):
        CollisionDetector(FREE)
    flat = Mesh([(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)])
    with pytest.raises(ds.DelassusError, match="mesh of collider 'a/body': expected points that span a volume"):
        CollisionDetector(two_bodies(flat, Sphere(1)))


def test_scenes_with_little_in_them():
    """No colliders, only fixed ones, or one."""
    for colliders in ([], [FLOOR], [FLOOR, FLOOR], [Collider("body", Sphere(1))]):
        detector = CollisionDetector(Scene(FREE, colliders))
        assert len(detector.contacts([pose(np.eye(3), np.zeros(3))])) == 0 and len(detector.pairs) == 0


def test_poses_in_any_memory_layout():
    detector = CollisionDetector(two_bodies(Sphere(0.5), Sphere(0.5)))
    good = np.array([pose(np.eye(3), np.zeros(3)), pose(np.eye(3), np.array([0, 0, 0.9]))])
    frozen, strided = good.copy(), np.zeros((2, 3, 8))[:, :, ::2]
    frozen.setflags(write=False)
    strided[:] = good
    for poses in (good, frozen, strided, good.tolist(), np.asfortranarray(good)):
        assert detector.contacts(poses).depths == pytest.approx([0.1])
