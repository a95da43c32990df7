"""Measured tosses of a cube: simulated from their first states, and how far these are from what was measured.

Files are in the published format of contact-nets: arrays ``states`` (sum of lengths, 13), ``lengths``, at 148 Hz; of a
state position (over half a side), quaternion w x y z, velocity (half sides a second, axes of the world) and angular
velocity (axes of the cube). Velocities are differences to the state before: free flight says so, whose velocities are
``g / (2 · 148)`` behind those of the parabola. What a simulation starts from is the velocity at the state itself.

Source: Pfrommer, Halm and Posa 2020, *ContactNets*; https://github.com/DAIRLab/contact-nets (BSD 3-Clause).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from rich.table import Table

import delassus as ds
from delassus.cli.tables import Record, environment, table
from delassus.contact import Box, Collider, HalfSpace
from delassus.errors import ModelError
from delassus.pictures.plots import COLOURS, SMALL, save_figure
from delassus.runtime.measured import Windows
from delassus.spatial.rotations import Array, quaternion_to_matrix
from delassus_studies.figures import side_by_side, tidy
from delassus_studies.peers import if_present, library
from delassus_studies.peers.mujoco import MujocoScene
from delassus_studies.timing import best, each, pinned

HALF, MASS, INERTIA, RATE = 0.0524, 0.37, 0.00081, 148.0
"""Half side (m), mass (kg), moment of inertia (kg m²), states a second."""

FRICTION, RESTITUTION = 0.18, 0.125
"""As fitted by the authors of the data."""

STEPS = 8
"""Time steps between two states."""

FEW = 12
"""Tosses of a quick run."""

OVERLAP = 0.02
"""Largest overlap with the floor at the start (m)."""

LEARNED, WINDOW = 50, 15
"""Tosses that parameters are identified from, and states of a window, of a tenth of a second: about one impact."""

SCALE: dict[str, Any] = {"q": np.repeat([0.003, 0.03], 3), "v": np.inf}
"""Of residuals in the identification (m, rad): beyond it they count linearly. Velocities say where windows start."""

WEIGHED = 0.001
"""Standard deviation of the mass (kg)."""

GRID = {"friction": (0.14, 0.18, 0.22), "timeconst": (0.005, 0.01, 0.02), "dampratio": (0.5, 1.0), "dmin": (0.9, 0.99)}
"""Settings of MuJoCo, with elliptic cones, among which its best ones are looked for."""

Simulate = Callable[["Tosses"], list[Array]]
"""From tosses to the simulated poses of each (n, 7), at the times of its states."""


@dataclass(frozen=True, slots=True)
class Tosses:
    """Poses q (n, 7) of each toss, and velocities (n, 6) at them."""

    poses: list[Array]
    velocities: list[Array]

    def some(self, count: int | None) -> Tosses:
        """The first ``count`` of them; None is all."""
        return Tosses(self.poses[:count], self.velocities[:count])


def read_tosses(path: Path) -> Tosses:
    """Tosses of a file; raises `ModelError`."""
    try:
        with np.load(path) as file:
            states, ends = np.asarray(file["states"], dtype=float), np.cumsum(file["lengths"])
        if states.ndim != 2 or states.shape[1] != 13 or not ends.size or ends[-1] != len(states):
            raise ValueError(f"states {states.shape} of {ends.size} tosses")
    except (OSError, KeyError, ValueError, TypeError) as error:
        advice = "Arrays states (sum of lengths, 13) and lengths, as contact-nets has them."
        raise ModelError(str(path), "tosses of a cube", str(error), advice) from error
    poses = np.concatenate([HALF * states[:, :3], states[:, [4, 5, 6, 3]]], axis=1)
    poses[:, 3:] /= np.linalg.norm(poses[:, 3:], axis=1, keepdims=True)
    linear = HALF * states[:, 7:10] + np.array([0.0, 0.0, -9.81]) / (2 * RATE)
    R = np.asarray(quaternion_to_matrix(poses[:, 3:]))
    velocities = np.concatenate([np.einsum("nji,nj->ni", R, linear), states[:, 10:]], axis=1)
    return Tosses(np.split(poses, ends[:-1]), np.split(velocities, ends[:-1]))


def cube(friction: float, restitution: float = RESTITUTION) -> ds.Scene:
    """The cube over a floor."""
    body, shape = ds.mechanisms.free_body(MASS, INERTIA * np.eye(3), name="cube"), Box(2 * HALF, 2 * HALF, 2 * HALF)
    law: dict[str, Any] = {"friction": friction, "restitution": restitution}
    return ds.Scene(body, [Collider("cube", shape, **law), Collider("world", HalfSpace(), **law)])


def _begin(pose: Array, velocity: Array, h: float) -> Array:
    """Velocities from which steps of semi-implicit Euler go through the parabola of free flight at their ends."""
    back = np.array([0.0, 0.0, 0.5 * 9.81 * h]) @ np.asarray(quaternion_to_matrix(pose[..., 3:]))
    return np.asarray(velocity + np.concatenate([back, np.zeros(back.shape)], axis=-1))


def by_simulator(tosses: Tosses, friction: float = FRICTION, restitution: float = RESTITUTION) -> list[Array]:
    """Poses by `delassus.Simulator`."""
    scene, dt, out = cube(friction, restitution), 1 / (RATE * STEPS), []
    for poses, v in zip(tosses.poses, tosses.velocities, strict=True):
        begin = _begin(poses[0], v[0], dt)
        sim = ds.Simulator(scene, dt=dt, q0=poses[0], v0=begin, max_overlap=OVERLAP)
        found = [sim.q]
        for _ in poses[1:]:
            sim.run(1 / RATE)
            found.append(sim.q)
        out.append(np.array(found))
    return out


def contact_step() -> ds.Kernel:
    """Step of the cube on its eight corners, with friction, restitution and what is added to its inertia as inputs."""
    return cube(FRICTION).contact_step(friction="input", restitution="input", payloads=["cube"])


PUBLISHED: dict[str, Any] = {
    "friction": np.array([FRICTION]),
    "restitution": np.array([RESTITUTION]),
    "payload0": np.zeros(10),
}


def by_contact_step(tosses: Tosses, parameters: Mapping[str, Any] = MappingProxyType(PUBLISHED)) -> list[Array]:
    """Poses by a compiled contact step, all tosses at once."""
    dt = 1 / (RATE * STEPS)
    starts = np.array([poses[0] for poses in tosses.poses])
    begins = _begin(starts, np.array([v[0] for v in tosses.velocities]), dt)
    none = np.zeros((STEPS * (max(map(len, tosses.poses)) - 1), 6))
    q, *_ = ds.rollout(contact_step(), starts, begins, none, dt, **parameters)
    return [q[: STEPS * len(poses) : STEPS, k][: len(poses)] for k, poses in enumerate(tosses.poses)]


def by_mujoco(
    tosses: Tosses,
    friction: float = FRICTION,
    elliptic: bool = True,
    softness: Mapping[str, Sequence[float]] = MappingProxyType({}),
) -> list[Array]:
    """Poses by ``mj_step``, with its defaults but for what is given."""
    dt, out = 1 / (RATE * STEPS), []
    scene = MujocoScene(cube(friction), tosses.poses[0][0], tosses.velocities[0][0], dt, elliptic, softness)
    for poses, v in zip(tosses.poses, tosses.velocities, strict=True):
        scene.reset(poses[0], _begin(poses[0], v[0], dt))
        found = [scene.configuration]
        for _ in poses[1:]:
            scene.run(1 / RATE)
            found.append(scene.configuration)
        out.append(np.array(found))
    return out


def errors(simulated: Sequence[Array], tosses: Tosses) -> Array:
    """Errors (tosses, 4): of position (of a side), rotation (degrees), mean over a toss, and both at its end."""
    out = []
    for found, wanted in zip(simulated, tosses.poses, strict=True):
        position = np.linalg.norm(found[1:, :3] - wanted[1:, :3], axis=1) / (2 * HALF)
        cosine = np.abs(np.einsum("ni,ni->n", found[1:, 3:], wanted[1:, 3:]))
        rotation = np.degrees(2 * np.arccos(np.minimum(cosine, 1.0)))
        out.append((position.mean(), rotation.mean(), position[-1], rotation[-1]))
    return np.array(out)


def identified(tosses: Tosses) -> tuple[ds.Identification, Windows]:
    """Parameters of `contact_step` from tosses, and the windows that they are from."""
    length, n, dt = max(map(len, tosses.poses)), len(tosses.poses), 1 / (RATE * STEPS)
    q, v = np.full((length, n, 7), np.nan), np.full((length, n, 6), np.nan)
    for k, (poses, velocities) in enumerate(zip(tosses.poses, tosses.velocities, strict=True)):
        q[: len(poses), k], v[: len(poses), k] = poses, _begin(poses, velocities, dt)
    kernel, measured = contact_step(), dict[str, Any](q=q, v=v)
    inputs: dict[str, Any] = {"controls": np.zeros((STEPS * (length - 1), 6)), "dt": dt}
    found = ds.identify(
        kernel, measured, {name: x[0] if x.size == 1 else x for name, x in PUBLISHED.items()}, scale=SCALE,
        bounds={"friction": (0, 1), "restitution": (0, 1)}, prior={"payload0": np.r_[WEIGHED, np.full(9, np.inf)]},
        loss="huber", every=STEPS, window=WINDOW, **inputs,
    )  # fmt: skip
    return found, Windows(kernel, measured, SCALE, inputs, STEPS, WINDOW, False)


def _identified(tosses: Tosses) -> Record:
    """Parameters from some tosses, errors of the others with these and as published, and times."""
    order = np.random.default_rng(0).permutation(len(tosses.poses))
    some, others = (Tosses([tosses.poses[k] for k in of], [tosses.velocities[k] for k in of])
                    for of in (order[:LEARNED], order[LEARNED:]))  # fmt: skip
    begin = time.perf_counter()
    found, windows = identified(some)
    seconds = time.perf_counter() - begin
    values = dict(found.values)
    ends = np.cumsum([0, *(x.size for x in values.values())])
    changes = {name: np.eye(ends[-1])[:, a : a + x.size] for (name, x), a in zip(values.items(), ends, strict=False)}
    results, *_ = windows.run(values, None)
    times = [best(call, 3)[0] for call in (partial(windows.tangents, values, changes, results),
                                           partial(windows.run, values, None))]  # fmt: skip
    return {
        "names": found.names,
        "values": found.estimates.tolist(),
        "errors": np.sqrt(np.diagonal(found.covariance)).tolist(),
        "windows": found.units,
        "unsolved": found.unsolved,
        "evaluations": found.evaluations,
        "converged": found.converged,
        "seconds": seconds,
        "jacobian": times[0],
        "simulation": times[1],
        "others": {
            "as published": errors(by_contact_step(others), others).tolist(),
            "identified": errors(by_contact_step(others, values), others).tolist(),
        },
    }


def _settings() -> Iterator[tuple[str, Simulate]]:
    """Settings of MuJoCo by name."""
    for friction, timeconst, dampratio, dmin in product(*GRID.values()):
        name = f"friction {friction:g}, solref {timeconst:g} {dampratio:g}, solimp {dmin:g} {max(dmin, 0.95):g}"
        softness = {"solref": (timeconst, dampratio), "solimp": (dmin, max(dmin, 0.95))}
        yield name, partial(by_mujoco, friction=friction, softness=softness)


def measure(data: Path, quick: bool = False) -> Iterator[Record]:
    """Errors of every toss by each simulator; the record after each."""
    tosses = read_tosses(data).some(FEW if quick else None)
    ways: dict[str, Simulate] = {"Simulator": by_simulator, "contact step": by_contact_step}
    if if_present(partial(library, "mujoco")):
        ways |= {"MuJoCo, defaults": partial(by_mujoco, elliptic=False), "MuJoCo, elliptic cones": by_mujoco}
        ways |= {f"MuJoCo, {name}": way for name, way in _settings()} if not quick else {}
    record: Record = {**environment(), "tosses": len(tosses.poses), "ways": list(ways)}
    with pinned():
        yield from each(record, "errors", record["ways"], lambda name: errors(ways[name](tosses), tosses).tolist())
        if not quick:
            record["identified"] = _identified(tosses)
            yield record


def _shown(record: Record) -> dict[str, Array]:
    """Errors of those without a setting, and of MuJoCo's best settings by position and by rotation."""
    found = {name: np.array(one) for name, one in record["errors"].items()}
    tried = [name for name in found if "solref" in name]
    chosen = {min(tried, key=lambda name: np.median(found[name][:, k])) for k in range(2)} if tried else set()
    return {name: one for name, one in found.items() if name not in tried or name in chosen}


def tables(record: Record) -> Iterator[Table | str]:
    """Medians over the tosses, once all is measured: only then it is known which settings are best."""
    if len(record["errors"]) < len(record["ways"]):
        return
    columns = ("by", "position:.1f %", "rotation:.1f °", "position, end:.1f %", "rotation, end:.1f °")
    rows = [(name, *np.median(one * [100, 1, 100, 1], axis=0)) for name, one in _shown(record).items()]
    yield table(f"median errors of {record['tosses']} tosses: mean over a toss, and at its end", columns, rows)
    yield f"friction {FRICTION}, restitution {RESTITUTION} where nothing else is said; positions in parts of a side"
    if found := record.get("identified"):
        rows = [(name, *np.median(np.array(one) * [100, 1, 100, 1], axis=0)) for name, one in found["others"].items()]
        yield table("the same of those that nothing was identified from, by contact steps", columns, rows)
        names, values, spread = (found[key] for key in ("names", "values", "errors"))
        yield table(
            f"from {LEARNED} tosses; payload0: m, m c, Ixx, Ixy, Iyy, Ixz, Iyz, Izz more than published",
            ("parameter", "estimate:.4g", "standard error:.2g"),
            list(zip(names, values, spread, strict=True)),
        )
        n = len(values)
        yield (f"{found['windows']} windows, {found['unsolved']} not solved; {found['evaluations']} evaluations, "
               f"{'converged' if found['converged'] else 'not converged'}, {found['seconds']:.0f} s; "
               f"a simulation {found['simulation']:.2f} s, a Jacobian {found['jacobian']:.2f} s, "
               f"by central differences {2 * n * found['simulation']:.2f} s")  # fmt: skip


def draw(record: Record, folder: Path) -> Path:
    """How many tosses are within an error, and parameters over published ones; the table has all settings."""
    found = record.get("identified")
    figure, axes = side_by_side(3 if found else 2, 2.8)
    judged = {f"contact step, {name}": one for name, one in found["others"].items()} if found else {}
    ours = judged or {name: record["errors"][name] for name in ("Simulator", "contact step")}
    peers = {name: one for name, one in record["errors"].items() if name.startswith("MuJoCo") and "solref" not in name}
    shown = {name: np.array(one) for name, one in {**ours, **peers}.items()}
    for k, (ax, label, scale) in enumerate(
        zip(axes, ("error (% of the side)", "error (°)"), (100.0, 1.0), strict=False)
    ):
        tidy(ax)
        for colour, (name, one) in zip(COLOURS, shown.items(), strict=False):
            part = np.arange(1, len(one) + 1) / len(one)
            ax.plot(scale * np.sort(one[:, k]), part, linewidth=1.0, color=colour, label=name)
        ax.set_xlim(0, scale * max(np.percentile(one[:, k], 90) for one in shown.values()))
        ax.set_xlabel(f"{label}, mean over a toss")
    axes[0].set_ylabel("part of the tosses within it")
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize=SMALL, ncols=2, loc="outside lower center")
    if found:
        tidy(axes[2])
        estimates = dict(zip(found["names"], zip(found["values"], found["errors"], strict=True), strict=True))
        ratios = {name: (estimates[name], (0.0, own)) for name, own in
                  (("friction", FRICTION), ("restitution", RESTITUTION))}  # fmt: skip
        ratios |= {f"I{axis}{axis}": (estimates[f"payload0[{k}]"], (INERTIA, INERTIA)) for axis, k in
                   zip("xyz", (4, 6, 9), strict=True)}  # fmt: skip
        for k, ((x, spread), (more, own)) in enumerate(ratios.values()):
            axes[2].errorbar(k, (x + more) / own, 2 * spread / own, fmt="o", color=COLOURS[0], markersize=3, capsize=3)
        axes[2].axhline(1.0, color="0.6", linewidth=0.8)
        axes[2].set_xticks(range(len(ratios)), list(ratios), rotation=35, ha="right")
        axes[2].set_ylabel("estimate over published, ± 2 errors")
    return save_figure(figure, folder / "tosses.png")
