"""Actuators of a MuJoCo model; names of its elements, and flags of its options."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.model.actuators import Actuator, Affine
from delassus.model.description import unique_name
from delassus.model.rotations import Array

LAST_GROUP = 30
"""Actuators of groups up to this one can be switched off, a bit a group."""


def element_names(mujoco: Any, model: Any, kind: Any, count: int, prefix: str) -> list[str]:
    """Name of each object of a kind; made up from its number where it has none."""
    given = [mujoco.mj_id2name(model, kind, i) for i in range(count)]
    taken = {name for name in given if name}
    return [name or unique_name(f"{prefix}{i}", taken) for i, name in enumerate(given)]


def is_disabled(mujoco: Any, model: Any, *what: str) -> bool:
    """Whether the ``<flag>`` of the model's options disables one of these."""
    return any(model.opt.disableflags & int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{name}", 0)) for name in what)


def active_actuators(mujoco: Any, model: Any) -> NDArray[np.bool_]:
    """Which actuators are switched on: by the flag of all of them, and by their groups."""
    groups = np.asarray(model.actuator_group)
    chosen = (groups >= 0) & (groups <= LAST_GROUP)
    off = chosen & ((model.opt.disableactuator >> np.where(chosen, groups, 0)) & 1 == 1)
    return np.asarray(~off & (not is_disabled(mujoco, model, "ACTUATION")))


def actuators_of(mujoco: Any, model: Any, joint_names: list[str]) -> tuple[tuple[Actuator, ...], list[str]]:
    """Actuators that are switched on and that a tree can hold, and the names of others that are switched on."""
    names = element_names(mujoco, model, mujoco.mjtObj.mjOBJ_ACTUATOR, len(model.actuator_trntype), "actuator")
    active = np.flatnonzero(active_actuators(mujoco, model)).tolist()
    found = {names[a]: _actuator(mujoco, model, a, names[a], joint_names) for a in active}
    held = tuple(actuator for actuator in found.values() if actuator is not None)
    return held, [name for name, actuator in found.items() if actuator is None]


def gravity_compensation_of(mujoco: Any, model: Any) -> tuple[dict[int, Array], list[int]]:
    """Mass (kg) whose weight is balanced and its centre (3,) (m) in the frame of the body, by body.

    Also joints on which a part of these forces acts here that does not act in MuJoCo. There the forces are passive, or
    of the actuators where a joint says so, whether or not one acts on it; where the model has no actuators, or all are
    switched off by the flag, they are missing on such joints.
    """
    off = is_disabled(mujoco, model, "SPRING") and is_disabled(mujoco, model, "DAMPER")  # and so all passive forces
    if not model.ngravcomp or off or is_disabled(mujoco, model, "PASSIVE"):
        return {}, []
    acts = len(model.actuator_trntype) and not is_disabled(mujoco, model, "ACTUATION")
    missing = np.array(model.jnt_actgravcomp, dtype=bool) & (not acts)
    held: dict[int, Array] = {}
    others: set[int] = set()
    for body in np.flatnonzero(model.body_gravcomp * model.body_mass).tolist():
        on = _joints_below(model, body)
        if not on or not missing[on].all():
            mass = float(model.body_gravcomp[body] * model.body_mass[body])
            held[body] = np.array([mass, *model.body_ipos[body]])
            others.update(j for j in on if missing[j])
    return held, sorted(others)


def _joints_below(model: Any, body: int) -> list[int]:
    """Joints between a body and the world."""
    out: list[int] = []
    while body:
        out.extend(int(model.body_jntadr[body]) + k for k in range(model.body_jntnum[body]))
        body = int(model.body_parentid[body])
    return out


def _actuator(mujoco: Any, model: Any, a: int, name: str, joint_names: list[str]) -> Actuator | None:
    gains = {int(mujoco.mjtGain.mjGAIN_FIXED): 1, int(mujoco.mjtGain.mjGAIN_AFFINE): 3}
    biases = {int(mujoco.mjtBias.mjBIAS_NONE): 0, int(mujoco.mjtBias.mjBIAS_AFFINE): 3}
    gain, bias = gains.get(int(model.actuator_gaintype[a])), biases.get(int(model.actuator_biastype[a]))
    ratios = _transmission(mujoco, model, a, joint_names)
    own_state = int(model.actuator_dyntype[a]) != int(mujoco.mjtDyn.mjDYN_NONE)
    others = ("actuator_delay", "actuator_damping", "actuator_dampingpoly")
    if gain is None or bias is None or ratios is None or own_state:
        return None
    if model.actuator_plugin[a] >= 0 or any(np.any(getattr(model, other, [0.0] * (a + 1))[a]) for other in others):
        return None
    clamps = model.actuator_ctrllimited[a] and not is_disabled(mujoco, model, "CLAMPCTRL")
    return Actuator(
        name,
        ratios,
        _affine(model.actuator_gainprm[a], gain),
        _affine(model.actuator_biasprm[a], bias),
        _range(clamps, model.actuator_ctrlrange[a]),
        _range(model.actuator_forcelimited[a], model.actuator_forcerange[a]),
    )


def _affine(given: Array, used: int) -> Affine:
    c0, c1, c2 = (float(x) if k < used else 0.0 for k, x in enumerate(given[:3]))
    return c0, c1, c2


def _range(limited: Any, given: Array) -> tuple[float, float]:
    return (float(given[0]), float(given[1])) if limited else (-np.inf, np.inf)


def _transmission(mujoco: Any, model: Any, a: int, joint_names: list[str]) -> dict[str, float] | None:
    """Ratio of each joint; None of another transmission than a joint of one degree of freedom or a fixed tendon."""
    kind, target = int(model.actuator_trntype[a]), int(model.actuator_trnid[a, 0])
    gear = float(model.actuator_gear[getattr(model, "actuator_outadr", range(a + 1))[a], 0])
    if kind in (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT)):
        return {joint_names[target]: gear} if has_one_dof(mujoco, model, target) else None
    if kind == int(mujoco.mjtTrn.mjTRN_TENDON):
        limited = getattr(model, "tendon_actfrclimited", None)
        coefficients = fixed_tendon(mujoco, model, target)
        if coefficients is None or (limited is not None and limited[target]):
            return None
        return {joint_names[j]: gear * c for j, c in coefficients.items()}
    return None


def fixed_tendon(mujoco: Any, model: Any, tendon: int) -> dict[int, float] | None:
    """Coefficient of each joint of a fixed tendon; None of a spatial one."""
    wraps = range(int(model.tendon_adr[tendon]), int(model.tendon_adr[tendon]) + int(model.tendon_num[tendon]))
    if any(int(model.wrap_type[w]) != int(mujoco.mjtWrap.mjWRAP_JOINT) for w in wraps):
        return None
    out: dict[int, float] = {}
    for w in wraps:
        joint = int(model.wrap_objid[w])
        out[joint] = out.get(joint, 0.0) + float(model.wrap_prm[w])
    return out


def has_one_dof(mujoco: Any, model: Any, joint: int) -> bool:
    """Whether it is a hinge or a slide."""
    return int(model.jnt_type[joint]) in (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
