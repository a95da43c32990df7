"""PV-early: each joint eliminates as many constraint forces as it has degrees of freedom.

Rows whose ``L`` is zero say what the acceleration of a link is (eq. 61b). Where some of them meet the axis of a degree
of freedom, a Householder reflection leaves one row that does (eqs. 65, 67, 68). It says how the degree of freedom
moves, whatever the forces are, and is eliminated with it; the others go on to the parent as they are, ``K X``. A degree
of freedom that no row meets moves as the forces say (remark 8). Rows that are left at the world are redundant. Cost
O(n + m). Source: [LQR] section VIII, eqs. 56–68; `link_elimination` is its section V, `early_rows` what is done at a
link.

Deviations, derived in ``docs/pv_early.md`` with what each gains:

* The paper adds ``K̃ᵀ Σ⁻¹ K̃`` to ``Hᴬ`` after the joint's own ``U D⁻¹ Uᵀ`` has been taken off (eqs. 42a, 63). Both
  together are ``Tᵀ Hᴬ T``, computed as such: the rows left need no propagation through the joint.
* Rows that hold a link are rewritten so that their entries are constants (`constant_rows`).
* Joints of several degrees of freedom: one after the other, those at which the rank of ``K S`` grows with a row. Rows
  that are fewer than the degrees of freedom that they meet wait: their ``L`` is regular after the joint (eqs. 57, 63).
* How many rows a joint eliminates is a matter of structure. Where ``‖K S‖`` is near zero (a stretched knee), errors
  grow, and another method has to solve that state.
* Soft rows are eliminated by the joints that they meet, as hard ones are. They are scaled to one compliance, which
  reflections leave as it is.

Loops are in `loop_rows`, constraints that can be switched off in `activation`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from delassus.algorithms.dynamics.popov_vereshchagin import constant_rows, loop_rows
from delassus.algorithms.dynamics.popov_vereshchagin.activation import Conditions
from delassus.algorithms.dynamics.popov_vereshchagin.early_rows import EarlyElimination
from delassus.algorithms.dynamics.popov_vereshchagin.link_elimination import back_substitution, transform_and_drift
from delassus.algorithms.dynamics.popov_vereshchagin.parts import (
    RowKinds,
    early_parts,
    labels_of,
    link_parts,
    take_parts,
    waiting_parts,
)
from delassus.algorithms.dynamics.solution import DynamicsSolution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.model.tree import WORLD
from delassus.spatial.motion import column, from_entries
from delassus.spatial.ops import Scalar


def pv_early(motion: DynamicsProblem, least: Sequence[Scalar] = ()) -> DynamicsSolution:
    """Accelerations and constraint forces, of hard and soft constraints. Where some are soft, hard ones cannot be off.

    Forces that wait do so until they move something by more than ``least`` (m) if that is given, by row.
    """
    ops, tree, problem, order = motion.ops, motion.tree, motion.problem, motion.elimination
    waiting = loop_rows.waiting(motion)
    kinds, scales = row_kinds(motion, {c for labels in waiting for c, _ in labels}, least)
    late = {label for labels in waiting for label in labels}
    parts = [*link_parts(motion), *waiting_parts(motion, waiting, kinds), *early_parts(motion, late, kinds, scales)]
    links = dict[int, EarlyElimination]()

    # leaves → root: joints, with the rows that they meet (eqs. 56–68)
    for i in order.links:
        link = links[i] = EarlyElimination(problem, i, take_parts(problem, i, parts), kinds)
        link.constrain_accelerations(links)
        link.hold_by_constants()
        regular_after = loop_rows.eliminate_before_joint(link, parts, order.block)
        link.shear(tree.joints[i].pitch)
        link.eliminate_joint(tree.joints[i], motion.tau[i])
        link.shear(-tree.joints[i].pitch)
        X, c = transform_and_drift(motion, i)
        if X is None:
            link.substitute_acceleration(c)
        loop_rows.eliminate_after_joint(link, parts, regular_after, order.block)
        parts += link.propagate_to_parent(motion, X, c)

    # at the world: loops that meet only there, and rows that no joint meets; hard ones are redundant
    world = links[WORLD] = EarlyElimination(problem, WORLD, take_parts(problem, WORLD, parts), kinds)
    world.drop_unmet_rows()
    world.eliminate_forces(world.labels)
    ops.mark("link elimination", [link.V for link in links.values()])
    qdd, forces = back_substitution(motion, links)
    f = column(ops, forces)
    for scaled, factors in scales.items():
        rows = problem.rows[scaled]
        f[rows] = [factor * x for factor, x in zip(factors, f[rows], strict=True)]
    return DynamicsSolution(qdd, from_entries(ops, f) if scales else forces)


def row_kinds(
    motion: DynamicsProblem, late: Collection[int], least: Sequence[Scalar]
) -> tuple[RowKinds, dict[int, list[Scalar]]]:
    """Properties of rows, and the factors that scale them while they are eliminated.

    Soft ones that are not ``late`` have one compliance ``ρ`` then: ``√(ρ / R)`` where not all are alike. Rows of
    constraints that are off become zero.
    """
    ops, problem = motion.ops, motion.problem
    R = {c: column(ops, goal.compliance) for c, goal in enumerate(motion.goals) if goal.compliance is not None}
    compliance = {label: r for c, own in R.items() for label, r in zip(labels_of(problem, c), own, strict=True)}
    scales = constant_rows.to_unit_size(motion, late)
    early = [c for c in R if c not in late]
    if early:
        rho = R[early[0]][0]
        known = ops.known(from_entries(ops, [r for c in early for r in R[c]]))
        for c in early:
            compliance |= dict.fromkeys(labels_of(problem, c), rho)
            if known is None or np.ptp(known) != 0.0:
                scales[c] = [ops.sqrt(rho * (1.0 / r)) for r in R[c]]
            if (flag := problem.flag(c)) is not None:
                scales[c] = [flag * x for x in scales.get(c, [1.0] * len(R[c]))]
    rows = [label for c in range(len(problem.constraints)) for label in labels_of(problem, c)]
    can_be_off = not R and bool(problem.constraints) and problem.flag(0) is not None
    return (
        RowKinds(compliance, Conditions(problem) if can_be_off else None, dict(zip(rows, least, strict=bool(least)))),
        scales,
    )
