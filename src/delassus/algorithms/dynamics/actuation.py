"""Joint forces from controls: actuators, and PD control of joints; what is beyond a limit is cut off.

Actuator ``f = clip(gain(l, l̇) clip(u) + bias(l, l̇))``, ``l = Σ ratio q``; on joints ``τ = clip(Σ ratio f)``. PD control
``τ = clip(kp (q* − q) + kd (v* − v))``, of revolute and prismatic joints. Joint forces are cut off at effort limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf, isfinite
from typing import NamedTuple

from delassus.model.actuators import Actuator, Affine
from delassus.model.tree import Tree
from delassus.spatial.ops import Ops, Scalar

State = Sequence[Scalar]

Forces = dict[int, Scalar]
"""Joint forces by degree of freedom, without those that no control acts on."""


def each_actuator(
    ops: Ops, tree: Tree, q: State, v: State, controls: State
) -> Iterator[tuple[Scalar, list[tuple[int, float]]]]:
    """Force of each actuator, and its ratio to that on each degree of freedom."""
    for actuator, control in zip(tree.actuators, controls, strict=True):
        force, _ = _unlimited(ops, tree, actuator, q, v, control)
        yield clipped(ops, force, *actuator.force_range), transmission(tree, actuator)


def transmission(tree: Tree, actuator: Actuator) -> list[tuple[int, float]]:
    """Degrees of freedom that an actuator acts on, and its ratio to each."""
    return [(tree.v_index(joint).start, ratio) for joint, ratio in actuator.transmission.items()]


def _unlimited(
    ops: Ops, tree: Tree, actuator: Actuator, q: State, v: State, control: Scalar
) -> tuple[Scalar, list[Scalar]]:
    """Force of an actuator before it is cut off, and its changes with length and rate."""
    at = {tree.v_index(joint).start: (tree.q_index(joint).start, c) for joint, c in actuator.transmission.items()}

    def affine(factors: Affine) -> Scalar:
        constant, of_length, of_rate = factors
        total: Scalar = constant
        for dof, (coordinate, ratio) in at.items():
            if of_length:
                total = total + (of_length * ratio) * q[coordinate]
            if of_rate:
                total = total + (of_rate * ratio) * v[dof]
        return total

    u = clipped(ops, control, *actuator.control_range)
    force = affine(actuator.gain) * u
    slopes = zip(actuator.gain[1:], actuator.bias[1:], strict=True)
    return force + affine(actuator.bias), [gain * u + bias if gain else bias for gain, bias in slopes]


class Servos(NamedTuple):
    """Stiffness and damping of servos, and of each degree of freedom 1 where its force is not cut off, else 0."""

    stiffness: list[Scalar]
    damping: list[Scalar]
    acting: list[Scalar]


def servos_of_actuators(ops: Ops, tree: Tree, q: State, v: State, controls: State) -> Servos:
    """Those of all actuators: changes of their forces with length and rate, none where the force is cut off."""
    stiffness, damping, tau = list[Scalar](), list[Scalar](), dict[int, Scalar]()
    for actuator, control in zip(tree.actuators, controls, strict=True):
        force, slopes = _unlimited(ops, tree, actuator, q, v, control)
        acts = within(ops, force, *actuator.force_range)
        for out, slope in zip((stiffness, damping), slopes, strict=True):
            out.append(acts * ops.maximum(-slope, 0.0))
        force = clipped(ops, force, *actuator.force_range)
        for dof, ratio in transmission(tree, actuator):
            tau[dof] = tau.get(dof, 0.0) + ratio * force
    return Servos(stiffness, damping, _acting(ops, tree, tau))


def servos_of_joints(
    ops: Ops, tree: Tree, q: State, v: State, target: State, kp: State, kd: State, v_target: State | None = None
) -> Servos:
    """Those of PD control, one for each degree of freedom."""
    stiffness: list[Scalar] = [0.0] * tree.nv
    damping: list[Scalar] = [0.0] * tree.nv
    for joint, sv in zip(tree.joints, tree.v_slices, strict=True):
        if joint.nq == joint.nv == 1:
            k = sv.start
            stiffness[k], damping[k] = (ops.maximum(gain[k], 0.0) for gain in (kp, kd))
    tau = _unlimited_pd(tree, q, v, target, kp, kd, v_target)
    return Servos(stiffness, damping, _acting(ops, tree, tau))


def _acting(ops: Ops, tree: Tree, tau: Mapping[int, Scalar]) -> list[Scalar]:
    limits = tree.effort_limit.tolist()
    return [within(ops, tau[k], -limits[k], limits[k]) if k in tau else 1.0 for k in range(tree.nv)]


def actuator_forces(ops: Ops, tree: Tree, q: State, v: State, controls: State) -> Forces:
    """Joint forces of all actuators."""
    tau: Forces = {}
    for force, ratios in each_actuator(ops, tree, q, v, controls):
        for dof, ratio in ratios:
            tau[dof] = tau[dof] + ratio * force if dof in tau else ratio * force
    return _within_limits(ops, tree, tau)


def pd_forces(
    ops: Ops, tree: Tree, q: State, v: State, target: State, kp: State, kd: State, v_target: State | None = None
) -> Forces:
    """Joint forces that pull towards a target configuration; none on joints of several degrees of freedom."""
    return _within_limits(ops, tree, _unlimited_pd(tree, q, v, target, kp, kd, v_target))


def _unlimited_pd(
    tree: Tree, q: State, v: State, target: State, kp: State, kd: State, v_target: State | None
) -> Forces:
    tau: Forces = {}
    for joint, sq, sv in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True):
        if joint.nq == joint.nv == 1:
            i, k = sq.start, sv.start
            lag = v[k] if v_target is None else v[k] - v_target[k]
            tau[k] = kp[k] * (target[i] - q[i]) - kd[k] * lag
    return tau


def _within_limits(ops: Ops, tree: Tree, tau: Mapping[int, Scalar]) -> Forces:
    limits = tree.effort_limit.tolist()
    return {dof: clipped(ops, x, -limits[dof], limits[dof]) for dof, x in tau.items()}


def within(ops: Ops, x: Scalar, least: float = -inf, most: float = inf) -> Scalar:
    """1 where ``x`` is between two numbers, else 0; a number that is infinite is none."""
    below = ops.less(x, most) if isfinite(most) else 1.0
    return below * ops.less(least, x) if isfinite(least) else below


def clipped(ops: Ops, x: Scalar, least: float = -inf, most: float = inf) -> Scalar:
    """``x`` between two numbers; a number that is infinite is none."""
    if isfinite(most):
        x = ops.minimum(x, most)
    return -ops.minimum(-x, -least) if isfinite(least) else x
