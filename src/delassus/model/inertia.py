"""Spatial inertias of rigid bodies, ``[linear; angular]``: make, move, check; moments of solids of triangles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from delassus.errors import ConfigurationError, require
from delassus.spatial.rotations import Array, skew

FLAT = 1e-14
"""Volume over the cube of its size below which a surface encloses nothing: the rounding of a sum of tetrahedra."""


def spatial_inertia(mass: float | Array, com: Array, inertia: Array) -> Array:
    """6×6 inertia about the frame's origin from mass (kg), centre of mass (3,) (m), inertia about it (3, 3) (kg·m²).

    Batched: (...), (..., 3) and (..., 3, 3) give (..., 6, 6).
    """
    m, c = np.asarray(mass, dtype=float)[..., None, None], skew(np.asarray(com, dtype=float))
    return np.concatenate(
        [
            np.concatenate([m * np.eye(3), -(m * c)], axis=-1),
            np.concatenate([m * c, inertia - m * c @ c], axis=-1),
        ],
        axis=-2,
    )


def motion_transform(rotation: Array, position: Array) -> Array:
    """6×6 motion transform ``X_child_parent`` for a child frame at (rotation, position) in the parent frame.

    Batched: (..., 3, 3) and (..., 3) give (..., 6, 6).
    """
    E = np.swapaxes(rotation, -1, -2)
    X = np.zeros((*np.broadcast_shapes(rotation.shape[:-2], position.shape[:-1]), 6, 6))
    X[..., :3, :3] = X[..., 3:, 3:] = E
    X[..., :3, 3:] = -E @ skew(position)
    return X


def move_inertia(H: Array, rotation: Array, position: Array) -> Array:
    """Inertia (..., 6, 6) given in a frame at (rotation, position), in the frame that these are relative to."""
    X = motion_transform(rotation, position)
    moved = np.swapaxes(X, -1, -2) @ H @ X
    moved = 0.5 * (moved + np.swapaxes(moved, -1, -2))
    size = np.sqrt(np.max(np.abs(np.diagonal(moved, axis1=-2, axis2=-1)).reshape(*moved.shape[:-2], 2, 3), axis=-1))
    size = np.repeat(size, 3, axis=-1)  # mass and moments of inertia have their own units
    return np.where(np.abs(moved) < 1e-14 * size[..., :, None] * size[..., None, :], 0.0, moved)


def about_centre(H: Array) -> tuple[float, Array, Array]:
    """Mass (kg, not zero), centre of mass (3,) (m) and inertia about it (3, 3) (kg·m²) of a 6×6 inertia."""
    mass = float(H[0, 0])
    com = np.array([H[5, 1], H[3, 2], H[4, 0]]) / mass
    inertia = H[3:, 3:] + mass * skew(com) @ skew(com)
    size = np.max(np.abs(H[3:, 3:]), initial=0.0)
    return mass, com, np.where(np.abs(inertia) < 1e-15 * size, 0.0, inertia)


def nearest_inertia(inertia: Array) -> Array:
    """Nearest (Frobenius norm) rotational inertia (3, 3) about its centre of mass that a rigid body can have.

    Principal axes stay. Principal moments ``I_x = s_y + s_z`` … get the nearest second moments of mass ``s ≥ 0``, by
    least squares with each set of them at zero; none stays below 1e-9 of the largest, so that mass is in no plane.
    """
    moments, axes = np.linalg.eigh(0.5 * (inertia + inertia.T))
    A, best, least = 1.0 - np.eye(3), np.zeros(3), float(moments @ moments)
    for free in ((0, 1, 2), (0, 1), (0, 2), (1, 2), (0,), (1,), (2,)):
        s = np.zeros(3)
        s[list(free)] = np.linalg.lstsq(A[:, free], moments, rcond=None)[0]
        left = float(np.sum((A @ s - moments) ** 2))
        if s.min() >= 0.0 and left < least:
            best, least = s, left
    nearest = A @ np.maximum(best, 1e-9 * best.max())
    return np.asarray(axes @ np.diag(nearest) @ axes.T)


def inertia_defects(inertias: Array) -> list[str]:
    """Say why no rigid body can have each rotational inertia (n, 3, 3) about its centre of mass, or ''."""
    principal = np.linalg.eigvalsh(0.5 * (inertias + np.swapaxes(inertias, -1, -2)))
    indefinite = principal[:, 0] < -1e-9 * np.max(np.abs(principal), axis=-1)
    triangle = principal[:, 0] + principal[:, 1] < principal[:, 2] * (1 - 1e-6)
    return [
        "not positive semidefinite" if a else "breaks the triangle inequality" if b else ""
        for a, b in zip(indefinite, triangle, strict=True)
    ]


SECOND_MOMENTS = ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))
"""Order of the moments of inertia in ten parameters: xx, xy, yy, xz, yz, zz."""

UPPER = np.triu_indices(4)


def parameters_of_inertia(H: Array) -> Array:
    """Mass (kg), mass times centre (kg m) and moments about the origin (kg m²) of a 6×6 inertia: ten numbers."""
    return np.array([H[0, 0], H[5, 1], H[3, 2], H[4, 0], *(H[3 + i, 3 + j] for i, j in SECOND_MOMENTS)])


def parameters_in_frame(H: Array, rotation: Array, position: Array) -> Array:
    """Ten parameters, in a frame at (rotation, position), of a 6×6 inertia given in the frame that these are in."""
    X = motion_transform(rotation.T, -rotation.T @ position)
    return parameters_of_inertia(X.T @ H @ X)


def pseudo_inertia(parameters: Array) -> Array:
    """Pseudo-inertia (..., 4, 4) of ten parameters (..., 10), to which it is linear; positive definite of a body.

    ``P = [Σ, m c; m cᵀ, m]``, ``Σ = ½ tr(I) − I`` the second moments of mass: ``∫ [x; 1] [x; 1]ᵀ dm``.
    """
    x = np.asarray(parameters, dtype=float)
    P = np.zeros((*x.shape[:-1], 4, 4))
    for k, (i, j) in enumerate(SECOND_MOMENTS, start=4):
        P[..., i, j] = P[..., j, i] = -x[..., k]
    P[..., range(3), range(3)] += 0.5 * (x[..., 4] + x[..., 6] + x[..., 9])[..., None]
    P[..., 3, :3] = P[..., :3, 3] = x[..., 1:4]
    P[..., 3, 3] = x[..., 0]
    return P


def from_pseudo_inertia(P: Array) -> Array:
    """Ten parameters (..., 10) of pseudo-inertias (..., 4, 4)."""
    trace = np.trace(P[..., :3, :3], axis1=-2, axis2=-1)
    moments = [trace * (i == j) - P[..., i, j] for i, j in SECOND_MOMENTS]
    return np.stack([P[..., 3, 3], *(P[..., k, 3] for k in range(3)), *moments], axis=-1)


def log_cholesky(parameters: Array) -> Array:
    """Coordinates (10,) of ten parameters of a body that has mass in no plane only; `LinAlgError` of others.

    The pseudo-inertia ``P = U Uᵀ`` by the entries of its upper triangular factor, diagonal ones as logarithms: every
    ten numbers are those of a body. Source: Rucker and Wensing 2022.
    """
    U = np.linalg.cholesky(pseudo_inertia(parameters)[::-1, ::-1])[::-1, ::-1]
    return np.array([np.log(U[i, j]) if i == j else U[i, j] for i, j in zip(*UPPER, strict=True)])


def from_log_cholesky(x: Array) -> tuple[Array, Array]:
    """Ten parameters of an inertia at coordinates (10,), and their derivatives (10 coordinates, 10)."""
    U, dU = np.zeros((4, 4)), np.zeros((10, 4, 4))
    for k, (i, j) in enumerate(zip(*UPPER, strict=True)):
        U[i, j] = np.exp(x[k]) if i == j else x[k]
        dU[k, i, j] = U[i, j] if i == j else 1.0
    dP = dU @ U.T
    both = from_pseudo_inertia(np.concatenate([(U @ U.T)[None], dP + np.swapaxes(dP, 1, 2)]))
    return both[0], both[1:]


def hull_triangles(points: Array, what: str = "mesh") -> tuple[NDArray[np.int64], Array]:
    """Triangles (m, 3) of the convex hull of points (n, 3), counterclockwise seen from outside, and their normals."""
    require("scipy", "contact", "convex hulls of meshes")
    from scipy.spatial import ConvexHull, QhullError

    try:
        hull = ConvexHull(points)
    except QhullError as error:
        advice = "Give it a thickness."
        raise ConfigurationError(what, "points that span a volume", "points in one plane", advice) from error
    triangles, normals = hull.simplices.astype(np.int64), np.array(hull.equations[:, :3])
    edges = points[triangles[:, 1:]] - points[triangles[:, :1]]
    inwards = np.einsum("ni,ni->n", np.cross(edges[:, 0], edges[:, 1]), normals) < 0.0
    triangles[inwards] = triangles[inwards, ::-1]
    return triangles, normals


def moments_of_surface(vertices: Array, triangles: NDArray[np.int64]) -> tuple[float, Array, Array]:
    """Volume (m³) that a closed surface encloses, its centre (3,) (m), and second moments (3, 3) about that (m⁵).

    Each triangle makes a tetrahedron with the middle of the surface: ``∫ x xᵀ = V/20 (Σ a aᵀ + s sᵀ)``, ``s = Σ a``.
    """
    used, places = np.unique(vertices[triangles.ravel()] + 0.0, axis=0, return_inverse=True)
    corners, n = places.reshape(-1, 3), len(used)
    ends = np.roll(corners, -1, axis=1)
    edges, of_edge = np.unique(np.stack([corners * n + ends, ends * n + corners]), return_inverse=True)
    balance = np.bincount(of_edge.ravel(), np.repeat([1.0, -1.0], corners.size), len(edges))
    if balance.any():
        raise ConfigurationError(
            "mesh", "a closed surface, its triangles counterclockwise seen from outside",
            f"one with {np.count_nonzero(balance > 0.0)} edges that no other triangle has, the other way round",
            "Close its holes and turn its triangles outwards, or take its convex hull, Mesh(vertices).",
        )  # fmt: skip
    origin = 0.5 * (used.min(axis=0) + used.max(axis=0))
    a = used[corners] - origin
    volumes, s = np.linalg.det(a) / 6.0, a.sum(axis=1)
    volume, least = float(volumes.sum()), FLAT * float(np.ptp(used, axis=0).max()) ** 3
    if not volume > least:
        faces_inwards = volume < -least
        came = "one whose triangles face inwards" if faces_inwards else "one that encloses nothing"
        advice = "Swap two corners of each triangle." if faces_inwards else "Give it a thickness."
        raise ConfigurationError("mesh", "a surface that encloses a volume", came, advice)
    centre = volumes @ s / (4.0 * volume)
    second = np.einsum("n,nki,nkj->ij", volumes, a, a) + np.einsum("n,ni,nj->ij", volumes, s, s)
    return volume, origin + centre, second / 20.0 - volume * np.outer(centre, centre)
