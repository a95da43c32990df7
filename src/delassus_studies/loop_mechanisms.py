"""Mechanisms with closed loops, for ``bench loops``: linkages, platforms, legs, arms, ladders, rings and grids.

Trees and the constraints that close them. Configurations are random: rows are regular where the loops are open too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from warnings import catch_warnings

import numpy as np

from delassus.accuracy.closed_loops import kept_closed
from delassus.api.loops import random_configurations
from delassus.constraints import Constraint, Frame, JointRows, Point, Weld
from delassus.errors import ConstraintError
from delassus.formats.parallel import load_parallel
from delassus.model.describe import describe
from delassus.model.description import RawJoint, RawLink, Root
from delassus.model.edit.build import build_tree
from delassus.model.mechanisms import humanoid, ladder, pendulum
from delassus.model.tree import Tree
from delassus.spatial.joint_kinds import BALL, FREE, PRISMATIC, REVOLUTE, JointKind
from delassus.spatial.rotations import Array, rotation_about
from delassus_studies.cases import Case, States, welds

SIDES = (("left", 0.15), ("right", -0.15))


class _Mechanism:
    """Links and joints under construction, and the loops between them."""

    def __init__(self) -> None:
        self.links = [RawLink("base", 4.0, np.zeros(3), 0.05 * np.eye(3))]
        self.joints: list[RawJoint] = []
        self.loops: list[Constraint] = []

    def add(
        self, name: str, parent: str, kind: JointKind, at: tuple[float, float, float], axis: float | None = None
    ) -> str:
        """A rod of 0.3 m along x; axes lean by an angle of their own, so that no structural zero helps anyone."""
        k = float(len(self.links))
        lean = 0.7 * k if axis is None else axis
        mass = 1.0 + 0.3 * math.sin(k)
        inertia = mass * np.diag([1e-3, 8e-3, 8e-3])
        self.links.append(RawLink(name, mass, np.array([0.15, 0.0, 0.01]), inertia))
        direction = np.array([0.3 * math.sin(lean), math.sin(lean), math.cos(lean)])
        direction /= np.linalg.norm(direction)
        position: Array = np.array(at) + 0.01 * np.array([math.sin(k), math.cos(k), math.sin(2 * k)])
        self.joints.append(RawJoint(f"{name}_joint", kind, parent, name, position, axis=direction))
        return name

    def hold(self, a: str, b: str, at: tuple[float, float, float], there: tuple[float, float, float]) -> None:
        """Hold a point of one link to a point of another."""
        self.loops.append(Point(Frame(a, at), Frame(b, there)))

    def case(self, name: str, root: Root = "fixed") -> Case:
        """The mechanism."""
        return Case(name, build_tree(name, self.links, self.joints, root=root), tuple(self.loops))


def four_bars(n: int) -> Case:
    """A tower of ``n`` spatial four-bars (crank, rocker, a coupler on a ball), each on the coupler of the one below."""
    out, on = _Mechanism(), "base"
    for k in range(n):
        crank = out.add(f"crank{k}", on, REVOLUTE, (0.3, 0, 0))
        rocker = out.add(f"rocker{k}", on, REVOLUTE, (0.3, 0.3, 0))
        on = out.add(f"coupler{k}", crank, BALL, (0.3, 0, 0))
        out.hold(on, rocker, (0.3, 0.2, 0), (0.3, 0, 0))
    return out.case(f"four-bars, {n}")


def stewart_platform() -> Case:
    """A platform on a free joint, held by six legs of two turning joints and a slide."""
    out = _Mechanism()
    for k in range(6):
        x, y = math.cos(k), math.sin(k)
        cross = out.add(f"cross{k}", "base", REVOLUTE, (x, y, 0), 0.3)
        lower = out.add(f"lower{k}", cross, REVOLUTE, (0, 0, 0), 1.8)
        out.add(f"upper{k}", lower, PRISMATIC, (0.3, 0, 0))
    out.add("platform", "base", FREE, (0, 0, 1.0))
    for k in range(6):
        out.hold(f"upper{k}", "platform", (0.3, 0, 0), (0.5 * math.sin(k), 0.5 * math.cos(k), 0))
    return out.case("Stewart platform")


def _leg(out: _Mechanism, side: str, y: float, joints: Sequence[str], rods: Sequence[tuple[str, float]]) -> None:
    """A leg of turning joints, with a rod on balls from hip to tarsus, and others from cranks to the toe.

    Their far ends are held to points of the leg. ``rods``: name, and where on the toe.
    """
    link = "base"
    for k, name in enumerate(joints):
        link = out.add(f"{side}_{name}", link, REVOLUTE, (0.3 if k > 2 else 0.05, y if k == 0 else 0.0, 0.0))
    rod = out.add(f"{side}_achilles", f"{side}_hip", BALL, (0, 0.05, 0))
    out.hold(rod, f"{side}_tarsus", (0.5, 0, 0), (-0.1, 0, 0))
    for name, at in rods:
        crank = out.add(f"{side}_crank{name}", f"{side}_tarsus", REVOLUTE, (0.05, 0, 0.02))
        rod = out.add(f"{side}_rod{name}", crank, BALL, (0.05, 0, 0))
        out.hold(rod, f"{side}_toe", (0.3, 0, 0), (-0.05, at, 0))


def cassie_legs(stands: bool) -> Case:
    """Two legs as Cassie's: seven joints and two rods each."""
    out = _Mechanism()
    for side, y in SIDES:
        _leg(out, side, y, ("roll", "yaw", "hip", "knee", "shin", "tarsus", "toe"), (("", 0.0),))
        if stands:
            out.loops.append(Point(Frame(f"{side}_toe", (0.05, 0, 0))))
    return out.case("Cassie's legs" + (", standing" if stands else ""), "floating")


def digit_legs_and_arms() -> Case:
    """As Digit: legs with three rods each, and arms of four joints that hold a bar with both hands."""
    out = _Mechanism()
    for side, y in SIDES:
        joints = ("roll", "yaw", "hip", "knee", "shin", "tarsus", "pitch", "toe")
        _leg(out, side, y, joints, (("_a", 0.03), ("_b", -0.03)))
        link = "base"
        for k in range(4):
            link = out.add(f"{side}_arm{k}", link, REVOLUTE, (0.0 if k == 0 else 0.3, y if k == 0 else 0.0, 0.3))
    out.add("bar", "left_arm3", BALL, (0.3, 0, 0))
    out.hold("bar", "right_arm3", (0.3, 0, 0), (0.3, 0, 0))
    return out.case("Digit, arms hold a bar", "floating")


def humanoid_hand_in_hand() -> Case:
    """The humanoid, its feet welded to the world and its hands to each other."""
    return Case(
        "humanoid, hands welded", humanoid(), (*welds("left_foot", "right_foot"), Weld("left_hand", "right_hand"))
    )


def parallel_humanoid(differential: bool = True) -> Case:
    """The humanoid with the drives of today's legs, floating: 64 degrees of freedom with two of rotors, and 20 rows.

    *Ankles*: two cranks on the shin, whose rods, with mass, hang on balls and hold the foot. *Knees*: a crank on the
    thigh and a rod to the shin, a four-bar. *Torso*: yaw and pitch by a ``differential``, two rotors that turn ten
    times as fast as their sum and their difference; Pinocchio has no such rows. At zero all loops are closed. Joints
    are numbered depth first, as Pinocchio's functions of the mass matrix need them.
    """
    forward = rotation_about(np.array([0.0, 1.0, 0.0]), -math.pi / 2)
    crank, rotor = pendulum(1, length=0.06, mass=0.2), pendulum(1, length=0.02, mass=0.3)
    drives = {
        "knee": ("leg3", (0, 0.05, -0.03), "leg4", (0.06, 0.05, -0.05), 0.21),
        "outer": ("leg4", (0, 0.04, -0.05), "leg6", (0.06, 0.04, -0.05), 0.38),
        "inner": ("leg4", (0, -0.04, -0.05), "leg6", (0.06, -0.04, -0.05), 0.38),
    }
    tree, loops = humanoid(), list[Constraint]()
    for side in ("left", "right"):
        for name, (on, at, held, there, length) in drives.items():
            own = f"{side}_{name}_"
            tree = tree.attach(f"{side}_{on}", crank, at, forward, prefix=f"{own}crank_")
            rod = _rod_on_a_ball(length, 0.4 * length)
            tree = tree.attach(f"{own}crank_rod1", rod, (0, 0, -0.06), forward.T, prefix=own)
            loops.append(Point(Frame(f"{own}rod", (0, 0, -length)), Frame(f"{side}_{held}", there)))
    for own, sign in (("sum", 1.0), ("difference", -1.0)) if differential else ():
        tree = tree.attach("pelvis", rotor, (0, 0.08 * sign, 0.05), prefix=f"{own}_")
        turns = {"torso1_joint": 10.0, "torso2_joint": 10.0 * sign, f"{own}_rod1_joint": -1.0}
        loops.append(JointRows(turns))
    name = "humanoid, parallel legs" + (", differential" if differential else "")
    links, joints, _ = describe(tree, offsets=False)
    return Case(name, build_tree(tree.name, links, joints), tuple(loops))


def _rod_on_a_ball(length: float, mass: float) -> Tree:
    """A rod that hangs on a ball joint; all its moments are of a size."""
    inertia = mass * np.diag([length**2 / 12, length**2 / 12, 1e-3])
    base, rod = RawLink("base"), RawLink("rod", mass, np.array([0, 0, -length / 2]), inertia)
    return build_tree("rod", [base, rod], [RawJoint("rod_joint", BALL, "base", "rod", np.zeros(3))])


def rungs(n: int, ring: bool = False) -> Case:
    """Two rails of ``n`` links and ``n`` rungs on balls between them; the tips of rails that are a ring meet the base.

    In a ring, links of one rail are on balls: with turning joints alone it would be rigid.
    """
    out = _Mechanism()
    left = right = "base"
    for k in range(n):
        left = out.add(f"left{k}", left, BALL if ring else REVOLUTE, (0.3, 0.2 if k == 0 else 0.0, 0))
        right = out.add(f"right{k}", right, REVOLUTE, (0.3, -0.2 if k == 0 else 0.0, 0))
        rung = out.add(f"rung{k}", left, BALL, (0.3, 0, 0))
        out.hold(rung, right, (0.4, 0, 0), (0.3, 0, 0))
    if ring:
        out.hold(left, "base", (0.3, 0, 0), (-0.3, 0.2, 0))
        out.hold(right, "base", (0.3, 0, 0), (-0.3, -0.2, 0))
    return out.case(f"ring of {n} loops" if ring else f"ladder of {n} rungs", "floating" if ring else "fixed")


def welded_ladder(n: int) -> Case:
    """Two chains of ``4 n`` links, every fourth link of one welded to that of the other."""
    welds = tuple(Weld(f"left{4 * k}", f"right{4 * k}") for k in range(1, n + 1))
    return Case(f"ladder of {n} welds", ladder(4 * n), welds)


def grid(n: int) -> Case:
    """A net of ``n`` by ``n`` links on balls, each held to its neighbours; teeth of a comb are the tree."""
    out = _Mechanism()
    for x in range(n):
        for y in range(n):
            parent = f"link{x}_{y - 1}" if y else f"link{x - 1}_0" if x else "base"
            out.add(f"link{x}_{y}", parent, BALL, (0.3, 0, 0) if y else (0, 0.3, 0))
            if x and y:
                out.hold(f"link{x - 1}_{y}", f"link{x}_{y}", (0.1, 0.15, 0), (0.1, -0.15, 0))
    return out.case(f"grid of {n} by {n}")


def few_loops() -> list[Case]:
    """Linkages, platforms, legs and arms."""
    legs = cassie_legs(False), cassie_legs(True), digit_legs_and_arms()
    return [four_bars(1), four_bars(4), stewart_platform(), *legs, humanoid_hand_in_hand()]


def many_loops(sizes: Sequence[int], grids: Sequence[int]) -> list[Case]:
    """Towers of four-bars, ladders and rings of these numbers of loops; nets of these sizes."""
    makers = four_bars, rungs, welded_ladder, partial(rungs, ring=True)
    return [*(make(n) for make in makers for n in sizes), *map(grid, grids)]


def parallel_robots() -> Iterator[Case]:
    """Robots of ``shared/corpora/parallel_robots``, if that folder is beside the checkout, loops as their files say."""
    folders = (above / "shared" / "corpora" / "parallel_robots" for above in Path(__file__).resolve().parents)
    folder = next((path for path in folders if path.is_dir()), None)
    for path in sorted(folder.glob("*/robot.urdf")) if folder else ():
        with catch_warnings(action="ignore"):
            tree = load_parallel(path.parent)
        yield Case(path.parent.name, tree, tree.constraints)


def closed_states(case: Case, n: int, seed: int = 1) -> States | None:
    """Random states at which loops are closed and stay so; None where fewer than ``n`` of many close."""
    random, size = np.random.default_rng(seed), (n, case.tree.nv)
    try:
        q = random_configurations(case.tree, case.constraints, random, n)
    except ConstraintError:
        return None
    v = kept_closed(case.tree, case.constraints, q) @ random.normal(size=size)[..., None]
    return States(q, v[..., 0], 10 * random.normal(size=size))
