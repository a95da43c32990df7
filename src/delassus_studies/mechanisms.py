"""Problems of the IFToMM library of computational benchmark problems, and reference solutions made in another way.

Positions, axes and inertias are those at the start, in the world's axes (z up): a problem is the list of its bodies and
of the joints that close its loops. `Mechanism.tree` makes a robot of it, `curve` the motion of a mechanism with one
freedom by products of exponentials and its energy alone, without any text of this library.

Sources of numbers: A01 to A05 are specified by González, Dopico, Lugrís and Cuadrado (Multibody System Dynamics 16,
2006) and at lim.ii.udc.es/mbsbenchmark; their data as in MBSbenchmarksInOpenSim of RehabEngGroup, in TestModels and
Examples of Exudyn (slider-crank, governor), and in the test set for initial value problem solvers (Andrews).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

import delassus as ds
from delassus.constraints import Constraint, Frame, Hinge, Point, SpringDamper
from delassus.frozen import cached_property
from delassus.model.description import RawJoint, RawLink
from delassus.model.edit.build import build_tree
from delassus.spatial.joint_kinds import PRISMATIC, REVOLUTE
from delassus.spatial.rotations import Array

GRAVITY = 9.81
GROUND = "ground"
X, Y, Z = np.eye(3)


@dataclass(frozen=True, slots=True)
class Body:
    """A body and the joint that carries it, at the start and in the world's axes; inertia about the centre of mass."""

    name: str
    parent: str
    at: Array
    axis: Array
    mass: float = 0.0
    com: Array = field(default_factory=lambda: np.zeros(3))
    inertia: Array = field(default_factory=lambda: np.zeros((3, 3)))
    slides: bool = False
    stiffness: float = 0.0
    rest: float = 0.0


class Closure(NamedTuple):
    """Two bodies share a point of the world at the start, and if ``axis`` is given turn about it only."""

    first: str
    second: str
    at: Array
    axis: Array | None = None


@dataclass(frozen=True)
class Mechanism:
    """Bodies, from the ground outwards, and what closes their loops; ``speed`` (rad/s) of the first body's joint."""

    name: str
    bodies: tuple[Body, ...]
    closures: tuple[Closure, ...] = ()
    springs: tuple[tuple[str, Array, str, Array, float, float, float], ...] = ()
    speed: float = 0.0
    torque: float = 0.0
    gravity: float = GRAVITY

    @cached_property
    def tree(self) -> ds.Tree:
        """The robot; all coordinates are zero at the start."""
        places = {GROUND: np.zeros(3)} | {b.name: b.at for b in self.bodies}
        links = [RawLink(b.name, b.mass, b.com - b.at, b.inertia) for b in self.bodies]
        joints = [
            RawJoint(b.name, PRISMATIC if b.slides else REVOLUTE, b.parent, b.name, b.at - places[b.parent],
                     axis=b.axis, stiffness=b.stiffness, rest_position=b.rest) for b in self.bodies]  # fmt: skip
        return build_tree(self.name, [RawLink(GROUND), *links], joints, root="fixed")

    def frame(self, body: str, at: Array) -> Frame:
        """Frame of a body, at a point of the world at the start."""
        if body == GROUND:
            return Frame("world", tuple(at))
        return Frame(body, tuple(at - next(b.at for b in self.bodies if b.name == body)))

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """Closures as points and hinges, and springs."""
        closed: list[Constraint] = []
        for c in self.closures:
            ends = self.frame(c.first, c.at), self.frame(c.second, c.at)
            closed.append(Point(*ends) if c.axis is None else Hinge(*ends, axis=c.axis))
        return (*closed, *(SpringDamper(self.frame(a, p), self.frame(b, r), k, d, length=length)
                           for a, p, b, r, k, d, length in self.springs))  # fmt: skip

    @cached_property
    def start(self) -> tuple[Array, Array, Array]:
        """Configuration, velocity and joint forces at the start."""
        tree = self.tree
        first = np.array([name == self.bodies[0].name for name in tree.joint_names], float)
        v = self.speed * first
        if self.speed and self.closures:
            reduced = ds.reduced_dynamics(tree, self.constraints, np.zeros(tree.nq), independent=[self.bodies[0].name])
            v = self.speed * reduced.transmission[:, 0]
        return np.zeros(tree.nq), v, self.torque * first

    def energy(self, q: Array, v: Array) -> Array:
        """Kinetic and potential energy, that of springs too, less the work of the torque (J)."""
        tree = self.tree
        at = dict(zip(tree.joint_names, np.moveaxis(q, -1, 0), strict=True))
        stored = sum((0.5 * b.stiffness * (at[b.name] - b.rest) ** 2 for b in self.bodies if b.stiffness), 0.0)
        height = ds.potential_energy(tree, q) * self.gravity / GRAVITY
        work = self.torque * at[self.bodies[0].name]
        return np.asarray(ds.kinetic_energy(tree, q, v) + height + stored - work)

    def place(self, q: Array, body: str, at: Array) -> Array:
        """Position of a point of a body that is ``at`` at the start (..., 3), in m."""
        return np.asarray(ds.forward_kinematics(self.tree, q, self.frame(body, at))[..., :3, 3])


# -- bodies --------------------------------------------------------------------------------------------------------


def box(mass: float, x: float, y: float, z: float) -> Array:
    """Inertia of a solid box about its centre."""
    return mass / 12 * np.diag([y * y + z * z, x * x + z * z, x * x + y * y])


def rod_inertia(mass: float, along: Array, width: float = 0.0) -> Array:
    """Inertia of a rod of square section about its centre; ``along`` goes from end to end."""
    length = float(np.linalg.norm(along))
    e = np.outer(along, along) / length**2
    return mass * (width**2 / 6 * e + (length**2 + width**2) / 12 * (np.eye(3) - e))


def rod(
    name: str, parent: str, at: Array, axis: Array, ends: tuple[Array, Array], mass: float, width: float = 0.0
) -> Body:
    """A uniform rod between two points."""
    return Body(name, parent, at, axis, mass, (ends[0] + ends[1]) / 2, rod_inertia(mass, ends[1] - ends[0], width))


def steiner(mass: float, d: Array) -> Array:
    """Inertia of a point of mass at ``d`` about the origin."""
    return mass * (float(d @ d) * np.eye(3) - np.outer(d, d))


# -- problems ------------------------------------------------------------------------------------------------------


def pendulum() -> Mechanism:
    """A01: 1 kg on a rod of 1 m without mass, horizontal at first."""
    return Mechanism("A01", (Body("rod", GROUND, np.zeros(3), Y, 1.0, -X),))


def four_bars(n: int, on_ground: bool = False) -> Mechanism:
    """A02: ``n`` windows of rods of 1 m and 1 kg, upright at first, whose first joint moves at 1 m/s.

    Loops are cut at the far ends of couplers; or ``on_ground`` at the feet of the uprights.
    """
    bodies, closures = [rod("upright0", GROUND, 0 * X, Y, (0 * X, Z), 1.0)], []
    for k in range(1, n + 1):
        foot, top = k * X, k * X + Z
        bodies.append(rod(f"coupler{k}", f"upright{k - 1}", top - X, Y, (top - X, top), 1.0))
        on, at = (f"coupler{k}", top) if on_ground else (GROUND, foot)
        bodies.append(rod(f"upright{k}", on, at, Y, (foot, top), 1.0))
        closures.append(
            Closure(f"upright{k}", GROUND, foot) if on_ground else Closure(f"coupler{k}", f"upright{k}", top)
        )
    return Mechanism(f"A02, {n}", tuple(bodies), tuple(closures), speed=1.0)


def bricard(cut: int = 2) -> Mechanism:
    """A04: five rods of 1 m and 1 kg, 0.1 m wide, on edges of a cube; hinge ``cut`` closes it, 5 on the ground."""
    corners = [np.array(p, float) for p in ((0, 0, 0), (1, 0, 0), (1, 0, -1), (1, -1, -1), (0, -1, -1), (0, -1, 0))]
    axes = (Z, -Y, X, Z, -Y, X)
    return _ring("A04", corners, axes, cut, lambda k: 1.0, 0.1)


def bennett(cut: int = 2) -> Mechanism:
    """Bennett's mechanism: rods of 1 and 2 m, 1 kg/m, 0.1 m wide, twisted by 30° and 90°; hinge ``cut`` closes it.

    The numbers are ours: those of the library's rectangular Bennett mechanism could not be found.
    """
    sides = ((1.0, math.pi / 6), (2.0, math.pi / 2)) * 2
    ratio = math.sin((sides[1][1] + sides[0][1]) / 2) / math.sin((sides[1][1] - sides[0][1]) / 2)
    angles = (math.pi / 2, 2 * math.atan(ratio), -math.pi / 2, -2 * math.atan(ratio))
    at, R, corners, axes = np.zeros(3), np.eye(3), list[Array](), list[Array]()
    for (length, twist), angle in zip(sides, angles, strict=True):
        corners.append(at)
        axes.append(R[:, 2])
        R = R @ exponential(Z, angle)
        at = at + length * R[:, 0]
        R = R @ exponential(X, twist)
    return _ring("Bennett", corners, axes, cut, lambda k: sides[k][0], 0.1)


def _ring(
    name: str, corners: Sequence[Array], axes: Sequence[Array], cut: int, mass: Callable[[int], float], width: float
) -> Mechanism:
    """A ring of rods between hinges, of which that from the last corner to the first is the ground."""
    bodies, n, ends = list[Body](), len(corners), [GROUND, GROUND]
    for k in range(cut):
        bodies.append(rod(f"rod{k}", ends[0], corners[k], axes[k], (corners[k], corners[k + 1]), mass(k), width))
        ends[0] = f"rod{k}"
    for k in range(n - 2, cut - 1, -1):
        bodies.append(
            rod(f"rod{k}", ends[1], corners[k + 1], axes[k + 1], (corners[k], corners[k + 1]), mass(k), width)
        )
        ends[1] = f"rod{k}"
    return Mechanism(name, tuple(bodies), (Closure(ends[0], ends[1], corners[cut], axes[cut]),))


def slider_crank() -> Mechanism:
    """The spatial slider-crank, its crank upright and turning at 6 rad/s; a ball joint closes it at the crank's pin."""
    crank, pin = np.array([0, 0.1, 0.12]), np.array([0, 0.1, 0.2])
    slider = np.array([math.sqrt(0.3**2 - 0.1**2 - 0.2**2), 0, 0])
    x = (slider - pin) / 0.3
    y = np.cross(crank, x)  # of the cross, in the rod
    y /= np.linalg.norm(y)
    R = np.array([x, y, np.cross(x, y)]).T
    bodies = (
        Body("crank", GROUND, crank, X, 0.12, crank, np.diag([1e-4, 1e-5, 1e-4])),
        Body("slider", GROUND, slider, X, 2.0, slider, 1e-4 * np.eye(3), slides=True),
        Body("cross", "slider", slider, X, 0.0, slider),
        Body("rod", "cross", slider, y, 0.5, (pin + slider) / 2, R @ np.diag([4e-4, 4e-3, 4e-3]) @ R.T),
    )
    return Mechanism("slider-crank", bodies, (Closure("crank", "rod", pin),), speed=6.0)


def governor() -> Mechanism:
    """A05: a shaft at 2π rad/s, rods at 30° with balls of 5 kg, springs of 8e5 N/m and 4e4 N s/m to a sliding cube."""
    middle = 0.5 * Z
    bodies, springs = [
        Body("shaft", GROUND, 0 * Z, Z, 0.3, middle, box(0.3, 0.01, 0.01, 1.0)),
        Body("slider", "shaft", middle, Z, 3.0, middle, box(3.0, 0.1, 0.1, 0.1), slides=True),
    ], list[Any]()  # fmt: skip
    for name, side in (("right", 1.0), ("left", -1.0)):
        along = np.array([side * math.cos(math.pi / 6), 0, -0.5])
        at = side * 0.05 * X + Z
        com = at + along * (0.15 + 5.0) / 5.3
        R = np.array([along, Y, np.cross(along, Y)]).T
        inertia = R @ box(0.3, 1.0, 0.01, 0.01) @ R.T
        inertia = inertia + steiner(0.3, at + along / 2 - com) + steiner(5.0, at + along - com)
        bodies.append(Body(name, "shaft", at, Y, 5.3, com, inertia))
        springs.append((name, at + along / 2, "slider", middle + side * 0.05 * X, 8e5, 4e4, 0.5))
    return Mechanism("A05", tuple(bodies), springs=tuple(springs), speed=2 * math.pi)


class Andrews(NamedTuple):
    """Andrews' mechanism in the test set's names: masses, inertias, and angles β, Θ, γ, Φ, δ, Ω, ε at the start."""

    masses: tuple[float, ...] = (0.04325, 0.00365, 0.02373, 0.00706, 0.0705, 0.00706, 0.05498)
    inertias: tuple[float, ...] = (2.194e-6, 4.41e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5)
    angles: tuple[float, ...] = (-0.0617138900142764, 0.0, 0.45527981916307, 0.222668390165886, 0.487364979543843,
                                 -0.222668390165886, 1.23054744454982)  # fmt: skip


ANDREWS_JOINTS = ("OF", "EF", "BDE", "GE", "AG", "HE", "AH")
"""Bodies by the test set's order of angles."""
ANDREWS_END = (15.81077119629904, -15.75637105984298, 0.04082224013073101, -0.5347301163226948, 0.5244099658805304,
               0.5347301163226948, 1.048080741042263)  # fmt: skip
"""Angles at 0.03 s, of the test set for initial value problem solvers (PSIDE, tolerances 1e-14)."""
MOVED = 1e-3
"""Mass (kg) at the end of the spring that is taken from the body that it is held to: its slide has inertia then."""


def andrews() -> Mechanism:
    """A03: seven bodies in a plane without gravity, a torque of 0.033 N m at O, and a spring of 4530 N/m from C to D.

    The spring is a slide on a hinge, held to D by a further loop. Angles count from the start.
    """
    given = Andrews()
    beta, theta, gamma, phi, delta, omega, epsilon = given.angles

    def turned(x: float, y: float, angle: float) -> Array:
        c, s = math.cos(angle), math.sin(angle)
        return np.array([c * x - s * y, 0.0, s * x + c * y])

    F, A = turned(0.007, 0, beta), np.array([-0.06934, 0, -0.00227])
    B, C = np.array([-0.03635, 0, 0.03273]), np.array([0.014, 0, 0.072])
    G, H = A + turned(0.04, 0, delta), A + turned(0, -0.04, epsilon)
    E, D = F + turned(-0.028, 0, beta + theta), B + turned(0.02, -0.018, gamma)
    joints = {  # parent, joint, centre of mass
        "OF": (GROUND, 0 * X, turned(0.00092, 0, beta)),
        "EF": ("OF", F, F + turned(-0.0115, 0, beta + theta)),
        "BDE": (GROUND, B, B + turned(0.01043, -0.01874, gamma)),
        "GE": ("AG", G, G + turned(0, -(0.02 - 0.01421), phi + delta)),
        "AG": (GROUND, A, A + turned(0.02308, 0.00916, delta)),
        "HE": ("AH", H, H + turned(0.02 - 0.01421, 0, omega + epsilon)),
        "AH": (GROUND, A, A + turned(0.00449, -0.01228, epsilon)),
    }
    bodies = {
        name: Body(name, parent, at, -Y, mass, com, inertia * np.eye(3))
        for (name, (parent, at, com)), mass, inertia in zip(joints.items(), given.masses, given.inertias, strict=True)
    }
    whole = bodies["BDE"]
    com = (whole.mass * whole.com - MOVED * D) / (whole.mass - MOVED)
    inertia = whole.inertia + _in_plane(whole.mass, whole.com - com) - _in_plane(MOVED, D - com)
    bodies["BDE"] = replace(whole, mass=whole.mass - MOVED, com=com, inertia=inertia)
    bodies["turn"] = Body("turn", GROUND, C, -Y, com=C)
    length = float(np.linalg.norm(D - C))
    bodies["spring"] = Body("spring", "turn", D, (D - C) / length, MOVED, D, slides=True, stiffness=4530.0,
                            rest=0.07785 - length)  # fmt: skip
    ordered = [bodies[name] for name in ("OF", "EF", "BDE", "AG", "GE", "AH", "HE", "turn", "spring")]
    closures = (*(Closure("EF", name, E) for name in ("BDE", "GE", "HE")), Closure("BDE", "spring", D))
    return Mechanism("A03", tuple(ordered), closures, torque=0.033, gravity=0.0)


def _in_plane(mass: float, d: Array) -> Array:
    return mass * float(d @ d) * np.eye(3)


# -- motion by other means -----------------------------------------------------------------------------------------


def exponential(axis: Array, angle: float) -> Array:
    """Rotation about a unit vector (Rodrigues)."""
    W = np.cross(np.eye(3), axis)
    return np.eye(3) + math.sin(angle) * W + (1 - math.cos(angle)) * W @ W


NODES = 128
"""Points of the first joint's range at which energies are fitted, and as many polynomials."""
ROUNDS = 5
"""Newton's iterations that close loops from the last point on."""
FINE = 5e-4
"""Time step (s) of Runge and Kutta for one coordinate."""


def poses(bodies: Sequence[Body], q: Array) -> tuple[dict[str, tuple[Array, Array]], dict[str, Array]]:
    """Rotation and translation of each body from the start on, and its Jacobian [v at the world's origin; ω] (6, n)."""
    pose, J = {GROUND: (np.eye(3), np.zeros(3))}, {GROUND: np.zeros((6, len(bodies)))}
    for i, b in enumerate(bodies):
        R, p = pose[b.parent]
        axis, at = R @ b.axis, R @ b.at + p
        J[b.name] = J[b.parent].copy()
        J[b.name][:, i] = np.r_[axis, 0, 0, 0] if b.slides else np.r_[np.cross(at, axis), axis]
        Q, moved = (np.eye(3), q[i] * b.axis) if b.slides else (exponential(b.axis, q[i]), np.zeros(3))
        pose[b.name] = R @ Q, R @ (b.at + moved - Q @ b.at) + p
    return pose, J


def closing(mechanism: Mechanism, q: Array) -> tuple[Array, Array]:
    """Errors of closures, and their derivatives by q."""
    pose, J = poses(mechanism.bodies, q)
    errors, rows = list[Array](), list[Array]()
    for c in mechanism.closures:
        (R, p), (S, r) = pose[c.first], pose[c.second]
        a, b, V, W = R @ c.at + p, S @ c.at + r, J[c.first], J[c.second]
        errors.append(a - b)
        rows.append(V[:3] + np.cross(V[3:].T, a).T - W[:3] - np.cross(W[3:].T, b).T)
        if c.axis is not None:
            u, w = R @ c.axis, S @ c.axis
            errors.append(np.cross(u, w))
            rows.append(np.cross(np.cross(V[3:].T, u), w).T + np.cross(u, np.cross(W[3:].T, w)).T)
    return np.concatenate(errors), np.concatenate(rows)


def energies(mechanism: Mechanism, q: Array) -> tuple[float, float]:
    """Inertia that the first joint's velocity sees, and potential energy, at a closed configuration."""
    pose, J = poses(mechanism.bodies, q)
    rates = np.r_[1.0, np.linalg.lstsq(closing(mechanism, q)[1][:, 1:], -closing(mechanism, q)[1][:, 0])[0]]
    inertia = potential = 0.0
    for b in mechanism.bodies:
        R, p = pose[b.name]
        centre, V = R @ b.com + p, J[b.name] @ rates
        v = V[:3] + np.cross(V[3:], centre)
        inertia += b.mass * float(v @ v) + float(V[3:] @ R @ b.inertia @ R.T @ V[3:])
        potential += b.mass * mechanism.gravity * float(centre[2])
    return inertia, potential


def curve(mechanism: Mechanism, low: float, high: float, nodes: int) -> Array:
    """Chebyshev coefficients of inertia, potential and all coordinates over the first joint's range (nodes, 2 + n)."""
    x = np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes)
    angles, found = (low + high) / 2 + (high - low) / 2 * x, np.empty((nodes, 2 + len(mechanism.bodies)))
    first = int(np.argmin(np.abs(angles)))
    for order in (range(first, nodes), range(first - 1, -1, -1)):
        q = np.zeros(len(mechanism.bodies)) if order.step > 0 else found[first, 2:].copy()
        for k in order:
            for angle in np.linspace(q[0], angles[k], 3)[1:]:
                q[0] = angle
                for _ in range(ROUNDS):
                    error, rows = closing(mechanism, q)
                    q[1:] -= np.linalg.lstsq(rows[:, 1:], error)[0]
            found[k] = *energies(mechanism, q), *q
    basis = np.cos(np.arange(nodes)[:, None] * np.arccos(x))
    return np.asarray(basis @ found * np.where(np.arange(nodes)[:, None], 2.0, 1.0) / nodes)


def integrated(rate: Callable[[float, float], float], speed: float, duration: float, outputs: int) -> Array:
    """Coordinate at equal times (outputs + 1,) of ``s̈ = rate(s, ṡ)`` from zero on, by Runge and Kutta."""
    each = math.ceil(duration / outputs / FINE)
    h, s, u, out = duration / outputs / each, 0.0, speed, [0.0]
    for _ in range(outputs):
        for _ in range(each):
            a = rate(s, u)
            b = rate(s + h / 2 * u, u + h / 2 * a)
            c = rate(s + h / 2 * u + h * h / 4 * a, u + h / 2 * b)
            d = rate(s + h * u + h * h / 2 * b, u + h * c)
            s, u = s + h * u + h * h / 6 * (a + b + c), u + h / 6 * (a + 2 * b + 2 * c + d)
        out.append(s)
    return np.array(out)


def motion(mechanism: Mechanism, span: tuple[float, float], duration: float, outputs: int, nodes: int = NODES) -> Array:
    """Configurations (outputs + 1, n) at equal times, in the order of the bodies, by energies of the first joint alone.

    ``m s̈ = −½ m′ ṡ² − V′``, where ``m`` and ``V`` are polynomials fitted to closed configurations over a ``span`` of
    the joint; over one of 2π they are periodic.
    """
    low, high = span
    made, numbers, scale = curve(mechanism, low, high, nodes), np.arange(nodes), 2 / (high - low)
    slopes = np.polynomial.chebyshev.chebder(made[:, :2], scl=scale, axis=0)
    fits = np.column_stack([made[:, 0], np.r_[slopes, [[0.0, 0.0]]]]).T
    turns = math.isclose(high - low, 2 * math.pi)

    def basis(s: float) -> Array:
        x = scale * ((low + (s - low) % (high - low) if turns else s) - (low + high) / 2)
        return np.asarray(np.cos(numbers * math.acos(min(1.0, max(-1.0, x)))))

    def rate(s: float, u: float) -> float:
        m, dm, dV = fits @ basis(s)
        return float(-(0.5 * dm * u * u + dV) / m)

    s = integrated(rate, mechanism.speed, duration, outputs)
    q = np.array([made[:, 2:].T @ basis(one) for one in s])
    q[:, 0] = s
    return q


def swing(n: int) -> Callable[[float, float], float]:
    """Acceleration of the uprights' angle of ``n`` four-bars (A02), by hand: couplers do not turn."""
    ratio = GRAVITY * ((n + 1) / 2 + n) / ((n + 1) / 3 + n)
    return lambda s, _: ratio * math.sin(s)


def fall(s: float, _: float) -> float:
    """Acceleration of the angle of the pendulum (A01), by hand."""
    return -GRAVITY * math.cos(s)


GOVERNOR_HEIGHTS = (0.5, 0.5014209224, 0.5059092943, 0.5132460783, 0.523223371, 0.5355631037, 0.5499286659,
                    0.5659381577, 0.5831783367, 0.601218402, 0.6196229171)  # fmt: skip
"""Height of the slider (m) after 0, 1, …, 10 s, ours: two coordinates by hand and SciPy's Radau IIA at 1e-11."""
