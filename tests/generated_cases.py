"""Cases of `generated`: values of every option of every quantity, what public functions take of them, and robots.

What is new in the library is met without a change here, or `test_generated` names it.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import get_args, get_type_hints
from zlib import crc32

import numpy as np

import delassus as ds
from internals import (
    HARD_AND_SOFT,
    QUANTITIES,
    SOFT,
    UNCONSTRAINED,
    Program,
    cut,
    interpret_program,
    trace_request,
    usual_states,
)
from random_trees import (
    TURNS_OR_SLIDES,
    can_close,
    independent_constraints,
    some_contacts,
    some_dependent_rows,
    some_robot,
    split,
)
from tools import random_frame, requested

# -- options --------------------------------------------------------------------------------------------------------

(KEYWORDS,) = get_type_hints(ds.compile)["options"].__args__
CHOICES = {name: get_args(hint) for name, hint in get_type_hints(KEYWORDS).items()}
LEFT_OUT = object()


def some_frames(m):
    some = m.rng.choice(m.moving, min(len(m.moving), int(m.rng.integers(1, 3))), replace=False)
    return [str(n) if m.rng.random() < 0.4 else random_frame(m.rng, str(n)) for n in some]


def some_sensors(m):
    a, b = some_frames(m)[0], some_frames(m)[0]
    names = [j.name for j in m.joints if j.kind in TURNS_OR_SLIDES]
    kinds = [
        ds.Sensor("imu", "accelerometer", a),
        ds.Sensor("turn", "framequat", a, b),
        ds.Sensor("all", "subtreeangmom", m.tree.link_names[0]),
        *([ds.Sensor("force", "torque", b, cutoff=0.5)]),
        *([ds.Sensor("angle", "jointpos", names[0])] if names else []),
    ]
    return [kinds[k] for k in m.rng.permutation(len(kinds))[:3]]


def some_joints(m):
    return [str(m.rng.choice(m.tree.joint_names))]


def some_spring(m):
    ends = random_frame(m.rng, m.tree.link_names[-1]), random_frame(m.rng, "world")
    single = {j.name: 0.5 for j in m.joints if j.kind in TURNS_OR_SLIDES}
    made = (
        lambda: ds.Bushing(*ends, [20.0] * 6, [0.1] * 6),
        lambda: ds.SpringDamper(*ends, 20.0, 0.1),
        lambda: ds.Tendon([*ends, random_frame(m.rng, m.tree.link_names[0])], single, stiffness=20.0, damping=0.1),
        lambda: ds.Tendon(ends, single, length=(0.1, 0.2), stiffness=20.0),
    )
    return made[m.rng.integers(4)]()


def some_coupling(m):
    met = m.rng.choice(m.tree.n_links, min(2, m.tree.n_links), replace=False)
    return ds.JointRows({m.tree.joint_names[i]: np.ones(m.tree.joints[i].nv) for i in met})


OPTIONS = {
    "gravity": (LEFT_OUT, "input", (1.0, -2.0, -9.0)),
    "passive": ("model", "none"),
    "damping": (LEFT_OUT, "input", lambda m: np.full(m.tree.nv, 0.3)),
    "control": CHOICES["control"],
    "v_target": (True, False),
    "wrenches": ((), some_frames),
    "targets": (False, True),
    "baumgarte": (None, 10.0, ds.Baumgarte(20.0, 0.5)),
    "poses": (False, False, True),
    "compliance": (None, None, "input", 1e-2, lambda m: [1e-3, None]),
    "active": (False, True),
    "impacts": (False, True),
    "frames": (LEFT_OUT, lambda m: some_frames(m)[0], some_frames),
    "reference": CHOICES["reference"],
    "sensors": (some_sensors,),
    "loops": (LEFT_OUT, some_coupling),
    "hold": ((), some_joints),
    "independent": (LEFT_OUT,),
    "output": (LEFT_OUT, lambda m: ds.Point(some_frames(m)[0])),
    "motors": (some_joints, None),
    "weights": (LEFT_OUT, LEFT_OUT, "input"),
    "contacts": (None, lambda m: ds.Point(some_frames(m)[0], axes="world")),
    "kp": (LEFT_OUT, "input", 30.0),
    "kd": (5.0, "input", lambda m: [None, 3.0]),
    "impedance": (False, lambda m: [True, False]),
    "posture": (False, True, True),
    "posture_kp": (LEFT_OUT, "input"),
    "posture_kd": (LEFT_OUT, 2.0, "input"),
    "integrator": CHOICES["integrator"],
    "friction": (None, "input", 0.7),
    "restitution": (None, "input", 0.3),
    "smoothing": (0.0, "input", 0.1),
    "limits": (True, False),
    "solver": CHOICES["solver"],
    "sweeps": (200, 30),
    "tolerance": (1e-4, 1e-6),
    "penetration": (LEFT_OUT, 0.0, 0.05),
    # of `compile` itself
    "dtype": ("float64", "float64", "float32"),
    "lanes": (None, 1, 2, 4, 8),
    "payloads": ((), lambda m: [m.tree.link_names[-1]]),
    "error_bound": (None, 1e-3),
    "outputs": (None, slice(None, None, -1)),
    "packed": (False, True),
}
"""Values of options as `delassus.compile` takes them, what is not given first; which outputs, by their places."""

COMPILED = [name for name in [*inspect.signature(ds.compile).parameters][4:-1] if name not in ("target", "wait")]
"""Options that `delassus.compile` itself has, but for the method; GPUs have their own tests, the evaluator runs all."""

OF_KERNELS = ("dtype", "lanes", "error_bound")
"""Those that change no results."""

MODES = ("jacobian", "tangent_jacobian", "jvp", "vjp")


def taken(quantity):
    """Options of a quantity and its methods, with their values."""
    more = (name for other in quantity.by_option.values() for name in other.options)
    values = {name: OPTIONS[name] for name in (*quantity.options, *more, *COMPILED) if name in OPTIONS}
    if not any(output.symmetric for output in quantity.outputs):
        del values["packed"]
    return values, ("auto", *quantity.methods)


def cases():
    """Quantities, and numbers of cases: of all options, and of all methods once."""
    met = set()
    for name, quantity in QUANTITIES.items():
        values, methods = taken(quantity)
        values.pop("lanes")  # come up often enough
        several = [*values.values(), *([] if methods in met else [methods])]
        met.add(methods)
        yield from ((name, k) for k in range(max(map(len, several))))


OPERATORS = {"delassus_operator"}
"""Public functions of states that are of no quantity."""

FUNCTIONS = {
    **{name: (name,) for name in QUANTITIES if name in ds.__all__},
    "kinematics": ("forward_kinematics",),
    "dynamics": ("forward_dynamics",),
}
"""Public functions by quantities."""


def taken_by(function):
    """Names of what a public function takes."""
    names = dict(inspect.signature(function).parameters)
    if names.pop("given", None) is not None:
        (typed,) = get_type_hints(function)["given"].__args__
        return {**names, **typed.__annotations__}
    return names


def arguments_of(case, function, values):
    """What a public function takes of a case."""
    asked, chosen, constraints = case.asked, case.options, case.constraints

    def all_of(keyword):
        return [values[a.name] for a in asked.arguments if a.keyword == keyword]

    def each_of(what, fixed=None):
        several = fixed if isinstance(fixed, list) else [fixed] * len(constraints)
        return [values.get(f"{what}{i}", x) for i, x in enumerate(several)]

    given = {
        **chosen, **values, "tree": asked.tree, "constraints": constraints, "tasks": constraints,
        "tau": values.get((*asked.inputs, "", "")[2]), "rows": all_of("rows"),
        "placements": all_of("placements"), "payloads": dict(zip(chosen["payloads"], all_of("payloads"), strict=True)),
        "wrenches": dict(zip(chosen.get("wrenches", ()), all_of("wrenches"), strict=True)),
        "targets": each_of("target"), "poses": each_of("pose"),
        "compliance": each_of("compliance", chosen.get("compliance")),
    }  # fmt: skip
    if case.name == "control":
        given |= {gain: each_of(gain, chosen.get(gain)) for gain in ("kp", "kd")}
    left_out = {"v_target", "active", "impacts", "posture"} - set(values) | {"error_bound"}
    if case.name.startswith("inverse_dynamics") and chosen.get("motors") is None:
        left_out |= {"constraints", "rows", "placements"}
    return {key: given[key] for key in taken_by(function) if key in given and key not in left_out}


def results_of(case, name, found, space=np):
    """Results of a public function by the names of the quantity's outputs."""
    quantity = QUANTITIES[case.name]
    for option, other in quantity.by_option.items():
        quantity = quantity if case.options.get(option) is None else other
    chosen = case.options["outputs"] if "outputs" in taken_by(getattr(ds, name)) else None
    outputs = chosen or [o.name for o in quantity.outputs if not o.on_request]
    if name.endswith("_energy"):
        return {name.removesuffix("_energy"): space.asarray(found)}
    if isinstance(found, tuple):
        return dict(zip(outputs, found, strict=True))
    if isinstance(found, dict):
        return {outputs[0]: space.concatenate([*found.values()], axis=-1)}
    if len(outputs) == 1:
        return {outputs[0]: space.asarray(found)}
    if case.name == "close_loops":
        closed = found.status == ds.LoopStatus.CLOSED
        return {"q_closed": found.q, "residual": found.residual, "closed": closed, "rank": found.rank}
    if case.name == "reduced_dynamics":
        kinds = np.vectorize(list(ds.Singularity).index)(found.singularity)
        found = found.transmission, found.drift, found.mass_matrix, found.bias, found.delassus, found.margin, kinds
        return dict(zip(outputs, found, strict=True))
    by_constraint = {"forces", "impulses"}  # a tuple of arrays
    first = getattr(found, outputs[0])
    return {o: space.concatenate([first[..., :0], *x], axis=-1) if o in by_constraint else x
            for o, x in zip(outputs, (getattr(found, o) for o in outputs), strict=True)}  # fmt: skip


# -- cases ----------------------------------------------------------------------------------------------------------

DEPENDENT = 0.2
"""Part of the cases of what solves for forces in which rows depend on one another."""

MOST_JOINTS = 12
MOST_NODES = 8_000
"""Nodes of a program as it is traced; where there are more, the robot has half as many joints."""


def chosen_of(quantity, number, k):
    """Values of all options, and a method: each the k-th from one on that the number says."""
    values, methods = taken(quantity)
    rng = np.random.default_rng([number, crc32(quantity.name.encode())])
    chosen = {name: several[(int(rng.integers(60)) + k) % len(several)] for name, several in sorted(values.items())}
    return chosen, methods[(int(rng.integers(60)) + k) % len(methods)]


HEAVY = {
    "contact_step_derivatives": 1,
    "contact": 2,
    "derivatives": 3,
    "changes": 4,
    "smooth": 3,
    "step": 4,
    "reduced": 5,
    "control": 5,
}
"""Most joints by parts of names of quantities whose programs are long."""


def most_joints(quantity):
    several = [most for part, most in HEAVY.items() if part in quantity.name]
    return min([*several, 5 if quantity.has_status else MOST_JOINTS])


@dataclass
class Case:
    """A quantity of a robot, drawn from a number; ``k`` moves all options on by so many values: none is left out.

    ``derives``: whether it may be a derivative of the quantity; ``most``: most joints of the robot.
    """

    name: str
    number: int
    k: int = 0
    derives: bool = True
    most: int = MOST_JOINTS

    def __post_init__(self):
        most = min(self.most, most_joints(QUANTITIES[self.name]))
        while True:
            self._draw(np.random.default_rng([self.number, crc32(self.name.encode()), self.k]), most)
            if most == 1 or self.size <= MOST_NODES:
                return
            most //= 2

    @property
    def command(self):
        return command_of(self.name, self.number, self.k)

    def _draw(self, rng, most):
        quantity, self.rng = QUANTITIES[self.name], rng
        self.mechanism = m = some_robot(rng, most if rng.random() < 0.2 else min(most, 6))
        self.tree = m.tree
        chosen, method = chosen_of(quantity, self.number, self.k)
        if self._has_springs(quantity, chosen, method):
            self.tree = m.tree = replace(m.tree, constraints=[some_spring(m)])
        closes = "reduced_dynamics" if method == "cluster-aba" else self.name
        constraints = independent_constraints(m, closes, max(1, m.tree.nv - 1))
        if chosen.get("control") == "actuators" and not m.tree.nu:
            chosen["control"] = "pd"
        if chosen.get("control") != "pd":
            chosen.pop("v_target", None)
        self.is_dependent = self._draws_dependent(quantity, method)
        dependent = self._dependent(m) if self.is_dependent else []
        self.is_dependent &= method != "cluster-aba" or can_close(m.tree, dependent)
        if self.is_dependent:
            constraints = dependent
            chosen |= {"compliance": None} if "compliance" in chosen else {}
        if self.name == "inverse_dynamics" and chosen["friction"] is not None and chosen["motors"] is not None:
            constraints = [ds.Point(some_frames(m)[0])]  # what touches the world
        for option, other in quantity.by_option.items():
            if chosen[option] is None:
                chosen = {name: x for name, x in chosen.items() if name not in other.options - quantity.options}
        if quantity.has_status and method in UNCONSTRAINED:
            constraints = []
        chosen = {name: x(m) if callable(x) else x for name, x in chosen.items() if x is not LEFT_OUT}
        method = ("cluster-efpa", "cluster-pv-osimr")[self.k % 2] if "loops" in chosen else method
        self._fit(chosen, constraints, method)
        if "solver" in chosen:
            constraints = self._with_contacts(chosen, constraints, m)
        if chosen["outputs"] is not None:
            there = [f"{o.name}dt" if o.each else o.name for o in quantity.outputs]
            chosen["outputs"] = there[chosen["outputs"]]
        self.constraints = constraints
        self.options = {**chosen, **({"method": method} if quantity.methods else {})}
        of_request = {name: x for name, x in self.options.items() if name not in OF_KERNELS}
        self.asked = requested(m.tree, constraints, self.name, **of_request)
        self._derive()
        self.program = unoptimised(self.asked, "float64")
        self.programs = {"float64": self.program}
        self.operations = self.program.count().total
        self.size = len(self.program.graph) + sum(len(stage.graph) for stage in self.program.before)

    @property
    def repeats(self):
        """Whether the program has loops, which end where a step is small: of Newton's, its square is the error."""
        return any(stage.is_loop for stage in self.program.before)

    @property
    def is_wide(self):
        return self.options["dtype"] == "float64"

    def _has_springs(self, quantity, chosen, method):
        """Whether the robot's file is to have a spring; in steps it is a soft row, which not all methods take."""
        several = (quantity, *quantity.by_option.values())
        is_row = "dt" in quantity.inputs and chosen.get("integrator") != "rk4"
        takes = all(x.springs == "forces" for x in several) and not (
            is_row
            and (method in (*SOFT, *UNCONSTRAINED, "pv", "cluster-aba") or (method == "pv-early" and chosen["active"]))
        )
        return takes and self.number % 3 == 0

    def _draws_dependent(self, quantity, method):
        """Whether rows are to depend on one another: of what solves for forces of hard ones, and says how."""
        self.of_rows = np.random.default_rng([self.number, crc32(self.name.encode()), self.k, 1])
        takes_any = quantity.judges_rows or ("compliance" in quantity.options and quantity.has_status)
        return takes_any and method not in (*SOFT, *UNCONSTRAINED) and self.of_rows.random() < DEPENDENT

    def _dependent(self, m):
        """Constraints that do at every state; sometimes with others, which do not."""
        several = some_dependent_rows(replace(m, rng=self.of_rows))
        return several[str(self.of_rows.choice([*several]))]

    def _fit(self, chosen, constraints, method):
        """Change what does not go together."""
        n = len(constraints)
        for name in ("compliance", "kd", "impedance"):
            if isinstance(chosen.get(name), list):
                chosen[name] = (chosen[name] * 2)[:n] or OPTIONS[name][0]
        if n and method == "cluster-aba":
            chosen |= {name: OPTIONS[name][0] for name in ("compliance", "active") if name in chosen}
        if "compliance" not in chosen:
            return
        if not constraints or method == "pv":  # takes hard ones only
            chosen["compliance"] = None
        elif method in SOFT:
            chosen["compliance"] = "input"
        elif isinstance(chosen["compliance"], list) and chosen["active"] and method == "pv-early":
            chosen["active"] = False
        elif chosen["compliance"] is not None and method not in ("auto", *HARD_AND_SOFT):
            chosen["compliance"] = None
        if chosen["compliance"] is not None:  # such constraints take no impulses
            chosen.pop("impacts", None)

    def _with_contacts(self, chosen, constraints, m):
        is_derivative = "A" in [o.name for o in QUANTITIES[self.name].outputs]
        loops = [] if is_derivative else constraints[:1]
        if loops:  # which derivatives refuse
            chosen.pop("smoothing")
        if "sensors" in chosen:  # outputs on request, of touch, too; without forces of loops
            turn = [x for x in chosen.pop("sensors") if x.kind != "torque"]
            touch = ds.Sensor("touch", "touch", some_frames(m)[0], within=ds.contact.Box(1.0, 0.8, 0.6))
            chosen |= {} if chosen["outputs"] is None else {"sensors": [*turn, touch]}
        return [*loops, *some_contacts(m, 1 if is_derivative else 2)]

    def _derive(self):
        """Ask for a derivative, by some arguments, of what is not one."""
        rng, self.modes, self.by = self.rng, (), None
        is_short = most_joints(self.asked.quantity) >= 4 and "solver" not in self.options and not self.asked.iterates
        if rng.random() < 0.7 or not (is_short and self.derives) or self.is_dependent:
            return
        names = [a.name for a in self.asked.arguments if not a.flags]
        self.by = sorted(str(x) for x in rng.choice(names, min(len(names), int(rng.integers(1, 3))), replace=False))
        self.modes = (str(rng.choice(MODES)),)
        self.asked = self.asked.differentiated(*self.modes, by=self.by)

    # -- what is right ----------------------------------------------------------------------------------------------

    def states(self, n, dtype):
        """Values of all arguments at n of the usual states, controls beyond what is given."""
        every = np.concatenate(usual_states(self.asked))
        values = split(self.asked.arguments, every[self.rng.permutation(len(every))[:n]])
        for name, factor in (("kp", 1e4), ("kd", 1e4), ("ctrl", 3.0)):
            if name in values:
                values[name] = factor * values[name]
        return {name: x.astype(dtype) for name, x in values.items()}

    def interpreted(self, values, made_for, dtype):
        """Results by name of the program as it is traced for a type of numbers, in numbers of another.

        What counts as round-off is in the program: where loops are closed, how soft what must hold is.
        """
        made_for = np.dtype(made_for).name
        program = self.programs.get(made_for) or unoptimised(self.asked, made_for)
        self.programs[made_for] = program
        n = len(next(iter(values.values())))
        x = np.concatenate([values[a.name].reshape(n, -1) for a in self.asked.arguments], axis=1).astype(dtype)
        flat = np.concatenate(interpret_program(program, x), axis=-1)
        return {r.name: flat[:, list(r.entries)].reshape(n, *r.shape) for r in program.results}


def unoptimised(asked, dtype):
    """Program of a request as it is traced for a type of numbers, no operation merged with another."""
    traced = trace_request(asked, with_rcond=False, dtype=dtype)
    n_inputs = sum(a.size for a in asked.arguments)
    before, graph = cut(traced.ops.graph(traced.computed), traced.ops.loops, n_inputs, lambda graph, _: graph)
    return Program("as_traced", graph, asked.arguments, tuple(traced.results), before=before)


def command_of(name, number, k):
    return f"python tests/generated.py --case {name}:{number}:{k}"
