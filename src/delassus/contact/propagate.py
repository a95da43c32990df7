"""Loops over links at run time, for numba: what `operational_space_compliance` gives, for contacts known only then.

*Ends* are stacks of rows on the twists of links, in their body frames; each belongs to some rows of the problem, to
which the ends of the same constraint add up. An end on the world does not exist. Block (e, f) of ``J M⁻¹ Jᵀ`` is
``K_{c,e} Υ_c K_{c,f}ᵀ`` at the closest common ancestor *c* of their links, ``K_{p(i),e} = K_{i,e} A_i``: [OS] eq. 69.
Cost O(n_c d + n_c²) for n_c ends at depth d; nothing where two ends have no common ancestor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.contact.solvers.compiled import compiled
from delassus.model.rotations import Array

Indices = NDArray[Any]


@compiled
def contact_ends(
    links: Indices,
    points: Array,
    frames: Array,
    poses: Array,
    start: int,
    end_links: Indices,
    end_rows: Indices,
    K: Array,
) -> int:
    """Rows of contacts on both links, three an end, from the problem's row ``start`` on; returns the number of ends."""
    e = 0
    for i in range(links.shape[0]):
        for side in range(2):
            link = links[i, side]
            if link < 0:
                continue
            if link >= poses.shape[0]:
                raise IndexError("contact on a link that the scene does not have")
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
            end_links[e] = link
            end_rows[e] = start + 3 * i
            e += 1
    return e


@compiled
def delassus_of_ends(
    parents: Indices,
    depths: Indices,
    A: Array,
    compliances: Array,
    end_links: Indices,
    end_sizes: Indices,
    end_rows: Indices,
    K: Array,
    G: Array,
) -> None:
    """``G = J M⁻¹ Jᵀ`` of all ends; ``depths`` counts the joints above each link."""
    n_ends = end_links.size
    G[:] = 0.0
    deepest = 0
    for e in range(n_ends):
        deepest = max(deepest, depths[end_links[e]])
    n_rows = K.shape[0]
    # leaves → root: K_{p(i)} = K_i A_i, kept for every ancestor
    at = np.empty((deepest + 1, n_rows, 6))
    first = np.empty(n_ends + 1, np.int64)
    first[0] = 0
    for e in range(n_ends):
        first[e + 1] = first[e] + end_sizes[e]
        link = end_links[e]
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
    # pairs meet at their closest common ancestors
    half = np.empty((6, n_rows))
    for e in range(n_ends):
        done = -1
        for f in range(e + 1):
            i, j = end_links[e], end_links[f]
            while i != j:
                if i > j:
                    i = parents[i]
                else:
                    j = parents[j]
            if i < 0:
                continue
            d, m = depths[i], end_sizes[e]
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
                for s in range(end_sizes[f]):
                    total = 0.0
                    for a in range(6):
                        total += half[a, r] * at[d, first[f] + s, a]
                    row, column = end_rows[e] + r, end_rows[f] + s
                    G[row, column] += total
                    if e != f:
                        G[column, row] += total


@compiled
def twists(parents: Indices, first_dof: Indices, axes: Indices, A: Array, carried: Array, v: Array, V: Array) -> None:
    """Twists of all links at joint velocities ``v``: ``V_i = X_i V_{p(i)} + S_i v_i``."""
    for i in range(parents.size):
        p = parents[i]
        for a in range(6):
            V[i, a] = 0.0
        if p >= 0:
            for a in range(6):
                for b in range(6):
                    V[i, a] += A[i, a, b] * V[p, b]
        for k in range(first_dof[i], first_dof[i + 1]):
            along = v[k]
            if p >= 0:
                for b in range(6):
                    along += carried[k, b] * V[p, b]
            V[i, axes[k]] += along


@compiled
def end_velocities(end_links: Indices, end_sizes: Indices, end_rows: Indices, K: Array, V: Array, u: Array) -> None:
    """``u = J v``: velocities along all rows, from the twists of links."""
    u[:] = 0.0
    r = 0
    for e in range(end_links.size):
        V_e = V[end_links[e]]
        for k in range(end_sizes[e]):
            for a in range(6):
                u[end_rows[e] + k] += K[r, a] * V_e[a]
            r += 1


@compiled
def response(
    parents: Indices,
    first_dof: Indices,
    axes: Indices,
    A: Array,
    gains: Array,
    carried: Array,
    end_links: Indices,
    end_sizes: Indices,
    end_rows: Indices,
    K: Array,
    p: Array,
    dv: Array,
) -> None:
    """``dv = M⁻¹ Jᵀ p``: what impulses along the rows do to the velocities of joints."""
    n = parents.size
    f = np.zeros((n, 6))
    r = 0
    for e in range(end_links.size):
        for k in range(end_sizes[e]):
            x = p[end_rows[e] + k]
            for a in range(6):
                f[end_links[e], a] += K[r, a] * x
            r += 1
    # leaves → root: impulses
    for i in range(n - 1, -1, -1):
        for k in range(first_dof[i], first_dof[i + 1]):
            dv[k] = 0.0
            for a in range(6):
                dv[k] += gains[k, a] * f[i, a]
        q = parents[i]
        if q >= 0:
            for a in range(6):
                x = f[i, a]
                if x != 0.0:
                    for b in range(6):
                        f[q, b] += A[i, a, b] * x
    # root → leaves: changes of velocity
    V = f
    for i in range(n):
        q = parents[i]
        for a in range(6):
            V[i, a] = 0.0
        if q >= 0:
            for a in range(6):
                for b in range(6):
                    V[i, a] += A[i, a, b] * V[q, b]
        for k in range(first_dof[i], first_dof[i + 1]):
            V[i, axes[k]] += dv[k]
            if q >= 0:
                for b in range(6):
                    dv[k] -= carried[k, b] * V[q, b]


@compiled
def assemble(
    parents: Indices,
    depths: Indices,
    first_dof: Indices,
    axes: Indices,
    poses: Array,
    A: Array,
    compliances: Array,
    carried: Array,
    loop_links: Indices,
    loop_sizes: Indices,
    loop_rows: Indices,
    loop_K: Array,
    n_loops: int,
    links: Indices,
    points: Array,
    frames: Array,
    v: Array,
    other_v: Array,
) -> tuple[Indices, Indices, Indices, Array, Array, Array, Array]:
    """All of the above in one call: the ends of loops and contacts, ``J M⁻¹ Jᵀ``, and ``J v`` at two velocities."""
    n, most = loop_links.size, 2 * links.shape[0]
    end_links, end_sizes, end_rows = np.empty(n + most, np.int64), np.full(n + most, 3), np.empty(n + most, np.int64)
    K = np.empty((loop_K.shape[0] + 3 * most, 6))
    end_links[:n], end_sizes[:n], end_rows[:n] = loop_links, loop_sizes, loop_rows
    K[: loop_K.shape[0]] = loop_K
    added = contact_ends(links, points, frames, poses, n_loops, end_links[n:], end_rows[n:], K[loop_K.shape[0] :])
    end_links, end_sizes, end_rows = end_links[: n + added], end_sizes[: n + added], end_rows[: n + added]
    K = K[: loop_K.shape[0] + 3 * added]
    m = n_loops + 3 * links.shape[0]
    G, u, other_u, V = np.empty((m, m)), np.empty(m), np.empty(m), np.empty((parents.size, 6))
    delassus_of_ends(parents, depths, A, compliances, end_links, end_sizes, end_rows, K, G)
    twists(parents, first_dof, axes, A, carried, v, V)
    end_velocities(end_links, end_sizes, end_rows, K, V, u)
    twists(parents, first_dof, axes, A, carried, other_v, V)
    end_velocities(end_links, end_sizes, end_rows, K, V, other_u)
    return end_links, end_sizes, end_rows, K, G, u, other_u
