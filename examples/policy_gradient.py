"""The slope of a return by the parameters of a policy, back through steps of contact: for `train.py --gradient`.

Robots live some control steps; what they gain in these and the value of where they come to is differentiated, as in
Xu, Makoviychuk, Narang, Ramos, Matusik, Garg, Macklin 2022 (SHAC). Steps in time are differentiated by
``ds.rollout(kernel.derivative("vjp"), …)``, networks by `Network.back`, observation and reward of `Go1Velocity` by
hand, below.

    python examples/policy_gradient.py  # compares with differences
"""

from __future__ import annotations

import numpy as np

import delassus as ds
from delassus.gym.go1 import REACH

UP, VELOCITY, TURNING, COMMAND = slice(0, 3), slice(3, 6), slice(6, 9), slice(9, 12)
JOINTS, RATES, ACTIONS = slice(12, 24), slice(24, 36), slice(36, 48)
"""Places in an observation of `Go1Velocity`."""


def of_reward(o: np.ndarray, before: np.ndarray, control: float) -> tuple[np.ndarray, np.ndarray]:
    """Slopes of the reward by the observation after a step (n, 50), and by the action before it (n, 12)."""
    slope = np.zeros_like(o)
    away, turn = o[:, VELOCITY][:, :2] - o[:, COMMAND][:, :2], o[:, 8] - o[:, 11]
    slope[:, 3:5] = -8.0 * np.exp(-4.0 * (away**2).sum(axis=1, keepdims=True)) * away
    slope[:, 5] = -4.0 * o[:, 5]
    slope[:, 6:8] = -0.1 * o[:, 6:8]
    slope[:, 8] = -4.0 * np.exp(-4.0 * turn**2) * turn
    slope[:, 0:2] = -o[:, 0:2]
    slope[:, ACTIONS] = -0.02 * (o[:, ACTIONS] - before)
    slope *= control
    return slope, -slope[:, ACTIONS]


def of_observation(q: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slopes by the state, q (n, 19) and v (n, 18), of what has this slope by the observation (n, 50)."""
    by_q, by_v = np.zeros_like(q), np.empty((len(q), 18), np.float32)
    x, y, z, w = q[:, 3:7].T
    a, b, c = 2.0 * slope[:, UP].T
    by_q[:, 3:7] = np.transpose([a * z + b * w - 2 * c * x, b * z - a * w - 2 * c * y, a * x + b * y, b * x - a * y])
    by_q[:, 7:], by_v[:, :6], by_v[:, 6:] = slope[:, JOINTS], slope[:, 3:9], 0.1 * slope[:, RATES]
    return by_q, by_v


def through_steps(kernel: ds.Kernel, path: dict, by_q: np.ndarray, by_v: np.ndarray) -> tuple[np.ndarray, ...]:
    """Slopes by state and joint targets at the start of a path; and which robots have one, that of others is zero."""
    rest, steps = dict(path), len(path["q"]) - 1
    states, target, dt = [rest.pop(name) for name in ("q", "v")], rest.pop("q_target")[None], rest.pop("dt")
    for name, x in (("q_next_bar", by_q), ("v_next_bar", by_v)):
        rest[name] = np.zeros((steps, *x.shape), np.float32)
        rest[name][-1] = x
    back = kernel.derivative("vjp")
    by_q, by_v, _, by_target, *_, status = ds.rollout(
        back, *states, target, dt, decimation=steps, time_axis=0, threads=1, return_status=True, **rest
    )
    found = by_q, by_v, by_target[0]
    right = (status == ds.DynamicsStatus.SOLVED).all(axis=0) & np.isfinite(sum(x.sum(axis=1) for x in found))
    return *(np.where(right[:, None], x, np.float32(0.0)) for x in found), right


def slopes_of_return(envs, learner, moments, discount: float, most: float = 0.0) -> tuple[list[np.ndarray], float]:
    """Of the mean return by the policy's parameters, and the part of all control steps that have no derivative.

    These are cut out: what comes later is held there. Episodes end with the value of what is seen last, falls
    too: a fall has no slope, values that are learned to be zero there have one. With ``most``, slopes by a robot's
    velocities that are longer than that many medians of all robots are shortened: few robots would outweigh the others.
    """
    policy, deviation, wrong, n = learner.policy, np.exp(learner.policy.parameters[0]), 0, len(moments[0].values)
    slopes: list[np.ndarray] = [np.zeros_like(p) for p in policy.parameters]
    by_q = by_v = by_before = 0.0
    ahead = learner.slope_of_value(moments[-1].after)
    for k, m in reversed(list(enumerate(moments))):
        ended = m.terminated | m.truncated
        later = discount * (~ended)[:, None].astype(np.float32)
        if ended.any():
            ahead[ended] = learner.slope_of_value(m.after[ended])
        slope, next_by_before = of_reward(m.after, m.before, envs.control)
        slope += discount * ahead
        of_q, of_v = of_observation(m.path["q"][-1], slope)
        of_q, of_v = of_q + later * by_q, of_v + later * by_v
        of_action = slope[:, ACTIONS] + later * by_before
        by_q, by_v, by_target, right = through_steps(envs.kernel, m.path, of_q, of_v)
        size = np.linalg.norm(by_v, axis=1, keepdims=True)
        short = np.minimum(1.0, most * np.median(size) / np.maximum(size, 1e-9)) if most else np.float32(1.0)
        by_q, by_v, by_target = by_q * short, by_v * short, by_target * short
        wrong += np.count_nonzero(~right)
        by_before = next_by_before
        of_action = (of_action + REACH * by_target[:, 7:]) * (np.abs(m.actions) < 1)
        policy(m.seen)
        of_weights, of_seen = policy.back(of_action)
        for total, x in zip(slopes, [(of_action * m.noise * deviation).sum(axis=0), *of_weights], strict=True):
            total += discount**k / n * x
        ahead = learner.unscaled(of_seen, m.seen)
    return slopes, wrong / (n * len(moments))


def main() -> None:
    """Compare with differences of returns of 64 robots over four control steps, twenty in time."""
    from train import DISCOUNT, Learner, live

    from delassus.gym import Go1Velocity

    def lived(change: list[np.ndarray], size: float) -> tuple[float, Go1Velocity, Learner, list]:
        """The mean return of a changed policy, and what it is made of."""
        envs, learner = Go1Velocity(64), Learner(50, 12, 0)
        envs.reset(seed=0)
        learner.count = 1e12  # the scale of observations stays
        learner.policy.parameters[-2] *= 30
        live(envs, learner, 5)
        learner.policy.parameters = [p + size * x for p, x in zip(learner.policy.parameters, change, strict=True)]
        moments = live(envs, learner, 4)
        gained = [*(m.rewards for m in moments), learner.value(learner.scaled(moments[-1].after))[:, 0]]
        return sum(DISCOUNT**k * float(x.mean(dtype=float)) for k, x in enumerate(gained)), envs, learner, moments

    slopes, wrong = slopes_of_return(*lived([0.0] * 7, 0.0)[1:], DISCOUNT)
    size = np.sqrt(sum(float((x**2).sum()) for x in slopes))
    difference = (lived(slopes, 3e-3 / size)[0] - lived(slopes, -3e-3 / size)[0]) / 6e-3
    print(f"steepest slope of the return {size:.4f}, by differences {difference:.4f}; {wrong:.1%} without derivatives")
    if not abs(difference - size) < 0.05 * size:
        raise SystemExit("they differ by more than switches of contacts, 5 %")


if __name__ == "__main__":
    main()
