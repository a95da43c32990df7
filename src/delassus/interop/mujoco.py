"""MuJoCo: MJCF files and ``mujoco.MjModel`` → `Tree`; states in both directions (see `delassus.interop.mujoco_state`).

Links and degrees of freedom keep MuJoCo's order. A body with several joints becomes as many links, all but the last of
them without mass; the last has the body's name. What a tree does not hold is left out: equality constraints, contacts,
actuators, tendons (their armature is refused: it couples joints through the mass matrix), springs, gravity. A mocap
body stays where the model puts it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from delassus.errors import ModelError, missing_dependency
from delassus.interop.mujoco_state import (
    configuration_from_mujoco,
    configuration_to_mujoco,
    velocity_from_mujoco,
    velocity_map_from_mujoco,
    velocity_to_mujoco,
)
from delassus.model.build import build_tree, unique_name
from delassus.model.description import FIXED, Check, RawJoint, RawLink
from delassus.model.joints import JointKind
from delassus.model.rotations import Array, quaternion_to_matrix, rotation_about
from delassus.model.tree import Tree
from delassus.model.urdf import read_xml

__all__ = [
    "configuration_from_mujoco",
    "configuration_to_mujoco",
    "load_mjcf",
    "tree_from_mujoco",
    "velocity_from_mujoco",
    "velocity_map_from_mujoco",
    "velocity_to_mujoco",
]

LARGEST_HEIGHT_FIELD = 10**8
"""Height fields with more samples than this are refused before MuJoCo sees them: it overflows its index and crashes."""


def load_mjcf(path: Path, *, check_inertia: Check = "warn") -> Tree:
    """Read an MJCF file with MuJoCo; see `delassus.load`.

    Raises
    ------
    ModelError
        The file cannot be read, is not MJCF that MuJoCo compiles, or declares a document type; or what
        `tree_from_mujoco` refuses.
    MissingDependencyError
        MuJoCo is not installed.

    Examples
    --------
    >>> from delassus.interop.mujoco import load_mjcf
    >>> tree = load_mjcf(Path("humanoid.xml"))  # doctest: +SKIP
    """
    return tree_from_mujoco(read_mjcf(Path(path)), check_inertia=check_inertia)


def read_mjcf(path: Path) -> Any:
    """Compile an MJCF file to a ``mujoco.MjModel``; raises as `load_mjcf` does."""
    mujoco = _import_mujoco(f"file {str(path)!r}")
    _check_files(path, path.parent, set())
    try:
        return mujoco.MjModel.from_xml_path(str(path))
    except Exception as error:  # MuJoCo's own errors, fatal ones included, share no base class
        raise ModelError(
            f"file {str(path)!r}", "an MJCF file that MuJoCo compiles",
            f"{type(error).__name__}: {' '.join(str(error).split())}", "Correct the file.",
        ) from error  # fmt: skip


def _import_mujoco(purpose: str) -> Any:
    try:
        import mujoco
    except ImportError as error:
        raise missing_dependency("mujoco", "mjcf", purpose) from error
    return mujoco


def _check_files(path: Path, folder: Path, seen: set[Path]) -> None:
    """Refuse document types and sizes that MuJoCo would crash on, in a file and all that it includes."""
    if path in seen:
        return
    seen.add(path)
    root = read_xml(path)
    for field in root.iter("hfield"):
        _check_height_field(field)
    for element in root.iter():
        if element.tag in ("include", "model") and element.get("file"):
            for base in (folder, path.parent):
                included = (base / element.get("file", "")).resolve()
                if included.is_file():
                    _check_files(included, folder, seen)


def _check_height_field(field: ElementTree.Element) -> None:
    try:
        samples = int(field.get("nrow", 0)) * int(field.get("ncol", 0))
    except ValueError:
        return  # MuJoCo says what is wrong
    if samples > LARGEST_HEIGHT_FIELD:
        raise ModelError(
            f"height field {field.get('name')!r}", f"at most {LARGEST_HEIGHT_FIELD:g} samples", f"{samples:g}",
            "Make it smaller; it has no part in the dynamics of the links.",
        )  # fmt: skip


def tree_from_mujoco(model: Any, *, check_inertia: Check = "warn") -> Tree:
    """Build the tree of a compiled MuJoCo model.

    Parameters
    ----------
    model : mujoco.MjModel
        Its numbers are used as they are now, edits included.
    check_inertia : {"warn", "refuse"}
        What to do about rotational inertias that no rigid body can have.

    Returns
    -------
    Tree
        Bodies and sites are frames. Angles and lengths equal ``qpos``: the reference ``qpos0`` is part of the fixed
        placements. Bodies and joints without a name are called ``body<id>`` and ``joint<id>``.

    Raises
    ------
    ModelError
        Not a model; armature on a tendon; a free joint whose armature differs between linear directions; links whose
        mass matrix is singular. Names the culprit.
    MissingDependencyError
        MuJoCo is not installed.

    Examples
    --------
    >>> import delassus as ds, mujoco
    >>> xml = "<mujoco><worldbody><body><joint/><geom size='0.1' pos='1 0 0'/></body></worldbody></mujoco>"
    >>> tree = ds.load(mujoco.MjModel.from_xml_string(xml))
    >>> tree.link_names, tree.joint_names
    (('body1',), ('joint0',))
    """
    mujoco = _import_mujoco("a tree from a MuJoCo model")
    if not isinstance(model, mujoco.MjModel):
        raise ModelError(
            "model", "a mujoco.MjModel", f"an object of type {type(model).__module__}.{type(model).__name__}",
            "Compile it first.",
        )  # fmt: skip
    kinds = {
        int(mujoco.mjtJoint.mjJNT_FREE): JointKind.FREE,
        int(mujoco.mjtJoint.mjJNT_BALL): JointKind.BALL,
        int(mujoco.mjtJoint.mjJNT_SLIDE): JointKind.PRISMATIC,
        int(mujoco.mjtJoint.mjJNT_HINGE): JointKind.REVOLUTE,
    }
    body_names = element_names(mujoco, model, mujoco.mjtObj.mjOBJ_BODY, model.nbody, "body")
    joint_names = element_names(mujoco, model, mujoco.mjtObj.mjOBJ_JOINT, model.njnt, "joint")
    armature = _armature(mujoco, model)
    frames, carriers = set(body_names), set(joint_names)

    links: list[RawLink] = []
    joints: list[RawJoint] = []
    for body, name in enumerate(body_names):
        R = _rotation(model.body_iquat[body])
        inertia = R @ np.diag(model.body_inertia[body]) @ R.T
        own = RawLink(name, float(model.body_mass[body]), model.body_ipos[body].copy(), inertia)
        parent = body_names[model.body_parentid[body]]
        position, rotation = model.body_pos[body].copy(), _rotation(model.body_quat[body])
        first = int(model.body_jntadr[body])
        ids = range(first, first + int(model.body_jntnum[body]))
        for j in ids:
            last = j == ids[-1]
            child = name if last else unique_name(f"{name}:{joint_names[j]}", frames)
            kind = kinds[int(model.jnt_type[j])]
            joints.append(_joint(model, j, kind, joint_names[j], armature, parent, child, (rotation, position)))
            links.append(own if last else RawLink(child))
            parent, position, rotation = child, np.zeros(3), np.eye(3)
        if not ids:
            links.append(own)
            if body:
                joints.append(RawJoint(unique_name(f"{name}:fixed", carriers), FIXED, parent, name, position, rotation))
    for site in range(model.nsite):
        name = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_SITE, site)
        if name and name not in frames:
            frames.add(name)
            links.append(RawLink(name))
            parent, R = body_names[model.site_bodyid[site]], _rotation(model.site_quat[site])
            carrier = unique_name(f"{name}:fixed", carriers)
            joints.append(RawJoint(carrier, FIXED, parent, name, model.site_pos[site].copy(), R))
    title = bytes(model.names).split(b"\0", 1)[0].decode(errors="replace")
    return build_tree(title, links, joints, root="fixed", keep_order=True, check_inertia=check_inertia)


def element_names(mujoco: Any, model: Any, kind: Any, count: int, prefix: str) -> list[str]:
    """Name of each object of a kind; made up from its number where it has none."""
    given = [mujoco.mj_id2name(model, kind, i) for i in range(count)]
    taken = {name for name in given if name}
    return [name or unique_name(f"{prefix}{i}", taken) for i, name in enumerate(given)]


def _rotation(quaternion: Array) -> Array:
    """Rotation matrix of MuJoCo's quaternion [w x y z]."""
    return quaternion_to_matrix(np.roll(quaternion, -1) / np.linalg.norm(quaternion))


def _armature(mujoco: Any, model: Any) -> Array:
    """Armature (nv,) of each degree of freedom; that of actuators acts on their joint with the gear ratio squared."""
    armature = np.array(model.dof_armature)
    on_tendon = np.array(model.tendon_armature) if hasattr(model, "tendon_armature") else np.zeros(model.ntendon)
    on_joint = (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT))
    for a in np.flatnonzero(getattr(model, "actuator_armature", ())):  # actuators have none before MuJoCo 4
        reflected = model.actuator_armature[a] * model.actuator_gear[model.actuator_outadr[a], 0] ** 2
        transmission, target = int(model.actuator_trntype[a]), model.actuator_trnid[a, 0]
        if transmission in on_joint:
            armature[model.dof_jntid == target] += reflected
        elif transmission == int(mujoco.mjtTrn.mjTRN_TENDON):
            on_tendon[target] += reflected
    for t in np.flatnonzero(on_tendon):
        name = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_TENDON, t) or f"tendon{t}"
        raise ModelError(
            f"tendon {name!r}", "no armature (it would couple joints through the mass matrix)", f"{on_tendon[t]:g}",
            "Remove it, and give the joints armature where that is near enough.",
        )  # fmt: skip
    return armature


def _joint(
    model: Any, j: int, kind: JointKind, name: str, armature: Array, parent: str, child: str, pose: tuple[Array, Array]
) -> RawJoint:
    """Joint ``j`` between two links; before it moves, the child has the pose (rotation, position) in the parent."""
    dofs = slice(int(model.jnt_dofadr[j]), int(model.jnt_dofadr[j]) + kind.nv)
    rotation, position = pose
    anchor, axis = np.array(model.jnt_pos[j]), np.array(model.jnt_axis[j])
    reference = float(model.qpos0[model.jnt_qposadr[j]])
    lower, upper = -np.inf, np.inf
    if kind is JointKind.FREE:  # its configuration is the pose in the world, wherever the body was placed
        rotation, position, anchor = np.eye(3), np.zeros(3), np.zeros(3)
        if np.ptp(armature[dofs][:3]) > 0:
            raise ModelError(
                f"joint {name!r}", "one armature for the linear directions of a free joint",
                str(armature[dofs][:3]), "They are directions of the world, not of the body: make them equal.",
            )  # fmt: skip
    if kind is JointKind.REVOLUTE:
        position, rotation = position + rotation @ anchor, rotation @ rotation_about(axis, -reference)
    elif kind is JointKind.PRISMATIC:
        position = position + rotation @ (anchor - reference * axis)
    else:
        position = position + rotation @ anchor
    if model.jnt_limited[j] and kind in (JointKind.REVOLUTE, JointKind.PRISMATIC):
        lower, upper = (float(x) for x in model.jnt_range[j])
    return RawJoint(
        name, kind, parent, child, position, rotation, axis, armature=armature[dofs], lower=lower, upper=upper,
        damping=np.array(model.dof_damping[dofs]), child_position=-anchor,
    )  # fmt: skip
