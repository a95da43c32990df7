"""Regressors of dynamics, energy and momentum at once, and the base parameters that motion shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.accuracy.least_squares import Domain, body_coordinates, least_squares
from delassus.api.direct import bind
from delassus.errors import ConfigurationError, shown
from delassus.frozen import Frozen, named_tuple
from delassus.model.check import check_number, real_array
from delassus.model.kinematics import generic_configurations
from delassus.model.topology import characteristic_length, check_tree
from delassus.model.tree import Tree
from delassus.quantities.declarations.regressors import REGRESSOR
from delassus.quantities.quantity import Quantity
from delassus.spatial.motion import LINEAR
from delassus.spatial.rotations import Array

PARAMETERS = ("m", "mx", "my", "mz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
"""Names of the inertial parameters of a link: mass, first moments, moments of inertia about the origin of its frame."""

EXCITATION = 4
"""How many times as many equations as parameters random states give, of which base parameters are found."""


@cache
def _one(output: str) -> Quantity:
    """The regressor of one output, the same object each time: its program is kept."""
    return REGRESSOR.only(output)


def regressor(
    tree: Tree,
    q: ArrayLike,
    v: ArrayLike,
    qdd: ArrayLike,
    *,
    outputs: str | Sequence[str] | None = "tau",
    gravity: ArrayLike | None = None,
) -> Any:
    """Regressor ``Y`` of inverse dynamics: joint forces are ``Y π`` with the inertial parameters ``π`` of all links.

    ``π`` is ``tree.inertial_parameters.ravel()``, ten of each link, as payloads and Pinocchio's ``toDynamicParameters``
    have them: ``[m, m c, Ixx, Ixy, Iyy, Ixz, Iyz, Izz]``, about the origin of the link's frame and along its axes;
    links that move together are one. Joint forces are those of `inverse_dynamics` with ``passive="none"`` less
    ``armature q̈``; what is linear in further parameters (armature ``q̈``, damping ``v``) are columns for you to add. Of
    free joints from MuJoCo that of linear armature is ``v̇ + ω × v`` (`Joint.armature_is_straight`).

    Parameters
    ----------
    tree : Tree
    q : (..., nq) array_like
        Configurations; leading axes of all arguments are batches and broadcast.
    v, qdd : (..., nv) array_like
        Velocities (m/s, rad/s) and accelerations (m/s², rad/s²).
    outputs : str or sequence of str or None
        ``"tau"``, joint forces; ``"kinetic"`` and ``"potential"``, energies without motors and springs; ``"momentum"``,
        ``[linear; angular]`` about the origin of the world, in its axes. With None all of them in this order.
    gravity
        As in `forward_dynamics`, which raises the same errors.

    Returns
    -------
    (..., nv, 10 n), (..., 10 n) or (..., 6, 10 n) array
        Pinocchio's ``computeJointTorqueRegressor``, ``computeKineticEnergyRegressor`` and
        ``computePotentialEnergyRegressor``; a tuple of several outputs, whose fields have their names.

    Raises
    ------
    UnknownNameError
        No such output.

    References
    ----------
    Atkeson, An, Hollerbach, "Estimation of inertial parameters of manipulator loads and links", IJRR 1986.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(7)
    >>> q, v, qdd = arm.random(0), np.ones(7), np.ones(7)
    >>> Y = ds.regressor(arm, q, v, qdd)
    >>> bool(np.allclose(Y @ arm.inertial_parameters.ravel(), ds.inverse_dynamics(arm, q, v, qdd)))
    True
    """
    asked = REGRESSOR if outputs is None else _one(outputs) if isinstance(outputs, str) else REGRESSOR.only(outputs)
    found = bind(tree, (), asked, {"q": q, "v": v, "qdd": qdd}, gravity=gravity).run()
    names = [o.name for o in asked.outputs]
    return found[outputs] if isinstance(outputs, str) else named_tuple(*names)(*(found[name] for name in names))


@dataclass(frozen=True, slots=True, eq=False)
class BaseParameters(Frozen):
    """Combinations of inertial parameters that joint forces determine; `str` of it is a table.

    Attributes
    ----------
    names : tuple of str
        All inertial parameters, 10 n, such as ``"link2.mx"``.
    columns : (b,) array of int
        Columns of the regressor that are independent, one for each base parameter.
    grouping : (b, 10 n) array
        Makes base parameters of all parameters: ``base = grouping @ π``, with which ``Y π = Y[..., columns] @ base``.
    unidentified : tuple of str
        Parameters that are part of no base parameter: no motion shows them.

    Examples
    --------
    >>> import delassus as ds
    >>> print(ds.base_parameters(ds.mechanisms.pendulum(2)))
    rod1.mx
    rod1.mz -0.5 rod2.m
    rod1.Iyy +0.25 rod2.m
    rod2.mx
    rod2.mz
    rod2.Iyy
    6 of 20 parameters can be told apart
    """

    names: tuple[str, ...]
    columns: NDArray[np.intp]
    grouping: Array
    unidentified: tuple[str, ...]

    def __str__(self) -> str:
        """Table of base parameters, each with all that is part of it."""
        lines = []
        for row in self.grouping:
            terms = [f"{row[k]:+.6g} {self.names[k]}" for k in np.flatnonzero(row)]
            lines.append(" ".join(terms).removeprefix("+1 "))
        return "\n".join([*lines, f"{len(self.columns)} of {len(self.names)} parameters can be told apart"])

    def consistent(self, values: ArrayLike, errors: ArrayLike, near: ArrayLike) -> Array:
        """Inertial parameters that bodies can have, with these base parameters as far as noise lets them be possible.

        Least squares over all bodies, to a tenth of a standard error. Of bodies that move alike it takes those of least
        change; where none have these base parameters, bodies come to the edge of what is possible.

        Parameters
        ----------
        values : (b,) array_like
            Base parameters, such as linear least squares finds.
        errors : float or (b,) or (b, b) array_like
            Their standard errors, or their covariance.
        near : (n, 10) array_like
            Bodies that the answer shall be like: ``tree.inertial_parameters``. Each has mass in no plane only.

        Returns
        -------
        (n, 10) array
            In the order of ``tree.inertial_parameters``.

        Raises
        ------
        ConfigurationError
            Arrays of other shapes, errors that are not positive, ``near`` that no bodies have.

        References
        ----------
        Sousa and Cortesão, "Physical feasibility of robot base inertial parameter identification", IJRR 2014; Lee,
        Wensing and Park, "Geometric robot dynamic identification", T-RO 2020.

        Examples
        --------
        >>> import delassus as ds, numpy as np
        >>> arm = ds.mechanisms.chain(4)
        >>> base, own = ds.base_parameters(arm), arm.inertial_parameters
        >>> wanted = 1.1 * base.grouping @ own.ravel()
        >>> found = base.consistent(wanted, 0.01, own)
        >>> bool(np.abs(base.grouping @ found.ravel() - wanted).max() < 0.001)
        True
        """
        b, n = len(self.columns), len(self.names) // len(PARAMETERS)
        wanted, start, spread = real_array(values), real_array(near), real_array(errors)
        for name, x, shape in (("values", wanted, (b,)), ("near", start, (n, 10))):
            if x is None or x.shape != shape or not np.isfinite(x).all():
                raise ConfigurationError(name, f"finite numbers of shape {shape}", shown(x), "Those of one robot.")
        assert wanted is not None and start is not None
        try:
            if spread is None or spread.shape not in ((), (b,), (b, b)):
                raise ValueError
            root = np.linalg.cholesky(spread) if spread.ndim == 2 else np.diag(np.broadcast_to(spread, b))
            if not (np.diagonal(root) > 0.0).all():
                raise ValueError
        except (ValueError, np.linalg.LinAlgError) as error:
            said = f"positive numbers ({b},), or a covariance ({b}, {b})"
            raise ConfigurationError("errors", said, shown(errors), "Standard errors, or a covariance.") from error
        try:
            bodies = [body_coordinates(x) for x in start]
        except np.linalg.LinAlgError as error:
            raise ConfigurationError("near", "parameters of bodies", shown(near), "Give links an inertia.") from error
        J = np.linalg.solve(
            root, np.hstack([g @ c.T for g, (_, c) in zip(np.split(self.grouping, n, 1), bodies, strict=True)])
        )
        x, goal = np.concatenate([at for at, _ in bodies]), np.linalg.solve(root, wanted)
        domain = Domain(np.arange(10 * n).reshape(n, 10), np.full(10 * n, -np.inf), np.full(10 * n, np.inf))
        found = least_squares(
            lambda x: J @ x - goal, lambda _: J, x, domain, lambda f: max(1.0, float(f @ f) / b)
        ).x.reshape(n, 10)
        return np.array([x @ changes for x, (_, changes) in zip(found, bodies, strict=True)])


def base_parameters(tree: Tree, *, gravity: ArrayLike | None = None, tolerance: float = 1e-6) -> BaseParameters:
    """Base parameters: the fewest combinations of inertial parameters that all joint forces are made of.

    Columns of regressors at random states, from the root on, are independent of those before them, or combinations of
    these, to which their parameters are added.

    Parameters
    ----------
    tree : Tree
    gravity
        As in `forward_dynamics`, which raises the same errors.
    tolerance : float
        Part of a column that others must leave for it to be independent, relative to its length.

    Raises
    ------
    ConfigurationError
        The tolerance is not above 0, or above 1.

    References
    ----------
    Gautier, "Numerical calculation of the base inertial parameters of robots", J. Robotic Systems 1991.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(7)
    >>> base, pi = ds.base_parameters(arm), arm.inertial_parameters.ravel()
    >>> Y = ds.regressor(arm, arm.random(0), np.ones(7), np.ones(7))
    >>> bool(np.allclose(Y[:, base.columns] @ (base.grouping @ pi), Y @ pi))
    True
    """
    check_tree(tree)
    tolerance = check_number("tolerance", tolerance, "Of a column, as 1e-6.", most=1.0)
    rng, n = np.random.default_rng(0), 10 * tree.n_links
    batch = EXCITATION * -(-n // max(tree.nv, 1))
    v, qdd = rng.normal(size=(2, batch, tree.nv)) * _units(tree)
    Y = regressor(tree, generic_configurations(tree, rng, (batch,)), v, qdd, gravity=gravity)
    Y = Y.reshape(batch * tree.nv, n)
    return base_of_regressors(tree, Y, tolerance)


def _units(tree: Tree) -> Array:
    """What displacements (nv) are compared with: the length of the robot, of rotations 1 rad."""
    axes = [axis for joint in tree.joints for axis in joint.motion_axes]
    return np.array([characteristic_length(tree) if axis in LINEAR else 1.0 for axis in axes])


def base_of_regressors(tree: Tree, Y: Array, tolerance: float = 1e-6) -> BaseParameters:
    """Base parameters of the motions of which rows (N, 10 n) of regressors are."""
    names = tuple(f"{link}.{p}" for link in tree.link_names for p in PARAMETERS)
    Y, unit = Y * np.tile(_units(tree), len(Y) // max(tree.nv, 1))[:, None], characteristic_length(tree)
    size = np.linalg.norm(Y, axis=0)
    moments = size / np.tile(np.repeat([unit**2, unit, 1.0], [1, 3, 6]), tree.n_links)  # all in kg m²
    size[moments <= tolerance * moments.max(initial=0.0)] = 0.0
    Y = Y / np.where(size > 0.0, size, 1.0)
    basis, columns = np.zeros(Y.shape, order="F"), list[int]()
    for k in np.flatnonzero(size):
        left, known = Y[:, k], basis[:, : len(columns)]
        for _ in range(2):  # the second time takes away round-off of the first
            left = left - known @ (known.T @ left)
        if (length := np.linalg.norm(left)) > tolerance:
            basis[:, len(columns)] = left / length
            columns.append(int(k))
    parts = np.linalg.lstsq(Y[:, columns], Y, rcond=None)[0]
    parts[np.abs(parts) <= tolerance] = 0.0
    grouping = parts * size / size[columns, None]
    grouping[:, columns] = np.eye(len(columns))
    unidentified = tuple(name for name, used in zip(names, grouping.any(axis=0), strict=True) if not used)
    return BaseParameters(names, np.array(columns, dtype=np.intp), grouping, unidentified)
