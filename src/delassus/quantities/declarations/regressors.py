"""Regressors of dynamics, energy and momentum by inertial parameters: declarations.

What accelerations take of a change of parameters, ``Y dπ``, is missing from the joint forces: under constraints too,
derivatives of forward dynamics are ``−dqdd_dtau Y`` and ``−df_dtau Y``.
"""

from __future__ import annotations

from delassus.algorithms import energy, rnea
from delassus.quantities.bound_request import BoundRequest
from delassus.quantities.options import CONSTRAINED, CONTROLLED
from delassus.quantities.quantity import Output, Quantity
from delassus.spatial.motion import column
from delassus.spatial.ops import Matrix


def _regressor(bound: BoundRequest) -> list[Matrix]:
    motion = bound.motion()
    return [rnea.regressor(motion, motion.per_joint(bound.values["qdd"])), *energy.regressors(motion)]


REGRESSOR = Quantity(
    "regressor",
    "Regressors by inertial parameters",
    ("q", "v", "qdd"),
    (
        Output("tau", ("nv", "10 n"), "joint forces per inertial parameter, N m and N per kg, kg m, kg m^2"),
        Output("kinetic", ("10 n",), "kinetic energy in J per inertial parameter"),
        Output("potential", ("10 n",), "potential energy of gravity in J per inertial parameter"),
        Output("momentum", (6, "10 n"), "[linear; angular] about the origin of the world, its axes, per parameter"),
    ),
    _regressor,
    options=frozenset({"gravity"}),
)


def _inertial_derivatives(bound: BoundRequest) -> list[Matrix]:
    motion = bound.motion()
    found = bound.derivatives(motion)
    bound.estimate_derivatives(found.directions)
    Y = rnea.regressor(motion, motion.by_joint(column(bound.ops, found.solution.qdd)))
    return [-(found.changes[name] @ Y) for name in ("dqdd_dtau", "df_dtau")]


INERTIAL_DERIVATIVES = Quantity(
    "inertial_derivatives",
    "Derivatives of forward dynamics by inertial parameters",
    ("q", "v", "tau"),
    (
        Output("dqdd_dpi", ("nv", "10 n"), "change of joint accelerations per inertial parameter", is_derivative=True),
        Output(
            "df_dpi",
            ("m", "10 n"),
            "change of the forces of all constraints per inertial parameter",
            is_derivative=True,
        ),
    ),
    _inertial_derivatives,
    options=CONSTRAINED | CONTROLLED,
    has_status=True,
    inverts_mass=True,
    springs="forces",
)
