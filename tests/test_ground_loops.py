"""Loops that close on the ground, in rollouts: random rings of links, each cut between two links and at the ground."""

from collections import Counter

import numpy as np
import pytest

import delassus as ds
from delassus_studies.mechanisms import four_bars
from internals import StepsAgain
from random_trees import tree_of

SAME = 1e-7
"""Difference of trajectories of one mechanism cut at two places: errors of rk4 differ."""

KEPT = 1e-8
"""Energy that rk4 may gain or lose, of that which moves; 2e-10 was seen."""


SHAPES = [("four-bar", "auto"), ("five-bar", "proximal"), ("slide", "auto"), ("bennett", "auto")]

PATIENCE = 8
"""Steps of dependent rows after which rollouts compile code that takes these."""

GAP_OF_WINDOWS = 1e-6
"""Difference of angles of windows in a row after the flat position, where rows hold little; 5e-8 was seen."""

FLAT = 1e-8
"""Difference of two cranks after the flat position: round-off over the angle of the step nearest to it."""


def turned(rng):
    """A random rotation."""
    Q, R = np.linalg.qr(rng.normal(size=(3, 3)))
    Q = Q * np.sign(np.diag(R))
    return Q * np.sign(np.linalg.det(Q))


def ring_of(shape, rng):
    """Points (n, 3) of the joints of a closed ring, their axes (n, 3), and which of them slides if one does."""
    slide = None
    if shape == "bricard":  # six hinges at right angles: 1 degree of freedom, one row too many
        points = np.array([(0, 0, 0), (1, 0, 0), (1, -1, 0), (1, -1, 1), (0, -1, 1), (0, 0, 1)], float)
        axes = np.cross(points - np.roll(points, 1, axis=0), np.roll(points, -1, axis=0) - points)
    elif shape == "bennett":  # four hinges, askew: the sines of twists are as the lengths of opposite sides
        a, alpha = rng.uniform(0.6, 0.9), rng.uniform(0.5, 0.8)
        b = rng.uniform(1.0, 1.3)
        beta = np.arcsin(b / a * np.sin(alpha)) if b / a * np.sin(alpha) < 1 else None
        if beta is None:
            return ring_of(shape, rng)
        points, axes = bennett(a, alpha, b, beta, rng.uniform(0.6, 1.2))
    else:
        angles = np.sort(rng.uniform(0.0, 2.0 * np.pi, 5 if shape == "five-bar" else 4))
        angles = np.linspace(0.0, 2.0 * np.pi, len(angles), endpoint=False) + 0.3 * (angles - angles.mean()) / np.pi
        points = np.stack([np.cos(angles), 0.0 * angles, np.sin(angles)], axis=1) * rng.uniform(
            0.7, 1.2, (len(angles), 1)
        )
        if shape == "parallelogram":
            points[3] = points[0] + points[2] - points[1]
        axes = np.tile([0.0, 1.0, 0.0], (len(points), 1))
        if shape == "slide":
            slide = 1
            axes[1] = points[2] - points[1]
    return points, axes / np.linalg.norm(axes, axis=1)[:, None], slide


def bennett(a, alpha, b, beta, theta):
    """Points and axes of a Bennett ring at an angle: by Denavit's and Hartenberg's parameters."""
    half = np.tan(0.5 * theta)
    other = 2.0 * np.arctan(np.sin(0.5 * (beta + alpha)) / np.sin(0.5 * (beta - alpha)) / half)
    points, axes, R, p = [], [], np.eye(3), np.zeros(3)
    for angle, length, twist in ((theta, a, alpha), (other, b, beta), (-theta, a, alpha), (-other, b, beta)):
        c, s, ct, st = np.cos(angle), np.sin(angle), np.cos(twist), np.sin(twist)
        points.append(p.copy())
        axes.append(R[:, 2].copy())
        p = p + R @ np.array([length * c, length * s, 0.0])
        R = R @ np.array([[c, -s * ct, s * st], [s, c * ct, -c * st], [0.0, st, ct]])
    return (np.array(points), np.array(axes)) if np.linalg.norm(p) < 1e-9 else (None, None)


def mechanism(shape, seed, cut, closure="hinge"):
    """A tree, what closes its ring, and joints in the order of the ring: cut "at the ground", or "between links".

    The last link of the ring is the ground. Frames of links have random axes.
    """
    rng = np.random.default_rng(seed)
    points, axes, slide = ring_of(shape, rng)
    if points is None:
        return mechanism(shape, seed + 100, cut, closure)
    R = turned(rng)
    points, axes, n = points @ R.T, axes @ R.T, len(points)
    masses, frames = rng.uniform(0.5, 2.0, n - 1), [turned(rng) for _ in range(n - 1)]
    m = n - 1 if cut == "ground" else n - 2  # number of the joint that closes the ring
    at = [points[k] if k < m else points[k + 1] for k in range(n - 1)]  # origins of links
    links, joints = [("base", 0.0, np.zeros(3), np.zeros((3, 3)))], []
    for k in range(n - 1):
        way, Q = points[k + 1] - points[k], frames[k]
        inertia = masses[k] / 12.0 * (way @ way * np.eye(3) - np.outer(way, way)) + 1e-3 * np.eye(3)
        links.append((f"link{k}", masses[k], Q.T @ (0.5 * (points[k] + points[k + 1]) - at[k]), Q.T @ inertia @ Q))
    for k in [*range(m), *range(n - 1, m, -1)]:
        before, after = (k - 1, k) if k < m else (k % (n - 1) if k < n - 1 else n - 1, k - 1)
        parent = None if before in (-1, n - 1) else before
        Q, p = (np.eye(3), np.zeros(3)) if parent is None else (frames[parent], at[parent])
        joints.append(
            (f"joint{k}", slide == k, "base" if parent is None else f"link{parent}", f"link{after}",
             Q.T @ (points[k] - p), Q.T @ frames[after], frames[after].T @ axes[k])
        )  # fmt: skip
    tree = tree_of(shape, links, joints)
    first = ds.Frame(f"link{m - 1}", frames[m - 1].T @ (points[m] - at[m - 1]), frames[m - 1].T)
    second = (
        ds.Frame("world", points[m])
        if m == n - 1
        else ds.Frame(f"link{m}", frames[m].T @ (points[m] - at[m]), frames[m].T)
    )
    loop = ds.Point(first, second) if closure == "point" else ds.Hinge(first, second, axes[m])
    return tree, loop


def start_of(tree, loop, seed):
    """A state at which the ring is closed, and moves: velocities are along its first degree of freedom."""
    q = tree.neutral()
    J = ds.jacobian(tree, [loop], q)
    null = np.linalg.svd(J)[2][np.linalg.matrix_rank(J, 1e-7) :]
    v = null.T @ (null @ np.random.default_rng(seed).normal(size=tree.nv))
    return q, v / np.abs(v).max()


@pytest.fixture
def made_again(monkeypatch):
    """Counts of steps that leave compiled code."""
    counts, again = Counter(), StepsAgain._again

    def counted(self, t, numbers):
        counts["steps"] += len(t)
        return again(self, t, numbers)

    monkeypatch.setattr(StepsAgain, "_again", counted)
    return counts


def energy(tree, q, v):
    """Kinetic and potential energy, and how much moves."""
    kinetic = ds.kinetic_energy(tree, q, v)
    return kinetic + ds.potential_energy(tree, q), kinetic.max()


def both_cuts(shape, seed):
    """The same mechanism cut between links and at the ground, at the same state; joints that both trees have."""
    made = [mechanism(shape, seed, cut) for cut in ("link", "ground")]
    common = [name for name in made[0][0].joint_names if name in made[1][0].joint_names]
    states = []
    for tree, loop in made:
        at = [tree.v_index(name).start for name in common]
        q, v = start_of(tree, loop, seed)
        if states:
            null = np.linalg.svd(ds.jacobian(tree, [loop], q))[2]
            null = null[np.linalg.matrix_rank(ds.jacobian(tree, [loop], q), 1e-7) :]
            v = null.T @ np.linalg.lstsq(null[:, at].T, states[0][1][states[0][2]], rcond=None)[0]
        states.append((q, v, at))
    return [(*both, *state) for both, state in zip(made, states, strict=True)]


@pytest.mark.usefixtures("one_lane")
@pytest.mark.slow
@pytest.mark.parametrize(("integrator", "dt", "order"), [("rk4", 4e-3, 4), ("semi-implicit", 1e-3, 1)])
@pytest.mark.parametrize(("shape", "method"), SHAPES)
def test_loops_on_the_ground_and_between_links_are_the_same(shape, method, integrator, dt, order, made_again):
    """Both have the order of the integrator, in compiled code: what is taken back after steps leaves it.

    Rows of Bennett's ring are dependent where it is closed, and nearly so at stages.
    """
    ends = []
    for tree, loop, q, v, at in both_cuts(shape, 1):
        step, last = ds.compile(tree, loop, "step", integrator=integrator, method=method), []
        assert step.method == "proximal"
        for part in (1, 2, 16):
            steps = round(0.16 / dt) * part
            qs, vs = ds.rollout(step, q, v, np.zeros((steps, tree.nv)), dt / part)
            last.append(qs[-1])
        coarse, fine = (np.abs(x - last[2]).max() for x in last[:2])
        exact = (1.0 - 16.0**-order) / (0.5**order - 16.0**-order)
        assert coarse > 3e-12 and 0.75 * exact < coarse / fine < 1.35 * exact
        gaps, rates = ds.compile(tree, loop, "constraint_errors")(qs, vs)
        assert np.abs(gaps).max() < (1e-10 if integrator == "rk4" else 1e-7)
        assert np.abs(rates).max() < (1e-9 if integrator == "rk4" else 1e-4)
        total, moving = energy(tree, qs, vs)
        assert np.ptp(total) < (KEPT if integrator == "rk4" else 0.005) * max(moving, 1.0)
        ends.append(last[-1][at])
        some = np.zeros((3, tree.nv))
        status = ds.rollout(step, q, v, some, dt, return_status=True).status
        assert {s.name for s in status} <= {"REDUNDANT", "CONFLICTING" if integrator == "semi-implicit" else ""}
    assert not made_again
    assert np.abs(ends[0] - ends[1]).max() < (SAME if integrator == "rk4" else 2e-3)  # other coordinates: order 1


def crossing(rate):
    """Two cranks side by side, and a rod of the length of the ground between their ends: flat at zero."""
    rods = [(name, 1.0, np.array([0.25, 0.0, 0.0]), 0.02 * np.eye(3)) for name in ("left", "right")]
    joints = [
        (name, False, "base", name, np.array([x, 0.0, 0.0]), np.eye(3), np.array([0.0, 0.0, 1.0]))
        for name, x in (("left", 0.0), ("right", 1.0))
    ]
    tree = tree_of("cranks", [("base", 0.0, np.zeros(3), np.zeros((3, 3))), *rods], joints)
    rod = ds.Distance(ds.Frame("left", (0.5, 0, 0)), ds.Frame("right", (0.5, 0, 0)), length=1.0)
    return tree, rod, rate * np.ones(2)


@pytest.mark.usefixtures("one_lane")
@pytest.mark.parametrize("integrator", ["rk4", "semi-implicit"])
@pytest.mark.parametrize("angle", [0.0, -0.1, -0.1005])
def test_machine_code_goes_on_after_a_step(integrator, angle, made_again):
    """Through the flat position, where the rod holds nothing: cranks stay side by side, as their momentum says."""
    tree, rod, v = crossing(1.0)
    step = ds.compile(tree, rod, "step", integrator=integrator)
    qs, vs, status = ds.rollout(step, angle * np.ones(2), v, np.zeros((300, 2)), 1e-3, return_status=True)
    assert 1 <= made_again["steps"] <= 3 if angle != -0.1005 else made_again["steps"] <= 3
    assert {s.name for s in status[-50:]} == {"SOLVED"}
    assert np.abs(qs[:, 0] - qs[:, 1]).max() < FLAT and np.abs(vs - 1.0).max() < FLAT


@pytest.mark.usefixtures("one_lane")
def test_windows_in_a_row_stay_in_machine_code_at_rest_and_where_they_are_flat(made_again):
    """Nothing accelerates at rest; pivots of all loops are small at the flat position, and solutions are fine."""
    windows = four_bars(2)
    tree, turns = windows.tree, np.array([-1.0 if "coupler" in name else 1.0 for name in windows.tree.joint_names])
    step = ds.compile(tree, windows.constraints, "step", integrator="rk4", gravity=(0, 0, -9.81))
    angles, rates = np.array([[0.0], [0.5 * np.pi]]), np.array([[0.0], [1.0]])
    for _ in range(2):  # the second one knows the surer program from the start on
        qs, vs = ds.rollout(step, angles * turns, rates * turns, np.zeros((30, 2, tree.nv)), 1e-3)
        assert not made_again
        assert np.abs(qs[:, 0]).max() < 1e-13
        assert np.abs(qs * turns - (qs * turns)[..., :1]).max() < GAP_OF_WINDOWS
        assert np.ptp(windows.energy(qs, vs), axis=0).max() < 1e-4 * windows.energy(qs, vs)[0, 0]


@pytest.mark.usefixtures("one_lane")
@pytest.mark.slow
def test_rows_that_are_dependent_where_a_rollout_starts(made_again):
    """A hinge that names no place in the world: nothing but the states of the rollout tells that rows lose rank."""
    tree, loop, q, v, _ = both_cuts("bennett", 1)[1]
    held = ds.Hinge(loop.first, axis=loop.axis)
    steps = [ds.compile(tree, one, "step", integrator="rk4") for one in (loop, held)]
    found = [ds.rollout(step, q, v, np.zeros((40, tree.nv)), 4e-3, return_status=True) for step in steps]
    assert 1 <= made_again["steps"] <= PATIENCE
    assert {s.name for s in found[1][2][PATIENCE:]} == {"REDUNDANT"}
    assert np.abs(found[0][0] - found[1][0]).max() < 1e-9  # errors of order 4; 2e-11 was seen


@pytest.mark.usefixtures("one_lane")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "closure", "integrator"), [("four-bar", "hinge", "semi-implicit"), ("slide", "point", "rk4")]
)
def test_frames_held_to_the_world_stay_where_they_start(shape, closure, integrator, made_again):
    """Each trajectory of a batch at a place of its own."""
    tree, loop = mechanism(shape, 1, "ground", closure)
    held = ds.Point(loop.first) if closure == "point" else ds.Hinge(loop.first, axis=loop.axis)
    q, v = start_of(tree, loop, 1)
    starts, zero = np.stack([q, q + 0.1]), np.zeros((200, tree.nv))
    null = np.linalg.svd(J := ds.jacobian(tree, [held], starts[1]))[2][np.linalg.matrix_rank(J, 1e-7) :]
    rates = np.stack([v, null.T @ (null @ v)])
    step = ds.compile(tree, held, "step", integrator=integrator)
    qs, vs, _ = ds.rollout(step, starts, rates, zero, 1e-3, return_status=True)
    assert made_again["steps"] <= PATIENCE
    places = ds.forward_kinematics(tree, qs, loop.first)
    away = (places - places[0])[..., :3, :] @ np.append(loop.axis if closure == "hinge" else np.zeros(3), 1.0)
    assert np.ptp(qs, axis=0).max() > 1e-2 and np.abs(away).max() < (1e-10 if integrator == "rk4" else 1e-7)
    speeds = ds.compile(tree, loop, "constraint_errors")(qs[:, 0], vs[:, 0]).velocities
    assert np.abs(speeds).max() < (1e-9 if integrator == "rk4" else 1e-4)
    named = ds.compile(tree, loop, "step", integrator=integrator)
    assert np.abs(ds.rollout(named, q, v, zero, 1e-3).q - qs[:, 0]).max() < SAME


def test_feet_of_robots_that_float_are_left_as_they_are():
    """What holds a foot of a floating robot closes no loop on the ground: rollouts are steps, one after the other."""
    tree = ds.mechanisms.humanoid()
    step = ds.compile(tree, ds.Point(ds.Frame(tree.link_names[-1])), "step")
    q, v, zero = tree.random(0), np.zeros(tree.nv), np.zeros(tree.nv)
    qs, vs = ds.rollout(step, q, v, np.zeros((20, tree.nv)), 1e-3)
    for _ in range(20):
        q, v = step(q, v, zero, 1e-3)
    assert np.array_equal(q, qs[-1]) and np.array_equal(v, vs[-1])


@pytest.mark.usefixtures("one_lane")
@pytest.mark.slow
def test_several_mechanisms_in_one_tree(made_again):
    """Two rings on the ground, whose cranks a row couples: each moves as it does alone."""
    tree, loop, q, v, _ = both_cuts("four-bar", 2)[1]
    second = tree.attach("world", tree, (2.0, 0.0, 0.0), prefix="second_")
    moved = ds.Frame("world", np.add(loop.second.position, (2.0, 0.0, 0.0)))
    other = ds.Hinge(loop.first.prefixed("second_"), moved, loop.axis)
    rows = [loop, other, ds.JointRows({"joint0": 1.0, "second_joint0": -1.0})]
    step, alone = (ds.compile(t, c, "step", integrator="rk4") for t, c in ((second, rows), (tree, [loop])))
    zero = np.zeros((200, 2 * tree.nv))
    qs, _ = ds.rollout(step, np.tile(q, 2), np.tile(v, 2), zero, 1e-3)
    one, _ = ds.rollout(alone, q, v, zero[:, : tree.nv], 1e-3)
    assert step.method == "proximal" and not made_again
    assert np.abs(qs - np.tile(one, 2)).max() < SAME


@pytest.mark.usefixtures("one_lane")
@pytest.mark.slow
def test_semi_implicit_steps_take_errors_back_unless_baumgarte_does(made_again):
    """Without, loops open by far; momentum of what floats is as without."""
    tree, loop, q, v, _ = both_cuts("four-bar", 0)[0]
    errors = ds.compile(tree, loop, "constraint_errors", outputs="errors")
    steps = [ds.compile(tree, loop, "step", baumgarte=rate) for rate in (None, 1e-3)]
    how = {"controls": np.zeros((500, tree.nv)), "dt": 1e-3, "return_status": True}
    kept, left = (ds.rollout(step, q, v, **how)[:2] for step in steps)
    gaps = [np.abs(errors(*found)).max() for found in (kept, left)]
    assert gaps[0] < 1e-7 and gaps[1] > 1e-4
    batch = np.stack([v, v + 1e-2])  # the second one opens the loop at the start: it is left alone
    qs = ds.rollout(steps[0], np.stack([q, q]), batch, **how, time_axis=0)[0]
    np.testing.assert_array_equal(qs[:, 0], kept[0])
    assert np.abs(errors(qs[:, 1], np.zeros_like(qs[:, 1]))).max() > 1e-4


def test_a_row_that_nothing_moves_counts_as_none_where_the_root_floats():
    """A flat ring that floats: the row across its plane is a difference of what moves both of its ends."""
    corners = np.array([(0, 0, 0), (0, 0, 1), (1, 0, 1), (1, 0, 0)], float)
    ways = np.diff(corners, axis=0)
    inertias = [0.1 * np.eye(3) - 0.08 * np.outer(way, way) for way in ways]
    links = [("base", 1.0, np.array([0.5, 0.0, 0.0]), 0.1 * np.eye(3))]
    links += [(f"link{k}", 1.0, 0.5 * way, inertias[k]) for k, way in enumerate(ways)]
    places = [np.zeros(3), *ways[:2]]
    joints = [
        (f"joint{k}", False, links[k][0], f"link{k}", place, np.eye(3), np.array([0.0, 1.0, 0.0]))
        for k, place in enumerate(places)
    ]
    tree = tree_of("ring", links, joints, root="floating")
    pin = ds.Point(ds.Frame("link2", ways[2]), ds.Frame("base", corners[3]))
    kernel = ds.compile(tree, pin, "step", integrator="rk4")
    assert "of 3 rows of loops 2 are independent" in str(kernel.plan)
