"""Energies, momentum and centre of mass: declarations, and the functions that compute them at once."""

from __future__ import annotations

from collections.abc import Mapping

from numpy.typing import ArrayLike

from delassus.algorithms import energy
from delassus.algorithms.dynamics.derivatives.motions import MomentumChanges, potential_energy_change
from delassus.errors import ModelError
from delassus.model.tree import Tree, total_mass
from delassus.quantities.bound_request import BoundRequest
from delassus.quantities.direct import bind
from delassus.quantities.keywords import Passive, Payloads
from delassus.quantities.quantity import Output, Quantity
from delassus.spatial.ops import Matrix
from delassus.spatial.rotations import Array


def _energies(bound: BoundRequest) -> list[Matrix]:
    return [*_kinetic_energy(bound), *_potential_energy(bound)]


def _kinetic_energy(bound: BoundRequest) -> list[Matrix]:
    return [energy.kinetic_energy(bound.motion())]


def _potential_energy(bound: BoundRequest) -> list[Matrix]:
    return [energy.potential_energy(bound.motion())]


def _with_mass(bound: BoundRequest) -> BoundRequest:
    """The same, of a robot that has a centre of mass."""
    if not bound.request.payloads and not total_mass(bound.tree) > 0:
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


def _energy_changes(bound: BoundRequest) -> list[list[Matrix]]:
    (kinetic,), ((potential,),) = _kinetic_energy_changes(bound), _potential_energy_changes(bound)
    return [kinetic, [potential, bound.ops.zeros(1, bound.tree.nv)]]


def _kinetic_energy_changes(bound: BoundRequest) -> list[list[Matrix]]:
    return [_changes(bound).kinetic_energy()]


def _potential_energy_changes(bound: BoundRequest) -> list[list[Matrix]]:
    return [[potential_energy_change(bound.motion())]]


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
    jacobian=_energy_changes,
)
KINETIC_ENERGY = Quantity(
    "kinetic_energy",
    "Kinetic energy",
    ("q", "v"),
    ENERGIES.outputs[:1],
    _kinetic_energy,
    jacobian=_kinetic_energy_changes,
)
POTENTIAL_ENERGY = Quantity(
    "potential_energy",
    "Potential energy",
    ("q",),
    ENERGIES.outputs[1:],
    _potential_energy,
    options=ENERGIES.options,
    jacobian=_potential_energy_changes,
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


def kinetic_energy(tree: Tree, q: ArrayLike, v: ArrayLike, *, payloads: Payloads = None) -> Array:
    """Kinetic energy ``½ vᵀ M v`` (...,) in J, armature included.

    Takes ``tree``, ``q``, ``v`` and ``payloads`` as `forward_dynamics` does, and raises what that raises for them.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(7)
    >>> q, v = arm.random(0), np.ones(7)
    >>> bool(np.isclose(ds.kinetic_energy(arm, q, v), 0.5 * v @ ds.mass_matrix(arm, q) @ v))
    True
    """
    return bind(tree, (), KINETIC_ENERGY, {"q": q, "v": v}, payloads=payloads).run()["kinetic"][()]


def potential_energy(
    tree: Tree, q: ArrayLike, *, gravity: ArrayLike | None = None, passive: Passive = "model", payloads: Payloads = None
) -> Array:
    """Potential energy (...,) in J: of springs, and of gravity (zero at the world's origin) where nothing balances it.

    Takes ``tree``, ``q``, ``gravity``, ``passive`` and ``payloads`` as `forward_dynamics` does, and raises the same.

    Examples
    --------
    >>> import delassus as ds
    >>> ds.potential_energy(ds.mechanisms.chain(7), [[0.1] * 7] * 5).shape
    (5,)
    """
    bound = bind(tree, (), POTENTIAL_ENERGY, {"q": q}, gravity=gravity, passive=passive, payloads=payloads)
    return bound.run()["potential"][()]


def momentum(tree: Tree, q: ArrayLike, v: ArrayLike, *, payloads: Payloads = None) -> Array:
    """Momentum ``[linear; angular]`` (..., 6) about the centre of mass, in world axes (kg·m/s, kg·m²/s).

    Takes ``tree``, ``q``, ``v`` and ``payloads`` as `forward_dynamics` does, and raises what that raises for them.

    Raises
    ------
    ModelError
        The robot has no mass.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.momentum(arm, arm.random(0), np.ones(7)).shape
    (6,)
    """
    return _of_mass(tree, MOMENTUM, {"q": q, "v": v}, payloads)


def momentum_jacobian(tree: Tree, q: ArrayLike, *, payloads: Payloads = None) -> Array:
    """Centroidal momentum matrix ``A`` (..., 6, nv): `momentum` is ``A v``.

    Takes ``tree``, ``q`` and ``payloads`` as `forward_dynamics` does, and raises what `momentum` raises. Rows
    ``[linear; angular]`` about the centre of mass, world axes: Pinocchio's ``computeCentroidalMap``.

    References
    ----------
    Orin, Goswami, Lee, "Centroidal dynamics of a humanoid robot", Autonomous Robots 2013.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> robot = ds.mechanisms.humanoid()
    >>> q, v = robot.random(0), np.ones(robot.nv)
    >>> bool(np.allclose(ds.momentum_jacobian(robot, q) @ v, ds.momentum(robot, q, v)))
    True
    """
    return _of_mass(tree, MOMENTUM_JACOBIAN, {"q": q}, payloads)


def momentum_drift(tree: Tree, q: ArrayLike, v: ArrayLike, *, payloads: Payloads = None) -> Array:
    """Bias ``Ȧ v`` (..., 6) of the momentum, in N and N·m: its rate is ``A q̈ + Ȧ v``.

    Takes what `momentum` takes, and raises what that raises.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.momentum_drift(arm, arm.random(0), np.ones(7)).shape
    (6,)
    """
    return _of_mass(tree, MOMENTUM_DRIFT, {"q": q, "v": v}, payloads)


def momentum_rate(tree: Tree, q: ArrayLike, v: ArrayLike, qdd: ArrayLike, *, payloads: Payloads = None) -> Array:
    """Rate ``A q̈ + Ȧ v`` (..., 6) of the momentum, in N and N·m: the wrench of all that acts from outside.

    Takes ``tree``, ``q``, ``v``, ``qdd`` and ``payloads`` as `inverse_dynamics` does; raises what `momentum` raises.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(7)
    >>> q, v, qdd = arm.random(0), np.ones(7), np.ones(7)
    >>> rate = ds.momentum_jacobian(arm, q) @ qdd + ds.momentum_drift(arm, q, v)
    >>> bool(np.allclose(ds.momentum_rate(arm, q, v, qdd), rate))
    True
    """
    return _of_mass(tree, MOMENTUM_RATE, {"q": q, "v": v, "qdd": qdd}, payloads)


def centre_of_mass_jacobian(tree: Tree, q: ArrayLike, *, payloads: Payloads = None) -> Array:
    """Jacobian (..., 3, nv) of the centre of mass in the world: that times ``v`` is its velocity.

    Takes what `centre_of_mass` takes and raises. Equal to the rows of `CenterOfMass`, at a third of the operations.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.centre_of_mass_jacobian(arm, arm.random(0)).shape
    (3, 7)
    """
    return _of_mass(tree, CENTRE_OF_MASS_JACOBIAN, {"q": q}, payloads)


def centre_of_mass_drift(tree: Tree, q: ArrayLike, v: ArrayLike, *, payloads: Payloads = None) -> Array:
    """Bias ``J̇ v`` (..., 3) of the centre of mass, in m/s²: its acceleration is ``J q̈ + J̇ v``.

    Takes what `momentum` takes, and raises what that raises.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.centre_of_mass_drift(arm, arm.random(0), np.ones(7)).shape
    (3,)
    """
    return _of_mass(tree, CENTRE_OF_MASS_DRIFT, {"q": q, "v": v}, payloads)


def centre_of_mass(tree: Tree, q: ArrayLike, *, payloads: Payloads = None) -> Array:
    """Centre of mass (..., 3) of all moving links in the world, in m.

    Takes ``tree``, ``q`` and ``payloads`` as `forward_dynamics` does, and raises what that raises for them.

    Raises
    ------
    ModelError
        The robot has no mass.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.centre_of_mass(arm, arm.random(0)).shape
    (3,)
    """
    return _of_mass(tree, CENTRE_OF_MASS, {"q": q}, payloads)


def _of_mass(tree: Tree, quantity: Quantity, states: Mapping[str, ArrayLike], payloads: Payloads) -> Array:
    """The only result of a quantity that robots without mass do not have."""
    (result,) = bind(tree, (), quantity, states, payloads=payloads).run().values()
    return result
