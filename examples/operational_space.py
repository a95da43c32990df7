"""Operational-space control of a standing humanoid's hand: accelerate the hand without moving the feet.

The feet and the hand are one stack of rows. Its consistent inverse maps wanted accelerations to joint accelerations,
and the null-space projector keeps any other torque from disturbing them.
"""

import numpy as np

import delassus as ds

robot = ds.mechanisms.humanoid()
q = robot.random(1)
task = [ds.Weld("left_foot"), ds.Weld("right_foot"), ds.Point("right_hand", axes="world")]

Lambda = ds.osim(robot, task, q)
J = ds.jacobian(robot, task, q)
J_bar = ds.consistent_inverse(robot, task, q)

wanted = np.zeros(15)
wanted[-3:] = 0.0, 0.0, 1.0  # the hand rises at 1 m/s², the feet stay
forces = Lambda @ wanted
acceleration = np.linalg.solve(ds.mass_matrix(robot, q), J.T @ forces)
print("accelerations along the rows:", np.round(J @ acceleration, 6))
assert np.allclose(J @ acceleration, wanted)

posture_torque = np.random.default_rng(0).normal(size=robot.nv)
projected = posture_torque - J.T @ (J_bar.T @ posture_torque)
disturbance = J @ np.linalg.solve(ds.mass_matrix(robot, q), projected)
print("what a projected posture torque does to them:", np.abs(disturbance).max())
assert np.allclose(disturbance, 0, atol=1e-8)
