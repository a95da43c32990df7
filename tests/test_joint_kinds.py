"""What a kind of joint states is all that the library asks: a kind that is made here, and tables that forget one."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import delassus as ds
from delassus.errors import ModelError
from internals import RawJoint, RawLink, build_tree, joint_kinds
from test_dynamics_derivatives import check
from tools import AGREEMENT, UNPLANNED, error, random_frame, random_rotation

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
