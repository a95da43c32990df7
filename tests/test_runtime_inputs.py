"""Rows, placements and payloads that come with each call, against the robot and constraints that have them built in."""

from __future__ import annotations

import copy
import pickle
import re
import shutil
from functools import cache

import numpy as np
import pytest

import delassus as ds
from delassus import Tree
from delassus.errors import ConfigurationError, ConstraintError, UnknownNameError
from internals import WORLD, key_of, matrix_to_quaternion, move_inertia, plan, quaternion_to_matrix
from random_trees import some_constraints, some_mechanism
from test_c import Compiled
from tools import AGREEMENT, error, random_rotation, requested

SINGLE = 2e-4
"""float32, whose round-off is 6e-8, through some thousand operations on random placements."""

WELL_CONDITIONED = 1e6
"""Mechanisms whose mass matrix has a larger condition number are left out: round-off, not algorithms, decides."""


# -- the same with the numbers built in ------------------------------------------------------------------------------


def ends(constraints):
    return [f for c in constraints for f in (c.first, c.second) if f is not None and f.given is not None]


def some_placement(rng, given):
    position = rng.uniform(-0.3, 0.3, 3)
    return position if given == "position" else np.r_[position, matrix_to_quaternion(random_rotation(rng))]


def some_placements(rng, constraints):
    return [some_placement(rng, f.given) for f in ends(constraints)]


def some_rows(rng, constraints):
    return [rng.normal(size=(c.size, 6)) for c in constraints if c.rows is None]


def some_payload(rng):
    """Ten parameters of a physical body, and its inertia matrix."""
    m, c, A = rng.uniform(0.2, 2), rng.uniform(-0.2, 0.2, 3), rng.normal(size=(3, 3)) * 0.1
    second = A @ A.T  # of the mass density
    about = m * ((np.trace(second) + c @ c) * np.eye(3) - second - np.outer(c, c))
    return np.r_[m, m * c, about[0, 0], about[0, 1], about[1, 1], about[0, 2], about[1, 2], about[2, 2]]


def matrix_of(x):
    """6 × 6 inertia about the frame's origin."""
    h = np.array([[0, -x[3], x[2]], [x[3], 0, -x[1]], [-x[2], x[1], 0]])
    xx, xy, yy, xz, yz, zz = x[4:]
    return np.block([[x[0] * np.eye(3), -h], [h, np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])]])


def loaded(tree, payloads):
    """The tree with the payloads built in."""
    inertias = np.array(tree.inertias)
    for name, x in payloads.items():
        at = tree.placement(name)
        if at.link != WORLD:
            inertias[at.link] += move_inertia(matrix_of(x), at.rotation, at.position)
    return Tree(tree.name, tree.link_names, tree.joints, tree.parents, inertias, tree.frames, tree.world_inertia)


def built_in(constraints, placements, rows):
    """The constraints with placements and rows built in."""
    placements, rows, out = iter(placements), iter(rows), []
    for c in constraints:
        c = copy.copy(c)
        if c.rows is None:
            object.__setattr__(c, "rows", next(rows))
        for end in ("first", "second"):
            frame = getattr(c, end)
            if frame is not None and frame.given is not None:
                x = next(placements)
                R = frame.rotation if frame.given == "position" else quaternion_to_matrix(x[3:])
                object.__setattr__(c, end, ds.Frame(frame.link, x[:3], R))
        out.append(c)
    return out


def opened(rng, constraints):
    """The constraints with most of their frames to be given at call time."""
    out = []
    for c in constraints:
        c = copy.copy(c)
        for end in ("first", "second"):
            frame, given = getattr(c, end), (None, "position", "placement")[rng.choice(3, p=(0.2, 0.4, 0.4))]
            if frame is not None and given is not None:
                R = frame.rotation if given == "position" else None
                object.__setattr__(c, end, ds.Frame(frame.link, rotation=R, given=given))
        out.append(c)
    return out


def some_case(seed):
    """Random mechanism, constraints, and everything that can be given: or None where M is badly conditioned."""
    mechanism = some_mechanism(seed, 3 + seed % 8, ("fixed", "floating")[seed % 2])
    tree, rng = mechanism.tree, mechanism.rng
    constraints = opened(rng, some_constraints(mechanism, most=4)[0])
    names = rng.choice(mechanism.names, size=min(3, len(mechanism.names)), replace=False)
    payloads = {str(name): some_payload(rng) for name in names}
    q = tree.random(rng, 3)
    if tree.nv and np.linalg.cond(ds.mass_matrix(tree, q)).max() > WELL_CONDITIONED:
        return None
    return tree, constraints, q, some_rows(rng, constraints), some_placements(rng, constraints), payloads


CASES = {seed: case for seed in range(14) if (case := some_case(seed)) is not None}


@pytest.mark.turns(3)
@pytest.mark.slow
@pytest.mark.parametrize("seed", CASES)
def test_every_method_on_random_mechanisms(seed):
    tree, constraints, q, rows, placements, payloads = CASES[seed]
    known = loaded(tree, payloads), built_in(constraints, placements, rows), q
    given = {"rows": rows, "placements": placements}
    expected = ds.delassus(*known, method="dense")
    for method in ds.OSIM_METHODS:
        G = ds.delassus(tree, constraints, q, method=method, payloads=payloads, **given)
        assert error(G, expected) < AGREEMENT, method
    assert error(ds.jacobian(tree, constraints, q, **given), ds.jacobian(*known)) < AGREEMENT
    assert error(ds.mass_matrix(tree, q, payloads=payloads), ds.mass_matrix(known[0], q)) < AGREEMENT
    operator = ds.delassus_operator(tree, constraints, q, payloads=payloads, **given)
    assert error(operator.dense(), expected) < AGREEMENT


def test_the_random_mechanisms_have_everything():
    frames = [f for case in CASES.values() for f in ends(case[1])]
    assert len(CASES) > 8
    assert {f.given for f in frames} == {"position", "placement"}
    assert any(case[0].placement(name).link == WORLD for case in CASES.values() for name in case[5])
    assert any(name not in case[0].link_names for case in CASES.values() for name in case[5])  # a fixed joint's link
    assert any(f.link not in case[0].link_names for case in CASES.values() for f in ends(case[1]))
    assert any(c.second is not None and c.second.given for case in CASES.values() for c in case[1] if not c.rigid)


# -- kernels ----------------------------------------------------------------------------------------------------------


def humanoid():
    constraints = [
        ds.Point(ds.Frame("left_foot", given="position")),
        ds.Point(ds.Frame("left_foot", rotation=np.eye(3)[[1, 2, 0]], given="position")),
        ds.Weld(ds.Frame("right_foot", given="placement")),
        ds.Rows("left_hand", 2),
    ]
    return ds.mechanisms.humanoid(), constraints, ("right_hand", "left_hand")


def loops():
    constraints = [
        ds.Hinge(ds.Frame("left2", given="placement"), ds.Frame("right2", given="position"), (0, 1, 1)),
        ds.Point(ds.Frame("left2", given="position"), ds.Frame("right1", given="placement"), axes="world"),
        ds.Rows(ds.Frame("left1", given="position"), 1, axes="world"),
    ]
    return ds.mechanisms.ladder(2), constraints, ("left2", "right1")


ROBOTS = {"humanoid": humanoid, "loops": loops}


class Setting:
    """A robot, what is given for one call, and the Delassus matrix with all of it built in."""

    def __init__(self, robot):
        rng = np.random.default_rng(7)
        self.tree, self.constraints, self.payloads = ROBOTS[robot]()
        self.q = self.tree.random(rng, 17)
        self.rows, self.placements = some_rows(rng, self.constraints), some_placements(rng, self.constraints)
        self.loads = {name: some_payload(rng) for name in self.payloads}
        self.known = loaded(self.tree, self.loads), built_in(self.constraints, self.placements, self.rows), self.q
        self.by_name = self._named()

    def _named(self):
        rows, placements, out = iter(self.rows), iter(self.placements), {"q": self.q}
        for i, c in enumerate(self.constraints):
            if c.rows is None:
                out[f"K{i}"] = next(rows)
            if c.first.given:
                out[f"placement{i}"] = next(placements)
            if c.second is not None and c.second.given:
                out[f"placement{i}_second"] = next(placements)
        return out | {f"payload{i}": self.loads[name] for i, name in enumerate(self.payloads)}

    def compile(self, what="delassus", **options):
        return ds.compile(self.tree, self.constraints, what, payloads=self.payloads, **options)

    def arguments(self, kernel):
        names = [a.name for a in kernel.arguments]
        assert names == list(self.by_name)
        assert [a.shape for a in kernel.arguments][1:] == [np.shape(x) for x in self.by_name.values()][1:]
        return [self.by_name[name].astype(kernel.dtype) for name in names]


@cache
def setting(robot):
    return Setting(robot)


@pytest.mark.slow
def test_the_planner_moves_the_root_of_the_humanoid():
    case = setting("humanoid")
    assert plan(case.tree, case.constraints, case.payloads).root != case.tree.link_names[0]


def test_operational_space_inertias():
    tree = ds.mechanisms.chain(7)
    tip = ds.Weld(ds.Frame("link7", given="placement"))
    rng = np.random.default_rng(5)
    x, load, q = some_placement(rng, "placement"), some_payload(rng), tree.random(rng, 4)
    known = loaded(tree, {"link5": load}), built_in([tip], [x], []), q
    given = {"placements": [x], "payloads": {"link5": load}}
    expected = ds.osim(*known)
    assert error(ds.osim(tree, tip, q, **given), expected) < AGREEMENT
    assert error(ds.compile(tree, tip, "osim", payloads=["link5"])(q, x, load), expected) < AGREEMENT
    assert error(ds.consistent_inverse(tree, tip, q, **given), ds.consistent_inverse(*known)) < AGREEMENT


def test_arguments_broadcast():
    tree = ds.mechanisms.chain(4)
    tip = ds.Point(ds.Frame("link4", given="position"))
    rng = np.random.default_rng(3)
    q, x = tree.random(rng, (5, 1)), rng.uniform(-0.3, 0.3, (3, 3))
    loads = np.stack([some_payload(rng) for _ in range(5)])[:, None]
    G = ds.compile(tree, tip, payloads=["link4"])(q, x, loads)
    assert G.shape == (5, 3, 3, 3)
    assert error(G, ds.delassus(tree, tip, q, placements=[x], payloads={"link4": loads})) < AGREEMENT
    for i in range(5):
        for j in range(3):
            known = loaded(tree, {"link4": loads[i, 0]}), ds.Point(ds.Frame("link4", x[j])), q[i, 0]
            assert error(G[i, j], ds.delassus(*known, method="dense")) < AGREEMENT
    operator = ds.delassus_operator(tree, tip, q, placements=[x], payloads={"link4": loads})
    assert operator.shape == G.shape
    assert error(operator.apply(operator.solve(np.ones(3))), np.ones((5, 3, 3))) < 1e-8
    with pytest.raises(ConfigurationError, match="payload on 'link4': expected leading axes that broadcast"):
        ds.mass_matrix(tree, tree.random(rng, 4), payloads={"link4": loads[:, 0]})


@pytest.mark.slow
def test_a_payload_taken_away():
    """All parameters enter linearly: a difference goes back to the robot as it was."""
    tree, load = ds.mechanisms.humanoid(), some_payload(np.random.default_rng(0))
    heavy, hand, q = loaded(tree, {"left_hand": load}), ds.Weld("left_hand"), tree.random(0, 5)
    given = {"payloads": {"left_hand": -load}}
    assert error(ds.delassus(heavy, hand, q, **given), ds.delassus(tree, hand, q)) < AGREEMENT
    assert error(ds.compile(heavy, hand, payloads=["left_hand"])(q, -load), ds.delassus(tree, hand, q)) < AGREEMENT


def test_payloads_cost_nothing_where_they_are_not():
    tree, feet = ds.mechanisms.humanoid(), [ds.Weld("left_foot"), ds.Weld("right_foot")]
    report = ds.count_operations(tree, feet, method="pv-osimr")
    assert isinstance(report, ds.OperationReport) and isinstance(report.clean, ds.OperationCount)
    plain = report.clean.total
    on_the_hand = ds.count_operations(tree, feet, method="pv-osimr", payloads=["left_hand"]).clean.total
    fixed_to_the_world = ds.count_operations(ds.mechanisms.chain(3), ds.Weld("link3"), payloads=["world"]).clean.total
    assert plain < on_the_hand < 1.1 * plain
    assert fixed_to_the_world == ds.count_operations(ds.mechanisms.chain(3), ds.Weld("link3")).clean.total


@pytest.mark.slow
def test_positions_cost_less_than_placements():
    tree = ds.mechanisms.humanoid()
    fixed, position, placement = (
        plan(tree, [ds.Point(f)]).operations
        for f in (
            ds.Frame("left_foot", (0.1, 0.2, 0.3)),
            ds.Frame("left_foot", given="position"),
            ds.Frame("left_foot", given="placement"),
        )
    )
    assert fixed <= position < placement < position + 150


# -- other targets ----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize("dtype, allowed", [("float64", AGREEMENT), ("float32", SINGLE)])
def test_c_and_its_header(tmp_path, dtype, allowed):
    case = setting("loops")
    kernel = case.compile(dtype=dtype)
    compiled = Compiled(kernel.program(), tmp_path, dtype)
    (header,) = (path.read_text() for path in tmp_path.glob("*.h"))
    flat = " ".join(re.sub(r"\s\*\s", " ", header).split())
    assert "placement0: " in flat and "7; first frame of constraint 0 in the frame of left2: position in m" in flat
    assert "placement0_second: " in flat and "3; second frame of constraint 0 in the frame of right2: position" in flat
    assert "payload0: " in flat and "10; inertia added to left2, about and along its frame: m, m c, Ixx, Ixy" in flat
    expected = ds.delassus(*case.known, method="dense")
    for k in (0, 5):
        one = [case.q[k], *list(case.by_name.values())[1:]]
        assert error(compiled(*one)[0], expected[k]) < allowed


def test_kernels_and_frames_pickle():
    case = setting("loops")
    kernel = case.compile()
    again = pickle.loads(pickle.dumps(kernel))
    arguments = case.arguments(again)
    assert np.array_equal(again(*arguments), kernel(*arguments))
    assert kernel.plan.operations == plan(case.tree, case.constraints, case.payloads).operations
    assert pickle.loads(pickle.dumps(ds.Frame("a", given="position"))).given == "position"


def test_the_key_tells_inputs_apart():
    tree = ds.mechanisms.chain(3)
    tips = [ds.Frame("link3"), *(ds.Frame("link3", given=given) for given in ("position", "placement"))]
    loads = [(), ("link3",), ("link2",), ("link2", "link3"), ("link3", "link2")]
    variants = [((ds.Point(tip),), load) for tip in tips for load in loads]
    keys = [key_of(requested(tree, c, "delassus", payloads=load), "float64", 8) for c, load in variants]
    assert len(set(keys)) == len(keys)
    plans = {plan(tree, c, load) for c, load in variants}
    assert len(plans) == len(variants)


# -- Pinocchio --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.peer
def test_payloads_as_pinocchio_has_them():
    pin = pytest.importorskip("pinocchio")
    model = pin.buildSampleModelHumanoid()
    tree = ds.load(model)
    rng = np.random.default_rng(1)
    bodies = [f for f in model.frames if f.type == pin.FrameType.BODY and f.name in tree.frames and f.parentJoint > 1]
    names = [bodies[k].name for k in rng.choice(len(bodies), 3, replace=False)]
    loads = {name: some_payload(rng) for name in names}
    heavy = pin.Model(model)
    for name, x in loads.items():
        frame = model.frames[model.getFrameId(name, pin.FrameType.BODY)]
        heavy.inertias[frame.parentJoint] += frame.placement.act(pin.Inertia.FromDynamicParameters(x))
    q = tree.random(rng)
    data = heavy.createData()
    M = np.triu(pin.crba(heavy, data, q))
    M = M + np.triu(M, 1).T
    assert error(ds.mass_matrix(tree, q, payloads=loads), M) < AGREEMENT
    foot = ds.Frame(names[0], given="placement")
    x = some_placement(rng, "placement")
    frame = model.frames[model.getFrameId(names[0], pin.FrameType.BODY)]
    pose = frame.placement * pin.SE3(pin.Quaternion(x[3:]).matrix(), x[:3])
    new = heavy.addFrame(pin.Frame("contact", frame.parentJoint, 0, pose, pin.FrameType.OP_FRAME))
    data = heavy.createData()
    J = pin.computeFrameJacobian(heavy, data, q, new, pin.LOCAL)
    G = ds.compile(tree, ds.Weld(foot), payloads=names)(q, x, *loads.values())
    assert error(G, J @ np.linalg.solve(M, J.T)) < AGREEMENT


# -- what is refused --------------------------------------------------------------------------------------------------

ARM = ds.mechanisms.chain(3)
TIP = ds.Point(ds.Frame("link3", given="placement"))
Q = ARM.neutral()
UNIT = np.array([0, 0, 0, 0, 0, 0, 1.0])


@pytest.mark.parametrize(
    "given, match",
    [
        ({"given": "pose"}, "given of a frame on 'link3': expected 'position', 'placement' or nothing, got 'pose'"),
        ({"given": np.zeros(3)}, "given of a frame on 'link3': expected 'position'"),
        ({"given": True}, "given of a frame on 'link3': expected 'position'"),
        ({"given": "position", "position": (0, 0, 1)}, "expected no position beside 'position'"),
        ({"given": "placement", "position": (0, 0, 1)}, "expected no position beside 'placement'"),
        ({"given": "placement", "rotation": np.eye(3)[[1, 2, 0]]}, "expected no rotation beside 'placement'"),
    ],
)
def test_frames_that_contradict_themselves(given, match):
    with pytest.raises(ConstraintError, match=match):
        ds.Frame("link3", **given)


def test_a_frame_without_its_placement_has_none():
    assert TIP.first.carrier(ARM) == 2
    with pytest.raises(ConstraintError, match="frame on 'link3': expected a fixed placement, got given='placement'"):
        TIP.first.on(ARM)


@pytest.mark.parametrize(
    "placements, kind, match",
    [
        (None, ConstraintError, "placements: expected one array for each of 1 Frame\\(link, given=…\\), got 0"),
        ([UNIT, UNIT], ConstraintError, "placements: expected one array for each of 1 .*, got 2"),
        (UNIT, ConstraintError, "placements: expected a list of arrays, got ndarray"),
        (
            [UNIT[:3]],
            ConfigurationError,
            "first frame of Point\\(.*link3.*, 3 rows\\): .*shape \\(..., 7\\), got shape",
        ),
        ([UNIT * np.nan], ConfigurationError, "placement of the first frame of Point.*: .*, got nan at index"),
        ([["a"] * 7], ConfigurationError, "placement of the first frame of Point"),
        ([2 * UNIT], ConfigurationError, "quaternion of the placement of the first frame of Point.*: expected unit"),
        ([np.tile(UNIT, (2, 1))], ConfigurationError, "expected leading axes that broadcast with those of q, \\(3,\\)"),
    ],
)
def test_bad_placements(placements, kind, match):
    with pytest.raises(ds.DelassusError, match=match) as caught:
        ds.delassus(ARM, TIP, ARM.random(0, 3), placements=placements)
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    "payloads, kind, match",
    [
        ({"link9": np.zeros(10)}, UnknownNameError, "'link9'. Did you mean"),
        ({"link3": np.zeros(9)}, ConfigurationError, "payload on 'link3': .*shape \\(..., 10\\), got shape \\(9,\\)"),
        ({"link3": np.full(10, np.inf)}, ConfigurationError, "payload on 'link3': .*inf at index"),
        ({"link3": None}, ConfigurationError, "payload on 'link3': expected finite numbers"),
        (["link3"], ConfigurationError, "payloads: expected a mapping of arrays"),
        ("link3", ConfigurationError, "payloads: expected"),
        (5, ConfigurationError, "payloads: expected"),
    ],
)
def test_bad_payloads(payloads, kind, match):
    with pytest.raises(ds.DelassusError, match=match) as caught:
        ds.mass_matrix(ARM, Q, payloads=payloads)
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    "payloads, kind, match",
    [
        (["link9"], UnknownNameError, "'link9'. Did you mean"),
        (["link3", "link3"], ConfigurationError, "payloads: expected each link once, got 'link3' twice"),
        ("link3", ConfigurationError, "payloads: expected a list of link names, got 'link3'"),
        ([3], UnknownNameError, "link or frame name"),
        ([["link3"]], UnknownNameError, "link or frame name"),
        (None, ConfigurationError, "payloads: expected a list of link names"),
    ],
)
def test_bad_names_of_payloads(payloads, kind, match):
    with pytest.raises(ds.DelassusError, match=match) as caught:
        ds.compile(ARM, TIP, payloads=payloads)
    assert type(caught.value) is kind


def test_bad_calls_of_kernels():
    kernel = ds.compile(ARM, TIP, payloads=["link3"])
    with pytest.raises(ConfigurationError, match="3 array\\(s\\): q, placement0, payload0"):
        kernel(Q)
    with pytest.raises(ConfigurationError, match=r"placement0: expected shape \(\.\.\., 7\)"):
        kernel(Q, UNIT[:3], np.zeros(10))
    with pytest.raises(ConfigurationError, match=r"payload0: expected shape \(\.\.\., 10\)"):
        kernel(Q, UNIT, np.zeros(9))


def test_a_mass_taken_away_altogether_is_singular():
    """A robot without mass moves without bound: numbers say so, in that state only."""
    tree, x = ds.mechanisms.chain(1), np.zeros(10)
    inertia = np.array(tree.inertias[0])
    assert np.array_equal(tree.placement("link1").rotation, np.eye(3)) and not tree.placement("link1").position.any()
    x[0], x[1:4] = inertia[0, 0], (inertia[1, 5], inertia[2, 3], inertia[0, 4])
    x[4:] = inertia[3:, 3:][np.tril_indices(3)]
    tip = ds.Point(ds.Frame("link1", (0.1, 0.2, 0.3)))
    kernel = ds.compile(tree, tip, method="pv-osim", payloads=["link1"])
    with pytest.warns(ds.DelassusWarning, match=r"1 of 2 state\(s\) are FAILED"):
        G = kernel(tree.random(0, 2), np.stack([-x, 0 * x]))
    assert not np.isfinite(G[0]).all() and np.isfinite(G[1]).all()
