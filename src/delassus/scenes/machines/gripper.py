"""A gripper on three slides that stacks blocks, which friction alone holds between its two fingers."""

import numpy as np
from numpy.typing import NDArray

import delassus as ds
from delassus.contact import Box, HalfSpace
from delassus.scenes.ready import ReadyScene, urdf_of

MACHINE = """
bridge world  | prismatic x             | 0 0 0.4    | seen box 0.06 0.7 0.04  | 0 0 0.20  | 4   | .25 .35 .55
cart   bridge | prismatic y             | 0 0 0      | seen box 0.10 0.1 0.06  | 0 0 0.20  | 2   | .80 .80 .82
hand   cart   | prismatic z             | 0 0 0      | seen box 0.04 0.04 0.60 | 0 0 0.30  | 1   | .80 .80 .82
palm   hand   | fixed                   | 0 0 0      | box 0.05 0.14 0.02      | 0 0 0     | 0.2 | .30 .30 .32
left   hand   | prismatic y -0.05 0.005 | 0 0.05 0   | box 0.03 0.012 0.1      | 0 0 -0.06 | 0.1 | .90 .45 .15
right  hand   | prismatic y -0.005 0.05 | 0 -0.05 0  | box 0.03 0.012 0.1      | 0 0 -0.06 | 0.1 | .90 .45 .15
"""
BLOCKS = {"base": (0.15, 0.0), "second": (-0.1, -0.12), "third": (-0.1, 0.12)}


def gripper() -> ReadyScene:
    """Gripper of two fingers that puts two blocks of 0.2 kg on a third one.

    Examples
    --------
    >>> gripper().scene.tree.nv
    23
    """
    side, grip, friction = 0.06, 15.0, 0.8  # of a block (m), force that closes a finger (N), of all surfaces
    high, reach, stage = 0.34, 0.08, 0.3  # of the hand on its way, above a block that it holds (m); time of a move (s)
    scene = ds.Scene.from_robot(urdf_of("gripper", MACHINE), root="fixed", friction=friction)
    scene = scene.add("floor", HalfSpace(), friction=friction).attach(ds.JointRows({"left": 1.0, "right": 1.0}))
    places, grips = [(0.0, 0.0, high)], [-1]
    (bx, by), put = BLOCKS["base"], side / 2 + reach + 0.001
    for name, (x, y) in BLOCKS.items():
        scene = scene.add(name, Box(side, side, side), mass=0.2, at=(x, y, side / 2), friction=friction)
        if name != "base":
            low, put = side / 2 + reach, put + side
            places += [(x, y, z) for z in (high, low, low, high)] + [(bx, by, z) for z in (high, put, put, high)]
            grips += [-1, -1, 1, 1, 1, 1, -1, -1]
    tree, times = scene.tree, stage * np.arange(len(places))
    slides, fingers = ([tree.v_index(j).start for j in js] for js in (("bridge", "cart", "hand"), ("left", "right")))
    mass, start = np.array([7.4, 3.4, 1.4]), np.array([0, 0, 0.4])

    def controller(sim: ds.Simulator) -> NDArray[np.float64]:
        tau, wanted = np.zeros(tree.nv), [np.interp(sim.time, times, along) for along in np.transpose(places)] - start
        tau[slides] = mass * (900 * (wanted - sim.q[slides]) - 60 * sim.v[slides] + [0, 0, 9.81])
        closing = grips[min(int(sim.time / stage) + 1, len(grips) - 1)]
        tau[fingers] = grip * closing * np.array([-1, 1]) - 5 * sim.v[fingers]
        return tau

    def check(sim: ds.Simulator) -> tuple[bool, str]:
        blocks = np.array([sim.q[scene.q_slice(name)][:3] for name in BLOCKS])
        off = np.abs(blocks - [(bx, by, (k + 0.5) * side) for k in range(len(blocks))]).max()
        return off < 0.01, f"blocks are within {1000 * off:.1f} mm of a stack of three"

    told = "two fingers pick blocks from the floor and stack them"
    return ReadyScene("gripper", scene, scene.start, np.zeros(tree.nv), 1e-3, controller, times[-1] + 0.2, told, check)
