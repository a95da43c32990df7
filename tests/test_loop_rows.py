"""Loops whose rows depend on one another, or that nothing moves: generated mechanisms keep their motion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
from delassus.contact import Sphere
from random_trees import RawJoint, RawLink, build_tree, joint_kinds, some_link
from tools import direct, frame_pose, mujoco_data, random_rotation

pytestmark = pytest.mark.usefixtures("one_lane")

ROOTS, SHAPES = ("fixed", "turned", "planar", "floating"), ("planar", "spherical", "spatial")

LEGS = 3, 2
"""Links of the two legs whose ends meet."""

TIME_STEP = 1e-3
"""Of one step (s): velocities are about 1 rad/s."""

KEPT = 4e-5
"""Part of the kinetic energy and of the momentum that a step may lose: sub-steps are held to 1e-5."""

CLOSED = 1e-9
"""Errors of loops after a step (m, rad): those of closed ones are taken back after each sub-step, to second order."""

OF_FOURTH_ORDER = 1e-11
"""Part of the momentum that a Runge-Kutta step loses, beside 5e-15 seen: its stages are h⁵ off."""

SAME = 1e-6
"""Part of velocities by which two computations of a step may differ, sub-steps of other lengths among them."""

SAME_FLOAT32 = 1e-3
"""The same in float32: what round-off (1e-7) becomes by the weight of loops (2e-6) is squared, and a margin."""

FALL = 0.5
"""Energy (J) that gravity gives rods of 3 kg at 20 m/s in a step of 1 ms, at most."""

STEP = 1e-6
"""Changes of states by which steps are differentiated."""

DRAWN = 1e-9
"""Singular values of rows below this are round-off: links are about 0.3 m long."""


class Mechanism:
    """Two legs on a base, axes of joints parallel (planar), through one point (spherical), or neither (spatial)."""

    def __init__(self, seed, root, shape):
        self.rng = rng = np.random.default_rng(seed)
        self.root, self.shape = root, shape
        self.normal = np.array([0.0, 0.0, 1.0]) if root in ("fixed", "planar") else random_rotation(rng)[0]
        self.centre = rng.uniform(-0.3, 0.3, 3)
        links, joints, self.ends = [some_link(rng, "base")], [], []
        if root == "planar":
            links.insert(0, RawLink("ground", 1.0))
            joints.append(RawJoint("slide", joint_kinds.PLANAR, "ground", "base", np.zeros(3)))
        for leg, count in zip("ab", LEGS, strict=True):
            parent = "base"
            for k in range(count):
                name = f"{leg}{k}"
                links.append(some_link(rng, name))
                joints.append(self._joint(name, parent))
                parent = name
            self.ends.append(parent)
        built = build_tree("generated", links, joints, root="floating" if root == "floating" else "fixed")
        self.tree = replace(built, gravity=np.zeros(3))
        self.q = self.tree.random(rng)

    def _joint(self, name, parent):
        rng, axis = self.rng, self.normal
        position, kind = rng.uniform(-0.4, 0.4, 3), joint_kinds.REVOLUTE
        if self.shape == "spherical":
            position, axis = self.centre if parent == "base" else np.zeros(3), rng.normal(size=3)
        elif self.shape == "spatial":
            axis, kind = rng.normal(size=3), (joint_kinds.REVOLUTE, joint_kinds.BALL)[int(rng.integers(2))]
        return RawJoint(f"j{name}", kind, parent, name, position, axis=axis)

    def frames(self):
        """Frames on both ends that coincide; one axis of theirs is that of the joints where these are parallel."""
        tree, rng = self.tree, self.rng
        (R, p), (other, origin) = (frame_pose(tree, name, self.q) for name in self.ends)
        at = np.zeros(3) if self.shape == "spherical" else rng.uniform(-0.3, 0.3, 3)
        own = random_rotation(rng)
        if self.shape == "planar":
            own = np.linalg.qr(np.c_[self.normal, rng.normal(size=(3, 2))])[0]
            own = np.roll(own * [1.0, 1.0, np.linalg.det(own)], rng.integers(3), axis=1)
        place = p + R @ at
        return ds.Frame(self.ends[0], at, own), ds.Frame(self.ends[1], other.T @ (place - origin), other.T @ R @ own)

    def closures(self):
        """Sets of loops by name: some of their rows depend on others, and some are moved by nothing."""
        a, b = self.frames()
        axis = a.rotation.T @ self.normal if self.shape == "planar" else self.rng.normal(size=3)
        first = next(k for k, joint in enumerate(self.tree.joint_names) if joint == "ja0")
        own = self.tree.joints[first]
        held = ds.Frame("base", own.position, own.rotation), ds.Frame("a0", np.zeros(3))
        length = float(np.linalg.norm(np.subtract(*(frame_pose(self.tree, name, self.q)[1] for name in self.ends))))
        made = {
            "Point": [ds.Point(a, b)], "world": [ds.Point(a, b, axes="world")], "Weld": [ds.Weld(a, b)],
            "Hinge": [ds.Hinge(a, b, axis)], "Orientation": [ds.Orientation(a, b)],
            "twice": [ds.Point(a, b), ds.Hinge(a, b, axis), ds.Point(a, b)],
            "held": [ds.Point(*held)],
        }  # fmt: skip
        if length > 0.01:
            made["Distance"] = [ds.Distance(*self.ends, length=length)]
        single = [n for n, j in zip(self.tree.joint_names, self.tree.joints, strict=True) if j.nq == 1]
        if len(single) > 1:
            chosen = dict(zip(single[:2], (1.0, -0.7), strict=True))
            rest = sum(x * self.q[self.tree.q_slices[self.tree.joint_names.index(n)]][0] for n, x in chosen.items())
            rows = ds.JointRows([chosen, {n: np.pi * x for n, x in chosen.items()}], rest=[rest, np.pi * rest])
            made |= {"JointRows": [rows], "several": [rows, ds.Point(a, b), ds.Orientation(a, b)]}
        return made

    def velocity(self, loops):
        """A random velocity that keeps loops closed; None where they hold all."""
        J = ds.jacobian(self.tree, loops, self.q)
        v = self.rng.normal(size=self.tree.nv)
        _, sizes, along = np.linalg.svd(J)
        along = along[: len(sizes)][sizes > DRAWN]
        v = v - along.T @ (along @ v)
        return v if len(along) < self.tree.nv else None


def stepped(tree, loops, q, v, dt=TIME_STEP, tau=0.0):
    given = {"q": q, "v": v, "impulses": np.zeros(0), "tau": np.broadcast_to(tau, v.shape), "dt": np.array(dt)}
    found = direct(tree, "contact_step", given, loops)
    return found["q_next"], found["v_next"]


def largest_error(tree, loops, q):
    return np.abs(direct(tree, "constraint_errors", {"q": q, "v": np.zeros(tree.nv)}, loops)["errors"]).max()


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("root", ROOTS)
def test_free_flight_keeps_energy_and_momentum(root, shape):
    """Without gravity and joint forces, whatever closes the loop."""
    mechanism = Mechanism(ROOTS.index(root) % 2, root, shape)
    tree, q, moved = mechanism.tree, mechanism.q, 0
    for name, loops in mechanism.closures().items():
        if (v := mechanism.velocity(loops)) is None:
            continue
        moved += 1
        q_next, v_next = stepped(tree, loops, q, v)
        energies = [ds.kinetic_energy(tree, *state) for state in ((q, v), (q_next, v_next))]
        assert abs(energies[1] - energies[0]) < KEPT * energies[0], (name, energies)
        assert largest_error(tree, loops, q_next) < CLOSED, name
        if root == "floating":
            before, after = ds.momentum(tree, q, v), ds.momentum(tree, q_next, v_next)
            for part in (slice(3), slice(3, 6)):
                lost = np.linalg.norm(after[part] - before[part])
                assert lost < KEPT * np.linalg.norm(before[part]), (name, lost)
    assert moved > 5


def test_points_that_gape_keep_the_motion():
    """Of a planar loop on a floating base: what carries both ends has no part in its rows, gap or none."""
    for seed, gap in ((0, 1e-8), (1, 1e-5), (2, 1e-3)):
        mechanism = Mechanism(seed, "floating", "planar")
        tree, loops = mechanism.tree, mechanism.closures()["Point"]
        v, opening = mechanism.velocity(loops), np.zeros(tree.nv)
        opening[6:] = gap
        q = tree.integrate(mechanism.q, opening)
        _, v_next = stepped(tree, loops, q, v)
        gained = ds.kinetic_energy(tree, q, v_next) - ds.kinetic_energy(tree, q, v)
        assert abs(gained) < (KEPT + 10.0 * gap) * ds.kinetic_energy(tree, q, v)
        assert np.abs(v_next - v).max() < 10.0 * (TIME_STEP + gap) * np.square(v).max()


@pytest.mark.turns(3)
@pytest.mark.parametrize(("seed", "name"), enumerate(["Point", "twice", "several"]))
def test_stages_of_runge_kutta_keep_the_momentum(seed, name):
    """Loops are open by a little there, and rows that nothing moves stay such."""
    mechanism = Mechanism(seed, "floating", "planar")
    tree, q, loops = mechanism.tree, mechanism.q, mechanism.closures()[name]
    v = mechanism.velocity(loops)
    given = {"q": q, "v": v, "tau": 0.0 * v, "dt": np.array(TIME_STEP)}
    found = direct(tree, "step", given, loops, integrator="rk4")
    before, after = ds.momentum(tree, q, v), ds.momentum(tree, found["q_next"], found["v_next"])
    assert np.linalg.norm(after - before) < OF_FOURTH_ORDER * np.linalg.norm(before)


def scaled(tree, mass=1.0, length=1.0):
    """The same robot of other units of mass and length."""
    inertias = tree.inertias.copy()
    factors = np.repeat([1.0, length], 3)
    inertias *= mass * np.outer(factors, factors)
    joints = [replace(joint, position=length * joint.position) for joint in tree.joints]
    frames = {name: replace(at, position=length * at.position) for name, at in tree.frames.items()}
    return replace(tree, inertias=inertias, joints=tuple(joints), frames=frames)


@pytest.mark.slow
def test_loops_are_open_by_the_size_of_the_robot():
    """Of 10⁻⁶, 1 and 10⁶ m: a gap that nothing closes is one, and steps that are too long open loops of all."""
    mechanism = Mechanism(1, "turned", "planar")
    (a, b), q = mechanism.frames(), mechanism.q
    v, seen = mechanism.velocity([ds.Point(a, b)]), []
    for length in (1e-6, 1.0, 1e6):
        tree = scaled(mechanism.tree, length=length)
        loop = ds.Point(*(ds.Frame(f.link, length * np.asarray(f.position), f.rotation) for f in (a, b)))
        step = ds.compile(tree, loop, "step", lanes=1, baumgarte=1e-3)  # that rate takes nothing back in 8 steps
        qs, *_, status = ds.rollout(step, q, v, np.zeros((8, tree.nv)), 2e-2, return_status=True)
        assert (status == ds.DynamicsStatus.LOOPS_OPEN).any()
        arm = scaled(ds.mechanisms.pendulum(2), length=length)
        tip = ds.Frame(arm.link_names[1], (0.0, 0.0, -length))
        reach = float(np.linalg.norm(frame_pose(arm, tip, np.zeros(2))[1]))
        far = ds.Distance(tip, ds.Frame("world"), length=(1.0 + 5e-6) * reach)
        found = ds.close_loops(arm, far, [0.1, 0.2])
        assert found.status.item() != ds.LoopStatus.CLOSED and found.residual < 1e-5 * reach
        seen.append((qs, status == ds.DynamicsStatus.LOOPS_OPEN))
    for qs, is_open in seen:
        assert np.array_equal(is_open, seen[1][1]) and np.abs(qs - seen[1][0]).max() < SAME


@pytest.mark.parametrize("root", ["turned", "floating"])
def test_units_and_sizes_of_rows_do_not_matter(root):
    """Of mass, length and time by 10⁶ and 10⁻⁶, and rows of joints by π: the same motion in other numbers."""
    mechanism = Mechanism(3, root, "planar")
    tree, q, (a, b) = mechanism.tree, mechanism.q, mechanism.frames()
    single = [n for n in tree.joint_names if n.startswith("j")][:2]
    rest = sum(q[tree.q_slices[tree.joint_names.index(n)]][0] for n in single)

    def loops(length=1.0, size=1.0):
        ends = (ds.Frame(f.link, length * np.asarray(f.position), f.rotation) for f in (a, b))
        return [ds.Point(*ends), ds.JointRows({n: size for n in single}, rest=size * rest)]

    v = mechanism.velocity(loops())
    is_length = np.zeros(tree.nv, dtype=bool)
    is_length[: 3 * (root == "floating")] = True
    in_q = np.zeros(len(q), dtype=bool)
    in_q[: 3 * (root == "floating")] = True
    _, expected = stepped(tree, loops(), q, v)
    for mass, length, time, size in (
        (1e6, 1.0, 1.0, 1.0), (1e-6, 1.0, 1.0, 1.0), (1.0, 1e6, 1.0, 1.0), (1.0, 1e-6, 1.0, 1.0), (1.0, 1.0, 1e6, 1.0),
        (1.0, 1.0, 1e-6, 1.0), (1e-6, 1e-6, 1e6, 1.0), (1.0, 1.0, 1.0, np.pi), (1.0, 1.0, 1.0, 1e-6 * np.pi),
    ):  # fmt: skip
        units, other = np.where(is_length, length, 1.0) / time, np.where(in_q, length, 1.0) * q
        _, found = stepped(scaled(tree, mass, length), loops(length, size), other, units * v, time * TIME_STEP)
        error = np.abs(found / units - expected).max()
        assert error < SAME * np.abs(expected).max(), (mass, length, time, size, error)


def differs(a, b):
    """Largest difference of two arrays over the largest entry."""
    return np.abs(np.asarray(a) - b).max() / np.abs(b).max()


def with_directions(mechanism, loops, v, tau):
    """Changes of a step (k, 2 nv) with the states and joint forces along which loops stay closed, by differences."""
    tree, q = mechanism.tree, mechanism.q
    _, sizes, along = np.linalg.svd(ds.jacobian(tree, loops, q))
    along = along[np.count_nonzero(sizes > DRAWN) :]
    ends = []
    for sign in (1.0, -1.0):
        moved = sign * STEP * along
        at = np.concatenate([tree.integrate(q, moved), np.broadcast_to(q, (2 * len(along), len(q)))])
        still = np.zeros_like(moved)
        speeds, forces = v + np.concatenate([still, moved, still]), tau + np.concatenate([still, still, moved])
        ends.append(stepped(tree, loops, at, speeds, tau=forces))
    (q_plus, v_plus), (q_minus, v_minus) = ends
    return along, np.concatenate([tree.difference(q_minus, q_plus), v_plus - v_minus], axis=-1) / (2.0 * STEP)


@pytest.mark.slow
@pytest.mark.parametrize(("root", "shape", "closure"), [("floating", "planar", "Point"), ("turned", "planar", "Hinge")])
def test_simulator_and_kernels_agree(root, shape, closure):
    """With direct calls, in both types; derivatives by differences, along what keeps loops closed."""
    mechanism = Mechanism(1, root, shape)
    tree, q, loops = mechanism.tree, mechanism.q, mechanism.closures()[closure]
    v, tau = mechanism.velocity(loops), 0.1 * mechanism.rng.normal(size=mechanism.tree.nv)
    expected = stepped(tree, loops, q, v, tau=tau)
    sim = ds.Simulator(ds.Scene(tree, loops=loops), q0=q, v0=v, dt=TIME_STEP)
    sim.step(tau)
    assert sim.status.name == "CONVERGED"
    for found, x in zip((sim.q, sim.v), expected, strict=True):
        assert differs(found, x) < SAME
    for scalar, allowed in (("float64", SAME), ("float32", SAME_FLOAT32))[root == "floating" :]:
        step = ds.compile(tree, loops, "contact_step", dtype=scalar)
        given = (np.asarray(x, dtype=scalar) for x in (q, v, np.zeros(0), tau, TIME_STEP))
        *found, _, _, status = step(*given, return_status=True)
        assert status.item().name == "SOLVED"
        for y, x in zip(found, expected, strict=True):
            assert differs(y, x) < allowed, scalar

    if root == "floating":  # its derivatives take long to compile
        return
    made = sim.step_derivatives()
    along, expected = with_directions(mechanism, loops, v, tau)
    A, B = np.asarray(made.A), np.asarray(made.B)
    nv = tree.nv
    found = np.concatenate([along @ x.T for x in (A[:, :nv], A[:, nv:], B)])
    assert differs(found, expected) < SAME


def four_bar(lengths, ground):
    """Rods in a plane, on a base that is turned: crank, coupler and rocker, and the point that closes the loop."""
    R = random_rotation(np.random.default_rng(0))
    links, joints = [RawLink("base", 1.0)], []
    for k, length in enumerate(lengths):
        inertia = length**2 / 12.0 * np.diag([1e-2, 1.0, 1.0])
        links.append(RawLink(f"rod{k}", 1.0, np.array([0.5 * length, 0.0, 0.0]), inertia))
        parent, at = ("base", [ground if k == 2 else 0.0, 0.0, 0.0]) if k != 1 else ("rod0", [lengths[0], 0.0, 0.0])
        position, rotation = (R @ at, R) if parent == "base" else (np.array(at), np.eye(3))
        joints.append(RawJoint(f"j{k}", joint_kinds.REVOLUTE, parent, f"rod{k}", position, rotation))
    tree = replace(build_tree("four_bar", links, joints), gravity=np.array([0.0, 0.0, -9.81]))
    return tree, ds.Point(ds.Frame("rod1", (lengths[1], 0, 0)), ds.Frame("rod2", (lengths[2], 0, 0)))


@pytest.mark.slow
@pytest.mark.parametrize("is_held", [False, True])
def test_dead_points_stay_finite(is_held):
    """Stretched, where branches meet, and near to that by all sizes; a point may hold the coupler at the world."""
    lengths, ground = (0.3, 0.7, 0.5), 0.5
    tree, loop = four_bar(lengths, ground)
    loops = [loop, ds.Point(ds.Frame("rod1", (0.1, 0, 0)))] if is_held else [loop]
    kernel, near = ds.compile(tree, loops, "smooth_motion"), np.array([0.0, *10.0 ** np.arange(-16.0, -2.0)])
    q = ds.close_loops(tree, loop, np.multiply.outer(near, [1.0, -1.0, 1.0])).q
    for v in ([0.0, 0.0, 0.0], [1.0, -2.0, 1.0], [10.0, -20.0, 20.0]):
        v = np.broadcast_to(v, q.shape).copy()
        moved, reached, flags = kernel(q, v, np.zeros_like(q), TIME_STEP, 0.2)
        assert np.all(np.isfinite(moved)) and np.all(np.isfinite(reached))
        before, after = (ds.kinetic_energy(tree, q, x) for x in (v, reached))
        resolved = flags[:, 1] == 1.0
        assert np.all((after < (1.0 + KEPT) * before + FALL)[resolved])
        ended = np.abs(moved - TIME_STEP * reached).max(axis=-1) < 0.1 * TIME_STEP * (
            1.0 + np.abs(reached).max(axis=-1)
        )
        assert np.all(ended[resolved])


def mjcf(root):
    """A four-bar that a connect closes, its axes of no coordinates on a base that is turned or free."""
    rng = np.random.default_rng(1)
    n = random_rotation(rng)[0]
    x, y, _ = np.linalg.qr(np.c_[n, rng.normal(size=(3, 2))])[0].T[[1, 2, 0]]

    def body(name, at, inside="", joint=True):
        hinge = f'<joint name="{name}" axis="{text(n)}"/>' if joint else ""
        inertial = '<inertial pos=".05 .02 .01" mass="1" diaginertia=".01 .012 .009"/>'
        return f'<body name="{name}" pos="{text(at[0] * x + at[1] * y)}">{hinge}{inertial}{inside}</body>'

    def text(vector):
        return " ".join(map(repr, np.asarray(vector, dtype=float).tolist()))

    legs = body("crank", (0.0, 0.2), body("coupler", (0.3, 0.1))) + body("rocker", (0.5, 0.0))
    base = body("base", (0.0, 0.0), legs, joint=False)
    base = base.replace(">", "><freejoint/>" if root == "floating" else ' euler="20 -40 60">', 1)
    loop = f'<connect body1="coupler" body2="rocker" anchor="{text(0.3 * x + 0.1 * y)}" solref=".002 1"/>'
    option = '<option gravity="0 0 0" timestep="2e-4" integrator="RK4" tolerance="1e-12" iterations="200"/>'
    return f"<mujoco>{option}<worldbody>{base}</worldbody><equality>{loop}</equality></mujoco>"


@pytest.mark.peer
@pytest.mark.parametrize("root", ["turned", "floating"])
def test_connects_move_as_in_mujoco(root, tmp_path):
    """40 ms of free flight without gravity, MuJoCo's constraint being stiff."""
    mujoco = pytest.importorskip("mujoco")
    (tmp_path / "loop.xml").write_text(mjcf(root))
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "loop.xml"))
    scene = ds.Scene.from_robot(str(tmp_path / "loop.xml"))
    tree, q, v = scene.tree, scene.start, np.random.default_rng(0).normal(size=scene.tree.nv)
    _, sizes, along = np.linalg.svd(ds.jacobian(tree, scene.loops, q))
    along = along[: np.count_nonzero(sizes > DRAWN)]
    v = v - along.T @ (along @ v)
    data, sim = mujoco_data(model, tree, q, v), ds.Simulator(scene, q0=q, v0=v, dt=TIME_STEP)
    for _ in range(40):
        sim.step()
    mujoco.mj_step(model, data, 200)
    found = mujoco_data(model, tree, sim.q, sim.v)
    assert sim.status.name == "CONVERGED"
    assert np.abs(found.qpos - data.qpos).max() < SAME
    assert np.abs(found.qvel - data.qvel).max() < SAME * np.abs(v).max()


@pytest.mark.parametrize("root", ["turned", "floating"])
def test_a_contact_that_is_open_leaves_the_motion(root):
    """Of a planar loop: the rows of the contact are eliminated beside those that nothing moves."""
    mechanism = Mechanism(int(root == "floating"), root, "planar")
    tree, q, loops = mechanism.tree, mechanism.q, mechanism.closures()["Point"]
    v, contact = mechanism.velocity(loops), ds.Contact("a2", Sphere(1e-3))
    assert frame_pose(tree, "a2", q)[1][2] > 0.1
    given = {"q": q, "v": v, "impulses": np.zeros(3), "tau": np.zeros(tree.nv), "dt": np.array(TIME_STEP)}
    found = direct(tree, "contact_step", given, [*loops, contact])
    assert not found["impulses_next"].any()
    for x, y in zip((found["q_next"], found["v_next"]), stepped(tree, loops, q, v), strict=True):
        assert differs(x, y) < SAME
    assert abs(ds.kinetic_energy(tree, q, found["v_next"]) / ds.kinetic_energy(tree, q, v) - 1.0) < 0.1
