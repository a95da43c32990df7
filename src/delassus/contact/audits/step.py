"""A contact step as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from delassus.errors import ConfigurationError, shown
from delassus.frozen import Frozen, cached_property, read_only
from delassus.model.check import check_list, check_number, check_text, common_batch, finite_array, real_array
from delassus.solvers.linear import mobilities
from delassus.solvers.problems import ASYMMETRY
from delassus.spatial.rotations import Array

OPTIONAL = "force", "friction_offset", "torsional", "rolling", "J_angular", "angular_impulses"
"""What is zero where it is not given."""

OF_PATCHES = OPTIONAL[2:]
"""What is none where it is zero, and fits steps of other sizes."""

NOT_NEGATIVE = "friction", "friction_offset", "torsional", "rolling"


def is_zero(x: Any) -> bool:
    """Whether something is an array of zeros."""
    array = real_array(x)
    return array is not None and not array.any()


TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True, eq=False)
class ContactStep(Frozen):
    """A time step with contacts: what it began with, and what a simulator made of it.

    Leading axes (...) are states. Components of a contact are tangent, tangent, normal. A limit of a joint is a contact
    with ``μ = 0`` and zero rows at its tangents; dry friction has one row at a tangent, and ``friction_offset``. Where
    states differ in their number of contacts, rows of zeros fill up.

    Attributes
    ----------
    M, J : (..., nv, nv) and (..., 3n, nv) array
        Mass matrix at the start; ``J v`` are velocities of first bodies relative to second ones (m/s).
    v_before, v_after : (..., nv) array
        Velocities at start and end, in the coordinates of ``M``.
    impulses : (..., n, 3) array
        On first bodies (N s). These and ``v_after`` need not be finite.
    friction, gaps : (..., n) array
        Coefficients ``μ``, and distances ``φ`` at the start (m), negative where bodies overlap.
    dt : float
        Time step (s).
    force : (..., nv) array, optional
        All else that acts, ``τ − c`` and forces of other constraints (N, N m); none by default. Of robots in steps of
        this library that is ``M (v* − v_before) / dt``, ``v*`` after the same step without contacts: their velocity
        products are those of the mean velocity.
    friction_offset : (..., n) array, optional
        By how much friction may exceed ``μ p_n`` (N s); 0 by default.
    velocity_offset : (..., n, 3) array, optional
        ``d`` (m/s), ``max(φ, 0) / dt`` along normals by default. With Newton's restitution normals have ``ε u_n⁻``; on
        moving surfaces tangents have minus their velocity. Steps of this library add what contacts that touch turn by,
        as `Simulator.turning` has it.
    names : sequence of str, optional
        Of contacts.
    torsional, rolling : (..., n) array, optional
        Lengths (m) of friction about the normal and across it; 0 by default.
    J_angular : (..., 3n, nv) array, optional
        ``J_angular v`` are angular velocities of first bodies relative to second ones about the same axes (rad/s);
        needed where there are lengths.
    angular_impulses : (..., n, 3) array, optional
        On first bodies (N m s); these need not be finite.

    Raises
    ------
    ConfigurationError
        Wrong shapes, data that are not finite, ``M`` not symmetric and positive definite, ``μ < 0`` or ``dt ≤ 0``.

    Examples
    --------
    A ball of 2 kg that falls onto the floor at 1 m/s and stops.

    >>> import numpy as np
    >>> from delassus.contact import ContactStep, audit
    >>> weight, momentum = [0, 0, -2 * 9.81], [[0, 0, 2 + 0.01 * 2 * 9.81]]
    >>> step = ContactStep(2 * np.eye(3), np.eye(3), [0, 0, -1], [0, 0, 0], momentum, [0.5], [0], 0.01, weight)
    >>> audit(step).verdict.name
    'RIGHT'
    """

    M: Array
    J: Array
    v_before: Array
    v_after: Array
    impulses: Array
    friction: Array
    gaps: Array
    dt: float
    force: Array | Any = None
    friction_offset: Array | Any = None
    velocity_offset: Array | Any = None
    names: Sequence[str] = ()
    torsional: Array | Any = None
    rolling: Array | Any = None
    J_angular: Array | Any = None
    angular_impulses: Array | Any = None

    def __post_init__(self) -> None:
        advice, a = "All in the same coordinates and order.", dict[str, Array]()
        M, J = (finite_array(getattr(self, name), (..., -1, -1), name, advice) for name in ("M", "J"))
        nv, n, dt = M.shape[-1:], J.shape[-2] // 3, check_number("dt", self.dt, "In s.")
        shapes = {"M": 2 * nv, "J": (3 * n, *nv), "v_before": nv, "v_after": nv, "impulses": (n, 3), "friction": (n,),
                  "gaps": (n,), "force": nv, "friction_offset": (n,), "velocity_offset": (n, 3), "torsional": (n,),
                  "rolling": (n,), "J_angular": (3 * n, *nv), "angular_impulses": (n, 3)}  # fmt: skip
        for name, shape in shapes.items():
            x, result = getattr(self, name), name in ("v_after", "impulses", "angular_impulses")
            if x is None and name == "velocity_offset":
                x = np.maximum(a["gaps"], 0.0)[..., None] * [0, 0, 1 / dt]
            elif (x is None and name in OPTIONAL) or (name in OF_PATCHES and is_zero(x)):
                given, x = x, np.zeros(shape)
                if name == "J_angular" and given is None and (a["torsional"].any() or a["rolling"].any()):
                    wanted = "angular velocities where contacts have torsional or rolling friction"
                    raise ConfigurationError(name, wanted, "none", "Rows about tangent, tangent, normal.")
            known = real_array(x) if result else None
            a[name] = finite_array(x if known is None else np.zeros(known.shape), (..., *shape), name, advice)
            a[name] = a[name] if known is None else known
        named = check_list("names", self.names, "names of contacts", "Or none.")
        names = tuple(check_text("names", x, "Of contacts.") for x in named) or tuple(f"contact {i}" for i in range(n))
        try:
            batch = np.broadcast_shapes(*(x.shape[: x.ndim - len(shapes[k])] for k, x in a.items()))
            np.linalg.cholesky(M := a["M"])
            right = np.abs(M - M.mT).max(initial=0.0) <= ASYMMETRY * np.abs(M).max(initial=0.0) and len(names) == n
            right = right and min(a[name].min(initial=0.0) for name in NOT_NEGATIVE) >= 0.0
        except (ValueError, np.linalg.LinAlgError):
            right = False
        if not right:
            expected = "leading axes that broadcast, M symmetric and positive definite, friction ≥ 0, a name a contact"
            raise ConfigurationError("a contact step", expected, str({k: x.shape for k, x in a.items()}), advice)
        wide = {name: read_only(np.broadcast_to(x, batch + shapes[name])) for name, x in a.items()}
        self._set_attributes(**wide, dt=dt, names=names)

    @cached_property
    def mobility(self) -> Array:
        """``ω`` (..., n): mean mobility of each contact (1/kg), as in `ConeProblem.residual`."""
        W, out = self.J @ np.linalg.solve(self.M, self.J.mT), np.empty(self.gaps.shape)
        for state in np.ndindex(out.shape[:-1]):
            out[state] = mobilities(np.ascontiguousarray(W[state]))[0]
        if not self.is_patch.any():
            return out
        turns = np.einsum("...ij,...ji->...i", self.J_angular, np.linalg.solve(self.M, self.J_angular.mT))
        own = np.diagonal(W, axis1=-2, axis2=-1).reshape(self.impulses.shape)
        each = np.concatenate([own, turns.reshape(own.shape)], axis=-1) * self._levers**2
        total = (each[..., :2] * (self.friction > 0.0)[..., None]).sum(axis=-1) + each[..., 2:].sum(axis=-1)
        return np.where(self.is_patch & (total > 0.0), total / 3.0, out)

    @cached_property
    def is_patch(self) -> Array:
        """Which contacts (..., n) have torsional or rolling friction."""
        return np.asarray((self.torsional > 0.0) | (self.rolling > 0.0))

    @cached_property
    def cone(self) -> Array:
        """Coefficient (..., n) of the cone of all friction: ``μ``, or 1 of patches without."""
        return np.where(self.is_patch & (self.friction == 0.0), 1.0, self.friction)

    @cached_property
    def _levers(self) -> Array:
        """By what velocities (..., n, 6) count, tangent, tangent, normal, and angular ones about these (1, m)."""
        over = np.stack([self.rolling, self.rolling, self.torsional], axis=-1) / np.maximum(self.cone, TINY)[..., None]
        return np.concatenate([np.ones(over.shape), np.where(self.is_patch[..., None], over, 0.0)], axis=-1)

    def in_plane(self, v: ArrayLike) -> tuple[Array, Array]:
        """Impulses and velocities (..., n, 3) in the plane of friction and of the velocity ``v`` (..., nv), and normal.

        Of patches, all five components of friction are one vector; along it is the first axis. Of others they are as
        they are. What acts where there is no friction is not among them: it is `stray`.
        """
        p, u = self.impulses, self.along(v) + self.velocity_offset
        if not self.is_patch.any() and not self.angular_impulses.any():
            return p, u
        levers, slides = self._levers[..., 3:], (self.friction > 0.0)[..., None]
        turning = np.where(levers > 0.0, self.angular_impulses / np.where(levers > 0.0, levers, 1.0), 0.0)
        every = np.concatenate([np.where(slides, p[..., :2], 0.0), turning], axis=-1)
        spins = (self.J_angular @ np.asarray(v, dtype=float)[..., None])[..., 0].reshape(u.shape)
        moves = np.concatenate([np.where(slides, u[..., :2], 0.0), levers * spins], axis=-1)
        size = np.linalg.norm(every, axis=-1, keepdims=True)
        axis = every / np.where(size > 0.0, size, 1.0)
        along = (axis * moves).sum(axis=-1, keepdims=True)
        across = np.linalg.norm(moves - along * axis, axis=-1, keepdims=True)
        is_own = self._has_plane[..., None]
        whole = np.concatenate([size, 0.0 * size, p[..., 2:]], axis=-1)
        return np.where(is_own, whole, p), np.where(is_own, np.concatenate([along, across, u[..., 2:]], axis=-1), u)

    @property
    def _has_plane(self) -> Array:
        """Which contacts (..., n) have friction that is more than that of a point, or torques."""
        return np.asarray(np.logical_or(self.is_patch, self.angular_impulses.any(axis=-1)))

    @cached_property
    def stray(self) -> Array:
        """Velocities (..., n) that impulses of patches make where these have no friction (m/s, rad/s).

        Those along tangents without Coulomb's friction, and those about axes without a length.
        """
        if not self._has_plane.any():
            return np.zeros(self.gaps.shape)
        turns = np.einsum("...ij,...ji->...i", self.J_angular, np.linalg.solve(self.M, self.J_angular.mT))
        mean = turns.reshape(self.impulses.shape).mean(axis=-1, keepdims=True)
        torques = np.where(self._levers[..., 3:] > 0.0, 0.0, self.angular_impulses)
        flat = np.where((self.friction > 0.0)[..., None], 0.0, self.impulses[..., :2])
        about = np.where(torques == 0.0, 0.0, np.where(mean > 0.0, mean, np.inf) * np.where(torques == 0.0, 1, torques))
        each = np.concatenate([self.mobility[..., None] * flat, about], axis=-1)
        return np.where(self._has_plane, np.linalg.norm(each, axis=-1), 0.0)

    def along(self, v: ArrayLike) -> Array:
        """Velocities (..., n, 3) of contacts at ``v`` (..., nv) (m/s)."""
        nv, x = self.M.shape[-1], real_array(v)  # which need not be finite
        if x is None or x.shape[-1:] != (nv,):
            raise ConfigurationError("v", f"shape (..., {nv})", shown(v), "In the coordinates of M.")
        common_batch("v", x.shape[:-1], "the step", self.J.shape[:-2])
        found = (self.J @ x[..., None])[..., 0]
        return np.asarray(found.reshape(*found.shape[:-1], *self.impulses.shape[-2:]))
