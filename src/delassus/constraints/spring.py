"""Springs and dampers between two frames: along the line between their origins, or in all six directions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from delassus.constraints.between_frames import Axes, FrameConstraint
from delassus.constraints.constraint import At, Constraint
from delassus.constraints.distance import Distance
from delassus.constraints.frame import Frame, as_frame
from delassus.constraints.tendon import Tendon
from delassus.errors import ConstraintError, shown
from delassus.model.check import real_array
from delassus.model.kinematics import world_poses
from delassus.model.tree import WORLD, Tree
from delassus.spatial.joint_kinds import BALL, TINY
from delassus.spatial.motion import (
    ANGULAR,
    LINEAR,
    column,
    cross,
    cross_matrix,
    from_entries,
    linear_at,
    motion_cross,
    scaled,
)
from delassus.spatial.numpy_ops import NUMPY
from delassus.spatial.ops import Matrix, Ops, Scalar, ScalarOps
from delassus.spatial.rotations import Array, matrix_to_quaternion

SYMMETRIC = 1e-12
"""Part of its largest entry that a symmetric matrix, or one without negative eigenvalues, may be off by."""


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class SpringDamper(Distance):
    """A spring and damper between the origins of two frames: the force ``−k (‖r‖ − length) − d u`` along their line.

    `Scene.attach` takes it, and where dynamics, energies and steps take constraints it is one. In ``"step"`` and
    ``"contact_step"`` it is implicit: stiffness and damping may be as large as they are, at any time step. Its forces
    are no forces of constraints. ``u`` is the velocity by which the origins part. Where they coincide there is no line
    between them, and results are NaN.

    Parameters
    ----------
    first, second : str or Frame
        The frames; ``Frame("world", position)`` is a place in the world.
    stiffness : float
        ``k`` in N/m, not negative.
    damping : float
        ``d`` in N s/m, not negative.
    length : float, optional
        Distance in m at which the spring exerts no force; by default that in a scene's start, or in the neutral
        configuration of a robot.

    Raises
    ------
    ConstraintError
        A frame that is neither a name nor a `Frame`; a number that is not finite, or negative; a ``length`` that is
        not positive.

    Examples
    --------
    >>> import delassus as ds
    >>> ball = ds.mechanisms.free_body(2.0, 0.01 * np.eye(3), name="ball")
    >>> spring = SpringDamper("ball", ds.Frame("world", (0, 0, 1)), stiffness=200.0, damping=40.0, length=0.9)
    >>> sim = ds.Simulator(ds.Scene(ball).attach(spring))
    >>> sim.run(3.0)
    >>> round(float(sim.q[2] - 0.1), 6), round(-2 * 9.81 / 200, 6)
    (-0.0981, -0.0981)
    """

    stiffness: float
    damping: float

    def __init__(
        self, first: str | Frame, second: str | Frame, stiffness: float, damping: float = 0.0, *,
        length: float | None = None,
    ) -> None:  # fmt: skip
        Distance.__init__(self, first, second, length=length)
        own = {"stiffness": (stiffness, "N/m"), "damping": (damping, "N s/m")}
        for name, (given, unit) in own.items():
            number = real_array(given)
            if number is None or number.shape != () or not 0.0 <= number < np.inf:
                wanted = f"a number in {unit}, not negative"
                raise ConstraintError(f"{name} of a spring", wanted, shown(given), "Zero is none.")
            self._set_attributes(**{name: float(number)})

    def __repr__(self) -> str:
        numbers = f"stiffness={self.stiffness:g}, damping={self.damping:g}"
        return f"{type(self).__name__}({', '.join(frame.text for frame in self.frames)}, {numbers})"

    def _defining(self) -> list[object]:
        return [*Distance._defining(self), self.stiffness, self.damping]

    @property
    def holds(self) -> bool:
        """It is a force, and holds nothing."""
        return False

    def check(self, tree: Tree) -> None:
        """Refuse a robot that it does not fit: raises `UnknownNameError` or `ConstraintError`."""
        Distance.check(self, tree)
        _check_moves(self, tree)

    def at_rest(self, tree: Tree, q: Array) -> SpringDamper:
        """The spring with a length, that at the configuration ``q`` (nq,) if it has none."""
        if self.length is not None:
            return self
        other = copy(self)
        other._set_attributes(length=self._distance(tree, q))
        return other

    def without(self, tree: Tree, other: Tree, values: Mapping[str, Array]) -> Constraint | None:
        """The spring with its length of ``tree``; None between two places of one rigid body."""
        return Distance.without(self.at_rest(tree, tree.neutral()), tree, other, values)

    def energy(self, tree: Tree, q: Array) -> float:
        """Energy (J) of the spring at a configuration (nq,)."""
        stiffness, _, length = self.along_line(tree)
        return 0.5 * stiffness * (self._distance(tree, q) - length) ** 2

    def along_line(self, tree: Tree) -> tuple[float, float, float]:
        """Stiffness, damping and length."""
        length = self.at_rest(tree, tree.neutral()).length
        assert length is not None
        return self.stiffness, self.damping, length

    def as_tendon(self, tree: Tree) -> Tendon:
        """The same along a path."""
        stiffness, damping, length = self.along_line(tree)
        return Tendon(self.frames, length=length, stiffness=stiffness, damping=damping)

    def _distance(self, tree: Tree, q: Array) -> float:
        (_, first), (_, second) = _ends(self, tree, q)
        return float(np.linalg.norm(first - second))

    def position(self, at: At) -> Matrix:
        """``‖r‖ − length``."""
        own = self.at_rest(at.tree, at.tree.neutral())
        return at.ops.matrix([[self.line(at)[1] - own.length]])

    def springs(self, tree: Tree) -> list[tuple[float, float, float]]:
        """Stiffness, damping and `mobilities` along the row."""
        return [(self.stiffness, self.damping, mobilities(tree, self)[0])]


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Bushing(FrameConstraint):
    """A spring and damper in all six directions between two frames, which has no force where the frames coincide.

    With the position ``p`` of the second origin in the first frame and the rotation vector ``θ`` from the first frame
    to the second, along axes of the first, ``e = [p; θ]``: the energy is ``½ eᵀ K e``, forces are its gradient, and
    ``D ė`` damps. ``θ`` goes up to half a turn. It acts where a `SpringDamper` does, implicitly in steps.

    Parameters
    ----------
    first, second : str or Frame
        The frames; ``Frame("world", position)`` is a place in the world.
    stiffness : (6,) or (6, 6) array_like
        Diagonal of ``K``, or ``K``, symmetric and not negative: N/m along, N·m/rad about axes of the first frame.
    damping : (6,) or (6, 6) array_like
        That of ``D``: N s/m and N·m s/rad.

    Raises
    ------
    ConstraintError
        A frame that is neither a name nor a `Frame`; numbers of another shape, that are not finite, or a matrix that
        is not symmetric or has a negative eigenvalue.

    Examples
    --------
    >>> import delassus as ds
    >>> body = ds.mechanisms.free_body(2.0, 0.01 * np.eye(3), name="body")
    >>> mount = Bushing("body", ds.Frame("world"), stiffness=[200] * 3 + [5] * 3, damping=[40] * 3 + [1] * 3)
    >>> sim = ds.Simulator(ds.Scene(body).attach(mount))
    >>> sim.run(3.0)
    >>> round(float(sim.q[2]), 4), round(-2 * 9.81 / 200, 4)
    (-0.0981, -0.0981)
    """

    axes: Axes = field(init=False)
    stiffness: Array
    damping: Array
    directions: Array = field(init=False)
    rates: Array = field(init=False)

    def __init__(
        self, first: str | Frame, second: str | Frame, stiffness: ArrayLike, damping: ArrayLike = (0.0,) * 6
    ) -> None:  # fmt: skip
        K, D = _matrix(stiffness, "stiffness of a bushing"), _matrix(damping, "damping of a bushing")
        alike = all(np.array_equal(x, np.diag(np.diag(x))) for x in (K, D))
        if alike:  # along the same axes
            directions, rates = np.eye(6), np.stack([np.diag(K), np.diag(D)], axis=1)
        else:
            (k, Q), (d, R) = (np.linalg.eigh(x) for x in (K, D))
            k, d = (np.where(x > SYMMETRIC * x.max(initial=0.0), x, 0.0) for x in (k, d))
            directions = np.vstack([Q.T, R.T])
            rates = np.stack([np.r_[k, 0.0 * d], np.r_[0.0 * k, d]], axis=1)
        acting = rates.any(axis=1)
        if not acting.any():
            raise ConstraintError("stiffness of a bushing", "a number that is not zero", "none", "Drop this bushing.")
        self._set_rows(first, as_frame(second, "second frame"), int(acting.sum()), "local")
        self._set_attributes(stiffness=K, damping=D, directions=directions[acting], rates=rates[acting])
        self._make_read_only("stiffness", "damping", "directions", "rates")

    def _defining(self) -> list[object]:
        return [*FrameConstraint._defining(self), self.stiffness.tolist(), self.damping.tolist()]

    @property
    def holds(self) -> bool:
        """It is a force, and holds nothing."""
        return False

    def check(self, tree: Tree) -> None:
        """Refuse a robot that it does not fit: raises `UnknownNameError` or `ConstraintError`."""
        FrameConstraint.check(self, tree)
        _check_moves(self, tree)

    def at_rest(self, tree: Tree, q: Array) -> Bushing:
        """The bushing itself, which is at rest where its frames coincide."""
        return self

    def energy(self, tree: Tree, q: Array) -> float:
        """Energy (J) of the spring at a configuration (nq,)."""
        (R, p), (S, o) = _ends(self, tree, q)
        turn = BALL.difference(NUMPY, BALL.neutral, matrix_to_quaternion(R.T @ S).tolist())
        e = np.concatenate([R.T @ (o - p), np.array(turn, dtype=float)])
        return float(0.5 * e @ self.stiffness @ e)

    def springs(self, tree: Tree) -> list[tuple[float, float, float]]:
        """Stiffness, damping and usual mobility along each row."""
        along, about = mobilities(tree, self)
        squares = self.directions**2
        sizes = along * squares[:, LINEAR].sum(axis=1) + about * squares[:, ANGULAR].sum(axis=1)
        return [(k, d, size) for (k, d), size in zip(self.rates.tolist(), sizes.tolist(), strict=True)]

    def row_sizes(self, at: At, length: float) -> list[Scalar]:
        """Square of the size of each row."""
        squares = self.directions**2
        sizes = squares[:, LINEAR].sum(axis=1) + squares[:, ANGULAR].sum(axis=1) / length**2
        return [float(x) for x in sizes]

    def _relative(self, at: At) -> tuple[Matrix, Matrix, Matrix, Matrix]:
        """Axes of the first frame in its link, second origin there and in the first frame; quaternion to the second."""
        ops, (a, b) = at.ops, self.links(at.tree)
        assert self.second is not None
        (Ra, pa), (Rb, pb) = at.pose(self.first), at.pose(self.second, "second")
        R, p = at.robot.pose_between(b, a)
        back, origin = ops.transpose(Ra), R @ pb + p
        sine, over = self._turn(ops, back @ (R @ Rb), ops.eye(3))
        half = [0.5 * over * x for x in column(ops, sine)]
        return back, origin, back @ (origin - pa), from_entries(ops, [*half, 1.0 / over])

    def _rate_of_turn(self, ops: Ops, quaternion: Matrix) -> Matrix:
        """Matrix (3 × 3) from the angular velocity, along axes of the first frame, to the rate of ``θ``."""
        # that of a turn along axes of the second frame is `spring_deflection_changes`
        changes = BALL.spring_deflection_changes(ops, column(ops, quaternion), (0.0, 0.0, 0.0))
        return ops.transpose(changes)

    def rows_on_links(self, at: At) -> dict[int, Matrix]:
        """Rows on the link of either frame: derivatives of ``e``, along `directions`."""
        ops, (a, b) = at.ops, self.links(at.tree)
        back, origin, _, quaternion = self._relative(at)
        S = ops.constant(self.directions)
        linear = ops.take(S, None, LINEAR) @ back
        angular = ops.take(S, None, ANGULAR) @ (self._rate_of_turn(ops, quaternion) @ back)
        out = {}
        if a != WORLD:
            out[a] = -ops.hstack([linear, angular - linear @ cross_matrix(ops, origin)])
        if b != WORLD:
            assert self.second is not None
            R, pb = at.robot.pose_between(b, a)[0], at.pose(self.second, "second")[1]
            linear = linear @ R
            out[b] = ops.hstack([linear, angular @ R - linear @ cross_matrix(ops, pb)])
        return out

    def position(self, at: At) -> Matrix:
        """``e`` along `directions`."""
        ops, (_, _, apart, quaternion) = at.ops, self._relative(at)
        turn = BALL.difference(ops, BALL.neutral, column(ops, quaternion))
        return ops.constant(self.directions) @ ops.vstack([apart, from_entries(ops, turn)])

    def drift(self, at: At) -> Matrix:
        """That of ``ė``, ``θ̇ = A ω``: ``Ȧ ω`` and what the axes of the first frame bring."""
        ops, (a, b) = at.ops, self.links(at.tree)
        _, _, apart, quaternion = self._relative(at)
        V, W = ops.zeros(6, 1), ops.zeros(6, 1)  # twists of both, at the first origin and along its axes
        if a != WORLD:
            V = self._seen_at_first(at, at.motion.V[a])
        if b != WORLD:
            own = at.motion.V[b]
            R, p = at.robot.pose_between(a, b)
            turned = ops.transpose(R)
            own = ops.vstack([turned @ linear_at(ops, own, p), turned @ ops.take(own, ANGULAR, None)])
            W = self._seen_at_first(at, own)
        gone = W - V
        w = ops.take(gone, ANGULAR, None)
        moved = motion_cross(ops, gone, V)
        linear = linear_at(ops, moved, apart) + cross(ops, w, linear_at(ops, gone, apart))
        turn = from_entries(ops, BALL.difference(ops, BALL.neutral, column(ops, quaternion)))
        A = self._rate_of_turn(ops, quaternion)
        angular = A @ ops.take(moved, ANGULAR, None) + _turning_rate(ops, turn, A @ w, w)
        return ops.constant(self.directions) @ ops.vstack([linear, angular])

    def _seen_at_first(self, at: At, V: Matrix) -> Matrix:
        """A twist in the body frame of the first link, at the first origin and along its axes."""
        ops, (R, p) = at.ops, at.pose(self.first)
        back = ops.transpose(R)
        return ops.vstack([back @ linear_at(ops, V, p), back @ ops.take(V, ANGULAR, None)])

    def gravity(self, at: At) -> Matrix:
        """Acceleration of the rows by gravity; zero between two links."""
        return at.ops.zeros(self.size, 1) if len(self.carriers(at.tree)) == 2 else Constraint.gravity(self, at)


def _turning_rate(ops: Ops, u: Matrix, rate: Matrix, w: Matrix) -> Matrix:
    """Derivative (3 × 1) of ``w − ½ u × w + c(u²) u × (u × w)`` along the rate of ``u``; see `BALL.displacement_rate`.

    ``c(s) = (1 − h cot h) / s`` with ``h = ½ √s``.
    """
    s = sum(x * x for x in column(ops, u)) + TINY
    h = 0.5 * ops.sqrt(s)
    cosine, sinc = ops.cos(h), ops.sin(h) / h
    over = 1.0 / s
    c = (1.0 - cosine / sinc) * over
    slope = ((1.0 / sinc - cosine) / sinc * (0.5 * over) - c) * over
    once, other = cross(ops, u, w), cross(ops, rate, w)
    along = 2.0 * sum(x * y for x, y in zip(column(ops, u), column(ops, rate), strict=True))
    twice = scaled(ops, [slope * along] * 3, cross(ops, u, once))
    mixed = scaled(ops, [c] * 3, cross(ops, rate, once) + cross(ops, u, other))
    return scaled(ops, [-0.5] * 3, other) + twice + mixed


def mobilities(tree: Tree, spring: Constraint) -> tuple[float, float]:
    """Those of the ends of a spring along a line (1/kg) and about one (1/(kg m²)).

    As if each end carried what hangs on it and no more.
    """
    along = about = 0.0
    for link in spring.carriers(tree):
        carried = [i for i in range(tree.n_links) if link in tree.support(i)]
        mass = sum(float(tree.inertias[i][0, 0]) for i in carried)
        moment = sum(float(np.trace(tree.inertias[i][3:, 3:])) / 3.0 for i in carried)
        along += 1.0 / mass if mass > 0.0 else 0.0
        about += 1.0 / moment if moment > 0.0 else 0.0
    return along, about


def _check_moves(spring: Constraint, tree: Tree) -> None:
    if not spring.carriers(tree):
        raise ConstraintError(repr(spring), "a link that moves", "two places in the world", "Drop this spring.")


def _ends(spring: Constraint, tree: Tree, q: Array) -> list[tuple[Array, Array]]:
    """Pose of each frame in the world at a configuration (nq,)."""
    poses, out = world_poses(tree, np.asarray(q, float)), list[tuple[Array, Array]]()
    for at in (frame.on(tree) for frame in spring.frames):
        R, p = poses[at.link] if at.link != WORLD else (np.eye(3), np.zeros(3))
        out.append((R @ at.rotation, p + R @ at.position))
    return out


def _matrix(given: ArrayLike, argument: str) -> Array:
    """Symmetric matrix (6, 6) without negative eigenvalues, given as it is or by its diagonal."""
    x = real_array(given)
    wanted = "six finite numbers that are not negative, or a symmetric matrix (6, 6) without negative eigenvalues"
    if x is not None and x.shape == (6,):
        x = np.diag(x)
    if x is None or x.shape != (6, 6) or not np.isfinite(x).all():
        raise ConstraintError(argument, wanted, shown(given), "Three along the axes, three about them.")
    least, size = float(np.linalg.eigvalsh(x)[0]), float(np.abs(x).max())
    if np.abs(x - x.T).max() > SYMMETRIC * size or least < -SYMMETRIC * size:
        raise ConstraintError(argument, wanted, shown(given), "Energies are not negative.")
    return np.asarray(0.5 * (x + x.T), dtype=float)


AnySpring = SpringDamper | Bushing | Tendon
"""Constraints that are forces."""


def springs_among(constraints: Iterable[Constraint]) -> dict[int, AnySpring]:
    """Those that are springs, by their places."""
    return {k: c for k, c in enumerate(constraints) if isinstance(c, AnySpring) and not c.holds}


def has_limits(c: AnySpring) -> bool:
    """Whether it acts beyond limits alone."""
    return isinstance(c, Tendon) and c.band is not None


def pushes(ops: ScalarOps, k: Scalar, d: Scalar, x: Scalar, u: Scalar) -> Scalar:
    """1 where limits push back along a row with the error ``x`` and its rate ``u``, else 0."""
    return ops.less(0.0, x * (k * x + d * u))


def acting(c: AnySpring, ops: ScalarOps, k: Scalar, d: Scalar, x: Scalar, u: Scalar) -> tuple[Scalar, Scalar]:
    """Stiffness and damping along a row with the error ``x`` and its rate ``u``: none where limits do not push."""
    if not has_limits(c):
        return k, d
    acts = pushes(ops, k, d, x, u)
    return acts * k, acts * d
