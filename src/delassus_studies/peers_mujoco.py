"""MuJoCo on the same robot with the same constraints as soft equalities, where it is installed: a peer to time."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from delassus.constraints import Point, Weld
from delassus.interop.mujoco_state import configuration_to_mujoco, velocity_map_from_mujoco
from delassus.model.joints import JointKind
from delassus.model.rotations import Array, matrix_to_quaternion
from delassus.model.tree import WORLD, Tree
from delassus_studies.cases import Case
from delassus_studies.peers_dynamics import States

SOLVERS = ("PGS", "Newton")


def mujoco_model(case: Case, solver: str) -> Any:
    """The tree as a MuJoCo model, body by body; welds and points to the world as equalities; no contacts."""
    mujoco: Any = importlib.import_module("mujoco")
    spec = mujoco.MjSpec()
    spec.option.solver = getattr(mujoco.mjtSolver, f"mjSOL_{solver.upper()}")
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_LIMIT
    bodies = {WORLD: spec.worldbody}
    for i, name in enumerate(case.tree.link_names):
        bodies[i] = _add_body(mujoco, bodies[case.tree.parents[i]], case.tree, i, name)
    for c in case.constraints:
        assert isinstance(c, Weld | Point) and c.second is None and c.axes == "local"
        at = c.first.on(case.tree)
        equality = spec.add_equality()
        equality.type = mujoco.mjtEq.mjEQ_WELD if isinstance(c, Weld) else mujoco.mjtEq.mjEQ_CONNECT
        equality.objtype = mujoco.mjtObj.mjOBJ_BODY
        equality.name1 = case.tree.link_names[at.link]
        equality.data[:3] = at.position
    return spec.compile()


def _add_body(mujoco: Any, parent: Any, tree: Tree, i: int, name: str) -> Any:
    joint, H = tree.joints[i], tree.inertias[i]
    x, y, z, w = matrix_to_quaternion(joint.rotation)
    body = parent.add_body(name=name, pos=joint.position, quat=[w, x, y, z])
    kinds = {
        JointKind.REVOLUTE: mujoco.mjtJoint.mjJNT_HINGE,
        JointKind.PRISMATIC: mujoco.mjtJoint.mjJNT_SLIDE,
        JointKind.FREE: mujoco.mjtJoint.mjJNT_FREE,
    }
    added = body.add_joint(type=kinds[joint.kind], name=joint.name)
    if joint.kind is not JointKind.FREE:
        added.axis = np.eye(3)[joint.axis]
        added.armature = float(np.max(joint.armature))
    mass = float(H[0, 0])
    com = np.array([H[1, 5], H[2, 3], H[0, 4]]) / mass
    cross = np.array([[0, -com[2], com[1]], [com[2], 0, -com[0]], [-com[1], com[0], 0]])
    about = H[3:, 3:] + mass * cross @ cross
    body.explicitinertial, body.mass, body.ipos = True, mass, com
    body.fullinertia = [about[0, 0], about[1, 1], about[2, 2], about[0, 1], about[0, 2], about[1, 2]]
    return body


def mujoco_calls(case: Case, states: States) -> dict[str, Callable[[], list[Array]]]:
    """Calls of ``mj_forward`` at every state, by each solver; they return ``qacc_smooth``, without the constraints."""
    if not importlib.util.find_spec("mujoco"):
        return {}
    mujoco: Any = importlib.import_module("mujoco")
    qpos = configuration_to_mujoco(case.tree, states.q)
    T = velocity_map_from_mujoco(case.tree, states.q)
    qvel = np.linalg.solve(T, states.v[..., None])[..., 0]
    force = (np.swapaxes(T, -1, -2) @ states.tau[..., None])[..., 0]

    def call(model: Any, data: Any) -> list[Array]:
        out = []
        for x, v, f in zip(qpos, qvel, force, strict=True):
            data.qpos[:], data.qvel[:], data.qfrc_applied[:] = x, v, f
            mujoco.mj_forward(model, data)
            out.append(np.array(data.qacc_smooth))
        return out

    calls: dict[str, Callable[[], list[Array]]] = {}
    for solver in SOLVERS:
        model = mujoco_model(case, solver)
        calls[f"mj_forward, {solver}"] = partial(call, model, mujoco.MjData(model))
    return calls
