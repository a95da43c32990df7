"""Configurations at which constraints hold, by damped Gauss-Newton steps on the manifold of configurations.

From the gaps ``e`` of the rows ``J``, both over the sizes of rows as constraints give them, of which some coordinates
are held, ``q ← q ⊕ δ`` with

    δ = −Jᵀ (J Jᵀ + d ‖e‖² 1)⁻¹ e,

or ``−(Jᵀ J + d ‖e‖² 1)⁻¹ Jᵀ e`` where rows are more than coordinates. These are Levenberg-Marquardt steps: they
converge quadratically where rows are dependent, too, and each is the shortest one (rad, m) that closes gaps to first
order. Where gaps grow, ``d`` grows until steps are short enough. Of all configurations on the way, the one of the
smallest gaps is the result: where loops cannot be closed, the gaps are the least near it. Cost O(m² n) a step.

Derivatives are those of the nearest closed configuration, at one: changes of the start, less what opens loops.
From afar they leave out how rows turn on the way.

Source: Yamashita, Fukushima, "On the rate of convergence of the Levenberg-Marquardt method", 2001. Deviation: steps
that let gaps grow are made, too, in place of a line search, which takes more steps where axes of gimbals line up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from delassus.algorithms.dynamics.integrate import Flow
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.problem import Problem
from delassus.constraints import Goal
from delassus.spatial.motion import chosen, column, diagonal, over_sizes
from delassus.spatial.ops import Matrix, Ops, Scalar

State = list[Scalar]


STEPS = 100
"""Most steps."""

DAMPING = 0.01
"""Damping of a step, by the square of the gap that it is to take off: without any, steps from afar are too long."""

GROWTH = 4.0
"""Growth of the damping after a step that lets gaps grow."""

DECAY = 0.5
"""Decay of the damping after other steps, down to what it is at the start."""

FLAT = 1.0 + 1e-9
"""Growth of the square of a gap that is none: near the least gap, the last steps are the best."""

STILL = 0.1
"""Steps end where loops are closed and one leaves more than this part of the square of a gap."""

LEAST_DAMPING = 1e-12
"""Least damping over the mean of the squares of rows: dependent rows have no pivots but that."""

CLOSED = 1e-11
"""Loops are closed where the norm of their gaps is below this many lengths of the robot."""

ROUND_OFF = 256.0
"""The least that counts as a gap, over the relative round-off."""

FAR = 1e30
"""Square of a gap that is larger than all."""


def close_loops(
    at: Callable[[State], DynamicsProblem], q: State, held: Sequence[int] = (), steps: int = STEPS
) -> tuple[State, Scalar]:
    """Configuration at which constraints hold, and the norm of the gaps that are left (m; of turns at a length).

    Parameters
    ----------
    at : callable
        The robot at rest at a configuration.
    q : list of scalars
        Configuration to start from: places in the world that no constraint names are where they are there.
    held : sequence of int
        Degrees of freedom that stay.
    steps : int
        Most steps.
    """
    start = at(q)
    ops, tree, n = start.ops, start.tree, start.tree.nq
    places = [Goal(pose=c.place(at)) for c, at in start.each_constraint()]
    free, flow = [k for k in range(tree.nv) if k not in set(held)], Flow(ops, tree)
    closed = closed_within(start)
    exact = closed * ROUND_OFF * ops.epsilon / CLOSED

    def gaps(here: State) -> tuple[Problem, Matrix, Matrix]:
        motion = at(here).with_goals(places)
        sizes = [x for c, at in motion.each_constraint() for x in c.row_sizes(at, motion.problem.length)]
        over, e = over_sizes(ops, sizes), motion.stacked([c.position(at) for c, at in motion.each_constraint()])
        return motion.problem, over, over @ e

    def moved(here: State, problem: Problem, over: Matrix, e: Matrix, damping: Scalar) -> State:
        shift: State = [0.0] * tree.nv
        if free and problem.n_rows:
            J = over @ ops.take(jacobian(problem), None, free)
            for k, x in zip(free, column(ops, _least_step(ops, J, e, damping)), strict=True):
                shift[k] = -x
        return [*flow.moved(here, shift)]

    def step(values: State) -> tuple[State, Scalar]:
        here, best, (least, last, damping) = values[:n], values[n : 2 * n], values[2 * n :]
        problem, over, e = gaps(here)
        square = _sum_of_squares(e, ops)
        better = ops.less(square, FLAT * least)
        best = chosen(ops, better, here, best)
        least = ops.select(better, square, least)
        lower = ops.maximum(DECAY * damping, DAMPING)
        damping = ops.select(ops.less(square, FLAT * last), lower, GROWTH * damping)
        is_last = ops.maximum(ops.less(STILL * last, square), ops.less(square, exact * exact))
        following = moved(here, problem, over, e, damping * square)
        return [*following, *best, least, square, damping], ops.less(least, closed * closed) * is_last

    def repeated() -> State:
        found = ops.repeat(steps, [*q, *q, FAR, FAR, DAMPING], step)
        return [*found[n : 2 * n], ops.sqrt(found[2 * n])]

    def differentiable() -> State:
        """The same, as one more step from where it would be if the start were another one."""
        fixed_start, (*fixed, gap) = ([ops.derived(x, 0.0) for x in values] for values in (q, repeated()))
        here = flow.moved(fixed, flow.difference(fixed_start, q))
        problem, over, _ = gaps(fixed)
        return [*moved(here, problem, over, gaps(here)[-1], 0.0), gap]

    *found, gap = ops.differentiable(repeated, differentiable)
    return found, gap


def closed_within(motion: DynamicsProblem) -> float:
    """Norm of gaps (m; of turns at a length) below which constraints hold."""
    return max(CLOSED, ROUND_OFF * motion.ops.epsilon) * motion.problem.length


def _least_step(ops: Ops, J: Matrix, e: Matrix, damping: Scalar) -> Matrix:
    """``Jᵀ (J Jᵀ + d 1)⁻¹ e`` (n × 1) of rows ``J`` (m × n)."""
    (m, n), transposed = ops.shape(J), ops.transpose(J)
    A = ops.sym_product(J, transposed) if m <= n else ops.sym_product(transposed, J)
    size, squares = min(m, n), ops.entries(A)
    mean = reduce(lambda total, k: total + squares[k][k], range(1, size), squares[0][0]) * (1.0 / size)
    damping = damping + LEAST_DAMPING * mean
    ops.new_system()
    factor = ops.factor(ops.sym_add(A, diagonal(ops, [damping] * size)))
    return transposed @ factor.solve(e) if m <= n else factor.solve(transposed @ e)


def _sum_of_squares(e: Matrix, ops: Ops) -> Scalar:
    total: Scalar = 0.0
    for x in column(ops, e):
        total = total + x * x
    return total
