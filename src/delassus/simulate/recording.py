"""What a simulation did, as arrays: `Recorder` collects it, `Recording` holds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, get_type_hints

import numpy as np
from numpy.typing import NDArray

from delassus.contact.contacts import ContactSet
from delassus.contact.scene import Scene, check_scene
from delassus.errors import ConfigurationError, shown
from delassus.frozen import Frozen
from delassus.model.check import check_whole, is_whole
from delassus.quantities.keywords import Passive
from delassus.simulate import storage
from delassus.solvers.results import SolverStatus
from delassus.spatial.rotations import Array

KIND = "recording"


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of a recording.

    Attributes
    ----------
    link_names, joint_names : tuple of str
        Of the scene's tree.
    colliders : tuple of str
        Names of the scene's colliders, which contacts refer to.
    gravity : tuple of float
        In m/s².
    fingerprint : str
        Of the scene's tree.
    dt : float
        Time step (s).
    every : int
        Steps from one sample to the next.
    formulation, solver : str
    seed : int
    statuses : mapping of str to int
        Contact problems solved while recording, by how their solution ended.
    """

    link_names: tuple[str, ...]
    joint_names: tuple[str, ...]
    colliders: tuple[str, ...]
    gravity: tuple[float, ...]
    fingerprint: str
    dt: float
    every: int
    formulation: str
    solver: str
    seed: int
    statuses: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Recording(Frozen):
    """Samples of a simulation, the first at its start; immutable.

    Attributes
    ----------
    time : (T,) array
        In s.
    q, v : (T, nq) and (T, nv) arrays
        States at these times.
    tau : (T, nv) array
        Of motors on joints, in the step that led to each sample (N m, N); zero at the start.
    kinetic, potential : (T,) arrays
        Energies (J) at the times of velocities, half a step before places; empty if they were not asked for.
    joint_impulses : (T, 2, nv) array
        Of limits, and of Coulomb friction, on joints in the step that led to each sample (N m s, N s).
    contact_counts : (T,) array of int
        Number of contacts in the step that led to each sample.
    contact_offsets : (T + 1,) array of int
        Entries ``contact_offsets[k]`` to ``contact_offsets[k + 1]`` of the arrays below are contacts of the steps after
        sample k − 1 up to sample k, each in the geometry at its step's start.
    contact_times : (N,) array
        End of the step that a contact belongs to (s).
    contact_links, contact_colliders : (N, 2) arrays of int
        Links A and B (−1: the world), and colliders.
    contact_points, contact_normals : (N, 3) arrays
        In the world; normals from B to A.
    contact_depths : (N,) array
        Overlap in m.
    contact_impulses : (N, 3) array
        On A, in the world, over the step (N s).
    origin : Origin
        Links, time step, formulation, solver, seed.
    scene : Scene or None
        The scene, if known; it is not part of the file.

    Examples
    --------
    >>> from delassus.scenes import pendulum
    >>> recording = pendulum(3).simulator().run(0.01, record=Recorder())
    >>> recording.q.shape, len(recording.contacts(50)["depths"])
    ((101, 3), 0)
    """

    time: Array
    q: Array
    v: Array
    tau: Array
    kinetic: Array
    potential: Array
    joint_impulses: Array
    contact_counts: NDArray[np.int64]
    contact_offsets: NDArray[np.int64]
    contact_times: Array
    contact_links: NDArray[np.int64]
    contact_colliders: NDArray[np.int64]
    contact_points: Array
    contact_normals: Array
    contact_depths: Array
    contact_impulses: Array
    origin: Origin
    scene: Scene | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.time)

    def __repr__(self) -> str:
        o = self.origin
        how = f"{shown(o.formulation)}, {shown(o.solver)}"
        return f"Recording({len(self)} samples over {self.time[-1] - self.time[0]:g} s, {how})"

    @property
    def energy(self) -> Array:
        """(T,) kinetic and potential energy together (J)."""
        return self.kinetic + self.potential

    def contacts(self, sample: int) -> dict[str, NDArray[Any]]:
        """Contacts since the sample before: times, links, colliders, points, normals, depths, impulses; see above."""
        n = len(self)
        if not is_whole(sample, -n) or sample >= n:
            raise ConfigurationError("sample", f"a whole number from {-n} to {n - 1}", shown(sample), "0 is the start.")
        at = range(n)[sample]
        part = slice(self.contact_offsets[at], self.contact_offsets[at + 1])
        names = ("times", "links", "colliders", "points", "normals", "depths", "impulses")
        return {name: getattr(self, f"contact_{name}")[part] for name in names}

    def require_scene(self) -> Scene:
        """The scene, for what needs its geometry; raises `ConfigurationError` if it is not known."""
        if self.scene is None:
            raise ConfigurationError(
                "recording", "one that knows its scene", "none", "Read it with Recording.load(path, scene=…)."
            )
        return self.scene

    def save(self, path: str | Path) -> Path:
        """Write all arrays and the origin to a file: ``.npz``, or ``.h5`` with the extra ``[record]``.

        Raises
        ------
        ConfigurationError
            Another suffix, or a file that cannot be written.
        MissingDependencyError
            HDF5 without h5py.
        """
        return storage.write(path, KIND, {name: getattr(self, name) for name in ARRAYS}, asdict(self.origin))

    @classmethod
    def load(cls, path: str | Path, scene: Scene | None = None) -> Recording:
        """Read a file that `save` wrote, every number as it was.

        Parameters
        ----------
        path : str or Path
        scene : Scene, optional
            What was recorded, for `view` and plots, which need its geometry.

        Raises
        ------
        ConfigurationError
            No such file, one that is no recording or damaged, or one of another scene. HDF5 files of version 1.0, and
            all files before it, are refused: `numpy.load` and h5py read their arrays.
        MissingDependencyError
            HDF5 without h5py.
        """
        if scene is not None:
            check_scene(scene)
        arrays, origin = storage.read(path, KIND, LAYOUT, get_type_hints(Origin))
        told: Any = {name: tuple(v) if isinstance(v, list) else v for name, v in origin.items()}
        recording = cls(**arrays, origin=Origin(**told), scene=scene)
        fault = recording._fault()
        if fault:
            raise ConfigurationError(f"{KIND} {str(path)!r}", "what was recorded", fault, "Record it again.")
        if scene is not None and scene.tree.fingerprint != recording.origin.fingerprint:
            raise ConfigurationError(
                "scene",
                f"the scene that was recorded in {str(path)!r}, of links {shown(recording.origin.link_names[:4])}, …",
                f"another one, of links {shown(scene.tree.link_names[:4])}, …",
                "Build it with the same options.",
            )
        return recording

    def _fault(self) -> str:
        """Description of data that no recorder writes; empty if there are none."""
        o, samples, ends = self.origin, len(self.time), self.contact_offsets
        tree = None if self.scene is None or self.scene.tree.fingerprint != o.fingerprint else self.scene.tree
        spans = np.diff(ends, prepend=0, append=len(self.contact_times))
        found = (
            (not samples or not np.all(np.diff(self.time) > 0), "times that do not increase"),
            (samples and not 0 <= self.time[0] <= self.time[-1] < np.inf, "times that are not those of steps"),
            (len(self.kinetic) not in (0, samples), f"energies of {len(self.kinetic)} of {samples} samples"),
            (len(ends) != samples + 1 or spans[0] or np.any(spans < 0), "contact_offsets that are none"),
            (np.any(self.contact_counts < 0), "negative contact_counts"),
            (_outside(self.contact_links, len(o.link_names)), "contact_links that do not exist"),
            (_outside(self.contact_colliders, len(o.colliders)), "contact_colliders that do not exist"),
            (not 0 < o.dt < np.inf or o.every < 1, f"every {o.every!r} steps of {o.dt!r} s"),
            (len(o.gravity) != 3, f"gravity {shown(o.gravity)}"),
            (tree and (self.q.shape[1], self.v.shape[1]) != (tree.nq, tree.nv), "states of other length"),
        )
        return next((words for fault, words in found if fault), "")


def _outside(indices: NDArray[np.int64], n: int) -> bool:
    return bool(np.any((indices < -1) | (indices >= n)))


LAYOUT = {
    "time": "f8 samples",
    "q": "f8 samples nq",
    "v": "f8 samples nv",
    "tau": "f8 samples nv",
    "kinetic": "f8 energies",
    "potential": "f8 energies",
    "joint_impulses": "f8 samples 2 nv",
    "contact_counts": "i8 samples",
    "contact_offsets": "i8 offsets",
    "contact_times": "f8 contacts",
    "contact_links": "i8 contacts 2",
    "contact_colliders": "i8 contacts 2",
    "contact_points": "f8 contacts 3",
    "contact_normals": "f8 contacts 3",
    "contact_depths": "f8 contacts",
    "contact_impulses": "f8 contacts 3",
}
"""Arrays of a recording, as `storage.read` checks them."""

ARRAYS = tuple(LAYOUT)
"""Names of the arrays of a recording."""


class Run(Protocol):
    """Interface of a `Simulator` for recorders; its arrays are never changed by later steps."""

    scene: Scene
    dt: float
    time: float
    steps: int
    seed: int
    formulation: str
    solver: str
    passive: Passive
    q: Array
    v: Array
    tau: Array

    @property
    def statuses(self) -> Counter[SolverStatus]:
        """Those of `Simulator`."""

    @property
    def contacts(self) -> ContactSet:
        """Those of `Simulator`."""

    @property
    def impulses(self) -> Array:
        """Those of `Simulator`."""

    @property
    def joint_impulses(self) -> Array:
        """Those of `Simulator`."""

    def energy(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Those of `Simulator`, of states (T, nq) and (T, nv)."""


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
        self.every = check_whole("every", every, "1 keeps every step.", least=1)
        self.energy, self.contacts = energy, contacts
        self._sim: Run | None = None
        self._last = -1

    def start(self, sim: Run) -> None:
        """Take the first sample, of the state at the start; go on if this simulator was being recorded."""
        if self._sim is sim and self._last == sim.steps:
            return
        if self._sim is not None:
            raise ConfigurationError(
                "recorder",
                "a new one, or one that has followed this simulator",
                "one that holds another run",
                "Make a Recorder for each run.",
            )
        self._sim, self._first, self._last = sim, sim.steps, sim.steps
        self._before = sim.statuses
        self._samples: list[tuple[float, Array, Array, Array, Array, int, int]] = []
        self._touching: list[tuple[float, ContactSet, Array]] = []
        self._n_touching = 0
        self._sample(sim)

    def add(self, sim: Run) -> None:
        """Take a sample after a step, if it is the turn of one."""
        self._last = sim.steps
        if self.contacts and len(sim.impulses):
            self._touching.append((sim.time, sim.contacts, sim.impulses))
            self._n_touching += len(sim.impulses)
        if (sim.steps - self._first) % self.every == 0:
            self._sample(sim)

    def _sample(self, sim: Run) -> None:
        self._samples.append((sim.time, sim.q, sim.v, sim.tau, sim.joint_impulses, len(sim.impulses), self._n_touching))

    def finish(self, sim: Run) -> Recording:
        """Everything so far.

        Raises
        ------
        ConfigurationError
            Nothing was recorded.
        """
        if self._sim is not sim:
            raise ConfigurationError("recorder", "one that was started", "another one", "Call start(sim) first.")
        scene = sim.scene
        times, qs, vs, forces, on_joints, counts, ends = zip(*self._samples, strict=True)
        q, v = np.array(qs), np.array(vs)
        kinetic, potential = np.zeros(0), np.zeros(0)
        if self.energy:
            kinetic, potential = sim.energy(q, v)
        contact_times, sets, impulses = zip((0.0, ContactSet.empty(), np.zeros((0, 3))), *self._touching, strict=True)
        links, colliders, points, frames, depths = (
            np.concatenate([getattr(contacts, name) for contacts in sets])
            for name in ("links", "colliders", "points", "frames", "depths")
        )
        statuses = {status.name: n for status, n in (sim.statuses - self._before).items()}
        return Recording(
            time=np.array(times),
            q=q,
            v=v,
            tau=np.array(forces),
            kinetic=np.array(kinetic),
            potential=np.array(potential),
            joint_impulses=np.array(on_joints),
            contact_counts=np.array(counts),
            contact_offsets=np.array((0, *ends)),
            contact_times=np.repeat(contact_times, [len(p) for p in impulses]),
            contact_links=links,
            contact_colliders=colliders,
            contact_points=points,
            contact_normals=frames[:, :, 2].copy(),
            contact_depths=depths,
            contact_impulses=np.einsum("nij,nj->ni", frames, np.concatenate(impulses)),
            origin=Origin(
                link_names=tuple(scene.tree.link_names),
                joint_names=tuple(scene.tree.joint_names),
                colliders=tuple(c.name for c in scene.colliders),
                gravity=tuple(scene.gravity.tolist()),
                fingerprint=scene.tree.fingerprint,
                dt=sim.dt,
                every=self.every,
                formulation=sim.formulation,
                solver=sim.solver,
                seed=sim.seed,
                statuses=statuses,
            ),
            scene=scene,
        )


def shown_progress(steps: range) -> Any:
    """The steps, with a progress bar in the terminal."""
    from rich.progress import track

    return track(steps, description="Simulating")
