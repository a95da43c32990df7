"""Pictures and films of Go1: ``python benchmarks/films.py``, beside MuJoCo's with ``--mujoco``.

Pictures a second on one thread, and of films, encoded, without what reading the robot's files takes; and the time of
processors for each, which does not depend on what else runs: two processors make 2000 ms / time pictures a second.
Beside them, MuJoCo's own renderer with the same triangles, by EGL or OSMesa (``MUJOCO_GL``).
"""

import os
import tempfile
import time
import warnings
from argparse import ArgumentParser
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

import delassus as ds
from delassus.cli.tables import environment
from delassus.contact import Scene
from delassus.model.kinematics import world_poses
from delassus.pictures.rendering import Renderer
from delassus.pictures.surfaces import surfaces
from delassus.pictures.video import write_video
from delassus.simulate.recording import Recorder

SIZES = (640, 360), (1280, 720)
AWAY = 1.5 * np.array([0.26, -0.92, 0.29])
"""From Go1 to the camera (m)."""
LEGS = (0.0, 0.8, -1.6)
SECONDS, FPS = 4.0, 30


def fastest(function, n=15):
    """Shortest time (s) of n calls."""
    times = []
    for _ in range(n):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def standing(scene, k=0.0):
    """Go1 while its legs swing."""
    q = scene.neutral()
    q[2], q[7:] = 0.3, np.tile(LEGS, 4) + 0.2 * np.sin(k + np.arange(12))
    return q


def film(scene):
    """Recording of its legs, that nothing computes."""
    recording = ds.Simulator(scene, dt=0.005).run(0.0, record=Recorder())
    t = np.arange(0, SECONDS, 1 / FPS)
    q = np.stack([standing(scene, 6 * x) for x in t])
    return replace(recording, time=t, q=q, v=np.zeros((len(t), scene.tree.nv)))


def by_mujoco(scene, q, size):
    """Time (s) of a picture by MuJoCo, with one lamp, shadows and a floor."""
    os.environ.setdefault("MUJOCO_GL", "egl")
    import mujoco

    spec = mujoco.MjSpec()
    spec.visual.global_.offwidth, spec.visual.global_.offheight = size
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[5, 5, 1])
    spec.worldbody.add_light(pos=[-1, -1, 3], dir=[0.4, 0.4, -1], type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL)
    poses = [*world_poses(scene.tree, q), (np.eye(3), np.zeros(3))]
    for k, s in enumerate(surfaces(scene, q)):
        R, p = poses[s.link]
        if len(s.faces) > 3:
            vertices = s.vertices @ R.T + p
            spec.add_mesh(name=f"{k}", uservert=vertices.ravel(), userface=s.faces.ravel(),
                          inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL)  # fmt: skip
            rgba = [*np.divide(s.colour, 255), 1]
            spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname=f"{k}", rgba=rgba)
    model = spec.compile()
    data, camera = mujoco.MjData(model), mujoco.MjvCamera()
    mujoco.mj_forward(model, data)
    camera.lookat, camera.distance, camera.azimuth, camera.elevation = q[:3], float(np.linalg.norm(AWAY)), 106, -17
    with mujoco.Renderer(model, size[1], size[0]) as renderer:

        def picture():
            renderer.update_scene(data, camera)
            renderer.render()

        picture()
        return fastest(picture)


def filmed(recording, size):
    """Time (s) to film a recording, and that of processors."""
    with tempfile.TemporaryDirectory() as folder:
        start, before = time.perf_counter(), os.times()
        write_video(recording, Path(folder) / "go1.mp4", fps=FPS, size=size)
        return np.array([time.perf_counter() - start, sum(os.times()[:4]) - sum(before[:4])])


def main():
    parser = ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument(
        "--mujoco", action="store_true", help="also MuJoCo's own renderer, by EGL unless MUJOCO_GL says"
    )
    beside = parser.parse_args().mujoco
    print(environment())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the inertia of its base
        scene = Scene.from_robot("go1", floor=True)
    q, recording = standing(scene), film(scene)
    still = replace(recording, time=recording.time[:1], q=recording.q[:1], v=recording.v[:1])
    for size in SIZES:
        make = partial(Renderer(scene, q, *size).picture, q, q[:3], AWAY)
        make()
        picture = fastest(make)
        took, used = (filmed(recording, size) - filmed(still, size)) / (len(recording) - 1)
        print(f"{size[0]} × {size[1]}: {1 / picture:.0f} pictures/s on one thread ({1e3 * picture:.0f} ms); "
              f"films {1 / took:.0f}, {1e3 * used:.0f} ms of processors a picture")  # fmt: skip
        if beside:
            print(f"  MuJoCo: {1 / by_mujoco(scene, q, size):.1f} pictures/s")


if __name__ == "__main__":
    main()
