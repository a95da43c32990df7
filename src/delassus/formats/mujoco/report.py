"""What of a MuJoCo model a tree does not hold: `docs/mjcf.md` has the table of all elements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.formats.mujoco.actuators import (
    active_actuators,
    element_names,
    gravity_compensation_of,
    has_one_dof,
    is_disabled,
)
from delassus.formats.mujoco.equalities import active_equalities

TENDON_FORCES = ("stiffness", "stiffnesspoly", "damping", "dampingpoly", "frictionloss", "springyield")


def omitted(mujoco: Any, model: Any, actuators: Iterable[str], equalities: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """What of the model a tree does not hold; ``actuators`` and ``equalities``: those that it cannot."""
    kinds = mujoco.mjtObj

    def named(kind: Any, count: int, prefix: str) -> NDArray[Any]:
        return np.array(element_names(mujoco, model, kind, count, prefix), dtype=object)

    joints = named(kinds.mjOBJ_JOINT, model.njnt, "joint")
    bodies = named(kinds.mjOBJ_BODY, model.nbody, "body")
    tendons = named(kinds.mjOBJ_TENDON, model.ntendon, "tendon")
    geoms = named(kinds.mjOBJ_GEOM, model.ngeom, "geom")
    several = np.array([not has_one_dof(mujoco, model, j) for j in range(model.njnt)], dtype=bool)
    free = np.array(model.jnt_type == int(mujoco.mjtJoint.mjJNT_FREE), dtype=bool)
    of_dofs = _any_of(model, "dof", ("dampingpoly",), model.nv)
    bent = _any_of(model, "jnt", ("stiffnesspoly", "springyield"), model.njnt)
    bent[model.dof_jntid[of_dofs]] = True
    pulling = _any_of(model, "tendon", TENDON_FORCES, model.ntendon)
    lopsided = np.array(model.jnt_actfrclimited, dtype=bool) & (np.sum(model.jnt_actfrcrange, axis=1) != 0)
    lifting = np.array(model.jnt_actgravcomp, dtype=bool) & np.array(model.jnt_actfrclimited, dtype=bool)
    lifting &= bool(model.ngravcomp)
    option = model.opt
    fluid = [name for name in ("density", "viscosity") if getattr(option, name)]
    keys = named(kinds.mjOBJ_KEY, model.nkey, "key")
    touching = bool(np.any(model.geom_contype) or np.any(model.geom_conaffinity) or model.npair)
    flags = ["filterparent"] if is_disabled(mujoco, model, "FILTERPARENT") else []
    if model.opt.enableflags & int(mujoco.mjtEnableBit.mjENBL_OVERRIDE):
        flags.append("override")
    moving = _any_of(model, "key", ("qvel", "act", "ctrl"), model.nkey)
    out = {
        "equality constraints of flexes and spatial tendons, of higher degree, or within one rigid body": equalities,
        "equality constraints that are switched off": named(kinds.mjOBJ_EQUALITY, model.neq, "equality")[
            ~active_equalities(mujoco, model)
        ],
        "actuators that are switched off": named(kinds.mjOBJ_ACTUATOR, len(model.actuator_trntype), "actuator")[
            ~active_actuators(mujoco, model)
        ],
        "actuators that have a state, are muscles, or act on other things than joints and fixed tendons": actuators,
        "springs and dampers that are not linear": joints[bent],
        "limits of ball joints": joints[np.array(model.jnt_limited, dtype=bool) & several & ~free],
        "force ranges of joints that differ between directions": joints[lopsided],
        "springs, dampers and friction of tendons": tendons[pulling],
        "limits of tendons": tendons[_any_of(model, "tendon", ("limited",), model.ntendon)],
        "gravity compensation within the force ranges of joints": joints[lifting],
        "gravity compensation by actuators on some joints alone, of which no actuator acts": joints[
            gravity_compensation_of(mujoco, model)[1]
        ],
        "mocap bodies, which stay where the model puts them": bodies[np.array(model.body_mocapid >= 0)],
        "fluid forces": fluid,
        "flags of contacts": flags if touching else [],
        "surfaces of geoms that move or adhere": geoms[_any_of(model, "geom", ("surfacevel", "adhesion"), model.ngeom)],
        "flexible bodies": named(kinds.mjOBJ_FLEX, model.nflex, "flex"),
        "skins": named(kinds.mjOBJ_SKIN, model.nskin, "skin"),
        "sensors": named(kinds.mjOBJ_SENSOR, model.nsensor, "sensor"),
        "plugins": named(kinds.mjOBJ_PLUGIN, model.nplugin, "plugin"),
        "velocities, activations and controls of keyframes": keys[moving],
    }
    return {what: tuple(str(name) for name in names) for what, names in out.items() if len(tuple(names))}


def _any_of(model: Any, prefix: str, attributes: Iterable[str], count: int) -> NDArray[np.bool_]:
    """Where one of several attributes is not zero; of those that this MuJoCo has."""
    out = np.zeros(count, dtype=bool)
    for attribute in attributes:
        given = getattr(model, f"{prefix}_{attribute}", None)
        if given is not None and count:
            out |= np.reshape(given, (count, -1)).any(axis=1)
    return out
