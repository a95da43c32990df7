"""Parts that links are eliminated from: their inertias, and rows of constraints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from delassus.algorithms.dynamics.constraint_acceleration import right_hand_sides, unswitched_right_hand_sides
from delassus.algorithms.dynamics.popov_vereshchagin.activation import Conditions
from delassus.algorithms.dynamics.popov_vereshchagin.steps import JOINT, LINK, Label
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.problem import Problem
from delassus.model.tree import WORLD
from delassus.spatial.motion import diagonal
from delassus.spatial.ops import Matrix, Ops, Scalar

AXES, ONE, FIRST = range(6), (6,), 7
"""Entries of ``z``: the acceleration, the one, the first force or joint acceleration."""


@dataclass(frozen=True, slots=True)
class RowKinds:
    """Properties of rows besides their entries.

    ``compliance`` of soft ones; ``conditions`` under which rows act, where each state can switch them off; ``least``:
    what a force that waits has to move before it is eliminated (m), if anything.
    """

    compliance: Mapping[Label, Scalar] = field(default_factory=dict)
    conditions: Conditions | None = None
    least: Mapping[Label, Scalar] = field(default_factory=dict)

    def L(self, labels: Iterable[Label]) -> list[Scalar]:
        """Diagonal of ``L`` before anything is eliminated: the compliance, zero of hard rows."""
        return [self.compliance.get(label, 0.0) for label in labels]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Quadratic form that arrives at a link: its inertia, rows of a constraint, or the form of a child.

    ``V`` (7 + k, 7 + k) with the ``labels`` of its k forces and accelerations of others. Forces of ``rows`` are
    eliminated by joints that the rows meet, see `pv_early`; all others wait until their ``L`` is regular.
    """

    link: int
    V: Matrix
    labels: tuple[Label, ...] = ()
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


def link_parts(motion: DynamicsProblem) -> list[Part]:
    """Form of each link alone: inertia and bias force."""
    ops, parts = motion.ops, list[Part]()
    for i, (H, p) in enumerate(zip(motion.problem.inertias, motion.p, strict=True)):
        edge = ops.put(p, (FIRST, FIRST), AXES, ONE)
        parts.append(Part(i, ops.sym_add(ops.put(H, (FIRST, FIRST), AXES, AXES), edge + ops.transpose(edge))))
    return parts


Meeting = tuple[int, Matrix, list[Matrix], tuple[Label, ...]]
"""A link, what rows meet of it, ``K`` (m × 6), and of accelerations of joints, ``C``, with the labels of these."""


def row_part(
    ops: Ops,
    link: int,
    R: Matrix,
    L: Sequence[Scalar],
    labels: Sequence[Label],
    accelerations: Sequence[Label] = (),
    is_early: bool = False,
) -> Part:
    """Rows ``R = [K k C]`` (m × 7 + k) on a link and on ``accelerations``, and the diagonal of their ``L``."""
    n, own = FIRST + len(labels) + len(accelerations), range(FIRST, FIRST + len(labels))
    edge = ops.put(R, (n, n), own, [x for x in range(n) if x not in own])
    V = ops.sym_add(ops.put(-diagonal(ops, L), (n, n), own, own), edge + ops.transpose(edge))
    return Part(link, V, (*labels, *accelerations), tuple(labels) if is_early else ())


def waiting_parts(motion: DynamicsProblem, groups: Iterable[Sequence[Label]], kinds: RowKinds) -> list[Part]:
    """Groups of rows whose forces wait, once for each of their ends; all ends of a row have the same force."""
    ops, problem, k, parts = motion.ops, motion.problem, right_hand_sides(motion), list[Part]()
    for labels in groups:
        c, rows, none = labels[0][0], [row for _, row in labels], ops.zeros(len(labels), 6)
        found: list[Meeting] = [
            (e.link, -ops.take(e.K, rows, None), [], ()) for e in problem.end_effectors if e.constraint == c
        ]
        for end in problem.joint_space_rows:
            if end.constraint == c and set(rows) & set(end.rows):
                found.append((end.link, none, [-ops.take(end.C, rows, None)], accelerations_of(problem, end.link)))
        own, L = ops.take(k[c], rows, None), kinds.L(labels)
        for link, K, C, accelerations in found or [(WORLD, none, [], ())]:
            parts.append(row_part(ops, link, ops.hstack([K, own, *C]), L, labels, accelerations))
            own, L = ops.zeros(len(labels), 1), [0.0] * len(labels)  # they belong to one end
    return parts


def early_parts(
    motion: DynamicsProblem, late: Set[Label], kinds: RowKinds, scales: Mapping[int, Sequence[Scalar]]
) -> list[Part]:
    """Rows that are not ``late``: of constraints that have one end, and of joints on one branch.

    The latter go to the outermost link: rows meet the accelerations of its joint and of those before it.
    """
    ops, problem, k, parts = motion.ops, motion.problem, unswitched_right_hand_sides(motion), list[Part]()
    found: dict[tuple[Label, ...], Meeting] = {
        labels_of(problem, end.constraint): (end.link, end.K, [], ()) for end in problem.unswitched_end_effectors
    }
    for c, row in dict.fromkeys((end.constraint, row) for end in problem.joint_space_rows for row in end.rows):
        ends = [end for end in problem.unswitched_joint_space_rows if end.constraint == c and row in end.rows]
        accelerations = tuple(label for end in ends for label in accelerations_of(problem, end.link))
        C = [ops.take(end.C, (row,), None) for end in ends]
        found[(c, row),] = max(end.link for end in ends), ops.zeros(1, 6), C, accelerations
    for labels, (link, K, C, accelerations) in found.items():
        if late.isdisjoint(labels):
            c, rows = labels[0][0], [row for _, row in labels]
            R = ops.hstack([K, -ops.take(k[c], rows, None), *C])
            R = diagonal(ops, [scales[c][row] for row in rows]) @ R if c in scales else R
            parts.append(row_part(ops, link, R, kinds.L(labels), labels, accelerations, is_early=True))
    return parts


def take_parts(problem: Problem, link: int, parts: list[Part]) -> list[Part]:
    """Take out what meets a link or the joint that carries it, wherever it is; at the world, all that is left."""
    own = {*link_labels(link), *accelerations_of(problem, link)} if link != WORLD else set[Label]()
    taken = [part for part in parts if link in (WORLD, part.link) or not own.isdisjoint(part.labels)]
    parts[:] = [part for part in parts if part not in taken]
    return taken


def link_labels(link: int) -> tuple[Label, ...]:
    """Labels of a link's acceleration; the world's is known and has none."""
    return () if link == WORLD else tuple((LINK, 6 * link + k) for k in AXES)


def links_of_labels(labels: Iterable[Label]) -> frozenset[int]:
    """Links whose accelerations have these labels."""
    return frozenset(k // 6 for kind, k in labels if kind == LINK)


def labels_of(problem: Problem, constraint: int) -> tuple[Label, ...]:
    """Forces of a constraint."""
    return tuple((constraint, row) for row in range(problem.constraints[constraint].size))


def accelerations_of(problem: Problem, link: int) -> tuple[Label, ...]:
    """Accelerations of the joint that carries a link."""
    at = problem.tree.v_slices[link]
    return tuple((JOINT, k) for k in range(at.start, at.stop))


def row_groups(problem: Problem, constraint: int) -> list[tuple[Label, ...]]:
    """Forces of a constraint that are eliminated together: those of all its rows, or of each row on joints."""
    labels = labels_of(problem, constraint)
    on_links = any(end.constraint == constraint for end in problem.end_effectors)
    rows = {row for end in problem.joint_space_rows if end.constraint == constraint for row in end.rows}
    return [labels] if on_links or not rows else [(label,) for label in labels]


def links_of(problem: Problem, label: Label) -> list[int]:
    """Links, and carriers of joints, that a row meets, one for each end."""
    c, row = label
    on_links = [end.link for end in problem.end_effectors if end.constraint == c]
    return on_links + [end.link for end in problem.joint_space_rows if end.constraint == c and row in end.rows]
