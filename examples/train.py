"""A robot of `delassus.gym` learns its task by proximal policy optimisation, in NumPy, in minutes on one core.

Policy and value are small networks, of observations scaled by their mean and deviation (Schulman, Wolski, Dhariwal,
Radford, Klimov 2017); the step size follows the divergence of the policy from the one before, as in Rudin, Hoeller,
Reist, Hutter 2021. Go1 learns to follow velocity commands, at random: ahead, sideways, turning.

    python examples/train.py --env Go1Velocity --minutes 10 --plot curve.png --view

With ``--gradient`` Go1 learns by derivatives of what it does, through contact: `policy_gradient`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from policy_gradient import slopes_of_return

import delassus as ds
import delassus.gym
from delassus.gym.go1 import DAMPING, HEIGHT, STANCE, STIFFNESS
from delassus.pictures.video import write_video
from delassus.pictures.viewer import view
from delassus.scenes.quadruped import on_floor
from delassus.simulate.recording import Recorder, Recording

WORLDS = {"Go1Velocity": 2048, "HumanoidStand": 512, "ArmReach": 1024}
"""Environments, and how many robots learn at a time."""

STEPS, EPOCHS, PARTS = 24, 3, 4
"""Control steps of an iteration; how often, and in how many parts, all are learned from."""

GRADIENT, NEAR, NOISE, RATE, MOST = (256, 24), 0.97, 0.4, 2e-3, 1.5
"""Of `--gradient`: robots and control steps of an iteration, γ, deviation of actions at the start, step size, and what
slopes of a robot are shortened to, over their median."""

DISCOUNT, TRACE, CLIP, DIVERGENCE, ENTROPY = 0.99, 0.95, 0.2, 0.01, 0.002
"""γ and λ of the advantage; bound on the ratio of probabilities; wanted divergence; weight of the entropy."""

TOUR, LEG = ((0.7, 0.0, 0.0), (0.5, 0.0, 0.8), (0.0, 0.3, 0.0)), 2.0
"""Commands of Go1 when it is shown: ahead and sideways (m/s), turning (rad/s); and each for how long (s)."""


class Network:
    """Layers of tanh, the last one linear, with Adam's method."""

    def __init__(self, sizes: tuple[int, ...], last: float, rng: np.random.Generator) -> None:
        self.parameters = [np.zeros(sizes[-1], np.float32)]  # logarithms of deviations, for a policy
        for k, (a, b) in enumerate(pairwise(sizes)):
            scale = (last if k == len(sizes) - 2 else 1.0) / np.sqrt(a)
            self.parameters += [(scale * rng.normal(size=(a, b))).astype(np.float32), np.zeros(b, np.float32)]
        self.means, self.squares = ([np.zeros_like(p) for p in self.parameters] for _ in range(2))
        self.count = 0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Outputs (n, b) for inputs (n, a)."""
        self.seen = [x]
        for W, b in zip(self.parameters[1::2], self.parameters[2::2], strict=True):
            x = x @ W + b
            self.seen.append(x if W is self.parameters[-2] else np.tanh(x, out=x))
        return x

    def back(self, slope: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Slopes by weights, and by inputs (n, a) of the last call, of what has this slope by its outputs (n, b)."""
        slopes: list[np.ndarray] = []
        for k in range(len(self.seen) - 2, -1, -1):
            slopes[:0] = [self.seen[k].T @ slope, slope.sum(axis=0)]
            slope = slope @ self.parameters[2 * k + 1].T
            if k:
                slope *= 1 - self.seen[k] ** 2
        return slopes, slope

    def descend(self, slopes: list[np.ndarray], rate: float) -> None:
        """A step against the slopes of a loss by all parameters."""
        size = np.sqrt(sum(float((s**2).sum()) for s in slopes))
        self.count += 1
        for p, m, v, s in zip(self.parameters, self.means, self.squares, slopes, strict=True):
            s = s * min(1.0, 1.0 / (size + 1e-9))
            m += 0.1 * (s - m)
            v += 0.001 * (s**2 - v)
            p -= rate * (m / (1 - 0.9**self.count)) / (np.sqrt(v / (1 - 0.999**self.count)) + 1e-8)


class Learner:
    """Policy and value, and the scale of observations."""

    def __init__(self, observed: int, actions: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.policy = Network((observed, 64, 64, actions), 0.01, self.rng)
        self.policy.parameters[0] -= 0.5
        self.value = Network((observed, 64, 64, 1), 1.0, self.rng)
        self.mean, self.square, self.count, self.rate = np.zeros(observed), np.ones(observed), 1.0, 1e-3

    @property
    def deviation(self) -> np.ndarray:
        """Of observations (n,)."""
        return np.sqrt(np.maximum(self.square - self.mean**2, 1e-4))

    def scaled(self, observations: np.ndarray) -> np.ndarray:
        """Observations of zero mean and unit deviation."""
        return np.clip((observations - self.mean) / self.deviation, -5, 5).astype(np.float32)

    def unscaled(self, slope: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The slope by observations of what has this slope by scaled ones."""
        return (slope * (np.abs(x) < 5) / self.deviation).astype(np.float32)

    def slope_of_value(self, observations: np.ndarray) -> np.ndarray:
        """Of the value by observations (n, a)."""
        x = self.scaled(observations)
        return self.unscaled(self.value.back(np.ones_like(self.value(x)))[1], x)

    def act(self, observations: np.ndarray) -> np.ndarray:
        """The likeliest actions."""
        return self.policy(self.scaled(observations))

    def see(self, observations: np.ndarray) -> None:
        """Take up observations in mean and deviation."""
        self.count += len(observations)
        part = len(observations) / self.count
        self.mean += part * (observations.mean(axis=0) - self.mean)
        self.square += part * ((observations.astype(float) ** 2).mean(axis=0) - self.square)

    def learn(self, x: np.ndarray, actions: np.ndarray, advantages: np.ndarray, returns: np.ndarray) -> None:
        """Better actions in the observations (n, a), by what came of those (n, b) that were taken."""
        before, deviation = self.policy(x), np.exp(self.policy.parameters[0])
        chance = -0.5 * (((actions - before) / deviation) ** 2).sum(axis=1) - np.log(deviation).sum()
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        for part in self.parts(len(x)):
            mean, sigma, n = self.policy(x[part]), np.exp(self.policy.parameters[0]), len(part)
            away = (actions[part] - mean) / sigma
            ratio = np.exp(-0.5 * (away**2).sum(axis=1) - np.log(sigma).sum() - chance[part])
            gain = advantages[part]
            free = np.where(gain > 0, ratio < 1 + CLIP, ratio > 1 - CLIP)
            slope = -(free * ratio * gain / n)[:, None].astype(np.float32)
            moved = (deviation**2 + (before[part] - mean) ** 2) / (2 * sigma**2) - 0.5 + np.log(sigma / deviation)
            divergence = moved.sum(axis=1).mean()
            if divergence > 2 * DIVERGENCE:
                self.rate = max(self.rate / 1.5, 1e-5)
            elif divergence < DIVERGENCE / 2:
                self.rate = min(self.rate * 1.5, 5e-3)
            of_deviations = (slope * (away**2 - 1)).sum(axis=0) - ENTROPY
            self.policy.descend([of_deviations, *self.policy.back(slope * away / sigma)[0]], self.rate)
            self.foresee(x[part], returns[part])

    def foresee(self, x: np.ndarray, returns: np.ndarray) -> None:
        """Better values of observations (n, a), by what came of them."""
        error = self.value(x)[:, 0] - returns
        slopes, _ = self.value.back((2 * error / len(x))[:, None].astype(np.float32))
        self.value.descend([np.zeros(1, np.float32), *slopes], self.rate)

    def parts(self, n: int) -> list[np.ndarray]:
        """Of ``n`` moments, in another order each time that all are learned from."""
        return [part for _ in range(EPOCHS) for part in np.array_split(self.rng.permutation(n), PARTS)]


class Moment(NamedTuple):
    """A control step of all robots: the last actions and scaled observations before it, new actions, what came of them.

    ``after`` are observations before episodes that end begin anew, ``path`` is that of `delassus.gym.Worlds`.
    """

    before: np.ndarray
    seen: np.ndarray
    actions: np.ndarray
    values: np.ndarray
    noise: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    after: np.ndarray
    path: dict[str, np.ndarray]


def live(envs: delassus.gym.Worlds, learner: Learner, steps: int) -> list[Moment]:
    """Some control steps of all robots."""
    moments = []
    for _ in range(steps):
        before, x = envs.actions.copy(), learner.scaled(envs.observations)
        mean, sigma = learner.policy(x), np.exp(learner.policy.parameters[0])
        noise = learner.rng.standard_normal(mean.shape, np.float32)
        actions, values = mean + sigma * noise, learner.value(x)[:, 0]
        learner.see(envs.observations)
        after, rewards, terminated, truncated, infos = envs.step(actions)
        after = infos.get("final_obs", after)
        moments.append(Moment(before, x, actions, values, noise, rewards, terminated, truncated, after, envs.path))
    return moments


def advantages_of(moments: list[Moment], learner: Learner, discount: float) -> np.ndarray:
    """Of all actions (steps, n): how much more came of them than their values said."""
    found, ahead = [], np.zeros_like(moments[0].values)
    values = learner.value(learner.scaled(moments[-1].after))[:, 0]
    for m in reversed(moments):
        if m.truncated.any():  # what would have come later
            values[m.truncated] = learner.value(learner.scaled(m.after[m.truncated]))[:, 0]
        goes_on = ~(m.terminated | m.truncated)
        ahead = m.rewards + discount * (~m.terminated * values + goes_on * TRACE * ahead) - m.values
        found.insert(0, ahead)
        values = m.values.copy()
    return np.array(found)


def train(
    name: str, minutes: float, seed: int, threads: int | None, gradient: bool = False
) -> Iterator[tuple[Learner, float, float]]:
    """A learner, the processor time it has learned for (min), and its mean reward a second, after each iteration."""
    n, steps = GRADIENT if gradient else (WORLDS[name], STEPS)
    envs = getattr(delassus.gym, name)(n, threads=threads)
    learner = Learner(*envs.single_observation_space.shape, *envs.single_action_space.shape, seed)
    envs.reset(seed=seed * n)  # other seeds have other worlds
    envs.steps[:] = learner.rng.integers(0, envs.longest, n)  # so that episodes do not all end at once
    if gradient:
        envs.kernel.derivative("vjp")  # compiled before time is taken
        learner.rate, learner.policy.parameters[0][:] = RATE, np.log(NOISE)
    spent = 0.0
    while spent < minutes:
        begin = time.process_time()
        moments = live(envs, learner, steps)
        x, actions, values = (np.concatenate(list(column)) for column in list(zip(*moments, strict=True))[1:4])
        gains = advantages_of(moments, learner, NEAR if gradient else DISCOUNT).ravel()
        if gradient:
            # nothing comes after falls; values fall off towards them, which is what tells to keep away
            fallen = np.concatenate([learner.scaled(m.after[m.terminated]) for m in moments])
            x, returns = np.concatenate([x, fallen]), np.concatenate([gains + values, np.zeros(len(fallen))])
            for part in learner.parts(len(x)):
                learner.foresee(x[part], returns[part])
            slopes, _ = slopes_of_return(envs, learner, moments, NEAR, MOST)
            learner.policy.descend([-slope for slope in slopes], learner.rate)
        else:
            learner.learn(x, actions, gains, gains + values)
        spent += (time.process_time() - begin) / 60
        yield learner, spent, float(np.mean([m.rewards for m in moments])) / envs.control


def tracking(learner: Learner) -> str:
    """Table of the mean error of each command of a grid, of 8 robots a command, from 2 s to 8 s."""
    grid = np.array(
        [(a, b, c) for a in (-0.8, -0.4, 0.0, 0.4, 0.8) for b in (-0.3, 0.0, 0.3) for c in (-0.6, 0.0, 0.6)]
    )
    commands = np.repeat(grid, 8, axis=0)
    envs = delassus.gym.Go1Velocity(len(commands))
    observations, _ = envs.reset(seed=12345, options={"command": commands})
    found, falls = [], 0
    for k in range(400):
        observations, _, terminated, _, _ = envs.step(learner.act(observations))
        falls += int(terminated.sum())
        if k >= 100:
            found.append(observations[:, [3, 4, 8]])
    error = np.abs(np.mean(found, axis=0) - commands)
    lines = ["| command ahead (m/s) | error ahead (m/s) | sideways (m/s) | turning (rad/s) |", "|---|---|---|---|"]
    for a in np.unique(grid[:, 0]):
        lines.append(f"| {a:+.1f} | " + " | ".join(f"{x:.3f}" for x in error[commands[:, 0] == a].mean(axis=0)) + " |")
    lines.append("| all | " + " | ".join(f"{x:.3f}" for x in error.mean(axis=0)) + " |")
    return "\n".join([*lines, f"{falls} falls of {len(commands)} robots in 8 s"])


def score(name: str, act: object) -> tuple[float, float]:
    """Reward a second, and ends a minute by falls, of 256 robots over 10 s."""
    envs = getattr(delassus.gym, name)(256)
    observations, _ = envs.reset(seed=12345)
    total, falls = 0.0, 0
    for _ in range(500):
        observations, rewards, terminated, _, _ = envs.step(act(observations))
        total, falls = total + float(rewards.mean()), falls + terminated.mean()
    return total / 10, 6 * falls


def walk(learner: Learner) -> Recording:
    """Go1 on its `TOUR` in `Simulator`, which knows the whole robot: true shapes, limits and friction of joints."""
    envs = delassus.gym.Go1Velocity(1)
    envs.reset(seed=0)
    start, on_joints = envs.tree.neutral(), np.r_[np.zeros(6), np.ones(12)]
    start[2], start[7:] = HEIGHT + 0.02, np.tile(STANCE, 4)
    sim = ds.Simulator(
        on_floor(envs.tree), q0=start, dt=1e-3, control="pd", kp=STIFFNESS * on_joints, kd=DAMPING * on_joints
    )

    def target(sim: ds.Simulator) -> np.ndarray:
        if sim.steps % 20 == 0:
            envs.q[0], envs.v[0], envs.steps[0] = sim.q, sim.v, sim.steps // 20
            envs.command[0] = TOUR[min(int(sim.time / LEG), len(TOUR) - 1)]
            envs.observe(np.arange(1))
            envs.actions[:] = np.clip(learner.act(envs.observations), -1, 1)
        return envs.controls()[0][0]

    return sim.run(LEG * len(TOUR), target, record=Recorder(every=10))


def main() -> None:
    """Train, say what was learned, and show it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", choices=WORLDS, default="Go1Velocity")
    parser.add_argument("--minutes", type=float, default=10.0, help="of processor time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, help="of the simulation; as many as there are processors by default")
    parser.add_argument("--gradient", action="store_true", help="learn by derivatives of steps, Go1Velocity only")
    parser.add_argument("--plot", help="draw the curve of rewards into this file")
    parser.add_argument("--video", help="film Go1 into this .mp4, .webp or .gif file")
    parser.add_argument("--view", action="store_true", help="show Go1 in the browser, until Ctrl-C")
    options = parser.parse_args()
    if options.env != "Go1Velocity" and (options.video or options.view or options.gradient):
        parser.error("--video, --view and --gradient are for Go1Velocity only")
    curve = []
    run = train(options.env, options.minutes, options.seed, options.threads, options.gradient)
    for learner, spent, rewarded in run:  # noqa: B007
        curve.append((spent, rewarded))
        if len(curve) % 10 == 0:
            print(f"{len(curve):5d} iterations, {spent:5.2f} min: reward {rewarded:6.3f} a second", flush=True)
    still = np.zeros((256, learner.policy.parameters[-1].size), np.float32)
    for what, act in (("learned", learner.act), ("no actions", lambda _: still)):
        gained, falls = score(options.env, act)
        print(f"{what}: reward {gained:.3f} a second, {falls:.2f} falls a minute")
    if options.plot:
        draw(options.env, curve, options.plot)
    if options.env == "Go1Velocity":
        print(tracking(learner))
        recording = walk(learner)
        for k, command in enumerate(TOUR):
            half = (recording.time > (k + 0.5) * LEG) & (recording.time < (k + 1) * LEG)
            moves = recording.v[half][:, [0, 1, 5]].mean(axis=0).round(2)
            print(f"in the simulator of whole robots: command {command}, moves by {moves}")
        if options.video:
            write_video(recording, options.video, fps=12, size=(480, 270))
        if options.view:
            view(recording)


def draw(name: str, curve: list[tuple[float, float]], path: str) -> None:
    """Mean rewards over processor time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(*np.array(curve).T)
    axes.set(xlabel="processor time (min)", ylabel="reward a second", title=f"{name} learns")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
