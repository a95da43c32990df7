"""Machines that apply joint transforms the way of the papers' own code: multiplied out to one 6×6 matrix first."""

from __future__ import annotations

from typing import Any

from delassus.spatial.casadi_ops import CasadiOps
from delassus.spatial.count_ops import CountOps
from delassus.spatial.rigid import DenseRigidInertia
from delassus.spatial.transform import DenseTransform, Displacement


class CompositeCasadiOps(CasadiOps):
    """`CasadiOps` with composite transforms."""

    def transform(self, displacement: Displacement) -> Any:
        """One 6×6 matrix."""
        return DenseTransform(self, displacement)

    def rigid_inertia(self, H: Any) -> Any:
        """One 6×6 matrix."""
        return DenseRigidInertia(self, H)


class CompositeCountOps(CountOps):
    """`CountOps` with composite transforms."""

    def transform(self, displacement: Displacement) -> Any:
        """One 6×6 matrix."""
        return DenseTransform(self, displacement)

    def rigid_inertia(self, H: Any) -> Any:
        """One 6×6 matrix."""
        return DenseRigidInertia(self, H)
