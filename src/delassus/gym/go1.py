"""A quadruped that follows velocity commands: Unitree's Go1, or the built-in one of its size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from delassus.compiler.jit.compile import compiled
from delassus.constraints import Contact
from delassus.contact.scene import Scene
from delassus.errors import ConfigurationError, shown
from delassus.gym.worlds import LARGEST, Array, Floats, Whole, Worlds, up_of
from delassus.model.check import check_flag, finite_array, real_array
from delassus.model.shapes import Sphere
from delassus.runtime.compile import compile as compile_kernel
from delassus.scenes.quadruped import FOOT_RADIUS, generic_quadruped, go1, on_floor
from delassus.scenes.trot import LEGS

STANCE, HEIGHT = (0.0, 0.8, -1.6), 0.31
"""Angles of hip, thigh and calf (rad), and of the trunk above the ground (m), at the start."""

STIFFNESS, DAMPING, REACH = 30.0, 0.7, 0.4
"""Of joints (N m/rad, N m s/rad), and the largest offset of a target from `STANCE` (rad)."""

PACE = 2.0
"""Cycles a second of the clock that is observed."""

FASTEST = (1.0, 0.4, 0.8)
"""Largest velocity commands: ahead and sideways (m/s), turning (rad/s)."""

LOWEST, STEEPEST = 0.16, 0.5
"""Height of the trunk (m) and cosine of its tilt at which an episode ends."""


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
    options
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

    def __init__(self, num_envs: int = 4096, *, generic: bool = False, **options: Any) -> None:
        tree = generic_quadruped() if check_flag("generic", generic) else go1()
        feet = [Contact(f"{leg}_foot", Sphere(FOOT_RADIUS)) for leg in LEGS]
        kernel = compile_kernel(
            tree, feet, "contact_step", dtype="float32", control="pd", friction="input", payloads=["trunk"],
            passive="none", limits=False, sweeps=10, tolerance=1e-3,
        )  # fmt: skip
        super().__init__(num_envs, kernel, 50, 12, **options)
        self._stance = np.tile(STANCE, 4)
        self._command: Array | None = None
        self.command, self._before = np.zeros((num_envs, 3), np.float32), np.zeros((num_envs, 12), np.float32)
        self._target = np.zeros_like(self.q)
        on_legs = np.r_[np.zeros(6), np.ones(12)].astype(np.float32)
        self._gains = {"kp": STIFFNESS * on_legs, "kd": DAMPING * on_legs}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """As in `Worlds`; ``options={"command": …}``, (3,) or (num_envs, 3), holds until the next reset."""
        command = options.get("command") if isinstance(options, Mapping) else None
        if command is not None:
            given = real_array(command)
            shape = self.command.shape if given is not None and given.ndim == 2 else (3,)
            command = np.broadcast_to(
                finite_array(command, shape, "command", "Ahead, sideways, turning."), self.command.shape
            )
            if np.abs(command).max() > LARGEST:
                wanted = f"numbers up to {LARGEST:.2g}"
                raise ConfigurationError("command", wanted, shown(options), "Ahead, sideways, turning (m/s, rad/s).")
        self._command = command
        return super().reset(seed=seed, options=options)

    def begin(self, worlds: Whole) -> None:
        """Stand, nearly, in any direction."""
        n, draw = worlds.size, self.np_random.uniform
        yaw = draw(-math.pi, math.pi, n)
        q = np.zeros((n, 19))
        q[:, 2], q[:, 5], q[:, 6] = HEIGHT, np.sin(yaw / 2), np.cos(yaw / 2)
        q[:, 7:] = self._stance + draw(-0.1, 0.1, (n, 12))
        self.q[worlds], self._before[worlds] = q, 0.0
        self.command[worlds] = draw(-1.0, 1.0, (n, 3)) * FASTEST if self._command is None else self._command[worlds]

    def scene(self) -> Scene:
        """Go1 as its description shows it, where that is installed."""
        return on_floor(self.tree)

    def controls(self) -> tuple[Floats, dict[str, Any]]:
        """Joint targets."""
        self._target[:, 7:] = self._stance + REACH * self.actions
        self._target[:, 6] = 1.0
        return self._target, self._gains

    def observe(self, worlds: Whole) -> None:
        """See the class."""
        _observe(
            worlds,
            self.q,
            self.v,
            self.command,
            self._stance,
            self.actions,
            self.steps,
            self.control,
            self.observations,
        )

    def judge(self) -> None:
        """See the class."""
        _judge(self.q, self.v, self.command, self.actions, self._before, self.control, self.rewards, self.fallen)


@compiled
def _observe(
    worlds: Whole, q: Array, v: Array, command: Array, stance: Array, actions: Array, steps: Whole, control: float,
    out: Array,
) -> None:  # fmt: skip
    for e in range(worlds.size):
        i = worlds[e]
        out[i, 0], out[i, 1], out[i, 2] = up_of(q, i)
        for c in range(6):
            out[i, 3 + c] = v[i, c]
        for c in range(3):
            out[i, 9 + c] = command[i, c]
        for c in range(12):
            out[i, 12 + c] = q[i, 7 + c] - stance[c]
            out[i, 24 + c] = 0.1 * v[i, 6 + c]
            out[i, 36 + c] = actions[i, c]
        angle = 2.0 * math.pi * PACE * control * steps[i]
        out[i, 48], out[i, 49] = math.cos(angle), math.sin(angle)


@compiled
def _judge(
    q: Array, v: Array, command: Array, actions: Array, before: Array, control: float, rewards: Array, fallen: Array
) -> None:
    for i in range(rewards.size):
        a, b, up = up_of(q, i)
        ahead, side, turn = v[i, 0] - command[i, 0], v[i, 1] - command[i, 1], v[i, 5] - command[i, 2]
        change = 0.0
        for c in range(12):
            change += (actions[i, c] - before[i, c]) ** 2
            before[i, c] = actions[i, c]
        rewards[i] = control * (
            math.exp(-4.0 * (ahead * ahead + side * side)) + 0.5 * math.exp(-4.0 * turn * turn) - 2.0 * v[i, 2] ** 2
            - 0.05 * (v[i, 3] ** 2 + v[i, 4] ** 2) - 0.01 * change - 0.5 * (a * a + b * b)
        )  # fmt: skip
        fallen[i] = q[i, 2] < LOWEST or up < STEEPEST
