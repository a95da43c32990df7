"""Time to the first step of a scene in an empty cache, and of steps after it: ``python benchmarks/first_step.py``.

With code that is made quickly and the evaluator (``DELASSUS_COMPILE=never``), and with machine code (``wait``), each in
a process of its own. Processor time after importing the library.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np


def boxes() -> tuple[Any, np.ndarray]:
    """A stack of five."""
    import delassus as ds
    from delassus.contact import Box, Collider, HalfSpace

    box, names = Box(0.1, 0.1, 0.1), [f"b{k}" for k in range(5)]
    bodies = {name: ds.mechanisms.free_body(1.0, box.inertia(1.0)) for name in names}
    colliders = [Collider(f"{name}/body", box, friction=0.5) for name in names]
    scene = ds.Scene(bodies, [*colliders, Collider("world", HalfSpace(), friction=0.5)])
    q = scene.neutral().reshape(5, 7)
    q[:, 2] = 0.06 + 0.11 * np.arange(5)
    return scene, q.ravel()


def chain() -> tuple[Any, np.ndarray]:
    """One of 20 links that falls."""
    import delassus as ds

    tree = ds.mechanisms.chain(20, root="floating")
    return ds.Scene(tree), tree.neutral()


SCENES = {"boxes": boxes, "chain": chain}


def measure(name: str) -> None:
    """Print seconds to the first step, and µs of a step of 0.1 s of them, the fastest of ten."""
    import delassus as ds

    scene, q = SCENES[name]()
    began = time.process_time()
    sim = ds.Simulator(scene, q0=q, dt=1e-3)
    sim.step()
    first, least = time.process_time() - began, np.inf
    for _ in range(10):
        began = time.process_time()
        sim.run(0.1)
        least = min(least, time.process_time() - began)
    print(f"first step {first:5.2f} s, then {1e4 * least:6.1f} µs a step")


def main() -> None:
    """Each scene in each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scene", choices=SCENES, help="this one, as the environment says; else all")
    if (scene := parser.parse_args().scene) is not None:
        return measure(scene)
    for name in SCENES:
        for how in ("never", "wait"):
            with tempfile.TemporaryDirectory() as cache:
                setting = os.environ | {"DELASSUS_CACHE": cache, "DELASSUS_COMPILE": how}
                done = subprocess.run(
                    [sys.executable, Path(__file__), "--scene", name],
                    env=setting,
                    capture_output=True,
                    text=True,
                    check=True,
                )
            print(f"{name:6s} {how:6s} {done.stdout.strip()}")
    return None


if __name__ == "__main__":
    main()
