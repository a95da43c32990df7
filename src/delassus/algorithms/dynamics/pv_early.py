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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.algorithms.dynamics import constant_rows, loop_rows
from delassus.algorithms.dynamics.constant_rows import Rewritten
from delassus.algorithms.dynamics.constraint_acceleration import unswitched_right_hand_sides
from delassus.algorithms.dynamics.link_elimination import (
    AXES,
    FIRST,
    ONE,
    Label,
    LinkElimination,
    Part,
    State,
    add_forces,
    back_substitution,
    labels_of,
    link_parts,
    transform_and_drift,
)
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.problem import Problem
from delassus.model.joints import Joint
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix, Scalar


class EarlyElimination(LinkElimination):
    """A link with rows ``R [a; 1] = 0`` (m × 7) that its acceleration must meet; ``rows`` are their forces."""

    def __init__(self, problem: Problem, link: int, parts: Sequence[Part]) -> None:
        super().__init__(problem, link, parts)
        self.rows = [label for part in parts for label in part.rows]
        self.R = self.ops.vstack([self.ops.zeros(0, 7), *(part.R for part in parts if part.R is not None)])

    def eliminate_joint(self, joint: Joint, tau: Matrix) -> None:
        """Degrees of freedom one by one, with a row each where rows meet them (eqs. 56–68)."""
        ops, axes = self.ops, joint.motion_axes
        KS = ops.take(self.R, None, axes)
        meets = ops.nonzero(KS)
        several = len(axes) > 1 and bool(meets.any())
        ranks = [ops.rank(ops.take(KS, None, range(k, len(axes)))) if several else 0 for k in range(len(axes) + 1)]
        if several:
            self.wait(self.waiting(meets, ranks[0]))
        for k in reversed(range(len(axes))):
            s, armature, force = axes[k], float(joint.armature[k]), ops.take(tau, (k,), None)
            at = np.flatnonzero(ops.nonzero(ops.take(self.R, None, (s,)))[:, 0]).tolist()
            if at and (len(axes) == 1 or ranks[k] > ranks[k + 1]):
                self.constrain_dof(s, armature, force, at)
            else:
                others = [c for c in range(7) if c != s]
                self.set_rows(at, ops.take(self.R, at, others), others)
                self.eliminate_dof(s, armature, force)

    def waiting(self, meets: NDArray[np.bool_], rank: int) -> list[Label]:
        """Rows that wait until a joint of several degrees of freedom is eliminated: fewer than those that they meet."""
        at = np.flatnonzero(meets.any(axis=1))
        return [self.rows[k] for k in at] if rank == len(at) < np.count_nonzero(meets.any(axis=0)) else []

    def wait(self, labels: Sequence[Label]) -> None:
        """Add rows to the form, with ``L = 0``: their forces are eliminated where ``L`` has become regular."""
        ops, n, m = self.ops, FIRST + len(self.labels), len(labels)
        at = [self.rows.index(label) for label in labels]
        edge = ops.put(-ops.take(self.R, at, None), (n + m, n + m), range(n, n + m), range(FIRST))
        self.V = ops.sym_add(ops.put(self.V, (n + m, n + m), range(n), range(n)), edge + ops.transpose(edge))
        self.labels = (*self.labels, *labels)
        self.remove_rows(at)

    def constrain_dof(self, s: int, armature: float, tau: Matrix, at: Sequence[int]) -> None:
        """A degree of freedom along the axis ``s`` that the rows ``at`` meet: one of them says how it moves.

        ``a_s = W z`` is that row; ``V ← V − w W − (w W)ᵀ``, ``w = b − ½ D Wᵀ``; its force balances what is left along
        the axis, ``f = (D a_s − bᵀ z) / K_s``.
        """
        ops = self.ops
        row, size = self.single_out(s, at)
        label = self.rows[row]
        b, D = self.separate_dof(s, armature, tau)
        x, e = self.reciprocals(label, size, D, len(at) == 1)
        W = ops.put(-(x @ ops.take(self.R, (row,), None)), (1, FIRST + len(self.labels)), (0,), range(FIRST))
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
        ops, others = self.ops, [k for k in range(7) if k != s]
        x = [ops.entries(ops.take(self.R, (k,), (s,)))[0][0] for k in at]
        A = ops.take(self.R, at, others)
        if len(at) == 1:
            self.set_rows(at, A, others)
            return x[0]
        square = sum(entry * entry for entry in x)
        square = square if ops.known(ops.matrix([[square]])) is not None else square + off
        ops.pivot(square)
        size = ops.copysign(ops.sqrt(square), x[0])
        unit = [entry * (1.0 / size) for entry in x]
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

    def set_rows(self, at: Sequence[int], A: Matrix, columns: Sequence[int]) -> None:
        """Replace rows of ``R`` by ``A``, with zeros in all but these columns."""
        ops, m = self.ops, len(self.rows)
        rest = [k for k in range(m) if k not in at]
        kept = ops.put(ops.take(self.R, rest, None), (m, 7), rest, range(7))
        self.R = kept + ops.put(A, (m, 7), at, columns)

    def remove_rows(self, at: Sequence[int]) -> None:
        """Take rows off ``R``."""
        rest = [k for k in range(len(self.rows)) if k not in at]
        self.R, self.rows = self.ops.take(self.R, rest, None), [self.rows[k] for k in rest]

    def rewrite_rows(self, rewritten: Rewritten | None) -> None:
        """Put other rows of the same meaning in the place of ``R``."""
        ops, labels = self.ops, tuple(self.rows)
        if rewritten is None:
            return
        self.R, forces = rewritten

        def back(state: State) -> None:
            f = forces(ops.vstack([state.forces[label] for label in labels]))
            state.forces |= {label: ops.take(f, (k,), None) for k, label in enumerate(labels)}

        self.steps.append(back)

    def to_parent(self, X: Any, c: Matrix, rewritten: Rewritten | None = None) -> Part:
        """The same with the rows, ``K a = K X a_p + K c``; or as they have been rewritten for the parent."""
        ops, part = self.ops, super().to_parent(X, c)
        K, k = ops.take(self.R, None, AXES), ops.take(self.R, None, ONE)
        R = ops.hstack([ops.zeros(*ops.shape(K)) if X is None else X.rows_to_parent(K), k + K @ c])
        if rewritten is not None:
            self.rewrite_rows(rewritten)
            R = self.R
        return Part(part.V, part.labels, R, tuple(self.rows))

    def leave_rows(self) -> None:
        """Rows that no joint meets: they are redundant, and have no force."""
        labels = tuple(self.rows)
        for label in labels:
            off = self.off(label)
            self.ops.pivot(0.0 if off is None else off)

        def back(state: State) -> None:
            state.forces |= dict.fromkeys(labels, self.ops.zeros(1, 1))

        self.steps.append(back)

    def act_together(self) -> bool:
        """Whether there is no state at which some rows act and others do not."""
        return True


NewLink = Callable[[Problem, int, Sequence[Part]], EarlyElimination]


def add_rows(motion: DynamicsProblem, constraints: Iterable[int], parts: Mapping[int, list[Part]]) -> None:
    """Give links the rows of constraints that have one end."""
    ops, problem, k = motion.ops, motion.problem, unswitched_right_hand_sides(motion)
    for end in problem.unswitched_ends:
        if end.constraint in constraints:
            R, rows = ops.hstack([end.K, -k[end.constraint]]), labels_of(problem, end.constraint)
            parts[end.link].append(Part(ops.zeros(FIRST, FIRST), (), R, rows))


def pv_early(motion: DynamicsProblem, new_link: NewLink = EarlyElimination) -> Solution:
    """Accelerations and constraint forces."""
    ops, tree, problem = motion.ops, motion.tree, motion.problem
    parts, links = link_parts(motion), dict[int, LinkElimination]()
    waiting = loop_rows.waiting(motion)
    add_forces(motion, waiting, parts)
    add_rows(motion, [c for c in range(len(problem.constraints)) if c not in waiting], parts)

    # leaves → root: joints, with the rows that they meet (eqs. 56–68)
    for i in tree.leaves_to_root():
        link = links[i] = new_link(problem, i, parts[i])
        if link.act_together():
            link.rewrite_rows(constant_rows.of_held_link(ops, link.R))
        loop_rows.eliminate_regular(link)
        link.eliminate_joint(tree.joints[i], motion.tau[i])
        loop_rows.eliminate_regular(link)
        rewritten = constant_rows.on_parent(motion, i, link.R) if link.act_together() else None
        parts[tree.parents[i]].append(link.to_parent(*transform_and_drift(motion, i), rewritten))

    # at the world: loops that meet only there, and redundant rows
    world = links[WORLD] = new_link(problem, WORLD, parts[WORLD])
    world.leave_rows()
    world.eliminate_forces(world.labels)
    ops.mark("link elimination", [link.V for link in links.values()])
    return Solution(*back_substitution(motion, links))
