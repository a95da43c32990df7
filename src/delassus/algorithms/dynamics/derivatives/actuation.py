"""How joint forces of controls change with positions, velocities and controls: `actuation`, carried out with changes.

What is cut off does not change; at the limit itself it does. Nothing here is from a source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from delassus.algorithms.dynamics.actuation import Forces, State
from delassus.model.tree import Tree
from delassus.spatial.ops import Matrix, Ops, Scalar

Rates = Mapping[tuple[str, int], Scalar]
"""By what varies: ``"q"``, ``"v"`` or ``"u"`` (controls), and its place there."""


@dataclass(frozen=True, slots=True, eq=False)
class Dual:
    """A number, and its rates of change."""

    x: Scalar
    rates: Rates = field(default_factory=dict)

    def __array_ufunc__(self, *_: Any, **__: Any) -> Any:
        """Arrays leave sums and products to this class."""
        return NotImplemented

    def __add__(self, other: Any) -> Dual:
        """Sum with another one, or with a number."""
        if isinstance(other, Dual):
            return Dual(self.x + other.x, _sum(self.rates, other.rates))
        return Dual(self.x + other, self.rates)

    def __mul__(self, other: Any) -> Dual:
        """Product with another one, or with a number."""
        if isinstance(other, Dual):
            return Dual(self.x * other.x, _sum((self * other.x).rates, (other * self.x).rates))
        return Dual(self.x * other, {k: rate * other for k, rate in self.rates.items()})

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Dual:
        """Negative."""
        return self * -1.0

    def __sub__(self, other: Any) -> Dual:
        """Difference with another one, or with a number."""
        return self.__add__(-other)


def _sum(a: Rates, b: Rates) -> Rates:
    return {**a, **b, **{k: a[k] + b[k] for k in a if k in b}}


@dataclass(frozen=True, slots=True)
class DualOps:
    """The one operation that `actuation` asks for, on numbers that vary."""

    ops: Ops

    def minimum(self, x: Dual, most: float) -> Dual:
        """The smaller of the two; a number does not vary."""
        counts = 0.5 + self.ops.copysign(0.5, most - x.x)
        return Dual(self.ops.minimum(x.x, most), (x * counts).rates)


def control_rates(
    ops: Ops, tree: Tree, forces: Callable[..., Forces], q: State, v: State, controls: Sequence[State]
) -> tuple[Matrix, Matrix, Matrix]:
    """Changes of joint forces (nv) with positions, along the tangent, and velocities (nv × nv), and with controls.

    ``forces`` is of `actuation`; of ``controls``, the first varies.
    """
    vary = (("q", q), ("v", v), ("u", controls[0]))
    dual = ([Dual(x, {(name, k): 1.0}) for k, x in enumerate(numbers)] for name, numbers in vary)
    tau: Mapping[int, Any] = forces(
        DualOps(ops), tree, *dual, *([Dual(x) for x in numbers] for numbers in controls[1:])
    )
    rates: list[Rates] = [tau[dof].rates if dof in tau else {} for dof in range(tree.nv)]
    coordinate = {sv.start: sq.start for sq, sv in zip(tree.q_slices, tree.v_slices, strict=True)}
    places = {
        "q": [coordinate.get(k, -1) for k in range(tree.nv)], "v": range(tree.nv), "u": range(len(controls[0])),
    }  # fmt: skip
    with_q, with_v, with_u = (
        ops.matrix([[of_one.get((name, k), 0.0) for k in columns] for of_one in rates])
        for name, columns in places.items()
    )
    return with_q, with_v, with_u
