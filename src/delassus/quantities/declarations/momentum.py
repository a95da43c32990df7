"""Energies, momentum and centre of mass: declarations."""

from __future__ import annotations

from delassus.algorithms import energy
from delassus.algorithms.dynamics.derivatives.motions import MomentumChanges
from delassus.errors import ModelError
from delassus.quantities.bound_request import BoundRequest
from delassus.quantities.quantity import Output, Quantity
from delassus.spatial.ops import Matrix


def _energies(bound: BoundRequest) -> list[Matrix]:
    return [*_kinetic_energy(bound), *_potential_energy(bound)]


def _kinetic_energy(bound: BoundRequest) -> list[Matrix]:
    return [energy.kinetic_energy(bound.motion())]


def _potential_energy(bound: BoundRequest) -> list[Matrix]:
    return [energy.potential_energy(bound.motion())]


def _with_mass(bound: BoundRequest) -> BoundRequest:
    """The same, of a robot that has a centre of mass."""
    if not bound.request.payloads and not bound.tree.mass > 0:
        raise ModelError("tree", "links that have mass", f"none in {bound.tree.name!r}", "A centre of mass needs mass.")
    return bound


def _momentum(bound: BoundRequest) -> list[Matrix]:
    return [energy.momentum(_with_mass(bound).motion())]


def _momentum_jacobian(bound: BoundRequest) -> list[Matrix]:
    return [energy.momentum_jacobian(_with_mass(bound).problem())]


def _momentum_drift(bound: BoundRequest) -> list[Matrix]:
    return [energy.momentum_rate(_with_mass(bound).unforced())]


def _momentum_rate(bound: BoundRequest) -> list[Matrix]:
    motion = _with_mass(bound).unforced()
    return [energy.momentum_rate(motion, motion.per_joint(bound.values["qdd"]))]


def _centre_of_mass(bound: BoundRequest) -> list[Matrix]:
    return [_with_mass(bound).problem().centre_of_mass]


def _centre_of_mass_jacobian(bound: BoundRequest) -> list[Matrix]:
    problem = _with_mass(bound).problem()
    return [energy.per_mass(problem, energy.momentum_jacobian(problem))]


def _centre_of_mass_drift(bound: BoundRequest) -> list[Matrix]:
    motion = _with_mass(bound).unforced()
    return [energy.per_mass(motion.problem, energy.momentum_rate(motion))]


def _changes(bound: BoundRequest) -> MomentumChanges:
    motion = bound.unforced()
    return MomentumChanges(motion, motion.per_joint(bound.values.get("qdd")))


def _momentum_changes(bound: BoundRequest) -> list[list[Matrix]]:
    return [_changes(bound).momentum()]


def _momentum_drift_changes(bound: BoundRequest) -> list[list[Matrix]]:
    return [_changes(bound).rate()[:2]]


def _momentum_rate_changes(bound: BoundRequest) -> list[list[Matrix]]:
    return [_changes(bound).rate()]


def _centre_of_mass_changes(bound: BoundRequest) -> list[list[Matrix]]:
    return [_centre_of_mass_jacobian(bound)]


ENERGIES = Quantity(
    "energies",
    "Kinetic and potential energy",
    ("q", "v"),
    (
        Output("kinetic", (), "kinetic energy in J, motors included"),
        Output("potential", (), "potential energy in J, zero at the origin of the world, springs included"),
    ),
    _energies,
    options=frozenset({"gravity", "passive"}),
    springs="forces",
)
KINETIC_ENERGY = Quantity(
    "kinetic_energy",
    "Kinetic energy",
    ("q", "v"),
    ENERGIES.outputs[:1],
    _kinetic_energy,
)
POTENTIAL_ENERGY = Quantity(
    "potential_energy",
    "Potential energy",
    ("q",),
    ENERGIES.outputs[1:],
    _potential_energy,
    options=ENERGIES.options,
    springs="forces",
)
MOMENTUM = Quantity(
    "momentum",
    "Momentum about the centre of mass",
    ("q", "v"),
    (Output("momentum", (6,), "[linear; angular] about the centre of mass, world axes, kg m/s and kg m^2/s"),),
    _momentum,
    jacobian=_momentum_changes,
)
MOMENTUM_JACOBIAN = Quantity(
    "momentum_jacobian",
    "Centroidal momentum matrix",
    ("q",),
    (Output("A", (6, "nv"), "momentum [linear; angular] about the centre of mass, world axes, per unit of velocity"),),
    _momentum_jacobian,
)
MOMENTUM_DRIFT = Quantity(
    "momentum_drift",
    "Rate of the centroidal momentum matrix times v",
    ("q", "v"),
    (Output("drift", (6,), "rate of the momentum that velocities alone cause, [linear; angular], N and N m"),),
    _momentum_drift,
    jacobian=_momentum_drift_changes,
)
MOMENTUM_RATE = Quantity(
    "momentum_rate",
    "Rate of the momentum about the centre of mass",
    ("q", "v", "qdd"),
    (Output("rate", (6,), "rate of the momentum [linear; angular], world axes, N and N m"),),
    _momentum_rate,
    jacobian=_momentum_rate_changes,
)
CENTRE_OF_MASS = Quantity(
    "centre_of_mass",
    "Centre of mass of all moving links",
    ("q",),
    (Output("centre", (3,), "centre of mass in the world in m"),),
    _centre_of_mass,
    jacobian=_centre_of_mass_changes,
)
CENTRE_OF_MASS_JACOBIAN = Quantity(
    "centre_of_mass_jacobian",
    "Jacobian of the centre of mass",
    ("q",),
    (Output("J", (3, "nv"), "velocity of the centre of mass in the world per unit of joint velocity"),),
    _centre_of_mass_jacobian,
)
CENTRE_OF_MASS_DRIFT = Quantity(
    "centre_of_mass_drift",
    "Rate of the Jacobian of the centre of mass times v",
    ("q", "v"),
    (Output("drift", (3,), "acceleration of the centre of mass that velocities alone cause, m/s^2, world axes"),),
    _centre_of_mass_drift,
)
