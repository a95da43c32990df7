"""Compiled models of MuJoCo with a name for each object and words for numbers of enumerations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.errors import ModelError, require
from delassus.model.description import unique_name

LAST_GROUP = 30
"""Actuators of groups up to this one can be switched off, a bit a group."""

SHORT = {"joint": "jnt", "equality": "eq"}
"""Kinds of objects that attributes of a model abbreviate."""


class NamedModel:
    """A ``mujoco.MjModel``, or what a ``mujoco.MjSpec`` compiles to; raises `ModelError` for anything else."""

    def __init__(self, model: Any, expected: str = "a mujoco.MjModel or mujoco.MjSpec") -> None:
        require("mujoco", "mjcf", "reading a MuJoCo model")
        import mujoco

        if isinstance(model, mujoco.MjSpec):
            try:
                model = model.copy().compile()  # the user's own may be edited further
            except Exception as error:  # MuJoCo's own errors share no base class
                came = f"{type(error).__name__}: {error}"
                raise ModelError("the mujoco.MjSpec", "one that MuJoCo compiles", came, "Correct it.") from error
        if not isinstance(model, mujoco.MjModel):
            came = f"an object of type {type(model).__module__}.{type(model).__name__}"
            raise ModelError("model", expected, came, "Pass a compiled model.")
        self.mujoco, self.model = mujoco, model
        self.joint_types = np.array([self.word("mjtJoint", kind) for kind in model.jnt_type])
        self.has_one_dof = np.isin(self.joint_types, ("hinge", "slide"))

    def __getattr__(self, attribute: str) -> Any:
        """An attribute of the model."""
        return getattr(self.model, attribute)

    def word(self, enumeration: str, number: int) -> str:
        """Name of a number of an enumeration, such as ``hinge`` of ``mjtJoint``."""
        return str(getattr(self.mujoco, enumeration)(int(number))).rpartition("_")[2].lower()

    def given_names(self, kind: str) -> list[str]:
        """Names of the objects of a kind (``body``, ``joint``, ``equality`` …), empty where there is none."""
        number = getattr(self.mujoco.mjtObj, f"mjOBJ_{kind.upper()}")
        count = len(getattr(self.model, f"name_{SHORT.get(kind, kind)}adr"))
        return [self.mujoco.mj_id2name(self.model, number, i) or "" for i in range(count)]

    def names_of(self, kind: str) -> list[str]:
        """The same, made up from the number of an object that has none."""
        given = self.given_names(kind)
        taken = {name for name in given if name}
        return [name or unique_name(f"{kind}{i}", taken) for i, name in enumerate(given)]

    def where(self, kind: str, which: ArrayLike) -> NDArray[Any]:
        """Names of some objects of a kind."""
        return np.asarray(np.array(self.names_of(kind), dtype=object)[np.asarray(which, dtype=bool)])

    def having(self, kind: str, *attributes: str) -> NDArray[Any]:
        """Names of objects of a kind one of whose attributes is not zero; of those that this MuJoCo has."""
        which = np.zeros(len(self.given_names(kind)), dtype=bool)
        for attribute in attributes:
            given = getattr(self.model, attribute, None)
            if given is None or not which.size:
                continue
            if attribute.startswith("dof_"):
                which[self.dof_jntid[np.reshape(given, (self.nv, -1)).any(axis=1)]] = True
            else:
                which |= np.reshape(given, (which.size, -1)).any(axis=1)
        return self.where(kind, which)

    def names_with_surfaces(self) -> NDArray[Any]:
        """Geoms whose surfaces turn or adhere."""
        turning = getattr(self.model, "geom_surfacevel", np.zeros((self.ngeom, 6)))[:, 3:].any(axis=1)
        return self.where("geom", turning | (getattr(self.model, "geom_adhesion", np.zeros(self.ngeom)) != 0.0))

    def moved_bodies(self) -> dict[int, int]:
        """Bodies that ``mocap`` bodies carry, with these; none of those that carry joints."""
        roots = self.body_rootid
        jointed = {int(root) for root, joints in zip(roots, self.body_jntnum, strict=True) if joints}
        led = {int(root) for root in np.flatnonzero(self.body_mocapid >= 0)} - jointed
        return {body: int(root) for body, root in enumerate(roots) if int(root) in led}

    def is_disabled(self, *what: str) -> bool:
        """Whether the ``<flag>`` of the options disables one of these."""
        bits = (int(getattr(self.mujoco.mjtDisableBit, f"mjDSBL_{name}", 0)) for name in what)
        return any(self.opt.disableflags & bit for bit in bits)

    def active_equalities(self) -> NDArray[np.bool_]:
        """Which equality constraints are switched on."""
        return np.asarray(self.eq_active0 != 0) & (not self.is_disabled("EQUALITY", "CONSTRAINT"))

    def active_actuators(self) -> NDArray[np.bool_]:
        """Which actuators are switched on: by the flag of all of them, and by their groups."""
        groups = np.asarray(self.actuator_group)
        chosen = (groups >= 0) & (groups <= LAST_GROUP)
        off = chosen & ((self.opt.disableactuator >> np.where(chosen, groups, 0)) & 1 == 1)
        return np.asarray(~off & (not self.is_disabled("ACTUATION")))

    def contact_flags(self) -> list[str]:
        """Flags of contacts that are not as usual, where a geom can touch something."""
        touching = np.any(self.geom_contype) or np.any(self.geom_conaffinity) or self.npair
        overrides = self.opt.enableflags & int(self.mujoco.mjtEnableBit.mjENBL_OVERRIDE)
        unusual = {"filterparent": self.is_disabled("FILTERPARENT"), "override": overrides}
        return [name for name, is_unusual in unusual.items() if touching and is_unusual]

    def fixed_tendon(self, tendon: int) -> dict[int, float] | None:
        """Coefficient of each joint of a fixed tendon; None of a spatial one."""
        out: dict[int, float] = {}
        for w in range(int(self.tendon_adr[tendon]), int(self.tendon_adr[tendon]) + int(self.tendon_num[tendon])):
            if self.word("mjtWrap", self.wrap_type[w]) != "joint":
                return None
            joint = int(self.wrap_objid[w])
            out[joint] = out.get(joint, 0.0) + float(self.wrap_prm[w])
        return out
