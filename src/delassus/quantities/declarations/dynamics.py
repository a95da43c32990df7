"""Forward dynamics and its derivatives: declarations."""

from __future__ import annotations

import math
import os

from delassus.algorithms.dynamics import METHODS
from delassus.algorithms.dynamics.derivatives.accelerations import DERIVATIVES
from delassus.algorithms.dynamics.derivatives.second import SECOND_DERIVATIVES
from delassus.errors import ConfigurationError
from delassus.quantities.bound_request import BoundRequest, stacked
from delassus.quantities.options import CONSTRAINED, CONTROLLED
from delassus.quantities.quantity import Output, Quantity
from delassus.quantities.results import solved
from delassus.spatial.ops import Matrix

EACH = 4_000
"""Bytes that a program of second derivatives takes for each number of them while it is made."""


def check_numbers(numbers: int) -> None:
    """Refuse programs of more second derivatives than this machine has memory for."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # a system that does not tell
        return
    if numbers * EACH > memory:
        wanted, came = f"at most {memory // EACH:,} numbers of second derivatives", f"{numbers:,}, {EACH:,} bytes each"
        raise ConfigurationError("outputs", wanted, came, 'Compile some, as ("d2qdd_dqdq",), or take more memory.')


def _dynamics(bound: BoundRequest) -> list[Matrix]:
    solution = bound.solve(bound.motion())
    return [solution.qdd, solution.forces]


def _control_forces(bound: BoundRequest) -> list[Matrix]:
    return [bound.motion().applied, *(stacked(bound, x) for x in bound.servos())]


def _control_force_changes(bound: BoundRequest) -> list[Matrix]:
    return list(bound.control_rates())


def _derivatives(bound: BoundRequest) -> list[Matrix]:
    found = bound.derivatives(bound.motion())
    changes = bound.with_controls(found.changes)
    bound.estimate_derivatives(found.directions)
    return [found.solution.qdd, found.solution.forces, *(changes[name] for name in DERIVATIVES)]


def _hessian(bound: BoundRequest) -> list[Matrix]:
    wanted = [o for o in bound.request.quantity.outputs if o.name in SECOND_DERIVATIVES]
    check_numbers(sum(math.prod(bound.request.shape_of(o)) for o in wanted))
    found, second = bound.second_derivatives(bound.motion())
    first = [found.changes[name] for name in DERIVATIVES]
    return [found.solution.qdd, found.solution.forces, *first, *second.tensors()]


def _jacobian(bound: BoundRequest) -> list[list[Matrix]]:
    _, _, *found = _derivatives(bound)
    return [found[:3], found[3:]]


_QDD = Output("qdd", ("nv",), "joint accelerations in rad/s^2 and m/s^2")
_FORCES = Output("forces", ("m",), "forces on the first links, along the rows of all constraints in N, N m")
DYNAMICS = Quantity(
    "dynamics",
    "Forward dynamics",
    ("q", "v", "tau"),
    (_QDD, _FORCES),
    _dynamics,
    methods=tuple(METHODS),
    options=CONSTRAINED | CONTROLLED,
    has_status=True,
    is_solution=True,
    report=solved,
    jacobian=_jacobian,
    inverts_mass=True,
    springs="forces",
)
CONTROL_FORCES = Quantity(
    "control_forces",
    "Joint forces of controls",
    ("q", "v", "tau"),
    (
        Output("tau", ("nv",), "joint forces in N m and N"),
        Output(
            "stiffness",
            ("servos",),
            "by how much less force of each actuator or joint with its length, N m and N/m",
            on_request=True,
        ),
        Output("damping", ("servos",), "the same with its rate, N m s and N s/m", on_request=True),
        Output("acting", ("nv",), "1 where the joint force is not cut off, else 0", on_request=True),
    ),
    _control_forces,
    options=CONTROLLED,
    is_private=True,
)
CONTROL_FORCE_CHANGES = Quantity(
    "control_force_changes",
    "Derivatives of joint forces of controls",
    ("q", "v", "tau"),
    (
        Output("with_q", ("nv", "nv"), "change of joint forces with positions, along the tangent of the configuration"),
        Output("with_v", ("nv", "nv"), "change of joint forces with velocities"),
        Output("with_u", ("nv", "controls"), "change of joint forces with controls"),
    ),
    _control_force_changes,
    options=CONTROLLED,
    is_private=True,
)
DYNAMICS_DERIVATIVES = Quantity(
    "dynamics_derivatives",
    "Forward dynamics and its derivatives",
    ("q", "v", "tau"),
    (
        _QDD,
        _FORCES,
        *(
            Output(
                name,
                ("m" if "df" in name else "nv", "controls" if "tau" in name else "nv"),
                meaning,
                is_derivative=True,
            )
            for name, meaning in DERIVATIVES.items()
        ),
    ),
    _derivatives,
    options=CONSTRAINED | CONTROLLED,
    has_status=True,
    inverts_mass=True,
    springs="forces",
)
DYNAMICS_HESSIAN = Quantity(
    "dynamics_hessian",
    "Forward dynamics, and its first and second derivatives",
    ("q", "v", "tau"),
    (
        *DYNAMICS_DERIVATIVES.outputs,
        *(
            Output(
                name,
                ("m" if "d2f" in name else "nv", "nv", "nv"),
                meaning,
                is_derivative=True,
                needs_independent="d2f" in name,
            )
            for name, meaning in SECOND_DERIVATIVES.items()
        ),
    ),
    _hessian,
    options=CONSTRAINED,
    has_status=True,
    inverts_mass=True,
    springs="forces",
)
