"""The contact set: where bodies touch, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.errors import ConfigurationError, shown
from delassus.frozen import Frozen
from delassus.model.check import finite_array, real_array
from delassus.spatial.rotations import Array

UNIT = 1e-6
"""By how much a contact frame may miss being a rotation."""


@dataclass(frozen=True, slots=True, init=False, eq=False)
class ContactSet(Frozen):
    """Contacts of one state.

    Contact *i* is between links A = ``links[i, 0]`` and B = ``links[i, 1]``. Its normal points from B to A, so that A
    separates by moving along it ([OS] section 2). Components along its axes are tangent, tangent, normal.

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
    surface_velocities : (n, 2) array_like or float
        Velocity (m/s) of the surface of A over that of B along the tangents, beside that of the links: of belts.
    torsional, rolling : (n,) array_like or float
        Lengths (m) of friction about the normal and about the tangents, see `delassus.contact.Collider`.

    Raises
    ------
    ConfigurationError
        Wrong shapes, entries that are not finite, frames that are no rotations, friction or a length < 0,
        restitution outside [0, 1], or both links the same.

    Examples
    --------
    >>> import numpy as np
    >>> from delassus.contact import ContactSet, frames_of
    >>> up = frames_of(np.array([[0.0, 0.0, 1.0]]))
    >>> touch = ContactSet([[0, -1]], [[0.1, 0.0, 0.0]], up, [1e-4], 0.6, 0.0)
    >>> len(touch), touch.friction.tolist()
    (1, [0.6])
    """

    links: NDArray[np.int64]
    points: Array
    frames: Array
    depths: Array
    friction: Array
    restitution: Array
    colliders: NDArray[np.int64]
    surface_velocities: Array
    torsional: Array
    rolling: Array

    def __init__(
        self,
        links: ArrayLike,
        points: ArrayLike,
        frames: ArrayLike,
        depths: ArrayLike = 0.0,
        friction: ArrayLike = 0.5,
        restitution: ArrayLike = 0.0,
        colliders: ArrayLike = -1,
        surface_velocities: ArrayLike = 0.0,
        *,
        torsional: ArrayLike = 0.0,
        rolling: ArrayLike = 0.0,
    ) -> None:
        pairs = _pairs(links, "links")
        n = len(pairs)
        places, axes = _numbers(points, "points", (n, 3)), _numbers(frames, "frames", (n, 3, 3))
        depth, mu, e = (
            _numbers(value, name, (n,))
            for value, name in ((depths, "depths"), (friction, "friction"), (restitution, "restitution"))
        )
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
        belts = _numbers(surface_velocities, "surface_velocities", (n, 2))
        lengths = [_numbers(x, name, (n,)) for x, name in ((torsional, "torsional"), (rolling, "rolling"))]
        for name, x in zip(("torsional", "rolling"), lengths, strict=True):
            if x.min(initial=0.0) < 0:
                raise ConfigurationError(f"{name} of contacts", "lengths that are not negative", f"{x.min()}", "In m.")
        self._set(pairs, places, axes, depth, mu, e, _pairs(colliders, "colliders", n), belts, *lengths)

    def _set(self, *arrays: NDArray[np.generic]) -> None:
        put = object.__setattr__
        for name, array in zip(ContactSet.__slots__, arrays, strict=True):
            array.setflags(False)  # type: ignore[call-arg]  # not by name: twice as fast
            put(self, name, array)

    @classmethod
    def trusted(cls, *arrays: NDArray[np.generic]) -> ContactSet:
        """Contact set of valid arrays in the order of the attributes; nothing is checked or copied."""
        contacts = cls.__new__(cls)
        contacts._set(*arrays)
        return contacts

    @classmethod
    def empty(cls) -> ContactSet:
        """No contacts."""
        return cls(np.zeros((0, 2)), np.zeros((0, 3)), np.zeros((0, 3, 3)))

    def some(self, which: NDArray[np.bool_]) -> ContactSet:
        """Contacts that a mask (n,) selects."""
        if which.all():
            return self
        return ContactSet.trusted(*(np.ascontiguousarray(getattr(self, name)[which]) for name in self.__slots__))

    def __len__(self) -> int:
        return len(self.links)

    @property
    def normals(self) -> Array:
        """(n, 3), in the world, from B to A."""
        return np.asarray(self.frames[:, :, 2])


def frames_of(normals: ArrayLike) -> Array:
    """Contact frames (n, 3, 3) with given unit normals (n, 3) and tangents of our choice.

    Parameters
    ----------
    normals : (n, 3) or (3,) array_like
        Unit vectors in the world, from the second body to the first.

    Raises
    ------
    ConfigurationError
        Normals that are not of unit length, or not of these shapes.

    Examples
    --------
    >>> import numpy as np
    >>> frames_of(np.array([[0.0, 0.0, 1.0]]))[0, :, 2].tolist()
    [0.0, 0.0, 1.0]
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


def _pairs(value: ArrayLike, name: str, n: int | None = None) -> NDArray[np.int64]:
    """Two whole numbers of each contact (n, 2); where ``n`` is known, one pair or number stands for all."""
    array = real_array(value)
    if array is not None and n is None and array.size in (0, 2):
        array = array.reshape(-1, 2)
    elif array is not None and n is not None and array.shape in ((), (2,)):
        array = np.array(np.broadcast_to(array, (n, 2)))
    whole = array is not None and bool(np.all(np.isfinite(array) & (array == np.floor(array))))
    if array is None or not whole or array.ndim != 2 or array.shape[1] != 2 or n not in (None, len(array)):
        wanted = "two whole numbers for each contact, shape (n, 2)"
        raise ConfigurationError(f"{name} of contacts", wanted, shown(value), "One row for each; −1 is the world.")
    return array.astype(np.int64)


def _numbers(value: ArrayLike, name: str, shape: tuple[int, ...]) -> Array:
    array = real_array(value)
    whole = value if array is None or array.shape else np.broadcast_to(array, shape)
    return finite_array(whole, shape, f"{name} of contacts", "One for each contact.")


def scales_of(contacts: Any) -> Array:
    """Scales of rows of contacts: of relative velocities (n, 3), and of spins where there are patches (n, 6).

    Of `ContactSet` or `ContactArrays`. See `delassus.contact.sparse.spins`: what has no Coulomb friction has no rows of
    tangents as a patch.
    """
    is_patch = (contacts.torsional > 0.0) | (contacts.rolling > 0.0)
    out = np.ones((len(is_patch), 3))
    if not is_patch.any():
        return out
    out[is_patch & (contacts.friction == 0.0), :2] = 0.0
    lengths = np.stack([contacts.rolling, contacts.rolling, contacts.torsional], axis=1)
    return np.hstack([out, lengths / np.where(contacts.friction > 0.0, contacts.friction, 1.0)[:, None]])
