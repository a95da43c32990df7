"""A scene in viser: a frame for each link with its colliders and bones, half spaces as grids, forces as arrows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.contact.scene import Scene
from delassus.contact.shapes import Box, Capsule, Collider, Cylinder, HalfSpace, Mesh, Sphere
from delassus.model.kinematics import world_poses
from delassus.model.rotations import Array, matrix_to_quaternion, rotation_between
from delassus.model.tree import WORLD, Tree, total_mass

COLOURS = ((66, 133, 244), (244, 160, 0), (52, 168, 83), (171, 71, 188), (0, 172, 193), (219, 68, 55))
"""Of links, in turn."""

FIXED_COLOUR, BONE_COLOUR, FORCE_COLOUR, PATH_COLOUR = (170, 170, 175), (90, 95, 105), (220, 30, 30), (30, 30, 200)

BONE, ARROW, LONGEST = 0.008, 0.2, 2.5
"""Radius of bones, and arrow of a force of one weight, as parts of the scene's size; longest arrow, in weights."""


NO_PATHS = np.zeros((0, 0, 3))


class Drawing:
    """Handles of what is drawn; `update` moves it."""

    def __init__(self, server: Any, scene: Scene, q: Array) -> None:
        self._server, self._scene, self._tree = server, scene, scene.tree
        poses = world_poses(scene.tree, q)
        self.centre, self.size = _extent(scene, poses)
        self._weight = max(_typical_mass(scene.tree) * float(np.linalg.norm(scene.gravity)), 1e-9)
        self._links = [server.scene.add_frame(f"/links/{name}", show_axes=False) for name in scene.tree.link_names]
        colliders = list(zip(scene.colliders, scene.links.tolist(), strict=True))
        for number, (collider, link) in enumerate(colliders):
            self._collider(number, collider, link)
        for i, name in enumerate(scene.tree.link_names):  # bones: from a link's joint to its children and colliders
            ends = [self._tree.joints[child].position for child in self._tree.children[i]]
            ends += [collider_pose(scene, c)[1] for c, link in colliders if link == i]
            self._bones(f"/links/{name}", np.zeros(3), ends)
        held = [
            j.position for j, p in zip(self._tree.joints, self._tree.parents, strict=True) if p == WORLD and j.nv < 6
        ]
        if len(held) > 1:  # a torso that is fixed to the world
            self._bones("/world", np.mean(held, axis=0), held)
        self._arrows: Any = None
        self._paths: Any = None
        self._middle: Array = np.mean([p for _, p in poses], axis=0)
        self.update(q, np.zeros((0, 3)), np.zeros((0, 3)), False)

    def _bones(self, parent: str, start: Array, ends: list[Array]) -> None:
        """Rods from one point to others, all in the frame of ``parent``."""
        for k, end in enumerate(ends):
            length = float(np.linalg.norm(end - start))
            if length > 0.005 * self.size:
                self._server.scene.add_cylinder(
                    f"{parent}/bone{k}",
                    radius=BONE * self.size,
                    height=length,
                    color=BONE_COLOUR,
                    position=(start + end) / 2,
                    wxyz=_wxyz(rotation_between(np.array([0.0, 0.0, 1.0]), (end - start) / length)),
                )

    def _collider(self, number: int, collider: Collider, link: int) -> None:
        parent = "/world" if link == WORLD else f"/links/{self._tree.link_names[link]}"
        name = f"{parent}/collider{number}"
        R, p = collider_pose(self._scene, collider)
        shape, target, cell = collider.shape, self._server.scene, _round(self.size / 20)
        colour = FIXED_COLOUR if link == WORLD else COLOURS[link % len(COLOURS)]
        look = {"position": p, "wxyz": _wxyz(R), "color": colour}
        if isinstance(shape, Sphere):
            target.add_icosphere(name, radius=shape.radius, **look)
        elif isinstance(shape, Box):
            target.add_box(name, dimensions=(shape.x, shape.y, shape.z), **look)
        elif isinstance(shape, Cylinder):
            target.add_cylinder(name, radius=shape.radius, height=shape.length, **look)
        elif isinstance(shape, HalfSpace):
            target.add_grid(
                name,
                width=20 * self.size,
                height=20 * self.size,
                cell_size=cell,
                section_size=5 * cell,
                plane_color=(225, 228, 232),
                plane_opacity=0.6,
                position=p,
                wxyz=_wxyz(R),
            )
        else:
            target.add_mesh_simple(name, *_triangles(shape), flat_shading=isinstance(shape, Mesh), **look)

    def update(
        self, q: Array, points: Array, forces: Array, show_forces: bool, paths: Array = NO_PATHS, follow: bool = False
    ) -> None:
        """Move links to a configuration (nq,), arrows to contact points and forces (n, 3), lines to paths (k, T, 3).

        With ``follow``, the camera goes with the middle of all links.
        """
        with self._server.atomic():
            poses = world_poses(self._tree, q)
            for handle, (R, p) in zip(self._links, poses, strict=True):
                handle.wxyz, handle.position = _wxyz(R), p
            if self._arrows is not None:
                self._arrows.remove()
                self._arrows = None
            if show_forces and len(points):
                strength = np.linalg.norm(forces, axis=1, keepdims=True) / self._weight
                arrows = forces / self._weight * np.minimum(1.0, LONGEST / np.maximum(strength, 1e-12))
                self._arrows = self._server.scene.add_arrows(
                    "/contacts",
                    np.stack([points, points + ARROW * self.size * arrows], axis=1).astype(np.float32),
                    FORCE_COLOUR,
                    shaft_radius=0.004 * self.size,
                    head_radius=0.01 * self.size,
                    head_length=0.025 * self.size,
                )
            if self._paths is not None:
                self._paths.remove()
                self._paths = None
            if len(paths):
                pieces = np.stack([paths[:, :-1], paths[:, 1:]], axis=2).reshape(-1, 2, 3)
                self._paths = self._server.scene.add_line_segments(
                    "/paths", pieces.astype(np.float32), PATH_COLOUR, line_width=3.0
                )
        middle = np.mean([p for _, p in poses], axis=0)
        if follow:
            for client in self._server.get_clients().values():
                client.camera.position = client.camera.position + (middle - self._middle)
        self._middle = middle


def collider_pose(scene: Scene, collider: Collider) -> tuple[Array, Array]:
    """Pose of a collider in the body frame of its link, or in the world."""
    if collider.link == "world":
        return collider.rotation, collider.position
    at = scene.tree.placement(collider.link)
    return at.rotation @ collider.rotation, at.position + at.rotation @ collider.position


def _extent(scene: Scene, poses: list[tuple[Array, Array]]) -> tuple[Array, float]:
    """Middle and size (m) of what moves."""
    places = [p for _, p in poses]
    for collider, link in zip(scene.colliders, scene.links.tolist(), strict=True):
        if link != WORLD:
            R, p = poses[link]
            places.append(p + R @ collider_pose(scene, collider)[1])
    low, high = np.min(places, axis=0), np.max(places, axis=0)
    return (low + high) / 2, max(float(np.linalg.norm(high - low)), 0.5)


def _wxyz(R: Array) -> Array:
    return np.roll(matrix_to_quaternion(R), 1)


def _typical_mass(tree: Tree) -> float:
    """Mass (kg) of the lightest robot that moves freely; of everything, if none does."""
    masses: dict[int, float] = {}
    for i in range(tree.n_links):
        root = tree.support(i)[0]
        if tree.joints[root].nv == 6:
            masses[root] = masses.get(root, 0.0) + float(tree.inertias[i][0, 0])
    return min(masses.values(), default=total_mass(tree))


def _round(length: float) -> float:
    """Nearest of 1, 2 and 5 times a power of ten."""
    decade = 10.0 ** np.floor(np.log10(length))
    return float(min((1.0, 2.0, 5.0, 10.0), key=lambda k: abs(k * decade - length)) * decade)


def _triangles(shape: Capsule | Mesh) -> tuple[Array, NDArray[np.int64]]:
    """Vertices (n, 3) and triangles (m, 3)."""
    if isinstance(shape, Mesh) and shape.triangles is not None:
        return shape.vertices, shape.triangles
    import trimesh

    if isinstance(shape, Mesh):
        mesh = trimesh.convex.convex_hull(shape.vertices)
    else:
        mesh = trimesh.creation.capsule(height=shape.length, radius=shape.radius, count=[24, 24])
        mesh.apply_translation((0.0, 0.0, -mesh.bounds[:, 2].mean()))  # its middle is the shape's origin
    return np.asarray(mesh.vertices), np.asarray(mesh.faces)
