"""Tables of `docs/names.md`: every row by its left cell, both sides computed on one robot, and the names in it.

Drake is no dependency of the tests: its rows are skipped where it is not installed (``pip install drake``).
"""

from __future__ import annotations

import inspect
import re
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import delassus as ds
from internals import (
    acceleration_from_mujoco,
    acceleration_to_mujoco,
    configuration_from_mujoco,
    velocity_from_mujoco,
    velocity_map_from_mujoco,
)
from tools import error, mujoco_data, qdd_of, tree_of_urdf

PAGE = (Path(__file__).parents[1] / "docs" / "names.md").read_text("utf-8")
PEERS = {"Pinocchio": "pinocchio", "MuJoCo": "mujoco", "Drake": "pydrake.all", "JAX": "jax"}
AGREEMENT = 1e-9
"""Of the two sides, relative to the largest entry: round-off, and conditions of mass matrices."""


def rows_of(heading):
    """Left and right cells of the table under a heading."""
    text = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {left: right for left, right in cells[1:]}


TABLES = {heading: rows_of(heading) for heading in PEERS}
COMPARED = {heading: {} for heading in TABLES}


def row(heading, left):
    """Of what yields pairs, ours and theirs, that are to agree: the row of the table that it is about."""

    def named(compared):
        assert left not in COMPARED[heading]
        COMPARED[heading][left] = compared
        return compared

    return named


CASES = [(heading, left) for heading, table in TABLES.items() for left in table]


@pytest.mark.peer
@pytest.mark.usefixtures("one_lane", "elsewhere")
@pytest.mark.parametrize(("heading", "left"), CASES, ids=lambda text: text.replace("`", ""))
def test_row(heading, left):
    pytest.importorskip(PEERS[heading])
    count = 0
    for ours, theirs, *within in COMPARED[heading][left]():
        assert error(ours, theirs) < max([AGREEMENT, *within]), count
        count += 1
    assert count


@pytest.mark.parametrize("heading", TABLES)
def test_rows_are_those_of_the_page(heading):
    """Each has its comparison, and that calls what both cells name."""
    assert COMPARED[heading].keys() == TABLES[heading].keys()
    for left, compared in COMPARED[heading].items():
        text = inspect.getsource(compared).split("\ndef ", 1)[1]
        for name in re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", left + TABLES[heading][left]))):
            assert re.search(rf"\b{name}\b", text), (left, name)


# -- Pinocchio -----------------------------------------------------------------------------------------------------

LINK = """<link name="{}"><inertial><origin xyz=".1 .05 -.2"/><mass value="2"/>
<inertia ixx=".03" ixy=".01" ixz="0" iyy=".02" iyz="0" izz=".04"/></inertial></link>"""
JOINT = """<joint name="j{0}" type="{3}"><parent link="{1}"/><child link="l{0}"/><origin xyz=".2 .1 .3" rpy=".4 1 .2"/>
<axis xyz=".3 {0} 1"/><limit effort="1" velocity="1" lower="-1" upper="2"/><dynamics damping="{2}" friction="1"/>{4}
</joint>"""
MIMIC = '<mimic joint="j0" multiplier="2"/>'
URDF = '<robot name="damped">{}</robot>'.format(
    "".join(LINK.format(name) for name in ("trunk", "l0", "l1", "l2", "l3"))
    + JOINT.format(0, "trunk", 0.5, "revolute", "")
    + JOINT.format(1, "l0", 2.0, "continuous", "")
    + JOINT.format(2, "l1", 0.1, "prismatic", "")
    + JOINT.format(3, "trunk", 0.7, "revolute", MIMIC)
)


@cache
def tree_and_state():
    """A URDF file on a free joint, with damping and a mimic joint; random q and three vectors as large as v."""
    tree, rng = tree_of_urdf(URDF, "floating", continuous="cos-sin"), np.random.default_rng(0)
    return tree, tree.random(rng), *rng.normal(size=(3, tree.nv))


def pinocchio():
    """Pinocchio, its model of the same file and new data (some functions leave entries as they were); the others."""
    import pinocchio as pin

    model = pin.buildModelFromXML(URDF, pin.JointModelFreeFlyer())
    return pin, model, model.createData(), *tree_and_state()


POINT = ds.Point(ds.Frame("l2", (0.5, 0.2, 0.1)))
WELD = ds.Weld(ds.Frame("l3", (0.1, -0.2, 0.3)))


def contacts(*constraints, gains=(0.0, 0.0)):
    """Pinocchio's models of constraints to the world, their data, and settings that solve exactly."""
    from pinocchio_models import rigid_contacts

    pin, model, *_ = pinocchio()
    return *rigid_contacts(model, constraints, gains), pin.ProximalSettings(1e-14, 1e-12, 100)


@row("Pinocchio", "`buildModelFromUrdf`, `buildModelFromXML`, with `JointModelFreeFlyer`")
def _():
    pin, model, data, tree, q, *_ = pinocchio()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "damped.urdf")
        path.write_text(URDF)
        model = pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
        loaded = ds.load(path, root="floating", continuous="cos-sin")
    assert isinstance(model, pin.Model) and model == pin.buildModelFromXML(URDF, pin.JointModelFreeFlyer())
    for tree in (loaded, ds.load(URDF, root="floating", continuous="cos-sin"), ds.load(model)):
        yield ds.mass_matrix(tree, q), pin.crba(model, data, q)


@row("Pinocchio", "`buildReducedModel`")
def _():
    pin, model, _, tree, q, v, a, _ = pinocchio()
    reduced = pin.buildReducedModel(model, [model.getJointId("j1"), model.getJointId("j2")], q)
    other = tree.lock({"j1": q[tree.q_index("j1")], "j2": q[tree.q_index("j2")][0]})
    q = np.concatenate([q[tree.q_index(name)] for name in other.joint_names])
    v, a = (np.concatenate([x[tree.v_index(name)] for name in other.joint_names]) for x in (v, a))
    assert list(other.joint_names) == [*reduced.names][1:]
    yield (
        ds.inverse_dynamics(other, q, v, a, passive="none", constraints=()),
        pin.rnea(reduced, reduced.createData(), q, v, a),
    )


@row("Pinocchio", "`neutral`, `randomConfiguration`")
def _():
    pin, model, _, tree, *_ = pinocchio()
    yield tree.neutral(), pin.neutral(model)
    for q in (tree.random(0, batch=50)[:, 7:], np.array([pin.randomConfiguration(model)[7:] for _ in range(50)])):
        lower, upper = model.lowerPositionLimit[7:], model.upperPositionLimit[7:]
        yield np.clip(q, lower, upper), q


@row("Pinocchio", "`integrate`, `difference`")
def _():
    pin, model, _, tree, q, v, u, _ = pinocchio()
    a, b = pin.integrate(model, q, v), pin.integrate(model, q, u)
    yield tree.integrate(q, v), a
    yield tree.difference(a, b), pin.difference(model, a, b)
    yield ds.compile(tree, (), "integrate")(q, v), a
    yield ds.compile(tree, (), "difference")(a, b), pin.difference(model, a, b)


@row("Pinocchio", "`dIntegrate`, `dDifference`, arguments 0 and 1")
def _():
    pin, model, _, tree, q, v, *_ = pinocchio()
    end = pin.integrate(model, q, v)
    yield from zip(
        ds.compile(tree, (), "integrate").derivative("tangent_jacobian")(q, v),
        (pin.dIntegrate(model, q, v, k) for k in (pin.ARG0, pin.ARG1)),
        strict=True,
    )
    yield from zip(
        ds.compile(tree, (), "difference").derivative("tangent_jacobian")(q, end),
        (pin.dDifference(model, q, end, k) for k in (pin.ARG0, pin.ARG1)),
        strict=True,
    )


@row("Pinocchio", "`forwardKinematics`, `updateFramePlacements`")
def _():
    pin, model, data, tree, q, *_ = pinocchio()
    pin.forwardKinematics(model, data, q)
    pin.updateFramePlacements(model, data)
    for name in ("l2", "j3"):
        yield ds.forward_kinematics(tree, q, name), data.oMf[model.getFrameId(name)].homogeneous


def references(pin):
    return {"local": pin.LOCAL, "world": pin.WORLD, "local-world-aligned": pin.LOCAL_WORLD_ALIGNED}


@row("Pinocchio", "`getFrameVelocity`, `getFrameAcceleration`, `getFrameClassicalAcceleration`")
def _():
    pin, model, data, tree, q, v, qdd, _ = pinocchio()
    pin.forwardKinematics(model, data, q, v, qdd)
    for ours, theirs in references(pin).items():
        at = {"frames": "l2", "reference": ours}
        given = model, data, model.getFrameId("l2"), theirs
        yield ds.frame_velocity(tree, q, v, **at), pin.getFrameVelocity(*given).vector
        aligned = ours == "local-world-aligned"
        peer = pin.getFrameClassicalAcceleration if aligned else pin.getFrameAcceleration
        yield ds.frame_acceleration(tree, q, v, qdd, **at), peer(*given).vector


@row("Pinocchio", "`computeFrameJacobian`")
def _():
    pin, model, data, tree, q, *_ = pinocchio()
    for ours, theirs in references(pin).items():
        J = pin.computeFrameJacobian(model, data, q, model.getFrameId("l2"), theirs)
        yield ds.frame_jacobian(tree, q, frames="l2", reference=ours), J


@row("Pinocchio", "`crba`")
def _():
    pin, model, data, tree, q, *_ = pinocchio()
    yield ds.mass_matrix(tree, q), pin.crba(model, data, q)


@row("Pinocchio", "`computeCoriolisMatrix`")
def _():
    pin, model, data, tree, q, v, *_ = pinocchio()
    yield ds.coriolis_matrix(tree, q, v), pin.computeCoriolisMatrix(model, data, q, v)


@row("Pinocchio", "`nonLinearEffects`, `rnea`")
def _():
    pin, model, data, tree, q, v, qdd, _ = pinocchio()
    yield ds.bias_force(tree, q, v, passive="none"), pin.nonLinearEffects(model, data, q, v)
    yield ds.inverse_dynamics(tree, q, v, qdd, passive="none"), pin.rnea(model, data, q, v, qdd)


@row("Pinocchio", "`rnea` with `model.damping * v` added")
def _():
    pin, model, data, tree, q, v, qdd, _ = pinocchio()
    tau = pin.rnea(model, data, q, v, qdd) + model.damping * v
    yield ds.inverse_dynamics(tree, q, v, qdd), tau


@row("Pinocchio", "`rnea`, and a least-squares solution of the rows of the base")
def _():
    pin, model, data, tree, q, v, qdd, _ = pinocchio()
    feet = [WELD, POINT]
    needed, J = pin.rnea(model, data, q, v, qdd), ds.jacobian(tree, feet, q)
    f = np.linalg.lstsq(J[:, :6].T, needed[:6])[0]  # forces of least norm
    small = {"motors": tree.joint_names[1:], "weights": np.r_[np.full(tree.nv, 1e-14), np.ones(9)]}
    found = ds.inverse_dynamics(tree, q, v, qdd, feet, passive="none", **small)
    yield np.concatenate(found.forces), f
    yield found.tau, np.r_[np.zeros(6), (needed - J.T @ f)[6:]]


@row("Pinocchio", "`aba`, `constraintDynamics`")
def _():
    pin, model, data, tree, q, v, tau, _ = pinocchio()
    yield ds.forward_dynamics(tree, q, v, tau, constraints=(), passive="none").qdd, pin.aba(model, data, q, v, tau)
    models, datas, settings = contacts(WELD, POINT)
    pin.initConstraintDynamics(model, data, models, datas)
    qdd = pin.constraintDynamics(model, data, q, v, tau, models, datas, settings)
    yield ds.forward_dynamics(tree, q, v, tau, [WELD, POINT], passive="none").qdd, qdd


@row("Pinocchio", "lists of fewer contacts")
def _():
    pin, model, data, tree, q, v, tau, _ = pinocchio()
    models, datas, settings = contacts(POINT)
    pin.initConstraintDynamics(model, data, models, datas)
    qdd = pin.constraintDynamics(model, data, q, v, tau, models, datas, settings)
    active = [False, True]
    yield ds.forward_dynamics(tree, q, v, tau, [WELD, POINT], active=active, passive="none").qdd, qdd
    kernel = ds.compile(tree, [WELD, POINT], "dynamics", active=True, passive="none")
    yield kernel(q, v, tau, active)[0], qdd


@row("Pinocchio", "`m_baumgarte_parameters` of a `RigidConstraintModel`, `Kd` and `Kp`")
def _():
    pin, model, data, tree, q, v, tau, _ = pinocchio()
    loop, stable = ds.Point("l2", "l3"), ds.Baumgarte(3.0, 0.7)
    models, datas, settings = contacts(loop, gains=stable.gains)
    pin.initConstraintDynamics(model, data, models, datas)
    qdd = pin.constraintDynamics(model, data, q, v, tau, models, datas, settings)
    yield ds.forward_dynamics(tree, q, v, tau, loop, baumgarte=stable, passive="none").qdd, qdd
    (own,) = models
    assert isinstance(own, pin.RigidConstraintModel)
    given = own.m_baumgarte_parameters
    yield stable.gains, [np.max(given.Kd), np.max(given.Kp)]


@row("Pinocchio", "`impulseDynamics`, its `r_coeff`")
def _():
    pin, model, data, tree, q, v, *_ = pinocchio()
    models, datas, settings = contacts(WELD, POINT)
    pin.initConstraintDynamics(model, data, models, datas)
    v_next = pin.impulseDynamics(model, data, q, v, models, datas, r_coeff=0.3, prox_settings=settings)
    found = ds.impulse(tree, q, v, [WELD, POINT], restitution=0.3)
    yield found.v_next, v_next
    yield (
        np.concatenate(found.impulses),
        np.concatenate([x.contact_force.vector[: c.size] for x, c in zip(datas, (WELD, POINT), strict=True)]),
    )


@row("Pinocchio", "`RigidConstraintModel` with `ContactType.CONTACT_6D`, `ContactType.CONTACT_3D`")
def _():
    pin, model, data, tree, q, *_ = pinocchio()
    loop = ds.Weld("l2", ds.Frame("l3", (0.1, 0.2, 0.3)))
    for constraint, size in ((loop, pin.ContactType.CONTACT_6D), (ds.Point("l2", "l3"), pin.ContactType.CONTACT_3D)):
        (own,), *_ = rigid = contacts(constraint)
        assert isinstance(own, pin.RigidConstraintModel) and own.type == size
        yield ds.jacobian(tree, constraint, q), peer_jacobian(pin, model, data, q, *rigid[:2])


def aligned(constraint, q, v):
    """A robot, its joint forces, Pinocchio's accelerations under a constraint along axes of the world, and its rows."""
    pin, model, data, tree, *_, tau, _ = pinocchio()
    models, datas, settings = contacts(constraint)
    pin.initConstraintDynamics(model, data, models, datas)
    assert models[0].reference_frame == pin.LOCAL_WORLD_ALIGNED
    J = ds.jacobian(tree, constraint, q)
    return tree, tau, pin.constraintDynamics(model, data, q, v, tau, models, datas, settings).copy(), J


@row("Pinocchio", "its `LOCAL_WORLD_ALIGNED`, `CONTACT_6D` at a row velocity `e` of zero, `CONTACT_3D` at any")
def _():
    tree, q, v, *_ = tree_and_state()
    for kind, frame in ((ds.Weld, WELD.first), (ds.Point, POINT.first)):  # CONTACT_6D, CONTACT_3D
        held = kind(frame, axes="local-world-aligned")
        assert held == kind(frame, axes="world")
        J = ds.jacobian(tree, held, q)
        u = v - np.linalg.pinv(J) @ (J @ v) if kind is ds.Weld else v
        e = J @ u
        assert kind is ds.Point or np.abs(e).max() < AGREEMENT
        tree, tau, expected, _ = aligned(held, q, u)  # LOCAL_WORLD_ALIGNED
        yield ds.forward_dynamics(tree, q, u, tau, held, passive="none").qdd, expected


@row("Pinocchio", "`CONTACT_6D` with `LOCAL_WORLD_ALIGNED` at a row velocity `e`")
def _():
    tree, q, v, *_ = tree_and_state()
    held = ds.Weld(WELD.first, axes="world")  # CONTACT_6D
    tree, tau, expected, J = aligned(held, q, v)  # LOCAL_WORLD_ALIGNED
    e = J @ v
    ω = e[3:]
    targets = [np.r_[np.cross(ω, e[:3]), np.zeros(3)]]
    yield ds.forward_dynamics(tree, q, v, tau, held, targets=targets, passive="none").qdd, expected


def peer_jacobian(pin, model, data, q, models, datas):
    """Of constraints, which are brought up to date first (without that the answers are wrong)."""
    pin.crba(model, data, q)
    pin.computeJointJacobians(model, data, q)
    for c, d in zip(models, datas, strict=True):
        c.calc(model, data, d)
    return pin.getConstraintsJacobian(model, data, models, datas).reshape(-1, model.nv)


def cholesky_of(pin, model, data, q, models, datas):
    peer_jacobian(pin, model, data, q, models, datas)
    found = pin.ContactCholeskyDecomposition(model, data, models, datas)
    found.compute(model, data, models, datas, 0.0)
    return found


@row("Pinocchio", "`ContactCholeskyDecomposition`, `getInverseOperationalSpaceInertiaMatrix`")
def _():
    pin, model, data, tree, q, *_ = pinocchio()
    found = cholesky_of(pin, model, data, q, *contacts(WELD, POINT)[:2])
    assert isinstance(found, pin.ContactCholeskyDecomposition)
    yield ds.delassus(tree, [WELD, POINT], q), found.getInverseOperationalSpaceInertiaMatrix(True)


@row("Pinocchio", "its `getOperationalSpaceInertiaMatrix`")
def _():
    pin, model, data, tree, q, *_ = pinocchio()
    found = cholesky_of(pin, model, data, q, *contacts(WELD, POINT)[:2])
    yield ds.osim(tree, [WELD, POINT], q), found.getOperationalSpaceInertiaMatrix()


@row("Pinocchio", "`computeABADerivatives`, `computeConstraintDynamicsDerivatives`")
def _():
    pin, model, data, tree, q, v, tau, _ = pinocchio()
    found = ds.dynamics_derivatives(tree, q, v, tau, constraints=(), passive="none")
    pin.computeABADerivatives(model, data, q, v, tau)
    yield from ((found.dqdd_dq, data.ddq_dq), (found.dqdd_dv, data.ddq_dv))
    models, datas, settings = contacts(WELD, POINT)
    pin.initConstraintDynamics(model, data, models, datas)
    pin.constraintDynamics(model, data, q, v, tau, models, datas, settings)
    pin.computeConstraintDynamicsDerivatives(model, data, models, datas, settings)
    found = ds.dynamics_derivatives(tree, q, v, tau, [WELD, POINT], passive="none")
    yield from ((found.dqdd_dq, data.ddq_dq), (found.dqdd_dv, data.ddq_dv), (found.dqdd_dtau, data.ddq_dtau))


@row("Pinocchio", "`computeRNEADerivatives`")
def _():
    pin, model, data, tree, q, v, qdd, _ = pinocchio()
    found = ds.inverse_dynamics_derivatives(tree, q, v, qdd, passive="none")
    yield from zip(found, pin.computeRNEADerivatives(model, data, q, v, qdd), strict=True)


def wrenches(pin, model):
    """One at a frame of a link: as Pinocchio's forces at joints, and as ours."""
    from pinocchio_models import anchor

    outside = pin.StdVec_Force([pin.Force.Zero() for _ in range(model.njoints)])
    joint, place = anchor(model, POINT.first)
    wrench = np.array([1.0, -2.0, 3.0, 0.5, 0.4, -0.3])
    outside[joint] = place.act(pin.Force(wrench))
    return outside, {POINT.first: wrench}


@row("Pinocchio", "`computeGeneralizedGravity`, `computeStaticTorque`")
def _():
    pin, model, data, tree, q, *_ = pinocchio()
    v, (outside, given) = np.zeros(tree.nv), wrenches(pin, model)
    yield ds.bias_force(tree, q, v, passive="none"), pin.computeGeneralizedGravity(model, data, q)
    tau = pin.computeStaticTorque(model, data, q, outside)
    yield ds.bias_force(tree, q, v=0 * v, passive="none", wrenches=given), tau


@row("Pinocchio", "`computeGeneralizedGravityDerivatives`, `computeStaticTorqueDerivatives`")
def _():
    pin, model, data, tree, q, *_ = pinocchio()
    v = qdd = np.zeros(tree.nv) * 0
    outside, given = wrenches(pin, model)
    found = ds.inverse_dynamics_derivatives(tree, q, v, qdd, passive="none")[0]
    yield found, pin.computeGeneralizedGravityDerivatives(model, data, q)
    found = ds.inverse_dynamics_derivatives(tree, q, v, qdd, passive="none", wrenches=given)[0]
    yield found, pin.computeStaticTorqueDerivatives(model, data, q, outside)


@row("Pinocchio", "`getFrameVelocityDerivatives`")
def _():
    pin, model, data, tree, q, v, qdd, _ = pinocchio()
    pin.computeForwardKinematicsDerivatives(model, data, q, v, qdd)
    for ours in ("local", "world"):
        kernel = ds.compile(tree, (), "frame_velocity", frames="l2", reference=ours).derivative("tangent_jacobian")
        theirs = pin.getFrameVelocityDerivatives(model, data, model.getFrameId("l2"), references(pin)[ours])
        yield from zip(kernel(q, v), theirs, strict=True)


@row("Pinocchio", "`getFrameAccelerationDerivatives`")
def _():
    pin, model, data, tree, q, v, qdd, _ = pinocchio()
    pin.computeForwardKinematicsDerivatives(model, data, q, v, qdd)
    kernel = ds.compile(tree, (), "frame_acceleration", frames="l2").derivative("tangent_jacobian")
    theirs = pin.getFrameAccelerationDerivatives(model, data, model.getFrameId("l2"), pin.LOCAL)
    yield from zip(kernel(q, v, qdd), theirs[1:], strict=True)


def momentum_changes(tree, q, v, qdd):
    """Derivatives of `"momentum"` and `"momentum_rate"` in tangents."""
    kernels = [ds.compile(tree, (), x).derivative("tangent_jacobian") for x in ("momentum", "momentum_rate")]
    return kernels[0](q, v), kernels[1](q, v, qdd)


@row("Pinocchio", "`computeCentroidalMomentumTimeVariation`, `computeCentroidalDynamicsDerivatives`")
def _():
    pin, model, data, tree, q, v, qdd, _ = pinocchio()
    by_q, *rates = pin.computeCentroidalDynamicsDerivatives(model, data, q, v, qdd)
    momentum, momentum_rate = momentum_changes(tree, q, v, qdd)
    yield from zip((*momentum, *momentum_rate), (by_q, rates[-1], *rates), strict=True)
    rate = pin.computeCentroidalMomentumTimeVariation(model, data, q, v, qdd).vector
    yield ds.momentum_rate(tree, q, v, qdd), rate


@row("Pinocchio", "`getCenterOfMassVelocityDerivatives`")
def _():
    pin, model, data, tree, q, v, qdd, _ = pinocchio()
    pin.computeForwardKinematicsDerivatives(model, data, q, v, qdd)
    pin.centerOfMass(model, data, q, v)
    momentum = momentum_changes(tree, q, v, qdd)[0][0]
    yield momentum[:3] / data.mass[0], pin.getCenterOfMassVelocityDerivatives(model, data)


@row("Pinocchio", "`centerOfMass`, `jacobianCenterOfMass`")
def _():
    pin, model, data, tree, q, *_ = pinocchio()
    yield ds.centre_of_mass(tree, q), pin.centerOfMass(model, data, q)
    yield ds.centre_of_mass_jacobian(tree, q), pin.jacobianCenterOfMass(model, data, q)


@row("Pinocchio", "`computeCentroidalMomentum`, `computeCentroidalMap`")
def _():
    pin, model, data, tree, q, v, *_ = pinocchio()
    yield ds.momentum(tree, q, v), pin.computeCentroidalMomentum(model, data, q, v).vector
    yield ds.momentum_jacobian(tree, q), pin.computeCentroidalMap(model, data, q)


@row("Pinocchio", "`computeKineticEnergy`, `computePotentialEnergy`")
def _():
    pin, model, data, tree, q, v, *_ = pinocchio()
    yield ds.kinetic_energy(tree, q, v), pin.computeKineticEnergy(model, data, q, v)
    yield ds.potential_energy(tree, q), pin.computePotentialEnergy(model, data, q)


@row("Pinocchio", "`computeJointTorqueRegressor`, `computeKineticEnergyRegressor`, `computePotentialEnergyRegressor`")
def _():
    pin, model, data, tree, q, v, qdd, _ = pinocchio()
    outputs = ds.regressor(tree, q, v, qdd, outputs=None)
    yield outputs[0], pin.computeJointTorqueRegressor(model, data, q, v, qdd)
    yield outputs[1], pin.computeKineticEnergyRegressor(model, data, q, v)
    yield outputs[2], pin.computePotentialEnergyRegressor(model, data, q)


@row("Pinocchio", "`Inertia.toDynamicParameters`")
def _():
    pin, model, _, tree, *_ = pinocchio()
    yield tree.inertial_parameters, [pin.Inertia.toDynamicParameters(inertia) for inertia in list(model.inertias)[1:]]


# -- MuJoCo --------------------------------------------------------------------------------------------------------

BODY = '<inertial pos=".1 .05 -.2" quat=".9 .1 .3 -.2" mass="2" diaginertia=".03 .02 .04"/>'
MJCF = f"""<mujoco><compiler angle="radian"/>
<option timestep=".001" {{option}}><flag eulerdamp="disable" energy="enable" {{flags}}/></option>
<worldbody>{{world}}<body name="trunk" pos="0 0 1"><freejoint name="root"/>{BODY}
<body name="arm" pos=".2 .1 .3" quat=".8 .1 -.5 .2"><joint name="a" axis="1 2 3" {{joint}}/>{BODY}
<body name="hand" pos=".1 .3 0"><joint name="b" type="slide" axis="0 1 1" damping="2"/>{BODY}
<site name="tip" pos=".1 .2 .3" quat=".5 .1 .2 .8"/></body></body>
<body name="tail" pos="-.3 0 .1"><joint name="c" axis="0 1 0"/>{BODY}</body></body></worldbody>
{{more}}
<keyframe><key name="bent" qpos="1 2 3 .5 .5 .5 .5 .1 .2 .3"/></keyframe></mujoco>"""


def mjcf(joint='damping=".5" stiffness="4" springref=".2" armature=".3"', **parts):
    """Text of an MJCF file: a body on a free joint with two branches; what is given takes its place."""
    return MJCF.format_map({"option": "", "flags": "", "world": "", "more": "", "joint": joint, **parts})


MOTORS = '<actuator><position joint="a" kp="5"/><motor joint="c" gear="3"/></actuator>'
MOVING = 'qvel="1 2 3 4 5 6 7 8 9" ctrl=".5 -2"'
STILL = mjcf().replace('<freejoint name="root"/>', "").replace("1 2 3 .5 .5 .5 .5 ", "")
"""The trunk is fixed: where positions and tangents are the same on both sides."""


@cache
def loaded(text):
    import mujoco

    model = mujoco.MjModel.from_xml_string(text)
    return model, ds.load(model)


def at_random(text=None):
    """MuJoCo, its model and data at a random state, our tree, that state, and generalised forces."""
    import mujoco

    model, tree = loaded(mjcf() if text is None else text)
    rng = np.random.default_rng(0)
    q, v, tau = tree.random(rng), *rng.normal(size=(2, tree.nv))
    return mujoco, model, mujoco_data(model, tree, q, v), tree, q, v, tau


@row("MuJoCo", "`MjModel.from_xml_path`, `from_xml_string`")
def _():
    mujoco, _, _, tree, q, v, tau = at_random()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "robot.xml")
        path.write_text(mjcf())
        model = mujoco.MjModel.from_xml_path(str(path))
        trees = ds.load(path), ds.load(mjcf()), ds.load(model), ds.load(mujoco.MjSpec.from_string(mjcf()))
    assert isinstance(model, mujoco.MjModel) and mujoco.MjModel.from_xml_string(mjcf()).nv == model.nv
    for own in trees:
        yield ds.forward_dynamics(own, q, v, tau).qdd, ds.forward_dynamics(tree, q, v, tau).qdd


@row("MuJoCo", "`qpos`, `qvel`, `qacc`")
def _():
    mujoco, model, data, tree, q, v, _ = at_random()
    mujoco.mj_forward(model, data)
    yield configuration_from_mujoco(tree, data.qpos), q
    yield velocity_from_mujoco(tree, data.qpos, data.qvel), v
    qdd = ds.forward_dynamics(tree, q, v, 0 * v).qdd
    yield acceleration_from_mujoco(tree, data.qpos, data.qvel, data.qacc), qdd
    yield acceleration_to_mujoco(tree, q, v, qdd), data.qacc
    many = np.tile(data.qpos, (2, 1)), data.qvel, np.tile(data.qacc, (3, 1, 1))
    yield acceleration_from_mujoco(tree, *many), np.tile(qdd, (3, 2, 1))


@row("MuJoCo", "`mj_forward`, `qfrc_applied`, `xfrc_applied`")
def _():
    mujoco, model, data, tree, q, v, tau = at_random()
    data.qfrc_applied = velocity_map_from_mujoco(tree, q).T @ tau
    data.xfrc_applied[2] = wrench = np.array([1.0, 2.0, -3.0, 0.4, 0.5, 0.6])
    mujoco.mj_forward(model, data)
    R = ds.forward_kinematics(tree, q, "arm")[:3, :3]
    centre = ds.Frame("arm", model.body_ipos[2], R.T)  # axes of the world, at the centre of mass
    qdd = ds.forward_dynamics(tree, q, v, tau, control="tau", wrenches={centre: wrench}).qdd
    yield qdd, qdd_of(tree, data)


@row("MuJoCo", "`ctrl`")
def _():
    mujoco, model, data, tree, q, v, tau = at_random(mjcf(more=MOTORS))
    data.ctrl = ctrl = tau[: model.nu]
    mujoco.mj_forward(model, data)
    qdd = ds.forward_dynamics(tree, q, v, ctrl, control="actuators").qdd
    yield qdd, qdd_of(tree, data)


@row("MuJoCo", "`mj_fullM`, `mj_inverse`")
def _():
    mujoco, model, data, tree, q, v, qdd = at_random()
    mujoco.mj_forward(model, data)
    M, T = np.zeros((model.nv, model.nv)), velocity_map_from_mujoco(tree, q)
    try:
        mujoco.mj_fullM(model, data, M)
    except TypeError:  # before MuJoCo 4
        mujoco.mj_fullM(model, M, data.qM)
    yield T.T @ ds.mass_matrix(tree, q) @ T, M
    data.qacc = acceleration_to_mujoco(tree, q, v, qdd)
    mujoco.mj_inverse(model, data)
    yield ds.inverse_dynamics(tree, q, v, qdd), T @ data.qfrc_inverse


@row("MuJoCo", "`qfrc_bias`, `mj_rne`")
def _():
    for text in (mjcf(), STILL):
        mujoco, model, data, tree, q, v, _ = at_random(text)
        mujoco.mj_forward(model, data)
        found, T = np.zeros(model.nv), velocity_map_from_mujoco(tree, q)
        mujoco.mj_rne(model, data, 0, found)
        qdd = acceleration_from_mujoco(tree, data.qpos, data.qvel, qacc=np.zeros(model.nv))
        yield ds.inverse_dynamics(tree, q, v, qdd, passive="none"), T @ found
        yield found, data.qfrc_bias
    yield ds.bias_force(tree, q, v, passive="none"), data.qfrc_bias


@row("MuJoCo", "`damping`, `stiffness`, `armature` of joints, `qfrc_passive`")
def _():
    sprung = 'damping=".5" stiffness="4" springref=".2"'
    mujoco, model, data, tree, q, v, qdd = at_random(mjcf(f'{sprung} armature=".3"'))
    mujoco.mj_forward(model, data)
    passive = ds.inverse_dynamics(tree, q, v, qdd, passive="none") - ds.inverse_dynamics(tree, q, v, qdd)
    yield passive, velocity_map_from_mujoco(tree, q) @ data.qfrc_passive
    bare = loaded(mjcf(sprung))[1]
    yield ds.mass_matrix(tree, q) - ds.mass_matrix(bare, q), np.diag(np.r_[np.zeros(6), 0.3, 0.0, 0.0])


BRIEF = 2e-6
"""Time step (s) after which velocity products of its start and of its mean differ by 1e-11 of velocities."""


@row("MuJoCo", "`frictionloss`")
def _():
    mujoco, model, _, tree, q, v, _ = at_random(
        mjcf('frictionloss="2" damping=".5"', option='integrator="implicitfast"')
    )
    v[6] = -3.0  # rad/s; MuJoCo's is soft where joints are slow
    model.opt.timestep = BRIEF
    data = mujoco_data(model, tree, q, v)
    mujoco.mj_step(model, data)
    sim = ds.Simulator(ds.Scene(tree), q0=q, v0=v, dt=model.opt.timestep, tolerance=1e-12)
    sim.step()
    yield sim.v, velocity_from_mujoco(tree, data.qpos, data.qvel)
    yield [joint.friction[0] for joint in tree.joints], model.dof_frictionloss[[0, *range(6, model.nv)]]
    mujoco, model, data, _, q, v, _ = at_random(mjcf('damping=".5"'))
    mujoco.mj_forward(model, data)
    yield ds.forward_dynamics(tree, q, v, 0 * v).qdd, qdd_of(tree, data)


@row("MuJoCo", "`mj_step` with the integrator `implicitfast`")
def _():
    mujoco, model, data, tree, q, v, _ = at_random(
        mjcf('damping=".5" armature=".3"', option='integrator="implicitfast"')
    )
    model.opt.timestep = BRIEF
    mujoco.mj_step(model, data)
    sim = ds.Simulator(ds.Scene(tree), q0=q, v0=v, dt=model.opt.timestep)
    sim.step()
    yield sim.v, velocity_from_mujoco(tree, data.qpos, data.qvel)
    yield tree.difference(q, sim.q), tree.difference(q, configuration_from_mujoco(tree, data.qpos))


@row("MuJoCo", "`mj_jac`, `mj_jacBody`, `mj_jacSite`")
def _():
    mujoco, model, data, tree, q, *_ = at_random()
    mujoco.mj_forward(model, data)
    T, reference, point = velocity_map_from_mujoco(tree, q), "local-world-aligned", np.array([0.1, 0.2, 0.3])
    body, J = model.body("hand").id, np.zeros((6, model.nv))
    at = data.xpos[body] + data.xmat[body].reshape(3, 3) @ point
    for frame, jac, given in (
        ("hand", mujoco.mj_jacBody, (body,)),
        ("tip", mujoco.mj_jacSite, (model.site("tip").id,)),
        (ds.Frame("hand", point), mujoco.mj_jac, (at, body)),
    ):
        jac(model, data, J[:3], J[3:], *given)
        yield ds.frame_jacobian(tree, q, frame, reference=reference) @ T, J


@row("MuJoCo", "`mj_objectVelocity`, `mj_objectAcceleration`")
def _():
    mujoco, model, data, tree, q, v, _ = at_random()
    mujoco.mj_forward(model, data)
    mujoco.mj_rnePostConstraint(model, data)
    qdd, found = qdd_of(tree, data), np.zeros(6)
    at = mujoco.mjtObj.mjOBJ_SITE, model.site("tip").id, found
    for reference, local in (("local", 1), ("local-world-aligned", 0)):
        mujoco.mj_objectVelocity(model, data, *at, local)
        yield ds.frame_velocity(tree, q, v, frames="tip", reference=reference), np.roll(found, 3)
    mujoco.mj_objectAcceleration(model, data, *at, 0)
    found[3:] += model.opt.gravity
    yield ds.frame_acceleration(tree, q, v, qdd, frames="tip", reference="local-world-aligned"), np.roll(found, 3)


@row("MuJoCo", "`mj_integratePos`, `mj_differentiatePos`")
def _():
    mujoco, model, data, tree, q, v, _ = at_random()
    for still in (slice(0, 3), slice(3, 6)):  # a free joint that turns and moves goes along a screw, there a line
        part, end, back = v.copy(), data.qpos.copy(), np.zeros(model.nv)
        part[still] = 0.0
        T = velocity_map_from_mujoco(tree, q)
        mujoco.mj_integratePos(model, end, T.T @ part, 0.1)
        q_end = tree.integrate(q, 0.1 * part)
        yield tree.difference(q_end, configuration_from_mujoco(tree, end)) + v, v
        mujoco.mj_differentiatePos(model, back, 0.1, data.qpos, end)
        yield tree.difference(q, q_end) / 0.1, T @ back


@row("MuJoCo", "`mjd_transitionFD`")
def _():
    mujoco, model, data, tree, q, v, _ = at_random(STILL.replace("<keyframe", MOTORS + "<keyframe"))
    A, B = np.zeros((2 * model.nv, 2 * model.nv)), np.zeros((2 * model.nv, model.nu))
    mujoco.mjd_transitionFD(model, data, 1e-6, True, A, B, None, None)
    h, ctrl = model.opt.timestep, np.zeros(model.nu)
    yield from zip(ds.step_derivatives(tree, q, v, ctrl, h, control="actuators")[2:], (A, B), (1e-7, 1e-7), strict=True)


@row("MuJoCo", "`mj_jacSubtreeCom`, `mj_angmomMat`")
def _():
    mujoco, model, data, tree, q, *_ = at_random()
    mujoco.mj_forward(model, data)
    T, J = velocity_map_from_mujoco(tree, q), np.zeros((3, model.nv))
    mujoco.mj_jacSubtreeCom(model, data, J, model.body("trunk").id)
    yield ds.centre_of_mass_jacobian(tree, q) @ T, J
    mujoco.mj_subtreeVel(model, data)
    mujoco.mj_angmomMat(model, data, J, model.body("trunk").id)
    yield ds.momentum_jacobian(tree, q)[3:] @ T, J


@row("MuJoCo", "`mj_energyPos`, `mj_energyVel`")
def _():
    mujoco, model, data, tree, q, v, _ = at_random()
    mujoco.mj_forward(model, data)
    mujoco.mj_energyPos(model, data)
    mujoco.mj_energyVel(model, data)
    yield [ds.potential_energy(tree, q), ds.kinetic_energy(tree, q, v)], data.energy


@row("MuJoCo", "`rollout.rollout`")
def _():
    from mujoco import rollout

    mujoco, model, data, tree, q, v, tau = at_random(STILL)
    state = np.r_[0.0, data.qpos, data.qvel]
    found, _ = rollout.rollout(
        model, data, state, np.tile(tau, (5, 1)), control_spec=int(mujoco.mjtState.mjSTATE_QFRC_APPLIED)
    )
    step = ds.compile(tree, (), "step")
    qs, vs = ds.rollout(step, q, v, np.tile(tau, (5, 1)), model.opt.timestep)
    yield np.hstack([qs, vs])[1:], found.reshape(5, -1)[:, 1 : 1 + 2 * model.nv]


LOOPS = """<equality><connect body1="hand" body2="tail" anchor=".1 .2 .3"/><weld body1="arm" body2="tail"/>
<joint joint1="a" joint2="b" polycoef=".1 2 0 0 0"/><joint joint1="c" joint2="b" polycoef="0 -.5 0 0 0"/></equality>"""


def span(J):
    """Projection on the rows of a matrix."""
    return np.linalg.pinv(J, rcond=1e-9) @ J


@row("MuJoCo", "equalities `connect`, `weld`, `joint`")
def _():
    mujoco, model, data, tree, *_ = at_random(mjcf(more=LOOPS))
    q = tree.reference_configurations["qpos0"]
    assert [ds.Point, ds.Weld, ds.JointRows, ds.JointRows] == [type(c) for c in tree.constraints]
    data = mujoco_data(model, tree, q, np.zeros(tree.nv))
    mujoco.mj_forward(model, data)
    theirs = data.efc_J.reshape(-1, model.nv)
    for k, (name, size) in enumerate((("connect", 3), ("weld", 6), ("joint", 1), ("joint", 1))):
        assert f"<{name}" in LOOPS and sum(data.efc_id == k) == size
        T = velocity_map_from_mujoco(tree, q)
        yield span(ds.jacobian(tree, tree.constraints[k], q) @ T), span(theirs[data.efc_id == k])


JOINTS = LOOPS[: LOOPS.index("<connect")] + LOOPS[LOOPS.index("<joint") :]


@row("MuJoCo", "`solref`, `solimp` of equalities, as `efc_aref`, `efc_R`; `eq_active`")
def _():
    text = JOINTS.replace("polycoef", 'solref=".05 .8" solimp=".7 .8 .1 .5 2" polycoef')
    for active in ([True, True], [False, True]):
        mujoco, model, data, tree, q, v, _ = at_random(mjcf(more=text))
        data.eq_active = active
        mujoco.mj_forward(model, data)
        soft = {"targets": [np.zeros(1), np.zeros(1)], "compliance": [np.ones(1), np.ones(1)]}
        for row, k in enumerate(data.efc_id):
            soft["targets"][k], soft["compliance"][k] = data.efc_aref[row : row + 1], data.efc_R[row : row + 1]
        targets, compliance = soft["targets"], soft["compliance"]
        yield (
            ds.forward_dynamics(
                tree, q, v, 0 * v, tree.constraints, targets=targets, compliance=compliance, active=active
            ).qdd,
            qdd_of(tree, data),
        )


@row("MuJoCo", "`friction` of geoms")
def _():
    world = '<geom type="plane" size="9 9 1" friction=".4"/>'
    ball = '<body name="ball" pos="3 0 .1"><freejoint/><geom size=".1" friction=".9"/></body>'
    mujoco, model, data, *_ = at_random(mjcf(world=world + ball))
    mujoco.mj_resetData(model, data)
    mujoco.mj_forward(model, data)
    (contact,) = data.contact
    scene = ds.Scene.from_robot(model, friction_rule="max")
    yield [c.friction for c in scene.constraints()], contact.friction[:1]


@row("MuJoCo", "`MjData.sensordata`")
def _():
    kinds = '<accelerometer name="felt" site="tip"/><framelinvel name="speed" objtype="body" objname="tail"/>'
    mujoco, model, data, tree, q, v, tau = at_random(mjcf(more=f"<sensor>{kinds}</sensor>"))
    data.qfrc_applied = velocity_map_from_mujoco(tree, q).T @ tau
    mujoco.mj_forward(model, data)
    assert isinstance(data, mujoco.MjData)
    numbers = ds.compile(tree, (), "sensors")(q, v, tau)
    at_once = ds.sensors(tree, q, v, tau, ())
    sim = ds.Simulator(ds.Scene(tree), q0=q, v0=v)
    for name in ("felt", "speed"):
        yield at_once[name], data.sensordata[tree.sensor_index(name)]
        yield numbers[tree.sensor_index(name)], at_once[name]
    sim.step()
    yield sim.sensors()["speed"], ds.sensors(tree, sim.q, sim.v, tau)["speed"]


@row("MuJoCo", "keyframes")
def _():
    mujoco, model, data, tree, *_ = at_random(mjcf(more=MOTORS).replace('name="bent"', f'name="bent" {MOVING}'))
    mujoco.mj_resetDataKeyframe(model, data, model.key("bent").id)
    yield tree.reference_configurations["bent"], configuration_from_mujoco(tree, data.qpos)
    yield tree.keyframes["bent"].v, velocity_from_mujoco(tree, data.qpos, data.qvel)
    yield tree.keyframes["bent"].q, tree.reference_configurations["bent"]
    yield tree.keyframes["bent"].ctrl, data.ctrl


# -- JAX -----------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def double_precision():
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_enable_x64", False)


@cache
def rod():
    """A rod that swings: its tree, the kernel of its acceleration, and that of its time step."""
    tree = ds.mechanisms.pendulum(1)
    return tree, ds.compile(tree, (), "dynamics"), ds.compile(tree, (), "step")


def swinging():
    """JAX, the acceleration of a rod of 1 kg and 0.5 m in its operations, our tree of it and its kernels; states."""
    import jax

    jax.config.update("jax_enable_x64", True)

    def f(q, v, tau):
        inertia = (0.5**2 + 0.04**2) / 12 + 0.25**2
        return (tau - 9.81 * 0.25 * jax.numpy.sin(q)) / inertia

    return jax, f, *rod(), *np.random.default_rng(0).normal(size=(3, 5, 1))


@row("JAX", "`jax.jit(f)`")
def _():
    jax, f, tree, _, _, q, v, tau = swinging()
    kernel = ds.compile(tree, (), "dynamics")
    for k in (..., slice(0, 2), 0):
        yield kernel(q[k], v[k], tau[k])[0], jax.jit(f)(q[k], v[k], tau[k])


@row("JAX", "`jax.vmap(f)`")
def _():
    jax, f, _, kernel, _, q, v, tau = swinging()
    yield kernel(q, v, tau)[0], jax.vmap(f)(q, v, tau)
    yield jax.vmap(lambda q, v: kernel(q, v, tau[0])[0])(q, v), jax.vmap(f, (0, 0, None))(q, v, tau[0])


@row("JAX", "`jax.lax.scan` over time steps")
def _():
    jax, f, _, _, step, q, v, tau = swinging()

    def euler(state, control):
        v = state[1] + 0.01 * f(*state, control)
        q = state[0] + 0.01 * v
        return (q, v), q

    _, qs = jax.lax.scan(euler, (q[0], v[0]), tau)
    yield ds.rollout(step, q[0], v[0], tau, 0.01)[0][1:], qs


@row("JAX", "`jax.grad`, `jax.jacfwd`")
def _():
    jax, f, tree, kernel, _, q, v, tau = swinging()
    q, v, tau = q[0], v[0], tau[0]
    slope = jax.jacfwd(f)(q, v, tau)
    yield jax.jacfwd(lambda q: kernel(q, v, tau)[0])(q), slope
    yield jax.grad(lambda q: kernel(q, v, tau)[0].sum())(q), jax.grad(lambda q: f(q, v, tau).sum())(q)
    yield ds.dynamics_derivatives(tree, q, v, tau).dqdd_dq, slope
    _, _, A, _ = ds.step_derivatives(tree, q, v, tau, 0.01)
    yield A[1:, :1], 0.01 * slope


@row("JAX", "`jax.pure_callback` into a C++ library")
def _():
    jax, _, _, kernel, _, q, v, tau = swinging()
    shape = jax.ShapeDtypeStruct(q.shape, q.dtype)
    called = jax.jit(lambda *given: jax.pure_callback(lambda *x: kernel(*map(np.asarray, x))[0], shape, *given))
    yield jax.jit(kernel)(q, v, tau)[0], called(q, v, tau)


# -- Drake ---------------------------------------------------------------------------------------------------------

IN_DRAKE = URDF.replace(MIMIC, "").replace('friction="1"', "").replace('lower="-1" upper="2"', 'lower="-9" upper="9"')
"""Without what Drake does not have, and with limits that these states are far from: its continuous joints have some."""


def drake(dt=0.0, root="floating"):
    """Drake, a plant of the file to be finalised, our tree, a state and an acceleration."""
    import logging

    from pydrake import all as pydrake

    logging.getLogger("drake").setLevel(logging.ERROR)  # no schema of ours
    plant, tree = pydrake.MultibodyPlant(dt), tree_of_urdf(IN_DRAKE, root)
    pydrake.Parser(plant).AddModelsFromString(IN_DRAKE, "urdf")
    if root == "fixed":
        plant.WeldFrames(plant.world_frame(), plant.GetFrameByName("trunk"))
    rng = np.random.default_rng(0)
    return pydrake, plant, tree, tree.random(rng), *rng.normal(size=(2, tree.nv))


def drakes_velocities(tree, q):
    """Matrix T with v = T v of Drake: a floating base has its angular one, then the linear one, in the world."""
    T = np.eye(tree.nv)
    R = ds.forward_kinematics(tree, q, "trunk")[:3, :3]
    if tree.is_floating:
        T[:6, :6] = np.block([[np.zeros((3, 3)), R.T], [R.T, np.zeros((3, 3))]])
    return T


def drakes_acceleration(tree, q, v, vdot):
    """Accelerations of Drake as ours: the linear one of a floating base is along axes that turn."""
    qdd = drakes_velocities(tree, q) @ vdot
    if tree.is_floating:
        qdd[:3] -= np.cross(v[3:6], v[:3])
    return qdd


def at_state(plant, tree, q, v):
    """Context of the plant at our state."""
    plant.Finalize()
    context = plant.CreateDefaultContext()
    plant.SetPositions(context, np.r_[q[6], q[3:6], q[:3], q[7:]] if tree.is_floating else q)
    plant.SetVelocities(context, drakes_velocities(tree, q).T @ v)
    return context


def state_of(plant, context, tree):
    """Configuration and velocity of a floating tree at a context."""
    x, w = plant.GetPositions(context).copy(), plant.GetVelocities(context)
    x[:4] /= np.linalg.norm(x[:4])
    q = np.r_[x[4:7], x[1:4], x[0], x[7:]]
    return q, drakes_velocities(tree, q) @ w


@row("Drake", "`Parser.AddModels`")
def _():
    pydrake, _, _, q, v, _ = drake()
    plant = pydrake.MultibodyPlant(0.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "robot.urdf")
        path.write_text(IN_DRAKE)
        pydrake.Parser(plant).AddModels(str(path))
        tree = ds.load(path, root="floating")
    yield ds.centre_of_mass(tree, q), plant.CalcCenterOfMassPositionInWorld(at_state(plant, tree, q, v))


@row("Drake", "`CalcMassMatrix`")
def _():
    _, plant, tree, q, v, _ = drake()
    T = drakes_velocities(tree, q)
    yield T.T @ ds.mass_matrix(tree, q) @ T, plant.CalcMassMatrix(at_state(plant, tree, q, v))


@row("Drake", "`CalcInverseDynamics`, with forces of `CalcForceElementsContribution`")
def _():
    pydrake, plant, tree, q, v, vdot = drake()
    context = at_state(plant, tree, q, v)
    forces = pydrake.MultibodyForces(plant)
    plant.CalcForceElementsContribution(context, forces)
    qdd = drakes_acceleration(tree, q, v, vdot)
    tau = plant.CalcInverseDynamics(context, vdot, forces)
    yield ds.inverse_dynamics(tree, q, v, qdd), drakes_velocities(tree, q) @ tau


@row("Drake", "`CalcBiasTerm`, `CalcGravityGeneralizedForces`")
def _():
    _, plant, tree, q, v, _ = drake(root="fixed")
    context = at_state(plant, tree, q, v)
    yield ds.bias_force(tree, q, v, gravity=(0, 0, 0), passive="none"), plant.CalcBiasTerm(context)
    yield -ds.bias_force(tree, q, v=0 * v, passive="none"), plant.CalcGravityGeneralizedForces(context)
    _, plant, tree, q, v, _ = drake()
    qdd = drakes_acceleration(tree, q, v, 0 * v)
    found = plant.CalcBiasTerm(at_state(plant, tree, q, v))
    yield ds.inverse_dynamics(tree, q, v, qdd, gravity=np.zeros(3), passive="none"), drakes_velocities(tree, q) @ found


@row("Drake", "`CalcJacobianSpatialVelocity`, `CalcBiasSpatialAcceleration`")
def _():
    for root in ("fixed", "floating"):
        pydrake, plant, tree, q, v, _ = drake(root=root)
        context = at_state(plant, tree, q, v)
        world = plant.world_frame()
        at = context, pydrake.JacobianWrtVariable.kV, plant.GetFrameByName("l2"), np.zeros(3), world, world
        reference, qdd = "local-world-aligned", drakes_acceleration(tree, q, v, 0 * v)
        J = ds.frame_jacobian(tree, q, "l2", reference=reference) @ drakes_velocities(tree, q)
        yield np.roll(J, 3, axis=0), plant.CalcJacobianSpatialVelocity(*at)
        bias = plant.CalcBiasSpatialAcceleration(*at)
        found = ds.frame_acceleration(tree, q, v, qdd, frames="l2", reference=reference)
        yield found, np.r_[bias.translational(), bias.rotational()]


@row("Drake", "`CalcCenterOfMassPositionInWorld`")
def _():
    _, plant, tree, q, v, _ = drake()
    yield ds.centre_of_mass(tree, q), plant.CalcCenterOfMassPositionInWorld(at_state(plant, tree, q, v))


@row("Drake", "`CalcKineticEnergy`, `CalcPotentialEnergy`")
def _():
    _, plant, tree, q, v, _ = drake()
    context = at_state(plant, tree, q, v)
    yield ds.kinetic_energy(tree, q, v), plant.CalcKineticEnergy(context)
    yield ds.potential_energy(tree, q), plant.CalcPotentialEnergy(context)


def constrained(plant, tree, pydrake, q):
    """Names of Drake's calls that add a constraint, their arguments, and ours, which hold at a configuration."""
    l2, l3 = plant.GetBodyByName("l2"), plant.GetBodyByName("l3")
    j0, j1 = plant.GetJointByName("j0"), plant.GetJointByName("j1")
    X = np.linalg.inv(ds.forward_kinematics(tree, q, "l2")) @ ds.forward_kinematics(tree, q, "l3")
    p, apart = X[:3, 3], float(np.linalg.norm(X[:3, 3]))
    pose, none = pydrake.RigidTransform(pydrake.RotationMatrix(X[:3, :3]), p), pydrake.RigidTransform()
    return {
        "AddWeldConstraint": ((l2, pose, l3, none), ds.Weld(ds.Frame("l2", p, X[:3, :3]), "l3")),
        "AddBallConstraint": ((l2, p, l3, np.zeros(3)), ds.Point(ds.Frame("l2", p), "l3")),
        "AddDistanceConstraint": ((l2, np.zeros(3), l3, np.zeros(3), apart), ds.Distance("l2", "l3")),
        "AddCouplerConstraint": ((j0, j1, 2.0, q[7] - 2.0 * q[8]), ds.JointRows({"j0": 1.0, "j1": -2.0})),
    }


@row("Drake", "`AddWeldConstraint`, `AddBallConstraint`, `AddDistanceConstraint`, `AddCouplerConstraint`")
def _():
    for name, ours in {
        "AddWeldConstraint": ds.Weld,
        "AddBallConstraint": ds.Point,
        "AddDistanceConstraint": ds.Distance,
        "AddCouplerConstraint": ds.JointRows,
    }.items():
        pydrake, plant, tree, q, v, _ = drake(1e-3)
        plant.set_discrete_contact_approximation(pydrake.DiscreteContactApproximation.kSap)
        arguments, constraint = constrained(plant, tree, pydrake, q)[name]
        assert isinstance(constraint, ours)
        getattr(plant, name)(*arguments)
        simulator = pydrake.Simulator(plant, at_state(plant, tree, q, v))
        simulator.AdvanceTo(0.01)
        q_end, v_end = state_of(plant, simulator.get_context(), tree)
        assert np.abs(ds.jacobian(tree, constraint, q) @ v).max() > 0.1
        yield ds.jacobian(tree, constraint, q_end) @ v_end, np.zeros(constraint.size), 1e-4


@row("Drake", "`Simulator.AdvanceTo`")
def _():
    pydrake, plant, tree, q, v, _ = drake()
    simulator = pydrake.Simulator(plant, at_state(plant, tree, q, v))
    simulator.get_mutable_integrator().set_target_accuracy(1e-9)
    simulator.AdvanceTo(0.01)
    sim = ds.Simulator(ds.Scene(tree), q0=q, v0=v, dt=1e-4)
    sim.run(0.01)
    yield sim.v, state_of(plant, simulator.get_context(), tree)[1], 1e-4  # the error of 100 steps


@row("Drake", "`CoulombFriction` of two geometries")
def _():
    from pydrake.all import CalcContactFrictionFromSurfaceProperties, CoulombFriction

    ball = ds.mechanisms.free_body(1.0, np.eye(3))
    colliders = [
        ds.contact.Collider("body", ds.contact.Sphere(0.1), friction=0.3),
        ds.contact.Collider("world", ds.contact.HalfSpace(), friction=0.8),
    ]
    (contact,) = ds.Scene(ball, colliders, friction_rule="harmonic-mean").constraints()
    theirs = CalcContactFrictionFromSurfaceProperties(CoulombFriction(0.3, 0.3), CoulombFriction(0.8, 0.8))
    yield contact.friction, theirs.dynamic_friction()
