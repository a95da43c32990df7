"""Recursions over links, for numba: what formulations need beside the operational-space compliances of `propagate`.

Twists, wrenches and inertias are in body frames, ``[linear; angular]``. ``X`` (n, 6, 6) are the motion transforms from
parents, zero for links on the world. ``axes`` holds the unit vectors that span each joint's motion subspace ``S``.

Source: Featherstone, Rigid Body Dynamics Algorithms, tables 5.1 (bias forces) and 6.2 (mass matrix).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.contact.solvers.compiled import compiled
from delassus.model.rotations import Array

Indices = NDArray[Any]


@compiled
def transforms(parents: Indices, poses: Array, X: Array) -> None:
    """``X_i`` from the poses (n, 3, 4) of body frames in the world; O(n)."""
    r = np.empty(3)
    for i in range(parents.size):
        X[i] = 0.0
        p = parents[i]
        if p < 0:
            continue
        for a in range(3):  # origin of the child in the parent
            r[a] = 0.0
            for k in range(3):
                r[a] += poses[p, k, a] * (poses[i, k, 3] - poses[p, k, 3])
        for a in range(3):
            for b in range(3):
                for k in range(3):
                    X[i, a, b] += poses[i, k, a] * poses[p, k, b]
                X[i, 3 + a, 3 + b] = X[i, a, b]
        for a in range(3):  # −R r×
            X[i, a, 3] = X[i, a, 2] * r[1] - X[i, a, 1] * r[2]
            X[i, a, 4] = X[i, a, 0] * r[2] - X[i, a, 2] * r[0]
            X[i, a, 5] = X[i, a, 1] * r[0] - X[i, a, 0] * r[1]


@compiled
def known_wrenches(
    parents: Indices,
    first_dof: Indices,
    axes: Indices,
    X: Array,
    poses: Array,
    inertias: Array,
    gravity: Array,
    turning: Array,
    V: Array,
    w: Array,
) -> None:
    """Gravity and velocity products at the twists ``V``: ``w_i = H_i (g − a_i) − V_i ×* H_i V_i``; O(n).

    ``a = J̇ v − J δ`` obeys ``a_i = X_i a_{p(i)} + V_i × S_i v_i − S_i δ_i``, with ``S_i v_i = V_i − X_i V_{p(i)}`` and
    ``δ`` (nv,) the part ``turning`` of accelerations that axes, turning with their links, do not show.
    """
    n = parents.size
    a, f, h = np.zeros((n, 6)), np.empty(6), np.empty(6)
    for i in range(n):
        p = parents[i]
        if p >= 0:
            for r in range(6):
                for c in range(6):
                    a[i, r] += X[i, r, c] * V[p, c]
            for r in range(6):  # what the joint adds to the twist
                f[r] = V[i, r] - a[i, r]
                a[i, r] = 0.0
            for r in range(6):
                for c in range(6):
                    a[i, r] += X[i, r, c] * a[p, c]
        else:
            for r in range(6):
                f[r] = V[i, r]
        for r in range(3):
            s, t = (r + 1) % 3, (r + 2) % 3
            a[i, r] += V[i, 3 + s] * f[t] - V[i, 3 + t] * f[s] + V[i, s] * f[3 + t] - V[i, t] * f[3 + s]
            a[i, 3 + r] += V[i, 3 + s] * f[3 + t] - V[i, 3 + t] * f[3 + s]
        for k in range(first_dof[i], first_dof[i + 1]):
            a[i, axes[k]] -= turning[k]
        for r in range(6):  # momentum, and the acceleration that gravity adds
            h[r] = 0.0
            for c in range(6):
                h[r] += inertias[i, r, c] * V[i, c]
            f[r] = -a[i, r]
            if r < 3:
                for k in range(3):
                    f[r] += poses[i, k, r] * gravity[k]
        for r in range(6):
            w[i, r] = 0.0
            for c in range(6):
                w[i, r] += inertias[i, r, c] * f[c]
        for r in range(3):
            s, t = (r + 1) % 3, (r + 2) % 3
            w[i, r] -= V[i, 3 + s] * h[t] - V[i, 3 + t] * h[s]
            w[i, 3 + r] -= V[i, 3 + s] * h[3 + t] - V[i, 3 + t] * h[3 + s] + V[i, s] * h[t] - V[i, t] * h[s]


@compiled
def add_joint_wrenches(parents: Indices, first_dof: Indices, axes: Indices, X: Array, forces: Array, w: Array) -> None:
    """Add forces (nv,) on joints to wrenches (n, 6): ``S_i f_i`` on each link, and its opposite on the parent; O(n)."""
    for i in range(parents.size):
        p = parents[i]
        for k in range(first_dof[i], first_dof[i + 1]):
            w[i, axes[k]] += forces[k]
            if p >= 0:
                for c in range(6):
                    w[p, c] -= X[i, axes[k], c] * forces[k]


@compiled
def to_joints(parents: Indices, first_dof: Indices, axes: Indices, X: Array, w: Array, forces: Array) -> None:
    """``Jᵀ w``: forces (nv,) on joints of wrenches (n, 6) on links, which are overwritten; O(n)."""
    for i in range(parents.size - 1, -1, -1):
        for k in range(first_dof[i], first_dof[i + 1]):
            forces[k] = w[i, axes[k]]
        p = parents[i]
        if p >= 0:
            for r in range(6):
                for c in range(6):
                    w[p, c] += X[i, r, c] * w[i, r]


@compiled
def joint_velocities(parents: Indices, first_dof: Indices, axes: Indices, X: Array, V: Array, v: Array) -> None:
    """Velocities (nv,) of joints from the twists of links, ``v_i = S_iᵀ (V_i − X_i V_{p(i)})``; O(n)."""
    for i in range(parents.size):
        p = parents[i]
        for k in range(first_dof[i], first_dof[i + 1]):
            v[k] = V[i, axes[k]]
            if p >= 0:
                for c in range(6):
                    v[k] -= X[i, axes[k], c] * V[p, c]


@compiled
def mass_matrix(
    parents: Indices, first_dof: Indices, axes: Indices, X: Array, inertias: Array, armature: Array, M: Array
) -> None:
    """Composite rigid-body algorithm, O(N d); armature on the diagonal."""
    n = parents.size
    H, half = np.copy(inertias), np.empty((6, 6))
    M[:] = 0.0
    F = np.empty(6)
    G = np.empty(6)
    for i in range(n - 1, -1, -1):
        for k in range(first_dof[i], first_dof[i + 1]):
            for r in range(6):
                F[r] = H[i, r, axes[k]]
            for m in range(first_dof[i], first_dof[i + 1]):
                M[m, k] = F[axes[m]]
            M[k, k] += armature[k]
            j = i
            while parents[j] >= 0:
                for c in range(6):
                    G[c] = 0.0
                    for r in range(6):
                        G[c] += X[j, r, c] * F[r]
                for c in range(6):
                    F[c] = G[c]
                j = parents[j]
                for m in range(first_dof[j], first_dof[j + 1]):
                    M[m, k] = M[k, m] = F[axes[m]]
        p = parents[i]
        if p >= 0:
            for r in range(6):
                for c in range(6):
                    half[r, c] = 0.0
                    for k in range(6):
                        half[r, c] += H[i, r, k] * X[i, k, c]
            for r in range(6):
                for c in range(6):
                    for k in range(6):
                        H[p, r, c] += X[i, k, r] * half[k, c]


@compiled
def jacobian(
    parents: Indices,
    first_dof: Indices,
    axes: Indices,
    X: Array,
    end_links: Indices,
    end_sizes: Indices,
    end_rows: Indices,
    K: Array,
    J: Array,
) -> None:
    """``J`` (m, nv) of stacks of rows on links; O(m d)."""
    J[:] = 0.0
    R, Q = np.empty(6), np.empty(6)
    at = 0
    for e in range(end_links.size):
        for k in range(end_sizes[e]):
            row = end_rows[e] + k
            for c in range(6):
                R[c] = K[at, c]
            at += 1
            i = end_links[e]
            while True:
                for m in range(first_dof[i], first_dof[i + 1]):
                    J[row, m] += R[axes[m]]
                if parents[i] < 0:
                    break
                for c in range(6):
                    Q[c] = 0.0
                    for r in range(6):
                        Q[c] += R[r] * X[i, r, c]
                for c in range(6):
                    R[c] = Q[c]
                i = parents[i]


@compiled
def hinge_ends(
    parents: Indices,
    first_dof: Indices,
    axes: Indices,
    X: Array,
    rotors: Indices,
    end_links: Indices,
    end_sizes: Indices,
    end_rows: Indices,
    K: Array,
) -> tuple[int, int]:
    """Rows that hold each link on its joint, ``N_i (V_i − X_i V_{p(i)})``, ``N_i`` the unit vectors across ``S_i``.

    After them ``S_iᵀ (V_i − X_i V_{p(i)})`` of the degrees of freedom ``rotors``. Returns the numbers of ends and of
    rows of ``K``; O(n).
    """
    e = at = row = 0
    across = np.empty(6, np.bool_)
    for i in range(parents.size):
        own = 6 - (first_dof[i + 1] - first_dof[i])
        if own == 0:
            continue
        across[:] = True
        for k in range(first_dof[i], first_dof[i + 1]):
            across[axes[k]] = False
        for side in range(2 if parents[i] >= 0 else 1):
            for a in range(6):
                if across[a]:
                    for c in range(6):
                        K[at, c] = -X[i, a, c] if side else 0.0
                    if not side:
                        K[at, a] = 1.0
                    at += 1
            end_links[e] = parents[i] if side else i
            end_sizes[e] = own
            end_rows[e] = row
            e += 1
        row += own
    i = 0
    for k in rotors:
        while first_dof[i + 1] <= k:
            i += 1
        for side in range(2 if parents[i] >= 0 else 1):
            for c in range(6):
                K[at, c] = -X[i, axes[k], c] if side else 0.0
            if not side:
                K[at, axes[k]] = 1.0
            at += 1
            end_links[e] = parents[i] if side else i
            end_sizes[e] = 1
            end_rows[e] = row
            e += 1
        row += 1
    return e, at


@compiled
def wrenches_of_ends(end_links: Indices, end_sizes: Indices, end_rows: Indices, K: Array, p: Array, w: Array) -> None:
    """Add ``Kᵀ p`` to wrenches (n, 6): what impulses along rows do to links."""
    at = 0
    for e in range(end_links.size):
        for k in range(end_sizes[e]):
            x = p[end_rows[e] + k]
            for c in range(6):
                w[end_links[e], c] += K[at, c] * x
            at += 1
