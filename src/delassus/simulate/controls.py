"""What steps of a simulator are given: joint forces, controls of actuators, or target configurations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from delassus.algorithms.dynamics.actuation import Servos, transmission
from delassus.api.inverse_dynamics import bias_force
from delassus.api.osim import mass_matrix
from delassus.contact.scene import Scene
from delassus.contact.sparse.springs import Pull
from delassus.errors import ConfigurationError, shown
from delassus.frozen import cached_property
from delassus.model.check import finite_array, real_array
from delassus.model.topology import characteristic_length
from delassus.quantities.keywords import Control
from delassus.quantities.quantity import CONTROLS
from delassus.runtime.compile import compile_at_once as compile_kernel
from delassus.runtime.kernel import Kernel
from delassus.simulate.state import one_state
from delassus.spatial.joint_kinds import PRISMATIC
from delassus.spatial.rotations import Array

ControlRates = tuple[Array, Array, Array]
"""Changes of joint forces with positions, velocities and controls."""


MOST_STEPS = 2**40
"""Of a run: years of computing."""


SAG = 0.05
"""Deflection of a servo that holds a robot, under its largest load: in rad, or in lengths of the robot for slides."""

FASTEST = 500.0
"""Largest natural frequency of such a servo with its own links (rad/s)."""

STANDARD_GRAVITY = 9.81
"""Gravity that these servos are made for (m/s²)."""


def check_controller(controller: Any) -> None:
    """Refuse what is neither None nor a function of the simulator."""
    if controller is not None and not callable(controller):
        raise ConfigurationError(
            "controller", "a function of the simulator", shown(controller), "Constant forces: lambda sim: tau."
        )


class Controls:
    """Joint forces (nv,) of what steps are given; ``given`` is that of the last one, with the state.

    Steps that are given none have the scene's controls (nu,), or the target that holds its start. ``pulls`` are what
    servos act on; ``servos`` are their stiffness and damping in the last step, and 1 of degrees of freedom (nv,) within
    effort limits, else 0.
    """

    def __init__(self, scene: Scene, control: Control, kp: ArrayLike | None, kd: ArrayLike | None) -> None:
        self.tree, self.control, self.scene, none = (tree := scene.tree), control, scene, np.zeros(scene.tree.nv)
        if control == "pd" and kp is None and kd is None:
            kp, kd = holding_gains(scene)
        self.kp, self.kd = (
            finite_array(none if gain is None else gain, (tree.nv,), name, "One number for each degree of freedom.")
            for name, gain in (("kp", kp), ("kd", kd))
        )
        self.given: list[Any] = []
        self.none = none
        pulls = self._pulls()
        self._stiff, self.pulls = np.array([*pulls], np.int64), [*pulls.values()]
        self.servos: tuple[Array, Array, Array] | None = None
        if control != "tau":
            self._forces = self._kernel("control_forces", outputs=("tau", *Servos._fields))

    def _pulls(self) -> dict[int, Pull]:
        """What servos act on, by their numbers, of those that pull back at some state."""
        tree = self.tree
        if self.control == "actuators":
            of_each = (dict(transmission(tree, a)) for a in tree.actuators)
            return {
                k: Pull(ratios)
                for k, (a, ratios) in enumerate(zip(tree.actuators, of_each, strict=True))
                if any((*a.gain[1:], *a.bias[1:])) and ratios
            }
        if self.control != "pd":
            return {}
        one = [at.start for joint, at in zip(tree.joints, tree.v_slices, strict=True) if joint.nq == joint.nv == 1]
        return {dof: Pull({dof: 1.0}) for dof in one if self.kp[dof] > 0.0 or self.kd[dof] > 0.0}

    def _kernel(self, what: str, **options: Any) -> Kernel:
        own = {"control": self.control, "v_target": self.control == "pd", **options}
        kernel: Kernel = compile_kernel(self.tree, (), what, **own)
        return kernel

    @cached_property
    def held(self) -> Array:
        """Target (nq,) that holds the start: deflected so that servos carry the weight of the links beyond them."""
        tree, q = self.tree, np.array(self.scene.start)
        load = np.clip(bias_force(tree, q, np.zeros(tree.nv)), -tree.effort_limit, tree.effort_limit)
        for joint, at, dof in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True):
            if joint.nq == joint.nv == 1 and self.kp[dof.start] > 0.0:
                q[at] += load[dof] / self.kp[dof]
        return q

    @cached_property
    def _changes(self) -> Kernel:
        return self._kernel("control_force_changes")

    def rates(self, given: Sequence[Any]) -> ControlRates | None:
        """Changes at what was ``given``; None where joint forces are controls."""
        return None if self.control == "tau" else tuple(self._changes(*given))

    @property
    def width(self) -> int:
        """How many numbers steps are given."""
        return {"tau": self.tree.nv, "actuators": self.tree.nu, "pd": self.tree.nq}[self.control]

    def _check_size(self, given: ArrayLike | None) -> None:
        """Refuse another size than that of the control; say which control has it."""
        array, tree = None if given is None else real_array(given), self.tree
        if array is None or array.shape == (self.width,):
            return
        kinds = {
            "tau": (tree.nv, "joint forces", "velocity"),
            "actuators": (tree.nu, "controls", "actuator"),
            "pd": (tree.nq, "targets", "number of q"),
        }
        fits = [f"control={name!r} ({what})" for name, (n, what, _) in kinds.items() if n and array.shape == (n,)]
        _, wanted, each = kinds[self.control]
        advice = f"Make the simulator with {' or '.join(fits)}." if fits else f"Pass one number for each {each}."
        expected = f"{wanted}, shape ({self.width},)"
        raise ConfigurationError(CONTROLS[self.control][0], expected, f"shape {array.shape}", advice)

    def forces(self, q: Array, v: Array, given: ArrayLike | None, v_target: ArrayLike | None) -> Array:
        """Joint forces at a state, as `Simulator.step` takes controls."""
        tree = self.tree
        if v_target is not None and self.control != "pd":
            advice = "Leave it out, or pass control='pd'."
            raise ConfigurationError("v_target", "none without control='pd'", shown(v_target), advice)
        self._check_size(given)
        if self.control == "tau":
            return self.none if given is None else one_state("tau", tree.check_velocity(given, "tau"))
        if self.control == "actuators":
            given = self.scene.start_controls if given is None else given
            self.given = [q, v, finite_array(given, (tree.nu,), "ctrl", "Pass one number for each actuator.")]
        else:
            given = self.held if given is None else given
            target = finite_array(given, (tree.nq,), "q_target", "Pass a configuration.")
            v_target = np.zeros(tree.nv) if v_target is None else v_target
            towards = finite_array(v_target, (tree.nv,), "v_target", "Pass a velocity.")
            self.given = [q, v, target, self.kp, self.kd, towards]
        tau, stiffness, damping, acting = (np.asarray(x) for x in self._forces(*self.given))
        self.servos = stiffness[self._stiff], damping[self._stiff], acting
        return tau


def holding_gains(scene: Scene) -> tuple[Array, Array]:
    """Gains ``kp``, ``kd`` (nv,) of servos that hold a scene's robots at its start, whatever the robots are.

    A servo gives way by `SAG` under the effort limit of its joint, or under the robot's weight at the robot's length
    where that is less. It is as damped as the whole robot at that length needs. Neither is more than its own links can
    follow in a millisecond: a servo whose force is cut off at the limit would not come to rest.
    """
    tree, kp, kd = scene.tree, np.zeros(scene.tree.nv), np.zeros(scene.tree.nv)
    inertia = np.diag(mass_matrix(tree, scene.start))
    for name, robot in scene.robots.items():
        length, first = characteristic_length(robot), scene.v_slice(name).start
        for joint, at in zip(robot.joints, robot.v_slices, strict=True):
            if not joint.nq == joint.nv == 1:
                continue
            k, arm, way = first + at.start, *((1.0, SAG * length) if joint.kind is PRISMATIC else (length, SAG))
            most = min(float(joint.effort_limit[0]), robot.mass * STANDARD_GRAVITY * arm)
            kp[k] = min(most / way, FASTEST**2 * inertia[k])
            damping = 2.0 * np.sqrt(kp[k] * max(robot.mass * arm**2, inertia[k]))
            kd[k] = min(damping, 2.0 * FASTEST * inertia[k])
    return kp, kd
