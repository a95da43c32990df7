"""Robots by name: those of the packages ``example-robot-data`` and ``robot_descriptions``, and what carries them."""

from __future__ import annotations

import importlib
import os
import re
import sysconfig
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from delassus.errors import ModelError, missing_dependency, unknown_name
from delassus.model.description import Root

ALIASES = {
    "talos": "talos_reduced",
    "g1": "g1_29dof_rev_1_0",
    "solo8": "solo",
    "anymal_c": "anymal_c_simple_description/urdf/anymal",
    "ur5": "ur5_robot",
    "ur10": "ur10_robot",
    "hyq": "hyq_no_sensors",
    "atlas": "atlas_v4_description",
    "iiwa": "iiwa14_description",
    "kuka": "iiwa14_description",
    "franka": "panda",
}
"""Short names for robots whose description has several files or a longer name."""

DESCRIBED = ("_description", "_mj_description")
"""Endings of names of ``robot_descriptions``, URDF first; they can be left out."""

BOLTED = frozenset((
    "allegro_hand", "alex", "asr_twodof", "baxter", "double_pendulum", "finger_edu", "kinova", "panda", "so_arm",
    "talos_left_arm", "ur", "xarm", "z1",
))  # fmt: skip
"""Robots of ``example-robot-data``, by folder or file, that are bolted to the world; the others walk, drive or fly."""

BOLTED_TAGS = frozenset(("arm", "dual_arm", "educational", "end_effector"))
"""Tags of ``robot_descriptions``: a robot that has no others is bolted to the world."""

ENDING = re.compile(f"({'|'.join(reversed(DESCRIBED))})$")
"""Such an ending, the longer one first."""

LICENCE = re.compile(r"^licen[cs]e:\s*(\S.*?)\s*$", re.IGNORECASE | re.MULTILINE)
"""Line with the licence in a README of ``example-robot-data``."""


class KnownRobot(NamedTuple):
    """A robot that `delassus.load` takes by its name, or by one of its other ones.

    ``package`` knows it, in this ``form``, under this ``licence``, as far as it says; ``is_here`` where nothing is
    fetched when it is loaded; ``root`` carries it where ``root=`` of `load` does not say, None: its file says itself.
    """

    name: str
    others: tuple[str, ...]
    package: str
    form: str
    licence: str | None
    is_here: bool
    root: Root | None


def known_robots() -> list[KnownRobot]:
    """All robots that packages which are installed know, sorted by package and name; nothing is fetched."""
    out, names, known = list[KnownRobot](), dict[Path, list[str]](), _descriptions()
    for name, path in example_robot_files().items():
        names.setdefault(path, []).extend([] if "/" in name else [name])
    taken = {name for of in names.values() for name in of}
    for path, (name, *others) in names.items():
        readme = path.parent.parent / "README.md"
        said = LICENCE.search(readme.read_text(encoding="utf-8", errors="replace")) if readme.is_file() else None
        licence = None if said is None else said[1]
        out.append(KnownRobot(name, (*others,), "example-robot-data", "URDF", licence, True, _root_of_file(path)))
    for name, of in known.items():
        short = (ENDING.sub("", name), name.removesuffix(DESCRIBED[0]), name)
        free = next(x for x in short if x not in taken and _described(x, known) == name)
        aliases = tuple(alias for alias, wanted in ALIASES.items() if wanted == name)
        form = "/".join(sorted(x.name for x in of.formats if x.name != "SRDF"))
        licence, root = getattr(of, "license_spdx", None), _root_of_tags(of.tags) if "URDF" in form else None
        out.append(KnownRobot(free, aliases, "robot_descriptions", form, licence, _is_fetched(of), root))
    return sorted(out, key=lambda x: (x.package, x.name))


def robot_names() -> list[str]:
    """Short names of all robots that packages which are installed know, sorted."""
    return sorted({name for robot in known_robots() for name in (robot.name, *robot.others)})


def robot_file(name: str) -> tuple[Path, Root]:
    """File of the robot of that name, fetched if need be, and what carries it; raises as `delassus.load` does."""
    files, known = example_robot_files(), _descriptions()
    if name in files:
        return files[name], _root_of_file(files[name])
    found = _described(name, known)
    if found is not None:
        return _fetched(found), _root_of_tags(known[found].tags)
    unknown = unknown_name("robot name or file", name, robot_names())
    for package, has in (("example-robot-data", files), ("robot_descriptions", known)):
        if not has and "Did you mean" not in str(unknown):
            raise missing_dependency(package, "robots", f"robot {name!r}")
    raise unknown


def _root_of_file(path: Path) -> Root:
    """What carries a robot of ``example-robot-data``: a free joint if it walks, drives or flies."""
    folder = path.parent.parent.name.removesuffix(DESCRIBED[0])
    return "fixed" if BOLTED.intersection((folder, path.stem)) else "floating"


def _root_of_tags(tags: Collection[str]) -> Root:
    """What carries a robot of ``robot_descriptions``: a free joint if it walks, drives or flies."""
    return "fixed" if BOLTED_TAGS.issuperset(tags) else "floating"


def example_robot_files() -> dict[str, Path]:
    """URDF files of ``example-robot-data`` by name; empty if the package is not installed.

    A file is known by its stem; where stems repeat, the first in alphabetical order has the bare stem, and each is
    known by its path below the package without the suffix.
    """
    out: dict[str, Path] = {}
    for base in dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))):
        folder = Path(base) / "cmeel.prefix" / "share" / "example-robot-data" / "robots"
        for path in sorted(folder.rglob("*.urdf")):
            out.setdefault(path.stem, path)
            out.setdefault(str(path.relative_to(folder).with_suffix("")), path)
    for alias, name in ALIASES.items():
        if name in out:
            out.setdefault(alias, out[name])
    return out


def _descriptions() -> dict[str, Any]:
    """What ``robot_descriptions`` says of each robot, by name; empty if the package is not installed."""
    if find_spec("robot_descriptions") is None:
        return {}
    return dict(importlib.import_module("robot_descriptions._descriptions").DESCRIPTIONS)


def _described(name: str, known: Collection[str]) -> str | None:
    """Name by which ``robot_descriptions`` knows a robot of this one, if it does."""
    wanted = ALIASES.get(name, name)
    return next((x for x in (wanted, *(f"{wanted}{ending}" for ending in DESCRIBED)) if x in known), None)


def _is_fetched(of: Any) -> bool:
    """Whether ``robot_descriptions`` has the files of a robot on this machine."""
    repositories = importlib.import_module("robot_descriptions._repositories").REPOSITORIES
    repository = repositories.get(getattr(of, "repository", None))
    cache = Path(os.environ.get("ROBOT_DESCRIPTIONS_CACHE", "~/.cache/robot_descriptions")).expanduser()
    return repository is not None and (cache / repository.cache_path / ".git" / "HEAD").is_file()


def _fetched(name: str) -> Path:
    try:
        module = importlib.import_module(f"robot_descriptions.{name}")
        return Path(getattr(module, "URDF_PATH", None) or module.MJCF_PATH)
    except Exception as error:  # fetching runs git and the network: any failure of theirs is ours to explain
        raise ModelError(
            f"robot {name!r}", "files that robot_descriptions can fetch", f"{type(error).__name__}: {error}",
            "Check the network connection, or load a file by its path.",
        ) from error  # fmt: skip
