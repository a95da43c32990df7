"""Pyramids for friction cones: [OS] section 2. Unknowns of a contact are ``β̲ = (F_n, β_1 … β_nf)`` and ``σ``."""

from __future__ import annotations

import numpy as np

from delassus.model.rotations import Array


def directions(n_directions: int) -> Array:
    """``D̲`` (3, n_f + 1) of one contact in its own axes: the normal, then tangents at the angles ``2π j / n_f``."""
    angles = 2 * np.pi * np.arange(n_directions) / n_directions
    D = np.zeros((3, n_directions + 1))
    D[2, 0] = 1.0
    D[0, 1:], D[1, 1:] = np.cos(angles), np.sin(angles)
    D[np.abs(D) < 1e-15] = 0.0
    return D


def impulse_directions(n_contacts: int, n_directions: int) -> Array:
    """``D̲`` (3 n_u, n_u (n_f + 1)) of all contacts, eq. 15: ``F = D̲ β̲``."""
    return np.asarray(np.kron(np.eye(n_contacts), directions(n_directions)), dtype=float)


def slack_columns(n_contacts: int, n_directions: int) -> Array:
    """``Ê`` (n_u (n_f + 1), n_u), eqs. 13 and 15."""
    column = np.ones((n_directions + 1, 1))
    column[0] = 0.0
    return np.asarray(np.kron(np.eye(n_contacts), column), dtype=float)


def friction_rows(friction: Array, n_directions: int) -> Array:
    """``Ē`` (n_u, n_u (n_f + 1)), eqs. 13 and 15."""
    rows = -slack_columns(len(friction), n_directions).T
    rows[:, :: n_directions + 1] = np.diag(friction)
    return rows
