"""How velocities answer changes at the solution of a step: implicit function theorem, one factorisation for all.

With velocities ``v⁺`` and impulses ``p`` held, the momentum ``ρ = M (v⁺ − v*) − Jᵀ p`` and the rows ``σ = J v⁺ + d``
change with what varies; the first is an inverse dynamics whose forces are known. Then

    M dv⁺ − Jᵀ dp = −∂ρ,   C (J dv⁺ + ∂σ) + D x = 0,   dp = B x,

where ``C``, ``B`` and ``D`` say what each contact does (`delassus.algorithms.contact.modes`).

Joints that friction or a limit holds are left out of ``M`` (`SparseFactor`), and move as their limit does. With
``R = J M⁻¹``, ``E = (C J M⁻¹ Jᵀ B + D)⁻¹ C`` and ``N = (Bᵀ R)ᵀ E``,

    dv⁺ = −Φ ∂ρ − N ∂σ,   Φ = ∂v⁺/∂(M v*) = M⁻¹ − N R.

Where rows depend on one another at all states, ``dv⁺`` is unique and impulses are the smallest: for ``A⁻¹`` stands
``A_δ (1 + δ A_δ − 2 δ² A_δ²)``, ``A_δ = (A + δ)⁻¹``, which is ``1 / a`` up to ``3 (δ / a)²`` and zero at ``a = 0``.

Source: Le Lidec, Montaut, de Mont-Marin, Schramm and Carpentier 2024; the modes are derived anew, from the laws of
`StepProblem`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from delassus.algorithms.contact.solution import SolvedProblem
from delassus.algorithms.contact.step import ContactStep
from delassus.algorithms.osim.ltl import rows_over_factor
from delassus.algorithms.problem import Problem
from delassus.algorithms.sparse_factor import SparseFactor
from delassus.model.tree import Tree
from delassus.spatial.motion import diagonal, from_entries, scaled_matrix
from delassus.spatial.ops import Matrix, Ops, Scalar

ROUNDING = 512.0
"""``δ``, over mobilities and round-off, where rows are independent but at single states, for which there is a solution.

Where rows depend on others at all states, it is the root of the round-off.
"""


class Response:
    """How velocities answer changes of momentum and of rows, contacts and joints in the modes of a solved problem.

    ``rows`` are those of points; ``Phi`` (nv × nv) and ``N`` (nv × m).
    """

    def __init__(
        self,
        step: ContactStep,
        solved: SolvedProblem,
        smoothing: Scalar | None = None,
        of_points: Sequence[Scalar | None] | None = None,
    ) -> None:
        ops, nv = step.ops, step.tree.nv
        self._ops, self._step, self._solved = ops, step, solved
        self.modes, self.holds = step.modes(solved.problem, solved.outcome.p, smoothing, of_points)
        self.rows = step.others[: 3 * len(self.modes)]
        held = {dof: x.held for dof, x in self.holds.items()}
        added = at_joints(ops, step.tree, {k: x.added for k, x in self.holds.items() if x.added is not None})
        L = SparseFactor(step.problem, added, held) if held else step.space.L
        root = ops.vstack(L.solve_transpose(ops.eye(nv))) if nv else ops.zeros(0, 0)
        inverse = ops.product(ops.transpose(root), root, symmetric=True)
        self.Phi, self.N = inverse, ops.zeros(nv, len(self.rows))
        if not self.rows:
            return
        if held:
            Y = ops.take(dense_rows(step.problem, L), self.rows, None)
            G = ops.product(Y, ops.transpose(Y), symmetric=True)
            R = ops.product(Y, root)
        else:
            R = ops.take(step.space.along_rows(root), self.rows, None)
            G = ops.take(step.space.G, self.rows, self.rows)
        C = ops.block_diagonal([mode.C for mode in self.modes])
        B = ops.block_diagonal([mode.B for mode in self.modes])
        scales = [mode.mobility for mode in self.modes for _ in range(3)]
        A = ops.product(C @ G, B) + diagonal(ops, [x for mode in self.modes for x in mode.D])
        over = smallest(ops, A, scales, ops.rank(G) < len(self.rows))
        self._R, self._B, self._E = R, B, ops.product(over, C)
        self._to_x = ops.transpose(ops.transpose(B) @ R), over
        self.N = ops.product(self._to_x[0], self._E)
        self.Phi = inverse - ops.product(self.N, R)

    def with_positions(self) -> Matrix:
        """Changes of velocities of joints that limits hold, with their positions (nv × nv)."""
        rates = [self.holds[k].with_position if k in self.holds else 0.0 for k in range(self._step.tree.nv)]
        return diagonal(self._ops, rates)

    def with_time(self) -> Matrix:
        """The same with the time step (nv × 1)."""
        n = self._step.tree.nv
        return from_entries(self._ops, [self.holds[k].with_time if k in self.holds else 0.0 for k in range(n)])

    def velocities(self, rho: Matrix, sigma: Matrix) -> Matrix:
        """``dv⁺`` (nv × k) of joints that are not held."""
        ops = self._ops
        if not self.rows:
            return -ops.product(self.Phi, rho)
        return -ops.product(ops.hstack([self.Phi, self.N]), ops.vstack([rho, sigma]))

    def normal_impulses(self, rho: Matrix, sigma: Matrix) -> Matrix:
        """Changes (n × k) of normal impulses of points."""
        ops, normals = self._ops, range(2, 3 * len(self.modes), 3)
        return ops.take(self._B, normals, None) @ -(self._E @ (sigma - self._R @ rho))

    def of_floors(self, floors: Matrix) -> Matrix:
        """``dv⁺`` (nv × k) of changes of the least normal impulses (n × k)."""
        ops, normals = self._ops, range(2, 3 * len(self.modes), 3)
        (to_velocities, over), wanted = self._to_x, [mode.with_floor for mode in self.modes]
        return to_velocities @ (ops.take(over, None, normals) @ (diagonal(ops, wanted) @ floors))


def at_joints(ops: Ops, tree: Tree, values: Mapping[int, Scalar]) -> dict[tuple[int, int], Matrix]:
    """Diagonal blocks of the mass matrix that hold values at degrees of freedom, of links that have some."""
    return {
        (i, i): diagonal(ops, [values.get(k, 0.0) for k in range(sv.start, sv.stop)])
        for i, sv in enumerate(tree.v_slices)
        if any(k in values for k in range(sv.start, sv.stop))
    }


def dense_rows(problem: Problem, L: SparseFactor) -> Matrix:
    """``Y = J L⁻¹`` (m × nv)."""
    ops, nv = problem.ops, problem.tree.nv
    return ops.vstack([
        ops.hstack([own.get(k, ops.zeros(c.size, 1)) for k in range(nv)])
        for own, c in zip(rows_over_factor(problem, L), problem.constraints, strict=True)
    ])  # fmt: skip


def smallest(ops: Ops, A: Matrix, sizes: Sequence[Scalar], redundant: bool) -> Matrix:
    """Inverse of a matrix, and of ``redundant`` rows the smallest solution; ``sizes`` are what its rows are of."""
    if not redundant:
        return inverted(ops, A + diagonal(ops, [ROUNDING * ops.epsilon * x for x in sizes]))
    shift = [ops.epsilon**0.5 * x for x in sizes]
    R = inverted(ops, A + diagonal(ops, shift))
    W = diagonal(ops, shift) @ R
    return R + ops.product(R, W - scaled_matrix(ops, 2.0, ops.product(W, W)))


def inverted(ops: Ops, A: Matrix) -> Matrix:
    """Inverse (n × n) by elimination without exchanges."""
    a, n = ops.entries(A), ops.shape(A)[0]
    for k in range(n):
        over = 1.0 / a[k][k]
        a[k] = [x * over for x in a[k]]
        a[k][k] = over
        for i in range(n):
            if i != k:
                factor = a[i][k]
                a[i] = [-(factor * y) if j == k else x - factor * y
                        for j, (x, y) in enumerate(zip(a[i], a[k], strict=True))]  # fmt: skip
    return ops.matrix(a)
