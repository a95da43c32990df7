"""Springs and dampers of a step, implicit in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from delassus.algorithms.contact.law import step_of_spring
from delassus.algorithms.jacobian import jacobian_columns
from delassus.algorithms.problem import Problem
from delassus.constraints import At
from delassus.constraints.spring import springs_among
from delassus.model.tree import Tree
from delassus.spatial.ops import Matrix, Ops, Scalar


class Spring(NamedTuple):
    """Ratio to each degree of freedom, stiffness and damping, and the mobility along it of usual inertias.

    One along the line between two points has the row ``row`` of the problem, and by ``stretched`` (m) more than its
    length; the force of others at the start is one of joints.
    """

    ratios: Mapping[int, Scalar]
    stiffness: Scalar
    damping: Scalar
    mobility: float
    stretched: Scalar = 0.0
    row: int | None = None


def springs_along_lines(problem: Problem, described: Tree) -> list[Spring]:
    """Those that are constraints, of a robot as it is described."""
    ops, tree, out = problem.ops, problem.tree, list[Spring]()
    lines = springs_among(problem.constraints)
    columns = problem.once(jacobian_columns) if lines else []
    for k, c in lines.items():
        ((stretched,),) = ops.entries(c.position(At(problem, k)))
        ratios = {
            tree.v_slices[i].start + a: x for i, own in columns[k].items() for a, x in enumerate(ops.entries(own)[0])
        }
        row = problem.rows[k].start
        out.append(Spring(ratios, c.stiffness, c.damping, c.mobility(described), stretched, row))
    return out


class Springs:
    """Springs and dampers in a step of the length ``h``, implicit in time (`law.step_of_spring`)."""

    def __init__(self, ops: Ops, tree: Tree, springs: Sequence[Spring], h: Scalar) -> None:
        self._ops, self._tree, self._h, self._springs = ops, tree, h, springs
        self._factors = [step_of_spring(ops, h, x.stiffness, x.damping, x.mobility) for x in springs]

    @property
    def masses(self) -> list[Scalar]:
        """What each adds along its row."""
        return [a for a, _ in self._factors]

    @property
    def lines(self) -> list[int]:
        """Rows of the problem of those along lines."""
        return [x.row for x in self._springs if x.row is not None]

    def added(self) -> dict[tuple[int, int], Matrix]:
        """Blocks (n_i × n_j) of the masses that they add, at links i ≥ j."""
        ops, at, entries = self._ops, self._tree.v_slices, self._entries([a for a, _ in self._factors])
        link_of = [i for i, own in enumerate(at) for _ in range(own.start, own.stop)]
        places, nv = dict.fromkeys((link_of[r], link_of[c]) for r, c in entries), range(self._tree.nv)
        return {
            (i, j): ops.matrix([[entries.get((r, c), 0.0) for c in nv[at[j]]] for r in nv[at[i]]])
            for i, j in places
            if i >= j
        }

    def matrices(self) -> tuple[Matrix, Matrix]:
        """Matrices (nv × nv) of what momenta change by with ``v⁺ − v`` and with ``v``."""
        each, nv = zip(self._springs, self._factors, strict=True), range(self._tree.nv)
        of_start = [b + self._explicit(x) for x, (_, b) in each]
        found = self._entries([a for a, _ in self._factors]), self._entries(of_start)
        first, second = (self._ops.matrix([[x.get((r, c), 0.0) for c in nv] for r in nv]) for x in found)
        return first, second

    def impulses(self, gained: Sequence[Scalar], v: Sequence[Scalar]) -> list[Scalar]:
        """Impulse of each along its row, of those along lines with the force at the start."""
        out = list[Scalar]()
        for x, (a, b) in zip(self._springs, self._factors, strict=True):
            moving = b + self._explicit(x)
            total: Scalar = 0.0 if x.row is None else self._h * (x.stiffness * x.stretched)
            for dof, ratio in x.ratios.items():
                total = total + ratio * (a * gained[dof] + moving * v[dof])
            out.append(-total)
        return out

    def momentum(self, gained: Sequence[Scalar], v: Sequence[Scalar]) -> list[Scalar]:
        """Momentum (nv) that they take."""
        out: list[Scalar] = [0.0] * self._tree.nv
        for x, impulse in zip(self._springs, self.impulses(gained, v), strict=True):
            for dof, ratio in x.ratios.items():
                out[dof] = out[dof] - ratio * impulse
        return out

    def factors_of_lines(self) -> list[tuple[int, Scalar, Scalar, Scalar]]:
        """Of each along a line its row, and its impulse by the velocity that is gained, that of the start, and length.

        With the other sign.
        """
        return [
            (x.row, a, b + self._explicit(x), self._h * x.stiffness)
            for x, (a, b) in zip(self._springs, self._factors, strict=True)
            if x.row is not None
        ]

    def masses_along(self, moved: Sequence[Scalar]) -> list[Scalar]:
        """What added masses exert along each row that is moved by these (nv), with the sign of an impulse."""
        return [
            -a * sum((ratio * moved[dof] for dof, ratio in x.ratios.items()), cast(Scalar, 0.0))
            for x, (a, _) in zip(self._springs, self._factors, strict=True)
        ]

    def with_lines(self, impulses: Sequence[Scalar], of_each: Sequence[Scalar]) -> list[Scalar]:
        """Impulses of all rows, with those ``of_each`` spring along a line."""
        out = list(impulses)
        for x, own in zip(self._springs, of_each, strict=True):
            if x.row is not None:
                out[x.row] = own
        return out

    def _explicit(self, x: Spring) -> Scalar:
        """Momentum of a velocity along it, by its damping at the start; that of joints is a force of these."""
        return 0.0 if x.row is None else self._h * x.damping

    def _entries(self, factors: Sequence[Scalar]) -> dict[tuple[int, int], Scalar]:
        out = dict[tuple[int, int], Scalar]()
        for x, factor in zip(self._springs, factors, strict=True):
            for r, one in x.ratios.items():
                for c, other in x.ratios.items():
                    out[r, c] = out.get((r, c), 0.0) + factor * (one * other)
        return out
