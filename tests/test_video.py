"""Pictures without a display: what is in front hides what is behind, lamps cast shadows, films show it."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import delassus as ds
from delassus.contact import Box, Capsule, Collider, Cylinder, HalfSpace, Mesh, Scene, Sphere, load_colliders
from delassus.pictures.rendering import LAMP, OPENING, Renderer
from delassus.pictures.surfaces import COLOURS, creased, surfaces, thinned, triangles_of
from delassus.pictures.video import write_video
from internals import Recorder, boxes
from tools import on_a_full_disk, random_rotation

START = np.array([0.0, 0, -50, 0, 0, 0, 1])
"""A free body where no camera sees it."""

MARK = "<inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/></inertial>"


@pytest.mark.parametrize(
    ("shape", "volume"),
    [
        (Sphere(0.3), 4 / 3 * np.pi * 0.3**3),
        (Capsule(0.2, 0.5), np.pi * 0.2**2 * (0.5 + 4 / 3 * 0.2)),
        (Cylinder(0.2, 0.5), np.pi * 0.2**2 * 0.5),
        (Box(0.1, 0.2, 0.3), 0.006),
    ],
)
def test_surfaces_are_closed_and_normals_point_out(shape, volume):
    vertices, normals, faces = thinned(*creased(*triangles_of(shape)), 1e-4)
    corners = vertices[faces]
    signed = np.einsum("fi,fi->f", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum() / 6
    assert 0.97 * volume < signed < 1.001 * volume  # polyhedra are inside round shapes
    outwards = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert np.einsum("fi,fci->fc", outwards, normals[faces]).min() > 0


def test_a_normal_does_not_depend_on_how_a_face_is_cut():
    """A low pyramid, of which one side is two triangles: its tip looks straight up, in whatever order corners come."""
    x = np.array([[0, 0, 0.2], [1, 1, 0], [-1, 1, 0], [-1, -1, 0], [1, -1, 0], [1, 0.3, 0]])
    for turn in range(3):
        faces = np.roll([[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 5], [0, 5, 1]], turn, axis=1)
        vertices, normals, _ = creased(x, faces)
        (tip,) = np.flatnonzero(vertices[:, 2] > 0.1)
        np.testing.assert_allclose(normals[tip], [0, 0, 1], atol=1e-12)


def test_near_things_hide_far_ones_and_lamps_cast_shadows():
    """Two boxes behind one another, from either side; the floor beside them is lit, that in their shadow is not."""
    free = {name: ds.mechanisms.free_body(1.0, np.ones(3)) for name in "ab"}
    shapes = [Collider(f"{name}/{tree.link_names[0]}", Box(1, 0.2, 1)) for name, tree in free.items()]
    scene = Scene(free, [*shapes, Collider("world", HalfSpace())])
    q = scene.neutral()
    q[[1, 2, 8, 9]] = -0.3, 0.6, 0.3, 0.6
    renderer = Renderer(scene, q, 80, 60)
    for side, seen in ((-1, 0), (1, 1)):
        pixel = renderer.picture(q, np.array([0, 0, 0.6]), np.array([0, side * 4.0, 0.5]))[30, 40].astype(int)
        assert pixel.argmax() == np.argmax(COLOURS[seen]) and pixel.argmin() == np.argmin(COLOURS[seen])
    above = renderer.picture(q, np.zeros(3), np.array([0, -1e-3, 12.0])).mean(axis=2)
    assert above[10:50, 10:70].min() < 0.75 * np.median(above[5])


def test_nothing_flickers_where_surfaces_are_the_same():
    """Tiles flush with each other, with a decal and with the floor: nearly equal cameras take the same picture."""
    rng = np.random.default_rng(0)
    colours = [(1, 0, 0, 1), (0, 1, 0, 1), (0, 0, 1, 1), (1, 1, 0, 1)]
    tiles = [
        Collider("world", Box(1, 1, 0.2), (x, y, 0.0), rgba=colour)
        for (x, y), colour in zip(((-0.5, 0.5), (0.5, 0.5), (-0.5, -0.5), (0.3, -0.4)), colours, strict=True)
    ]
    decal = Collider("world", Box(0.6, 0.6, 0.1), (0, 0, 0.05), rgba=(1, 0, 1, 1))  # its top is that of the tiles
    sunk = Collider("world", Box(1, 1, 0.5), (1.6, 0, -0.15), rgba=(0, 1, 1, 1))  # so is that of the floor
    floor = Collider("world", HalfSpace(), (0, 0, 0.1), rgba=(0.5, 0.5, 0.5, 1))
    renderer = Renderer(Scene(ds.mechanisms.free_body(1.0, np.ones(3)), [*tiles, decal, sunk, floor]), START, 96, 64)
    for away in (np.array([0.4, -1.5, 2.0]), np.array([1.0, -3.0, 0.4])):
        first = renderer.picture(START, np.zeros(3), away).astype(int)
        for _ in range(3):
            second = renderer.picture(START, np.zeros(3), away + 1e-9 * rng.normal(size=3)).astype(int)
            assert np.abs(second - first).max() <= 1
    above = renderer.picture(START, np.zeros(3), np.array([0, -1e-3, 6.0])).astype(int)
    assert (above[28:36, 44:52] @ [1, -2, 1]).min() > 200  # the decal is seen, being later than tiles
    assert (above[28:36, 70:74] @ [-2, 1, 1]).min() > 200  # and half spaces are not


def test_rays_meet_the_nearest_of_all_triangles():
    """As by a solution for each ray and each triangle, of random shapes, some of them around the camera."""
    rng = np.random.default_rng(1)
    corners, faces = triangles_of(Sphere(0.6))
    inside_out = Mesh(corners, faces[:, ::-1], convex=False)
    shapes = [Sphere(0.2), inside_out, Box(0.5, 0.1, 0.8), Cylinder(0.05, 1.5), Box(20, 20, 20)]
    wall = Collider("world", Box(9, 0.1, 9), (0, 3, 0))
    solids = [wall, *(Collider("world", shape, rng.normal(size=3) * 0.5, random_rotation(rng)) for shape in shapes)]
    renderer = Renderer(Scene(ds.mechanisms.free_body(1.0, np.ones(3)), solids), START, 32, 20)
    for _ in range(3):
        renderer.picture(START, np.zeros(3), np.array([0, -3, 0]) + rng.normal(size=3))
        _, rays, *_ = renderer._free[0]
        corners = rays.local[renderer._geometry.faces]
        y, x = (np.arange(n) + 0.5 - 0.5 * n for n in rays.inverse.shape)
        u, v = (w.ravel() * 2 * OPENING / len(rays.inverse) for w in np.meshgrid(x, y))
        b = np.linalg.solve(corners.swapaxes(1, 2), np.stack([u, v, np.ones_like(u)]))
        depths = np.where((b >= 0).all(axis=1), b.sum(axis=1), 0.0).max(axis=0).reshape(rays.inverse.shape)
        apart = np.abs(rays.inverse - depths) > 1e-4 * depths
        assert apart.mean() < 2e-3, apart.mean()  # rays along an edge


def test_floors_look_the_same_beside_what_stands_on_them():
    """Blocks of pixels of a floor alone, in the light, are shaded at once, others one by one."""
    floor = [Collider("world", HalfSpace()), Collider("world", Box(0.5, 0.5, 0.1), 1.5 * np.array(LAMP))]
    dots = [
        Collider("world", Sphere(0.02), (x, y, 0), rgba=(1, 0, 0, 0.4))  # they cast no shadow
        for x in np.linspace(-1, 1, 17) for y in np.linspace(-1, 12, 40)
    ]  # fmt: skip
    tree, pictures = ds.mechanisms.free_body(1.0, np.ones(3)), []
    for colliders in (floor, [*floor, *dots]):
        renderer = Renderer(Scene(tree, colliders), START, 128, 64)
        pictures.append(renderer.picture(START, np.zeros(3), np.array([0.1, -1.5, 0.5])).astype(int))
    met = renderer._free[0][1].inverse.reshape(64, 2, 128, 2).max(axis=(1, 3)) > 0
    assert met[8:].any(axis=1).mean() > 0.5 and met.mean() < 0.5
    assert np.abs(pictures[0] - pictures[1])[~met].max() <= 2
    assert pictures[0][32, 64].max() < 0.85 * pictures[0][32, 10].min()  # a shadow


def test_what_is_translucent_is_seen_through():
    """Half of the light is that of what is behind, and a shadow is cast only where less than half goes through."""
    for opacity in (0.25, 0.5, 0.75, 1.0):
        glass = Collider("world", Box(1, 1, 0.01), (0, 0, 1), rgba=(0, 0, 0, opacity))
        floor = Collider("world", HalfSpace(), rgba=(1, 1, 1, 1))
        renderer = Renderer(Scene(ds.mechanisms.free_body(1.0, np.ones(3)), [glass, floor]), START, 64, 64)
        picture = (renderer.picture(START, np.array([0, 0, 1.0]), np.array([0, -1e-3, 2.0])) / 255.0) ** 2
        through, beside = picture[28:36, 28:36].mean(), picture[:4].mean()
        assert through == pytest.approx((1 - opacity) * beside, abs=0.12)


@pytest.mark.slow
def test_a_film_shows_what_was_recorded(tmp_path):
    from PIL import Image, ImageSequence

    recording = boxes(1).simulator().run(0.2, record=Recorder(every=5))
    path = write_video(recording, tmp_path / "deep" / "box.gif", fps=10, size=(64, 48))
    with Image.open(path) as film:
        pictures = [np.asarray(p.convert("RGB")).astype(int) for p in ImageSequence.Iterator(film)]
    assert len(pictures) == 3 and pictures[0].shape == (48, 64, 3)
    assert np.abs(pictures[0] - pictures[-1]).max() > 30
    assert write_video(recording, tmp_path / "box.webp", fps=10, size=(64, 48)).read_bytes()[8:12] == b"WEBP"
    pytest.importorskip("imageio_ffmpeg")
    assert write_video(recording, tmp_path / "box.mp4", fps=10, size=(64, 48)).read_bytes()[4:8] == b"ftyp"


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "package"), [(".mp4", "imageio_ffmpeg"), (".webp", "PIL"), (".gif", "PIL")])
@pytest.mark.skipif(os.name == "nt", reason="limits of a process")
def test_a_film_that_does_not_fit_leaves_nothing(tmp_path, suffix, package):
    pytest.importorskip(package)
    recording = boxes(1).simulator().run(0.2, record=Recorder(every=5))
    Renderer(recording.scene, recording.q[0], 64, 48).picture(recording.q[0], np.zeros(3), np.ones(3))  # compiled
    path = tmp_path / f"film{suffix}"
    path.write_bytes(b"of before")
    said = on_a_full_disk(partial(write_video, recording, path, fps=10, size=(64, 48)))
    assert f"film{suffix}': expected a file that can be written" in said
    assert list(tmp_path.iterdir()) == [path] and path.read_bytes() == b"of before"


@pytest.mark.skipif(os.name == "nt", reason="names with colons")
@pytest.mark.parametrize("name", ["12:30.mp4", "tcp:/127.0.0.1:9.mp4", "-y.mp4", "100%d.mp4"])
def test_films_of_any_name(tmp_path, monkeypatch, name):
    pytest.importorskip("imageio_ffmpeg")
    monkeypatch.chdir(tmp_path)
    recording = boxes(1).simulator().run(0.0, record=Recorder())
    assert write_video(recording, name, size=(32, 32)).read_bytes()[4:8] == b"ftyp"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / name]


def test_films_of_forged_or_diverged_recordings(tmp_path):
    recording = boxes(1).simulator().run(0.01, record=Recorder())
    time = recording.time.copy()
    time[-1] = 1e15
    with pytest.raises(ds.DelassusError, match=r"at most 100,000 pictures, got 1, for 2.5e\+16 of 1e\+15 s"):
        write_video(replace(recording, time=time), tmp_path / "f.gif")
    for far in (np.nan, np.inf, 1e200):
        q = recording.q.copy()
        q[-1, 0] = far
        with pytest.raises(ds.DelassusError, match="configurations within 1e"):
            write_video(replace(recording, q=q), tmp_path / "f.gif", fps=100)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("f.avi", {}, "ends in .mp4 or .webp or .gif"),
        ("f.gif", {"size": (641, 360)}, "an even number"),
        ("f.gif", {"fps": 0}, "fps"),
        ("f.gif", {"size": None}, "size: expected a width and a height"),
        ("f.gif", {"size": (64,)}, "size: expected a width and a height"),
        ("f.gif", {"speed": 0.0}, "speed"),
        ("file/f.gif", {}, "can be written"),
    ],
)
def test_what_cannot_be_filmed_is_refused(tmp_path, name, options, message):
    (tmp_path / "file").write_text("")
    recording = boxes(1).simulator().run(0.0, record=Recorder())
    with pytest.raises(ds.DelassusError, match=message):
        write_video(recording, tmp_path / name, **options)


@pytest.mark.slow
def test_robots_look_as_their_files_show_them(tmp_path):
    """Shapes to be seen take the place of those that collide, and a file without them is said."""
    path = tmp_path / "r.urdf"
    shape = "<{0}><geometry><{1}/></geometry></{0}>"
    both = shape.format("visual", "box size='1 2 3'") + shape.format("collision", "sphere radius='0.1'")
    path.write_text(f"<robot name='r'><link name='l'>{MARK}{both}</link></robot>")
    tree = ds.load(path, root="floating")
    assert load_colliders(path, tree)[0].shape == Sphere(0.1)
    assert load_colliders(path, tree, visual=True)[0].shape == Box(1, 2, 3)
    scene = pickle.loads(pickle.dumps(Scene.from_robot(path)))
    (seen,) = surfaces(scene, tree.neutral())
    assert np.allclose(np.ptp(seen.vertices, axis=0), [1, 2, 3])
    bare = Scene(tree, scene.colliders)
    assert np.allclose(np.ptp(surfaces(bare, tree.neutral())[0].vertices, axis=0), 0.2, atol=1e-3)
    path.write_text(path.read_text().replace("box size='1 2 3'", "mesh filename='nowhere.stl'"))
    with pytest.warns(ds.DelassusWarning, match="drawn by its colliders"):
        assert len(surfaces(scene, tree.neutral())) == 1
    with pytest.raises(ds.DelassusError, match="one of 1 names"):
        Scene({"a": tree}, descriptions={"b": path})


def test_what_does_not_move_is_seen_as_its_file_has_it():
    """Pedestals of several arms by their visuals, in colours of the file; no rods between what is on the world."""
    box = "<geometry><box size='0.2 0.2 {}'/></geometry>"
    material = "<material name='m'><color rgba='1 0 0 {}'/></material>"
    base = f"<visual>{box.format(1)}{material.format(0.5)}</visual><visual>{box.format(2)}{material.format(0)}</visual>"
    arm = (
        f"<robot name='r'><link name='b'>{base}<collision>{box.format(3)}</collision></link>"
        f"<link name='l'>{MARK}</link>"
        "<joint name='j' type='continuous'><parent link='b'/><child link='l'/></joint></robot>"
    )
    tree = ds.load(arm)
    scene = Scene.from_robot(arm, root="fixed")
    (pedestal,) = surfaces(scene, scene.neutral())
    assert pedestal.link == -1 and np.ptp(pedestal.vertices, axis=0) == pytest.approx([0.2, 0.2, 1])
    assert (pedestal.colour, pedestal.opacity) == ((255, 0, 0), 0.5)
    wall = Collider("world", Sphere(1), rgba=(0, 1, 0, 1))
    scene = Scene({"a": tree, "b": tree}, [Collider("a/l", Sphere(0.1)), wall])
    assert [(s.link, s.colour) for s in surfaces(scene, scene.neutral())] == [(0, COLOURS[0]), (-1, (0, 255, 0))]


@pytest.mark.peer
def test_geoms_that_mujoco_shows(tmp_path):
    pytest.importorskip("mujoco")
    path = tmp_path / "r.xml"
    path.write_text(
        "<mujoco><worldbody><body name='b'><freejoint/><geom size='0.1' group='3'/>"
        "<geom type='box' size='0.1 0.2 0.3' contype='0' conaffinity='0'/></body></worldbody></mujoco>"
    )
    tree = ds.load(path)
    assert [c.shape for c in load_colliders(path, tree, visual=True)] == [Box(0.2, 0.4, 0.6)]
    assert [c.shape for c in load_colliders(path, tree)] == [Sphere(0.1)]
