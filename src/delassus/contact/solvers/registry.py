"""Contact solvers by name, for callers in a hurry: arrays in, arrays out, nothing checked, no objects made.

What they take and return:

===========  =============================================================  ====================================
kind         call                                                           friction
===========  =============================================================  ====================================
``cone``     ``solve(W, b, mu, start, tolerance, limit)``                   exact cones
``linear``   ``solve(W, b, mu, directions, start, tolerance, limit)``       pyramids, directions (n_f, 2)
===========  =============================================================  ====================================

``W`` (3n, 3n), ``b`` (3n,) and ``mu`` (n,) are those of a `ConeProblem`, C-contiguous float64; ``start`` (3n,) are the
impulses to start from, zeros or those of the step before. Each returns impulses (3n,), an outcome, whose status is
``OUTCOMES[outcome]``, and the number of iterations. The outcome ROUND_OFF says that these impulses miss the tolerance
by their rounding to float64 (`nsgs` and `admm` return what is missing). All may be called from functions marked with
`compiled`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from delassus.contact.solvers.admm import admm_kernel
from delassus.contact.solvers.compiled import compiled
from delassus.contact.solvers.nsgs import nsgs_kernel
from delassus.contact.solvers.pyramids import lemke_contacts, pgs_contacts
from delassus.model.rotations import Array


class Solver(NamedTuple):
    """One solver: which kind it is, and the function."""

    kind: Literal["linear", "cone"]
    solve: Callable[..., tuple[Array, int, int]]


@compiled
def nsgs_contacts(W: Array, b: Array, mu: Array, start: Array, tolerance: float, limit: int) -> tuple[Array, int, int]:
    """Impulses (3 n,), outcome and sweeps, by nonsmooth Gauss–Seidel."""
    r, _, _, _, outcome, sweeps = nsgs_kernel(W, b, mu, start, tolerance, limit)
    return r, outcome, sweeps


@compiled
def admm_contacts(W: Array, b: Array, mu: Array, start: Array, tolerance: float, limit: int) -> tuple[Array, int, int]:
    """Impulses (3 n,), outcome and iterations, by alternating directions."""
    r, _, _, _, outcome, iterations = admm_kernel(W, b, mu, start, tolerance, limit)
    return r, outcome, iterations


SOLVERS: Mapping[str, Solver] = MappingProxyType(
    {
        "lemke": Solver("linear", lemke_contacts),
        "pgs": Solver("linear", pgs_contacts),
        "nsgs": Solver("cone", nsgs_contacts),
        "admm": Solver("cone", admm_contacts),
    }
)
"""All of them."""
