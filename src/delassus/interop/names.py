"""Robots by name: the URDF and MJCF files that other packages bring along."""

from __future__ import annotations

import importlib
import importlib.util
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from delassus.errors import ModelError, missing_dependency, unknown_name

_ALIASES = {
    "talos": "talos_reduced",
    "g1": "g1_29dof_rev_1_0",
    "solo8": "solo",
    "anymal_c": "anymal_c_simple_description/urdf/anymal",
    "ur5": "ur5_robot",
    "ur10": "ur10_robot",
    "hyq": "hyq_no_sensors",
}
"""Short names for robots whose description has several files or a longer name."""


def example_robot_files() -> dict[str, Path]:
    """URDF files of ``example-robot-data`` by name; empty if the package is not installed.

    A file is known by its stem; where stems repeat, the first in alphabetical order has the bare stem, and each is
    known by its path below the package without the suffix.
    """
    out: dict[str, Path] = {}
    for folder in _example_robot_folders():
        for path in sorted(folder.rglob("*.urdf")):
            out.setdefault(path.stem, path)
            out.setdefault(str(path.relative_to(folder).with_suffix("")), path)
    for alias, name in _ALIASES.items():
        if name in out:
            out.setdefault(alias, out[name])
    return out


def _example_robot_folders() -> Iterator[Path]:
    for base in dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))):
        folder = Path(base) / "cmeel.prefix" / "share" / "example-robot-data" / "robots"
        if folder.is_dir():
            yield folder


def robot_description_names() -> list[str]:
    """Names that ``robot_descriptions`` knows; empty if the package is not installed."""
    if importlib.util.find_spec("robot_descriptions") is None:
        return []
    return sorted(importlib.import_module("robot_descriptions._descriptions").DESCRIPTIONS)


def find_robot(name: str) -> Path:
    """Find the description file of a robot by name.

    Raises
    ------
    UnknownNameError
        Neither package knows the name; offers the nearest match.
    MissingDependencyError
        Neither package is installed.
    ModelError
        ``robot_descriptions`` knows the robot but could not fetch its files.
    """
    files = example_robot_files()
    if name in files:
        return files[name]
    described = robot_description_names()
    for candidate in (name, f"{name}_description", f"{name}_mj_description"):
        if candidate in described:
            return _described(candidate)
    if not files and not described:
        raise missing_dependency("example-robot-data", "robots", f"robot {name!r}")
    raise unknown_name("robot name or file", name, [*files, *described])


def _described(module_name: str) -> Path:
    try:
        module = importlib.import_module(f"robot_descriptions.{module_name}")
        path = getattr(module, "URDF_PATH", None) or module.MJCF_PATH
    except Exception as error:  # fetching runs git and the network: any failure of theirs is ours to explain
        raise ModelError(
            f"robot {module_name!r}", "files that robot_descriptions can fetch", f"{type(error).__name__}: {error}",
            "Check the network connection, or load a file by its path.",
        ) from error  # fmt: skip
    return Path(path)
