"""PV-soft: soft constraints in O(n + m), for loops O(n + m² d) in the rows that are on their way to meet.

Minimises ``Σ_i ½ (a_i − H_i⁻¹ f_i)ᵀ H_i (a_i − H_i⁻¹ f_i) + Σ_c ½ (Σ K a − k)ᵀ R⁻¹ (Σ K a − k)`` ([LQR] eq. 50,
MuJoCo's soft Gauss principle). A constraint to the world is absorbed by its link, ``H_i += Kᵀ R⁻¹ K``, ``p_i −= Kᵀ
R⁻¹ k`` ([LQR] eq. 52 with the force update's misprint corrected; ``p`` is minus the paper's ``f``), and what follows
is the articulated-body algorithm. Its force is ``R⁻¹ (k − K a)``.

Loops (not in the source): the rows of both ends travel up their branches as in PV, ``L ← L + K S D⁻¹ Sᵀ Kᵀ``, ``l ← l
+ K' c + K S D⁻¹ u``, ``K ← K' X`` with ``K' = K − K S D⁻¹ Uᵀ``, and start with ``L = R``, ``l = −k`` at one end.
Where they meet, ``K`` and ``l`` add, nothing else depends on the constraint's force ``f = −L⁻¹ (K a + l)`` any more,
and the link absorbs it: ``H += Kᵀ L⁻¹ K``, ``p += Kᵀ L⁻¹ l``. A constraint to the world is one that meets at once.
``L`` is never singular.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.dynamics.constraint_acceleration import right_hand_sides
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.osim.pv import Stack, merge
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix


@dataclass(frozen=True, slots=True)
class Travelling:
    """Soft rows on their way to the links where their ends meet: ``K a + l + L f = 0`` defines their force.

    Attributes
    ----------
    constraints : tuple of int
    K, l : (m, 6), (m, 1) matrices
        Rows, propagated to a link, and their bias.
    L : (m, m) matrix
        ``R``, and the inverse inertia of what lies between the ends and the link.
    """

    constraints: tuple[int, ...]
    K: Matrix
    l: Matrix
    L: Matrix


@dataclass(frozen=True, slots=True)
class Absorbed:
    """Rows that a link has absorbed: ``f = −L⁻¹ (K a + l) − Y f_rest``.

    Attributes
    ----------
    rows : Travelling
    L : factor
    rest : tuple of int
        Constraints that travel on, and push on these through what their branches share.
    Y : (m, m_rest) matrix or None
    """

    rows: Travelling
    L: Any
    rest: tuple[int, ...]
    Y: Matrix | None


class _Sweep:
    """Leaves → root: articulated inertias, bias forces, and the rows of loops."""

    def __init__(self, motion: DynamicsProblem) -> None:
        ops, tree, problem = motion.ops, motion.tree, motion.problem
        self._motion, self._ops = motion, ops
        self.k = right_hand_sides(motion)
        self.body = body = Articulated.unswept(problem)
        self.p = list(motion.p)
        self.u: list[Matrix] = [None] * tree.n_links
        self.passing: dict[int, Travelling] = {}
        self.absorbed: dict[int, Absorbed] = {}
        self._arriving: dict[int, list[Travelling]] = {i: [] for i in (WORLD, *range(tree.n_links))}
        self._ends_left = [0] * len(problem.constraints)
        for end in problem.ends:
            self._ends_left[end.constraint] += 1
        self._meeting = self._meeting_links()
        self._start()

        for i in tree.leaves_to_root():
            rows = self._merged(i)
            if rows is not None:
                rows = self._absorb(i, rows)
            body.eliminate(i)
            self.u[i] = motion.tau[i] - ops.take(self.p[i], tree.joints[i].motion_axes, None)
            if tree.parents[i] != WORLD:
                b = self.p[i] + body.Ha[i] @ motion.c[i]
                carried = body.bias_to_parent(i, b, self.u[i], motion.tau[i])
                self.p[tree.parents[i]] = self.p[tree.parents[i]] + carried
            if rows is not None:
                self.passing[i] = rows
                self._arriving[tree.parents[i]].append(self._through_joint(i, rows))
        ops.mark("articulated inertia", [*body.H, *(W for W in body.W if W is not None)])
        ops.mark("articulated bias forces", [*self.u, *self.p])

        at_world = self._merged(WORLD)
        if at_world is not None:
            self.absorbed[WORLD] = Absorbed(at_world, ops.factor(at_world.L), (), None)

    def _meeting_links(self) -> list[int]:
        """Link where the ends of each constraint meet."""
        links: list[int | None] = [None] * len(self._ends_left)
        for end in self._motion.problem.ends:
            other = links[end.constraint]
            meet = self._motion.tree.closest_common_ancestor
            links[end.constraint] = end.link if other is None else meet(end.link, other)
        return [WORLD if link is None else link for link in links]

    def _start(self) -> None:
        """Put the rows of each end on its link; ``R`` and ``k`` go with the first one."""
        motion, ops = self._motion, self._ops
        started = set()
        for end in motion.problem.ends:
            c, m = end.constraint, ops.shape(end.K)[0]
            first = c not in started
            started.add(c)
            l, L = (-self.k[c], motion.compliance(c)) if first else (ops.zeros(m, 1), ops.zeros(m, m))
            self._arriving[end.link].append(Travelling((c,), end.K, l, L))
        for c, k in enumerate(self.k):
            if c not in started:  # both frames on the world
                m = ops.shape(k)[0]
                self._arriving[WORLD].append(Travelling((c,), ops.zeros(m, 6), -k, motion.compliance(c)))

    def _merged(self, link: int) -> Travelling | None:
        """Rows that arrive at a link as one stack; the two ends of a constraint add."""
        ops, arriving = self._ops, self._arriving[link]
        if not arriving:
            return None
        whole = merge(self._motion.problem, [Stack(t.constraints, ops.hstack([t.K, t.l]), t.L) for t in arriving])
        return Travelling(whole.constraints, ops.take(whole.K, None, range(6)), ops.take(whole.K, None, (6,)), whole.L)

    def _absorb(self, i: int, rows: Travelling) -> Travelling | None:
        """Absorb the rows whose ends meet at link i; returns those that travel on."""
        ops, body = self._ops, self.body
        met, rest = ([c for c in rows.constraints if (self._meeting[c] == i) is here] for here in (True, False))
        if not met:
            return rows
        at, on = self._indices(rows, met), self._indices(rows, rest)
        K, l = ops.take(rows.K, at, None), ops.take(rows.l, at, None)
        L = ops.factor(ops.take(rows.L, at, at))
        body.H[i] = ops.sym_add(body.H[i], L.quadratic(ops.transpose(K)))
        self.p[i] = self.p[i] + ops.transpose(K) @ L.solve(l)
        own = Travelling(tuple(met), K, l, ops.take(rows.L, at, at))
        if not rest:
            self.absorbed[i] = Absorbed(own, L, (), None)
            return None
        coupling = ops.take(rows.L, at, on)
        Y = L.solve(coupling)
        self.absorbed[i] = Absorbed(own, L, tuple(rest), Y)
        back = ops.transpose(Y)
        return Travelling(
            tuple(rest),
            ops.take(rows.K, on, None) - back @ K,
            ops.take(rows.l, on, None) - back @ l,
            ops.sym_subtract(ops.take(rows.L, on, on), ops.sym_product(back, coupling)),
        )

    def _indices(self, rows: Travelling, chosen: Sequence[int]) -> list[int]:
        """Rows of the chosen constraints in a stack."""
        out: list[int] = []
        start = 0
        for c in rows.constraints:
            size = self._motion.problem.constraints[c].size
            if c in chosen:
                out.extend(range(start, start + size))
            start += size
        return out

    def _through_joint(self, i: int, rows: Travelling) -> Travelling:
        motion, ops, body = self._motion, self._ops, self.body
        L = ops.sym_add(rows.L, body.joint_quadratic(i, rows.K))
        if motion.tree.parents[i] == WORLD:  # whose acceleration is known
            _, reached = body.through_joint(i, self.u[i], motion.to_link(i, []))
            return Travelling(rows.constraints, ops.zeros(*ops.shape(rows.K)), rows.l + rows.K @ reached, L)
        before = body.rows_before_joint(i, rows.K)
        l = rows.l + before @ motion.c[i] + body.joint_columns(i, rows.K) @ body.D[i].solve(self.u[i])
        return Travelling(rows.constraints, motion.problem.X[i].rows_to_parent(before), l, L)


def pv_soft(motion: DynamicsProblem) -> Solution:
    """Accelerations and forces, every constraint being soft."""
    ops, tree = motion.ops, motion.tree
    sweep = _Sweep(motion)
    a: list[Matrix] = []
    qdd: list[Matrix] = []
    f: dict[int, Matrix] = {}

    def settle(link: int, acceleration: Matrix) -> None:
        """Forces of the constraints that meet at a link."""
        here = sweep.absorbed.get(link)
        if here is None:
            return
        force = -here.L.solve(here.rows.K @ acceleration + here.rows.l)
        if here.Y is not None:
            force = force - here.Y @ ops.vstack([f[c] for c in here.rest])
        start = 0
        for c in here.rows.constraints:
            size = motion.problem.constraints[c].size
            f[c] = ops.take(force, range(start, start + size), None)
            start += size

    # root → leaves: forces of the constraints that meet at a link, accelerations
    settle(WORLD, motion.a0)
    for i in tree.root_to_leaves():
        carried = motion.to_link(i, a)
        u = sweep.u[i]
        if i in sweep.passing:
            rows = sweep.passing[i]
            forces = ops.vstack([f[c] for c in rows.constraints])
            u = u + ops.transpose(sweep.body.joint_columns(i, rows.K)) @ forces
        if tree.parents[i] != WORLD:
            carried = carried + motion.c[i]
        own, reached = sweep.body.through_joint(i, u, carried)
        qdd.append(own)
        a.append(reached)
        settle(i, reached)
    ops.mark("accelerations", qdd)
    return Solution(motion.stacked(qdd), motion.stacked([f[c] for c in range(len(motion.problem.constraints))]))
