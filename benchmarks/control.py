"""Time of operational-space control of a batch of arms: ``python benchmarks/control.py``.

Six rows with a pose as target, and a posture. Median, and the fastest tenth, of calls that follow one another.
"""

import argparse
import time

import numpy as np

import delassus as ds


def measured(robot, link, n, dtype, calls):
    """Operations of a state, and times (s) of a call with n states: median and fastest tenth."""
    tree, rng = ds.load(robot), np.random.default_rng(0)
    kernel = ds.compile(
        tree, ds.Weld(link, axes="world"), "control", poses=True, posture=True, outputs="tau", dtype=dtype
    )
    goals = ds.forward_kinematics(tree, tree.random(rng, batch=n), link)[:, :3, 3]
    poses = np.concatenate([goals, np.tile([0.0, 0.0, 0.0, 1.0], (n, 1))], axis=1)
    states = tree.random(rng, batch=n), rng.normal(size=(n, tree.nv)), poses, tree.random(rng, batch=n)
    states, out, times = [x.astype(dtype) for x in states], np.empty((n, tree.nv), dtype), []
    kernel(*states, out=out)
    for _ in range(calls):
        start = time.perf_counter()
        kernel(*states, out=out)
        times.append(time.perf_counter() - start)
    return kernel.operations.total, *np.quantile(times, (0.5, 0.1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("robot", nargs="?", default="panda", help="name or file")
    parser.add_argument("--link", default="panda_link8")
    parser.add_argument("--states", type=int, default=4096)
    parser.add_argument("--calls", type=int, default=1000)
    given = parser.parse_args()
    for dtype in ("float64", "float32"):
        operations, median, least = measured(given.robot, given.link, given.states, dtype, given.calls)
        print(f"{dtype}: {operations} operations, {given.states} states {median * 1e3:.3f} ms, {least * 1e3:.3f} ms")


if __name__ == "__main__":
    main()
