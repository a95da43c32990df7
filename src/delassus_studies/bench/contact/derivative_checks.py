"""Derivatives of compiled contact steps against central differences in extended precision, robot by robot.

The program of the step is interpreted in extended precision at states a little beside each state, from the impulses of
its solution on, until its residuals are below 1e-14 m/s. States are random: of each contact point the gap is drawn by
itself, closed, about to close, open, or an overlap that is taken back; those of some states are flat on the ground. Of
each argument one random direction a state is compared, beside the largest entry of the derivatives with it. Left out,
and counted, are states near switches of modes, by their distance or as differences depend on their step; those that
have several solutions, which other impulses to start from lead to; and those that the reference does not solve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from rich.table import Table

import delassus as ds
from delassus.compiler.program.pipeline import make_program
from delassus.compiler.program.program import interpret_program
from delassus.contact import Box, Sphere
from delassus.spatial.numpy_ops import NumpyOps
from delassus.spatial.rotations import Array
from delassus_studies.cases import GO1_FEET, TALOS_FEET, installed
from delassus_studies.loop_mechanisms import four_bars
from delassus_studies.peers import present
from delassus_studies.tables import table
from delassus_studies.timing import Record, each, environment

SWEEPS, SOLVED, STEP = 300, 1e-14, 1e-6
"""Sweeps of the reference, residuals (m/s) below which it is solved, and the step of differences."""
NAMES = 16
"""Width of names of robots."""
SMOOTH, UNIQUE = 1e-6, 1e-7
"""What differences may depend on their step, over their size; velocities (m/s) that two solutions may differ by."""
SWITCH = 1e3 * STEP
"""Distance (m/s) of other modes within which differences may see two: what a step in a gap is over a millisecond."""

WIDE = NumpyOps(np.longdouble)


@dataclass(frozen=True, slots=True)
class CheckCase:
    """A robot with contacts on given ground: shapes of links; loops and configurations that close them; options."""

    name: str
    tree: ds.Tree
    shapes: tuple[tuple[str, Sphere | Box], ...]
    options: dict[str, Any] = field(default_factory=dict)
    loops: tuple[Any, ...] = ()

    @property
    def contacts(self) -> list[ds.Contact]:
        """Contacts on given ground."""
        return [ds.Contact(link, shape, "input") for link, shape in self.shapes]


def check_cases(quick: bool = False) -> list[CheckCase]:
    """A ball; or ten robots more, as far as they are installed."""
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
    bare = {"limits": False, "passive": "none"}
    makers: dict[str, Callable[[], CheckCase]] = {
        "Go1": lambda: CheckCase("Go1", installed("go1"), tuple((x, Sphere(0.02)) for x in GO1_FEET)),
        "bare": lambda: CheckCase("Go1, bare", installed("go1"), tuple((x, Sphere(0.02)) for x in GO1_FEET), bare),
        "Talos": lambda: CheckCase(
            "Talos, flat feet", installed("talos_reduced"), tuple((x, Box(0.2, 0.12, 0.2)) for x in TALOS_FEET)
        ),
        "solo12": lambda: _by_ends("solo12, pyramids", installed("solo12"), 0.016, {"solver": "pgs"}),
        "UR5": lambda: _by_ends("UR5", ds.load("ur5_robot", root="fixed"), 0.05, bounces),
        "hand": lambda: _by_ends("Allegro hand", ds.load("allegro_right_hand", root="fixed"), 0.01, {}),
    }
    return [*balls, *own, *present(makers)[0].values()]


def _ends(tree: ds.Tree, radius: float) -> tuple[tuple[str, Sphere], ...]:
    """Balls at up to four links that carry none."""
    return tuple((tree.link_names[i], Sphere(radius)) for i in range(tree.n_links) if not tree.children[i])[:4]


def _by_ends(name: str, tree: ds.Tree, radius: float, options: dict[str, Any]) -> CheckCase:
    return CheckCase(name, tree, _ends(tree, radius), options)


# -- extended precision ----------------------------------------------------------------------------------------------


def _joint_by_joint(tree: ds.Tree, method: str, q: Any, x: Any) -> Any:
    """``integrate`` or ``difference`` of joints in extended precision, at configurations (n, nq)."""
    out = []
    for joint, sq, sv in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True):
        given = x[:, sv if method == "integrate" else sq]
        found = getattr(joint.kind, method)(WIDE, [*q[:, sq].T], [*given.T])
        out += [np.broadcast_to(y, len(q)) for y in found]
    return np.stack(out, axis=1)


class Reference:
    """Steps in extended precision, from arguments of a kernel; ``unsolved`` is the largest residual so far."""

    def __init__(self, kernel: ds.Kernel, n: int) -> None:
        options = replace(kernel.request.options, tolerance=0.01 * SOLVED, sweeps=SWEEPS)
        self._program = make_program(replace(kernel.request, options=options), with_rcond=False)
        self._tree, self.unsolved = kernel.request.tree, np.zeros(n)

    def __call__(self, given: list[Array]) -> tuple[Array, Array]:
        """Configurations and velocities after a step."""
        wide = np.concatenate([x.astype(np.longdouble).reshape(len(x), -1) for x in given], axis=1)
        flat = np.concatenate(interpret_program(self._program, wide), axis=1)
        q, v, _, residuals = (flat[:, list(r.entries)] for r in self._program.results[:4])
        self.unsolved = np.maximum(self.unsolved, residuals.max(axis=1).astype(float))
        return q, v

    def differences(self, given: list[Array], place: int, along: Array, step: float) -> Array:
        """Central differences (n, 2 nv) along changes of an argument, of configurations in tangents."""
        ends = []
        for s in (step, -step):
            moved, change = list(given), np.longdouble(s) * along.astype(np.longdouble)
            if place == 0:
                moved[0] = _joint_by_joint(self._tree, "integrate", given[0].astype(np.longdouble), change)
            else:
                moved[place] = given[place].astype(np.longdouble) + change.reshape(given[place].shape)
            ends.append(self(moved))
        (q1, v1), (q0, v0) = ends
        whole = np.concatenate([_joint_by_joint(self._tree, "difference", q0, q1), v1 - v0], axis=1)
        return np.asarray((whole / np.longdouble(2.0 * step)).astype(float))


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
    values["v"] *= 0.5 * rng.choice([0.01, 0.1, 1.0], (n, 1))
    values["tau"] *= 0.1
    values["dt"] = np.exp(rng.uniform(np.log(1e-3), np.log(1e-2), n))
    for name in {"friction", "restitution"} & values.keys():
        values[name] = rng.uniform(0.1, 0.9, values[name].shape)
    return [values[a.name] for a in kernel.arguments]


# -- the check -------------------------------------------------------------------------------------------------------


def _check(case: CheckCase, n: int) -> Record:
    rng, tree = np.random.default_rng(0), case.tree
    options: dict[str, Any] = {"friction": "input", "tolerance": 1e-11, "sweeps": 5000, **case.options}
    constraints = [*case.loops, *case.contacts]
    kernel, derivatives = (
        ds.compile(tree, constraints, x, **options) for x in ("contact_step", "contact_step_derivatives")
    )
    given, names = states(case, kernel, n, rng), [a.name for a in kernel.arguments]
    *results, status = derivatives(*given, return_status=True)
    found = {r.name: x for r, x in zip(derivatives.results, results, strict=True)}
    solved = np.array([x == ds.DynamicsStatus.SOLVED for x in status])
    finite = np.all([np.isfinite(x.reshape(n, -1)).all(axis=1) for x in results], axis=0)
    apart = np.zeros(n)
    for _ in range(2):
        start = 0.3 * rng.normal(size=given[2].shape) * (1e-6 + np.abs(found["impulses_next"]).max(axis=1))[:, None]
        other = kernel(*given[:2], start, *given[3:])[1]
        apart = np.maximum(apart, np.abs(other - found["v_next"]).max(axis=1))
    given[2], nv = 0.0 * given[2] if "restitution" in names else found["impulses_next"], tree.nv
    reference, worst, compared = Reference(kernel, n), dict[str, float](), list[int]()
    A, B, near = found["A"], found["B"], found["distance"].reshape(n) < SWITCH
    parts = {"q": A[:, :, :nv], "v": A[:, :, nv:], "tau": B}
    parts |= {x.removeprefix("dx_d"): found[x].reshape(n, 2 * nv, -1) for x in found if x.startswith("dx_d")}
    for name, D in parts.items():
        along, size = rng.normal(size=(n, D.shape[2])), np.abs(D).max(axis=(1, 2)) + 1e-3
        if name.startswith("ground"):  # normals are of unit length
            along.reshape(n, -1, 4)[..., 3] = 0.0
        step = STEP * (1e-3 if name == "dt" else 1.0)
        coarse, fine = (reference.differences(given, names.index(name), along, h) for h in (step, 0.5 * step))
        error = np.abs(np.einsum("nij,nj->ni", D, along) - fine).max(axis=1) / size
        smooth = np.abs(coarse - fine).max(axis=1) < SMOOTH * size
        kept = solved & smooth & ~near & (apart < UNIQUE) & (reference.unsolved < SOLVED)
        worst[name] = float(error[kept].max(initial=0.0))
        compared.append(int(kept.sum()))
    several, unsolved = solved & (apart >= UNIQUE), solved & (reference.unsolved >= SOLVED)
    counts = {
        "near a switch": solved & near,
        "flagged": ~solved,
        "several solutions": several,
        "no reference": unsolved,
        "not finite": solved & ~finite,
    }
    return {"states": n, "compared": min(compared), "worst": worst} | {k: int(x.sum()) for k, x in counts.items()}


def measure(quick: bool = False) -> Iterator[Record]:
    """Errors of every robot; the record after each."""
    n = 30 if quick else 1000
    yield from each(dict(environment()), "robots", check_cases(quick), lambda case: _check(case, n))


def tables(record: Record) -> Iterator[Table | str]:
    """States, and the largest error of the derivatives with each argument."""
    yield "largest error over the largest entry, of derivatives of [q; v] after the step with what is named"
    rows, others = [], ("compared", "near a switch", "several solutions", "flagged", "no reference", "not finite")
    for name, found in record["robots"].items():
        worst = found["worst"]
        rest = max((x for k, x in worst.items() if k not in ("q", "v", "tau")), default=0.0)
        rows.append((name, found["states"], *(found[k] for k in others), *(worst[k] for k in ("q", "v", "tau")), rest))
    columns = ("robot", "states", *others, "q:.1e", "v:.1e", "forces:.1e", "others:.1e")
    yield table("", columns, rows, grows=(NAMES,))
