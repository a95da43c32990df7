"""What a declaration of something that can be computed says: inputs, outputs, methods, options and how to run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

from delassus.constraints import Argument
from delassus.errors import ConfigurationError, shown, unknown_name
from delassus.model.check import check_list
from delassus.spatial.motion import from_entries
from delassus.spatial.ops import Matrix

SOLUTIONS, DEPENDENCES = (tuple(f"{name}{k}" for k in range(5)) for name in ("solution", "dependence"))
"""Names of solutions of systems of dynamics that one request solves at most, and of what is to be known of rows."""

GIVEN = tuple(f"given{k}" for k in range(5))
"""Names of impulses of the contact problems of one step, one problem after the other."""

STATES: Mapping[str, tuple[tuple[str, ...], str]] = MappingProxyType(
    {
        "q": (("nq",), "configuration: angles in rad, lengths in m, quaternions x y z w"),
        "q_end": (("nq",), "configuration to reach, in the layout of q"),
        "v": (("nv",), "velocity in rad/s and m/s, that of a free joint in its link's frame"),
        "tau": (("nv",), "joint forces in N m and N"),
        "ctrl": (("nu",), "control of each actuator"),
        "q_target": (("nq",), "configuration that revolute and prismatic joints are pulled to, in rad and m"),
        "kp": (("nv",), "stiffness of that pull in N m/rad and N/m"),
        "kd": (("nv",), "damping of that pull in N m s/rad and N s/m"),
        "impulses": (("impulses",), "impulses to start from, as of the step before, zeros will do; N s and N m s"),
        "qdd": (("nv",), "joint accelerations in rad/s^2 and m/s^2"),
        "x": (("m",), "a number for each row of the constraints"),
        "d": (("m",), "damping, what is added to the diagonal, in (m/s^2)/N and (rad/s^2)/(N m), positive"),
        "after": (("nv",), "velocity after a step, that of a free joint in its link's frame at the start"),
        "gained": (("nv",), "velocity that is gained in a step, in rad/s and m/s"),
        "further": (("nv",), "what velocities gain whose products with v act, in rad/s and m/s"),
        "dt": ((), "time step in s"),
        "costate": (("2 nv + held",), "weights of the state after a step, in tangents, and of forces"),
        "correction": ((), "part of the errors of loops that a step takes back"),
        "shift": (("nv",), "displacement in rad and m, that of a free joint in its link's frame"),
        **{name: (("nv + m",), "accelerations, and forces along the rows") for name in SOLUTIONS},
        **{name: (("dependence",), "as of `Resolved.dependent`") for name in DEPENDENCES},
        **{name: ((name,), "impulses that solve a contact problem") for name in GIVEN},
    }
)
"""Inputs of quantities by name: shape and meaning."""


CONTROLS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"tau": ("tau",), "actuators": ("ctrl",), "pd": ("q_target", "kp", "kd")}
)
"""Inputs that stand for joint forces, by what the option ``control`` says; the first one is what controllers give."""


@dataclass(frozen=True, slots=True)
class Output:
    """An array that a quantity returns.

    ``name`` is its C identifier, ``shape`` that of one state, by names of `Request.shape_of`, ``meaning`` its units and
    layout. Of ``symmetric`` ones a triangle is computed; derivatives are NaN where numbers overflow, those that
    ``needs_independent`` where rows are dependent. ``each``
    stands for one of each parameter (`Request.parameters`), whose name and shape follow its own. What is ``on_request``
    comes where ``outputs=`` names it.
    """

    name: str
    shape: tuple[int | str, ...]
    meaning: str
    symmetric: bool = False
    is_derivative: bool = False
    needs_independent: bool = False
    each: bool = False
    on_request: bool = False

    def packed(self) -> Output:
        """The lower triangle of a symmetric one, row by row."""
        shape = (f"triangle of {self.shape[0]}",)
        return replace(self, shape=shape, symmetric=False, meaning=f"{self.meaning}; lower triangle, row by row")


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something that can be computed, by the direct functions and by kernels.

    Attributes
    ----------
    name : str
        As `delassus.compile` takes it.
    meaning : str
        What it is, for people.
    inputs : tuple of str
        State that it depends on, of `STATES`; constraints, payloads and options add arguments.
    outputs : tuple of Output
    run : callable
        From a `delassus.quantities.bound_request.BoundRequest` to one matrix for each output, row by row.
    methods : tuple of str
        Algorithms to choose from, "auto" apart; none if there is no choice.
    options : frozenset of str
        Those of `delassus.quantities.keywords.Keywords` that it takes.
    inverts_mass : bool
        Whether it needs the inverse of the mass matrix, whatever its options are.
    has_status : bool
        Whether it solves for constraint forces, so that states follow `delassus.accuracy.status`.
    is_solution : bool
        Whether its results are solutions of equations of motion alone, whose errors can be estimated by what they miss.
    iterates : bool
        Whether states repeat its operations until they converge.
    judges_rows : bool
        Whether it says which rows are independent; where a program is not certain, arrays are factorised.
    needs_independent : bool
        Whether it needs rows that are independent: `SingularError` refuses states at which they are not.
    closes_loops : bool
        Whether its constraints are loops that it keeps closed over a time, by their rows `as_loop`.
    springs : {"", "rows", "forces"}
        What a `SpringDamper` or `Bushing` among its constraints is: a row of a contact step, or the force that it has
        at the state, in a semi-implicit step that of its end; otherwise it is refused.
    is_private : bool
        Whether simulators alone need it: `delassus.compile` neither lists nor offers it, and it may change.
    states : int
        Number of outputs, the first ones, that are the next values of its first inputs: what `delassus.rollout`
        repeats; 0 of what is no time step.
    report : callable or None
        From a direct call that is solved, and its outputs, to what users get.
    jacobian : callable or None
        From a `BoundRequest` to the derivatives of each output with the first arguments, of what has no status with
        all inputs, by formulas and in tangents of configurations; programs are differentiated for the others.
    by_option : mapping of str to Quantity
        What it is where options of these names are given.
    curvature : Quantity or None
        Of derivatives of a time step, second ones along a costate.
    """

    name: str
    meaning: str
    inputs: tuple[str, ...]
    outputs: tuple[Output, ...]
    run: Callable[[Any], Sequence[Matrix]]
    methods: tuple[str, ...] = ()
    options: frozenset[str] = field(default_factory=frozenset)
    inverts_mass: bool = False
    has_status: bool = False
    is_solution: bool = False
    iterates: bool = False
    judges_rows: bool = False
    needs_independent: bool = False
    closes_loops: bool = False
    springs: str = ""
    is_private: bool = False
    states: int = 0
    report: Callable[..., Any] | None = None
    jacobian: Callable[[Any], Sequence[Sequence[Matrix]]] | None = None
    by_option: Mapping[str, Quantity] = field(default_factory=dict)
    curvature: Quantity | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """In the same order in every process."""
        values = (getattr(self, f.name) for f in fields(self))
        return _quantity, tuple(tuple(sorted(x)) if isinstance(x, frozenset) else x for x in values)

    @property
    def further(self) -> tuple[str, ...]:
        """Names of what a time step returns at each step beside states, but for residuals of contacts."""
        return tuple(o.name for o in self.outputs[self.states :] if o.name != "residuals") if self.states else ()

    def with_parameters(self, parameters: Sequence[Argument]) -> Quantity:
        """The quantity with outputs of those parameters in place of the one that stands for ``each``."""
        outputs = list[Output]()
        for o in self.outputs:
            of_each = [(f"{o.name}{a.name}", (*o.shape, *a.shape), f"{o.meaning} {a.name}") for a in parameters]
            outputs += [Output(*of) for of in of_each] if o.each else [o]
        return replace(self, outputs=tuple(outputs))

    def only(self, names: str | Sequence[str] | None) -> Quantity:
        """The quantity with these outputs, in this order; operations that no output needs are left out.

        None is all that are not on request. A time step stays one where these come first, in their order.

        Raises
        ------
        ConfigurationError, UnknownNameError
            ``names`` are no names, none or one twice; one that is no output of this quantity.
        """
        known, default = [output.name for output in self.outputs], self.wanted(None)
        wanted = self.wanted(names)
        for name in wanted:
            if not isinstance(name, str) or name not in known:
                raise unknown_name(f"outputs of {self.name!r}", name, known)
        if not wanted or len(set(wanted)) < len(wanted):
            raise ConfigurationError("outputs", "at least one name, each once", shown(names), OUTPUTS_ADVICE)
        which = tuple(known.index(name) for name in wanted)
        outputs = tuple(replace(self.outputs[k], on_request=False) for k in which)
        if which == tuple(range(len(known))):
            return replace(self, outputs=outputs)
        jacobian = None if self.jacobian is None else Chosen(self.jacobian, which)
        states, report = (self.states if tuple(wanted[: len(default)]) == default else 0), None
        return replace(
            self, outputs=outputs, run=Chosen(self.run, which), states=states, report=report, jacobian=jacobian
        )

    def wanted(self, names: str | Sequence[str] | None) -> tuple[Any, ...]:
        """Names of outputs that are asked for; all that are not on request if None."""
        if names is None:
            return tuple(o.name for o in self.outputs if not o.on_request)
        return (names,) if isinstance(names, str) else check_list("outputs", names, "names", OUTPUTS_ADVICE)

    def packed(self) -> Quantity:
        """The quantity with symmetric outputs as lower triangles, row by row.

        Raises
        ------
        ConfigurationError
            No output is symmetric.
        """
        symmetric = tuple(output.symmetric for output in self.outputs)
        if not any(symmetric):
            advice = "Leave packed out: 'delassus', 'osim' and 'mass_matrix' have symmetric results."
            raise ConfigurationError("packed", "none without symmetric results", f"{self.name!r}", advice)
        outputs = tuple(output.packed() if output.symmetric else output for output in self.outputs)
        return replace(self, outputs=outputs, run=Packed(self.run, symmetric))


def _quantity(*values: Any) -> Quantity:
    """The quantity of the fields of one."""
    named = dict(zip((f.name for f in fields(Quantity)), values, strict=True))
    return Quantity(**{**named, "options": frozenset(named["options"])})


OUTPUTS_ADVICE = "Pass outputs=('qdd',), say, or leave it out."


@dataclass(frozen=True, slots=True)
class Chosen:
    """Some of what ``run`` makes, a matrix or more for each output."""

    run: Callable[[Any], Sequence[Any]]
    which: tuple[int, ...]

    def __call__(self, bound: Any) -> list[Any]:
        """Run, and leave out the others."""
        found = self.run(bound)
        return [found[k] for k in self.which]


@dataclass(frozen=True, slots=True)
class Packed:
    """Matrices that ``run`` makes; of those that are ``symmetric``, the lower triangle as a column."""

    run: Callable[[Any], Sequence[Matrix]]
    symmetric: tuple[bool, ...]

    def __call__(self, bound: Any) -> list[Matrix]:
        """Run, and pack."""
        found = self.run(bound)
        return [_triangle(bound.ops, a) if of else a for a, of in zip(found, self.symmetric, strict=True)]


def _triangle(ops: Any, a: Matrix) -> Matrix:
    """Lower triangle (k × 1), row by row."""
    rows = [row[: i + 1] for i, row in enumerate(ops.entries(a))]
    return from_entries(ops, [x for row in rows for x in row])
