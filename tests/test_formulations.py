"""The five formulations of [OS]: one motion, the sizes of table 1, residuals that are those of physics, refusals."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import delassus as ds
from delassus.contact import (
    ConeProblem,
    ContactDynamics,
    ContactSet,
    Scene,
    SolverStatus,
    State,
    collide,
    formulate,
    frames_of,
    lemke,
    solve_mixed,
)
from delassus.errors import ConfigurationError, ModelError, UnknownNameError
from internals import FORMULATIONS, pendulum
from internals import SOLVED as SOLVED_STATUSES
from random_trees import INNER, TURNS_OR_SLIDES, some_constraints, some_mechanism, some_rotors
from tools import error, projected, random_rotation

NAMES = tuple(FORMULATIONS)

SAME_MOTION = 1e-8
"""Velocities of two formulations, relative: the tolerance that solvers are held to."""

BALANCE = 1e-10
"""Momentum, relative to the largest momentum exchanged."""

TIGHT = 1e-8
"""Tolerance of solvers (m/s), a hundredth of the default."""

SOLVED = 2e-8
"""Velocities that should vanish (m/s): twice the tolerance of solvers."""


def some_contacts(rng, n_links, n, most=1.2, lengths=False):
    """Contacts at random places, between two links or a link and the world, in rotated frames, with friction."""
    radii = rng.uniform(0, 0.1, (2, n)) * (rng.random((2, n)) < 0.6) if lengths else np.zeros((2, n))
    links = rng.integers(-1, n_links, size=(n, 2))
    same = links[:, 0] == links[:, 1]
    links[same] = [0, -1]
    frames = np.array([random_rotation(rng) for _ in range(n)]).reshape(-1, 3, 3)
    friction = rng.uniform(0, most, n) * (rng.random(n) < 0.8)
    places, given = rng.normal(size=(n, 3)), {"friction": friction, "restitution": rng.uniform(0, 1, n)}
    return ContactSet(links, places, frames, **given, torsional=radii[0], rolling=radii[1])


def some_state(rng, tree):
    return State(tree.random(rng), rng.normal(size=tree.nv), rng.normal(size=tree.nv))


def two_robots():
    robots = {
        "a": ds.mechanisms.star(2, 2),
        "b": ds.mechanisms.chain(4),
        "c": ds.mechanisms.free_body(2.0, [0.1, 0.2, 0.25]),
    }
    return Scene(robots, loops=[ds.Point("a/branch1_2", "b/link3"), ds.Hinge("b/link4", "c/body")])


def redundant():
    """A loop that is closed twice, and a point that it holds already."""
    weld = ds.Weld("branch1_6", "branch2_6")
    return Scene(ds.mechanisms.star(2, 6, root="fixed"), loops=[weld, weld, ds.Point("branch1_6", "branch2_6")])


def of_rotors():
    """Armature on every joint, along axes that turn and along axes that do not."""
    rng = np.random.default_rng(1)
    cases = [(root, straight) for root in INNER for straight in (False, True)]
    robots = {f"r{k}": some_rotors(rng, *case) for k, case in enumerate(cases)}
    return Scene(robots, loops=ds.Point("r0/b", "r3/c"))


def of_random_parts(seed):
    mechanism = some_mechanism(seed, 3 + seed % 6, "floating" if seed % 2 else "fixed")
    constraints, rows = some_constraints(mechanism, 1, 2) if seed % 3 else ([], [])
    return Scene(mechanism.tree, loops=() if rows else constraints)


MADE = {
    "pendulum": lambda: Scene(ds.mechanisms.pendulum(6)),
    "humanoid": lambda: Scene(ds.mechanisms.humanoid(), loops=ds.Weld("left_hand", "right_hand")),
    "chain": lambda: Scene(ds.mechanisms.chain(6, root="floating")),
    "star": lambda: Scene(ds.mechanisms.star(3, 2), loops=ds.Weld("branch1_2", "branch2_2")),
    "several robots": two_robots,
    "redundant loops": redundant,
    "rotors": of_rotors,
    **{f"random {seed}": (lambda seed=seed: of_random_parts(seed)) for seed in (1, 2, 5, 7, 10, 115)},
}


@cache
def made(name):
    scene = MADE[name]()
    return scene, ContactDynamics(scene)


def solved(scene, dynamics, state, contacts, **options):
    """Solutions by every formulation that does not refuse the scene; only links without inertia are refused."""
    out = {}
    for name in NAMES:
        try:
            problem = formulate(scene, state, name, dt=1e-2, contacts=contacts, dynamics=dynamics)
        except ModelError as refused:
            assert name == "nmc-os" and "inertia" in str(refused)
            continue
        out[name] = problem.solve(**{"tolerance": TIGHT, **options})
    return out


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_all_give_the_same_velocities(name):
    """Of 1 to 8 contacts, with torsional and rolling friction, too: forces may differ where contacts are redundant."""
    scene, dynamics = made(name)
    rng = np.random.default_rng(len(name))
    for lengths in (False, False, True):
        state = some_state(rng, scene.tree)
        contacts = some_contacts(rng, scene.tree.n_links, int(rng.integers(1, 9)), lengths=lengths)
        found = solved(scene, dynamics, state, contacts)
        expected = found["os"].velocity
        scale = max(1.0, np.abs(expected).max())
        for formulation, solution in found.items():
            assert solution.status is SolverStatus.CONVERGED, formulation
            assert np.abs(solution.velocity - expected).max() < SAME_MOTION * scale, formulation
            problem = solution.problem
            all_impulses = np.concatenate([solution.impulses, solution.spins]).ravel()
            own = problem.model.recover(solution.free, all_impulses, problem.motion, problem.dt)[0]
            assert np.abs(own - expected).max() < SAME_MOTION * scale, formulation  # by its unknowns
            check_physics(solution)


def check_physics(solution):
    """Residuals that every solution has to pass."""
    problem = solution.problem
    change = problem.motion.mass_matrix @ (solution.velocity - problem.motion.v)
    force = max(1.0, np.abs(change).max(), np.abs(solution.impulses).max(initial=0.0))
    force = max(force, np.abs(solution.bilateral).max(initial=0.0))
    assert solution.momentum_residual() < BALANCE * force
    assert solution.bilateral_residual() < SOLVED
    assert solution.penetration_velocity() < SOLVED
    assert solution.cone_violation() < SOLVED * force
    assert solution.dissipation().min(initial=0.0) > -SOLVED * force
    assert solution.complementarity() < SOLVED * force


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pendulum", "several robots", "redundant loops"])
def test_smooth_step_is_that_of_forward_dynamics(name):
    """Without contacts, `v + dt q̈` of the library's constrained dynamics up to the velocity products of loops."""
    scene, dynamics = made(name)
    rng = np.random.default_rng(1)
    tree, dt = scene.tree, 1e-3
    state = State(tree.random(rng), np.zeros(tree.nv), rng.normal(size=tree.nv))
    method = "proximal" if scene.loops else "aba"
    expected = ds.forward_dynamics(tree, state.q, state.v, state.tau, scene.loops, method=method, gravity=scene.gravity)
    for formulation in NAMES:
        problem = formulate(scene, state, formulation, dt=dt, contacts=ContactSet.empty(), dynamics=dynamics)
        # the proximal method stops at a residual of 1e-10 or so of accelerations
        solution = problem.solve(tolerance=TIGHT)
        assert error(solution.velocity / dt, expected.qdd) < 1e-6, formulation
        if formulation in ("os", "mc", "rmc"):  # redundant loops: those of least norm, as everywhere
            assert error(solution.loops / dt, np.concatenate([*expected.forces, []])) < 1e-5, formulation


@pytest.mark.slow
@pytest.mark.parametrize("name", ["humanoid", "several robots", "random 7"])
def test_momentum_of_all_links_is_conserved(name):
    """Fully augmented coordinates and minimal ones see the same wrenches: `Jᵀ` of the one is the other."""
    scene, dynamics = made(name)
    rng = np.random.default_rng(2)
    state, contacts = some_state(rng, scene.tree), some_contacts(rng, scene.tree.n_links, 2)
    problem = {f: formulate(scene, state, f, dt=1e-2, contacts=contacts, dynamics=dynamics) for f in ("nmc", "mc")}
    a = {f: p.model.vector(p.motion, p.dt, np.ones(6))[0] for f, p in problem.items()}
    n_dofs, n_links = scene.tree.nv, scene.tree.n_links
    J = np.array([dynamics.at(state.q, unit, state.tau).twists for unit in np.eye(n_dofs)])
    J = J.reshape(n_dofs, 6 * n_links)
    assert error(J @ a["nmc"][: 6 * n_links], a["mc"][:n_dofs]) < 1e-11  # recursions over ten links and more
    M = problem["nmc"].model.A[: 6 * n_links, : 6 * n_links]
    assert error(J @ M @ J.T, problem["mc"].motion.mass_matrix) < 1e-11


@pytest.mark.parametrize("seed", range(4))
def test_hinges_hold_nothing_that_joints_move(seed):
    """Rows of hinges of links on their own, at the twists of each joint's motion: of screws as of hinges and slides."""
    tree = some_mechanism(seed, 6, ["fixed", "floating"][seed % 2], TURNS_OR_SLIDES).tree
    assert any(joint.pitch for joint in tree.joints)
    scene, state, n = Scene(tree), some_state(np.random.default_rng(seed), tree), 6 * tree.n_links
    dynamics, hinges = ContactDynamics(scene), sum(6 - joint.nv for joint in tree.joints)
    problem = formulate(scene, state, "nmc", dt=1e-2, contacts=ContactSet.empty(), dynamics=dynamics)
    G = problem.model.A[n : n + hinges, :n]
    moved = np.array([dynamics.at(state.q, unit, state.tau).twists.ravel() for unit in np.eye(tree.nv)])
    assert np.linalg.matrix_rank(G) == hinges and np.abs(G @ moved.T).max() < 1e-12 * np.abs(moved).max()


# -- sizes ---------------------------------------------------------------------------------------------------------


def sizes(scene, n_contacts, n_directions=4, dynamics=None):
    rng, dynamics = np.random.default_rng(0), dynamics or ContactDynamics(scene)
    state, contacts = some_state(rng, scene.tree), some_contacts(rng, scene.tree.n_links, n_contacts)
    return {
        f: formulate(scene, state, f, dt=1e-3, contacts=contacts, dynamics=dynamics, n_directions=n_directions)
        for f in NAMES
    }


@pytest.mark.slow
def test_sizes_of_table_1():
    """By kind, of eight links of one degree of freedom each; the table's own robot is among the claims below."""
    found = sizes(Scene(ds.mechanisms.chain(8)), 4)
    assert {f: p.size for f, p in found.items()} == {"nmc": 112, "mc": 32, "rmc": 24, "os": 24, "nmc-os": 24 + 40}
    assert found["nmc"].sizes == {"velocity": 48, "bilateral": 40, "cone": 20, "slack": 4}


@pytest.mark.parametrize("n", [3, 6])
def test_sizes_of_pendulums(n):
    """[OS] table 2."""
    found = {f: p.size for f, p in sizes(Scene(ds.mechanisms.pendulum(n)), 4).items()}
    assert (found["os"], found["nmc-os"], found["nmc"]) == (24, 24 + 5 * n, 24 + 11 * n)


@pytest.mark.slow
@pytest.mark.parametrize("n_directions", [2, 4, 6, 8])
def test_sizes_with_loops_and_joints_of_several_degrees_of_freedom(n_directions):
    scene, dynamics = made("humanoid")
    n, N, n_b, each = scene.tree.n_links, scene.tree.nv, 6, 3 * (n_directions + 2)
    found = {f: p.size for f, p in sizes(scene, 3, n_directions, dynamics).items()}
    hinges = sum(6 - joint.nv for joint in scene.tree.joints)
    assert found == {
        "nmc": 6 * n + hinges + n_b + each,
        "mc": N + n_b + each,
        "rmc": each,
        "os": n_b + each,
        "nmc-os": hinges + n_b + each,
    }


@pytest.mark.slow
def test_claims_of_sizes_and_growth():
    """What `delassus reproduce contact` says of table 1, on small mechanisms where it measures time."""
    from delassus_studies.claims import Setup
    from delassus_studies.claims import contact as claims

    assert claims.CLAIMS[0].check(Setup()).verdict == "holds"
    assert claims.exponent([3.0, 4.0, 8.0]) == pytest.approx(2.0)
    times = claims.assembly_times((3, 6), rounds=1)
    assert set(times) == set(NAMES) and all(len(values) == 2 and min(values) > 0 for values in times.values())


@pytest.mark.slow
def test_operations_of_assembly_are_polynomials():
    """Table 1 as published: a cube from its differences, and counts at a length that no difference was taken of."""
    from delassus_studies.claims import Setup
    from delassus_studies.claims import contact_assembly as claims

    cube = claims.differences([n**3 for n in range(claims.FIRST, claims.FIRST + 7)])
    assert len(cube) == 4 and claims.extrapolated(cube, 88) == 100**3 and claims.power(cube, 100) == pytest.approx(3.0)
    assert claims.differences([5, 5, 5]) == [5]
    assert claims.nmc(30) - claims.nmc(20) == 2 * (claims.nmc(20) - claims.nmc(15))  # a link costs what a link costs
    assert claims.rmc(30) == claims.extrapolated(claims.polynomial("RMC"), 30 - claims.FIRST)
    assert claims.of_link_and_node(claims.pv_osimr) == 0.0 < claims.of_link_and_node(claims.kjr)
    assert claims.growth(Setup(quick=True)).verdict == "holds"


def test_claims_of_steps():
    """Three ways to solve for hinges, from states of a short swing: the same velocities, every problem solved."""
    from delassus_studies.claims import contact as claims

    found = claims.swing(3, samples=3, duration=0.3)
    assert 0 < found.touching < found.steps == 300
    assert found.solved == found.tried > 0 and found.difference < SAME_MOTION
    for way in claims.WAYS:
        assert min(found.free[way, f] for f in claims.PAIR) > 0 and found.ratio(way) > 0
    assert claims.table_of_steps({3: found}, touching=True).row_count == 1


def test_work_of_pivoting():
    """Table 2 as published: OS needs its 24 unknowns, NMC/OS 5 n more, pivoted first, or twice as many."""
    from delassus_studies.claims import contact as claims
    from delassus_studies.claims.contact_simulations import times_from_work

    found = claims.work(3, samples=3, duration=0.05)
    pivots = found.os / 24**2
    assert 3 * pivots == pytest.approx(round(3 * pivots)) and pivots > 0
    assert found.first == pytest.approx((15 + pivots) * 39**2) and found.split / 54**2 > pivots
    assert found.ratios()[1] > found.ratios()[0] > 1.0
    exact = {n: 2.0 * (slow - fast) for n, (fast, slow) in claims.PAPER.items()}
    scale, ratios = times_from_work(exact)
    assert scale == pytest.approx(0.5) and ratios == pytest.approx(claims.PAPER_RATIOS)


def test_one_contact_with_three_answers():
    """Painlevé's paradox, W_nn < μ |W_tn|: lift off, slide, stick. Where the normal yields more, there is one."""
    from delassus_studies.claims import contact as claims

    W, b = np.array([[4.0, 0.0, -0.8], [0.0, 0.0, 0.0], [-0.8, 0.0, 0.2]]), np.array([-2.8, 0.0, 0.2])
    for mu, answers in ((0.5, 3), (0.1, 1)):
        problem = ConeProblem(W, b, [mu]).polyhedral(4)
        found = claims.all_solutions(problem.M, problem.q)
        assert len({round(float(z[0]), 9) for z in found}) == answers
        assert all(problem.residual(z) < TIGHT for z in found)


def test_claims_of_simulations():
    """Both formulations go the same way over a strike on the floor, and the claim is judged by ratios."""
    from delassus_studies.claims import contact_simulations as claims

    ready = pendulum(3)
    short = claims.race(ready, 1e-3, 0.25, rounds=1)
    assert short.steps == 250 and short.unsolved == 0 and short.difference < 100 * SAME_MOTION
    steep = {n: short._replace(seconds={"os": 1.0, "nmc-os": ratio}) for n, ratio in ((3, 3.6), (30, 55.0))}
    flat = {n: short._replace(seconds={"os": 1.0, "nmc-os": 4.0}) for n in (3, 30)}
    assert claims.judge(steep).verdict == "holds"
    assert claims.judge(flat).verdict == "in part"


def test_claims_of_the_swing():
    """Fig. 6 on a short swing: recordings by both formulations are the same, and unsolved problems are said."""
    from delassus_studies.claims import contact_simulations as claims

    pair = tuple(claims.recorded(f, 1e-3, links=3, duration=0.2) for f in ("os", "nmc-os"))
    assert len(pair[0]) == 201 and claims.unsolved(pair[1]) == 0
    most, _ = claims.largest_difference(*pair)
    assert most.max() < SAME_MOTION
    assert claims.judge_agreement({1e-3: pair}).verdict == "holds"
    other = claims.recorded("os", 5e-4, links=3, duration=0.2)
    assert len(other) == 201  # samples at the same times
    assert claims.judge_agreement({1e-3: (pair[0], other)}).verdict == "in part"


@pytest.mark.slow
def test_planar_mechanisms_are_solved_by_all():
    """Friction across a planar chain meets no mobility at all: what round-off leaves of it must not take part.

    By `nmc-os`, eliminating the hinges of a long chain leaves 1e-13 where nothing moves, which Lemke's method, scaled
    by diagonals, takes for real.
    """

    rng = np.random.default_rng(8)
    scene = pendulum(15).scene
    dynamics = ContactDynamics(scene)
    for _ in range(5):
        state = some_state(rng, scene.tree)
        contacts = ContactSet([[14, -1], [7, -1]], rng.normal(size=(2, 3)), frames_of([[0, 0, 1], [-1, 0, 0]]))
        expected = formulate(scene, state, "os", dt=1e-3, contacts=contacts, dynamics=dynamics).solve(tolerance=TIGHT)
        for name in NAMES:
            problem = formulate(scene, state, name, dt=1e-3, contacts=contacts, dynamics=dynamics)
            across = np.abs(contacts.frames[:, 1, :]).ravel() > 0.9  # components along y
            assert across.sum() == 2 and np.all(problem.cone().W[across] == 0.0)
            solution = problem.solve(tolerance=TIGHT)
            assert solution.status is SolverStatus.CONVERGED
            assert error(solution.velocity, expected.velocity) < SAME_MOTION


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["nsgs", "admm"])
def test_heavy_links_on_light_ones_in_a_loop_are_solved_by_all(solver):
    """Planar chains hinged to the world, of 10 g to 100 t: hinges bear what their matrices round to 1e-6 m/s.

    Rows of the loop across the plane are redundant with the hinges. All are judged by the same velocities.
    """
    for seed in (4, 6, 15, 18, 19):
        rng, chain = np.random.default_rng(seed), ds.mechanisms.pendulum(5)
        tree = replace(chain, inertias=chain.inertias * 10.0 ** rng.uniform(-2, 5, (5, 1, 1)))
        end = ds.Frame(tree.link_names[-1], [0, 0, -0.5])
        scene = Scene(tree, loops=ds.Hinge(end, axis=[0, 1, 0]))
        dynamics, rng = ContactDynamics(scene), np.random.default_rng(seed)
        for _ in range(2):
            state = some_state(rng, tree)
            contacts = some_contacts(rng, tree.n_links, int(rng.integers(1, 5)))
            found = solved(scene, dynamics, state, contacts, solver=solver)
            for formulation, solution in found.items():
                assert solution.status is SolverStatus.CONVERGED, (seed, formulation)
                assert np.abs(solution.velocity - found["os"].velocity).max() < TIGHT, (seed, formulation)  # worst 5e-9


@pytest.mark.slow
def test_contacts_at_what_loops_hold_have_no_mobility():
    """Where a point of a link is held to the world, about which it turns: rows of zeros, not what round-off leaves."""
    for seed in (1, 7):
        rng, tree = np.random.default_rng(seed), some_mechanism(seed, 6, "fixed").tree
        scene, link = Scene(tree, loops=ds.Point("world", tree.link_names[-1])), tree.n_links - 1
        state, dynamics = some_state(rng, tree), ContactDynamics(scene)
        held = ds.forward_kinematics(tree, state.q, tree.link_names[-1])[:3, 3]
        frames = frames_of([[0.6, 0.0, 0.8], [0.0, 0.6, 0.8]])
        contacts = ContactSet([[link, -1]] * 2, [held, held + rng.normal(size=3)], frames)
        for name in NAMES:
            with contextlib.suppress(ModelError):  # links without inertia
                problem = formulate(scene, state, name, dt=1e-3, contacts=contacts, dynamics=dynamics)
                W = problem.cone().W
                assert np.all(W[:3] == 0.0) and W[3:].any(), (seed, name)


# -- what can be taken away ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("formulation", NAMES)
def test_problems_can_be_taken_away(formulation):
    """The mixed problem, solved by others, has the solution of `solve`; rows vanish, blocks are where they are said."""
    scene, dynamics = made("humanoid")
    rng = np.random.default_rng(3)
    state, contacts = some_state(rng, scene.tree), some_contacts(rng, scene.tree.n_links, 3)
    problem = formulate(scene, state, formulation, dt=1e-2, contacts=contacts, dynamics=dynamics)
    assert problem.matrix.shape == (problem.size, problem.size) and problem.vector.shape == (problem.size,)
    blocks = problem.blocks
    assert list(blocks) == ["velocity", "bilateral", "cone", "slack"]
    assert blocks["slack"].stop == problem.size and blocks["cone"].start == problem.n_free
    solution, mixed = problem.solve(tolerance=TIGHT), solve_mixed(problem.mlcp())
    assert mixed.status is SolverStatus.CONVERGED
    x, z = np.split(mixed.values, [problem.n_free])
    impulses = problem.D @ z[: problem.sizes["cone"]]
    velocity, _ = problem.model.recover(x, impulses, problem.motion, problem.dt)
    assert error(velocity, solution.velocity) < SAME_MOTION
    assert error(x, solution.free) < 1e-6  # impulses of hinges: three contacts and one loop are independent
    if problem.n_free:
        with pytest.raises(ConfigurationError, match="free unknowns"):
            problem.lcp()
    else:
        assert lemke(problem.lcp()).status is SolverStatus.CONVERGED


@pytest.mark.slow
@pytest.mark.parametrize("name", ["star", "random 2", "several robots"])
def test_sparse_matrix_is_the_dense_one(name):
    pytest.importorskip("scipy")
    scene, dynamics = made(name)
    rng = np.random.default_rng(4)
    state, contacts = some_state(rng, scene.tree), some_contacts(rng, scene.tree.n_links, 3)
    for formulation in ("nmc", "mc"):
        problem = formulate(scene, state, formulation, dt=1e-2, contacts=contacts, dynamics=dynamics, n_directions=6)
        assert np.array_equal(problem.sparse.toarray() != 0, problem.matrix != 0)
        assert error(problem.sparse.toarray(), problem.matrix) < 1e-14


@pytest.mark.slow
def test_sparse_matrix_grows_with_links():
    pytest.importorskip("scipy")
    entries = [sizes(Scene(ds.mechanisms.pendulum(n)), 0)["nmc"].sparse.nnz for n in (3, 6, 12)]
    assert entries[2] - entries[1] == 2 * (entries[1] - entries[0])


@pytest.mark.parametrize("solver", ["pgs", "nsgs", "admm", "convex"])
def test_every_solver_takes_every_formulation(solver):
    """One contact, pressed, sliding over ground: solvers on cones agree with one another, those on pyramids as well."""
    scene, dynamics = made("chain")
    rng = np.random.default_rng(5)
    state = some_state(rng, scene.tree)
    contacts = ContactSet([[5, -1]], [[0.1, 0.2, 0.3]], frames_of([[0, 0, 1]]), friction=0.4)
    velocities = []
    for formulation in NAMES:
        problem = formulate(scene, state, formulation, dt=1e-2, contacts=contacts, dynamics=dynamics)
        solution = problem.solve(solver, tolerance=1e-5 if solver == "convex" else 1e-8)
        assert solution.status is SolverStatus.CONVERGED
        assert solution.momentum_residual() < BALANCE * 100
        velocities.append(solution.velocity)
        if solver == "pgs":
            assert error(solution.velocity, problem.solve("lemke", tolerance=TIGHT).velocity) < SAME_MOTION
    # convex: interior points of the relaxation are near its solution to 1e-6 or so
    assert max(error(v, velocities[0]) for v in velocities) < (1e-5 if solver == "convex" else 1e-6)


@pytest.mark.slow
def test_velocities_asked_for_are_reached():
    """Loops follow the velocities that they are given, contacts a moving surface."""
    scene, dynamics = made("humanoid")
    rng = np.random.default_rng(6)
    state, contacts = some_state(rng, scene.tree), some_contacts(rng, scene.tree.n_links, 2)
    wanted, belt = rng.normal(size=6), rng.normal(size=(2, 3))
    found = []
    for formulation in NAMES:
        problem = formulate(
            scene, state, formulation, dt=1e-2, contacts=contacts, dynamics=dynamics, loop_velocities=wanted,
            contact_velocities=belt,
        )  # fmt: skip
        solution = problem.solve(tolerance=TIGHT)
        reached = problem.model.rows.jacobian @ solution.velocity
        assert error(reached[:6], wanted) < SAME_MOTION
        assert error(reached[6:].reshape(2, 3) - belt, solution.contact_velocities) < SAME_MOTION
        check_physics(solution)
        found.append(solution.velocity)
    assert max(error(v, found[0]) for v in found) < SAME_MOTION


# -- impacts -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pendulum", "humanoid", "several robots", "redundant loops", "random 1"])
def test_impacts(name):
    """Same motion by all; compression takes energy, momentum is balanced, and contacts do not approach afterwards."""
    scene, dynamics = made(name)
    rng = np.random.default_rng(7)
    tree = scene.tree
    for _ in range(2):
        state = some_state(rng, tree)
        contacts = some_contacts(rng, tree.n_links, int(rng.integers(1, 6)))
        M = ds.compile(tree, (), "mass_matrix")(state.q)
        before, found = state.v @ M @ state.v / 2, []
        for formulation in NAMES:
            try:
                problem = formulate(scene, state, formulation, dt=0, contacts=contacts, dynamics=dynamics)
            except ModelError:
                assert formulation == "nmc-os"
                continue
            compression, whole = phases = collide(problem, tolerance=TIGHT)
            stopped = compression.velocity
            assert stopped @ M @ stopped / 2 <= before * (1 + 1e-9)
            for phase in phases:
                assert phase.momentum_residual() < BALANCE * max(1.0, np.abs(phase.impulses).max())
                assert phase.bilateral_residual() < SOLVED and phase.penetration_velocity() < SOLVED
            J = problem.model.rows.jacobian
            balance = M @ (whole.velocity - state.v) - J.T @ np.concatenate([whole.loops, whole.impulses.ravel()])
            assert np.abs(balance).max() < BALANCE * max(
                1.0, np.abs(whole.impulses).max(), np.abs(whole.loops).max(initial=0)
            )
            found.append(whole.velocity)
        assert max(error(v, found[0]) for v in found) < SAME_MOTION


@pytest.mark.parametrize("formulation", NAMES)
def test_rebound(formulation):
    """A ball of restitution ε leaves at ε times its velocity; without it, there is no second phase."""
    scene = Scene(ds.mechanisms.free_body(2.0, [0.1, 0.2, 0.25]))
    state = State([0, 0, 0.1, 0, 0, 0, 1], [0, 0, -3.0, 0, 0, 0])
    for e in (0.0, 0.6, 1.0):
        floor = ContactSet([[0, -1]], [[0, 0, 0]], frames_of([[0, 0, 1]]), restitution=e)
        outcome = collide(formulate(scene, state, formulation, dt=0, contacts=floor), tolerance=TIGHT)
        assert outcome[-1].velocity == pytest.approx([0, 0, 3 * e, 0, 0, 0], abs=1e-12)
        assert outcome[-1].impulses[0] == pytest.approx([0, 0, 6 * (1 + e)], abs=1e-12)
        assert len(outcome) == (1 if e == 0.0 else 2)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["nsgs", "admm", "lemke"])
def test_impacts_never_gain_energy(solver):
    """Random contacts of one body, whose restitution differs; friction is within its exact cones, also on pyramids."""
    rng, reduced = np.random.default_rng(1), 0
    bodies = [[0.01, 0.01, 0.01], [0.002, 0.3, 0.3], [0.1, 0.1, 0.19], [0.5, 0.4, 0.2]]
    scenes = [Scene(ds.mechanisms.free_body(1.0, moments), gravity=(0, 0, 0)) for moments in bodies]
    for i in range(500):
        k = int(rng.integers(1, 5))
        points, normals = rng.uniform(-0.5, 0.5, (k, 3)), 0.7 * rng.standard_normal((k, 3)) + [0, 0, 1]
        points[:, 2] = -0.5
        if i % 2:
            normals = np.tile([0.0, 0, 1], (k, 1))
        v = 3.0 * rng.standard_normal(6) - [0, 0, 2, 0, 0, 0]
        restitution = rng.integers(0, 2, k) if i % 3 else rng.random(k)
        frames = frames_of(normals / np.linalg.norm(normals, axis=1)[:, None])
        contacts = ContactSet([[0, -1]] * k, points, frames, restitution=restitution, friction=rng.uniform(0, 1.5, k))
        outcome = collide(
            formulate(scenes[i % 4], State([0, 0, 0, 0, 0, 0, 1], v), dt=0, contacts=contacts), solver, tolerance=TIGHT
        )
        energies = [0.5 * u * u @ [1, 1, 1, *bodies[i % 4]] for u in (v, *(phase.velocity for phase in outcome))]
        assert max(energies) <= energies[0] * (1 + 1e-12)
        assert outcome[-1].cone_violation() < 1e-11 and outcome[-1].penetration_velocity() < SOLVED
        reduced += outcome[-1].status is SolverStatus.RESTITUTION_REDUCED
        assert all(phase.status in SOLVED_STATUSES for phase in outcome)
    assert 1 <= reduced <= 5


@pytest.mark.parametrize("solver", ["nsgs", "admm"])
def test_an_oblique_bounce(solver):
    """A body that slips all through the impact: friction is ``μ (1 + ε) m |v_n|``, against the motion."""
    scene = Scene(ds.mechanisms.free_body(2.0, [0.2, 0.2, 0.2]), gravity=(0, 0, 0))
    floor = ContactSet([[0, -1]], [[0, 0, -0.5]], frames_of([[0, 0, 1]]), restitution=0.7, friction=0.2)
    state = State([0, 0, 0, 0, 0, 0, 1], [3.0, 2.0, -1.0, 0, 0, 0])
    outcome = collide(formulate(scene, state, dt=0, contacts=floor), solver, tolerance=TIGHT)
    along = np.array([3.0, 2.0, 0.0]) / np.hypot(3.0, 2.0)
    turned = np.cross([0, 0, -0.5], -0.68 * along) / 0.2
    np.testing.assert_allclose(outcome[-1].velocity, [*([3, 2, 0.7] - 0.34 * along), *turned], rtol=0, atol=1e-9)


# -- bad input -----------------------------------------------------------------------------------------------------


def flawed(**options):
    scene, dynamics = made("pendulum")
    contacts = ContactSet([[5, -1]], [[0, 0, 0]], frames_of([[0, 0, 1]]))
    given = {"dt": 1e-3, "contacts": contacts, "dynamics": dynamics, **options}
    state = given.pop("state", State(np.zeros(6), np.zeros(6)))
    return formulate(given.pop("scene", scene), state, given.pop("formulation", "os"), **given)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"formulation": "nmc_os"}, UnknownNameError, "Did you mean 'nmc-os'"),
        ({"formulation": "OS"}, UnknownNameError, "Did you mean 'os'"),
        ({"n_directions": 0}, ConfigurationError, "a whole number ≥ 2"),
        ({"n_directions": 5}, ConfigurationError, "even number"),
        ({"n_directions": 4.0}, ConfigurationError, "a whole number ≥ 2"),
        ({"dt": -1e-3}, ConfigurationError, "a number ≥ 0"),
        ({"dt": float("nan")}, ConfigurationError, "a number ≥ 0"),
        ({"dt": None}, ConfigurationError, "a number ≥ 0"),
        ({"state": (0, 0)}, ConfigurationError, "a State"),
        ({"state": State(np.zeros(5), np.zeros(6))}, ConfigurationError, "nq"),
        ({"state": State(np.zeros(6), np.zeros(7))}, ConfigurationError, "nv"),
        ({"scene": "pendulum"}, ConfigurationError, "Scene"),
        ({"contacts": [[0, -1]]}, ConfigurationError, "ContactSet"),
        (
            {"contacts": ContactSet([[6, -1]], [[0, 0, 0]], frames_of([[0, 0, 1]]))},
            ConfigurationError,
            "from −1 to 5",
        ),
        ({"dynamics": 3}, ConfigurationError, "of this scene"),
        ({"loop_velocities": [1.0]}, ConfigurationError, "loop_velocities"),
        ({"contact_velocities": [[0, 0, np.nan]]}, ConfigurationError, "contact_velocities"),
    ],
    ids=lambda x: next(iter(x)) if isinstance(x, dict) else "",
)
def test_what_makes_no_sense_is_refused(options, kind, message):
    with pytest.raises(kind, match=message):
        flawed(**options)


def test_states_are_checked():
    for bad in ([0, np.nan], [[0, 1]], "q", [1j, 0], 3.0):
        with pytest.raises(ConfigurationError):
            State(bad, [0, 0])
    with pytest.raises(ConfigurationError, match="index 1"):
        State([0, 0], [0, np.inf])
    state = State([0, 0], [1, 2])
    with pytest.raises(ValueError, match="read-only"):
        state.v[0] = 3.0


def test_wrong_uses_of_problems():
    problem = flawed()
    with pytest.raises(UnknownNameError, match="Did you mean 'lemke'"):
        problem.solve("lemk")
    with pytest.raises(ConfigurationError, match="dt=0"):
        collide(problem)
    with pytest.raises(ConfigurationError, match="tolerance"):
        problem.solve(tolerance=-1.0)


@pytest.mark.slow
def test_loops_that_contradict_one_another_are_reported():
    weld = ds.Weld("link5", ds.Frame("world", (0.5, 0, 0)))
    scene = Scene(ds.mechanisms.chain(5), loops=[weld, weld])
    rng = np.random.default_rng(8)
    state, contacts = some_state(rng, scene.tree), some_contacts(rng, 5, 1)
    velocities = np.zeros(12)
    velocities[0] = 1.0
    for formulation in NAMES:
        problem = formulate(scene, state, formulation, dt=1e-3, contacts=contacts, loop_velocities=velocities)
        assert problem.solve(tolerance=TIGHT).status is SolverStatus.CONFLICTING, formulation


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("n", [4, 5])
def test_what_is_solved_at_open_loops_obeys_the_laws(n):
    """Two arms welded at their ends, closed to 1e-6 to 1e-3; the rows of those of four links are all but dependent.

    Momentum, loops, and Coulomb's law at the velocities of the solution, from dense matrices.
    """
    arm, dt, counts = ds.mechanisms.chain(n), 4e-3, np.zeros(2, int)
    scene = Scene({"a": arm, "b": arm}, loops=[ds.Weld(f"a/link{n}", f"b/link{n}")])
    dynamics, rest = ContactDynamics(scene), np.zeros(scene.tree.nv)
    seeds = range(3, 6) if n == 5 else range(5, 6)  # those of four links take long
    for rng in [rng for rng in map(np.random.default_rng, seeds) for _ in range(8)]:
        q, v = scene.tree.random(rng), rng.normal(size=rest.size)
        for _ in range(50):  # Newton's method closes the loop
            snapshot = dynamics.at(q, rest, rest)
            J = snapshot.rows(ContactSet.empty()).jacobian
            dq = -np.linalg.lstsq(J, snapshot.loop_errors, rcond=1e-8)[0]
            q = scene.tree.integrate(q, dq * min(1.0, 0.3 / np.abs(dq).max()))
        q = scene.tree.integrate(q, 10.0 ** rng.uniform(-6, -3) * rng.uniform(-1, 1, rest.size))
        contacts = some_contacts(rng, scene.tree.n_links, 2)
        snapshot = dynamics.at(q, v, rest)
        J, M = snapshot.rows(contacts).jacobian, ds.mass_matrix(scene.tree, q)
        loops, W = J[:6], J[6:] @ np.linalg.solve(M, J[6:].T)
        for formulation in NAMES:
            problem = formulate(scene, State(q, v), formulation, dt=dt, contacts=contacts, dynamics=dynamics)
            solution = problem.solve("nsgs", tolerance=1e-8)
            solved = solution.status in SOLVED_STATUSES
            counts += [solved, not solved]
            if not solved:
                continue
            p, after = solution.impulses, solution.velocity
            left = M @ after - snapshot.momentum(dt) - J[6:].T @ p.ravel()
            forces = np.linalg.lstsq(loops.T, left, rcond=1e-13)[0]  # large where rows are nearly dependent
            left -= loops.T @ forces
            terms = np.abs(np.linalg.solve(M, loops.T)) @ np.abs(forces)  # which cancel up to their round-off
            allowed = 1e-8 + 20.0 * np.finfo(float).eps * terms.max()
            assert np.abs(np.linalg.solve(M, left)).max() < allowed, formulation
            assert np.abs(loops @ after).max() < 3e-8, formulation
            u, w = (J[6:] @ after).reshape(-1, 3), np.diag(W).reshape(-1, 3).mean(axis=1)
            for own, r, mu, omega in zip(u, p, contacts.friction, w, strict=True):
                y = omega * r - own - [0, 0, mu * np.hypot(*own[:2])]
                assert np.linalg.norm(omega * r - projected(*y, mu, 0.0)) < 3e-8, formulation
    assert counts[1] <= (27 if n == 4 else 16)  # of 40 and of 120; they are flagged
