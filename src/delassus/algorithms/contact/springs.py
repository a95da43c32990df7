"""Springs and dampers of a step, implicit in time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import sqrt
from typing import NamedTuple, cast

from delassus.algorithms.contact.law import LONGEST, STIFF, step_of_spring
from delassus.algorithms.jacobian import jacobian_columns
from delassus.algorithms.problem import Problem
from delassus.constraints import At
from delassus.constraints.spring import acting, springs_among
from delassus.model.tree import Tree
from delassus.spatial.motion import column
from delassus.spatial.ops import Matrix, Ops, Scalar


class Spring(NamedTuple):
    """Ratio to each degree of freedom, stiffness and damping, and the mobility along it of usual inertias.

    One along the line between two points has the row ``row`` of the problem; one of a joint itself, ``joint``, and may
    be ``slow`` at any usual time step. By ``stretched`` (m, rad) it is longer than at rest where it is ``apart``: the
    force of others at the start is one of joints.
    """

    ratios: Mapping[int, Scalar]
    stiffness: Scalar
    damping: Scalar
    mobility: float
    stretched: Scalar = 0.0
    row: int | None = None
    joint: int | None = None
    apart: bool = False
    slow: bool = False

    @classmethod
    def of_joint(cls, joint: int, dof: int, stiffness: float, damping: Scalar, mobility: float, given: bool) -> Spring:
        """Spring and damping of a degree of freedom of a joint, which are ``given`` as numbers or come with calls."""
        slow = False
        if given:
            rate = sqrt(stiffness * mobility) + cast(float, damping) * mobility
            slow = LONGEST * rate <= STIFF
        return cls({dof: 1.0}, stiffness, damping, mobility, joint=joint, slow=slow)


def springs_along_lines(problem: Problem, described: Tree, v: Sequence[Scalar]) -> list[Spring]:
    """Those that are constraints, of a robot as it is described, with velocities ``v`` (nv)."""
    ops, tree, out = problem.ops, problem.tree, list[Spring]()
    lines = springs_among(problem.constraints)
    columns = problem.once(jacobian_columns) if lines else []
    for k, c in lines.items():
        stretched = column(ops, c.position(At(problem, k)))
        rows = {i: ops.entries(own) for i, own in columns[k].items()}
        for r, (stiffness, damping, mobility) in enumerate(c.springs(described)):
            ratios = {tree.v_slices[i].start + a: x for i, own in rows.items() for a, x in enumerate(own[r])}
            row, speed = problem.rows[k].start + r, sum((x * v[dof] for dof, x in ratios.items()), cast(Scalar, 0.0))
            own = acting(c, ops, stiffness, damping, stretched[r], speed)
            out.append(Spring(ratios, *own, mobility, stretched[r], row, apart=True))
    return out


def stiff_joints(
    ops: Ops, tree: Tree, springs: Sequence[Spring], links: Collection[int], h: Scalar
) -> dict[int, Scalar]:  # fmt: skip
    """1 for each joint of some links whose spring and damping are too stiff for sub-steps to follow, else 0."""
    out: dict[int, Scalar] = {}
    fast = {x.joint for x in springs if not x.slow}
    for x in springs:
        joint = tree.joints[x.joint] if x.joint in links and x.joint in fast and x.joint is not None else None
        if joint is not None and x.joint is not None and (joint.nq == joint.nv or not joint.stiffness.any()):
            rate = h * (ops.sqrt(x.stiffness * x.mobility) + x.damping * x.mobility)
            out[x.joint] = ops.maximum(out.get(x.joint, 0.0), ops.less(STIFF, rate))
    return out


def springs_in_step(
    problem: Problem, springs: Sequence[Spring], described: Tree, links: Collection[int], h: Scalar,
    v: Sequence[Scalar],
) -> list[Spring]:  # fmt: skip
    """Springs that act implicitly in a step, those along lines last; of joints of ``links`` in loops, stiff ones."""
    ops, tree, out = problem.ops, problem.tree, list[Spring]()
    stiff = stiff_joints(ops, tree, springs, links, h)
    for x in springs:
        if x.joint is None or x.joint not in links:
            out.append(x)
        elif x.joint in stiff:
            flag, (dof,), joint = stiff[x.joint], x.ratios, tree.joints[x.joint]
            at = dof - tree.v_slices[x.joint].start
            stretched: Scalar = 0.0
            if joint.stiffness.any():
                stretched = problem.q[tree.q_slices[x.joint].start + at] - float(joint.rest_position[at])
            k, d = flag * x.stiffness, flag * x.damping
            out.append(x._replace(stiffness=k, damping=d, stretched=stretched, apart=True))
    return [*out, *springs_along_lines(problem, described, v)]


class ImplicitSprings:
    """Springs and dampers in a step of the length ``h``, implicit in time (`law.step_of_spring`)."""

    def __init__(self, ops: Ops, tree: Tree, springs: Sequence[Spring], h: Scalar) -> None:
        self._ops, self._tree, self.h, self.all = ops, tree, h, springs
        self._factors = [step_of_spring(ops, h, x.stiffness, x.damping, x.mobility) for x in springs]

    @property
    def masses(self) -> list[Scalar]:
        """What each adds along its row."""
        return [a for a, _ in self._factors]

    @property
    def lines(self) -> list[int]:
        """Rows of the problem of those along lines."""
        return [x.row for x in self.all if x.row is not None]

    def of_links(self, dofs: Collection[int]) -> ImplicitSprings | None:
        """Those on some degrees of freedom; None without any."""
        own = [x for x in self.all if {*x.ratios} & {*dofs}]
        return ImplicitSprings(self._ops, self._tree, own, self.h) if own else None

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
        each, nv = zip(self.all, self._factors, strict=True), range(self._tree.nv)
        of_start = [b + self._explicit(x) for x, (_, b) in each]
        found = self._entries([a for a, _ in self._factors]), self._entries(of_start)
        first, second = (self._ops.matrix([[x.get((r, c), 0.0) for c in nv] for r in nv]) for x in found)
        return first, second

    def impulses(self, gained: Sequence[Scalar], v: Sequence[Scalar]) -> list[Scalar]:
        """Impulse of each along its row, of those along lines with the force at the start."""
        out = list[Scalar]()
        for x, (a, b) in zip(self.all, self._factors, strict=True):
            moving = b + self._explicit(x)
            total: Scalar = self.h * (x.stiffness * x.stretched) if x.apart else 0.0
            for dof, ratio in x.ratios.items():
                total = total + ratio * (a * gained[dof] + moving * v[dof])
            out.append(-total)
        return out

    def momentum(self, gained: Sequence[Scalar], v: Sequence[Scalar]) -> list[Scalar]:
        """Momentum (nv) that they take."""
        out: list[Scalar] = [0.0] * self._tree.nv
        for x, impulse in zip(self.all, self.impulses(gained, v), strict=True):
            for dof, ratio in x.ratios.items():
                out[dof] = out[dof] - ratio * impulse
        return out

    def momentum_of_masses(self, x: Sequence[Scalar]) -> list[Scalar]:
        """Momentum (nv) of their masses at velocities (nv)."""
        out: list[Scalar] = [0.0] * self._tree.nv
        for own, along in zip(self.all, self.masses_along(x), strict=True):
            for dof, ratio in own.ratios.items():
                out[dof] = out[dof] - ratio * along
        return out

    def factors_of_lines(self) -> list[tuple[int, Scalar, Scalar, Scalar]]:
        """Of each along a line its row, and its impulse by the velocity that is gained, that of the start, and length.

        With the other sign.
        """
        return [
            (x.row, a, b + self._explicit(x), self.h * x.stiffness)
            for x, (a, b) in zip(self.all, self._factors, strict=True)
            if x.row is not None
        ]

    def masses_along(self, moved: Sequence[Scalar]) -> list[Scalar]:
        """What added masses exert along each row that is moved by these (nv), with the sign of an impulse."""
        return [
            -a * sum((ratio * moved[dof] for dof, ratio in x.ratios.items()), cast(Scalar, 0.0))
            for x, (a, _) in zip(self.all, self._factors, strict=True)
        ]

    def with_lines(self, impulses: Sequence[Scalar], of_each: Sequence[Scalar]) -> list[Scalar]:
        """Impulses of all rows, with those ``of_each`` spring along a line."""
        out = list(impulses)
        for x, own in zip(self.all, of_each, strict=True):
            if x.row is not None:
                out[x.row] = own
        return out

    def _explicit(self, x: Spring) -> Scalar:
        """Momentum of a velocity along it, by its damping at the start; that of joints is a force of these."""
        return self.h * x.damping if x.apart else 0.0

    def _entries(self, factors: Sequence[Scalar]) -> dict[tuple[int, int], Scalar]:
        out = dict[tuple[int, int], Scalar]()
        for x, factor in zip(self.all, factors, strict=True):
            for r, one in x.ratios.items():
                for c, other in x.ratios.items():
                    out[r, c] = out.get((r, c), 0.0) + factor * (one * other)
        return out


class PulledMotion:
    """Springs of links that loops tie in their smooth motion, see `delassus.contact.sparse.springs`.

    ``dofs`` (n) are those of the links; of velocities ``v`` and joint forces ``tau`` (nv) at the start they are parts.
    Attributes: ``acts``, 1 if any does; ``at_once``; ``masses`` that they add; ``forces`` (n), without those of servos.
    """

    def __init__(
        self, ops: Ops, springs: ImplicitSprings, dofs: Sequence[int], v: Sequence[Scalar], tau: Sequence[Scalar]
    ) -> None:  # fmt: skip
        self._ops, self._springs, self._h = ops, springs, springs.h
        self.masses: Mapping[tuple[int, int], Matrix] = springs.added()
        self._place, self._v, self._tau = {dof: k for k, dof in enumerate(dofs)}, v, [tau[k] for k in dofs]
        served: list[Scalar] = [0.0] * len(dofs)
        rate, self.acts = cast(Scalar, 0.0), cast(Scalar, 0.0)
        for x, a in zip(springs.all, springs.masses, strict=True):
            pulls = ops.less(0.0, a)
            self.acts = ops.maximum(self.acts, pulls)
            rate = rate + x.mobility * (self._h * (x.damping + self._h * x.stiffness))
            for dof, ratio in x.ratios.items() if x.joint is None and x.row is None else ():
                k = self._place[dof]
                served[k] = ops.maximum(served[k], pulls * ops.less(0.0, ratio * ratio))
        self.at_once: Scalar = rate / (1.0 + rate)
        self.forces = [ops.select(x, 0.0, y) for x, y in zip(served, self._tau, strict=True)]

    def brought(self, gained: Sequence[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
        """Momentum (n) beside a motion that gains velocities (n), in a step with impulses and in one without."""
        push = [self._h * (x - y) for x, y in zip(self._tau, self.forces, strict=True)]
        whole: list[Scalar] = [0.0] * len(self._v)
        for dof, k in self._place.items():
            whole[dof] = gained[k]
        impulses, pull = self._springs.impulses(whole, self._v), list(push)
        for x, impulse in zip(self._springs.all, impulses, strict=True):
            speed = sum((ratio * self._v[dof] for dof, ratio in x.ratios.items()), cast(Scalar, 0.0))
            mean = (0.5 * (1.0 - self.at_once)) * (self._h * self._h * x.stiffness) * speed
            for dof, ratio in x.ratios.items():
                k = self._place[dof]
                push[k] = push[k] + ratio * impulse
                pull[k] = pull[k] + ratio * (impulse - mean)
        return push, pull

    def held(self, pull: Sequence[Scalar], x: Sequence[Scalar]) -> list[Scalar]:
        """Joint forces (n) that are held in a step without impulses, by momenta and the velocities (n) they make."""
        whole: list[Scalar] = [0.0] * len(self._v)
        for dof, k in self._place.items():
            whole[dof] = x[k]
        answer, part = self._springs.momentum_of_masses(whole), (1.0 - self.at_once) / self._h
        return [f + part * (m - answer[dof]) for f, m, dof in zip(self.forces, pull, self._place, strict=True)]
