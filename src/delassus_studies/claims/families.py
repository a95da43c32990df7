"""Claims about families of mechanisms: stems and chains, counted by sparsity pattern (`CountOps`).

A test holds PV-OSIM and PV-OSIMr within 3 % of the traced count, EFPA within 6 % above it. Where a claim depends on how
a joint transform is applied, it is measured twice: *staged* (translation, constant rotation and joint rotation one
after the other: this library) and *composite* (multiplied out to one 6×6 matrix first: the papers' own code).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np

from delassus.algorithms.osim import METHODS
from delassus.algorithms.problem import Problem
from delassus.constraints import Constraint
from delassus.model.mechanisms import chain, stem
from delassus.model.tree import Tree
from delassus.spatial.ops import Ops
from delassus.spatial.rigid import DenseRigidInertia
from delassus.spatial.transform import DenseTransform
from delassus_studies.cases import general_rows, welds
from delassus_studies.claims import Claim, Finding, verdict
from delassus_studies.count_ops import CountOps
from delassus_studies.figures import Series
from delassus_studies.timing import slope

M = TypeVar("M", bound=Ops)


def composite(machine: type[M]) -> type[M]:
    """The same machine with transforms and inertias multiplied out to one 6×6 matrix."""
    methods = {
        "transform": lambda ops, displacement: DenseTransform(ops, displacement),
        "rigid_inertia": lambda ops, H: DenseRigidInertia(ops, H),
    }
    return type(f"Composite{machine.__name__}", (machine,), methods)


CompositeCountOps = composite(CountOps)


def pattern_count(
    tree: Tree, constraints: Sequence[Constraint], method: str, machine: type[CountOps] = CountOps
) -> int:
    """Operations of a method by sparsity pattern."""
    ops = machine()
    METHODS[method](Problem(ops, tree, constraints, ops.state(tree.nq)))
    return ops.total


# -- stems ---------------------------------------------------------------------------------------------------------

STEM_LENGTHS = (1, 5, 10, 20, 30, 40, 60)
BRANCHES = (1, 2, 4, 7, 10)


@cache
def stem_count(length: int, branches: int, branch_length: int, method: str, dense: bool = False) -> int:
    """Operations for a stem with a weld on each branch tip."""
    tips = [f"{side}{b + 1}_{branch_length}" for side in ("near", "far") for b in range(branches)]
    tree = stem(length, branches, branch_length)
    return pattern_count(tree, welds(*tips), method, CompositeCountOps if dense else CountOps)


def _stems(_: Path | None) -> Finding:
    methods = ("pv-osimr", "pv-osim", "efpa")
    counts = {(n, b, m): stem_count(n, b, 7, m) for n in STEM_LENGTHS for b in BRANCHES for m in methods}
    panels: dict[str, Series] = {
        f"{b} branch(es) a side": {m: (STEM_LENGTHS, [counts[n, b, m] for n in STEM_LENGTHS]) for m in methods}
        for b in BRANCHES
    }
    equal = [counts[n, 1, "pv-osimr"] == counts[n, 1, "pv-osim"] for n in STEM_LENGTHS]
    gains = {(n, b): 1 - counts[n, b, "pv-osimr"] / counts[n, b, "pv-osim"] for n in STEM_LENGTHS for b in BRANCHES[1:]}
    growing = all(np.all(np.diff([gains[n, b] for n in STEM_LENGTHS]) > 0) for b in BRANCHES[1:])
    above = [
        counts[n, b, "efpa"] > max(counts[n, b, "pv-osim"], counts[n, b, "pv-osimr"])
        for n in STEM_LENGTHS
        for b in BRANCHES
    ]
    exceptions = sorted(key for key, gain in gains.items() if gain <= 0)
    reason = ""
    if exceptions:
        listed = ", ".join(f"{b} at length {n}" for n, b in exceptions)
        reason = (
            f"PV-OSIMr needs more on short stems ({listed}): two symmetric rank-6 products at each branching link cost "
            "more than rank-1 updates over a few joints, as [r1] IV-E says of Atlas."
        )
    if not all(above):
        reason += " EFPA is under PV-OSIM on the larger mechanisms: see the next claim."
    return Finding(
        f"1 branch: equal on {sum(equal)} of {len(STEM_LENGTHS)} lengths. 2–10 branches: PV-OSIMr saves "
        f"{min(gains.values()):.0%} … {max(gains.values()):.0%}, "
        f"{'more with every longer stem' if growing else 'not steadily more'}. "
        f"EFPA above both on {sum(above)} of {len(above)} mechanisms.",
        verdict([all(equal), growing, not exceptions, bool(np.mean(above) > 0.9)]),
        reason.strip(),
        panels,
    )


def _crossing(branches: int, branch_length: int, dense: bool, limit: int = 120) -> int | None:
    """Shortest stem on which EFPA needs no more operations than PV-OSIM."""

    def crossed(n: int) -> bool:
        efpa, pv = (stem_count(n, branches, branch_length, m, dense) for m in ("efpa", "pv-osim"))
        return efpa <= pv

    if not crossed(limit):
        return None
    low, high = 0, limit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if crossed(middle) else (middle, high)
    return high


def _crossings(_: Path | None) -> Finding:
    sizes = ((8, 7), (10, 7), (10, 1))
    found = {c: [_crossing(b, n, c) for b, n in sizes] for c in (False, True)}
    said = {c: ", ".join("never up to 120" if v is None else str(v) for v in values) for c, values in found.items()}
    lengths = (1, 5, 10, 20, 40, 60, 80)

    def ratios(b: int, n: int, c: bool) -> list[float]:
        return [stem_count(k, b, n, "pv-osim", c) / stem_count(k, b, n, "efpa", c) for k in lengths]

    panels: dict[str, Series] = {
        name: {f"{b} × {n}": (lengths, ratios(b, n, c)) for b, n in ((2, 7), (4, 7), *sizes)}
        for name, c in (("staged", False), ("composite", True))
    }
    never, long, short = found[False]
    parts = [never is None, long is not None and abs(long - 54) <= 5, short is not None and abs(short - 7) <= 1]
    reason = (
        "EFPA carries 6-vectors through two transforms a joint and end-effector, PV-OSIM through one, so cheaper "
        "transforms favour EFPA and the crossing moves to shorter stems; it also depends on the links' geometry, which "
        "the paper does not give."
    )
    return Finding(
        f"crossing stem length for 8 × 7, 10 × 7, 10 × 1 branches: staged {said[False]}; composite {said[True]} "
        "(paper: never, 54, 7).",
        verdict(parts),
        "" if all(parts) else reason,
        panels,
    )


# -- chains --------------------------------------------------------------------------------------------------------


def _chain_counts(sizes: Sequence[int], every: Callable[[int], int], general: bool = True) -> Series:
    out: dict[str, tuple[Sequence[float], Sequence[float]]] = {}
    for method in ("pv-osimr", "efpa", "pv-osim"):
        counts = []
        for n in sizes:
            links = [f"link{k}" for k in range(n, 0, -every(n))]
            counts.append(pattern_count(chain(n), general_rows(links, 6) if general else welds(*links), method))
        out[method] = (sizes, counts)
    return out


def _slopes(series: Series, targets: dict[str, float]) -> tuple[str, list[bool]]:
    slopes = {m: slope(*series[m]) for m in targets}
    said = ", ".join(f"{m} {slopes[m]:.2f} (claim {targets[m]:g})" for m in targets)
    return said, [abs(slopes[m] - targets[m]) <= 0.2 for m in targets]


def _some_links(_: Path | None) -> Finding:
    series = _chain_counts((25, 49, 100, 196, 400), math.isqrt)
    targets = {"pv-osimr": 1.0, "efpa": 1.5, "pv-osim": 2.0}
    said, near = _slopes(series, targets)
    low = [m for m, ok in zip(targets, near, strict=True) if not ok]
    reason = f"terms of lower order still weigh at n = 400 for {', '.join(low)}" if low else ""
    return Finding(f"slopes from n = 196 to 400: {said}", verdict(near), reason, {"√n links": series})


def _all_links(_: Path | None) -> Finding:
    sizes = (25, 50, 100, 200, 400)
    series = {rows: _chain_counts(sizes, lambda n: 1, rows == "general rows") for rows in ("general rows", "welds")}
    said, near = _slopes(series["general rows"], {"pv-osimr": 2.0, "efpa": 2.0, "pv-osim": 3.0})
    ratio = {name: s["pv-osimr"][1][-1] / s["efpa"][1][-1] for name, s in series.items()}
    reason = (
        "with welds at the links' own frames K is the identity, and EFPA's product at the common ancestor, half of its "
        "cost with general rows, is free"
    )
    ratios = ", ".join(f"{r:.2f} with {name}" for name, r in ratio.items())
    return Finding(
        f"slopes from n = 200 to 400: {said}. PV-OSIMr / EFPA at n = 400: {ratios}",
        verdict([*near, *(r < 1 for r in ratio.values())]),
        reason if max(ratio.values()) >= 1 else "",
        series,
    )


CLAIMS = (
    Claim(
        "[r2] Fig. 3",
        "stem: 1 branch a side PV-OSIMr = PV-OSIM; from 2 on PV-OSIMr needs fewer, increasingly with stem length; EFPA "
        "more than both on nearly all",
        _stems,
        "r2_fig3_stems",
        x="stem length",
    ),
    Claim(
        "[LQR] Fig. 2f",
        "EFPA never under PV-OSIM up to 8 branches a side; 10 branches of 7 links cross at a stem of about 54, of 1 "
        "link at about 7",
        _crossings,
        "lqr_fig2f_crossings",
        x="stem length",
        y="PV-OSIM / EFPA",
        level=1.0,
    ),
    Claim(
        "[r2] Fig. 4a",
        "chain of n, about √n links constrained by 6 rows: PV-OSIMr ∝ n, EFPA ∝ n√n, PV-OSIM ∝ n²",
        _some_links,
        "r2_fig4a_some_links",
        log=True,
        x="links n",
        quick=True,
    ),
    Claim(
        "[r2] Fig. 4b",
        "chain of n, every link constrained: quadratic, quadratic, cubic, and PV-OSIMr still under EFPA",
        _all_links,
        "r2_fig4b_every_link",
        log=True,
        x="links n",
    ),
)
