"""States between MuJoCo and a tree: configurations and velocities in both directions, batched over leading axes.

The layouts of ``qpos`` and ``q`` and of ``qvel`` and ``v`` are the same but for two things: MuJoCo's quaternions are
``[w x y z]``, ours ``[x y z w]``; and the linear velocity of a free joint is in the world's axes there, in the body's
here (its angular velocity is in the body's axes in both). A joint's kind is all that these functions look at.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from delassus.errors import ConfigurationError, ModelError
from delassus.model.joints import QUATERNION_START, JointKind
from delassus.model.rotations import Array, quaternion_to_matrix
from delassus.model.tree import Tree

SHORTEST_QUATERNION = 1e-15
"""MuJoCo reads a quaternion shorter than this as no rotation; here it is refused."""


def configuration_from_mujoco(tree: Tree, qpos: ArrayLike) -> Array:
    """Configuration ``q`` (..., nq) of the tree at MuJoCo's ``qpos`` (..., nq).

    Quaternions ``[w x y z]`` become ``[x y z w]`` of unit length: MuJoCo reads them whatever their length.

    Raises
    ------
    ModelError
        The tree has a joint that MuJoCo does not know.
    ConfigurationError
        Wrong shape or type, NaN or infinite entries, or a quaternion of zeros.

    Examples
    --------
    >>> import delassus as ds
    >>> from delassus.interop.mujoco import configuration_from_mujoco
    >>> base = ds.mechanisms.chain(1, root="floating")
    >>> configuration_from_mujoco(base, [0, 0, 1, 2, 0, 0, 0, 0.5])
    array([0. , 0. , 1. , 0. , 0. , 0. , 1. , 0.5])
    """
    q = tree._check_vector(qpos, tree.nq, "qpos", "nq").copy()
    for name, part in _quaternions(tree):
        length = np.linalg.norm(q[..., part], axis=-1, keepdims=True)
        if np.any(length < SHORTEST_QUATERNION):
            raise ConfigurationError(
                f"qpos, the quaternion of joint {name!r}", "one that is not zero", "zeros", "No rotation is [1 0 0 0]."
            )
        q[..., part] = np.roll(q[..., part] / length, -1, axis=-1)
    return q


def configuration_to_mujoco(tree: Tree, q: ArrayLike) -> Array:
    """MuJoCo's ``qpos`` (..., nq) at the configuration ``q`` (..., nq) of the tree.

    Raises
    ------
    ModelError
        The tree has a joint that MuJoCo does not know.
    ConfigurationError
        Wrong shape or type, NaN or infinite entries, or a quaternion that is not of unit length.
    """
    qpos = tree.check_configuration(q).copy()
    for _, part in _quaternions(tree):
        qpos[..., part] = np.roll(qpos[..., part], 1, axis=-1)
    return qpos


def velocity_from_mujoco(tree: Tree, qpos: ArrayLike, qvel: ArrayLike) -> Array:
    """Velocity ``v`` (..., nv) of the tree at MuJoCo's ``qpos`` (..., nq) and ``qvel`` (..., nv).

    Takes linear velocities of free joints from the world's axes to the body's. Raises what `configuration_from_mujoco`
    raises.
    """
    return _turn_linear(tree, configuration_from_mujoco(tree, qpos), tree.check_velocity(qvel, "qvel"), True)


def velocity_to_mujoco(tree: Tree, q: ArrayLike, v: ArrayLike) -> Array:
    """MuJoCo's ``qvel`` (..., nv) at the configuration ``q`` (..., nq) and velocity ``v`` (..., nv) of the tree.

    Takes linear velocities of free joints from the body's axes to the world's. Raises what `configuration_to_mujoco`
    raises.
    """
    return _turn_linear(tree, tree.check_configuration(q), tree.check_velocity(v), False)


def velocity_map_from_mujoco(tree: Tree, q: ArrayLike) -> Array:
    """Matrix ``T`` (..., nv, nv) with ``v = T qvel`` at the configuration ``q`` (..., nq) of the tree.

    It is orthogonal. MuJoCo's mass matrix is ``Tᵀ M T``, its Jacobians are ``J T``, its generalised forces ``Tᵀ τ``.
    Raises what `configuration_to_mujoco` raises.

    Examples
    --------
    >>> import delassus as ds
    >>> from delassus.interop.mujoco import velocity_map_from_mujoco
    >>> robot = ds.mechanisms.humanoid()
    >>> q = robot.random(0, batch=5)
    >>> T = velocity_map_from_mujoco(robot, q)
    >>> M_mujoco = T.swapaxes(-1, -2) @ ds.mass_matrix(robot, q) @ T
    """
    array = tree.check_configuration(q)
    T = np.broadcast_to(np.eye(tree.nv), (*array.shape[:-1], tree.nv, tree.nv)).copy()
    for linear, R in _free_joints(tree, array):
        T[..., linear, linear] = np.swapaxes(R, -1, -2)
    return T


def _turn_linear(tree: Tree, q: Array, v: Array, to_body: bool) -> Array:
    batch = np.broadcast_shapes(q.shape[:-1], v.shape[:-1])
    out = np.broadcast_to(v, (*batch, tree.nv)).copy()
    for linear, R in _free_joints(tree, q):
        turn = np.swapaxes(R, -1, -2) if to_body else R
        out[..., linear] = (turn @ out[..., linear, None])[..., 0]
    return out


def _free_joints(tree: Tree, q: Array) -> Iterator[tuple[slice, Array]]:
    """Linear degrees of freedom of each free joint, and its rotation (..., 3, 3) from the body to the world."""
    quaternions = dict(_quaternions(tree))
    for joint, sv in zip(tree.joints, tree.v_slices, strict=True):
        if joint.kind is JointKind.FREE:
            yield slice(sv.start, sv.start + 3), quaternion_to_matrix(q[..., quaternions[joint.name]])


def _quaternions(tree: Tree) -> Iterator[tuple[str, slice]]:
    """Name and coordinates of each joint that has a quaternion; refuses joints that MuJoCo does not know."""
    for joint, sq in zip(tree.joints, tree.q_slices, strict=True):
        if joint.kind not in (JointKind.FREE, JointKind.BALL, JointKind.PRISMATIC, JointKind.REVOLUTE):
            raise ModelError(
                f"joint {joint.name!r}", "a revolute, prismatic, ball or free joint", f"a {joint.kind.value} joint",
                "MuJoCo has no such joint, so that the tree has no MuJoCo state.",
            )  # fmt: skip
        if joint.kind in QUATERNION_START:
            start = sq.start + QUATERNION_START[joint.kind]
            yield joint.name, slice(start, start + 4)
