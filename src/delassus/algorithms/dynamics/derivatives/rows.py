"""How the rows of constraints change: `Constraint`'s rows, drift and error, carried out with changes along twists.

With rows ``K`` on links, ``r = Σ K a + Σ C q̈ − k`` depends on poses and twists ``V`` of links. Numbers with rates
(`DualOps`) give ``P = ∂r/∂x`` along twists ``x`` by which links are displaced, and ``Q = ∂r/∂V``.
In the common frame of `rates`, where ``ψ × V = −(V ×) ψ``,

    ``∂r/∂q_j = P s_j + Q' ψ_j + K ξ_j``,   ``∂r/∂v_j = Q' s_j + K φ_j``,   ``Q' = Q − K (V ×)``,

``P``, ``Q'`` and ``K`` being sums over the links that lie beyond joint j. Wrenches ``Kᵀ f`` change likewise.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from delassus.algorithms.blocks import assembled
from delassus.algorithms.dynamics.derivatives.rates import Rates
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.constraints import At, Constraint, Goal
from delassus.constraints.between_frames import rows_in
from delassus.constraints.constraint import Configuration, RobotMotion
from delassus.constraints.frame import End, Frame
from delassus.constraints.spring import AnySpring, acting
from delassus.frozen import cached_property
from delassus.model.tree import WORLD, Tree
from delassus.spatial.dual_ops import Dual, DualOps, value
from delassus.spatial.motion import (
    ANGULAR,
    LINEAR,
    column,
    cross_matrix,
    from_entries,
    motion_matrix,
    scaled_matrix,
)
from delassus.spatial.ops import Matrix, Ops
from delassus.spatial.transform import Pose, compose

VELOCITY = "velocity"
"""Name of the twists that links have, among what rows vary with."""


@dataclass(frozen=True, slots=True, eq=False)
class RowChanges:
    """Changes (m × nv) of what rows miss with positions and velocities; by link the wrench (6 × 1) exerted on it.

    ``wrench_changes`` (6 × nv) are those with positions beyond what a wrench that is fixed in the link has,
    ``wrench_rates`` (6 × nv) those with velocities.
    """

    with_q: Matrix
    with_v: Matrix
    wrenches: Mapping[int, Matrix] = field(default_factory=dict)
    wrench_changes: Mapping[int, Matrix] = field(default_factory=dict)
    wrench_rates: Mapping[int, Matrix] = field(default_factory=dict)


class Displaced(At):
    """A constraint of a robot whose links are displaced by twists ``[v; ω]``, and what it asks the robot for.

    The body frame of each link is the one that coincides with the common frame of `rates`, and moves with the link:
    poses are 1 but for the displacements. Rates of the link i are by ``(i, k)``, and by ``((VELOCITY, i), k)`` with its
    twist.
    """

    def __init__(
        self, rates: Rates, index: int, dual: DualOps | None = None, motion: DynamicsProblem | None = None
    ) -> None:  # fmt: skip
        base, self.tree, self._rates = motion or rates.motion, rates.motion.tree, rates
        self.dual = DualOps(base.ops) if dual is None else dual
        self.ops: Ops = self.dual
        At.__init__(self, cast(Configuration, self), index, cast(RobotMotion, self))
        lifted, c, goal = self.dual.lifted, base.problem.constraints[index], base.goals[index]
        self.constraint, self._links, self._at = c, c.carriers(self.tree), At(base.problem, index)
        names = [a.name for a in c.arguments(index) if len(a.shape) == 2]
        self.inputs = {name: lifted(base.problem.inputs[name]) for name in names}
        self.goals = {index: goal if goal.pose is None else replace(goal, pose=self._lifted(goal.pose))}
        self.gravity = lifted(base.gravity)
        self.V = {i: lifted(rates.V[i], lambda k, _, i=i: {((VELOCITY, i), k): 1.0}) for i in self._links}  # type: ignore[misc]
        self._rows = c.rows_on_links(self)

    def fixed(self, frame: Frame) -> None:
        """None: frames are not where they are in the body frames of the tree."""

    def pose(self, frame: Frame, end: End = "first") -> Pose:
        """Pose of a frame in that of its link."""
        link, pose = frame.carrier(self.tree), self._at.pose(frame, end)
        return self._lifted(pose if link == WORLD else self._rates.in_common(link, pose))

    def pose_between(self, link: int, other: int) -> Pose:
        """Pose of the frame of ``link`` in that of ``other``."""
        own, back, root = self._displacement(link, 1.0), self._displacement(other, -1.0), self._rates.root
        if link == WORLD != other:
            own = self._lifted(self._rates.in_common(WORLD, (self._at.ops.eye(3), self._at.ops.zeros(3, 1))))
        elif other == WORLD not in (link, root):
            own = compose(self._lifted(self._at.robot.pose_between(root, WORLD)), own)
        return compose(back, own)

    def row_of_joint(self, joint: int) -> Any:
        """That in the common frame."""
        base = self._at.ops
        R, p = self._rates.in_common(joint, (base.eye(3), base.zeros(3, 1)))
        return self.dual.lifted(rows_in(base, self._at.row_of_joint(joint), R, p))

    def position_of(self, joint: int) -> Any:
        """The coordinate of a joint, moved by the twists ``x`` of its link less ``y`` of its parent along its axis.

        ``log(exp(−y) exp(x))`` is that to first order; its term ``y × x`` of second order has no part along the axis.
        """
        x, parent = self._twist(joint), self.tree.parents[joint]
        if parent != WORLD:
            x = x - self._twist(parent)
        ((moved,),) = self.ops.entries(self.row_of_joint(joint) @ x)
        return moved + self._at.position_of(joint)

    def _twist(self, link: int) -> Any:
        """Twist (6 × 1) by which a link is displaced."""
        return self.dual.lifted(self._at.ops.zeros(6, 1), lambda k, _: {(link, k): 1.0})

    @cached_property
    def link_rotations(self) -> dict[int, Any]:
        """Rotation of each link that the constraint is on in the world."""
        return {i: self.pose_between(i, WORLD)[0] for i in self._links}

    @cached_property
    def inertias(self) -> list[Any]:
        """First three rows of the inertia of each link."""
        return [self.dual.lifted(body.linear_rows(self._at.ops)) for body in self._rates.bodies]

    @property
    def centre_of_mass(self) -> Any:
        """Of all links in the world, with how their masses displace it."""
        rows, at = {i: self.ops.entries(K) for i, K in self._rows.items()}, self._at.robot.centre_of_mass
        return self.dual.lifted(
            at, lambda row, _: {(i, k): value(x) for i, K in rows.items() for k, x in enumerate(K[row])}
        )

    def rows_on_links_of(self, constraint: int) -> Mapping[int, Any]:
        """`Constraint.rows_on_links`."""
        return self._rows

    def missed(self, a: Mapping[int, Any], goal: Goal) -> Any:
        """``Σ K a − k`` of accelerations of links, with stabilisation by the gains of a goal, but for the target."""
        c = self.constraint
        r = c.drift(self) + c.gravity(self)
        for link, K in self.rows_on_links.items():
            r = r + K @ a[link]
        for gains, error in zip(goal.gains(c.size), (c.velocity, c.position), strict=True):
            if gains is not None:
                numbers = zip(column(self.dual, error(self)), gains, strict=True)
                r = r + from_entries(self.dual, [x * gain for x, gain in numbers])
        return r

    def rows_on_joints_of(self, constraint: int) -> Mapping[int, Any]:
        """None: those are no matter of links."""
        return {}

    def gravity_in(self, link: int) -> Any:
        """Gravity in the axes of a link."""
        return self._displacement(link, -1.0)[0] @ self.dual.lifted(self._rates.gravity)

    def _lifted(self, pose: Pose) -> Pose:
        return self.dual.lifted(pose[0]), self.dual.lifted(pose[1])

    def _displacement(self, link: int, sign: float) -> Pose:
        """``(1 + ω ×, v)`` of a link, or with the other sign; of the world, 1."""
        if link == WORLD:
            return self.ops.eye(3), self.ops.zeros(3, 1)
        v, w = (from_entries(self.ops, [Dual(0.0, {(link, k): sign}) for k in part]) for part in (LINEAR, ANGULAR))
        return self.ops.eye(3) + cross_matrix(self.ops, w), v


def row_changes(motion: DynamicsProblem, rates: Rates, index: int, f: Matrix | None = None) -> RowChanges:
    """Changes of ``Σ K a + Σ C q̈ − k`` of the constraint of that number, and of wrenches of forces ``f`` (m × 1).

    ``q̈`` and ``f`` are held. The target is no part of it.
    """
    ops, tree, problem = motion.ops, motion.tree, motion.problem
    c = problem.constraints[index]
    with_q, with_v = _of_joints(motion, rates, index)
    if not c.carriers(tree) or not problem.rows_on_links_of(index):
        return RowChanges(with_q, with_v)
    at = Displaced(rates, index)
    a = {link: at.dual.lifted(rates.a[link]) for link in at.rows_on_links}
    dual, r = at.dual, at.missed(a, motion.goals[index])

    def by(numbers: Matrix, name: Hashable) -> Matrix:
        return dual.rates(column(dual, numbers), [(name, k) for k in range(6)])

    # P, Q' and K of all links beyond each joint
    held = held_joints(c, tree)
    rows, of_links = {link: dual.values(K) for link, K in at.rows_on_links.items()}, dict[int, list[Matrix]]()
    for link, K in rows.items():
        of_links[link] = [by(r, link), by(r, (VELOCITY, link)) - K @ motion_matrix(ops, rates.V[link]), K]
    q, v, sizes = dict[tuple[int, int], Matrix](), dict[tuple[int, int], Matrix](), [j.nv for j in tree.joints]
    for j, (P, Q, K) in beyond(tree, of_links, held).items():
        q[0, j] = P @ rates.S[j] + Q @ rates.psi[j] + K @ rates.xi[j]
        v[0, j] = Q @ rates.S[j] + K @ rates.phi[j]
    with_q, with_v = with_q + assembled(ops, [c.size], sizes, q), with_v + assembled(ops, [c.size], sizes, v)
    if f is None:
        return RowChanges(with_q, with_v)

    # wrenches Kᵀ f
    changes = dict[int, Matrix]()
    for link, of_f in at.rows_on_links.items():
        W = dual.transpose(of_f) @ dual.lifted(f)
        turned = beyond(tree, {other: [by(W, other)] for other in rows}, held)
        changes[link] = assembled(ops, [6], sizes, {(0, j): x @ rates.S[j] for j, (x,) in turned.items()})
    return RowChanges(with_q, with_v, {link: ops.transpose(K) @ f for link, K in rows.items()}, changes)


def spring_changes(rates: Rates) -> list[RowChanges]:
    """Changes of the wrenches ``−Kᵀ (k x + d ẋ)`` of springs that are forces; they have no rows."""
    motion, ops, tree = rates.motion, rates.motion.ops, rates.motion.tree
    sizes, none, out = [joint.nv for joint in tree.joints], motion.ops.zeros(0, tree.nv), list[RowChanges]()
    for index, c in enumerate(motion.springs):
        at, held = Displaced(rates, index, motion=motion.pulling), held_joints(c, tree)
        dual, pull, (wrenches, with_q, with_v) = at.dual, spring_force(c, at), (dict[int, Matrix]() for _ in range(3))
        for link, K in at.rows_on_links.items():
            W = column(dual, dual.transpose(K) @ pull)
            of_links = {
                i: [dual.rates(W, [(name, k) for k in range(6)]) for name in (i, (VELOCITY, i))]
                for i in at.rows_on_links
            }
            moved = beyond(tree, of_links, held)
            of_q = {(0, j): P @ rates.S[j] + Q @ rates.psi[j] for j, (P, Q) in moved.items()}
            of_v = {(0, j): Q @ rates.S[j] for j, (_, Q) in moved.items()}
            wrenches[link] = dual.values(from_entries(dual, W))
            with_q[link], with_v[link] = (assembled(ops, [6], sizes, x) for x in (of_q, of_v))
        out.append(RowChanges(none, none, wrenches, with_q, with_v))
    return out


def spring_force(c: AnySpring, at: Displaced) -> Any:
    """``−(k x + d ẋ)`` along the rows of a spring."""
    both = (column(at.ops, x) for x in (c.position(at), c.velocity(at)))
    steps = zip(c.springs(at.tree), *both, strict=True)
    acts = [(*acting(c, at.ops, k, d, x, u), x, u) for (k, d, _), x, u in steps]
    return from_entries(at.ops, [x * -k + u * -d for k, d, x, u in acts])


def held_joints(c: Constraint, tree: Tree) -> set[int]:
    """Joints that move all links of a constraint as one, where that changes nothing."""
    return {*tree.support(c.top(tree))} if c.is_internal(tree) else set()


def beyond(tree: Tree, of_links: Mapping[int, list[Matrix]], held: Container[int]) -> dict[int, list[Matrix]]:
    """Sums of matrices of links over all that lies beyond each joint that moves some, but for those ``held``."""
    out = {i: x for i, x in of_links.items() if i not in held}
    for j in tree.leaves_to_root():
        p = tree.parents[j]
        if j in out and p != WORLD and p not in held:
            out[p] = [x + y for x, y in zip(out[p], out[j], strict=True)] if p in out else out[j]
    return out


def _of_joints(motion: DynamicsProblem, rates: Rates, index: int) -> tuple[Matrix, Matrix]:
    """Changes of Baumgarte's terms of rows on joints, and what `Rates` leaves out of a floating root."""
    ops, tree, goal = motion.ops, motion.tree, motion.goals[index]
    c, rows = motion.problem.constraints[index], motion.problem.rows_on_joints_of(index)
    q, v = dict[tuple[int, int], Matrix](), dict[tuple[int, int], Matrix]()
    if rates.root in rows:
        q[0, rates.root], v[0, rates.root] = (-(rows[rates.root] @ x) for x in (rates.drift_q, rates.drift_v))
    of_positions = {j: ops.constant(C) for j, C in c.position_coefficients(tree).items()}
    for gain, met, out in ((goal.position_gain, of_positions, q), (goal.velocity_gain, rows, v)):
        if gain is not None:
            for j, C in met.items():
                own = scaled_matrix(ops, gain, C)
                out[0, j] = out[0, j] + own if (0, j) in out else own
    sizes = [joint.nv for joint in tree.joints]
    return assembled(ops, [c.size], sizes, q), assembled(ops, [c.size], sizes, v)
