"""Derivatives of contact steps: against central differences away from switches of modes, and closed forms."""

import numpy as np
import pytest

import delassus as ds
from delassus.contact import Box, Collider, HalfSpace, Scene, Sphere

pytestmark = pytest.mark.usefixtures("one_lane")

TIGHT = {"tolerance": 1e-10, "sweeps": 3000}
DT = 1e-2
STEP = 1e-6
"""Of central differences, and the largest change of a derivative over it at a state that is far from a switch."""
SMOOTH = 1e-5

LEGS = """<robot name="legs"><link name="base"><inertial><origin xyz="0.02 0.01 0.05"/><mass value="3"/>
<inertia ixx="0.05" ixy="0.004" ixz="0" iyy="0.06" iyz="0" izz="0.04"/></inertial></link>{legs}</robot>"""
LEG = """<link name="leg{i}"><inertial><origin xyz="0.01 0 -0.1"/><mass value="0.7"/>
<inertia ixx="0.006" ixy="0" ixz="0" iyy="0.006" iyz="0" izz="0.001"/></inertial></link>
<joint name="hip{i}" type="revolute"><parent link="base"/><child link="leg{i}"/><origin xyz="{x} {y} 0" rpy="{r} 0 0"/>
<axis xyz="0 1 0"/><limit lower="-0.05" upper="0.05" effort="50" velocity="9"/><dynamics friction="0.4"/></joint>"""


@pytest.fixture(scope="module")
def legs(tmp_path_factory):
    """A floating body on three legs with dry friction, which are near their limits; and their feet on the floor."""
    path = tmp_path_factory.mktemp("legs") / "legs.urdf"
    places = ((0.2, 0.1, 0.1), (-0.15, 0.14, -0.2), (0.05, -0.2, 0.3))
    path.write_text(LEGS.format(legs="".join(LEG.format(i=i, x=x, y=y, r=r) for i, (x, y, r) in enumerate(places))))
    tree = ds.load(path, root="floating")
    feet = [Collider(f"leg{i}", Sphere(0.03), (0, 0, -0.25)) for i in range(3)]
    pairs = [(f"leg{i}", f"leg{j}") for i in range(3) for j in range(i)]
    return Scene(tree, [*feet, Collider("world", HalfSpace(), friction=0.6)], ignore=pairs)


def standing(scene, rng, n):
    """States whose lowest foot is a little above the floor or in it."""
    tree = scene.tree
    q = tree.integrate(tree.neutral(), 0.1 * rng.normal(size=(n, tree.nv)))
    feet = [c.frame for c in scene.constraints()]
    q[:, 2] -= ds.forward_kinematics(tree, q, feet)[..., 2, 3].min(axis=1) - rng.uniform(0.029, 0.033, n)
    return q, rng.normal(size=(n, tree.nv))


def unique(results):
    """Results but for residuals; of a joint that friction and a limit hold, the impulse of both together."""
    q, v, p, _ = results
    return q, v, np.concatenate([p[:, :9], p[:, 9:].reshape(len(p), -1, 3).sum(axis=1)], axis=1)


def compared(kernel, tree, given, directions, step=STEP):
    """Errors of tangents (n,) against central differences, of states at which these do not depend on the step.

    Directions of configurations are those of velocities.
    """
    turned = (tree.integrate(given[0], step * directions[0]) - tree.integrate(given[0], -step * directions[0])) / (
        2 * step
    )
    *tangents, status = kernel.derivative("jvp")(*given, turned, *directions[1:], return_status=True)
    others = []
    for h in (step, step / 4):
        ends = [
            kernel(tree.integrate(given[0], s * directions[0]),
                   *(x + s * d for x, d in zip(given[1:], directions[1:], strict=True)))
            for s in (h, -h)
        ]  # fmt: skip
        others.append([(a - b) / (2 * h) for a, b in zip(*ends, strict=True)])
    error, moved = np.zeros(len(given[0])), np.zeros(len(given[0]))
    for found, first, second in zip(*map(unique, (tangents, *others)), strict=True):
        size = 1 + np.abs(first).max(axis=1)
        error = np.maximum(error, np.abs(found - first).max(axis=1) / size)
        moved = np.maximum(moved, np.abs(first - second).max(axis=1) / size)
    return error[(moved < SMOOTH) & (status == ds.DynamicsStatus.SOLVED)], turned


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::delassus.errors.DelassusWarning")  # of states beside those that are compared
@pytest.mark.parametrize("options", [{}, {"solver": "admm", "sweeps": 20_000}, {"limits": False}])
def test_tangents_are_differences(legs, options):
    """Of contacts that stick, slide and are open, of limits and dry friction, overlaps taken back; and transposed."""
    rng, n, tree = np.random.default_rng(1), 200, legs.tree
    kernel = legs.contact_step(**{**TIGHT, **options}, friction="input")
    (q, v), size, mu = standing(legs, rng, n), kernel.arguments[2].shape, rng.uniform(0.2, 1.0, (n, 3))
    given = [q, v, np.zeros((n, *size)), rng.normal(size=(n, tree.nv)), np.full(n, DT), mu]
    _, _, p, _, status = kernel(*given, return_status=True)
    solved = status == ds.DynamicsStatus.SOLVED
    assert solved.mean() > 0.95
    given, p, mu, n = [x[solved] for x in given], p[solved], mu[solved], int(solved.sum())
    v = given[1]
    normals, tangents = p[:, 2:9:3], np.hypot(p[:, 0:9:3], p[:, 1:9:3])
    sticks = tangents < 0.999 * mu * normals
    for mode in (normals == 0, sticks, ~sticks & (normals > 0)):
        assert mode.sum() > 20
    directions = [rng.normal(size=x.shape) for x in (v, v, p, *given[3:])]
    directions[2][:], directions[4] = 0.0, 1e-2 * directions[4]
    errors, turned = compared(kernel, tree, given, directions)
    assert len(errors) > 0.7 * n and np.median(errors) < 1e-7 and errors.max() < 1e-4
    forwards = kernel.derivative("jvp")(*given, turned, *directions[1:])
    cotangents = [rng.normal(size=x.shape) for x in forwards]
    backwards = kernel.derivative("vjp")(*given, *cotangents)
    one = sum((a * b).sum() for a, b in zip(cotangents, forwards, strict=True))
    other = sum((a * b).sum() for a, b in zip(backwards, [turned, *directions[1:]], strict=True))
    assert abs(one - other) < 1e-5 * abs(one)  # sweeps end elsewhere by round-off


def box_on_the_floor(**options):
    body = ds.mechanisms.free_body(1.0, Box(0.2, 0.15, 0.1).inertia(1.0), name="box")
    scene = Scene(body, [Collider("box", Box(0.2, 0.15, 0.1)), Collider("world", HalfSpace(), friction=1.0)])
    return scene.contact_step(**{"tolerance": 1e-11, "sweeps": 2000, **options})


def test_a_box_that_slides_on_its_corners():
    """Four corners are more than it takes: impulses are not unique, velocities are. ``v⁺ = v − μ g h v / |v|``."""
    kernel, g = box_on_the_floor(friction="input"), 9.81
    q, v, mu = np.array([0, 0, 0.05 - 2e-5, 0, 0, 0, 1.0]), np.array([1.2, 0.5, 0, 0, 0, 0]), 0.3
    given = [q, v, np.zeros(24), np.zeros(6), DT, [mu]]
    along, speed = v[:2] / np.hypot(*v[:2]), np.hypot(*v[:2])
    zero = [np.zeros(np.shape(x)) for x in given]
    by_friction = kernel.derivative("jvp")(*given, *zero[:5], [1.0])[1]
    np.testing.assert_allclose(by_friction[:2], -g * DT * along, atol=1e-6)
    np.testing.assert_allclose(by_friction[2:], 0, atol=1e-5)
    for k in range(2):  # what turns the velocity turns friction
        by_velocity = kernel.derivative("jvp")(*given, zero[0], np.eye(6)[k], *zero[2:])[1]
        turned = mu * g * DT / speed * (np.eye(2) - np.outer(along, along))
        np.testing.assert_allclose(by_velocity[:2], (np.eye(2) - turned)[k], atol=1e-6)
    by_time = kernel.derivative("jvp")(*given, *zero[:4], 1.0, zero[5])[1]
    np.testing.assert_allclose(by_time[:2], -mu * g * along, atol=1e-5)


def test_a_foot_that_sticks_and_one_in_the_air():
    ball = ds.mechanisms.free_body(2.0, np.diag([0.01, 0.02, 0.03]), name="ball")
    contact = ds.Contact("ball", Sphere(0.1), friction=0.8)
    kernel = ds.compile(ball, contact, "contact_step", **TIGHT)
    up = np.array([0, 0, 0.3, 0, 0, 0, 1.0])
    zero = [np.zeros(s) for s in (7, 6, 3, 6)]
    *_, moved, p, _ = kernel.derivative("jvp")(up, *zero[1:], DT, *zero[:3], np.r_[1.0, np.zeros(5)], 0.0)
    np.testing.assert_allclose(moved, [DT / 2.0, 0, 0, 0, 0, 0], atol=1e-12)
    assert not p.any()
    down = np.array([0, 0, 0.1 - 2e-5, 0, 0, 0, 1.0])
    *_, moved, p, _ = kernel.derivative("jvp")(down, *zero[1:], DT, *zero[:3], np.r_[1.0, np.zeros(5)], 0.0)
    arm = 0.1 - 1e-5  # the point is half-way between the surfaces
    w = 1 / 2.0 + arm**2 / 0.02  # mobility of the point along x: it stays, the ball turns about it
    np.testing.assert_allclose(p, [-DT / 2.0 / w, 0, 0], atol=1e-8)
    np.testing.assert_allclose(moved[0] - arm * moved[4], 0, atol=1e-8)


def test_a_box_that_turns_as_it_slides_on_corners_with_and_without_gaps():
    """Gaps are zero but for round-off, whose signs differ: corners that close ask for what no rigid box can do."""
    kernel, rng, n = box_on_the_floor(friction="input"), np.random.default_rng(5), 40
    body = ds.mechanisms.free_body(1.0, np.eye(3))
    q = body.integrate([0, 0, 0.05, 0, 0, 0, 1.0], 1e-15 * rng.normal(size=(n, 6)))
    v = np.concatenate([rng.normal(size=(n, 2)), np.zeros((n, 3)), 2 * rng.normal(size=(n, 1))], axis=1)
    given = [q, v, np.zeros(24), np.zeros(6), DT, [0.3]]
    directions = [rng.normal(size=(n, 6)) for _ in range(2)]
    turned = (body.integrate(q, STEP * DT * directions[0]) - body.integrate(q, -STEP * DT * directions[0])) / (2 * STEP)
    zero = [np.zeros(np.shape(x)) for x in given[2:]]
    moved = kernel.derivative("jvp")(*given, turned, directions[1], *zero)[1]
    assert np.abs(moved).max() < 30  # of a box twice as wide as high; 10⁶ where impulses answer what cannot be met
