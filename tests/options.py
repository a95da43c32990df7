"""Values of every option of every quantity, and what public functions take of them: `generated` draws from these.

What is new in the library is met without a change here, or `test_generated` names it.
"""

from __future__ import annotations

import inspect
from typing import get_args, get_type_hints

import numpy as np

import delassus as ds
from internals import QUANTITIES
from random_trees import TURNS_OR_SLIDES
from tools import random_frame

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
    # of `compile` itself
    "dtype": ("float64", "float64", "float32"),
    "lanes": (None, 1, 2, 4, 8),
    "payloads": ((), lambda m: [m.tree.link_names[-1]]),
    "error_bound": (None, 1e-3),
    "outputs": (None, slice(None, None, -1)),
    "packed": (False, True),
}
"""Values of options as `delassus.compile` takes them, what is not given first; which outputs, by their places."""

COMPILED = [name for name in [*inspect.signature(ds.compile).parameters][4:-1] if name != "target"]
"""Options that `delassus.compile` itself has, but for the method; a GPU has tests of its own."""

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


OPERATORS = {"delassus_operator", "inverse_dynamics_derivatives"}
"""Public functions of states that are of no quantity, or derivatives of one."""

FUNCTIONS = {
    **{name: (name,) for name in QUANTITIES if name in ds.__all__},
    "kinematics": ("forward_kinematics",),
    "dynamics": ("forward_dynamics",),
    "energies": ("kinetic_energy", "potential_energy"),
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
    if case.name == "inverse_dynamics" and chosen["motors"] is None:
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
