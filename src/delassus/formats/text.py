"""What readers and writers of robot descriptions share: XML, parsed strictly and written, and numbers as text."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import numpy as np
from numpy.typing import ArrayLike

from delassus.errors import ModelError, shown
from delassus.model.description import DEEPEST_XML
from delassus.spatial.rotations import Array

MAX_BYTES = 1e8
"""Default of ``max_bytes``: larger descriptions are refused."""

Attributes = Mapping[str, "str | ArrayLike"]

INDENT = "  "

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


def read_xml(path: Path, max_bytes: float = MAX_BYTES) -> Element:
    """Parse an XML file that declares no document type (so no entities, external or exploding); returns its root.

    Namespaces are not resolved: prefixes stay in the names, as in other readers of robot descriptions.

    Raises
    ------
    ModelError
        What `check_file` raises; the file is not XML, declares a document type, or nests elements deeper than
        `DEEPEST_XML`.
    """
    check_file(path, max_bytes)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"file {str(path)!r}", "a file that can be read", str(error), "Check the path.") from error
    return parse_xml(data, f"file {str(path)!r}")


def check_file(path: Path, max_bytes: float) -> None:
    """Refuse a pipe, a device or anything else whose reading may not end, and a file of more than ``max_bytes``."""
    what = f"file {shown(str(path))}"
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        raise ModelError(what, "a file that can be read", str(error), "Check the path.") from error
    if not stat.S_ISREG(status.st_mode):
        raise ModelError(what, "a regular file", "a folder, pipe, device or socket", "Check the path.")
    refuse_beyond(max_bytes, what, status.st_size)


def refuse_beyond(max_bytes: float, what: str, size: float) -> None:
    """Refuse a description, or part of one, of more than ``max_bytes``."""
    if not isinstance(max_bytes, int | float) or not max_bytes > 0:
        raise ModelError("max_bytes", "a positive number", shown(max_bytes), "Pass such as 1e9, or inf for no limit.")
    if size > max_bytes:
        raise ModelError(
            what, f"at most {max_bytes:g} bytes", f"{size:g}", "Load it with a larger max_bytes if it is meant so."
        )


def parse_xml(data: bytes, what: str, encoding: str | None = None) -> Element:
    """Parse XML text, in this encoding whatever it declares; see `read_xml`."""

    def refuse(*_: object) -> None:
        raise ModelError(
            what, "XML without a document type declaration", "a <!DOCTYPE …>",
            "Remove the declaration and write out its entities.",
        )  # fmt: skip

    builder = TreeBuilder()
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

    parser = expat.ParserCreate(encoding)
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
