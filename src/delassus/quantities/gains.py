"""Gains: of the stabilisation of constraints, and of tasks and the posture of a controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, Literal

import numpy as np

from delassus.constraints import Argument, Constraint
from delassus.errors import ConfigurationError, shown
from delassus.frozen import Frozen
from delassus.model.check import check_flag, real_array
from delassus.model.tree import Tree
from delassus.quantities.checks import check_positive, one_each


@dataclass(frozen=True, slots=True)
class Baumgarte(Frozen):
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
        A number that is negative or not finite, or gains that are not.

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
            self._set_attributes(**{name: float(number)})
        if not max(self.gains) < np.inf:
            raise ConfigurationError("Baumgarte", "finite gains 2 ζ ω and ω²", shown(self), "Try 20 and 1.")

    @property
    def gains(self) -> tuple[float, float]:
        """Gains of velocity errors, ``2 ζ ω`` (1/s), and of position errors, ``ω²`` (1/s²)."""
        return 2.0 * self.damping * self.frequency, self.frequency * self.frequency


GAINS = "in 1/s² and 1/s, of forces in N/m and N·s/m", "Without a gain pass 0."
"""What gains are, and what to pass in place of negative ones."""

Gain = tuple[float, ...] | Literal["input"]


@dataclass(frozen=True, slots=True)
class Tasks:
    """Checked gains of a controller, whose first constraints are tasks; those after them hold.

    ``kp`` and ``kd`` are along the rows of each task, ``impedance`` says of which rows they give forces, and
    ``posture`` whether the configuration that joints are drawn to comes with each call.
    """

    kp: tuple[Gain, ...]
    kd: tuple[Gain, ...]
    impedance: tuple[tuple[bool, ...], ...]
    posture: bool
    posture_kp: Gain
    posture_kd: Gain

    @property
    def n(self) -> int:
        """Number of tasks."""
        return len(self.kp)

    @classmethod
    def checked(cls, tree: Tree, tasks: Sequence[Constraint], options: Mapping[str, Any]) -> Tasks:
        """Gains as options give them; those of operational-space control in Isaac Lab where they do not."""
        of_tasks = [
            tuple(
                _gain(f"{name} of {c!r}", default if x is None else x, c.size)
                for c, x in zip(tasks, one_each(name, options.get(name), len(tasks)), strict=True)
            )
            for name, default in (("kp", 100.0), ("kd", 20.0))
        ]
        forces = one_each("impedance", options.get("impedance", False), len(tasks))
        of_posture = [
            _gain(name, options.get(name, default), tree.nv)
            for name, default in (("posture_kp", 10.0), ("posture_kd", 2.0 * sqrt(10.0)))
        ]
        posture = check_flag("posture", options.get("posture", False), "Its values come with each call.")
        each = tuple(_impedance(c, x) for c, x in zip(tasks, forces, strict=True))
        return cls(of_tasks[0], of_tasks[1], each, posture, *of_posture)

    def arguments(self, tree: Tree, tasks: Sequence[Constraint]) -> list[Argument]:
        """Arguments that they ask for."""
        out = []
        for name, unit, gains in (("kp", "1/s^2 or N/m", self.kp), ("kd", "1/s or N s/m", self.kd)):
            for k, (c, gain) in enumerate(zip(tasks, gains, strict=False)):
                if gain == "input":
                    meaning = f"gain of task {k} along its rows, {unit}"
                    out.append(Argument(f"{name}{k}", (c.size,), meaning, "gains", f"{name} of {c!r}"))
        if self.posture:
            out.append(Argument("posture", (tree.nq,), "configuration that joints are drawn to, in the layout of q"))
        for name, unit, gain in (("posture_kp", "1/s^2", self.posture_kp), ("posture_kd", "1/s", self.posture_kd)):
            if gain == "input":
                out.append(Argument(name, (tree.nv,), f"gain of the posture, {unit}", "gains"))
        return out


def check_gain(given: Any, size: int, argument: str) -> Any:
    """Gains (..., size), none negative; one number is that of all."""
    return check_positive(given, size, argument, GAINS, above=False)


def _gain(argument: str, given: Any, size: int) -> Gain:
    if isinstance(given, str) and given == "input":
        return "input"
    array = check_gain(given, size, argument)
    if array.ndim != 1:
        raise ConfigurationError(argument, "one number, or one for each", f"shape {array.shape}", "Pass 'input'.")
    return tuple(array.tolist())


def _impedance(c: Constraint, given: Any) -> tuple[bool, ...]:
    """A flag for each row."""
    flags = real_array(False if given is None else given, flags=True)
    if flags is None or flags.shape not in ((), (c.size,)) or not np.isin(flags, (0.0, 1.0)).all():
        wanted = f"True, False or one of these for each of {c.size} row(s)"
        raise ConfigurationError(f"impedance of {c!r}", wanted, shown(given), "It is fixed when a kernel is compiled.")
    return tuple(np.broadcast_to(flags != 0.0, c.size).tolist())
