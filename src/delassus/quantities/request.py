"""What is asked for: robot, constraints, quantity, method, options and payloads, resolved and checked once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from delassus.accuracy.closed_loops import (
    are_always_dependent,
    are_dependent,
    independent_coordinates,
    lose_rank_when_closed,
    rank_when_closed,
)
from delassus.algorithms.clusters.rnea import CLUSTER_RNEA
from delassus.algorithms.dynamics import BY_CLUSTERS, ITERATIVE, OF_LEAST_NORM
from delassus.algorithms.inputs import CONFIGURATIONS, inputs_of
from delassus.constraints import Argument, Constraint, bounded_joints, check_constraints
from delassus.constraints.contact import contacts_of, spins_of, spins_of_contacts
from delassus.errors import ConfigurationError, ConstraintError, shown, unknown_name, warn
from delassus.frozen import ByContent
from delassus.model.check import check_choice, check_flag, check_list
from delassus.model.edit.massless import require_inertia
from delassus.model.topology import check_tree
from delassus.model.tree import Tree
from delassus.quantities.checks import split_springs
from delassus.quantities.keywords import Constraints
from delassus.quantities.options import Options, check_options, with_implicit
from delassus.quantities.planner.methods import AUTO, choose, resolve_method
from delassus.quantities.planner.plan import plan
from delassus.quantities.quantity import CONTROLS, GIVEN, STATES, Output, Quantity
from delassus.spatial.ops import Matrix

CONFIGURATION = ("nq",)
"""Shape of outputs that are configurations."""

BY_ADVICE = "Pass by=('q', 'tau'), say, or leave it out."


@dataclass(frozen=True, slots=True, eq=False)
class Request(ByContent):
    """A checked request for a quantity; made by `request`.

    ``method`` is the algorithm that runs, "auto" the planner's, and ``is_chosen`` says that it was left to choose.
    ``payloads`` are the links whose inertia gets an addition with each call. ``derivative`` says what is taken of the
    quantity, one after the other: "jvp", tangents of the results, of those of the arguments; "vjp", cotangents of the
    arguments, of those of the results; "jacobian", of each result with each argument; "tangent_jacobian", the same in
    tangents of configurations. Names of arguments follow where the others are held, as in "jacobian q tau".
    ``error_dtype`` is the type of the numbers in which the error of each solution of dynamics is estimated by what it
    misses; without one, by pivots. ``gapes`` says that rows depend on one another where loops are closed alone, which
    what holds one frame to the world does not tell.
    """

    tree: Tree
    constraints: tuple[Constraint, ...]
    quantity: Quantity
    method: str
    options: Options
    payloads: tuple[str, ...]
    is_chosen: bool
    derivative: tuple[str, ...] = ()
    error_dtype: str = ""
    gapes: bool = False

    @property
    def inputs(self) -> list[str]:
        """Names of the state that the quantity depends on, with what stands for joint forces."""
        controls = CONTROLS[self.options.control]
        return [name for given in self.quantity.inputs for name in (controls if given == "tau" else (given,))]

    @property
    def control(self) -> str:
        """Name of the argument that stands for joint forces and that controllers give: "tau", "ctrl" or "q_target"."""
        return CONTROLS[self.options.control][0]

    @property
    def parameters(self) -> tuple[Argument, ...]:
        """Arguments of a step that are neither a state, nor impulses to start from, nor what controllers give."""
        others = ("q", "v", "impulses", self.control, "smoothing")
        return tuple(a for a in self.arguments if a.name not in others)

    def without_contacts(self) -> Request:
        """The request of the same robot that touches nothing."""
        spins = spins_of(self.constraints)
        kept = [k for k, c in enumerate(self.constraints) if not (c.n_points or c in spins)]
        options: dict[str, Any] = {name: tuple(getattr(self.options, name)[k] for k in kept)
                   for name in ("targets", "poses", "baumgarte", "compliance")}  # fmt: skip
        checked = replace(self.options, friction=None, restitution=None, **options)
        return replace(self, constraints=tuple(self.constraints[k] for k in kept), options=checked)

    @property
    def bounces(self) -> bool:
        """Whether contacts may have restitution."""
        given = self.options.restitution
        return any(c.restitution > 0.0 for c in contacts_of(self.constraints)) if given is None else given != 0.0

    def without_bounces(self) -> Request:
        """The request of the same robot whose contacts have no restitution."""
        return replace(self, options=replace(self.options, restitution=0.0))

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """All arguments: the state, what constraints, payloads and options ask for, then tangents and cotangents."""
        return self._differentiated[0]

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Outputs that are returned."""
        return self._differentiated[1]

    def differentiated(self, *modes: str, by: str | Sequence[str] | None = None) -> Request:
        """The request of a derivative of it, by the arguments of those names; by all if None.

        Raises
        ------
        ConfigurationError, UnknownNameError
            Another mode than those of ``derivative``; names that are no list; one that is no argument; a constraint
            without derivatives.
        """
        names = [] if by is None else [by] if isinstance(by, str) else check_list("by", by, "names", BY_ADVICE)
        known = [a.name for a in self.arguments]
        for name in names:
            if not isinstance(name, str) or name not in known:
                raise unknown_name(f"arguments of {self.title!r}", name, known)
        if by is not None and not names:
            raise ConfigurationError("by", "at least one name", shown(by), BY_ADVICE)
        for mode in modes:
            check_choice("mode", mode, ("jacobian", "tangent_jacobian", "jvp", "vjp"), ConfigurationError)
        check_derivatives(self.constraints)
        held = [name for name in known if name in names]
        return replace(self, derivative=(*self.derivative, *(" ".join((mode, *held)) for mode in modes)))

    @property
    def formulas(self) -> Callable[[Any], Sequence[Sequence[Matrix]]] | None:
        """`Quantity.jacobian` where that is what is asked for first, of what does not iterate; None without."""
        first, tree = " ".join(self.derivative[:1]).partition(" ")[0], self.tree
        in_tangents = first == "tangent_jacobian" or (first == "jacobian" and tree.nq == tree.nv)
        return self.quantity.jacobian if in_tangents and not self.iterates else None

    @property
    def iterates(self) -> bool:
        """Whether states repeat operations until they converge, forward dynamics and what is declared so."""
        within_cones = self.options.motors is not None and self.options.friction is not None
        return self.method in ITERATIVE or within_cones or self.quantity.iterates

    @property
    def has_formulas(self) -> bool:
        """Whether formulas are all of it: those of what has no status are with all inputs."""
        if len(self.derivative) != 1 or self.quantity.has_status or self.formulas is None:
            return False
        return all(a.name in self.quantity.inputs for a in moving_arguments(self.derivative[0], self.arguments))

    @property
    def has_status(self) -> bool:
        """Whether states have a status, and are solved on arrays where a program does not solve them."""
        return self.quantity.has_status and not self.derivative

    @property
    def solves(self) -> bool:
        """Whether errors of its results can be estimated by what they miss of the equations of motion.

        Derivatives are where loops are closed and have any; elsewhere pivots are a guide, and kernels long to compile.
        """
        if self.quantity.is_solution or self.derivative:
            return not self.derivative
        closed = rank_when_closed(self.tree, self.constraints) if self.quantity.has_status else None
        return closed is not None and closed[0] == closed[1]

    @property
    def returns_forces(self) -> bool:
        """Whether results tell forces of constraints: steps need accelerations alone, which are unique."""
        return bool(self.derivative) or not self.quantity.states or "forces" in self.quantity.further

    @property
    def has_dependent_rows(self) -> bool:
        """Whether formulas differentiate what hard rows hold that are dependent at almost all states."""
        if self.formulas is None and (self.quantity.is_solution or not self.quantity.has_status):
            return False
        return are_dependent(self.tree, self.hard)

    @property
    def knows_rank(self) -> bool:
        """Whether all rows are independent at states that machine code has solved."""
        if self.method in BY_CLUSTERS and not are_dependent(self.tree, self.hard):
            return True  # clusters have as many rows as dependent coordinates
        return self.method not in OF_LEAST_NORM and not self.has_dependent_rows

    @property
    def is_singular(self) -> bool:
        """Whether hard rows are dependent at almost all states, none of which can be off."""
        return not self.options.active and are_always_dependent(self.tree, self.hard)

    @property
    def loses_rank(self) -> bool:
        """Whether hard rows depend on one another where loops are closed alone, and not where they gape by little."""
        return self.gapes or lose_rank_when_closed(self.tree, self.hard)

    @property
    def hard(self) -> tuple[Constraint, ...]:
        """Constraints that do not yield."""
        soft = self.options.soft
        return tuple(c for k, c in enumerate(self.constraints) if not (soft and soft[k]))

    @property
    def states(self) -> int:
        """Number of outputs, the first ones, that are the next values of the first inputs; 0 of what is no step."""
        return 0 if self.derivative else self.quantity.states

    @property
    def is_rolled(self) -> bool:
        """Whether rollouts repeat it: time steps, and tangents and cotangents of those without further outputs."""
        is_derivative = self.derivative in (("jvp",), ("vjp",)) and not self.quantity.further
        return self.quantity.states > 0 and (is_derivative or not self.derivative)

    @property
    def title(self) -> str:
        """Title for people."""
        kinds = {"jvp": "tangents", "vjp": "cotangents", "jacobian": "Jacobian", "tangent_jacobian": "tangent Jacobian"}
        return " of ".join((*(kinds[text.split()[0]] for text in reversed(self.derivative)), self.quantity.name))

    @property
    def _differentiated(self) -> tuple[tuple[Argument, ...], tuple[Output, ...]]:
        arguments = (
            *(Argument(name, self.shape_of(STATES[name][0]), STATES[name][1]) for name in self.inputs),
            *inputs_of(self.constraints, self.payloads),
            *self.options.arguments(self.tree, self.constraints),
        )
        outputs = self.quantity.outputs
        for text in self.derivative:
            mode, moving = text.split()[0], moving_arguments(text, arguments)
            if mode in ("jacobian", "tangent_jacobian"):
                tangent = (self.tree.nv,) if mode == "tangent_jacobian" else (self.tree.nq,)
                outputs = tuple(
                    Output(
                        f"d{o.name}_d{a.name}",
                        (
                            *(tangent if o.shape == CONFIGURATION else self.shape_of(o)),
                            *(tangent if a.name in CONFIGURATIONS else a.shape),
                        ),
                        f"derivative of {o.name} with {a.name}",
                    )
                    for o in outputs
                    for a in moving
                )
                continue
            if mode == "jvp":
                given = [Argument(f"{a.name}_dot", a.shape, f"tangent of {a.name}") for a in moving]
                outputs = tuple(Output(f"{o.name}_dot", self.shape_of(o), f"tangent of {o.name}") for o in outputs)
            else:
                given = [Argument(f"{o.name}_bar", self.shape_of(o), f"cotangent of {o.name}") for o in outputs]
                outputs = tuple(Output(f"{a.name}_bar", a.shape, f"cotangent of {a.name}") for a in moving)
            arguments = (*arguments, *given)
        return arguments, outputs

    def shape_of(self, what: Output | Sequence[int | str]) -> tuple[int, ...]:
        """Shape of one state of an output: numbers, and names of sizes."""
        sizes = (self._size(s) if isinstance(s, str) else s for s in (what.shape if isinstance(what, Output) else what))
        return tuple(s for s in sizes if s is not None)

    def _size(self, name: str) -> int | None:
        """Size by name: nq, nv, nu, n (links), independent (coordinates), m (rows), frames (None: one).

        "ends" is that of the rows of all ends of constraints, "held" of the rows of those that are no springs,
        "controls" is that of what stands for joint forces, "servos" of what makes forces of them,
        "triangle of n" that of half a matrix, "n + m" a sum.
        """
        tree, (kind, _, whole) = self.tree, name.partition(" of ")
        if kind == "triangle":
            (n,) = self.shape_of((whole,))
            return n * (n + 1) // 2
        if " + " in name:
            return sum(self.shape_of(name.split(" + ")))
        if name in GIVEN:
            return self.quantity.run.sizes[GIVEN.index(name)]  # type: ignore[attr-defined,no-any-return]
        match name:
            case "nq" | "nv":
                return tree.nq if name == "nq" else tree.nv
            case "impulses":
                return sum(c.n_impulses for c in self.constraints)
            case "2 nv":
                return 2 * tree.nv
            case "nu":
                return tree.nu
            case "servos":
                return {"tau": 0, "actuators": tree.nu, "pd": tree.nv}[self.options.control]
            case "controls":
                (size,) = self.shape_of(STATES[self.control][0])
                return size
            case "n" | "10 n":
                return tree.n_links if name == "n" else 10 * tree.n_links
            case "independent":
                return len(self.independent)
            case "sensors":
                return sum(sensor.size(tree) for sensor in self.options.sensors)
            case "contacts":
                return sum(c.n_points > 0 for c in self.constraints)
            case "held":
                return sum(c.size for c in self.constraints if c.holds)
            case "m" | "nv + m" | "dependence":
                m = sum(c.size for c in self.constraints)
                return {"m": m, "nv + m": tree.nv + m}.get(name, 1 + 3 * m * m + m)
            case "frames":
                frames = self.options.frames
                return None if self.options.single_frame else tree.n_links if frames is None else len(frames)
        return sum(c.size * len(c.carriers(tree)) for c in self.constraints)

    @property
    def independent(self) -> tuple[int, ...]:
        """Independent degrees of freedom, those that are asked for or the default ones."""
        return independent_coordinates(self.tree, self.constraints, self.options.independent)

    @property
    def free(self) -> tuple[int, ...]:
        """Degrees of freedom that are independent where the option ``loops`` holds."""
        return independent_coordinates(self.tree, self.options.loops or ())

    @property
    def motors(self) -> list[int]:
        """Degrees of freedom that motors drive, in order."""
        slices = [self.tree.v_index(name) for name in self.options.motors or ()]
        return sorted(k for at in slices for k in range(at.start, at.stop))

    @property
    def driven(self) -> frozenset[int]:
        """Degrees of freedom of motors, which are to determine all others.

        Raises
        ------
        ConstraintError
            They do not, or depend on one another.
        """
        try:
            return frozenset(independent_coordinates(self.tree, self.constraints, self.options.motors))
        except ConstraintError as error:
            wanted = f"joints that determine all others with the method {CLUSTER_RNEA!r}"
            raise ConstraintError("motors", wanted, shown(self.options.motors), "Use 'orthogonal'.") from error

    @property
    def method_of_motors(self) -> str:
        """Method of forces of motors: that of fewest operations by default; derivatives are those of any motors."""
        if self.method != AUTO:
            return self.method
        return "orthogonal" if self.derivative else choose(self.tree, self.constraints, self.options).method

    @property
    def plan(self) -> Any:
        """Choice of ``method="auto"`` with its reason; None for a named method and where there is no choice."""
        if not self.is_chosen or not self.quantity.methods:
            return None
        if self.method == AUTO and self.options.motors is None and self.options.loops is None:
            return plan(self.tree, self.constraints, self.payloads)
        return choose(self.tree, self.constraints, self.options, self.quantity.states > 0)

    def describe(self) -> dict[str, str]:
        """Unambiguous text of all of it, for keys of caches."""
        return {
            "tree": self.tree.fingerprint,
            "constraints": "\n".join(c.fingerprint for c in self.constraints),
            "payloads": repr(self.payloads),
            "what": self.quantity.name,
            "outputs": repr([(output.name, output.shape) for output in self.quantity.outputs]),
            "method": self.method,
            "options": self.options.describe(),
            "derivative": repr(self.derivative),
            "error_dtype": self.error_dtype,
            **({"gapes": "yes"} if self.gapes else {}),
        }


def moving_arguments(mode: str, arguments: Sequence[Argument]) -> list[Argument]:
    """Arguments that a mode of ``Request.derivative`` is with."""
    _, *names = mode.split()
    return [a for a in arguments if not names or a.name in names]


def check_first(derivative: Sequence[str]) -> None:
    """Refuse derivatives of what is a derivative of a step with contacts."""
    if derivative:
        raise ConfigurationError("derivative", "the first, of steps with contacts", "a further one", "Take the first.")


def check_derivatives(constraints: Sequence[Constraint]) -> None:
    """Refuse constraints without derivatives."""
    for c in constraints:
        if not c.has_derivatives:
            expected = "constraints whose points follow from formulas"
            raise ConfigurationError("constraints of a derivative", expected, repr(c), "Approximate its shapes.")


def request(
    tree: Tree,
    constraints: Constraints,
    quantity: Quantity,
    *,
    method: str | None = AUTO,
    payloads: Iterable[str] = (),
    outputs: str | Sequence[str] | None = None,
    packed: bool = False,
    **options: Any,
) -> Request:
    """Check and resolve what is asked for; ``options`` are those of `delassus.quantities.keywords.Keywords`.

    ``outputs`` are the names of those that are wanted, in order; None is all. ``packed``: see `Quantity.packed`.
    """
    check_tree(tree)
    for option, other in quantity.by_option.items():
        quantity = quantity if options.get(option) is None else other
    checked, loads = check_constraints(tree, constraints), check_payloads(tree, payloads)
    if quantity.inverts_mass:
        require_inertia(tree, loads)
    checked, springs = split_springs(tree, checked, quantity, options)
    integrator = options.get("integrator")
    by_stages = isinstance(integrator, str) and integrator == "rk4"  # which leave loops open by a little
    if quantity.closes_loops or by_stages:
        checked = tuple(c if c.n_points else c.as_loop for c in checked)
    elif "independent" in quantity.options or (isinstance(method, str) and method == CLUSTER_RNEA):  # small clusters
        checked = tuple(c if c.top(tree) == c.as_loop.top(tree) else c.as_loop for c in checked)
    if "solver" in quantity.options:
        _tell_left_out(tree, checked)
        limits, passive = check_flag("limits", options.get("limits", True)), options.get("passive", "model")
        checked = (*checked, *bounded_joints(tree, limits, isinstance(passive, str) and passive == "model"))
        checked = (*checked, *spins_of_contacts(checked))
    else:
        for c in checked:
            if c.n_points:
                raise ConstraintError("constraints", f"constraints that always act, of {quantity.name!r}", repr(c),
                                      "Contacts are of 'contact_step'; a Point holds a place.")  # fmt: skip
    given = options.pop("contacts", None) if "contacts" in quantity.options else None
    contacts = () if given is None else check_constraints(tree, given)
    outputs = None if outputs is None else quantity.wanted(outputs)
    taking = quantity.options
    if "sensors" in taking and "sensors" not in quantity.wanted(outputs):
        taking, wanted = taking - {"sensors"}, f"none of {quantity.name!r} without an output of them"
        if options.pop("sensors", None) is not None:
            raise ConfigurationError("sensors", wanted, "some", "Pass outputs=(…, 'sensors').")
    known = check_options(tree, checked, quantity.name, taking, options, contacts)
    if quantity.springs == "forces" and "dt" in quantity.inputs and not by_stages:
        known, contacts = with_implicit(known, springs), springs
    else:
        known = replace(known, springs=springs)
    checked = (*checked, *contacts)
    taken = resolve_method(tree, checked, quantity, method, known)
    asked = Request(tree, checked, quantity, taken, known, loads, method == AUTO)
    quantity = quantity.with_parameters(asked.parameters)
    quantity = quantity.only(outputs)
    quantity = quantity.packed() if check_flag("packed", packed) else quantity
    return replace(asked, quantity=quantity)


def _tell_left_out(tree: Tree, given: Sequence[Constraint]) -> None:
    """Warn where contacts stand in place of all constraints of the robot's file."""
    known = {c.fingerprint for c in given}
    if (
        tree.constraints
        and any(c.n_points for c in given)
        and known.isdisjoint(x.fingerprint for c in tree.constraints for x in (c, c.as_loop))
    ):
        others = ", ".join(map(repr, tree.constraints))
        warn(f"{tree.name}: contacts alone leave out constraints of its file, {others}; "
             "[*tree.constraints, *contacts] has both")  # fmt: skip


def check_payloads(tree: Tree, payloads: Iterable[str]) -> tuple[str, ...]:
    """Check names of links that carry payloads and return them as a tuple."""
    names = check_list("payloads", payloads, "a list of link names", "Pass payloads=['gripper', …].")
    for name in names:
        tree.placement(name)
        if names.count(name) > 1:
            raise ConfigurationError("payloads", "each link once", f"{name!r} twice", "Add the two payloads up.")
    return names
