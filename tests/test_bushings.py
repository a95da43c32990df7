"""Bushings: their energy and its gradient, steps beside an explicit integrator, stiff ones, kernels and derivatives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import delassus as ds
from random_trees import SINGLE, some_mechanism
from test_closed_loops import consistent
from tools import SMALL_STEPS, error, random_frame, slope

pytestmark = pytest.mark.usefixtures("one_lane")


def some_matrix(rng, size, rank=6):
    """A symmetric matrix of this rank, with all sorts of couplings."""
    A = rng.normal(size=(6, rank))
    return size * A @ A.T


def displacement(tree, bushing, q):
    """``e`` (..., 6) of a bushing, by SciPy."""
    T, S = (ds.forward_kinematics(tree, q, frame) for frame in bushing.frames)
    back = np.swapaxes(T[..., :3, :3], -1, -2)
    turn = Rotation.from_matrix(back @ S[..., :3, :3]).as_rotvec()
    return np.concatenate([(back @ (S - T)[..., :3, 3:])[..., 0], turn], axis=-1)


def rows_of(tree, bushing, q):
    """Derivative (6, nv) of the displacement, by differences."""
    moved = tree.integrate(q, SMALL_STEPS[:, None] * np.eye(tree.nv))
    return slope(*displacement(tree, bushing, moved)).T


def some_case(seed, root="floating", n=4):
    """A random robot with a bushing between two of its links, or to the world, turned by about a radian."""
    m = some_mechanism(seed, n, root, SINGLE)
    tree, rng = m.tree, m.rng
    q, v = tree.random(rng), rng.normal(size=tree.nv)
    a = random_frame(rng, tree.link_names[-1])
    b = random_frame(rng, "world" if seed % 2 else tree.link_names[0])
    T, S = (ds.forward_kinematics(tree, q, x) for x in (a, b))
    gap = np.linalg.inv(S) @ T
    turn = Rotation.from_rotvec(0.5 * rng.normal(size=3)).as_matrix()
    place = b.position + b.rotation @ (gap[:3, 3] + 0.2 * rng.normal(size=3))
    b = ds.Frame(b.link, place, b.rotation @ gap[:3, :3] @ turn)
    return tree, ((a, b) if seed % 3 else (b, a)), q, v, rng


@pytest.mark.parametrize("seed", range(4))
def test_energies_and_steps_by_their_gradients(seed):
    """In 20 ms beside forces that are a gradient by differences, explicitly in small steps: errors halve with steps."""
    tree, ends, q, v, rng = some_case(seed)
    K, D = some_matrix(rng, 3.0), some_matrix(rng, 0.02, 3)
    if seed == 2:
        K, D = np.diag(np.abs(np.diag(K))), np.diag(np.abs(np.diag(D)))
    mount = ds.Bushing(*ends, K if seed != 2 else np.diag(K), D)
    e = displacement(tree, mount, q)
    assert mount.energy(tree, q) == pytest.approx(0.5 * e @ K @ e, rel=1e-12)
    assert mount.size == (6 if seed == 2 else 9)
    n, h = 20, 1e-3
    x, u = q, v
    for _ in range(8 * n):
        J = rows_of(tree, mount, x)
        tau = -J.T @ (K @ displacement(tree, mount, x) + D @ (J @ u))
        middle = u + 0.5 * h / 8 * ds.forward_dynamics(tree, x, u, tau, constraints=()).qdd
        at = tree.integrate(x, 0.5 * h / 8 * u)
        J = rows_of(tree, mount, at)
        tau = -J.T @ (K @ displacement(tree, mount, at) + D @ (J @ middle))
        u = u + h / 8 * ds.forward_dynamics(tree, at, middle, tau, constraints=()).qdd
        x = tree.integrate(x, h / 8 * middle)
    found = []
    for k in (1, 2):
        sim = ds.Simulator(ds.Scene(tree).attach(mount), q0=q, v0=v, dt=h / k)
        for _ in range(n * k):
            sim.step()
        found.append(np.abs(tree.difference(x, sim.q)).max())
    assert found[1] < 0.6 * found[0] and found[0] < 5e-3


DT = 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2])
def test_soft_bushings_keep_the_energy_and_stiff_ones_settle(seed):
    """Energy never grows but by what semi-implicit steps swing; κ of 1e-6 to 1e5."""
    tree, ends, q, _, rng = some_case(seed)
    for size, damping in ((1.0, 0.0), (1e11, 0.0), (8e5, 4e4)):
        mount = ds.Bushing(*ends, some_matrix(rng, size), some_matrix(rng, damping))
        sim = ds.Simulator(ds.Scene(tree, gravity=(0, 0, 0)).attach(mount), q0=q, dt=DT)
        start = sum(sim.energy())
        least = start
        for _ in range(100):
            sim.step()
            assert sum(sim.energy()) < start * (1.0 + 1e-6)
            least = min(least, sum(sim.energy()))
        assert sim.statuses.total() == 0
        assert size > 1.0 or least > 0.98 * start
        assert size < 1e9 or sim.energy()[0] < 1e-6 * start


def test_a_bushing_on_a_hinge_is_the_spring_of_its_joint():
    """Of any axis, past zero; of a slide, too. Energies and motion."""
    for kind, axis in (("hinge", 5), ("slide", 0)):
        arm = ds.mechanisms.pendulum(1) if kind == "hinge" else ds.load(SLIDE)
        x = np.eye(3)[arm.joints[0].motion_axes[0] % 3]
        own = Rotation.align_vectors([np.eye(3)[axis % 3]], [x])[0].as_matrix()  # its axis in the frames
        link = arm.link_names[0]
        start = ds.forward_kinematics(arm, arm.neutral(), link)
        ends = ds.Frame(link, rotation=own.T), ds.Frame("world", start[:3, 3], start[:3, :3] @ own.T)
        diagonal = 30.0 * np.eye(6)[axis], 0.4 * np.eye(6)[axis]
        sprung = replace(arm, joints=[replace(arm.joints[0], stiffness=np.array([30.0]), damping=np.array([0.4]))])
        sims = [
            ds.Simulator(scene, q0=[0.7], dt=DT)
            for scene in (ds.Scene(arm).attach(ds.Bushing(*ends, *diagonal)), ds.Scene(sprung))
        ]
        assert sims[0].energy()[1] == pytest.approx(sims[1].energy()[1], rel=1e-12)
        for _ in range(300):
            for sim in sims:
                sim.step()
        assert abs(sims[0].q[0] - sims[1].q[0]) < 1e-4


SLIDE = """<mujoco><worldbody><body name="cart"><joint name="x" type="slide" axis="1 0 0"/>
<geom type="sphere" size=".05" mass="1"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("seed", range(3))
def test_kernels_go_as_scenes_do_and_have_derivatives(seed):
    """20 steps of a kernel, a batch and a rollout; derivatives by differences, of the scene's steps, too."""
    tree, ends, q, v, rng = some_case(seed)
    mount = ds.Bushing(*ends, some_matrix(rng, 200.0), some_matrix(rng, 2.0))
    scene = ds.Scene(tree).attach(mount)
    kernel, tau = scene.contact_step(limits=False), rng.normal(size=tree.nv)
    sim = ds.Simulator(scene, q0=q, v0=v, dt=DT, limits=False)
    derivatives = ds.compile(tree, scene.constraints(), "contact_step_derivatives", limits=False)
    found = derivatives(q, v, [], tau, DT)
    sim.step(tau)
    recorded = sim.step_derivatives()

    def step(x, y):
        q1, v1, *_ = kernel(tree.integrate(q, x), v + y, np.zeros((*np.shape(x)[:-1], 0)), tau, DT)
        return np.concatenate([tree.difference(np.broadcast_to(sim.q, q1.shape), q1), v1], axis=-1)

    n = tree.nv
    units = np.eye(2 * n)
    A = np.stack([slope(*step(SMALL_STEPS * u[:n], SMALL_STEPS * u[n:])) for u in units], axis=1)
    for own in (found[4], np.asarray(recorded.A)):
        assert error(own, A) < 1e-6
    np.testing.assert_allclose(np.r_[found[0], found[1]], np.r_[sim.q, sim.v], atol=1e-10)
    qs, vs, *_ = ds.rollout(kernel, q, v, np.tile(tau, (20, 1)), DT)
    for _ in range(19):
        sim.step(tau)
    np.testing.assert_allclose(np.r_[qs[-1], vs[-1]], np.r_[sim.q, sim.v], atol=1e-9)


def test_bushings_on_loops():
    """A loop that a bushing pulls at: it stays closed, and energy does not grow."""
    tree, ends, q, _, rng = some_case(3, "fixed", 6)
    rod = ds.Distance(random_frame(rng, ends[0].link if ends[0].link != "world" else ends[1].link), ds.Frame("world"))
    v = consistent(tree, [rod], q, rng.normal(size=tree.nv))
    scene = ds.Scene(tree, loops=[rod], start=q, gravity=(0, 0, 0))
    scene = scene.attach(ds.Bushing(*ends, some_matrix(rng, 1e4), some_matrix(rng, 1.0)))
    sim = ds.Simulator(scene, q0=q, v0=v, dt=DT)
    start = sum(sim.energy())
    for _ in range(100):
        sim.step()
        assert sum(sim.energy()) < start * 1.02
    gap = ds.compile(tree, rod, "constraint_errors", outputs="velocities")(sim.q, sim.v)
    assert np.abs(gap).max() < 1e-9 and sim.statuses.total() == 0


def test_errors_name_bushings():
    for given, text in (
        ((np.ones(5),), "stiffness of a bushing: expected six finite numbers"),
        ((-np.ones(6),), "stiffness of a bushing"),
        ((np.ones(6), np.triu(np.ones((6, 6)))), "damping of a bushing: .*symmetric"),
        ((np.ones(6), np.full(6, np.nan)), "damping of a bushing"),
        ((np.zeros(6),), "a number that is not zero"),
    ):
        with pytest.raises(ds.DelassusError, match=text):
            ds.Bushing("a", "b", *given)
    arm = ds.mechanisms.pendulum(2)
    with pytest.raises(ds.DelassusError, match="a link that moves"):
        ds.Scene(arm).attach(ds.Bushing("world", ds.Frame("world", (0, 0, 1)), np.ones(6)))
    with pytest.raises(ds.DelassusError, match="expected springs alone, without motors, got Point"):
        ds.inverse_dynamics_derivatives(arm, *np.zeros((3, 2)), [ds.Bushing("rod1", "rod2", [1] * 6), ds.Point("rod2")])
