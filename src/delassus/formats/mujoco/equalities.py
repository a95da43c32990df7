"""Equality constraints and springs of MuJoCo: of a model, as constraints of a tree; and back, as elements of MJCF."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from delassus.constraints import Constraint, Frame, JointRows, Point, SpringDamper, Tendon, Weld
from delassus.constraints.tendon import shifted
from delassus.formats.mujoco.named import NamedModel
from delassus.formats.text import element, tidy
from delassus.model.describe import SAME
from delassus.model.description import unique_name
from delassus.model.kinematics import world_poses
from delassus.model.topology import WORLD, Placement, Topology
from delassus.model.tree import Tree
from delassus.spatial.rotations import Array, matrix_to_quaternion, quaternion_to_matrix

Pose = tuple[Array, Array]
"""Rotation and position."""

# -- reading -------------------------------------------------------------------------------------------------------


def constraints_of(model: NamedModel, tree: Tree) -> tuple[tuple[Constraint, ...], list[str]]:
    """Constraints for the active equalities, and the names of those that a tree cannot hold."""
    names, bodies, joints = model.names_of("equality"), model.names_of("body"), model.names_of("joint")
    held, others = [], []
    for e in np.flatnonzero(model.active_equalities()).tolist():
        constraint: Constraint | None = None
        match model.word("mjtEq", model.eq_type[e]):
            case "connect" | "weld" as kind:
                constraint = _between_bodies(model, e, kind == "weld", tree, bodies)
            case "joint":
                constraint = _coupling(model, e, *(_joint(model, j, joints) for j in _objects(model, e)))
            case "tendon":
                constraint = _coupling(model, e, *(_tendon(model, t, joints) for t in _objects(model, e)))
        if constraint is None:
            others.append(names[e])
        else:
            held.append(constraint)
    return tuple(held), others


def _objects(model: NamedModel, e: int) -> tuple[int, int]:
    """Numbers of what an equality is between; −1 where there is no second one."""
    return int(model.eq_obj1id[e]), int(model.eq_obj2id[e])


def _between_bodies(model: NamedModel, e: int, is_weld: bool, tree: Tree, body_names: list[str]) -> Constraint | None:
    """Two frames that coincide where the file's constraint is fulfilled; None within one rigid body."""
    pair, data = _objects(model, e), model.eq_data[e]
    if model.word("mjtObj", model.eq_objtype[e]) == "site":
        first, second = (_at_site(model, s, body_names) for s in pair)
    elif is_weld:
        first = Frame(body_names[pair[0]], data[3:6], rotation_of(data[6:10]))
        second = Frame(body_names[pair[1]], data[:3])
    else:
        first, second = Frame(body_names[pair[0]], data[:3]), Frame(body_names[pair[1]], data[3:6])
    if first.carrier(tree) == second.carrier(tree):
        return None
    turns = is_weld and data[10] != 0.0  # without a torque scale, only the position is held
    return Weld(first, second) if turns else Point(first, second)


def _at_site(model: NamedModel, site: int, body_names: list[str]) -> Frame:
    return Frame(body_names[model.site_bodyid[site]], model.site_pos[site], rotation_of(model.site_quat[site]))


def springs_of(model: NamedModel, tree: Tree) -> tuple[tuple[SpringDamper | Tendon, ...], list[str], list[str]]:
    """Springs, dampers and limits of tendons: straight ones, paths through sites, and fixed ones.

    And names of the other tendons with springs, dampers or friction, and with limits.
    """
    joints, held, others, free = model.names_of("joint"), list[SpringDamper | Tendon](), list[str](), list[str]()
    curved = {*model.having("tendon", "tendon_stiffnesspoly", "tendon_dampingpoly", "tendon_springyield")}
    rough, stops = {*model.having("tendon", "tendon_frictionloss")}, not model.is_disabled("LIMIT", "CONSTRAINT")
    for t, name in enumerate(model.names_of("tendon")):
        k = 0.0 if model.is_disabled("SPRING", "PASSIVE") else float(model.tendon_stiffness[t])
        d = 0.0 if model.is_disabled("DAMPER", "PASSIVE") else float(model.tendon_damping[t])
        along, limited = _tendon(model, t, joints), bool(model.tendon_limited[t]) and stops
        moves = along is not None and _moves(along, tree)
        if name in curved or name in rough or ((k or d) and (not moves or min(k, d) < 0.0)):
            others.append(name)
        if limited and not moves:
            free.append(name)
        if along is None or not moves:
            continue
        if name not in curved and min(k, d) >= 0.0 and max(k, d) > 0.0:
            held += _springs(along, k, d, *(float(x) for x in model.tendon_lengthspring[t]))
        if limited:
            held.append(Tendon(along.path, along.ratios, length=model.tendon_range[t]))
    return tuple(held), others, free


def _moves(along: Length, tree: Tree) -> bool:
    frames = (x.carrier(tree) for x in along.path if isinstance(x, Frame))
    return bool(along.ratios) or len({*frames}) > 1


def _springs(along: Length, k: float, d: float, lower: float, upper: float) -> list[SpringDamper | Tendon]:
    """A spring and damper; two where the spring has limits, beyond which alone it acts."""
    path, ratios = along.path, along.ratios
    if k and lower < upper:
        damper = [Tendon(path, ratios, length=along.start, damping=d)] if d else []
        return [Tendon(path, ratios, length=(lower, upper), stiffness=k), *damper]
    length = lower if k else along.start
    if len(path) != 2 or length <= 0.0:
        return [Tendon(path, ratios, length=length, stiffness=k, damping=d)]
    return [SpringDamper(path[0], path[1], k, d, length=length)]  # type: ignore[arg-type]


def rotation_of(quaternion: Array) -> Array:
    """Rotation matrices (..., 3, 3) of MuJoCo's quaternions [w x y z] (..., 4)."""
    return quaternion_to_matrix(np.roll(quaternion, -1, axis=-1) / np.linalg.norm(quaternion, axis=-1, keepdims=True))


class Length(NamedTuple):
    """Path through sites, coefficients of joint positions, and the length that these make at ``qpos0``."""

    path: tuple[Frame | float, ...]
    ratios: dict[str, float]
    start: float


NO_LENGTH = Length((), {}, 0.0)


def _joint(model: NamedModel, joint: int, joint_names: list[str]) -> Length:
    """Position of a joint; zero where there is none."""
    if joint < 0:
        return NO_LENGTH
    return Length((), {joint_names[joint]: 1.0}, float(model.qpos0[model.jnt_qposadr[joint]]))


def _tendon(model: NamedModel, tendon: int, joint_names: list[str]) -> Length | None:
    """Length of a tendon; zero where there is none, None of one that wraps around geoms."""
    if tendon < 0:
        return NO_LENGTH
    start, ratios = float(model.tendon_length0[tendon]), model.fixed_tendon(tendon)
    if ratios is not None:
        return Length((), {joint_names[j]: ratio for j, ratio in ratios.items()}, start)
    path, body_names = list[Frame | float](), model.names_of("body")
    for w in range(int(model.tendon_adr[tendon]), int(model.tendon_adr[tendon]) + int(model.tendon_num[tendon])):
        match model.word("mjtWrap", model.wrap_type[w]):
            case "site":
                path.append(_at_site(model, int(model.wrap_objid[w]), body_names))
            case "pulley":
                path.append(float(model.wrap_prm[w]))
            case _:
                return None
    return Length(tuple(path), {}, start)


def _coupling(model: NamedModel, e: int, first: Length | None, second: Length | None) -> Constraint | None:
    """``l₁ − l₁⁰ = Σ c_k (l₂ − l₂⁰)^k`` as a row; None of a tendon that wraps around geoms."""
    constant, slope, *higher = (float(c) for c in model.eq_data[e][:5])
    if first is None or second is None:
        return None
    if first.path or second.path or (second.ratios and any(higher)):
        follows = Tendon(second.path, second.ratios) if second.path or second.ratios else None
        powers, moved = shifted((slope, *higher), -second.start)
        powers = powers[: max([k for k, x in enumerate(powers, 1) if x], default=1)]
        length = first.start + constant + (moved if follows else 0.0)
        return Tendon(
            first.path, first.ratios, length=length, follows=follows, polynomial=powers if follows else (1.0,)
        )
    row = dict(first.ratios)
    for joint, ratio in second.ratios.items():
        row[joint] = row.get(joint, 0.0) - slope * ratio
    row = {joint: x for joint, x in row.items() if x}
    return JointRows(row, rest=first.start + constant - slope * second.start) if row else None


# -- writing -------------------------------------------------------------------------------------------------------


@dataclass
class Equalities:
    """Elements of MJCF that hold the constraints of a tree, and the constraints that no such element does."""

    lines: list[str] = field(default_factory=list)
    tendons: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    sites: dict[str, list[tuple[str, Array]]] = field(default_factory=dict)
    """Name and position of sites that tendons end at, by the body that they are on."""


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
    for number, constraint in enumerate(tree.constraints):
        tendon = constraint.as_tendon(tree)
        if tendon is not None:
            name = f"{'tendon' if tendon.holds else 'spring'}{number}"
            if not _write_tendon(out, tendon, unique_name(name, taken), tree, q, carriers, bodies):
                out.others.append(repr(constraint))
            continue
        rows = constraint.couplings()
        if rows is not None:
            for row, rest in rows:
                _couple(out, row, rest, at_start, taken)
            continue
        free = [frame for frame in constraint.frames if frame.given is None]
        ends, led = [frame.on(tree) for frame in free], [tree.placement(frame.link).moved_by for frame in free]
        selected = constraint.constant_rows if len(ends) == len(constraint.frames) > 0 else None
        is_weld = _same(selected, np.eye(6)) and constraint.rigid
        is_point = _same(selected, np.eye(6)[:3]) and not constraint.rigid
        if not (is_weld or is_point):
            out.others.append(repr(constraint))
            continue
        in_world = [compose(poses[at.link], (at.rotation, at.position)) for at in ends]
        if len(ends) == 1:  # it is held where it starts
            ends.append(Placement(WORLD, *in_world[0]))
            led.append("")
            in_world.append(in_world[0])
        on = [carriers[at.link] if at.link != WORLD else ("world", carriers[WORLD][1]) for at in ends]
        on = [(body, tree.frames[body]) if body else at for body, at in zip(led, on, strict=True)]
        names = [name for name, _ in on]
        if not {*names} <= {"world", *led, *bodies}:
            out.others.append(repr(constraint))
            continue
        (R, p), (S, anchor) = (_in_link(at, body) for at, (_, body) in zip(ends, on, strict=True))
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


def _path_of(
    out: Equalities, name: str, path: Iterable[Frame | float], numbers: Mapping[str, Any], tree: Any,
    carriers: Mapping[int, tuple[str, Placement]], bodies: Collection[str],
) -> bool:  # fmt: skip
    """Add a tendon through sites; False where one is on no body that is written, or comes with each call."""
    lines = list[str]()
    for k, x in enumerate(path):
        if not isinstance(x, Frame):
            lines.append(element(3, "pulley", {"divisor": x}))
            continue
        if x.given is not None or tree.placement(x.link).moved_by:
            return False
        at = x.on(tree)
        body, link = carriers[at.link] if at.link != WORLD else ("world", carriers[WORLD][1])
        if body not in {"world", *bodies}:
            return False
        lines.append(element(3, "site", {"site": _site_at(out, at, body, link, tree, f"{name}_{k}")}))
    out.tendons += [element(2, "spatial", {"name": name, **numbers}, is_open=True), *lines, "    </spatial>"]
    return True


def _write_tendon(
    out: Equalities, tendon: Tendon, name: str, tree: Any, q: Array,
    carriers: Mapping[int, tuple[str, Placement]], bodies: Collection[str],
) -> bool:  # fmt: skip
    """Add a tendon with its spring, or an equality of its length at ``qpos0``; False of what MJCF does not have."""
    follows = tendon.follows
    each = [(name, tendon)] if follows is None else [(name, tendon), (f"{name}_followed", follows)]
    if any((x.path and x.ratios) for _, x in each) or (follows is not None and not tendon.holds):
        return False
    if follows is not None and (follows.follows is not None or len(tendon.polynomial) > 4):
        return False
    numbers, rest = dict[str, Any](), tendon if tendon.length is not None else tendon.at_rest(tree, q)
    if tendon.band and tendon.stiffness is None and tendon.damping is None:
        numbers = {"limited": "true", "range": np.array(tendon.band)}
    elif not tendon.holds:
        length: Any = tendon.at_rest(tree, tree.neutral()).length
        numbers = {"stiffness": tendon.stiffness or 0.0, "damping": tendon.damping or 0.0, "springlength": length}
        if tendon.stiffness and np.min(length) < 0.0:  # those are of ``qpos0``
            return False
        if tendon.band and tendon.damping:
            return False
    for own, x in each:
        if x.path and not _path_of(out, own, x.path, numbers, tree, carriers, bodies):
            return False
        if not x.path:
            out.tendons += fixed_tendon(own, x.ratios, numbers)
    if not tendon.holds:
        return True
    first, moved = Tendon(tendon.path, tendon.ratios).error_at(tree, q), 0.0
    powers: tuple[float, ...] = (0.0,)
    second = {}
    if follows is not None:
        powers, moved = shifted(tendon.polynomial, follows.error_at(tree, q))
        second = {"tendon2": each[1][0]}
    polynomial = np.array(
        [(rest.length if isinstance(rest.length, float) else 0.0) + moved - first, *powers, *[0.0] * (4 - len(powers))]
    )
    out.lines.append(element(2, "tendon", {"tendon1": name, **second, "polycoef": polynomial}))
    return True


def _site_at(out: Equalities, at: Placement, body: str, link: Placement, tree: Topology, new: str) -> str:
    """Name of a site at the origin of a frame: one of the tree's frames, or a ``new`` one."""
    for name, own in tree.frames.items():
        is_site = name not in tree.link_names and name != "world" and not own.moved_by
        if is_site and own.link == at.link and np.max(np.abs(own.position - at.position)) <= SAME:
            return name
    name = unique_name(new, set(tree.frames))
    out.sites.setdefault(body, []).append((name, _in_link(at, link)[1]))
    return name


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
    out.tendons += fixed_tendon(tendon, row)
    constant = rest - sum(x * at_start[name][0] for name, x in row.items())
    polynomial = np.array([constant, 0.0, 0.0, 0.0, 0.0])
    out.lines.append(element(2, "tendon", {"tendon1": tendon, "polycoef": polynomial}))


def fixed_tendon(
    name: str, coefficients: Mapping[str, float], numbers: Mapping[str, Any] = MappingProxyType({})
) -> list[str]:
    """Lines of a tendon on joints."""
    parts = [element(3, "joint", {"joint": joint, "coef": x}) for joint, x in coefficients.items()]
    return [element(2, "fixed", {"name": name, **numbers}, is_open=True), *parts, "    </fixed>"]


def _same(rows: Any, wanted: Array) -> bool:
    return rows is not None and np.array_equal(rows, wanted)


def compose(a: Pose, b: Pose) -> Pose:
    """Pose ``b`` in the frame ``a``, in that of ``a``."""
    return a[0] @ b[0], a[1] + a[0] @ b[1]


def _in_link(at: Placement, link: Placement) -> Pose:
    """Pose of a placement in another one of the same body."""
    return link.rotation.T @ at.rotation, link.rotation.T @ (at.position - link.position)
