"""Vectors of scalars; cross products of motions and forces, momentum and force of a rigid body, ``[linear; angular]``.

Written entry by entry, so that a backend that knows structural zeros pays for none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add

import numpy as np

from delassus.spatial.ops import Matrix, Ops, Scalar, ScalarOps
from delassus.spatial.rotations import Array

LINEAR, ANGULAR = (0, 1, 2), (3, 4, 5)
"""Rows of a motion or force column."""


def column(ops: Ops, a: Matrix) -> list[Scalar]:
    """Entries of a matrix of one column."""
    return [row[0] for row in ops.entries(a)]


def from_entries(ops: Ops, a: Sequence[Scalar]) -> Matrix:
    """Matrix of one column; no entries give one of no rows."""
    return ops.matrix([[x] for x in a]) if len(a) else ops.zeros(0, 1)


def diagonal(ops: Ops, entries: Sequence[Scalar]) -> Matrix:
    """Diagonal matrix; none give one of no rows."""
    if not entries:
        return ops.zeros(0, 0)
    return ops.matrix([[x if i == j else 0.0 for j in range(len(entries))] for i, x in enumerate(entries)])


def over_sizes(ops: Ops, squares: Sequence[Scalar]) -> Matrix:
    """Diagonal matrix of ``1/√x``, and of 1 where a square ``x`` is zero: it makes rows or columns of length one."""
    return diagonal(ops, [1.0 / ops.sqrt(x + (1.0 - ops.less(0.0, x))) for x in squares])


def scaled(ops: Ops, factors: Sequence[Scalar], a: Matrix) -> Matrix:
    """Column with each entry multiplied by its factor."""
    return from_entries(ops, [s * x for s, x in zip(factors, column(ops, a), strict=True)])


def scaled_matrix(ops: Ops, factor: Scalar, a: Matrix) -> Matrix:
    """Matrix multiplied by a number."""
    rows = [[factor * x for x in row] for row in ops.entries(a)]
    return ops.matrix(rows) if rows else a


def dot(a: Iterable[Scalar], b: Iterable[Scalar]) -> Scalar:
    """``a · b``."""
    products = [x * y for x, y in zip(a, b, strict=True)]
    return reduce(add, products) if products else 0.0


def entries_by_row(ops: Ops, a: Matrix) -> list[Scalar]:
    """All entries, row by row."""
    return [x for row in ops.entries(a) for x in row]


def from_rows(ops: Ops, entries: Sequence[Scalar], width: int) -> Matrix:
    """Matrix of so many columns from its entries, row by row."""
    return ops.matrix([entries[k : k + width] for k in range(0, len(entries), width)])


def plus(a: Iterable[Scalar], b: Iterable[Scalar]) -> list[Scalar]:
    """``a + b``."""
    return [x + y for x, y in zip(a, b, strict=True)]


def minus(a: Iterable[Scalar], b: Iterable[Scalar]) -> list[Scalar]:
    """``a − b``."""
    return [x - y for x, y in zip(a, b, strict=True)]


def plus_scaled(a: Iterable[Scalar], b: Iterable[Scalar], part: Scalar) -> list[Scalar]:
    """``a + part b``."""
    return [x + part * y for x, y in zip(a, b, strict=True)]


def chosen(ops: ScalarOps, condition: Scalar, a: Iterable[Scalar], b: Iterable[Scalar]) -> list[Scalar]:
    """``a`` where the condition holds, else ``b``, item by item."""
    return [ops.select(condition, x, y) for x, y in zip(a, b, strict=True)]


def cross_entries(a: Sequence[Scalar], b: Sequence[Scalar]) -> list[Scalar]:
    """Cross product of two 3-vectors."""
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def cross(ops: Ops, a: Matrix, b: Matrix) -> Matrix:
    """Cross product of two 3-vectors (3 × 1)."""
    return from_entries(ops, cross_entries(column(ops, a), column(ops, b)))


def cross_matrix(ops: Ops, a: Matrix) -> Matrix:
    """Matrix (3 × 3) of ``b ↦ a × b``."""
    x, y, z = column(ops, a)
    return ops.matrix([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def motion_cross(ops: Ops, V: Matrix, W: Matrix) -> Matrix:
    """``V × W``: rate of the motion ``W`` that is fixed in a frame moving with the twist ``V`` (6 × 1)."""
    v, w = column(ops, V), column(ops, W)
    rotated, carried = cross_entries(v[3:], w[:3]), cross_entries(v[:3], w[3:])
    linear = [x + y for x, y in zip(rotated, carried, strict=True)]
    return from_entries(ops, linear + cross_entries(v[3:], w[3:]))


def linear_at(ops: Ops, V: Matrix, p: Matrix) -> Matrix:
    """Linear part (3 × 1) of a motion at the point ``p``: ``v + ω × p``."""
    return ops.take(V, LINEAR, None) + cross(ops, ops.take(V, ANGULAR, None), p)


def bias_force(ops: Ops, H: Matrix, V: Matrix) -> Matrix:
    """``V ×* H V`` (6 × 1) of a rigid body with the inertia ``H`` and the twist ``V``.

    With mass m, first moment h and second moments I about the origin this is ``[m u + ω × (ω × h); h × u + ω × I ω]``,
    ``u = ω × v``: the products of ``m v`` with ``v`` vanish and those of ``h`` merge (Jacobi's identity).
    """
    inertia, twist = ops.entries(H), column(ops, V)
    m, h = inertia[0][0], [inertia[5][1], inertia[3][2], inertia[4][0]]
    v, w = twist[:3], twist[3:]
    u = cross_entries(w, v)
    Iw = [inertia[i][3] * w[0] + inertia[i][4] * w[1] + inertia[i][5] * w[2] for i in ANGULAR]
    force = [m * x + y for x, y in zip(u, cross_entries(w, cross_entries(w, h)), strict=True)]
    moment = [x + y for x, y in zip(cross_entries(h, u), cross_entries(w, Iw), strict=True)]
    return from_entries(ops, force + moment)


def turning_matrix(ops: Ops, alpha: Sequence[Scalar], a: Sequence[Scalar], b: Sequence[Scalar]) -> Matrix:
    """Matrix (3 × 3) of ``r ↦ α × r + a × (b × r) + b × (a × r)``, three 3-vectors given.

    With ``a = b = ω / √2`` it takes points of a body to their accelerations beyond that of its origin.
    """
    twice = [(x + x) * y for x, y in zip(a, b, strict=True)]
    xy, yz, zx = (a[i] * b[j] + a[j] * b[i] for i, j in ((0, 1), (1, 2), (2, 0)))
    x, y, z = alpha
    return ops.matrix([
        [-(twice[1] + twice[2]), xy - z, zx + y],
        [xy + z, -(twice[0] + twice[2]), yz - x],
        [zx - y, yz + x, -(twice[0] + twice[1])],
    ])  # fmt: skip


def force_of_points(
    ops: Ops, mass: Scalar, h: Sequence[Scalar], inertia: Sequence[Sequence[Scalar]], a: Matrix, A: Matrix
) -> Matrix:
    """Force (6 × 1) on a body whose points ``r`` have the accelerations ``a + A r``.

    ``[m a + A h; h × a + Σ ∫ r × A r]`` with its first moment h, and moments of inertia about the origin of ``r``.
    """
    trace = 0.5 * (inertia[0][0] + inertia[1][1] + inertia[2][2])
    second = ops.matrix([[trace - x if i == j else -x for j, x in enumerate(row)] for i, row in enumerate(inertia)])
    force = plus([mass * x for x in column(ops, a)], column(ops, A @ from_entries(ops, h)))
    turned = ops.entries(A @ second)
    moment = [turned[j][i] - turned[i][j] for i, j in ((1, 2), (2, 0), (0, 1))]
    return from_entries(ops, force + plus(cross_entries(h, column(ops, a)), moment))


def bias_force_about_centre(ops: Ops, mass: float, centre: Array, inertia: Array, V: Matrix) -> Matrix:
    """Bias force of a body whose centre of mass, and moments of inertia (3 × 3) about it, are known numbers.

    ``[f; c × f + ω × I_c ω]`` with ``f = m ω × (v + ω × c)``.
    """
    twist, c = column(ops, V), [float(x) for x in centre]
    v, w = twist[:3], twist[3:]
    v_centre = [x + y for x, y in zip(v, cross_entries(w, c), strict=True)]
    force = [mass * x for x in cross_entries(w, v_centre)]
    Iw = [row[0] * w[0] + row[1] * w[1] + row[2] * w[2] for row in np.asarray(inertia, dtype=float).tolist()]
    moment = [x + y for x, y in zip(cross_entries(c, force), cross_entries(w, Iw), strict=True)]
    return from_entries(ops, force + moment)


def momentum_of_parameters(ops: Ops, V: Matrix) -> Matrix:
    """Matrix (6 × 10) that makes the momentum ``H V`` of a body with the twist ``V`` (6 × 1) of its ten parameters.

    With m, h and I, in the order of `model.inertia`, that is ``[m v + ω × h; h × v + I ω]``.
    """
    x, y, z, a, b, c = column(ops, V)
    return ops.matrix(
        [
            [x, 0.0, -c, b, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            [y, c, 0.0, -a, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            [z, -b, a, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            [0.0, 0.0, z, -y, a, b, 0.0, c, 0.0, 0.0],
            [0.0, -z, 0.0, x, 0.0, a, b, 0.0, c, 0.0],
            [0.0, y, -x, 0.0, 0.0, 0.0, 0.0, a, b, c],
        ]
    )


def force_of_parameters(ops: Ops, V: Matrix, a: Matrix) -> Matrix:
    """Matrix (6 × 10) that makes the force ``H a + V ×* H V`` of a body of its ten parameters.

    With ``d = a + ω × v``, the classical acceleration of the origin, it is
    ``[m d + α × h + ω × (ω × h); h × d + I α + ω × I ω]``: a momentum at ``[d; α]``, and ``ω ×`` that at ``[0; ω]``.
    """
    v, w = ops.take(V, LINEAR, None), ops.take(V, ANGULAR, None)
    W, turning = cross_matrix(ops, w), momentum_of_parameters(ops, ops.vstack([ops.zeros(3, 1), w]))
    classical = a + ops.vstack([W @ v, ops.zeros(3, 1)])
    turned = [W @ ops.take(turning, part, None) for part in (LINEAR, ANGULAR)]
    return momentum_of_parameters(ops, classical) + ops.vstack(turned)


def motion_matrix(ops: Ops, V: Matrix) -> Matrix:
    """``V ×`` (6 × 6) on motions; ``V ×* = −(V ×)ᵀ`` on forces."""
    v, w = cross_matrix(ops, ops.take(V, LINEAR, None)), cross_matrix(ops, ops.take(V, ANGULAR, None))
    return ops.vstack([ops.hstack([w, v]), ops.hstack([ops.zeros(3, 3), w])])


def force_matrix(ops: Ops, F: Matrix) -> Matrix:
    """Matrix (6 × 6) of ``s ↦ s ×* F``."""
    f, m = cross_matrix(ops, ops.take(F, LINEAR, None)), cross_matrix(ops, ops.take(F, ANGULAR, None))
    return -ops.vstack([ops.hstack([ops.zeros(3, 3), f]), ops.hstack([f, m])])
