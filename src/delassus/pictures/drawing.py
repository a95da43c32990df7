"""A scene in viser: a frame for each link with its surfaces, half spaces as grids, forces as arrows."""

from __future__ import annotations

from typing import Any

import numpy as np

from delassus import Scene, Tree
from delassus.contact import Collider, HalfSpace
from delassus.model.kinematics import world_poses
from delassus.pictures.surfaces import extent, rounded, surfaces
from delassus.spatial.rotations import Array, matrix_to_quaternion

FORCE_COLOUR, PATH_COLOUR = (220, 30, 30), (30, 30, 200)

ARROW = 0.2
"""Length of the arrow of a force of one weight, as a part of the scene's size."""

LONGEST = 2.5
"""Longest arrow, in weights."""


NO_PATHS = np.zeros((0, 0, 3))


class Drawing:
    """Handles of what is drawn; `update` moves it."""

    def __init__(self, server: Any, scene: Scene, q: Array) -> None:
        self._server, self._scene, self._tree = server, scene, scene.tree
        self.centre, self.size = extent(scene, q)
        self._weight = max(_typical_mass(scene.tree) * float(np.linalg.norm(scene.gravity)), 1e-9)
        self._links = [server.scene.add_frame(f"/links/{name}", show_axes=False) for name in scene.tree.link_names]
        for number, surface in enumerate(surfaces(scene, q)):
            parent = "/world" if surface.link < 0 else f"/links/{scene.tree.link_names[surface.link]}"
            name = f"{parent}/surface{number}"
            server.scene.add_mesh_simple(name, surface.vertices, surface.faces, color=surface.colour)
        for number, collider in enumerate(scene.colliders):
            if isinstance(collider.shape, HalfSpace):
                self._half_space(f"/world/half_space{number}", collider)
        self._arrows: Any = None
        self._paths: Any = None
        self._middle: Array = np.mean([p for _, p in world_poses(scene.tree, q)], axis=0)
        self.update(q, np.zeros((0, 3)), np.zeros((0, 3)), False)

    def _half_space(self, name: str, collider: Collider) -> None:
        cell = rounded(self.size / 20)
        self._server.scene.add_grid(
            name,
            width=20 * self.size,
            height=20 * self.size,
            cell_size=cell,
            section_size=5 * cell,
            plane_color=(225, 228, 232),
            plane_opacity=0.6,
            position=collider.position,
            wxyz=_wxyz(collider.rotation),
        )

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


def _wxyz(R: Array) -> Array:
    return np.roll(matrix_to_quaternion(R), 1)


def _typical_mass(tree: Tree) -> float:
    """Mass (kg) of the lightest robot that moves freely; of everything, if none does."""
    masses: dict[int, float] = {}
    for i in range(tree.n_links):
        root = tree.support(i)[0]
        if tree.joints[root].nv == 6:
            masses[root] = masses.get(root, 0.0) + float(tree.inertias[i][0, 0])
    return min(masses.values(), default=float(tree.inertias[:, 0, 0].sum()))
