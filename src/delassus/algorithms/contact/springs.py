"""Springs and dampers in a step, implicit in time: servos of controls, springs and damping of joints.

What they do to momenta of a step from ``v`` to ``v⁺`` beside their forces at its start is ``a w·(v⁺ − v) + b w·v``, each
along its row ``w``: `step_of_spring`. `delassus.contact.sparse.springs` says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from delassus.model.tree import Tree
from delassus.spatial.ops import Matrix, Ops, Scalar


class Spring(NamedTuple):
    """Ratio to each degree of freedom, stiffness and damping, and the mobility along it of usual inertias."""

    ratios: Mapping[int, Scalar]
    stiffness: Scalar
    damping: Scalar
    mobility: float


def step_of_spring(h: Any, stiffness: Any, damping: Any, mobility: Any) -> tuple[Any, Any]:
    """Mass ``a`` that a spring adds along its row in a step, and momentum ``b`` of a velocity along it."""
    over = h * h * stiffness
    ahead = over * mobility / (1.0 + over * mobility)
    return h * damping + 0.25 * (1.0 + 3.0 * ahead) * over, ahead * over


class Springs:
    """Springs in a step of the length ``h``."""

    def __init__(self, ops: Ops, tree: Tree, springs: Sequence[Spring], h: Scalar) -> None:
        self._ops, self._tree = ops, tree
        self._each = [
            (x.ratios, *step_of_spring(h, x.stiffness, x.damping, x.mobility)) for x in springs
        ]  # fmt: skip

    def added(self) -> dict[tuple[int, int], Matrix]:
        """Blocks (n_i × n_j) of the masses that they add, at links i ≥ j."""
        ops, at, entries = self._ops, self._tree.v_slices, self._entries(0)
        link_of = [i for i, own in enumerate(at) for _ in range(own.start, own.stop)]
        return {
            (i, j): ops.matrix([[entries.get((r, c), 0.0) for c in range(nv)[at[j]]] for r in range(nv)[at[i]]])
            for nv in [self._tree.nv]
            for i, j in dict.fromkeys((link_of[r], link_of[c]) for r, c in entries)
            if i >= j
        }

    def matrices(self) -> tuple[Matrix, Matrix]:
        """Matrices (nv × nv) of what momenta change by with ``v⁺ − v`` and with ``v``."""
        found, nv = (self._entries(0), self._entries(1)), range(self._tree.nv)
        first, second = (self._ops.matrix([[x.get((r, c), 0.0) for c in nv] for r in nv]) for x in found)
        return first, second

    def momentum(self, gained: Sequence[Scalar], v: Sequence[Scalar]) -> list[Scalar]:
        """Momentum (nv) that they take beside that of their forces at the start."""
        out: list[Scalar] = [0.0] * self._tree.nv
        for ratios, a, b in self._each:
            total: Scalar = 0.0
            for dof, ratio in ratios.items():
                total = total + ratio * (a * gained[dof] + b * v[dof])
            for dof, ratio in ratios.items():
                out[dof] = out[dof] + ratio * total
        return out

    def _entries(self, which: int) -> dict[tuple[int, int], Scalar]:
        out = dict[tuple[int, int], Scalar]()
        for ratios, *factors in self._each:
            for r, x in ratios.items():
                for c, y in ratios.items():
                    out[r, c] = out.get((r, c), 0.0) + factors[which] * (x * y)
        return out
