"""MuJoCo's system identification, where it is installed: inertias from trajectories, by finite differences."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import numpy as np

import delassus as ds
from delassus.cli.tables import Record
from delassus.formats.mujoco.model import configuration_from_mujoco, configuration_to_mujoco, velocity_to_mujoco
from delassus.spatial.rotations import Array
from delassus_studies.cases import Unavailable
from delassus_studies.peers import library
from delassus_studies.peers.mujoco import made_spec

WIDE: Mapping[str, Any] = {"stretch_bound_mult": np.array([0.1, 10.0]), "shear_bound_off": np.array([-2.0, 2.0])}
"""Bounds, in place of its own (half to twice, ±0.5), that no estimate should come to; wider ones let it come to bodies
that MuJoCo refuses."""

STEP = 1e-6
"""Of finite differences."""

ORDER = (0, 1, 2, 3, 4, 5, 8, 6, 9, 12)
"""Of mass, first moments and the nine moments of inertia, those of ten parameters."""


def sysid_inertias(
    tree: ds.Tree, q: Array, v0: Array, tau: Array, dt: float, every: int, scale: float, whole: bool
) -> tuple[Array | None, Record]:
    """Inertial parameters (n, 10) of all links by ``mujoco.sysid.optimize``, and what that and one Jacobian took.

    A Jacobian is one evaluation of its residuals for each parameter, and one. If not ``whole`` there is no more.

    Motors hold joint forces (T, n, nv) over steps of ``dt``; a configuration is measured after ``every`` of them with
    the deviation ``scale``, in all (N + 1, n, nq), of which the first ones are exact, and so are velocities (n, nv).
    """
    mujoco, sysid = library("mujoco"), library("mujoco.sysid", "mujoco[sysid]")
    if not hasattr(sysid, "optimize"):
        raise Unavailable("mujoco.sysid lacks packages (pip install mujoco[sysid])")
    spec = made_spec(mujoco, tree, ("CONTACT", "LIMIT", "FRICTIONLOSS", "SPRING", "DAMPER", "EULERDAMP"))
    spec.option.timestep = dt
    driven = [joint.name for joint in spec.joints if joint.type != mujoco.mjtJoint.mjJNT_FREE]
    for name in driven:
        spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT).set_to_motor()
    kind, of = mujoco.mjtSensor.mjSENS_JOINTPOS, mujoco.mjtObj.mjOBJ_JOINT
    spec.add_sensor(name="which", type=kind, objtype=of, objname=driven[0])
    model, n = spec.compile(), q.shape[1]
    times, controls = dt * np.arange(len(tau) + 1), np.concatenate([tau, tau[-1:]])[..., -len(driven) :]  # last: unused
    qpos, qvel = configuration_to_mujoco(tree, q[0]), velocity_to_mujoco(tree, q[0], v0)
    states = [sysid.create_initial_state(model, qpos[k], qvel[k], np.zeros(0)) for k in range(n)]
    control = [sysid.TimeSeries(times, controls[:, k]) for k in range(n)]
    which = [sysid.TimeSeries.from_names(times, np.full((len(times), 1), float(k)), model) for k in range(n)]
    names = [str(k) for k in range(n)]
    sequences = sysid.ModelSequences(tree.name, spec, names, states, control, which)
    simulations = [0]

    def apart(params: Any, predicted: Any, measured: Any, model: Any, whole: bool, state: Array) -> Any:
        """Tangents from measured configurations to those of a simulation."""
        simulations[0] += 1
        at = configuration_from_mujoco(tree, state[every - 1 :: every, 1 : 1 + model.nq])
        wanted = q[1:, round(measured.data[0, 0])]
        return tree.difference(wanted, at) / scale, predicted, predicted

    params, pseudo = sysid.ParameterDict(), sysid.InertiaType.Pseudo
    for name in tree.link_names:
        put = _writer(sysid.model_modifier.pi_from_theta, name)
        params.add(sysid.body_inertia_param(spec.copy(), model, name, pseudo, modifier=put, **WIDE))
    given = {"models_sequences": [sequences], "modify_residual": apart, "n_threads": 1, "resample_true": False}
    residuals, begin = sysid.build_residual_fn(**given), time.process_time()
    at = params.as_vector()
    for x in (at, *(at + STEP * np.eye(at.size))):
        residuals(x, params)
    rolled = _seconds_of_simulations(mujoco, model, states, controls)
    record: Record = {"jacobian": time.process_time() - begin, "jacobian simulated": simulations[0] * rolled}
    if not whole:
        return None, record
    simulations[0], begin = 0, time.process_time()
    with redirect_stdout(StringIO()):
        found, _ = sysid.optimize(params, residuals, verbose=False, optimizer="scipy_parallel_fd", x_scale="jac")
    seconds, count = time.process_time() - begin, simulations[0]
    left = np.concatenate([np.ravel(x) for x in residuals(found.as_vector(), found)[0]])
    parameters = [sysid.model_modifier.pi_from_theta(found[f"{name}_inertia"].value) for name in tree.link_names]
    record |= {"seconds": seconds, "simulations": count, "simulated": count * rolled, "square": float(left @ left)}
    return np.array(parameters)[:, ORDER], record


def _writer(parameters_of: Callable[[Array], Array], name: str) -> Callable[[Any, Any], None]:
    """Writes the inertia of a body; its own one compiles the model each time, which fails for bodies without shapes."""

    def write(spec: Any, param: Any) -> None:
        m, *first = parameters_of(param.value)
        body, c, about = spec.body(name), np.array(first[:3]) / m, np.reshape(first[3:], (3, 3))
        about = about - m * (c @ c * np.eye(3) - np.outer(c, c))
        body.mass, body.ipos, body.explicitinertial = m, c, True
        body.iquat, body.inertia = [1, 0, 0, 0], np.zeros(3)
        body.fullinertia = about[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]

    return write


def _seconds_of_simulations(mujoco: Any, model: Any, states: Sequence[Array], controls: Array) -> float:
    """Seconds of one trajectory, in MuJoCo alone."""
    rollout, data = library("mujoco.rollout"), mujoco.MjData(model)
    begin = time.process_time()
    rollout.rollout([model] * len(states), [data], np.array(states), np.ascontiguousarray(np.swapaxes(controls, 0, 1)))
    return (time.process_time() - begin) / len(states)
