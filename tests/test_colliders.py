"""Colliders from files: against Pinocchio's geometry and MuJoCo's contacts; addresses, errors, ignored pairs."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import delassus as ds
from delassus.contact import (
    Box,
    Capsule,
    CollisionDetector,
    Cylinder,
    Ellipsoid,
    HalfSpace,
    Mesh,
    Scene,
    Sphere,
    load_colliders,
    load_ignored,
)
from delassus.contact.collision.colliders import collider_arrays
from delassus.errors import ModelError, UnknownNameError
from internals import configuration_from_mujoco, example_robot_files, world_poses
from tools import tree_of_urdf

pytest.importorskip("coal")

pytestmark = pytest.mark.filterwarnings("ignore:.*not represented:delassus.DelassusWarning")

WRITTEN = 1e-9
"""URDF files write quarter turns to 12 digits; they are read as exact here and as written by Pinocchio."""

MASS = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'


def poses_of(tree, q):
    return np.array([np.hstack([R, p[:, None]]) for R, p in world_poses(tree, q)])


def placed(scene, q):
    """Poses (n, 3, 4) of all colliders in the world."""
    poses, local = poses_of(scene.tree, q), collider_arrays(scene).local
    out = []
    for link, at in zip(scene.links, local, strict=True):
        R, p = (np.eye(3), np.zeros(3)) if link < 0 else (poses[link][:, :3], poses[link][:, 3])
        out.append(np.hstack([R @ at[:, :3], (R @ at[:, 3] + p)[:, None]]))
    return np.array(out)


def example(name):
    files = example_robot_files()
    if name not in files:
        pytest.skip(f"example-robot-data has no {name}")
    return files[name]


def share(path):
    """Folder that holds the packages of example-robot-data."""
    return next(folder.parent for folder in path.parents if folder.name == "example-robot-data")


# -- URDF against Pinocchio ----------------------------------------------------------------------------------------


WARNED = pytest.mark.filterwarnings("ignore::delassus.DelassusWarning", "ignore:You passed package dir")
"""Mimic joints, and inertias that no body has: of no interest here."""


@pytest.mark.peer
@pytest.mark.slow
@WARNED
@pytest.mark.parametrize("name", ["go1", "panda", "ur5"])
def test_urdf_geometry_is_where_pinocchio_has_it(name):
    pin = pytest.importorskip("pinocchio")
    path = example(name)
    tree = ds.load(path)
    colliders = load_colliders(path, tree)
    scene = Scene(tree, colliders)
    model = pin.buildModelFromUrdf(str(path))
    geometry = pin.buildGeomFromUrdf(model, str(path), pin.GeometryType.COLLISION, [str(share(path))])
    q = tree.random(np.random.default_rng(0))
    data, geometry_data = model.createData(), geometry.createData()
    full = pin.neutral(model)
    for joint, sq in zip(tree.joints, tree.q_slices, strict=True):
        full[model.joints[model.getJointId(joint.name)].idx_q] = q[sq][0]
    pin.updateGeometryPlacements(model, data, geometry, geometry_data, full)
    theirs = {}
    for k, g in enumerate(geometry.geometryObjects):
        theirs.setdefault(model.frames[g.parentFrame].name, []).append((g, geometry_data.oMg[k].homogeneous[:3]))
    assert sum(map(len, theirs.values())) == len(colliders)
    for collider, at in zip(colliders, placed(scene, q), strict=True):
        g, expected = theirs[collider.link].pop(0)
        assert at == pytest.approx(expected, abs=WRITTEN)
        shape = g.geometry
        match collider.shape:
            case Box():
                half = [collider.shape.x / 2, collider.shape.y / 2, collider.shape.z / 2]
                assert half == pytest.approx(shape.halfSide)
            case Sphere():
                assert collider.shape.radius == shape.radius
            case Cylinder():
                assert (collider.shape.radius, collider.shape.length / 2) == (shape.radius, shape.halfLength)
            case Mesh():
                corners = np.array(shape.vertices()) * g.meshScale
                assert collider.shape.vertices.min(axis=0) == pytest.approx(corners.min(axis=0), abs=1e-6)
                assert collider.shape.vertices.max(axis=0) == pytest.approx(corners.max(axis=0), abs=1e-6)


@pytest.mark.peer
@WARNED
def test_go1_touches_what_pinocchio_says_it_touches():
    """With the SRDF file that comes with it: the same pairs of links overlap in random configurations."""
    pin = pytest.importorskip("pinocchio")
    path = example("go1")
    srdf = path.parent.parent / "srdf" / "go1.srdf"
    tree = ds.load(path)
    scene = Scene(tree, load_colliders(path, tree), ignore=load_ignored(srdf, tree=tree), parents_collide=True)
    detector = CollisionDetector(scene)
    model = pin.buildModelFromUrdf(str(path))
    geometry = pin.buildGeomFromUrdf(model, str(path), pin.GeometryType.COLLISION, [str(share(path))])
    geometry.addAllCollisionPairs()
    pin.removeCollisionPairs(model, geometry, str(srdf))
    data, geometry_data = model.createData(), geometry.createData()

    def links(pair):
        return frozenset(model.frames[geometry.geometryObjects[i].parentFrame].name for i in (pair.first, pair.second))

    ours = {frozenset(scene.colliders[i].link for i in pair) for pair in detector.pairs}
    assert ours == {links(pair) for pair in geometry.collisionPairs}
    rng, touching = np.random.default_rng(1), 0
    for _ in range(150):
        q = tree.random(rng)
        pin.computeCollisions(model, data, geometry, geometry_data, q, False)
        pin.computeDistances(model, data, geometry, geometry_data, q)
        distances = {}
        for k, pair in enumerate(geometry.collisionPairs):
            d = geometry_data.distanceResults[k].min_distance
            distances[links(pair)] = min(d, distances.get(links(pair), np.inf))
        contacts = detector.contacts(poses_of(tree, q))
        found = {frozenset(scene.colliders[i].link for i in pair) for pair in contacts.colliders}
        for pair, distance in distances.items():
            if abs(distance) > 1e-5:
                assert (pair in found) == (distance < 0), (pair, distance)
        touching += len(found)
    assert touching > 15


# -- MJCF against MuJoCo -------------------------------------------------------------------------------------------


def suite(name):
    folder = Path(pytest.importorskip("dm_control").__file__).parent / "suite"
    return folder / f"{name}.xml"


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize("name", ["humanoid", "manipulator", "walker", "stacker"])
def test_mjcf_contacts_are_those_of_mujoco(name):
    """In random configurations the same pairs of geoms touch, equally deep where MuJoCo has one point for the pair."""
    mujoco = pytest.importorskip("mujoco")

    path = suite(name)
    tree, model = ds.load(path), mujoco.MjModel.from_xml_path(str(path))
    model.geom_margin[:] = 0.0
    scene = Scene(tree, load_colliders(path, tree), ignore=load_ignored(path))
    assert [c.name for c in load_colliders(model, tree)] == [c.name for c in scene.colliders]
    detector, data, rng = CollisionDetector(scene), mujoco.MjData(model), np.random.default_rng(0)
    numbers = {}
    names = {c.name: i for i, c in enumerate(scene.colliders)}
    for g in range(model.ngeom):
        given = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_GEOM, g)
        for label in (given, f"{given}:geom", f"geom{g}"):
            if label in names:
                numbers[g] = names[label]
                break
    touching = 0
    for _ in range(25):
        data.qpos[:] = model.qpos0
        for j in range(model.njnt):
            at = model.jnt_qposadr[j]
            if model.jnt_type[j] != int(mujoco.mjtJoint.mjJNT_FREE):
                low, high = model.jnt_range[j] if model.jnt_limited[j] else (-0.7, 0.7)
                data.qpos[at] = rng.uniform(low, high)
            else:
                data.qpos[at + 2] -= rng.uniform(0, 1.5)
                data.qpos[at + 3 : at + 7] = rng.normal(size=4)
        mujoco.mj_normalizeQuat(model, data.qpos)
        mujoco.mj_fwdPosition(model, data)
        theirs = {}
        for contact in data.contact:
            pair = frozenset(numbers[g] for g in contact.geom)
            theirs.setdefault(pair, []).append(contact.dist)
        contacts = detector.contacts(poses_of(tree, configuration_from_mujoco(tree, data.qpos)))
        ours = {}
        for pair, depth in zip(contacts.colliders, contacts.depths, strict=True):
            ours.setdefault(frozenset(map(int, pair)), []).append(-depth)
        for pair in theirs.keys() ^ ours.keys():  # only what barely touches
            assert abs(min(theirs.get(pair) or ours[pair])) < 1e-5, [scene.colliders[i].name for i in pair]
        kinds = (Sphere, Capsule, HalfSpace)
        for pair in theirs.keys() & ours.keys():
            if all(isinstance(scene.colliders[i].shape, kinds) for i in pair):
                assert min(ours[pair]) == pytest.approx(min(theirs[pair]), abs=1e-9)
        touching += len(theirs)
    assert touching > 10


MJCF = """<mujoco><asset><mesh name="m" vertex="0 0 0  1 0 0  0 1 0  0 0 1" {}/></asset><worldbody>
<geom name="floor" type="plane" size="1 1 1" friction="0.8"/>
<body name="shelf" pos="1 2 3" euler="90 0 0"><geom type="box" size="1 2 3" pos="0 0 1"/></body>
<body name="a" pos="0 0 2"><freejoint/><geom name="ball" size="0.2" contype="2" conaffinity="4"/>
  <geom name="a" type="capsule" size="0.1 0.3"/><geom name="shown" size="1" contype="0" conaffinity="0"/>
  <body name="b"><joint/><geom name="rod" type="cylinder" size="0.1 0.3" pos="0 0 1"/></body></body>
<body name="c" pos="5 0 0"><freejoint/><geom name="tet" type="mesh" mesh="m"/></body></worldbody>{}</mujoco>"""


def model_of(contact="", mesh="", text=MJCF):
    mujoco = pytest.importorskip("mujoco")
    return mujoco.MjModel.from_xml_string(text.format(mesh, contact))


@pytest.mark.peer
def test_mjcf_geoms_become_colliders():
    model = model_of()
    tree = ds.load(model)
    colliders = {c.name: c for c in load_colliders(model, tree, prefix="r/", restitution=0.25)}
    assert sorted(colliders) == ["r/a:geom", "r/ball", "r/floor", "r/geom1", "r/rod", "r/tet"]
    assert colliders["r/floor"].shape == HalfSpace() and colliders["r/floor"].friction == 0.8
    assert colliders["r/geom1"].link == "world" and colliders["r/geom1"].shape == Box(2, 4, 6)
    assert colliders["r/geom1"].position == pytest.approx([1, 1, 3])
    assert colliders["r/a:geom"].shape == Capsule(0.1, 0.6) and colliders["r/rod"].shape == Cylinder(0.1, 0.6)
    assert colliders["r/ball"].link == "r/a" and colliders["r/ball"].restitution == 0.25
    scene = Scene({"r": tree}, colliders.values(), ignore=load_ignored(model, "r/"))
    assert len(CollisionDetector(scene).pairs) > 0
    tet = colliders["r/tet"]
    corners = tet.shape.vertices @ tet.rotation.T + tet.position
    assert sorted(map(tuple, corners.round(6) + 0.0)) == [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)]


@pytest.mark.peer
def test_masks_exclusions_and_pairs_of_mjcf():
    def kept(contact):
        model = model_of(contact)
        tree = ds.load(model)
        scene = Scene(tree, load_colliders(model, tree), ignore=load_ignored(model))
        names = [c.name for c in scene.colliders]
        return {frozenset((names[i], names[j])) for i, j in CollisionDetector(scene).pairs}

    plain = kept("")
    assert frozenset(("floor", "tet")) in plain and frozenset(("floor", "rod")) in plain
    assert not any("ball" in pair for pair in plain)  # by its masks
    assert frozenset(("a:geom", "rod")) not in plain  # parent and child
    excluded = kept('<contact><exclude body1="c" body2="b"/></contact>')
    assert plain - excluded == {frozenset(("tet", "rod"))}
    paired = kept('<contact><pair geom1="ball" geom2="floor"/></contact>')
    assert paired - plain == {frozenset(("ball", "floor"))}


@pytest.mark.peer
def test_ellipsoids_have_the_semi_axes_of_mujoco():
    """Set down on a floor they touch as MuJoCo's do."""
    mujoco = pytest.importorskip("mujoco")
    model = model_of(
        text="""<mujoco><worldbody><geom type="plane" size="1 1 1"/><body name="a"><freejoint/>
        <geom name="egg" type="ellipsoid" size="0.1 0.2 0.3" euler="20 30 40"/></body></worldbody></mujoco>"""
    )
    tree, data = ds.load(model), mujoco.MjData(model)
    scene = ds.Scene(tree, load_colliders(model, tree))
    assert scene.colliders[1].shape == Ellipsoid(0.1, 0.2, 0.3)
    q = scene.set_down(tree.random(0))
    for above in (-1e-5, 1e-5):
        data.qpos[:] = [*q[:2], q[2] + above, q[6], *q[3:6]]
        mujoco.mj_forward(model, data)
        assert data.ncon == (above < 0)


@pytest.mark.peer
def test_height_fields_are_where_mujoco_has_them():
    """A small ball touches from the height at which it touches in MuJoCo, over any triangle."""
    mujoco = pytest.importorskip("mujoco")
    local = np.random.default_rng(8)
    heights = " ".join(map(str, local.uniform(0, 1, 12)))
    model = model_of(
        text=f"""<mujoco><asset>
        <hfield name="h" nrow="4" ncol="3" size="0.8 0.6 0.3 0.1" elevation="{heights}"/></asset><worldbody>
        <geom type="hfield" hfield="h" pos="0.1 0.2 0.3"/>
        <body name="a"><freejoint/><geom type="sphere" size="0.001"/></body></worldbody></mujoco>"""
    )
    data, tree = mujoco.MjData(model), ds.load(model)
    terrain, ball = load_colliders(model, tree)
    scene = ds.Scene(tree, [terrain, ball])
    for _ in range(30):
        x, y = local.uniform(-0.75, 0.75) + 0.1, local.uniform(-0.55, 0.55) + 0.2
        ((z, *n),) = ds.contact.ground_below(
            tree, ds.Contact("a", Sphere(0.001), "input"), [x, y, 0, 0, 0, 0, 1], terrain
        )["ground0"]  # fmt: skip
        touch = z + 0.001 / n[2]
        for above in (-2e-5, 2e-5):
            data.qpos[:3] = x, y, touch + above
            mujoco.mj_forward(model, data)
            contacts = ds.contact.CollisionDetector(scene).contacts(
                np.column_stack([np.eye(3), [x, y, touch + above]])[None]
            )
            assert (data.ncon > 0) == (len(contacts) > 0) == (above < 0)


@pytest.mark.peer
def test_mjcf_files_are_read_like_models(tmp_path):
    mujoco = pytest.importorskip("mujoco")
    path = tmp_path / "r.xml"
    path.write_text(MJCF.format("", ""))
    tree = ds.load(path)
    for given in (path, str(path), path.read_text(), mujoco.MjSpec.from_file(str(path))):
        assert [c.name for c in load_colliders(given, tree)] == ["floor", "geom1", "ball", "a:geom", "rod", "tet"]
        assert load_ignored(given) == load_ignored(path)
        scene = Scene.from_robot(given)
        assert len(scene.colliders) == 6 and scene.tree.fingerprint == tree.fingerprint
    (tmp_path / "inner.xml").write_text('<!DOCTYPE m [<!ENTITY e "x">]><mujoco/>')
    path.write_text('<mujoco><include file="inner.xml"/></mujoco>')
    for read in (lambda: load_colliders(path, tree), lambda: load_ignored(path)):
        with pytest.raises(ModelError, match="expected XML without a document type declaration"):
            read()
    path.write_text("<mujoco><nonsense/></mujoco>")
    with pytest.raises(ModelError, match=r"r\.xml.*expected an MJCF file that MuJoCo compiles"):
        load_colliders(path, tree)


# -- URDF texts ----------------------------------------------------------------------------------------------------

CUBE = np.array([[x, y, z] for x in (0, 1.0) for y in (0, 1.0) for z in (0, 1.0)])


def write_cube(path):
    trimesh = pytest.importorskip("trimesh")
    path.parent.mkdir(parents=True, exist_ok=True)
    trimesh.creation.box(bounds=[[0, 0, 0], [1, 1, 1]]).export(path)


def urdf(tmp_path, geometry, link="a", extra=""):
    path = tmp_path / "robots" / "r.urdf"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'<robot name="r"><link name="{link}">{MASS}{geometry}</link>{extra}</robot>')
    return path


def tree_of(name="a"):
    text = f'<robot name="r"><link name="{name}">{MASS}</link></robot>'
    return tree_of_urdf(text, "floating")


def one(shape, name="", origin=""):
    return f"<collision{name}>{origin}<geometry>{shape}</geometry></collision>"


def test_urdf_shapes(tmp_path):
    shapes = ('<sphere radius="0.1"/>', '<box size="1 2 3"/>', '<cylinder radius="0.1" length="2"/>',
              '<capsule radius="0.1" length="2"/>')  # fmt: skip
    origin = '<origin xyz="1 2 3" rpy="0 0 1.57079632679"/>'
    text = "".join(map(one, shapes)) + one(shapes[0], ' name="tip"', origin)
    path, how = urdf(tmp_path, text), {"prefix": "r/", "friction": 0.7, "restitution": 0.1}
    colliders = load_colliders(path, tree_of(), **how)
    assert [(c.name, c.shape) for c in load_colliders(path.read_text(), tree_of(), **how)] == [
        (c.name, c.shape) for c in colliders
    ]
    expected = [Sphere(0.1), Box(1, 2, 3), Cylinder(0.1, 2), Capsule(0.1, 2), Sphere(0.1)]
    assert [c.shape for c in colliders] == expected
    assert [c.name for c in colliders] == ["r/a:0", "r/a:1", "r/a:2", "r/a:3", "r/tip"]
    assert {c.link for c in colliders} == {"r/a"} and {(c.friction, c.restitution) for c in colliders} == {(0.7, 0.1)}
    assert colliders[-1].position.tolist() == [1, 2, 3]
    assert colliders[-1].rotation.tolist() == [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
    assert load_colliders(urdf(tmp_path, one(shapes[0])), tree_of())[0].name == "a"


@pytest.mark.parametrize("suffix", [".stl", ".obj", ".ply"])
def test_meshes_by_every_kind_of_address(tmp_path, monkeypatch, suffix):
    """Beside the file, in a package above it, in a folder given, in one of the environment, and by its own path."""
    places = [
        tmp_path / p / f"cube{suffix}" for p in ("robots/meshes", "pack/meshes", "x/given/meshes", "y/env/meshes")
    ]
    for place in places:
        write_cube(place)
    monkeypatch.setenv("ROS_PACKAGE_PATH", f"/nowhere:{tmp_path / 'y'}")
    addresses = [f"meshes/cube{suffix}", *(f"package://{p}/meshes/cube{suffix}" for p in ("pack", "given", "env")),
                 f"package:///pack/meshes/cube{suffix}", f"file://{places[0]}"]  # fmt: skip
    text = "".join(one(f'<mesh filename="{a}"/>') for a in addresses)
    colliders = load_colliders(urdf(tmp_path, text), tree_of(), package_dirs=[tmp_path / "x"])
    for collider in colliders:
        assert sorted(set(map(tuple, collider.shape.vertices))) == sorted(map(tuple, CUBE))
        assert collider.shape.convex
    inside = load_colliders(urdf(tmp_path, one(f'<mesh filename="package://given/meshes/cube{suffix}"/>')), tree_of(),
                            package_dirs=[tmp_path / "x" / "given"], convex=False)  # fmt: skip
    assert not inside[0].shape.convex and len(inside[0].shape.triangles) == 12


def test_scales_of_meshes(tmp_path):
    """Mirrored surfaces keep their outside; meshes that are the same are read once."""
    write_cube(tmp_path / "robots" / "cube.stl")
    scales = ("1 1 1", "2 3 -4", "1 1 1")
    text = "".join(one(f'<mesh filename="cube.stl" scale="{s}"/>') for s in scales)
    plain, mirrored, again = load_colliders(urdf(tmp_path, text), tree_of(), convex=False)
    assert again.shape is plain.shape
    assert np.ptp(mirrored.shape.vertices, axis=0).tolist() == [2, 3, 4]
    for shape in (plain.shape, mirrored.shape):
        corners = shape.vertices[shape.triangles]
        volume = np.einsum("ij,ij->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) / 6
        assert volume == pytest.approx(np.prod(np.ptp(shape.vertices, axis=0)))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_mesh_files_that_cannot_be_read_to_their_end(tmp_path):
    """Nor are those read that a mesh file names."""
    write_cube(tmp_path / "robots" / "cube.obj")
    os.mkfifo(tmp_path / "robots" / "pipe.stl")
    text = (tmp_path / "robots" / "cube.obj").read_text()
    (tmp_path / "robots" / "cube.obj").write_text(f"mtllib pipe.stl\nusemtl a\n{text}" + "# \n" * 500)
    mesh = '<collision><geometry><mesh filename="{}"/></geometry></collision>'
    assert len(load_colliders(urdf(tmp_path, mesh.format("cube.obj")), tree_of())) == 1
    with pytest.raises(ModelError, match="a mesh file that exists"):
        load_colliders(urdf(tmp_path, mesh.format("pipe.stl")), tree_of())
    with pytest.raises(ModelError, match=r"cube\.obj'?: expected at most 1,?000 bytes"):
        load_colliders(urdf(tmp_path, mesh.format("cube.obj")), tree_of(), max_bytes=1000)


def test_coal_reads_meshes_that_trimesh_does_not(tmp_path, monkeypatch):
    write_cube(tmp_path / "robots" / "cube.stl")
    monkeypatch.setitem(sys.modules, "trimesh", None)
    (collider,) = load_colliders(urdf(tmp_path, one('<mesh filename="cube.stl"/>')), tree_of())
    assert sorted(set(map(tuple, collider.shape.vertices))) == sorted(map(tuple, CUBE))
    assert len(collider.shape.triangles) == 12
    monkeypatch.setitem(sys.modules, "coal", None)
    with pytest.raises(ds.DelassusError, match=r"delassus\[contact\]"):
        load_colliders(urdf(tmp_path, one('<mesh filename="cube.stl"/>')), tree_of())


@pytest.mark.parametrize(
    ("geometry", "message"),
    [
        ('<mesh filename="no.stl"/>', "expected a mesh file that exists, got 'no.stl'"),
        ('<mesh filename="package://no/no.stl"/>', "expected a mesh file that exists, got 'package://no/no.stl'"),
        ('<mesh filename="http://host/no.stl"/>', "expected a package://"),
        ('<mesh filename="bad.stl"/>', r"expected a mesh in file '.*bad\.stl'"),
        ("<mesh/>", "expected a filename"),
        ('<mesh filename="bad.stl" scale="1 0 1"/>', "scale of its mesh: expected no zeros"),
        ('<cone radius="1"/>', "expected a sphere, box, cylinder, capsule or mesh, got a <cone>"),
        ('<sphere radius="-1"/>', "radius of its sphere: expected a positive length, got '-1'"),
        ('<sphere radius="x"/>', r"radius of <sphere>: expected 1 finite number\(s\), got 'x'"),
        ('<box size="1 2"/>', "size of <box>"),
        ('<box size="1 2 0"/>', "size of its box: expected positive"),
        ("", "expected one shape in its <geometry>, got 0"),
        ('<sphere radius="1"/><sphere radius="1"/>', "expected one shape in its <geometry>, got 2"),
    ],
)
def test_what_cannot_be_loaded_is_refused_by_name(tmp_path, geometry, message):
    path = urdf(tmp_path, one(geometry))
    (path.parent / "bad.stl").write_bytes(b"solid nothing")
    with pytest.raises(ModelError, match=r"collision 0 of link 'a' in file '.*r\.urdf'.*" + message):
        load_colliders(path, tree_of())


def test_bad_descriptions(tmp_path):
    path = urdf(tmp_path, one('<sphere radius="1"/>'))
    with pytest.raises(UnknownNameError, match=r"link in the tree"):
        load_colliders(path, tree_of("other"))
    with pytest.raises(ModelError, match=r"tree: expected a delassus\.Tree"):
        load_colliders(path, "a")
    with pytest.raises(ModelError, match=r"expected a path, .* or mujoco\.MjSpec"):
        load_colliders(7, tree_of())
    with pytest.raises(UnknownNameError, match="robot name or file"):
        load_colliders("no such robot", tree_of())
    path.write_text('<!DOCTYPE robot [<!ENTITY e SYSTEM "file:///etc/hostname">]><robot name="r">&e;</robot>')
    for read in (lambda: load_colliders(path, tree_of()), lambda: load_ignored(path)):
        with pytest.raises(ModelError, match="expected XML without a document type declaration"):
            read()
    path.write_text("<skel/>")
    for read in (lambda: load_colliders(path, tree_of()), lambda: load_ignored(path)):
        with pytest.raises(ModelError, match=r"a <robot> .URDF., <sdf> .SDF. or <mujoco> .MJCF., got a <skel>"):
            read()
    for missing in (tmp_path / "no.srdf", str(tmp_path / "no.srdf")):
        with pytest.raises(ModelError, match="expected a file that exists"):
            load_ignored(missing)


def test_srdf_pairs(tmp_path):
    path = tmp_path / "r.srdf"
    pair = '<disable_collisions link1="a" link2="{}" reason="Adjacent"/>'
    path.write_text(
        f'<robot name="r">{pair.format("b")}{pair.format("b")}{pair.format("gone")}<group name="g"/></robot>'
    )
    assert load_ignored(path, "x/") == (("x/a", "x/b"), ("x/a", "x/gone")) == load_ignored(path.read_text(), "x/")
    assert load_ignored(path, tree=tree_of()) == ()
    for text, message in (('<disable_collisions link1="a"/>', "expected link1 and link2"),
                          ('<disable_default_collisions link="a"/>', "got <disable_default_collisions>")):  # fmt: skip
        path.write_text(f'<robot name="r">{text}</robot>')
        with pytest.raises(ModelError, match=message):
            load_ignored(path)


def kernel_contacts(scene, on):
    """Contacts of kernels by names of colliders, which are ``on`` links; one frame is on a floor."""
    pairs = ((frozenset([*(on[f.link] for f in c.frames), *["floor"][len(c.frames) - 1 :]]), c)
             for c in scene.constraints())  # fmt: skip
    return dict(pairs)


def mixed_surfaces(rng, n=5):
    """Balls in one another and in a plane, of any ``condim`` and ``priority``, and some ``<pair>`` of their own."""

    def surface():
        numbers = " ".join(map(str, rng.uniform([0.2, 0.01, 0.001], [1.0, 0.05, 0.004]).round(4)))
        return f'condim="{rng.choice([1, 3, 4, 6])}" priority="{rng.choice([0, 0, 1])}" friction="{numbers}"'

    balls = "".join(
        f'<body pos="{0.02 * k} 0 .09"><freejoint/><geom name="g{k}" size=".1" {surface()}/></body>' for k in range(n)
    )
    pairs = "".join(
        f'<pair geom1="g0" geom2="{other}" condim="{dim}" friction="{mu} {mu} 0.07 0.006 0.006"/>'
        for other, dim, mu in (("g1", 1, 0.3), ("g2", 4, 0.4), ("floor", 6, 0.35))
    )
    plane = f'<geom name="floor" type="plane" size="1 1 1" {surface()}/>'
    return f"<mujoco><worldbody>{plane}{balls}</worldbody><contact>{pairs}</contact></mujoco>"


@pytest.mark.peer
@pytest.mark.parametrize("rule", ["max", "geometric-mean"])
def test_friction_of_geoms_without_friction_follows_the_rule_of_the_scene(rule):
    """``condim`` 1 has none with another of it, and the rule has its number with others; floors heed priority."""
    pytest.importorskip("mujoco")
    geoms = "".join(
        f'<body pos="{k} 0 .1"><freejoint/><geom name="g{k}" size=".1" {more}/></body>'
        for k, more in enumerate(('condim="1" friction="0.4 0.02 0.001"', 'condim="1"', 'friction="0.9 0.02 0.001"',
                                  'priority="1" condim="6" friction="0.3 0.02 0.001"'))
    )  # fmt: skip
    scene = Scene.from_robot(f"<mujoco><worldbody>{geoms}</worldbody></mujoco>", floor=True, friction_rule=rule)
    names, on = [c.name for c in scene.colliders], {c.link: c.name for c in scene.colliders}
    own = kernel_contacts(scene, on)
    assert len(own) == 10 and names[-1] == "floor"
    mix = max if rule == "max" else lambda a, b: np.sqrt(a * b)
    for (a, b), friction, lengths in (
        (("g0", "g1"), 0.0, (0, 0)), (("g0", "g2"), mix(0.4, 0.9), (0, 0)), (("g0", "floor"), mix(0.4, 0.5), (0, 0)),
        (("g2", "floor"), mix(0.9, 0.5), (0, 0)), (("g3", "floor"), 0.3, (0.02, 0.001)),
        (("g0", "g3"), 0.3, (0.02, 0.001)),
    ):  # fmt: skip
        c = own[frozenset((a, b))]
        assert [c.friction, c.torsional, c.rolling] == pytest.approx([friction, *lengths]), (a, b)


@pytest.mark.peer
@pytest.mark.parametrize("seed", range(3))
def test_friction_of_pairs_is_that_of_mujoco(seed):
    """By ``condim``, ``priority`` and ``<pair>``: of contacts that are found, of kernels, and of parts of scenes."""
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(mixed_surfaces(np.random.default_rng(seed)))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    expected = {}
    for c in data.contact:
        names = frozenset(model.geom(int(g)).name for g in c.geom)
        expected[names] = c.friction[[0, 2, 3]] * (c.dim > np.array([1, 3, 5]))
    assert len(expected) == 15
    assert {1, 4, 6} <= {int(c.dim) for c in data.contact}
    scene = Scene.from_robot(model, friction_rule="max")
    added = Scene(ds.mechanisms.pendulum(1), friction_rule="max").add("all", model)
    for prefix, each in (("", scene), ("", pickle.loads(pickle.dumps(scene))), ("all/", added)):
        sim = ds.Simulator(each, max_overlap=1.0)
        sim.step()
        found, c = {}, sim.contacts
        for pair, *numbers in zip(c.colliders, c.friction, c.torsional, c.rolling, strict=True):
            found[frozenset(each.colliders[k].name.removeprefix(prefix) for k in pair)] = numbers
        assert found.keys() == expected.keys()
        for names, numbers in expected.items():
            assert found[names] == pytest.approx(numbers), names
    on = {c.link: c.name for c in scene.colliders}
    own = kernel_contacts(scene, on)
    assert own.keys() == expected.keys()
    for names, c in own.items():
        assert [c.friction, c.torsional, c.rolling] == pytest.approx(expected[names]), names


# -- colours -------------------------------------------------------------------------------------------------------

RED, GREEN = [0.8, 0.2, 0.0, 1.0], [0.0, 0.6, 0.2, 0.5]


def _write_meshes(folder):
    """Two solids, red and green, in two formats; and a picture, of which one half is white."""
    trimesh, image = pytest.importorskip("trimesh"), pytest.importorskip("PIL.Image")
    points = [point for k in (0, 3) for point in ((k, 0, 0), (k + 1, 0, 0), (k, 1, 0), (k, 0, 1))]
    corners = "\n".join(f"v {x} {y} {z}" for x, y, z in points)
    faces = [[1, 3, 2], [1, 2, 4], [1, 4, 3], [2, 3, 4]]
    sides = ["\n".join(f"f {a + n} {b + n} {c + n}" for a, b, c in faces) for n in (0, 4)]
    (folder / "meshes").mkdir()
    (folder / "meshes" / "two.obj").write_text(
        f"mtllib two.mtl\n{corners}\nusemtl red\n{sides[0]}\nusemtl green\n{sides[1]}\n"
    )
    (folder / "meshes" / "two.mtl").write_text("newmtl red\nKd 0.8 0.2 0\nnewmtl green\nKd 0 0.6 0.2\nd 0.5\n")
    (folder / "meshes" / "plain.obj").write_text(f"{corners}\n{sides[0]}\n")
    pieces = []
    for k, rgba in enumerate((RED, GREEN)):
        box = trimesh.creation.box(transform=trimesh.transformations.translation_matrix([3 * k, 0, 0]))
        box.visual = trimesh.visual.TextureVisuals(
            material=trimesh.visual.material.PBRMaterial(baseColorFactor=rgba, alphaMode="BLEND")
        )
        pieces.append(box)
    trimesh.Scene(pieces).export(folder / "meshes" / "two.glb")
    picture = np.zeros((8, 8, 3), np.uint8)
    picture[:4] = 255
    image.fromarray(picture).save(folder / "half.png")


def test_colours_of_urdf_files_and_of_meshes(tmp_path):
    """Materials of the robot, of a link before, of an element; textures; meshes of their own colours, which count."""
    _write_meshes(tmp_path)
    blue, half = "<color rgba='0 0.5 1 0'/>", "<texture filename='half.png'/>"
    own = "<material name='own'/>"
    shapes = {
        "box size='1 1 1'": [
            "<material name='late'/>", f"<material name='own'>{blue}</material>", "",
            f"<material name='half'>{half}</material>", "<material name='no'/>",
        ],
        "sphere radius='1'": ["<material name='late'/>", own],
        "mesh filename='meshes/plain.obj'": [own, ""],
        **{f"mesh filename='meshes/two.{kind}'": [own] for kind in ("obj", "glb")},
    }  # fmt: skip
    visuals = "".join(
        f"<visual><geometry><{shape}/></geometry>{material}</visual>" for shape in shapes for material in shapes[shape]
    )
    path = tmp_path / "r.urdf"
    late = "<material name='late'><color rgba='1 0.5 0 1'/></material>"
    path.write_text(f"<robot name='r'><link name='l'>{MASS}{visuals}</link>{late}</robot>")
    found = [None if c.rgba is None else c.rgba.tolist() for c in load_colliders(path, ds.load(path), visual=True)]
    orange, own = [1, 0.5, 0, 1], [0, 0.5, 1, 0]
    assert found[:3] + found[4:9] == [orange, own, None, None, orange, own, own, None]
    assert found[3] == pytest.approx([0.5, 0.5, 0.5, 1])
    assert [*sorted(found[9:11]), *sorted(found[11:])] == [pytest.approx(x, abs=0.01) for x in (GREEN, RED, GREEN, RED)]
    outside = tmp_path / "meshes" / "two.obj"
    outside.write_text(outside.read_text().replace("two.mtl", "../../two.mtl"))
    (tmp_path.parent / "two.mtl").write_text("newmtl red\nKd 1 1 1\n")
    assert load_colliders(path, ds.load(path), visual=True)[9].rgba.tolist() == own  # that file is not read
    path.write_text(path.read_text().replace("1 0.5 0 1", "1 0.5"))
    with pytest.raises(ModelError, match=r"material 'late'.*rgba of <color>: expected 4 finite"):
        load_colliders(path, ds.load(path), visual=True)


@pytest.mark.peer
def test_colours_of_mujoco(tmp_path):
    """Of geoms, of materials, of their textures by the mean; a geom's own colour counts before its material."""
    pytest.importorskip("mujoco")
    path = tmp_path / "r.xml"
    path.write_text(
        "<mujoco><asset>"
        "<texture name='t' type='2d' builtin='checker' rgb1='1 0 0' rgb2='0 1 0' width='64' height='64'/>"
        "<material name='m' rgba='0.2 0.4 0.6 0.5'/><material name='t' texture='t' rgba='1 0.5 1 1'/>"
        "</asset><worldbody><geom type='plane' size='1 1 1' material='t'/><body><freejoint/>"
        "<geom size='1' rgba='1 0 1 0'/><geom size='1' material='m'/><geom size='1' material='m' rgba='1 1 0 1'/>"
        "<geom size='1'/></body></worldbody></mujoco>"
    )
    floor, *found = (c.rgba for c in load_colliders(path, ds.load(path), visual=True))
    assert floor == pytest.approx([0.5, 0.25, 0, 1], abs=0.01)
    np.testing.assert_allclose(np.stack(found[:3]), [[1, 0, 1, 0], [0.2, 0.4, 0.6, 0.5], [1, 1, 0, 1]], atol=1e-6)
    assert found[3] is None
