"""Operations that the studies count by formula: spatial operations written out on numbers that count themselves."""

from __future__ import annotations

import numpy as np
import pytest

import delassus as ds
from delassus_studies.claims import efpa_formulas
from delassus_studies.claims.efpa_formulas import Graph, Reading, efpa, rjka, sfa, zeros


class Counted:
    """A number; ``tally`` counts multiplications and additions of all, but those with the int 0."""

    tally = np.zeros(2, int)

    def __init__(self, value):
        self.value = value

    def __mul__(self, other):
        if isinstance(other, int):
            return 0
        Counted.tally[0] += 1
        return Counted(self.value * other.value)

    def __add__(self, other):
        if isinstance(other, int):
            return self
        Counted.tally[1] += 1
        return Counted(self.value + other.value)

    def __sub__(self, other):
        return self + (-other)

    def __neg__(self):  # a sign is free: it goes into the sum
        return Counted(-self.value)

    def __rmul__(self, zero):
        return 0

    def __radd__(self, zero):
        return self

    def __rsub__(self, zero):
        return -self


def sines(angle, counted=True):
    """Sine, cosine, and the products that blocks are rotated with: s², cs, 2cs, c² − s²."""
    c, s = np.cos(angle), np.sin(angle)
    if counted:
        Counted.tally += (2, 3)
    return [Counted(x) for x in (c, s, s * s, c * s, 2 * c * s, c * c - s * s)]


def rotated(B, axis, trig):
    """``R B Rᵀ`` about x (axis 0) or z (axis 2) of the 6 × 6 symmetric ``B``, an upper triangle of blocks."""
    c, s, ss, cs, cs2, cc = trig
    i, j = [(1, 2), (), (0, 1)][axis]
    B = B.copy()

    def turn(a, b):
        return c * a - s * b, s * a + c * b

    for o in (0, 3):
        p, q, z = i + o, j + o, axis + o
        d = B[q, q] - B[p, p]
        t, B[p, q] = ss * d - cs2 * B[p, q], cc * B[p, q] - cs * d
        B[p, p], B[q, q] = B[p, p] + t, B[q, q] - t
        (pz, qz) = ((min(p, z), max(p, z)), (min(q, z), max(q, z)))
        B[pz], B[qz] = turn(B[pz], B[qz])
    z, I, J, Z = axis, i + 3, j + 3, axis + 3
    B[i, Z], B[j, Z] = turn(B[i, Z], B[j, Z])
    B[z, I], B[z, J] = turn(B[z, I], B[z, J])
    d, both = B[j, J] - B[i, I], B[i, J] + B[j, I]
    t, u = ss * d - cs * both, -(cs * d) - ss * both
    B[i, I], B[j, J], B[i, J], B[j, I] = B[i, I] + t, B[j, J] - t, B[i, J] + u, B[j, I] + u
    return B


def shifted(B, axis, d):
    """The inertia ``B`` about a point that lies ``d`` behind along x (axis 0) or z (axis 2)."""
    i, j = [(1, 2), (), (0, 1)][axis]
    I, J, z, Z = i + 3, j + 3, axis, axis + 3
    H, B = {(r, k): B[r, k] for r in range(3) for k in (3, 4, 5)}, B.copy()
    both = d * B[I, J]  # d × M
    B[i, I], B[i, J], B[i, Z] = H[i, I] - both, H[i, J] - d * B[J, J], H[i, Z] - d * B[min(J, Z), max(J, Z)]
    B[j, I], B[j, J], B[j, Z] = H[j, I] + d * B[I, I], H[j, J] + both, H[j, Z] + d * B[min(I, Z), max(I, Z)]
    B[i, i] = B[i, i] - d * (H[i, J] + B[i, J])
    B[j, j] = B[j, j] + d * (H[j, I] + B[j, I])
    B[i, j] = B[i, j] + d * (B[i, I] - H[j, J])
    iz, jz = (min(i, z), max(i, z)), (min(j, z), max(j, z))
    B[iz], B[jz] = B[iz] - d * H[z, J], B[jz] + d * H[z, I]
    return B


def counted(B, free=()):
    """The upper triangle of ``B``; rows and columns that are ``free`` are the int 0."""
    entries = np.zeros((6, 6), object)
    for r, k in zip(*np.triu_indices(6), strict=True):
        entries[r, k] = 0 if {r, k} & set(free) else Counted(B[r, k])
    return entries


def values(B):
    upper = np.vectorize(lambda x: x.value if isinstance(x, Counted) else 0.0)(np.triu(B))
    return upper + np.triu(upper, 1).T


def screw(axis, angle, d):
    """The force transform of a turn about an axis and a shift along it (6 × 6)."""
    i, j = [(1, 2), (), (0, 1)][axis]
    R, cross = np.eye(3), np.zeros((3, 3))
    R[i, i] = R[j, j] = np.cos(angle)
    R[j, i] = np.sin(angle)
    R[i, j] = -R[j, i]
    cross[j, i], cross[i, j] = d, -d
    return np.block([[R, cross @ R], [np.zeros((3, 3)), R]])


def random_inertia(seed, free=()):
    A = np.random.default_rng(seed).normal(size=(6, 6))
    A[list(free)] = 0
    return A @ A.T


def spent():
    tally, Counted.tally = tuple(int(n) for n in Counted.tally), np.zeros(2, int)
    return tally


class TestCostsOfTheEFPAPaper:
    def test_articulated_inertia_to_the_parent(self):
        """Printed for a rotation alone: 22m+25a, and 15 additions into the parent's."""
        Ia = random_inertia(0, free=[2])
        spent()
        turned = rotated(counted(Ia, free=[2]), 2, sines(0.7))
        assert spent() == (22, 25) and efpa_formulas.ROTATION.articulated == 47
        assert np.count_nonzero(turned) == 15 == efpa_formulas.ROTATION.add
        moved = shifted(rotated(shifted(turned, 2, Counted(0.3)), 0, sines(-0.4, counted=False)), 0, Counted(0.2))
        assert spent() == (62 - 22, 65 - 25) and efpa_formulas.SCREWS.articulated == 62 + 65
        X = screw(0, -0.4, 0.2) @ screw(2, 0.7, 0.3)
        assert values(moved) == pytest.approx(X @ Ia @ X.T)

    def test_inverse_inertia_to_the_child(self):
        """Printed for a rotation alone: 63m+54a; the trigonometric products are there from the way inward."""
        B = random_inertia(1)
        spent()
        turned = rotated(counted(B), 2, sines(0.7, counted=False))
        once = spent()
        moved = shifted(turned, 2, Counted(0.3))
        shift = spent()
        assert once == (28, 26) and shift == (10, 14)
        X = screw(2, 0.7, 0.3)
        assert values(moved) == pytest.approx(X @ B @ X.T)
        L = (6 + 1) * 5, (6 + 1) * 4  # row z of L B, and its product with column z of Lᵀ
        assert (once[0] + L[0], once[1] + L[1]) == (63, 54) and efpa_formulas.ROTATION.congruence == 117
        assert efpa_formulas.SCREWS.congruence == 2 * (sum(once) + sum(shift)) + sum(L)

    def test_one_joint_by_hand(self):
        graph = Graph(ds.mechanisms.chain(1, root="floating"), (1,), Reading())
        assert efpa(graph) == {
            "articulated inertias": 36 + 47 + 15 + 231,
            "propagators": 60 + 72,
            "own blocks": (72 + 54 + 12) + (216 + 180 - 72) + (144 + 108),
            "cross blocks": 0,
        }
        assert rjka(graph)["own blocks"] == 117 + 1 + 137 + 137
        assert sfa(graph) == {"H": 75 + 32, "J": 59 + 27, "L": 140, "Y": 6 * 49, "Y Yᵀ": 21 * 13}
        assert zeros(graph) == (0, 0)

    def test_cross_blocks_by_hand(self):
        """Two ends on a floating base: one product for EFPA; down one end and then the other for KJR."""
        graph = Graph(ds.mechanisms.star(2, 1), (1, 2), Reading())
        assert efpa(graph)["cross blocks"] == 216 + 180
        assert rjka(graph)["cross blocks"] == (72 + 54) + (192 + 54) + 288 + 216

    def test_shares_of_zeros_tell_which_body_is_the_base(self):
        """56 % of H, with four arms and legs 73 %: not with the pelvis, with the torso."""
        for options, printed in (({}, 56), ({"arms": 4, "legs": 4}, 73)):
            tree = ds.mechanisms.asimo(**options)
            assert round(100 * zeros(Graph(tree, ()))[1]) == printed
            assert round(100 * zeros(Graph(tree.reroot("pelvis"), ()))[1]) < printed
