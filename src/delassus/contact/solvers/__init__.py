"""Solvers of complementarity problems, one file each; they take arrays and know nothing of robots.

===========  ================================  ============================  =======================================
solver       problem                           cost                          source
===========  ================================  ============================  =======================================
`lemke`      `LCP`                             O(n²) a pivot                 Lemke 1965, lexicographic
`pgs`        `LCP`, by blocks                  O(n²) a sweep                 Cottle, Pang, Stone, section 5.2
`mixed`      `MLCP`, by elimination            O(k³), then as the others     Cottle, Pang, Stone, section 1.5
`nsgs`       `ConeProblem`                     O(n²) a sweep                 Jean 1999, Moreau 1999
`admm`       `ConeProblem`                     O(n²) an iteration            Carpentier et al. 2024
`convex`     relaxation of a `ConeProblem`     interior points               clarabel
===========  ================================  ============================  =======================================

`registry` has them by name, with the one that is asked next where one fails, and as functions of arrays without checks
for callers that solve at every step. What they share: `pivoting` (Lemke's tableau), `pyramids` (linear problems of
contacts), `coulomb` (the exact problem of one contact), `sweeps` and `newton` (on given contact modes), `double_double`
(impulses too large for float64), `linear` (LU factors). `compiled` turns loops into machine code at their first call.
"""
