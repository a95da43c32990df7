"""Robots and constraint sets that the demo, the benchmarks, the claims and the tests share."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

import delassus as ds
from delassus.algorithms.dynamics import SOFT
from delassus.constraints import Constraint, Frame, Point, Rows, Weld
from delassus.formats.load import load
from delassus.formats.names import example_robot_files
from delassus.spatial.rotations import Array

GO1_FEET = ("FL_foot", "FR_foot", "RL_foot", "RR_foot")
TALOS_FEET = ("leg_left_6_link", "leg_right_6_link")
TALOS_HANDS = ("arm_left_7_link", "arm_right_7_link")
G1_ENDS = ("left_ankle_roll_link", "right_ankle_roll_link", "left_wrist_yaw_link", "right_wrist_yaw_link")
ATLAS_FEET, ATLAS_HANDS = ("l_foot", "r_foot"), ("l_hand", "r_hand")

COMPLIANCE = 1e-6
"""Of soft constraints in benchmarks."""


@dataclass(frozen=True, slots=True)
class Case:
    """A robot with constraints."""

    name: str
    tree: ds.Tree
    constraints: tuple[Constraint, ...]

    @property
    def world_only(self) -> bool:
        """Whether all constraints are welds and points to the world in local axes: those that all peers have."""
        return all(isinstance(c, Weld | Point) and c.second is None and c.axes == "local" for c in self.constraints)


@dataclass(frozen=True, slots=True)
class States:
    """Configurations (k, nq), velocities (k, nv) and joint forces (k, nv)."""

    q: Array
    v: Array
    tau: Array

    def first(self, k: int) -> States:
        """The first k states."""
        return States(self.q[:k], self.v[:k], self.tau[:k])


def dynamics_options(case: Case, method: str) -> dict[str, Any]:
    """Options of forward dynamics without passive forces; ``"METHOD, soft"``: `COMPLIANCE` on all constraints."""
    soft = (method in SOFT or method.endswith(", soft")) and case.constraints
    return {"method": method.removesuffix(", soft"), "compliance": COMPLIANCE if soft else None, "passive": "none"}


def random_states(case: Case, n: int, seed: int = 0) -> States:
    """Random configurations, velocities (1 rad/s) and joint forces (10 N·m)."""
    rng = np.random.default_rng(seed)
    nv = case.tree.nv
    return States(case.tree.random(seed, n), rng.normal(size=(n, nv)), 10 * rng.normal(size=(n, nv)))


# -- robots --------------------------------------------------------------------------------------------------------


class Unavailable(Exception):
    """A claim or a benchmark cannot be measured here; the text names the robot file or package that is missing."""


@cache
def quiet_load(robot: str | Path, root: Literal["fixed", "floating"] = "floating") -> ds.Tree:
    """Load a robot whose warnings do not matter for counting or timing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ds.DelassusWarning)
        return load(robot, root=root)


def robot_file(robots: Path | None, name: str, root: Literal["fixed", "floating"] = "floating") -> ds.Tree:
    """Robot of a file in the folder of robots; raises `Unavailable`."""
    if robots is None:
        raise Unavailable(f"give --robots FOLDER with {name}")
    if not (robots / name).is_file():
        raise Unavailable(f"{robots} has no {name}")
    return quiet_load(robots / name, root)


def installed(name: str) -> ds.Tree:
    """Robot of the package example-robot-data; raises `Unavailable`."""
    if name not in example_robot_files():
        raise Unavailable("needs the extra [robots]")
    return quiet_load(name)


LQR_ROBOTS: Mapping[str, tuple[Callable[[Path | None], ds.Tree], tuple[str, ...]]] = {
    "iiwa": (lambda robots: robot_file(robots, "iiwa.urdf", "fixed"), ("lbr_iiwa_link_7",)),
    "Go1": (lambda _: installed("go1"), GO1_FEET),
    "Atlas": (lambda robots: robot_file(robots, "atlas_v4.urdf"), (*ATLAS_FEET, *ATLAS_HANDS)),
    "Talos": (lambda _: installed("talos_full_v2"), (*TALOS_FEET, *TALOS_HANDS)),
}
"""Robots of [LQR] and the links that are constrained, in this order."""


def robot_of_lqr(robots: Path | None, name: str, constraints: str) -> tuple[ds.Tree, tuple[str, ...], int]:
    """Robot, constrained links, rows of each (3, 6), as the paper writes them (``"2F+H"``); raises `Unavailable`."""
    load, links = LQR_ROBOTS[name]
    number = sum(int(part[0]) if part[0].isdigit() else 1 for part in constraints.split("+"))
    return load(robots), links[:number], 3 if constraints.endswith("₃") else 6


# -- constraints ---------------------------------------------------------------------------------------------------


def welds(*links: str) -> tuple[Constraint, ...]:
    """A weld to the world on each link."""
    return tuple(Weld(link) for link in links)


def points(*links: str) -> tuple[Constraint, ...]:
    """A point at the origin of each link."""
    return tuple(Point(link) for link in links)


def general_rows(links: Sequence[str], m: int, seed: int = 0) -> tuple[Constraint, ...]:
    """Random rows (m × 6) on each link, as [LQR] IX-A takes them."""
    rng = np.random.default_rng(seed)
    return tuple(Rows(link, rng.normal(size=(m, 6))) for link in links)


def general_welds(links: Sequence[str], seed: int = 0) -> tuple[Constraint, ...]:
    """Welds at frames of general placement, as [EFPA] takes end-effector coordinates."""
    rng = np.random.default_rng(seed)
    out = []
    for link in links:
        R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        out.append(Weld(Frame(link, rng.uniform(-0.1, 0.1, 3), R * np.linalg.det(R))))
    return tuple(out)


def sole_points(feet: Sequence[str]) -> tuple[Constraint, ...]:
    """Four points under each foot."""
    corners = [(x, y, -0.08) for x in (0.1, -0.1) for y in (0.05, -0.05)]
    return tuple(Point(Frame(foot, corner)) for foot in feet for corner in corners)


# -- cases ---------------------------------------------------------------------------------------------------------


def chain_of(n: int) -> Case:
    """Chain of ``n`` links whose last is welded."""
    return Case(f"chain of {n}", ds.mechanisms.chain(n), welds(f"link{n}"))


def demo_case() -> Case:
    """Talos standing, if its description is installed; else the built-in humanoid."""
    if "talos_reduced" in example_robot_files():
        return Case("Talos (example-robot-data), feet welded", quiet_load("talos_reduced"), welds(*TALOS_FEET))
    return Case("built-in humanoid, feet welded", ds.mechanisms.humanoid(), welds("left_foot", "right_foot"))


def benchmark_cases(quick: bool = False) -> list[Case]:
    """The built-in humanoid and the benchmark robots that are installed; or, ``quick``, an arm of seven links."""
    if quick:
        return [Case("chain of 7, tip held", ds.mechanisms.chain(7), points("link7"))]
    cases = [Case("humanoid, 2 welds", ds.mechanisms.humanoid(), welds("left_foot", "right_foot"))]
    robots = (
        ("talos_reduced", "Talos, 2 welds", welds(*TALOS_FEET)),
        ("go1", "Go1, 4 points", points(*GO1_FEET)),
        ("g1_29dof_rev_1_0", "G1, 4 welds", welds(*G1_ENDS)),
    )
    here = example_robot_files()
    return cases + [Case(name, quiet_load(robot), made) for robot, name, made in robots if robot in here]
