"""Contact solvers beside Siconos on random problems: of low rank, and of bodies with everything that makes them hard.

What the columns say, all computed here, from what solvers return:

- ``> 1e-8``: the residual is above that: ``max |min(z, M z + q)|`` of linear problems, `ConeProblem.residual` of cones,
  or `law_residual`, which shares nothing with it, above four times that;
- ``rounded``: the same, of impulses rounded to float64, without the remainder that our cone solvers return;
- ``unflagged``: a residual above 1e-8 of a problem that is called solved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from rich.table import Table

from delassus.cli.tables import Record, environment, table
from delassus.contact import LCP, ConeProblem, admm, lemke, nsgs, pgs
from delassus.spatial.rotations import Array
from delassus_studies.peers import siconos
from delassus_studies.timing import best, pinned


def of_low_rank(rng: np.random.Generator, n_contacts: int, rank: int = 18, mu: float = 0.5) -> ConeProblem:
    """Problem with ``W`` of that rank plus 1e-9: from seven contacts on, ``b`` is not in its range without 1e-9."""
    a = rng.standard_normal((3 * n_contacts, rank))
    b = rng.standard_normal(3 * n_contacts)
    b[2::3] -= 1.0
    return ConeProblem(a @ a.T / rank + 1e-9 * np.eye(3 * n_contacts), b, mu)


def of_bodies(rng: np.random.Generator, most: int = 12, tips: bool = True) -> ConeProblem:
    """1 to ``most`` contacts of 1 to 6 free bodies: masses over four decades, repeated contacts, friction 0 to 1.5.

    Without ``tips``, friction may exceed ``μ r_n`` by 0.01 to 10 N s, as in decompression.
    """
    n, bodies = int(rng.integers(1, most + 1)), int(rng.integers(1, 7))
    mu = rng.uniform(0, 1.5, n)
    if rng.random() < 0.15:
        mu[rng.random(n) < 0.3] = 0.0
    mass = 10 ** rng.uniform(-2, 2, bodies)
    J = np.zeros((3 * n, 6 * bodies))
    for i in range(n):
        rows = slice(3 * i, 3 * i + 3)
        if i and rng.random() < 0.2:
            J[rows] = J[3 * i - 3 : 3 * i]
            continue
        first = rng.integers(bodies)
        axes, _ = np.linalg.qr(rng.standard_normal((3, 3)))
        J[rows, 6 * first : 6 * first + 6] = axes @ _point(rng)
        if bodies > 1 and rng.random() < 0.5:
            second = (first + 1 + rng.integers(bodies - 1)) % bodies
            J[rows, 6 * second : 6 * second + 6] = -axes @ _point(rng)
    inverse = np.repeat(1 / mass, 6) * np.tile([1, 1, 1, 10, 10, 10], bodies)
    friction_offset = 0.0 if tips else 10 ** rng.uniform(-2, 1, n)
    return ConeProblem((J * inverse) @ J.T, J @ rng.standard_normal(6 * bodies), mu, friction_offset)


def law_residual(problem: ConeProblem, r: Array, remainder: Array | None = None) -> float:
    """How far impulses (n, 3) are from Coulomb's law (m/s), in 80-bit numbers and without De Saxcé's shift.

    ``max |min(ω r_n, u_n)|`` and ``max |ω r_t − P(ω r_t − u_t)|``, ``P`` on the disc of radius ``ω (μ r_n +
    friction_offset)``.
    """
    p = np.asarray(r, np.longdouble) + (0.0 if remainder is None else remainder)
    u = (problem.W.astype(np.longdouble) @ p.ravel() + problem.b).reshape(-1, 3)
    omega = problem.W.diagonal().reshape(-1, 3).mean(axis=1)
    y = omega[:, None] * p[:, :2] - u[:, :2]
    limit = omega * np.maximum(problem.mu * p[:, 2] + problem.friction_offset, 0.0)
    kept = np.minimum(1.0, limit / np.maximum(np.hypot(y[:, 0], y[:, 1]), 1e-300))
    tangential = omega[:, None] * p[:, :2] - kept[:, None] * y
    return float(max(np.abs(np.minimum(omega * p[:, 2], u[:, 2])).max(), np.abs(tangential).max()))


def _point(rng: np.random.Generator) -> Array:
    """Velocity (3, 6) of a random point of a body, of its twist."""
    x, y, z = rng.uniform(-0.5, 0.5, 3)
    return np.hstack([np.eye(3), [[0, z, -y], [-z, 0, x], [y, -x, 0]]])


# -- what is measured ------------------------------------------------------------------------------------------------

TOLERANCE = 1e-8
LAW = 4.0
"""Most that `law_residual` may be of the tolerance of a residual that has De Saxcé's shift."""
PROBLEMS, ROUNDS = 100, 5
COUNTS = {"missed": "> 1e-8", "rounded": "rounded", "unflagged": "unflagged"}


def _above(error: float) -> bool:
    return not error <= TOLERANCE * (1 + 1e-6)


def _figures(seconds: Sequence[float] | Array, counts: Counter[str], statuses: dict[str, int]) -> Record:
    times = 1e6 * np.asarray(seconds)
    spread = {"median": float(np.median(times)), "mean": float(times.mean()), "p99": float(np.percentile(times, 99))}
    return {**spread, **{name: int(counts[name]) for name in COUNTS}, "statuses": statuses, "problems": len(times)}


def _ours(solve: Callable[[Any], Any], problems: Sequence[LCP | ConeProblem], rounds: int) -> Record:
    """Best time of each problem after a first call, and what became of the problems."""
    times, counts, statuses = [], Counter[str](), Counter[str]()
    for problem in problems:
        solve(problem)
        seconds, result = best(partial(solve, problem), rounds)
        times.append(seconds)
        statuses[result.status.name] += 1
        missed = rounded = _above(result.residual())
        if isinstance(problem, ConeProblem):
            missed |= law_residual(problem, result.values, result.remainder) > LAW * TOLERANCE
            rounded = _above(problem.residual(result.values))
        counts["missed"] += missed
        counts["rounded"] += rounded
        counts["unflagged"] += rounded and result.status.name == "CONVERGED"
        counts["unflagged"] += missed and not rounded and result.status.name in ("CONVERGED", "ROUND_OFF")
    return _figures(times, counts, dict(statuses))


def _theirs(linear: Sequence[LCP], cones: Sequence[ConeProblem]) -> dict[str, Record]:
    """Figures of Siconos in the same form."""
    answers = siconos.solved(linear, cones, TOLERANCE, 10_000, ROUNDS)
    found = {}
    for name, solver in (("Lemke", "LEMKE"), ("NSGS", "NSGS")):
        counts, answer = Counter[str](), answers[solver]
        for x, lcp, cone in zip(answer.solutions, linear, cones, strict=True):
            if solver == "LEMKE":
                missed = _above(float(np.abs(np.minimum(x, lcp.M @ x + lcp.q)).max()))
            else:
                missed = _above(cone.residual(x))
            counts["missed"] += missed
            counts["rounded"] += missed
        found[f"Siconos {name}"] = _figures(answer.seconds, counts, {"FAILED_BY_ITS_OWN_ACCOUNT": answer.failed})
    return found


def measure(random: int, quick: bool = False) -> Iterator[Record]:
    """Problems of low rank beside Siconos, others that no constant was chosen on, and ``random`` ones of bodies.

    The record before and after.
    """
    record: Record = {**environment(), "low_rank": {}, "fresh": {}, "bodies": {}}
    yield record
    number, random = (2, 10) if quick else (PROBLEMS, random)
    rng = np.random.default_rng(0)
    problems = {contacts: [of_low_rank(rng, contacts) for _ in range(number)] for contacts in (4, 16)}
    with pinned():
        for contacts, cones in problems.items():
            linear = [cone.polyhedral(4) for cone in cones]
            found = {"lemke": _ours(lemke, linear, ROUNDS)}
            found |= {solve.__name__: _ours(solve, cones, ROUNDS) for solve in (nsgs, admm)}
            if siconos.python() is not None:
                found |= _theirs(linear, cones)
            record["low_rank"] |= {f"{name}, {contacts}": figures for name, figures in found.items()}
        rng = np.random.default_rng(2)
        fresh = [of_low_rank(rng, 16) for _ in range(5 * number)]
        record["fresh"] = {f"{solve.__name__}, 16": _ours(solve, fresh, 1) for solve in (nsgs, admm)}
        rng = np.random.default_rng(1)
        bodies = [of_bodies(rng, tips=bool(i % 2)) for i in range(random)]
        record["bodies"] = {solve.__name__: _ours(solve, bodies, 1) for solve in (nsgs, admm)}
        linear = [cone.polyhedral(4) for cone in bodies]
        record["bodies"]["lemke"] = _ours(lemke, linear, 1)
        record["bodies"]["pgs"] = _ours(partial(pgs, max_iterations=1000), linear, 1)
    yield record


def tables(record: Record) -> Iterator[Table | str]:
    """One table for each set of problems, and ratios to Siconos."""
    if not record["bodies"]:
        return
    low_rank, fresh, bodies = (record[part][name]["problems"] for part, name in
                               (("low_rank", "nsgs, 4"), ("fresh", "nsgs, 16"), ("bodies", "nsgs")))  # fmt: skip
    titles = {
        "low_rank": f"{low_rank} random problems of 4 and of 16 contacts, W of rank 18",
        "fresh": f"{fresh} more of those of 16 contacts, which no constant was chosen on",
        "bodies": f"{bodies:,} random problems of 1–12 contacts of several bodies",
    }
    columns = ("solver", "median µs:,.1f", "mean µs:,.1f", "99 % µs:,.1f", *COUNTS.values(), "statuses")
    yield f"one core; best of {ROUNDS} of each problem"
    for part, title in titles.items():
        rows = []
        for name, figures in record[part].items():
            numbers = (figures[key] for key in ("median", "mean", "p99", *COUNTS))
            statuses = ", ".join(f"{n} {s.lower().replace('_', ' ')}" for s, n in figures["statuses"].items())
            rows.append((name, *numbers, statuses))
        yield table(title, columns, rows, text=("statuses",))
    found = record["low_rank"]
    if siconos.python() is None:
        yield "Siconos was not run: no Python here can import it (SICONOS_PYTHON names one)"
        return
    for name, peer in (("lemke, 4", "Siconos Lemke, 4"), ("nsgs, 16", "Siconos NSGS, 16")):
        yield f"{name}: {found[name]['median'] / found[peer]['median']:.3f} of Siconos' time"
