"""A humanoid whose ankles are driven by cranks and rods: it stands, and pushes a crate."""

import numpy as np
from numpy.typing import NDArray

import delassus as ds
from delassus.contact import Box, Capsule, Collider, HalfSpace, Sphere
from delassus.scenes.ready import ReadyScene, urdf_of

DRIVE = """shin |              |          | seen box 0.04 0.02 0.04  | 0 0 0    | 0.1 | .30 .30 .32
crank shin  | continuous y | 0 0 0    | seen box 0.06 0.01 0.02  | .03 0 0  | 0.2 | .90 .45 .15
cross crank | continuous y | 0.06 0 0 | seen sphere 0.01         | 0 0 0    | .05 | .30 .30 .32
rod cross   | continuous x | 0 0 0    | seen cylinder 0.008 0.38 | 0 0 -.19 | 0.1 | .80 .80 .82"""
PASSIVE = "cross", "rod", "leg5_joint", "leg6_joint"


def humanoid() -> ReadyScene:
    """Humanoid of 100 kg that stands on feet with two rods each, and pushes a crate of 8 kg with both hands.

    Examples
    --------
    >>> humanoid().scene.robots[""].nv
    50
    """
    grey, blue = (0.78, 0.79, 0.8, 1.0), (0.25, 0.35, 0.55, 1.0)
    crate, start, push = Box(0.8, 0.8, 1.6), 0.78, 1.5  # its place at first (m), time in which it is pushed (s)
    tree, loops, drive = ds.mechanisms.humanoid(), [], ds.load(urdf_of("drive", DRIVE))
    shapes = [Collider("torso2", Box(0.2, 0.3, 0.36), (0, 0, 0.2), rgba=blue), Collider("head", Sphere(0.1), rgba=grey)]
    for side in ("left", "right"):
        for own, y in ((f"{side}_outer_", 0.04), (f"{side}_inner_", -0.04)):
            tree = tree.attach(f"{side}_leg4", drive, (0, y, -0.05), prefix=own)
            loops.append(ds.Point(ds.Frame(f"{own}rod", (0, 0, -0.38)), ds.Frame(f"{side}_leg6", (0.06, y, -0.05))))
            shapes.append(Collider(f"{own}rod", Sphere(0.012), (0, 0, -0.38), rgba=blue))
        shapes += [Collider(f"{side}_leg{k}", Capsule(0.05, 0.13), (0, 0, -0.095), rgba=grey) for k in (3, 4, 5)]
        shapes += [Collider(f"{side}_arm{k}", Capsule(0.035, 0.06), (0, 0, -0.05), rgba=grey) for k in range(2, 7)]
        shapes.append(Collider(f"{side}_foot", Box(0.22, 0.1, 0.04), (0.03, 0, -0.02), friction=0.8, rgba=blue))
        shapes.append(Collider(f"{side}_hand", Box(0.08, 0.08, 0.1), (0, 0, -0.05), friction=0.8, rgba=blue))
    scene = ds.Scene(tree, shapes, loops=loops).add("floor", HalfSpace(), friction=0.8)
    scene = scene.add("crate", crate, mass=8, at=(start, 0, crate.z / 2), friction=0.05)
    held = [name for name in tree.joint_names if name.endswith("_joint")]  # all but those of the drives
    driven = [tree.v_index(name).start for name in tree.joint_names[1:] if not name.endswith(PASSIVE)]

    def posture(arm: float) -> NDArray[np.float64]:
        angles = {"leg3": -0.3, "leg4": 0.6, "leg5": -0.3, "arm1": 1.57, "arm2": -arm, "arm3": -1.57, "arm4": arm - 1.5}
        both = {f"{side}_{joint}_joint": x for side in ("left", "right") for joint, x in angles.items()}
        q = tree.configuration({"root_joint": (0, 0, 1.1431, 0, 0, 0, 1), **both})
        return ds.close_loops(scene.tree, loops, [*q, *scene.start[tree.nq :]], hold=held).q

    back, ahead, gains = posture(-0.5), posture(0.4), np.isin(np.arange(scene.tree.nv), driven)

    def controller(sim: ds.Simulator) -> NDArray[np.float64]:
        return np.asarray(back + (ahead - back) * np.clip((sim.time - 0.3) / push, 0, 1))

    def check(sim: ds.Simulator) -> tuple[bool, str]:
        pushed, height = sim.q[scene.q_slice("crate")][0] - start, sim.q[2]
        return pushed > 0.15 and height > 1.1, f"the crate has moved by {pushed:.2f} m, hips are {height:.2f} m up"

    told = "a humanoid with rods at its ankles pushes a crate"
    pd = {"control": "pd", "kp": 2000 * gains, "kd": 60 * gains}
    return ReadyScene("humanoid", scene, back, np.zeros(len(gains)), 2e-3, controller, push + 0.5, told, check, pd)
