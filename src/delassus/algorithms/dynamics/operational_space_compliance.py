"""What contact dynamics needs of a robot at one state: free motion, and the compliance of all links.

Contacts come and go from state to state, so nothing here knows them. Two sweeps leave, for every link,

- the propagator ``A_i`` of accelerations from its parent, whose transpose propagates impulses to the parent;
- the operational-space compliance kernel ``Υ_i = A_i Υ_{p(i)} A_iᵀ + S_i D_i⁻¹ S_iᵀ``, the inverse inertia that the
  link shows at its own frame ([OS] eqs. 67 and 68);
- the wrench of gravity and velocity products, the known part of its equation of motion as a body of its own.

Any block of ``J M⁻¹ Jᵀ`` follows from the kernel of the closest common ancestor and the propagators below it ([OS] eq.
69); that last step is taken where contacts are known. Cost O(n).

Sources: [OS] appendix; Featherstone, Rigid Body Dynamics Algorithms, table 7.1.
"""

from __future__ import annotations

from dataclasses import dataclass

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.dynamics.aba import driving_forces, roll_out
from delassus.algorithms.dynamics.constraint_acceleration import RelativeMotion
from delassus.algorithms.dynamics.kinematics import body_poses
from delassus.algorithms.dynamics.rnea import accelerations
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.model.tree import WORLD
from delassus.spatial.manifold import turning
from delassus.spatial.motion import column, from_entries
from delassus.spatial.ops import Matrix


@dataclass(frozen=True, slots=True, eq=False)
class OperationalSpaceCompliance:
    """State of all links, for any contacts; rows and links in the order of the tree.

    Attributes
    ----------
    poses : (3 n, 4) matrix
        ``[R p]`` of each link's body frame in the world.
    twists : (n, 6) matrix
        Twist of each link in its body frame.
    propagators : (6 n, 6) matrix
        ``A_i``; zero for links whose parent is the world.
    compliances : (6 n, 6) matrix
        ``Υ_i``.
    wrenches : (n, 6) matrix
        ``H_i (g − a_i) − V_i ×* H_i V_i`` on each link in its body frame, with the accelerations ``a_i`` that
        velocities alone cause.
    qdd : (nv, 1) matrix
        Accelerations without constraints and contacts; those of free and planar joints in axes that do not turn.
    rows : (m', 6) matrix
        Rows of the ends of all constraints, each on its link's twist.
    errors : (m, 1) matrix
        Position errors of the constraints along their rows; zero where nothing says where they should be.
    """

    poses: Matrix
    twists: Matrix
    propagators: Matrix
    compliances: Matrix
    wrenches: Matrix
    qdd: Matrix
    rows: Matrix
    errors: Matrix


def operational_space_compliance(motion: DynamicsProblem) -> OperationalSpaceCompliance:
    """Run the sweeps."""
    ops, tree, problem = motion.ops, motion.tree, motion.problem
    body = Articulated(problem)
    qdd, _ = roll_out(motion, body, driving_forces(motion, body))

    # root → leaves: compliance kernels
    propagators: list[Matrix] = []
    compliances: list[Matrix] = []
    for i in tree.root_to_leaves():
        parent, own = tree.parents[i], body.joint_inverse_inertia(i)
        if parent == WORLD:
            propagators.append(ops.zeros(6, 6))
        else:
            propagators.append(body.motions_to_child(i, ops.eye(6)))
            own = ops.sym_add(body.inverse_inertia_to_child(i, compliances[parent]), own)
        compliances.append(own)

    # root → leaves: a_i at joint accelerations that are zero in axes that do not turn
    turned = [_turning(motion, i) for i in tree.root_to_leaves()]
    a = accelerations(motion, [-delta for delta in turned])
    wrenches = [-(H @ a[i] + motion.p[i]) for i, H in enumerate(problem.inertias)]

    return OperationalSpaceCompliance(
        ops.vstack([ops.hstack([R, p]) for R, p in body_poses(problem)]),
        ops.vstack([ops.transpose(V) for V in motion.V]),
        ops.vstack(propagators),
        ops.vstack(compliances),
        ops.vstack([ops.transpose(w) for w in wrenches]),
        motion.stacked([own + delta for own, delta in zip(qdd, turned, strict=True)]),
        ops.vstack([end.K for end in problem.ends]) if problem.ends else ops.zeros(0, 6),
        motion.stacked([_error(motion, index) for index in range(len(problem.constraints))]),
    )


def _turning(motion: DynamicsProblem, i: int) -> Matrix:
    """``ω × v`` (n_i × 1) of free and planar joints, whose axes turn; zero for others."""
    ops, joint = motion.ops, motion.tree.joints[i]
    delta = turning(joint, column(ops, motion.v[i]))
    return ops.zeros(joint.nv, 1) if delta is None else from_entries(ops, delta)


def _error(motion: DynamicsProblem, index: int) -> Matrix:
    c = motion.problem.constraints[index]
    error = RelativeMotion(motion, index).position(motion.goals[index].pose)
    return motion.ops.zeros(c.size, 1) if c.rows is None else error
