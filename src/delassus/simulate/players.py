"""What the viewer plays: a simulation as it is computed, or a recording; both show an instant, and start again."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from delassus.contact.scene import Scene
from delassus.errors import ConfigurationError
from delassus.model.rotations import Array
from delassus.simulate.recording import Recording
from delassus.simulate.scenes.ready import ReadyScene
from delassus.simulate.simulator import Controller, Simulator


@dataclass(frozen=True, slots=True, eq=False)
class Instant:
    """What is to be seen at one time.

    Attributes
    ----------
    time : float
        In s.
    q : (nq,) array
    points, forces : (n, 3) arrays
        Contacts in the world (m), and forces there on the first link, averaged over the step (N).
    """

    time: float
    q: Array
    points: Array
    forces: Array


class Player(Protocol):
    """Source of instants."""

    scene: Scene
    start: float
    duration: float
    seekable: bool

    def instant(self) -> Instant:
        """The present."""

    def advance(self, seconds: float, budget: float) -> None:
        """Go on by a time, or by less if that takes longer than ``budget`` seconds to compute."""

    def seek(self, at: float) -> None:
        """Go to a time, if `seekable`; else to the start."""


class Live:
    """Plays a simulation while it is computed."""

    seekable = False

    def __init__(self, sim: Simulator, controller: Controller | None, duration: float) -> None:
        self.sim, self.scene, self.start, self.duration = sim, sim.scene, 0.0, duration
        self._controller, self._before, self._owed = controller, sim.get_state(), 0.0

    def instant(self) -> Instant:
        """See `Player`."""
        sim = self.sim
        n = len(sim.impulses)
        forces = np.einsum("nij,nj->ni", sim.contacts.frames[:n], sim.impulses) / sim.dt
        return Instant(sim.time, sim.q, sim.contacts.points[:n], forces)

    def advance(self, seconds: float, budget: float) -> None:
        """See `Player`."""
        self._owed += seconds
        stop = time.perf_counter() + budget
        while self._owed >= self.sim.dt and time.perf_counter() < stop:
            self.sim.step(None if self._controller is None else self._controller(self.sim))
            self._owed -= self.sim.dt
        self._owed = min(self._owed, self.sim.dt)  # time that could not be kept up with is dropped

    def seek(self, at: float) -> None:
        """Back to the start."""
        self.sim.set_state(self._before)
        self._owed = 0.0


class Replay:
    """Plays a recording, over and over."""

    seekable = True

    def __init__(self, recording: Recording, scene: Scene) -> None:
        self.recording, self.scene = recording, scene
        self.start = float(recording.time[0])
        self.duration = float(recording.time[-1]) - self.start
        self._at = 0.0

    def instant(self) -> Instant:
        """See `Player`."""
        r = self.recording
        k = min(int(np.searchsorted(r.time, self.start + self._at)), len(r) - 1)
        contacts = r.contacts(k)
        n = int(r.contact_counts[k]) if len(contacts["times"]) else 0
        last = slice(len(contacts["times"]) - n, None)
        return Instant(float(r.time[k]), r.q[k], contacts["points"][last], contacts["impulses"][last] / r.origin.dt)

    def advance(self, seconds: float, budget: float) -> None:
        """See `Player`."""
        self._at = self._at + seconds if self._at < self.duration else 0.0

    def seek(self, at: float) -> None:
        """See `Player`."""
        self._at = min(max(at, 0.0), self.duration)


def player_of(source: Recording | ReadyScene | Simulator, scene: Scene | None) -> Player:
    """Player of what a user wants to see; raises `ConfigurationError` if that is nothing that can be seen."""
    if isinstance(source, ReadyScene):
        return Live(source.simulator(), source.controller, source.duration)
    if isinstance(source, Simulator):
        return Live(source, None, np.inf)
    if not isinstance(source, Recording):
        raise ConfigurationError(
            "source", "a Recording, a ReadyScene or a Simulator", type(source).__name__, "Pass such as pendulum()."
        )
    shown = source.scene if scene is None else scene
    if shown is None:
        raise ConfigurationError(
            "scene", "the scene that was recorded", "none", "A file has no geometry: pass scene=pendulum().scene."
        )
    if shown.tree.nq != source.q.shape[1]:
        raise ConfigurationError(
            "scene",
            f"the scene that was recorded, of {source.q.shape[1]} coordinates",
            f"one of {shown.tree.nq}",
            "Build it with the same options.",
        )
    return Replay(source, shown)
