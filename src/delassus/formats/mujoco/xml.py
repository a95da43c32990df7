"""MJCF files → ``mujoco.MjModel``.

MuJoCo takes for ever on some files and crashes on others: models that attach themselves, counts of a thousand million,
pipes in the place of files. So a file is weighed before MuJoCo sees it: every element as often as it is replicated,
included and attached, and every table of which an element says only the size.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from delassus.errors import ModelError, require, shown, warn
from delassus.formats.text import check_file, read_xml, refuse_beyond
from delassus.model.check import decimal_numbers

ELEMENT = 4096
"""Bytes that MuJoCo's compiler takes for an element, about."""

TABLES = (
    ("texture", ("width", "height"), 24),
    ("2d texture", ("width", "height"), 4),
    ("hfield", ("nrow", "ncol"), 8),
    ("composite", ("count",), 3 * ELEMENT),
    ("flexcomp", ("count",), 3 * ELEMENT),
    ("flexcomp", ("cellcount",), 3 * ELEMENT),
    ("size", ("nkey",), ELEMENT),
    ("size", ("nuserdata",), 8),
    (None, ("nsample", "actdim", "dim", "num"), 160),
)
"""Elements (None: any), attributes of which the product says how many pieces they have, and bytes of a piece.

Textures have six faces, but for those of type 2d."""

ONCE = ("asset", "default")
"""Elements whose content MuJoCo copies once for each ``<attach>``, however often that is replicated."""

COUNTED = {name for _, names, _ in TABLES for name in names}

DEEPEST_MODELS = 20
"""Models nested deeper than this are refused: MuJoCo reads them by recursion."""


def read_mjcf(path: Path, root: Element, max_bytes: float, text: str | None = None) -> Any:
    """Compile an MJCF file, or text that has no file, parsed to ``root``, to a ``mujoco.MjModel``.

    Raises
    ------
    ModelError
        The file, or one that it includes or attaches, is not read by `read_xml`, or attaches itself, or MuJoCo does not
        compile it; what MuJoCo would make of it takes more than ``max_bytes``.
    MissingDependencyError
        MuJoCo is not installed.
    """
    require("mujoco", "mjcf", f"file {str(path)!r}")
    import mujoco

    _Unit(path, root, max_bytes, ()).weights()
    said: list[str] = []
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(said.append)  # else it writes a file into the working folder
    try:
        if text is None and path.suffix not in (".xml", ".urdf"):  # MjSpec reads no others
            return mujoco.MjModel.from_xml_path(str(path))
        spec = mujoco.MjSpec.from_file(str(path)) if text is None else mujoco.MjSpec.from_string(text)
        spec.compiler.LRopt.mode = int(mujoco.mjtLRMode.mjLRMODE_NONE)  # else it simulates every muscle, for long
        return spec.compile()
    except Exception as error:  # MuJoCo's own errors, fatal ones included, share no base class
        raise ModelError(
            f"file {str(path)!r}", "an MJCF file that MuJoCo compiles",
            f"{type(error).__name__}: {error}", "Correct the file.",
        ) from error  # fmt: skip
    finally:
        mujoco.set_mju_user_warning(before)
        for text in said:
            warn(f"MuJoCo, {path.name}: {text}")


class _Unit:
    """A file of a model, with all that it includes put below its ``<include>`` elements."""

    def __init__(self, path: Path, root: Element, max_bytes: float, above: tuple[Path, ...]) -> None:
        self.path, self.root, self.max_bytes = path, root, max_bytes
        self.above = (*above, path)
        self.files = {root: path}  # by their outermost elements
        self._include()
        directories = {
            element.get(attribute, "")
            for element in root.iter("compiler")
            for attribute in ("meshdir", "texturedir", "assetdir")
        }
        self.asset_folders = {file.parent / name for file in self.files.values() for name in ("", *directories)}
        given = root.findall(".//default/*")
        self.defaults = {
            name: max((self._product(x, (name,)) for x in given if name in x.attrib), default=1.0) for name in COUNTED
        }

    def _include(self) -> None:
        pending = [(self.root, self.path)]
        while pending:
            element, file = pending.pop()
            if element.tag.lower() == "include":
                path = self._found(element, file)
                if path is None or path in self.files.values():
                    continue  # MuJoCo says what is wrong
                file, included = path, read_xml(path, self.max_bytes)
                self.files[included] = file
                element.append(included)
            pending.extend((child, file) for child in element)

    def weights(self) -> tuple[float, float, float]:
        """Bytes, about, that MuJoCo takes to read the unit with all models that it loads, and for attaching the unit.

        The second number is for each copy, the third for what all copies by one ``<attach>`` share: see `ONCE`.
        Refuses cycles of models, and files that MuJoCo may not read.
        """
        alone = shared = loaded = rows = attached = attaching = heaviest = heaviest_shared = 0.0
        pending = [(self.root, 1.0, self.path, False)]
        while pending:
            element, times, file, once = pending.pop()
            file, once = self.files.get(element, file), once or element.tag.lower() in ONCE
            own = times * self._alone(element)
            alone, shared = (alone, shared + own) if once else (alone + own, shared)
            match element.tag.lower():
                case "model":
                    model, copy, assets = self._loaded(self._found(element, file), file)
                    loaded, heaviest = loaded + model, max(heaviest, copy)
                    heaviest_shared = max(heaviest_shared, assets)
                case "attach":
                    attached, attaching = attached + times, attaching + 1.0
                case "replicate":
                    times *= self._product(element, ("count",))
                case "key":
                    rows += times
                case "size":
                    rows += sum(
                        self._product(element, (a,)) for a in element.attrib if a.startswith(("nkey", "nuser_"))
                    )
            copies = attached * heaviest + attaching * heaviest_shared
            self._refuse_beyond(alone + shared + loaded + copies)
            pending.extend((child, times, file, once) for child in element)
        alone, shared = alone + attached * heaviest, shared + attaching * heaviest_shared
        alone += 16.0 * rows * alone / ELEMENT
        self._refuse_beyond(alone + shared + loaded)
        return alone + shared + loaded, alone, shared

    def _refuse_beyond(self, size: float) -> None:
        refuse_beyond(self.max_bytes, f"file {str(self.path)!r}, written out", size)

    def _loaded(self, path: Path | None, file: Path) -> tuple[float, float, float]:
        """Weights of a model that ``file``, a part of this unit, loads."""
        if path is None:
            return 0.0, 0.0, 0.0  # MuJoCo says what is wrong
        above = self.above if file == self.path else (*self.above, file)
        if any(other.exists() and path.samefile(other) for other in above):
            names = [os.path.relpath(other, above[0].parent) for other in (*above, path)]
            raise ModelError(
                f"file {str(above[0])!r}", "models without a cycle", " → ".join(names),
                "Remove one of these references.",
            )  # fmt: skip
        if len(above) >= DEEPEST_MODELS:
            raise ModelError(
                f"file {str(above[0])!r}", f"models nested at most {DEEPEST_MODELS} deep", "deeper ones",
                "Join some of them.",
            )  # fmt: skip
        return _Unit(path, read_xml(path, self.max_bytes), self.max_bytes, above).weights()

    def _found(self, element: Element, file: Path) -> Path | None:
        """What the ``<include>`` or ``<model>`` in a file names, as MuJoCo finds it."""
        return next(_files([element.get("file", "")], (self.path.parent, file.parent)), None)

    def _alone(self, element: Element) -> float:
        """Bytes for an element without those in it: text, tables, files."""
        total = float(ELEMENT + sum(map(len, element.attrib.values())))
        flat = "2d " if element.tag == "texture" and element.get("type") == "2d" else ""
        total += sum(
            piece * self._product(element, names) for tag, names, piece in TABLES if tag in (None, flat + element.tag)
        )
        if element.tag == "mesh" and "params" in element.attrib:  # at most a grid of the largest number
            largest = max(self._numbers(element, "params"), default=0.0)
            total += 1000.0 * largest * largest
        for attribute, name in element.attrib.items():
            if attribute.startswith("file") and element.tag.lower() not in ("include", "model"):
                for path in _files([name, name.replace("\\", "/").rpartition("/")[2]], self.asset_folders):
                    check_file(path, self.max_bytes)
                    total += 4.0 * _pixels(path)
        return total

    def _product(self, element: Element, names: Iterable[str]) -> float:
        """Product of all numbers, at least 1 each, of attributes; those that are not there may have a default."""
        numbers = [self.defaults.get(name, 1.0) for name in names if name not in element.attrib]
        return prod((max(x, 1.0) for name in names for x in self._numbers(element, name)), start=prod(numbers))

    def _numbers(self, element: Element, attribute: str) -> tuple[float, ...]:
        """Numbers of an attribute that counts something."""
        text = element.get(attribute, "")
        numbers = decimal_numbers(text)
        if numbers is None:
            what = f"{attribute} of <{element.tag}> in file {str(self.path)!r}"
            raise ModelError(what, "finite numbers", shown(text), "Correct the text.")
        return numbers


def _files(names: Iterable[str], folders: Iterable[Path]) -> Iterator[Path]:
    """Files of these names, as MuJoCo spells paths: either slash, and ``..`` before links are followed."""
    for name in dict.fromkeys(names):
        for folder in folders:
            path = Path(os.path.normpath(folder / name.replace("\\", "/")))
            try:
                if name and path.exists() and not path.is_dir():
                    yield path
            except (OSError, ValueError):
                pass  # a path that cannot exist


def _pixels(path: Path) -> int:
    """Number of pixels of a PNG file; 0 for others."""
    with path.open("rb") as file:
        head = file.read(24)
    is_png = head.startswith(b"\x89PNG\r\n\x1a\n")
    return int.from_bytes(head[16:20], "big") * int.from_bytes(head[20:24], "big") if is_png else 0
