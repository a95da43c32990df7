"""Go1 trots by model predictive control: iLQR over a second of contact modes, anew every 20 ms, is pushed and recovers.

Feet on the ground are held by constraints, and come to rest by an impact where they touch down; which ones are on the
ground when is given, where they step is not. `Simulator` knows nothing of these modes: contacts are found anew.

    OPENBLAS_NUM_THREADS=1 taskset -c 0 python examples/trot_predictive.py --speed 0.5
    python examples/trot_predictive.py --speed 0 0.5 --times 5 --film trot.webp
"""

import argparse
import time
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path

import numpy as np

import delassus as ds
from delassus.scenes.quadruped import FOOT_RADIUS, go1, on_floor
from delassus.scenes.trot import LEGS, leg_angles, rod_of
from delassus.simulate.recording import Recorder
from delassus.spatial.rotations import quaternion_to_matrix

Array = np.ndarray

KNOT, HORIZON, EVERY, SUB_STEPS = 0.01, 100, 2, 5
"""Time between knots of a plan (s), their number, knots until the next plan, and steps of the simulator a knot."""

PERIOD, SWING, OFFSETS, LIFT = 40, 18, np.array([0, 20, 20, 0]), 0.06
"""Knots of a cycle of the gait and of its swing, at which one each leg begins, and how high feet are lifted (m)."""

STANDING, HEIGHT = 0.3, 0.3 + FOOT_RADIUS
"""Height of the hips above the feet, and of the trunk above the ground (m)."""

PUSH, LASTS = 50.0, 0.2
"""Force on the trunk (N) and its time (s)."""

POSTURE = np.r_[3.0, 3.0, 30.0, 20.0, 20.0, 5.0, np.tile([6.0, 3.0, 3.0], 4)]
RATES = np.r_[4.0, 4.0, 2.0, 1.0, 1.0, 2.0, np.full(12, 0.3)]
EFFORT, FEET, LAST = 0.1, 20.0, 4.0
"""Weights of displacements (1/m, 1/rad), of velocities, torques (1/(N m)), heights of feet (1/m), and of the end."""

FRICTION, CONES = 0.7, 0.3
"""Coefficient of friction that plans count on, and weight of forces beyond its cones (1/N)."""


def swings(knots: Array) -> tuple[Array, Array]:
    """Which legs (..., 4) swing at knots (...), and where in the swing they are, from 0 to 1."""
    phase = (np.asarray(knots)[..., None] + OFFSETS) % PERIOD
    return phase < SWING, np.minimum(phase / SWING, 1.0)


class Trot:
    """Controller of `Simulator.run`: joint forces of plans and their feedback, and pushes of the trunk."""

    def __init__(self, tree: ds.Tree, speed: float, push: Array, at: float, passive: str = "model") -> None:
        feet = [f"{leg}_foot" for leg in LEGS]
        points = [ds.Point(foot, axes="world") for foot in feet]
        modes = {"active": True, "impacts": True, "passive": passive}
        self.step = ds.compile(tree, points, "step", outputs=("q_next", "v_next", "forces"), **modes)
        self.derivatives = ds.compile(tree, points, "step_derivatives", outputs=("A", "B", "C", "D"), **modes)
        self.places = ds.compile(tree, (), "kinematics", frames=feet)
        self.jacobian = ds.compile(tree, points, "jacobian")
        self.difference = ds.compile(tree, (), "difference")
        self.changes = self.difference.derivative("tangent_jacobian", by="q_end")
        self.tree, self.push, self.at = tree, push, at
        self.q0 = tree.neutral()
        self.q0[2], self.q0[7:] = HEIGHT, np.tile(leg_angles(rod_of(tree), STANDING, 0.0, 0.0), 4)
        self.velocity = np.r_[speed, np.zeros(17)]
        weight, J = ds.bias_force(tree, self.q0, np.zeros(18)), self.jacobian(self.q0)
        self.standing = (weight - J.T @ np.linalg.lstsq(J[:, :6].T, weight[:6], rcond=None)[0])[6:]
        self.bounds = tuple(sign * np.r_[np.zeros(6), tree.effort_limit[6:]] for sign in (-1.0, 1.0))
        self.first, self.seconds, self.costs = 0, [], []
        controls = np.tile(np.r_[np.zeros(6), self.standing], (HORIZON, 1))
        self.plan = ds.Plan(self.goal(np.arange(HORIZON + 1)), np.zeros((HORIZON + 1, 18)), controls)

    # -- cost: residuals and their derivatives by tangents of the state, controls and forces -------------------------

    def goal(self, knots: Array) -> Array:
        """Configurations (..., nq) to be at."""
        q = np.tile(self.q0, (*np.shape(knots), 1))
        q[..., 0] += self.velocity[0] * KNOT * np.asarray(knots)
        return q

    def along(self, t: Array, q: Array, v: Array, u: Array, forces: Array) -> Array:
        """Displacements, velocities, torques, heights of feet that swing, and forces beyond cones (..., 56)."""
        knots = self.first + np.rint(t / KNOT).astype(int)
        swing, phase = swings(knots)
        above = self.places(q)[..., 2, 3] - FOOT_RADIUS - LIFT * np.sin(np.pi * phase) ** 2
        moved = POSTURE * self.difference(self.goal(knots), q), RATES * (v - self.velocity)
        of_feet = FEET * swing * above, CONES * np.maximum(0.0, self.beyond(forces)[0])
        return np.concatenate([*moved, EFFORT * (u[..., 6:] - self.standing), *of_feet], axis=-1)

    def beyond(self, forces: Array) -> tuple[Array, Array]:
        """By how much forces of feet are outside of friction cones (..., 4), in N, and its derivatives (..., 4, 3)."""
        of_feet = forces.reshape(*forces.shape[:-1], 4, 3)
        across, up = np.linalg.norm(of_feet[..., :2], axis=-1, keepdims=True), of_feet[..., 2:]
        direction = of_feet[..., :2] / np.maximum(across, 1e-9)
        return (across - FRICTION * up)[..., 0], np.concatenate([direction, np.full(up.shape, -FRICTION)], axis=-1)

    def along_by(self, t: Array, q: Array, v: Array, u: Array, forces: Array) -> Array:
        """Their derivatives (T, 56, 66)."""
        knots = self.first + np.rint(t / KNOT).astype(int)
        J = np.zeros((len(q), 56, 66))
        J[:, :18, :18] = POSTURE[:, None] * self.changes(self.goal(knots), q)
        J[:, range(18, 36), range(18, 36)] = RATES
        J[:, range(36, 48), range(42, 54)] = EFFORT
        J[:, 48:52, :18] = FEET * swings(knots)[0][..., None] * self.jacobian(q)[:, 2::3]
        outside, changes = self.beyond(forces)
        for leg in range(4):
            J[:, 52 + leg, 54 + 3 * leg : 57 + 3 * leg] = CONES * (outside > 0.0)[:, leg, None] * changes[:, leg]
        return J

    def last(self, q: Array, v: Array) -> Array:
        """Displacements and velocities at the end (..., 36)."""
        goal = self.goal(self.first + HORIZON)
        return LAST * np.concatenate([POSTURE * self.difference(goal, q), RATES * (v - self.velocity)], axis=-1)

    def last_by(self, q: Array, v: Array) -> Array:
        """Their derivatives (36, 36)."""
        J = np.diag(LAST * np.r_[POSTURE, RATES])
        J[:18, :18] = LAST * POSTURE[:, None] * self.changes(self.goal(self.first + HORIZON), q)
        return J

    # -- plans and what is made of them ----------------------------------------------------------------------------

    def modes(self, knots: Array) -> tuple[Array, Array]:
        """Which feet (T, 4) are on the ground, and which ones come to rest there."""
        on, was = (~swings(k)[0] for k in (knots, knots - 1))
        lands = on & ~was
        lands[0] = on[0]  # whatever the feet do that should be at rest
        return on, lands

    def plans(self, q: Array, v: Array, knot: int) -> Iterator[ds.Plan]:
        """Plans from a state on, one more iteration each, the first one what is left of the plan before."""
        before, self.first = self.plan.shifted(knot - self.first), knot
        on, lands = self.modes(np.arange(knot, knot + HORIZON))
        return ds.ilqr(
            self.step, self.derivatives, q, v, before, KNOT, self.along, self.last,
            jacobians=(self.along_by, self.last_by), varied=range(6, 18), bounds=self.bounds,
            active=on, impacts=lands, per_step=("active", "impacts"),
        )  # fmt: skip

    def replan(self, q: Array, v: Array, knot: int) -> None:
        """Plan until there is hardly any change at the start, and then by one iteration."""
        *_, self.plan = islice(self.plans(q, v, knot), 2 if knot else 13)

    def __call__(self, sim: ds.Simulator) -> Array:
        """Joint forces between two knots: those of the plan, and its feedback about the state that it has there."""
        knot, part = divmod(sim.steps, SUB_STEPS)
        if sim.steps % (EVERY * SUB_STEPS) == 0:
            began = time.process_time()
            self.replan(sim.q, sim.v, knot)
            self.seconds.append(time.process_time() - began)
            self.costs.append(self.plan.cost)
        k, part, plan = knot - self.first, part / SUB_STEPS, self.plan
        q = self.tree.integrate(plan.q[k], part * self.difference(plan.q[k], plan.q[k + 1]))
        v = plan.v[k] + part * (plan.v[k + 1] - plan.v[k])
        tau = plan.controls[k].copy()
        tau[6:] += plan.gains[k] @ np.r_[self.difference(q, sim.q), sim.v - v]
        tau = np.clip(tau, *self.bounds)
        if self.at <= sim.time < self.at + LASTS:
            tau[:3] += quaternion_to_matrix(sim.q[3:7]).T @ self.push
        return tau


def trotted(speed: float, push: Array, at: float, seconds: float, film: Path | None = None) -> str:
    """What comes of a push at a time: a line of a table."""
    tree = go1()
    controller = Trot(tree, speed, push, at)
    sim = ds.Simulator(on_floor(tree), dt=KNOT / SUB_STEPS, q0=controller.q0)
    try:
        recording = sim.run(seconds, controller, record=Recorder())
    except ds.DelassusError as error:
        return f"stops at {sim.time:.2f} s: {error}"
    R = quaternion_to_matrix(recording.q[:, 3:7])
    rates = (R @ recording.v[:, :3, None])[..., 0]
    sideways = np.abs(recording.q[:, 1]).max()
    rests = R[-1, 2, 2] > 0.98 and abs(recording.q[-1, 2] - HEIGHT) < 0.03 and abs(rates[-100:, 1].mean()) < 0.1
    if film:
        from delassus.pictures.video import write_video

        write_video(recording, film, fps=15, size=(400, 240))
    return (
        f"{'recovers' if rests else 'does not recover'}: up to {np.abs(rates[:, 1]).max():.2f} m/s and "
        f"{100 * sideways:.0f} cm sideways, ahead {recording.q[-1, 0]:.2f} m, least upright {R[:, 2, 2].min():.3f}; "
        f"{1 / np.median(controller.seconds[1:]):.0f} replans a second of one core"
    )


def main() -> None:
    """Trot, and say what comes of pushes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speed", type=float, nargs="+", default=[0.5], help="m/s ahead")
    parser.add_argument("--angle", type=float, nargs="+", default=[90.0], help="directions of pushes, from ahead (deg)")
    parser.add_argument("--force", type=float, default=PUSH, help="N")
    parser.add_argument("--times", type=int, default=1, help="pushes at so many times of the gait")
    parser.add_argument("--seconds", type=float, default=3.5)
    parser.add_argument("--film", type=Path, help="file for a film of the last one: .mp4, .webp or .gif")
    options = parser.parse_args()
    for speed, angle, k in product(options.speed, options.angle, range(options.times)):
        push = options.force * np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle)), 0.0])
        at = 1.5 + KNOT * PERIOD * k / options.times
        told = trotted(speed, push, at, options.seconds, options.film)
        print(f"{speed} m/s, {options.force:g} N at {angle:g}° from {at:.2f} s on: {told}", flush=True)


if __name__ == "__main__":
    main()
