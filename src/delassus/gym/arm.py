"""An arm that reaches for places with its tip, moved by an operational-space controller."""

from __future__ import annotations

from typing import Any

from delassus import Contact, Frame, Point, compile, mechanisms
from delassus.contact import Sphere
from delassus.gym.arrays import Range
from delassus.gym.worlds import Array, Floats, Whole, Worlds, target_of

LINKS = 7
"""Links of the arm."""

RADIUS = 0.03
"""Radius of its tip (m)."""

STIFFNESS = 100.0
"""Stiffness of the tip (1/s²)."""

DAMPING = 20.0
"""Damping of the tip (1/s)."""

POSTURE = 0.2
"""Damping of joints (N m s/rad)."""

REACH = 0.1
"""How far ahead of the tip an action can be (m)."""

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
    payload, device, options
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

    usual_episode = 4.0

    def __init__(
        self, num_envs: int = 4096, *, payload: Range = (0.0, 0.5), device: str = "cpu", **options: Any
    ) -> None:
        tree = mechanisms.chain(LINKS)
        last = tree.link_names[-1]
        tip = Frame(last, (0.2, 0.0, 0.0))
        kernel = compile(
            tree, [Contact(tip, Sphere(RADIUS))], "contact_step", dtype="float32", friction="input", payloads=[last],
            limits=False, sweeps=10, tolerance=1e-3, wait=False, target=target_of(device),
        )  # fmt: skip
        super().__init__(num_envs, kernel, 26, 3, payload=payload, device=device, **options)
        of_tip = [Point(tip, axes="world")]
        on_device: dict[str, Any] = {"dtype": "float32", "wait": False, "target": target_of(device)}
        self._jacobian = compile(tree, of_tip, "jacobian", **on_device)
        self._mobility = compile(tree, of_tip, "delassus", **on_device)
        self._bias = compile(tree, (), "bias_force", **on_device)
        self._pose = compile(tree, (), "kinematics", frames=[tip], **on_device)
        self.goals, self._distances = self.arrays.zeros((num_envs, 3)), self.arrays.zeros((num_envs,))

    def begin(self, worlds: Whole) -> None:
        """A random configuration with the tip above the floor; the goal is where another one has it."""
        found, goals = (self._above_floor(worlds) for _ in range(2))
        self.q[worlds], self.goals[worlds] = found[0], goals[1]

    def _above_floor(self, worlds: Whole) -> tuple[Floats, Floats]:
        """Configurations (k, nq), the best of eight each, and places of the tip (k, 3)."""
        q = self.uniform(worlds, -1.5, 1.5, (8, LINKS))
        places = self._pose(q)[..., 0, :3, 3]
        best, each = places[..., 2].argmax(1), self._all[: len(worlds)]
        return q[each, best], places[each, best]

    def controls(self) -> tuple[Floats, dict[str, Any]]:
        """Joint forces."""
        J, G, v = self._jacobian(self.q), self._mobility(self.q), self.v
        einsum = self.xp.einsum
        wanted = STIFFNESS * REACH * self.actions - DAMPING * einsum("nij,nj->ni", J, v)
        forces = _softly_solved(self.xp, G, wanted)
        return einsum("nij,ni->nj", J, forces) + self._bias(self.q, v) - POSTURE * v, {}

    def observe(self, worlds: Whole | slice) -> None:
        """See the class."""
        q, v, out = self.q[worlds], self.v[worlds], self.observations
        tips, J = self._pose(q)[..., 0, :3, 3], self._jacobian(q)
        left = self.goals[worlds] - tips
        self._distances[worlds] = self.xp.sqrt((left * left).sum(1))
        parts = [tips, left, self.xp.einsum("nij,nj->ni", J, v), q, 0.1 * v, self.actions[worlds]]
        out[worlds] = self.xp.hstack(parts)

    def judge(self) -> None:
        """See the class; no episode ends early."""
        self.observe(slice(None))
        d, effort = self._distances, (self.actions**2).sum(1)
        self.rewards[...] = self.control * (self.xp.exp(-30.0 * d * d) - d - 0.02 * effort)


def _softly_solved(xp: Any, G: Array, wanted: Array) -> Array:
    """Forces at the tip (n, 3), ``(G + ε)⁻¹ a``, of mobilities (n, 3, 3) and wanted accelerations (n, 3)."""
    more = SINGULAR / 3.0 * (G[:, 0, 0] + G[:, 1, 1] + G[:, 2, 2])
    a, b, c = G[:, 0, 0] + more, G[:, 0, 1], G[:, 0, 2]
    d, e, f = G[:, 1, 1] + more, G[:, 1, 2], G[:, 2, 2] + more
    A, B, C, D, E, F = d * f - e * e, c * e - b * f, b * e - c * d, a * f - c * c, b * c - a * e, a * d - b * b
    x, y, z = wanted[:, 0], wanted[:, 1], wanted[:, 2]
    forces: Array = xp.stack([A * x + B * y + C * z, B * x + D * y + E * z, C * x + E * y + F * z])
    solved: Array = (forces / (a * A + b * B + c * C)).T
    return solved
