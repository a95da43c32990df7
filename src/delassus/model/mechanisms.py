"""Mechanisms made by rule: those that the papers study, and a humanoid, so that everything runs without robot files.

Every link is a solid rod or box of plausible mass and inertia. Consecutive axes of the chains are neither parallel nor
at right angles, so that no structural zero flatters an algorithm; link lengths vary a little for the same reason.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from delassus.errors import ModelError, shown
from delassus.model.check import check_flag, check_names, check_vector, is_whole, real_array
from delassus.model.description import LARGEST, RawJoint, RawLink, Root
from delassus.model.edit.build import build_tree
from delassus.model.tree import WORLD, Placement, Tree
from delassus.spatial.joint_kinds import REVOLUTE
from delassus.spatial.rotations import Array, rotation_about
from delassus.version import renamed

__all__ = ["asimo", "chain", "comb", "dual_arm", "free_body", "humanoid", "ladder", "pendulum", "star", "stem"]

if not TYPE_CHECKING:  # type checkers report names that are not there

    def __getattr__(name: str) -> object:
        return renamed(f"mechanisms.{name}")


MOST_LINKS = 10**6
"""Of a part of a mechanism: more would be a slip, and never end."""

_AXES = {"x": np.array([1.0, 0.0, 0.0]), "y": np.array([0.0, 1.0, 0.0]), "z": np.array([0.0, 0.0, 1.0])}


class _Sketch:
    """A description under construction."""

    def __init__(self, name: str, armature: float = 0.0) -> None:
        """``armature`` of every joint (kg·m²)."""
        self.name, self.armature = name, armature
        self.links: list[RawLink] = []
        self.joints: list[RawJoint] = []

    def body(self, name: str, mass: float, size: Sequence[float], com: Sequence[float] = (0, 0, 0)) -> str:
        """Add a solid box of ``size`` (m) and return its name."""
        x, y, z = (float(s) for s in size)
        inertia = mass / 12 * np.diag([y * y + z * z, x * x + z * z, x * x + y * y])
        self.links.append(RawLink(name, mass, np.array(com, dtype=float), inertia))
        return name

    def joint(
        self, parent: str, child: str, axis: str, position: Sequence[float], rotation: Array | None = None
    ) -> None:
        """Add a revolute joint named after its child."""
        R, p = np.eye(3) if rotation is None else rotation, np.array(position, float)
        self.joints.append(
            RawJoint(f"{child}_joint", REVOLUTE, parent, child, p, R, _AXES[axis], armature=self.armature)
        )

    def fix(self, parent: str, child: str, position: Sequence[float] = (0, 0, 0), suffix: str = "mount") -> None:
        """Add a joint that does not move."""
        self.joints.append(RawJoint(f"{child}_{suffix}", None, parent, child, np.array(position, float)))

    def chain(self, base: str, prefix: str, n: int, start: Sequence[float] = (0, 0, 0), angle: float = 0.0) -> str:
        """Add ``n`` rods in a row, in frames of Denavit and Hartenberg: each axis is z, each twist is ±1 rad."""
        parent, position = base, start
        for k in range(n):
            length = 0.25 + 0.05 * math.cos(1.7 * k + angle)
            mass = 1.5 + 0.3 * math.sin(k + angle)
            rod = self.body(f"{prefix}{k + 1}", mass, (length, 0.06, 0.05), (length / 2, 0, 0))
            twist = rotation_about(_AXES["x"], 1.0 if k % 2 else -1.0)
            if k == 0:
                twist = rotation_about(_AXES["z"], angle) @ twist
            self.joint(parent, rod, "z", position, twist)
            parent, position = rod, (length, 0, 0)
        return parent

    def chains_around(self, base: str, prefix: str, n: int, length: int, radius: float, first: float = 0.0) -> None:
        """Add ``n`` chains on a circle about z; the first starts at the angle ``first``."""
        for b in range(n):
            angle = 2 * math.pi * b / n + first
            start = (radius * math.cos(angle), radius * math.sin(angle), 0.0)
            self.chain(base, f"{prefix}{b + 1}_", length, start, angle)

    def limb(self, base: str, prefix: str, n: int, start: Sequence[float], axes: str, mass: float, step: float) -> str:
        """Add ``n`` boxes along z that rotate about the given axes, one after the other; returns the last one."""
        parent, position = base, start
        for k in range(n):
            share = mass * (1.0 - 0.08 * min(k, 8))
            link = self.body(f"{prefix}{k + 1}", share, (0.07, 0.06, abs(step)), (0.005, 0.0, step / 2))
            self.joint(parent, link, axes[k % len(axes)], position)
            parent, position = link, (0.0, 0.0, step)
        return parent

    def build(self, root: Root) -> Tree:
        """Make the tree."""
        return build_tree(self.name, self.links, self.joints, root=root)


def _count(value: int, argument: str, least: int = 1) -> int:
    if not is_whole(value, least) or value > MOST_LINKS:
        wanted = f"a whole number of at least {least}, and at most {MOST_LINKS:,}"
        raise ModelError(argument, wanted, shown(value), "Pass such a number.")
    return int(value)


def _positive(value: float, argument: str) -> float:
    number = real_array(value)
    if number is None or number.shape != () or not 0 < number < LARGEST:
        raise ModelError(argument, "a positive number", shown(value), "Pass such a number.")
    return float(number)


def chain(n: int, *, root: Root = "fixed") -> Tree:
    """Serial chain of ``n`` revolute joints ([r2] Fig. 4, [LQR] Fig. 4a); links ``link1`` … ``link<n>``.

    Rods of 0.2–0.3 m and 1.2–1.8 kg; the axis of each is z of its frame, rotated by ±1 rad about the rod before it.

    Parameters
    ----------
    n : int
        Number of links, the base not counted.
    root : {"fixed", "floating"}
        Whether the link ``base`` is fixed to the world or rides on a free joint.

    Raises
    ------
    ModelError
        ``n`` is not a whole number of at least 1, or another ``root``.

    Examples
    --------
    >>> import delassus as ds
    >>> ds.mechanisms.chain(30).nv, ds.mechanisms.chain(30, root="floating").nv
    (30, 36)
    """
    sketch = _Sketch(f"chain{_count(n, 'n')}")
    sketch.body("base", 3.0, (0.2, 0.2, 0.2))
    sketch.chain("base", "link", n)
    return sketch.build(root)


def pendulum(n: int, *, length: float = 0.5, mass: float = 1.0) -> Tree:
    """Planar pendulum of ``n`` rods that swing about y and hang along −z; links ``rod1`` … ``rod<n>``.

    The tree of [OS] Table 2; the paper's balls, floor and wall are `delassus.scenes.pendulum`.

    Parameters
    ----------
    n : int
        Number of rods.
    length : float
        Of each rod, in m.
    mass : float
        Of each rod, in kg.

    Raises
    ------
    ModelError
        ``n`` is not a whole number of at least 1; ``length`` or ``mass`` is not positive.

    Examples
    --------
    >>> import delassus as ds
    >>> ds.mechanisms.pendulum(2, length=1.0).link_names
    ('rod1', 'rod2')
    """
    sketch = _Sketch(f"pendulum{_count(n, 'n')}")
    length, mass = _positive(length, "length"), _positive(mass, "mass")
    parent = sketch.body("ceiling", 0.0, (0, 0, 0))
    for k in range(n):
        rod = sketch.body(f"rod{k + 1}", mass, (0.04, 0.04, length), (0, 0, -length / 2))
        sketch.joint(parent, rod, "y", (0, 0, -length if k else 0.0))
        parent = rod
    return sketch.build("fixed")


def free_body(mass: float, inertia: ArrayLike, *, center_of_mass: ArrayLike = (0, 0, 0), name: str = "body") -> Tree:
    """One rigid body on a free joint; its link is called ``name``.

    Parameters
    ----------
    mass : float
        In kg.
    inertia : (3,) or (3, 3) array_like
        Moments of inertia about its centre of mass, along the axes, or the matrix (kg·m²).
    center_of_mass : (3,) array_like
        In the frame of the link (m).
    name : str

    Raises
    ------
    ModelError
        A mass that is not positive, a centre of mass that is not three finite numbers, an inertia that no body has, or
        a name with characters that do not print.

    Examples
    --------
    >>> free_body(2.0, [0.1, 0.1, 0.1]).nv
    6
    """
    check_names("body", [name])
    sketch = _Sketch(name)
    matrix = real_array(inertia)
    if matrix is None or matrix.shape not in ((3,), (3, 3)) or not np.isfinite(matrix).all():
        raise ModelError("inertia", "three moments, or a 3×3 matrix", shown(inertia), "Pass numbers in kg·m².")
    matrix = np.diag(matrix) if matrix.ndim == 1 else matrix
    centre = check_vector(center_of_mass, "center_of_mass")
    sketch.links.append(RawLink(name, _positive(mass, "mass"), centre, matrix))
    return build_tree(name, sketch.links, sketch.joints, root="floating", check_inertia="refuse")


def star(branches: int, length: int, *, root: Root = "floating") -> Tree:
    """A hub with ``branches`` chains of ``length`` links; tips ``branch<b>_<length>``.

    Parameters
    ----------
    branches, length : int
        Number of chains, and of the links of each.
    root : {"fixed", "floating"}
        Whether the link ``hub`` is fixed to the world or rides on a free joint.

    Raises
    ------
    ModelError
        A number that is not a whole one of at least 1, or another ``root``.

    Examples
    --------
    >>> import delassus as ds
    >>> ds.mechanisms.star(3, 5).nv
    21
    """
    sketch = _Sketch(f"star{_count(branches, 'branches')}x{_count(length, 'length')}")
    sketch.body("hub", 10.0, (0.4, 0.4, 0.2))
    sketch.chains_around("hub", "branch", branches, length, 0.2)
    return sketch.build(root)


def stem(length: int, branches: int, branch_length: int = 7, *, root: Root = "floating") -> Tree:
    """Long stem with ``branches`` chains at both ends ([r1] and [r2] Fig. 3a, [LQR] Fig. 2e).

    Parameters
    ----------
    length : int
        Number of stem links, the base ``stem0`` not counted. The stem's last link is ``stem<length>``.
    branches : int
        Number of chains at each end.
    branch_length : int
        Number of links of each chain; tips are ``near<b>_<branch_length>`` and ``far<b>_<branch_length>``.
    root : {"fixed", "floating"}
        Whether the link ``stem0`` is fixed to the world or rides on a free joint.

    Raises
    ------
    ModelError
        A number that is not a whole one of at least 1, or another ``root``.

    Examples
    --------
    >>> import delassus as ds
    >>> ds.mechanisms.stem(20, 4).n_links
    77
    """
    name = f"stem{_count(length, 'length')}_{_count(branches, 'branches')}x{_count(branch_length, 'branch_length')}"
    sketch = _Sketch(name)
    sketch.body("stem0", 5.0, (0.3, 0.3, 0.3))
    last = sketch.chain("stem0", "stem", length)
    sketch.chains_around("stem0", "near", branches, branch_length, 0.15, 0.3)
    sketch.chains_around(last, "far", branches, branch_length, 0.15, 0.3)
    return sketch.build(root)


def ladder(n: int, *, root: Root = "fixed") -> Tree:
    """Two parallel chains of ``n`` links, ``left1`` … and ``right1`` …, whose equal rungs a user welds into loops.

    Takes ``n``, of links of each chain, and ``root`` as `chain` does, and raises what that raises.

    Examples
    --------
    >>> import delassus as ds
    >>> tree = ds.mechanisms.ladder(4)
    >>> rungs = [ds.Weld(f"left{k}", f"right{k}") for k in range(1, 5)]
    >>> tree.nv, sum(rung.size for rung in rungs)
    (8, 24)
    """
    sketch = _Sketch(f"ladder{_count(n, 'n')}")
    sketch.body("base", 5.0, (0.2, 0.6, 0.2))
    sketch.chain("base", "left", n, (0, 0.3, 0))
    sketch.chain("base", "right", n, (0, -0.3, 0))
    return sketch.build(root)


def comb(n: int, *, root: Root = "fixed") -> Tree:
    """Ladder whose rungs end in the world ([LQR] Fig. 4b): a rail of ``3 n`` links, every third one with a rung of 7.

    Links ``rail1`` … ``rail<3n>``, and ``rung<k>_1`` … ``rung<k>_7``; the paper welds the last one of each rung.

    Takes ``n``, of rungs, and ``root`` as `chain` does, and raises what that raises.

    Examples
    --------
    >>> import delassus as ds
    >>> ds.mechanisms.comb(4).nv
    40
    """
    sketch = _Sketch(f"comb{_count(n, 'n')}")
    last = sketch.body("base", 3.0, (0.2, 0.2, 0.2))
    sketch.chain(last, "rail", 3 * n)
    for k in range(1, n + 1):
        sketch.chain(f"rail{3 * k}", f"rung{k}_", 7, (0.25, 0, 0), 0.3)
    return sketch.build(root)


def dual_arm(*, root: Root = "fixed") -> Tree:
    """Dual-arm robot of [OS] Fig. 1 and Table 1: 26 joints on a torso, a head of 4 and arms of 7 with hands of 4.

    A hand has two fingers of a joint and a thumb of two; frames ``left_finger1_tip`` … ``right_thumb_tip`` are their
    tips. The numbers are the paper's; the sizes, masses and motors are plausible ones.

    Takes ``root``, of the link ``torso``, as `chain` does, and raises what that raises.

    Examples
    --------
    >>> import delassus as ds
    >>> ds.mechanisms.dual_arm().nv
    26
    """
    sketch = _Sketch("dual_arm", armature=0.01)
    sketch.body("torso", 20.0, (0.3, 0.4, 0.6), (0, 0, 0.8))
    sketch.limb("torso", "head", 4, (0, 0, 1.25), "zyxy", 0.5, 0.05)
    for side, y in (("left", 0.25), ("right", -0.25)):
        palm = sketch.limb("torso", f"{side}_arm", 7, (0, y, 1.1), "yxzyzyx", 1.2, -0.1)
        for finger, start, joints in (("finger1", 0.04, 1), ("finger2", -0.04, 1), ("thumb", -0.06, 2)):
            at = (start, 0, -0.02 if finger == "thumb" else -0.1)
            last = sketch.limb(palm, f"{side}_{finger}_", joints, at, "x", 0.05, -0.08 / joints)
            tip = sketch.body(f"{side}_{finger}_tip", 0.0, (0, 0, 0))
            sketch.fix(last, tip, (0, 0, -0.08 / joints))
    return sketch.build(root)


def asimo(
    *, arm_dofs: int = 7, leg_dofs: int = 6, hand_dofs: int = 2, arms: int = 2, legs: int = 2, fixed_foot: bool = False
) -> Tree:
    """ASIMO Next-Generation as [EFPA] Fig. 4 models it: 35 bodies, 40 degrees of freedom.

    The torso is the floating base. It carries a head (3), arms of ``arm_dofs`` with a forefinger and a thumb each, and,
    on one joint, the pelvis with the legs. The connectivity is the paper's, whose shares of zeros (§V-C: 67 % of ``J``,
    56 % of ``M``, with four arms and legs 73 %) are those of this base; the lengths and masses are plausible ones.

    Parameters
    ----------
    arm_dofs, leg_dofs : int
        Joints of each arm and leg.
    hand_dofs : int
        2: one joint each for forefinger and thumb. 12: four fingers of three joints each, thumb included.
    arms, legs : int
        Number of arms and legs.
    fixed_foot : bool
        Stand on the first foot: that foot is the fixed base and the chain is re-rooted there.

    Returns
    -------
    Tree
        Frames ``hand<k>``, ``foot<k>``, ``head3``, ``forefinger<k>``, ``thumb<k>`` name the end-effectors.

    Raises
    ------
    ModelError
        A number that is not a whole one of at least 0, or other ``hand_dofs``.

    Examples
    --------
    >>> import delassus as ds
    >>> ds.mechanisms.asimo().n_links
    35
    """
    for value, argument in ((arm_dofs, "arm_dofs"), (leg_dofs, "leg_dofs"), (arms, "arms"), (legs, "legs")):
        _count(value, argument, least=0)
    if not is_whole(hand_dofs) or hand_dofs not in (2, 12):
        raise ModelError("hand_dofs", "2 or 12", shown(hand_dofs), "The paper has these two hands.")
    joints_per_finger, fingers = (1, _FINGERS[::3]) if hand_dofs == 2 else (3, _FINGERS)
    sketch = _Sketch("asimo")
    sketch.body("torso", 12.0, (0.2, 0.35, 0.4), (0, 0, 0.2))
    sketch.body("pelvis", 9.0, (0.2, 0.3, 0.15), (0, 0, -0.1))
    sketch.joint("torso", "pelvis", "z", (0, 0, 0))
    sketch.limb("torso", "head", 3, (0, 0, 0.45), "zyx", 1.2, 0.06)
    for k in range(arms):
        shoulder = (-0.1 * (k // 2), -0.2 if k % 2 else 0.2, 0.38)
        wrist = sketch.limb("torso", f"arm{k + 1}_", arm_dofs, shoulder, "yxzyzyx", 1.3, -0.11)
        hand = sketch.body(f"hand{k + 1}", 0.5, (0.06, 0.08, 0.1), (0, 0, -0.05))
        sketch.fix(wrist, hand)
        for f, finger in enumerate(fingers):
            start = (0.02, 0.02 * (f - 1), -0.1)
            last = sketch.limb(hand, f"{finger}{k + 1}_", joints_per_finger, start, "y", 0.04, -0.03)
            sketch.fix(last, sketch.body(f"{finger}{k + 1}", 0.0, (0, 0, 0)), (0, 0, -0.03), "tip")
    for k in range(legs):
        hip = (-0.12 * (k // 2), -0.1 if k % 2 else 0.1, -0.18)
        ankle = sketch.limb("pelvis", f"leg{k + 1}_", leg_dofs, hip, _LEG, 2.5, -0.14)
        sketch.fix(ankle, sketch.body(f"foot{k + 1}", 0.8, (0.25, 0.1, 0.04), (0.04, 0, -0.05)))
    floating = sketch.build("floating")
    return _standing_on(floating, "foot1") if check_flag("fixed_foot", fixed_foot) else floating


_FINGERS = ("forefinger", "middle", "ring", "thumb")
_LEG = "zxyyyx"


def _standing_on(tree: Tree, link: str) -> Tree:
    """Fixed-base tree of a floating robot that is welded to the ground at ``link``."""
    rooted = tree.reroot(link)
    frames = {name: replace(frame, link=max(frame.link - 1, WORLD)) for name, frame in rooted.frames.items()}
    return replace(
        rooted,
        link_names=rooted.link_names[1:],
        joints=rooted.joints[1:],
        parents=tuple(max(p - 1, WORLD) for p in rooted.parents[1:]),
        inertias=rooted.inertias[1:],
        frames={**frames, "world": Placement(WORLD, np.eye(3), np.zeros(3))},
        world_inertia=rooted.inertias[0],
    )


def humanoid(*, root: Root = "floating") -> Tree:
    """Generic humanoid of 38 degrees of freedom: free base, legs 2×6, torso 2, arms 2×7, grippers 2×1, head 2.

    Frames ``left_foot``, ``right_foot``, ``left_hand``, ``right_hand`` and ``head`` name the end-effectors.

    Takes ``root``, of the link ``pelvis``, as `chain` does, and raises what that raises.

    Examples
    --------
    >>> import delassus as ds
    >>> ds.mechanisms.humanoid().nv
    38
    """
    sketch = _Sketch("humanoid")
    sketch.body("pelvis", 15.0, (0.25, 0.35, 0.2))
    torso = sketch.limb("pelvis", "torso", 2, (0, 0, 0.1), "zy", 9.0, 0.18)
    neck = sketch.limb(torso, "neck", 2, (0.02, 0, 0.4), "yz", 1.5, 0.08)
    sketch.fix(neck, sketch.body("head", 1.0, (0.15, 0.15, 0.2), (0, 0, 0.1)))
    for side, sign in (("left", 1.0), ("right", -1.0)):
        ankle = sketch.limb("pelvis", f"{side}_leg", 6, (-0.02, 0.09 * sign, -0.08), _LEG, 4.0, -0.19)
        sketch.fix(ankle, sketch.body(f"{side}_foot", 1.0, (0.22, 0.1, 0.04), (0.03, 0, -0.02)), (0, 0, -0.09))
        wrist = sketch.limb(torso, f"{side}_arm", 7, (0, 0.2 * sign, 0.3), "zxzyzyx", 2.0, -0.1)
        hand = sketch.body(f"{side}_hand", 0.5, (0.08, 0.08, 0.1), (0, 0, -0.05))
        sketch.fix(wrist, hand, (0, 0, -0.06))
        finger = sketch.body(f"{side}_finger", 0.1, (0.02, 0.06, 0.06), (0, 0, -0.03))
        sketch.joint(hand, finger, "x", (0, 0.03 * sign, -0.1))
    return sketch.build(root)
