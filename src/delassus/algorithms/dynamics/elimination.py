"""Elimination of a link's unknowns one by one, on the way to the root.

A link on that way is the quadratic form ``½ aᵀ H a + pᵀ a`` of its acceleration ``a``, with rows that ``a`` must meet,
``K a = l`` (*hard* rows), and rows of loops that are still *open*, ``K a + L f = l``, whose forces ``f`` act on other
links too. Rows are kept with their right-hand sides as a seventh column. A joint is a chain of degrees of freedom, each
along a coordinate axis ``s`` and with an armature ``r``. The steps, and what they do:

`Free`
    No hard row meets the axis: ``D = H_ss + r``, ``W = H_s / D``, ``H ← H − H_s W``, and with ``u = τ − p_s``
    ``p ← p + Wᵀ u``. Of open rows, ``x = K_s``:
    ``K ← K − x W``, ``L ← L + x xᵀ / D``, ``l ← l − x u / D``.
`Reflected`, `Held`
    A Householder reflection leaves one hard row that meets the axis, ``[ρ 1] a = α`` with the 1 there: it says how
    the degree of freedom moves, ``a_s = α − ρ a``. With ``T = 1 − S [ρ 1]``: ``H ← Tᵀ H T + r [ρ 1]ᵀ [ρ 1]`` and
    ``p ← p + H_s α + ρᵀ (u − D α)``. Open rows lose ``x [ρ 1 | α]``.
`Opened`
    Hard rows become open ones, ``L = 0``.
`Closed`
    Open rows whose forces act on nothing beyond this link: ``f = L⁻¹ (l − K a)``, ``H ← H + Kᵀ L⁻¹ K``,
    ``p ← p − Kᵀ L⁻¹ l``.

Without armature, a coordinate along which a degree of freedom was eliminated matters no more: the force that passes it
is ``τ``. The way back is in `way_back`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from delassus.algorithms.dynamics.way_back import BIAS, Closed, Free, Held, Label, Opened, Reflected, Step
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
    mobility : scalar
        What an entry of ``L`` is to be compared with.
    """

    labels: tuple[Label, ...]
    sizes: dict[Label, int]
    R: Matrix
    L: Matrix
    moved: dict[Label, frozenset[int]]
    ends: dict[Label, int]
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
    out = Open(labels, sizes, ops.zeros(total, 7), ops.zeros(total, total), dict.fromkeys(labels, frozenset()), {})
    for o in arriving:
        at = [k for c in o.labels for k in out.indices([c])]
        out.R = out.R + ops.put(o.R, (total, 7), at, range(7))
        out.L = ops.sym_add(out.L, ops.put(o.L, (total, total), at, at))
        out.mobility = out.mobility + o.mobility
        for c in o.labels:
            out.moved[c] |= o.moved[c]
            out.ends[c] = out.ends.get(c, 0) + o.ends[c]
    return out


@dataclass(slots=True)
class Passage:
    """A link on the way to the root.

    Attributes
    ----------
    H, p : (6, 6), (6, 1) matrices
    R : (m, 7) matrix
        Hard rows ``[K l]``.
    open : Open or None
    scale : pair of scalars
        Squares that entries of the rows' columns are to be compared with: of linear and of angular columns.
    steps : list of Step
        Done so far.
    pivot : scalar
        Smallest pivot so far, relative to what it is to be compared with.
    """

    ops: Ops
    H: Matrix
    p: Matrix
    R: Matrix
    open: Open | None
    scale: tuple[Scalar, Scalar]
    steps: list[Step] = field(default_factory=list)
    pivot: Scalar = 1.0
    alive: list[int] = field(default_factory=lambda: list(range(6)))

    def judge(self, pivot: Scalar) -> None:
        """Keep the smallest pivot."""
        self.pivot = self.ops.minimum(self.pivot, pivot)

    def eliminate(self, s: int, dof: int, armature: float, tau: Matrix) -> None:
        """Eliminate the degree of freedom along the axis ``s``."""
        meets = self.ops.nonzero(self.ops.take(self.R, None, (s,)))[:, 0]
        if meets.any():
            self._hold(s, armature, tau, [k for k, x in enumerate(meets) if x])
        else:
            self._free(s, dof, armature, tau)

    def _free(self, s: int, dof: int, armature: float, tau: Matrix) -> None:
        ops = self.ops
        to = self.alive if armature else [k for k in self.alive if k != s]
        U = ops.take(self.H, to, (s,))
        (D,) = ops.entries(ops.take(self.H, (s,), (s,)))[0]
        d = ops.matrix([[1.0 / (D + armature if armature else D)]])
        W = d @ ops.transpose(U)
        u = tau - ops.take(self.p, (s,), None)
        self.H = _spread(ops, ops.sym_subtract(ops.take(self.H, to, to), ops.sym_product(U, W)), to)
        self._push(s, to, ops.take(self.p, to, None) + ops.transpose(W) @ u, tau)
        x = self._open_column(s)
        step = Free(s, to, W, d @ u, None, (), tau)
        if x is not None and self.open is not None:
            y = x @ d
            rows = self.open
            rows.R = self._less(rows.R, x, W, d @ u, to)
            rows.L = ops.sym_add(rows.L, ops.sym_product(y, ops.transpose(x)))
            meets = ops.nonzero(x)[:, 0]
            for label in rows.labels:
                if meets[rows.indices([label])].any():
                    rows.moved[label] |= {dof}
            rows.mobility = rows.mobility + self._scale_of(s) * ops.entries(d)[0][0]
            step = Free(s, to, W, d @ u, y, rows.labels, tau)
        self.steps.append(step)
        self.alive = to

    def _hold(self, s: int, armature: float, tau: Matrix, at: list[int]) -> None:
        ops = self.ops
        row, size, pivot = self._reflect(s, at)
        self.judge(pivot * (1.0 / self._scale_of(s)))
        x = ops.matrix([[1.0 / size]])
        rest = [k for k in self.alive if k != s]
        rho, alpha = x @ ops.take(row, None, rest), x @ ops.take(row, None, BIAS)
        U, h = ops.take(self.H, rest, (s,)), ops.take(self.H, (s,), (s,))
        D = ops.matrix([[ops.entries(h)[0][0] + armature]]) if armature else h
        half = ops.constant([[0.5]]) @ h
        w = (U - ops.transpose(rho) @ half) @ rho
        u = tau - ops.take(self.p, (s,), None)
        H = _spread(ops, ops.sym_subtract(ops.take(self.H, rest, rest), w + ops.transpose(w)), rest)
        through = tau
        if armature:
            full = ops.put(rho, (1, 6), (0,), rest) + ops.constant([[float(k == s) for k in range(6)]])
            r = ops.constant([[armature]])
            H = ops.sym_add(H, ops.sym_product(ops.transpose(full) @ r, full))
            through = tau - r @ alpha
        push = ops.take(self.p, rest, None) + U @ alpha + ops.transpose(rho) @ (u - D @ alpha)
        self._push(s, rest, push, through)
        self.H = H
        others = self._open_column(s)
        labels: tuple[Label, ...] = ()
        if others is not None and self.open is not None:
            labels = self.open.labels
            self.open.R = self._less(self.open.R, others, rho, alpha, rest)
        self.steps.append(Held(s, rest, rho, alpha, x, U, h, armature, u, others, labels))
        self.alive = self.alive if armature else rest

    def _push(self, s: int, to: Sequence[int], p: Matrix, tau: Matrix) -> None:
        """New bias force: ``p`` along the coordinates ``to``, ``tau`` along a coordinate s that is not one of them."""
        ops = self.ops
        gone = [k for k in range(6) if k not in to and k != s]
        out = ops.put(p, (6, 1), to, (0,)) + ops.put(ops.take(self.p, gone, None), (6, 1), gone, (0,))
        self.p = out if s in to else out + ops.put(tau, (6, 1), (s,), (0,))

    def _less(self, R: Matrix, x: Matrix, W: Matrix, l: Matrix, to: Sequence[int]) -> Matrix:
        """Rows ``[K l]`` less ``x [W l]``, along the coordinates ``to`` that are left."""
        ops, columns = self.ops, [*to, *BIAS]
        m = ops.shape(R)[0]
        return ops.put(ops.take(R, None, columns) - x @ ops.hstack([W, l]), (m, 7), range(m), columns)

    def _open_column(self, s: int) -> Matrix | None:
        """``K S`` of the open rows, if any is not zero."""
        if self.open is None:
            return None
        x = self.ops.take(self.open.R, None, (s,))
        return x if self.ops.nonzero(x).any() else None

    def _scale_of(self, s: int) -> Scalar:
        return self.scale[0] if s < 3 else self.scale[1]

    def _reflect(self, s: int, at: list[int]) -> tuple[Matrix, Scalar, Scalar]:
        """Make all hard rows but one zero along the axis ``s``; returns that one, its entry there, and the pivot."""
        ops, m = self.ops, self.ops.shape(self.R)[0]
        rest = [k for k in range(m) if k not in at]
        x = [ops.entries(ops.take(self.R, (k,), (s,)))[0][0] for k in at]
        if len(at) == 1:
            row = ops.take(self.R, at, None)
            self.R = ops.take(self.R, rest, None)
            self.steps.append(Reflected(at, rest, [1.0], []))
            return row, x[0], x[0] * x[0]
        square = x[0] * x[0]
        for entry in x[1:]:
            square = square + entry * entry
        size = ops.copysign(ops.sqrt(square), x[0])
        unit = [entry * (1.0 / size) for entry in x]
        beta = 1.0 / (1.0 + unit[0])
        w = [entry * beta for entry in unit[1:]]
        others = [k for k in range(7) if k != s]
        A = ops.take(self.R, at, others)
        y = ops.matrix([unit]) @ A
        left = ops.take(A, range(1, len(at)), None) - ops.matrix([[e] for e in w]) @ (y + ops.take(A, (0,), None))
        left = ops.put(left, (len(at) - 1, 7), range(len(at) - 1), others)
        self.R = ops.vstack([ops.take(self.R, rest, None), left])
        self.steps.append(Reflected(at, rest, unit, w))
        return ops.put(y, (1, 7), (0,), others), size, square

    def open_rows(self, rows: Sequence[int], label: Label) -> None:
        """Turn hard rows into open ones (``L = 0``)."""
        ops, m = self.ops, self.ops.shape(self.R)[0]
        rest = [k for k in range(m) if k not in rows]
        own = ops.take(self.R, rows, None)
        k = len(rows)
        if self.open is None:
            self.open = Open((label,), {label: k}, own, ops.zeros(k, k), {label: frozenset()}, {label: 1})
        else:
            o = self.open
            L = ops.block_diagonal([o.L, ops.zeros(k, k)])
            self.open = Open(
                (*o.labels, label), {**o.sizes, label: k}, ops.vstack([o.R, own]), L, {**o.moved, label: frozenset()},
                {**o.ends, label: 1}, o.mobility,
            )  # fmt: skip
        self.R = ops.take(self.R, rest, None)
        self.steps.append(Opened(list(rows), rest, label))

    def close(self, labels: Sequence[Label]) -> None:
        """Eliminate the forces of some open rows."""
        ops, rows = self.ops, self.open
        assert rows is not None
        rest = tuple(c for c in rows.labels if c not in labels)
        at, on = rows.indices(labels), rows.indices(rest)
        factor = ops.factor(ops.take(rows.L, at, at))
        moved = any(rows.moved.values())
        for pivot in factor.pivots():
            self.judge(pivot / rows.mobility if moved else 0.0)
        R, coupling = ops.take(rows.R, at, None), ops.take(rows.L, at, on)
        Z = factor.half_solve(ops.hstack([R, coupling]) if on else R)
        Q = ops.sym_product(ops.transpose(factor.scale(Z)), Z)
        self.H = ops.sym_add(self.H, ops.take(Q, range(6), range(6)))
        self.p = self.p - ops.take(Q, range(6), BIAS)
        met = tuple(c for c in rows.labels if c in labels)
        self.steps.append(Closed(met, {c: rows.sizes[c] for c in met}, rest, R, coupling, factor))
        if not rest:
            self.open = None
            return
        beyond = range(7, 7 + len(on))
        rows.R = ops.take(rows.R, on, None) - ops.take(Q, beyond, range(7))
        rows.L = ops.sym_subtract(ops.take(rows.L, on, on), ops.take(Q, beyond, beyond))
        rows.labels = rest


def _spread(ops: Ops, H: Matrix, at: Sequence[int]) -> Matrix:
    return ops.put(H, (6, 6), at, at)
