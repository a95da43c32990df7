"""`load_colliders` and `load_ignored`: one entry for every kind of description."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from delassus.errors import unknown_name
from delassus.formats.load import Description, read_description
from delassus.formats.mujoco.colliders import GeomSurface, colliders_of_model, ignored_of_model, surfaces_of_model
from delassus.formats.sdf.colliders import colliders_of_sdf, ignored_of_sdf
from delassus.formats.text import MAX_BYTES
from delassus.formats.urdf.colliders import Found, colliders_of_urdf, ignored_of_srdf
from delassus.formats.usd.colliders import colliders_of_usd, ignored_of_usd
from delassus.formats.usd.stage import refusing
from delassus.model.check import check_flag, check_list, check_path, check_prefix
from delassus.model.shapes import Collider, HalfSpace
from delassus.model.topology import WORLD, check_tree
from delassus.model.tree import Tree


def load_colliders(
    robot: str | Path | Any,
    tree: Tree,
    *,
    prefix: str = "",
    friction: float = 0.5,
    restitution: float = 0.0,
    convex: bool = True,
    visual: bool = False,
    package_dirs: Iterable[str | Path] = (),
    max_bytes: float = MAX_BYTES,
) -> tuple[Collider, ...]:
    """Collision geometry of a robot, or what it looks like, on the links of its tree.

    Parameters
    ----------
    robot : path, text, name, mujoco.MjModel or mujoco.MjSpec
        What ``tree`` was loaded from, as `delassus.load` takes it, but for models of Pinocchio.
    tree : Tree
        The robot, before it became part of a scene.
    prefix : str
        Put before names of links and colliders: ``"arm/"`` for the robot ``"arm"`` of a scene of several.
    friction, restitution : float
        Of every collider. MJCF files say their own friction: the sliding coefficient of each geom is taken, and the
        torsional and rolling ones of geoms whose ``condim`` is 4 or 6. (MuJoCo uses the larger of two coefficients, as
        ``Scene(friction_rule="max")`` does.) What pairs have by ``condim``, ``priority`` and ``<pair>`` is in scenes.
    convex : bool
        For URDF, SDF and OpenUSD files: whether meshes stand for their convex hulls, or for their surfaces. In MJCF
        files they are always hulls, as in MuJoCo.
    visual : bool
        Read the shapes that are to be seen in place of those that collide: ``<visual>`` elements of URDF and SDF files,
        with meshes as they are, a collider for each of their colours, and geoms of the groups 0 to 2 of MJCF files.
        Each has the ``rgba`` that a file says, that of meshes before that of a URDF file, and the mean of a texture.
    package_dirs : iterable of path
        For URDF files: folders that hold the packages of ``package://`` addresses. Those in the environment variable
        ``ROS_PACKAGE_PATH``, and the folders above the file, are searched after them.
    max_bytes : float
        As for `delassus.load`; no mesh file may be larger either.

    Returns
    -------
    tuple of Collider
        In the order of the file. Each has the name that the file gives it; else that of its link, numbered from 0 if
        the link has several. Bodies without joints to the world, in MJCF, are part of ``"world"``, as in MuJoCo;
        ``mocap`` bodies are not where the tree has them as links, as that of a scene does.

    Raises
    ------
    ModelError
        The file is missing, malformed, or declares a document type; a shape that this library does not know, or a
        mesh that cannot be read. Names the link and the file: no shape is left out.
    UnknownNameError
        The tree has no link of that name, or no robot has.
    MissingDependencyError
        The description needs a package that is not installed.

    Examples
    --------
    >>> import delassus as ds
    >>> from delassus.formats.colliders import load_colliders
    >>> tree = ds.load("go1", root="floating")  # doctest: +SKIP
    >>> load_colliders("go1", tree)[0].link  # doctest: +SKIP
    'trunk'
    """
    check_tree(tree)
    source, material = _read(robot, max_bytes, prefix), {"friction": friction, "restitution": restitution}
    if isinstance(source, Description):
        found = _of_description(source, visual, convex, package_dirs, max_bytes)
    else:
        found = colliders_of_model(source, visual, tree.link_names)
    return tuple(_placed(x, tree, prefix, material) for x in found)


def _placed(found: Found, tree: Tree, prefix: str, material: dict[str, Any]) -> Collider:
    """Collider of what was found; its own material counts before that of all."""
    link, name, shape, (rotation, position), own = found
    if link not in tree.frames:
        raise unknown_name("link in the tree", link, tree.frames)
    at = tree.frames[link]
    if isinstance(shape, HalfSpace) and at.link == WORLD:
        link, rotation, position = "world", at.rotation @ rotation, at.position + at.rotation @ position
    return Collider(
        "world" if link == "world" else prefix + link, shape, position, rotation, name=prefix + name, **(material | own)
    )


def _of_description(
    robot: Description, visual: bool, convex: bool, package_dirs: Iterable[str | Path], max_bytes: float
) -> list[Found]:
    """What collides in a URDF, SDF or OpenUSD file, or is seen, on its links."""
    given = check_list("package_dirs", package_dirs, "a list of folders", "Pass package_dirs=['robots'].")
    folders = tuple(check_path("package_dirs", folder) for folder in given)
    kind, convex = "visual" if check_flag("visual", visual) else "collision", check_flag("convex", convex)
    if robot.is_usd:
        stage = robot.stage(max_bytes)
        with refusing(robot.source):
            return colliders_of_usd(stage, kind, convex and not visual)
    read = colliders_of_sdf if robot.is_sdf else colliders_of_urdf
    return read(robot.root, robot.path, kind, convex and not visual, folders, max_bytes)


def load_ignored(
    source: str | Path | Any, prefix: str = "", *, tree: Tree | None = None, max_bytes: float = MAX_BYTES
) -> tuple[tuple[str, str], ...]:
    """Pairs of names that do not collide, for ``Scene(ignore=…)``.

    Parameters
    ----------
    source : path, text, mujoco.MjModel or mujoco.MjSpec
        An SRDF file, of which ``<disable_collisions>`` is read and gives pairs of links; or an ``.xml`` file (MJCF) or
        model, of which ``contype``, ``conaffinity``, ``<exclude>`` and ``<pair>`` are, and give pairs of colliders as
        `load_colliders` names them.
    prefix : str
        As for `load_colliders`.
    tree : Tree, optional
        Leave out pairs of an SRDF file whose links this tree does not have: it may describe a larger robot. (A scene
        refuses names that it does not know.)
    max_bytes : float
        As for `delassus.load`.

    Raises
    ------
    ModelError
        The file is missing, malformed, or neither SRDF nor MJCF, or holds rules that this library does not know.

    Examples
    --------
    >>> from delassus.formats.colliders import load_ignored
    >>> load_ignored("panda.srdf", "arm/")  # doctest: +SKIP
    (('arm/panda_link0', 'arm/panda_link1'), ...)
    """
    if tree is not None:
        check_tree(tree)
    read = _read(source, max_bytes, prefix)
    if isinstance(read, Description):
        if read.is_sdf:
            pairs = ignored_of_sdf(read.root, read.path, max_bytes)
        elif read.is_usd:
            stage = read.stage(max_bytes)
            with refusing(read.source):
                pairs = ignored_of_usd(stage)
        else:
            pairs = [*ignored_of_srdf(read.root, str(read.path), tree)]
    else:
        pairs = ignored_of_model(read)
    return tuple((prefix + first, prefix + second) for first, second in pairs)


def load_surfaces(robot: Any) -> tuple[dict[str, GeomSurface], dict[tuple[str, str], dict[str, float]]]:
    """Surfaces of the geoms of an MJCF description, and materials of its pairs; see `surfaces_of_model`."""
    return surfaces_of_model(_read(robot, MAX_BYTES))


def _read(robot: str | Path | Any, max_bytes: float, prefix: str = "") -> Description | Any:
    """A URDF, SRDF or SDF description, or the model of an MJCF description; anything else as it is."""
    check_prefix(prefix)
    if not isinstance(robot, (str, Path)):
        return robot
    found = read_description(robot, max_bytes)
    return found.compiled(max_bytes) if found.is_mjcf else found
