"""Pinocchio: ``pinocchio.Model`` → `Tree` with the same ``q`` and ``v``, and back.

Joints keep the model's order, so that the same vectors go into both. A joint of several hinges (a universal joint, one
of Euler angles, a composite) becomes a chain of links, all but the last of them without mass. The inertia of motors is
what Pinocchio adds to its mass matrix: ``model.armature`` (none of its algorithms reads ``rotorInertia`` and
``rotorGearRatio``). Limits of effort, speed and friction are those of the positive direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from delassus.constraints import JointRows
from delassus.errors import ModelError, require
from delassus.formats.features import JOINTS, PINOCCHIO, omitted
from delassus.model.describe import describe
from delassus.model.description import FIXED, Check, RawJoint, RawLink, Unsupported, judge_omitted, unique_name
from delassus.model.edit.build import build_tree
from delassus.model.keyframe import Keyframe
from delassus.model.tree import Tree
from delassus.spatial.joint_kinds import COS_SIN, FREE, PRISMATIC, REVOLUTE, SCREW, JointKind
from delassus.spatial.rotations import Array, rotation_between

UNIT_AXIS = 1e-6
"""Axes whose length is off by more than this are refused: Pinocchio takes them as they are."""

_KINDS = {word: kind for kind, words in JOINTS[PINOCCHIO].items() for word in words.split()}
"""Kind of each joint that a tree can hold, by Pinocchio's name without ``JointModel``."""

_HINGES: dict[str, Callable[[Any, Any], list[Any]]] = {
    "SphericalZYX": lambda pin, joint: [pin.JointModelRZ(), pin.JointModelRY(), pin.JointModelRX()],
    "Universal": lambda pin, joint: [pin.JointModelRevoluteUnaligned(axis) for axis in (joint.axis1, joint.axis2)],
}
"""Hinges, one on the other, whose angles and their rates are ``q`` and ``v`` of a joint, by its name."""

_CONTINUOUS = """<robot name="r"><link name="a"/><link name="b"/><joint name="j" type="continuous">
<parent link="a"/><child link="b"/><axis xyz="{!r} {!r} {!r}"/></joint></robot>"""
"""URDF of a joint about any axis whose angle is a cosine and a sine."""

_BOUNDS = (("DryFrictionLimit", "friction"), ("EffortLimit", "effortLimit"), ("VelocityLimit", "velocityLimit"))
"""Attributes of a model: after ``lower`` and ``upper``; and those of both directions, before Pinocchio 4."""


def tree_from_pinocchio(model: Any, check_inertia: Check = "warn") -> Tree:
    """Tree of a Pinocchio model, whose numbers are used as they are now, edits included.

    A link is named after the first body that its joint carries (after the joint if it carries none). All bodies are
    frames, and so are joints and other frames of the model whose names are free. Mimic joints have coordinates of their
    own, which the model has not, and ``tree.constraints`` holds them.

    Raises
    ------
    ModelError
        Not a model; a joint that a tree cannot hold; an axis that is not of unit length; links whose mass matrix is
        singular. Names the culprit.
    MissingDependencyError
        Pinocchio is not installed.
    """
    require("pinocchio", "pinocchio", "a tree from a Pinocchio model")
    import pinocchio as pin

    if not isinstance(model, pin.Model):
        raise ModelError(
            "model", "a pinocchio.Model", f"an object of type {type(model).__module__}.{type(model).__name__}",
            "Pass a model whose numbers are floats; of a RobotWrapper, pass its model.",
        )  # fmt: skip
    taken = {frame.name for frame in model.frames if frame.type == pin.FrameType.BODY}
    carried = [_body_at(pin, model, i) or unique_name(model.names[i], taken) for i in range(model.njoints)]
    links = [_link(carried[0], model.inertias[0])]
    joints: list[RawJoint] = []
    mimics: dict[str, JointRows] = {}
    for i in range(1, model.njoints):
        parent, q, v = carried[model.parents[i]], int(model.idx_qs[i]), int(model.idx_vs[i])
        if model.joints[i].shortname() == "JointModelMimic":
            joints.append(_mimic(pin, model, i, parent, carried[i]))
            links.append(_link(carried[i], model.inertias[i]))
            mimics[model.names[i]] = _row_of_mimic(model, i, joints)
            continue
        chain = list(_parts(model.joints[i], model.jointPlacements[i], f"joint {model.names[i]!r}"))
        for k, (part, kind, placement) in enumerate(chain, start=1):
            last = k == len(chain)
            name = model.names[i] if len(chain) == 1 else f"{model.names[i]}:{k}"
            child = carried[i] if last else unique_name(f"{carried[i]}:{k}", taken)
            raw = RawJoint(name, kind, parent, child, placement.translation, placement.rotation)
            joints.append(_with_numbers(pin, model, part, raw, q, v))
            links.append(_link(child, model.inertias[i] if last else pin.Inertia.Zero()))
            parent, q, v = child, q + kind.nq, v + kind.nv
    used = {joint.name for joint in joints}
    for frame in _other_frames(pin, model, {link.name for link in links}, taken):
        links.append(RawLink(frame.name))
        name, parent, place = unique_name(f"{frame.name}:fixed", used), carried[frame.parentJoint], frame.placement
        joints.append(RawJoint(name, FIXED, parent, frame.name, place.translation, place.rotation))
    tree = build_tree(model.name, links, joints, root="fixed", keep_order=True, check_inertia=check_inertia)
    if np.any(model.gravity.angular):
        raise ModelError("gravity of the model", "a linear acceleration", str(model.gravity), "Set its angular to 0.")
    configurations = {
        str(entry.key()): Keyframe(
            tree.check_configuration(
                _with_mimics(tree, entry.data(), mimics), f"reference configuration {entry.key()!r}"
            )
        )
        for entry in model.referenceConfigurations
    }
    return replace(tree, gravity=model.gravity.linear, keyframes=configurations, constraints=tuple(mimics.values()))


def tree_to_pinocchio(tree: Tree, *, unsupported: Unsupported = "warn") -> Any:
    """``pinocchio.Model`` of a tree, with the same ``q`` and ``v``: joints keep their order, whatever it is.

    Each link is a body, and so is each other frame of the tree; inertias are those of the tree, where fixed links are
    part of the link that carries them. Joints, bodies and frames have the poses of the description that was loaded, but
    the frames of planar joints whose axes are not z: Pinocchio takes no others there.

    Where joints are not numbered depth first, as after `Tree.attach` on a link that is no leaf, Pinocchio's functions
    that make the mass matrix (``crba``, ``constraintDynamics``) are wrong, which ``unsupported`` tells; ``rnea`` and
    ``aba`` are right.

    Parameters
    ----------
    tree : Tree
    unsupported : {"warn", "refuse", "ignore"}
        What to do about what a model cannot hold: joints that are not numbered depth first, gravity compensation,
        springs, constraints, actuators, limits of joints of several degrees of freedom.

    Raises
    ------
    ModelError
        With ``unsupported="refuse"``, what a model cannot hold.
    MissingDependencyError
        Pinocchio is not installed.

    Examples
    --------
    >>> import delassus as ds
    >>> model = tree_to_pinocchio(ds.mechanisms.chain(3))
    >>> model.nq, list(model.names)[1:]
    (3, ['link1_joint', 'link2_joint', 'link3_joint'])
    """
    require("pinocchio", "pinocchio", "a Pinocchio model")
    import pinocchio as pin

    judge_omitted(tree.name, PINOCCHIO, omitted(PINOCCHIO, tree, constraints=tree.constraints), unsupported)
    model = pin.Model()
    model.name, model.gravity.linear = tree.name, np.array(tree.gravity)
    links, joints, _ = describe(tree, offsets=False)
    number = {links[0].name: 0}
    at = {links[0].name: pin.SE3.Identity()}  # frame of each link, in that of the joint that moves it
    by_name = {link.name: link for link in links}
    for raw in joints:
        place = at[raw.parent] * pin.SE3(raw.rotation, raw.position)
        if raw.kind is FIXED:
            number[raw.child], at[raw.child] = number[raw.parent], place
            continue
        joint, turn = _model_of_joint(pin, raw)
        number[raw.child] = i = model.addJoint(number[raw.parent], joint, place * turn, raw.name)
        at[raw.child] = turn.inverse()
        model.addJointFrame(i)
        _set_numbers(model, raw, int(model.idx_qs[i]), int(model.idx_vs[i]))
    for name, i in number.items():
        link = by_name[name]
        if link.mass or link.inertia.any():
            model.appendBodyToJoint(i, pin.Inertia(link.mass, link.com, link.inertia), at[name])
        if name in tree.frames and name not in (*tree.joint_names, "universe"):
            model.addBodyFrame(name, i, at[name], 0)
    for name, q in tree.reference_configurations.items():
        model.referenceConfigurations[name] = np.array(q)
    return model


def _model_of_joint(pin: Any, raw: RawJoint) -> tuple[Any, Any]:
    """Pinocchio's joint for a joint, and its frame in that of the link."""
    kind = raw.kind or FREE
    *aligned, other = (getattr(pin, f"JointModel{name}") for name in JOINTS[PINOCCHIO][kind].split())
    k = int(np.argmax(np.abs(raw.axis))) if aligned else 2
    pitch = [raw.pitch] if kind is SCREW else []
    joint = aligned[k](*pitch) if aligned else other()
    if not kind.has_axis or np.array_equal(raw.axis, np.eye(3)[k]):
        return joint, pin.SE3.Identity()
    if kind is COS_SIN:  # which has no constructor in Python
        return pin.buildModelFromXML(_CONTINUOUS.format(*raw.axis.tolist())).joints[1], pin.SE3.Identity()
    if kind.nq == 1:
        return other(raw.axis / np.linalg.norm(raw.axis), *pitch), pin.SE3.Identity()
    return joint, pin.SE3(rotation_between(np.eye(3)[k], raw.axis), np.zeros(3))


def _set_numbers(model: Any, raw: RawJoint, q: int, v: int) -> None:
    """Armature, damping, friction and limits of a joint whose coordinates start at ``q`` and ``v``."""
    dofs = slice(v, v + (raw.kind or FREE).nv)
    model.armature[dofs], model.damping[dofs] = raw.armature, raw.damping
    both = hasattr(model, "upperEffortLimit")  # before Pinocchio 4, there is one number for both directions
    largest = np.finfo(float).max
    for (new, old), values in zip(_BOUNDS, (raw.friction, raw.effort_limit, raw.velocity_limit), strict=True):
        getattr(model, f"upper{new}" if both else old)[dofs] = np.minimum(values, largest)
        if both:
            getattr(model, f"lower{new}")[dofs] = -np.minimum(values, largest)
    if (raw.kind or FREE).nq == 1:
        model.lowerPositionLimit[q] = np.clip(raw.lower, -largest, largest)[0]
        model.upperPositionLimit[q] = np.clip(raw.upper, -largest, largest)[0]


def _body_at(pin: Any, model: Any, joint: int) -> str | None:
    """Name of the first body whose frame is the one that a joint moves."""
    for frame in model.frames:
        if frame.type == pin.FrameType.BODY and frame.parentJoint == joint and frame.placement == pin.SE3.Identity():
            return str(frame.name)
    return None


def _other_frames(pin: Any, model: Any, links: set[str], taken: set[str]) -> Iterator[Any]:
    """Frames that are no links: all bodies, then joints, then others, while their names are free."""
    for frame in model.frames:
        if frame.type == pin.FrameType.BODY and frame.name not in links:
            yield frame
    for frame in sorted(model.frames, key=lambda frame: bool(frame.type != pin.FrameType.JOINT)):
        if frame.type != pin.FrameType.BODY and frame.name not in taken:
            taken.add(frame.name)
            yield frame


def _link(name: str, inertia: Any) -> RawLink:
    return RawLink(name, float(inertia.mass), np.array(inertia.lever), np.array(inertia.inertia))


def _parts(joint: Any, placement: Any, what: str) -> Iterator[tuple[Any, JointKind, Any]]:
    """Joints that a joint is composed of, each with its kind and its placement on the one before."""
    import pinocchio as pin

    name = joint.shortname().removeprefix("JointModel")
    if name in _HINGES:
        for hinge in _HINGES[name](pin, joint.extract()):
            yield hinge, REVOLUTE, placement
            placement = pin.SE3.Identity()
        return
    if name == "Composite":
        composite = joint.extract()
        if not composite.njoints:
            raise ModelError(what, "a composite of one joint or more", "an empty one", "Use a fixed joint.")
        for k, (part, at) in enumerate(zip(composite.joints, composite.jointPlacements, strict=True)):
            yield from _parts(part, at if k else placement * at, what)
        return
    if name not in _KINDS:
        raise ModelError(
            what, f"a joint among {', '.join((*_KINDS, *_HINGES))}, or a composite of these", name,
            "Replace it by joints of these types, for example in a composite.",
        )  # fmt: skip
    yield joint, _KINDS[name], placement


def _with_numbers(pin: Any, model: Any, joint: Any, raw: RawJoint, q: int, v: int) -> RawJoint:
    """A joint with axis and limits, whose coordinates start at ``q`` and whose degrees of freedom start at ``v``."""
    axis, pitch, lower, upper, kind = np.array([0.0, 0.0, 1.0]), 0.0, -np.inf, np.inf, raw.kind or FREE
    if kind.nv == 1:
        S = _screw(pin, model, joint)
        axis = S[:3] if kind is PRISMATIC else S[3:]
        pitch = float(S[:3] @ S[3:])
        if not abs(np.linalg.norm(axis) - 1.0) < UNIT_AXIS:
            raise ModelError(f"axis of joint {raw.name!r}", "a vector of unit length", str(axis), "Normalise it.")
    if kind.nq == 1:
        lower, upper = float(model.lowerPositionLimit[q]), float(model.upperPositionLimit[q])
    dofs = slice(v, v + kind.nv)
    friction, effort, velocity = _in_positive_direction(model, dofs)
    return replace(
        raw, axis=axis, armature=np.array(model.armature[dofs]), lower=lower, upper=upper,
        damping=np.array(model.damping[dofs]), friction=friction, effort_limit=effort, velocity_limit=velocity,
        pitch=pitch,
    )  # fmt: skip


def _screw(pin: Any, model: Any, joint: Any) -> Array:
    """Motion (6,) of a joint of one degree of freedom: the one place where every such joint tells its axis."""
    data = joint.createData()
    joint.calc(data, pin.neutral(model))
    return np.ravel(data.S)


def _mimic(pin: Any, model: Any, i: int, parent: str, child: str) -> RawJoint:
    """Mimic joint ``i``, which has no numbers of its own in a model."""
    S, scaling, place = _screw(pin, model, model.joints[i]), model.joints[i].extract().scaling, model.jointPlacements[i]
    if not S.any():
        raise ModelError(
            f"joint {model.names[i]!r}", "a mimic joint that moves", f"one of scaling {scaling:g}", "Make it fixed."
        )
    S, pitch = S / scaling, float(S[:3] @ S[3:]) / scaling**2
    kind, axis = (SCREW if pitch else REVOLUTE, S[3:]) if S[3:].any() else (PRISMATIC, S[:3])
    return RawJoint(model.names[i], kind, parent, child, place.translation, place.rotation, axis, pitch=pitch)


def _row_of_mimic(model: Any, i: int, joints: list[RawJoint]) -> JointRows:
    """``q_i = scaling q + offset`` of the joint that joint ``i`` follows, which is among ``joints``."""
    leader = model.names[model.mimicked_joints[list(model.mimicking_joints).index(i)]]
    kinds = {raw.name: raw.kind for raw in joints}
    if (kind := kinds.get(leader)) is FIXED or kind.nq != 1:
        raise ModelError(
            f"joint {model.names[i]!r}", "a mimic joint that follows a revolute, prismatic or screw one", f"{leader!r}",
            "Build the model without mimic joints, and pass JointRows.",
        )  # fmt: skip
    rule = model.joints[i].extract()
    return JointRows({model.names[i]: 1.0, leader: -rule.scaling}, rest=rule.offset)


def _with_mimics(tree: Tree, q: Array, mimics: Mapping[str, JointRows]) -> Array:
    """Configuration of a model with the coordinates of mimic joints put in."""
    out, start = np.zeros(tree.nq), 0
    for joint, part in zip(tree.joints, tree.q_slices, strict=True):
        if joint.name not in mimics:
            out[part], start = q[start : start + joint.nq], start + joint.nq
    for name, row in mimics.items():  # each after the joint that it follows
        (follower,), (leader, factor) = row.rows[0][name], next((n, x) for n, x in row.rows[0].items() if n != name)
        out[tree.q_index(name)] = (row.rest - factor * out[tree.q_index(leader)]) / follower
    return out


def _in_positive_direction(model: Any, dofs: slice) -> list[Array]:
    """Friction, effort and velocity limits; before Pinocchio 4, there is one number for both directions."""
    names = [f"upper{new}" if hasattr(model, f"upper{new}") else old for new, old in _BOUNDS]
    return [np.array(getattr(model, name)[dofs]) for name in names]
