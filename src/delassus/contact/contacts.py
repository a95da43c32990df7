"""The contact set: where bodies touch, as arrays.

Contact *i* is between links A = ``links[i, 0]`` and B = ``links[i, 1]`` (−1 is the world). Its normal points from B to
A, so that A separates by moving along it ([OS] section 2). Components along a contact's axes are tangent, tangent,
normal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.errors import ConfigurationError, shown
from delassus.frozen import Frozen
from delassus.model.check import finite_array, real_array
from delassus.model.rotations import Array

UNIT = 1e-6
"""By how much a contact frame may miss being a rotation."""


@dataclass(frozen=True, slots=True, init=False, eq=False)
class ContactSet(Frozen):
    """Contacts of one state.

    Parameters
    ----------
    links : (n, 2) array_like of int
        Links A and B in the order of the scene's tree; −1 is the world.
    points : (n, 3) array_like
        Where they touch, in the world (m).
    frames : (n, 3, 3) array_like
        Rotations whose columns are two tangents and the normal, in the world.
    depths : (n,) array_like
        How deep bodies overlap (m); negative: the distance between them.
    friction, restitution : (n,) array_like or float
        ``μ ≥ 0``; ``ε`` from 0 to 1.
    colliders : (n, 2) array_like of int, optional
        Indices of the two colliders in the scene; −1 if there are none.

    Raises
    ------
    ConfigurationError
        Wrong shapes, entries that are not finite, frames that are no rotations, friction < 0, restitution outside
        [0, 1], or both links the same.
    """

    links: NDArray[np.int64]
    points: Array
    frames: Array
    depths: Array
    friction: Array
    restitution: Array
    colliders: NDArray[np.int64]

    def __init__(
        self,
        links: ArrayLike,
        points: ArrayLike,
        frames: ArrayLike,
        depths: ArrayLike = 0.0,
        friction: ArrayLike = 0.5,
        restitution: ArrayLike = 0.0,
        colliders: ArrayLike = -1,
    ) -> None:
        pairs = _whole(links, "links", "two links of each contact, shape (n, 2)")
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            pairs = pairs.reshape(-1, 2) if pairs.size in (0, 2) else _wrong_pairs("links", links)
        n = len(pairs)
        places = _numbers(points, "points", (n, 3))
        axes = _numbers(frames, "frames", (n, 3, 3))
        depth = _numbers(depths, "depths", (n,))
        mu = _numbers(friction, "friction", (n,))
        e = _numbers(restitution, "restitution", (n,))
        if n and (np.abs(axes.mT @ axes - np.eye(3)).max() > UNIT or np.linalg.det(axes).min() < 0):
            raise ConfigurationError(
                "frames of contacts", "rotations", "other matrices", "Columns: two tangents, and the normal."
            )
        if mu.min(initial=0.0) < 0:
            raise ConfigurationError("friction of contacts", "numbers that are not negative", f"{mu.min()}", "Check.")
        if e.min(initial=0.0) < 0 or e.max(initial=0.0) > 1:
            raise ConfigurationError("restitution of contacts", "numbers from 0 to 1", shown(restitution), "Check.")
        if np.any(pairs < -1) or np.any(pairs[:, 0] == pairs[:, 1]):
            raise ConfigurationError("links of contacts", "two links that differ", shown(links), "−1 is the world.")
        bodies = _whole(colliders, "colliders", "numbers of two colliders of each contact, shape (n, 2)")
        if bodies.shape not in ((), (2,), (n, 2)):
            bodies = _wrong_pairs("colliders", colliders)
        bodies = np.array(np.broadcast_to(bodies, (n, 2)))
        self._set(pairs, places, axes, depth, mu, e, bodies)

    def _set(self, *arrays: NDArray[np.generic]) -> None:
        names = ("links", "points", "frames", "depths", "friction", "restitution", "colliders")
        put = object.__setattr__
        for name, array in zip(names, arrays, strict=True):
            array.setflags(False)  # type: ignore[call-arg]  # not by name: twice as fast
            put(self, name, array)

    @classmethod
    def trusted(cls, *arrays: NDArray[np.generic]) -> ContactSet:
        """From arrays that are known to be right, in the order of the attributes; nothing is checked or copied."""
        contacts = cls.__new__(cls)
        contacts._set(*arrays)
        return contacts

    @classmethod
    def empty(cls) -> ContactSet:
        """No contacts."""
        return cls(np.zeros((0, 2)), np.zeros((0, 3)), np.zeros((0, 3, 3)))

    def __len__(self) -> int:
        return len(self.links)

    @property
    def normals(self) -> Array:
        """(n, 3), in the world, from B to A."""
        return np.asarray(self.frames[:, :, 2])


def frames_of(normals: ArrayLike) -> Array:
    """Contact frames (n, 3, 3) with given unit normals (n, 3) and tangents of our choice.

    Raises
    ------
    ConfigurationError
        Normals that are not of unit length.
    """
    given = real_array(normals)
    if given is None or given.ndim not in (1, 2) or (given.size and given.shape[-1] != 3):
        raise ConfigurationError("normals", "unit vectors (n, 3)", shown(normals), "One for each contact.")
    n = given.reshape(-1, 3)
    if not np.all(np.abs(np.linalg.norm(n, axis=1) - 1.0) <= UNIT):
        raise ConfigurationError("normals", "vectors of length 1", shown(normals), "Divide each by its length.")
    smallest = np.argmin(np.abs(n), axis=1)
    first = np.cross(n, np.eye(3)[smallest])
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    return np.stack([first, np.cross(n, first), n], axis=-1)


def _whole(value: ArrayLike, name: str, expected: str) -> NDArray[np.int64]:
    array = real_array(value)
    if array is None or not np.all(np.isfinite(array)) or np.any(array != np.floor(array)):
        raise ConfigurationError(f"{name} of contacts", expected, shown(value), "Whole numbers; −1 is the world.")
    return array.astype(np.int64)


def _wrong_pairs(name: str, value: ArrayLike) -> NoReturn:
    raise ConfigurationError(
        f"{name} of contacts", "two for each contact, shape (n, 2)", shown(value), "One row for each contact."
    )


def _numbers(value: ArrayLike, name: str, shape: tuple[int, ...]) -> Array:
    array = real_array(value)
    whole = value if array is None or array.shape else np.broadcast_to(array, shape)
    return finite_array(whole, shape, f"{name} of contacts", "One for each contact.")
