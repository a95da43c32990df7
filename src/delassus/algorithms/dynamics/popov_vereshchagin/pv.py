"""PV: the solver of Popov and Vereshchagin, an articulated-body algorithm that takes the constraint forces along.

Leaves → root, joints are eliminated while all constraint forces wait: eqs. 42a–42e are the blocks of
`LinkElimination.eliminate_dof`. At a floating base ``L`` is block diagonal over the branches. Where it is regular, the
forces are eliminated there, and the base last (eqs. 46, 49); else the base is one more joint, and ``G f = l`` is left
at the world (eqs. 43, 48). Structure decides: eq. 49 where ``L`` is regular at almost all states and has zero blocks.
Root → leaves: back substitution, the paper's roll-out.

Cost O(n + m d + m) with eq. 49 if each branch has one end-effector, else O(n + m² d + m³). Source: [LQR] algorithm 1.

Deviations: the two ends of a loop share their forces, and add where they meet. Blocks of ``L`` can be singular at some
states where ``G`` is not (a stretched limb): ``DynamicsSolution.pivot`` is small there.
"""

from __future__ import annotations

from delassus.algorithms.dynamics.popov_vereshchagin.link_elimination import (
    LinkElimination,
    back_substitution,
    transform_and_drift,
)
from delassus.algorithms.dynamics.popov_vereshchagin.parts import (
    RowKinds,
    link_parts,
    row_groups,
    take_parts,
    waiting_parts,
)
from delassus.algorithms.dynamics.solution import DynamicsSolution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.model.tree import WORLD

BASE = 0


def pv(motion: DynamicsProblem) -> DynamicsSolution:
    """Accelerations, forces, and where they are found at the world ``G`` (eq. 48)."""
    ops, tree, problem = motion.ops, motion.tree, motion.problem
    constraints = range(len(problem.constraints))
    groups = [group for c in constraints for group in row_groups(problem, c)]
    forces = [label for group in groups for label in group]
    kinds, links, regular_base = RowKinds(), dict[int, LinkElimination](), False
    parts = [*link_parts(motion), *waiting_parts(motion, groups, kinds)]

    # leaves → root: H, p, K, k and L without the joints (eqs. 42a–42e)
    for i in tree.leaves_to_root():
        link = links[i] = LinkElimination(problem, i, take_parts(problem, i, parts), kinds)
        joint = tree.joints[i]
        if i == BASE and tree.is_floating and set(forces) <= set(link.labels):
            L = link.L(forces)
            regular_base = not ops.nonzero(L).all() and ops.rank(L) == len(forces)
            if regular_base:
                link.eliminate_forces(forces)  # eqs. 46, 49
        link.shear(joint.pitch)
        for k, s in enumerate(joint.motion_axes):
            link.merge_joint_acceleration(s)
            link.eliminate_dof(s, float(joint.armature[k]), ops.take(motion.tau[i], (k,), None))
        link.shear(-joint.pitch)
        parts.append(link.to_parent(*transform_and_drift(motion, i)))
    ops.mark("link elimination", [link.V for link in links.values()])

    # at the world: the forces that are left (eqs. 43, 48)
    world = links[WORLD] = LinkElimination(problem, WORLD, take_parts(problem, WORLD, parts), kinds)
    G = None if regular_base else world.L(forces)
    world.eliminate_forces([label for label in forces if label in world.labels])

    qdd, f = back_substitution(motion, links)
    return DynamicsSolution(qdd, f, G)
