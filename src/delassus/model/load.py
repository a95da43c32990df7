"""`load`: one entry for every kind of robot description."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from delassus.errors import ModelError
from delassus.model.build import Check, Root
from delassus.model.tree import Tree
from delassus.model.urdf import Continuous, Mimic, load_urdf, read_xml


def load(
    robot: str | Path | Any,
    *,
    root: Root = "fixed",
    continuous: Continuous = "angle",
    mimic: Mimic = "independent",
    check_inertia: Check = "warn",
) -> Tree:
    """Load a robot.

    Parameters
    ----------
    robot : path, name, pinocchio.Model or mujoco.MjModel
        A ``.urdf`` file, an ``.xml`` file (MJCF), a name that ``example-robot-data`` or ``robot_descriptions`` know,
        or a model of Pinocchio or MuJoCo. Meshes are not read from URDF files; MuJoCo reads them with an MJCF file.
    root : {"fixed", "floating"}
        For URDF files: whether the root link is fixed to the world or carried by a free joint. MJCF files and models
        say so themselves.
    continuous : {"angle", "cos-sin"}
        For URDF files: whether a continuous joint has one angle as its configuration, or its cosine and sine.
    mimic : {"independent", "refuse"}
        For URDF files: whether joints that mimic others get a degree of freedom of their own (with a warning that
        names them) or raise an error.
    check_inertia : {"warn", "refuse"}
        What to do about rotational inertias that no rigid body can have.

    Returns
    -------
    Tree
        Joint order and the layout of ``q`` and ``v`` equal ``pinocchio.buildModelFromUrdf`` for URDF files (with
        ``continuous="cos-sin"``), and the order of the model for the others.

    Raises
    ------
    ModelError
        The description is missing, malformed or describes no tree with a regular mass matrix; names the culprit.
    UnknownNameError
        No robot of that name is known.
    MissingDependencyError
        The description needs a package that is not installed.

    Examples
    --------
    >>> import delassus as ds
    >>> tree = ds.load("talos_reduced", root="floating")  # doctest: +SKIP
    >>> tree.nv  # doctest: +SKIP
    38
    """
    if isinstance(robot, (str, Path)):
        path = Path(robot)
        if path.suffix.lower() not in (".urdf", ".xml", ".mjcf") and not path.is_file():
            from delassus.model.names import find_robot

            path = find_robot(str(robot))
        if not path.is_file():
            raise ModelError(f"file {str(path)!r}", "a file that exists", "none", "Check the path.")
        if path.suffix.lower() == ".urdf" or _is_urdf(path):
            return load_urdf(path, root=root, continuous=continuous, mimic=mimic, check_inertia=check_inertia)
        from delassus.interop.mujoco import load_mjcf

        return load_mjcf(path, check_inertia=check_inertia)
    module = type(robot).__module__.split(".")[0]
    if module == "pinocchio":
        from delassus.interop.pinocchio import tree_from_pinocchio

        return tree_from_pinocchio(robot, check_inertia=check_inertia)
    if module == "mujoco":
        from delassus.interop.mujoco import tree_from_mujoco

        return tree_from_mujoco(robot, check_inertia=check_inertia)
    raise ModelError(
        "robot",
        "a path, a name, a pinocchio.Model or a mujoco.MjModel",
        f"an object of type {type(robot).__module__}.{type(robot).__name__}",
        "Pass one of these.",
    )


def _is_urdf(path: Path) -> bool:
    return read_xml(path).tag == "robot"
