"""`auto` needs no more operations than any named method, and says the same; so do the steps that it is made of."""

from __future__ import annotations

import itertools
import os
import pickle
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import delassus as ds
from delassus import mechanisms as robots
from delassus.algorithms.osim.cut import cut_osim
from delassus.quantities.planner.frame_placement import frame_placement
from delassus.quantities.planner.regrouped_inertias import MOST_CANCELLED, regrouped_inertias
from delassus_studies.cases import (
    G1_ENDS,
    GO1_FEET,
    TALOS_FEET,
    general_rows,
    points,
    quiet_load,
    sole_points,
    welds,
)
from internals import (
    CUT,
    DELASSUS,
    OSIM_ALGORITHMS,
    Problem,
    TraceOps,
    _plan,
    bind,
    example_robot_files,
    joint_kinds,
    plan,
)
from random_trees import some_constraints, some_mechanism
from tools import AGREEMENT, Motion, error, frame_pose

SAME_ROBOT = 1e-12
"""G of the same robot with its body frames or inertias elsewhere, relative to the largest entry, by the same method."""

COUNTED = 0.02
"""What the planner counts against the traced graph: they simplify a few products and signs in another order."""

ROBOTS = {"talos_reduced": TALOS_FEET, "go1": GO1_FEET, "g1_29dof_rev_1_0": G1_ENDS}
NAMED = tuple(m for m in ds.OSIM_METHODS if m not in ("auto", "dense", "cluster-efpa", "cluster-pv-osimr"))
mechanisms = st.builds(
    some_mechanism, st.integers(0, 2**32 - 1), st.integers(2, 9), st.sampled_from(["fixed", "floating"])
)


def tips(branches, length, sides=("near", "far")):
    """Tip links of a stem."""
    return [f"{side}{b + 1}_{length}" for side in sides for b in range(branches)]


def hands_and_feet(tree):
    """Frames of the hands and feet of the built-in robots."""
    if tree.name == "humanoid":
        return ["left_hand", "right_hand", "left_foot", "right_foot"]
    return ["hand1", "hand2", "foot1", "foot2"]


def rungs(n):
    """Every third rung of a ladder, welded."""
    return [ds.Weld(f"left{k}", f"right{k}") for k in range(1, n + 1, 3)]


CASES = {
    "chain 3": lambda: (robots.chain(3), welds("link3")),
    "chain 20": lambda: (robots.chain(20), welds("link20")),
    "chain 20, two points": lambda: (robots.chain(20), points("link10", "link20")),
    "chain 12, floating": lambda: (robots.chain(12, root="floating"), welds("link12")),
    "chain 6, nine rows": lambda: (robots.chain(6), general_rows(["link6"] * 3, 3)),
    "star 4x3": lambda: (robots.star(4, 3), points(*(f"branch{b + 1}_3" for b in range(4)))),
    "humanoid, feet": lambda: (robots.humanoid(), welds("left_foot", "right_foot")),
    "humanoid, soles": lambda: (robots.humanoid(), sole_points(["left_foot", "right_foot"])),
    "humanoid, hands and feet": lambda: (robots.humanoid(), welds(*hands_and_feet(robots.humanoid()))),
    "humanoid, rows": lambda: (robots.humanoid(), general_rows(hands_and_feet(robots.humanoid()), 4)),
    "humanoid, world axes": lambda: (robots.humanoid(), [ds.Weld("left_foot", axes="world"), ds.Point("right_hand")]),
    "humanoid, hands joined": lambda: (robots.humanoid(), [ds.Weld("left_hand", "right_hand"), *welds("left_foot")]),
    "asimo, hands and feet": lambda: (robots.asimo(), welds(*hands_and_feet(robots.asimo()))),
    "ladder 12, floating": lambda: (robots.ladder(12, root="floating"), rungs(12)),
} | {
    f"stem {n}, {b} branches of {length}": lambda n=n, b=b, length=length: (
        robots.stem(n, b, length), welds(*tips(b, length))
    )
    for n, b, length in [(10, 2, 7), (40, 2, 1), (10, 4, 3)]
}  # fmt: skip
for robot, ends in ROBOTS.items():
    CASES[robot] = lambda robot=robot, ends=ends: (installed(robot), (points if robot == "go1" else welds)(*ends))
CASES["talos_reduced, soles"] = lambda: (installed("talos_reduced"), sole_points(TALOS_FEET))

FEWER = [
    "humanoid, hands and feet", "asimo, hands and feet", "stem 10, 2 branches of 7", "stem 10, 4 branches of 3",
    "talos_reduced", "go1", "g1_29dof_rev_1_0", "humanoid, feet",
]  # fmt: skip
"""Where `auto` must need strictly fewer than every named method."""


@cache
def installed(robot):
    if robot not in example_robot_files():
        pytest.skip(f"{robot} is not installed")
    return quiet_load(robot)


@cache
def case(name):
    tree, constraints = CASES[name]()
    return tree, tuple(constraints)


@cache
def traced_counts(name):
    """Clean operations of `auto` and of the named methods that come near it."""
    tree, constraints = case(name)
    chosen = plan(tree, constraints)
    near = [m for m, n in chosen.named.items() if n < 1.1 * min(chosen.named.values())]
    return {m: ds.count_operations(tree, constraints, method=m).clean.total for m in ("auto", *near)}


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for k, name in enumerate(CASES) if k % 2 or name in FEWER])
def test_auto(name):
    """It needs no more operations than any named method, as many as the plan says, and gives the same matrix."""
    tree, constraints = case(name)
    chosen, counted = plan(tree, constraints), dict(traced_counts(name))
    assert abs(chosen.operations / counted["auto"] - 1) < COUNTED
    for method in counted.keys() & chosen.named.keys():
        assert abs(chosen.named[method] / counted[method] - 1) < COUNTED
    auto = counted.pop("auto")
    assert counted and auto <= min(counted.values())
    assert auto < min(counted.values()) or name not in FEWER
    q = tree.random(np.random.default_rng(3), 4)
    expected = ds.delassus(tree, constraints, q, method="dense")
    assert error(ds.delassus(tree, constraints, q, method="auto"), expected) < AGREEMENT


@pytest.mark.slow
@pytest.mark.parametrize("n, branches, length", [(20, 2, 7), (20, 4, 7)])
def test_long_stems_by_the_planners_count(n, branches, length):
    tree, constraints = robots.stem(n, branches, length), welds(*tips(branches, length))
    chosen = plan(tree, constraints)
    assert chosen.operations < min(chosen.named.values())
    assert chosen.method == CUT and chosen.cut


def atlas():
    """Atlas with its hands and feet welded, where a folder of robot files is named."""
    folder = os.environ.get("DELASSUS_ROBOTS")
    places = [Path(folder)] if folder else [p / "shared" / "robots" for p in Path(__file__).resolve().parents]
    for place in places:
        if (place / "atlas_v4.urdf").is_file():
            return quiet_load(place / "atlas_v4.urdf")
    pytest.skip("no atlas_v4.urdf here")


@pytest.mark.slow
@pytest.mark.parametrize("ends", [("l_hand", "r_hand"), ("l_hand", "r_hand", "l_foot", "r_foot")], ids=len)
def test_atlas(ends):
    tree, constraints = atlas(), welds(*ends)
    counted = {
        m: ds.count_operations(tree, constraints, method=m).clean.total for m in ("auto", "pv-osim", "pv-osimr", "efpa")
    }
    assert counted.pop("auto") < min(counted.values())
    q = tree.random(0, 3)
    expected = ds.delassus(tree, constraints, q, method="dense")
    assert error(ds.delassus(tree, constraints, q, method="auto"), expected) < AGREEMENT


@pytest.mark.slow
def test_targets_of_the_benchmark_robots():
    """Operations that the kernels were planned with."""
    for robot, most in (("talos_reduced", 6000), ("go1", 3000), ("g1_29dof_rev_1_0", 13_300)):
        assert traced_counts(robot)["auto"] <= most


# -- any mechanism ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(mechanisms)
def test_auto_on_random_mechanisms(mechanism):
    tree = mechanism.tree
    constraints, rows = some_constraints(mechanism)
    constraints = [c for c in constraints if c.second is None or _apart(tree, c)]
    rows = rows[: sum(c.rows is None for c in constraints)]
    q = tree.random(mechanism.rng, 2)
    expected = ds.delassus(tree, constraints, q, method="dense", rows=rows)
    assert error(ds.delassus(tree, constraints, q, method="auto", rows=rows), expected) < AGREEMENT
    chosen = plan(tree, constraints)
    cheaper = {name for name, n in chosen.named.items() if n < chosen.operations}
    assert cheaper <= {"dense", "ltl-osim"}  # which lose light links, and are not taken where these are
    assert str(chosen)


def _apart(tree, c):
    return c.first.on(tree).link != c.second.on(tree).link


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(mechanisms, st.integers(0, 2**32 - 1))
def test_any_cut_set_gives_the_same_matrix(mechanism, seed):
    """Any links at all: branching or not, between the two ends of a loop, with or without constraints above them."""
    tree, rng = mechanism.tree, np.random.default_rng(seed)
    constraints, rows = some_constraints(mechanism)
    q = tree.random(mechanism.rng, 2)
    expected = ds.delassus(tree, constraints, q, method="dense", rows=rows)
    for chance in (0.0, 0.3, 1.0):
        cut = {i for i in range(tree.n_links) if rng.random() < chance}
        at = bind(tree, constraints, DELASSUS, {"q": q}, rows=rows)
        motion = Motion(at.request, at.values, at.batch)
        (G,) = motion.made(lambda bound, _, cut=cut: [cut_osim(bound.problem(), cut)])
        assert error(np.tril(G), np.tril(expected)) < AGREEMENT


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(mechanisms)
def test_placed_frames_and_regrouped_inertias_are_the_same_robot(mechanism):
    tree = mechanism.tree
    constraints, rows = some_constraints(mechanism)
    q = tree.random(mechanism.rng, 2)
    placed = frame_placement(tree, [c.first.link for c in constraints])
    assert placed.link_names == tree.link_names and placed.joint_names == tree.joint_names
    for method in NAMED[tree.nv % 3 :: 3]:
        expected = ds.delassus(tree, constraints, q, method=method, rows=rows)
        tolerance = AGREEMENT if method == "ltl-osim" else 100 * SAME_ROBOT
        assert error(ds.delassus(placed, constraints, q, method=method, rows=rows), expected) < tolerance
    M = ds.mass_matrix(tree, q) if tree.nv else np.zeros((2, 0, 0))
    for other in (placed, regrouped_inertias(tree), regrouped_inertias(placed)):
        if tree.nv:
            assert error(ds.mass_matrix(other, q), M) < SAME_ROBOT
    twist_frames = [name for name in tree.frames if name != "world"]
    for name in twist_frames[:3]:
        for got, want in zip(frame_pose(placed, name, q), frame_pose(tree, name, q), strict=True):
            assert error(got, want) < SAME_ROBOT


@pytest.mark.turns(3)
@pytest.mark.parametrize("seed", range(16))
def test_shifted_bases_are_the_same_robot(seed):
    """For what links do to one another; where the base has inertia of its own, and other joints that are free."""
    m = some_mechanism(seed, 6, "floating", kinds=(joint_kinds.REVOLUTE, joint_kinds.PRISMATIC, joint_kinds.FREE))
    tree = m.tree
    if seed % 2:
        first = replace(tree.joints[0], armature=m.rng.uniform(0.5, 2.0, 6) * (m.rng.random(6) < 0.5))
        tree = replace(tree, joints=(first, *tree.joints[1:]))
    pair = m.rng.choice(tree.link_names, 2, replace=False)
    constraints = [ds.Weld(*map(str, pair)), ds.Point(tree.link_names[0], tree.link_names[-1])]
    placed = frame_placement(tree, tree.link_names, free_base=True)
    q = tree.random(m.rng, 2)
    expected = ds.delassus(tree, constraints, q, method="dense")
    assert error(ds.delassus(placed, constraints, q, method="dense"), expected) < 100 * SAME_ROBOT


# -- placing ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("robot", ROBOTS)
def test_placed_frames_need_fewer_operations(robot):
    tree = installed(robot)
    constraints = (points if robot == "go1" else welds)(*ROBOTS[robot])
    names = [c.first.link for c in constraints]
    steps = [tree, frame_placement(tree, names), frame_placement(tree, names, free_base=True)]
    steps.append(regrouped_inertias(steps[-1]))
    for method in ("pv-osim", "pv-osimr"):
        counted = [ds.count_operations(step, constraints, method=method).clean.total for step in steps]
        assert all(later < earlier for earlier, later in itertools.pairwise(counted)), counted


def test_placed_rotations_next_to_quarter_turns_are_exact():
    for robot in ROBOTS:
        for joint in frame_placement(installed(robot)).joints:
            near = np.abs(joint.rotation) < 1e-11
            assert np.all(joint.rotation[near] == 0.0)


def test_placed_frames_of_a_skewed_chain():
    """The form of Denavit and Hartenberg: one entry of each rotation and one of each translation vanish."""
    for seed in range(4):
        tree = frame_placement(some_mechanism(seed, 8, "fixed", kinds=(joint_kinds.REVOLUTE,)).tree)
        inner = [j for j, p, below in zip(tree.joints, tree.parents, tree.children, strict=True) if p >= 0 and below]
        for joint in inner:
            if len(tree.children[tree.parents[tree.joints.index(joint)]]) == 1:
                assert (joint.rotation == 0.0).any() and (joint.position == 0.0).any()


def test_regrouped_inertias_are_few():
    """A link on a revolute joint that gives away its mass keeps neither a moment along the axis nor one across it."""
    given = links = 0
    for seed in range(6):
        tree = regrouped_inertias(some_mechanism(seed, 8, "fixed", kinds=(joint_kinds.REVOLUTE,)).tree)
        for joint, H in zip(tree.joints, tree.inertias, strict=True):
            i, j, links = (joint.axis + 1) % 3, (joint.axis + 2) % 3, links + 1
            if H[0, 0] == 0.0:
                given += 1
                assert H[3 + i, 3 + i] == 0.0 and H[i, 3 + j] == 0.0 and H[j, 3 + i] == 0.0
    assert given > 0.8 * links


def test_links_that_are_light_about_their_joints_get_little():
    """Light links and heavy ones, several on some: what their own joints feel grows no further than is said."""
    shares = []
    for seed in range(100):
        tree = some_mechanism(seed, 9, "fixed", kinds=(joint_kinds.REVOLUTE, joint_kinds.PRISMATIC)).tree
        masses = 10.0 ** np.random.default_rng(seed).uniform(-1.5, 1.5, tree.n_links)
        tree = replace(tree, inertias=[m * H for m, H in zip(masses, tree.inertias, strict=True)])
        for joint, H, own in zip(tree.joints, regrouped_inertias(tree).inertias, tree.inertias, strict=True):
            (at,) = joint.motion_axes
            got, felt = (H - own)[at, at], own[at, at] + joint.armature[0]
            shares.append(got / felt if felt else 0.0 if got <= 0.0 else np.inf)
    assert 0.1 * MOST_CANCELLED < max(shares) <= MOST_CANCELLED


# -- plans -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_plan_says_what_was_chosen_and_why():
    tree, constraints = case("humanoid, hands and feet")
    chosen = plan(tree, constraints)
    assert chosen is plan(pickle.loads(pickle.dumps(tree)), constraints)
    assert f"{chosen.operations:,} operations" in str(chosen) and "pv-osim " in str(chosen)
    assert set(NAMED) <= set(chosen.named)
    assert all(link in tree.link_names for link in chosen.cut) and chosen.root in tree.link_names


@pytest.mark.slow
def test_a_search_ends_where_its_effort_is_spent(monkeypatch):
    """What it has by then is still no worse than any named method."""
    tree, constraints = robots.stem(4, 4, 1), tuple(welds(*tips(4, 1)))
    whole = plan(tree, constraints)
    effort = plan.__globals__["EFFORT"]
    monkeypatch.setitem(plan.__globals__, "EFFORT", 1)
    _plan.cache_clear()
    short = plan(tree, constraints)
    assert short.considered < 0.7 * whole.considered
    assert whole.operations <= short.operations <= min(short.named.values())
    monkeypatch.setitem(plan.__globals__, "ALL_CUTS_UP_TO", 0)
    monkeypatch.setitem(plan.__globals__, "EFFORT", effort)
    _plan.cache_clear()
    stepwise = plan(tree, constraints)  # cut sets are changed by one link at a time
    assert whole.operations <= stepwise.operations <= min(stepwise.named.values())
    assert stepwise.considered > 2


def test_the_base_stays_where_the_world_matters():
    robot = robots.humanoid()
    for c in (ds.Weld("left_foot", axes="world"), ds.Point("world", "left_foot"), ds.Weld("world", "left_foot")):
        chosen = plan(robot, [c])
        assert chosen.root == "pelvis" and chosen.coordinates is None


def test_bases_are_not_shifted_where_the_world_or_another_base_matters():
    """Rows at a place of the world, in its axes, and between two robots: as without a plan."""
    for seed in range(2):
        one, other = (some_mechanism(seed + k, 4, "floating").tree for k in (0, 9))
        both, rng, tip = ds.Scene({"one": one, "other": other}).tree, np.random.default_rng(seed), one.link_names[-1]
        for tree, rows in (
            (one, ds.Weld("world", tip)), (one, ds.Weld(tip, axes="world")), (one, ds.Point(tip, axes="world")),
            *((one, ds.Hinge(tip, base, (0.6, 0.0, 0.8), axes="world")) for base in one.link_names[:-1][:1]),
            (both, ds.Weld(f"one/{tip}", f"other/{other.link_names[-1]}")),
        ):  # fmt: skip
            q = tree.random(rng, 2)
            expected = ds.delassus(tree, rows, q, method="dense")
            assert error(ds.delassus(tree, rows, q, method="auto"), expected) < AGREEMENT


def test_a_plan_has_the_root_and_the_payloads_that_it_names():
    tree, tip = robots.chain(6, root="floating"), welds("link6")
    chosen = plan(tree, tip)
    assert chosen.root == chosen.tree.link_names[0] == "link6"
    assert plan(tree, tip, ("link2",)).operations > chosen.operations


@pytest.mark.slow
def test_the_base_pose_is_not_read_where_it_does_not_matter():
    tree, constraints = case("humanoid, hands and feet")
    ops = TraceOps()
    q = ops.vector(tree.nq)
    first, second = (
        OSIM_ALGORITHMS["auto"](Problem(ops, tree, constraints, [*ops.vector(7), *q[7:]])) for _ in range(2)
    )
    assert first.rows == second.rows


def test_nothing_to_constrain():
    assert ds.delassus(robots.chain(3), [], np.zeros(3), method="auto").shape == (0, 0)
    assert plan(robots.chain(3), ()).operations == 0
