"""Steps of MuJoCo as a `ContactStep`, and what its soft contacts say of them.

MuJoCo minimises over accelerations ``a``; there, forces ``f`` on rows with reference ``a_ref`` and regularisation ``R``
obey ``K ∋ f ⊥ J a + R f − a_ref ∈ K*``. ``dt`` times that is ``u − (J v⁻ + dt a_ref) + dt R f``, where the law has
``u + s``. So a contact is off the law by what its own equation is, and by two differences: the velocity that it yields
at, ``J v⁻ + dt (a_ref − R f)``, which ``solref`` and ``solimp`` set (``R`` by ``efc_diagA``, which may be approximate),
and De Saxcé's ``s``, which a convex problem has not. Implicit integration moves velocities once more. Here ``a`` is
``M⁻¹ (τ − c + Jᵀ f)``, so that forces show that were not iterated to the end.

Source: MuJoCo's documentation, "Computation", on its constraint model.
"""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np

from delassus.contact.audits.step import ContactStep
from delassus.errors import ConfigurationError
from delassus.formats.mujoco.named import NamedModel
from delassus.solvers.linear import natural_map
from delassus.spatial.rotations import Array

PLACES = 0, 1, 5, 3, 4
"""Of the rows of MuJoCo's friction, sliding, torsional and rolling, among tangents, normal, and turns about these."""

INTEGRATORS = ("euler", "implicit", "implicitfast")
"""Those whose velocities come of one set of forces."""


class Softness(NamedTuple):
    """What a simulator with soft contacts solves in place of the law.

    ``residual`` (k,) is the violation of its own equations (m/s) at ``names``, contacts first; ``parts`` (n,), how far
    these are from the law, by cause (m/s): with round cones the law's violation is at most the sum of all. Momentum
    (nv,) that implicit integration brings is ``integrator``, that of a solver that stopped early ``unsolved`` (N s).
    """

    names: tuple[str, ...]
    residual: Array
    parts: dict[str, Array]
    integrator: Array
    unsolved: Array


class _Contact(NamedTuple):
    """A contact: ``decode`` (6, k) takes velocities along MuJoCo's k ``rows`` to tangent, tangent, normal.

    And to those about these axes, times lengths over the friction coefficient. ``lengths`` are torsional and rolling.
    """

    J: Array
    p: Array
    mu: Array
    gap: float
    offset: Array
    name: str
    lengths: Array
    J_angular: Array
    turning: Array
    rows: slice
    decode: Array


def mujoco_step(given: Any, before: Any) -> tuple[ContactStep, Softness]:
    """The step that ``mj_step`` takes from a state, and what its own equations say; raises what `audit` raises."""
    model = NamedModel(given)
    mujoco, dt, nv = model.mujoco, float(model.opt.timestep), model.nv
    if not isinstance(before, mujoco.MjData):
        raise ConfigurationError("data", "a mujoco.MjData", type(before).__name__, "Pass the state before the step.")
    if (integrator := model.word("mjtIntegrator", model.opt.integrator)) not in INTEGRATORS:
        advice = "Choose one in <option>: other steps have more than one set of forces."
        raise ConfigurationError("integrator", f"one of {', '.join(INTEGRATORS)}", integrator, advice)
    data = copy(before)
    mujoco.mj_step(given, data)
    contacts, others, force = [], np.ones(data.nefc, bool), np.array(data.qfrc_smooth)
    for k, contact in enumerate(data.contact):
        if contact.efc_address >= 0 or contact.exclude == 1:  # 1: within the margin, but farther than forces act
            contacts.append(_contact(model, data, contact, k))
            others[contacts[-1].rows] = False
    M, rest, n = np.empty((nv, nv)), np.zeros(nv), len(contacts)
    mujoco.mj_mulJacTVec(given, data, rest, data.efc_force * others)
    for column, unit in zip(M, np.eye(nv), strict=True):
        mujoco.mj_mulM(given, data, column, unit)
    J, p, mu, gaps, offset, names, lengths, turns, turning, *_ = zip(*contacts, strict=True) if n else ((),) * 11
    step = ContactStep(
        0.5 * (M + M.T), np.reshape(J, (3 * n, nv)), before.qvel, data.qvel, np.reshape(p, (n, 3)),
        np.array([x[0] for x in mu]), np.array(gaps), dt, force + rest, None, np.reshape(offset, (n, 3)), names,
        torsional=np.reshape(lengths, (n, 2))[:, 0], rolling=np.reshape(lengths, (n, 2))[:, 1],
        J_angular=np.reshape(turns, (3 * n, nv)), angular_impulses=np.reshape(turning, (n, 3)),
    )  # fmt: skip
    return step, _softness(model, data, step, contacts, others)


def _contact(model: NamedModel, data: Any, contact: Any, number: int) -> _Contact:
    """A contact; where two coefficients differ, along tangents or about them, the second is scaled to a round cone."""
    mujoco, dt, pair, dim = model.mujoco, float(model.opt.timestep), contact.geom.tolist(), int(contact.dim)
    if min(pair) < 0:
        raise ConfigurationError("contacts", "those of geoms", "one of a flex", "Rigid bodies alone are audited.")
    jacobians, mu = np.zeros((2, 2, 3, model.nv)), np.array(contact.friction)[: max(dim - 1, 1)]
    for (linear, angular), geom in zip(jacobians, pair, strict=True):
        mujoco.mj_jac(model.model, data, linear, angular, contact.pos, model.geom_bodyid[geom])
    linear, angular = np.reshape(contact.frame, (3, 3)) @ (jacobians[1] - jacobians[0])
    pyramid = dim > 1 and model.opt.cone == mujoco.mjtCone.mjCONE_PYRAMIDAL
    decode, first, f = np.zeros((6, 2 * (dim - 1) if pyramid else dim)), int(contact.efc_address), np.zeros(6)
    lengths = np.append(mu[2:4], np.zeros(2))[:2] * (dim > 3)  # torsional, rolling
    levers = np.array([*lengths[[1, 1]], lengths[0]]) / (mu[0] or 1.0)
    rows = slice(first, first + decode.shape[1]) if first >= 0 else slice(0, 0)
    if pyramid:  # rows are edges: the normal and μ times a tangent, either way
        edges = np.reshape(data.efc_force[rows], (-1, 2))
        f[0], f[1 : 1 + len(edges)] = edges.sum(), (edges[:, 0] - edges[:, 1]) * mu[: len(edges)]
        decode[2] = 1.0 / decode.shape[1]
        for k in range(dim - 1):
            decode[PLACES[k], 2 * k : 2 * k + 2] = [0.5, -0.5] / mu[k]
    else:
        f[: rows.stop - rows.start], decode[2, 0] = data.efc_force[rows], 1.0
        for k in range(dim - 1):
            decode[PLACES[k], 1 + k] = 1.0
    about = np.array([1.0, mu[4] / mu[3] if dim > 5 else 1.0, 1.0])
    decode[3:] *= (levers * about)[:, None]
    scale, gap = np.array([1.0, mu[1] / mu[0] if dim > 1 else 1.0, 1.0]), float(contact.dist)
    moving = getattr(contact, "surfacevel", np.zeros(3))[:2] * (dim > 1)  # since MuJoCo 3.11
    name = " – ".join(mujoco.mj_id2name(model.model, mujoco.mjtObj.mjOBJ_GEOM, g) or f"geom{g}" for g in pair)
    return _Contact(
        scale[:, None] * linear[[1, 2, 0]], dt * f[[1, 2, 0]] / scale, mu * (dim > 1), gap,
        scale * [*moving, max(gap, 0.0) / dt], f"contact {number}: {name}", lengths,
        about[:, None] * angular[[1, 2, 0]], dt * f[[4, 5, 3]] / about, rows,
        np.concatenate([scale, np.ones(3)])[:, None] * decode,
    )  # fmt: skip


def _softness(model: NamedModel, data: Any, step: ContactStep, contacts: list[_Contact], others: Array) -> Softness:
    """Violations of MuJoCo's own equations, and the size of what they differ in from the law."""
    dt, f, rate, n = step.dt, step.dt * data.efc_force, np.zeros(data.nefc), len(contacts)
    change, a = step.v_after - step.v_before, np.linalg.solve(step.M, data.qfrc_smooth + data.qfrc_constraint)
    model.mujoco.mj_mulJacVec(model.model, data, rate, a)
    y, aim = dt * (rate - data.efc_aref) + data.efc_R * f, data.efc_vel + dt * data.efc_aref - data.efc_R * f
    u, own, parts = step.along(step.v_after) + step.velocity_offset, np.zeros(n), np.zeros((2, n))
    for i, (c, omega) in enumerate(zip(contacts, step.mobility, strict=True)):
        parts[0, i] = max(-u[i, 2], 0.0)  # where nothing acts, wherever it goes
        if c.rows.stop:
            x, v, round_ = omega * f[c.rows], y[c.rows], np.append(1.0, c.mu / (c.mu[0] or 1.0))
            own[i] = np.linalg.norm(np.minimum(x, v))  # edges of pyramids, and contacts without friction
            if c.mu[0] and x.size == round_.size:
                own[i] = _cone_violation(x / round_, v * round_, c.mu[0])
            soft = c.decode @ aim[c.rows]
            parts[:, i] = abs(soft[2] + c.offset[2]), np.linalg.norm(np.delete(soft, 2))  # surfaces move in `efc_vel`
    scale = data.efc_R + (data.efc_diagA if hasattr(data, "efc_diagA") else data.efc_diagApprox)  # before MuJoCo 4
    kinds = np.array([str(model.mujoco.mjtConstraint(int(k))).split("_")[1].lower() for k in data.efc_type], dtype=str)
    most = np.where(kinds == "friction", dt * data.efc_frictionloss, np.inf)
    rest = scale * np.abs(f - np.clip(f - y / scale, np.where(kinds == "limit", 0.0, -most), most))
    causes = dict(zip(("soft normals", "soft friction"), parts, strict=True))
    causes["convex cones"] = step.cone * np.hypot(*step.in_plane(step.v_after)[1].T[:2])
    causes["integrator"] = np.linalg.norm(step.along(change - dt * a), axis=-1)
    names = (*step.names, *(f"{kinds[k]}, row {k}" for k in np.flatnonzero(others)))
    integrator, unsolved = -dt * _implicit(model, data) @ change, dt * step.M @ (data.qacc - a)
    return Softness(names, np.append(own, rest[others]), causes, integrator, unsolved)


def _cone_violation(x: Array, v: Array, mu: float) -> float:
    """``|x − P_K(x − v)|`` for a round cone of any number of tangents after the normal, in the plane of these two."""
    length = float(np.linalg.norm(x[1:]))
    axis, one = x[1:] / (length or 1.0), np.ones(1)
    across = np.linalg.norm(v[1:] - axis @ v[1:] * axis)
    flat = np.array([[length, 0.0, x[0]]]), np.array([[axis @ v[1:], across, v[0]]])
    return float(np.linalg.norm(natural_map(*flat, mu * one, 0.0 * one, one)))


def _implicit(model: NamedModel, data: Any) -> Array:
    """Minus the derivative (nv, nv) of forces by velocities that the integrator takes at the end of the step."""
    if model.word("mjtIntegrator", model.opt.integrator) == "euler":
        return np.diag(model.dof_damping * (not model.is_disabled("EULERDAMP", "DAMPER")))
    out, sparse = np.zeros((model.nv, model.nv)), data if hasattr(data, "D_rownnz") else model  # the model since 3.3
    out[np.repeat(np.arange(model.nv), sparse.D_rownnz), sparse.D_colind] = -data.qDeriv
    return out
