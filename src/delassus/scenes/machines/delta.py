"""A Delta robot that picks parts up by suction and puts them down."""

import numpy as np
from numpy.typing import NDArray

import delassus as ds
from delassus.contact import Box, HalfSpace
from delassus.scenes.ready import ReadyScene, urdf_of

HAND = "platform world | floating | 0 0 0 | cylinder 0.05 0.02 | 0 0 0 | 0.4 | .25 .35 .55"
ARM = "\n{arm} world | revolute y -1 1.4 | {x} {y} 0 0 0 {yaw} | seen box 0.2 0.03 0.02 | .1 0 0 | 0.3 | .90 .45 .15"
ROD = """
{rod}cross {arm} | continuous y | 0.2 {y} 0 | seen sphere 0.01         | 0 0 0      | .02 | .30 .30 .32
{rod} {rod}cross | continuous x | 0 0 0     | seen cylinder 0.005 0.45 | 0 0 -0.225 | .04 | .80 .80 .82"""
WAYS = {"a": ((-0.1, -0.1), (-0.1, 0.1)), "b": ((0, -0.12), (0, 0.12)), "c": ((0.1, -0.1), (0.1, 0.1))}


def delta() -> ReadyScene:
    """Delta robot of three motors and six rods, 18 rows of loops, that moves three parts of 0.1 kg.

    Examples
    --------
    >>> len(delta().scene.loops)
    6
    """
    part, floor, low, high = Box(0.04, 0.04, 0.03), -0.5, -0.459, -0.4  # heights of the platform where it picks, goes
    stage, suction = 0.15, 20.0  # time of a move (s), force on a part that the platform touches (N)
    text, loops, motors = HAND, [], ["arm0", "arm1", "arm2"]
    for arm, yaw in zip(motors, 2 * np.pi / 3 * np.arange(3), strict=True):
        c, s = np.cos(yaw), np.sin(yaw)
        text += ARM.format(arm=arm, x=0.2 * c, y=0.2 * s, yaw=yaw)
        for rod, y in ((f"{arm}left", 0.04), (f"{arm}right", -0.04)):
            text, end = text + ROD.format(arm=arm, rod=rod, y=y), (0.05 * c - y * s, 0.05 * s + y * c, 0)
            loops.append(ds.Point(ds.Frame(rod, (0, 0, -0.45)), ds.Frame("platform", end)))
    scene = ds.Scene.from_robot(urdf_of("delta", text), root="fixed", friction=0.8)
    tree, path = scene.tree, [(0.0, 0.0, -0.353)]
    path += [(*xy, z) for way in WAYS.values() for xy in way for z in (high, low, low, high)]
    poses = [tree.configuration({**dict.fromkeys(motors, 0.3), "platform": (*p, 0, 0, 0, 1)}) for p in path]
    stations = ds.close_loops(tree, loops, poses, hold=["platform"]).q
    scene = scene.attach(*loops).add("floor", HalfSpace(), at=(0, 0, floor))
    for name, (xy, _) in WAYS.items():
        scene = scene.add(name, part, mass=0.1, at=(*xy, floor + part.z / 2), friction=0.8)
    q0 = np.concatenate([stations[0], scene.start[tree.nq :]])
    *driven, at = (tree.v_index(name).start for name in (*motors, "platform"))

    def controller(sim: ds.Simulator) -> NDArray[np.float64]:
        q, tau = sim.q, np.zeros(scene.tree.nv)
        wanted = [np.interp(sim.time / stage, np.arange(len(path)), along) for along in stations[:, driven].T]
        tau[driven] = 80 * (wanted - q[driven]) - 2 * sim.v[driven] - 0.6 * np.cos(q[driven])
        for name in WAYS if 2 <= int(sim.time / stage) % 8 <= 5 else ():
            gap = q[at : at + 3] - q[scene.q_slice(name)][:3] - (0, 0, low - floor - part.z / 2)
            tau[[scene.v_slice(name).start + 2, at + 2]] += np.array([suction, -suction]) * (np.linalg.norm(gap) < 0.01)
        return tau

    def check(sim: ds.Simulator) -> tuple[bool, str]:
        off = max(np.hypot(*(sim.q[scene.q_slice(name)][:2] - to)) for name, (_, to) in WAYS.items())
        return off < 0.01, f"parts lie within {1000 * off:.1f} mm of where they are to be"

    told = "a Delta robot picks three parts up by suction and puts them down"
    return ReadyScene("delta", scene, q0, np.zeros(scene.tree.nv), 2e-3, controller, stage * len(path), told, check)
