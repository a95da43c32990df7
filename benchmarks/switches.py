"""Gradients where contacts change what they do: ``python benchmarks/switches.py [--plot FOLDER]``.

- A block slides towards another one and should push it to a goal; too slow, it stops short. Cost, and its gradient by
  the speed it starts with: exact, smoothed, and of means over random speeds.
- Go1 in a trot: how far states are from the nearest change of a mode, and by how much derivatives along random changes
  of velocities miss differences over ±ε.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

import delassus as ds
from delassus.cli.tables import environment
from delassus.pictures.plots import SMALL, page_figure, save_figure
from delassus_studies.bench.contact.steps import DT, starts, step_cases
from delassus_studies.figures import BLUE, GREEN, GREY, ORANGE, stamp, tidy

BLOCKS = """<robot name="blocks"><link name="rail"/>{}</robot>""".format(
    "".join(
        f"""<link name="{name}"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>
        </inertial></link><joint name="{name}" type="prismatic"><parent link="rail"/><child link="{name}"/>
        <axis xyz="1 0 0"/><limit lower="-9" upper="9" effort="9" velocity="9"/><dynamics friction="2"/></joint>"""
        for name in ("a", "b")
    )
)
RADIUS, GAP, GOAL = 0.05, 0.1, 0.1
"""Of the ends of blocks, between them, and how far the second one should go (m)."""
STEP, TIME = 5e-3, 1.2
"""Time step, and how long blocks move (s)."""
SMOOTHING = (0.0, 1.0, 4.0)
EPSILON = np.logspace(-4, 0, 13)


def pushes(speeds, smoothing, kernel):
    """Cost (n,) of speeds, and its gradient."""
    n = len(speeds)
    q, v = np.tile([0.0, 2 * RADIUS + GAP], (n, 1)), np.stack([speeds, np.zeros(n)], axis=1)
    moved, p = np.tile([0.0, 0.0, 1.0, 0.0], (n, 1)), np.zeros((n, *kernel.arguments[2].shape))
    for _ in range(round(TIME / STEP)):
        q, v, p, _, A, *_ = kernel(q, v, p, np.zeros(2), STEP, smoothing)
        moved = np.einsum("nij,nj->ni", A, moved)
    missed = q[:, 1] - (2 * RADIUS + GAP) - GOAL
    return missed**2, 2 * missed * moved[:, 1]


def block_pushes_block():
    """Speeds, costs, and gradients by what makes them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "blocks.urdf"
        path.write_text(BLOCKS)
        tree = ds.load(path)
    sphere = ds.contact.Sphere(RADIUS)
    contact = ds.Contact("a", sphere, (ds.Frame("b"), sphere), friction=0.0)
    options = {"tolerance": 1e-10, "sweeps": 300, "smoothing": "input", "limits": False}
    kernel = ds.compile(tree, contact, "contact_step_derivatives", **options)
    speeds = np.linspace(0.1, 1.6, 151)
    found = {s: pushes(speeds, s, kernel) for s in SMOOTHING}
    cost, width = found[0.0][0], 15  # ± 0.15 m/s
    inner = slice(width, len(speeds) - width)
    sampled = (cost[2 * width :] - cost[: -2 * width]) / (speeds[2 * width] - speeds[0])
    return speeds, cost, {s: gradient for s, (_, gradient) in found.items()}, (speeds[inner], sampled)


def trot(n=20, steps=500, kept=400):
    """Distances (m/s) of states of a trot from other modes, and errors (2, ε, n) of exact and smoothed derivatives."""
    case, rng = step_cases(quick=True)[0], np.random.default_rng(0)
    start = starts(case, "gait", n, steps)
    gains = dict(zip(("kp", "kd"), case.gains, strict=True))
    options = {"control": "pd", "tolerance": 1e-9, "sweeps": 1000, **case.options}
    kernel = ds.compile(case.tree, case.contacts, "contact_step", **options)
    derivatives = ds.compile(case.tree, case.contacts, "contact_step_derivatives", smoothing="input", **options)
    q, v, p, _ = ds.rollout(kernel, start.q, start.v, start.targets, DT, time_axis=0, impulses=start.impulses, **gains)
    q, v, p, targets = (x[: len(start.targets)].reshape(-1, x.shape[-1]) for x in (q, v, p, start.targets))
    others = dict(zip(("q_target", *gains), (targets, *gains.values()), strict=True))
    distance = derivatives(q, v, p, *others.values(), DT, 0.0)[-1]
    at = rng.choice(len(q), kept, replace=False)
    given = [q[at], v[at], p[at], targets[at], *gains.values(), DT]
    unit = rng.normal(size=given[1].shape)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    errors = np.zeros((2, len(EPSILON), kept))
    nv = case.tree.nv
    for k, epsilon in enumerate(EPSILON):
        ends = [kernel(given[0], given[1] + s * epsilon * unit, *given[2:])[1] for s in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * epsilon)
        for i, smoothing in enumerate((0.0, epsilon)):
            A = derivatives(*given, smoothing)[4][:, nv:, nv:]
            missed = np.einsum("nij,nj->ni", A, unit) - slope
            errors[i, k] = np.linalg.norm(missed, axis=1) / np.linalg.norm(slope, axis=1)
    return distance, errors


def draw(pushing, trotting, path):
    """Four panels: cost and gradients of the push, distances and errors of the trot."""
    speeds, cost, gradients, (inner, sampled) = pushing
    distance, errors = trotting
    figure = page_figure(5.2)
    ((push, gradient), (far, error)) = figure.subplots(2, 2)
    push.plot(speeds, 1e4 * cost, BLUE)
    push.set(xlabel="speed at the start (m/s)", ylabel="cost: missed goal² (cm²)")
    gradient.plot(inner, 1e4 * sampled, GREY, linewidth=3, label="means over ±0.15 m/s")
    for s, color in zip(gradients, (BLUE, ORANGE, GREEN), strict=True):
        gradient.plot(speeds, 1e4 * gradients[s], color, label=f"smoothing {s:g} m/s" if s else "exact")
    gradient.set(xlabel="speed at the start (m/s)", ylabel="gradient (cm² s/m)", ylim=(-1500, 750))
    gradient.legend(fontsize=SMALL, loc="lower right")
    order = np.sort(distance)
    far.plot(order, np.linspace(0, 100, len(order)), BLUE)
    far.set(xscale="log", xlim=(1e-5, 1), xlabel="distance to another mode (m/s)", ylabel="states of a trot (%)")
    for name, x, color in zip(("exact", "smoothed, smoothing ε"), errors, (BLUE, ORANGE), strict=True):
        error.plot(EPSILON, 100 * np.mean(x, axis=1), color, label=name)
    error.set(xscale="log", xlabel="ε (m/s, rad/s)", ylabel="mean error beside differences (%)")
    error.legend(fontsize=SMALL)
    for ax in figure.axes:
        tidy(ax)
    command = "python benchmarks/switches.py --plot FOLDER"
    return stamp(save_figure(figure, path), command, environment(), __file__)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", type=Path, help="folder for the figure")
    folder = parser.parse_args().plot
    pushing = block_pushes_block()
    speeds, cost, gradients, (inner, sampled) = pushing
    for speed in (0.3, 0.5, 0.6, 0.8, 1.0, 1.2):
        k = np.argmin(np.abs(speeds - speed))
        found = (f"{1e4 * gradient[k]:8.1f}" for gradient in gradients.values())
        print(f"{speed:.1f} m/s: cost {1e4 * cost[k]:6.1f} cm², gradient", *found,
              f"means {1e4 * np.interp(speed, inner, sampled):8.1f} cm² s/m")  # fmt: skip
    trotting = trot()
    distance, errors = trotting
    print("within", *(f"{x:g} m/s: {100 * np.mean(distance < x):.1f} %" for x in (1e-4, 1e-3, 1e-2, 0.1)))
    for k, epsilon in enumerate(EPSILON):
        exact, smoothed = errors[:, k]
        print(f"ε {epsilon:.1e}: mean error exact {100 * exact.mean():.2f} %, smoothed {100 * smoothed.mean():.2f} %; "
              f"above 1 %: {100 * np.mean(exact > 0.01):.1f} %, {100 * np.mean(smoothed > 0.01):.1f} %")  # fmt: skip
    if folder:
        draw(pushing, trotting, folder / "switches.png")
