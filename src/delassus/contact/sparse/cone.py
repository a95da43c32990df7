"""Laws of row groups in compiled loops (`delassus.algorithms.contact.law`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from delassus.algorithms.contact import law, point
from delassus.algorithms.contact.point import PointBlock
from delassus.compiler.jit.compile import inlined
from delassus.compiler.jit.loop_ops import emitted

CONTACT, JOINT = range(2)
"""Kinds of row groups; contacts have three rows, joints one, the last of three places."""

OUT_OF_REACH = 1e20
"""Velocity (m/s, rad/s) of what does not take part."""

Solved = tuple[tuple[float, float, float], float]
Law = tuple[float, float, float, float, float, float, float, float, float]

cone_law: Callable[..., Law] = emitted(law.cone)
joint_law: Callable[..., tuple[float, float]] = emitted(law.joint)
point_block: Callable[..., PointBlock] = emitted(partial(point.point_block, is_only=True))
solve_point: Callable[..., Solved] = emitted(point.solve_point)
solve_point_beside: Callable[..., Solved] = emitted(point.solve_point_beside)
passive_part: Callable[..., float] = emitted(law.passive_part)
impact: Callable[..., tuple[float, float]] = emitted(law.impact)
impact_time: Callable[..., float] = emitted(law.impact_time)
gap_correction: Callable[..., tuple[float, float]] = emitted(law.gap_correction)
limit_correction: Callable[..., tuple[float, float]] = emitted(law.limit_correction)


@inlined
def impulse(kind: int, mu: float, friction_offset: float, x: float, y: float, z: float) -> Law:
    """``P(x, y, z)`` and its derivative: xx, xy, yy, xz, yz, zz. Of joints, ``x`` and ``y`` are limits negated."""
    if kind == JOINT:
        found = joint_law(friction_offset, -x, -y, z)
        return 0.0, 0.0, found[0], 0.0, 0.0, 0.0, 0.0, 0.0, found[1]
    return cone_law(mu, friction_offset, x, y, z)
