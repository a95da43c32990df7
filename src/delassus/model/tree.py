"""The `Tree`: what a robot is. Links, joints, inertias, frames, and every question about topology."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from operator import index
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from delassus.errors import ConfigurationError, shown, unknown_name
from delassus.model import joints as joint_rules
from delassus.model.check import common_batch, normalised, real_array
from delassus.model.joints import QUATERNION_START, UNIT_CIRCLE_START, Joint, JointKind
from delassus.model.rotations import Array

WORLD = -1
"""Index of the world where an index of a link is asked for."""


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Where a named frame sits: on which link, and where in that link's body frame.

    Attributes
    ----------
    link : int
        Index of the link, or `WORLD`.
    rotation : (3, 3) array
        Orientation of the frame in the body frame.
    position : (3,) array
        Origin of the frame in the body frame, in m.
    """

    link: int
    rotation: Array
    position: Array

    def __post_init__(self) -> None:
        for attribute in ("rotation", "position"):
            value = np.array(getattr(self, attribute), dtype=float)
            value.setflags(write=False)
            object.__setattr__(self, attribute, value)


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A kinematic tree of rigid links, immutable.

    Links are numbered 0 … n−1 so that a parent comes before its children; the world is −1. Joint *i* connects link *i*
    to its parent. Links that fixed joints connect are one link here; every name of the description stays usable as
    a frame. Each link's body frame is placed by the library (so that motion subspaces are unit vectors); users see only
    the frames of the description.

    Attributes
    ----------
    name : str
        Name of the robot.
    link_names : tuple of str
        Name of each moving link.
    joints : tuple of Joint
        Joint *i* carries link *i*.
    parents : tuple of int
        Parent link of each link, −1 for the world.
    inertias : (n, 6, 6) array
        Spatial inertia of each link about the origin of its body frame, ``[linear; angular]``.
    frames : mapping of str to Placement
        Every named frame.
    world_inertia : (6, 6) array
        Inertia of the links that are fixed to the world; it moves only once the tree is attached to another.
    joint_names : tuple of str
        Name of each joint.
    nq, nv, n_links : int
        Numbers of configuration coordinates, degrees of freedom and moving links.
    """

    name: str
    link_names: tuple[str, ...]
    joints: tuple[Joint, ...]
    parents: tuple[int, ...]
    inertias: Array
    frames: Mapping[str, Placement]
    world_inertia: Array = field(default_factory=lambda: np.zeros((6, 6)))
    joint_names: tuple[str, ...] = field(init=False)
    n_links: int = field(init=False)
    nq: int = field(init=False)
    nv: int = field(init=False)
    q_slices: tuple[slice, ...] = field(init=False)
    v_slices: tuple[slice, ...] = field(init=False)
    children: tuple[tuple[int, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        n = len(self.joints)
        assert len(self.parents) == len(self.link_names) == n
        assert all(WORLD <= p < i for i, p in enumerate(self.parents))
        for attribute, shape in (("inertias", (n, 6, 6)), ("world_inertia", (6, 6))):
            value = np.array(getattr(self, attribute), dtype=float).reshape(shape)
            value.setflags(write=False)
            object.__setattr__(self, attribute, value)
        q_ends = np.cumsum([0, *(j.nq for j in self.joints)])
        v_ends = np.cumsum([0, *(j.nv for j in self.joints)])
        children: list[list[int]] = [[] for _ in range(n)]
        for i, p in enumerate(self.parents):
            if p != WORLD:
                children[p].append(i)
        derived: dict[str, Any] = {
            "frames": MappingProxyType(dict(self.frames)),
            "joint_names": tuple(j.name for j in self.joints),
            "n_links": n,
            "nq": int(q_ends[-1]),
            "nv": int(v_ends[-1]),
            "q_slices": tuple(slice(int(a), int(b)) for a, b in pairwise(q_ends)),
            "v_slices": tuple(slice(int(a), int(b)) for a, b in pairwise(v_ends)),
            "children": tuple(tuple(c) for c in children),
        }
        for attribute, derived_value in derived.items():
            object.__setattr__(self, attribute, derived_value)

    # -- pickling: a mapping proxy does not pickle, and everything derived is derived again ------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild from the defining attributes."""
        defining = (self.name, self.link_names, self.joints, self.parents, self.inertias, dict(self.frames))
        return Tree, (*defining, self.world_inertia)

    def __repr__(self) -> str:
        return f"Tree({self.name!r}, n_links={self.n_links}, nq={self.nq}, nv={self.nv})"

    @property
    def fingerprint(self) -> str:
        """Hash of everything that the dynamics depend on; equal for equal robots in any process."""
        digest = hashlib.sha256()
        digest.update(repr((self.link_names, self.parents)).encode())
        for j in self.joints:
            digest.update(repr((j.name, j.kind.value, j.axis)).encode())
            for a in (j.rotation, j.position, j.armature, j.damping):
                digest.update(a.tobytes())
        digest.update(self.inertias.tobytes())
        for name in sorted(self.frames):
            placement = self.frames[name]
            digest.update(repr((name, placement.link)).encode())
            digest.update(placement.rotation.tobytes() + placement.position.tobytes())
        return digest.hexdigest()

    # -- topology --------------------------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """Number of joints on the longest path from the world."""
        depths: list[int] = []
        for p in self.parents:
            depths.append(1 if p == WORLD else depths[p] + 1)
        return max(depths, default=0)

    @property
    def is_floating(self) -> bool:
        """Whether the first joint is a free joint on the world."""
        return bool(self.joints) and self.joints[0].kind is JointKind.FREE and self.parents[0] == WORLD

    def support(self, link: int) -> tuple[int, ...]:
        """Links from the root to ``link``, both included; empty for the world."""
        path = []
        while link != WORLD:
            path.append(link)
            link = self.parents[link]
        return tuple(reversed(path))

    def leaves_to_root(self) -> Iterable[int]:
        """Links in an order that visits children before parents."""
        return range(self.n_links - 1, -1, -1)

    def root_to_leaves(self) -> Iterable[int]:
        """Links in an order that visits parents before children."""
        return range(self.n_links)

    def closest_common_ancestor(self, a: int, b: int) -> int:
        """Deepest link on both supports, or `WORLD`."""
        while a != b:  # the link of the larger index is no ancestor of the other
            a, b = (self.parents[a], b) if a > b else (a, self.parents[b])
        return a

    def supporting_links(self, links: Iterable[int]) -> frozenset[int]:
        """All links on the support of one of ``links``."""
        return frozenset(i for link in links for i in self.support(link))

    def branching_links(self, ends: Sequence[int]) -> tuple[int, ...]:
        """Links at which the supports of two or more end-effectors meet, root first.

        ``ends`` holds one link per end-effector; a link that carries several of them is branching.
        """
        supporting = self.supporting_links(ends)
        meeting = Counter([*ends, *(self.parents[i] for i in supporting)])
        return tuple(sorted(i for i in supporting if meeting[i] >= 2))

    def closest_branching_above(self, branching: Sequence[int]) -> tuple[int, ...]:
        """For each link, the closest of the links ``branching`` strictly above it, or `WORLD`."""
        stops = {WORLD, *branching}
        out: list[int] = []
        for p in self.parents:
            out.append(p if p in stops else out[p])
        return tuple(out)

    @property
    def dof_parents(self) -> tuple[int, ...]:
        """Expanded parent array: for each degree of freedom the one before it towards the root, or −1."""
        out: list[int] = []
        for i, p in enumerate(self.parents):
            before = self.v_slices[p].stop - 1 if p != WORLD else -1
            for k in range(self.joints[i].nv):
                out.append(before if k == 0 else self.v_slices[i].start + k - 1)
        return tuple(out)

    def placement(self, frame: str) -> Placement:
        """Placement of the frame of that name; raises `UnknownNameError` with the nearest match."""
        try:
            return self.frames[frame]
        except (KeyError, TypeError):
            raise unknown_name("link or frame name", frame, self.frames) from None

    # -- configurations --------------------------------------------------------------------------------------------

    def neutral(self) -> Array:
        """Configuration (nq,) with all angles and lengths zero and all rotations the identity."""
        parts = [joint_rules.neutral(j) for j in self.joints]
        return np.concatenate(parts) if parts else np.zeros(0)

    def random(self, rng: np.random.Generator | int | None = None, batch: int | tuple[int, ...] = ()) -> Array:
        """Random configurations of shape (*batch, nq): within joint limits where there are any.

        Parameters
        ----------
        rng : numpy.random.Generator or int, optional
            Generator, or the seed of one.
        batch : int or tuple of int
            Leading shape.

        Raises
        ------
        ConfigurationError
            ``rng`` is neither a generator nor a seed, or ``batch`` is no shape.

        Examples
        --------
        >>> import delassus as ds
        >>> ds.mechanisms.chain(7).random(0, batch=100).shape
        (100, 7)
        """
        try:
            generator = np.random.default_rng(rng)
        except (TypeError, ValueError):
            raise ConfigurationError("rng", "a generator or a seed", shown(rng), "Pass a whole number.") from None
        try:
            shape = tuple(index(n) for n in (batch if isinstance(batch, tuple | list) else (batch,)))
        except TypeError:
            shape = (-1,)
        if any(n < 0 for n in shape):
            raise ConfigurationError("batch", "a number of states or a shape", shown(batch), "Pass 100 or (10, 10).")
        parts = [joint_rules.random(j, generator, shape) for j in self.joints]
        return np.concatenate(parts, axis=-1) if parts else np.zeros((*shape, 0))

    def integrate(self, q: ArrayLike, v: ArrayLike) -> Array:
        """Configuration reached from ``q`` by the velocity ``v`` held for one second, as ``pinocchio.integrate``.

        Parameters
        ----------
        q : (..., nq) array_like
        v : (..., nv) array_like
            Velocity times duration: rad and m; that of a free joint in the axes of its body, ``[linear; angular]``.

        Returns
        -------
        (..., nq) array
            Quaternions and cos-sin pairs keep unit length.

        Raises
        ------
        ConfigurationError
            Wrong shape or type, NaN or infinite entries, a quaternion that is not of unit length, or leading axes that
            do not broadcast.

        Examples
        --------
        >>> import delassus as ds
        >>> robot = ds.mechanisms.humanoid()
        >>> dt, v = 1e-3, [0.1] * robot.nv
        >>> q = robot.integrate(robot.neutral(), [dt * x for x in v])
        >>> bool(abs(robot.difference(robot.neutral(), q) - 1e-4).max() < 1e-12)
        True
        """
        qa, va = self.check_configuration(q), self.check_velocity(v)
        shape = common_batch("v", va.shape[:-1], "q", qa.shape[:-1])
        qa, va = np.broadcast_to(qa, (*shape, self.nq)), np.broadcast_to(va, (*shape, self.nv))
        parts = [
            joint_rules.integrate(j.kind, qa[..., sq], va[..., sv])
            for j, sq, sv in zip(self.joints, self.q_slices, self.v_slices, strict=True)
        ]
        return np.concatenate(parts, axis=-1) if parts else qa

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> Array:
        """Velocity that takes ``q0`` to ``q1`` in one second the short way round, as ``pinocchio.difference``.

        Parameters
        ----------
        q0, q1 : (..., nq) array_like

        Returns
        -------
        (..., nv) array
            ``v`` with ``integrate(q0, v)`` the same pose as ``q1``: rad and m; that of a free joint in the axes of its
            body at ``q0``, ``[linear; angular]``.

        Raises
        ------
        ConfigurationError
            Wrong shape or type, NaN or infinite entries, a quaternion that is not of unit length, or leading axes that
            do not broadcast.

        Examples
        --------
        >>> import delassus as ds
        >>> arm = ds.mechanisms.chain(2)
        >>> arm.difference([0.1, 0.2], [0.3, 0.2]).round(6).tolist()
        [0.2, 0.0]
        """
        a, b = self.check_configuration(q0, "q0"), self.check_configuration(q1, "q1")
        shape = common_batch("q1", b.shape[:-1], "q0", a.shape[:-1])
        a, b = np.broadcast_to(a, (*shape, self.nq)), np.broadcast_to(b, (*shape, self.nq))
        parts = [
            joint_rules.difference(j.kind, a[..., sq], b[..., sq])
            for j, sq in zip(self.joints, self.q_slices, strict=True)
        ]
        return np.concatenate(parts, axis=-1) if parts else np.zeros((*shape, 0))

    def check_configuration(self, q: ArrayLike, argument: str = "q") -> Array:
        """Check ``q`` (..., nq) and return it as float64, with quaternions and cos-sin pairs of unit length.

        Raises
        ------
        ConfigurationError
            Wrong shape or type, NaN or infinite entries, or a quaternion whose length is off by more than 1e-6.
        """
        array = self._check_vector(q, self.nq, argument, "nq")
        for joint, sq in zip(self.joints, self.q_slices, strict=True):
            for starts, size, what in ((QUATERNION_START, 4, "quaternion"), (UNIT_CIRCLE_START, 2, "cos-sin pair")):
                if joint.kind in starts:
                    part = slice(sq.start + starts[joint.kind], sq.start + starts[joint.kind] + size)
                    array = normalised(array, part, f"{argument}, the {what} of joint {joint.name!r}")
        return array

    def check_velocity(self, v: ArrayLike, argument: str = "v") -> Array:
        """Check ``v`` (..., nv) and return it as float64; raises `ConfigurationError`."""
        return self._check_vector(v, self.nv, argument, "nv")

    def _check_vector(self, x: ArrayLike, size: int, argument: str, size_name: str) -> Array:
        array = real_array(x)
        if array is None:
            dtype = getattr(x, "dtype", None)
            raise ConfigurationError(
                argument,
                "an array of real numbers",
                shown(x) if dtype is None else f"dtype {dtype}",
                "Pass a NumPy array or a list of numbers.",
            )
        if array.ndim == 0 or array.shape[-1] != size:
            raise ConfigurationError(
                argument,
                f"shape (..., {size}), {size_name} of {self.name!r}",
                f"shape {array.shape}",
                "The last axis holds one state; batches are leading axes.",
            )
        bad = ~np.isfinite(array)
        if bad.any():
            where = tuple(int(i) for i in np.argwhere(bad)[0])
            raise ConfigurationError(
                argument, "finite numbers", f"{array[where]} at index {where}", "Remove NaN and infinite entries."
            )
        return array

    # -- edits (see model/edit.py) ---------------------------------------------------------------------------------

    def attach(
        self,
        link: str,
        other: Tree,
        position: ArrayLike = (0, 0, 0),
        rotation: ArrayLike | None = None,
        prefix: str = "",
    ) -> Tree:
        """Tree with the fixed-base tree ``other`` mounted on a frame of this one.

        Parameters
        ----------
        link : str
            Frame of this tree that carries the other one.
        other : Tree
            Tree whose world becomes that frame; links of ``other`` that are fixed to its world add their inertia.
        position : (3,) array_like
            Origin of ``other``'s world in the frame, in m.
        rotation : (3, 3) array_like, optional
            Orientation of ``other``'s world in the frame.
        prefix : str
            Put before every name of ``other``, so that it can be mounted twice.
        """
        from delassus.model.edit import attach

        return attach(self, link, other, position, rotation, prefix)

    def reroot(self, link: str) -> Tree:
        """Tree of the same floating robot whose free joint carries another link.

        `reroot_configuration` gives the configuration of the new tree at which the robot stands in the same pose.
        """
        from delassus.model.edit import reroot

        return reroot(self, link)

    def reroot_configuration(self, link: str, q: ArrayLike) -> Array:
        """Configuration (..., nq) of ``tree.reroot(link)`` at which the robot stands as it does here at ``q``."""
        from delassus.model.edit import reroot_configuration

        return reroot_configuration(self, link, q)


def total_mass(tree: Tree) -> float:
    """Mass of all moving links, in kg."""
    return float(reduce(lambda total, H: total + H[0, 0], tree.inertias, 0.0))
