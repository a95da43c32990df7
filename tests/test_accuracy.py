"""How accurate solutions of dynamics are: estimates beside 50-digit numbers, and what follows from them.

Small compliances, rows that hardly meet a joint, links of very different mass, gimbals without mass in loops.
"""

from __future__ import annotations

import cProfile
from dataclasses import replace

import mpmath
import numpy as np
import pytest

import delassus as ds
from internals import DYNAMICS_ALGORITHMS, bound_request, solve_states
from tools import LongOps, by_method, exactly, make_motion, requested, run_program, traced, urdf_joint

pytestmark = pytest.mark.usefixtures("one_lane")

BELOW = 10.0
"""Estimates are not to be so many times too small."""

ABOVE = 20.0
"""Nor, in the median, so many times too large."""


def exact(tree, constraints, state, **options):
    """Accelerations and forces (n, …) of n states (q, v, tau), by the dense saddle point on 50 digits."""
    asked = requested(tree, constraints, "dynamics", method="kkt", **options)
    found = []
    with mpmath.workdps(50):
        for one in zip(*(np.asarray(x, dtype=float) for x in state), strict=True):
            values = dict(zip(("q", "v", "tau"), map(exactly, one), strict=True))
            solution = DYNAMICS_ALGORITHMS["kkt"](bound_request.BoundRequest(asked, LongOps(), values).motion())
            found.append([x[:, 0].astype(float) for x in (solution.qdd, solution.forces)])
    return [np.stack(x) for x in zip(*found, strict=True)]


def exact_outputs(tree, constraints, state, what):
    """Outputs (n, …) of a quantity at n states, on 50 digits."""
    asked, found = requested(tree, constraints, what), []
    with mpmath.workdps(50):
        for one in zip(*(np.asarray(x, dtype=float) for x in state), strict=True):
            own = bound_request.BoundRequest(
                asked, LongOps(), dict(zip(("q", "v", "tau"), map(exactly, one), strict=True))
            )
            found.append([x.astype(float) for x in asked.quantity.run(own)])
    return [np.stack(x) for x in zip(*found, strict=True)]


def true_error(got, expected):
    """Largest error of each result (n,), by its largest entry."""
    pairs = [[np.reshape(a, (len(a), -1)) for a in pair] for pair in zip(got, expected, strict=True)]
    return np.max([np.abs(x - y).max(axis=-1) / np.abs(y).max(axis=-1) for x, y in pairs if y.size], axis=0)


def states(tree, n, seed=0):
    rng = np.random.default_rng(seed)
    return tree.random(rng, batch=n), rng.normal(size=(n, tree.nv)), rng.normal(size=(n, tree.nv))


def check_solution(tree, constraints, state, method, **options):
    """A direct call: what is called solved is within the bound, and no estimate is far too small."""
    found = ds.forward_dynamics(tree, *state, constraints, method=method, **options)
    forces = np.concatenate(found.forces, axis=-1) if found.forces else np.zeros((len(found.qdd), 0))
    error = true_error((found.qdd, forces), exact(tree, constraints, state, **options))
    assert np.all(error <= BELOW * found.error_estimate), (error, found.error_estimate)
    assert np.all((error <= 1e-6) | (found.status == ds.DynamicsStatus.INACCURATE))
    return error, found


MOST_CALLS = 1_700
"""Calls of Python functions a link of a direct call: they take 0.6 µs each, a link one millisecond at most."""

UNITS = ("ltl", "pv-early", "proximal")

TWICE = [ds.Point("link7"), ds.Point("link7", axes="world")]


@pytest.mark.turns(3)
@pytest.mark.slow
@pytest.mark.parametrize("compliance", [1e-13, 1e-12, 1e-9, 1e-6, 1e-3, 10.0])
@pytest.mark.parametrize("method", ["ltl", "pv-early", "proximal", "pv-soft", "ltl-soft"])
def test_compliances_of_any_size(method, compliance):
    """Rows that depend on one another but for their compliance, and a weld that does not."""
    arm = ds.mechanisms.chain(7)
    for constraints in (TWICE, [ds.Weld("link7")]):
        check_solution(arm, constraints, states(arm, 2), method, compliance=compliance)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_compliances_that_come_with_calls(dtype):
    """What machine code calls solved is within the bound, from compliances of hard rows to very soft ones."""
    arm, bound = ds.mechanisms.chain(7), {"float64": 1e-6, "float32": 1e-2}[dtype]
    kernel = ds.compile(arm, TWICE, "dynamics", compliance="input", dtype=dtype)
    q, v, tau = (x.astype(dtype).astype(float) for x in states(arm, 3))
    for compliance in (1e-13, 1e-10, 1e-6, 1e-2, 10.0):
        R = float(np.dtype(dtype).type(compliance))
        expected = exact(arm, TWICE, (q, v, tau), compliance=R)
        qdd, forces, status, estimate = kernel(
            *(x.astype(dtype) for x in (q, v, tau, np.full(3, R), np.full(3, R))), return_status=True, return_error=True
        )
        error = true_error((qdd, forces), expected)
        assert np.all(error <= np.maximum(BELOW * estimate, np.finfo(dtype).eps)), (compliance, error, estimate)
        assert np.all((error <= bound) | (status == ds.DynamicsStatus.INACCURATE)), (compliance, error)


def load(tmp_path, links, joints, centre="0.1 0.02 0.03"):
    """Robot of links (name, mass in kg, moment of inertia in kg m²) and of joints as URDF text."""
    text = "".join(
        f'<link name="{name}"><inertial><origin xyz="{centre}"/><mass value="{m}"/>'
        f'<inertia ixx="{j}" iyy="{j}" izz="{j}" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        for name, m, j in links
    )
    path = tmp_path / "robot.urdf"
    path.write_text(f'<robot name="r"><link name="world"/>{text}{joints}</robot>')
    return ds.load(path)


def hinge(name, parent, child, xyz, axis):
    return urdf_joint(name, parent, child, "continuous", f'<origin xyz="{xyz}"/><axis xyz="{axis}"/>')


@pytest.mark.parametrize("method", ["ltl", "pv-early", "pv"])
def test_a_row_that_hardly_meets_its_only_joint(method, tmp_path):
    """A point 1e-8 m beside a hinge that carries links of 1e-6 to 1e3 kg."""
    joints = hinge("a", "world", "base", "0 0 0", "0 0 1") + hinge("b", "base", "arm", "0.3 0.1 0", "0 0 1")
    joints += hinge("c", "arm", "hand", "0.3 0.1 0", "0 1 0")
    tree = load(tmp_path, [("base", 1e3, 1e3), ("arm", 1e-6, 1e-6), ("hand", 1.0, 1.0)], joints)
    side = ds.Rows(ds.Frame("base", (0.0, 1e-8, 0.0)), np.array([[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]]))
    check_solution(tree, [side], states(tree, 4), method)


def light_link_among_heavy_ones(tmp_path, kind, light):
    """A link between two of 1 kg, all on joints of one axis: without its own inertia its joint would move nothing."""
    axis, turned = '<axis xyz="0.3 -0.2 0.7"/>', "0.3 0.7 1.1"
    at = "0.2 -0.1 0.3" if kind == "prismatic" else "0 0 0"
    joints = hinge("a", "world", "first", "0.1 0.2 0", "1 2 3")
    joints += urdf_joint("b", "first", "light", kind, f'<origin xyz="0.1 -0.2 0.3" rpy="{turned}"/>{axis}')
    joints += urdf_joint("c", "light", "last", kind, f'<origin xyz="{at}"/>{axis}')
    return load(tmp_path, [("first", 1.0, 0.1), ("light", light, light), ("last", 1.0, 0.1)], joints)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["continuous", "prismatic"])
@pytest.mark.parametrize(("dtype", "bound"), [("float64", 1e-6), ("float32", 1e-2)])
def test_a_light_link_among_heavy_ones(kind, dtype, bound, tmp_path):
    """Methods that add inertias up lose it and say so, also where a trace knows all pivots; `auto` takes another."""
    lost, found = 0, set()
    for light in (1e-4, 1e-10, 1e-13, 1e-17):
        tree = light_link_among_heavy_ones(tmp_path, kind, light)
        (q, *_), rows = states(tree, 2), [ds.Weld("light")]
        q = q.astype(dtype)
        with mpmath.workdps(50):
            values = [{"q": exactly(x.astype(float))} for x in q]
            asked = requested(tree, rows, "delassus", method="dense")
            made = [asked.quantity.run(bound_request.BoundRequest(asked, LongOps(), x)) for x in values]
            true = [np.stack([G.astype(float) for (G,) in made])]
        for method in ds.OSIM_METHODS:
            G, *rcond = run_program(traced(tree, rows, "delassus", dtype, method=method), q)
            error = true_error([G], [true[0].reshape(len(q), -1)])
            is_flagged = ~(rcond[0][:, 0] >= np.finfo(dtype).eps / bound) if rcond else np.zeros(len(q), dtype=bool)
            assert np.all((error <= bound) | is_flagged), (light, method, error)
            lost += np.count_nonzero(is_flagged)
            found |= {method} if is_flagged.any() else set()
        if dtype == "float64":
            assert np.all(true_error([ds.delassus(tree, rows, q)], true) < bound), light
    assert found == {"dense", "ltl-osim"} and lost > len(q)


@pytest.mark.parametrize("kind", ["continuous", "prismatic"])
def test_kernels_of_light_links_are_as_direct_calls(kind, tmp_path):
    tree = light_link_among_heavy_ones(tmp_path, kind, 1e-17)
    q, *_ = states(tree, 2)
    kernel = ds.compile(tree, ds.Weld("light"), "delassus")
    np.testing.assert_allclose(kernel(q), ds.delassus(tree, ds.Weld("light"), q), rtol=1e-9)


@pytest.mark.parametrize("kind", ["continuous", "prismatic"])
def test_light_links_change_no_rank(kind, tmp_path):
    """What rows depend on one another everywhere is told without a mass matrix, in which light links are lost."""
    for rows in (ds.Point("last"), ds.Weld("light"), ds.Rows("last", np.arange(1.0, 7.0)[None])):
        trees = [light_link_among_heavy_ones(tmp_path, kind, light) for light in (1e-1, 1e-17)]
        heavy, light = (requested(tree, rows, "dynamics").is_singular for tree in trees)
        assert light == heavy == (rows.size > 2), rows  # joints of one axis move nothing more


@pytest.fixture
def rod_on_gimbals(tmp_path):
    """Crank and rocker, a rod between them on gimbals of links without mass at either end: a loop of six rows.

    With its closed configurations (8, nq), by Newton's method from random ones near the one that the file has.
    """
    light, rng = 1e-9, np.random.default_rng(0)
    links = [("crank", 1.0, 1e-2), ("rod", 0.5, 1e-3), ("rocker", 1.0, 1e-2)]
    links += [(name, light, light) for name in ("one", "two", "three", "four", "five")]
    joints = hinge("motor", "world", "crank", "0 0 0", "0 1 0") + hinge("free", "world", "rocker", "0.5 0 0", "0 1 0.1")
    joints += hinge("x", "crank", "one", "0 0 0.3", "1 0 0") + hinge("y", "one", "two", "0 0 0", "0 1 0")
    joints += hinge("z", "two", "rod", "0 0 0", "0 0 1")
    joints += hinge("u", "rocker", "three", "0 0 0.3", "1 0 0") + hinge("v", "three", "four", "0 0 0", "0 1 0")
    joints += hinge("w", "four", "five", "0 0 0", "0 0 1")
    tree, ends = load(tmp_path, links, joints), (ds.Frame("rod", (0.5, 0.0, 0.0)), ds.Frame("five"))
    loop, q = [ds.Weld(*ends)], rng.normal(0.0, 0.3, (8, tree.nq))

    def poses(q):
        return np.moveaxis(ds.forward_kinematics(tree, q, ends), -3, 0)

    for _ in range(30):
        (p, A), (r, B) = ((pose[..., :3, 3], pose[..., :3, :3]) for pose in poses(q))
        e = [np.einsum("kji,kj->ki", A, x) for x in (p - r, 0.5 * np.cross(B, A, axis=-2).sum(-1))]
        e = np.concatenate(e, axis=-1)
        q = q - np.einsum("kij,kj->ki", np.linalg.pinv(ds.jacobian(tree, loop, q)), e)
    assert np.abs(e).max() < 1e-12
    return tree, loop, q


def test_loops_on_gimbals_stay_in_compiled_code(rod_on_gimbals):
    """Pivots are tiny there and nothing is lost: no state is solved again, and none is called inaccurate.

    They are as small at most closed states, which tells that without judging solutions by what they miss.
    """
    tree, loop, q = rod_on_gimbals
    rng, n = np.random.default_rng(1), len(q)
    v, tau = rng.normal(size=(n, tree.nv)), np.where(np.arange(tree.nv) == tree.v_index("motor"), 1.0, np.zeros((n, 1)))
    kernel = ds.compile(tree, loop, "dynamics")
    *found, status, estimate = kernel(q, v, tau, return_status=True, return_error=True)
    assert not kernel.error_dtype and not solve_states(kernel, (q, v, tau), found, (n,), 1).again.any()
    assert np.all(status == ds.DynamicsStatus.SOLVED)
    error = true_error(found, exact(tree, loop, (q, v, tau)))
    assert np.all(error < 1e-9) and np.all(error <= BELOW * estimate) and np.all(estimate < 1e-6)


def test_derivatives_of_loops_on_gimbals(rod_on_gimbals):
    """They are judged as solutions are: pivots say nothing of them, and estimates are those of the worst column."""
    tree, loop, q = rod_on_gimbals
    rng, n = np.random.default_rng(1), len(q)
    v, tau = rng.normal(size=(n, tree.nv)), rng.normal(size=(n, tree.nv))
    expected = exact_outputs(tree, loop, (q[:2], v[:2], tau[:2]), "dynamics_derivatives")
    names = [f"d{x}_d{y}" for x in ("qdd", "f") for y in ("q", "v", "tau")]
    found = ds.dynamics_derivatives(tree, q, v, tau, loop)
    assert np.all(found.status == ds.DynamicsStatus.SOLVED)
    error = true_error([getattr(found, name)[:2] for name in names], expected[2:])
    assert np.all(error < 1e-7) and np.all(error <= BELOW * found.error_estimate[:2])
    assert requested(tree, loop, "dynamics_derivatives").solves, "kernels judge alike where pivots are no guide"


SCALES = [{name: 10.0**k} for name in ("mass", "length", "row", "first row") for k in (6, -6)]
SCALES += [{"mass": x, "length": x, "time": 1.0 / x, "row": x} for x in (1e-6, np.pi)]


@pytest.mark.turns(3)
@pytest.mark.slow
@pytest.mark.parametrize("scales", SCALES, ids=str)
def test_estimates_do_not_depend_on_units(scales, tmp_path):
    """Masses, lengths, times, rows and one of them by 10^±6: errors are the same parts of the same motion."""
    mass, length, time, row, first = (scales.get(x, 1.0) for x in ("mass", "length", "time", "row", "first row"))
    rng = np.random.default_rng(0)
    K, q, v, qdd = (rng.normal(size=shape) for shape in ((2, 6), (20, 5), (20, 5), (20, 5)))
    v[15:], qdd[15:] = 0.0, 0.0  # in balance: results are round-off of what makes them
    results, estimates = [], []
    for m, s, t, r in ((1.0, 1.0, 1.0, [[1.0], [1.0]]), (mass, length, time, [[row * first], [row]])):
        joints = hinge("j1", "world", "link1", "0 0 0", "0 0 1")
        for k in range(2, 6):
            axis = f"{0.1 * k} {k % 2} {1 - k % 2}"
            joints += hinge(f"j{k}", f"link{k - 1}", f"link{k}", f"{0.3 * s} {0.05 * s * k} 0", axis)
        links = [(f"link{k}", m * k, 1e-2 * m * s * s) for k in range(1, 6)]
        tree = load(tmp_path, links, joints, f"{0.1 * s} {0.02 * s} 0")
        own = r * K * np.repeat([1.0, s], 3)
        constraint = ds.Rows(ds.Frame("link5", (0.1 * s, 0.2 * s, -0.1 * s)), own)
        gravity = 0.0, 0.0, -9.81 * s / t**2
        tau = ds.inverse_dynamics(tree, q, v / t, qdd / t**2, gravity=gravity)
        given = tree, q, v / t, tau, constraint
        results.append([ds.forward_dynamics(*given, method=name, gravity=gravity) for name in UNITS])
        motion, _ = make_motion(*given[:4], [constraint], gravity=gravity)
        fixed = by_method(motion, "proximal").qdd[..., 0]  # as in kernels, without watching convergence
        off, size = (np.abs(x).max(axis=-1)[:15] for x in (fixed - results[-1][0].qdd, fixed))
        assert np.all(off < 1e-9 * size)
        ltl = DYNAMICS_ALGORITHMS["ltl"]
        motion.asked = replace(motion.asked, error_dtype="float64")
        (estimate,) = motion.made(lambda bound, problem, ltl=ltl: [bound.error_of(problem, ltl(problem), ltl)], "ltl")
        estimates.append(np.maximum(estimate[..., 0, 0], 1e-16))
    assert np.all(np.abs(np.log10(estimates[0] / estimates[1])) < 1.5)
    for name, one, other in zip(UNITS, *results, strict=True):
        assert np.all(np.abs(np.log10(one.error_estimate / other.error_estimate)) < 1.5), name
        assert one.status.tolist() == other.status.tolist(), name
        assert not np.any(one.status == ds.DynamicsStatus.UNFINISHED), name
    assert np.array_equal(*(found[-1].iterations[:15] for found in results))


@pytest.mark.parametrize("s", [1e6, 1e-6])
def test_ranks_do_not_depend_on_units(s, tmp_path):
    """A row 1e-5 of the link's size beside the only hinge hardly moves, in any unit of length."""
    tree = load(tmp_path, [("arm", 1.0, 1e-2 * s * s)], hinge("a", "world", "arm", "0 0 0", "0 0 1"), f"{0.1 * s} 0 0")
    side = ds.Rows(ds.Frame("arm", (0.0, 1e-6 * s, 0.0)), np.array([[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]]))
    found = ds.forward_dynamics(tree, [0.3], [0.0], [1.0], side)
    assert found.rank == 1 and found.status == ds.DynamicsStatus.SOLVED


def test_direct_calls_of_long_chains():
    """Estimates do not grow with the chain, so that nothing is solved again; a link takes as many calls in each."""
    calls = []
    for n in (30, 150):
        chain, profile = ds.mechanisms.chain(n), cProfile.Profile()
        given = chain, chain.random(0), np.ones(n), np.ones(n)
        found = ds.forward_dynamics(*given, method="aba")  # what is decided once for a robot is known from here on
        assert found.error_estimate < 1e-12
        if n == 30:
            (expected,) = exact(chain, (), [x[None] for x in given[1:]])[:1]
            assert true_error([found.qdd[None]], [expected]) <= BELOW * found.error_estimate
        profile.runcall(ds.forward_dynamics, *given, method="aba")
        calls.append(sum(entry.callcount for entry in profile.getstats()) / n)
    assert calls[1] < 1.05 * calls[0] and calls[1] < MOST_CALLS
