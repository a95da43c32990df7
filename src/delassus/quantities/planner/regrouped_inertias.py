"""Base parameters: what a joint's motion does not feel moves from its link to the link before.

A part ``Y`` of a link's inertia with ``Y S = 0`` that the joint's motion leaves as it is belongs to the parent just as
well: for every configuration and velocity the kinetic energy stays the same, and with it the mass matrix ``M`` and all
that is made of it (the base parameters of identification; Gautier and Khalil 1990). For a revolute joint about ``k``
that is the mass, the first moment along ``k`` and ``diag(1, 1, 0)`` of the second moments: three of ten parameters of
every link become zero, which no algorithm has to add. Pivots of ``M`` do not change, so nothing becomes singular;
single links lose their physical meaning (they have no mass), so this is for algorithms, not for users.

What a link gets is felt by its own joint, and cancels there with what arrives from the link that gave it away. Links
whose own inertia about their joint is much smaller than that (points of mass in universal joints) get nothing: digits
would be lost.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from delassus.model.inertia import move_inertia
from delassus.model.tree import WORLD, Tree
from delassus.spatial.joints import Joint
from delassus.spatial.motion import ANGULAR, LINEAR
from delassus.spatial.rotations import Array

MOST_CANCELLED = 300.0
"""How often its own inertia about its joint a link may get from the links after it: two to three digits at worst."""


def regrouped_inertias(tree: Tree) -> Tree:
    """Tree with the same mass matrix at every configuration and as few inertia parameters as links can have."""
    inertias = np.array(tree.inertias)
    world = np.array(tree.world_inertia)
    felt = [np.diagonal(H)[list(j.motion_axes)] + j.armature for H, j in zip(tree.inertias, tree.joints, strict=True)]
    got = [np.zeros(j.nv) for j in tree.joints]
    for i in tree.leaves_to_root():
        joint, parent = tree.joints[i], tree.parents[i]
        unfelt = _unfelt(joint, inertias[i])
        if not unfelt.any():
            continue
        moved = move_inertia(unfelt, joint.rotation, joint.position)
        if parent == WORLD:
            world += moved
        else:
            more = got[parent] + np.abs(np.diagonal(moved)[list(tree.joints[parent].motion_axes)])
            if np.any(more > MOST_CANCELLED * felt[parent]):
                continue
            got[parent] = more
            inertias[parent] += moved
        inertias[i] -= unfelt
    return replace(tree, inertias=inertias, world_inertia=world)


def _unfelt(joint: Joint, H: Array) -> Array:
    """Part of an inertia that has no effect on the joint's own motion and does not change with it."""
    Y = np.zeros((6, 6))
    linear, angular = ({*joint.motion_axes} & {*part} for part in (LINEAR, ANGULAR))
    k = joint.axis
    if joint.pitch:
        linear = {k}
    i, j = (k + 1) % 3, (k + 2) % 3
    if not angular:
        Y[3:, 3:] = H[3:, 3:]
    if not linear:
        for axis in range(3):
            Y[axis, axis] = H[axis, axis]
    if len(angular) == 1:
        if not linear:
            Y[i, 3 + j] = Y[3 + j, i] = H[i, 3 + j]  # −h_k: first moment along the axis
            Y[j, 3 + i] = Y[3 + i, j] = H[j, 3 + i]
        Y[3 + i, 3 + i] = Y[3 + j, 3 + j] = H[3 + i, 3 + i]
    return Y
