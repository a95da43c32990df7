"""Ready-made scenes do what they are there for: swing and bounce, lift, come to rest, stay on their feet."""

from __future__ import annotations

import os
import pickle
import re
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import delassus as ds
from delassus.contact import SolverStatus
from delassus.errors import missing_dependency
from delassus.pictures.plots import FRAMES, centre_motion, centres, summary_figure, swing_figure, walk_figure
from delassus.scenes import boxes, dual_arm, generic_quadruped, mppi, pendulum, quadruped
from internals import Recorder, Recording, example_robot_files
from tools import on_a_full_disk

pytestmark = pytest.mark.usefixtures("one_lane")

SOUND = {SolverStatus.CONVERGED.name, SolverStatus.ROUND_OFF.name}


def colliders_touched(recording):
    """Name of each collider that touched another → times."""
    times = {}
    for pair, time in zip(recording.contact_colliders, recording.contact_times, strict=True):
        for c in pair:
            times.setdefault(recording.origin.colliders[c], []).append(time)
    return times


# -- pendulum --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 12, 30])
def test_the_pendulum_is_that_of_the_paper(n):
    ready = pendulum(n)
    tree = ready.scene.tree
    assert tree.nv == n and np.allclose(tree.inertias[:, 0, 0], 1.0)
    assert ready.dt == 1e-4 and np.array_equal(ready.scene.gravity, [0, 0, -9.8])
    balls = [c for c in ready.scene.colliders if c.link != "world"]
    assert {c.friction for c in ready.scene.colliders} == {0.5}
    assert {c.restitution for c in ready.scene.colliders} == {0.7}
    assert np.isclose(sum(2 * c.shape.radius for c in balls), 12.0)
    places, speeds = centre_motion(ready.scene, ready.q0[None], ready.v0[None], n - 1)
    direction = np.array([-1.0, 0.0, -1.0]) / np.sqrt(2)  # at π/4, on the left
    radius = balls[0].shape.radius
    assert np.allclose(places[0], [0, 0, 10] + (12 - radius) * direction, atol=1e-12)
    assert np.isclose(np.linalg.norm(speeds[0]), (12 - radius) * 1.0, rtol=1e-8)  # 1 rad/s, differences of places
    assert speeds[0, 0] > 0  # to the right
    wall = next(c for c in ready.scene.colliders if c.name == "wall")
    assert np.allclose(wall.position, [4, 0, 0]) and np.allclose(wall.rotation[:, 2], [-1, 0, 0])
    chain = centres(ready.scene, ready.q0)
    assert np.allclose(np.linalg.norm(np.diff(chain, axis=0), axis=1), 2 * radius)


def test_the_pendulum_strikes_the_floor_and_then_the_wall_and_loses_energy():
    ready = pendulum(6)
    recording = ready.simulator(dt=1e-3).run(3.0, record=Recorder())
    touched = colliders_touched(recording)
    assert min(touched["floor"]) < min(touched["wall"]) < 3.0
    assert set(recording.origin.statuses) <= SOUND
    # Semi-implicit steps of 1 ms let the energy of free motion waver by this much; impacts only ever take from it.
    waver = 0.01 * recording.energy[0]
    assert np.diff(recording.energy).max() < waver
    assert recording.energy[-1] < 0.95 * recording.energy[0]
    lowest = centres(ready.scene, recording.q)[..., 2].min() - 1.0
    assert lowest > -0.02  # a ball of radius 1 m at 10 m/s goes 0.01 m into the floor in one step
    neighbours = {(f"ball{k}", f"ball{k + 1}") for k in range(1, 6)}
    names = recording.origin.colliders
    pairs = {tuple(sorted((names[a], names[b]))) for a, b in recording.contact_colliders}
    assert not pairs & neighbours


@pytest.mark.parametrize("make", [pendulum, boxes])
@pytest.mark.parametrize("n", [0, -1, 2.0, "3", True])
def test_bad_numbers_of_links(make, n):
    with pytest.raises(ds.DelassusError, match="whole number"):
        make(n)


# -- boxes -----------------------------------------------------------------------------------------------------------


def test_boxes_come_to_rest_as_a_stack():
    ready = boxes(3)
    recording = ready.simulator().run(ready.duration, record=Recorder())
    assert set(recording.origin.statuses) <= SOUND
    late = recording.time > ready.duration - 0.3
    assert np.abs(recording.v[late]).max() < 1e-6
    heights = centres(ready.scene, recording.q[-1])[:, 2]
    assert np.allclose(heights, [0.1, 0.3, 0.5], atol=1e-3)  # boxes of 0.2 m; overlaps of 0.1 mm are left alone
    last = recording.contacts(-1)
    on_floor = (last["links"] == -1).any(axis=1)
    supported = np.abs(last["impulses"][on_floor, 2].sum()) / ready.dt
    assert np.isclose(supported, 3 * 9.81, rtol=1e-6)
    # Boxes fall at up to 1.4 m/s and overlap by up to 1.4 mm after a step; taking back a fifth of that lifts them.
    assert np.diff(recording.energy).max() < 0.2 * 1.4e-3 * 3 * 9.81


# -- dual arm --------------------------------------------------------------------------------------------------------


def test_the_dual_arm_is_that_of_the_paper():
    robot = ds.mechanisms.dual_arm()
    assert robot.n_links == robot.nv == 26
    names = robot.link_names
    assert sum(name.startswith("head") for name in names) == 4
    for side in ("left", "right"):
        assert sum(name.startswith(f"{side}_arm") for name in names) == 7
        assert sum("finger" in name or "thumb" in name for name in names if name.startswith(side)) == 4


@pytest.fixture(scope="module")
def lifting():
    return dual_arm()


@pytest.mark.slow
def test_the_dual_arm_lifts_the_box_by_four_contacts(lifting):
    ready = lifting
    scene = ready.scene
    recording = ready.simulator().run(ready.duration, ready.controller, record=Recorder())
    assert set(recording.origin.statuses) <= SOUND
    box = recording.q[:, scene.q_slice("box")]
    assert np.isclose(box[-1, 2] - box[0, 2], 0.2, atol=0.01)
    assert np.allclose(box[-1, :2], box[0, :2], atol=0.01)
    assert np.abs(box[-1, 3:6]).max() < 0.05  # upright
    late = recording.time > ready.duration - 0.3
    assert np.all(recording.contact_counts[late] == 4)
    last = recording.contacts(-1)
    names = {recording.origin.colliders[c] for c in last["colliders"].ravel()}
    assert "table" not in names and "box" in names
    assert not any("thumb" in name for name in names)
    carried = sum(i[2] * (1 if a == scene.tree.n_links - 1 else -1)
                  for i, (a, _) in zip(last["impulses"], last["links"], strict=True))  # fmt: skip
    assert np.isclose(carried / ready.dt, 9.81, rtol=0.02)


@pytest.mark.slow
def test_controllers_leave_the_box_and_the_trunk_alone(lifting):
    """No force acts on a joint that has no motor."""
    ready = lifting
    tau = ready.controller(ready.simulator())
    assert np.all(tau[ready.scene.v_slice("box")] == 0.0) and np.abs(tau).max() > 0
    ready = quadruped(generic=True)
    tau = ready.controller(ready.simulator())
    assert np.all(tau[:6] == 0.0) and np.abs(tau).max() > 0


# -- quadruped -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("generic", [True, False])
def test_the_quadruped_trots_on_the_spot(generic):
    ready = quadruped(generic=generic)
    recording = ready.simulator().run(ready.duration, ready.controller, record=Recorder())
    assert set(recording.origin.statuses) <= SOUND
    q = recording.q
    standing = recording.time < 0.5
    assert np.ptp(q[standing, 2]) < 0.005
    assert np.abs(q[:, 2] - q[0, 2]).max() < 0.02  # it does not fall
    assert np.abs(q[:, 3:6]).max() < 0.1  # nor lean
    assert np.abs(q[:, :2]).max() < 0.15  # nor run away
    names = np.array(recording.origin.colliders)
    touched = colliders_touched(recording)
    assert "trunk" not in touched
    for foot in ("FL_foot", "FR_foot", "RL_foot", "RR_foot"):
        times = np.unique(touched[foot])
        swings = np.diff(times)[np.diff(times) > 0.1]
        assert len(swings) >= 4, foot  # in 2.5 s of a trot of 0.5 s
    assert names.size == len(ready.scene.colliders)
    # Feet that stand do not slip by more than a little: friction holds them.
    assert recording.contact_counts.max() == 4


def walk(seconds=0.5, seed=0):
    """Simulator and controller after a time, with few samples."""
    ready = mppi(generic=True, samples=64)
    sim = ready.simulator(dt=2e-3, seed=seed)
    sim.run(seconds, ready.controller)
    return sim, ready.controller


@pytest.mark.slow
def test_a_quadruped_walks_by_sampling():
    sim, controller = walk()
    replans = controller.replans
    assert len(replans) == 25
    assert sim.q[0] > 0.02 and abs(sim.q[1]) < 0.1  # ahead, as in the time in which it gets faster
    assert 0.24 < sim.q[2] < 0.34 and np.abs(sim.q[3:6]).max() < 0.15
    assert replans[-1].cost < 0.7 * replans[0].cost
    assert all(r.best <= r.cost for r in replans)
    assert max(r.residual for r in replans) < 1e-2
    assert controller.paths.shape == (5, 30, 3)
    assert np.abs(controller.paths[0, 0, :2] - sim.q[:2]).max() < 0.05
    assert np.abs(controller.paths[1:, :, 2]).max() < 0.2


@pytest.mark.slow
def test_walks_of_one_seed_are_the_same():
    first, second, other = (walk(seconds=0.1, seed=seed)[0].q for seed in (0, 0, 1))
    assert np.array_equal(first, second) and not np.array_equal(first, other)


def test_a_walk_that_is_restarted_plans_anew():
    ready = mppi(generic=True, samples=8)
    sim = ready.simulator(dt=2e-3)
    start = sim.get_state()
    sim.run(0.06, ready.controller)
    once = sim.q
    sim.set_state(start)
    sim.run(0.06, ready.controller)
    assert np.array_equal(sim.q, once) and len(ready.controller.replans) == 3


def test_rollouts_know_the_ground():
    ground = mppi("steps", generic=True, samples=2).controller.ground
    points = np.array([[0.0, 0.0, 1.0], [0.79, 0.5, 0.0], [0.79, 3.0, 0.0], [1.0, 0.0, 0.0], [1.7, 0.0, 0.0]])
    assert np.allclose(ground.below(points, 0.02), [0.0, 0.05, 0.0, 0.05, 0.1])
    assert np.allclose(ground.below(points, 0.0), [0.0, 0.0, 0.0, 0.05, 0.1])
    far = np.array([[0.0, 0.0, 0.0], [0.8, 0.0, 0.0], [7.0, 0.0, 0.0]])
    assert np.allclose(ground.mean(far), [0.0, 0.025, 0.05])
    flat = mppi(generic=True, samples=2).controller.ground
    assert not flat.below(points, 0.02).any() and not flat.mean(points).any()


def test_the_generic_quadruped_has_the_names_of_go1():
    tree = generic_quadruped()
    go1 = quadruped().scene.tree
    if go1.name == tree.name:
        pytest.skip("needs the description of Go1")
    assert tree.joint_names == go1.joint_names
    assert {f"{leg}_foot" for leg in ("FL", "FR", "RL", "RR")} <= set(tree.frames)


def test_without_descriptions_the_quadruped_is_the_generic_one(monkeypatch):
    module = sys.modules[quadruped.__module__]

    def without_go1(robot, **options):
        if robot == "go1":
            raise missing_dependency("example-robot-data", "robots", "go1")
        return ds.load(robot, **options)

    monkeypatch.setattr(module, "load", without_go1)
    assert module.quadruped().scene.tree.name == "quadruped"


# -- figures ---------------------------------------------------------------------------------------------------------


def test_centres_of_mass_are_those_of_the_description():
    arm = ds.mechanisms.humanoid()
    q = arm.random(3)
    scene = ds.Scene(arm)
    mass = arm.inertias[:, 0, 0]
    mean = mass @ centres(scene, q) / mass.sum()
    assert np.allclose(mean, ds.centre_of_mass(arm, q), atol=1e-12)


@pytest.mark.slow
def test_figures(tmp_path):
    pytest.importorskip("matplotlib")
    ready = pendulum(3)
    recordings = {name: ready.simulator(formulation=name, dt=1e-3).run(0.3, record=Recorder()) for name in ("os", "mc")}
    for path in (
        swing_figure(recordings, tmp_path / "deep" / "swing.png"),
        swing_figure(recordings["os"], tmp_path / "one.png"),
        summary_figure(recordings["os"], tmp_path / "summary.png"),
    ):
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    read = Recording.load(recordings["os"].save(tmp_path / "r.npz"))
    assert read.tau.shape == read.v.shape
    with pytest.raises(ds.DelassusError, match="knows its scene"):
        summary_figure(read, tmp_path / "x.png")
    with pytest.raises(ds.DelassusError, match=r"a name that ends in .*\.png"):
        summary_figure(recordings["os"], tmp_path / "x.nonsense")


@pytest.mark.slow
def test_figures_of_a_forged_time(tmp_path):
    """They take memory by the samples that there are, not by the time that the last one claims."""
    pytest.importorskip("matplotlib")
    recording = pendulum(3).simulator(dt=1e-3).run(0.2, record=Recorder(every=10))
    time = recording.time.copy()
    time[-1] = 1e15
    forged = replace(recording, time=time)
    for draw in (summary_figure, swing_figure, lambda *a: walk_figure(a[0], [], a[1])):
        assert draw(forged, tmp_path / "f.png").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_figures_of_numbers_that_cannot_be_drawn(tmp_path):
    """Differences of energies overflow in matplotlib; balls are what is drawn of a swing."""
    pytest.importorskip("matplotlib")
    recording = pendulum(2).simulator(dt=1e-3).run(0.005, record=Recorder())
    forged = replace(recording, kinetic=np.full(len(recording), 1e308))
    for draw in (summary_figure, swing_figure):
        with pytest.raises(ds.DelassusError, match=r"f.png'?: expected numbers that can be drawn"):
            draw(forged, tmp_path / "f.png")
    with pytest.raises(ds.DelassusError, match="a scene with balls"):
        swing_figure(boxes(1).simulator().run(0.0, record=Recorder()), tmp_path / "f.png")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="limits of a process")
def test_a_figure_that_does_not_fit_leaves_nothing(tmp_path):
    pytest.importorskip("matplotlib")
    recording, path = pendulum(2).simulator(dt=1e-3).run(0.01, record=Recorder()), tmp_path / "f.png"
    path.write_bytes(b"of before")
    assert "f.png': expected a file that can be written" in on_a_full_disk(partial(summary_figure, recording, path))
    assert list(tmp_path.iterdir()) == [path] and path.read_bytes() == b"of before"


@pytest.mark.slow
def test_figures_say_what_they_leave_out(tmp_path, monkeypatch):
    """Titles: how many of the curves are drawn, and how high the impacts are that are cut."""
    pytest.importorskip("matplotlib")
    saved = []
    monkeypatch.setattr("delassus.pictures.plots.save_figure", lambda figure, path: saved.append(figure))
    summary_figure(pendulum(14).simulator(dt=1e-3).run(0.25, record=Recorder(energy=False)), tmp_path / "f.png")
    titles = " / ".join(ax.get_title() for ax in saved[0].axes)
    assert "heights: 4 of 14, the first" in titles and "angles: 4 of 14, those that move most" in titles
    assert "torques of motors: 4 of 14, the same" in titles and re.search(r"impacts of up to [\d,]+ N cut", titles)
    looks = {(line.get_color(), line.get_linestyle()) for line in saved[0].axes[4].lines}
    assert len(looks) == len(saved[0].axes[4].lines) == 4
    run = pendulum(2).simulator(dt=1e-3).run(0.01, record=Recorder())
    swing_figure({f"run {k}": run for k in range(7)}, tmp_path / "f.png")
    assert len(saved[1].axes[FRAMES].lines) == 7


# -- scenes of a robot by its name -----------------------------------------------------------------------------------

INERTIAL = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::delassus.DelassusWarning")  # one link of the file of go1
def test_a_scene_of_go1_in_one_line():
    """Its SRDF file says what never collides and how it stands; set down, it touches the floor and nothing else."""
    if "go1" not in example_robot_files():
        pytest.skip("example-robot-data is not installed")
    scene = ds.Scene.from_robot("go1", floor=True, friction=0.7)
    assert len(scene.ignore) > 100 and {c.friction for c in scene.colliders} == {0.7}
    q0 = scene.set_down(scene.tree.reference_configurations["standing"])
    assert 0.2 < q0[2] < 0.35 and np.array_equal(scene.set_down(q0 + 0.3 * (np.arange(q0.size) == 2))[3:], q0[3:])
    sim = ds.Simulator(scene, q0=q0, dt=1e-3)
    sim.run(0.02)
    touching = {scene.colliders[k].name for pair in sim.contacts.colliders for k in pair}
    assert touching == {"floor", "FL_foot", "FR_foot", "RL_foot", "RR_foot"}
    assert ds.contact.CollisionDetector(scene).pairs.size


def arm_of_balls(reach):
    """URDF text of four links: balls on 1 and 3 overlap wherever link 2 turns, that on 4 is that far from joint 3."""
    ball = '<collision name="{}"><geometry><sphere radius="0.3"/></geometry></collision>'
    links = "".join(f'<link name="l{k}">{INERTIAL}{ball.format(f"ball{k}") * (k != 2)}</link>' for k in range(1, 5))
    joints = "".join(
        f'<joint name="j{k}" type="continuous"><parent link="l{k}"/><child link="l{k + 1}"/><axis xyz="0 1 0"/>'
        f'<origin xyz="{x} 0 0"/></joint>'
        for k, x in ((1, 0.1), (2, 0.1), (3, reach))
    )
    return f'<robot name="arm">{links}{joints}</robot>'


def test_a_scene_of_a_urdf_file_ignores_what_always_touches(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(arm_of_balls(1.0))
    scene = ds.Scene.from_robot(path)
    assert scene.ignore == {frozenset({"ball1", "ball3"})} and scene.tree.nv == 9
    with pytest.raises(ds.DelassusError, match=r"Pass floor=True"):
        scene.set_down(scene.neutral())
    (tmp_path / "arm.srdf").write_text(
        '<robot name="arm"><disable_collisions link1="l1" link2="l4"/><group_state name="bent" group="all">'
        '<joint name="j1" value="0.5"/></group_state></robot>'
    )
    assert ds.load(path).reference_configurations["bent"].tolist() == [0.5, 0.0, 0.0]
    scene = ds.Scene.from_robot(path, floor=True)
    assert scene.ignore == {frozenset({"l1", "l4"}), frozenset({"ball1", "ball3"})}  # files may name neighbours alone
    q = scene.set_down(scene.tree.keyframes["bent"].q)
    assert q[2] == pytest.approx(0.3 + 1.0 * np.sin(0.5) + 0.1 * np.sin(0.5))  # ball 4 is the lowest


@pytest.mark.parametrize("states, touches", [({"folded"}, True), ({"folded", "bent"}, False), (set(), False)])
def test_configurations_of_srdf_files_are_free_of_collisions(tmp_path, states, touches):
    """What touches in all that a file names does so by its shapes; what does in one of them, or in none, is real."""
    (tmp_path / "arm.urdf").write_text(arm_of_balls(0.65))
    places = {"folded": 'name="j2" value="3.0"', "bent": 'name="j1" value="0.5"'}
    text = "".join(
        f'<group_state name="{name}" group="all"><joint {places[name]}/></group_state>' for name in sorted(states)
    )
    text = f'<robot name="arm"><disable_collisions link1="l2" link2="l3"/>{text}</robot>'
    (tmp_path / "arm.srdf").write_text(text)
    scene = ds.Scene.from_robot(tmp_path / "arm.urdf")
    assert (frozenset({"ball1", "ball4"}) in scene.ignore) == touches
    assert frozenset({"ball1", "ball3"}) in scene.ignore


@pytest.mark.turns(3)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::delassus.DelassusWarning")
@pytest.mark.parametrize("name, n_named, n_more", [("solo12", 12, 4), ("hyq", 42, 4), ("talos", 459, 0)])
def test_robots_stand_as_their_files_say(name, n_named, n_more):
    """Trunks and thighs of solo12 and hyq overlap in every state of their files, arms and legs of talos in none."""
    if name not in example_robot_files():
        pytest.skip("example-robot-data is not installed")
    scene = ds.Scene.from_robot(name, floor=True, keyframe="half_sitting" if name == "talos" else "standing")
    assert len(scene.ignore) == n_named + n_more
    sim = ds.Simulator(scene, dt=1e-3)
    sim.run(0.005)
    assert "floor" in {scene.colliders[k].name for pair in sim.contacts.colliders for k in pair}


ARM = (
    f'<robot name="arm"><link name="base">{INERTIAL}</link><link name="hand">{INERTIAL}'
    '<collision name="palm"><geometry><sphere radius="0.1"/></geometry></collision></link>'
    '<joint name="turn" type="continuous"><parent link="base"/><child link="hand"/><axis xyz="0 0 1"/></joint></robot>'
)


SERVOED = """<mujoco><worldbody><body name="a"><joint name="x" axis="0 1 0"/><geom size=".1" pos="1 0 0"/>
<body name="b" pos="1 0 0"><joint name="y" axis="0 1 0"/><geom size=".1" pos="1 0 0"/></body></body></worldbody>
<actuator><position joint="x" kp="9" kv="1"/><position joint="y" kp="9" kv="1"/></actuator>
<keyframe><key name="home" qpos=".5 .7" qvel="1 -2" ctrl=".4 .8"/></keyframe></mujoco>"""


@pytest.mark.peer
def test_a_scene_starts_from_a_keyframe():
    """Its velocity and its controls, which hold where a step is given none; robots that are added are at rest."""
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(SERVOED)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    scene = ds.Scene.from_robot(SERVOED, keyframe="home")
    with pytest.warns(DeprecationWarning, match="configuration= of .* since 1.1 and goes with 1.3: use keyframe="):
        assert np.array_equal(ds.Scene.from_robot(SERVOED, configuration="home").start, scene.start)
    dt = 1e-6
    for made in (scene, scene.add("other", ds.load(SERVOED)).without("other"), pickle.loads(pickle.dumps(scene))):
        sim = ds.Simulator(made, control="actuators", dt=dt)
        assert sim.q.tolist() == [0.5, 0.7] and sim.v.tolist() == [1.0, -2.0]
        sim.step()
        assert np.abs((sim.v - data.qvel) / dt - data.qacc).max() < 1e3 * dt * np.abs(data.qacc).max()
    both = scene.add("other", ds.load(SERVOED))
    assert both.start_velocity.tolist() == [1, -2, 0, 0] and both.start_controls.tolist() == [0.4, 0.8, 0, 0]
    assert not ds.Simulator(scene, q0=[0.0, 0.0]).v.any()
    with pytest.raises(ds.DelassusError, match=r"start_controls: expected one number for each actuator, \(2,\)"):
        replace(scene, start_controls=[1.0])


def test_scenes_are_edited(tmp_path):
    """Bodies, fixed shapes, robots and colliders are added at a place and taken away again."""
    (tmp_path / "arm.urdf").write_text(ARM)
    first = ds.Scene.from_robot(tmp_path / "arm.urdf", floor=True)
    turned = [0.0, 0.0, np.sin(0.2), np.cos(0.2)]
    second = first.add("crate", ds.contact.Box(0.2, 0.2, 0.2), mass=2.0, at=[1.0, 0.0, 0.1, *turned], friction=0.8)
    second = second.add("shelf", ds.contact.Box(1.0, 1.0, 0.1), at=(0.0, 3.0, 1.0))
    whole = second.add("arm", tmp_path / "arm.urdf", root="fixed", at=[0.0, 2.0, 0.5, *turned])
    whole = whole.add("bumper", ds.contact.Collider("arm/hand", ds.contact.Sphere(0.3)))
    assert first.tree.nv == 7 and whole.tree.nv == 7 + 6 + 1 and whole.start.size == 8 + 7 + 1
    assert first.start[2] == pytest.approx(0.1) and np.array_equal(whole.start[:8], first.start)  # the palm touches
    assert np.allclose(whole.start[8:15], [1.0, 0.0, 0.1, *turned])
    palm = ds.forward_kinematics(whole.tree, whole.start, "arm/hand")
    assert np.allclose(palm[:3, 3], [0.0, 2.0, 0.5]) and palm[0, 0] == pytest.approx(np.cos(0.4))
    assert [c.name for c in whole.colliders] == ["palm", "floor", "crate", "shelf", "arm/palm", "bumper"]
    assert whole.tree.inertias[:, 0, 0].sum() == pytest.approx(2.0 + 2.0 + 1.0)  # the other base is on the world
    tied = whole.attach(ds.Weld("arm/hand", "crate/body")).with_friction(0.1, "arm", "floor")
    assert [c.friction for c in tied.colliders] == [0.5, 0.1, 0.8, 0.5, 0.1, 0.1] and len(tied.loops) == 1
    both = whole.with_material(restitution=0.3).with_material("arm", "crate", friction=0.2, restitution=0.9)
    assert [c.restitution for c in both.colliders] == [0.3, 0.3, 0.9, 0.3, 0.9, 0.9]
    assert [c.friction for c in both.colliders] == [0.5, 0.5, 0.2, 0.5, 0.2, 0.2]
    less = tied.without("arm", "shelf")
    assert list(less.robots) == ["", "crate"] and not less.loops and np.array_equal(less.start, second.start)
    assert [c.name for c in less.colliders] == ["palm", "floor", "crate"]


@pytest.mark.peer
def test_a_second_floor_warns(tmp_path):
    """The file has one already; the ball that starts a metre above stands on it."""
    pytest.importorskip("mujoco")
    (tmp_path / "ball.xml").write_text(
        "<mujoco><worldbody><geom name='ground' type='plane' size='1 1 1'/><body pos='0 0 1'><freejoint/>"
        "<geom size='.1'/></body></worldbody></mujoco>"
    )
    with pytest.warns(ds.DelassusWarning, match="has one already, 'ground'"):
        scene = ds.Scene.from_robot(tmp_path / "ball.xml", floor=True)
    assert scene.start[2] == pytest.approx(0.1)
    assert ds.Scene.from_robot(tmp_path / "ball.xml").start[2] == 1.0
    assert scene.add("second", tmp_path / "ball.xml").start[9] == 1.0  # where its file has it
    text = (tmp_path / "ball.xml").read_text()
    (tmp_path / "flying.xml").write_text(text.replace("<geom name='ground' type='plane' size='1 1 1'/>", ""))
    ramp = ds.contact.HeightField([[0.2, 0.2], [0.2, 0.2]], (4.0, 4.0))
    terrain = ds.Scene.from_robot(tmp_path / "flying.xml", floor=ramp)
    assert terrain.start[2] == pytest.approx(0.3) and terrain.colliders[-1].shape is ramp
    assert repr(terrain).endswith("nq=7, nv=6, colliders=2, loops=0)")
    with pytest.raises(ds.DelassusError, match=r"floor: expected True or False, got 'flat'. Or a HalfSpace or HeightF"):
        ds.Scene.from_robot(tmp_path / "ball.xml", floor="flat")
    with pytest.raises(
        ds.DelassusError, match=r"start: expected finite numbers of shape .2,., got shape .7,.. Pass st"
    ):
        replace(scene, robots=ds.mechanisms.chain(2), colliders=())
    moon = replace(scene, robots=ds.mechanisms.chain(2), colliders=(), start=None, descriptions=None)
    assert moon.start.tolist() == [0.0, 0.0]


ROUNDING = 4 * np.finfo(float).eps
"""Of moments of a dozen tetrahedra, over their size: the worst of 600 meshes is a fifth of it."""


def surface(*boxes):
    """Closed surface of bricks, each (lower corner, upper corner), that do not touch."""
    corners = np.array(list(np.ndindex(2, 2, 2)))
    faces = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    triangles = np.array([t for a, b, c, d in faces for t in ((a, b, c), (a, c, d))])
    points = [low + corners * (np.array(high) - low) for low, high in boxes]
    indices = [triangles + 8 * k for k in range(len(boxes))]
    return np.concatenate(points), np.concatenate(indices)


def test_moments_of_meshes_are_those_of_their_bricks():
    """Hulls and surfaces, turned, moved far away, with each triangle's corners apart, of several pieces and hollow."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        low, size = rng.normal(size=3), rng.uniform(0.1, 2.0, 3)
        R = Rotation.random(rng=rng).as_matrix()
        shift = 10.0 * rng.normal(size=3)
        points, triangles = surface((low, low + size))
        points, box = points @ R.T + shift, ds.contact.Box(*size)
        apart = points[triangles].reshape(-1, 3), np.arange(triangles.size).reshape(-1, 3)
        inertia, scale = R @ np.diag(box.inertia(3.0)) @ R.T, size.max() + np.abs(points).max()
        for given, convex in (((points,), True), ((points, triangles), False), (apart, False)):
            mesh = ds.contact.Mesh(*given, convex=convex)
            assert mesh.volume == pytest.approx(box.volume, rel=ROUNDING * (scale / size.min()) ** 2)
            assert np.allclose(mesh.center_of_mass, R @ (low + 0.5 * size) + shift, atol=ROUNDING * scale)
            assert np.allclose(mesh.inertia(3.0), inertia, atol=ROUNDING * 3.0 * scale * scale / size.min())
    outer, inner = surface(((-1, -1, -1), (1, 1, 1))), surface(((-0.5, -0.5, -0.5), (0.5, 0.5, 0.5)))
    shell = ds.contact.Mesh(np.vstack([outer[0], inner[0]]), np.vstack([outer[1], 8 + inner[1][:, ::-1]]), convex=False)
    assert shell.volume == pytest.approx(7.0) and shell.inertia(7.0)[0, 0] == pytest.approx((8 * 4 - 1 * 1) / 6)
    two = ds.contact.Mesh(*surface(((0, 0, 0), (1, 1, 1)), ((2, 0, 0), (3, 1, 1))), convex=False)
    assert np.allclose(two.inertia(2.0), np.diag([1 / 3, 1 / 3 + 2, 1 / 3 + 2])) and two.volume == pytest.approx(2.0)


def test_volumes_of_shapes_are_those_of_points_in_them():
    """By places on a grid: within 4 %, of which a grid of 64 cells misses 1 %."""
    shapes = ds.contact.Sphere(0.4), ds.contact.Capsule(0.2, 0.4), ds.contact.Cylinder(0.3, 0.7)
    grid = (np.arange(64) + 0.5) / 64 - 0.5
    points = np.stack(np.meshgrid(grid, grid, grid), axis=-1)
    for shape in (*shapes, ds.contact.Box(0.313, 0.531, 0.719), ds.contact.Ellipsoid(0.3, 0.4, 0.45)):
        assert shape.contains(points).mean() == pytest.approx(shape.volume, rel=0.04)


def test_a_stone_of_a_scene_has_its_density_and_its_centre():
    """A mesh whose frame is not at its centre of mass: this one falls straight, whatever turns the stone."""
    points = np.random.default_rng(1).normal(size=(20, 3)) * [0.1, 0.2, 0.3] + [0.5, 0.0, 0.0]
    hull, scene = ds.contact.Mesh(points), ds.Scene(ds.mechanisms.pendulum(1))
    stone = scene.add("stone", hull, density=2500.0, at=(0, 0, 2))
    assert stone.tree.inertias[-1, 0, 0] == pytest.approx(2500.0 * hull.volume)
    same = scene.add("stone", hull, mass=2500.0 * hull.volume, at=(0, 0, 2))
    assert np.array_equal(same.tree.inertias, stone.tree.inertias)
    assert [(c.link, c.shape) for c in stone.colliders] == [("stone/body", hull)]
    brick = scene.add("brick", ds.contact.Box(0.1, 0.2, 0.3), density=1000.0)
    assert brick.tree.inertias[-1, 0, 0] == pytest.approx(6.0)
    momentum = ds.forward_dynamics(stone.tree, stone.start, np.zeros(7), np.zeros(7)).qdd[1:]
    assert np.allclose(momentum, [0, 0, -9.81, 0, 0, 0], atol=1e-12)  # gravity does not turn it


@pytest.mark.parametrize(
    ("mesh", "message"),
    [
        (lambda p, t: ds.contact.Mesh(p, t[1:], convex=False), r"closed surface.* 3 edges"),
        (lambda p, t: ds.contact.Mesh(p, [t[0, ::-1], *t[1:]], convex=False), r"closed surface.* 3 edges"),
        (lambda p, t: ds.contact.Mesh(p, t[:, ::-1], convex=False), "face inwards"),
        (lambda p, t: ds.contact.Mesh(p * [1, 1, 0], t, convex=False), "encloses nothing"),
        (lambda p, t: ds.contact.Mesh(p * [1, 1, 0]), "points in one plane"),
        (lambda p, t: ds.contact.HeightField([[0.0, 0.1], [0.2, 0.3]], (1, 1)), r"closed surface.* 4 edges"),
    ],
)
def test_meshes_that_enclose_no_volume(mesh, message):
    """They have no mass; the error says why, and what helps."""
    shape = mesh(*surface(((0, 0, 0), (1, 1, 1))))
    for ask in (lambda: shape.volume, lambda: shape.center_of_mass, lambda: shape.inertia(1.0)):
        with pytest.raises(ds.DelassusError, match=message):
            ask()
    with pytest.raises(ds.DelassusError, match=message):
        ds.Scene(ds.mechanisms.pendulum(1)).add("stone", shape, mass=2.0)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda s, x: s.add("b", x, mass=1.0, density=1.0), "density: expected none beside mass"),
        (lambda s, x: s.add("b", x, density=0.0), "density"),
        (lambda s, x: s.add("b", ds.mechanisms.chain(2), density=1.0), "a shape that has an inertia, where density"),
        (lambda s, x: s.add("crate", x, mass=1.0), "one that the scene does not have"),
        (lambda s, x: s.add("b", ds.contact.HalfSpace(), mass=1.0), "a shape that has an inertia"),
        (lambda s, x: s.add("b", ds.mechanisms.chain(2), mass=1.0), "a shape that has an inertia"),
        (lambda s, x: s.add("b", ds.mechanisms.chain(2), restitution=0.5), "restitution"),
        (lambda s, x: s.add("b", ds.contact.Collider("world", x), at=(1, 0, 0)), "says itself where it is"),
        (lambda s, x: s.add("b", x, at=(1, 0)), "shape"),
        (lambda s, x: s.add("b", x, at=(0, 0, 0, 0, 0, 1, 1)), "unit length"),
        (lambda s, x: s.add("b", x, at=np.zeros(7)), "unit length"),
        (lambda s, x: s.without("creat"), "crate"),
        (lambda s, x: s.with_friction(0.5, "creat"), "crate"),
        (lambda s, x: s.with_friction(-1.0), "friction"),
        (lambda s, x: s.with_material("crate"), "friction, restitution or both"),
        (lambda s, x: s.with_material(restitution=1.1), "restitution"),
        (lambda s, x: s.with_material("creat", restitution=0.1), "crate"),
        (lambda s, x: s.without("crate"), "robots"),
        (lambda s, x: replace(s, start=np.zeros(3)), "start"),
    ],
)
def test_edits_that_cannot_be(edit, message):
    """Errors name the argument."""
    box = ds.contact.Box(0.2, 0.2, 0.2)
    scene = ds.Scene(
        {"crate": ds.mechanisms.free_body(1.0, box.inertia(1.0))}, [ds.contact.Collider("crate/body", box)]
    )
    with pytest.raises(ds.DelassusError, match=message):
        edit(scene, box)


@pytest.mark.slow
def test_a_quadruped_trots_over_rough_ground():
    """It is set down until a foot touches, trots on bumps of 6 cm between neighbours, and every step is solved."""
    ready, local = quadruped(generic=True), np.random.default_rng(10)
    field = ds.contact.HeightField(local.uniform(-0.03, 0.03, (60, 60)), (6.0, 6.0))
    ground = ds.contact.Collider("world", field, friction=0.6, name="terrain")
    scene = replace(ready.scene, colliders=(*ready.scene.colliders[:-1], ground))
    q0 = scene.set_down(ready.q0 + 0.5 * (np.arange(scene.tree.nq) == 2))
    detector, poses = ds.contact.CollisionDetector(scene), ds.forward_kinematics(scene.tree, q0)[:, :3]
    assert detector.contacts(poses, 1e-6).depths.max() == pytest.approx(0.0, abs=1e-8)
    steps = ds.Simulator(scene, q0=q0, v0=ready.v0, dt=ready.dt)
    steps.run(1.0, ready.controller)
    assert ds.forward_kinematics(scene.tree, steps.q, "trunk")[2, 2] > 0.98 and steps.q[2] > 0.25
    assert steps.statuses[SolverStatus.CONVERGED] == sum(steps.statuses.values())
    with pytest.raises(ds.DelassusError, match="colliders of the world below the robot"):
        scene.set_down(ready.q0 + 2000.0 * (np.arange(scene.tree.nq) == 2))
