"""What sensors measure of a robot in motion; cost O(n).

Accelerations of links are true ones less gravity, as an accelerometer has them. A force sensor measures what a link
gets through its joint, ``f_i = H_i a_i + p_i − Kᵀ λ + Σ Xᵀ f_child``: inertial force and that of all that it carries,
less wrenches and forces of constraints on them. No sources; MuJoCo's conventions, but for quaternions x y z w.

After a step with contacts, forces of these and accelerations are means over the step: impulses and changes of
velocities by its time. Poses and velocities are those at its end; contacts are where they were at its start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from delassus.algorithms.dynamics.actuation import clipped
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.kinematics import body_poses, frame_pose, seen_from
from delassus.algorithms.problem import Problem
from delassus.algorithms.rnea import accelerations
from delassus.constraints.contact import spins_of
from delassus.constraints.frame import as_frame
from delassus.constraints.sensors import KINDS, UNLIMITED, Sensor
from delassus.constraints.shapes.rays import ray_meets
from delassus.frozen import cached_property
from delassus.model.tree import WORLD, Placement, Tree
from delassus.spatial.joint_kinds import FREE
from delassus.spatial.motion import ANGULAR, LINEAR, chosen, column, cross, from_entries, scaled
from delassus.spatial.ops import Matrix, Ops, Scalar
from delassus.spatial.rotations import quaternion_rows
from delassus.spatial.transform import Pose

Caused = tuple[list[Matrix], Mapping[int, Matrix]]
"""Acceleration of each joint (n_i × 1), and forces of constraints (6 × 1) on links, in body frames."""

State = Sequence[Scalar]
"""Configuration or velocity."""


class Measurements:
    """Numbers of sensors; ``caused`` gives accelerations and forces, ``actuators`` forces, where a sensor asks.

    ``touched`` gives the sum of normal forces at the contacts of a touch sensor.
    """

    def __init__(
        self,
        motion: DynamicsProblem,
        caused: Callable[[], Caused],
        actuators: Callable[[], Sequence[Scalar]],
        touched: Callable[[Sensor], Scalar],
    ) -> None:
        self.motion, self.ops, self.tree, self.problem = motion, motion.ops, motion.tree, motion.problem
        self._caused, self._actuators, self._touched = caused, actuators, touched

    def of(self, sensor: Sensor) -> Matrix:
        """Numbers (n × 1) of a sensor."""
        found = getattr(self, f"_{sensor.kind}")(sensor)
        if sensor.cutoff == float("inf") or sensor.kind in UNLIMITED:
            return found  # type: ignore[no-any-return]
        most = float(sensor.cutoff)
        return from_entries(self.ops, [clipped(self.ops, x, -most, most) for x in column(self.ops, found)])

    # -- what they are made of -------------------------------------------------------------------------------------

    @cached_property
    def caused(self) -> Caused:
        """Accelerations and forces."""
        return self._caused()

    @cached_property
    def poses(self) -> list[Pose]:
        """Pose of each link."""
        return body_poses(self.problem)

    @cached_property
    def accelerations(self) -> list[Matrix]:
        """Spatial acceleration (6 × 1) of each link less gravity."""
        return accelerations(self.motion, self.caused[0])

    @cached_property
    def through_joints(self) -> list[Matrix]:
        """Force (6 × 1) that each link gets through its joint."""
        motion, (_, constrained) = self.motion, self.caused
        f = [H @ a + p for H, a, p in zip(self.problem.inertias, self.accelerations, motion.p, strict=True)]
        for i, force in constrained.items():
            f[i] = f[i] - force

        # leaves → root: f_p += X_iᵀ f_i
        for i in self.tree.leaves_to_root():
            p = self.tree.parents[i]
            if p != WORLD:
                f[p] = f[p] + self.problem.X[i].forces_to_parent(f[i])
        return f

    def _placed(self, sensor: Sensor) -> tuple[Placement, Pose]:
        """Where a frame is, and its pose in the body frame."""
        at = sensor.frame.on(self.tree)
        return at, (self.ops.constant(at.rotation), self.ops.constant(at.position[:, None]))

    def _reference(self, sensor: Sensor) -> Placement | None:
        return None if sensor.reference is None else as_frame(sensor.reference, "reference").on(self.tree)

    def _pose(self, at: Placement) -> Pose:
        return frame_pose(self.problem, self.poses, at)

    def _axes(self, sensor: Sensor) -> Matrix:
        """Axes (3 × 3) of a frame in its reference."""
        R, reference = self._pose(sensor.frame.on(self.tree))[0], self._reference(sensor)
        return R if reference is None else self.ops.transpose(self._pose(reference)[0]) @ R

    def _twist(self, at: Placement) -> tuple[Matrix, Matrix]:
        """Velocity of the origin, and angular velocity, along the axes of a frame."""
        if at.link == WORLD:
            return self.ops.zeros(3, 1), self.ops.zeros(3, 1)
        pose = self.ops.constant(at.rotation), self.ops.constant(at.position[:, None])
        V = seen_from(self.ops, pose, self.motion.V[at.link])
        return self.ops.take(V, LINEAR, None), self.ops.take(V, ANGULAR, None)

    def _acceleration(self, sensor: Sensor) -> tuple[Matrix, Matrix]:
        """Acceleration of the origin less gravity, and angular acceleration, along the axes of a frame."""
        (at, pose), ops = self._placed(sensor), self.ops
        if at.link == WORLD:
            return -(ops.transpose(pose[0]) @ self.motion.gravity), ops.zeros(3, 1)
        a, (v, w) = seen_from(ops, pose, self.accelerations[at.link]), self._twist(at)
        return ops.take(a, LINEAR, None) + cross(ops, w, v), ops.take(a, ANGULAR, None)

    # -- by frame --------------------------------------------------------------------------------------------------

    def _accelerometer(self, sensor: Sensor) -> Matrix:
        return self._acceleration(sensor)[0]

    def _velocimeter(self, sensor: Sensor) -> Matrix:
        return self._twist(sensor.frame.on(self.tree))[0]

    def _gyro(self, sensor: Sensor) -> Matrix:
        return self._twist(sensor.frame.on(self.tree))[1]

    def _force(self, sensor: Sensor) -> Matrix:
        at, (R, _) = self._placed(sensor)
        return self.ops.transpose(R) @ self.ops.take(self.through_joints[at.link], LINEAR, None)

    def _torque(self, sensor: Sensor) -> Matrix:
        (at, (R, p)), ops = self._placed(sensor), self.ops
        f, m = (ops.take(self.through_joints[at.link], part, None) for part in (LINEAR, ANGULAR))
        return ops.transpose(R) @ (m - cross(ops, p, f))

    def _touch(self, sensor: Sensor) -> Matrix:
        return from_entries(self.ops, [self._touched(sensor)])

    def _framepos(self, sensor: Sensor) -> Matrix:
        p, reference = self._pose(sensor.frame.on(self.tree))[1], self._reference(sensor)
        if reference is None:
            return p
        R, origin = self._pose(reference)
        return self.ops.transpose(R) @ (p - origin)

    def _framequat(self, sensor: Sensor) -> Matrix:
        return from_entries(self.ops, quaternion_of(self.ops, self._axes(sensor)))

    def _framexaxis(self, sensor: Sensor) -> Matrix:
        return self.ops.take(self._axes(sensor), None, (0,))

    def _frameyaxis(self, sensor: Sensor) -> Matrix:
        return self.ops.take(self._axes(sensor), None, (1,))

    def _framezaxis(self, sensor: Sensor) -> Matrix:
        return self.ops.take(self._axes(sensor), None, (2,))

    def _framelinvel(self, sensor: Sensor) -> Matrix:
        at, reference, ops = sensor.frame.on(self.tree), self._reference(sensor), self.ops
        R, p = self._pose(at)
        v = R @ self._twist(at)[0]
        if reference is None:
            return v
        (S, origin), (u, w) = self._pose(reference), self._twist(reference)
        return ops.transpose(S) @ v - u - cross(ops, w, ops.transpose(S) @ (p - origin))

    def _frameangvel(self, sensor: Sensor) -> Matrix:
        at, reference = sensor.frame.on(self.tree), self._reference(sensor)
        w = self._axes(sensor) @ self._twist(at)[1]
        return w if reference is None else w - self._twist(reference)[1]

    def _framelinacc(self, sensor: Sensor) -> Matrix:
        return self._axes(sensor) @ self._acceleration(sensor)[0]

    def _frameangacc(self, sensor: Sensor) -> Matrix:
        return self._axes(sensor) @ self._acceleration(sensor)[1]

    # -- by link ---------------------------------------------------------------------------------------------------

    def _subtree(self, sensor: Sensor, moves: bool) -> tuple[Matrix, Matrix, Matrix]:
        """Centre of mass, its velocity and the angular momentum about it, of what a link carries, in the world.

        Of what has no mass, the centre is the link's origin.
        """
        ops, tree, root = self.ops, self.tree, self.tree.link_names.index(str(sensor.of))
        moment, linear, angular = (ops.zeros(3, 1) for _ in range(3))
        total: Scalar = 0.0
        for i in tree.root_to_leaves():
            if root not in tree.support(i):
                continue
            (R, p), H = self.poses[i], self.problem.inertias[i]
            own = ops.entries(H)
            m = own[0][0]
            total = total + m
            moment = moment + R @ from_entries(ops, [own[5][1], own[3][2], own[4][0]]) + scaled(ops, [m] * 3, p)
            if moves:
                h = H @ self.motion.V[i]
                carried = R @ ops.take(h, LINEAR, None)
                linear = linear + carried
                angular = angular + R @ ops.take(h, ANGULAR, None) + cross(ops, p, carried)
        has_mass = ops.less(0.0, total)  # masses are not negative: none is left of rounding
        over = [1.0 / ops.select(has_mass, total, 1.0)] * 3

        def mean(of_mass: Matrix, of_origin: Matrix) -> Matrix:
            return from_entries(ops, chosen(ops, has_mass, column(ops, scaled(ops, over, of_mass)),
                                            column(ops, of_origin)))  # fmt: skip

        R, p = self.poses[root]
        centre = mean(moment, p)
        if not moves:
            return centre, linear, angular
        velocity = mean(linear, R @ ops.take(self.motion.V[root], LINEAR, None))
        return centre, velocity, angular - cross(ops, centre, linear)

    def _subtreecom(self, sensor: Sensor) -> Matrix:
        return self._subtree(sensor, False)[0]

    def _subtreelinvel(self, sensor: Sensor) -> Matrix:
        return self._subtree(sensor, True)[1]

    def _subtreeangmom(self, sensor: Sensor) -> Matrix:
        return self._subtree(sensor, True)[2]

    # -- by joint and actuator -------------------------------------------------------------------------------------

    def _jointpos(self, sensor: Sensor) -> Matrix:
        at = self.tree.q_index(str(sensor.of))
        return from_entries(self.ops, [self.problem.q[k] for k in range(at.start, at.stop)])

    def _jointvel(self, sensor: Sensor) -> Matrix:
        return self.motion.v[self.tree._joint_index(str(sensor.of))]

    def _jointactuatorfrc(self, sensor: Sensor) -> Matrix:
        at = self.tree.v_index(str(sensor.of))
        return self.ops.take(self.motion.applied, range(at.start, at.stop), None)

    def _actuatorpos(self, sensor: Sensor) -> Matrix:
        return self._along(sensor, lambda joint: self.problem.q[self.tree.q_index(joint).start])

    def _actuatorvel(self, sensor: Sensor) -> Matrix:
        return self._along(sensor, lambda joint: self.motion.velocity[self.tree.v_index(joint).start])

    def _along(self, sensor: Sensor, number: Callable[[str], Scalar]) -> Matrix:
        """``Σ ratio x`` over the joints that an actuator acts on."""
        total: Scalar = 0.0
        for joint, ratio in self.tree.actuators[self._actuator(sensor)].transmission.items():
            total = total + ratio * number(joint)
        return from_entries(self.ops, [total])

    def _actuator(self, sensor: Sensor) -> int:
        return [a.name for a in self.tree.actuators].index(str(sensor.of))

    def _actuatorfrc(self, sensor: Sensor) -> Matrix:
        return from_entries(self.ops, [self._actuators()[self._actuator(sensor)]])


assert all(hasattr(Measurements, f"_{kind}") for kind in KINDS)


class ContactForce(NamedTuple):
    """Force (3 × 1) at a contact on the first of its links along ``axes`` (3 × 3), two tangents and the normal to it.

    ``point`` (3 × 1) and axes are in the world.
    """

    links: tuple[int, int]
    point: Matrix
    axes: Matrix
    force: Matrix


def contact_forces(problem: Problem, impulses: Sequence[Scalar], over_h: Scalar) -> list[ContactForce]:
    """Mean forces of all contact points over a step of ``1 / over_h`` seconds that begins at ``problem``."""
    ops, rows, out = problem.ops, iter(impulses), list[ContactForce]()
    for index, candidates in problem.candidates.items():
        first, second, *_ = [f.on(problem.tree).link for f in problem.constraints[index].frames] + [WORLD]
        for c in candidates:
            link, arm = next(iter(c.arms.items()))
            force = from_entries(ops, [over_h * next(rows) for _ in range(3)])
            out.append(ContactForce((first, second), problem.origins[link] + arm, c.axes, force))
    return out


def touch(problem: Problem, forces: Sequence[ContactForce], sensor: Sensor) -> Scalar:
    """Sum of normal forces at contacts of a sensor's link whose normal, out of the link, meets its volume."""
    ops, at = problem.ops, sensor.frame.on(problem.tree)
    R, p = frame_pose(problem, [*zip(problem.link_rotations, problem.origins, strict=True)], at)
    to_frame = ops.transpose(R)
    total: Scalar = 0.0
    for x in forces:
        if at.link in x.links:
            normal, pressing = ops.take(x.axes, None, (2,)), ops.maximum(ops.entries(x.force)[2][0], 0.0)
            outwards = to_frame @ (-normal if x.links[0] == at.link else normal)
            meets: Scalar = 1.0
            if sensor.within is not None:
                place = column(ops, to_frame @ (x.point - p))
                meets = ray_meets(ops, sensor.within, place, column(ops, outwards))
            total = total + meets * pressing
    return total


def contact_wrenches(problem: Problem, forces: Sequence[ContactForce]) -> dict[int, Matrix]:
    """Wrenches (6 × 1) of contacts on links, in body frames."""
    ops, out = problem.ops, dict[int, Matrix]()
    for x in forces:
        f = x.axes @ x.force
        for link, force in zip(x.links, (f, -f), strict=True):
            if link != WORLD:
                to_link = ops.transpose(problem.link_rotations[link])
                moment = cross(ops, x.point - problem.origins[link], force)
                wrench = ops.vstack([to_link @ force, to_link @ moment])
                out[link] = out[link] + wrench if link in out else wrench
    return out


def spin_wrenches(problem: Problem, impulses: Sequence[Scalar], over_h: Scalar) -> list[tuple[int, Matrix]]:
    """Links and mean wrenches (6 × 1) in body frames of angular impulses about axes of contacts (N m s)."""
    ops, given, out = problem.ops, iter(impulses), list[tuple[int, Matrix]]()
    for c in spins_of(problem.constraints):
        for point in problem.candidates[c.of]:
            axes = [ops.take(point.axes, None, (axis,)) for axis, _ in c.contact.lengths]
            moment = ops.hstack(axes) @ from_entries(ops, [over_h * next(given) for _ in axes])
            for link, own in zip(point.arms, (moment, -moment), strict=False):
                out.append((link, ops.vstack([ops.zeros(3, 1), ops.transpose(problem.link_rotations[link]) @ own])))
    return out


def mean_accelerations(
    ops: Ops, tree: Tree, before: tuple[State, State], after: tuple[State, State], over_h: Scalar
) -> list[Matrix]:
    """Mean acceleration (n_i × 1) of each joint over a step; that of free joints along the axes of the world."""
    (q, v), (q_next, v_next), out = before, after, list[Matrix]()
    for joint, sq, sv in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True):
        old, new = from_entries(ops, v[sv]), from_entries(ops, v_next[sv])
        products = ops.zeros(joint.nv, 1)
        if joint.kind is FREE:
            R, R_next = (ops.matrix(quaternion_rows(*x[sq][3:])) for x in (q, q_next))
            turned = ops.transpose(R_next) @ (R @ ops.take(old, LINEAR, None))
            old = ops.vstack([turned, ops.take(old, ANGULAR, None)])
            product = cross(ops, ops.take(new, ANGULAR, None), ops.take(new, LINEAR, None))
            products = ops.vstack([product, ops.zeros(3, 1)])
        out.append(scaled(ops, [over_h] * joint.nv, new - old) - products)
    return out


def quaternion_of(ops: Ops, R: Matrix) -> list[Scalar]:
    """Unit quaternion x y z w of a rotation matrix, w not negative: the largest column of ``4 q qᵀ``, normalised."""
    (a, b, c), (d, e, f), (g, h, i) = ops.entries(R)
    rows: list[list[Scalar]] = [
        [1.0 + a - e - i, b + d, c + g, h - f],
        [b + d, 1.0 - a + e - i, f + h, c - g],
        [c + g, f + h, 1.0 - a - e + i, d - b],
        [h - f, c - g, d - b, 1.0 + a + e + i],
    ]
    best, square = rows[3], rows[3][3]
    for k in range(3):
        is_larger = ops.less(square, rows[k][k])
        best = chosen(ops, is_larger, rows[k], best)
        square = ops.select(is_larger, rows[k][k], square)
    half = 0.5 / ops.sqrt(square)  # at least one: the four add up to four
    sign = ops.select(ops.less(best[3], 0.0), -half, half)
    return [sign * x for x in best]
