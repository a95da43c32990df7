"""An arm that reaches for places with its tip, moved by an operational-space controller."""

from __future__ import annotations

from typing import Any

import numpy as np

from delassus.compiler.jit.compile import compiled
from delassus.constraints import Contact, Frame, Point
from delassus.gym.worlds import Array, Floats, Range, Whole, Worlds
from delassus.model.mechanisms import chain
from delassus.model.shapes import Sphere
from delassus.runtime.compile import compile as compile_kernel

LINKS, RADIUS = 7, 0.03
"""Of the arm; of its tip (m)."""

STIFFNESS, DAMPING, POSTURE, REACH = 100.0, 20.0, 0.2, 0.1
"""Of the tip (1/s², 1/s), damping of joints (N m s/rad), and how far ahead of the tip an action can be (m)."""

SINGULAR = 1e-2
"""Part of the mean mobility of the tip that is added to it: where the arm is stretched, forces stay finite."""


class ArmReach(Worlds):
    """An arm of `LINKS` links that is to bring its tip to a place above the floor, which the tip may touch.

    Actions (3,) say where the tip is to go, over `REACH` and from where it is, in world axes. Forces are those of an
    operational-space controller, ``τ = Jᵀ (G + ε)⁻¹ (k_p Δx − k_d J v) + h − d v``, with the Delassus matrix
    ``G = J M⁻¹ Jᵀ`` of the tip. An observation (26,) is the place of the tip (3), from there to the goal (3), velocity
    of the tip (3), angles (7), a tenth of their velocities (7), and the last action (3). The reward of a step is
    ``control`` times::

        exp(−30 d²) − d − 0.02 |action|²

    with the distance ``d`` of tip and goal. Episodes end by time alone.

    Parameters
    ----------
    num_envs : int
    episode, payload, options
        Of `Worlds`; the payload is on the last link, and the controller does not know of it.

    Raises
    ------
    ConfigurationError
        As `Worlds`.

    Examples
    --------
    Actions that point at the goal bring the tip there, within 3 s to less than 5 cm.

    >>> import numpy as np
    >>> envs = ArmReach(4)
    >>> seen, _ = envs.reset(seed=0)
    >>> for _ in range(150):
    ...     seen, *_ = envs.step(seen[:, 3:6] / REACH)
    >>> bool((np.linalg.norm(seen[:, 3:6], axis=1) < 0.05).all())
    True
    """

    def __init__(
        self, num_envs: int = 4096, *, episode: float = 4.0, payload: Range = (0.0, 0.5), **options: Any
    ) -> None:
        tree = chain(LINKS)
        last = tree.link_names[-1]
        tip = Frame(last, (0.2, 0.0, 0.0))
        kernel = compile_kernel(
            tree, [Contact(tip, Sphere(RADIUS))], "contact_step", dtype="float32", friction="input", payloads=[last],
            limits=False, sweeps=10, tolerance=1e-3,
        )  # fmt: skip
        super().__init__(num_envs, kernel, 26, 3, episode=episode, payload=payload, **options)
        of_tip = [Point(tip, axes="world")]
        self._jacobian, self._mobility, self._bias = (
            compile_kernel(tree, rows, what, dtype="float32")
            for rows, what in ((of_tip, "jacobian"), (of_tip, "delassus"), ((), "bias_force"))
        )
        self._pose = compile_kernel(tree, (), "kinematics", frames=[tip], dtype="float32")
        self.goals, self._tau = np.zeros((num_envs, 3), np.float32), np.zeros((num_envs, tree.nv), np.float32)
        self._distances = np.zeros(num_envs, np.float32)

    def begin(self, worlds: Whole) -> None:
        """A random configuration with the tip above the floor; the goal is where another one has it."""
        found, goals = (self._above_floor(worlds.size) for _ in range(2))
        self.q[worlds], self.goals[worlds] = found[0], goals[1]

    def _above_floor(self, n: int) -> tuple[Floats, Floats]:
        """Configurations (n, nq), the best of eight each, and places of the tip (n, 3)."""
        q = self.np_random.uniform(-1.5, 1.5, (8, n, LINKS)).astype(np.float32)
        places = self._pose(q)[..., 0, :3, 3]
        best, each = places[..., 2].argmax(axis=0), np.arange(n)
        return q[best, each], places[best, each]

    def controls(self) -> tuple[Floats, dict[str, Any]]:
        """Joint forces."""
        J, G = self._jacobian(self.q), self._mobility(self.q)
        _reach(self.v, J, G, self._bias(self.q, self.v), self.actions, self._tau)
        return self._tau, {}

    def observe(self, worlds: Whole) -> None:
        """See the class."""
        q = self.q[worlds]
        tips, J = self._pose(q)[..., 0, :3, 3], self._jacobian(q)
        out, v = self.observations, self.v[worlds]
        left = self.goals[worlds] - tips
        self._distances[worlds] = np.linalg.norm(left, axis=1)
        out[worlds] = np.hstack([tips, left, np.einsum("nij,nj->ni", J, v), q, 0.1 * v, self.actions[worlds]])

    def judge(self) -> None:
        """See the class; no episode ends early."""
        self.observe(self._all)
        d, effort = self._distances, np.square(self.actions).sum(axis=1)
        self.rewards[:] = self.control * (np.exp(-30.0 * d * d) - d - 0.02 * effort)


@compiled
def _reach(v: Array, J: Array, G: Array, bias: Array, actions: Array, tau: Array) -> None:
    """Forces of the operational-space controller."""
    n = v.shape[1]
    for i in range(v.shape[0]):
        more = SINGULAR * (G[i, 0, 0] + G[i, 1, 1] + G[i, 2, 2]) / 3.0
        a, b, c = G[i, 0, 0] + more, G[i, 0, 1], G[i, 0, 2]
        d, e, f = G[i, 1, 1] + more, G[i, 1, 2], G[i, 2, 2] + more
        wanted = (_towards(v, J, actions, i, 0), _towards(v, J, actions, i, 1), _towards(v, J, actions, i, 2))
        x, y, z = wanted
        A, B, C, D, E, F = d * f - e * e, c * e - b * f, b * e - c * d, a * f - c * c, b * c - a * e, a * d - b * b
        over = 1.0 / (a * A + b * B + c * C)
        p, q, r = over * (A * x + B * y + C * z), over * (B * x + D * y + E * z), over * (C * x + E * y + F * z)
        for k in range(n):
            push = J[i, 0, k] * p + J[i, 1, k] * q + J[i, 2, k] * r
            tau[i, k] = push + bias[i, k] - POSTURE * v[i, k]


@compiled
def _towards(v: Array, J: Array, actions: Array, i: int, axis: int) -> float:
    """Wanted acceleration of the tip along an axis."""
    wanted: float = STIFFNESS * REACH * actions[i, axis]
    for k in range(v.shape[1]):
        wanted -= DAMPING * J[i, axis, k] * v[i, k]
    return wanted
