"""Robots and constraint sets that the demo, the benchmarks and the reproduction of claims share."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from delassus.constraints import Constraint, Frame, Point, Rows, Weld
from delassus.errors import DelassusWarning
from delassus.interop.load import load
from delassus.interop.names import example_robot_files
from delassus.model.mechanisms import humanoid
from delassus.model.tree import Tree

GO1_FEET = ("FL_foot", "FR_foot", "RL_foot", "RR_foot")
TALOS_FEET = ("leg_left_6_link", "leg_right_6_link")
TALOS_HANDS = ("arm_left_7_link", "arm_right_7_link")
G1_ENDS = ("left_ankle_roll_link", "right_ankle_roll_link", "left_wrist_yaw_link", "right_wrist_yaw_link")


@dataclass(frozen=True, slots=True)
class Case:
    """A robot with constraints."""

    name: str
    tree: Tree
    constraints: tuple[Constraint, ...]


def quiet_load(robot: str | Path, root: Literal["fixed", "floating"] = "floating") -> Tree:
    """Load a robot whose oddities are known and do not matter for counting or timing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DelassusWarning)
        return load(robot, root=root)


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


def demo_case() -> Case:
    """Talos standing, if its description is installed; else the built-in humanoid."""
    if "talos_reduced" in example_robot_files():
        return Case("Talos (example-robot-data), feet welded", quiet_load("talos_reduced"), welds(*TALOS_FEET))
    return Case("built-in humanoid, feet welded", humanoid(), welds("left_foot", "right_foot"))


def benchmark_cases() -> list[Case]:
    """The benchmark robots that are installed, and the built-in humanoid."""
    cases = [Case("humanoid, 2 welds", humanoid(), welds("left_foot", "right_foot"))]
    installed = example_robot_files()
    if "talos_reduced" in installed:
        cases.append(Case("Talos, 2 welds", quiet_load("talos_reduced"), welds(*TALOS_FEET)))
    if "go1" in installed:
        cases.append(Case("Go1, 4 points", quiet_load("go1"), points(*GO1_FEET)))
    if "g1_29dof_rev_1_0" in installed:
        cases.append(Case("G1, 4 welds", quiet_load("g1_29dof_rev_1_0"), welds(*G1_ENDS)))
    return cases
