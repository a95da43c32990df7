"""Claims of [OS] about the swing of a pendulum of 12 links, by OS and by NMC/OS (Figs. 5 and 6)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np

from delassus.contact.results import SOLVED
from delassus.model.rotations import Array
from delassus.pictures.plots import centre_motion, swing_figure
from delassus.scenes.pendulum import pendulum
from delassus.simulate.recording import Recorder, Recording
from delassus_studies.claims import Claim, Finding, Listing, verdict

LINKS, DURATION, SAMPLE = 12, 3.0, 1e-3
"""Of the paper's figures, how long it swings (s), and the time between samples (s)."""
STEPS = (1e-3, 5e-4, 2.5e-4)
FINER = (1.25e-4, 6.25e-5)
REFERENCE = 1.5625e-5
EARLY = 1.0
"""Time (s) until which trajectories of neighbouring steps are compared: afterwards impacts have amplified too much."""
SAME = 1e-6
NAMES = {"os": "OS", "nmc-os": "NMC/OS"}


@cache
def recorded(formulation: str, dt: float, links: int = LINKS, duration: float = DURATION) -> Recording:
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


def apart(one: Recording, other: Recording, until: float = np.inf) -> tuple[Array, Array]:
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
        most, when = apart(fast, slow)
        missed = unsolved(fast) + unsolved(slow)
        contacts = int((fast.contact_counts > 0).sum())
        parts += [bool(most[0] < SAME), missed == 0]
        rows.append((f"{dt * 1e3:g}", str(len(fast.contact_times)), str(contacts),
                     *(f"{m:.0e} at {t:.2f} s" for m, t in zip(most, when, strict=True)), str(missed)))  # fmt: skip
    said = "; ".join(f"{row[3]} in steps of {row[0]} ms" for row in rows)
    heads = ("step (ms)", "contacts", "samples with contact", "height apart (m)", "velocity apart (± 1e-8 m/s)")
    return Finding(
        f"heights of the last link over {DURATION:g} s, n = {LINKS}, differ by at most {said}.",
        verdict(parts),
        "" if all(parts) else "round-off, amplified by impacts, or unsolved problems, part them",
        listings=(Listing("[OS] Fig. 6: OS beside NMC/OS", (*heads, "unsolved"), tuple(rows)),),
    )


def _agreement(_: Path | None) -> Finding:
    return judge_agreement({dt: (recorded("os", dt), recorded("nmc-os", dt)) for dt in STEPS})


def _convergence(_: Path | None) -> Finding:
    finest = recorded("os", REFERENCE)
    steps = (*STEPS, *FINER)
    early = [float(apart(recorded("os", dt), finest, EARLY)[0][0]) for dt in steps]
    late = [float(apart(recorded("os", dt), finest)[0][0]) for dt in steps]
    formulations = [float(apart(recorded("os", dt), recorded("nmc-os", dt))[0][0]) for dt in STEPS]
    order = float(np.polyfit(np.log(steps), np.log(early), 1)[0])
    rows = tuple(
        (f"{dt * 1e3:g}", f"{a:.1e}", f"{b:.1e}", f"{formulations[k]:.1e}" if k < len(formulations) else "–")
        for k, (dt, a, b) in enumerate(zip(steps, early, late, strict=True))
    )
    heads = ("step (ms)", f"OS, until {EARLY:g} s", f"OS, until {DURATION:g} s", "OS beside NMC/OS, same step")
    milli = [dt * 1e3 for dt in steps]
    return Finding(
        f"OS beside OS in steps of {REFERENCE * 1e3:.3g} ms: height of the last link off by {early[0]:.0e} m in steps "
        f"of {milli[0]:g} ms, by {early[-1]:.0e} m in steps of {milli[-1]:g} ms until {EARLY:g} s (order {order:.1f}), "
        f"by {late[0]:.1g} and {late[-1]:.1g} m until {DURATION:g} s: after the wall, impacts amplify what differs.",
        verdict([0.7 < order, early[-1] < early[0], late[-1] < late[0]]),
        "differences between OS and NMC/OS are round-off here, whatever the step: both take the same discretisation",
        {
            "height of the last link": {
                f"OS, until {EARLY:g} s": (milli, early),
                f"OS, until {DURATION:g} s": (milli, late),
                "OS beside NMC/OS": (milli[: len(STEPS)], formulations),
            }
        },
        (Listing(f"height (m) beside steps of {REFERENCE * 1e3:.3g} ms", heads, rows),),
    )


def draw_swing(folder: Path) -> Path:
    """Figs. 5 and 6: frames, height and normal velocity of the last link, energy; by both formulations."""
    dt = STEPS[-1]
    return swing_figure({name: recorded(f, dt) for f, name in NAMES.items()}, folder / "os_fig5_fig6_swing.png")


CLAIMS = (
    Claim("[OS] Figs. 5, 6", "trajectories by OS and NMC/OS lie on each other", _agreement, draw=draw_swing),
    Claim(
        "[OS] Fig. 6",
        "trajectories come closer as the step shrinks",
        _convergence,
        "os_fig6_steps",
        log=True,
        x="time step (ms)",
        y="largest difference (m)",
    ),
)
