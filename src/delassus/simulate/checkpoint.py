"""Checkpoints: a simulation is saved and goes on later, elsewhere, to the last bit as if it had not stopped."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from delassus.contact.scene import Scene, check_scene
from delassus.contact.sparse.stepper import IMPULSES, SLEEP
from delassus.errors import ConfigurationError, UnknownNameError, shown
from delassus.model.shapes import Mesh
from delassus.simulate import storage
from delassus.simulate.simulator import Simulator
from delassus.simulate.state import restored

KIND = "checkpoint"

LAYOUT = {
    "q": "f8 nq",
    "v": "f8 nv",
    **dict.fromkeys(IMPULSES, "f8 contacts 3"),
    "joint_impulses": "f8 2 nv",
    "contacts_links": "i8 contacts 2",
    "contacts_points": "f8 contacts 3",
    "contacts_frames": "f8 contacts 3 3",
    "contacts_depths": "f8 contacts",
    "contacts_friction": "f8 contacts",
    "contacts_restitution": "f8 contacts",
    "contacts_colliders": "i8 contacts 2",
    "contacts_surface_velocities": "f8 contacts 2",
    "contacts_torsional": "f8 contacts",
    "contacts_rolling": "f8 contacts",
    **SLEEP,
}
"""Arrays of a checkpoint, as `storage.read` checks them."""

MOVED = {"moved": "f8 moved 7"}
"""Of a scene with bodies that the user moves, too: the poses that they are to have."""

FORM = {
    "tree": str,
    "scene": str,
    "options": {
        **dict.fromkeys(("formulation", "solver", "passive", "control"), str),
        **dict.fromkeys(("dt", "resting", "penetration", "correction", "sleep", "tolerance"), float),
        **dict.fromkeys(("n_directions", "seed", "max_iterations"), int),
        "limits": bool,
        "kp": tuple[float, ...],
        "kd": tuple[float, ...],
    },
    "state": {"steps": int, "rng": dict, "status": str, "statuses": Mapping[str, int]},
}
"""Description of a checkpoint, as `storage.read` checks it: two fingerprints, `Simulator.options`, and the state."""


def save_checkpoint(sim: Simulator, path: str | Path) -> Path:
    """Save the state of a simulation, its options and its random generator.

    Parameters
    ----------
    sim : Simulator
    path : str or Path
        A ``.npz`` file, or a ``.h5`` file with the extra ``[record]``.

    Raises
    ------
    ConfigurationError
        Another suffix, or a file that cannot be written.
    MissingDependencyError
        HDF5 without h5py.
    """
    if not isinstance(sim, Simulator):
        raise ConfigurationError("sim", "a Simulator", shown(sim), "Make one of a scene.")
    state = sim.get_state()
    arrays = {name: value for name, value in state.items() if isinstance(value, np.ndarray)}
    description = {
        "tree": sim.scene.tree.fingerprint,
        "scene": scene_fingerprint(sim.scene),
        "options": sim.options,
        "state": {name: value for name, value in state.items() if name not in arrays},
    }
    return storage.write(path, KIND, arrays, description)


def load_checkpoint(scene: Scene, path: str | Path) -> Simulator:
    """Simulator that goes on from a checkpoint.

    Parameters
    ----------
    scene : Scene
        The scene that was saved, built again; a checkpoint holds its fingerprint, not the scene.
    path : str or Path

    Raises
    ------
    ConfigurationError
        No such file, one that is no checkpoint or damaged, or one of a scene with other links, masses, limits,
        friction, colliders, loops or gravity. HDF5 files of version 1.0, and all files before it, are refused.
    MissingDependencyError
        HDF5 without h5py.

    Examples
    --------
    >>> import tempfile
    >>> from delassus.scenes import pendulum
    >>> ready = pendulum(3)
    >>> sim = ready.simulator()
    >>> sim.run(0.01)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = load_checkpoint(ready.scene, save_checkpoint(sim, f"{folder}/half.npz"))
    >>> again.steps, bool((again.q == sim.q).all())
    (100, True)
    """
    check_scene(scene)
    arrays, description = storage.read(path, KIND, LAYOUT | (MOVED if scene.moved else {}), FORM)
    what = f"{KIND} {str(path)!r}"
    for part, own, differs in (
        ("tree", scene.tree.fingerprint, "links, joints, masses, actuators or gravity"),
        ("scene", scene_fingerprint(scene), "colliders, loops, limits or friction"),
    ):
        if description[part] != own:
            raise ConfigurationError(
                "scene",
                f"the scene of the {what}",
                f"one with other {differs}",
                "Build it with the options of the run that was saved.",
            )
    try:
        return restored(Simulator, scene, description["options"], {**arrays, **description["state"]})
    except (ConfigurationError, UnknownNameError) as error:
        raise ConfigurationError(what, "a simulation that can go on", str(error), "Save it again.") from error


def scene_fingerprint(scene: Scene) -> str:
    """Hash of what a scene is beside its tree: limits and friction of joints, colliders, loops and ignored pairs."""
    digest = hashlib.sha256()
    for joint in scene.tree.joints:
        digest.update(joint.lower.tobytes() + joint.upper.tobytes() + joint.friction.tobytes())
    for c in scene.colliders:
        shape: object = c.shape
        if isinstance(c.shape, Mesh):
            corners = b"" if c.shape.triangles is None else c.shape.triangles.tobytes()
            digest.update(c.shape.vertices.tobytes() + corners)
            shape = (type(c.shape).__name__, c.shape.convex)
        digest.update(repr((c.link, c.name, shape, c.friction, c.restitution)).encode())
        if c.torsional or c.rolling:
            digest.update(repr((c.torsional, c.rolling)).encode())
        digest.update(c.position.tobytes() + c.rotation.tobytes() + c.surface_velocity.tobytes())
    for loop in (*scene.loops, *scene.springs):
        digest.update(loop.fingerprint.encode())
    digest.update(repr((sorted(sorted(pair) for pair in scene.ignore), scene.parents_collide)).encode())
    digest.update(scene.friction_rule.encode())
    if scene.pair_materials:
        own = ((sorted(pair), sorted(x.items())) for pair, x in scene.pair_materials.items())
        digest.update(repr(sorted(own)).encode())
    for name in sorted(scene.moved):
        digest.update(f"moved {name}".encode())
    return digest.hexdigest()
