"""A quadruped that follows velocity commands: Unitree's Go1, or the built-in one of its size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from delassus import Contact, Scene, compile
from delassus.contact import Sphere
from delassus.errors import ConfigurationError, shown
from delassus.gym.arrays import LARGEST
from delassus.gym.worlds import Floats, Whole, Worlds, target_of, up_of
from delassus.model.check import check_flag, finite_array, real_array
from delassus.scenes import generic_quadruped
from delassus.scenes.quadruped import FOOT_RADIUS, go1, on_floor
from delassus.scenes.trot import LEGS

STANCE = (0.0, 0.8, -1.6)
"""Angles of hip, thigh and calf at the start (rad)."""

HEIGHT = 0.31
"""Height of the trunk above the ground at the start (m)."""

STIFFNESS = 30.0
"""Stiffness of joints (N m/rad)."""

DAMPING = 0.7
"""Damping of joints (N m s/rad)."""

REACH = 0.4
"""Largest offset of a target from `STANCE` (rad)."""

PACE = 2.0
"""Cycles a second of the clock that is observed."""

FASTEST = (1.0, 0.4, 0.8)
"""Largest velocity commands: ahead and sideways (m/s), turning (rad/s)."""

LOWEST = 0.16
"""Height of the trunk at which an episode ends (m)."""

STEEPEST = 0.5
"""Cosine of the trunk's tilt at which an episode ends."""


class Go1Velocity(Worlds):
    """A quadruped that follows velocity commands.

    Actions (12,) are offsets of joint targets from a stance, over `REACH`. An observation (50,) is the direction of
    up (3), linear and angular velocity of the trunk (6) in its axes, the commanded velocity (3), offsets of joints
    from the stance (12), a tenth of their velocities (12), the last action (12), and cosine and sine of a clock (2).
    The reward of a step is ``control`` times::

        exp(−4 |v_xy − command|²) + ½ exp(−4 (ω_z − command)²) − 2 v_z² − 0.05 |ω_xy|² − 0.01 |Δ action|² − 0.5 |up_xy|²

    and an episode ends where the trunk is below `LOWEST` or tilted beyond `STEEPEST`.

    Parameters
    ----------
    num_envs : int
    generic : bool
        Take the built-in quadruped even where Go1's description (extra ``[robots]``) is installed.
    device, options
        Of `Worlds`.

    Raises
    ------
    ConfigurationError
        As `Worlds`.

    Examples
    --------
    >>> envs = Go1Velocity(2, generic=True)
    >>> seen, _ = envs.reset(seed=0, options={"command": (0.5, 0.0, 0.0)})  # half a metre a second ahead
    >>> seen[:, 9:12].tolist()
    [[0.5, 0.0, 0.0], [0.5, 0.0, 0.0]]
    """

    def __init__(self, num_envs: int = 4096, *, generic: bool = False, device: str = "cpu", **options: Any) -> None:
        tree = generic_quadruped() if check_flag("generic", generic) else go1()
        feet = [Contact(f"{leg}_foot", Sphere(FOOT_RADIUS)) for leg in LEGS]
        kernel = compile(
            tree, feet, "contact_step", dtype="float32", control="pd", friction="input", payloads=["trunk"],
            passive="none", limits=False, sweeps=10, tolerance=1e-3, wait=False, target=target_of(device),
        )  # fmt: skip
        super().__init__(num_envs, kernel, 50, 12, device=device, **options)
        array, zeros = self.arrays.array, self.arrays.zeros
        self._stance, self._fastest = array(np.tile(STANCE, 4)), array(FASTEST)
        self.command, self._before, self._target = zeros((num_envs, 3)), zeros((num_envs, 12)), zeros(self.q.shape)
        self._given = zeros((num_envs, 3)) + math.nan
        on_legs = array(np.r_[np.zeros(6), np.ones(12)])
        self._gains = {"kp": STIFFNESS * on_legs, "kd": DAMPING * on_legs}

    def configure(self, worlds: Whole, command: Any = None) -> None:
        """Take ``options={"command": …}``, (3,) or (num_envs, 3). It holds until the next reset of these worlds."""
        if command is None:
            self._given[worlds] = math.nan
            return
        given = real_array(command)
        shape = tuple(self.command.shape) if given is not None and given.ndim == 2 else (3,)
        command = finite_array(command, shape, "command", "Ahead, sideways, turning.")
        if np.abs(command).max() > LARGEST:
            wanted = f"numbers up to {LARGEST:.2g}"
            raise ConfigurationError("command", wanted, shown(command), "Ahead, sideways, turning (m/s, rad/s).")
        self._given[worlds] = self.arrays.array(np.broadcast_to(command, tuple(self.command.shape)))[worlds]

    def begin(self, worlds: Whole) -> None:
        """Stand, nearly, in any direction."""
        yaw, q = self.uniform(worlds, -math.pi, math.pi), self.arrays.zeros((len(worlds), 19))
        q[:, 2], q[:, 5], q[:, 6] = HEIGHT, self.xp.sin(0.5 * yaw), self.xp.cos(0.5 * yaw)
        q[:, 7:] = self._stance + self.uniform(worlds, -0.1, 0.1, (12,))
        self.q[worlds], self._before[worlds] = q, 0.0
        given, drawn = self._given[worlds], self.uniform(worlds, -1.0, 1.0, (3,)) * self._fastest
        self.command[worlds] = self.xp.where(self.xp.isnan(given), drawn, given)

    def scene(self) -> Scene:
        """Go1 as its description shows it, where that is installed."""
        return on_floor(self.tree)

    def controls(self) -> tuple[Floats, dict[str, Any]]:
        """Joint targets."""
        self._target[:, 7:] = self._stance + REACH * self.actions
        self._target[:, 6] = 1.0
        return self._target, self._gains

    def observe(self, worlds: Whole | slice) -> None:
        """See the class."""
        q, v, out = self.q[worlds], self.v[worlds], self.observations
        for k, x in enumerate(up_of(q)):
            out[worlds, k] = x
        out[worlds, 3:9], out[worlds, 9:12] = v[:, :6], self.command[worlds]
        out[worlds, 12:24], out[worlds, 24:36] = q[:, 7:] - self._stance, 0.1 * v[:, 6:]
        out[worlds, 36:48] = self.actions[worlds]
        angle = 2.0 * math.pi * PACE * self.control * self.steps[worlds]
        out[worlds, 48], out[worlds, 49] = self.xp.cos(angle), self.xp.sin(angle)

    def judge(self) -> None:
        """See the class."""
        v, exp, (a, b, up) = self.v, self.xp.exp, up_of(self.q)
        away, turn, change = v[:, :2] - self.command[:, :2], v[:, 5] - self.command[:, 2], self.actions - self._before
        self._before[...] = self.actions
        self.rewards[...] = self.control * (
            exp(-4.0 * (away * away).sum(1)) + 0.5 * exp(-4.0 * turn * turn) - 2.0 * v[:, 2] ** 2
            - 0.05 * (v[:, 3] ** 2 + v[:, 4] ** 2) - 0.01 * (change * change).sum(1) - 0.5 * (a * a + b * b)
        )  # fmt: skip
        self.fallen[...] = (self.q[:, 2] < LOWEST) | (up < STEEPEST)
