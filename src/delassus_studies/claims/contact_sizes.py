"""Claims of [OS] about the sizes of contact problems and the cost of their assembly (Table 1)."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from delassus.contact.contacts import ContactSet, frames_of
from delassus.contact.formulate import formulate
from delassus.contact.formulations import FORMULATIONS
from delassus.contact.scene import Scene, State
from delassus.contact.snapshot import ContactDynamics
from delassus.model.mechanisms import pendulum
from delassus.scenes.dual_arm import dual_arm_robot
from delassus_studies.claims import Claim, Finding, Listing, verdict
from delassus_studies.timing import pinned, slope

PAPER_NAMES = {"nmc": "NMC", "nmc-os": "NMC/OS", "mc": "MC", "rmc": "RMC", "os": "OS"}
DUAL_ARM = {"nmc": 310, "mc": 50, "rmc": 24, "os": 24}
PENDULUMS = {
    3: (24, 39, 57),
    6: (24, 54, 90),
    12: (24, 84, 156),
    15: (24, 99, 189),
    24: (24, 144, 288),
    30: (24, 174, 354),
}
"""Table 2: sizes of OS, NMC/OS and NMC by number of links, with four contacts and n_f = 4."""


def on_last_links(tree_links: int, n: int = 4) -> ContactSet:
    """Contacts of the last ``n`` links, or of fewer in turns, with the ground."""
    links = [[tree_links - 1 - k % tree_links, -1] for k in range(n)]
    places = np.random.default_rng(0).normal(size=(n, 3))
    return ContactSet(links, places, frames_of(np.tile([0.0, 0.0, 1.0], (n, 1))))


def sizes(scene: Scene, names: Sequence[str], dynamics: ContactDynamics | None = None) -> dict[str, int]:
    """Sizes of the problems that are built for a scene with four contacts and n_f = 4."""
    tree = scene.tree
    state, contacts = State(tree.neutral(), np.zeros(tree.nv)), on_last_links(tree.n_links)
    made = {n: formulate(scene, state, n, dt=1e-3, contacts=contacts, dynamics=dynamics) for n in names}
    return {name: len(problem.vector) for name, problem in made.items()}


def _dual_arm(_: Path | None) -> Finding:
    found = sizes(Scene(dual_arm_robot()), list(DUAL_ARM))
    said = ", ".join(f"{PAPER_NAMES[name]} {size} ({DUAL_ARM[name]})" for name, size in found.items())
    return Finding(f"here (in the paper): {said}.", verdict([found[name] == DUAL_ARM[name] for name in DUAL_ARM]))


def _pendulums(_: Path | None) -> Finding:
    names, parts, lines = ("os", "nmc-os", "nmc"), [], []
    for n, paper in PENDULUMS.items():
        found = sizes(Scene(pendulum(n)), names)
        parts.append(tuple(found[name] for name in names) == paper)
        lines.append((str(n), *(str(found[name]) for name in names)))
    listing = Listing("[OS] Table 2, sizes", ("links", *(PAPER_NAMES[name] for name in names)), tuple(lines))
    return Finding(f"equal for {sum(parts)} of {len(parts)} numbers of links.", verdict(parts), listings=(listing,))


# -- growth of the cost of assembly --------------------------------------------------------------------------------

LENGTHS = (25, 50, 100)
ROUNDS = 300
GROWTH: Mapping[str, tuple[str, float, float]] = {
    "nmc": ("n", 0.0, 1.1),
    "mc": ("N²", 1.6, 2.4),
    "rmc": ("N³", 2.5, 3.4),
    "os": ("N + n_c²", 0.0, 1.1),
}
"""What the paper says, and what a measured exponent may be."""


def assembly_times(lengths: Sequence[int], rounds: int) -> dict[str, list[float]]:
    """Least seconds from a state to the blocks and vector of each formulation, by length of a pendulum.

    The kernel that every formulation takes poses from is included; the dense matrix of NMC is not, as it is sparse.
    """
    made = []
    for n in lengths:
        scene = Scene(pendulum(n))
        rng = np.random.default_rng(0)
        state = State(scene.tree.random(rng), rng.normal(size=n), np.zeros(n))
        made.append((ContactDynamics(scene), state, on_last_links(n)))
    out = {name: [math.inf] * len(lengths) for name in FORMULATIONS}
    nothing = np.zeros(12)
    for _ in range(rounds + 1):
        for k, (dynamics, state, contacts) in enumerate(made):  # in turns, so that what else runs slows down all alike
            for name, kind in FORMULATIONS.items():
                start = time.perf_counter()
                snapshot = dynamics.at(state.q, state.v, state.tau)
                model = kind(snapshot.rows(contacts))
                model.vector(snapshot, 1e-3, nothing)
                out[name][k] = min(out[name][k], time.perf_counter() - start)
    return out


def exponent(times: Sequence[float]) -> float:
    """``p`` of ``t = c + k nᵖ`` through the last three times, whose lengths double."""
    first, second, third = times[-3:]
    return math.log2(max(third - second, 1e-9) / max(second - first, 1e-9))


def _growth(_: Path | None) -> Finding:
    with pinned():
        times = assembly_times(LENGTHS, ROUNDS)
    found = {
        name: exponent(times[name]) if low else slope(LENGTHS, times[name]) for name, (_, low, _) in GROWTH.items()
    }
    parts = [low <= found[name] <= high for name, (_, low, high) in GROWTH.items()]
    said = ", ".join(f"{PAPER_NAMES[name]} {p:.1f} (claim {GROWTH[name][0]})" for name, p in found.items())
    lines = tuple(
        (PAPER_NAMES[name], *(f"{seconds * 1e6:.0f}" for seconds in values)) for name, values in times.items()
    )
    listing = Listing("assembly in µs by number of links, four contacts", ("", *map(str, LENGTHS)), lines)
    outside = [PAPER_NAMES[name] for name, ok in zip(GROWTH, parts, strict=True) if not ok]
    return Finding(
        f"exponents at n = {LENGTHS[-1]} (for MC and RMC without the part of the time that does not grow): {said}.",
        verdict(parts),
        f"{', '.join(outside)}: terms of lower order still weigh, and dense algebra is the faster the larger"
        if outside
        else "",
        {"assembly": {PAPER_NAMES[name]: (LENGTHS, [1e6 * t for t in values]) for name, values in times.items()}},
        (listing,),
    )


CLAIMS = (
    Claim(
        "[OS] Table 1",
        "dual-arm robot, 4 contacts, n_f = 4: NMC 310, MC 50, RMC 24, OS 24 unknowns",
        _dual_arm,
        quick=True,
    ),
    Claim("[OS] Table 2", "pendulum of n links, 4 contacts: OS 24, NMC/OS 24 + 5n, NMC 24 + 11n unknowns", _pendulums),
    Claim(
        "[OS] Table 1",
        "assembly grows as n (NMC), N² (MC), N³ (RMC), N + n_c² (OS)",
        _growth,
        "os_table1_assembly",
        log=True,
        x="links n",
        y="µs",
    ),
)
