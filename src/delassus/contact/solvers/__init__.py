"""Solvers of complementarity problems, one file each; they take arrays and know nothing of robots.

`lemke`, `pgs` and `mixed` are for linear problems, `nsgs`, `admm` and `interior` for exact friction cones; `registry`
has them by name, and ``docs/contact_solvers.md`` says which one when. What they share: `pivoting` (Lemke's tableau),
`pyramids` (linear problems of contacts), `newton` (ends at round-off), `double_double` (impulses too large for
float64), `linear` (LU factors). Sweeps are those of `contact.sparse`, on one
block (`contact.sparse.dense`). `compiled` turns loops into machine code at their first call.
"""
