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
    Rows that can be off (see `switches`) are not multiplied by their flags; where the one that meets the axis is off,
    what `Free` does is done in its stead: ``[ρ α]`` is ``[W u/D]`` there. All is written as a sum of which one part is
    zero, and divisors that belong to the other part are one.
`Rebased`
    Hard rows that act together become others of the same null space, with entries that are known before the state is.
`Opened`
    Hard rows become open ones, ``L = 0``; they are multiplied by their flags.
`Closed`
    Open rows whose forces act on nothing beyond this link: ``f = L⁻¹ (l − K a)``, ``H ← H + Kᵀ L⁻¹ K``,
    ``p ← p − Kᵀ L⁻¹ l``. Rows that are off are zero, and have a one on the diagonal of ``L``.

Without armature, a coordinate along which a degree of freedom was eliminated matters no more: the force that passes it
is ``τ``. The way back is in `way_back`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from delassus.algorithms.dynamics.activation import Condition, Switches
from delassus.algorithms.dynamics.back_substitution import (
    BIAS,
    Closed,
    Free,
    Held,
    Label,
    Opened,
    Rebased,
    Reflected,
    Step,
    Turned,
)
from delassus.algorithms.dynamics.loop_rows import Open, merged
from delassus.algorithms.dynamics.pivot_scaling import Sizes, size_along
from delassus.model.rotations import Array
from delassus.spatial.ops import Matrix, Ops, Scalar

REGULAR_ROWS = 1e3
"""Rows of a larger condition stay as they are given."""


@dataclass(slots=True)
class Passage:
    """A link on the way to the root.

    Attributes
    ----------
    H, p : (6, 6), (6, 1) matrices
    R : (m, 7) matrix
        Hard rows ``[K l]``.
    acts : list of Condition
        When each hard row acts; where it does not, it is nothing to go by.
    open : Open or None
    scale : Sizes
        Of all rows, or of more.
    steps : list of Step
        Done so far.
    pivots : dict of Condition to scalar
        Smallest pivot so far of the rows that act under a condition, relative to what it is to be compared with.
    """

    ops: Ops
    switches: Switches
    H: Matrix
    p: Matrix
    R: Matrix
    acts: list[Condition]
    open: Open | None
    scale: Sizes
    steps: list[Step] = field(default_factory=list)
    pivots: dict[Condition, Scalar] = field(default_factory=dict)
    alive: list[int] = field(default_factory=lambda: list(range(6)))

    def judge(self, pivot: Scalar, act: Condition) -> None:
        """Keep the smallest pivot."""
        self.pivots[act] = self.ops.minimum(self.pivots.get(act, 1.0), pivot)

    def eliminate(self, s: int, dof: int, armature: float, tau: Matrix) -> None:
        """Eliminate the degree of freedom along the axis ``s``."""
        meets = self.ops.nonzero(self.ops.take(self.R, None, (s,)))[:, 0]
        if meets.any():
            self._hold(s, dof, armature, tau, [k for k, x in enumerate(meets) if x])
        else:
            self._free(s, dof, armature, tau)

    def rebase(self, columns: Sequence[int], N: Array, X: Any = None, carried: Matrix | None = None) -> bool:
        """Replace rows ``K a = l`` by ``N a_p = N X⁻¹ K⁺ (l − K c)``, where ``a = X a_p + c``.

        ``N`` must have the null space of ``K X``. It is done only where all rows act together, are known before the
        state is, and are as many as the ``columns`` that they meet. Says whether it was.
        """
        ops, m = self.ops, len(columns)
        if len(self.acts) != m or len(set(self.acts)) != 1 or not isinstance(self.scale[0], float):
            return False
        K, size = ops.known(ops.take(self.R, None, columns)), math.sqrt(self.scale[0])
        if K is None or not size or np.linalg.cond(K) > REGULAR_ROWS:
            return False
        l = ops.take(self.R, None, BIAS)
        if carried is not None:
            l = l - ops.take(self.R, None, columns) @ ops.take(carried, columns, None)
        step = Rebased(ops.put(ops.constant(np.linalg.inv(K)), (6, m), columns, range(m)), X, ops.constant(size * N))
        self.R = ops.hstack([step.N, step.forth(ops, l)])
        self.steps.append(step)
        return True

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
            self.open.R = self._less(self.open.R, x, W, d @ u, to)
            self._let_move(s, dof, x, y, d)
            step = Free(s, to, W, d @ u, y, self.open.labels, tau)
        self.steps.append(step)
        self.alive = to

    def _hold(self, s: int, dof: int, armature: float, tau: Matrix, at: list[int]) -> None:
        ops = self.ops
        row, size, square, act = self._single_out(s, at)
        self.judge(square * (1.0 / size_along(self.scale, s)), act)
        rest = [k for k in self.alive if k != s]
        U, h = ops.take(self.H, rest, (s,)), ops.take(self.H, (s,), (s,))
        D = ops.matrix([[ops.entries(h)[0][0] + armature]]) if armature else h
        x, e = self.switches.reciprocals(ops, act, size, ops.entries(D)[0][0], len(at) == 1)
        rho, alpha = x @ ops.take(row, None, rest), x @ ops.take(row, None, BIAS)
        u, r = tau - ops.take(self.p, (s,), None), ops.constant([[armature]])
        W, move = (rho, alpha) if e is None else (rho + e @ ops.transpose(U), alpha + e @ u)

        # H ← Tᵀ H T, with W for ρ along the coordinates that ρ meets; along the others, what `Free` does
        meets = ops.nonzero(rho)[0]
        own, other = np.flatnonzero(meets).tolist(), np.flatnonzero(~meets).tolist()
        T = ops.put(ops.take(W, None, own), (1, len(rest)), (0,), own)
        w = (U - ops.transpose(T) @ (ops.constant([[0.5]]) @ D)) @ T
        H = ops.sym_subtract(ops.take(self.H, rest, rest), w + ops.transpose(w))
        if e is not None and other:
            V, n = ops.take(U, other, None), len(rest)
            H = ops.sym_subtract(H, ops.put(_square(ops, V, e), (n, n), other, other))
        self.H = _spread(ops, H, rest)
        push = ops.take(self.p, rest, None) + U @ move + ops.transpose(rho) @ (u - D @ alpha)
        self._push(s, rest, push, tau - r @ move if armature else tau)
        if armature:
            across, along = ops.put(r @ W, (6, 6), (s,), rest), r if e is None else r - r @ r @ e
            self.H = ops.sym_add(self.H, across + ops.transpose(across) + ops.put(along, (6, 6), (s,), (s,)))

        others = self._open_column(s)
        labels: tuple[Label, ...] = ()
        if others is not None and self.open is not None:
            labels, m = self.open.labels, ops.shape(others)[0]
            self.open.R = self._less(self.open.R, others, W, move, rest)
            if e is not None:
                y = others @ e
                self._let_move(s, dof, others, y, e)
                if armature:
                    self.open.R = self.open.R + ops.put(y @ r, (m, 7), range(m), (s,))
        self.steps.append(Held(s, rest, rho, alpha, x, e, U, D, armature, u, others, labels))
        self.alive = self.alive if armature else rest

    def _let_move(self, s: int, dof: int, x: Matrix, y: Matrix, e: Matrix) -> None:
        """Add to ``L`` of the open rows what the degree of freedom lets them move: ``x e xᵀ``, ``y = x e``."""
        ops, rows = self.ops, self.open
        assert rows is not None
        rows.L = ops.sym_add(rows.L, ops.sym_product(y, ops.transpose(x)))
        meets = ops.nonzero(x)[:, 0]
        for label in rows.labels:
            if meets[rows.indices([label])].any():
                rows.moved[label] |= {dof}
        rows.mobility = rows.mobility + size_along(self.scale, s) * ops.entries(e)[0][0]

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

    def _single_out(self, s: int, at: list[int]) -> tuple[Matrix, Scalar, Scalar, Condition]:
        """Make all hard rows but one zero along the axis ``s``, and take that one off.

        Returns that row, its entry there, the square of that entry, and when it acts. Of several rows, the entry is not
        zero where they are off.
        """
        ops, switches = self.ops, self.switches
        pivots: list[tuple[int, Scalar, Scalar]] = []
        groups = [[k for k in at if self.acts[k] == act] for act in dict.fromkeys(self.acts[k] for k in at)]
        for g, group in enumerate(groups):
            order, size, square = self._reflect(s, group)
            pivots = [(order.index(k), *numbers) for k, *numbers in pivots]
            groups[g + 1 :] = [[order.index(k) for k in other] for other in groups[g + 1 :]]
            pivots.append((len(order), size, square))
        _, size, square = pivots.pop()
        for k, other_size, _ in reversed(pivots):
            own, other = self.acts[-1], self.acts[k]
            a, b = switches.on(own) * size, switches.on(other) * other_size
            either = switches.either(own, other)
            square = a * a + b * b
            size = ops.sqrt(square + switches.off(either))
            self._turn(s, k, a * (1.0 / size), b * (1.0 / size))
            self.acts[k], self.acts[-1] = switches.both(own, other), either
        last = len(self.acts) - 1
        row, self.R = ops.take(self.R, (last,), None), ops.take(self.R, range(last), None)
        return row, size, square, self.acts.pop()

    def _turn(self, s: int, k: int, cos: Scalar, sin: Scalar) -> None:
        """Turn the last row and row k so that row k does not meet the axis ``s``."""
        ops, m, others = self.ops, self.ops.shape(self.R)[0], [c for c in range(7) if c != s]
        both = ops.matrix([[-sin, cos], [cos, sin]]) @ ops.take(self.R, (m - 1, k), others)
        rest = [i for i in range(m - 1) if i != k]
        R = ops.put(ops.take(self.R, rest, None), (m, 7), rest, range(7))
        self.R = R + ops.put(both, (m, 7), (k, m - 1), others)
        self.steps.append(Turned(k, cos, sin))

    def _reflect(self, s: int, at: list[int]) -> tuple[list[int], Scalar, Scalar]:
        """Make all of some hard rows but one, which becomes the last row, zero along the axis ``s``.

        They act all or none. Returns the order in which the other rows are now, that row's entry, and its square.
        """
        ops, act = self.ops, self.acts[at[0]]
        rest = [k for k in range(len(self.acts)) if k not in at]
        order, off = [*rest, *at[1:]], self.switches.off(act)
        x = [ops.entries(ops.take(self.R, (k,), (s,)))[0][0] for k in at]
        self.acts = [self.acts[k] for k in [*order, at[0]]]
        if len(at) == 1:
            self.R = ops.take(self.R, [*rest, *at], None)
            self.steps.append(Reflected(at, rest, [1.0], []))
            return order, x[0], x[0] * x[0]
        square = x[0] * x[0]
        for entry in x[1:]:
            square = square + entry * entry
        away = square + off if ops.known(ops.matrix([[square]])) is None else square
        size = ops.copysign(ops.sqrt(away), x[0])
        unit = [entry * (1.0 / size) for entry in x]
        beta = 1.0 / (1.0 + unit[0])
        w = [entry * beta for entry in unit[1:]]
        others = [k for k in range(7) if k != s]
        A = ops.take(self.R, at, others)
        y = ops.matrix([unit]) @ A
        left = ops.take(A, range(1, len(at)), None) - ops.matrix([[e] for e in w]) @ (y + ops.take(A, (0,), None))
        turned = ops.put(ops.vstack([left, y]), (len(at), 7), range(len(at)), others)
        self.R = ops.vstack([ops.take(self.R, rest, None), turned])
        self.steps.append(Reflected(at, rest, unit, w))
        return order, size, square

    def open_rows(self, rows: Sequence[int], label: Label) -> None:
        """Turn hard rows into open ones (``L = 0``)."""
        ops, m = self.ops, self.ops.shape(self.R)[0]
        rest = [k for k in range(m) if k not in rows]
        k, acts = len(rows), [self.acts[row] for row in rows]
        own = self.switches.zero_where_off(ops, acts, ops.take(self.R, rows, None))
        opened = Open((label,), {label: k}, own, ops.zeros(k, k), {label: frozenset()}, {label: 1}, {label: acts})
        self.open = merged(ops, [opened] if self.open is None else [self.open, opened])
        self.R, self.acts = ops.take(self.R, rest, None), [self.acts[k] for k in rest]
        self.steps.append(Opened(list(rows), rest, label))

    def close(self, labels: Sequence[Label]) -> None:
        """Eliminate the forces of some open rows."""
        ops, rows = self.ops, self.open
        assert rows is not None
        rest = tuple(c for c in rows.labels if c not in labels)
        at, on = rows.indices(labels), rows.indices(rest)
        acts = [act for c in rows.labels if c in labels for act in rows.acts[c]]
        factor = ops.factor(ops.sym_add(ops.take(rows.L, at, at), self.switches.slack(ops, acts)))
        moved = any(rows.moved.values())
        for pivot, act in zip(factor.pivots(), acts, strict=True):
            self.judge(pivot / rows.mobility if moved else 0.0, act)
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


def _square(ops: Ops, V: Matrix, e: Matrix) -> Matrix:
    """``V e Vᵀ`` for one number ``e``; of a leaf, ``V`` is known before the state is, and so is ``V Vᵀ``."""
    if ops.known(V) is None:
        return ops.sym_product(V @ e, ops.transpose(V))
    (by,) = ops.entries(e)[0]
    return ops.matrix([[x * by for x in row] for row in ops.entries(ops.sym_product(V, ops.transpose(V)))])
