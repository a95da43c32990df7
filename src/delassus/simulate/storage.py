"""Named arrays and a description (JSON) in one file: NPZ by `numpy.savez`, or HDF5 with the extra ``[record]``.

`numpy.load` and h5py read these files as any other. Here nothing is unpickled or unpacked, no links are followed, and
no more memory is taken than the file is long. Damage is found by the archive's own checksums in NPZ, and by a SHA-256
in the last 32 bytes of HDF5 files. Numbers that somebody forged are checked by `Recording.load` and `load_checkpoint`.

A file is written beside its place and then moved there: it appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

from delassus.errors import ConfigurationError, require, shown
from delassus.model.check import written

Arrays = dict[str, NDArray[Any]]
"""Arrays by name."""

DESCRIPTION = "description"
"""Name of the JSON text in a file."""

DIGEST = 32
"""Bytes of a SHA-256."""

SEALED = b"delassus data 1\n"
"""Begins the last 64 bytes of files of version 1.0, which are otherwise as those of today."""


def check_target(path: str | Path, kind: str) -> Path:
    """Check that ``path`` ends like a format that can be written and read here, and return it."""
    if not isinstance(path, str | Path) or Path(path).suffix not in (".npz", ".h5"):
        wanted = "a name that ends in .npz or .h5"
        advice = "Choose NPZ or HDF5; delassus.pictures.export writes recordings as .mcap and .rrd."
        raise ConfigurationError(f"file of a {kind}", wanted, shown(path), advice)
    if Path(path).suffix == ".h5":
        require("h5py", "record", "HDF5 files")
    return Path(path)


def write(path: str | Path, kind: str, arrays: Mapping[str, NDArray[Any]], description: Mapping[str, Any]) -> Path:
    """Write arrays of float64 and int64, and a description; the file says of what ``kind`` it is.

    Raises
    ------
    ConfigurationError
        Another suffix than .npz or .h5, or a file that cannot be written.
    MissingDependencyError
        HDF5 without the extra ``record``.
    """
    target = check_target(path, kind)
    text = json.dumps({"kind": kind, **description}).encode()
    plain = {name: np.asarray(x, "<i8" if x.dtype.kind == "i" else "<f8", order="C") for name, x in arrays.items()}
    plain[DESCRIPTION] = np.frombuffer(text, np.uint8)
    with written(target, kind) as part, part.open("r+b") as file:
        if target.suffix == ".npz":
            np.savez(file, **plain)  # type: ignore[arg-type]  # its other parameter is not among the names
        else:
            import h5py

            with h5py.File(file, "w") as group:
                for name, array in plain.items():
                    group[name] = array
            file.seek(0)
            file.write(hashlib.file_digest(file, "sha256").digest())
        file.flush()
        os.fsync(file.fileno())
    return target


def read(
    path: str | Path, kind: str, layout: Mapping[str, str], form: Mapping[str, Any]
) -> tuple[Arrays, dict[str, Any]]:
    """Read what `write` wrote: arrays, which are read-only, and description.

    Parameters
    ----------
    path : str or Path
    kind : str
    layout : mapping of str to str
        Type and shape of each array, such as ``"f8 n 3"``: equal letters stand for equal sizes.
    form : mapping of str to type or mapping
        What the description holds. Tuples and mappings of a type, such as ``Mapping[str, int]``, stand for any number
        of its values; another mapping has just its names.

    Raises
    ------
    ConfigurationError
        No such file, one of another kind, or one that is damaged, incomplete, or not of this layout and form.
    MissingDependencyError
        HDF5 without the extra ``record``.
    """
    target = check_target(path, kind)
    what = f"{kind} {str(target)!r}"
    try:
        if target.exists() and not target.is_file():
            raise ValueError("a folder or a device")
        arrays = (_npz if target.suffix == ".npz" else _hdf5)(target)
        description = _description(arrays)
        came = description.pop("kind", None)
        if came != kind:
            raise ConfigurationError(what, f"a {kind}", shown(came), f"Pass a file that was saved as a {kind}.")
        check_layout(arrays, layout, f"all arrays of a {kind}")
        check_form(description, form, DESCRIPTION)
    except ConfigurationError:
        raise
    except Exception as error:  # zipfile, NumPy, json and h5py have many for bytes that they did not write
        damaged = "The file is damaged, or another one, or of another version."
        advice = "Check the path." if isinstance(error, FileNotFoundError) else damaged
        fault = str(error) or type(error).__name__
        raise ConfigurationError(what, f"a {kind} that can be read", fault, advice) from error
    return arrays, description


def check_form(value: Any, form: Any, name: str) -> None:
    """Check what came out of a file as JSON against the ``form`` that `read` explains; raises `ValueError`."""
    parts: dict[str, tuple[Any, Any]] = {}
    if isinstance(form, type):
        right = type(value) is form
    elif get_origin(form) is tuple:
        right = isinstance(value, list)
        parts = {f"{name}[{k}]": (item, get_args(form)[0]) for k, item in enumerate(value)} if right else {}
    elif get_origin(form) is Mapping:
        right = isinstance(value, dict)
        parts = {f"{name}.{key}": (item, get_args(form)[1]) for key, item in value.items()} if right else {}
    else:
        right = isinstance(value, dict) and value.keys() == form.keys()
        parts = {f"{name}.{key}": (item, form[key]) for key, item in value.items()} if right else {}
    if not right:
        raise ValueError(f"{shown(name)}: {shown(value)}")
    for part, (item, wanted) in parts.items():
        check_form(item, wanted, part)


def check_layout(arrays: Arrays, layout: Mapping[str, str], all_of_it: str) -> None:
    """Check names, types and shapes against the ``layout`` that `read` explains; raises `ValueError`."""
    if odd := sorted(arrays.keys() ^ layout.keys()):
        raise ValueError(f"not {all_of_it}: {shown(', '.join(odd))}")
    sizes: dict[str, int] = {}
    for name, array in arrays.items():
        wanted, *axes = layout[name].split()
        known = [int(a) if a.isdigit() else sizes.setdefault(a, n) for a, n in zip(axes, array.shape, strict=False)]
        if array.dtype != f"<{wanted}" or (*known,) != array.shape or len(axes) != array.ndim:
            raise ValueError(f"{name} of type {array.dtype.str[1:]!r} and shape {array.shape}, not {layout[name]!r}")


def _description(arrays: Arrays) -> dict[str, Any]:
    """Take the description out of the arrays; raises `ValueError`."""
    text = arrays.pop(DESCRIPTION, np.zeros(0))
    if text.dtype != np.uint8:
        raise ValueError(
            "no description in JSON: files of versions before 1.0 have none; numpy.load and h5py read those"
        )
    description = json.loads(text.tobytes())
    if not isinstance(description, dict):
        raise ValueError(f"{DESCRIPTION}: {shown(description)}")
    description.pop("arrays", None)  # where they are, in files of version 1.0
    return description


def _npz(path: Path) -> Arrays:
    """Arrays of an archive that is as long as they are; raises `ValueError` and what zipfile does."""
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        if sum(entry.file_size for entry in entries) > path.stat().st_size:
            raise ValueError("an archive that is compressed, or whose entries overlap")
        return {entry.filename.removesuffix(".npy"): _npy(archive.read(entry)) for entry in entries}


def _npy(content: bytes) -> NDArray[Any]:
    """Array of the bytes of an NPY file; raises `ValueError`."""
    file = io.BytesIO(content)
    np.lib.format.read_magic(file)
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
    return np.frombuffer(content, dtype, math.prod(shape), file.tell()).reshape(shape, order="F" if by_columns else "C")


def _hdf5(path: Path) -> Arrays:
    """Arrays that lie in an HDF5 file as plain bytes; raises `ValueError` and what h5py does."""
    import h5py

    content = path.read_bytes()
    if content[-2 * DIGEST :].startswith(SEALED):
        raise ValueError("an HDF5 file of version 1.0: h5py reads its arrays")
    if hashlib.sha256(content[:-DIGEST]).digest() != content[-DIGEST:]:
        raise ValueError("other bytes than were written: the checksum differs")
    arrays = {}
    with h5py.File(io.BytesIO(content), "r") as group:
        for name in group:
            is_own = isinstance(group.get(name, getlink=True), h5py.HardLink)
            data = group[name] if is_own else None
            place = data.id.get_offset() if isinstance(data, h5py.Dataset) else None
            if data is None or (place is None and data.size):
                raise ValueError(f"{shown(name)}: not an array in the file itself")
            arrays[name] = np.frombuffer(content, data.dtype, data.size, place or 0).reshape(data.shape)
    return arrays
