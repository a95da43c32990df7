"""iLQR and differential dynamic programming: iterations and time to the optimum, on three problems.

    python benchmarks/second_order.py

Each problem is solved by `ds.ilqr` without and with ``second_order=True``, from the same controls. The optimum is the
least cost that either finds. Printed are iterations and seconds until the cost is within 1e-8 of it, relative to it,
after one run that compiles.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import delassus as ds

CLOSE = 1e-8
"""Of the least cost: what counts as solved."""

MOST = 500
"""Iterations at most."""


class Problem(NamedTuple):
    """A robot, its constraints and options, the start, first controls, time step and residuals."""

    name: str
    tree: ds.Tree
    constraints: list[Any]
    options: dict[str, Any]
    start: tuple[np.ndarray, np.ndarray]
    controls: np.ndarray
    dt: float
    along: Callable[..., np.ndarray]
    last: Callable[..., np.ndarray]
    more: dict[str, Any]


def cart_pole() -> Problem:
    """A cart of 1 kg swings up a pole of 0.1 kg and 1 m within 2 s; only the cart is driven."""
    tree = ds.load(
        """
        <mujoco><worldbody><body name="cart"><joint type="slide" axis="1 0 0"/><geom type="sphere" size=".1" mass="1"/>
          <body name="pole"><joint type="hinge" axis="0 1 0"/>
            <geom type="sphere" size=".02" mass=".1" pos="0 0 -.5"/></body></body></worldbody></mujoco>
        """
    )
    goal = np.array([0.0, np.pi])
    return Problem(
        "cart-pole, swing up", tree, [], {}, (np.zeros(2), np.zeros(2)), np.zeros((100, 2)), 0.02,
        lambda t, q, v, u: 0.1 * u[..., :1], lambda q, v: np.concatenate([30.0 * (q - goal), 10.0 * v], axis=-1),
        {"varied": [0]},
    )  # fmt: skip


def quadruped() -> Problem:
    """Four feet on points: the body goes down by 8 cm and turns by 0.3 rad within 0.5 s; only the legs are driven."""
    tree = ds.mechanisms.star(4, 3, root="floating")
    feet = [ds.Point(f"branch{k}_3") for k in range(1, 5)]
    q0 = tree.random(np.random.default_rng(3))
    shift = np.zeros(tree.nv)
    shift[:6] = 0.0, 0.02, -0.08, 0.1, 0.0, 0.3
    goal = tree.integrate(q0, shift)

    def last(q: np.ndarray, v: np.ndarray) -> np.ndarray:
        off = tree.difference(np.broadcast_to(goal, q.shape), q)
        return np.concatenate([100.0 * off[..., :6], 3.0 * v], axis=-1)

    v0 = np.zeros(tree.nv)
    hold = ds.inverse_dynamics(tree, q0, v0, v0)
    hold[:6] = 0.0
    return Problem(
        "quadruped on four feet", tree, feet, {"baumgarte": 10.0}, (q0, v0), np.tile(hold, (50, 1)), 0.01,
        lambda t, q, v, u: np.concatenate([0.1 * (u[..., 6:] - hold[6:]), 0.1 * v], axis=-1), last,
        {"varied": range(6, tree.nv)},
    )  # fmt: skip


def arm() -> Problem:
    """An arm of seven joints brings its tip to a point, at rest, within 1 s."""
    tree = ds.mechanisms.chain(7)
    place = ds.compile(tree, (), "kinematics", frames=ds.Frame("link7"))
    q0 = 0.3 * np.ones(7)
    goal = place(tree.random(np.random.default_rng(0)))[..., :3, 3]

    def last(q: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.concatenate([100.0 * (place(np.ascontiguousarray(q))[..., :3, 3] - goal), 3.0 * v], axis=-1)

    hold = ds.inverse_dynamics(tree, q0, np.zeros(7), np.zeros(7))
    return Problem(
        "arm of seven joints", tree, [], {}, (q0, np.zeros(7)), np.tile(hold, (50, 1)), 0.02,
        lambda t, q, v, u: np.concatenate([0.05 * u, 0.3 * v], axis=-1), last, {},
    )  # fmt: skip


def solve(problem: Problem, second_order: bool) -> tuple[list[float], list[float]]:
    """Costs and times (s) of all plans."""
    kernels = [
        ds.compile(problem.tree, problem.constraints, name, **problem.options) for name in ("step", "step_derivatives")
    ]
    costs, times, start = list[float](), list[float](), time.perf_counter()
    plans = ds.ilqr(
        *kernels, *problem.start, problem.controls, problem.dt, problem.along, problem.last,
        second_order=second_order, **problem.more,
    )  # fmt: skip
    for _, plan in zip(range(MOST), plans, strict=False):
        costs.append(plan.cost)
        times.append(time.perf_counter() - start)
    return costs, times


def main() -> None:
    """Print a table."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    print("| problem | least cost | iLQR: iterations | s | second order: iterations | s |\n|---|---|---|---|---|---|")
    for make in (cart_pole, quadruped, arm):
        problem = make()
        runs = [[solve(problem, second_order) for _ in range(2)][-1] for second_order in (False, True)]
        least = min(min(costs) for costs, _ in runs)
        cells = []
        for costs, times in runs:
            near = [k for k, cost in enumerate(costs) if cost - least <= CLOSE * least]
            far = f"{min(costs) / least - 1:.0e} after {len(costs) - 1}", f"{times[-1]:.2f}"
            cells += [str(near[0]), f"{times[near[0]]:.2f}"] if near else far
        print(f"| {problem.name} | {least:.6g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
