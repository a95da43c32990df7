"""`CollisionDetector`: contacts of a scene at given poses of its links."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.contact.collision.coal_pairs import CoalPairs
from delassus.contact.collision.colliders import (
    BOX,
    CAPSULE,
    CENTRE,
    HALF,
    HALF_SPACE,
    KIND,
    LINK,
    MOST_POINTS,
    RADIUS,
    SPHERE,
    VERTICES,
    collider_arrays,
)  # fmt: skip
from delassus.contact.collision.filters import may_collide
from delassus.contact.collision.narrow_phase import WRONG, touch, unpack
from delassus.contact.collision.near_pairs import near_pairs
from delassus.contact.contacts import ContactSet
from delassus.contact.scene import Scene
from delassus.errors import ConfigurationError, shown
from delassus.model.check import check_number
from delassus.model.rotations import Array

RELATIVE_TOLERANCE = 1e-9
"""Gap up to which shapes touch, as a part of the size of a scene's colliders, where none is given."""


class CollisionDetector:
    """Finds where colliders of a scene touch.

    A contact's body A is the collider of the lower index, unless that one is on the world: the world is always B.
    Contacts come in the order of their pairs, and of each pair in an order that depends on the poses only.

    Parameters
    ----------
    scene : Scene
    tolerance : float, optional
        Contacts whose bodies overlap, or have a gap of at most this (m), are reported. By default 1e-9 of the median
        radius of the balls around colliders.
    margin : float, optional
        How much nearer than they are (m) shapes may come before near pairs are looked for again; this changes the time
        that a call takes and nothing else. By default that median radius.

    Attributes
    ----------
    pairs : (n_pairs, 2) array of int
        Colliders that may touch, in the order of their contacts: A and B.
    size : float
        Largest distance (m) of a point of a collider that moves from the origin of its link.

    Raises
    ------
    ConfigurationError
        A tolerance or margin that is no finite number of metres ≥ 0 (the margin > 0); a mesh without volume.
    MissingDependencyError
        A package of the extra ``contact`` is missing.

    Examples
    --------
    >>> import numpy as np
    >>> import delassus as ds
    >>> from delassus.contact import Collider, HalfSpace, Scene, Sphere
    >>> ball = ds.mechanisms.free_body(1.0, np.eye(3), name="ball")
    >>> scene = Scene(ball, [Collider("ball", Sphere(0.5)), Collider("world", HalfSpace())])
    >>> pose = np.array([[[1.0, 0, 0, 2], [0, 1, 0, 3], [0, 0, 1, 0.4]]])
    >>> contacts = CollisionDetector(scene).contacts(pose)
    >>> contacts.depths.round(9).tolist(), contacts.points.round(9).tolist(), contacts.normals.tolist()
    ([0.1], [[2.0, 3.0, -0.05]], [[0.0, 0.0, 1.0]])
    """

    def __init__(self, scene: Scene, *, tolerance: float | None = None, margin: float | None = None) -> None:
        if not isinstance(scene, Scene):
            raise ConfigurationError("scene", "a delassus.Scene", shown(scene), "Make one from robots and colliders.")
        self.scene = scene
        self._arrays = collider_arrays(scene)
        shapes = self._arrays.shapes
        finite = shapes[:, RADIUS][np.isfinite(shapes[:, RADIUS])]
        size = float(np.median(finite)) if finite.size else 1.0
        far = np.linalg.norm(self._arrays.local[:, :, 3], axis=1) + np.linalg.norm(shapes[:, CENTRE:HALF], axis=1)
        self.size = float(np.max((far + shapes[:, RADIUS])[shapes[:, LINK] >= 0], initial=0.0))
        gap = RELATIVE_TOLERANCE * size if tolerance is None else tolerance
        self.tolerance = check_number("tolerance", gap, "A length in metres.", above=False)
        self.margin = check_number("margin", size if margin is None else margin, "A length in metres.")
        self.pairs = np.argwhere(np.triu(may_collide(scene)))
        fixed = shapes[self.pairs[:, 0], LINK] < 0  # the world as the second of each pair
        self.pairs[fixed] = self.pairs[fixed][:, ::-1]
        self.pairs.setflags(write=False)
        self._material = np.array([(c.friction, c.restitution) for c in scene.colliders]).reshape(-1, 2)
        self._shape = (scene.tree.n_links, 3, 4)
        self._world = np.zeros_like(self._arrays.local)
        self._before = np.full_like(self._world, np.nan)
        self._others = CoalPairs(scene, self._arrays, self.tolerance)
        # past the wrapper that compiles at the first call
        self._touch, self._unpack = cast(Any, touch).dispatcher(), cast(Any, unpack).dispatcher()
        self._near(np.zeros((0, 2), np.int64))

    def contacts(self, poses: ArrayLike, reach: float = 0.0) -> ContactSet:
        """Contacts at poses ``[R p]`` (n_links, 3, 4) of body frames in the world, such as ``Snapshot.poses``.

        Gaps of up to ``reach`` (m) are contacts too, of negative depth: of all shapes with half spaces, and of spheres
        and capsules.

        Raises
        ------
        ConfigurationError
            Poses of another shape, or not finite; names the link.
        """
        try:
            at = np.ascontiguousarray(poses, dtype=np.float64)
        except Exception as error:  # an object's own conversion may raise anything
            raise ConfigurationError("poses", "numbers", shown(poses), "One pose for each link.") from error
        if at.shape != self._shape:
            raise ConfigurationError("poses", f"shape {self._shape}", f"shape {at.shape}", "One pose for each link.")
        if not at.flags.writeable:
            at = at.copy()  # a type of its own to the compiler
        ahead = max(reach - self.tolerance, 0.0)
        if not ahead <= 0.5 * self.margin:
            self.margin = 4.0 * ahead
            self._look_around()
        count = self._touch(at, *self._static, self.tolerance + ahead, 0.5 * (self.margin - ahead), self._found)
        if count < 0:
            if count == WRONG:
                self._refuse(at)
            self._look_around()
            count = self._touch(at, *self._static, self.tolerance + ahead, 0.5 * (self.margin - ahead), self._found)
        found = self._found
        if self._mixed and self._left[0]:
            found, count = self._others.touch(self._world, self._candidates, self._left, found, count)
        if count == 0:
            return _NOTHING
        links, colliders = np.empty((count, 2), np.int64), np.empty((count, 2), np.int64)
        numbers = (np.empty((count, *shape)) for shape in ((3,), (3, 3), (), (), ()))
        arrays = (links, *numbers, colliders)
        self._unpack(found, self._candidates, self._arrays.shapes, self._material, *arrays)
        return ContactSet.trusted(*arrays)

    def _look_around(self) -> None:
        """List the pairs that can touch before some collider has moved by half the margin."""
        self._near(near_pairs(self._arrays.shapes, self._world, self.pairs, self.margin + self.tolerance))
        self._before[:] = self._world

    def _near(self, pairs: NDArray[np.int64]) -> None:
        kinds = np.sort(self._arrays.shapes[pairs, KIND].reshape(-1, 2), axis=1)
        simple = (kinds[:, 1] == HALF_SPACE) | (kinds[:, 0] == SPHERE) & (kinds[:, 1] <= BOX)
        self._mixed = not np.all(simple | (kinds == CAPSULE).all(axis=1))
        self._candidates = pairs
        self._left = np.zeros(len(pairs) + 1, np.int64)
        self._found = np.empty((MOST_POINTS * len(pairs), 8))
        a = self._arrays
        self._static = (
            a.shapes, a.local, self._world, self._before, a.hulls[VERTICES], self._candidates, self._left,
        )  # fmt: skip

    def _refuse(self, poses: Array) -> None:
        link = int(np.flatnonzero(~np.isfinite(poses).all(axis=(1, 2)))[0])
        raise ConfigurationError(
            f"pose of link {self.scene.tree.link_names[link]!r}", "finite numbers", shown(poses[link].tolist()),
            "The state has left what can be computed: look at the steps before this one.",
        )  # fmt: skip


_NOTHING = ContactSet.empty()
