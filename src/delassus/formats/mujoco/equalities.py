"""Equality constraints of a MuJoCo model, as constraints of a tree."""

from __future__ import annotations

import numpy as np

from delassus.constraints import Constraint, Frame, JointRows, Point, Weld
from delassus.formats.mujoco.named import NamedModel
from delassus.model.tree import Tree
from delassus.spatial.rotations import Array, quaternion_to_matrix


def constraints_of(model: NamedModel, tree: Tree) -> tuple[tuple[Constraint, ...], list[str]]:
    """Constraints for the active equalities, and the names of those that a tree cannot hold."""
    names, bodies, joints = model.names_of("equality"), model.names_of("body"), model.names_of("joint")
    held, others = [], []
    for e in np.flatnonzero(model.active_equalities()).tolist():
        constraint: Constraint | None = None
        match model.word("mjtEq", model.eq_type[e]):
            case "connect" | "weld" as kind:
                constraint = _between_bodies(model, e, kind == "weld", tree, bodies)
            case "joint":
                constraint = _coupling(model, e, *(_joint(model, j, joints) for j in _objects(model, e)))
            case "tendon":
                constraint = _coupling(model, e, *(_tendon(model, t, joints) for t in _objects(model, e)))
        if constraint is None:
            others.append(names[e])
        else:
            held.append(constraint)
    return tuple(held), others


def _objects(model: NamedModel, e: int) -> tuple[int, int]:
    """Numbers of what an equality is between; −1 where there is no second one."""
    return int(model.eq_obj1id[e]), int(model.eq_obj2id[e])


def _between_bodies(model: NamedModel, e: int, is_weld: bool, tree: Tree, body_names: list[str]) -> Constraint | None:
    """Two frames that coincide where the file's constraint is fulfilled; None within one rigid body."""
    pair, data = _objects(model, e), model.eq_data[e]
    if model.word("mjtObj", model.eq_objtype[e]) == "site":
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


def _joint(model: NamedModel, joint: int, joint_names: list[str]) -> Length | None:
    """Position of a joint; zero where there is none."""
    return ({}, 0.0) if joint < 0 else ({joint_names[joint]: 1.0}, float(model.qpos0[model.jnt_qposadr[joint]]))


def _tendon(model: NamedModel, tendon: int, joint_names: list[str]) -> Length | None:
    """Length of a fixed tendon; zero where there is none, None of a spatial tendon."""
    if tendon < 0:
        return {}, 0.0
    ratios = model.fixed_tendon(tendon)
    if ratios is None:
        return None
    return {joint_names[j]: ratio for j, ratio in ratios.items()}, float(model.tendon_length0[tendon])


def _coupling(model: NamedModel, e: int, first: Length | None, second: Length | None) -> Constraint | None:
    """``l₁ − l₁⁰ = c₀ + c₁ (l₂ − l₂⁰)`` as a row; None of a polynomial of higher degree."""
    constant, slope, *higher = (float(c) for c in model.eq_data[e][:5])
    if first is None or second is None or (second[0] and any(higher)):
        return None
    row = dict(first[0])
    for joint, ratio in second[0].items():
        row[joint] = row.get(joint, 0.0) - slope * ratio
    row = {joint: x for joint, x in row.items() if x}
    return JointRows(row, rest=first[1] + constant - slope * second[1]) if row else None
