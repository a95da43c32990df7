"""A quadruped that trots by sampling: 1,024 rollouts of 30 contact steps, 50 times a second.

Model-predictive path integral control. The plan is ``U``, offsets (knots × 12) of joint targets from a trot that knows
nothing of balance: without the offsets it falls. At each replan the plan moves on by the time since the last one, and

=====================  ===============================================================================================
samples                ``U_k = U + E_k``, ``E_k`` normal noise at the knots, linear between them
rollouts               compiled contact steps in float32 from the state of now, PD control towards the trot plus ``U_k``
costs                  ``J_k``, the mean of `COSTS` along the rollout
plan                   ``U ← Σ w_k U_k``, ``w_k ∝ exp(−(J_k − min J) / λ)``
=====================  ===============================================================================================

``λ`` is a part of what the median costs above the best, so that costs have no unit. The scene moves by `Simulator` in
float64 and has the true shapes. Rollouts know the ground as a height below each foot, sampled along the best rollout
of the replan before: the highest within a foot's radius, so that a foot beside an edge is above it; the side of an
obstacle is no wall to them, and they have neither limits of joints nor other links that touch.

References
----------
Williams, Drews, Goldfain, Rehg, Theodorou, Information-theoretic model predictive control, 2018, section IV.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus import Contact, Scene, Simulator, compile, rollout
from delassus.contact import Box, Collider, Sphere
from delassus.errors import unknown_name
from delassus.model.check import check_whole
from delassus.scenes.quadruped import FOOT_RADIUS, FRICTION, TRUNK, generic_quadruped, go1, on_floor
from delassus.scenes.ready import ReadyScene
from delassus.scenes.trot import LEGS, PAIRS, leg_angles, rod_of
from delassus.spatial.rotations import Array

SAMPLES = 1024
"""Rollouts of a plan."""

HORIZON = 30
"""Steps of a rollout."""

STEP = 0.01
"""Length of such a step (s)."""

REPLAN = 0.02
"""Time from one plan to the next (s)."""

KNOTS = 4
"""Knots of a plan over the horizon."""

NOISE = np.tile([0.04, 0.08, 0.08], 4)
"""Standard deviation of the noise at knots (rad)."""

TEMPERATURE = 0.1
"""``λ`` over the spread of costs."""

STIFFNESS = 40.0
"""Stiffness of joints (N m/rad): what steps of `STEP` keep stable."""

DAMPING = 0.3
"""Damping of joints (N m s/rad)."""

SPEED = 0.65
"""Wanted speed (m/s)."""

RAMP = 0.5
"""Time in which it is reached (s)."""

HEIGHT = 0.28
"""Height of the hips above the feet (m)."""

PERIOD = 0.4
"""Time of a cycle (s)."""

SWING = 0.5
"""Part of a cycle in which a foot swings."""

LIFT = 0.08
"""How high a foot swings (m)."""

PRESS = 0.02
"""Depth of the targets of feet that stand, below the ground, to carry the weight (m)."""

ABOVE = 0.1
"""How far the path of the base is drawn above it (m)."""

COSTS = MappingProxyType(
    {"speed": 2.0, "sideways": 1.0, "climb": 0.5, "height": 100.0, "level": 10.0, "heading": 5.0, "course": 5.0,
     "rocking": 0.05, "turning": 0.2}
)  # fmt: skip
"""Weights of squares: errors of speed (m/s), velocities to the side and upwards, height above the ground (m), sines of
roll and pitch, of yaw, distance from the line y = 0 (m), rates of roll and pitch, of yaw (rad/s)."""

LAST = 0.3
"""Weight of the last state, beside the mean of all."""

WORST = 1e9
"""Cost of a rollout whose numbers are not finite."""

TERRAINS: MappingProxyType[str, tuple[tuple[float, float, float], ...]] = MappingProxyType(
    {
        "flat": (),
        "steps": ((0.8, 1.4, 0.05), (1.4, 2.0, 0.1), (2.0, 2.6, 0.05), (3.2, 3.8, 0.05), (4.2, 4.6, 0.05),
                  (5.0, 9.0, 0.05)),
    }
)  # fmt: skip
"""Blocks across the way: from x to x, and height (m)."""


@dataclass(frozen=True, slots=True)
class Replan:
    """Time (s) of a replan, cost of the plan before it and of the best sample, worst residual of all steps (m/s).

    ``duration`` is the time that it took (s).
    """

    time: float
    cost: float
    best: float
    residual: float
    duration: float


class MPPI:
    """Controller of a quadruped on a free joint, with `LEGS` of three joints, on a floor with boxes.

    Runs are the same for the same seed of the simulator. At a time that does not follow the last one, as after a
    restart or from a checkpoint, the plan begins anew.

    Attributes
    ----------
    ground : Ground
        What rollouts know of it.
    paths : (5, T, 3) array
        Places `ABOVE` the base, where they can be seen, and of the four feet along the best rollout.
    replans : list of Replan
        So far.
    """

    def __init__(self, scene: Scene, samples: int = SAMPLES) -> None:
        tree, feet = scene.tree, [f"{leg}_foot" for leg in LEGS]
        contacts = [Contact(foot, Sphere(FOOT_RADIUS), "input", friction=FRICTION) for foot in feet]
        self._step = compile(
            tree, contacts, "contact_step", gravity=scene.gravity, dtype="float32", control="pd", passive="none",
            limits=False, sweeps=20, tolerance=1e-3, wait=False,
        )  # fmt: skip
        self._places = compile(tree, (), "kinematics", frames=feet, wait=False)
        self._rod, self._limit, self._samples = rod_of(tree), tree.effort_limit[6:], samples
        self._gains: dict[str, Any] = {
            name: np.full(tree.nv, x, np.float32) for name, x in (("kp", STIFFNESS), ("kd", DAMPING))
        }
        self.ground = Ground(scene)
        self._times = STEP * np.arange(HORIZON)
        knots = np.linspace(0.0, HORIZON * STEP, KNOTS)
        hats = np.eye(KNOTS)
        self._between, self._later = (
            np.stack([np.interp(t, knots, hat) for hat in hats], axis=-1) for t in (self._times, knots + REPLAN)
        )
        self.replans: list[Replan] = []
        self._number = -1

    def __call__(self, sim: Simulator) -> Array:
        """Joint forces (nv,) at the state of a simulator: PD control towards the plan."""
        number = int(sim.time / REPLAN + 1e-6)
        if number != self._number:
            if number != self._number + 1 or number == 0:
                self._begin(sim)
            self._number = number
            self._replan(sim)
        target = self._targets[int((sim.time - number * REPLAN) / STEP + 1e-6)]
        tau = np.zeros_like(sim.v)
        forces = STIFFNESS * (target - sim.q[7:]) - DAMPING * sim.v[6:]
        tau[6:] = np.clip(forces, -self._limit, self._limit)
        return tau

    def _begin(self, sim: Simulator) -> None:
        self.replans.clear()
        self._plan = np.zeros((KNOTS, 12))
        self._impulses = np.zeros(12, np.float32)
        self.paths = np.repeat(self._path(sim.q)[:, None], HORIZON, axis=1)

    def _replan(self, sim: Simulator) -> None:
        began = perf_counter()
        rng = np.random.default_rng((sim.seed, self._number))
        trot = self._trot(sim.time)
        plan = self._later @ self._plan
        noise = rng.standard_normal((KNOTS, self._samples, 12), dtype=np.float32) * NOISE.astype(np.float32)
        noise[:, 0] = 0.0  # the plan itself
        candidates = plan[:, None].astype(np.float32) + noise
        targets = np.zeros((HORIZON, self._samples, 19), np.float32)
        offsets = np.einsum("tk,knj->tnj", self._between.astype(np.float32), candidates)
        np.add(offsets, trot[:, None], out=targets[..., 7:])
        heights = self.ground.below(self.paths[1:], FOOT_RADIUS)
        ground: dict[str, Any] = {f"ground{k}": _level(z) for k, z in enumerate(heights)}
        q, v, impulses, residuals, _ = rollout(
            self._step, sim.q.astype(np.float32), sim.v.astype(np.float32), targets, STEP, time_axis=0,
            per_step=list(ground), return_status=True, impulses=self._impulses, **self._gains, **ground,
        )  # fmt: skip
        wanted = HEIGHT + FOOT_RADIUS + self.ground.mean(self.paths[0])
        costs = np.nan_to_num(_costs(q[1:], v[1:], _speed(sim.time), wanted), nan=WORST, posinf=WORST)
        best = int(costs.argmin())
        spread = TEMPERATURE * (np.median(costs) - costs[best])
        weights = np.exp(-(costs - costs[best]) / max(spread, 1e-9))
        self._plan = np.einsum("n,knj->kj", weights / weights.sum(), candidates)
        self._targets = trot + self._between @ self._plan
        self._follow(q[:, best], impulses[:, best])
        figures = float(costs[0]), float(costs[best]), float(residuals.max())
        self.replans.append(Replan(sim.time, *figures, perf_counter() - began))

    def _follow(self, q: Array, impulses: Array) -> None:
        """Keep what the next replan starts from: a rollout from then on."""
        gone = round(REPLAN / STEP)
        self._impulses = impulses[gone]
        paths = self._path(q.astype(float)).swapaxes(0, 1)
        last = np.repeat(paths[:, -1:], gone - 1, axis=1)
        self.paths = np.concatenate([paths[:, gone:], last], axis=1)

    def _path(self, q: Array) -> Array:
        """Places (..., 5, 3) of the base, and of the feet, at configurations (..., nq)."""
        base = q[..., None, :3] + np.array([0.0, 0.0, ABOVE])
        return np.concatenate([base, self._places(q)[..., :3, 3]], axis=-2)

    def _trot(self, time: float) -> Array:
        """Joint targets (T, 12) of a trot from a time on: feet that stand go back at the wanted speed."""
        later = np.isin(np.arange(4), PAIRS[1])
        phase = ((time + self._times)[:, None] / PERIOD + 0.5 * later) % 1.0
        swing, stand = np.minimum(phase / SWING, 1.0), np.maximum((phase - SWING) / (1.0 - SWING), 0.0)
        swings, stride = phase < SWING, _speed(time) * PERIOD * (1.0 - SWING)
        ahead = np.where(swings, -0.5 * stride * np.cos(np.pi * swing), stride * (0.5 - stand))
        up = np.where(swings, LIFT * np.sin(np.pi * swing), -PRESS)
        return leg_angles(self._rod, HEIGHT - up, ahead, 0.0).reshape(HORIZON, 12).astype(np.float32)


def _speed(time: float) -> float:
    return SPEED * min(time / RAMP, 1.0)


def _level(heights: Array) -> NDArray[np.float32]:
    """Heights (T,) as level ground below one contact point, the same for all samples (T, 1, 1, 4)."""
    out = np.zeros((len(heights), 1, 1, 4), np.float32)
    out[..., 0], out[..., 3] = heights[:, None, None], 1.0
    return out


def _costs(q: Array, v: Array, speed: float, height: Array) -> Array:
    """Cost (N,) of rollouts (T, N, …), for a speed (m/s) and the base at a height (T,) in the world (m)."""
    y, z = q[..., 1], q[..., 2]
    i, j, k, r = (q[..., n] for n in range(3, 7))
    w = COSTS
    costs = w["speed"] * (v[..., 0] - speed) ** 2 + w["sideways"] * v[..., 1] ** 2 + w["climb"] * v[..., 2] ** 2
    costs += w["height"] * (z - height[:, None].astype(np.float32)) ** 2
    costs += 4.0 * w["level"] * ((i * k + j * r) ** 2 + (j * k - i * r) ** 2)
    costs += 4.0 * w["heading"] * (i * j + k * r) ** 2 + w["course"] * y**2
    costs += w["rocking"] * (v[..., 3] ** 2 + v[..., 4] ** 2) + w["turning"] * v[..., 5] ** 2
    total: Array = costs.mean(axis=0) + LAST * costs[-1]
    return total


class Ground:
    """Heights of a floor z = 0 with the boxes of a scene's world on it."""

    def __init__(self, scene: Scene) -> None:
        boxes = [(c.position, c.shape) for c, link in zip(scene.colliders, scene.links.tolist(), strict=True)
                 if link < 0 and isinstance(c.shape, Box)]  # fmt: skip
        self._centres = np.array([p[:2] for p, _ in boxes]).reshape(-1, 2)
        self._halves = np.array([(b.x / 2, b.y / 2) for _, b in boxes]).reshape(-1, 2)
        self._tops = np.array([p[2] + b.z / 2 for p, b in boxes])

    def below(self, points: Array, reach: float) -> Array:
        """The greatest height (...) within ``reach`` of points (..., 3) along x and y."""
        away = np.abs(points[..., None, :2] - self._centres) - self._halves
        return np.asarray(np.where((away <= reach).all(axis=-1), self._tops, 0.0).max(axis=-1, initial=0.0))

    def mean(self, points: Array) -> Array:
        """Mean height (...) below a trunk with legs at points (..., 3); boxes do not overlap."""
        half = np.array([TRUNK[0], TRUNK[0]]) * 0.7
        at = points[..., None, :2]
        highest = np.minimum(at + half, self._centres + self._halves)
        lowest = np.maximum(at - half, self._centres - self._halves)
        parts = np.maximum((highest - lowest) / (2.0 * half), 0.0).prod(axis=-1)
        return np.asarray(parts @ self._tops)


def mppi(terrain: str = "flat", *, generic: bool = False, samples: int = SAMPLES) -> ReadyScene:
    """Quadruped that trots ahead by sampling model-predictive control.

    Parameters
    ----------
    terrain : {"flat", "steps"}
        With steps, it goes over blocks 5 cm high and up and down stairs of 5 cm.
    generic : bool
        As in `quadruped`.
    samples : int
        Rollouts of each replan.

    Raises
    ------
    UnknownNameError
        No such terrain.

    Examples
    --------
    >>> ready = mppi("steps", generic=True)
    >>> len(ready.scene.colliders)
    12
    """
    if terrain not in TERRAINS:
        raise unknown_name("terrain", terrain, TERRAINS)
    blocks = [
        Collider("world", Box(end - start, 4.0, top), ((start + end) / 2, 0.0, top / 2), friction=FRICTION,
                 name=f"block{k + 1}") for k, (start, end, top) in enumerate(TERRAINS[terrain])
    ]  # fmt: skip
    scene = on_floor(generic_quadruped() if generic else go1(), *blocks)
    tree = scene.tree
    controller = MPPI(scene, check_whole("samples", samples, "1024 is usual.", least=2))
    q0 = tree.neutral()
    q0[7:] = np.tile(leg_angles(rod_of(tree), HEIGHT, 0.0, 0.0), 4)
    q0[2] = HEIGHT + FOOT_RADIUS
    told = f"{tree.name} trots ahead by sampling model-predictive control"
    return ReadyScene("mppi", scene, q0, np.zeros(tree.nv), 2e-3, controller, 10.0, told)
