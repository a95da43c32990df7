"""What comes with each call besides the configuration: rows, placements of frames, payloads.

`inputs_of` lists them: the arguments of kernels, the unknowns of the planner and the keywords of the direct functions
all follow it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from numpy.typing import ArrayLike

from delassus.constraints import Constraint, Frame, check_rows
from delassus.errors import ConfigurationError, ConstraintError, shown
from delassus.model.check import check_vectors, common_batch, normalised
from delassus.model.rotations import Array
from delassus.model.tree import Tree

Kind = Literal["rows", "placements", "payloads"]
End = Literal["first", "second"]

POSITION = "position in m"
PLACEMENT = "position in m, unit quaternion x y z w"
PAYLOAD = "m, m c, Ixx, Ixy, Iyy, Ixz, Iyz, Izz"


@dataclass(frozen=True, slots=True)
class Input:
    """An array that comes with each call.

    Attributes
    ----------
    kind : {"rows", "placements", "payloads"}
        Keyword of the direct functions that it comes in.
    name : str
        Name of the kernel's argument.
    shape : tuple of int
        Shape of one state.
    owner : str
        Whose rows, placement or payload it is, for messages.
    meaning : str
        Units and layout.
    """

    kind: Kind
    name: str
    shape: tuple[int, ...]
    owner: str
    meaning: str

    def check(self, value: ArrayLike) -> Array:
        """Return ``value`` as finite float64 (..., *shape), quaternions of unit length; or raise `DelassusError`."""
        if self.kind == "rows":
            return check_rows(value, self.shape[0], self.owner)
        array = check_vectors(value, self.shape[0], self.owner, self.meaning)
        if self.kind == "placements" and self.shape == (7,):
            return normalised(array, slice(3, 7), f"quaternion of the {self.owner}")
        return array


def rows_name(constraint: int) -> str:
    """Name of the rows of a constraint."""
    return f"K{constraint}"


def placement_name(constraint: int, end: End) -> str:
    """Name of the placement of a constraint's frame."""
    return f"placement{constraint}" + ("_second" if end == "second" else "")


def payload_name(payload: int) -> str:
    """Name of a payload."""
    return f"payload{payload}"


def inputs_of(constraints: Sequence[Constraint], payloads: Sequence[str] = ()) -> tuple[Input, ...]:
    """All inputs besides the configuration: constraint by constraint, and payloads last."""
    out: list[Input] = []
    for i, c in enumerate(constraints):
        if c.rows is None:
            meaning = f"rows of constraint {i} on {c.first.link}, [linear; angular]"
            out.append(Input("rows", rows_name(i), (c.size, 6), f"rows of {c!r}", meaning))
        if c.first.given is not None:
            out.append(_placement(i, "first", c, c.first))
        if c.second is not None and c.second.given is not None:
            out.append(_placement(i, "second", c, c.second))
    for i, link in enumerate(payloads):
        meaning = f"inertia added to {link}, about and along its frame: {PAYLOAD} in kg, kg m, kg m^2"
        out.append(Input("payloads", payload_name(i), (10,), f"payload on {link!r}", meaning))
    return tuple(out)


def _placement(index: int, end: End, c: Constraint, frame: Frame) -> Input:
    size, layout = (3, POSITION) if frame.given == "position" else (7, PLACEMENT)
    meaning = f"{end} frame of constraint {index} in the frame of {frame.link}: {layout}"
    owner = f"placement of the {end} frame of {c!r}"
    return Input("placements", placement_name(index, end), (size,), owner, meaning)


def check_payloads(tree: Tree, payloads: Iterable[str]) -> tuple[str, ...]:
    """Check names of links that carry payloads and return them as a tuple.

    Raises
    ------
    ConfigurationError
        Not names, or one of them twice.
    UnknownNameError
        A link that the tree does not have.
    """
    if isinstance(payloads, str) or not isinstance(payloads, Iterable):
        raise ConfigurationError("payloads", "a list of link names", shown(payloads), "Pass payloads=['gripper', …].")
    names = tuple(payloads)
    for name in names:
        tree.placement(name)
        if names.count(name) > 1:
            raise ConfigurationError("payloads", "each link once", f"{name!r} twice", "Add the two payloads up.")
    return names


def check_inputs(
    inputs: Sequence[Input],
    rows: Sequence[ArrayLike] | None,
    placements: Sequence[ArrayLike] | None,
    payloads: Mapping[str, ArrayLike] | None,
    batch: tuple[int, ...],
) -> tuple[list[Array], tuple[int, ...]]:
    """Check what was given for all inputs; returns it in their order, and its batch with that of ``q``."""
    if payloads is not None and not isinstance(payloads, Mapping):
        raise ConfigurationError("payloads", "a mapping of arrays", shown(payloads), "Pass payloads={'gripper': x, …}.")
    given = {
        "rows": iter(_as_list(inputs, "rows", rows, "Rows(link, m) constraint(s)", "K")),
        "placements": iter(_as_list(inputs, "placements", placements, "Frame(link, given=…)", "p")),
        "payloads": iter((payloads or {}).values()),
    }
    arrays = []
    for i in inputs:
        array = i.check(next(given[i.kind]))
        batch = common_batch(i.owner, array.shape[: array.ndim - len(i.shape)], "q", batch)
        arrays.append(array)
    return arrays, batch


def _as_list(
    inputs: Sequence[Input], kind: Kind, arrays: Sequence[ArrayLike] | None, owners: str, letter: str
) -> Sequence[ArrayLike]:
    """One array for each input of a kind, or `ConstraintError`."""
    if arrays is not None and not isinstance(arrays, list | tuple):
        raise ConstraintError(kind, "a list of arrays", type(arrays).__name__, f"Pass {kind}=[{letter}, …].")
    given, wanted = list(arrays or []), sum(i.kind == kind for i in inputs)
    if len(given) != wanted:
        raise ConstraintError(
            kind,
            f"one array for each of {wanted} {owners}",
            f"{len(given)}",
            f"Pass {kind}=[{letter}, …], in the order of the constraints.",
        )
    return given
