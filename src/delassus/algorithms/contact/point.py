"""The impulse of one contact point, all three rows at once, from its own mobility ``W`` and its velocity ``u``.

With ``c = u − W p`` the impulse ``r`` in the cone ``|r_t| ≤ μ r_n`` and ``W r + c`` obey Coulomb's law: the contact is
open (``c_n ≥ 0``, ``r = 0``), sticks (``W r + c = 0``), or slides: ``u_n = 0``, ``u_t = −α r_t``, ``|r_t| = μ r_n``.
Eliminating ``r_n`` by ``u_n = 0`` leaves the Schur complement ``A`` (2 × 2) and

    r_t = −R(α) / D(α),   R = adj(A) c̃ + α c̃,   D = det(A + α),   r_n = N(α) / D(α),

with ``α = 0`` where it sticks, and else a zero of ``μ N − |R|``: a quadratic less the length of a point on a line.
Steps of Newton's method go from the ``α`` that the caller keeps from one call to the next; of ``α`` only the direction
of ``R`` is used. What stays where it is, with its ``α``, solves the law in any precision.

*Deviation*: ``W_nn`` is raised to ``2 μ |W_tn|`` where it is smaller; what changes by that is taken from ``p``, so that
the law at rest is the same. Points at which friction may press in as much as the normal impulse itself have two
solutions or none nearby, between which sweeps over several points would go back and forth without end.

Source: the equation is that of `delassus.contact.solvers.coulomb`, without branches and brackets.
"""

from __future__ import annotations

from collections.abc import Sequence

from delassus.spatial.ops import SQUARE_FLOOR, Ops, Scalar

STEPS = 2
"""Steps of Newton's method at a time."""

LARGEST_SLIP = 1e4
"""Largest ``α``, relative to the tangential mobility: from there on friction is against ``c̃``."""

LARGEST_PRESSING = 0.5
"""Largest part of a normal impulse by which friction that it allows adds to it, ``μ |W_tn| / W_nn``."""

LEAST_SHARE = 1e-6
"""Least normal impulse without friction, relative to that with it."""


class PointBlock:
    """A contact point alone: its block ``W`` (3 × 3; tangent, tangent, normal; 1/kg) and friction coefficient.

    ``least`` (1/kg) is added to mobilities: what can hardly move stays where it was. ``is_only``: no other impulses.

    Attributes
    ----------
    far : Scalar
        The largest ``α`` (1/kg), to start from: the first step goes to where it is if ``A`` is isotropic.
    """

    def __init__(self, ops: Ops, W: Sequence[Sequence[Scalar]], friction: Scalar, least: Scalar, is_only: bool) -> None:
        self.ops, self.friction = ops, friction
        normal = W[2][2] + least
        if not is_only:
            pressing = friction * ops.sqrt(W[0][2] * W[0][2] + W[1][2] * W[1][2] + SQUARE_FLOOR)
            normal = ops.maximum(normal, (1.0 / LARGEST_PRESSING) * pressing)
        self.W = [list(W[0]), list(W[1]), [W[2][0], W[2][1], normal]]
        self.over_normal = 1.0 / normal
        self.h = [W[0][2] * self.over_normal, W[1][2] * self.over_normal]
        h, k = self.h
        self.a, self.d = W[0][0] + least - h * h * normal, W[1][1] + least - k * k * normal
        self.b = W[0][1] - h * k * normal
        self.trace = self.a + self.d
        self.det = ops.maximum(self.a * self.d - self.b * self.b, 0.5 * least * self.trace)
        self.over_det = 1.0 / self.det
        self.far = LARGEST_SLIP * self.trace

    def solve(self, p: Sequence[Scalar], u: Sequence[Scalar], slip: Scalar) -> tuple[list[Scalar], Scalar]:
        """Impulse (3) in place of ``p``, at which the velocity is ``u``; and ``α``, from ``slip`` on."""
        ops, mu, (h, k), trace, det = self.ops, self.friction, self.h, self.trace, self.det
        alone = p[2] + h * p[0] + k * p[1] - u[2] * self.over_normal  # normal impulse without friction
        v0, v1 = u[0] - h * u[2], u[1] - k * u[2]
        c0, c1 = v0 - (self.a * p[0] + self.b * p[1]), v1 - (self.b * p[0] + self.d * p[1])
        r0, r1 = (self.d * v0 - self.b * v1) - det * p[0], (self.a * v1 - self.b * v0) - det * p[1]
        # μ N = (n2 α + n1) α + n0 and |R|² = (t2 α + 2 t1) α + t0
        n0, n1, n2 = mu * (alone * det + (h * r0 + k * r1)), mu * (alone * trace + (h * c0 + k * c1)), mu * alone
        t0, t1, t2 = r0 * r0 + r1 * r1, r0 * c0 + r1 * c1, c0 * c0 + c1 * c1
        x = slip
        for _ in range(STEPS):  # on (μ N − |R|) / (α + ½ tr A), which is nearly straight
            rate = t2 * x + t1
            length = ops.sqrt(ops.maximum((rate + t1) * x + t0, SQUARE_FLOOR))
            mean = x + 0.5 * trace
            excess = (((n2 * x + n1) * x + n0) - length) * length
            slope = ((2.0 * n2 * x + n1) * length - rate) * mean - excess
            step = x - excess * mean / ops.maximum(slope, SQUARE_FLOOR)
            x = ops.maximum(ops.minimum(ops.select(ops.less(0.0, slope), step, 2.0 * x + trace), self.far), 0.0)
        limit = ops.maximum(n0, 0.0)
        closed, slides = ops.less(0.0, alone), ops.less(limit * limit, t0)
        f0, f1 = r0 + x * c0, r1 + x * c1
        over = -1.0 / ops.sqrt(f0 * f0 + f1 * f1 + SQUARE_FLOOR)
        e0, e1 = over * f0, over * f1
        sliding = alone / ops.maximum(1.0 + mu * (h * e0 + k * e1), LEAST_SHARE)
        s0, s1 = -(r0 * self.over_det), -(r1 * self.over_det)
        found = [(mu * sliding * e0, s0), (mu * sliding * e1, s1), (sliding, alone - (h * s0 + k * s1))]
        moves = ops.select(closed, slides, 0.0)
        return [ops.select(closed, ops.select(slides, y, z), 0.0) for y, z in found], ops.select(moves, x, slip)
