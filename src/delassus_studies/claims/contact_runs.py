"""Claims of [OS] about the time to simulate the pendulum of its section 8 by OS and by NMC/OS (Table 2).

`Simulator` runs both from Python through the same steps, with everything that belongs to a simulation: collision
detection, impacts, drift.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from delassus.contact.results import SOLVED
from delassus.model.rotations import Array
from delassus.scenes.pendulum import pendulum
from delassus.scenes.ready import ReadyScene
from delassus.simulate.simulator import Simulator
from delassus_studies.claims import Claim, Finding, Listing, verdict
from delassus_studies.claims.contact_times import DURATION, PAIR, PAPER, PAPER_RATIOS, TIME_STEP
from delassus_studies.timing import pinned

PAPER_STEP, WINDOW = 1e-4, 1500
"""Time step of the paper (s), and how many of these steps are simulated by both."""
CHUNK, ROUNDS = 100, 2


@dataclass(frozen=True, slots=True)
class Race:
    """One pendulum by both formulations: start and time step (s), steps, those with contact, seconds by formulation.

    ``apart`` is the largest difference of joint angles (rad), ``unsolved`` the problems not solved to the tolerance.
    """

    start: float
    dt: float
    steps: int
    touching: int
    seconds: Mapping[str, float]
    apart: float
    unsolved: int

    @property
    def ratio(self) -> float:
        """Time of NMC/OS over that of OS."""
        return self.seconds["nmc-os"] / self.seconds["os"]


def race(ready: ReadyScene, dt: float, steps: int, q: Array, v: Array, start: float, rounds: int = ROUNDS) -> Race:
    """Simulate by both in turns, ``CHUNK`` steps each, and again: of each chunk, the shortest time counts."""
    least = {f: np.full(-(-steps // CHUNK), np.inf) for f in PAIR}
    for _ in range(rounds):
        sims = {f: ready.simulator(formulation=f, dt=dt, q0=q, v0=v, max_overlap=1.0) for f in PAIR}
        for sim in sims.values():  # what is compiled at the first call is none of the simulation's time
            before = sim.get_state()
            sim.step()
            sim.set_state(before)
        touching, apart = 0, 0.0
        for k in range(len(least["os"])):
            for f, sim in sims.items():
                seconds, touched = _chunk(sim, min(CHUNK, steps - k * CHUNK))
                least[f][k] = min(least[f][k], seconds)
                touching += touched if f == "os" else 0
            apart = max(apart, float(np.abs(sims["os"].q - sims["nmc-os"].q).max()))
    unsolved = sum(count for sim in sims.values() for status, count in sim.statuses.items() if status not in SOLVED)
    return Race(start, dt, steps, touching, {f: float(t.sum()) for f, t in least.items()}, apart, unsolved)


def _chunk(sim: Simulator, steps: int) -> tuple[float, int]:
    touched, start = 0, time.perf_counter()
    for _ in range(steps):
        sim.step()
        touched += len(sim.contacts) > 0
    return time.perf_counter() - start, touched


@cache
def whole_swing(n: int) -> Race:
    """The whole swing, in steps ten times as long as the paper's."""
    ready = pendulum(n)
    return race(ready, TIME_STEP, round(DURATION / TIME_STEP), ready.q0, ready.v0, 0.0)


@cache
def window(n: int) -> Race:
    """The part of the swing that has most steps with contact, in steps of the paper."""
    ready = pendulum(n)
    sim, touching, states = ready.simulator(dt=PAPER_STEP), [], []
    for k in range(round(DURATION / PAPER_STEP)):
        if k % CHUNK == 0:
            states.append((sim.q, sim.v, sim.time))
        sim.step()
        touching.append(len(sim.contacts) > 0)
    total = np.concatenate([[0], np.cumsum(touching)])
    starts = range(0, len(touching) - WINDOW + 1, CHUNK)
    best = max(starts, key=lambda k: int(total[k + WINDOW] - total[k]))
    return race(ready, PAPER_STEP, WINDOW, *states[best // CHUNK])


def table(races: Mapping[int, Race], title: str) -> Listing:
    """Times and ratios, by number of links."""
    rows = tuple(
        (
            str(n),
            f"{r.start:.2f} s",
            f"{r.touching} of {r.steps}",
            *(f"{r.seconds[f] * 1e6 / r.steps:.0f}" for f in PAIR),
            *(f"{r.seconds[f]:.3f}" for f in PAIR),
            f"{r.ratio:.1f}",
            f"{PAPER_RATIOS[n]:.1f}",
            f"{r.apart:.0e}",
            str(r.unsolved),
        )
        for n, r in races.items()
    )
    heads = ("OS µs a step", "NMC/OS µs a step", "OS s", "NMC/OS s", "ratio", "in the paper", "apart (rad)", "unsolved")
    return Listing(title, ("links", "from", "steps with contact", *heads), rows)


def judge(whole: Mapping[int, Race], part: Mapping[int, Race]) -> Finding:
    """What whole simulations say of the claim."""
    ratios, short = [r.ratio for r in whole.values()], [r.ratio for r in part.values()]
    names = list(whole)
    parts = [min(ratios) > 1.0, bool(np.all(np.diff(ratios) > 0)), ratios[-1] > 0.5 * PAPER_RATIOS[names[-1]]]
    return Finding(
        f"whole swing in steps of {TIME_STEP * 1e3:g} ms: {_said(names, ratios)}; {WINDOW} steps of "
        f"{PAPER_STEP * 1e3:g} ms: {_said(names, short)}.",
        verdict(parts),
        "ratios are large already at n = 3: by NMC/OS every step solves for the hinges; by OS a step "
        "without contact is one call of a kernel. Without that, see below" + ("" if parts[1] else "; no steady growth"),
        {
            "whole simulation": {
                f"swing, {TIME_STEP * 1e3:g} ms": (names, ratios),
                f"part, {PAPER_STEP * 1e3:g} ms": (names, short),
                "paper": (list(PAPER_RATIOS), list(PAPER_RATIOS.values())),
            }
        },
        (
            table(whole, f"[OS] Table 2, {DURATION:g} s by Simulator, steps of {TIME_STEP * 1e3:g} ms"),
            table(part, f"[OS] Table 2, {WINDOW} steps of {PAPER_STEP * 1e3:g} ms by Simulator"),
        ),
    )


def _said(names: Sequence[int], ratios: Sequence[float]) -> str:
    return ", ".join(f"{r:.0f} (n = {n})" for n, r in zip(names, ratios, strict=True))


def _runs(_: Path | None) -> Finding:
    with pinned():
        return judge({n: whole_swing(n) for n in PAPER}, {n: window(n) for n in PAPER})


CLAIMS = (
    Claim(
        "[OS] Table 2",
        "time to simulate the pendulum, same solver: OS faster than NMC/OS by 3.6 (3 links) to 55.6 (30 links), more "
        "with every link",
        _runs,
        "os_table2_speedup",
        x="links n",
        y="NMC/OS over OS",
    ),
)
