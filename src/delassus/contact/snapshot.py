"""A scene at one state: everything that contact problems are built from, computed by one compiled kernel.

`ContactDynamics` compiles the kernel of a scene; `Snapshot` holds its results. `Snapshot.ends` turns contacts into rows
on links; with these, `delassus`, `velocities` and `response` are ``J M⁻¹ Jᵀ``, ``J v`` and ``M⁻¹ Jᵀ p``, without ``J``
or ``M``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.constraints import row_slices
from delassus.contact import propagate
from delassus.contact.contacts import ContactSet
from delassus.contact.scene import Scene
from delassus.errors import ConfigurationError, shown
from delassus.model.check import finite_array
from delassus.model.rotations import Array
from delassus.model.tree import WORLD
from delassus.runtime.compile import compile as compile_kernel


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """Tree of a scene as arrays."""

    parents: NDArray[np.int64]
    depths: NDArray[np.int64]
    first_dof: NDArray[np.int64]
    axes: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """Stacks of rows on links: those of loops, then three for each contact on each of its links that moves.

    Attributes
    ----------
    links, sizes, rows : (n_ends,) arrays of int
        Link, number of rows, and first row of the problem that they add to.
    K : (sum of sizes, 6) array
        Rows on the twists of links in their body frames.
    n_loops, n_contacts : int
        Rows of the problem that belong to loops come first, then three for each contact.
    """

    links: NDArray[np.int64]
    sizes: NDArray[np.int64]
    rows: NDArray[np.int64]
    K: Array
    n_loops: int
    n_contacts: int

    @property
    def n_rows(self) -> int:
        """Rows of the problem."""
        return self.n_loops + 3 * self.n_contacts


class ContactDynamics:
    """Compiled dynamics of a scene, for any contacts.

    Parameters
    ----------
    scene : Scene
    damping : {"model"} or (nv,) array_like, optional
        Viscous damping of joints.

    Attributes
    ----------
    scene : Scene
    topology : Topology
    damping : (nv,) array or None
        Damping coefficients; None without damping.
    kernel : Kernel
        ``"operational_space_compliance"`` of the scene's tree with its loops.
    """

    def __init__(self, scene: Scene, *, damping: ArrayLike | str | None = "model") -> None:
        if not isinstance(scene, Scene):
            raise ConfigurationError("scene", "a delassus.Scene", shown(scene), "Make one from robots and colliders.")
        tree = scene.tree
        self.scene = scene
        self.kernel = compile_kernel(
            tree,
            scene.loops,
            "operational_space_compliance",
            gravity=scene.gravity,
            damping=damping,
        )
        coefficients = self.kernel.request.options.damping
        self.damping = None if coefficients is None else np.array(coefficients)
        self._shapes = [r.shape for r in self.kernel.results]
        depths: list[int] = []
        for p in tree.parents:
            depths.append(0 if p == WORLD else depths[p] + 1)
        self.topology = Topology(
            np.array(tree.parents, dtype=np.int64),
            np.array(depths, dtype=np.int64),
            np.array([*(s.start for s in tree.v_slices), tree.nv], dtype=np.int64),
            np.array([a for j in tree.joints for a in j.motion_axes], dtype=np.int64),
        )
        ends, sizes, rows = [], [], []
        for c, at in zip(scene.loops, row_slices(scene.loops), strict=True):
            for frame in (c.first, c.second):
                if frame is not None and frame.carrier(tree) != WORLD:
                    ends.append(frame.carrier(tree))
                    sizes.append(c.size)
                    rows.append(at.start)
        self._loop_ends = _indices(ends), _indices(sizes), _indices(rows)
        self.n_loops = sum(c.size for c in scene.loops)

    def at(self, q: Array, v: Array, tau: Array) -> Snapshot:
        """Evaluate at a state ``q`` (nq,), ``v`` (nv,) under joint forces ``tau`` (nv,); nothing is checked."""
        results = tuple(np.empty(shape) for shape in self._shapes)
        return Snapshot(self, v, self.kernel(q, v, tau, out=results))


def _indices(numbers: list[int]) -> NDArray[np.int64]:
    return np.array(numbers, dtype=np.int64)


def _vector(value: ArrayLike, size: int, name: str) -> Array:
    return finite_array(value, (size,), name, "Compiled code would read past its end.")


class Snapshot:
    """A scene at one state.

    Attributes
    ----------
    dynamics : ContactDynamics
    v : (nv,) array
        Velocities of joints.
    poses : (n, 3, 4) array
        ``[R p]`` of each link's body frame in the world.
    twists : (n, 6) array
        Of each link, in its body frame.
    propagators, compliances : (n, 6, 6) arrays
        ``A_i`` and ``Υ_i``.
    gains, carried : (nv, 6) arrays
        ``D⁻¹ Sᵀ`` and ``D⁻¹ Uᵀ X``.
    qdd : (nv,) array
        Accelerations without loops and contacts.
    loop_rows : (m', 6) array
        Rows of the ends of loops.
    loop_errors : (n_b,) array
        Position errors of loops (m, rad).
    """

    __slots__ = (
        "carried",
        "compliances",
        "dynamics",
        "gains",
        "loop_errors",
        "loop_rows",
        "poses",
        "propagators",
        "qdd",
        "twists",
        "v",
    )

    def __init__(self, dynamics: ContactDynamics, v: Array, results: tuple[Array, ...]) -> None:
        self.dynamics, self.v = dynamics, v
        self.poses, self.twists, self.propagators, self.compliances = results[:4]
        self.gains, self.carried, self.qdd, self.loop_rows, self.loop_errors = results[4:]

    def ends(self, contacts: ContactSet) -> Ends:
        """Rows of the scene's loops and of contacts."""
        loop_links, loop_sizes, loop_rows = self.dynamics._loop_ends
        n, most, n_loop_rows = len(loop_links), 2 * len(contacts), len(self.loop_rows)
        links, rows = np.empty(n + most, np.int64), np.empty(n + most, np.int64)
        K = np.empty((n_loop_rows + 3 * most, 6))
        links[:n], rows[:n], K[:n_loop_rows] = loop_links, loop_rows, self.loop_rows
        n_loops = self.dynamics.n_loops
        try:
            added = propagate.contact_ends(
                contacts.links, contacts.points, contacts.frames, self.poses, n_loops, links[n:], rows[n:],
                K[n_loop_rows:],
            )  # fmt: skip
        except IndexError:
            raise self._other_links(contacts) from None
        sizes = np.full(n + added, 3)
        sizes[:n] = loop_sizes
        return Ends(links[: n + added], sizes, rows[: n + added], K[: n_loop_rows + 3 * added], n_loops, len(contacts))

    def delassus(self, ends: Ends) -> Array:
        """``J M⁻¹ Jᵀ`` (m, m) of all rows: loops, then contacts."""
        G = np.empty((ends.n_rows, ends.n_rows))
        t = self.dynamics.topology
        propagate.delassus_of_ends(
            t.parents, t.depths, self.propagators, self.compliances, ends.links, ends.sizes, ends.rows, ends.K, G
        )
        return G

    def _other_links(self, contacts: ContactSet) -> ConfigurationError:
        return ConfigurationError(
            "links of contacts",
            f"numbers from −1 to {len(self.poses) - 1}",
            str(contacts.links.max()),
            "They count the links of the scene's tree.",
        )

    def velocities(self, ends: Ends, v: Array) -> Array:
        """``J v`` (m,) at joint velocities ``v`` (nv,)."""
        if not isinstance(v, np.ndarray) or v.shape != self.v.shape:
            v = _vector(v, self.v.size, "v")
        t, V, u = self.dynamics.topology, np.empty_like(self.twists), np.empty(ends.n_rows)
        propagate.twists(t.parents, t.first_dof, t.axes, self.propagators, self.carried, v, V)
        propagate.end_velocities(ends.links, ends.sizes, ends.rows, ends.K, V, u)
        return u

    def assemble(self, contacts: ContactSet, v: Array, other_v: Array) -> tuple[Ends, Array, Array, Array]:
        """Rows, ``J M⁻¹ Jᵀ``, and ``J v`` at two velocities (nv,), in one call."""
        t, dynamics = self.dynamics.topology, self.dynamics
        if v.shape != self.v.shape or other_v.shape != self.v.shape:
            v, other_v = _vector(v, self.v.size, "v"), _vector(other_v, self.v.size, "other_v")
        try:
            links, sizes, rows, K, G, u, other_u = propagate.assemble(
                t.parents, t.depths, t.first_dof, t.axes, self.poses, self.propagators, self.compliances, self.carried,
                *dynamics._loop_ends, self.loop_rows, dynamics.n_loops, contacts.links, contacts.points,
                contacts.frames, v, other_v,
            )  # fmt: skip
        except IndexError:
            raise self._other_links(contacts) from None
        return Ends(links, sizes, rows, K, dynamics.n_loops, len(contacts.links)), G, u, other_u

    def response(self, ends: Ends, p: Array) -> Array:
        """``M⁻¹ Jᵀ p`` (nv,): change of joint velocities by impulses ``p`` (m,)."""
        if not isinstance(p, np.ndarray) or p.shape != (ends.n_rows,):
            p = _vector(p, ends.n_rows, "p")
        t, dv = self.dynamics.topology, np.empty(self.v.size)
        propagate.response(
            t.parents,
            t.first_dof,
            t.axes,
            self.propagators,
            self.gains,
            self.carried,
            ends.links,
            ends.sizes,
            ends.rows,
            ends.K,
            p,
            dv,
        )
        return dv
