"""The law of a group of rows, in one text for kernels, compiled loops and arrays.

Impulses ``p`` of a group with the mobility ``w`` obey their law where they are images of themselves,

    w p = P(w p − u − s),

with ``P`` the projection on what is allowed, and ``s``, De Saxcé's shift, ``(0, 0, μ |u_t|)`` at contacts. Their
distance from that, a velocity, is the *residual*.

- *Contacts*, tangent, tangent, normal: ``|p_t| ≤ μ p_n + friction_offset``, ``p_n ≥ 0``. With the shift, the optimality
  of a convex problem becomes Coulomb's law.
- *Joints*: friction up to ``friction``, and limits that hold velocities from ``least ≤ 0`` to ``most ≥ 0``. Of both
  together, ``−p`` is a subgradient of ``friction |u|`` within the limits; ``P(z) = z + u`` with the velocity ``u`` that
  friction and limits leave of ``−z``.

Either map is the gradient of a convex function, so that its derivative is symmetric and positive semidefinite.
Source: De Saxcé and Feng 1998; Alart and Curnier 1991.
"""

from __future__ import annotations

from collections.abc import Sequence

from delassus.spatial.ops import Scalar, ScalarOps

TINY = 1e-30
"""Length below which there is none."""

Cone = tuple[Scalar, Scalar, Scalar, Scalar, Scalar, Scalar, Scalar, Scalar, Scalar]
"""An impulse, and the derivative: xx, xy, yy, xz, yz, zz."""


def cone(ops: ScalarOps, mu: Scalar, friction_offset: Scalar, x: Scalar, y: Scalar, z: Scalar) -> Cone:
    """The nearest allowed impulse of a contact, and its derivative."""
    over, t = 1.0 / (1.0 + mu * mu), ops.length(x, y)
    onto = ops.maximum(z, (z + mu * (t - friction_offset)) * over)
    n, presses = ops.maximum(onto, 0.0), 1.0 - ops.less(onto, 0.0)
    limit = mu * n + friction_offset
    over_t = 1.0 / ops.maximum(t, TINY)
    sticks = ops.less(t, limit)
    across = ops.select(sticks, 1.0, limit * over_t)
    e, f = x * over_t, y * over_t
    steep = ops.select(sticks, 0.0, presses * over)
    own = ops.select(sticks, 0.0, mu * mu * steep - across)
    return (
        across * x, across * y, n,
        across + own * e * e, own * e * f, across + own * f * f,
        mu * steep * e, mu * steep * f, ops.select(sticks, presses, steep),
    )  # fmt: skip


def joint(
    ops: ScalarOps, friction: Scalar | None, least: Scalar | None, most: Scalar | None, z: Scalar
) -> tuple[Scalar, Scalar]:
    """``P(z)`` of a joint, and its derivative: 1 where the velocity is held, else 0; None is without."""
    u: Scalar = -z
    free: Scalar = 1.0
    if friction is not None:
        u, free = clamped(ops, z, -friction, friction) - z, ops.less(friction, ops.maximum(z, -z))
    if most is not None:
        u, free = ops.minimum(u, most), free * ops.less(u, most)
    if least is not None:
        u, free = ops.maximum(u, least), free * ops.less(least, u)
    return z + u, 1.0 - free


def point_image(
    ops: ScalarOps, mu: Scalar, friction_offset: Scalar, w: Scalar, p: Sequence[Scalar], u: Sequence[Scalar]
) -> tuple[Scalar, Scalar, Scalar]:
    """``P(w p − u − s)`` of a contact, velocities."""
    found = cone(
        ops, mu, w * friction_offset, w * p[0] - u[0], w * p[1] - u[1], w * p[2] - u[2] - mu * ops.length(u[0], u[1])
    )
    return found[0], found[1], found[2]


def clamped(ops: ScalarOps, x: Scalar, least: Scalar, most: Scalar) -> Scalar:
    """``x``, or the bound that it is beyond."""
    return ops.maximum(ops.minimum(x, most), least)
