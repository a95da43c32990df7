"""What can be compiled: `TASKS` lists it by name, with its arguments, results, methods and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from delassus.algorithms.crba import mass_matrix
from delassus.algorithms.dynamics import METHODS as FORWARD
from delassus.algorithms.dynamics import UNCONSTRAINED, kinematics, rnea
from delassus.algorithms.dynamics.integrate import INTEGRATE
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.osim import METHODS as OSIM
from delassus.compiler.setting import CONSTRAINED, MOTION
from delassus.compiler.setup import Setup
from delassus.compiler.trace import Output
from delassus.constraints import Constraint
from delassus.errors import ConstraintError, unknown_name
from delassus.spatial.motion import from_entries
from delassus.spatial.ops import Matrix

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Task:
    """Something that can be compiled.

    Attributes
    ----------
    run : callable
        From a `Setup` to what is computed.
    meaning : str
        What it is, for people.
    states : tuple of str
        Names of the first arguments.
    methods : tuple of str
        Names of the algorithms that there are to choose from, "auto" apart; none if there is no choice.
    options : frozenset of str
        Options that it takes, of `delassus.compiler.setting.Options`.
    constrained : bool
        Whether it depends on the constraints; if not, they bring no arguments.
    state_results : int
        Number of results that are the next values of as many first arguments: 0, or for a time step 2.
    """

    run: Callable[[Setup], Sequence[Output]]
    meaning: str
    states: tuple[str, ...] = ("q",)
    methods: tuple[str, ...] = ()
    options: frozenset[str] = field(default_factory=frozenset)
    constrained: bool = True
    state_results: int = 0


def _delassus(setup: Setup) -> list[Output]:
    G = OSIM[setup.method](setup.problem())
    return [_square("G", G, "Delassus matrix J M^-1 J', accelerations per unit of constraint force")]


def _osim(setup: Setup) -> list[Output]:
    Lambda = setup.ops.factor(OSIM[setup.method](setup.problem())).inverse()
    return [_square("Lambda", Lambda, "operational-space inertia matrix (J M^-1 J')^-1")]


def _mass_matrix(setup: Setup) -> list[Output]:
    return [_square("M", mass_matrix(setup.problem()), "joint-space mass matrix")]


def _jacobian(setup: Setup) -> list[Output]:
    J = jacobian(setup.problem())
    return [Output("J", J, setup.ops.shape(J), "constraint Jacobian, velocities along the rows")]


def _kinematics(setup: Setup) -> list[Output]:
    tree, problem, wanted = setup.tree, setup.problem(), setup.setting.frames
    places = [tree.placement(name) for name in tree.link_names] if wanted is None else [f.on(tree) for f in wanted]
    links = kinematics.body_poses(problem)
    poses = [kinematics.homogeneous(problem, kinematics.frame_pose(problem, links, at)) for at in places]
    stacked = setup.ops.vstack(poses) if poses else setup.ops.zeros(0, 4)
    shape = (4, 4) if setup.setting.single_frame else (len(poses), 4, 4)
    return [Output("poses", stacked, shape, "poses in the world, [R p; 0 1], positions in m")]


def _inverse_dynamics(setup: Setup) -> list[Output]:
    motion = setup.motion()
    tau = rnea.inverse_dynamics(motion, motion.per_joint(setup.given("qdd")))
    return [_vector("tau", tau, "joint forces in N m and N that cause the accelerations")]


def _bias_force(setup: Setup) -> list[Output]:
    return [_vector("c", rnea.inverse_dynamics(setup.motion()), "joint forces in N m and N that keep qdd = 0")]


def _dynamics(setup: Setup) -> list[Output]:
    solution = FORWARD[setup.method](setup.motion())
    return [
        _vector("qdd", solution.qdd, "joint accelerations in rad/s^2 and m/s^2"),
        _vector("forces", solution.forces, "forces on the first links, along the rows of all constraints in N, N m"),
    ]


def _step(setup: Setup) -> list[Output]:
    def accelerate(q: Sequence[Matrix], v: Sequence[Matrix]) -> Matrix:
        return FORWARD[setup.method](setup.motion(q, v)).qdd

    read = setup.entries
    integrate = INTEGRATE[setup.setting.integrator]
    q, v = integrate(setup.ops, setup.tree, read("q"), read("v"), read("dt")[0], accelerate)
    return [
        _vector("q_next", from_entries(setup.ops, q), "configuration after the step"),
        _vector("v_next", from_entries(setup.ops, v), "velocity after the step"),
    ]


def _square(name: str, matrix: Matrix, meaning: str) -> Output:
    rows, columns = matrix.shape
    return Output(name, matrix, (rows, columns), meaning, symmetric=True)


def _vector(name: str, matrix: Matrix, meaning: str) -> Output:
    return Output(name, matrix, (matrix.shape[0],), meaning)


_OSIM, _FORWARD = tuple(name for name in OSIM if name != AUTO), tuple(FORWARD)

TASKS: Mapping[str, Task] = MappingProxyType(
    {
        "delassus": Task(_delassus, "Delassus matrix", methods=_OSIM),
        "osim": Task(_osim, "Operational-space inertia matrix", methods=_OSIM),
        "mass_matrix": Task(_mass_matrix, "Joint-space mass matrix", constrained=False),
        "jacobian": Task(_jacobian, "Constraint Jacobian"),
        "kinematics": Task(
            _kinematics, "Forward kinematics", options=frozenset({"frames"}), constrained=False
        ),
        "inverse_dynamics": Task(
            _inverse_dynamics, "Inverse dynamics", ("q", "v", "qdd"), options=MOTION, constrained=False
        ),
        "bias_force": Task(_bias_force, "Bias force of the joints", ("q", "v"), options=MOTION, constrained=False),
        "dynamics": Task(_dynamics, "Forward dynamics", ("q", "v", "tau"), _FORWARD, CONSTRAINED),
        "step": Task(
            _step, "Time step", ("q", "v", "tau", "dt"), _FORWARD, CONSTRAINED | {"integrator"}, state_results=2
        ),
    }
)  # fmt: skip
"""What ``compile`` accepts, by name."""


def find_task(what: str) -> Task:
    """Task of that name, or `UnknownNameError` with the nearest match."""
    try:
        return TASKS[what]
    except (KeyError, TypeError):
        raise unknown_name("what to compile", what, TASKS) from None


@dataclass(frozen=True, slots=True)
class Choice:
    """Algorithm that ``method="auto"`` took, and why."""

    method: str
    reason: str

    def __str__(self) -> str:
        return f"{self.method}: {self.reason}"


def choose(constraints: Sequence[Constraint]) -> Choice:
    """What "auto" takes for forward dynamics."""
    if not constraints:
        return Choice("aba", "there are no constraints")
    for method, reason in (("pv-early", "O(n + m), for hard constraints"), ("pv", "O(n + m^2)")):
        if method in FORWARD:
            return Choice(method, reason)
    return Choice("kkt", "the dense method, O(n^3 + m n^2 + m^3)")


def find_method(what: str, method: str, constraints: Sequence[Constraint]) -> str:
    """Check a method of a task; returns the one that runs.

    Raises
    ------
    UnknownNameError
        The task has no such method.
    ConstraintError
        Constraints with a method that takes none.
    """
    task = find_task(what)
    if not isinstance(method, str) or method not in (AUTO, *task.methods):
        raise unknown_name(f"method of {what!r}", method, (AUTO, *task.methods))
    if task.methods != _FORWARD:
        return method
    if method == AUTO:
        return choose(constraints).method
    if constraints and method in UNCONSTRAINED:
        others = ", ".join(repr(name) for name in task.methods if name not in UNCONSTRAINED)
        raise ConstraintError(
            "constraints", f"none with the method {method!r}", f"{len(constraints)}", f"Use {others}."
        )
    return method
