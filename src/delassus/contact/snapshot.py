"""A scene at one state, and the rows of its loops and contacts: what all contact problems are built from.

`ContactDynamics` compiles the kernels of a scene, `Snapshot` holds what they give at one `State`, and `Snapshot.rows`
the rows of loops and contacts there: ``J``, ``J M⁻¹ Jᵀ`` and ``M⁻¹ Jᵀ p``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.constraints import row_slices
from delassus.contact import assembly
from delassus.contact.assembly import EndEffectors
from delassus.contact.contacts import ContactSet, scales_of
from delassus.contact.filters import moved_links
from delassus.contact.joint_contacts import NO_JOINTS, JointContacts
from delassus.contact.scene import Scene, check_scene
from delassus.errors import ConfigurationError
from delassus.frozen import Frozen, cached_property
from delassus.model.check import finite_array
from delassus.model.topology import check_tree
from delassus.model.tree import WORLD, Tree
from delassus.quantities.keywords import Passive
from delassus.runtime.compile import compile_at_once as compile_kernel
from delassus.runtime.kernel import Kernel
from delassus.spatial.numpy_ops import stacked
from delassus.spatial.rotations import Array, skew

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True, init=False, eq=False)
class State(Frozen):
    """One state of a scene.

    Parameters
    ----------
    q : (nq,) array_like
        Configuration, in the order of the scene's tree.
    v : (nv,) array_like
        Velocity of joints (m/s, rad/s).
    tau : (nv,) array_like, optional
        Forces of motors on joints (N, N m); none by default.

    Raises
    ------
    ConfigurationError
        Not one state of real, finite numbers. Sizes are checked against a scene's tree by `on`.

    Examples
    --------
    >>> State([0.1, 0.2], [1, 0]).tau.tolist()
    [0.0, 0.0]
    """

    q: Array
    v: Array
    tau: Array

    def __init__(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike | None = None) -> None:
        velocity = finite_array(v, (-1,), "v", "Contact problems are of one state.")
        force = np.zeros(velocity.size) if tau is None else tau
        given = {"q": q, "v": velocity, "tau": force}
        advice = "Contact problems are of one state."
        self._set_attributes(**{name: finite_array(x, (-1,), name, advice) for name, x in given.items()})

    def on(self, tree: Tree) -> State:
        """The same state, its sizes checked against a tree's, with quaternions of unit length.

        Raises
        ------
        ConfigurationError
            Wrong sizes, or quaternions that are far from unit length.
        """
        check_tree(tree)
        q, v = tree.check_configuration(self.q), tree.check_velocity(self.v)
        return State(q, v, tree.check_velocity(self.tau, "tau"))


class ContactDynamics:
    """Compiled dynamics of a scene, for any contacts.

    Parameters
    ----------
    scene : Scene
    passive : {"model", "none"}
        Whether damping, springs and gravity compensation act, as in `delassus.forward_dynamics`.

    Attributes
    ----------
    tree : Tree
        That of the scene, where gravity does not accelerate bodies that the user moves, nor loops on them.
    moved, is_tied : list of int, and bool
        Links that the user moves: contacts on them are on the world, at the velocities that these have; and whether
        loops are on them.
    n_loops : int
        Number of rows of the scene's loops.
    parents, depths : (n,) arrays of int
        Parent of each link (−1: the world), and the number of links above it.
    first_dof, axes : (n + 1,) and (nv,) arrays of int
        First degree of freedom of each joint; unit vector of the body frame that each moves along.
    pitches : (nv,) array
        Pitch of each screw (m/rad), zero of other degrees of freedom.
    owner : (nv,) array of int
        Link of each degree of freedom.
    kernel : Kernel
        Of free motion and of the compliance of all links, of the scene's tree with its loops.

    Examples
    --------
    >>> import delassus as ds
    >>> dynamics = ds.contact.ContactDynamics(ds.Scene(ds.mechanisms.pendulum(3), []))
    >>> dynamics.parents.tolist(), dynamics.n_loops
    ([-1, 0, 1], 0)
    """

    def __init__(self, scene: Scene, *, passive: Passive = "model") -> None:
        check_scene(scene)
        tree, self.moved = scene.tree, moved_links(scene)
        self.is_tied = any(not {*self.moved}.isdisjoint(loop.carriers(tree)) for loop in scene.loops)
        if self.moved and not self.is_tied:
            tree, passive = _without_heavy(tree, self.moved, passive), "model"
        self.scene, self.tree, self.passive = scene, tree, passive
        self.kernel = compile_kernel(tree, scene.loops, "operational_space_compliance", passive=passive, lanes=1)
        self._shapes = [r.shape for r in self.kernel.results]
        self.parents = _indices(tree.parents)
        self.depths = _indices([len(tree.support(i)) - 1 for i in range(tree.n_links)])
        self.first_dof = _indices([*(s.start for s in tree.v_slices), tree.nv])
        self.axes = _indices([a for j in tree.joints for a in j.motion_axes])
        self.pitches = np.array([j.pitch for j in tree.joints for _ in j.motion_axes], dtype=np.float64)
        self.owner = np.repeat(np.arange(tree.n_links), np.diff(self.first_dof))
        self.n_loops = sum(c.size for c in scene.loops)
        ends = [
            (link, c.size, at.start)
            for c, at in zip(scene.loops, row_slices(scene.loops), strict=True)
            for link in c.carriers(tree)
        ]
        self.loop_ends = tuple(_indices(column) for column in zip(*ends, strict=True)) if ends else (_indices([]),) * 3

    def at(self, q: Array, v: Array, tau: Array, added: Array | None = None) -> Snapshot:
        """Evaluate at a state ``q`` (nq,), ``v`` (nv,) under joint forces ``tau`` (nv,); nothing is checked.

        Masses (nv, nv) that are ``added`` to those of joints are what impulses see.
        """
        results = self.kernel(q, v, tau, out=tuple(map(np.empty, self._shapes)))
        return Snapshot(self, (q, v, tau), results, added)

    @cached_property
    def response(self) -> Kernel:
        """``M⁻¹ f`` from ``q``, zero velocity, and joint forces ``f``."""
        return compile_kernel(self.tree, (), "dynamics", method="aba", gravity=(0, 0, 0), passive="none")

    @cached_property
    def mass_matrix(self) -> Kernel:
        """``M`` from ``q``."""
        return compile_kernel(self.tree, (), "mass_matrix")

    @cached_property
    def link_wrenches(self) -> Kernel:
        """Gravity and velocity products on links from ``q`` and ``v``."""
        return compile_kernel(self.tree, (), "link_wrenches", passive=self.passive)

    @cached_property
    def inverse_dynamics(self) -> Kernel:
        """Joint forces from ``q``, ``v`` and accelerations, damping and springs overcome."""
        return compile_kernel(self.tree, (), "inverse_dynamics", passive=self.passive)

    @cached_property
    def armature(self) -> Array:
        """(nv,) inertias of rotors felt at joints (kg m², kg)."""
        return np.concatenate([np.zeros(0), *(joint.armature for joint in self.tree.joints)])

    @cached_property
    def turning(self) -> Array:
        """(nv,) 1 where axes of rotors turn with the velocity, 0 where they do not (`Joint.armature_is_straight`)."""
        straight = [joint.straight_armature for joint in self.tree.joints]
        return np.where(np.concatenate([np.zeros(0), *straight]), 0.0, 1.0)


def _without_heavy(tree: Tree, links: Sequence[int], passive: Passive) -> Tree:
    """The tree with some free bodies as ordinary ones, whose weight is compensated as a passive force.

    Others of these are those of the model, or none.
    """
    inertias, joints = np.array(tree.inertias), list(tree.joints)
    kept = dict(tree.gravity_compensation) if passive == "model" else {}
    if passive == "none":
        joints = [replace(j, damping=0.0 * j.damping, stiffness=0.0 * j.stiffness) for j in joints]
    for i in links:
        inertias[i], kept[tree.link_names[i]] = np.eye(6), np.array([1.0, 0.0, 0.0, 0.0])
        joints[i] = replace(joints[i], armature=np.zeros(6))
    return replace(tree, inertias=inertias, joints=tuple(joints), gravity_compensation=kept)


def patches_of(scales: Array) -> Indices:
    """Which contacts have scales of spins."""
    return np.flatnonzero(scales[:, 3:].any(axis=1))


def _indices(numbers: object) -> Indices:
    return np.array(numbers, dtype=np.int64)


class ConstraintRows:
    """Rows of the scene's loops, of each contact three, of spins of patches, and of each joint that is a contact.

    Patches are contacts with torsional or rolling friction, see `delassus.contact.sparse.spins`. All are groups of
    three rows but loops; there are n_u of them.

    Attributes
    ----------
    end_effectors : EndEffectors
        Rows on each link that moves.
    joints : JointContacts
        Limits and friction of joints.
    partner : (n_u,) array of int
        Of patches the group of their spins; −1 of others.
    spins : slice
        Groups of spins.
    n_loops, n_rows : int
    loop_velocities : (n_loops,) array
        ``U``: velocities along the rows of loops that are to be reached (m/s, rad/s); zero by default.
    contact_velocities : (3 n_u,) array
        Velocities at contacts, and of spins, from which relative ones are measured, as those of a conveyor belt (m/s).
    friction, restitution : (n_u,) arrays
        ``μ`` and ``ε`` of contacts; 0 of joints and of spins. Of patches without Coulomb friction, ``μ`` is 1.
    forces : (n_u,) array
        Coulomb friction of joints (N m, N); 0 of contacts.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        contacts: ContactSet,
        joints: JointContacts,
        end_effectors: EndEffectors,
        loop_velocities: Array | None = None,
        contact_velocities: Array | None = None,
    ) -> None:
        self.snapshot, self.contacts, self.joints, self.end_effectors = snapshot, contacts, joints, end_effectors
        self.scales, n = scales_of(contacts), 3 * len(contacts)
        patches, stopped = patches_of(self.scales), self.scales[:, 0] == 0.0
        self.spins = slice(len(contacts), len(contacts) + patches.size)
        none_of_spins = np.zeros(patches.size + joints.dofs.size)
        self.friction = np.concatenate([np.where(stopped, 1.0, contacts.friction), none_of_spins])
        self.forces = np.concatenate([np.zeros(self.spins.stop), joints.forces])
        self.restitution = np.concatenate([contacts.restitution, none_of_spins])
        self.partner = np.full(self.friction.size, -1)
        self.partner[patches] = np.arange(self.spins.start, self.spins.stop)
        self.n_loops = snapshot.dynamics.n_loops
        self.n_rows = self.n_loops + 3 * self.friction.size
        self.loop_velocities = np.zeros(self.n_loops) if loop_velocities is None else loop_velocities
        self.contact_velocities = np.zeros(self.n_rows - self.n_loops)
        self.contact_velocities[:n].reshape(-1, 3)[:, :2] = -contacts.surface_velocities
        if contact_velocities is not None:
            self.contact_velocities[: len(contact_velocities)] += contact_velocities
        self.contact_velocities[:n].reshape(-1, 3)[stopped, :2] = 0.0
        self.contact_velocities[3 * self.spins.stop + joints.rows[: joints.n_limits]] = joints.velocities

    @cached_property
    def jacobian(self) -> Array:
        """``J`` (m, nv): ``J v`` are the velocities along the rows."""
        d, J = self.snapshot.dynamics, np.empty((self.n_rows, self.snapshot.v.size))
        assembly.jacobian(d.parents, d.first_dof, d.axes, d.pitches, self.snapshot.poses, self.end_effectors, J)
        return J

    @cached_property
    def delassus(self) -> Array:
        """``J M⁻¹ Jᵀ`` (m, m)."""
        s, G = self.snapshot, np.empty((self.n_rows, self.n_rows))
        if s.added is not None:
            half = np.linalg.solve(np.linalg.cholesky(s.mass_matrix), self.jacobian.T)
            return np.asarray(half.T @ half)
        assembly.delassus(s.dynamics.parents, s.dynamics.depths, s.propagators, s.compliances, self.end_effectors, G)
        return G

    def response(self, p: Array) -> Array:
        """``M⁻¹ Jᵀ p`` (nv,): change of joint velocities by impulses ``p`` (m,)."""
        if self.snapshot.added is not None:
            return np.asarray(np.linalg.solve(self.snapshot.mass_matrix, p @ self.jacobian))
        dv, no_forces = np.empty(self.snapshot.v.size), np.empty(0)
        self.snapshot.dynamics.response(self.snapshot.q, np.zeros(dv.size), p @ self.jacobian, out=(dv, no_forces))
        return dv


class Snapshot:
    """A scene at one state; made by `ContactDynamics.at`, which checks nothing.

    Attributes
    ----------
    dynamics : ContactDynamics
    q, v, tau : (nq,), (nv,) and (nv,) arrays
        Configuration, velocity, forces of motors (N, N m).
    poses : (n, 3, 4) array
        ``[R p]`` of each link's body frame in the world (m).
    twists : (n, 6) array
        Of each link, in its body frame: linear, angular (m/s, rad/s).
    propagators, compliances : (n, 6, 6) arrays
        ``A_i`` and ``Υ_i``.
    qdd : (nv,) array
        Accelerations without loops and contacts (m/s², rad/s²); of free and planar joints in the axes of now.
    loop_rows : (m', 6) array
        Rows of the ends of loops.
    loop_errors : (n_b,) array
        Position errors of loops (m, rad).

    Examples
    --------
    >>> import delassus as ds
    >>> import numpy as np
    >>> dynamics = ds.contact.ContactDynamics(ds.Scene(ds.mechanisms.pendulum(2)))
    >>> snapshot = dynamics.at(np.zeros(2), np.array([1.0, 2.0]), np.zeros(2))
    >>> snapshot.twists[:, [0, 4]].round(6).tolist()  # along x and about y; the second axis is 0.5 m below the first
    [[0.0, 1.0], [-0.5, 3.0]]
    """

    def __init__(
        self, dynamics: ContactDynamics, state: tuple[Array, ...], results: tuple[Array, ...], added: Array | None
    ) -> None:
        self.dynamics, self.added, (self.q, self.v, self.tau) = dynamics, added, state
        self.poses, self.twists, self.propagators, self.compliances = results[:4]
        self.qdd, self.loop_rows, self.loop_errors = results[4:]

    @cached_property
    def transforms(self) -> Array:
        """Motion transforms (n, 6, 6) from parents, zero for links on the world."""
        parents, R, p = self.dynamics.parents, self.poses[:, :, :3], self.poses[:, :, 3]
        E = R.mT @ R[parents]
        X = np.zeros((parents.size, 6, 6))
        X[:, :3, :3] = X[:, 3:, 3:] = E
        X[:, :3, 3:] = -E @ skew(np.einsum("iba,ib->ia", R[parents], p - p[parents]))
        X[parents < 0] = 0.0
        return X

    @cached_property
    def axes_rate(self) -> Array:
        """``δ`` (nv,): ``ω × v`` of free and planar joints, by which accelerations differ in axes that stay."""
        tree, out = self.dynamics.tree, np.zeros(self.v.size)
        for joint, at in zip(tree.joints, tree.v_slices, strict=True):
            out[at] = stacked(joint.kind.velocity_product(self.v[at].tolist()), ())
        return out

    def rotor_velocities(self, dt: float) -> Array:
        """Velocities (nv,) that rotors have after a time ``dt`` without forces, in axes that stay."""
        return np.asarray(self.v + dt * self.dynamics.turning * self.axes_rate)

    @cached_property
    def smooth_forces(self) -> Array:
        """``τ − c + M δ`` (nv,): forces in joint coordinates without loops and contacts, passive ones included."""
        return np.asarray(self.tau - self.dynamics.inverse_dynamics(self.q, self.v, -self.axes_rate))

    @cached_property
    def wrenches(self) -> Array:
        """Gravity and velocity products (n, 6) on each link, in its body frame (N, N m)."""
        return np.asarray(self.dynamics.link_wrenches(self.q, self.v))

    @cached_property
    def joint_forces(self) -> Array:
        """Forces (nv,) of motors, damping and springs."""
        if self.dynamics.passive == "none":
            return self.tau
        return self.tau + self.dynamics.tree.passive_forces(self.q, self.v)

    @cached_property
    def mass_matrix(self) -> Array:
        """``M`` (nv, nv), with masses that are added."""
        M = np.asarray(self.dynamics.mass_matrix(self.q))
        return M if self.added is None else M + self.added

    def momentum(self, dt: float) -> Array:
        """``M v + dt (τ − c + M δ)`` (nv,): in joint coordinates, after a time ``dt`` without loops and contacts."""
        momentum = self.mass_matrix @ self.v
        return np.asarray(momentum + dt * self.smooth_forces if dt else momentum)

    def rows(
        self,
        contacts: ContactSet,
        loop_velocities: Array | None = None,
        contact_velocities: Array | None = None,
        joints: JointContacts = NO_JOINTS,
    ) -> ConstraintRows:
        """Rows of the scene's loops, of contacts and of joints; `ConstraintRows` says what velocities are."""
        dynamics = self.dynamics
        loop_links, loop_sizes, loop_rows = dynamics.loop_ends
        n, most, k = len(loop_links), 2 * len(contacts), len(self.loop_rows)
        links, rows, K = np.empty(n + most, np.int64), np.empty(n + most, np.int64), np.empty((k + 3 * most, 6))
        links[:n], rows[:n], K[:k] = loop_links, loop_rows, self.loop_rows
        if contacts.links.max(initial=WORLD) >= len(self.poses):
            wanted = f"numbers from −1 to {len(self.poses) - 1}"
            came = str(contacts.links.max())
            raise ConfigurationError("links of contacts", wanted, came, "They count the links of the scene's tree.")
        if dynamics.moved:  # they move as conveyor belts do
            given, contact_velocities = contact_velocities, -(self.moved_rows(contacts) @ self.v)
            if given is not None:
                contact_velocities[: given.size] += given
        on = np.where(np.isin(contacts.links, dynamics.moved), WORLD, contacts.links)
        added = assembly.contact_ends(
            on, contacts.points, contacts.frames, self.poses, dynamics.n_loops, links[n:], rows[n:], K[k:]
        )
        sizes = np.full(n + added, 3)
        sizes[:n] = loop_sizes
        ends = EndEffectors(links[: n + added], sizes, rows[: n + added], K[: k + 3 * added])
        scales, start = scales_of(contacts), dynamics.n_loops + 3 * len(contacts)
        if scales.shape[1] > 3:
            ends = ends.joined(self._spin_ends(scales, links[n : n + added], rows[n : n + added], K[k : k + 3 * added]))
        if joints.dofs.size:
            ends = ends.joined(self._joint_end_effectors(joints, start + 3 * patches_of(scales).size))
        return ConstraintRows(self, contacts, joints, ends, loop_velocities, contact_velocities)

    def moved_rows(self, contacts: ContactSet) -> Array:
        """Jacobian (3 n, nv) of contacts, and spins, on bodies that the user moves, which rows do not have."""
        scales = scales_of(contacts)
        patches, out = patches_of(scales), np.zeros((len(contacts), 3, self.v.size))
        spins = np.zeros((patches.size, 3, self.v.size))
        for link in self.dynamics.moved:
            R, first = self.poses[link, :, :3], self.dynamics.first_dof[link]
            at = (contacts.points - self.poses[link, :, 3]) @ R
            sides = (contacts.links[:, :1] == link) * 1.0 - (contacts.links[:, 1:] == link)
            across = sides[..., None] * contacts.frames.mT @ R
            out[:, :, first : first + 6] += np.concatenate([across, -across @ skew(at)], axis=2)
            if patches.size:
                spins[:, :, first + 3 : first + 6] += scales[patches, 3:, None] * across[patches]
        return np.concatenate([out, spins]).reshape(-1, self.v.size)

    def _spin_ends(self, scales: Array, links: Indices, rows: Indices, K: Array) -> EndEffectors:
        """Rows of spins, from those of contacts; those of tangents that patches do not have become zero."""
        n_loops, of_ends, patches = self.dynamics.n_loops, K.reshape(-1, 3, 6), patches_of(scales)
        contact = (rows - n_loops) // 3
        own = np.flatnonzero(np.isin(contact, patches))
        spins = np.zeros((own.size, 3, 6))
        spins[:, :, 3:] = scales[contact[own], 3:, None] * of_ends[own, :, :3]
        of_ends *= scales[contact, :3, None]
        places = n_loops + 3 * (len(scales) + np.searchsorted(patches, contact[own]))
        return EndEffectors(links[own], np.full(own.size, 3), places, spins.reshape(-1, 6))

    def _joint_end_effectors(self, joints: JointContacts, start: int) -> EndEffectors:
        """Rows ``± S_iᵀ (V_i − X_i V_{p(i)})`` of joints, from the problem's row ``start`` on."""
        d, signs = self.dynamics, joints.signs[:, None]
        links, axes, rows = d.owner[joints.dofs], d.axes[joints.dofs], start + joints.rows
        parents = d.parents[links]
        carried = parents >= 0
        on_links, on_parents = signs * np.eye(6)[axes], -signs * self.transforms[links, axes]
        own = EndEffectors(links, np.ones_like(links), rows, on_links)
        return own.joined(
            EndEffectors(parents[carried], np.ones_like(links[carried]), rows[carried], on_parents[carried])
        )
