"""Derivatives of time steps on the configuration manifold: the steps of `integrate`, carried out with changes.

Every state and rate ``x`` carries ``∂x`` (nv × k), its change per unit of what varies; those of a configuration are in
the tangent that `Tree.integrate` moves on, at that configuration. With ``a = q̈`` and ``ad`` the motion cross product,

``∂a = a_q ∂q + a_v ∂v + a_τ ∂τ``,   ``∂(q ⊕ u) = exp(−ad_u) ∂q + Σ (−ad_u)ⁿ / (n + 1)! ∂u``.

Cost of an evaluation: that of `derivatives` and O(n²) for each of the k columns. Nothing else here is from a source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from delassus.algorithms.dynamics.integrate import INTEGRATE, Flow, State
from delassus.model.tree import Tree
from delassus.spatial.dual_ops import Dual, DualOps
from delassus.spatial.motion import scaled_matrix
from delassus.spatial.ops import Matrix, Ops, Scalar

Accelerate = Callable[[State, State], tuple[State, Matrix, Matrix, Matrix]]
"""From ``q`` and ``v`` to ``q̈`` and its changes with positions, velocities (nv × nv) and controls (nv × n)."""


@dataclass(frozen=True, slots=True, eq=False)
class DualVector:
    """Numbers of ``q`` or ``v``, and their change (nv × k)."""

    x: State
    change: Matrix


class DualFlow(Flow):
    """Flow of dual numbers: states with their changes."""

    def times(self, h: Scalar, rate: DualVector) -> DualVector:
        """``h x``."""
        return DualVector(super().times(h, rate.x), scaled_matrix(self.ops, h, rate.change))

    def along(self, start: DualVector, h: Scalar, rate: DualVector) -> DualVector:
        """``x + h ẋ``."""
        return DualVector(super().along(start.x, h, rate.x), start.change + scaled_matrix(self.ops, h, rate.change))

    def weighted(self, a: DualVector, b: DualVector, c: DualVector, d: DualVector) -> DualVector:
        """``a + 2 b + 2 c + d``."""
        middle = b.change + c.change
        return DualVector(super().weighted(a.x, b.x, c.x, d.x), a.change + middle + middle + d.change)

    def moved(self, q: DualVector, u: DualVector) -> DualVector:
        """``q ⊕ u``."""
        joints = zip(self.tree.joints, self.tree.v_slices, strict=True)
        parts = [joint.kind.integrate_changes(self.ops, u.x[sv]) for joint, sv in joints]
        along_q, along_u = (self.ops.block_diagonal([part[k] for part in parts]) for k in (0, 1))
        return DualVector(super().moved(q.x, u.x), along_q @ q.change + along_u @ u.change)

    def tangent_rate(self, u: DualVector, v: DualVector) -> DualVector:
        """``v + ½ [u, v] + 1/12 [u, [u, v]]``."""
        dual, n = DualOps(self.ops), self.tree.nv
        numbers = ([Dual(a, {first + k: 1.0}) for k, a in enumerate(x.x)] for first, x in ((0, u), (n, v)))
        rate = Flow(dual, self.tree).tangent_rate(*numbers)
        with_u, with_v = dual.rates(rate, range(n)), dual.rates(rate, range(n, 2 * n))
        return DualVector(super().tangent_rate(u.x, v.x), with_u @ u.change + with_v @ v.change)


def step_derivatives(
    ops: Ops,
    tree: Tree,
    integrator: str,
    q: State,
    v: State,
    h: Scalar,
    accelerate: Accelerate,
    n_controls: int,
    of_start: Sequence[Matrix] | None = None,
) -> tuple[State, State, Matrix, Matrix]:
    """``q⁺``, ``v⁺``, and the change (2 nv × 2 nv) and (2 nv × n) of both with those before and with n controls.

    ``of_start``: changes (nv × nv) of ``v`` with positions and velocities before, where these are not it.
    """
    nv, end = tree.nv, 2 * tree.nv + n_controls
    columns = range(nv), range(nv, 2 * nv), range(2 * nv, end)
    unit = [ops.put(ops.eye(len(own)), (len(own), end), range(len(own)), own) for own in columns]

    def dual(at_q: DualVector, at_v: DualVector) -> DualVector:
        qdd, with_q, with_v, with_controls = accelerate(at_q.x, at_v.x)
        return DualVector(qdd, with_q @ at_q.change + with_v @ at_v.change + with_controls @ unit[2])

    by_v = unit[1] if of_start is None else ops.hstack([*of_start, ops.zeros(nv, n_controls)])
    start = DualVector(q, unit[0]), DualVector(v, by_v)
    q_next, v_next = INTEGRATE[integrator](DualFlow(ops, tree), *start, h, dual)
    change = ops.vstack([q_next.change, v_next.change])
    both = range(2 * nv)
    return q_next.x, v_next.x, ops.take(change, None, both), ops.take(change, None, columns[2])


def moved_changes(ops: Ops, tree: Tree, q: State, u: State) -> tuple[Matrix, Matrix]:
    """Derivatives (nv × nv each) of ``q ⊕ u`` by ``q`` and by ``u``."""
    nv = tree.nv
    still, unit = ops.zeros(nv, nv), ops.eye(nv)
    start = DualVector(q, ops.hstack([unit, still])), DualVector(u, ops.hstack([still, unit]))
    change = DualFlow(ops, tree).moved(*start).change
    return ops.take(change, None, range(nv)), ops.take(change, None, range(nv, 2 * nv))
