"""Arrays that come with each call because constraints or payloads ask for them: rows, placements, ground, payloads.

`inputs_of` lists them: arguments of kernels, unknowns of the planner and keywords of the direct functions follow it.
"""

from __future__ import annotations

from collections.abc import Sequence

from delassus.constraints import Argument, Constraint

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
