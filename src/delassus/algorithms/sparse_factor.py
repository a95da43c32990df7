"""Featherstone's sparse factorisation ``M + E = Lᵀ L`` of a kinematic tree, without fill-in where ``E`` is zero.

Cost O(n d²) for depth d. Source: Featherstone 2005; [LQR] eq. 6. Deviations: the expanded parent array gives the
sparsity for joints of several degrees of freedom, and blocks that are added fill in as they must.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence

from delassus.algorithms.crba import mass_matrix_blocks
from delassus.algorithms.problem import Problem
from delassus.model.tree import Tree
from delassus.spatial.ops import Matrix, Scalar


class SparseFactor:
    """``M + E = Lᵀ L`` for a kinematic tree, ``E`` nothing or blocks (n_i × n_j) ``added`` at links i ≥ j.

    Without ``E``, row k of ``L`` has entries at the ancestors of degree of freedom k only. Blocks between links of
    which neither is above the other add to that, and so does what they fill in. ``rows`` holds the off-diagonal
    entries, at the degrees of freedom ``ancestors``, ``diagonal`` the others, and ``reciprocal`` one over these. Those
    of degrees of freedom that are ``held``, by flags, are zero, as if inertias there were infinite.
    """

    def __init__(
        self,
        problem: Problem,
        added: Mapping[tuple[int, int], Matrix] | None = None,
        held: Mapping[int, Scalar] | None = None,
    ) -> None:
        self._ops = ops = problem.ops
        self._tree = tree = problem.tree
        blocks = dict(problem.once(mass_matrix_blocks))
        for (i, j), block in (added or {}).items():
            add = ops.sym_add if i == j else operator.add
            blocks[i, j] = add(blocks[i, j], block) if (i, j) in blocks else block
        self.ancestors: list[list[int]] = []
        self.rows: list[Matrix] = []
        pivots: list[Matrix] = []
        for i, above in enumerate(_filled(tree, blocks)):
            first = tree.v_slices[i].start
            outside = [k for j in above for k in range(tree.v_slices[j].start, tree.v_slices[j].stop)]
            none = {j: ops.zeros(1, tree.joints[j].nv) for j in above if (i, j) not in blocks}
            for a in range(tree.joints[i].nv):
                parts = [none[j] if j in none else ops.take(blocks[i, j], (a,), None) for j in above]
                parts.append(ops.take(blocks[i, i], (a,), range(a)))
                self.ancestors.append([*outside, *range(first, first + a)])
                self.rows.append(ops.hstack(parts))
                pivots.append(ops.take(blocks[i, i], (a,), (a,)))
        self.diagonal: dict[int, Matrix] = {}
        self.reciprocal: dict[int, Matrix] = {}

        # leaves → root: L_kk = √H_kk, L_ki = H_ki / L_kk, H_ij −= L_ki L_kj  ([LQR] eq. 6)
        for k in reversed(range(tree.nv)):
            ((pivot,),) = ops.entries(pivots[k])
            if held is None:  # else pivots are of a solution
                ops.pivot(pivot)
            root = ops.sqrt(pivot)
            over = 1.0 / root
            if held is not None and k in held:
                over = ops.select(held[k], 0.0, over)
            self.diagonal[k], self.reciprocal[k] = ops.matrix([[root]]), ops.matrix([[over]])
            row = self.rows[k] = self.reciprocal[k] @ self.rows[k]
            for position, i in enumerate(self.ancestors[k]):
                factor = ops.take(row, None, (position,))
                change = factor @ ops.take(row, None, range(position))
                self.rows[i] = self.rows[i] - self._spread(change, self.ancestors[k][:position], self.ancestors[i])
                pivots[i] = pivots[i] - factor @ factor
        ops.mark("factorisation of M" if added is None else "factorisation", [*self.rows, *self.reciprocal.values()])

    def _spread(self, row: Matrix, columns: list[int], wanted: list[int]) -> Matrix:
        """Row with entries at some columns as one with entries at all that are wanted."""
        if columns == wanted:
            return row
        return self._ops.put(row, (1, len(wanted)), (0,), [wanted.index(k) for k in columns])

    def multiply(self, x: Sequence[Matrix]) -> list[Matrix]:
        """``L x`` for a matrix that is given row by row, and so is the result."""
        out = []
        for k, above in enumerate(self.ancestors):
            own = self.diagonal[k] @ x[k]
            out.append(own + self.rows[k] @ self._ops.vstack([x[i] for i in above]) if above else own)
        return out

    def solve_transpose(self, B: Matrix, kept: Collection[int] = ()) -> list[Matrix]:
        """``L⁻ᵀ B``, row by row; as sparse as ``B`` where that is as sparse as ``L``.

        The rows ``kept``, and with each those above it, are not eliminated: they hold what is left to solve.
        """
        x = [self._ops.take(B, (k,), None) for k in range(len(self.rows))]

        # leaves → root: x_k = b_k / L_kk, b_i −= L_ki x_k
        for k in reversed(range(len(x))):
            if k in kept:
                continue
            x[k] = self.reciprocal[k] @ x[k]
            for position, i in enumerate(self.ancestors[k]):
                x[i] = x[i] - self._ops.take(self.rows[k], None, (position,)) @ x[k]
        return x

    def solve(self, B: Sequence[Matrix]) -> list[Matrix]:
        """``L⁻¹ B`` for a matrix that is given row by row, and so is the result."""
        x: list[Matrix] = []

        # root → leaves: x_k = (b_k − Σ L_ki x_i) / L_kk
        for k, above in enumerate(self.ancestors):
            left = B[k] - self.rows[k] @ self._ops.vstack([x[i] for i in above]) if above else B[k]
            x.append(self.reciprocal[k] @ left)
        return x

    def solved(self, B: Matrix) -> Matrix:
        """``L⁻¹ B`` (nv × k)."""
        rows = self.solve([self._ops.take(B, (k,), None) for k in range(len(self.rows))])
        return self._ops.vstack([self._ops.zeros(0, self._ops.shape(B)[1]), *rows])

    def joint_inverse_inertia(self, i: int) -> Matrix:
        """``S_i D_i⁻¹ S_iᵀ`` (6 × 6) of articulated inertias: ``D_i`` is ``Lᵀ L`` of the joint's own rows."""
        ops, at = self._ops, self._tree.v_slices[i]
        own, x = ops.eye(at.stop - at.start), list[Matrix]()
        for a, k in enumerate(range(at.start, at.stop)):
            left = ops.take(own, (a,), None)
            if a:
                above = len(self.ancestors[k])
                left = left - ops.take(self.rows[k], None, range(above - a, above)) @ ops.vstack(x)
            x.append(self.reciprocal[k] @ left)
        over = ops.vstack(x)
        return self._tree.joints[i].spread(ops, ops.sym_product(over, ops.transpose(over)))

    def followers(self, led: Collection[int]) -> Matrix:
        """``T`` (nv × k): ``x`` by its k rows ``led``, where all other rows of ``L x`` are zero.

        No others may be above those rows.
        """
        ops = self._ops
        own = {k: ops.constant([[float(k == i) for i in led]]) for k in led}
        x: list[Matrix] = []

        # root → leaves: led rows as they are, the others with b = 0
        for k, above in enumerate(self.ancestors):
            if k in own:
                x.append(own[k])
            else:
                known = self.rows[k] @ ops.vstack([x[i] for i in above]) if above else ops.zeros(1, len(own))
                x.append(-(self.reciprocal[k] @ known))
        return ops.vstack(x) if x else ops.zeros(0, 0)


def _filled(tree: Tree, blocks: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Links j < i at which block row i of ``L`` has entries: the matrix's own, and those that elimination puts there.

    Eliminating link i leaves a product of its entries; the last one of them carries that on, as a parent would.
    """
    above: list[set[int]] = [set() for _ in range(tree.n_links)]
    for i, j in blocks:
        if i != j:
            above[i].add(j)
    for i in tree.leaves_to_root():
        if above[i]:
            last = max(above[i])
            above[last] |= above[i] - {last}
    return [sorted(links) for links in above]
