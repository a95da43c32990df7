"""Numbers with their rates of change, and `Ops` on them: what is written for numbers is carried out with changes.

Rates are by what varies; those that are not named are zero, and cost nothing. Griewank and Walther, chapter 3.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from delassus.spatial.numpy_ops import NumpyOps
from delassus.spatial.ops import Ops, Scalar

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
            return Dual(self.x * other.x, _sum((self * other.x).rates, (other * self.x).rates))
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


def _rates(x: Any) -> Rates:
    return x.rates if isinstance(x, Dual) else {}


class DualOps(NumpyOps):
    """Operations on matrices of numbers of another backend with their rates: arrays (rows, columns) of `Dual`."""

    def __init__(self, base: Ops) -> None:
        super().__init__(object)
        self.base = base

    def entry(self, vector: Any, index: int) -> Any:
        return vector[index]

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
        return self.matrix(
            [[Dual(x, rates(i, j)) for j, x in enumerate(r)] for i, r in enumerate(self.base.entries(a))]
        )

    def _function(self, y: Scalar, x: Any, slope: Scalar) -> Dual:
        return Dual(y, {k: rate * slope for k, rate in _rates(x).items()})

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
        base, a, b, holds = self.base, _rates(x), _rates(y), value(condition)
        rates = {k: base.select(holds, a.get(k, 0.0), b.get(k, 0.0)) for k in {**a, **b}}
        return Dual(base.select(holds, value(x), value(y)), rates)

    def minimum(self, x: Any, y: Any) -> Any:
        chosen = self.select(self.less(y, x), y, x)
        return Dual(self.base.minimum(value(x), value(y)), chosen.rates)

    def maximum(self, x: Any, y: Any) -> Any:
        chosen = self.select(self.less(x, y), y, x)
        return Dual(self.base.maximum(value(x), value(y)), chosen.rates)
