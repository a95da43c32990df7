"""What the viewer's page shows of a scene: handles of viser, which `Drawing.update` moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from delassus import Scene
from delassus.contact import Collider, HalfSpace
from delassus.model.kinematics import world_poses
from delassus.pictures.annotations import (
    CENTRE_COLOUR,
    FORCE_COLOUR,
    LOOP_COLOUR,
    PATH_COLOUR,
    PULL_COLOUR,
    WHOLE_COLOUR,
    Poses,
    centres,
    collider_surfaces,
    ellipsoids,
    force_arrows,
    loop_lines,
    weight,
)
from delassus.pictures.players import Instant
from delassus.pictures.surfaces import Triangles, extent, rounded
from delassus.spatial.rotations import Array, matrix_to_quaternion

LAYERS = ("Contact forces", "Link frames", "Inertias", "Centres of mass", "Loops", "Colliders")
"""What can be shown or not."""

INSIDE = {"Link frames", "Inertias", "Centres of mass"}
"""Layers for which bodies become clear."""

LARGE = 4.0
"""Fixed shapes that are larger by this factor than what moves, such as terrain, need not be in the first picture."""

CLEAR = 0.35
"""Opacity of bodies where something inside them is shown."""

Grab = Callable[[int, Any], None]
"""What a drag of the mouse on a link calls: its index, and viser's event."""


Place = Callable[[int], str]
"""Node of a link by its index, or of the world."""


class Meshes:
    """Triangles on links, as few nodes as there are different ones: a bin of equal parts is one."""

    def __init__(
        self, server: Any, root: str, name: str, place: Place, shapes: Iterable[Triangles], grab: Grab | None
    ) -> None:
        alike: dict[Any, list[Triangles]] = {}
        for shape in shapes:
            key = (shape.vertices.tobytes(), shape.faces.tobytes(), shape.link < 0)
            alike.setdefault(key, []).append(shape)
        self._batches, self._handles = list[tuple[Any, list[int]]](), list[Any]()
        self._shown, self._opacity = True, 1.0
        for number, group in enumerate(alike.values()):
            first, links = group[0], [shape.link for shape in group]
            if len(group) == 1 or first.link < 0:
                node = f"{place(first.link)}/surface of {name} {number}"
                handle = server.scene.add_mesh_simple(node, first.vertices, first.faces, color=first.colour[:3])
            else:
                handle = server.scene.add_batched_meshes_simple(
                    f"{root}/surfaces of {name} {number}",
                    first.vertices,
                    first.faces,
                    np.tile([1.0, 0.0, 0.0, 0.0], (len(group), 1)),
                    np.zeros((len(group), 3)),
                    batched_colors=np.array([shape.colour[:3] for shape in group], np.uint8),
                    lod="off",
                )
                self._batches.append((handle, links))
            self._handles.append(handle)
            if grab is not None and first.link >= 0:
                self._listen(handle, links, grab)

    def _listen(self, handle: Any, links: list[int], grab: Grab) -> None:
        async def dragged(event: Any) -> None:  # asynchronous ones are called in order
            grab(links[event.instance_index or 0], event)

        handle.on_drag("left", modifier="cmd/ctrl")(dragged)

    def update(self, rotations: Array, positions: Array) -> None:
        """Move what is no child of one link, by quaternions w x y z (n, 4) and positions (n, 3) of all links."""
        for handle, links in self._batches:
            handle.batched_wxyzs, handle.batched_positions = rotations[links], positions[links]

    def show(self, shown: bool, opacity: float) -> None:
        """Show, or hide; less than an opacity of 1 lets see what is inside."""
        if (shown, opacity) != (self._shown, self._opacity):
            self._shown, self._opacity = shown, opacity
            for handle in self._handles:
                handle.visible, handle.opacity = shown, None if opacity == 1.0 else opacity


class Drawing:
    """A scene below a node of the page, which stands at an offset (3,) from the origin."""

    def __init__(
        self, server: Any, scene: Scene, q: Array, shapes: Sequence[Triangles], root: str, offset: Array, side: float,
        grab: Grab | None,
    ) -> None:  # fmt: skip
        self._server, self._scene, self._root, self._offset, self._grab = server, scene, root, offset, grab
        self._size, self._weight = extent(scene, q)[1], weight(scene)
        server.scene.add_frame(root, show_axes=False, position=offset)
        self._links: dict[int, Any] = {}  # those that have nodes of their own
        self._meshes = {"Shapes": Meshes(server, root, "Shapes", self._place, shapes, grab)}
        self._handles: dict[str, Any] = {}
        self._seen: list[tuple[Array, Array]] = []
        for number, collider in enumerate(scene.colliders):
            if isinstance(collider.shape, HalfSpace):
                self._half_space(f"{root}/world/half_space{number}", collider, side)
        free = [i for i in range(scene.tree.n_links) if scene.tree.joints[scene.tree.support(i)[0]].nv == 6]
        self._moving = free or range(scene.tree.n_links)
        self.middle = self._middle(world_poses(scene.tree, q))
        self.update(Instant(0.0, q, np.zeros((0, 3)), np.zeros((0, 3))), ())

    def _middle(self, poses: Poses) -> Array:
        return np.asarray(np.mean([poses[i][1] for i in self._moving], axis=0) + self._offset)

    def _place(self, link: int) -> str:
        if link < 0:
            return f"{self._root}/world"
        place = f"{self._root}/links/{self._scene.tree.link_names[link]}"
        if link not in self._links:
            self._links[link] = self._server.scene.add_frame(place, show_axes=False)
        return place

    @property
    def offset(self) -> Array:
        """Where the scene's origin is (3,)."""
        return self._offset

    def in_link(self, link: int, point: Array) -> Array:
        """A point (3,) of the page in the frame of a link."""
        R, p = self._seen[link]
        return np.asarray(R.T @ (point - self._offset - p))

    def _half_space(self, name: str, collider: Collider, side: float) -> None:
        cell = rounded(max(self._size / 10, side / 200))
        self._server.scene.add_grid(
            name,
            width=side,
            height=side,
            cell_size=cell,
            section_size=5 * cell,
            plane_color=(225, 228, 232),
            plane_opacity=0.6,
            position=collider.position,
            wxyz=_wxyz(collider.rotation),
        )

    def update(self, instant: Instant, shown: Iterable[str], pulled: tuple[int, Array, Array] | None = None) -> None:
        """Move everything to an instant, with the `LAYERS` that are shown, and a line from what is pulled (3,)."""
        layers = set(shown)
        poses = world_poses(self._scene.tree, instant.q)
        with self._server.atomic():
            R, p = np.array([R for R, _ in poses]), np.array([p for _, p in poses])
            rotations, self._seen = _wxyz(R), poses
            self._layers(layers)
            for k, handle in self._links.items():
                handle.wxyz, handle.position = rotations[k], p[k]  # viser sends those that have changed
            for name, meshes in self._meshes.items():
                bodies = "Colliders" if "Colliders" in layers else "Shapes"
                meshes.show(name in layers or name == bodies, CLEAR if layers & INSIDE - {name} else 1.0)
                meshes.update(rotations, p)
            self._axes(rotations, p, "Link frames" in layers)
            self._annotate(instant, poses, layers)
            self._line("pulled", _pulled(pulled, poses), PULL_COLOUR)
        self.middle = self._middle(poses)

    def _layers(self, layers: set[str]) -> None:
        """Make the meshes of layers that are shown for the first time."""
        makes: dict[str, Callable[[], list[Triangles]]] = {
            "Inertias": lambda: ellipsoids(self._scene.tree),
            "Colliders": lambda: collider_surfaces(self._scene),
        }
        for name, make in makes.items():
            if name in layers and name not in self._meshes:
                self._meshes[name] = Meshes(self._server, self._root, name, self._place, make(), self._grab)

    def _axes(self, rotations: Array, positions: Array, shown: bool) -> None:
        if (handle := self._handles.get("axes")) is None:
            if not shown:
                return
            length = 0.08 * self._size
            handle = self._handles["axes"] = self._server.scene.add_batched_axes(
                f"{self._root}/axes", rotations, positions, axes_length=length, axes_radius=length / 20
            )
        handle.batched_wxyzs, handle.batched_positions, handle.visible = rotations, positions, shown

    def _annotate(self, instant: Instant, poses: Poses, layers: set[str]) -> None:
        """Arrows, points and lines, made anew: their number changes."""
        scene, size = self._server.scene, self._size
        arrows = force_arrows(instant.points, instant.forces, self._weight, size)
        thick = {"shaft_radius": 0.004 * size, "head_radius": 0.01 * size, "head_length": 0.025 * size}
        self._again(
            "contacts",
            (lambda name: scene.add_arrows(name, arrows.astype(np.float32), FORCE_COLOUR, **thick))
            if "Contact forces" in layers and len(arrows)
            else None,
        )
        points = centres(self._scene.tree, poses) if "Centres of mass" in layers else np.zeros((0, 3))
        colours = np.array([*[CENTRE_COLOUR] * (len(points) - 1), WHOLE_COLOUR], np.uint8)
        look = {"point_size": 0.012 * size, "point_shape": "circle", "precision": "float32"}
        self._again(
            "centres",
            (lambda name: scene.add_point_cloud(name, points.astype(np.float32), colours, **look))
            if len(points)
            else None,
        )
        loops = loop_lines(self._scene, poses) if "Loops" in layers else np.zeros((0, 2, 3))
        self._line("loops", loops, LOOP_COLOUR)
        paths = instant.paths
        self._line("paths", np.stack([paths[:, :-1], paths[:, 1:]], axis=2).reshape(-1, 2, 3), PATH_COLOUR)

    def _line(self, name: str, ends: Array, colour: tuple[int, int, int]) -> None:
        def add(at: str) -> Any:
            return self._server.scene.add_line_segments(at, ends.astype(np.float32), colour, line_width=3.0)

        self._again(name, add if len(ends) else None)

    def _again(self, name: str, add: Callable[[str], Any] | None) -> None:
        """Remove a node, and make it anew."""
        if (old := self._handles.pop(name, None)) is not None:
            old.remove()
        if add is not None:
            self._handles[name] = add(f"{self._root}/{name}")


def _pulled(pulled: tuple[int, Array, Array] | None, poses: Poses) -> Array:
    if pulled is None:
        return np.zeros((0, 2, 3))
    link, point, target = pulled
    R, p = poses[link]
    return np.array([[p + R @ point, target]])


def sphere(scene: Scene, q: Array, shapes: Iterable[Triangles]) -> tuple[Array, float]:
    """Centre (3,) and radius (m) of a ball around shapes at ``q`` (nq,), but for wide terrain."""
    poses = world_poses(scene.tree, q)
    corners: dict[bool, list[Array]] = {True: [np.array([p for _, p in poses])], False: []}
    for shape in shapes:
        R, p = (np.eye(3), np.zeros(3)) if shape.link < 0 else poses[shape.link]
        corners[shape.link >= 0].append(shape.vertices @ R.T + p)
    moving = np.concatenate(corners[True])
    size = float(np.linalg.norm(np.ptp(moving, axis=0)))
    fixed = [x for x in corners[False] if np.linalg.norm(np.ptp(x, axis=0)) < LARGE * size]
    points = np.concatenate([moving, *fixed])
    centre = (points.min(axis=0) + points.max(axis=0)) / 2
    return centre, max(float(np.linalg.norm(points - centre, axis=1).max()), 1e-3)


def _wxyz(R: Array) -> Array:
    return np.roll(matrix_to_quaternion(R), 1, axis=-1)
