"""Environment steps a second of `delassus.gym`, with random actions and resets: ``python benchmarks/learning.py``."""

import argparse
import time

import numpy as np

import delassus.gym

MADE = {
    "Go1Velocity": (delassus.gym.Go1Velocity, 4096),
    "HumanoidStand": (delassus.gym.HumanoidStand, 1024),
    "ArmReach": (delassus.gym.ArmReach, 4096),
}


def rate(name: str, threads: int, steps: int, rounds: int) -> float:
    """The best of some rounds of steps."""
    make, n = MADE[name]
    envs = make(n, threads=threads)
    envs.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-0.5, 0.5, (steps, *envs.action_space.shape)).astype(np.float32)
    best = np.inf
    for _ in range(rounds):
        start = time.perf_counter()
        for a in actions:
            envs.step(a)
        best = min(best, time.perf_counter() - start)
    return n * steps / best


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few steps only")
    quick = parser.parse_args().quick
    for name, (_, n) in MADE.items():
        found = [rate(name, threads, 5 if quick else 40, 1 if quick else 5) for threads in (1, 2)]
        print(f"| `{name}` | {n:,} | {found[0]:,.0f} | {found[1]:,.0f} |", flush=True)
