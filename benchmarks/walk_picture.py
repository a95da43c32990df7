"""Draw Go1 trotting over steps, as the README shows it: poses of ``delassus simulate mppi --record walk.npz``.

Usage: python benchmarks/walk_picture.py walk.npz walk.png, after
delassus simulate mppi --terrain steps --duration 4 --record walk.npz
"""

import argparse
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
from matplotlib.collections import PolyCollection

from delassus.contact.geometry.meshes import find_mesh, read_mesh
from delassus.contact.shapes import Box
from delassus.interop.load import find_description
from delassus.model.kinematics import world_poses
from delassus.model.rotations import rotation_from_rpy
from delassus.simulate.recording import Recording
from delassus.simulate.scenes import mppi

matplotlib.use("Agg")
import matplotlib.pyplot as plt

POSES = 4
LIGHT = np.array([0.3, -0.7, 0.65])


def meshes(tree):
    """Visual triangles (n, 3, 3) on each link of Go1, in the link's body frame."""
    path, out = find_description("go1"), []
    for link in ElementTree.parse(path).getroot().iter("link"):
        for visual in link.iter("visual"):
            mesh = visual.find("geometry/mesh")
            if mesh is None or link.get("name") not in tree.frames:
                continue
            file = find_mesh(mesh.get("filename"), path, (), "a visual")
            vertices, triangles = read_mesh(file, "a visual")
            origin = visual.find("origin")
            R, p = np.eye(3), np.zeros(3)
            if origin is not None:
                R = rotation_from_rpy([float(x) for x in origin.get("rpy", "0 0 0").split()])
                p = np.array([float(x) for x in origin.get("xyz", "0 0 0").split()])
            at = tree.placement(link.get("name"))
            corners = vertices @ (at.rotation @ R).T + at.rotation @ p + at.position
            out.append((at.link, corners[triangles]))
    return out


def main():
    """Read a recording, draw it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recording", type=Path)
    parser.add_argument("picture", type=Path)
    asked = parser.parse_args()
    scene = mppi("steps").scene
    recording = Recording.load(asked.recording, scene=scene)
    shapes = meshes(scene.tree)
    figure, ax = plt.subplots(figsize=(11, 2.6), dpi=130)
    starts = np.linspace(recording.q[0, 0] + 0.1, recording.q[-1, 0], POSES)
    for number, start in enumerate(starts):
        q = recording.q[int(np.argmin(np.abs(recording.q[:, 0] - start)))]
        poses, faces, depth, shade = world_poses(scene.tree, q), [], [], []
        for link, triangles in shapes:
            R, p = poses[link]
            corners = triangles @ R.T + p
            normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
            length = np.linalg.norm(normal, axis=1)
            light = np.abs(normal @ LIGHT) / np.maximum(length, 1e-12)
            faces.append(corners[:, :, [0, 2]])
            depth.append(-corners[:, :, 1].mean(axis=1))
            shade.append(0.2 + 0.65 * light)
        order = np.argsort(np.concatenate(depth))
        grey = np.concatenate(shade)[order]
        strength = 0.45 + 0.55 * number / (POSES - 1)
        colours = np.column_stack([grey * x + (1 - strength) * (1 - grey * x) for x in (0.55, 0.7, 0.95)])
        drawn = PolyCollection(np.concatenate(faces)[order], facecolors=colours, edgecolors="none", zorder=2 + number)
        ax.add_collection(drawn)
    for collider in scene.colliders:
        if collider.link == "world" and isinstance(collider.shape, Box):
            x, z = collider.position[0] - 0.5 * collider.shape.x, collider.position[2] - 0.5 * collider.shape.z
            ax.add_patch(plt.Rectangle((x, z), collider.shape.x, collider.shape.z, color="#8c8c8c", zorder=1))
    ax.axhspan(-0.05, 0.0, color="#c8c8c8")
    ax.set_xlim(starts[0] - 0.45, starts[-1] + 0.45)
    ax.set_ylim(-0.05, 0.55)
    ax.set_aspect("equal")
    ax.axis("off")
    figure.savefig(asked.picture, bbox_inches="tight", pad_inches=0.02)
    print(asked.picture)


if __name__ == "__main__":
    main()
