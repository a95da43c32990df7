"""What a method of forward dynamics returns, on any backend."""

from __future__ import annotations

from dataclasses import dataclass

from delassus.spatial.ops import Matrix, Scalar


@dataclass(frozen=True, slots=True, eq=False)
class DynamicsSolution:
    """Accelerations and forces of one problem.

    Attributes
    ----------
    qdd : (nv, 1) matrix
        Joint accelerations.
    forces : (m, 1) matrix
        Constraint forces ``f``, all rows stacked: ``M q̈ + c = τ + Jᵀ f``.
    delassus : (m, m) matrix or None
        ``G = J M⁻¹ Jᵀ`` if the method has it: its rank says whether the solution is unique.
    idle : scalar or None
        Largest force that moves nothing, relative to the largest of all, of a method whose forces may not be those of
        least norm.
    idle_qdd : scalar or None
        Largest acceleration that such a force causes where it moves a little, relative to the largest of all.
    kept : scalar or None
        Part of the sum of squares of forces that is left when those that move nothing have been taken off: forces have
        the round-off of these.
    """

    qdd: Matrix
    forces: Matrix
    delassus: Matrix | None = None
    idle: Scalar | None = None
    idle_qdd: Scalar | None = None
    kept: Scalar | None = None
