"""What contact dynamics needs of a robot at one state: free motion, and the compliance of all links.

Contacts come and go from state to state, so nothing here knows them. For every link two sweeps leave

- the propagator ``A_i`` of accelerations from its parent, whose transpose propagates impulses to the parent; zero for
  links on the world;
- the operational-space compliance kernel ``Υ_i = A_i Υ_{p(i)} A_iᵀ + S_i D_i⁻¹ S_iᵀ``, the inverse inertia that the
  link shows at its own frame ([OS] eqs. 67 and 68).

Any block of ``J M⁻¹ Jᵀ`` follows from the kernel of the closest common ancestor and the propagators below it ([OS] eq.
69); that last step is taken where contacts are known. Cost O(n).

Sources: [OS] appendix; Featherstone, Rigid Body Dynamics Algorithms, table 7.1.
"""

from __future__ import annotations

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.dynamics.aba import driving_forces, forward_pass
from delassus.algorithms.dynamics.constraint_acceleration import jacobian_drift, position_errors
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.kinematics import body_poses
from delassus.algorithms.rnea import accelerations
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix


def operational_space_compliance(motion: DynamicsProblem) -> dict[str, Matrix]:
    """The outputs of that quantity by name, one link or end below the other."""
    ops, tree, problem = motion.ops, motion.tree, motion.problem
    body = Articulated(problem)
    qdd, _ = forward_pass(motion, body, driving_forces(motion, body))

    # root → leaves: A_i, and Υ_i = A_i Υ_{p(i)} A_iᵀ + S_i D_i⁻¹ S_iᵀ  ([OS] eq. 67)
    A, Upsilon = list[Matrix](), list[Matrix]()
    for i in tree.root_to_leaves():
        p, own = tree.parents[i], body.joint_inverse_inertia(i)
        A.append(ops.zeros(6, 6) if p == WORLD else body.motions_to_child(i, ops.eye(6)))
        Upsilon.append(own if p == WORLD else ops.sym_add(body.inverse_inertia_to_child(i, Upsilon[p]), own))

    return {
        "poses": ops.vstack([ops.zeros(0, 4), *(ops.hstack([R, p]) for R, p in body_poses(problem))]),
        "twists": ops.vstack([ops.zeros(0, 6), *(ops.transpose(V) for V in motion.V)]),
        "propagators": ops.vstack([ops.zeros(0, 6), *A]),
        "compliances": ops.vstack([ops.zeros(0, 6), *Upsilon]),
        "qdd": straight_accelerations(motion, qdd),
        "rows": ops.vstack([ops.zeros(0, 6), *(end.K for end in problem.all_end_effectors)]),
        "errors": position_errors(motion),
    }


def straight_accelerations(motion: DynamicsProblem, qdd: list[Matrix]) -> Matrix:
    """``q̈ + ω × v`` (nv × 1): accelerations of joints, of free and planar ones in axes that do not turn."""
    return motion.stacked([own + motion.velocity_product(i) for i, own in enumerate(qdd)])


def straight_drift(motion: DynamicsProblem) -> Matrix:
    """``J̇ v − J (ω × v)`` (m × 1): rate of ``J v`` where `straight_accelerations` are zero."""
    return jacobian_drift(motion, [-motion.velocity_product(i) for i in motion.tree.root_to_leaves()])


def link_wrenches(motion: DynamicsProblem) -> Matrix:
    """``H_i (g − a_i) − V_i ×* H_i V_i`` (n × 6), with the accelerations ``a_i`` that velocities alone cause.

    The known part of each link's equation of motion as a body of its own.
    """
    ops = motion.ops

    # root → leaves: a_i at joint accelerations that are zero in axes that do not turn
    a = accelerations(motion, [-motion.velocity_product(i) for i in motion.tree.root_to_leaves()])
    wrenches = [-(H @ a[i] + motion.p[i]) for i, H in enumerate(motion.problem.inertias)]
    return ops.vstack([ops.zeros(0, 6), *(ops.transpose(w) for w in wrenches)])
