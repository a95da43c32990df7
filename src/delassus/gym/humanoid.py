"""A humanoid that is to stay on its feet while it is pushed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from delassus import Contact, Frame, Tree, compile, mechanisms
from delassus.contact import Sphere
from delassus.gym.arrays import LARGEST, Range
from delassus.gym.worlds import Floats, Whole, Worlds, target_of, up_of
from delassus.model.check import check_number

ROTOR = 0.1
"""Inertia of motors (kg m²)."""

STIFFNESS = 300.0
"""Stiffness of joints (N m/rad)."""

DAMPING = 8.0
"""Damping of joints (N m s/rad)."""

REACH = 0.3
"""Largest offset of a target (rad)."""

SOLE = ((-0.08, 0.14), (-0.05, 0.05), -0.04)
"""Corners of a sole in the frame of a foot: along x, along y, below (m)."""

EDGE = 0.005
"""Radius of its edges (m)."""

PUSH_EVERY = 2.0
"""Time between two pushes (s)."""

LOWEST = 0.6
"""Height of the pelvis at which an episode ends, over that at the start."""

STEEPEST = 0.6
"""Cosine of its tilt at which an episode ends."""


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
    dt, payload, device, options
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
        self, num_envs: int = 1024, *, push: float = 0.3, dt: float = 0.002, payload: Range = (0.0, 5.0),
        device: str = "cpu", **options: Any,
    ) -> None:  # fmt: skip
        tree = _with_rotors(mechanisms.humanoid())
        self._push = check_number("push", push, "In m/s.", above=False, most=LARGEST)
        (back, front), sides, below = SOLE
        corners = [(x, y, below + EDGE) for x in (back, front) for y in sides]
        soles = [Contact(Frame(f"{s}_foot", c), Sphere(EDGE)) for s in ("left", "right") for c in corners]
        kernel = compile(
            tree, soles, "contact_step", dtype="float32", control="pd", friction="input", payloads=["torso2"],
            passive="none", limits=False, sweeps=30, tolerance=1e-3, wait=False, target=target_of(device),
        )  # fmt: skip
        super().__init__(num_envs, kernel, 52, 14, dt=dt, payload=payload, device=device, **options)
        array, zeros = self.arrays.array, self.arrays.zeros
        self._between, self._phase = max(1, round(PUSH_EVERY / self.control)), zeros((num_envs,))
        names = tree.link_names
        moved = [i for i, name in enumerate(names) if name.startswith("torso") or "_leg" in name]
        self._moved = self.arrays.whole([tree.v_slices[i].start for i in moved])
        self._turned = 1 + self._moved
        start = tree.neutral()
        poses = compile(tree, (), "kinematics", frames=[contact.frame for contact in soles], wait=False)(start)
        self._height = float(EDGE - poses[:, 2, 3].min())
        start[2] = self._height
        self._start, self._target = array(start), array(np.tile(start, (num_envs, 1)))
        on_joints = array(np.r_[np.zeros(6), np.ones(tree.nv - 6)])
        self._gains = {"kp": STIFFNESS * on_joints, "kd": DAMPING * on_joints}

    def begin(self, worlds: Whole) -> None:
        """Stand upright, moving a little."""
        self.q[worlds] = self._start
        self.v[worlds, :2] = self.uniform(worlds, -0.1, 0.1, (2,))
        self._phase[worlds] = self.xp.floor(self.uniform(worlds, 1.0, self._between + 1.0))

    def controls(self) -> tuple[Floats, dict[str, Any]]:
        """Joint targets; and pushes."""
        due = (self.steps + self._phase) % self._between == 0
        pushes = self.uniform(self._all, -self._push, self._push, (2,))
        self.v[:, :2] += self.xp.where(due[:, None], pushes, 0.0)
        self._target[:, self._turned] = self._start[self._turned] + REACH * self.actions
        return self._target, self._gains

    def observe(self, worlds: Whole | slice) -> None:
        """See the class."""
        q, v, out = self.q[worlds], self.v[worlds], self.observations
        for k, x in enumerate(up_of(q)):
            out[worlds, k] = x
        out[worlds, 3:9], out[worlds, 9] = v[:, :6], q[:, 2] - self._height
        out[worlds, 10:24] = q[:, self._turned] - self._start[self._turned]
        out[worlds, 24:38], out[worlds, 38:52] = 0.1 * v[:, self._moved], self.actions[worlds]

    def judge(self) -> None:
        """See the class."""
        v, exp, (a, b, up), drop = self.v, self.xp.exp, up_of(self.q), self.q[:, 2] - self._height
        squares, effort = v[:, :6] ** 2, (self.actions**2).sum(1)
        self.rewards[...] = self.control * (
            exp(-4.0 * (a * a + b * b)) + exp(-50.0 * drop * drop) - 0.2 * squares[:, :3].sum(1)
            - 0.02 * squares[:, 3:].sum(1) - 0.02 * effort
        )  # fmt: skip
        self.fallen[...] = (self.q[:, 2] < LOWEST * self._height) | (up < STEEPEST)


def _with_rotors(tree: Tree) -> Tree:
    """The tree with inertia of motors on its joints, which PD control by steps of milliseconds needs."""
    joints = [tree.joints[0], *(replace(j, armature=np.full(j.nv, ROTOR)) for j in tree.joints[1:])]
    return replace(tree, joints=tuple(joints))
