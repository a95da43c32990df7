"""Numbers with their rates of change, and `Ops` on them: what is written for numbers is carried out with changes.

Rates are by what varies; those that are not named are zero, and cost nothing. Griewank and Walther, chapter 3.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from delassus.spatial.numpy_ops import NumpyOps
from delassus.spatial.ops import Matrix, MotionTransform, Ops, Scalar

Rates = Mapping[Hashable, Scalar]
"""By what varies."""


@dataclass(frozen=True, slots=True, eq=False)
class Dual:
    """A number, and its rates of change."""

    x: Scalar
    rates: Rates = field(default_factory=dict)

    __array_ufunc__ = None
    """Arrays leave sums and products to this class."""

    def __add__(self, other: Any) -> Dual:
        """Sum with another one, or with a number."""
        if isinstance(other, Dual):
            return Dual(self.x + other.x, _sum(self.rates, other.rates))
        return Dual(self.x + other, self.rates)

    def __mul__(self, other: Any) -> Dual:
        """Product with another one, or with a number."""
        if isinstance(other, Dual):
            own, others = ({k: r * y for k, r in a.rates.items()} for a, y in ((self, other.x), (other, self.x)))
            return Dual(self.x * other.x, _sum(own, others))
        return Dual(self.x * other, {k: rate * other for k, rate in self.rates.items()})

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Dual:
        """Negative."""
        return self * -1.0

    def __sub__(self, other: Any) -> Dual:
        """Difference with another one, or with a number."""
        return self.__add__(-other)

    def __rsub__(self, other: Any) -> Dual:
        """Difference of a number with it."""
        return (-self).__add__(other)

    def __truediv__(self, other: Any) -> Dual:
        """Quotient by another one, or by a number."""
        over: Dual = other.reciprocal() if isinstance(other, Dual) else Dual(1.0 / other)
        return self.__mul__(over)

    def __rtruediv__(self, other: Any) -> Dual:
        """Quotient of a number by it."""
        return self.reciprocal().__mul__(other)

    def reciprocal(self) -> Dual:
        """``1 / x``."""
        y = 1.0 / self.x
        return Dual(y, {k: -(rate * y * y) for k, rate in self.rates.items()})

    def rate(self, of: Hashable) -> Scalar:
        """Rate of change with what varies."""
        return self.rates.get(of, 0.0)


def _sum(a: Rates, b: Rates) -> Rates:
    return {**a, **b, **{k: a[k] + b[k] for k in a if k in b}}


def value(x: Any) -> Any:
    """The number itself."""
    return x.x if isinstance(x, Dual) else x


def rates_of(x: Any) -> Rates:
    """Its rates of change."""
    return x.rates if isinstance(x, Dual) else {}


class DualOps(NumpyOps):
    """Operations on matrices of numbers of another backend with their rates: arrays (rows, columns) of `Dual`."""

    def __init__(self, base: Ops) -> None:
        super().__init__(object)
        self.base = base

    def entries(self, a: Any) -> list[list[Any]]:
        out: list[list[Any]] = a.tolist()
        return out

    def matrix(self, rows: Sequence[Sequence[Any]]) -> Any:
        out = np.empty((len(rows), len(rows[0])), dtype=object)
        for i, row in enumerate(rows):
            for j, x in enumerate(row):
                out[i, j] = x if isinstance(x, Dual) else Dual(x)
        return out

    def lifted(self, a: Any, rates: Callable[[int, int], Any] = lambda i, j: {}) -> Any:
        """A matrix of the other backend, each entry with its rates."""
        rows = [[Dual(x, rates(i, j)) for j, x in enumerate(r)] for i, r in enumerate(self.base.entries(a))]
        return self.matrix(rows) if rows else self.zeros(*self.base.shape(a))

    def varied(self, x: Any, key: Hashable) -> Dual:
        """A number of the other backend that varies by itself."""
        return Dual(x, {key: 1.0})

    def values(self, a: Any) -> Matrix:
        """The numbers of a matrix themselves."""
        return self.base.matrix([[value(x) for x in row] for row in a])

    def rates(self, numbers: Sequence[Any], keys: Sequence[Hashable]) -> Matrix:
        """Rates of n numbers by k things that vary (n × k)."""
        rows = [[rates_of(x).get(key, 0.0) for key in keys] for x in numbers]
        return self.base.matrix(rows) if rows and keys else self.base.zeros(len(rows), len(keys))

    def linear(self, f: Callable[[Matrix], Matrix], a: Any) -> Matrix:
        """``f(a)`` of a linear function of the other backend: it is that of the rates, too."""
        entries = self.entries(a)
        keys = dict.fromkeys(k for row in entries for x in row for k in rates_of(x))
        base = self.base
        parts = {
            k: base.entries(f(base.matrix([[rates_of(x).get(k, 0.0) for x in row] for row in entries]))) for k in keys
        }
        values = base.entries(f(base.matrix([[value(x) for x in row] for row in entries])))
        out: Matrix = self.matrix([
            [Dual(x, {k: part[i][j] for k, part in parts.items()}) for j, x in enumerate(row)]
            for i, row in enumerate(values)
        ])  # fmt: skip
        return out

    def _function(self, y: Scalar, x: Any, slope: Scalar) -> Dual:
        return Dual(y, {k: rate * slope for k, rate in rates_of(x).items()})

    def cos(self, x: Any) -> Any:
        return self._function(self.base.cos(value(x)), x, -self.base.sin(value(x)))

    def sin(self, x: Any) -> Any:
        return self._function(self.base.sin(value(x)), x, self.base.cos(value(x)))

    def sqrt(self, x: Any) -> Any:
        y = self.base.sqrt(value(x))
        return self._function(y, x, 0.5 / y)

    def copysign(self, x: Any, y: Any) -> Any:
        signs = [self.base.copysign(1.0, value(a)) for a in (x, y)]
        return self._function(self.base.copysign(value(x), value(y)), x, signs[0] * signs[1])

    def less(self, x: Any, y: Any) -> Any:
        return Dual(self.base.less(value(x), value(y)))

    def select(self, condition: Any, x: Any, y: Any) -> Any:
        base, a, b, holds = self.base, rates_of(x), rates_of(y), value(condition)
        rates = {k: base.select(holds, a.get(k, 0.0), b.get(k, 0.0)) for k in {**a, **b}}
        return Dual(base.select(holds, value(x), value(y)), rates)

    def minimum(self, x: Any, y: Any) -> Any:
        chosen = self.select(self.less(y, x), y, x)
        return Dual(self.base.minimum(value(x), value(y)), chosen.rates)

    def maximum(self, x: Any, y: Any) -> Any:
        chosen = self.select(self.less(x, y), y, x)
        return Dual(self.base.maximum(value(x), value(y)), chosen.rates)


class TwiceDualOps(DualOps):
    """Operations on numbers of another backend with first and second rates: dual numbers of dual numbers.

    What enters is `lifted` or `varied`: a dual number by itself has rates of one order.
    """

    def __init__(self, numbers: Ops) -> None:
        super().__init__(DualOps(numbers))
        self.numbers = numbers

    def lifted(self, a: Any, rates: Callable[[int, int], Any] = lambda i, j: {}) -> Any:
        return super().lifted(self.base.lifted(a, rates), rates)  # type: ignore[attr-defined]

    def varied(self, x: Any, key: Hashable) -> Dual:
        return Dual(Dual(x, {key: 1.0}), {key: 1.0})

    def first_rates(self, x: Any, keys: Sequence[Hashable]) -> Matrix:
        """Rates (n × 1) of a number by n things that vary."""
        return self.numbers.matrix([[value(rates_of(x).get(key, 0.0))] for key in keys])

    def second_rates(self, x: Any, keys: Sequence[Hashable]) -> Matrix:
        """Second rates (n × n) of a number."""
        rows = [[rates_of(rates_of(x).get(a, 0.0)).get(b, 0.0) for b in keys] for a in keys]
        return self.numbers.matrix(rows)


@dataclass(frozen=True, slots=True)
class HeldTransform:
    """Motion transform of another backend, which does not vary, of what does."""

    ops: DualOps
    X: MotionTransform

    def rows_to_parent(self, K: Matrix) -> Matrix:
        return self.ops.linear(self.X.rows_to_parent, K)

    def motions_to_child(self, V: Matrix) -> Matrix:
        return self.ops.linear(self.X.motions_to_child, V)

    def forces_to_parent(self, F: Matrix) -> Matrix:
        return self.ops.linear(self.X.forces_to_parent, F)

    def inertia_to_parent(self, H: Matrix) -> Matrix:
        return self.ops.linear(self.X.inertia_to_parent, H)

    def inverse_inertia_to_child(self, W: Matrix) -> Matrix:
        return self.ops.linear(self.X.inverse_inertia_to_child, W)

    def rotate_to_parent(self, V: Matrix) -> Matrix:
        return self.ops.linear(self.X.rotate_to_parent, V)

    def position(self) -> Any:
        return self.ops.lifted(self.X.position())
