"""Compiled time steps with contacts: closed forms, other ways to the same numbers, what says that they are wrong."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
from delassus.contact import Box, Capsule, Collider, ConeProblem, Cylinder, HalfSpace, Mesh, Sphere
from delassus.errors import ConfigurationError
from delassus_studies.bench.contact.problems import turned_momentum
from internals import exact_steps
from random_trees import INNER, REVERSIBLE, some_mechanism, some_rotors
from tools import beside_simulator, frame_pose, interpreted, requested, turning_of_ball

pytestmark = pytest.mark.usefixtures("one_lane")

G, DT = 9.81, 1e-3
TIGHT = {"tolerance": 1e-10, "sweeps": 2000}
CLOSE = 2e-5
"""Overlap (m) of contacts that are closed, below what is taken back."""


def ball(radius=0.1):
    return ds.mechanisms.free_body(1.0, Sphere(radius).inertia(1.0))


def box(x=0.4, y=0.3, z=0.2):
    return ds.mechanisms.free_body(1.0, Box(x, y, z).inertia(1.0))


LEG = """<link name="{side}_thigh"><inertial><origin xyz="0.01 0 -0.1"/><mass value="1"/>
<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.002"/></inertial></link>
<joint name="{side}_hip" type="revolute"><parent link="base"/><child link="{side}_thigh"/><origin xyz="0 {y} 0"/>
<axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="50" velocity="9"/><dynamics friction="0.3"/></joint>
<link name="{side}_foot"><inertial><origin xyz="0 0 -0.1"/><mass value="0.6"/>
<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.002"/></inertial></link>
<joint name="{side}_knee" type="revolute"><parent link="{side}_thigh"/><child link="{side}_foot"/>
<origin xyz="0 0 -0.25" rpy="0.3 0 0"/><axis xyz="1 0 0"/><limit lower="-1" upper="1" effort="50" velocity="9"/>
</joint>"""
BIPED = """<robot name="biped"><link name="base"><inertial><origin xyz="0.01 0.02 0.05"/><mass value="4"/>
<inertia ixx="0.1" ixy="0.01" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link>{legs}</robot>"""
FEET = ["left_foot", "right_foot"]
LYING = [ds.Frame(foot, (0.0, 0.0, -0.25), [[0, 0, 1], [0, 1, 0], [-1, 0, 0]]) for foot in FEET]
SOLES = [ds.Frame(foot, (0.0, 0.0, -0.25)) for foot in FEET]
RADIUS = 0.05


@pytest.fixture(scope="module")
def biped(tmp_path_factory):
    """Two legs of two joints: limits on all of them, dry friction at the hips."""
    path = tmp_path_factory.mktemp("biped") / "biped.urdf"
    legs = "".join(LEG.format(side=side, y=y) for side, y in (("left", 0.1), ("right", -0.12)))
    path.write_text(BIPED.format(legs=legs))
    return ds.load(path, root="floating")


def on_the_ground(tree, q, frames=SOLES, height=RADIUS - CLOSE):
    """Configurations, the lowest of some frames at a height."""
    q = np.array(q)
    q[..., 2] -= ds.forward_kinematics(tree, q, frames)[..., 2, 3].min(axis=-1) - height
    return q


def slope(angle):
    """Plane that falls along x."""
    c, s = np.cos(angle), np.sin(angle)
    return ds.Frame("world", rotation=[[c, 0, s], [0, 1, 0], [-s, 0, c]])


def run(kernel, q, v, steps, *others, tau=None, dt=DT):
    """State after some steps, and the largest residual."""
    q, v = np.asarray(q, dtype=float), np.asarray(v, dtype=float)
    p, worst = np.zeros((*q.shape[:-1], *kernel.arguments[2].shape)), 0.0
    tau = np.zeros(v.shape[-1]) if tau is None else tau
    for _ in range(steps):
        q, v, p, residuals = kernel(q, v, p, tau, dt, *others)
        worst = max(worst, residuals.max())
    return q, v, p, worst


def step_of(tree, contacts, **options):
    return ds.compile(tree, contacts, "contact_step", **{**TIGHT, **options})


def test_nothing_passes_through_and_what_is_apart_has_no_force():
    """A gap closes within the step, whatever the velocity; the impulse is what is left of the gap, and no more."""
    kernel = step_of(ball(), [ds.Contact("body", Sphere(0.1))])
    for height, speed in ((0.05, 100.0), (1e-6, 3.0), (0.5, 10.0)):
        q, _, p, _ = run(kernel, [0, 0, 0.1 + height, 0, 0, 0, 1], [0, 0, -speed, 0, 0, 0], 1)
        falls = height - DT * (speed + G * DT)
        assert q[2] == pytest.approx(0.1 + max(falls, 0.0), abs=1e-12)
        assert (p[2] > 0) == (falls < 0)


def test_overlaps_are_taken_back_without_kinetic_energy():
    kernel = step_of(ball(), [ds.Contact("body", Sphere(0.1))])
    q, v, _, _ = run(kernel, [0, 0, 0.1 - 5e-3, 0, 0, 0, 1], np.zeros(6), 1)
    lever = 0.1 - 2.5e-3  # of the contact point
    yields = 1 + 0.01 * (1 + 2 * (1 + lever**2 / 0.004)) / 3
    assert q[2] == pytest.approx(0.1 - 5e-3 + 0.2 * (5e-3 - 1e-4) / yields) and np.abs(v).max() < 1e-12
    q, v, _, _ = run(kernel, q, v, 100)
    assert 0.1 - 1.1e-4 < q[2] < 0.1 and np.abs(v).max() < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("length", [1e-6, 1.0, 1e6])
def test_overlaps_that_are_left_alone_are_an_option(length):
    """As of the simulator: a ball of any size is lifted by a fifth of what is beyond; so are derivatives."""
    free = ds.mechanisms.free_body(1.0, Sphere(0.1 * length).inertia(1.0))
    contact, left = ds.Contact("body", Sphere(0.1 * length)), 0.01 * length
    kernel = step_of(free, [contact], penetration=left)
    for overlap, back in ((0.005 * length, 0.0), (0.03 * length, 0.02 * length)):
        start = np.array([0, 0, 0.1 * length - overlap, 0, 0, 0, 1])
        q, *_ = run(kernel, start, np.zeros(6), 1)
        assert 0.95 * 0.2 * back <= q[2] - start[2] <= 0.2 * back + 1e-9 * length
        if length == 1.0:
            of_step = ds.compile(free, contact, "contact_step_derivatives", penetration=left, outputs="A", **TIGHT)
            A = of_step(start, np.zeros(6), np.zeros(3), np.zeros(6), DT)
            assert A[2, 2] == pytest.approx(0.8 if back else 1.0, abs=0.01)


# -- the same by other ways ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["nsgs", "admm"])
def test_residuals_and_impulses_solve_the_cone_problem(biped, solver):
    """What the kernel calls solved has the residual that `ConeProblem` measures, computed from J and M.

    What it does not solve has it too: the largest of the two parts of residuals, or up to their hypotenuse.
    """
    contacts = [ds.Contact(sole, Sphere(RADIUS), friction=0.5) for sole in SOLES]
    kernel = step_of(biped, contacts, solver=solver, tolerance=1e-8, sweeps=3000, limits=False, passive="none")
    rng, n, nv = np.random.default_rng(2), 30, biped.nv
    q, v = on_the_ground(biped, biped.random(rng, batch=n)), rng.normal(size=(n, nv))
    _, _, p, residuals = kernel(q, v, np.zeros((n, 6)), np.zeros(nv), DT)
    assert residuals.max() < 1e-8 and np.count_nonzero(p[:, 2::3]) > n // 3
    loose = step_of(biped, contacts, solver=solver, tolerance=10.0, sweeps=1, limits=False, passive="none")
    _, _, unsolved, parts = loose(q, v, np.zeros((n, 6)), np.zeros(nv), DT)
    assert np.count_nonzero(parts.max(axis=1) > 1e-3) > n // 6
    poses, n_turning = ds.forward_kinematics(biped, q, SOLES), 0
    for k in range(n):
        gaps = poses[k, :, 2, 3] - RADIUS
        points = [
            ds.Point(ds.Frame(foot, (0, 0, -0.25) + pose[:3, :3].T @ [0, 0, -RADIUS - 0.5 * gap]), axes="world")
            for foot, pose, gap in zip(FEET, poses[k], gaps, strict=True)
        ]
        J, M = ds.jacobian(biped, points, q[k]), ds.mass_matrix(biped, q[k])
        free = ds.forward_dynamics(biped, q[k], v[k], np.zeros(nv), (), passive="none").qdd
        turning = np.r_[np.cross(v[k, 3:6], v[k, :3]), np.zeros(nv - 3)]
        w = turned_momentum(biped, q[k], v[k], DT, -M @ (free + turning))
        b = J @ (v[k] + DT * (free + turning) + np.linalg.solve(M, w))
        b[2::3] += np.maximum(gaps, 0.0) / DT
        ahead = poses_ahead(biped, q[k], v[k])
        of_each = zip(poses[k], ahead, gaps, (J @ v[k]).reshape(2, 3), strict=True)
        W, kappa = J @ np.linalg.solve(M, J.T), np.concatenate([turning_of_ball(RADIUS, DT, *x) for x in of_each])
        straight, problem = (ConeProblem(W, x, mu=[0.5, 0.5]) for x in (b, b + kappa))
        n_turning += straight.residual(p[k].reshape(2, 3)) > 1e-6
        assert problem.residual(p[k].reshape(2, 3)) < 1e-7
        least, most = parts[k, :2].max(), np.hypot(*parts[k, :2])
        assert least - 1e-7 < problem.residual(unsolved[k].reshape(2, 3)) < most + 1e-7
    assert n_turning >= n // 10


def poses_ahead(tree, q, v):
    """Poses of both soles at the end of a step with the velocity ``v``."""
    end, R = tree.integrate(q, DT * v), frame_pose(tree, ds.Frame("base"), q)[0]
    end[:3] = q[:3] + DT * R @ v[:3]  # straight in the world
    return ds.forward_kinematics(tree, end, SOLES)


def agrees_with_simulator(tree, contacts, q, v, tau, steps, loops=(), **options):
    """Both go the same way as long as the same contacts are closed."""
    places = [c.frame.on(tree) for c in contacts]
    colliders = [
        Collider(c.frame.link, c.shape, at.position, friction=c.friction**2, restitution=c.restitution)
        for c, at in zip(contacts, places, strict=True)
    ]
    scene = ds.Scene(
        tree,
        [*colliders, Collider("world", HalfSpace(), friction=1.0, restitution=contacts[0].restitution)],
        loops=loops,
    )
    return beside_simulator(scene, q, v, tau, steps, DT, **{**TIGHT, **options})


def test_scenes_have_contacts_as_constraints():
    pair = ds.mechanisms.pendulum(2)
    colliders = [
        Collider("rod1", Capsule(0.05, 0.3), (0, 0, -0.4), friction=0.2, restitution=0.5),
        Collider("rod2", Cylinder(0.1, 0.3), (0, 0, -0.5), slope(0.3).rotation, name="brick"),
        Collider("world", HalfSpace(), (0, 0.1, -3), slope(0.1).rotation, friction=0.8, restitution=0.5,
                 surface_velocity=(1, 2, 0)),
        Collider("world", Capsule(0.1, 0.3), (1, 0, 0), name="post"),
    ]  # fmt: skip
    scene = ds.Scene(pair, colliders, ignore=[("brick", "post")])
    on_plane, on_post, brick = scene.constraints()
    assert [c.frame.link for c in (on_plane, on_post, brick)] == ["rod1", "rod1", "rod2"]
    assert isinstance(on_post.second_shape, Capsule) and on_post.second.link == "world" and brick.n_points == 8
    assert (on_plane.friction, on_plane.restitution) == (pytest.approx(0.4), 0.5)
    np.testing.assert_array_equal(on_plane.surface_velocity, [1, 2, 0])
    np.testing.assert_allclose(on_plane.ground.rotation, slope(0.1).rotation, atol=1e-15)
    np.testing.assert_allclose(brick.frame.rotation, slope(0.3).rotation, atol=1e-15)
    belt = replace(colliders[0], surface_velocity=np.ones(3))
    with pytest.raises(
        ConfigurationError, match=r"scene of a contact step: .* got Capsule 'rod1' and HalfSpace 'world'"
    ):
        ds.Scene(pair, [belt, colliders[2]]).contact_step()


LUMP = """<robot name="lump"><link name="lump"><inertial><origin xyz="0.05 -0.03 0.02" rpy="0.3 0.5 -0.7"/>
<mass value="1.3"/><inertia ixx="0.02" ixy="0" ixz="0" iyy="0.05" iyz="0" izz="0.06"/></inertial></link></robot>"""


@pytest.fixture(scope="module")
def lump(tmp_path_factory):
    """A body without symmetry, its centre beside its origin."""
    path = tmp_path_factory.mktemp("lump") / "lump.urdf"
    path.write_text(LUMP)
    return ds.load(path, root="floating")


@pytest.mark.parametrize("damped", [False, True])
@pytest.mark.parametrize("restitution", [0.0, 0.6])
def test_bodies_that_tumble_go_as_in_the_simulator(lump, restitution, damped):
    """In flight and on the ground, bounces included, also where a body is a block of its own for its damping."""
    if damped:
        lump = replace(lump, joints=tuple(replace(joint, damping=np.full(6, 0.1)) for joint in lump.joints))
    rng = np.random.default_rng(0)
    contact = ds.Contact("lump", Sphere(0.1), friction=0.4, restitution=restitution)
    q = np.r_[0.0, 0.0, 0.12, lump.random(rng)[3:]]
    _, sim = agrees_with_simulator(lump, [contact], q, [0.3, 0.2, 0.0, 7.0, 9.0, -5.0], rng.normal(size=6), 200)
    assert np.linalg.norm(sim.v[3:]) > 2.0


def test_free_bodies_keep_their_momenta(lump):
    """Linear and angular, about the origin of the world; a payload is a part of the body."""
    kernel = ds.compile(lump, ds.Contact("lump", Sphere(0.1)), "contact_step", gravity=(0, 0, 0), payloads=["lump"])
    rng, n, steps = np.random.default_rng(0), 10, 300
    q, v = lump.random(rng, batch=n), rng.normal(size=(n, 6)) * [1, 1, 1, 9, 9, 9]
    q[:, 2] += 5.0
    payload = np.tile([0.5, 0.1, 0, 0, 0.1, 0, 0.1, 0, 0, 0.1], (n, 1))

    def momentum(q, v):
        inertia = ds.mass_matrix(lump, q, payloads={"lump": payload})
        R, p = frame_pose(lump, ds.Frame("lump"), q)
        h = np.einsum("nij,nj->ni", inertia, v).reshape(n, 2, 3) @ R.mT
        return np.concatenate([h[:, 0], h[:, 1] + np.cross(p, h[:, 0])], axis=-1)

    start = momentum(q, v)
    qs, vs, *_ = ds.rollout(kernel, q, v, np.zeros((steps, 6)), DT, payload0=payload)
    np.testing.assert_allclose(momentum(qs[-1], vs[-1]), start, atol=1e-11)
    assert np.abs(vs[-1] - v).max() > 5.0


@pytest.mark.slow
def test_a_robot_with_a_loop_goes_as_in_the_simulator(biped):
    """With dry friction and limits, and a loop that gapes, which is pulled together."""
    contacts = [ds.Contact(sole, Sphere(RADIUS), friction=0.6) for sole in SOLES]
    q = on_the_ground(biped, biped.configuration({"left_knee": -0.3, "right_knee": -0.3}))
    loops = [ds.JointRows({"left_hip": 1.0, "right_hip": -1.0}, rest=1e-4)]
    tau = np.random.default_rng(0).normal(size=biped.nv) * np.r_[np.zeros(6), np.full(4, 0.5)]
    q[2] += 2e-4  # touches down
    p, sim = agrees_with_simulator(biped, contacts, q, np.zeros(biped.nv), tau, 25, loops)
    assert p[2:6:3].max() > 0 and len(sim.contacts)


def test_loops_hold(biped):
    """A loop is eliminated: without contact the motion is that of forward dynamics with the loop."""
    loop = ds.Distance("left_foot", "right_foot")
    kernel = step_of(biped, [loop, ds.Contact(SOLES[0], Sphere(RADIUS))], limits=False, passive="none")
    rng = np.random.default_rng(3)
    q, still, tau = biped.random(rng), np.zeros(biped.nv), rng.normal(size=biped.nv)
    q[2] = 5.0
    _, v, p, _ = kernel(q, still, np.zeros(3), tau, DT)
    wanted = ds.forward_dynamics(biped, q, still, tau, [loop], passive="none").qdd
    np.testing.assert_allclose(v, DT * wanted, rtol=1e-4, atol=1e-5)
    assert not p.any()
    q = on_the_ground(biped, q)
    _, v, p, residuals = kernel(q, still, np.zeros(3), tau, DT)
    J = ds.jacobian(biped, loop, q)
    assert residuals.max() < 1e-10 and np.abs(J @ v).max() < 1e-2


# -- joints ------------------------------------------------------------------------------------------------------------


SLIDER = """<robot name="slider"><link name="base"/><link name="mass"><inertial><mass value="2"/>
<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link><joint name="slide" type="prismatic">
<parent link="base"/><child link="mass"/><axis xyz="1 0 0"/><dynamics friction="3"/>
<limit effort="100" velocity="100" lower="-1" upper="0.5"/></joint></robot>"""


def test_dry_friction_and_limits(tmp_path):
    path = tmp_path / "slider.urdf"
    path.write_text(SLIDER)
    tree = ds.load(path)
    kernel = step_of(tree, ())
    assert kernel.arguments[2].size == 2
    _, v, p, _ = run(kernel, [0.0], [0.0], 100, tau=np.array([2.9]))
    assert v == pytest.approx(0.0, abs=1e-14) and p[1] == pytest.approx(-2.9 * DT)
    _, v, p, _ = run(kernel, [0.0], [0.0], 100, tau=np.array([5.0]))
    assert v == pytest.approx((5.0 - 3.0) / 2 * 0.1) and p[1] == pytest.approx(-3.0 * DT)
    q, v, p, worst = run(kernel, [0.0], [0.0], 2000, tau=np.array([5.0]))
    assert q == pytest.approx(0.5, abs=1e-9) and v == pytest.approx(0.0, abs=1e-9)
    assert p.sum() == pytest.approx(-5.0 * DT) and p[0] <= 0 and worst < 1e-9
    q, v, _, _ = run(kernel, [0.7], [0.0], 5)  # from beyond a limit: back, without kinetic energy
    assert 0.5 < q[0] < 0.65 and v[0] == 0.0
    free = step_of(tree, (), limits=False, passive="none")
    assert free.arguments[2].size == 0
    q, v, _, _ = run(free, [0.0], [0.0], 2000, tau=np.array([5.0]))
    assert q[0] > 4


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["nsgs", "pgs", "admm"])
def test_rows_that_cannot_move(tmp_path, solver):
    """What slides along x in the plane: normals, or one tangent, have no mobility."""
    path = tmp_path / "slider.urdf"
    path.write_text(SLIDER)
    tree = ds.load(path)
    kernel = step_of(tree, [ds.Contact("mass", Sphere(0.1), friction=0.5)], solver=solver, sweeps=50)
    *results, status = kernel([0.1], [1.0], np.zeros(5), [0.0], DT, return_status=True)
    assert status == ds.DynamicsStatus.UNFINISHED or np.all(np.isfinite(np.concatenate(results)))
    path.write_text(SLIDER.replace('xyz="1 0 0"', 'xyz="1 0 1"'))
    tilted = ds.load(path)
    kernel = step_of(tilted, [ds.Contact("mass", Sphere(0.1), friction=0.2)], solver=solver, sweeps=500)
    *results, status = kernel([0.1], [-1.0], np.zeros(5), [0.0], DT, return_status=True)
    assert status == ds.DynamicsStatus.SOLVED and results[2][2] > 0
    assert results[1] == pytest.approx(0.0, abs=1e-8) or results[1] > 0


# -- rollouts, flags, errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["nsgs", "admm"])
def test_rows_that_loops_hold_have_no_impulse(tmp_path, solver):
    """At a tip that is held, and so are the joints, some beyond their limits: only round-off is left of mobilities."""
    path = tmp_path / "leg.urdf"
    joint = '<joint name="{0}" type="revolute"><parent link="{0}l"/><child link="{1}l"/><origin xyz="{2} 0 0.1"/>'
    limits = '<axis xyz="{3}"/><limit lower="0.5" upper="1" effort="9" velocity="9"/></joint>'
    mass = '<link name="{1}l"><inertial><mass value="1"/><origin xyz="0.1 0 0.05"/><inertia ixx="0.01" ixy="0" ixz="0"'
    text = f'{mass} iyy="0.01" iyz="0" izz="0.01"/></inertial></link>{joint}{limits}'
    links = (("0", "1", "0", "0 0 1"), ("1", "2", "0.3", "0 1 0"), ("2", "3", "0.3", "1 1 0"))
    path.write_text(f'<robot name="leg"><link name="0l"/>{"".join(text.format(*link) for link in links)}</robot>')
    tree, rng, tip = ds.load(path), np.random.default_rng(0), ds.Frame("3l", (0.2, 0.1, 0.3))
    constraints = [ds.Point(tip), ds.Contact(tip, Sphere(2.0), friction=0.6)]
    q, v, tau = tree.random(rng, batch=8), rng.normal(size=(8, 3)), rng.normal(size=(8, 3))
    step = step_of(tree, constraints, dtype="float32", solver=solver)
    state = q, v, np.full((8, *step.arguments[2].shape), 1e-3), tau, np.full(8, DT)
    _, found, p, _, status = step(*(x.astype(np.float32) for x in state), return_status=True)
    at_once = interpreted(step.request, dict(zip((a.name for a in step.arguments), state, strict=True)))
    assert {s.name for s in status} == {"SOLVED"} and not p.any() and not at_once["impulses_next"].any()
    np.testing.assert_allclose(found, at_once["v_next"], atol=1e4 * np.finfo(np.float32).eps)  # velocities of 1


def planar_arm(path):
    """Three links that move in a plane of any slope."""
    mass = '<link name="l{0}"><inertial><origin xyz="0.15 0 0"/><mass value="1"/><inertia ixx="0.01" ixy="0" ixz="0"'
    link = f'{mass} iyy="0.01" iyz="0" izz="0.01"/></inertial></link>'
    joint = '<joint name="j{0}" type="{2}"><parent link="{3}"/><child link="l{0}"/><origin xyz="{1}" rpy="{4}"/>'
    text = '<robot name="arm"><link name="b"/>'
    for k, (x, parent, tilt) in enumerate(((0, "b", "0.4 0.3 0.2"), (0.3, "l0", "0 0 0"), (0.3, "l1", "0 0 0"))):
        text += link.format(k) + joint.format(k, f"{x} 0 0", "continuous", parent, tilt) + '<axis xyz="0 0 1"/></joint>'
    path.write_text(text + "</robot>")
    return ds.load(path)


@pytest.mark.parametrize("closure", [ds.Point, ds.Weld])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_planar_loops_are_solved_though_rows_across_the_plane_are_redundant(tmp_path, closure, dtype):
    """Velocities are the projection of free ones onto closed loops, in the metric of M; contacts act within them."""
    tree, rng, n = planar_arm(tmp_path / "arm.urdf"), np.random.default_rng(0), 200
    loop = closure(ds.Frame("l2" if closure is ds.Point else "l1", (0.3, 0.0, 0.0)))
    contact = ds.Contact(ds.Frame("l2", (0.1, 0.0, 0.0)), Sphere(0.05), "input", friction=0.5)
    kernel = ds.compile(tree, [contact, loop], "contact_step", dtype=dtype)
    eps, dt = np.finfo(dtype).eps, {"float64": 1e-9, "float32": 1e-4}[dtype]
    near = 1e4 * eps + 20 * dt  # in a step the arm turns
    q, v = tree.random(rng, batch=n), rng.normal(size=(n, 3))
    J, M = ds.jacobian(tree, [loop], q), ds.mass_matrix(tree, q)
    v -= np.einsum("nij,njk,nk->ni", np.linalg.pinv(J, rcond=1e-9), J, v)
    side = np.linalg.solve(M, np.swapaxes(J, 1, 2))
    free = v + dt * ds.forward_dynamics(tree, q, v, np.zeros(3), ()).qdd
    wanted = free - np.einsum("nij,njk,nkl,nl->ni", side, np.linalg.pinv(J @ side, rcond=1e-9), J, free)
    height = ds.forward_kinematics(tree, q, [contact.frame])[:, 0, 2, 3] - 0.05
    for below, touches in ((1.0, False), (0.0, True)):
        ground = np.stack([height - below, 0 * height, 0 * height, 1 + 0 * height], axis=-1)[:, None]
        given = [x.astype(dtype) for x in (q, v, np.zeros((n, 3)), np.zeros((n, 3)), np.full(n, dt), ground)]
        _, after, p, _, status = kernel(*given, return_status=True)
        assert {x.name for x in status} == {"SOLVED"} and np.any(p[:, 2] > 0) == touches
        assert np.abs(np.einsum("nij,nj->ni", J, after)).max() < near
        if not touches:
            np.testing.assert_allclose(after, wanted, atol=near)
        assert np.all(ds.kinetic_energy(tree, q, after) < ds.kinetic_energy(tree, q, wanted) + near)


def test_rollouts_start_from_no_impulses_in_any_precision():
    tree = ball()
    q0, v0 = np.array([0, 0, 0.1, 0, 0, 0, 1], np.float32), np.zeros(6, np.float32)
    forces = np.zeros((4, 6), np.float32)
    kernel = ds.compile(tree, ds.Contact("body", Sphere(0.1), "input"), "contact_step", dtype="float32")
    ground = np.array([[0, 0, 0, 1]], np.float32)
    found = ds.rollout(kernel, q0, v0, forces, DT, ground0=ground)
    given = ds.rollout(kernel, q0, v0, forces, DT, ground0=ground, impulses=np.zeros(3, np.float32))
    anew = ds.rollout(kernel, q0, v0, forces, DT, ground0=np.tile(ground, (4, 1, 1)), per_step=["ground0"])
    for a, b, c in zip(found, given, anew, strict=True):
        assert a.dtype == np.float32 and np.array_equal(a, b) and np.array_equal(a, c)


def test_rollouts_are_steps():
    tree = ball()
    kernel = ds.compile(tree, [ds.Contact("body", Sphere(0.1), friction=0.3)], "contact_step", friction="input")
    rng = np.random.default_rng(0)
    n, steps = 21, 40
    q0 = np.tile([0, 0, 0.12, 0, 0, 0, 1.0], (n, 1))
    v0, mu = rng.normal(size=(n, 6)), rng.uniform(0.1, 1.0, (n, 1))
    controls = rng.normal(size=(steps // 4, n, 6))
    q, v, p, worst, status = ds.rollout(
        kernel, q0, v0, controls, DT, decimation=4, friction=mu, return_status=True, threads=1
    )
    assert q.shape == (steps + 1, n, 7) and p.shape == (steps + 1, n, 3) and worst.shape == (n, 3)
    assert np.all(status == ds.DynamicsStatus.SOLVED)
    a, b, c, most = q0, v0, np.zeros((n, 3)), np.zeros((n, 3))
    for t in range(steps):
        a, b, c, r = kernel(a, b, c, controls[t // 4], DT, mu)
        most = np.maximum(most, r)
    for x, y in ((q[-1], a), (v[-1], b), (p[-1], c), (worst, most)):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)

    def policy(t, q, v):
        assert q.shape == (n, 7) and v.shape == (n, 6)
        return controls[round(t / DT) // 4]

    again = ds.rollout(kernel, q0, v0, policy, DT, steps=steps, decimation=4, friction=mu)
    for x, y in zip(again, (q, v, p, worst), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-15)
    with pytest.raises(ds.DelassusError, match="steps"):
        ds.rollout(kernel, q0, v0, policy, DT, friction=mu)
    for dt in (0.0, -DT, np.where(np.arange(n) == 3, 0.0, DT)):
        with pytest.raises(ds.DelassusError, match="dt: expected above zero"):
            ds.rollout(kernel, q0, v0, controls, dt, friction=mu)


def test_a_policy_meets_steps_that_are_not_solved():
    """Of a batch that falls: parts under a policy with such steps and parts without them are one trajectory."""
    kernel = ds.compile(box(), [ds.Contact("body", Box(0.4, 0.3, 0.2))], "contact_step", sweeps=1, tolerance=1e-12)
    q = np.array([[0, 0, 0.3, 0.1, 0, 0, 1.0], [0, 0, 0.3, 0, 0.1, 0.1, 1.0]])
    q[:, 3:] /= np.linalg.norm(q[:, 3:], axis=1, keepdims=True)
    v = np.array([0.3, 0, -1.0, 0, 0, 1.0])
    known = ds.rollout(kernel, q, v, np.zeros((30, 6)), 1e-2, return_status=True)
    unsolved = (known.status == ds.DynamicsStatus.UNFINISHED).any(axis=1)
    assert unsolved.any() and not unsolved[:3].any()
    with pytest.warns(ds.DelassusWarning, match=r"of 60 step\(s\) are UNFINISHED"):
        found = ds.rollout(kernel, q, v, lambda t, q, v: 0.0 * v, 1e-2, steps=30, decimation=3)
    for x, y in zip(found, known, strict=False):
        assert np.array_equal(x, y)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("restitution", "material"),
    [
        (e, x)
        for e in (0.0, 0.6)
        for x in ({}, {"torsional": 0.02, "rolling": 0.01}, {"friction": 0.0, "rolling": 0.01})
    ],
)
def test_solvers_of_scenes_solve_what_no_sweeps_do(biped, restitution, material):
    """The last fallback of calls, here at every state: feet between ground of any slope, limits, dry friction."""
    material = {"friction": 1.0, "restitution": restitution, **material}
    contacts = [ds.Contact(s, Sphere(RADIUS), "input", **material) for s in SOLES]
    rng, n = np.random.default_rng(0), 100
    q, v = biped.random(rng, batch=n), rng.normal(size=(n, biped.nv))
    q[:, 7:] = np.where(rng.random((n, 4)) < 0.3, np.sign(q[:, 7:]), q[:, 7:])
    values = {"q": q, "v": v, "tau": rng.normal(size=(n, biped.nv)), "dt": np.full(n, DT)}
    for k, pose in enumerate(np.moveaxis(ds.forward_kinematics(biped, q, SOLES), 1, 0)):
        normal = rng.normal([0, 0, 3], 1.0, (n, 3))
        normal *= np.sign(normal[:, 2:]) / np.linalg.norm(normal, axis=-1, keepdims=True)
        height = pose[:, 2, 3] - RADIUS / normal[:, 2] + CLOSE * rng.random(n)
        values[f"ground{k}"] = np.concatenate([height[:, None], normal], axis=-1)[:, None]
    asked = requested(biped, contacts, "contact_step", tolerance=1e-6)
    values["impulses"] = np.zeros((n, *next(a.shape for a in asked.arguments if a.name == "impulses")))
    outputs, solved = exact_steps(asked, values, n)
    found = dict(zip((o.name for o in asked.outputs), outputs, strict=True))
    assert solved.all() and found["residuals"].max() < 1e-6
    assert np.count_nonzero(found["impulses_next"][:, 2] > 0) > n // 4


@pytest.mark.slow
def test_states_that_sweeps_do_not_solve_are_solved_again_or_flagged(biped):
    contacts = [ds.Contact(sole, Capsule(0.02, 0.2), friction=0.9) for sole in LYING]
    rng, n = np.random.default_rng(0), 40
    q = on_the_ground(biped, np.tile(biped.neutral(), (n, 1)), height=0.02 - CLOSE)
    v, none = rng.normal(size=(n, biped.nv)), np.zeros((n, 12))
    given = (q, v, none, np.zeros(biped.nv), DT)
    few = ds.compile(biped, contacts, "contact_step", sweeps=2, limits=False, passive="none")
    *results, status = few(*given, return_status=True)
    with pytest.warns(ds.DelassusWarning, match="made again with more"):
        few(*given)
    within = results[3].max(axis=1) < 1e-4
    assert within.any() and np.all(within == (status == ds.DynamicsStatus.SOLVED))
    assert np.all(status[~within] == ds.DynamicsStatus.UNFINISHED)
    *_, worst, steps = ds.rollout(few, q, v, np.zeros((3, biped.nv)), DT, return_status=True)
    flagged = (steps == ds.DynamicsStatus.UNFINISHED).any(axis=0)
    assert flagged.any() and np.all(flagged == (worst.max(axis=1) >= 1e-4))
    with pytest.warns(ds.DelassusWarning, match=r"of 120 step\(s\) are UNFINISHED"):
        ds.rollout(few, q, v, np.zeros((3, biped.nv)), DT)
    one = few(q[0], v[0], none[0], np.zeros(biped.nv), DT, return_status=True)
    assert one[4] == status[0]


@pytest.mark.slow
def test_statuses_judge_corrections_of_positions():
    """Two balls of a link are in the floor, and parting one pushes the other in: as with sweeps without end."""
    tree, rng, n = ds.mechanisms.chain(2), np.random.default_rng(0), 50
    balls = [ds.Contact(ds.Frame("link2", at), Sphere(0.5)) for at in ((-0.3, -0.03, 0.2), (0.25, 0.025, -0.1))]
    state = {"q": tree.random(rng, n), "v": 0.1 * rng.normal(size=(n, 2)), "dt": np.full(n, DT)}
    few, many = (ds.compile(tree, balls, "contact_step", sweeps=k, tolerance=1e-6) for k in (30, 3000))
    rest = {a.name: np.zeros((n, *a.shape)) for a in few.arguments if a.name not in state}
    # with both, as a jammed link cannot follow what turns: such steps are made again without
    found = [kernel(**state, **rest, return_status=True) for kernel in (few, many)]
    (q, *_, status), (expected, *_, of_many) = found
    solved = ds.DynamicsStatus.SOLVED
    assert np.all(status == solved) and np.all(of_many == solved)
    assert np.abs(q - expected).max() < 100 * 1e-6 * DT  # sweeps end where they move less


@pytest.mark.parametrize(("links", "friction"), [(2, 0.5), (2, 1.2), (3, 0.8)])
def test_a_single_contact_is_solved_at_every_state(links, friction):
    """Also where friction drives it into the ground: the tip of a chain touches ground of any height and slope."""
    tree, rng, n = ds.mechanisms.chain(links), np.random.default_rng(0), 4000
    tip = ds.Frame(f"link{links}", (0.1, 0.2, 0.3))
    kernel = ds.compile(tree, ds.Contact(tip, Sphere(0.01), "input", friction=friction), "contact_step", tolerance=1e-6)
    q, v = tree.random(rng, batch=n), rng.normal(size=(n, tree.nv))
    normal = rng.normal([0, 0, 3], 1.0, (n, 3))
    normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
    normal[:, 2] = np.abs(normal[:, 2])
    height = ds.forward_kinematics(tree, q, [tip])[:, 0, 2, 3] - 0.01 / normal[:, 2]
    ground = np.concatenate([height[:, None], normal], axis=-1)[:, None]
    *_, worst, status = ds.rollout(kernel, q, v, np.zeros((1, tree.nv)), DT, ground0=ground, return_status=True)
    assert np.all(status == ds.DynamicsStatus.SOLVED) and worst.max() < 1e-6


@pytest.mark.parametrize(("solver", "restitution"), [("nsgs", 0.0), ("pgs", 0.0), ("admm", 0.0), ("nsgs", 1.0)])
def test_impulses_that_solve_nothing_add_no_energy(biped, solver, restitution):
    """After one sweep from impulses at random: feet that touch ground of any slope, joints at their limits."""
    options = {"friction": 1.2, "restitution": restitution}
    contacts = [ds.Contact(sole, Sphere(RADIUS), "input", **options) for sole in SOLES]
    kernel = ds.compile(biped, contacts, "contact_step", solver=solver, sweeps=1)
    rng, n = np.random.default_rng(0), 2000
    q, v = biped.random(rng, batch=n), rng.normal(size=(n, biped.nv))
    q[:, 7:] = np.where(rng.random((n, 4)) < 0.3, np.sign(q[:, 7:]), q[:, 7:])
    poses = ds.forward_kinematics(biped, q, SOLES)
    given = {}
    for k in range(2):
        normal = rng.normal([0, 0, 3], 1.0, (n, 3))
        normal *= np.sign(normal[:, 2:]) / np.linalg.norm(normal, axis=-1, keepdims=True)
        height = poses[:, k, 2, 3] - RADIUS / normal[:, 2] + CLOSE * rng.random(n)
        given[f"ground{k}"] = np.concatenate([height[:, None], normal], axis=-1)[:, None]
    start, none = rng.exponential(1.0, (n, *kernel.arguments[2].shape)), np.zeros((1, biped.nv))
    short = 1e-9  # s: forces do nothing
    _, after, p, _, status = ds.rollout(kernel, q, v, none, short, impulses=start, return_status=True, **given)
    energy, before = ds.kinetic_energy(biped, q, after[-1]), ds.kinetic_energy(biped, q, v)
    assert np.mean(status == ds.DynamicsStatus.UNFINISHED) > 0.3 and np.mean(np.abs(p[-1]).max(axis=-1) > 0) > 0.5
    assert np.all(energy < before * (1 + 1e-6))


@pytest.mark.parametrize("restitution", [0.0, 0.7])
def test_falls_gain_no_energy_though_sweeps_are_too_few(biped, restitution):
    """Limits, dry friction, and feet, knees and body that hit the ground; a third of a second after the first touch."""
    links, options = ["base", "left_thigh", "right_thigh"], {"friction": 0.8, "restitution": restitution}
    contacts = [ds.Contact(at, Sphere(RADIUS), **options) for at in (*SOLES, *links)]
    kernel = ds.compile(biped, contacts, "contact_step", sweeps=2)
    rng, n, steps = np.random.default_rng(0), 64, 500
    q, v = biped.random(rng, batch=n), 0.5 * rng.normal(size=(n, biped.nv))
    q = on_the_ground(biped, q, [*SOLES, *(ds.Frame(link) for link in links)], height=RADIUS + 0.1)
    qs, vs, _, _, status = ds.rollout(kernel, q, v, np.zeros((steps, biped.nv)), DT, return_status=True)
    energy = ds.kinetic_energy(biped, qs, vs) + ds.potential_energy(biped, qs)
    energy -= ds.potential_energy(biped, qs).min()
    assert np.mean(status == ds.DynamicsStatus.UNFINISHED) > 0.02 and np.all(np.isfinite(qs))
    assert np.all(energy.max(axis=0) < 1.01 * energy[0])


def test_ground_that_comes_with_each_call():
    """A plane as an input is the same plane; other heights and slopes are felt where they are."""
    tree, size = box(), Capsule(0.15, 0.3)
    fixed = step_of(tree, [ds.Contact("body", size, friction=0.5)])
    given = step_of(tree, [ds.Contact("body", size, "input", friction=0.5)])
    rng = np.random.default_rng(0)
    q, v = tree.random(rng, batch=10), rng.normal(size=(10, 6))
    q[:, :3] = rng.uniform(0.1, 0.2, (10, 3))
    flat = np.tile([0.3, 0, 0, 1.0], (10, 2, 1))
    lifted = q + np.array([0, 0, 0.3, 0, 0, 0, 0])
    a, b = fixed(q, v, np.zeros(6), np.zeros(6), DT), given(lifted, v, np.zeros(6), np.zeros(6), DT, flat)
    np.testing.assert_allclose(a[0], b[0] - np.array([0, 0, 0.3, 0, 0, 0, 0]), atol=1e-7)
    np.testing.assert_allclose(a[1], b[1], atol=1e-6)


def test_links_that_touch():
    """Two bodies on a line: equal masses exchange velocities; capsules meet at their closest points."""
    chain = ds.mechanisms.free_body(1.0, Sphere(0.1).inertia(1.0))
    two = ds.Scene({"a": chain, "b": chain}, gravity=(0, 0, 0)).tree
    contact = ds.Contact("a/body", Sphere(0.1), ("b/body", Sphere(0.1)), friction=0.0, restitution=1.0)
    kernel = step_of(two, [contact])
    q = np.array([0, 0, 0, 0, 0, 0, 1, 0.2 + 1e-4, 0, 0, 0, 0, 0, 1.0])
    _, v, p, _ = run(kernel, q, [1.0, *[0] * 11], 1)
    assert v[0] == pytest.approx(0.0, abs=1e-9) and v[6] == pytest.approx(1.0) and p[2] == pytest.approx(1.0)
    crossed = ds.Contact(
        "a/body",
        Capsule(0.05, 0.6),
        (ds.Frame("b/body", rotation=[[1, 0, 0], [0, 0, -1], [0, 1, 0]]), Capsule(0.05, 1)),
    )
    kernel = step_of(two, [crossed])
    q = np.array([0, 0, 0, 0, 0, 0, 1, 0.2, 0.1, 0.2, 0, 0, 0, 1.0])
    _, _, p, _ = run(kernel, q, [100.0, *[0] * 11], 1)  # 0.1 m in the step: the gap along x
    assert p[2] == pytest.approx(0.0, abs=1e-6)
    _, _, p, _ = run(kernel, q, [110.0, *[0] * 11], 1)
    assert p[2] > 0.5


def test_balls_of_two_sizes_meet_on_their_surfaces():
    """Friction turns each about its centre by its own radius, and what they have together stays."""
    first, second = Sphere(0.1), Sphere(0.3)
    bodies = [ds.mechanisms.free_body(mass, shape.inertia(mass)) for mass, shape in ((1.0, first), (5.0, second))]
    two = ds.Scene({"a": bodies[0], "b": bodies[1]}, gravity=(0, 0, 0)).tree
    kernel = step_of(two, [ds.Contact("a/body", first, ("b/body", second), friction=0.3)])
    q = np.array([0, 0, 0, 0, 0, 0, 1, 0.4 + 1e-9, 0, 0, 0, 0, 0, 1.0])
    before = np.array([1.0, 0.8, 0.3, 0, 0, 0, 0, 0.1, 0, 0, 0, 0])
    after, v, p, _ = run(kernel, q, before, 1)
    names, world = ["a/body", "b/body"], "local-world-aligned"
    change = ds.frame_velocity(two, after, v, names, reference=world) - before.reshape(2, 6)
    turns = [mass * 0.4 * ball.radius**2 * x[3:] for mass, ball, x in zip((1, 5), (first, second), change, strict=True)]
    assert p[2] > 0.3 and np.linalg.norm(turns[0]) > 0.005
    np.testing.assert_allclose(change[0, :3], -5.0 * change[1, :3], atol=1e-9)
    np.testing.assert_allclose(3.0 * turns[0], turns[1], atol=1e-9)


def test_arguments_without_meaning_are_flagged():
    """Time steps, coefficients and normals, each in its own state only; refused where they are seen."""
    contact = ds.Contact("body", Sphere(0.1), "input")
    kernel = ds.compile(ball(), contact, "contact_step", friction="input", restitution="input")
    good = {"dt": DT, "friction": 0.5, "restitution": 0.3, "normal": 1.0}
    bad = [("dt", 0.0), ("dt", -DT), ("dt", np.nan), ("friction", -0.1), ("friction", np.nan), ("restitution", -0.1)]
    bad += [("restitution", 1.1), ("restitution", np.nan), ("normal", 0.9), ("normal", 1.01), ("normal", np.nan)]
    cases = [good, *({**good, name: x} for name, x in bad), {**good, "friction": 0.0, "restitution": 1.0}]
    dt, friction, restitution, normal = (np.array([case[name] for case in cases]) for name in good)
    n, none = len(cases), np.zeros(6)
    ground = np.zeros((n, 1, 4))
    ground[:, 0, 3] = normal
    q = np.tile([0, 0, 0.1, 0, 0, 0, 1.0], (n, 1))
    given = {"friction": friction[:, None], "restitution": restitution[:, None], "ground0": ground}
    *_, status = kernel(q, np.array([0.1, 0, -1.0, 0, 0, 0]), np.zeros(3), none, dt, return_status=True, **given)
    solved = [x == ds.DynamicsStatus.SOLVED for x in status]
    assert solved == [True, *[False] * len(bad), True]
    with pytest.raises(ds.DelassusError, match="dt"):
        ds.rollout(kernel, q, none, np.zeros((3, 6)), dt, **given)


def test_contacts_are_constraints_of_their_own():
    tree = ball()
    contact = ds.Contact("body", Sphere(0.1), friction=0.3)
    kernel = ds.compile(tree, contact, "contact_step")
    q = np.array([0, 0, 0.1, 0, 0, 0, 1.0])
    given = q, np.ones(6), np.zeros(3), np.zeros(6), DT
    for x, y in zip(pickle.loads(pickle.dumps(kernel))(*given), kernel(*given), strict=True):
        np.testing.assert_array_equal(x, y)
    with pytest.raises(ds.DelassusError, match="contact_step"):
        ds.compile(tree, contact, "dynamics")
    with pytest.raises(ds.DelassusError, match="contact_step"):
        ds.delassus(tree, contact, q)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ds.Contact("body", "ball"), "a convex shape"),
        (lambda: ds.Contact("body", Sphere(0.1), "floor"), "'plane', 'input'"),
        (lambda: ds.Contact("body", Sphere(0.1), ds.Frame("world", given="placement")), "a Frame on 'world'"),
        (lambda: ds.Contact("body", Sphere(0.1), ds.Frame("body")), "'world'"),
        (lambda: ds.Contact("body", Box(1, 1, 1), ("other", Mesh(np.eye(4, 3)))), "hulls of triangles"),
        (lambda: ds.Contact("body", Sphere(0.1), friction=-1), "friction"),
        (lambda: ds.Contact("body", Sphere(0.1), restitution=2), "restitution"),
        (lambda: step_of(ball(), ds.Contact("bodi", Sphere(0.1))), "body"),
        (lambda: step_of(ball(), ds.Contact("world", Sphere(0.1))), "moves"),
        (lambda: step_of(ball(), ds.Contact("body", Sphere(0.1), ("body", Sphere(0.1)))), "two links"),
        (lambda: step_of(ball(), ds.Contact("body", Sphere(0.1)), solver="lemke"), "nsgs"),
        (lambda: step_of(ball(), ds.Contact("body", Sphere(0.1)), sweeps=0), "sweeps"),
        (lambda: step_of(ball(), ds.Contact("body", Sphere(0.1)), friction=-0.1), "friction"),
        (lambda: ds.compile(ball(), (), "dynamics", sweeps=3), "sweeps"),
    ],
)  # fmt: skip
def test_what_is_refused(make, says):
    with pytest.raises(ds.DelassusError, match=says):
        make()


# -- order in time -------------------------------------------------------------------------------------------------

SECOND_ORDER = 0.05
"""Part of 4 by which errors of two step lengths may be off: higher orders. Worst of 8 states of these robots 0.01."""

GAINED, LOST = 0.02, 0.2
"""Parts of the energy that all states together may gain and lose. Worst seen 0.0009 and 0.04; with one iteration for
the mean velocity what swings and what whirls gain 0.06, and some fly apart."""


def halfway(tree, q, v, dt):
    """Velocity half a step before ``v``, in the axes of ``q``: that of the displacement to it."""
    (qdd,) = ds.compile(tree, (), "joint_space_motion", outputs=("qdd",))(q, v, np.zeros(tree.nv))[None]
    return v - 0.5 * dt * qdd


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hinges", "floating", "rotors"])
def test_errors_of_robots_fall_by_four(kind):
    """Steps of kernels and of scenes beside Runge-Kutta's: a pendulum, what floats, what has rotors."""
    tree = {
        "hinges": lambda: ds.mechanisms.pendulum(2),
        "floating": lambda: some_mechanism(3, 3, "floating", REVERSIBLE).tree,
        "rotors": lambda: some_rotors(np.random.default_rng(3), [*INNER][1], True),
    }[kind]()
    rng, none, still = np.random.default_rng(0), np.zeros(0), np.zeros(tree.nv)
    exact = start = tree.random(rng), 3.0 * rng.normal(size=tree.nv)
    fine, step = (ds.compile(tree, (), what, **with_) for what, with_ in
                  (("step", {"integrator": "rk4"}), ("contact_step", {})))  # fmt: skip
    for _ in range(400):
        exact = fine(*exact, still, 5e-4)
    errors = []
    for n in (50, 100, 200):
        dt = 0.2 / n
        q, v = start[0], halfway(tree, *start, dt)
        sim = ds.Simulator(ds.Scene(tree), q0=q, v0=v, dt=dt)
        for _ in range(n):
            q, v = step(q, v, none, still, dt)[:2]
        sim.run(0.2)
        assert np.abs(tree.difference(q, sim.q)).max() < 1e-11
        errors.append(np.abs(tree.difference(exact[0], q)).max())
    ratios = np.array(errors[:-1]) / errors[1:]
    assert np.abs(ratios / 4.0 - 1.0).max() < SECOND_ORDER, errors


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["swings", "tumbles", "whirls"])
def test_what_swings_and_tumbles_gains_no_energy(kind):
    """Of 16 states together; without weight but what swings. Velocities of a time are means of both around it."""
    tree, speed, steps = {
        "swings": (ds.mechanisms.pendulum(2), 3.0, 20_000),
        "tumbles": (ds.mechanisms.chain(3, root="floating"), 2.0, 5000),
        "whirls": (ds.mechanisms.chain(7), 4.0, 4000),
    }[kind]
    tree = tree if kind == "swings" else replace(tree, gravity=np.zeros(3))
    rng, dt, parts = np.random.default_rng(2), 5e-3, 10
    q, v = tree.random(rng, batch=16), speed * rng.normal(size=(16, tree.nv))
    kernel, energies = ds.compile(tree, (), "contact_step"), ds.compile(tree, (), "energies")
    lowest = sum(energies(tree.neutral(), np.zeros(tree.nv))) if kind == "swings" else 0.0

    def energy(q, v):
        return np.sum([np.reshape(x, 16) for x in energies(q, 2.0 * v - halfway(tree, q, v, dt))], axis=0) - lowest

    start, seen = energy(q, v), list[float]()
    for _ in range(parts):
        q, v = (x[-1] for x in ds.rollout(kernel, q, v, np.zeros((steps // parts, 16, tree.nv)), dt)[:2])
        seen.append(np.mean(energy(q, v) / start) - 1.0)
    assert max(seen) < GAINED and min(seen) > -LOST, seen


def test_slides_and_one_hinge_have_no_products_to_pay_for(tmp_path):
    """Their steps are as long as those that take no mean velocity; those of two hinges are not."""
    slides = """<mujoco><worldbody><body><joint type="slide" axis="1 0 0"/><geom size=".1" mass="1"/>
      <body pos=".1 0 0"><joint type="slide" axis="0 .6 .8"/><geom size=".1" mass="1" pos=".1 .2 0"/></body></body>
      </worldbody></mujoco>"""
    (tmp_path / "slides.xml").write_text(slides)
    products = [
        ds.compile(tree, (), "bias_force_change").operations.total
        for tree in (ds.load(tmp_path / "slides.xml"), ds.mechanisms.pendulum(1), ds.mechanisms.pendulum(2))
    ]
    assert products[:2] == [0, 0] and products[2] > 0


def test_accelerations_of_scenes_cost_as_much_a_link_however_many_there_are():
    """Beside the mass matrix, without loops and with them."""

    def operations(n, tied, *more):
        tree = ds.mechanisms.chain(n, root="floating")
        loops = [ds.Point(f"link{n}")] if tied else []
        return ds.compile(tree, loops, "joint_space_motion", outputs=("poses", "twists", "M", *more)).operations.total

    for tied in (False, True):
        few, some, many = (operations(n, tied, "qdd") - operations(n, tied) for n in (4, 8, 16))
        assert 0 < many - some < 2.2 * (some - few), (tied, few, some, many)
