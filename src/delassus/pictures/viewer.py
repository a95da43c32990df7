"""`view`: a simulation or a recording in the browser, through viser (extra ``[view]``), or in Rerun."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from delassus import Simulator
from delassus.errors import ConfigurationError, require
from delassus.model.check import check_choice, check_flag, check_whole
from delassus.pictures.annotations import PLANE
from delassus.pictures.drawing import LAYERS, Drawing, sphere
from delassus.pictures.exports import RerunDrawing
from delassus.pictures.guard import start_server
from delassus.pictures.players import Instant, Live, Replay, Show, player_of
from delassus.pictures.surfaces import extent, surfaces
from delassus.scenes import ReadyScene
from delassus.simulate import Recording
from delassus.spatial.rotations import Array

SPEEDS = (0.05, 2.0)
"""Slowest and fastest, in seconds of simulation a second."""

OPENING = 0.8
"""Vertical field of view of the camera (rad)."""

AWAY = np.array([0.35, -1.25, 0.45])
"""Direction from what is seen to the camera at the start."""

MARGIN = 1.25
"""How much larger a picture is than what is in it."""

NARROW = 1.3
"""The same once more, where the controls cover half of a narrow page."""

BESIDE = np.array([[0.25, 0.0, 0.0], [0.0, 0.0, -0.9]])
"""How far beside the middle a camera looks, in radii of what is seen: of a wide page and of a narrow one."""

APART = 1.3
"""Distance of worlds that are side by side, in their sizes."""

TOLD_TIME = 0.2
"""Between changes of numbers on the page (s)."""

Source = Recording | ReadyScene | Simulator


class Viewer(Show):
    """Page that shows a scene and lets its viewer play, pause, restart, change the speed, and pull at bodies.

    Attributes
    ----------
    url : str
        Address of the page. In a notebook, a viewer that is the last value of a cell is its page.
    """

    def __init__(
        self, player: Live | Replay | Sequence[Live | Replay], host: str, port: int, playing: bool = True
    ) -> None:
        players = [player] if isinstance(player, Live | Replay) else list(player)
        self._server = start_server(host, port)
        name = "localhost" if host in ("0.0.0.0", "127.0.0.1") else f"[{host}]" if ":" in host else host
        self.url = f"http://{name}:{self._server.get_port()}"
        self._drawings = self._laid_out(players)
        self._told_at = 0.0
        self._controls(players)
        self._server.on_client_connect(self._frame)
        super().__init__(players, playing)

    def _laid_out(self, players: Sequence[Live | Replay]) -> list[Drawing]:
        """Drawings of worlds in a grid, and the camera before them."""
        starts = [player.instant().q for player in players]
        shapes = [surfaces(player.scene, q) for player, q in zip(players, starts, strict=True)]
        balls = [sphere(player.scene, q, seen) for player, q, seen in zip(players, starts, shapes, strict=True)]
        apart = 2.0 * APART * max(radius for _, radius in balls)
        columns = int(np.ceil(np.sqrt(len(players))))
        drawings, low, high = list[Drawing](), np.full(3, np.inf), np.full(3, -np.inf)
        for k, (player, q, (centre, radius)) in enumerate(zip(players, starts, balls, strict=True)):
            offset = apart * np.array([k % columns, -(k // columns), 0.0])
            side = PLANE * extent(player.scene, q)[1] if len(players) == 1 else 0.98 * apart
            low, high = np.minimum(low, centre + offset - radius), np.maximum(high, centre + offset + radius)
            grab = self._grab_of(player, k) if isinstance(player, Live) else None
            drawn = Drawing(self._server, player.scene, q, shapes[k], f"/world{k}", offset, side, grab)
            drawings.append(drawn)
        self._centre = (low + high) / 2
        self._radius = balls[0][1] if len(players) == 1 else float(np.linalg.norm(high - low)) / 2
        camera = self._server.initial_camera
        camera.fov, camera.near, camera.far = OPENING, self._radius / 100, self._radius * 1000
        camera.look_at, camera.position = map(tuple, self._place(16 / 9))
        return drawings

    def _place(self, aspect: float) -> tuple[Array, Array]:
        """What a camera looks at, and where it is, to see everything beside the controls in a page of that shape."""
        half = np.arctan(min(1.0, aspect) * np.tan(OPENING / 2))
        middle = self._centre + BESIDE[int(aspect < 1.0)] * self._radius
        away = MARGIN * (NARROW if aspect < 1.0 else 1.0) * self._radius / np.sin(half)
        return middle, middle + AWAY / np.linalg.norm(AWAY) * away

    def _frame(self, client: Any) -> None:
        """Move the camera of a page before the scene."""
        middle, place = self._place(client.camera.aspect)
        client.camera.position = place
        client.camera.look_at = middle

    def _controls(self, players: Sequence[Live | Replay]) -> None:
        gui, self._play_button = self._server.gui, self._server.gui.add_button("")
        gui.configure_theme(show_logo=False, show_share_button=False)
        self._play_button.on_click(lambda _: self.play(not self._playing))
        actions = {"Step": lambda _: self.step(), "Restart": lambda _: self.restart(), "Screenshot": _screenshot}
        self._buttons = gui.add_button_group("", tuple(actions))
        self._buttons.on_click(lambda event: actions[event.target.value](event))
        self._slider = gui.add_slider("Speed", *SPEEDS, step=0.05, initial_value=1.0)
        self._slider.on_update(self._paced)
        spans = [player.span for player in players if player.span is not None]
        self._time: Any = None
        if len(spans) == len(players) and max(end for _, end in spans) > min(start for start, _ in spans):
            start, end = min(start for start, _ in spans), max(end for _, end in spans)
            self._time = gui.add_slider("Time (s)", start, end, (end - start) / 1000, start)
            self._time.on_update(_by_person(lambda _: self._seek(float(self._time.value))))
        self._told = gui.add_markdown("")
        with gui.add_folder("Show"):
            self._layers = {name: gui.add_checkbox(name, name == LAYERS[0]) for name in LAYERS}
            self._follow = gui.add_checkbox("Follow", False)
            dark = gui.add_checkbox("Dark", False)
            dark.on_update(
                lambda _: gui.configure_theme(show_logo=False, show_share_button=False, dark_mode=bool(dark.value))
            )
        self._joints, self._menus = list[tuple[Live, int, Any]](), list[Any]()
        for k, player in enumerate(players):
            if isinstance(player, Live):
                self._states(player, f"World {k + 1}: " if len(players) > 1 else "")
        if any(isinstance(player, Live) for player in players):
            gui.add_markdown("Ctrl + drag pulls at a body.")

    def _paced(self, _: Any) -> None:
        self._speed = float(self._slider.value)

    def _states(self, player: Live, prefix: str) -> None:
        """Menu of keyframes, and sliders of joints in a folder for each robot, of one world."""
        gui, frames = self._server.gui, dict(keyframes(player))
        if frames:
            menu = gui.add_dropdown(f"{prefix}Keyframe", ("start", *frames))
            self._menus.append(menu)
            menu.on_update(_by_person(lambda _: self._put(player, frames.get(menu.value))))
        for robot, tree in player.scene.robots.items():
            hinges = [
                (joint.name, of_q.start, of_v.start)
                for joint, of_q, of_v in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True)
                if joint.nq == joint.nv == 1
            ]
            if not hinges:
                continue
            first = player.scene.q_slice(robot).start if robot else 0
            with gui.add_folder(f"{prefix}Joints{f' of {robot}' if robot else ''}", expand_by_default=False):
                for name, at, row in hinges:
                    low, high = limits(float(tree.lower[row]), float(tree.upper[row]))
                    value = float(np.clip(player.sim.q[first + at], low, high))
                    slider = gui.add_slider(name, low, high, (high - low) / 1000, value)
                    slider.on_update(_by_person(self._turned(player, first + at, slider)))
                    self._joints.append((player, first + at, slider))

    def _turned(self, player: Live, index: int, slider: Any) -> Callable[[Any], None]:
        def turn(_: Any) -> None:
            value = float(slider.value)

            def put() -> None:
                q = player.sim.q.copy()
                q[index] = value
                player.put(q)

            self.play(False)
            self._todo.append(put)

        return turn

    def _put(self, player: Live, state: tuple[Array, Array] | None) -> None:
        self.play(False)
        self._todo.append(lambda: player.seek(-np.inf) if state is None else player.put(*state))

    def _grab_of(self, player: Live, number: int) -> Callable[[int, Any], None]:
        grabbed: dict[int, Array] = {}

        def grab(link: int, event: Any) -> None:
            drawing = self._drawings[number]
            if event.phase == "start":
                grabbed[link] = drawing.in_link(link, np.array(event.start_position))
            if event.phase == "end":
                grabbed.clear()
                self._todo.append(player.release)
            elif link in grabbed:
                point, target = grabbed[link], np.array(event.end_position) - drawing.offset
                self._todo.append(lambda: player.grab(link, point, target))

        return grab

    def play(self, playing: bool = True) -> None:
        """Play, or pause."""
        super().play(playing)
        self._play_button.label = "Pause" if playing else "Play"

    def _show(self, instants: Sequence[Instant]) -> None:
        shown = [name for name, box in self._layers.items() if box.value]
        for drawing, player, instant in zip(self._drawings, self.players, instants, strict=True):
            before = drawing.middle
            drawing.update(instant, shown, player.pulled if isinstance(player, Live) else None)
            if self._follow.value and drawing is self._drawings[0]:
                for client in self._server.get_clients().values():
                    client.camera.position = client.camera.position + (drawing.middle - before)
        now = time.perf_counter()
        if now - self._told_at > TOLD_TIME:
            self._told_at = now
            self._told.content = f"**{instants[0].time:.2f} s**, {sum(len(i.points) for i in instants)} contacts"
            if self._time is not None and self._playing:
                self._time.value = max(instant.time for instant in instants)
            for player, index, slider in self._joints:
                value = float(np.clip(player.sim.q[index], slider.min, slider.max))
                if abs(value - slider.value) > slider.step:
                    slider.value = value

    def _repr_html_(self) -> str:
        """The page in a notebook."""
        return f'<iframe src="{self.url}" title="delassus" width="100%" height="520" style="border:0"></iframe>'

    def stop(self) -> None:
        """Close the page; a step that takes long, such as the first one, which compiles, is not waited for."""
        super().stop()
        self._server.stop()


class RerunViewer(Show):
    """Rerun's viewer, which shows a simulation while it is computed; ``stop`` ends the simulation."""

    def __init__(self, players: Sequence[Live | Replay], stream: Any) -> None:
        self._drawn = [
            RerunDrawing(stream, player.scene, player.instant().q, f"world{k + 1}" if len(players) > 1 else "world")
            for k, player in enumerate(players)
        ]
        for drawing, player in zip(self._drawn, players, strict=True):
            if isinstance(player, Replay):
                drawing.show_all(player.recording)
        super().__init__(players, True)

    def _show(self, instants: Sequence[Instant]) -> None:
        for drawing, player, instant in zip(self._drawn, self.players, instants, strict=True):
            if isinstance(player, Live):
                drawing.show(instant)


def keyframes(player: Live) -> Iterator[tuple[str, tuple[Array, Array]]]:
    """Names and states of keyframes of all robots; those on a free joint stand on the ground if they are alone."""
    scene, sim = player.scene, player.sim
    for robot, tree in scene.robots.items():
        of_q = scene.q_slice(robot) if robot else slice(0, tree.nq)
        of_v = scene.v_slice(robot) if robot else slice(0, tree.nv)
        for name, frame in tree.keyframes.items():
            q, v = sim.q.copy(), np.zeros(scene.tree.nv)
            q[of_q], v[of_v] = frame.q, frame.v if len(frame.v) == tree.nv else 0.0
            try:
                q = scene.set_down(q)
            except ConfigurationError:
                pass  # several robots, or nothing to stand on
            yield f"{robot}/{name}" if robot else name, (q, v)


def limits(lower: float, upper: float) -> tuple[float, float]:
    """Ends of the slider of a joint: its limits, or a turn (rad, m) where it has none."""
    low = lower if np.isfinite(lower) else -np.pi
    high = upper if np.isfinite(upper) else np.pi
    return (low, high) if low < high else (low - 1e-3, low + 1e-3)


def _by_person(action: Callable[[Any], object]) -> Callable[[Any], None]:
    """An action for changes that a person makes, not the thread that plays."""

    def update(event: Any) -> None:
        if event.client is not None:
            action(event)

    return update


def _screenshot(event: Any) -> None:
    """Download what a page shows."""
    from PIL import Image

    camera, file = event.client.camera, io.BytesIO()
    picture = event.client.get_render(camera.image_height, camera.image_width, transport_format="png")
    Image.fromarray(picture).save(file, "png")
    event.client.send_file_download("delassus.png", file.getvalue())


def view(
    source: Source | Sequence[Source],
    *,
    port: int = 8080,
    host: str = "127.0.0.1",
    block: bool = True,
    backend: Literal["browser", "rerun"] = "browser",
) -> Viewer | RerunViewer:
    """Show a simulation while it is computed, or a recording, in the browser.

    Links look as the files of ``scene.descriptions`` show them, others as their colliders and rods between their
    joints. The page can play, pause, step, restart, change the speed, and follow what moves; show contact forces (red
    arrows, as long as their part of the weight of the lightest body that moves freely), frames of links, ellipsoids of
    their inertia, centres of mass, loops and colliders; take screenshots; go to any time of a recording. In a
    simulation, sliders move joints, a menu has the keyframes, and Ctrl + drag pulls a body by a spring. What a
    controller plans to go along, its ``paths`` (k, T, 3), are lines.

    Parameters
    ----------
    source : Recording, ReadyScene or Simulator, or a list of these
        Those of a list are worlds side by side. A recording from a file needs its scene:
        ``Recording.load(path, scene=…)``.
    port : int
        Of the page; the next free one if it is taken.
    host : str
        Address to listen at: this machine only by default; ``"0.0.0.0"`` for the network, where everybody who can reach
        it may watch and control. Pages other than the viewer's own are refused by the headers Host and Origin.
    block : bool
        Whether to return only when interrupted (Ctrl-C). Otherwise `Viewer.stop` ends it.
    backend : {"browser", "rerun"}
        "rerun" opens Rerun's own viewer (extra ``rerun``), at a port of its own.

    Returns
    -------
    Viewer
        With the page's address as ``url``; Rerun's has none.

    Raises
    ------
    ConfigurationError
        Nothing that can be shown, a recording without its scene, or a host that is no address of this machine.
    MissingDependencyError
        The extra ``view`` or ``rerun`` is not installed, or a viser whose server cannot be guarded.
    """
    check_flag("block", block)
    check_whole("port", port, "8080 is usual.", least=1, most=65535)
    check_choice("backend", backend, ("browser", "rerun"), ConfigurationError)
    several: list[Any] = list(source) if isinstance(source, list | tuple) else [source]
    if not several:
        raise ConfigurationError("source", "something to show", "an empty list", "Pass such as pendulum().")
    players = [player_of(one) for one in several]
    viewer: Viewer | RerunViewer
    if backend == "rerun":
        require("rerun", "rerun", "Rerun's viewer")
        import rerun

        stream = rerun.RecordingStream("delassus")
        stream.spawn()
        viewer = RerunViewer(players, stream)
    else:
        viewer = Viewer(players, host, port)
    if block:
        try:
            viewer.wait()
        finally:
            viewer.stop()
    return viewer
