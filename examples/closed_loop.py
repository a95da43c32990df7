"""A ladder of two arms whose rungs are welded: closed loops, redundant rows, and what the operator says of them."""

import numpy as np

import delassus as ds

ladder = ds.mechanisms.ladder(6)
q = ladder.random(2)
rungs = [ds.Point("left3", "right3"), ds.Hinge("left6", "right6", axis=(0, 1, 0))]

G = ds.delassus(ladder, rungs, q)
print("eigenvalues of G:", np.round(np.linalg.eigvalsh(G), 4))

operator = ds.delassus_operator(ladder, rungs, q)
x = np.random.default_rng(0).normal(size=8)
residual = np.abs(operator.apply(operator.solve(x)) - x).max()
print("residual of solve:", residual, "|", operator.factorisation.item().text)
assert np.allclose(operator.apply(operator.solve(x)), x)

corners = [ds.Point(ds.Frame("left6", (dx, dy, 0.0))) for dx in (-0.1, 0.1) for dy in (-0.05, 0.05)]
redundant = ds.delassus_operator(ladder, corners, q)  # twelve rows hold a body of six degrees of freedom
print("four points on one link:", redundant.factorisation.item().text)
assert redundant.factorisation.item() is not operator.factorisation.item()
