"""Named arrays and a description in one file: NPZ, or HDF5 with the extra ``[record]``.

Both formats hold the arrays bit by bit, and the description as JSON text. Nothing is pickled, so that reading a file
runs no code. A file is written beside its place and then moved there: it appears whole or not at all.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.errors import ConfigurationError, require, shown

DESCRIPTION = "description"
"""Name of the JSON text in a file."""


def check_target(path: str | Path, kind: str) -> Path:
    """Check that ``path`` ends like a format that can be written here, and return it."""
    target = Path(path)
    if target.suffix not in (".npz", ".h5"):
        raise ConfigurationError(
            f"file of a {kind}", "a name that ends in .npz or .h5", shown(str(path)), "Choose NPZ or HDF5."
        )
    if target.suffix == ".h5":
        require("h5py", "record", "HDF5 files")
    return target


def write(path: str | Path, kind: str, arrays: Mapping[str, NDArray[Any]], description: Mapping[str, Any]) -> Path:
    """Write arrays and a description, which says of what ``kind`` the file is.

    Raises
    ------
    ConfigurationError
        Another suffix than .npz or .h5, or a file that cannot be written.
    MissingDependencyError
        HDF5 without the extra ``record``.
    """
    target = check_target(path, kind)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    text = json.dumps({"kind": kind, **description})
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            if target.suffix == ".npz":
                with part.open("wb") as file:
                    np.savez_compressed(file, allow_pickle=False, **arrays, **{DESCRIPTION: np.array(text)})
            else:
                import h5py

                with h5py.File(part, "w") as file:
                    file.attrs[DESCRIPTION] = text
                    for name, array in arrays.items():
                        file.create_dataset(name, data=array, compression="gzip" if array.size else None)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"{kind} {str(target)!r}", "a file that can be written", str(error), "Check the folder."
        ) from error
    return target


def read(path: str | Path, kind: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `write` wrote: arrays and description; raises what it raises."""
    target = check_target(path, kind)
    what = f"{kind} {str(target)!r}"
    try:
        if target.suffix == ".npz":
            with np.load(target, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            text = str(arrays.pop(DESCRIPTION, ""))
        else:
            import h5py

            with h5py.File(target, "r") as file:
                arrays = {name: np.asarray(file[name]) for name in file}
                text = str(file.attrs.get(DESCRIPTION, ""))
        description = dict(json.loads(text))
    except (OSError, TypeError, ValueError, EOFError, zipfile.BadZipFile) as error:
        advice = "Check the path." if isinstance(error, FileNotFoundError) else "The file is damaged, or another one."
        raise ConfigurationError(what, f"a {kind} that can be read", str(error), advice) from error
    came = description.pop("kind", None)
    if came != kind:
        raise ConfigurationError(what, f"a {kind}", shown(came), f"Pass a file that was saved as a {kind}.")
    return arrays, description
