"""The contact solvers by name: which kind of friction each takes, and which one is asked next where it fails.

Functions of arrays check nothing and make no problems, for callers that solve at every step:

===========  =============================================================  ====================================
kind         call                                                           friction
===========  =============================================================  ====================================
``cone``     ``contacts(W, b, mu, start, tolerance, limit)``                exact cones
``linear``   ``contacts(W, b, mu, directions, start, tolerance, limit)``    pyramids, directions (n_f, 2)
===========  =============================================================  ====================================

``W`` (3n, 3n), ``b`` (3n,) and ``mu`` (n,) are those of a `ConeProblem`, C-contiguous float64; ``start`` (3n,) are the
impulses to start from, zeros or those of the step before. Each returns `Impulses`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from delassus.contact.results import Impulses, Solution
from delassus.contact.solvers.admm import admm, admm_contacts
from delassus.contact.solvers.convex import convex
from delassus.contact.solvers.lemke import lemke, lemke_contacts
from delassus.contact.solvers.nsgs import nsgs, nsgs_contacts
from delassus.contact.solvers.pgs import pgs, pgs_contacts


class Solver(NamedTuple):
    """One solver.

    Attributes
    ----------
    kind : {"linear", "cone"}
        Friction on pyramids, or on exact cones.
    solve : callable
        Takes an `LCP` or a `ConeProblem`, with checks; returns a `Solution`.
    contacts : callable, optional
        The same from arrays, without checks.
    then : str
        The solver that is asked where this one fails: exact cones where pyramids have no solution or their matrix is
        badly conditioned; alternating directions, which need no diagonal blocks, where sweeps do not end.
    """

    kind: Literal["linear", "cone"]
    solve: Callable[..., Solution[Any]]
    contacts: Callable[..., Impulses] | None = None
    then: str = ""


SOLVERS: Mapping[str, Solver] = MappingProxyType(
    {
        "lemke": Solver("linear", lemke, lemke_contacts, "nsgs"),
        "pgs": Solver("linear", pgs, pgs_contacts, "nsgs"),
        "nsgs": Solver("cone", nsgs, nsgs_contacts, "admm"),
        "admm": Solver("cone", admm, admm_contacts, "nsgs"),
        "convex": Solver("cone", convex),
    }
)
"""All of them."""
