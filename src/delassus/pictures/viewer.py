"""`view`: a simulation or a recording in the browser, through viser (extra ``[view]``)."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from delassus import Scene, Simulator, Tree
from delassus.contact import Collider, HalfSpace
from delassus.model.check import check_flag, check_whole
from delassus.model.kinematics import world_poses
from delassus.pictures.guard import start_server
from delassus.pictures.players import NO_PATHS, Live, Replay, player_of
from delassus.pictures.surfaces import extent, rounded, surfaces
from delassus.scenes import ReadyScene
from delassus.simulate import Recording
from delassus.spatial.rotations import Array, matrix_to_quaternion

STOP_TIME = 5.0
"""Seconds that `Viewer.stop` waits for the step under way."""

FRAME_TIME = 1.0 / 30.0
"""Between pictures (s)."""

SPEEDS = (0.05, 2.0)
"""Slowest and fastest, in seconds of simulation a second."""

FORCE_COLOUR, PATH_COLOUR = (220, 30, 30), (30, 30, 200)

ARROW = 0.2
"""Length of the arrow of a force of one weight, as a part of the scene's size."""

LONGEST = 2.5
"""Longest arrow, in weights."""


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


class Viewer:
    """Page that shows a scene and lets its viewer play, pause, restart, and change the speed.

    Attributes
    ----------
    url : str
        Address of the page.
    """

    def __init__(self, player: Live | Replay, host: str, port: int, playing: bool = True) -> None:
        self._player = player
        self._server = start_server(host, port)
        name = "localhost" if host in ("0.0.0.0", "127.0.0.1") else f"[{host}]" if ":" in host else host
        self.url = f"http://{name}:{self._server.get_port()}"
        self._drawing = Drawing(self._server, player.scene, player.instant().q)
        away = self._drawing.size * np.array([0.35, -1.25, 0.4])
        camera = self._server.initial_camera
        camera.look_at, camera.position = tuple(self._drawing.centre), tuple(self._drawing.centre + away)
        self._controls()
        self.play(playing)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="delassus viewer", daemon=True)
        self._thread.start()

    def _controls(self) -> None:
        gui = self._server.gui
        self._wanted: float | None = None  # time to go to, for the thread that plays
        self._button = gui.add_button("")
        self._button.on_click(lambda _: self.play(not self._playing))
        gui.add_button("Restart").on_click(lambda _: self._go(-np.inf))
        self._speed = gui.add_slider("Speed", *SPEEDS, step=0.05, initial_value=1.0)
        self._forces = gui.add_checkbox("Contact forces", True)
        self._follow = gui.add_checkbox("Follow", False)
        self._time: Any = None
        if self._player.span is not None and self._player.span[0] < self._player.span[1]:
            start, end = self._player.span
            self._time = gui.add_slider("Time (s)", start, end, (end - start) / 1000, start)
            self._time.on_update(self._moved)
        self._told = gui.add_markdown("")

    def _moved(self, event: Any) -> None:
        if event.client is not None:  # by a person, not by the loop below
            self._go(float(self._time.value))

    def _go(self, at: float) -> None:
        self._wanted = at

    def play(self, playing: bool = True) -> None:
        """Play, or pause."""
        self._playing = playing
        self._button.label = "Pause" if playing else "Play"

    def _loop(self) -> None:
        last, told = time.perf_counter(), 0.0
        while not self._stopped.is_set():
            now = time.perf_counter()
            elapsed, last = min(now - last, 0.1), now
            if self._wanted is not None:
                self._player.seek(self._wanted)
                self._wanted = None
            elif self._playing:
                self._player.advance(elapsed * float(self._speed.value), FRAME_TIME)
            instant = self._player.instant()
            self._drawing.update(*instant[1:4], bool(self._forces.value), instant.paths, bool(self._follow.value))
            if now - told > 0.2:
                told = now
                self._told.content = f"**{instant.time:.2f} s**, {len(instant.points)} contacts"
                if self._time is not None and self._playing:
                    self._time.value = instant.time
            self._stopped.wait(max(0.0, FRAME_TIME - (time.perf_counter() - now)))

    def wait(self) -> None:
        """Show until the thread is interrupted (Ctrl-C)."""
        try:
            while self._thread.is_alive():
                self._thread.join(0.2)
        except KeyboardInterrupt:
            pass

    def stop(self) -> None:
        """Close the page; a step that takes long, such as the first one, which compiles, is not waited for."""
        self._stopped.set()
        self._thread.join(STOP_TIME)
        self._server.stop()


def view(
    source: Recording | ReadyScene | Simulator, *, port: int = 8080, host: str = "127.0.0.1", block: bool = True
) -> Viewer:
    """Show a simulation while it is computed, or a recording, in the browser.

    Links are drawn by their colliders and by rods between their joints; contact forces are red arrows, whose length is
    in proportion to the weight of the lightest body that moves freely. What a controller plans to go along, its
    ``paths`` (k, T, 3), are lines. The page can play, pause, restart, change the speed, follow what moves, and go to
    any time of a recording.

    Parameters
    ----------
    source : Recording, ReadyScene or Simulator
        A recording from a file needs its scene: ``Recording.load(path, scene=…)``.
    port : int
        Of the page; the next free one if it is taken.
    host : str
        Address to listen at: this machine only by default; ``"0.0.0.0"`` for the network, where everybody who can reach
        it may watch and control. Pages other than the viewer's own are refused by the headers Host and Origin.
    block : bool
        Whether to return only when interrupted (Ctrl-C). Otherwise `Viewer.stop` ends it.

    Returns
    -------
    Viewer
        With the page's address as ``url``.

    Raises
    ------
    ConfigurationError
        Nothing that can be shown, a recording without its scene, or a host that is no address of this machine.
    MissingDependencyError
        The extra ``view`` is not installed, or a viser whose server cannot be guarded.
    """
    check_flag("block", block)
    check_whole("port", port, "8080 is usual.", least=1, most=65535)
    viewer = Viewer(player_of(source), host, port)
    if block:
        try:
            viewer.wait()
        finally:
            viewer.stop()
    return viewer
