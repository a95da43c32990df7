"""Inverse dynamics: declarations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from delassus.algorithms import rnea
from delassus.algorithms.clusters.rnea import CLUSTER_RNEA, cluster_rnea
from delassus.algorithms.dynamics.derivatives.motions import inverse_dynamics_changes, inverse_dynamics_curvature
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.loops.inverse_dynamics import accelerations_missed, constrained_inverse_dynamics
from delassus.algorithms.loops.inverse_dynamics_changes import constrained_inverse_dynamics_changes
from delassus.constraints import Constraint, row_slices
from delassus.errors import ConstraintError
from delassus.quantities.bound_request import BoundRequest
from delassus.quantities.options import MOTION
from delassus.quantities.quantity import Output, Quantity
from delassus.spatial.ops import Matrix


def _inverse_dynamics(bound: BoundRequest) -> list[Matrix]:
    motion = bound.motion()
    return [rnea.inverse_dynamics(motion, motion.per_joint(bound.values["qdd"]))]


def _constrained(bound: BoundRequest) -> list[Matrix]:
    motion, qdd, weights = _motion(bound)
    if bound.request.method_of_motors == CLUSTER_RNEA:
        ops, motors = bound.ops, bound.request.motors
        b, tau, f = cluster_rnea(motion, qdd, bound.request.driven)
        passive, nv = [k for k in range(bound.tree.nv) if k not in motors], bound.tree.nv
        left = ops.take(b - ops.transpose(jacobian(motion.problem)) @ f, passive, None)
        missing, rank = ops.put(left, (nv, 1), passive, (0,)), float(len(passive))
        return [tau, f, missing, accelerations_missed(motion, qdd), ops.matrix([[rank]])]
    friction = friction_of(bound, bound.constraints)
    found = constrained_inverse_dynamics(motion, qdd, bound.request.motors, weights, friction)
    bound.is_within = found.is_solved
    missed = accelerations_missed(motion, qdd)
    return [found.tau, found.forces, found.missing, missed, bound.ops.matrix([[found.rank]])]


def _motion(bound: BoundRequest) -> tuple[DynamicsProblem, list[Matrix], list[Any] | None]:
    """The problem in motion, accelerations by joint, and weights."""
    motion = bound.motion()
    return motion, motion.per_joint(bound.values["qdd"]), weights_of(bound)


def weights_of(bound: BoundRequest) -> list[Any] | None:
    """Weights of joint forces and of constraint forces; None if not given."""
    given = bound.request.options.weights
    if given is None:
        return None
    return bound.entries("weights") if given == "input" else [*given]


def _constrained_changes(bound: BoundRequest) -> list[list[Matrix]]:
    motion, qdd, weights = _motion(bound)
    bound.is_within = 1.0
    return constrained_inverse_dynamics_changes(motion, qdd, bound.request.motors, weights)


def friction_of(bound: BoundRequest, constraints: Sequence[Constraint]) -> dict[int, Any]:
    """Coefficients of points that are held in the world, by the first of their rows; none without friction."""
    given, out = bound.request.options.friction, dict[int, Any]()
    if given is None:
        return out
    each = bound.entries("friction") if given == "input" else [given] * len(constraints)
    for c, mu, rows in zip(constraints, each, row_slices(constraints), strict=True):
        if c.pose_size == 3:
            out[rows.start] = mu
        elif c.pose_size:
            wanted = "points where robots touch the world, of friction"
            raise ConstraintError("constraints", wanted, repr(c), "A flat foot is four points, one at each corner.")
    if not out or given == 0.0:
        wanted = "points that touch the world, and a coefficient above zero"
        raise ConstraintError("friction", wanted, f"{len(out)} point(s) and {given}", "Leave it out.")
    return out


def _bias_force(bound: BoundRequest) -> list[Matrix]:
    return [rnea.inverse_dynamics(bound.motion())]


def _inverse_dynamics_changes(bound: BoundRequest) -> list[list[Matrix]]:
    motion = bound.motion()
    return [inverse_dynamics_changes(motion, motion.per_joint(bound.values["qdd"]))]


def _inverse_dynamics_derivatives(bound: BoundRequest) -> list[Matrix]:
    return _inverse_dynamics_changes(bound)[0]


def _inverse_dynamics_hessian(bound: BoundRequest) -> list[Matrix]:
    motion = bound.motion()
    return inverse_dynamics_curvature(motion, motion.per_joint(bound.values["qdd"]))


def _bias_force_changes(bound: BoundRequest) -> list[list[Matrix]]:
    motion = bound.motion()
    return [inverse_dynamics_changes(motion, motion.per_joint(None))[:2]]


INVERSE_DYNAMICS = Quantity(
    "inverse_dynamics",
    "Inverse dynamics",
    ("q", "v", "qdd"),
    (Output("tau", ("nv",), "joint forces in N m and N that cause the accelerations"),),
    _inverse_dynamics,
    options=MOTION | {"motors"},
    by_option={
        "motors": Quantity(
            "inverse_dynamics",
            "Inverse dynamics with constraints",
            ("q", "v", "qdd"),
            (
                Output("tau", ("nv",), "joint forces of motors in N m and N, zero at joints without"),
                Output("forces", ("m",), "forces on the first links, along the rows of all constraints in N, N m"),
                Output("force_residual", ("nv",), "joint forces that are missing for the accelerations, N m and N"),
                Output("row_residual", ("m",), "accelerations along rows that should be none, m/s^2, rad/s^2"),
                Output("rank", (), "number of independent constraint forces at joints without motors"),
            ),
            _constrained,
            methods=("orthogonal", CLUSTER_RNEA),
            options=MOTION | {"motors", "weights", "active", "friction"},
            jacobian=_constrained_changes,
            springs="forces",
        )
    },
    jacobian=_inverse_dynamics_changes,
    springs="forces",
)
INVERSE_DYNAMICS_DERIVATIVES = Quantity(
    "inverse_dynamics_derivatives",
    "Derivatives of inverse dynamics",
    INVERSE_DYNAMICS.inputs,
    (
        Output("dtau_dq", ("nv", "nv"), "change of joint forces with positions, in tangents"),
        Output("dtau_dv", ("nv", "nv"), "change of joint forces with velocities"),
        Output("dtau_dqdd", ("nv", "nv"), "change of joint forces with accelerations: mass matrix"),
    ),
    _inverse_dynamics_derivatives,
    options=MOTION,
    springs="forces",
)
INVERSE_DYNAMICS_HESSIAN = Quantity(
    "inverse_dynamics_hessian",
    "Second derivatives of inverse dynamics",
    INVERSE_DYNAMICS.inputs,
    (
        Output("d2tau_dqdq", ("nv", "nv", "nv"), "second change of joint forces with positions, in tangents"),
        Output("d2tau_dqdv", ("nv", "nv", "nv"), "the same with positions and velocities"),
        Output("d2tau_dvdv", ("nv", "nv", "nv"), "the same with velocities"),
        Output("d2tau_dqdqdd", ("nv", "nv", "nv"), "the same with positions and accelerations"),
    ),
    _inverse_dynamics_hessian,
    options=MOTION,
    springs="forces",
)
BIAS_FORCE = Quantity(
    "bias_force",
    "Bias force of the joints",
    ("q", "v"),
    (Output("c", ("nv",), "joint forces in N m and N that keep qdd = 0"),),
    _bias_force,
    options=MOTION,
    jacobian=_bias_force_changes,
    springs="forces",
)
