"""URDF files → `Tree`. Meshes, visuals and collisions are never read."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree
from xml.parsers import expat

import numpy as np

from delassus.errors import ModelError, shown, warn
from delassus.model.build import build_tree
from delassus.model.description import Check, RawJoint, RawLink, Root
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
_NEEDED = {
    "robot": ("link", "joint"),
    "link": ("inertial",),
    "inertial": ("origin", "mass", "inertia"),
    "joint": ("origin", "parent", "child", "axis", "limit", "dynamics", "mimic"),
}
"""Elements that the dynamics depend on; all others are dropped unread."""

_REQUIRED = {"inertial": ("mass", "inertia"), "mass": ("value",), "inertia": ("ixx", "iyy", "izz")}
"""What an <inertial> cannot do without: elements, and attributes of these."""

DEEPEST_XML = 1000
"""Elements nested deeper than this are refused; robots need a few levels, MJCF one for each link of a chain."""


def read_xml(path: Path) -> ElementTree.Element:
    """Parse an XML file that declares no document type (so no entities, external or exploding); returns its root.

    Namespaces are not resolved: prefixes stay in the names, as in other readers of robot descriptions.

    Raises
    ------
    ModelError
        The file cannot be read, is not XML, declares a document type, or nests elements deeper than `DEEPEST_XML`.
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

    builder = ElementTree.TreeBuilder()
    depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > DEEPEST_XML:
            raise ModelError(
                what, f"elements nested at most {DEEPEST_XML} deep", "deeper ones", "Check that this describes a robot."
            )
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(what, "well-formed XML", str(error), "Check that this is a robot description.") from error
    return builder.close()


def tree_from_urdf(
    robot: ElementTree.Element,
    fallback_name: str,
    root: Root,
    continuous: Continuous,
    mimic: Mimic,
    check_inertia: Check,
) -> Tree:
    """Build the tree of a parsed ``<robot>`` element; see `delassus.load`."""
    if continuous not in ("angle", "cos-sin"):
        raise ModelError("continuous", "'angle' or 'cos-sin'", shown(continuous), "Choose one of the two.")
    if mimic not in ("independent", "refuse"):
        raise ModelError("mimic", "'independent' or 'refuse'", shown(mimic), "Choose one of the two.")
    name = robot.get("name") or fallback_name
    _check_elements(robot, name)
    described = _read(robot, name)

    mimicking = [j.name for j in described.joints if j.mimic is not None and j.type != "fixed"]
    if mimicking and mimic == "refuse":
        raise ModelError(
            f"joint {mimicking[0]!r}", "a joint that does not mimic another", f"{len(mimicking)} that do",
            "Load with mimic='independent' to give each a degree of freedom of its own.",
        )  # fmt: skip
    if mimicking:
        warn(f"robot {name!r}: {len(mimicking)} mimic joint(s) are independent here: {', '.join(mimicking)}.")
    links = [_raw_link(link) for link in described.links]
    joints = [_raw_joint(joint, continuous) for joint in described.joints]
    return build_tree(name, links, joints, root=root, sort_children=True, check_inertia=check_inertia)


def _check_elements(robot: ElementTree.Element, name: str) -> None:
    """Check what the reader would stumble over, naming the element; drop what no dynamics need."""
    macro = next((element.tag for element in robot.iter() if element.tag.startswith("xacro:")), None)
    if macro is not None:
        raise ModelError(
            f"robot {name!r}", "a URDF file without macros", f"<{macro}>", "Expand it: xacro robot.xacro > robot.urdf."
        )
    _prune(robot)
    robot.set("name", name)
    for element in robot:
        if not element.get("name"):
            raise ModelError(f"robot {name!r}", f"a name on every <{element.tag}>", "one without", "Name it.")
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
        what = f"link {link.get('name')!r}"
        for element in link.iter():
            for part in _REQUIRED.get(element.tag, ()):
                if element.find(part) is None and element.get(part) is None:
                    raise ModelError(
                        what, f"{part} in its <{element.tag}>", "none", "Add it, or leave out the whole <inertial>."
                    )
        _check_numbers(link, what)


def _prune(element: ElementTree.Element) -> None:
    """Drop the elements and attributes that no dynamics need."""
    needed = ("name", "type", "link", "joint", *_NUMBERS.get(element.tag, ()))
    for attribute in set(element.attrib) - set(needed):
        del element.attrib[attribute]
    for child in list(element):
        if child.tag in _NEEDED.get(element.tag, ()):
            _prune(child)
        else:
            element.remove(child)


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
            unusable = np.isnan if part.tag == "limit" else lambda a: ~np.isfinite(a)  # a limit may be infinite
            if len(numbers) != size or np.any(unusable(numbers)):
                raise ModelError(
                    f"{what}, {attribute} of <{part.tag}>", f"{size} finite number(s)", shown(text), "Correct the text."
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
    inertia = np.asarray(inertial.inertia, dtype=float)
    return RawLink(link.name, float(inertial.mass), com, rotation @ inertia @ rotation.T)


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
