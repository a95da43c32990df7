"""What is played, a simulation while it is computed or a recording, and the thread that plays it."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from delassus import Frame, Simulator, forward_kinematics, frame_jacobian, mass_matrix
from delassus.errors import ConfigurationError
from delassus.scenes import ReadyScene
from delassus.simulate import Recording
from delassus.simulate.simulator import Controller
from delassus.spatial.rotations import Array

STOP_TIME = 5.0
"""Seconds that `Show.stop` waits for the step under way."""

FRAME_TIME = 1.0 / 30.0
"""Between pictures (s)."""

PULL_RATE = 10.0
"""Natural frequency (rad/s) of the spring that drags a body; it is damped critically, as MuJoCo's."""

NO_PATHS = np.zeros((0, 0, 3))


class Instant(NamedTuple):
    """Time (s), configuration (nq,), contact points (n, 3) and mean forces (n, 3) on first links, in the world.

    ``paths`` (k, T, 3) are what a controller plans to go along.
    """

    time: float
    q: Array
    points: Array
    forces: Array
    paths: Array = NO_PATHS


class Grip(NamedTuple):
    """What is pulled: a frame of a robot, which is on a link of the scene, to a target (3,) in the world."""

    robot: str
    frame: Frame
    link: int
    target: Array


def sample(recording: Recording, k: int) -> Instant:
    """Sample ``k`` of a recording, with the contacts of the step that led to it."""
    contacts, at = recording.contacts(k), recording.time[k]
    last = contacts["times"] == at
    forces = contacts["impulses"][last] / recording.origin.dt
    return Instant(float(at), recording.q[k], contacts["points"][last], forces)


class Live:
    """Plays a simulation while it is computed."""

    span = None

    def __init__(self, sim: Simulator, controller: Controller | None) -> None:
        self.sim, self.scene = sim, sim.scene
        self._controller, self._start, self._owed = controller, sim.get_state(), 0.0
        self._grip: Grip | None = None

    def instant(self) -> Instant:
        """The present."""
        sim = self.sim
        forces = np.einsum("nij,nj->ni", sim.contacts.frames, sim.impulses) / sim.dt
        paths = getattr(self._controller, "paths", NO_PATHS)
        return Instant(sim.time, sim.q, sim.contacts.points, forces, paths)

    def advance(self, seconds: float, budget: float) -> None:
        """Go on by a time, or by less if that takes longer than ``budget`` seconds to compute."""
        self._owed += seconds
        stop = time.perf_counter() + budget
        while self._owed >= self.sim.dt and time.perf_counter() < stop:
            self.step()
            self._owed -= self.sim.dt
        self._owed = min(self._owed, self.sim.dt)  # time that could not be kept up with is dropped

    def step(self) -> None:
        """Take one time step."""
        if self._grip is not None:
            self._drag(self._grip)
        self.sim.step_by(self._controller)

    def seek(self, at: float) -> None:
        """Go back to the start: a simulation goes to no other time."""
        self.sim.set_state(self._start)
        self._owed = 0.0

    def put(self, q: Array, v: Array | None = None) -> None:
        """Go on from a configuration (nq,) and velocities (nv,), by default at rest."""
        v = np.zeros(self.scene.tree.nv) if v is None else v
        self.sim.set_state({**self.sim.get_state(), "q": q, "v": v})
        self._owed = 0.0

    def grab(self, link: int, point: Array, target: Array) -> None:
        """Pull a point (3,) of a link, in its frame, to a place (3,) in the world from now on."""
        name, first = self.scene.tree.link_names[link], 0
        for robot, tree in self.scene.robots.items():
            if link < first + tree.n_links:
                own = name.removeprefix(f"{robot}/") if robot else name
                self._grip = Grip(robot, Frame(own, point), link, np.asarray(target))
                return
            first += tree.n_links

    def release(self) -> None:
        """Pull no more."""
        self._grip = None

    @property
    def pulled(self) -> tuple[int, Array, Array] | None:
        """Link, point in its frame and target in the world, of what is pulled."""
        return None if self._grip is None else (self._grip.link, self._grip.frame.position, self._grip.target)

    def _drag(self, grip: Grip) -> None:
        """Change velocities by a step's force ``m (ω² (target − p) − 2 ω ṗ)``, m the mean mass that the point has."""
        scene, sim = self.scene, self.sim
        tree, of_q, of_v = scene.robots[grip.robot], slice(None), slice(None)
        if grip.robot:
            of_q, of_v = scene.q_slice(grip.robot), scene.v_slice(grip.robot)
        q, v = sim.q[of_q], sim.v[of_v]
        J = frame_jacobian(tree, q, grip.frame, reference="local-world-aligned")[:3]
        yields = np.linalg.solve(mass_matrix(tree, q), J.T)
        mobility = float(np.trace(J @ yields)) / 3.0
        if mobility > 0.0:
            away = grip.target - forward_kinematics(tree, q, grip.frame)[:3, 3]
            force = (PULL_RATE**2 * away - 2.0 * PULL_RATE * J @ v) / mobility
            changed = sim.v.copy()
            changed[of_v] += sim.dt * yields @ force
            sim.set_state({**sim.get_state(), "v": changed})


class Replay:
    """Plays a recording, over and over."""

    def __init__(self, recording: Recording) -> None:
        self.recording, self.scene = recording, recording.require_scene()
        self.span = float(recording.time[0]), float(recording.time[-1])
        self._at = self.span[0]

    def instant(self) -> Instant:
        """The sample at the present time."""
        r = self.recording
        return sample(r, min(int(np.searchsorted(r.time, self._at)), len(r) - 1))

    def advance(self, seconds: float, budget: float) -> None:
        """Go on by a time, at the end to the start."""
        self._at = self._at + seconds if self._at < self.span[1] else self.span[0]

    def step(self) -> None:
        """Go to the next sample."""
        times = self.recording.time
        self._at = float(times[min(int(np.searchsorted(times, self._at)) + 1, len(times) - 1)])

    def seek(self, at: float) -> None:
        """Go to the time of the recording that is nearest to ``at``."""
        self._at = float(np.clip(at, *self.span))


def player_of(source: Recording | ReadyScene | Simulator) -> Live | Replay:
    """Player of what a user wants to see; raises `ConfigurationError` if that is nothing that can be seen."""
    if isinstance(source, ReadyScene):
        return Live(source.simulator(), source.controller)
    if isinstance(source, Simulator):
        return Live(source, None)
    if isinstance(source, Recording):
        return Replay(source)
    raise ConfigurationError(
        "source", "a Recording, a ReadyScene or a Simulator", type(source).__name__, "Pass such as pendulum()."
    )


class Show(ABC):
    """Plays one or several in a thread, and shows each instant as a subclass does."""

    def __init__(self, players: Sequence[Live | Replay], playing: bool) -> None:
        self.players = tuple(players)
        self._speed, self._stopped = 1.0, threading.Event()
        self._todo = deque[Callable[[], object]]()  # for the thread that plays
        self.play(playing)
        self._thread = threading.Thread(target=self._loop, name="delassus viewer", daemon=True)
        self._thread.start()

    def play(self, playing: bool = True) -> None:
        """Play, or pause."""
        self._playing = playing

    def step(self) -> None:
        """Pause, and go on by one time step, or to the next sample."""
        self.play(False)
        for player in self.players:
            self._todo.append(player.step)

    def restart(self) -> None:
        """Go to the start."""
        self._seek(-np.inf)

    def _seek(self, at: float) -> None:
        for player in self.players:
            self._todo.append(partial(player.seek, at))

    @abstractmethod
    def _show(self, instants: Sequence[Instant]) -> None:
        """Show what there is now."""

    def _loop(self) -> None:
        last = time.perf_counter()
        while not self._stopped.is_set():
            now = time.perf_counter()
            elapsed, last = min(now - last, 0.1), now
            if self._todo:
                while self._todo:
                    self._todo.popleft()()
            elif self._playing:
                for player in self.players:
                    player.advance(elapsed * self._speed, FRAME_TIME / len(self.players))
            self._show([player.instant() for player in self.players])
            self._stopped.wait(max(0.0, FRAME_TIME - (time.perf_counter() - now)))

    def wait(self) -> None:
        """Show until the thread is interrupted (Ctrl-C)."""
        try:
            while self._thread.is_alive():
                self._thread.join(0.2)
        except KeyboardInterrupt:
            pass

    def stop(self) -> None:
        """End; a step that takes long, such as the first one, which compiles, is not waited for."""
        self._stopped.set()
        self._thread.join(STOP_TIME)
