"""``delassus bench contact``: time per step of the pendulum of [OS] section 8, and MuJoCo beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
from rich.table import Table

import delassus as ds
from delassus.scenes import pendulum
from delassus_studies.peers import if_present
from delassus_studies.peers.mujoco import MujocoScene
from delassus_studies.tables import table
from delassus_studies.timing import Record, best, environment, pinned

LINKS = (3, 12, 30)
SWING, QUICK_SWING = 12.0, 0.1
"""Seconds that are run: the swing down, along the floor, to the wall, and back and forth on the floor."""
GROUPS = {"none": range(1), "1–4": range(1, 5), "5 and more": range(5, 1000)}
PEER_GROUPS = {"free": range(1), "touching": range(1, 1000)}
"""Numbers of contacts that are told apart."""


def _started(n: int) -> ds.Simulator:
    """Pendulum of ``n`` links at its start, everything compiled."""
    ready = pendulum(n)
    sim = ds.Simulator(ready.scene, dt=ready.dt, q0=ready.q0, v0=ready.v0)
    before = sim.get_state()
    sim.step()
    sim.set_state(before)
    return sim


def _by_contacts(
    step: Callable[[], object], contacts: Callable[[], int], n: int, groups: Mapping[str, range]
) -> Record:
    """Number and median time (µs) of the steps with so many contacts."""
    times, found = np.empty(n), np.empty(n, dtype=int)
    for k in range(n):
        start = time.perf_counter()
        step()
        times[k], found[k] = 1e6 * (time.perf_counter() - start), contacts()
    out = {}
    for name, numbers in groups.items():
        own = times[np.isin(found, numbers)]
        out[name] = {"steps": len(own), "median": float(np.median(own)) if len(own) else None}
    return out


def _measure_pendulum(n: int, duration: float) -> Record:
    ready, sim = pendulum(n), _started(n)
    steps = round(duration / ready.dt)
    before = sim.get_state()
    sim.run(duration)  # warms up every branch
    sim.set_state(before)
    whole, _ = best(partial(sim.run, duration))
    statuses = {status.name: count for status, count in sim.statuses.items()}
    timed = _started(n)
    peer = if_present(partial(MujocoScene, ready.scene, ready.q0, ready.v0, ready.dt))
    theirs = peer and _by_contacts(peer.step, lambda: peer.contacts, steps, PEER_GROUPS)
    return {
        "run": whole / steps * 1e6,
        "by contacts": _by_contacts(timed.step, lambda: len(timed.contacts), steps, GROUPS),
        "statuses": statuses,
        "mujoco": theirs and {name: group["median"] for name, group in theirs.items()},
    }


def measure(quick: bool = False) -> Iterator[Record]:
    """All figures of every pendulum; the record after each."""
    duration = QUICK_SWING if quick else SWING
    record: Record = {**environment(), "swing": duration, "links": {}}
    yield record
    with pinned():
        for n in LINKS[:1] if quick else LINKS:
            record["links"][n] = _measure_pendulum(n, duration)
            yield record


def tables(record: Record) -> Iterator[Table | str]:
    """Time per step by number of contacts beside MuJoCo's."""
    rows = []
    for n, figures in record["links"].items():
        medians = (group["median"] for group in figures["by contacts"].values())
        peer: Record = figures["mujoco"] or dict.fromkeys(PEER_GROUPS)
        rows.append((n, figures["run"], *medians, *peer.values()))
    yield "one core; the default of Simulator"
    heads = ("run", "no contact", "1–4", "5 and more", "MuJoCo, no contact", "with contacts")
    columns = ("links", *(f"{head}:.1f" for head in heads))
    yield table("µs a step of 0.1 ms, collision included; medians by number of contacts", columns, rows, grows=(5,))
