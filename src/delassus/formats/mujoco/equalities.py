"""Equality constraints of a MuJoCo model, as constraints of a tree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.constraints import Constraint, Frame, JointRows, Point, Weld
from delassus.formats.mujoco.actuators import element_names, fixed_tendon, is_disabled
from delassus.model.rotations import Array, quaternion_to_matrix
from delassus.model.tree import Tree


def active_equalities(mujoco: Any, model: Any) -> NDArray[np.bool_]:
    """Which equality constraints are switched on."""
    return np.asarray(model.eq_active0 != 0) & (not is_disabled(mujoco, model, "EQUALITY", "CONSTRAINT"))


def constraints_of(
    mujoco: Any, model: Any, tree: Tree, body_names: list[str], joint_names: list[str]
) -> tuple[tuple[Constraint, ...], list[str]]:
    """Constraints for the active equalities, and the names of those that a tree cannot hold."""
    names = element_names(mujoco, model, mujoco.mjtObj.mjOBJ_EQUALITY, model.neq, "equality")
    held, others = [], []
    for e in np.flatnonzero(active_equalities(mujoco, model)).tolist():
        kind = int(model.eq_type[e])
        constraint: Constraint | None = None
        if kind in (int(mujoco.mjtEq.mjEQ_CONNECT), int(mujoco.mjtEq.mjEQ_WELD)):
            constraint = _between_bodies(mujoco, model, e, tree, body_names)
        elif kind == int(mujoco.mjtEq.mjEQ_JOINT):
            constraint = _coupling(model, e, *(_joint(model, j, joint_names) for j in _objects(model, e)))
        elif kind == int(mujoco.mjtEq.mjEQ_TENDON):
            constraint = _coupling(model, e, *(_tendon(mujoco, model, t, joint_names) for t in _objects(model, e)))
        if constraint is None:
            others.append(names[e])
        else:
            held.append(constraint)
    return tuple(held), others


def _objects(model: Any, e: int) -> tuple[int, int]:
    """Numbers of what an equality is between; −1 where there is no second one."""
    return int(model.eq_obj1id[e]), int(model.eq_obj2id[e])


def _between_bodies(mujoco: Any, model: Any, e: int, tree: Tree, body_names: list[str]) -> Constraint | None:
    """Two frames that coincide where the file's constraint is fulfilled; None within one rigid body."""
    is_weld = int(model.eq_type[e]) == int(mujoco.mjtEq.mjEQ_WELD)
    pair, data = _objects(model, e), model.eq_data[e]
    if int(model.eq_objtype[e]) == int(mujoco.mjtObj.mjOBJ_SITE):
        first, second = (
            Frame(body_names[model.site_bodyid[s]], model.site_pos[s], rotation_of(model.site_quat[s])) for s in pair
        )
    elif is_weld:
        first = Frame(body_names[pair[0]], data[3:6], rotation_of(data[6:10]))
        second = Frame(body_names[pair[1]], data[:3])
    else:
        first, second = Frame(body_names[pair[0]], data[:3]), Frame(body_names[pair[1]], data[3:6])
    if first.carrier(tree) == second.carrier(tree):
        return None
    turns = is_weld and data[10] != 0.0  # without a torque scale, only the position is held
    return Weld(first, second) if turns else Point(first, second)


def rotation_of(quaternion: Array) -> Array:
    """Rotation matrices (..., 3, 3) of MuJoCo's quaternions [w x y z] (..., 4)."""
    return quaternion_to_matrix(np.roll(quaternion, -1, axis=-1) / np.linalg.norm(quaternion, axis=-1, keepdims=True))


Length = tuple[dict[str, float], float]
"""Coefficients of a linear combination of joint positions, and its value at ``qpos0``."""


def _joint(model: Any, joint: int, joint_names: list[str]) -> Length | None:
    """Position of a joint; zero where there is none."""
    return ({}, 0.0) if joint < 0 else ({joint_names[joint]: 1.0}, float(model.qpos0[model.jnt_qposadr[joint]]))


def _tendon(mujoco: Any, model: Any, tendon: int, joint_names: list[str]) -> Length | None:
    """Length of a fixed tendon; zero where there is none, None of a spatial tendon."""
    if tendon < 0:
        return {}, 0.0
    ratios = fixed_tendon(mujoco, model, tendon)
    if ratios is None:
        return None
    return {joint_names[j]: ratio for j, ratio in ratios.items()}, float(model.tendon_length0[tendon])


def _coupling(model: Any, e: int, first: Length | None, second: Length | None) -> Constraint | None:
    """``l₁ − l₁⁰ = c₀ + c₁ (l₂ − l₂⁰)`` as a row; None of a polynomial of higher degree."""
    constant, slope, *higher = (float(c) for c in model.eq_data[e][:5])
    if first is None or second is None or (second[0] and any(higher)):
        return None
    row = dict(first[0])
    for joint, ratio in second[0].items():
        row[joint] = row.get(joint, 0.0) - slope * ratio
    row = {joint: x for joint, x in row.items() if x}
    return JointRows(row, rest=first[1] + constant - slope * second[1]) if row else None
