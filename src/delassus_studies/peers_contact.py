"""MuJoCo on the pendulum of [OS] section 8: the same bodies, planes and steps, with MuJoCo's own soft contacts."""

from __future__ import annotations

import time

import numpy as np


def mujoco_pendulum(n: int, steps: int) -> dict[str, float | None] | None:
    """Median µs a step without and with contacts, called step by step from Python; None without MuJoCo."""
    try:
        import mujoco
    except ImportError:
        return None
    model = mujoco.MjModel.from_xml_string(_description(n))
    data = mujoco.MjData(model)
    data.qpos[0], data.qvel[0] = np.pi / 4, 1.0
    seconds, touching = np.empty(steps), np.empty(steps, dtype=bool)
    for k in range(steps):
        start = time.perf_counter()
        mujoco.mj_step(model, data)
        seconds[k] = time.perf_counter() - start
        touching[k] = data.ncon > 0
    return {
        "free": float(np.median(seconds[~touching]) * 1e6),
        "touching": float(np.median(seconds[touching]) * 1e6) if touching.any() else None,
    }


def _description(n: int) -> str:
    radius = 6.0 / n
    inner = ""
    for k in reversed(range(n)):
        place = f"0 0 {10 if k == 0 else -2 * radius:.17g}"
        inner = (
            f'<body pos="{place}"><joint type="hinge" axis="0 1 0"/>'
            f'<geom type="sphere" size="{radius:.17g}" mass="1" pos="0 0 {-radius:.17g}" friction="0.5 0 0"/>'
            f"{inner}</body>"
        )
    return (
        '<mujoco><option timestep="0.0001" gravity="0 0 -9.8"/><worldbody>'
        '<geom type="plane" size="50 50 1" friction="0.5 0 0"/>'
        '<geom type="plane" size="50 50 1" pos="4 0 0" euler="0 -90 0" friction="0.5 0 0"/>'
        f"{inner}</worldbody></mujoco>"
    )
