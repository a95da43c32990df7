"""Rows between two links: any, and those of pairs, beside the joints that these are and by differences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import delassus as ds
from random_trees import SINGLE, RawJoint, RawLink, build_tree, joint_kinds, some_link, some_mechanism
from tools import SMALL_STEPS, error, random_frame, random_rotation, slope

pytestmark = pytest.mark.usefixtures("one_lane")

AGREEMENT = 1e-9
"""Accelerations by joints and by rows, relative: round-off of two mass matrices; 1e-12 seen."""

DIFFERENCE = 1e-8
"""Of differences of order four."""

TURN, SLIDE = joint_kinds.REVOLUTE, joint_kinds.PRISMATIC


def axes_of(rng):
    """Three unit vectors across one another; now and then those of coordinates."""
    return np.eye(3) if rng.random() < 0.2 else random_rotation(rng)


PAIRS = {
    "prismatic": (lambda n, p, r: [(SLIDE, n)], lambda a, b, n, p: ds.Prismatic(a, b, 3.0 * n)),
    "cylindrical": (lambda n, p, r: [(SLIDE, n), (TURN, n)], lambda a, b, n, p: ds.Cylindrical(a, b, 0.2 * n)),
    "planar": (lambda n, p, r: [(SLIDE, p), (SLIDE, r), (TURN, n)], lambda a, b, n, p: ds.Planar(a, b, 2.0 * n)),
    "universal": (lambda n, p, r: [(TURN, n), (TURN, p)], lambda a, b, n, p: ds.Universal(a, b, 2.0 * n, 0.1 * p)),
    "hinge": (lambda n, p, r: [(TURN, n)], lambda a, b, n, p: ds.Hinge(a, b, n)),
}
"""Joints, the first one on the first frame, and the constraint that they are, by axes across one another."""


@dataclass(frozen=True)
class Both:
    """Two links by joints, and by a constraint; what is applied to the first one, and states of both robots."""

    joined: ds.Tree
    apart: ds.Tree
    pair: object
    state: tuple
    free: tuple


def some_pair(name, seed, turned=False):
    """Both ways to have a pair; far from its zero, fast, its ends the other way round where it is ``turned``."""
    rng = np.random.default_rng(seed)
    joints, constraint = PAIRS[name]
    axes = axes_of(rng)
    links = [RawLink("world"), some_link(rng, "a"), some_link(rng, "b")]
    (p, R), (s, S) = ((rng.normal(size=3), random_rotation(rng)) for _ in "ab")  # of the pair on a, of b in its frame
    chain, parent, place = [RawJoint("root", joint_kinds.FREE, "world", "a")], "a", (p, R)
    for k, (kind, axis) in enumerate(joints(*axes)):
        chain.append(RawJoint(f"j{k}", kind, parent, f"m{k}", *place, axis))
        parent, place = f"m{k}", (np.zeros(3), np.eye(3))
    chain.append(RawJoint("fixed", None, parent, "b", s, S))
    between = [RawLink(f"m{k}") for k in range(len(chain) - 2)]
    joined = build_tree("joined", [*links, *between], chain)
    frees = [RawJoint(f"to_{x}", joint_kinds.FREE, "world", x) for x in "ab"]
    apart = build_tree("apart", links, frees)
    ends = ds.Frame("a", p, R), ds.Frame("b", -S.T @ s, S.T)
    if turned:  # across a universal joint, axes change their places
        pair = constraint(*ends[::-1], *(axes[[1, 0]] if name == "universal" else axes[:2]))
    else:
        pair = constraint(*ends, *axes[:2])
    q, v = joined.random(rng), 2.0 * rng.normal(size=joined.nv)
    q[7:] = rng.uniform(-3, 3, joined.nq - 7)
    tau = np.r_[rng.normal(size=6), np.zeros(joined.nv - 6)]
    return Both(joined, apart, pair, (q, v, tau), apart_of(joined, apart, q, v, tau))


def apart_of(joined, apart, q, v, tau):
    """The state of two free bodies that move as the joined ones do."""
    parts, twists = [], []
    for name in "ab":
        T = ds.forward_kinematics(joined, q, ds.Frame(name))
        like = apart.neutral()[:7]
        like[:3], like[3:] = T[:3, 3], Rotation.from_matrix(T[:3, :3]).as_quat()
        parts.append(like)
        twists.append(ds.frame_velocity(joined, q, v, frames=name, reference="local"))
    return np.concatenate(parts), np.concatenate(twists), np.r_[tau[:6], np.zeros(6)]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", PAIRS)
def test_pairs_are_the_joints_that_they_say(name, turned):
    """Accelerations of both links, at any displacement and velocity; where the constraint holds it has no error."""
    for seed in range(3):
        both = some_pair(name, seed, turned)
        expected = ds.forward_dynamics(both.joined, *both.state).qdd
        for method in ("kkt", "pv-early", "ltl"):
            found = ds.forward_dynamics(both.apart, *both.free, both.pair, method=method).qdd
            q, v, _ = both.state
            bodies = [ds.frame_acceleration(both.joined, q, v, expected, frames=x, reference="local") for x in "ab"]
            own = [ds.frame_acceleration(both.apart, *both.free[:2], found, frames=x, reference="local") for x in "ab"]
            assert error(np.concatenate(own), np.concatenate(bodies)) < AGREEMENT, method
        q, v, _ = both.free
        errors = ds.compile(both.apart, both.pair, "constraint_errors")
        assert max(np.abs(x).max() for x in errors(q, v)) < 1e-13
        u = np.random.default_rng(seed).normal(size=12)
        moved = both.apart.integrate(np.tile(q, (4, 1)), SMALL_STEPS * u)
        rate = slope(*errors(moved, np.zeros_like(SMALL_STEPS * u))[0])
        assert error(rate, ds.jacobian(both.apart, both.pair, q) @ u) < DIFFERENCE


def some_kinds(tree, rng, a, b):
    """A constraint of each kind between two frames, whether they are on the world or not; some that are no pairs."""
    n, p = rng.normal(size=(2, 3))
    K = rng.normal(size=(3, 6))
    made = [make(a, b, n, p) for _, make in PAIRS.values()]
    return [*made, ds.Rows(a, b, K), ds.Rows(a, b, K, axes="world")]


@pytest.mark.parametrize("ends", ["links", "to the world", "from the world", "given"])
def test_drifts_and_errors_by_differences(ends):
    """``J̇ v``, wherever the frames are; and errors of closed pairs change as ``J v``, far from zero and in all ways."""
    for seed in range(2):
        m = some_mechanism(seed, 6, ("floating", "fixed")[seed], SINGLE)
        tree, rng, names = m.tree, m.rng, m.tree.link_names
        a, b = random_frame(rng, names[-1]), random_frame(rng, names[1])
        pair = {"to the world": (a, random_frame(rng, "world")), "from the world": (random_frame(rng, "world"), b)}
        given = {}
        if ends == "given":
            a = ds.Frame(names[-1], rotation=random_rotation(rng), given="position")
            given = {"placements": [rng.normal(size=3)]}
        for kind in some_kinds(tree, rng, *pair.get(ends, (a, b))):
            q, v, u = tree.random(rng), *rng.normal(size=(2, tree.nv))
            drift = ds.jacobian_drift(tree, kind, q, v, **given)
            moved = tree.integrate(np.tile(q, (4, 1)), SMALL_STEPS * v)
            expected = slope(*ds.jacobian(tree, kind, moved, **given)) @ v
            assert np.abs(drift - expected).max() < DIFFERENCE * (1.0 + np.abs(expected).max()), kind
            if given or not kind.has_position_error:
                continue
            closed = ds.close_loops(tree, kind, q)
            if closed.status.item().name != "CLOSED":
                continue
            moved = tree.integrate(np.tile(closed.q, (4, 1)), SMALL_STEPS * u)
            errors = ds.compile(tree, kind, "constraint_errors", outputs="errors")(
                moved, np.zeros_like(SMALL_STEPS * u)
            )
            expected = ds.jacobian(tree, kind, closed.q) @ u
            assert np.abs(slope(*errors) - expected).max() < DIFFERENCE * (1.0 + np.abs(expected).max()), kind


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_move_as_joints_do(name):
    """Rollouts that keep loops closed, of a state that is far from zero: poses after 0.1 s."""
    both = some_pair(name, 5)
    joined = ds.rollout(ds.compile(both.joined, (), "step", integrator="rk4"), *rolled(both.state), 5e-4)
    apart = ds.rollout(ds.compile(both.apart, both.pair, "step", integrator="rk4"), *rolled(both.free), 5e-4)
    for x in "ab":
        pose, own = (ds.forward_kinematics(t, q[-1], x) for t, (q, _) in ((both.joined, joined), (both.apart, apart)))
        assert np.abs(pose - own).max() < 1e-7, x  # of fourth order: 2e-9


def rolled(state, n=200):
    q, v, tau = state
    return q, v, np.tile(0.0 * tau, (n, 1))


@pytest.mark.parametrize("name", PAIRS)
def test_scenes_hold_pairs_and_baumgarte_draws_them_back(name):
    """A simulator keeps them closed; of a pair that is open, accelerations close it."""
    both = some_pair(name, 6)
    q, v, _ = both.free
    errors = ds.compile(both.apart, both.pair, "constraint_errors", outputs="errors")
    sim = ds.Simulator(ds.Scene(both.apart, loops=[both.pair]), q0=q, v0=v, dt=1e-3)
    sim.run(0.1)
    assert np.abs(errors(sim.q, sim.v)).max() < 1e-10 and sim.statuses.total() == 0
    q = both.apart.integrate(q, 0.02 * np.random.default_rng(0).normal(size=12))
    start = np.abs(errors(q, 0 * v)).max()
    step = ds.compile(both.apart, both.pair, "step", baumgarte=20.0)
    qs, vs = ds.rollout(step, q, 0 * v, np.zeros((1000, 12)), 1e-3)
    assert start > 1e-3 and np.abs(errors(qs[-1], vs[-1])).max() < 1e-4 * start


def test_rows_between_links_are_those_of_welds_and_come_with_calls():
    """``Rows(a, b, 1)`` is a weld; the same rows given with the call; one link as before."""
    rng = np.random.default_rng(3)
    tree, K = ds.mechanisms.star(2, 3), rng.normal(size=(2, 6))
    a, b = random_frame(rng, "branch1_3"), random_frame(rng, "branch2_2")
    q, v, tau = tree.random(rng), *rng.normal(size=(2, tree.nv))
    for axes in ("local", "world"):
        rows, weld = ds.Rows(a, b, np.eye(6), axes=axes), ds.Weld(a, b, axes=axes)
        assert np.array_equal(ds.jacobian(tree, rows, q), ds.jacobian(tree, weld, q))
        assert np.array_equal(ds.jacobian_drift(tree, rows, q, v), ds.jacobian_drift(tree, weld, q, v))
    given = ds.forward_dynamics(tree, q, v, tau, ds.Rows(a, b, 2), rows=[K])
    assert error(given.qdd, ds.forward_dynamics(tree, q, v, tau, ds.Rows(a, b, K)).qdd) < AGREEMENT
    assert ds.Rows(a, K) == ds.Rows(first=a, K=K) == ds.Rows(a, None, K) != ds.Rows(a, b, K)
    with pytest.raises(ds.DelassusError, match="K of Rows"):
        ds.Rows(a, b)


def test_errors_name_pairs():
    for kind in (ds.Prismatic, ds.Cylindrical, ds.Planar, ds.Universal):
        with pytest.raises(ds.DelassusError, match=r"axis of a .*: expected a vector that is not zero"):
            kind("a", "b", (0, 0, 0))
        with pytest.raises(ds.DelassusError, match=r"axis of a .*: expected"):
            kind("a", "b", (0, np.nan, 1))
        with pytest.raises(ds.DelassusError, match="one rigid body"):
            kind("link1", "link1").check(ds.mechanisms.chain(2))
    with pytest.raises(ds.DelassusError, match="second frame"):
        ds.Universal("a", None)
