"""Elementary displacements, child → parent, what each does to 6×6 matrices, and the fewest that make a rotation.

A symmetric matrix is ``[[A, B], [Bᵀ, C]]`` with 3×3 blocks. A rotation about a coordinate axis touches two coordinates,
a signed permutation none: each with as few operations as possible. Staged transforms are made of them
(`transform.StagedTransform`).
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from delassus.spatial.motion import dot
from delassus.spatial.rotations import Array

if TYPE_CHECKING:
    from delassus.spatial.ops import Matrix, Ops

Entries = list[list[Any]]
Blocks = tuple[Entries, Entries, Entries]
"""``A``, ``B``, ``C`` of a symmetric matrix."""

ZERO = [0.0, 0.0, 0.0]

EYE = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


class Rotation(ABC):
    """Base of rotations; those of fewer operations override `symmetric` and `general`."""

    @abstractmethod
    def rows(self) -> Entries:
        """3×3 matrix ``R``, child axes → parent axes."""

    @abstractmethod
    def inverse(self) -> Rotation:
        """The rotation back."""

    def symmetric(self, A: Entries) -> Entries:
        """``R A Rᵀ`` of a symmetric matrix."""
        R = self.rows()
        RA = [[dot(R[i], [A[k][j] for k in range(3)]) for j in range(3)] for i in range(3)]
        out: Entries = [[0.0] * 3 for _ in range(3)]
        for i in range(3):
            for j in range(i + 1):
                out[i][j] = out[j][i] = dot(RA[i], R[j])
        return out

    def general(self, B: Entries) -> Entries:
        """``R B Rᵀ``."""
        R = self.rows()
        RB = [[dot(R[i], [B[k][j] for k in range(3)]) for j in range(3)] for i in range(3)]
        return [[dot(RB[i], R[j]) for j in range(3)] for i in range(3)]

    def motion_rows(self) -> Entries:
        """6×6 motion transform ``X``, parent coordinates → child coordinates."""
        E = self.inverse().rows()
        return [list(E[i]) + ZERO for i in range(3)] + [ZERO + list(E[i]) for i in range(3)]

    def congruence(self, A: Entries, B: Entries, C: Entries) -> Blocks:
        """Blocks of ``Xᵀ H X``."""
        return self.symmetric(A), self.general(B), self.symmetric(C)

    def rigid_congruence(self, m: Any, h: list[Any], C: Entries) -> tuple[list[Any], Entries]:
        """First and second mass moments of a body of mass ``m``, in the parent."""
        R = self.rows()
        return [dot(R[i], h) for i in range(3)], self.symmetric(C)

    def rotate(self, ops: Ops, V: Matrix) -> Matrix:
        """``R V``: vectors (3 × k) in the parent's axes."""
        return ops.matrix(self.rows()) @ V

    def move(self, ops: Ops, p: Matrix) -> Matrix:
        """Point (3 × 1) in the parent."""
        return self.rotate(ops, p)


@dataclass(frozen=True, slots=True)
class PlanarRotation(Rotation):
    """Rotation about coordinate axis ``axis`` by an angle of the given cosine and sine."""

    axis: int
    c: Any
    s: Any

    def rows(self) -> Entries:
        i, j = (self.axis + 1) % 3, (self.axis + 2) % 3
        R: Entries = [[1.0 if a == b else 0.0 for b in range(3)] for a in range(3)]
        R[i][i] = R[j][j] = self.c
        R[i][j], R[j][i] = -self.s, self.s
        return R

    def inverse(self) -> PlanarRotation:
        return PlanarRotation(self.axis, self.c, -self.s)

    def symmetric(self, A: Entries) -> Entries:
        k, c, s = self.axis, self.c, self.s
        i, j = (k + 1) % 3, (k + 2) % 3
        u = s * (A[i][i] - A[j][j]) + c * (A[i][j] + A[i][j])
        out: Entries = [list(row) for row in A]
        su = s * u
        out[i][i], out[j][j] = A[i][i] - su, A[j][j] + su
        out[i][j] = out[j][i] = c * u - A[i][j]
        out[i][k] = out[k][i] = c * A[i][k] - s * A[j][k]
        out[j][k] = out[k][j] = s * A[i][k] + c * A[j][k]
        return out

    def general(self, B: Entries) -> Entries:
        k, c, s = self.axis, self.c, self.s
        i, j = (k + 1) % 3, (k + 2) % 3
        u = s * (B[i][i] - B[j][j]) + c * (B[i][j] + B[j][i])
        out: Entries = [list(row) for row in B]
        su, cu = s * u, c * u
        out[i][i], out[j][j] = B[i][i] - su, B[j][j] + su
        out[i][j], out[j][i] = cu - B[j][i], cu - B[i][j]
        out[i][k], out[j][k] = c * B[i][k] - s * B[j][k], s * B[i][k] + c * B[j][k]
        out[k][i], out[k][j] = c * B[k][i] - s * B[k][j], s * B[k][i] + c * B[k][j]
        return out


@dataclass(frozen=True, slots=True)
class GeneralRotation(Rotation):
    """Rotation given by its 3×3 entries, child axes → parent axes."""

    entries: Entries

    def rows(self) -> Entries:
        return self.entries

    def inverse(self) -> GeneralRotation:
        return GeneralRotation([list(column) for column in zip(*self.entries, strict=True)])


@dataclass(frozen=True, slots=True)
class SignedPermutation(Rotation):
    """Constant rotation that maps coordinate axes to coordinate axes: ``parent[i] = sign[i] · child[source[i]]``."""

    source: tuple[int, int, int]
    sign: tuple[float, float, float]

    def rows(self) -> Entries:
        return [[self.sign[i] if self.source[i] == j else 0.0 for j in range(3)] for i in range(3)]

    def inverse(self) -> SignedPermutation:
        back = [self.source.index(i) for i in range(3)]
        sign = [self.sign[k] for k in back]
        return SignedPermutation((back[0], back[1], back[2]), (sign[0], sign[1], sign[2]))

    def symmetric(self, A: Entries) -> Entries:
        return self.general(A)

    def general(self, B: Entries) -> Entries:
        at, sign = self.source, self.sign
        return [
            [B[at[i]][at[j]] if sign[i] == sign[j] else -B[at[i]][at[j]] for j in range(3)] for i in range(3)
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Translation:
    """Displacement by ``p``, in the parent's axes."""

    p: list[Any]

    def inverse(self) -> Translation:
        return Translation([-x for x in self.p])

    def motion_rows(self) -> Entries:
        x, y, z = self.p
        minus_cross: Entries = [[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]]
        return [EYE[i] + minus_cross[i] for i in range(3)] + [ZERO + EYE[i] for i in range(3)]

    def congruence(self, A: Entries, B: Entries, C: Entries) -> Blocks:
        """``B'' = B − A p×`` and ``C'' = C + p× B'' + (p× B)ᵀ``."""
        p = self.p
        B2 = [[B[i][j] - _cross_column(A[i], p, j) for j in range(3)] for i in range(3)]
        C2 = [list(row) for row in C]
        for i in range(3):
            both = [[B2[k][i] + B[k][i]] for k in range(3)]
            C2[i][i] = C[i][i] + _cross_row(p, both, i, 0)
            for j in range(i):
                C2[i][j] = C2[j][i] = C[i][j] + (_cross_row(p, B2, i, j) + _cross_row(p, B, j, i))
        return A, B2, C2

    def rigid_congruence(self, m: Any, h: list[Any], C: Entries) -> tuple[list[Any], Entries]:
        """``h' = h + m p`` and ``C'' = C − h' pᵀ − p hᵀ + (p·h' + p·h) 1``."""
        p = self.p
        h2 = [h[i] + m * p[i] for i in range(3)]
        along = [p[i] * (h[i] + h2[i]) for i in range(3)]
        C2: Entries = [list(row) for row in C]
        for i in range(3):
            C2[i][i] = C[i][i] + (along[(i + 1) % 3] + along[(i + 2) % 3])
            for j in range(i):
                C2[i][j] = C2[j][i] = C[i][j] - (h2[i] * p[j] + p[i] * h[j])
        return h2, C2

    def rotate(self, ops: Ops, V: Matrix) -> Matrix:
        return V

    def move(self, ops: Ops, p: Matrix) -> Matrix:
        return p + ops.matrix([[x] for x in self.p])


ElementaryDisplacement = Rotation | Translation


def blocks(H: Entries) -> Blocks:
    """Blocks ``A``, ``B``, ``C`` of a symmetric matrix."""
    return [r[:3] for r in H[:3]], [r[3:] for r in H[:3]], [r[3:] for r in H[3:]]


def join(ops: Ops, A: Entries, B: Entries, C: Entries) -> Matrix:
    """Symmetric matrix of the blocks."""
    return ops.matrix([A[i] + B[i] for i in range(3)] + [[B[j][i] for j in range(3)] + C[i] for i in range(3)])


def _cross_column(a: list[Any], p: list[Any], j: int) -> Any:
    """Entry j of the row ``a p×``."""
    k, l = (j + 1) % 3, (j + 2) % 3
    return a[k] * p[l] - a[l] * p[k]


def _cross_row(p: list[Any], B: Entries, i: int, j: int) -> Any:
    """Entry (i, j) of ``p× B``."""
    k, l = (i + 1) % 3, (i + 2) % 3
    return p[k] * B[l][j] - p[l] * B[k][j]


def elementary_rotations(R: Array) -> tuple[tuple[PlanarRotation, ...], SignedPermutation | None]:
    """Factors of a rotation ``R`` (3 × 3, child axes → parent axes), whose product, left to right, it is.

    A signed permutation costs a sign for each −1 at most, far less than a rotation about an axis.
    """
    if np.min(np.abs(R)) > 4 * TINY and (three := _three_factors(R)) is not None:
        return three, None  # axes of no permutation are aligned
    best: tuple[tuple[PlanarRotation, ...], SignedPermutation | None] = (), None
    least, first = np.inf, 0
    permutations, costs = _signed_permutations()
    turned = R @ permutations.transpose(0, 2, 1)
    bounds = _fewest_factors(turned) + costs
    for k in np.argsort(bounds, kind="stable").tolist():
        if bounds[k] > least:
            break
        if (planar := _planar_factors(turned[k])) is None:
            continue
        cost = float(len(planar)) + costs[k]
        if cost < least or (cost == least and k < first):
            P, least, first = permutations[k], cost, k
            source = tuple(int(np.argmax(np.abs(P[i]))) for i in range(3))
            sign = tuple(float(P[i, source[i]]) for i in range(3))
            permutation = SignedPermutation((source[0], source[1], source[2]), (sign[0], sign[1], sign[2]))
            best = planar, permutation if k else None
    return best


TINY = 1e-15
"""Entries of a rotation below this are round-off."""


@cache
def _signed_permutations() -> tuple[Array, Array]:
    """Signed permutations that are rotations (24, 3, 3), the identity first, and what each costs (24,)."""
    out = []
    for order in itertools.permutations(range(3)):
        for signs in itertools.product((1.0, -1.0), repeat=3):
            P = np.zeros((3, 3))
            P[range(3), order] = signs
            if np.linalg.det(P) > 0:
                out.append(P)
    out.sort(key=lambda P: -np.trace(P))
    return np.array(out), np.array([0.0] + [0.1 * (1 + np.count_nonzero(P < 0.0)) for P in out[1:]])


def _fewest_factors(R: Array) -> Array:
    """Number of factors that `_planar_factors` finds of each of some rotations (k, 3, 3), or less."""
    off = np.abs(R - np.eye(3))
    along = np.array([off[:, k].max(axis=-1) + off[:, :, k].max(axis=-1) for k in range(3)]).min(axis=0)
    is_zero = np.array([off[:, a, b] for a, b in itertools.permutations(range(3), 2)]).min(axis=0) < TINY
    return np.select([off.max(axis=(1, 2)) < TINY, along < 8 * TINY, is_zero], [0.0, 1.0, 2.0], 3.0)


def _planar_factors(R: Array) -> tuple[PlanarRotation, ...] | None:
    """``R`` as a product of 0, 1, 2 or 3 planar rotations; None only where another permutation does better."""
    if np.max(np.abs(R - np.eye(3))) < TINY:
        return ()
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        rotation = PlanarRotation(k, float(R[i, i]), float(R[j, i]))
        if np.max(np.abs(np.array(rotation.rows()) - R)) < 4 * TINY:
            return (rotation,)
    for a, b in itertools.permutations(range(3), 2):  # R = R_a R_b leaves (R e_b)·e_a = 0
        if abs(R[a, b]) < TINY:
            i, j = (a + 1) % 3, (a + 2) % 3
            sine, cosine = (R[j, b], R[i, b]) if i == b else (-R[i, b], R[j, b])
            first = PlanarRotation(a, float(cosine), float(sine))
            rest = np.array(first.rows()).T @ R
            i, j = (b + 1) % 3, (b + 2) % 3
            second = PlanarRotation(b, float(rest[i, i]), float(rest[j, i]))
            if np.max(np.abs(np.array(first.rows()) @ np.array(second.rows()) - R)) < 4 * TINY:
                return first, second
    return _three_factors(R)


def _three_factors(R: Array) -> tuple[PlanarRotation, ...] | None:
    """``R`` as ``R_z R_y R_x``; None where the first column is nearly along z."""
    cosine = float(np.hypot(R[0, 0], R[1, 0]))
    if cosine < 1e-6:
        return None
    z = PlanarRotation(2, float(R[0, 0] / cosine), float(R[1, 0] / cosine))
    rest = np.array(z.rows()).T @ R  # takes up what z lost in the division
    y = PlanarRotation(1, float(rest[0, 0]), float(-rest[2, 0]))
    x = PlanarRotation(0, float(rest[1, 1]), float(-rest[1, 2]))
    return z, y, x
