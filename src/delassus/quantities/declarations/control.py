"""Operational-space and whole-body control: declarations."""

from __future__ import annotations

from math import inf
from typing import Any

from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.osim.operational_space_control import (
    Law,
    Motors,
    operational_space_control,
    posture_accelerations,
    whole_body_control,
)
from delassus.quantities.bound_request import BoundRequest
from delassus.quantities.declarations.inverse_dynamics import friction_of, weights_of
from delassus.quantities.options import MOTION
from delassus.quantities.quantity import Output, Quantity
from delassus.spatial.ops import Matrix, Scalar


def _control(bound: BoundRequest) -> list[Matrix]:
    motion, posture, law = _law(bound)
    return list(operational_space_control(motion, posture, law, Motors(_limits(bound))))


def _whole_body_control(bound: BoundRequest) -> list[Matrix]:
    motion, posture, law = _law(bound)
    contacts = bound.constraints[law.n_tasks :]
    motors = Motors(_limits(bound), bound.request.motors, weights_of(bound), friction_of(bound, contacts))
    controls, found = whole_body_control(motion, posture, law, motors)
    bound.is_within = found.is_solved
    return [*controls, found.missing]


def _law(bound: BoundRequest) -> tuple[DynamicsProblem, list[Matrix], Law]:
    """The problem in motion, accelerations of the posture by joint, and what tasks are asked for."""
    motion, options, sizes = bound.motion(), bound.request.options, [c.size for c in bound.constraints]
    assert options.tasks is not None, "of control only"

    def gains(name: str, given: Any) -> list[Scalar]:
        return bound.entries(name) if isinstance(given, str) else [*(given or ())]

    none: list[Scalar] = [0.0] * sum(sizes[options.tasks :])
    kp, kd = (
        [x for k, given in enumerate(each or ()) for x in gains(f"{name}{k}", given)] + none
        for name, each in (("kp", options.kp), ("kd", options.kd))
    )
    target = bound.entries("posture") if options.posture else None
    of_posture = gains("posture_kp", options.posture_kp), gains("posture_kd", options.posture_kd)
    is_force = [x for each in options.impedance or () for x in each] + [False] * len(none)
    return motion, posture_accelerations(motion, target, *of_posture), Law(options.tasks, kp, kd, is_force)


def _limits(bound: BoundRequest) -> list[float]:
    """Largest joint forces (nv)."""
    tree = bound.tree
    return tree.effort_limit.tolist() if bound.request.options.limits else [inf] * tree.nv


_OPTIONS = MOTION | {
    "targets", "poses", "compliance", "active", "kp", "kd", "impedance", "posture", "posture_kp", "posture_kd",
    "limits", "contacts",
}  # fmt: skip
_OUTPUTS = (
    Output("tau", ("nv",), "joint forces of motors in N m and N"),
    Output("forces", ("m",), "forces of motors along the rows of tasks, of contacts on first links, in N, N m"),
    Output("missed", ("m",), "accelerations along rows that are asked for and not reached, m/s^2, rad/s^2"),
)
CONTROL = Quantity(
    "control",
    "Operational-space control",
    ("q", "v"),
    _OUTPUTS,
    _control,
    options=_OPTIONS,
    by_option={
        "contacts": Quantity(
            "control",
            "Whole-body control",
            ("q", "v"),
            (*_OUTPUTS, Output("force_residual", ("nv",), "joint forces that are missing, N m and N")),
            _whole_body_control,
            options=_OPTIONS | {"motors", "weights", "friction"},
            inverts_mass=True,
            springs="forces",
        )
    },
    inverts_mass=True,
    springs="forces",
)
