"""URDF files → `Tree`. Meshes, visuals and collisions are never read."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree
from xml.parsers import expat

import numpy as np

from delassus.errors import DelassusWarning, ModelError
from delassus.model.build import Check, RawJoint, RawLink, Root, build_tree
from delassus.model.joints import JointKind
from delassus.model.rotations import Array, exact_quarter_turns
from delassus.model.tree import Tree

Continuous = Literal["angle", "cos-sin"]
Mimic = Literal["independent", "refuse"]

_KINDS = {
    "revolute": JointKind.REVOLUTE,
    "continuous": JointKind.REVOLUTE,
    "prismatic": JointKind.PRISMATIC,
    "planar": JointKind.PLANAR,
    "floating": JointKind.FREE,
    "fixed": None,
}
_NOT_NEEDED = ("visual", "collision", "material", "transmission", "gazebo", "sensor")


def read_xml(path: Path) -> ElementTree.Element:
    """Parse an XML file that declares no document type (so no entities, external or exploding); returns its root.

    Raises
    ------
    ModelError
        The file cannot be read, is not XML, or declares a document type.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"file {str(path)!r}", "a file that can be read", str(error), "Check the path.") from error
    return parse_xml(data, f"file {str(path)!r}")


def parse_xml(data: bytes, what: str) -> ElementTree.Element:
    """Parse XML text; see `read_xml`."""

    def refuse(*_: object) -> None:
        raise ModelError(
            what, "XML without a document type declaration", "a <!DOCTYPE …>",
            "Remove the declaration and write out its entities.",
        )  # fmt: skip

    scanner = expat.ParserCreate()
    scanner.StartDoctypeDeclHandler = refuse
    try:
        scanner.Parse(data, True)
        return ElementTree.fromstring(data)
    except (expat.ExpatError, ElementTree.ParseError, ValueError, LookupError) as error:
        raise ModelError(what, "well-formed XML", str(error), "Check that this is a robot description.") from error


def load_urdf(
    path: Path,
    *,
    root: Root = "fixed",
    continuous: Continuous = "angle",
    mimic: Mimic = "independent",
    check_inertia: Check = "warn",
) -> Tree:
    """Read a URDF file; see `delassus.load`."""
    return tree_from_urdf(read_xml(path), path.stem, root, continuous, mimic, check_inertia)


def tree_from_urdf(
    robot: ElementTree.Element,
    fallback_name: str,
    root: Root,
    continuous: Continuous,
    mimic: Mimic,
    check_inertia: Check,
) -> Tree:
    """Build the tree of a parsed ``<robot>`` element."""
    if continuous not in ("angle", "cos-sin"):
        raise ModelError("continuous", "'angle' or 'cos-sin'", repr(continuous), "Choose one of the two.")
    if mimic not in ("independent", "refuse"):
        raise ModelError("mimic", "'independent' or 'refuse'", repr(mimic), "Choose one of the two.")
    name = robot.get("name") or fallback_name
    if robot.tag != "robot":
        raise ModelError(f"robot {name!r}", "a <robot> element", f"<{robot.tag}>", "Check that this is a URDF file.")
    _check_elements(robot, name)
    described = _read(robot, name)

    mimicking = [j.name for j in described.joints if j.mimic is not None]
    if mimicking and mimic == "refuse":
        raise ModelError(
            f"joint {mimicking[0]!r}", "a joint that does not mimic another", f"{len(mimicking)} that do",
            "Load with mimic='independent' to give each a degree of freedom of its own.",
        )  # fmt: skip
    if mimicking:
        warnings.warn(
            f"robot {name!r}: {len(mimicking)} mimic joint(s) are independent here: {', '.join(mimicking)}.",
            DelassusWarning,
            stacklevel=4,
        )
    links = [_raw_link(link) for link in described.links]
    joints = [_raw_joint(joint, continuous) for joint in described.joints]
    return build_tree(name, links, joints, root=root, sort_children=True, check_inertia=check_inertia)


def _check_elements(robot: ElementTree.Element, name: str) -> None:
    """Check what the reader would stumble over, naming the element; drop what no dynamics need."""
    for element in list(robot):
        if element.tag in _NOT_NEEDED:
            robot.remove(element)
        if element.tag not in ("link", "joint"):
            continue
        if not element.get("name"):
            raise ModelError(f"robot {name!r}", f"a name on every <{element.tag}>", "one without", "Name it.")
        for child in list(element):
            if child.tag in _NOT_NEEDED:
                element.remove(child)
    robot.set("name", name)
    for joint in robot.findall("joint"):
        what = f"joint {joint.get('name')!r}"
        if joint.get("type") not in _KINDS:
            raise ModelError(what, f"a type among {', '.join(_KINDS)}", repr(joint.get("type")), "Use one of these.")
        for role in ("parent", "child"):
            end = joint.find(role)
            if end is None or not end.get("link"):
                raise ModelError(what, f"a <{role} link='…'/>", "none", f"Say which link is its {role}.")
        _check_numbers(joint, what)
    for link in robot.findall("link"):
        _check_numbers(link, f"link {link.get('name')!r}")


_NUMBERS: dict[str, dict[str, int]] = {
    "origin": {"xyz": 3, "rpy": 3},
    "axis": {"xyz": 3},
    "mass": {"value": 1},
    "inertia": dict.fromkeys(("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), 1),
    "limit": {"lower": 1, "upper": 1, "effort": 1, "velocity": 1},
    "dynamics": {"damping": 1, "friction": 1},
    "mimic": {"multiplier": 1, "offset": 1},
}


def _check_numbers(element: ElementTree.Element, what: str) -> None:
    for part in element.iter():
        for attribute, size in _NUMBERS.get(part.tag, {}).items():
            text = part.get(attribute)
            if text is None:
                continue
            try:
                numbers = [float(word) for word in text.split()]
            except ValueError:
                numbers = []
            if len(numbers) != size or not np.all(np.isfinite(numbers)):
                raise ModelError(
                    f"{what}, {attribute} of <{part.tag}>", f"{size} finite number(s)", repr(text), "Correct the text."
                )


def _read(robot: ElementTree.Element, name: str) -> Any:
    import yourdfpy

    text = ElementTree.tostring(robot)
    try:
        return yourdfpy.URDF.load(io.BytesIO(text), build_scene_graph=False, load_meshes=False).robot
    except Exception as error:  # a reader of another project: whatever it raises is a defect of the file
        raise ModelError(f"robot {name!r}", "a URDF file", f"{type(error).__name__}: {error}", "Correct it.") from error


def _raw_link(link: Any) -> RawLink:
    inertial = link.inertial
    if inertial is None:
        return RawLink(link.name)
    rotation, com = _pose(inertial.origin)
    inertia = np.zeros((3, 3)) if inertial.inertia is None else np.asarray(inertial.inertia, dtype=float)
    mass = 0.0 if inertial.mass is None else float(inertial.mass)
    return RawLink(link.name, mass, com, rotation @ inertia @ rotation.T)


def _raw_joint(joint: Any, continuous: Continuous) -> RawJoint:
    rotation, position = _pose(joint.origin)
    kind = _KINDS[joint.type]
    lower, upper = -np.inf, np.inf
    if joint.type == "continuous":
        kind = JointKind.COS_SIN if continuous == "cos-sin" else JointKind.REVOLUTE
    elif joint.limit is not None and joint.type in ("revolute", "prismatic"):
        lower, upper = _number(joint.limit.lower, 0.0), _number(joint.limit.upper, 0.0)
    return RawJoint(
        name=joint.name,
        kind=kind,
        parent=joint.parent,
        child=joint.child,
        position=position,
        rotation=rotation,
        axis=np.asarray(joint.axis, dtype=float),
        lower=lower,
        upper=upper,
        damping=_number(joint.dynamics.damping, 0.0) if joint.dynamics is not None else 0.0,
    )


def _number(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else float(value)


def _pose(origin: Array | None) -> tuple[Array, Array]:
    if origin is None:
        return np.eye(3), np.zeros(3)
    return exact_quarter_turns(np.asarray(origin[:3, :3], dtype=float)), np.asarray(origin[:3, 3], dtype=float)
