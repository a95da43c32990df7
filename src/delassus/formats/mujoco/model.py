"""MuJoCo: ``mujoco.MjModel`` → `Tree`, and states in both directions, batched over leading axes.

Links and degrees of freedom keep MuJoCo's order. A body with several joints becomes as many links, all but the last of
them without mass; the last has the body's name. A mocap body is on the world, where the model puts it; scenes move it.

The layouts of ``qpos`` and ``q`` and of ``qvel`` and ``v`` are the same but for two things: MuJoCo's quaternions are
``[w x y z]``, ours ``[x y z w]``; and the linear velocity of a free joint is in the world's axes there, in the body's
here (its angular velocity is in the body's axes in both). Its armature is along the axes of its velocity there, so that
of linear directions it is `Joint.armature_is_straight`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from delassus.errors import ConfigurationError, ModelError, shown
from delassus.formats.features import FROM_MJCF, JOINTS, MJCF, check_joint, omitted
from delassus.formats.mujoco.actuators import actuators_of, follows_control, gravity_compensation_of
from delassus.formats.mujoco.equalities import constraints_of, rotation_of, springs_of
from delassus.formats.mujoco.named import NamedModel
from delassus.formats.mujoco.sensors import sensors_of
from delassus.model.description import FIXED, Check, RawJoint, RawLink, unique_name
from delassus.model.edit.build import build_tree
from delassus.model.keyframe import Keyframe
from delassus.model.kinematics import check_states
from delassus.model.tree import Tree
from delassus.spatial.joint_kinds import BALL, FREE, PRISMATIC, REVOLUTE, JointKind
from delassus.spatial.joints import Joint
from delassus.spatial.numpy_ops import NUMPY, stacked
from delassus.spatial.rotations import Array, quaternion_to_matrix, rotation_about

SHORTEST_QUATERNION = 1e-15
"""MuJoCo reads a quaternion shorter than this as no rotation; here it is refused."""


def tree_from_mujoco(given: Any, check_inertia: Check = "warn", source: str = "") -> Tree:
    """Tree of a compiled MuJoCo model, whose numbers are used as they are now, edits included.

    Bodies and sites are frames. Angles and lengths equal ``qpos``: the reference ``qpos0`` is part of the fixed
    placements. Bodies and joints without a name are called ``body<id>`` and ``joint<id>``.

    Raises
    ------
    ModelError
        Not a model; a free joint whose armature differs between linear directions; links whose
        mass matrix is singular. Names the culprit.
    MissingDependencyError
        MuJoCo is not installed.
    """
    model = NamedModel(given)
    kinds = {word: kind for kind, word in JOINTS[MJCF].items()}
    body_names, joint_names = model.names_of("body"), model.names_of("joint")
    armature, coupling = _armature(model)
    frames, carriers = set(body_names), set(joint_names)

    with np.errstate(invalid="ignore"):  # numbers that are not finite are refused by name below
        R = rotation_of(model.body_iquat)
        inertias = R * model.body_inertia[:, None, :] @ np.swapaxes(R, 1, 2)
    links: list[RawLink] = []
    joints: list[RawJoint] = []
    for body, name in enumerate(body_names):
        own = RawLink(name, float(model.body_mass[body]), model.body_ipos[body].copy(), inertias[body])
        parent = body_names[model.body_parentid[body]]
        position, rotation = model.body_pos[body].copy(), rotation_of(model.body_quat[body])
        first = int(model.body_jntadr[body])
        ids = range(first, first + int(model.body_jntnum[body]))
        for j in ids:
            last = j == ids[-1]
            child = name if last else unique_name(f"{name}:{joint_names[j]}", frames)
            kind = kinds[model.joint_types[j]]
            joints.append(_joint(model, j, kind, joint_names[j], armature, parent, child, (rotation, position)))
            links.append(own if last else RawLink(child))
            parent, position, rotation = child, np.zeros(3), np.eye(3)
        if not ids:
            links.append(own)
            if body:
                joints.append(RawJoint(unique_name(f"{name}:fixed", carriers), FIXED, parent, name, position, rotation))
    led = {body_names[body]: body_names[root] for body, root in model.moved_bodies().items()}
    for site, name in enumerate(model.given_names("site")):
        if name and name not in frames:
            led[name] = led.get(body_names[model.site_bodyid[site]], "")
            frames.add(name)
            links.append(RawLink(name))
            parent, R = body_names[model.site_bodyid[site]], rotation_of(model.site_quat[site])
            carrier = unique_name(f"{name}:fixed", carriers)
            joints.append(RawJoint(carrier, FIXED, parent, name, model.site_pos[site].copy(), R))
    title = bytes(model.names).split(b"\0", 1)[0].decode(errors="replace")
    tree = build_tree(title, links, joints, keep_order=True, check_inertia=check_inertia, source=source)
    tree = replace(tree, frames={name: replace(at, moved_by=led.get(name, "")) for name, at in tree.frames.items()})
    actuators, other_actuators = actuators_of(model)
    constraints, other_equalities = constraints_of(model, tree)
    springs, other_tendons, free_tendons = springs_of(model, tree)
    balanced, unbalanced = gravity_compensation_of(model)
    tree = replace(tree, actuators=actuators, constraints=(*constraints, *springs))
    sensors, other_sensors = sensors_of(model, tree)
    others = {"actuators": other_actuators, "equalities": other_equalities, "unbalanced": unbalanced}
    others |= {"sensors": other_sensors, "tendons": other_tendons, "free": free_tendons, "coupling": coupling}
    held, active = _controls(model, tree)
    left = [np.delete(x, at, axis=1) for x, at in ((model.key_ctrl, held), (model.key_act, [*active.values()]))]
    others["uncontrolled"] = [*model.where("key", np.hstack(left).any(axis=1))]
    others["following"] = [tree.actuators[k].name for k in active]
    return replace(
        tree, sensors=sensors, omitted=omitted(FROM_MJCF, model, **others),
        gravity=np.zeros(3) if model.is_disabled("GRAVITY") else np.array(model.opt.gravity),
        gravity_compensation=balanced, keyframes=_keyframes(model, tree),
    )  # fmt: skip


def _controls(model: NamedModel, tree: Tree) -> tuple[list[int], dict[int, int]]:
    """Places of the controls of a tree's actuators among those of a model, whose others may have several or none.

    And by number of actuator, places of the activations that are controls in the tree.
    """
    names = model.names_of("actuator")
    at = getattr(model, "actuator_ctrladr", range(len(names)))
    numbers = [names.index(actuator.name) for actuator in tree.actuators]
    active = {k: int(model.actuator_actadr[a]) for k, a in enumerate(numbers) if follows_control(model, a)}
    return [int(at[a]) for a in numbers], active


def _keyframes(model: NamedModel, tree: Tree) -> dict[str, Keyframe]:
    """``qpos0``, at rest and without controls, and the keyframes."""
    (held, active), led = (
        _controls(model, tree),
        [int(model.body_mocapid[root]) for root in sorted({*model.moved_bodies().values()})],
    )
    out = {"qpos0": Keyframe(configuration_from_mujoco(tree, _finite("qpos0", model.qpos0)))}
    for k, name in enumerate(model.names_of("key")):
        qpos, qvel, ctrl, act = (
            _finite(name, getattr(model, f"key_{what}")[k]) for what in ("qpos", "qvel", "ctrl", "act")
        )
        v = velocity_from_mujoco(tree, qpos, qvel)
        places = np.reshape(_finite(name, model.key_mpos[k]), (-1, 3))[led]
        turns = np.reshape(_finite(name, model.key_mquat[k]), (-1, 4))[led]
        turns = np.roll(turns, -1, axis=1) / np.linalg.norm(turns, axis=1, keepdims=True)
        poses = np.hstack([places, turns]).ravel()
        ctrl = ctrl[held]
        ctrl[[*active]] = act[[*active.values()]]
        out[name] = Keyframe(configuration_from_mujoco(tree, qpos), v, ctrl, act, poses)
    return out


def _finite(keyframe: str, numbers: Array) -> Array:
    if not np.isfinite(numbers).all():
        raise ModelError(f"keyframe {keyframe!r}", "finite numbers", shown(numbers), "Correct its numbers.")
    return np.array(numbers)


def _armature(model: NamedModel) -> tuple[Array, list[str]]:
    """Armature (nv,) of each degree of freedom; that of actuators acts on their joint with the gear ratio squared.

    And names of tendons whose armature couples joints through the mass matrix.
    """
    armature = np.array(model.dof_armature)
    on_tendon = np.array(model.tendon_armature) if hasattr(model, "tendon_armature") else np.zeros(model.ntendon)
    for a in np.flatnonzero(getattr(model, "actuator_armature", ())):  # actuators have none before MuJoCo 4
        gear = float(model.actuator_gear[model.actuator_outadr[a], 0])
        reflected = float(model.actuator_armature[a]) * gear * gear
        transmission, target = model.word("mjtTrn", model.actuator_trntype[a]), model.actuator_trnid[a, 0]
        if transmission in ("joint", "jointinparent"):
            armature[model.dof_jntid == target] += reflected
        elif transmission == "tendon":
            on_tendon[target] += reflected
    coupling = list[str]()
    for t in np.flatnonzero(on_tendon).tolist():
        ratios = {j: x for j, x in (model.fixed_tendon(t) or {}).items() if x}
        if len(ratios) == 1:  # of one joint alone
            ((joint, ratio),) = ratios.items()
            armature[model.dof_jntid == joint] += ratio * ratio * on_tendon[t]
        else:
            coupling.append(model.names_of("tendon")[t])
    return armature, coupling


def _joint(
    model: NamedModel,
    j: int,
    kind: JointKind,
    name: str,
    armature: Array,
    parent: str,
    child: str,
    pose: tuple[Array, Array],
) -> RawJoint:
    """Joint ``j`` between two links; before it moves, the child has the pose (rotation, position) in the parent."""
    dofs = slice(int(model.jnt_dofadr[j]), int(model.jnt_dofadr[j]) + kind.nv)
    rotation, position = pose
    anchor, axis = np.array(model.jnt_pos[j]), np.array(model.jnt_axis[j])
    reference = float(model.qpos0[model.jnt_qposadr[j]])
    lower, upper = -np.inf, np.inf
    if kind is FREE:  # its configuration is the pose in the world, wherever the body was placed
        rotation, position, anchor = np.eye(3), np.zeros(3), np.zeros(3)
    if kind is REVOLUTE:
        position, rotation = position + rotation @ anchor, rotation @ rotation_about(axis, -reference)
    elif kind is PRISMATIC:
        position = position + rotation @ (anchor - reference * axis)
    else:
        position = position + rotation @ anchor
    has_limits = model.jnt_limited[j] and not model.is_disabled("LIMIT", "CONSTRAINT")
    if has_limits and kind.nq == 1:
        lower, upper = (float(x) for x in model.jnt_range[j])
    stiffness = 0.0 if model.is_disabled("SPRING", "PASSIVE") else float(model.jnt_stiffness[j])
    rest = np.array(model.qpos_spring[model.jnt_qposadr[j] :][: kind.nq])
    if kind.has_quaternion:
        quaternion = np.roll(rest[-4:], -1) / np.linalg.norm(rest[-4:])
        turn = stacked(BALL.difference(NUMPY, BALL.neutral, quaternion.tolist()), ())
        rest = np.concatenate([rest[:-4], turn]) if stiffness else np.zeros(kind.nv)
    has_friction = not model.is_disabled("FRICTIONLOSS", "CONSTRAINT")
    effort = np.abs(model.jnt_actfrcrange[j]).min() if model.jnt_actfrclimited[j] else np.inf
    return RawJoint(
        name, kind, parent, child, position, rotation, axis, armature=armature[dofs], lower=lower, upper=upper,
        damping=np.array(model.dof_damping[dofs]) * (not model.is_disabled("DAMPER", "PASSIVE")),
        friction=np.array(model.dof_frictionloss[dofs]) * has_friction,
        stiffness=stiffness, rest_position=rest, effort_limit=effort, child_position=-anchor,
        armature_is_straight=kind is FREE,
    )  # fmt: skip


# -- states --------------------------------------------------------------------------------------------------------


def configuration_from_mujoco(tree: Tree, qpos: ArrayLike) -> Array:
    """Configuration ``q`` (..., nq) of the tree at MuJoCo's ``qpos`` (..., nq).

    Quaternions ``[w x y z]`` become ``[x y z w]`` of unit length: MuJoCo reads them whatever their length.

    Raises
    ------
    ModelError
        The tree has a joint that MuJoCo does not know.
    ConfigurationError
        Wrong shape or type, NaN or infinite entries, or a quaternion of zeros.

    Examples
    --------
    >>> import delassus as ds
    >>> base = ds.mechanisms.chain(1, root="floating")
    >>> configuration_from_mujoco(base, [0, 0, 1, 2, 0, 0, 0, 0.5])
    array([0. , 0. , 1. , 0. , 0. , 0. , 1. , 0.5])
    """
    q = check_states(tree, qpos, "qpos", "nq").copy()
    for joint, part, _ in _quaternions(tree):
        length = np.linalg.norm(q[..., part], axis=-1, keepdims=True)
        if np.any(length < SHORTEST_QUATERNION):
            raise ConfigurationError(
                f"qpos, the quaternion of joint {joint.name!r}",
                "one that is not zero",
                "zeros",
                "No rotation is [1 0 0 0].",
            )
        q[..., part] = np.roll(q[..., part] / length, -1, axis=-1)
    return q


def configuration_to_mujoco(tree: Tree, q: ArrayLike) -> Array:
    """MuJoCo's ``qpos`` (..., nq) at the configuration ``q`` (..., nq) of the tree.

    Raises
    ------
    ModelError
        The tree has a joint that MuJoCo does not know.
    ConfigurationError
        Wrong shape or type, NaN or infinite entries, or a quaternion that is not of unit length.
    """
    qpos = tree.check_configuration(q).copy()
    for _, part, _ in _quaternions(tree):
        qpos[..., part] = np.roll(qpos[..., part], 1, axis=-1)
    return qpos


def velocity_from_mujoco(tree: Tree, qpos: ArrayLike, qvel: ArrayLike) -> Array:
    """Velocity ``v`` (..., nv) of the tree at MuJoCo's ``qpos`` (..., nq) and ``qvel`` (..., nv).

    Takes linear velocities of free joints from the world's axes to the body's. Raises what `configuration_from_mujoco`
    raises.
    """
    T = velocity_map_from_mujoco(tree, configuration_from_mujoco(tree, qpos))
    return np.asarray((T @ tree.check_velocity(qvel, "qvel")[..., None])[..., 0])


def velocity_to_mujoco(tree: Tree, q: ArrayLike, v: ArrayLike) -> Array:
    """MuJoCo's ``qvel`` (..., nv) at the configuration ``q`` (..., nq) and velocity ``v`` (..., nv) of the tree.

    Takes linear velocities of free joints from the body's axes to the world's. Raises what `configuration_to_mujoco`
    raises.
    """
    T = velocity_map_from_mujoco(tree, q)
    return np.asarray((T.mT @ tree.check_velocity(v)[..., None])[..., 0])


def acceleration_from_mujoco(tree: Tree, qpos: ArrayLike, qvel: ArrayLike, qacc: ArrayLike) -> Array:
    """Acceleration ``qdd`` (..., nv) of the tree at MuJoCo's ``qpos`` (..., nq), ``qvel`` and ``qacc`` (..., nv).

    Linear velocities of free joints are along axes of the body, which turn: ``v̇ = Rᵀ a − ω × v``, and MuJoCo's zero
    acceleration is none here. Raises what `configuration_from_mujoco` raises.
    """
    q = configuration_from_mujoco(tree, qpos)
    v = velocity_from_mujoco(tree, qpos, qvel)
    along_axes = (velocity_map_from_mujoco(tree, q) @ tree.check_velocity(qacc, "qacc")[..., None])[..., 0]
    return np.asarray(along_axes - _of_turning_axes(tree, v))


def acceleration_to_mujoco(tree: Tree, q: ArrayLike, v: ArrayLike, qdd: ArrayLike) -> Array:
    """MuJoCo's ``qacc`` (..., nv) at configuration ``q`` (..., nq), velocity ``v`` and acceleration ``qdd`` (..., nv).

    The inverse of `acceleration_from_mujoco`. Raises what `configuration_to_mujoco` raises.
    """
    in_space = tree.check_velocity(qdd, "qdd") + _of_turning_axes(tree, tree.check_velocity(v))
    return np.asarray((velocity_map_from_mujoco(tree, q).mT @ in_space[..., None])[..., 0])


def _of_turning_axes(tree: Tree, v: Array) -> Array:
    """``ω × v`` (..., nv) of linear velocities of free joints, else zero."""
    out = np.zeros_like(v)
    for joint, _, dofs in _quaternions(tree):
        if joint.kind is FREE:
            linear, angular = slice(dofs.start, dofs.start + 3), slice(dofs.start + 3, dofs.stop)
            out[..., linear] = np.cross(v[..., angular], v[..., linear])
    return out


def velocity_map_from_mujoco(tree: Tree, q: ArrayLike) -> Array:
    """Matrix ``T`` (..., nv, nv) with ``v = T qvel`` at the configuration ``q`` (..., nq) of the tree.

    It is orthogonal. MuJoCo's mass matrix is ``Tᵀ M T``, its Jacobians are ``J T``, its generalised forces ``Tᵀ τ``.
    Raises what `configuration_to_mujoco` raises.

    Examples
    --------
    >>> import delassus as ds
    >>> robot = ds.mechanisms.humanoid()
    >>> q = robot.random(0, batch=5)
    >>> T = velocity_map_from_mujoco(robot, q)
    >>> M_mujoco = T.mT @ ds.mass_matrix(robot, q) @ T
    """
    array = tree.check_configuration(q)
    T = np.broadcast_to(np.eye(tree.nv), (*array.shape[:-1], tree.nv, tree.nv)).copy()
    for joint, quaternion, dofs in _quaternions(tree):
        if joint.kind is FREE:
            linear = slice(dofs.start, dofs.start + 3)
            T[..., linear, linear] = quaternion_to_matrix(array[..., quaternion]).mT
    return T


def _quaternions(tree: Tree) -> Iterator[tuple[Joint, slice, slice]]:
    """Joints with a quaternion, where it is in ``q``, and their part of ``v``; refuses joints that MuJoCo has not."""
    for joint, sq, sv in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True):
        check_joint(MJCF, joint)
        if joint.kind.unit is not None:
            yield joint, slice(sq.start + joint.kind.unit.start, sq.stop), sv
