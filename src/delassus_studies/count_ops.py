"""`Ops` on sparsity patterns: counts the operations of an algorithm without building its expression graph.

An entry is 0 (structural zero), 1 (plus or minus one), 2 (another known number) or 3 (depends on the state). An
operation costs one unless a structural zero, a unit or two known numbers make it free; symmetric results cost one
triangle. Exact enough for scaling studies (a test holds it to the traced count) at a thousandth of the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from delassus.spatial.ops import Matrix, Ops
from delassus.spatial.rigid import RigidInertia
from delassus.spatial.transform import Displacement, StagedTransform

ZERO, UNIT, KNOWN, STATE = 0, 1, 2, 3


def _codes(value: Any) -> Any:
    value = np.asarray(value, dtype=float)
    return np.where(value == 0, ZERO, np.where(np.abs(value) == 1, UNIT, KNOWN)).astype(np.int8)


class Pattern:
    """A matrix of entry codes that adds what each operation on it costs to its machine's total."""

    __array_ufunc__ = None
    __slots__ = ("codes", "ops")

    def __init__(self, ops: CountOps, codes: Any) -> None:
        self.ops, self.codes = ops, codes

    def __add__(self, other: Pattern) -> Pattern:
        return self.ops.plus(self, other, symmetric=False)

    __sub__ = __add__

    def __neg__(self) -> Pattern:
        return self

    def __matmul__(self, other: Pattern) -> Pattern:
        return self.ops.times(self, other, symmetric=False)


class Entry:
    """A scalar code; what it costs is due once a matrix is made of it, or of a scalar that was made of it."""

    __slots__ = ("code", "cost", "inputs", "ops")

    def __init__(self, ops: CountOps, code: int, cost: int = 0, inputs: tuple[Any, ...] = ()) -> None:
        self.ops, self.code, self.cost = ops, code, cost
        self.inputs: list[Entry] = [x for x in inputs if isinstance(x, Entry) and (x.cost or x.inputs)]

    def use(self) -> int:
        """The code; adds what this scalar and those that it was made of cost, once each."""
        pending = [self]
        while pending:
            x = pending.pop()
            self.ops.total += x.cost
            pending.extend(x.inputs)
            x.cost, x.inputs = 0, []
        return self.code

    def _code(self, other: Any) -> int:
        return other.code if isinstance(other, Entry) else int(_codes(other))

    def __add__(self, other: Any) -> Entry:
        a, b = self.code, self._code(other)
        if b == ZERO:
            return self
        if a == ZERO:
            return other if isinstance(other, Entry) else Entry(self.ops, b)
        if a == STATE or b == STATE:
            return Entry(self.ops, STATE, 1, (self, other))
        return Entry(self.ops, KNOWN)

    __radd__ = __sub__ = __rsub__ = __add__

    def __mul__(self, other: Any) -> Entry:
        a, b = self.code, self._code(other)
        if a == ZERO or b == ZERO:
            return Entry(self.ops, ZERO)
        if a == STATE or b == STATE:
            return Entry(self.ops, STATE, int(a != UNIT and b != UNIT), (self, other))
        return Entry(self.ops, UNIT if a == b == UNIT else KNOWN)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Entry:
        return self.__mul__(self._one_over(other))

    def __rtruediv__(self, other: Any) -> Entry:
        return Entry(self.ops, int(_codes(other))) / self

    def _one_over(self, other: Any) -> Entry:
        code = self._code(other)
        return Entry(self.ops, code, int(code == STATE and self.code == UNIT), (other,))

    def __neg__(self) -> Entry:
        return self


class CountOps(Ops):
    """The counting machine. `total` is the number of operations so far."""

    def __init__(self) -> None:
        self.total = 0

    def state(self, size: int) -> list[Entry]:
        """State vector of entries that all depend on the state."""
        return [Entry(self, STATE) for _ in range(size)]

    def constant(self, value: Any) -> Any:
        return Pattern(self, _codes(value))

    def entries(self, a: Any) -> list[list[Any]]:
        return [[Entry(self, int(code)) for code in row] for row in a.codes]

    def matrix(self, rows: Sequence[Sequence[Any]]) -> Any:
        codes = [[x.use() if isinstance(x, Entry) else int(_codes(x)) for x in row] for row in rows]
        return Pattern(self, np.array(codes, dtype=np.int8))

    def take(self, a: Any, rows: Sequence[int] | None = None, columns: Sequence[int] | None = None) -> Any:
        codes = a.codes if rows is None else a.codes[list(rows)]
        return Pattern(self, codes if columns is None else codes[:, list(columns)])

    def put(self, a: Any, shape: tuple[int, int], rows: Sequence[int], columns: Sequence[int]) -> Any:
        codes = np.zeros(shape, dtype=np.int8)
        codes[np.ix_(list(rows), list(columns))] = a.codes
        return Pattern(self, codes)

    def shape(self, a: Any) -> tuple[int, int]:
        return int(a.codes.shape[0]), int(a.codes.shape[1])

    def nonzero(self, a: Any) -> Any:
        return a.codes != ZERO

    def transpose(self, a: Any) -> Any:
        return Pattern(self, a.codes.T)

    def vstack(self, parts: Sequence[Any]) -> Any:
        return Pattern(self, np.concatenate([p.codes for p in parts]))

    def _function(self, x: Any) -> Any:
        if isinstance(x, Entry) and x.code == STATE:
            return Entry(self, STATE, 1, (x,))
        return Entry(self, KNOWN)

    cos = sin = sqrt = _function

    def _not_asked(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("methods for the Delassus matrix do not ask for this")

    rank = known = copysign = minimum = maximum = less = select = repeat = _not_asked

    def plus(self, a: Pattern, b: Pattern, symmetric: bool) -> Pattern:
        """Sum of two patterns."""
        both = (a.codes != ZERO) & (b.codes != ZERO)
        codes = np.maximum(a.codes, b.codes)
        cost = both & (codes == STATE)
        self.total += _half(cost) if symmetric else int(np.count_nonzero(cost))
        codes[both & (codes < KNOWN)] = KNOWN
        return Pattern(self, codes)

    def times(self, a: Pattern, b: Pattern, symmetric: bool) -> Pattern:
        """Product of two patterns."""
        rows, row_of = _distinct(a.codes)
        columns, column_of = _distinct(b.codes.T)
        codes, cost = _product(rows.tobytes(), columns.tobytes(), a.codes.shape[1])
        if symmetric:
            self.total += int(np.tril(cost[row_of][:, column_of]).sum())
        else:
            how_often = np.bincount(row_of, minlength=len(rows)), np.bincount(column_of, minlength=len(columns))
            self.total += int(how_often[0] @ cost @ how_often[1])
        return Pattern(self, codes[row_of][:, column_of])

    def sym_add(self, a: Any, b: Any) -> Any:
        return self.plus(a, b, symmetric=True)

    sym_subtract = sym_add

    def sym_product(self, a: Any, b: Any) -> Any:
        return self.times(a, b, symmetric=True)

    def transform(self, displacement: Displacement) -> StagedTransform:
        return StagedTransform(self, displacement)

    def rigid_inertia(self, H: Any) -> RigidInertia:
        return RigidInertia.of_matrix(self, H)


def _half(cost: Any) -> int:
    """Sum over one triangle of a matrix of costs with equal triangles."""
    return (int(np.count_nonzero(cost)) + int(np.count_nonzero(np.diagonal(cost)))) // 2


def _distinct(rows: Any) -> tuple[Any, Any]:
    """Distinct rows of a matrix of codes, and for each row which of them it is."""
    width = rows.shape[1]
    if width == 0 or rows.shape[0] <= 6:
        return np.ascontiguousarray(rows), np.arange(rows.shape[0])
    _, first, which = np.unique(
        np.ascontiguousarray(rows).view(np.dtype((np.void, width))).ravel(), return_index=True, return_inverse=True
    )
    return rows[first], which


@lru_cache(maxsize=100_000)
def _product(rows: bytes, columns: bytes, inner: int) -> tuple[Any, Any]:
    """Codes and costs of the product of a matrix (by rows) and another (by columns) with ``inner`` terms an entry."""
    shape = (-1, inner) if inner else (0, 0)
    x = np.frombuffer(rows, dtype=np.int8).reshape(shape)
    y = np.frombuffer(columns, dtype=np.int8).reshape(shape)

    def both(p: Any, q: Any) -> Any:
        return p.astype(np.int64) @ q.astype(np.int64).T

    terms = both(x != ZERO, y != ZERO)
    state = terms - both((x != ZERO) & (x != STATE), (y != ZERO) & (y != STATE))
    unit_state = both(x == UNIT, y == STATE) + both(x == STATE, y == UNIT)
    cost = state - unit_state + np.where(state > 0, np.maximum(terms - 1, 0), 0)
    unit = (terms == 1) & (both(x == UNIT, y == UNIT) == 1)
    codes = np.where(terms == 0, ZERO, np.where(state > 0, STATE, np.where(unit, UNIT, KNOWN)))
    return codes.astype(np.int8), cost


class DenseTransform:
    """One 6×6 matrix, batched."""

    def __init__(self, ops: Ops, d: Displacement) -> None:
        self._ops = ops
        R, p = ops.constant(d.rotation), ops.constant(d.position[:, None])
        if d.joint_position is not None:
            p = p + R @ ops.matrix([[x] for x in d.joint_position])
        if d.joint_rotation is not None:
            R = R @ ops.matrix(d.joint_rotation.rows())
        self._R, self._p = R, p
        E = ops.transpose(R)
        (px,), (py,), (pz,) = ops.entries(p)
        cross = ops.matrix([[0 * px, -pz, py], [pz, 0 * px, -px], [-py, px, 0 * px]])
        top = ops.hstack([E, -(E @ cross)])
        self._X = ops.vstack([top, ops.hstack([ops.zeros(3, 3), E])])
        self._XT = ops.transpose(self._X)

    def rows_to_parent(self, K: Matrix) -> Matrix:
        return K @ self._X

    def motions_to_child(self, V: Matrix) -> Matrix:
        return self._X @ V

    def forces_to_parent(self, F: Matrix) -> Matrix:
        return self._XT @ F

    def inertia_to_parent(self, H: Matrix) -> Matrix:
        return self._ops.sym_product(self._XT, H @ self._X)

    def inverse_inertia_to_child(self, W: Matrix) -> Matrix:
        return self._ops.sym_product(self._X @ W, self._XT)

    def rotate_to_parent(self, V: Matrix) -> Matrix:
        return self._R @ V

    def position(self) -> Matrix:
        return self._p


class DenseRigidInertia:
    """Rigid-body inertia as a 6 × 6 matrix."""

    def __init__(self, ops: Ops, H: Matrix) -> None:
        self._ops, self._H = ops, H

    def __add__(self, other: DenseRigidInertia) -> DenseRigidInertia:
        return DenseRigidInertia(self._ops, self._H + other._H)

    def to_parent(self, X: DenseTransform) -> DenseRigidInertia:
        """``Xᵀ I X``."""
        return DenseRigidInertia(self._ops, X.inertia_to_parent(self._H))

    def columns(self, axes: Sequence[int]) -> Matrix:
        """Columns of the 6×6 form."""
        return self._ops.take(self._H, None, axes)
