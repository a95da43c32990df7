"""Actuators of a MuJoCo model; names of its elements, and flags of its options."""

from __future__ import annotations

from typing import Any

import numpy as np

from delassus.model.actuators import Actuator, Affine
from delassus.model.description import unique_name
from delassus.model.rotations import Array


def element_names(mujoco: Any, model: Any, kind: Any, count: int, prefix: str) -> list[str]:
    """Name of each object of a kind; made up from its number where it has none."""
    given = [mujoco.mj_id2name(model, kind, i) for i in range(count)]
    taken = {name for name in given if name}
    return [name or unique_name(f"{prefix}{i}", taken) for i, name in enumerate(given)]


def is_disabled(mujoco: Any, model: Any, *what: str) -> bool:
    """Whether the ``<flag>`` of the model's options disables one of these."""
    return any(model.opt.disableflags & int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{name}", 0)) for name in what)


def actuators_of(mujoco: Any, model: Any, joint_names: list[str]) -> tuple[tuple[Actuator, ...], list[str]]:
    """Actuators that a tree can hold, and the names of the others."""
    names = element_names(mujoco, model, mujoco.mjtObj.mjOBJ_ACTUATOR, len(model.actuator_trntype), "actuator")
    if is_disabled(mujoco, model, "ACTUATION"):
        return (), []
    found = [_actuator(mujoco, model, a, name, joint_names) for a, name in enumerate(names)]
    held = tuple(actuator for actuator in found if actuator is not None)
    return held, [name for name, actuator in zip(names, found, strict=True) if actuator is None]


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
