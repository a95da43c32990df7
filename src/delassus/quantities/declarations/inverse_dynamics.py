"""Inverse dynamics: declarations, and the functions that compute them at once."""

from __future__ import annotations

from typing import Unpack

from numpy.typing import ArrayLike

from delassus.algorithms import rnea
from delassus.model.tree import Tree
from delassus.quantities.bound_request import BoundRequest
from delassus.quantities.direct import bind
from delassus.quantities.options import MOTION, Motion, Payloads
from delassus.quantities.quantity import Output, Quantity
from delassus.quantities.request import AUTO
from delassus.spatial.ops import Matrix
from delassus.spatial.rotations import Array

# -- declarations --------------------------------------------------------------------------------------------------


def _inverse_dynamics(bound: BoundRequest) -> list[Matrix]:
    motion = bound.motion()
    return [rnea.inverse_dynamics(motion, motion.per_joint(bound.values["qdd"]))]


def _bias_force(bound: BoundRequest) -> list[Matrix]:
    return [rnea.inverse_dynamics(bound.motion())]


INVERSE_DYNAMICS = Quantity(
    "inverse_dynamics",
    "Inverse dynamics",
    ("q", "v", "qdd"),
    (Output("tau", ("nv",), "joint forces in N m and N that cause the accelerations"),),
    _inverse_dynamics,
    options=MOTION,
)
BIAS_FORCE = Quantity(
    "bias_force",
    "Bias force of the joints",
    ("q", "v"),
    (Output("c", ("nv",), "joint forces in N m and N that keep qdd = 0"),),
    _bias_force,
    options=MOTION,
)


# -- at once -------------------------------------------------------------------------------------------------------


def inverse_dynamics(
    tree: Tree, q: ArrayLike, v: ArrayLike, qdd: ArrayLike, *, payloads: Payloads = None, **given: Unpack[Motion]
) -> Array:
    """Joint forces ``τ = M q̈ + c + d v + k (q − r)`` that cause given accelerations, by the Newton-Euler recursion.

    Parameters
    ----------
    tree : Tree
    q : (..., nq) array_like
        Configurations; leading axes of all arguments are batches and broadcast.
    v, qdd : (..., nv) array_like
        Velocities (m/s, rad/s) and accelerations (m/s², rad/s²).
    wrenches, gravity, passive, damping, payloads
        As in `forward_dynamics`, which raises the same errors.

    Returns
    -------
    (..., nv) array
        In N and N·m: of all motors together; controls do not enter.

    References
    ----------
    Featherstone, Rigid Body Dynamics Algorithms, table 5.1.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(7)
    >>> q, v, qdd = arm.random(0), np.ones(7), np.ones(7)
    >>> tau = ds.inverse_dynamics(arm, q, v, qdd)
    >>> bool(np.allclose(ds.forward_dynamics(arm, q, v, tau).qdd, qdd))
    True
    """
    states = {"q": q, "v": v, "qdd": qdd}
    return bind(tree, (), INVERSE_DYNAMICS, states, AUTO, payloads=payloads, **given).run()["tau"]


def bias_force(tree: Tree, q: ArrayLike, v: ArrayLike, *, payloads: Payloads = None, **given: Unpack[Motion]) -> Array:
    """Joint forces ``c`` that keep ``q̈ = 0``: Coriolis, centrifugal, gravity, wrenches, passive forces.

    Takes what `inverse_dynamics` takes, without ``qdd``, and raises what that raises.

    Returns
    -------
    (..., nv) array
        In N and N·m, as ``pinocchio.nonLinearEffects`` with ``passive="none"`` and without wrenches.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.bias_force(arm, arm.random(0), np.ones(7)).shape
    (7,)
    """
    return bind(tree, (), BIAS_FORCE, {"q": q, "v": v}, AUTO, payloads=payloads, **given).run()["c"]
