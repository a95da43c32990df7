"""Contact solvers beside Siconos on the random problems of PEERS.md, and on random problems of several bodies.

Usage: python benchmarks/contact_solvers.py [--random 10000] [--python /usr/bin/python3] [--json FILE.json]

Siconos (Debian: python3-siconos) runs as a process of its own under ``--python``, on the same problems, on one core. A
problem counts as solved if its residual, computed here, is at most 1e-8: ``max |min(z, M z + q)|`` of linear problems,
`ConeProblem.residual` of the others. Siconos' NSGS ends by a measure of its own, relative to the size of ``b``, so its
own account of what failed stands beside ours.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from delassus.cli.timing import pinned, setting
from delassus.contact import LCP, admm, lemke, nsgs, pgs

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from contact_problems import of_bodies, of_low_rank

TOLERANCE = 1e-8
PROBLEMS = 100
ROUNDS = 3
SICONOS = """
import sys, time, json
import numpy as np, siconos.numerics as sn
given, times, solutions, refused = np.load(sys.argv[1]), {}, {}, {}
for contacts in (4, 16):
    for name in ("Lemke", "NSGS"):
        taken, found, failed = [], [], 0
        for k in range(int(given["problems"])):
            best = np.inf
            for _ in range(int(given["rounds"])):
                if name == "Lemke":
                    m, q = given[f"M{contacts}"][k], given[f"q{contacts}"][k]
                    problem, x, y = sn.LCP(m, q), np.zeros(q.size), np.zeros(q.size)
                    options, solve = sn.SolverOptions(sn.SICONOS_LCP_LEMKE), sn.linearComplementarity_driver
                else:
                    w, b = given[f"W{contacts}"][k], given[f"b{contacts}"][k]
                    problem = sn.FrictionContactProblem(3, contacts, w, b, np.full(contacts, 0.5))
                    x, y = np.zeros(b.size), np.zeros(b.size)
                    options, solve = sn.SolverOptions(sn.SICONOS_FRICTION_3D_NSGS), sn.fc3d_driver
                    options.dparam[0], options.iparam[0] = 1e-8, 10000
                start = time.perf_counter()
                info = solve(problem, x, y, options)
                best = min(best, time.perf_counter() - start)
            failed += info != 0
            taken.append(best)
            found.append(x.copy())
        times[f"{name}{contacts}"], solutions[f"{name}{contacts}"] = taken, np.array(found)
        refused[f"{name}{contacts}"] = failed
np.savez(sys.argv[2], **solutions)
print(json.dumps([times, refused]))
"""


def siconos(python, problems):
    """Times, numbers of failures by its own account, and solutions of Siconos; None and why, where it cannot be run."""
    given = {"problems": PROBLEMS, "rounds": ROUNDS}
    for contacts, cones in problems.items():
        normal_first = np.arange(3 * contacts).reshape(-1, 3)[:, [2, 0, 1]].ravel()
        linear = [cone.polyhedral(4) for cone in cones]
        given[f"M{contacts}"], given[f"q{contacts}"] = np.array([p.M for p in linear]), np.array([p.q for p in linear])
        given[f"W{contacts}"] = np.array([cone.W[np.ix_(normal_first, normal_first)] for cone in cones])
        given[f"b{contacts}"] = np.array([cone.b[normal_first] for cone in cones])
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder, name)) for name in ("problems.npz", "solutions.npz")]
        np.savez(files[0], **given)
        try:
            run = subprocess.run([python, "-c", SICONOS, *files], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            return None, None, str(getattr(error, "stderr", error)).strip().splitlines()[-1:]
        return *json.loads(run.stdout.splitlines()[-1]), dict(np.load(files[1]))


def ours(solve, problems):
    """Best time of each problem (µs), statuses, and how many residuals are above the tolerance, or called solved so."""
    times, statuses, missed, wrong = [], Counter(), 0, 0
    for problem in problems:
        solve(problem)
        taken = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            result = solve(problem)
            taken.append(time.perf_counter() - start)
        above = not result.residual() <= TOLERANCE * (1 + 1e-6)
        missed += above
        wrong += above and result.status.name == "CONVERGED"
        times.append(1e6 * min(taken))
        statuses[result.status.name] += 1
    return {
        "median": float(np.median(times)),
        "mean": float(np.mean(times)),
        "p99": float(np.percentile(times, 99)),
        "missed": missed,
        "unflagged": wrong,
        "statuses": dict(statuses),
    }


def peers(python, problems, console):
    """Figures of Siconos, in the same form."""
    times, refused, solutions = siconos(python, problems)
    if times is None:
        console.print(f"Siconos was not run ({python}): {solutions}")
        return {}
    figures = {}
    for contacts, cones in problems.items():
        back = np.arange(3 * contacts).reshape(-1, 3)[:, [1, 2, 0]].ravel()
        linear = [LCP(p.M, p.q) for p in (cone.polyhedral(4) for cone in cones)]
        gaps = [
            np.abs(np.minimum(z, p.M @ z + p.q)).max()
            for z, p in zip(solutions[f"Lemke{contacts}"], linear, strict=True)
        ]
        residuals = [p.residual(r[back]) for r, p in zip(solutions[f"NSGS{contacts}"], cones, strict=True)]
        for name, errors in (("Lemke", gaps), ("NSGS", residuals)):
            taken = 1e6 * np.array(times[f"{name}{contacts}"])
            figures[f"Siconos {name}, {contacts}"] = {
                "median": float(np.median(taken)),
                "mean": float(taken.mean()),
                "p99": float(np.percentile(taken, 99)),
                "missed": int(sum(not error <= TOLERANCE for error in errors)),
                "statuses": {"FAILED_BY_ITS_OWN_MEASURE": refused[f"{name}{contacts}"]},
            }
    return figures


def row(name, figures):
    statuses = ", ".join(f"{n} {s.lower().replace('_', ' ')}" for s, n in figures.get("statuses", {}).items())
    times = [f"{figures[key]:,.1f}" for key in ("median", "mean", "p99")]
    return name, *times, str(figures["missed"]), str(figures.get("unflagged", "")), statuses


def table(title):
    made = Table(title=title, title_justify="left")
    for column in ("solver", "median µs", "mean µs", "99 % µs", "> 1e-8", "unflagged", "statuses"):
        made.add_column(column, justify="left" if column in ("solver", "statuses") else "right")
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--random", type=int, default=1000, help="random problems of several bodies")
    parser.add_argument("--python", default="/usr/bin/python3", help="a Python that has siconos")
    parser.add_argument("--json", type=Path, help="where raw figures go")
    options = parser.parse_args()
    console, record = Console(), {**setting(), "low_rank": {}, "bodies": {}}
    rng = np.random.default_rng(0)
    problems = {contacts: [of_low_rank(rng, contacts) for _ in range(PROBLEMS)] for contacts in (4, 16)}
    with pinned():
        for contacts, cones in problems.items():
            linear = [cone.polyhedral(4) for cone in cones]
            record["low_rank"][f"lemke, {contacts}"] = ours(lemke, linear)
            record["low_rank"][f"nsgs, {contacts}"] = ours(nsgs, cones)
            record["low_rank"][f"admm, {contacts}"] = ours(admm, cones)
        record["low_rank"] |= peers(options.python, problems, console)
        rng = np.random.default_rng(1)
        bodies = [of_bodies(rng) for _ in range(options.random)]
        for solve in track((nsgs, admm), "random problems of several bodies", console=console, transient=True):
            record["bodies"][solve.__name__] = ours(solve, bodies)
        linear = [cone.polyhedral(4) for cone in bodies]
        record["bodies"]["lemke"] = ours(lemke, linear)
        record["bodies"]["pgs"] = ours(lambda p: pgs(p, max_sweeps=2000), linear[: options.random // 20])
    console.print(f"{record['processor']}; {record['versions']}; one core; best of {ROUNDS} of each problem")
    made = table(f"{PROBLEMS} random problems of 4 and of 16 contacts, W of rank 18")
    for name, figures in record["low_rank"].items():
        made.add_row(*row(name, figures))
    console.print(made)
    made = table(f"{options.random:,} random problems of 1–12 contacts (PGS: every twentieth)")
    for name, figures in record["bodies"].items():
        made.add_row(*row(name, figures))
    console.print(made)
    if options.json:
        options.json.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
