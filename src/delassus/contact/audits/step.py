"""A contact step as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from delassus.contact.problems import ASYMMETRY
from delassus.contact.solvers.linear import mobilities
from delassus.errors import ConfigurationError, shown
from delassus.frozen import Frozen, cached_property, read_only
from delassus.model.check import check_list, check_number, check_text, common_batch, finite_array, real_array
from delassus.spatial.rotations import Array


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
        All else that acts, ``τ − c`` and forces of other constraints (N, N m); none by default.
    friction_offset : (..., n) array, optional
        By how much friction may exceed ``μ p_n`` (N s); 0 by default.
    velocity_offset : (..., n, 3) array, optional
        ``d`` (m/s), ``max(φ, 0) / dt`` along normals by default. With Newton's restitution normals have ``ε u_n⁻``; on
        moving surfaces tangents have minus their velocity.
    names : sequence of str, optional
        Of contacts.

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

    def __post_init__(self) -> None:
        advice, a = "All in the same coordinates and order.", dict[str, Array]()
        M, J = (finite_array(getattr(self, name), (..., -1, -1), name, advice) for name in ("M", "J"))
        nv, n, dt = M.shape[-1:], J.shape[-2] // 3, check_number("dt", self.dt, "In s.")
        shapes = {"M": 2 * nv, "J": (3 * n, *nv), "v_before": nv, "v_after": nv, "impulses": (n, 3), "friction": (n,),
                  "gaps": (n,), "force": nv, "friction_offset": (n,), "velocity_offset": (n, 3)}  # fmt: skip
        for name, shape in shapes.items():
            x, result = getattr(self, name), name in ("v_after", "impulses")
            if x is None and name in ("force", "friction_offset", "velocity_offset"):
                x = np.maximum(a["gaps"], 0.0)[..., None] * [0, 0, 1 / dt] if shape == (n, 3) else np.zeros(shape)
            known = real_array(x) if result else None
            a[name] = finite_array(x if known is None else np.zeros(known.shape), (..., *shape), name, advice)
            a[name] = a[name] if known is None else known
        named = check_list("names", self.names, "names of contacts", "Or none.")
        names = tuple(check_text("names", x, "Of contacts.") for x in named) or tuple(f"contact {i}" for i in range(n))
        try:
            batch = np.broadcast_shapes(*(x.shape[: x.ndim - len(shapes[k])] for k, x in a.items()))
            np.linalg.cholesky(M := a["M"])
            right = np.abs(M - M.mT).max(initial=0.0) <= ASYMMETRY * np.abs(M).max(initial=0.0) and len(names) == n
            right = right and min(a[name].min(initial=0.0) for name in ("friction", "friction_offset")) >= 0.0
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
        return out

    def along(self, v: ArrayLike) -> Array:
        """Velocities (..., n, 3) of contacts at ``v`` (..., nv) (m/s)."""
        nv, x = self.M.shape[-1], real_array(v)  # which need not be finite
        if x is None or x.shape[-1:] != (nv,):
            raise ConfigurationError("v", f"shape (..., {nv})", shown(v), "In the coordinates of M.")
        common_batch("v", x.shape[:-1], "the step", self.J.shape[:-2])
        found = (self.J @ x[..., None])[..., 0]
        return np.asarray(found.reshape(*found.shape[:-1], *self.impulses.shape[-2:]))
