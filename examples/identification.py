"""An arm is identified from motions that excite it: Fourier series whose base regressor has the least condition number.

Torques of simulated measurements have noise; base parameters come from them by linear least squares with their standard
errors. `python examples/identification.py robot.urdf` takes another arm.
"""

import sys
from time import perf_counter

import numpy as np
from scipy.optimize import minimize

import delassus as ds

HARMONICS, PERIOD, NOISE = 5, 10.0, 0.2  # of the slowest in s, N m

arm = ds.load(sys.argv[1]) if len(sys.argv) > 1 else ds.mechanisms.chain(4)
base, regressor = ds.base_parameters(arm), ds.compile(arm, (), "regressor", outputs="tau")
bounded = np.isfinite(arm.upper - arm.lower)
lower, upper = (np.where(bounded, x, y) for x, y in ((arm.lower, -np.pi), (arm.upper, np.pi)))
reach, middle = 0.45 * (upper - lower), 0.5 * (lower + upper)
fastest = np.where(np.isfinite(arm.velocity_limit), arm.velocity_limit, 3.0)


def series(x, samples):
    """Positions, velocities and accelerations (samples, nv) of coefficients, as large as limits of joints allow."""
    a = x.reshape(2 * HARMONICS, arm.nv)
    w = 2 * np.pi / PERIOD * np.tile(np.arange(1, HARMONICS + 1), 2)
    phase = w * np.linspace(0, PERIOD, samples, endpoint=False)[:, None] + np.repeat([0.0, np.pi / 2], HARMONICS)
    q, v, qdd = np.sin(phase) @ a, (w * np.cos(phase)) @ a, (-(w**2) * np.sin(phase)) @ a
    size = np.minimum(reach / np.abs(q).max(axis=0), fastest / np.abs(v).max(axis=0))
    return middle + size * q, size * v, size * qdd


def condition(x, samples=100):
    """Of the base regressor over the motion, its columns scaled to length one."""
    Y = regressor(*series(x, samples))[..., base.columns].reshape(-1, base.columns.size)
    return np.linalg.cond(Y / np.linalg.norm(Y, axis=0))


def estimate(x, samples=1000):
    """Base parameters from noisy torques, and their standard errors."""
    motion = series(x, samples)
    tau = ds.inverse_dynamics(arm, *motion, passive="none") + NOISE * rng.normal(size=(samples, arm.nv))
    Y = regressor(*motion)[..., base.columns].reshape(-1, base.columns.size)
    found, residual = np.linalg.lstsq(Y, (tau - arm.per_dof("armature") * motion[2]).ravel(), rcond=None)[:2]
    variance = residual[0] / (Y.shape[0] - Y.shape[1])
    return found, np.sqrt(variance * np.diagonal(np.linalg.inv(Y.T @ Y)))


rng = np.random.default_rng(0)
starts = rng.normal(size=(50, 2 * HARMONICS * arm.nv))
usual = sorted(map(condition, starts))[25]
begun = perf_counter()
best = minimize(lambda x: np.log(condition(x)), min(starts, key=condition), options={"maxiter": 20}).x
print(f"{arm.name}: {len(base.columns)} of {len(base.names)} parameters can be told apart")
print(f"condition {usual:.0f} of random motions, {condition(best):.0f} after {perf_counter() - begun:.1f} s")
true = base.grouping @ arm.inertial_parameters.ravel()
errors = []
for x in (starts[0], best):
    found, error = (np.array(of) for of in zip(*(estimate(x) for _ in range(20)), strict=True))
    errors.append(error.mean(axis=0))
    print(f"{np.mean(np.abs(found - true) < 2 * error):.0%} of estimates are within two standard errors")
print(f"errors of the exciting motion are {np.median(errors[1] / errors[0]):.0%} of those of a random one (median)")
