"""Constraints and configurations as a user types them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from delassus.constraints import Constraint, Contact, Frame, Point, Weld
from delassus.errors import ConfigurationError, ConstraintError
from delassus.model.check import decimal_numbers, real_array
from delassus.model.shapes import Sphere
from delassus.model.tree import Tree
from delassus.spatial.rotations import Array


def parse_constraints(
    tree: Tree, welds: Sequence[str] | None, points: Sequence[str] | None, needed: bool = True
) -> Sequence[Constraint]:
    """Constraints from ``LINK``, ``LINK@x,y,z`` or ``LINK,LINK`` (a loop), welds first; those of the file if none.

    ``needed``: at least one.
    """
    typed = [_parse(text, Weld) for text in welds or ()] + [_parse(text, Point) for text in points or ()]
    constraints = typed or tree.constraints
    if needed and not constraints:
        raise ConstraintError("constraints", "at least one", "none", "Give --weld LINK or --point LINK.")
    return constraints


def parse_contact(text: str) -> Contact:
    """Sphere that may touch the ground, from ``LINK:RADIUS`` or ``LINK@x,y,z:RADIUS``."""
    frame, _, size = text.rpartition(":")
    radius = decimal_numbers(size) or ()
    if not frame or len(radius) != 1:
        raise ConstraintError(f"contact {text!r}", "LINK:RADIUS or LINK@x,y,z:RADIUS", repr(size), "Write foot:0.02.")
    return Contact(parse_frame(frame), Sphere(*radius))


def parse_frame(text: str) -> Frame:
    """Frame from ``LINK`` or ``LINK@x,y,z``."""
    if "@" not in text:
        return Frame(text)
    link, _, place = text.rpartition("@")
    position = [number for word in place.split(",") for number in decimal_numbers(word) or ()]
    if len(position) != 3 or place.count(",") != 2:
        raise ConstraintError(f"frame {text!r}", "LINK@x,y,z", repr(place), "Give three numbers in m.")
    return Frame(link, position)


def parse_value(text: str) -> tuple[str, float]:
    """Name and number from ``NAME=NUMBER``."""
    name, _, number = text.rpartition("=")
    value = decimal_numbers(number) or ()
    if not name or len(value) != 1:
        raise ConfigurationError(f"control {text!r}", "NAME=NUMBER", repr(text), "Write such as hip=0.5.")
    return name, value[0]


def _parse(text: str, make: Callable[..., Constraint]) -> Constraint:
    if "@" in text:
        return make(parse_frame(text))
    links = text.split(",")
    if len(links) > 2:
        raise ConstraintError(f"constraint {text!r}", "one link or two", f"{len(links)}", "Write LINK or LINK,LINK.")
    return make(*links)


def read_configuration(path: Path) -> Array:
    """Configurations from an ``.npy`` file or a text file of numbers."""
    try:
        if path.suffix == ".npy":  # mapped, so that what it claims to hold is held against its size
            array = real_array(np.lib.format.open_memmap(path, mode="r"))
        else:
            array = real_array(np.loadtxt(path, delimiter="," if path.suffix == ".csv" else None))
    except Exception as error:  # what NumPy makes of a damaged header may be anything
        raise ConfigurationError(f"file {str(path)!r}", "an array of numbers", str(error), "Check the file.") from error
    if array is None:
        raise ConfigurationError(f"file {str(path)!r}", "an array of numbers", "an array of others", "Check the file.")
    return array
