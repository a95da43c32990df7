"""OpenUSD: what is written is read as the same tree; UsdPhysics as OpenUSD's own parser has it; hostile stages."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
from delassus.contact import load_colliders, load_ignored
from delassus.errors import DelassusWarning, ModelError
from random_trees import joint_kinds, some_mechanism
from test_sdf import PER_DOF, assert_same
from tools import ROUND_OFF, error

pytest.importorskip("pxr")

IN_USD = tuple(getattr(joint_kinds, x) for x in ("REVOLUTE", "PRISMATIC", "BALL", "PLANAR", "TRANSLATION", "FREE"))

SINGLE = 1e-6
"""Of numbers in single precision."""


def usd(inside, units=1.0, up="Z", default="w"):
    head = f'(\n defaultPrim = "{default}"\n metersPerUnit = {units}\n upAxis = "{up}"\n)\n'
    return f'#usda 1.0\n{head}def Xform "{default}" {{\n{inside}\n}}\n'


def prim(kind, name, inside="", apis="", head=""):
    listed = ", ".join(f'"{x}"' for x in apis.split())
    head += f"\nprepend apiSchemas = [{listed}]" if listed else ""
    return f'def {kind} "{name}" (\n{head}\n) {{\n{inside}\n}}\n'


def placed(*p, turn=(1, 0, 0, 0), scale=(1, 1, 1)):
    return (
        f"double3 xformOp:translate = {p}\nquatd xformOp:orient = {turn}\nfloat3 xformOp:scale = {scale}\nuniform "
        'token[] xformOpOrder = ["xformOp:translate", "xformOp:orient", "xformOp:scale"]\n'
    )


MASS = "float physics:mass = 1\npoint3f physics:centerOfMass = (0, 0, 0)\n"
MASS += "float3 physics:diagonalInertia = (0.1, 0.2, 0.25)\n"


def body(name, *p, mass=MASS, inside="", apis="", **where):
    return prim("Xform", name, placed(*p, **where) + mass + inside, f"PhysicsRigidBodyAPI PhysicsMassAPI {apis}")


def joint(kind, name, *ends, p0=(0, 0, 0), p1=(0, 0, 0), inside="", apis="", r0=(1, 0, 0, 0), r1=(1, 0, 0, 0)):
    rels = "".join(f"rel physics:body{k} = </w/{x}>\n" for k, x in enumerate(ends) if x)
    poses = f"point3f physics:localPos0 = {p0}\npoint3f physics:localPos1 = {p1}\n"
    poses += f"quatf physics:localRot0 = {r0}\nquatf physics:localRot1 = {r1}\n"
    return prim(f"Physics{kind}Joint", name, rels + poses + inside, apis)


def axis(word):
    return f'uniform token physics:axis = "{word}"\n'


# -- written and read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_what_is_written_is_read(seed):
    tree = some_mechanism(seed, 6, ("fixed", "floating")[seed % 2], IN_USD).tree
    bare = (replace(j, armature=np.zeros(j.nv)) if j.nv > 1 else j for j in tree.joints)  # others have none in OpenUSD
    tree = replace(tree, joints=tuple(bare))
    with nullcontext() if tree.inertias[:, 0, 0].all() else pytest.warns(DelassusWarning, match="links without mass"):
        text = tree.to_usd()
    back = ds.load(text, unsupported="ignore")
    assert text.isascii() and {*tree.frames} == {*back.frames} and back.name == tree.name
    assert_same(tree, back)


def test_a_robot_goes_from_format_to_format():
    """URDF → SDF → OpenUSD → MJCF: a Panda, with its fingers' coupling, limits, mass matrix and bias."""
    first = ds.load("panda", unsupported="ignore")
    second = ds.load(ds.load(first.to_sdf(unsupported="ignore")).to_usd(unsupported="ignore"))
    assert_same(first, second)
    assert [c.couplings() for c in second.constraints] == [c.couplings() for c in first.constraints]
    assert_same(first, ds.load(second.to_mjcf(unsupported="ignore")), but=("velocity_limit",))


def test_servos_loops_gravity_and_names():
    """Drives with their targets, loops to the world and between frames, and names that no prim has."""
    chain = ds.mechanisms.chain(4)
    frames = ds.Frame("link4", (0.1, 0.2, 0.3)), ds.Frame("link1", (0.0, 0.1, 0.0))
    loops = (ds.Weld(*frames), ds.Point(*frames), ds.Hinge(*frames, (0.6, 0, 0.8)), ds.Prismatic(*frames, (0, 1, 2)))
    loops = (*loops, ds.Distance(*frames, length=0.7), ds.Weld(frames[0]), ds.Point("world", "link2"))
    names, cart = chain.joint_names, ds.load(CART)
    Actuator = type(cart.actuators[0])
    motors = (
        Actuator("a motor", {names[0]: 1.0}, (50.0, 0, 0), (4.0, -50.0, -2.0), force_range=(-9.0, 9.0)),
        Actuator(names[2], {names[2]: 1.0}, (3.0, 0, 0), (0.0, 0.0, -3.0)),
    )
    q = np.array([0.3, -0.2, 0.1, 2.5])
    tree = replace(
        chain, constraints=loops, actuators=motors, gravity=np.array([0.1, 0.2, -3.0]), name="é 2",
        keyframes={"qpos0": replace(cart.keyframes["qpos0"], q=q, v=np.zeros(4), ctrl=np.array([0.4, -0.6]))},
    )  # fmt: skip
    back = ds.load(tree.to_usd())
    assert back.name == "é 2" and not back.omitted and error(back.gravity, tree.gravity) < ROUND_OFF
    for one, other in zip(back.actuators, motors, strict=True):
        assert (one.name, one.transmission) == (other.name, other.transmission)
        for x in ("gain", "bias", "force_range"):
            assert getattr(one, x) == pytest.approx(getattr(other, x), rel=1e-14)
    assert error(back.keyframes["qpos0"].q, q) < 10 * ROUND_OFF
    assert error(back.keyframes["qpos0"].ctrl, [0.4, -0.6]) < ROUND_OFF
    for one, other in zip(back.constraints, loops, strict=True):
        assert type(one) is type(other)
        for a, b in ((one.first, other.first), (one.second, other.second)):
            assert (a.link, a.position) == (b.link, pytest.approx(b.position)) if b else a.link == "world"
        if hasattr(other, "axis"):
            assert error(one.first.rotation @ one.axis, other.axis / np.linalg.norm(other.axis)) < ROUND_OFF
            assert error(one.second.rotation @ one.axis, other.axis / np.linalg.norm(other.axis)) < ROUND_OFF
    other = replace(chain, constraints=(ds.CenterOfMass(),), actuators=(Actuator("m", {names[0]: 2.0}),))
    with pytest.warns(DelassusWarning, match=r"1 constraints \(CenterOfMass.*1 actuators that are no servos .*\(m\)"):
        other.to_usd()
    with pytest.raises(ModelError, match="a screw joint"):
        some_mechanism(0, 3, "fixed", (joint_kinds.SCREW,)).tree.to_usd()


# -- held to OpenUSD's own parser --------------------------------------------------------------------------------------


CART = usd(
    prim("PhysicsScene", "s")
    + prim("Cube", "rail", "double size = 10\n" + placed(0, -5, 0), "PhysicsCollisionAPI")
    + prim(
        "Cube", "cart", "float physics:mass = 2\ndouble size = 20\n",
        "PhysicsRigidBodyAPI PhysicsMassAPI PhysicsCollisionAPI",
    )
    + body(
        "pole", 0, 50, 0, mass="float physics:mass = 0.5\n",
        inside=prim("Capsule", "c", "double radius = 2\ndouble height = 80\n" + 'uniform token axis = "Y"',
                    "PhysicsCollisionAPI"),
    )
    + joint("Prismatic", "slide", "", "cart", inside=axis("X") + "float physics:lowerLimit = -100\n")
    + joint(
        "Revolute", "hinge", "cart", "pole", p1=(0, -50, 0), apis="PhysicsDriveAPI:angular",
        inside=axis("Z") + "float physics:upperLimit = 90\nfloat drive:angular:physics:stiffness = 10000\n"
        "float drive:angular:physics:damping = 100\nfloat drive:angular:physics:targetPosition = 90\n"
        "float physxJoint:maxJointVelocity = 180\nfloat physxJoint:armature = 300\n",
    ),
    units=0.01, up="Y",
)  # fmt: skip


def test_a_cart_in_centimetres_whose_y_axis_is_up():
    """The mass matrix, bias and gravity of the textbook; torques per degree, in kg cm²/s²."""
    tree = ds.load(CART)
    assert tree.joint_names == ("slide", "hinge") and not tree.omitted
    assert tree.gravity.tolist() == [0, 0, -9.81]
    r, h, angle, rate, reach = 0.02, 0.8, 0.7, 1.3, 0.5
    cylinder, ball = np.pi * r**2 * h, 4 / 3 * np.pi * r**3
    rod, ends = 0.5 * cylinder / (cylinder + ball), 0.5 * ball / (cylinder + ball)
    own = rod * (r**2 / 4 + h**2 / 12) + ends * (0.4 * r**2 + h**2 / 4 + 3 / 8 * h * r)
    sine, cosine = np.sin(angle), np.cos(angle)
    M = [[2.5, -0.5 * reach * cosine], [-0.5 * reach * cosine, own + 0.5 * reach**2 + 0.03]]
    assert error(ds.mass_matrix(tree, [0.2, angle]), M) < SINGLE
    bias = ds.bias_force(tree, [0.2, angle], [0.4, rate])
    assert error(bias, [0.5 * reach * sine * rate**2, -0.5 * reach * 9.81 * sine]) < SINGLE
    (servo,) = tree.actuators
    assert servo.gain[0] == pytest.approx(1.0 * 180 / np.pi) and servo.bias[2] == pytest.approx(-0.01 * 180 / np.pi)
    assert tree.keyframes["qpos0"].ctrl == pytest.approx([np.pi / 2])
    assert tree.per_dof("lower")[0] == pytest.approx(-1) and tree.per_dof("upper")[1] == pytest.approx(np.pi / 2)
    assert tree.per_dof("velocity_limit")[1] == pytest.approx(np.pi)
    scene = ds.Scene.from_robot(CART)
    assert {(c.link, c.shape) for c in scene.colliders} == {
        ("world", ds.contact.Box(0.1, 0.1, 0.1)), ("cart", ds.contact.Box(0.2, 0.2, 0.2)),
        ("pole", ds.contact.Capsule(0.02, 0.8)),
    }  # fmt: skip
    assert scene.ignore == {frozenset(("cart", "pole"))}


def arm(rng, scale=(2.0, 2.0, 2.0)):
    """Bodies in a scaled prim that is turned, whose joints have frames at random, and one that is turned around."""

    def turned():
        x = rng.normal(size=4)
        return tuple((x / np.linalg.norm(x)).tolist())

    def at():
        return tuple(rng.uniform(-1, 1, 3).tolist())

    mass = "float physics:mass = {}\npoint3f physics:centerOfMass = {}\nfloat3 physics:diagonalInertia = {}\n"
    mass += "quatf physics:principalAxes = {}\n"
    bodies = "".join(
        body(f"b{k}", *at(), turn=turned(), mass=mass.format(rng.uniform(1, 2), at(), (0.3, 0.4, 0.5), turned()))
        for k in range(4)
    )
    around = prim("Xform", "g", placed(*at(), turn=turned(), scale=scale) + bodies)
    ends = (("", "g/b0"), ("g/b0", "g/b1"), ("g/b2", "g/b1"), ("g/b2", "g/b3"))
    kinds = ("Revolute", "Prismatic", "Revolute", "Spherical")
    return around + "".join(
        joint(kind, f"j{k}", *pair, p0=at(), p1=at(), r0=turned(), r1=turned(), inside=axis("XYZ"[k % 3]))
        for k, (kind, pair) in enumerate(zip(kinds, ends, strict=True))
    )


def parsed(text):
    """Descriptions of bodies and joints by name, of OpenUSD's own parser, and the stage."""
    from pxr import Sdf, Usd, UsdPhysics

    layer = Sdf.Layer.CreateAnonymous(".usda")
    layer.ImportFromString(text)
    stage = Usd.Stage.Open(layer)
    found = UsdPhysics.UsdPhysicsLoadStageFromPrimRange(stage, ["/"])
    return stage, {path.name: record for paths, records in found.values()
                   for path, record in zip(paths, records, strict=True)}  # fmt: skip


def quaternion(q):
    from pxr import Gf

    return np.array(Gf.Matrix3d(Gf.Rotation(q))).T


@pytest.mark.parametrize(("seed", "units", "up"), [(0, 1.0, "Z"), (1, 0.01, "Y"), (2, 0.0254, "Z")])
def test_joints_are_where_openusd_has_them(seed, units, up):
    """At random coordinates, the motion between its frames is that of the joint; masses are those of bodies."""
    rng = np.random.default_rng(seed)
    text = usd(arm(rng), units, up)
    tree, (_, found) = ds.load(text, unsupported="ignore"), parsed(text)
    turn = np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]]) if up == "Y" else np.eye(3)
    q = tree.random(rng)
    names = [f"b{k}" for k in range(4)]
    poses = dict(zip(names, ds.forward_kinematics(tree, q, names), strict=True))
    for name in ("j0", "j1", "j2", "j3"):
        record, ends = found[name], []
        for k in (0, 1):
            local = np.eye(4)
            local[:3, :3] = quaternion(getattr(record, f"localPose{k}Orientation"))
            local[:3, 3] = np.array(getattr(record, f"localPose{k}Position")) * units
            path = getattr(record, f"body{k}").name
            base = np.eye(4)
            base[:3, :3] = turn
            ends.append((poses[path] if path in poses else base) @ local)
        T, k = np.linalg.inv(ends[0]) @ ends[1], "XYZ".index(str(record.axis)[-1]) if name != "j3" else 0
        x, at = q[tree.q_index(name)], np.eye(3)[k]
        if name == "j1":
            assert error(T[:3, :3], np.eye(3)) < SINGLE and error(T[:3, 3], x[0] * at) < 10 * SINGLE
        else:
            assert np.abs(T[:3, 3]).max() < 10 * SINGLE
        if name in ("j0", "j2"):
            i, j = (k + 1) % 3, (k + 2) % 3
            assert abs(np.arctan2(T[j, i], T[i, i]) - np.arctan2(np.sin(x[0]), np.cos(x[0]))) < 10 * SINGLE
    M = ds.mass_matrix(tree, q)
    assert error(M, _mass_matrix(tree, text, units, q)) < 100 * SINGLE


def _mass_matrix(tree, text, units, q):
    """``Σ Jᵀ H J`` of the masses that OpenUSD computes of the bodies."""
    from pxr import UsdPhysics

    stage, _ = parsed(text)
    M = np.zeros((tree.nv, tree.nv))
    for k in range(4):
        own = UsdPhysics.RigidBodyAPI(stage.GetPrimAtPath(f"/w/g/b{k}"))
        mass, moments, com, axes = own.ComputeMassProperties(lambda _: UsdPhysics.RigidBodyAPI.MassInformation())
        J = ds.frame_jacobian(tree, q, ds.Frame(f"b{k}", np.array(com) * units))
        R = quaternion(axes)
        H = np.zeros((6, 6))
        H[:3, :3], H[3:, 3:] = mass * np.eye(3), R @ np.diag(moments) @ R.T * units**2
        M += J.T @ H @ J
    return M


def test_masses_are_those_that_openusd_computes():
    """Of densities of bodies, colliders and materials; of a mass alone; of neither."""
    from pxr import Gf, UsdPhysics

    sphere = prim("Sphere", "s", "double radius = 0.5\n" + placed(0.1, 0.2, 0), "PhysicsCollisionAPI")
    cube = prim("Cube", "c", "double size = 1\nfloat physics:density = 300\n" + placed(0, 0.7, 0),
                "PhysicsCollisionAPI PhysicsMassAPI")  # fmt: skip
    cases = (
        "", "float physics:density = 200\n", "float physics:mass = 3\n",
        "float physics:mass = 3\npoint3f physics:centerOfMass = (1, 0, 0)\n",
        "float physics:mass = 3\nfloat3 physics:diagonalInertia = (1, 2, 2.5)\n",
    )  # fmt: skip
    volumes = {"s": 4 / 3 * np.pi / 8, "c": 1.0}
    moments = {"s": np.eye(3) * 0.4 * 0.25, "c": np.eye(3) / 6}

    def of_shape(own):
        name = own.GetPrim().GetName()
        found = UsdPhysics.RigidBodyAPI.MassInformation()
        found.volume, found.centerOfMass = volumes[name], Gf.Vec3f(0)
        found.inertia = Gf.Matrix3f(*(moments[name] * volumes[name]).ravel().tolist())
        found.localPos = Gf.Vec3f(*own.GetPrim().GetAttribute("xformOp:translate").Get())
        found.localRot = Gf.Quatf(1)
        return found

    for mass in cases:
        text = usd(body("a", 0, 0, 0, mass=mass, inside=sphere + cube))
        stage, _ = parsed(text)
        m, diagonal, com, _ = UsdPhysics.RigidBodyAPI(stage.GetPrimAtPath("/w/a")).ComputeMassProperties(of_shape)
        H = ds.load(text).inertias[0]
        assert error(H[0, 0], m) < SINGLE, mass
        c = np.array([H[5, 1], H[3, 2], H[4, 0]]) / m
        assert error(c, com) < SINGLE, mass
        own = H[3:, 3:] - m * (c @ c * np.eye(3) - np.outer(c, c))
        assert error(np.linalg.eigvalsh(own), np.sort(np.array(diagonal))) < 10 * SINGLE, mass
    alone = ds.load(usd(body("a", 0, 0, 0, mass="float physics:mass = 3\n")), unsupported="ignore")
    assert error(alone.inertias[0][3:, 3:], 0.012 * np.eye(3)) < SINGLE and "spheres" in str(alone.report)


# -- what stages hold ----------------------------------------------------------------------------------------------


def test_four_bars_start_closed():
    """A joint that is excluded, or comes too late, is a constraint, and closed where the stage has the bodies."""
    bars = "".join(body(x, *p) for x, p in {"a": (0, 0, 0.5), "b": (0.5, 0, 1), "c": (1, 0, 0.5)}.items())
    hinges = (
        joint("Revolute", "ground", "", "a", p1=(0, 0, -0.5), inside=axis("Y"))
        + joint("Revolute", "left", "a", "b", p0=(0, 0, 0.5), p1=(-0.5, 0, 0), inside=axis("Y"))
        + joint("Revolute", "right", "b", "c", p0=(0.5, 0, 0), p1=(0, 0, 0.5), inside=axis("Y"))
    )
    last = dict(p0=(1, 0, 0), p1=(0, 0, -0.5))
    excluded = "uniform bool physics:excludeFromArticulation = 1\n"
    texts = [
        usd(bars + hinges + joint("Revolute", "last", "", "c", inside=axis("Y"), **last)),
        usd(bars + joint("Revolute", "last", "", "c", inside=axis("Y") + excluded, **last) + hinges),
    ]
    for text in texts:
        tree = ds.load(text)
        (hinge,) = tree.constraints
        assert isinstance(hinge, ds.Hinge) and tree.joint_names == ("ground", "left", "right")
        gaps, _ = ds.compile(tree, hinge, "constraint_errors")(tree.neutral(), np.zeros(3))
        assert np.abs(gaps).max() < SINGLE
    rod = ds.load(usd(bars + hinges + joint("Distance", "rod", "", "c", inside="float physics:minDistance = 0.4\n"
                                            "float physics:maxDistance = 0.4\n")))  # fmt: skip
    assert [(type(c), c.length) for c in rod.constraints] == [(ds.Distance, pytest.approx(0.4))]
    rope = joint("Distance", "rope", "a", "c", inside="float physics:maxDistance = 0.4\n")
    assert "rope" in str(ds.load(usd(bars + hinges + rope), unsupported="ignore").report)


def test_joints_follow_others():
    """By Newton's schema and by PhysX's: offsets in degrees, of a slide in the stage's lengths."""
    physx = "float physxMimicJoint:rotY:gearing = 3\nfloat physxMimicJoint:rotY:offset = 45\n"
    physx += "rel physxMimicJoint:rotY:referenceJoint = </w/j>\n"
    newton = "rel newton:mimicJoint = </w/j>\nfloat newton:mimicCoef0 = 5\nfloat newton:mimicCoef1 = 0.5\n"
    text = "".join(body(x, 0, 0, 0) for x in "abc")
    text += joint("Revolute", "j", "", "a") + joint("Prismatic", "l", "a", "c", inside=newton)
    text += joint("Revolute", "k", "a", "b", inside=physx + axis("Y"), apis="PhysxMimicJointAPI:rotY")
    first, second = (c.couplings()[0] for c in ds.load(usd(text, units=0.1)).constraints)
    assert first == ({"l": 1.0, "j": pytest.approx(-0.05 * 180 / np.pi)}, pytest.approx(0.5))
    assert second == ({"k": 1.0, "j": 3.0}, pytest.approx(-np.pi / 4))


def test_joints_of_mujoco_between_two_bodies_act_one_after_the_other():
    """Two slides and a hinge of a planar robot, as MuJoCo's converter writes them, beside one without its schema."""
    moves = "vector3f physics:velocity = (0, 0, 2)\nvector3f physics:angularVelocity = (0, 90, 0)\n"
    text = body("a", 0, 0, 1, inside=moves) + "".join(
        joint(kind, name, "", "a", p0=(0, 0, 1), inside=axis(word), apis="MjcJointAPI")
        for kind, name, word in (("Prismatic", "x", "X"), ("Prismatic", "z", "Z"), ("Revolute", "y", "Y"))
    )
    tree = ds.load(usd(text + prim("PhysicsScene", "s", "bool newton:gravityEnabled = 0\n")))
    assert not tree.gravity.any()
    assert tree.joint_names == ("x", "z", "y") and not tree.constraints and not tree.keyframes["qpos0"].q.any()
    assert error(tree.keyframes["qpos0"].v, [0, 2, np.pi / 2]) < SINGLE
    at = ds.forward_kinematics(tree, [0.3, -0.2, np.pi / 2], "a")
    assert error(at[:3, 3], [0.3, 0, 0.8]) < SINGLE and error(at[:3, 0], [0, 0, -1]) < SINGLE


def test_generic_joints_leave_free_what_no_limit_locks():
    """One of two slides and two turns, with limits and a drive; a joint without locks is free; start and reversal."""
    lock = "float limit:{0}:physics:low = 1\nfloat limit:{0}:physics:high = -1\n"
    words = "transX transZ rotX"
    apis = " ".join(f"PhysicsLimitAPI:{x}" for x in (*words.split(), "rotY")) + " PhysicsDriveAPI:rotZ"
    limits = "float limit:rotY:physics:low = -90\nfloat limit:rotY:physics:high = 45\n"
    drive = "float drive:rotZ:physics:damping = 2\nfloat drive:rotZ:physics:targetVelocity = 90\n"
    inside = "".join(lock.format(x) for x in words.split()) + limits + drive
    for ends, p in ((("a", "b"), (0, 0.3, 0)), (("b", "a"), (0.3 * np.sqrt(0.5), -0.3 * np.sqrt(0.5), 0))):
        turned = (0.9238795325112867, 0, 0, 0.3826834323650898)  # 45° about z
        text = usd(
            body("a", 0, 0, 0) + body("b", *map(float, p), turn=turned)
            + joint("", "d", *ends, inside=inside, apis=apis) + joint("Fixed", "f", "", "a")
        )  # fmt: skip
        tree = ds.load(text)
        names = ("d:transY", "d:rotY", "d:rotZ")
        assert tree.joint_names == (names if ends == ("a", "b") else names[::-1]) and not tree.omitted
        assert tree.per_dof("upper")[1] == pytest.approx(np.pi / 4)
        q = tree.keyframes["qpos0"].q
        at = ds.forward_kinematics(tree, q, "b")
        assert error(at[:3, 3], p) < SINGLE and error(at[:2, 0], [np.sqrt(0.5)] * 2) < SINGLE
        assert [a.name for a in tree.actuators] == ["d:rotZ"]
        assert tree.keyframes["qpos0"].ctrl == pytest.approx([np.pi / 2])
    free = ds.load(usd(body("a", 1, 2, 3) + joint("", "d", "", "a")))
    assert [j.kind for j in free.joints] == [joint_kinds.FREE] and error(free.keyframes["qpos0"].q[:3], [1, 2, 3]) == 0


def test_instances_friction_groups_and_colours(tmp_path):
    """Two instances of a robot in a file of its own; who meets whom; meshes, materials, what they look like."""
    corners = "[(0,0,0), (1,0,0), (0,1,0), (0,0,1)]"
    mesh = f"point3f[] points = {corners}\nint[] faceVertexCounts = [3, 3, 3, 3]\n"
    mesh += "int[] faceVertexIndices = [0,2,1, 0,1,3, 0,3,2, 1,2,3]\n"
    mesh += 'uniform token physics:approximation = "convexHull"\ncolor3f[] primvars:displayColor = [(1, 0.5, 0)]\n'
    material = (
        prim("Material", "m", "float physics:dynamicFriction = 0.7\nfloat physics:restitution = 0.1\n",
             "PhysicsMaterialAPI")
    )  # fmt: skip
    hull = prim("Mesh", "hull", mesh + "rel material:binding:physics = </w/m>\n",
                "PhysicsCollisionAPI PhysicsMeshCollisionAPI MaterialBindingAPI")  # fmt: skip
    looks = prim("Sphere", "looks", "double radius = 0.1\ncolor3f[] primvars:displayColor = [(0, 0, 1)]\n")
    part = body("a", 0, 0, 0, inside=hull + looks) + body("b", 0, 0, 2, inside=prim(
        "Cylinder", "c", "double radius = 0.2\ndouble height = 1\n" + axis("X").replace("physics:", ""),
        "PhysicsCollisionAPI"))  # fmt: skip
    part += joint("Revolute", "j", "a", "b", p0=(0, 0, 1), p1=(0, 0, -1), inside=axis("X"))
    (tmp_path / "parts[1]").mkdir()
    (tmp_path / "parts[1]/robot.usda").write_text(usd(material + part))
    two = "".join(prim("Xform", f"r{k}", placed(3.0 * k, 0, 0), head="instanceable = true\nreferences = "
                       "@./parts[1]/robot.usda@") for k in range(2))  # fmt: skip
    groups = prim("PhysicsCollisionGroup", "g", "rel physics:filteredGroups = </w/g>\nrel collection:colliders:includes"
                  " = [</w/r0/b>, </w/r1/b>]\n", "CollectionAPI:colliders")  # fmt: skip
    ground = prim("Plane", "floor", placed(0, 0, -1), "PhysicsCollisionAPI")
    path = tmp_path / "two.usda"
    path.write_text(usd(two + groups + ground))
    tree = ds.load(path)
    assert tree.joint_names == ("w/r0/a:root_joint", "w/r0/j", "w/r1/a:root_joint", "w/r1/j")
    q = tree.keyframes["qpos0"].q
    assert error(ds.forward_kinematics(tree, q, "w/r1/b")[:3, 3], [3, 0, 2]) < SINGLE
    found = {c.name: c for c in load_colliders(path, tree)}
    assert [*found] == ["w/r0/a", "w/r0/b", "w/r1/a", "w/r1/b", "floor"]
    assert found["w/r0/a"].shape.convex and found["w/r0/a"].shape is found["w/r1/a"].shape
    assert (found["w/r0/a"].friction, found["w/r0/a"].restitution) == (pytest.approx(0.7), pytest.approx(0.1))
    assert {frozenset(x) for x in load_ignored(path)} == {
        frozenset(x) for x in (("w/r0/a", "w/r0/b"), ("w/r1/a", "w/r1/b"), ("w/r0/b", "w/r1/b"))
    }
    seen = {c.name: c.rgba.tolist() for c in load_colliders(path, tree, visual=True) if c.rgba is not None}
    assert seen["w/r0/a:looks"] == [0, 0, 1, 1] and seen["w/r1/a:hull"] == [1, 0.5, 0, 1]


def test_scenes_start_as_stages_do():
    """Velocities of bodies, one that the user moves, and one without weight."""
    box = prim("Cube", "c", "double size = 0.2\n", "PhysicsCollisionAPI")
    start = "vector3f physics:velocity = (1, 0, 0)\nvector3f physics:angularVelocity = (0, 0, 90)\n"
    off = "bool physxRigidBody:disableGravity = 1\n"
    text = usd(
        body("a", 0, 0, 0.1, inside=box + start, turn=(0, 0, 0, 1))
        + body("m", 5, 0, 0.5, inside=box + "bool physics:kinematicEnabled = 1\n") + body("l", 0, 3, 1, inside=off)
        + body("pendulum", 9, 0, 1, inside="vector3f physics:angularVelocity = (0, 180, 0)\n")
        + joint("Revolute", "j", "", "pendulum", p0=(9, 0, 1), inside=axis("Y"))
        + prim("Plane", "floor", "", "PhysicsCollisionAPI")
    )  # fmt: skip
    tree = ds.load(text)
    v = tree.keyframes["qpos0"].v
    assert error(v[tree.v_index("a:root_joint")], [-1, 0, 0, 0, 0, np.pi / 2]) < SINGLE
    assert v[tree.v_index("j")] == pytest.approx([np.pi])
    assert tree.frames["m"].moved_by == "m" and [*tree.gravity_compensation] == ["l"]
    scene = ds.Scene.from_robot(text)
    assert list(scene.moved) == ["m"] and error(scene.start_velocity[: tree.nv], v) == 0
    poses = ds.forward_kinematics(scene.tree, scene.start, ["a", "l", "m"])
    assert error(poses[:, :3, 3], [[0, 0, 0.1], [0, 3, 1], [5, 0, 0.5]]) < SINGLE
    assert [c.link for c in scene.colliders] == ["a", "m", "world"]


def test_what_is_not_held_is_listed():
    inside = "".join(body(x, 0, 0, k) for k, x in enumerate("abc")) + prim("Camera", "eye") + prim("PhysxTendon", "t")
    inside += joint("Revolute", "j", "", "a", inside=axis("X") + "float physics:breakForce = 3\n"
                    'uniform token drive:angular:physics:type = "acceleration"\n'
                    "float drive:angular:physics:stiffness = 3\n", apis="PhysicsDriveAPI:angular")  # fmt: skip
    inside += joint("Spherical", "s", "a", "b", p0=(0, 0, 0.5), inside="float physics:coneAngle0Limit = 30\n")
    inside += joint("Revolute", "k", "b", "c", inside=axis("X") + "rel newton:mimicJoint = </w/s>\n", p0=(0, 0, 1))
    with pytest.warns(DelassusWarning) as caught:
        ds.load(usd(inside))
    for part in (r"1 joints that break (j)", "1 drives of accelerations (j)", "1 limits of ball joints (s)", "(eye)",
                 "joints that follow others of several degrees of freedom, or no joint (k)", "schemas (t)",
                 "start where they do not allow, and that start at zero (s)"):  # fmt: skip
        assert part in str(caught[0].message)


@pytest.mark.parametrize(("text", "said"), [
    (usd(""), "PhysicsRigidBodyAPI"), ("#usda 1.0\ngarbage", "a layer that OpenUSD can read"),
    (usd(body("a", 0, 0, 0), units=0.0), "metersPerUnit"), (usd(body("a", 0, 0, 0), units=-1.0), "metersPerUnit"),
    (usd(body("a", 0, 0, 0, scale=(0, 1, 1))), "no zeros"),
    (usd(body("a", "nan", 0, 0).replace("'", "")), "a pose of finite numbers"),
    (usd(body("a", 0, 0, 0, mass="float physics:mass = nan\n")), "physics:mass of prim '/w/a'"),
    (usd(body("a", 0, 0, 0, mass='string physics:mass = "x"\n')), "physics:mass of prim '/w/a'"),
    (usd(body("a", 0, 0, 0, mass="float physics:mass = -1\n")), "mass of link 'a'"),
    (usd(body("a", 0, 0, 0) + joint("Revolute", "j", "a", "a")), "'a' twice"),
    (usd(body("a", 0, 0, 0) + joint("Revolute", "j", "", "b")), "one prim that exists"),
    (usd(body("a", 0, 0, 0) + joint("Revolute", "j", "", "a", inside=axis("W"))), "X, Y or Z"),
    (usd(body("a", 0, 0, 0) + joint("Revolute", "j", "", "a", p0=("inf", 0, 0)).replace("'", "")), "localPos0"),
    ('#usda 1.0\ndef "a" (\n references = @b.usda@\n) {\n}\n', "a text without other layers"),
    ('#usda 1.0\ndef "a" (\n references = </a/b>\n) {\n def "b" (\n references = </a>\n) {\n}\n}\n', "a circle"),
    ("#usda 1.0\n" + 'def "a" {\n' * 600 + "}\n" * 600, "nested at most 500"),
])  # fmt: skip
def test_what_is_wrong_is_named(text, said):
    with pytest.raises(ModelError) as caught:
        ds.load(text)
    assert said in str(caught.value)


def test_stages_of_files_elsewhere_are_refused(tmp_path):
    """Of the folder above, of the network, in circles, of too many bytes or prims; and archives are read."""
    (tmp_path / "in").mkdir()
    (tmp_path / "out.usda").write_text(usd(body("a", 0, 0, 0)))
    path = tmp_path / "in/robot.usda"
    for address, said in (
        ("../out.usda", "a file in the folder"), (f"{tmp_path}/out.usda", "a file in the folder"),
        ("https://a.b/c.usd", "Nothing is downloaded"), ("omniverse://a/c.usd", "Nothing is downloaded"),
        ("no.usda", "a file that exists"), ("robot.usda", "a circle"), ("`${X}`", "an expression"),
    ):  # fmt: skip
        path.write_text(usd(prim("Xform", "r", head=f"references = @{address}@")))
        with pytest.raises(ModelError, match=said):
            ds.load(path)
        path.unlink()
    doubled = "".join(
        f'def "p{k}" {{\n' + "".join(f'def "{x}" (\n references = </p{k + 1}>\n) {{\n}}\n' for x in "xyz") + "}\n"
        for k in range(30)
    )
    path.write_text(f'#usda 1.0\n{doubled}def "p30" {{\n}}\n')
    with pytest.raises(ModelError, match="at most 100000 prims"):
        ds.load(path)
    with pytest.raises(ModelError, match="at most 100 bytes"):
        ds.load(path, max_bytes=100)
    from pxr import UsdUtils

    (tmp_path / "plain.usda").write_text(usd(body("a", 0, 0, 0)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert UsdUtils.CreateNewUsdzPackage(str(tmp_path / "plain.usda"), str(tmp_path / "plain.usdz"))
    assert ds.load(tmp_path / "plain.usdz").link_names == ("a",)
    from pxr import Sdf

    Sdf.Layer.FindOrOpen(str(tmp_path / "plain.usda")).Export(str(tmp_path / "binary.usd"), args={"format": "usdc"})
    assert ds.load(str(tmp_path / "binary.usd")).link_names == ("a",) and set(PER_DOF)
    kept = Sdf.Layer.FindOrOpen(str(tmp_path / "plain.usda"))  # as an error does that somebody holds
    (tmp_path / "plain.usda").write_text(usd(body("other", 0, 0, 0)))
    assert kept and ds.load(tmp_path / "plain.usda").link_names == ("other",)
    (tmp_path / "broken.usdc").write_bytes((tmp_path / "binary.usd").read_bytes()[:100])
    with pytest.raises(ModelError, match="OpenUSD can read"):
        ds.load(tmp_path / "broken.usdc")
