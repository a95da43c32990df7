"""Congruences of 6×6 matrices by one elementary displacement, block by block, with as few operations as possible.

A symmetric matrix is ``[[A, B], [Bᵀ, C]]`` with 3×3 blocks; a stage is a turn or a translation, child → parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from delassus.spatial.elementary_rotations import Entries, PlanarTurn, SignedPermutation, Turn

if TYPE_CHECKING:
    from delassus.spatial.ops import Matrix, Ops

Stage = Turn | list[Any]
"""A turn, or a translation given by its three components."""


def blocks(H: Entries) -> tuple[Entries, Entries, Entries]:
    """Blocks ``A``, ``B``, ``C`` of a symmetric matrix."""
    return [r[:3] for r in H[:3]], [r[3:] for r in H[:3]], [r[3:] for r in H[3:]]


def join(ops: Ops, A: Entries, B: Entries, C: Entries) -> Matrix:
    """Symmetric matrix of the blocks."""
    return ops.matrix([A[i] + B[i] for i in range(3)] + [[B[j][i] for j in range(3)] + C[i] for i in range(3)])


def congruence(stage: Stage, A: Entries, B: Entries, C: Entries) -> tuple[Entries, Entries, Entries]:
    """Blocks of ``Xᵀ H X`` for the motion transform ``X`` of one stage."""
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


def rigid_congruence(stage: Stage, m: Any, h: list[Any], C: Entries) -> tuple[list[Any], Entries]:
    """First and second mass moments of a body of mass ``m`` after one stage."""
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
