"""What all formulations start from: a scene at one state with its contacts, evaluated as far as each of them asks."""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np

from delassus.contact import propagate
from delassus.contact.contacts import ContactSet
from delassus.contact.formulations import links
from delassus.contact.snapshot import ContactDynamics, Ends, Snapshot
from delassus.contact.state import State
from delassus.model.joints import Joint
from delassus.model.rotations import Array
from delassus.spatial.manifold import turning


class Setting:
    """A scene at one state with its contacts.

    Parameters
    ----------
    dynamics : ContactDynamics
    snapshot : Snapshot
        At ``state``.
    state : State
    contacts : ContactSet
    loop_velocities : (n_b,) array
        ``U``: velocities along the rows of loops that are to be reached (m/s, rad/s).
    contact_velocities : (3 n_u,) array
        Velocities at contacts from which relative velocities are measured, as those of a conveyor belt (m/s).

    Attributes
    ----------
    armature, damping, gravity : arrays
        Of the scene.
    inertias : (n, 6, 6) array
        Of links, in their body frames.
    """

    def __init__(
        self,
        dynamics: ContactDynamics,
        snapshot: Snapshot,
        state: State,
        contacts: ContactSet,
        loop_velocities: Array,
        contact_velocities: Array,
    ) -> None:
        self.dynamics, self.snapshot, self.state, self.contacts = dynamics, snapshot, state, contacts
        self.loop_velocities, self.contact_velocities = loop_velocities, contact_velocities
        self.topology = dynamics.topology
        self.parents, self.first_dof, self.axes = self.topology.parents, self.topology.first_dof, self.topology.axes
        self.inertias, self.armature, self.gravity, self._turning = _constants(dynamics)

    @property
    def n_links(self) -> int:
        """Number of links."""
        return self.parents.size

    @property
    def n_dofs(self) -> int:
        """``N``: number of degrees of freedom without loops."""
        return self.armature.size

    @property
    def n_loops(self) -> int:
        """Number of rows of loops."""
        return self.dynamics.n_loops

    @cached_property
    def ends(self) -> Ends:
        """Rows of loops and contacts on links."""
        return self.snapshot.ends(self.contacts)

    @cached_property
    def X(self) -> Array:
        """Motion transforms (n, 6, 6) from parents."""
        X = np.empty((self.n_links, 6, 6))
        links.transforms(self.parents, self.snapshot.poses, X)
        return X

    def twists(self, v: Array) -> Array:
        """``J v``: twists (n, 6) of links in their body frames at joint velocities ``v`` (nv,)."""
        V = np.empty((self.n_links, 6))
        nothing = np.zeros((self.n_dofs, 6))  # X takes the place of articulated propagators: nothing to carry
        propagate.twists(self.parents, self.first_dof, self.axes, self.X, nothing, v, V)
        return V

    @cached_property
    def known_wrenches(self) -> Array:
        """Gravity and velocity products (n, 6) on links: `links.known_wrenches`."""
        w = np.empty((self.n_links, 6))
        links.known_wrenches(
            self.parents,
            self.first_dof,
            self.axes,
            self.X,
            self.snapshot.poses,
            self.inertias,
            self.gravity,
            self.turning,
            self.twists(self.state.v),
            w,
        )
        return w

    @cached_property
    def turning(self) -> Array:
        """``δ`` (nv,): ``ω × v`` of free and planar joints, whose axes turn; see `manifold.turning`."""
        out = np.zeros(self.n_dofs)
        for joint, at in self._turning:
            out[at] = turning(joint, self.state.v[at].tolist())
        return out

    @cached_property
    def joint_forces(self) -> Array:
        """Forces (nv,) of motors less those of damping."""
        damping = self.dynamics.damping
        return self.state.tau if damping is None else self.state.tau - damping * self.state.v

    @cached_property
    def smooth_forces(self) -> Array:
        """``τ − c + M δ`` (nv,): all forces in joint coordinates without loops and contacts."""
        forces = np.empty(self.n_dofs)
        links.to_joints(self.parents, self.first_dof, self.axes, self.X, self.known_wrenches.copy(), forces)
        return self.joint_forces + forces + self.armature * self.turning

    @cached_property
    def mass_matrix(self) -> Array:
        """``M`` (nv, nv)."""
        M = np.empty((self.n_dofs, self.n_dofs))
        links.mass_matrix(self.parents, self.first_dof, self.axes, self.X, self.inertias, self.armature, M)
        return M

    @cached_property
    def jacobian(self) -> Array:
        """``J`` (n_b + 3 n_u, nv): velocities along the rows of loops, then at contacts."""
        e, J = self.ends, np.empty((self.ends.n_rows, self.n_dofs))
        links.jacobian(self.parents, self.first_dof, self.axes, self.X, e.links, e.sizes, e.rows, e.K, J)
        return J


@lru_cache(maxsize=8)
def _constants(dynamics: ContactDynamics) -> tuple[Array, Array, Array, list[tuple[Joint, slice]]]:
    """Inertias, armature and gravity of a scene, as arrays for compiled functions, and joints whose axes turn."""
    tree = dynamics.scene.tree
    armature = np.concatenate([np.zeros(0), *(joint.armature for joint in tree.joints)])
    turned = [
        (joint, at)
        for joint, at in zip(tree.joints, tree.v_slices, strict=True)
        if turning(joint, [0.0] * joint.nv) is not None
    ]
    return np.array(tree.inertias), armature, np.array(dynamics.scene.gravity), turned
