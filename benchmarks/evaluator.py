"""The evaluator beside machine code in batches, on every public quantity: ``python benchmarks/evaluator.py``.

Talos on two feet where its description is installed, else the built-in humanoid; contact steps stand on spheres under
the soles. One core, float64, processor time of the lowest of the rounds; the largest ratios last.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from typing import Any

import numpy as np

import delassus as ds
from delassus.quantities import QUANTITIES, public_names
from delassus.runtime.any_kernel import evaluated_kernel
from delassus_studies.bench.contact.steps import step_cases
from delassus_studies.cases import demo_case, random_states
from delassus_studies.timing import interleaved, pinned

STATES = (128, 1024)
ROUNDS, SECONDS = 7, 0.03
"""Turns of each, and processor time of a turn."""

ASIDE = {
    "close_loops": "has no loops here",
    "reduced_dynamics": "has no loops here",
    "contact_step_derivatives": "is compiled in minutes (--all)",
}


def kernels(name: str) -> tuple[Any, Any]:
    """Machine code, and the evaluator."""
    case = demo_case()
    if name.startswith("contact_step"):
        kernel = next(x for x in step_cases() if x.name == case.name.partition(" ")[0]).kernel(name)
    else:
        more: dict[str, Any] = {"sensors": [ds.Sensor("imu", "accelerometer", case.constraints[0].first)]}
        more = more if name == "sensors" else {"frames": case.constraints[0].first} if name == "frame_jacobian" else {}
        kernel = ds.compile(case.tree, case.constraints, name, **more)  # type: ignore[call-overload]
    return kernel, evaluated_kernel(kernel.request)


def measure(name: str) -> list[float]:
    """µs a state by machine code and by the evaluator, for each number of states."""
    case, both, out = demo_case(), kernels(name), list[float]()
    for n in STATES:
        states, rng = random_states(case, n), np.random.default_rng(0)
        given = {"q": states.q, "q_end": states.q[::-1], "v": 0.1 * states.v, "tau": states.tau, "dt": np.full(n, 1e-3)}
        arrays = [np.ascontiguousarray(given.get(a.name, 0.01 * rng.random((n, *a.shape)))) for a in both[0].arguments]
        results = [np.empty((n, *r.shape)) for r in both[0].results]
        calls = {str(k): (partial(made.compute, arrays, results, (n,), 1), n) for k, made in enumerate(both)}
        began = time.process_time()
        calls["1"][0]()
        repeats = max(1, int(SECONDS / (time.process_time() - began)))
        found = interleaved(calls, ROUNDS, repeats, clock=time.process_time)
        out += [found[k]["lowest"] for k in "01"]
    return out


def main() -> None:
    """A line for each quantity."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("names", nargs="*", help="quantities; all without one")
    parser.add_argument("--all", action="store_true", help="also what is compiled in minutes")
    asked, ratios = parser.parse_args(), dict[str, float]()
    warnings.simplefilter("ignore")
    names = asked.names or [x for x in public_names() if x in QUANTITIES and (asked.all or x not in ASIDE)]
    with pinned():
        for name in names:
            found = measure(name)
            ratios[name] = max(found[1] / found[0], found[3] / found[2])
            parts = zip(STATES, found[::2], found[1::2], strict=True)
            print(f"{name:30s}", *(f"{n}: {x:8.3f} {y:8.3f} µs, {y / x:5.2f} ×" for n, x, y in parts), flush=True)
    worst = sorted(ratios, key=ratios.__getitem__, reverse=True)[:5]
    print("largest:", ", ".join(f"{name} {ratios[name]:.1f} ×" for name in worst))


if __name__ == "__main__":
    main()
