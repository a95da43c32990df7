"""Stable-Baselines3 and rsl_rl train `ArmReach` through `delassus.gym.adapters`: ``python benchmarks/adapters.py``.

Each uses its own proximal policy optimisation on one thread. The program prints the reward a second of the policy,
without noise in the actions, before and after training, and the control steps a second. It fails if a policy does not
improve. It needs the extras ``[sb3,rsl-rl]``.
"""

import argparse
import contextlib
import io
import time
from collections.abc import Callable
from importlib.metadata import version

import numpy as np

import delassus.gym
from delassus.gym import adapters

WORLDS, STEPS, SEED = 256, 24, 0
"""Number of robots, control steps of an iteration, and seed."""

BETTER = 0.3
"""Smallest improvement of the reward a second: a quarter of what these libraries gain in 60 iterations."""

HIDDEN, RATE, DEVIATION = (64, 64), 1e-3, 0.6
"""Hidden layers and step size of all networks; initial standard deviation of actions."""

NETWORK = {"class_name": "MLPModel", "hidden_dims": HIDDEN, "activation": "tanh", "obs_normalization": True}
SETTINGS = {
    "num_steps_per_env": STEPS,
    "save_interval": 10**9,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "algorithm": {"class_name": "PPO", "learning_rate": RATE},
    "actor": {**NETWORK, "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": DEVIATION}},
    "critic": NETWORK,
}
"""Configuration of rsl_rl's runner."""

Policy = Callable[[np.ndarray], np.ndarray]


def score(act: Policy) -> float:
    """Mean reward a second of a policy over one episode of 128 robots."""
    envs = delassus.gym.ArmReach(128, threads=1)
    seen, _ = envs.reset(seed=12345)
    total = 0.0
    for _ in range(envs.longest):
        seen, rewards, *_ = envs.step(act(seen))
        total += float(rewards.mean())
    return total / (envs.longest * envs.control)


def by_stable_baselines3(iterations: int) -> tuple[Policy, Callable[[], object]]:
    """Policy, and a function that trains it."""
    import stable_baselines3

    envs = adapters.stable_baselines3(delassus.gym.ArmReach(WORLDS, threads=1))
    learner = stable_baselines3.PPO(
        "MlpPolicy", envs, n_steps=STEPS, batch_size=WORLDS * STEPS // 4, n_epochs=5, learning_rate=RATE, seed=SEED,
        policy_kwargs={"net_arch": list(HIDDEN), "log_std_init": float(np.log(DEVIATION))}, device="cpu",
    )  # fmt: skip
    return (
        lambda seen: learner.predict(seen, deterministic=True)[0],
        lambda: learner.learn(iterations * STEPS * WORLDS),
    )


def by_rsl_rl(iterations: int) -> tuple[Policy, Callable[[], object]]:
    """Policy, and a function that trains it."""
    import torch
    from rsl_rl.runners import OnPolicyRunner

    torch.manual_seed(SEED)
    envs = delassus.gym.ArmReach(WORLDS, threads=1)
    envs.reset(seed=SEED)
    runner = OnPolicyRunner(adapters.rsl_rl(envs), SETTINGS)

    def act(seen: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return runner.get_inference_policy("cpu")({"policy": torch.from_numpy(seen)}).numpy()

    return act, lambda: runner.learn(iterations, init_at_random_ep_len=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=100, help=f"of {STEPS} control steps of {WORLDS} robots")
    iterations = parser.parse_args().iterations
    import torch

    torch.set_num_threads(1)
    for package, made in (("stable-baselines3", by_stable_baselines3), ("rsl-rl-lib", by_rsl_rl)):
        with contextlib.redirect_stdout(io.StringIO()):
            act, learn = made(iterations)
            before, start = score(act), time.perf_counter()
            learn()
            seconds, after = time.perf_counter() - start, score(act)
        rate = iterations * STEPS * WORLDS / seconds
        print(f"| {package} {version(package)} | {before:.2f} | {after:.2f} | {rate:,.0f} |", flush=True)
        if not after > before + BETTER:
            raise SystemExit(f"{package}: the policy has not improved by {BETTER} a second")
