"""Pinocchio's numbers for the same robot and constraints, where it is installed: an oracle, and a peer to time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from delassus.constraints import Weld
from delassus.formats.pinocchio import tree_to_pinocchio
from delassus.quantities.keywords import What
from delassus.spatial.rotations import Array
from delassus_studies.cases import Case, States
from delassus_studies.peers import Call, library

MU = 1e-6
"""Proximal parameter of ``lcaba``, which needs one; ``constraintDynamics`` is exact, and fastest, with zero."""


def pinocchio_contacts(pin: Any, model: Any, case: Case) -> tuple[Any, Any]:
    """Constraints of a case as Pinocchio's, with their data, in its own vectors (lists are copied at every call)."""
    contacts, data = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for c in case.constraints:
        kind, ends = pin.ContactType.CONTACT_6D if isinstance(c, Weld) else pin.ContactType.CONTACT_3D, list[Any]()
        for frame in c.frames:
            link = model.frames[0 if frame.link == "world" else model.getFrameId(frame.link)]
            ends += [link.parentJoint, link.placement * pin.SE3(np.array(frame.rotation), np.array(frame.position))]
        contacts.append(pin.RigidConstraintModel(kind, model, *ends, pin.ReferenceFrame.LOCAL))
        data.append(contacts[-1].createData())
    return contacts, data


def _problem(case: Case, *vectors: Array) -> tuple[Any, Any, Any, Any, list[Any]]:
    """Module, model, data, constraints with their data, and each state's vectors; its own for each call."""
    pin = library("pinocchio", "pin")
    model = tree_to_pinocchio(case.tree, unsupported="ignore")
    states = [tuple(np.array(x) for x in state) for state in zip(*vectors, strict=True)]
    return pin, model, model.createData(), pinocchio_contacts(pin, model, case), states


def delassus_call(case: Case, q: Array, lists: bool = False) -> Call:
    """Call that runs ``computeDelassusMatrix`` at every configuration (k, nq).

    ``lists``: pass the constraints as Python lists, as most code does; Pinocchio then copies them at every call.
    """
    pin, model, data, contacts, states = _problem(case, q)
    given = tuple(map(list, contacts)) if lists else contacts
    return lambda: [pin.computeDelassusMatrix(model, data, state, *given) for (state,) in states]


def dynamics_peers(case: Case, states: States) -> Mapping[str, Callable[[], Call]]:
    """Makers of the calls that return the accelerations of every state."""
    return {
        "pin lcaba": partial(lcaba_call, case, states),
        "pin constraintDynamics": partial(exact_dynamics_call, case, states),
    }


def exact_dynamics_call(case: Case, states: States, with_derivatives: bool = False) -> Call:
    """Call that returns the accelerations of every state by ``constraintDynamics``, loops too."""
    pin, model, data, contacts, each = _problem(case, states.q, states.v, states.tau)
    pin.initConstraintDynamics(model, data, *contacts)
    exact = pin.ProximalSettings(1e-12, 0.0, 1)

    def dynamics() -> list[Array]:
        return [np.array(pin.constraintDynamics(model, data, *state, *contacts, exact)) for state in each]

    def derivatives() -> list[Array]:
        out = []
        for state in each:
            out.append(np.array(pin.constraintDynamics(model, data, *state, *contacts, exact)))
            pin.computeConstraintDynamicsDerivatives(model, data, *contacts, exact)
        return out

    return derivatives if with_derivatives else dynamics


def inverse_dynamics_call(case: Case, states: States, alone: bool = False) -> Call:
    """Call that returns joint and constraint forces of every state, whose joint forces stand for accelerations.

    By ``rnea`` and NumPy's least squares: the least constraint forces where nothing drives. ``alone``: ``rnea``.
    """
    pin, model, data, contacts, each = _problem(case, states.q, states.v, states.tau)
    if alone:
        return lambda: [np.array(pin.rnea(model, data, *state)) for state in each]
    passive = ~case.tree.actuated.any(axis=0)

    def call() -> list[Array]:
        out = []
        for q, v, qdd in each:
            pin.computeJointJacobians(model, data, q)
            J = _jacobian(pin, model, data, contacts)
            tau = np.array(pin.rnea(model, data, q, v, qdd))
            f = np.linalg.lstsq(J[:, passive].T, tau[passive], rcond=None)[0]
            out.append(np.concatenate([tau - J.T @ f, f]))
        return out

    return call


def _jacobian(pin: Any, model: Any, data: Any, contacts: tuple[Any, Any]) -> Array:
    """Jacobian of constraints where joints are: it reads what ``calc`` leaves in the data of each."""
    for contact, own in zip(*contacts, strict=True):
        contact.calc(model, data, own)
    return np.asarray(pin.getConstraintsJacobian(model, data, *contacts))


def loop_errors(case: Case, q: Array, G: Array) -> tuple[float, float]:
    """Largest gap of loops at configurations, by ``log6`` where they are 6D (m, rad), and ``J G`` over ``G``."""
    pin, model, data, contacts, each = _problem(case, q)
    gap = moved = 0.0
    for (state,), map_of_state in zip(each, G, strict=True):
        pin.computeJointJacobians(model, data, state)
        J = _jacobian(pin, model, data, contacts)
        moved = max(moved, float(np.abs(J @ map_of_state).max() / np.abs(map_of_state).max()))
        for contact, found in zip(*contacts, strict=True):
            is_point = contact.type == pin.ContactType.CONTACT_3D
            left = found.c1Mc2.translation if is_point else pin.log6(found.c1Mc2).vector
            gap = max(gap, float(np.linalg.norm(left)))
    return gap, moved


def lcaba_call(case: Case, states: States) -> Call:
    """Call that returns the accelerations of every state by one iteration of ``lcaba``, in its own order of links."""
    pin, model, data, contacts, each = _problem(case, states.q, states.v, states.tau)
    pin.computeJointMinimalOrdering(model, data, contacts[0])
    soft = pin.ProximalSettings(1e-12, MU, 1)
    return lambda: [np.array(pin.lcaba(model, data, *state, *contacts, soft)) for state in each]


DERIVATIVES: Mapping[What, str] = MappingProxyType(
    {
        "inverse_dynamics": "computeRNEADerivatives",
        "frame_velocity": "getFrameVelocityDerivatives",
        "frame_acceleration": "getFrameAccelerationDerivatives",
        "momentum_rate": "computeCentroidalDynamicsDerivatives",
    }
)
"""Names of quantities, and of what has their derivatives."""


def derivatives_call(case: Case, states: States, what: What) -> Call:
    """Call that computes the derivatives of a quantity at every state; joint forces are ten times accelerations.

    Of frames, of the last link alone, in its own axes.
    """
    pin, model, data, _, each = _problem(case, states.q, states.v, 0.1 * states.tau)
    compute, link = getattr(pin, DERIVATIVES[what]), case.tree.link_names[-1]
    if not what.startswith("frame"):
        return lambda: [compute(model, data, *state) for state in each]
    at = model.getFrameId(link), pin.LOCAL

    def of_frame() -> list[Any]:
        out = []
        for state in each:
            pin.computeForwardKinematicsDerivatives(model, data, *state)
            out.append(compute(model, data, *at))
        return out

    return of_frame


def simulated(
    case: Case, start: tuple[Array, Array, Array], step: float, steps: int, rate: float
) -> tuple[float, Array]:
    """Seconds, and configurations (steps + 1, nq), of fourth-order Runge and Kutta over ``constraintDynamics``.

    A loop in Python around four calls a step: Pinocchio has no integrator for constraints. Hinges and slides alone;
    ``rate`` (1/s) pulls loops together, as Baumgarte does.
    """
    q, v, tau = start
    pin, model, data, contacts, _ = _problem(case, q[None], v[None], tau[None])
    for each in contacts[0]:
        each.m_baumgarte_parameters.Kp, each.m_baumgarte_parameters.Kd = rate * rate, 2 * rate
    pin.initConstraintDynamics(model, data, *contacts)
    proximal = pin.ProximalSettings(1e-12, 1e-10, 20)

    def acceleration(q: Array, v: Array) -> Array:
        if not case.constraints:
            return np.array(pin.aba(model, data, q, v, tau))
        return np.array(pin.constraintDynamics(model, data, q, v, tau, *contacts, proximal))

    out, h, began = [q], step, time.thread_time()
    for _ in range(steps):
        a = acceleration(q, v)
        b = acceleration(q + h / 2 * v, v + h / 2 * a)
        c = acceleration(q + h / 2 * v + h * h / 4 * a, v + h / 2 * b)
        d = acceleration(q + h * v + h * h / 2 * b, v + h * c)
        q, v = q + h * v + h * h / 6 * (a + b + c), v + h / 6 * (a + 2 * b + 2 * c + d)
        out.append(q)
    return time.thread_time() - began, np.array(out)
