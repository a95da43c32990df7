"""Sensors: declarations."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

from delassus.algorithms.contact.solution import StepSolution
from delassus.algorithms.contact.step import KernelStep
from delassus.algorithms.dynamics import METHODS
from delassus.algorithms.dynamics.actuation import each_actuator
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.sensors import (
    Caused,
    Measurements,
    contact_forces,
    contact_wrenches,
    mean_accelerations,
    spin_wrenches,
    touch,
)
from delassus.constraints.sensors import FORCES, Sensor, check_no_loops
from delassus.errors import ConfigurationError
from delassus.model.edit.massless import require_inertia
from delassus.quantities.bound_request import BoundRequest
from delassus.quantities.options import CONSTRAINED, CONTROLLED, MOTION
from delassus.quantities.quantity import Output, Quantity
from delassus.spatial.ops import Matrix, Scalar


def _sensors(bound: BoundRequest) -> list[Matrix]:
    motion = bound.motion()

    def caused() -> Caused:
        require_inertia(bound.request.tree, bound.request.payloads)
        solution, ops = bound.solve(motion), bound.ops
        qdd = [ops.take(solution.qdd, range(at.start, at.stop), None) for at in motion.tree.v_slices]
        forces = dict[int, Matrix]()
        for end in motion.problem.end_effectors:
            at = motion.problem.rows[end.constraint]
            force = ops.transpose(end.K) @ ops.take(solution.forces, range(at.start, at.stop), None)
            forces[end.link] = forces[end.link] + force if end.link in forces else force
        return qdd, forces

    return [_measured(bound, motion, caused)]


def _motion_sensors(bound: BoundRequest) -> list[Matrix]:
    motion = bound.motion()
    return [_measured(bound, motion, lambda: (motion.per_joint(bound.values["qdd"]), {}))]


def stepped_sensors(bound: BoundRequest, step: KernelStep, found: StepSolution) -> Matrix:
    """Numbers of all sensors that are asked for (n × 1), after a step with contacts."""
    options, own = bound.request.options, copy(bound)
    check_no_loops([c for c in bound.constraints if c.frames and not c.n_impulses], options.sensors)
    own.tree = bound.request.tree  # single links of the step's own have no physical meaning
    start = own.motion(v=None if found.impact is None else found.start)
    touching, motion = found.place(step).problem, start.at_state(found.q, found.v, [])
    forces = contact_forces(touching, found.impulses, step.over_h)
    if any(x.kind in FORCES for x in options.sensors):
        of_spins = found.impulses[len(found.impulses) - len(step.lengths) :]
        for link, wrench in [
            *contact_wrenches(start.problem, forces).items(), *spin_wrenches(start.problem, of_spins, step.over_h)
        ]:  # fmt: skip
            motion.wrenches[link] = motion.wrenches[link] + wrench if link in motion.wrenches else wrench
    states = (step.q, step.v), (found.q, found.v)
    return _measured(
        own,
        motion,
        lambda: (mean_accelerations(bound.ops, own.tree, *states, step.over_h), {}),
        lambda sensor: touch(touching, forces, sensor),
        found.start,
    )


def _untouched(sensor: Sensor) -> Scalar:
    """Refuse what forces of contacts are in where nothing says what touches."""
    advice = ("Compile 'contact_step' with outputs=(…, 'sensors'), call `Simulator.sensors`, or pass sensors= of other "
              "kinds: [x for x in tree.sensors if x.kind != 'touch'].")  # fmt: skip
    raise ConfigurationError(f"sensor {sensor.name!r}", "contacts", "motion in which nothing touches", advice)


def _measured(
    bound: BoundRequest,
    motion: DynamicsProblem,
    caused: Callable[[], Caused],
    touched: Callable[[Sensor], Scalar] = _untouched,
    start: Any = None,
) -> Matrix:
    """Numbers of all sensors that are asked for (n × 1); ``start`` is the velocity that controls act at, v if None."""
    options, read = bound.request.options, bound.entries

    def actuators() -> list[Scalar]:
        if options.control != "actuators":
            forces = [s.name for s in options.sensors if s.kind == "actuatorfrc"]
            advice = "Pass control='actuators', and controls in the place of tau, or sensors= without these."
            came = f"control={options.control!r}, which says nothing of actuators"
            raise ConfigurationError(f"sensors {', '.join(forces)}", "controls of actuators", came, advice)
        v = read("v") if start is None else start
        return [force for force, _ in each_actuator(bound.ops, bound.tree, read("q"), v, read("ctrl"))]

    found = Measurements(motion, caused, actuators, touched)
    return bound.ops.vstack([found.of(sensor) for sensor in options.sensors])


NUMBERS = Output("sensors", ("sensors",), "numbers of all sensors, one after the other, in SI units")
SENSORS = Quantity(
    "sensors",
    "Sensors",
    ("q", "v", "tau"),
    (NUMBERS,),
    _sensors,
    methods=tuple(METHODS),
    options=CONSTRAINED | CONTROLLED | {"sensors"},
    has_status=True,
    springs="forces",
)
MOTION_SENSORS = Quantity(
    "motion_sensors",
    "Sensors at given accelerations",
    ("q", "v", "qdd", "tau"),
    (NUMBERS,),
    _motion_sensors,
    options=MOTION | CONTROLLED | {"sensors"},
    is_private=True,
)
