"""Stages of the smooth motion of links that loops tie, see `delassus.algorithms.dynamics.smooth_motion`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from delassus.algorithms.dynamics.constraint_acceleration import position_errors
from delassus.algorithms.dynamics.ltl import JointSpace
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.loops.impulses import LoopImpulses
from delassus.algorithms.operational_space_compliance import straight_accelerations, straight_drift
from delassus.model.kinematics import heavy_links
from delassus.spatial.joints import Joint
from delassus.spatial.motion import chosen, column, dot, from_entries, minus, plus, scaled_matrix
from delassus.spatial.ops import Matrix, Ops, Scalar

State = list[Scalar]


class MotionStage(NamedTuple):
    """What a stage finds at a displacement and a velocity, in the axes of the start of the step.

    Rates of both; both without what opens loops; errors of loops; squares of lengths ``xᵀ M x`` of the velocity, of
    what of it opens loops, of the acceleration, and of that without loops; and length ``(xᵀ M x)^½`` of others.
    """

    u_rate: State
    w_rate: State
    u: State
    w: State
    errors: State
    speed: Scalar
    opening: Scalar
    acceleration: Scalar
    free: Scalar
    length: Callable[[State], Scalar]


class Bringing(NamedTuple):
    """Momenta ``push`` and ``pull`` (n) that springs bring where the flag is 1, with ``added`` masses."""

    flag: Scalar
    push: State
    pull: State
    added: Mapping[tuple[int, int], Matrix]

    def masses(self, ops: Ops) -> dict[tuple[int, int], Matrix]:
        """``added`` where the flag is 1."""
        return {at: scaled_matrix(ops, self.flag, x) for at, x in self.added.items()}


class SubSteps:
    """Stages and sub-steps of the joints of some links, tied by the constraints of those numbers.

    Forces are those of ``motion``, joint forces are held; ``epsilon`` is the relative round-off.
    """

    def __init__(self, motion: DynamicsProblem, links: Sequence[int], loops: Sequence[int], epsilon: float) -> None:
        self.ops, self._motion, self._loops = motion.ops, motion, loops
        tree = motion.tree
        self._nv, self._q = tree.nv, [motion.problem.q[k] for k in range(tree.nq)]
        self._epsilon = epsilon
        self._joints: list[tuple[Joint, slice, slice, slice]] = []
        self.dofs: list[int] = []
        for i in links:
            sv, n = tree.v_slices[i], len(self.dofs)
            self._joints.append((tree.joints[i], tree.q_slices[i], sv, slice(n, n + sv.stop - sv.start)))
            self.dofs += range(sv.start, sv.stop)
        self.n_rows = sum(motion.problem.constraints[k].size for k in loops)
        self._heavy = [k for i in heavy_links(tree) for k in range(tree.v_slices[i].start, tree.v_slices[i].stop)]
        sizes = [x for k in loops for x in motion.problem.row_sizes(k)]
        self._sizes = [motion.problem.length**2 * self.ops.select(self.ops.less(0.0, x), x, 1.0) for x in sizes]

    def stage(
        self, u: State, w: State, goal: Callable[[State], State], forces: State | None = None,
        bringing: Bringing | None = None,
    ) -> MotionStage:  # fmt: skip
        """Stage at ``u`` and ``w`` (n, of `dofs`); loops are pulled to errors that ``goal`` makes of those there.

        Joint ``forces`` (n) are in place of those of the motion. Where springs are ``bringing`` momenta, ``w`` and
        ``w_rate`` of the stage are the velocities that these make.
        """
        ops = self.ops
        q, v = list(self._q), self._of_tree([0.0] * len(self.dofs))
        for joint, sq, sv, own in self._joints:
            q[sq], v[sv] = joint.kind.position_update(ops, self._q[sq], w[own], u[own])
        motion = self._motion.at_state(q, v, self._loops, None if forces is None else self._of_tree(forces))
        space = JointSpace(motion, None if bringing is None else bringing.masses(ops))
        free = column(ops, space.accelerations(ops.zeros(self.n_rows, 1)))
        qdd = straight_accelerations(motion, [from_entries(ops, free[sv]) for sv in motion.tree.v_slices])
        errors = column(ops, position_errors(motion))
        gaps = from_entries(ops, minus(errors, goal(errors)))

        # L v, L q̈, 0, less what loops take: Yᵀ G⁺ of their rates
        drift, moving = straight_drift(motion), [self._over(space, from_entries(ops, v)), self._over(space, qdd)]
        if bringing is not None:
            momenta = (from_entries(ops, self._of_tree(x)) for x in (bringing.push, bringing.pull))
            brought = [space.solve_transpose(x) for x in momenta]
            pairs = zip(brought, moving, strict=True)
            moving = [from_entries(ops, chosen(ops, bringing.flag, column(ops, x), column(ops, y))) for x, y in pairs]
            drift = scaled_matrix(ops, 1.0 - bringing.flag, drift)
        over = ops.hstack([*moving, ops.zeros(self._nv, 1)])
        rates = space.along_rows(over) + ops.hstack([ops.zeros(self.n_rows, 1), drift, gaps])
        impulses = LoopImpulses(motion.problem, space.L, space.G, range(self.n_rows), self._epsilon).solve(rates)
        left = space.back_substitution(over, -impulses)
        columns = [column(ops, ops.take(left, None, (k,))) for k in range(3)]
        w_end, w_rate, back = (self._to_start(q, u, [x[k] for k in self.dofs]) for x in columns)

        of_v, of_qdd, _ = (column(ops, ops.take(over, None, (k,))) for k in range(3))
        taken, along = (column(ops, ops.take(x, None, (0,))) for x in (impulses, rates))

        def square(x: Sequence[Scalar]) -> Scalar:
            light = [0.0 if k in self._heavy else y for k, y in enumerate(x)]
            over = column(ops, self._over(space, from_entries(ops, light)))
            return dot(over, over)

        return MotionStage(
            self._chart_rate(u, w), w_rate, plus(u, self._chart_rate(u, back)), w_end, errors,
            square(v) if self._heavy else dot(of_v, of_v), dot(taken, along), square(columns[1]), dot(of_qdd, of_qdd),
            lambda x: root_at_zero(ops, square(self._of_tree(x))),
        )  # fmt: skip

    def largest(self, errors: State) -> Scalar:
        """Largest of errors of loops (m, rad), in lengths of the robot and rad by the sizes of their rows."""
        square: Scalar = 0.0
        for x, size in zip(errors, self._sizes, strict=True):
            square = self.ops.maximum(square, x * x / size)
        return root_at_zero(self.ops, square)

    def _of_tree(self, x: State) -> State:
        """Entries (nv) of all joints, zero beside those of `dofs`."""
        out: State = [0.0] * self._nv
        for k, own in zip(self.dofs, x, strict=True):
            out[k] = own
        return out

    def _over(self, space: JointSpace, x: Matrix) -> Matrix:
        """``L x`` (nv × 1)."""
        rows = space.L.multiply([self.ops.take(x, (k,), None) for k in range(self._nv)])
        return self.ops.vstack([self.ops.zeros(0, self.ops.shape(x)[1]), *rows])

    def _to_start(self, q: State, u: State, x: State) -> State:
        """Velocities at the displacement ``u`` in the axes of the start."""
        out: State = []
        for joint, sq, _, own in self._joints:
            out += joint.kind.position_update(self.ops, q[sq], x[own], [-a for a in u[own]])[1]
        return out

    def _chart_rate(self, u: State, w: State) -> State:
        """``u̇`` at the velocity ``w``."""
        out: State = []
        for joint, _, _, own in self._joints:
            out += joint.kind.displacement_rate(self.ops, u[own], w[own])
        return out


def root_at_zero(ops: Ops, x: Scalar) -> Scalar:
    """Square root that has a derivative at zero, where it is zero."""
    none = 1.0 - ops.less(0.0, x)
    return ops.sqrt(x + none) - none
