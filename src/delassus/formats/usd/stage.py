"""Stages of OpenUSD, opened only after all files that they are made of were found in the folder of the first.

OpenUSD composes a stage of any file that a layer names, as often as it is named. So the layers are opened one by one
before: nothing is read outside the folder, nothing is downloaded, and the prims that will be composed are counted.
"""

from __future__ import annotations

import re
import zipfile
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from delassus.errors import ModelError, require, shown
from delassus.formats.text import check_file, refuse_beyond

SUFFIXES = (".usd", ".usda", ".usdc", ".usdz")
"""Endings of files."""

HEAD = "#usda"
"""What a layer as text begins with."""

CRATE = b"PXR-USDC"
"""What a binary layer begins with."""

DEEPEST = 500
"""Brackets, prims and layers nested deeper than this are refused: OpenUSD reads them recursively."""

MOST_ARCS = 50
"""Prims that refer to one another in longer chains are refused."""

LEAST_BYTES = 4096.0
"""What a layer counts at least, towards the most bytes of a description."""

PRIM_BYTES = 1000.0
"""What a prim counts towards the most bytes of a description, as often as it is composed."""

_NO_BRACKETS = re.compile(
    rb'"""(?:\\.|[^\\])*?"""|'
    rb"'''(?:\\.|[^\\])*?'''|"
    rb'"(?:\\.|[^"\\\n])*"|'
    rb"'(?:\\.|[^'\\\n])*'|"
    rb"@@@.*?@@@|@[^@\n]*@|#[^\n]*",
    re.DOTALL,
)
"""Strings, addresses and comments of a layer as text."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def open_stage(path: Path, text: str | None, max_bytes: float, source: str) -> Any:
    """The ``Usd.Stage`` of a file, or of a layer as text.

    Raises
    ------
    ModelError
        A file that cannot be read or parsed; layers outside the folder, over the network, that are not there or that
        are too large; layers that refer to one another in circles, or from which too many prims are made.
    MissingDependencyError
        OpenUSD is not installed.
    """
    require("pxr", "usd", source)
    from pxr import Sdf, Usd

    with refusing(source):
        if text is None:
            check_file(path, max_bytes)
            _check_depth(path, source)
            root = _opened(str(path.absolute()))
        else:
            _refuse_deep(text.encode(errors="surrogatepass"), source)
            root = Sdf.Layer.CreateAnonymous(".usda")
            root.ImportFromString(text)
        if root is None:
            raise ModelError(source, "a layer of OpenUSD", "another file", "Check the file.")
        layers = _all_layers(root, None if text is not None else path, max_bytes, source)
        _count_prims(layers, max_bytes, source)
        stage = Usd.Stage.Open(root)
        faults = stage.GetCompositionErrors()
    if faults:
        raise ModelError(source, "layers that OpenUSD can compose", str(faults[0]), "Correct the file.")
    return stage


@contextmanager
def refusing(source: str) -> Iterator[None]:
    """Raise what OpenUSD raises as a `ModelError`; texts that are no UTF-8, too."""
    from pxr import Tf

    try:
        yield
    except (Tf.ErrorException, UnicodeError) as error:
        try:
            reason = re.sub(r".*?: '", "", " ".join(str(error).split()), count=1)
        except UnicodeError:
            reason = "one with texts that are no UTF-8"
        raise ModelError(source, "a layer that OpenUSD can read", reason, "Check the file.") from None


def _check_depth(path: Path, what: str) -> None:
    """Refuse files whose brackets are nested too deeply, in an archive too."""
    try:
        if path.suffix.lower() != ".usdz":
            _refuse_deep(path.read_bytes(), what)
            return
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.compress_type != zipfile.ZIP_STORED:
                    raise ModelError(what, "an archive that is not compressed", member.filename, "Zip it with -0.")
                if Path(member.filename).suffix.lower() in SUFFIXES:
                    _refuse_deep(archive.read(member), what)
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        if isinstance(error, ModelError | UnicodeError):
            raise
        raise ModelError(what, "a file that can be read", str(error), "Check the file.") from error


def _refuse_deep(data: bytes, what: str) -> None:
    """Refuse a layer as text whose brackets are nested too deeply."""
    if data.startswith(CRATE):
        return
    data.decode()  # where it is no UTF-8, OpenUSD's errors are none either
    marks = np.frombuffer(_NO_BRACKETS.sub(b"", data), dtype=np.uint8)
    steps = np.isin(marks, [*b"{[("]).astype(np.int32) - np.isin(marks, [*b"}])"])
    if np.max(np.cumsum(steps), initial=0) > DEEPEST:
        raise ModelError(what, f"prims nested at most {DEEPEST} deep", "deeper ones", "Check that this is a robot.")


def _all_layers(root: Any, path: Path | None, max_bytes: float, source: str) -> list[Any]:
    """The layer and all that it is made of, each opened from a file that was checked."""
    from pxr import Ar

    found, known, budget = [root], {root.identifier}, max_bytes
    for layer in found:  # which grows
        for address in filter(None, layer.GetCompositionAssetDependencies()):  # "": the layer itself
            what = f"layer {shown(address)} of {source}"
            if path is None:
                raise ModelError(what, "a text without other layers", "one", "Write it to a file, and load that.")
            place = _place(address, layer, path, what)
            outer = Path(Ar.SplitPackageRelativePathOuter(place)[0])
            check_file(outer, max_bytes)
            budget -= max(LEAST_BYTES, float(outer.stat().st_size))
            refuse_beyond(max_bytes, f"layers of {source}", max_bytes - budget)
            if place not in known:
                _check_depth(outer, what)
                opened = _opened(place)
                if opened is None:
                    raise ModelError(what, "a layer of OpenUSD", "another file", "Check the file.")
                known.add(place)
                found += [opened] if opened not in found else []
    return found


def _opened(place: str) -> Any:
    """The layer of a file, as the file is now: OpenUSD keeps those that something still refers to."""
    from pxr import Sdf

    layer = Sdf.Layer.FindOrOpen(place)
    if layer is not None and not layer.dirty:
        layer.Reload()
    return layer


def _place(address: str, layer: Any, path: Path, what: str) -> str:
    """Where a layer that another one names is: in the folder of the first."""
    from pxr import Ar, Sdf

    bare, _ = Sdf.Layer.SplitIdentifier(address)
    if _SCHEME.match(bare):
        raise ModelError(what, "a file in the folder of the stage", "an address", "Nothing is downloaded: copy it.")
    if bare.startswith("`"):
        raise ModelError(what, "the name of a file", "an expression", "Flatten the stage: usdcat --flatten.")
    place = str(Ar.GetResolver().Resolve(Sdf.ComputeAssetPathRelativeToLayer(layer, bare)).GetPathString())
    if not place:
        raise ModelError(what, "a file that exists", "none", "Check the address, or flatten the stage.")
    folder, file = path.absolute().parent.resolve(), Path(Ar.SplitPackageRelativePathOuter(place)[0]).resolve()
    if not file.is_relative_to(folder):
        raise ModelError(
            what, f"a file in the folder {str(folder)!r}", str(file), "Move it there, or flatten: usdcat --flatten."
        )
    return place


# -- how much is composed ------------------------------------------------------------------------------------------


def _count_prims(layers: list[Any], max_bytes: float, source: str) -> None:
    """Refuse layers of which more prims would be composed than a description may have."""
    specs = {layer.identifier: sorted(_prim_paths(layer, source)) for layer in layers}
    arcs = {layer.identifier: dict(_arcs(layer, specs[layer.identifier])) for layer in layers}
    stacks = {layer.identifier: _stack(layer) for layer in layers}
    families = {name: {x for stack in stacks.values() if name in stack for x in stack} for name in stacks}
    sizes = dict[tuple[str, str], float]()
    most = max_bytes / PRIM_BYTES

    def size(layer: str, prim: str, depth: int) -> float:
        """Prims that are made of one, at most."""
        key = layer, prim
        if key in sizes:
            return sizes[key]
        if depth > MOST_ARCS:
            raise ModelError(source, "prims that refer to others", "a circle, or too many", "Correct the references.")
        total = 0.0
        for own in _below(specs[layer], prim):
            total += 1.0
            for target, path in arcs[layer].get(own, ()):
                others = stacks[target] if target else families[layer]
                total += sum(size(x, path, depth + 1) for x in others)
        sizes[key] = total
        return total

    if sum(size(layer.identifier, "/", 0) for layer in layers) > most:
        raise ModelError(
            source, f"at most {most:g} prims", "more", "Load it with a larger max_bytes if it is meant so."
        )


def _stack(layer: Any) -> set[str]:
    """A layer and the sublayers of it and of those."""
    from pxr import Sdf

    found, waiting = dict[str, None](), [layer]
    while waiting:
        own = waiting.pop()
        if own is not None and own.identifier not in found:
            found[own.identifier] = None
            waiting += [Sdf.Layer.FindRelativeToLayer(own, x) for x in own.subLayerPaths]
    return {*found}


def _prim_paths(layer: Any, source: str) -> list[str]:
    """Paths of prims, with the variants that they are in."""
    from pxr import Sdf

    paths: list[Any] = []
    layer.Traverse(Sdf.Path.absoluteRootPath, paths.append)
    for path in paths:
        if path.pathElementCount > DEEPEST:
            raise ModelError(source, f"prims nested at most {DEEPEST} deep", "deeper ones", "Flatten the stage.")
    return [str(x) for x in paths if x.IsPrimPath() or x.IsPrimVariantSelectionPath()]


def _arcs(layer: Any, paths: list[str]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """What each prim refers to: a layer ("": its own), and a path there ("/" where it is the default one)."""
    from pxr import Sdf

    for path in paths:
        prim = layer.GetPrimAtPath(path)
        if prim is None:
            continue
        if prim.HasInfo("clips"):
            raise ModelError(f"prim {path!r}", "values in its layers", "clips of values", "Flatten the stage.")
        found = []
        for arcs in (prim.referenceList, prim.payloadList):
            for arc in arcs.GetAddedOrExplicitItems():
                other = Sdf.Layer.FindRelativeToLayer(layer, arc.assetPath) if arc.assetPath else None
                start = arc.primPath or (other or layer).defaultPrim
                start = str(start) if str(start).startswith("/") else f"/{start}"
                found.append((other.identifier if other else "", start))
        for own in (prim.inheritPathList, prim.specializesList):
            found += [("", str(x)) for x in own.GetAddedOrExplicitItems()]
        if found:
            yield path, found


def _below(paths: list[str], prim: str) -> Iterator[str]:
    """Of sorted paths, that of a prim, and those below it and in its variants."""
    if prim == "/":
        yield from paths
        return
    for first, last in ((prim, prim + "\0"), (prim + "/", prim + "0"), (prim + "{", prim + "|")):
        yield from paths[bisect_left(paths, first) : bisect_left(paths, last)]
