"""`CollisionDetector`: contacts of a scene at given poses of its links."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.compiler.jit.compile import Bound, Compiled
from delassus.contact.collision.colliders import CENTRE, HALF, LINK, RADIUS, collider_arrays, workspace
from delassus.contact.collision.narrow_phase import INVALID_POSE, find_contacts
from delassus.contact.contacts import ContactSet
from delassus.contact.filters import Solids
from delassus.errors import ConfigurationError, shown
from delassus.model.check import check_number, real_array
from delassus.spatial.rotations import Array

RELATIVE_TOLERANCE = 1e-9
"""Gap up to which shapes touch, as a part of the size of a scene's colliders, where none is given."""

MARGIN = 0.25
"""The same of the margin: fewer near pairs against fewer searches for them."""


GAP = 2
"""Which argument of `find_contacts` the gap is."""


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
        that a call takes and nothing else. By default a quarter of that median radius.

    Attributes
    ----------
    arrays, space, found : Colliders, Workspace, ContactArrays
        What `find_contacts` takes; ``find`` replaces the last two where they are too small.
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

    def __init__(self, scene: Solids, *, tolerance: float | None = None, margin: float | None = None) -> None:
        if not isinstance(scene, Solids):
            raise ConfigurationError("scene", "a delassus.Scene", shown(scene), "Make one from robots and colliders.")
        self.scene = scene
        self.arrays = collider_arrays(scene)
        self.space, self.found = workspace(self.arrays, 64 + 8 * len(scene.colliders))
        shapes = self.arrays.shapes
        finite = shapes[:, RADIUS][np.isfinite(shapes[:, RADIUS])]
        size = float(np.median(finite)) if finite.size else 1.0
        far = np.linalg.norm(self.arrays.local[:, :, 3], axis=1) + np.linalg.norm(shapes[:, CENTRE:HALF], axis=1)
        self.size = float(np.max((far + shapes[:, RADIUS])[shapes[:, LINK] >= 0], initial=0.0))
        gap = RELATIVE_TOLERANCE * size if tolerance is None else tolerance
        self.tolerance = check_number("tolerance", gap, "A length in metres.", above=False)
        self.margin = check_number("margin", MARGIN * size if margin is None else margin, "A length in metres.")
        self._shape = (scene.tree.n_links, 3, 4)
        self._still = np.zeros(scene.tree.n_links)
        self._poses, self._reach = np.zeros(self._shape), np.zeros(scene.tree.n_links)
        self._search: Bound | None = None

    @property
    def pairs(self) -> NDArray[np.int64]:
        """Colliders that may touch (n_pairs, 2), in the order of their contacts: A and B."""
        pairs = np.argwhere(np.triu(self.arrays.allowed))
        fixed = self.arrays.shapes[pairs[:, 0], LINK] < 0  # the world as the second of each pair
        pairs[fixed] = pairs[fixed][:, ::-1]
        return pairs

    def contacts(self, poses: ArrayLike, reach: ArrayLike = 0.0) -> ContactSet:
        """Contacts at poses ``[R p]`` (n_links, 3, 4) of body frames in the world, such as ``Snapshot.poses``.

        Gaps of up to ``reach`` (m) are contacts too, of negative depth. Where it is an array (n_links,), the gap of two
        links may be the sum of theirs; the world's is 0.

        Raises
        ------
        ConfigurationError
            Poses of another shape, or not finite; names the link. Gaps that are not finite.
        """
        at = real_array(poses)
        if at is None or at.shape != self._shape:
            came = shown(poses) if at is None else f"shape {at.shape}"
            raise ConfigurationError("poses", f"shape {self._shape}", came, "One pose for each link.")
        of_links, gap = self._still, self.tolerance
        given = reach if isinstance(reach, float) else real_array(reach)
        if isinstance(given, float) or (given is not None and given.shape == ()):
            gap = max(gap, check_number("reach", float(given), "A length in metres.", above=False))
        elif given is not None and given.shape in ((1,), of_links.shape):
            of_links = np.ascontiguousarray(np.broadcast_to(given, of_links.shape))
        else:
            wanted = f"a number, or one for each of {len(of_links)} link(s)"
            raise ConfigurationError("reach", wanted, shown(reach), "Lengths in metres.")
        count = self.find(np.ascontiguousarray(at), of_links, gap)
        if count == INVALID_POSE:
            self.refuse(at, of_links)
        return ContactSet.trusted(*(array[:count].copy() for array in self.found)) if count else _NOTHING

    def find(self, poses: Array, reach: Array, gap: float) -> int:
        """`find_contacts` with arrays that grow: nothing is checked.

        Returns how many rows of ``found`` are contacts, or `INVALID_POSE`.
        """
        self._poses[:], self._reach[:] = poses, reach
        while True:
            if self._search is None:
                arrays = self.arrays, self.space, self.found
                self._search = cast(Compiled, find_contacts).bound(self._poses, self._reach, gap, self.margin, *arrays)
            self._search.set(GAP, gap)
            count = int(self._search())
            if count >= INVALID_POSE:
                return count
            self.space, self.found = workspace(self.arrays, 2 * int(self.space.counts[0]))
            self._search = None

    def refuse(self, poses: Array, reach: Array) -> None:
        """Raise `ConfigurationError`: of the first pose that is not finite, or of reach."""
        state = "The state has left what can be computed: look at the steps before this one."
        way = "In a step, it is how far the link may move: check velocities, forces and the time step."
        for what, values, advice in (("pose", poses, state), ("reach", reach, way)):
            bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
            if bad.any():
                link = int(np.argmax(bad))
                name, came = self.scene.tree.link_names[link], shown(values[link].tolist())
                raise ConfigurationError(f"{what} of link {name!r}", "finite numbers", came, advice)
        raise ConfigurationError("reach", "finite numbers", "others", "Lengths in metres.")


_NOTHING = ContactSet.empty()
