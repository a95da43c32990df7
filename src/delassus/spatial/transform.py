"""Motion transforms between a link and its parent, and what they do to rows, motions and inertias.

A joint displaces its link by a constant translation, a constant rotation, a slide and a turn, in this order from the
parent. `Displacement` says which; `DenseTransform` multiplies them out to one 6×6 matrix (best for NumPy);
`StagedTransform` applies them one after the other (fewest operations: a turn about a coordinate axis touches two
coordinates, a constant quarter turn none).

Both offer the same operations, with ``X = X_child_parent``:

=============================  ==========  ============================================================
`rows_to_parent(K)`            K X         constraint rows, or forces as rows
`motions_to_child(V)`          X V         motion vectors as columns
`forces_to_parent(F)`          Xᵀ F        force vectors as columns
`inertia_to_parent(H)`         Xᵀ H X      symmetric
`inverse_inertia_to_child(W)`  X W Xᵀ      symmetric
`rotate_to_parent(V)`          R V         3-vectors as columns, child axes → parent axes
`position()`                   p           origin of the child frame in the parent frame (3×1)
=============================  ==========  ============================================================
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from delassus.model.joints import Joint, JointKind
from delassus.model.rotations import Array

if TYPE_CHECKING:
    from delassus.spatial.ops import Matrix, Ops, Scalar

Entries = list[list[Any]]


@dataclass(frozen=True, slots=True)
class PlanarTurn:
    """Rotation about coordinate axis ``axis`` by an angle of the given cosine and sine."""

    axis: int
    c: Any
    s: Any

    def rows(self) -> Entries:
        """3×3 matrix, child axes → parent axes."""
        i, j = (self.axis + 1) % 3, (self.axis + 2) % 3
        R: Entries = [[1.0 if a == b else 0.0 for b in range(3)] for a in range(3)]
        R[i][i] = R[j][j] = self.c
        R[i][j], R[j][i] = -self.s, self.s
        return R

    def inverse(self) -> PlanarTurn:
        """The turn back."""
        return PlanarTurn(self.axis, self.c, -self.s)


@dataclass(frozen=True, slots=True)
class GeneralTurn:
    """Rotation given by its 3×3 entries, child axes → parent axes."""

    entries: Entries

    def rows(self) -> Entries:
        """3×3 matrix, child axes → parent axes."""
        return self.entries

    def inverse(self) -> GeneralTurn:
        """The turn back."""
        return GeneralTurn([list(column) for column in zip(*self.entries, strict=True)])


@dataclass(frozen=True, slots=True)
class SignedPermutation:
    """Constant rotation that maps coordinate axes to coordinate axes: ``parent[i] = sign[i] · child[source[i]]``."""

    source: tuple[int, int, int]
    sign: tuple[float, float, float]

    def rows(self) -> Entries:
        """3×3 matrix, child axes → parent axes."""
        return [[self.sign[i] if self.source[i] == j else 0.0 for j in range(3)] for i in range(3)]

    def inverse(self) -> SignedPermutation:
        """The turn back."""
        back = [self.source.index(i) for i in range(3)]
        sign = [self.sign[k] for k in back]
        return SignedPermutation((back[0], back[1], back[2]), (sign[0], sign[1], sign[2]))


Turn = PlanarTurn | GeneralTurn | SignedPermutation


@dataclass(frozen=True, slots=True)
class Displacement:
    """Pose of a link in its parent: translation, then rotation, then slide, then turn.

    Attributes
    ----------
    position : (3,) array
        Constant origin of the joint frame in the parent.
    rotation : (3, 3) array
        Constant orientation of the joint frame in the parent.
    slide : list of three scalars, or None
        Origin of the child in the joint frame.
    turn : Turn or None
        Orientation of the child in the joint frame.
    """

    position: Array
    rotation: Array
    slide: list[Any] | None
    turn: Turn | None


def displacement(ops: Ops, joint: Joint, q: Any, start: int) -> Displacement:
    """Displacement of a joint whose coordinates start at index ``start`` of the configuration ``q``."""
    slide: list[Any] | None = None
    turn: Turn | None = None

    def x(k: int) -> Scalar:
        return ops.entry(q, start + k)

    kind = joint.kind
    if kind is JointKind.REVOLUTE:
        turn = PlanarTurn(joint.axis, ops.cos(x(0)), ops.sin(x(0)))
    elif kind is JointKind.COS_SIN:
        turn = PlanarTurn(joint.axis, x(0), x(1))
    elif kind is JointKind.PRISMATIC:
        slide = [x(0) if k == joint.axis else 0.0 for k in range(3)]
    elif kind is JointKind.PLANAR:
        slide, turn = [x(0), x(1), 0.0], PlanarTurn(2, x(2), x(3))
    elif kind is JointKind.BALL:
        turn = GeneralTurn(_quaternion_rows(x(0), x(1), x(2), x(3)))
    elif kind is JointKind.TRANSLATION:
        slide = [x(0), x(1), x(2)]
    elif kind is JointKind.FREE:
        slide, turn = [x(0), x(1), x(2)], GeneralTurn(_quaternion_rows(x(3), x(4), x(5), x(6)))
    return Displacement(joint.position, joint.rotation, slide, turn)


def _quaternion_rows(x: Scalar, y: Scalar, z: Scalar, w: Scalar) -> Entries:
    """Rotation matrix of a unit quaternion."""
    x2, y2, z2 = x + x, y + y, z + z
    xx, yy, zz = x * x2, y * y2, z * z2
    xy, xz, yz = x * y2, x * z2, y * z2
    wx, wy, wz = w * x2, w * y2, w * z2
    return [
        [1.0 - (yy + zz), xy - wz, xz + wy],
        [xy + wz, 1.0 - (xx + zz), yz - wx],
        [xz - wy, yz + wx, 1.0 - (xx + yy)],
    ]


class DenseTransform:
    """One 6×6 matrix, batched."""

    def __init__(self, ops: Ops, d: Displacement) -> None:
        self._ops = ops
        R, p = ops.constant(d.rotation), ops.constant(d.position[:, None])
        if d.slide is not None:
            p = p + R @ ops.matrix([[x] for x in d.slide])
        if d.turn is not None:
            R = R @ ops.matrix(d.turn.rows())
        self._R, self._p = R, p
        E = ops.transpose(R)
        (px,), (py,), (pz,) = ops.entries(p)
        cross = ops.matrix([[0 * px, -pz, py], [pz, 0 * px, -px], [-py, px, 0 * px]])
        top = ops.hstack([E, -(E @ cross)])
        self._X = ops.vstack([top, ops.hstack([ops.zeros(3, 3), E])])
        self._XT = ops.transpose(self._X)

    def rows_to_parent(self, K: Matrix) -> Matrix:
        """``K X``."""
        return K @ self._X

    def motions_to_child(self, V: Matrix) -> Matrix:
        """``X V``."""
        return self._X @ V

    def forces_to_parent(self, F: Matrix) -> Matrix:
        """``Xᵀ F``."""
        return self._XT @ F

    def inertia_to_parent(self, H: Matrix) -> Matrix:
        """``Xᵀ H X``."""
        return self._ops.sym_product(self._XT, H @ self._X)

    def inverse_inertia_to_child(self, W: Matrix) -> Matrix:
        """``X W Xᵀ``."""
        return self._ops.sym_product(self._X @ W, self._XT)

    def rotate_to_parent(self, V: Matrix) -> Matrix:
        """``R V``."""
        return self._R @ V

    def position(self) -> Matrix:
        """``p``."""
        return self._p


class StagedTransform:
    """One elementary displacement after the other."""

    def __init__(self, ops: Ops, d: Displacement) -> None:
        self._ops = ops
        fixed, position, first = _fixed_stages(d.rotation.tobytes(), d.position.tobytes())
        # from the parent to the child
        stages: list[Turn | list[Any]] = list(fixed)
        if position is not None:
            stages.insert(0 if first else len(stages), position)
        if d.slide is not None:
            stages.append(d.slide)
        if d.turn is not None:
            stages.append(d.turn)
        self._stages = stages
        self._matrices: list[Any] | None = None

    def _stage_matrices(self) -> list[Any]:
        if self._matrices is None:
            self._matrices = [self._ops.matrix(_motion_rows(stage)) for stage in self._stages]
        return self._matrices

    def rows_to_parent(self, K: Matrix) -> Matrix:
        """``K X``."""
        for X in reversed(self._stage_matrices()):
            K = K @ X
        return K

    def motions_to_child(self, V: Matrix) -> Matrix:
        """``X V``."""
        for X in self._stage_matrices():
            V = X @ V
        return V

    def forces_to_parent(self, F: Matrix) -> Matrix:
        """``Xᵀ F``."""
        return self._ops.transpose(self.rows_to_parent(self._ops.transpose(F)))

    def inertia_to_parent(self, H: Matrix) -> Matrix:
        """``Xᵀ H X``."""
        A, B, C = _blocks(self._ops.entries(H))
        for stage in reversed(self._stages):
            A, B, C = _congruence(stage, A, B, C)
        return _join(self._ops, A, B, C)

    def inverse_inertia_to_child(self, W: Matrix) -> Matrix:
        """``X W Xᵀ``: the same congruence with angular and linear exchanged and every stage turned back."""
        L, M, A = _blocks(self._ops.entries(W))
        B = [list(column) for column in zip(*M, strict=True)]
        for stage in self._stages:
            back = [-x for x in stage] if isinstance(stage, list) else stage.inverse()
            A, B, L = _congruence(back, A, B, L)
        return _join(self._ops, L, [list(column) for column in zip(*B, strict=True)], A)

    def rotate_to_parent(self, V: Matrix) -> Matrix:
        """``R V``."""
        for stage in reversed(self._stages):
            if not isinstance(stage, list):
                V = self._ops.matrix(stage.rows()) @ V
        return V

    def position(self) -> Matrix:
        """``p``."""
        p = self._ops.zeros(3, 1)
        for stage in reversed(self._stages):
            step = self._ops.matrix([[x] for x in stage] if isinstance(stage, list) else stage.rows())
            p = p + step if isinstance(stage, list) else step @ p
        return p

    def rigid_inertia_to_parent(self, m: float, h: list[Any], C: Entries) -> tuple[list[Any], Entries]:
        """First and second mass moments ``h`` and ``C`` of a body of mass ``m``, moved to the parent frame."""
        for stage in reversed(self._stages):
            h, C = _rigid_congruence(stage, m, h, C)
        return h, C


def _motion_rows(stage: Turn | list[Any]) -> Entries:
    """6×6 motion transform of one stage, parent coordinates → child coordinates."""
    zero = [0.0, 0.0, 0.0]
    if isinstance(stage, list):
        x, y, z = stage
        minus_cross: Entries = [[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]]
        eye = np.eye(3).tolist()
        return [eye[i] + minus_cross[i] for i in range(3)] + [zero + eye[i] for i in range(3)]
    E = stage.inverse().rows()
    return [list(E[i]) + zero for i in range(3)] + [zero + list(E[i]) for i in range(3)]


# -- congruences of symmetric 6×6 matrices, block by block: [[A, B], [Bᵀ, C]], child → parent ----------------------


def _blocks(H: Entries) -> tuple[Entries, Entries, Entries]:
    return [r[:3] for r in H[:3]], [r[3:] for r in H[:3]], [r[3:] for r in H[3:]]


def _join(ops: Ops, A: Entries, B: Entries, C: Entries) -> Matrix:
    return ops.matrix([A[i] + B[i] for i in range(3)] + [[B[j][i] for j in range(3)] + C[i] for i in range(3)])


def _congruence(stage: Turn | list[Any], A: Entries, B: Entries, C: Entries) -> tuple[Entries, Entries, Entries]:
    if isinstance(stage, list):
        return _translate(stage, A, B, C)
    return _turn_symmetric(stage, A), _turn_general(stage, B), _turn_symmetric(stage, C)


def _translate(p: list[Any], A: Entries, B: Entries, C: Entries) -> tuple[Entries, Entries, Entries]:
    """``B'' = B − A p×`` and ``C'' = C + p× B'' + (p× B)ᵀ``."""
    B2 = [[B[i][j] - _cross_column(A[i], p, j) for j in range(3)] for i in range(3)]
    C2 = [list(row) for row in C]
    for i in range(3):
        both = [[B2[k][i] + B[k][i]] for k in range(3)]
        C2[i][i] = C[i][i] + _cross_row(p, both, i, 0)
        for j in range(i):
            C2[i][j] = C2[j][i] = C[i][j] + (_cross_row(p, B2, i, j) + _cross_row(p, B, j, i))
    return A, B2, C2


def _cross_column(a: list[Any], p: list[Any], j: int) -> Any:
    """Entry j of the row ``a p×``."""
    k, l = (j + 1) % 3, (j + 2) % 3
    return a[k] * p[l] - a[l] * p[k]


def _cross_row(p: list[Any], B: Entries, i: int, j: int) -> Any:
    """Entry (i, j) of ``p× B``."""
    k, l = (i + 1) % 3, (i + 2) % 3
    return p[k] * B[l][j] - p[l] * B[k][j]


def _turn_symmetric(turn: Turn, A: Entries) -> Entries:
    """``R A Rᵀ`` of a symmetric matrix."""
    if isinstance(turn, PlanarTurn):
        k, c, s = turn.axis, turn.c, turn.s
        i, j = (k + 1) % 3, (k + 2) % 3
        u = s * (A[i][i] - A[j][j]) + c * (A[i][j] + A[i][j])
        out: Entries = [list(row) for row in A]
        su = s * u
        out[i][i], out[j][j] = A[i][i] - su, A[j][j] + su
        out[i][j] = out[j][i] = c * u - A[i][j]
        out[i][k] = out[k][i] = c * A[i][k] - s * A[j][k]
        out[j][k] = out[k][j] = s * A[i][k] + c * A[j][k]
        return out
    if isinstance(turn, SignedPermutation):
        return _permute(turn, A)
    R = turn.rows()
    RA = [[_dot(R[i], [A[k][j] for k in range(3)]) for j in range(3)] for i in range(3)]
    out = [[0.0] * 3 for _ in range(3)]
    for i in range(3):
        for j in range(i + 1):
            out[i][j] = out[j][i] = _dot(RA[i], R[j])
    return out


def _turn_general(turn: Turn, B: Entries) -> Entries:
    """``R B Rᵀ``."""
    if isinstance(turn, PlanarTurn):
        k, c, s = turn.axis, turn.c, turn.s
        i, j = (k + 1) % 3, (k + 2) % 3
        u = s * (B[i][i] - B[j][j]) + c * (B[i][j] + B[j][i])
        out: Entries = [list(row) for row in B]
        su, cu = s * u, c * u
        out[i][i], out[j][j] = B[i][i] - su, B[j][j] + su
        out[i][j], out[j][i] = cu - B[j][i], cu - B[i][j]
        out[i][k], out[j][k] = c * B[i][k] - s * B[j][k], s * B[i][k] + c * B[j][k]
        out[k][i], out[k][j] = c * B[k][i] - s * B[k][j], s * B[k][i] + c * B[k][j]
        return out
    if isinstance(turn, SignedPermutation):
        return _permute(turn, B)
    R = turn.rows()
    RB = [[_dot(R[i], [B[k][j] for k in range(3)]) for j in range(3)] for i in range(3)]
    return [[_dot(RB[i], R[j]) for j in range(3)] for i in range(3)]


def _permute(turn: SignedPermutation, A: Entries) -> Entries:
    at, sign = turn.source, turn.sign
    return [
        [A[at[i]][at[j]] if sign[i] == sign[j] else -A[at[i]][at[j]] for j in range(3)] for i in range(3)
    ]  # fmt: skip


def _dot(a: list[Any], b: list[Any]) -> Any:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _rigid_congruence(stage: Turn | list[Any], m: float, h: list[Any], C: Entries) -> tuple[list[Any], Entries]:
    if not isinstance(stage, list):
        R = stage.rows()
        return [_dot(R[i], h) for i in range(3)], _turn_symmetric(stage, C)
    # C'' = C − h' pᵀ − p hᵀ + (p·h' + p·h) 1 with h' = h + m p
    p = stage
    h2 = [h[i] + m * p[i] for i in range(3)]
    along = [p[i] * (h[i] + h2[i]) for i in range(3)]
    C2: Entries = [list(row) for row in C]
    for i in range(3):
        C2[i][i] = C[i][i] + (along[(i + 1) % 3] + along[(i + 2) % 3])
        for j in range(i):
            C2[i][j] = C2[j][i] = C[i][j] - (h2[i] * p[j] + p[i] * h[j])
    return h2, C2


# -- constant rotations as few elementary turns --------------------------------------------------------------------


@cache
def _fixed_stages(rotation: bytes, position: bytes) -> tuple[tuple[Turn, ...], list[float] | None, bool]:
    """Elementary turns (parent → child order), translation or None, and whether the translation comes first."""
    R = np.frombuffer(rotation).reshape(3, 3)
    p = np.frombuffer(position)
    turns = elementary_turns(R)
    size = float(np.max(np.abs(p), initial=0.0))
    if size < 1e-15:
        return turns, None, True
    in_child = R.T @ p
    in_child = np.where(np.abs(in_child) < 1e-14 * size, 0.0, in_child)
    if np.count_nonzero(in_child) < np.count_nonzero(p):
        return turns, in_child.tolist(), False
    return turns, p.tolist(), True


def elementary_turns(R: Array) -> tuple[Turn, ...]:
    """Write a constant rotation as the fewest turns about coordinate axes, times a signed permutation if it helps.

    Their product, left to right, is ``R`` (child axes → parent axes).
    """
    best: tuple[Turn, ...] | None = None
    for P in _signed_permutations():
        planar = _planar_factors(R @ P.T)
        if planar is None:
            continue
        turns: tuple[Turn, ...] = planar
        if not np.array_equal(P, np.eye(3)):
            source = tuple(int(np.argmax(np.abs(P[i]))) for i in range(3))
            sign = tuple(float(P[i, source[i]]) for i in range(3))
            turns = (*planar, SignedPermutation((source[0], source[1], source[2]), (sign[0], sign[1], sign[2])))
        if best is None or _cost(turns) < _cost(best):
            best = turns
    assert best is not None
    return best


def _cost(turns: tuple[Turn, ...]) -> float:
    permutations = [t for t in turns if isinstance(t, SignedPermutation)]
    return len(turns) - len(permutations) + sum(0.1 * (1 + t.sign.count(-1.0)) for t in permutations)


@cache
def _signed_permutations() -> tuple[Array, ...]:
    out = []
    for order in itertools.permutations(range(3)):
        for signs in itertools.product((1.0, -1.0), repeat=3):
            P = np.zeros((3, 3))
            P[range(3), order] = signs
            if np.linalg.det(P) > 0:
                out.append(P)
    out.sort(key=lambda P: -np.trace(P))
    return tuple(out)


def _planar_factors(R: Array) -> tuple[PlanarTurn, ...] | None:
    """``R`` as a product of 0, 1, 2 or 3 planar turns; None only where another permutation does better."""
    tiny = 1e-15
    if np.max(np.abs(R - np.eye(3))) < tiny:
        return ()
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        turn = PlanarTurn(k, float(R[i, i]), float(R[j, i]))
        if np.max(np.abs(np.array(turn.rows()) - R)) < 4 * tiny:
            return (turn,)
    for a, b in itertools.permutations(range(3), 2):  # R = R_a R_b leaves (R e_b)·e_a = 0
        if abs(R[a, b]) < tiny:
            i, j = (a + 1) % 3, (a + 2) % 3
            sine, cosine = (R[j, b], R[i, b]) if i == b else (-R[i, b], R[j, b])
            first = PlanarTurn(a, float(cosine), float(sine))
            rest = np.array(first.rows()).T @ R
            i, j = (b + 1) % 3, (b + 2) % 3
            second = PlanarTurn(b, float(rest[i, i]), float(rest[j, i]))
            if np.max(np.abs(np.array(first.rows()) @ np.array(second.rows()) - R)) < 4 * tiny:
                return first, second
    cosine = float(np.hypot(R[0, 0], R[1, 0]))  # R = R_z R_y R_x
    if cosine < 1e-6:
        return None
    z = PlanarTurn(2, float(R[0, 0] / cosine), float(R[1, 0] / cosine))
    rest = np.array(z.rows()).T @ R  # takes up what z lost in the division
    y = PlanarTurn(1, float(rest[0, 0]), float(-rest[2, 0]))
    x = PlanarTurn(0, float(rest[1, 1]), float(-rest[1, 2]))
    return z, y, x
