"""Laws of contact as projections: the impulse of a row group at a given argument, and its derivative.

With a compliance ``R`` (1/kg) the impulse at relative velocities ``u`` is ``r = P_C(y)``, ``y = −(u + s) / R``:

- contacts: ``C = {|r_t| ≤ μ r_n + friction_offset, r_n ≥ 0}``, components tangent, tangent, normal; ``s = (0, 0, μ
  |u_t|)`` is De Saxcé's shift, which makes the optimality of a convex problem Coulomb's law;
- joints: friction up to ``friction_offset``, and limits that hold velocities from ``l ≤ 0`` to ``h ≥ 0``. Of both
  together, ``−r`` is a subgradient of ``friction_offset |u|`` within the limits. With ``y = r − u / R``, in place of
  the projection there is ``r = y + u / R`` at the velocity ``u`` that is left of ``−R y`` by friction and limits (a
  proximal mapping).

Either is the gradient of a convex function, so that its derivative ``P`` is symmetric and positive semidefinite.
"""

from __future__ import annotations

import math

from delassus.compiler.jit.compile import inlined

CONTACT, JOINT = range(2)
"""Kinds of row groups; contacts have three rows, joints one, the last of three places."""

OUT_OF_REACH = 1e20
"""Velocity (m/s, rad/s) of what does not take part."""

Law = tuple[float, float, float, float, float, float, float, float, float]


@inlined
def impulse(kind: int, mu: float, friction_offset: float, x: float, y: float, z: float) -> Law:
    """``r = P_C(x, y, z)`` and the derivative ``P``: xx, xy, yy, xz, yz, zz. Of joints, ``x = −l`` and ``y = −h``."""
    if kind == JOINT:
        u, held = 0.0, 1.0
        if abs(z) > friction_offset:
            u, held = friction_offset - z if z > 0.0 else -z - friction_offset, 0.0
        if u <= -x or u >= -y:
            u, held = min(max(u, -x), -y), 1.0
        return 0.0, 0.0, z + u, 0.0, 0.0, 0.0, 0.0, 0.0, held
    t = math.sqrt(x * x + y * y)
    if t <= mu * z + friction_offset and z >= 0.0:
        if t == 0.0 and mu == 0.0 and friction_offset == 0.0:
            return 0.0, 0.0, z, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0
        return x, y, z, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0
    if z < 0.0 and t <= friction_offset:
        return x, y, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0
    over = 1.0 / (1.0 + mu * mu)
    n = (z + mu * (t - friction_offset)) * over
    along = 1.0  # 1 on the slope of the cone, where the normal changes too
    if n < 0.0:
        n, along = 0.0, 0.0
    if t == 0.0:
        return 0.0, 0.0, n, 0.0, 0.0, 0.0, 0.0, 0.0, along
    e, f, radius = x / t, y / t, mu * n + friction_offset
    across, steep = radius / t, along * over
    own = mu * mu * steep - across
    return (
        radius * e, radius * f, n,
        across + own * e * e, own * e * f, across + own * f * f, mu * steep * e, mu * steep * f, steep,
    )  # fmt: skip
