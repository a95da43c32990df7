"""MuJoCo, where it is installed, as a peer to time: soft equalities, the pendulum of [OS], robots on a plane."""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from delassus.constraints import Contact, Frame, Weld
from delassus.contact.scene import Scene
from delassus.formats.mujoco.model import configuration_to_mujoco, velocity_map_from_mujoco, velocity_to_mujoco
from delassus.model.joints import JointKind
from delassus.model.rotations import Array, matrix_to_quaternion
from delassus.model.shapes import Box, HalfSpace, Sphere
from delassus.model.tree import WORLD, Tree
from delassus_studies.cases import Case, States
from delassus_studies.peers.pinocchio import mass_and_centre
from delassus_studies.timing import Record, statistics

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
    assert case.world_only
    for c in case.constraints:
        at = c.frames[0].on(case.tree)
        equality = spec.add_equality()
        equality.type = mujoco.mjtEq.mjEQ_WELD if isinstance(c, Weld) else mujoco.mjtEq.mjEQ_CONNECT
        equality.objtype = mujoco.mjtObj.mjOBJ_BODY
        equality.name1 = case.tree.link_names[at.link]
        equality.data[:3] = at.position
    return spec.compile()


def _add_body(mujoco: Any, parent: Any, tree: Tree, i: int, name: str) -> Any:
    joint = tree.joints[i]
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
    mass, com, about = mass_and_centre(tree.inertias[i])
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


def mujoco_pendulum(n: int, steps: int) -> Record | None:
    """Median µs a step without and with contacts, called step by step from Python; None without MuJoCo."""
    if not importlib.util.find_spec("mujoco"):
        return None
    mujoco: Any = importlib.import_module("mujoco")
    model = mujoco.MjModel.from_xml_string(_pendulum(n))
    data = mujoco.MjData(model)
    data.qpos[0], data.qvel[0] = np.pi / 4, 1.0
    seconds, touching = np.empty(steps), np.empty(steps, dtype=bool)
    for k in range(steps):
        start = time.perf_counter()
        mujoco.mj_step(model, data)
        seconds[k] = time.perf_counter() - start
        touching[k] = data.ncon > 0
    groups = {"free": ~touching, "touching": touching}
    return {name: 1e6 * float(np.median(seconds[k])) if k.any() else None for name, k in groups.items()}


def _pendulum(n: int) -> str:
    """The same bodies, planes and steps, with MuJoCo's own soft contacts."""
    radius = 6.0 / n
    inner = ""
    for k in reversed(range(n)):
        position = f"0 0 {10 if k == 0 else -2 * radius:.17g}"
        inner = (
            f'<body pos="{position}"><joint type="hinge" axis="0 1 0"/>'
            f'<geom type="sphere" size="{radius:.17g}" mass="1" pos="0 0 {-radius:.17g}" friction="0.5 0 0"/>'
            f"{inner}</body>"
        )
    return (
        '<mujoco><option timestep="0.0001" gravity="0 0 -9.8"/><worldbody>'
        '<geom type="plane" size="50 50 1" friction="0.5 0 0"/>'
        '<geom type="plane" size="50 50 1" pos="4 0 0" euler="0 -90 0" friction="0.5 0 0"/>'
        f"{inner}</worldbody></mujoco>"
    )


def mujoco_steps(
    tree: Tree, contacts: Sequence[Contact], q: Array, v: Array, targets: Array, gains: tuple[Array, Array], dt: float,
    joints: bool, rounds: int,
) -> Record | None:  # fmt: skip
    """Times of ``mj_step`` on the same robot: spheres on a plane, its defaults, PD forces computed outside of them.

    From states (n, nq) and (n, nv), with PD targets (T, n, nq); ``joints`` says whether limits and dry friction of
    joints act. µs a step: statistics over the rounds, of the mean over all steps; the lowest is the mean of the fastest
    of each step. None without MuJoCo.
    """
    if not importlib.util.find_spec("mujoco"):
        return None
    mujoco: Any = importlib.import_module("mujoco")
    model = _on_plane(mujoco, tree, contacts, dt, joints)
    data = mujoco.MjData(model)
    qpos, qvel, goals = configuration_to_mujoco(tree, q), velocity_to_mujoco(tree, q, v), targets[..., 7:]
    kp, kd = (gain[6:] for gain in gains)
    seconds, touching = np.empty((rounds, len(q), len(targets))), 0
    for number in range(rounds):
        for k in range(len(q)):
            mujoco.mj_resetData(model, data)
            data.qpos[:], data.qvel[:] = qpos[k], qvel[k]
            for t, goal in enumerate(goals[:, k]):
                data.qfrc_applied[6:] = kp * (goal - data.qpos[7:]) - kd * data.qvel[6:]
                start = time.perf_counter()
                mujoco.mj_step(model, data)
                seconds[number, k, t] = time.perf_counter() - start
                touching += data.ncon
    whole = statistics([1e6 * float(x.mean()) for x in seconds])
    return {**whole, "lowest": 1e6 * float(seconds.min(axis=0).mean()), "contacts": touching / seconds.size}


def _on_plane(mujoco: Any, tree: Tree, contacts: Sequence[Contact], dt: float, joints: bool) -> Any:
    """Model of a robot whose spheres touch a plane, and nothing else."""
    spec = mujoco.MjSpec.from_string(tree.to_mjcf(unsupported="ignore"))
    spec.option.timestep = dt
    if not joints:
        spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_LIMIT | mujoco.mjtDisableBit.mjDSBL_FRICTIONLOSS
        for joint in spec.joints:
            joint.damping = 0.0 * joint.damping
    plane = spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[50, 50, 1], contype=1, conaffinity=0)
    plane.friction[0] = contacts[0].friction
    for c in contacts:
        at = c.frame.on(tree)
        ((centre, radius),) = c.spheres
        body = spec.body(tree.link_names[at.link])
        sphere = body.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[radius, 0, 0], mass=0.0, contype=0)
        sphere.pos, sphere.conaffinity, sphere.friction[0] = at.position + at.rotation @ centre, 1, c.friction
    return spec.compile()


class MujocoScene:
    """A scene by ``mj_step``, with MuJoCo's defaults."""

    def __init__(self, mujoco: Any, model: Any, qpos: Array) -> None:
        self._mujoco, self._model, self._data = mujoco, model, mujoco.MjData(model)
        self._data.qpos[:] = qpos
        turned = [
            list(range(a + 3, a + 7)) for a, kind in zip(model.jnt_qposadr, model.jnt_type, strict=True) if kind == 0
        ]
        self._kept = np.setdiff1d(np.arange(model.nq), np.array(turned, dtype=int).ravel())

    def run(self, duration: float) -> None:
        """So many seconds, in one call."""
        self._mujoco.mj_step(self._model, self._data, round(duration / self._model.opt.timestep))

    @property
    def places(self) -> Array:
        """Positions of bodies and angles of joints."""
        return np.array(self._data.qpos[self._kept])

    @property
    def depth(self) -> float:
        """Largest overlap (m)."""
        return float(np.max(-self._data.contact.dist, initial=0.0))

    @property
    def contacts(self) -> int:
        """How many."""
        return int(self._data.ncon)


def mujoco_scene(scene: Scene, q0: Array, dt: float) -> MujocoScene | None:
    """A scene of spheres, boxes and half spaces at a configuration; None without MuJoCo."""
    if not importlib.util.find_spec("mujoco"):
        return None
    mujoco: Any = importlib.import_module("mujoco")
    spec = mujoco.MjSpec.from_string(scene.tree.to_mjcf(unsupported="ignore"))
    spec.option.timestep, spec.memory = dt, 1 << 30
    kinds: dict[type, tuple[Any, Callable[[Any], list[float]]]] = {
        Sphere: (mujoco.mjtGeom.mjGEOM_SPHERE, lambda s: [s.radius, 0, 0]),
        Box: (mujoco.mjtGeom.mjGEOM_BOX, lambda s: [s.x / 2, s.y / 2, s.z / 2]),
        HalfSpace: (mujoco.mjtGeom.mjGEOM_PLANE, lambda _: [50, 50, 1]),
    }
    for c, link in zip(scene.colliders, scene.links, strict=True):
        at = Frame(c.link, c.position, c.rotation).on(scene.tree) if link >= 0 else c
        body = spec.body(scene.tree.link_names[link]) if link >= 0 else spec.worldbody
        kind, size = kinds[type(c.shape)]
        geom = body.add_geom(type=kind, size=size(c.shape), pos=at.position, mass=0.0)
        geom.quat = np.roll(matrix_to_quaternion(at.rotation), 1)
        geom.friction[0] = c.friction
    return MujocoScene(mujoco, spec.compile(), configuration_to_mujoco(scene.tree, q0))
