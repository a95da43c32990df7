"""What waits at first use, each in a process of its own with an empty cache: ``python benchmarks/first_step.py``.

First steps of scenes, with code that is made quickly and the evaluator (``DELASSUS_COMPILE=never``) and with machine
code (``wait``); the same with one mass changed, from the cache of the first; first direct calls, again from the disk
cache; and first calls of kernels. Processor time after importing the library.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import delassus as ds
from delassus.compiler.machine.background import MODES
from delassus_studies.bench.contact.steps import DT, step_cases
from delassus_studies.cases import demo_case, random_states

CHANGED, OTHER = ", a mass changed", "another robot"


def boxes() -> tuple[Any, np.ndarray]:
    """A stack of five."""
    from delassus.contact import Box, Collider, HalfSpace

    box, names = Box(0.1, 0.1, 0.1), [f"b{k}" for k in range(5)]
    bodies = {name: ds.mechanisms.free_body(1.0, box.inertia(1.0)) for name in names}
    colliders = [Collider(f"{name}/body", box, friction=0.5) for name in names]
    scene = ds.Scene(bodies, [*colliders, Collider("world", HalfSpace(), friction=0.5)])
    q = scene.neutral().reshape(5, 7)
    q[:, 2] = 0.06 + 0.11 * np.arange(5)
    return scene, q.ravel()


def balls(n: int, factor: float = 1.0) -> tuple[Any, np.ndarray]:
    """A chain of links on ball joints, the first of them free, that falls; the mass of the fifth by a factor."""
    text, end = "", ""
    for k in range(n):
        mass, kind = 1.5 + 0.3 * np.sin(k) * (factor if k == 4 else 1.0), "ball" if k else "free"
        inertia = f'mass="{mass}" pos="0.1 0 0" diaginertia="0.003 0.01 0.012"'
        text += f'<body name="l{k}" pos="0.2 0.01 0"><joint type="{kind}"/><inertial {inertia}/>'
        end += "</body>"
    tree = ds.load(f'<mujoco model="balls"><worldbody>{text}{end}</worldbody></mujoco>', root="fixed")
    return ds.Scene(tree), tree.neutral()


def step(make: Callable[[], tuple[Any, np.ndarray]]) -> str:
    """Seconds to the first step, and µs of a step of 0.1 s of them, the fastest of ten."""
    scene, q = make()
    began = time.process_time()
    sim = ds.Simulator(scene, q0=q, dt=1e-3)
    sim.step()
    first, least = time.process_time() - began, np.inf
    for _ in range(10):
        began = time.process_time()
        sim.run(0.1)
        least = min(least, time.process_time() - began)
    return f"first step {first:5.2f} s, then {1e4 * least:6.1f} µs a step"


def call(name: str, wait: bool = True, alone: bool = True) -> str:
    """Milliseconds of the first calls of a direct function; or of a kernel for one state, and then for a batch."""
    case = demo_case()
    states, began, texts = random_states(case, 128), time.process_time(), []
    q, v, tau = states.q, states.v, states.tau
    if name == "contact_step_derivatives":
        step_case = next(x for x in step_cases() if x.name == case.name.partition(" ")[0])
        began = time.process_time()
        kernel = step_case.kernel(name, wait=wait)
        values = dict(zip(("q", "kp", "kd", "dt"), (step_case.stance, *step_case.gains, DT), strict=True))
        values["q_target"] = step_case.stance
        given = [np.broadcast_to(values.get(x.name, 0.0), (128, *x.shape)).copy() for x in kernel.arguments]
        calls = [partial(kernel, *(x[0] for x in given)), partial(kernel, *given)]
    elif not alone:
        kernel = ds.compile(case.tree, case.constraints, name, wait=wait)  # type: ignore[call-overload]
        calls = [partial(kernel, q[0], v[0], tau[0]), partial(kernel, q, v, tau)]
    elif name == "delassus":
        calls = [partial(ds.delassus, case.tree, case.constraints, q[0])] * 2
    elif name == OTHER:
        other = ds.mechanisms.humanoid()
        feet, still = [ds.Weld("left_foot"), ds.Weld("right_foot")], np.zeros(other.nv)
        calls = [partial(ds.forward_dynamics, other, other.neutral(), still, still, feet)] * 2
    else:
        calls = [partial(ds.forward_dynamics, case.tree, q[0], v[0], tau[0], case.constraints)] * 2
    for one in calls:
        one()
        texts.append(f"{1e3 * (time.process_time() - began):8.2f} ms")
        began = time.process_time()
    return ", then ".join(texts)


CASES: dict[str, Callable[[], str]] = {
    "boxes": partial(step, boxes),
    **{f"{n} balls": partial(step, partial(balls, n)) for n in (10, 20, 40)},
    **{f"{n} balls{CHANGED}": partial(step, partial(balls, n, 1.01)) for n in (10, 20, 40)},
    "delassus": partial(call, "delassus"),
    "forward_dynamics": partial(call, "forward_dynamics"),
    "compile dynamics": partial(call, "dynamics", alone=False),
    "compile dynamics, wait=False": partial(call, "dynamics", wait=False, alone=False),
    "contact_step_derivatives, wait=False": partial(call, "contact_step_derivatives", wait=False),
}
RUNS = {
    "boxes": ("never", "wait"),
    **{name: ("never", "wait") for name in CASES if "balls" in name},
    **{name: ("", OTHER, "from disk") for name in ("delassus", "forward_dynamics")},
}
"""What the environment says of compiling. What has a mass changed begins with the cache of its first case; direct calls
begin with an empty cache, with that of another robot, and with one in which their program is, too."""


def run(name: str, how: str, cache: Path) -> str:
    """What a process with a cache prints of a case."""
    setting = os.environ | {"DELASSUS_CACHE": str(cache), "DELASSUS_COMPILE": how if how in MODES else ""}
    command = [sys.executable, __file__, name, "--here"]
    return subprocess.run(command, env=setting, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """Each case in each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; all without one")
    parser.add_argument("--here", action="store_true", help="in this process, as the environment says")
    asked = parser.parse_args()
    if asked.here:
        return print(CASES.get(asked.cases[0], partial(call, OTHER))())
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.cases or CASES:
            for how in RUNS.get(name, ("",)):
                first = name.removesuffix(CHANGED)
                cache = Path(folder, first + how.replace("from disk", ""))
                if name != first and not cache.exists():
                    run(first, how, cache)
                if how == OTHER:
                    run(OTHER, how, cache)
                print(f"{name:36s} {how:13s} {run(name, how, cache)}", flush=True)
    return None


if __name__ == "__main__":
    main()
