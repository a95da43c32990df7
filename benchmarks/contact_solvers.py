"""Contact solvers beside Siconos on the random problems of PEERS.md, and on random problems of several bodies.

Usage: python benchmarks/contact_solvers.py [--random 10000] [--python /usr/bin/python3] [--json FILE.json]

Siconos (Debian: python3-siconos) runs as a process of its own under ``--python``, on the same problems, on one core,
before and after our solvers; of each problem, the best time of all rounds counts. What the columns say, all computed
here, from what solvers return:

- ``> 1e-8``: the residual is above that: ``max |min(z, M z + q)|`` of linear problems, `ConeProblem.residual` of cones;
- ``rounded``: the same, of impulses rounded to float64, without the remainder that our cone solvers return;
- ``relative``: above 1e-8 relative to velocities without impulses, ``|r − P_K(r − u − s)| / |b|``;
- ``unflagged``: called solved, and above 1e-8.
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

from delassus.contact import LCP, ConeProblem, admm, lemke, nsgs, pgs
from delassus.contact.solvers.double_double import de_saxce, natural_map
from delassus_studies.timing import pinned, setting

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from contact_problems import of_bodies, of_low_rank

TOLERANCE = 1e-8
PROBLEMS = 100
ROUNDS = 5
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


def relative(problem, r, remainder=None):
    """Residual of a cone problem relative to the size of ``b``, free of round-off."""
    u = problem.velocities(r, remainder)
    shifted, ones = de_saxce(u, problem.mu), np.ones(problem.n_contacts)
    step = natural_map(np.reshape(r, (-1, 3)), shifted, problem.mu, ones, remainder)
    return np.linalg.norm(step) / np.linalg.norm(problem.b)


def above(error):
    return not error <= TOLERANCE * (1 + 1e-6)


def ours(solve, problems, rounds):
    """Figures of one of our solvers: best time of each problem (µs), and what became of the problems."""
    times, counts, statuses = [], Counter(), Counter()
    for problem in problems:
        taken = []
        result = solve(problem)
        for _ in range(rounds):
            start = time.perf_counter()
            result = solve(problem)
            taken.append(time.perf_counter() - start)
        times.append(1e6 * min(taken))
        statuses[result.status.name] += 1
        missed = rounded = above(result.residual())
        if isinstance(problem, ConeProblem):
            rounded = above(problem.residual(result.values))
            counts["relative"] += above(relative(problem, result.values, result.remainder))
        counts["missed"] += missed
        counts["rounded"] += rounded
        counts["unflagged"] += rounded and result.status.name == "CONVERGED"
        counts["unflagged"] += missed and result.status.name == "ROUND_OFF"
    return figures_of(times, counts, statuses)


def figures_of(times, counts, statuses):
    return {
        "median": float(np.median(times)),
        "mean": float(np.mean(times)),
        "p99": float(np.percentile(times, 99)),
        **{name: int(counts[name]) for name in ("missed", "rounded", "relative", "unflagged")},
        "statuses": dict(statuses),
        "problems": len(times),
    }


def peers(runs, problems):
    """Figures of Siconos, in the same form, of the best times of its runs."""
    figures = {}
    solutions = runs[0][2]
    for contacts, cones in problems.items():
        back = np.arange(3 * contacts).reshape(-1, 3)[:, [1, 2, 0]].ravel()
        linear = [LCP(p.M, p.q) for p in (cone.polyhedral(4) for cone in cones)]
        for name in ("Lemke", "NSGS"):
            key = f"{name}{contacts}"
            counts, found = Counter(), solutions[key]
            for k, cone in enumerate(cones):
                if name == "Lemke":
                    missed = above(np.abs(np.minimum(found[k], linear[k].M @ found[k] + linear[k].q)).max())
                else:
                    missed = above(cone.residual(found[k][back]))
                    counts["relative"] += above(relative(cone, found[k][back]))
                counts["missed"] += missed
                counts["rounded"] += missed
            times = 1e6 * np.min([run[0][key] for run in runs], axis=0)
            statuses = {"FAILED_BY_ITS_OWN_ACCOUNT": runs[0][1][key]}
            figures[f"Siconos {name}, {contacts}"] = figures_of(times, counts, statuses)
    return figures


COUNTS = ("missed", "rounded", "relative", "unflagged")


def row(name, figures):
    statuses = ", ".join(f"{n} {s.lower().replace('_', ' ')}" for s, n in figures["statuses"].items())
    times = [f"{figures[key]:,.1f}" for key in ("median", "mean", "p99")]
    return name, *times, *(str(figures[key]) for key in COUNTS), statuses


def table(title):
    made = Table(title=title, title_justify="left")
    for column in (
        "solver",
        "median µs",
        "mean µs",
        "99 % µs",
        "> 1e-8",
        "rounded",
        "relative",
        "unflagged",
        "statuses",
    ):
        made.add_column(column, justify="left" if column in ("solver", "statuses") else "right")
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--random", type=int, default=10000, help="random problems of several bodies")
    parser.add_argument("--python", default="/usr/bin/python3", help="a Python that has siconos")
    parser.add_argument("--json", type=Path, help="where raw figures go")
    options = parser.parse_args()
    console, record = Console(), {**setting(), "low_rank": {}, "bodies": {}}
    rng = np.random.default_rng(0)
    problems = {contacts: [of_low_rank(rng, contacts) for _ in range(PROBLEMS)] for contacts in (4, 16)}
    with pinned():
        runs = [siconos(options.python, problems)]
        for contacts, cones in problems.items():
            linear = [cone.polyhedral(4) for cone in cones]
            record["low_rank"][f"lemke, {contacts}"] = ours(lemke, linear, ROUNDS)
            record["low_rank"][f"nsgs, {contacts}"] = ours(nsgs, cones, ROUNDS)
            record["low_rank"][f"admm, {contacts}"] = ours(admm, cones, ROUNDS)
        runs.append(siconos(options.python, problems))
        if runs[0][0] is None:
            console.print(f"Siconos was not run ({options.python}): {runs[0][2]}")
        else:
            record["low_rank"] |= peers(runs, problems)
        rng = np.random.default_rng(2)
        fresh = [of_low_rank(rng, 16) for _ in range(PROBLEMS * 5)]
        record["fresh"] = {solve.__name__ + ", 16": ours(solve, fresh, 1) for solve in (nsgs, admm)}
        rng = np.random.default_rng(1)
        bodies = [of_bodies(rng) for _ in range(options.random)]
        for solve in track((nsgs, admm), "random problems of several bodies", console=console, transient=True):
            record["bodies"][solve.__name__] = ours(solve, bodies, 1)
        linear = [cone.polyhedral(4) for cone in bodies]
        record["bodies"]["lemke"] = ours(lemke, linear, 1)
        record["bodies"]["pgs"] = ours(lambda p: pgs(p, max_iterations=1000), linear, 1)
    console.print(f"{record['processor']}; {record['versions']}; one core; best of {ROUNDS} of each problem")
    titles = {
        "low_rank": f"{PROBLEMS} random problems of 4 and of 16 contacts, W of rank 18",
        "fresh": f"{5 * PROBLEMS} more of those of 16 contacts, which no constant was chosen on",
        "bodies": f"{options.random:,} random problems of 1–12 contacts of several bodies",
    }
    for part, title in titles.items():
        made = table(title)
        for name, figures in record[part].items():
            made.add_row(*row(name, figures))
        console.print(made)
    for name, of in (("lemke, 4", "Lemke, 4"), ("nsgs, 16", "NSGS, 16")):
        if f"Siconos {of}" in record["low_rank"]:
            ours_, theirs = record["low_rank"][name]["median"], record["low_rank"][f"Siconos {of}"]["median"]
            console.print(f"{name}: {ours_ / theirs:.3f} of Siconos' time")
    if options.json:
        options.json.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
