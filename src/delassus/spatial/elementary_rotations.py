"""Rotations as turns about coordinate axes: what staged transforms are made of.

A turn about a coordinate axis touches two coordinates, a signed permutation none; a constant rotation is written as the
fewest of them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from delassus.model.rotations import Array

Entries = list[list[Any]]


@dataclass(frozen=True, slots=True)
class PlanarTurn:
    """Rotation about coordinate axis ``axis`` by an angle of the given cosine and sine."""

    axis: int
    c: Any
    s: Any

    def rows(self) -> Entries:
        """3×3 matrix, child axes → parent axes."""
        i, j = (self.axis + 1) % 3, (self.axis + 2) % 3
        R: Entries = [[1.0 if a == b else 0.0 for b in range(3)] for a in range(3)]
        R[i][i] = R[j][j] = self.c
        R[i][j], R[j][i] = -self.s, self.s
        return R

    def inverse(self) -> PlanarTurn:
        """The turn back."""
        return PlanarTurn(self.axis, self.c, -self.s)


@dataclass(frozen=True, slots=True)
class GeneralTurn:
    """Rotation given by its 3×3 entries, child axes → parent axes."""

    entries: Entries

    def rows(self) -> Entries:
        """3×3 matrix, child axes → parent axes."""
        return self.entries

    def inverse(self) -> GeneralTurn:
        """The turn back."""
        return GeneralTurn([list(column) for column in zip(*self.entries, strict=True)])


@dataclass(frozen=True, slots=True)
class SignedPermutation:
    """Constant rotation that maps coordinate axes to coordinate axes: ``parent[i] = sign[i] · child[source[i]]``."""

    source: tuple[int, int, int]
    sign: tuple[float, float, float]

    def rows(self) -> Entries:
        """3×3 matrix, child axes → parent axes."""
        return [[self.sign[i] if self.source[i] == j else 0.0 for j in range(3)] for i in range(3)]

    def inverse(self) -> SignedPermutation:
        """The turn back."""
        back = [self.source.index(i) for i in range(3)]
        sign = [self.sign[k] for k in back]
        return SignedPermutation((back[0], back[1], back[2]), (sign[0], sign[1], sign[2]))


Turn = PlanarTurn | GeneralTurn | SignedPermutation


def elementary_turns(R: Array) -> tuple[Turn, ...]:
    """Write a constant rotation as the fewest turns about coordinate axes, times a signed permutation if it helps.

    Their product, left to right, is ``R`` (child axes → parent axes).
    """
    best: tuple[Turn, ...] | None = None
    for P in _signed_permutations():
        planar = _planar_factors(R @ P.T)
        if planar is None:
            continue
        turns: tuple[Turn, ...] = planar
        if not np.array_equal(P, np.eye(3)):
            source = tuple(int(np.argmax(np.abs(P[i]))) for i in range(3))
            sign = tuple(float(P[i, source[i]]) for i in range(3))
            turns = (*planar, SignedPermutation((source[0], source[1], source[2]), (sign[0], sign[1], sign[2])))
        if best is None or _cost(turns) < _cost(best):
            best = turns
    assert best is not None
    return best


def _cost(turns: tuple[Turn, ...]) -> float:
    permutations = [t for t in turns if isinstance(t, SignedPermutation)]
    return len(turns) - len(permutations) + sum(0.1 * (1 + t.sign.count(-1.0)) for t in permutations)


@cache
def _signed_permutations() -> tuple[Array, ...]:
    out = []
    for order in itertools.permutations(range(3)):
        for signs in itertools.product((1.0, -1.0), repeat=3):
            P = np.zeros((3, 3))
            P[range(3), order] = signs
            if np.linalg.det(P) > 0:
                out.append(P)
    out.sort(key=lambda P: -np.trace(P))
    return tuple(out)


def _planar_factors(R: Array) -> tuple[PlanarTurn, ...] | None:
    """``R`` as a product of 0, 1, 2 or 3 planar turns; None only where another permutation does better."""
    tiny = 1e-15
    if np.max(np.abs(R - np.eye(3))) < tiny:
        return ()
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        turn = PlanarTurn(k, float(R[i, i]), float(R[j, i]))
        if np.max(np.abs(np.array(turn.rows()) - R)) < 4 * tiny:
            return (turn,)
    for a, b in itertools.permutations(range(3), 2):  # R = R_a R_b leaves (R e_b)·e_a = 0
        if abs(R[a, b]) < tiny:
            i, j = (a + 1) % 3, (a + 2) % 3
            sine, cosine = (R[j, b], R[i, b]) if i == b else (-R[i, b], R[j, b])
            first = PlanarTurn(a, float(cosine), float(sine))
            rest = np.array(first.rows()).T @ R
            i, j = (b + 1) % 3, (b + 2) % 3
            second = PlanarTurn(b, float(rest[i, i]), float(rest[j, i]))
            if np.max(np.abs(np.array(first.rows()) @ np.array(second.rows()) - R)) < 4 * tiny:
                return first, second
    cosine = float(np.hypot(R[0, 0], R[1, 0]))  # R = R_z R_y R_x
    if cosine < 1e-6:
        return None
    z = PlanarTurn(2, float(R[0, 0] / cosine), float(R[1, 0] / cosine))
    rest = np.array(z.rows()).T @ R  # takes up what z lost in the division
    y = PlanarTurn(1, float(rest[0, 0]), float(-rest[2, 0]))
    x = PlanarTurn(0, float(rest[1, 1]), float(-rest[1, 2]))
    return z, y, x
