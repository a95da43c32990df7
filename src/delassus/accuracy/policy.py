"""Which kernels estimate errors by what solutions miss, which by pivots; what method takes states that one fails at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from delassus.accuracy.estimate import ERROR_BOUND, Request
from delassus.accuracy.pivots import ByPivots
from delassus.algorithms.dynamics import ITERATIVE, METHODS, UNCONSTRAINED
from delassus.spatial.trace.trace_ops import TraceOps

OFTEN = 0.1
"""Part of the usual states: where more are flagged although they are accurate, solutions estimate errors at once."""

ACCURATE = "ltl"
"""Method of hard constraints that takes states at which others are not accurate: it eliminates no rows early."""

LONGEST = 300_000
"""Nodes of a trace of `ACCURATE` up to which it is made: it takes a second, compiling it some minutes."""


def are_no_guide(ops: TraceOps, found: ByPivots | None, dtype: str) -> bool:
    """Whether errors are better estimated by what solutions miss than by pivots, which cost a hundredth of that.

    Pivots are no guide where at some usual state the error is above the bound and they do not say so, or where they
    flag many states although it is not, for these are solved again.
    """
    if found is None or 0 in ops.exact:
        return False
    epsilon, bound = float(np.finfo(dtype).eps), ERROR_BOUND[dtype]
    flagged, wrong = ~(epsilon <= bound * found.at_usual), ~(epsilon * found.noise <= bound)
    return bool(np.any(wrong & ~flagged) or np.mean(flagged & ~wrong) > OFTEN)


def next_method(asked: Request, tried: Sequence[str]) -> str | None:
    """Method of forward dynamics that takes states that those ``tried`` fail at; None: nothing is left.

    Its errors are estimated by what solutions miss.

    `ACCURATE` loses nothing where pivots are small; "proximal" takes rows that depend on one another.
    """
    if asked.method in UNCONSTRAINED or not asked.quantity.methods:
        left = [asked.method]
    else:
        left = [] if asked.is_singular else ["pv-early" if is_long(asked) else ACCURATE]
        iterative = [] if all(asked.options.soft) else [*ITERATIVE]
        left = [*iterative, *left] if asked.method in ITERATIVE else [*left, *iterative]  # rows that depend stay so
    return next((name for name in left if name not in tried), None)


def for_direct_calls(asked: Request) -> Request:
    """The request as direct calls run it: dynamics by `ACCURATE` where the method was left to choose, rows are held."""
    holds = asked.method in METHODS and asked.method not in UNCONSTRAINED
    return replace(asked, method=ACCURATE) if asked.is_chosen and holds and not is_long(asked) else asked


def is_long(asked: Request) -> bool:
    """Whether a trace of `ACCURATE` has more than `LONGEST` nodes: ``n d² + m² d + m³``, as loops fill its matrices."""
    tree, m = asked.tree, sum(c.size for c in asked.constraints)
    d = max((sum(len(tree.joints[j].motion_axes) for j in tree.support(i)) for i in range(tree.n_links)), default=0)
    return bool(tree.nv * d**2 + m**2 * d + m**3 > LONGEST)
