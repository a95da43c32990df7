"""The slope of a return by the parameters of a policy, back through steps of contact: for `train.py --gradient`.

Robots live some control steps; what they gain in these and the value of where they come to is differentiated, as in
Xu, Makoviychuk, Narang, Ramos, Matusik, Garg, Macklin 2022 (SHAC). Each step in time is differentiated by
``kernel.derivative("vjp")``, networks by `Network.back`, observation and reward of `Go1Velocity` by hand, below.

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
    """Slopes by state and joint targets at the start of a path, and of which robots all steps have derivatives."""
    back, by_target, right = kernel.derivative("vjp"), 0.0, np.ones(len(by_q), bool)
    names = [a.name for a in kernel.arguments]
    none = {"impulses_next_bar": np.zeros(12, np.float32), "residuals_bar": np.zeros(3, np.float32)}
    for t in reversed(range(len(path["q"]) - 1)):
        # impulses after a step solve it: sweeps end at once
        now = {**path, "q": path["q"][t], "v": path["v"][t], "impulses": path["impulses"][t + 1]}
        *found, status = back(**now, q_next_bar=by_q, v_next_bar=by_v, **none, return_status=True)
        found = dict(zip(names, found, strict=True))
        right &= status == ds.DynamicsStatus.SOLVED
        by_q, by_v, by_target = found["q"], found["v"], by_target + found["q_target"]
    right &= np.isfinite(by_q.sum(axis=1) + by_v.sum(axis=1) + by_target.sum(axis=1))
    return by_q, by_v, by_target, right


def slopes_of_return(envs, learner, moments, discount: float) -> tuple[list[np.ndarray], float]:
    """Of the mean return by the policy's parameters, and the part of all control steps that have no derivative.

    These are cut out: what comes later counts as constant there.
    """
    policy, deviation, wrong, n = learner.policy, np.exp(learner.policy.parameters[0]), 0, len(moments[0].values)
    slopes: list[np.ndarray] = [np.zeros_like(p) for p in policy.parameters]
    by_q = by_v = by_before = 0.0
    ahead = learner.slope_of_value(moments[-1].after)
    for k, m in reversed(list(enumerate(moments))):
        later, whole = (discount * (~x)[:, None].astype(np.float32) for x in (m.terminated | m.truncated, m.terminated))
        if m.truncated.any():
            ahead[m.truncated] = learner.slope_of_value(m.after[m.truncated])
        slope, next_by_before = of_reward(m.after, m.before, envs.control)
        slope += whole * ahead
        of_q, of_v = of_observation(m.path["q"][-1], slope)
        of_q, of_v = of_q + later * by_q, of_v + later * by_v
        of_action = slope[:, ACTIONS] + later * by_before
        by_q, by_v, by_target, right = through_steps(envs.kernel, m.path, of_q, of_v)
        for x in (by_q, by_v, by_target):
            x[~right] = 0.0
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
