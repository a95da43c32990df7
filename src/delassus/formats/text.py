"""What the writers of robot descriptions share: elements of XML, and numbers as text."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from delassus.errors import ModelError
from delassus.spatial.rotations import Array

Attributes = Mapping[str, "str | ArrayLike"]

INDENT = "  "

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


def element(level: int, tag: str, attributes: Attributes, is_open: bool = False) -> str:
    """Line of an element, or of its start where others follow in it; ASCII whatever the names.

    Raises
    ------
    ModelError
        An empty name: readers take it for none.
    """
    if attributes.get("name") == "" and level > 0:
        raise ModelError(f"name of a <{tag}>", "text that is not empty", "''", "Rename it.")
    pairs = ((key, value if isinstance(value, str) else numbers(value)) for key, value in attributes.items())
    text = "".join(f' {key}="{value.translate(_ESCAPES)}"' for key, value in pairs)
    line = f"{INDENT * level}<{tag}{text}{'>' if is_open else '/>'}"
    return line.encode("ascii", "xmlcharrefreplace").decode()


def numbers(values: ArrayLike) -> str:
    """Numbers in as many digits as they need."""
    return " ".join(repr(x + 0.0).removesuffix(".0") for x in np.ravel(values).astype(float).tolist())


def tidy(values: ArrayLike) -> Array:
    """Computed numbers without their round-off: of 15 digits of the largest where that changes its last bits only."""
    given = np.asarray(values, dtype=float)
    largest = float(np.max(np.abs(given), initial=0.0))
    if largest == 0.0:
        return given
    rounded = np.round(given, int(min(15 - np.ceil(np.log10(largest)), 300)))
    return np.asarray(np.where(np.abs(rounded - given) <= 4 * np.finfo(float).eps * largest, rounded, given))


def common(values: ArrayLike) -> float:
    """Number that all degrees of freedom of a joint have; 0 where they differ."""
    return 0.0 if np.ptp(values) else float(np.max(values))
