"""Siconos (Debian: python3-siconos), run by a Python that has it: an oracle, and a peer to time."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from delassus.contact import LCP, ConeProblem
from delassus.spatial.rotations import Array

SCRIPT = """
import sys, time
import numpy as np, siconos.numerics as sn
given, found = np.load(sys.argv[1]), {}
tolerance, iterations, rounds = float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])

def run(name, driver, problem, size, options):
    best = np.inf
    for _ in range(rounds):
        x, y = np.zeros(size), np.zeros(size)
        start = time.perf_counter()
        info = driver(problem, x, y, options())
        best = min(best, time.perf_counter() - start)
    found[f"{name} x {k}"], found[f"{name} seconds {k}"], found[f"{name} failed {k}"] = x, best, info != 0

def nsgs():
    options = sn.SolverOptions(sn.SICONOS_FRICTION_3D_NSGS)
    options.dparam[0], options.iparam[0] = tolerance, iterations
    return options

for key in given.files:
    kind, k = key.split()
    if kind == "M":
        problem = sn.LCP(given[key], given[f"q {k}"])
        for name in ("LEMKE", "PIVOT"):
            options = lambda: sn.SolverOptions(getattr(sn, "SICONOS_LCP_" + name))
            run(name, sn.linearComplementarity_driver, problem, len(given[key]), options)
    if kind == "W":
        b = given[f"b {k}"]
        problem = sn.FrictionContactProblem(3, b.size // 3, given[key], b, given[f"mu {k}"])
        run("NSGS", sn.fc3d_driver, problem, b.size, nsgs)
np.savez(sys.argv[2], **found)
"""


@dataclass(frozen=True, slots=True)
class Answers:
    """Solutions of one solver, least seconds of each problem, and how many failed by the solver's own account."""

    solutions: list[Array]
    seconds: Array
    failed: int


@functools.cache
def python() -> str | None:
    """A Python that can import siconos, or None; ``SICONOS_PYTHON`` names one."""
    for candidate in (os.environ.get("SICONOS_PYTHON"), sys.executable, "/usr/bin/python3"):
        if candidate and Path(candidate).exists():
            done = subprocess.run([candidate, "-c", "import siconos.numerics"], capture_output=True, timeout=60)
            if done.returncode == 0:
                return candidate
    return None


def solved(
    linear: Sequence[LCP] = (),
    cones: Sequence[ConeProblem] = (),
    tolerance: float = 1e-12,
    iterations: int = 100_000,
    rounds: int = 1,
) -> dict[str, Answers]:
    """Answers to linear problems by LEMKE and PIVOT and to cone problems by NSGS, by those names."""
    given: dict[str, Any] = {}
    for k, lcp in enumerate(linear):
        given[f"M {k}"], given[f"q {k}"] = lcp.M, lcp.q
    for k, cone in enumerate(cones):
        first = np.arange(cone.b.size).reshape(-1, 3)[:, [2, 0, 1]].ravel()  # Siconos: normal first
        given |= {f"W {k}": cone.W[np.ix_(first, first)], f"b {k}": cone.b[first], f"mu {k}": cone.mu}
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder, name)) for name in ("given.npz", "found.npz")]
        np.savez(files[0], **given)
        command = [str(python()), "-c", SCRIPT, *files, str(tolerance), str(iterations), str(rounds)]
        subprocess.run(command, capture_output=True, check=True, timeout=3600)
        found = dict(np.load(files[1]))
    answers = {}
    for name, number in (("LEMKE", len(linear)), ("PIVOT", len(linear)), ("NSGS", len(cones))):
        x = [found[f"{name} x {k}"] for k in range(number)]
        if name == "NSGS":
            x = [r.reshape(-1, 3)[:, [1, 2, 0]].ravel() for r in x]
        seconds = np.array([float(found[f"{name} seconds {k}"]) for k in range(number)])
        answers[name] = Answers(x, seconds, sum(bool(found[f"{name} failed {k}"]) for k in range(number)))
    return answers
