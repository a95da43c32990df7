"""What decides whether a landing holds: sensitivities of a quadruped's clearance: ``python benchmarks/landing.py``.

The quadruped falls from 0.3 m onto its four feet, held by PD control, and slides. Its clearance is that of the trunk's
lowest corner (m) at its lowest moment. One sweep of cotangents backwards through the rollout gives the derivative by
every argument of the step; beside it are differences of whole rollouts, one pair for each parameter.
"""

import argparse
import time
from itertools import product
from pathlib import Path

import numpy as np

import delassus as ds
from delassus.cli.tables import environment
from delassus.pictures.plots import COLOURS, SMALL, save_figure
from delassus.scenes.quadruped import FOOT_RADIUS, TRUNK, generic_quadruped
from delassus.scenes.trot import LEGS, leg_angles, rod_of
from delassus.spatial.rotations import quaternion_to_matrix
from delassus_studies.figures import side_by_side, stamp, tidy

DT, STEPS = 1e-3, 500
CORNERS = 0.5 * np.array(list(product((-1, 1), repeat=3))) * TRUNK
PART = 0.1
"""Part of each parameter by which it is changed, in the chart."""


def landing():
    """Step of the robot, its start, and its parameters."""
    robot = generic_quadruped()
    feet = [ds.Contact(f"{leg}_foot", ds.contact.Sphere(FOOT_RADIUS), "input") for leg in LEGS]
    options = {"control": "pd", "friction": "input", "restitution": "input", "payloads": ["trunk"]}
    step = ds.compile(robot, feet, "contact_step", tolerance=1e-9, sweeps=300, **options)
    q0 = robot.neutral()
    q0[7:] = np.tile(leg_angles(rod_of(robot), 0.28, 0.0, 0.0), 4)
    target = q0.copy()
    q0[2] = 0.28 + FOOT_RADIUS + 0.3
    v0 = np.zeros(robot.nv)
    v0[[0, 4]] = 1.0, 0.5  # m/s ahead, rad/s
    gains = np.r_[np.zeros(6), np.ones(12)]
    values = {
        "q_target": target, "kp": 60.0 * gains, "kd": 1.5 * gains, "friction": np.full(4, 0.5),
        "restitution": np.zeros(4), "payload0": np.zeros(10),
        **{f"ground{k}": np.array([[0.0, 0.0, 0.0, 1.0]]) for k in range(4)},
    }  # fmt: skip
    return step, (q0, v0), values


def roll(step, start, values):
    """Trajectory of states; raises where a step is not solved."""
    others = {name: x for name, x in values.items() if name != "q_target"}
    controls = np.tile(values["q_target"], (STEPS, 1))
    *states, _, status = ds.rollout(step, *start, controls, DT, return_status=True, **others)
    if (status != ds.DynamicsStatus.SOLVED).any():
        raise RuntimeError(f"{np.count_nonzero(status != ds.DynamicsStatus.SOLVED)} steps are not solved")
    return states


def heights(q):
    """Of the trunk's lowest corner (..., ) at configurations."""
    return q[..., 2] + np.min(quaternion_to_matrix(q[..., 3:7])[..., 2, :] @ CORNERS.T, axis=-1)


def gradients(step, states, values):
    """Derivatives of the clearance by all arguments of the step, summed over steps, and by the state at the start."""
    q, v, impulses = states
    last = int(np.argmin(heights(q)))
    change, after = 1e-4 * np.eye(len(q[0])), np.zeros((last, len(q[0])))
    after[-1] = (heights(q[last] + change) - heights(q[last] - change)) / 2e-4  # quadratic in q
    others = {name: x for name, x in values.items() if name != "q_target"}
    controls = np.tile(values["q_target"], (last, 1))
    *found, status = ds.rollout(
        step.derivative("vjp"), q[: last + 1], v[: last + 1], controls, DT, impulses=impulses[: last + 1],
        q_next_bar=after, return_status=True, **others,
    )  # fmt: skip
    if (status != ds.DynamicsStatus.SOLVED).any():
        raise RuntimeError(
            f"derivatives of {np.count_nonzero(status != ds.DynamicsStatus.SOLVED)} steps are not solved"
        )
    total = dict(zip((a.name for a in step.arguments), found, strict=True))
    return {**total, "q_target": total["q_target"].sum(axis=0)}


def parameters(step, values):
    """Changes of arguments that a change of each parameter by its part makes.

    Larger feet are higher ground: the same gaps, and contact points that differ by the change of the radius.
    """
    mass = step.request.tree.inertias[0][0, 0]
    trunk = np.r_[1.0, np.zeros(3), [TRUNK[1] ** 2 + TRUNK[2] ** 2, 0, TRUNK[0] ** 2 + TRUNK[2] ** 2, 0, 0,
                                     TRUNK[0] ** 2 + TRUNK[1] ** 2]] / 12.0  # fmt: skip
    trunk[0] = 1.0
    higher = {f"ground{k}": np.array([[PART * FOOT_RADIUS, 0, 0, 0]]) for k in range(4)}
    return {
        "friction": {"friction": PART * values["friction"]},
        "mass of the trunk": {"payload0": PART * mass * trunk},
        "centre of mass, 1 cm ahead": {"payload0": np.r_[0, 0.01 * mass, np.zeros(8)]},
        "radius of the feet": higher,
        "gains kp": {"kp": PART * values["kp"]},
        "gains kd": {"kd": PART * values["kd"]},
        "speed ahead": {"v": np.r_[PART * 1.0, np.zeros(17)]},
        "height of the fall": {"q": np.r_[0, 0, PART * 0.3, np.zeros(16)]},
    }


def draw(rows, path):
    """Bars of what each change makes of the clearance (mm), and differences beside them."""
    rows = sorted(rows, key=lambda row: abs(row[1]))
    figure, (ax,) = side_by_side(1, 3.0)
    for k, (label, place) in enumerate((("one sweep of cotangents", 0.2), ("differences of rollouts", -0.2))):
        ax.barh(np.arange(len(rows)) + place, [1e3 * row[1 + k] for row in rows], 0.38, label=label, color=COLOURS[k])
    ax.set_yticks(np.arange(len(rows)), [row[0] for row in rows])
    ax.axvline(0, color="k", linewidth=0.8)
    ax.set_xlabel(f"change of the clearance (mm) for {100 * PART:.0f} % of the parameter")
    ax.legend(fontsize=SMALL)
    tidy(ax)
    command = "python benchmarks/landing.py --plot FOLDER"
    return stamp(save_figure(figure, path), command, environment(), __file__)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", type=Path, help="folder for the figure")
    folder = parser.parse_args().plot
    step, start, values = landing()
    states = roll(step, start, values)
    clearance = heights(states[0])
    print(f"clearance {1e3 * clearance.min():.1f} mm after {DT * np.argmin(clearance):.3f} s")
    gradients(step, states, values)
    begin = time.perf_counter()
    found = gradients(step, states, values)
    backwards = time.perf_counter() - begin
    rows, begin = [], time.perf_counter()
    for name, change in parameters(step, values).items():
        by_gradient = sum(float(np.sum(found[argument] * x)) for argument, x in change.items())
        ends = []
        for sign in (1, -1):
            size = 1e-3 * sign
            moved = {k: x + size * change[k] if k in change else x for k, x in values.items()}
            at = [x + size * change[k] if k in change else x for k, x in zip("qv", start, strict=True)]
            ends.append(heights(roll(step, at, moved)[0]).min())
        rows.append((name, by_gradient, (ends[0] - ends[1]) / 2e-3))
        print(f"{name:32} {1e3 * rows[-1][1]:9.3f} mm, by differences {1e3 * rows[-1][2]:9.3f} mm")
    forwards = time.perf_counter() - begin
    print(f"cotangents {1e3 * backwards:.0f} ms for {sum(a.size for a in step.arguments)} numbers, "
          f"differences {1e3 * forwards / len(rows):.0f} ms for each")  # fmt: skip
    if folder:
        draw(rows, folder / "landing.png")
