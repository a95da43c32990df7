"""A humanoid that is to stay on its feet while it is pushed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from delassus.compiler.jit.compile import compiled
from delassus.constraints import Contact, Frame
from delassus.gym.worlds import LARGEST, Array, Floats, Range, Whole, Worlds, up_of
from delassus.model.check import check_number
from delassus.model.mechanisms import humanoid
from delassus.model.shapes import Sphere
from delassus.model.tree import Tree
from delassus.runtime.compile import compile as compile_kernel

ROTOR, STIFFNESS, DAMPING, REACH = 0.1, 300.0, 8.0, 0.3
"""Of joints: inertia of motors (kg m²), N m/rad, N m s/rad, and the largest offset of a target (rad)."""

SOLE, EDGE = ((-0.08, 0.14), (-0.05, 0.05), -0.04), 0.005
"""Corners of a sole in the frame of a foot: along x, along y, below (m); radius of its edges (m)."""

PUSH_EVERY, LOWEST, STEEPEST = 2.0, 0.6, 0.6
"""Time between two pushes (s); height of the pelvis, over that at the start, and cosine of its tilt at the end."""


class HumanoidStand(Worlds):
    """The built-in humanoid on two flat feet, pushed every `PUSH_EVERY` seconds.

    Actions (14,) are offsets of the targets of torso and legs, over `REACH`; arms and head are held. An observation
    (52,) is the direction of up (3), linear and angular velocity of the pelvis (6) in its axes, its height less that at
    the start (1), angles of torso and legs (14), a tenth of their velocities (14), and the last action (14). The
    reward of a step is ``control`` times::

        exp(−4 |up_xy|²) + exp(−50 Δz²) − 0.2 |v_xyz|² − 0.02 |ω|² − 0.02 |action|²

    and an episode ends where the pelvis is below `LOWEST` of its height or tilted beyond `STEEPEST`.

    Parameters
    ----------
    num_envs : int
    push : float
        Largest change of the horizontal velocity by a push (m/s).
    dt, payload, options
        Of `Worlds`; the payload is on the torso.

    Raises
    ------
    ConfigurationError
        As `Worlds`.

    Examples
    --------
    Without actions, and without pushes, it stands for 0.8 s and falls within 2 s.

    >>> import numpy as np
    >>> envs = HumanoidStand(4, push=0.0)
    >>> _ = envs.reset(seed=0)
    >>> fallen = [envs.step(np.zeros((4, 14)))[2] for _ in range(100)]
    >>> bool(np.any(fallen[:40])), bool(np.any(fallen))
    (False, True)
    """

    def __init__(
        self, num_envs: int = 1024, *, push: float = 0.3, dt: float = 0.002, payload: Range = (0.0, 5.0), **options: Any
    ) -> None:
        tree = _with_rotors(humanoid())
        self._push = check_number("push", push, "In m/s.", above=False, most=LARGEST)
        (back, front), sides, below = SOLE
        corners = [(x, y, below + EDGE) for x in (back, front) for y in sides]
        soles = [Contact(Frame(f"{s}_foot", c), Sphere(EDGE)) for s in ("left", "right") for c in corners]
        kernel = compile_kernel(
            tree, soles, "contact_step", dtype="float32", control="pd", friction="input", payloads=["torso2"],
            passive="none", limits=False, sweeps=30, tolerance=1e-3,
        )  # fmt: skip
        super().__init__(num_envs, kernel, 52, 14, dt=dt, payload=payload, **options)
        self._between, self._phase = max(1, round(PUSH_EVERY / self.control)), np.zeros(num_envs, np.int64)
        names = tree.link_names
        moved = [i for i, name in enumerate(names) if name.startswith("torso") or "_leg" in name]
        self._moved = np.array([tree.v_slices[i].start for i in moved])
        self._start = tree.neutral()
        poses = compile_kernel(tree, (), "kinematics", frames=[contact.frame for contact in soles])(self._start)
        self._start[2] = EDGE - poses[:, 2, 3].min()
        self._target = np.tile(self._start, (num_envs, 1)).astype(np.float32)
        on_joints = np.r_[np.zeros(6), np.ones(tree.nv - 6)].astype(np.float32)
        self._gains = {"kp": STIFFNESS * on_joints, "kd": DAMPING * on_joints}

    def begin(self, worlds: Whole) -> None:
        """Stand upright, moving a little."""
        self.q[worlds] = self._start
        self.v[worlds, :2] = self.np_random.uniform(-0.1, 0.1, (worlds.size, 2))
        self._phase[worlds] = self.np_random.integers(1, self._between, worlds.size, endpoint=True)

    def controls(self) -> tuple[Floats, dict[str, Any]]:
        """Joint targets; and pushes."""
        pushed = np.flatnonzero((self.steps + self._phase) % self._between == 0)
        self.v[pushed, :2] += self.np_random.uniform(-self._push, self._push, (pushed.size, 2)).astype(np.float32)
        self._target[:, 1 + self._moved] = self._start[1 + self._moved] + REACH * self.actions
        return self._target, self._gains

    def observe(self, worlds: Whole) -> None:
        """See the class."""
        _observe(worlds, self.q, self.v, self._start, self._moved, self.actions, self.observations)

    def judge(self) -> None:
        """See the class."""
        _judge(self.q, self.v, self._start, self.actions, self.control, self.rewards, self.fallen)


def _with_rotors(tree: Tree) -> Tree:
    """The tree with inertia of motors on its joints, which PD control by steps of milliseconds needs."""
    joints = [tree.joints[0], *(replace(j, armature=np.full(j.nv, ROTOR)) for j in tree.joints[1:])]
    return replace(tree, joints=tuple(joints))


@compiled
def _observe(worlds: Whole, q: Array, v: Array, start: Array, moved: Whole, actions: Array, out: Array) -> None:
    for e in range(worlds.size):
        i = worlds[e]
        out[i, 0], out[i, 1], out[i, 2] = up_of(q, i)
        for c in range(6):
            out[i, 3 + c] = v[i, c]
        out[i, 9] = q[i, 2] - start[2]
        for c in range(moved.size):
            k = moved[c]
            out[i, 10 + c] = q[i, 1 + k] - start[1 + k]
            out[i, 24 + c] = 0.1 * v[i, k]
            out[i, 38 + c] = actions[i, c]


@compiled
def _judge(q: Array, v: Array, start: Array, actions: Array, control: float, rewards: Array, fallen: Array) -> None:
    for i in range(rewards.size):
        a, b, up = up_of(q, i)
        drop, linear, angular, effort = q[i, 2] - start[2], 0.0, 0.0, 0.0
        for c in range(3):
            linear += v[i, c] ** 2
            angular += v[i, 3 + c] ** 2
        for c in range(actions.shape[1]):
            effort += actions[i, c] ** 2
        rewards[i] = control * (
            math.exp(-4.0 * (a * a + b * b)) + math.exp(-50.0 * drop * drop) - 0.2 * linear - 0.02 * angular
            - 0.02 * effort
        )  # fmt: skip
        fallen[i] = q[i, 2] < LOWEST * start[2] or up < STEEPEST
