"""Free unknowns eliminated from the blocks of a contact problem: ``W − C A⁺ B`` and ``b − C A⁺ a``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from delassus.contact.formulations.formulation import Formulation
from delassus.solvers.mixed import eliminated
from delassus.spatial.rotations import Array

NOISE = 1e-15
"""Eigenvalues of a difference, over its size and what it is a difference of, that round-off could have left.

Where ``k`` unknowns were eliminated, ``NOISE k²`` of them could; a chain of 30 hinges, k = 150, leaves up to 1e-12.
"""


class Reduced(NamedTuple):
    """Contact velocities are ``W F + b``, free unknowns ``−(P F + x_0)``; not consistent: free rows cannot be met."""

    W: Array
    b: Array
    P: Array
    x_0: Array
    consistent: bool


def reduced(f: Formulation, a: Array, b: Array) -> Reduced:
    """Eliminate the free unknowns of a formulation with the vector ``(a, b)``."""
    given = f.rows.contact_velocities  # need not be such as the mechanism can have
    if f.n_free:
        solution, _, consistent = eliminated(f.A, np.column_stack([f.B, a]))
        P, x_0 = solution[:, :-1], solution[:, -1]
        size = f.W.diagonal() + np.einsum("ij,ji->i", np.abs(f.C), np.abs(P))
        W, u = without_noise(f.W - f.C @ P, b + given - f.C @ x_0, size, f.n_free)
        return Reduced(W, u - given, P, x_0, consistent)
    n = len(f.rows.snapshot.mass_matrix)  # unknowns of the system that was solved
    W, u = (f.W, b + given) if f.mobility is None else without_noise(f.W, b + given, f.mobility, n)
    return Reduced(W, u - given, f.B, a, f.consistent)


def without_noise(W: Array, u: Array, size: Array, n_eliminated: int = 0) -> tuple[Array, Array]:
    """``W`` without the eigenvalues that round-off left, and ``u`` without what is outside of its range.

    ``W`` is a difference of matrices whose diagonals are ``size``, after ``n_eliminated`` unknowns. A contact that
    cannot move along its normal must not seem to give way by 1e-15 of what its body would without hinges, least of all
    to the wrong side; ``u``, a velocity at contacts, cannot but be in the range. Directions that cannot move at all,
    as those across a planar mechanism, get rows of zeros: solvers scale by diagonals, and would blow up the rest.
    """
    least = NOISE * max(len(W), n_eliminated**2)
    root = np.sqrt(size)
    root[size <= least * size.max(initial=0.0)] = 1.0
    scaled = W / root[:, None] / root
    values, vectors = np.linalg.eigh(0.5 * (scaled + scaled.T))
    real = values > least
    moves = scaled.diagonal() > least
    basis = (moves * root)[:, None] * vectors[:, real]
    return np.ascontiguousarray((basis * values[real]) @ basis.T), basis @ (vectors[:, real].T @ (u / root))
