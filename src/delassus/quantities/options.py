"""Options of what is computed: numbers that are built in, and further arguments.

What is not asked for takes neither an argument nor an operation. In a direct call every array is an argument; in a
kernel it is one if it is asked for as ``"input"``. Arguments of options come after those of constraints and payloads,
in the order of `Options.arguments`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np

from delassus.algorithms.contact.law import TUNING as STEP
from delassus.algorithms.contact.solvers import SOLVERS
from delassus.algorithms.dynamics.integrate import INTEGRATE
from delassus.algorithms.inputs import inputs_of
from delassus.algorithms.kinematics import REFERENCES
from delassus.constraints import PLACEMENT, POSITION, Argument, Constraint, Frame, check_constraints
from delassus.constraints.sensors import Sensor, check_sensors
from delassus.errors import ConfigurationError, ConstraintError, shown, unknown_name
from delassus.model.check import check_flag, check_list, check_number, check_whole, finite_array
from delassus.model.tree import Tree
from delassus.quantities.checks import WEIGHTS, check_damping, check_positive, one_each
from delassus.quantities.gains import Baumgarte, Tasks
from delassus.quantities.keywords import Keywords, Motion, Passive
from delassus.quantities.quantity import CONTROLS

SWEEPS, TOLERANCE, PENETRATION = 30, 1e-4, STEP.penetration
"""Most sweeps of a contact step, its tolerance (m/s), and the overlap (m) that it leaves alone."""

MOST_SWEEPS, FASTEST = 10**9, 1e30
"""The most that each of them may be: counters are of 32 bits, and squares of the other are numbers in float64."""

MOTION: frozenset[str] = frozenset(Motion.__annotations__)
"""Options of everything that depends on velocities."""

CONTROLLED = frozenset({"control", "v_target"})
"""Options of everything that joint forces act on."""

CONSTRAINED: frozenset[str] = MOTION | {"targets", "baumgarte", "poses", "compliance", "active"}
"""Options of constrained dynamics."""

CHOICES = {
    "passive": get_args(Passive),
    "control": tuple(CONTROLS),
    "reference": tuple(REFERENCES),
    "integrator": tuple(INTEGRATE),
    "solver": tuple(SOLVERS),
}
"""Options that are one of these names, the first if not given."""


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """Checked `Keywords`: of constraints one entry each, of damping and compliance None if there is none.

    ``passive`` says whether springs, dry friction and gravity compensation of the description act. ``gains`` are those
    of velocity and position errors, and ``single_frame`` says that ``frames`` was not a list. Restitution is that of
    contacts, or if it is ``of_constraints`` of these. Constraints of a controller are its ``tasks``, then its contacts.
    """

    gravity: tuple[float, ...] | Literal["input"]
    passive: bool
    damping: tuple[float, ...] | Literal["input"] | None
    control: str
    v_target: bool
    wrenches: tuple[Frame, ...]
    targets: tuple[bool, ...]
    poses: tuple[bool, ...]
    gains: tuple[tuple[float, float] | None, ...]
    compliance: tuple[tuple[float, ...] | Literal["input"] | None, ...]
    active: bool
    impacts: bool
    frames: tuple[Frame, ...] | None
    sensors: tuple[Sensor, ...]
    single_frame: bool
    reference: str
    independent: tuple[str, ...] | None
    output: tuple[Constraint, ...]
    hold: tuple[str, ...]
    motors: tuple[str, ...] | None
    weights: tuple[float, ...] | Literal["input"] | None
    integrator: str
    solver: str
    friction: float | Literal["input"] | None
    restitution: float | Literal["input"] | None
    of_constraints: bool
    smoothing: float | Literal["input"] | None
    limits: bool
    sweeps: int
    tolerance: float
    penetration: float
    tasks: Tasks | None = None

    @property
    def soft(self) -> list[bool]:
        """Whether each constraint is soft."""
        return [compliance is not None for compliance in self.compliance]

    def arguments(self, tree: Tree, constraints: Sequence[Constraint]) -> list[Argument]:
        """Arguments that the options ask for."""
        out, acting = [], constraints[self.tasks.n :] if self.tasks else constraints
        if self.gravity == "input":
            out.append(Argument("gravity", (3,), "gravity in m/s^2, world axes"))
        if self.damping == "input":
            out.append(Argument("damping", (tree.nv,), "viscous damping of each degree of freedom, N m s or N s/m"))
        if self.v_target:
            out.append(Argument("v_target", (tree.nv,), "velocity that joints are damped towards, rad/s and m/s"))
        for i, frame in enumerate(self.wrenches):
            meaning = f"wrench on {frame.link}, [force; moment] in N and N m, at and along its frame"
            out.append(Argument(f"wrench{i}", (6,), meaning, "wrenches", f"wrench on {frame.link!r}"))
        for i, c in enumerate(constraints):
            if self.targets[i]:
                meaning = (
                    f"acceleration of constraint {i} along its rows, m/s^2, rad/s^2; of an impulse velocity, m/s, rad/s"
                )
                out.append(Argument(f"target{i}", (c.size,), meaning, "targets", f"target of {c!r}"))
        for i, c in enumerate(constraints):
            if self.poses[i]:
                size, layout = c.pose_size, PLACEMENT if c.pose_size == 7 else POSITION
                meaning = f"goal of constraint {i} in the world: {layout}"
                out.append(Argument(f"pose{i}", (size,), meaning, "poses", f"pose of {c!r}"))
        for i, c in enumerate(constraints):
            if self.compliance[i] == "input":
                meaning = f"compliance of constraint {i} along its rows, (m/s^2)/N, (rad/s^2)/(N m)"
                out.append(Argument(f"compliance{i}", (c.size,), meaning, "compliance", f"compliance of {c!r}"))
        if self.weights == "input":
            meaning = "weights of the squares of joint forces, then of those of constraints"
            out.append(Argument("weights", (tree.nv + sum(c.size for c in acting),), meaning))
        n = len(acting) if self.of_constraints else sum(c.n_points > 0 for c in constraints)
        what = "constraint" if self.of_constraints else "contact"
        for name in ("friction", "restitution"):
            if getattr(self, name) == "input":
                out.append(Argument(name, (n,), f"coefficient of {name} of each {what}"))
        if self.smoothing == "input":
            out.append(Argument("smoothing", (), "changes of velocities that derivatives are means over, m/s, rad/s"))
        if self.active:
            meaning = "1 for each constraint that acts, 0 for one that is off"
            out.append(Argument("active", (len(constraints),), meaning, flags=True))
        if self.impacts:
            meaning = "1 for each constraint whose rows come to rest by impulses before the step, else 0"
            out.append(Argument("impacts", (len(constraints),), meaning, flags=True))
        return out + (self.tasks.arguments(tree, constraints) if self.tasks else [])

    def describe(self) -> str:
        """Unambiguous text, for keys of caches."""
        return repr([(f.name, _described(getattr(self, f.name))) for f in fields(self)])

    def differing(self, other: Options) -> list[str]:
        """Names of those that are not alike."""
        mine, theirs = ({f.name: repr(_described(getattr(x, f.name))) for f in fields(x)} for x in (self, other))
        return [name for name, text in mine.items() if text != theirs[name]]


def check_options(
    tree: Tree,
    constraints: Sequence[Constraint],
    what: str,
    taken: frozenset[str],
    options: Mapping[str, Any],
    contacts: Sequence[Constraint] = (),
) -> Options:
    """Check options by name and content; ``taken``: those that the quantity ``what`` has.

    ``contacts`` are those of a controller, whose other constraints are tasks.
    """
    for name in options:
        if name not in Keywords.__annotations__:
            raise unknown_name("option", name, Keywords.__annotations__)
        if name not in taken:
            known = ", ".join(sorted(taken)) or "no options"
            raise ConfigurationError(name, f"{known} with {what!r}", "this one", "Leave it out.")
    tasks = Tasks.checked(tree, constraints, options) if "posture" in taken else None
    n, frames, others = len(constraints), options.get("frames"), (None,) * len(contacts)
    gains = [_gains(c, b) for c, b in zip(constraints, one_each("baumgarte", options.get("baumgarte"), n), strict=True)]
    stable = [c.pose_size > 0 and (tasks or g) is not None for c, g in zip(constraints, gains, strict=True)]
    soft = one_each("compliance", options.get("compliance"), n)
    chosen: dict[str, Any] = {name: options.get(name, choices[0]) for name, choices in CHOICES.items()}
    for name, value in chosen.items():
        if not isinstance(value, str) or value not in CHOICES[name]:
            raise unknown_name(name, value, CHOICES[name])
    chosen["passive"], control = chosen["passive"] == "model", chosen["control"]
    if control == "actuators" and not tree.nu:
        raise ConfigurationError(
            "control", f"'tau' or 'pd', as {tree.name!r} has no actuators", "'actuators'", "MJCF files have actuators."
        )
    v_target = check_flag("v_target", options.get("v_target", False), "Its values come with each call.")
    if v_target and control != "pd":
        raise ConfigurationError("v_target", "none without control='pd'", "some", "Leave it out, or pass control='pd'.")
    impacts = check_flag("impacts", options.get("impacts", False), "Its values come with each call.")
    if impacts and any(x is not None for x in soft):
        raise ConstraintError("compliance", "None with impacts", "some", "Soft constraints take no impulses.")
    return Options(
        gravity=_numbers(options.get("gravity", tree.gravity), 3, "gravity", "m/s² along the axes of the world"),
        damping=_damping(tree, options.get("damping", tree.per_dof("damping") * chosen["passive"])),
        v_target=v_target,
        wrenches=_frames(tree, "wrenches", options.get("wrenches", ())),
        targets=_flags("targets", options.get("targets", False), [True] * n) + (False,) * len(others),
        poses=_flags("poses", options.get("poses", False), stable) + (False,) * len(others),
        gains=(*gains, *others),
        compliance=(*(_compliance(c, given) for c, given in zip(constraints, soft, strict=True)), *others),
        active=check_flag("active", options.get("active", False), "Its values come with each call."),
        impacts=impacts,
        frames=None if frames is None else _frames(tree, "frames", [frames] if is_frame(frames) else frames),
        single_frame=is_frame(frames),
        sensors=check_sensors(tree, options.get("sensors")) if "sensors" in taken else (),
        independent=_joints(tree, "independent", options.get("independent")),
        output=_output(tree, options.get("output")),
        hold=_joints(tree, "hold", options.get("hold")) or (),
        motors=_motors(tree, "actuated" if tasks and options.get("motors") is None else options.get("motors")),
        weights=_weights(tree.nv + sum(c.size for c in (contacts if tasks else constraints)), options.get("weights")),
        friction=_coefficient("friction", options.get("friction"), None),
        restitution=_coefficient("restitution", options.get("restitution"), 1.0),
        of_constraints="solver" not in taken,
        smoothing=_coefficient("smoothing", options.get("smoothing"), None, "it") or None,
        limits=check_flag("limits", options.get("limits", True), "They are those of the description."),
        sweeps=check_whole("sweeps", options.get("sweeps", SWEEPS), "Try 30.", least=1, most=MOST_SWEEPS),
        tolerance=check_number("tolerance", options.get("tolerance", TOLERANCE), "In m/s, such as 1e-4.", most=FASTEST),
        penetration=check_number("penetration", options.get("penetration", PENETRATION), "In m.", above=False),
        tasks=tasks,
        **chosen,
    )


def is_frame(value: object) -> bool:
    """Whether it names one frame, not several."""
    return isinstance(value, str | Frame)


def _coefficient(name: str, given: Any, most: float | None, what: str = "one number for each contact") -> Any:
    if given is None or (isinstance(given, str) and given == "input"):
        return given
    return check_number(name, given, f"Or 'input': {what} comes with each call.", above=False,
                        **({} if most is None else {"most": most}))  # fmt: skip


def _damping(tree: Tree, damping: Any) -> Any:
    if isinstance(damping, str) and damping == "input":
        return damping
    if damping is None or isinstance(damping, str):
        advice = "Leave it out for that of the robot's description; passive='none' is without."
        raise ConfigurationError("damping", "numbers or 'input'", shown(damping), advice)
    array = check_damping(tree, damping)
    return _numbers(array, tree.nv, "damping", "N·m·s or N·s/m") if np.any(array) else None


def _compliance(c: Constraint, given: Any) -> Any:
    if given is None:
        return None
    if isinstance(given, str) and given == "input":
        return "input"
    return _numbers(check_positive(given, c.size, f"compliance of {c!r}"), c.size, "compliance", "(m/s²)/N")


def _gains(c: Constraint, given: Any) -> tuple[float, float] | None:
    if given is None:
        return None
    velocity, position = (given if isinstance(given, Baumgarte) else Baumgarte(given)).gains
    return velocity, position if c.has_position_error else 0.0


def _numbers(value: Any, size: int, argument: str, layout: str) -> Any:
    if isinstance(value, str) and value == "input":
        return value
    array = finite_array(value, (..., size), argument, f"Pass {layout}.")
    if array.ndim != 1:
        raise ConfigurationError(argument, "one vector", f"shape {array.shape}", f"Pass {argument}='input' for more.")
    return tuple(array.tolist())


def _flags(argument: str, value: Any, possible: Sequence[bool]) -> tuple[bool, ...]:
    """One flag a constraint; ``True`` means all that are ``possible``."""
    if isinstance(value, bool):
        return tuple(value and p for p in possible)
    if not isinstance(value, list | tuple) or len(value) != len(possible):
        wanted = f"True, False or one of these for each of {len(possible)} constraint(s)"
        raise ConfigurationError(argument, wanted, shown(value), "Pass True.")
    flags = tuple(check_flag(f"{argument}[{i}]", x, "Its values come with each call.") for i, x in enumerate(value))
    for i, (flag, fits) in enumerate(zip(flags, possible, strict=True)):
        if flag and not fits:
            raise ConfigurationError(
                f"{argument}[{i}]", "False for a constraint that cannot have it", "True", "See `baumgarte` and `poses`."
            )
    return flags


def _joints(tree: Tree, argument: str, value: Any) -> tuple[str, ...] | None:
    """Names of joints, each once; None if there are none."""
    if value is None:
        return None
    names = tuple(check_list(argument, value, "names of joints", f"Pass {argument}=['motor']."))
    for name in names:
        tree.v_index(name)  # refuses unknown ones
    return tuple(dict.fromkeys(tree.aliases.get(name, name) for name in names))


def _output(tree: Tree, value: Any) -> tuple[Constraint, ...]:
    rows = () if value is None else check_constraints(tree, value)
    for given in inputs_of(rows):
        raise ConstraintError("output", "rows that no call gives", given.owner or given.name, "Give numbers here.")
    return rows


def _motors(tree: Tree, value: Any) -> tuple[str, ...] | None:
    if not isinstance(value, str) or value != "actuated":
        return _joints(tree, "motors", value)
    return tuple(name for name in tree.joint_names if tree.actuated[:, tree.v_index(name)].any())


def _weights(size: int, value: Any) -> Any:
    if value is None or (isinstance(value, str) and value == "input"):
        return value
    return _numbers(check_positive(value, size, "weights", WEIGHTS), size, "weights", WEIGHTS[0])


def _frames(tree: Tree, argument: str, value: Any) -> tuple[Frame, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigurationError(argument, "a list of link names or Frames", shown(value), f"Pass {argument}=['hand'].")
    frames = tuple(x if isinstance(x, Frame) else Frame(x) for x in value)
    for frame in frames:
        frame.on(tree)  # refuses unknown links and placements that come with each call
    return frames


def _described(value: Any) -> object:
    if isinstance(value, Frame | Constraint | Sensor):
        return value.fingerprint
    return [_described(x) for x in value] if isinstance(value, tuple) else value
