"""What can be compiled: `TASKS` lists it by name, with its arguments, results, methods and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from types import MappingProxyType

from delassus.algorithms.crba import mass_matrix
from delassus.algorithms.dynamics import FALLBACKS, ITERATIVE, SOFT, kinematics, rnea
from delassus.algorithms.dynamics import METHODS as FORWARD
from delassus.algorithms.dynamics.choose import check_method, default_method, pivot_limit
from delassus.algorithms.dynamics.derivatives import DERIVATIVES, derivatives
from delassus.algorithms.dynamics.energy import kinetic_energy, potential_energy
from delassus.algorithms.dynamics.integrate import INTEGRATE
from delassus.algorithms.dynamics.operational_space_compliance import operational_space_compliance
from delassus.algorithms.dynamics.position_update import position_update
from delassus.algorithms.dynamics.row_mobility import mobility_pivots
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.osim import METHODS as OSIM
from delassus.algorithms.problem import Problem
from delassus.compiler.options import CONSTRAINED, MOTION
from delassus.compiler.symbolic_inputs import Setup
from delassus.compiler.trace import Output
from delassus.constraints import Constraint
from delassus.errors import unknown_name
from delassus.model.tree import WORLD
from delassus.spatial.motion import from_entries
from delassus.spatial.ops import Matrix, Scalar

AUTO = "auto"
HARD = ("pv-early", "pv", "ltl", "kkt")
"""Methods that "auto" takes for hard constraints, the first that there is."""


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
        Options that it takes, of `delassus.compiler.options.Options`.
    state_results : int
        Number of results that are the next values of as many first arguments: 0, or for a time step 2.
    """

    run: Callable[[Setup], Sequence[Output]]
    meaning: str
    states: tuple[str, ...] = ("q",)
    methods: tuple[str, ...] = ()
    options: frozenset[str] = field(default_factory=frozenset)
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


def _forward(setup: Setup, motion: DynamicsProblem) -> Solution:
    return (FALLBACKS.get(setup.method) or FORWARD[setup.method])(motion)


def _dynamics(setup: Setup) -> list[Output]:
    motion = setup.motion()
    solution = _forward(setup, motion)
    return [
        _vector("qdd", solution.qdd, "joint accelerations in rad/s^2 and m/s^2"),
        _vector("forces", solution.forces, "forces on the first links, along the rows of all constraints in N, N m"),
        *_judgement(setup, [_smallest_pivot(setup, motion.problem, solution)]),
    ]


def _step(setup: Setup) -> list[Output]:
    pivots: list[Scalar | None] = []

    def accelerate(q: Sequence[Scalar], v: Sequence[Scalar]) -> Matrix:
        motion = setup.motion(q, v)
        solution = _forward(setup, motion)
        pivots.append(_smallest_pivot(setup, motion.problem, solution))
        return solution.qdd

    read = setup.entries
    integrate = INTEGRATE[setup.setting.integrator]
    q, v = integrate(setup.ops, setup.tree, read("q"), read("v"), read("dt")[0], accelerate)
    return [
        _vector("q_next", _column(setup, q), "configuration after the step"),
        _vector("v_next", _column(setup, v), "velocity after the step"),
        *_judgement(setup, pivots),
    ]


def _operational_space_compliance(setup: Setup) -> list[Output]:
    tree, found, m = setup.tree, operational_space_compliance(setup.motion()), setup.problem().n_rows
    n, nv = tree.n_links, tree.nv
    rows = sum(c.size * ((c.first.carrier(tree) >= 0) + _moves(setup, c)) for c in setup.constraints)
    return [
        Output("poses", found.poses, (n, 3, 4), "poses [R p] of body frames in the world, positions in m"),
        Output("twists", found.twists, (n, 6), "twists [linear; angular] in body frames, m/s and rad/s"),
        Output("propagators", found.propagators, (n, 6, 6), "what a change of the parent's twist does to a link's"),
        Output("compliances", found.compliances, (n, 6, 6), "inverse inertia that each link shows, in its body frame"),
        Output("gains", found.gains, (nv, 6), "impulse on a link to the velocity of its joint"),
        Output("carried", found.carried, (nv, 6), "change of the parent's twist to what it takes from the joint"),
        _vector("qdd", found.qdd, "joint accelerations without constraints in rad/s^2 and m/s^2"),
        Output("rows", found.rows, (rows, 6), "rows of the ends of constraints, on twists in body frames"),
        Output("errors", found.errors, (m,), "position errors of constraints along their rows in m and rad"),
    ]


def _position_update(setup: Setup) -> list[Output]:
    read = setup.entries
    q, v = position_update(setup.ops, setup.tree, read("q"), read("v"), read("dt")[0], read("shift"))
    return [
        _vector("q_next", _column(setup, q), "configuration displaced by dt v + shift, straight in the world"),
        _vector("v_next", _column(setup, v), "the velocity, that of free and planar joints in the axes of that time"),
    ]


def _energies(setup: Setup) -> list[Output]:
    motion = setup.motion()
    kinetic, potential = kinetic_energy(motion), potential_energy(motion.problem, motion.gravity)
    return [
        Output("kinetic", kinetic, (), "kinetic energy in J, motors included"),
        Output("potential", potential, (), "potential energy in J, zero at the origin of the world"),
    ]


def _moves(setup: Setup, c: Constraint) -> bool:
    return c.second is not None and c.second.carrier(setup.tree) != WORLD


def _derivatives(setup: Setup) -> list[Output]:
    motion = setup.motion()
    found = derivatives(motion)
    nv, m = setup.tree.nv, motion.problem.n_rows
    shapes = {"qdd": (nv,), "forces": (m,)}
    out = []
    for name in ("qdd", "forces", *DERIVATIVES):
        value = getattr(found, name)
        shape = shapes.get(name, (m if name.startswith("df") else nv, nv))
        out.append(Output(name, value, shape, DERIVATIVES.get(name, "solution of forward dynamics")))
    solution = Solution(found.qdd, found.forces, found.delassus)
    return [*out, *_judgement(setup, [_smallest_pivot(setup, motion.problem, solution)])]


def _smallest_pivot(setup: Setup, problem: Problem, solution: Solution) -> Scalar | None:
    """Pivot that says whether a method solved its state: its own, or the smallest one of ``G`` by its diagonal."""
    if solution.pivot is not None or solution.delassus is None or not problem.n_rows:
        return solution.pivot
    if setup.method in SOFT | ITERATIVE:
        return None
    G = problem.relaxed(solution.delassus)  # factorised by the method already: the same nodes of the graph
    diagonal = [row[i] for i, row in enumerate(setup.ops.entries(G))]
    pivots = setup.ops.factor(G).pivots()
    smallest = reduce(setup.ops.minimum, [d / g for d, g in zip(pivots, diagonal, strict=True)])
    moved = mobility_pivots(problem, diagonal)
    if not moved:
        return smallest
    limit = pivot_limit(setup.method, "float64")
    return setup.ops.minimum(smallest, limit * setup.ops.sqrt(reduce(setup.ops.minimum, moved)))


def _judgement(setup: Setup, pivots: Sequence[Scalar | None]) -> list[Output]:
    """The smallest pivot of all solutions, if the method has pivots to judge by."""
    known = [pivot for pivot in pivots if pivot is not None]
    if not known:
        return []
    smallest = setup.ops.matrix([[reduce(setup.ops.minimum, known)]])
    return [Output("pivot", smallest, (), "smallest relative pivot: near zero, rows are dependent", hidden=True)]


def _square(name: str, matrix: Matrix, meaning: str) -> Output:
    rows, columns = matrix.shape
    return Output(name, matrix, (rows, columns), meaning, symmetric=True)


def _column(setup: Setup, entries: Sequence[Scalar]) -> Matrix:
    return from_entries(setup.ops, entries) if entries else setup.ops.zeros(0, 1)


def _vector(name: str, matrix: Matrix, meaning: str) -> Output:
    return Output(name, matrix, (matrix.shape[0],), meaning)


_OSIM, _FORWARD = tuple(name for name in OSIM if name != AUTO), tuple(FORWARD)

TASKS: Mapping[str, Task] = MappingProxyType(
    {
        "delassus": Task(_delassus, "Delassus matrix", methods=_OSIM),
        "osim": Task(_osim, "Operational-space inertia matrix", methods=_OSIM),
        "mass_matrix": Task(_mass_matrix, "Joint-space mass matrix"),
        "jacobian": Task(_jacobian, "Constraint Jacobian"),
        "kinematics": Task(_kinematics, "Forward kinematics", options=frozenset({"frames"})),
        "inverse_dynamics": Task(_inverse_dynamics, "Inverse dynamics", ("q", "v", "qdd"), options=MOTION),
        "bias_force": Task(_bias_force, "Bias force of the joints", ("q", "v"), options=MOTION),
        "position_update": Task(_position_update, "Configuration after a time", ("q", "v", "dt", "shift")),
        "energies": Task(_energies, "Kinetic and potential energy", ("q", "v"), options=frozenset({"gravity"})),
        "operational_space_compliance": Task(
            _operational_space_compliance, "Free motion and compliance of all links", ("q", "v", "tau"), options=MOTION
        ),
        "dynamics": Task(_dynamics, "Forward dynamics", ("q", "v", "tau"), _FORWARD, CONSTRAINED),
        "dynamics_derivatives": Task(
            _derivatives,
            "Forward dynamics and its derivatives",
            ("q", "v", "tau"),
            options=CONSTRAINED - {"compliance", "active"},
        ),
        "step": Task(
            _step, "Time step", ("q", "v", "tau", "dt"), _FORWARD, CONSTRAINED | {"integrator"}, state_results=2
        ),
    }
)
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


def choose(soft: Sequence[bool]) -> Choice:
    """What "auto" takes for forward dynamics; ``soft``: which constraints are."""
    method = default_method(soft, HARD)
    if not soft:
        return Choice(method, "there are no constraints")
    if any(soft):
        return Choice(method, "all constraints are soft" if all(soft) else "some constraints are soft, others hard")
    return Choice(method, "constraints are hard")


def find_method(what: str, method: str, soft: Sequence[bool]) -> str:
    """Check a method of a task for such constraints (see `choose`); returns the one that runs.

    Raises
    ------
    UnknownNameError
        The task has no such method.
    ConstraintError
        It does not take these constraints.
    """
    task = find_task(what)
    if not isinstance(method, str) or method not in (AUTO, *task.methods):
        raise unknown_name("method", method, (AUTO, *task.methods))
    if task.methods != _FORWARD:
        return method
    return choose(soft).method if method == AUTO else check_method(method, soft)


def method_that_runs(what: str, method: str, soft: Sequence[bool]) -> str:
    """The same for what kernels ask for themselves, fallbacks among it."""
    return method if method in FALLBACKS else find_method(what, method, soft)
