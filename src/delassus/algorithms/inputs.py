"""Arrays that come with each call because constraints or payloads ask for them: rows, placements, ground, payloads.

`inputs_of` lists them: arguments of kernels, unknowns of the planner and keywords of the direct functions follow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from delassus.constraints import Constraint, Contact, Frame, Rows

End = Literal["first", "second"]
ENDS: tuple[End, End] = ("first", "second")

POSITION = "position in m"
PLACEMENT = "position in m, unit quaternion x y z w"
PAYLOAD = "m, m c, Ixx, Ixy, Iyy, Ixz, Iyz, Izz"


@dataclass(frozen=True, slots=True)
class Argument:
    """An array that comes with each call: C identifier, shape of one state, units and layout.

    ``keyword`` is that of the direct functions that it comes in, "" for its own name; ``owner`` says whose it is, for
    messages.
    """

    name: str
    shape: tuple[int, ...]
    meaning: str = ""
    keyword: str = ""
    owner: str = ""

    @property
    def size(self) -> int:
        """Numbers in one state."""
        return prod(self.shape)


def rows_name(constraint: int) -> str:
    """Name of the rows of a constraint."""
    return f"K{constraint}"


def placement_name(constraint: int, end: End) -> str:
    """Name of the placement of a constraint's frame."""
    return f"placement{constraint}" + ("_second" if end == "second" else "")


def ground_name(constraint: int) -> str:
    """Name of the ground below the points of a contact."""
    return f"ground{constraint}"


def payload_name(payload: int) -> str:
    """Name of a payload."""
    return f"payload{payload}"


def inputs_of(constraints: Sequence[Constraint], payloads: Sequence[str] = ()) -> tuple[Argument, ...]:
    """Rows and placements, constraint by constraint, and payloads last."""
    out: list[Argument] = []
    for i, c in enumerate(constraints):
        if isinstance(c, Rows) and c.rows is None:
            meaning = f"rows of constraint {i} on {c.first.link}, [linear; angular]"
            out.append(Argument(rows_name(i), (c.size, 6), meaning, "rows", f"rows of {c!r}"))
        if isinstance(c, Contact) and c.ground == "input":
            meaning = f"ground below contact {i}, a row a point: height in m, unit normal"
            out.append(Argument(ground_name(i), (c.n_points, 4), meaning))
        out.extend(_placement(i, end, c, frame) for end, frame in zip(ENDS, c.frames, strict=False) if frame.given)
    for i, link in enumerate(payloads):
        meaning = f"inertia added to {link}, about and along its frame: {PAYLOAD} in kg, kg m, kg m^2"
        out.append(Argument(payload_name(i), (10,), meaning, "payloads", f"payload on {link!r}"))
    return tuple(out)


def _placement(index: int, end: End, c: Constraint, frame: Frame) -> Argument:
    size, layout = (3, POSITION) if frame.given == "position" else (7, PLACEMENT)
    meaning = f"{end} frame of constraint {index} in the frame of {frame.link}: {layout}"
    return Argument(
        placement_name(index, end), (size,), meaning, "placements", f"placement of the {end} frame of {c!r}"
    )
