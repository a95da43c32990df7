"""Actuators of a MuJoCo model, and the weights that its bodies and actuators balance."""

from __future__ import annotations

from typing import Any

import numpy as np

from delassus.formats.mujoco.named import NamedModel
from delassus.model.actuators import Actuator, Affine
from delassus.spatial.rotations import Array

GAINS, BIASES = {"fixed": 1, "affine": 3}, {"none": 0, "affine": 3}
"""Types that a tree holds, and how many parameters they have."""

FOLLOWING = ("filter", "filterexact", "integrator")
"""Types of activations that follow controls, and are the controls here."""

OTHERS = ("actuator_delay", "actuator_damping", "actuator_dampingpoly")
"""Attributes of actuators that a tree does not hold."""


def actuators_of(model: NamedModel) -> tuple[tuple[Actuator, ...], list[str]]:
    """Actuators that are switched on and that a tree can hold, and the names of others that are switched on."""
    names, joint_names = model.names_of("actuator"), model.names_of("joint")
    active = np.flatnonzero(model.active_actuators()).tolist()
    found = {names[a]: _actuator(model, a, names[a], joint_names) for a in active}
    held = tuple(actuator for actuator in found.values() if actuator is not None)
    return held, [name for name, actuator in found.items() if actuator is None]


def gravity_compensation_of(model: NamedModel) -> tuple[dict[str, Array], list[str]]:
    """Mass (kg) whose weight is balanced and its centre (3,) (m) in the frame of the body, by body.

    Also joints on which a part of these forces acts here that does not act in MuJoCo. There the forces are passive, or
    of the actuators where a joint says so, whether or not one acts on it; where the model has no actuators, or all are
    switched off by the flag, they are missing on such joints.
    """
    off = model.is_disabled("SPRING") and model.is_disabled("DAMPER")  # and so all passive forces
    if not model.ngravcomp or off or model.is_disabled("PASSIVE"):
        return {}, []
    bodies, joints = model.names_of("body"), model.names_of("joint")
    acts = len(model.actuator_trntype) and not model.is_disabled("ACTUATION")
    missing = np.array(model.jnt_actgravcomp, dtype=bool) & (not acts)
    held: dict[str, Array] = {}
    others: set[int] = set()
    for body in np.flatnonzero(model.body_gravcomp * model.body_mass).tolist():
        on = _joints_below(model, body)
        if not on or not missing[on].all():
            mass = float(model.body_gravcomp[body] * model.body_mass[body])
            held[bodies[body]] = np.array([mass, *model.body_ipos[body]])
            others.update(j for j in on if missing[j])
    return held, [joints[j] for j in sorted(others)]


def _joints_below(model: NamedModel, body: int) -> list[int]:
    """Joints between a body and the world."""
    out: list[int] = []
    while body:
        out.extend(int(model.body_jntadr[body]) + k for k in range(model.body_jntnum[body]))
        body = int(model.body_parentid[body])
    return out


def follows_control(model: NamedModel, a: int) -> bool:
    """Whether an actuator has an activation that follows its control."""
    is_one = model.actuator_actnum[a] == 1 and model.actuator_plugin[a] < 0
    return bool(is_one) and model.word("mjtDyn", model.actuator_dyntype[a]) in FOLLOWING


def _actuator(model: NamedModel, a: int, name: str, joint_names: list[str]) -> Actuator | None:
    """Actuator ``a``; None if it has another state, delay or damping, or other types of gain, bias or transmission.

    The control of one whose activation follows its control is the activation.
    """
    gain = GAINS.get(model.word("mjtGain", model.actuator_gaintype[a]))
    bias = BIASES.get(model.word("mjtBias", model.actuator_biastype[a]))
    ratios, follows = _transmission(model, a), follows_control(model, a)
    is_direct = model.word("mjtDyn", model.actuator_dyntype[a]) == "none" and model.actuator_plugin[a] < 0
    if gain is None or bias is None or ratios is None or not (is_direct or follows):
        return None
    if any(np.any(getattr(model, other, [0.0] * (a + 1))[a]) for other in OTHERS):
        return None
    clamps = model.actuator_ctrllimited[a] and not model.is_disabled("CLAMPCTRL")
    limits = _range(clamps, model.actuator_ctrlrange[a])
    if follows:
        limits = _range(model.actuator_actlimited[a], model.actuator_actrange[a])
    return Actuator(
        name,
        {joint_names[j]: ratio for j, ratio in ratios.items()},
        _affine(model.actuator_gainprm[a], gain),
        _affine(model.actuator_biasprm[a], bias),
        limits,
        _range(model.actuator_forcelimited[a], model.actuator_forcerange[a]),
    )


def _affine(given: Array, used: int) -> Affine:
    c0, c1, c2 = (float(x) if k < used else 0.0 for k, x in enumerate(given[:3]))
    return c0, c1, c2


def _range(limited: Any, given: Array) -> tuple[float, float]:
    return (float(given[0]), float(given[1])) if limited else (-np.inf, np.inf)


def _transmission(model: NamedModel, a: int) -> dict[int, float] | None:
    """Ratio of each joint; None of another transmission than a joint of one degree of freedom or a fixed tendon."""
    kind, target = model.word("mjtTrn", model.actuator_trntype[a]), int(model.actuator_trnid[a, 0])
    gear = float(model.actuator_gear[getattr(model, "actuator_outadr", range(a + 1))[a], 0])
    if kind in ("joint", "jointinparent") and model.has_one_dof[target]:
        return {target: gear}
    limited = getattr(model, "tendon_actfrclimited", None)
    if kind != "tendon" or (limited is not None and limited[target]):
        return None
    coefficients = model.fixed_tendon(target)
    return None if coefficients is None else {j: gear * c for j, c in coefficients.items()}
