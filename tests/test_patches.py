"""Torsional and rolling friction: the law of patches, closed forms of balls that come to rest, grips by friction."""

import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
from delassus.contact import Box, Collider, ContactSet, ContactStep, HalfSpace, Scene, Sphere, State, audit, formulate
from delassus.errors import ConfigurationError
from delassus.simulate import load_checkpoint, save_checkpoint
from delassus_studies.bench.contact.problems import turned_momentum
from random_trees import ARM, some_mechanism

G, MASS, RADIUS, MU, DT = 9.81, 1.0, 0.1, 0.5, 1e-3
BALL = Sphere(RADIUS)
INERTIA = 0.4 * MASS * RADIUS**2

SOLVED = 4e-6
"""Residual (m/s) of what is solved to 1e-6 m/s over another mobility, which here is up to four times smaller."""

FORMULATED = 1e-7
"""Velocities (m/s, rad/s) after 50 steps, each solved to 1e-9 m/s."""

CLOSE = 1e-8
"""Relative, of velocities after hundreds of steps, each solved to 1e-10 m/s."""


def ball_scene(slope=0.0, **friction):
    """A ball on a plane whose normal is turned about y, in the axes of the plane."""
    body = ds.mechanisms.free_body(MASS, BALL.inertia(MASS), name="ball")
    colliders = [Collider("ball", BALL, **{"friction": MU} | friction), Collider("world", HalfSpace(), friction=MU)]
    gravity = [G * np.sin(slope), 0, -G * np.cos(slope)]
    rule = "max" if friction.get("friction") != 0 else "harmonic-mean"
    return Scene(body, colliders, gravity=gravity, friction_rule=rule)


class InKernel:
    """A simulator's scene in steps of its kernel, with the simulator's names; contacts have all of their lengths."""

    def __init__(self, sim):
        self._sim, self.dt, self.q, self.v, self.time = sim, sim.dt, sim.q, sim.v, 0.0
        self._kernel = sim.scene.contact_step(tolerance=1e-10, sweeps=2000, gravity=sim.scene.gravity)
        self._p, self._none = np.zeros(self._kernel.arguments[2].shape), np.zeros(self.v.size)

    def step(self, tau=None):
        tau = self._none if tau is None else tau
        self.q, self.v, self._p, _ = self._kernel(self.q, self.v, self._p, tau, self.dt)
        self.time += self.dt

    def run(self, duration):
        for _ in range(round(duration / self.dt)):
            self.step()

    def twist(self, name):
        self._sim.q, self._sim.v = self.q, self.v
        return self._sim.twist(name)

    @property
    def _contacts(self):
        return [c for c in self._kernel.request.constraints if isinstance(c, ds.Contact)]

    @property
    def impulses(self):
        return self._p[: 3 * sum(c.n_points for c in self._contacts)].reshape(-1, 3)

    @property
    def angular_impulses(self):
        axes = [axis for c in self._contacts for _ in range(c.n_points) for axis, _ in c.lengths]
        owner = [k for k, c in enumerate(self._contacts) for _ in range(c.n_points) for _ in c.lengths]
        out = np.zeros((len(self.impulses), 3))
        out[owner, axes] = self._p[self._p.size - len(axes) :]
        return out


IN_BOTH = pytest.mark.parametrize("made", [lambda sim: sim, InKernel], ids=["scene", "kernel"])
"""What holds in steps of scenes and of kernels."""


def ball_on_plane(v0, slope=0.0, height=RADIUS, dt=DT, **friction):
    return ds.Simulator(ball_scene(slope, **friction), q0=[0, 0, height, 0, 0, 0, 1], v0=v0, dt=dt, tolerance=1e-10)


def pile(seed, n, restitution=0.0, **options):
    """Balls and cubes of all masses and lengths over a floor; their inertia is isotropic, so that spins stay."""
    rng = np.random.default_rng(seed)
    robots, colliders, q = {}, [Collider("world", HalfSpace(), torsional=0.01, rolling=0.005)], []
    for k in range(n):
        shape, mass = (BALL, Box(0.15, 0.15, 0.15))[k % 2], 10.0 ** rng.uniform(-1, 1)
        robots[f"b{k}"] = ds.mechanisms.free_body(mass, shape.inertia(mass) * 10.0 ** rng.uniform(-0.5, 0.5))
        lengths = {"torsional": rng.choice([0, 0.01, 0.1]), "rolling": rng.choice([0, 0.002, 0.05])}
        colliders.append(
            Collider(f"b{k}/body", shape, friction=rng.choice([0, 0.3, 0.8]), restitution=restitution, **lengths)
        )
        x = rng.normal(size=4)
        q += [*rng.uniform(-0.12, 0.12, 2), 0.14 + 0.25 * k, *x / np.linalg.norm(x)]
    return ds.Simulator(Scene(robots, colliders), q0=q, v0=rng.normal(size=6 * n), dt=2e-3, **options)


def law_of_patches(sim, start):
    """Residual (m/s) of the law of each contact of the last step, and what friction takes (J), from impulses alone."""
    c, n, tree = sim.contacts, len(sim.contacts), sim.scene.tree
    worst, power, weights = 0.0, -np.inf, {}
    for link in {*c.links.ravel().tolist()} - {-1}:
        name = tree.link_names[link]
        at = ds.forward_kinematics(tree, start, name)[:3, 3]
        inertia = tree.inertias[link]
        weights[link] = at, sim.twist(name), inertia[0, 0], inertia[3, 3]
    p = np.concatenate([sim.impulses, sim.angular_impulses], axis=1)
    for k in range(n):
        R, x = c.frames[k], c.points[k]
        u, mobility = np.zeros(6), np.zeros(3)
        for link, sign in zip(c.links[k].tolist(), (1.0, -1.0), strict=True):
            if link >= 0:
                at, twist, mass, turning = weights[link]
                arm = x - at
                u += sign * np.concatenate([R.T @ (twist[:3] + np.cross(twist[3:], arm)), R.T @ twist[3:]])
                mobility += 1.0 / mass + np.diag(R.T @ (arm @ arm * np.eye(3) - np.outer(arm, arm)) @ R) / turning
        u += [*sim.turning[k], 0, 0, 0]
        u[2] += max(-c.depths[k], 0.0) / sim.dt
        mu, w = c.friction[k] or 1.0, mobility.mean()
        lengths = np.array([c.rolling[k], c.rolling[k], c.torsional[k]]) / mu
        is_held = np.concatenate([[c.friction[k] > 0] * 2, lengths > 0])
        over = np.concatenate([[1.0, 1.0], np.where(lengths > 0, lengths, 1.0)])
        pt = np.where(is_held, np.concatenate([p[k, :2], p[k, 3:]]) / over, 0.0)
        assert not np.concatenate([p[k, :2], p[k, 3:]])[~is_held].any()  # no friction without its length
        ut = np.where(is_held, np.concatenate([u[:2], u[3:]]) * over, 0.0)
        y, z = w * pt - ut, w * p[k, 2] - u[2] - mu * np.linalg.norm(ut)
        size = np.linalg.norm(y)
        if mu * size <= -z:
            y, z = 0.0 * y, 0.0
        elif size > mu * z:
            z = (z + mu * size) / (1.0 + mu * mu)
            y = mu * z * y / size
        worst = max(worst, np.linalg.norm([*(w * pt - y), w * p[k, 2] - z]))
        power = max(power, pt @ ut)
    return worst, power


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "n", "steps"), [(0, 1, 150), (1, 2, 150), (2, 6, 150)])
def test_every_step_of_a_pile_obeys_the_law_and_gains_no_energy(seed, n, steps):
    sim = pile(seed, n)
    turned = 0.0
    for _ in range(steps):
        start, energy = sim.q, sum(sim.energy())
        sim.step()
        residual, power = law_of_patches(sim, start)
        assert residual < SOLVED and power < SOLVED
        assert sum(sim.energy()) < energy + SOLVED
        turned = max(turned, np.abs(sim.angular_impulses).max(initial=0.0))
    assert turned > 1e-4 and {status.name for status in sim.statuses} == {"CONVERGED"}


@pytest.mark.slow
def test_formulations_go_as_scenes_do():
    """Piles with bounces beside joints with limits and friction, on a plate that turns and slides below them."""
    own = {"friction": [0.05], "lower": [-1.0], "upper": [0.2]}
    arm = ds.mechanisms.pendulum(2)
    arm = replace(arm, joints=tuple(replace(j, **{k: np.array(x) for k, x in own.items()}) for j in arm.joints))
    piled, tip = pile(3, 3, restitution=0.3), Collider("arm/rod2", BALL, (0, 0, -0.6), friction=0.4, torsional=0.03)
    scene = Scene({**piled.scene.robots, "arm": arm}, [*piled.scene.colliders[1:], tip])
    scene = scene.add("plate", Box(3, 3, 0.1), at=(0, 0, -0.05), moved=True, friction=0.5, torsional=0.01)
    q0, v0 = np.array(scene.start), np.zeros(scene.tree.nv)
    q0[:21], v0[:18] = piled.q, piled.v
    q0[scene.q_slice("arm")] = 0.1, 0.15

    def ends(**options):
        sim = ds.Simulator(scene, q0=q0, v0=v0, dt=2e-3, tolerance=1e-9, max_overlap=1.0, **options)
        found, turned = [], 0.0
        for k in range(1, 51):
            sim.move("plate", [2e-3 * k, 0, -0.05, 0, 0, np.sin(1e-3 * k), np.cos(1e-3 * k)])
            sim.step()
            found.append(sim.v)
            turned = max(turned, *np.abs(sim.angular_impulses).ravel(), 0.0)
        assert {status.name for status in sim.statuses} == {"CONVERGED"} and turned > 1e-3
        assert sim.joint_impulses.any()
        return np.array(found), sim.angular_impulses

    expected = ends()
    for formulation in ("os", "nmc-os", "rmc", "mc", "nmc"):
        velocities, turned = ends(formulation=formulation, solver="nsgs")
        assert velocities == pytest.approx(expected[0], abs=FORMULATED)
        assert turned == pytest.approx(expected[1], abs=FORMULATED)


def drawn(rng):
    choices = {"friction": [0, 0.4], "torsional": [0, 0.03], "rolling": [0, 0.01]}
    return {name: rng.choice(some) for name, some in choices.items()}


@pytest.mark.slow
def test_audits_of_random_arms_with_patches_are_right():
    """Also where rows of a patch are dependent, as on few joints, and without Coulomb's friction."""
    worst, touched = 0.0, 0
    for seed in range(4):
        made = some_mechanism(seed, 5, "fixed", ARM)
        tree, rng = made.tree, np.random.default_rng(seed)
        balls = [Collider(name, BALL, **drawn(rng)) for name in tree.link_names]
        scene = Scene(tree, [*balls, Collider("world", HalfSpace(), (0, 0, -0.5), torsional=0.01)])
        sim = ds.Simulator(scene, v0=0.5 * rng.normal(size=tree.nv), max_overlap=5, passive="none", limits=False)
        for _ in range(30):
            q, v = sim.q, sim.v
            sim.step()
            c, n = sim.contacts, len(sim.contacts)
            J, about = np.zeros((2, n, 3, tree.nv))
            for k in range(n):
                R = c.frames[k]
                for link, sign in zip(c.links[k].tolist(), (1.0, -1.0), strict=True):
                    if link >= 0:
                        twist = ds.frame_jacobian(tree, q, tree.link_names[link], reference="world")
                        J[k] += sign * R.T @ (twist[:3] + np.cross(twist[3:].T, c.points[k]).T)
                        about[k] += sign * R.T @ twist[3:]
            bias = ds.bias_force(tree, q, v)
            step = ContactStep(
                ds.mass_matrix(tree, q), J.reshape(3 * n, tree.nv), v, sim.v, sim.impulses, c.friction, -c.depths, DT,
                turned_momentum(tree, q, v, DT, bias) / DT - bias, torsional=c.torsional, rolling=c.rolling,
                velocity_offset=sim.turning + np.maximum(-c.depths, 0.0)[:, None] * [0, 0, 1 / DT],
                J_angular=about.reshape(3 * n, tree.nv), angular_impulses=sim.angular_impulses,
            )  # fmt: skip
            found = audit(step, penetration=5.0, tolerance=SOLVED)
            assert found.verdict.name == "RIGHT", str(found)
            worst, touched = max(worst, *np.abs(sim.angular_impulses).ravel(), 0.0), touched + n
    assert touched > 20 and worst > 1e-5


def test_impacts_with_patches_gain_no_energy():
    for seed in range(2):
        sim = pile(seed, 4, restitution=0.8)
        for _ in range(250):
            energy = sum(sim.energy())
            sim.step()
            assert sum(sim.energy()) < energy + SOLVED


def steady_rolling(rolling, mu):
    """Deceleration (m/s²) of a rolling ball and its slip over ``ω r``: friction ``F`` and torque ``T`` on one ellipse.

    ``m a = F``, ``I ω' = F r − T``, slip over ``ω`` by the normal of the ellipse, and ``v' = (1 + slip) r ω'``.
    """
    slip = 0.0
    for _ in range(50):
        ratio = (1 + slip) * RADIUS / INERTIA / (1 / MASS + (1 + slip) * RADIUS**2 / INERTIA)  # F / T
        slip = ratio * (rolling / mu) ** 2 / RADIUS
    torque = MASS * G / np.hypot(ratio / mu, 1 / rolling)
    return ratio * torque / MASS, slip


@IN_BOTH
@pytest.mark.parametrize(("rolling", "mu"), [(1e-4, 0.5), (2e-3, 0.5), (1e-2, 0.8)])
def test_a_ball_rolls_to_rest(rolling, mu, made):
    """At 5/7 of ``l g / r``, but for the creep that the ellipse has: of order ``(l / μ r)²``."""
    a, slip = steady_rolling(rolling, mu)
    assert a == pytest.approx(5 / 7 * rolling * G / RADIUS, rel=2 * (rolling / mu / RADIUS) ** 2)
    V = 300 * DT * a
    sim = made(ball_on_plane([V, 0, 0, 0, V / RADIUS / (1 + slip), 0], rolling=rolling, friction=mu))
    sim.run(200 * DT)
    twist = sim.twist("ball")
    assert twist[0] == pytest.approx(V - 200 * DT * a, rel=1e-6)
    assert twist[0] - RADIUS * twist[4] == pytest.approx(slip * RADIUS * twist[4], abs=CLOSE)
    sim.run(110 * DT)
    at = sim.q[0]
    sim.run(0.5)
    assert np.abs(sim.v).max() < 1e-9 and sim.q[0] == at


@IN_BOTH
def test_a_ball_rolls_as_far_at_any_step(made):
    """``V² / 2 a``, less than ``a dt² / 8`` apart, which is what the step in which it stops leaves: of second order."""
    rolling, mu, V = 2e-3, 0.5, 0.05
    a, slip = steady_rolling(rolling, mu)
    for dt in (8e-3, 4e-3, 2e-3, 1e-3):
        sim = ball_on_plane([V, 0, 0, 0, V / RADIUS / (1 + slip), 0], rolling=rolling, friction=mu, dt=dt)
        sim.half_kick()
        sim = made(sim)
        sim.run(0.6)
        assert np.abs(sim.v).max() < 1e-9
        assert abs(sim.q[0] - 0.5 * V * V / a) < 0.125 * a * dt * dt + 1e-9


@IN_BOTH
def test_a_ball_rests_on_a_slope_by_rolling_friction(made):
    """Up to ``(tan β / μ)² + (r tan β / l)² = 1``: friction holds the weight, and the torque that it has then."""
    rolling = 0.01
    limit = 1 / np.hypot(1 / MU, RADIUS / rolling)
    for part, moves in ((0.999, False), (1.001, True)):
        sim = made(ball_on_plane(np.zeros(6), np.arctan(part * limit), rolling=rolling))
        sim.run(0.3)
        assert (np.abs(sim.v).max() > 1e-4) == moves
        assert moves or sim.q[0] == pytest.approx(0.0, abs=1e-12)


@IN_BOTH
@pytest.mark.parametrize("mu", [0.5, 0.0])
def test_a_spinning_ball_comes_to_rest(mu, made):
    """At ``l g m / I``, whether or not there is other friction; and it does not lift off by its spin."""
    torsional, spin = 0.02, 3.0
    sim = made(ball_on_plane([0, 0, 0, 0, 0, spin], torsional=torsional, friction=mu))
    rate = torsional * MASS * G / INERTIA
    for _ in range(50):
        sim.step()
        assert sim.v[5] == pytest.approx(spin - rate * sim.time, abs=CLOSE * spin)
        assert sim.impulses[0, 2] == pytest.approx(MASS * G * DT, rel=CLOSE) and abs(sim.v[2]) < CLOSE
        assert sim.angular_impulses[0] == pytest.approx([0, 0, -torsional * MASS * G * DT], rel=CLOSE)
    sim.run(0.1)
    assert np.abs(sim.v).max() < 1e-9


@IN_BOTH
def test_an_impact_turns_by_its_impulse(made):
    """A spinning ball that bounces: both phases together take ``l (1 + ε) m V`` of angular momentum."""
    torsional, V, spin = 0.01, 2.0, 50.0
    body = ds.mechanisms.free_body(MASS, BALL.inertia(MASS), name="ball")
    colliders = [
        Collider(link, shape, restitution=0.5, torsional=torsional)
        for link, shape in (("ball", BALL), ("world", HalfSpace()))
    ]
    scene = Scene(body, colliders, gravity=[0, 0, 0])
    q0, v0 = [0, 0, RADIUS + 1e-9, 0, 0, 0, 1], [0, 0, -V, 0, 0, spin]
    sim = made(ds.Simulator(scene, q0=q0, v0=v0, dt=DT, tolerance=1e-10))
    sim.step()
    assert sim.v[2] == pytest.approx(0.5 * V)
    assert sim.v[5] == pytest.approx(spin - 1.5 * torsional * MASS * V / INERTIA)
    assert sim.angular_impulses[0] == pytest.approx([0, 0, -1.5 * torsional * MASS * V])


FINGER = """<mujoco><worldbody><body name="tip"><joint type="slide" axis="0 1 0"/>
<geom type="sphere" size="0.02" mass="0.1"/></body></worldbody></mujoco>"""


@pytest.fixture(scope="module")
def finger():
    return ds.load(FINGER)


@IN_BOTH
@pytest.mark.parametrize("part", [0.5, 0.999, 1.001])
def test_two_fingers_hold_a_rod_off_its_centre_of_mass(finger, part, made):
    """Up to ``(m g / 2 μ N)² + (m g d / 2 l N)² = 1`` of both fingers together; then it turns and slides."""
    N, mass, mu, torsional = 20.0, 0.5, 0.8, 0.02
    rod = Box(0.4, 0.02, 0.03)
    lever = 2 * torsional * N * np.sqrt(1 - (mass * G / (2 * mu * N)) ** 2) / (mass * G)
    robots = {"a": finger, "b": finger, "rod": ds.mechanisms.free_body(mass, rod.inertia(mass))}
    colliders = [Collider(f"{name}/tip", Sphere(0.02), friction=mu, torsional=torsional) for name in "ab"]
    scene = Scene(robots, [*colliders, Collider("rod/body", rod, friction=mu)], friction_rule="max")
    q0 = scene.configuration(a=[-0.03], b=[0.03], rod=[part * lever, 0, 0, 0, 0, 0, 1])
    tau = np.zeros(scene.tree.nv)
    tau[scene.v_slice("a")], tau[scene.v_slice("b")] = N, -N
    for dt in (5e-3, DT):
        sim = made(ds.Simulator(scene, q0=q0, dt=dt))
        for _ in range(round(0.2 / dt)):
            sim.step(tau)
        turned = np.abs(sim.q[scene.q_slice("rod")][3:6]).max()
        assert (turned > 1e-4) == (part > 1) and (part > 1 or turned < 1e-8), dt
        torques = np.abs(sim.angular_impulses[:, 2]) / dt
        assert torques.sum() == pytest.approx(min(part, 1.0) * mass * G * lever, rel=1e-2), dt


@pytest.mark.peer
def test_mujoco_decelerates_as_much(tmp_path):
    """Its contacts yield, so that it creeps: 1 % at the stiffest."""
    import mujoco

    rolling, torsional = 2e-3, 5e-3
    text = f"""<mujoco><option timestep="1e-4" cone="elliptic" impratio="100" tolerance="1e-14"/>
    <default><geom condim="6" friction="{MU} {torsional} {rolling}" solref="0.002 1" solimp=".999 .999 .001"/></default>
    <worldbody><geom type="plane" size="9 9 1"/><body pos="0 0 {RADIUS}"><freejoint/>
    <geom size="{RADIUS}" mass="{MASS}"/></body></worldbody></mujoco>"""
    for v0 in ([0.5, 0, 0, 0, 5.0, 0], [0, 0, 0, 0, 0, 8.0]):
        model = mujoco.MjModel.from_xml_string(text)
        data = mujoco.MjData(model)
        data.qvel[:] = v0
        sim = ball_on_plane(v0, rolling=rolling, torsional=torsional, dt=1e-4)
        mujoco.mj_step(model, data, 1000)
        sim.run(0.1)
        lost, there = np.subtract(v0, sim.twist("ball")), np.subtract(v0, data.qvel)
        assert np.abs(lost).max() > 0.01
        assert there == pytest.approx(lost, abs=0.01 * np.abs(lost).max())


def audited(v0, change=lambda **given: given, **lengths):
    """Audit of a step of a ball on a plane, in the axes of the world, of which something is changed."""
    sim = ball_on_plane(v0, **lengths)
    before = sim.twist("ball")
    sim.step()
    R, c = sim.contacts.frames[0], sim.contacts
    arm = sim.contacts.points[0] - [0, 0, RADIUS]
    linear = np.hstack([R.T, R.T @ np.cross(np.eye(3), arm).T])
    given = {
        "M": np.diag([MASS] * 3 + [INERTIA] * 3), "J": linear, "v_before": before, "v_after": sim.twist("ball"),
        "impulses": sim.impulses, "friction": c.friction, "gaps": -c.depths, "dt": DT,
        "force": [0, 0, -MASS * G, 0, 0, 0], "torsional": c.torsional, "rolling": c.rolling,
        "J_angular": np.hstack([0 * R, R.T]), "angular_impulses": sim.angular_impulses,
    }  # fmt: skip
    return audit(ContactStep(**change(**given)), tolerance=1e-8)


def adding(more):
    """What adds to arrays of a step."""
    return lambda **given: given | {key: given[key] + x for key, x in more.items()}


def test_audits_judge_all_friction_of_a_patch():
    """Steps of ours are right; a torque that is larger, turned around, or not allowed at all is found."""
    spin, roll = [0.2, 0.1, 0, 1.0, -3.0, 5.0], [0.3, 0, 0, 0, 3.0, 0]
    for v0, lengths in ((spin, (0.02, 0.01)), (roll, (0.0, 0.01)), (spin, (0.02, 0.0)), (np.zeros(6), (0.02, 0.01))):
        torsional, rolling = lengths
        found = audited(v0, torsional=torsional, rolling=rolling)
        assert found.verdict.name == "RIGHT", str(found)
    assert audited(spin, torsional=0.02, friction=0.0).verdict.name == "RIGHT"
    strays = {
        "tangent without friction": ("impulses", MASS, 0.02, 0.0),
        "torque without length": ("angular_impulses", INERTIA, 0.02, MU),
        "torque of a point": ("angular_impulses", INERTIA, 0.0, MU),
    }
    for name, (key, unit, torsional, friction) in strays.items():
        for size, verdict in ((1e-14, "RIGHT"), (1e-6, "WRONG")):  # round-off, and a hundred times what is tolerated
            more = {key: np.array([size * unit, 0, 0])}
            found = audited(spin, adding(more), torsional=torsional, friction=friction)
            assert found.verdict.name == verdict, name
            for check in ("law", "friction", "cone"):
                assert (found.checks[check].worst[1] > 1.0) == (verdict == "WRONG"), (name, check)
                assert np.isfinite(found.checks[check].relative).all(), (name, check)
    faults = {
        "cone": lambda **x: x | {"angular_impulses": 1.01 * x["angular_impulses"]},
        "dissipation": lambda **x: (
            x | {"angular_impulses": -x["angular_impulses"], "impulses": x["impulses"] * [0, 0, 1]}
        ),
        "momentum": lambda **x: x | {"angular_impulses": 0.0 * x["angular_impulses"]},
        "law": lambda **x: x | {"torsional": 0.0 * x["torsional"]},
        "friction": lambda **x: x | {"v_after": x["v_after"] * [1, 1, 1, 1, 1, 0.9]},
    }
    for name, change in faults.items():
        found = audited(spin, change, torsional=0.02, rolling=0.01)
        assert found.verdict.name == "WRONG" and not found.checks[name].worst[1] <= 1.0, name
    with pytest.raises(ConfigurationError, match="J_angular"):
        audited(spin, lambda **x: x | {"J_angular": None}, torsional=0.02)


def test_lengths_of_two_colliders_mix_as_friction_does():
    for rule, expected in (("max", 0.04), ("geometric-mean", 0.02), ("harmonic-mean", 0.016)):
        for lengths, wanted in (((0.01, 0.04), expected), ((0.0, 0.04), 0.04), ((0.03, 0.0), 0.03), ((0.0, 0.0), 0.0)):
            body = ds.mechanisms.free_body(MASS, BALL.inertia(MASS), name="ball")
            first, second = (
                Collider(link, shape, torsional=x, rolling=2 * x)
                for link, shape, x in zip(("ball", "world"), (BALL, HalfSpace()), lengths, strict=True)
            )
            sim = ds.Simulator(Scene(body, [first, second], friction_rule=rule), q0=[0, 0, RADIUS, 0, 0, 0, 1])
            sim.step()
            assert sim.contacts.torsional == pytest.approx([wanted]) and sim.contacts.rolling == pytest.approx(
                [2 * wanted]
            )


def test_pairs_have_materials_of_their_own(tmp_path):
    """In place of what the rule makes of two colliders, in contacts and kernels; and of no collider in derivatives."""
    own = {"friction": 0.2, "torsional": 0.03}
    body, colliders = ds.mechanisms.free_body(MASS, BALL.inertia(MASS), name="ball"), [
        Collider("ball", BALL, friction=0.6), Collider("world", HalfSpace(), friction=0.0, rolling=0.01, name="floor"),
    ]  # fmt: skip
    scene, q0 = Scene(body, colliders, pair_materials={("ball", "floor"): own}), [0, 0, RADIUS, 0, 0, 0, 1]

    def numbers(scene):
        sim = ds.Simulator(scene, q0=q0 if len(scene.start) == 7 else [*q0, *scene.start[7:]], v0=None, dt=DT)
        sim.step()
        c = sim.contacts
        kernel = next(x for x in scene.constraints() if isinstance(x, ds.Contact))
        found = [c.friction[0], c.torsional[0], c.rolling[0]]
        assert found == [kernel.friction, kernel.torsional, kernel.rolling]
        return found

    assert numbers(scene) == [0.2, 0.03, 0.01]
    assert numbers(scene.with_material("ball", friction=0.6)) == [0.0, 0.03, 0.01]
    assert numbers(scene.add("crate", Box(0.1, 0.1, 0.1), mass=1.0, at=(3, 0, 1))) == [0.2, 0.03, 0.01]
    assert not scene.without("floor").pair_materials and not scene.with_material(friction=0, torsional=0).pair_materials
    sim = ds.Simulator(scene, q0=q0, v0=[0.5, 0, 0, 0, 0, 3.0], dt=DT)
    sim.step()
    found = sim.step_derivatives(parameters=["friction", "torsional", "rolling"]).with_parameters
    assert not np.asarray(found["friction"]).any() and not np.asarray(found["torsional"]).any()
    assert np.asarray(found["rolling"]).any()
    saved = save_checkpoint(sim, tmp_path / "a.npz")
    with pytest.raises(ConfigurationError, match="scene"):
        load_checkpoint(Scene(body, colliders), saved)
    with pytest.raises(ConfigurationError, match=r"'torsional': 0.03.* of the pair \['ball', 'floor'\]"):
        ds.Simulator(scene.with_material(rolling=0.0), solver="interior", q0=q0)
    for wrong in (
        {("ball", "floor"): {"friction": -1}}, {("ball", "floor"): {"colour": 1}}, {("ball",) * 3: {}}, [own],
    ):  # fmt: skip
        with pytest.raises(ConfigurationError, match="pair"):
            Scene(body, colliders, pair_materials=wrong)
    with pytest.raises(ds.errors.UnknownNameError, match="'egg'"):
        Scene(body, colliders, pair_materials={("ball", "egg"): own})


def test_states_with_patches_go_on_to_the_last_bit(tmp_path):
    sim = pile(3, 4)
    sim.run(0.3)
    assert np.abs(sim.angular_impulses).max() > 0
    others = [
        pickle.loads(pickle.dumps(sim)),
        load_checkpoint(sim.scene, save_checkpoint(sim, tmp_path / "a.npz")),
    ]
    for x in (sim, *others):
        x.run(0.1)
    for other in others:
        assert (other.q == sim.q).all() and (other.v == sim.v).all()
        assert (other.angular_impulses == sim.angular_impulses).all()
    stronger = [c if c.link == "world" else Collider(c.link, c.shape, torsional=0.5) for c in sim.scene.colliders]
    with pytest.raises(ConfigurationError, match="scene"):
        load_checkpoint(Scene(dict(sim.scene.robots), stronger), tmp_path / "a.npz")


def go_alike(sim, steps, atol):
    """Steps of a simulator, each made by its kernel too; the largest impulse of spins."""
    kernel = sim.scene.contact_step(tolerance=1e-10, sweeps=2000, passive="none", limits=False)
    p, tau, turned = np.zeros(kernel.arguments[2].shape), np.zeros(sim.v.size), 0.0
    for _ in range(steps):
        q, v = sim.q, sim.v
        sim.step()
        q, v, p, residuals = kernel(q, v, p, tau, sim.dt)
        np.testing.assert_allclose(v, sim.v, atol=atol)
        np.testing.assert_allclose(q, sim.q, atol=atol)
        assert residuals[:2].max() < 1e-10
        turned = max(turned, np.abs(sim.angular_impulses).max(initial=0.0))
    return turned


ALIKE = 2e-8
"""Of velocities (m/s, rad/s), both solved to 1e-10 m/s: 1e-9 at most."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7, 8])
def test_kernels_of_random_trees_go_as_scenes_do(seed):
    """Spheres on a floor and in one another, with any of friction, torsional and rolling friction; rows may depend."""
    tree, rng = some_mechanism(seed, 5, ("fixed", "floating")[seed % 2]).tree, np.random.default_rng(seed)
    balls = [
        Collider(
            name, Sphere(0.15), friction=float(rng.choice([0, 0.4, 0.9])), torsional=float(rng.choice([0, 0.02, 0.1])),
            rolling=float(rng.choice([0, 0.01, 0.05])),
        )
        for name in tree.link_names[-3:]
    ]  # fmt: skip
    q0 = tree.random(rng)
    lowest = min(ds.forward_kinematics(tree, q0, c.link)[2, 3] for c in balls)
    scene = Scene(tree, [Collider("world", HalfSpace(), (0, 0, lowest - 0.149)), *balls])
    options = {"max_overlap": 9.0, "passive": "none", "limits": False, "tolerance": 1e-10}
    sim = ds.Simulator(scene, q0=q0, v0=rng.normal(size=tree.nv), dt=DT, **options)
    assert go_alike(sim, 100, ALIKE) > 1e-5


@pytest.mark.slow
def test_kernels_with_loops_go_as_scenes_do():
    """A chain whose last link is held rests on a ball in its middle."""
    tree, q0 = ds.mechanisms.chain(6), np.random.default_rng(1).uniform(-0.6, 0.6, 6)
    middle, end = ds.forward_kinematics(tree, q0, ["link3", "link6"])[:, :3, 3]
    ball = Collider("link3", BALL, friction=0.4, torsional=0.02, rolling=0.01)
    floor = Collider("world", HalfSpace(), (0, 0, middle[2] - RADIUS + 1e-5), friction=0.4)
    scene = Scene(tree, [ball, floor], loops=[ds.Point("link6", ds.Frame("world", end))])
    options = {"passive": "none", "limits": False, "tolerance": 1e-10}
    assert go_alike(ds.Simulator(scene, q0=q0, dt=DT, **options), 60, ALIKE) > 1e-5


def test_kernels_take_friction_that_comes_with_calls_and_batches():
    """Also none, with which tangents have no rows; on a belt; each state as it is alone, and as its own scene."""
    n, rng = 6, np.random.default_rng(0)
    mu = np.where(np.arange(n) % 3 == 0, 0.0, rng.uniform(0.1, 1.0, n))
    v = rng.normal(size=(n, 6)) * [1, 1, 0.1, 10, 10, 10]
    given = np.tile([0, 0, RADIUS, 0, 0, 0, 1.0], (n, 1)), v, np.zeros((n, 6)), np.zeros((n, 6)), DT

    def scene(friction):
        floor = Collider("world", HalfSpace(), friction=friction, surface_velocity=(0.3, -0.2, 0))
        body = ds.mechanisms.free_body(MASS, BALL.inertia(MASS), name="ball")
        return Scene(body, [Collider("ball", BALL, friction=friction, torsional=0.02, rolling=0.01), floor])

    kernel = scene(0.5).contact_step(friction="input", tolerance=1e-10, sweeps=2000)
    _, found, p, _ = kernel(*given, mu[:, None])
    for k in range(n):
        sim = ds.Simulator(scene(mu[k]), q0=given[0][k], v0=v[k], dt=DT, tolerance=1e-10)
        sim.step()
        assert found[k] == pytest.approx(sim.v, abs=CLOSE)
        assert p[k, 5] == pytest.approx(sim.angular_impulses[0, 2], abs=CLOSE)  # about the normal
        assert kernel(*(x[k] for x in given[:4]), DT, mu[k : k + 1])[1] == pytest.approx(found[k], abs=1e-12)


def test_force_sensors_feel_torsional_friction():
    """The joint that carries a fixed ball feels the torque by which it slows another one that spins on top of it."""
    stand = """<mujoco><worldbody><body name="stand"><joint type="slide" axis="0 0 1" range="0 1e-9" limited="true"/>
    <geom type="sphere" size="0.1" mass="1"/><site name="s"/></body></worldbody>
    <sensor><torque name="felt" site="s"/></sensor></mujoco>"""
    scene = Scene({"s": ds.load(stand), "ball": ds.mechanisms.free_body(MASS, BALL.inertia(MASS))},
                  [Collider("s/stand", Box(0.3, 0.3, 0.2), torsional=0.02), Collider("ball/body", BALL)])  # fmt: skip
    q0 = scene.configuration(s=[0.0], ball=[0, 0, 0.2, 0, 0, 0, 1])
    v0, expected = scene.velocity(ball=[0, 0, 0, 0, 0, 9.0]), pytest.approx([0, 0, -0.02 * MASS * G], abs=1e-6)
    sim = ds.Simulator(scene, q0=q0, v0=v0, dt=DT)
    sim.step()
    assert sim.sensors()["s/felt"] == expected
    kernel = scene.contact_step(outputs=("sensors",), tolerance=1e-8)
    assert kernel(q0, v0, np.zeros(kernel.arguments[2].shape), 0 * v0, DT) == expected


def slab_on_balls(**lengths):
    """A slab over 3 × 3 balls on a plane."""
    box, floor = Box(0.7, 0.7, 0.1), Collider("world", HalfSpace(), friction=1.0, **lengths)
    scene = Scene({"slab": ds.mechanisms.free_body(4.0, box.inertia(4.0))}, [floor])
    scene = scene.add("top", Collider("slab/body", box, friction=1.0))
    for k in range(9):
        place = 0.25 * (k % 3 - 1), 0.25 * (k // 3 - 1), RADIUS
        scene = scene.add(f"ball{k}", BALL, mass=MASS, at=place, friction=1.0, **lengths)
    q = np.array(scene.start)
    q[2] = 2 * RADIUS + 0.05
    return ds.Simulator(scene, q0=q)


def test_patches_of_small_lengths_are_points():
    """Their loads, too, which contacts share arbitrarily: mobilities that these depend on are those of points."""
    ends = []
    for lengths in ({}, {"torsional": 1e-7, "rolling": 1e-9}):
        sim = slab_on_balls(**lengths)
        push = np.zeros(sim.v.size)
        push[0] = 5.0
        for _ in range(100):
            sim.step(push)
        ends.append((sim.v, sim.impulses / DT))
    (v, forces), (v_patches, forces_patches) = ends
    assert v_patches == pytest.approx(v, abs=SOLVED) and v[0] > 0.03
    assert forces_patches == pytest.approx(forces, abs=MASS * SOLVED / DT)  # of 5 to 15 N


@pytest.mark.parametrize("name", ["torsional", "rolling"])
def test_what_has_no_patches_refuses_them(name):
    """Nothing leaves the friction of a collider out silently; each names it."""
    scene = ball_scene(**{name: 0.01})
    sim = ds.Simulator(scene, q0=[0, 0, RADIUS, 0, 0, 0, 1])
    sim.step()
    for options in ({"formulation": "os"}, {"formulation": "mc", "solver": "admm"}, {"solver": "interior"}):
        with pytest.raises(ConfigurationError, match=rf"{name}=0.01.* of collider 'ball'.* solver='nsgs'"):
            ds.Simulator(scene, **options)
    problem = formulate(scene, State(sim.q, sim.v))
    for call in (lambda: problem.solve("lemke"), problem.lcp, problem.cone, lambda: problem.matrix):
        with pytest.raises(ConfigurationError, match=r"some of contact 0.* solver='nsgs'"):
            call()
    for wrong in (-0.1, np.nan, "wide"):
        with pytest.raises(ConfigurationError, match=f"{name} of a contact on 'ball'"):
            ds.Contact("ball", BALL, **{name: wrong})
    plain = scene.with_material(**{name: 0.0})
    assert plain.constraints() and ds.Simulator(plain, solver="nsgs", q0=sim.q).solver == "nsgs"
    again = plain.without("ball").add("egg", BALL, mass=1.0, **{name: 0.01})
    assert [getattr(c, name) for c in again.colliders] == [0.0, 0.01]
    with pytest.raises(ConfigurationError, match=name):
        plain.add("other", plain.tree, **{name: 0.01})
    for wrong, make in itertools.product((-0.1, np.nan, "wide"), (Collider, ContactSet)):
        with pytest.raises(ConfigurationError, match=name):
            if make is Collider:
                Collider("ball", BALL, **{name: wrong})
            else:
                ContactSet([[0, -1]], [[0, 0, 0]], [np.eye(3)], **{name: wrong})


def test_a_spinning_ball_bounces_the_same_beside_an_arm_with_springs_and_limits():
    """Rows are filled once more for impacts, which springs have no part in: those of joints and of spins as well."""
    arm, ends = ds.mechanisms.pendulum(2), []
    own = {"stiffness": [30.0], "damping": [0.5], "lower": [-1.0], "upper": [1.0]}
    arm = replace(arm, joints=tuple(replace(j, **{k: np.array(x) for k, x in own.items()}) for j in arm.joints))
    for robots in ({}, {"arm": arm}):
        body = ds.mechanisms.free_body(MASS, BALL.inertia(MASS), name="ball")
        colliders = [
            Collider("ball/ball", BALL, friction=0.3, restitution=0.5, torsional=0.02, rolling=0.01),
            Collider("world", HalfSpace(), friction=0.3, restitution=0.5),
        ]
        scene = Scene({"ball": body, **robots}, colliders)
        q0, v0 = scene.neutral(), np.zeros(scene.tree.nv)
        q0[2], v0[:6] = 1.2 * RADIUS, [0.5, 0, -1.0, 3.0, 1.0, 8.0]
        sim = ds.Simulator(scene, q0=q0, v0=v0, dt=DT, tolerance=1e-10)
        for _ in range(round(0.1 / DT)):
            sim.step()
        ends.append(sim.v[:6])
    assert ends[0][5] < 7.9 and ends[1] == pytest.approx(ends[0], abs=1e-8)


@pytest.mark.parametrize("name", ["friction", "torsional", "rolling"])
def test_derivatives_of_corrections_by_lengths(name):
    """A ball at rest is pushed out of the plane, with a compliance over a mobility that the lengths are part of."""
    lengths, ends = {"friction": 0.7, "torsional": 0.05, "rolling": 0.03}, []
    for change in (-1e-6, 1e-6, 0.0):
        given = lengths | {name: lengths[name] + change}
        sim = ball_on_plane(np.zeros(6), height=RADIUS - 5e-4, **given)
        sim.step()
        ends.append(sim.q[2])
    wanted, found = (ends[1] - ends[0]) / 2e-6, sim.step_derivatives(parameters=[name]).with_parameters[name]
    assert abs(wanted) > 1e-8 and np.asarray(found)[2, 0] == pytest.approx(wanted, rel=1e-4)  # round-off: 1e-16 / 1e-6


def test_no_coulomb_friction_beside_lengths_counts_as_constant():
    body, given = ds.mechanisms.free_body(MASS, BALL.inertia(MASS), name="ball"), {"friction": 0.0, "torsional": 0.02}
    scene = Scene(body, [Collider(*x, **given) for x in (("ball", BALL), ("world", HalfSpace()))], friction_rule="max")
    sim = ds.Simulator(scene, q0=[0, 0, RADIUS, 0, 0, 0, 1], v0=[0.1, 0, 0, 0, 0, 5.0], dt=DT, tolerance=1e-10)
    sim.step()
    found = sim.step_derivatives(parameters=["friction", "torsional"]).with_parameters
    assert not np.asarray(found["friction"]).any()
    assert np.asarray(found["torsional"])[11] == pytest.approx([-0.5 * MASS * G * DT / INERTIA] * 2, rel=CLOSE)


def test_what_slides_in_a_curve_without_coulomb_friction_has_all_of_its_torque():
    """Its rows of tangents are left out, and so is what they turn by."""
    body = ds.mechanisms.free_body(MASS, BALL.inertia(MASS), name="ball")
    ball = Collider("ball", BALL, friction=0.0, torsional=0.02, rolling=0.01)
    scene = Scene(body, [ball, Collider("world", Sphere(0.2), friction=0.0)])
    sim = ds.Simulator(scene, q0=[0, 0, 0.3, 0, 0, 0, 1], v0=[0.8, 0, 0, 2.0, 1.0, 9.0], dt=2e-3, tolerance=1e-10)
    for _ in range(20):
        sim.step()
        held = np.linalg.norm(sim.angular_impulses[0] / [0.01, 0.01, 0.02])
        assert sim.impulses[0, 2] > 0.0 and held == pytest.approx(sim.impulses[0, 2], rel=1e-6)
        assert not sim.impulses[0, :2].any()


@pytest.mark.parametrize("part", [0.2, 0.9, 0.999, 1.001, 1.1, 1.6])
def test_smoothed_derivatives_of_a_ball_that_spins(part):
    """Of the spin after a step by that before it: the mean of 0, held, and 1, over changes of what friction stops.

    And the distance of the other mode is that of the spin from what friction just stops, times the length ``l / μ``.
    """
    torsional, smoothing = 0.02, 1e-3
    most = torsional * G * DT * MASS / INERTIA
    sim = ball_on_plane([0, 0, 0, 0, 0, part * most], torsional=torsional)
    sim.step()
    margin = torsional / MU * (part - 1.0) * most
    found, smoothed = sim.step_derivatives(), sim.step_derivatives(smoothing=smoothing)
    assert np.asarray(found.A)[11, 11] == pytest.approx(1.0 * (part > 1.0), abs=CLOSE)
    assert np.asarray(smoothed.A)[11, 11] == pytest.approx(np.clip(0.5 + 0.5 * margin / smoothing, 0.0, 1.0), abs=CLOSE)
    assert found.distance == pytest.approx(abs(margin), abs=CLOSE * torsional / MU * most)


@pytest.mark.slow
def test_bodies_that_bounce_off_one_another_in_scenes_and_kernels():
    """A ball and a box with patches, over a floor, until the box lands on more corners than kernels bounce at once."""
    sim, hits = pile(2, 2, 0.6, tolerance=1e-12), 0
    kernel = sim.scene.contact_step(tolerance=1e-12, sweeps=1000)
    none, rest = np.zeros(kernel.arguments[2].shape), np.zeros(sim.scene.tree.nv)
    for _ in range(150):
        end = kernel(sim.q, sim.v, none, rest, sim.dt)
        sim.step()
        hits += bool(((sim.contacts.links >= 0).all(axis=1) & (sim.impulses[:, 2] > 1e-3)).any())
        assert np.abs(np.r_[sim.q - end.q_next, sim.v - end.v_next]).max() < 1e-9
    assert hits > 0
