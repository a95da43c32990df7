"""A hand with twenty actuators closes around a block and holds it, whichever way gravity points."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import delassus as ds

FLEXED = {"J2": 1.2, "J1": 1.4, "THJ4": 0.3, "THJ3": 1.2, "THJ1": 0.5, "THJ0": 0.8, "WRJ1": 0.0}
"""Targets of servos (rad) by the ends of their names, later ones first."""

CLOSING, DT = 1.0, 2e-3
"""Seconds; the block has come to rest on the palm before."""


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore::delassus.errors.DelassusWarning")
def test_a_hand_holds_a_block():
    """Shadow hand's 23 geoms that collide, and the block's; every step of 5 × 1 s and before is solved."""
    pytest.importorskip("mujoco")
    found = find_spec("gymnasium_robotics")
    if found is None:
        pytest.skip("gymnasium_robotics, which has the hand, is not installed")
    path = Path(found.origin).parent / "envs/assets/hand/manipulate_block.xml"
    scene = ds.Scene.from_robot(path)
    tree, block = scene.tree, scene.tree.q_index("object:joint")
    assert len(scene.colliders) == 24
    limits = np.array([actuator.control_range for actuator in tree.actuators])
    closed = np.zeros(len(limits))
    for end, target in FLEXED.items():
        closed[[actuator.name.endswith(end) for actuator in tree.actuators]] = target
    closed = np.clip(closed, *limits.T)
    simulator = ds.Simulator(scene, q0=tree.reference_configurations["qpos0"], dt=DT, control="actuators")
    for part in np.r_[np.zeros(300), np.linspace(0, 1, int(CLOSING / DT)), np.ones(500)]:
        simulator.step(part * closed)
    assert sum(simulator.statuses.values()) == simulator.statuses[ds.contact.SolverStatus.CONVERGED]
    for gravity in ([0, 0, 9.81], [9.81, 0, 0], [-9.81, 0, 0], [0, 9.81, 0], [0, -9.81, 0]):
        turned = ds.Simulator(
            replace(scene, gravity=gravity), q0=simulator.q, v0=simulator.v, dt=DT, control="actuators"
        )
        places = []
        for _ in range(500):
            turned.step(closed)
            places.append(turned.q[block][:3])
        assert np.abs(places - simulator.q[block][:3]).max() < 0.02  # servos yield
        assert np.abs(np.diff(places[-250:], axis=0)).max() < 1e-3 * DT
        assert sum(turned.statuses.values()) == turned.statuses[ds.contact.SolverStatus.CONVERGED]


PADS, MU, WEIGHT, PRESS = (0.02, 0.04, 0.04), 0.5, 0.2 * 9.81, 5.0
"""Edges of two pads (m); friction; weight of what they hold, and force of each pad (N): 40 % of what they can hold."""


def pinched(dt, seconds, press):
    """Height (m) after each step of a rod of 0.2 kg between two pads on slides."""
    slide = "<joint name='{0}' type='prismatic'><parent link='hand'/><child link='{0}'/><axis xyz='{1} 0 0'/></joint>"
    link = "<link name='{0}'><inertial><mass value='0.1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/>"
    pads = "".join((link + "</inertial></link>" + slide).format(*pad) for pad in (("left", 1), ("right", -1)))
    hand = ds.load(f"<robot name='gripper'><link name='hand'/>{pads}</robot>")
    colliders = [
        ds.contact.Collider(f"hand/{x}", ds.contact.Box(*PADS), (s, 0, 0))
        for x, s in (("left", -0.03), ("right", 0.03))
    ]
    scene = ds.Scene({"hand": hand}, colliders).add("rod", ds.contact.Capsule(0.02, 0.1), mass=0.2)
    sim, heights = ds.Simulator(scene.with_material(friction=MU), dt=dt), []
    for _ in range(round(seconds / dt)):
        sim.step([press, press, *np.zeros(6)])
        heights.append(sim.q[4])
    assert set(sim.statuses) == {ds.contact.SolverStatus.CONVERGED}
    return np.array(heights)


CREEP = 1e-9
"""Way (m) in seconds of what friction holds: round-off, 1e-12 as seen, with a margin."""


@pytest.mark.parametrize("dt", [1e-3, 5e-3])
def test_what_is_gripped_does_not_creep(dt):
    """Below 2 μ F nothing moves; above it, the rod falls with the difference, whatever the time step."""
    assert np.abs(pinched(dt, 2.0, PRESS)).max() < CREEP
    falling = pinched(dt, 0.05, 1.5)
    assert falling[-1] == pytest.approx(-0.5 * (9.81 - 2 * MU * 1.5 / 0.2) * 0.05 * (0.05 + dt), rel=1e-6)


@pytest.mark.peer
def test_what_soft_contacts_grip_creeps():
    """MuJoCo's rod in the same grip slides on by more than a millimetre in each second, with both cones."""
    mujoco = pytest.importorskip("mujoco")
    pads = "".join(
        f"<body><joint type='slide' axis='{-s} 0 0'/><geom type='box' size='.01 .02 .02' pos='{0.03 * s} 0 0' mass='.1'"
        f" friction='{MU}'/></body>" for s in (-1, 1)
    )  # fmt: skip
    rod = f"<body><freejoint/><geom type='capsule' size='.02 .05' mass='.2' friction='{MU}'/></body>"
    for cone in ("pyramidal", "elliptic"):
        option = f"<option timestep='.001' cone='{cone}'/>"
        model = mujoco.MjModel.from_xml_string(f"<mujoco>{option}<worldbody>{pads}{rod}</worldbody></mujoco>")
        data, heights = mujoco.MjData(model), []
        data.qfrc_applied[:2] = PRESS
        for _ in range(2000):
            mujoco.mj_step(model, data)
            heights.append(data.qpos[4])
        assert heights[999] - heights[1999] > 1e-3
