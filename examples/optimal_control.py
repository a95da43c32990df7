"""Two arms carry a rod to a place: optimal control by IPOPT, on CasADi's symbols and, where gcc is, on C code.

The rod is a constraint, its force is what the dynamics give beside accelerations, and it must not exceed 4 N.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from time import perf_counter

import casadi as ca
import numpy as np

import delassus as ds

arms = ds.mechanisms.ladder(3)
n, knots, dt, strongest = arms.nv, 25, 0.02, 4.0
hands = [ds.Frame(f"{side}3", (0.0, 0.0, -0.2)) for side in ("left", "right")]
start, goal = np.array([0.3, 1.0, 0.8, 0.1, 0.9, 0.5]), np.array([0.0, 1.2, 0.4, -0.2, 1.1, 0.4])
poses = ds.compile(arms, (), "kinematics", frames=hands)
(left, right), ends = (poses(q)[:, :3, 3] for q in (start, goal))
rod = ds.Distance(*hands, length=float(np.linalg.norm(left - right)))
dynamics = ds.compile(arms, rod, "dynamics", baumgarte=5.0)


def solve(accelerate, place):
    """Multiple shooting over half a second."""
    q, v, tau = ca.MX.sym("q", n, knots + 1), ca.MX.sym("v", n, knots + 1), ca.MX.sym("tau", n, knots)
    qdd, force = accelerate.map(knots)(q[:, :-1], v[:, :-1], tau)
    middle = ca.sum1(place(q[:, -1])[:, [3, 7, 11]]).T / 2  # 4 x 4 matrices lie in a row
    zero = [
        ca.vec(v[:, 1:] - v[:, :-1] - dt * qdd),
        ca.vec(q[:, 1:] - q[:, :-1] - dt * v[:, 1:]),
        q[:, 0] - start,
        v[:, 0],
        middle - ends.mean(axis=0),
    ]
    x, zero = ca.vertcat(ca.vec(q), ca.vec(v), ca.vec(tau)), ca.vertcat(*zero)
    cost = dt * (ca.sumsqr(tau) + ca.sumsqr(v)) + 100 * ca.sumsqr(v[:, -1])
    options = {"print_time": False, "ipopt.print_level": 0, "ipopt.sb": "yes"}
    solver = ca.nlpsol("solver", "ipopt", {"x": x, "f": cost, "g": ca.vertcat(zero, force.T)}, options)
    rest, hold = np.zeros(n), ds.bias_force(arms, start, np.zeros(n))
    still = np.hstack([np.tile(start, knots + 1), np.tile(rest, knots + 1), np.tile(hold, knots)])
    bound = np.hstack([np.zeros(zero.numel()), np.full(knots, strongest)])
    begun = perf_counter()
    found = solver(x0=still, lbg=-bound, ubg=bound)
    seconds = perf_counter() - begun
    assert solver.stats()["success"], solver.stats()["return_status"]
    largest = np.abs(np.array(ca.Function("grip", [x], [force])(found["x"]))).max()
    iterations = solver.stats()["iter_count"]
    print(f"cost {float(found['f']):.3f}, force up to {largest:.3f} N, {iterations} iterations, {seconds:.1f} s")
    return float(found["f"])


print("symbols:")
best = solve(dynamics.casadi(), poses.casadi())

if shutil.which("gcc"):
    functions, flags = [], os.environ.get("CFLAGS", "-O1").split()
    with tempfile.TemporaryDirectory() as folder:
        for kernel in (dynamics, poses):
            _, source = kernel.export_c(folder, casadi=2)
            library = Path(folder) / f"{source.stem}.so"
            subprocess.run(["gcc", *flags, "-shared", "-fPIC", source, "-o", library, "-lm"], check=True)
            functions.append(ca.external(f"{source.stem}_casadi", str(library)))
        print("C code:")
        assert abs(solve(*functions) / best - 1) < 1e-6
