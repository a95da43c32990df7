"""SDF: what is written is read as the same tree; poses, axes and scopes as SDFormat has them; loops; hostile files."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
from delassus.contact import load_colliders, load_ignored
from delassus.errors import DelassusWarning, ModelError, UnknownNameError
from random_trees import joint_kinds, some_mechanism
from tools import ROUND_OFF, error, frame_pose, random_rotation

IN_SDF = (
    joint_kinds.REVOLUTE,
    joint_kinds.PRISMATIC,
    joint_kinds.SCREW,
    joint_kinds.BALL,
    joint_kinds.PLANAR,
    None,
)

PER_DOF = (
    "armature", "lower", "upper", "damping", "friction", "stiffness", "rest_position", "effort_limit", "velocity_limit",
)  # fmt: skip

MASS = "<inertial><mass>{}</mass><inertia><ixx>0.1</ixx><iyy>0.2</iyy><izz>0.25</izz></inertia></inertial>"


def sdf(inside, version="1.9", head="model name='m'"):
    return f"<sdf version='{version}'><{head}>{inside}</{head.split()[0]}></sdf>"


def link(name, inside="", mass=1.0):
    return f"<link name='{name}'>{inside}{MASS.format(mass)}</link>"


def joint(name, kind, parent, child, inside=""):
    return f"<joint name='{name}' type='{kind}'><parent>{parent}</parent><child>{child}</child>{inside}</joint>"


def axis(xyz, inside="", tag="axis", attributes=""):
    return f"<{tag}><xyz{attributes}>{xyz}</xyz>{inside}</{tag}>"


def assert_same(tree, other, but=()):
    """Joints and their numbers, frames, mass matrix and bias at a random state."""
    assert (other.joint_names, other.nq, other.nv) == (tree.joint_names, tree.nq, tree.nv)
    for attribute in set(PER_DOF) - set(but):
        assert np.allclose(other.per_dof(attribute), tree.per_dof(attribute), rtol=1e-14, atol=1e-15), attribute
    rng = np.random.default_rng(0)
    q, v, names = tree.random(rng), rng.normal(size=tree.nv), [*set(tree.frames) & set(other.frames)]
    assert error(ds.forward_kinematics(other, q, names), ds.forward_kinematics(tree, q, names)) < 10 * ROUND_OFF
    assert error(ds.mass_matrix(other, q), ds.mass_matrix(tree, q)) < 10 * ROUND_OFF
    assert error(ds.bias_force(other, q, v), ds.bias_force(tree, q, v)) < 100 * ROUND_OFF


def closed_loops(tree, rng):
    """Constraints between links of a tree, and to the world, that are closed at zero."""
    R, p, q = random_rotation(rng), rng.normal(size=3), tree.neutral()

    def there(link, turn):
        S, o = frame_pose(tree, link, q)
        return ds.Frame(link, S.T @ (p - o), S.T @ R @ turn)

    first, last, axis = tree.link_names[0], tree.link_names[-1], rng.normal(size=3)
    a, b, world = there(last, np.eye(3)), there(first, np.eye(3)), ds.Frame("world", p, R)
    return (
        ds.Hinge(a, b, axis), ds.Point(a, b), ds.Weld(b, world), ds.Prismatic(world, a, axis), ds.Weld(first),
        ds.Universal(a, there(first, random_rotation(rng)), axis, (0, 1, 0)),
        ds.SpringDamper(a, ds.Frame(first, (1, 2, 3)), 5.0, 0.5, length=0.3),
    )  # fmt: skip


@pytest.mark.parametrize("seed", (1, 2, 4, 5, 6))  # all but 1 have planar joints
def test_what_is_written_is_read(seed):
    m = some_mechanism(seed, 6, ("fixed", "floating")[seed % 2], IN_SDF)
    several = [j.name for j in m.tree.joints if j.nv > 1 and j.armature.any()]
    loops = closed_loops(m.tree, m.rng) if seed % 2 == 0 and m.tree.n_links > 1 else ()
    tree = replace(m.tree, constraints=loops)
    with pytest.warns(DelassusWarning) if several else nullcontext():
        text = tree.to_sdf()
    back = ds.load(text, unsupported="refuse")
    assert set(tree.frames) <= set(back.frames)
    if not several:
        assert_same(tree, back)
    q, found = tree.random(m.rng), {repr(type(c)) + str(c.size): [] for c in back.constraints}
    for c in back.constraints:
        found[repr(type(c)) + str(c.size)].append(row_space(back, c, q))
    for c in loops:
        assert min(error(x, row_space(tree, c, q)) for x in found[repr(type(c)) + str(c.size)]) < 1e3 * ROUND_OFF, c


def row_space(tree, constraint, q):
    """Projector on the rows of a constraint."""
    J = ds.jacobian(tree, constraint, q)
    return np.linalg.pinv(J) @ J


def test_loops_that_are_open_or_carried_by_nothing_are_listed():
    chain = ds.mechanisms.chain(3)
    open_loop, free = ds.Point("link3", ds.Frame("world", (9, 9, 9))), ds.mechanisms.free_body(1.0, np.eye(3))
    for tree, constraint in ((chain, open_loop), (free, ds.Weld(free.link_names[0])), (chain, ds.Distance(
            "link1", "link3"))):  # fmt: skip
        with pytest.warns(DelassusWarning, match="1 constraint"):
            assert 'type="ball"' not in replace(tree, constraints=(constraint,)).to_sdf()


def test_poses_are_relative_to_what_they_say():
    """The same robot in four ways: to the model, to a link, to a joint and a frame, in degrees or by a quaternion."""
    c = np.sqrt(0.5)
    hinge = joint("j", "revolute", "a", "b", axis("0 1 0"))
    plain = sdf(link("a", "<pose>0 0 1 0 0 0</pose>") + link("b", f"<pose>0 0 1.5 0 0 {np.pi / 2}</pose>") + hinge)
    ways = (
        link("a", "<pose>0 0 1 0 0 0</pose>")
        + link("b", "<pose relative_to='a' degrees='true'>0 0 0.5 0 0 90</pose>") + hinge,
        "<frame name='f' attached_to='a'><pose>0 0 0.5 0 0 0</pose></frame>" + link("a", "<pose>0 0 1 0 0 0</pose>")
        + link("b", f"<pose relative_to='f' rotation_format='quat_xyzw'>0 0 0 0 0 {c} {c}</pose>") + hinge,
        link("a", "<pose>0 0 1 0 0 0</pose>") + link("b", f"<pose relative_to='j'>0 0 0 0 0 {np.pi / 2}</pose>")
        + joint("j", "revolute", "a", "b", "<pose relative_to='a'>0 0 0.5 0 0 0</pose>" + axis(
            "0 1 0", attributes=" expressed_in='b'")),
    )  # fmt: skip
    tree = ds.load(plain)
    for way in ways:
        assert_same(tree, ds.load(sdf(way)))
    assert tree.joint_names == ("root_joint", "j")
    assert ds.load(plain, root="fixed").joint_names == ("j",)
    assert tree.keyframes["qpos0"].q[:3].tolist() == [0, 0, 1]


@pytest.mark.parametrize(("version", "inside", "turned"), [("1.4", "", True), ("1.5", "", False), (
    "1.6", "<use_parent_model_frame>true</use_parent_model_frame>", True), ("1.7", "", False)])  # fmt: skip
def test_axes_of_old_files_are_those_of_the_model(version, inside, turned):
    """Of a link that is turned by a quarter about z: its x axis is the model's y axis."""
    text = sdf(
        link("a") + link("b", f"<pose>1 0 0 0 0 {np.pi / 2}</pose>")
        + joint("j", "revolute", "a", "b", axis("1 0 0", inside)),
        version,
    )  # fmt: skip
    tree = ds.load(text, root="fixed")
    J = ds.frame_jacobian(tree, [0.0], "b", reference="local-world-aligned")
    assert error(J[3:, 0], [1, 0, 0] if turned else [0, 1, 0]) < ROUND_OFF


def test_joints_of_old_files_may_have_the_names_of_links():
    """The pose of the joint is its own: a hinge 0.3 m beside the link of its name."""
    hinge = joint("b", "revolute", "a", "b", "<pose>0.3 0 0 0 0 0</pose>" + axis("0 1 0"))
    inside = link("a") + link("b", "<pose>1 0 0 0 0 0</pose>")
    for parts in (inside + hinge, hinge + inside):
        tree = ds.load(sdf(parts, "1.6"), root="fixed")
        assert tree.joint_names == ("b",)
        assert error(ds.forward_kinematics(tree, [np.pi / 2], "b")[:3, 3], [1.3, 0, 0.3]) < ROUND_OFF
        with pytest.raises(ModelError, match="'b' twice"):
            ds.load(sdf(parts, "1.7"))


def test_joints_of_two_axes_screws_and_defaults():
    """A universal joint is two hinges; a screw moves its pitch a turn; what is left out is as SDF has it."""
    inside = link("a") + link("b") + link("c") + "<link name='d'/>"
    inside += joint("u", "universal", "a", "b", axis("1 0 0") + axis("0 1 0", tag="axis2"))
    inside += joint("s", "screw", "b", "c", axis("0 0 1") + "<screw_thread_pitch>0.5</screw_thread_pitch>")
    inside += joint("t", "screw", "c", "d", axis("0 0 2") + "<thread_pitch>4</thread_pitch>")
    tree = ds.load(sdf(inside), root="fixed")
    assert tree.joint_names == ("u:1", "u:2", "s", "t")
    at = ds.forward_kinematics(tree, [0, 0, 2 * np.pi, 0], "c")
    assert error(at[:3, 3], [0, 0, 0.5]) < ROUND_OFF
    assert error(ds.forward_kinematics(tree, [0, 0, 0, 1.0], "d")[:3, 3], [0, 0, -0.25]) < ROUND_OFF
    turned = ds.forward_kinematics(tree, [0.3, 0.4, 0, 0], "b")[:3, :3]
    (c, s), (d, t) = ((np.cos(angle), np.sin(angle)) for angle in (0.3, 0.4))
    x, y = np.array([[1, 0, 0], [0, c, -s], [0, s, c]]), np.array([[d, 0, t], [0, 1, 0], [-t, 0, d]])
    assert error(turned, x @ y) < ROUND_OFF
    alone = ds.load(sdf("<link name='a'/>"))
    assert alone.inertias[0].diagonal().tolist() == 6 * [1.0]


def test_loops_gearboxes_and_followers():
    """A joint whose child is carried already is a constraint; a gearbox couples two hinges; mimic has a reference."""
    y = axis("0 1 0")
    inside = "".join(link(x, f"<pose>{k} 0 0 0 0 0</pose>") for k, x in enumerate("abcd"))
    bars = (
        joint("ab", "revolute", "a", "b", y)
        + joint("bc", "revolute", "b", "c", y)
        + joint("ad", "revolute", "a", "d", y)
    )
    closing = joint("cd", "revolute", "c", "d", y)
    tree = ds.load(sdf(inside + bars + closing + joint("w", "fixed", "world", "a")))
    (hinge,) = tree.constraints
    assert isinstance(hinge, ds.Hinge) and hinge.size == 5 and tree.joint_names == ("ab", "bc", "ad")
    gaps, _ = ds.compile(tree, hinge, "constraint_errors")(tree.neutral(), np.zeros(tree.nv))
    assert np.abs(gaps).max() < ROUND_OFF
    assert not tree.omitted
    gear = "<gearbox_ratio>3</gearbox_ratio><gearbox_reference_body>a</gearbox_reference_body>"
    geared = joint("g", "gearbox", "b", "d", axis("0 1 0") + axis("0 -1 0", tag="axis2") + gear)
    (coupling,) = ds.load(sdf(inside + bars + geared)).constraints
    assert coupling.couplings() == [({"ab": 3.0, "ad": -1.0}, 0.0)]
    follow = "<mimic joint='ab'><multiplier>2</multiplier><offset>0.1</offset><reference>0.3</reference></mimic>"
    mimic = joint("ab", "revolute", "a", "b", y) + joint("ad", "revolute", "a", "d", axis("0 1 0", follow))
    (row,) = ds.load(sdf("".join(map(link, "abd")) + mimic)).constraints
    assert row.couplings() == [({"ad": 1.0, "ab": -2.0}, pytest.approx(0.1 - 2 * 0.3))]


def test_worlds_hold_models_that_files_name(tmp_path):
    """Scopes, included folders and files, placement frames, models in models, static ones, gravity."""
    (tmp_path / "arm").mkdir()
    (tmp_path / "arm/model.config").write_text(
        "<model><sdf version='1.5'>old.sdf</sdf><sdf version='1.9'>arm.sdf</sdf></model>"
    )
    tip = "<frame name='tip' attached_to='b'><pose>0 0 1 0 0 0</pose></frame>"
    arm = link("a", "<pose>0 0 1 0 0 0</pose>") + link("b", "<pose relative_to='a'>0 0 1 0 0 0</pose>") + tip
    (tmp_path / "arm/arm.sdf").write_text(sdf(arm + joint("j", "revolute", "a", "b", axis("0 1 0"))))
    world = "<gravity>0 0 -3</gravity><frame name='t'><pose>1 0 0 0 0 0</pose></frame>"
    world += "<include><uri>model://arm</uri><name>one</name><pose relative_to='t'>0 2 0 0 0 0</pose></include>"
    world += "<include><uri>arm/arm.sdf</uri><name>two</name><static>1</static><placement_frame>tip</placement_frame>"
    world += "<pose>0 0 9 0 0 0</pose></include><model name='cart'>" + link("base") + "<model name='pole'>"
    world += "<pose>0 0 5 0 0 0</pose>" + link("rod") + "</model>"
    world += joint("h", "revolute", "base", "pole::rod", axis("0 1 0")) + "</model>"
    path = tmp_path / "w.sdf"
    path.write_text(sdf(world, head="world name='w'"))
    tree = ds.load(path)
    assert tree.name == "w" and tree.gravity.tolist() == [0, 0, -3]
    assert tree.joint_names == ("one::root_joint", "one::j", "cart::root_joint", "cart::h")
    q = tree.keyframes["qpos0"].q
    for frame, place in (
        ("one::a", [1, 2, 1]),
        ("one::tip", [1, 2, 3]),
        ("two::b", [0, 0, 8]),
        ("cart::pole::rod", [0, 0, 5]),
    ):
        assert error(ds.forward_kinematics(tree, q, frame)[:3, 3], place) < ROUND_OFF, frame


def test_scenes_have_the_collisions_of_models():
    """Boxes of one model do not meet, those of two do; static models are the ground, whose plane may lean."""
    surface = "<surface><friction><ode><mu>0.7</mu></ode></friction></surface>"
    shape = f"<collision name='c'><geometry>{{}}</geometry>{surface}</collision>"
    box = shape.format("<box><size>0.2 0.2 0.2</size></box>")
    body = "<model name='{}'><pose>{} 0 0.1 0 0 0</pose>{}</model>"
    plane = shape.format("<plane><normal>0 0 2</normal></plane>")
    ground = f"<model name='g'><static>true</static><link name='l'>{plane}</link></model>"
    two = (
        link("x", box) + link("y", f"<pose>0.5 0 0 0 0 0</pose>{box}") + joint("j", "revolute", "x", "y", axis("0 0 1"))
    )
    scene = ds.Scene.from_robot(
        sdf(ground + body.format("p", 0, two) + body.format("q", 3, link("x", box)), head="world name='w'")
    )
    assert [c.link for c in scene.colliders] == ["world", "p::x", "p::y", "q::x"]
    assert {c.friction for c in scene.colliders} == {0.7} and len(scene.ignore) == 1
    sim = ds.Simulator(scene)
    sim.run(0.1)
    assert np.abs(sim.q - scene.start).max() < 1e-5


def collision(geometry, inside="", tag="collision", name="c"):
    return f"<{tag} name='{name}'><geometry>{geometry}</geometry>{inside}</{tag}>"


SQUARE = "<polyline>{}<height>0.5</height></polyline>"
CORNERS = "<point>0 0</point><point>0 2</point><point>{} 2</point><point>1 0</point>"


@pytest.mark.parametrize(("geometry", "volume", "centre", "moments"), [
    ("<box><size>1 2 3</size></box>", 6.0, [0, 0, 0], np.diag([13, 10, 5]) / 12),
    ("<sphere><radius>0.5</radius></sphere>", np.pi / 6, [0, 0, 0], 0.1 * np.eye(3)),
    (SQUARE.format(CORNERS.format(1)), 1.0, [0.5, 1, 0.25], np.diag([4.25, 1.25, 5]) / 12),
    ("<cone><radius>0.5</radius><length>2</length></cone>", np.pi / 6, [0, 0, -0.5], np.diag([0.1875, 0.1875, 0.075])),
])  # fmt: skip
def test_inertia_of_collisions(geometry, volume, centre, moments):
    """Of two, one turned and denser; scaled where the file has a mass."""
    place = "<pose>1 0 0 0 0 1.5707963267948966</pose>"
    inside = collision(geometry) + collision(geometry, place + "<density>500</density>", name="d")
    R, p = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]]), np.array([1, 0, 0])
    masses, centres = volume * np.array([3.0, 500.0]), np.array([centre, p + R @ centre])
    com, total = masses @ centres / masses.sum(), 0.0
    for m, c, own in zip(masses, centres - com, (moments, R @ moments @ R.T), strict=True):
        total = total + m * (own + c @ c * np.eye(3) - np.outer(c, c))
    for mass in ("", "<mass>7</mass>"):
        auto = f"<inertial auto='true'><density>3</density>{mass}</inertial>"
        tree = ds.load(sdf(f"<link name='a'>{auto}{inside}</link>"))
        H, scale = tree.inertias[0], 7.0 / masses.sum() if mass else 1.0
        assert error(H[0, 0], scale * masses.sum()) < ROUND_OFF
        assert error(np.array([H[5, 1], H[3, 2], H[4, 0]]) / H[0, 0], com) < 10 * ROUND_OFF
        steiner = masses.sum() * (com @ com * np.eye(3) - np.outer(com, com))
        assert error(H[3:, 3:], scale * (total + steiner)) < 100 * ROUND_OFF


def test_shapes_and_surfaces(tmp_path):
    """Cones, polylines, planes on links, height fields, torsional friction, Bullet's and Drake's friction, colours."""
    PIL = pytest.importorskip("PIL.Image")
    PIL.fromarray(np.array([[0, 50, 100], [200, 150, 100]], dtype=np.uint8)).save(tmp_path / "h.png")
    PIL.new("RGB", (9, 5), (255, 0, 51)).save(tmp_path / "t.png")
    torsional = "<surface><friction><torsional><patch_radius>0.1</patch_radius></torsional>"
    torsional += "<bullet><friction>0.2</friction></bullet></friction></surface>"
    static = "<drake:proximity_properties><drake:mu_static>0.9</drake:mu_static></drake:proximity_properties>"
    field = "<heightmap><uri>h.png</uri><size>2 1 0.4</size><pos>0 0 1</pos></heightmap>"
    cone = "<cone><radius>1</radius><length>2</length></cone>"
    red = "<material><script><name>Gazebo/RedTransparent</name></script></material>"
    textured = "<material><diffuse>0.5 1 1</diffuse><pbr><metal><albedo_map>t.png</albedo_map></metal></pbr></material>"
    looks = collision(cone, red, "visual", "u") + collision(
        "<plane><size>2 4</size></plane>", textured + "<transparency>0.25</transparency>", "visual", "v")  # fmt: skip
    (tmp_path / "m.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n")
    solid = collision("<mesh><uri>m.obj</uri><scale>1 1 -2</scale></mesh>")
    (tmp_path / "s.sdf").write_text(sdf(f"<link name='s'><inertial auto='true'/>{solid}</link>"))
    assert ds.load(tmp_path / "s.sdf").inertias[0, 0, 0] == pytest.approx(1000 / 3)
    inside = link("a", collision(cone, torsional) + looks) + link("g", collision(field, static))
    inside += joint("j", "fixed", "world", "g")
    path = tmp_path / "r.sdf"
    path.write_text(sdf(inside))
    tree = ds.load(path)
    made, terrain = load_colliders(path, tree)
    assert (made.friction, terrain.friction) == (0.2, 0.9) and made.torsional == pytest.approx(3 * np.pi / 160)
    assert 0.99 < made.shape.volume / (np.pi * 2 / 3) < 1.0 and terrain.position.tolist() == [0, 0, 1]
    assert terrain.shape.heights.tolist() == [[0.4, 0], [pytest.approx(0.3), 0.1], [0.2, 0.2]]
    seen = load_colliders(path, tree, visual=True)
    assert [x.rgba.tolist() for x in seen] == [[1, 0, 0, 0.5], [0.5, 0, pytest.approx(0.2), 0.75]]
    assert np.ptp(seen[1].shape.vertices, axis=0).tolist() == [2, 4, 0]
    (tmp_path / "t.png").write_text("no picture")
    with pytest.raises(ModelError, match=r"visual 1 of link 'a'.*expected a picture in file"):
        load_colliders(path, tree, visual=True)
    on_ground = collision("<plane><normal>0 1 0</normal></plane>")
    text = sdf(link("g", "<pose>0 0 3 0 0 0</pose>" + on_ground) + joint("j", "fixed", "world", "g"))
    (plane,) = load_colliders(text, ds.load(text))
    assert plane.link == "world" and plane.position.tolist() == [0, 0, 3]
    assert error(plane.rotation[:, 2], [0, 1, 0]) < ROUND_OFF


def test_groups_of_drake_keep_links_apart():
    group = "<drake:collision_filter_group name='{}'>{}</drake:collision_filter_group>"
    inside = "<self_collide>1</self_collide>" + "".join(
        link(x, f"<pose>{3 * k} 0 0 0 0 0</pose>" + collision("<sphere><radius>1</radius></sphere>"))
        for k, x in enumerate("abcd")
    )
    small = group.format("s", "<drake:member>a</drake:member><drake:member_group>t</drake:member_group>")
    large = group.format("t", "<drake:member>b</drake:member><drake:member_group>s</drake:member_group>"
        "<drake:ignored_collision_filter_group>t</drake:ignored_collision_filter_group>")  # fmt: skip
    small += group.format("u", "<drake:member_group>s</drake:member_group>"
        "<drake:ignored_collision_filter_group>o</drake:ignored_collision_filter_group>")  # fmt: skip
    other = group.format("o", "<drake:member>d</drake:member>")
    text = sdf(inside + small + large + other)
    assert load_ignored(text) == (("a", "b"), ("a", "d"), ("b", "d"))
    assert not ds.load(text).omitted
    many = "".join(link(f"l{k}", 30 * collision("<sphere/>")) for k in range(70))
    with pytest.raises(ModelError, match="at most 2000000 pairs"):
        load_ignored(sdf(many))
    assert load_ignored(sdf("<static>1</static>" + many)) == ()
    with pytest.raises(UnknownNameError, match="'nobody'"):
        load_ignored(sdf(inside + group.format("s", "<drake:member_group>nobody</drake:member_group>")))


@pytest.mark.parametrize(("text", "said"), [
    (sdf(link("a"), version="2.0"), "version of SDF"), (sdf(link("a"), version="x"), "version of SDF"),
    ("<sdf version='1.9'/>", "a <model>, or one <world>"),
    (sdf(link("a") + link("a")), "'a' twice"), (sdf("<link/>"), "a name on every <link>"),
    (sdf(link("a", "<pose>1 2 3</pose>")), "link 'a', <pose>: expected 6 finite"),
    (sdf(link("a", "<pose relative_to='b'>1 0 0 0 0 0</pose>") + link("b", "<pose relative_to='a'>0 1 0 0 0 0</pose>")),
        "a circle"),
    (sdf("<frame name='f' attached_to='g'/><frame name='g' attached_to='f'/>" + link("a")), "a circle"),
    (sdf(link("a") + link("b") + joint("j", "hinge", "a", "b")), "a type among"),
    (sdf(link("a") + link("b") + joint("j", "revolute", "a", "b")), "joint 'j': expected an <axis>"),
    (sdf(link("a") + link("b") + joint("j", "revolute", "a", "b", axis("0 0 0"))), "a vector that is not zero"),
    (sdf(link("a") + joint("j", "revolute", "a", "world", axis("0 0 1"))), "a child that moves"),
    (sdf(link("a", "", "nan")), "<mass>"), (sdf(link("a", "", -1)), "mass of link 'a'"),
    (sdf("<include><uri>https://a/b</uri></include>", head="world name='w'"), "Nothing is downloaded"),
    (sdf("<include><uri>model://nowhere</uri></include>", head="world name='w'"), "a file or folder that exists"),
    (sdf("<include><uri>/dev/zero</uri></include>", head="world name='w'"), "a file or folder that exists"),
    (sdf("<include><uri>../../../../../../../../etc/passwd</uri></include>", head="world name='w'"), "well-formed XML"),
    (sdf("<model name='a'>" * 1000 + link("a") + "</model>" * 1000), "nested at most 1000 deep"),
    ("<!DOCTYPE a [<!ENTITY b 'c'>]>" + sdf(link("&b;")), "a document type declaration"),
    (sdf("<model name='y'>" + link("a") + "</model>" + link("y::a")), "'y::a' twice"),
    (sdf(link("world")), "'world' twice"),
    (sdf("<link name='a'><inertial><mass>1e300</mass></inertial></link>"), "1e300"),
    (sdf("<link name='a'><inertial auto='true'/>" + collision("<box><size>1e29 1 1</size></box>") + "</link>"), "1e+"),
    (sdf("<link name='a'><inertial auto='true'/></link>"), "collisions that have a mass"),
    (sdf("<link name='a'><inertial auto='true'/>" + collision("<plane/>") + "</link>"), "got a HalfSpace"),
    (sdf("<link name='a'><inertial auto='true'/>" + collision(SQUARE.format(CORNERS.format(-1))) + "</link>"),
        "a convex polygon"),
    (sdf("<drake:joint name='j' type='ball'/>" + link("a")), "a type among planar"),
    (sdf("<drake:ball_constraint/>" + link("a")), "a <drake:ball_constraint_body_A>"),
])  # fmt: skip
def test_what_is_wrong_is_named(text, said):
    with pytest.raises(ModelError) as caught:
        ds.load(text)
    assert said in str(caught.value)


def test_what_changes_the_motion_is_listed():
    """Not where it says that it does nothing."""
    soft = "<drake:proximity_properties><drake:compliant_hydroelastic/></drake:proximity_properties>"
    decay = "<velocity_decay><linear>{}</linear></velocity_decay><kinematic>{}</kinematic>"
    loud = link("a", decay.format(0.1, 1) + collision("<sphere><radius>1</radius></sphere>", soft))
    (names,) = ds.load(sdf(loud + "<gripper name='g'/>"), unsupported="ignore").omitted.values()
    assert names == ("velocity_decay of a", "kinematic of a", "collision c of a", "gripper g")
    assert not ds.load(sdf(link("a", decay.format(0, 0)))).omitted


def test_worlds_of_gazebo_need_none_of_its_files():
    """Its light and ground, and systems that only report."""
    plugin = "<plugin filename='x' name='gz::sim::systems::{}'/>"
    inside = "<include><uri>model://sun</uri></include><include><uri>model://ground_plane</uri></include>"
    text = sdf(inside + plugin.format("Physics") + plugin.format("LiftDrag"), "1.6", "world name='w'")
    with pytest.warns(DelassusWarning, match=r"1 plugins.*LiftDrag\)"):
        tree = ds.load(text)
    (ground,) = load_colliders(text, tree)
    assert tree.nv == 0 and (ground.name, ground.link) == ("ground_plane::link", "world")


def test_unknown_frames_are_named():
    with pytest.raises(UnknownNameError, match=r"link 'a', frame.*'bb'"):
        ds.load(sdf(link("a", "<pose relative_to='bb'>0 0 0 0 0 0</pose>") + link("b")))


def test_files_that_include_themselves_or_too_much_are_refused(tmp_path):
    own = tmp_path / "own.sdf"
    own.write_text(sdf(link("a") + "<include><uri>own.sdf</uri></include>"))
    with pytest.raises(ModelError, match="does not include itself"):
        ds.load(own)
    for k in range(8):
        inside = "".join(f"<include><uri>f{k + 1}.sdf</uri><name>n{x}</name></include>" for x in range(9))
        (tmp_path / f"f{k}.sdf").write_text(sdf(link("a") + inside))
    (tmp_path / "f8.sdf").write_text(sdf(link("a")))
    with pytest.raises(ModelError, match="included files of 1e\\+06 bytes at most"):
        ds.load(tmp_path / "f0.sdf", max_bytes=1e6)


def in_drake(path):
    """Plant and context of a file in Drake."""
    parsing, plants = (pytest.importorskip(f"pydrake.multibody.{name}") for name in ("parsing", "plant"))
    plant = plants.MultibodyPlant(0.0)
    parsing.Parser(plant).AddModels(str(path))
    plant.Finalize()
    return plant, plant.CreateDefaultContext()


OF_DRAKE = (
    "acrobot/Acrobot.sdf", "multibody/cart_pole/cart_pole.sdf", "planar_gripper/planar_gripper.sdf",
    "planar_gripper/planar_brick.sdf", "kuka_iiwa_arm/models/table/extra_heavy_duty_table.sdf",
)  # fmt: skip


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore::delassus.DelassusWarning")  # inertias are drawn, and contacts of Drake are listed
@pytest.mark.parametrize("source", [*range(3), *OF_DRAKE])
def test_drake_has_the_same_motion(source, tmp_path):
    """Poses, limits, mass matrix and bias of what is written, and of files of Drake, for joints of one degree.

    Drake takes no links without mass.
    """
    path = tmp_path / "robot.sdf"
    if isinstance(source, int):
        kinds = (joint_kinds.REVOLUTE, joint_kinds.PRISMATIC, joint_kinds.SCREW)
        text = some_mechanism(source, 6, "fixed", kinds).tree.to_sdf(unsupported="ignore")
        path.write_text(text.replace("<mass>0<", "<mass>1e-9<"))
    else:
        path = f"{pytest.importorskip('pydrake').getDrakePath()}/examples/{source}"
    tree, (plant, context), rng = ds.load(path), in_drake(path), np.random.default_rng(0)
    single = [joint for joint in tree.joints if joint.nv == 1]
    joints = [plant.GetJointByName(joint.name) for joint in single]
    q, v = tree.neutral(), np.zeros(tree.nv)
    theirs = plant.GetPositions(context), np.zeros(plant.num_velocities())
    assert plant.num_velocities() == tree.nv
    for own, joint in zip(single, joints, strict=True):
        q[tree.q_index(own.name)] = theirs[0][joint.position_start()] = rng.uniform(-1, 1)
        v[tree.v_index(own.name)] = theirs[1][joint.velocity_start()] = rng.normal()
        assert (own.lower, own.upper) == (joint.position_lower_limits(), joint.position_upper_limits())
    plant.SetPositions(context, theirs[0])
    plant.SetVelocities(context, theirs[1])
    at, mine = [x.velocity_start() for x in joints], [tree.v_index(x.name).start for x in single]
    bias = plant.CalcBiasTerm(context) - plant.CalcGravityGeneralizedForces(context)
    M = plant.CalcMassMatrix(context)
    assert error(M[np.ix_(at, at)], ds.mass_matrix(tree, q)[np.ix_(mine, mine)]) < 10 * ROUND_OFF
    assert error(bias[at], ds.bias_force(tree, q, v, passive="none")[mine]) < 100 * ROUND_OFF
    for name in tree.link_names if len(single) == tree.n_links else ():
        pose = plant.CalcRelativeTransform(context, plant.world_frame(), plant.GetBodyByName(name).body_frame())
        assert error(ds.forward_kinematics(tree, q, name), pose.GetAsMatrix4()) < 10 * ROUND_OFF


@pytest.mark.peer
def test_drake_has_the_same_accelerations(tmp_path):
    """Of a slide, a planar joint between turned frames, a hinge, dampers, a rotor, and a spring that was written."""
    turned = "<frame name='{}' attached_to='{}'><pose>0.1 0.2 0.3 {} 0.4 -0.5</pose></frame>"
    damped = "<dynamics><damping>0.7</damping></dynamics>"
    inside = turned.format("f", "a", 0.6) + turned.format("g", "b", -0.8)
    inside += "".join(link(x, f"<pose>{k} 0 0 0.3 0 0</pose>") for k, x in enumerate("abc"))
    inside += joint("s", "prismatic", "world", "a", axis("1 0 2", damped))
    inside += "<drake:joint name='p' type='planar'><drake:parent>f</drake:parent><drake:child>g</drake:child>"
    inside += "<drake:damping>0.3 0.3 0.2</drake:damping></drake:joint>"
    inside += joint("h", "revolute", "b", "c", axis("0 1 1", damped) + "<drake:rotor_inertia>0.2</drake:rotor_inertia>")
    tree = ds.load(sdf(inside))
    spring = ds.SpringDamper(ds.Frame("a", (0, 1, 0)), ds.Frame("c", (1, 0, 0)), 20.0, 3.0, length=0.4)
    path = tmp_path / "robot.sdf"
    path.write_text(replace(tree, constraints=(spring,)).to_sdf())
    plant, context = in_drake(path)
    back, angle = ds.load(path), 0.9
    c, s = np.cos(angle), np.sin(angle)
    turn = np.array([[c, s], [-s, c]])  # Drake has velocities in the plane along axes of the parent
    theirs = np.array([0.1, 0.2, -0.3, angle, 0.4]), np.array([0.5, -0.6, 0.7, 0.8, -0.9])
    plant.SetPositions(context, theirs[0])
    plant.SetVelocities(context, theirs[1])
    a = plant.EvalTimeDerivatives(context).get_generalized_velocity().CopyToVector()
    q, v = np.array([0.1, 0.2, -0.3, c, s, 0.4]), theirs[1].copy()
    v[1:3] = turn @ v[1:3]
    a[1:3] = turn @ a[1:3] + v[3] * np.array([v[2], -v[1]])
    assert [plant.GetJointByName(x).velocity_start() for x in back.joint_names] == [0, 1, 4]
    assert error(ds.forward_dynamics(back, q, v, np.zeros(5)).qdd, a) < 1e3 * ROUND_OFF
