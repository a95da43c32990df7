"""The vocabulary in which algorithms are written: matrices, and a few named operations on them.

An algorithm receives an `Ops` and never knows which backend stands behind it:

* `delassus.spatial.trace.trace_ops.TraceOps`: nodes of the graph that the compiler starts from;
* `delassus.spatial.dual_ops.DualOps`: numbers of another backend with their rates of change;
* `delassus.spatial.numpy_ops.NumpyOps`: arrays, of formulas that simulators evaluate.

Matrices of every backend support ``@``, ``+``, ``-`` and unary ``-`` themselves. Operations whose result is symmetric
have names of their own, so that a backend can compute one triangle only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

T = TypeVar("T")


class Matrix(Protocol):
    """Matrix of a backend: sums, products and signs; everything else is asked of `Ops`."""

    def __add__(self, other: Matrix, /) -> Matrix: ...
    def __sub__(self, other: Matrix, /) -> Matrix: ...
    def __matmul__(self, other: Matrix, /) -> Matrix: ...
    def __neg__(self) -> Matrix: ...


class Scalar(Protocol):
    """Number of a backend: arithmetic with its like and with floats."""

    def __add__(self, other: Any, /) -> Scalar: ...
    def __radd__(self, other: Any, /) -> Scalar: ...
    def __sub__(self, other: Any, /) -> Scalar: ...
    def __rsub__(self, other: Any, /) -> Scalar: ...
    def __mul__(self, other: Any, /) -> Scalar: ...
    def __rmul__(self, other: Any, /) -> Scalar: ...
    def __truediv__(self, other: Any, /) -> Scalar: ...
    def __rtruediv__(self, other: Any, /) -> Scalar: ...
    def __neg__(self) -> Scalar: ...


Body = Callable[[list[Scalar]], tuple[Sequence[Scalar], Scalar]]
"""A pass of `Ops.repeat`: from values to the next ones, and 1 where no further pass is to change them, else 0."""


Image = Callable[[Sequence[Scalar]], Sequence[Scalar]]
"""What `Ops.implicit` calls: a map of values whose fixed points are solutions."""

Changes = Callable[[Sequence[Mapping[Any, Scalar]], int], Matrix]
"""What `Ops.changing` calls: from rates of n inputs by column, and the number k of columns, to changes of m values."""

Equations = Callable[[list[Scalar], list[Scalar]], tuple[Sequence[Scalar], Sequence[Scalar], Image]]
"""What `Ops.implicit_motion` calls: from velocities ``v`` and impulses ``p`` to ``M (v − v*) − Jᵀ p``, which is zero at
a solution, to velocities of the rows, ``J v``, and to the map from these to impulses that ``p`` is a fixed point of."""

Function = Callable[..., Sequence[Any]]
"""What `Ops.map` calls: from matrices to matrices."""


class MotionSpace(Protocol):
    """Joint space by the factor ``M = Lᵀ L`` and rows ``Y = J L⁻¹``, of the mobility ``G = Y Yᵀ``."""

    @property
    def G(self) -> Matrix:
        """(m × m)."""

    def solve_transpose(self, B: Matrix, /) -> Matrix:
        """``L⁻ᵀ B`` (nv × k)."""

    def along_rows(self, x: Matrix, /) -> Matrix:
        """``Y x`` (m × k)."""

    def back_substitution(self, x: Matrix, f: Matrix, /) -> Matrix:
        """``L⁻¹ (x + Yᵀ f)`` (nv × k)."""


class MotionTransform(Protocol):
    """Motion transform ``X`` (6 × 6) of a link from its parent; see `spatial.transform`."""

    def rows_to_parent(self, K: Matrix) -> Matrix:
        """``K X``."""

    def motions_to_child(self, V: Matrix) -> Matrix:
        """``X V``."""

    def forces_to_parent(self, F: Matrix) -> Matrix:
        """``Xᵀ F``."""

    def inertia_to_parent(self, H: Matrix) -> Matrix:
        """``Xᵀ H X``."""

    def inverse_inertia_to_child(self, W: Matrix) -> Matrix:
        """``X W Xᵀ``."""

    def rotate_to_parent(self, V: Matrix) -> Matrix:
        """``R V``: vectors of the child's axes in those of the parent."""

    def position(self) -> Matrix:
        """Origin (3 × 1) of the child in the parent."""


SQUARE_FLOOR = 1e-30
"""Added to squares of lengths that may be zero."""


class ScalarOps(ABC):
    """What there is to numbers alone: texts that take no more are parts of compiled loops, too (`emitted`)."""

    epsilon = 2.0**-52
    """Relative round-off of the numbers that it computes in."""

    @abstractmethod
    def cos(self, x: Scalar) -> Scalar:
        """Cosine."""

    @abstractmethod
    def sin(self, x: Scalar) -> Scalar:
        """Sine."""

    @abstractmethod
    def sqrt(self, x: Scalar) -> Scalar:
        """Square root."""

    def length(self, x: Scalar, y: Scalar) -> Scalar:
        """``(x² + y²)^½``, with a derivative where both are zero."""
        return self.sqrt(x * x + y * y + SQUARE_FLOOR)

    @abstractmethod
    def copysign(self, x: Scalar, y: Scalar) -> Scalar:
        """``|x|`` with the sign of ``y``."""

    @abstractmethod
    def minimum(self, x: Scalar, y: Scalar) -> Scalar:
        """The smaller of the two; which, if one is NaN, is backend-defined."""

    @abstractmethod
    def maximum(self, x: Scalar, y: Scalar) -> Scalar:
        """The larger of the two; which, if one is NaN, is backend-defined."""

    @abstractmethod
    def less(self, x: Scalar, y: Scalar) -> Scalar:
        """1 where ``x < y``, else 0; 0 if one is NaN."""

    @abstractmethod
    def select(self, condition: Scalar, x: Scalar, y: Scalar) -> Scalar:
        """``x`` where the condition is not zero, else ``y``."""

    def where(
        self, condition: Scalar, values: Callable[[], Sequence[Scalar]], others: Sequence[Scalar]
    ) -> list[Scalar]:
        """``values()`` where the condition is not zero, else ``others``; loops compute the former only there."""
        return [self.select(condition, x, y) for x, y in zip(values(), others, strict=True)]


class Ops(ScalarOps):
    """A backend that algorithms run on."""

    # -- making and taking apart -----------------------------------------------------------------------------------

    @abstractmethod
    def constant(self, value: Any) -> Matrix:
        """Matrix of numbers known before any state is (a 2-D array)."""

    def flag(self, vector: Any, index: int) -> Scalar:
        """Entry of a vector of flags, each 1 or 0, as a scalar; what structure there is, is that where all are 1."""
        scalar: Scalar = vector[index]
        return scalar

    @abstractmethod
    def entries(self, a: Matrix) -> list[list[Scalar]]:
        """All entries of a matrix as scalars, row by row."""

    @abstractmethod
    def matrix(self, rows: Sequence[Sequence[Scalar]]) -> Matrix:
        """Matrix from scalars (numbers among them), row by row."""

    @abstractmethod
    def take(self, a: Matrix, rows: Sequence[int] | None = None, columns: Sequence[int] | None = None) -> Matrix:
        """Sub-matrix of the given rows and columns, in the given order; None takes all."""

    @abstractmethod
    def put(self, a: Matrix, shape: tuple[int, int], rows: Sequence[int], columns: Sequence[int]) -> Matrix:
        """Matrix of the given shape that holds ``a`` at the given rows and columns and zero elsewhere."""

    @abstractmethod
    def shape(self, a: Matrix) -> tuple[int, int]:
        """Rows and columns."""

    @abstractmethod
    def transpose(self, a: Matrix) -> Matrix:
        """Transpose."""

    @abstractmethod
    def vstack(self, parts: Sequence[Matrix]) -> Matrix:
        """Stack matrices of equal width; at least one."""

    def zeros(self, rows: int, columns: int) -> Matrix:
        """Matrix of structural zeros."""
        return self.constant(np.zeros((rows, columns)))

    def eye(self, n: int) -> Matrix:
        """Identity."""
        return self.constant(np.eye(n))

    def hstack(self, parts: Sequence[Matrix]) -> Matrix:
        """Put matrices of equal height side by side."""
        return self.transpose(self.vstack([self.transpose(a) for a in parts]))

    def block_diagonal(self, parts: Sequence[Matrix]) -> Matrix:
        """Block-diagonal matrix; of no blocks, one without rows."""
        if not parts:
            return self.zeros(0, 0)
        sizes = [self.shape(part)[1] for part in parts]
        rows = []
        for k, part in enumerate(parts):
            n = self.shape(part)[0]
            rows.append(self.hstack([self.zeros(n, sum(sizes[:k])), part, self.zeros(n, sum(sizes[k + 1 :]))]))
        return self.vstack(rows)

    # -- structure: of robot and constraints alone, decided by a trace; numbers tell none --------------------------

    def nonzero(self, a: Matrix) -> Any:
        """Array (rows, columns) of bool: False at structural zeros, that is where no state has anything else."""
        raise NotImplementedError

    def rank(self, a: Matrix, least: float = 0.0) -> int:
        """Rank at almost all states, of entries above ``least``."""
        raise NotImplementedError

    def known(self, a: Matrix) -> Any:
        """Entries (rows, columns) as numbers if all of them are known before the state is, else None."""
        raise NotImplementedError

    def opaque(self, a: Matrix) -> Matrix:
        """The matrix as rounded numbers: expressions of it are not simplified with those that it was made of."""
        return a

    def masked(self, a: Matrix, like: Matrix) -> Matrix:
        """``a``, with structural zeros where ``like`` has them; numbers have none."""
        return a

    # -- numbers ---------------------------------------------------------------------------------------------------

    def absolute(self, a: Matrix) -> Matrix:
        """Matrix of the sizes of all entries."""
        rows = [[self.maximum(x, -x) for x in row] for row in self.entries(a)]
        return self.matrix(rows) if rows else a

    def repeat(self, times: int, start: Sequence[Scalar], body: Body, unless: Scalar = 0.0) -> list[Scalar]:
        """Values after ``times`` passes of ``body``, from ``start`` on; where it says 1, these were the last to act.

        Each state stops for itself, whatever others do; where ``unless`` is 1, before the first pass.
        """
        raise NotImplementedError

    def differentiable(self, plain: Callable[[], T], differentiated: Callable[[], T]) -> T:
        """What ``plain`` makes; where programs are differentiated, what the other does."""
        return plain()

    def implicit(
        self, values: Sequence[Scalar], image: Image, mobility: Sequence[Sequence[Scalar]]
    ) -> list[Scalar]:  # fmt: skip
        """``values``, which ``image`` maps to themselves: what is differentiated knows that they follow from this.

        They are unique where ``mobility`` (m × m), of the rows that they act on, has full rank.
        """
        return list(values)

    def implicit_motion(
        self, v: Sequence[Scalar], p: Sequence[Scalar], equations: Equations, space: MotionSpace
    ) -> tuple[list[Scalar], list[Scalar]]:
        """Velocities, impulses with derivatives that follow from ``equations``, where programs are differentiated."""
        raise NotImplementedError

    def derived(self, value: Scalar, like: Scalar) -> Scalar:
        """``value``, which has the derivatives of ``like`` where programs are differentiated; of zero, none."""
        return value

    def changing(
        self, values: Sequence[Scalar], inputs: Sequence[Scalar], changes: Changes
    ) -> list[Scalar]:  # fmt: skip
        """``values`` of loops, which ``changes`` differentiates by ``inputs`` where programs are differentiated."""
        return list(values)

    def map(self, body: Function, rows: Sequence[Sequence[Matrix]]) -> list[Sequence[Matrix]]:
        """Results of ``body`` for each row of operands. Its code may exist once: it asks nothing about structure."""
        return [body(*row) for row in rows]

    def by_column(self, body: Function, *matrices: Matrix) -> Sequence[Matrix]:
        """Results of ``body``, which treats each column of the matrices by itself, column beside column."""
        return body(*matrices)

    def product(self, a: Matrix, b: Matrix, symmetric: bool = False) -> Matrix:
        """``a @ b`` of matrices with many entries, by code that may go through them in tiles."""
        return self.sym_product(a, b) if symmetric else a @ b

    # -- results that are symmetric --------------------------------------------------------------------------------

    def sym_add(self, a: Matrix, b: Matrix) -> Matrix:
        """Sum of two symmetric matrices."""
        return a + b

    def sym_subtract(self, a: Matrix, b: Matrix) -> Matrix:
        """Difference of two symmetric matrices."""
        return a - b

    def sym_product(self, a: Matrix, b: Matrix) -> Matrix:
        """``a @ b`` where that is known to be symmetric."""
        return a @ b

    def factor(self, D: Matrix, is_judged: bool = True) -> Factor:
        """Factorisation of a symmetric positive definite matrix, whose errors are estimated."""
        return Factor(self, D, is_judged)

    # -- rigid displacements: how X acts is the backend's choice, see transform.py -----------------------------------

    @abstractmethod
    def transform(self, displacement: Any) -> MotionTransform:
        """Motion transform of a `transform.Displacement`, in the form that this backend applies best."""

    @abstractmethod
    def rigid_inertia(self, H: Matrix) -> Any:
        """Inertia (6, 6) of one link, in the form that this backend moves best; see `delassus.spatial.rigid`."""

    # -- bookkeeping -----------------------------------------------------------------------------------------------

    def mark(self, phase: str, values: Sequence[Matrix]) -> None:
        """Say that ``values`` are what the phase of that name computes; traces count operations by phase."""

    def pivot(
        self,
        x: Scalar,
        squared: bool = False,
        size: Scalar | None = None,
        apart: bool = False,
        is_exact: bool = False,
    ) -> None:
        """Say that an elimination divides by ``x``, or by its square; traces estimate errors by pivots.

        ``size`` is what ``x`` is judged by, if not by itself. What is lost where it is small is not multiplied with
        what others lose if it is ``apart``.
        """

    def new_system(self) -> None:
        """Say that the pivots that follow belong to another system of equations."""


class Factor:
    """Factorisation ``D = L diag(d) Lᵀ`` of a symmetric positive definite matrix (n × n), ``L`` unit lower triangular.

    Free of square roots, one reciprocal a column: those of one degree of freedom reduce to it. Nothing is checked: a
    matrix that is not positive definite gives infinities, NaN or negative pivots.
    """

    def __init__(self, ops: Ops, D: Matrix, is_judged: bool = True) -> None:
        self._ops = ops
        n = ops.shape(D)[0]
        a = ops.entries(D)
        L: list[list[Any]] = [[0.0] * n for _ in range(n)]
        self._reciprocals: list[Any] = []
        for j in range(n):
            scaled = [L[j][k] for k in range(j)]  # L_jk d_k, from the column updates below
            pivot = a[j][j]
            for k in range(j):
                L[j][k] = scaled[k] * self._reciprocals[k]
                pivot = pivot - L[j][k] * scaled[k]
            if is_judged:
                ops.pivot(pivot)
            self._reciprocals.append(1.0 / pivot)
            for i in range(j + 1, n):
                value = a[i][j]
                for k in range(j):
                    value = value - L[i][k] * L[j][k]
                L[i][j] = value
        self._L = L

    def half_solve(self, B: Matrix) -> Matrix:
        """``L⁻¹ B`` (n × k)."""
        ops = self._ops
        rows: list[Matrix] = []
        for i in range(len(self._L)):
            row = ops.take(B, (i,), None)
            if i:
                row = row - ops.matrix([self._L[i][:i]]) @ ops.vstack(rows)
            rows.append(row)
        return ops.vstack(rows)

    def scale(self, Z: Matrix) -> Matrix:
        """``diag(d)⁻¹ Z`` (n × k)."""
        n = len(self._L)
        diagonal = [[self._reciprocals[i] if i == j else 0.0 for j in range(n)] for i in range(n)]
        return self._ops.matrix(diagonal) @ Z

    def solve(self, B: Matrix) -> Matrix:
        """``D⁻¹ B`` (n × k)."""
        ops, n = self._ops, len(self._L)
        if not n:
            return B
        Z = self.scale(self.half_solve(B))
        rows: list[Matrix] = []
        for i in reversed(range(n)):
            row = ops.take(Z, (i,), None)
            if rows:
                row = row - ops.matrix([[self._L[k][i] for k in range(i + 1, n)]]) @ ops.vstack(rows)
            rows.insert(0, row)
        return ops.vstack(rows)

    def inverse(self) -> Matrix:
        """``D⁻¹`` (n × n)."""
        ops, n = self._ops, len(self._L)
        if n == 1:
            return ops.matrix([[self._reciprocals[0]]])
        Z = self.half_solve(ops.eye(n))  # D⁻¹ = Zᵀ diag(d)⁻¹ Z
        return ops.sym_product(ops.transpose(Z), self.scale(Z))

    def quadratic(self, B: Matrix) -> Matrix:
        """``B D⁻¹ Bᵀ`` (k × k)."""
        ops = self._ops
        Z = self.half_solve(ops.transpose(B))
        return ops.sym_product(ops.transpose(self.scale(Z)), Z)

    def parts(self) -> list[Matrix]:
        """Matrices that `solve` reads."""
        return [self._ops.matrix(self._L), self._ops.matrix([self._reciprocals])]
