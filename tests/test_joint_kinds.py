"""What a kind of joint states is all that the library asks: a kind that is made here, and tables that forget one."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import delassus as ds
from delassus.errors import ModelError
from internals import RawJoint, RawLink, build_tree, joint_kinds
from test_dynamics_derivatives import check
from tools import AGREEMENT, UNPLANNED, by_method, error, make_motion, random_frame, random_rotation

SPATIAL = Path(inspect.getfile(joint_kinds))
PACKAGE = SPATIAL.parent.parent

MANIFOLD = 1e-12


# -- a kind --------------------------------------------------------------------------------------------------------


class _Cylindrical(joint_kinds.JointKind):
    """A length along an axis, and an angle about it."""

    def displacement(self, ops, axes, q):
        (p, _), (_, R) = (kind.displacement(ops, (axis,), (x,)) for kind, axis, x in zip(PARTS, axes, q, strict=True))
        return p, R


PARTS = joint_kinds.PRISMATIC, joint_kinds.REVOLUTE
CYLINDRICAL = _Cylindrical("cylindrical", (2, 5), (0.0, 0.0))


def mechanism(root):
    """A branched tree with two joints of this kind, armature, damping and springs on them."""
    rng = np.random.default_rng(4)
    inertia = 0.1 * np.diag([1.0, 1.2, 1.5])
    links = [RawLink(f"l{k}", 1.0 + k, rng.uniform(-0.2, 0.2, 3), inertia) for k in range(6)]
    kinds = [CYLINDRICAL, joint_kinds.REVOLUTE, joint_kinds.BALL, CYLINDRICAL, joint_kinds.REVOLUTE]
    joints = [
        RawJoint(
            f"j{k}", kind, f"l{parent}", f"l{k}", rng.normal(size=3), random_rotation(rng), rng.normal(size=3),
            armature=0.1, damping=0.3, stiffness=2.0, rest_position=0.2,
        )
        for k, (kind, parent) in enumerate(zip(kinds, (0, 1, 2, 1, 4), strict=True), start=1)
    ]  # fmt: skip
    tree = build_tree("cylinders", links, joints, root=root)
    state = tree.random(rng), rng.normal(size=tree.nv), rng.normal(size=tree.nv)
    return tree, [ds.Point(random_frame(rng, "l3")), ds.Point(random_frame(rng, "l5"), "l2")], state


both_roots = pytest.mark.parametrize("root", ["fixed", "floating"])


def test_a_kind_of_its_own():
    """It is one object, copied and pickled too; its coordinates add up, and nothing is to be said of that."""
    assert (CYLINDRICAL.nq, CYLINDRICAL.nv, CYLINDRICAL.has_axis, CYLINDRICAL.has_springs) == (2, 2, True, True)
    tree, _, (q, v, _) = mechanism("fixed")
    again = pickle.loads(pickle.dumps(copy.deepcopy(tree)))
    assert again.joints[0].kind is CYLINDRICAL and again.joints[1].kind is joint_kinds.REVOLUTE
    moved = tree.integrate(q, v)
    assert error(moved[:2], q[:2] + v[:2]) < MANIFOLD and error(tree.difference(q, moved)[:2], v[:2]) < MANIFOLD
    assert error(tree.passive_forces(q, 0 * v)[:2], -2.0 * (q[:2] - 0.2)) < MANIFOLD
    for write in (tree.to_urdf, tree.to_mjcf):
        with pytest.raises(ModelError, match=r"joint 'j1'.*cylindrical"):
            write()
    with pytest.raises(ModelError, match="a cylindrical joint"):
        mechanism("floating")[0].reroot("l5")


@pytest.mark.slow
@both_roots
def test_matrices(root):
    """``J`` by differences of poses; every method, on the planned robot too, by the dense definition."""
    tree, constraints, (q, v, _) = mechanism(root)
    frame, h = constraints[0].frames[0], 1e-6
    J = ds.jacobian(tree, ds.Point(frame), q)
    p = [ds.forward_kinematics(tree, tree.integrate(q, s * h * v), frame) for s in (1, -1)]
    rate = ds.forward_kinematics(tree, q, frame)[:3, :3].T @ (p[0] - p[1])[:3, 3] / (2 * h)
    assert error(J @ v, rate) < 1e-7
    J = ds.jacobian(tree, constraints, q)
    expected = J @ np.linalg.solve(ds.mass_matrix(tree, q), J.T)
    for method in (*UNPLANNED, "auto"):
        assert error(ds.delassus(tree, constraints, q, method=method), expected) < AGREEMENT, method
    assert error(ds.compile(tree, constraints, "delassus")(q), expected) < AGREEMENT


@pytest.mark.slow
@both_roots
def test_dynamics(root):
    """Derivatives by differences, and a time step in compiled code by the definition."""
    tree, constraints, (q, v, tau) = mechanism(root)
    assert check(tree, q, v, tau, constraints)
    at_q, at_v = ds.compile(tree, [], "step")(q, v, tau, 0.01)
    expected = v + 0.01 * ds.forward_dynamics(tree, q, v, tau).qdd
    assert error(at_v, expected) < AGREEMENT and error(at_q, tree.integrate(q, 0.01 * expected)) < AGREEMENT
    step = ds.compile(tree, [], "step", integrator="rk4")
    twice = step(*step(q, v, tau, 1e-3), tau, 1e-3)
    assert max(error(x, y) for x, y in zip(step(q, v, tau, 2e-3), twice, strict=True)) < 1e-9  # order 4


def test_signs_that_invert_coordinates_make_the_inverse_displacement():
    rng, inertia, inverted = np.random.default_rng(5), np.eye(3), set()
    for kind in joint_kinds.KINDS:
        if kind.inverse_signs is None:
            continue
        joint = RawJoint("j", kind, "l0", "l1", np.zeros(3), np.eye(3), np.array([0.0, 0.0, 1.0]))
        links = [RawLink(name, 1.0, np.zeros(3), inertia) for name in ("l0", "l1")]
        tree = build_tree("one", links, [joint], root="fixed")
        for _ in range(5):
            q = tree.random(rng)
            T, back = (ds.forward_kinematics(tree, x, "l1") for x in (q, np.array(kind.inverse_signs) * q))
            assert error(T @ back, np.eye(4)) < MANIFOLD, kind.name
        inverted.add(kind.name)
    assert inverted == {"ball", "translation"}


# -- tables --------------------------------------------------------------------------------------------------------


def test_no_table_forgets_a_kind():
    made = [x for x in vars(joint_kinds).values() if isinstance(x, joint_kinds.JointKind)]
    place = "spatial/joint_kinds.py"
    assert {*made} == {*joint_kinds.KINDS}, f"{place}, KINDS"
    rows = {name: tuple(map(int, n)) for name, *n in re.findall(r"^(\S+) +(\d) +(\d)  ", joint_kinds.__doc__, re.M)}
    assert rows == {kind.name: (kind.nq, kind.nv) for kind in made}, f"{place}, table of the docstring"
    assert all(vars(joint_kinds)[kind.__reduce__()] is kind for kind in made), f"{place}, names of constants"
    table = re.search(r"\nJOINTS.*?\n}", (PACKAGE / "formats" / "features.py").read_text(), re.S)[0]
    assert {kind for kind in made if not re.search(rf"\b{kind.__reduce__()}\b", table)} == set(), "formats/features.py"


def test_there_are_no_other_tables():
    """No file lists kinds but these two: what others ask of a joint, its kind states."""
    names = {n for n, x in vars(joint_kinds).items() if isinstance(x, joint_kinds.JointKind)}
    found = set()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "joint_kinds" in text or path == SPATIAL else ():
            parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", ())
            if sum(isinstance(x, ast.Name) and x.id in names for x in parts) > 2:
                found.add(str(path.relative_to(PACKAGE)))
    assert found == {"formats/features.py", "spatial/joint_kinds.py"}


# -- screws --------------------------------------------------------------------------------------------------------


def with_screws(root, seed, armature=0.2, damping=0.3):
    """A branched tree with screws of both signs, and the same of slides that carry hinges: ``v = N u``, ``q`` too."""
    rng = np.random.default_rng(seed)
    kinds = [SCREW, joint_kinds.BALL, SCREW, joint_kinds.PRISMATIC, SCREW, joint_kinds.REVOLUTE]
    inertia = 0.1 * np.diag([1.0, 1.2, 1.5])
    links = [RawLink(f"l{k}", 1.0 + 0.2 * k, rng.uniform(-0.2, 0.2, 3), inertia) for k in range(len(kinds) + 1)]
    more, screws, twins = list(links), list[RawJoint](), list[RawJoint]()
    for k, (kind, parent) in enumerate(zip(kinds, (0, 1, 2, 1, 4, 5), strict=True), start=1):
        axis = rng.normal(size=3) if k % 3 else np.eye(3)[rng.integers(3)]
        given = {"damping": damping, "friction": 0.1 * (kind.nv == 1), "armature": armature}
        joint = RawJoint(
            f"j{k}", kind, f"l{parent}", f"l{k}", rng.uniform(-0.4, 0.4, 3), random_rotation(rng), axis, **given,
            pitch=float(rng.uniform(0.1, 0.5) * (-1) ** k) if kind is SCREW else 0.0,
        )  # fmt: skip
        screws.append(joint)
        if kind is not SCREW:
            twins.append(joint)
            continue
        more.append(RawLink(f"s{k}"))
        still, own = np.zeros(3), joint.axis
        twins += [
            RawJoint(f"s{k}", joint_kinds.PRISMATIC, joint.parent, f"s{k}", joint.position, joint.rotation, own),
            replace(joint, kind=joint_kinds.REVOLUTE, parent=f"s{k}", position=still, rotation=np.eye(3), pitch=0.0),
        ]
    tree, twin = (
        build_tree("screws", bodies, joints, root=root) for bodies, joints in ((links, screws), (more, twins))
    )
    N, Nq = np.zeros((twin.nv, tree.nv)), np.zeros((twin.nq, tree.nq))
    for name in tree.joint_names:
        N[twin.v_index(name), tree.v_index(name)] = np.eye(tree.joints[tree.joint_names.index(name)].nv)
        Nq[twin.q_index(name), tree.q_index(name)] = np.eye(tree.joints[tree.joint_names.index(name)].nq)
    rows = []
    for joint in screws:
        if joint.kind is SCREW:
            slide = f"s{joint.name[1:]}"
            N[twin.v_index(slide), tree.v_index(joint.name)] = joint.pitch
            Nq[twin.q_index(slide), tree.q_index(joint.name)] = joint.pitch
            rows.append(ds.JointRows({slide: 1.0, joint.name: -joint.pitch}))
    return tree, twin, (N, Nq), rows, rng


SCREW = joint_kinds.SCREW


@pytest.mark.parametrize(("root", "armature"), [("fixed", 0.0), ("floating", 0.2)])
def test_screws_are_slides_that_hinges_drive(root, armature):
    """Kinematics, energies, forces and accelerations, with constraints on links and on screws, by every method."""
    tree, twin, (N, Nq), rows, rng = with_screws(root, 7, armature)
    q, v, u, tau = tree.random(rng), *rng.normal(size=(3, tree.nv))
    other = twin, Nq @ q
    for link in ("l3", "l6"):
        T, expected = (ds.forward_kinematics(robot, x, link) for robot, x in ((tree, q), other))
        assert error(T, expected) < MANIFOLD
        frames = {"frames": random_frame(rng, link), "reference": "world"}
        assert error(ds.frame_jacobian(tree, q, **frames), ds.frame_jacobian(*other, **frames) @ N) < MANIFOLD
    M = ds.mass_matrix(tree, q)
    assert error(M, N.T @ ds.mass_matrix(*other) @ N) < MANIFOLD
    assert error(ds.inverse_dynamics(tree, q, v, u), N.T @ ds.inverse_dynamics(*other, N @ v, N @ u)) < MANIFOLD
    assert error(ds.momentum(tree, q, v), ds.momentum(*other, N @ v)) < MANIFOLD
    assert error(ds.momentum_jacobian(tree, q), ds.momentum_jacobian(*other) @ N) < MANIFOLD
    own = ds.frame_acceleration(tree, q, v, u, frames="l6")
    assert error(own, ds.frame_acceleration(*other, N @ v, N @ u, frames="l6")) < MANIFOLD
    Y, tau_of_links = ds.regressor(tree, q, v, u), ds.inverse_dynamics(tree, q, v, u, passive="none")
    motors = np.concatenate([joint.armature for joint in tree.joints]) * u
    assert error(Y @ tree.inertial_parameters.ravel() + motors, tau_of_links) < MANIFOLD
    assert error(ds.potential_energy(tree, q), ds.potential_energy(*other)) < MANIFOLD
    C = ds.coriolis_matrix(tree, q, v)
    bias = ds.bias_force(tree, q, v, gravity=(0, 0, 0), passive="none")
    assert error(C @ v, bias) < MANIFOLD
    h = 1e-6
    rate = sum(s * ds.mass_matrix(tree, tree.integrate(q, s * h * v)) for s in (1, -1)) / (2 * h)
    assert error(C + C.T, rate) < 1e-7
    sets = (
        [],
        [ds.Point(random_frame(rng, "l3"))],
        [ds.Point(random_frame(rng, "l6"), "l3")],
        [ds.Rows(random_frame(rng, "l6"), rng.normal(size=(3, 6))), ds.JointRows({"j5": 1.0, "j3": -2.0})],
        [ds.JointRows({"j1": 1.0}), ds.Point(random_frame(rng, "l6"), axes="world")],
        *([[ds.Weld(random_frame(rng, "l3"))]] if root == "floating" else []),
    )
    for constraints in sets:
        J = ds.jacobian(tree, constraints, q)
        if constraints:
            assert error(J, ds.jacobian(twin, constraints, Nq @ q) @ N) < MANIFOLD
            for method in (*UNPLANNED, "auto"):
                G = ds.delassus(tree, constraints, q, method=method)
                assert error(G, J @ np.linalg.solve(M, J.T)) < AGREEMENT, method
        held = [*constraints, *rows]
        expected = ds.forward_dynamics(*other, N @ v, np.linalg.pinv(N.T) @ tau, held, method="kkt")
        motion, _ = make_motion(tree, q, v, tau, constraints)
        for method in ("kkt", "ltl", "pv", "pv-early", "proximal" if constraints else "aba"):
            found = by_method(motion, method)
            assert error(N @ found.qdd[:, 0], expected.qdd) < 1e-8, method
            if constraints:
                forces = np.concatenate(expected.forces[: len(constraints)])
                assert error(found.forces[:, 0], forces) < 1e-8, method


def test_pitches():
    """They are part of what a robot is, of screws alone, and finite; formats that have none refuse screws by name."""
    tree, *_ = with_screws("fixed", 11)
    other = replace(tree.joints[0], pitch=2.0 * tree.joints[0].pitch)
    assert replace(tree, joints=(other, *tree.joints[1:])).fingerprint != tree.fingerprint
    assert pickle.loads(pickle.dumps(tree)) == tree
    with pytest.raises(ModelError, match=r"joint 'j2': expected a pitch of a screw, or none of a ball joint, got 0\.3"):
        replace(tree.joints[1], pitch=0.3)
    links = [RawLink("a"), RawLink("b", 1.0, np.zeros(3), np.eye(3))]
    with pytest.raises(ModelError, match="pitch of joint 'j'"):
        build_tree("one", links, [RawJoint("j", SCREW, "a", "b", pitch=np.nan)])
    for write in (tree.to_urdf, tree.to_mjcf):
        with pytest.raises(ModelError, match=r"joint 'j1'.*screw"):
            write()


@both_roots
def test_derivatives_and_energy_of_screws(root):
    tree, _, _, _, rng = with_screws(root, 8)
    q, v, tau = tree.random(rng), *rng.normal(size=(2, tree.nv))
    for constraints in ([], [ds.Point(random_frame(rng, "l3"))], [ds.Weld("l6", "l3")]):
        check(tree, q, v, tau, constraints, damping=rng.uniform(0, 1, tree.nv))
    none = {"passive": "none"}
    step = ds.compile(tree, [], "step", integrator="rk4", gravity=(0, 0, 0), **none)
    energy, at = ds.kinetic_energy(tree, q, v), (q, v)
    for _ in range(200):
        at = step(*at, 0 * tau, 1e-3)[:2]
    assert abs(ds.kinetic_energy(tree, *at) - energy) < 1e-9 * energy


@pytest.mark.slow
def test_screws_in_scenes():
    """Contacts and friction act on screws as on slides that hinges drive, whatever the formulation."""
    tree, twin, (N, Nq), rows, _ = with_screws("fixed", 9, damping=0.0)  # else links are in joints
    q = tree.neutral()
    lowest, link = min((ds.forward_kinematics(tree, q, f"l{k}")[2, 3], f"l{k}") for k in (3, 5, 6))
    v = -np.linalg.pinv(ds.frame_jacobian(tree, q, frames=link, reference="local-world-aligned")[2:3])[:, 0]  # 1 m/s

    def after(robot, constraints, at, rate, formulation):
        colliders = [ds.contact.Collider(f"l{k}", ds.contact.Sphere(0.1), friction=0.7) for k in (3, 5, 6)]
        floor = ds.contact.Collider("world", ds.contact.HalfSpace(), (0.0, 0.0, lowest - 0.1005))
        scene = ds.Scene(robot, [*colliders, floor], loops=constraints)
        sim = ds.Simulator(scene, q0=at, v0=rate, dt=2e-3, formulation=formulation, tolerance=1e-11)
        for _ in range(60):
            sim.step()
        return sim.q, sim.v, np.sum(sim.impulses[:, 2])

    for formulation in (None, "os", "mc", "rmc"):
        *own, pushed = after(tree, (), q, v, formulation)
        *loops, _ = after(twin, rows, Nq @ q, N @ v, formulation)
        assert pushed > 0.05  # N s
        assert max(error(Nq @ own[0], loops[0]), error(N @ own[1], loops[1])) < 1e-3, formulation  # steps: order 1
        for other in ("nmc", "nmc-os") if formulation == "os" else ():  # which links without mass have not
            *found, _ = after(tree, (), q, v, other)
            assert max(error(x, y) for x, y in zip(found, own, strict=True)) < 1e-6, other
