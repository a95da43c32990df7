"""Elements of URDF files that are not of URDF 1.0: its later versions, motors as Drake describes them, other programs'.

Sources: urdfdom 6 for ``version`` and ``quat_xyzw``; Drake's "Parsing Models for Multibody Simulation" for
``drake:rotor_inertia`` and ``drake:gear_ratio``. A rotor of inertia I behind a gear of ratio ρ is armature ρ² I.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from xml.etree.ElementTree import Element

from delassus.errors import ModelError, shown
from delassus.model.check import decimal_numbers

VERSIONS = ("1.0", "1.1", "1.2")
"""Versions of URDF that are read; the first one where a file does not say it."""

ONE_DOF = ("revolute", "continuous", "prismatic")
"""Types of joints that a motor drives."""

_ROTOR = ("drake:rotor_inertia", "drake:gear_ratio")


def apply_version(robot: Element, what: str) -> list[str]:
    """Check the ``version`` of a ``<robot>``; take ``quat_xyzw`` away where it has no meaning yet.

    Returns names of links and joints that lose one, as urdfdom ignores it.
    """
    given = robot.get("version", VERSIONS[0])
    numbers = re.fullmatch(r"\s*\+?([0-9]{1,9})\.\s*\+?([0-9]{1,9})", given)
    if numbers is None or f"{int(numbers[1])}.{int(numbers[2])}" not in VERSIONS:
        raise ModelError(f"{what}, version of URDF", f"one of {', '.join(VERSIONS)}", shown(given), "Correct it.")
    if int(numbers[2]) > 0:
        return []
    found = []
    for element in robot:
        turned = [origin for origin in element.iter("origin") if origin.attrib.pop("quat_xyzw", None) is not None]
        found += [element.get("name", "")] if turned else []
    return found


def armatures(robot: Element) -> tuple[dict[str, float], list[str]]:
    """Armature of joints by name, of rotors in ``<transmission>`` elements; and transmissions whose rotors do not act.

    Those are no simple transmissions, or of no joint of one degree of freedom.
    """
    one_dof = {joint.get("name") for joint in robot.findall("joint") if joint.get("type") in ONE_DOF}
    found: dict[str, float] = {}
    others = []
    for transmission in robot.findall("transmission"):
        kind = transmission.get("type") or transmission.findtext("type") or "SimpleTransmission"
        driven = transmission.find("joint")
        name = "" if driven is None else driven.get("name", "")
        own = f"transmission {transmission.get('name') or name!r}"
        inertia = sum(_rotors(transmission, own))
        if not inertia:
            continue
        if name in one_dof and kind.strip().endswith("SimpleTransmission"):
            found[name] = found.get(name, 0.0) + inertia
        else:
            others.append(transmission.get("name") or name)
    return found, others


def _rotors(transmission: Element, what: str) -> Iterator[float]:
    """``ρ² I`` of each actuator of a transmission."""
    for actuator in transmission.findall("actuator"):
        inertia, ratio = (_value(actuator, tag, what, default) for tag, default in zip(_ROTOR, (0.0, 1.0), strict=True))
        if inertia < 0.0:
            raise ModelError(f"{what}, <{_ROTOR[0]}>", "an inertia of at least 0", f"{inertia:g}", "Correct it.")
        yield ratio * ratio * inertia


def _value(parent: Element, tag: str, what: str, default: float) -> float:
    """Number in the attribute ``value`` of an element; the default where there is no such element."""
    element = parent.find(tag)
    if element is None:
        return default
    text = element.get("value", "")
    numbers = decimal_numbers(text)
    if numbers is None or len(numbers) != 1:
        raise ModelError(f"{what}, value of <{tag}>", "a finite number", shown(text), "Correct the text.")
    return numbers[0]


def foreign_elements(robot: Element, read: Container[str]) -> list[str]:
    """Elements of other programs that change the motion of a robot or its contacts, with their names.

    Joints of Drake's whose names are among ``read`` are left out, and all of Gazebo's, most of which is for drawing and
    sensors.
    """
    found = []
    for element in robot:
        name = element.get("name")
        if element.tag == "drake:joint" and name in read:
            continue
        if element.tag == "mujoco":
            found += [f"mujoco: {part.tag}" for part in element] or ["mujoco"]
        elif element.tag in ("loop_joint", "force_element") or element.tag.startswith("drake:"):
            found.append(f"{element.tag} {name}" if name else element.tag)
    return found
