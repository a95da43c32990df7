"""A robot is identified from a motion that excites it: Fourier series, whose base regressor is well conditioned.

Torques of simulated measurements have noise; base parameters come from them by linear least squares with their standard
errors. `python examples/identification.py robot.urdf` takes another arm, `quadruped` a robot whose base floats, without
motors, as its dynamics say.
"""

import sys
from time import process_time

import numpy as np

import delassus as ds
from delassus.scenes.quadruped import generic_quadruped

NOISE = 0.2  # N m

if sys.argv[1:] == ["quadruped"]:
    robot = generic_quadruped()
else:
    robot = ds.load(sys.argv[1]) if len(sys.argv) > 1 else ds.mechanisms.chain(4)
rng = np.random.default_rng(0)


def errors(motion):
    """Standard errors of base parameters from noisy torques, and how many of the estimates are within two of them."""
    given = {"gravity": motion.gravity}
    tau = ds.inverse_dynamics(robot, motion.q, motion.v, motion.qdd, passive="none", **given)
    tau = tau - robot.per_dof("armature") * motion.qdd
    Y = ds.regressor(robot, motion.q, motion.v, motion.qdd, **given)[..., motion.base.columns]
    Y = Y.reshape(-1, Y.shape[-1])
    covariance, true = np.linalg.inv(Y.T @ Y), motion.base.grouping @ robot.inertial_parameters.ravel()
    error, within = NOISE * np.sqrt(np.diagonal(covariance)), []
    for _ in range(20):
        found = covariance @ (Y.T @ (tau.ravel() + NOISE * rng.normal(size=tau.size)))
        within.append(np.abs(found - true) < 2 * error)
    return error, np.mean(within)


usual = ds.exciting_motion(robot, samples=1000, rounds=0)
begun = process_time()
motion = ds.exciting_motion(robot, samples=1000)
seconds, base = process_time() - begun, motion.base
(random, _), (exciting, part) = map(errors, (usual, motion))
print(f"{robot.name}: {len(base.columns)} of {len(base.names)} parameters can be told apart")
print(f"condition {motion.usual:.0f} of random motions, {motion.condition:.1f} after {seconds:.1f} s")
print(f"{part:.0%} of estimates are within two standard errors")
ratios = [of(exciting) / of(random) for of in (np.median, np.max)]
print(f"errors are {ratios[0]:.0%} of those of the best of 50 random motions, the largest {ratios[1]:.0%}")
