"""Arrays that come with each call because constraints or payloads ask for them: rows, placements, ground, payloads.

`inputs_of` lists them: arguments of kernels, unknowns of the planner and keywords of the direct functions follow it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from delassus.constraints import Argument, Constraint
from delassus.spatial.rotations import Array

CONFIGURATIONS = ("q", "q_end", "posture")
"""Names of arguments that are configurations."""

PAYLOAD = "m, m c, Ixx, Ixy, Iyy, Ixz, Iyz, Izz"


def payload_name(payload: int) -> str:
    """Name of a payload."""
    return f"payload{payload}"


def inputs_of(constraints: Sequence[Constraint], payloads: Sequence[str] = ()) -> tuple[Argument, ...]:
    """Rows and placements, constraint by constraint, and payloads last."""
    out = [argument for i, c in enumerate(constraints) for argument in c.arguments(i)]
    for i, link in enumerate(payloads):
        meaning = f"inertia added to {link}, about and along its frame: {PAYLOAD} in kg, kg m, kg m^2"
        out.append(Argument(payload_name(i), (10,), meaning, "payloads", f"payload on {link!r}"))
    return tuple(out)


def generic_values(
    argument: Argument, length: float, random: np.random.Generator, batch: tuple[int, ...] = ()
) -> Array:
    """Random values (*batch, *shape) of an argument: unit rows, or places about a ``length`` (m) from their frames."""
    x = random.normal(size=(*batch, *argument.shape))
    if argument.keyword == "rows":
        x[..., 3:] *= length
        x /= np.linalg.norm(x, axis=-1, keepdims=True)
    elif argument.keyword in ("placements", "poses"):
        x[..., :3] *= length
        if argument.shape == (7,):
            x[..., 3:] /= np.linalg.norm(x[..., 3:], axis=-1, keepdims=True)
    return np.asarray(x)
