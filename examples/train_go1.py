"""Go1 learns to walk by evolution strategies, in minutes on two cores, and shows its walk in the browser.

The policy is linear: targets of joints from the observation of `delassus.gym.Go1Velocity`, scaled by its mean and
deviation. Each iteration tries `DIRECTIONS` random changes of it and their opposites, each in a few worlds with other
friction and payload; the gradient is that of ranks (Salimans, Ho, Chen, Sidor, Sutskever 2017), the step Adam's.

    python examples/train_go1.py --minutes 20 --plot curve.png --view
"""

import argparse
import time

import numpy as np

import delassus as ds
import delassus.gym
from delassus.gym.go1 import DAMPING, HEIGHT, STANCE, STIFFNESS
from delassus.simulate.recording import Recorder, Recording
from delassus.simulate.scenes.quadruped import on_floor
from delassus.simulate.viewer import view

DIRECTIONS, WORLDS, HORIZON = 128, 4, 300
"""Pairs of an iteration, worlds for each of its policies, control steps."""

NOISE, RATE = 0.05, 0.02
"""Standard deviation of changes; step of Adam."""

TOLD = (0.6, 0.0, 0.0)
"""Velocity that the robot is told: ahead and sideways (m/s), turning (rad/s)."""


class Policy:
    """Linear, of observations of zero mean and unit deviation."""

    def __init__(self, observed: int, actions: int) -> None:
        self.W = np.zeros((actions, observed))
        self.mean, self.squares, self.count = np.zeros(observed), np.ones(observed), 1.0

    def see(self, observations: np.ndarray) -> None:
        """Take up observations in mean and deviation."""
        n = len(observations)
        self.count += n
        self.mean += (observations.mean(axis=0) - self.mean) * n / self.count
        self.squares += ((observations**2).mean(axis=0) - self.squares) * n / self.count

    def scaled(self, observations: np.ndarray) -> np.ndarray:
        """Observations as the policy takes them."""
        deviation = np.sqrt(np.maximum(self.squares - self.mean**2, 1e-4))
        return np.clip((observations - self.mean) / deviation, -5, 5).astype(np.float32)


def returns(envs: delassus.gym.Worlds, policies: np.ndarray, policy: Policy, seed: int) -> np.ndarray:
    """Sum of rewards of each policy (k, actions, observed) until its first episode ends, the mean of its worlds."""
    observations, _ = envs.reset(seed=seed)
    weights = policies.astype(np.float32).transpose(0, 2, 1)
    total, alive = np.zeros(envs.num_envs), np.ones(envs.num_envs, bool)
    for k in range(HORIZON):
        if k % 10 == 0:
            policy.see(observations)
        x = policy.scaled(observations).reshape(len(policies), -1, observations.shape[1])
        observations, rewards, terminated, truncated, _ = envs.step((x @ weights).reshape(envs.num_envs, -1))
        alive &= ~(terminated | truncated)
        total += alive * rewards
    return total.reshape(len(policies), -1).mean(axis=1)


def train(minutes: float, seed: int) -> tuple[Policy, list[tuple[float, float]]]:
    """A policy, and the curve of its mean return over the time (s)."""
    envs = delassus.gym.Go1Velocity(2 * DIRECTIONS * WORLDS, told=TOLD, episode=HORIZON * 0.02 + 1)
    policy = Policy(50, 12)
    rng, m, s, curve, begin = np.random.default_rng(seed), 0.0, 0.0, [], time.perf_counter()
    while time.perf_counter() - begin < 60 * minutes:
        k = len(curve) + 1
        changes = rng.normal(size=(DIRECTIONS, *policy.W.shape))
        tried = policy.W + NOISE * np.concatenate([changes, -changes])
        found = returns(envs, tried, policy, seed=k)
        ranks = found.argsort().argsort() / (len(found) - 1) - 0.5
        gradient = np.tensordot(ranks[:DIRECTIONS] - ranks[DIRECTIONS:], changes, 1) / (DIRECTIONS * NOISE)
        gradient -= 0.005 * policy.W
        m, s = 0.9 * m + 0.1 * gradient, 0.99 * s + 0.01 * gradient**2
        policy.W = policy.W + RATE * (m / (1 - 0.9**k)) / (np.sqrt(s / (1 - 0.99**k)) + 1e-8)
        curve.append((time.perf_counter() - begin, float(found.mean())))
        if k % 10 == 0:
            print(f"{k:5d} iterations, {curve[-1][0]:5.0f} s: return {curve[-1][1]:6.2f}", flush=True)
    return policy, curve


def walk(policy: Policy, duration: float) -> Recording:
    """The policy in `Simulator`, which knows the whole robot: true shapes, limits and friction of joints."""
    envs = delassus.gym.Go1Velocity(1, told=TOLD)
    envs.reset(seed=0)
    start, on_joints = envs.tree.neutral(), np.r_[np.zeros(6), np.ones(12)]
    start[2], start[7:] = HEIGHT + 0.02, np.tile(STANCE, 4)
    sim = ds.Simulator(
        on_floor(envs.tree), q0=start, dt=1e-3, control="pd", kp=STIFFNESS * on_joints, kd=DAMPING * on_joints
    )

    def target(sim: ds.Simulator) -> np.ndarray:
        if sim.steps % 20 == 0:
            envs.q[0], envs.v[0], envs.steps[0] = sim.q, sim.v, sim.steps // 20
            envs.observe(np.arange(1))
            envs.actions[:] = np.clip(policy.scaled(envs.observations) @ policy.W.T, -1, 1)
        return envs.controls()[0][0]

    return sim.run(duration, target, record=Recorder(every=10))


def main() -> None:
    """Train, then say how far the robot walks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", help="draw the curve of returns into this file")
    parser.add_argument("--view", action="store_true", help="show the walk in the browser, until Ctrl-C")
    options = parser.parse_args()
    policy, curve = train(options.minutes, options.seed)
    envs = delassus.gym.Go1Velocity(64, told=TOLD)
    observations, _ = envs.reset(seed=12345)
    speeds, ends = [], 0
    for _ in range(500):
        observations, _, terminated, _, _ = envs.step(policy.scaled(observations) @ policy.W.T)
        speeds.append(observations[:, 3].mean())
        ends += int(terminated.sum())
    print(f"64 robots, 10 s: {np.mean(speeds[50:]):.2f} m/s ahead (told {TOLD[0]}), {ends} falls")
    recording = walk(policy, 10.0)
    print(f"in the simulator of whole robots: {recording.q[-1, 0]:.2f} m in {recording.time[-1]:.0f} s")
    if options.plot:
        draw(curve, options.plot)
    if options.view:
        view(recording)


def draw(curve: list[tuple[float, float]], path: str) -> None:
    """Mean returns of all policies that were tried, over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.subplots()
    seconds, found = np.array(curve).T
    axes.plot(seconds / 60, found)
    axes.axhline(1.5 * HORIZON * 0.02, color="0.6", linestyle="--", linewidth=1)
    axes.annotate("most that can be had", (0, 1.5 * HORIZON * 0.02), xytext=(4, -12), textcoords="offset points")
    axes.set(xlabel="time on two cores (min)", ylabel="return of 6 s", title="Go1 learns to walk at 0.6 m/s")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
