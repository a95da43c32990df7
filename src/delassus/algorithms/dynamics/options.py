"""Options of forward dynamics, and checks of what users hand over with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from delassus.algorithms.dynamics import ITERATIVE
from delassus.algorithms.dynamics.iterate import MAX_ITERATIONS, TOLERANCE
from delassus.algorithms.dynamics.state import Goal
from delassus.constraints import Constraint, Frame, Rows
from delassus.errors import ConfigurationError, ConstraintError, DelassusError, shown
from delassus.model.check import common_batch, normalised, real_array
from delassus.model.inertia import motion_transform
from delassus.model.rotations import Array, quaternion_to_matrix
from delassus.model.tree import WORLD, Tree

Damping = ArrayLike | Literal["model"] | None
Wrenches = Mapping[str | Frame, ArrayLike] | None
Targets = Sequence[ArrayLike | None] | None
Poses = Sequence[ArrayLike | None] | None
Compliance = float | Sequence[ArrayLike | None] | None


@dataclass(frozen=True, slots=True)
class Baumgarte:
    """Stabilisation: constraints ask for the acceleration ``−2 ζ ω (velocity error) − ω² (position error)``.

    Parameters
    ----------
    frequency : float
        ``ω``, in 1/s: errors die out as ``exp(−ω t)``; at most about 1 / (time step).
    damping : float
        Ratio ``ζ``; 1 is critical.

    Raises
    ------
    ConfigurationError
        A number that is negative or not finite.

    Examples
    --------
    >>> Baumgarte(20.0).gains
    (40.0, 400.0)
    """

    frequency: float
    damping: float = 1.0

    def __post_init__(self) -> None:
        for name in ("frequency", "damping"):
            number = real_array(getattr(self, name))
            if number is None or number.shape != () or not np.isfinite(number) or number < 0:
                raise ConfigurationError(
                    f"{name} of Baumgarte", "a number that is not negative", shown(getattr(self, name)), "Try 20 and 1."
                )
            object.__setattr__(self, name, float(number))

    @property
    def gains(self) -> tuple[float, float]:
        """Gains of velocity errors, ``2 ζ ω`` (1/s), and of position errors, ``ω²`` (1/s²)."""
        return 2.0 * self.damping * self.frequency, self.frequency**2


Stabilisation = Baumgarte | float | Sequence[Baumgarte | float | None] | None


def check_array(value: ArrayLike, size: int, argument: str, what: str, error: type[DelassusError]) -> Array:
    """Return finite numbers (..., size) as float64, or raise ``error``."""
    array = real_array(value)
    if array is None:
        came = shown(value)
    elif array.ndim == 0 or array.shape[-1] != size:
        came = f"shape {array.shape}"
    elif not np.all(np.isfinite(array)):
        came = "entries that are not finite"
    else:
        return array
    raise error(argument, f"finite numbers of shape (..., {size}), {what}", came, "Batches are leading axes.")


def check_gravity(gravity: ArrayLike) -> Array:
    """Return gravity as (..., 3, 1)."""
    return check_array(gravity, 3, "gravity", "in m/s² along the axes of the world", ConfigurationError)[..., None]


def check_damping(tree: Tree, damping: Damping) -> Array | None:
    """Return damping coefficients (..., nv) or None."""
    if damping is None:
        return None
    if isinstance(damping, str):
        if damping != "model":
            raise ConfigurationError("damping", "numbers, 'model' or None", shown(damping), "Choose one of these.")
        own = np.concatenate([np.zeros(0), *(joint.damping for joint in tree.joints)])
        return own if own.any() else None
    array = tree.check_velocity(damping, "damping")
    if np.any(array < 0):
        where = tuple(int(i) for i in np.argwhere(array < 0)[0])
        raise ConfigurationError(
            "damping", "coefficients that are not negative", f"{array[where]} at index {where}", "Joints resist motion."
        )
    return array


def check_wrenches(tree: Tree, wrenches: Wrenches) -> dict[int, Array]:
    """Return the sum of the wrenches on each link, (..., 6, 1) in its body frame."""
    out: dict[int, Array] = {}
    if wrenches is None:
        return out
    if not isinstance(wrenches, Mapping):
        raise ConfigurationError(
            "wrenches", "a mapping from links or frames to wrenches", shown(wrenches), "Pass {'hand': [f, m]}."
        )
    for frame, wrench in wrenches.items():
        at = frame.on(tree) if isinstance(frame, Frame) else tree.placement(frame)
        name = f"wrench on {frame.link if isinstance(frame, Frame) else frame!r}"
        array = check_array(wrench, 6, name, "[force; moment] in N and N·m", ConfigurationError)
        if at.link == WORLD:
            continue
        moved = motion_transform(at.rotation, at.position).T @ array[..., None]
        if at.link in out:
            common_batch(name, moved.shape[:-2], "another wrench on its link", out[at.link].shape[:-2])
            moved = out[at.link] + moved
        out[at.link] = moved
    return out


def check_goals(
    constraints: Sequence[Constraint],
    targets: Targets,
    baumgarte: Stabilisation,
    poses: Poses,
    compliance: Compliance = None,
) -> list[Goal]:
    """Return what each constraint asks for, as columns."""
    n = len(constraints)
    wanted = _one_each("targets", targets, n)
    places = _one_each("poses", poses, n)
    stable = _one_each("baumgarte", baumgarte, n) if isinstance(baumgarte, list | tuple) else [baumgarte] * n
    softness = _one_each("compliance", compliance, n) if isinstance(compliance, list | tuple) else [compliance] * n
    goals = []
    for c, target, stabilised, pose, soft in zip(constraints, wanted, stable, places, softness, strict=True):
        column = None if target is None else check_array(
            target, c.size, f"target of {c!r}", "accelerations in m/s² and rad/s²", ConstraintError
        )[..., None]  # fmt: skip
        b = stabilised if stabilised is None or isinstance(stabilised, Baumgarte) else Baumgarte(stabilised)
        velocity_gain, position_gain = (None, None) if b is None else b.gains
        diagonal = None if soft is None else _compliance(c, soft)
        place = None if pose is None else _pose(c, pose)
        goals.append(Goal(column, velocity_gain, None if isinstance(c, Rows) else position_gain, place, diagonal))
    return goals


def _compliance(c: Constraint, given: Any) -> Array:
    """Check the compliance of a constraint; returns one entry a row, (..., m, 1)."""
    name = f"compliance of {c!r}"
    number = real_array(given)
    if number is not None and number.shape == ():
        given = np.full(c.size, number)
    array = check_array(given, c.size, name, "or a number, in (m/s²)/N", ConstraintError)
    if np.any(array <= 0):
        raise ConstraintError(
            name, "positive numbers, in (m/s²)/N", f"{np.min(array):g}", "A hard constraint has the compliance None."
        )
    return array[..., None]


def check_iterations(method: str, tolerance: float | None, most: int | None) -> tuple[float, int]:
    """Return the tolerance and the greatest number of iterations."""
    for name, value in (("tolerance", tolerance), ("max_iterations", most)):
        if value is None:
            continue
        if method not in ITERATIVE:
            raise ConfigurationError(
                name, f"None with the method {method!r}", shown(value), "Only 'proximal' iterates."
            )
        number = real_array(value)
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if number is None or number.shape != () or not 0 < number < np.inf or (name == "max_iterations" and not whole):
            kind = "a positive number" if name == "tolerance" else "a positive whole number"
            raise ConfigurationError(name, kind, shown(value), "Leave it out for the default.")
    return TOLERANCE if tolerance is None else float(tolerance), MAX_ITERATIONS if most is None else int(most)


def goal_batches(goals: Sequence[Goal]) -> list[tuple[str, tuple[int, ...]]]:
    """Leading axes of everything in the goals, by argument."""
    out = []
    for goal in goals:
        if goal.target is not None:
            out.append(("targets", goal.target.shape[:-2]))
        if goal.compliance is not None:
            out.append(("compliance", goal.compliance.shape[:-2]))
        if goal.pose is not None:
            out.extend(("poses", part.shape[:-2]) for part in goal.pose)
    return out


def _one_each(argument: str, given: Sequence[Any] | None, n: int) -> list[Any]:
    if given is None:
        return [None] * n
    if not isinstance(given, list | tuple) or len(given) != n:
        came = f"{len(given)}" if isinstance(given, list | tuple) else shown(given)
        raise ConstraintError(
            argument, f"a list with one entry for each of {n} constraint(s)", came, "None stands for none."
        )
    return list(given)


def _pose(c: Constraint, pose: Any) -> tuple[Array, Array]:
    """Check where a constraint's first frame should be in the world: rotation (..., 3, 3), position (..., 3, 1)."""
    name = f"pose of {c!r}"
    if c.second is not None or isinstance(c, Rows):
        raise ConstraintError(
            name,
            "None for Rows and for constraints between two links",
            shown(pose),
            "These have no place in the world.",
        )
    given = real_array(pose)
    if not c.rigid and given is not None and given.shape[-1:] == (3,):
        return np.eye(3), check_array(given, 3, name, "position in m", ConstraintError)[..., None]
    array = check_array(pose, 7, name, "position in m and unit quaternion x y z w", ConstraintError)
    array = normalised(array, slice(3, 7), f"quaternion of the {name}")
    return quaternion_to_matrix(array[..., 3:]), array[..., :3, None]
