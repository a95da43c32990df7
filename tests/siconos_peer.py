"""Siconos (Debian: python3-siconos) in a process of its own, under a Python that has it."""

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

SCRIPT = """
import sys
import numpy as np, siconos.numerics as sn
given, found = np.load(sys.argv[1]), {}
for key in given.files:
    kind, k = key.split()
    if kind == "M":
        M, q = given[key], given[f"q {k}"]
        for name in ("LEMKE", "PIVOT"):
            z, w = np.zeros(q.size), np.zeros(q.size)
            sn.linearComplementarity_driver(sn.LCP(M, q), z, w, sn.SolverOptions(getattr(sn, "SICONOS_LCP_" + name)))
            found[f"{name} {k}"] = z
    if kind == "W":
        b = given[f"b {k}"]
        problem = sn.FrictionContactProblem(3, b.size // 3, given[key], b, given[f"mu {k}"])
        options = sn.SolverOptions(sn.SICONOS_FRICTION_3D_NSGS)
        options.dparam[0], options.iparam[0] = 1e-12, 100000
        r, u = np.zeros(b.size), np.zeros(b.size)
        sn.fc3d_driver(problem, r, u, options)
        found[f"NSGS {k}"] = r
np.savez(sys.argv[2], **found)
"""


@functools.cache
def python():
    """A Python that can import siconos, or None; ``SICONOS_PYTHON`` names one."""
    for candidate in (os.environ.get("SICONOS_PYTHON"), sys.executable, "/usr/bin/python3"):
        if candidate and Path(candidate).exists():
            run = subprocess.run([candidate, "-c", "import siconos.numerics"], capture_output=True, timeout=60)
            if run.returncode == 0:
                return candidate
    return None


def solved(linear=(), cones=()):
    """Solutions of linear problems by LEMKE and PIVOT and of cone problems by NSGS: lists of arrays, by those names."""
    given = {}
    for k, problem in enumerate(linear):
        given[f"M {k}"], given[f"q {k}"] = problem.M, problem.q
    for k, problem in enumerate(cones):
        first = np.arange(problem.b.size).reshape(-1, 3)[:, [2, 0, 1]].ravel()  # Siconos: normal first
        given |= {f"W {k}": problem.W[np.ix_(first, first)], f"b {k}": problem.b[first], f"mu {k}": problem.mu}
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder, name)) for name in ("given.npz", "found.npz")]
        np.savez(files[0], **given)
        subprocess.run([python(), "-c", SCRIPT, *files], capture_output=True, check=True, timeout=300)
        found = dict(np.load(files[1]))
    answers = {name: [found[f"{name} {k}"] for k in range(len(linear))] for name in ("LEMKE", "PIVOT")}
    answers["NSGS"] = [found[f"NSGS {k}"].reshape(-1, 3)[:, [1, 2, 0]] for k in range(len(cones))]
    return answers
