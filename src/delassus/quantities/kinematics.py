"""Poses, energies, momentum and centre of mass: declarations, and the functions that compute them at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from delassus.algorithms.dynamics import energy, kinematics
from delassus.constraints import Frame
from delassus.errors import ModelError
from delassus.model.rotations import Array
from delassus.model.tree import Tree, total_mass
from delassus.quantities.case import Case
from delassus.quantities.evaluate import case_of
from delassus.quantities.options import GRAVITY, Payloads
from delassus.quantities.quantity import Output, Quantity
from delassus.spatial.ops import Matrix


def _kinematics(case: Case) -> list[Matrix]:
    tree, problem, wanted = case.tree, case.problem(), case.request.options.frames
    places = [tree.placement(name) for name in tree.link_names] if wanted is None else [f.on(tree) for f in wanted]
    links = kinematics.body_poses(problem)
    poses = [kinematics.homogeneous(problem, kinematics.frame_pose(problem, links, at)) for at in places]
    return [case.ops.vstack(poses) if poses else case.ops.zeros(0, 4)]


def _energies(case: Case) -> list[Matrix]:
    motion = case.motion()
    return [energy.kinetic_energy(motion), energy.potential_energy(motion.problem, motion.gravity)]


def _momentum(case: Case) -> list[Matrix]:
    return [energy.momentum(case.motion())]


def _centre_of_mass(case: Case) -> list[Matrix]:
    return [energy.centre_of_mass(case.problem())]


KINEMATICS = Quantity(
    "kinematics",
    "Forward kinematics",
    ("q",),
    (Output("poses", ("frames", 4, 4), "poses in the world, [R p; 0 1], positions in m"),),
    _kinematics,
    options=frozenset({"frames"}),
)
ENERGIES = Quantity(
    "energies",
    "Kinetic and potential energy",
    ("q", "v"),
    (
        Output("kinetic", (), "kinetic energy in J, motors included"),
        Output("potential", (), "potential energy in J, zero at the origin of the world"),
    ),
    _energies,
    options=frozenset({"gravity"}),
)
MOMENTUM = Quantity(
    "momentum",
    "Momentum about the centre of mass",
    ("q", "v"),
    (Output("momentum", (6,), "[linear; angular] about the centre of mass, world axes, kg m/s and kg m^2/s"),),
    _momentum,
)
CENTRE_OF_MASS = Quantity(
    "centre_of_mass",
    "Centre of mass of all moving links",
    ("q",),
    (Output("centre", (3,), "centre of mass in the world in m"),),
    _centre_of_mass,
)


def forward_kinematics(tree: Tree, q: ArrayLike, frames: str | Frame | Sequence[str | Frame] | None = None) -> Array:
    """Poses of links or frames in the world, as 4 × 4 matrices ``[[R, p], [0, 1]]``.

    Parameters
    ----------
    tree : Tree
    q : (..., nq) array_like
        Configurations; leading axes are batches.
    frames : str, Frame or sequence of these, optional
        By default the frame of each moving link, in the order of ``tree.link_names``.

    Returns
    -------
    (..., k, 4, 4) array
        One for each frame; (..., 4, 4) if ``frames`` is one. Positions in m.

    Raises
    ------
    ConfigurationError, UnknownNameError
        As `forward_dynamics` raises them.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.forward_kinematics(arm, arm.random(0, batch=100), "link7").shape
    (100, 4, 4)
    """
    return case_of(tree, (), KINEMATICS, {"q": q}, frames=frames).run()["poses"]


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
    return case_of(tree, (), ENERGIES, {"q": q, "v": v}, payloads=payloads).run()["kinetic"][()]


def potential_energy(tree: Tree, q: ArrayLike, *, gravity: ArrayLike = GRAVITY, payloads: Payloads = None) -> Array:
    """Potential energy (...,) in J of all moving links; zero where their centre of mass is at the world's origin.

    Takes ``tree``, ``q``, ``gravity`` and ``payloads`` as `forward_dynamics` does, and raises what that raises for
    them.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.potential_energy(arm, arm.random(0, batch=5)).shape
    (5,)
    """
    still = np.zeros(tree.nv) if isinstance(tree, Tree) else ()
    return case_of(tree, (), ENERGIES, {"q": q, "v": still}, gravity=gravity, payloads=payloads).run()["potential"][()]


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
    case = case_of(tree, (), MOMENTUM, {"q": q, "v": v}, payloads=payloads)
    _refuse_massless(tree, payloads)
    return case.run()["momentum"]


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
    case = case_of(tree, (), CENTRE_OF_MASS, {"q": q}, payloads=payloads)
    _refuse_massless(tree, payloads)
    return case.run()["centre"]


def _refuse_massless(tree: Tree, payloads: Payloads) -> None:
    if not payloads and not total_mass(tree) > 0:
        raise ModelError("tree", "links that have mass", f"none in {tree.name!r}", "A centre of mass needs mass.")
