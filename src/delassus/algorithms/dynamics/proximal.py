"""Proximal-point iterations on the multipliers: also for rows that are redundant or contradict one another.

``(G + R + W) f⁺ = γ − J M⁻¹ (τ − c) + W f`` from ``f = 0``, ``R`` zero for hard constraints, ``W`` diagonal and
all but zero for soft ones. What rows still miss after each iteration shrinks by ``1 / (1 + λ)`` along an eigenvector
of ``(G + R) x = λ W x``; what no force can give (``λ = 0``) stays, so that accelerations go to the least-squares ones.
Cost O(n d² + m d² + m² d + m³), and O(m²) for each iteration. Source: Rockafellar 1976; Carpentier, Budhiraja,
Mansard, "Proximal and sparse resolution of constrained dynamic equations", RSS 2021.

Deviations: ``W`` there is a number. With ``d_k = f_{k+1} − f_k``, the iteration is ``d_{k+1} = (G + R + W)⁻¹ W d_k``,
and ``W d_k`` is what is missing. Contradicting rows would drive ``f`` on for ever, by a constant step that moves
nothing; so what no force can give is taken off what is asked for, and the iterations start again. At last, iterations
on ``f`` itself leave what round-off has put into it that moves nothing; without that, forces are those of least norm.
Rows smaller than a thousandth of the others (`OWN_WEIGHT`) have a weight, and so a norm, of their own. Joint space is
factorised sparsely, see `ltl`.
"""

from __future__ import annotations

from delassus.algorithms.dynamics.ltl import JointSpace
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.spatial.motion import column, diagonal, scaled
from delassus.spatial.ops import Matrix, Ops, Scalar

WEIGHT = 1e-10
"""``W`` of a hard row by the mean diagonal entry of ``G``: eigenvalues above it converge within a few iterations.
Round-off (1e-16) over it is what one start leaves of accelerations that no force can give."""

OWN_WEIGHT = 1e-4
"""Most of ``W`` of a hard row by its own diagonal entry: rows that are small beside others converge as they do."""

SOFT_WEIGHT = 1e-14
"""``W`` of a soft row by its own diagonal entry: pivots stay positive where ``R`` is lost in round-off."""

LEAST_WEIGHT = 1e-20
"""Least ``W``, for rows that nothing moves: by the mean diagonal entry, and in (m/s²)/N."""

ITERATIONS = 10
"""Iterations of straight-line programs, each time that they start."""

STARTS = 3
"""How often those start; soft constraints alone are solved by as many iterations."""

SMALLEST = 1e-30
"""What keeps a quotient from being 0 / 0 where nothing moves and nothing is asked for."""


class ProximalPoint:
    """The system to iterate on; ``G`` is ``G + R``, ``W`` of a hard row the smaller of two weights."""

    def __init__(self, motion: DynamicsProblem, weight: float = WEIGHT, own_weight: float = OWN_WEIGHT) -> None:
        self._ops = ops = motion.ops
        self.space = JointSpace(motion)
        constraints = motion.problem.constraints
        self.G = ops.sym_add(self.space.G, ops.block_diagonal([motion.compliance(c) for c in range(len(constraints))]))
        own = _diagonal(ops, self.space.G)
        self._mean = sum(own) * (1.0 / len(own))
        soft = [is_soft for is_soft, c in zip(motion.softness, constraints, strict=True) for _ in range(c.size)]
        self._weights = [
            (d * SOFT_WEIGHT if is_soft else ops.minimum(self._mean * weight, d * own_weight))
            + (self._mean + 1.0) * LEAST_WEIGHT
            for d, is_soft in zip(own, soft, strict=True)
        ]
        system = ops.sym_add(self.G, diagonal(ops, self._weights))
        self._diagonal, self._factor = _diagonal(ops, system), ops.factor(system)

    def step(self, missing: Matrix) -> Matrix:
        """``d = (G + R + W)⁻¹ missing``: what the iteration adds to the forces."""
        return self._factor.solve(missing)

    def left(self, d: Matrix) -> Matrix:
        """``W d``: acceleration that the rows still miss after the step ``d``."""
        return scaled(self._ops, self._weights, d)

    def part(self, missing: Matrix) -> Scalar:
        """Accelerations of the rows by those that they are asked for and have without constraint forces, squared.

        All at unit diagonal.
        """
        ops, gamma = self._ops, self.space.gamma
        scales = [1.0 / d for d in self._diagonal]
        squares = [
            sum(s * x * x for s, x in zip(scales, column(ops, a), strict=True))
            for a in (missing, gamma, gamma - self.space.missing)
        ]
        return squares[0] / (squares[1] + squares[2] + SMALLEST)


def proximal(motion: DynamicsProblem, iterations: int = ITERATIONS) -> Solution:
    """Accelerations and forces after a fixed number of iterations; `iterate` has those that watch convergence."""
    ops = motion.ops
    if not motion.problem.n_rows:
        space = JointSpace(motion)
        return Solution(space.accelerations(space.gamma), space.gamma)
    point = ProximalPoint(motion)
    soft = all(motion.softness)
    wanted = point.space.missing
    f, left = _iterated(point, wanted, STARTS if soft else iterations)
    if not soft:
        for _ in range(STARTS - 1):
            wanted = wanted - left
            f, left = _iterated(point, wanted, iterations)
        for _ in range(STARTS - 1):
            idle = f
            for _ in range(iterations // 2):
                idle = point.step(point.left(idle))
            f = f - idle
    ops.mark("proximal iterations", [f])
    return Solution(point.space.accelerations(f), f, point.G)


def _iterated(point: ProximalPoint, wanted: Matrix, iterations: int) -> tuple[Matrix, Matrix]:
    """Forces after iterations from zero, and what the rows then still miss of ``wanted``."""
    f = point.step(wanted)
    left = point.left(f)
    for _ in range(iterations - 1):
        d = point.step(left)
        f, left = f + d, point.left(d)
    return f, left


def _diagonal(ops: Ops, A: Matrix) -> list[Scalar]:
    return [row[i] for i, row in enumerate(ops.entries(A))]
