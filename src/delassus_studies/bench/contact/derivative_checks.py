"""Derivatives of compiled contact steps against central differences in extended precision, robot by robot.

Differences of two widths are extrapolated to none (`extended`). States are random: of each contact point the gap is
drawn by itself, closed, about to close, open, or an overlap that is taken back; those of some states are flat on the
ground. Of each argument one random direction a state is compared (of all grounds, payloads … at once), beside the
largest entry of the derivatives with it. Left out, and counted, are states near switches of modes, by their distance
or as differences depend on their width; those that have several solutions, which other impulses to start from lead to;
and those that the reference does not solve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.table import Table

import delassus as ds
from delassus.accuracy.closed_loops import kept_closed
from delassus.algorithms.dynamics.smooth_motion import OPENING_FRACTION
from delassus.cli.tables import Record, table
from delassus.contact import Box, Sphere
from delassus.runtime.compile import compile_at_once
from delassus.spatial.rotations import Array
from delassus_studies.bench.contact.extended import SOLVED, Reference
from delassus_studies.cases import GO1_FEET, TALOS_FEET, installed
from delassus_studies.loop_mechanisms import four_bars, parallel_robots
from delassus_studies.peers import present
from delassus_studies.timing import each

FEW = ("q_next", "v_next", "impulses_next", "residuals", "A", "B", "dx_ddt", "dx_dfriction", "distance")
"""Derivatives of a robot whose many columns by the ground take minutes to compile."""
STEP, STATES, BLOCK = 1e-7, 1000, 1000
"""Width of differences, states of each robot, and those that are drawn at once."""
LEAST_SIZE = 1e-3
"""Size of derivatives below which they are none."""
FIRST = ("q", "v", "tau")
"""Arguments of all steps that tables have columns for."""
LEFT_OUT = ("flagged", "not finite", "several solutions", "no reference", "near a switch", "jumps")
"""What is not compared: the last are states whose differences depend on their width."""
SMOOTH, UNIQUE = 1e-7, 1e-7
"""What differences may depend on their width, over their size; velocities (m/s) that two solutions may differ by."""
STARTS = 8
"""Random impulses to start from, by which several solutions are found."""
SWITCH = 1e3 * STEP
"""Distance (m/s) of other modes within which differences may see two: what a width in a gap is over a millisecond."""
WIDTHS = {"dt": 0.1 * STEP, "friction": 10.0 * STEP}
"""Widths of differences of arguments that gaps are divided by, and of one by which differences are nearly straight."""
NAMES = 16
"""Width of names of robots."""


@dataclass(frozen=True, slots=True)
class CheckCase:
    """A robot with contacts on given ground: shapes of links or at frames; options; loops; ``columns`` that it has."""

    name: str
    tree: ds.Tree
    shapes: tuple[tuple[str | ds.Frame, Sphere | Box], ...]
    options: dict[str, Any] = field(default_factory=dict)
    loops: tuple[Any, ...] = ()
    columns: dict[str, Any] = field(default_factory=dict)

    @property
    def contacts(self) -> list[ds.Contact]:
        """Contacts on given ground."""
        return [ds.Contact(place, shape, "input") for place, shape in self.shapes]


def check_cases(quick: bool = False) -> list[CheckCase]:
    """A ball; or ten robots more, and linkages of other people, as far as they are there."""
    made, inertia = ds.mechanisms, np.diag([0.02, 0.021, 0.022])
    bounces = {"restitution": "input"}
    balls = [CheckCase("ball", made.free_body(2.0, inertia, name="ball"), (("ball", Sphere(0.1)),), bounces)]
    if quick:
        return balls
    box, star, ladder, loop = Box(0.2, 0.15, 0.1), made.star(4, 2), made.ladder(3, root="floating"), four_bars(1)
    feet = tuple((f"branch{k}_2", Sphere(0.05)) for k in (1, 2, 3, 4))
    own = [
        CheckCase("box", made.free_body(1.0, box.inertia(1.0), name="box"), (("box", box),)),
        CheckCase("star", star, feet),
        CheckCase("ladder", ladder, _ends(ladder, 0.05), bounces),
        CheckCase("four-bar, a loop", loop.tree, (("coupler0", Sphere(0.05)),), {}, tuple(loop.constraints)),
    ]
    free = {"passive": "none"}  # dry friction of 10 N m holds the hand
    bare = {"limits": False, **free}
    makers: dict[str, Callable[[], CheckCase]] = {
        "Go1": lambda: CheckCase("Go1", installed("go1"), tuple((x, Sphere(0.02)) for x in GO1_FEET)),
        "bare": lambda: CheckCase("Go1, bare", installed("go1"), tuple((x, Sphere(0.02)) for x in GO1_FEET), bare),
        "Talos": lambda: CheckCase(
            "Talos, flat feet", installed("talos_reduced"), _soles(), bare, columns={"outputs": FEW}
        ),
        "solo12": lambda: _by_ends("solo12, pyramids", installed("solo12"), 0.016, {"solver": "pgs"}),
        "UR5": lambda: _by_ends("UR5", ds.load("ur5_robot", root="fixed"), 0.05, bounces),
        "hand": lambda: _by_ends("Allegro hand", ds.load("allegro_right_hand", root="fixed"), 0.01, free),
    }
    linkages = [
        CheckCase(x.name, x.tree, _ends(x.tree, 0.03)[:2], {}, tuple(x.constraints))
        for x in parallel_robots()
        if x.name.startswith("5bar")
    ]
    return [*balls, *own, *linkages, *present(makers)[0].values()]


def _ends(tree: ds.Tree, radius: float) -> tuple[tuple[str, Sphere], ...]:
    """Balls at up to four links that carry none."""
    return tuple((tree.link_names[i], Sphere(radius)) for i in range(tree.n_links) if not tree.children[i])[:4]


def _soles() -> tuple[tuple[ds.Frame, Sphere], ...]:
    """Small balls at the corners of the soles of Talos."""
    corners = [(x, y, -0.107) for x in (0.1, -0.1) for y in (0.06, -0.06)]
    return tuple((ds.Frame(foot, at), Sphere(1e-3)) for foot in TALOS_FEET for at in corners)


def _by_ends(name: str, tree: ds.Tree, radius: float, options: dict[str, Any]) -> CheckCase:
    return CheckCase(name, tree, _ends(tree, radius), options)


# -- states ----------------------------------------------------------------------------------------------------------


def _points(case: CheckCase, q: Array) -> list[Array]:
    """Heights (n, k) of what of each shape touches, above the origin."""
    out, poses = [], ds.forward_kinematics(case.tree, q, [c.frame for c in case.contacts])
    for k, (_, shape) in enumerate(case.shapes):
        if isinstance(shape, Sphere):
            out.append(poses[:, k, None, 2, 3] - shape.radius)
            continue
        signs = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
        corners = signs * [shape.x, shape.y, shape.z]
        out.append(poses[:, k, None, 2, 3] + np.einsum("nj,mj->nm", poses[:, k, 2, :3], corners))
    return out


def states(case: CheckCase, kernel: ds.Kernel, n: int, rng: np.random.Generator) -> list[Array]:
    """Random arguments of the kernel (n, …)."""
    tree, values = case.tree, dict[str, Array]()
    start = np.tile(tree.neutral(), (n, 1))
    if case.loops:
        closed = ds.random_configurations(tree, case.loops, 0, 16)
        start = closed[rng.integers(len(closed), size=n)]
    q = start if case.loops else tree.integrate(start, 0.3 * rng.normal(size=(n, tree.nv)))
    for joint, sq in zip(tree.joints, tree.q_slices, strict=True):
        if joint.nq == joint.nv:
            low, high = np.clip(joint.lower, -1e3, 1e3), np.clip(joint.upper, -1e3, 1e3)
            within = np.clip(q[:, sq], low + 1e-4 * (high - low), high - 1e-4 * (high - low))
            q[:, sq] = np.where(rng.random((n, 1)) < 0.1, q[:, sq], within)
    flat, deep = rng.random((n, 1)) < 0.3, rng.random((n, 1)) < 0.3
    grounds = iter(_points(case, q))
    for a in kernel.arguments:
        values[a.name] = rng.normal(size=(n, *a.shape))
        if a.name.startswith("ground"):
            height = next(grounds)
            drawn, shape = rng.random(height.shape), height.shape
            gap = np.where(drawn < 0.55, rng.uniform(-9e-5, -1e-5, shape), 10.0 ** rng.uniform(-5, -2, shape))
            gap = np.where(drawn > 0.85, 0.3, gap)
            gap = np.where(deep & (rng.random(shape) < 0.5), -(10.0 ** rng.uniform(-3.7, -2, shape)), gap)
            values[a.name][:] = [0.0, 0.0, 0.0, 1.0]
            values[a.name][..., 0] = height - np.where(flat, -5e-5, gap)
    values |= {"q": q, "impulses": np.zeros_like(values["impulses"])}
    slow = 0.1 if case.loops else 0.01  # what opens loops is left out where it is 1e-4 of velocities: a switch as well
    values["v"] *= 0.5 * rng.choice([slow, 0.1, 1.0], (n, 1))
    if case.loops:
        values["v"] = np.einsum("nij,nj->ni", kept_closed(tree, case.loops, q), values["v"])
    values["tau"] *= 0.1
    values["dt"] = np.exp(rng.uniform(np.log(1e-3), np.log(1e-2), n)) * (0.1 if case.loops else 1.0)
    for name in {"friction", "restitution"} & values.keys():
        values[name] = rng.uniform(0.1, 0.9, values[name].shape)
    return [values[a.name] for a in kernel.arguments]


# -- the check -------------------------------------------------------------------------------------------------------


def _check(case: CheckCase, n: int) -> Record:
    options: dict[str, Any] = {"friction": "input", "tolerance": 1e-11, "sweeps": 5000, **case.options}
    constraints, rng = [*case.loops, *case.contacts], np.random.default_rng(0)
    kernel, derivatives = (
        compile_at_once(case.tree, constraints, x, wait=True, **options, **further)
        for x, further in (("contact_step", {}), ("contact_step_derivatives", case.columns))
    )
    reference, parts = Reference(kernel), list[dict[str, Array]]()
    for k in range(0, n, BLOCK):
        parts.append(_compared(kernel, derivatives, reference, states(case, kernel, min(BLOCK, n - k), rng), rng))
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    left_out, kept = {name: whole.pop(name) for name in LEFT_OUT}, np.ones(n, bool)
    for flags in left_out.values():
        kept &= ~flags
    found = {name: np.append(errors[kept], np.nan if kept.any() else np.zeros(1)) for name, errors in whole.items()}
    statistics = {
        "worst": {name: float(np.nanmax(x)) for name, x in found.items()},
        "median": {name: float(np.nanmedian(x)) for name, x in found.items()},
    }
    counts = {name: int(flags.sum()) for name, flags in left_out.items()}
    return {"states": n, "compared": int(kept.sum()), **statistics, **counts}


def _compared(
    kernel: ds.Kernel, derivatives: ds.Kernel, reference: Reference, given: list[Array], rng: np.random.Generator
) -> dict[str, Array]:
    """Errors (n,) of the derivatives with each argument, over the largest entry; and flags of what is left out."""
    n, nv, names = len(given[0]), kernel.request.tree.nv, [a.name for a in kernel.arguments]
    *results, status = derivatives(*given, return_status=True)
    found = {r.name: x for r, x in zip(derivatives.results, results, strict=True)}
    solved = np.array([x == ds.DynamicsStatus.SOLVED for x in status])
    finite = np.all([np.isfinite(x.reshape(n, -1)).all(axis=1) for x in results], axis=0)
    apart = np.zeros(n)
    for _ in range(STARTS):
        start = 0.3 * rng.normal(size=given[2].shape) * (1e-6 + np.abs(found["impulses_next"]).max(axis=1))[:, None]
        other = kernel(*given[:2], start, *given[3:])[1]
        apart = np.maximum(apart, np.abs(other - found["v_next"]).max(axis=1))
    given[2] = 0.0 * given[2] if "restitution" in names else found["impulses_next"]
    by_name = {"q": found["A"][:, :, :nv], "v": found["A"][:, :, nv:], "tau": found["B"]}
    by_name |= {x.removeprefix("dx_d"): found[x].reshape(n, 2 * nv, -1) for x in found if x.startswith("dx_d")}
    changes, made, sizes = dict[str, dict[int, Array]](), dict[str, Array](), dict[str, Array]()
    for name, D in by_name.items():
        along, group = rng.normal(size=(n, D.shape[2])), name.rstrip("0123456789")
        if group == "ground":  # normals are of unit length
            along.reshape(n, -1, 4)[..., 3] = 0.0
        changes.setdefault(group, {})[names.index(name)] = along
        made[group] = made.get(group, 0.0) + np.einsum("nij,nj->ni", D, along)
        sizes[group] = np.maximum(sizes.get(group, LEAST_SIZE), np.abs(D).max(axis=(1, 2)))
    directions = [(x, WIDTHS.get(group, STEP)) for group, x in changes.items()]
    wanted, moved, residuals = reference.differences(given, directions)
    size = np.array([*sizes.values()])
    left_out = (
        ~solved,
        solved & ~finite,
        solved & (apart >= UNIQUE),
        solved & ~(residuals < SOLVED),
        (found["distance"].reshape(n) < SWITCH) | _opens(kernel, given, changes["v"][names.index("v")]),
        ~(moved < SMOOTH * size).all(axis=0),
    )
    errors = np.abs(np.array([*made.values()]) - wanted).max(axis=2) / size
    return dict(zip(changes, errors, strict=True)) | dict(zip(LEFT_OUT, left_out, strict=True))


def _opens(kernel: ds.Kernel, given: list[Array], along: Array) -> Array:
    """Whether differences of velocities open loops (n,) by as much as puts smooth motion in another mode."""
    tree, loops = kernel.request.tree, [c for c in kernel.request.constraints if not c.n_impulses]
    if not loops:
        return np.zeros(len(along), bool)
    q, v = given[:2]
    M, opened = ds.mass_matrix(tree, q), along - np.einsum("nij,nj->ni", kept_closed(tree, loops, q), along)
    moved, moving = (np.einsum("ni,nij,nj->n", x, M, x) for x in (STEP * opened, v))
    return np.asarray(moved > OPENING_FRACTION * moving)


def measure(record: Record, quick: bool = False) -> Iterator[Record]:
    """Errors of every robot; the record after each."""
    n = 30 if quick else STATES
    yield from each(record, "robots", check_cases(quick), lambda case: _check(case, n))


def tables(record: Record) -> Iterator[Table | str]:
    """States, and the largest error of the derivatives with each argument."""
    yield "largest error over the largest entry, of derivatives of [q; v] after the step with what is named"
    rows = []
    for name, found in record["robots"].items():
        worst, median = found["worst"], found["median"]
        further = max((x for k, x in worst.items() if k not in FIRST), default=0.0)
        numbers = (found["states"], found["compared"], *(found[k] for k in LEFT_OUT))
        rows.append((name, *numbers, *(worst[k] for k in FIRST), further, max(median.values())))
    columns = (
        "robot",
        "states",
        "compared",
        *LEFT_OUT,
        *(f"{k}:.0e" for k in FIRST),
        "others:.0e",
        "largest median:.0e",
    )
    yield table("", columns, rows, grows=(NAMES,))
