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

What they share: `pivoting` (Lemke's tableau), `coulomb` (the exact problem of one contact), `modes` (Newton's method on
given contact modes), `continuation` (from soft contacts to hard ones), `refine` and `extended` (solutions too large for
float64). `by_name` has the fast way, without checks and objects, for callers that solve at every step; `pyramids` is
that of the linear solvers. `compiled` turns loops into machine code at their first call.
"""
