"""Records: every field of every public one survives pickle, copies, and methods that are about something else."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import pkgutil
from dataclasses import fields, is_dataclass, replace
from types import MappingProxyType

import numpy as np
import pytest

import delassus as ds
from delassus import contact
from delassus.contact import (
    MLCP,
    Box,
    Capsule,
    Collider,
    ConeProblem,
    ContactSet,
    Cylinder,
    Ellipsoid,
    HalfSpace,
    HeightField,
    Mesh,
    Scene,
    Sphere,
    State,
)
from internals import Actuator, BoundedJoint, Recorder
from tools import random_rotation

ByContent, Frozen = ds.Sensor.__mro__[1:3]

RNG = np.random.default_rng(0)

COPIES = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def differences(a, b, path=""):
    """Where two values differ: in type, in a number, or in whether an array can be written to."""
    if isinstance(a, np.ndarray) and type(a) is type(b):
        alike = a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        return [path] * (not alike) + [path + " is writable"] * (a.flags.writeable != b.flags.writeable)
    if type(a) is not type(b):
        return [f"{path}: {type(a).__name__}, {type(b).__name__}"]
    if is_dataclass(a):
        parts = [(f".{f.name}", getattr(a, f.name), getattr(b, f.name)) for f in fields(a)]
    elif isinstance(a, tuple | list) and len(a) == len(b):
        parts = [(f"[{k}]", x, y) for k, (x, y) in enumerate(zip(a, b, strict=True))]
    elif isinstance(a, dict | MappingProxyType) and list(a) == list(b):
        parts = [(f"[{name!r}]", a[name], b[name]) for name in a]
    elif type(a).__eq__ is object.__eq__:
        return []  # no value: what it is for is compared elsewhere
    else:
        return [path] * bool(a != b)
    return [found for name, x, y in parts for found in differences(x, y, path + name)]


def whole_tree():
    """An arm each of whose fields is other than it is by default."""
    arm = ds.mechanisms.chain(3)
    joints = [
        replace(
            joint, rotation=random_rotation(RNG), position=RNG.normal(size=3), lower=[-2.0], upper=[2.5],
            armature=[0.1], damping=[0.2], friction=[0.3], stiffness=[0.4], rest_position=[0.5], effort_limit=[7.0],
            velocity_limit=[9.0],
        )
        for joint in arm.joints
    ]  # fmt: skip
    made = replace(
        arm, joints=tuple(joints), world_inertia=np.eye(6), gravity=np.array([1.0, 2.0, 3.0]),
        gravity_compensation={"link2": np.array([0.3, 0.1, 0.2, 0.3])},
        keyframes={"home": np.array([0.1, 0.2, 0.3])},
        actuators=(Actuator("m", {"link1_joint": 3.0}, (1.0, 2.0, 3.0), (4.0, 5.0, 6.0), (-1.0, 1.0), (-2.0, 2.0)),),
        constraints=(ds.JointRows({"link1_joint": 1.0, "link2_joint": -2.0}, 0.3), ds.Weld("link3")),
        sensors=(ds.Sensor("imu", "gyro", "link2"),), omitted={"springs": ("s",)}, joint_frames={"mark": "link2"},
        aliases={"old": "link1_joint"},
    )  # fmt: skip
    home = replace(made.keyframes["home"], v=[1.0, 2.0, 3.0], ctrl=[4.0], act=[5.0])
    return replace(made, keyframes={"home": home})


def whole_collider(link, name):
    return Collider(
        link, Sphere(0.1), (0.1, 0.2, 0.3), random_rotation(RNG), friction=0.7, restitution=0.3,
        surface_velocity=(1.0, 0.5, 0.0), name=name, torsional=0.02, rolling=0.01, rgba=(0.1, 0.2, 0.3, 0.5),
    )  # fmt: skip


def whole_scene():
    robots = {"arm": whole_tree(), "ball": ds.mechanisms.free_body(1.0, 0.1 * np.eye(3), name="ball")}
    return Scene(
        robots, [whole_collider("ball/ball", "s"), whole_collider("arm/link2", "a"), Collider("world", HalfSpace())],
        loops=[ds.Weld("arm/link3")], gravity=(1, 2, 3), ignore=[("s", "a")], parents_collide=True,
        friction_rule="max", pair_materials={("s", "world"): {"rolling": 0.2}},
        descriptions={"arm": "arm.urdf"}, start=[0.1, 0.2, 0.3, 1, 2, 3, 0, 0, 0, 1],
        start_velocity=np.arange(1.0, 10.0), start_controls=[0.4], moved=["ball"],
        springs=[ds.SpringDamper("arm/link1", "world", stiffness=2.0, damping=0.1, length=0.5)],
    )  # fmt: skip


def simulator(**options):
    ball = ds.mechanisms.free_body(1.0, 0.1 * np.eye(3))
    scene = Scene(ball, [Collider("body", Sphere(0.1), friction=0.6), Collider("world", HalfSpace(), friction=0.2)])
    return ds.Simulator(scene, q0=[0, 0, 0.0995, 0, 0, 0, 1], v0=[1, 0, -1, 0, 0, 0], **options)


def results():
    """Results of solvers, steps and direct functions, with all that they hold."""
    tree, sim = ds.mechanisms.chain(3), simulator()
    q, v = tree.random(RNG), RNG.normal(size=3)
    recording = sim.run(0.003, record=Recorder())
    sim.step()
    problem = contact.formulate(sim.scene, State(sim.q, sim.v), "os", dt=1e-2, n_directions=6, contacts=sim.contacts)
    solution = problem.solve("nsgs")
    derivatives = sim.step_derivatives(parameters=["friction"])
    gradient = sim.gradient(lambda q, v: (q[-1, 2], 0.0 * q, 0.0 * v), np.zeros((2, 6)), parameters=["mass"])
    cones = ConeProblem(np.eye(3), [0.1, 0.0, -1.0], [0.5], [0.3])
    relaxed = contact.convex(cones)
    mixed = contact.solve_mixed(MLCP(np.eye(3), [1.0, 2.0, 3.0], 1))
    points = [ds.Point("link3")]
    return [
        State(q, v, v), sim.contacts, recording, derivatives, derivatives.A, gradient, problem, solution,
        contact.audit(solution), contact.audit(solution).step, contact.nsgs(cones), relaxed, relaxed.problem, mixed,
        contact.lemke(cones.polyhedral(6)), mixed.problem,
        contact.lemke(contact.LCP(np.eye(3), [-1.0, 2.0, 3.0])), ds.forward_dynamics(tree, q, v, v, points),
        ds.dynamics_derivatives(tree, q, v, v, points), ds.inverse_dynamics(tree, q, v, v, points),
        ds.base_parameters(tree), ds.count_operations(tree, points), ds.Baumgarte(3.0, 0.5),
    ]  # fmt: skip


def described():
    """What robots and scenes are made of: each field is other than by default."""
    frame = ds.Frame("b", (1, 2, 3), random_rotation(RNG))
    tree = whole_tree()
    return [
        whole_scene(), tree, *tree.joints[:1], *tree.actuators, tree.frames["link2"],
        tree.keyframes["home"], whole_collider("a", "c"),
        Sphere(0.2), Capsule(0.1, 2.0), Cylinder(0.1, 3.0), Box(1, 2, 3), Ellipsoid(1, 2, 3), HalfSpace(),
        Mesh(RNG.normal(size=(4, 3)), [[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]], convex=True),
        HeightField(RNG.normal(size=(4, 5)), (2, 3)), frame, ds.Weld("a", frame, axes="world"), ds.Point("a", frame),
        ds.Hinge("a", frame, (1, 1, 0)), ds.Orientation("a", axis=(1, 2, 3)), ds.Rows("a", RNG.normal(size=(2, 6))),
        ds.Rows("a", frame, RNG.normal(size=(2, 6))), ds.Prismatic("a", frame, (1, 1, 0)),
        ds.Planar("a", axis=(1, 2, 0)), ds.Cylindrical("a", frame, (0, 1, 0)),
        ds.Universal("a", frame, (0, 1, 2), (1, 0, 1)),
        ds.Distance("a", frame, length=3), ds.Bushing("a", frame, np.arange(1.0, 7.0), np.eye(6) + 0.1),
        ds.CenterOfMass(), ds.Tendon(["a", frame], {"j": 2.0}, length=0.1), ds.JointRows([{"a": 1, "b": 2}], [0.3]),
        ds.Contact("a", Box(1, 2, 3), "input", friction=0.3, restitution=0.4, surface_velocity=(1, 2, 0)),
        BoundedJoint("a", [1.0], 3, -1.0, 2.0, 0.5), ds.Sensor("imu", "framepos", "link2", "link1", 3.0),
        ContactSet([[0, -1]], [[1, 2, 3]], contact.frames_of([[0, 0, 1.0]]), [0.1], 0.3, 0.4, [[1, 2]], [[3, 4]],
                   torsional=0.5, rolling=0.6),
    ]  # fmt: skip


def kinds(base=Frozen):
    """All frozen records of the package."""
    for module in pkgutil.walk_packages(ds.__path__, "delassus."):
        importlib.import_module(module.name)
    found = [base]
    for kind in found:
        found += [x for x in kind.__subclasses__() if x.__module__.startswith("delassus.") and x not in found]
    # `slots=True` makes a second class, and the first one stays for a while
    named = [(vars(importlib.import_module(kind.__module__)).get(kind.__name__), kind) for kind in found]
    return [kind for public, kind in named if public is kind and is_dataclass(kind)]


def bare(record):
    """The record with only what its kind asks for, all else by default."""
    asked = inspect.signature(type(record)).parameters.values()
    given = {x.name: getattr(record, x.name) for x in asked if x.default is x.empty}
    return type(record)(**given | ({"gravity": (0, 0, -9.81)} if isinstance(record, Scene) else {}))


def check_copies(records):
    for record in records:
        for name, copied in COPIES.items():
            assert not differences(record, copied(record)), (type(record).__name__, name)
        if {f.name for f in fields(record) if f.init} <= set(inspect.signature(type(record)).parameters):
            assert not differences(record, replace(record)), type(record).__name__


def says_itself(kind):
    """Whether a kind says what its records are rebuilt from, and not their fields."""
    own = kind.__reduce__, getattr(kind, "_parts", ByContent._parts)
    return own[0] not in (Frozen.__reduce__, ByContent.__reduce__) or own[1] is not ByContent._parts


def test_every_field_of_robots_and_scenes_survives_copies():
    made = described()
    check_copies(made)
    rebuilt = {kind for kind in kinds() if says_itself(kind)} - {ByContent, ds.Tree.__base__}
    assert rebuilt <= set(map(type, made))  # those that say themselves what they are rebuilt from


@pytest.mark.slow
def test_every_field_of_results_survives_copies():
    check_copies(results())


def test_no_field_of_the_records_here_is_as_it_is_by_default():
    """Else a copy that drops it would be none the worse."""
    for record in (whole_scene(), whole_tree(), *whole_tree().actuators, whole_collider("a", "c")):
        other = bare(record)
        own = [f.name for f in fields(record) if f.init]
        same = [name for name in own if not differences(getattr(record, name), getattr(other, name))]
        asked = {x.name for x in inspect.signature(type(record)).parameters.values() if x.default is x.empty}
        assert not set(same) - asked, type(record).__name__


def test_any_record_is_copied_whole():
    """Whatever is in its fields; arrays stay read-only."""
    for kind in kinds():
        if not says_itself(kind):
            record = object.__new__(kind)
            values = {f.name: (np.arange(k), f.name) if k % 2 else np.full(2, k) for k, f in enumerate(fields(kind))}
            record._set_attributes(**values)
            for name, copied in COPIES.items():
                assert not differences(record, copied(record)), (kind.__name__, name)


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_copies_of_simulators_go_the_same_way_and_share_nothing(copied):
    options = {
        "dt": 2e-3, "resting": 1e-3, "penetration": 2e-4, "correction": 0.3, "sleep": 0.5, "tolerance": 1e-7,
        "max_iterations": 500, "seed": 3, "passive": "none", "limits": False, "control": "pd", "kp": np.full(6, 0.1),
        "kd": np.full(6, 0.2), "threads": 1, "n_directions": 6,
    }  # fmt: skip
    sim, target = simulator(**options), [0, 0, 0.2, 0, 0, 0, 1]
    sim.step(target)
    twin = copied(sim)
    public = [name for name in vars(sim) if not name.startswith("_") and name not in ("scene", "rng")]
    assert not differences([getattr(sim, x) for x in public], [getattr(twin, x) for x in public])
    assert twin.options == sim.options and not differences(sim.get_state(), twin.get_state())
    assert twin._steps.threads == sim._steps.threads
    before = sim.get_state()
    for _ in range(3):
        twin.step(target)
    assert not differences(before, sim.get_state())
    for _ in range(3):
        sim.step(target)
    assert not differences(sim.get_state(), twin.get_state()) and sim.rng.random() == twin.rng.random()


def test_edits_of_scenes_change_nothing_else():
    """What is added and taken away again leaves the scene as it was, and so does what is set and set back."""
    scene = whole_scene()
    rows = ds.JointRows({"crate/link1_joint": 1.0, "crate/link2_joint": 1.0})
    grown = [
        scene.add("crate", Box(1, 1, 1), mass=2.0, at=(1, 2, 3), friction=0.3, restitution=0.1),
        scene.add("crate", HalfSpace(), at=(1, 2, 3)),
        scene.add("crate", Collider("arm/link1", Sphere(0.3))),
        scene.add("crate", ds.mechanisms.chain(2)).attach(rows, ds.Weld("crate/link2")),
    ]
    for more in grown:
        assert differences(scene, more) and not differences(scene, more.without("crate"))
        for name in ("gravity", "ignore", "parents_collide", "friction_rule", "pair_materials", "descriptions"):
            assert not differences(getattr(scene, name), getattr(more, name)), name
    slippery = scene.with_friction(0.1)
    assert [c.friction for c in slippery.colliders] == [0.1] * 3
    assert not differences(scene, slippery.with_friction(0.7, "s", "a").with_friction(0.5, "world"))


def test_edits_of_trees_change_nothing_else():
    """All fields of both trees are in the one that they make, where that has the names of the second with a prefix."""
    arm, hand = whole_tree(), whole_tree()
    both = arm.attach("link3", hand, (0.1, 0.2, 0.3), random_rotation(RNG), prefix="hand_")
    for old, new in zip(arm.joints, both.joints[:3], strict=True):
        assert np.allclose(old.rotation, new.rotation, rtol=0.0, atol=1e-15)  # it is made one once more
        assert not differences(old, replace(new, rotation=old.rotation))
    assert both.link_names[:3] == arm.link_names
    moved = {"rotation": hand.joints[0].rotation, "position": hand.joints[0].position}
    named = (*(replace(joint, name=joint.name.removeprefix("hand_")) for joint in both.joints[3:]),)
    assert not differences(hand.joints, (replace(named[0], **moved), *named[1:]))
    for name in ("actuators", "constraints", "sensors"):
        theirs = tuple(x.prefixed("hand_") for x in getattr(hand, name))
        assert not differences((*getattr(arm, name), *theirs), getattr(both, name)), name
    for name in ("gravity_compensation", "joint_frames", "frames"):
        for key, value in getattr(arm, name).items():
            assert not differences(value, getattr(both, name)[key]), (name, key)
        assert {f"hand_{key}" for key in getattr(hand, name)} <= set(getattr(both, name)), name
    assert dict(both.aliases) == {"old": "link1_joint", "hand_old": "hand_link1_joint"}
    assert both.omitted["springs"] == ("s", "hand_s") and both.name == arm.name
    assert np.array_equal(both.gravity, arm.gravity) and np.array_equal(both.world_inertia, arm.world_inertia)
    home, of_hand = both.keyframes["home"], both.keyframes["hand_home"]
    for key, x in {"q": [0.1, 0.2, 0.3], "v": [1.0, 2.0, 3.0], "ctrl": [4.0]}.items():
        none = [0.0] * len(x)
        assert getattr(home, key).tolist() == [*x, *none] and getattr(of_hand, key).tolist() == [*none, *x], key
    assert home.act.tolist() == of_hand.act.tolist() == [5.0]
    assert replace(arm, actuators=()).keyframes["home"].ctrl.size == 0
