"""What readers and writers of robot descriptions share: XML, parsed and written, and numbers as text.

XML is parsed strictly. Text that this refuses, and that other readers of robot descriptions take (TinyXML reads for
urdfdom and MuJoCo), is mended and parsed strictly again, with a warning.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import numpy as np
from numpy.typing import ArrayLike

from delassus.errors import ModelError, shown, warn
from delassus.model.description import DEEPEST_XML
from delassus.spatial.rotations import Array

MAX_BYTES = 1e8
"""Default of ``max_bytes``: larger descriptions are refused."""

_MESH = "a mesh"
OTHER_FORMATS = {
    **dict.fromkeys((".dae", ".stl", ".obj", ".ply", ".gltf", ".glb", ".fbx", ".wrl"), _MESH),
    **dict.fromkeys((".step", ".stp", ".iges", ".igs", ".sldasm", ".sldprt"), "a CAD model"),
    **dict.fromkeys((".yaml", ".yml"), "YAML"), **dict.fromkeys((".zip", ".gz", ".tar", ".tgz"), "an archive"),
    **dict.fromkeys((".proto", ".wbt"), "a Webots model"), ".mjb": "MuJoCo's binary format", ".json": "JSON",
    ".skel": "SKEL, as DART reads it", ".osim": "OpenSim", ".lua": "Lua, as RBDL reads it", ".bvh": "BVH",
}  # fmt: skip
"""Names of formats by endings of files: those of robots that `load` does not read, and of parts of robots."""

OTHER_ROOTS = {
    "COLLADA": _MESH, "OpenSimDocument": "OpenSim", "skel": "SKEL, as DART reads it",
    "mujocoinclude": "a part of an MJCF file", "launch": "a ROS launch file",
}  # fmt: skip
"""Names of formats by the outermost elements of XML files."""

_WAYS = {
    ".mjb": "Pass mujoco.MjModel.from_binary_path(path), or the file that it was compiled from.",
    _MESH: "Load the robot's URDF or MJCF file, which names its meshes.",
    "an archive": "Unpack it, and load the robot's URDF or MJCF file.",
    "YAML": "Load the robot's URDF or MJCF file; load_parallel reads a folder of URDF and YAML.",
}

Attributes = Mapping[str, "str | ArrayLike"]

INDENT = "  "

_TOKEN = re.compile(
    r"""(?P<comment><!--.*?-->) | (?P<declaration><\?.*?\?>) | (?P<doctype><!DOCTYPE) | (?P<data><!\[CDATA\[.*?\]\]>)
      | </(?P<end>[^\s<>/]++)\s*+>
      | <(?P<start>[^\s<>/!?"'=]++)(?P<attributes>(?:\s*+[^\s<>/"'=]++\s*+=\s*+(?:"[^"]*+"|'[^']*+'))*+)
        \s*+(?P<empty>/?)>
      | (?P<text>[^<]++)""",
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)
_ATTRIBUTE = re.compile(r"""\s*+([^\s<>/"'=]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")
_BARE = re.compile(r"&(?!#?\w+;)|<")
"""Characters that are written as ``&amp;`` and ``&lt;`` in XML."""

_NO_LATIN = re.compile("[\x80-\x9f]")
"""Characters that no text in Latin-1 has."""

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


def read_xml(path: Path, max_bytes: float = MAX_BYTES) -> Element:
    """Parse an XML file that declares no document type (so no entities, external or exploding); returns its root.

    Namespaces are not resolved: prefixes stay in the names, as in other readers of robot descriptions. Faults that
    these readers overlook are mended, with a warning.

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


def folders_in(*variables: str) -> list[Path]:
    """Folders that environment variables name."""
    return [Path(x) for name in variables for x in os.environ.get(name, "").split(os.pathsep) if x]


def refuse_format(path: Path) -> None:
    """Refuse a file whose ending is that of a format that `load` does not read, by the name of the format."""
    suffix = path.suffix.lower()
    if suffix in OTHER_FORMATS:
        form = OTHER_FORMATS[suffix]
        advice = _WAYS.get(suffix) or _WAYS.get(form) or "Convert it to URDF, SDF, MJCF or OpenUSD."
        raise ModelError(f"file {shown(str(path))}", "a URDF, SDF, MJCF or OpenUSD file", f"{form} ({suffix})", advice)


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


def parse_xml(data: bytes | str, what: str) -> Element:
    """Parse XML text; see `read_xml`."""
    try:
        return _parsed(data, what)
    except ModelError as error:
        mended = None if error.__cause__ is None else _mended(data, what)
        if mended is None:
            raise
        text, mends = mended
        try:
            root = _parsed(text, what)
        except ModelError as again:
            raise again if again.__cause__ is None else error from None
    warn(f"{what} is no well-formed XML, and is read as if it were, as other readers do: {', '.join(mends)}", once=True)
    return root


def _parsed(data: bytes | str, what: str) -> Element:
    """Parse XML text strictly."""
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

    def refuse(*_: object) -> None:
        raise _document_type(what)

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(what, "well-formed XML", str(error), "Check that this is a robot description.") from error
    return builder.close()


def _document_type(what: str) -> ModelError:
    return ModelError(
        what, "XML without a document type declaration", "a <!DOCTYPE …>",
        "Remove the declaration and write out its entities.",
    )  # fmt: skip


def _mended(data: bytes | str, what: str) -> tuple[str, list[str]] | None:
    """Elements of a text as well-formed XML, and what was mended; None where nothing is, or what is wrong is unclear.

    Mended are white space before the declaration and further declarations, ``--`` in comments, text in Latin-1, closing
    tags of elements that are not open, characters that have to be escaped, and attributes without space between them.
    """
    mends: dict[str, None] = {}
    try:
        text = data if isinstance(data, str) else data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        text, mends["text in Latin-1"] = error.object.decode("latin-1"), None
    out: list[str] = []
    opened: list[str] = []
    at, has_root = 0, False
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            return None
        kind, found = str(token.lastgroup), token.group()
        if kind == "empty":
            kind = "start"
        if kind == "doctype":
            raise _document_type(what)
        if kind == "comment" and ("--" in found[4:-3] or found.endswith("--->")):
            mends["-- in a comment"] = None
        elif kind == "declaration" and at and found[2:6].lower() == "xml ":
            mends["text before an XML declaration" if text[:at].strip() else "white space before the declaration"] = (
                None
            )
        elif kind == "end" and token["end"] not in opened:
            mends[f"closing tag </{shown(token['end'])[1:-1]}> too many"] = None
        elif kind == "end":
            opened.pop()  # where it is another one, the strict parser says so
            out.append(found)
        elif kind == "start":
            if (has_root and not opened) or len(opened) > DEEPEST_XML:  # of two roots nobody knows which is meant
                return None
            has_root = True
            out.append(f"<{token['start']}{_attributes(token['attributes'], mends)}{token['empty']}>")
            opened += [] if token["empty"] else [token["start"]]
        elif kind == "text" and opened:
            out.append(_escaped(found, mends))
        elif kind == "data" and opened:
            out.append(found)
        elif kind in ("text", "data") and found.strip():
            return None
        at = token.end()
    written = "".join(out)
    return (written, [*mends]) if mends and not _NO_LATIN.search(written) else None


def _attributes(text: str, mends: dict[str, None]) -> str:
    """Attributes of an element as XML, of which `_mended` says what was mended."""
    out = []
    for attribute in _ATTRIBUTE.finditer(text):
        name, value = attribute[1], attribute[2] if attribute[3] is None else attribute[3]
        if not attribute.group()[0].isspace():
            mends["attributes without space between them"] = None
        out.append(f' {name}="{_escaped(value, mends).replace(chr(34), "&quot;")}"')
    return "".join(out)


def _escaped(text: str, mends: dict[str, None]) -> str:
    """Text of an element or a value with its characters escaped that have to be."""
    escaped = _BARE.sub(lambda x: {"&": "&amp;", "<": "&lt;"}[x.group()], text)
    if escaped != text:
        mends["& or < as such"] = None
    return escaped


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
