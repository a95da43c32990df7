"""Peers on a GPU, where they are installed and find one: mujoco_warp, MJX, frax and grid-rbd.

Each has its data on the device before it is timed, does what it is asked for and no more, and waits for its results
once a call. Times are the least of some rounds, by the clock of the processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from delassus.formats.mujoco.model import configuration_to_mujoco, velocity_to_mujoco
from delassus.formats.names import example_robot_files
from delassus.spatial.rotations import Array
from delassus_studies.bench.contact.steps import DT, Starts, StepCase
from delassus_studies.cases import Case, States, Unavailable
from delassus_studies.peers import library
from delassus_studies.peers.compiled import frax
from delassus_studies.peers.mujoco import on_plane

ROUNDS = 5

CONTACTS, ROWS = 8, 40
"""Contacts and rows that mujoco_warp has room for in each world: twice those of four spheres on a plane."""


def seconds_of(call: Callable[[], object]) -> float:
    """Seconds of a call that waits for its results, the least of the rounds; the first one is not timed."""
    call()
    least = np.inf
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    return float(least)


def gpu_of_jax() -> Any:
    """JAX, if its arrays are on a GPU; raises `Unavailable`."""
    jax = library("jax", "'jax[cuda13]'")
    if jax.default_backend() != "gpu":
        raise Unavailable("JAX has no GPU here (pip install 'jax[cuda13]')")
    return jax


def gpu_of_warp() -> Any:
    """Warp, if it has a GPU; raises `Unavailable`."""
    warp = library("warp", "warp-lang")
    warp.config.quiet = True
    if not warp.is_cuda_available():
        raise Unavailable("Warp has no GPU here")
    return warp


def _in_mujoco(case: StepCase, start: Starts) -> tuple[Any, Array, Array, Array]:
    """Model on a plane, and states and forces of joints (n, …): those of the first targets, held through all steps."""
    tree, (kp, kd) = case.tree, case.gains
    model = on_plane(library("mujoco"), tree, case.contacts, DT, case.options["limits"])
    qpos, qvel = configuration_to_mujoco(tree, start.q), velocity_to_mujoco(tree, start.q, start.v)
    force = np.zeros_like(qvel)
    force[:, 6:] = kp[6:] * (start.targets[0][:, 7:] - qpos[:, 7:]) - kd[6:] * qvel[:, 6:]
    return model, qpos, qvel, force


def mujoco_warp_steps(case: StepCase, start: Starts, steps: int) -> float:
    """Seconds a step and world of `mujoco_warp`, ``steps`` of them as one captured graph; float32."""
    warp, mjw = gpu_of_warp(), library("mujoco_warp", "mujoco-warp")
    mujoco, (model, *states) = library("mujoco"), _in_mujoco(case, start)
    data, n = mujoco.MjData(model), len(start.q)
    there = mjw.put_model(model)
    worlds = mjw.make_data(model, nworld=n, nconmax=CONTACTS, njmax=ROWS)
    mujoco.mj_forward(model, data)
    fields = (worlds.qpos, worlds.qvel, worlds.qfrc_applied)
    given = [warp.array(x.astype(np.float32), dtype=float) for x in states]

    def run() -> None:
        for field, x in zip(fields, given, strict=True):
            warp.copy(field, x)
        for _ in range(steps):
            mjw.step(there, worlds)

    run()  # which compiles
    with warp.ScopedCapture() as capture:
        run()

    def call() -> None:
        warp.capture_launch(capture.graph)
        warp.synchronize()

    return seconds_of(call) / (n * steps)


def mjx_steps(case: StepCase, start: Starts, steps: int) -> float:
    """Seconds a step and world of MJX, ``steps`` of them in one ``jax.jit``; float32."""
    jax, (model, qpos, qvel, force) = gpu_of_jax(), _in_mujoco(case, start)
    mjx = library("mujoco.mjx", "mujoco-mjx")
    there, one = mjx.put_model(model), mjx.make_data(model)
    n = len(qpos)

    def rolled(q: Any, v: Any, f: Any) -> Any:
        data = one.replace(qpos=q, qvel=v, qfrc_applied=f)
        data, _ = jax.lax.scan(lambda data, _: (mjx.step(there, data), None), data, None, steps)
        return data.qpos

    run = jax.jit(jax.vmap(rolled))
    given = [jax.numpy.asarray(x, dtype="float32") for x in (qpos, qvel, force)]
    return seconds_of(lambda: run(*given).block_until_ready()) / (n * steps)


def frax_delassus(case: Case, q: Array) -> float:
    """Seconds a state of frax's Delassus matrix; float32."""
    gpu_of_jax()
    return seconds_of(frax(case, q, "float32")) / len(q)


def grid_dynamics(case: Case, states: States) -> float:
    """Seconds a state of grid-rbd's forward dynamics without constraints, on arrays of JAX; float32."""
    jax, grid = gpu_of_jax(), library("grid_rbd", "'grid-rbd[jax]'")
    file = example_robot_files().get(case.tree.name)
    if file is None:
        raise Unavailable("grid-rbd reads URDF files")
    n = len(states.q)
    try:
        robot = grid.load_robot(str(file), backend="jax", floating_base=True, max_batch_size=n,
                                algorithm_list=["forward_dynamics"], enable_mujoco_kernels=False)  # fmt: skip
    except (RuntimeError, OSError, ValueError) as error:  # it needs nvcc and a compiler of C++
        raise Unavailable(f"grid-rbd: {str(error).strip().splitlines()[0]}") from error
    given = [jax.numpy.asarray(x, dtype="float32") for x in (states.q, states.v, states.tau)]
    run = jax.jit(robot.forward_dynamics)
    return seconds_of(lambda: run(*given).block_until_ready()) / n


def peers_of(steps: StepCase, start: Starts, number: int, case: Case, states: States) -> dict[str, Callable[[], float]]:
    """Seconds a state or step of every peer, by what it computes: the contact steps first."""
    return {
        "mujoco_warp: contact steps": partial(mujoco_warp_steps, steps, start, number),
        "MJX: contact steps": partial(mjx_steps, steps, start, number),
        "frax: Delassus matrix": partial(frax_delassus, case, states.q),
        "grid-rbd: forward dynamics without constraints": partial(grid_dynamics, case, states),
    }
