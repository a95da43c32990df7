"""Constraints of a tree as a description says them: joints that follow others, and equality constraints of MJCF."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from delassus.formats.text import element, tidy
from delassus.model.describe import SAME
from delassus.model.description import unique_name
from delassus.model.kinematics import world_poses
from delassus.model.topology import WORLD, Placement, Topology
from delassus.spatial.rotations import Array, matrix_to_quaternion


@dataclass
class Equalities:
    """Elements of MJCF that hold the constraints of a tree, and the constraints that no such element does."""

    lines: list[str] = field(default_factory=list)
    tendons: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


def equalities(
    tree: Topology,
    carriers: Mapping[int, tuple[str, Placement]],
    bodies: Collection[str],
    at_start: Mapping[str, Array],
) -> Equalities:
    """Equality constraints of MJCF, where joints have the coordinates ``at_start`` at ``qpos0``.

    ``carriers`` are the name of each link, and where the frame of that name is in its body frame; ``bodies`` those that
    are written.
    """
    out = Equalities()
    q = np.concatenate([np.zeros(0), *at_start.values()])
    poses = [*world_poses(tree, q), (np.eye(3), np.zeros(3))]  # the last one is the world's
    taken = {actuator.name for actuator in tree.actuators}
    for constraint in tree.constraints:
        rows = constraint.couplings()
        if rows is not None:
            for row, rest in rows:
                _couple(out, row, rest, at_start, taken)
            continue
        ends = [frame.on(tree) for frame in constraint.frames if frame.given is None]
        selected = constraint.constant_rows if len(ends) == len(constraint.frames) > 0 else None
        is_weld = _same(selected, np.eye(6)) and constraint.rigid
        is_point = _same(selected, np.eye(6)[:3]) and not constraint.rigid
        if not (is_weld or is_point):
            out.others.append(repr(constraint))
            continue
        in_world = [_compose(poses[at.link], (at.rotation, at.position)) for at in ends]
        if len(ends) == 1:  # it is held where it starts
            ends.append(Placement(WORLD, *in_world[0]))
            in_world.append(in_world[0])
        names = ["world" if at.link == WORLD else carriers[at.link][0] for at in ends]
        if not {*names} <= {"world", *bodies}:
            out.others.append(repr(constraint))
            continue
        (R, p), (S, anchor) = (_in_link(at, carriers[at.link][1]) for at in ends)
        between = {"body1": names[0], "body2": names[1]}
        gap = np.max(np.abs(in_world[0][1] - in_world[1][1]))
        if is_point and gap <= SAME * max(1.0, float(np.max(np.abs(in_world[0][1])))):
            out.lines.append(element(2, "connect", {**between, "anchor": tidy(p)}))
            continue
        turn = np.roll(matrix_to_quaternion(R @ S.T if is_weld else np.eye(3)), 1)
        pose = np.concatenate([tidy(p), tidy(turn)])
        scale = {} if is_weld else {"torquescale": "0"}  # which holds the position only
        out.lines.append(element(2, "weld", {**between, "anchor": tidy(anchor), "relpose": pose, **scale}))
    return out


def _couple(
    out: Equalities, row: Mapping[str, float], rest: float, at_start: Mapping[str, Array], taken: set[str]
) -> None:
    """Add a row: of one or two joints, else of a tendon. Lengths of MJCF are relative to those at ``qpos0``."""
    names, factors = list(row), list(row.values())
    if len(row) <= 2:
        slopes = [-x / factors[0] for x in factors[1:]]
        followed = sum(slope * at_start[name][0] for slope, name in zip(slopes, names[1:], strict=True))
        constant = rest / factors[0] - at_start[names[0]][0] + followed
        joints = {f"joint{k}": name for k, name in enumerate(names, start=1)}
        polynomial = np.array([constant, *(slopes or [0.0]), 0.0, 0.0, 0.0])
        out.lines.append(element(2, "joint", {**joints, "polycoef": polynomial}))
        return
    tendon = unique_name(f"coupling{len(out.lines)}", taken)
    parts = [element(3, "joint", {"joint": name, "coef": x}) for name, x in row.items()]
    out.tendons += [element(2, "fixed", {"name": tendon}, is_open=True), *parts, "    </fixed>"]
    constant = rest - sum(x * at_start[name][0] for name, x in row.items())
    polynomial = np.array([constant, 0.0, 0.0, 0.0, 0.0])
    out.lines.append(element(2, "tendon", {"tendon1": tendon, "polycoef": polynomial}))


def _same(rows: Any, wanted: Array) -> bool:
    return rows is not None and np.array_equal(rows, wanted)


def _compose(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    return a[0] @ b[0], a[1] + a[0] @ b[1]


def _in_link(at: Placement, link: Placement) -> tuple[Array, Array]:
    """Pose of a placement in another one of the same body."""
    return link.rotation.T @ at.rotation, link.rotation.T @ (at.position - link.position)
