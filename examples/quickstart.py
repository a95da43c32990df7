"""The README's example: a robot, three constraints, its Delassus matrix at a hundred states."""

import numpy as np

import delassus as ds

robot = ds.mechanisms.humanoid()
sole = ds.Frame("left_foot", (0.1, 0.05, -0.04))
constraints = [ds.Point(sole), ds.Weld("right_foot"), ds.Weld("left_hand", "right_hand")]
q = robot.random(0, batch=100)

G = ds.delassus(robot, constraints, q)
print("G:", G.shape)
for method in ds.OSIM_METHODS:
    error = np.max(np.abs(ds.delassus(robot, constraints, q, method=method) - G)) / np.max(np.abs(G))
    report = ds.count_operations(robot, constraints, method=method)
    print(f"{method:9s} {report.clean.total:7,} operations, differs by {error:.0e}")
    assert error < 1e-9
