"""A door with a spring latch: it stays shut when it is pushed, and opens once the handle is down."""

import numpy as np
from numpy.typing import NDArray

import delassus as ds
from delassus.contact import Box, HalfSpace
from delassus.scenes.ready import ReadyScene, urdf_of

MACHINE = """
door   world | revolute z -1.7 0 1 1  | 0 0 0 0 0 1.5708 | box 0.04 0.9 2.0    | 0 0.45 1 | 15  | .66 .48 .30
latch  door  | prismatic y -0.03 0 20 | 0 0.89 1      | box 0.014 0.06 0.03    | 0 0 0    | 0.2 | .80 .75 .40
handle door  | revolute x 0 0.9 0.05  | -0.07 0.82 1  | box 0.02 0.14 0.02     | 0 -.06 0 | 0.3 | .30 .30 .32
plate  door  | fixed                  | -0.04 0.82 1  | seen box 0.04 0.05 0.2 | 0 0 0    | 0.2 | .30 .30 .32
beam   world | prismatic x            | -0.71 -0.5 1.2 0 0 1.5708 | seen box 0.08 0.08 0.3 | 0 0 .5 | 4 | .25 .35 .55
cross  beam  | prismatic y            | 0 0 0         | seen box 0.06 0.06 0.3 | 0 0 0.3  | 2   | .25 .35 .55
arm    cross | prismatic z            | 0 0 0         | seen box 0.04 0.04 0.4 | 0 0 0.2  | 2   | .80 .80 .82
finger arm   | fixed                  | 0 0 0         | box 0.14 0.03 0.03     | 0 0 0    | 0.3 | .90 .45 .15
"""
TIMES = 0.0, 0.4, 0.8, 1.0, 1.4, 2.0, 3.2
PLACES = (0, 0, 0), (0.38, 0, 0), (0.5, 0, 0), (0.4, 0, 0), (0.4, 0, -0.27), (0.7, 0, -0.27), (1.2, -0.3, -0.27)
"""Where the finger is to be from its start (m): at the door, into it, away, on the handle, through the door."""


def door() -> ReadyScene:
    """Door of 15 kg with a handle that draws its latch, and a finger on three slides that opens it.

    Examples
    --------
    >>> door().scene.tree.nv
    6
    """
    scene = ds.Scene.from_robot(urdf_of("door", MACHINE), root="fixed", friction=0.3)
    scene = scene.add("strike", Box(0.1, 0.02, 0.2), at=(-0.955, 0.02, 1), friction=0.3)
    scene = scene.add("lintel", Box(1.1, 0.1, 0.1), at=(-0.45, 0.05, 2.06)).add("floor", HalfSpace(), at=(0, 0, -0.02))
    draw = ds.JointRows({"latch": 1.0, "handle": 0.03 / 0.9})
    end, hook = ds.Frame("handle", (0, -0.1, 0)), ds.Frame("door", (-0.07, 0.72, 1.2))
    spring = ds.SpringDamper(end, hook, stiffness=200, damping=2, length=0.15)
    scene, tree = scene.attach(draw, spring), scene.tree
    slides, hinge = [tree.v_index(name).start for name in ("beam", "cross", "arm")], tree.v_index("door")

    def controller(sim: ds.Simulator) -> NDArray[np.float64]:
        wanted = [np.interp(sim.time, TIMES, along) for along in zip(*PLACES, strict=True)]
        force, tau = 2000 * (wanted - sim.q[slides]) - 200 * sim.v[slides], np.zeros(tree.nv)
        tau[slides] = np.clip(force, -100, 100) + np.array([0, 0, 9.81 * 2.3])  # of the finger and what it hangs on
        return tau

    def check(sim: ds.Simulator) -> tuple[bool, str]:
        pushed = ready.simulator()
        pushed.run(TIMES[2], controller)
        shut, opened = (-np.degrees(s.q[hinge].item()) for s in (pushed, sim))
        told = f"pushed, the door opens by {shut:.1f}°; with the handle down, by {opened:.0f}°"
        return shut < 1 and opened > 50, told

    told = "a finger pushes at a door, which is shut, pulls down its handle and opens it"
    ready = ReadyScene("door", scene, scene.start, np.zeros(tree.nv), 1e-3, controller, TIMES[-1], told, check)
    return ready
