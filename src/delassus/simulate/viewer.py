"""`view`: a simulation or a recording in the browser, through viser (extra ``[view]``)."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from delassus.contact.scene import Scene
from delassus.errors import ConfigurationError, missing_dependency, shown
from delassus.simulate.drawing import Drawing
from delassus.simulate.players import Player, player_of
from delassus.simulate.recording import Recording
from delassus.simulate.scenes.ready import ReadyScene
from delassus.simulate.simulator import Simulator

STOP_TIME = 5.0
"""Seconds that `Viewer.stop` waits for the step under way."""

FRAME_TIME = 1.0 / 30.0
"""Between pictures (s)."""

SPEEDS = (0.05, 2.0)
"""Slowest and fastest, in seconds of simulation a second."""


class Viewer:
    """Page that shows a scene and lets its viewer play, pause, restart, and change the speed.

    Attributes
    ----------
    url : str
        Address of the page.
    """

    def __init__(self, player: Player, host: str, port: int) -> None:
        try:
            import viser
        except ImportError:
            raise missing_dependency("viser", "view", "the viewer") from None
        self._player = player
        self._server = viser.ViserServer(host=host, port=port, label="delassus", verbose=False)
        self.url = f"http://{'localhost' if host in ('0.0.0.0', '127.0.0.1') else host}:{self._server.get_port()}"
        self._drawing = Drawing(self._server, player.scene, player.instant().q)
        away = self._drawing.size * np.array([0.35, -1.25, 0.4])
        camera = self._server.initial_camera
        camera.look_at, camera.position = tuple(self._drawing.centre), tuple(self._drawing.centre + away)
        self._controls()
        self._stopped = threading.Event()
        self._restart: float | None = None
        self._thread = threading.Thread(target=self._loop, name="delassus viewer", daemon=True)
        self._thread.start()

    def _controls(self) -> None:
        gui, player = self._server.gui, self._player
        self._playing = True
        self._button = gui.add_button("Pause")
        restart = gui.add_button("Restart")
        self._speed = gui.add_slider("Speed", *SPEEDS, step=0.05, initial_value=1.0)
        self._forces = gui.add_checkbox("Contact forces", True)
        self._time: Any = None
        if player.seekable and player.duration > 0:
            self._time = gui.add_slider("Time (s)", 0.0, player.duration, player.duration / 1000, 0.0)
            self._time.on_update(self._moved)
        self._told = gui.add_markdown("")
        self._button.on_click(lambda _: self.play(not self._playing))
        restart.on_click(lambda _: self._go(0.0))

    def _moved(self, event: Any) -> None:
        if event.client is not None:  # by a person, not by the loop below
            self._go(float(self._time.value))

    def _go(self, at: float) -> None:
        self._restart = at

    def play(self, playing: bool = True) -> None:
        """Play, or pause."""
        self._playing = playing
        self._button.label = "Pause" if playing else "Play"

    def _loop(self) -> None:
        last = time.perf_counter()
        told = 0.0
        while not self._stopped.is_set():
            now = time.perf_counter()
            elapsed, last = min(now - last, 0.1), now
            if self._restart is not None:
                self._player.seek(self._restart)
                self._restart = None
            elif self._playing:
                self._player.advance(elapsed * float(self._speed.value), FRAME_TIME)
            instant = self._player.instant()
            self._drawing.update(instant.q, instant.points, instant.forces, bool(self._forces.value))
            if now - told > 0.2:
                told = now
                self._told.content = f"**{instant.time:.2f} s**, {len(instant.points)} contacts"
                if self._time is not None and self._playing:
                    self._time.value = min(instant.time - self._player.start, self._player.duration)
            self._stopped.wait(max(0.0, FRAME_TIME - (time.perf_counter() - now)))

    def wait(self) -> None:
        """Show until the thread is interrupted (Ctrl-C)."""
        try:
            while self._thread.is_alive():
                self._thread.join(0.2)
        except KeyboardInterrupt:
            pass
        finally:
            self.stop()

    def stop(self) -> None:
        """Close the page; a step that takes long, such as the first one, which compiles, is not waited for."""
        self._stopped.set()
        self._thread.join(STOP_TIME)
        self._server.stop()


def view(
    source: Recording | ReadyScene | Simulator,
    *,
    scene: Scene | None = None,
    port: int = 8080,
    host: str = "127.0.0.1",
    block: bool = True,
) -> Viewer:
    """Show a simulation while it is computed, or a recording, in the browser.

    Links are drawn by their colliders and by rods between their joints; contact forces are red arrows, whose length is
    in proportion to the weight of the lightest body that moves freely. The page can play, pause, restart, change the
    speed, and go to any time of a recording.

    Parameters
    ----------
    source : Recording, ReadyScene or Simulator
    scene : Scene, optional
        What was recorded, for a recording that comes from a file.
    port : int
        Of the page; the next free one if it is taken.
    host : str
        Address to listen at: this machine only by default; ``"0.0.0.0"`` for the network.
    block : bool
        Whether to return only when interrupted (Ctrl-C). Otherwise `Viewer.stop` ends it.

    Returns
    -------
    Viewer
        With the page's address as ``url``.

    Raises
    ------
    ConfigurationError
        Nothing that can be shown, or a recording without its scene.
    MissingDependencyError
        The extra ``view`` is not installed.
    """
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
        raise ConfigurationError("port", "a number from 1 to 65535", shown(port), "8080 is usual.")
    viewer = Viewer(player_of(source, scene), host, port)
    if block:
        viewer.wait()
    return viewer
