"""Links, joints and frames of a robot, and every question about who carries whom."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Any

import numpy as np

from delassus.errors import ConfigurationError, ModelError, shown, unknown_name
from delassus.frozen import BODIES, ByContent, Parts, read_only
from delassus.model.actuators import Actuator
from delassus.model.check import (
    check_choice,
    check_list,
    check_names,
    check_parts,
    finite_array,
    is_text,
    is_whole,
    shape_of,
)
from delassus.model.inertia import parameters_in_frame
from delassus.model.keyframe import Keyframe, Named
from delassus.spatial.joint_kinds import FREE
from delassus.spatial.joints import PER_DOF, Joint
from delassus.spatial.rotations import Array

GRAVITY = (0.0, 0.0, -9.81)
"""Gravity where a description does not say, in m/s², world axes."""

WORLD = -1
"""Index of the world where an index of a link is asked for."""

PLACE, EDIT = "tree.placement(name).link is one.", "Load a tree, or change one with dataclasses.replace."


@dataclass(frozen=True, slots=True, eq=False)
class Placement(ByContent):
    """Placement of a named frame: its link, and its pose in that link's body frame.

    Attributes
    ----------
    link : int
        Index of the link, or `WORLD`.
    rotation : (3, 3) array
        Orientation of the frame in the body frame.
    position : (3,) array
        Origin of the frame in the body frame, in m.
    moved_by : str
        Name of the ``mocap`` body of MJCF, on the world, that carries the frame; empty where there is none.
    """

    link: int
    rotation: Array
    position: Array
    moved_by: str = ""

    def __post_init__(self) -> None:
        self._make_read_only("rotation", "position")


PARTS: dict[str, Callable[[Any], bool]] = {
    "link_names": is_text,
    "joints": lambda x: isinstance(x, Joint),
    "parents": lambda x: is_whole(x, WORLD),
    "actuators": lambda x: isinstance(x, Actuator),
    "constraints": lambda x: hasattr(x, "rows_on_links"),
    "sensors": lambda x: hasattr(x, "kind") and hasattr(x, "size"),
}
"""What sequences of a tree hold."""

NAMED: dict[str, Callable[[Any], bool]] = {
    "frames": lambda x: isinstance(x, Placement),
    "gravity_compensation": lambda x: shape_of(x) == (4,),
    "keyframes": lambda x: isinstance(x, Keyframe) or len(shape_of(x) or ()) == 1,
    "omitted": lambda x: all(map(is_text, check_list("omitted", x, "names", EDIT, ModelError))),
    "joint_frames": is_text,
    "aliases": is_text,
}
"""What mappings of a tree hold."""


@dataclass(frozen=True, slots=True, eq=False)
class Topology(ByContent):
    """Links, joints and frames of a kinematic tree, and its topology; the attributes are those of `Tree`."""

    name: str
    link_names: tuple[str, ...]
    joints: tuple[Joint, ...]
    parents: tuple[int, ...]
    inertias: Array
    frames: Mapping[str, Placement]
    world_inertia: Array = field(default_factory=lambda: np.zeros((6, 6)))
    gravity: Array = field(default_factory=lambda: np.array(GRAVITY))
    gravity_compensation: Mapping[str, Array] = field(default_factory=dict)
    keyframes: Mapping[str, Keyframe] = field(default_factory=dict)
    actuators: tuple[Actuator, ...] = ()
    constraints: tuple[Any, ...] = ()
    sensors: tuple[Any, ...] = ()
    omitted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    joint_frames: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    joint_names: tuple[str, ...] = field(init=False)
    n_links: int = field(init=False)
    nq: int = field(init=False)
    nv: int = field(init=False)
    q_slices: tuple[slice, ...] = field(init=False)
    v_slices: tuple[slice, ...] = field(init=False)
    children: tuple[tuple[int, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        for attribute, is_one in (PARTS | NAMED).items():
            parts = check_parts(attribute, getattr(self, attribute), is_one, EDIT, attribute in NAMED)
            if attribute in PARTS:
                self._set_attributes(**{attribute: parts})
        n = len(self.joints)
        if not len(self.link_names) == len(self.parents) == n or any(p >= i for i, p in enumerate(self.parents)):
            wanted = f"for each of {n} joint(s) a link and its parent before it, or −1, the world"
            raise ModelError("link_names and parents", wanted, shown((self.link_names, self.parents)), EDIT)
        for attribute, shape in (("inertias", (n, 6, 6)), ("world_inertia", (6, 6)), ("gravity", (3,))):
            finite_array(getattr(self, attribute), shape, attribute, EDIT, ModelError)
        joint_names = tuple(j.name for j in self.joints)
        check_names("robot", [self.name])
        check_names("link", self.link_names)
        check_names("joint", joint_names)
        check_names("frame", self.frames)
        check_names("actuator", [actuator.name for actuator in self.actuators])
        check_names("sensor", [sensor.name for sensor in self.sensors])
        check_names("keyframe", self.keyframes)
        self._make_read_only("inertias", "world_inertia", "gravity")
        q_ends = list(accumulate((j.nq for j in self.joints), initial=0))
        v_ends = list(accumulate((j.nv for j in self.joints), initial=0))
        children: list[list[int]] = [[] for _ in range(n)]
        for i, p in enumerate(self.parents):
            if p != WORLD:
                children[p].append(i)
        self._set_attributes(
            frames=MappingProxyType(dict(self.frames)),
            joint_frames=MappingProxyType(dict(self.joint_frames)),
            aliases=MappingProxyType(dict(self.aliases)),
            gravity_compensation=MappingProxyType({k: read_only(x) for k, x in self.gravity_compensation.items()}),
            keyframes=MappingProxyType(
                Named(
                    {
                        name: (x if isinstance(x, Keyframe) else Keyframe(x)).fitted(v_ends[-1], len(self.actuators))
                        for name, x in self.keyframes.items()
                    }
                )
            ),
            sensors=tuple(self.sensors),
            omitted=MappingProxyType({what: tuple(names) for what, names in self.omitted.items()}),
            joint_names=joint_names,
            n_links=n,
            nq=q_ends[-1],
            nv=v_ends[-1],
            q_slices=tuple(slice(a, b) for a, b in pairwise(q_ends)),
            v_slices=tuple(slice(a, b) for a, b in pairwise(v_ends)),
            children=tuple(map(tuple, children)),
        )

    # -- pickling: a mapping proxy does not pickle, and everything derived is derived again ------------------------

    def _parts(self) -> Parts:
        """Rebuild from the defining attributes."""
        defining = (self.name, self.link_names, self.joints, self.parents, self.inertias, dict(self.frames))
        weight = (self.world_inertia, self.gravity, dict(self.gravity_compensation))
        acting = (dict(self.keyframes), self.actuators, self.constraints, self.sensors)
        return type(self), (
            *defining,
            *weight,
            *acting,
            dict(self.omitted),
            dict(self.joint_frames),
            dict(self.aliases),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, n_links={self.n_links}, nq={self.nq}, nv={self.nv})"

    def blocks(self, ties: Iterable[Iterable[int]] = ()) -> list[list[int]]:
        """Links that joints hold together, or that links of one of the ``ties`` do; blocks by their first links."""
        root, wanted = list(range(self.n_links)), "groups of links"
        tied = [self._links("ties", tie) for tie in check_list("ties", ties, wanted, "Such as [(0, 3)].")]

        def top(i: int) -> int:
            while root[i] != i:
                root[i] = root[root[i]]
                i = root[i]
            return i

        for i, parent in enumerate(self.parents):
            if parent != WORLD:
                root[i] = top(parent)
        for tie in tied:
            first, *others = sorted({top(i) for i in tie if i != WORLD}) or [WORLD]
            for other in others:
                root[other] = first
        out: dict[int, list[int]] = {}
        for i in range(self.n_links):
            out.setdefault(top(i), []).append(i)
        return list(out.values())

    def is_free_body(self, link: int) -> bool:
        """Whether a link is a rigid body on its own: on a free joint to the world, without armature and children."""
        if self._links("link", [link]) == [WORLD]:
            return False
        joint, is_alone = self.joints[link], self.parents[link] == WORLD and not self.children[link]
        return joint.kind is FREE and is_alone and not joint.armature.any()

    @property
    def fingerprint(self) -> str:
        """Hash of everything that the dynamics depend on; equal for equal robots in any process."""
        digest = hashlib.sha256()
        digest.update(repr((self.link_names, self.parents)).encode())
        for j in self.joints:
            digest.update(repr((j.name, j.kind.name, j.axis)).encode())
            for a in (j.rotation, j.position, j.armature, j.damping, j.stiffness, j.rest_position, j.effort_limit):
                digest.update(a.tobytes())
            if j.pitch:
                digest.update(repr(j.pitch).encode())
            if j.straight_armature.any():
                digest.update(b"straight armature")
        digest.update(self.inertias.tobytes() + self.gravity.tobytes())
        for name, mass in sorted(self.gravity_compensation.items()):
            digest.update(name.encode() + mass.tobytes())
        for actuator in self.actuators:
            digest.update(repr(actuator._parts()[1]).encode())
        for constraint in self.constraints:
            digest.update(constraint.fingerprint.encode())
        for name in sorted(self.frames):
            placement = self.frames[name]
            digest.update(repr((name, placement.link)).encode())
            digest.update(placement.rotation.tobytes() + placement.position.tobytes())
        own = set(zip(self.joint_names, self.link_names, strict=True))
        if others := sorted(set(self.joint_frames.items()) - own):
            digest.update(repr(others).encode())
        return digest.hexdigest()

    # -- coordinates -----------------------------------------------------------------------------------------------

    def q_index(self, joint: str) -> slice:
        """Index in ``q`` of a joint's coordinates.

        Raises
        ------
        UnknownNameError
            The tree has no such joint; the nearest name is offered.

        Examples
        --------
        >>> import delassus as ds
        >>> robot = ds.mechanisms.humanoid()
        >>> robot.q_index("root_joint"), robot.v_index("root_joint")
        (slice(0, 7, None), slice(0, 6, None))
        """
        return self.q_slices[self._joint_index(joint)]

    def sensor_index(self, sensor: str) -> slice:
        """Index of a sensor's numbers in those of all `sensors`, one after the other; raises as `q_index` does."""
        at = 0
        for x in self.sensors:
            start, at = at, at + x.size(self)
            if isinstance(sensor, str) and x.name == sensor:
                return slice(start, at)
        raise unknown_name("sensor", sensor, [x.name for x in self.sensors])

    def v_index(self, joint: str) -> slice:
        """Index in ``v`` and ``tau`` of a joint's degrees of freedom; raises as `q_index` does."""
        return self.v_slices[self._joint_index(joint)]

    def _joint_index(self, joint: str) -> int:
        joint = self.aliases.get(joint, joint) if isinstance(joint, str) else joint
        if not isinstance(joint, str) or joint not in self.joint_names:
            raise unknown_name("joint name", joint, self.joint_names)
        return self.joint_names.index(joint)

    @property
    def actuated(self) -> Array:
        """Selection matrix ``S`` (k, nv) of the degrees of freedom that motors drive.

        Those of joints that actuators act on; where the description has none, all but those of free joints.

        ``tau = u @ tree.actuated`` are the joint forces (..., nv) of motor forces ``u`` (..., k), and
        ``v @ tree.actuated.T`` the velocities (..., k) of the motors.
        """
        acting = {name for actuator in self.actuators for name in actuator.transmission}
        driven = [j.name in acting if acting else j.kind is not FREE for j in self.joints]
        return np.asarray(np.eye(self.nv)[np.repeat(driven, [j.nv for j in self.joints]).astype(bool)])

    @property
    def independent(self) -> Array:
        """Selection matrix ``S`` (n, nv) of degrees of freedom that determine all others where ``constraints`` hold.

        What actuators drive comes first, then what a free joint does, as far as these are independent of those before,
        then what moves most by itself. ``v @ tree.independent.T`` are the independent velocities (..., n), and
        `delassus.reduced_dynamics` is the map from them to all.

        Raises
        ------
        ConstraintError
            No configuration is found at which the constraints hold.

        Examples
        --------
        >>> import delassus as ds
        >>> ds.mechanisms.chain(3).independent.shape  # nothing holds it
        (3, 3)
        """
        return np.asarray(np.eye(self.nv)[list(BODIES["Tree.independent"](self, self.constraints))])

    @property
    def reference_configurations(self) -> Mapping[str, Array]:
        """Configurations (nq,) of the `keyframes`, by name."""
        return MappingProxyType(Named({name: keyframe.q for name, keyframe in self.keyframes.items()}))

    @property
    def nu(self) -> int:
        """Number of actuators."""
        return len(self.actuators)

    @property
    def report(self) -> dict[str, tuple[str, ...]]:
        """Features of the description that do not act: names by feature.

        First what the tree does not hold, of which `load` warns, then what it holds and only `Simulator` or no function
        acts on.

        Examples
        --------
        >>> import delassus as ds
        >>> ds.mechanisms.humanoid().report
        {}
        """
        kept = {
            "hinges that are part of a ball joint now, of this name": [f"{a} → {b}" for a, b in self.aliases.items()],
            "limits of joints, which act in Simulator and contact steps": [
                j.name for j in self.joints if np.isfinite([*j.lower, *j.upper]).any()
            ],
            "Coulomb friction of joints, which acts in Simulator and contact steps": [
                j.name for j in self.joints if j.friction.any()
            ],
            "effort limits of zero, under which motors have no force": [
                j.name for j in self.joints if not j.effort_limit.all()
            ],
            "velocity limits of joints, which the tree holds": [
                j.name for j in self.joints if np.isfinite(j.velocity_limit).any()
            ],
        }
        return {**self.omitted, **{what: tuple(names) for what, names in kept.items() if names}}

    def per_dof(self, attribute: str) -> Array:
        """Damping, stiffness, … of all degrees of freedom (nv,): an attribute of joints, of `PER_DOF`."""
        check_choice("attribute", attribute, PER_DOF, ConfigurationError)
        return np.concatenate([np.zeros(0), *(getattr(joint, attribute) for joint in self.joints)])

    @property
    def lower(self) -> Array:
        """Lower limits (nv,) of the coordinates of revolute and prismatic joints (rad or m), −∞ where none."""
        return self.per_dof("lower")

    @property
    def upper(self) -> Array:
        """Upper limits (nv,), ∞ where there are none; see `lower`."""
        return self.per_dof("upper")

    @property
    def effort_limit(self) -> Array:
        """Largest forces (nv,) of motors (N·m or N), ∞ where there are none."""
        return self.per_dof("effort_limit")

    @property
    def velocity_limit(self) -> Array:
        """Largest speeds (nv,) of joints (rad/s or m/s), ∞ where there are none."""
        return self.per_dof("velocity_limit")

    def neutral(self) -> Array:
        """Configuration (nq,) with all angles and lengths zero and all rotations the identity."""
        return np.array([x for joint in self.joints for x in joint.kind.neutral])

    @property
    def compensated(self) -> dict[int, tuple[float, Array]]:
        """Mass whose weight is compensated, and its first moment (3,) in the body frame, by link or `WORLD`."""
        out: dict[int, tuple[float, Array]] = {}
        for name, (mass, *centre) in self.gravity_compensation.items():
            at = self.placement(name)
            before, moment = out.get(at.link, (0.0, np.zeros(3)))
            out[at.link] = before + float(mass), moment + mass * (at.position + at.rotation @ centre)
        return out

    @property
    def inertial_parameters(self) -> Array:
        """``[m, m c, Ixx, Ixy, Iyy, Ixz, Iyz, Izz]`` (n, 10) of each link in its own frame (kg, kg·m, kg·m²)."""
        out = np.zeros((self.n_links, 10))
        for i, (name, H) in enumerate(zip(self.link_names, self.inertias, strict=True)):
            at = self.placement(name)
            out[i] = parameters_in_frame(H, at.rotation, at.position)
        return out

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
        return bool(self.joints) and self.joints[0].kind is FREE and self.parents[0] == WORLD

    def _links(self, argument: str, links: Iterable[int]) -> list[int]:
        """Numbers of links, or `WORLD`; or `ConfigurationError`."""
        wanted = f"numbers of links from 0 to {self.n_links - 1}, or −1, the world"
        for link in (given := check_list(argument, links, wanted, PLACE)):
            if not is_whole(link, WORLD) or link >= self.n_links:
                raise ConfigurationError(argument, wanted, shown(link), PLACE)
        return list(given)

    def support(self, link: int) -> tuple[int, ...]:
        """Links from the root to ``link``, both included; empty for the world."""
        path, (link,) = [], self._links("link", [link])
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
        a, b = self._links("a and b", [a, b])
        while a != b:  # the link of the larger index is no ancestor of the other
            a, b = (self.parents[a], b) if a > b else (a, self.parents[b])
        return a

    def supporting_links(self, links: Iterable[int]) -> frozenset[int]:
        """All links on the support of one of ``links``."""
        return frozenset(i for link in self._links("links", links) for i in self.support(link))

    def branching_links(self, ends: Sequence[int]) -> tuple[int, ...]:
        """Links at which supports of several end-effectors, on links ``ends``, or these themselves meet, root first."""
        ends = self._links("ends", ends)
        supporting = self.supporting_links(ends)
        meeting = Counter([*ends, *(self.parents[i] for i in supporting)])
        return tuple(sorted(i for i in supporting if meeting[i] >= 2))

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
        """Placement of the frame of that name, else of the joint; raises `UnknownNameError` with the nearest match."""
        name = self.joint_frames.get(frame, frame) if isinstance(frame, str) and frame not in self.frames else frame
        if not isinstance(name, str) or name not in self.frames:
            raise unknown_name("link or frame name", frame, [*self.frames, *self.joint_frames])
        return self.frames[name]


def check_tree(tree: object) -> None:
    """Refuse what is no tree."""
    if not isinstance(tree, Topology):
        advice = "Load one with delassus.load; of a scene, pass scene.tree and scene.constraints()."
        raise ModelError("tree", "a delassus.Tree", type(tree).__name__, advice)


def characteristic_length(tree: Topology) -> float:
    """Length (m) that turns and slides of a robot compare by.

    It is the radius of gyration of links about their parents' origins, or 1 m of a robot without mass.
    """
    square, mass = 0.0, float(tree.inertias[:, 0, 0].sum())
    for p, joint, H in zip(tree.parents, tree.joints, tree.inertias, strict=True):
        carried = 0.0 if p == WORLD else float(joint.position @ joint.position)
        square += float(np.trace(H[3:, 3:])) / 2.0 + float(H[0, 0]) * carried
    return math.sqrt(square / mass) if mass > 0.0 and square > 0.0 else 1.0
