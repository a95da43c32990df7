"""What a kind of constraint states is all that the library asks: a kind that is made here, and forgotten ones."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import delassus as ds
from delassus.errors import UnknownNameError
from internals import constraints
from test_dynamics_derivatives import check
from tools import AGREEMENT, UNPLANNED, error, random_frame

ROOM = Path(inspect.getfile(constraints)).parent
LINEAR, ANGULAR = (0, 1, 2), (3, 4, 5)

STEP = 1e-5
DIFFERENCE = 1e-8
"""Of a rate along the motion, by differences of order four."""

SOLUTION = 1e-8
"""Accelerations of two methods, and what rows ask for."""


# -- a kind --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Height(constraints.Constraint):
    """One row: the origin of a frame keeps its height over the plane x y of another one, or of a place in the world.

    ``h = nᵀ (p_b − p_a)`` with the axis *z* of the plane as ``n``, which turns with its link; velocities ``u`` of the
    point relative to that, ``ḣ = nᵀ u`` and ``ḧ = nᵀ (p̈_b − a_a − 2 ω_a × u)``, ``a_a`` that of the link at the point.
    """

    plane: ds.Frame
    point: ds.Frame
    height: float
    frames: tuple = field(init=False)

    def __init__(self, plane, point, height):
        self._set_attributes(size=1, plane=plane, point=point, height=height, frames=(plane, point))

    def __repr__(self):
        return f"Height({self.plane.text}, {self.point.text})"

    @property
    def fingerprint(self):
        return repr(("Height", self.plane.fingerprint, self.point.fingerprint, self.height))

    def prefixed(self, prefix):
        return Height(self.plane.prefixed(prefix), self.point.prefixed(prefix), self.height)

    def header_lines(self):
        yield f"height {constraints.exact(self.height)}"

    def links(self, at):
        return [frame.carrier(at.tree) for frame in self.frames]

    def seen(self, at):
        """The axis and both origins in the link of the plane, and the rotation of the point's link in it."""
        (R1, p1), (_, p2) = at.pose(self.plane), at.pose(self.point, "second")
        a, b = self.links(at)
        R, p = at.robot.pose_between(b, a)
        return at.ops.take(R1, None, (2,)), p1, R @ p2 + p, R, p2

    def rows_on_links(self, at):
        ops, (a, b) = at.ops, self.links(at)
        n, _, c, R, p2 = self.seen(at)

        def row(axis, p):
            return ops.hstack([ops.transpose(axis), -(ops.transpose(axis) @ crossing(ops, p))])

        rows = {a: -row(n, c), b: row(ops.transpose(R) @ n, p2)}
        return {link: K for link, K in rows.items() if link >= 0}

    def _velocities(self, at):
        """Velocity of the point, of what is at it in the plane's link, and their parts that links turn."""
        ops, (a, b) = at.ops, self.links(at)
        _, _, c, R, p2 = self.seen(at)
        (ours, w), (theirs, w_a) = (moving(at, link, p) for link, p in ((b, p2), (a, c)))
        return R @ ours, theirs, R @ (crossing(ops, w) @ ours), crossing(ops, w_a)

    def drift(self, at):
        n, *_ = self.seen(at)
        ours, theirs, turned, turning = self._velocities(at)
        relative = ours - theirs
        return at.ops.transpose(n) @ (turned - turning @ theirs - turning @ (relative + relative))

    def position(self, at):
        n, p1, c, *_ = self.seen(at)
        return at.ops.transpose(n) @ (c - p1) - at.ops.constant([[self.height]])


def crossing(ops, a):
    """Matrix of ``b ↦ a × b``."""
    ((x,), (y,), (z,)) = ops.entries(a)
    return ops.matrix([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def moving(at, link, p):
    """Velocity of a point of a link, and how the link turns, in its axes; the world does not move."""
    ops = at.ops
    V = at.motion.V[link] if link >= 0 else ops.zeros(6, 1)
    w = ops.take(V, ANGULAR, None)
    return ops.take(V, LINEAR, None) + crossing(ops, w) @ p, w


# -- what the library makes of it ----------------------------------------------------------------------------------

HEIGHT = 0.3


def cases(root):
    """A robot and sets of constraints, by name."""
    tree, rng = ds.mechanisms.star(2, 3, root=root), np.random.default_rng(4)
    a, b = tree.link_names[-1], tree.link_names[1]
    places = {"world": random_frame(rng, "world"), "link": random_frame(rng, b)}
    point = random_frame(rng, a)
    sets = {name: [Height(place, point, HEIGHT)] for name, place in places.items()}
    sets["reversed"] = [Height(point, places["world"], -HEIGHT)]
    sets["beside others"] = [
        ds.Distance(tree.link_names[2], places["world"]),
        *sets["link"],
        ds.JointRows({tree.joint_names[-1]: 1.0}),
    ]
    return tree, sets, (tree.random(rng), rng.normal(size=tree.nv), rng.normal(size=tree.nv))


NAMES = ("world", "link", "reversed", "beside others")
both_roots = pytest.mark.parametrize("root", ["fixed", "floating"])
each_case = pytest.mark.parametrize("name", NAMES)


def heights(tree, c, q):
    """Of a constraint, by the poses of its frames in the world."""
    (R, p), (_, point) = (pose_of(tree, frame, q) for frame in (c.plane, c.point))
    return np.einsum("...i,...i", R[..., :, 2], point - p)


def pose_of(tree, frame, q):
    if frame.link == "world":
        return frame.rotation, frame.position
    T = ds.forward_kinematics(tree, q, frame)
    return T[..., :3, :3], T[..., :3, 3]


def along(tree, q, v, f):
    """Rate of ``f(q)`` along ``v``, by differences of order four."""
    at = np.array([1.0, -1.0, 2.0, -2.0]) * STEP
    one, two, three, four = (f(tree.integrate(q, h * v)) for h in at)
    return (8 * (one - two) - (three - four)) / (12 * STEP)


@pytest.mark.slow
@both_roots
@each_case
def test_delassus_matrix(name, root):
    """``J`` by differences of heights, and every method by the dense definition."""
    tree, sets, (q, v, _) = cases(root)
    made = sets[name]
    J = ds.jacobian(tree, made, q)
    for c, row in zip(made, np.cumsum([0] + [c.size for c in made]), strict=False):
        if isinstance(c, Height):
            assert error(J[row] @ v, along(tree, q, v, lambda x, c=c: heights(tree, c, x))) < DIFFERENCE
    expected = J @ np.linalg.solve(ds.mass_matrix(tree, q), J.T)
    for method in (*UNPLANNED, "auto"):
        assert error(ds.delassus(tree, made, q, method=method), expected) < AGREEMENT, method
    assert error(ds.delassus_operator(tree, made, q).dense(), expected) < AGREEMENT


def asked_positions(tree, made, q):
    """Position errors by the definition of each."""
    return np.concatenate(
        [
            [heights(tree, c, q) - c.height] if isinstance(c, Height) else np.ravel(q[tree.q_index(c.joints[0])])
            if isinstance(c, ds.JointRows) else np.zeros(c.size)
            for c in made
        ]
    )  # fmt: skip


@pytest.mark.slow
@each_case
def test_dynamics(name):
    """``J̇ v`` by differences; four methods by the dense definition, with stabilisation and without."""
    tree, sets, (q, v, tau) = cases("floating")
    made = sets[name]
    J, M = ds.jacobian(tree, made, q), ds.mass_matrix(tree, q)
    drift = ds.jacobian_drift(tree, made, q, v)
    assert error(drift, along(tree, q, v, lambda x: ds.jacobian(tree, made, x) @ v)) < DIFFERENCE
    K = np.block([[M, -J.T], [J, np.zeros((len(J), len(J)))]])
    h, errors = ds.bias_force(tree, q, v), asked_positions(tree, made, q)
    for stable in (None, ds.Baumgarte(10.0)):
        beta, alpha = (0.0, 0.0) if stable is None else stable.gains
        expected = np.linalg.solve(K, np.concatenate([tau - h, -drift - beta * (J @ v) - alpha * errors]))
        for method in ("kkt", "ltl", "pv-early", "proximal"):
            found = ds.forward_dynamics(tree, q, v, tau, made, method=method, baumgarte=stable)
            assert error(np.concatenate([found.qdd, *found.forces]), expected) < SOLUTION, method


@pytest.mark.turns(2)
@pytest.mark.slow
@each_case
def test_derivatives(name):
    tree, sets, state = cases("floating")
    assert check(tree, *state, sets[name], baumgarte=10.0)


@pytest.mark.slow
def test_compiled_code(tmp_path):
    """Kernels are the direct calls; what is built in is told; options and caches tell two heights apart."""
    tree, sets, (q, v, tau) = cases("fixed")
    made = sets["link"]
    errors, velocities = ds.compile(tree, made, "constraint_errors")(q, v)
    assert errors == pytest.approx(asked_positions(tree, made, q), abs=AGREEMENT)
    assert velocities == pytest.approx(ds.jacobian(tree, made, q) @ v, abs=AGREEMENT)
    kernel = ds.compile(tree, made, "delassus")
    assert error(kernel(q), ds.delassus(tree, made, q)) < AGREEMENT
    kernel.export_c(tmp_path)
    (text,) = (path.read_text() for path in tmp_path.glob("*.c"))
    text = " ".join(text.replace("\n *", " ").split())  # of a comment that is wrapped
    assert "0, row 0: Height(Frame(" in text and "height 0.3" in text
    qdd, forces = ds.compile(tree, made, "dynamics", method="pv-early", baumgarte=10.0)(q, v, tau)
    direct = ds.forward_dynamics(tree, q, v, tau, made, baumgarte=10.0)
    assert error(qdd, direct.qdd) < SOLUTION and error(forces, direct.forces[0]) < SOLUTION
    other = [Height(made[0].plane, made[0].point, 0.2)]
    assert ds.compile(tree, other, "constraint_errors")(q, v)[0] == pytest.approx(errors + 0.1)


@pytest.mark.slow
def test_stabilisation_goes_to_the_height():
    """A trajectory with the row ends at the height that it asks for, whatever it starts from."""
    tree, sets, (q, v, _) = cases("fixed")
    (c,) = sets["link"]
    step, time = 2e-3, 1.5
    kernel = ds.compile(tree, [c], "step", baumgarte=8.0)
    states, _ = ds.rollout(kernel, q, 0.0 * v, np.zeros((int(time / step), tree.nv)), step)
    assert abs(heights(tree, c, q) - c.height) > 0.05
    assert abs(heights(tree, c, states[-1]) - c.height) < 1e-3


def test_names_that_a_robot_does_not_have():
    tree, *_ = cases("fixed")
    with pytest.raises(UnknownNameError, match="pipe"):
        ds.delassus(tree, [Height(ds.Frame("world"), ds.Frame("pipe"), 0.0)], tree.neutral())


# -- kinds that are forgotten --------------------------------------------------------------------------------------

REQUIRED = ("fingerprint", "prefixed", "drift")
CONTACTS = {"Contact", "BoundedJoint", "Spins"}
"""Rows of contact steps, of which dynamics ask nothing."""


def classes_of(path):
    """Classes of a file, with the names of those that they are made of and of what they define."""
    return {
        node.name: (
            [ast.unparse(base).rpartition(".")[2] for base in node.bases],
            {part.name for part in node.body if isinstance(part, ast.FunctionDef)},
        )
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    }


def forgotten(room):
    """What files of kinds, or the catalogue of their room, leave out."""
    catalogue = (room / "__init__.py").read_text()
    classes = {name: (path, *of) for path in sorted(room.glob("*.py")) for name, of in classes_of(path).items()}

    def line(name):
        return [name, *(x for base in classes[name][1] if base in classes for x in line(base))]

    out = []
    for name, (path, *_) in classes.items():
        if name != "Constraint" and name[0] != "_" and "Constraint" in line(name):
            defined = set().union(*(classes[x][2] for x in line(name) if x != "Constraint"))
            asked = (
                [*REQUIRED[:2], "rows_on_links"] if name in CONTACTS else [*REQUIRED, "rows_on_links or coefficients"]
            )
            lacks = [x for x in asked if not defined.intersection(x.split(" or "))]
            out += [f"{path.name}: {name} does not state {x}" for x in lacks if name != "BoundedJoint"]
            if f'"{name}"' not in catalogue:
                out.append(f"__init__.py: {name} of {path.name} is not in __all__")
            if name not in ("FrameConstraint", "BoundedJoint", "Spins") and f"`{name}`" not in catalogue:
                out.append(f"__init__.py: {name} of {path.name} is not in the table")
    return out


def asked_for(path, kinds):
    """Where a file asks which kind a constraint is."""
    text, names = path.read_text(), "|".join(sorted(kinds))
    asks = rf"\bis(?:instance|subclass)\((?:[^()]|\([^()]*\))*?\b({names})\b|\bcase (?:\w+\.)*({names})\("
    found = re.finditer(asks, text)
    return [f"{path.name}:{text[: m.start()].count(chr(10)) + 1} asks for {m[1] or m[2]}" for m in found]


def test_every_kind_is_stated_and_listed():
    assert forgotten(ROOM) == []


def test_no_other_file_asks_which_kind_a_constraint_is():
    shown = {name: getattr(constraints, name) for name in constraints.__all__}
    kinds = {name for name, x in shown.items() if isinstance(x, type) and issubclass(x, constraints.Constraint)}
    kinds -= {"Constraint"}
    assert {"Weld", "Contact", "JointRows", "FrameConstraint"} <= kinds
    files = [path for path in ROOM.parent.rglob("*.py") if path.parent != ROOM]
    assert len(files) > 100
    assert [place for path in files for place in asked_for(path, kinds)] == []


def test_the_test_of_kinds(tmp_path):
    """A kind that is half made, or in no list, and a file that asks for it are named."""
    (tmp_path / "__init__.py").write_text('"Table with `Half`."\n__all__ = ["Whole"]\n')
    (tmp_path / "constraint.py").write_text("class Constraint:\n    def drift(self): raise NotImplementedError\n")
    methods = "".join(f"    def {name}(self): pass\n" for name in (*REQUIRED, "rows_on_links"))
    (tmp_path / "half.py").write_text("class Half(Constraint):\n    def prefixed(self): pass\n")
    (tmp_path / "whole.py").write_text(f"class Whole(Constraint):\n{methods}")
    assert forgotten(tmp_path) == [
        "half.py: Half does not state fingerprint",
        "half.py: Half does not state drift",
        "half.py: Half does not state rows_on_links or coefficients",
        "__init__.py: Half of half.py is not in __all__",
        "__init__.py: Whole of whole.py is not in the table",
    ]
    asks = "def f(c):\n    match c:\n        case Whole():\n            return g(isinstance(c.of(0), str | ds.Half))\n"
    (tmp_path / "user.py").write_text(f"{asks}    return isinstance(c, str), Half()\n")
    assert asked_for(tmp_path / "user.py", {"Half", "Whole"}) == ["user.py:3 asks for Whole", "user.py:4 asks for Half"]
