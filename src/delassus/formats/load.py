"""`load`: one entry for every kind of robot description, and for robots by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from inspect import signature
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict, Unpack
from xml.etree.ElementTree import Element

from delassus.errors import ModelError, announce, shown
from delassus.formats.mujoco.model import tree_from_mujoco
from delassus.formats.mujoco.xml import read_mjcf
from delassus.formats.names import robot_file
from delassus.formats.pinocchio import tree_from_pinocchio
from delassus.formats.sdf.read import tree_from_sdf
from delassus.formats.text import (
    MAX_BYTES,
    OTHER_FORMATS,
    OTHER_ROOTS,
    parse_xml,
    read_xml,
    refuse_beyond,
    refuse_format,
)
from delassus.formats.urdf.macros import SUFFIX, expanded
from delassus.formats.urdf.read import Continuous, tree_from_urdf, with_group_states
from delassus.formats.usd.read import tree_from_usd
from delassus.formats.usd.stage import HEAD, SUFFIXES, open_stage
from delassus.model.check import check_choice, check_path
from delassus.model.description import Check, Root, Unsupported, judge_omitted
from delassus.model.edit.gimbals import with_ball_joints
from delassus.model.edit.massless import MASSLESS, Massless, with_inertia
from delassus.model.tree import Tree
from delassus.spatial.joint_kinds import FREE

Gimbals = Literal["hinges", "ball"]

TEXT = Path("<text>")
"""Path of a description that was given as text: files that it names are found from the working folder."""


class Description(NamedTuple):
    """Root element of a description, its path, its text where it was given as such, and a name for messages.

    That of OpenUSD is an empty ``<usd>``: its stage is opened where it is asked for. ``base`` carries a robot that was
    given by its name, where ``root=`` does not say.
    """

    root: Element
    path: Path
    text: str | None
    source: str
    base: Root | None = None

    @property
    def is_urdf(self) -> bool:
        """Whether it is URDF, or SRDF."""
        return self.root.tag == "robot"

    @property
    def is_sdf(self) -> bool:
        """Whether it is SDF."""
        return self.root.tag == "sdf"

    @property
    def is_mjcf(self) -> bool:
        """Whether it is MJCF."""
        return self.root.tag == "mujoco"

    @property
    def is_usd(self) -> bool:
        """Whether it is OpenUSD."""
        return self.root.tag == "usd"

    def stage(self, max_bytes: float) -> Any:
        """The ``Usd.Stage`` of a description of OpenUSD; raises what `open_stage` raises."""
        return open_stage(self.path, self.text, max_bytes, self.source)

    def compiled(self, max_bytes: float) -> Any:
        """The ``mujoco.MjModel`` of an MJCF description; raises what `read_mjcf` raises."""
        return read_mjcf(self.path, self.root, max_bytes, self.text)


class Loading(TypedDict, total=False):
    """Keywords of `load` that URDF files take, and `delassus.load_parallel`."""

    root: Root | None
    continuous: Continuous
    gimbals: Gimbals
    massless: Massless
    check_inertia: Check
    unsupported: Unsupported
    max_bytes: float


def load(
    robot: str | Path | Any,
    *,
    root: Root | None = None,
    continuous: Continuous = "angle",
    srdf: str | Path | None = None,
    gimbals: Gimbals = "hinges",
    massless: Massless = "keep",
    check_inertia: Check = "warn",
    unsupported: Unsupported = "warn",
    max_bytes: float = MAX_BYTES,
    xacro: Mapping[str, str | float | bool] | None = None,
) -> Tree:
    """Load a robot.

    Parameters
    ----------
    robot : path, text, name, pinocchio.Model, mujoco.MjModel or mujoco.MjSpec
        A ``.urdf``, ``.sdf``, ``.usd`` (``.usda``, ``.usdc``, ``.usdz``) or ``.xml`` file (MJCF), the text of one as a
        ``str`` that begins with ``<`` or ``#usda``, as the parameter ``robot_description`` of ROS 2 holds it, a name
        that ``example-robot-data`` or ``robot_descriptions`` know (their ``_description`` can be left out), or a model
        of Pinocchio or MuJoCo. Paths in a text start from the working folder. Meshes are not read from URDF and SDF
        files. MuJoCo reads them with an MJCF file.
    root : {"fixed", "floating"}, optional
        For URDF files: whether the root link is fixed to the world, or carried by a free joint. By default robots given
        by their name are floating if they walk, drive or fly (``delassus robots`` lists them), and files are fixed, as
        ``pinocchio.buildModelFromUrdf`` has them. Other files and models say so themselves; "floating" is refused for
        one without a free joint, and "fixed" holds all that moves freely in an SDF or OpenUSD file where it is.
    continuous : {"angle", "cos-sin"}
        For URDF files: whether a continuous joint has one angle as its configuration, or its cosine and sine.
    srdf : path or text, optional
        For URDF files: an SRDF file, or its text, whose ``<group_state>`` become ``tree.reference_configurations``. By
        default that beside the URDF file: of its name, or the only one there or in the folder ``srdf`` beside its own.
        Joints that it does not set are neutral. Those that the tree does not have are left out, and listed where the
        file is given.
    gimbals : {"hinges", "ball"}
        Whether three hinges or more whose axes meet in a point, one after the other on links without mass, become one
        ball joint: three freedoms, no singular axis, another layout of ``q`` and ``v``. ``tree.aliases`` says of each
        hinge which joint it is part of, ``tree.report`` also which hinges stay, and why: limits, damping, motors, and
        what else a ball joint does not have. `delassus.model.edit.gimbals` has the rules.
    massless : {"keep", "lock", "armature", "error"}
        What to do about joints that move nothing with inertia: links without mass at the end of a chain, say. Their
        mass matrix is singular. ``"keep"`` loads the robot as it is: kinematics, Jacobians and inverse dynamics work,
        and what needs the inverse of the mass matrix (forward dynamics, Delassus matrices, simulation) raises
        `ModelError` with the names of the joints. ``"lock"`` fixes these joints at zero, which leaves them out of ``q``
        and ``v``; constraints, actuators and sensors of theirs go too. ``"armature"`` gives them a small one: 1e-4 of
        the robot's mass (kg) where they slide, of its mass times the square of its characteristic length (kg·m²) where
        they turn. ``"error"`` raises at once. ``tree.report`` names the joints in each case.
    check_inertia : {"warn", "refuse", "repair"}
        What to do about rotational inertias that no rigid body can have (negative principal moments, or one larger than
        the sum of the other two): use them and warn, raise an error, or take the nearest inertia that is possible.
        Nearest is least in the Frobenius norm about the centre of mass; principal axes, mass and centre of mass stay.
    unsupported : {"warn", "refuse", "ignore"}
        What to do about what a tree does not hold of the description: muscles, spatial tendons, sensors …;
        ``docs/mjcf.md`` has the whole list. ``tree.report`` names it.
    max_bytes : float
        Refuse larger files, and MJCF files of which MuJoCo would make more than that: an element takes it about 4 kB,
        as often as it is replicated and attached. ``float("inf")`` lifts the limit; loading may then take any time and
        memory.
    xacro : mapping of str to str, float or bool, optional
        Arguments of a URDF file with macros, which are then expanded by the package ``xacro``, as those of a file whose
        name ends in ``.xacro`` always are. Macros may take any time and memory.

    Returns
    -------
    Tree
        Joint order and the layout of ``q`` and ``v`` equal ``pinocchio.buildModelFromUrdf`` for URDF files (with
        ``continuous="cos-sin"``), and the order of the model for the others. Loops, couplings and mimic joints are in
        ``tree.constraints``. A ``<limit>`` of a URDF file without ``lower`` and ``upper`` limits no position, and is
        listed as such: by URDF, and in models of Pinocchio, both are zero, and the joint could not move. Effort and
        velocity limits of a URDF file that are not above zero are none, and listed. ``docs/mjcf.md`` says more.

    Raises
    ------
    ModelError
        The description is missing, malformed, too large, attaches itself, or describes no tree, or one whose mass
        matrix is indefinite; names the culprit. With ``unsupported="refuse"``, a description that has more than a tree
        holds. With ``massless="error"``, joints that move nothing with inertia; with ``"lock"``, one that does so along
        some of its degrees of freedom.
    UnknownNameError
        No robot of that name is known.
    MissingDependencyError
        The description needs a package that is not installed.

    Examples
    --------
    >>> import delassus as ds
    >>> tree = ds.load("talos")  # doctest: +SKIP
    >>> tree.nv  # doctest: +SKIP
    38
    """
    check_choice("gimbals", gimbals, ("hinges", "ball"), ModelError)
    check_choice("massless", massless, MASSLESS, ModelError)
    if root is not None:
        check_choice("root", root, ("fixed", "floating"), ModelError)
    module = type(robot).__module__.split(".")[0]
    if isinstance(robot, (str, Path)):
        found = read_description(robot, max_bytes, xacro)
        if found.is_urdf:
            if root is None and found.base == "floating":
                announce(f"{found.source}: it walks, drives or flies, so that its base floats; root='fixed' holds it.")
            return load_description(
                found.root, found.path, srdf, source=found.source, root=root or found.base, continuous=continuous,
                gimbals=gimbals, massless=massless, check_inertia=check_inertia, unsupported=unsupported,
                max_bytes=max_bytes,
            )  # fmt: skip
        name = "robot" if found.path == TEXT else found.path.stem
        if found.is_sdf:
            tree = tree_from_sdf(found.root, found.path, name, root, check_inertia, found.source, max_bytes)
        elif found.is_usd:
            tree = tree_from_usd(found.stage(max_bytes), name, root, check_inertia, found.source)
        else:
            tree = tree_from_mujoco(found.compiled(max_bytes), check_inertia, found.source)
    elif module == "pinocchio":
        tree = tree_from_pinocchio(robot, check_inertia)
    elif module == "mujoco":
        tree = tree_from_mujoco(robot, check_inertia)
    else:
        raise ModelError(
            "robot", "a path, the text of a description, a name, or a model of Pinocchio or MuJoCo",
            f"an object of type {type(robot).__module__}.{type(robot).__name__}", "Pass one of these.",
        )  # fmt: skip
    if srdf is not None:
        raise ModelError("srdf", "None but for a URDF file", shown(srdf), "MJCF files and models name configurations.")
    if root == "floating" and not any(joint.kind is FREE for joint in tree.joints):
        raise ModelError(
            "root", "a description with a free joint", f"{tree.name!r}, which has none",
            "MJCF files and models say themselves what carries the root: add a free joint there.",
        )  # fmt: skip
    return _judged(tree, gimbals, massless, unsupported)


def load_description(
    robot: Element,
    path: Path,
    srdf: str | Path | None = None,
    balls: Collection[str] = (),
    source: str = "",
    **loading: Unpack[Loading],
) -> Tree:
    """The tree of the ``<robot>`` of a URDF file, joints named ball joints; takes and raises what `load` does.

    ``source`` is what messages call it: by default its file.
    """
    how: dict[str, Any] = {**{name: x.default for name, x in signature(load).parameters.items()}, **loading}
    check_choice("gimbals", how["gimbals"], ("hinges", "ball"), ModelError)
    check_choice("massless", how["massless"], MASSLESS, ModelError)
    states = srdf_beside(path) if srdf is None else srdf if is_text(srdf) else check_path("srdf", srdf)
    own: Root = "fixed" if how["root"] is None else how["root"]
    options = own, how["continuous"], how["check_inertia"]
    name = "robot" if path == TEXT else path.stem
    tree = tree_from_urdf(robot, name, *options, source or f"file {str(path)!r}", balls)
    if states is not None:
        semantics = read_description(states, how["max_bytes"])
        tree = with_group_states(tree, semantics.root, semantics.source, listed=srdf is not None)
    return _judged(tree, how["gimbals"], how["massless"], how["unsupported"])


def srdf_beside(urdf: Path) -> Path | None:
    """The SRDF file of the same stem, or the only one, in the folder of a URDF file or in ``srdf`` beside that."""
    if urdf == TEXT:
        return None
    for folder in (urdf.parent, urdf.parent.parent / "srdf"):
        files = sorted(folder.glob("*.srdf"))
        named = [file for file in files if file.stem == urdf.stem]
        if named or len(files) == 1:
            return (named or files)[0]
    return None


def _judged(tree: Tree, gimbals: Gimbals, massless: Massless, unsupported: Unsupported) -> Tree:
    """The tree, with ball joints and inertia if asked for; warns or raises where it lacks some of its description."""
    tree = with_ball_joints(tree) if gimbals == "ball" else tree
    judge_omitted(tree.name, "a tree", tree.omitted, unsupported, "`tree.report` lists all.")
    return with_inertia(tree, massless)


def is_text(robot: object) -> bool:
    """Whether this is a description itself, and not its path or name."""
    return isinstance(robot, str) and robot.lstrip("\ufeff \t\r\n").startswith(("<", HEAD))


def read_description(
    robot: str | Path, max_bytes: float, macros: Mapping[str, str | float | bool] | None = None
) -> Description:
    """The description that has this path or name, or is this text, its ``macros`` expanded; raises as `load` does."""
    path, text, source, base = TEXT, None, "the text of a robot", None
    if isinstance(robot, str) and is_text(robot):
        text = robot.lstrip("\ufeff \t\r\n")
        refuse_beyond(max_bytes, source, len(text))
    else:
        path, base = find_description(robot)
        source = f"file {str(path)!r}" if Path(robot) == path else f"robot {robot!r}"
        refuse_format(path)
    if path.suffix.lower() in SUFFIXES or (text is not None and text.startswith(HEAD)):
        return Description(Element("usd"), path, text, source)
    if macros is not None or path.suffix.lower() == SUFFIX:
        text = expanded(path, text, {} if macros is None else macros, max_bytes, source)
    root = read_xml(path, max_bytes) if text is None else parse_xml(text, source)
    if root.tag not in ("robot", "mujoco", "sdf"):
        form = OTHER_ROOTS.get(root.tag)
        came = f"a <{shown(root.tag)[1:-1]}>{f': {form}' if form else ''}"
        raise ModelError(source, "a <robot> (URDF), <sdf> (SDF) or <mujoco> (MJCF)", came, "Check the file.")
    return Description(root, path, text, source, base)


def find_description(robot: str | Path) -> tuple[Path, Root | None]:
    """Path of a file, or of the description of the robot of that name, which has a base; raises as `load` does."""
    path = Path(robot)
    try:
        is_file, is_folder = path.is_file(), path.is_dir()
    except (OSError, ValueError):  # a path that cannot exist
        is_file = is_folder = False
    if is_file:
        return path, None
    if isinstance(robot, Path) or path.suffix.lower() in (
        ".urdf",
        ".srdf",
        ".sdf",
        ".world",
        ".xml",
        ".mjcf",
        ".xacro",
        *SUFFIXES,
        *OTHER_FORMATS,
    ):
        came = "a directory" if is_folder else "none"
        raise ModelError(f"file {shown(str(path))}", "a file that exists", came, "Check the path.")
    return robot_file(robot)
