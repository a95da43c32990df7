"""What `elimination` has eliminated at a link, found again on the way back from the root.

Each step knows what it needs for that: the acceleration of the link along one axis, the force of a hard row from what
its degree of freedom is left to balance, or the forces of rows that were closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from delassus.spatial.ops import Matrix, Ops, Scalar

BIAS = (6,)
"""Column of the right-hand side."""

Label = int
"""A constraint; a negative number stands for hard rows of a link that its joint opens."""


@dataclass(slots=True)
class State:
    """A link on the way back: its acceleration, the forces of its hard rows and of all rows that were closed.

    Attributes
    ----------
    a : (6, 1) matrix
    hard : (m, 1) matrix
    forces : dict of Label to (m_c, 1) matrix
    """

    a: Matrix
    hard: Matrix
    forces: dict[Label, Matrix]


class Step(Protocol):
    """An elimination, as it is remembered for the way back."""

    def back(self, ops: Ops, state: State) -> None:
        """Add what the step has eliminated to the state."""


def gathered(ops: Ops, forces: Mapping[Label, Matrix], labels: Sequence[Label]) -> Matrix:
    """Forces of some rows as one column."""
    return ops.vstack([forces[c] for c in labels])


def _with_axis(ops: Ops, a: Matrix, s: int, value: Matrix) -> Matrix:
    """``a`` with another entry at the axis ``s``."""
    others = [k for k in range(6) if k != s]
    return ops.put(ops.take(a, others, None), (6, 1), others, (0,)) + ops.put(value, (6, 1), (s,), (0,))


@dataclass(frozen=True, slots=True)
class Free:
    """A degree of freedom that no hard row meets; ``y`` is ``x / D`` of the open rows."""

    s: int
    to: list[int]
    W: Matrix
    du: Matrix
    y: Matrix | None
    labels: tuple[Label, ...]
    tau: Matrix

    def back(self, ops: Ops, state: State) -> None:
        """``q̈ = (u + xᵀ f) / D − W a``."""
        move = self.du - self.W @ ops.take(state.a, self.to, None)
        if self.y is not None:
            move = move + ops.transpose(self.y) @ gathered(ops, state.forces, self.labels)
        if self.s in self.to:
            move = move + ops.take(state.a, (self.s,), None)
        state.a = _with_axis(ops, state.a, self.s, move)


@dataclass(frozen=True, slots=True)
class Held:
    """A degree of freedom that a hard row moves; ``x`` is the reciprocal of the row's entry there.

    Where the row is off, ``ρ``, ``α`` and ``x`` are zero and ``e`` is ``1 / D``, else ``e`` is zero; it is None if the
    row is never off.
    """

    s: int
    rest: list[int]
    rho: Matrix
    alpha: Matrix
    x: Matrix
    e: Matrix | None
    U: Matrix
    D: Matrix
    armature: float
    u: Matrix
    others: Matrix | None
    labels: tuple[Label, ...]

    def back(self, ops: Ops, state: State) -> None:
        """``a_s = α − ρ a``, or as `Free`; the row's force balances what is left along the axis."""
        across = ops.take(state.a, self.rest, None)
        force = self.u - ops.transpose(self.U) @ across
        if self.armature:
            force = force + ops.constant([[self.armature]]) @ ops.take(state.a, (self.s,), None)
        if self.others is not None:
            force = force + ops.transpose(self.others) @ gathered(ops, state.forces, self.labels)
        along = self.alpha - self.rho @ across
        if self.e is not None:
            along = along + self.e @ force
        state.a = _with_axis(ops, state.a, self.s, along)
        state.hard = ops.vstack([state.hard, self.x @ (self.D @ along - force)])


@dataclass(frozen=True, slots=True)
class Reflected:
    """Hard rows ``at`` were reflected; their force on the way back is the last one."""

    at: list[int]
    rest: list[int]
    unit: list[Scalar]
    w: list[Scalar]

    def back(self, ops: Ops, state: State) -> None:
        """Forces of the rows as they were."""
        f = [row[0] for row in ops.entries(state.hard)]
        untouched, left, own = f[: len(self.rest)], f[len(self.rest) : -1], f[-1]
        first, turned = self.unit[0] * own if left else own, own
        for unit, w, x in zip(self.unit[1:], self.w, left, strict=True):
            first, turned = first - unit * x, turned - w * x
        out = dict(zip(self.rest, untouched, strict=True))
        out[self.at[0]] = first
        for k, unit, x in zip(self.at[1:], self.unit[1:], left, strict=True):
            out[k] = x + unit * turned
        state.hard = ops.matrix([[out[k]] for k in range(len(out))])


@dataclass(frozen=True, slots=True)
class Turned:
    """Hard row ``row`` and the last one were turned by the angle of this cosine and sine."""

    row: int
    cos: Scalar
    sin: Scalar

    def back(self, ops: Ops, state: State) -> None:
        """Forces of the two rows as they were."""
        f = [x for (x,) in ops.entries(state.hard)]
        own, other = f[-1], f[self.row]
        f[-1], f[self.row] = self.cos * own - self.sin * other, self.sin * own + self.cos * other
        state.hard = ops.matrix([[x] for x in f])


@dataclass(frozen=True, slots=True)
class Rebased:
    """Hard rows ``K`` that became ``N X⁻¹``; ``right`` is ``K⁺``, and ``X`` None the identity."""

    right: Matrix
    X: Any
    N: Matrix

    def forth(self, ops: Ops, l: Matrix) -> Matrix:
        """Right-hand sides ``N X⁻¹ K⁺ l``."""
        a = self.right @ l
        return self.N @ (a if self.X is None else _exchanged(ops, self.X.forces_to_parent(_exchanged(ops, a))))

    def back(self, ops: Ops, state: State) -> None:
        """Forces ``K⁺ᵀ X⁻ᵀ Nᵀ f`` of the rows as they were."""
        f = ops.transpose(self.N) @ state.hard
        f = f if self.X is None else _exchanged(ops, self.X.motions_to_child(_exchanged(ops, f)))
        state.hard = ops.transpose(self.right) @ f


def _exchanged(ops: Ops, a: Matrix) -> Matrix:
    """Linear and angular part, one for the other: so exchanged, ``Xᵀ`` is ``X⁻¹``."""
    return ops.take(a, (3, 4, 5, 0, 1, 2), None)


@dataclass(frozen=True, slots=True)
class Opened:
    """Hard rows that were made open ones."""

    rows: list[int]
    rest: list[int]
    label: Label

    def back(self, ops: Ops, state: State) -> None:
        """Put their forces back among those of the hard rows."""
        both = ops.vstack([ops.take(state.hard, range(len(self.rest)), None), state.forces[self.label]])
        order = [*self.rest, *self.rows]
        state.hard = ops.take(both, [order.index(k) for k in range(len(order))], None)


@dataclass(frozen=True, slots=True)
class Closed:
    """Open rows whose forces act on nothing beyond this link."""

    labels: tuple[Label, ...]
    sizes: dict[Label, int]
    rest: tuple[Label, ...]
    R: Matrix
    coupling: Matrix
    factor: Any

    def back(self, ops: Ops, state: State) -> None:
        """``f = L⁻¹ (l − K a − L_rest f_rest)``."""
        left = ops.take(self.R, None, BIAS) - ops.take(self.R, None, range(6)) @ state.a
        if self.rest:
            left = left - self.coupling @ gathered(ops, state.forces, self.rest)
        f, start = self.factor.solve(left), 0
        for c in self.labels:
            state.forces[c] = ops.take(f, range(start, start + self.sizes[c]), None)
            start += self.sizes[c]
