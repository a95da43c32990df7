"""``delassus bench contact``: time per step of the pendulum of [OS] section 8, its shares, and MuJoCo beside it."""

from __future__ import annotations

import cProfile
import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType

import numpy as np
from rich.table import Table

import delassus
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
PARTS = {
    "kernels": ("runtime", "compiler"),
    "collision": ("contact/collision", "formats"),
    "solver": ("contact/solvers",),
    "assembly": ("contact",),
    "simulator": ("",),
}
"""Parts of a step, and the first matching of the library's files that hold them."""


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


_KERNEL_CALL = "kernel_call"


@contextmanager
def _kernels_seen() -> Iterator[None]:
    """Put a function of Python around kernels, whose calls cProfile would not see."""

    def around(entry: Callable[..., object]) -> Callable[..., object]:
        def kernel_call(*given: object, **named: object) -> object:
            return entry(*given, **named)

        return kernel_call

    entries = [(x, x.__call__) for x in gc.get_objects() if isinstance(x, ds.Kernel) and type(x) is not ds.Kernel]
    for kernel, entry in entries:
        object.__setattr__(kernel, "__call__", around(entry))
    try:
        yield
    finally:
        for kernel, entry in entries:
            object.__setattr__(kernel, "__call__", entry)


def shares(call: Callable[[], object]) -> dict[str, float]:
    """Share of each of `PARTS` in the time of a call, by cProfile; NumPy's and built-in functions count for callers."""
    profile = cProfile.Profile()
    with _kernels_seen():
        profile.runcall(call)
    home = Path(delassus.__file__).parent
    spent = dict.fromkeys(PARTS, 0.0)

    def part(code: object) -> str | None:
        if getattr(code, "co_name", "") == _KERNEL_CALL:
            return "kernels"
        file = Path(code.co_filename) if isinstance(code, CodeType) else Path()
        if not file.is_relative_to(home):
            return None
        inside = file.relative_to(home).as_posix()
        return next(name for name, folders in PARTS.items() if inside.startswith(folders))

    for entry in profile.getstats():
        if (name := part(entry.code)) is not None:
            outside = sum(called.totaltime for called in entry.calls or () if part(called.code) is None)
            spent[name] += entry.inlinetime + outside
    return {name: seconds / sum(spent.values()) for name, seconds in spent.items()}


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
        "shares": shares(partial(_started(n).run, duration)),
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
    """Time per step by number of contacts beside MuJoCo's, and shares of it."""
    rows = []
    for n, figures in record["links"].items():
        medians = (group["median"] for group in figures["by contacts"].values())
        peer: Record = figures["mujoco"] or dict.fromkeys(PEER_GROUPS)
        rows.append((n, figures["run"], *medians, *peer.values()))
    yield "one core; the default of Simulator"
    heads = ("run", "no contact", "1–4", "5 and more", "MuJoCo, no contact", "with contacts")
    columns = ("links", *(f"{head}:.1f" for head in heads))
    yield table("µs a step of 0.1 ms, collision included; medians by number of contacts", columns, rows, grows=(5,))
    rows = [(n, *(100 * figures["shares"][name] for name in PARTS)) for n, figures in record["links"].items()]
    columns = ("links", *(f"{name}:.0f %" for name in PARTS))
    yield table("shares of the time of a run under Python's profiler", columns, rows)
