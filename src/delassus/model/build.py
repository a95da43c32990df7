"""From raw links and joints to a `Tree`: merge fixed joints, order, place body frames, check every number.

Every loader ends here. A description is a list of `RawLink` and `RawJoint` in the description's own frames.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from delassus.errors import ModelError, shown, warn
from delassus.model.inertia import inertia_defects, move_inertia, spatial_inertia
from delassus.model.joints import Joint, JointKind
from delassus.model.rotations import Array, exact_quarter_turns, rotation_between
from delassus.model.tree import WORLD, Placement, Tree

Root = Literal["fixed", "floating"]
Check = Literal["warn", "refuse"]

FIXED = None
"""Kind of a raw joint that does not move."""

LARGEST = 1e30
"""Numbers of a description beyond this (SI units) are refused: their products would overflow."""

_GROUND = "\0"
"""Parent of the root link while a tree is built; a robot may have a link of its own that is named "world"."""


@dataclass(frozen=True, slots=True)
class RawLink:
    """A link as described: mass, centre of mass and rotational inertia about it, in the link's own frame."""

    name: str
    mass: float = 0.0
    com: Array = field(default_factory=lambda: np.zeros(3))
    inertia: Array = field(default_factory=lambda: np.zeros((3, 3)))


@dataclass(frozen=True, slots=True)
class RawJoint:
    """A joint as described: placement in the parent link's frame, then motion about ``axis`` (``kind`` None: fixed).

    ``child_position`` is the origin of the child link's frame in the frame that moves. Armature, limits and damping are
    one number, or one for each degree of freedom.
    """

    name: str
    kind: JointKind | None
    parent: str
    child: str
    position: Array = field(default_factory=lambda: np.zeros(3))
    rotation: Array = field(default_factory=lambda: np.eye(3))
    axis: Array = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))
    armature: float | Array = 0.0
    lower: float | Array = -np.inf
    upper: float | Array = np.inf
    damping: float | Array = 0.0
    child_position: Array = field(default_factory=lambda: np.zeros(3))


def build_tree(
    name: str,
    links: Sequence[RawLink],
    joints: Sequence[RawJoint],
    *,
    root: Root = "fixed",
    sort_children: bool = False,
    keep_order: bool = False,
    check_inertia: Check = "warn",
    root_joint_name: str = "root_joint",
) -> Tree:
    """Build a tree from a description.

    Parameters
    ----------
    name : str
        Name of the robot.
    links, joints : sequences
        The description. The one link without a parent is the root.
    root : {"fixed", "floating"}
        Whether the root link is fixed to the world or carried by a free joint.
    sort_children : bool
        Visit the children of a link in the order of their joints' names, as URDF readers do; else in the order given.
    keep_order : bool
        Number the joints in the order given, in which parents come before children; else depth first.
    check_inertia : {"warn", "refuse"}
        What to do about rotational inertias that no rigid body can have.
    root_joint_name : str
        Name of the free joint of a floating tree; underscores follow where the description has such a joint.

    Raises
    ------
    ModelError
        Names the link or joint that is wrong.
    """
    if root not in ("fixed", "floating"):
        raise ModelError("root", "'fixed' or 'floating'", shown(root), "Choose one of the two.")
    root_link = find_root(name, links, joints)
    check_masses(links, check_inertia)
    if root == "floating":
        root_joint_name = unique_name(root_joint_name, {joint.name for joint in joints})
        joints = [RawJoint(root_joint_name, JointKind.FREE, _GROUND, root_link), *joints]
    else:
        joints = [RawJoint(f"world_to_{root_link}", FIXED, _GROUND, root_link), *joints]

    raw_links = {link.name: link for link in links}

    link_names: list[str] = []
    tree_joints: list[Joint] = []
    parents: list[int] = []
    inertias: list[Array] = []
    frames = {_GROUND: Placement(WORLD, np.eye(3), np.zeros(3))}
    world_inertia = np.zeros((6, 6))
    for raw in joints if keep_order else _depth_first(joints, sort_children):
        at = frames[raw.parent]
        check_numbers(np.append(raw.position, raw.rotation), f"origin of joint {raw.name!r}")
        rotation = exact_quarter_turns(at.rotation @ raw.rotation)
        position = at.position + at.rotation @ raw.position
        if raw.kind is None:
            placement = Placement(at.link, rotation, position + rotation @ raw.child_position)
        else:
            placed, turn = _place_joint(raw, raw.kind, rotation, position)
            link_names.append(raw.child)
            tree_joints.append(placed)
            parents.append(at.link)
            inertias.append(np.zeros((6, 6)))
            placement = Placement(len(tree_joints) - 1, turn.T, turn.T @ raw.child_position)
        frames[raw.child] = placement
        link = raw_links[raw.child]
        own = move_inertia(spatial_inertia(link.mass, link.com, link.inertia), placement.rotation, placement.position)
        if placement.link == WORLD:
            world_inertia = world_inertia + own
        else:
            inertias[placement.link] = inertias[placement.link] + own

    ground = frames.pop(_GROUND)
    frames.setdefault("world", ground)
    tree = Tree(
        name,
        tuple(link_names),
        tuple(tree_joints),
        tuple(parents),
        np.array(inertias).reshape(-1, 6, 6),
        frames,
        world_inertia,
    )
    refuse_massless(tree)
    return tree


def unique_name(wanted: str, taken: set[str]) -> str:
    """``wanted``, followed by underscores while that name is taken; adds it to ``taken``."""
    while wanted in taken:
        wanted += "_"
    taken.add(wanted)
    return wanted


def _depth_first(joints: Sequence[RawJoint], sort_children: bool) -> Iterator[RawJoint]:
    """Visit the joints depth first, from the first one; without recursion, because chains may be long."""
    outgoing: dict[str, list[RawJoint]] = {}
    for joint in joints:
        outgoing.setdefault(joint.parent, []).append(joint)
    if sort_children:
        for siblings in outgoing.values():
            siblings.sort(key=lambda j: j.name)
    pending = [joints[0]]
    while pending:
        joint = pending.pop()
        yield joint
        pending.extend(reversed(outgoing.get(joint.child, [])))


def _place_joint(raw: RawJoint, kind: JointKind, rotation: Array, position: Array) -> tuple[Joint, Array]:
    """Turn the joint frame so that the axis is a coordinate axis; returns the joint and that turn."""
    axis, turn = 2, np.eye(3)
    if kind in (JointKind.REVOLUTE, JointKind.COS_SIN, JointKind.PRISMATIC, JointKind.PLANAR):
        direction = np.asarray(raw.axis, dtype=float)
        check_numbers(direction, f"axis of joint {raw.name!r}")
        length = float(np.linalg.norm(direction))
        if length < 1e-9:
            raise ModelError(
                f"axis of joint {raw.name!r}", "a vector that is not zero", str(raw.axis), "Give the joint an axis."
            )
        direction = direction / length
        axis = 2 if kind is JointKind.PLANAR else int(np.argmax(np.abs(direction)))
        turn = exact_quarter_turns(rotation_between(np.eye(3)[axis], direction))
    check_numbers(np.atleast_1d(raw.armature), f"armature of joint {raw.name!r}")
    nv = kind.nv
    joint = Joint(
        name=raw.name,
        kind=kind,
        axis=axis,
        rotation=exact_quarter_turns(rotation @ turn),
        position=position,
        armature=np.full(nv, raw.armature),
        lower=np.full(nv, raw.lower),
        upper=np.full(nv, raw.upper),
        damping=np.full(nv, raw.damping),
    )
    return joint, turn


def find_root(name: str, links: Sequence[RawLink], joints: Sequence[RawJoint]) -> str:
    """Check that the links form one tree and return its root; names the link or joint that breaks it."""
    what = f"robot {name!r}"
    if not links:
        raise ModelError(what, "at least one link", "none", "Check that this file describes a robot.")
    for kind, names in (("link", [x.name for x in links]), ("joint", [x.name for x in joints])):
        twice = [n for n, count in Counter(names).items() if count > 1]
        if twice:
            raise ModelError(what, f"{kind} names that are unique", f"{twice[0]!r} twice", f"Rename one {kind}.")
    known = {link.name for link in links}
    carrier: dict[str, RawJoint] = {}
    for joint in joints:
        for role, link in (("parent", joint.parent), ("child", joint.child)):
            if link not in known:
                raise ModelError(
                    f"joint {joint.name!r}",
                    f"a {role} link that exists",
                    repr(link),
                    "Add the link or correct the name.",
                )
        if joint.child in carrier:
            raise ModelError(
                f"link {joint.child!r}",
                "one parent joint",
                f"two, {carrier[joint.child].name!r} and {joint.name!r}",
                "Describe a closed loop by a constraint between two links instead.",
            )
        carrier[joint.child] = joint
    roots = [link.name for link in links if link.name not in carrier]
    if len(roots) > 1:
        shown = ", ".join(repr(r) for r in roots[:4])
        raise ModelError(what, "one root link", f"{len(roots)} ({shown})", "Connect them with joints.")
    reached = set(roots)
    children: dict[str, list[str]] = {}
    for joint in joints:
        children.setdefault(joint.parent, []).append(joint.child)
    pending = list(roots)
    while pending:
        for child in children.get(pending.pop(), []):
            reached.add(child)
            pending.append(child)
    cyclic = [link.name for link in links if link.name not in reached]
    if cyclic:
        joint = carrier[cyclic[0]]
        raise ModelError(
            f"joint {joint.name!r}",
            "links that form a tree",
            f"a cycle through link {cyclic[0]!r}",
            "Describe a closed loop by a constraint between two links instead.",
        )
    return roots[0]


def check_numbers(numbers: Array, argument: str) -> None:
    """Refuse numbers that are not finite or beyond `LARGEST`."""
    fine = np.abs(numbers) < LARGEST
    if not fine.all():
        raise ModelError(argument, f"finite numbers below {LARGEST:g}", f"{numbers[~fine][0]:g}", "Correct them.")


def check_masses(links: Sequence[RawLink], check_inertia: Check) -> None:
    """Refuse masses and inertias that are negative or not finite; warn of (or refuse) unphysical inertias."""
    if check_inertia not in ("warn", "refuse"):
        raise ModelError("check_inertia", "'warn' or 'refuse'", shown(check_inertia), "Choose one of the two.")
    defects: list[str] = []
    for link in links:
        numbers = np.concatenate([[link.mass], np.ravel(link.com), np.ravel(link.inertia)])
        check_numbers(numbers, f"inertial of link {link.name!r}")
        if link.mass < 0:
            raise ModelError(
                f"mass of link {link.name!r}", "a mass of at least 0 kg", f"{link.mass:g}", "Correct the mass."
            )
        defect = inertia_defects(link.inertia)
        if defect:
            defects.append(f"{link.name} ({defect})")
    if not defects:
        return
    if check_inertia == "refuse":
        raise ModelError(
            f"inertia of link {defects[0].split(' (')[0]!r}",
            "one that a rigid body can have",
            ", ".join(defects),
            "Correct the inertia, or load with check_inertia='warn'.",
        )
    warn(
        f"{len(defects)} link(s) have an inertia that no rigid body can have: {', '.join(defects)}. "
        "The numbers are used as they are; check_inertia='refuse' makes this an error."
    )


def refuse_massless(tree: Tree) -> None:
    """Raise if a joint moves nothing that has inertia: the mass matrix would be singular.

    Runs the articulated-body sweep at one fixed generic configuration (rigid-body dynamics text: `D` must be positive).
    """
    from delassus.model.kinematics import relative_transforms

    X = relative_transforms(tree, tree.random(20240229))
    articulated = [H.copy() for H in tree.inertias]
    composite = [H.copy() for H in tree.inertias]
    for i in tree.leaves_to_root():
        joint, axes = tree.joints[i], list(tree.joints[i].motion_axes)
        U = articulated[i][:, axes]
        D = U[axes] + np.diag(joint.armature)
        size = max(float(np.max(np.abs(composite[i][axes][:, axes]))), float(np.max(joint.armature)), 1e-30)
        least = np.linalg.eigvalsh(D)[0]
        if least <= 1e-12 * size:
            came, means = ("a negative one", "indefinite") if least < -1e-12 * size else ("none", "singular")
            raise ModelError(
                f"joint {joint.name!r}",
                "a subtree with inertia about every degree of freedom",
                f"{came} behind link {tree.link_names[i]!r} (the mass matrix is {means})",
                "Give the links mass and inertia, add armature, or make the joint fixed.",
            )
        p = tree.parents[i]
        if p != WORLD:
            articulated[p] += X[i].T @ (articulated[i] - U @ np.linalg.solve(D, U.T)) @ X[i]
            composite[p] += X[i].T @ composite[i] @ X[i]
