"""Models of an SDF file: those in one another, and those of files that it includes.

Files are looked for where their addresses say: below the folders of the environment variables in `FOLDERS`, and below
those above the file. Nothing is downloaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring

from delassus.errors import ModelError, shown
from delassus.formats.sdf.frames import OWN, WORLD, Model, flag_of, name_of, text_of
from delassus.formats.text import check_file, folders_in, read_xml

FOLDERS = ("SDF_PATH", "GZ_SIM_RESOURCE_PATH", "IGN_GAZEBO_RESOURCE_PATH", "GAZEBO_MODEL_PATH", "ROS_PACKAGE_PATH")
"""Environment variables that name folders of models."""

DEEPEST_INCLUDE = 50
"""Files that include one another deeper than this are refused."""

LARGEST_VERSION = (1, 12)

CONFIG = "model.config"
"""File that says which file of a folder is the model."""

LEAST_BYTES = 4096.0
"""What a file that is included counts at least, towards the most bytes of a description."""

OF_GAZEBO = {
    "model://sun": "",
    "model://ground_plane": (
        "<sdf version='1.6'><model name='ground_plane'><static>true</static><link name='link'>"
        "<collision name='collision'><geometry><plane><normal>0 0 1</normal></plane></geometry></collision>"
        "</link></model></sdf>"
    ),
}
"""Models that come with Gazebo, for worlds that include them where no file is: a light, and a plane."""

OVERRIDDEN = ("pose", "static")
"""Elements of an ``<include>`` that count before those of the model."""


def models_of(root: Element, path: Path, max_bytes: float) -> list[Model]:
    """The world of a parsed ``<sdf>``, then its models, each after the one that it is in.

    Names of a file with one model are as they are there; those of a world are ``model::link``.

    Raises
    ------
    ModelError
        Another version; no model, or more than one world; a file that is included and not there, that is no SDF, or
        that includes itself; more bytes than ``max_bytes`` in all files that are included.
    """
    what, version = f"file {str(path)!r}", _version(root, path)
    worlds, models = root.findall("world"), root.findall("model")
    if len(worlds) > 1 or not (worlds or models or root.find("include") is not None):
        came = f"{len(worlds)} worlds" if worlds else "neither"
        raise ModelError(what, "a <model>, or one <world>", came, "Write one file for each world.")
    world = Model(worlds[0] if worlds else root, "", WORLD, None, path, version)
    found, budget = [world], [max_bytes]
    if not worlds and len(models) == 1 and root.find("include") is None:
        is_static = flag_of(models[0], "static", what)
        found.append(Model(models[0], "", OWN, world, path, version, is_static))
    for model in found:  # which grows
        if model.around is not None or len(found) == 1 or found[1].key != OWN:
            found += _inside(model, budget, max_bytes)
    return found


def _version(root: Element, path: Path) -> tuple[int, int]:
    text = root.get("version", "")
    numbers = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})", text.strip())
    if numbers is None or not (1, 0) <= (version := (int(numbers[1]), int(numbers[2]))) <= LARGEST_VERSION:
        wanted = f"1.0 to {LARGEST_VERSION[0]}.{LARGEST_VERSION[1]}"
        raise ModelError(f"file {str(path)!r}, version of SDF", wanted, shown(text), "Correct it.")
    return version


def _inside(model: Model, budget: list[float], max_bytes: float) -> Iterator[Model]:
    """Models that stand in another, or that it includes."""
    for element in model.element:
        if element.tag == "model":
            key = model.prefix + name_of(element, model.what)
            is_static = model.is_static or flag_of(element, "static", f"model {key!r}")
            yield Model(element, f"{key}::", key, model, model.path, model.version, is_static)
        elif element.tag == "include":
            address = text_of(element, "uri")
            what = f"<include> of {shown(address)} in file {str(model.path)!r}"
            path = _file_of(address, model.path, what)
            if path is not None:
                yield _included(element, model, _read(path, model, budget, max_bytes, what), path, what)
            elif address.rstrip("/") not in OF_GAZEBO:
                advice = f"Set {FOLDERS[0]} to the folder that holds it."
                raise ModelError(what, "a file or folder that exists", shown(address), advice)
            elif text := OF_GAZEBO[address.rstrip("/")]:
                yield _included(element, model, fromstring(text), model.path, what)


def _read(path: Path, around: Model, budget: list[float], max_bytes: float, what: str) -> Element:
    """A file that is included, by a model of another."""
    outer: Model | None = around
    depth = 0
    while outer is not None:
        if outer.path.absolute() == path.absolute():
            raise ModelError(what, "a file that does not include itself", str(path), "Take the <include> out.")
        outer, depth = outer.around, depth + 1
    if depth > DEEPEST_INCLUDE:
        raise ModelError(
            what, f"files that include one another {DEEPEST_INCLUDE} deep at most", "more", "Flatten them."
        )
    check_file(path, max_bytes)
    budget[0] -= max(LEAST_BYTES, float(path.stat().st_size))
    if budget[0] < 0.0:
        raise ModelError(what, f"included files of {max_bytes:g} bytes at most", "more", "Pass a larger max_bytes.")
    return read_xml(path, max_bytes)


def _included(include: Element, around: Model, root: Element, path: Path, what: str) -> Model:
    """The model of a file that an ``<include>`` names, with the name and pose that this gives it."""
    if root.tag != "sdf":
        raise ModelError(what, "an SDF file", f"one whose outermost element is <{root.tag}>", "Include SDF files.")
    models = root.findall("model")
    if len(models) != 1:
        raise ModelError(what, "a file with one <model>", f"{len(models)} of them", "Include one model at a time.")
    given = {x.tag: x for x in include}
    element = Element("model", dict(models[0].attrib))
    element.set("name", text_of(include, "name") or name_of(models[0], f"file {str(path)!r}"))
    if frame := text_of(include, "placement_frame"):
        element.set("placement_frame", frame)
    element.extend(x for x in models[0] if x.tag not in OVERRIDDEN or x.tag not in given)
    element.extend(given[tag] for tag in OVERRIDDEN if tag in given)
    key = around.prefix + element.get("name", "")
    is_static = around.is_static or flag_of(element, "static", f"model {key!r}")
    is_merged = include.get("merge", "false").lower() in ("true", "1")
    prefix = around.prefix if is_merged else f"{key}::"
    return Model(element, prefix, key, around, path, _version(root, path), is_static)


def folders_of(file: Path) -> list[Path]:
    """Folders of models that environment variables name, and the one that holds the folder of a file."""
    return [*folders_in(*FOLDERS), *file.absolute().parents[1:2]]


def _file_of(address: str, file: Path, what: str) -> Path | None:
    """File of an address; of a folder, the newest one that its `CONFIG` names, or the only one. None: it is nowhere."""
    scheme, mark, rest = address.partition("://")
    if mark and scheme not in ("model", "package", "file"):
        raise ModelError(what, "a model://, package:// or file:// address, or a path", scheme, "Nothing is downloaded.")
    here = file.absolute().parents
    folders = [Path("/")] if scheme == "file" and mark else [*here[:1], *folders_of(file), *here[1:]]
    for folder in folders:
        place = folder / rest.lstrip("/") if mark else folder / address
        try:
            if place.is_file():
                return place
            if place.is_dir():
                return _model_in(place, what)
        except (OSError, ValueError):
            pass  # a path that cannot exist
    return None


def _model_in(folder: Path, what: str) -> Path:
    """The file of a folder that is the model."""
    config = folder / CONFIG
    if config.is_file():
        named = [
            (_number(x.get("version", "0")), folder / (x.text or "").strip()) for x in read_xml(config).iter("sdf")
        ]
        files = [path for _, path in sorted(named, key=lambda x: x[0], reverse=True) if path.is_file()]
    else:
        files = sorted(folder.glob("*.sdf"))
        files = files if len(files) == 1 else []
    if not files:
        raise ModelError(what, f"a {CONFIG} that names a file, or one .sdf file", str(folder), "Name the file.")
    return files[0]


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(x) for x in version.split(".") if x.isdigit())
