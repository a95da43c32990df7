"""Robots, constraints and options drawn at random: every kernel beside the interpreter of its trace as it is.

    python tests/generated.py --seconds 600              # of this commit, many more cases than `test_generated` has
    python tests/generated.py --case dynamics:81723      # one again

A case is a quantity and a number, which all else is drawn from: robot, constraints, options, derivative, type of
numbers, lanes. What is held to what is in `Case.check`.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import subprocess
import sys
import time
import traceback
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np

import delassus as ds
from internals import (
    QUANTITIES,
    HARD_AND_SOFT,
    SOFT,
    UNCONSTRAINED,
    Actuator,
    NumpyRequest,
    Program,
    RawJoint,
    RawLink,
    check_error_bound,
    cut,
    host,
    interpret_program,
    joint_kinds,
    trace_request,
    usual_states,
)
from random_trees import Mechanism, some_axis, some_constraint, some_joint_rows, some_link, some_rotation, some_tree
from tools import NOTHING, random_frame, requested

ARM = (*[joint_kinds.REVOLUTE] * 3, joint_kinds.PRISMATIC)
MIXED = (*ARM, *joint_kinds.KINDS)
ROOTS = ("fixed", "fixed", "several", "planar", "floating")
TURNS_OR_SLIDES = (joint_kinds.REVOLUTE, joint_kinds.PRISMATIC)

MOST_JOINTS = 12
MOST_OPERATIONS = 12_000
"""Operations of a program up to which it is compiled; a larger one is that of a smaller robot."""

MARGIN = 16.0
"""Round-off of one order of operations over that of another, where one of them has been measured."""

WELL_CONDITIONED = 1e8
"""Condition of rows, and of masses, up to which constraints are drawn at random."""


# -- robots ---------------------------------------------------------------------------------------------------------


def some_robot(rng, most):
    """Mechanism whose joints have springs, damping, friction, limits and armature here and there, and actuators."""
    root, kinds, is_aligned = str(rng.choice(ROOTS)), (ARM, MIXED)[rng.integers(2)], rng.random() < 0.7
    n = max(1, most - int(rng.geometric(0.4)) + 1)
    links, joints = [some_link(rng, "l0")], []
    for k in range(1, n + 1):
        kind = kinds[rng.integers(len(kinds))] if rng.random() > 0.1 else None
        if root == "planar" and k == 1:
            kind = joint_kinds.PLANAR
        parent = k - 1 if rng.random() < 0.6 else int(rng.integers(k))
        parent = 0 if root == "several" and rng.random() < 0.5 else parent
        links.append(some_link(rng, f"l{k}"))
        joint = some_joint(rng, f"j{k}", kind, f"l{parent}", f"l{k}")
        joints.append(aligned(joint, rng) if is_aligned else joint)
    if all(joint.kind is None for joint in joints) and root != "floating":
        joints[0] = replace(joints[0], kind=joint_kinds.REVOLUTE)
    tree = some_tree(links, joints, "floating" if root == "floating" else "fixed", rng)
    turning = [joint.name for joint in joints if joint.kind in TURNS_OR_SLIDES]
    motors = tuple(some_actuator(rng, f"a{k}", turning) for k in range(int(rng.integers(3)))) if turning else ()
    at = str(rng.choice([link.name for link in links[1:]]))
    lifted = {at: np.array([0.7, 0.01, 0.0, 0.02])} if rng.random() < 0.3 and tree.placement(at).link >= 0 else {}
    tree = replace(tree, actuators=motors, gravity_compensation=lifted)
    return Mechanism(links, joints, tree, rng, root == "floating")


def some_joint(rng, name, kind, parent, child):
    one, springs = kind in TURNS_OR_SLIDES, kind is not None and kind.has_springs

    def often(part, least, most):
        return float(rng.uniform(least, most)) if rng.random() < part else 0.0

    limits = {"lower": -float(rng.uniform(0.2, 2.0)), "upper": float(rng.uniform(0.2, 2.0))}
    return RawJoint(
        name, kind, parent, child,
        position=rng.uniform(-0.4, 0.4, 3) * (rng.random(3) < 0.8), rotation=some_rotation(rng), axis=some_axis(rng),
        armature=often(0.3, 0.01, 0.3), damping=often(0.3, 0.1, 0.5), friction=often(0.3, 0.1, 0.5) * one,
        stiffness=often(0.3, 1.0, 5.0) * springs, rest_position=often(0.5, -0.4, 0.4) * springs,
        effort_limit=float(rng.uniform(1.0, 5.0)) if rng.random() < 0.5 else np.inf,
        **(limits if one and rng.random() < 0.4 else {}),
    )  # fmt: skip


def aligned(joint, rng):
    """The joint with axes that are those of coordinates."""
    return replace(joint, rotation=np.eye(3), axis=np.eye(3)[rng.integers(3)])


def some_actuator(rng, name, joints):
    """A motor or a servo on one or two joints, whose controls or forces are cut off."""
    met = rng.choice(joints, min(int(rng.integers(1, 3)), len(joints)), replace=False)
    ratios = {str(joint): float(rng.uniform(0.5, 2.0)) for joint in met}
    if rng.random() < 0.5:
        return Actuator(name, ratios, control_range=(-1.5, 1.5))
    return Actuator(name, ratios, (20.0, 0.0, 0.0), (0.0, -20.0, -1.0), force_range=(-2.5, 2.5))


# -- constraints ----------------------------------------------------------------------------------------------------


def some_rows(mechanism):
    """A constraint of any kind."""
    rng = mechanism.rng
    choice = int(rng.integers(8))
    if choice < 4:
        return some_constraint(mechanism, mechanism.names)[0]
    if choice == 4:
        return some_joint_rows(mechanism, 2)[0]
    if choice == 5:
        return ds.CenterOfMass()
    a, *b = some_pair(mechanism)
    if choice == 6:
        return ds.Orientation(a, *b, axis=some_axis(rng) if rng.random() < 0.5 else None)
    return ds.Distance(a, *(b or [ds.Frame("world", rng.normal(size=3))]))


def some_pair(mechanism):
    """A frame on one link, and often one on another; some come with each call."""
    rng, tree = mechanism.rng, mechanism.tree
    first = str(rng.choice(mechanism.names[1:]))
    others = [n for n in mechanism.names if tree.placement(n).link != tree.placement(first).link]
    pair = [first, *([str(rng.choice(others))] if others and rng.random() < 0.7 else [])]
    given = [*rng.choice(["position", "placement"], 1), None, None, None]
    return [
        ds.Frame(name, given=str(how)) if how else random_frame(rng, name)
        for name, how in ((name, given[rng.integers(4)]) for name in pair)
    ]


def some_constraints(mechanism, name, most_rows):
    """Up to three, together independent at a random state, or any where they are to be dependent."""
    rng, chosen = mechanism.rng, []
    for _ in range(int(rng.integers(4))):
        try:
            wanted = [*chosen, some_rows(mechanism)]
            asked = requested(mechanism.tree, wanted, "delassus")
            if name == "reduced_dynamics":
                assert requested(mechanism.tree, wanted, name).independent is not None
        except ds.errors.ConstraintError:  # of a link that does not move, or loops that never close
            continue
        if sum(c.size for c in wanted) <= most_rows and are_independent(asked):
            chosen = wanted
    return chosen


def are_independent(asked):
    """Whether the rows of a request are, at all usual states, as far as matters here."""
    q = np.concatenate(usual_states(asked))
    G = NumpyRequest(asked, split(asked.arguments, q), (len(q),)).run()["G"]
    d = np.sqrt(np.diagonal(G, axis1=1, axis2=2))
    if not np.all(d > 1.0 / WELL_CONDITIONED):
        return False
    return bool(np.all(np.linalg.cond(G / (d[:, :, None] * d[:, None])) < WELL_CONDITIONED)) if d.size else True


def some_contacts(mechanism):
    rng, chosen = mechanism.rng, []
    moving = [n for n in mechanism.names[1:] if mechanism.tree.placement(n).link >= 0]
    for _ in range(int(rng.integers(1, 3))):
        frame = random_frame(rng, str(rng.choice(moving)))
        shape = ds.contact.Sphere(0.5) if rng.random() < 0.7 else ds.contact.Capsule(0.2, 0.3)
        ground = "input" if rng.random() < 0.3 else "plane"
        chosen.append(ds.Contact(frame, shape, ground, friction=0.6, restitution=0.2 * (rng.random() < 0.3)))
    return chosen


def split(arguments, states):
    """Values by name, (…, *shape), of states (…, numbers of all arguments)."""
    at, values = 0, {}
    for a in arguments:
        values[a.name] = states[..., at : at + a.size].reshape(*states.shape[:-1], *a.shape)
        at += a.size
    return values


# -- options --------------------------------------------------------------------------------------------------------

(KEYWORDS,) = get_type_hints(ds.compile)["options"].__args__
CHOICES = {name: get_args(hint) for name, hint in get_type_hints(KEYWORDS).items()}
LEFT_OUT = object()


def some_frames(m, least=1):
    names = [n for n in m.names[1:] if m.tree.placement(n).link >= 0]
    some = m.rng.choice(names, min(len(names), int(m.rng.integers(least, 3))), replace=False)
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


HEAVY = {"contact": 2, "derivatives": 3, "changes": 4, "smooth": 3, "step": 4, "reduced": 5, "control": 5}
"""Most joints by parts of names of quantities whose programs are long."""


def most_joints(quantity):
    several = [most for part, most in HEAVY.items() if part in quantity.name]
    return min([*several, 5 if quantity.has_status else MOST_JOINTS])


@dataclass
class Case:
    """A quantity of a robot, drawn from a number; ``k`` moves all options on by so many values: none is left out."""

    name: str
    number: int
    k: int = 0

    def __post_init__(self):
        most = most_joints(QUANTITIES[self.name])
        while True:
            self._draw(np.random.default_rng(self.number), most)
            if most == 1 or self.size <= MOST_OPERATIONS:
                return
            most //= 2

    @property
    def command(self):
        return command_of(self.name, self.number, self.k)

    def _draw(self, rng, most):
        quantity, self.rng = QUANTITIES[self.name], rng
        self.mechanism = m = some_robot(rng, most if rng.random() < 0.2 else min(most, 6))
        self.tree = m.tree
        values, methods = taken(quantity)
        chosen = {
            name: several[(int(rng.integers(len(several))) + self.k) % len(several)]
            for name, several in sorted(values.items())
        }
        method = methods[(int(rng.integers(len(methods))) + self.k) % len(methods)]
        constraints = some_constraints(m, self.name, max(1, m.tree.nv - 1))
        if chosen.get("control") == "actuators" and not m.tree.nu:
            chosen["control"] = "pd"
        if chosen.get("control") != "pd":
            chosen.pop("v_target", None)
        if self.name == "inverse_dynamics" and chosen["friction"] is not None and chosen["motors"] is not None:
            constraints = [ds.Point(some_frames(m)[0])]  # what touches the world
        for option, other in quantity.by_option.items():
            if chosen[option] is None:
                chosen = {name: x for name, x in chosen.items() if name not in other.options - quantity.options}
        if quantity.has_status and method in UNCONSTRAINED:
            constraints = []
        chosen = {name: x(m) if callable(x) else x for name, x in chosen.items() if x is not LEFT_OUT}
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
        self.program = unoptimised(self.asked)
        self.operations = self.program.count().total
        self.size = len(self.program.graph) + sum(len(stage.graph) for stage in self.program.before)

    def _fit(self, chosen, constraints, method):
        """Change what does not go together."""
        n = len(constraints)
        for name in ("compliance", "kd", "impedance"):
            if isinstance(chosen.get(name), list):
                chosen[name] = (chosen[name] * 2)[:n] or OPTIONS[name][0]
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
        loops = [] if "A" in [o.name for o in QUANTITIES[self.name].outputs] else constraints[:1]
        if loops:  # which derivatives refuse
            chosen.pop("smoothing")
        if "sensors" in chosen:  # outputs on request, of touch, too; without forces of loops
            turn = [x for x in chosen.pop("sensors") if x.kind != "torque"]
            touch = ds.Sensor("touch", "touch", some_frames(m)[0], within=ds.contact.Box(1.0, 0.8, 0.6))
            chosen |= {} if chosen["outputs"] is None else {"sensors": [*turn, touch]}
        return [*loops, *some_contacts(m)]

    def _derive(self):
        """Ask for a derivative, by some arguments, of what is not one."""
        rng, self.modes, self.by = self.rng, (), None
        is_short = most_joints(self.asked.quantity) >= 4 and "solver" not in self.options and not self.asked.iterates
        if rng.random() < 0.7 or not is_short:
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
        for name in {"kp", "kd"} & values.keys():
            values[name] = 1e4 * values[name]
        return {name: x.astype(dtype) for name, x in values.items()}

    def interpreted(self, values, dtype):
        """Results by name of the program as it is traced, in numbers of that type."""
        n = len(next(iter(values.values())))
        x = np.concatenate([values[a.name].reshape(n, -1) for a in self.asked.arguments], axis=1).astype(dtype)
        flat = np.concatenate(interpret_program(self.program, x), axis=-1)
        return {r.name: flat[:, list(r.entries)].reshape(n, *r.shape) for r in self.program.results}


def unoptimised(asked):
    """Program of a request as it is traced, no operation merged with another."""
    traced = trace_request(asked, with_rcond=False)
    n_inputs = sum(a.size for a in asked.arguments)
    before, graph = cut(traced.ops.graph(traced.computed), traced.ops.loops, n_inputs, lambda graph, _: graph)
    return Program("as_traced", graph, asked.arguments, tuple(traced.results), before=before)


def scale_of(expected):
    """What errors of states (n, …) are relative to, (n,): their largest entries, of small ones that of most."""
    sizes = np.max(np.abs(expected).reshape(len(expected), -1), axis=1, initial=0.0).astype(float)
    sizes = np.maximum(sizes, np.median(sizes[np.isfinite(sizes)])) if np.isfinite(sizes).any() else sizes
    return np.where(sizes > NOTHING, sizes, 1.0)


def errors_of(found, expected, places=slice(None)):
    """Largest difference of each state (n,), or of those at some places, relative."""
    with np.errstate(all="ignore"):
        difference = np.abs(found - expected[places])
        state = tuple(range(difference.ndim - expected.ndim + 1, difference.ndim))
        return np.max(difference, axis=state, initial=0.0).astype(float) / scale_of(expected)[places]


class Check:
    """All kernels of a case, beside its interpreted program and what is computed at once; raises `AssertionError`."""

    def __init__(self, case):
        self.case, self.options = case, {name: case.options[name] for name in OF_KERNELS if name in case.options}
        self.kernel = ds.Kernel(
            case.asked, self.options["dtype"], self.options.get("lanes") or host().lanes(self.options["dtype"]),
            error_bound=self.options.get("error_bound"),
        )  # fmt: skip
        self.lanes, self.dtype = self.kernel.lanes, self.kernel.dtype
        self.n, self.limits = 2 * self.lanes + 3, {}
        self.values = case.states(self.n, self.dtype)

    def run(self):
        self.reference()
        self.block()
        self.ones()
        self.ways_to_call()

    def reference(self):
        """Right numbers, their round-off as they were traced, and of solutions the status of each state."""
        case, wide = self.case, {k: x.astype(float) for k, x in self.values.items()}
        exact = case.interpreted(self.values, np.longdouble)
        self.expected, self.solved, self.status = exact, self.converged(exact), None
        if not case.modes:
            request = NumpyRequest(case.asked, wide, (self.n,))
            direct, estimate = request.run(), 0.0
            if case.asked.has_status:
                self.status, estimate = request.status, np.max([x.error for x in request.resolved], axis=0)
                self.solved = self.solved & (self.status == ds.DynamicsStatus.SOLVED)
            for name, x in direct.items():
                noise = errors_of(case.interpreted(self.values, float)[name], exact[name])
                self.hold("at once", name, x, exact[name], self.bound(noise, estimate))
        self.noise = {name: errors_of(x, exact[name]) for name, x in case.interpreted(self.values, self.dtype).items()}

    def converged(self, exact):
        """States whose contacts are solved as far as they are to be."""
        if "residuals" not in exact:
            return np.ones(self.n, dtype=bool)
        tolerance = self.case.asked.options.tolerance
        solved = np.max(np.abs(exact["residuals"]), axis=1) <= tolerance
        return solved & (exact["distance"] > 100 * tolerance) if "distance" in exact else solved

    def bound(self, noise, estimate=0.0):
        """Largest relative error: round-off of all operations, what is measured and estimated, where iterations end."""
        last = 100 * self.case.asked.options.tolerance if self.kernel.iterates else 0.0
        return MARGIN * noise + estimate + np.finfo(self.dtype).eps * max(self.case.operations, 1) + last

    def hold(self, what, name, found, expected, bound, places=slice(None)):
        if name == "residuals" or (name.startswith("impulses") and self.kernel.iterates):
            return  # anywhere below the tolerance; of dependent rows not the only ones
        error = errors_of(found, expected, places)
        finite = np.isfinite(expected.astype(float)).reshape(self.n, -1).all(axis=1)
        wrong = np.atleast_1d((self.solved & finite)[places] & ~(error <= np.broadcast_to(bound, self.n)[places]))
        assert not wrong.any(), (
            f"{what}, {name}: {np.max(np.where(wrong, error, 0.0)):.3g} off in {wrong.sum()} of {len(wrong)} states, "
            f"bound {np.min(bound):.3g}; again by: {self.case.command}"
        )

    def block(self):
        """A batch, by lanes; what machine code solves, and what is solved again."""
        *found, error = self.called(self.values, return_error=True)
        self.plain = error <= error_bound_of(self.kernel)  # others are solved again, in batches of their own
        estimate = np.where(error < 1.0, error, np.inf)
        for r, x in zip(self.kernel.results, found, strict=True):
            self.limits[r.name] = self.bound(self.noise[r.name], estimate)
            self.hold("a batch", r.name, x, self.expected[r.name], self.limits[r.name])
        self.of_block = found

    def ones(self):
        """Fewer states than lanes: code of its own."""
        k = int(self.case.rng.integers(self.n))
        self.of_one = self.called(self.part(k))
        for r, x in zip(self.kernel.results, self.of_one, strict=True):
            self.hold("one state", r.name, x, self.expected[r.name], self.limits[r.name], k)
        for batch in {1, self.lanes - 1} - {0}:
            at = [(k + i) % self.n for i in range(batch)]
            if self.lanes > 1 and self.plain[at].all():
                self.same(f"a batch of {batch}", [x[0] for x in self.called(self.part(at))], self.of_one)

    def ways_to_call(self):
        """The same numbers, bit for bit, however arrays are handed over, and from any number of states on."""
        if not self.plain.all():
            return
        rng, n = self.case.rng, self.n
        first = n - self.lanes
        for start in {0, first, first - 1}:  # as many as lanes, and one more: the same code
            found = self.called(self.part(slice(start, n)))
            self.same(f"the last {n - start}", found, [x[start:] for x in self.of_block])
        apart = {name: np.repeat(x, 2, axis=0)[::2] for name, x in self.values.items()}
        turned = {name: np.asfortranarray(x) for name, x in self.values.items()}
        self.same("arrays with gaps", self.called(apart), self.of_block)
        self.same("columns first", self.called(turned), self.of_block)
        self.same("positions", as_tuple(self.kernel(*self.values.values())), self.of_block)
        self.same("two threads", self.called(self.values, threads=2), self.of_block)
        out = self.kernel.empty_results(n)
        assert self.kernel(*self.values.values(), out=out) is out
        self.same("out", as_tuple(out), self.of_block)
        held = rng.permutation([*self.values])[: len(self.values) - 1]
        shared = {name: x[:1].repeat(n, axis=0) if name in held else x for name, x in self.values.items()}
        spread = {name: x[0] if name in held else x for name, x in self.values.items()}
        self.same("arguments of one state beside a batch", self.called(spread), self.called(shared))
        grid = {name: x[None].repeat(2, axis=0) for name, x in self.values.items()}
        self.same("two axes", [x[1] for x in self.called(grid)], self.of_block)

    def part(self, at):
        return {name: np.array(x[at], order="C") for name, x in self.values.items()}

    def same(self, what, found, expected):
        for r, x, y in zip(self.kernel.results, found, expected, strict=True):
            assert x.dtype == y.dtype and x.shape == y.shape and np.array_equal(x, y, equal_nan=True), (
                f"{what}, {r.name}: not the same bits; again by: {self.case.command}"
            )

    def called(self, values, **asked):
        if asked.get("return_error") and not self.kernel.has_rcond:
            return *self.called(values), np.zeros(self.n)
        return as_tuple(self.kernel(**values, **asked))


def as_tuple(found):
    return tuple(found) if isinstance(found, tuple | list) else (found,)


def error_bound_of(kernel):
    return check_error_bound(kernel.error_bound, kernel.dtype.name)


# -- all of them ----------------------------------------------------------------------------------------------------

FOUND = ()
"""Cases that have found a fault, and which."""


def commit_number():
    """Number that follows the commit, or where there is none the sources."""
    here = Path(__file__).parent
    known = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=False)
    if known.returncode:
        sources = sorted(Path(ds.__file__).parent.rglob("*.py"))
        return int(hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:7], 16)
    return int(known.stdout[:7], 16)


def run(name, number, k=0):
    """Draw a case and check it; what fails says how to do it again."""
    case = None
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", ds.DelassusWarning)
            case = Case(name, number, k)
            Check(case).run()
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"{command_of(name, number, k)}: {type(error).__name__}: {error}") from error
    return case


def command_of(name, number, k):
    return f"python tests/generated.py --case {name}:{number}:{k}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="instead of that of the commit")
    parser.add_argument("--case", help="one case, as an assertion names it")
    parser.add_argument("--only", nargs="*", help="names of quantities")
    parser.add_argument("--first", action="store_true", help="end at the first fault")
    asked = parser.parse_args()
    if asked.case:
        name, *numbers = asked.case.split(":")
        run(name, *map(int, numbers))
        return
    number = commit_number() if asked.seed is None else asked.seed
    end, failed, done, every = time.monotonic() + asked.seconds, 0, 0, [*cases()]
    while time.monotonic() < end:
        name, k = every[done % len(every)]
        if not asked.only or name in asked.only:
            try:
                run(name, number + done, k + done // len(every))
            except AssertionError as error:
                failed += 1
                print(error, flush=True)
                if error.__cause__ is not None:
                    traceback.print_exception(error.__cause__, limit=-3)
                if asked.first:
                    break
        done += 1
    print(f"{done} cases from {number} on, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
