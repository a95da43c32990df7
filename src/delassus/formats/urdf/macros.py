"""xacro: macros of URDF files, expanded by the package of that name.

Its expressions may use numbers, text, lists and functions of `math`; they run nothing else, and may take any time and
memory: expand files that you trust. ``$(find package)`` is the folder of that name above the file, or in
``ROS_PACKAGE_PATH`` or ``AMENT_PREFIX_PATH``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from delassus.errors import ConfigurationError, ModelError, require, shown
from delassus.formats.text import check_file, folders_in, refuse_beyond

SUFFIX = ".xacro"

_EXPANDING = Lock()
"""What the package knows of a file is in its module."""


def expanded(path: Path, text: str | None, arguments: Mapping[str, Any], max_bytes: float, source: str) -> str:
    """Text of a URDF file without macros, of a file or of its text.

    Raises
    ------
    ConfigurationError
        ``arguments`` are no mapping of names to text, numbers or booleans.
    ModelError
        The file is missing or too large, or xacro refuses it.
    MissingDependencyError
        The package is not installed.
    """
    given = _checked(arguments)
    require("xacro", "xacro", f"expanding macros of {source}")
    import xacro
    from xacro import substitution_args

    if text is None:
        check_file(path, max_bytes)

    def find(package: str) -> str:
        return str(_folder_of(package, path, source))

    with _EXPANDING:
        before, substitution_args._eval_find = substitution_args._eval_find, find
        try:
            if text is None:
                document = xacro.process_file(str(path.absolute()), mappings=given, verbosity=0)
            else:
                xacro.init_stacks(None)
                document = xacro.parse(text)
                xacro.process_doc(document, mappings=given, verbosity=0)
            found: str = document.toxml()
        except Exception as error:  # expressions of the file may raise anything
            came = f"{type(error).__name__}: {error}"
            raise ModelError(
                source, "macros that xacro can expand", came, "Pass its arguments by xacro={…}."
            ) from error
        finally:
            substitution_args._eval_find = before
    refuse_beyond(max_bytes, source, len(found))
    return found


def _checked(arguments: Mapping[str, Any]) -> dict[str, str]:
    wanted, advice = "a mapping of names to text, numbers or booleans", "Pass {'prefix': 'left_'}."
    if not isinstance(arguments, Mapping):
        raise ConfigurationError("xacro", wanted, shown(arguments), advice)
    for name, value in arguments.items():
        if not isinstance(name, str) or not isinstance(value, str | int | float):
            raise ConfigurationError("xacro", wanted, shown({name: value}), advice)
    return {name: str(x).lower() if isinstance(x, bool) else str(x) for name, x in arguments.items()}


def _folder_of(package: str, file: Path, source: str) -> Path:
    """Folder of a package."""
    shares = (folder / "share" for folder in folders_in("AMENT_PREFIX_PATH"))
    for folder in (*file.absolute().parents, *folders_in("ROS_PACKAGE_PATH"), *shares):
        if folder.name == package:
            return folder
        if (folder / package).is_dir():
            return folder / package
    advice = "Set ROS_PACKAGE_PATH to the folder that holds it."
    raise ModelError(f"$(find {package}) in {source}", "a package that is there", "none", advice)
