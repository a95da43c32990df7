"""Records of what has been eliminated, and what back substitution makes of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from delassus.spatial.ops import Factor, Matrix, Ops, Scalar
from delassus.spatial.rotations import Array

Label = tuple[int, int]
"""A force: the constraint and the row that it belongs to; or an acceleration, of a joint or of another link.

``q̈`` of a degree of freedom: `JOINT` and its index. Entry k of the acceleration of link i: `LINK` and ``6 i + k``.
"""

JOINT, LINK = -1, -2
"""In the place of a constraint: the label is of an acceleration."""


class BackSubstitution:
    """Known quantities of back substitution: accelerations (6 × 1) of links; forces (1 × 1) and others by label."""

    def __init__(self, ops: Ops, a: Matrix) -> None:
        self.ops, self.a = ops, a
        self.links: dict[int, Matrix] = {}
        self.forces: dict[Label, Matrix] = {}

    def z(self, labels: Sequence[Label]) -> Matrix:
        """``[a; 1; f]`` (n × 1)."""
        ops = self.ops
        late = (
            ops.take(self.links[k // 6], (k % 6,), None) if kind == LINK else self.forces[kind, k] for kind, k in labels
        )
        return ops.vstack([self.a, ops.eye(1), *late])

    def of(self, labels: Sequence[Label]) -> Matrix:
        """Forces (m × 1)."""
        return self.ops.vstack([self.forces[label] for label in labels])

    def put(self, labels: Sequence[Label], f: Matrix) -> None:
        """Set forces (m × 1)."""
        self.forces |= {label: self.ops.take(f, (k,), None) for k, label in enumerate(labels)}


Step = Callable[[BackSubstitution], None]
"""Record of an elimination: called by back substitution, it finds what has been eliminated."""


@dataclass(frozen=True, slots=True, eq=False)
class Sheared:
    """A link's acceleration ``T a`` for ``a`` in the entries that have taken its place."""

    T: Array

    def __call__(self, state: BackSubstitution) -> None:
        state.a = state.ops.constant(self.T) @ state.a


@dataclass(frozen=True, slots=True, eq=False)
class Acceleration:
    """An acceleration ``x = W z``, ``z`` with the forces ``labels``.

    It is the link's along ``axis``, and then the joint's own ``q̈``, if rows meet that, is the difference to ``a'_s``;
    or, without an axis, ``q̈`` of a joint.
    """

    axis: int | None
    joint: Label | None
    labels: tuple[Label, ...]
    W: Matrix

    def __call__(self, state: BackSubstitution) -> None:
        self.set(state, self.W @ state.z(self.labels))

    def set(self, state: BackSubstitution, x: Matrix) -> None:
        """Set the acceleration (1 × 1)."""
        ops, s = state.ops, self.axis
        if self.joint is not None:
            state.forces[self.joint] = x if s is None else x - ops.take(state.a, (s,), None)
        if s is not None:
            others = [k for k in range(6) if k != s]
            a = ops.put(ops.take(state.a, others, None), (6, 1), others, (0,))
            state.a = a + ops.put(x, (6, 1), (s,), (0,))


@dataclass(frozen=True, slots=True, eq=False)
class HeldAcceleration(Acceleration):
    """An acceleration that a row says, ``x = W z + e bᵀ z``, and the row's force ``f = (D x − bᵀ z) / K``."""

    row: Label
    b: Matrix
    D: Matrix
    e: Matrix
    over_K: Matrix

    def __call__(self, state: BackSubstitution) -> None:
        z = state.z(self.labels)
        left = state.ops.transpose(self.b) @ z
        x = self.W @ z + self.e @ left
        state.forces[self.row] = self.over_K @ (self.D @ x - left)
        self.set(state, x)


@dataclass(frozen=True, slots=True, eq=False)
class SoftlyHeldAcceleration(Acceleration):
    """An acceleration that meets a soft row, and the row's force: ``[x; −f] = [e −k; k y] [bᵀ z; W z]``."""

    row: Label
    b: Matrix
    e: Matrix
    k: Matrix
    y: Matrix

    def __call__(self, state: BackSubstitution) -> None:
        z = state.z(self.labels)
        missed, left = self.W @ z, state.ops.transpose(self.b) @ z
        state.forces[self.row] = -(self.y @ missed + self.k @ left)
        self.set(state, self.e @ left - self.k @ missed)


@dataclass(frozen=True, slots=True, eq=False)
class Forces:
    """Forces ``f = L⁻¹ B z``, or ``B z``."""

    forces: tuple[Label, ...]
    labels: tuple[Label, ...]
    B: Matrix
    L: Factor | None = None

    def __call__(self, state: BackSubstitution) -> None:
        right = self.B @ state.z(self.labels)
        state.put(self.forces, right if self.L is None else self.L.solve(right))


@dataclass(frozen=True, slots=True, eq=False)
class Combined:
    """Rows that have been replaced by combinations: ``Tᵀ f`` are the forces along them as they were."""

    labels: tuple[Label, ...]
    T: Matrix

    def __call__(self, state: BackSubstitution) -> None:
        state.put(self.labels, state.ops.transpose(self.T) @ state.of(self.labels))


@dataclass(frozen=True, slots=True, eq=False)
class Reflected:
    """Rows that a Householder reflection has replaced, which takes the unit vector ``unit`` to the first row."""

    labels: tuple[Label, ...]
    unit: Sequence[Scalar]
    w: Sequence[Scalar]

    def __call__(self, state: BackSubstitution) -> None:
        ops, unit = state.ops, self.unit
        f = [ops.entries(state.forces[label])[0][0] for label in self.labels]
        sums = [unit[0] * f[0], f[0]]
        for y, e, g in zip(unit[1:], self.w, f[1:], strict=True):
            sums = [sums[0] - y * g, sums[1] - e * g]
        found = [sums[0], *(g + y * sums[1] for y, g in zip(unit[1:], f[1:], strict=True))]
        state.forces |= {label: ops.matrix([[g]]) for label, g in zip(self.labels, found, strict=True)}


@dataclass(frozen=True, slots=True, eq=False)
class Rewritten:
    """Rows that hold a link, written as ``rows`` on it, or on its parent: ``rows = N X⁻¹ K⁺``, see `constant_rows`."""

    labels: tuple[Label, ...]
    rows: Matrix
    N: Matrix
    X: Any
    right: Matrix

    def __call__(self, state: BackSubstitution) -> None:
        ops = state.ops
        g = ops.transpose(self.N) @ state.of(self.labels)
        g = g if self.X is None else exchanged(ops, self.X.motions_to_child(exchanged(ops, g)))
        state.put(self.labels, ops.transpose(self.right) @ g)


def exchanged(ops: Ops, a: Matrix) -> Matrix:
    """Linear and angular part, one for the other: so exchanged, ``Xᵀ`` is ``X⁻¹``."""
    return ops.take(a, (3, 4, 5, 0, 1, 2), None)
