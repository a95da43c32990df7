"""Assembly over loops and contacts: rows on links, their Jacobian, and their Delassus matrix.

An *end* is a stack of rows on the twist of one link, in its body frame; a constraint has one on each of its links that
moves, and ends of the same constraint add up in the rows of the problem. What is known of the robot comes from compiled
kernels; only what depends on where contacts are is done here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.jit.compile import compiled
from delassus.spatial.rotations import Array

Indices = NDArray[Any]


class EndEffectors(NamedTuple):
    """Stacks of rows on links: link, number of rows, and first row of the problem that they add to.

    ``K`` (sum of sizes, 6) are the rows, on the twists of links in their body frames.
    """

    links: Indices
    sizes: Indices
    rows: Indices
    K: Array

    def joined(self, other: EndEffectors) -> EndEffectors:
        """These, then others."""
        return EndEffectors(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))

    @property
    def placed(self) -> tuple[Indices, Indices]:
        """Link, and row of the problem, of each row of ``K``."""
        before = np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        return np.repeat(self.links, self.sizes), np.repeat(self.rows, self.sizes) + np.arange(len(self.K)) - before

    def velocities(self, V: Array, n_rows: int) -> Array:
        """Velocities (n_rows,) along the rows at the twists ``V`` (n, 6) of links."""
        link, row = self.placed
        return np.bincount(row, (self.K * V[link]).sum(axis=1), n_rows).astype(float)

    def wrenches(self, p: Array, n_links: int) -> Array:
        """``Kᵀ p`` (n, 6): wrenches on links of impulses along the rows."""
        link, row = self.placed
        w = np.zeros((n_links, 6))
        np.add.at(w, link, self.K * p[row, None])
        return w


@compiled
def contact_ends(
    contact_links: Indices,
    points: Array,
    frames: Array,
    poses: Array,
    start: int,
    links: Indices,
    rows: Indices,
    K: Array,
) -> int:
    """End-effectors of contacts, three rows each, from the problem's row ``start`` on; returns how many there are."""
    e = 0
    for i in range(contact_links.shape[0]):
        for side in range(2):
            link = contact_links[i, side]
            if link < 0:
                continue
            sign = 1.0 - 2.0 * side
            R = poses[link]
            r = np.empty(3)
            for a in range(3):  # the point in body axes
                r[a] = 0.0
                for b in range(3):
                    r[a] += R[b, a] * (points[i, b] - R[b, 3])
            for k in range(3):
                row = K[3 * e + k]
                for a in range(3):
                    row[a] = 0.0
                    for b in range(3):
                        row[a] += sign * frames[i, b, k] * R[b, a]
                row[3] = r[1] * row[2] - r[2] * row[1]
                row[4] = r[2] * row[0] - r[0] * row[2]
                row[5] = r[0] * row[1] - r[1] * row[0]
            links[e], rows[e] = link, start + 3 * i
            e += 1
    return e


@compiled
def jacobian(
    parents: Indices,
    first_dof: Indices,
    axes: Indices,
    pitches: Array,
    poses: Array,
    ends: EndEffectors,
    J: Array,
) -> None:
    """``J`` (m, nv): entry (r, k) is the force, or the moment, of row r's unit force along the axis of joint k.

    Of a screw it is the moment and its pitch times the force.
    """
    links, sizes, rows, K = ends
    J[:] = 0.0
    f, c, o, moment = np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    at = 0
    for e in range(links.size):
        R = poses[links[e]]
        for r in range(sizes[e]):
            for a in range(3):  # unit force of the row, at the link's origin, in the world
                f[a] = c[a] = 0.0
                for b in range(3):
                    f[a] += R[a, b] * K[at, b]
                    c[a] += R[a, b] * K[at, 3 + b]
            j = links[e]
            while j >= 0:
                Q = poses[j]
                for a in range(3):
                    o[a] = R[a, 3] - Q[a, 3]
                moment[0] = c[0] + o[1] * f[2] - o[2] * f[1]
                moment[1] = c[1] + o[2] * f[0] - o[0] * f[2]
                moment[2] = c[2] + o[0] * f[1] - o[1] * f[0]
                for k in range(first_dof[j], first_dof[j + 1]):
                    a = axes[k]
                    for b in range(3):
                        J[rows[e] + r, k] += Q[b, a % 3] * (f[b] if a < 3 else moment[b] + pitches[k] * f[b])
                j = parents[j]
            at += 1


@compiled
def carry(
    parents: Indices,
    depths: Indices,
    A: Array,
    ends: EndEffectors,
    first: Indices,
    at: Array,
) -> None:
    """Carry rows from leaves to roots, ``K_{p(i)} = K_i A_i``: ``at`` (depths, rows, 6) keeps them for every ancestor.

    Rows of end-effector e begin at ``first[e]``.
    """
    links, sizes, _, K = ends
    first[0] = 0
    for e in range(links.size):
        first[e + 1] = first[e] + sizes[e]
        link = links[e]
        d = depths[link]
        for r in range(first[e], first[e + 1]):
            for a in range(6):
                at[d, r, a] = K[r, a]
        while d > 0:
            T = A[link]
            for r in range(first[e], first[e + 1]):
                for a in range(6):
                    total = 0.0
                    for b in range(6):
                        total += at[d, r, b] * T[b, a]
                    at[d - 1, r, a] = total
            link = parents[link]
            d -= 1


@compiled
def delassus(
    parents: Indices,
    depths: Indices,
    A: Array,
    compliances: Array,
    ends: EndEffectors,
    G: Array,
) -> None:
    """``G = J M⁻¹ Jᵀ`` (m, m) without ``J`` or ``M``; ``depths`` counts the joints above each link.

    Block (e, f) is ``K_{c,e} Υ_c K_{c,f}ᵀ`` at the closest common ancestor *c* of their links, ``K_{p(i),e} = K_{i,e}
    A_i``: [OS] eq. 69. Cost O(n_c d + n_c²) for n_c ends at depth d; nothing where there is no common ancestor.
    """
    links, sizes, rows, K = ends
    n_ends, n_rows = links.size, K.shape[0]
    G[:] = 0.0
    deepest = 0
    for e in range(n_ends):
        deepest = max(deepest, depths[links[e]])
    at, first = np.empty((deepest + 1, n_rows, 6)), np.empty(n_ends + 1, np.int64)
    carry(parents, depths, A, ends, first, at)
    # pairs meet at their closest common ancestors
    half = np.empty((6, n_rows))
    for e in range(n_ends):
        done = -1
        for f in range(e + 1):
            i, j = links[e], links[f]
            while i != j:
                if i > j:
                    i = parents[i]
                else:
                    j = parents[j]
            if i < 0:
                continue
            d, m = depths[i], sizes[e]
            if i != done:
                W = compliances[i]
                for r in range(m):
                    for a in range(6):
                        total = 0.0
                        for b in range(6):
                            total += at[d, first[e] + r, b] * W[b, a]
                        half[a, r] = total
                done = i
            for r in range(m):
                for s in range(sizes[f]):
                    total = 0.0
                    for a in range(6):
                        total += half[a, r] * at[d, first[f] + s, a]
                    row, column = rows[e] + r, rows[f] + s
                    G[row, column] += total
                    if e != f:
                        G[column, row] += total
