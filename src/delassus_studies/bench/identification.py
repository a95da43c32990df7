"""``delassus bench identification``: inertias of all links from noisy trajectories, beside ``mujoco.sysid``.

Both minimise the same sum of squares: configurations that are measured, less those of a simulation by semi-implicit
steps with held joint forces, from starts that are known. ``mujoco.sysid`` takes finite differences, its own
pseudo-inertias within bounds that are wide, and scipy's optimiser scaled by the Jacobian; its default one stops far
from a minimum where motion does not show all parameters. Times are those of one core's processor. What is compared are
base parameters, as only these are determined; errors are in standard errors of ours. Where a search of ``mujoco.sysid``
takes an hour, one Jacobian of each is timed, and no more.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

import delassus as ds
from delassus.cli.tables import Record, environment, table
from delassus.runtime.measured import Windows
from delassus.scenes.quadruped import generic_quadruped
from delassus.spatial.rotations import Array
from delassus_studies.cases import robot_file
from delassus_studies.peers import present
from delassus_studies.peers.sysid import sysid_inertias
from delassus_studies.timing import each, pinned

DT, EVERY, NOISE = 1e-3, 5, 1e-4
"""Time step (s), steps between two measurements, and their deviation (rad, m)."""

SHIFT = 0.15
"""How much bodies differ from the start: deviations of a linear map of their mass from the identity."""

ACCELERATION, DAMPING, HELD = 30.0, 3.0, 50
"""Of motions: deviation of accelerations (rad/s²), what takes velocities away (1/s), steps from one to the next."""

SEED = 5


def _cases(robots: Path | None, quick: bool) -> dict[str, Any]:
    """Makers of robots, numbers of trajectories, and of steps, whether the peer searches to its end, by name."""
    arm = ds.mechanisms.chain(2), 4, 100, True
    if quick:
        return {"chain of two": lambda: arm}
    return {
        "iiwa": lambda: (robot_file(robots, "iiwa.urdf", "fixed"), 32, 100, True),
        "quadruped in flight": lambda: (generic_quadruped(), 32, 100, False),
    }


def _others(tree: ds.Tree, rng: np.random.Generator) -> Array:
    """Inertial parameters (n, 10) of other bodies: all mass of each moved by a linear map, and scaled."""
    out = []
    for m, *first, xx, xy, yy, xz, yz, zz in tree.inertial_parameters:
        moments = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        second = 0.5 * np.trace(moments) * np.eye(3) - moments
        G, scale = np.eye(3) + SHIFT * rng.normal(size=(3, 3)), np.exp(SHIFT * rng.normal())
        second, c = scale * G @ second @ G.T, scale * G @ first
        moved = np.trace(second) * np.eye(3) - second
        out.append([scale * m, *c, *moved[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]])
    return np.array(out)


def _excitation(tree: ds.Tree, q: Array, v: Array, steps: int, rng: np.random.Generator) -> Array:
    """Joint forces (T, n, nv) by which the robot's own inertias would accelerate at random, and slow down."""
    step, forces = (
        ds.compile(tree, (), what, passive="none", gravity="input") for what in ("step", "inverse_dynamics")
    )
    knots = ACCELERATION * rng.normal(size=(steps // HELD + 2, *v.shape))
    driven = np.repeat([joint.nv == 1 for joint in tree.joints], [joint.nv for joint in tree.joints])
    gravity = tree.gravity * driven.all()  # what is in flight falls together
    out = []
    for t in range(steps):
        part = t % HELD / HELD
        wanted = (1 - part) * knots[t // HELD] + part * knots[t // HELD + 1] - DAMPING * v
        out.append(np.where(driven, forces(q, v, wanted, gravity), 0.0))
        q, v = step(q, v, out[-1], DT, gravity)
    return np.array(out)


def _measure(case: tuple[ds.Tree, int, int, bool]) -> Record:
    """Times and estimates of one robot."""
    tree, n, steps, whole = case
    rng, own = np.random.default_rng(SEED), tree.inertial_parameters
    true = _others(tree, rng)
    step = ds.compile(tree, (), "step", payloads=tree.link_names, passive="none")
    names = [f"payload{k}" for k in range(tree.n_links)]
    q0, v0 = tree.random(rng, n), 0.5 * rng.normal(size=(n, tree.nv))
    tau = _excitation(tree, q0, v0, steps, rng)
    given = dict(zip(names, true - own, strict=True))
    q = ds.rollout(step, q0, v0, tau, DT, time_axis=0, **given)[0][::EVERY]
    q[1:] = tree.integrate(q[1:], NOISE * rng.normal(size=(*q[1:].shape[:2], tree.nv)))
    v = np.full((len(q), n, tree.nv), np.nan)
    v[0] = v0
    scale = {"q": NOISE, "v": np.inf}
    call = partial(
        ds.identify, step, {"q": q, "v": v}, dict.fromkeys(names, np.zeros(10)), controls=tau, dt=DT, every=EVERY,
        scale=scale,
    )  # fmt: skip
    windows = Windows(step, {"q": q, "v": v}, scale, {"controls": tau, "dt": DT}, EVERY, None, False)
    changes = dict(zip(names, np.split(np.eye(10 * len(names)), len(names), axis=1), strict=True))
    with pinned():
        call()  # compiles
        begin = time.process_time()
        found = call()
        seconds = time.process_time() - begin
        results, *_ = windows.run(found.values, None)
        begin = time.process_time()
        windows.tangents(found.values, changes, results)
        jacobian = time.process_time() - begin
        base = ds.base_parameters(tree)
        more, errors = found.combination(base.grouping)
        wanted = base.grouping @ (true - own).ravel()
        square = found.residual**2 * (q[1:].size // tree.nq * tree.nv - found.root.shape[1])
        peer, absent = present({"": partial(sysid_inertias, tree, q, v0, tau, DT, EVERY, NOISE, whole)})
    out: Record = {
        "numbers": 10 * tree.n_links,
        "base": len(base.columns),
        "residuals": q[1:].size // tree.nq * tree.nv,
        "determined": int(np.isfinite(errors).sum()),
        "within two": float(np.mean(np.abs(more - wanted) < 2 * errors)),
        "deviation": float(np.sqrt(np.nanmean(((more - wanted) / errors) ** 2))),
        "seconds": seconds,
        "jacobian": jacobian,
        "evaluations": found.evaluations,
        "converged": found.converged,
        "square": square,
        "absent": absent.get("", ""),
    }
    if peer:
        parameters, out["sysid"] = peer[""]
        if parameters is not None:
            theirs = base.grouping @ (parameters - own).ravel()
            out["sysid"]["apart"] = float(np.max(np.abs(theirs - more) / errors))
    return out


def measure(robots: Path | None = None, quick: bool = False) -> Iterator[Record]:
    """Figures of each robot that is there; the record after each."""
    cases, absent = present(_cases(robots, quick))
    record: Record = {**environment(), "absent": {str(name): why for name, why in absent.items()}}
    yield from each(record, "robots", list(cases), lambda name: _measure(cases[name]))


def tables(record: Record) -> Iterator[Table | str]:
    """Estimates and times, a line a robot."""
    found = record["robots"]
    if not found:
        return
    columns = ("robot", "numbers", "base", "determined", "within two:.0%", "deviation:.2f", "evaluations", "s:.2f")
    keys = ("numbers", "base", "determined", "within two", "deviation", "evaluations", "seconds")
    rows = [(name, *(x[key] for key in keys)) for name, x in found.items()]
    yield table("ds.identify: all inertias of a robot; base parameters in standard errors", columns, rows)
    rows = [
        (name, x["sysid"]["seconds"], x["sysid"]["simulations"], x["sysid"]["simulated"], x["sysid"]["square"],
         x["square"], x["sysid"]["apart"], x["sysid"]["seconds"] / x["seconds"])
        for name, x in found.items() if "apart" in x.get("sysid", {})
    ]  # fmt: skip
    if rows:
        columns = ("robot", "its s:.1f", "trajectories", "in MuJoCo s:.1f", "its squares:.1f", "squares:.1f",
                   "apart:.2g", "ratio:.0f")  # fmt: skip
        yield table(
            "beside mujoco.sysid: sums of squares, and the largest difference of a base parameter", columns, rows
        )
    rows = [(name, x["jacobian"], x["sysid"]["jacobian"], x["sysid"]["jacobian simulated"],
             x["sysid"]["jacobian"] / x["jacobian"]) for name, x in found.items() if "sysid" in x]  # fmt: skip
    if rows:
        title = "one Jacobian, by all numbers of all trajectories, beside mujoco.sysid's differences"
        yield table(title, ("robot", "s:.3f", "its s:.1f", "in MuJoCo s:.1f", "ratio:.0f"), rows)
    yield from (f"{name}: {why}" for name, why in record["absent"].items())
    yield from (f"mujoco.sysid: {x['absent']}" for x in list(found.values())[:1] if x["absent"])
