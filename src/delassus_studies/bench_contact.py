"""``delassus bench contact``: time per step of the pendulum of [OS] section 8, its shares, and MuJoCo beside it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from rich.console import Console
from rich.table import Table

from delassus.contact.collision import CollisionDetector
from delassus.contact.impulses import ImpulseSolver
from delassus.contact.snapshot import ContactDynamics, Snapshot
from delassus.simulate.scenes import pendulum
from delassus.simulate.simulator import Simulator
from delassus_studies.peers_contact import mujoco_pendulum
from delassus_studies.timing import pinned, setting

LINKS = (3, 12, 30)
SWING = 12.0
"""Seconds that are run: the swing down, along the floor, to the wall, and back and forth on the floor."""
PARTS: tuple[tuple[str, type, tuple[str, ...]], ...] = (
    ("kernels", ContactDynamics, ("at",)),
    ("collision", CollisionDetector, ("contacts",)),
    ("assembly", Snapshot, ("assemble", "velocities", "response")),
    ("solver", ImpulseSolver, ("__call__", "decompression", "frictionless")),
)


def started(n: int) -> Simulator:
    """Pendulum of ``n`` links at its start, everything compiled."""
    ready = pendulum(n)
    sim = Simulator(ready.scene, dt=ready.dt, q0=ready.q0, v0=ready.v0)
    before = sim.get_state()
    sim.step()
    sim.set_state(before)
    return sim


def steps_of(sim: Simulator, n: int) -> tuple[list[float], list[int]]:
    """Seconds and number of contacts of each of ``n`` steps."""
    seconds, contacts = [], []
    for _ in range(n):
        start = time.perf_counter()
        sim.step()
        seconds.append(time.perf_counter() - start)
        contacts.append(len(sim.contacts))
    return seconds, contacts


@contextmanager
def watched() -> Iterator[dict[str, float]]:
    """Add up the seconds that each of the parts takes, without those of parts inside it."""
    spent = {name: 0.0 for name, _, _ in PARTS}
    inside = [0.0]

    def timed(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            inside.append(0.0)
            start = time.perf_counter()
            try:
                return method(*args, **options)
            finally:
                whole = time.perf_counter() - start
                spent[name] += whole - inside.pop()
                inside[-1] += whole

        return call

    patches = [
        patch.object(owner, method, timed(name, getattr(owner, method)))
        for name, owner, methods in PARTS
        for method in methods
    ]
    for p in patches:
        p.start()
    try:
        yield spent
    finally:
        for p in patches:
            p.stop()


def measure(n: int) -> dict[str, Any]:
    """All figures of one pendulum."""
    steps = round(SWING / pendulum(n).dt)
    first = started(n)
    before = first.get_state()
    first.run(SWING)  # warms up every branch
    first.set_state(before)
    start = time.perf_counter()
    first.run(SWING)
    whole = time.perf_counter() - start
    seconds, contacts = steps_of(started(n), steps)
    with watched() as spent:
        sim = started(n)
        for name in spent:
            spent[name] = 0.0
        start = time.perf_counter()
        sim.run(SWING)
        total = time.perf_counter() - start
    spent["Python"] = total - sum(spent.values())
    peer = mujoco_pendulum(n, steps)
    times, counts = np.array(seconds) * 1e6, np.array(contacts)
    groups = {"none": counts == 0, "1–4": (counts > 0) & (counts < 5), "5 and more": counts > 4}
    return {
        "run": whole / steps * 1e6,
        "by contacts": {
            name: {"steps": int(which.sum()), "median": float(np.median(times[which])) if which.any() else None}
            for name, which in groups.items()
        },
        "shares": {name: value / total for name, value in spent.items()},
        "statuses": {status.name: count for status, count in first.statuses.items()},
        "mujoco": peer,
    }


def _table(cases: dict[int, Any]) -> Table:
    table = Table(title="µs a step of 0.1 ms, collision included; medians by number of contacts", title_justify="left")
    for column in ("links", "run", "no contact", "1–4", "5 and more", "MuJoCo, no contact", "with contacts"):
        table.add_column(column, justify="right")
    for n, figures in cases.items():
        cells = [f"{figures['run']:.1f}"]
        for group in figures["by contacts"].values():
            cells.append("–" if group["median"] is None else f"{group['median']:.1f}")
        peer = figures["mujoco"]
        cells.extend("–" if peer is None or peer[k] is None else f"{peer[k]:.1f}" for k in ("free", "touching"))
        table.add_row(str(n), *cells)
    return table


def _shares(cases: dict[int, Any]) -> Table:
    table = Table(title="shares of the time of a run (with timers in it)", title_justify="left")
    names = list(next(iter(cases.values()))["shares"])
    for column in ("links", *names):
        table.add_column(column, justify="right")
    for n, figures in cases.items():
        table.add_row(str(n), *(f"{100 * figures['shares'][name]:.0f} %" for name in names))
    return table


def run(console: Console, file: Path | None, links: tuple[int, ...] = LINKS) -> dict[str, Any]:
    """Print the tables and write the raw figures."""
    record: dict[str, Any] = {**setting(), "swing": SWING, "links": {}}
    with pinned():
        for n in links:
            record["links"][n] = measure(n)
    console.print(f"{record['processor']}; {record['versions']}; one core; Lemke's method, pyramids of four sides")
    console.print(_table(record["links"]))
    console.print(_shares(record["links"]))
    if file is not None:
        file.write_text(json.dumps(record, indent=1))
        console.print(f"raw figures: {file}")
    return record
