"""Robots with closed loops as folders of ``example-parallel-robots`` hold them: a URDF file, and closures in YAML.

The YAML has these keys, of which each is a list, as long as the one beside it; all scalars are text:

=============================  ===================================================================================
``closed_loop``, ``type``      pairs of frames that are one, and how: ``6d`` (`Weld`) or ``3d`` (`Point`)
``name_mot``                   joints that motors drive
``joint_name``, ``joint_type``  joints that are something else than the URDF says: ``SPHERICAL``, ``CARDAN`` (two
                               hinges, about x and then y of its frame, ``_X`` and ``_Y`` after the name), ``FIXED``
=============================  ===================================================================================

Source: the loader of example-parallel-robots (LAAS-CNRS, INRIA). Deviation: a ``<limit>`` without ``lower`` and
``upper``, as exporters of CAD programs write it, limits nothing, where by URDF the joint could not move.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack
from xml.etree.ElementTree import Element, SubElement

from delassus.constraints import Constraint, Point, Weld, check_constraints
from delassus.errors import ModelError, require, shown, unknown_name
from delassus.formats.load import Loading, load_description
from delassus.formats.text import MAX_BYTES, check_file, read_xml
from delassus.model.actuators import Actuator
from delassus.model.check import check_choice, check_path
from delassus.model.edit.massless import KEPT, MASSLESS, with_inertia
from delassus.model.tree import Tree

CLOSURES = {"6d": Weld, "3d": Point}

BESIDE = {"closed_loop": "type", "type": "closed_loop", "joint_name": "joint_type", "joint_type": "joint_name"}
"""Lists of the same length."""

TYPES = "SPHERICAL", "CARDAN", "FIXED"

KEYS = frozenset({*BESIDE, "name_mot"})
"""What is read of a file; all else in it is not looked at."""

MOST_YAML = 2**20
"""Bytes of a YAML file, which takes ten microseconds a byte to read; those of robots have some thousand."""

Lists = Mapping[str, list[Any]]


def load_parallel(folder: str | Path, **given: Unpack[Loading]) -> Tree:
    """Load a robot with closed loops from a folder of ``example-parallel-robots``: its URDF file and its YAML file.

    Parameters
    ----------
    folder : path
        Folder with ``robot.urdf`` and ``robot.yaml``, or with one file of each kind.
    root, continuous, gimbals, massless, check_inertia, unsupported, max_bytes : optional
        As `delassus.load` takes them.

    Returns
    -------
    Tree
        Its ``constraints`` close the loops, after couplings of the URDF file; its ``actuators`` are the motors, by the
        names of their joints. A ``<limit>`` without ``lower`` and ``upper`` limits no position, as `delassus.load` has
        it; these robots have many, which are not listed.

    Raises
    ------
    ModelError
        As `delassus.load`; no such files in the folder, a YAML file that is none or has more than a megabyte, or lists
        in it that do not fit the robot or each other.
    UnknownNameError
        A frame or joint that the robot does not have; the nearest name is offered.
    MissingDependencyError
        The extra ``yaml`` is not installed.

    Examples
    --------
    >>> import delassus as ds
    >>> leg = ds.load_parallel("digit_like")  # doctest: +SKIP
    >>> len(leg.constraints), leg.nu  # doctest: +SKIP
    (3, 6)
    """
    path = check_path("folder", folder)
    urdf, closures = _only(path, "urdf"), _only(path, "yaml")
    max_bytes = given.get("max_bytes", MAX_BYTES)
    require("yaml", "yaml", "reading closures of loops")
    lists = _read_lists(closures, max_bytes)
    robot = read_xml(urdf, max_bytes)
    balls = _edit(robot, lists, f"file {str(closures)!r}")
    massless = given.pop("massless", "keep")
    check_choice("massless", massless, MASSLESS, ModelError)
    tree = load_description(robot, urdf, balls=balls, **given)
    motors = lists.get("name_mot", [])
    for name in motors:
        tree.v_index(name)  # refuses unknown ones
    loops, actuators = _loops(lists, f"file {str(closures)!r}"), tuple(Actuator(name, {name: 1.0}) for name in motors)
    tree = replace(tree, constraints=(*tree.constraints, *loops), actuators=actuators)
    check_constraints(tree, None)
    return with_inertia(replace(tree, omitted={x: names for x, names in tree.omitted.items() if x != KEPT}), massless)


def _only(folder: Path, suffix: str) -> Path:
    """``robot`` of that kind, else the only file of it."""
    try:
        found = sorted(folder.glob(f"*.{suffix}"))
    except (OSError, ValueError):
        found = []
    named = [path for path in found if path.stem == "robot"] or found
    if len(named) != 1:
        wanted, came = f"robot.{suffix}, or one file of that kind", f"{len(found)} of these"
        raise ModelError(f"folder {shown(str(folder))}", wanted, came, "Check the path.")
    return named[0]


def _read_lists(path: Path, max_bytes: float) -> Lists:
    """Lists of a YAML file by their keys, in which all that is no list or mapping is text; those that are known."""
    import yaml

    what = f"file {shown(str(path))}"
    check_file(path, max_bytes)
    check_file(path, min(max_bytes, MOST_YAML))
    try:
        found = yaml.load(path.read_bytes(), Loader=yaml.BaseLoader)  # makes text, lists and mappings, nothing else
    except (yaml.YAMLError, OSError, RecursionError, ValueError) as error:
        came = f"{type(error).__name__}: {error}"
        raise ModelError(what, "YAML that can be read", came, "Correct the file.") from error
    found = {} if found in (None, "") else found
    if not isinstance(found, dict):
        raise ModelError(what, "keys and their lists", shown(found), "Correct the file.")
    out: dict[str, list[Any]] = {}
    for key in KEYS & set(found):
        if not isinstance(found[key], list):
            raise ModelError(f"{what}, {key!r}", "a list, as [a, b]", shown(found[key]), "Correct the file.")
        out[key] = found[key]
    for key, items in out.items():
        other = BESIDE.get(key)
        if other is not None and len(items) != len(out.get(other, [])):
            came = f"{len(items)} of {key} and {len(out.get(other, []))} of {other}"
            raise ModelError(what, f"as many items of {key} as of {other}", came, "Correct the file.")
    for name in out.get("joint_name", []):
        if not isinstance(name, str):
            raise ModelError(f"{what}, 'joint_name'", "names of joints", shown(name), "Correct the file.")
    return out


def _loops(lists: Lists, what: str) -> Iterator[Constraint]:
    for pair, kind in zip(lists.get("closed_loop", []), lists.get("type", []), strict=True):
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise ModelError(f"{what}, closed_loop", "pairs of frames", shown(pair), "Correct the file.")
        if not isinstance(kind, str) or kind.lower() not in CLOSURES:
            raise ModelError(f"{what}, type", " or ".join(CLOSURES), shown(kind), "Correct the file.")
        yield CLOSURES[kind.lower()](*pair)


def _edit(robot: Element, lists: Lists, what: str) -> set[str]:
    """Give joints the types of the YAML file, and take limits off that are none; names of those that are balls."""
    kinds = dict(zip(lists.get("joint_name", []), lists.get("joint_type", []), strict=True))
    joints = {joint.get("name", ""): joint for joint in robot.findall("joint")}
    for joint in joints.values():
        limit = joint.find("limit")
        if joint.get("type") == "revolute" and limit is not None and {"lower", "upper"}.isdisjoint(limit.keys()):
            joint.set("type", "continuous")
    for name, kind in kinds.items():
        if name not in joints:
            raise unknown_name(f"{what}, joint_name", name, joints)
        if kind not in TYPES:
            raise ModelError(
                f"{what}, joint_type", f"a type among {', '.join(TYPES)}", shown(kind), "Correct the file."
            )
        joint = joints[name]
        joint.set("type", "fixed" if kind == "FIXED" else "continuous")
        if kind == "CARDAN":
            _set_axis(joint, "1 0 0")
            second, between = deepcopy(joint), f"{name}_X"
            for element in (*second.findall("origin"), *second.findall("mimic")):
                second.remove(element)
            _set_axis(second, "0 1 0")
            for element, own, role in ((joint, between, "child"), (second, f"{name}_Y", "parent")):
                element.set("name", own)
                end = element.find(role)
                if end is not None:  # else the reader says so
                    end.set("link", between)
            robot.append(second)
            SubElement(robot, "link", name=between)
    return {name for name, kind in kinds.items() if kind == "SPHERICAL"}


def _set_axis(joint: Element, axis: str) -> None:
    for element in joint.findall("axis"):
        joint.remove(element)
    SubElement(joint, "axis", xyz=axis)
