"""What is played: a simulation while it is computed, or a recording."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from delassus import Simulator
from delassus.errors import ConfigurationError
from delassus.scenes import ReadyScene
from delassus.simulate import Recording
from delassus.simulate.simulator import Controller
from delassus.spatial.rotations import Array

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
            self.sim.step_by(self._controller)
            self._owed -= self.sim.dt
        self._owed = min(self._owed, self.sim.dt)  # time that could not be kept up with is dropped

    def seek(self, at: float) -> None:
        """Go back to the start: a simulation goes to no other time."""
        self.sim.set_state(self._start)
        self._owed = 0.0


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
