"""Cotangents of rollouts of a thousand contact steps against differences of whole rollouts in extended precision.

Go1 stands and trots under PD gains. A number of the motion, random weights on all states, has its derivatives with the
start, targets, gains, friction and time steps by one sweep of ``derivative("vjp")`` back through the rollout, and by
differences of rollouts that the interpreted program makes, a random direction of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from rich.table import Table

import delassus as ds
from delassus.cli.tables import Record, table
from delassus_studies.bench.contact.extended import Reference, joint_by_joint
from delassus_studies.bench.contact.steps import DT, StepCase, starts, step_cases
from delassus_studies.timing import each

STEPS = 1000
WIDTHS = (4e-7, 2e-7)
"""Of differences along directions of about one; those of two widths are extrapolated to none."""
FRICTION = 0.6
PRESSED = 5e-5
"""How deep (m) feet are in the floor at the start, which a step leaves alone: at zero they would be at a switch."""
LEAST = 1e-9
"""Derivative that is none."""


def _motions(quick: bool) -> list[StepCase]:
    """Go1 that stands, and that trots."""
    trot = replace(step_cases(quick=True)[0], name="trots")
    stand = replace(trot, name="stands", gait=None)
    return [stand] if quick else [stand, trot]


def _measure(case: StepCase, steps: int) -> Record:
    rng, tree = np.random.default_rng(0), case.tree
    start = starts(case, "gait", 1, steps)
    start.q[:, 2] -= PRESSED
    kernel = ds.compile(tree, case.contacts, "contact_step", control="pd", friction="input", tolerance=1e-11,
                        sweeps=5000, **case.options)  # fmt: skip
    names = [a.name for a in kernel.arguments]
    held: dict[str, Any] = {"kp": case.gains[0], "kd": case.gains[1], "friction": np.full(4, FRICTION)}
    how: dict[str, Any] = {"time_axis": 0, "return_status": True, **held}
    q, v, p, _, status = ds.rollout(
        kernel, start.q[0], start.v[0], start.targets[:, 0], DT, impulses=start.impulses[0], **how
    )
    bars = {"q": rng.normal(size=(steps, tree.nq)), "v": rng.normal(size=(steps, tree.nv))}
    given: dict[str, Any] = {f"{name}_next_bar": x for name, x in bars.items()}
    *made, back = ds.rollout(kernel.derivative("vjp"), q, v, start.targets[:, 0], DT, impulses=p, **given, **how)
    solved = np.array([x == ds.DynamicsStatus.SOLVED for x in [*status.ravel(), *back.ravel()]]).all()
    cotangents = dict(zip(names, made, strict=True))

    # rows: four ends of each direction
    directions: dict[str, Any] = {
        name: rng.normal(size=np.shape(cotangents[name])) for name in names if name != "impulses"
    }
    directions["q"] = rng.normal(size=tree.nv)
    directions["dt"] = np.array(1e-3)
    scale = {"kp": case.gains[0], "kd": case.gains[1], "q_target": 0.1}
    ends = [(name, s) for name in directions for h in WIDTHS for s in (h, -h)]
    reference, total = Reference(kernel), np.zeros(len(ends), np.longdouble)
    nominal = {"q": q[0], "v": v[0], "dt": np.array(DT), **held}
    wide = {name: np.tile(np.asarray(x, np.longdouble), (len(ends), *[1] * np.ndim(x))) for name, x in nominal.items()}
    targets = np.tile(start.targets[:, 0].astype(np.longdouble), (len(ends), 1, 1))
    along = {name: np.asarray(x * scale.get(name, 1.0), np.longdouble) for name, x in directions.items()}
    for k, (name, s) in enumerate(ends):
        step = np.longdouble(s)
        if name == "q_target":
            targets[k] += step * along[name]
        elif name == "q":
            wide["q"][k] = joint_by_joint(tree, "integrate", wide["q"][k : k + 1], step * along["q"][None])[0]
        else:
            wide[name][k] += step * along[name]
    turned = (wide["q"][0] - wide["q"][1]) / np.longdouble(2 * WIDTHS[0])  # a change of coordinates
    worst = 0.0
    for t in range(steps):
        now = {**wide, "impulses": np.tile(p[t + 1], (len(ends), 1)), "q_target": targets[:, t]}
        wide["q"], wide["v"], missed = reference([now[name] for name in names])
        total += wide["q"] @ bars["q"][t] + wide["v"] @ bars["v"][t]
        worst = max(worst, float(missed.max()))
    coarse, fine = ((total[k::4] - total[k + 1 :: 4]) / (2 * np.longdouble(WIDTHS[k // 2])) for k in (0, 2))
    wanted = fine + (fine - coarse) / 3
    along["q"] = turned
    found = [float((cotangents[name] * along[name]).sum()) for name in directions]
    errors, moved = (
        {k: None if abs(y) < LEAST else abs(float(x / y) - 1.0) for k, x, y in zip(directions, *pair, strict=True)}
        for pair in ((wanted, found), (coarse, fine))
    )
    return {"steps": steps, "solved": bool(solved), "errors": errors, "moved": moved, "residual": worst,
            "found": dict(zip(directions, found, strict=True))}  # fmt: skip


def measure(record: Record, quick: bool = False) -> Iterator[Record]:
    """Errors of each motion; the record after each."""
    yield from each(record, "motions", _motions(quick), lambda case: _measure(case, 10 if quick else STEPS))


def tables(record: Record) -> Iterator[Table | str]:
    """Relative errors by argument."""
    yield "relative errors of cotangents of rollouts, along a direction of each argument"
    names = [*next(iter(record["motions"].values()))["errors"]]
    rows = [(name, x["steps"], *(x["errors"][k] for k in names)) for name, x in record["motions"].items()]
    yield table("", ("Go1", "steps", *(f"{name}:.0e" for name in names)), rows)
