"""Compiled contact steps on random problems, each result judged anew from Jacobians and mass matrices in float64.

Fixed and floating mechanisms with masses of 1 to 1000; spheres, capsules and boxes on planes, given ground and other
links, some of them twice in the same place; limits, dry friction and loops; random states, time steps and
impulses to start from. Of each state the judge takes the impulses only: it computes velocities, gaps and residuals by
`delassus.frame_jacobian`, `jacobian`, `mass_matrix` and `forward_dynamics`, and where loops are, by their motion
without contacts. A state that the kernel calls solved is *wrong* if its true residual, or the difference of its
velocities from those that its impulses make, is above the tolerance; beyond round-off, if by more than that of gaps,
over ``dt``, and of velocities. What turns with a joint is compared by its length.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

import delassus as ds
from delassus.algorithms.contact.law import CORRECTION
from delassus.cli.tables import Record, environment, table
from delassus.constraints import Constraint, Contact, Frame, Point, bounded_joints
from delassus.constraints.contact import frame_of
from delassus.model.description import RawJoint, RawLink, Root
from delassus.model.edit.build import build_tree
from delassus.runtime.compile import compile_at_once
from delassus.spatial.joint_kinds import BALL, FREE, PRISMATIC, REVOLUTE
from delassus.spatial.motion import ANGULAR, LINEAR
from delassus.spatial.numpy_ops import NUMPY
from delassus.spatial.rotations import Array, quaternion_to_matrix
from delassus_studies.timing import each

TOLERANCE = 1e-4
KERNELS = ("nsgs, float64", "pgs, float64", "admm, float64", "nsgs, float32")
"""Solver and type."""
TINY = 1e-30
"""Added to mobilities, which are zero where a mechanism cannot move."""
CLOSED = 2e-5
"""Gap (m) up to which contacts touch."""
EPS_GAP = 16.0
"""Round-off of gaps (m) and of velocities (of their own size), in ε of the kernel's dtype."""


@dataclass(frozen=True, slots=True)
class Problems:
    """A mechanism with contacts, and states of it: arguments of the kernel by name, but for impulses."""

    tree: ds.Tree
    constraints: tuple[Constraint, ...]
    values: dict[str, Array]
    start: float

    @property
    def contacts(self) -> list[tuple[int, Contact]]:
        """Contacts, by their numbers among the constraints."""
        return [(i, c) for i, c in enumerate(self.constraints) if isinstance(c, Contact)]

    @property
    def loops(self) -> list[Constraint]:
        """What always acts."""
        return [c for c in self.constraints if not isinstance(c, Contact)]


# -- problems --------------------------------------------------------------------------------------------------------


def _rotation(rng: np.random.Generator) -> Array:
    x = rng.normal(size=4)
    return np.asarray(quaternion_to_matrix(x / np.linalg.norm(x)))


def _mechanism(rng: np.random.Generator) -> ds.Tree:
    n = int(rng.integers(1, 6))
    root: Root = "floating" if n == 1 or rng.random() < 0.6 else "fixed"
    links = []
    for k in range(n):
        mass, R = 10 ** rng.uniform(-1.5, 1.5), _rotation(rng)
        moments = rng.uniform(0.03, 0.2, 3) ** 2
        inertia = mass * R @ np.diag(moments.sum() - moments) @ R.T
        links.append(RawLink(f"l{k}", mass, rng.uniform(-0.1, 0.1, 3), inertia))
    kinds = (REVOLUTE, REVOLUTE, PRISMATIC, BALL)
    joints = []
    for k in range(1, n):
        one = kinds[rng.integers(len(kinds))]
        wide = one.nv == 1 and rng.random() < 0.5
        parent = f"l{k - 1 if rng.random() < 0.6 else int(rng.integers(k))}"
        place = rng.uniform(-0.4, 0.4, 3), _rotation(rng), rng.normal(size=3)
        lower, upper = (-0.5, float(rng.uniform(0.1, 0.6))) if wide else (-np.inf, np.inf)
        friction = float(rng.uniform(0.01, 2.0)) if one.nv == 1 and rng.random() < 0.4 else 0.0
        joints.append(RawJoint(f"j{k}", one, parent, f"l{k}", *place, lower=lower, upper=upper, friction=friction))
    return build_tree("random", links, joints, root=root)


def _contact(rng: np.random.Generator, tree: ds.Tree) -> Contact:
    link = str(rng.choice(tree.link_names))
    frame = Frame(link, rng.uniform(-0.2, 0.2, 3), _rotation(rng))
    options = {"friction": float(rng.uniform(0, 1.2)) if rng.random() < 0.9 else 0.0}
    others = [x for x in tree.link_names if x != link]
    if others and rng.random() < 0.15:
        other = Frame(str(rng.choice(others)), rng.uniform(-0.2, 0.2, 3))
        return Contact(frame, ds.contact.Sphere(0.05), (other, ds.contact.Sphere(0.1)), **options)
    tilted = Frame("world", (0, 0, 0.0), _rotation(rng))
    ground: Any = tilted if rng.random() < 0.15 else "input" if rng.random() < 0.2 else "plane"
    draw = rng.random()
    shape = (
        ds.contact.Box(0.2, 0.15, 0.1)
        if draw < 0.15
        else ds.contact.Capsule(0.04, 0.2)
        if draw < 0.4
        else ds.contact.Sphere(0.05)
    )
    return Contact(frame, shape, ground, **options)


def problems(seed: int, n: int) -> Problems:
    """A random mechanism, and ``n`` states in which it touches or will touch."""
    rng = np.random.default_rng(seed)
    tree = _mechanism(rng)
    contacts = [_contact(rng, tree)]
    while sum(c.n_points for c in contacts) < 3 or (rng.random() < 0.6 and sum(c.n_points for c in contacts) < 6):
        contacts.append(contacts[-1] if rng.random() < 0.15 else _contact(rng, tree))
    constraints: list[Constraint] = list(contacts)
    if tree.n_links > 3 and tree.nv > 8 and rng.random() < 0.5:
        a, b = rng.choice(tree.n_links, 2, replace=False)
        constraints.append(Point(*(Frame(tree.link_names[x], rng.uniform(-0.2, 0.2, 3)) for x in (a, b))))
    q = tree.random(rng, batch=n)
    speed = 10 ** rng.uniform(-2, 0.5, (n, 1))
    values = {
        "q": q,
        "v": speed * rng.normal(size=(n, tree.nv)),
        "tau": 10 ** rng.uniform(-1, 1, (n, 1)) * rng.normal(size=(n, tree.nv)),
        "dt": 10 ** rng.uniform(-4, -2, n),
    }
    made = Problems(tree, tuple(constraints), values, float(rng.choice([0.0, 0.01])))
    for i, c in made.contacts:
        if c.ground == "input":
            normals = rng.normal([0.0, 0.0, 4.0], 1.0, (n, c.n_points, 3))
            normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
            values[f"ground{i}"] = np.concatenate([rng.uniform(-0.2, 0.2, (n, c.n_points, 1)), normals], axis=-1)
    if tree.link_names and tree.joints[0].kind is FREE:  # lowest point just above, or on, a plane
        planes = [i for i, c in made.contacts if c.ground == "plane" and c.second is None]
        if planes:
            low = np.min([x.gap for x in geometry(made) if x.contact in planes], axis=0)
            q[:, 2] += np.where(rng.random(n) < 0.5, -2e-5, 10 ** rng.uniform(-5, -2, n)) - low
    return made


# -- the judge -------------------------------------------------------------------------------------------------------


class ContactPoint(NamedTuple):
    """A contact point at all states: gap (n,), rows (n, 3, nv) along two tangents and the normal.

    And these axes (n, 3, 3, as columns), the centre (n, 3) of its sphere, its radius, and the point (n, 3) between the
    surfaces.
    """

    contact: int
    law: Contact
    gap: Array
    rows: Array
    axes: Array
    centre: Array
    radius: float
    point: Array


def _tangents(normal: Array) -> Array:
    """Tangents and normal as columns (n, 3, 3), as kernels choose them."""
    return np.asarray(frame_of(NUMPY, list(np.moveaxis(normal, -1, 0))))


def _point_rows(tree: ds.Tree, q: Array, link: str, point: Array) -> Array:
    """Velocity in the world (n, 3, nv) of the material point of a link that is at ``point`` (n, 3)."""
    J = ds.frame_jacobian(tree, q, link, reference="local-world-aligned")
    arm = point - ds.forward_kinematics(tree, q, [link])[:, 0, :3, 3]
    return np.asarray(J[:, :3] + np.cross(J[:, 3:], arm[:, :, None], axisa=1, axisb=1, axisc=1))


def geometry(made: Problems) -> list[ContactPoint]:
    """All contact points."""
    tree, q = made.tree, made.values["q"]
    n, out = len(q), []
    for i, c in made.contacts:
        pose = ds.forward_kinematics(tree, q, [c.frame])[:, 0]
        for k, (at_in_frame, radius) in enumerate(c.spheres):
            centre = pose[:, :3, 3] + pose[:, :3, :3] @ at_in_frame
            if c.second is not None and isinstance(c.second_shape, ds.contact.Sphere):
                offset = centre - ds.forward_kinematics(tree, q, [c.second])[:, 0, :3, 3]
                distance = np.linalg.norm(offset, axis=-1)
                axes = _tangents(offset / distance[:, None])
                gap = distance - radius - c.second_shape.radius
            elif c.ground == "input":
                height, normal = made.values[f"ground{i}"][:, k, 0], made.values[f"ground{i}"][:, k, 1:]
                axes, gap = _tangents(normal), normal[:, 2] * (centre[:, 2] - height) - radius
            else:
                R, at = (c.ground.rotation, c.ground.position) if isinstance(c.ground, Frame) else (np.eye(3), 0.0)
                axes, gap = np.broadcast_to(R, (n, 3, 3)), (centre - at) @ R[:, 2] - radius
            point = centre - (0.5 * gap + radius)[:, None] * axes[:, :, 2]
            where = point
            if c.second is None:  # on the link where it is open
                where = point + 0.5 * np.maximum(gap, 0.0)[:, None] * axes[:, :, 2]
            rows = _point_rows(tree, q, c.frame.link, where)
            if c.second is not None:
                rows = rows - _point_rows(tree, q, c.second.link, point)
            out.append(ContactPoint(i, c, gap, np.swapaxes(axes, 1, 2) @ rows, axes, centre, radius, point))
    return out


def _halfway(tree: ds.Tree, q: Array, later: Array, frame: Frame, x: Array) -> Array:
    """How far (n, 3) the points of shapes go that are at ``x`` (n, 3) halfway, while their origins go straight."""
    from scipy.spatial.transform import Rotation

    T, E = (ds.forward_kinematics(tree, y, [frame])[:, 0] for y in (q, later))
    turn = Rotation.from_matrix(E[:, :3, :3] @ np.swapaxes(T[:, :3, :3], 1, 2)).as_rotvec()
    return np.asarray(E[:, :3, 3] - T[:, :3, 3] + np.cross(turn, x - 0.5 * (T[:, :3, 3] + E[:, :3, 3])))


def turning(made: Problems, points: list[ContactPoint]) -> Array:
    """What velocities of the displacement differ by from those of rows (n, points, 3), where contacts touch and turn.

    It is cut where it would turn velocities by more than to their opposite.
    """
    tree, q, v, dt = made.tree, made.values["q"], made.values["v"], made.values["dt"][:, None]
    later, _ = compile_at_once(tree, (), "position_update")(q, v, dt[:, 0], np.zeros_like(v))
    ahead = geometry(Problems(tree, made.constraints, {**made.values, "q": later}, made.start))
    out, ends = np.zeros((len(q), len(points), 3)), list[Array]()
    for k, (x, y) in enumerate(zip(points, ahead, strict=True)):
        n, to, gap = x.axes[:, :, 2], x.axes[:, :, 2], y.gap
        if x.law.second is None:  # the plane of the start
            gap = x.gap + np.einsum("ni,ni->n", n, y.centre - x.centre)
        else:
            to = y.axes[:, :, 2]
        ends.append(gap)
        middle = 0.5 * (x.point + y.centre - (0.5 * gap + x.radius)[:, None] * to)
        way = _halfway(tree, q, later, x.law.frame, middle)
        if x.law.second is not None:
            way = way - _halfway(tree, q, later, x.law.second, middle)
        half = (n + to) / np.linalg.norm(n + to, axis=1, keepdims=True)
        part = np.einsum("nij,ni->nj", x.axes, half) / (1.0 + np.einsum("ni,ni->n", n, half))[:, None]
        axes = x.axes - part[:, None, :] * (n + half)[:, :, None]
        u = np.einsum("nij,nj->ni", x.rows, v)
        own = np.einsum("nij,ni->nj", axes, way) / dt - u
        size, most = (np.linalg.norm(z[:, :2], axis=1) for z in (own, u))
        own[:, :2] *= np.minimum(most / np.maximum(size, TINY), 1.0)[:, None]
        own[:, 2] = np.maximum((gap - x.gap) / dt[:, 0] - u[:, 2], np.minimum(u[:, 2], 0.0))
        touches = (x.gap <= CLOSED) & (np.abs(gap - x.gap) <= 10.0 * CLOSED)
        out[:, k] = own * touches[:, None]
    for k, x in enumerate(points):  # what another one of the shape passes is no contact then
        least = np.min([gap for gap, y in zip(ends, points, strict=True) if y.contact == x.contact], axis=0)
        out[:, k] *= (ends[k] - least <= CLOSED)[:, None]
    return out


def onto_cone(mu: float | Array, z: Array) -> Array:
    """Nearest points (n, 3) of the cones ``|z_t| ≤ μ z_n``."""
    length = np.linalg.norm(z[:, :2], axis=1)
    n = np.maximum((z[:, 2] + mu * length) / (1.0 + mu * mu), 0.0)
    outside = np.column_stack([z[:, :2] * (mu * n / np.maximum(length, TINY))[:, None], n])
    return np.where((length <= mu * z[:, 2])[:, None], z, outside)


def turned_momentum(tree: ds.Tree, q: Array, v: Array, dt: Any, bias: Array) -> Array:
    """Momentum (..., nv) that velocity products ``Γ(v, v⁺)`` give a step beyond ``Γ(v, v)``.

    ``bias`` (..., nv) is what resists joints at ``v`` in axes that do not turn.
    ``4 Γ(v, y) = c(v + y) − c(v − y)``.
    """
    M, momentum = ds.mass_matrix(tree, q), 0.0 * v

    def products(v: Array) -> Array:
        turning = 0.0 * v
        if tree.joints[0].nv == 6:
            turning[..., :3] = np.cross(v[..., 3:6], v[..., :3])
        return ds.bias_force(tree, q, v, passive="none") - (M @ turning[..., None])[..., 0]

    for _ in range(2):
        gained = np.linalg.solve(M, (momentum - dt * bias)[..., None])[..., 0]
        momentum = -0.25 * dt * (products(v + gained) - products(v - gained))
    return momentum


def judge(made: Problems, impulses: Array, pyramid: bool) -> tuple[Array, Array, Array]:
    """True residuals (n, 3), velocities after the step in the axes of its start (n, nv), and least gaps (n,).

    Contacts turn, or do not where that solves a state and turning does not: then it would bring energy.
    """
    tree, values = made.tree, made.values
    q, v, dt = values["q"], values["v"], values["dt"][:, None]
    n = len(q)
    inverse, is_free = np.linalg.inv(ds.mass_matrix(tree, q)), tree.is_free_body(0) and not made.loops
    rate = ds.forward_dynamics(tree, q, 0.0 * v if is_free else v, values["tau"], ()).qdd  # momentum stays
    if tree.joints[0].kind is FREE and not is_free:
        rate = rate + np.pad(np.cross(v[:, 3:6], v[:, :3]), ((0, 0), (0, tree.nv - 3)))
    free = v + dt * rate
    turned = np.zeros_like(v)
    if not made.loops and not is_free:
        M = ds.mass_matrix(tree, q)
        own = turned_momentum(tree, q, v, dt, -np.einsum("nij,nj->ni", M, rate))
        free = free + np.einsum("nij,nj->ni", inverse, own)
    if made.loops:
        smooth = compile_at_once(tree, made.loops, "smooth_motion", outputs="reached")
        free = turned = smooth(q, v, values["tau"], values["dt"], CORRECTION)
        J = ds.jacobian(tree, [c.as_loop for c in made.loops], q)
        side = inverse @ np.swapaxes(J, 1, 2)
        through = side @ np.linalg.pinv(J @ side, hermitian=True)
        free = free - np.einsum("nij,njk,nk->ni", through, J, free)
        turned = turned - free  # what loops and velocity products turn over the step
        inverse = inverse - through @ np.swapaxes(side, 1, 2)
    points = geometry(made)
    joints = bounded_joints(tree, True, True)
    rows = [x.rows for x in points] + [np.broadcast_to(np.eye(tree.nv)[y.dof], (n, 1, tree.nv)) for y in joints]
    J = np.concatenate(rows, axis=1)
    p = np.zeros(J.shape[:2])
    m = 3 * len(points)
    p[:, :m] = impulses[:, :m]
    limits = [(m + k, y) for k, y in enumerate(joints) if y.has_limits]
    dry = [(m + k, y) for k, y in enumerate(joints) if y.friction]
    for number, (row, _) in enumerate([*limits, *dry], start=m):
        p[:, row] += impulses[:, number]
    after = free + np.einsum("nij,nkj,nk->ni", inverse, J, p)
    u = np.einsum("nij,nj->ni", J, after)
    G = J @ inverse @ np.swapaxes(J, 1, 2)
    h = dt[:, 0]
    mobility = np.maximum(np.einsum("nii->ni", G), TINY)

    def residuals_of(u: Array) -> Array:
        complementarity, friction, approach = [np.zeros(n)], [np.zeros(n)], [np.zeros(n)]
        for k, x in enumerate(points):
            own, mu = slice(3 * k, 3 * k + 3), x.law.friction
            normal = u[:, own.stop - 1] + np.maximum(x.gap, 0.0) / h
            approach.append(-normal)
            slip, r = u[:, own.start : own.start + 2], p[:, own]
            w = mobility[:, own].mean(axis=1)[:, None]
            if pyramid:
                limit = w * np.reshape(mu, (-1, 1)) * r[:, 2:]
                tangents = np.clip(w * r[:, :2] - slip, -limit, limit)
                allowed = np.column_stack([tangents, np.maximum(w[:, 0] * r[:, 2] - normal, 0.0)])
            else:
                shifted = normal + mu * np.linalg.norm(slip, axis=1)
                allowed = onto_cone(mu, w * r - np.column_stack([slip, shifted]))
            missed = w * r - allowed
            complementarity.append(np.abs(missed[:, 2]))
            friction.append(np.linalg.norm(missed[:, :2], axis=1))
        for row, y in enumerate(joints, start=m):
            position = q[:, tree.q_index(next(iter(y.joints)))][:, 0]
            least, most = ((limit - position) / h for limit in (y.lower, y.upper))
            z, bound = mobility[:, row] * p[:, row] - u[:, row], mobility[:, row] * y.friction * h
            left = np.clip(np.clip(z, -bound, bound) - z, np.minimum(least, 0.0), np.maximum(most, 0.0))
            (complementarity if y.has_limits else friction).append(np.abs(u[:, row] - left))
        return np.stack([np.max(x, axis=0) for x in (complementarity, friction, approach)], axis=-1)

    turns = u.copy()
    turns[:, :m] += turning(made, points).reshape(n, m)
    residuals, turned_too = residuals_of(u), residuals_of(turns)
    keeps = turned_too.max(axis=1) <= np.maximum(residuals.max(axis=1), TOLERANCE)  # else it would bring energy
    residuals = np.where(keeps[:, None], turned_too, residuals)
    after = after + turned
    if is_free:
        after = compile_at_once(tree, (), "position_update", outputs="v_next")(q, after, values["dt"], np.zeros_like(v))
    return residuals, after, np.min([x.gap for x in points], axis=0)


def turning_apart(tree: ds.Tree, v: Array) -> Array:
    """Velocities (n, …) of joints that do not turn axes, and lengths of linear and angular ones of those that do."""
    parts = []
    for joint, sv in zip(tree.joints, tree.v_slices, strict=True):
        own = v[:, sv]
        if joint.nv == 1:
            parts.append(own)
            continue
        for part in (LINEAR, ANGULAR):
            chosen = [k for k, axis in enumerate(joint.motion_axes) if axis in part]
            parts.append(np.linalg.norm(own[:, chosen], axis=1, keepdims=True))
    return np.concatenate(parts, axis=1)


# -- the run ---------------------------------------------------------------------------------------------------------


def _measure_mechanism(seed: int, n: int, solver: Any, dtype: Any) -> Record:
    made = problems(seed, n)
    kernel = ds.compile(made.tree, made.constraints, "contact_step", solver=solver, dtype=dtype, tolerance=TOLERANCE)
    rounded = {name: x.astype(dtype).astype(float) for name, x in made.values.items()}
    made = Problems(made.tree, made.constraints, rounded, made.start)
    rng = np.random.default_rng(seed)
    start = made.start * np.abs(rng.normal(size=(n, kernel.arguments[2].size)))
    given = {**made.values, "impulses": start}
    arrays = [given[a.name].astype(dtype) for a in kernel.arguments]
    _, v, p, said, status = kernel(*arrays, return_status=True)
    found, after, _ = judge(made, p.astype(float), solver == "pgs")
    solved = status == ds.DynamicsStatus.SOLVED
    eps = float(np.finfo(dtype).eps)
    scale = 1.0 + np.abs(made.values["v"]).max(axis=1) + np.abs(after).max(axis=1)
    round_off = EPS_GAP * eps * (scale + 1.0 / made.values["dt"])
    differs = np.abs(turning_apart(made.tree, v) - turning_apart(made.tree, after)).max(axis=1)
    excess = np.where(solved, np.maximum(found.max(axis=1), differs) - TOLERANCE, -np.inf)
    return {
        "seed": seed,
        "statuses": dict(Counter(x.name for x in status.ravel())),
        "wrong": np.flatnonzero(excess > 0).tolist(),
        "beyond round-off": np.flatnonzero(excess > round_off).tolist(),
        "largest difference of residuals": float(np.max(np.where(solved, np.abs(found - said).max(axis=1), 0.0))),
        "closed": int(np.count_nonzero((p[:, 2 : 3 * sum(c.n_points for _, c in made.contacts) : 3] > 0).any(axis=1))),
    }


def measure(mechanisms: int, states: int, quick: bool = False) -> Iterator[Record]:
    """All problems by each kernel; the record after each."""
    mechanisms, states = (1, 20) if quick else (mechanisms, states)
    record: Record = {**environment(), "tolerance": TOLERANCE, "states": states}

    def measured(kernel: str) -> list[Record]:
        return [_measure_mechanism(seed, states, *kernel.split(", ")) for seed in range(mechanisms)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ds.DelassusWarning)
        yield from each(record, "kernels", KERNELS, measured)


def tables(record: Record) -> Iterator[Table | str]:
    """Statuses, and what is wrong without a flag."""
    rows = []
    for name, runs in record["kernels"].items():
        total: Counter[str] = sum((Counter(run["statuses"]) for run in runs), Counter())
        n = sum(total.values())
        flagged = n - total["SOLVED"]
        wrong, beyond = (sum(len(run[key]) for run in runs) for key in ("wrong", "beyond round-off"))
        closed = sum(run["closed"] for run in runs)
        most = max(run["largest difference of residuals"] for run in runs)
        rows.append((name, n, closed, flagged, wrong, beyond, most))
    columns = ("kernel", "states:,", "in contact:,", "flagged:,", "wrong, no flag:,", "beyond round-off:,")
    title = f"random problems, tolerance {record['tolerance']:g} m/s"
    yield table(title, (*columns, "residuals differ, m/s:.0e"), rows, grows=(13,))
