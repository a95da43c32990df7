"""Problems of the IFToMM library of computational benchmark problems: errors, energy, seconds, and other programs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from warnings import catch_warnings

import numpy as np

import delassus as ds
from delassus.cli.tables import table
from delassus.spatial.rotations import Array
from delassus_studies.cases import Case, Unavailable
from delassus_studies.claims import Claim, Finding, Setup, unless, verdict
from delassus_studies.mechanisms import (
    ANDREWS_END,
    GOVERNOR_HEIGHTS,
    Andrews,
    Mechanism,
    X,
    Z,
    andrews,
    bennett,
    bricard,
    fall,
    four_bars,
    governor,
    integrated,
    motion,
    pendulum,
    slider_crank,
    swing,
)
from delassus_studies.peers import exudyn, pinocchio
from delassus_studies.timing import pinned

ERROR = 1e-3
"""Published for A02 as high precision: root mean square of errors of coordinates, each over its size."""
THRESHOLD = 1e-3
"""Published for A02: the least size (m) that an error is taken over."""
ENERGY = 5e-5
"""Joules that energy may drift by: of the library's A01, as Exudyn's example of it says."""
OUTPUTS = 200
"""Times that errors are taken at; published for A02, of 20 s: 400."""
LONG = 50
"""Bodies from which on the program takes a minute to compile."""
SHORT = 0.05
"""Fraction of the duration that is simulated for one point."""
RATE = 50.0
"""Rate (1/s) at which loops of Pinocchio are pulled together."""
Reference = Callable[[float, int], Array]
"""Positions (outputs + 1, 3) of the point until a time, of a reference solution."""


@dataclass(frozen=True)
class Problem:
    """A problem: mechanism, point that is compared, time step and duration (s), reference, options of `compile`.

    ``published``: seconds by program and processor. ``peers``: Exudyn's time step (s).
    """

    mechanism: Mechanism
    body: str
    at: Array
    step: float
    duration: float
    reference: Reference
    how: str
    theirs: str
    options: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, float] = field(default_factory=dict)
    quantity: str = "step"
    conserves: bool = True
    outputs: int = OUTPUTS
    pinocchio: bool = False


def simulated(problem: Problem, step: float, duration: float) -> tuple[float, Array, Array]:
    """Seconds of a rollout that has been made once before, and its states."""
    mechanism, steps = problem.mechanism, round(duration / step)
    tree, (q, v, tau) = mechanism.tree, mechanism.start
    options: dict[str, Any] = {"integrator": "rk4"} if problem.quantity == "step" else {}
    made: Any = ds.compile
    given = {"gravity": (0, 0, -mechanism.gravity), **options, **problem.options}
    kernel = made(tree, mechanism.constraints, problem.quantity, **given)
    seconds, found = math.inf, (q, v)
    for _ in range(2):
        began = time.thread_time()
        with catch_warnings(
            action="ignore", category=ds.DelassusWarning
        ):  # steps that are solved again take their time
            found = ds.rollout(kernel, q, v, np.tile(tau, (steps, 1)), step)
        seconds = min(seconds, time.thread_time() - began)
    return seconds, np.asarray(found[0]), np.asarray(found[1])


def error(found: Array, reference: Array) -> float:
    """Root mean square of errors of coordinates that move, over their sizes, which are `THRESHOLD` at least."""
    moves = np.ptp(reference, axis=0) > THRESHOLD
    relative = (found - reference)[:, moves] / np.maximum(np.abs(reference[:, moves]), THRESHOLD)
    return float(np.sqrt(np.mean(relative**2)))


HEADS = ("problem", "how", "step", "time", "error:.1e", "≤:.0e", "energy:.1e J", "≤:.0e J", "here:.4f s", "published",
         "ratio:.0f", "Exudyn:.3f s", "its error:.0e", "Pinocchio:.3f s", "its error:.0e", "reference")  # fmt: skip
TITLE = "[IFToMM] benchmark problems"


def measured(problem: Problem, setup: Setup) -> Finding:
    """Simulate, compare with the reference, and time other programs that are there."""
    p, mechanism = problem, problem.mechanism
    if setup.quick and len(mechanism.bodies) > LONG:
        raise Unavailable(f"a program of {len(mechanism.bodies)} bodies takes a minute to compile")
    duration = p.duration * (SHORT if setup.quick and p.outputs == OUTPUTS else 1.0)
    outputs = max(1, round(p.outputs * duration / p.duration))
    with pinned():
        seconds, qs, vs = simulated(p, p.step, duration)
        every = (len(qs) - 1) // outputs
        reference = p.reference(duration, outputs)
        off = error(mechanism.place(qs[::every], p.body, p.at), reference)
        energy = mechanism.energy(qs, vs)
        drift = float(np.abs(energy - energy[0]).max()) if p.conserves else None
        peers: list[float | None] = [None] * 4
        if not setup.quick:
            for k, run in ((0, _exudyn), (2, _pinocchio)):
                try:
                    peers[k], path = run(p, duration, outputs)
                    peers[k + 1] = error(path, reference)
                except Unavailable:
                    pass
    fastest = min(p.published.values(), default=None)
    ratio = fastest / seconds if fastest else None
    said = "; ".join(f"{name} {value:g} s" for name, value in p.published.items()) or None
    rows = [(mechanism.name, p.how, f"{1e3 * p.step:g} ms", f"{duration:g} s", off, ERROR, drift,
             ENERGY if p.conserves else None, seconds, said, ratio, *peers, p.theirs)]  # fmt: skip
    parts = {f"error {off:.1e}": off <= ERROR, f"energy drifts by {drift or 0:.1e} J": drift is None or drift <= ENERGY,
             f"takes {seconds:.2g} s, published is less": ratio is None or ratio > 1.0}  # fmt: skip
    text = f"error {off:.1e}" + ("" if drift is None else f", energy {drift:.1e} J") + f", {seconds:.2g} s"
    text += f": {ratio:.0f} times as fast as published" if ratio else ""
    for name, value in (("Exudyn", peers[0]), ("Pinocchio", peers[2])):
        text += f"; {name} here {value:.2g} s" if value is not None else ""
    return Finding(
        text,
        verdict(tuple(parts.values())),
        unless(parts),
        listings=(table(TITLE, HEADS, rows, ("how", "published", "reference")),),
    )


def _exudyn(p: Problem, duration: float, outputs: int) -> tuple[float, Array]:
    return exudyn.simulated(p.mechanism, p.step, duration, outputs, (p.body, p.at))


def _pinocchio(p: Problem, duration: float, outputs: int) -> tuple[float, Array]:
    if not p.pinocchio:
        raise Unavailable("Pinocchio has neither hinges as constraints nor these springs")
    case, steps = Case(p.mechanism.name, p.mechanism.tree, p.mechanism.constraints), round(duration / p.step)
    seconds, qs = pinocchio.simulated(case, p.mechanism.start, p.step, steps, RATE)
    return seconds, p.mechanism.place(qs[:: steps // outputs], p.body, p.at)


# -- the problems --------------------------------------------------------------------------------------------------

OURS = "ours"
I5 = "OpenSim 3.2, i5-4570:"


def _by_curve(mechanism: Mechanism, body: str, at: Array, span: tuple[float, float], nodes: int) -> Reference:
    """Reference by energies of one coordinate."""
    order = [[b.name for b in mechanism.bodies].index(name) for name in mechanism.tree.joint_names]

    def path(duration: float, outputs: int) -> Array:
        return mechanism.place(motion(mechanism, span, duration, outputs, nodes)[:, order], body, at)

    return path


def simple_pendulum() -> Problem:
    """A01."""

    def path(duration: float, outputs: int) -> Array:
        s = integrated(fall, 0.0, duration, outputs)
        return np.column_stack([-np.cos(s), 0 * s, np.sin(s)])

    return Problem(pendulum(), "rod", -X, 1e-3, 10.0, path, "tree, rk4", f"{OURS}: by hand",
                   published={I5: 0.637, "Exudyn, i7:": 0.037}, pinocchio=True)  # fmt: skip


def bars(n: int) -> Problem:
    """A02."""

    def path(duration: float, outputs: int) -> Array:
        s = integrated(swing(n), 1.0, duration, outputs)
        return np.column_stack([np.sin(s), 0 * s, np.cos(s)])

    published = {I5: 0.455, "Exudyn, i9:": 0.0776} if n == 2 else {}
    return Problem(four_bars(n), "upright0", Z, 1e-2, 10.0, path, "points, rk4", f"{OURS}: by hand",
                   published=published, pinocchio=True)  # fmt: skip


def squeezer() -> Problem:
    """A03, with the test set's angles at 0.03 s, and ours before."""
    mechanism = andrews()
    beta = Andrews().angles[0]
    at = 0.007 * np.array([math.cos(beta), 0, math.sin(beta)])

    def path(duration: float, outputs: int) -> Array:
        if duration != 0.03:
            raise Unavailable("the test set's solution is that at 0.03 s")
        c, s = math.cos(ANDREWS_END[0]), math.sin(ANDREWS_END[0])
        return np.array([at, [0.007 * c, 0, 0.007 * s]])

    return Problem(mechanism, "OF", at, 1e-5, 0.03, path, "points, rk4", "IVP test set", outputs=1,
                   published={I5: 0.384, "PSIDE, Cray C90:": 56.74})  # fmt: skip


def six_hinges(cut: int) -> Problem:
    """A04."""
    mechanism, at = bricard(cut), X - Z
    path = _by_curve(bricard(), "rod1", at, (-0.05, math.pi + 0.05), 128)
    how = f"hinge {'at the ground' if cut == 5 else 'between rods'}, rk4"
    return Problem(mechanism, "rod1", at, 1e-3, 10.0, path, how, f"{OURS}: energies of one angle",
                   published={I5: 0.258})  # fmt: skip


def flyballs() -> Problem:
    """A05."""

    def path(duration: float, outputs: int) -> Array:
        heights = GOVERNOR_HEIGHTS[: outputs + 1]
        if duration != outputs:
            raise Unavailable("the solution is that of full seconds")
        return np.column_stack([np.zeros((len(heights), 2)), heights])

    return Problem(governor(), "slider", Z / 2, 5e-4, 10.0, path, "springs, contact step", f"{OURS}: Radau IIA",
                   published={"Exudyn, Linux:": 0.5259}, quantity="contact_step", conserves=False,
                   outputs=10)  # fmt: skip


def spatial_crank() -> Problem:
    """The spatial slider-crank."""
    mechanism = slider_crank()
    at = mechanism.bodies[1].at
    path = _by_curve(mechanism, "slider", at, (-math.pi, math.pi), 320)
    return Problem(mechanism, "slider", at, 2.5e-4, 5.0, path, "point, rk4", f"{OURS}: energies of one angle",
                   pinocchio=True)  # fmt: skip


def four_hinges() -> Problem:
    """Bennett's mechanism."""
    mechanism = bennett()
    corner = mechanism.closures[0].at
    path = _by_curve(mechanism, "rod1", corner, (-math.pi, math.pi), 320)
    how = f"{OURS}: energies of one angle"
    return Problem(mechanism, "rod1", corner, 2.5e-4, 10.0, path, "hinge, rk4", how)


PROBLEMS: Mapping[str, tuple[Callable[[], Problem], str]] = {
    "A01": (simple_pendulum, "simple pendulum, 10 s"),
    "A02, 1": (lambda: bars(1), "one four-bar, 10 s, through its flat positions"),
    "A02, 2": (lambda: bars(2), "two four-bars, 10 s, through their flat positions"),
    "A02, 10": (lambda: bars(10), "ten four-bars, 10 s, through their flat positions"),
    "A02, 40": (lambda: bars(40), "forty four-bars, 10 s, through their flat positions"),
    "A03": (squeezer, "Andrews' squeezer mechanism, 0.03 s"),
    "A04": (lambda: six_hinges(2), "Bricard's mechanism, 10 s, closed between two rods"),
    "A04, ground": (lambda: six_hinges(5), "Bricard's mechanism, 10 s, closed on the ground"),
    "A05": (flyballs, "stiff flyball governor, 10 s"),
    "Bennett": (four_hinges, "Bennett's mechanism, 10 s, with numbers of our own"),
    "slider-crank": (spatial_crank, "spatial slider-crank, 5 s"),
}

CLAIMS = [
    Claim(f"[IFToMM] {name}", text, lambda setup, make=make: measured(make(), setup))  # type: ignore[misc]
    for name, (make, text) in PROBLEMS.items()
]
