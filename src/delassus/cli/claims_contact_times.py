"""Claims of [OS] about the pendulum of its section 8: OS beside NMC/OS, with one solver (Table 2, Fig. 6).

A simulation by `Simulator` gives the states at which the pendulum touches something. At some of them, one step is
assembled and solved by OS and by NMC/OS, through the same code, from the same contacts; what is compared is the time of
the two, and the velocities that they find.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from delassus.cli.claims import Claim, Finding, Listing, NotHere, verdict
from delassus.cli.timing import pinned
from delassus.contact.contacts import ContactSet
from delassus.contact.formulations.nmc_os import NonMinimalOperationalSpace
from delassus.contact.formulations.operational_space import OperationalSpace
from delassus.contact.formulations.setting import Setting
from delassus.contact.impulses import ImpulseSolver
from delassus.contact.results import SolverStatus
from delassus.contact.snapshot import ContactDynamics
from delassus.contact.state import State
from delassus.errors import MissingDependencyError
from delassus.model.rotations import Array
from delassus.simulate.scenes.pendulum import pendulum

PAPER = {3: 3.6, 6: 6.5, 12: 16.1, 15: 25.6, 24: 49.7, 30: 55.6}
"""Speed-up of OS over NMC/OS by number of links."""
SAMPLES = 60
DURATION = 4.0
"""Time (s) in which the pendulum strikes the floor, itself and the wall."""
REPEATS = 3
SAME = 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class Swing:
    """Steps of one pendulum by both formulations.

    Attributes
    ----------
    contacts : (k,) array
        Number of contacts at each sampled state.
    os, nmc_os : (k,) arrays
        Seconds of a step: kernel, assembly, solution, new velocities; collision detection left out.
    apart : float
        Largest difference of their velocities, relative to the largest velocity.
    unsolved : int
        Steps that a solver did not report as solved.
    """

    contacts: Array
    os: Array
    nmc_os: Array
    apart: float
    unsolved: int

    @property
    def ratio(self) -> float:
        """Time of NMC/OS over that of OS."""
        return float(self.nmc_os.sum() / self.os.sum())


@cache
def swing(n: int, samples: int = SAMPLES, duration: float = DURATION) -> Swing:
    """Simulate a pendulum of ``n`` balls, and time steps at states in which it touches something."""
    ready = pendulum(n)
    sim = ready.simulator()
    touching: list[tuple[State, ContactSet]] = []
    for _ in range(round(duration / sim.dt)):
        state = State(sim.q, sim.v)
        sim.step()
        if len(sim.contacts):
            touching.append((state, sim.contacts))
    chosen = np.unique(np.linspace(0, len(touching) - 1, min(samples, len(touching))).astype(int))
    counts, times, apart, unsolved = [], [], 0.0, 0
    for i in chosen:
        state, contacts = touching[i]
        fast, v, good = _timed(OperationalSpace, sim.dynamics, state, contacts, sim.dt)
        slow, w, also = _timed(NonMinimalOperationalSpace, sim.dynamics, state, contacts, sim.dt)
        counts.append(len(contacts))
        times.append((fast, slow))
        unsolved += (not good) + (not also)
        if good and also:
            apart = max(apart, float(np.abs(v - w).max() / max(1.0, np.abs(v).max())))
    return Swing(np.array(counts), *np.array(times).reshape(-1, 2).T, apart, unsolved)


def _timed(
    kind: type[OperationalSpace] | type[NonMinimalOperationalSpace],
    dynamics: ContactDynamics,
    state: State,
    contacts: ContactSet,
    dt: float,
) -> tuple[float, Array, bool]:
    """Least seconds of a step, the velocities after it, and whether it was solved."""
    least, n = np.inf, len(contacts)
    solver = ImpulseSolver("lemke")
    for _ in range(REPEATS):
        start = time.perf_counter()
        snapshot = dynamics.at(state.q, state.v, state.tau)
        model = kind(Setting(dynamics, snapshot, state, contacts, np.zeros(dynamics.n_loops), np.zeros(3 * n)))
        k = model.n_free
        found = solver(model.Lambda, np.concatenate(model.vector(state.v, dt, np.zeros(3 * n))), k, contacts.friction)
        velocity, _ = model.recover(found.p[:k], found.p[k:], state.v, dt)
        least = min(least, time.perf_counter() - start)
    return least, velocity, found.status in (SolverStatus.CONVERGED, SolverStatus.ROUND_OFF)


def _swings() -> dict[int, Swing]:
    try:
        with pinned():
            return {n: swing(n) for n in PAPER}
    except MissingDependencyError as missing:
        raise NotHere(str(missing)) from missing


def _times(_: Path | None) -> Finding:
    swings = _swings()
    ratios = {n: s.ratio for n, s in swings.items()}
    rows = tuple(
        (
            str(n),
            f"{s.contacts.mean():.1f}",
            f"{s.os.mean() * 1e6:.0f}",
            f"{s.nmc_os.mean() * 1e6:.0f}",
            f"{ratios[n]:.1f}",
            f"{PAPER[n]:.1f}",
        )
        for n, s in swings.items()
    )
    grows = bool(np.all(np.diff(list(ratios.values())) > 0))
    near = ratios[30] > 0.5 * PAPER[30]
    listing = Listing(
        "[OS] Table 2, one step, mean over states with contact",
        ("links", "contacts", "OS µs", "NMC/OS µs", "ratio", "in the paper"),
        rows,
    )
    reason = ""
    if not grows:
        reason = "the ratio does not grow with every n; "
    if not near:
        reason += (
            "the paper solved each mixed problem as a whole (PATH); here hinges are eliminated by a factorisation "
            "first, which favours NMC/OS"
        )
    return Finding(
        f"NMC/OS over OS: {', '.join(f'{r:.1f} at n = {n}' for n, r in ratios.items())}.",
        verdict([grows, ratios[3] > 1.0, near]),
        reason,
        {"a step": {"here": (list(ratios), list(ratios.values())), "paper": (list(PAPER), list(PAPER.values()))}},
        (listing,),
    )


def _agreement(_: Path | None) -> Finding:
    swings = _swings()
    worst = max(s.apart for s in swings.values())
    unsolved, steps = sum(s.unsolved for s in swings.values()), 2 * sum(len(s.contacts) for s in swings.values())
    touching = int(sum((s.contacts > 0).sum() for s in swings.values()))
    return Finding(
        f"velocities after one step from equal states differ by at most {worst:.0e} (relative; {touching} states with "
        f"contact, n = 3 … 30); {unsolved} of {steps} problems not solved to the tolerance. Here both take the same "
        "discretisation in time, so that nothing depends on the step.",
        verdict([worst < SAME, unsolved == 0]),
    )


TIME_CLAIMS = (
    Claim(
        "[OS] Table 2",
        "pendulum, same solver: OS faster than NMC/OS by 3.6 (3 links) to 55.6 (30 links), more with every link",
        _times,
        "os_table2_speedup",
        x="links n",
        y="NMC/OS over OS",
    ),
    Claim("[OS] Fig. 6", "trajectories by OS and NMC/OS lie on each other", _agreement),
)
