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

To eliminate it is to put in ``a_s = W z``. Every elimination leaves its back substitution behind.

Where loops couple links before their ends meet (`loop_rows`), accelerations of other links are entries of ``z`` beside
the forces. A link then is all parts that meet its acceleration, wherever they are, and where a parent's ``a_p`` is in
``z`` already, it is one with that of ``a = X a_p + c``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from delassus.algorithms.dynamics.constraint_acceleration import right_hand_sides
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.problem import Problem
from delassus.model.tree import WORLD
from delassus.spatial.motion import diagonal
from delassus.spatial.ops import Matrix, Scalar

Label = tuple[int, int]
"""A force: the constraint and the row that it belongs to; or an acceleration, of a joint or of another link.

``q̈`` of a degree of freedom: `JOINT` and its index. Entry k of the acceleration of link i: `LINK` and ``6 i + k``.
"""

JOINT, LINK = -1, -2
"""In the place of a constraint: the label is of an acceleration."""

AXES, ONE, FIRST = range(6), (6,), 7
"""Entries of ``z``: the acceleration, the one, the first force or joint acceleration."""


@dataclass(slots=True)
class State:
    """What back substitution knows: accelerations (6 × 1) of a link and of others, by label forces (1 × 1) and more."""

    a: Matrix
    links: dict[int, Matrix]
    forces: dict[Label, Matrix]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What arrives at a link: its inertia, rows of a constraint, or what a child hands on.

    ``V`` (7 + k, 7 + k) with the ``labels`` of its k forces and accelerations of others; and rows ``R z = 0``
    (m, 7 + k) that accelerations must meet, ``[K −k …]``, with the labels ``rows`` of their forces, see `pv_early`.
    """

    link: int
    V: Matrix
    labels: tuple[Label, ...] = ()
    R: Matrix | None = None
    rows: tuple[Label, ...] = ()

    @property
    def links(self) -> frozenset[int]:
        """Links whose accelerations are in ``z``."""
        return links_of_labels(self.entries())

    def is_without(self, labels: Iterable[Label]) -> bool:
        """Whether none of these is in ``z``."""
        return set(self.labels).isdisjoint(labels)

    def entries(self) -> tuple[Label, ...]:
        """Labels of all of ``z`` but the one; none of the world, whose acceleration is known."""
        return (*link_labels(self.link), *self.labels)


class LinkElimination:
    """A link (or the world) while its joint and forces are eliminated; ``labels``: entries 7, 8, … of ``z``.

    ``joined`` are the axes along which rows meet the joint itself.
    """

    def __init__(self, problem: Problem, link: int, parts: Sequence[Part]) -> None:
        self.ops, self.problem, self.link = problem.ops, problem, link
        self.steps: list[Callable[[State], None]] = []
        self.joined: set[int] = set()
        self.labels: tuple[Label, ...] = ()
        self.V = self.ops.zeros(FIRST, FIRST)
        self.add(parts)

    def add(self, parts: Sequence[Part]) -> None:
        """Add forms."""
        ops, own, before = self.ops, link_labels(self.link), range(FIRST + len(self.labels))
        met = (x for part in parts for x in part.entries() if x not in own)
        self.labels = tuple(dict.fromkeys([*self.labels, *met]))
        n = FIRST + len(self.labels)
        self.V = ops.put(self.V, (n, n), before, before)
        for part in parts:
            entries, at = self.places(part)
            self.V = ops.sym_add(self.V, ops.put(ops.take(part.V, entries, entries), (n, n), at, at))

    def places(self, part: Part) -> tuple[Sequence[int], Sequence[int]]:
        """Entries of a part's ``z``, and where they are here; the acceleration of the world is not among them."""
        axes = self._indices(link_labels(part.link))
        return range(FIRST - len(ONE) - len(axes), FIRST + len(part.labels)), [*axes, *ONE, *self._indices(part.labels)]

    def _indices(self, labels: Iterable[Label]) -> list[int]:
        own = link_labels(self.link)
        return [own.index(label) if label in own else FIRST + self.labels.index(label) for label in labels]

    def L(self, labels: Iterable[Label]) -> Matrix:
        """Block of ``L`` of some forces."""
        at = self._indices(labels)
        return -self.ops.take(self.V, at, at)

    def is_regular(self, labels: Sequence[Label]) -> bool:
        """Whether ``L`` of some forces is regular at almost all states."""
        return self.ops.rank(self.L(labels)) == len(labels)

    def acceleration_of(self, s: int) -> Label:
        """Label of the joint's acceleration along the axis ``s``."""
        tree = self.problem.tree
        return JOINT, tree.v_slices[self.link].start + tree.joints[self.link].motion_axes.index(s)

    def join_acceleration(self, s: int) -> None:
        """Put ``a_s − a'_s`` in the place of the joint's own ``q̈``, if ``z`` has it: that entry becomes ``a'_s``."""
        n, label = FIRST + len(self.labels), self.acceleration_of(s)
        if label in self.labels:
            (at,) = self._indices([label])
            T = np.eye(n)
            T[at, s], T[at, at] = 1.0, -1.0
            self.change_entries(self.ops.constant(T))
            self.joined.add(s)

    def change_entries(self, T: Matrix) -> None:
        """Put ``T z`` in the place of ``z``."""
        self.V = self.ops.sym_product(self.ops.transpose(T) @ self.V, T)

    def separate_dof(self, s: int, armature: float, tau: Matrix) -> tuple[Matrix, Matrix]:
        """Put ``a'_s`` in the place of ``a_s``; returns ``b`` (n × 1) and ``D`` (1 × 1)."""
        ops, label = self.ops, self.acceleration_of(s)
        others = [k for k in range(FIRST + len(self.labels)) if k != s]
        to = others
        if label in self.labels:
            (at,) = self._indices([label])
            to = [s if k == at else k - (k > at) for k in others]
            self.labels = tuple(x for x in self.labels if x != label)
        n = FIRST + len(self.labels)
        D, V = ops.take(self.V, (s,), (s,)), ops.put(ops.take(self.V, others, others), (n, n), to, to)
        b = ops.put(tau, (n, 1), ONE, (0,)) - ops.put(ops.take(self.V, others, (s,)), (n, 1), to, (0,))
        edge = ops.put(tau, (n, n), (s,), ONE)
        self.V = ops.sym_add(V, edge + ops.transpose(edge))
        if armature:
            r = ops.constant([[armature]])
            self.V, b = ops.sym_add(self.V, ops.put(r, (n, n), (s,), (s,))), b + ops.put(r, (n, 1), (s,), (0,))
            D = D + r
        return b, D

    def eliminate_dof(self, s: int, armature: float, tau: Matrix) -> None:
        """A degree of freedom that moves as the forces say: ``W = bᵀ / D``, ``V ← V − b W`` (eqs. 41, 42)."""
        ops = self.ops
        b, D = self.separate_dof(s, armature, tau)
        ((d,),) = ops.entries(D)
        W = ops.matrix([[1.0 / d]]) @ ops.transpose(b)
        self.note_pivot(d, b, W)
        self.V = ops.sym_subtract(self.V, ops.sym_product(b, W))
        labels = self.labels

        def back(state: State) -> None:
            self.set_acceleration(state, s, W @ self.z(state, labels))

        self.steps.append(back)

    def note_pivot(self, d: Scalar, b: Matrix, W: Matrix) -> None:
        """Say what errors depend on where a degree of freedom is eliminated."""
        self.ops.pivot(d)

    def eliminate_forces(self, labels: Sequence[Label]) -> None:
        """Forces whose ``L`` is regular: ``f = L⁻¹ (k − K a)``, ``H ← H + Kᵀ L⁻¹ K``, … (eqs. 46, 49; 62, 63)."""
        ops, at = self.ops, self._indices(labels)
        if not at:
            return
        rest = [k for k in range(FIRST + len(self.labels)) if k not in at]
        L, off = self.L(labels), [self.off(label) for label in labels]
        if any(x is not None for x in off):  # rows of constraints that are off are zero
            L = ops.sym_add(L, diagonal(ops, [0.0 if x is None else x for x in off]))
        factor = ops.factor(L)
        B = ops.take(self.V, at, rest)
        Z = factor.half_solve(B)
        added = ops.sym_product(ops.transpose(factor.scale(Z)), Z)
        self.V = ops.sym_add(ops.take(self.V, rest, rest), added)
        self.labels = left = tuple(label for label in self.labels if label not in labels)

        def back(state: State) -> None:
            f = factor.solve(B @ self.z(state, left))
            state.forces |= {label: ops.take(f, (k,), None) for k, label in enumerate(labels)}

        self.steps.append(back)

    def off(self, label: Label) -> Scalar | None:
        """1 where the constraint of a force is off, else 0; None if it cannot be."""
        flag = self.problem.flag(label[0])
        return None if flag is None else 1.0 - flag

    def to_parent(self, X: Any, c: Matrix) -> Part:
        """The form with ``a = X a_p + c`` put in (eqs. 42a–42d); without ``X``, ``c`` is all of ``a``.

        Where a loop has brought ``a_p`` into the form before, the two are one.
        """
        if X is None:
            self.put_in(c)
            return Part(WORLD, self.V, self.labels)
        ops, n = self.ops, FIRST + len(self.labels)
        H, B = (ops.take(self.V, AXES, at) for at in (AXES, range(6, n)))
        V, edge = self._without_own(c)
        edge = edge + ops.put(X.forces_to_parent(B + ops.put(H @ c, (6, n - 6), AXES, (0,))), (n, n), AXES, range(6, n))
        V = ops.sym_add(V, ops.put(X.inertia_to_parent(H), (n, n), AXES, AXES))
        V = ops.sym_add(V, edge + ops.transpose(edge))
        at, rest = self.met_by_parent()
        if at:
            m = len(rest)
            edge = ops.put(ops.take(V, at, rest), (m, m), AXES, range(m))
            V = ops.sym_add(ops.take(V, rest, rest), ops.put(ops.take(V, at, at), (m, m), AXES, AXES))
            V = ops.sym_add(V, edge + ops.transpose(edge))
        labels = tuple(self.labels[k - FIRST] for k in rest if k >= FIRST)
        return Part(self.problem.tree.parents[self.link], V, labels)

    def put_in(self, c: Matrix) -> None:
        """Put in the acceleration ``c`` that the world carries the link with, which is known."""
        V, edge = self._without_own(c)
        self.V = self.ops.sym_add(V, edge + self.ops.transpose(edge))

    def _without_own(self, c: Matrix) -> tuple[Matrix, Matrix]:
        """The form without the link's acceleration, and the edge that ``c``, a part of that, adds to it."""
        ops, n = self.ops, FIRST + len(self.labels)
        late, forces = range(6, n), range(FIRST, n)
        V = ops.put(ops.take(self.V, late, late), (n, n), late, late)
        return V, ops.put(ops.transpose(c) @ ops.take(self.V, AXES, forces), (n, n), ONE, forces)

    def met_by_parent(self) -> tuple[list[int], list[int]]:
        """Entries of ``z`` that are the parent's acceleration, brought in by a loop, and all others."""
        parent = link_labels(self.problem.tree.parents[self.link])
        at = [FIRST + k for k, label in enumerate(self.labels) if label in parent]
        return at, [k for k in range(FIRST + len(self.labels)) if k not in at]

    def substitute_back(self, state: State) -> None:
        """Find what has been eliminated here, the last elimination first."""
        for back in reversed(self.steps):
            back(state)

    def z(self, state: State, labels: Sequence[Label]) -> Matrix:
        """``[a; 1; f]`` (n × 1)."""
        ops = self.ops
        late = (
            ops.take(state.links[k // 6], (k % 6,), None) if kind == LINK else state.forces[kind, k]
            for kind, k in labels
        )
        return ops.vstack([state.a, ops.eye(1), *late])

    def set_acceleration(self, state: State, s: int, value: Matrix) -> None:
        """``a_s``, which takes the place of ``a'_s``; the joint's own acceleration is the difference."""
        ops, others = self.ops, [k for k in AXES if k != s]
        if s in self.joined:
            state.forces[self.acceleration_of(s)] = value - ops.take(state.a, (s,), None)
        a = ops.put(ops.take(state.a, others, None), (6, 1), others, (0,))
        state.a = a + ops.put(value, (6, 1), (s,), (0,))


def link_labels(link: int) -> tuple[Label, ...]:
    """Labels of a link's acceleration; the world's is known and has none."""
    return () if link == WORLD else tuple((LINK, 6 * link + k) for k in AXES)


def links_of_labels(labels: Iterable[Label]) -> frozenset[int]:
    """Links whose accelerations have these labels."""
    return frozenset(k // 6 for kind, k in labels if kind == LINK)


def link_parts(motion: DynamicsProblem) -> list[Part]:
    """What links start with: inertia and bias force."""
    ops, parts = motion.ops, list[Part]()
    for i, (H, p) in enumerate(zip(motion.problem.inertias, motion.p, strict=True)):
        edge = ops.put(p, (FIRST, FIRST), AXES, ONE)
        parts.append(Part(i, ops.sym_add(ops.put(H, (FIRST, FIRST), AXES, AXES), edge + ops.transpose(edge))))
    return parts


def take_parts(problem: Problem, link: int, parts: list[Part]) -> list[Part]:
    """Take out what meets a link or the joint that carries it, wherever it is; at the world, all that is left."""
    if link == WORLD:
        taken = list(parts)
    else:
        met = {*link_labels(link), *accelerations_of(problem, link)}
        taken = [part for part in parts if part.link == link or not met.isdisjoint(part.labels)]
    parts[:] = [part for part in parts if part not in taken]
    return taken


def add_forces(motion: DynamicsProblem, groups: Iterable[Sequence[Label]], parts: list[Part]) -> None:
    """Give links the forces of groups of rows, ``L`` their compliance; all ends of a row have the same force."""
    ops, problem, k = motion.ops, motion.problem, right_hand_sides(motion)
    for labels in groups:
        c, rows, m = labels[0][0], [row for _, row in labels], len(labels)
        n, forces = FIRST + m, range(FIRST, FIRST + m)
        edge = ops.put(ops.take(k[c], rows, None), (n, n), forces, ONE)
        compliance = ops.take(motion.compliance(c), rows, rows)
        own = ops.sym_add(edge + ops.transpose(edge), ops.put(-compliance, (n, n), forces, forces))
        ends = [(end.link, ops.take(end.K, rows, None)) for end in problem.ends if end.constraint == c]
        on_joints = [end for end in problem.joint_ends if end.constraint == c and set(rows) & set(end.rows)]
        if not ends and not on_joints:
            ends = [(WORLD, ops.zeros(m, 6))]
        for link, K in ends:
            edge = ops.put(-K, (n, n), forces, AXES)
            parts.append(Part(link, ops.sym_add(own, edge + ops.transpose(edge)), tuple(labels)))
            own = ops.zeros(n, n)
        for end in on_joints:
            met = accelerations_of(problem, end.link)
            size = n + len(met)
            edge = ops.put(-ops.take(end.C, rows, None), (size, size), forces, range(n, size))
            own = ops.put(own, (size, size), range(n), range(n))
            parts.append(Part(end.link, ops.sym_add(own, edge + ops.transpose(edge)), (*labels, *met)))
            own = ops.zeros(n, n)


def labels_of(problem: Problem, constraint: int) -> tuple[Label, ...]:
    """Forces of a constraint."""
    return tuple((constraint, row) for row in range(problem.constraints[constraint].size))


def accelerations_of(problem: Problem, link: int) -> tuple[Label, ...]:
    """Accelerations of the joint that carries a link."""
    at = problem.tree.v_slices[link]
    return tuple((JOINT, k) for k in range(at.start, at.stop))


def row_groups(problem: Problem, constraint: int) -> list[tuple[Label, ...]]:
    """Forces of a constraint that are eliminated together: those of all its rows, or of each row on joints."""
    labels, on_links = labels_of(problem, constraint), any(end.constraint == constraint for end in problem.ends)
    rows = {row for end in problem.joint_ends if end.constraint == constraint for row in end.rows}
    return [labels] if on_links or not rows else [(label,) for label in labels]


def links_of(problem: Problem, label: Label) -> list[int]:
    """Links, and carriers of joints, that a row meets, one for each end."""
    c, row = label
    on_links = [end.link for end in problem.ends if end.constraint == c]
    return on_links + [end.link for end in problem.joint_ends if end.constraint == c and row in end.rows]


def transform_and_drift(motion: DynamicsProblem, i: int) -> tuple[Any, Matrix]:
    """``X`` and ``c`` of ``a = X a_p + c``; on the world, whose acceleration is known, ``X`` is None."""
    if motion.tree.parents[i] == WORLD:
        return None, motion.to_link(i, [])
    return motion.problem.X[i], motion.c[i]


def back_substitution(motion: DynamicsProblem, links: Mapping[int, LinkElimination]) -> tuple[Matrix, Matrix]:
    """``q̈`` (nv × 1) and constraint forces (m × 1) from the eliminations of the links and the world, the last first."""
    ops, tree, problem = motion.ops, motion.tree, motion.problem
    state, qdd = State(motion.a0, {}, {}), dict[int, Matrix]()
    links[WORLD].substitute_back(state)

    # the last link first: a' = X a_p + c, then what the link has eliminated  (eq. 41)
    for i in reversed([link for link in links if link != WORLD]):
        X, c = transform_and_drift(motion, i)
        carried = state.a = c if X is None else X.motions_to_child(state.links[tree.parents[i]]) + c
        links[i].substitute_back(state)
        state.links[i] = state.a
        axes = tree.joints[i].motion_axes
        qdd[i] = ops.take(state.a, axes, None) - ops.take(carried, axes, None)
    f = [state.forces[label] for c in range(len(problem.constraints)) for label in labels_of(problem, c)]
    ordered = [qdd[i] for i in tree.root_to_leaves()]
    ops.mark("back substitution", [*ordered, *f])
    return motion.stacked(ordered), motion.stacked(f)
