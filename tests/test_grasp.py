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
