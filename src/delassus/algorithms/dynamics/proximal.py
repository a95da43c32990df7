"""Proximal-point iterations on the multipliers: also for rows that are redundant or contradict one another.

``(G + R + μ) f⁺ = γ − J M⁻¹ (τ − c) + μ f`` from ``f = 0``, ``R`` zero for hard constraints. What rows still miss
after each iteration shrinks by ``μ / (σ + μ)`` along an eigenvector of ``G + R`` to the eigenvalue ``σ``; what no
force can give (``σ = 0``) stays, so that accelerations go to the least-squares ones. Cost O(n d² + m d² + m² d + m³),
and O(m²) for each iteration. Source: Rockafellar 1976; Carpentier, Budhiraja, Mansard, "Proximal and sparse
resolution of constrained dynamic equations", RSS 2021.

Deviations: with ``d_k = f_{k+1} − f_k``, the iteration is ``d_{k+1} = μ (G + R + μ)⁻¹ d_k``, and ``μ d_k`` is what is
missing. Contradicting rows would drive ``f`` on for ever, by a constant step that moves nothing; so what no force can
give is taken off what is asked for, and the iterations start again. At last, iterations on ``f`` itself leave what
round-off has put into it that moves nothing; without that, forces are those of least norm. Joint space is factorised
sparsely, see `ltl`.
"""

from __future__ import annotations

from functools import reduce

from delassus.algorithms.dynamics.ltl import JointSpace
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.spatial.motion import diagonal, scaled
from delassus.spatial.ops import Matrix, Scalar

WEIGHT = 1e-8
"""``μ`` by the mean diagonal entry of ``G + R``: eigenvalues above it converge within a few iterations. Round-off
(1e-16) over it is what one start leaves of accelerations that no force can give."""

LEAST_WEIGHT = 1e-12
"""Least ``μ`` ((m/s²)/N), for rows that nothing moves."""

ITERATIONS = 10
"""Iterations of straight-line programs, each time that they start."""

STARTS = 3
"""How often those start."""


class ProximalPoint:
    """The system to iterate on; ``G`` is ``G + R``."""

    def __init__(self, motion: DynamicsProblem) -> None:
        self._ops = ops = motion.ops
        self.space = JointSpace(motion)
        compliances = [motion.compliance(c) for c in range(len(motion.problem.constraints))]
        self.G = ops.sym_add(self.space.G, ops.block_diagonal(compliances))
        size = motion.problem.n_rows
        self._diagonal = [row[i] for i, row in enumerate(ops.entries(self.G))]
        self._mu = sum(self._diagonal) * (WEIGHT / size) + LEAST_WEIGHT
        self._factor = ops.factor(ops.sym_add(self.G, diagonal(ops, [self._mu] * size)))

    @property
    def pivot(self) -> Scalar:
        """Smallest pivot of ``G + R + μ`` by the diagonal of ``G + R``: single precision needs it to be large."""
        own = zip(self._factor.pivots(), self._diagonal, strict=True)
        return reduce(self._ops.minimum, [pivot / (d + LEAST_WEIGHT) for pivot, d in own])

    def step(self, missing: Matrix) -> Matrix:
        """``d = (G + R + μ)⁻¹ missing``: what the iteration adds to the forces."""
        return self._factor.solve(missing)

    def left(self, d: Matrix) -> Matrix:
        """``μ d``: acceleration that the rows still miss after the step ``d``."""
        return scaled(self._ops, [self._mu] * self._ops.shape(d)[0], d)


def proximal(motion: DynamicsProblem, iterations: int = ITERATIONS) -> Solution:
    """Accelerations and forces after a fixed number of iterations; `iterate` has those that watch convergence."""
    ops = motion.ops
    if not motion.problem.n_rows:
        space = JointSpace(motion)
        return Solution(space.accelerations(space.gamma), space.gamma)
    point = ProximalPoint(motion)
    wanted = point.space.missing
    f = ops.zeros(motion.problem.n_rows, 1)
    for _ in range(STARTS):
        missing = wanted
        f = ops.zeros(motion.problem.n_rows, 1)
        for _ in range(iterations):
            d = point.step(missing)
            f, missing = f + d, point.left(d)
        wanted = wanted - missing
    idle = f
    for _ in range(iterations):
        idle = point.left(point.step(idle))
    f = f - idle
    ops.mark("proximal iterations", [f])
    return Solution(point.space.accelerations(f), f, point.G, point.pivot)
