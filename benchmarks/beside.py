"""Times of kernels of two versions of the sources in one run: ``python benchmarks/beside.py FOLDER``.

``FOLDER`` is the ``src`` of the other version. Each version compiles the kernels in a process of its own; they are
called in turns, so that both meet the same machine. Ratios are of the lowest times, this version's over the other's.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

FEET = {
    "go1": ("FL_foot", "FR_foot", "RL_foot", "RR_foot"),
    "talos_reduced": ("leg_left_6_link", "leg_right_6_link"),
    "chain": ("link20",),
}
QUANTITIES = ("delassus", "dynamics", "step", "dynamics_derivatives")
STATES, ROUNDS, SECONDS = 1024, 15, 0.02
"""States of a batch; turns of each version; processor time of one turn."""


def kernels() -> list[tuple[str, Any, list[np.ndarray]]]:
    """Name, kernel and arguments of a batch."""
    import delassus as ds
    from delassus_studies.cases import quiet_load

    warnings.simplefilter("ignore")
    made = []
    for name, links in FEET.items():
        tree = ds.mechanisms.chain(20) if name == "chain" else quiet_load(name)
        held = [(ds.Weld if name == "talos_reduced" else ds.Point)(link) for link in links]
        rng = np.random.default_rng(0)
        for what in QUANTITIES:
            kernel = ds.compile(tree, held, what)
            given = []
            for a in kernel.arguments:
                x = tree.random(rng, batch=STATES) if a.name == "q" else rng.normal(size=(STATES, *a.shape))
                given.append(np.full(STATES, 1e-3) if a.name == "dt" else x)
            made.append((f"{name} {what}", kernel, given))
    return made


def serve() -> None:
    """Compile, then time what is asked for: number of the kernel and "one" or "batch"; answers µs a state."""
    every = kernels()
    calls: dict[tuple[int, str], Any] = {}
    for k, (_, kernel, given) in enumerate(every):
        arrays = [*given, *(np.empty((STATES, *r.shape)) for r in kernel.results), np.empty(STATES)]
        arrays = arrays if kernel.has_rcond else arrays[:-1]
        for kind, states in (("one", 1), ("batch", STATES)):
            types = [ctypes.c_int64, *[ctypes.c_void_p] * len(arrays)]
            function = ctypes.CFUNCTYPE(None, *types)(kernel.address(states))
            places = [x.ctypes.data for x in arrays]
            calls[k, kind] = partial(function, states, *places), states, arrays
    print(*(name for name, *_ in every), sep="|", flush=True)
    for line in sys.stdin:
        k, kind = line.split()
        call, states, _ = calls[int(k), kind]
        best, end = float("inf"), time.process_time() + SECONDS
        while time.process_time() < end:
            start = time.perf_counter()
            for _ in range(1 + 9 // states):
                call()
            best = min(best, (time.perf_counter() - start) / (1 + 9 // states) / states)
        print(best * 1e6, flush=True)


def worker(source: Path) -> Any:
    """A process that serves with the sources of a folder."""
    setting = {**os.environ, "PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": "1", "DELASSUS_THREADS": "1"}
    command = [sys.executable, __file__, "--serve", str(source)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=setting)


def main() -> None:
    """Print a row a kernel."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--serve", action="store_true")
    asked = parser.parse_args()
    if asked.serve:
        return serve()
    workers = [worker(source) for source in (Path(__file__).parent.parent / "src", asked.folder)]
    names, _ = (w.stdout.readline().strip().split("|") for w in workers)
    print(f"{'':28} {'one state, µs':>22} {'batch, µs a state':>22}")
    for k, name in enumerate(names):
        row = []
        for kind in ("one", "batch"):
            times: list[list[float]] = [[], []]
            for turn in range(ROUNDS):
                for i in (0, 1) if turn % 2 else (1, 0):
                    workers[i].stdin.write(f"{k} {kind}\n")
                    workers[i].stdin.flush()
                    times[i].append(float(workers[i].stdout.readline()))
            ours, theirs = min(times[0]), min(times[1])
            row.append(f"{ours:8.3f} {theirs:8.3f} {ours / theirs:5.2f}")
        print(f"{name:28} {row[0]} {row[1]}", flush=True)
    for w in workers:
        w.stdin.close()


if __name__ == "__main__":
    main()
