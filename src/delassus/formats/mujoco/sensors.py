"""Sensors of a MuJoCo model, read and written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf

import numpy as np

from delassus.constraints.frame import Frame, as_frame
from delassus.constraints.sensors import KINDS, RELATIVE, Sensor
from delassus.formats.mujoco.colliders import solid
from delassus.formats.mujoco.equalities import rotation_of
from delassus.formats.mujoco.named import NamedModel
from delassus.formats.text import element
from delassus.model.topology import WORLD, Topology
from delassus.model.tree import Tree
from delassus.spatial.joint_kinds import BALL

OTHER_WORDS = {"jointactfrc": "jointactuatorfrc", "ballquat": "jointpos", "ballangvel": "jointvel"}
"""Kinds that enumerations of MuJoCo, or its elements, have other words for."""

PLACES = {
    "site": ("site_bodyid", "site_pos", "site_quat"),
    "geom": ("geom_bodyid", "geom_pos", "geom_quat"),
    "camera": ("cam_bodyid", "cam_pos", "cam_quat"),
}
"""Body and pose in it of objects that are fixed to a body."""

TIMED = ("sensor_delay", "sensor_interval", "sensor_history")
"""Attributes of sensors that a tree does not hold."""


def sensors_of(model: NamedModel, tree: Tree) -> tuple[tuple[Sensor, ...], list[str]]:
    """Sensors that a tree can hold, and the names of all others."""
    named = _Objects(model, tree)
    found = {name: named.sensor(k, name) for k, name in enumerate(model.names_of("sensor"))}
    return tuple(x for x in found.values() if x is not None), [name for name, x in found.items() if x is None]


class _Objects:
    """Names, and frames, of what sensors of a model are of."""

    def __init__(self, model: NamedModel, tree: Tree) -> None:
        self._model, self._tree, self._bodies = model, tree, model.names_of("body")
        self._names: Mapping[str, list[str]] = {kind: model.names_of(kind) for kind in ("joint", "actuator")}
        self._sites = model.given_names("site")

    def sensor(self, k: int, name: str) -> Sensor | None:
        """Sensor ``k``; None of other kinds, with delays, or of what the tree does not hold."""
        model, word = self._model, self._model.word("mjtSensor", self._model.sensor_type[k])
        kind = OTHER_WORDS.get(word, word)
        if kind not in KINDS or any(np.any(getattr(model, x)[k]) for x in TIMED if hasattr(model, x)):
            return None
        what, at = KINDS[kind][0], (int(model.sensor_objtype[k]), int(model.sensor_objid[k]))
        has_joint = kind in ("force", "torque")
        of = self._frame(*at, has_joint) if what.endswith("frame") else self._named(what, at[1])
        reference = None
        if kind in RELATIVE and model.sensor_refid[k] >= 0:
            reference = self._frame(int(model.sensor_reftype[k]), int(model.sensor_refid[k]))
            of = of if reference else None
        within = solid(model, "site", at[1]) if kind == "touch" else None
        if of is None or (kind == "touch" and within is None):
            return None
        if what == "moving frame" and as_frame(of, name).on(self._tree).link == WORLD:
            return None
        return Sensor(name, kind, of, reference, float(model.sensor_cutoff[k]) or inf, within)

    def _named(self, what: str, number: int) -> str | None:
        """Name of a joint, actuator or link; None of an actuator or link that the tree does not have."""
        name = self._bodies[number] if what == "link" else self._names[what][number]
        held = {"link": self._tree.link_names, "actuator": [a.name for a in self._tree.actuators]}
        return name if name in held.get(what, [name]) else None

    def _frame(self, objects: int, number: int, has_joint: bool = False) -> str | Frame | None:
        """Frame of an object; None of one that moves on its body, or, if asked for, whose body has no joint."""
        model, kind = self._model, self._model.word("mjtObj", objects)
        if kind in ("body", "xbody"):
            body, pose = number, (model.body_ipos[number], model.body_iquat[number])
        elif kind in PLACES and (kind != "camera" or model.cam_mode[number] == 0):
            body, *others = (getattr(model, x)[number] for x in PLACES[kind])
            pose = others[0], others[1]
        else:
            return None
        name = self._bodies[body]
        if has_joint and not model.body_jntnum[body]:
            return None
        if kind == "xbody":
            return name
        if kind == "site" and self._sites[number] and self._sites[number] not in self._bodies:
            return self._sites[number]
        position, quaternion = pose
        return Frame(name, position, rotation_of(np.array(quaternion)))


# -- writing -------------------------------------------------------------------------------------------------------


def sensor_element(
    tree: Topology, sensor: Sensor, bodies: Collection[str], sites: Collection[str], of_bodies: dict[str, Frame | None]
) -> str | None:
    """Element of MJCF that reads as a sensor; None where there is none. ``bodies`` and ``sites`` are those written.

    A site whose name is that of its body is one more place on it: ``of_bodies`` gets those that are needed.
    """
    (what, _, _), tag = KINDS[sensor.kind], sensor.kind
    attributes: dict[str, str | float] = {"name": sensor.name}
    if sensor.kind == "touch":  # sites are written without a volume
        return None
    if what == "joint":
        kind = tree.joints[tree._joint_index(str(sensor.of))].kind
        tag = {"jointpos": "ballquat", "jointvel": "ballangvel"}.get(tag, tag) if kind is BALL else tag
        if kind.nv > 1 and tag == sensor.kind:
            return None
        attributes["joint"] = str(sensor.of)
    elif what in ("actuator", "link"):
        attributes["actuator" if what == "actuator" else "body"] = str(sensor.of)
    else:
        for place, of in (("obj", sensor.of), ("ref", sensor.reference)):
            if of is None:
                continue
            of_site = not sensor.kind.startswith("frame")
            if isinstance(of, Frame) or (of_site and of in bodies):
                frame = of if isinstance(of, Frame) else Frame(of)
                at = of_bodies.setdefault(frame.link, frame) if frame.link in bodies else None
                if not (
                    at and np.array_equal(at.position, frame.position) and np.array_equal(at.rotation, frame.rotation)
                ):
                    return None
                by, name = "site", frame.link
            elif of in (*bodies, *sites):
                by, name = "xbody" if of in bodies else "site", of
            else:
                return None
            attributes |= {"site": name} if of_site else {f"{place}type": by, f"{place}name": name}
    if sensor.cutoff < inf:
        attributes["cutoff"] = sensor.cutoff
    return element(2, tag, attributes)
