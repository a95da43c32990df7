"""MuJoCo, where it is installed, as a peer to time: soft equalities, robots on a plane, scenes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

import delassus as ds
from delassus.cli.tables import Record
from delassus.formats.mujoco.model import (
    configuration_from_mujoco,
    configuration_to_mujoco,
    velocity_map_from_mujoco,
    velocity_to_mujoco,
)
from delassus.spatial.rotations import Array, matrix_to_quaternion
from delassus_studies.cases import Case, States, Unavailable
from delassus_studies.peers import Call, library
from delassus_studies.timing import statistics

SOLVERS = ("PGS", "Newton")


def made_spec(mujoco: Any, tree: ds.Tree, disabled: Sequence[str] = ()) -> Any:
    """A tree without what it has of ``disabled``."""
    spec = mujoco.MjSpec.from_string(tree.to_mjcf(unsupported="ignore"))
    for flag in disabled:
        spec.option.disableflags |= getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag}")
    return spec


def forward_peers(case: Case, states: States) -> Mapping[str, Callable[[], Call]]:
    """Makers of the calls of ``mj_forward`` by each solver."""
    return {f"mj_forward, {solver}": partial(forward_call, case, states, solver) for solver in SOLVERS}


def forward_call(case: Case, states: States, solver: str) -> Call:
    """Call of ``mj_forward`` at every state; it returns ``qacc_smooth``, without the constraints.

    Welds and points to the world are equalities; nothing else acts on joints.
    """
    mujoco = library("mujoco")
    assert case.world_only
    qpos = configuration_to_mujoco(case.tree, states.q)
    T = velocity_map_from_mujoco(case.tree, states.q)
    qvel = np.linalg.solve(T, states.v[..., None])[..., 0]
    force = (np.swapaxes(T, -1, -2) @ states.tau[..., None])[..., 0]
    held = replace(case.tree, constraints=case.constraints)
    spec = made_spec(mujoco, held, ("CONTACT", "LIMIT", "FRICTIONLOSS", "SPRING", "DAMPER", "ACTUATION"))
    spec.option.solver = getattr(mujoco.mjtSolver, f"mjSOL_{solver.upper()}")
    try:
        model = spec.compile()
    except ValueError as error:  # MuJoCo wants every body that moves to have mass
        raise Unavailable(f"MuJoCo: {error}") from error
    data = mujoco.MjData(model)

    def call() -> list[Array]:
        out = []
        for x, v, f in zip(qpos, qvel, force, strict=True):
            data.qpos[:], data.qvel[:], data.qfrc_applied[:] = x, v, f
            mujoco.mj_forward(model, data)
            out.append(np.array(data.qacc_smooth))
        return out

    return call


def mujoco_steps(
    tree: ds.Tree, contacts: Sequence[ds.Contact], q: Array, v: Array, targets: Array, gains: tuple[Array, Array],
    dt: float, joints: bool, rounds: int,
) -> Record:  # fmt: skip
    """Times of ``mj_step`` on the same robot: spheres on a plane, its defaults, PD forces computed outside of them.

    From states (n, nq) and (n, nv), with PD targets (T, n, nq); ``joints`` says whether limits and dry friction of
    joints act. µs a step: statistics over the rounds, of the mean over all steps; the lowest is the mean of the fastest
    of each step.
    """
    mujoco = library("mujoco")
    model = on_plane(mujoco, tree, contacts, dt, joints)
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


def transition_differences(
    tree: ds.Tree, contacts: Sequence[ds.Contact], q: Array, v: Array, dt: float, joints: bool, rounds: int
) -> Record:
    """Times of ``mjd_transitionFD`` on the same robot at states (n, nq) and (n, nv): µs a state, and per column."""
    mujoco = library("mujoco")
    model = on_plane(mujoco, tree, contacts, dt, joints)
    data, nx = mujoco.MjData(model), 2 * model.nv
    qpos, qvel = configuration_to_mujoco(tree, q), velocity_to_mujoco(tree, q, v)
    A, seconds = np.zeros((nx, nx)), np.empty((rounds, len(q)))
    for number in range(rounds):
        for k in range(len(q)):
            data.qpos[:], data.qvel[:] = qpos[k], qvel[k]
            mujoco.mj_forward(model, data)
            start = time.perf_counter()
            mujoco.mjd_transitionFD(model, data, 1e-6, False, A, None, None, None)
            seconds[number, k] = time.perf_counter() - start
    whole = statistics([1e6 * float(x.mean()) for x in seconds])
    lowest = 1e6 * float(seconds.min(axis=0).mean())
    return {**whole, "lowest": lowest, "columns": nx, "per_column": lowest / nx}


def on_plane(mujoco: Any, tree: ds.Tree, contacts: Sequence[ds.Contact], dt: float, joints: bool) -> Any:
    """Model of a robot whose spheres touch a plane, and nothing else."""
    spec = made_spec(mujoco, tree, () if joints else ("LIMIT", "FRICTIONLOSS", "DAMPER"))
    spec.option.timestep = dt
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
    """A scene of primitive shapes, half spaces and height fields by ``mj_step``, with MuJoCo's defaults.

    But for ``elliptic`` cones, ``dense`` Jacobians, and ``solref`` and ``solimp`` of all geoms where they are in
    ``softness``.
    """

    def __init__(
        self,
        scene: ds.Scene,
        q0: Array,
        v0: Array,
        dt: float,
        elliptic: bool = False,
        softness: Mapping[str, Sequence[float]] = MappingProxyType({}),
        dense: bool = False,
    ) -> None:
        mujoco = library("mujoco")
        spec = made_spec(mujoco, scene.tree)
        spec.option.timestep, spec.memory = dt, 1 << 30
        if elliptic:
            spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
        if dense:
            spec.option.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
        kinds: dict[type, tuple[Any, Callable[[Any], list[float]]]] = {
            ds.contact.Sphere: (mujoco.mjtGeom.mjGEOM_SPHERE, lambda s: [s.radius, 0, 0]),
            ds.contact.Box: (mujoco.mjtGeom.mjGEOM_BOX, lambda s: [s.x / 2, s.y / 2, s.z / 2]),
            ds.contact.Capsule: (mujoco.mjtGeom.mjGEOM_CAPSULE, lambda s: [s.radius, s.length / 2, 0]),
            ds.contact.Cylinder: (mujoco.mjtGeom.mjGEOM_CYLINDER, lambda s: [s.radius, s.length / 2, 0]),
            ds.contact.HalfSpace: (mujoco.mjtGeom.mjGEOM_PLANE, lambda _: [50, 50, 1]),
            ds.contact.HeightField: (mujoco.mjtGeom.mjGEOM_HFIELD, lambda _: [0, 0, 0]),
        }
        for c, link in zip(scene.colliders, scene.links, strict=True):
            at = ds.Frame(c.link, c.position, c.rotation).on(scene.tree) if link >= 0 else c
            body = spec.body(scene.tree.link_names[link]) if link >= 0 else spec.worldbody
            kind, size = kinds[type(c.shape)]
            geom = body.add_geom(type=kind, size=size(c.shape), pos=at.position, mass=0.0)
            geom.quat = np.roll(matrix_to_quaternion(at.rotation), 1)
            geom.friction[0] = c.friction
            if isinstance(c.shape, ds.contact.HeightField):
                z = c.shape.heights
                low, high = float(z.min()), float(max(np.ptp(z), 1e-9))
                shown, (nx, ny) = (z - low).T.ravel() / high, z.shape
                spec.add_hfield(name=c.name, size=[*(c.shape.size / 2), high, 0.1], nrow=ny, ncol=nx, userdata=shown)
                geom.hfieldname, geom.pos = c.name, at.position + low * np.asarray(at.rotation)[:, 2]
            for name, numbers in softness.items():
                getattr(geom, name)[: len(numbers)] = numbers
        self._mujoco, self._model = mujoco, (model := spec.compile())
        self._data, self._tree = mujoco.MjData(model), scene.tree
        self.reset(q0, v0)
        free = model.jnt_qposadr[model.jnt_type == 0]
        self._kept = np.setdiff1d(np.arange(model.nq), (free[:, None] + np.arange(3, 7)).ravel())

    def reset(self, q: Array, v: Array) -> None:
        """Start anew from a state."""
        self._mujoco.mj_resetData(self._model, self._data)
        self._data.qpos[:] = configuration_to_mujoco(self._tree, q)
        self._data.qvel[:] = velocity_to_mujoco(self._tree, q, v)

    @property
    def configuration(self) -> Array:
        """``q`` (nq,)."""
        return configuration_from_mujoco(self._tree, self._data.qpos)

    def step(self) -> None:
        """One time step."""
        self._mujoco.mj_step(self._model, self._data)

    def run(self, duration: float) -> None:
        """So many seconds, in one call."""
        self._mujoco.mj_step(self._model, self._data, round(duration / self._model.opt.timestep))

    @property
    def positions(self) -> Array:
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
