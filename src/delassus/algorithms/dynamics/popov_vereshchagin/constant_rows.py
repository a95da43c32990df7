"""Rows that hold a link, written so that their entries are constants; what `pv_early` gains by it is in its docs page.

Six regular rows ``K a = k`` of constants are ``a = K⁻¹ k``, so that the joint meets one of them. The five others leave
nothing free but the joint, whose axis is constant in the parent too: there they are ``N a_p = N X⁻¹ K⁺ (k − K c)``,
with constants ``N`` (5 × 6) that do not meet that axis. The forces along the rows as they were are ``K⁺ᵀ X⁻ᵀ Nᵀ f``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from delassus.algorithms.dynamics.popov_vereshchagin.steps import Label, Rewritten, exchanged
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.model.inertia import motion_transform
from delassus.model.tree import WORLD
from delassus.spatial.motion import ANGULAR, from_entries
from delassus.spatial.ops import Matrix, Ops, Scalar
from delassus.spatial.rotations import Array, rotation_about

REGULAR = 1e3
"""Rows of a larger condition stay as they are given."""

ROUND_OFF = 1e-15
"""Entries of an axis that are round-off."""

LENGTHS = 1e-12
"""Largest entry of ``T Tᵀ − 1`` of a matrix ``T`` that turns rows."""

SCALE = 1024.0
"""Rows whose size is about a power of this are divided by it: exactly, as it is one of two."""


def of_held_link(ops: Ops, R: Matrix, labels: tuple[Label, ...]) -> Rewritten | None:
    """Six constant rows as ``a = K⁻¹ k``, or None."""
    return _rewritten(ops, R, labels, range(6), np.eye(6))


def on_parent(motion: DynamicsProblem, i: int, R: Matrix, labels: tuple[Label, ...]) -> Rewritten | None:
    """Five constant rows that leave nothing but joint i free, as constant rows on the parent, or None."""
    tree, joint, p = motion.tree, motion.tree.joints[i], motion.tree.parents[i]
    if p == WORLD or joint.nv > 1 or joint.pitch or motion.ops.shape(R)[0] != 5:
        return None
    (s,) = joint.motion_axes
    axis = np.asarray(np.linalg.inv(motion_transform(joint.rotation, joint.position))[:, s], dtype=np.float64)
    N = annihilator(axis, tree.joints[p].motion_axes)
    columns = [k for k in range(6) if k != s]
    return _rewritten(motion.ops, R, labels, columns, N, motion.problem.X[i], motion.c[i])


def turned_on_parent(motion: DynamicsProblem, i: int, R: Matrix, labels: tuple[Label, ...]) -> Rewritten | None:
    """Five constant rows that the revolute joint i does nothing to but turn them, as they are before it turns, or None.

    Turned rows have the compliance that they had.
    """
    joint, p = motion.tree.joints[i], motion.tree.parents[i]
    numbers, s = motion.ops.known(motion.ops.take(R, None, range(6))), joint.motion_axes[0]
    if p == WORLD or joint.nv > 1 or s not in ANGULAR or numbers is None or len(numbers) != 5 or numbers[:, s].any():
        return None
    turn = motion_transform(rotation_about(np.eye(3)[s - 3], 1.0), np.zeros(3))
    T = numbers @ turn @ np.linalg.pinv(numbers)
    if np.abs(T @ T.T - np.eye(5)).max() > LENGTHS:
        return None
    columns = [k for k in range(6) if k != s]
    N = numbers @ motion_transform(joint.rotation, joint.position)
    return _rewritten(motion.ops, R, labels, columns, N, motion.problem.X[i], motion.c[i])


def to_unit_size(motion: DynamicsProblem, late: Collection[int]) -> dict[int, list[Scalar]]:
    """Factors for rows of hard constraints that are not ``late``; reflections with large rows cost small ones digits.

    They are powers of `SCALE`: rows of about unit size stay as they are, as do those that come with each call.
    """
    ops, scales = motion.ops, dict[int, list[Scalar]]()
    for c, is_soft in enumerate(motion.softness):
        hard = not is_soft and c not in late
        sizes = ops.known(from_entries(ops, motion.problem.row_sizes(c))) if hard else None
        if sizes is not None:
            sizes = np.where(sizes > 0, sizes, 1.0)[:, 0].astype(float)
            factors = SCALE ** -np.round(np.log(sizes) / (2.0 * np.log(SCALE)))
            scales |= {c: factors.tolist()} if np.any(factors != 1.0) else {}
    return scales


def annihilator(axis: Array, other: Sequence[int]) -> Array:
    """Rows (5 × 6) ``e_k − (axis_k / axis_j) e_jᵀ`` that do not meet a constant axis (6,).

    ``j`` is a coordinate along which it is large, not one of the ``other`` axes if there is a choice: these are met by
    few rows then.
    """
    sizes = np.abs(axis)
    away = np.where(np.isin(np.arange(6), other), 0.0, sizes)
    j = int(np.argmax(away if 2.0 * away.max() >= sizes.max() else sizes))
    N = np.eye(6)
    N[:, j] -= np.where(sizes < ROUND_OFF, 0.0, axis) / axis[j]
    return np.delete(N, j, axis=0)


def _rewritten(
    ops: Ops,
    R: Matrix,
    labels: tuple[Label, ...],
    columns: Sequence[int],
    N: Array,
    X: Any = None,
    c: Matrix | None = None,
) -> Rewritten | None:
    """Rows that meet the ``columns`` only, as ``N X⁻¹ K⁺``, if ``K`` is constant."""
    m, K = ops.shape(R)[0], ops.take(R, None, columns)
    if m != len(columns):
        return None
    numbers = ops.known(K)
    if numbers is None or np.linalg.cond(numbers) > REGULAR:
        return None
    k = ops.take(R, None, (6,))
    if c is not None:
        k = k + K @ ops.take(c, columns, None)
    right = ops.put(ops.constant(np.linalg.inv(numbers)), (6, m), columns, range(m))
    rows = ops.constant(N)
    a = right @ k if X is None else exchanged(ops, X.forces_to_parent(exchanged(ops, right @ k)))
    return Rewritten(labels, ops.hstack([rows, rows @ a]), rows, X, right)
