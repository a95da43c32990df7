"""Joint forces from controls: actuators, and PD control of joints; what is beyond a limit is cut off.

Actuator ``f = clip(gain(l, l̇) clip(u) + bias(l, l̇))``, ``l = Σ ratio q``; on joints ``τ = clip(Σ ratio f)``. PD control
``τ = clip(kp (q* − q) + kd (v* − v))``, of revolute and prismatic joints. Joint forces are cut off at effort limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf, isfinite

from delassus.model.actuators import Affine
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
        at = {tree.v_index(joint).start: (tree.q_index(joint).start, c) for joint, c in actuator.transmission.items()}

        def affine(factors: Affine, at: dict[int, tuple[int, float]] = at) -> Scalar:
            constant, of_length, of_rate = factors
            total: Scalar = constant
            for dof, (coordinate, ratio) in at.items():
                if of_length:
                    total = total + (of_length * ratio) * q[coordinate]
                if of_rate:
                    total = total + (of_rate * ratio) * v[dof]
            return total

        force = affine(actuator.gain) * clipped(ops, control, *actuator.control_range)
        force = clipped(ops, force + affine(actuator.bias), *actuator.force_range)
        yield force, [(dof, ratio) for dof, (_, ratio) in at.items()]


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
    tau: Forces = {}
    for joint, sq, sv in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True):
        if joint.nq == joint.nv == 1:
            i, k = sq.start, sv.start
            lag = v[k] if v_target is None else v[k] - v_target[k]
            tau[k] = kp[k] * (target[i] - q[i]) - kd[k] * lag
    return _within_limits(ops, tree, tau)


def _within_limits(ops: Ops, tree: Tree, tau: Mapping[int, Scalar]) -> Forces:
    limits = tree.effort_limit.tolist()
    return {dof: clipped(ops, x, -limits[dof], limits[dof]) for dof, x in tau.items()}


def clipped(ops: Ops, x: Scalar, least: float = -inf, most: float = inf) -> Scalar:
    """``x`` between two numbers; a number that is infinite is none."""
    if isfinite(most):
        x = ops.minimum(x, most)
    return -ops.minimum(-x, -least) if isfinite(least) else x
