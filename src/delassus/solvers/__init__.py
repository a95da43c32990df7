"""Solvers of complementarity problems, one file each; they take arrays and know nothing of robots.

`lemke`, `pgs` and `mixed` are for linear problems, `nsgs`, `admm` and `interior` for exact friction cones; `registry`
has them by name, and ``docs/contact_solvers.md`` says which one when.

What they share: `problems` and `results`, `pyramids` (linear problems of contacts), `newton`
(ends at round-off), `linear` (LU factors, and velocities of impulses too large for float64). Sweeps are those of
`islands`, on one block. `compiled` turns loops into machine code at their first call.
"""
