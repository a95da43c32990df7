"""What users hand over in a direct call, checked: its arrays as arguments of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from delassus.algorithms.inputs import CONFIGURATIONS, inputs_of
from delassus.constraints import ROW_LAYOUT, Argument, Constraint
from delassus.errors import ConfigurationError, ConstraintError, shown, unknown_name
from delassus.model.check import common_batch, finite_array, library_of, normalised, real_array
from delassus.model.tree import Tree
from delassus.quantities.checks import Option, one_each
from delassus.quantities.keywords import ConstraintArguments
from delassus.quantities.options import OPTIONS
from delassus.spatial.rotations import Array

NONE: Mapping[str, Any] = MappingProxyType({})

LISTS = {"rows": ("Rows(link, m) constraint(s)", "K"), "placements": ("Frame(link, given=…)", "p")}
"""Keywords that hold one array for each argument: what asks for them, and what advice calls one."""

KEYWORDS = (*ConstraintArguments.__annotations__, *OPTIONS)
"""What the direct functions take beside states."""


def as_arguments(
    constraints: Sequence[Constraint], given: Mapping[str, Any], held: Sequence[Constraint], are_tasks: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keywords of `request` for those of a direct call, and the values of arguments by name.

    Where constraints ``are_tasks``, those that are ``held`` come after them.
    """
    keywords, values = {**given}, dict[str, Any]()
    for name in keywords:
        if name not in KEYWORDS:
            raise unknown_name("keyword", name, KEYWORDS)
    loads = _mapping("payloads", keywords.pop("payloads", None), "{'gripper': x, …}")
    inputs = inputs_of((*constraints, *held), list(loads))
    values.update(zip((i.name for i in inputs if i.keyword == "payloads"), loads.values(), strict=True))
    for keyword in LISTS:
        names = [i.name for i in inputs if i.keyword == keyword]
        values.update(zip(names, _listed(keyword, keywords.pop(keyword, None), len(names)), strict=True))
    for name in ("kp", "kd"):
        if name in keywords and not are_tasks:  # of PD control: states
            if not (isinstance(control := keywords.get("control"), str) and control == "pd"):
                advice = "Leave it out, or pass control='pd'."
                raise ConfigurationError(name, "none without control='pd'", "some", advice)
            values[name] = keywords.pop(name)
    for name in [*keywords]:
        if (option := OPTIONS[name]).argument == "":
            continue
        x = keywords.pop(name)
        if name == "wrenches":
            wrenches = _mapping(name, x, "{'hand': [f, m]}")
            keywords[name], each = list(wrenches), list(wrenches.values())
        elif option.is_each:
            each = one_each(name, x, len(constraints), alike=not option.is_flag)
            if name == "poses":
                stable = one_each("baumgarte", given.get("baumgarte"), len(constraints))
                each = [None if x is None else _pose(c, x) for c, x in zip(constraints, each, strict=True)]
                each = [x if are_tasks or b is not None else None for x, b in zip(each, stable, strict=True)]
            keywords[name] = [option.asks if x is not None else None if option.asks == "input" else False for x in each]
        else:
            _one(option, x, keywords, values)
            continue
        values.update((option.argument.format(i=i), x) for i, x in enumerate(each) if x is not None)
    return {**keywords, "payloads": list(loads)}, values


def _one(option: Option, x: Any, keywords: dict[str, Any], values: dict[str, Any]) -> None:
    """An option that has one argument: text, and one number where that is what it takes, are built in."""
    is_number = option.kind == "float" and ((numbers := real_array(x)) is None or numbers.ndim == 0)
    if is_number or (isinstance(x, str) and not option.is_flag) or (x is None and option.name == "damping"):
        keywords[option.name] = x
    elif x is not None:
        values[option.name], keywords[option.name] = x, option.asks


def checked_values(
    tree: Tree, arguments: Sequence[Argument], values: Mapping[str, Any], known: Mapping[str, Array] = NONE
) -> tuple[dict[str, Array], tuple[int, ...]]:
    """Return the values of all arguments as float64, each (..., *shape), and the batch that they broadcast to.

    Those that are ``known`` have been checked.
    """
    out: dict[str, Array] = {}
    batch: tuple[int, ...] = ()
    for a in arguments:
        if a.name in known:
            out[a.name] = array = known[a.name]
        elif a.name in values:
            out[a.name] = array = _checked(tree, a, values[a.name])
        else:
            raise ConfigurationError(a.owner or a.name, f"an array of shape (..., {a.size})", "none", "Pass it.")
        if array.ndim == len(a.shape):
            continue
        others = ", ".join(name for name in out if name != a.name and out[name].ndim > 1) or "the others"
        batch = common_batch(a.owner or a.name, array.shape[: array.ndim - len(a.shape)], others, batch)
    return out, batch


def _checked(tree: Tree, a: Argument, value: Any) -> Array:
    owner, kind, option = a.owner or a.name, a.keyword or a.name, OPTIONS.get(a.keyword)
    if option is not None and option.values is not None:
        return option.values(tree, value, a.size, owner)
    if kind in CONFIGURATIONS:
        return tree.check_configuration(value, a.name)
    if kind in ("v", "tau", "qdd", "v_target"):
        return tree.check_velocity(value, a.name)
    if kind == "rows":
        return finite_array(value, (..., a.shape[0], 6), owner, ROW_LAYOUT, ConstraintError)
    if a.flags and (flags := real_array(value, flags=True)) is not None:
        value = flags
    if not a.shape and (numbers := real_array(value)) is not None:
        value = numbers[..., None]
    error = ConstraintError if kind == "targets" else ConfigurationError
    array = finite_array(value, (..., a.size), owner, f"Pass {a.meaning}.", error)
    if kind in ("placements", "poses") and a.shape == (7,):
        return normalised(array, slice(3, 7), f"quaternion of the {owner}")
    return array if a.shape else array[..., 0]


def each_row(a: Argument, value: Any) -> Any:
    """A number that is that of all rows, as an array; all else as it is."""
    option = OPTIONS.get(a.keyword)
    one_for_all = option is not None and option.values is not None and a.keyword != "damping"
    return np.full(a.shape, value) if one_for_all and np.shape(value) == () else value


def _mapping(argument: str, value: Any, example: str) -> Mapping[Any, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise ConfigurationError(argument, "a mapping of arrays", shown(value), f"Pass {argument}={example}.")
    return value or {}


def _listed(keyword: str, arrays: Any, wanted: int) -> Sequence[Any]:
    """One array for each argument of a keyword, or `ConstraintError`."""
    owners, letter = LISTS[keyword]
    if arrays is not None and not isinstance(arrays, list | tuple):
        raise ConstraintError(keyword, "a list of arrays", type(arrays).__name__, f"Pass {keyword}=[{letter}, …].")
    given = arrays or ()
    if len(given) != wanted:
        advice = f"Pass {keyword}=[{letter}, …], in the order of the constraints."
        raise ConstraintError(keyword, f"one array for each of {wanted} {owners}", f"{len(given)}", advice)
    return given


def _pose(c: Constraint, pose: Any) -> Any:
    """Wanted pose in the world of a constraint's first frame (..., 7), or position of a point (..., 3).

    Kernels check arrays of other libraries.
    """
    name = f"pose of {c!r}"
    if not c.pose_size:
        wanted = "None for Rows, JointRows and constraints between two links"
        raise ConstraintError(name, wanted, shown(pose), "These have no place in the world.")
    if library_of(type(pose)):
        return pose[..., : c.pose_size]
    given = real_array(pose)
    if c.pose_size == 3 and given is not None and given.shape[-1:] == (3,):
        return finite_array(given, (..., 3), name, "Pass the position in m.", ConstraintError)
    array = finite_array(
        pose, (..., 7), name, "Pass the position in m and the unit quaternion x y z w.", ConstraintError
    )
    array = normalised(array, slice(3, 7), f"quaternion of the {name}")
    return array[..., : c.pose_size]
