"""A link whose joint eliminates rows with its degrees of freedom: what `pv_early` does at each link.

Rows that joints eliminate (``rows``) are entries ``λ = −f`` of ``z`` whose ``L`` is zero, or of soft rows one
compliance ``ρ``; they meet accelerations only. Orthogonal combinations of rows leave that as it is. Of rows that meet a
degree of freedom one is made to meet it alone, and is eliminated together with it:

    ``D a_s − bᵀ z + K_s λ = 0``,   ``K_s a_s + r z − ρ λ = 0``.

*Hard row*: ``a_s = −r z / K_s`` whatever the forces are, and ``f`` balances what is left along the axis. *Soft row*:
with ``N = K_s² + ρ D`` nothing is divided by ``ρ``; with ``ρ → 0`` it is the elimination of a hard row (`pv_soft` takes
differences over ``ρ``, which loses as many digits as ``ρ`` is smaller than ``G``). *Row that can be off*: the same
where it acts, and ``a_s = bᵀ z / D`` elsewhere; all is a sum of two parts of which one is zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from delassus.algorithms.dynamics.popov_vereshchagin import constant_rows
from delassus.algorithms.dynamics.popov_vereshchagin.activation import Condition
from delassus.algorithms.dynamics.popov_vereshchagin.link_elimination import LinkElimination
from delassus.algorithms.dynamics.popov_vereshchagin.parts import AXES, FIRST, ONE, Part, accelerations_of, row_part
from delassus.algorithms.dynamics.popov_vereshchagin.steps import (
    JOINT,
    LINK,
    Acceleration,
    Combined,
    Forces,
    HeldAcceleration,
    Label,
    Reflected,
    SoftlyHeldAcceleration,
)
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.model.tree import WORLD
from delassus.spatial.joints import Joint
from delassus.spatial.motion import diagonal, scaled_matrix
from delassus.spatial.ops import Matrix, Ops, Scalar

CANCELLED = 1e-13
"""Constants below this part of what they are the differences of are their round-off: such rows meet nothing."""

AT_REST = 1e-36
"""Rows do not meet an axis where the sum of the squares of their entries along it is below this: no underflow yet."""


class EarlyElimination(LinkElimination):
    """A link while its joint eliminates rows."""

    # -- rows ------------------------------------------------------------------------------------------------------

    def condition(self, label: Label) -> Condition | None:
        """Condition under which a row acts; None if it always does."""
        conditions = self.kinds.conditions
        return None if conditions is None else conditions.of[label]

    def met_entries(self, without: int | None = None) -> list[int]:
        """Entries of ``z`` that are no forces of ``rows``, and not that one."""
        rows = self.indices(self.rows)
        return [k for k in range(self.size) if k not in rows and k != without]

    def entries_of(self, labels: Sequence[Label], at: Sequence[int]) -> Matrix:
        """Coefficients (m × n) of rows at entries of ``z``."""
        return self.ops.take(self.V, self.indices(labels), at)

    def meeting(self, t: int) -> list[Label]:
        """Rows that meet an entry of ``z``."""
        meets = self.ops.nonzero(self.entries_of(self.rows, (t,)))[:, 0]
        return [label for label, is_met in zip(self.rows, meets, strict=True) if is_met]

    def set_rows(self, labels: Sequence[Label], R: Matrix, at: Sequence[int]) -> None:
        """Make rows meet ``R`` (m × n) at these entries of ``z``, and nothing else."""
        ops, n, own = self.ops, self.size, self.indices(labels)
        rest = [k for k in range(n) if k not in own]
        V = ops.put(ops.take(self.V, rest, rest), (n, n), rest, rest)
        edge = ops.put(R, (n, n), own, at)
        L = ops.put(ops.take(self.V, own, own), (n, n), own, own)
        self.V = ops.sym_add(ops.sym_add(V, L), edge + ops.transpose(edge))

    def defer_rows(self, labels: Sequence[Label]) -> None:
        """Let rows wait until their ``L`` is regular, multiplied by their flags: ``f`` takes the place of ``−f``."""
        conditions, at = self.kinds.conditions, self.met_entries()
        R = self.entries_of(labels, at)
        if conditions is not None:
            R = diagonal(self.ops, [conditions.on(conditions.of[label]) for label in labels]) @ R
        self.set_rows(labels, -R, at)
        self.rows = tuple(label for label in self.rows if label not in labels)

    def drop_unmet_rows(self) -> None:
        """Rows that no joint meets: hard ones are redundant, and have no force; soft ones have ``−R z / ρ``."""
        ops, rows, z = self.ops, self.rows, self.labels
        R = self.entries_of(rows, [*range(FIRST), *self.indices(x for x in z if x not in rows)])
        over = []
        for label in rows:
            rho = self.kinds.compliance.get(label)
            over.append(0.0 if rho is None else -1.0 / rho)
            if rho is None:
                off = self.off(label)
                ops.pivot(0.0 if off is None else off, is_exact=True)
        self.remove(rows)
        self.steps.append(Forces(rows, self.labels, diagonal(ops, over) @ R))

    # -- rows that meet an entry of z: all but one of them made zero there -----------------------------------------

    def isolate_row(self, t: int, labels: Sequence[Label]) -> tuple[Label, Scalar]:
        """Make all rows but one zero at the entry ``t`` of ``z``, a hard one if there is any; returns it and its entry.

        Of rows of several conditions that meet it, a Givens rotation turns two at a time so that one does not meet it
        any more: that one acts where both did, the other one where either did.
        """
        hard = [label for label in labels if label not in self.kinds.compliance]
        soft = [label for label in labels if label in self.kinds.compliance]
        groups: dict[Condition | None, list[Label]] = {}
        for label in hard or soft:
            groups.setdefault(self.condition(label), []).append(label)
        *others, (row, size) = [(group[0], self.reflect(t, group)) for group in groups.values()]
        for other, other_size in reversed(others):
            size = self.rotate(t, row, size, other, other_size)
        if hard and soft:
            if len(hard) == 1:
                self.ops.pivot(size, squared=True)
            self.eliminate_entry(t, row, size, soft)
        return row, size

    def reflect(self, t: int, labels: Sequence[Label]) -> Scalar:
        """Householder reflection that makes all rows but the first one zero at the entry ``t`` of ``z``.

        Returns that row's entry there, ``‖K S‖`` but for its sign; in the form it is left out.
        """
        ops, others = self.ops, self.met_entries(t)
        x, A = [row[0] for row in ops.entries(self.entries_of(labels, (t,)))], self.entries_of(labels, others)
        if len(labels) == 1:
            self.set_rows(labels, A, others)
            return x[0]
        x, norm, size = self.norm(labels[0], x)
        unit = [entry * (1.0 / norm) for entry in x]
        beta = 1.0 / (1.0 + unit[0])
        w = [entry * beta for entry in unit[1:]]
        first = ops.matrix([unit]) @ A
        both = first + ops.take(A, (0,), None)
        given = ops.take(A, range(1, len(labels)), None)
        left = _without_round_off(ops, given - ops.matrix([[entry] for entry in w]) @ both, given)
        self.set_rows(labels, ops.vstack([first, left]), others)
        self.steps.append(Reflected(tuple(labels), unit, w))
        return size

    def norm(self, label: Label, x: list[Scalar]) -> tuple[list[Scalar], Scalar, Scalar]:
        """Entries of rows like this one, their norm with the sign of the first one, and the entry that is left.

        Nothing is divided by zero where rows do not act. Soft rows that do not meet the axis stay as they are.
        """
        ops, square = self.ops, sum(entry * entry for entry in x)
        if label in self.kinds.compliance:
            idle = ops.less(square, AT_REST)
            norm = ops.copysign(ops.sqrt(square + idle), x[0] + idle)
            return [x[0] + idle, *x[1:]], norm, norm - idle
        if self.kinds.conditions is not None and ops.known(ops.matrix([[square]])) is None:
            square = square + self.kinds.conditions.off(self.kinds.conditions.of[label])
        ops.pivot(square)
        size = ops.copysign(ops.sqrt(square), x[0])
        return x, size, size

    def rotate(self, t: int, row: Label, size: Scalar, other: Label, other_size: Scalar) -> Scalar:
        """Givens rotation of two rows after which the other one is zero at the entry ``t``; returns the row's entry."""
        ops, conditions, columns = self.ops, self.kinds.conditions, self.met_entries(t)
        assert conditions is not None, "rows of several conditions"
        act, other_act = conditions.of[row], conditions.of[other]
        a, b = conditions.on(act) * size, conditions.on(other_act) * other_size
        either = conditions.either(act, other_act)
        square = a * a + b * b + conditions.off(either)
        ops.pivot(square)
        size = ops.sqrt(square)
        cos, sin = a * (1.0 / size), b * (1.0 / size)
        T = ops.matrix([[cos, sin], [-sin, cos]])
        self.set_rows((row, other), T @ self.entries_of((row, other), columns), columns)
        self.steps.append(Combined((row, other), T))
        conditions.of[other], conditions.of[row] = conditions.both(act, other_act), either
        return size

    def eliminate_entry(self, t: int, row: Label, size: Scalar, others: Sequence[Label]) -> None:
        """Make others zero at the entry ``t`` of ``z`` by a row that is ``size`` there."""
        ops, columns = self.ops, self.met_entries(t)
        factors = self.entries_of(others, (t,)) @ ops.matrix([[1.0 / size]])
        own = self.entries_of((row,), columns)
        given = self.entries_of(others, columns)
        left = _without_round_off(ops, given - factors @ own, given)
        self.set_rows([*others, row], ops.vstack([left, own]), columns)
        m = len(others)
        T = ops.vstack([ops.hstack([ops.eye(m), -factors]), ops.put(ops.eye(1), (1, m + 1), (0,), (m,))])
        self.steps.append(Combined((*others, row), T))

    # -- an acceleration and a row ---------------------------------------------------------------------------------

    def eliminate_with_row(self, s: int, b: Matrix, D: Matrix, row: Label, size: Scalar, alone: bool) -> None:
        """A degree of freedom separated from ``z`` along the axis ``s``, with a row whose entry there is ``size``.

        ``V ← V − w W − (w W)ᵀ``, ``w = b − ½ D Wᵀ``, where ``a_s = W z``; of a soft row
        ``V ← V − b bᵀ / D + K̃ᵀ (D / N) K̃``, ``K̃ = W + (K_s / D) bᵀ``. One row ``alone`` has not been reflected.
        """
        ops, ((d,),), joint = self.ops, self.ops.entries(D), self.joined.get(s)
        own = self.entries_of((row,), range(self.size))
        rest = self.remove((row,))
        own, b, labels = ops.take(own, None, rest), ops.take(b, rest, None), self.labels
        if (rho := self.kinds.compliance.get(row)) is not None:
            N = size * size + rho * d
            others = sum((x * x for x in ops.entries(own)[0][:6]), rho * d)
            ops.pivot(N, size=N * (1.0 / (N + others)))
            both = 1.0 / (d * N)
            over_D, over_N = N * both, d * both
            k, y, e = (ops.matrix([[factor * over_N]]) for factor in (size, d, rho))
            K = ops.transpose(own) + b @ ops.matrix([[size * over_D]])
            self.V = ops.sym_subtract(self.V, ops.sym_product(b @ ops.matrix([[over_D]]), ops.transpose(b)))
            self.V = ops.sym_add(self.V, ops.sym_product(K @ y, ops.transpose(K)))
            self.steps.append(SoftlyHeldAcceleration(s, joint, labels, own, row, b, e, k, y))
            return
        k, e = self.reciprocals(row, size, D, alone)
        W = -(k @ own)
        self.substitute(b, D, W, e)
        self.steps.append(HeldAcceleration(s, joint, labels, W, row, b, D, e, k))

    def reciprocals(self, row: Label, size: Scalar, D: Matrix, alone: bool) -> tuple[Matrix, Matrix]:
        """``1 / K_s`` where a row acts and ``1 / D`` where it does not, else zero.

        Of one row ``alone``, the entry may be zero where it does not act, and one division does for both.
        """
        ops, conditions, ((d,),) = self.ops, self.kinds.conditions, self.ops.entries(D)
        on, off = (1.0, 0.0) if conditions is None else (c(conditions.of[row]) for c in (conditions.on, conditions.off))
        if alone and (conditions is None or ops.known(ops.matrix([[size]])) is None):
            divisor = on * size + off * d
            ops.pivot(divisor, squared=True)
            size = d = divisor
        elif conditions is not None:
            ops.pivot(d)
        return ops.matrix([[on * (1.0 / size)]]), ops.matrix([[off * (1.0 / d)]])

    def substitute(self, b: Matrix, D: Matrix, W: Matrix, e: Matrix) -> None:
        """Put ``a_s = W z + e bᵀ z`` into the form; where ``e`` is not zero, ``W`` is."""
        ops, n = self.ops, self.size
        if self.kinds.conditions is not None:  # along what the row meets, and along the rest
            met = sorted({*np.flatnonzero(ops.nonzero(W)[0]).tolist(), *ONE})
            rest = [k for k in range(n) if k not in met]
            W = ops.put(ops.take(W, None, met) + e @ ops.transpose(ops.take(b, met, None)), (1, n), (0,), met)
            free = ops.take(b, rest, None)
            if ops.known(free) is None:
                taken = ops.sym_product(free @ e, ops.transpose(free))
            else:  # of a leaf, b bᵀ is constant
                taken = scaled_matrix(ops, ops.entries(e)[0][0], ops.sym_product(free, ops.transpose(free)))
            self.V = ops.sym_subtract(self.V, ops.put(taken, (n, n), rest, rest))
        wW = (b - ops.transpose(W) @ (ops.constant([[0.5]]) @ D)) @ W
        self.V = ops.sym_subtract(self.V, wW + ops.transpose(wW))

    # -- joints ----------------------------------------------------------------------------------------------------

    def eliminate_joint(self, joint: Joint, tau: Matrix) -> None:
        """Degrees of freedom one by one, with a row each where rows meet them (eqs. 56–68)."""
        ops, axes = self.ops, joint.motion_axes
        if self.is_prescribed_by_joints(axes):
            self.pass_acceleration_to_parent(axes[0], float(joint.armature[0]), tau)
            return
        KS = self.at_joint(axes)
        meets = ops.nonzero(KS)
        ranks = [ops.rank(ops.take(KS, None, range(k, len(axes)))) if meets.any() else 0 for k in range(len(axes) + 1)]
        if meets.any() and len(axes) > 1:
            labels = [label for label, is_met in zip(self.rows, meets.any(axis=1), strict=True) if is_met]
            few = ranks[0] == len(labels) < np.count_nonzero(meets.any(axis=0))
            if few or not self.are_alike(labels):  # where L of rows of several conditions is regular, it is of any
                self.defer_rows(labels)
        for k in reversed(range(len(axes))):
            s, armature, force = axes[k], float(joint.armature[k]), ops.take(tau, (k,), None)
            self.merge_joint_acceleration(s)
            meeting, others = self.meeting(s), self.met_entries(s)
            chosen = self.chosen(s, meeting, ranks[k] > ranks[k + 1])
            if round_off := [row for row in meeting if row not in chosen]:
                self.set_rows(round_off, self.entries_of(round_off, others), others)
            if chosen:
                self.constrain_dof(s, armature, force, chosen)
                continue
            ((taken,),) = ops.entries(self.eliminate_dof(s, armature, force))
            # rows of further links may have made V large: what is taken off it loses as many digits
            if len(axes) == 1 and self.is_held() and ops.known(ops.matrix([[taken]])) is None:
                ops.pivot(taken, size=1.0 / taken, apart=True)

    def is_held(self) -> bool:
        """Whether a row meets the link or one beyond it."""
        tree = self.problem.tree
        return any(self.link in tree.support(end.link) for end in self.problem.end_effectors if end.link != WORLD)

    def are_alike(self, labels: Iterable[Label]) -> bool:
        """Whether there is no state at which some rows act and others do not."""
        return len({self.condition(label) for label in labels}) <= 1

    def at_joint(self, axes: Sequence[int]) -> Matrix:
        """``K S`` (m × n_i) of the rows, and what they meet of the joint itself."""
        ops, m, KS = self.ops, len(self.rows), self.entries_of(self.rows, axes)
        for k, label in enumerate(self.acceleration_of(s) for s in axes):
            if label in self.labels:
                KS = KS + ops.put(self.entries_of(self.rows, self.indices([label])), (m, len(axes)), range(m), (k,))
        return KS

    def chosen(self, s: int, labels: Sequence[Label], is_met: bool) -> Sequence[Label]:
        """Rows whose entry along the axis ``s`` is more than round-off, of those that meet it by structure.

        All soft rows do, for a small entry is as good as another; leaving it out would not be, beside round-off.
        """
        soft = [label for label in labels if label in self.kinds.compliance]
        hard = [label for label in labels if label not in soft]
        if not soft:
            return labels if is_met else []
        return labels if hard and self.ops.rank(self.entries_of(hard, (s,))) else soft

    def constrain_dof(self, s: int, armature: float, tau: Matrix, labels: Sequence[Label]) -> None:
        """A degree of freedom along the axis ``s`` that rows meet."""
        row, size = self.isolate_row(s, labels)
        b, D = self.separate_dof(s, armature, tau)
        self.eliminate_with_row(s, b, D, row, size, len(labels) == 1)

    # -- rows on joints --------------------------------------------------------------------------------------------

    def is_prescribed_by_joints(self, axes: Sequence[int]) -> bool:
        """Whether a row on joints alone, or no row on the link, says how the one degree of freedom moves."""
        label = self.acceleration_of(axes[0])
        if len(axes) != 1 or label not in self.labels or self.kinds.conditions is not None:
            return False  # rows that can be off say it at some states only
        meets = self.ops.nonzero(self.entries_of(self.rows, range(self.size)))
        says = meets[:, self.indices([label])[0]] & (~meets[:, list(AXES)].any(axis=1) | ~meets[:, axes[0]].any())
        return self.problem.tree.parents[self.link] != WORLD and bool(says.any())

    def pass_acceleration_to_parent(self, s: int, armature: float, tau: Matrix) -> None:
        """``a_s = a'_s + q̈``: the joint's acceleration goes to the parent, where rows say what it is."""
        ops, n = self.ops, self.size
        (at,) = self.indices([self.acceleration_of(s)])
        T = np.eye(n)
        T[s, at] = 1.0
        self.change_entries(ops.constant(T))
        edge = ops.put(-tau, (n, n), (at,), ONE)
        self.V = ops.sym_add(self.V, edge + ops.transpose(edge))
        if armature:
            self.V = ops.sym_add(self.V, ops.put(ops.constant([[armature]]), (n, n), (at,), (at,)))
        self.steps.append(Acceleration(s, None, self.labels, ops.constant(T[[s]])))

    def constrain_accelerations(self, eliminated: Iterable[int]) -> None:
        """Accelerations of joints of links before this one that rows meet: one row says each, ``q̈ = W z``.

        A row on joints alone, whose entries are constants, is taken off the others; else they are reflected.
        """
        ops, left = self.ops, {x for i in eliminated if i != self.link for x in accelerations_of(self.problem, i)}
        for label in [label for label in self.labels if label in left]:
            (t,) = self.indices([label])
            labels = self.meeting(t)
            sizes = {x: ops.known(self.entries_of((x,), (t,))) for x in labels}
            alone = [x for x in labels if sizes[x] is not None and not ops.nonzero(self.entries_of((x,), AXES)).any()]
            if alone and len(labels) > 1:
                row = max(alone, key=lambda x: abs(float(sizes[x][0, 0])))
                size: Scalar = float(sizes[row][0, 0])
                self.eliminate_entry(t, row, size, [x for x in labels if x != row])
            else:
                row, size = labels[0], self.reflect(t, labels)
            ops.pivot(size, squared=True)
            own, over = self.entries_of((row,), range(self.size)), ops.matrix([[1.0 / size]])
            own = ops.take(own, None, self.remove((row,)))
            (t,), n = self.indices([label]), self.size
            self.steps.append(Forces((row,), self.labels, over @ ops.take(self.V, (t,), None)))
            others = [k for k in range(n) if k != t]
            W = -(over @ ops.take(own, None, others))
            self.change_entries(ops.put(W, (n, n - 1), (t,), range(n - 1)) + ops.constant(np.eye(n)[:, others]))
            self.labels = tuple(x for x in self.labels if x != label)
            self.steps.append(Acceleration(None, label, self.labels, W))

    # -- rows that hold a link, as constants -----------------------------------------------------------------------

    def rows_on_link(self) -> Matrix | None:
        """Rows (m × 7) if they meet the link's acceleration alone."""
        others = self.indices(label for label in self.labels if label[0] in (JOINT, LINK))
        is_met = bool(self.ops.nonzero(self.entries_of(self.rows, others)).any())
        return None if is_met or not self.are_alike(self.rows) else self.entries_of(self.rows, range(FIRST))

    def hold_by_constants(self) -> None:
        """Write hard rows that hold the link as constants, if they do; soft ones would have another compliance."""
        on_link = self.rows_on_link()
        if on_link is not None and self.kinds.compliance.keys().isdisjoint(self.rows):
            rewritten = constant_rows.of_held_link(self.ops, on_link, self.rows)
            if rewritten is not None:
                self.set_rows(self.rows, rewritten.rows, range(FIRST))
                self.steps.append(rewritten)

    def propagate_to_parent(self, motion: DynamicsProblem, X: Any, c: Matrix) -> list[Part]:
        """Forms for the parent; rows that leave only the joint free become constant rows there."""
        soft, on_link, rewritten = self.kinds.compliance.keys() & self.rows, self.rows_on_link(), None
        if on_link is not None and not soft:
            rewritten = constant_rows.on_parent(motion, self.link, on_link, self.rows)
        elif on_link is not None and len(soft) == len(self.rows):
            rewritten = constant_rows.turned_on_parent(motion, self.link, on_link, self.rows)
        if rewritten is None:
            return [self.to_parent(X, c)]
        labels = self.rows
        self.remove(labels)
        self.steps.append(rewritten)
        part = self.to_parent(X, c)
        return [part, row_part(self.ops, part.link, rewritten.rows, self.kinds.L(labels), labels, is_early=True)]


def _without_round_off(ops: Ops, left: Matrix, given: Matrix) -> Matrix:
    """Rows that are left of given ones, without constants that are round-off: these would meet joints."""
    kept = np.ones(ops.shape(left))
    for i, j in np.argwhere(ops.nonzero(left)).tolist():
        pair = [ops.known(ops.take(a, (i,), (j,))) for a in (left, given)]
        if all(x is not None for x in pair):
            x, y = (abs(float(a[0, 0])) for a in pair)
            kept[i, j] = x > CANCELLED * y
    return ops.masked(left, ops.constant(kept))
