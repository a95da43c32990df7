"""Rows whose forces act on links that are not eliminated yet; see `elimination`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delassus.algorithms.dynamics.activation import Condition
from delassus.algorithms.dynamics.back_substitution import Label
from delassus.spatial.ops import Matrix, Ops, Scalar


@dataclass(slots=True)
class Open:
    """Open rows.

    Attributes
    ----------
    labels : tuple of Label
        Whose rows they are, in order.
    sizes : mapping of Label to int
    R : (m, 7) matrix
        ``[K l]``.
    L : (m, m) matrix
        Their inverse inertia when the link is grounded.
    moved : mapping of Label to set of int
        Degrees of freedom that have moved the rows.
    ends : mapping of Label to int
        How many ends of the constraint are here.
    acts : mapping of Label to list of Condition
        When each of its rows acts; where it does not, it is zero.
    mobility : scalar
        What an entry of ``L`` is to be compared with.
    """

    labels: tuple[Label, ...]
    sizes: dict[Label, int]
    R: Matrix
    L: Matrix
    moved: dict[Label, frozenset[int]]
    ends: dict[Label, int]
    acts: dict[Label, list[Condition]]
    mobility: Scalar = 0.0

    def indices(self, labels: Sequence[Label]) -> list[int]:
        """Rows of some of the labels."""
        out: list[int] = []
        start = 0
        for label in self.labels:
            stop = start + self.sizes[label]
            out.extend(range(start, stop) if label in labels else ())
            start = stop
        return out


def merged(ops: Ops, arriving: Sequence[Open]) -> Open | None:
    """Open rows on top of each other; those of one label add."""
    if not arriving:
        return None
    sizes = {c: o.sizes[c] for o in arriving for c in o.labels}
    labels, total = tuple(sizes), sum(sizes.values())
    out = Open(labels, sizes, ops.zeros(total, 7), ops.zeros(total, total), dict.fromkeys(labels, frozenset()), {}, {})
    for o in arriving:
        at = [k for c in o.labels for k in out.indices([c])]
        out.R = out.R + ops.put(o.R, (total, 7), at, range(7))
        out.L = ops.sym_add(out.L, ops.put(o.L, (total, total), at, at))
        out.mobility = out.mobility + o.mobility
        out.acts |= o.acts
        for c in o.labels:
            out.moved[c] |= o.moved[c]
            out.ends[c] = out.ends.get(c, 0) + o.ends[c]
    return out
