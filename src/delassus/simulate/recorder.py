"""`Recorder`: keeps what a simulation does, at a few microseconds a step."""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from delassus.contact.contacts import ContactSet
from delassus.contact.results import SolverStatus
from delassus.contact.scene import Scene
from delassus.errors import ConfigurationError, shown
from delassus.model.rotations import Array
from delassus.runtime.compile import compile as compile_kernel
from delassus.simulate.recording import Origin, Recording

FIRST_SAMPLES = 1024
"""Samples that arrays have room for at first; they double when they are full."""

BLOCK = 256
"""Contact sets that are kept as they come before they are joined into arrays, which costs too much one by one."""


class Run(Protocol):
    """What a recorder follows: a `Simulator`."""

    scene: Scene
    dt: float
    time: float
    steps: int
    seed: int
    q: Array
    v: Array
    contacts: ContactSet
    impulses: Array
    statuses: Counter[SolverStatus]

    @property
    def formulation(self) -> str:
        """Name of the formulation."""

    @property
    def solver(self) -> str:
        """Name of the solver."""


class Recorder:
    """Collects samples of a simulation; ``Simulator.run(…, record=Recorder())`` returns them as a `Recording`.

    A recorder that is passed to a second run of the same simulator goes on where it was.

    Parameters
    ----------
    every : int
        Steps from one sample to the next.
    energy : bool
        Whether the recording has energies. They are computed at the end, all states at once.
    contacts : bool
        Whether the recording has contacts: those of all steps, so that no impact between two samples is lost.

    Raises
    ------
    ConfigurationError
        ``every`` is not a positive whole number.
    """

    def __init__(self, every: int = 1, *, energy: bool = True, contacts: bool = True) -> None:
        if isinstance(every, bool) or not isinstance(every, (int, np.integer)) or every < 1:
            raise ConfigurationError("every", "a whole number of steps from 1 on", shown(every), "1 keeps every step.")
        self.every, self.energy, self.contacts = int(every), bool(energy), bool(contacts)
        self._sim: Run | None = None
        self._last = -1

    def start(self, sim: Run) -> None:
        """Take the first sample, of the state at the start; go on if this simulator was being recorded."""
        if self._sim is sim and self._last == sim.steps:  # the last sample or step is the present
            return
        if self._sim is not None:
            raise ConfigurationError(
                "recorder",
                "a new one, or one that has followed this simulator",
                "one that holds another run",
                "Make a Recorder for each run.",
            )
        tree = sim.scene.tree
        self._sim, self._last, self._first = sim, sim.steps, sim.steps
        self._before = Counter(sim.statuses)
        self._samples, self._touching, self._nq = 0, 0, tree.nq
        self._numbers = np.empty((FIRST_SAMPLES, 1 + tree.nq + tree.nv))
        self._marks = np.empty((FIRST_SAMPLES, 2), np.int64)
        self._waiting: list[tuple[float, ContactSet, Array]] = []
        self._blocks: list[tuple[NDArray[Any], ...]] = []
        self._sample(sim)

    def add(self, sim: Run) -> None:
        """Take a sample after a step, if it is the turn of one."""
        self._last = sim.steps
        n = len(sim.impulses)
        if n and self.contacts:
            self._waiting.append((sim.time, sim.contacts, sim.impulses))  # neither is ever changed by a later step
            self._touching += n
            if len(self._waiting) == BLOCK:
                self._join()
        if (sim.steps - self._first) % self.every:
            return
        if self._samples == len(self._numbers):
            self._numbers, self._marks = _doubled(self._numbers), _doubled(self._marks)
        self._sample(sim)

    def _sample(self, sim: Run) -> None:
        k, nq = self._samples, self._nq
        row, marks = self._numbers[k], self._marks[k]
        row[0], row[1 : 1 + nq], row[1 + nq :] = sim.time, sim.q, sim.v
        marks[0], marks[1] = len(sim.impulses), self._touching
        self._samples = k + 1

    def _join(self) -> None:
        """Turn waiting contacts into arrays: times, links, colliders, points, frames, depths, impulses."""
        if self._waiting:
            times, sets, impulses = zip(*self._waiting, strict=True)
            columns = [
                [getattr(c, name) for c in sets] for name in ("links", "colliders", "points", "frames", "depths")
            ]
            joined = [np.concatenate(column) for column in (*columns, impulses)]
            self._blocks.append((np.repeat(times, [len(r) for r in impulses]), *joined))
            self._waiting = []

    def finish(self, sim: Run) -> Recording:
        """Everything so far.

        Raises
        ------
        ConfigurationError
            Nothing was recorded.
        """
        if self._sim is not sim:
            raise ConfigurationError("recorder", "one that was started", "another one", "Call start(sim) first.")
        scene, nq = sim.scene, self._nq
        self._join()
        if len(self._blocks) > 1:
            self._blocks = [tuple(np.concatenate(parts) for parts in zip(*self._blocks, strict=True))]
        times, links, colliders, points, frames, depths, impulses = self._blocks[0] if self._blocks else NO_CONTACTS
        numbers, marks = self._numbers[: self._samples], self._marks[: self._samples]
        q, v = numbers[:, 1 : 1 + nq].copy(), numbers[:, 1 + nq :].copy()
        kinetic, potential = np.zeros(0), np.zeros(0)
        if self.energy:
            kinetic, potential = compile_kernel(scene.tree, (), "energies", gravity=scene.gravity)(q, v)
        counts = {status.name: count - self._before[status] for status, count in sim.statuses.items()}
        return Recording(
            numbers[:, 0].copy(),
            q,
            v,
            np.array(kinetic),
            np.array(potential),
            marks[:, 0].copy(),
            np.concatenate([[0], marks[:, 1]]),
            times.copy(),
            links.copy(),
            colliders.copy(),
            points.copy(),
            frames[:, :, 2].copy(),
            depths.copy(),
            np.einsum("nij,nj->ni", frames, impulses),
            Origin(
                tuple(scene.tree.link_names),
                tuple(scene.tree.joint_names),
                tuple(c.name for c in scene.colliders),
                tuple(scene.gravity.tolist()),
                scene.tree.fingerprint,
                sim.dt,
                self.every,
                sim.formulation,
                sim.solver,
                sim.seed,
                {name: count for name, count in counts.items() if count},
            ),
            scene,
        )


NO_CONTACTS: tuple[NDArray[Any], ...] = (
    np.zeros(0),
    *(np.zeros((0, 2), np.int64) for _ in range(2)),
    np.zeros((0, 3)),
    np.zeros((0, 3, 3)),
    np.zeros(0),
    np.zeros((0, 3)),
)


def _doubled(array: NDArray[Any]) -> NDArray[Any]:
    longer = np.empty((2 * len(array), *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer
