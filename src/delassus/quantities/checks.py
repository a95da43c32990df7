"""What an option is, and checks of what users hand over for one: numbers, flags, entries for constraints, names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from delassus.algorithms.inputs import inputs_of
from delassus.constraints import PLACEMENT, POSITION, Argument, Constraint, Frame, check_constraints
from delassus.constraints.sensors import Sensor, check_sensors
from delassus.constraints.spring import AnySpring, springs_among
from delassus.errors import ConfigurationError, ConstraintError, shown, unknown_name
from delassus.model.check import check_flag, check_list, check_number, finite_array, real_array
from delassus.model.tree import Tree
from delassus.quantities.keywords import Baumgarte
from delassus.quantities.quantity import Quantity
from delassus.spatial.rotations import Array

COMES = "Its values come with each call."

COMPLIANCE = "in (m/s²)/N", "A hard constraint has the compliance None."
WEIGHTS = "for joint forces and rows", "Forces that are free have a small weight, such as 1e-6."
GAINS = "in 1/s² and 1/s, of forces in N/m and N·s/m", "Without a gain pass 0."
"""What positive numbers are, and what to pass where zeros or negative ones were meant."""


class OptionContext(NamedTuple):
    """What options are checked with; of a controller's constraints the first ones are ``tasks``, so many."""

    tree: Tree
    constraints: Sequence[Constraint]
    tasks: int | None
    taken: frozenset[str]
    given: Mapping[str, Any]

    @property
    def n(self) -> int:
        """Number of constraints that have options of their own: all, or the tasks."""
        return len(self.constraints) if self.tasks is None else self.tasks

    def each(self, name: str) -> Iterator[tuple[Constraint, Any]]:
        """These constraints, each with its entry of an option."""
        return zip(self.constraints[: self.n], one_each(name, self.given.get(name), self.n), strict=True)

    def padded(self, own: Sequence[Any], other: Any = None) -> tuple[Any, ...]:
        """Entries of these constraints, and of the others."""
        return (*own, *[other] * (len(self.constraints) - self.n))

    def size(self, what: int | str, c: Constraint | None = None) -> int:
        """Size by name, see `Option`, of a constraint if it is given."""
        acting = self.constraints[self.tasks or 0 :]
        match what:
            case "nq" | "nv":
                return int(getattr(self.tree, what))
            case "rows" | "pose":
                return 0 if c is None else c.size if what == "rows" else c.pose_size
            case "constraints":
                return sum(c.holds for c in self.constraints)
            case "acting":
                return len(acting) if "solver" not in self.taken else sum(c.n_points > 0 for c in acting)
            case "forces":
                return self.tree.nv + sum(c.size for c in acting)
        return int(what)


class Option(NamedTuple):
    """What is known of an option.

    Attributes
    ----------
    check : callable
        From `OptionContext`, the option and what is handed over to what `Options` holds.
    kind, text : str
        What may be handed over, and what that does.
    default : object or callable
        What stands for it if it is not given, or a function of `OptionContext` that says so.
    argument : str
        Name of the argument that it asks for: by ``"input"``, or if it is a flag by True. With ``{i}`` there is one for
        each frame or constraint. "" is none.
    shape : tuple of int or str
        Shape of that: numbers; "nq" and "nv" of the tree; "rows" and "pose" of a constraint; "constraints", all that
        are "acting", and "forces" of joints and of these.
    meaning : str
        Its units and layout.
    values : callable or None
        Check of its numbers, whether they are built in or come with a call: from the tree, numbers, how many there are,
        and whose they are; None if any numbers will do.
    flags : bool
        Whether it holds 1 or 0.
    choices : tuple of str
        Names of which it is one, the first if not given.
    """

    check: Callable[[OptionContext, Option, Any], Any]
    kind: str
    text: str
    default: Any = None
    argument: str = ""
    shape: tuple[int | str, ...] = ()
    meaning: str = ""
    values: Callable[[Tree, Any, int, str], Array] | None = None
    flags: bool = False
    choices: tuple[str, ...] = ()
    name: str = ""

    @property
    def is_flag(self) -> bool:
        """Whether True asks for its argument, not "input"."""
        return self.kind.startswith("bool")

    @property
    def asks(self) -> bool | str:
        """What asks for its argument."""
        return self.is_flag or "input"

    @property
    def is_each(self) -> bool:
        """Whether it has an argument for each frame or constraint."""
        return "{i}" in self.argument

    @property
    def document(self) -> tuple[str, str]:
        """What may be handed over, and what that does, for docstrings."""
        sizes = {"rows": "m_i", "constraints": "n_constraints", "acting": "n_contacts", "forces": "nv + m"}
        shape = ", ".join(str(sizes.get(str(x), x)) for x in self.shape)
        layout = "(7,) or, of a point, (3,)" if "pose" in self.shape else f"({shape},)" if shape else "()"
        if not self.argument:
            return self.kind, self.text
        if self.name == "wrenches":
            return self.kind, f"{self.text} Each comes as the argument ``{self.argument}`` {layout}."
        text = f"{self.text} ``{'True' if self.is_flag else chr(34) + 'input' + chr(34)}`` makes it an argument"
        return self.kind + ' or "input"' * (not self.is_flag), f"{text}, ``{self.argument}`` {layout}."

    def arguments(self, asked: OptionContext, value: Any) -> Iterator[Argument]:
        """Arguments that it asks for by what `Options` holds."""
        if not self.is_each:
            if value is True or (isinstance(value, str) and value == "input"):
                whose = "constraint" if "solver" not in asked.taken else "contact"
                yield self._argument(asked, whose=whose)
        elif self.name == "wrenches":
            for i, frame in enumerate(value):
                yield self._argument(asked, i, None, f"wrench on {frame.link!r}", link=frame.link)
        else:
            for i, (c, x) in enumerate(zip(asked.constraints, value, strict=False)):
                if x is True or (isinstance(x, str) and x == "input"):
                    layout = PLACEMENT if c.pose_size == 7 else POSITION
                    yield self._argument(asked, i, c, f"{self.argument.format(i='')} of {c!r}", layout=layout)

    def _argument(
        self, asked: OptionContext, i: int = 0, c: Constraint | None = None, owner: str = "", **more: str
    ) -> Argument:
        shape = tuple(asked.size(what, c) for what in self.shape)
        return Argument(
            self.argument.format(i=i), shape, self.meaning.format(i=i, **more), self.name, owner, self.flags
        )


# -- numbers ---------------------------------------------------------------------------------------------------------


def check_damping(tree: Tree, damping: ArrayLike, size: int = 0, owner: str = "damping") -> Array:
    """Return damping coefficients (..., nv) that are not negative."""
    if damping is None or isinstance(damping, str):
        advice = "Leave it out for that of the robot's description; passive='none' is without."
        raise ConfigurationError(owner, "numbers or 'input'", shown(damping), advice)
    array = tree.check_velocity(damping, owner)
    if np.any(array < 0):
        where = tuple(int(i) for i in np.argwhere(array < 0)[0])
        came = f"{array[where]} at index {where}"
        raise ConfigurationError(owner, "coefficients that are not negative", came, "Joints resist motion.")
    return array


def positive(what: tuple[str, str], above: bool = True) -> Callable[[Tree, Any, int, str], Array]:
    """A check of numbers (..., size) that are all positive, or not negative unless they are ``above``.

    One number is that of all rows. ``what`` they are, and what to pass in place of others.
    """
    unit, advice = what

    def check(tree: Tree, given: Any, size: int, owner: str) -> Array:
        number = real_array(given)
        if number is not None and number.shape == ():
            given = np.full(size, number)
        array = finite_array(given, (..., size), owner, f"Pass a number or one for each row, {unit}.", ConstraintError)
        if np.any(array <= 0 if above else array < 0):
            wanted = "positive numbers" if above else "numbers that are not negative"
            raise ConstraintError(owner, f"{wanted}, {unit}", f"{np.min(array):g}", advice)
        return array

    return check


def numbers(asked: OptionContext, option: Option, value: Any) -> Any:
    """Numbers that are built in, "input", or None where that is the default."""
    if value is None and option.default is None:
        return None
    (size,) = (asked.size(what) for what in option.shape)
    return _built_in(asked, option, value, size, option.name)


def _built_in(asked: OptionContext, option: Option, value: Any, size: int, owner: str) -> Any:
    if isinstance(value, str) and value == "input":
        return value
    if option.values is None:
        array = finite_array(value, (..., size), owner, f"Pass {option.meaning}.")
    else:
        array = option.values(asked.tree, value, size, owner)
    if array.ndim != 1:
        raise ConfigurationError(owner, "one vector", f"shape {array.shape}", f"Pass {option.name}='input' for more.")
    return tuple(array.tolist())


def numbers_or_none(asked: OptionContext, option: Option, value: Any) -> Any:
    """The same; None if all are zero."""
    found = numbers(asked, option, value)
    return found if isinstance(found, str) or any(found) else None


def numbers_of_each(asked: OptionContext, option: Option, value: Any) -> tuple[Any, ...]:
    """Numbers of each constraint; the default where there is none, and None if that is."""
    given = [(c, option.default if x is None else x) for c, x in asked.each(option.name)]
    owner = f"{option.name} of "
    return asked.padded([None if x is None else _built_in(asked, option, x, c.size, f"{owner}{c!r}") for c, x in given])


def coefficient(
    most: float = inf, what: str = "one number for each contact"
) -> Callable[[OptionContext, Option, Any], Any]:
    """A check of one number that is not negative, "input", or None."""

    def check(asked: OptionContext, option: Option, value: Any) -> Any:
        if value is None or (isinstance(value, str) and value == "input"):
            return value
        return check_number(option.name, value, f"Or 'input': {what} comes with each call.", above=False, most=most)

    return check


def smoothing(asked: OptionContext, option: Option, value: Any) -> Any:
    """The same; none is None."""
    return coefficient(what="it")(asked, option, value) or None


def of_tasks(check: Callable[[OptionContext, Option, Any], Any]) -> Callable[[OptionContext, Option, Any], Any]:
    """A check of what controllers alone have; None of all else."""
    return lambda asked, option, value: None if asked.tasks is None else check(asked, option, value)


# -- flags and choices -----------------------------------------------------------------------------------------------


def flag(asked: OptionContext, option: Option, value: Any) -> bool:
    """True or False."""
    return check_flag(option.name, value, COMES)


def flags_of_each(asked: OptionContext, option: Option, value: Any) -> tuple[bool, ...]:
    """A flag for each constraint; ``True`` means all that can have it."""
    can = [option.name != "poses" or _has_pose(asked, c, gains) for c, gains in asked.each("baumgarte")]
    if isinstance(value, bool):
        return asked.padded([value and possible for possible in can], False)
    if not isinstance(value, list | tuple) or len(value) != asked.n:
        wanted = f"True, False or one of these for each of {asked.n} constraint(s)"
        raise ConfigurationError(option.name, wanted, shown(value), "Pass True.")
    flags = [check_flag(f"{option.name}[{i}]", x, COMES) for i, x in enumerate(value)]
    for i, (x, possible) in enumerate(zip(flags, can, strict=True)):
        if x and not possible:
            wanted = "False for a constraint that cannot have it"
            raise ConfigurationError(f"{option.name}[{i}]", wanted, "True", "See `baumgarte` and `poses`.")
    return asked.padded(flags, False)


def _has_pose(asked: OptionContext, c: Constraint, gains: Any) -> bool:
    return c.pose_size > 0 and (asked.tasks is not None or gains is not None)


def impedance(asked: OptionContext, option: Option, value: Any) -> tuple[tuple[bool, ...], ...]:
    """A flag for each row of each task."""
    return tuple(_flags_of_rows(c, x) for c, x in asked.each(option.name))


def _flags_of_rows(c: Constraint, given: Any) -> tuple[bool, ...]:
    flags = real_array(False if given is None else given, flags=True)
    if flags is None or flags.shape not in ((), (c.size,)) or not np.isin(flags, (0.0, 1.0)).all():
        wanted = f"True, False or one of these for each of {c.size} row(s)"
        raise ConfigurationError(f"impedance of {c!r}", wanted, shown(given), "It is fixed when a kernel is compiled.")
    return tuple(np.broadcast_to(flags != 0.0, c.size).tolist())


def choice(asked: OptionContext, option: Option, value: Any) -> str:
    """One of the choices."""
    if not isinstance(value, str) or value not in option.choices:
        raise unknown_name(option.name, value, option.choices)
    return value


def control(asked: OptionContext, option: Option, value: Any) -> str:
    """The source of joint forces, which a robot has."""
    if (chosen := choice(asked, option, value)) == "actuators" and not asked.tree.nu:
        wanted = f"'tau' or 'pd', as {asked.tree.name!r} has no actuators"
        raise ConfigurationError(option.name, wanted, "'actuators'", "MJCF files have actuators.")
    return chosen


def v_target(asked: OptionContext, option: Option, value: Any) -> bool:
    """True with PD control only."""
    if (is_asked := flag(asked, option, value)) and asked.given.get("control") != "pd":
        advice = "Leave it out, or pass control='pd'."
        raise ConfigurationError(option.name, "none without control='pd'", "some", advice)
    return is_asked


def impacts(asked: OptionContext, option: Option, value: Any) -> bool:
    """True without soft constraints only."""
    if (is_asked := flag(asked, option, value)) and any(x is not None for _, x in asked.each("compliance")):
        raise ConstraintError("compliance", "None with impacts", "some", "Soft constraints take no impulses.")
    return is_asked


# -- constraints, frames, joints -------------------------------------------------------------------------------------


def one_each(argument: str, given: Any, n: int, alike: bool = True) -> list[Any]:
    """An entry for each of n constraints: those of a list, None, or if they may be ``alike`` the same for all."""
    is_list = isinstance(given, list | tuple)
    if given is None or (alike and not is_list):
        return [given] * n
    if not is_list or len(given) != n:
        wanted = f"a list with one entry for each of {n} constraint(s)"
        raise ConstraintError(argument, wanted, f"{len(given)}" if is_list else shown(given), "None stands for none.")
    return list(given)


def stabilisation(asked: OptionContext, option: Option, value: Any) -> tuple[tuple[float, float] | None, ...]:
    """Gains of velocity and position errors of each constraint."""
    return asked.padded([None if x is None else _gains(c, x) for c, x in asked.each(option.name)])


def _gains(c: Constraint, given: Any) -> tuple[float, float]:
    velocity, position = (given if isinstance(given, Baumgarte) else Baumgarte(given)).gains
    return velocity, position if c.has_position_error else 0.0


def is_frame(value: object) -> bool:
    """Whether it names one frame, not several."""
    return isinstance(value, str | Frame)


def frames(asked: OptionContext, option: Option, value: Any) -> tuple[Frame, ...] | None:
    """Frames on links of the tree, one or several; None is all."""
    if value is None and option.default is None:
        return None
    if option.name == "frames" and is_frame(value):
        value = [value]
    if not isinstance(value, list | tuple):
        advice = f"Pass {option.name}=['hand']."
        raise ConfigurationError(option.name, "a list of link names or Frames", shown(value), advice)
    found = tuple(x if isinstance(x, Frame) else Frame(x) for x in value)
    for frame in found:
        frame.on(asked.tree)  # refuses unknown links and placements that come with each call
    return found


def sensors(asked: OptionContext, option: Option, value: Any) -> tuple[Sensor, ...]:
    """Sensors of the tree by name, or others; none of what measures nothing."""
    return check_sensors(asked.tree, value) if option.name in asked.taken else ()


def joints(asked: OptionContext, option: Option, value: Any) -> tuple[str, ...] | None:
    """Names of joints, each once; the default if there are none."""
    if value is None:
        return option.default  # type: ignore[no-any-return]
    tree = asked.tree
    names = tuple(check_list(option.name, value, "names of joints", f"Pass {option.name}=['motor']."))
    for name in names:
        tree.v_index(name)  # refuses unknown ones
    return tuple(dict.fromkeys(tree.aliases.get(name, name) for name in names))


def motors(asked: OptionContext, option: Option, value: Any) -> tuple[str, ...] | None:
    """Names of joints with motors, "actuated" those with actuators, which all are of a controller."""
    tree = asked.tree
    if value is None and asked.tasks is not None:
        value = "actuated"
    if not isinstance(value, str) or value != "actuated":
        return joints(asked, option, value)
    return tuple(name for name in tree.joint_names if tree.actuated[:, tree.v_index(name)].any())


def closing_loops(asked: OptionContext, option: Option, value: Any) -> tuple[Constraint, ...] | None:
    """Constraints that need no arguments, by rows that only joints between their links move; None if not given."""
    return None if value is None else tuple(c.as_loop for c in rows_of_output(asked, option, value))


def rows_of_output(asked: OptionContext, option: Option, value: Any) -> tuple[Constraint, ...]:
    """Constraints that need no arguments."""
    rows = () if value is None else check_constraints(asked.tree, value)
    for given in inputs_of(rows):
        raise ConstraintError(option.name, "rows that no call gives", given.owner or given.name, "Give numbers here.")
    return rows


def split_springs(
    tree: Tree, constraints: Sequence[Constraint], quantity: Quantity, options: Mapping[str, Any]
) -> tuple[tuple[Constraint, ...], tuple[AnySpring, ...]]:
    """Constraints of a quantity, and springs that are forces there.

    Springs of the robot's file act, given or not, where springs and damping of joints do, and nowhere else: quantities
    that ask for rows or positions alone leave them out.

    Raises
    ------
    ConstraintError
        A spring of a quantity that has none of their forces, given or of the robot's file.
    """
    if quantity.springs == "rows":
        return tuple(constraints), ()
    held = tuple(c for c in constraints if c.holds)
    own = {c.fingerprint: c for c in springs_among(tree.constraints).values()}
    passive = options.get("passive", "model")
    of_forces = "passive" in quantity.options and isinstance(passive, str) and passive == "model"
    acting = [c for c in springs_among(constraints).values() if c.fingerprint not in own]
    acting += own.values() if of_forces else []
    if quantity.springs:
        return held, tuple(c for c in acting if any(k or d for k, d, _ in c.springs(tree)))
    if acting:
        advice = "Springs act in dynamics, inverse dynamics, steps, their derivatives, potential energies and scenes."
        raise ConstraintError("constraints", f"constraints that hold, of {quantity.name!r}", repr(acting[0]), advice)
    return held, ()
