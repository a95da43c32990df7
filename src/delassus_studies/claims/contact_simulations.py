"""Claims of [OS] about simulations of the pendulum of its section 8 by OS and by NMC/OS: their times and trajectories.

`Simulator` runs both from Python through the same steps, with everything that belongs to a simulation: collision
detection, impacts, drift.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.table import Table

from delassus.cli.tables import table
from delassus.pictures.plots import centre_motion, swing_figure
from delassus.scenes.pendulum import pendulum
from delassus.scenes.ready import ReadyScene
from delassus.simulate.recording import Recorder, Recording
from delassus.simulate.simulator import Simulator
from delassus.solvers.results import SOLVED
from delassus.spatial.rotations import Array
from delassus_studies.claims import Claim, Finding, Setup, verdict
from delassus_studies.claims.contact import BRIEF, DURATION, PAIR, PAPER, PAPER_RATIOS, TIME_STEP, works_of
from delassus_studies.timing import pinned

# -- times (Table 2) ---------------------------------------------------------------------------------------------------

ROUNDS = 2
NEAR = 1 / 3
"""How near a ratio made from work must come to the paper's."""


class Race(NamedTuple):
    """One pendulum by both formulations: time step (s), steps, seconds by formulation.

    ``difference`` is that of joint angles at the end (rad), ``unsolved`` the problems not solved to the tolerance.
    """

    dt: float
    steps: int
    seconds: Mapping[str, float]
    difference: float
    unsolved: int

    @property
    def duration(self) -> float:
        """Simulated time (s)."""
        return self.dt * self.steps

    @property
    def ratio(self) -> float:
        """Time of NMC/OS over that of OS."""
        return self.seconds["nmc-os"] / self.seconds["os"]


def race(ready: ReadyScene, dt: float, duration: float, rounds: int = ROUNDS) -> Race:
    """Simulate by both in turns, some times: of each, the shortest time counts."""
    seconds, sims = dict.fromkeys(PAIR, np.inf), dict[str, Simulator]()
    for f in PAIR * rounds:
        sims[f] = sim = ready.simulator(formulation=f, dt=dt)
        before = sim.get_state()
        sim.step()  # what is compiled at the first call is none of the simulation's time
        sim.set_state(before)
        start = time.thread_time()  # without what other programs take in between
        sim.run(duration)
        seconds[f] = min(seconds[f], time.thread_time() - start)
    q, other = (sim.q for sim in sims.values())
    unsolved = sum(count for sim in sims.values() for status, count in sim.statuses.items() if status not in SOLVED)
    return Race(dt, round(duration / dt), seconds, float(np.abs(q - other).max()), unsolved)


def table_of_races(races: Mapping[int, Race]) -> Table:
    """Times and ratios, by number of links."""
    rows = (
        (n, *(1e6 * r.seconds[f] / r.steps for f in PAIR), *(r.seconds[f] for f in PAIR), r.ratio, PAPER_RATIOS[n],
         r.difference, r.unsolved)
        for n, r in races.items()
    )  # fmt: skip
    heads = ("links:", "OS µs a step:.0f", "NMC/OS µs a step:.0f", "OS s:.3f", "NMC/OS s:.3f", "ratio:.1f",
             "in the paper:.1f", "difference (rad):.0e", "unsolved:")  # fmt: skip
    return table(f"[OS] Table 2, by Simulator, steps of {TIME_STEP * 1e3:g} ms", heads, rows)


def judge(races: Mapping[int, Race]) -> Finding:
    """What whole simulations say of the claim."""
    names, ratios = list(races), [r.ratio for r in races.values()]
    parts = [min(ratios) > 1.0, bool(np.all(np.diff(ratios) > 0)), ratios[-1] > 0.5 * PAPER_RATIOS[names[-1]]]
    said = ", ".join(f"{r:.0f} (n = {n})" for n, r in zip(names, ratios, strict=True))
    return Finding(
        f"{next(iter(races.values())).duration:g} s in steps of {TIME_STEP * 1e3:g} ms: {said}.",
        verdict(parts),
        "ratios are large already at n = 3: by NMC/OS every step solves for the hinges; by OS a step "
        "without contact is compiled code alone. Without that, see above" + ("" if parts[1] else "; no steady growth"),
        {
            "whole simulation": {
                "Simulator": (names, ratios),
                "paper": (list(PAPER_RATIOS), list(PAPER_RATIOS.values())),
            }
        },
        (table_of_races(races),),
    )


def _runs(setup: Setup) -> Finding:
    with pinned():
        duration, rounds = (BRIEF, 1) if setup.quick else (DURATION, ROUNDS)
        return judge({n: race(pendulum(n), TIME_STEP, duration, rounds) for n in setup.few(PAPER)})


# -- the paper's times from the work of pivoting -----------------------------------------------------------------------


def times_from_work(works: Mapping[int, float]) -> tuple[float, dict[int, float]]:
    """One scale, seconds for a unit of work, and ratios NMC/OS over OS by number of links with the paper's times of OS.

    The scale, median of what the paper's numbers give, stands for its processor and solver, and for the steps taken.
    """
    scale = float(np.median([(PAPER[n][1] - PAPER[n][0]) / each for n, each in works.items()]))
    return scale, {n: 1.0 + scale * each / PAPER[n][0] for n, each in works.items()}


def _from_work(setup: Setup) -> Finding:
    works = works_of(setup)
    first = times_from_work({n: w.first - w.os for n, w in works.items()})[1]
    split = times_from_work({n: w.split - w.os for n, w in works.items()})[1]
    by = {"free unknowns first": first, "split in two": split}
    off = {name: {n: r / PAPER_RATIOS[n] - 1.0 for n, r in ratios.items()} for name, ratios in by.items()}
    said = "; ".join(
        f"{name} {', '.join(f'{r:.1f}' for r in ratios.values())} (off by {min(off[name].values()):+.0%} to "
        f"{max(off[name].values()):+.0%})"
        for name, ratios in by.items()
    )
    parts = [abs(x) < NEAR for each in off.values() for x in each.values()]
    parts += [min(np.diff(list(ratios.values()))) > 0 for ratios in by.values()]
    away = ", ".join(f"{name}, n = {n}" for name, each in off.items() for n, x in each.items() if abs(x) >= NEAR)
    curves = {**by, "paper": PAPER_RATIOS}
    return Finding(
        f"the paper's time of OS and, for each unit of pivots × unknowns² that NMC/OS needs beyond, one number of "
        f"seconds for all lengths, make ratios of {said}; paper "
        f"{', '.join(f'{PAPER_RATIOS[n]:.1f}' for n in works)}.",
        verdict(parts),
        f"beyond {NEAR:.0%}: {away or 'none'}. The paper gives neither the number of steps and of problems nor what a "
        f"step takes beside its problem, which must be most of the {PAPER[3][0]:.0f} to {PAPER[30][0]:.0f} s of OS",
        {"whole simulation": {name: (list(curve), list(curve.values())) for name, curve in curves.items()}},
    )


# -- trajectories of 12 links (Figs. 5 and 6) --------------------------------------------------------------------------

LINKS, SAMPLE = 12, 1e-3
"""Of the paper's figures, and the time between samples (s)."""
STEPS = (1e-3, 5e-4, 2.5e-4)
FINER = (1.25e-4, 6.25e-5)
REFERENCE = 1.5625e-5
EARLY = 1.0
"""Time (s) until which trajectories of neighbouring steps are compared: afterwards impacts have amplified too much."""
SAME = 1e-6
NAMES = {"os": "OS", "nmc-os": "NMC/OS"}


@cache
def recorded(formulation: str, dt: float, duration: float = DURATION, links: int = LINKS) -> Recording:
    """The swing, with a sample every millisecond whatever the step."""
    sim = pendulum(links).simulator(formulation=formulation, dt=dt)
    recording = sim.run(duration, record=Recorder(round(SAMPLE / dt)))
    assert recording is not None
    return recording


def last_link(recording: Recording) -> Array:
    """Height (m) and vertical velocity (m/s) of the last link, (T, 2)."""
    scene = recording.require_scene()
    place, velocity = centre_motion(scene, recording.q, recording.v, scene.tree.n_links - 1)
    return np.stack([place[:, 2], velocity[:, 2]], axis=-1)


def largest_difference(one: Recording, other: Recording, until: float = np.inf) -> tuple[Array, Array]:
    """Largest differences of height and velocity of the last link, and when they are reached (s)."""
    n = min(len(one), len(other))
    difference = np.abs(last_link(one)[:n] - last_link(other)[:n])[one.time[:n] <= until + 1e-9]
    return difference.max(axis=0), one.time[difference.argmax(axis=0)]


def unsolved(recording: Recording) -> int:
    """Problems that were not solved to the tolerance."""
    sound = [status.name for status in SOLVED]
    return sum(count for status, count in recording.origin.statuses.items() if status not in sound)


def judge_agreement(pairs: Mapping[float, tuple[Recording, Recording]]) -> Finding:
    """What recordings by OS and NMC/OS say of Fig. 6, by time step."""
    rows, parts = [], []
    for dt, (fast, slow) in pairs.items():
        most, when = largest_difference(fast, slow)
        missed = unsolved(fast) + unsolved(slow)
        contacts = int((fast.contact_counts > 0).sum())
        parts += [bool(most[0] < SAME), missed == 0]
        rows.append((f"{dt * 1e3:g}", str(len(fast.contact_times)), str(contacts),
                     *(f"{m:.0e} at {t:.2f} s" for m, t in zip(most, when, strict=True)), str(missed)))  # fmt: skip
    said = "; ".join(f"{row[3]} in steps of {row[0]} ms" for row in rows)
    heads = ("step (ms)", "contacts", "samples with contact", "height differs (m)", "velocity differs (± 1e-8 m/s)")
    return Finding(
        f"heights of the last link over {fast.time[-1]:g} s, n = {LINKS}, differ by at most {said}.",
        verdict(parts),
        "" if all(parts) else "round-off, amplified by impacts, or unsolved problems, make the difference",
        listings=(table("[OS] Fig. 6: OS beside NMC/OS", (*heads, "unsolved"), rows),),
    )


def _agreement(setup: Setup) -> Finding:
    duration = BRIEF if setup.quick else DURATION
    steps = setup.few(STEPS)
    return judge_agreement({dt: (recorded("os", dt, duration), recorded("nmc-os", dt, duration)) for dt in steps})


def _convergence(setup: Setup) -> Finding:
    reference, duration = (FINER[-1], BRIEF) if setup.quick else (REFERENCE, DURATION)
    finest = recorded("os", reference, duration)
    steps, both = setup.few((*STEPS, *FINER)), setup.few(STEPS)
    found = {dt: recorded("os", dt, duration) for dt in steps}
    until = min(EARLY, duration)
    early = [float(largest_difference(each, finest, until)[0][0]) for each in found.values()]
    late = [float(largest_difference(each, finest)[0][0]) for each in found.values()]
    formulations = [float(largest_difference(found[t], recorded("nmc-os", t, duration))[0][0]) for t in both]
    order = float(np.polyfit(np.log(steps), np.log(early), 1)[0])
    rows = tuple(
        (f"{dt * 1e3:g}", f"{a:.1e}", f"{b:.1e}", f"{formulations[k]:.1e}" if k < len(formulations) else "–")
        for k, (dt, a, b) in enumerate(zip(steps, early, late, strict=True))
    )
    heads = ("step (ms)", f"OS, until {until:g} s", f"OS, until {duration:g} s", "OS beside NMC/OS, same step")
    milli = [dt * 1e3 for dt in steps]
    return Finding(
        f"OS beside OS in steps of {reference * 1e3:.3g} ms: height of the last link off by {early[0]:.0e} m in steps "
        f"of {milli[0]:g} ms, by {early[-1]:.0e} m in steps of {milli[-1]:g} ms until {until:g} s (order {order:.1f}), "
        f"by {late[0]:.1g} and {late[-1]:.1g} m until {duration:g} s"
        f"{'' if setup.quick else ': after the wall, impacts amplify what differs'}.",
        verdict([0.7 < order, early[-1] < early[0], late[-1] < late[0]]),
        "differences between OS and NMC/OS are round-off here, whatever the step: both take the same discretisation",
        {
            "height of the last link": {
                f"OS, until {until:g} s": (milli, early),
                f"OS, until {duration:g} s": (milli, late),
                "OS beside NMC/OS": (milli[: len(both)], formulations),
            }
        },
        (table(f"height (m) beside steps of {reference * 1e3:.3g} ms", heads, rows),),
    )


def draw_swing(folder: Path) -> Path:
    """Figs. 5 and 6: frames, height and normal velocity of the last link, energy; by both formulations."""
    dt = STEPS[-1]
    return swing_figure({name: recorded(f, dt) for f, name in NAMES.items()}, folder / "os_fig5_fig6_swing.png")


CLAIMS = (
    Claim("[OS] Table 2", "time to simulate the pendulum, same solver: OS faster than NMC/OS by 3.6 (3 links) to 55.6 "
          "(30 links), more with every link", _runs, "os_table2_speedup", x="links n", y="NMC/OS over OS",
          published=_from_work),
    Claim("[OS] Figs. 5, 6", "trajectories by OS and NMC/OS lie on each other", _agreement, draw=draw_swing),
    Claim("[OS] Fig. 6", "trajectories come closer as the step shrinks", _convergence, "os_fig6_steps", log=True,
          x="time step (ms)", y="largest difference (m)"),
)  # fmt: skip
