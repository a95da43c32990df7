"""Derivatives of contact steps: against central differences away from switches of modes, and closed forms."""

from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
from delassus.contact import Capsule, Collider, HalfSpace, Mesh, Scene, SolverStatus, Sphere

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

SLIDER = """<robot name="slider"><link name="rail"/><link name="slider"><inertial><mass value="2"/>
<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link><joint name="x" type="prismatic">
<parent link="rail"/><child link="slider"/><axis xyz="1 0 0"/><limit lower="-1" upper="1" effort="9" velocity="9"/>
<dynamics friction="6"/></joint></robot>"""

WEDGE = """<mujoco><worldbody><body name="arm"><joint type="hinge" axis="1 2 0.5"/>
<inertial pos="0.1 0 0.1" mass="2" diaginertia="0.1 0.2 0.3"/><body name="hand"><joint type="slide" axis="2 -1 1"/>
<inertial pos="0 0 0" mass="1" diaginertia="0.1 0.1 0.1"/></body></body></worldbody></mujoco>"""

BLOCKS = """<robot name="blocks"><link name="rail"/>{}</robot>"""
BLOCK = """<link name="{name}"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>
</inertial></link><joint name="{name}" type="prismatic"><parent link="rail"/><child link="{name}"/>
<axis xyz="0.6 -0.5 0.3"/><limit lower="-9" upper="9" effort="9" velocity="9"/></joint>"""


@pytest.fixture(scope="module")
def legs(tmp_path_factory):
    """A floating body on two legs with dry friction, which are near their limits; and their feet on the floor.

    All joints have armature, that of the body is along axes of the world.
    """
    path = tmp_path_factory.mktemp("legs") / "legs.urdf"
    places = ((0.2, 0.1, 0.1), (-0.15, 0.14, -0.2))
    path.write_text(LEGS.format(legs="".join(LEG.format(i=i, x=x, y=y, r=r) for i, (x, y, r) in enumerate(places))))
    tree = ds.load(path, root="floating")
    root, *hips = tree.joints
    root = replace(root, armature=np.repeat([0.9, 0.03], 3), armature_is_straight=True)
    tree = replace(tree, joints=(root, *(replace(hip, armature=np.full(1, 0.02)) for hip in hips)))
    feet = [Collider(f"leg{i}", Sphere(0.03), (0, 0, -0.25)) for i in range(2)]
    return Scene(tree, [*feet, Collider("world", HalfSpace(), friction=0.6)], ignore=[("leg0", "leg1")])


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
    return q, v, np.concatenate([p[:, :6], p[:, 6:].reshape(len(p), -1, 2).sum(axis=1)], axis=1)


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
@pytest.mark.parametrize("options", [{}, {"solver": "admm", "sweeps": 20_000}])
def test_tangents_are_differences(legs, options):
    """Of contacts that stick, slide and are open, of limits and dry friction, overlaps taken back; and transposed."""
    rng, n, tree = np.random.default_rng(1), 200, legs.tree
    kernel = legs.contact_step(**{**TIGHT, **options}, friction="input")
    (q, v), size, mu = standing(legs, rng, n), kernel.arguments[2].shape, rng.uniform(0.2, 1.0, (n, 2))
    given = [q, v, np.zeros((n, *size)), rng.normal(size=(n, tree.nv)), np.full(n, DT), mu]
    _, _, p, _, status = kernel(*given, return_status=True)
    solved = status == ds.DynamicsStatus.SOLVED
    assert solved.mean() > 0.95
    given, p, mu, n = [x[solved] for x in given], p[solved], mu[solved], int(solved.sum())
    v = given[1]
    normals, tangents = p[:, 2:6:3], np.hypot(p[:, 0:6:3], p[:, 1:6:3])
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


PYRAMID = Mesh([[0.1, 0.075, -0.05], [0.1, -0.075, -0.05], [-0.1, 0.075, -0.05], [-0.1, -0.075, -0.05], [0, 0, 0.05]])
"""As wide as a box on four corners, and with fewer points."""

INERTIA = np.diag([0.003, 0.004, 0.005])


def pyramid_on_the_floor(**options):
    body = ds.mechanisms.free_body(1.0, INERTIA, name="pyramid")
    scene = Scene(body, [Collider("pyramid", PYRAMID), Collider("world", HalfSpace(), friction=1.0)])
    return scene.contact_step(**{"tolerance": 1e-11, "sweeps": 2000, **options})


def test_a_pyramid_that_slides_on_its_corners():
    """Four corners are more than it takes: impulses are not unique, velocities are. ``v⁺ = v − μ g h v / |v|``."""
    kernel, g = pyramid_on_the_floor(friction="input"), 9.81
    q, v, mu = np.array([0, 0, 0.05 - 2e-5, 0, 0, 0, 1.0]), np.array([1.2, 0.5, 0, 0, 0, 0]), 0.3
    given = [q, v, np.zeros(kernel.arguments[2].shape), np.zeros(6), DT, [mu]]
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


def test_a_pyramid_that_turns_as_it_slides_on_corners_with_and_without_gaps():
    """Gaps are zero but for round-off, whose signs differ: corners that close ask for what no rigid body can do."""
    kernel, rng, n = pyramid_on_the_floor(friction="input"), np.random.default_rng(5), 40
    body = ds.mechanisms.free_body(1.0, np.eye(3))
    q = body.integrate([0, 0, 0.05, 0, 0, 0, 1.0], 1e-15 * rng.normal(size=(n, 6)))
    v = np.concatenate([rng.normal(size=(n, 2)), np.zeros((n, 3)), 2 * rng.normal(size=(n, 1))], axis=1)
    given = [q, v, np.zeros(kernel.arguments[2].shape), np.zeros(6), DT, [0.3]]
    directions = [rng.normal(size=(n, 6)) for _ in range(2)]
    turned = (body.integrate(q, STEP * DT * directions[0]) - body.integrate(q, -STEP * DT * directions[0])) / (2 * STEP)
    zero = [np.zeros(np.shape(x)) for x in given[2:]]
    moved = kernel.derivative("jvp")(*given, turned, directions[1], *zero)[1]
    assert np.abs(moved).max() < 30  # of a body twice as wide as high; 10⁶ where impulses answer what cannot be met


# -- all derivatives at once -----------------------------------------------------------------------------------------


def derived(tree, contacts, **options):
    """The step with its derivatives."""
    return ds.compile(tree, contacts, "contact_step_derivatives", **{"tolerance": 1e-12, "sweeps": 5000, **options})


def both(tree, contacts, **options):
    """The step, and the step with its derivatives."""
    step = ds.compile(tree, contacts, "contact_step", **{"tolerance": 1e-12, "sweeps": 5000, **options})
    return step, derived(tree, contacts, **options)


def along(kernel, tree, given, direction, h):
    """Differences (n, 2 nv) of fourth order along ``[δq; δv; δu]`` (n, …), in tangents; and what finer ones change."""
    nv, center, found = tree.nv, kernel(*given), []
    for size in (h, 0.5 * h):
        total = 0.0
        for s, weight in ((1, 8), (-1, -8), (2, -1), (-2, 1)):
            moved = list(given)
            moved[0] = tree.integrate(given[0], s * size * direction[:, :nv])
            moved[1] = given[1] + s * size * direction[:, nv : 2 * nv]
            moved[3] = given[3] + s * size * direction[:, 2 * nv :]
            q, v, *_ = kernel(*moved)
            total = total + weight * np.concatenate([tree.difference(center[0], q), v - center[1]], axis=1)
        found.append(total / (12 * size))
    return found[1], np.abs(found[1] - found[0]).max(axis=1)


def worst(kernel, tree, given, found, least=0.7):
    """Error of ``A`` and ``B`` (n,) along random directions, over their largest entries, far from switches."""
    rng, n = np.random.default_rng(3), len(given[0])
    A, B = found[4:6]
    whole = np.concatenate([A, B], axis=2)
    size, out = np.abs(whole).max(axis=(1, 2)), []
    for part in (slice(0, tree.nv), slice(tree.nv, 2 * tree.nv), slice(2 * tree.nv, None)):
        direction = np.zeros((n, whole.shape[2]))
        direction[:, part] = rng.normal(size=direction[:, part].shape)
        h = 1e-5 if part.start < 2 * tree.nv else 1e-4
        expected, moved = along(kernel, tree, given, direction, h)
        error = np.abs(np.einsum("nij,nj->ni", whole, direction) - expected).max(axis=1) / size
        kept = moved < 1e-7 * size
        assert kept.mean() > least
        out.append(error[kept])
    return np.concatenate(out)


def assert_parameter(kernel, tree, given, place, found):
    """Derivatives (n, 2 nv, …) with an argument are differences, at most states."""
    found = found.reshape(len(found), 2 * tree.nv, -1)
    center, h = kernel(*given), 1e-6 if given[place].ndim == 1 else 1e-5
    for k in range(found.shape[2]):
        made = []
        for size in (h, 0.5 * h):
            ends = []
            for s in (size, -size):
                moved = [x.copy() for x in given]
                moved[place].reshape(len(found), -1)[:, k] += s
                q, v, *_ = kernel(*moved)
                ends.append(np.concatenate([tree.difference(center[0], q), v], axis=1))
            made.append((ends[0] - ends[1]) / (2 * size))
        scale = 1 + np.abs(found).max(axis=(1, 2))
        kept = np.abs(made[1] - made[0]).max(axis=1) < 1e-6 * scale
        error = np.abs(found[:, :, k] - made[1]).max(axis=1) / scale
        assert kept.mean() > 0.8 and error[kept].max() < 1e-5, (place, error[kept].max())


def in_reach(scene, rng, n, overlap):
    """States within limits whose lowest foot is that deep in the floor (m), one for each; half of these roll on it."""
    q, v = standing(scene, rng, n)
    q[:, 7:] = np.clip(q[:, 7:], -0.05 + 1e-4, 0.05 - 1e-4)
    feet = [c.frame for c in scene.constraints()]
    heights = ds.forward_kinematics(scene.tree, q, feet)[..., 2, 3]
    q[:, 2] -= heights.min(axis=1) - (0.03 - overlap)
    up = ds.forward_kinematics(scene.tree, q, scene.tree.link_names[0])[:, 2, :3]
    for k, foot in enumerate(feet):
        of_foot = np.arange(n)[(heights.argmin(axis=1) == k) & (np.arange(n) % 2 == 0)]
        falls = ds.frame_velocity(scene.tree, q, v, foot, reference="local-world-aligned")[of_foot, 2:3]
        v[of_foot, :3] -= (falls + rng.uniform(-2e-3, 2e-3, falls.shape)) * up[of_foot]
    return q, v


PAYLOAD = np.array([0.3, 0.01, -0.02, 0.005, 0.004, 1e-4, 0.005, 2e-4, -1e-4, 0.006])
"""A body of 0.3 kg: m, m c, Ixx, Ixy, Iyy, Ixz, Iyz, Izz."""

EVERY = {"control": "pd", "v_target": True, "damping": "input", "gravity": "input", "wrenches": ["leg1"],
         "payloads": ["leg0"], "ground": "input", "surface_velocity": "input"}  # fmt: skip
"""What may come with each call."""

LENGTHS = {"torsional": 0.02, "rolling": 0.01}
"""Of torsional and rolling friction (m)."""


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::delassus.errors.DelassusWarning")
@pytest.mark.parametrize(
    "options",
    [{"limits": False, **LENGTHS}, {"restitution": "input", "payloads": ["base", "leg1"]}, EVERY],
)
def test_all_at_once_are_differences(legs, options):
    """At states half of which have overlaps that are taken back."""
    rng, n, tree = np.random.default_rng(7), 80, legs.tree
    of_contacts = {name: options[name] for name in ("ground", "surface_velocity", *LENGTHS) if name in options}
    contacts = [ds.Contact(c.frame, c.shape, **of_contacts) for c in legs.constraints()]
    options = {name: x for name, x in options.items() if name not in of_contacts}
    kernel, derivatives = both(tree, contacts, friction="input", **options)
    q, v = in_reach(legs, rng, n, np.where(rng.random(n) < 0.5, rng.uniform(2e-5, 9e-5, n), rng.uniform(2e-4, 5e-3, n)))
    values = {
        "q": q, "v": v, "impulses": np.zeros((n, *kernel.arguments[2].shape)), "dt": np.full(n, DT),
        "friction": rng.uniform(0.2, 1.0, (n, 2)), "restitution": rng.uniform(0.2, 0.8, (n, 2)),
        "damping": rng.uniform(0.0, 0.2, (n, tree.nv)), "kd": rng.uniform(5, 20, (n, tree.nv)),
        "q_target": tree.integrate(tree.neutral(), 0.1 * rng.normal(size=(n, tree.nv))),
        "kp": rng.uniform(5, 20, (n, tree.nv)),
    }  # fmt: skip
    for k in range(2):
        values[f"payload{k}"] = PAYLOAD * rng.uniform(0.8, 1.2, (n, 1))
        values[f"ground{k}"] = np.broadcast_to([0.0, 0.0, 0.0, 1.0], (n, 1, 4)).copy()
    names = [a.name for a in kernel.arguments]
    given = [values.get(a.name, rng.normal(size=(n, *a.shape))) for a in kernel.arguments]
    *found, status = derivatives(*given, return_status=True)
    solved = status == ds.DynamicsStatus.SOLVED
    assert solved.mean() > 0.95
    given, found = [x[solved] for x in given], [x[solved] for x in found]
    errors = worst(kernel, tree, given, found)
    assert np.median(errors) < 1e-9 and errors.max() < 1e-6, errors.max()
    for name, x in zip([r.name for r in derivatives.results], found, strict=True):
        if name.startswith("dx_d"):
            assert_parameter(kernel, tree, given, names.index(name.removeprefix("dx_d")), x)


@pytest.mark.slow
def test_all_at_once_are_tangents(legs):
    """``A`` and ``B`` are what tangents of the program are, in tangents of configurations."""
    rng, n, tree = np.random.default_rng(8), 60, legs.tree
    kernel, derivatives = both(tree, legs.constraints())
    q, v = in_reach(legs, rng, n, rng.uniform(2e-5, 9e-5, n))
    given = [q, v, np.zeros((n, *kernel.arguments[2].shape)), rng.normal(size=(n, tree.nv)), np.full(n, DT)]
    after, _, _, _, A, B, *_ = derivatives(*given)
    size = np.abs(A).max(axis=(1, 2))
    for k in range(3):
        unit = [rng.normal(size=(n, tree.nv)) * (k == i) for i in range(3)]
        turned = (tree.integrate(q, 1e-6 * unit[0]) - tree.integrate(q, -1e-6 * unit[0])) / 2e-6
        q_dot, v_dot, *_ = kernel.derivative("jvp")(*given, turned, unit[1], 0 * given[2], unit[2], np.zeros(n))
        expected = np.einsum("nij,nj->ni", A, np.concatenate(unit[:2], axis=1)) + np.einsum("nij,nj->ni", B, unit[2])
        moved = tree.difference(after, after + 1e-7 * q_dot) / 1e-7
        assert np.median(np.abs(v_dot - expected[:, tree.nv :]).max(axis=1) / size) < 1e-7
        assert np.abs(v_dot - expected[:, tree.nv :]).max() < 1e-4 * size.max()
        assert np.median(np.abs(moved - expected[:, : tree.nv]).max(axis=1) / size) < 1e-6


m, J, r, mu = 2.0, 0.05, 0.1, 0.3


@pytest.fixture(scope="module")
def rolling():
    """A ball of radius r with the moment of inertia J about its middle, on the floor; and its derivatives."""
    ball = ds.mechanisms.free_body(m, J * np.eye(3), name="ball")
    return ball, derived(ball, ds.Contact("ball", Sphere(r), friction=mu), smoothing="input")


def test_a_ball_that_rolls_slides_and_bounces(rolling):
    """Closed forms: ``∂v⁺/∂v``."""
    ball, derivatives = rolling
    overlap = 2e-5
    q, arm = np.array([0, 0, r - overlap, 0, 0, 0, 1.0]), r - 0.5 * overlap
    at_rest = np.zeros(3), np.zeros(6), DT

    def of(v):
        found = derivatives(q, v, *at_rest, 0.0)
        return found[4][6:, 6:], found[5][6:], found[-1]

    A, B, _ = of(np.zeros(6))  # the point stays: M δv⁺ = M δv + Jᵀ p
    rows = np.array([[1.0, 0, 0, 0, -arm, 0], [0, 1, 0, arm, 0, 0], [0, 0, 1, 0, 0, 0]])
    M = np.diag([m, m, m, J, J, J])
    over = np.linalg.inv(M)
    free = np.eye(6) - over @ rows.T @ np.linalg.inv(rows @ over @ rows.T) @ rows
    np.testing.assert_allclose(A, free, atol=1e-9)
    np.testing.assert_allclose(B, DT * free @ over, atol=1e-9)
    v = np.array([0.8, 0.6, 0, 0, 0, 0])  # slides: friction turns with the velocity of the point
    A, _, distance = of(v)
    after = 1.0 - mu * 9.81 * DT * (1 + m * arm**2 / J)
    turned = np.eye(2) - mu * 9.81 * DT / np.hypot(*v[:2]) * (np.eye(2) - np.outer(v[:2], v[:2]))
    np.testing.assert_allclose(A[:2, :2], turned, atol=2e-6)  # in axes that have turned by 1e-3
    np.testing.assert_allclose(A[:2, 2], [mu * 0.8, mu * 0.6], atol=2e-5)  # less friction where it is lifted
    np.testing.assert_allclose(distance, min(after, 9.81 * DT), atol=1e-9)
    expected, rise = np.eye(6), 1.0 - 9.81 * DT  # flies; what turns it turns the axes of its velocity
    expected[0, 4], expected[1, 3] = -rise * DT, rise * DT
    np.testing.assert_allclose(of(np.array([0, 0, 1.0, 0, 0, 0]))[0], expected, atol=1e-9)
    bouncing = derived(ball, ds.Contact("ball", Sphere(r), friction=0.0, restitution=0.7), smoothing="input")
    found = bouncing(q, np.array([0, 0, -3.0, 0, 0, 0]), *at_rest, 0.0)
    np.testing.assert_allclose(found[4][8, 8], -0.7, atol=1e-9)
    half = 0.5 * 9.81 * DT  # velocities are half a step behind
    np.testing.assert_allclose(found[1][2], 0.7 * (3.0 + half) - half, atol=1e-9)
    rng, n = np.random.default_rng(12), 40
    step = ds.compile(ball, ds.Contact("ball", Sphere(r), friction=0.0, restitution=0.7), "contact_step",
                      tolerance=1e-12, sweeps=5000, smoothing="input")  # fmt: skip
    near = np.tile([0, 0, r, 0, 0, 0, 1.0], (n, 1)) + rng.uniform(-9e-5, 9e-3, (n, 1)) * np.eye(7)[2]
    falling = np.column_stack([rng.normal(size=(n, 2)), rng.uniform(-2.0, 0.5, n), rng.normal(size=(n, 3))])
    given = [near, falling, np.zeros((n, 3)), rng.normal(size=(n, 6)), np.full(n, DT), np.full(n, 0.3)]
    assert_tangents_are(step, bouncing, given, rng)
    g, fall, dt, steps = (
        9.81,
        0.1,
        1e-3,
        250,
    )  # s, of which a part is after the bounce: with its height, that begins later
    speed, after = np.sqrt(2 * g * fall), steps * dt - np.sqrt(2 * fall / g)
    by_height = 1.7 * g / speed * after - 0.7, 1.7 * g / speed
    for smoothing in (0.0, 0.3):
        q, v, moved = np.array([0, 0, r + fall, 0, 0, 0, 1.0]), 0.5 * dt * g * np.eye(6)[2], np.eye(12)[2]
        for _ in range(steps):
            q, v, _, _, A, *_ = bouncing(q, v, np.zeros(3), np.zeros(6), dt, smoothing)
            moved = A @ moved
        np.testing.assert_allclose([moved[2], moved[8]], by_height, rtol=1e-3)


def test_derivatives_are_means_over_times_of_impacts(tmp_path):
    """Slopes between ends of starts from which something hits in one step are the means of derivatives at 16 of them.

    Of a robot, and of a ball that spins, these are exact derivatives, too. Speeds of impacts differ by ``g dt`` from
    step to step, which is what the bound allows.
    """
    path = tmp_path / "slider.urdf"
    path.write_text(BLOCKS.format(BLOCK.format(name="a").replace("0.6 -0.5 0.3", "0 0 1")))
    (dt, steps, n), g, how = (1e-3, 30, 16), 9.81, {"smoothing": "input", "outputs": ("q_next", "v_next", "A")}
    free = ds.mechanisms.free_body(1.0, 0.004 * np.eye(3), name="a")
    cases = (ds.load(path), [r + 0.05], [-3.0], 0), (free, [0, 0, r + 0.05, 0, 0, 0, 1.0], [1, 0.5, -3, 2, -1, 3.0], 2)
    for tree, q0, v0, up in cases:
        contact, nv = ds.Contact("a", Sphere(r), friction=0.4, restitution=0.7), tree.nv
        step = ds.compile(tree, contact, "contact_step_derivatives", tolerance=1e-12, **how)
        speed, p = 3.0 + g * 0.05 / 3.0, np.zeros(next(a.size for a in step.arguments if a.name == "impulses"))
        shift = speed * dt * np.r_[0.0, 1.0, (np.arange(n) + 0.5) / n]
        for smoothing in (0.3, 0.0):
            q, v = q0 + shift[:, None] * np.eye(tree.nq)[up], np.tile(v0, (n + 2, 1))
            moved = np.tile(np.eye(2 * nv)[:, up : up + 1], (n + 2, 1, 1))
            for _ in range(steps):
                q, v, A = step(q, v, p, np.zeros(nv), dt, smoothing)
                moved = A @ moved
            slope, mean = np.r_[tree.difference(q[0], q[1]), v[1] - v[0]] / (speed * dt), moved[2:, :, 0].mean(axis=0)
            np.testing.assert_allclose(mean, slope, rtol=4.0 * g * dt / speed, atol=1e-3)


def test_a_pyramid_on_corners_has_one_derivative_of_its_velocity():
    """Impulses of four corners are not unique: velocities and their derivatives are, and nothing is large."""
    body = ds.mechanisms.free_body(1.0, INERTIA, name="pyramid")
    derivatives = derived(body, ds.Contact("pyramid", PYRAMID, friction=0.3), smoothing="input")
    at_rest = np.zeros(derivatives.arguments[2].shape), np.zeros(6), DT
    q = np.array([0, 0, 0.05 - 2e-5, 0, 0, 0, 1.0])
    *found, status = derivatives(q, np.zeros(6), *at_rest, 0.0, return_status=True)
    assert status == ds.DynamicsStatus.SOLVED
    np.testing.assert_allclose(found[4][6:, 6:], 0, atol=1e-6)
    np.testing.assert_allclose(found[5], 0, atol=1e-6)
    v = np.array([1.2, 0.5, 0, 0, 0, 0])
    A = derivatives(q, v, *at_rest, 0.0)[4]
    speed, unit = np.hypot(1.2, 0.5), v[:2] / np.hypot(1.2, 0.5)
    turned = np.eye(2) - 0.3 * 9.81 * DT / speed * (np.eye(2) - np.outer(unit, unit))
    np.testing.assert_allclose(A[6:8, 6:8], turned, atol=1e-7)
    spins = np.array([0.0, 1e-3, 0.1, 1.0, 10.0])  # as it turns, friction of corners depends on how they share its load
    turning = v + spins[:, None] * np.eye(6)[5]
    distance = derivatives(q, turning, *at_rest, 0.0)[-1]
    assert distance[0] > 1e-3 and (distance[1:] == 0.0).all()
    for smoothing in (0.5, 5.0, 1e3, 1e9):  # corners that act in part leave a part of each velocity, in no direction
        moved = derivatives(q, np.zeros(6), *at_rest, smoothing)[4][6:, 6:]
        assert np.all((np.diag(moved) > 0.05) & (np.diag(moved) < 1.0))
        assert np.abs(moved[[0, 1, 2], [1, 2, 0]]).max() < 1e-3
    # on the edge of two corners, along an axis of the world but for a small angle: as at any other angle
    tilt, height = 0.3, 0.075 * np.sin(0.3) + 0.05 * np.cos(0.3) - 2e-5
    turns = np.concatenate([np.logspace(-9, -1, 33), [0.7]])
    half, lean = 0.5 * turns, 0.5 * tilt
    of_turn = np.array([np.cos(half) * np.sin(lean), np.sin(half) * np.sin(lean), np.sin(half) * np.cos(lean)])
    q = np.column_stack([np.zeros((34, 2)), np.full(34, height), of_turn.T, np.cos(half) * np.cos(lean)])
    *found, status = derivatives(q, 1e-3 * v, *at_rest, 0.0, return_status=True)
    assert (status == ds.DynamicsStatus.SOLVED).all()
    apart = np.abs(found[4][:, 6:, 6:] - found[4][-1, 6:, 6:]).max(axis=(1, 2))
    assert apart.max() < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", ["groove", "wedge"])
def test_bounces_whose_impulses_are_not_unique(name):
    """Two balls in a groove, and a ball that two joints hold in all directions: friction wedges them.

    Restitution gives back a part of normal impulses, which are then any of many: so are velocities. Without friction
    impulses are unique, and so are derivatives.
    """
    tilts = ([0.4, 0.0, 1.0], [-0.4, 0.0, 1.0]) if name == "groove" else ([0.0, 0.0, 1.0],)
    if name == "groove":
        tree, places = ds.mechanisms.free_body(1.0, INERTIA, name="body"), ([-0.1, 0.0, 0.0], [0.1, 0.0, 0.0])
        q, v = np.array([0, 0, 0, 0, 0, 0, 1.0]), np.array([0.1, 0.2, -1.0, 0.1, 0.2, 0.3])
    else:
        tree, places, q, v = ds.load(WEDGE), ([0.3, 0.1, 0.2],), np.array([0.2, 0.1]), np.array([1.0, -1.5])
    how, link, colliders = {"friction": 2.0, "restitution": 0.5}, tree.link_names[-1], []
    for place, tilt in zip(places, tilts, strict=True):
        normal = np.array(tilt) / np.linalg.norm(tilt)
        across = np.cross(normal, [1.0, 0.0, 0.0]) / np.linalg.norm(normal[1:])
        ground = ds.forward_kinematics(tree, q, ds.Frame(link, place))[:3, 3] - 0.05002 * normal
        turn = np.array([np.cross(across, normal), across, normal]).T
        colliders += [Collider(link, Sphere(0.05), place, **how), Collider("world", HalfSpace(), ground, turn, **how)]
    scene, none = Scene(tree, colliders), np.zeros(tree.nv)
    kernel = ds.compile(tree, scene.constraints(), "contact_step_derivatives", friction="input", **TIGHT)
    n_points = kernel.arguments[-1].size
    for friction in (2.0, 0.0):
        found = kernel(q, v, np.zeros(kernel.arguments[2].shape), none, DT, np.full(n_points, friction))
        sim = ds.Simulator(scene.with_material(friction=friction), q0=q, v0=v, dt=DT, tolerance=1e-12)
        sim.step()
        of_scene = sim.step_derivatives()
        assert (sim.impulses[:, 2] > 0.5).all() and of_scene.distance == pytest.approx(found[-1], rel=1e-6)
        if friction > 0.0:
            assert found[-1] == 0.0 and of_scene.status is SolverStatus.NOT_DIFFERENTIABLE
        else:
            assert found[-1] > 1e-4 and of_scene.status is SolverStatus.CONVERGED
            np.testing.assert_allclose(found[4], np.asarray(of_scene.A), atol=1e-8 * np.abs(found[4]).max())


@pytest.mark.slow
def test_which_end_bounces_first_is_a_mode():
    """A capsule that falls flat bounces when its first end does, and either may be: its derivatives have a kink."""
    body, lying = ds.mechanisms.free_body(1.0, INERTIA, name="rod"), [[0, 0, 1], [0, 1, 0], [-1, 0, 0]]
    contact = ds.Contact(ds.Frame("rod", rotation=lying), Capsule(0.05, 0.3), friction=0.0, restitution=0.5)
    derivatives, tilts = derived(body, contact, smoothing=None, outputs="distance"), np.array([0.0, 1e-6, 1e-3])
    q, v = np.zeros((3, 7)), np.array([0.1, 0.2, -0.5, 0, 0, 0])
    q[:, 2], q[:, 4], q[:, 6] = 0.05 + 0.15 * tilts + 2e-4, np.sin(0.5 * tilts), np.cos(0.5 * tilts)
    found = derivatives(q, v, np.zeros(derivatives.arguments[2].shape), np.zeros(6), DT)
    assert found == pytest.approx(0.3 * tilts / DT, rel=1e-2, abs=1e-9)
    # one end: whether it hits within the step, and is fast enough to bounce
    margins, gap, fall = np.array([1e-7, 1e-4, 1e-3]), 5e-3, 9.81 * DT
    q[:, 4], q[:, 6] = np.sin(0.05), np.cos(0.05)
    how = {"friction": 0.0, "restitution": 0.5}
    rod = Collider("rod", Capsule(0.05, 0.3), rotation=np.array(lying), **how)
    scene = Scene(body, [rod, Collider("world", HalfSpace(), **how)])
    for height, speed in ((gap, fall - gap / DT), (-1e-6, -2.0 * fall)):
        q[:, 2], v = 0.05 + 0.15 * np.sin(0.1) + height, np.zeros((3, 6))
        v[:, :3] = np.outer(speed + margins, [-np.sin(0.1), 0.0, np.cos(0.1)])  # downwards
        found = derivatives(q, v, np.zeros(derivatives.arguments[2].shape), np.zeros(6), DT)
        assert found == pytest.approx(margins, rel=1e-4)
        for k in range(3):
            sim = ds.Simulator(scene, q0=q[k], v0=v[k], dt=DT, tolerance=1e-12)
            sim.step()
            assert sim.step_derivatives().distance == pytest.approx(margins[k], rel=1e-4)


def test_whether_what_is_struck_hits_others_is_a_mode():
    """A ball lands with another one beside it, which it hits in the same step, or hardly so."""
    ball = ds.mechanisms.free_body(1.0, 0.004 * np.eye(3))
    shapes = [Collider(f"{name}/body", Sphere(0.1), restitution=0.5 * (name == "a")) for name in "ab"]
    scene = Scene({"a": ball, "b": ball}, [*shapes, Collider("world", HalfSpace(), restitution=0.5)])
    for margin in (1e-7, 1e-4, 1e-3):
        q0 = scene.configuration(a=[0, 0, 0.1 + 1e-3, 0, 0, 0, 1], b=[0.201, 0, 0.101, 0, 0, 0, 1])
        v0 = np.array([0.1 - margin, 0.2, -3.0, 0, 0, 0, *np.zeros(6)])
        sim = ds.Simulator(scene, q0=q0, v0=v0, dt=DT, tolerance=1e-12)
        sim.step()
        assert sim.impulses[:, 2].max() > 1.0
        assert sim.step_derivatives().distance == pytest.approx(abs(margin), rel=1e-2)


def test_smoothed_derivatives_are_means_over_changes_of_velocities(rolling):
    """Of one contact along its normal to round-off, of friction nearly; and what is far from a switch as it is."""
    (_, derivatives), given = rolling, (np.zeros(3), np.zeros(6), DT)
    rng, n, s = np.random.default_rng(4), 20_000, 0.2
    for height, v in ((r - 2e-5, np.zeros(6)), (r + 1e-3, np.array([0, 0, -0.05, 0, 0, 0]))):
        q = np.array([0, 0, height, 0, 0, 0, 1.0])
        found, exact = derivatives(q, v, *given, s), derivatives(q, v, *given, 0.0)
        for x, y in zip(found[:4], exact[:4], strict=True):
            np.testing.assert_array_equal(x, y)  # the step is that without smoothing
        closed = 0.5 - 0.5 * (v[2] - 9.81 * DT + max(height - r, 0.0) / DT) / s
        np.testing.assert_allclose(found[4][8, 8], 1.0 - closed, atol=1e-9)
        np.testing.assert_allclose(found[4][8, 2], -closed * (0.5 + 0.5 * (height - r) / DT / s) / DT, atol=1e-6)
        changed = v + np.concatenate([rng.uniform(-s, s, (n, 3)), np.zeros((n, 3))], axis=1)
        mean = derivatives(q, changed, *given, 0.0)[4].mean(axis=0)
        errors = [np.abs(x[4][6:9, 6:9] - mean[6:9, 6:9]).max() for x in (found, exact)]
        assert errors[0] < 0.1 < 0.3 < errors[1]
    v = np.array([1.0, 0, 0, 0, 0, 0])  # far from any other mode
    q = np.array([0, 0, r - 2e-5, 0, 0, 0, 1.0])
    exact = derivatives(q, v, *given, 0.0)
    np.testing.assert_allclose(derivatives(q, v, *given, 0.1 * exact[-1])[4][:, 3:], exact[4][:, 3:], atol=1e-12)


def assert_tangents_are(step, derivatives, given, rng):
    """Tangents and cotangents of a step are the columns of its derivatives, of velocities after it."""
    names, n = [a.name for a in step.arguments], len(given[0])
    found = dict(zip([x.name for x in derivatives.results], derivatives(*given), strict=True))
    nv = given[1].shape[1]
    columns = {"q": found["A"][:, nv:, : min(nv, 3)], "v": found["A"][:, nv:, nv:], "tau": found["B"][:, nv:]}
    columns |= {x: found[f"dx_d{x}"][:, nv:] for x in names if f"dx_d{x}" in found}
    dots, expected = [np.zeros(x.shape) for x in given], np.zeros((n, nv))
    for name, by in columns.items():
        by, dot = by.reshape(n, nv, -1), dots[names.index(name)]
        change = rng.normal(size=(n, by.shape[2]))
        dot.reshape(n, -1)[:, : by.shape[2]] = change
        expected += np.einsum("nij,nj->ni", by, change)
    *forwards, status = step.derivative("jvp")(*given, *dots, return_status=True)
    solved = status == ds.DynamicsStatus.SOLVED
    size = np.abs(found["A"]).max(axis=(1, 2)) + np.abs(expected).max(axis=1)
    assert solved.mean() > 0.9 and (np.abs(forwards[1] - expected).max(axis=1) < 1e-8 * size)[solved].all()
    bars = [rng.normal(size=x.shape) for x in forwards]
    backwards = step.derivative("vjp")(*given, *bars)
    one, other = (sum((a * b).reshape(n, -1).sum(axis=1) for a, b in zip(*pair, strict=True))
                  for pair in ((bars, forwards), (backwards, dots)))  # fmt: skip
    np.testing.assert_allclose(other[solved], one[solved], rtol=1e-8, atol=1e-8 * np.abs(one).max())


def test_smoothed_tangents_are_smoothed_derivatives(rolling):
    """Of a ball near the floor, sticking, sliding and in the air; its rotation is none: tangents are those of ``q``."""
    (ball, derivatives), rng, n = rolling, np.random.default_rng(11), 60
    step = ds.compile(ball, ds.Contact("ball", Sphere(r), friction=mu), "contact_step",
                      tolerance=1e-12, sweeps=5000, smoothing="input")  # fmt: skip
    q = np.tile([0, 0, r, 0, 0, 0, 1.0], (n, 1))
    q[:, 2] += rng.uniform(-9e-5, 4e-3, n)
    given = [q, 0.5 * rng.normal(size=(n, 6)), np.zeros((n, 3)), rng.normal(size=(n, 6)), np.full(n, DT)]
    for s in (0.0, 0.3):
        assert_tangents_are(step, derivatives, [*given, np.full(n, s)], rng)


@pytest.mark.slow
def test_derivatives_of_torsional_and_rolling_friction():
    """Closed forms of a ball that spins and of one that is held; tangents where it slides, sticks and flies."""
    ball, length = ds.mechanisms.free_body(m, J * np.eye(3), name="ball"), LENGTHS["torsional"]
    step, derivatives = both(ball, [ds.Contact("ball", Sphere(r), friction=mu, **LENGTHS)], friction="input")
    at, rest = np.array([0, 0, r - 2e-5, 0, 0, 0, 1.0]), (np.zeros(6), np.zeros(6), DT, [mu])

    def of(*v):
        found = dict(zip([x.name for x in derivatives.results], derivatives(at, np.array(v), *rest), strict=True))
        return found["v_next"], found["A"][6:, 6:], found["B"][6:], found["dx_dfriction"][6:], found["distance"]

    most = length * m * 9.81 * DT / J  # rad/s
    v, A, B, by_friction, distance = of(0, 0, 0, 0, 0, 2.0)
    np.testing.assert_allclose(v[5], 2.0 - most, rtol=1e-9)
    np.testing.assert_allclose(A[5, [2, 5]], [length * m / J, 1.0], atol=1e-9)  # lifted, it spins on
    np.testing.assert_allclose(B[5, 5], DT / J, rtol=1e-9)
    np.testing.assert_allclose(by_friction[5], 0.0, atol=1e-9)
    np.testing.assert_allclose(distance, min(length / mu * (2.0 - most), 9.81 * DT), rtol=1e-9)
    v, A, *_ = of(0, 0, 0, 0, 0, 0.5 * most)
    np.testing.assert_allclose([v[5], *A[5]], 0.0, atol=1e-9)
    deep = [at - 5e-4 * np.eye(7)[2], *(np.zeros(6) for _ in range(3)), DT]  # friction is in the unit of turns there
    ends = [step(*deep, [mu + s])[0][2] for s in (1e-4, -1e-4)]
    by_friction = dict(zip([x.name for x in derivatives.results], derivatives(*deep, [mu]), strict=True))[
        "dx_dfriction"
    ]
    np.testing.assert_allclose(by_friction[2], (ends[0] - ends[1]) / 2e-4, rtol=1e-4)
    assert np.abs(by_friction[2]) > 1e-8
    rng, n = np.random.default_rng(13), 60
    q, v = np.tile(at, (n, 1)), rng.normal(size=(n, 6)) * [0.3, 0.3, 0.05, 4, 4, 4]
    q[::2, 2] -= rng.uniform(1e-4, 1e-3, n // 2)
    tau, v[1::6, 2] = rng.normal(size=(n, 6)), 1.0
    v[::3], tau[::3] = 1e-3 * v[::3], 0.05 * tau[::3]
    given = [q, v, np.zeros((n, 6)), tau, np.full(n, DT), rng.uniform(0.2, 1.0, (n, 1))]
    found = derivatives(*given)
    pressed, n_held = found[2][:, 2] > 0.0, (found[2][:, 3:] ** 2 @ [1e4, 1e4, 2.5e3]) ** 0.5
    slides = np.hypot(np.hypot(*found[2][:, :2].T) / given[5][:, 0], n_held) > 0.999 * found[2][:, 2]
    assert min((~pressed).sum(), (pressed & slides).sum(), (pressed & ~slides).sum()) >= 5
    assert_tangents_are(step, derivatives, given, rng)


@pytest.mark.slow
def test_pyramids_hold_each_turn_by_itself():
    """All at their limits, without Coulomb's friction too; and derivatives are differences."""
    ball, rng, n = ds.mechanisms.free_body(m, J * np.eye(3), name="ball"), np.random.default_rng(14), 40
    contact = ds.Contact("ball", Sphere(r), friction=mu, **LENGTHS)
    derivatives = derived(ball, contact, friction="input", solver="pgs")
    q, v, tau = np.tile([0, 0, r - 2e-5, 0, 0, 0, 1.0], (n, 1)), rng.normal(size=(n, 6)), rng.normal(size=(n, 6))
    v[:, :3], v[:, 3:] = v[:, :3] * [0.3, 0.3, 0.05], 4 * v[:, 3:]
    v[::3], tau[::3], q[::2, 2] = 1e-3 * v[::3], 0.05 * tau[::3], q[::2, 2] - rng.uniform(1e-4, 1e-3, n // 2)
    coefficients = rng.uniform(0.2, 1.0, (n, 1))
    q[:2, 2], tau[:2], v[:2], coefficients[:2, 0] = r, 0.0, [1, 1, 0, 3, -2, 3], (mu, 0.0)
    given = [q, v, np.zeros((n, 6)), tau, np.full(n, DT), coefficients]
    found = derivatives(*given)
    limits = np.array([[-mu, -mu, 1, -0.01, 0.01, -0.02], [0, 0, 1, -0.01, 0.01, -0.02]])
    np.testing.assert_allclose(found[2][:2], m * 9.81 * DT * limits, atol=1e-9)
    given, found = [x[2:] for x in given], [x[2:] for x in found]
    errors = worst(derivatives, ball, given, found)
    assert np.median(errors) < 1e-9 and errors.max() < 1e-6
    at = [x.name for x in derivatives.results].index("dx_dfriction")
    assert_parameter(derivatives, ball, given, 5, found[at])


def test_a_gradient_sees_a_foot_above_the_floor(rolling):
    """0.4 mm above it: derivative of the velocity after the step with the height, in JAX; the step is as it was."""
    jax = pytest.importorskip("jax")
    contact, options = ds.Contact("ball", Sphere(r), friction=mu), {"tolerance": 1e-12, "sweeps": 5000}
    exact, smoothed = (
        ds.compile(rolling[0], contact, "contact_step", **options, **x) for x in ({}, {"smoothing": 1.0})
    )
    assert exact.operations == smoothed.operations
    with jax.enable_x64(True):
        import jax.numpy as jnp

        q, rest = jnp.array([0, 0, r + 4e-4, 0, 0, 0, 1.0]), (jnp.zeros(6), jnp.zeros(3), jnp.zeros(6), 1e-3)
        slopes = [jax.grad(lambda x, step=step: step(x, *rest)[1][2])(q)[2] for step in (exact, smoothed)]
    closed = 0.5 - 0.5 * (0.4 - 9.81e-3)
    np.testing.assert_allclose(slopes, [0.0, -closed * (0.5 + 0.5 * 0.4) / 1e-3], rtol=1e-9, atol=1e-9)


def test_loops_that_hold_all_without_contacts():
    robot, held = ds.mechanisms.chain(1), ds.Point(ds.Frame("link1", (0.1, 0.2, 0.3)))
    *_, A, _, _, distance = derived(robot, [held])([0.3], [0.0], np.zeros(0), [2.0], DT)
    np.testing.assert_allclose([A[0, 0], *A[1], distance], [1.0, 0.0, 0.0, 1e30], atol=1e-9)


def test_rows_that_cannot_move_hold_nothing(tmp_path):
    """Two blocks on one rail: tangents of their contact move by round-off, which depends on where they are."""
    path = tmp_path / "blocks.urdf"
    path.write_text(BLOCKS.format("".join(BLOCK.format(name=name) for name in "ab")))
    contact = ds.Contact("a", Sphere(0.05), (ds.Frame("b"), Sphere(0.05)), friction=0.5)
    derivatives = derived(ds.load(path), contact, limits=False, smoothing="input")
    rng, n, h = np.random.default_rng(14), 60, 5e-3
    gap = np.concatenate([rng.uniform(0.01, 0.1, n // 2), rng.uniform(1e-5, 4e-3, n // 2)])
    q = rng.normal(size=(n, 1)) + np.column_stack([np.zeros(n), 0.1 + gap])
    v = np.where(np.arange(n)[:, None] < n // 4, 0.0, rng.normal(size=(n, 2)))
    v[n // 2 :, 1] = v[n // 2 :, 0] - rng.uniform(0, 2, n // 2) * gap[n // 2 :] / h
    apart = v[:, 1] - v[:, 0] + gap / h
    for s in (0.0, 1.0):
        cold, warm = (derivatives(q, v, p, np.zeros((n, 2)), h, s)[4] for p in (np.zeros((n, 3)), rng.random((n, 3))))
        np.testing.assert_allclose(warm, cold, atol=1e-7)
        closed = np.clip(0.5 - 0.5 * apart / s, 0.0, 1.0) if s else 1.0 * (apart < 0)
        normal = np.array([[1.0, -1.0], [-1.0, 1.0]])
        np.testing.assert_allclose(cold[:, 2:, 2:], np.eye(2) - 0.5 * closed[:, None, None] * normal, atol=1e-7)
        if not s:
            np.testing.assert_allclose(cold[:, 2:, :2], -0.5 / h * closed[:, None, None] * normal, atol=1e-5)
            assert 9 < closed.sum() < n / 2


def test_smoothed_derivatives_of_limits_and_dry_friction(tmp_path):
    """``∂v⁺/∂v`` is the part of changes of the velocity in which nothing holds the joint."""
    path, s = tmp_path / "slider.urdf", 0.1
    path.write_text(SLIDER)
    step, derivatives = both(ds.load(path), [], smoothing="input")
    rng, n = np.random.default_rng(13), 50
    given = [rng.uniform(-1.0, 1.0, (n, 1)), 0.2 * rng.normal(size=(n, 1)), np.zeros((n, *step.arguments[2].shape))]
    given[0][::2] = np.sign(given[0][::2]) * rng.uniform(0.999, 1.0, (25, 1))
    assert_tangents_are(step, derivatives, [*given, rng.normal(size=(n, 1)), np.full(n, DT), np.full(n, 0.1)], rng)
    slip = 6.0 / 2.0 * DT
    for q, v in ((0.0, 0.02), (0.0, 0.06), (0.9995, 0.06), (0.999, 0.2), (-0.9995, -0.1)):
        A = derivatives([q], [v], np.zeros(derivatives.arguments[2].shape), [0.0], DT, s)[4]
        w = np.linspace(v - s, v + s, 200_001)
        free = np.sign(w) * np.maximum(np.abs(w) - slip, 0.0)
        acts = np.where((free != 0) & (np.abs(free) < (1 - np.sign(free) * q) / DT), 1.0, 0.0)
        np.testing.assert_allclose(A[1, 1], acts.mean(), atol=0.02)
    for q in (0.0, 1.0, 1.001):  # friction holds it: at the limit, too, the other mode is that in which it slips
        *_, distance = derivatives([q], [0.0], np.zeros(derivatives.arguments[2].shape), [2.0], DT, 0.0)
        np.testing.assert_allclose(distance, slip - 2.0 / 2.0 * DT)


@pytest.mark.filterwarnings("ignore::delassus.errors.DelassusWarning")
def test_steps_that_are_not_solved_have_flagged_derivatives(legs):
    """No number is NaN without a flag, nor is a flagged step called solved."""
    rng, n, tree = np.random.default_rng(9), 200, legs.tree
    few = ds.compile(tree, legs.constraints(), "contact_step_derivatives", sweeps=1, tolerance=1e-13, solver="pgs")
    q, v = standing(legs, rng, n)
    given = [q, v, np.zeros((n, *few.arguments[2].shape)), rng.normal(size=(n, tree.nv)), np.full(n, DT)]
    given[1][0], given[4][1] = np.nan, -DT
    *found, status = few(*given, return_status=True)
    solved = status == ds.DynamicsStatus.SOLVED
    assert not solved[0] and not solved[1]
    assert all(np.isfinite(x[solved]).all() for x in found)
    assert (found[3][solved] < 1e-13).all()


@pytest.mark.slow
def test_tangents_of_steps_that_are_solved_are_solved():
    """Pyramids that tumble on the floor: the impulses of a solution are not moved by what differentiates them."""
    rng, n, steps = np.random.default_rng(6), 45, 100
    body = ds.mechanisms.free_body(0.4, 0.4 * INERTIA, name="pyramid")
    kernel = ds.compile(body, ds.Contact("pyramid", PYRAMID, friction=0.2, restitution=0.1), "contact_step")
    q = body.random(rng, batch=n)
    q[:, 2] = rng.uniform(0.08, 0.12, n)
    v = rng.normal(size=(n, 6)) * [1, 1, 1, 5, 5, 5]
    still = np.zeros((n, *kernel.arguments[2].shape))
    qs, vs, ps, *_ = ds.rollout(kernel, q, v, np.zeros((steps, 1, 6)), 1e-3, impulses=still, return_status=True)
    q, v, p = (x[:-1].reshape(-1, x.shape[-1]) for x in (qs, vs, np.concatenate([still[None], ps])[: steps + 1]))
    given = q, v, p, np.zeros(6), 1e-3
    directions = rng.normal(size=q.shape), rng.normal(size=v.shape), np.zeros_like(still[0]), np.zeros(6), 0.0
    solved = kernel(*given, return_status=True)[-1] == ds.DynamicsStatus.SOLVED
    found = kernel.derivative("jvp")(*given, *directions, return_status=True)
    assert solved.mean() > 0.99 and (found[-1][solved] == ds.DynamicsStatus.SOLVED).all()
    assert all(np.isfinite(x[solved]).all() for x in found[:-1])


@pytest.fixture(scope="module")
def twice():
    """Steps of a ball with two contacts in the same place, which are redundant; of two states at once."""
    ball = ds.mechanisms.free_body(1.0, np.diag([0.01, 0.02, 0.03]), name="ball")
    contacts, how = [ds.Contact("ball", Sphere(0.1))] * 2, {"friction": "input", "lanes": 2}
    return {dtype: ds.compile(ball, contacts, "contact_step", dtype=dtype, **how) for dtype in ("float64", "float32")}


def balls(dtype, n=3, steps=20):
    """Balls that slide, roll and are dropped: state and forces (steps, n, 6), and the coefficients of contacts."""
    rng = np.random.default_rng(4)
    q, v = np.tile([0, 0, 0.1, 0, 0, 0, 1.0], (n, 1)), rng.normal(size=(n, 6))
    q[:, 2] += np.linspace(-1e-4, 4e-3, n)
    given = q, v, rng.normal(size=(steps, n, 6)), np.array([0.15, 0.15])
    return [np.asarray(x, dtype) for x in given]


def test_cotangents_of_rollouts_are_those_of_their_steps(twice):
    """Backwards over time in one call: the numbers of the kernel, step by step; and tangents, transposed."""
    step, rng = twice["float64"], np.random.default_rng(5)
    q, v, tau, mu = balls("float64")
    qs, vs, ps, _ = ds.rollout(step, q, v, np.repeat(tau, 2, axis=0), DT / 2, time_axis=0, friction=mu)
    of_q, of_v = (rng.normal(size=x[1:].shape) for x in (qs, vs))
    how = {"dt": DT / 2, "friction": mu, "impulses": ps, "decimation": 2, "time_axis": 0}
    back = step.derivative("vjp")
    *found, status = ds.rollout(back, qs, vs, tau, q_next_bar=of_q, v_next_bar=of_v, return_status=True, **how)
    assert status.shape == (40, 3) and (status == ds.DynamicsStatus.SOLVED).all()
    known = [np.zeros(x.shape) for x in found]
    state = [np.zeros_like(q), np.zeros_like(v)]
    for t in reversed(range(40)):
        state = [of_q[t] + state[0], of_v[t] + state[1]]
        made = back(qs[t], vs[t], ps[t + 1], tau[t // 2], DT / 2, mu, *state, np.zeros((3, 6)), np.zeros(3))
        state, known[3][t // 2] = made[:2], known[3][t // 2] + made[3]
        known[4:] = [x + y for x, y in zip(known[4:], made[4:], strict=True)]
    for x, expected in zip(found, [*state, known[2], *known[3:]], strict=True):
        np.testing.assert_allclose(x, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max(initial=0.0))

    tangents = [rng.normal(size=x.shape) for x in (q, v, tau, mu)]
    names = ("q_dot", "v_dot", "tau_dot", "friction_dot")
    ahead = ds.rollout(step.derivative("jvp"), qs, vs, tau, **how, **dict(zip(names, tangents, strict=True)))
    assert [x.shape for x in ahead] == [(41, 3, 7), (41, 3, 6), (41, 3, 6), (40, 3, 3)]
    assert np.array_equal(ahead[0][0], tangents[0])
    one = (of_q * ahead[0][1:]).sum() + (of_v * ahead[1][1:]).sum()
    other = sum((x * d).sum() for x, d in zip([found[k] for k in (0, 1, 3, 5)], tangents, strict=True))
    assert abs(one - other) < 1e-6 * abs(one)  # round-off over the shift of redundant rows, 2.5e-8 seen


def test_redundant_contacts_have_derivatives_in_float32(twice):
    """Those of float64, of balls pressed into the floor and in the air, which what is open and small divides by."""
    found = []
    for dtype, step in twice.items():
        q, v, tau, mu = balls(dtype)
        q[:, 2] = [0.0999, 0.0998, 0.13]
        bars = [np.random.default_rng(6).normal(size=shape).astype(dtype) for shape in ((7,), (6,))]
        rest = np.zeros(6, dtype), np.zeros(3, dtype)
        given = q, v, np.zeros((3, 6), dtype), tau[0], np.full(3, 1e-3, dtype), mu
        *made, status = step.derivative("vjp")(*given, *bars, *rest, return_status=True)
        assert (status == ds.DynamicsStatus.SOLVED).all()
        found.append(made)
    for x, y in zip(*found, strict=True):
        assert x.dtype == np.float64 and y.dtype == np.float32
        np.testing.assert_allclose(y, x, atol=1e-3 * np.abs(x).max(initial=0.0))


def test_trajectories_of_cotangents_are_checked(twice):
    step, (q, v, tau, mu) = twice["float64"], balls("float64")
    back, path = step.derivative("vjp"), (np.tile(q, (21, 1, 1)), np.tile(v, (21, 1, 1)))
    with pytest.raises(ds.DelassusError, match=r"v0: expected a trajectory, shape \(21, ..., 6\), got shape \(20"):
        ds.rollout(back, path[0], path[1][1:], tau, 1e-3, friction=mu)
    with pytest.raises(ds.DelassusError, match=r"controls: expected steps=….* no derivative"):
        ds.rollout(back, *path, lambda t, q, v: tau[0], 1e-3, steps=20, friction=mu)
