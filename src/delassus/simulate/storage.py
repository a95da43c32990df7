"""Named arrays and a description in one sealed file: NPZ, or HDF5 with the extra ``[record]``.

`numpy.load` and h5py read these files as any other. Here they are read without either: arrays lie in the file as plain
bytes, the description (JSON, the last entry) says where, and the last 64 bytes of the file, the seal, say where the
description is and hold a SHA-256 of all the rest. So one reader serves both formats. It verifies the sum first, then
names, types, and shapes against the file's size, and only then takes memory. It follows no links, unpacks nothing and
unpickles nothing.

The sum guards against damage, not against people: who can write the file can write the sum. What they can forge are
numbers, which `Recording.load` and `load_checkpoint` check further.

A file is written beside its place and then moved there: it appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from delassus.errors import ConfigurationError, require, shown
from delassus.model.check import written

DESCRIPTION = "description"
"""Name of the JSON text in a file."""

MOST_TEXT = 2**24
"""Bytes that it may take: names of some hundred thousand links."""

MAGIC = b"delassus data 1\n"
SEAL = struct.Struct("<16sQQ32s")
"""Magic, place and length of the description, SHA-256 of these and of all before the seal."""

Put = Callable[[str, NDArray[Any]], int]
"""Writes an array under a name, and returns where in the file its bytes begin."""


def check_target(path: str | Path, kind: str) -> Path:
    """Check that ``path`` ends like a format that can be written here, and return it."""
    target = _named(path, kind)
    if target.suffix == ".h5":
        require("h5py", "record", "HDF5 files")
    return target


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
    with written(target, kind) as part, part.open("r+b") as file:
        _write(file, _npz if target.suffix == ".npz" else _hdf5, kind, arrays, description)
        os.fsync(file.fileno())
    return target


def read(
    path: str | Path, kind: str, layout: Mapping[str, str], form: Mapping[str, Any]
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `write` wrote: arrays and description.

    Parameters
    ----------
    path : str or Path
    kind : str
    layout : mapping of str to str
        Type and shape of each array, such as ``"f8 n 3"``: equal letters stand for equal sizes.
    form : mapping of str to type, list or mapping
        What the description holds. A list of one type stands for any number of its values, and so does a mapping from
        `str`; another mapping has just its names.

    Raises
    ------
    ConfigurationError
        No such file, one of another kind, or one that is damaged, incomplete, or not of this layout and form.
    """
    target = _named(path, kind)
    what = f"{kind} {str(target)!r}"
    try:
        if target.exists() and not target.is_file():
            raise ValueError("a folder or a device")
        with target.open("rb") as file:
            description = _description(file)
            came = description.pop("kind", None)
            if came != kind:
                raise ConfigurationError(what, f"a {kind}", shown(came), f"Pass a file that was saved as a {kind}.")
            arrays = _arrays(file, description.pop("arrays", None), layout, f"all arrays of a {kind}")
        check_form(description, form, DESCRIPTION)
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, ConfigurationError):
            raise
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
    elif isinstance(form, list):
        right = isinstance(value, list)
        parts = {f"{name}[{k}]": (item, form[0]) for k, item in enumerate(value)} if right else {}
    else:
        right = isinstance(value, dict) and (str in form or value.keys() == form.keys())
        parts = {f"{name}.{key}": (item, form.get(str, form.get(key))) for key, item in value.items()} if right else {}
    if not right:
        raise ValueError(f"{shown(name)}: {shown(value)}")
    for part, (item, wanted) in parts.items():
        check_form(item, wanted, part)


def _named(path: str | Path, kind: str) -> Path:
    if not isinstance(path, str | Path) or Path(path).suffix not in (".npz", ".h5"):
        raise ConfigurationError(
            f"file of a {kind}", "a name that ends in .npz or .h5", shown(path), "Choose NPZ or HDF5."
        )
    return Path(path)


# -- writing ---------------------------------------------------------------------------------------------------------


def _write(
    file: BinaryIO,
    container: Callable[[BinaryIO], Any],
    kind: str,
    arrays: Mapping[str, NDArray[Any]],
    description: Mapping[str, Any],
) -> None:
    with container(file) as put:
        index = {}
        for name, array in arrays.items():
            plain = np.asarray(array, dtype="<i8" if array.dtype.kind == "i" else "<f8", order="C")
            index[name] = plain.dtype.str[1:], plain.shape, put(name, plain)
        text = json.dumps({"kind": kind, **description, "arrays": index}).encode()
        if len(text) > MOST_TEXT:
            raise OSError(f"a description of {len(text)} bytes")
        place = put(DESCRIPTION, np.frombuffer(text, np.uint8))
    size = file.seek(0, os.SEEK_END)
    file.write(SEAL.pack(MAGIC, place, len(text), _digest(file, size, place, len(text))))
    file.flush()


@contextmanager
def _npz(file: BinaryIO) -> Iterator[Put]:
    """NPZ archive, nothing compressed; its comment is the seal."""

    def put(name: str, array: NDArray[Any]) -> int:
        with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
            np.lib.format.write_array(entry, array, allow_pickle=False)
            return file.tell() - array.nbytes

    with zipfile.ZipFile(file, "w") as archive:
        archive.comment = bytes(SEAL.size)
        yield put
    file.truncate(file.seek(-SEAL.size, os.SEEK_END))


@contextmanager
def _hdf5(file: BinaryIO) -> Iterator[Put]:
    """HDF5 file, nothing compressed, before the seal."""
    import h5py

    with h5py.File(file, "w") as group:
        yield lambda name, array: group.create_dataset(name, data=array).id.get_offset() or 0


def _digest(file: BinaryIO, size: int, place: int, length: int) -> bytes:
    """SHA-256 of the seal's own entries and of the first ``size`` bytes of the file."""
    digest = hashlib.sha256(SEAL.pack(MAGIC, place, length, b""))
    file.seek(0)
    while chunk := file.read(min(size, 2**20)):
        digest.update(chunk)
        size -= len(chunk)
    file.seek(0, os.SEEK_END)
    return digest.digest()


# -- reading ---------------------------------------------------------------------------------------------------------


def _description(file: BinaryIO) -> dict[str, Any]:
    """Verify the seal, and return the description; raises `ValueError`."""
    size = file.seek(0, os.SEEK_END) - SEAL.size
    if size < 0:
        raise ValueError(f"{size + SEAL.size} bytes")
    file.seek(size)
    magic, place, length, digest = SEAL.unpack(file.read(SEAL.size))
    if magic != MAGIC:
        raise ValueError("no checksum at its end; files of earlier versions have none: numpy.load or h5py reads those")
    if digest != _digest(file, size, place, length):
        raise ValueError("other bytes than were written: the checksum differs")
    if length > MOST_TEXT or place + length > size:
        raise ValueError(f"a description of {length} bytes at {place}, in a file of {size}")
    file.seek(place)
    description = json.loads(file.read(length))
    if not isinstance(description, dict):
        raise ValueError(f"{DESCRIPTION}: {shown(description)}")
    return description


def _arrays(file: BinaryIO, index: Any, layout: Mapping[str, str], all_of_it: str) -> dict[str, NDArray[Any]]:
    """Read all arrays, once their types and shapes are right and they fit in the file; raises `ValueError`."""
    check_form(index, {str: list}, "arrays")
    if index.keys() != layout.keys():
        odd = ", ".join(sorted(index.keys() ^ layout.keys()))
        raise ValueError(f"not {all_of_it}: {shown(odd)}")
    sizes: dict[str, int] = {}
    room = file.seek(0, os.SEEK_END) - SEAL.size
    left = room
    for name, entry in index.items():
        check_form(dict(enumerate(entry)), {0: str, 1: [int], 2: int}, name)
        dtype, shape, place = entry
        wanted, *axes = layout[name].split()
        known = [
            int(axis) if axis.isdigit() else sizes.setdefault(axis, n) for axis, n in zip(axes, shape, strict=False)
        ]
        if dtype != wanted or known != shape or len(axes) != len(shape):
            raise ValueError(f"{name} of type {shown(dtype)} and shape {shown(shape)}, not {layout[name]!r}")
        n_bytes = 8 * math.prod(shape)
        left -= n_bytes
        if min(shape) < 0 or max(shape) > room or left < 0 or not 0 <= place <= room - n_bytes:
            raise ValueError(f"{name} of shape {shown(shape)} at {place}, in a file of {room} bytes")
    arrays = {}
    for name, (dtype, shape, place) in index.items():
        file.seek(place)
        arrays[name] = np.fromfile(file, f"<{dtype}", math.prod(shape)).reshape(shape)
    return arrays
