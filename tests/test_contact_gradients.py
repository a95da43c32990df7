"""Gradients through contact: closed forms, over a thousand steps too, and problems of ContactBench."""

import numpy as np
import pytest

import delassus as ds
from delassus.contact import ConeProblem, Sphere, nsgs

pytestmark = [pytest.mark.usefixtures("one_lane"), pytest.mark.slow]

G, DT, RADIUS, OVERLAP = 9.81, 1e-3, 0.1, 2e-5

AXIS = """<joint name="{name}" type="prismatic"><parent link="{parent}"/><child link="{name}"/><axis xyz="{axis}"/>
<limit lower="-1e9" upper="1e9" effort="1" velocity="1"/></joint><link name="{name}"><inertial><mass value="{mass}"/>
<inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"/></inertial></link>"""


def point_mass(folder, axes, totals):
    """A ball that slides along orthogonal axes (3 × 3, columns), where it moves these masses (kg, descending)."""
    masses = np.append(-np.diff(totals), totals[-1])
    parts = zip("abc", ("world", "a", "b"), axes.T, masses, strict=True)
    made = "".join(
        AXIS.format(name=name, parent=parent, axis=" ".join(map(repr, map(float, axis))), mass=mass)
        for name, parent, axis, mass in parts
    )
    path = folder / "point.urdf"
    path.write_text(f'<robot name="point"><link name="world"/>{made}</robot>')
    return ds.load(path, root="fixed")


def derivatives_of(robot, link, **options):
    contact = ds.Contact(link, Sphere(RADIUS))
    made = {"friction": "input", "tolerance": 1e-11, "sweeps": 500, "limits": False, **options}
    return ds.compile(robot, contact, "contact_step_derivatives", **made)


def adjoint(derivatives, q, v, mu, steps, cotangent_of):
    """Derivatives of a number of the end by the start (2 nv,) and by friction: products of its cotangent with steps."""
    p, along = np.zeros(3), []
    for _ in range(steps):
        *state, A, _, _, by_friction, _ = derivatives(q, v, p, np.zeros(v.shape), DT, [mu])
        (q, v, p, _), along = state, [*along, (A, by_friction[:, 0])]
    cotangent, total = cotangent_of(q, v), 0.0
    for A, by_friction in reversed(along):
        total, cotangent = total + cotangent @ by_friction, A.T @ cotangent
    return cotangent, total, q, v


def test_a_block_that_slides_to_a_halt(tmp_path):
    """``x = h Σ (v₀ − k μ g h)`` over the steps until it stops; nothing that follows changes that."""
    robot, v, mu = point_mass(tmp_path, np.eye(3), np.array([2.0, 2.0, 2.0])), 0.5, 0.3
    derivatives = derivatives_of(robot, "c")
    height = np.array([0.0, 0.0, RADIUS - OVERLAP])
    last = np.eye(6)[0]
    start, by_friction, q, v_end = adjoint(derivatives, height, np.array([v, 0, 0]), mu, 300, lambda q, v: last)
    n = int(v / (mu * G * DT))
    np.testing.assert_allclose(q[0], DT * (n * v - mu * G * DT * n * (n + 1) / 2), atol=1e-9)
    np.testing.assert_allclose(v_end, 0, atol=1e-9)
    np.testing.assert_allclose(start[[0, 3]], [1.0, n * DT], atol=1e-9)
    np.testing.assert_allclose(by_friction, -G * DT**2 * n * (n + 1) / 2, rtol=1e-7)
    friction = np.hypot(0.3, 0.4) - mu * G * DT  # across its way a velocity turns: (v / |v|) (|v| − μ g h)
    across = derivatives(height, np.array([0.3, 0.4, 0]), np.zeros(3), np.zeros(3), DT, [mu])[4][3:5, 3:5]
    t = np.array([0.6, 0.8])
    np.testing.assert_allclose(across, np.outer(t, t) + friction / 0.5 * (np.eye(2) - np.outer(t, t)), atol=1e-9)


def test_a_ball_that_slides_until_it_rolls():
    """It ends with 5/7 of its speed and 2/7 of that of its spin, whatever friction is, after a thousand steps."""
    m, J = 2.0, 0.4 * 2.0 * RADIUS**2
    derivatives = derivatives_of(ds.mechanisms.free_body(m, J * np.eye(3), name="ball"), "ball")
    arm = RADIUS - 0.5 * OVERLAP  # the point is half-way between the surfaces
    of_spin = J / (J + m * arm**2)

    def speed_along_x(q, v):  # of R v: along the axes of the body, and with its rotation
        x, y, z, w = q[3:]
        r = np.array([1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)])
        return np.concatenate([np.zeros(3), np.cross(v[:3], r), r, np.zeros(3)])

    q, v = np.array([0, 0, RADIUS - OVERLAP, 0, 0, 0, 1.0]), np.array([1.5, 0, 0, 0, 3.0, 0])
    start, by_friction, q_end, v_end = adjoint(derivatives, q, v, 0.2, 1000, speed_along_x)
    np.testing.assert_allclose(speed_along_x(q_end, v_end)[6:9] @ v_end[:3], 1.5 + (0.3 - 1.5) * of_spin, atol=1e-5)
    np.testing.assert_allclose(start[[6, 10]], [1 - of_spin, arm * of_spin], atol=1e-6)
    np.testing.assert_allclose(by_friction, 0, atol=1e-6)


@pytest.mark.filterwarnings("ignore::delassus.errors.DelassusWarning")
def test_two_contacts_in_one_place_in_float32():
    """Impulses of a ball that rests are not unique: its velocities have the derivatives of one contact."""
    ball = ds.mechanisms.free_body(2.0, 0.02 * np.eye(3), name="ball")
    twins = [ds.Contact("ball", Sphere(RADIUS), friction=0.5) for _ in range(2)]
    derivatives = ds.compile(ball, twins, "contact_step_derivatives", dtype="float32", outputs=("A",))
    state = [0, 0, RADIUS - OVERLAP, 0, 0, 0, 1.0], np.zeros(6), np.zeros(6), np.zeros(6), DT
    at_rest = [np.float32(x) for x in state]
    rows, over = np.eye(3, 6), np.diag([0.5] * 3 + [50.0] * 3)
    rows[0, 4], rows[1, 3] = -RADIUS, RADIUS
    free = np.eye(6) - over @ rows.T @ np.linalg.inv(rows @ over @ rows.T) @ rows
    np.testing.assert_allclose(derivatives(*at_rest)[6:, 6:], free, atol=1e-3)  # the root of the round-off is 3e-4


POLE = """<robot name="pole"><link name="world"/><link name="pole"><inertial><mass value="2"/>
<inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link><joint name="hinge" type="revolute">
<parent link="world"/><child link="pole"/><axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="9" velocity="9"/>
</joint></robot>"""


def test_a_correction_that_is_cut_off(tmp_path):
    """A pole hangs nearly straight into the floor: it turns no further than ten times what an overlap takes back.

    Two tenths of the overlap are that, and nothing else changes it: ``∂q⁺/∂height`` is 2; 0 at the most joints turn.
    """
    path = tmp_path / "pole.urdf"
    path.write_text(POLE)
    contact = ds.Contact(ds.Frame("pole", (0, 0, -0.5)), Sphere(0.02), "input", friction=0.5)
    pole, options = ds.load(path), {"tolerance": 1e-11, "sweeps": 500}
    derivatives = ds.compile(pole, contact, "contact_step_derivatives", outputs=("dx_dground0",), **options)
    overlaps = np.array([5e-5, 1e-3, 5e-3, 0.02])
    ground = np.array([[[x - 0.5 * np.cos(0.03) - 0.02, 0, 0, 1.0]] for x in overlaps])
    given = [np.full((4, 1), 0.03), np.zeros((4, 1)), np.zeros(derivatives.arguments[2].shape), [0.0], 1e-3, ground]
    by_ground, status = derivatives(*given, return_status=True)
    assert (status == ds.DynamicsStatus.SOLVED).all()
    np.testing.assert_allclose(by_ground[:, 0, 0, 0], [0.0, 2.0, 2.0, 0.0], atol=1e-9)


LEANING = [[5.47732006, -0.44641268, -0.85806775], [-0.44641268, 4.73256402, -1.83316893],
           [-0.85806775, -1.83316893, 2.16266878]]  # fmt: skip
UPRIGHT = np.diag([3.5, 3.5, 1.0])
CASES = {
    "leaning": (LEANING, [(4.58088011e-16, 5.88878006e-16, -9.61358750e-01, 0.95)]),
    "upright": (UPRIGHT, [(0.0, 0.0, -0.00481, 0.9), (0.0, 0.0132435, -0.00981, 0.9), (0.0, 0.0, 0.00019, 0.9)]),
}
"""Problems of one contact of ContactBench (``solvers-derivatives.cpp``; 2024, INRIA, BSD 2-Clause).

Matrix (1/kg), free velocities (m/s) and friction; each again with a tenth of it, with which what sticks slides.
"""


@pytest.mark.parametrize("name", CASES)
def test_problems_of_contact_bench(tmp_path, name):
    """``∂u/∂g`` and ``∂u/∂μ`` are differences of solutions of the problem, to 1e-6 where theirs have a percent."""
    W, problems = np.array(CASES[name][0]), CASES[name][1]
    mobilities, axes = np.linalg.eigh(W)
    robot = point_mass(tmp_path, axes, 1.0 / mobilities)
    derivatives = derivatives_of(robot, "c", gravity=(0.0, 0.0, 0.0))
    q, modes = axes.T @ [0.0, 0.0, RADIUS - OVERLAP], set()

    def velocity(b, mu):
        solution = nsgs(ConeProblem(W, b, mu), tolerance=1e-13)
        return W @ solution.values[0] + b, solution.values[0]

    for *b, mu in [*problems, *((*b, 0.1 * mu) for *b, mu in problems)]:
        _, v, _, _, A, _, _, by_friction, _ = derivatives(q, axes.T @ b, np.zeros(3), np.zeros(3), DT, [mu])
        u, p = velocity(b, mu)
        modes.add("open" if not p[2] else "sticks" if np.abs(u).max() < 1e-12 else "slides")
        np.testing.assert_allclose(axes @ v, u, atol=1e-10)
        h = 1e-6
        ends = [[velocity(b + s * e, mu)[0] for s in (h, -h)] for e in np.eye(3)]
        wanted = np.array([(x - y) / (2 * h) for x, y in ends]).T
        np.testing.assert_allclose(axes @ A[3:, 3:] @ axes.T, wanted, atol=1e-6)
        wanted = (velocity(b, mu + h)[0] - velocity(b, mu - h)[0]) / (2 * h)
        np.testing.assert_allclose(axes @ by_friction[3:, 0], wanted, atol=1e-6)
    assert {"sticks", "slides"} <= modes
