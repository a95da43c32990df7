"""PV-early: each joint eliminates as many multipliers as it has degrees of freedom; rows get fewer towards the root.

At a degree of freedom whose axis some hard rows ``K a = l`` meet, a Householder reflection of ``K S`` leaves one row
that does. It says how the degree of freedom moves, whatever the forces, and is eliminated with it; the others go on to
the parent as they are, ``K A = K X`` for them. Degrees of freedom that no row meets are eliminated as in the
articulated-body algorithm. The steps are in `elimination` and `way_back`. Cost O(n + m). Source: [LQR] section VIII,
eqs. 56–68 (of eq. 68 the first row is the eliminated one).

Deviations:

* The paper adds ``K̃ᵀ Σ⁻¹ K̃`` to ``Hᴬ`` after the joint's own ``U D⁻¹ Uᵀ`` has been taken off; both together are
  ``Tᵀ Hᴬ T``, computed as such: the rows left need no propagation through the joint, and a row along the joint alone,
  such as the first of a weld, costs nothing.
* Six rows that hold a link (a weld) are written as ``a = l``, so that its joint meets one of them. The others leave
  nothing free but the joint: on the parent they are five constant rows that do not meet the joint's axis, and only
  ``l`` turns with the joint. ``K`` depends on the state from the second joint on.
* Joints of several degrees of freedom: where the rank of ``K S`` is their number, its QR decomposition eliminates as
  many rows, one after the other. Where it is less, single columns could vanish: the rows are *opened*, pass the joint
  as in PV, ``L = K S D⁻¹ Sᵀ Kᵀ``, and are closed together once ``L`` is regular. That is what happens at the floating
  base. The rank is that at almost all states (`Ops.rank`), so that the program stays straight-line.
* Loops (not in the source): a loop's rows are open from the start and are closed where their ends have met and ``L`` is
  regular at almost all states, at the latest at the world. Hard rows that are eliminated below leave their ``L`` alone.
* Constraints that can be switched off (not in the source) leave the structure as it is: a degree of freedom is
  eliminated with the row that meets it where one acts, and without rows elsewhere (see `elimination`). Rows of several
  constraints that meet a joint of several degrees of freedom are opened.
* Structure decides how many rows a joint eliminates. ``Solution.pivot`` is the smallest ``‖K S‖²`` of all of them over
  the square of what its entries are to be compared with, and of the pivots of closed rows: errors are round-off over
  that, and states below `least_pivot` (a stretched knee) need a method that eliminates nothing early: `pv_dense`. Rows
  that are left at the world are redundant; the pivot is zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from delassus.algorithms.dynamics.activation import Condition, Switches
from delassus.algorithms.dynamics.back_substitution import BIAS, Label, State
from delassus.algorithms.dynamics.constraint_acceleration import unswitched_right_hand_sides
from delassus.algorithms.dynamics.elimination import Passage
from delassus.algorithms.dynamics.loop_rows import Open, merged
from delassus.algorithms.dynamics.pivot_scaling import Sizes, row_sizes, sum_of_sizes
from delassus.algorithms.dynamics.pv_dense import starting_stacks
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.model.inertia import motion_transform
from delassus.model.rotations import Array
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix, Scalar


class Sweep:
    """Leaves → root: what is left to solve at each link, once all that lies beyond it is eliminated.

    Attributes
    ----------
    passages : dict of int to Passage
        One for each link, with the steps that were taken there, and one for the world.
    hard : dict of int to list of (Label, int)
        Whose hard rows a link starts with, in order, and how many: of a constraint, or handed on by a child.
    """

    def __init__(self, motion: DynamicsProblem) -> None:
        self._motion, self._ops = motion, motion.ops
        ops, tree, problem = motion.ops, motion.tree, motion.problem
        self._ends = Counter(end.constraint for end in problem.unswitched_ends)
        self._switches = Switches(problem)
        self._scales = row_sizes(problem)
        self._H, self._p = [*problem.inertias, ops.zeros(6, 6)], [*motion.p, ops.zeros(6, 1)]  # the last: the world's
        everywhere = (WORLD, *range(tree.n_links))
        self._rows: dict[int, list[tuple[Label, Matrix, list[Condition]]]] = {i: [] for i in everywhere}
        self._open: dict[int, list[Open]] = {i: [] for i in everywhere}
        self._scale: dict[int, Sizes] = dict.fromkeys(everywhere, (0.0, 0.0))
        self.passages: dict[int, Passage] = {}
        self.hard: dict[int, list[tuple[Label, int]]] = {}
        self._start()

        # leaves → root: joints, and what they leave for the parents
        for i in tree.leaves_to_root():
            link = self._meet(i)
            link.rebase(range(6), np.eye(6))
            self._close(link)
            self._joint(i, link)
            self._close(link)
            self._hand_on(i, link)
        world = self._meet(WORLD)
        if world.open is not None:
            world.close(world.open.labels)
        links = self.passages.values()
        ops.mark("articulated inertia", [link.H for link in links])
        ops.mark("constraint rows", [link.R for link in links])
        ops.mark("articulated bias forces", [link.p for link in links])

    @property
    def pivot(self) -> Scalar:
        """Smallest pivot; zero where hard rows that act are left at the world."""
        found: dict[Condition, Scalar] = dict.fromkeys(self.passages[WORLD].acts, 0.0)
        for link in self.passages.values():
            for act, pivot in link.pivots.items():
                found[act] = self._ops.minimum(found.get(act, 1.0), pivot)
        worst: Scalar = 1.0
        for act, pivot in found.items():
            worst = self._ops.minimum(worst, pivot + self._switches.off(act))
        return worst

    def _start(self) -> None:
        """Put the rows of constraints on their links: hard ones if they have one end, else open ones."""
        ops, motion = self._ops, self._motion
        k = unswitched_right_hand_sides(motion)
        for i, stacks in starting_stacks(motion, motion.problem.unswitched_ends, k).items():
            for stack in stacks:
                (c,), m = stack.constraints, ops.shape(stack.K)[0]
                acts = [self._switches.of(c)] * m
                if self._ends[c] == 1:
                    self._rows[i].append((c, stack.K, acts))
                else:
                    R = self._switches.zero_where_off(ops, acts, stack.K)
                    self._open[i].append(Open((c,), {c: m}, R, stack.L, {c: frozenset()}, {c: 1}, {c: acts}))
                self._scale[i] = sum_of_sizes(self._scale[i], self._scales[c])

    def _meet(self, i: int) -> Passage:
        """All rows that arrive at a link."""
        ops = self._ops
        self.hard[i] = [(label, len(acts)) for label, _, acts in self._rows[i]]
        R = ops.vstack([ops.zeros(0, 7), *(R for _, R, _ in self._rows[i])])
        acts = [act for _, _, acts in self._rows[i] for act in acts]
        rows = merged(ops, self._open[i])
        link = Passage(ops, self._switches, self._H[i], self._p[i], R, acts, rows, self._scale[i])
        self.passages[i] = link
        return link

    def _close(self, link: Passage) -> None:
        """Close the open rows all of whose ends are here and whose ``L`` is regular at almost all states."""
        rows, chosen, size = link.open, list[Label](), 0
        if rows is None:
            return
        for c in rows.labels:
            whole = size + rows.sizes[c]
            if rows.ends[c] == self._ends[c] and whole <= len(
                frozenset().union(*(rows.moved[b] for b in (*chosen, c)))
            ):
                at = rows.indices([*chosen, c])
                if self._ops.rank(self._ops.take(rows.L, at, at)) == whole:
                    chosen, size = [*chosen, c], whole
        if chosen:
            link.close(chosen)

    def _joint(self, i: int, link: Passage) -> None:
        """Eliminate the joint of a link."""
        ops, joint, dofs = self._ops, self._motion.tree.joints[i], self._motion.tree.v_slices[i]
        if joint.nv > 1:
            KS = ops.take(link.R, None, joint.motion_axes)
            meets = ops.nonzero(KS)
            conditions = {act for act, row in zip(link.acts, meets, strict=True) if row.any()}
            if len(conditions) > 1 or (conditions and ops.rank(KS) < np.count_nonzero(meets.any(axis=0))):
                label = _handed_on(i) - self._motion.tree.n_links  # one of its own
                link.open_rows(np.flatnonzero(meets.any(axis=1)).tolist(), label)
                self._ends[label] = 1
        for k in reversed(range(joint.nv)):
            tau = ops.take(self._motion.tau[i], (k,), None)
            link.eliminate(joint.motion_axes[k], dofs.start + k, float(joint.armature[k]), tau)

    def _hand_on(self, i: int, link: Passage) -> None:
        """Give the parent what is left of a link."""
        motion, ops, p, X = self._motion, self._ops, self._motion.tree.parents[i], self._motion.problem.X[i]
        if p != WORLD:
            c = motion.c[i]
            self._H[p] = ops.sym_add(self._H[p], X.inertia_to_parent(link.H))
            self._p[p] = self._p[p] + X.forces_to_parent(link.p + link.H @ c)
        if ops.shape(link.R)[0]:
            R = link.R if self._stand_still(i, link) else self._rows_to_parent(i, link.R)
            self._rows[p].append((_handed_on(i), R, link.acts))
        if link.open is not None:
            o = link.open
            R = self._rows_to_parent(i, o.R)
            self._open[p].append(Open(o.labels, o.sizes, R, o.L, o.moved, o.ends, o.acts, o.mobility))
        if ops.shape(link.R)[0] or link.open is not None:
            self._scale[p] = sum_of_sizes(self._scale[p], link.scale)

    def _stand_still(self, i: int, link: Passage) -> bool:
        """Where hard rows leave nothing free but a joint, write them on the parent, where they do not turn with it."""
        motion, tree = self._motion, self._motion.tree
        p, joint = tree.parents[i], tree.joints[i]
        if p == WORLD or joint.nv > 1:
            return False
        (s,) = joint.motion_axes
        axis = np.asarray(np.linalg.inv(motion_transform(joint.rotation, joint.position))[:, s], dtype=np.float64)
        N = annihilator(axis, tree.joints[p].motion_axes)
        return link.rebase([k for k in range(6) if k != s], N, motion.problem.X[i], motion.c[i])

    def _rows_to_parent(self, i: int, R: Matrix) -> Matrix:
        """``[K X, l − K c]``; at the world, whose acceleration is known, ``[0, l − K X a_0]``."""
        motion, ops = self._motion, self._ops
        K, l = ops.take(R, None, range(6)), ops.take(R, None, BIAS)
        if motion.tree.parents[i] == WORLD:
            return ops.hstack([ops.zeros(*ops.shape(K)), l - K @ motion.to_link(i, [])])
        return ops.hstack([motion.problem.X[i].rows_to_parent(K), l - K @ motion.c[i]])


def annihilator(axis: Array, other: Sequence[int]) -> Array:
    """Rows (5 × 6) ``e_k − (axis_k / axis_j) e_jᵀ`` that do not meet a constant axis (6,).

    ``j`` is a coordinate along which it is large, not one of the ``other`` axes if there is a choice: these are met by
    few rows then.
    """
    sizes = np.abs(axis)
    away = np.where(np.isin(np.arange(6), other), 0.0, sizes)
    j = int(np.argmax(away if 2.0 * away.max() >= sizes.max() else sizes))
    N = np.eye(6)
    N[:, j] -= np.where(sizes < NOTHING, 0.0, axis) / axis[j]
    return np.delete(N, j, axis=0)


NOTHING = 1e-15
"""Entries of an axis that are round-off."""


def pv_early(motion: DynamicsProblem) -> Solution:
    """Accelerations and constraint forces, and the smallest pivot."""
    ops, tree, problem = motion.ops, motion.tree, motion.problem
    sweep = Sweep(motion)
    a: list[Matrix] = []
    qdd: list[Matrix] = []
    forces: dict[Label, Matrix] = {}

    def back(i: int, carried: Matrix, hard: Matrix) -> Matrix:
        """Acceleration of a link, from what it is carried with and the forces of the rows that it handed on."""
        state = State(carried, hard, forces)
        for step in reversed(sweep.passages[i].steps):
            step.back(ops, state)
        start = 0
        for label, size in sweep.hard[i]:
            forces[label] = ops.take(state.hard, range(start, start + size), None)
            start += size
        return state.a

    # root → leaves: accelerations and forces
    back(WORLD, motion.a0, ops.zeros(sum(size for _, size in sweep.hard[WORLD]), 1))
    for i in tree.root_to_leaves():
        carried = motion.to_link(i, a)
        if tree.parents[i] != WORLD:
            carried = carried + motion.c[i]
        a.append(back(i, carried, forces.pop(_handed_on(i), ops.zeros(0, 1))))
        axes = tree.joints[i].motion_axes
        qdd.append(ops.take(a[i], axes, None) - ops.take(carried, axes, None))
    f = motion.stacked([forces[c] for c in range(len(problem.constraints))])
    ops.mark("accelerations", [*qdd, f])
    return Solution(motion.stacked(qdd), f, pivot=sweep.pivot)


def _handed_on(i: int) -> Label:
    """Label of the hard rows that link i hands on."""
    return -1 - i
