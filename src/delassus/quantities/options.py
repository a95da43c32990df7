"""Options of what is computed: one table, of the fields of `Options`.

What is not asked for takes neither an argument nor an operation. In a direct call every array is an argument; in a
kernel it is one if it is asked for. Arguments of options come after those of constraints and payloads, in the order of
the table. Checks, direct calls, docstrings and keys of caches follow it; `delassus.quantities.keywords` has its types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import sqrt
from typing import Any, Literal, get_args

from delassus.algorithms.contact.law import PENETRATION
from delassus.algorithms.contact.solvers import SOLVERS
from delassus.algorithms.dynamics.integrate import INTEGRATE
from delassus.algorithms.kinematics import REFERENCES
from delassus.constraints import Argument, Constraint, Frame
from delassus.constraints.sensors import Sensor
from delassus.constraints.spring import AnySpring
from delassus.errors import ConfigurationError, unknown_name
from delassus.model.check import check_flag, check_number, check_whole
from delassus.model.tree import Tree
from delassus.quantities import checks
from delassus.quantities.checks import COMPLIANCE, GAINS, WEIGHTS, Option, OptionContext, positive
from delassus.quantities.keywords import Passive, Surroundings
from delassus.quantities.quantity import CONTROLS

MOST_SWEEPS = 10**9
"""Most iterations: counters are of 32 bits."""

FASTEST = 1e30
"""Largest speed (m/s): its square is a number in float64."""

MOTION: frozenset[str] = frozenset(Surroundings.__annotations__)
"""Options of everything that depends on velocities."""

CONTROLLED = frozenset({"control", "v_target"})
"""Options of everything that joint forces act on."""

CONSTRAINED: frozenset[str] = MOTION | {"targets", "baumgarte", "poses", "compliance", "active"}
"""Options of constrained dynamics."""

Coefficient = float | Literal["input"] | None
Numbers = tuple[float, ...] | Literal["input"]


def _option(check: Any, kind: str, text: str, default: Any = None, **more: Any) -> Any:
    """A field of `Options`, and what is known of it."""
    return field(metadata={"option": Option(check, kind, " ".join(text.split()), default, **more)})


def _choice(choices: Sequence[str], text: str, check: Any = checks.choice) -> Any:
    names = ", ".join(f'"{name}"' for name in choices)
    return _option(check, f"{{{names}}}", text, choices[0], choices=tuple(choices))


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """Checked options: of constraints one entry each, of damping and compliance None if there is none.

    ``passive`` says whether springs, dry friction and gravity compensation of the description act, ``baumgarte`` holds
    gains of velocity and position errors, and ``single_frame`` says that ``frames`` was not a list. Restitution is that
    of contacts, or if it is ``of_constraints`` of these. Constraints of a controller are ``tasks``, so many, then its
    contacts. ``springs`` are those whose forces are known. Others, implicit in a step, are the last constraints, with
    ``()`` for their compliance.
    """

    # fmt: off
    gravity: Numbers = _option(
        checks.numbers, "(3,) array_like",
        "Gravity in m/s² along the axes of the world; that of the robot if not given.",
        lambda asked: asked.tree.gravity, argument="gravity", shape=(3,), meaning="gravity in m/s^2, world axes",
    )
    passive: bool = _choice(
        get_args(Passive), "Whether damping, springs, dry friction and gravity compensation of the robot act.",
        lambda asked, option, value: checks.choice(asked, option, value) == "model",
    )
    damping: Numbers | None = _option(
        checks.numbers_or_none, "(nv,) array_like",
        'Viscous damping of each degree of freedom in N·m·s or N·s/m. If not given that of the robot, with '
        '``passive="none"`` none.',
        lambda asked: asked.tree.per_dof("damping") * (asked.given.get("passive") != "none"), argument="damping",
        shape=("nv",), meaning="viscous damping of each degree of freedom, N m s or N s/m", values=checks.check_damping,
    )
    control: str = _choice(
        tuple(CONTROLS),
        'What stands in the place of ``tau``: ``"actuators"`` makes it ``ctrl`` (nu,), ``"pd"`` makes it ``q_target`` '
        '(nq,), ``kp`` and ``kd`` (nv,).', checks.control,
    )
    v_target: bool = _option(
        checks.v_target, "bool", 'Velocities that ``control="pd"`` damps towards, zero if not given.', False,
        argument="v_target", shape=("nv",), meaning="velocity that joints are damped towards, rad/s and m/s",
    )
    wrenches: tuple[Frame, ...] = _option(
        checks.frames, "sequence of str or Frame", "Links or frames on which an external wrench acts.", (),
        argument="wrench{i}", shape=(6,),
        meaning="wrench on {link}, [force; moment] in N and N m, at and along its frame",
    )
    targets: tuple[bool, ...] = _option(
        checks.flags_of_each, "bool or sequence of bool",
        "Acceleration along the rows of all constraints, or of each; zero if not given.", False, argument="target{i}",
        shape=("rows",),
        meaning="acceleration of constraint {i} along its rows, m/s^2, rad/s^2; of an impulse velocity, m/s, rad/s",
    )
    baumgarte: tuple[tuple[float, float] | None, ...] = _option(
        checks.stabilisation, "Baumgarte, float, None or sequence of these",
        "How errors of all constraints, or of each, die out; a number is a frequency in 1/s. None: they stay.",
    )
    poses: tuple[bool, ...] = _option(
        checks.flags_of_each, "bool or sequence of bool",
        "Place in the world that position errors are relative to, of all stabilised constraints to the world or of "
        "each.", False, argument="pose{i}", shape=("pose",), meaning="goal of constraint {i} in the world: {layout}",
    )
    compliance: tuple[Numbers | None, ...] = _option(
        checks.numbers_of_each, "None, float, sequence of float or (m_i,) array_like",
        "How much the rows of all constraints, or of each, yield, in (m/s²)/N and (rad/s²)/(N·m). None: not at all.",
        argument="compliance{i}", shape=("rows",),
        meaning="compliance of constraint {i} along its rows, (m/s^2)/N, (rad/s^2)/(N m)", values=positive(COMPLIANCE),
    )
    weights: Numbers | None = _option(
        checks.numbers, "(nv + m,) array_like",
        'Weights of squares of joint forces and of constraint forces in "inverse_dynamics"; ones if not given. In '
        '"control" those of contacts.', argument="weights", shape=("forces",),
        meaning="weights of the squares of joint forces, then of those of constraints", values=positive(WEIGHTS),
    )
    friction: Coefficient = _option(
        checks.coefficient(), "float",
        'Coefficient of friction of all contacts of "contact_step", in place of their own; as an argument one for '
        'each `Contact`. In "inverse_dynamics" that of constraints, in "control" of its contacts.', argument="friction",
        shape=("acting",), meaning="coefficient of friction of each {whose}",
    )
    restitution: Coefficient = _option(
        checks.coefficient(1.0), "float",
        'Coefficient of restitution of all contacts of "contact_step", in place of their own; in "impulse" that of '
        'constraints, 0 if not given.', argument="restitution", shape=("acting",),
        meaning="coefficient of restitution of each {whose}",
    )
    smoothing: Coefficient = _option(
        checks.smoothing, "float",
        'Of "contact_step_derivatives" and of derivatives of "contact_step", which stays as it is: means over changes '
        'of velocities of contacts and joints by up to so many m/s (rad/s), in which those take part that are about '
        'to touch, slide or part; 0 if not given, derivatives of the step as it is. The derivative with it is zero.',
        argument="smoothing", meaning="changes of velocities that derivatives are means over, m/s, rad/s",
    )
    active: bool = _option(
        checks.flag, "bool",
        "Which constraints act, state by state: 1 for one that does, 0 for one that leaves no trace in the result and "
        "has no force.", False, argument="active", shape=("constraints",),
        meaning="1 for each constraint that acts, 0 for one that is off", flags=True,
    )
    impacts: bool = _option(
        checks.impacts, "bool",
        "Which impacts steps begin with: 1 for a constraint whose rows come to rest by impulses first, as of a foot "
        "that has just touched down, 0 for one whose rows keep their velocities. All that act take impulses.", False,
        argument="impacts", shape=("constraints",),
        meaning="1 for each constraint whose rows come to rest by impulses before the step, else 0", flags=True,
    )
    contacts: None = _option(
        lambda asked, option, value: None, "Constraint or sequence of Constraint",
        'What holds the robot of "control" while it does its tasks, such as feet on the ground.',
    )
    kp: tuple[Numbers | None, ...] | None = _option(
        checks.of_tasks(checks.numbers_of_each), "float, (m_i,) array_like or a sequence of these",
        'Gains of all tasks of "control", or of each, along their rows; 100/s² if not given.', 100.0, argument="kp{i}",
        shape=("rows",), meaning="gain of task {i} along its rows, 1/s^2 or N/m", values=positive(GAINS, above=False),
    )
    kd: tuple[Numbers | None, ...] | None = _option(
        checks.of_tasks(checks.numbers_of_each), "float, (m_i,) array_like or a sequence of these",
        "The same of velocities; 20/s if not given.", 20.0, argument="kd{i}", shape=("rows",),
        meaning="gain of task {i} along its rows, 1/s or N s/m", values=positive(GAINS, above=False),
    )
    impedance: tuple[tuple[bool, ...], ...] | None = _option(
        checks.of_tasks(checks.impedance), "True, False, or a sequence of these or of (m_i,) array_like",
        'Whether gains and targets of the rows of all tasks of "control", or of each, are of forces.', False,
    )
    posture: bool = _option(
        checks.flag, "bool", 'Configuration that joints are drawn to in "control".', False, argument="posture",
        shape=("nq",), meaning="configuration that joints are drawn to, in the layout of q",
    )
    posture_kp: Numbers | None = _option(
        checks.of_tasks(checks.numbers), "float or (nv,) array_like", "Gains of that; 10/s² if not given.", 10.0,
        argument="posture_kp", shape=("nv",), meaning="gain of the posture, 1/s^2", values=positive(GAINS, above=False),
    )
    posture_kd: Numbers | None = _option(
        checks.of_tasks(checks.numbers), "float or (nv,) array_like", "The same of velocities; 6.3/s if not given.",
        2.0 * sqrt(10.0), argument="posture_kd", shape=("nv",), meaning="gain of the posture, 1/s",
        values=positive(GAINS, above=False),
    )
    limits: bool = _option(
        lambda asked, option, value: check_flag(option.name, value, "They are those of the description."),
        "True or False",
        'Whether joints stay within limits in "contact_step", and joint forces in "control"; True if not given.', True,
    )
    motors: tuple[str, ...] | None = _option(
        checks.motors, 'sequence of str or "actuated"',
        'Joints that motors drive in "inverse_dynamics", which then takes constraints into account; see there.',
    )
    frames: tuple[Frame, ...] | None = _option(
        checks.frames, "str, Frame or sequence of these",
        "Whose poses, twists, accelerations or Jacobians are computed; those of all links if not given.",
    )
    reference: str = _choice(
        tuple(REFERENCES), "Where motions of frames are measured, and along which axes. See `delassus.frame_velocity`.",
    )
    sensors: tuple[Sensor, ...] = _option(
        checks.sensors, "str, Sensor or sequence of these",
        'What "sensors" measures, in this order: sensors of the tree by name, or others; ``tree.sensors`` if not '
        'given. Of contact steps, with ``outputs=(…, "sensors")``.',
    )
    independent: tuple[str, ...] | None = _option(
        checks.joints, "sequence of str",
        'Names of joints whose velocities determine all others in "reduced_dynamics"; those of ``tree.independent`` '
        'if not given, with the constraints that are.',
    )
    output: tuple[Constraint, ...] = _option(
        checks.rows_of_output, "Constraint or sequence of Constraint",
        'Rows that the mechanism of "reduced_dynamics" is to move: where they move in fewer directions than '
        'elsewhere, the singularity is that of the output.',
    )
    loops: tuple[Constraint, ...] | None = _option(
        checks.closing_loops, "Constraint or sequence of Constraint",
        'What closes the loops of the robot of "delassus", by method "cluster-efpa": the matrix is that of the closed '
        'mechanism, at configurations at which they hold. None if not given.',
    )
    hold: tuple[str, ...] = _option(
        checks.joints, "sequence of str", 'Names of joints whose coordinates stay where they are in "close_loops".', (),
    )
    integrator: str = _choice(
        tuple(INTEGRATE),
        'Of "step" and "step_derivatives"; forces of "rk4" along points between two links are internal, as of loops.',
    )
    solver: str = _choice(
        tuple(SOLVERS),
        'Of "contact_step": sweeps over contacts with friction cones, or with pyramids of four sides; or alternating '
        'directions, for rows that are redundant, as of flat feet.',
    )
    sweeps: int = _option(
        lambda asked, option, value: check_whole(option.name, value, "Try 30.", least=1, most=MOST_SWEEPS), "int",
        "Most sweeps of a step; 30 if not given.", 30,
    )
    tolerance: float = _option(
        lambda asked, option, value: check_number(option.name, value, "In m/s, such as 1e-4.", most=FASTEST), "float",
        "Residual (m/s) of a step above which it is flagged; 1e-4 if not given. Sweeps end at a tenth of it.", 1e-4,
    )
    penetration: float = _option(
        lambda asked, option, value: check_number(option.name, value, "In m.", above=False), "float",
        'Overlap (m) of contacts that "contact_step" leaves alone; 1e-4 if not given, as of `Simulator`.',
        PENETRATION,
    )
    # fmt: on
    springs: tuple[AnySpring, ...] = ()
    single_frame: bool = False
    of_constraints: bool = True
    tasks: int | None = None

    @property
    def soft(self) -> list[bool]:
        """Whether each constraint is soft."""
        return [compliance is not None for compliance in self.compliance]

    def arguments(self, tree: Tree, constraints: Sequence[Constraint]) -> list[Argument]:
        """Arguments that the options ask for."""
        taken = frozenset[str]() if self.of_constraints else frozenset({"solver"})
        asked, out = OptionContext(tree, constraints, self.tasks, taken, {}), list[Argument]()
        for name, option in OPTIONS.items():
            if option.argument and (value := getattr(self, name)):
                out += option.arguments(asked, value)
        return out

    def describe(self) -> str:
        """Unambiguous text, for keys of caches."""
        kept = [f.name for f in fields(self) if f.name != "springs" or self.springs]
        return repr([(name, _described(getattr(self, name))) for name in kept])

    def differing(self, other: Options) -> list[str]:
        """Names of those that are not alike."""
        mine, theirs = ({f.name: repr(_described(getattr(x, f.name))) for f in fields(x)} for x in (self, other))
        return [name for name, text in mine.items() if text != theirs[name]]


OPTIONS: dict[str, Option] = {f.name: f.metadata["option"]._replace(name=f.name) for f in fields(Options) if f.metadata}
"""What is known of every option, by its name."""


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
        if name not in OPTIONS:
            raise unknown_name("option", name, OPTIONS)
        if name not in taken:
            known = ", ".join(sorted(taken)) or "no options"
            raise ConfigurationError(name, f"{known} with {what!r}", "this one", "Leave it out.")
    tasks = len(constraints) if "posture" in taken else None
    asked, found = OptionContext(tree, (*constraints, *contacts), tasks, taken, options), dict[str, Any]()
    for name, option in OPTIONS.items():
        default = option.default(asked) if callable(option.default) else option.default
        found[name] = option.check(asked, option, options.get(name, default))
    return Options(
        **found,
        single_frame=checks.is_frame(options.get("frames")),
        of_constraints="solver" not in taken,
        tasks=tasks,
    )


def with_implicit(options: Options, springs: Sequence[AnySpring]) -> Options:
    """Options of constraints of a step after which springs follow, as soft rows of the end of the step."""
    of_each = {"targets": False, "baumgarte": None, "poses": False, "compliance": ()}
    added: dict[str, Any] = {name: (*getattr(options, name), *[x] * len(springs)) for name, x in of_each.items()}
    return replace(options, **added)


def _described(value: Any) -> object:
    if isinstance(value, Frame | Constraint | Sensor):
        return value.fingerprint
    return [_described(x) for x in value] if isinstance(value, tuple) else value
