"""Energies, momentum and centre of mass at once."""

from __future__ import annotations

from collections.abc import Mapping

from numpy.typing import ArrayLike

from delassus.api.direct import bind
from delassus.constraints import check_constraints
from delassus.model.tree import Tree
from delassus.quantities.declarations.momentum import (
    CENTRE_OF_MASS,
    CENTRE_OF_MASS_DRIFT,
    CENTRE_OF_MASS_JACOBIAN,
    KINETIC_ENERGY,
    MOMENTUM,
    MOMENTUM_DRIFT,
    MOMENTUM_JACOBIAN,
    MOMENTUM_RATE,
    POTENTIAL_ENERGY,
)
from delassus.quantities.keywords import Constraints, Passive, Payloads
from delassus.quantities.quantity import Quantity
from delassus.spatial.rotations import Array


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
    tree: Tree, q: ArrayLike, constraints: Constraints = (), *, gravity: ArrayLike | None = None,
    passive: Passive = "model", payloads: Payloads = None,
) -> Array:  # fmt: skip
    """Potential energy (...,) in J: of springs, and of gravity (zero at the world's origin) where nothing balances it.

    Takes ``tree``, ``q``, ``gravity``, ``passive`` and ``payloads`` as `forward_dynamics` does, and raises the same. Of
    ``constraints``, each `SpringDamper` and `Bushing` counts, and no other; those of the robot's file do always.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.potential_energy(arm, [[0.1] * 7] * 5).shape
    (5,)
    >>> spring = ds.SpringDamper("link7", "world", stiffness=200.0, length=0.1)
    >>> bool(ds.potential_energy(arm, [0.1] * 7, spring) > ds.potential_energy(arm, [0.1] * 7))
    True
    """
    springs = tuple(c for c in check_constraints(tree, constraints) if not c.holds) if constraints else ()
    bound = bind(tree, springs, POTENTIAL_ENERGY, {"q": q}, gravity=gravity, passive=passive, payloads=payloads)
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
