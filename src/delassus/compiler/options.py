"""Options of what is compiled: those that change the code, checked as the direct functions check them.

What is not asked for takes neither an argument nor an operation. What is asked for as an *input* is an argument of the
kernel, after the payloads, in the order of `Setting.arguments`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypedDict

from numpy.typing import ArrayLike

from delassus.algorithms.dynamics.evaluate import GRAVITY
from delassus.algorithms.dynamics.options import Compliance, Stabilisation, check_damping, check_goals, check_gravity
from delassus.algorithms.inputs import PLACEMENT, POSITION
from delassus.compiler.program import Argument
from delassus.constraints import Constraint, Frame, Rows
from delassus.errors import ConfigurationError, shown, unknown_name
from delassus.model.tree import Tree

Flags = bool | Sequence[bool]
INTEGRATORS = ("semi-implicit", "rk4")


class Options(TypedDict, total=False):
    """Keywords of `delassus.compile` that what is compiled may take; `delassus.compiler.tasks` says which takes which.

    Attributes
    ----------
    gravity : (3,) array_like or "input"
        In m/s², world axes; (0, 0, −9.81) if not given. ``"input"`` makes it the argument ``gravity``.
    damping : (nv,) array_like, "model", "input" or None
        Viscous coefficients; ``"model"`` takes the robot's own, ``"input"`` makes them the argument ``damping``.
    wrenches : sequence of str or Frame
        Links or frames on which an external wrench ``[force; moment]`` acts: the argument ``wrench{i}`` (6,) of the
        i-th, at the origin and in the axes of that frame.
    targets : bool or sequence of bool
        Whether the acceleration along the rows of all constraints, or of each, is an argument: ``target{i}`` (m_i,).
    baumgarte : Baumgarte, float or sequence of these or None
        Stabilisation of all constraints, or of each, as in `delassus.forward_dynamics`.
    poses : bool or sequence of bool
        Whether the place in the world that position errors are relative to is an argument: ``pose{i}`` (7,) or, of a
        point, (3,). ``True`` asks for those of all stabilised constraints to the world.
    compliance : float or sequence of float, (m_i,) array_like or None
        Makes all constraints soft, or each, as in `delassus.forward_dynamics`.
    active : bool
        Whether constraints can be switched off state by state: the argument ``active`` (n_constraints,) holds 1 for a
        constraint that acts and 0 for one that leaves no trace in the result and has no force.
    frames : str, Frame or sequence of these
        Whose poses "kinematics" computes; those of all links if not given.
    integrator : {"semi-implicit", "rk4"}
        Of "step".
    """

    gravity: ArrayLike | Literal["input"]
    damping: ArrayLike | Literal["model", "input"] | None
    wrenches: Sequence[str | Frame]
    targets: Flags
    baumgarte: Stabilisation
    poses: Flags
    compliance: Compliance
    active: bool
    frames: str | Frame | Sequence[str | Frame] | None
    integrator: Literal["semi-implicit", "rk4"]


MOTION: frozenset[str] = frozenset({"gravity", "damping", "wrenches"})
"""Options of everything that knows velocities."""

CONSTRAINED: frozenset[str] = MOTION | {"targets", "baumgarte", "poses", "compliance", "active"}
"""Options of constrained dynamics."""


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """Checked options.

    Attributes
    ----------
    gravity : tuple of three floats, or None
        None: an argument.
    damping : tuple of float, "input" or None
    wrenches : tuple of Frame
    targets, poses : tuple of bool
        For each constraint, whether it has that argument.
    gains : tuple of (float, float) or None
        For each constraint, those of velocity and position errors.
    compliance : tuple of tuple of float or None
        For each constraint, its rows' if it is soft.
    active : bool
    frames : tuple of Frame, or None
        None: all links.
    single_frame : bool
        Whether one frame was asked for, not a list.
    integrator : str
    """

    gravity: tuple[float, ...] | None = GRAVITY
    damping: tuple[float, ...] | Literal["input"] | None = None
    wrenches: tuple[Frame, ...] = ()
    targets: tuple[bool, ...] = ()
    poses: tuple[bool, ...] = ()
    gains: tuple[tuple[float, float] | None, ...] = ()
    compliance: tuple[tuple[float, ...] | None, ...] = ()
    active: bool = False
    frames: tuple[Frame, ...] | None = None
    single_frame: bool = False
    integrator: str = INTEGRATORS[0]

    def arguments(self, tree: Tree, constraints: Sequence[Constraint]) -> list[Argument]:
        """Arguments that the options ask for."""
        out = []
        if self.gravity is None:
            out.append(Argument("gravity", (3,), "gravity in m/s^2, world axes"))
        if self.damping == "input":
            out.append(Argument("damping", (tree.nv,), "viscous damping of each degree of freedom, N m s or N s/m"))
        for i, frame in enumerate(self.wrenches):
            meaning = f"wrench on {frame.link}, [force; moment] in N and N m, at and along its frame"
            out.append(Argument(wrench_name(i), (6,), meaning))
        for i, c in enumerate(constraints):
            if _flag(self.targets, i):
                out.append(
                    Argument(
                        target_name(i), (c.size,), f"acceleration of constraint {i} along its rows, m/s^2, rad/s^2"
                    )
                )
        for i, c in enumerate(constraints):
            if _flag(self.poses, i):
                size, layout = (7, PLACEMENT) if c.rigid else (3, POSITION)
                out.append(Argument(pose_name(i), (size,), f"goal of constraint {i} in the world: {layout}"))
        if self.active:
            meaning = "1 for each constraint that acts, 0 for one that is off"
            out.append(Argument("active", (len(constraints),), meaning))
        return out

    def soft(self, constraints: Sequence[Constraint]) -> list[bool]:
        """Whether each constraint is soft."""
        return [i < len(self.compliance) and self.compliance[i] is not None for i in range(len(constraints))]

    def has(self, what: Literal["targets", "poses"], constraint: int) -> bool:
        """Whether a constraint has that argument."""
        return _flag(getattr(self, what), constraint)

    def describe(self) -> str:
        """Unambiguous text, for keys of caches."""
        return repr([(f.name, _described(getattr(self, f.name))) for f in fields(self)])


def wrench_name(index: int) -> str:
    """Name of the argument of a wrench."""
    return f"wrench{index}"


def target_name(constraint: int) -> str:
    """Name of the argument of a constraint's target."""
    return f"target{constraint}"


def pose_name(constraint: int) -> str:
    """Name of the argument of a constraint's goal in the world."""
    return f"pose{constraint}"


def describe_frame(frame: Frame) -> tuple[object, ...]:
    """Unambiguous content of a frame."""
    return frame.link, frame.position.tolist(), frame.rotation.tolist(), frame.given


def check_options(
    tree: Tree, constraints: Sequence[Constraint], what: str, taken: frozenset[str], options: Options
) -> Setting:
    """Check options by name and content; ``taken``: those that make sense here.

    Raises
    ------
    ConfigurationError, ConstraintError, UnknownNameError
        An option that does not exist, that makes no sense here, or whose content is wrong.
    """
    for name in options:
        if name not in Options.__annotations__:
            raise unknown_name("option", name, Options.__annotations__)
        if name not in taken:
            known = ", ".join(sorted(taken)) or "no options"
            raise ConfigurationError(name, f"{known} with {what!r}", "this one", "Leave it out.")
    asked: dict[str, Any] = dict(options)
    given, damped = asked.get("gravity", GRAVITY), asked.get("damping")
    gravity = None if isinstance(given, str) and given == "input" else _numbers(check_gravity(given)[..., 0], "gravity")
    if isinstance(damped, str) and damped == "input":
        damping: Any = "input"
    else:
        coefficients = check_damping(tree, damped)
        damping = None if coefficients is None else _numbers(coefficients, "damping")
    goals = check_goals(constraints, None, asked.get("baumgarte"), None, asked.get("compliance"))
    gains = tuple(
        None if g.velocity_gain is None else (float(g.velocity_gain), float(g.position_gain or 0.0)) for g in goals
    )
    placed = [
        c.second is None and not isinstance(c, Rows) and g is not None for c, g in zip(constraints, gains, strict=True)
    ]
    poses = _flags("poses", asked.get("poses", False), placed)
    frames, single = asked.get("frames"), isinstance(asked.get("frames"), str | Frame)
    integrator = asked.get("integrator", INTEGRATORS[0])
    if integrator not in INTEGRATORS:
        raise unknown_name("integrator", integrator, INTEGRATORS)
    return Setting(
        gravity=gravity,
        damping=damping,
        wrenches=_frames(tree, "wrenches", asked.get("wrenches", ())),
        targets=_flags("targets", asked.get("targets", False), [True] * len(constraints)),
        poses=poses,
        gains=gains,
        compliance=tuple(None if g.compliance is None else _numbers(g.compliance[..., 0], "compliance") for g in goals),
        active=_boolean("active", asked.get("active", False)),
        frames=None if frames is None else _frames(tree, "frames", (frames,) if single else frames),
        single_frame=single,
        integrator=integrator,
    )


def _numbers(array: Any, argument: str) -> tuple[float, ...]:
    if array.ndim != 1:
        raise ConfigurationError(argument, "one vector", f"shape {array.shape}", f"Pass {argument}='input' for more.")
    return tuple(float(x) for x in array)


def _boolean(argument: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(argument, "True or False", shown(value), "Its values come with each call.")
    return value


def _flags(argument: str, value: Any, possible: Sequence[bool]) -> tuple[bool, ...]:
    """One flag a constraint; ``True`` means all that are ``possible``."""
    if isinstance(value, bool):
        return tuple(value and p for p in possible)
    if not isinstance(value, list | tuple) or len(value) != len(possible):
        raise ConfigurationError(
            argument,
            f"True, False or one of these for each of {len(possible)} constraint(s)",
            shown(value),
            "Pass True.",
        )
    flags = tuple(_boolean(f"{argument}[{i}]", x) for i, x in enumerate(value))
    for i, (flag, fits) in enumerate(zip(flags, possible, strict=True)):
        if flag and not fits:
            raise ConfigurationError(
                f"{argument}[{i}]", "False for a constraint that cannot have it", "True", "See `baumgarte` and `poses`."
            )
    return flags


def _frames(tree: Tree, argument: str, value: Any) -> tuple[Frame, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigurationError(argument, "a list of link names or Frames", shown(value), f"Pass {argument}=['hand'].")
    frames = tuple(x if isinstance(x, Frame) else Frame(x) for x in value)
    for frame in frames:
        frame.on(tree)  # refuses unknown links and placements that come with each call
    return frames


def _flag(flags: Sequence[bool], index: int) -> bool:
    return index < len(flags) and flags[index]


def _described(value: Any) -> object:
    if isinstance(value, Frame):
        return describe_frame(value)
    return [_described(x) for x in value] if isinstance(value, tuple) else value
