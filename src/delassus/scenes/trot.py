"""Standing, and trotting on the spot or ahead: forces at the feet that stand, joint targets for those that swing.

The feet on the ground together push the trunk as springs and dampers would that hold it level, at its height and place
(virtual model control); each one's share is the least-squares one. Feet that swing follow joint targets, and land
displaced in the direction in which the trunk drifts, which brakes it (Raibert's rule).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from delassus import Point, Simulator, Tree, compile
from delassus.model.kinematics import world_poses
from delassus.spatial.rotations import Array

LEGS = ("FL", "FR", "RL", "RR")
PAIRS = ((0, 3), (1, 2))
"""Legs that swing together."""

STAND = 0.5
"""Time of standing at first (s)."""

PERIOD = 0.5
"""Time of a cycle (s)."""

SWING = 0.4
"""Part of a cycle in which a foot swings."""

SPEED = 0.4
"""Speed of walking (m/s)."""

LIFT = 0.06
"""How high a foot swings on the spot (m)."""

CLIMB = 0.09
"""How high it swings on the way to a goal (m)."""

SPRINGS = np.array([0.0, 0.0, 1500.0, 60.0, 60.0, 10.0])
"""Stiffness of the trunk along and about x, y, z (N/m, N m/rad)."""

DAMPERS = np.array([120.0, 120.0, 150.0, 5.0, 5.0, 2.0])
"""Damping of the trunk along and about x, y, z (N s/m, N m s/rad)."""

JOINT_SPRING = 150.0
"""Stiffness of the joints of legs that swing (N m/rad)."""

JOINT_DAMPER = 2.0
"""Damping of these joints (N m s/rad)."""


def rod_of(tree: Tree) -> float:
    """Length (m) of thigh and calf of a robot's `LEGS`, which are one."""
    places = [p for _, p in world_poses(tree, tree.neutral())]
    index = {name: i for i, name in enumerate(tree.link_names)}
    hips, knees = ([places[index[f"{leg}_{part}"]] for leg in LEGS] for part in ("thigh", "calf"))
    return float(np.linalg.norm(np.array(knees) - np.array(hips), axis=1).mean())


def leg_angles(rod: float, height: ArrayLike, ahead: ArrayLike, sideways: ArrayLike) -> Array:
    """Angles (..., 3) of hip, thigh and calf that put a foot below its hip by ``height``, displaced in x and y."""
    half = np.arccos(np.minimum(np.hypot(height, ahead) / (2.0 * rod), 1.0))
    each = np.broadcast_arrays(np.arctan2(sideways, height), half - np.arctan2(ahead, height), -2.0 * half)
    return np.stack(each, axis=-1)


class Trot:
    """Controller of a quadruped on a free joint, with `LEGS` of three joints and hips ``height`` (m) above the feet.

    It walks along the line y = 0 until x is ``goal`` (m); None: it stays where it is.
    """

    def __init__(self, tree: Tree, gravity: Array, height: float, goal: float | None = None) -> None:
        feet = [f"{leg}_foot" for leg in LEGS]
        self._jacobian = compile(tree, [Point(foot, axes="world") for foot in feet], "jacobian", wait=False)
        self._bias = compile(tree, (), "bias_force", gravity=gravity, passive="none", wait=False)
        self._places = compile(tree, (), "kinematics", frames=[tree.link_names[0], *feet], wait=False)
        self._tree, self._weight = tree, -tree.inertias[:, 0, 0].sum() * gravity
        self._rod = rod_of(tree)
        self.height, self._goal = height, goal
        self.stance = np.tile(leg_angles(self._rod, height, 0.0, 0.0), 4)

    def __call__(self, sim: Simulator) -> Array:
        """Joint forces (nv,) at the state of a simulator."""
        q, v = sim.q, sim.v
        wanted = self._wanted(sim.time, q)
        swinging, targets = self._targets(sim.time, v, wanted)
        J = self._jacobian(q)
        tau: Array = self._bias(q, np.zeros_like(v))
        tau -= J.T @ self._forces(q, v, wanted, swinging).ravel()
        for leg in range(4):
            at, joints = slice(6 + 3 * leg, 9 + 3 * leg), slice(7 + 3 * leg, 10 + 3 * leg)
            if swinging[leg]:
                tau[at] += JOINT_SPRING * (targets[leg] - q[joints]) - JOINT_DAMPER * v[at]
            else:
                tau[at] -= 0.2 * v[at]
        tau[:6] = 0.0
        return tau

    def _wanted(self, time: float, q: Array) -> Array:
        """Velocity (2,) along x and y of the world, which the body's axes are near to."""
        if self._goal is None or time < STAND:
            return np.zeros(2)
        return np.asarray(np.clip([2.0 * (self._goal - q[0]), -q[1]], -SPEED, SPEED))

    def _targets(self, time: float, v: Array, wanted: Array) -> tuple[list[bool], list[Array]]:
        """Which legs swing, and joint angles for these."""
        swinging, targets = [False] * 4, [self.stance[:3]] * 4
        if time < STAND:
            return swinging, targets
        drift = v[:2]  # in the body frame, as the legs are
        for number, pair in enumerate(PAIRS):
            phase = ((time - STAND) / PERIOD + 0.5 * number) % 1.0 / SWING
            if phase < 1.0:
                ahead, sideways = np.clip(0.5 * PERIOD * (1.0 - SWING) * drift + 0.1 * (drift - wanted), -0.08, 0.08)
                up = (LIFT if self._goal is None else CLIMB) * np.sin(np.pi * phase)
                for leg in pair:
                    swinging[leg] = True
                    targets[leg] = leg_angles(self._rod, self.height - up, ahead, sideways)
        return swinging, targets

    def _forces(self, q: Array, v: Array, wanted: Array, swinging: list[bool]) -> Array:
        """Forces (4, 3) of the ground on the feet that hold the trunk where it should be."""
        R, feet = (poses := self._places(q))[0, :3, :3], poses[1:, :3, 3]
        rates = np.concatenate([R @ v[:3], R @ v[3:6]])
        rates[:2] -= wanted
        away = np.zeros(6)
        away[2] = q[2] - feet[[not s for s in swinging], 2].mean() - self.height
        away[3:] = R @ self._tree.difference(self._tree.neutral(), q)[3:6]
        wrench = -SPRINGS * away - DAMPERS * rates
        wrench[:3] += self._weight
        forces = np.zeros((4, 3))
        standing = [leg for leg in range(4) if not swinging[leg]]
        A = np.hstack([np.vstack([np.eye(3), np.cross(np.eye(3), feet[leg] - q[:3])]) for leg in standing])
        # Lengths of about 0.2 m turn newtons into newton metres: moments count as much as forces do.
        scale = np.array([1.0, 1.0, 1.0, 5.0, 5.0, 5.0])
        shares = np.linalg.lstsq(scale[:, None] * A, scale * wrench, rcond=1e-3)[0].reshape(-1, 3)
        shares[:, 2] = np.maximum(shares[:, 2], 0.0)
        across = np.linalg.norm(shares[:, :2], axis=1, keepdims=True)
        shares[:, :2] *= np.minimum(1.0, 0.6 * shares[:, 2:] / np.maximum(across, 1e-9))
        forces[standing] = shares
        return forces
