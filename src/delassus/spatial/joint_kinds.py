"""Kinds of joints: how many coordinates each has, which unit vectors span its motion, and what its coordinates mean.

A joint's frame is placed so that its motion subspace ``S`` consists of columns of the 6×6 identity (motion
vectors are ``[linear; angular]``), to which a screw adds its pitch. All that depends on the kind of a joint is a method
or an attribute of its `JointKind`, one text for NumPy (batched) and traces; algorithms ask `Joint` for ``S``.

Configuration layout (Pinocchio's):

=============  ==  ==  =====================================  ============================
kind           nq  nv  configuration                          velocity (in the child frame)
=============  ==  ==  =====================================  ============================
revolute        1   1  angle                                  angular, about the axis
cos-sin         2   1  cos, sin of the angle                  angular, about the axis
screw           1   1  angle                                  angular, about the axis; linear, pitch times that
prismatic       1   1  length                                 linear, along the axis
planar          4   3  x, y, cos θ, sin θ (normal z)          linear x, y, angular z
ball            4   3  quaternion x y z w                     angular x, y, z
translation     3   3  x, y, z                                linear x, y, z
free            7   6  position, quaternion x y z w           linear x y z, angular x y z
=============  ==  ==  =====================================  ============================

The text has no branches. Near zero, ``sin x / x`` is taken at ``√(x² + ε²)``, and ``(θ − sin θ) / θ³`` only ever
multiplies ``θ²``, so that neither needs a series. Quaternions and cos-sin pairs come out of unit length: one Newton
step, ``x (3 − |x|²) / 2``, undoes round-off before it grows from step to step.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from delassus.spatial.elementary_displacements import GeneralRotation, PlanarRotation, Rotation
from delassus.spatial.motion import (
    ANGULAR,
    LINEAR,
    column,
    cross_entries,
    cross_matrix,
    dot,
    from_entries,
    minus,
    plus,
    scaled_matrix,
)
from delassus.spatial.ops import Matrix, Ops, Scalar
from delassus.spatial.rotations import Array, quaternion_rows

SERIES = 10
"""Terms of power series in squares of angles: to round-off up to one radian."""

HALF_ANGLES = 11
"""Terms of the power series of angles from rotations: to round-off up to tan²(π/16)."""

TINY = 1e-36
"""``ε²``: a normal number in float32 as well, and nothing beside the square of an angle that matters."""

NO_LIMIT = 1e6
"""Limits (rad or m) at least this large are written where no limit is meant."""

Entries = Sequence[Scalar]
"""Coordinates or velocities of one joint."""


@dataclass(frozen=True, slots=True, eq=False)
class JointKind(ABC):
    """Kind of a joint. Coordinates of those that say nothing else add up, as angles and lengths do.

    Attributes
    ----------
    name : str
    motion_axes : tuple of int
        Components of the child's twist ``[linear; angular]`` that the joint leaves free; those of joints of one degree
        of freedom are about or along x.
    neutral : tuple of float
        Configuration at which the joint frame and the child frame coincide.
    unit : slice or None
        Entries of the configuration that together have unit length: a quaternion, or the cosine and sine of an angle.
    inverse_signs : tuple of float or None
        Signs by which the entries of a configuration become those of the child's motion seen the other way; None where
        that takes more than signs.
    """

    name: str
    motion_axes: tuple[int, ...]
    neutral: tuple[float, ...]
    unit: slice | None = None
    inverse_signs: tuple[float, ...] | None = None

    def __reduce__(self) -> str:
        """Name of the one object of this kind, which is itself again when it is unpickled."""
        return self.name.upper().replace("-", "_")

    @property
    def nq(self) -> int:
        """Number of configuration coordinates."""
        return len(self.neutral)

    @property
    def nv(self) -> int:
        """Number of degrees of freedom."""
        return len(self.motion_axes)

    @property
    def has_quaternion(self) -> bool:
        """Whether the entries of unit length are a quaternion."""
        return self.unit is not None and self.unit.stop - self.unit.start == 4

    @property
    def turns(self) -> bool:
        """Whether its position is an angle whose whole turns do not count."""
        return self.unit is not None and self.nv == 1

    @property
    def has_springs(self) -> bool:
        """Whether springs act on it."""
        return self.unit is None or self.has_quaternion

    @property
    def has_axis(self) -> bool:
        """Whether it moves about or along one axis, or across it."""
        return any(0 < len({*self.motion_axes} & {*part}) < 3 for part in (LINEAR, ANGULAR))

    @abstractmethod
    def displacement(self, ops: Ops, axes: tuple[int, ...], q: Entries) -> tuple[list[Scalar] | None, Rotation | None]:
        """Pose of the child frame in the joint frame: position (3; not of screws) and rotation, None if constant."""

    def moved(self, ops: Ops, q: Entries, u: Entries) -> list[Scalar]:
        """`integrate`, where round-off of unit lengths stays."""
        return plus(q, u)

    def integrate(self, ops: Ops, q: Entries, u: Entries) -> list[Scalar]:
        """Configuration (nq) reached from ``q`` by the velocity ``u`` (nv) held for one unit of time."""
        out = self.moved(ops, q, u)
        if self.unit is not None:
            x = out[self.unit]
            factor = 1.5 - 0.5 * dot(x, x)
            out[self.unit] = [factor * y for y in x]
        return out

    def integrate_changes(self, ops: Ops, u: Entries) -> tuple[Matrix, Matrix]:
        """Derivatives of ``q ⊕ u`` by ``q`` and by ``u`` (nv × nv each), in tangents at ``q`` and at ``q ⊕ u``."""
        nv, axes = self.nv, self.motion_axes
        if nv == 1 or not {*axes} & {*ANGULAR}:
            return ops.eye(nv), ops.eye(nv)
        U = ops.put(from_entries(ops, u), (6, 1), axes, (0,))
        V, W = cross_matrix(ops, ops.take(U, LINEAR, None)), cross_matrix(ops, ops.take(U, ANGULAR, None))
        v, w = column(ops, U)[:3], column(ops, U)[3:]
        square, slope = dot(w, w), 2.0 * dot(v, w)
        WW, VW = W @ W, V @ W + W @ V
        out, functions = [], _alternating(ops, square)
        for (a, da), (b, db) in itertools.pairwise(functions):
            rotated = ops.eye(3) - scaled_matrix(ops, a, W) + scaled_matrix(ops, b, WW)
            shifted = scaled_matrix(ops, b, VW) - scaled_matrix(ops, a, V)
            shifted = shifted + scaled_matrix(ops, slope * db, WW) - scaled_matrix(ops, slope * da, W)
            whole = ops.vstack([ops.hstack([rotated, shifted]), ops.hstack([ops.zeros(3, 3), rotated])])
            out.append(ops.take(whole, axes, axes))
        return out[0], out[1]

    def difference(self, ops: Ops, q0: Entries, q1: Entries) -> list[Scalar]:
        """Velocity (nv) that takes ``q0`` to ``q1`` in one unit of time, the short way round."""
        return minus(q1, q0)

    def spring_deflection(self, ops: Ops, q: Entries, rest: Sequence[float]) -> list[Scalar]:
        """``q − r`` (nv): of rotations the rotation vector from the rest position, the short way round.

        Of a free joint the way from there along the axes of its body.
        """
        return [x - r if r else x for x, r in zip(q, rest, strict=True)]  # a rest position of zero costs nothing

    def spring_deflection_changes(self, ops: Ops, q: Entries, rest: Sequence[float]) -> Matrix:
        """Derivative of `spring_deflection` by ``q``, in its tangent (nv × nv)."""
        return ops.eye(self.nv)

    def velocity_product(self, v: Entries) -> list[Scalar]:
        """``ω × v`` (nv), the Coriolis terms of a linear velocity whose axes rotate with the child."""
        return [0.0] * self.nv

    def position_update(self, ops: Ops, q: Entries, v: Entries, u: Entries) -> tuple[list[Scalar], list[Scalar]]:
        """``q`` displaced by ``u`` (nv), linear parts straight in the axes of ``q``, and ``v`` in the new axes."""
        return self.integrate(ops, q, u), list(v)

    def displacement_rate(self, ops: Ops, u: Entries, w: Entries) -> list[Scalar]:
        """Rate (nv) of the displacement ``u`` of `position_update` at the velocity ``w`` in the axes of its start."""
        return list(w)

    def position_update_changes(self, ops: Ops, v: Entries, u: Entries) -> tuple[Matrix, Matrix, Matrix, Matrix]:
        """Derivatives of what `position_update` gives: of the place by ``q`` and ``u``, of ``v`` by itself and ``u``.

        (nv × nv each), places in tangents of configurations.
        """
        nv = self.nv
        if nv == 1 or not {*self.motion_axes} & {*ANGULAR}:
            return ops.eye(nv), ops.eye(nv), ops.eye(nv), ops.zeros(nv, nv)
        axes = self.motion_axes
        x, V = (ops.put(from_entries(ops, a), (6, 1), axes, (0,)) for a in (u, v))
        back, right = BALL.integrate_changes(ops, column(ops, x)[3:])  # Rᵀ of the turn, and its right Jacobian
        E = ops.block_diagonal([back, back])
        straight = ops.block_diagonal([back, right])
        carried = -ops.put(back @ cross_matrix(ops, ops.take(x, LINEAR, None)), (6, 6), LINEAR, ANGULAR)
        turned = [cross_matrix(ops, back @ ops.take(V, part, None)) @ right for part in (LINEAR, ANGULAR)]
        by_turn = ops.put(ops.vstack(turned), (6, 6), (*LINEAR, *ANGULAR), ANGULAR)
        return tuple(ops.take(a, axes, axes) for a in (E + carried, straight, E, by_turn))  # type: ignore[return-value]

    def in_units(self, length: float) -> list[float]:
        """Factors (nq) of coordinates whose displacements are in units of a length: of angles and the like, 1."""
        if self.nq == 1:
            return [length if self.motion_axes[0] in LINEAR else 1.0]
        is_unit = range(self.nq)[self.unit] if self.unit is not None else ()
        return [1.0 if k in is_unit else length for k in range(self.nq)]

    def random(self, rng: np.random.Generator, batch: tuple[int, ...], lower: Array, upper: Array) -> Array:
        """Configurations (*batch, nq): within the limits, else angles in ±π, lengths in ±1 m, rotations uniform.

        Where one side has no limit, the other one is the nearer end of that range. Limits beyond `NO_LIMIT` are none.
        """
        if self.nq > 1:
            q = rng.uniform(-1.0, 1.0, (*batch, self.nq))
            if self.has_quaternion:
                quaternion = rng.normal(size=(*batch, 4))
                q[..., self.unit] = quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True)
            elif self.unit is not None:
                angle = rng.uniform(-np.pi, np.pi, batch)
                q[..., self.unit] = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
            return q
        low, high = usual_range(lower, upper, 1.0 if self.motion_axes[0] in LINEAR else np.pi)
        return rng.uniform(min(low[0], high[0]), max(low[0], high[0]), (*batch, 1))


class _Straight(JointKind):
    """Lengths along axes."""

    __slots__ = ()

    def displacement(self, ops: Ops, axes: tuple[int, ...], q: Entries) -> tuple[list[Scalar], None]:
        p: list[Scalar] = [0.0, 0.0, 0.0]
        for axis, x in zip(axes, q, strict=True):
            p[axis] = x
        return p, None


class _Angle(JointKind):
    """An angle about an axis."""

    __slots__ = ()

    def displacement(self, ops: Ops, axes: tuple[int, ...], q: Entries) -> tuple[None, PlanarRotation]:
        return None, PlanarRotation(axes[0] - 3, ops.cos(q[0]), ops.sin(q[0]))


class _UnitRotation(JointKind):
    """Numbers of unit length that are a rotation."""

    __slots__ = ()

    @abstractmethod
    def rotation(self, axis: int, q: Entries) -> Rotation:
        """Orientation of the child frame in the joint frame."""

    def exponential(self, ops: Ops, u: Entries) -> Rotation:
        """Rotation by the velocity ``u`` held for one unit of time."""
        return self.rotation(self.motion_axes[0] - 3, self.moved(ops, self.neutral, u))

    @abstractmethod
    def relative(self, ops: Ops, q0: Entries, q1: Entries) -> tuple[Scalar, list[Scalar]]:
        """Quaternion from ``q0`` to ``q1`` with ``w ≥ 0``, but for a sign of its vector, which is given first."""

    def displacement(self, ops: Ops, axes: tuple[int, ...], q: Entries) -> tuple[None, Rotation]:
        return None, self.rotation(axes[0] - 3, q)


class _CosSin(_UnitRotation):
    """Cosine and sine of an angle about an axis."""

    __slots__ = ()

    def rotation(self, axis: int, q: Entries) -> PlanarRotation:
        return PlanarRotation(axis, q[0], q[1])

    def moved(self, ops: Ops, q: Entries, u: Entries) -> list[Scalar]:
        c, s = ops.cos(u[0]), ops.sin(u[0])
        return [c * q[0] - s * q[1], s * q[0] + c * q[1]]

    def difference(self, ops: Ops, q0: Entries, q1: Entries) -> list[Scalar]:
        c, s = q0[0] * q1[0] + q0[1] * q1[1], q0[0] * q1[1] - q0[1] * q1[0]
        acute = ops.copysign(s, 1.0) * _angle_functions(ops, ops.copysign(c, 1.0))[0]
        return [ops.copysign(ops.select(ops.less(c, 0.0), math.pi - acute, acute), s)]

    def relative(self, ops: Ops, q0: Entries, q1: Entries) -> tuple[Scalar, list[Scalar]]:
        half = 0.5 * self.difference(ops, q0, q1)[0]
        turn: list[Scalar] = [0.0, 0.0, 0.0, ops.cos(half)]
        turn[self.motion_axes[0] - 3] = ops.sin(half)
        return 1.0, turn


class _Ball(_UnitRotation):
    """A quaternion."""

    __slots__ = ()

    def rotation(self, axis: int, q: Entries) -> GeneralRotation:
        return GeneralRotation(quaternion_rows(*q))

    def moved(self, ops: Ops, q: Entries, u: Entries) -> list[Scalar]:
        _, cosine, sinc = _half_angle_functions(ops, u)
        return _product(q, [0.5 * sinc * x for x in u] + [cosine])

    def relative(self, ops: Ops, q0: Entries, q1: Entries) -> tuple[Scalar, list[Scalar]]:
        x, y, z, w = _product([-q0[0], -q0[1], -q0[2], q0[3]], q1)
        return ops.copysign(1.0, w), [x, y, z, ops.copysign(w, 1.0)]

    def difference(self, ops: Ops, q0: Entries, q1: Entries) -> list[Scalar]:
        sign, (x, y, z, w) = self.relative(ops, q0, q1)
        factor = 2.0 * sign * _angle_functions(ops, w)[0]
        return [factor * x, factor * y, factor * z]

    def spring_deflection(self, ops: Ops, q: Entries, rest: Sequence[float]) -> list[Scalar]:
        return self.difference(ops, self.moved(ops, self.neutral, rest), q)

    def spring_deflection_changes(self, ops: Ops, q: Entries, rest: Sequence[float]) -> Matrix:
        sign, (x, y, z, w) = self.relative(ops, self.moved(ops, self.neutral, rest), q)
        f, g = _angle_functions(ops, w)
        V = cross_matrix(ops, from_entries(ops, [x, y, z]))
        return ops.eye(3) + scaled_matrix(ops, sign * f, V) + scaled_matrix(ops, g, V @ V)

    def position_update(self, ops: Ops, q: Entries, v: Entries, u: Entries) -> tuple[list[Scalar], list[Scalar]]:
        return self.integrate(ops, q, u), rotated(self.exponential(ops, u).inverse(), v)

    def displacement_rate(self, ops: Ops, u: Entries, w: Entries) -> list[Scalar]:
        """``dexp⁻¹(u) w = w − ½ u × w + (1 − ½ θ cot ½ θ) / θ² u × (u × w)``."""
        square, cosine, sinc = _half_angle_functions(ops, u)
        once = cross_entries(u, w)
        factor = (1.0 - cosine / sinc) / square
        return [x - 0.5 * y + factor * z for x, y, z in zip(w, once, cross_entries(u, once), strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class _Pose(JointKind):
    """A position along the first axes, then a rotation in coordinates of another kind."""

    of_rotation: _UnitRotation = field(kw_only=True)

    @property
    def n(self) -> int:
        """Number of coordinates of the position."""
        return self.nv - self.of_rotation.nv

    def rotation(self, q: Entries) -> Rotation:
        """Orientation of the child frame in the joint frame."""
        return self.of_rotation.rotation(self.of_rotation.motion_axes[0] - 3, q[-self.of_rotation.nq :])

    def displacement(self, ops: Ops, axes: tuple[int, ...], q: Entries) -> tuple[list[Scalar], Rotation]:
        return self._vector(q), self.rotation(q)

    def _vector(self, x: Entries) -> list[Scalar]:
        """Linear part (3) of a configuration or velocity."""
        return [*x[: self.n], *[0.0] * (3 - self.n)]

    def _angular(self, v: Entries) -> list[Scalar]:
        """Angular part (3) of a velocity."""
        return [*[0.0] * (3 - self.of_rotation.nv), *v[self.n :]]

    def moved(self, ops: Ops, q: Entries, u: Entries) -> list[Scalar]:
        v, w = self._vector(u), self._angular(u)
        square, cosine, sinc = _half_angle_functions(ops, w)
        wv = cross_entries(w, v)
        wwv = cross_entries(w, wv)
        b, c = 0.5 * sinc * sinc, (1.0 - sinc * cosine) / square  # (1 − cos θ)/θ², (θ − sin θ)/θ³
        p = [x + b * y + c * z for x, y, z in zip(v, wv, wwv, strict=True)]
        return self._carried(q, p) + self.of_rotation.moved(ops, q[self.n :], u[self.n :])

    def _carried(self, q: Entries, p: Entries) -> list[Scalar]:
        """Position in the joint frame of a point (3) of the child frame."""
        rows = zip(q[: self.n], self.rotation(q).rows(), strict=False)
        return [x + row[0] * p[0] + row[1] * p[1] + row[2] * p[2] for x, row in rows]

    def difference(self, ops: Ops, q0: Entries, q1: Entries) -> list[Scalar]:
        n = self.n
        away = minus(self._vector(q1), self._vector(q0))
        p = rotated(self.rotation(q0).inverse(), away)
        sign, turn = self.of_rotation.relative(ops, q0[n:], q1[n:])
        f, g = _angle_functions(ops, turn[3])
        across = cross_entries(turn[:3], p)
        v = [x - sign * f * y + g * z for x, y, z in zip(p, across, cross_entries(turn[:3], across), strict=True)]
        return v[:n] + self.of_rotation.difference(ops, q0[n:], q1[n:])

    def spring_deflection(self, ops: Ops, q: Entries, rest: Sequence[float]) -> list[Scalar]:
        away = JointKind.spring_deflection(self, ops, q[:3], rest[:3])
        turned = self.of_rotation.spring_deflection(ops, q[3:], rest[3:])
        return rotated(self.rotation(q).inverse(), away) + turned

    def spring_deflection_changes(self, ops: Ops, q: Entries, rest: Sequence[float]) -> Matrix:
        away = cross_matrix(ops, from_entries(ops, self.spring_deflection(ops, q, rest)[:3]))
        rotated = self.of_rotation.spring_deflection_changes(ops, q[3:], rest[3:])
        return ops.vstack([ops.hstack([ops.eye(3), away]), ops.hstack([ops.zeros(3, 3), rotated])])

    def velocity_product(self, v: Entries) -> list[Scalar]:
        return cross_entries(self._angular(v), self._vector(v))[: self.n] + [0.0] * self.of_rotation.nv

    def position_update(self, ops: Ops, q: Entries, v: Entries, u: Entries) -> tuple[list[Scalar], list[Scalar]]:
        n, of = self.n, self.of_rotation
        turned, angular = of.position_update(ops, q[n:], v[n:], u[n:])
        linear = rotated(of.exponential(ops, u[n:]).inverse(), self._vector(v))[:n]
        return self._carried(q, self._vector(u)) + turned, linear + angular

    def displacement_rate(self, ops: Ops, u: Entries, w: Entries) -> list[Scalar]:
        return [*w[: self.n], *self.of_rotation.displacement_rate(ops, u[self.n :], w[self.n :])]


REVOLUTE = _Angle("revolute", (3,), (0.0,))
SCREW = _Angle("screw", (3,), (0.0,))
COS_SIN = _CosSin("cos-sin", (3,), (1.0, 0.0), slice(0, 2))
PRISMATIC = _Straight("prismatic", (0,), (0.0,))
BALL = _Ball("ball", ANGULAR, (0.0, 0.0, 0.0, 1.0), slice(0, 4), (-1.0, -1.0, -1.0, 1.0))
PLANAR = _Pose(
    "planar", (0, 1, 5), (0.0, 0.0, *COS_SIN.neutral), slice(2, 4), of_rotation=replace(COS_SIN, motion_axes=(5,))
)
TRANSLATION = _Straight("translation", LINEAR, (0.0, 0.0, 0.0), None, (-1.0, -1.0, -1.0))
FREE = _Pose("free", (*LINEAR, *ANGULAR), (0.0, 0.0, 0.0, *BALL.neutral), slice(3, 7), of_rotation=BALL)

KINDS = (REVOLUTE, COS_SIN, SCREW, PRISMATIC, PLANAR, BALL, TRANSLATION, FREE)
"""All of them."""


def usual_range(lower: Array, upper: Array, reach: float) -> tuple[Array, Array]:
    """Least and largest coordinates (n,): limits, and where a side has none ``reach`` from zero, or beyond the other.

    Limits beyond `NO_LIMIT` are none.
    """
    below, above = np.abs(lower) < NO_LIMIT, np.abs(upper) < NO_LIMIT
    low = np.where(below, lower, np.where(above, np.minimum(-reach, upper - reach), -reach))
    return low, np.where(above, upper, np.maximum(reach, low + reach))


def rotated(R: Rotation, x: Entries) -> list[Scalar]:
    """``R x``: a vector (3) of the child's axes in those of the joint."""
    return [dot(row, x) for row in R.rows()]


def _product(a: Entries, b: Entries) -> list[Scalar]:
    """Hamilton product of quaternions x y z w."""
    product = cross_entries(a[:3], b[:3])
    vector = [a[3] * y + b[3] * x + z for x, y, z in zip(a[:3], b[:3], product, strict=True)]
    return [*vector, a[3] * b[3] - a[0] * b[0] - a[1] * b[1] - a[2] * b[2]]


def _half_angle_functions(ops: Ops, w: Entries) -> tuple[Scalar, Scalar, Scalar]:
    """``θ²``, ``cos (θ / 2)`` and ``sin (θ / 2) / (θ / 2)`` of a rotation vector (3)."""
    square = dot(w, w) + TINY
    half = 0.5 * ops.sqrt(square)
    return square, ops.cos(half), ops.sin(half) / half


def _angle_functions(ops: Ops, w: Scalar) -> tuple[Scalar, Scalar]:
    """``h / sin h`` and ``(1 − h cot h) / sin² h`` of ``h = acos w``, at most π/2.

    Power series of ``atan t / t`` in ``t² = tan²(h / 8)``, and formulas for twice the angle.
    """
    c4 = ops.sqrt(0.5 + 0.5 * w)
    c2 = ops.sqrt(0.5 + 0.5 * c4)
    over = 1.0 / (1.0 + c2)
    z = (1.0 - c2) * over
    rest: Scalar = 0.0
    for n in reversed(range(1, HALF_ANGLES)):
        rest = (-1.0) ** n / (2 * n + 1) + z * rest
    series = 1.0 + z * rest  # of the angle h / 8
    f = 2.0 * over * series  # of h / 4, and twice doubled
    g = over * over * (series - rest)
    for c in (c2, c4):
        f = f / c
        g = 0.25 * (g + f) / (c * c)
    return f, g


def _alternating(ops: Ops, y: Scalar) -> list[tuple[Scalar, Scalar]]:
    """``f_k = Σ (−y)ⁿ / (2 n + k)!``, k = 1 to 3, and derivatives: ``sin θ / θ``, ``(1 − cos θ) / θ²`` … at ``y = θ²``.

    Beyond one radian ``y f_k = 1 / (k − 2)! − f_(k − 2)`` and ``2 y f_k' = f_(k − 1) − k f_k``.
    """
    near, z, out = ops.less(y, 1.0), ops.maximum(y, 1.0), list[tuple[Scalar, Scalar]]()
    theta, over = ops.sqrt(z), 1.0 / z
    far = [ops.cos(theta), ops.sin(theta) / theta]
    far += [(1.0 - x) * over for x in far]
    for k in (1, 2, 3):
        value: Scalar = _coefficient(SERIES - 1, k)
        slope: Scalar = 0.0
        for n in reversed(range(SERIES - 1)):  # Horner's rule, and its derivative
            slope = value + y * slope
            value = _coefficient(n, k) + y * value
        beyond = 0.5 * over * (far[k - 1] - k * far[k])
        out.append((ops.select(near, value, far[k]), ops.select(near, slope, beyond)))
    return out


def _coefficient(n: int, k: int) -> float:
    return (-1.0) ** n / math.factorial(2 * n + k)
