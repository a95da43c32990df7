"""Elimination of links one by one: the tail problem of [LQR] section V, on which `pv` and `pv_early` are built.

All that lies beyond link i is a quadratic form of the link's acceleration ``a`` and of the constraint forces ``f`` that
are not eliminated yet, the cost-to-go Lagrangian of eq. 39 (``f`` is minus the paper's ``λ``, ``p`` minus its ``f``):

    ``½ zᵀ V z``,   ``z = [a; 1; f]``,   ``V = [H p −Kᵀ; pᵀ · kᵀ; −K k −L]``.

The forms of a link and of what its children hand on add up (eqs. 38, 42). A joint is a chain of degrees of freedom
along coordinate axes ``s`` of the link's frame. One of force ``τ`` and armature ``r`` adds ``½ r q̈² − τ q̈``,
``q̈ = a_s − a'_s`` with the acceleration ``a'_s`` that the link is carried with. Where rows meet the joint itself
(`JointRows`), ``q̈`` is an entry of ``z`` beside the forces, and what it meets adds to what ``a_s`` does. ``a'_s`` takes
the place of ``a_s`` in ``z``, and ``a_s`` stands apart:

    ``½ D a_s² − a_s bᵀ z + ½ zᵀ V z``,   ``D = H_ss + r``.

To eliminate it is to put in ``a_s = W z``. Every elimination leaves its record to back substitution (`steps`).

Where loops couple links before their ends meet (`loop_rows`), accelerations of other links are entries of ``z`` beside
the forces. A link then is all parts that meet its acceleration, wherever they are, and where a parent's ``a_p`` is in
``z`` already, it is one with that of ``a = X a_p + c``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from delassus.algorithms.dynamics.popov_vereshchagin.parts import (
    AXES,
    FIRST,
    ONE,
    Part,
    RowKinds,
    labels_of,
    link_labels,
)
from delassus.algorithms.dynamics.popov_vereshchagin.steps import (
    JOINT,
    Acceleration,
    BackSubstitution,
    Forces,
    Label,
    Sheared,
    Step,
)
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.problem import Problem
from delassus.model.tree import WORLD
from delassus.spatial.motion import diagonal
from delassus.spatial.ops import Matrix, Scalar


class LinkElimination:
    """A link (or the world) while its joint and forces are eliminated; ``labels``: entries 7, 8, … of ``z``.

    ``rows`` are those that joints eliminate, in ``z`` as the paper's ``λ = −f``; along the axes ``joined``, rows meet
    the joint itself.
    """

    def __init__(self, problem: Problem, link: int, parts: Sequence[Part], kinds: RowKinds) -> None:
        self.ops, self.problem, self.link, self.kinds = problem.ops, problem, link, kinds
        self.steps: list[Step] = []
        self.joined: dict[int, Label] = {}
        self.labels: tuple[Label, ...] = ()
        self.rows: tuple[Label, ...] = ()
        self.V = self.ops.zeros(FIRST, FIRST)
        self.add(parts)

    @property
    def size(self) -> int:
        """Number of entries of ``z``."""
        return FIRST + len(self.labels)

    def add(self, parts: Sequence[Part]) -> None:
        """Add forms."""
        ops, own, before = self.ops, link_labels(self.link), range(self.size)
        new = (x for part in parts for x in part.entries() if x not in own)
        self.labels = tuple(dict.fromkeys([*self.labels, *new]))
        self.rows = (*self.rows, *(label for part in parts for label in part.rows))
        n = self.size
        self.V = ops.put(self.V, (n, n), before, before)
        for part in parts:  # the acceleration of the world is not an entry
            axes = self.indices(link_labels(part.link))
            entries, at = range(6 - len(axes), FIRST + len(part.labels)), [*axes, *ONE, *self.indices(part.labels)]
            self.V = ops.sym_add(self.V, ops.put(ops.take(part.V, entries, entries), (n, n), at, at))

    def indices(self, labels: Iterable[Label]) -> list[int]:
        """Positions of labels in ``z``."""
        own = link_labels(self.link)
        return [own.index(label) if label in own else FIRST + self.labels.index(label) for label in labels]

    def remove(self, labels: Sequence[Label]) -> list[int]:
        """Take entries out of ``z``; returns where those left have been."""
        at = self.indices(labels)
        rest = [k for k in range(self.size) if k not in at]
        self.V = self.ops.take(self.V, rest, rest)
        self.labels, self.rows = (tuple(x for x in those if x not in labels) for those in (self.labels, self.rows))
        return rest

    # -- joints ----------------------------------------------------------------------------------------------------

    def acceleration_of(self, s: int) -> Label:
        """Label of the joint's acceleration along the axis ``s``."""
        tree = self.problem.tree
        return JOINT, tree.v_slices[self.link].start + tree.joints[self.link].motion_axes.index(s)

    def merge_joint_acceleration(self, s: int) -> None:
        """Put ``a_s − a'_s`` in the place of the joint's own ``q̈``, if ``z`` has it: that entry becomes ``a'_s``."""
        label = self.acceleration_of(s)
        if label in self.labels:
            (at,) = self.indices([label])
            T = np.eye(self.size)
            T[at, s], T[at, at] = 1.0, -1.0
            self.change_entries(self.ops.constant(T))
            self.joined[s] = label

    def shear(self, pitch: float) -> None:
        """Put a screw's linear acceleration along its axis less ``pitch`` times the angular one in the place of it.

        Then ``S`` is an axis. The change back has the opposite pitch.
        """
        if not pitch:
            return
        T, axis = np.eye(self.size), self.problem.tree.joints[self.link].axis
        T[axis, 3 + axis] = pitch
        self.change_entries(self.ops.constant(T))
        self.steps.append(Sheared(T[:6, :6]))

    def change_entries(self, T: Matrix) -> None:
        """Put ``T z`` in the place of ``z``."""
        self.V = self.ops.sym_product(self.ops.transpose(T) @ self.V, T)

    def separate_dof(self, s: int, armature: float, tau: Matrix) -> tuple[Matrix, Matrix]:
        """Put ``a'_s`` in the place of ``a_s``; returns ``b`` (n × 1) and ``D`` (1 × 1)."""
        ops, label = self.ops, self.acceleration_of(s)
        others = [k for k in range(self.size) if k != s]
        to = others
        if label in self.labels:
            (at,) = self.indices([label])
            to = [s if k == at else k - (k > at) for k in others]
            self.labels = tuple(x for x in self.labels if x != label)
        n = self.size
        D, V = ops.take(self.V, (s,), (s,)), ops.put(ops.take(self.V, others, others), (n, n), to, to)
        b = ops.put(tau, (n, 1), ONE, (0,)) - ops.put(ops.take(self.V, others, (s,)), (n, 1), to, (0,))
        edge = ops.put(tau, (n, n), (s,), ONE)
        self.V = ops.sym_add(V, edge + ops.transpose(edge))
        if armature:
            r = ops.constant([[armature]])
            self.V, b = ops.sym_add(self.V, ops.put(r, (n, n), (s,), (s,))), b + ops.put(r, (n, 1), (s,), (0,))
            D = D + r
        return b, D

    def eliminate_dof(self, s: int, armature: float, tau: Matrix) -> Matrix:
        """A degree of freedom that moves as the forces say: ``W = bᵀ / D``, ``V ← V − b W`` (eqs. 41, 42).

        Returns the trace of what that takes off ``H`` (1 × 1).
        """
        ops = self.ops
        b, D = self.separate_dof(s, armature, tau)
        ((d,),) = ops.entries(D)
        W = ops.matrix([[1.0 / d]]) @ ops.transpose(b)
        ops.pivot(d)
        self.V = ops.sym_subtract(self.V, ops.sym_product(b, W))
        self.steps.append(Acceleration(s, self.joined.get(s), self.labels, W))
        return ops.take(W, None, AXES) @ ops.take(b, AXES, None)

    # -- forces ----------------------------------------------------------------------------------------------------

    def L(self, labels: Iterable[Label]) -> Matrix:
        """Block of ``L`` of some forces."""
        at = self.indices(labels)
        return -self.ops.take(self.V, at, at)

    def is_regular(self, labels: Sequence[Label]) -> bool:
        """Whether ``L`` less the compliance is, at almost all states; else forces would be differences over that."""
        ops, least = self.ops, self.kinds.least
        L = self.L(labels) - diagonal(ops, self.kinds.L(labels))
        if not least:
            return ops.rank(L) == len(labels)
        scale = diagonal(ops, [1.0 / ops.sqrt(least[label]) for label in labels])
        return ops.rank(ops.sym_product(scale @ L, scale), 1.0) == len(labels)

    def eliminate_forces(self, labels: Sequence[Label]) -> None:
        """Forces whose ``L`` is regular: ``f = L⁻¹ (k − K a)``, ``H ← H + Kᵀ L⁻¹ K``, … (eqs. 46, 49; 62, 63)."""
        ops = self.ops
        if not labels:
            return
        L, off = self.L(labels), [self.off(label) for label in labels]
        if any(x is not None for x in off):  # rows of constraints that are off are zero
            usual = [self.problem.usual_mobilities(c)[row] for c, row in labels]
            L = ops.sym_add(L, diagonal(ops, [0.0 if x is None else x * y for x, y in zip(off, usual, strict=True)]))
        factor, rows = ops.factor(L), ops.take(self.V, self.indices(labels), None)
        B = ops.take(rows, None, self.remove(labels))
        Z = factor.half_solve(B)
        self.V = ops.sym_add(self.V, ops.sym_product(ops.transpose(factor.scale(Z)), Z))
        self.steps.append(Forces(tuple(labels), self.labels, B, factor))

    def off(self, label: Label) -> Scalar | None:
        """1 where a row does not act, else 0; None if it always does."""
        if self.kinds.conditions is not None:
            return self.kinds.conditions.off(self.kinds.conditions.of[label])
        flag = self.problem.flag(label[0])
        return None if flag is None else 1.0 - flag

    # -- towards the root ------------------------------------------------------------------------------------------

    def to_parent(self, X: Any, c: Matrix) -> Part:
        """The form with ``a = X a_p + c`` put in (eqs. 42a–42d); without ``X``, ``c`` is all of ``a``.

        Where a loop has brought ``a_p`` into the form before, the two are one.
        """
        if X is None:
            self.substitute_acceleration(c)
            return Part(WORLD, self.V, self.labels, self.rows)
        ops, n = self.ops, self.size
        H, B = (ops.take(self.V, AXES, at) for at in (AXES, range(6, n)))
        V, edge = self._without_own(c)
        edge = edge + ops.put(X.forces_to_parent(B + ops.put(H @ c, (6, n - 6), AXES, (0,))), (n, n), AXES, range(6, n))
        V = ops.sym_add(V, ops.put(X.inertia_to_parent(H), (n, n), AXES, AXES))
        V = ops.sym_add(V, edge + ops.transpose(edge))
        parent = link_labels(self.problem.tree.parents[self.link])
        at = self.indices(label for label in self.labels if label in parent)
        rest = [k for k in range(n) if k not in at]
        if at:
            m = len(rest)
            edge = ops.put(ops.take(V, at, rest), (m, m), AXES, range(m))
            V = ops.sym_add(ops.take(V, rest, rest), ops.put(ops.take(V, at, at), (m, m), AXES, AXES))
            V = ops.sym_add(V, edge + ops.transpose(edge))
        labels = tuple(self.labels[k - FIRST] for k in rest if k >= FIRST)
        return Part(self.problem.tree.parents[self.link], V, labels, self.rows)

    def substitute_acceleration(self, c: Matrix) -> None:
        """Put in the acceleration ``c`` that the world carries the link with, which is known."""
        V, edge = self._without_own(c)
        self.V = self.ops.sym_add(V, edge + self.ops.transpose(edge))

    def _without_own(self, c: Matrix) -> tuple[Matrix, Matrix]:
        """The form without the link's acceleration, and the edge that ``c``, a part of that, adds to it."""
        ops, n = self.ops, self.size
        late, forces = range(6, n), range(FIRST, n)
        V = ops.put(ops.take(self.V, late, late), (n, n), late, late)
        return V, ops.put(ops.transpose(c) @ ops.take(self.V, AXES, forces), (n, n), ONE, forces)


def transform_and_drift(motion: DynamicsProblem, i: int) -> tuple[Any, Matrix]:
    """``X`` and ``c`` of ``a = X a_p + c``; on the world, whose acceleration is known, ``X`` is None."""
    if motion.tree.parents[i] == WORLD:
        return None, motion.to_link(i, [])
    return motion.problem.X[i], motion.c[i]


def back_substitution(motion: DynamicsProblem, links: Mapping[int, LinkElimination]) -> tuple[Matrix, Matrix]:
    """``q̈`` (nv × 1) and constraint forces (m × 1) from the eliminations of the links and the world, the last first."""
    ops, tree, problem = motion.ops, motion.tree, motion.problem
    state, qdd = BackSubstitution(ops, motion.a0), dict[int, Matrix]()
    for step in reversed(links[WORLD].steps):
        step(state)

    # the last link first: a' = X a_p + c, then what the link has eliminated  (eq. 41)
    for i in reversed([link for link in links if link != WORLD]):
        X, c = transform_and_drift(motion, i)
        carried = state.a = c if X is None else X.motions_to_child(state.links[tree.parents[i]]) + c
        for step in reversed(links[i].steps):
            step(state)
        state.links[i] = state.a
        axes = tree.joints[i].motion_axes
        qdd[i] = ops.take(state.a, axes, None) - ops.take(carried, axes, None)
    f = [state.forces[label] for c in range(len(problem.constraints)) for label in labels_of(problem, c)]
    ordered = [qdd[i] for i in tree.root_to_leaves()]
    ops.mark("back substitution", [*ordered, *f])
    return motion.stacked(ordered), motion.stacked(f)
