"""Dynamics against Pinocchio: every joint type, wrenches, energies, and `constraintDynamics` with contacts and loops.

Velocities violate the constraints in all comparisons but one: Pinocchio's 6D contacts in world-aligned axes leave out
velocity products, so that they agree only where the constraint holds (see `constraint_acceleration`).
"""

from __future__ import annotations

import warnings
import zlib
from functools import partial
from itertools import cycle

import numpy as np
import pytest

import delassus as ds
from internals import SOFT, UNCONSTRAINED, tree_to_pinocchio
from tools import ROUND_OFF, direct, error, random_rotation

pin = pytest.importorskip("pinocchio")

from pinocchio_models import (  # noqa: E402  (they need Pinocchio)
    FILES,
    HINGED,
    SIMPLE,
    anchor,
    is_depth_first,
    random_model,
    read,
    rigid_contacts,
)

pytestmark = pytest.mark.peer

DYNAMICS = 1e-10
"""Inverse dynamics, energies, momentum: round-off over long chains. Robots of files: quarter turns to eleven digits."""

ACCELERATION = 1e-9
"""Accelerations: the same, and the condition of the mass matrix; with constraints, that of G."""

REGULAR = 1e-7
"""Constraint sets are compared where the smallest eigenvalue of G, scaled to unit diagonal, is above this."""

ENDINGS = ("talos_reduced.urdf", "go1.urdf", "g1_29dof_rev_1_0.urdf", "panda.urdf", "ur5_robot.urdf")
ROBOTS = [name for name in FILES if name.endswith(ENDINGS)]


def state(tree, rng):
    return tree.random(rng), rng.normal(size=tree.nv), 5.0 * rng.normal(size=tree.nv)


def check_unconstrained(tree, model, names, rng):
    """``names``: of frames that both know."""
    q, v, tau = state(tree, rng)
    qdd = rng.normal(size=tree.nv)
    model = pin.Model(model)
    gravity = rng.normal(size=3) * 5
    model.gravity = pin.Motion(gravity, np.zeros(3))
    outside = pin.StdVec_Force([pin.Force.Zero() for _ in range(model.njoints)])
    wrenches = {}
    for name in names:
        frame, wrench = ds.Frame(name, rng.normal(size=3), random_rotation(rng)), rng.normal(size=6) * 5
        joint, place = anchor(model, frame)
        outside[joint] = outside[joint] + place.act(pin.Force(wrench))
        wrenches[frame] = wrench
    given = {"gravity": gravity, "wrenches": wrenches, "passive": "none"}  # which Pinocchio's algorithms leave out
    data = model.createData()
    assert error(ds.inverse_dynamics(tree, q, v, qdd, **given), pin.rnea(model, data, q, v, qdd, outside)) < DYNAMICS
    bias = pin.rnea(model, data, q, v, 0 * qdd, outside)
    assert error(ds.bias_force(tree, q, v, **given), bias) < DYNAMICS
    expected = pin.aba(model, data, q, v, tau, outside)
    assert error(ds.forward_dynamics(tree, q, v, tau, (), method="aba", **given).qdd, expected) < ACCELERATION
    del given["passive"]
    own = ds.forward_dynamics(tree, q, v, tau, (), **given).qdd
    assert error(own, pin.aba(model, data, q, v, tau - model.damping * v, outside)) < ACCELERATION
    motors = 0.5 * model.armature @ v**2
    if is_depth_first(model):
        check_derivatives(tree, model, names, q, v, qdd, given, outside)
    model.armature = np.zeros(model.nv)  # Pinocchio 4.1 counts that of unaligned joints wrongly
    kinetic = pin.computeKineticEnergy(model, data, q, v) + motors
    assert ds.kinetic_energy(tree, q, v) == pytest.approx(kinetic, rel=DYNAMICS)
    potential = pin.computePotentialEnergy(model, data, q)
    mass = sum(inertia.mass for inertia in list(model.inertias)[1:])
    tolerance = DYNAMICS * (1 + mass * np.abs(gravity).sum() * 10)
    assert ds.potential_energy(tree, q, gravity=gravity) == pytest.approx(potential, abs=tolerance)
    check_regressors(tree, model, q, v, qdd, gravity)
    if is_depth_first(model):  # others Pinocchio gets wrong
        assert error(ds.coriolis_matrix(tree, q, v), pin.computeCoriolisMatrix(model, data, q, v)) < DYNAMICS
    assert error(ds.centre_of_mass(tree, q), pin.centerOfMass(model, data, q)) < DYNAMICS
    assert error(ds.momentum(tree, q, v), pin.computeCentroidalMomentum(model, data, q, v).vector) < DYNAMICS
    pin.forwardKinematics(model, data, q)
    for name in names:
        joint, place = anchor(model, ds.Frame(name))
        assert error(ds.forward_kinematics(tree, q, name), (data.oMi[joint] * place).homogeneous) < DYNAMICS
    check_frames_and_momenta(tree, model, names, q, v, qdd, rng)


def check_derivatives(tree, model, names, q, v, qdd, given, outside):
    data = model.createData()
    bare = {**given, "passive": "none"}
    found = ds.inverse_dynamics_derivatives(tree, q, v, qdd, **bare)
    for ours, theirs in zip(found, pin.computeRNEADerivatives(model, data, q, v, qdd, outside), strict=True):
        assert error(ours, theirs) < DYNAMICS
    still = 0 * v
    gravity = ds.inverse_dynamics_derivatives(tree, q, still, still, gravity=given["gravity"], passive="none")[0]
    assert error(gravity, pin.computeGeneralizedGravityDerivatives(model, data, q)) < DYNAMICS
    held = ds.inverse_dynamics_derivatives(tree, q, still, still, **bare)[0]
    assert error(held, pin.computeStaticTorqueDerivatives(model, data, q, outside)) < DYNAMICS

    derived = partial(direct, tree, derivative="tangent_jacobian")
    motion = {"q": q, "v": v, "qdd": qdd}
    dh_dq, rate_q, rate_v, rate_a = pin.computeCentroidalDynamicsDerivatives(model, data, q, v, qdd)
    momentum, rate = derived("momentum", {"q": q, "v": v}), derived("momentum_rate", motion)
    for ours, theirs in (
        (momentum["dmomentum_dq"], dh_dq), (momentum["dmomentum_dv"], rate_a), (rate["drate_dq"], rate_q),
        (rate["drate_dv"], rate_v), (rate["drate_dqdd"], rate_a), (ds.momentum_rate(tree, q, v, qdd), data.dhg.vector),
    ):  # fmt: skip
        assert error(ours, theirs) < DYNAMICS
    pin.computeForwardKinematicsDerivatives(model, data, q, v, qdd)
    pin.centerOfMass(model, data, q, v)
    com = pin.getCenterOfMassVelocityDerivatives(model, data)
    assert error(momentum["dmomentum_dq"][:3] / data.mass[0], com) < DYNAMICS
    index, at = model.getFrameId(names[0]), {"frames": names[0]}
    peer = pin.getFrameVelocityDerivatives, pin.getFrameAccelerationDerivatives
    for name in ("local", "world"):
        found = derived("frame_velocity", {"q": q, "v": v}, reference=name, **at)
        for ours, theirs in zip(found.values(), peer[0](model, data, index, REFERENCES[name]), strict=True):
            assert error(ours, theirs) < DYNAMICS, name
    found = derived("frame_acceleration", motion, **at)  # in the world its own differ from differences (`names.md`)
    for ours, theirs in zip(found.values(), peer[1](model, data, index, pin.LOCAL)[1:], strict=True):
        assert error(ours, theirs) < DYNAMICS


def check_regressors(tree, model, q, v, qdd, gravity):
    data = model.createData()
    parameters = [inertia.toDynamicParameters() for inertia in list(model.inertias)[1:]]
    assert error(tree.inertial_parameters, np.array(parameters)) < DYNAMICS
    tau, kinetic, potential, _ = ds.regressor(tree, q, v, qdd, outputs=None, gravity=gravity)
    assert error(tau, pin.computeJointTorqueRegressor(model, data, q, v, qdd)) < DYNAMICS
    assert error(kinetic, pin.computeKineticEnergyRegressor(model, data, q, v)) < DYNAMICS
    assert error(potential, pin.computePotentialEnergyRegressor(model, data, q)) < DYNAMICS


def test_changes_on_the_manifold():
    """Displacements, differences and their derivatives in tangents; near none and near half a turn by identities."""
    rng = np.random.default_rng(7)
    model = random_model(rng, ["FreeFlyer", "Spherical", "RUBZ", "Planar"])
    tree = ds.load(model)
    move, away = (ds.compile(tree, (), name) for name in ("integrate", "difference"))
    move_changes, away_changes = (kernel.derivative("tangent_jacobian") for kernel in (move, away))
    q, u = tree.random(rng, 10), rng.normal(size=(10, tree.nv))
    turns = [[*range(3, 6)], [*range(6, 9)], [9], [12]]
    sizes = np.concatenate([[0.0, 1e-160, 1e-9, 1e-4], [1.0, 1.0, 2.0], np.pi - np.array([1e-2, 1e-6, 1e-9])])
    for axes in turns:
        u[:, axes] *= (sizes / np.linalg.norm(u[:, axes], axis=1))[:, None]
    end, with_q, with_u = move(q, u), *move_changes(q, u)
    assert error(end, tree.integrate(q, u)) < ROUND_OFF and error(away(q, end), u) < DYNAMICS
    from_start, from_end = away_changes(q, end)
    assert error(from_end @ with_u, np.tile(np.eye(tree.nv), (10, 1, 1))) < DYNAMICS
    assert error(from_start, -from_end @ with_q) < DYNAMICS
    for k in (4, 5, 6):  # elsewhere Pinocchio's series have errors of 1e-9
        for own, peer, arguments in (
            ((with_q, with_u), pin.dIntegrate, (q[k], u[k])),
            ((from_start, from_end), pin.dDifference, (q[k], end[k])),
        ):
            assert all(error(a[k], b) < DYNAMICS for a, b in zip(own, peer(model, *arguments), strict=True))


REFERENCES = {
    "local": pin.LOCAL,
    "world": pin.WORLD,
    "local-world-aligned": pin.LOCAL_WORLD_ALIGNED,
}


def check_frames_and_momenta(tree, model, names, q, v, qdd, rng):
    model = pin.Model(model)
    places = {ds.Frame(name, rng.normal(size=3), random_rotation(rng)): None for name in names}
    for k, frame in enumerate(places):
        places[frame] = model.addFrame(pin.Frame(f"probe{k}", *anchor_of(model, frame), pin.FrameType.OP_FRAME))
    data = model.createData()
    pin.computeJointJacobiansTimeVariation(model, data, q, v)
    pin.forwardKinematics(model, data, q, v, qdd)
    pin.updateFramePlacements(model, data)
    for name, reference in REFERENCES.items():
        given = {"frames": list(places), "reference": name}
        J, V = ds.frame_jacobian(tree, q, **given), ds.frame_velocity(tree, q, v, **given)
        a, drift = (ds.frame_acceleration(tree, q, v, x, **given) for x in (qdd, 0 * qdd))
        for k, index in enumerate(places.values()):
            assert error(J[k], pin.getFrameJacobian(model, data, index, reference)) < DYNAMICS, name
            assert error(V[k], pin.getFrameVelocity(model, data, index, reference).vector) < DYNAMICS, name
            rate = pin.getFrameJacobianTimeVariation(model, data, index, reference)
            assert error(drift[k], rate @ v) < DYNAMICS, name
            aligned = name == "local-world-aligned"
            peer = pin.getFrameClassicalAcceleration if aligned else pin.getFrameAcceleration
            assert error(a[k], peer(model, data, index, reference).vector) < DYNAMICS, name
    pin.computeCentroidalMapTimeVariation(model, data, q, v)
    assert error(ds.momentum_jacobian(tree, q), data.Ag) < DYNAMICS
    assert error(ds.momentum_drift(tree, q, v), data.dAg @ v) < DYNAMICS
    assert error(ds.centre_of_mass_jacobian(tree, q), pin.jacobianCenterOfMass(model, data, q)) < DYNAMICS
    pin.centerOfMass(model, data, q, v, 0 * v)
    assert error(ds.centre_of_mass_drift(tree, q, v), data.acom[0]) < DYNAMICS


def anchor_of(model, frame):
    """The same as `anchor`, as parent joint, parent frame and placement."""
    joint, place = anchor(model, frame)
    return joint, 0, place


def peer_dynamics(model, q, v, tau, constraints, gains=(0.0, 0.0)):
    """Accelerations and forces of Pinocchio's constrained dynamics."""
    models, datas = rigid_contacts(model, constraints, gains)
    data = model.createData()
    pin.initConstraintDynamics(model, data, models, datas)
    settings = pin.ProximalSettings(1e-14, 1e-12, 100)
    qdd = pin.constraintDynamics(model, data, q, v, tau, models, datas, settings)
    forces = [d.contact_force.vector[: c.size] for c, d in zip(constraints, datas, strict=True)]
    return np.array(qdd), forces


def is_regular(tree, constraints, q):
    G = ds.delassus(tree, constraints, q)
    d = np.sqrt(np.diagonal(G))
    return d.min() > 0 and np.linalg.eigvalsh(G / np.outer(d, d))[0] > REGULAR


METHODS = [name for name in ds.DYNAMICS_METHODS if name not in SOFT | UNCONSTRAINED]


def check_constrained(tree, model, constraints, rng, hold=False, methods=()):
    q, v, tau = state(tree, rng)
    if not is_regular(tree, constraints, q):
        return False
    if hold:
        J = ds.jacobian(tree, constraints, q)
        v = v - np.linalg.pinv(J) @ (J @ v)
    qdd, forces = peer_dynamics(model, q, v, tau, constraints)
    for method in methods:
        solution = ds.forward_dynamics(tree, q, v, tau, constraints, method=method, passive="none")
        assert error(solution.qdd, qdd) < ACCELERATION, method
        assert error(np.concatenate(solution.forces), np.concatenate(forces)) < ACCELERATION, method
    return True


ONE_AXIS = {"RY", "RZ", "RUBX", "RUBZ", "PX", "PY"}
"""Kinds that differ by their axis only from one that is tried; `test_pinocchio` tries all."""


KINDS = [kind for kind in SIMPLE if kind not in ONE_AXIS]


@pytest.mark.turns(5)
@pytest.mark.parametrize("kind", KINDS)
def test_joint_type(kind):
    rng = np.random.default_rng(zlib.crc32(kind.encode()))
    # two free branches, so that no row is redundant
    model = random_model(rng, ["FreeFlyer", kind, "RX", kind, "FreeFlyer", "PY"], parents_of=[0, 1, 2, 0, 4, 5])
    tree = ds.load(model)
    check_unconstrained(tree, model, ["tool2", "tool6"], rng)
    a, b, base = (ds.Frame(t, rng.uniform(-0.3, 0.3, 3), random_rotation(rng)) for t in ("tool3", "tool6", "tool1"))
    sets = (
        [ds.Weld(a), ds.Point(b, a)],
        [ds.Point(b, axes="world"), ds.Weld(a, b)],
        [ds.Weld(a, b), ds.Weld(base)],
        [ds.Point(a), ds.Point(a, b, axes="world")],
        [ds.Weld(a, axes="world")],
        [ds.Weld(a, b, axes="world"), ds.Weld(b)],
    )
    for k, constraints in enumerate(sets):  # all pairs of kind, set and method
        method = METHODS[(k + KINDS.index(kind)) % len(METHODS)]
        assert check_constrained(tree, model, constraints, rng, hold=k >= 4, methods=[method])


@pytest.mark.parametrize("kind", HINGED)
def test_joints_of_hinges(kind):
    """Values are the model's, and derivatives those of a model whose hinges are joints of their own."""
    rng = np.random.default_rng(zlib.crc32(kind.encode()))
    model = random_model(rng, ["FreeFlyer", kind, "RX", kind, "PY", kind], parents_of=[0, 1, 2, 0, 4, 5])
    tree, data = ds.load(model), model.createData()
    (q, v, tau), qdd, none = state(tree, rng), rng.normal(size=tree.nv), {"passive": "none"}
    assert error(ds.inverse_dynamics(tree, q, v, qdd, **none), pin.rnea(model, data, q, v, qdd)) < DYNAMICS
    assert error(ds.forward_dynamics(tree, q, v, tau, **none).qdd, pin.aba(model, data, q, v, tau)) < ACCELERATION
    assert ds.kinetic_energy(tree, q, v) == pytest.approx(pin.computeKineticEnergy(model, data, q, v), rel=DYNAMICS)
    assert error(ds.momentum(tree, q, v), pin.computeCentroidalMomentum(model, data, q, v).vector) < DYNAMICS
    a, b = (ds.Frame(t, rng.uniform(-0.3, 0.3, 3), random_rotation(rng)) for t in ("tool3", "tool6"))
    assert check_constrained(tree, model, [ds.Weld(a), ds.Point(b, a)], rng, methods=METHODS)
    check_unconstrained(tree, tree_to_pinocchio(tree), ["tool3", "tool6"], rng)


@pytest.mark.turns(2)
@pytest.mark.parametrize("seed", range(8))
def test_random_trees(seed):
    rng = np.random.default_rng(seed)
    kinds = ["FreeFlyer", *rng.choice(list(SIMPLE), 12)]
    rng.shuffle(kinds)
    model = random_model(rng, [str(kind) for kind in kinds], depth_first=seed % 2 == 0)
    tree = ds.load(model)
    check_unconstrained(tree, model, ["tool4", "tool4", "tool9", "tool13"], rng)
    leaves = [i + 1 for i in range(tree.n_links) if not tree.children[i]]
    if seed % 2 == 0 and len(leaves) > 1:  # Pinocchio's own factorisation leaves out entries in other orders
        a, b = (ds.Frame(f"tool{i}", rng.uniform(-0.3, 0.3, 3), random_rotation(rng)) for i in leaves[:2])
        check_constrained(tree, model, [ds.Point(a), ds.Point(b, a)], rng, methods=METHODS[seed // 2 :: 4])
        check_constrained(tree, model, [ds.Weld(a, b)], rng, methods=METHODS[3 - seed // 2 :: 4])


@pytest.mark.turns(5)
@pytest.mark.parametrize(("name", "root"), [*zip(ROBOTS, cycle(("fixed", "floating")), strict=False)])
def test_robots(name, root):
    rng = np.random.default_rng(zlib.crc32(f"{name} {root}".encode()))
    model = read(name, root)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ds.DelassusWarning)
        tree = ds.load(model)
    names = [tree.link_names[i] for i in range(tree.n_links) if not tree.children[i]]
    check_unconstrained(tree, model, names[:2], rng)
    a = ds.Frame(names[0], rng.uniform(-0.3, 0.3, 3), random_rotation(rng))
    used = [[ds.Point(a)], [ds.Weld(a)]]
    if len(names) > 1:
        b = ds.Frame(names[-1], rng.uniform(-0.3, 0.3, 3), random_rotation(rng))
        used += [[ds.Point(a), ds.Point(b, axes="world")], [ds.Weld(a), ds.Point(a, b)], [ds.Weld(a, b)]]
    by = [METHODS[(ROBOTS.index(name) + k) % len(METHODS)] for k in range(len(used))]
    checked = (check_constrained(tree, model, c, rng, methods=[some]) for c, some in zip(used, by, strict=True))
    assert sum(checked) >= 2


def test_stabilisation():
    """Velocity and position errors of points and loops of points, and velocity errors of welds, as in Pinocchio."""
    rng = np.random.default_rng(0)
    model = random_model(rng, ["FreeFlyer", "RX", "RY", "RZ", "FreeFlyer", "PY"], parents_of=[0, 1, 2, 3, 0, 5])
    tree = ds.load(model)
    a, b = (ds.Frame(t, rng.uniform(-0.3, 0.3, 3), random_rotation(rng)) for t in ("tool4", "tool6"))
    q, v, tau = state(tree, rng)
    stable = ds.Baumgarte(3.0, 0.7)
    beta, alpha = stable.gains
    for constraints, gains in (
        ([ds.Point(a, b)], (beta, alpha)),
        ([ds.Point(a, b), ds.Point(b)], (beta, 0.0)),
        ([ds.Weld(a, b)], (beta, 0.0)),
        ([ds.Weld(a)], (beta, 0.0)),
    ):
        try:
            qdd, _ = peer_dynamics(model, q, v, tau, constraints, gains)
        except AttributeError:
            pytest.skip("this Pinocchio does not let gains be set")
        used = stable if gains[1] else None
        if used is None:
            J = ds.jacobian(tree, constraints, q)
            parts = np.split(-beta * (J @ v), np.cumsum([c.size for c in constraints]))[:-1]
            solution = ds.forward_dynamics(tree, q, v, tau, constraints, targets=parts, passive="none")
        else:
            solution = ds.forward_dynamics(tree, q, v, tau, constraints, baumgarte=used, passive="none")
        assert error(solution.qdd, qdd) < ACCELERATION, (constraints, gains)


def test_position_errors_of_welds():
    """Pinocchio's is a logarithm; ours equals it to first order."""
    rng = np.random.default_rng(0)
    model = random_model(rng, ["FreeFlyer", "RX", "RY", "RZ", "FreeFlyer", "PY"], parents_of=[0, 1, 2, 3, 0, 5])
    tree = ds.load(model)
    q, v, tau = state(tree, rng)
    there = np.linalg.inv(ds.forward_kinematics(tree, q, "tool6")) @ ds.forward_kinematics(tree, q, "tool4")
    stable, apart = ds.Baumgarte(3.0), pin.Motion(np.array([1, 0.5, -0.3, 0.2, 0.7, -0.4]))
    differences = []
    for size in (1e-2, 1e-3):
        at = there @ pin.exp6(size * apart).homogeneous
        weld = ds.Weld("tool4", ds.Frame("tool6", at[:3, 3], at[:3, :3]))
        qdd, _ = peer_dynamics(model, q, v, tau, [weld], stable.gains)
        differences.append(
            np.abs(ds.forward_dynamics(tree, q, v, tau, weld, baumgarte=stable, passive="none").qdd - qdd).max()
        )
    assert differences[0] < 1e-3 and differences[1] < differences[0] / 50
