"""The auditor of contact steps: what is right passes, every planted fault is found, MuJoCo's softness is explained."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
from delassus.contact import (
    ConeProblem,
    ContactSet,
    ContactStep,
    Scene,
    SolverStatus,
    Sphere,
    State,
    Verdict,
    admm,
    audit,
    collide,
    convex,
    formulate,
    frames_of,
    nsgs,
)
from delassus.errors import ConfigurationError
from delassus_studies.bench.contact.problems import turned_momentum
from tools import turning_of_ball

MATERIAL = 1e-3
"""Size (m/s, N s) from which a planted fault counts: a thousand times the tolerance."""


def solved(rng, mu=None, tolerance=1e-9, solver=nsgs, **changes):
    """A random step and its solution; None where the solver fails."""
    nv, n = int(rng.integers(3, 13)), int(rng.integers(1, 5))
    A, dt = rng.normal(size=(nv, nv)), 10.0 ** rng.uniform(-3, -1)
    step = ContactStep(
        10.0 ** rng.uniform(-1, 1) * (A @ A.T / nv + 0.3 * np.eye(nv)), rng.normal(size=(3 * n, nv)),
        rng.normal(size=nv), np.zeros(nv), np.zeros((n, 3)), rng.uniform(0.1, 1.0, n),
        rng.choice([-5e-5, 0.0, 0.3 * dt], n), dt, rng.normal(size=nv) * 10.0,
    )  # fmt: skip
    return resolved(replace(step, **changes), step.friction if mu is None else mu, tolerance, solver)


def free(step):
    """Velocities without impulses."""
    return step.v_before + step.dt * np.linalg.solve(step.M, step.force)


def moved(step, impulses):
    """The step with these impulses and the velocities that they make."""
    v = free(step) + np.linalg.solve(step.M, step.J.T @ np.ravel(impulses))
    return replace(step, impulses=impulses, v_after=v)


def resolved(step, mu, tolerance=1e-9, solver=nsgs, keep=None):
    """The step solved with other friction, or with some contacts only; None where the solver fails."""
    keep = np.ones(len(step.gaps), bool) if keep is None else keep
    rows = np.repeat(keep, 3)
    W = step.J @ np.linalg.solve(step.M, step.J.T)
    b = step.J @ free(step) + step.velocity_offset.ravel()
    found = solver(ConeProblem(W[np.ix_(rows, rows)], b[rows], np.array(mu)[keep]), tolerance=tolerance)
    if found.status is not SolverStatus.CONVERGED:
        return None
    impulses = np.zeros((len(keep), 3))
    impulses[keep] = found.values
    return moved(step, impulses)


class Modes:
    """What contacts of a right step do: masks, each only where it is material."""

    def __init__(self, step):
        self.u = (step.J @ step.v_after).reshape(-1, 3) + step.velocity_offset
        self.p, self.speed = step.impulses, np.hypot(self.u[:, 0], self.u[:, 1])
        self.closed, self.open = self.p[:, 2] > 10 * MATERIAL, self.u[:, 2] > 10 * MATERIAL
        self.slides = self.closed & (self.speed > 10 * MATERIAL)
        self.rubs = np.hypot(*self.p[:, :2].T) > 10 * MATERIAL


def put(array, index, value):
    out = np.array(array)
    out[index] = value
    return out


def turned(p, angle):
    """Friction turned in the tangent plane."""
    c, s = np.cos(angle), np.sin(angle)
    return np.column_stack([c * p[:, 0] - s * p[:, 1], s * p[:, 0] + c * p[:, 1], p[:, 2]])


FAULTS = {}
"""Name → a function of a right step, its modes and a generator, to a wrong step or None; and the check that sees it."""


def fault(check):
    def register(function):
        FAULTS[function.__name__] = function, check
        return function

    return register


# results that do not belong together: velocities stay as they were


@fault("momentum")
def sign_of_friction(s, m, rng):
    return replace(s, impulses=s.impulses * [-1, -1, 1]) if m.rubs.any() else None


@fault("momentum")
def tangents_swapped(s, m, rng):
    p = s.impulses[:, [1, 0, 2]]
    return replace(s, impulses=p) if np.abs(p - s.impulses).max() > 10 * MATERIAL else None


@fault("momentum")
def impulse_dropped(s, m, rng):
    return replace(s, impulses=put(s.impulses, np.argmax(m.closed), 0.0)) if m.closed.any() else None


@fault("momentum")
def impulses_scaled(s, m, rng):
    return replace(s, impulses=1.01 * s.impulses) if np.abs(m.p).max() > 100 * MATERIAL else None


@fault("momentum")
def forces_for_impulses(s, m, rng):
    return replace(s, impulses=s.impulses / s.dt) if m.closed.any() else None


@fault("momentum")
def impulses_of_other_contacts(s, m, rng):
    p = np.roll(s.impulses, 1, axis=0)
    return replace(s, impulses=p) if np.abs(p - s.impulses).max() > 10 * MATERIAL else None


@fault("momentum")
def on_the_other_body(s, m, rng):
    return replace(s, J=-s.J, v_after=s.v_after) if m.closed.any() else None


@fault("momentum")
def contact_missing_in_list(s, m, rng):
    if not m.closed.any() or len(s.gaps) == 1:
        return None
    keep = np.arange(len(s.gaps)) != np.argmax(m.closed)
    left = {k: getattr(s, k)[keep] for k in ("impulses", "friction", "gaps", "friction_offset", "velocity_offset")}
    return replace(s, J=s.J[np.repeat(keep, 3)], names=(), **left)


@fault("momentum")
def time_step_doubled(s, m, rng):
    return replace(s, dt=2.0 * s.dt) if s.dt * np.abs(s.force).max() > 10 * MATERIAL else None


@fault("momentum")
def gravity_omitted(s, m, rng):
    return replace(s, force=0.0 * s.force) if s.dt * np.abs(s.force).max() > 10 * MATERIAL else None


@fault("momentum")
def gravity_upside_down(s, m, rng):
    return replace(s, force=-s.force) if s.dt * np.abs(s.force).max() > 10 * MATERIAL else None


@fault("momentum")
def mass_wrong(s, m, rng):
    return replace(s, M=1.01 * s.M) if np.abs(s.v_after - s.v_before).max() > 100 * MATERIAL else None


@fault("momentum")
def inertia_of_one_joint_wrong(s, m, rng):
    i = np.argmax(np.abs(s.v_after - s.v_before))
    big = np.abs(s.v_after - s.v_before)[i] > 100 * MATERIAL
    return replace(s, M=put(s.M, (i, i), 1.05 * s.M[i, i])) if big else None


@fault("momentum")
def velocity_of_the_step_before(s, m, rng):
    late = s.v_before - np.linalg.solve(s.M, s.dt * s.force)
    return replace(s, v_before=late) if s.dt * np.abs(s.force).max() > 10 * MATERIAL else None


@fault("momentum")
def not_a_number(s, m, rng):
    return replace(s, v_after=put(s.v_after, 0, np.nan))


# results that belong together and break the law: velocities follow from the wrong impulses


@fault("dissipation")
def friction_drives(s, m, rng):
    p = put(s.impulses, np.s_[:, :2], np.where(m.slides, -1, 1)[:, None] * s.impulses[:, :2])
    out = moved(s, p)
    u = (out.J @ out.v_after).reshape(-1, 3)
    power = (out.impulses * u)[:, :2].sum(axis=1)  # who drives something the wrong way round may still brake it
    return out if m.slides.any() and power.max() > MATERIAL else None


@fault("law")
def friction_turned(s, m, rng):
    return moved(s, turned(s.impulses, 0.3 * m.slides)) if m.slides.any() else None


@fault("law")
def friction_too_small(s, m, rng):
    weak = put(s.impulses, np.s_[:, :2], np.where(m.slides, 0.8, 1.0)[:, None] * s.impulses[:, :2])
    return moved(s, weak) if (m.slides & m.rubs).any() else None


@fault("law")
def coefficient_too_large(s, m, rng):
    out = resolved(s, 1.5 * s.friction)
    return out if out is not None and (Modes(out).slides & Modes(out).rubs).any() else None


@fault("law")
def coefficient_too_small(s, m, rng):
    out = resolved(s, 0.7 * s.friction)
    return out if out is not None and (Modes(out).slides & Modes(out).rubs).any() else None


@fault("friction")
def no_friction(s, m, rng):
    out = resolved(s, 0.0 * s.friction)
    return out if out is not None and Modes(out).slides.any() else None


@fault("approach")
def contact_not_detected(s, m, rng):
    out = resolved(s, s.friction, keep=np.arange(len(s.gaps)) != np.argmax(m.closed))
    return out if out is not None and Modes(out).u[:, 2].min() < -10 * MATERIAL else None


@fault("law")
def impulses_too_small(s, m, rng):
    out = moved(s, 0.9 * s.impulses)
    u = Modes(out).u
    return out if m.closed.any() and u[:, 2].min() < -10 * MATERIAL else None


@fault("work of contacts")
def bounce_that_gains_energy(s, m, rng):
    out = moved(s, 2.5 * s.impulses)
    before, after = (0.5 * v @ s.M @ v for v in (free(s), out.v_after))
    return out if after - before > 10 * MATERIAL * (1 + np.abs(out.impulses).sum()) else None


@fault("adhesion")
def adhesion(s, m, rng):
    return moved(s, s.impulses - m.open[:, None] * [0.0, 0.0, 0.1]) if m.open.any() else None


@fault("complementarity")
def force_at_a_distance(s, m, rng):
    p = s.impulses + m.open[:, None] * [0.0, 0.0, 0.1]
    out = moved(s, p)
    return out if (m.open & (Modes(out).u[:, 2] > 10 * MATERIAL)).any() else None


@fault("complementarity")
def gap_closed_too_early(s, m, rng):
    touching = resolved(replace(s, velocity_offset=0.0 * s.velocity_offset), s.friction)
    if touching is None:
        return None
    out = replace(touching, velocity_offset=s.velocity_offset)
    return out if (Modes(out).closed & (s.gaps > 0) & (s.velocity_offset[:, 2] > 10 * MATERIAL)).any() else None


@fault("law")
def lifts_off_by_relaxed_cones(s, m, rng):
    pytest.importorskip("clarabel")
    out = resolved(s, s.friction, solver=convex)
    if out is None:
        return None
    modes = Modes(out)
    return out if (modes.slides & (s.friction * modes.speed > 10 * MATERIAL)).any() else None


@fault("overlap")
def overlap(s, m, rng):
    return replace(s, gaps=put(s.gaps, 0, -0.01))


def falling_box(tilt, v):
    """A box that touches the floor with corners, as a scene's problem needs it."""
    scene = Scene(ds.mechanisms.free_body(2.0, [0.01, 0.02, 0.03]))
    corners = [[x, y, 0.0] for x in (-0.1, 0.1) for y in (-0.1, 0.1)]
    floor = ContactSet([[0, -1]] * 4, corners, frames_of([[0, 0, 1.0]] * 4), friction=0.6, restitution=0.5)
    return scene, State([0, 0, 0.05, 0, 0, np.sin(tilt), np.cos(tilt)], v), floor


def any_step(rng):
    """A random step, or that of a box on four corners, whose impulses are redundant; None where the solver fails."""
    if rng.random() < 0.7:
        return solved(rng)
    scene, state, floor = falling_box(rng.uniform(0, 1), rng.normal(size=6))
    return audit(formulate(scene, state, "os", dt=1e-2, contacts=floor).solve("nsgs", tolerance=1e-9)).step


def planted(rng, name):
    """A right step and the same with a fault."""
    for _ in range(200):
        step = any_step(rng)
        if step is not None:
            wrong = FAULTS[name][0](step, Modes(step), rng)
            if wrong is not None:
                return step, wrong
    raise AssertionError(name)


def missed(rng, name):
    """Whether a planted fault is not found, or the step without it is called wrong."""
    step, wrong = planted(rng, name)
    found = audit(wrong)
    check = found.checks[FAULTS[name][1]]
    return audit(step).verdict != Verdict.RIGHT, found.verdict != Verdict.WRONG or check.worst[2] is not Verdict.WRONG


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name):
    rng = np.random.default_rng(sorted(FAULTS).index(name))
    assert [missed(rng, name) for _ in range(5)] == [(False, False)] * 5


@pytest.mark.parametrize("solver", [nsgs, admm])
def test_our_own_solutions_are_right(solver):
    """To the tolerance that solvers are asked for."""
    rng = np.random.default_rng(1)
    found = [audit(step) for _ in range(50) if (step := solved(rng, tolerance=1e-6, solver=solver)) is not None]
    assert len(found) > 45 and {x.verdict for x in found} == {Verdict.RIGHT}


@pytest.mark.slow
def test_no_part_of_the_law_fails_where_the_whole_holds():
    """Impulses off by so much that the law is violated by just the tolerance, in any direction."""
    rng, worst = np.random.default_rng(6), 0.0
    for _ in range(20):
        step = solved(rng)
        for _ in range(3):
            change = rng.normal(size=step.impulses.shape) * rng.choice([0.0, 1.0], size=step.impulses.shape)
            if not change.any():
                continue
            scale = 1e-3
            for _ in range(6):
                found = audit(moved(step, step.impulses + scale * change))
                scale *= min(1.0, 0.999 / max(found.checks["law"].worst[1], 1e-9))
            assert found.verdict == Verdict.RIGHT, str(found)
            parts = [c.worst[1] for name, c in found.checks.items() if name not in ("law", "overlap")]
            worst = max(worst, *parts)
    assert 0.2 < worst <= 1.0


def test_states_of_a_batch_are_judged_as_alone():
    rng = np.random.default_rng(2)
    shape, alone = None, []
    while len(alone) < 6:
        step = solved(rng)
        if step is not None and (shape is None or step.J.shape == shape):
            shape = step.J.shape
            alone.append(step if len(alone) % 2 else replace(step, impulses=1.1 * step.impulses + 0.1))
    names = ("M", "J", "v_before", "v_after", "impulses", "friction", "gaps", "force", "velocity_offset")
    both = {name: np.stack([getattr(step, name) for step in alone]).reshape(2, 3, *getattr(alone[0], name).shape)
            for name in names}  # fmt: skip
    found = audit(ContactStep(**both, dt=alone[0].dt))
    for place, step in zip(np.ndindex(2, 3), alone, strict=True):
        one = audit(replace(step, dt=alone[0].dt))
        assert found.verdict[place] is one.verdict
        for name, check in one.checks.items():
            np.testing.assert_array_equal(found.checks[name].size[place], check.size)
    assert set(found.verdict.flat) == {Verdict.WRONG}


@pytest.mark.slow
@pytest.mark.parametrize("formulation", ["os", "nmc"])
def test_solutions_of_scenes_are_right(formulation):
    rng = np.random.default_rng(3)
    for _ in range(10):
        scene, state, floor = falling_box(rng.uniform(0, 1), rng.normal(size=6))
        step = formulate(scene, state, formulation, dt=1e-3, contacts=floor)
        assert audit(step.solve("nsgs")).verdict == Verdict.RIGHT
        for phase in collide(formulate(scene, state, formulation, dt=0, contacts=floor), "nsgs"):
            assert audit(phase, tolerance=1e-5).verdict == Verdict.RIGHT


@pytest.mark.slow
def test_steps_of_kernels_are_right():
    """Of an arm two spheres of which are above, at or below the ground, as a batch."""
    robot, radius, rng = ds.mechanisms.chain(5), 0.05, np.random.default_rng(0)
    q, v = robot.random(1, batch=400), rng.normal(size=(400, robot.nv))
    frames = [ds.Frame(link, (0.1, 0.0, 0.05)) for link in ("link3", "link5")]
    height = ds.forward_kinematics(robot, q, frames)[:, :, 2, 3]
    gaps = height - np.median(height.min(axis=1))
    ground = ds.Frame("world", (0.0, 0.0, np.median(height.min(axis=1)) - radius))
    contacts = [ds.Contact(frame, Sphere(radius), ground, friction=0.5) for frame in frames]
    kernel = ds.compile(robot, contacts, "contact_step", tolerance=1e-8, sweeps=1000)
    _, after, impulses, residuals = kernel(q, v, np.zeros((400, 6)), np.zeros(robot.nv), 1e-3)
    twists = ds.jacobian(robot, [ds.Weld(frame, axes="world") for frame in frames], q).reshape(400, 2, 2, 3, robot.nv)
    down = -(radius + gaps / 2)[..., None]  # from centres to points half-way to the ground
    J = twists[:, :, 0]
    J[:, :, 0], J[:, :, 1] = J[:, :, 0] + down * twists[:, :, 1, 1], J[:, :, 1] - down * twists[:, :, 1, 0]
    poses, ahead = (ds.forward_kinematics(robot, x, frames) for x in (q, robot.integrate(q, 1e-3 * v)))
    u = np.einsum("kcij,kj->kci", J, v)
    states = zip(poses, ahead, gaps, u, strict=True)
    offset = np.array([[turning_of_ball(radius, 1e-3, *x) for x in zip(*own, strict=True)] for own in states])
    offset[..., 2] += np.maximum(gaps, 0.0) / 1e-3
    bias = ds.bias_force(robot, q, v)
    forces = turned_momentum(robot, q, v, 1e-3, bias) / 1e-3 - bias
    step = ContactStep(ds.mass_matrix(robot, q), J.reshape(400, 6, robot.nv), v, after, impulses.reshape(400, 2, 3),
                       [0.5, 0.5], gaps, 1e-3, forces, velocity_offset=offset)  # fmt: skip
    found = audit(step, penetration=1.0)
    assert residuals.max() < 1e-7 and (impulses != 0.0).any(axis=1).sum() > 50
    assert set(found.verdict) == {Verdict.RIGHT}, str(found)


def test_pyramids_are_seen_and_so_is_the_relaxation():
    scene, state, floor = falling_box(0.3, [2.0, 1.0, -1.0, 0.1, 0.2, 0.3])
    problem = formulate(scene, state, "os", dt=1e-3, contacts=floor)
    for solver in ("lemke", "convex"):
        found = audit(problem.solve(solver))
        assert found.verdict == Verdict.WRONG and found.checks["momentum"].worst[2] is Verdict.RIGHT
        assert found.checks["law"].worst[1] > 1e4


def test_the_table_says_where():
    rng = np.random.default_rng(4)
    step, wrong = planted(rng, "adhesion")
    found = audit(wrong)
    (line,) = [line for line in str(found).splitlines() if line.startswith("adhesion")]
    assert np.array_equal(found.checks["adhesion"].size, np.maximum(-wrong.impulses[..., 2], 0.0))
    assert "WRONG" in line and "N s" in line
    assert any(line.endswith(f"contact {i}") for i in np.flatnonzero(Modes(step).open))
    assert "WRONG" not in str(audit(step)) and len({len(x.text) > 20 for x in Verdict}) == 1


def test_steps_without_contacts_and_results_without_numbers():
    nothing = np.zeros((0, 3)), (), ()
    still = ContactStep(np.eye(3), nothing[0], np.zeros(3), np.zeros(3), *nothing, 0.1)
    assert audit(still).verdict is Verdict.RIGHT
    assert audit(replace(still, v_after=np.ones((1, 3)))).verdict.shape == (1,)  # a batch of one is a batch
    assert audit(replace(still, v_after=np.ones((5, 3)))).verdict.tolist() == [Verdict.WRONG] * 5
    lost = ContactStep(np.eye(3), np.eye(3), np.zeros(3), [np.inf, 0, 0], np.zeros((1, 3)), [0.5], [0.0], 0.1)
    found = audit(lost)
    assert found.verdict == Verdict.WRONG and found.checks["law"].worst[1] == np.inf


def test_what_is_no_step_is_refused():
    step = solved(np.random.default_rng(5))
    nv = len(step.M)
    for change, part in [
        ({"M": np.triu(step.M + 1)}, "M"), ({"M": -step.M}, "positive definite"),
        ({"M": np.full((nv, nv), np.nan)}, "M"), ({"dt": 0.0}, "dt"),
        ({"friction": -step.friction}, "friction"), ({"names": ["one"] * 7}, "a name a contact"),
        ({"v_after": np.zeros(nv + 1)}, "v_after"), ({"impulses": "none"}, "impulses"),
        ({"gaps": np.zeros((2, len(step.gaps))), "force": np.zeros((3, nv))}, "leading axes"),
    ]:  # fmt: skip
        with pytest.raises(ConfigurationError, match=part):
            replace(step, **change)
    for arguments in [(step, step), (3.0,), (None, None)]:
        with pytest.raises(ds.DelassusError, match="model"):
            audit(*arguments)
    with pytest.raises(ConfigurationError, match="tolerance"):
        audit(step, tolerance=0.0)


# -- MuJoCo --------------------------------------------------------------------------------------------------------

SCENE = """<mujoco><option timestep="0.002" cone="{cone}" integrator="{integrator}" jacobian="dense" {more}/>
<worldbody><geom name="floor" type="plane" size="5 5 .1" friction="0.6 0.005 0.0001"/>
<body pos="0 0 .1"><freejoint/><geom name="low" type="box" size=".1 .1 .1"/></body>
<body pos="0.03 0.02 .301" euler="3 5 10"><freejoint/><geom name="high" type="box" size=".1 .1 .1"/></body>
<body pos="0.5 0 .1"><freejoint/><geom name="ball" size=".1" condim="{condim}"/></body>
<body pos="-.8 0 .5"><joint name="hip" axis="0 1 0" damping="0.5" frictionloss="0.3" range="-60 60"/>
<geom type="capsule" fromto="0 0 0 .3 0 0" size=".03"/>
<body pos=".3 0 0"><joint axis="0 1 0" range="-30 30"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".03"/></body>
</body></worldbody></mujoco>"""


def mujoco_audits(steps=150, cone="elliptic", integrator="Euler", condim=3, more="", **options):
    """Audits of a run of MuJoCo, and whether they leave its data alone."""
    mujoco = pytest.importorskip("mujoco")
    text = SCENE.format(cone=cone, integrator=integrator, condim=condim, more=more)
    model = mujoco.MjModel.from_xml_string(text)
    model.jnt_limited[-2:] = 1
    data = mujoco.MjData(model)
    data.qvel[[0, 1, 12, 16]] = 1.0, 0.5, 1.0, 3.0
    found = []
    for _ in range(steps):
        before = data.qpos.copy(), data.qvel.copy(), data.time
        found.append(audit(model, data, **options))
        for x, y in zip(before, (data.qpos, data.qvel, data.time), strict=True):
            np.testing.assert_array_equal(x, y)
        mujoco.mj_step(model, data)
        np.testing.assert_array_equal(found[-1].step.v_after, data.qvel)
    return found


@pytest.mark.peer
@pytest.mark.parametrize(
    ("integrator", "cone", "condim"),
    [
        ("Euler", "elliptic", 3), ("implicit", "elliptic", 3), ("implicitfast", "elliptic", 3),
        ("implicit", "elliptic", 6), ("implicitfast", "pyramidal", 3), ("Euler", "pyramidal", 4),
    ],
)  # fmt: skip
def test_softness_explains_what_mujoco_does(cone, condim, integrator):
    """All of it where its solver ends: violations of the law are at most the parts that are named."""
    found = mujoco_audits(cone=cone, condim=condim, integrator=integrator, more='tolerance="1e-14"')
    assert {x.verdict for x in found} <= {Verdict.RIGHT, Verdict.SOFT, Verdict.UNSOLVED}
    assert [x.verdict for x in found].count(Verdict.UNSOLVED) < 10
    law = np.concatenate([x.checks["law"].size for x in found])
    parts = np.concatenate([sum(x.softness.parts.values()) + x.softness.residual[: len(x.step.names)] for x in found])
    assert law.max() > 0.05
    if cone == "elliptic":
        assert np.all(law <= parts + 1e-12)
    assert any("floor – ball" in name for x in found for name in x.step.names)
    assert (condim > 3) == any(x.step.angular_impulses.any() for x in found)


@pytest.mark.peer
def test_a_solver_that_stops_early_is_told_from_softness():
    found = mujoco_audits(more='iterations="1" solver="CG"')
    assert [x.verdict for x in found].count(Verdict.UNSOLVED) > 50
    assert not any(x.verdict == Verdict.WRONG for x in found)
    assert max(x.checks["own equations"].worst[0] for x in found) > 1e-4


SPECIAL = {
    "moving surface": ('surfacevel="0.7 0.2 0 0 0 0.3"', ""),
    "margin and gap": ('margin="0.03" gap="0.02"', ""),
    "adhesion": ('adhesion="20" gap="0.01"', ""),
    "friction by direction": (
        "",
        '<contact><pair geom1="floor" geom2="box" friction="0.9 0.3 0.01 0.1 0.1"/></contact>',
    ),
    "without friction": ('condim="1"', ""),
}


@pytest.mark.peer
@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
@pytest.mark.parametrize("name", SPECIAL)
def test_contacts_of_special_kinds_are_explained(name, cone):
    mujoco = pytest.importorskip("mujoco", minversion="3.11")
    geom, pair = SPECIAL[name]
    option, one = f'<option cone="{cone}" tolerance="1e-14" iterations="200"/>', geom * ("condim" in geom)
    model = mujoco.MjModel.from_xml_string(f"""<mujoco>{option}<worldbody>
    <geom name="floor" type="plane" size="5 5 .1" {geom}/>
    <body pos="0 0 .11"><freejoint/><geom name="box" type="box" size=".1 .1 .1" {one}/></body></worldbody>
    {pair}</mujoco>""")
    data = mujoco.MjData(model)
    data.qvel[:2] = 1.0, 0.7
    touched = 0
    for _ in range(60):
        found = audit(model, data)
        mujoco.mj_step(model, data)
        assert found.verdict in (Verdict.RIGHT, Verdict.SOFT), str(found)
        law = found.checks["law"].size
        assert (
            np.all(law <= sum(found.softness.parts.values()) + found.softness.residual + 1e-12) or cone == "pyramidal"
        )
        touched += found.step.impulses.any()
    assert touched > 10


@pytest.mark.peer
@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_what_sticks_moves_as_its_softness_has_it(cone):
    """Along the normal and across it: a box that lands and comes to rest, with other friction in either direction."""
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(f"""<mujoco><option cone="{cone}" tolerance="1e-14" iterations="200"/>
    <worldbody><geom name="floor" type="plane" size="5 5 .1"/>
    <body pos="0 0 .1001"><freejoint/><geom name="box" type="box" size=".1 .1 .1"/></body></worldbody>
    <contact><pair geom1="floor" geom2="box" friction="0.9 0.6 0.01 0.1 0.1"/></contact></mujoco>""")
    data, compared = mujoco.MjData(model), 0
    data.qvel[:3] = 0.02, 0.01, -0.1
    for _ in range(60):
        found = audit(model, data)
        mujoco.mj_step(model, data)
        step, p = found.step, found.step.impulses
        u = step.along(step.v_after) + step.velocity_offset
        sticks = np.abs(p[:, :2]).sum(axis=1) < 0.5 * step.friction * p[:, 2]
        for name, speed in (("soft normals", np.abs(u[:, 2])), ("soft friction", np.hypot(u[:, 0], u[:, 1]))):
            off = np.abs(found.softness.parts[name] - speed)
            assert np.all(off[sticks] < 1e-9), name  # what its solver leaves: 1e-17 here
        compared += sticks.sum()
    assert compared > 100


@pytest.mark.peer
@pytest.mark.slow
def test_the_command_line_audits_a_file(tmp_path):
    pytest.importorskip("mujoco")
    pytest.importorskip("matplotlib")
    scene = tmp_path / "scene.xml"
    scene.write_text(SCENE.format(cone="elliptic", integrator="Euler", condim=3, more=""))

    def run(*arguments):
        command = [sys.executable, "-m", "delassus", "audit", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
        return done.returncode, done.stdout + done.stderr

    options = [
        "--seconds",
        0.1,
        "--plot",
        tmp_path / "figures",
        "--json",
        tmp_path / "a.json",
        "--csv",
        tmp_path / "a.csv",
    ]
    status, out = run(scene, *options)
    assert status == 0 and all(name in out for name in ("momentum", "N s", "low – high", "soft friction", "SOFT"))
    told = json.loads((tmp_path / "a.json").read_text())
    assert len(told["time"]) == len(told["verdicts"]) == len(told["checks"]["law"]) == 50
    assert "complementarity" in (tmp_path / "a.csv").read_text()
    assert (tmp_path / "figures" / "audit.png").stat().st_size > 10_000
    scene.write_text(scene.read_text().replace("Euler", "RK4"))
    status, out = run(scene)
    assert status == 2 and "Euler" in out.replace("euler", "Euler")
    scene.write_text("<mujoco><nonsense/></mujoco>")
    status, out = run(scene)
    assert status == 2 and "nonsense" in out


@pytest.mark.peer
def test_steps_of_several_sets_of_forces_are_refused():
    with pytest.raises(ConfigurationError, match="integrator"):
        mujoco_audits(integrator="RK4")
    mujoco = pytest.importorskip("mujoco")
    with pytest.raises(ConfigurationError, match="data"):
        audit(mujoco.MjModel.from_xml_string("<mujoco/>"), 3.0)
    with pytest.raises(ds.DelassusError, match="model"):
        audit(3.0, 3.0)


def main(steps):
    """Every fault that a random step can have, planted in so many steps, and solutions at the tolerance of audits."""
    rng, found, missed, alarms, loose = np.random.default_rng(7), 0, Counter(), 0, 0
    for number in range(steps):
        if (step := any_step(rng)) is None:
            continue
        alarms += audit(step).verdict != Verdict.RIGHT
        for name, (plant, check) in FAULTS.items():
            if (wrong := plant(step, Modes(step), rng)) is not None:
                seen = audit(wrong).checks[check].worst[2] is Verdict.WRONG
                found, missed[name] = found + seen, missed[name] + (not seen)
        for solver in (nsgs, admm):
            if (solution := resolved(step, step.friction, 1e-6, solver)) is not None:
                loose, alarms = loose + 1, alarms + (audit(solution).verdict != Verdict.RIGHT)
        if (number + 1) % 500 == 0 or number + 1 == steps:
            told = f"{number + 1} steps, {loose} solutions at the tolerance, {alarms} false alarms"
            print(f"{told}; {found} faults found, {missed.total()} missed {dict(+missed)}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
