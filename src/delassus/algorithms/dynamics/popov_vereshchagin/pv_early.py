"""PV-early: each joint eliminates as many constraint forces as it has degrees of freedom.

Rows ``R [a; 1] = 0``, ``R = [K −k]``, whose ``L`` is zero say what the acceleration of a link is (eq. 61b). Where some
of them meet the axis of a degree of freedom, a Householder reflection leaves one row that does (eqs. 65, 67, 68). It
says how the degree of freedom moves, whatever the forces are, and is eliminated with it; the others go on to the parent
as they are, ``K X``. A degree of freedom that no row meets moves as the forces say (remark 8). Rows that are left at
the world are redundant. Cost O(n + m). Source: [LQR] section VIII, eqs. 56–68; `link_elimination` is its section V.

Deviations, derived in ``docs/pv_early.md`` with what each gains:

* The paper adds ``K̃ᵀ Σ⁻¹ K̃`` to ``Hᴬ`` after the joint's own ``U D⁻¹ Uᵀ`` has been taken off (eqs. 42a, 63). Both
  together are ``Tᵀ Hᴬ T``, computed as such: the rows left need no propagation through the joint.
* Rows that hold a link are rewritten so that their entries are constants (`constant_rows`).
* Joints of several degrees of freedom: one after the other, those at which the rank of ``K S`` grows with a row. Rows
  that are fewer than the degrees of freedom that they meet wait: their ``L`` is regular after the joint (eqs. 57, 63).
* How many rows a joint eliminates is a matter of structure. Where ``‖K S‖`` is near zero (a stretched knee), errors
  grow, and another method has to solve that state.

Loops are in `loop_rows`, constraints that can be switched off in `activation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.algorithms.dynamics.constraint_acceleration import unswitched_right_hand_sides
from delassus.algorithms.dynamics.popov_vereshchagin import constant_rows, loop_rows
from delassus.algorithms.dynamics.popov_vereshchagin.constant_rows import Rewritten
from delassus.algorithms.dynamics.popov_vereshchagin.link_elimination import (
    AXES,
    FIRST,
    JOINT,
    LINK,
    ONE,
    Label,
    LinkElimination,
    Part,
    State,
    accelerations_of,
    add_forces,
    back_substitution,
    labels_of,
    link_parts,
    take_parts,
    transform_and_drift,
)
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.problem import Problem
from delassus.model.joints import Joint
from delassus.model.tree import WORLD
from delassus.spatial.motion import column, from_entries
from delassus.spatial.ops import Matrix, Scalar


class EarlyElimination(LinkElimination):
    """A link with rows ``R z = 0`` (m × n) that accelerations must meet; ``rows`` are their forces.

    Of ``z``, rows meet the link's acceleration and those of joints, no forces.
    """

    def __init__(self, problem: Problem, link: int, parts: Sequence[Part]) -> None:
        self.rows: list[Label] = []
        self.R = problem.ops.zeros(0, FIRST)
        super().__init__(problem, link, parts)

    def add(self, parts: Sequence[Part]) -> None:
        """Add forms and rows."""
        before = range(FIRST + len(self.labels))
        super().add(parts)
        ops, n = self.ops, FIRST + len(self.labels)
        self.R = ops.put(self.R, (len(self.rows), n), range(len(self.rows)), before)
        self.rows = [*self.rows, *(label for part in parts for label in part.rows)]
        for part in parts:
            if part.R is not None:
                entries, at = self.places(part)
                m = ops.shape(part.R)[0]
                self.R = ops.vstack([self.R, ops.put(ops.take(part.R, None, entries), (m, n), range(m), at)])

    def eliminate_joint(self, joint: Joint, tau: Matrix) -> None:
        """Degrees of freedom one by one, with a row each where rows meet them (eqs. 56–68)."""
        ops, axes = self.ops, joint.motion_axes
        if self.joints_say(axes):
            self.leave_acceleration(axes[0], float(joint.armature[0]), tau)
            return
        KS = self.at_joint(axes)
        meets = ops.nonzero(KS)
        met = bool(meets.any())
        ranks = [ops.rank(ops.take(KS, None, range(k, len(axes)))) if met else 0 for k in range(len(axes) + 1)]
        if met and len(axes) > 1:
            self.wait(self.waiting(meets, ranks[0]))
        for k in reversed(range(len(axes))):
            s, armature, force = axes[k], float(joint.armature[k]), ops.take(tau, (k,), None)
            self.join_acceleration(s)
            at = np.flatnonzero(ops.nonzero(ops.take(self.R, None, (s,)))[:, 0]).tolist()
            meeting = self.meeting(s, at, ranks[k] > ranks[k + 1]) if at else []
            self.leave_out(s, [row for row in at if row not in meeting])
            if meeting:
                self.constrain_dof(s, armature, force, meeting)
            else:
                self.eliminate_dof(s, armature, force)

    def joints_say(self, axes: Sequence[int]) -> bool:
        """Whether a row on joints alone, or no row on the link, says how the one degree of freedom moves."""
        if len(axes) != 1 or (label := self.acceleration_of(axes[0])) not in self.labels or not self.act_together():
            return False
        (at,) = self._indices([label])
        meets = self.ops.nonzero(self.R)
        says = meets[:, at] & (~meets[:, list(AXES)].any(axis=1) | ~meets[:, axes[0]].any())
        return self.problem.tree.parents[self.link] != WORLD and bool(says.any())

    def leave_acceleration(self, s: int, armature: float, tau: Matrix) -> None:
        """``a_s = a'_s + q̈``: the joint's acceleration goes to the parent, where rows say what it is."""
        ops, n, label = self.ops, FIRST + len(self.labels), self.acceleration_of(s)
        (at,) = self._indices([label])
        T = np.eye(n)
        T[s, at] = 1.0
        self.change_entries(ops.constant(T))
        edge = ops.put(-tau, (n, n), (at,), ONE)
        self.V = ops.sym_add(self.V, edge + ops.transpose(edge))
        if armature:
            self.V = ops.sym_add(self.V, ops.put(ops.constant([[armature]]), (n, n), (at,), (at,)))

        def back(state: State) -> None:
            self.set_acceleration(state, s, ops.take(state.a, (s,), None) + state.forces[label])

        self.steps.append(back)

    def constrain_accelerations(self, eliminated: Iterable[int]) -> None:
        """Accelerations of joints of links before this one that rows meet: one row says each, ``q̈ = W z``."""
        ops, left = self.ops, {x for i in eliminated if i != self.link for x in accelerations_of(self.problem, i)}
        for label in [label for label in self.labels if label in left]:
            (t,) = self._indices([label])
            at = np.flatnonzero(ops.nonzero(ops.take(self.R, None, (t,)))[:, 0]).tolist()
            (first, size), n = self.say(t, at), FIRST + len(self.labels)
            row = self.rows[first]
            ops.pivot(size, squared=True)
            others, x, force = [k for k in range(n) if k != t], ops.matrix([[1.0 / size]]), ops.take(self.V, (t,), None)
            W = -(x @ ops.take(self.R, (first,), others))
            self.remove_rows([first])
            T = ops.put(W, (n, n - 1), (t,), range(n - 1)) + ops.constant(np.eye(n)[:, others])
            self.change_entries(T)
            before, self.labels = self.labels, tuple(x for x in self.labels if x != label)
            self.steps.append(self._acceleration_back(label, row, W, x @ force, before))

    def say(self, t: int, at: Sequence[int]) -> tuple[int, Scalar]:
        """Make all rows but one zero at the entry ``t`` of ``z``; returns that one, and its entry there.

        A row on joints alone, whose entries are constants, is taken off the others; else they are reflected.
        """
        ops, columns = self.ops, [k for k in range(FIRST + len(self.labels)) if k != t]
        sizes = {k: ops.known(ops.take(self.R, (k,), (t,))) for k in at}
        alone = [k for k in at if sizes[k] is not None and not ops.nonzero(ops.take(self.R, (k,), AXES)).any()]
        if not alone or len(at) == 1:
            return at[0], self.reflect(t, at)
        row = max(alone, key=lambda k: abs(float(sizes[k][0, 0])))
        size, others = float(sizes[row][0, 0]), [k for k in at if k != row]
        factors, own = ops.take(self.R, others, (t,)) @ ops.constant([[1.0 / size]]), ops.take(self.R, (row,), columns)
        left = ops.take(self.R, others, columns) - factors @ own
        self.set_rows([*others, row], ops.vstack([left, own]), columns)
        label, labels = self.rows[row], [self.rows[k] for k in others]

        def back(state: State) -> None:
            taken = ops.transpose(factors) @ ops.vstack([state.forces[other] for other in labels])
            state.forces[label] = state.forces[label] - taken

        self.steps.append(back)
        return row, size

    def _acceleration_back(
        self, label: Label, row: Label, W: Matrix, force: Matrix, before: Sequence[Label]
    ) -> Callable[[State], None]:
        after = self.labels

        def back(state: State) -> None:
            state.forces[label] = W @ self.z(state, after)
            state.forces[row] = force @ self.z(state, before)

        return back

    def at_joint(self, axes: Sequence[int]) -> Matrix:
        """``K S`` (m × n_i) of the rows, and what they meet of the joint itself."""
        ops, m = self.ops, len(self.rows)
        KS = ops.take(self.R, None, axes)
        for k, label in enumerate(self.acceleration_of(s) for s in axes):
            if label in self.labels:
                KS = KS + ops.put(ops.take(self.R, None, self._indices([label])), (m, len(axes)), range(m), (k,))
        return KS

    def waiting(self, meets: NDArray[np.bool_], rank: int) -> list[Label]:
        """Rows that wait until a joint of several degrees of freedom is eliminated: fewer than those that they meet."""
        at = np.flatnonzero(meets.any(axis=1))
        return [self.rows[k] for k in at] if rank == len(at) < np.count_nonzero(meets.any(axis=0)) else []

    def wait(self, labels: Sequence[Label]) -> None:
        """Add rows to the form, with ``L = 0``: their forces are eliminated where ``L`` has become regular."""
        ops, n, m = self.ops, FIRST + len(self.labels), len(labels)
        at = [self.rows.index(label) for label in labels]
        edge = ops.put(-ops.take(self.R, at, None), (n + m, n + m), range(n, n + m), range(n))
        self.V = ops.sym_add(ops.put(self.V, (n + m, n + m), range(n), range(n)), edge + ops.transpose(edge))
        self.labels = (*self.labels, *labels)
        self.R = ops.hstack([self.R, ops.zeros(len(self.rows), m)])
        self.remove_rows(at)

    def meeting(self, s: int, at: Sequence[int], is_met: bool) -> Sequence[int]:
        """Those of the rows ``at`` that meet the axis ``s``: all, or none, their entries there being round-off."""
        return at if is_met else []

    def leave_out(self, s: int, at: Sequence[int]) -> None:
        """Make entries of rows along the axis ``s`` zero."""
        others = [c for c in range(FIRST + len(self.labels)) if c != s]
        self.set_rows(at, self.ops.take(self.R, at, others), others)

    def note_pivot(self, d: Scalar, b: Matrix, W: Matrix) -> None:
        """Rows of further links may have made ``V`` large: what ``b W`` takes off it loses as many digits."""
        super().note_pivot(d, b, W)
        ops, tree = self.ops, self.problem.tree
        taken = ops.take(W, None, AXES) @ ops.take(b, AXES, None)
        is_held = any(self.link in tree.support(end.link) for end in self.problem.ends if end.link != WORLD)
        if is_held and tree.joints[self.link].nv == 1 and ops.known(taken) is None:
            ((t,),) = ops.entries(taken)
            ops.pivot(t, size=1.0 / t, apart=True)

    def constrain_dof(self, s: int, armature: float, tau: Matrix, at: Sequence[int]) -> None:
        """A degree of freedom along the axis ``s`` that the rows ``at`` meet."""
        row, size = self.single_out(s, at)
        self.eliminate_with_row(s, armature, tau, row, size, len(at) == 1)

    def eliminate_with_row(self, s: int, armature: float, tau: Matrix, row: int, size: Scalar, alone: bool) -> None:
        """A degree of freedom along the axis ``s`` that a row, whose entry there is ``size``, says how to move.

        ``a_s = W z`` is that row; ``V ← V − w W − (w W)ᵀ``, ``w = b − ½ D Wᵀ``; its force balances what is left along
        the axis, ``f = (D a_s − bᵀ z) / K_s``.
        """
        ops, label = self.ops, self.rows[row]
        b, D = self.separate_dof(s, armature, tau)
        x, e = self.reciprocals(label, size, D, alone)
        W = -(x @ ops.take(self.R, (row,), None))
        self.remove_rows([row])
        self.substitute(s, b, D, W, e)
        labels = self.labels

        def back(state: State) -> None:
            z = self.z(state, labels)
            left = ops.transpose(b) @ z
            a = W @ z + e @ left
            state.forces[label] = x @ (D @ a - left)
            self.set_acceleration(state, s, a)

        self.steps.append(back)

    def single_out(self, s: int, at: Sequence[int]) -> tuple[int, Scalar]:
        """Make all rows but one zero along the axis ``s``; returns that one, and its entry there."""
        return at[0], self.reflect(s, at)

    def reciprocals(self, label: Label, size: Scalar, D: Matrix, alone: bool) -> tuple[Matrix, Matrix]:
        """``1 / K_s``, and the weight ``e`` of ``bᵀ z`` in ``a_s``: none."""
        if alone:
            self.ops.pivot(size, squared=True)
        return self.ops.matrix([[1.0 / size]]), self.ops.zeros(1, 1)

    def substitute(self, s: int, b: Matrix, D: Matrix, W: Matrix, e: Matrix) -> None:
        """Put ``a_s = W z + e bᵀ z``, with ``e`` zero, into the form: ``Tᵀ V T``."""
        ops = self.ops
        wW = (b - ops.transpose(W) @ (ops.constant([[0.5]]) @ D)) @ W
        self.V = ops.sym_subtract(self.V, wW + ops.transpose(wW))

    def reflect(self, s: int, at: Sequence[int], off: Scalar = 0.0) -> Scalar:
        """Householder reflection that makes all rows ``at`` but the first one zero along the axis ``s``.

        Returns that row's entry there, ``‖K S‖`` but for its sign; in ``R`` it is left out.
        ``off`` is 1 where the rows do not act, else 0: nothing is divided by zero.
        """
        ops, others = self.ops, [k for k in range(FIRST + len(self.labels)) if k != s]
        x = [ops.entries(ops.take(self.R, (k,), (s,)))[0][0] for k in at]
        A = ops.take(self.R, at, others)
        if len(at) == 1:
            self.set_rows(at, A, others)
            return x[0]
        x, norm, size = self.norm(at, x, off)
        unit = [entry * (1.0 / norm) for entry in x]
        beta = 1.0 / (1.0 + unit[0])
        w = [entry * beta for entry in unit[1:]]
        first = ops.matrix([unit]) @ A
        both = first + ops.take(A, (0,), None)
        left = ops.take(A, range(1, len(at)), None) - ops.matrix([[entry] for entry in w]) @ both
        self.set_rows(at, ops.vstack([first, left]), others)
        labels = [self.rows[k] for k in at]

        def back(state: State) -> None:
            f = [ops.entries(state.forces[label])[0][0] for label in labels]
            sums = [unit[0] * f[0], f[0]]
            for y, e, g in zip(unit[1:], w, f[1:], strict=True):
                sums = [sums[0] - y * g, sums[1] - e * g]
            found = [sums[0], *(g + y * sums[1] for y, g in zip(unit[1:], f[1:], strict=True))]
            state.forces |= {label: ops.matrix([[g]]) for label, g in zip(labels, found, strict=True)}

        self.steps.append(back)
        return size

    def norm(self, at: Sequence[int], x: list[Scalar], off: Scalar) -> tuple[list[Scalar], Scalar, Scalar]:
        """Entries of rows along an axis, their norm with the sign of the first one, and that of the row left."""
        ops, square = self.ops, sum(entry * entry for entry in x)
        square = square if ops.known(ops.matrix([[square]])) is not None else square + off
        ops.pivot(square)
        size = ops.copysign(ops.sqrt(square), x[0])
        return x, size, size

    def set_rows(self, at: Sequence[int], A: Matrix, columns: Sequence[int]) -> None:
        """Replace rows of ``R`` by ``A``, with zeros in all but these columns."""
        ops, m, n = self.ops, len(self.rows), FIRST + len(self.labels)
        rest = [k for k in range(m) if k not in at]
        kept = ops.put(ops.take(self.R, rest, None), (m, n), rest, range(n))
        self.R = kept + ops.put(A, (m, n), at, columns)

    def remove_rows(self, at: Sequence[int]) -> None:
        """Take rows off ``R``."""
        rest = [k for k in range(len(self.rows)) if k not in at]
        self.R, self.rows = self.ops.take(self.R, rest, None), [self.rows[k] for k in rest]

    def change_entries(self, T: Matrix) -> None:
        """Put ``T z`` in the place of ``z``."""
        super().change_entries(T)
        self.R = self.R @ T

    def separate_dof(self, s: int, armature: float, tau: Matrix) -> tuple[Matrix, Matrix]:
        """Put ``a'_s`` in the place of ``a_s``, which no row meets any more."""
        ops, before = self.ops, self.labels
        b, D = super().separate_dof(s, armature, tau)
        if len(self.labels) < len(before):
            (at,) = (FIRST + k for k, label in enumerate(before) if label not in self.labels)
            kept, m = [k for k in range(FIRST + len(before)) if k not in (s, at)], len(self.rows)
            to, n = [k - (k > at) for k in kept], FIRST + len(self.labels)
            self.R = ops.put(ops.take(self.R, None, [*kept, at]), (m, n), range(m), [*to, s])
        return b, D

    def eliminate_forces(self, labels: Sequence[Label]) -> None:
        """The same; rows meet no forces."""
        rest = [k for k, label in enumerate((*AXES, *ONE, *self.labels)) if label not in labels]
        super().eliminate_forces(labels)
        self.R = self.ops.take(self.R, None, rest)

    def rows_on_link(self) -> Matrix | None:
        """``R`` (m × 7) if rows meet the link's acceleration alone."""
        at = [FIRST + k for k, label in enumerate(self.labels) if label[0] in (JOINT, LINK)]
        met = bool(self.ops.nonzero(self.ops.take(self.R, None, at)).any())
        return None if met else self.ops.take(self.R, None, range(FIRST))

    def constant_on_link(self) -> Rewritten | None:
        """Rows that hold the link as constants, or None."""
        on_link = self.rows_on_link()
        return constant_rows.of_held_link(self.ops, on_link) if on_link is not None and self.act_together() else None

    def constant_on_parent(self, motion: DynamicsProblem) -> Rewritten | None:
        """Rows that leave nothing but the joint free as constants on the parent, or None."""
        on_link = self.rows_on_link()
        if on_link is None or not self.act_together():
            return None
        return constant_rows.on_parent(motion, self.link, on_link)

    def rewrite_rows(self, rewritten: Rewritten | None) -> None:
        """Put other rows of the same meaning in the place of ``R``."""
        ops, labels = self.ops, tuple(self.rows)
        if rewritten is None:
            return
        R, forces = rewritten
        self.R = ops.hstack([R, ops.zeros(ops.shape(R)[0], len(self.labels))])

        def back(state: State) -> None:
            f = forces(ops.vstack([state.forces[label] for label in labels]))
            state.forces |= {label: ops.take(f, (k,), None) for k, label in enumerate(labels)}

        self.steps.append(back)

    def put_in(self, c: Matrix) -> None:
        """The same with the rows: ``K c`` is known."""
        super().put_in(c)
        ops, K = self.ops, self.ops.take(self.R, None, AXES)
        k, rest = (ops.take(self.R, None, at) for at in (ONE, range(FIRST, FIRST + len(self.labels))))
        self.R = ops.hstack([ops.zeros(*ops.shape(K)), k + K @ c, rest])

    def to_parent(self, X: Any, c: Matrix, rewritten: Rewritten | None = None) -> Part:
        """The same with the rows, ``K a = K X a_p + K c``; or as they have been rewritten for the parent."""
        ops, part = self.ops, super().to_parent(X, c)
        K, k, rest = (ops.take(self.R, None, at) for at in (AXES, ONE, range(FIRST, FIRST + len(self.labels))))
        R = self.R if X is None else ops.hstack([X.rows_to_parent(K), k + K @ c, rest])
        if rewritten is not None:
            self.rewrite_rows(rewritten)
            R = self.R
        at, others = self.met_by_parent()
        if at:
            m = len(self.rows)
            R = ops.take(R, None, others) + ops.put(ops.take(R, None, at), (m, len(others)), range(m), AXES)
        return Part(part.link, part.V, part.labels, R, tuple(self.rows))

    def leave_rows(self) -> None:
        """Rows that no joint meets: they are redundant, and have no force."""
        labels = tuple(self.rows)
        for label in labels:
            off = self.off(label)
            self.ops.pivot(0.0 if off is None else off, is_exact=True)

        def back(state: State) -> None:
            state.forces |= dict.fromkeys(labels, self.ops.zeros(1, 1))

        self.steps.append(back)

    def act_together(self) -> bool:
        """Whether there is no state at which some rows act and others do not."""
        return True


NewLink = Callable[[Problem, int, Sequence[Part]], EarlyElimination]


def add_rows(
    motion: DynamicsProblem,
    waiting: Iterable[Sequence[Label]],
    parts: list[Part],
    scales: Mapping[int, Sequence[Scalar]],
) -> None:
    """Give links the rows that do not wait: of constraints that have one end, and of joints on one branch.

    The latter go to the outermost link: rows meet the accelerations of its joint and of those before it.
    """
    ops, problem, k = motion.ops, motion.problem, unswitched_right_hand_sides(motion)
    late = {label for labels in waiting for label in labels}
    for end in problem.unswitched_ends:
        rows = labels_of(problem, end.constraint)
        if not late & set(rows):
            R = ops.hstack([end.K, -k[end.constraint]])
            if end.constraint in scales:
                R = ops.block_diagonal([ops.matrix([[x]]) for x in scales[end.constraint]]) @ R
            parts.append(Part(end.link, ops.zeros(FIRST, FIRST), (), R, rows))
    on_joints = dict.fromkeys((end.constraint, row) for end in problem.joint_ends for row in end.rows)
    for c, row in (label for label in on_joints if label not in late):
        ends = [end for end in problem.unswitched_joint_ends if end.constraint == c and row in end.rows]
        met = tuple(label for end in ends for label in accelerations_of(problem, end.link))
        C = [ops.take(end.C, (row,), None) for end in ends]
        R, n = ops.hstack([ops.zeros(1, 6), -ops.take(k[c], (row,), None), *C]), FIRST + len(met)
        R = ops.matrix([[scales[c][row]]]) @ R if c in scales else R
        parts.append(Part(max(end.link for end in ends), ops.zeros(n, n), met, R, ((c, row),)))


def pv_early(
    motion: DynamicsProblem,
    new_link: NewLink = EarlyElimination,
    scales: Mapping[int, Sequence[Scalar]] = MappingProxyType({}),
) -> Solution:
    """Accelerations and constraint forces; ``scales`` multiply soft rows while they are eliminated."""
    ops, tree, problem = motion.ops, motion.tree, motion.problem
    parts, links = link_parts(motion), dict[int, LinkElimination]()
    waiting, order = loop_rows.waiting(motion), motion.elimination
    scales = {**constant_rows.to_unit_size(motion, {c for labels in waiting for c, _ in labels}), **scales}
    add_forces(motion, waiting, parts)
    add_rows(motion, waiting, parts, scales)

    # leaves → root: joints, with the rows that they meet (eqs. 56–68)
    for i in order.links:
        link = links[i] = new_link(problem, i, take_parts(problem, i, parts))
        link.constrain_accelerations(links)
        link.rewrite_rows(link.constant_on_link())
        late = loop_rows.eliminate_before_joint(link, parts, order.block)
        link.eliminate_joint(tree.joints[i], motion.tau[i])
        X, c = transform_and_drift(motion, i)
        if X is None:
            link.put_in(c)
        loop_rows.eliminate_after_joint(link, parts, late, order.block)
        parts.append(link.to_parent(X, c, link.constant_on_parent(motion)))

    # at the world: loops that meet only there, and redundant rows
    world = links[WORLD] = new_link(problem, WORLD, take_parts(problem, WORLD, parts))
    world.leave_rows()
    world.eliminate_forces(world.labels)
    ops.mark("link elimination", [link.V for link in links.values()])
    qdd, forces = back_substitution(motion, links)
    f = column(ops, forces)
    for scaled, factors in scales.items():
        rows = problem.rows[scaled]
        f[rows] = [factor * x for factor, x in zip(factors, f[rows], strict=True)]
    return Solution(qdd, from_entries(ops, f) if scales else forces)
